//! Faults as rules round any model: slow, pausing, silent, failing, dead, each from one moment to
//! another.
//!
//! Slow and silent are one thing here: the device lives in a time of its own that runs slower than
//! ours, or stands still. So everything inside takes longer by the same factor, what was in flight
//! when the rule began takes longer from then on, and nothing is lost when it ends. Rules that hold
//! at the same time add up: two that slow multiply, one that silences silences, and an operation
//! fails where any of them fails it.

mod errors;
mod ranges;
mod stretch;

use std::collections::BTreeMap;

use heliostat_types::{Duration, ErrorKind, Extent, Instant, LegOpId, OpKind, Prng};

use crate::api::{DeviceModel, DeviceSpec};
use crate::timing::{TimeQueue, earlier};

use errors::Errors;
use stretch::Stretch;

/// A fault of one device while it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultRule {
    /// When it begins.
    pub at: Instant,
    /// When it is over; [`Instant::MAX`]: never.
    pub until: Instant,
    /// What is wrong meanwhile.
    pub effect: FaultEffect,
}

impl FaultRule {
    /// Whether it holds at `at`.
    pub(crate) fn holds(&self, at: Instant) -> bool {
        self.at <= at && at < self.until
    }
}

/// What a fault does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultEffect {
    /// Everything takes this many thousandths of its time; 10,000 is ten times slower. Above 0.
    SlowPermille(u64),
    /// Now and then the device stands still.
    Pause(Pauses),
    /// Nothing ends; afterwards the device goes on where it stood.
    Stuck,
    /// The device works, but nothing that it does is heard of before the end: then all of it is, at
    /// once.
    Burst,
    /// Operations that end meanwhile end with an error.
    Error(ErrorRule),
    /// The device is gone: what is in flight fails at once, and so does what comes.
    Dead,
}

/// When a device stands still: a pause begins as the rule does, and then at regular distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pauses {
    /// How long each is.
    pub length: Duration,
    /// From the beginning of one to that of the next, without jitter; at least `length` and
    /// `jitter` together.
    pub every: Duration,
    /// By how much the beginning of each is late at most; by how much, the device's luck says.
    pub jitter: Duration,
}

/// Which operations fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorRule {
    /// Of which kind.
    pub kind: FailedKind,
    /// Those that touch these bytes of the device.
    pub range: Extent,
    /// At most so many; [`u64::MAX`]: without limit.
    pub count: u64,
    /// So many of 10^9 of these, by the device's luck.
    pub rate_per_billion: u64,
    /// What a read has failed on fails every later one until it is written, beyond the rule's end
    /// as well: latent sector errors. A rule without a count and with all of a billion makes its
    /// whole range bad when it begins.
    pub sticky: bool,
}

impl ErrorRule {
    /// Everywhere, as a range.
    pub const EVERYWHERE: Extent = Extent::from_range(0, u64::MAX);

    /// A rate without luck.
    pub const ALWAYS_PER_BILLION: u64 = 1_000_000_000;

    /// All operations of a kind.
    #[must_use]
    pub const fn all(kind: FailedKind) -> Self {
        Self {
            kind,
            range: Self::EVERYWHERE,
            count: u64::MAX,
            rate_per_billion: Self::ALWAYS_PER_BILLION,
            sticky: false,
        }
    }
}

/// The kinds of operations that fail together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedKind {
    /// Reads.
    Read,
    /// Writes, trims, write-zeroes and flushes.
    Write,
}

/// A model with faults.
#[derive(Clone, Debug)]
pub struct FaultyDevice {
    inner: Box<dyn DeviceModel>,
    rules: Vec<FaultRule>,
    luck: u64,
    stretch: Stretch,
    errors: Errors,
    in_flight: BTreeMap<LegOpId, (OpKind, Extent)>,
    /// What the device has done and nobody has heard of, in the order in which it ended.
    held: Vec<(LegOpId, Result<(), ErrorKind>)>,
    ended: TimeQueue<(LegOpId, Result<(), ErrorKind>)>,
}

/// How long a dead device takes to fail an operation: what a host adapter takes to say so.
const DEAD_ANSWER_TIME: Duration = Duration::from_us(10);

impl FaultyDevice {
    /// `inner` under `rules`; several may hold at once. What they leave to chance follows from
    /// `luck`.
    ///
    /// # Panics
    /// Where a rule ends before it begins, slows by a factor of 0, or pauses for longer than its
    /// pauses are apart.
    #[must_use]
    pub fn new(inner: Box<dyn DeviceModel>, rules: Vec<FaultRule>, luck: u64) -> Self {
        for rule in &rules {
            assert!(rule.at <= rule.until, "a fault ends after it begins");
            match rule.effect {
                FaultEffect::SlowPermille(factor) => {
                    assert!(factor > 0, "time inside does not run infinitely fast");
                }
                FaultEffect::Pause(pauses) => assert!(
                    pauses.length > Duration::ZERO && pauses.length + pauses.jitter <= pauses.every,
                    "a pause ends before the next begins"
                ),
                FaultEffect::Stuck
                | FaultEffect::Burst
                | FaultEffect::Error(_)
                | FaultEffect::Dead => {}
            }
        }
        let stretch = Stretch::from_rules(&rules, luck, Instant::ZERO, Instant::ZERO);
        let mut errors = Errors::new(&rules, luck);
        errors.begin(&rules, Instant::ZERO);
        Self {
            inner,
            rules,
            luck,
            stretch,
            errors,
            in_flight: BTreeMap::new(),
            held: Vec::new(),
            ended: TimeQueue::new(),
        }
    }

    /// The device loses its power at `now` and has it again: `inner` is what it is then, idle. All
    /// that was in flight is gone without a word; what the rules have done so far stays done.
    pub fn cycle_power(&mut self, now: Instant, inner: Box<dyn DeviceModel>) {
        self.advance(now);
        self.inner = inner;
        self.in_flight.clear();
        self.held.clear();
        self.ended = TimeQueue::new();
    }

    /// Does all that happens up to `now`, one stretch after the other.
    fn advance(&mut self, now: Instant) {
        loop {
            let end = self.stretch.ends_at.min(now);
            let inner_end = self.stretch.inner_at(end);
            self.collect(end, inner_end);
            if end < self.stretch.ends_at {
                return;
            }
            self.stretch = Stretch::from_rules(&self.rules, self.luck, end, inner_end);
            self.errors.begin(&self.rules, end);
            if self.is_dead(end) {
                let held = std::mem::take(&mut self.held).into_iter().map(|(op, _)| op);
                let in_flight = std::mem::take(&mut self.in_flight).into_keys();
                for op in held.chain(in_flight) {
                    self.ended.push(end, (op, Err(ErrorKind::Io)));
                }
            } else if !self.stretch.is_silent() {
                for held in self.held.drain(..) {
                    self.ended.push(end, held);
                }
            }
        }
    }

    /// Takes what has ended inside in this stretch.
    fn collect(&mut self, end: Instant, inner_end: Instant) {
        while let Some((op, result)) = self.inner.poll_completion(inner_end) {
            // What is not in flight any more was failed when the device died.
            let Some((kind, extent)) = self.in_flight.remove(&op) else {
                continue;
            };
            let at = self.stretch.begins_at;
            let result = result.and_then(|()| self.errors.judge(&self.rules, at, kind, extent));
            if self.stretch.is_silent() {
                self.held.push((op, result));
            } else {
                self.ended.push(end, (op, result));
            }
        }
    }

    fn is_dead(&self, at: Instant) -> bool {
        let mut rules = self.rules.iter();
        rules.any(|rule| rule.effect == FaultEffect::Dead && rule.holds(at))
    }
}

impl DeviceModel for FaultyDevice {
    fn spec(&self) -> &DeviceSpec {
        self.inner.spec()
    }

    fn submit(
        &mut self,
        now: Instant,
        op: LegOpId,
        kind: OpKind,
        extent: Extent,
        prng: &mut dyn Prng,
    ) {
        self.advance(now);
        if self.is_dead(now) {
            self.ended
                .push(now + DEAD_ANSWER_TIME, (op, Err(ErrorKind::Io)));
            return;
        }
        self.in_flight.insert(op, (kind, extent));
        let inner_now = self.stretch.inner_at(now);
        self.inner.submit(inner_now, op, kind, extent, prng);
    }

    fn next_event_at(&self) -> Option<Instant> {
        let mut next = self.ended.next_at();
        if !self.in_flight.is_empty() || !self.held.is_empty() {
            let inner = self.inner.next_event_at();
            let ends_inside = inner.and_then(|at| self.stretch.outer_at(at));
            let changes = Some(self.stretch.ends_at).filter(|at| *at < Instant::MAX);
            next = earlier(next, ends_inside.or(changes));
        }
        next
    }

    fn poll_completion(&mut self, now: Instant) -> Option<(LegOpId, Result<(), ErrorKind>)> {
        self.advance(now);
        self.ended.pop_due(now).map(|(_, ended)| ended)
    }

    fn clone_box(&self) -> Box<dyn DeviceModel> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests;
