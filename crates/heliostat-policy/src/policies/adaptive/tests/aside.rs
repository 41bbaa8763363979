//! Streams beside random reads.

use heliostat_types::{ClientId, Duration, Extent, StreamId};

use super::{KIB, MIB, Rig};
use crate::api::ReadRequest;
use crate::testing::Mirror;

impl Rig {
    /// A client asks for this; says which leg has it.
    pub(super) fn ask(&mut self, offset: u64, len: u64) -> usize {
        let leg = self.bench.pick_of(offset, len);
        self.send_of(leg, offset, len);
        let request = ReadRequest {
            client: ClientId(0),
            stream: StreamId(0),
            extent: Extent::new(offset, len),
            may_split: true,
        };
        let mut ahead = Vec::new();
        let (now, legs) = (self.bench.now, &self.bench.legs);
        self.bench
            .policy
            .prefetch(now, Some(&request), legs, &Mirror, 0, &mut ahead);
        leg
    }

    /// Everything ends, one after the other.
    fn answer_all(&mut self, times_us: &[u64]) {
        while let Some(&(leg, ..)) = self.sent.first() {
            self.answer(leg, times_us[leg]);
        }
    }

    /// Legs that answer reads of 128 KiB one after the other, each in so many microseconds.
    fn teach_queues(&mut self, times_us: &[u64]) {
        for number in 0..200 {
            for (leg, us) in times_us.iter().enumerate() {
                let count = number % 12;
                for at in 0..count {
                    self.send_of(leg, (number * 12 + at) * 7919 % 4001 * MIB, 128 * KIB);
                }
                for _ in 0..count {
                    self.answer(leg, *us);
                }
            }
        }
    }
}

/// Where a stream is after so many reads.
fn place_of(stream: u64, step: u64) -> u64 {
    (stream + 1) * 10_000 * MIB + step * 128 * KIB
}

/// 12 streams, of each of which 60 reads were answered, with so many random ones beside each.
fn streams(times_us: &[u64], random: u64) -> Rig {
    let mut rig = Rig::new("adaptive:health=off,split=off", times_us.len());
    rig.teach_queues(times_us);
    for step in 0..60 {
        for stream in 0..12 {
            rig.ask(place_of(stream, step), 128 * KIB);
            for number in 0..random {
                rig.ask(
                    (step * 12 + stream + number * 720) * 7919 % 4001 * MIB,
                    4 * KIB,
                );
            }
        }
        rig.answer_all(times_us);
    }
    rig
}

/// Which legs have the next read of each of them.
fn next_legs(rig: &mut Rig) -> Vec<usize> {
    let next = (0..12).map(|stream| rig.ask(place_of(stream, 60), 128 * KIB));
    next.collect()
}

/// The same, where the last leg has so many random reads to answer.
fn legs_of_streams(times_us: &[u64], random: u64, waiting: u64) -> Vec<usize> {
    let mut rig = streams(times_us, random);
    for number in 0..waiting {
        rig.send_of(times_us.len() - 1, (number * 7919 % 4001) * MIB, 4 * KIB);
    }
    next_legs(&mut rig)
}

fn count_of(legs: &[usize], leg: usize) -> usize {
    legs.iter().filter(|one| **one == leg).count()
}

#[test]
fn beside_random_reads_streams_wait_on_the_slower_leg() {
    let legs = legs_of_streams(&[3_000, 1_000], 1, 0);
    assert_eq!(legs[..4], [1; 4]);
    assert!((4..=5).contains(&count_of(&legs, 1)), "{legs:?}");
    // Of two that are alike it is one of both.
    let legs = legs_of_streams(&[1_000, 1_000], 1, 0);
    assert!([4, 5, 7, 8].contains(&count_of(&legs, 0)), "{legs:?}");
    // Where nobody reads at random they go where they end first.
    let legs = legs_of_streams(&[3_000, 1_000], 0, 0);
    assert!(count_of(&legs, 1) > 6, "{legs:?}");
}

/// More is asked for than is answered, and all writes would wait for the leg that has the reads.
#[test]
fn where_hundreds_of_writes_are_in_flight_streams_wait_nowhere() {
    for (writes, expected) in [(511, 4..=5), (512, 7..=12)] {
        let mut rig = streams(&[3_000, 1_000], 1);
        for view in &mut rig.bench.legs {
            view.writes_in_flight = writes;
        }
        let legs = next_legs(&mut rig);
        assert!(expected.contains(&count_of(&legs, 1)), "{writes}: {legs:?}");
    }
}

#[test]
fn of_three_that_are_alike_one_has_less_of_streams() {
    let legs = legs_of_streams(&[1_000; 3], 1, 0);
    let counts = [0, 1, 2].map(|leg| count_of(&legs, leg));
    assert!((3..=4).contains(&counts[0]), "{counts:?}");
    assert!(counts[1].min(counts[2]) >= 4, "{counts:?}");
}

#[test]
fn beside_a_leg_that_does_little_random_reads_have_more_of_the_fast_one() {
    // So many of these wait there that it is no matter how many streams wait elsewhere.
    let legs = legs_of_streams(&[6_000, 1_000], 1, 100);
    assert_eq!(count_of(&legs, 1), 3, "{legs:?}");
}

#[test]
fn where_as_many_streams_wait_aside_the_fast_leg_has_one_more() {
    let legs = legs_of_streams(&[6_000, 1_000], 1, 0);
    assert_eq!(legs[..6], [1, 1, 1, 0, 0, 0], "{legs:?}");
    // What fills it, and not half of all.
    assert!((4..=5).contains(&count_of(&legs, 1)), "{legs:?}");
}

#[test]
fn a_stream_is_read_apart_from_random_reads() {
    let mut rig = Rig::new("adaptive:health=off,split=off", 2);
    rig.teach_queues(&[1_000, 1_000]);
    let at = |stream: u64, step: u64| (stream + 1) * 10_000 * MIB + step * 128 * KIB;
    for step in 0..60 {
        for stream in 0..2 {
            rig.ask(at(stream, step), 128 * KIB);
            rig.ask((step * 2 + stream) * 7919 % 4001 * MIB, 4 * KIB);
        }
        rig.answer_all(&[1_000, 1_000]);
    }
    for number in 0..40 {
        rig.send_of(0, (number * 7919 % 4001) * MIB, 4 * KIB);
    }
    let legs = [0, 1, 2].map(|step| rig.ask(at(0, 60 + step), 128 * KIB));
    assert_eq!(legs, [1, 1, 1]);
}

#[test]
fn a_leg_that_reads_next_to_nothing_of_streams_is_left_to_random_reads() {
    let legs = legs_of_streams(&[6_000, 1_000], 1, 0);
    assert!(count_of(&legs, 0) > 0, "{legs:?}");
    let legs = legs_of_streams(&[20_000, 1_000], 1, 0);
    assert_eq!(count_of(&legs, 0), 0, "{legs:?}");
}

/// Short reads say nothing of how fast a leg reads streams.
#[test]
fn a_leg_that_only_had_short_reads_gets_streams_like_its_equal() {
    let times_us = [100, 100];
    let mut rig = Rig::new("adaptive:health=off,split=off", 2);
    for number in 0..20_000 {
        rig.serve(1, number * 7919 % 4001 * MIB, 100);
    }
    rig.teach_queues(&times_us);
    for number in 0..1_000 {
        rig.send_of(0, number * 7919 % 4001 * MIB, 128 * KIB);
        rig.answer(0, 100);
    }
    let at = |stream: u64, step: u64| (stream + 1) * 10_000 * MIB + step * 128 * KIB;
    for step in 0..60 {
        for stream in 0..8 {
            rig.ask(at(stream, step), 128 * KIB);
            rig.ask((step * 8 + stream) * 7919 % 4001 * MIB, 4 * KIB);
        }
        rig.answer_all(&times_us);
    }
    let legs: Vec<usize> = (0..8)
        .map(|stream| rig.ask(at(stream, 60), 128 * KIB))
        .collect();
    assert!(count_of(&legs, 1) > 0, "{legs:?}");
}

#[test]
fn however_many_reads_are_random_streams_fill_the_fast_leg() {
    let legs = legs_of_streams(&[3_000, 1_000], 1, 100);
    assert_eq!(legs[..4], [1; 4]);
}

/// How many of the last 20 reads of a stream are on the second leg, which is its own.
fn of_one_stream(times_us: &[u64; 2]) -> usize {
    let mut rig = Rig::new("adaptive:health=off,split=off", 2);
    rig.teach_queues(times_us);
    let mut legs = Vec::new();
    for step in 0..120 {
        legs.push(rig.ask(20_000 * MIB + step * 128 * KIB, 128 * KIB));
        for number in 0..4 {
            rig.ask((step + number * 720) * 7919 % 4001 * MIB, 4 * KIB);
        }
        rig.answer_all(times_us);
    }
    count_of(&legs[100..], 1)
}

#[test]
fn one_stream_has_flash_for_itself_unless_it_loses_too_much_by_that() {
    assert_eq!(of_one_stream(&[1_000, 2_000]), 20);
    assert_eq!(of_one_stream(&[1_000, 6_000]), 0);
}

/// Where the next eight reads of the only stream go, of 128 KiB, which take so long on each leg,
/// and random reads so long.
fn deep_stream_beside(times_us: [u64; 2], random_us: [u64; 2]) -> Vec<usize> {
    let mut rig = Rig::new("adaptive:health=off,split=off", 2);
    rig.teach_queues(&times_us);
    let time = |(leg, _, len): (usize, u64, u64)| {
        if len > 4 * KIB {
            times_us[leg]
        } else {
            random_us[leg]
        }
    };
    for number in 0..400 {
        for (leg, us) in random_us.iter().enumerate() {
            rig.send_of(leg, number * 7919 % 4001 * MIB, 4 * KIB);
            rig.answer(leg, *us);
        }
    }
    for step in 0..120 {
        rig.ask(20_000 * MIB + step * 128 * KIB, 128 * KIB);
        for number in 0..4 {
            rig.ask((step + number * 720) * 7919 % 4001 * MIB, 4 * KIB);
        }
        while let Some(&first) = rig.sent.first() {
            rig.answer(first.0, time(first));
        }
    }
    let next = |step: u64| rig.ask(20_000 * MIB + (120 + step) * 128 * KIB, 128 * KIB);
    (0..8).map(next).collect()
}

#[test]
fn one_stream_waits_on_the_leg_that_it_would_lose_more_without() {
    let legs = deep_stream_beside([200, 1_200], [20, 30]);
    assert_eq!(legs, [0; 8], "the slow leg would hold it up");
    let legs = deep_stream_beside([200, 1_200], [20, 180]);
    assert_eq!(legs[..3], [0; 3]);
    assert!(
        count_of(&legs, 1) > 2,
        "random reads would lose more: {legs:?}"
    );
}

const fn step_of(stream: u64, step: u64) -> u64 {
    (stream + 1) * 20_000 * MIB + step * 128 * KIB
}

/// Disks that have read 1,000 steps of so many streams, while so many random reads were in flight.
fn beside_random(disks: usize, streams: u64, waiting: u64) -> Rig {
    let mut rig = Rig::disks(disks);
    // One leg answers after the other here, which looks slow.
    rig.bench.set("adaptive:health=off,split=off");
    for step in 0..1_000 {
        for stream in 0..streams {
            rig.ask(step_of(stream, step), 128 * KIB);
        }
        for number in 0..waiting {
            rig.ask((step * waiting + number) * 7919 % 40_001 * MIB, 4 * KIB);
        }
        rig.answer_all(&vec![2_000; disks]);
    }
    rig
}

/// How many streams each disk has then, and that which has a random read.
fn beside_on_disks(disks: usize, streams: u64, waiting: u64) -> (Vec<u32>, u32) {
    let mut rig = beside_random(disks, streams, waiting);
    let mut counts = vec![0; disks];
    for stream in 0..streams {
        counts[rig.ask(step_of(stream, 1_000), 128 * KIB)] += 1;
    }
    let of_random = counts[rig.ask(777 * MIB, 4 * KIB)];
    counts.sort_unstable();
    (counts, of_random)
}

#[test]
fn beside_random_reads_disks_are_shared_out() {
    assert_eq!(beside_on_disks(2, 8, 4), (vec![0, 8], 0));
    assert_eq!(beside_on_disks(3, 8, 4), (vec![0, 4, 4], 0));
    // As many as they are of all who wait.
    assert_eq!(beside_on_disks(3, 3, 24), (vec![0, 0, 3], 0));
    assert_eq!(beside_on_disks(3, 6, 0), (vec![2, 2, 2], 2));
}

#[test]
fn when_streams_are_over_random_reads_have_all_disks_again() {
    let mut rig = beside_random(2, 8, 4);
    let left = rig.ask(0, 4 * KIB);
    for number in 1..20 {
        assert_eq!(rig.ask(number * 7919 % 40_001 * MIB, 4 * KIB), left);
    }
    rig.answer_all(&[2_000, 2_000]);
    rig.bench.now += Duration::from_secs(1);
    let mut legs = [0, 0];
    for number in 0..20 {
        legs[rig.ask(number * 7919 % 40_001 * MIB, 4 * KIB)] += 1;
    }
    assert!(legs.iter().all(|count| *count > 4), "{legs:?}");
}

/// Its next read would wait for all of them, and those for it.
#[test]
fn a_stream_leaves_its_own_disk_where_far_more_writes_wait() {
    let mut rig = Rig::disks(2);
    for step in 0..80 {
        for stream in 0..2 {
            rig.ask(place_of(stream, step), 128 * KIB);
        }
        rig.answer_all(&[600, 600]);
    }
    let next = place_of(0, 80);
    // It has its run on one of them, until something else is read there; then it goes home.
    let run = rig.bench.pick_of(next, 128 * KIB);
    assert_eq!(rig.bench.reason(), "stream stays");
    let expect = |rig: &mut Rig, leg: usize, writes: [u32; 2], expected: usize| {
        rig.bench.legs[leg].writes_in_flight = writes[0];
        rig.bench.legs[1 - leg].writes_in_flight = writes[1];
        let is_now = rig.bench.pick_of(next, 128 * KIB);
        assert_eq!(is_now, expected, "{writes:?}, {}", rig.bench.reason());
    };
    expect(&mut rig, run, [31, 0], run);
    expect(&mut rig, run, [32, 0], 1 - run);
    expect(&mut rig, run, [0, 0], run);
    rig.serve(run, MIB, 11_000);
    let home = rig.bench.pick_of(next, 128 * KIB);
    assert_eq!(rig.bench.reason(), "home of the stream");
    expect(&mut rig, home, [31, 0], home);
    expect(&mut rig, home, [32, 0], 1 - home);
    // Those that all legs have are waited for anywhere.
    expect(&mut rig, home, [32, 1], home);
}
