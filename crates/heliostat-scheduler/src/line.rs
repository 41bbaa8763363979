//! Jobs in two orders: by age, and by place.

use std::collections::BTreeMap;

use crate::job::{Job, Side};

/// Names a job in a [`Line`]: where it begins, and its number in order of arrival.
pub(crate) type Key = (u64, u64);

/// Jobs of one kind of work, by age and by place.
#[derive(Debug, Default)]
pub(crate) struct Line {
    by_age: BTreeMap<u64, u64>,
    by_place: BTreeMap<Key, Job>,
}

impl Line {
    /// Puts a job in; `number` rises with the order of arrival.
    pub(crate) fn insert(&mut self, number: u64, job: Job) {
        let offset = job.extent.offset();
        self.by_age.insert(number, offset);
        self.by_place.insert((offset, number), job);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_age.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_age.len()
    }

    /// The oldest one.
    pub(crate) fn oldest(&self) -> Option<(Key, Job)> {
        let (&number, &offset) = self.by_age.first_key_value()?;
        let key = (offset, number);
        Some((key, self.by_place[&key]))
    }

    /// The job of this name.
    pub(crate) fn get(&self, key: Key) -> Job {
        self.by_place[&key]
    }

    /// The first one that begins at `offset` or behind it.
    pub(crate) fn from(&self, offset: u64) -> Option<(Key, Job)> {
        let mut behind = self.by_place.range((offset, 0)..);
        behind.next().map(|(&key, &job)| (key, job))
    }

    /// The name of a job that may be here.
    pub(crate) fn key_of(&self, job: &Job) -> Option<Key> {
        let offset = job.extent.offset();
        let mut there = self.by_place.range((offset, 0)..=(offset, u64::MAX));
        there
            .find(|(_, other)| other.op == job.op)
            .map(|(&key, _)| key)
    }

    /// Takes one out.
    ///
    /// # Panics
    /// Where there is none of that name.
    pub(crate) fn remove(&mut self, key: Key) -> Job {
        self.by_age.remove(&key.1);
        let job = self.by_place.remove(&key);
        job.expect("a key names a job that waits")
    }

    /// The oldest of those that lie right before or behind `first` and are of the same kind, flow
    /// and class.
    pub(crate) fn adjoining(&self, first: &Job, side: Side) -> Option<(Key, Job)> {
        let extent = first.extent;
        let found = match side {
            Side::Back => self.by_place.range((extent.end(), 0)..).next(),
            Side::Front => self.by_place.range(..(extent.offset(), 0)).next_back(),
        };
        let found = found.filter(|(_, job)| job.adjoins(first, side));
        found.map(|(&key, &job)| (key, job))
    }

    /// Keeps those for which that is said.
    pub(crate) fn retain(&mut self, is_kept: &mut dyn FnMut(&Job) -> bool) {
        let by_age = &mut self.by_age;
        self.by_place.retain(|key, job| {
            let stays = is_kept(job);
            if !stays {
                by_age.remove(&key.1);
            }
            stays
        });
    }

    /// All jobs with their numbers.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (u64, Job)> + use<> {
        self.by_age.clear();
        let jobs = std::mem::take(&mut self.by_place);
        jobs.into_iter().map(|((_, number), job)| (number, job))
    }
}
