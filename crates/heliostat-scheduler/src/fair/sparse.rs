//! Jobs that go before the sweep, by when they may begin and by place.

use std::collections::BTreeMap;

use heliostat_types::FlowId;

use super::Fair;
use super::round::READS;
use crate::job::{Class, Job, Side};

/// How often a sparse job counts on a disk that turns where it takes the arm away from the sweep,
/// which has to get it back; reads do where the sweep has reads to do.
const SPARSE_TIMES: u64 = 2;

/// Names a job: when it may begin, on the scale of what all have had, and its number in order of
/// arrival.
pub(super) type Key = (u64, u64);

#[derive(Debug, Default)]
pub(super) struct Sparse {
    by_time: BTreeMap<Key, Job>,
    /// When each may begin, by whose it is, where it begins, and its number.
    by_place: BTreeMap<(FlowId, u64, u64), u64>,
}

impl Sparse {
    pub(super) fn insert(&mut self, key: Key, job: Job) {
        self.by_time.insert(key, job);
        self.by_place.insert(place(&job, key.1), key.0);
    }

    /// The one that may begin first.
    pub(super) fn first(&self) -> Option<Key> {
        self.by_time.first_key_value().map(|(&key, _)| key)
    }

    /// The job of this name.
    pub(super) fn get(&self, key: Key) -> Job {
        self.by_time[&key]
    }

    /// Takes one out.
    ///
    /// # Panics
    /// Where there is none of that name.
    pub(super) fn remove(&mut self, key: Key) -> Job {
        let job = self.by_time.remove(&key);
        let job = job.expect("a key names a job that waits");
        self.by_place.remove(&place(&job, key.1));
        job
    }

    /// One that lies right before or behind `first` and is of the same kind, flow and class.
    pub(super) fn adjoining(&self, first: &Job, side: Side) -> Option<(Key, Job)> {
        let (flow, extent) = (first.flow, first.extent);
        let found = match side {
            Side::Back => {
                let behind = (flow, extent.end(), 0)..=(flow, extent.end(), u64::MAX);
                self.by_place.range(behind).next()
            }
            Side::Front => {
                let before = (flow, 0, 0)..(flow, extent.offset(), 0);
                self.by_place.range(before).next_back()
            }
        };
        let (&(_, _, number), &begin) = found?;
        let key = (begin, number);
        let job = self.by_time[&key];
        job.adjoins(first, side).then_some((key, job))
    }

    /// Whether there is one that `job` can go with as one.
    pub(super) fn has_beside(&self, job: &Job) -> bool {
        let mut sides = Side::BOTH.into_iter();
        job.may_join() && sides.any(|side| self.adjoining(job, side).is_some())
    }

    /// Keeps those for which that is said.
    pub(super) fn retain(&mut self, is_kept: &mut dyn FnMut(&Job) -> bool) {
        let by_place = &mut self.by_place;
        self.by_time.retain(|key, job| {
            let stays = is_kept(job);
            if !stays {
                by_place.remove(&place(job, key.1));
            }
            stays
        });
    }

    /// All jobs with their numbers.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (u64, Job)> + use<> {
        self.by_place.clear();
        let jobs = std::mem::take(&mut self.by_time);
        jobs.into_iter().map(|((_, number), job)| (number, job))
    }
}

const fn place(job: &Job, number: u64) -> (FlowId, u64, u64) {
    (job.flow, job.extent.offset(), number)
}

impl Fair {
    /// How often a job counts that goes before the sweep.
    pub(super) fn sparse_times(&self, job: &Job) -> u64 {
        let takes_arm = match job.class {
            Class::Write => true,
            Class::Read => !self.round.lines[READS].is_empty(),
            Class::Urgent | Class::Background => false,
        };
        if self.device.rotational && takes_arm {
            SPARSE_TIMES
        } else {
            1
        }
    }
}
