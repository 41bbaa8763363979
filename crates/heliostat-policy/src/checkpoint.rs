//! The average service time of each leg's reads since a checkpoint, and the second chance that a
//! leg gets which was passed over for long: kakra's statistics for btrfs, as a state machine.
//!
//! A leg is either *known*, and its average says whether reads go there, or *on probation*, and
//! policies send it a read whatever its average. Each pick with the leg among the candidates is an
//! event:
//!
//! * known and picked: its age becomes 0. Known and passed over: its age grows by one; above
//!   `checkpoint_age` the sums start anew (the checkpoint) and probation begins.
//! * on probation: one of `probe_events` is used up; with the last of them the leg is known again,
//!   with the average it had before, so that a leg that hangs cannot hold on to the reads.
//! * on probation and a read of it completes: it is known, and its average starts with that read.
//!
//! A leg is on probation from the start, so that every leg is tried once.

use heliostat_types::{Duration, LEGS_MAX, LegId};

use crate::api::{Checkpoint, LegView};
use crate::beliefs::{Fact, FactValue, LegBeliefs, Weight};
use crate::spec::PolicySpec;
use crate::tunable::Tunable;

/// 10,000 picks, as the original: at a thousand reads a second a leg is tried again after ten
/// seconds, and at most one read in a hundred pays for it.
pub(crate) const CHECKPOINT_AGE: Tunable = Tunable::number(
    "checkpoint_age",
    10_000,
    (1, u32::MAX as u64),
    "picks",
    "picks that pass a leg over before it is tried again",
);
/// 100 picks, as the original, whose age starts again at -100.
pub(crate) const PROBE_EVENTS: Tunable = Tunable::number(
    "probe_events",
    100,
    (1, u32::MAX as u64),
    "picks",
    "picks for which a leg is tried at the most, until a read of it completes",
);

/// The average of a leg of which no read has completed.
const NO_AVERAGE: u64 = u64::MAX;

/// The statistics of all legs.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    limits: Limits,
    legs: [LegRecord; LEGS_MAX],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limits {
    checkpoint_age: u64,
    probe_events: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LegRecord {
    /// Reads completed since the checkpoint, and the sum of their service times.
    ios: u64,
    wait_ns: u64,
    /// Their average; of the time before the checkpoint while there are none.
    average_ns: u64,
    /// How often the sums started anew because it was passed over for long.
    checkpoints: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It is to be tried, for as many picks more at the most.
    Probation { events_left: u64 },
    /// Its average counts; so many picks in a row have passed it over.
    Known { age: u64 },
}

impl Checkpoints {
    pub(crate) fn new(spec: &PolicySpec) -> Self {
        let limits = Limits::new(spec);
        Self {
            limits,
            legs: [LegRecord::new(limits); LEGS_MAX],
        }
    }

    /// Takes over new limits; what is known of the legs stays.
    pub(crate) fn configure(&mut self, spec: &PolicySpec) {
        self.limits = Limits::new(spec);
        for leg in &mut self.legs {
            if let State::Probation { events_left } = &mut leg.state {
                *events_left = (*events_left).min(self.limits.probe_events);
            }
        }
    }

    /// Whether `leg` is to be tried whatever its average.
    pub(crate) const fn is_on_probation(&self, leg: LegId) -> bool {
        matches!(self.legs[leg.index()].state, State::Probation { .. })
    }

    /// The average in nanoseconds, `u64::MAX` where no read has ever completed.
    pub(crate) const fn average_ns(&self, leg: LegId) -> u64 {
        self.legs[leg.index()].average_ns
    }

    /// The average where it counts; 0, below every average, on probation.
    pub(crate) const fn rank(&self, leg: LegId) -> u64 {
        if self.is_on_probation(leg) {
            0
        } else {
            self.average_ns(leg)
        }
    }

    /// `picked` was picked among `candidates`.
    pub(crate) fn note_pick(&mut self, candidates: &[LegView], picked: LegId) {
        for view in candidates {
            let limits = self.limits;
            let record = &mut self.legs[view.leg.index()];
            match &mut record.state {
                State::Probation { events_left } => {
                    *events_left -= 1;
                    if *events_left == 0 {
                        record.state = State::Known { age: 0 };
                    }
                }
                State::Known { age } if view.leg == picked => *age = 0,
                State::Known { age } => {
                    *age += 1;
                    if *age > limits.checkpoint_age {
                        record.ios = 0;
                        record.wait_ns = 0;
                        record.checkpoints += 1;
                        record.state = limits.probation();
                    }
                }
            }
        }
    }

    /// A read of `leg` completed.
    pub(crate) fn note_read(&mut self, leg: LegId, service_time: Duration) {
        let record = &mut self.legs[leg.index()];
        record.ios += 1;
        record.wait_ns = record.wait_ns.saturating_add(service_time.as_ns());
        record.average_ns = record.wait_ns / record.ios;
        if let State::Probation { .. } = record.state {
            record.state = State::Known { age: 0 };
        }
    }

    /// The rank, where it is known.
    pub(crate) fn weight(&self, leg: LegId) -> Option<Weight> {
        let rank = self.rank(leg);
        (rank != NO_AVERAGE).then(|| Weight::Time(Duration::from_ns(rank)))
    }

    /// What is known of a leg, for people.
    pub(crate) fn beliefs(&self, leg: LegId) -> LegBeliefs {
        let record = &self.legs[leg.index()];
        let has_average = record.average_ns != NO_AVERAGE;
        let average = has_average.then(|| Duration::from_ns(record.average_ns));
        let passed_over = match record.state {
            State::Probation { .. } => None,
            State::Known { age } => Some(age),
        };
        LegBeliefs::of_facts([
            Fact::new("average_ns", average.map(FactValue::Time)),
            Fact::new("average_of_reads", Some(FactValue::Count(record.ios))),
            Fact::new("on_trial", Some(FactValue::Flag(self.is_on_probation(leg)))),
            Fact::new("skipped_reads", passed_over.map(FactValue::Count)),
        ])
    }

    /// The sums, as btrfs tells them; its age starts again below zero as well.
    pub(crate) fn told(&self, leg: LegId) -> Checkpoint {
        let record = &self.legs[leg.index()];
        // Both are limited by tunables that end at u32::MAX, but for one that was made smaller.
        let signed = |picks: u64| i64::try_from(picks).unwrap_or(i64::MAX);
        Checkpoint {
            reads: record.ios,
            wait: Duration::from_ns(record.wait_ns),
            age: match record.state {
                State::Probation { events_left } => -signed(events_left),
                State::Known { age } => signed(age),
            },
            count: record.checkpoints,
        }
    }

    /// Forgets what is known of one leg, or of all.
    pub(crate) fn reset(&mut self, leg: Option<LegId>) {
        let fresh = LegRecord::new(self.limits);
        match leg {
            Some(leg) => self.legs[leg.index()] = fresh,
            None => self.legs = [fresh; LEGS_MAX],
        }
    }
}

impl Limits {
    fn new(spec: &PolicySpec) -> Self {
        Self {
            checkpoint_age: spec.value(&CHECKPOINT_AGE),
            probe_events: spec.value(&PROBE_EVENTS),
        }
    }

    const fn probation(self) -> State {
        State::Probation {
            events_left: self.probe_events,
        }
    }
}

impl LegRecord {
    const fn new(limits: Limits) -> Self {
        Self {
            ios: 0,
            wait_ns: 0,
            average_ns: NO_AVERAGE,
            checkpoints: 0,
            state: limits.probation(),
        }
    }
}

#[cfg(test)]
mod tests;
