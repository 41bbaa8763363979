//! Bad blocks, step by step.

use heliostat_engine::{
    CopyOrder, Event, FaultReason, Layout, LegConfig, LegOp, LegState, Map, Raid10,
};
use heliostat_format::BitmapBits;
use heliostat_types::{Duration, ErrorKind, Extent, LegId, LegSet, OpKind};

use super::{DONE, answer, at_leg, end};
use crate::meta::Meta;
use crate::policies::{First, Rotate};
use crate::world::{LEG, Outcome, Setup, World};

const IO: Outcome = Outcome::Bad(ErrorKind::Io);
const META: Meta = Meta {
    chunk_bytes: Some(4096),
    daemon_sleep_seconds: 5,
    events: 10,
    has_log: true,
};

/// So many legs with logs, at rest.
fn world(legs: usize) -> World {
    world_of(legs, 64 << 10)
}

/// The same with an array of this size.
fn world_of(legs: usize, size_bytes: u64) -> World {
    at_rest(setup_of(legs, size_bytes))
}

fn setup_of(legs: usize, size_bytes: u64) -> Setup {
    let leg = |number: u64| LegConfig {
        data_offset_bytes: (64 + 4 * number) << 10,
        ..LEG
    };
    Setup {
        legs: (0..).map(leg).take(legs).collect(),
        size_bytes,
        meta: Some(META),
        ..Setup::legs(legs)
    }
}

fn at_rest(setup: Setup) -> World {
    let mut world = World::new(setup, Box::new(First));
    world.tell_deadline();
    world.pump();
    world
}

/// These sectors of a leg cannot be written.
fn wear_out(world: &mut World, leg: usize, sectors: std::ops::Range<usize>) {
    world.legs[leg].stuck.extend(sectors);
}

/// What the engine knows of a leg, from which sector to which.
fn bad(world: &World, leg: usize) -> Vec<(u64, u64)> {
    let bad = world.engine.bad_blocks(LegId::new(leg));
    bad.ranges().map(|range| (range.start, range.end)).collect()
}

/// What the leg itself durably says.
fn logged(world: &World, leg: usize) -> Vec<(u64, u64)> {
    let log = world.log_on(LegId::new(leg));
    log.ranges().map(|range| (range.start, range.end)).collect()
}

fn is_faulted(world: &World) -> bool {
    let faulted = |event: &Event| matches!(event, Event::LegFaulted { .. });
    world.events.iter().any(faulted)
}

/// A leg completes nothing until it is out.
fn fall_silent(world: &mut World, leg: usize) {
    world.legs[leg].silent = true;
    let out = Event::LegFaulted {
        leg: LegId::new(leg),
        reason: FaultReason::Silent,
    };
    while !world.events.contains(&out) {
        if !world.pump_one() {
            world.now = world.engine.next_deadline().expect("it is waited for");
            world.tell_deadline();
        }
    }
    world.pump();
}

#[test]
fn a_leg_that_alone_holds_a_block_is_out_as_any_other() {
    let mut world = world(3);
    wear_out(&mut world, 2, 8..9);
    let write = world.write_fua(Extent::new(4096, 1024));
    world.pump();
    assert_eq!(answer(&world, write), DONE);
    // Until its bit is clear.
    for _ in 0..4 {
        world.advance(Duration::from_secs(10));
        world.pump();
    }
    assert_eq!(world.engine.bitmap().map(BitmapBits::count_set), Some(0));
    for leg in [1, 0] {
        // Whatever it is asked.
        world.write(Extent::new(0, 512));
        fall_silent(&mut world, leg);
    }
    assert_eq!(world.in_sync(), [2]);
    // What was there before is not read either, and no flush is refused for it.
    let (lost, good) = (Extent::new(4096, 512), Extent::new(4608, 512));
    let (flush, read, other) = (world.flush(), world.read(lost), world.read(good));
    world.pump();
    assert_eq!(answer(&world, flush), DONE);
    assert_eq!(answer(&world, read), Some(&Err(ErrorKind::Io)));
    assert!(matches!(answer(&world, other), Some(Ok(_))));
    // It is back with a leg that has it, and that has missed nothing near it.
    world.set_rates(u64::MAX, u64::MAX);
    let back = LegId::new(0);
    world.legs[0].wake();
    while let Some(&at) = at_leg(&world, 0, OpKind::Write).first() {
        world.complete(at, Outcome::Good);
    }
    let superblock = world.superblock_on(back).unwrap();
    let missed = world.engine.missed_by(&superblock);
    assert!(world.add_leg(back, None, missed));
    world.finish_background();
    let read = world.read(lost);
    world.pump();
    assert!(matches!(answer(&world, read), Some(Ok(_))));
    world.settle();
}

#[test]
fn a_write_fails_whose_only_good_leg_is_out_before_its_answer() {
    let raid10 = Raid10 {
        order: CopyOrder::Near,
        copies: 2,
        chunk_bytes: 4096,
    };
    // As one write, and as one of two parts.
    for (is_cut, len) in [(false, 512), (true, 8192)] {
        let mut setup = setup_of(if is_cut { 4 } else { 2 }, 64 << 10);
        if is_cut {
            let map = Map::for_size(Layout::Raid10(raid10), 4, setup.size_bytes);
            setup.map = Some(map.unwrap());
        }
        let mut world = at_rest(setup);
        wear_out(&mut world, 1, 1..2);
        let write = world.write(Extent::new(512, len));
        while bad(&world, 1).is_empty() {
            assert!(world.pump_one(), "it goes on");
        }
        assert_eq!(answer(&world, write), None, "the log is on its way");
        world.fail_leg(LegId::new(0), FaultReason::ByHand);
        world.pump();
        assert_eq!(answer(&world, write), Some(&Err(ErrorKind::Io)));
        world.settle();
    }
}

#[test]
fn a_write_that_fails_is_narrowed_to_blocks_and_logged_before_its_answer() {
    let mut world = world(2);
    wear_out(&mut world, 1, 9..10);
    let write = world.write(Extent::new(4096, 2048));
    while bad(&world, 1).is_empty() {
        assert!(world.pump_one(), "it goes on");
    }
    assert_eq!(bad(&world, 1), [(9, 10)]);
    // The last good block has ended, and the log is on its way.
    assert_eq!(answer(&world, write), None);
    assert!(logged(&world, 1).is_empty());
    world.pump();
    assert_eq!(answer(&world, write), DONE);
    assert_eq!(logged(&world, 1), [(9, 10)]);
    assert!(!is_faulted(&world));
    world.settle();
}

#[test]
fn a_write_with_fua_whose_flush_has_failed_has_no_bad_block() {
    let mut world = world(2);
    world.write(Extent::new(4096, 512));
    world.pump();
    let write = world.write_fua(Extent::new(16384, 1024));
    let mut failed = false;
    while !failed {
        let of_leg = at_leg(&world, 1, OpKind::Write);
        let mut sent = of_leg.into_iter();
        match sent.find(|&at| world.pending[at].op.extent.offset() == 16384) {
            Some(at) => {
                world.complete(at, IO);
                failed = true;
            }
            None => assert!(world.pump_one(), "it is sent"),
        }
    }
    world.pump();
    assert_eq!(answer(&world, write), DONE);
    assert!(bad(&world, 1).is_empty());
    assert_eq!(world.in_sync(), [0]);
    let flush = world.flush();
    world.pump();
    assert_eq!(answer(&world, flush), DONE);
    world.settle();
}

#[test]
fn a_write_with_fua_that_meets_a_bad_block_costs_no_leg() {
    let mut world = world(2);
    wear_out(&mut world, 1, 9..10);
    let write = world.write_fua(Extent::new(4096, 2048));
    world.pump();
    assert_eq!(answer(&world, write), DONE);
    assert_eq!(logged(&world, 1), [(9, 10)]);
    assert_eq!(world.in_sync(), [0, 1]);
    world.settle();
}

#[test]
fn what_is_bad_on_one_leg_is_read_from_another() {
    let mut world = world(2);
    wear_out(&mut world, 1, 8..9);
    world.write(Extent::new(4096, 1024));
    world.pump();
    world.set_policy(Box::new(Rotate::default()));
    for _ in 0..4 {
        world.read(Extent::new(4096, 512));
        world.read(Extent::new(4608, 512));
    }
    let of_bad = |world: &World, leg| {
        let reads = at_leg(world, leg, OpKind::Read);
        let extents = reads.into_iter().map(|at| world.pending[at].op.extent);
        extents.filter(|extent| extent.offset() == 4096).count()
    };
    assert_eq!((of_bad(&world, 0), of_bad(&world, 1)), (4, 0));
    world.pump();
    world.settle();
}

#[test]
fn a_read_is_cut_where_no_leg_has_all_of_it() {
    let mut world = world(2);
    wear_out(&mut world, 0, 8..9);
    wear_out(&mut world, 1, 10..11);
    let write = world.write(Extent::new(4096, 2048));
    world.pump();
    assert_eq!(answer(&world, write), DONE);
    let read = world.read(Extent::new(4096, 2048));
    world.pump();
    assert!(matches!(answer(&world, read), Some(Ok(_))));
    assert!(!is_faulted(&world));
    world.settle();
}

#[test]
fn what_no_leg_could_write_fails_and_is_not_read() {
    let mut world = world(2);
    for leg in [0, 1] {
        wear_out(&mut world, leg, 9..10);
    }
    let write = world.write(Extent::new(4096, 1024));
    world.pump();
    assert_eq!(answer(&world, write), Some(&Err(ErrorKind::Io)));
    assert_eq!(world.engine.in_sync(), LegSet::first(2));
    let good = world.read(Extent::new(4096, 512));
    let lost = world.read(Extent::new(4096, 1024));
    world.pump();
    assert!(matches!(answer(&world, good), Some(Ok(_))));
    assert_eq!(answer(&world, lost), Some(&Err(ErrorKind::Io)));
    // Until one leg can.
    world.legs[1].stuck.clear();
    let again = world.write(Extent::new(4096, 1024));
    world.pump();
    assert_eq!(answer(&world, again), DONE);
    let read = world.read(Extent::new(4096, 1024));
    world.pump();
    assert!(matches!(answer(&world, read), Some(Ok(_))));
    assert_eq!((bad(&world, 0), bad(&world, 1)), (vec![(9, 10)], vec![]));
    world.settle();
}

#[test]
fn a_log_forgets_a_block_once_it_was_written_and_flushed() {
    let mut world = world(2);
    wear_out(&mut world, 1, 8..9);
    world.write(Extent::new(4096, 512));
    world.pump();
    world.legs[1].stuck.clear();
    let write = world.write(Extent::new(4096, 512));
    world.pump();
    assert_eq!(answer(&world, write), DONE);
    assert!(bad(&world, 1).is_empty());
    assert_eq!(logged(&world, 1), [(8, 9)], "the power may fail yet");
    let flush = world.flush();
    world.pump();
    assert_eq!(answer(&world, flush), DONE);
    assert!(logged(&world, 1).is_empty());
    world.settle();
}

/// What is read of a log when its leg comes back may be in a cache alone.
#[test]
fn a_log_that_was_being_emptied_is_empty_before_its_leg_says_so() {
    let mut world = world(2);
    wear_out(&mut world, 1, 8..9);
    world.write(Extent::new(4096, 512));
    world.pump();
    world.legs[1].stuck.clear();
    world.write(Extent::new(4096, 512));
    world.pump();
    world.flush();
    let is_log = |op: &LegOp| op.leg == LegId::new(1) && op.kind == OpKind::Write;
    let log = loop {
        if let Some(&at) = world.find(|pending| is_log(&pending.op)).first() {
            break at;
        }
        assert!(world.pump_one());
    };
    let at = usize::try_from(world.pending[log].op.extent.offset()).unwrap();
    world.complete(log, IO);
    world.pump();
    assert_eq!(world.in_sync(), [0]);
    world.legs[1].data[at..at + 4096].fill(0xff);
    assert_eq!(logged(&world, 1), [(8, 9)]);
    let back = LegId::new(1);
    let superblock = world.superblock_on(back).unwrap();
    let missed = world.engine.missed_by(&superblock);
    assert!(world.add_leg(back, None, missed));
    world.pump();
    world.finish_background();
    assert!(logged(&world, 1).is_empty());
    world.settle();
}

#[test]
fn a_log_keeps_a_block_that_went_bad_again_until_it_was_flushed_again() {
    let mut world = world(2);
    let block = Extent::new(512, 512);
    wear_out(&mut world, 0, 1..2);
    world.write(block);
    world.pump();
    world.legs[0].stuck.clear();
    world.write(block);
    world.pump();
    assert!(
        bad(&world, 0).is_empty(),
        "it is good, and the log keeps it"
    );
    wear_out(&mut world, 0, 1..2);
    world.write(block);
    world.pump();
    world.legs[0].stuck.clear();
    assert_eq!(
        (bad(&world, 0), logged(&world, 0)),
        (vec![(1, 2)], vec![(1, 2)])
    );
    // What is written beside a flush is not covered by it.
    world.flush();
    world.write(block);
    for leg in [0, 1] {
        end(&mut world, leg, OpKind::Write, Outcome::Good);
    }
    assert!(bad(&world, 0).is_empty());
    world.pump();
    assert_eq!(logged(&world, 0), [(1, 2)]);
    world.flush();
    world.pump();
    assert!(logged(&world, 0).is_empty());
    world.settle();
}

#[test]
fn a_leg_that_cannot_write_its_log_is_out_before_the_answer() {
    let mut world = world(2);
    wear_out(&mut world, 1, 8..9);
    let write = world.write(Extent::new(4096, 512));
    while bad(&world, 1).is_empty() {
        assert!(world.pump_one(), "it goes on");
    }
    end(&mut world, 1, OpKind::Write, IO);
    assert_eq!(answer(&world, write), None, "its fault is not durable");
    world.pump();
    assert_eq!(answer(&world, write), DONE);
    assert_eq!(world.in_sync(), [0]);
    assert_eq!(world.believed(), LegSet::first(1));
    world.settle();
}

#[test]
fn a_leg_whose_log_is_full_is_out() {
    let mut world = world_of(2, 600 << 10);
    let fail = |world: &mut World, sector: usize| {
        wear_out(world, 1, sector..sector + 1);
        let write = world.write(Extent::new(sector as u64 * 512, 512));
        world.pump();
        assert_eq!(answer(world, write), DONE);
    };
    // The log has room for 512 entries.
    for number in 0..512 {
        fail(&mut world, number * 2);
    }
    assert_eq!(bad(&world, 1).len(), 512);
    assert!(!is_faulted(&world));
    fail(&mut world, 1024);
    assert!(is_faulted(&world));
    assert_eq!(world.in_sync(), [0]);
    world.settle();
}

#[test]
fn a_leg_that_is_full_is_not_bad_but_out() {
    let mut world = world(2);
    let leg = LegId::new(1);
    world.write(Extent::new(4096, 512));
    world.pump();
    let write = world.write(Extent::new(4096, 512));
    end(
        &mut world,
        1,
        OpKind::Write,
        Outcome::Bad(ErrorKind::NoSpace),
    );
    world.pump();
    assert_eq!(answer(&world, write), DONE);
    let reason = FaultReason::WriteFailed(ErrorKind::NoSpace);
    assert!(world.events.contains(&Event::LegFaulted { leg, reason }));
    world.settle();
}

#[test]
fn what_cannot_be_mended_is_logged_and_what_can_is_counted() {
    let mut world = world(2);
    world.legs[0].bad.extend([8, 9]);
    wear_out(&mut world, 0, 9..10);
    let read = world.read(Extent::new(4096, 1024));
    world.pump();
    assert!(matches!(answer(&world, read), Some(Ok(_))));
    assert_eq!(bad(&world, 0), [(9, 10)]);
    assert_eq!(world.engine.corrected_reads(LegId::new(0)), 1);
    assert_eq!(world.engine.leg_state(LegId::new(0)), LegState::InSync);
    world.settle();
    let on_leg = world.superblock_on(LegId::new(0)).unwrap();
    assert_eq!(on_leg.corrected_reads, 1);
}

#[test]
fn what_was_not_read_back_is_not_written() {
    let mut world = world(2);
    world.write(Extent::new(4096, 1024));
    world.pump();
    // Both sectors cannot be read, until they are written.
    let read = world.read(Extent::new(4096, 1024));
    end(&mut world, 0, OpKind::Read, IO);
    for _ in 0..2 {
        end(&mut world, 1, OpKind::Read, Outcome::Good);
    }
    assert!(matches!(answer(&world, read), Some(Ok(_))));
    while let Some(&at) = world.find(|p| p.op.kind != OpKind::Read).first() {
        world.complete(at, Outcome::Good);
    }
    let back = at_leg(&world, 0, OpKind::Read)[0];
    world.stir(back);
    world.complete(back, IO);
    // The memory may hold anything now. All is read once more, and then either sector.
    for outcome in [IO, Outcome::Good, IO] {
        assert_eq!(at_leg(&world, 0, OpKind::Write), []);
        end(&mut world, 0, OpKind::Read, outcome);
    }
    world.pump();
    let left = bad(&world, 0);
    assert!(left == [(8, 9)] || left == [(9, 10)], "{left:?}");
    world.settle();
}

/// Either half was written by itself, and has two tries.
#[test]
fn each_part_that_is_written_over_has_two_tries_to_be_read_back() {
    let mut world = world(2);
    world.write(Extent::new(4096, 1024));
    world.pump();
    world.read(Extent::new(4096, 1024));
    end(&mut world, 0, OpKind::Read, IO);
    for _ in 0..2 {
        end(&mut world, 1, OpKind::Read, Outcome::Good);
    }
    while let Some(&at) = world
        .find(|p| p.op.leg.index() != 0 || p.op.kind == OpKind::Flush)
        .first()
    {
        world.complete(at, Outcome::Good);
    }
    end(&mut world, 0, OpKind::Write, IO);
    for _ in 0..2 {
        end(&mut world, 0, OpKind::Write, Outcome::Good);
        end(&mut world, 0, OpKind::Read, IO);
        end(&mut world, 0, OpKind::Read, Outcome::Good);
    }
    assert_eq!(bad(&world, 0), []);
    assert_eq!(world.engine.corrected_reads(LegId::new(0)), 2);
    world.settle();
}

/// The leg has good bytes or bad ones then, and the bitmap says where.
#[test]
fn power_that_fails_while_it_is_read_back_again_costs_nothing() {
    let mut world = world(2);
    world.read(Extent::new(4096, 1024));
    end(&mut world, 0, OpKind::Read, IO);
    for _ in 0..2 {
        end(&mut world, 1, OpKind::Read, Outcome::Good);
    }
    while at_leg(&world, 0, OpKind::Read).is_empty() {
        let at = world.find(|p| p.op.kind != OpKind::Read)[0];
        world.complete(at, Outcome::Good);
    }
    end(&mut world, 0, OpKind::Read, IO);
    assert_eq!(at_leg(&world, 0, OpKind::Read).len(), 1, "the second try");
    world.fail_power();
    world.take_up_with(LegSet::first(2), 0, Box::new(First));
    world.tell_deadline();
    world.pump();
    let figures = world.engine.bitmap_figures().unwrap();
    assert_eq!(figures.needed, 1);
    world.settle();
}

#[test]
fn a_log_that_a_failed_commit_may_have_written_is_written_again() {
    let mut setup = setup_of(4, 64 << 10);
    let raid10 = Raid10 {
        order: CopyOrder::Near,
        copies: 2,
        chunk_bytes: 4096,
    };
    setup.map = Some(Map::for_size(Layout::Raid10(raid10), 4, setup.size_bytes).unwrap());
    let mut world = at_rest(setup);
    // Without it, chunks depend on leg 2 alone.
    world.fail_leg(LegId::new(3), FaultReason::ByHand);
    wear_out(&mut world, 0, 1..2);
    // In sectors of the array; on the leg it is the same one.
    wear_out(&mut world, 2, 9..10);
    let both = Extent::new(0, 8192);
    world.write(both);
    world.pump();
    assert_eq!(
        (logged(&world, 0), logged(&world, 2)),
        (vec![(1, 2)], vec![(1, 2)])
    );
    for leg in [0, 2] {
        world.legs[leg].stuck.clear();
    }
    let again = world.write(both);
    world.pump();
    assert_eq!(answer(&world, again), DONE);
    // The logs are to forget it. One of them does.
    let flush = world.flush();
    for leg in [0, 1, 2] {
        end(&mut world, leg, OpKind::Flush, Outcome::Good);
    }
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    end(&mut world, 2, OpKind::Write, IO);
    assert_eq!(answer(&world, flush), Some(&Err(ErrorKind::Io)));
    assert!(logged(&world, 0).is_empty());
    // It goes bad again.
    wear_out(&mut world, 0, 1..2);
    let last = world.write(Extent::new(0, 4096));
    world.pump();
    assert_eq!(answer(&world, last), DONE);
    assert_eq!(logged(&world, 0), [(1, 2)]);
    world.settle();
}

#[test]
fn bad_blocks_are_known_after_a_power_cut() {
    let mut world = world(3);
    wear_out(&mut world, 0, 8..10);
    let write = world.write_fua(Extent::new(4096, 1024));
    world.pump();
    assert_eq!(answer(&world, write), DONE);
    world.fail_power();
    world.take_up_with(LegSet::first(3), 0, Box::new(First));
    world.tell_deadline();
    assert_eq!(bad(&world, 0), [(8, 10)]);
    // All reads before the resync go to the first leg, but for these.
    world.read(Extent::new(4096, 1024));
    assert_eq!(at_leg(&world, 0, OpKind::Read).len(), 0);
    world.pump();
    world.settle();
}

#[test]
fn a_scrub_that_repairs_writes_bad_blocks() {
    let mut world = world(2);
    wear_out(&mut world, 1, 8..9);
    world.write(Extent::new(4096, 512));
    world.pump();
    world.set_rates(u64::MAX, u64::MAX);
    for (repair, is_left) in [(false, true), (true, false)] {
        world.legs[1].stuck.clear();
        world.input(heliostat_engine::Input::StartScrub { repair });
        world.finish_background();
        assert_eq!(!bad(&world, 1).is_empty(), is_left);
    }
    let mismatch = |event: &Event| matches!(event, Event::Mismatch { .. });
    assert!(!world.events.iter().any(mismatch));
    world.settle();
}

#[test]
fn a_rebuild_from_bad_blocks_leaves_them_bad() {
    let mut world = world(2);
    world.set_rates(u64::MAX, u64::MAX);
    let back = LegId::new(1);
    world.fail_leg(back, FaultReason::ByHand);
    world.pump();
    wear_out(&mut world, 0, 8..9);
    let write = world.write(Extent::new(4096, 512));
    world.pump();
    assert_eq!(answer(&world, write), Some(&Err(ErrorKind::Io)));
    assert!(world.add_leg(back, None, heliostat_engine::Missed::From(0)));
    world.finish_background();
    assert_eq!(world.engine.leg_state(back), LegState::InSync);
    // A page at a time, at least.
    assert_eq!(
        (bad(&world, 0), bad(&world, 1)),
        (vec![(8, 9)], vec![(8, 9)])
    );
    assert_eq!(logged(&world, 1), [(8, 9)]);
    world.settle();
}
