//! How much of the device's time an operation took.
//!
//! What a device has in hand at once it does partly one after the other and partly together, and it
//! does not say. Where it turns there is one arm: from one completion to the next all of the time
//! went to the one that completed. Elsewhere it works on all of them: each moment is shared equally
//! among those that it has, so that what stays longer pays more. Either way the times of all
//! operations add up to the time in which the device had something to do. Jobs that went as one
//! have equal parts.

use std::collections::BTreeMap;

use heliostat_types::Instant;

use crate::costs::Asked;
use crate::job::Job;

/// Jobs that the device has as one operation.
#[derive(Clone, Copy, Debug)]
struct Begun {
    /// How many there were, and how many have not ended.
    jobs: u32,
    left: u32,
    bytes: u64,
    /// What `shared` was when it began.
    shared: f64,
    at: Instant,
    /// What it took, in ns, once one of them has ended.
    ns: f64,
}

/// Measures a device.
#[derive(Debug)]
pub(super) struct Meter {
    rotational: bool,
    /// What each job is, and which operation it belongs to.
    jobs: BTreeMap<u32, (Asked, u64)>,
    /// The operations by number.
    ops: BTreeMap<u64, Begun>,
    /// Their bytes.
    bytes: u64,
    /// The number of the last one.
    last: u64,
    /// The time that each operation would have had if it had been there all along, in ns.
    shared: f64,
    /// When `shared` was last brought up to date, and when the last operation completed.
    at: Instant,
    completed_at: Instant,
}

impl Meter {
    pub(super) const fn new(rotational: bool) -> Self {
        Self {
            rotational,
            jobs: BTreeMap::new(),
            ops: BTreeMap::new(),
            bytes: 0,
            last: 0,
            shared: 0.0,
            at: Instant::ZERO,
            completed_at: Instant::ZERO,
        }
    }

    /// How many operations the device has.
    pub(super) fn in_device(&self) -> usize {
        self.ops.len()
    }

    /// How many bytes they have.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    fn go_on(&mut self, now: Instant) {
        let passed = now.saturating_since(self.at).as_ns() as f64;
        if !self.ops.is_empty() {
            self.shared += passed / self.ops.len() as f64;
        }
        self.at = self.at.max(now);
    }

    /// The device gets a job.
    pub(super) fn begin(&mut self, now: Instant, job: &Job, asked: Asked) {
        self.go_on(now);
        self.last += 1;
        let begun = Begun {
            jobs: 1,
            left: 1,
            bytes: job.extent.len(),
            shared: self.shared,
            at: now,
            ns: 0.0,
        };
        self.bytes += job.extent.len();
        self.ops.insert(self.last, begun);
        self.jobs.insert(job.op, (asked, self.last));
    }

    /// It gets one more, in one operation with the last.
    pub(super) fn join(&mut self, job: &Job, asked: Asked) {
        self.jobs.insert(job.op, (asked, self.last));
        let op = self.ops.get_mut(&self.last).expect("one has just begun");
        self.bytes += job.extent.len();
        op.bytes += job.extent.len();
        op.jobs += 1;
        op.left += 1;
    }

    /// It has ended one: what that was, and what it took, in ns. `None` where the
    /// device got it from somebody else.
    pub(super) fn end(&mut self, now: Instant, job: &Job) -> Option<(Asked, f64)> {
        self.go_on(now);
        let (asked, number) = self.jobs.remove(&job.op)?;
        let op = self.ops.get_mut(&number).expect("its jobs have not ended");
        if op.left == op.jobs {
            let since = self.completed_at.max(op.at);
            op.ns = if self.rotational {
                now.saturating_since(since).as_ns() as f64
            } else {
                self.shared - op.shared
            };
        }
        self.completed_at = now;
        let ns = op.ns / f64::from(op.jobs);
        op.left -= 1;
        if op.left == 0 {
            self.bytes -= op.bytes;
            self.ops.remove(&number);
        }
        Some((asked, ns))
    }

    /// What it has.
    pub(super) fn jobs(&self) -> impl Iterator<Item = &Asked> {
        self.jobs.values().map(|(asked, _)| asked)
    }
}
