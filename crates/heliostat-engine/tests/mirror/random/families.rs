//! Kinds of random runs, by what goes wrong in them.

use super::{CALM, FULL, LARGE, Odds, attack};

#[test]
fn calm() {
    attack("calm", 200, CALM, FULL);
}

#[test]
fn reads_fail() {
    let odds = Odds {
        read_error: 100,
        ..CALM
    };
    attack("reads_fail", 200, odds, FULL);
}

#[test]
fn writes_fail() {
    let odds = Odds {
        write_error: 8,
        flush_error: 8,
        unsupported: 100,
        ..CALM
    };
    attack("writes_fail", 200, odds, FULL);
}

#[test]
fn flushes_fail() {
    let odds = Odds {
        flush_error: 150,
        write_error: 30,
        ..CALM
    };
    attack("flushes_fail", 200, odds, FULL);
}

#[test]
fn legs_fall_silent() {
    let odds = Odds {
        silence: 200,
        read_error: 10,
        by_hand: 5,
        ..CALM
    };
    attack("legs_fall_silent", 200, odds, FULL);
}

#[test]
fn legs_are_full() {
    let odds = Odds { full: 200, ..CALM };
    attack("legs_are_full", 200, odds, FULL);
}

#[test]
fn memory_is_short() {
    let odds = Odds {
        read_error: 20,
        silence: 200,
        ..CALM
    };
    attack("memory_is_short", 4, odds, LARGE);
}

#[test]
fn all_goes_wrong() {
    let odds = Odds {
        read_error: 30,
        write_error: 4,
        flush_error: 4,
        short: 2,
        by_hand: 10,
        silence: 50,
        unsupported: 50,
        full: 30,
        ..CALM
    };
    attack("all_goes_wrong", 200, odds, FULL);
}

#[test]
fn metadata_calm() {
    let odds = Odds {
        metadata: true,
        ..CALM
    };
    attack("metadata_calm", 60, odds, FULL);
}

#[test]
fn metadata_with_legs_that_fail() {
    let odds = Odds {
        metadata: true,
        read_error: 30,
        write_error: 8,
        flush_error: 8,
        short: 2,
        by_hand: 10,
        silence: 50,
        unsupported: 50,
        full: 30,
        ..CALM
    };
    attack("metadata_with_legs_that_fail", 60, odds, FULL);
}

#[test]
fn metadata_with_legs_that_come_back() {
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
        ..CALM
    };
    attack("metadata_with_legs_that_come_back", 60, odds, FULL);
}

#[test]
fn rebuilds_are_cut_short_and_go_on() {
    let odds = Odds {
        metadata: true,
        power_cuts: 6,
        comes_back: 700,
        background: 200,
        by_hand: 150,
        ..CALM
    };
    attack("rebuilds_are_cut_short_and_go_on", 120, odds, FULL);
}

#[test]
fn rebuilds_are_cut_short_and_legs_fail() {
    let odds = Odds {
        metadata: true,
        power_cuts: 6,
        comes_back: 700,
        background: 200,
        by_hand: 100,
        read_error: 10,
        write_error: 8,
        flush_error: 8,
        silence: 50,
        unsupported: 50,
        full: 30,
        ..CALM
    };
    attack("rebuilds_are_cut_short_and_legs_fail", 120, odds, FULL);
}

#[test]
fn spares_take_over_and_power_fails() {
    let odds = Odds {
        metadata: true,
        power_cuts: 4,
        spares: 3,
        comes_back: 200,
        background: 100,
        by_hand: 150,
        read_error: 10,
        write_error: 8,
        flush_error: 8,
        silence: 50,
        ..CALM
    };
    attack("spares_take_over_and_power_fails", 100, odds, FULL);
}

#[test]
fn legs_are_replaced() {
    let odds = Odds {
        metadata: true,
        replace: 400,
        background: 100,
        ..CALM
    };
    attack("legs_are_replaced", 60, odds, FULL);
}

#[test]
fn legs_fail_while_one_is_replaced() {
    let odds = Odds {
        metadata: true,
        replace: 500,
        comes_back: 300,
        background: 100,
        by_hand: 150,
        read_error: 10,
        write_error: 8,
        flush_error: 8,
        silence: 50,
        stuck: 60,
        unsupported: 50,
        full: 20,
        ..CALM
    };
    attack("legs_fail_while_one_is_replaced", 120, odds, FULL);
}

#[test]
fn power_fails_while_a_leg_is_replaced() {
    let odds = Odds {
        metadata: true,
        power_cuts: 6,
        replace: 500,
        background: 100,
        ..CALM
    };
    attack("power_fails_while_a_leg_is_replaced", 120, odds, FULL);
}

#[test]
fn power_and_legs_fail_while_one_is_replaced() {
    let odds = Odds {
        metadata: true,
        power_cuts: 6,
        replace: 500,
        comes_back: 400,
        background: 100,
        by_hand: 100,
        read_error: 10,
        write_error: 8,
        flush_error: 8,
        silence: 50,
        stuck: 60,
        ..CALM
    };
    attack("power_and_legs_fail_while_one_is_replaced", 120, odds, FULL);
}

#[test]
fn power_fails_again_and_again() {
    let odds = Odds {
        metadata: true,
        power_cuts: 8,
        ..CALM
    };
    attack("power_fails_again_and_again", 60, odds, FULL);
}

#[test]
fn power_and_legs_fail() {
    let odds = Odds {
        metadata: true,
        power_cuts: 6,
        write_error: 8,
        flush_error: 8,
        by_hand: 10,
        silence: 50,
        unsupported: 50,
        full: 30,
        ..CALM
    };
    attack("power_and_legs_fail", 60, odds, FULL);
}

#[test]
fn power_and_reads_fail() {
    let odds = Odds {
        metadata: true,
        power_cuts: 8,
        read_error: 100,
        by_hand: 100,
        background: 200,
        ..CALM
    };
    attack("power_and_reads_fail", 60, odds, FULL);
}

#[test]
fn power_fails_while_legs_come_back() {
    let odds = Odds {
        metadata: true,
        power_cuts: 6,
        comes_back: 700,
        background: 300,
        by_hand: 300,
        silence: 20,
        ..CALM
    };
    attack("power_fails_while_legs_come_back", 60, odds, FULL);
}

#[test]
fn legs_come_back() {
    let odds = Odds {
        by_hand: 300,
        comes_back: 700,
        ..CALM
    };
    attack("legs_come_back", 300, odds, FULL);
}

#[test]
fn the_background_works_beside_clients() {
    let odds = Odds {
        background: 500,
        by_hand: 10,
        comes_back: 300,
        read_error: 5,
        unclean: 30,
        ..CALM
    };
    attack("the_background_works_beside_clients", 300, odds, FULL);
}

#[test]
fn all_goes_wrong_and_legs_come_back() {
    let odds = Odds {
        read_error: 10,
        write_error: 4,
        flush_error: 20,
        short: 2,
        by_hand: 50,
        silence: 50,
        unsupported: 50,
        full: 30,
        comes_back: 600,
        background: 300,
        unclean: 20,
        ..CALM
    };
    attack("all_goes_wrong_and_legs_come_back", 300, odds, FULL);
}

#[test]
fn memory_is_short_for_the_background_too() {
    let odds = Odds {
        by_hand: 100,
        comes_back: 700,
        background: 300,
        silence: 100,
        ..CALM
    };
    attack("memory_is_short_for_the_background_too", 4, odds, LARGE);
}

#[test]
fn blocks_go_bad() {
    let odds = Odds {
        metadata: true,
        stuck: 300,
        unsupported: 50,
        ..CALM
    };
    attack("blocks_go_bad", 100, odds, FULL);
}

#[test]
fn the_power_fails_while_blocks_go_bad() {
    let odds = Odds {
        metadata: true,
        power_cuts: 6,
        stuck: 300,
        write_error: 4,
        read_error: 20,
        ..CALM
    };
    attack("the_power_fails_while_blocks_go_bad", 100, odds, FULL);
}

#[test]
fn blocks_go_bad_and_legs_come_back() {
    let odds = Odds {
        metadata: true,
        stuck: 300,
        comes_back: 700,
        background: 400,
        read_error: 20,
        write_error: 4,
        flush_error: 8,
        by_hand: 100,
        silence: 30,
        full: 10,
        ..CALM
    };
    attack("blocks_go_bad_and_legs_come_back", 100, odds, FULL);
}

#[test]
fn mirrors_grow() {
    let odds = Odds {
        metadata: true,
        grow: 400,
        by_hand: 50,
        comes_back: 500,
        background: 200,
        read_error: 10,
        write_error: 8,
        flush_error: 8,
        silence: 20,
        unsupported: 50,
        full: 10,
        ..CALM
    };
    attack("mirrors_grow", 100, odds, FULL);
}

#[test]
fn the_power_fails_while_mirrors_grow() {
    let odds = Odds {
        metadata: true,
        power_cuts: 6,
        grow: 500,
        replace: 100,
        comes_back: 400,
        by_hand: 50,
        write_error: 4,
        flush_error: 4,
        ..CALM
    };
    attack("the_power_fails_while_mirrors_grow", 100, odds, FULL);
}
