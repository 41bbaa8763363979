//! Legs that have more to do than ever before.

use heliostat_types::Duration;

use super::{KIB, MIB, Rig};

/// While nothing is learned of a slow leg, what it does behind more than it ever had is not hoped
/// for: it would have all of a burst that the other one does not end at once.
#[test]
fn a_slow_leg_is_not_hoped_to_do_more_than_was_seen() {
    let mut rig = Rig::new("adaptive", 2);
    rig.teach(200, &[100, 100]);
    for _ in 0..4 {
        rig.serve(0, 0, 3_000);
    }
    for number in 0..500 {
        let leg = rig.bench.pick(number * 999 * MIB);
        rig.send(leg, number * 999 * MIB);
        if number % 2 == 0 && rig.bench.legs[1].reads_in_flight > 0 {
            rig.answer(1, 20);
        }
    }
    // What ends meanwhile, and what the other one ends in the time that these take.
    let on_slow = rig.bench.legs[0].reads_in_flight;
    assert!((1..20).contains(&on_slow), "{on_slow}");
}

/// Of more reads than are followed those are that were sent first, so that an answer tells what a
/// deep queue takes.
#[test]
fn what_a_deep_queue_takes_is_learned() {
    let mut rig = Rig::new("adaptive", 2);
    rig.teach(200, &[100, 100]);
    for number in 0..4_000 {
        rig.send(0, number * 4 * KIB);
    }
    for number in 4_000..8_000 {
        rig.answer(0, 20);
        rig.send(0, number * 4 * KIB);
    }
    // 4,000 in flight, one each 20 us.
    rig.bench.pick(0);
    let cost = rig.bench.policy.belief(0).unwrap().cost;
    assert!(cost > Duration::from_ms(10), "{cost}");
}
