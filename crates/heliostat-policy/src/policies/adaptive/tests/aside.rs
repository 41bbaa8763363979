//! Streams beside random reads.

use heliostat_types::{ClientId, Extent, StreamId};

use super::{KIB, MIB, Rig};
use crate::api::ReadRequest;

impl Rig {
    /// A client asks for this; says which leg has it.
    fn ask(&mut self, offset: u64, len: u64) -> usize {
        let leg = self.bench.pick_of(offset, len);
        self.send_of(leg, offset, len);
        let request = ReadRequest {
            client: ClientId(0),
            stream: StreamId(0),
            extent: Extent::new(offset, len),
        };
        let mut ahead = Vec::new();
        let (now, legs) = (self.bench.now, &self.bench.legs);
        self.bench
            .policy
            .prefetch(now, Some(&request), legs, 0, &mut ahead);
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

/// Which legs have the next read of each of 12 streams, where so many random reads came with each
/// one before, and the last leg has so many of these to answer.
fn legs_of_streams(times_us: &[u64], random: u64, waiting: u64) -> Vec<usize> {
    let mut rig = Rig::new("adaptive:health=off", times_us.len());
    rig.teach_queues(times_us);
    let at = |stream: u64, step: u64| (stream + 1) * 10_000 * MIB + step * 128 * KIB;
    for step in 0..8 {
        for stream in 0..12 {
            rig.ask(at(stream, step), 128 * KIB);
            for number in 0..random {
                rig.ask(
                    (step * 12 + stream + number * 96) * 7919 % 4001 * MIB,
                    4 * KIB,
                );
            }
            rig.answer_all(times_us);
        }
    }
    for number in 0..waiting {
        rig.send_of(times_us.len() - 1, (number * 7919 % 4001) * MIB, 4 * KIB);
    }
    (0..12)
        .map(|stream| rig.ask(at(stream, 8), 128 * KIB))
        .collect()
}

#[test]
fn beside_random_reads_streams_wait_on_the_slower_leg() {
    let legs = legs_of_streams(&[200, 50], 1, 0);
    assert_eq!(legs, [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    // Of two that are alike it is one of both.
    let legs = legs_of_streams(&[50, 50], 1, 0);
    let first = legs.iter().filter(|leg| **leg == 0).count();
    assert!(first == 2 || first == 10, "{legs:?}");
    // Where nobody reads at random they go where they end first.
    let legs = legs_of_streams(&[200, 50], 0, 0);
    assert!(legs.iter().filter(|leg| **leg == 1).count() > 6, "{legs:?}");
}

#[test]
fn however_many_reads_are_random_streams_fill_the_fast_leg() {
    let legs = legs_of_streams(&[200, 50], 1, 100);
    assert_eq!(legs[..2], [1, 1]);
}
