//! Faults as rules round any model: slow, silent, failing, dead, each from one moment to another.
//!
//! Slow and silent are one thing here: the device lives in a time of its own that runs slower than
//! ours, or stands still. So everything inside takes longer by the same factor, what was in flight
//! when the rule began takes longer from then on, and nothing is lost when it ends.

use std::collections::BTreeMap;

use heliostat_types::{Duration, ErrorKind, Extent, Instant, LegOpId, OpKind, Prng};

use crate::api::{DeviceModel, DeviceSpec};
use crate::timing::{TimeQueue, earlier};

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

/// What a fault does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultEffect {
    /// Everything takes this many thousandths of its time; 10,000 is ten times slower. Above 0.
    SlowPermille(u64),
    /// Nothing ends.
    Stuck,
    /// Operations of a kind that end meanwhile end with an error.
    Error(FailedKind),
    /// The device is gone: what is in flight fails at once, and so does what comes.
    Dead,
}

/// Which operations fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedKind {
    /// Reads.
    Read,
    /// Writes, trims, write-zeroes and flushes.
    Write,
}

impl FailedKind {
    const fn matches(self, kind: OpKind) -> bool {
        match kind {
            OpKind::Read => matches!(self, Self::Read),
            OpKind::Write | OpKind::Trim | OpKind::WriteZeroes | OpKind::Flush => {
                matches!(self, Self::Write)
            }
            OpKind::BlockStatus => false,
        }
    }
}

/// A model with faults.
#[derive(Clone, Debug)]
pub struct FaultyDevice {
    inner: Box<dyn DeviceModel>,
    rules: Vec<FaultRule>,
    stretch: Stretch,
    in_flight: BTreeMap<LegOpId, OpKind>,
    ended: TimeQueue<(LegOpId, Result<(), ErrorKind>)>,
}

/// Time between two changes of the rules, in which time inside runs evenly.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    begins_at: Instant,
    /// Never where no rule changes any more.
    ends_at: Instant,
    /// What time it is inside when the stretch begins.
    inner_begins_at: Instant,
    /// How many thousandths of our time pass per thousandth inside; `None`: it stands still.
    pace_permille: Option<u64>,
}

impl Stretch {
    /// What time it is inside at `at`, rounded down.
    fn inner_at(&self, at: Instant) -> Instant {
        let Some(pace_permille) = self.pace_permille else {
            return self.inner_begins_at;
        };
        let passed = u128::from((at - self.begins_at).as_ns());
        self.inner_begins_at + saturating_ns(passed * 1000 / u128::from(pace_permille))
    }

    /// When it is `inner` inside, rounded up; `None` where that is not in this stretch.
    fn outer_at(&self, inner: Instant) -> Option<Instant> {
        let pace_permille = self.pace_permille?;
        let passed = u128::from(inner.saturating_since(self.inner_begins_at).as_ns());
        let outer = saturating_ns((passed * u128::from(pace_permille)).div_ceil(1000));
        Some(self.begins_at + outer).filter(|at| *at < self.ends_at)
    }
}

fn saturating_ns(ns: u128) -> Duration {
    Duration::from_ns(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// How long a dead device takes to fail an operation: what a host adapter takes to say so.
const DEAD_ANSWER_TIME: Duration = Duration::from_us(10);

impl FaultyDevice {
    /// `inner` under `rules`; several may hold at once.
    ///
    /// # Panics
    /// Where a rule ends before it begins, or slows by a factor of 0.
    #[must_use]
    pub fn new(inner: Box<dyn DeviceModel>, rules: Vec<FaultRule>) -> Self {
        for rule in &rules {
            assert!(rule.at <= rule.until, "a fault ends after it begins");
            assert!(
                rule.effect != FaultEffect::SlowPermille(0),
                "time inside does not run infinitely fast"
            );
        }
        let stretch = stretch_from(&rules, Instant::ZERO, Instant::ZERO);
        Self {
            inner,
            rules,
            stretch,
            in_flight: BTreeMap::new(),
            ended: TimeQueue::new(),
        }
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
            self.stretch = stretch_from(&self.rules, end, inner_end);
            if holds(&self.rules, end, |effect| effect == FaultEffect::Dead) {
                for op in std::mem::take(&mut self.in_flight).into_keys() {
                    self.ended.push(end, (op, Err(ErrorKind::Io)));
                }
            }
        }
    }

    /// Takes what has ended inside in this stretch.
    fn collect(&mut self, end: Instant, inner_end: Instant) {
        while let Some((op, result)) = self.inner.poll_completion(inner_end) {
            // What is not in flight any more was failed when the device died.
            let Some(kind) = self.in_flight.remove(&op) else {
                continue;
            };
            let fails = holds(
                &self.rules,
                self.stretch.begins_at,
                |effect| matches!(effect, FaultEffect::Error(failed) if failed.matches(kind)),
            );
            let result = if fails { Err(ErrorKind::Io) } else { result };
            self.ended.push(end, (op, result));
        }
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
        if holds(&self.rules, now, |effect| effect == FaultEffect::Dead) {
            self.ended
                .push(now + DEAD_ANSWER_TIME, (op, Err(ErrorKind::Io)));
            return;
        }
        self.in_flight.insert(op, kind);
        let inner_now = self.stretch.inner_at(now);
        self.inner.submit(inner_now, op, kind, extent, prng);
    }

    fn next_event_at(&self) -> Option<Instant> {
        let mut next = self.ended.next_at();
        if !self.in_flight.is_empty() {
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

/// Whether an effect that `matches` holds at `at`.
fn holds(rules: &[FaultRule], at: Instant, matches: impl Fn(FaultEffect) -> bool) -> bool {
    let mut rules = rules.iter();
    rules.any(|rule| rule.at <= at && at < rule.until && matches(rule.effect))
}

/// The stretch that begins at `at`, when it is `inner` inside.
fn stretch_from(rules: &[FaultRule], at: Instant, inner: Instant) -> Stretch {
    let changes = rules.iter().flat_map(|rule| [rule.at, rule.until]);
    let mut pace_permille = Some(1000u64);
    for rule in rules.iter().filter(|rule| rule.at <= at && at < rule.until) {
        match rule.effect {
            FaultEffect::SlowPermille(factor) => {
                let slower = |pace: u64| (pace.saturating_mul(factor) / 1000).max(1);
                pace_permille = pace_permille.map(slower);
            }
            FaultEffect::Stuck => pace_permille = None,
            FaultEffect::Error(_) | FaultEffect::Dead => {}
        }
    }
    Stretch {
        begins_at: at,
        ends_at: changes
            .filter(|change| *change > at)
            .min()
            .unwrap_or(Instant::MAX),
        inner_begins_at: inner,
        pace_permille,
    }
}

#[cfg(test)]
mod tests;
