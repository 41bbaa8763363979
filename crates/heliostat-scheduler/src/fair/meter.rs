//! How much of the device's time an operation took.
//!
//! What a device has in hand at once it does partly one after the other and partly together, and it
//! does not say. Where it turns there is one arm: from one completion to the next all of the time
//! went to the one that completed. Elsewhere it works on all of them: each moment is shared equally
//! among those that it has, so that what stays longer pays more. Either way the times of all
//! operations add up to the time in which the device had something to do.

use std::collections::BTreeMap;

use heliostat_types::Instant;

use crate::job::{Device, Job};

/// Taken for the cost of an operation where none is known: of a disk that turns, and of others.
const USUAL_NS: [f64; 2] = [8e6, 1e5];
/// How much the last operation weighs in what is usual.
const LEARNED_PART: f64 = 1.0 / 64.0;

/// An operation that the device has.
#[derive(Clone, Copy, Debug)]
struct Begun {
    /// What it was expected to take, in ns.
    estimate: f64,
    /// What `shared` was then.
    shared: f64,
    at: Instant,
    /// It went with another one, and the device has one operation for both.
    is_joined: bool,
}

/// Measures a device.
#[derive(Debug)]
pub(super) struct Meter {
    rotational: bool,
    ops: BTreeMap<u32, Begun>,
    /// Of them, those that went with another one.
    joined: usize,
    /// The time that each operation would have had if it had been there all along, in ns.
    shared: f64,
    /// When `shared` was last brought up to date, and when the last operation completed.
    at: Instant,
    completed_at: Instant,
    usual_ns: f64,
}

impl Meter {
    pub(super) fn new(device: Device) -> Self {
        Self {
            rotational: device.rotational,
            ops: BTreeMap::new(),
            joined: 0,
            shared: 0.0,
            at: Instant::ZERO,
            completed_at: Instant::ZERO,
            usual_ns: USUAL_NS[usize::from(!device.rotational)],
        }
    }

    /// How many operations the device has.
    pub(super) fn in_device(&self) -> usize {
        self.ops.len() - self.joined
    }

    /// What an operation takes, where nothing else is known.
    pub(super) const fn usual_ns(&self) -> f64 {
        self.usual_ns
    }

    fn go_on(&mut self, now: Instant) {
        let passed = now.saturating_since(self.at).as_ns() as f64;
        if !self.ops.is_empty() {
            self.shared += passed / self.ops.len() as f64;
        }
        self.at = self.at.max(now);
    }

    /// The device gets an operation.
    pub(super) fn begin(&mut self, now: Instant, job: &Job, estimate: f64, is_joined: bool) {
        self.go_on(now);
        self.joined += usize::from(is_joined);
        let begun = Begun {
            estimate,
            shared: self.shared,
            at: now,
            is_joined,
        };
        self.ops.insert(job.op, begun);
    }

    /// It has ended one: what that was expected to take, and what it took, in ns. `None` where the
    /// device got it from somebody else.
    pub(super) fn end(&mut self, now: Instant, job: &Job) -> Option<(f64, f64)> {
        self.go_on(now);
        let begun = self.ops.remove(&job.op)?;
        self.joined -= usize::from(begun.is_joined);
        let since = self.completed_at.max(begun.at);
        self.completed_at = now;
        let ns = if self.rotational {
            now.saturating_since(since).as_ns() as f64
        } else {
            self.shared - begun.shared
        };
        self.usual_ns += (ns - self.usual_ns) * LEARNED_PART;
        Some((begun.estimate, ns))
    }
}
