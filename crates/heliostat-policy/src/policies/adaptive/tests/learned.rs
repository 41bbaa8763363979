//! What is kept over a restart.

use heliostat_types::LegId;

use super::{MIB, Rig};

/// A policy that has been told what `before` has learned of each leg.
fn restarted(before: &Rig) -> Rig {
    let legs = before.bench.legs.len();
    let mut rig = Rig::new("adaptive", legs);
    for leg in 0..legs {
        let leg = LegId::new(leg);
        let kept = before.bench.policy.learned(leg);
        assert!(rig.bench.policy.recall(leg, &kept));
        rig.bench.legs[leg.index()].rotational = before.bench.legs[leg.index()].rotational;
    }
    rig
}

#[test]
fn the_fastest_leg_is_read_from_the_first_read_on() {
    let mut rig = Rig::new("adaptive", 3);
    rig.teach(100, &[8_000, 100, 400]);
    let mut rig = restarted(&rig);
    for offset in 0..10 {
        assert_eq!(rig.bench.pick(offset << 30), 1);
    }
    let cost = |leg: usize| rig.bench.policy.belief(leg).unwrap().cost.as_us();
    assert_eq!((cost(0), cost(1), cost(2)), (8_000, 100, 400));
}

#[test]
fn a_leg_that_is_another_by_now_is_left_after_some_reads() {
    let mut rig = Rig::new("adaptive:health=off", 2);
    rig.teach(10_000, &[100, 300]);
    let mut rig = restarted(&rig);
    let mut reads = 0;
    while rig.bench.pick(0) == 0 {
        rig.serve(0, 0, 2_000);
        reads += 1;
        assert!(reads < 20, "what was kept weighs too much");
    }
    assert!(reads > 0);
}

#[test]
fn an_arm_is_still_known_where_the_device_says_nothing_of_it() {
    let mut rig = Rig::disks(2);
    for view in &mut rig.bench.legs {
        view.rotational = false;
    }
    let mut rig = restarted(&rig);
    rig.bench.pick(0);
    assert!(rig.bench.policy.belief(0).unwrap().turns);
}

/// A leg that says that it has no arm, and is never idle, so that only its jumps tell.
fn busy_disk(mut rig: Rig, reads: u64) -> Rig {
    let mut end = 0;
    let place = |number: u64| number * number * 37 % 101 * 10_000 * MIB;
    rig.serve(1, 0, 100);
    rig.send(0, place(0));
    for number in 1..=reads {
        rig.send(0, place(number));
        let offset = place(number - 1);
        let way_permille = offset.abs_diff(end).isqrt() / 1_000;
        end = offset + 4096;
        rig.answer(0, 2_000 + 12 * way_permille);
    }
    rig.answer(0, 5_000);
    rig.bench.pick(0);
    rig
}

#[test]
fn what_jumps_have_told_is_still_known_until_they_tell_it_again() {
    let turns = |rig: &Rig| rig.bench.policy.belief(0).unwrap().turns;
    let rig = busy_disk(Rig::new("adaptive", 2), 200);
    assert!(turns(&rig));
    for reads in [1, 12, 30, 63, 100, 200] {
        let again = busy_disk(restarted(&rig), reads);
        assert!(turns(&again), "{reads}");
    }
    // Whatever it says counts where it says something else by then.
    let mut again = restarted(&rig);
    for rotational in [true, false] {
        again.bench.legs[0].rotational = rotational;
        again.bench.pick(0);
        assert_eq!(turns(&again), rotational);
    }
}

#[test]
fn what_was_learned_of_loads_is_still_known() {
    for rotational in [false, true] {
        let mut rig = Rig::new("adaptive", 2);
        rig.bench.legs[0].rotational = rotational;
        rig.bench.pick(0);
        rig.teach(8, &[10_000, 10_000]);
        rig.teach_deep(0, 10_000);
        let mut costs = Vec::new();
        for _ in 0..2 {
            for number in 0..8 {
                rig.send(0, number * MIB);
            }
            rig.bench.pick(0);
            costs.push(rig.bench.policy.belief(0).unwrap().cost);
            rig = restarted(&rig);
        }
        assert!(costs[0].as_us() > 25_000, "{costs:?}");
        assert_eq!(costs[0], costs[1]);
    }
}

#[test]
fn how_late_reads_are_is_still_known() {
    let mut rig = Rig::new("adaptive", 1);
    rig.teach(100, &[100]);
    let kept = rig.bench.policy.learned(LegId::new(0));
    // The counts of what took about as long as predicted come last, and then those of the rest.
    let on_time = kept.len() - 22;
    assert!(kept[on_time] > 90.0 && kept[on_time + 1..].iter().all(|count| *count == 0.0));
    let again = restarted(&rig).bench.policy.learned(LegId::new(0));
    assert_eq!(again[on_time..], kept[on_time..]);
}

#[test]
fn a_leg_that_was_never_read_leaves_nothing() {
    let mut rig = Rig::new("adaptive", 2);
    rig.teach(1, &[100]);
    assert!(rig.bench.policy.learned(LegId::new(1)).is_empty());
    assert!(!rig.bench.policy.recall(LegId::new(1), &[]));
}

#[test]
fn what_makes_no_sense_is_not_believed() {
    let leg = LegId::new(0);
    let mut before = Rig::new("adaptive", 1);
    before.teach(100, &[100]);
    let kept = before.bench.policy.learned(leg);
    let mut policy = Rig::new("adaptive", 1).bench.policy;
    let mut refuses = |numbers: &[f32]| {
        let is_taken = policy.recall(leg, numbers);
        assert!(!is_taken && policy.learned(leg).is_empty(), "{numbers:?}");
    };
    for len in 0..kept.len() {
        refuses(&kept[..len]);
    }
    refuses(&[&kept[..], &[0.0]].concat());
    for at in 0..kept.len() {
        for nonsense in [f32::NAN, f32::INFINITY, -1.0, 1e16] {
            let mut numbers = kept.clone();
            numbers[at] = nonsense;
            refuses(&numbers);
        }
    }
    // Another layout, and a curve that knows one load and not the others.
    for (at, number) in [(0, kept[0] + 1.0), (3, 0.0), (5, 0.0)] {
        let mut numbers = kept.clone();
        numbers[at] = number;
        refuses(&numbers);
    }
}

/// Whatever may be in a file that somebody has written into: nothing is predicted that is no time.
#[test]
fn zeros_and_extremes_are_survived() {
    let leg = LegId::new(0);
    let mut before = Rig::new("adaptive", 1);
    before.teach(100, &[100]);
    let kept = before.bench.policy.learned(leg);
    for extreme in [1e-30, 1e15] {
        let mut numbers = vec![extreme; kept.len()];
        numbers[0] = kept[0];
        let mut rig = Rig::new("adaptive", 1);
        assert!(rig.bench.policy.recall(leg, &numbers));
        rig.bench.pick(0);
        rig.teach(100, &[100]);
        rig.bench.pick(0);
        assert!(rig.bench.policy.belief(0).unwrap().cost.as_us() > 0);
    }
}
