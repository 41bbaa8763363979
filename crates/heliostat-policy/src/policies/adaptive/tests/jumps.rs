//! Legs that say the wrong thing of themselves, and answer reads that are behind each other.

use heliostat_types::{Duration, Extent, Instant, Prng, RandomStream};

use super::super::jumps::Jumps;
use super::{KIB, MIB, Rig};

/// A leg that always has something to read.
struct Busy {
    jumps: Jumps,
    now: Instant,
    end: u64,
}

impl Busy {
    fn new() -> Self {
        Self {
            jumps: Jumps::default(),
            now: Instant::from_ns(1),
            end: 0,
        }
    }

    fn read(&mut self, offset: u64, len: u64, own: Duration) {
        self.now += own;
        let waited = Duration::from_secs(1);
        let extent = Extent::new(offset, len);
        self.jumps.answered(self.now, extent, waited);
        self.end = extent.end();
    }

    fn read_on(&mut self, len: u64, own_us: u64) {
        self.read(self.end, len, Duration::from_us(own_us));
    }

    /// Reads so many times 8 MiB, 128 KiB at a time, one after the other, with a jump to each.
    fn read_stretches(&mut self, count: u64, jump_us: u64, near_us: u64, written: u64) {
        for _ in 0..count {
            if written > 0 {
                self.jumps.written(written);
            }
            let jump = Duration::from_us(jump_us);
            self.read(self.end + 40 * MIB, 128 * KIB, jump);
            for _ in 1..64 {
                self.read_on(128 * KIB, near_us);
            }
        }
    }

    /// Random reads of 4 KiB of 1 TB, that take so long as a disk's may, or all the same.
    fn read_at_random(&mut self, count: u64, us_of: impl Fn(f64) -> f64) {
        let mut prng = RandomStream::new(7, "test", 0);
        for _ in 0..count {
            let offset = prng.below(1_000_000) * MIB;
            let way = (offset.abs_diff(self.end) as f64 / 1e12).sqrt();
            // Where the platter is turns out by chance.
            let turn_us = prng.below(8_000) as f64 * us_of(1.0) / 14_000.0;
            let own = Duration::from_secs_f64((us_of(way) + turn_us) / 1e6);
            self.read(offset, 4 * KIB, own);
        }
    }
}

#[test]
fn a_disk_is_known_by_its_way_to_the_next_stretch() {
    let mut disk = Busy::new();
    disk.read_stretches(4, 8_000, 600, 0);
    assert_eq!(disk.jumps.tell(), None, "that may be chance");
    disk.read_stretches(20, 8_000, 600, 0);
    assert_eq!(disk.jumps.tell(), Some(true));
}

#[test]
fn flash_is_known_by_having_none() {
    let mut drive = Busy::new();
    drive.read_stretches(20, 300, 250, 0);
    assert_eq!(drive.jumps.tell(), Some(false));
    // A disk beside whose reads somebody writes takes as long for each.
    let mut disk = Busy::new();
    disk.read_stretches(20, 8_000, 7_000, 0);
    assert_eq!(disk.jumps.tell(), None);
}

#[test]
fn flash_that_is_slow_or_written_has_no_arm() {
    let mut throttled = Busy::new();
    throttled.read_stretches(20, 10_000, 10_000, 0);
    assert_eq!(throttled.jumps.tell(), None);
    let mut written = Busy::new();
    written.read_stretches(20, 8_000, 250, MIB);
    assert_eq!(written.jumps.tell(), None);
    let mut throttled = Busy::new();
    throttled.read_at_random(400, |_| 10_000.0);
    assert_eq!(throttled.jumps.tell(), None, "the way says nothing");
    // A neighbour has it half of the time.
    let mut shared = Busy::new();
    for _ in 0..20 {
        shared.read_stretches(60, 300, 250, 0);
        shared.read_stretches(40, 6_000, 1_000, 0);
    }
    assert_ne!(shared.jumps.tell(), Some(true));
}

/// 128 KiB in flight are as much as 16 reads for flash, and as an eighth of one for a disk.
#[test]
fn what_a_leg_is_taken_for_says_what_its_loads_were() {
    let cost_behind = |is_disk_now, count| {
        let mut rig = Rig::new("adaptive", 2);
        rig.bench.legs[0].rotational = true;
        rig.bench.pick(0);
        rig.teach_deep(0, 1_200);
        rig.teach(8, &[600, 600]);
        rig.bench.legs[0].rotational = is_disk_now;
        for number in 0..count {
            rig.send_of(0, number * MIB, 128 * KIB);
        }
        rig.bench.pick(0);
        rig.bench.policy.belief(0).unwrap().cost.as_us()
    };
    let idle_us = cost_behind(true, 0);
    let behind_us = cost_behind(true, 7);
    assert!(behind_us > 3 * idle_us, "{idle_us} {behind_us}");
    assert_eq!(cost_behind(false, 0), idle_us);
    assert_eq!(cost_behind(false, 1), idle_us, "that was never seen");
}

#[test]
fn who_only_reads_on_tells_by_its_rate_alone() {
    for (us, is_told) in [(20, Some(false)), (230, None), (600, None)] {
        let mut leg = Busy::new();
        for _ in 0..1_100 {
            leg.read_on(128 * KIB, us);
        }
        assert_eq!(leg.jumps.tell(), is_told, "{us}");
    }
}

#[test]
fn a_disk_is_known_by_random_reads_that_take_longer_the_further_they_are() {
    let mut disk = Busy::new();
    disk.read_at_random(200, |way| 2_000.0 + 12_000.0 * way);
    assert_eq!(disk.jumps.tell(), Some(true));
    let mut drive = Busy::new();
    drive.read_at_random(100, |_| 90.0);
    assert_eq!(drive.jumps.tell(), None, "a disk's cache answers as fast");
    drive.read_at_random(200, |_| 90.0);
    assert_eq!(drive.jumps.tell(), Some(false));
}

#[test]
fn a_disk_behind_a_cache_is_not_taken_for_flash_while_that_answers() {
    let mut disk = Busy::new();
    let mut prng = RandomStream::new(7, "cache", 0);
    for _ in 0..4_000 {
        let is_cached = prng.below(5) > 0;
        let own = Duration::from_us(if is_cached { 120 } else { 8_000 });
        disk.read(prng.below(1_000_000) * MIB, 4 * KIB, own);
        assert_ne!(disk.jumps.tell(), Some(false));
    }
}

/// Readers of short blocks in sequence at several places, of a drive that reads on at each.
#[test]
fn a_disk_that_reads_ahead_by_itself_is_not_taken_for_flash() {
    let tell = |long_us, each| {
        let mut leg = Busy::new();
        for number in 0..2_000 {
            let is_there = number % each > 0;
            let own = Duration::from_us(if is_there { 200 } else { long_us });
            leg.read(number % 3 * 4_000 * MIB + number * 64 * KIB, 64 * KIB, own);
        }
        leg.jumps.tell()
    };
    assert_eq!(tell(9_000, 32), None);
    assert_eq!(tell(9_000, 96), None);
    assert_eq!(tell(200, 32), Some(false));
    // Flash pauses as well.
    assert_eq!(tell(9_000, 1_000), Some(false));
}
