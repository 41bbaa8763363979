//! How many operations the device is given at once: the fewest that keep 98 % of its throughput.
//!
//! While more waits than the device is given, time is cut into periods, and in each period one
//! depth is tried: mostly the one that is believed, now and then all that the leg takes, and half
//! of what is believed. What was done in a period is counted in bytes, to which each operation adds
//! what the device could have moved in its stead. A depth that does no less than 98 % of the best
//! is believed when enough periods have said so, the smallest first.
//!
//! What a device has in hand nobody orders, so who has most in flash has most of it. Where several
//! have much in it, a period counts for the depth that is tried whether anything waits or not.

use heliostat_types::Instant;

use super::Fair;
use super::meter::Operation;
use crate::job::Device;

/// A period has so many completions, at least: more than a round of deep queues, because what a
/// disk does in a part of it is all of one kind; rounds of flash are short.
const PERIOD_OPS: [u32; 2] = [1024, 256];
/// On flash so many are enough where they have so many bytes: with few that are large who has one
/// at a time waits for long until less is tried.
const PERIOD_LARGE_OPS: u32 = 32;
const PERIOD_LARGE_BYTES: f64 = 33_554_432.0;
/// One period in so many is one of trying.
const TRIED_EVERY: u32 = 32;
/// On flash what does less than so much of the best is tried in one period of so many.
const FAR: f64 = 0.9;
const FAR_TRIED_EVERY: u32 = 512;
/// What does less than enough by no more than that may do so by chance: so many periods tell.
const NEAR_PERIODS: u32 = 8;
/// How much the last period weighs.
const LEARNED_PART: f64 = 1.0 / 8.0;
/// So many periods are needed before a depth is judged. Of flash each is held against those before
/// and behind it.
const PERIODS_MIN: [u32; 2] = [4, 2];
/// Of the best throughput, what is enough.
const ENOUGH: f64 = 0.98;
/// An operation counts for so many bytes beside its own.
const OP_BYTES: [f64; 2] = [1_048_576.0, 32_768.0];
/// The largest depth that is tried: devices say that they take more than is of any use.
const DEPTH_MAX: u32 = 256;
/// Depths are powers of two up to that.
const DEPTHS: usize = 9;
/// With fewer jobs in flash nobody waits for long, and less is not tried while nothing waits.
const SHARED_MIN: usize = 16;
/// After so many operations while one had all that was there, it is his alone.
const ALONE_MIN: u32 = 256;
/// Where flash does so many times as much at a depth as it did, or as little, the work is another
/// one, and what was learned of depths is not of that.
const OTHER_WORK: f64 = 2.0;

/// What is known of one depth.
#[derive(Clone, Copy, Debug, Default)]
struct Tried {
    rate: f64,
    periods: u32,
}

impl Tried {
    fn learn(&mut self, rate: f64) {
        self.periods = self.periods.saturating_add(1);
        // An average of the first ones, then one that forgets.
        let part = (1.0 / f64::from(self.periods)).max(LEARNED_PART);
        self.rate += (rate - self.rate) * part;
    }
}

/// What a device had in hand until an operation ended, with that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Had {
    pub(super) ops: usize,
    /// As they were asked for: several go as one.
    pub(super) jobs: usize,
    /// Whether several have something there, or waiting, beside that.
    pub(super) is_shared: bool,
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
    /// What is done at each depth, in times `level`.
    tried: [Tried; DEPTHS],
    /// What flash did last at the depth that is believed, by which it is seen what another one is
    /// worth: it does more or less with time, and with other work. A disk takes minutes for some
    /// periods; of that this is 1.
    level: f64,
    /// What was done at another depth, until it is seen what is done behind that.
    awaits: Option<(usize, f64)>,
    period: u32,
    /// How many have ended while one had all that was there.
    alone: u32,
    /// When the last operation ended that told something, where none has since that did not.
    told_at: Option<Instant>,
    /// What was done in this period, and in how long; what told nothing is left out.
    ops: u32,
    bytes: f64,
    ns: u64,
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
            level: 1.0,
            awaits: None,
            period: 0,
            alone: ALONE_MIN,
            told_at: None,
            ops: 0,
            bytes: 0.0,
            ns: 0,
        }
    }

    pub(super) const fn set(&mut self, set: u32) {
        self.set = set;
        self.told_at = None;
    }

    /// How many it is now.
    pub(super) fn now(&self) -> usize {
        if self.set > 0 {
            return usize::try_from(self.set).expect("a depth fits");
        }
        (1_usize << self.now).min(self.limit)
    }

    /// An operation has ended, when the device had so much; whether more waits.
    pub(super) fn completed(&mut self, now: Instant, ended: Operation, had: Had, waits: bool) {
        if self.set > 0 {
            return;
        }
        self.alone = if had.is_shared {
            0
        } else {
            self.alone.saturating_add(1)
        };
        let is_full = waits && had.ops >= self.now();
        let is_shared = !self.rotational && self.alone < ALONE_MIN;
        let is_told = is_full || is_shared && had.jobs >= SHARED_MIN;
        if !is_told {
            // What is done now says nothing of the depth.
            self.told_at = None;
            if self.rotational {
                // And what a disk did before was a part of a sweep.
                self.forget_period();
            }
            return;
        }
        let Some(told_at) = self.told_at.replace(now) else {
            return;
        };
        let kind = usize::from(!self.rotational);
        // What goes as one with another one is one less for a disk, and saves flash less than that.
        let count = if self.rotational { 1 } else { ended.jobs };
        self.ops += 1;
        self.bytes += ended.bytes as f64 + OP_BYTES[kind] * f64::from(count);
        self.ns += now.saturating_since(told_at).as_ns();
        let is_large = self.ops >= PERIOD_LARGE_OPS && self.bytes >= PERIOD_LARGE_BYTES;
        let is_period = self.ops >= PERIOD_OPS[kind] || !self.rotational && is_large;
        if !is_period || self.ns == 0 {
            return;
        }
        let rate = self.bytes / self.ns as f64;
        self.has_done(rate);
        // The first completion of a period belongs to the depth before it.
        self.told_at = None;
        self.forget_period();
    }

    /// In a period so much was done.
    fn has_done(&mut self, rate: f64) {
        let before = self.tried[self.now];
        let times = rate / (before.rate * self.level);
        let is_other = !(1.0 / OTHER_WORK..=OTHER_WORK).contains(&times);
        if !self.rotational && before.periods >= self.periods_min() && is_other {
            // This period had some of either.
            self.tried = [Tried::default(); DEPTHS];
            self.awaits = None;
            self.period = 0;
            (self.now, self.believed) = (self.most, self.most);
            return;
        }
        if self.rotational {
            self.tried[self.now].learn(rate);
        } else if self.now == self.believed {
            let level = std::mem::replace(&mut self.level, rate);
            self.tried[self.now].learn(1.0);
            if let Some((depth, rate)) = self.awaits.take() {
                // Where it has come to do less meanwhile, that is not what the depth did.
                self.tried[depth].learn(rate / level.min(self.level));
            }
        } else {
            self.awaits = Some((self.now, rate));
        }
        let before = self.believed;
        self.judge();
        if !self.rotational && self.believed != before {
            let rate = self.tried[self.believed].rate;
            self.level *= rate;
            for tried in &mut self.tried {
                tried.rate /= rate;
            }
        }
    }

    const fn periods_min(&self) -> u32 {
        PERIODS_MIN[if self.rotational { 0 } else { 1 }]
    }

    const fn forget_period(&mut self) {
        (self.ops, self.bytes, self.ns) = (0, 0.0, 0);
    }

    /// What is believed, and what is tried next.
    fn judge(&mut self) {
        let (tried, periods_min) = (self.tried, self.periods_min());
        let known = |depth: usize| {
            let Tried { rate, periods } = tried[depth];
            (periods >= periods_min).then_some(rate)
        };
        let best = (0..=self.most).filter_map(known).fold(0.0, f64::max);
        let enough = (0..=self.most).find(|&depth| {
            let rate = known(depth);
            rate.is_some_and(|rate| rate >= best * ENOUGH)
        });
        self.believed = enough.unwrap_or(self.most);
        self.period = self.period.wrapping_add(1);
        let half = self.believed.saturating_sub(1);
        let leaves_out = !self.rotational && self.period % FAR_TRIED_EVERY >= TRIED_EVERY;
        let is_left_out = |depth: usize| {
            let is_far = known(depth).is_some_and(|rate| rate < best * FAR);
            is_far && leaves_out
        };
        let is_unknown = |depth: usize| {
            let is_near = (best * FAR..best * ENOUGH).contains(&tried[depth].rate);
            let may_be_chance = is_near && !self.rotational;
            let needed = if may_be_chance {
                NEAR_PERIODS
            } else {
                periods_min
            };
            tried[depth].periods < needed
        };
        self.now = match self.period % TRIED_EVERY {
            _ if self.awaits.is_some() => self.believed,
            // It takes little time.
            _ if !self.rotational && is_unknown(self.most) => self.most,
            0 if is_left_out(half) => self.believed,
            0 => half,
            16 if is_left_out(self.most) => self.believed,
            16 => self.most,
            1..=4 if is_unknown(half) => half,
            _ if !self.rotational && is_unknown(half) => half,
            _ => self.believed,
        };
    }
}

impl Fair {
    /// What the device had until this ended.
    pub(super) fn had_with(&self, ended: Operation) -> Had {
        let mut active = self.flows.values().filter(|flow| flow.here_ns > 0);
        Had {
            ops: self.meter.in_device() + 1,
            jobs: self.meter.jobs().len() + usize::try_from(ended.jobs).expect("a count fits"),
            is_shared: active.nth(1).is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Duration, Instant};

    use super::super::meter::Operation;
    use super::super::tests::device as any_device;
    use super::{Depth, Had};
    use crate::job::Device;

    const OPERATION: Operation = Operation {
        bytes: 4096,
        jobs: 1,
    };

    fn device(queue_depth: u32) -> Device {
        Device {
            queue_depth,
            ..any_device(false)
        }
    }

    /// Where nothing goes as one with another one.
    const fn had(ops: usize, is_shared: bool) -> Had {
        Had {
            ops,
            jobs: ops,
            is_shared,
        }
    }

    /// What is believed of a device that does `rate(depth)` operations per second, after so many.
    fn learned(rotational: bool, ops: u32, rate: impl Fn(usize) -> f64) -> Vec<usize> {
        let device = Device {
            rotational,
            ..device(128)
        };
        let mut depth = Depth::new(device, 0);
        let mut now = Instant::ZERO;
        let mut seen = Vec::new();
        for _ in 0..ops {
            now += Duration::from_secs_f64(1.0 / rate(depth.now()));
            depth.completed(now, OPERATION, had(depth.now(), false), true);
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
        let mut depth = Depth::new(device(32), 0);
        for op in 0..100_000 {
            let now = Instant::ZERO + Duration::from_us(op * 10);
            depth.completed(now, OPERATION, had(31, false), true);
            depth.completed(now, OPERATION, had(32, false), false);
        }
        assert_eq!(depth.now(), 32);
        depth.set(3);
        assert_eq!(depth.now(), 3);
    }

    /// What is believed of flash that does as much with 4 as with more, after so many operations,
    /// where nothing waits before less is tried.
    fn of_what_is_in_it(rotational: bool, jobs: usize, is_shared: bool, ops: u32) -> usize {
        let device = Device {
            rotational,
            ..device(128)
        };
        let mut depth = Depth::new(device, 0);
        let mut now = Instant::ZERO;
        for _ in 0..ops {
            let in_device = depth.now().min(jobs);
            now += Duration::from_us(100 / u64::try_from(in_device.min(4)).unwrap());
            let had = had(in_device, is_shared);
            depth.completed(now, OPERATION, had, in_device < jobs);
        }
        1 << depth.believed
    }

    #[test]
    fn less_is_tried_where_several_have_much_in_flash() {
        assert_eq!(of_what_is_in_it(false, 100, true, 20_000), 4);
        assert_eq!(
            of_what_is_in_it(false, 100, false, 20_000),
            128,
            "one has all"
        );
        assert_eq!(
            of_what_is_in_it(false, 15, true, 20_000),
            128,
            "it is little"
        );
        assert_eq!(of_what_is_in_it(true, 100, true, 20_000), 128, "a disk");
    }

    /// All of it is in flash whatever the depth, in larger operations where there are fewer.
    #[test]
    fn what_flash_does_as_one_counts_as_what_it_was_asked_for() {
        let mut depth = Depth::new(device(32), 0);
        let mut now = Instant::ZERO;
        for _ in 0..20_000 {
            let ops = depth.now();
            let jobs = 128 / u32::try_from(ops).unwrap();
            now += Duration::from_us(10 * u64::from(jobs));
            let ended = Operation {
                bytes: 4096 * u64::from(jobs),
                jobs,
            };
            let had = Had {
                ops,
                jobs: 128,
                is_shared: true,
            };
            depth.completed(now, ended, had, false);
        }
        assert_eq!(1 << depth.believed, 1);
    }

    #[test]
    fn work_that_comes_in_bursts_is_learned_of_as_well() {
        let mut depth = Depth::new(device(128), 0);
        let mut now = Instant::ZERO;
        // Of 200 each time, as many are in it as may, and the last ones tell nothing.
        for left in (0..200).rev().cycle().take(80_000) {
            let in_device = depth.now().min(left + 1);
            now += Duration::from_us(100 / u64::try_from(in_device.min(4)).unwrap());
            let had = had(in_device, false);
            depth.completed(now, OPERATION, had, left >= in_device);
        }
        assert_eq!(1 << depth.believed, 4);
    }

    /// What is lost by tries, of a device that does `rate(op, depth)` operations per second, and
    /// what is believed of it, after so many of so many bytes.
    fn lost(ops: u32, bytes: u64, rate: impl Fn(u32, usize) -> f64) -> (f64, usize) {
        let mut depth = Depth::new(device(32), 0);
        let mut now = Instant::ZERO;
        let mut best = 0.0;
        for op in 0..ops {
            now += Duration::from_secs_f64(1.0 / rate(op, depth.now()));
            best += 1.0 / rate(op, 32);
            let operation = Operation { bytes, jobs: 1 };
            depth.completed(now, operation, had(depth.now(), false), true);
        }
        let secs = now.saturating_since(Instant::ZERO).as_secs_f64();
        (1.0 - best / secs, 1 << depth.believed)
    }

    #[test]
    fn what_does_far_less_is_hardly_tried() {
        let (lost, believed) = lost(
            100_000,
            4096,
            |_, depth| if depth < 2 { 500.0 } else { 1e3 },
        );
        assert_eq!(believed, 2);
        assert!(lost < 0.006, "{lost}");
    }

    #[test]
    fn what_flash_does_by_chance_is_not_taken_for_what_a_depth_does() {
        let mut believed = Vec::new();
        for seed in 0..16_u64 {
            let device = device(32);
            let mut depth = Depth::new(device, 0);
            let (mut now, mut state, mut noise) = (Instant::ZERO, seed, 1.0);
            for op in 0..20_000 {
                if op % 256 == 0 {
                    // By up to 8 % from one period to the next.
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_041);
                    noise = 0.92 + 0.16 * ((state >> 33) as f64 / f64::from(1_u32 << 31));
                }
                let rate = if depth.now() < 4 { 5e3 } else { 1e4 };
                now += Duration::from_secs_f64(1.0 / (rate * noise));
                depth.completed(now, OPERATION, had(depth.now(), false), true);
            }
            believed.push(1 << depth.believed);
        }
        let right = believed.iter().filter(|&&depth: &&u32| depth == 4).count();
        assert!(right >= 14, "{believed:?}");
    }

    #[test]
    fn with_few_large_operations_it_is_learned_as_soon() {
        let (_, believed) = lost(
            1_000,
            1 << 20,
            |_, depth| if depth < 2 { 300.0 } else { 500.0 },
        );
        assert_eq!(believed, 2);
    }

    #[test]
    fn a_device_that_does_less_and_less_does_not_need_more() {
        let slows = |op: u32, depth: usize| {
            let fresh = if depth < 4 { 500.0 } else { 1e3 };
            fresh / (1.0 + f64::from(op) / 200_000.0)
        };
        for ops in (20_000..=100_000).step_by(1_000) {
            let (_, believed) = lost(ops, 4096, slows);
            assert_eq!(believed, 4, "after {ops}");
        }
    }

    /// What it does in a part of a sweep is all of one kind.
    #[test]
    fn parts_of_what_a_disk_does_are_no_period() {
        for (told, is_judged) in [(1000, false), (1500, true)] {
            let disk = Device {
                rotational: true,
                ..device(32)
            };
            let mut depth = Depth::new(disk, 0);
            let mut now = Instant::ZERO;
            for left in (0..told).rev().cycle().take(20_000) {
                now += Duration::from_ms(4);
                let had = had(depth.now(), false);
                depth.completed(now, OPERATION, had, left > 0);
            }
            assert_eq!(depth.period > 0, is_judged, "{told}");
        }
    }

    #[test]
    fn what_is_believed_is_of_the_work_that_is_done() {
        let mut depth = Depth::new(device(128), 0);
        let mut now = Instant::ZERO;
        let mut work = |depth: &mut Depth, channels: usize, ops: u32| {
            for _ in 0..ops {
                let in_device = depth.now();
                now += Duration::from_us(100 / u64::try_from(in_device.min(channels)).unwrap());
                depth.completed(now, OPERATION, had(in_device, false), true);
            }
            1 << depth.believed
        };
        assert_eq!(work(&mut depth, 2, 20_000), 2);
        // Four times as much, of which little is done two at a time.
        assert_eq!(work(&mut depth, 50, 20_000), 64);
        assert_eq!(work(&mut depth, 2, 20_000), 2);
    }
}
