//! What a review by hand found, each once more.

use heliostat_engine::LegConfig;
use heliostat_types::{ErrorKind, Extent, OpKind};

use super::{
    DONE, answer, at_leg, block, blocks, deliver_all, end, legs_with, rotating, with_legs, world,
    write_under_way,
};
use crate::policies::{First, Last};
use crate::world::{LEG, Outcome, Reply, World};

const IO: Outcome = Outcome::Bad(ErrorKind::Io);
const FULL: Outcome = Outcome::Bad(ErrorKind::NoSpace);
const UNSUPPORTED: Outcome = Outcome::Bad(ErrorKind::NotSupported);

/// A write that both legs are too full for.
fn full_on_both(world: &mut World, extent: Extent) {
    let write = write_under_way(world, extent);
    for leg in [0, 1] {
        end(world, leg, OpKind::Write, FULL);
    }
    assert_eq!(answer(world, write), Some(&Err(ErrorKind::NoSpace)));
}

#[test]
fn full_legs_stay_however_many_writes_fail() {
    let mut world = rotating(2);
    for round in 0..20 {
        for at in 0..60 {
            full_on_both(&mut world, block(2 * at + round % 2));
        }
    }
    assert_eq!(world.in_sync(), [0, 1]);
    let again = world.write(blocks(0, 128));
    world.pump();
    assert_eq!(answer(&world, again), DONE);
    world.settle();
    assert!(!world.engine.record().dirty);
}

#[test]
fn each_range_that_differs_keeps_the_leg_that_its_reads_have_seen() {
    let mut world = world(2);
    full_on_both(&mut world, blocks(0, 8));
    // The reads of the second range see the other leg while it is being written.
    let second = write_under_way(&mut world, blocks(8, 8));
    world.set_policy(Box::new(Last));
    let beside = world.read(blocks(8, 8));
    assert_eq!(legs_with(&world, OpKind::Read), [1]);
    end(&mut world, 1, OpKind::Read, Outcome::Good);
    assert!(matches!(answer(&world, beside), Some(Ok(Reply::Data(_)))));
    // One that spans both has no one leg to go to before the write ends.
    let across = world.read(blocks(4, 8));
    assert_eq!(legs_with(&world, OpKind::Read), [0; 0]);
    for leg in [0, 1] {
        end(&mut world, leg, OpKind::Write, FULL);
    }
    assert_eq!(answer(&world, second), Some(&Err(ErrorKind::NoSpace)));
    let mut legs = legs_with(&world, OpKind::Read);
    legs.sort_unstable();
    assert_eq!(legs, [0, 1], "cut in two at the border");
    world.pump();
    assert!(matches!(answer(&world, across), Some(Ok(Reply::Data(_)))));
    // A read error in one range does not move the pin of the other.
    let first = world.read(blocks(0, 8));
    end(&mut world, 0, OpKind::Read, IO);
    assert_eq!(legs_with(&world, OpKind::Read), [1]);
    world.pump();
    assert!(matches!(answer(&world, first), Some(Ok(Reply::Data(_)))));
    world.set_policy(Box::new(First));
    for (range, leg) in [(blocks(0, 8), 1), (blocks(8, 8), 1)] {
        world.read(range);
        assert_eq!(legs_with(&world, OpKind::Read), [leg]);
        world.pump();
    }
    world.settle();
}

#[test]
fn a_leg_that_failed_a_write_under_way_is_not_read_there() {
    let mut world = world(2);
    let write = write_under_way(&mut world, blocks(0, 8));
    end(&mut world, 0, OpKind::Write, IO);
    let read = world.read(block(3));
    assert_eq!(legs_with(&world, OpKind::Read), [1]);
    let elsewhere = world.read(block(30));
    assert_eq!(
        at_leg(&world, 0, OpKind::Read).len(),
        1,
        "elsewhere it may be read"
    );
    world.pump();
    assert_eq!(answer(&world, write), DONE);
    for request in [read, elsewhere] {
        assert!(matches!(answer(&world, request), Some(Ok(Reply::Data(_)))));
    }
    world.settle();
    assert_eq!(world.in_sync(), [1]);
}

#[test]
fn the_full_leg_is_kept_and_the_broken_one_is_out() {
    let mut world = world(2);
    let write = write_under_way(&mut world, blocks(0, 8));
    end(&mut world, 0, OpKind::Write, IO);
    end(&mut world, 1, OpKind::Write, FULL);
    deliver_all(&mut world);
    assert_eq!(answer(&world, write), Some(&Err(ErrorKind::NoSpace)));
    assert_eq!(world.in_sync(), [1]);
    world.settle();
}

#[test]
fn what_a_leg_cannot_do_is_done_in_another_way() {
    let mut world = with_legs(&[LEG, LEG]);
    let write = world.write_fua(block(0));
    deliver_all(&mut world);
    end(&mut world, 0, OpKind::Write, UNSUPPORTED);
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    assert_eq!(legs_with(&world, OpKind::Flush), [0]);
    end(&mut world, 0, OpKind::Flush, UNSUPPORTED);
    end(&mut world, 1, OpKind::Write, Outcome::Good);
    assert_eq!(answer(&world, write), DONE);
    world.settle();
    assert_eq!(world.in_sync(), [0, 1]);
}

#[test]
fn no_flush_is_done_after_the_last_leg_has_failed_one() {
    let mut world = world(1);
    world.write(block(0));
    world.pump();
    let failed = world.flush();
    end(&mut world, 0, OpKind::Flush, IO);
    let later = world.flush();
    end(&mut world, 0, OpKind::Flush, Outcome::Good);
    for flush in [failed, later] {
        assert_eq!(answer(&world, flush), Some(&Err(ErrorKind::Io)));
    }
    assert!(world.engine.record().dirty);
}

#[test]
fn a_trim_that_fails_costs_no_leg() {
    let mut world = with_legs(&[LEG, LegConfig { fua: false, ..LEG }]);
    let trim = world.trim(blocks(0, 8), false);
    deliver_all(&mut world);
    for leg in [0, 1] {
        end(&mut world, leg, OpKind::Trim, IO);
    }
    end(&mut world, 1, OpKind::WriteZeroes, IO);
    assert_eq!(legs_with(&world, OpKind::Write), [1]);
    world.pump();
    assert_eq!(answer(&world, trim), DONE);
    world.settle();
    assert_eq!(world.in_sync(), [0, 1]);
}

/// Legs that flush after a write with FUA.
fn without_fua(count: usize) -> World {
    with_legs(&vec![LegConfig { fua: false, ..LEG }; count])
}

#[test]
fn a_flush_does_not_bring_back_what_a_failed_one_has_lost() {
    let mut world = without_fua(2);
    write_under_way(&mut world, blocks(0, 8));
    world.pump();
    // Leg 0 fails the flush of a write that leg 1 has not done yet.
    let allocated = world.alloc(blocks(16, 8)).expect("there is memory");
    let write = world.send(allocated, true);
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    end(&mut world, 0, OpKind::Flush, IO);
    let flush = world.flush();
    for leg in [0, 1] {
        end(&mut world, leg, OpKind::Flush, Outcome::Good);
    }
    assert!(answer(&world, flush).is_none(), "leg 0 is not out durably");
    assert_eq!(world.in_sync(), [1]);
    deliver_all(&mut world);
    assert_eq!(answer(&world, flush), DONE);
    world.pump();
    assert_eq!(answer(&world, write), DONE);
    world.settle();
}

#[test]
fn a_write_that_a_failed_flush_may_have_lost_does_not_rely_on_the_next_one() {
    let mut world = without_fua(2);
    let mut writes = Vec::new();
    for at in [0, 16] {
        let allocated = world.alloc(blocks(at, 8)).expect("there is memory");
        writes.push(world.send(allocated, true));
        deliver_all(&mut world);
        end(&mut world, 0, OpKind::Write, Outcome::Good);
    }
    end(&mut world, 0, OpKind::Flush, IO);
    end(&mut world, 0, OpKind::Flush, Outcome::Good);
    // The second one is done on leg 1; the first one is not.
    let second = at_leg(&world, 1, OpKind::Write)[1];
    world.complete(second, Outcome::Good);
    end(&mut world, 1, OpKind::Flush, Outcome::Good);
    assert!(answer(&world, writes[1]).is_none(), "it is lost on leg 0");
    assert_eq!(world.in_sync(), [1]);
    world.pump();
    for write in writes {
        assert_eq!(answer(&world, write), DONE);
    }
    world.settle();
}

#[test]
fn a_leg_that_is_full_after_it_has_failed_is_one_that_has_failed() {
    for first in [OpKind::Flush, OpKind::Write] {
        let mut world = without_fua(1);
        write_under_way(&mut world, blocks(0, 8));
        world.pump();
        // Two edges, which are writes of their own, and what lies between.
        let zeroes = world.zeroes(Extent::new(100, 3000), true, false, false);
        while at_leg(&world, 0, OpKind::WriteZeroes).is_empty() {
            end(&mut world, 0, OpKind::Read, Outcome::Good);
        }
        if first == OpKind::Flush {
            end(&mut world, 0, OpKind::Write, Outcome::Good);
        }
        end(&mut world, 0, first, IO);
        end(&mut world, 0, OpKind::Write, FULL);
        world.pump();
        assert_eq!(answer(&world, zeroes), Some(&Err(ErrorKind::Io)));
        let flush = world.flush();
        world.pump();
        let lost = Some(&Err(ErrorKind::Io));
        let told = if first == OpKind::Flush { lost } else { DONE };
        assert_eq!(answer(&world, flush), told);
    }
}
