//! For tests: a closed loop round one model, in virtual time.

use heliostat_types::{Duration, Extent, Instant, LegOpId, OpKind, Prng, RandomStream};
use stdx::histogram::Histogram;

use crate::api::DeviceModel;
use crate::drives::Drive;

/// What the loop asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pattern {
    pub(crate) kind: OpKind,
    pub(crate) len_bytes: u64,
    pub(crate) sequential: bool,
    /// How many hundredths of the device, from its start on, are asked for.
    pub(crate) span_percent: u64,
    /// No more than so many different requests.
    pub(crate) blocks_max: u64,
}

impl Pattern {
    /// 4 KiB reads all over the device.
    pub(crate) const fn random_reads() -> Self {
        Self {
            kind: OpKind::Read,
            len_bytes: 4096,
            sequential: false,
            span_percent: 100,
            blocks_max: u64::MAX,
        }
    }

    /// One stream of 1 MiB reads.
    pub(crate) const fn stream() -> Self {
        Self {
            kind: OpKind::Read,
            len_bytes: 1 << 20,
            sequential: true,
            span_percent: 100,
            blocks_max: u64::MAX,
        }
    }

    pub(crate) const fn over(mut self, span_percent: u64) -> Self {
        self.span_percent = span_percent;
        self
    }

    pub(crate) const fn repeated_after(mut self, blocks_max: u64) -> Self {
        self.blocks_max = blocks_max;
        self
    }

    pub(crate) const fn of(mut self, kind: OpKind) -> Self {
        self.kind = kind;
        self
    }
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) service_ns: Histogram,
    bytes: u64,
    elapsed: Duration,
}

impl Run {
    pub(crate) fn iops(&self) -> f64 {
        self.service_ns.count() as f64 / self.elapsed.as_secs_f64()
    }

    pub(crate) fn bytes_per_s(&self) -> f64 {
        self.bytes as f64 / self.elapsed.as_secs_f64()
    }
}

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

/// Runs a pattern on `model` for `length`, always `depth` operations in flight.
pub(crate) fn run(
    model: &mut dyn DeviceModel,
    depth: usize,
    pattern: Pattern,
    length: Duration,
) -> Run {
    let mut arrivals = RandomStream::new(1, "job", 0);
    let mut luck = RandomStream::new(1, "luck", 0);
    let blocks = model.spec().size_bytes / 100 * pattern.span_percent / pattern.len_bytes;
    let blocks = blocks.min(pattern.blocks_max);
    let mut next = 0;
    let mut started: Vec<(LegOpId, Instant)> = Vec::new();
    let mut now = Instant::ZERO;
    let mut result = Run {
        service_ns: Histogram::new(),
        bytes: 0,
        elapsed: length,
    };
    loop {
        while started.len() < depth {
            let block = if pattern.sequential {
                next % blocks
            } else {
                arrivals.below(blocks)
            };
            let extent = Extent::new(block * pattern.len_bytes, pattern.len_bytes);
            model.submit(now, LegOpId(next), pattern.kind, extent, &mut luck);
            started.push((LegOpId(next), now));
            next += 1;
        }
        now = now.max(model.next_event_at().expect("something is in flight"));
        if now > Instant::ZERO + length {
            return result;
        }
        while let Some((op, outcome)) = model.poll_completion(now) {
            assert_eq!(outcome, Ok(()));
            let at = started.iter().position(|(id, _)| *id == op).unwrap();
            let (_, since) = started.swap_remove(at);
            result.service_ns.record((now - since).as_ns());
            result.bytes += pattern.len_bytes;
        }
    }
}

/// Whether `value` is within a share of what is expected.
pub(crate) fn within(value: f64, expected: f64, tolerance: f64) -> bool {
    (value / expected - 1.0).abs() <= tolerance
}
