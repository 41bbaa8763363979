//! The array in the middle of the loop: engine, legs and memory, and what connects them.
//!
//! Every input goes through [`Core::input`], which carries out all that the engine wants before
//! the next one. Answers are queued, never delivered from within: an export that is being called
//! is not called again.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use heliostat_engine::{
    Account, Answer as EngineAnswer, BufferId, BufferSlice, Engine, Event, FaultReason, Input,
    LegOp, Memory, Output, Request, RequestKind,
};
use heliostat_leg::{Arena, ArenaRange, LegDone, LegHub, LegIo, LegOutcome, OpenedLeg};
use heliostat_policy::{PolicyControl, PolicyError, PolicySpec};
use heliostat_types::{
    ClientId, ErrorKind, Instant, LegId, LegOpId, RandomStream, RequestId, StreamId,
};

use crate::clock::Clock;
use crate::events;
use crate::explain::Access;
use crate::export::{Answer, ArrayInfo, ClientKey, Interest, Peer};
use crate::flows::{self, Flows};
use crate::keeper::Keeper;
use crate::learned::Learned;
use crate::log::Log;
use crate::md::name_of_missing;
use crate::poller::Poller;
use crate::volumes::{Place, Volumes};
use crate::work::WorkLog;

mod spares;
mod volumes;

pub(crate) use spares::SpareLeg;
use spares::Spares;
use volumes::Asked;

/// How many bits of a request's number are the export's own; the rest says which export.
const TAG_BITS: u32 = 56;

/// The number of the flush at the end; no export has an index this high.
const LAST_FLUSH: RequestId = RequestId(u64::MAX);

/// How many clients are told apart. Beyond, all are forgotten and counted anew: a daemon that runs
/// for years must not remember each process that ever asked it something.
const CLIENTS_MAX: usize = 65_536;

/// How many clients are remembered that are gone: those that somebody may ask for who was not quick
/// enough, each with some ten KiB of histograms.
const DEPARTED_MAX: usize = 16;

/// A client that is gone.
#[derive(Clone, Debug)]
pub(crate) struct Departed {
    pub(crate) name: String,
    pub(crate) at: Instant,
    pub(crate) account: Account,
}

/// What became of a request.
#[derive(Debug)]
pub(crate) struct Completion {
    /// Which export asked.
    pub(crate) export: usize,
    /// What it calls the request.
    pub(crate) tag: u64,
    /// How it went.
    pub(crate) result: Result<Answer, ErrorKind>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Core {
    engine: Engine,
    hub: LegHub,
    memory: ArenaMemory,
    prng: RandomStream,
    clock: Clock,
    now: Instant,
    pub(crate) info: ArrayInfo,
    pub(crate) poller: Poller,
    pub(crate) keeper: Keeper,
    pub(crate) policy: PolicyControl,
    /// The way to the policy itself, which the engine has.
    pub(crate) access: Access,
    pub(crate) learned: Learned,
    pub(crate) log: Log,
    pub(crate) work: WorkLog,
    leg_names: Vec<String>,
    clients: BTreeMap<(usize, ClientKey), ClientId>,
    next_client: u64,
    pub(crate) flows: Flows,
    pub(crate) volumes: Volumes,
    /// What clients asked for that are gone, the latest last.
    pub(crate) departed: VecDeque<Departed>,
    /// As the engine gave them.
    completions: VecDeque<(RequestId, Result<EngineAnswer, ErrorKind>)>,
    done: Vec<LegDone>,
    /// Operations were submitted that the kernel was not told of yet.
    is_kick_due: bool,
    was_memory_freed: bool,
    /// A descriptor of the legs was ready.
    was_woken_by_legs: bool,
    last_flush: Option<Result<(), ErrorKind>>,
    /// What the engine wanted compared, and is to be told.
    compared: Vec<Input>,
    /// What is to be done as one and has not all come.
    joined: Vec<LegIo>,
    spares: Spares,
}

/// What a [`Core`] is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) engine: Engine,
    pub(crate) hub: LegHub,
    pub(crate) arena: Arc<Arena>,
    pub(crate) clock: Clock,
    pub(crate) seed: u64,
    pub(crate) info: ArrayInfo,
    pub(crate) poller: Poller,
    pub(crate) keeper: Keeper,
    pub(crate) policy: PolicyControl,
    pub(crate) access: Access,
    pub(crate) learned: Learned,
    pub(crate) log: Log,
    pub(crate) work: WorkLog,
    pub(crate) leg_names: Vec<String>,
    pub(crate) volumes: Volumes,
}

impl Core {
    /// Puts the parts together.
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            engine: parts.engine,
            hub: parts.hub,
            memory: ArenaMemory(parts.arena),
            prng: RandomStream::new(parts.seed, "policy", 0),
            now: parts.clock.now(),
            clock: parts.clock,
            info: parts.info,
            poller: parts.poller,
            keeper: parts.keeper,
            policy: parts.policy,
            access: parts.access,
            learned: parts.learned,
            log: parts.log,
            work: parts.work,
            leg_names: parts.leg_names,
            clients: BTreeMap::new(),
            next_client: 0,
            flows: Flows::new(),
            volumes: parts.volumes,
            departed: VecDeque::new(),
            completions: VecDeque::new(),
            done: Vec::new(),
            is_kick_due: false,
            was_memory_freed: false,
            // Models count time from the first look at them.
            was_woken_by_legs: true,
            last_flush: None,
            compared: Vec::new(),
            joined: Vec::new(),
            spares: Spares::default(),
        }
    }

    /// The time that everything happens at until [`Core::update_now`].
    pub(crate) const fn now(&self) -> Instant {
        self.now
    }

    /// Reads the clock.
    pub(crate) fn update_now(&mut self) {
        self.now = self.clock.now();
    }

    /// The engine, to look at.
    pub(crate) const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The legs, to look at.
    pub(crate) const fn hub(&self) -> &LegHub {
        &self.hub
    }

    /// The legs as the user wrote them, by number. There may be one without a name: nothing is in
    /// its place.
    pub(crate) fn leg_names(&self) -> &[String] {
        &self.leg_names
    }

    /// What a leg is called in sentences: `leg ROLE (NAME)`.
    pub(crate) fn leg_title(&self, leg: LegId) -> String {
        let role = self.engine.map().role_of(leg);
        events::title(role, &self.leg_names[leg.index()])
    }

    /// The same without its role, where it has a name of its own.
    pub(crate) fn leg_word(&self, leg: LegId) -> String {
        let name = &self.leg_names[leg.index()];
        match self.engine.map().role_of(leg) {
            Some(role) if *name == name_of_missing(role) => format!("leg {role}"),
            Some(_) | None => name.clone(),
        }
    }

    /// A device takes the place of a leg that is out.
    ///
    /// # Errors
    /// Where the kernel refuses it.
    pub(crate) fn attach(&mut self, leg: LegId, opened: OpenedLeg) -> Result<(), String> {
        let name = opened.name().to_owned();
        let device = opened.info().identity.clone();
        let attached = self.hub.attach(leg, opened);
        attached.map_err(|error| error.to_string())?;
        self.learned.set_device(leg, device);
        self.leg_names[leg.index()] = name;
        Ok(())
    }

    /// The array has one more leg, and perhaps a place for another one, which is behind all others
    /// also where the new leg has the number of one that was replaced.
    fn make_room(&mut self, leg: LegId) {
        let last = self.engine.free_leg().map_or(leg, |free| free.max(leg));
        if self.leg_names.len() <= last.index() {
            self.leg_names.resize(last.index() + 1, String::new());
        }
        let role = self.engine.map().role_of(leg).expect("it has a new one");
        self.leg_names[leg.index()] = name_of_missing(role);
    }

    /// What a leg is called from now on.
    pub(crate) fn rename(&mut self, leg: LegId, name: String) {
        self.leg_names[leg.index()] = name;
    }

    /// Tells the engine and does all that it wants done.
    pub(crate) fn input(&mut self, input: Input) {
        self.engine.handle_input(self.now, input, &mut self.prng);
        self.carry_out();
        while let Some(compared) = self.compared.pop() {
            self.engine.handle_input(self.now, compared, &mut self.prng);
            self.carry_out();
        }
        while let Some(generation) = self.keeper.persist_noted() {
            let input = Input::Persisted { generation };
            self.engine.handle_input(self.now, input, &mut self.prng);
            self.carry_out();
        }
        self.put_in_place();
    }

    fn carry_out(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Dispatch(op) => self.dispatch(op),
                Output::Buffer(step) => self.engine.buffers().execute(step, &mut self.memory),
                Output::Compare(what) => {
                    let buffers = self.engine.buffers();
                    self.compared.push(what.carry_out(buffers, &self.memory));
                }
                Output::Complete { id, result } => self.complete(id, result),
                Output::Persist(record) => self.keeper.note_record(record),
                Output::Event(event) => {
                    if let Event::LegFaulted { leg, .. } | Event::LegReplaced { leg, .. } = event {
                        self.hub.retire(leg);
                    }
                    if let Event::Grown { leg } = event {
                        self.make_room(leg);
                    }
                    self.keeper.note_event(&event);
                    self.work.note_event(self.now, &event);
                    if !self.log.shows(&event) {
                        let name = |leg| self.leg_title(leg);
                        let line = events::describe(&event, &name, &self.leg_names);
                        self.log.line(line);
                    }
                }
                Output::UseSpare { spare, leg } => self.spares.call(spare, leg),
                Output::MemoryFreed => self.was_memory_freed = true,
            }
        }
    }

    fn dispatch(&mut self, op: LegOp) {
        let memory = op
            .memory
            .map(|slice| arena_range(&self.engine, slice).into());
        let io = LegIo {
            op: op.id,
            kind: op.kind,
            extent: op.extent,
            memory,
            fua: op.fua,
            may_trim: op.may_trim,
            failfast: op.failfast,
        };
        if op.next.is_some() {
            self.joined.push(io);
        } else if self.joined.is_empty() {
            self.hub.submit(self.now, op.leg, io);
        } else {
            self.joined.push(io);
            self.hub.submit_joined(self.now, op.leg, &self.joined);
            self.joined.clear();
        }
        self.is_kick_due = true;
    }

    fn complete(&mut self, id: RequestId, result: Result<EngineAnswer, ErrorKind>) {
        if id == LAST_FLUSH {
            self.last_flush = Some(result.map(|_| ()));
            return;
        }
        self.completions.push_back((id, result));
    }

    /// Hands a request of an export in.
    pub(crate) fn submit(
        &mut self,
        export: usize,
        tag: u64,
        peer: Peer,
        stream: StreamId,
        kind: RequestKind,
    ) {
        assert!(tag >> TAG_BITS == 0, "a tag has at most 56 bits");
        if self.info.read_only && is_mutating(&kind) {
            let id = RequestId((export as u64) << TAG_BITS | tag);
            return self.refuse(id, kind, ErrorKind::ReadOnly);
        }
        self.place(export, tag, Asked { peer, stream, kind });
    }

    /// Makes durable what was answered, at the end of everything.
    pub(crate) fn begin_last_flush(&mut self) {
        // What is not done yet is for the next start.
        self.input(Input::PauseBackground);
        self.input(Input::Request(Request {
            id: LAST_FLUSH,
            client: ClientId(u64::MAX),
            flow: flows::SHARED,
            stream: StreamId(u64::MAX),
            kind: RequestKind::Flush,
        }));
    }

    /// What became of [`Core::begin_last_flush`].
    pub(crate) const fn last_flush(&self) -> Option<Result<(), ErrorKind>> {
        self.last_flush
    }

    /// There may be something to reap, whatever the legs themselves know of it.
    pub(crate) const fn wake_by_legs(&mut self) {
        self.was_woken_by_legs = true;
    }

    /// Takes in what legs have completed, where there may be something. Whether there was any.
    pub(crate) fn reap(&mut self) -> bool {
        let is_due = self.hub.next_deadline().is_some_and(|at| at <= self.now);
        let may_have = std::mem::take(&mut self.was_woken_by_legs) || self.hub.has_ready();
        if !may_have && !is_due {
            return false;
        }
        // Legs in memory complete while they are given work: what that took is what has passed
        // since then, not nothing.
        self.update_now();
        let mut done = std::mem::take(&mut self.done);
        self.hub.reap(self.now, &mut done);
        for (leg, note) in self.hub.take_notes() {
            let title = self.leg_title(leg);
            self.log.line(format!("{title}: {note}"));
        }
        let has_any = !done.is_empty();
        for LegDone { leg, op, outcome } in done.drain(..) {
            match outcome {
                LegOutcome::Done => self.leg_completed(op, Ok(())),
                LegOutcome::Failed(kind) => self.leg_completed(op, Err(kind)),
                LegOutcome::Status(runs) => self.input(Input::StatusCompletion {
                    op,
                    result: Ok(runs),
                }),
                LegOutcome::Short => self.leg_ended(leg, op, FaultReason::Short),
                LegOutcome::Lost => self.leg_ended(leg, op, FaultReason::Lost),
            }
        }
        self.done = done;
        has_any
    }

    /// An operation has failed in a way that says that its leg is not to be trusted.
    fn leg_ended(&mut self, leg: LegId, op: LegOpId, reason: FaultReason) {
        // First the leg, so that nothing is sent to it again because of the operation.
        self.input(Input::FailLeg { leg, reason });
        self.leg_completed(op, Err(ErrorKind::Io));
    }

    fn leg_completed(&mut self, op: LegOpId, result: Result<(), ErrorKind>) {
        self.input(Input::LegCompletion { op, result });
    }

    /// Tells the kernel of what was submitted to the legs.
    pub(crate) fn kick(&mut self) {
        if std::mem::take(&mut self.is_kick_due) {
            self.hub.kick();
        }
    }

    /// Whether something is to be done without waiting for anything.
    pub(crate) fn has_work(&self) -> bool {
        self.is_kick_due
            || self.was_memory_freed
            || !self.completions.is_empty()
            || self.hub.has_ready()
    }

    /// Whether exports are to be told that memory was freed.
    pub(crate) fn take_memory_freed(&mut self) -> bool {
        std::mem::take(&mut self.was_memory_freed)
    }

    /// A connection of this client begins.
    pub(crate) fn join(&mut self, export: usize, key: ClientKey) -> Peer {
        let flow = self.flows.join(export, &key);
        if self.clients.len() >= CLIENTS_MAX {
            self.clients.clear();
        }
        let next = &mut self.next_client;
        let client = *self.clients.entry((export, key)).or_insert_with(|| {
            *next += 1;
            ClientId(*next - 1)
        });
        Peer {
            client,
            flow,
            place: Place::Nowhere,
        }
    }

    /// Closes the accounts of those that have left; who asked for something is remembered.
    pub(crate) fn close_accounts(&mut self) {
        for (flow, name) in self.flows.take_gone() {
            let Some(account) = self.engine.close_account(flow) else {
                continue;
            };
            if self.departed.len() == DEPARTED_MAX {
                self.departed.pop_front();
            }
            let at = self.now;
            self.departed.push_back(Departed { name, at, account });
        }
    }

    /// Gives a buffer back.
    pub(crate) fn release(&mut self, buffer: BufferId) {
        self.input(Input::Release { buffer });
    }

    /// Bytes that nobody changes while they are looked at.
    pub(crate) fn bytes(&self, slice: BufferSlice) -> &[u8] {
        self.memory.0.slice(arena_range(&self.engine, slice))
    }

    /// Bytes that nobody else looks at while they are changed.
    #[expect(
        clippy::needless_pass_by_ref_mut,
        reason = "one at a time changes bytes"
    )]
    pub(crate) fn bytes_mut(&mut self, slice: BufferSlice) -> &mut [u8] {
        self.memory.0.slice_mut(arena_range(&self.engine, slice))
    }

    /// Watches the descriptors of the legs under `key`.
    pub(crate) fn watch_legs(&self, key: u64) -> std::io::Result<()> {
        for fd in self.hub.fds() {
            self.poller.watch(fd, key, Interest::READABLE)?;
        }
        Ok(())
    }

    /// Watches a descriptor.
    pub(crate) fn watch(
        &self,
        fd: BorrowedFd<'_>,
        key: u64,
        interest: Interest,
    ) -> std::io::Result<()> {
        self.poller.watch(fd, key, interest)
    }

    /// Keeps what the policy has learned, which has the tunables of `spec`.
    pub(crate) fn keep_learned(&mut self, spec: PolicySpec) {
        let legs: Vec<LegId> = self.learned.legs().collect();
        let (access, now) = (self.access.clone(), self.now);
        let seen = access.look(now, legs.clone(), None, || {
            self.input(Input::ConfigurePolicy(spec));
        });
        let learned = legs.into_iter().zip(seen.learned);
        self.learned.note(now, spec.policy().name, learned);
    }

    /// Chooses legs by another policy from now on, or by the same one under other tunables: that
    /// one goes on with what it has learned. Its full form.
    ///
    /// # Errors
    /// Where there is no such policy or value; nothing has changed then.
    pub(crate) fn set_policy(&mut self, text: &str) -> Result<String, PolicyError> {
        let array = heliostat_policy::ArrayInfo::new(self.engine.map().legs());
        let before = *self.policy.active();
        let spec = *self.policy.store(text, &array)?;
        let input = if spec.policy().name == before.policy().name {
            Input::ConfigurePolicy(spec)
        } else {
            self.keep_learned(before);
            let mut policy = spec.build(&array)?;
            self.learned.recall(policy.as_mut());
            Input::SetPolicy(self.access.listened_to(policy))
        };
        self.input(input);
        Ok(spec.to_string())
    }

    /// Gives a tunable of a policy, active or not, a value. The policy's full form, and whether it
    /// is active.
    pub(crate) fn set_tunable(
        &mut self,
        policy: &str,
        tunable: &str,
        text: &str,
    ) -> Result<(String, bool), PolicyError> {
        let array = heliostat_policy::ArrayInfo::new(self.engine.map().legs());
        let spec = *self.policy.set(policy, tunable, text, &array)?;
        let is_active = self.policy.active().policy().name == policy;
        if is_active {
            self.input(Input::ConfigurePolicy(spec));
        }
        Ok((spec.to_string(), is_active))
    }
}

fn arena_range(engine: &Engine, slice: BufferSlice) -> ArenaRange {
    let range = engine.buffers().resolve(slice);
    ArenaRange {
        offset_bytes: range.start,
        len_bytes: range.len(),
    }
}

const fn is_mutating(kind: &RequestKind) -> bool {
    match kind {
        RequestKind::Write { .. } | RequestKind::Trim { .. } | RequestKind::WriteZeroes { .. } => {
            true
        }
        RequestKind::Read { .. } | RequestKind::Flush | RequestKind::BlockStatus { .. } => false,
    }
}

/// The arena as the engine's buffer table sees it.
#[derive(Debug)]
struct ArenaMemory(Arc<Arena>);

impl Memory for ArenaMemory {
    fn copy(&mut self, from: usize, to: usize, len: usize) {
        self.0.copy(from, to, len);
    }

    fn zero(&mut self, at: usize, len: usize) {
        self.0.zero(at, len);
    }

    fn store(&mut self, at: usize, bytes: &[u8]) {
        self.0.store(at, bytes);
    }

    fn is_equal(&self, one: usize, other: usize, len: usize) -> bool {
        let bytes = |offset_bytes| {
            self.0.slice(ArenaRange {
                offset_bytes,
                len_bytes: len,
            })
        };
        bytes(one) == bytes(other)
    }
}
