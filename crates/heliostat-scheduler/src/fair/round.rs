//! The jobs of one round, in the order of a sweep.

use heliostat_types::OpKind;

use crate::job::{Class, Job, Side};
use crate::line::{Key, Line};

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
