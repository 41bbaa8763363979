//! What legs hold that differ after a power cut: once a client has read it, it stays.

use heliostat_engine::{FaultReason, Input, Missed};
use heliostat_types::{Duration, Extent, LegId, LegSet, OpKind, SECTOR_BYTES};

use super::{IO, chunk, end_commits, metadata_at, new_world, setup, superblock_at};
use crate::cases::{answer, at_leg, end};
use crate::policies::First;
use crate::world::{Outcome, Reply, Setup, World};

/// Two legs after a power cut, of which leg 1 alone has the last write of chunk 5. The legs know
/// who is in sync, and no resync has begun.
fn torn() -> World {
    torn_of(setup(2, 128))
}

fn torn_of(mut setup: Setup) -> World {
    setup.clean_delay = Duration::from_secs(3600);
    let mut world = new_world(setup);
    world.write_fua(chunk(5));
    end_commits(&mut world);
    end(&mut world, 1, OpKind::Write, Outcome::Good);
    // Nothing of it gets to leg 0.
    world.pending.clear();
    restart(&mut world);
    assert_ne!(durable(&world, 0), durable(&world, 1));
    world
}

/// Legs 1 and 2 after a power cut, of which leg 2 alone has the last write of chunk 5, and leg 0,
/// which was out before.
fn torn_with_one_that_comes_back() -> (World, LegId) {
    let mut setup = setup(3, 128);
    setup.clean_delay = Duration::from_secs(3600);
    let mut world = new_world(setup);
    let back = LegId::new(0);
    world.fail_leg(back, FaultReason::ByHand);
    world.pump();
    world.write_fua(chunk(5));
    end_commits(&mut world);
    end(&mut world, 2, OpKind::Write, Outcome::Good);
    world.pending.clear();
    world.fail_power();
    let others = LegSet::from_iter([LegId::new(1), LegId::new(2)]);
    world.take_up_with(others, 1, Box::new(First));
    world.tell_deadline();
    world.pump();
    assert_ne!(durable(&world, 1), durable(&world, 2));
    (world, back)
}

/// The same where legs have logs of bad blocks.
fn torn_with_logs() -> World {
    let mut setup = setup(2, 128);
    setup.meta.as_mut().expect("there is metadata").has_log = true;
    torn_of(setup)
}

/// The power fails, and all legs are there again.
fn restart(world: &mut World) {
    world.fail_power();
    let all = LegSet::first(world.legs.len());
    world.take_up_with(all, 0, Box::new(First));
    world.tell_deadline();
    world.pump();
}

fn durable(world: &World, leg: usize) -> Vec<u8> {
    world.legs[leg].durable_bytes(chunk(5)).to_vec()
}

fn data(world: &World, read: u64) -> Option<Vec<u8>> {
    match answer(world, read)? {
        Ok(Reply::Data(bytes)) => Some(bytes.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_another_leg_says_is_durable_on_all_before_it_is_told() {
    let mut world = torn();
    let read = world.read(chunk(5));
    end(&mut world, 0, OpKind::Read, IO);
    end(&mut world, 1, OpKind::Read, Outcome::Good);
    // Others wait for the same.
    let beside = world.read(chunk(5));
    assert_eq!(at_leg(&world, 1, OpKind::Write).len(), 0);
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    end(&mut world, 0, OpKind::Flush, Outcome::Good);
    assert_eq!((data(&world, read), data(&world, beside)), (None, None));
    end(&mut world, 1, OpKind::Flush, Outcome::Good);
    let told = data(&world, read).expect("all legs have it");
    world.pump();
    assert_eq!(data(&world, beside).as_ref(), Some(&told));
    assert_eq!(
        (durable(&world, 0), durable(&world, 1)),
        (told.clone(), told.clone())
    );
    // Leg 0 can be read again, and is, because its chunk has its bit.
    restart(&mut world);
    let again = world.read(chunk(5));
    assert_eq!(at_leg(&world, 0, OpKind::Read).len(), 1);
    world.pump();
    assert_eq!(data(&world, again), Some(told));
    world.settle();
}

#[test]
fn a_leg_that_cannot_write_what_another_one_says_has_bad_blocks() {
    let mut world = torn_with_logs();
    let read = world.read(chunk(5));
    end(&mut world, 0, OpKind::Read, IO);
    end(&mut world, 1, OpKind::Read, Outcome::Good);
    end(&mut world, 0, OpKind::Write, IO);
    world.pump();
    let told = data(&world, read).expect("leg 1 has it");
    assert_eq!(world.in_sync(), [0, 1]);
    let sector = chunk(5).offset() / 512;
    let logged = world.log_on(LegId::new(0)).ranges().next();
    assert_eq!(logged, Some(sector..sector + 1));
    restart(&mut world);
    let again = world.read(chunk(5));
    assert!(at_leg(&world, 0, OpKind::Read).is_empty());
    world.pump();
    assert_eq!(data(&world, again), Some(told));
    world.settle();
}

#[test]
fn a_resync_from_another_leg_is_durable_before_it_is_told() {
    let mut world = torn();
    world.input(Input::StartResync { everything: false });
    end(&mut world, 0, OpKind::Read, IO);
    end(&mut world, 1, OpKind::Read, Outcome::Good);
    let read = world.read(chunk(5));
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    end(&mut world, 0, OpKind::Flush, Outcome::Good);
    assert_eq!(data(&world, read), None);
    end(&mut world, 1, OpKind::Flush, Outcome::Good);
    assert_eq!(durable(&world, 0), durable(&world, 1));
    world.pump();
    assert_eq!(data(&world, read), Some(durable(&world, 1)));
    world.settle();
}

#[test]
fn nothing_is_read_elsewhere_before_it_is_durable_who_is_out() {
    let mut world = torn();
    world.fail_leg(LegId::new(0), FaultReason::ByHand);
    let read = world.read(chunk(5));
    let equal = world.read(chunk(6));
    assert_eq!(
        at_leg(&world, 1, OpKind::Read).len(),
        1,
        "legs are equal there"
    );
    end(&mut world, 1, OpKind::Read, Outcome::Good);
    assert!(data(&world, equal).is_some());
    end_commits(&mut world);
    end(&mut world, 1, OpKind::Read, Outcome::Good);
    assert!(data(&world, read).is_some());
    assert_eq!(world.believed(), LegSet::from_iter([LegId::new(1)]));
    world.settle();
}

#[test]
fn what_was_resynced_is_durable_before_its_source_is_out() {
    let mut world = torn();
    world.input(Input::StartResync { everything: false });
    world.finish_background();
    assert!(world.engine.record().dirty, "and nothing was flushed");
    assert_ne!(durable(&world, 0), durable(&world, 1));
    world.fail_leg(LegId::new(0), FaultReason::ByHand);
    assert_eq!(at_leg(&world, 1, OpKind::Flush).len(), 1);
    assert!(superblock_at(&world, 1).is_none() && metadata_at(&world, 1).is_empty());
    end(&mut world, 1, OpKind::Flush, Outcome::Good);
    assert_eq!(durable(&world, 0), durable(&world, 1));
    world.settle();
}

#[test]
fn what_is_beside_a_write_comes_from_another_leg_and_stays() {
    let mut world = torn();
    let write = world.write(Extent::new(chunk(5).offset() + 7, 11));
    end(&mut world, 0, OpKind::Read, IO);
    end(&mut world, 1, OpKind::Read, Outcome::Good);
    for leg in [0, 1] {
        let at = at_leg(&world, leg, OpKind::Write)[0];
        assert!(world.pending[at].op.fua);
    }
    world.pump();
    assert!(answer(&world, write).is_some());
    assert_eq!(durable(&world, 0), durable(&world, 1));
    world.settle();
}

#[test]
fn what_is_beside_a_write_stays_though_the_leg_it_came_from_is_lost() {
    let mut world = torn();
    let read = world.read(chunk(5));
    world.pump();
    let seen = data(&world, read).expect("leg 0 has it");
    let write = world.write(Extent::new(chunk(5).offset() + 7, 11));
    world.pump();
    assert!(answer(&world, write).is_some());
    assert_eq!(durable(&world, 1)[18..], seen[18..]);
    world.fail_leg(LegId::new(0), FaultReason::ByHand);
    world.pump();
    world.fail_power();
    world.take_up_with(LegSet::from_iter([LegId::new(1)]), 1, Box::new(First));
    assert_eq!(durable(&world, 1)[18..], seen[18..]);
    world.settle();
}

#[test]
fn a_leg_half_rebuilt_does_not_say_that_it_has_what_another_one_is_read_for() {
    let mut setup = setup(2, 4096);
    setup.clean_delay = Duration::from_secs(3600);
    let mut world = new_world(setup);
    let first = LegId::new(0);
    world.fail_leg(first, FaultReason::ByHand);
    world.pump();
    assert!(world.add_leg(first, None, Missed::From(0)));
    let rebuilt = |world: &World| {
        let superblock = world.superblock_on(first).expect("it has one");
        superblock.recovery_offset_sectors * SECTOR_BYTES
    };
    while rebuilt(&world) == 0 {
        if !world.pump_one() {
            world.now = world.engine.next_deadline().expect("it is not done");
            world.tell_deadline();
        }
    }
    world.input(Input::PauseBackground);
    world.pump();
    let before = rebuilt(&world);
    assert!(before > chunk(5).end());
    // Below that, leg 1 alone gets a write.
    world.write_fua(chunk(5));
    end_commits(&mut world);
    end(&mut world, 1, OpKind::Write, Outcome::Good);
    world.pending.clear();
    world.fail_power();
    assert_eq!(rebuilt(&world), before);
    world.take_up_with(LegSet::first(2), 0, Box::new(First));
    world.input(Input::PauseBackground);
    world.tell_deadline();
    end_commits(&mut world);
    // Linux reads a leg below where its rebuild had come, and this one may be read there no more
    // as soon as a client has heard of the other one.
    assert!(rebuilt(&world) <= chunk(5).offset());
    world.finish_background();
    assert_eq!(world.engine.in_sync(), LegSet::first(2));
    world.settle();
}

#[test]
fn what_was_copied_from_a_leg_that_is_lost_is_copied_again_from_the_one_that_is_read() {
    let (mut world, back) = torn_with_one_that_comes_back();
    world.set_rates(u64::MAX, u64::MAX);
    assert!(world.add_leg(back, None, Missed::From(0)));
    while world.engine.rebuilt_up_to(back) < Some(chunk(6).offset()) {
        assert!(world.pump_one());
    }
    world.fail_leg(LegId::new(1), FaultReason::ByHand);
    let read = world.read(chunk(5));
    while answer(&world, read).is_none() {
        assert!(world.pump_one());
    }
    let seen = data(&world, read).expect("leg 2 has it");
    assert_eq!(world.in_sync(), [2]);
    world.pump();
    assert_eq!(world.in_sync(), [0, 2]);
    assert_eq!(durable(&world, 0), seen);
    world.settle();
}

#[test]
fn what_is_beside_a_write_is_what_was_read_before_its_leg_was_lost() {
    let mut world = torn();
    let before = world.read(chunk(5));
    world.pump();
    let before = data(&world, before).expect("leg 0 is believed");
    world.write(Extent::new(chunk(5).offset() + 100, 10));
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    assert_eq!(at_leg(&world, 1, OpKind::Write).len(), 1);
    world.fail_leg(LegId::new(0), FaultReason::ByHand);
    end_commits(&mut world);
    // Leg 1 has something else there until the write has ended.
    let beside = world.read(chunk(5));
    assert!(at_leg(&world, 1, OpKind::Read).is_empty());
    world.pump();
    let beside = data(&world, beside).expect("leg 1 has it");
    assert_eq!(beside[..100], before[..100]);
    assert_eq!(beside[110..], before[110..]);
    world.settle();
}

#[test]
fn what_is_beside_a_write_is_not_shown_before_it_is_durable_who_is_out() {
    let mut world = torn();
    let before = world.read(chunk(5));
    world.pump();
    let before = data(&world, before).expect("leg 0 is believed");
    let write = world.write(Extent::new(chunk(5).offset() + 100, 10));
    // Leg 0 has not been read for the write when it goes.
    world.fail_leg(LegId::new(0), FaultReason::ByHand);
    end(&mut world, 1, OpKind::Read, Outcome::Good);
    let written = at_leg(&world, 1, OpKind::Write).into_iter();
    let mut written = written.filter(|&at| !world.is_metadata(&world.pending[at].op));
    let at = written.next().expect("leg 1 is written");
    world.complete(at, Outcome::Good);
    assert_eq!(answer(&world, write), None);
    let beside = world.read(chunk(5));
    assert!(at_leg(&world, 1, OpKind::Read).is_empty());
    // Leg 0 is believed again.
    restart(&mut world);
    let again = world.read(chunk(5));
    world.pump();
    let again = data(&world, again).expect("it can be read");
    assert_eq!(
        (&again[..100], &again[110..]),
        (&before[..100], &before[110..])
    );
    assert_eq!(data(&world, beside), None);
    world.settle();
}

#[test]
fn what_is_rebuilt_is_not_shown_either_before_it_is_durable_who_is_out() {
    let (mut world, back) = torn_with_one_that_comes_back();
    let before = world.read(chunk(5));
    world.pump();
    let before = data(&world, before).expect("leg 1 is believed");
    world.set_rates(u64::MAX, u64::MAX);
    assert!(world.add_leg(back, None, Missed::From(0)));
    let is_read = |world: &World, leg: usize| {
        let reads = at_leg(world, leg, OpKind::Read).into_iter();
        let mut extents = reads.map(|at| world.pending[at].op.extent);
        extents.any(|extent| extent.overlaps(chunk(5)))
    };
    while !is_read(&world, 1) {
        assert!(world.pump_one());
    }
    world.fail_leg(LegId::new(1), FaultReason::ByHand);
    // Leg 0 gets what leg 2 holds, and nothing of the record is written.
    let is_data = |world: &World, at: usize| !world.is_metadata(&world.pending[at].op);
    while let Some(at) = (0..world.pending.len()).find(|&at| is_data(&world, at)) {
        world.complete(at, Outcome::Good);
    }
    assert_eq!(world.legs[0].bytes(chunk(5)), world.legs[2].bytes(chunk(5)));
    world.read(chunk(5));
    assert!(!is_read(&world, 2));
    world.fail_power();
    let others = LegSet::from_iter([LegId::new(1), LegId::new(2)]);
    world.take_up_with(others, 1, Box::new(First));
    world.tell_deadline();
    let again = world.read(chunk(5));
    world.pump();
    assert_eq!(data(&world, again), Some(before));
    world.settle();
}

#[test]
fn a_write_that_has_ended_holds_no_reader() {
    let mut world = torn_of(setup(3, 128));
    let write = world.write(Extent::new(chunk(5).offset() + 100, 10));
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    // What has FUA is written again without it before it has failed.
    for (leg, outcome) in [(0, Outcome::Good), (1, IO), (1, IO), (2, Outcome::Good)] {
        end(&mut world, leg, OpKind::Write, outcome);
    }
    assert_eq!(answer(&world, write), None, "the fault is not on record");
    world.fail_leg(LegId::new(2), FaultReason::ByHand);
    let read = world.read(chunk(5));
    end_commits(&mut world);
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    assert!(data(&world, read).is_some());
    world.settle();
}
