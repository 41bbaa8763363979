//! Policies that have more read than clients ask for: hedges and prefetches.

use super::{CALM, FULL, LARGE, Odds, Size, attack};

/// Few bytes: the same ones are often wanted.
const HOT: Size = Size {
    in_flight: 12,
    array_bytes: 32 << 10,
    large: (4 << 10, 50),
    ..FULL
};

const HEDGED: Odds = Odds {
    hedges: true,
    ..CALM
};
const PREFETCHED: Odds = Odds {
    prefetches: true,
    ..CALM
};
const BOTH: Odds = Odds {
    hedges: true,
    prefetches: true,
    ..CALM
};

#[test]
fn hedged() {
    attack("hedged", 1000, HEDGED, HOT);
}

#[test]
fn prefetched() {
    attack("prefetched", 400, PREFETCHED, HOT);
}

#[test]
fn eager_while_legs_fail() {
    let odds = Odds {
        read_error: 50,
        write_error: 20,
        flush_error: 5,
        short: 10,
        by_hand: 10,
        silence: 100,
        unsupported: 20,
        ..BOTH
    };
    attack("eager_while_legs_fail", 200, odds, HOT);
}

#[test]
fn eager_while_memory_is_short() {
    let odds = Odds {
        read_error: 20,
        silence: 100,
        ..BOTH
    };
    attack("eager_while_memory_is_short", 4, odds, LARGE);
}

#[test]
fn eager_while_blocks_go_bad_and_legs_come_back() {
    let odds = Odds {
        metadata: true,
        stuck: 60,
        comes_back: 500,
        background: 200,
        by_hand: 80,
        read_error: 20,
        silence: 30,
        replace: 100,
        ..BOTH
    };
    attack(
        "eager_while_blocks_go_bad_and_legs_come_back",
        60,
        odds,
        HOT,
    );
}

#[test]
fn eager_while_power_and_legs_fail() {
    let odds = Odds {
        metadata: true,
        power_cuts: 3,
        comes_back: 300,
        background: 100,
        by_hand: 60,
        read_error: 20,
        silence: 30,
        ..BOTH
    };
    attack("eager_while_power_and_legs_fail", 60, odds, HOT);
}

#[test]
fn eager_while_legs_are_behind() {
    let odds = Odds {
        write_behind: true,
        read_error: 20,
        write_error: 10,
        silence: 30,
        ..BOTH
    };
    attack("eager_while_legs_are_behind", 120, odds, HOT);
}
