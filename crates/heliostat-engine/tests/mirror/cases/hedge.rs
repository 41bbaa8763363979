//! Reads that are late and sent to a second leg, step by step.

use heliostat_engine::{FaultReason, HedgeFigures};
use heliostat_types::{Duration, ErrorKind, LegId, OpKind};

use super::{answer, at_leg, block, blocks, end, legs_with, write_under_way};
use crate::policies::{Hedging, Split};
use crate::world::{Outcome, Reply, Setup, World};

const IO: Outcome = Outcome::Bad(ErrorKind::Io);
const LATE: Duration = Duration::from_ms(1);

/// Reads go to the first leg, and after a millisecond to the last one as well.
fn hedging(legs: usize) -> World {
    hedging_at_most(legs, 1000)
}

fn hedging_at_most(legs: usize, hedges_permille: u64) -> World {
    let setup = Setup {
        hedges_permille,
        ..Setup::legs(legs)
    };
    World::new(setup, Box::new(Hedging { after: LATE }))
}

fn is_read(world: &World, request: u64) -> bool {
    matches!(answer(world, request), Some(Ok(Reply::Data(_))))
}

fn figures(won: u64, wasted: u64, refused: u64) -> HedgeFigures {
    HedgeFigures {
        issued: won + wasted,
        won,
        wasted,
        refused,
    }
}

#[test]
fn the_second_leg_serves_what_the_first_is_late_with() {
    let mut world = hedging(2);
    let read = world.read(block(3));
    assert_eq!(legs_with(&world, OpKind::Read), [0]);
    world.advance(LATE);
    assert_eq!(legs_with(&world, OpKind::Read), [0, 1]);
    end(&mut world, 1, OpKind::Read, Outcome::Good);
    assert!(is_read(&world, read));
    assert_eq!(world.engine.hedge_figures(), figures(1, 0, 0));
    // The first may write into what it was given for as long as it likes.
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    assert_eq!(world.in_sync(), [0, 1]);
    world.settle();
}

#[test]
fn the_first_leg_serves_it_if_it_is_faster_after_all() {
    let mut world = hedging(3);
    let read = world.read(block(3));
    world.advance(LATE);
    assert_eq!(legs_with(&world, OpKind::Read), [0, 2]);
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    assert!(is_read(&world, read));
    end(&mut world, 2, OpKind::Read, Outcome::Good);
    assert_eq!(world.engine.hedge_figures(), figures(0, 1, 0));
    assert_eq!(world.engine.next_deadline(), None);
    world.settle();
}

#[test]
fn an_answered_read_wakes_nobody() {
    let mut world = hedging(2);
    world.read(block(3));
    world.read(block(4));
    assert!(world.engine.next_deadline().is_some());
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    assert_eq!(world.engine.next_deadline(), None);
    world.settle();
}

#[test]
fn what_waits_in_front_of_the_leg_is_taken_back() {
    let mut setup = Setup::legs(2);
    setup.hedges_permille = 1000;
    setup.legs[0].queue_depth = 1;
    let mut world = World::new(setup, Box::new(Hedging { after: LATE }));
    world.read(block(3));
    let second = world.read(block(4));
    world.advance(LATE);
    assert_eq!(legs_with(&world, OpKind::Read), [0, 1, 1]);
    let of_second = at_leg(&world, 1, OpKind::Read)[1];
    world.complete(of_second, Outcome::Good);
    assert!(is_read(&world, second));
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    assert_eq!(at_leg(&world, 0, OpKind::Read), [0; 0]);
    world.settle();
}

#[test]
fn legs_may_differ_while_a_write_is_under_way() {
    let mut world = hedging(2);
    world.read(block(3));
    write_under_way(&mut world, block(3));
    world.advance(LATE);
    assert_eq!(legs_with(&world, OpKind::Read), [0]);
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    end(&mut world, 1, OpKind::Write, Outcome::Good);
    // It is looked at again when it is twice as late.
    world.advance(LATE);
    assert_eq!(legs_with(&world, OpKind::Read), [0, 1]);
    world.settle();
}

#[test]
fn a_read_that_is_late_at_once_is_looked_at_once() {
    let mut world = hedging(2);
    world.set_policy(Box::new(Hedging {
        after: Duration::ZERO,
    }));
    write_under_way(&mut world, block(3));
    let read = world.read(block(3));
    // Legs may differ, so it is to be looked at again when it is twice as late.
    world.advance(Duration::ZERO);
    world.advance(LATE);
    assert_eq!(legs_with(&world, OpKind::Read), [0]);
    world.pump();
    assert!(is_read(&world, read));
    world.settle();
}

#[test]
fn an_answer_from_another_leg_than_reads_have_seen_is_not_shown() {
    let mut world = hedging(2);
    let first = world.read(block(3));
    world.advance(LATE);
    assert_eq!(legs_with(&world, OpKind::Read), [0, 1]);
    write_under_way(&mut world, block(3));
    // This one is shown what the first leg has, so the other leg may not show what it has.
    let second = world.read(block(3));
    let of_second = at_leg(&world, 0, OpKind::Read)[1];
    world.complete(of_second, Outcome::Good);
    assert!(is_read(&world, second));
    end(&mut world, 1, OpKind::Read, Outcome::Good);
    assert_eq!(answer(&world, first), None);
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    assert!(is_read(&world, first));
    assert_eq!(world.engine.hedge_figures(), figures(0, 1, 0));
    world.settle();
}

#[test]
fn what_the_second_leg_cannot_read_is_repaired() {
    let mut world = hedging(2);
    let read = world.read(block(3));
    world.advance(LATE);
    end(&mut world, 1, OpKind::Read, IO);
    assert_eq!(answer(&world, read), None);
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    assert!(is_read(&world, read));
    world.pump();
    assert_eq!(world.engine.corrected_reads(LegId::new(1)), 1);
    world.settle();
}

#[test]
fn what_the_first_leg_cannot_read_is_repaired_though_the_second_was_faster() {
    let mut world = hedging(2);
    let read = world.read(block(3));
    world.advance(LATE);
    end(&mut world, 1, OpKind::Read, Outcome::Good);
    assert!(is_read(&world, read));
    end(&mut world, 0, OpKind::Read, IO);
    world.pump();
    assert_eq!(world.engine.corrected_reads(LegId::new(0)), 1);
    assert_eq!(world.engine.recent_read_errors(world.now, LegId::new(0)), 1);
    world.settle();
}

#[test]
fn a_sector_that_neither_leg_can_read_counts_once_for_each() {
    let mut world = hedging(2);
    let read = world.read(block(3));
    world.advance(LATE);
    end(&mut world, 0, OpKind::Read, IO);
    // The second leg is asked anew, with the hedge still under way.
    assert_eq!(legs_with(&world, OpKind::Read), [1, 1]);
    for _ in 0..2 {
        end(&mut world, 1, OpKind::Read, IO);
    }
    world.pump();
    assert_eq!(answer(&world, read), Some(&Err(ErrorKind::Io)));
    let errors = |leg| world.engine.recent_read_errors(world.now, LegId::new(leg));
    assert_eq!([errors(0), errors(1)], [1, 1]);
    world.settle();
}

#[test]
fn an_error_of_the_first_leg_begins_anew_with_the_rest() {
    let mut world = hedging(2);
    let read = world.read(block(3));
    world.advance(LATE);
    end(&mut world, 0, OpKind::Read, IO);
    // The hedge is nobody's any more, and the read is asked of its leg as after any error.
    assert_eq!(legs_with(&world, OpKind::Read), [1, 1]);
    end(&mut world, 1, OpKind::Read, Outcome::Good);
    assert_eq!(answer(&world, read), None);
    end(&mut world, 1, OpKind::Read, Outcome::Good);
    assert!(is_read(&world, read));
    world.settle();
}

#[test]
fn either_leg_may_fall_out() {
    for leg in 0..2 {
        let mut world = hedging(2);
        let read = world.read(block(3));
        world.advance(LATE);
        world.fail_leg(LegId::new(leg), FaultReason::ByHand);
        world.pump();
        assert!(is_read(&world, read), "leg {leg} is out");
        world.settle();
    }
}

#[test]
fn a_share_of_all_reads_is_sent_twice_and_no_more() {
    let mut world = hedging_at_most(2, 30);
    for _ in 0..1000 {
        world.read(block(3));
        world.advance(LATE);
        world.pump();
    }
    let HedgeFigures {
        issued, refused, ..
    } = world.engine.hedge_figures();
    assert_eq!((issued, refused), (30, 970));
    world.settle();
}

#[test]
fn none_are_sent_where_there_may_be_none() {
    let mut world = hedging_at_most(2, 0);
    world.read(block(3));
    world.advance(LATE);
    assert_eq!(legs_with(&world, OpKind::Read), [0]);
    assert_eq!(world.engine.hedge_figures(), figures(0, 0, 1));
    world.settle();
}

#[test]
fn a_single_leg_has_no_second() {
    let mut world = hedging(1);
    world.read(block(3));
    world.advance(LATE);
    assert_eq!(legs_with(&world, OpKind::Read), [0]);
    world.settle();
}

#[test]
fn what_several_legs_serve_is_waited_for() {
    let mut world = hedging(2);
    world.set_policy(Box::new(Split));
    world.read(blocks(0, 8));
    world.set_policy(Box::new(Hedging { after: LATE }));
    let before = legs_with(&world, OpKind::Read).len();
    world.advance(LATE);
    assert_eq!(legs_with(&world, OpKind::Read).len(), before);
    world.settle();
}
