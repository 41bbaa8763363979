//! How much of the device's time an operation took.
//!
//! What a device has in hand at once it does partly one after the other and partly together, and it
//! does not say. Where it turns there is one arm: from one completion to the next all of the time
//! went to the one that completed. Elsewhere it works on all of them: each moment is shared equally
//! among those that it has, so that what stays longer pays more. Either way the times of all
//! operations add up to the time in which the device had something to do. Jobs that went as one
//! have parts as large as what they were expected to take: what the arm had to go to has most.

use std::collections::BTreeMap;

use heliostat_types::{Duration, FlowId, Instant};

use crate::costs::Asked;
use crate::job::{Class, Job};

/// A disk has kept a read for long: it is there before, but for what is large, with what goes by on
/// the way.
pub(super) const KEPT: Duration = Duration::from_ms(50);
/// But when it has kept it for that long, nothing is gained by waiting.
pub(super) const KEPT_MAX: Duration = Duration::from_secs(1);

/// Jobs that the device has as one operation.
#[derive(Clone, Copy, Debug)]
struct Begun {
    /// How many there were, how many have not ended, and what all are expected to take, in ns.
    jobs: u32,
    left: u32,
    expected_ns: u64,
    bytes: u64,
    /// What `shared` was when it began.
    shared: f64,
    at: Instant,
    /// What it took, in ns, once one of them has ended.
    ns: f64,
    /// Where it ends on the device.
    end: u64,
    /// Which client it is read for.
    reader: Option<FlowId>,
    /// When it has ended if the device does one after the other.
    due: Instant,
}

/// A job that the device has.
#[derive(Clone, Copy, Debug)]
struct InDevice {
    asked: Asked,
    /// What it is expected to take, in ns.
    expected_ns: u64,
    /// The number of the operation that it belongs to.
    operation: u64,
}

/// What the device did as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operation {
    pub(super) bytes: u64,
    /// As how many it was asked for.
    pub(super) jobs: u32,
}

/// A job that the device has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ended {
    pub(super) asked: Asked,
    /// What it took of the device's time, in ns.
    pub(super) ns: f64,
    /// Its operation, where all of that has ended with it.
    pub(super) operation: Option<Operation>,
}

/// Measures a device.
#[derive(Debug)]
pub(super) struct Meter {
    rotational: bool,
    jobs: BTreeMap<u32, InDevice>,
    /// The operations by number.
    ops: BTreeMap<u64, Begun>,
    /// Their bytes.
    bytes: u64,
    /// The number of the last one.
    last: u64,
    /// Where on the device the one ended that completed last.
    completed_end: u64,
    /// Which client it has read for since when, and for no other one.
    turn: (FlowId, Instant),
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
            completed_end: u64::MAX,
            turn: (FlowId::ARRAY, Instant::ZERO),
            shared: 0.0,
            at: Instant::ZERO,
            completed_at: Instant::ZERO,
        }
    }

    /// How many operations the device has.
    pub(super) fn in_device(&self) -> usize {
        self.ops.len()
    }

    /// Since when it has had nothing, where it has nothing.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        self.ops.is_empty().then_some(self.completed_at)
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

    /// The device gets a job, which is expected to take so long.
    pub(super) fn begin(&mut self, now: Instant, job: &Job, asked: Asked, expected_ns: u64) {
        self.go_on(now);
        self.last += 1;
        let ahead_ns: u64 = if self.rotational {
            self.ops.values().map(|op| op.expected_ns).sum()
        } else {
            0
        };
        let begun = Begun {
            jobs: 1,
            left: 1,
            expected_ns,
            bytes: job.extent.len(),
            shared: self.shared,
            at: now,
            ns: 0.0,
            end: job.extent.end(),
            reader: (job.class == Class::Read).then_some(job.flow),
            due: now + Duration::from_ns(ahead_ns + expected_ns),
        };
        self.bytes += job.extent.len();
        self.ops.insert(self.last, begun);
        self.insert(job, asked, expected_ns);
    }

    fn insert(&mut self, job: &Job, asked: Asked, expected_ns: u64) {
        let in_device = InDevice {
            asked,
            expected_ns,
            operation: self.last,
        };
        self.jobs.insert(job.op, in_device);
    }

    /// It gets one more, in one operation with the last.
    pub(super) fn join(&mut self, job: &Job, asked: Asked, expected_ns: u64) {
        self.insert(job, asked, expected_ns);
        let op = self.ops.get_mut(&self.last).expect("one has just begun");
        self.bytes += job.extent.len();
        op.bytes += job.extent.len();
        op.jobs += 1;
        op.expected_ns += expected_ns;
        op.end = op.end.max(job.extent.end());
        op.due += Duration::from_ns(expected_ns);
        op.left += 1;
    }

    /// It has ended one. `None` where the device got it from somebody else.
    pub(super) fn end(&mut self, now: Instant, job: &Job) -> Option<Ended> {
        self.go_on(now);
        let InDevice {
            asked,
            expected_ns,
            operation,
        } = self.jobs.remove(&job.op)?;
        let op = self.ops.get_mut(&operation);
        let op = op.expect("its jobs have not ended");
        if op.left == op.jobs {
            let since = self.completed_at.max(op.at);
            op.ns = if self.rotational {
                now.saturating_since(since).as_ns() as f64
            } else {
                self.shared - op.shared
            };
            self.completed_end = op.end;
            // What is read ahead is part of somebody's turn.
            if job.class != Class::Background && job.flow != self.turn.0 {
                self.turn = (job.flow, now);
            }
        }
        self.completed_at = now;
        let ns = op.ns * (expected_ns as f64 / op.expected_ns as f64);
        op.left -= 1;
        let ended = (op.left == 0).then_some(Operation {
            bytes: op.bytes,
            jobs: op.jobs,
        });
        if let Some(ended) = ended {
            self.bytes -= ended.bytes;
            self.ops.remove(&operation);
        }
        Some(Ended {
            asked,
            ns,
            operation: ended,
        })
    }

    /// Whether a job begins where something ends that the device has, or had last.
    pub(super) fn goes_on(&self, job: &Job) -> bool {
        let mut ends = self.ops.values().map(|op| op.end);
        let begin = job.extent.offset();
        begin == self.completed_end || ends.any(|end| end == begin)
    }

    /// Until when a disk is not given a job that goes on where its arm is, because it keeps what it
    /// was to read for others, and has read for this one alone for long.
    pub(super) fn keeps_until(&self, now: Instant, job: &Job) -> Option<Instant> {
        let (turn, since) = self.turn;
        let is_part_of_it = job.flow == turn || job.class == Class::Background;
        if !is_part_of_it || now.saturating_since(since) < KEPT {
            return None;
        }
        let is_others = |op: &Begun| op.reader.is_some_and(|reader| reader != turn);
        self.awaited_until(now, |op| is_others(op) && op.due + KEPT <= now)
    }

    /// Whether it has reads for a flow that are not stalled.
    pub(super) fn has_reads_of(&self, now: Instant, flow: FlowId) -> bool {
        let mut ops = self.ops.values();
        ops.any(|op| op.reader == Some(flow) && now < op.due + KEPT_MAX)
    }

    /// Whether it has reads for flows of which that is said: until when others wait for them.
    pub(super) fn keeps_of_until(
        &self,
        now: Instant,
        counts: impl Fn(FlowId) -> bool,
    ) -> Option<Instant> {
        self.awaited_until(now, |op| op.reader.is_some_and(&counts))
    }

    /// The same of those that it is late with.
    pub(super) fn late_until(
        &self,
        now: Instant,
        counts: impl Fn(FlowId) -> bool,
    ) -> Option<Instant> {
        self.awaited_until(now, |op| op.due <= now && op.reader.is_some_and(&counts))
    }

    /// Until when others wait for the operations of which that is said and that are not stalled.
    fn awaited_until(&self, now: Instant, counts: impl Fn(&Begun) -> bool) -> Option<Instant> {
        let counted = self.ops.values().filter(|op| counts(op));
        let untils = counted.map(|op| op.due + KEPT_MAX);
        untils.filter(|until| now < *until).max()
    }

    /// What it has.
    pub(super) fn jobs(&self) -> impl ExactSizeIterator<Item = &Asked> {
        self.jobs.values().map(|job| &job.asked)
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Duration, Extent, FlowId, Instant, OpKind};

    use super::{Meter, Operation};
    use crate::costs::Asked;
    use crate::job::{Class, Job};

    #[test]
    fn what_went_as_one_has_parts_as_large_as_expected() {
        let job = |op| Job {
            op,
            flow: FlowId(0),
            kind: OpKind::Write,
            class: Class::Write,
            extent: Extent::new(u64::from(op) << 12, 4096),
            arrived: Instant::ZERO,
        };
        for rotational in [true, false] {
            let mut meter = Meter::new(rotational);
            meter.begin(Instant::ZERO, &job(0), Asked::default(), 4_500_000);
            for op in 1..=10 {
                meter.join(&job(op), Asked::default(), 50_000);
            }
            assert_eq!((meter.in_device(), meter.bytes()), (1, 11 * 4096));
            let now = Instant::ZERO + Duration::from_ms(10);
            let mut took = |op| {
                let ended = meter.end(now, &job(op))?;
                Some((ended.ns.round(), ended.operation))
            };
            for op in (1..=10).rev() {
                assert_eq!(took(op), Some((100_000.0, None)));
            }
            let operation = Operation {
                bytes: 11 * 4096,
                jobs: 11,
            };
            let last = Some((9_000_000.0, Some(operation)));
            assert_eq!(took(0), last, "the arm went to that one");
            assert_eq!(took(0), None);
            assert_eq!((meter.in_device(), meter.bytes()), (0, 0));
        }
    }
}
