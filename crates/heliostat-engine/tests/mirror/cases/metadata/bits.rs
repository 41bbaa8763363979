//! Bits of the bitmap and who may clear them, step by step.

use heliostat_engine::{FaultReason, Missed};
use heliostat_types::{Duration, LegId, OpKind};

use super::super::at_leg;
use super::{chunk, world};

#[test]
fn a_leg_that_is_lost_while_bits_are_to_be_cleared_comes_back_by_the_bitmap() {
    let mut world = world(2);
    world.write(chunk(1));
    world.pump();
    world.advance(Duration::from_secs(1));
    world.pump();
    assert!(!world.engine.record().dirty);
    // Idle twice: the legs are flushed, so that the bit may go.
    world.advance(Duration::from_secs(6));
    world.pump();
    world.advance(Duration::from_secs(6));
    assert_eq!(at_leg(&world, 1, OpKind::Flush).len(), 1);
    let back = LegId::new(1);
    world.fail_leg(back, FaultReason::ByHand);
    world.pump();
    let known = world.engine.known_since().expect("there is a bitmap");
    let superblock = world.superblock_on(back).unwrap();
    assert!(known <= superblock.events);
    let by_bits = Missed::Bits {
        from: 0,
        all_from: None,
    };
    assert_eq!(world.engine.missed_by(&superblock), by_bits);
    world.settle();
}
