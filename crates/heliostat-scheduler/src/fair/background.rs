//! What waits in the background. It has of the device what clients leave, and a part of it where
//! they leave nothing.

use super::Fair;
use crate::costs::Costs;
use crate::job::Job;
use crate::line::Line;

/// What the background has of a device that clients could use up: one part in so many.
const PART: f64 = 16.0;
/// What it had while clients left it all is held against it up to that, which clients make up for
/// in a second.
const AHEAD_MAX_NS: f64 = 64e6;

#[derive(Debug, Default)]
pub(super) struct Background {
    pub(super) line: Line,
    /// What it had beyond its part, in ns.
    ahead_ns: f64,
}

impl Background {
    /// One comes.
    pub(super) fn insert(&mut self, number: u64, job: Job) {
        if self.line.is_empty() {
            // It has saved up nothing. What it had too much of it has had, though.
            self.ahead_ns = self.ahead_ns.max(0.0);
        }
        self.line.insert(number, job);
    }

    /// Whether one of it goes before what clients wait for.
    pub(super) fn is_owed(&self) -> bool {
        !self.line.is_empty() && self.ahead_ns <= 0.0
    }

    /// It has had so much.
    pub(super) fn had(&mut self, ns: u64) {
        let ns = ns as f64;
        self.ahead_ns = (self.ahead_ns + ns).min(ns.max(AHEAD_MAX_NS));
    }

    /// Clients have had so much.
    pub(super) fn clients_had(&mut self, ns: u64) {
        self.ahead_ns -= ns as f64 / (PART - 1.0);
    }
}

impl Fair {
    /// A read in the background is a client's from now on.
    pub(crate) fn take_on(&mut self, job: &Job, costs: &mut Costs) {
        if let Some(key) = self.background.line.key_of(job) {
            self.background.line.remove(key);
            self.insert(*job, costs);
        }
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Extent, FlowId, Instant, OpKind};

    use super::Background;
    use crate::job::{Class, Job};

    #[test]
    fn what_it_had_while_nobody_else_was_there_is_made_up_for_in_a_second() {
        let mut background = Background::default();
        for _ in 0..1000 {
            background.had(10_000_000);
        }
        let job = Job {
            op: 0,
            flow: FlowId::ARRAY,
            kind: OpKind::Read,
            class: Class::Background,
            extent: Extent::new(0, 4096),
            arrived: Instant::ZERO,
        };
        background.insert(1, job);
        let mut clients_ms = 0;
        while !background.is_owed() {
            background.clients_had(1_000_000);
            clients_ms += 1;
        }
        assert!((955..=965).contains(&clients_ms), "{clients_ms} ms");
        background.had(1_000_000);
        assert!(!background.is_owed());
    }
}
