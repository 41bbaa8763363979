//! What is other where not every leg holds everything.

use heliostat_engine::{Event, FaultReason, Layout, LegState, Map, Missed, Raid10};
use heliostat_types::{ErrorKind, Extent, LegId, OpKind};

use super::{DONE, MIB, answer, at_leg, blocks, deliver_all, end, legs_with, write_under_way};
use crate::policies::{First, Last, Rotate};
use crate::world::{Outcome, Reply, Setup, World};

const CHUNK: u64 = 4096;

fn setup(layout: &str, legs: usize, size_bytes: u64) -> Setup {
    let Ok(Layout::Raid10(raid10)) = Layout::parse(layout) else {
        panic!("{layout} is a layout of RAID10");
    };
    let raid10 = Raid10 {
        chunk_bytes: CHUNK,
        ..raid10
    };
    let map = Map::for_size(Layout::Raid10(raid10), legs, size_bytes).unwrap();
    Setup {
        size_bytes,
        map: Some(map),
        ..Setup::legs(legs)
    }
}

fn laid_out(layout: &str, legs: usize, size_bytes: u64) -> World {
    World::new(setup(layout, legs, size_bytes), Box::new(First))
}

/// The same, where legs are flushed after a write with FUA.
fn laid_out_without_fua(layout: &str, legs: usize, size_bytes: u64) -> World {
    let mut setup = setup(layout, legs, size_bytes);
    setup.legs.iter_mut().for_each(|leg| leg.fua = false);
    World::new(setup, Box::new(First))
}

fn chunk(number: u64) -> Extent {
    Extent::new(number * CHUNK, CHUNK)
}

fn fail(world: &mut World, leg: usize) {
    world.fail_leg(LegId::new(leg), FaultReason::ByHand);
}

#[test]
fn near_over_four_legs_may_lose_one_of_each_pair() {
    let mut world = laid_out("near=2", 4, 64 << 10);
    fail(&mut world, 0);
    fail(&mut world, 1);
    assert_eq!(world.in_sync(), [1, 2, 3], "1 holds what 0 held");
    fail(&mut world, 2);
    fail(&mut world, 3);
    assert_eq!(world.in_sync(), [1, 3]);
    let kept = |event: &&Event| matches!(event, Event::LastLegKept { .. });
    assert_eq!(world.events.iter().filter(kept).count(), 2, "once for each");
    let read = world.read(Extent::new(100, 16_000));
    world.pump();
    assert!(matches!(answer(&world, read), Some(Ok(Reply::Data(_)))));
    world.settle();
}

#[test]
fn a_read_over_several_chunks_is_one_answer() {
    let mut world = laid_out("far=2", 4, 64 << 10);
    let read = world.read(Extent::new(2048, 3 * CHUNK));
    assert_eq!(legs_with(&world, OpKind::Read), [0, 1, 2, 0], "at once");
    end(&mut world, 2, OpKind::Read, Outcome::Bad(ErrorKind::Io));
    assert_eq!(legs_with(&world, OpKind::Read), [0, 1, 0, 3]);
    for leg in [0, 1, 3] {
        assert!(answer(&world, read).is_none());
        end(&mut world, leg, OpKind::Read, Outcome::Good);
    }
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    assert!(matches!(answer(&world, read), Some(Ok(Reply::Data(_)))));
    world.settle();
}

#[test]
fn a_write_goes_to_the_holders_of_each_chunk() {
    let mut world = laid_out("near=2", 3, 64 << 10);
    let write = write_under_way(&mut world, Extent::new(1000, 2 * CHUNK));
    // Both edges are read first: chunks 0 and 2 are on legs 0 and 1, and 1 and 2.
    assert_eq!(legs_with(&world, OpKind::Write), [0, 2]);
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    end(&mut world, 1, OpKind::Read, Outcome::Good);
    assert_eq!(legs_with(&world, OpKind::Write), [0, 2, 0, 1, 1, 2]);
    world.pump();
    assert_eq!(answer(&world, write), DONE);
    world.settle();
}

#[test]
fn a_leg_that_fails_a_flush_and_can_be_spared_costs_no_more_than_its_write() {
    let mut world = laid_out_without_fua("near=2", 5, 80 << 10);
    fail(&mut world, 2);
    // Chunk 0 is on legs 0 and 1, and of chunk 3 only leg 1 is left.
    let allocated = world.alloc(chunk(0)).expect("there is memory");
    let write = world.send(allocated, true);
    deliver_all(&mut world);
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    end(&mut world, 0, OpKind::Flush, Outcome::Bad(ErrorKind::Io));
    end(&mut world, 1, OpKind::Write, Outcome::Bad(ErrorKind::Io));
    assert_eq!(world.in_sync(), [1, 3, 4]);
    deliver_all(&mut world);
    assert_eq!(answer(&world, write), Some(&Err(ErrorKind::Io)));
    let flush = world.flush();
    world.pump();
    assert_eq!(answer(&world, flush), DONE, "all else is on other legs");
    world.settle();
}

#[test]
fn where_all_legs_failed_a_flush_the_one_that_reads_have_seen_stays() {
    let mut setup = Setup::legs(2);
    setup.legs.iter_mut().for_each(|leg| leg.fua = false);
    let mut world = World::new(setup, Box::new(Last));
    let allocated = world.alloc(chunk(0)).expect("there is memory");
    let write = world.send(allocated, true);
    deliver_all(&mut world);
    // Somebody flushes meanwhile, and the first leg fails that.
    world.flush();
    end(&mut world, 0, OpKind::Flush, Outcome::Bad(ErrorKind::Io));
    end(&mut world, 1, OpKind::Write, Outcome::Good);
    let beside = world.read(chunk(0));
    end(&mut world, 1, OpKind::Read, Outcome::Good);
    assert!(matches!(answer(&world, beside), Some(Ok(Reply::Data(_)))));
    end(&mut world, 0, OpKind::Write, Outcome::Bad(ErrorKind::Io));
    let of_write = *at_leg(&world, 1, OpKind::Flush).last().unwrap();
    world.complete(of_write, Outcome::Bad(ErrorKind::Io));
    deliver_all(&mut world);
    assert_eq!(answer(&world, write), Some(&Err(ErrorKind::Io)));
    assert_eq!(world.in_sync(), [1]);
    world.pump();
    world.settle();
}

#[test]
fn a_leg_that_must_stay_makes_its_write_fail() {
    let mut world = laid_out("near=2", 3, 64 << 10);
    world.set_policy(Box::new(Rotate::default()));
    fail(&mut world, 2);
    let write = write_under_way(&mut world, chunk(0));
    assert_eq!(legs_with(&world, OpKind::Write), [0, 1]);
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    end(&mut world, 1, OpKind::Write, Outcome::Bad(ErrorKind::Io));
    deliver_all(&mut world);
    assert_eq!(answer(&world, write), Some(&Err(ErrorKind::Io)));
    assert_eq!(world.in_sync(), [0, 1], "chunk 2 is on leg 1 alone");
    for _ in 0..3 {
        world.read(chunk(0));
    }
    assert_eq!(legs_with(&world, OpKind::Read), [0, 0, 0]);
    world.pump();
    assert!(world.engine.record().dirty);
    assert_eq!(
        world.engine.divergent().collect::<Vec<_>>(),
        [(chunk(0), LegId::new(0))]
    );
    let again = write_under_way(&mut world, chunk(0));
    world.pump();
    assert_eq!(answer(&world, again), DONE);
    assert_eq!(world.engine.divergent().count(), 0);
    world.settle();
    assert!(!world.engine.record().dirty);
}

#[test]
fn a_write_that_a_leg_failed_which_had_to_stay_fails_however_late_it_ends() {
    let mut world = laid_out("near=2", 4, 16 << 10);
    let back = LegId::new(3);
    fail(&mut world, 3);
    world.pump();
    world.set_rates(0, 1);
    assert!(world.add_leg(back, None, Missed::From(0)));
    world.pump();
    let write = write_under_way(&mut world, Extent::new(0, 2 * CHUNK));
    end(&mut world, 2, OpKind::Write, Outcome::Bad(ErrorKind::Io));
    end(&mut world, 3, OpKind::Write, Outcome::Good);
    // The other chunk is late, and leg 2 is not the last one of its chunks any more.
    world.legs[0].silent = true;
    world.set_rates(u64::MAX, u64::MAX);
    world.finish_background();
    assert_eq!(world.engine.leg_state(back), LegState::InSync);
    assert_eq!(answer(&world, write), None);
    world.legs[0].silent = false;
    world.pump();
    assert_eq!(answer(&world, write), Some(&Err(ErrorKind::Io)));
    world.settle();
}

#[test]
fn a_flush_that_the_last_leg_of_a_chunk_fails_is_no_flush() {
    let mut world = laid_out("near=2", 4, 64 << 10);
    write_under_way(&mut world, Extent::new(0, 4 * CHUNK));
    world.pump();
    let flush = world.flush();
    for leg in [0, 1] {
        end(&mut world, leg, OpKind::Flush, Outcome::Bad(ErrorKind::Io));
    }
    for leg in [2, 3] {
        end(&mut world, leg, OpKind::Flush, Outcome::Good);
    }
    deliver_all(&mut world);
    assert_eq!(answer(&world, flush), Some(&Err(ErrorKind::Io)));
    assert_eq!(world.in_sync(), [0, 2, 3]);
    let mut world = laid_out("near=2", 4, 64 << 10);
    write_under_way(&mut world, Extent::new(0, 4 * CHUNK));
    world.pump();
    let flush = world.flush();
    for leg in [0, 2] {
        end(&mut world, leg, OpKind::Flush, Outcome::Bad(ErrorKind::Io));
    }
    for leg in [1, 3] {
        end(&mut world, leg, OpKind::Flush, Outcome::Good);
    }
    deliver_all(&mut world);
    assert_eq!(answer(&world, flush), DONE, "each pair has one that did");
    assert_eq!(world.in_sync(), [1, 3]);
    world.settle();
}

#[test]
fn a_long_change_is_done_some_parts_at_a_time() {
    let mut world = laid_out("offset=2", 4, 2 * MIB);
    let trim = world.trim(Extent::new(512, 2 * MIB - 1024), false);
    deliver_all(&mut world);
    let under_way = |world: &World| {
        let sent = (0..4).map(|leg| at_leg(world, leg, OpKind::Trim).len());
        sent.sum::<usize>()
    };
    // The device queues take 64 each; 512 operations are begun, of 1024 in all.
    assert_eq!(under_way(&world), 4 * 64);
    world.pump();
    assert_eq!(answer(&world, trim), DONE);
    let zeroes = world.zeroes(Extent::new(3, 2 * MIB - 5), false, true, false);
    world.pump();
    assert_eq!(answer(&world, zeroes), DONE);
    world.settle();
}

#[test]
fn a_long_change_ends_with_its_first_error() {
    let mut world = laid_out("near=2", 2, 2 * MIB);
    let zeroes = world.zeroes(Extent::new(0, 2 * MIB), false, false, false);
    deliver_all(&mut world);
    // Trims and zeroes are tried in other ways, and writes fail on both legs for lack of space.
    while answer(&world, zeroes).is_none() {
        let full = Outcome::Bad(ErrorKind::NoSpace);
        world.complete(0, full);
        deliver_all(&mut world);
    }
    assert_eq!(answer(&world, zeroes), Some(&Err(ErrorKind::NoSpace)));
    assert_eq!(world.in_sync(), [0, 1], "full legs are not to blame");
    let differs: u64 = world
        .engine
        .divergent()
        .map(|(extent, _)| extent.len())
        .sum();
    assert_eq!(differs, 256 * CHUNK, "what was not begun is as it was");
    world.settle();
}

#[test]
fn a_block_status_covers_as_many_chunks_as_are_asked_at_once() {
    let mut world = laid_out("far=2", 4, 2 * MIB);
    let trim = world.trim(Extent::new(0, MIB), false);
    world.pump();
    assert_eq!(answer(&world, trim), DONE);
    let status = world.status(Extent::new(700, 3 * MIB / 2));
    world.pump();
    let Some(Ok(Reply::Status(runs))) = answer(&world, status) else {
        panic!("a status is answered with runs");
    };
    let covered: u64 = runs.iter().map(|run| run.len_bytes).sum();
    assert_eq!(covered, 256 * CHUNK - 700);
    world.settle();
}

#[test]
fn a_silent_leg_that_chunks_depend_on_is_waited_for() {
    let mut world = laid_out("near=2", 4, 64 << 10);
    fail(&mut world, 0);
    world.legs[1].silent = true;
    world.legs[2].silent = true;
    let first = world.read(blocks(0, 1));
    let second = world.read(blocks(8, 1));
    let timeout = world.setup.leg_timeout;
    world.advance(timeout);
    assert_eq!(world.in_sync(), [1, 3], "2 can be done without, 1 cannot");
    world.pump();
    assert!(answer(&world, second).is_some());
    assert!(answer(&world, first).is_none());
    world.advance(timeout);
    assert_eq!(world.in_sync(), [1, 3]);
    world.legs[1].silent = false;
    world.pump();
    assert!(answer(&world, first).is_some());
    world.settle();
}

#[test]
fn a_leg_takes_as_many_parts_of_one_request_as_of_several() {
    // Legs may keep 5 MiB each of the memory, which is less than the request.
    let mut world = laid_out("near=2", 8, 6 * MIB);
    let read = world.read(Extent::new(0, 6 * MIB));
    for leg in [0, 2, 4, 6] {
        assert_eq!(at_leg(&world, leg, OpKind::Read).len(), 64);
    }
    // What it does not share with others of the same leg counts as before.
    let other = world.read(chunk(0));
    world.legs[0].silent = true;
    world.advance(world.setup.leg_timeout);
    assert!(world.in_sync().contains(&1) && !world.in_sync().contains(&0));
    world.pump();
    for read in [read, other] {
        assert!(matches!(answer(&world, read), Some(Ok(Reply::Data(_)))));
    }
    world.settle();
}

#[test]
fn writes_that_share_a_buffer_go_where_each_belongs() {
    let mut world = laid_out("near=2", 3, 64 << 10);
    // In the order of neither the array nor the chunks; the outer ends lie inside blocks.
    let extents = [
        Extent::new(5 * CHUNK + 100, 3 * CHUNK - 100),
        Extent::new(0, CHUNK),
        Extent::new(2 * CHUNK, 700),
    ];
    let writes = world.writes(&extents, true);
    world.pump();
    for write in writes {
        assert_eq!(answer(&world, write), DONE);
    }
    for extent in extents {
        let read = world.read(extent);
        world.pump();
        assert!(matches!(answer(&world, read), Some(Ok(Reply::Data(_)))));
    }
    world.settle();
}
