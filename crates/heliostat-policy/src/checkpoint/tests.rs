use heliostat_types::{Duration, LegId};

use super::Checkpoints;
use crate::spec::PolicySpec;
use crate::testing::idle_view;

const FAST: usize = 0;
const SLOW: usize = 1;

fn id(leg: usize) -> LegId {
    LegId::new(leg)
}

fn pick(checkpoints: &mut Checkpoints, leg: usize) {
    checkpoints.note_pick(&[idle_view(FAST), idle_view(SLOW)], id(leg));
}

fn read(checkpoints: &mut Checkpoints, leg: usize, us: u64) {
    checkpoints.note_read(id(leg), Duration::from_us(us));
}

/// A leg is given up after three picks and tried again after four that pass it over.
fn checkpoints() -> Checkpoints {
    Checkpoints::new(&PolicySpec::parse("latency:checkpoint_age=4,probe_events=3").unwrap())
}

#[test]
fn a_leg_is_tried_until_a_read_completes() {
    let mut told = checkpoints();
    assert!(told.is_on_probation(id(SLOW)));
    assert_eq!(
        (told.rank(id(SLOW)), told.average_ns(id(SLOW))),
        (0, u64::MAX)
    );
    read(&mut told, SLOW, 500);
    assert!(!told.is_on_probation(id(SLOW)));
    assert_eq!(told.rank(id(SLOW)), 500_000);
    read(&mut told, SLOW, 100);
    assert_eq!(told.average_ns(id(SLOW)), 300_000);
}

#[test]
fn a_leg_that_never_answers_is_given_up_and_tried_again_later() {
    let mut told = checkpoints();
    read(&mut told, FAST, 100);
    for _ in 0..3 {
        assert!(told.is_on_probation(id(SLOW)));
        pick(&mut told, SLOW);
    }
    assert!(!told.is_on_probation(id(SLOW)));
    assert_eq!(told.rank(id(SLOW)), u64::MAX);
    for _ in 0..5 {
        assert!(!told.is_on_probation(id(SLOW)));
        pick(&mut told, FAST);
    }
    assert!(told.is_on_probation(id(SLOW)));
}

#[test]
fn being_picked_ends_ageing() {
    let mut told = checkpoints();
    read(&mut told, FAST, 100);
    read(&mut told, SLOW, 500);
    for _ in 0..4 {
        pick(&mut told, FAST);
    }
    pick(&mut told, SLOW);
    for _ in 0..4 {
        pick(&mut told, FAST);
    }
    assert!(
        !told.is_on_probation(id(SLOW)),
        "passed over four times since"
    );
    pick(&mut told, FAST);
    assert!(told.is_on_probation(id(SLOW)), "five times");
}

#[test]
fn a_checkpoint_forgets_what_was_before() {
    let mut told = checkpoints();
    read(&mut told, FAST, 100);
    for _ in 0..50 {
        read(&mut told, SLOW, 9_000);
    }
    for _ in 0..5 {
        pick(&mut told, FAST);
    }
    assert_eq!(
        told.average_ns(id(SLOW)),
        9_000_000,
        "until a new read completes"
    );
    read(&mut told, SLOW, 80);
    assert_eq!(told.average_ns(id(SLOW)), 80_000);
}

#[test]
fn new_limits_keep_the_averages() {
    let mut told = checkpoints();
    read(&mut told, FAST, 100);
    told.configure(&PolicySpec::parse("latency:probe_events=1").unwrap());
    assert_eq!(told.average_ns(id(FAST)), 100_000);
    pick(&mut told, FAST);
    assert!(
        !told.is_on_probation(id(SLOW)),
        "one event is all there is now"
    );
}

#[test]
fn reset_forgets_one_leg_or_all() {
    let mut told = checkpoints();
    read(&mut told, FAST, 100);
    read(&mut told, SLOW, 500);
    told.reset(Some(id(SLOW)));
    assert!(told.is_on_probation(id(SLOW)) && !told.is_on_probation(id(FAST)));
    told.reset(None);
    assert!(told.is_on_probation(id(FAST)));
}

#[test]
fn what_is_told_of_a_checkpoint_is_what_picks_go_by() {
    let mut told = checkpoints();
    let line = |told: &Checkpoints| {
        let known = told.told(id(SLOW));
        (known.reads, known.wait.as_us(), known.age, known.count)
    };
    assert_eq!(line(&told), (0, 0, -3, 0), "tried for three picks at most");
    read(&mut told, FAST, 100);
    pick(&mut told, SLOW);
    assert_eq!(line(&told), (0, 0, -2, 0));
    read(&mut told, SLOW, 500);
    read(&mut told, SLOW, 300);
    assert_eq!(
        line(&told),
        (2, 800, 0, 0),
        "all there is, before the first"
    );
    for _ in 0..4 {
        pick(&mut told, FAST);
    }
    assert_eq!(line(&told), (2, 800, 4, 0));
    pick(&mut told, FAST);
    assert_eq!(line(&told), (0, 0, -3, 1), "the fifth is a checkpoint");
    read(&mut told, SLOW, 80);
    assert_eq!(line(&told), (1, 80, 0, 1));
    told.reset(None);
    assert_eq!(line(&told), (0, 0, -3, 0));
}
