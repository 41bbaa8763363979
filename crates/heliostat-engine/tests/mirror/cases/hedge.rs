//! Reads that are late and sent to a second leg, step by step.

use heliostat_engine::{FaultReason, HedgeFigures};
use heliostat_types::{Duration, ErrorKind, Extent, LegId, OpKind};

use super::{MIB, answer, at_leg, block, blocks, end, legs_with, write_under_way};
use crate::policies::{Hedging, Prefetching};
use crate::world::{Outcome, Reply, Setup, World};

const IO: Outcome = Outcome::Bad(ErrorKind::Io);
const LATE: Duration = Duration::from_ms(1);
const HEDGING: Hedging = Hedging {
    after: LATE,
    halves: false,
};

/// Reads go to the first leg, and after a millisecond to the last one as well.
fn hedging(legs: usize) -> World {
    hedging_at_most(legs, 1000)
}

fn hedging_at_most(legs: usize, hedges_permille: u64) -> World {
    let setup = Setup {
        hedges_permille,
        ..Setup::legs(legs)
    };
    World::new(setup, Box::new(HEDGING))
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
    let mut world = World::new(setup, Box::new(HEDGING));
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
        halves: false,
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
fn what_is_prefetched_at_once_is_one_read_however_small_its_readers_are() {
    let mut world = hedging_at_most(2, 250);
    let policy = Prefetching {
        runs: 1,
        run_bytes: 4096,
    };
    world.set_policy(Box::new(policy));
    world.read(blocks(0, 8));
    for _ in 0..2 {
        end(&mut world, 0, OpKind::Read, Outcome::Good);
    }
    world.set_policy(Box::new(HEDGING));
    for at in 8..16 {
        let read = world.read(block(at));
        assert!(is_read(&world, read), "{at} is there");
    }
    // That is one read, with two of these it is three, and then four.
    for (issued, refused) in [(0, 1), (0, 2), (1, 2)] {
        world.read(block(100));
        world.advance(LATE);
        world.pump();
        let figures = world.engine.hedge_figures();
        assert_eq!((figures.issued, figures.refused), (issued, refused));
    }
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

/// Each half of a read has its leg.
fn hedging_halves() -> (World, u64) {
    let mut world = hedging(2);
    world.set_policy(Box::new(Hedging {
        halves: true,
        ..HEDGING
    }));
    let read = world.read(blocks(0, 8));
    assert_eq!(legs_with(&world, OpKind::Read), [0, 1]);
    (world, read)
}

#[test]
fn what_several_legs_serve_is_put_together() {
    let (mut world, read) = hedging_halves();
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    world.advance(LATE);
    // The other half, while the leg that is late with it may still write what it likes.
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    assert!(is_read(&world, read));
    assert_eq!(world.engine.hedge_figures(), figures(1, 0, 0));
    assert_eq!(legs_with(&world, OpKind::Read), [1]);
    end(&mut world, 1, OpKind::Read, Outcome::Good);
    world.settle();
}

#[test]
fn both_halves_may_be_late() {
    let (mut world, read) = hedging_halves();
    world.advance(LATE);
    assert_eq!(legs_with(&world, OpKind::Read), [0, 1, 1, 0]);
    let second = |world: &World, leg| at_leg(world, leg, OpKind::Read)[1];
    let at = second(&world, 1);
    world.complete(at, Outcome::Good);
    assert_eq!(answer(&world, read), None);
    let at = second(&world, 0);
    world.complete(at, Outcome::Good);
    assert!(is_read(&world, read));
    assert_eq!(world.engine.hedge_figures(), figures(2, 0, 0));
    world.settle();
}

#[test]
fn a_half_that_a_second_leg_was_asked_for_may_win_beside_one_that_lost() {
    let (mut world, read) = hedging_halves();
    world.advance(LATE);
    // The first leg has its half, and the second one of it may still write.
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    assert!(is_read(&world, read));
    assert_eq!(world.engine.hedge_figures(), figures(1, 1, 0));
    assert_eq!(legs_with(&world, OpKind::Read), [1, 1]);
    world.settle();
}

/// One run is on its way that was asked for earlier, and a second leg is asked for what is wanted
/// of it, which is as late as that.
fn late_with_a_run(wanted: Extent) -> (World, u64) {
    let mut world = hedging(2);
    // What a hedge is saved up from.
    world.read(block(100));
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    let policy = Prefetching {
        runs: 1,
        run_bytes: 4096,
    };
    world.set_policy(Box::new(policy));
    world.read(blocks(0, 8));
    let first = at_leg(&world, 0, OpKind::Read)[0];
    world.complete(first, Outcome::Good);
    world.set_policy(Box::new(HEDGING));
    assert_eq!(legs_with(&world, OpKind::Read), [0]);
    world.advance(LATE);
    let read = world.read(wanted);
    world.advance(Duration::from_us(1));
    assert!(legs_with(&world, OpKind::Read).contains(&1), "{wanted:?}");
    (world, read)
}

#[test]
fn a_second_leg_is_asked_for_what_should_have_been_prefetched() {
    for wanted in [blocks(8, 8), block(9), blocks(8, 16)] {
        let (mut world, read) = late_with_a_run(wanted);
        end(&mut world, 1, OpKind::Read, Outcome::Good);
        if wanted.end() > 16 * 512 {
            // Behind the run a leg is asked for it as for any other.
            let rest = at_leg(&world, 0, OpKind::Read)[1];
            world.complete(rest, Outcome::Good);
        }
        assert!(is_read(&world, read), "{wanted:?}");
        assert_eq!(world.engine.hedge_figures(), figures(1, 0, 0));
        end(&mut world, 0, OpKind::Read, Outcome::Good);
        world.settle();
    }
}

#[test]
fn what_is_prefetched_after_all_is_faster_than_a_second_leg() {
    let (mut world, read) = late_with_a_run(blocks(8, 8));
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    assert!(is_read(&world, read));
    assert_eq!(world.engine.hedge_figures(), figures(0, 1, 0));
    world.settle();
}

#[test]
fn what_could_not_be_prefetched_is_repaired_though_a_second_leg_was_faster() {
    // In the middle of the run, which others may want; and to its end, which nobody will.
    for wanted in [block(9), blocks(8, 8)] {
        let (mut world, read) = late_with_a_run(wanted);
        end(&mut world, 1, OpKind::Read, Outcome::Good);
        assert!(is_read(&world, read), "{wanted:?}");
        end(&mut world, 0, OpKind::Read, IO);
        world.pump();
        assert_eq!(world.engine.corrected_reads(LegId::new(0)), 8, "{wanted:?}");
        world.settle();
    }
}

#[test]
fn what_the_second_leg_cannot_read_is_repaired_though_it_was_prefetched() {
    let (mut world, read) = late_with_a_run(blocks(8, 8));
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    assert!(is_read(&world, read));
    end(&mut world, 1, OpKind::Read, IO);
    world.pump();
    assert_eq!(world.engine.corrected_reads(LegId::new(1)), 8);
    world.settle();
}

#[test]
fn a_read_that_finds_no_memory_to_be_put_together_begins_anew() {
    let setup = Setup {
        size_bytes: 32 * MIB,
        hedges_permille: 1000,
        ..Setup::legs(2)
    };
    let halves = Hedging {
        halves: true,
        ..HEDGING
    };
    let mut world = World::new(setup, Box::new(halves));
    let whole = Extent::new(0, 8 * MIB);
    let read = world.read(whole);
    world.advance(LATE);
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    // Others take all that is left.
    let quarter = Extent::new(0, MIB / 4);
    let others: Vec<u64> = (0..400).map(|_| world.read(quarter)).collect();
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    assert!(answer(&world, read).is_none());
    world.pump();
    assert!(is_read(&world, read));
    assert!(others.iter().all(|&other| is_read(&world, other)));
    world.settle();
}
