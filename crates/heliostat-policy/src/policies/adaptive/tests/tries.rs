//! Legs whose first answers were not theirs, and legs that are as slow as they seem.

use heliostat_types::Duration;

use super::super::tries::{Busy, Tried, Tries};
use super::{MIB, Rig};

/// A rig whose legs have answered one read each in so many microseconds.
fn met(first_us: [u64; 2], rotational: [bool; 2]) -> Rig {
    let mut rig = Rig::new("adaptive", 2);
    for (view, turns) in rig.bench.legs.iter_mut().zip(rotational) {
        view.rotational = turns;
    }
    for (leg, us) in first_us.into_iter().enumerate() {
        rig.bench.pick(0);
        rig.serve(leg, 0, us);
    }
    rig
}

/// One reader for `seconds`, of legs that take so long. Where each read went.
fn read(rig: &mut Rig, seconds: u64, times_us: [u64; 2]) -> Vec<usize> {
    let mut went = Vec::new();
    let mut left_us = seconds * 1_000_000;
    for number in 1.. {
        let offset = number * 37 % 100 * 1_000 * MIB;
        let leg = rig.bench.pick(offset);
        let Some(left) = left_us.checked_sub(times_us[leg]) else {
            break;
        };
        left_us = left;
        rig.serve(leg, offset, times_us[leg]);
        went.push(leg);
    }
    went
}

fn of(went: &[usize], leg: usize) -> usize {
    went.iter().filter(|other| **other == leg).count()
}

#[test]
fn flash_whose_first_answer_took_long_is_read_before_a_second_has_passed() {
    for first_us in [20_000, 300_000] {
        let mut rig = met([6_000, first_us], [true, false]);
        let went = read(&mut rig, 1, [6_000, 100]);
        assert!(
            of(&went, 1) > 2_000,
            "{first_us} us: {} reads",
            of(&went, 1)
        );
    }
}

#[test]
fn a_disk_that_was_waking_up_is_read_when_it_is_awake() {
    let mut rig = met([8_000, 5_000_000], [true; 2]);
    let went = read(&mut rig, 30, [8_000; 2]);
    let last = &went[went.len() / 2..];
    let share = of(last, 1) * 100 / last.len();
    assert!((25..75).contains(&share), "{share} % of {}", last.len());
}

#[test]
fn a_leg_that_is_as_slow_as_it_seems_is_tried_less_often_each_time() {
    let mut rig = met([6_000, 300_000], [true, false]);
    let went = read(&mut rig, 300, [6_000, 300_000]);
    let tries = of(&went, 1);
    assert!((4..=9).contains(&tries), "{tries} tries");
    let later = of(&went[went.len() / 2..], 1);
    assert!(later <= 2, "{later} of {tries} late");
}

#[test]
fn a_disk_beside_flash_is_tried_no_sooner_for_being_a_disk() {
    let mut rig = met([12_000, 100], [true, false]);
    let went = read(&mut rig, 10, [12_000, 100]);
    assert_eq!(of(&went, 0), 0);
}

#[test]
fn a_leg_that_takes_that_long_for_sure_is_tried_as_any_other() {
    let mut tries = Tries::default();
    tries.believe();
    // It takes 0.8 ms, 0.7 ms more: a thousandth of 0.7 s.
    let costs = (8e5, 1e5, 1e5);
    for _ in 0..3 {
        assert!(!tries.is_due((6e8, u32::MAX), costs, Tried::Flash, || None));
        assert!(tries.is_due((8e8, u32::MAX), costs, Tried::Flash, || None));
        assert_eq!(tries.note(8e5, 8e5, 1e5), None);
    }
}

/// A thousandth of the time may be a hundredth of the reads, where few read.
#[test]
fn a_disk_beside_flash_is_no_thousandth_of_few_reads() {
    let tries = Tries::default();
    let costs = (1.2e7, 1e5, 1e7);
    for (passed_over, by_disk) in [(3999, false), (4001, true)] {
        let is_due = |tried| tries.is_due((1e12, passed_over), costs, tried, || None);
        assert_eq!(is_due(Tried::DiskBesideFlash), by_disk);
        assert!(is_due(Tried::Disk));
    }
}

#[test]
fn where_flash_is_busy_another_leg_is_tried_sooner() {
    // It takes 30 us more; after 10 ms and 177 reads, or 30 ms and 706.
    let costs = (2e5, 1.7e5, 1e5);
    let tries = Tries::default();
    for (silence_ns, passed_over, is_due) in [
        (9e6, 800, [false, false]),
        (2e7, 170, [false, false]),
        (2e7, 180, [false, true]),
        (4e7, 700, [false, true]),
        (4e7, 710, [true, true]),
    ] {
        let beside_one = Busy {
            others: 1,
            in_flight: 4,
        };
        let met = [None, Some(beside_one)]
            .map(|busy| tries.is_due((silence_ns, passed_over), costs, Tried::Flash, || busy));
        assert_eq!(met, is_due, "{silence_ns} {passed_over}");
    }
}

#[test]
fn where_disks_are_busy_another_one_is_tried_sooner() {
    // It takes 200 ms, 160 more: after 16 s, or where eight wait after two; and it is one of 4,000
    // of each of the others.
    let mut tries = Tries::default();
    tries.believe();
    let is_due = |silence_ns, passed_over, in_flight: Option<u32>| {
        let busy = in_flight.map(|in_flight| Busy {
            others: 2,
            in_flight,
        });
        tries.is_due(
            (silence_ns, passed_over),
            (2e8, 4e7, 1.2e7),
            Tried::Disk,
            || busy,
        )
    };
    for (silence_ns, passed_over, in_flight, expected) in [
        (1.9e9, 9_000, Some(8), false),
        (2.1e9, 7_999, Some(8), false),
        (2.1e9, 8_001, Some(8), true),
        (2.1e9, 8_001, Some(4), false),
        (1.59e11, 99_000, None, false),
        (1.61e11, 1, None, true),
        (1.61e11, 1, Some(8), true),
    ] {
        let is_due = is_due(silence_ns, passed_over, in_flight);
        assert_eq!(is_due, expected, "{silence_ns} {passed_over} {in_flight:?}");
    }
}

#[test]
fn one_answer_does_not_outweigh_many() {
    let mut tries = Tries::default();
    let mut note = |time_ns| tries.note(time_ns, 1e8, 1.2e7);
    assert_eq!(note(2e7), Some(5.0), "nothing was confirmed yet");
    for _ in 0..2 {
        assert_eq!(note(1e8), None);
    }
    assert_eq!(note(2e7), None, "it may have been near");
    assert_eq!(note(1e8), None);
    assert_eq!(note(2e7), None);
    assert_eq!(note(2e7), Some(5.0), "twice is no luck");

    tries.believe();
    assert_eq!(tries.note(2e7, 1e8, 1.2e7), None);
    // Then it is tried soon: after twice the 90 ms that it takes longer.
    let is_due = |silence_ns| {
        let costs = (1e8, 1e7, 1.2e7);
        tries.is_due((silence_ns, 100), costs, Tried::Disk, || None)
    };
    assert!(!is_due(1.7e8));
    assert!(is_due(1.9e8));
}

/// A disk beside flash that has too much to do would have a share of that, if it were well again.
#[test]
fn where_flash_is_busy_a_disk_is_tried_sooner() {
    let mut tries = Tries::default();
    tries.believe();
    let busy = Some(Busy {
        others: 2,
        in_flight: 15,
    });
    let is_due = |silence_ns, passed_over, busy| {
        let costs = (1e8, 2e6, 1.2e7);
        tries.is_due(
            (silence_ns, passed_over),
            costs,
            Tried::DiskBesideFlash,
            || busy,
        )
    };
    assert!(!is_due(9.7e9, 200_000, busy));
    assert!(!is_due(9.9e9, 97_000, busy));
    assert!(is_due(9.9e9, 99_000, busy));
    assert!(!is_due(9.9e9, 99_000, None));
}

/// Reads pass a leg over until one tries it: where that is.
fn tried(rig: &mut Rig, leg: usize) -> u64 {
    rig.bench.now += Duration::from_secs(10);
    let mut offsets = (1..20_000).map(|number| number * 37 % 100_000 * MIB);
    let tried = offsets.find(|offset| rig.bench.pick(*offset) == leg);
    tried.expect("a try")
}

/// It would not be chosen if it were well, so that no other read would show that it is.
#[test]
fn a_slow_leg_is_tried_that_would_not_be_chosen_anyway() {
    let mut rig = Rig::new("adaptive", 2);
    rig.teach(100, &[200, 100]);
    for _ in 0..3 {
        rig.serve(0, 0, 2_000);
    }
    let fact_of = |rig: &mut Rig| {
        rig.bench.pick(0);
        rig.bench.policy.belief(0).unwrap().is_slow
    };
    assert!(fact_of(&mut rig));
    let offset = tried(&mut rig, 0);
    rig.serve(0, offset, 200);
    assert!(!fact_of(&mut rig));
}

#[test]
fn a_try_that_ends_before_the_best_leg_would_have_is_believed() {
    for (us, best) in [(100, 0), (160, 1)] {
        let mut rig = Rig::new("adaptive", 2);
        rig.teach(100, &[300, 150]);
        assert_eq!(rig.bench.pick(0), 1);
        let offset = tried(&mut rig, 0);
        rig.serve(0, offset, us);
        rig.serve(1, 7 * MIB, 150);
        assert_eq!(rig.bench.pick(0), best, "{us} us");
    }
}

/// That a leg was never so slow, and that it ended first, is one reason and not two.
#[test]
fn a_try_is_believed_once() {
    let mut rig = met([6_000, 300_000], [true, false]);
    let offset = tried(&mut rig, 1);
    rig.serve(1, offset, 100);
    rig.bench.pick(0);
    let belief = rig.bench.policy.belief(1).unwrap();
    let us = belief.cost.as_ns() / 1_000;
    assert!(!belief.is_slow && (90..115).contains(&us), "{us} us");
}

#[test]
fn a_try_says_nothing_of_other_sizes() {
    let mut rig = Rig::new("adaptive", 2);
    for number in 0..100 {
        for leg in [0, 1] {
            rig.send_of(leg, number * 999 * MIB, 64 << 10);
            rig.answer(leg, 500);
        }
    }
    rig.teach(100, &[300, 150]);
    let offset = tried(&mut rig, 0);
    rig.serve(0, offset, 100);
    rig.bench.pick_of(0, 64 << 10);
    let us = rig.bench.policy.belief(0).unwrap().cost.as_ns() / 1_000;
    assert!((450..550).contains(&us), "{us} us");
}

#[test]
fn flash_is_tried_with_more_reads_less_often_each_time_that_it_is_no_better() {
    let mut tries = Tries::default();
    let mut reads = || {
        let mut count = 0;
        while !tries.is_due_deeper((1.9e5, 1e5)) {
            tries.pass_over();
            count += 1;
        }
        assert!(!tries.is_due_deeper((2.1e5, 1e5)), "it takes twice as long");
        tries.begin_deeper();
        count
    };
    let counts: Vec<u32> = (0..8).map(|_| reads()).collect();
    assert_eq!(counts, [129, 257, 513, 1025, 2049, 4097, 4097, 4097]);
    tries.is_better_deeper();
    for _ in 0..=128 {
        tries.pass_over();
    }
    assert!(
        tries.is_due_deeper((1.9e5, 1e5)),
        "more would be better yet"
    );
}

/// So many reads of a leg begin together; the first ends after so long, and the others then.
fn together(rig: &mut Rig, leg: usize, count: u64, us: u64) {
    for number in 0..count {
        rig.send(leg, number * 999 * MIB);
    }
    rig.answer(leg, us);
    for _ in 1..count {
        rig.answer(leg, 0);
    }
}

/// Two drives, of which the first took longer the more it had while a neighbour had it too. That
/// is gone, which only one read at a time has met; it has two, and the other one eight. Where 300
/// reads would go.
fn after_a_neighbour() -> Vec<(usize, &'static str)> {
    let mut rig = Rig::new("adaptive", 2);
    for _ in 0..100 {
        for count in 1..=9 {
            together(&mut rig, 0, count, 100 + 20 * count);
            together(&mut rig, 1, count, 100 + 6 * count);
        }
    }
    rig.teach(400, &[100, 106]);
    for (leg, count) in [(0, 2), (1, 8)] {
        for number in 0..count {
            rig.send(leg, number * 999 * MIB);
        }
    }
    let pick = |number: u64| {
        let leg = rig.bench.pick(number * 777 * MIB);
        (leg, rig.bench.reason())
    };
    (0..300).map(pick).collect()
}

#[test]
fn flash_that_is_read_is_tried_with_more_where_another_one_is_busy() {
    let went = after_a_neighbour();
    let (first, others) = went.split_at(100);
    assert!(first.iter().all(|(leg, _)| *leg == 1), "{first:?}");
    assert!(others.contains(&(0, "deeper than of late")), "{others:?}");
}
