//! The jobs of one round, in the order of a sweep.

use heliostat_types::OpKind;

use super::flow::Flow;
use super::{Fair, SPARSE_PART};
use crate::costs::Costs;
use crate::job::{Class, Job, Side};
use crate::line::{Key, Line};

/// No round gives less than one part in so many of what it gives at most.
const QUANTUM_PART: u64 = 32;
/// A flow counts for the length of a round where it has one part in so many of the average, or too
/// much for its jobs to be sparse.
const MENTION_PART: u64 = 4;
/// Flows have about as much outstanding as the one that has least where they have no more than one
/// part in so many on top: it varies.
const ALIKE_PART: u64 = 2;
/// As long as it is not known what jobs take, rounds are shorter by that.
const UNKNOWN_PART: u64 = 16;

/// Where jobs of a round stand that fetch, or are awaited by many.
pub(super) const READS: usize = 0;
/// Where those stand that store.
pub(super) const WRITES: usize = 1;

/// The round that is being done.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// What it gives to each flow, in ns.
    pub(super) quantum: u64,
    /// Its number.
    pub(super) number: u64,
    /// Its jobs of either direction.
    pub(super) lines: [Line; 2],
    /// Where on the device the last job of either direction began.
    pub(super) heads: [u64; 2],
    /// Whether the last one that had anything had only reads.
    pub(super) only_reads: bool,
}

impl Round {
    pub(super) fn is_empty(&self) -> bool {
        self.lines.iter().all(Line::is_empty)
    }

    /// Whether the sweep is beyond the place of a job.
    pub(super) fn has_passed(&self, job: &Job) -> bool {
        job.extent.offset() < self.heads[direction_of(job)]
    }

    pub(super) fn add(&mut self, number: u64, job: Job) {
        self.only_reads &= job.kind == OpKind::Read;
        self.lines[direction_of(&job)].insert(number, job);
    }

    /// Whether one of its jobs is to be done that `job` can go with as one.
    pub(super) fn has_beside(&self, job: &Job) -> bool {
        let line = &self.lines[direction_of(job)];
        let mut sides = Side::BOTH.into_iter();
        job.may_join() && sides.any(|side| line.adjoining(job, side).is_some())
    }

    /// The one that goes next.
    pub(super) fn next(&self) -> Option<(usize, Key)> {
        let next = |direction: usize| {
            let line = &self.lines[direction];
            let above = line.from(self.heads[direction]).or_else(|| line.from(0));
            above.map(|(key, _)| (direction, key))
        };
        next(READS).or_else(|| next(WRITES))
    }
}

/// Where a job of a client stands in a round.
pub(super) const fn direction_of(job: &Job) -> usize {
    match job.class {
        Class::Write => WRITES,
        Class::Urgent | Class::Read | Class::Background => READS,
    }
}

impl Fair {
    /// How much the next round gives to a flow: what those have outstanding on average that have
    /// least, of those that have a part worth mentioning.
    pub(super) fn quantum(&self, costs: &Costs) -> u64 {
        let holds_rounds = self.holds_rounds();
        let is_active = |flow: &Flow| !flow.later.is_empty() || holds_rounds && flow.here_ns > 0;
        let active = self.flows.iter().filter(|(_, flow)| is_active(flow));
        let reaches = active.map(|(id, flow)| {
            let outstanding = costs.outstanding_ns(self.device.rotational, *id);
            flow.scaled(self.reach_ns(flow, outstanding))
        });
        let most = self.quantum_max();
        let mention = std::cmp::min(average(reaches.clone()) / MENTION_PART, most / SPARSE_PART);
        let worth = reaches.filter(|reach| *reach >= mention);
        let least = worth.clone().min().unwrap_or(0);
        let alike = worth.filter(|reach| *reach <= least.saturating_add(least / ALIKE_PART));
        let knows = |flow: &Flow| {
            let next = flow
                .later
                .front()
                .map(|later| self.asked[&later.job.op].work);
            next.is_none_or(|work| costs.is_known(self.device.rotational, work))
        };
        let is_known = self.flows.values().all(knows);
        let most = if is_known { most } else { most / UNKNOWN_PART };
        average(alike).clamp(most / QUANTUM_PART, most)
    }
}

/// The average of what there is; nothing of nothing.
fn average(all: impl Iterator<Item = u64>) -> u64 {
    let (count, sum) = all.fold((0, 0_u64), |(count, sum), one| {
        (count + 1, sum.saturating_add(one))
    });
    sum.checked_div(count).unwrap_or(0)
}
