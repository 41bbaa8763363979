//! Spares that take the place of legs that are out, step by step.

use heliostat_engine::{Event, FaultReason, LegState, Missed, SpareId};
use heliostat_types::{LegId, LegSet};

use super::MIB;
use super::metadata::world;
use crate::world::World;

fn leg(index: usize) -> LegId {
    LegId::new(index)
}

fn is_added(world: &World, index: usize) -> bool {
    world.events.contains(&Event::LegAdded { leg: leg(index) })
}

#[test]
fn a_spare_takes_the_place_of_a_leg_that_is_faulted() {
    let mut world = world(3);
    world.set_rates(u64::MAX, u64::MAX);
    world.pump();
    world.add_spare(64 * MIB);
    assert_eq!(world.engine.spares().len(), 1, "it waits to be needed");
    world.fail_leg(leg(1), FaultReason::ByHand);
    assert!(!is_added(&world, 1), "not before the fault is on record");
    world.pump();
    assert!(is_added(&world, 1));
    assert!(world.engine.spares().is_empty());
    world.finish_background();
    assert_eq!(world.engine.leg_state(leg(1)), LegState::InSync);
    assert_eq!(world.believed(), LegSet::first(3));
    world.settle();
}

#[test]
fn one_spare_at_a_time_is_filled() {
    let mut world = world(4);
    world.set_rates(0, 1);
    world.pump();
    world.add_spare(64 * MIB);
    world.add_spare(64 * MIB);
    world.fail_leg(leg(3), FaultReason::ByHand);
    world.pump();
    world.fail_leg(leg(1), FaultReason::ByHand);
    world.pump();
    assert!(is_added(&world, 3) && !is_added(&world, 1));
    world.set_rates(u64::MAX, u64::MAX);
    world.finish_background();
    assert!(is_added(&world, 1));
    world.finish_background();
    assert_eq!(world.believed(), LegSet::first(4));
    world.settle();
}

#[test]
fn a_spare_that_is_too_small_is_passed_over_and_told_of() {
    let mut world = world(2);
    world.set_rates(u64::MAX, u64::MAX);
    world.pump();
    world.add_spare(512);
    world.fail_leg(leg(1), FaultReason::ByHand);
    world.pump();
    let told = Event::NoSpareFits { leg: leg(1) };
    assert_eq!(
        world.events.iter().filter(|event| **event == told).count(),
        1
    );
    assert!(!is_added(&world, 1));
    world.add_spare(64 * MIB);
    assert!(is_added(&world, 1), "the next one fits");
    world.finish_background();
    assert_eq!(world.engine.spares().len(), 1, "the small one");
    world.settle();
}

#[test]
fn a_spare_that_cannot_be_put_in_place_is_none_and_the_next_one_is_taken() {
    let mut world = world(2);
    world.set_rates(u64::MAX, u64::MAX);
    world.pump();
    world.broken_spares.push(SpareId(1));
    world.add_spare(64 * MIB);
    world.add_spare(64 * MIB);
    world.fail_leg(leg(0), FaultReason::ByHand);
    world.pump();
    assert!(is_added(&world, 0));
    assert!(world.engine.spares().is_empty());
    world.finish_background();
    world.settle();
}

#[test]
fn a_leg_that_is_brought_back_keeps_its_place() {
    let mut world = world(2);
    world.set_rates(u64::MAX, u64::MAX);
    world.pump();
    world.fail_leg(leg(1), FaultReason::ByHand);
    world.pump();
    assert!(world.add_leg(leg(1), None, Missed::From(0)));
    world.add_spare(64 * MIB);
    world.finish_background();
    assert_eq!(world.engine.spares().len(), 1, "nobody needs it");
    world.settle();
}
