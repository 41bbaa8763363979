//! How many requests and bytes per second a flow may have, where it has caps, and how much memory
//! meanwhile, or under a scheduler that gives everybody a share.
//!
//! A cap is kept at the array and not at its legs, because what is one request to a client is
//! several operations there. Requests beyond it wait in order of arrival, with the memory that
//! writes bring along. Flushes and queries are not counted, and pass.
//!
//! So that those who wait do not have all of the memory, a flow with caps, or under such a
//! scheduler each one, may hold half as much of the arena as is free: the first one that takes all
//! it can holds a third of everything, the next one a third of the rest, and 20 that do so hold a
//! twentieth each and leave as much. What is beyond a flow's share waits, and others pass it; what
//! finds no memory although it is within its share waits in order of arrival. A flow that holds
//! nothing may have any one request.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use heliostat_scheduler::FlowLimits;
use heliostat_types::{Duration, Extent, FlowId, Instant};

use crate::api::{Request, RequestKind};
use crate::asked::Admitted;
use crate::buffer::{BufferId, BufferTable, WriteBuffer};
use crate::engine::{Engine, Turn, Waiting};

/// How far a flow may be ahead of its cap: at a hundred requests per second two of them, at a
/// million enough for a timer that is late.
const BURST: Duration = Duration::from_ms(20);
const SECOND_NS: u64 = 1_000_000_000;

/// What one flow has.
#[derive(Debug, Default)]
struct Account {
    held_bytes: u64,
    limits: FlowLimits,
    /// When as many requests, and as many bytes, would have been done at the pace of the caps.
    requests_until: Instant,
    bytes_until: Instant,
    /// Beyond the caps.
    waiting: VecDeque<Admitted>,
}

/// What flows have of memory and time.
#[derive(Debug)]
pub(crate) struct Admission {
    flows: BTreeMap<FlowId, Account>,
    /// How many flows have caps.
    capped: usize,
    /// All flows have a share, with caps or without.
    shares: bool,
    /// Whose the buffers are, by index.
    owners: Vec<Option<FlowId>>,
    /// All that waits in the engine is beyond its flow's share: others pass it.
    may_pass: bool,
    /// A write was refused that was beyond its flow's share.
    pub(crate) has_refused: bool,
}

impl Account {
    const fn has_caps(&self) -> bool {
        self.limits.iops_max > 0 || self.limits.bytes_per_s_max > 0
    }

    /// When the next request may begin.
    fn begins_at(&self) -> Instant {
        let until = self.requests_until.max(self.bytes_until);
        Instant::from_ns(until.as_ns().saturating_sub(BURST.as_ns()))
    }

    /// A request of so many bytes begins.
    fn begin(&mut self, now: Instant, bytes: u64) {
        let pace = |amount: u64, per_s: u64| {
            let ns = (u128::from(amount) * u128::from(SECOND_NS)).checked_div(u128::from(per_s));
            Duration::from_ns(u64::try_from(ns.unwrap_or(0)).unwrap_or(u64::MAX))
        };
        let limits = self.limits;
        self.requests_until = self.requests_until.max(now) + pace(1, limits.iops_max);
        self.bytes_until = self.bytes_until.max(now) + pace(bytes, limits.bytes_per_s_max);
    }
}

impl Admission {
    /// Nobody has anything; where it `shares`, all flows have a share.
    pub(crate) const fn new(shares: bool) -> Self {
        Self {
            flows: BTreeMap::new(),
            capped: 0,
            shares,
            owners: Vec::new(),
            may_pass: true,
            has_refused: false,
        }
    }

    /// Whether anybody's share is looked at.
    const fn is_on(&self) -> bool {
        self.capped > 0 || self.shares
    }

    /// Whether all flows have a share.
    pub(crate) const fn set_shares(&mut self, shares: bool) {
        self.shares = shares;
    }

    /// Nothing waits for its time.
    pub(crate) fn is_idle(&self) -> bool {
        self.capped == 0 || self.flows.values().all(|flow| flow.waiting.is_empty())
    }

    /// When the next request may begin that waits for its time.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        if self.capped == 0 {
            return None;
        }
        let waiting = self.flows.values().filter(|flow| !flow.waiting.is_empty());
        waiting.map(Account::begins_at).min()
    }

    /// Whether a flow may hold so much more.
    fn may_hold(&self, flow: FlowId, bytes: u64, buffers: &BufferTable) -> bool {
        let account = self.flows.get(&flow);
        let is_limited = self.shares || account.is_some_and(Account::has_caps);
        let held = account.map_or(0, |account| account.held_bytes);
        let free = buffers.total_bytes().saturating_sub(buffers.used_bytes());
        !is_limited || held == 0 || held + bytes <= free as u64 / 2
    }

    /// A flow has a buffer.
    fn hold(&mut self, flow: FlowId, buffer: BufferId, bytes: u64) {
        let index = buffer.0 as usize;
        if self.owners.len() <= index {
            self.owners.resize(index + 1, None);
        }
        self.owners[index] = Some(flow);
        self.flows.entry(flow).or_default().held_bytes += bytes;
    }

    /// A buffer is free.
    fn give_back(&mut self, buffer: BufferId, bytes: u64) {
        let owner = self.owners.get_mut(buffer.0 as usize);
        let Some(flow) = owner.and_then(Option::take) else {
            return;
        };
        if let Some(account) = self.flows.get_mut(&flow) {
            account.held_bytes = account.held_bytes.saturating_sub(bytes);
            if account.held_bytes == 0 && account.limits == FlowLimits::DEFAULT {
                self.flows.remove(&flow);
            }
        }
    }
}

/// How many bytes a request moves; `None` of what has no caps.
const fn bytes_of(request: &Admitted) -> Option<u64> {
    match request.kind {
        RequestKind::Read { extent } | RequestKind::Write { extent, .. } => Some(extent.len()),
        RequestKind::Trim { .. } | RequestKind::WriteZeroes { .. } => Some(0),
        RequestKind::Flush | RequestKind::BlockStatus { .. } => None,
    }
}

impl Engine {
    /// The flows that have caps.
    pub fn capped_flows(&self) -> impl Iterator<Item = FlowId> {
        let flows = self.admission.flows.iter();
        let capped = flows.filter(|(_, account)| account.has_caps());
        capped.map(|(flow, _)| *flow)
    }

    /// Whether each flow has its share of the memory: who is refused does not hold up others.
    #[must_use]
    pub const fn has_memory_shares(&self) -> bool {
        self.admission.is_on()
    }

    /// A buffer for the bytes of a write of `flow` to `extent` (not empty, inside the array, not
    /// larger than a request may be), or `None` while memory is short, or the flow has its share of
    /// it: then [`crate::Output::MemoryFreed`] will come.
    pub fn alloc_write(&mut self, flow: FlowId, extent: Extent) -> Option<WriteBuffer> {
        self.alloc_writes(flow, &[extent])
    }

    /// The same for several writes that are submitted together, in this order, and whose bytes lie
    /// one behind the other in the buffer. They meet at borders of blocks.
    pub fn alloc_writes(&mut self, flow: FlowId, extents: &[Extent]) -> Option<WriteBuffer> {
        if !self.admission.is_on() {
            return self.alloc_in_turn(extents);
        }
        let block = self.block_bytes();
        let bytes = extents.iter().map(|one| one.aligned_out(block).len()).sum();
        if !self.admission.may_hold(flow, bytes, &self.buffers) {
            self.admission.has_refused = true;
            return None;
        }
        self.writes_turn |= self.admission.may_pass;
        let allocated = self.alloc_in_turn(extents)?;
        self.note_holder(flow, allocated.buffer);
        Some(allocated)
    }

    /// A flow has a buffer from now on.
    pub(crate) fn note_holder(&mut self, flow: FlowId, buffer: BufferId) {
        if self.admission.is_on() {
            let bytes = self.buffers.bytes_of(buffer) as u64;
            self.admission.hold(flow, buffer, bytes);
        }
    }

    /// Gives up one reference to a buffer.
    pub(crate) fn release_buffer(&mut self, buffer: BufferId) {
        if self.admission.owners.is_empty() {
            self.memory_freed |= self.buffers.release(buffer);
            return;
        }
        let bytes = self.buffers.bytes_of(buffer) as u64;
        if self.buffers.release(buffer) {
            self.memory_freed = true;
            self.admission.give_back(buffer, bytes);
        }
    }

    /// A client asks: at once, or when its cap says.
    pub(crate) fn request_arrived(&mut self, turn: &mut Turn<'_>, request: Request) {
        let request = self.admit_request(request);
        if self.admission.capped > 0
            && let Some(bytes) = bytes_of(&request)
            && let Some(account) = self.admission.flows.get_mut(&request.flow)
            && account.has_caps()
        {
            if !account.waiting.is_empty() || account.begins_at() > turn.now {
                return account.waiting.push_back(request);
            }
            account.begin(turn.now, bytes);
        }
        self.begin_request(turn, request);
    }

    /// Begins what has waited for its time.
    pub(crate) fn begin_capped(&mut self, turn: &mut Turn<'_>) {
        if self.admission.capped == 0 {
            return;
        }
        let flows: Vec<FlowId> = self.admission.flows.keys().copied().collect();
        for flow in flows {
            while let Some(account) = self.admission.flows.get_mut(&flow)
                && account.begins_at() <= turn.now
                && let Some(request) = account.waiting.pop_front()
            {
                account.begin(turn.now, bytes_of(&request).unwrap_or(0));
                self.begin_request(turn, request);
            }
        }
    }

    /// A flow may have something else from now on.
    pub(crate) fn set_flow(&mut self, turn: &mut Turn<'_>, flow: FlowId, limits: FlowLimits) {
        let account = self.admission.flows.entry(flow).or_default();
        account.limits = limits;
        // Nobody is held to what a cap that is gone would have let begin.
        account.requests_until = Instant::ZERO;
        account.bytes_until = Instant::ZERO;
        let waiting = if account.has_caps() {
            VecDeque::new()
        } else {
            std::mem::take(&mut account.waiting)
        };
        if account.held_bytes == 0 && limits == FlowLimits::DEFAULT {
            self.admission.flows.remove(&flow);
        }
        let flows = self.admission.flows.values();
        self.admission.capped = flows.filter(|flow| flow.has_caps()).count();
        for request in waiting {
            self.begin_request(turn, request);
        }
        self.begin_capped(turn);
        // Whoever was refused for his share may not be now.
        self.memory_freed = true;
        self.set_share(turn.now, flow, limits);
    }

    /// A request that needs memory: at once, or when there is some.
    pub(crate) fn admit_or_wait(&mut self, turn: &mut Turn<'_>, request: Admitted) {
        let is_beyond = self.admission.is_on() && !self.is_within_share(&request);
        let must_wait = is_beyond || !self.waiting.is_empty();
        if must_wait || !self.admit(turn, &request) {
            self.wait_for_memory(Waiting::Request(request), false);
            // Others may pass.
            self.memory_freed |= self.admission.is_on();
        }
    }

    /// Whether what a request needs is within the share of its flow.
    fn is_within_share(&self, request: &Admitted) -> bool {
        let RequestKind::Read { extent } = request.kind else {
            return true;
        };
        let bytes = extent.aligned_out(self.block_bytes()).len();
        self.admission.may_hold(request.flow, bytes, &self.buffers)
    }

    /// The first that waits for memory and whose turn it is: by place in the queue. Where shares
    /// are looked at, those that are beyond theirs are passed, with all of their flow behind them.
    pub(crate) fn next_waiting(&mut self) -> Option<usize> {
        if !self.admission.is_on() {
            return (!self.waiting.is_empty()).then_some(0);
        }
        let mut passed = BTreeSet::new();
        let found = self.waiting.iter().position(|waiting| match waiting {
            Waiting::Request(request) => {
                let may = !passed.contains(&request.flow) && self.is_within_share(request);
                if !may {
                    passed.insert(request.flow);
                }
                may
            }
            Waiting::Restart(_) | Waiting::Edge(_) | Waiting::Commit => true,
        });
        self.admission.may_pass = found.is_none();
        found
    }
}
