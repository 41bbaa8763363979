//! How many operations the device is given at once: the fewest that keep 98 % of its throughput.
//!
//! While more waits than the device is given, time is cut into periods, and in each period one
//! depth is tried: mostly the one that is believed, now and then all that the leg takes, and half
//! of what is believed. What was done in a period is counted in bytes, to which each operation adds
//! what the device could have moved in its stead. A depth that does no less than 98 % of the best
//! is believed when enough periods have said so, the smallest first.

use heliostat_types::Instant;

use crate::job::Device;

/// A period has so many completions, at least: more than a round of deep queues, because what a
/// disk does in a part of it is all of one kind.
const PERIOD_OPS: u32 = 1024;
/// One period in so many is one of trying.
const TRIED_EVERY: u32 = 32;
/// How much the last period weighs.
const LEARNED_PART: f64 = 1.0 / 8.0;
/// So many periods are needed before a depth is judged.
const PERIODS_MIN: u32 = 4;
/// Of the best throughput, what is enough.
const ENOUGH: f64 = 0.98;
/// An operation counts for so many bytes beside its own.
const OP_BYTES: [f64; 2] = [1_048_576.0, 32_768.0];
/// The largest depth that is tried: devices say that they take more than is of any use.
const DEPTH_MAX: u32 = 256;
/// Depths are powers of two up to that.
const DEPTHS: usize = 9;

/// What is known of one depth.
#[derive(Clone, Copy, Debug, Default)]
struct Tried {
    rate: f64,
    periods: u32,
}

/// How many operations the device is given at once.
#[derive(Debug)]
pub(super) struct Depth {
    /// 0: what is learned.
    set: u32,
    rotational: bool,
    /// What is tried now, what is believed, and the most: as powers of two.
    now: usize,
    believed: usize,
    most: usize,
    /// What the leg takes, which need not be one.
    limit: usize,
    tried: [Tried; DEPTHS],
    period: u32,
    begun_at: Option<Instant>,
    ops: u32,
    bytes: f64,
}

impl Depth {
    pub(super) fn new(device: Device, set: u32) -> Self {
        let limit = device.queue_depth.clamp(1, DEPTH_MAX);
        let most = usize::try_from(limit.next_power_of_two().trailing_zeros()).expect("small");
        Self {
            set,
            rotational: device.rotational,
            now: most,
            believed: most,
            most,
            limit: usize::try_from(limit).expect("small"),
            tried: [Tried::default(); DEPTHS],
            period: 0,
            begun_at: None,
            ops: 0,
            bytes: 0.0,
        }
    }

    pub(super) const fn set(&mut self, set: u32) {
        self.set = set;
    }

    /// How many it is now.
    pub(super) fn now(&self) -> usize {
        if self.set > 0 {
            return usize::try_from(self.set).expect("a depth fits");
        }
        (1_usize << self.now).min(self.limit)
    }

    /// An operation of so many bytes has ended, when the device had so many with it.
    pub(super) fn completed(&mut self, now: Instant, bytes: u64, in_device: usize, waits: bool) {
        if self.set > 0 {
            return;
        }
        if !waits || in_device < self.now() {
            // What is done now says nothing of the depth.
            self.begun_at = None;
            return;
        }
        let kind = usize::from(!self.rotational);
        let Some(begun_at) = self.begun_at else {
            self.begun_at = Some(now);
            (self.ops, self.bytes) = (0, 0.0);
            return;
        };
        self.ops += 1;
        self.bytes += bytes as f64 + OP_BYTES[kind];
        if self.ops < PERIOD_OPS || now <= begun_at {
            return;
        }
        let rate = self.bytes / now.saturating_since(begun_at).as_ns() as f64;
        let tried = &mut self.tried[self.now];
        tried.periods = tried.periods.saturating_add(1);
        // An average of the first ones, then one that forgets.
        let part = (1.0 / f64::from(tried.periods)).max(LEARNED_PART);
        tried.rate += (rate - tried.rate) * part;
        self.judge();
        // The first completion of a period belongs to the depth before it.
        self.begun_at = None;
    }

    /// What is believed, and what is tried next.
    fn judge(&mut self) {
        let known = |depth: usize| {
            let tried = self.tried[depth];
            (tried.periods >= PERIODS_MIN).then_some(tried.rate)
        };
        let best = (0..=self.most).filter_map(known).fold(0.0, f64::max);
        let enough = (0..=self.most).find(|&depth| {
            let rate = known(depth);
            rate.is_some_and(|rate| rate >= best * ENOUGH)
        });
        self.believed = enough.unwrap_or(self.most);
        self.period = self.period.wrapping_add(1);
        let half = self.believed.saturating_sub(1);
        self.now = match self.period % TRIED_EVERY {
            0 => half,
            16 => self.most,
            1..=4 if self.tried[half].periods < PERIODS_MIN => half,
            _ => self.believed,
        };
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Duration, Instant, LegId};

    use super::Depth;
    use crate::job::Device;

    /// What is believed of a device that does `rate(depth)` operations per second, after so many.
    fn learned(rotational: bool, ops: u32, rate: impl Fn(usize) -> f64) -> Vec<usize> {
        let device = Device {
            leg: LegId::new(0),
            rotational,
            caches_writes: false,
            queue_depth: 128,
            leg_count: 1,
        };
        let mut depth = Depth::new(device, 0);
        let mut now = Instant::ZERO;
        let mut seen = Vec::new();
        for _ in 0..ops {
            now += Duration::from_secs_f64(1.0 / rate(depth.now()));
            depth.completed(now, 4096, depth.now(), true);
            seen.push(1 << depth.believed);
        }
        seen
    }

    #[test]
    fn what_does_no_more_with_more_is_given_less() {
        // Eight channels: 8 operations are as good as 128.
        let eight = |depth: usize| 10_000.0 * depth.min(8) as f64;
        assert_eq!(learned(false, 200_000, eight).last(), Some(&8));
        // Half a percent more each time: 98 % is enough.
        let flat = |depth: usize| {
            if depth < 2 {
                500.0
            } else {
                1000.0 + depth as f64 / 32.0
            }
        };
        assert_eq!(learned(true, 200_000, flat).last(), Some(&2));
        // Each doubling does a tenth more.
        let slope = |depth: usize| 100.0 + 10.0 * f64::from(depth.trailing_zeros());
        assert_eq!(learned(true, 200_000, slope).last(), Some(&128));
    }

    #[test]
    fn nothing_is_learned_while_the_device_has_less() {
        let device = Device {
            leg: LegId::new(0),
            rotational: false,
            caches_writes: false,
            queue_depth: 32,
            leg_count: 1,
        };
        let mut depth = Depth::new(device, 0);
        for op in 0..100_000 {
            let now = Instant::ZERO + Duration::from_us(op * 10);
            depth.completed(now, 4096, 31, true);
            depth.completed(now, 4096, 32, false);
        }
        assert_eq!(depth.now(), 32);
        depth.set(3);
        assert_eq!(depth.now(), 3);
    }
}
