//! Where what a flow has waiting begins and ends.

use std::collections::BTreeSet;

use crate::job::{Class, Job, Side};

/// Where a job begins or ends: whether it reads, on which side that is, the place, and its name.
type Edge = (bool, bool, u64, u32);

/// The jobs of one flow that wait, of those that can go with others as one.
#[derive(Debug, Default)]
pub(super) struct Waiting(BTreeSet<Edge>);

impl Waiting {
    pub(super) fn insert(&mut self, job: &Job) {
        if job.may_join() {
            self.0.extend(Side::BOTH.map(|side| edge(job, side)));
        }
    }

    pub(super) fn remove(&mut self, job: &Job) {
        for side in Side::BOTH {
            self.0.remove(&edge(job, side));
        }
    }

    /// Whether one ends where `job` begins, or begins where it ends.
    pub(super) fn has_beside(&self, job: &Job) -> bool {
        let is_read = job.class == Class::Read;
        let has = |is_back, at| {
            let all = (is_read, is_back, at, 0)..=(is_read, is_back, at, u32::MAX);
            self.0.range(all).next().is_some()
        };
        job.may_join() && (has(true, job.extent.offset()) || has(false, job.extent.end()))
    }
}

fn edge(job: &Job, side: Side) -> Edge {
    let at = match side {
        Side::Front => job.extent.offset(),
        Side::Back => job.extent.end(),
    };
    (job.class == Class::Read, side == Side::Back, at, job.op)
}
