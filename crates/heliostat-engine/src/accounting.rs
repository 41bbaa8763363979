//! Accounting: what was asked for, how much of it was there at once, and how long it took.
//!
//! One [`Account`] for each client and one for each leg, of the same parts: a [`Traffic`] for each
//! kind of operation, and how long anything was in flight at all. What is told of the array is the
//! sum of its clients' accounts, so that a request is counted once.
//!
//! As little as can be is done while requests pass. How long operations were in flight, weighted
//! with how many there were at once, is the sum of how long each took, and that is known; for those
//! that are still in flight it is added when somebody asks, who looks at each of them anyway to see
//! whether it is late.

use heliostat_types::{Duration, FlowId, Instant, LEGS_MAX, LegId, LegSet, OpKind};
use stdx::histogram::Histogram;

use crate::api::{Config, LegStats};
use crate::engine::Engine;
use crate::legs::Op;

/// How many clients have an account of their own at most: each may keep some 16 KiB for every kind
/// of request that it has ever sent. Those with higher numbers share the first account.
pub const FLOWS_MAX: usize = 256;

/// How many buckets of milliseconds there are.
pub const MS_BUCKETS: usize = 15;

/// What is shorter falls into the first of them, as nearly everything does.
const FIRST_BUCKET: Duration = Duration::from_ms(8);

/// How many kinds of operations there are.
const KINDS: usize = OpKind::ALL.len();

/// How long things took: exactly in sum and extremes, within 1.6 % for percentiles, and in the
/// buckets <8 ms, <16 ms and so on, doubling, to <65,536 ms and more.
#[derive(Clone, Debug, Default)]
pub struct Times {
    fine_ns: Histogram,
    /// By bucket, but for the first, which has the rest.
    slow: [u64; MS_BUCKETS],
}

impl Times {
    /// Counts one.
    #[inline]
    pub fn record(&mut self, time: Duration) {
        self.fine_ns.record(time.as_ns());
        if time >= FIRST_BUCKET {
            self.record_slow(time);
        }
    }

    #[cold]
    fn record_slow(&mut self, time: Duration) {
        let doublings = (time.as_ms() / FIRST_BUCKET.as_ms()).ilog2();
        self.slow[(doublings as usize + 1).min(MS_BUCKETS - 1)] += 1;
    }

    /// Adds all that `other` has counted.
    pub fn merge(&mut self, other: &Self) {
        self.fine_ns.merge(&other.fine_ns);
        for (mine, theirs) in self.slow.iter_mut().zip(other.slow) {
            *mine += theirs;
        }
    }

    /// In nanoseconds, with percentiles, sum and exact extremes.
    #[must_use]
    pub const fn fine_ns(&self) -> &Histogram {
        &self.fine_ns
    }

    /// How many took less than 8 ms, less than 16 ms and so on; the last: 65,536 ms and more.
    #[must_use]
    pub fn buckets_ms(&self) -> [u64; MS_BUCKETS] {
        let mut buckets = self.slow;
        buckets[0] = self.fine_ns.count() - self.slow.iter().sum::<u64>();
        buckets
    }
}

/// How long operations waited in front of a leg that waited at all.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    times: Option<Box<Times>>,
}

impl Waits {
    pub(crate) fn record(&mut self, wait: Duration) {
        self.times.get_or_insert_default().record(wait);
    }

    /// How long each of these waited, of which the others went to the device at once.
    #[must_use]
    pub fn among(&self, traffic: &Traffic) -> Times {
        let mut times = self.times.as_deref().cloned().unwrap_or_default();
        let none = traffic.count() - times.fine_ns.count();
        times.fine_ns.record_many(0, none);
        times
    }
}

/// Which legs could have been chosen for reads, and which were, as btrfs's files show it: since
/// others could have been the last time, which are few times.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choices {
    candidates: LegSet,
    count: u64,
    /// By leg, how often it was chosen, and when it was last.
    chosen: [(u64, u64); LEGS_MAX],
}

impl Choices {
    /// A choice among `candidates`; `false` where others could have been chosen the last time, and
    /// nothing was counted.
    #[inline]
    pub(crate) fn count(&mut self, candidates: LegSet, chosen: LegId) -> bool {
        if candidates != self.candidates {
            return false;
        }
        self.count += 1;
        let (times, last) = &mut self.chosen[chosen.index()];
        *times += 1;
        *last = self.count;
        true
    }

    /// Begins anew, with other candidates.
    pub(crate) fn begin(&mut self, candidates: LegSet) {
        *self = Self {
            candidates,
            ..Self::default()
        };
    }

    /// Adds what was counted to `age` and `ignored` of a leg.
    pub(crate) fn add_to(&self, leg: LegId, age: &mut u64, ignored: &mut u64) {
        if !self.candidates.contains(leg) {
            return;
        }
        let (chosen, last) = self.chosen[leg.index()];
        *ignored += self.count - chosen;
        *age = if chosen == 0 {
            *age + self.count
        } else {
            self.count - last
        };
    }
}

/// Whether anything is in flight, and for how long something was.
#[derive(Clone, Copy, Debug, Default)]
struct Ticks {
    in_flight: u64,
    /// When the last one began that found nothing in flight.
    since: Instant,
    /// Of times that are over.
    total: Duration,
}

impl Ticks {
    /// One begins; whether it found nothing in flight.
    #[inline]
    fn begin(&mut self, now: Instant) -> bool {
        let is_first = self.in_flight == 0;
        if is_first {
            self.since = now;
        }
        self.in_flight += 1;
        is_first
    }

    /// One ends; whether it leaves nothing in flight.
    #[inline]
    fn end(&mut self, now: Instant) -> bool {
        self.in_flight -= 1;
        let is_last = self.in_flight == 0;
        if is_last {
            self.total += now - self.since;
        }
        is_last
    }

    fn until(&self, now: Instant) -> Duration {
        if self.in_flight == 0 {
            return self.total;
        }
        self.total + (now - self.since)
    }

    fn reset(&mut self, now: Instant) {
        self.total = Duration::ZERO;
        self.since = now;
    }
}

/// What was done of one kind.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// Bytes of what has ended, by success or not.
    pub bytes: u64,
    /// How many have failed.
    pub errors: u64,
    /// How many took the client time-out or longer.
    pub late: u64,
    /// Made with the first one that ends.
    times: Option<Box<Times>>,
    /// How long those were in flight that were given up, or that the statistics do not count.
    uncounted_ns: i128,
    /// How many are in flight: known of copies alone.
    in_flight: u64,
    /// How long they have been, added up.
    in_flight_ns: u128,
}

impl Traffic {
    /// How many have ended, by success or not.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.times().map_or(0, |times| times.fine_ns().count())
    }

    /// How long they took; `None` where none has ended.
    #[must_use]
    pub fn times(&self) -> Option<&Times> {
        self.times.as_deref()
    }

    /// How many were in flight when this was copied.
    #[must_use]
    pub const fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// How long each has been in flight, added up: divided by the time that has passed, how many
    /// were in flight on average.
    #[must_use]
    pub fn weighted_ns(&self) -> u128 {
        let ended = self.times().map_or(0, |times| times.fine_ns().sum());
        (ended + self.in_flight_ns).saturating_add_signed(self.uncounted_ns)
    }

    #[inline]
    fn end(&mut self, len_bytes: u64, failed: bool, time: Duration) {
        self.bytes += len_bytes;
        if failed {
            self.errors += 1;
        }
        match &mut self.times {
            Some(times) => times.record(time),
            None => self.record_first(time),
        }
    }

    /// The first one of its kind. Apart, as the memory for it is large.
    #[cold]
    fn record_first(&mut self, time: Duration) {
        self.times.insert(Box::default()).record(time);
    }

    /// One is in flight that is so old.
    fn add_in_flight(&mut self, age: Duration) {
        self.in_flight += 1;
        self.in_flight_ns += u128::from(age.as_ns());
    }

    /// Everything is counted from now on; of what is in flight, how long it was until now is not.
    fn reset(&mut self) {
        let in_flight_ns = i128::try_from(self.in_flight_ns).expect("less than 2^127");
        *self = Self {
            uncounted_ns: -in_flight_ns,
            ..Self::default()
        };
    }

    fn merge(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.late += other.late;
        self.uncounted_ns += other.uncounted_ns;
        self.in_flight += other.in_flight;
        self.in_flight_ns += other.in_flight_ns;
        if let Some(times) = &other.times {
            self.times.get_or_insert_default().merge(times);
        }
    }
}

/// What one client asked for, or one leg was asked.
#[derive(Clone, Debug, Default)]
pub struct Account {
    since: Instant,
    ticks: Ticks,
    kinds: [Traffic; KINDS],
}

impl Account {
    fn new(now: Instant) -> Self {
        Self {
            since: now,
            ..Self::default()
        }
    }

    /// Since when it counts.
    #[must_use]
    pub const fn since(&self) -> Instant {
        self.since
    }

    /// How long anything was in flight, until `now`.
    #[must_use]
    pub fn ticks(&self, now: Instant) -> Duration {
        self.ticks.until(now)
    }

    /// What there was of one kind.
    #[must_use]
    pub const fn of(&self, kind: OpKind) -> &Traffic {
        &self.kinds[kind as usize]
    }

    /// One begins; whether it found nothing in flight.
    #[inline]
    pub(crate) fn begin(&mut self, now: Instant) -> bool {
        self.ticks.begin(now)
    }

    /// One that began then is given up: it is in flight no more, and not counted.
    pub(crate) fn give_up(&mut self, now: Instant, kind: OpKind, begun: Instant) {
        self.ticks.end(now);
        self.kinds[kind as usize].uncounted_ns += i128::from((now - begun).as_ns());
    }

    /// One has ended that took this long; whether it leaves nothing in flight.
    // Always: it is called in two places, where most of what it is told is at hand.
    #[inline(always)]
    pub(crate) fn end(
        &mut self,
        now: Instant,
        (kind, len_bytes): (OpKind, u64),
        failed: bool,
        time: Duration,
    ) -> bool {
        self.kinds[kind as usize].end(len_bytes, failed, time);
        self.ticks.end(now)
    }

    /// What has ended was in flight for longer than it took: it waited before.
    #[inline]
    pub(crate) fn add_wait(&mut self, kind: OpKind, wait: Duration) {
        self.kinds[kind as usize].uncounted_ns += i128::from(wait.as_ns());
    }

    /// One is in flight that is so old: for a copy, and before a reset.
    pub(crate) fn add_in_flight(&mut self, kind: OpKind, age: Duration) {
        self.kinds[kind as usize].add_in_flight(age);
    }

    /// Everything is counted from now on. What is in flight was added before.
    pub(crate) fn reset(&mut self, now: Instant) {
        self.since = now;
        self.ticks.reset(now);
        self.kinds.iter_mut().for_each(Traffic::reset);
    }

    /// Adds what another one has counted. When anything was in flight in both of them cannot be
    /// known from that: its ticks stay as they are.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.kinds.iter_mut().zip(&other.kinds) {
            mine.merge(theirs);
        }
    }
}

/// The accounts of clients.
#[derive(Debug)]
pub(crate) struct Accounting {
    is_on: bool,
    client_timeout: Duration,
    since: Instant,
    /// Of the array: when any request was in flight. What it counts are clients that have some.
    ticks: Ticks,
    /// By flow.
    flows: Vec<Option<Box<Account>>>,
    /// What clients asked for that have no account any more.
    departed: Account,
}

/// A request as it is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    pub(crate) flow: FlowId,
    pub(crate) kind: OpKind,
    pub(crate) len_bytes: u64,
    /// When it came.
    pub(crate) at: Instant,
}

/// What one client asked for, as it stands at a moment.
#[derive(Clone, Debug)]
pub struct FlowAccount {
    /// Which.
    pub flow: FlowId,
    /// What it asked for.
    pub account: Account,
    /// How many of its requests are late and not answered yet.
    pub late_in_flight: u64,
}

/// What all clients asked for, as it stands at a moment.
#[derive(Clone, Debug)]
pub struct Accounts {
    /// Whether anything is counted.
    pub is_on: bool,
    /// When it stands so.
    pub now: Instant,
    /// Since when is counted.
    pub since: Instant,
    /// How old a request is that is late.
    pub client_timeout: Duration,
    /// How long any request was in flight.
    pub ticks: Duration,
    /// Those clients that have asked for something, by number.
    pub flows: Vec<FlowAccount>,
    /// What clients asked for that are gone.
    pub departed: Account,
}

impl Accounts {
    /// What all clients asked for together, but for its ticks.
    #[must_use]
    pub fn total(&self) -> Account {
        let mut total = self.departed.clone();
        for flow in &self.flows {
            total.merge(&flow.account);
        }
        total
    }
}

impl Accounting {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            is_on: config.accounting,
            client_timeout: config.client_timeout,
            since: Instant::ZERO,
            ticks: Ticks::default(),
            flows: Vec::new(),
            departed: Account::default(),
        }
    }

    /// A request goes in.
    #[inline]
    pub(crate) fn begin(&mut self, now: Instant, flow: FlowId) {
        if !self.is_on {
            return;
        }
        let place = place_of(flow);
        let is_first = match self.flows.get_mut(place) {
            Some(Some(account)) => account.begin(now),
            _ => self.open(now, place).begin(now),
        };
        if is_first {
            self.ticks.begin(now);
        }
    }

    #[cold]
    fn open(&mut self, now: Instant, place: usize) -> &mut Account {
        if self.flows.len() <= place {
            self.flows.resize(place + 1, None);
        }
        self.flows[place].insert(Box::new(Account::new(now)))
    }

    /// A request is answered.
    #[inline]
    pub(crate) fn end(&mut self, now: Instant, request: &Counted, failed: bool) {
        if !self.is_on {
            return;
        }
        let account = self.flows[place_of(request.flow)].as_mut();
        let account = account.expect("an account is kept as long as something is in flight");
        let time = now - request.at;
        if account.end(now, (request.kind, request.len_bytes), failed, time) {
            self.ticks.end(now);
        }
        if time >= self.client_timeout {
            account.kinds[request.kind as usize].late += 1;
        }
    }

    /// A client is gone, and another one may get its number. What it asked for.
    ///
    /// # Panics
    /// Where something of it is in flight.
    pub(crate) fn close(&mut self, flow: FlowId) -> Option<Account> {
        let account = self.flows.get_mut(place_of(flow))?.take()?;
        assert_eq!(
            account.ticks.in_flight, 0,
            "a client goes when it has its answers"
        );
        self.departed.merge(&account);
        Some(*account)
    }

    /// Everything is counted from now on; these requests are in flight.
    pub(crate) fn reset(&mut self, now: Instant, in_flight: impl Iterator<Item = Counted>) {
        if !self.is_on {
            return;
        }
        self.since = now;
        self.ticks.reset(now);
        self.departed = Account::new(now);
        for request in in_flight {
            let account = self.flows[place_of(request.flow)].as_mut();
            let account = account.expect("it is kept as long as something is in flight");
            account.add_in_flight(request.kind, now - request.at);
        }
        for account in self.flows.iter_mut().flatten() {
            account.reset(now);
        }
    }

    /// How everything stands, where these requests are in flight.
    pub(crate) fn at(&self, now: Instant, in_flight: impl Iterator<Item = Counted>) -> Accounts {
        let mut flows: Vec<FlowAccount> = Vec::new();
        let mut places = vec![usize::MAX; self.flows.len()];
        for ((number, account), place) in (0..).zip(&self.flows).zip(&mut places) {
            if let Some(account) = account.as_deref() {
                *place = flows.len();
                flows.push(FlowAccount {
                    flow: FlowId(number),
                    account: account.clone(),
                    late_in_flight: 0,
                });
            }
        }
        for request in in_flight.filter(|_| self.is_on) {
            let flow = &mut flows[places[place_of(request.flow)]];
            let age = now.saturating_since(request.at);
            flow.account.add_in_flight(request.kind, age);
            flow.late_in_flight += u64::from(age >= self.client_timeout);
        }
        Accounts {
            is_on: self.is_on,
            now,
            since: self.since,
            client_timeout: self.client_timeout,
            ticks: self.ticks.until(now),
            flows,
            departed: self.departed.clone(),
        }
    }
}

/// Where a flow's account is.
const fn place_of(flow: FlowId) -> usize {
    let place = flow.0 as usize;
    if place < FLOWS_MAX { place } else { 0 }
}

impl LegStats {
    /// An operation has ended that was dispatched then, and how long the device had it.
    #[inline]
    pub(crate) fn ended(
        &mut self,
        now: Instant,
        op: &Op,
        failed: bool,
        (dispatched, service_time): (Instant, Duration),
    ) {
        let what = (op.kind, op.extent.len());
        self.account.end(now, what, failed, service_time);
        if dispatched > op.assigned {
            self.waited(op.kind, dispatched - op.assigned);
        }
    }

    /// One had to wait that has ended. Apart, so that what did not wait costs no more than it must.
    #[inline(never)]
    fn waited(&mut self, kind: OpKind, wait: Duration) {
        self.account.add_wait(kind, wait);
        match kind {
            OpKind::Read => self.read_waits.record(wait),
            OpKind::Write => self.write_waits.record(wait),
            OpKind::Flush | OpKind::Trim | OpKind::WriteZeroes | OpKind::BlockStatus => {}
        }
    }

    /// Everything is counted from now on. What is in flight was added before.
    pub(crate) fn reset(&mut self, now: Instant) {
        let mut account = std::mem::take(&mut self.account);
        account.reset(now);
        *self = Self {
            account,
            ..Self::default()
        };
    }
}

impl Engine {
    /// What clients asked for, as it stands at `now`.
    #[must_use]
    pub fn accounts(&self, now: Instant) -> Accounts {
        self.requests.accounts(now)
    }

    /// A client is gone, and another one may get the number of its account. What it asked for,
    /// which is still told of the array.
    ///
    /// # Panics
    /// Where something of it is in flight.
    pub fn close_account(&mut self, flow: FlowId) -> Option<Account> {
        self.requests.accounting.close(flow)
    }

    /// What a leg did, as it stands at `now`.
    #[must_use]
    pub fn leg_stats(&self, now: Instant, leg: LegId) -> LegStats {
        let mut stats = self.legs.legs[leg.index()].stats.clone();
        self.add_in_flight(now, leg, &mut stats);
        let choices = &self.legs.choices;
        choices.add_to(leg, &mut stats.age, &mut stats.ignored);
        stats.checkpoint = self.policy.checkpoint(leg);
        stats
    }

    fn add_in_flight(&self, now: Instant, leg: LegId, stats: &mut LegStats) {
        if self.legs.accounting {
            for (_, op) in self.ops.iter().filter(|(_, op)| op.leg == leg) {
                let age = now.saturating_since(op.assigned);
                stats.account.add_in_flight(op.kind, age);
            }
        }
    }

    /// Everything is counted from now on, of one leg or at all. The policy goes on with what it has
    /// learned, but for averages since some moment.
    pub(crate) fn reset_stats(&mut self, leg: Option<LegId>) {
        self.policy.restart_averages(leg);
        self.legs.begin_choices(LegSet::EMPTY);
        for each in LegSet::first(self.legs.legs.len()) {
            if leg.is_none_or(|leg| leg == each) {
                let slot = &mut self.legs.legs[each.index()];
                let mut stats = std::mem::take(&mut slot.stats);
                self.add_in_flight(self.requests.now, each, &mut stats);
                stats.reset(self.requests.now);
                self.legs.legs[each.index()].stats = stats;
                let view = &mut self.legs.views[each.index()];
                view.reads_completed = 0;
                view.read_wait = Duration::ZERO;
            }
        }
        if leg.is_none() {
            self.hedges.reset_figures();
            self.prefetched.reset_figures();
            self.requests.reset_accounts(self.requests.now);
        }
    }
}

#[cfg(test)]
mod tests;
