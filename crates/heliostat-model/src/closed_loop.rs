//! A closed loop round one model, in virtual time: always as many operations in flight as somebody
//! wants, as fio keeps them at a drive. Data sheets are measured with it.

use heliostat_types::{Duration, Extent, Instant, LegOpId, OpKind, Prng, RandomStream};
use stdx::histogram::Histogram;

use crate::api::DeviceModel;
#[cfg(test)]
use crate::drives::Drive;

/// What the loop asks for.
#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    /// What is asked for, where [`Pattern::write_percent`] is 0.
    pub kind: OpKind,
    /// Bytes of each operation; it lies at a multiple of them.
    pub len_bytes: u64,
    /// One after the other, or at random.
    pub sequential: bool,
    /// How many hundredths of the device lie before the part that is asked for.
    pub from_percent: u64,
    /// How many hundredths of the device, from there on, are asked for.
    pub span_percent: u64,
    /// No more than so many different operations.
    pub blocks_max: u64,
    /// So many of a hundred operations, at random, are writes and the others reads; 0: all are of
    /// [`Pattern::kind`].
    pub write_percent: u64,
}

impl Pattern {
    /// 4 KiB reads all over the device.
    #[must_use]
    pub const fn random_reads() -> Self {
        Self {
            kind: OpKind::Read,
            len_bytes: 4096,
            sequential: false,
            from_percent: 0,
            span_percent: 100,
            blocks_max: u64::MAX,
            write_percent: 0,
        }
    }

    /// One stream of 1 MiB reads.
    #[must_use]
    pub const fn stream() -> Self {
        Self {
            len_bytes: 1 << 20,
            sequential: true,
            ..Self::random_reads()
        }
    }

    /// The same over the first hundredths of the device.
    #[must_use]
    pub const fn over(mut self, span_percent: u64) -> Self {
        self.span_percent = span_percent;
        self
    }

    /// The same with no more than so many different operations.
    #[must_use]
    pub const fn repeated_after(mut self, blocks_max: u64) -> Self {
        self.blocks_max = blocks_max;
        self
    }

    /// The same with operations of another kind.
    #[must_use]
    pub const fn of(mut self, kind: OpKind) -> Self {
        self.kind = kind;
        self
    }
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Run {
    /// From submission to completion, in ns, of all operations.
    pub service_ns: Histogram,
    /// The same of reads.
    pub read_ns: Histogram,
    /// The same of writes and whatever else is no read.
    pub write_ns: Histogram,
    /// Every completion and when, as one number (FNV-1a over whole words).
    pub fingerprint: u64,
    /// Bytes of the operations that have ended.
    pub bytes: u64,
    /// How long it ran.
    pub elapsed: Duration,
}

impl Run {
    /// Operations per second.
    #[must_use]
    pub fn iops(&self) -> f64 {
        self.service_ns.count() as f64 / self.elapsed.as_secs_f64()
    }

    /// Bytes per second.
    #[must_use]
    pub fn bytes_per_s(&self) -> f64 {
        self.bytes as f64 / self.elapsed.as_secs_f64()
    }
}

#[cfg(test)]
impl Drive {
    /// Runs a pattern at a depth on a new drive of this make: long enough for 2 % on a hard disk.
    pub(crate) fn run(&self, depth: usize, pattern: Pattern) -> Run {
        let mut prng = RandomStream::new(1, "leg", 0);
        let mut model = self.params.build(&mut prng);
        let rotational = model.spec().rotational;
        let length = Duration::from_secs(if rotational { 60 } else { 2 });
        run(model.as_mut(), depth, pattern, length)
    }
}

/// Runs a pattern on `model`, which has not been used, for `length`, always `depth` operations in
/// flight.
///
/// # Panics
/// As [`ClosedLoop::new`] and [`ClosedLoop::run_for`].
pub fn run(model: &mut dyn DeviceModel, depth: usize, pattern: Pattern, length: Duration) -> Run {
    ClosedLoop::new(model, depth, pattern).run_for(length)
}

/// A loop that can be stopped and go on.
#[derive(Debug)]
pub struct ClosedLoop<'a> {
    model: &'a mut dyn DeviceModel,
    depth: usize,
    pattern: Pattern,
    /// The first block of the part that is asked for, and how many it has.
    from_block: u64,
    blocks: u64,
    arrivals: RandomStream,
    luck: RandomStream,
    next: u64,
    in_flight: Vec<(LegOpId, Instant, OpKind)>,
    now: Instant,
    /// When the last [`ClosedLoop::run_for`] ended.
    until: Instant,
}

impl<'a> ClosedLoop<'a> {
    /// A loop round `model`, which has not been used, before its first operation.
    ///
    /// # Panics
    /// Where `depth` is 0 or the part of the device that `pattern` names has no room for one
    /// operation.
    pub fn new(model: &'a mut dyn DeviceModel, depth: usize, pattern: Pattern) -> Self {
        Self::with_seed(model, depth, pattern, 1)
    }

    /// The same with another luck.
    ///
    /// # Panics
    /// As [`ClosedLoop::new`].
    pub fn with_seed(
        model: &'a mut dyn DeviceModel,
        depth: usize,
        pattern: Pattern,
        seed: u64,
    ) -> Self {
        let hundredth = model.spec().size_bytes / 100;
        let blocks = hundredth * pattern.span_percent / pattern.len_bytes;
        let blocks = blocks.min(pattern.blocks_max);
        assert!(depth > 0 && blocks > 0, "a loop has something to ask for");
        Self {
            model,
            depth,
            pattern,
            from_block: hundredth * pattern.from_percent / pattern.len_bytes,
            blocks,
            arrivals: RandomStream::new(seed, "job", 0),
            luck: RandomStream::new(seed, "luck", 0),
            next: 0,
            in_flight: Vec::new(),
            now: Instant::ZERO,
            until: Instant::ZERO,
        }
    }

    /// Runs on for `length`. What ends in it counts; what is in flight at its end does next time.
    ///
    /// # Panics
    /// Where the model fails an operation, or ends one that it was not given.
    pub fn run_for(&mut self, length: Duration) -> Run {
        self.until += length;
        let mut result = Run {
            service_ns: Histogram::new(),
            read_ns: Histogram::new(),
            write_ns: Histogram::new(),
            fingerprint: 0xcbf2_9ce4_8422_2325,
            bytes: 0,
            elapsed: length,
        };
        loop {
            while self.in_flight.len() < self.depth {
                self.submit();
            }
            let next_event_at = self.model.next_event_at();
            let at = self.now.max(next_event_at.expect("something is in flight"));
            if at > self.until {
                return result;
            }
            self.now = at;
            while let Some((op, outcome)) = self.model.poll_completion(at) {
                assert_eq!(outcome, Ok(()), "nothing is wrong with the model");
                let place = self.in_flight.iter().position(|(id, ..)| *id == op);
                let place = place.expect("a model ends what it was given");
                let (_, since, kind) = self.in_flight.swap_remove(place);
                let service_ns = (at - since).as_ns();
                result.service_ns.record(service_ns);
                if kind == OpKind::Read {
                    result.read_ns.record(service_ns);
                } else {
                    result.write_ns.record(service_ns);
                }
                result.bytes += self.pattern.len_bytes;
                for word in [op.0, at.as_ns()] {
                    result.fingerprint = (result.fingerprint ^ word).wrapping_mul(0x0100_0000_01b3);
                }
            }
        }
    }

    fn submit(&mut self) {
        let Pattern {
            kind,
            len_bytes,
            sequential,
            write_percent,
            ..
        } = self.pattern;
        let block = if sequential {
            self.next % self.blocks
        } else {
            self.arrivals.below(self.blocks)
        };
        let kind = match write_percent {
            0 => kind,
            percent if self.arrivals.below(100) < percent => OpKind::Write,
            _ => OpKind::Read,
        };
        let extent = Extent::new((self.from_block + block) * len_bytes, len_bytes);
        let op = LegOpId(self.next);
        self.model
            .submit(self.now, op, kind, extent, &mut self.luck);
        self.in_flight.push((op, self.now, kind));
        self.next += 1;
    }
}

/// Whether `value` is within a share of what is expected.
#[cfg(test)]
pub(crate) fn within(value: f64, expected: f64, tolerance: f64) -> bool {
    (value / expected - 1.0).abs() <= tolerance
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Duration, OpKind, RandomStream};

    use super::{ClosedLoop, Pattern, run};
    use crate::drives::drive;

    #[test]
    fn a_loop_that_was_stopped_goes_on_where_it_was() {
        let mut prng = RandomStream::new(1, "leg", 0);
        let params = drive("nvme-gen3").unwrap().params;
        let (mut one, mut other) = (params.build(&mut prng), params.build(&mut prng));
        let pattern = Pattern {
            write_percent: 30,
            ..Pattern::random_reads()
        };
        let whole = run(one.as_mut(), 8, pattern, Duration::from_ms(40));
        let mut parts = ClosedLoop::new(other.as_mut(), 8, pattern);
        let first = parts.run_for(Duration::from_ms(10));
        let rest = parts.run_for(Duration::from_ms(30));
        let count = first.service_ns.count() + rest.service_ns.count();
        assert_eq!(count, whole.service_ns.count());
        assert_eq!(first.bytes + rest.bytes, whole.bytes);
        let writes = whole.write_ns.count() as f64 / whole.service_ns.count() as f64;
        assert!((writes - 0.3).abs() < 0.03, "{writes}");
    }

    #[test]
    fn a_part_of_a_disk_is_as_fast_as_it_is_there() {
        let at = |from_percent| {
            let mut prng = RandomStream::new(1, "leg", 0);
            let mut disk = drive("hdd-7200-2tb").unwrap().params.build(&mut prng);
            let pattern = Pattern {
                from_percent,
                span_percent: 1,
                ..Pattern::stream().of(OpKind::Read)
            };
            run(disk.as_mut(), 4, pattern, Duration::from_secs(5)).bytes_per_s()
        };
        assert!(at(0) > 1.9 * at(99));
    }
}
