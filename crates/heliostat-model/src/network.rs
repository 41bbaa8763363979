//! A disk behind a network, as clouds sell them: a latency with a tail, two caps with credit for
//! bursts, and pauses.
//!
//! Operations run side by side without limit; what queues is the caps. Each operation waits for its
//! turn among `iops_max` per second and for its bytes among `bytes_per_s_max`, then takes the
//! network and the media's time. What would end in a pause ends when that is over.

mod bucket;
mod params;

use std::collections::VecDeque;

use heliostat_types::{Duration, ErrorKind, Extent, Instant, LegOpId, OpKind, Prng, RandomStream};
use stdx::math::ln;

use crate::api::{DeviceModel, DeviceSpec, assert_size};
use crate::timing::{Gate, TimeQueue};
use bucket::Bucket;
pub use params::NetworkDiskParams;

/// A disk behind a network.
#[derive(Clone, Debug)]
pub struct NetworkDisk {
    params: NetworkDiskParams,
    spec: DeviceSpec,
    operations: Bucket,
    bytes: Bucket,
    /// The caps on reads and on writes alone.
    read_gate: Gate,
    write_gate: Gate,
    stalls: Option<Stalls>,
    completions: TimeQueue<LegOpId>,
}

/// Pauses in which nothing ends, whatever the disk is asked for.
#[derive(Clone, Debug)]
struct Stalls {
    luck: RandomStream,
    interval_mean: Duration,
    min: Duration,
    max: Duration,
    /// From when until when, as far as they matter yet.
    known: VecDeque<(Instant, Instant)>,
}

impl Stalls {
    fn new(params: &NetworkDiskParams, prng: &mut dyn Prng) -> Option<Self> {
        (params.stall_interval_mean > Duration::ZERO).then(|| Self {
            luck: RandomStream::new(prng.next_u64(), "stalls", 0),
            interval_mean: params.stall_interval_mean,
            min: params.stall_min,
            max: params.stall_max,
            known: VecDeque::from([(Instant::ZERO, Instant::ZERO)]),
        })
    }

    /// When something ends that would end at `at`; nothing that is asked later ends before `now`.
    fn end_of(&mut self, at: Instant, now: Instant) -> Instant {
        loop {
            let &(begins_at, ends_at) = self.known.back().expect("the last one is never dropped");
            if begins_at > at {
                break;
            }
            let interval = exponential(self.interval_mean, &mut self.luck);
            let spread = (self.max - self.min).as_ns() + 1;
            let length = self.min + Duration::from_ns(self.luck.below(spread));
            let next_at = ends_at + interval;
            self.known.push_back((next_at, next_at + length));
        }
        while self.known.len() > 1 && self.known[0].1 < now {
            self.known.pop_front();
        }
        let mut stalls = self.known.iter();
        stalls
            .find(|(begins_at, ends_at)| *begins_at <= at && at < *ends_at)
            .map_or(at, |(_, ends_at)| *ends_at)
    }
}

/// A length of time with this mean, exponentially distributed.
fn exponential(mean: Duration, prng: &mut dyn Prng) -> Duration {
    // 1 - u is never 0, so that the logarithm is finite.
    Duration::from_secs_f64(-ln(1.0 - prng.unit_f64()) * mean.as_secs_f64())
}

/// Block sizes as virtual machines see them on such disks.
const LOGICAL_BLOCK_BYTES: u32 = 512;
const PHYSICAL_BLOCK_BYTES: u32 = 4096;

impl NetworkDisk {
    /// A disk with nothing in flight.
    ///
    /// # Panics
    /// Where the size is no whole number of blocks or a cap is zero.
    #[must_use]
    pub fn new(params: NetworkDiskParams, prng: &mut dyn Prng) -> Self {
        assert_size(params.size_bytes, LOGICAL_BLOCK_BYTES);
        assert!(
            params.iops_max > 0 && params.bytes_per_s_max > 0,
            "a cap lets something through"
        );
        Self {
            params,
            spec: DeviceSpec {
                size_bytes: params.size_bytes,
                logical_block_bytes: LOGICAL_BLOCK_BYTES,
                physical_block_bytes: PHYSICAL_BLOCK_BYTES,
                rotational: false,
                queue_depth: params.queue_depth,
                optimal_io_bytes: 0,
                // What such a disk has acknowledged lies on several machines.
                volatile_cache: false,
            },
            operations: Bucket::new(
                params.iops_max.into(),
                params.iops_burst_max.into(),
                params.iops_credit.into(),
            ),
            bytes: Bucket::new(
                params.bytes_per_s_max,
                params.bytes_per_s_burst_max,
                params.bytes_credit,
            ),
            read_gate: Gate::new(params.read_bytes_per_s_max),
            write_gate: Gate::new(params.write_bytes_per_s_max),
            stalls: Stalls::new(&params, prng),
            completions: TimeQueue::new(),
        }
    }
}

impl DeviceModel for NetworkDisk {
    fn spec(&self) -> &DeviceSpec {
        &self.spec
    }

    fn submit(
        &mut self,
        now: Instant,
        op: LegOpId,
        kind: OpKind,
        extent: Extent,
        prng: &mut dyn Prng,
    ) {
        let (passes_at, _) = self.operations.pass(now, 1);
        let sent_bytes = match kind {
            OpKind::Read | OpKind::Write => extent.len(),
            OpKind::Flush | OpKind::Trim | OpKind::WriteZeroes | OpKind::BlockStatus => 0,
        };
        let (_, sent_at) = self.bytes.pass(passes_at, sent_bytes);
        let let_through_at = match kind {
            OpKind::Read => self.read_gate.pass(passes_at, sent_bytes),
            OpKind::Write => self.write_gate.pass(passes_at, sent_bytes),
            OpKind::Flush | OpKind::Trim | OpKind::WriteZeroes | OpKind::BlockStatus => passes_at,
        };
        let tail = exponential(self.params.latency_tail_mean, prng);
        let mut ends_at = sent_at.max(let_through_at) + self.params.latency_floor + tail;
        if let Some(stalls) = &mut self.stalls {
            ends_at = stalls.end_of(ends_at, now);
        }
        self.completions.push(ends_at, op);
    }

    fn next_event_at(&self) -> Option<Instant> {
        self.completions.next_at()
    }

    fn poll_completion(&mut self, now: Instant) -> Option<(LegOpId, Result<(), ErrorKind>)> {
        let (_, op) = self.completions.pop_due(now)?;
        Some((op, Ok(())))
    }

    fn clone_box(&self) -> Box<dyn DeviceModel> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Duration, Extent, Instant, LegOpId, OpKind, RandomStream};

    use crate::api::DeviceModel;
    use crate::closed_loop::{Pattern, run, within};
    use crate::drives::drive;

    #[test]
    fn one_at_a_time_takes_the_latency() {
        let run = drive("net-ssd").unwrap().run(1, Pattern::random_reads());
        assert!(within(run.iops(), 1_667.0, 0.03), "{}", run.iops());
    }

    #[test]
    fn the_caps_hold() {
        let deep = drive("net-ssd").unwrap().run(256, Pattern::random_reads());
        assert!(within(deep.iops(), 16_000.0, 0.01), "{}", deep.iops());
        let large = Pattern::stream().of(OpKind::Write);
        let run = drive("net-ssd").unwrap().run(32, large);
        assert!(
            within(run.bytes_per_s(), 1_048_576_000.0, 0.01),
            "{}",
            run.bytes_per_s()
        );
    }

    #[test]
    fn credit_is_spent_in_bursts_and_comes_back() {
        // As AWS says of gp2: 3,000 operations per second until 5.4 million credits are spent, then
        // 300 for a disk of 100 GB; here with a thousandth of the credits.
        let mut params = drive("net-ssd").unwrap().params;
        for (key, value) in [
            ("iops_max", "300"),
            ("iops_burst_max", "3000"),
            ("iops_credit", "5400"),
        ] {
            params.set(key, value).unwrap();
        }
        params.check().unwrap();
        let mut luck = RandomStream::new(1, "luck", 0);
        let mut model = params.build(&mut luck);
        let mut count_in_a_second = |model: &mut dyn DeviceModel, from_s: u64| {
            let from = Instant::ZERO + Duration::from_secs(from_s);
            let until = from + Duration::from_secs(1);
            for op in 0..4_000 {
                let id = LegOpId(from_s * 10_000 + op);
                model.submit(from, id, OpKind::Read, Extent::new(0, 4096), &mut luck);
            }
            let mut count = 0;
            let mut rest = 0;
            let mut now = from;
            while let Some(next) = model.next_event_at() {
                now = now.max(next);
                while model.poll_completion(now).is_some() {
                    *(if now <= until { &mut count } else { &mut rest }) += 1;
                }
            }
            assert_eq!(count + rest, 4_000);
            count
        };
        let first = count_in_a_second(model.as_mut(), 0);
        assert!((2_990..=3_000).contains(&first), "{first}");
        // 2,700 of the credits were left, and 9,000 ms earn as many again.
        let second = count_in_a_second(model.as_mut(), 11);
        assert!((2_990..=3_000).contains(&second), "{second}");
        params.set("iops_credit", "0").unwrap();
        let even = count_in_a_second(
            params.build(&mut RandomStream::new(1, "leg", 0)).as_mut(),
            0,
        );
        assert!((298..=300).contains(&even), "{even}");
    }

    #[test]
    fn bandwidth_has_credit_too() {
        let mut drive = *drive("net-ssd").unwrap();
        for (key, value) in [
            ("bytes_per_s_max", "100MB/s"),
            ("bytes_per_s_burst_max", "1GB/s"),
            ("bytes_credit", "450MB"),
        ] {
            drive.params.set(key, value).unwrap();
        }
        // Half a second at 1 GB/s spends the credit and what comes in meanwhile.
        let run = drive.run(8, Pattern::stream());
        let expected = (500e6 + 1.5 * 100e6) / 2.0;
        assert!(
            within(run.bytes_per_s(), expected, 0.03),
            "{}",
            run.bytes_per_s()
        );
    }

    #[test]
    fn stalls_are_rare_long_and_the_same_whatever_is_asked() {
        let mut params = drive("net-ssd").unwrap().params;
        for (key, value) in [
            ("stall_interval_mean", "2s"),
            ("stall_min", "50ms"),
            ("stall_max", "200ms"),
        ] {
            params.set(key, value).unwrap();
        }
        params.check().unwrap();
        // Ends of the stalls, as seen by reads of one at a time and of 16.
        let ends_at_depth = |depth| {
            let mut model = params.build(&mut RandomStream::new(1, "leg", 0));
            let length = Duration::from_secs(100);
            let run = run(model.as_mut(), depth, Pattern::random_reads(), length);
            let longest = Duration::from_ns(run.service_ns.max());
            assert!(longest > Duration::from_ms(120), "{longest}");
            assert!(longest < Duration::from_ms(205), "{longest}");
            let mut alone = params.build(&mut RandomStream::new(1, "leg", 0));
            let mut ends = Vec::new();
            let mut luck = RandomStream::new(7, "luck", depth as u64);
            for op in 0..20_000 {
                let now = Instant::ZERO + Duration::from_ms(op * 5);
                alone.submit(
                    now,
                    LegOpId(op),
                    OpKind::Read,
                    Extent::new(0, 4096),
                    &mut luck,
                );
                let at = alone.next_event_at().unwrap();
                while alone.poll_completion(at.max(now)).is_some() {
                    if at.saturating_since(now) > Duration::from_ms(20) {
                        ends.push(at);
                    }
                }
            }
            ends.dedup();
            ends
        };
        let ends = ends_at_depth(1);
        assert!((30..70).contains(&ends.len()), "{}", ends.len());
        assert_eq!(ends, ends_at_depth(16));
    }
}
