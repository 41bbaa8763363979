//! Blocks that are read again, and what legs are taken for that were never seen idle.

use heliostat_types::Duration;

use super::{MIB, Rig};

const BLOCK: u64 = 640 * MIB;

impl Rig {
    /// A read is asked for, and served by the leg that was chosen.
    fn asked(&mut self, offset: u64, us: u64) -> usize {
        let leg = self.bench.pick(offset);
        self.send(leg, offset);
        self.answer(leg, us);
        leg
    }
}

/// Two legs of which one has read a block, and has answered it from a cache since.
fn rig(again_us: u64) -> (Rig, usize) {
    let mut rig = Rig::new("adaptive", 2);
    rig.teach(100, &[100, 100]);
    let first = rig.asked(BLOCK, 100);
    for number in 0..200 {
        assert_eq!(rig.asked(BLOCK, again_us), first);
        // Enough others that it is known what these take.
        rig.asked(number * 999 * MIB, 100);
    }
    (rig, first)
}

#[test]
fn a_block_is_read_again_where_it_was_if_that_is_quicker() {
    for (again_us, is_quicker) in [(30, true), (100, false)] {
        let (mut rig, first) = rig(again_us);
        rig.send(first, 7 * MIB);
        assert_eq!(rig.bench.pick(8 * MIB), 1 - first, "another block");
        let again = rig.bench.pick(BLOCK);
        assert_eq!(again == first, is_quicker, "{again_us} us");
    }
}

#[test]
fn behind_a_queue_a_cache_saves_nothing() {
    let (mut rig, first) = rig(30);
    // They wait for each other: of twice as many each takes twice as long.
    let mut at = 1_000 * MIB;
    for _ in 0..2 {
        for number in 0..16 {
            rig.send(0, at + number * MIB);
            rig.send(1, at + number * MIB);
        }
        for _ in 0..200 {
            at += 100 * MIB;
            for leg in [0, 1] {
                rig.answer(leg, 6);
                rig.send(leg, at);
            }
        }
    }
    rig.send(first, 7 * MIB);
    assert_eq!(rig.bench.pick(BLOCK), 1 - first);
}

#[test]
fn what_comes_from_a_cache_says_nothing_of_other_reads() {
    let (mut rig, _) = rig(30);
    rig.bench.now += Duration::from_ms(1);
    // By offset, as where both take the same.
    assert_eq!(
        [0, 2 * MIB, 4 * MIB, 6 * MIB].map(|at| rig.bench.pick(at)),
        [0, 1, 0, 1]
    );
}

/// If sixteen reads waited for each other, one by itself would take a sixteenth of the time; but
/// that is a guess, and says nothing of a seventeenth.
#[test]
fn a_leg_that_was_never_seen_idle_is_not_saturated_by_a_guess() {
    let mut rig = Rig::new("adaptive", 2);
    rig.serve(1, 0, 200);
    rig.serve(1, MIB, 200);
    // Of reads of the same block the last is followed, which meets all others.
    for _ in 0..16 {
        rig.send(0, BLOCK);
    }
    rig.bench.now += Duration::from_us(90);
    for number in 0..200 {
        rig.answer(0, 6);
        rig.send(0, number * MIB);
    }
    assert_eq!(rig.bench.pick(999 * MIB), 0);
}

/// Whose answer the first one is nobody knows: timed from the second read it would seem short.
#[test]
fn of_a_block_that_is_in_flight_twice_nothing_is_learned() {
    let (mut rig, first) = rig(100);
    for _ in 0..400 {
        rig.bench.pick(BLOCK);
        rig.send(first, BLOCK);
        rig.bench.now += Duration::from_us(90);
        rig.bench.pick(BLOCK);
        rig.send(first, BLOCK);
        rig.answer(first, 10);
        rig.answer(first, 90);
    }
    rig.send(first, 7 * MIB);
    assert_eq!(rig.bench.pick(BLOCK), 1 - first);
}

/// Not what it took is learned of such reads; but it is seen that it was long.
#[test]
fn a_leg_that_is_slow_with_one_block_is_slow() {
    let (mut rig, first) = rig(100);
    for _ in 0..3 {
        rig.send(first, BLOCK);
        rig.send(first, BLOCK);
        rig.answer(first, 2_000);
        rig.answer(first, 10);
    }
    rig.bench.pick(BLOCK);
    assert!(rig.bench.policy.belief(first).unwrap().is_slow);
}
