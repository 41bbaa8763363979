//! Reads that go on where the arm of a disk stands.

use heliostat_types::{Duration, Extent, Instant, LegId, OpKind};

use super::super::streams::Streams;
use super::{KIB, MIB, Rig};

impl Rig {
    /// A read of 64 KiB is asked for and served: a seek, unless it goes on near where its leg was
    /// read.
    fn read_near(&mut self, offset: u64) -> usize {
        let ends = [0, 1].map(|leg| self.bench.legs[leg].last_sent_end);
        let leg = self.ask(offset, 64 * KIB);
        let end = ends[leg].unwrap_or(0);
        let root_permille = offset.abs_diff(end).isqrt() * 1_000 / 31_623;
        let is_near = (end..=end + MIB).contains(&offset);
        self.answer(
            leg,
            if is_near {
                300
            } else {
                10_000 + root_permille / 2
            },
        );
        leg
    }

    /// What is predicted of a read on one of the legs.
    fn cost_us(&mut self, offset: u64, len: u64, leg: usize) -> u64 {
        self.bench.pick_of(offset, len);
        let belief = self.bench.policy.belief(leg).unwrap();
        belief.cost.as_ns() / 1_000
    }

    /// 200 files of so many pieces of 64 KiB, one after the other: which legs have read them.
    fn read_files(&mut self, pieces: u64) -> Vec<Vec<usize>> {
        let mut files = Vec::new();
        for number in 1..200 {
            let file = number * 37 % 100 * 1_000_000_000;
            let read = |piece| self.read_near(file + piece * 64 * KIB);
            files.push((0..pieces).map(read).collect());
        }
        files
    }
}

#[test]
fn all_pieces_of_a_file_are_read_by_the_disk_that_has_read_the_first() {
    let mut rig = Rig::disks(2);
    // Of 512 KiB, and of 2 MiB, where a stream is known as one.
    for pieces in [8, 32] {
        let files = rig.read_files(pieces);
        for pieces in &files[2..] {
            assert!(pieces.iter().all(|leg| *leg == pieces[0]), "{pieces:?}");
        }
        let firsts = files.iter().filter(|pieces| pieces[0] == 0).count();
        assert!((10..190).contains(&firsts), "both have files: {firsts}");
    }
}

#[test]
fn pieces_of_files_do_not_teach_what_a_seek_takes() {
    let mut rig = Rig::disks(2);
    rig.read_files(8);
    for leg in 0..2 {
        let cost_us = rig.cost_us(50_500_000_000, 64 * KIB, leg);
        assert!((9_000..14_000).contains(&cost_us), "{cost_us}");
    }
}

#[test]
fn readers_of_each_fourth_piece_have_an_arm_each() {
    let mut rig = Rig::disks(2);
    let mut legs = Vec::new();
    for piece in 0..400 {
        legs.push([0, 60].map(|region| rig.read_near((region << 30) + piece * 256 * KIB)));
    }
    for pair in &legs[10..] {
        assert_eq!(*pair, legs[10]);
    }
    assert_ne!(legs[10][0], legs[10][1]);
    for leg in 0..2 {
        let cost_us = rig.cost_us(30 << 30, 64 * KIB, leg);
        assert!((9_000..14_000).contains(&cost_us), "a seek is a seek");
    }
}

#[test]
fn seeks_count_in_full_where_most_reads_come_from_the_cache_of_a_drive() {
    let mut rig = Rig::new("adaptive", 2);
    for leg in 0..2 {
        rig.bench.legs[leg].rotational = true;
        rig.bench.pick(0);
        for number in 0..400 {
            let us = if number % 10 == 0 { 12_000 } else { 200 };
            rig.serve(leg, number * 7919 % 4001 * 999 * MIB, us);
        }
    }
    let cost_us = rig.cost_us(50 << 30, 4 * KIB, 0);
    assert!((1_000..1_800).contains(&cost_us), "{cost_us}");
}

#[test]
fn a_seek_after_reads_from_the_cache_of_a_drive_is_not_slow() {
    let mut rig = Rig::new("adaptive", 2);
    for leg in 0..2 {
        rig.bench.legs[leg].rotational = true;
        rig.bench.pick(0);
        rig.serve(leg, 0, 300);
    }
    // They meet busy disks, so that nothing is known of the way.
    for number in 1..100 {
        for leg in 0..2 {
            rig.send(leg, number * 999 * MIB);
            rig.send(leg, number * 777 * MIB);
            rig.answer(leg, 300);
            rig.answer(leg, 300);
        }
    }
    for number in 0..4 {
        rig.serve(0, number * 12_345 * MIB, 12_000);
    }
    rig.bench.pick(100_000 * MIB);
    assert!(!rig.bench.policy.belief(0).unwrap().is_slow);
}

#[test]
fn a_leg_that_stays_slow_is_known_for_what_it_does() {
    let mut rig = Rig::new("adaptive", 2);
    rig.teach(20, &[100, 200]);
    let is_slow = |rig: &mut Rig| {
        rig.bench.pick(0);
        rig.bench.policy.belief(0).unwrap().is_slow
    };
    for second in 0..29 {
        rig.serve(0, second * 999 * MIB, 350);
        rig.bench.now += Duration::from_secs(1);
        assert!(second < 1 || is_slow(&mut rig), "second {second}");
    }
    for number in 0..4 {
        rig.serve(0, number * 999 * MIB, 350);
        rig.bench.now += Duration::from_secs(1);
    }
    assert!(!is_slow(&mut rig));
    let cost = rig.bench.policy.belief(0).unwrap().cost;
    assert!((340_000..360_000).contains(&cost.as_ns()), "{cost:?}");
    // And when it is fast again, some answers show it.
    for number in 0..20 {
        rig.serve(0, number * 999 * MIB, 100);
    }
    assert_eq!(rig.bench.pick(0), 0);
}

#[test]
fn a_stream_that_goes_on_elsewhere_on_its_leg_is_a_seek() {
    let (leg, now) = (LegId::new(0), Instant::ZERO);
    let mut streams = Streams::default();
    streams.note_end(Extent::new(0, MIB), leg, 0);
    streams.go_on(now, Extent::new(MIB, MIB), leg, MIB);
    streams.go_on(now, Extent::new(2 * MIB, MIB), leg, 2 * MIB);
    let stream = streams.find(3 * MIB).unwrap();
    assert!(stream.is_run_on(leg, 3 * MIB));
    assert!(!stream.is_run_on(leg, 3 << 40));
    streams.go_on(now, Extent::new(3 * MIB, 128 * KIB), leg, 3 << 40);
    let stream = streams.find(3 * MIB + 128 * KIB).unwrap();
    assert!(!stream.is_run_on(leg, (3 << 40) + 128 * KIB), "one read");
}

impl Rig {
    /// All legs have written.
    fn write_all(&mut self) {
        for number in 0..64 {
            for leg in 0..self.bench.legs.len() {
                self.bench.dispatch(leg, OpKind::Write, number * MIB, MIB);
                self.bench.complete_write(leg, 1_000);
            }
        }
    }
}

#[test]
fn the_only_stream_stays_on_a_written_disk_for_12_mib() {
    let mut rig = Rig::disks(2);
    rig.write_all();
    let begin = 50_000 * MIB;
    let first = rig.ask(begin, MIB);
    rig.answer(first, 10_000);
    // Two writes wait for the disk, and none for the other one.
    rig.bench.legs[first].writes_in_flight = 2;
    for piece in 1..20 {
        let leg = rig.ask(begin + piece * MIB, MIB);
        rig.answer(leg, 5_000);
        assert_eq!(leg == first, piece < 13, "piece {piece}");
    }
}

#[test]
fn the_only_stream_is_read_by_all_disks_that_are_written() {
    let mut rig = Rig::disks(3);
    // One is a little slower, which is no reason to let it read nothing.
    for number in 0..200 {
        rig.serve(2, number * 7919 % 40_001 * MIB, 13_500);
    }
    rig.write_all();
    let mut legs = Vec::new();
    for piece in 0..120 {
        legs.push(rig.ask((50_000 + piece) * MIB, MIB));
        if piece > 3 {
            let oldest = rig.sent[0].0;
            rig.answer(oldest, 5_000);
        }
    }
    for leg in 0..3 {
        assert!(legs.contains(&leg), "{legs:?}");
    }
}

impl Rig {
    /// Two disks that are written: a read takes so long where it finds its disk idle, and 7.5 ms
    /// more than one that is begun 4 ms before.
    fn written_disks(idle_us: u64) -> Self {
        let mut rig = Self::disks(2);
        for number in 0..300u64 {
            let offset = number * 37 % 100 * 1_000_000_000;
            for leg in 0..2 {
                rig.write(leg, offset);
                rig.serve(leg, offset, idle_us);
                rig.send(leg, offset);
                rig.bench.now += Duration::from_ms(4);
                rig.send(leg, offset + 7_000_000_000);
                rig.answer(leg, idle_us - 4_000);
                rig.answer(leg, 7_500);
            }
        }
        rig
    }

    /// A write that the disk answers from its cache.
    fn write(&mut self, leg: usize, offset: u64) {
        self.bench.dispatch(leg, OpKind::Write, offset, 4096);
        self.bench.complete_write(leg, 20);
    }
}

const IN_TURNS: (usize, &str) = (1, "disks take turns");

#[test]
fn a_disk_that_reads_is_read_before_one_that_writes_what_it_holds() {
    for (idle_us, expected) in [(16_000, (0, "reads before it writes")), (10_000, IN_TURNS)] {
        let mut rig = Rig::written_disks(idle_us);
        rig.send(0, 0);
        assert_eq!(rig.why(50_000_000_000), IN_TURNS, "{idle_us}: just begun");
        rig.bench.now += Duration::from_ms(8);
        assert_eq!(rig.why(50_000_000_000), expected, "{idle_us}");
    }
}

#[test]
fn a_read_that_does_not_end_draws_no_other_one() {
    let mut rig = Rig::written_disks(16_000);
    rig.send(0, 0);
    for ms in (0..200).step_by(4) {
        if ms > 32 {
            assert_eq!(rig.why(50_000_000_000), IN_TURNS, "{ms} ms");
        }
        rig.write(0, 90_000_000_000);
        rig.bench.now += Duration::from_ms(4);
    }
}

#[test]
fn a_disk_that_writes_does_not_pass_for_one_that_reads() {
    let mut rig = Rig::written_disks(16_000);
    for number in 0..300u64 {
        rig.bench.dispatch(0, OpKind::Write, 0, 4096);
        rig.serve(0, number * 37 % 100 * 1_000_000_000, 15_500);
        rig.bench.complete_write(0, 15_500);
    }
    rig.bench.dispatch(0, OpKind::Write, 0, 4096);
    rig.bench.legs[0].writes_in_flight = 1;
    for _ in 0..5 {
        rig.bench.now += Duration::from_ms(2);
        assert_eq!(rig.why(50_000_000_000), IN_TURNS);
    }
}

/// Two more than the other has: all who write wait for the disk.
#[test]
fn a_disk_that_writes_wait_for_adds_no_throughput() {
    let mut rig = Rig::disks(2);
    for number in 0..300u64 {
        let offset = number * 37 % 100 * 1_000_000_000;
        for (leg, us) in [(0, 12_000), (1, 30_000)] {
            rig.write(leg, offset);
            rig.serve(leg, offset, us);
        }
    }
    for _ in 0..2 {
        rig.bench.dispatch(0, OpKind::Write, 0, 4096);
        rig.bench.legs[0].writes_in_flight += 1;
    }
    let (leg, _) = rig.why(50_000_000_000);
    assert_eq!(leg, 1, "30 ms are less than four times 12");
}
