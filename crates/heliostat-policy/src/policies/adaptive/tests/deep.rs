//! Legs that have more to do than ever before.

use heliostat_types::{Duration, Instant};

use super::super::health::Health;
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

/// A leg may turn slow in the midst of the first round, and the first round may be an accident.
#[test]
fn how_slow_a_leg_is_the_second_round_says_and_those_after_it() {
    let mut rig = Rig::new("adaptive", 2);
    rig.teach(200, &[100, 100]);
    for us in [300, 3_000, 3_200] {
        rig.serve(0, 0, us);
    }
    rig.bench.pick(0);
    let cost = rig.bench.policy.belief(0).unwrap().cost;
    assert!(cost > Duration::from_us(2_900), "{cost}");
}

/// One answer that was neither slow nor in time, and the leg would be read for ever as if it did
/// that each time: nothing else is learned of it meanwhile.
#[test]
fn a_slow_leg_is_not_read_for_what_it_did_once() {
    let mut rig = Rig::new("adaptive", 2);
    rig.teach(200, &[100, 400]);
    for (at, us) in (1..).zip([3_000, 3_000, 160]) {
        rig.serve(0, at * MIB, us);
    }
    for answers in 4.. {
        if rig.bench.pick(answers * MIB) == 1 {
            break;
        }
        assert!(answers < 16, "leg 0 takes a millisecond each time");
        rig.serve(0, answers * MIB, 1_000);
    }
    // And what it did at least, as soon as it does that again.
    rig.serve(0, 100 * MIB, 160);
    assert_eq!(rig.bench.pick(0), 0);
}

/// A pause in the midst of that is not what it does from then on.
#[test]
fn how_slow_a_leg_is_grows_by_and_by_where_it_was_wrong_to_read_it() {
    let mut health = Health::default();
    let mut now = Instant::ZERO;
    let mut slow = |ratio: f32, was_wrong| {
        let began = now;
        now += Duration::from_ms(1);
        health.note_slow(now, began, ratio, (false, was_wrong));
        health.factor()
    };
    assert_eq!([slow(3.0, true), slow(2.0, true)], [1.0, 2.0]);
    assert_eq!(slow(8.0, false), 2.0);
    assert_eq!(slow(2_500.0, true), 2.75);
    assert_eq!(slow(2.0, true), 2.0);
}

/// A leg that has turned slow, or only pauses, has more to do than ever before: what that takes now
/// is not what it takes when it is well.
#[test]
fn what_is_in_flight_when_a_leg_turns_slow_teaches_nothing() {
    let cost_behind_31 = |slow_answers: u64, first_us: u64| {
        let mut rig = Rig::new("adaptive", 2);
        rig.teach(200, &[100, 100]);
        for _ in 0..slow_answers {
            rig.serve(0, 0, 3_000);
        }
        rig.serve(0, 0, 100);
        for number in 0..32 {
            rig.send(0, number * MIB);
        }
        for number in 0..32 {
            rig.answer(0, if number == 0 { first_us } else { 10 });
        }
        rig.serve(0, 0, 100);
        for number in 0..31 {
            rig.send(0, number * MIB);
        }
        rig.bench.pick(0);
        rig.bench.policy.belief(0).unwrap().cost
    };
    assert!(cost_behind_31(0, 100) > Duration::from_us(200), "learned");
    // Also where it was slow for long before: these answers were no stalls.
    for slow_answers in [0, 50] {
        let cost = cost_behind_31(slow_answers, 100_000);
        assert!(cost < Duration::from_us(150), "{slow_answers}: {cost}");
    }
}

/// Where half of the reads take thirty times as long, that is no pause.
#[test]
fn what_takes_long_again_and_again_is_learned() {
    let mut rig = Rig::new("adaptive", 2);
    rig.teach(200, &[100, 200]);
    for _ in 0..400 {
        rig.serve(0, 0, 3_000);
        rig.serve(0, 0, 100);
    }
    rig.bench.pick(0);
    let cost = rig.bench.policy.belief(0).unwrap().cost;
    assert!(cost > Duration::from_us(700), "{cost}");
}

/// After one slow round nobody knows yet whether it was a pause: a few reads will tell, and the
/// rest of a burst does not wait for that.
#[test]
fn after_one_slow_round_a_few_reads_say_what_it_was() {
    let mut rig = Rig::new("adaptive", 2);
    rig.teach(200, &[100, 120]);
    rig.serve(0, 0, 3_000);
    for number in 0..100 {
        let leg = rig.bench.pick(number * 999 * MIB);
        rig.send(leg, number * 999 * MIB);
    }
    assert_eq!(rig.bench.legs[0].reads_in_flight, 4);
    for _ in 0..4 {
        rig.answer(0, 25);
    }
    assert_eq!(rig.bench.pick(0), 0, "a pause");
}

/// Nobody hears of the reads that were to tell: what was taken back from a queue has no answer.
#[test]
fn what_never_answers_makes_nobody_suspected_for_ever() {
    let mut rig = Rig::new("adaptive", 2);
    rig.teach(200, &[100, 120]);
    rig.serve(0, 0, 3_000);
    for number in 0..4 {
        rig.send(0, number * MIB);
    }
    assert_eq!(rig.bench.pick(0), 1);
    rig.sent.clear();
    rig.bench.legs[0].reads_in_flight = 0;
    rig.bench.legs[0].read_bytes_in_flight = 0;
    assert_eq!(rig.bench.pick(0), 0);
}

/// A disk beside the only flash would read for long what it was sent while that answers.
#[test]
fn a_disk_does_not_have_what_flash_has_after_a_pause() {
    let mut rig = Rig::new("adaptive", 2);
    rig.bench.legs[0].rotational = true;
    rig.teach(200, &[10_000, 100]);
    for number in 0..16 {
        rig.send(1, number * 777 * MIB);
    }
    rig.answer(1, 100_000);
    for _ in 1..16 {
        rig.answer(1, 10);
    }
    for number in 0..16 {
        let leg = rig.bench.pick(number * 999 * MIB);
        assert_eq!(leg, 1, "read {number}");
        rig.send(leg, number * 999 * MIB);
    }
}
