//! Kinds of random runs in which write-mostly legs may be behind.

use super::{CALM, FULL, Odds, attack};

const BEHIND: Odds = Odds {
    write_behind: true,
    ..CALM
};

#[test]
fn write_mostly_legs_are_behind() {
    attack("write_mostly_legs_are_behind", 300, BEHIND, FULL);
}

#[test]
fn reads_fail_on_legs_that_are_not_behind() {
    let odds = Odds {
        read_error: 200,
        ..BEHIND
    };
    attack("reads_fail_on_legs_that_are_not_behind", 200, odds, FULL);
}

#[test]
fn legs_fail_that_are_behind_and_those_that_are_not() {
    let odds = Odds {
        read_error: 30,
        write_error: 4,
        flush_error: 4,
        short: 2,
        by_hand: 50,
        silence: 50,
        unsupported: 50,
        full: 30,
        comes_back: 600,
        background: 300,
        unclean: 20,
        ..BEHIND
    };
    let kind = "legs_fail_that_are_behind_and_those_that_are_not";
    attack(kind, 300, odds, FULL);
}

#[test]
fn power_fails_while_legs_are_behind() {
    let odds = Odds {
        metadata: true,
        power_cuts: 6,
        ..BEHIND
    };
    attack("power_fails_while_legs_are_behind", 60, odds, FULL);
}

#[test]
fn legs_with_metadata_are_behind_and_come_back() {
    let odds = Odds {
        metadata: true,
        comes_back: 700,
        background: 300,
        read_error: 10,
        write_error: 8,
        flush_error: 8,
        by_hand: 200,
        silence: 50,
        unsupported: 50,
        ..BEHIND
    };
    let kind = "legs_with_metadata_are_behind_and_come_back";
    attack(kind, 60, odds, FULL);
}

#[test]
fn legs_are_told_that_they_may_be_behind_and_that_they_may_not() {
    let odds = Odds {
        metadata: true,
        flags: 400,
        power_cuts: 6,
        comes_back: 700,
        background: 300,
        by_hand: 100,
        write_error: 2,
        replace: 20,
        ..BEHIND
    };
    let kind = "legs_are_told_that_they_may_be_behind_and_that_they_may_not";
    attack(kind, 60, odds, FULL);
}

#[test]
fn reads_fail_while_legs_are_replaced() {
    let odds = Odds {
        metadata: true,
        read_error: 150,
        comes_back: 700,
        background: 300,
        replace: 200,
        flags: 100,
        hedges: true,
        prefetches: true,
        ..BEHIND
    };
    attack("reads_fail_while_legs_are_replaced", 100, odds, FULL);
}

/// Who is to go for that has what others lack, and is the one that a start believes.
#[test]
fn power_fails_while_legs_that_fail_reads_are_to_leave() {
    let odds = Odds {
        metadata: true,
        power_cuts: 6,
        read_error: 150,
        comes_back: 700,
        background: 100,
        ..BEHIND
    };
    let kind = "power_fails_while_legs_that_fail_reads_are_to_leave";
    attack(kind, 60, odds, FULL);
}
