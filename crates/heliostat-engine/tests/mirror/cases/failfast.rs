//! Legs that are out at their first error, step by step.

use heliostat_engine::{Event, FaultReason, Input, LegConfig};
use heliostat_types::{Duration, ErrorKind, Extent, LegId, OpKind};

use super::{DONE, answer, at_leg, block, end, legs_with, with_legs, write_under_way};
use crate::policies::{First, Last};
use crate::world::{LEG, Outcome, Reply, Setup, World};

const IO: Outcome = Outcome::Bad(ErrorKind::Io);
const FAST: LegConfig = LegConfig {
    failfast: true,
    ..LEG
};

/// Whether what a leg has is marked as better failed than late.
fn marks(world: &World, leg: usize) -> Vec<bool> {
    let at_leg = world.find(|pending| pending.op.leg.index() == leg);
    let marks = at_leg.into_iter();
    marks.map(|at| world.pending[at].op.failfast).collect()
}

#[test]
fn the_first_failed_read_takes_it_out_and_nothing_is_mended() {
    let mut world = with_legs(&[FAST, LEG]);
    let read = world.read(block(0));
    assert_eq!(marks(&world, 0), [true]);
    end(&mut world, 0, OpKind::Read, IO);
    assert_eq!(world.in_sync(), [1]);
    let fault = Event::LegFaulted {
        leg: LegId::new(0),
        reason: FaultReason::ReadFailed(ErrorKind::Io),
    };
    assert!(world.events.contains(&fault));
    end(&mut world, 1, OpKind::Read, Outcome::Good);
    assert!(matches!(answer(&world, read), Some(Ok(Reply::Data(_)))));
    assert!(legs_with(&world, OpKind::Write).is_empty());
    world.settle();
}

#[test]
fn the_last_leg_fails_as_late_as_any_other() {
    let mut world = with_legs(&[FAST, FAST]);
    world.fail_leg(LegId::new(0), FaultReason::ByHand);
    world.pump();
    let read = world.read(block(0));
    assert_eq!(marks(&world, 1), [false]);
    end(&mut world, 1, OpKind::Read, IO);
    assert_eq!(answer(&world, read), Some(&Err(ErrorKind::Io)));
    assert_eq!(world.in_sync(), [1]);
    let is_told = |event: &Event| matches!(event, Event::LastLegKept { .. });
    assert!(!world.events.iter().any(is_told), "one error is no reason");
    world.settle();
}

#[test]
fn a_write_mostly_leg_may_take_its_time_to_write() {
    let slow = LegConfig {
        write_mostly: true,
        ..FAST
    };
    let mut world = with_legs(&[FAST, slow, LEG]);
    let write = write_under_way(&mut world, block(0));
    assert_eq!(marks(&world, 0), [true]);
    assert_eq!(marks(&world, 1), [false]);
    assert_eq!(marks(&world, 2), [false]);
    world.pump();
    assert_eq!(answer(&world, write), DONE);
    world.settle();
}

#[test]
fn it_is_silent_for_too_long_sooner_than_others() {
    let setup = Setup {
        legs: vec![LEG, FAST, LEG],
        ..Setup::legs(1)
    };
    let mut world = World::new(setup, Box::new(Last));
    write_under_way(&mut world, block(0));
    for leg in &mut world.legs {
        leg.silent = true;
    }
    world.advance(Duration::from_ms(4_900));
    assert_eq!(world.in_sync(), [0, 1, 2]);
    world.advance(Duration::from_ms(200));
    assert_eq!(world.in_sync(), [0, 2]);
    world.advance(Duration::from_secs(29));
    assert_eq!(world.in_sync(), [0, 2], "they have all their time");
    world.settle();
}

#[test]
fn a_scrub_does_not_look_for_the_sector_that_it_cannot_read() {
    let setup = Setup {
        legs: vec![LEG, FAST],
        size_bytes: 4 << 20,
        ..Setup::legs(1)
    };
    let mut world = World::new(setup, Box::new(First));
    world.input(Input::StartScrub { repair: false });
    let found = at_leg(&world, 1, OpKind::Read);
    let extent: Extent = world.pending[found[0]].op.extent;
    assert!(extent.len() > 4096);
    world.complete(found[0], IO);
    assert_eq!(world.in_sync(), [0]);
    world.settle();
}
