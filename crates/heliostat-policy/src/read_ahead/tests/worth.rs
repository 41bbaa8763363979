//! Where it is found whether something is to be read ahead.

use heliostat_types::{Duration, Instant, LegId, LegSet};

use super::{KIB, MIB, Rig};
use crate::read_ahead::worth::Worth;

/// A stream, or several, of as many legs, read at a rate that a test says.
struct Reader {
    worth: Worth,
    now: Instant,
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
        for _ in 0..mib * self.streams.1 as u64 {
            let read = (MIB, self.ahead_bytes);
            let is_ahead = self.worth.update(self.now, self.streams, legs, read);
            ahead += u64::from(is_ahead);
            self.now += Duration::from_us(if is_ahead { ahead_us } else { without_us });
        }
        ahead / self.streams.1 as u64
    }
}

#[test]
fn where_a_leg_is_spare_it_is_read_ahead_until_that_is_no_faster() {
    for (without_us, after) in [(100, 0), (104, 0), (110, 1_000)] {
        let mut reader = Reader::new(1, 2);
        assert_eq!(reader.read(128, (100, without_us)), 128);
        // It is tried with some of it.
        let tried = reader.read(300, (100, without_us));
        assert!((80..300).contains(&tried), "{tried}");
        assert_eq!(reader.read(1_000, (100, without_us)), after);
    }
}

#[test]
fn where_no_leg_is_spare_it_is_read_ahead_where_that_is_faster() {
    for (streams, ahead_us, after) in [(1, 110, 0), (1, 98, 0), (1, 90, 1_000), (3, 50, 1_000)] {
        let mut reader = Reader::new(streams, streams);
        assert_eq!(reader.read(128, (ahead_us, 100)), 0);
        reader.read(300, (ahead_us, 100));
        assert_eq!(reader.read(1_000, (ahead_us, 100)), after);
        // Less than a hundredth is tried from then on.
        let ahead = reader.read(100_000, (ahead_us, 100));
        let tried = if after == 0 { ahead } else { 100_000 - ahead };
        assert!((1..500).contains(&tried), "{tried}");
    }
}

/// A leg was slow for the first half of a try.
#[test]
fn what_else_gets_faster_meanwhile_is_not_why() {
    let mut reader = Reader::new(1, 2);
    let mut step = 128;
    reader.read(step, (400, 800));
    while reader.read(1, (400, 800)) == 1 {
        step += 1;
    }
    assert!(step < 300);
    assert!(reader.read(300, (100, 200)) > 200);
    assert_eq!(reader.read(1_000, (100, 200)), 1_000);
}

/// It is read as fast as memory, and says nothing of legs.
#[test]
fn what_was_read_ahead_before_is_not_counted() {
    let mut reader = Reader::new(1, 2);
    reader.read(128, (100, 200));
    while reader.read(1, (100, 200)) == 1 {}
    reader.ahead_bytes = MIB;
    assert_eq!(reader.read(500, (100, 1)), 0);
    reader.ahead_bytes = 0;
    reader.read(200, (100, 200));
    assert_eq!(reader.read(1_000, (100, 200)), 1_000);
}

#[test]
fn other_streams_and_other_legs_are_tried_anew() {
    let mut reader = Reader::new(1, 2);
    reader.read(500, (100, 100));
    assert_eq!(reader.read(1, (100, 100)), 0);
    reader.streams = (2, 1);
    assert_eq!(reader.read(1, (100, 100)), 1);
    reader.read(500, (100, 100));
    reader.legs = 3;
    assert_eq!(reader.read(1, (100, 100)), 1);
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
