//! Where what a flow has waiting begins and ends.

use std::collections::BTreeSet;

use crate::job::{Class, Job};

/// Where a job begins or ends: of which class, whether it ends there, the place, and its name.
type Edge = (Class, bool, u64, u32);

/// The jobs of one flow that wait.
#[derive(Debug, Default)]
pub(super) struct Waiting(BTreeSet<Edge>);

impl Waiting {
    pub(super) fn insert(&mut self, job: &Job) {
        if !job.extent.is_empty() {
            self.0.extend(edges(job));
        }
    }

    pub(super) fn remove(&mut self, job: &Job) {
        for edge in edges(job) {
            self.0.remove(&edge);
        }
    }

    /// Whether one of the same class ends where `job` begins, or begins where it ends.
    pub(super) fn has_beside(&self, job: &Job) -> bool {
        let has = |ends, at| {
            let all = (job.class, ends, at, 0)..=(job.class, ends, at, u32::MAX);
            self.0.range(all).next().is_some()
        };
        let is_place = !job.extent.is_empty();
        is_place && (has(true, job.extent.offset()) || has(false, job.extent.end()))
    }
}

const fn edges(job: &Job) -> [Edge; 2] {
    let (class, extent) = (job.class, job.extent);
    [
        (class, false, extent.offset(), job.op),
        (class, true, extent.end(), job.op),
    ]
}
