//! What is said of a leg while it serves, step by step.

use heliostat_engine::{Event, FaultReason, FlagsRefusal, Input, LegFlags};
use heliostat_format::DeviceFlags;
use heliostat_types::{ErrorKind, Extent, LegId, LegSet, OpKind};

use super::metadata::{chunk, end_commits, new_world, setup, world};
use super::{DONE, answer, at_leg, end, legs_with};
use crate::policies::First;
use crate::world::{Outcome, World};

const IO: Outcome = Outcome::Bad(ErrorKind::Io);
const NONE: LegFlags = LegFlags {
    write_mostly: false,
    failfast: false,
};
const SLOW: LegFlags = LegFlags {
    write_mostly: true,
    ..NONE
};
const FAST: LegFlags = LegFlags {
    failfast: true,
    ..NONE
};

fn leg(index: usize) -> LegId {
    LegId::new(index)
}

/// Leg 1 of two may be behind if it is write-mostly, as it is where that is said. The record is
/// dirty, and the bits of the first chunks are set.
fn behind(flags: LegFlags) -> World {
    let mut setup = setup(2, 16);
    setup.write_behind = 8;
    setup.legs[1].write_mostly = flags.write_mostly;
    let mut world = new_world(setup);
    for number in 0..4 {
        world.write(chunk(number));
    }
    world.pump();
    world
}

fn set(world: &mut World, index: usize, flags: LegFlags) {
    let leg = leg(index);
    assert_eq!(world.engine.flags_refusal(leg, flags), None);
    world.set_flags(leg, flags);
}

fn said(world: &World, index: usize) -> DeviceFlags {
    world.superblock_on(leg(index)).unwrap().device_flags
}

fn is_done(world: &World, index: usize, flags: LegFlags) -> bool {
    let leg = leg(index);
    world.events.contains(&Event::FlagsSet { leg, flags })
}

/// Whether a write is answered that leg 1 does not have yet.
fn goes_behind(world: &mut World, extent: Extent) -> bool {
    let write = world.write(extent);
    end(world, 0, OpKind::Write, Outcome::Good);
    answer(world, write) == DONE
}

#[test]
fn a_leg_is_behind_only_when_its_superblock_says_that_it_may_be() {
    let mut world = behind(NONE);
    set(&mut world, 1, SLOW);
    assert!(!world.engine.is_write_mostly(leg(1)));
    // While that is on its way to be durable.
    let write = world.write(chunk(0));
    let data = at_leg(&world, 0, OpKind::Write);
    let data = data.into_iter().find(|&at| {
        let op = world.pending[at].op;
        !world.is_metadata(&op)
    });
    world.complete(data.unwrap(), Outcome::Good);
    assert_eq!(answer(&world, write), None);
    end_commits(&mut world);
    assert!(is_done(&world, 1, SLOW) && world.engine.is_write_mostly(leg(1)));
    assert_eq!(said(&world, 1), DeviceFlags::WRITE_MOSTLY);
    assert_eq!(said(&world, 0), DeviceFlags::default());
    world.pump();
    assert!(goes_behind(&mut world, chunk(1)));
    world.settle();
}

#[test]
fn a_leg_says_that_it_is_never_behind_when_it_is_behind_no_more() {
    let mut world = behind(SLOW);
    assert!(goes_behind(&mut world, chunk(0)));
    set(&mut world, 1, NONE);
    assert_eq!(world.engine.leg_being_told(), Some(leg(1)));
    // From now on writes wait for it, and reads keep away from it.
    assert!(!goes_behind(&mut world, chunk(1)));
    world.read(chunk(0));
    assert_eq!(legs_with(&world, OpKind::Read), [0]);
    end_commits(&mut world);
    assert_eq!(
        said(&world, 1),
        DeviceFlags::WRITE_MOSTLY,
        "until it has all"
    );
    end(&mut world, 1, OpKind::Write, Outcome::Good);
    end_commits(&mut world);
    assert!(is_done(&world, 1, NONE) && !world.engine.is_write_mostly(leg(1)));
    assert_eq!(said(&world, 1), DeviceFlags::default());
    world.settle();
}

#[test]
fn nothing_is_behind_for_a_leg_that_a_start_might_believe_last() {
    // What only leg 0 has may be behind on leg 1 no more before leg 0 says that it is last.
    let mut world = behind(SLOW);
    assert!(goes_behind(&mut world, chunk(0)));
    set(&mut world, 0, SLOW);
    end_commits(&mut world);
    assert_eq!(
        said(&world, 0),
        DeviceFlags::default(),
        "until leg 1 has all"
    );
    assert!(!goes_behind(&mut world, chunk(1)));
    world.pump();
    assert_eq!(said(&world, 0), DeviceFlags::WRITE_MOSTLY);
    // And may be again only when leg 0 has said that it is not.
    set(&mut world, 0, NONE);
    let write = world.write(chunk(2));
    let data = at_leg(&world, 0, OpKind::Write).into_iter();
    let mut data = data.filter(|&at| !world.is_metadata(&world.pending[at].op));
    let at = data.next().unwrap();
    world.complete(at, Outcome::Good);
    assert_eq!(answer(&world, write), None);
    end_commits(&mut world);
    assert!(is_done(&world, 0, NONE));
    world.pump();
    assert!(goes_behind(&mut world, chunk(3)));
    world.settle();
}

#[test]
fn a_flush_waits_for_what_was_behind_whatever_is_said_since() {
    let mut world = behind(SLOW);
    assert!(goes_behind(&mut world, chunk(0)));
    set(&mut world, 1, NONE);
    let flush = world.flush();
    assert!(legs_with(&world, OpKind::Flush).is_empty());
    end(&mut world, 1, OpKind::Write, Outcome::Good);
    world.pump();
    assert_eq!(answer(&world, flush), DONE);
    world.settle();
}

#[test]
fn a_leg_that_fails_is_told_no_more() {
    let mut world = behind(SLOW);
    assert!(goes_behind(&mut world, chunk(0)));
    set(&mut world, 1, NONE);
    let refusal = world.engine.flags_refusal(leg(0), FAST);
    assert_eq!(refusal, Some(FlagsRefusal::Unrecorded), "one at a time");
    world.fail_leg(leg(1), FaultReason::ByHand);
    assert_eq!(world.engine.leg_being_told(), None);
    world.pump();
    let refusal = world.engine.flags_refusal(leg(1), SLOW);
    assert_eq!(refusal, Some(FlagsRefusal::Out));
    set(&mut world, 0, FAST);
    // Also one that is on its way.
    let mut other = behind(NONE);
    set(&mut other, 1, SLOW);
    other.fail_leg(leg(1), FaultReason::ByHand);
    assert_eq!(other.engine.leg_being_told(), None);
    for mut world in [world, other] {
        world.pump();
        assert!(!is_done(&world, 1, SLOW) && !is_done(&world, 1, NONE));
        world.settle();
    }
}

/// The record that would have told the one comes to its end when the other is waited for.
#[test]
fn a_leg_that_fails_does_not_keep_another_from_being_told() {
    let mut setup = setup(3, 16);
    setup.write_behind = 8;
    setup.legs[1].write_mostly = true;
    let mut world = new_world(setup);
    world.write(chunk(0));
    world.pump();
    set(&mut world, 2, FAST);
    world.fail_leg(leg(2), FaultReason::ByHand);
    set(&mut world, 1, NONE);
    assert_eq!(world.engine.leg_being_told(), Some(leg(1)));
    end_commits(&mut world);
    assert!(is_done(&world, 1, NONE) && !world.engine.is_write_mostly(leg(1)));
    assert_eq!(said(&world, 1), DeviceFlags::default());
    world.pump();
    assert!(!goes_behind(&mut world, chunk(0)));
    world.settle();
}

#[test]
fn who_is_believed_does_not_change_where_legs_may_differ() {
    let mut world = world(3);
    world.write(chunk(0));
    end_commits(&mut world);
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    world.fail_power();
    world.take_up_with(LegSet::first(3), 0, Box::new(First));
    world.tell_deadline();
    world.pump();
    for flags in [
        SLOW,
        LegFlags {
            failfast: true,
            ..SLOW
        },
    ] {
        let refusal = world.engine.flags_refusal(leg(0), flags);
        assert_eq!(refusal, Some(FlagsRefusal::Unequal));
    }
    world.set_flags(leg(0), SLOW);
    world.pump();
    assert_eq!(said(&world, 0), DeviceFlags::default());
    set(&mut world, 0, FAST);
    world.pump();
    assert_eq!(said(&world, 0), DeviceFlags::FAIL_FAST);
    world.input(Input::StartResync { everything: false });
    world.set_rates(u64::MAX, u64::MAX);
    world.finish_background();
    set(&mut world, 0, SLOW);
    world.pump();
    assert_eq!(said(&world, 0), DeviceFlags::WRITE_MOSTLY);
    world.settle();
}

/// What was written over its block is not read back a second time.
#[test]
fn a_leg_that_is_mended_fails_fast_once_it_is_told_to() {
    let mut world = world(2);
    world.read(chunk(0));
    end(&mut world, 0, OpKind::Read, IO);
    for _ in 0..2 {
        end(&mut world, 1, OpKind::Read, Outcome::Good);
    }
    while at_leg(&world, 0, OpKind::Write).is_empty() || !world.issued.is_empty() {
        world.deliver(0);
    }
    set(&mut world, 0, FAST);
    while at_leg(&world, 0, OpKind::Read).is_empty() {
        let at = world.find(|pending| pending.op.kind != OpKind::Read)[0];
        world.complete(at, Outcome::Good);
    }
    end(&mut world, 0, OpKind::Read, IO);
    assert_eq!(world.in_sync(), [1]);
    world.settle();
}

#[test]
fn a_leg_fails_fast_from_the_moment_at_which_it_is_told_to() {
    let mut world = world(2);
    world.read(chunk(0));
    set(&mut world, 0, FAST);
    set_back_is_seen(&mut world);
    end(&mut world, 0, OpKind::Read, IO);
    assert_eq!(world.in_sync(), [1]);
    world.settle();
}

/// What a leg says of itself besides stays.
fn set_back_is_seen(world: &mut World) {
    end_commits(world);
    assert_eq!(said(world, 0), DeviceFlags::FAIL_FAST);
    for (flags, told) in [
        (NONE, DeviceFlags::default()),
        (
            LegFlags {
                failfast: true,
                ..SLOW
            },
            DeviceFlags::FAIL_FAST.with(DeviceFlags::WRITE_MOSTLY),
        ),
        (FAST, DeviceFlags::FAIL_FAST),
    ] {
        set(world, 0, flags);
        end_commits(world);
        assert_eq!(
            (said(world, 0), world.engine.leg_flags(leg(0))),
            (told, flags)
        );
    }
}
