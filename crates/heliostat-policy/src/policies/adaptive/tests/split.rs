//! Reads that are cut among flash.

use heliostat_types::{ClientId, Duration, Extent, Instant, OpKind, StreamId};

use super::reasons::fact;
use super::{KIB, MIB, Rig};
use crate::api::ReadRequest;
use crate::policies::adaptive::split::Splits;
use crate::testing::{Mirror, op};

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
        self.read_at(number * 7_919 % 100_000 * MIB, len, time_us)
    }

    /// The same for a read that begins there.
    fn read_at(
        &mut self,
        offset: u64,
        len: u64,
        time_us: impl Fn(usize, u64) -> u64,
    ) -> Vec<(usize, u64)> {
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

    /// The same where the policy may read ahead, and all but that is answered.
    fn read_ahead(&mut self, offset: u64, len: u64) -> Vec<(usize, u64)> {
        let pieces = self.read_at(offset, len, by_length);
        let request = ReadRequest {
            client: ClientId(0),
            stream: StreamId(0),
            extent: Extent::new(offset, len),
            may_split: true,
        };
        let (now, legs) = (self.bench.now, &self.bench.legs);
        let policy = &mut self.bench.policy;
        policy.prefetch(now, Some(&request), legs, &Mirror, 0, &mut Vec::new());
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
    // Both legs have eight all the time, and read one after the other. A part ends at once, so that
    // all would be cut.
    for number in 0..16 {
        rig.send_of(number % 2, number as u64 * 999 * MIB, 64 * KIB);
    }
    let mut cut = 0;
    for round in 0..2_000u64 {
        let offset = round * 7_919 % 100_000 * MIB;
        let pieces = rig.bench.pieces(offset, 64 * KIB);
        if let [(leg, len)] = pieces[..] {
            rig.send_of(leg, offset, len);
            rig.answer(leg, 57);
        } else {
            cut += 1;
            let mut at = offset;
            for (leg, len) in pieces {
                rig.bench.dispatch(leg, OpKind::Read, at, len);
                let op = op(leg, OpKind::Read, at, len);
                let (now, time) = (rig.bench.now, Duration::from_us(1));
                rig.bench.policy.on_complete(now, &op, time, true);
                at += len;
            }
        }
    }
    assert!(cut < 10, "{cut} before it was known how long they wait");
}

#[test]
fn of_more_legs_than_parts_none_has_more() {
    let mut rig = Rig::new("adaptive", 4);
    rig.reads(0..200, 16 * KIB, by_length);
    let mut parts = [0; 4];
    for number in 0..1_000 {
        for (leg, _) in rig.read(number, 16 * KIB, by_length) {
            parts[leg] += 1;
        }
    }
    assert!(
        parts.iter().all(|parts| (400..600).contains(parts)),
        "{parts:?}"
    );
}

#[test]
fn no_part_is_too_short_and_no_block_is_read_twice() {
    let mut rig = Rig::new("adaptive", 8);
    for len in [16, 17, 20, 28, 36, 52, 100, 260] {
        rig.reads(0..300, len * KIB, by_length);
        for number in 0..10 {
            let pieces = rig.read(number, len * KIB, by_length);
            assert_eq!(pieces.iter().map(|piece| piece.1).sum::<u64>(), len * KIB);
            let (last, others) = pieces.split_last().unwrap();
            assert!(last.1 >= 8 * KIB, "{pieces:?}");
            let is_aligned = |piece: &(usize, u64)| piece.1.is_multiple_of(4 * KIB);
            assert!(others.iter().all(is_aligned), "{pieces:?}");
        }
    }
}

#[test]
fn a_leg_whose_parts_take_longer_has_none_for_a_while() {
    let mut rig = Rig::new("adaptive", 8);
    let by_leg = |leg, len| by_length(leg, len) + if leg == 1 && len < 256 * KIB { 75 } else { 0 };
    rig.reads(0..1_000, 256 * KIB, by_length);
    rig.reads(0..600, 256 * KIB, by_leg);
    let has_part =
        |pieces: &[(usize, u64)]| pieces.len() > 1 && pieces.iter().any(|one| one.0 == 1);
    let mut parts = 0;
    for number in 0..1_000 {
        parts += usize::from(has_part(&rig.read(number, 256 * KIB, by_leg)));
    }
    assert!(parts < 10, "{parts}");
    rig.bench.now += Duration::from_secs(3);
    assert!((0..8).any(|number| has_part(&rig.read(number, 256 * KIB, by_length))));
}

#[test]
fn what_one_leg_has_to_read_is_not_cut_and_its_time_is_that_of_a_read() {
    let mut rig = Rig::new("adaptive", 3);
    rig.reads(0..1_000, 512 * KIB, by_length);
    rig.bench.may_split = false;
    assert_eq!(rig.reads(0..1_000, 512 * KIB, by_length), 0);
    rig.bench.may_split = true;
    // A part that a leg has failed is read by another one, as are all parts where the engine knows
    // better: as long as all of it, and nobody is slow by that.
    for number in 0..100 {
        let offset = number * 999 * MIB;
        let pieces = rig.bench.pieces(offset, 512 * KIB);
        let leg = pieces[0].0;
        rig.send_of(leg, offset, 512 * KIB);
        rig.answer(leg, by_length(leg, 512 * KIB));
    }
    for leg in 0..3 {
        assert_eq!(fact(&rig.beliefs(leg), "slow_times"), None);
    }
    assert_eq!(rig.read(7, 512 * KIB, by_length).len(), 3);
}

#[test]
fn what_was_found_of_a_leg_goes_with_it() {
    let mut rig = Rig::new("adaptive", 2);
    rig.reads(0..1_000, 64 * KIB, by_length);
    rig.bench.come_back(1);
    let cut = rig.reads(0..20, 64 * KIB, by_length);
    assert!(cut < 12, "{cut}: it is tried anew");
}

/// Of two streams, which have no legs of their own, beside writes or not.
#[test]
fn reads_of_streams_are_cut_as_well() {
    let mut rig = Rig::new("adaptive", 2);
    let cut_of = |rig: &mut Rig, steps: std::ops::Range<u64>, writes: bool| {
        let mut cut = 0;
        for step in steps {
            for stream in [0, 500_000 * MIB] {
                let pieces = rig.read_at(stream + step * 128 * KIB, 128 * KIB, by_length);
                cut += usize::from(pieces.len() > 1);
            }
            for leg in 0..if writes { 2 } else { 0 } {
                rig.bench.dispatch(leg, OpKind::Write, step * MIB, 4 * KIB);
                rig.bench.complete_write(leg, 20);
            }
        }
        cut
    };
    cut_of(&mut rig, 0..200, false);
    assert_eq!(cut_of(&mut rig, 200..300, false), 200);
    cut_of(&mut rig, 300..400, true);
    assert_eq!(cut_of(&mut rig, 400..500, true), 200);
}

/// What is known of a leg that is written is what was written meanwhile.
#[test]
fn legs_that_are_written_need_not_look_alike() {
    for (is_written, expected) in [(false, 0), (true, 100)] {
        let mut rig = Rig::new("adaptive", 2);
        let mut cut = 0;
        for number in 0..6_000 {
            for leg in 0..if is_written { 2 } else { 0 } {
                rig.bench
                    .dispatch(leg, OpKind::Write, number * MIB, 4 * KIB);
                rig.bench.complete_write(leg, 20);
            }
            // The second leg was read while it wrote, at first.
            let met = |leg, len| by_length(leg, len) * if leg == 1 { 2 } else { 1 };
            let pieces = if number < 100 {
                rig.read(number, 64 * KIB, met)
            } else {
                rig.read(number, 64 * KIB, by_length)
            };
            cut += usize::from(number >= 5_900 && pieces.len() > 1);
        }
        assert_eq!(cut, expected, "{is_written}");
    }
}

#[test]
fn a_gain_is_found_behind_chance() {
    let mut rig = Rig::new("adaptive", 2);
    let (count, half) = (std::cell::Cell::new(1u64), std::cell::Cell::new(None));
    // From 100 to 1,000 us, and a tenth less where it is cut, of both parts.
    let by_chance = |_, len| {
        if let Some(time) = half.take() {
            return time;
        }
        let next = count.get().wrapping_mul(6_364_136_223_846_793_005) + 1;
        count.set(next);
        let time = 100 + (next >> 33) % 900;
        if len == 64 * KIB {
            return time;
        }
        half.set(Some(time * 9 / 10));
        time * 9 / 10
    };
    rig.reads(0..20_000, 64 * KIB, by_chance);
    let cut = rig.reads(0..1_000, 64 * KIB, by_chance);
    assert_eq!(cut, 1_000);
}

/// Of four loads each is seen too seldom to tell.
#[test]
fn all_loads_together_tell_what_chance_hides_of_each() {
    let mut splits = Splits::new();
    let mut now = Instant::from_ns(0);
    let mut chance = 1u64;
    let mut cut = 0;
    for number in 0..8_000 {
        let extent = Extent::new(number * MIB, 64 * KIB);
        let in_flight = [0, 0, 1, 0, 2, 0, 4, 0, 8, 0][usize::try_from(number % 10).unwrap()];
        let way = splits.way(64 * KIB, in_flight * 64 * KIB, false);
        splits.sent(now, extent, way);
        chance = chance.wrapping_mul(6_364_136_223_846_793_005) + 1;
        let time = 100 + (chance >> 33) % 900;
        now += Duration::from_us(if way.is_cut { time * 22 / 25 } else { time });
        splits.answered(now, extent);
        cut += u64::from(number >= 7_000 && way.is_cut);
    }
    assert!(cut > 800, "{cut}");
}

#[test]
fn a_load_that_loses_is_not_cut_because_others_gain() {
    let mut splits = Splits::new();
    let mut now = Instant::from_ns(0);
    let mut cut = [0, 0];
    for number in 0..40_000 {
        let extent = Extent::new(number * MIB, 64 * KIB);
        let is_deep = number % 10 == 0;
        let in_flight = if is_deep { 4 } else { 0 };
        let way = splits.way(64 * KIB, in_flight * 64 * KIB, false);
        splits.sent(now, extent, way);
        let cut_us = if is_deep { 106 } else { 75 };
        // Whatever it is, some take a little longer.
        let time = if way.is_cut { cut_us } else { 100 } + number % 7;
        now += Duration::from_us(time);
        splits.answered(now, extent);
        cut[usize::from(is_deep)] += u64::from(way.is_cut);
    }
    assert!(cut[0] > 35_000 && cut[1] < 400, "{cut:?}");
}

/// Reads in flight together are alike, of whatever load each of them is, and those that meet others
/// are not compared.
#[test]
fn reads_of_all_loads_go_the_other_way_at_once() {
    let mut splits = Splits::new();
    let in_flight = |read: u64| [4, 0, 1, 2][usize::try_from(read % 4).unwrap()] * 64 * KIB;
    let ways = (0..60).map(|read| splits.way(64 * KIB, in_flight(read), false));
    let ways: Vec<_> = ways.collect();
    let cut = ways.iter().map(|way| way.is_cut);
    let expected = (0..60).map(|read| (8..8 + 4 + 8).contains(&read));
    assert!(cut.eq(expected), "{ways:?}");
    let skipped = (0..28 + 4).filter(|read| !ways[*read].is_compared());
    assert!(skipped.eq([8, 9, 10, 11, 20, 21, 22, 23]), "{ways:?}");
}

#[test]
fn a_load_that_is_new_is_not_waited_with() {
    let mut splits = Splits::new();
    let mut now = Instant::from_ns(0);
    // How many of so many reads are cut that find so many in flight, of which a part takes half.
    let mut reads = |count: u64, in_flight: u64| {
        let mut cut = 0;
        for number in 0..count {
            let extent = Extent::new(number * MIB, 64 * KIB);
            let way = splits.way(64 * KIB, in_flight * 64 * KIB, false);
            splits.sent(now, extent, way);
            now += Duration::from_us(if way.is_cut { 50 } else { 100 });
            splits.answered(now, extent);
            cut += u64::from(way.is_cut);
        }
        cut
    };
    reads(200_000, 0);
    assert_eq!(reads(100, 0), 100);
    reads(5_000, 8);
    assert!(reads(100, 8) >= 92);
}

/// A stream that has a leg for itself beside random reads is read from there.
#[test]
fn reads_of_a_stream_that_has_legs_of_its_own_are_not_cut() {
    let mut rig = Rig::new("adaptive", 2);
    let at = |step: u64| 700_000 * MIB + step * 128 * KIB;
    // Nothing is known of streams where nothing is read ahead: it is cut.
    for step in 0..400 {
        rig.read_at(at(step), 128 * KIB, by_length);
    }
    assert_eq!(rig.read_at(at(400), 128 * KIB, by_length).len(), 2);
    let mut pieces = Vec::new();
    for step in 401..1_000 {
        pieces = rig.read_ahead(at(step), 128 * KIB);
        for number in 0..4 {
            rig.read(step * 4 + number, 4 * KIB, |_, _| 200);
        }
    }
    assert_eq!(rig.bench.reason(), "predicted least");
    assert_eq!(pieces.len(), 1, "{pieces:?}");
}
