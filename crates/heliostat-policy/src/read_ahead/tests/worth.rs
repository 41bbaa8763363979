//! Where it is found whether something is to be read ahead.

use heliostat_types::{Duration, Instant, LegId, LegSet};

use super::{KIB, MIB, Rig};
use crate::read_ahead::worth::Worth;

/// A stream, or several, of as many legs, read at a rate that a test says.
struct Reader {
    worth: Worth,
    now: Instant,
    /// The newest of them, and how many they are.
    streams: (u64, usize),
    legs: usize,
    /// What is still read ahead.
    ahead_bytes: u64,
}

impl Reader {
    fn new(streams: usize, legs: usize) -> Self {
        Self {
            worth: Worth::new(),
            now: Instant::from_ns(1_000),
            streams: (1, streams),
            legs,
            ahead_bytes: 0,
        }
    }

    /// All of them read so many MiB each, at a rate of one in so many microseconds with something
    /// read ahead and without; of how many something was.
    fn read(&mut self, mib: u64, (ahead_us, without_us): (u64, u64)) -> u64 {
        let legs: LegSet = (0..self.legs).map(LegId::new).collect();
        let mut ahead = 0;
        for _ in 0..2 * mib * self.streams.1 as u64 {
            let read = (512 * KIB, self.ahead_bytes);
            let is_ahead = self.worth.reads_ahead(self.now, self.streams, legs, read);
            ahead += u64::from(is_ahead);
            let mib_us = if is_ahead { ahead_us } else { without_us };
            self.now += Duration::from_us(mib_us / 2);
        }
        ahead / 2 / self.streams.1 as u64
    }
}

#[test]
fn where_a_leg_is_spare_it_is_read_ahead_until_that_is_no_faster() {
    for (without_us, after) in [(1_000, 0), (1_040, 0), (1_100, 1_000)] {
        let mut reader = Reader::new(1, 2);
        assert_eq!(reader.read(128, (1_000, without_us)), 128);
        // It is tried with some of it.
        let tried = reader.read(500, (1_000, without_us));
        assert!((80..450).contains(&tried), "{tried}");
        assert_eq!(reader.read(1_000, (1_000, without_us)), after);
    }
}

#[test]
fn where_no_leg_is_spare_it_is_read_ahead_where_that_is_faster() {
    for (streams, ahead_us, after) in [(1, 1_100, 0), (1, 980, 0), (1, 900, 1_000), (3, 500, 1_000)]
    {
        let mut reader = Reader::new(streams, streams);
        assert_eq!(reader.read(128, (ahead_us, 1_000)), 0);
        reader.read(500, (ahead_us, 1_000));
        assert_eq!(reader.read(1_000, (ahead_us, 1_000)), after);
        // In the end one of 1,000 is tried.
        let ahead = reader.read(100_000, (ahead_us, 1_000));
        let tried = if after == 0 { ahead } else { 100_000 - ahead };
        assert!((1..700).contains(&tried), "{tried}");
    }
}

/// A leg was slow until a try had begun.
#[test]
fn what_else_gets_faster_meanwhile_is_not_why() {
    let mut reader = Reader::new(1, 2);
    while reader.read(1, (4_000, 8_000)) == 1 {}
    assert!(reader.read(500, (1_000, 2_000)) > 300);
    // It said nothing, and is tried once more.
    assert!((900..1_000).contains(&reader.read(1_000, (1_000, 2_000))));
    assert_eq!(reader.read(1_000, (1_000, 2_000)), 1_000);
}

/// Random reads beside it become more meanwhile, by far less than what the try shows.
#[test]
fn what_is_faster_by_more_than_what_changed_meanwhile_is_why() {
    let mut reader = Reader::new(1, 1);
    while reader.read(1, (250, 1_000)) == 0 {}
    reader.read(500, (250, 1_250));
    assert_eq!(reader.read(1_000, (250, 1_250)), 1_000);
}

/// It is read as fast as memory, and says nothing of legs.
#[test]
fn what_was_read_ahead_before_is_not_counted() {
    let mut reader = Reader::new(1, 2);
    while reader.read(1, (1_000, 2_000)) == 1 {}
    reader.ahead_bytes = MIB;
    assert_eq!(reader.read(500, (1_000, 100)), 0);
    reader.ahead_bytes = 0;
    reader.read(200, (1_000, 2_000));
    assert_eq!(reader.read(1_000, (1_000, 2_000)), 1_000);
}

/// Where it was not worth it for one reader it may be for the next, who asks for less at a time.
#[test]
fn other_streams_are_tried_soon() {
    let mut reader = Reader::new(1, 2);
    reader.read(500, (1_000, 1_000));
    reader.read(100, (1_000, 1_000));
    reader.streams = (2, 1);
    assert_eq!(reader.read(10, (1_000, 2_000)), 0);
    reader.read(400, (1_000, 2_000));
    assert_eq!(reader.read(1_000, (1_000, 2_000)), 1_000);
    // And not the other way round: who reads many files would try it with each.
    reader.streams = (3, 1);
    assert_eq!(reader.read(1_000, (1_000, 2_000)), 1_000);
}

#[test]
fn streams_that_come_and_go_change_nothing_of_what_is_known() {
    let mut reader = Reader::new(1, 2);
    reader.read(500, (1_000, 1_000));
    for _ in 0..20 {
        (reader.streams, reader.legs) = ((1, 2), 2);
        reader.read(20, (1_000, 1_000));
        (reader.streams, reader.legs) = ((1, 1), 1);
        reader.read(20, (1_000, 1_000));
        (reader.streams, reader.legs) = ((1, 1), 2);
        assert_eq!(reader.read(50, (1_000, 1_000)), 0);
    }
}

/// Whatever it is: a neighbour has come, or a leg is slow.
#[test]
fn what_has_become_slower_is_tried_anew() {
    let mut reader = Reader::new(1, 2);
    reader.read(600, (1_000, 1_000));
    assert_eq!(reader.read(2_000, (1_000, 1_100)), 0);
    assert!(reader.read(1_000, (1_000, 2_000)) > 500);
}

/// One leg does what it can in either way.
#[test]
fn what_is_found_while_a_leg_is_silent_is_not_for_afterwards() {
    for mib in (1_000..1_048).step_by(8) {
        let mut reader = Reader::new(2, 2);
        reader.read(600, (500, 700));
        assert_eq!(reader.read(mib, (500, 700)), mib);
        let ahead = reader.read(500, (1_000, 1_000));
        assert!((430..470).contains(&ahead), "{ahead}");
        assert_eq!(reader.read(1_000, (500, 700)), 1_000);
        // Unless that is how it is from now on.
        reader.read(40_000, (1_000, 1_000));
        assert_eq!(reader.read(1_000, (1_000, 1_000)), 0);
    }
}

/// Each of them is seen as the first.
#[test]
fn silence_that_comes_again_is_not_for_afterwards_either() {
    for mib in (3_000..9_000).step_by(500) {
        let mut reader = Reader::new(2, 2);
        reader.read(600, (500, 700));
        for _ in 0..20 {
            reader.read(mib, (500, 700));
            reader.read(600, (1_000, 1_000));
        }
        let ahead = reader.read(1_000, (500, 700));
        assert!(ahead > 800, "{mib}: {ahead}");
    }
}

/// Who is slow himself comes after one who was not.
#[test]
fn a_slow_reader_is_seen_after_a_fast_one() {
    let mut reader = Reader::new(1, 2);
    reader.read(200_000, (500, 700));
    reader.streams = (2, 1);
    reader.read(10_000, (2_000, 2_000));
    assert_eq!(reader.read(1_000, (2_000, 2_000)), 0);
}

/// A try begins anew after a pause, which says nothing of either way.
#[test]
fn pauses_do_not_count() {
    let mut reader = Reader::new(1, 2);
    for _ in 0..1_000 {
        reader.read(5, (1_000, 2_000));
        reader.now += Duration::from_ms(200);
    }
    assert_eq!(reader.read(5, (1_000, 2_000)), 5);
    while reader.read(1, (1_000, 2_000)) == 1 {}
    reader.read(40, (1_000, 2_000));
    reader.now += Duration::from_ms(200);
    assert_eq!(reader.read(1, (1_000, 2_000)), 1);
}

/// Files of a length that a try does not end with.
#[test]
fn tries_that_are_not_ended_become_fewer() {
    let mut reader = Reader::new(1, 2);
    let mut without = 0;
    for file in 1..200 {
        reader.streams = (file, 1);
        without += 200 - reader.read(200, (1_000, 2_000));
    }
    assert!((100..500).contains(&without), "{without} MiB of 40,000");
}

/// Two streams of two drives that are faster with more in flight; and beside random reads, which
/// would wait for all that.
#[test]
fn as_many_streams_as_flash_are_read_ahead_but_not_beside_random_reads() {
    for random in [0, 8] {
        let mut rig = Rig::new(&[false, false]);
        for step in 0..4_000 {
            for stream in 0..2 {
                rig.read(stream * 100_000 * MIB + step * 128 * KIB, 128 * KIB);
            }
            let mut streams = rig.ahead.streams.iter();
            let is_ahead = streams.any(|stream| stream.ahead_bytes() > 0);
            for leg in 0..2 {
                rig.answer_mib(leg, Duration::from_us(50));
            }
            let time = Duration::from_us(if is_ahead { 50 } else { 200 });
            rig.pass(random, time);
        }
        let asked = rig.asked.iter().map(|extent| extent.len()).sum::<u64>() / MIB;
        let expected = if random > 0 { 0..2 } else { 500..800 };
        assert!(expected.contains(&asked), "{random}: {asked}");
    }
}
