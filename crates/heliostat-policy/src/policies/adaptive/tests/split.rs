//! Reads that are cut among flash.

use super::{KIB, MIB, Rig};

/// How long a leg takes for so many bytes, in us: 50, and one for each KiB.
fn by_length(_: usize, len: u64) -> u64 {
    50 + len / KIB
}

impl Rig {
    /// A random read, number `number`, that a leg takes `time_us` for: which leg had how much.
    fn read(
        &mut self,
        number: u64,
        len: u64,
        time_us: impl Fn(usize, u64) -> u64,
    ) -> Vec<(usize, u64)> {
        let offset = number * 7_919 % 100_000 * MIB;
        let pieces = self.bench.pieces(offset, len);
        let mut at = offset;
        for (leg, len) in &pieces {
            self.send_of(*leg, at, *len);
            at += len;
        }
        // The one that takes longest ends last.
        let mut ends: Vec<(u64, usize)> = Vec::new();
        for (leg, len) in &pieces {
            ends.push((time_us(*leg, *len), *leg));
        }
        ends.sort_unstable();
        let mut passed = 0;
        for (end, leg) in ends {
            self.answer(leg, end - passed);
            passed = end;
        }
        pieces
    }

    /// So many of them, one after the other: how many were cut.
    fn reads(
        &mut self,
        numbers: std::ops::Range<u64>,
        len: u64,
        time_us: impl Fn(usize, u64) -> u64,
    ) -> usize {
        let cut = numbers.filter(|number| self.read(*number, len, &time_us).len() > 1);
        cut.count()
    }
}

#[test]
fn a_large_read_is_cut_where_that_is_quicker() {
    for (legs, parts) in [(2, &[32, 32][..]), (3, &[24, 24, 16])] {
        let mut rig = Rig::new("adaptive", legs);
        rig.reads(0..100, 64 * KIB, by_length);
        let pieces = rig.read(100, 64 * KIB, by_length);
        let lengths: Vec<u64> = pieces.iter().map(|(_, len)| len / KIB).collect();
        assert_eq!(lengths, parts);
        assert_eq!(rig.bench.reason(), "cut among equal legs");
        // Whether it still is gets tried, with less than one read of 1,000.
        rig.reads(0..100_000, 64 * KIB, by_length);
        let cut = rig.reads(0..100_000, 64 * KIB, by_length);
        assert!((99_900..100_000).contains(&cut), "{cut}");
    }
}

#[test]
fn one_that_gains_nothing_is_not() {
    let mut rig = Rig::new("adaptive", 2);
    let cut = rig.reads(0..100, 64 * KIB, |_, _| 100);
    assert!((1..20).contains(&cut), "{cut}: it is tried");
    rig.reads(0..100_000, 64 * KIB, |_, _| 100);
    let cut = rig.reads(0..100_000, 64 * KIB, |_, _| 100);
    assert!((1..100).contains(&cut), "{cut}");
    // Nor one that is so short that a part of it takes as long, of which nobody has to see it.
    assert_eq!(rig.reads(0..1_000, 8 * KIB, by_length), 0);
}

#[test]
fn what_is_quicker_changes() {
    let mut rig = Rig::new("adaptive", 2);
    let busy = |_, len: u64| 100 + 30 * u64::from(len < 64 * KIB);
    for _ in 0..2 {
        rig.reads(0..80_000, 64 * KIB, by_length);
        assert_eq!(rig.reads(0..100, 64 * KIB, by_length), 100);
        rig.reads(0..80_000, 64 * KIB, busy);
        assert_eq!(rig.reads(0..100, 64 * KIB, busy), 0);
    }
}

#[test]
fn chance_is_no_reason() {
    let mut rig = Rig::new("adaptive", 2);
    let count = std::cell::Cell::new(1u64);
    // From 50 to 150 us, of which the longer one counts where it is cut.
    let by_chance = |_, _| {
        let next = count.get().wrapping_mul(6_364_136_223_846_793_005) + 1;
        count.set(next);
        50 + (next >> 33) % 100
    };
    let cut = rig.reads(0..200_000, 64 * KIB, by_chance);
    assert!(cut < 1_000, "{cut}");
}

#[test]
fn a_leg_that_is_unlike_the_others_has_no_part() {
    let mut rig = Rig::new("adaptive", 3);
    let of_unequal = |leg, len| by_length(leg, len) * if leg == 1 { 2 } else { 1 };
    rig.reads(0..100, 64 * KIB, of_unequal);
    let legs = |pieces: Vec<(usize, u64)>| {
        let mut legs: Vec<usize> = pieces.iter().map(|piece| piece.0).collect();
        legs.sort_unstable();
        legs
    };
    assert_eq!(legs(rig.read(100, 64 * KIB, of_unequal)), [0, 2]);
    // Nor one that has become slow.
    for number in 101..200 {
        rig.read(number, 64 * KIB, |leg, len| {
            by_length(leg, len) * if leg > 0 { 5 } else { 1 }
        });
    }
    assert_eq!(legs(rig.read(200, 64 * KIB, of_unequal)), [0]);
}

#[test]
fn nothing_is_cut_where_a_leg_stalls_often() {
    let mut rig = Rig::new("adaptive:hedge=off", 2);
    let count = std::cell::Cell::new(0u64);
    let with_stalls = |leg, len| {
        count.set(count.get() + leg as u64);
        let stall = if leg == 1 && count.get().is_multiple_of(500) {
            5_000
        } else {
            0
        };
        by_length(leg, len) + stall
    };
    rig.reads(0..10_000, 64 * KIB, with_stalls);
    let cut = rig.reads(0..10_000, 64 * KIB, with_stalls);
    assert_eq!(cut, 0);
}

#[test]
fn it_can_be_switched_off_and_no_arm_reads_a_part() {
    let mut rig = Rig::new("adaptive:split=off", 2);
    assert_eq!(rig.reads(0..1_000, 64 * KIB, by_length), 0);
    rig.bench.set("adaptive");
    rig.reads(0..1_000, 64 * KIB, by_length);
    assert_eq!(rig.reads(0..100, 64 * KIB, by_length), 100);
    let mut rig = Rig::disks(2);
    let slowly = |leg, len| 200 * by_length(leg, len);
    assert_eq!(rig.reads(0..1_000, 64 * KIB, slowly), 0);
}

#[test]
fn a_read_that_is_never_answered_ends_no_try() {
    let mut rig = Rig::new("adaptive", 2);
    rig.reads(0..20, 64 * KIB, by_length);
    for number in 0..40 {
        rig.bench.pieces(number * 999 * MIB, 64 * KIB);
    }
    rig.reads(0..1_000, 64 * KIB, by_length);
    assert_eq!(rig.reads(0..100, 64 * KIB, by_length), 100);
}

#[test]
fn a_saturated_leg_has_no_room_for_parts() {
    let mut rig = Rig::new("adaptive", 2);
    rig.reads(0..1_000, 64 * KIB, by_length);
    // Rounds of eight on each leg, which reads one after the other.
    for round in 0..400 {
        for number in 0..16 {
            let offset = (round * 16 + number) * 7_919 % 100_000 * MIB;
            rig.send_of(usize::from(number >= 8), offset, 64 * KIB);
        }
        for number in 0..16 {
            rig.answer(number % 2, by_length(0, 64 * KIB) / 2);
        }
    }
    for number in 0..16 {
        rig.send_of(number % 2, number as u64 * 999 * MIB, 64 * KIB);
    }
    assert_eq!(rig.bench.pieces(77 * MIB, 64 * KIB).len(), 1);
    assert_eq!(rig.bench.pieces(99 * MIB, MIB).len(), 1);
}
