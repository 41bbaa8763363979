//! Writes that are under way while a new leg is given its role.

use heliostat_engine::{CopyOrder, FaultReason, Layout, LegOp, Map, Raid10};
use heliostat_types::{Duration, ErrorKind, Extent, LegId, OpKind};

use super::super::{DONE, answer};
use super::{CHUNK, IO, finish, leg, set_of, slow_mirror, with_room};
use crate::policies::First;
use crate::world::{Outcome, Reply, World};

/// While legs differ, reads go to one leg, which may be the one that is replaced: until they do
/// not, that one stays, unless the commit that has the roles change hands is on its way.
#[test]
fn a_write_that_no_leg_has_room_for_may_end_at_any_moment_of_a_handover() {
    let (mut early, mut late) = (0, 0);
    for steps in 0..30 {
        let mut world = slow_mirror(2);
        let extent = Extent::new(0, CHUNK);
        world.write(extent);
        world.pump();
        world.replace(leg(0));
        world.pump();
        let end = |_: LegId| Outcome::Bad(ErrorKind::NoSpace);
        let (write, is_late) = write_during_handover(&mut world, extent, 2, steps, end);
        while answer(&world, write).is_none() {
            assert!(world.pump_one(), "{steps}");
        }
        assert_eq!(
            answer(&world, write),
            Some(&Err(ErrorKind::NoSpace)),
            "{steps}"
        );
        let seen = bytes_of(&mut world, extent);
        finish(&mut world);
        assert_eq!(world.engine.in_sync(), set_of(&[1, 2]), "{steps}");
        if is_late {
            late += 1;
        } else {
            early += 1;
        }
        assert!(bytes_of(&mut world, extent) == seen, "{steps}");
        world.settle();
    }
    assert!(early > 3 && late > 3, "{early}, {late}");
}

/// A new leg has everything, and while it is given its role a write is under way: its operations
/// end so after so many steps of the others. The write, and whether the commit had begun that gives
/// the new leg the role.
fn write_during_handover(
    world: &mut World,
    extent: Extent,
    by: usize,
    steps: usize,
    end: impl Fn(LegId) -> Outcome,
) -> (u64, bool) {
    world.set_rates(u64::MAX, u64::MAX);
    while world.engine.missing_bytes(leg(by)) != Some(0) {
        if !world.pump_one() {
            let deadline = world.engine.next_deadline().expect("it goes on");
            world.now = world.now.max(deadline);
            world.tell_deadline();
        }
    }
    let events = events_on(world, by);
    let write = world.write(extent);
    let is_its = |world: &World, op: &LegOp| op.kind == OpKind::Write && !world.is_metadata(op);
    for _ in 0..steps {
        let others = world.find(|pending| !is_its(world, &pending.op));
        if let Some(&at) = others.first() {
            world.complete(at, Outcome::Good);
        }
    }
    // When the commit that is on its way is over, the next one gives the new leg the role.
    let is_late = events_on(world, by) > events;
    while let Some(&at) = world.find(|pending| is_its(world, &pending.op)).first() {
        let outcome = end(world.pending[at].op.leg);
        world.complete(at, outcome);
    }
    (write, is_late)
}

/// The same where a leg has failed a write and stays, because other chunks are on it alone: the new
/// leg is read where the old one was, and not the one that lacks what was written.
#[test]
fn a_write_that_a_leg_fails_which_must_stay_is_read_from_the_new_leg_as_from_the_old_one() {
    let layout = Layout::Raid10(Raid10 {
        order: CopyOrder::Near,
        copies: 2,
        chunk_bytes: CHUNK,
    });
    let mut late = 0;
    for steps in 0..40 {
        let setup = with_room(Map::for_size(layout, 3, 128 * CHUNK).unwrap(), 3);
        let mut world = World::new(setup, Box::new(First));
        world.pump();
        world.fail_leg(leg(2), FaultReason::ByHand);
        world.pump();
        world.set_rates(0, 1);
        // The first chunk is on legs 0 and 1, and other chunks are on leg 1 alone.
        let extent = Extent::new(0, CHUNK);
        world.write(extent);
        world.pump();
        assert!(world.replace(leg(0)));
        world.pump();
        let end = |at: LegId| if at == leg(1) { IO } else { Outcome::Good };
        let (write, is_late) = write_during_handover(&mut world, extent, 3, steps, end);
        late += u32::from(is_late);
        let seen = bytes_of(&mut world, extent);
        while answer(&world, write).is_none() {
            assert!(world.pump_one(), "{steps}");
        }
        assert_eq!(answer(&world, write), Some(&Err(ErrorKind::Io)), "{steps}");
        finish(&mut world);
        assert_eq!(world.engine.in_sync(), set_of(&[1, 3]), "{steps}");
        assert!(bytes_of(&mut world, extent) == seen, "{steps}");
        world.settle();
    }
    assert!(late > 3, "{late}");
}

/// Only who may see something else after a handover waits for it.
#[test]
fn other_writes_are_answered_during_a_handover() {
    let mut late = 0;
    for steps in 0..30 {
        let mut world = slow_mirror(2);
        let extents = [Extent::new(0, CHUNK), Extent::new(CHUNK, CHUNK)];
        for extent in extents {
            world.write(extent);
        }
        world.pump();
        world.replace(leg(0));
        world.pump();
        let full = |_: LegId| Outcome::Bad(ErrorKind::NoSpace);
        let (first, is_late) = write_during_handover(&mut world, extents[0], 2, steps, full);
        if is_late && answer(&world, first).is_none() {
            late += 1;
            let other = world.write(extents[1]);
            let of_other = |world: &World| {
                world.find(|pending| {
                    pending.op.kind == OpKind::Write && !world.is_metadata(&pending.op)
                })
            };
            while let Some(&at) = of_other(&world).first() {
                world.complete(at, Outcome::Good);
            }
            assert_eq!(answer(&world, other), DONE, "{steps}");
            assert_eq!(answer(&world, first), None, "{steps}");
        }
        finish(&mut world);
        world.settle();
    }
    assert!(late > 3, "{late}");
}

/// One leg was left beside the new one: with the handover nothing differs any more.
#[test]
fn the_array_is_clean_after_a_handover_that_ends_what_differed() {
    let mut late = 0;
    for steps in 0..30 {
        let mut world = slow_mirror(2);
        world.fail_leg(leg(1), FaultReason::ByHand);
        world.pump();
        let extent = Extent::new(0, CHUNK);
        world.write(extent);
        world.pump();
        world.replace(leg(0));
        world.pump();
        let full = |_: LegId| Outcome::Bad(ErrorKind::NoSpace);
        let (write, _) = write_during_handover(&mut world, extent, 2, steps, full);
        if answer(&world, write).is_none() && world.engine.divergent().next().is_some() {
            late += 1;
            // The commit takes a second.
            world.advance(Duration::from_secs(1));
            world.pump();
            for _ in 0..10 {
                world.advance(Duration::from_secs(1));
                world.pump();
            }
            assert_eq!(world.engine.in_sync(), set_of(&[2]), "{steps}");
            assert!(!world.engine.record().dirty, "{steps}");
        }
        finish(&mut world);
        world.settle();
    }
    assert!(late > 1, "{late}");
}

fn events_on(world: &World, index: usize) -> u64 {
    let superblock = world.superblock_on(leg(index));
    superblock.expect("it has one").events
}

fn bytes_of(world: &mut World, extent: Extent) -> Vec<u8> {
    let read = world.read(extent);
    world.pump_operations();
    match answer(world, read) {
        Some(Ok(Reply::Data(bytes))) => bytes.clone(),
        other => panic!("{other:?}"),
    }
}
