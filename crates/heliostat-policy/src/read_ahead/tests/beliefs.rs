//! What people are told of streams.

use heliostat_types::{Duration, LegId, LegSet};

use super::shares::rig_beside_writes;
use super::{KIB, MIB, Rig, read_at_depth};
use crate::beliefs::FactValue;

/// What is told of each stream: how far it was read, how it is read ahead, by which legs.
fn told(rig: &Rig) -> Vec<(u64, &'static str, Vec<usize>)> {
    let streams = rig.ahead.beliefs(rig.now).into_iter();
    let legs = |legs: LegSet| legs.iter().map(LegId::index).collect();
    let told = streams.map(|one| (one.read_bytes / MIB, one.how, legs(one.legs)));
    told.collect()
}

/// Why a leg reads nothing ahead.
fn aside(rig: &Rig, leg: usize) -> Option<FactValue> {
    let mut facts = rig.ahead.facts(rig.now, LegId::new(leg));
    facts
        .find(|fact| fact.key == "not_read_ahead")
        .map(|fact| fact.value)
}

#[test]
fn a_striped_stream_is_told_with_what_is_read_ahead() {
    let mut rig = Rig::new(&[true, true]);
    assert!(told(&rig).is_empty());
    rig.read_on(0, 20 * MIB);
    assert_eq!(told(&rig), [(20, "each leg reads a stretch", vec![])]);
    let stream = rig.ahead.beliefs(rig.now)[0];
    assert_eq!(stream.offset, 20 * MIB);
    // Half of what was read, to the end of a stretch.
    let ahead_mib = stream.ahead_bytes / MIB;
    assert!((10..16).contains(&ahead_mib), "{ahead_mib}");
    assert_eq!(aside(&rig, 0), None);
    // Nobody has read it for long.
    rig.now += Duration::from_ms(400);
    assert_eq!(told(&rig)[0].1, "nothing: its reader pauses");
    rig.now += Duration::from_ms(200);
    assert!(told(&rig).is_empty());
}

#[test]
fn where_nothing_is_read_ahead_people_are_told_why() {
    let mut rig = Rig::new(&[true, true]);
    for step in 0..16 {
        for stream in 0..2 {
            rig.read(stream * 1000 * MIB + step * 256 * KIB, 256 * KIB);
        }
    }
    let crowded = "nothing: there is a leg for each stream, or less";
    let all = told(&rig);
    let homes: Vec<usize> = all.iter().flat_map(|one| one.2.clone()).collect();
    assert!(all.iter().all(|one| one.1 == crowded), "{all:?}");
    assert!(homes == [0, 1] || homes == [1, 0], "{all:?}");

    let kept = told(&read_at_depth(1, 64 * KIB));
    let words = "its home reads a little ahead";
    assert!(kept.len() == 2 && kept.iter().all(|one| one.1 == words));

    let (slow, fast) = (Duration::from_ms(2), Duration::from_us(200));
    let busy = told(&rig_beside_writes(4, [slow; 3]));
    assert_eq!(busy[0].1, "nothing: a disk is busy with writes");

    let mut rig = Rig::new(&[true, true]);
    rig.room_bytes = 100 * KIB;
    rig.read_on(0, 20 * MIB);
    assert_eq!(told(&rig)[0].1, "nothing: there is no memory left");

    let rig = rig_beside_writes(4, [fast, slow, fast]);
    assert_eq!(told(&rig)[0].1, "each leg reads a stretch");
    assert_eq!(aside(&rig, 0), None);
    let words = FactValue::Word("writes wait for it");
    assert_eq!(aside(&rig, 1), Some(words));
}

#[test]
fn legs_that_are_left_to_random_reads_or_too_slow_say_so() {
    let mut rig = Rig::new(&[true, true]);
    for step in 0..200 {
        rig.read_on(step * MIB, MIB);
        rig.pass(8, Duration::from_ms(20));
        while let Some(&(leg, _)) = rig.sent.first() {
            rig.answer(leg, Duration::from_ms(1));
        }
    }
    let asides = [0, 1].map(|leg| aside(&rig, leg));
    let random = Some(FactValue::Word("for random reads"));
    assert!(
        asides.contains(&random) && asides.contains(&None),
        "{asides:?}"
    );

    let mut rig = Rig::new(&[false, true]);
    for step in 0..300 {
        rig.read_on(step * MIB, MIB);
        rig.now += Duration::from_ms(1);
        while let Some(&(leg, _)) = rig.sent.first() {
            let us = if leg == 0 { 100 } else { 40_000 };
            rig.answer(leg, Duration::from_us(us));
        }
    }
    assert_eq!(aside(&rig, 1), Some(FactValue::Word("too slow")));
    let mut facts = rig.ahead.facts(rig.now, LegId::new(0));
    let rate = facts.find(|fact| fact.key == "in_sequence_bytes_per_s");
    let Some(FactValue::Rate(rate)) = rate.map(|fact| fact.value) else {
        panic!("it has read 100 MiB and more");
    };
    assert!((1_000_000_000..4_000_000_000).contains(&rate), "{rate}");
}

/// Two streams that are read slowly, on a disk and flash.
#[test]
fn a_disk_that_flash_has_time_for_says_so() {
    let mut rig = Rig::new(&[true, false]);
    for step in 0..200 {
        for stream in 0..2 {
            rig.read(stream * 1000 * MIB + step * 128 * KIB, 128 * KIB);
        }
        rig.now += Duration::from_ms(2);
        if step == 50 {
            assert_eq!(aside(&rig, 0), None, "somebody waits for flash");
            rig.legs[1].reads_in_flight = 0;
        }
    }
    let homes: Vec<Vec<usize>> = told(&rig).into_iter().map(|one| one.2).collect();
    assert_eq!(homes, [[1], [1]]);
    let words = FactValue::Word("flash has time for it");
    assert_eq!(aside(&rig, 0), Some(words));
    assert_eq!(aside(&rig, 1), None);
}
