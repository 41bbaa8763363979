//! Legs that are saturated, and disks beside them.

use heliostat_types::Duration;

use super::{KIB, MIB, Rig};

impl Rig {
    /// A disk that has not answered yet, and a drive of flash whose reads of `len` bytes take
    /// `each_us` behind each other.
    fn flash_and_new_disk(len: u64, each_us: u64) -> Self {
        let mut rig = Self::new("adaptive", 2);
        rig.bench.legs[0].rotational = true;
        rig.bench.pick(0);
        for number in 0..100 {
            rig.rounds(1, number, 1, len, 2 * each_us);
            rig.rounds(1, number, 64, len, each_us);
        }
        rig
    }

    /// The same with a disk that is known, too.
    fn disk_and_flash(len: u64, each_us: u64) -> Self {
        let mut rig = Self::flash_and_new_disk(len, each_us);
        for number in 0..100 {
            rig.rounds(0, number, 1, len, 13_000);
            rig.rounds(0, number, 32, len, 5_000);
        }
        rig.keep_busy(1, 64, len, each_us);
        rig
    }

    /// A leg has had something to do for long.
    fn keep_busy(&mut self, leg: usize, count: u64, len: u64, each_us: u64) {
        for number in 0..50 {
            self.rounds(leg, number, count, len, each_us);
        }
    }

    /// A leg is sent so many reads at once, and answers one after the other.
    fn rounds(&mut self, leg: usize, number: u64, count: u64, len: u64, each_us: u64) {
        for read in 0..count {
            self.send_of(leg, (number * 37 + read * 11) % 100 * 999 * MIB, len);
        }
        for _ in 0..count {
            self.answer(leg, each_us);
        }
    }

    /// How many of so many reads that are asked for at once go to the disk.
    fn reads_of_disk(&mut self, count: u64, len: u64) -> usize {
        let offset = |read: u64| (read * 29 % 100 * 999 + read) * MIB;
        let legs: Vec<usize> = (0..count).map(|read| self.ask(offset(read), len)).collect();
        legs.iter().filter(|leg| **leg == 0).count()
    }
}

#[test]
fn a_disk_beside_saturated_flash_has_as_many_reads_as_it_ends_before_long() {
    // The drive answers 8,300 reads a second, of which a disk can do 200 where it has many to sort.
    let of = |count| Rig::disk_and_flash(64 * KIB, 120).reads_of_disk(count, 64 * KIB);
    assert_eq!(of(16), 4);
    // In what 740 reads take there it ends 16.
    assert!((10..=16).contains(&of(128)), "{}", of(128));
}

#[test]
fn a_disk_beside_saturated_flash_is_not_left_for_what_its_first_reads_took() {
    let after = |reads: u64| {
        let mut rig = Rig::flash_and_new_disk(64 * KIB, 120);
        for number in 0..reads {
            rig.rounds(0, number, 1, 64 * KIB, 25_000);
        }
        rig.keep_busy(1, 64, 64 * KIB, 120);
        rig.reads_of_disk(16, 64 * KIB)
    };
    assert!(
        after(3) > 0,
        "it may have had others, or something to write"
    );
    assert_eq!(after(40), 0, "it takes that long");
}

/// What comes now and then is done here before the slower leg has answered anything of it.
#[test]
fn a_leg_that_was_idle_a_moment_ago_is_not_saturated() {
    let mut rig = Rig::disk_and_flash(64 * KIB, 120);
    rig.bench.now += Duration::from_ms(1);
    assert_eq!(rig.reads_of_disk(64, 64 * KIB), 0);
    let mut rig = Rig::new("adaptive:split=off", 2);
    for number in 0..100 {
        rig.rounds(1, number, 1, 64 * KIB, 900);
        rig.rounds(0, number, 16, 64 * KIB, 40);
    }
    let picks = |rig: &mut Rig| {
        let legs = (0..16).map(|read| rig.ask((read * 29 + 7) * 99 * MIB, 64 * KIB));
        legs.filter(|leg| *leg == 1).count()
    };
    rig.bench.now += Duration::from_ms(1);
    assert_eq!(picks(&mut rig), 0, "all 16 end in 640 us here");
    for _ in 0..16 {
        rig.answer(0, 40);
    }
    for number in 0..4 {
        rig.rounds(0, number, 16, 64 * KIB, 40);
        rig.bench.now += Duration::from_us(20);
    }
    assert!(picks(&mut rig) > 0, "it is busy for 3 ms");
}

#[test]
fn a_disk_has_nothing_to_do_beside_flash_that_is_far_faster() {
    // 83,000 a second: a disk would do one in a thousand, and that one would take longest.
    let of = |count| Rig::disk_and_flash(4 * KIB, 12).reads_of_disk(count, 4 * KIB);
    assert_eq!(of(128), 0);
}

#[test]
fn a_disk_beside_flash_has_no_more_to_do_than_that() {
    // 2,000 a second: as few as that are worth any wait.
    let of = |count| Rig::disk_and_flash(256 * KIB, 500).reads_of_disk(count, 256 * KIB);
    assert_eq!(of(32), 16);
}

/// A leg is sent so many reads of 1 MiB and one of 4 KiB behind them, and answers one after the
/// other.
fn behind_long_reads(rig: &mut Rig, leg: usize, number: u64, count: u64, each_us: u64) {
    for read in 0..count {
        rig.send_of(leg, (number * 37 + read * 11) % 100 * 999 * MIB, MIB);
    }
    rig.send(leg, (number * 41 + 7) % 100 * 999 * MIB + 512 * KIB);
    for _ in 0..=count {
        rig.answer(leg, each_us);
    }
}

#[test]
fn a_disk_has_no_short_reads_beside_flash_that_has_long_ones() {
    // Each long read takes 0.3 ms, which are many for a disk; but not if the flash were to read
    // short ones instead.
    let mut rig = Rig::disk_and_flash(4 * KIB, 12);
    for number in 0..200 {
        behind_long_reads(&mut rig, 1, number, 16, 300);
    }
    for number in 0..16 {
        rig.send_of(1, number * 999 * MIB, MIB);
    }
    assert_eq!(rig.reads_of_disk(16, 4 * KIB), 0);
}

#[test]
fn flash_that_has_long_reads_has_room_for_short_ones() {
    let picks = |reads: u64| {
        let mut rig = Rig::new("adaptive", 2);
        rig.teach(20, &[100, 70]);
        for number in 0..200 {
            rig.rounds(0, number, 16, 4 * KIB, 15);
            behind_long_reads(&mut rig, 1, number, 1, 150);
        }
        rig.keep_busy(0, 16, 4 * KIB, 15);
        for number in 0..reads {
            rig.send(0, number * 999 * MIB);
        }
        rig.send_of(1, 999 * MIB, MIB);
        rig.ask(777 * MIB, 4 * KIB)
    };
    // One more takes 0.24 ms on leg 0, where each only waits longer by it, and 0.3 ms on leg 1.
    assert_eq!(picks(15), 1);
    assert_eq!(picks(3), 0, "that is not saturated");
}

#[test]
fn where_equals_are_saturated_none_has_more_than_another() {
    let mut rig = Rig::new("adaptive:split=off", 2);
    for number in 0..100 {
        for leg in 0..2 {
            rig.rounds(leg, number, 1, 64 * KIB, 240);
            rig.rounds(leg, number, 16, 64 * KIB, 120);
        }
    }
    let offset = |read: u64| (read * 29 % 1_000 * 99 + read % 7) * MIB;
    for read in 0..16 {
        rig.ask(offset(read), 64 * KIB);
    }
    for read in 0..500u64 {
        let ended = usize::from(read * 7 % 11 < 5);
        rig.answer(ended, 60);
        assert_eq!(rig.ask(offset(read), 64 * KIB), ended, "it has seven");
    }
}
