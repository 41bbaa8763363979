//! Reads that are served by what was read before them, step by step.

use heliostat_engine::{Config, FaultReason, Input};
use heliostat_types::{Duration, ErrorKind, Extent, LegId, OpKind};

use super::{MIB, answer, at_leg, blocks, end, legs_with, write_under_way};
use crate::policies::{First, Forgetting, Prefetching, Rotate};
use crate::world::{Outcome, Reply, Setup, World};

const IO: Outcome = Outcome::Bad(ErrorKind::Io);

/// What comes behind a read is read as well, in runs of eight blocks from each leg in turn.
fn prefetching(legs: usize, runs: u64) -> World {
    let policy = Prefetching {
        runs,
        run_bytes: 4096,
    };
    World::new(Setup::legs(legs), Box::new(policy))
}

/// The same, and the first run is there; nothing more will be.
fn prefetched() -> World {
    let mut world = prefetching(2, 1);
    world.read(blocks(0, 8));
    world.pump();
    world.set_policy(Box::new(First));
    world
}

fn is_read(world: &World, request: u64) -> bool {
    matches!(answer(world, request), Some(Ok(Reply::Data(_))))
}

#[test]
fn each_leg_reads_a_part_of_what_comes_next() {
    let mut world = prefetching(3, 3);
    let read = world.read(blocks(0, 8));
    let asked = legs_with(&world, OpKind::Read);
    assert_eq!(asked, [0, 0, 1, 2]);
    world.pump();
    assert!(is_read(&world, read));
    let next = world.read(blocks(8, 8));
    assert!(is_read(&world, next), "it is there");
    // One more run behind the other two.
    assert_eq!(legs_with(&world, OpKind::Read), [2]);
    world.settle();
}

#[test]
fn no_leg_is_given_more_at_once_than_clients_may_ask_for() {
    let setup = Setup {
        size_bytes: 64 * MIB,
        memory_bytes: 256 << 20,
        ..Setup::legs(2)
    };
    let policy = Prefetching {
        runs: 1,
        run_bytes: 40 * MIB,
    };
    let mut world = World::new(setup, Box::new(policy));
    world.read(blocks(0, 8));
    let reads = at_leg(&world, 0, OpKind::Read);
    let lens = reads.iter().map(|&at| world.pending[at].op.extent.len());
    let lens: Vec<u64> = lens.collect();
    assert_eq!(lens, [4096, Config::REQUEST_MAX_BYTES, 8 * MIB]);
    world.settle();
}

/// Of three runs one is there, one on its way, and somebody waits for the third.
#[test]
fn what_the_policy_does_not_want_any_more_is_given_back_but_for_what_is_waited_for() {
    let setup = Setup {
        size_bytes: 64 * MIB,
        memory_bytes: 256 << 20,
        ..Setup::legs(2)
    };
    let policy = Prefetching {
        runs: 3,
        run_bytes: 16 * MIB,
    };
    let mut world = World::new(setup, Box::new(policy));
    world.read(blocks(0, 8));
    let first = at_leg(&world, 0, OpKind::Read)[1];
    world.set_policy(Box::new(First));
    world.complete(first, Outcome::Good);
    let waits = world.read(Extent::new(4096 + 16 * MIB, 4096));
    assert_eq!(world.engine.prefetched_bytes() as u64, 48 * MIB);
    world.set_policy(Box::new(Forgetting(Extent::new(0, 64 * MIB))));
    let sent = legs_with(&world, OpKind::Read);
    let again = world.read(blocks(8, 8));
    // That one was served from memory that was there, before it was given back.
    assert_eq!(world.engine.prefetched_bytes() as u64, 16 * MIB);
    assert_eq!(
        legs_with(&world, OpKind::Read),
        sent,
        "nobody is asked again"
    );
    end(&mut world, 1, OpKind::Read, Outcome::Good);
    assert!(is_read(&world, again) && is_read(&world, waits));
    world.pump();
    let legs = world.read(blocks(16, 8));
    assert_eq!(legs_with(&world, OpKind::Read), [0], "a leg is asked again");
    world.pump();
    assert!(is_read(&world, legs));
    world.settle();
}

#[test]
fn a_read_of_what_is_on_its_way_waits_for_it() {
    let mut world = prefetching(2, 1);
    world.read(blocks(0, 8));
    world.set_policy(Box::new(First));
    let reads = [blocks(8, 4), blocks(12, 4), blocks(10, 3)];
    let reads = reads.map(|extent| world.read(extent));
    assert_eq!(legs_with(&world, OpKind::Read), [0, 0], "nobody is asked");
    let run = at_leg(&world, 0, OpKind::Read)[1];
    world.complete(run, Outcome::Good);
    assert!(reads.iter().all(|&read| is_read(&world, read)));
    world.settle();
}

#[test]
fn a_read_of_more_than_one_run_is_put_together() {
    let mut world = prefetching(2, 2);
    world.read(blocks(0, 8));
    world.set_policy(Box::new(First));
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    // The first run is there, the second on its way, and behind it there is none.
    let read = world.read(blocks(10, 16));
    assert_eq!(legs_with(&world, OpKind::Read), [1, 0]);
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    assert_eq!(answer(&world, read), None);
    end(&mut world, 1, OpKind::Read, Outcome::Good);
    assert!(is_read(&world, read));
    world.settle();
}

#[test]
fn a_write_makes_what_was_read_before_it_void() {
    let mut world = prefetched();
    write_under_way(&mut world, blocks(9, 1));
    world.pump();
    let read = world.read(blocks(8, 8));
    assert_eq!(legs_with(&world, OpKind::Read), [0]);
    world.pump();
    assert!(is_read(&world, read));
    world.settle();
}

#[test]
fn a_write_beside_it_does_not() {
    let mut world = prefetched();
    write_under_way(&mut world, blocks(16, 1));
    let read = world.read(blocks(8, 8));
    assert!(is_read(&world, read));
    world.settle();
}

#[test]
fn who_waits_when_a_write_comes_reads_anew() {
    let mut world = prefetching(2, 1);
    world.read(blocks(0, 8));
    world.set_policy(Box::new(First));
    let read = world.read(blocks(8, 4));
    write_under_way(&mut world, blocks(9, 1));
    let run = at_leg(&world, 0, OpKind::Read)[1];
    world.complete(run, Outcome::Good);
    assert_eq!(answer(&world, read), None, "it is nobody's");
    world.pump();
    assert!(is_read(&world, read));
    world.settle();
}

#[test]
fn nothing_is_read_ahead_where_a_write_is_under_way() {
    let mut world = prefetching(2, 2);
    write_under_way(&mut world, blocks(12, 1));
    world.read(blocks(0, 8));
    // The read itself, and the second run.
    assert_eq!(legs_with(&world, OpKind::Read), [0, 1]);
    world.settle();
}

#[test]
fn what_a_leg_cannot_read_is_read_by_who_wants_it() {
    let mut world = prefetching(2, 1);
    world.read(blocks(0, 8));
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    world.set_policy(Box::new(First));
    let read = world.read(blocks(8, 8));
    end(&mut world, 0, OpKind::Read, IO);
    assert_eq!(legs_with(&world, OpKind::Read), [0]);
    end(&mut world, 0, OpKind::Read, IO);
    assert_eq!(legs_with(&world, OpKind::Read), [1]);
    world.pump();
    assert!(is_read(&world, read));
    assert_eq!(world.engine.corrected_reads(LegId::new(0)), 8);
    world.settle();
}

#[test]
fn the_leg_may_fall_out() {
    let mut world = prefetching(2, 1);
    world.read(blocks(0, 8));
    world.set_policy(Box::new(First));
    let read = world.read(blocks(8, 4));
    world.fail_leg(LegId::new(0), FaultReason::ByHand);
    world.pump();
    assert!(is_read(&world, read));
    world.settle();
}

#[test]
fn what_nobody_wants_is_given_back() {
    let mut world = prefetched();
    let at = world.engine.next_deadline().expect("it is looked at");
    world.advance(at.saturating_since(world.now));
    assert_eq!(world.engine.next_deadline(), None);
    let read = world.read(blocks(8, 8));
    assert_eq!(answer(&world, read), None, "it is not there");
    world.settle();
}

#[test]
fn it_takes_a_share_of_the_memory_and_gives_it_back_to_who_needs_it() {
    let setup = Setup {
        memory_bytes: Config::MEMORY_MIN_BYTES,
        size_bytes: 200 * MIB,
        ..Setup::legs(2)
    };
    let policy = Prefetching {
        runs: 64,
        run_bytes: MIB,
    };
    let mut world = World::new(setup, Box::new(policy));
    world.read(Extent::new(0, 4096));
    let asked = legs_with(&world, OpKind::Read).len() as u64;
    assert_eq!(asked - 1, Config::MEMORY_MIN_BYTES as u64 / 4 / MIB);
    world.pump();
    world.set_policy(Box::new(Rotate::default()));
    let reads = [100, 132].map(|at| world.read(Extent::new(at * MIB, 32 * MIB)));
    assert_eq!(legs_with(&world, OpKind::Read), [1, 0], "both have memory");
    world.pump();
    assert!(reads.iter().all(|&read| is_read(&world, read)));
    world.settle();
}

#[test]
fn it_counts_what_it_did() {
    let mut world = prefetching(2, 2);
    world.read(blocks(0, 8));
    world.pump();
    world.set_policy(Box::new(First));
    world.read(blocks(8, 3));
    world.advance(Duration::from_ms(1));
    let figures = world.engine.prefetch_figures();
    assert_eq!((figures.read_bytes, figures.served_bytes), (8192, 3 * 512));
    world.settle();
}

#[test]
fn where_all_is_to_be_copied_from_the_first_leg_it_is_read() {
    let mut world = prefetching(2, 2);
    world.input(Input::PauseBackground);
    world.read(blocks(0, 8));
    world.set_policy(Box::new(First));
    world.pump();
    // The second run was read from the second leg.
    world.input(Input::StartResync { everything: true });
    let read = world.read(blocks(16, 8));
    assert_eq!(answer(&world, read), None);
    assert_eq!(legs_with(&world, OpKind::Read), [0]);
    world.input(Input::ResumeBackground);
    world.settle();
}

#[test]
fn who_waits_for_memory_gets_that_of_a_run_when_its_readers_are_served() {
    let setup = Setup {
        memory_bytes: Config::MEMORY_MIN_BYTES,
        size_bytes: 400 * MIB,
        ..Setup::legs(2)
    };
    let policy = Prefetching {
        runs: 1,
        run_bytes: MIB,
    };
    let mut world = World::new(setup, Box::new(policy));
    world.read(Extent::new(0, 4096));
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    world.set_policy(Box::new(First));
    let reader = world.read(Extent::new(8192, 4096));
    let used = |world: &World| world.engine.buffers().used_bytes() as u64;
    let mut reads = Vec::new();
    let mut before = 0;
    // As many as there is memory for, and one more, which waits.
    for at in 100.. {
        reads.push(world.read(Extent::new(at * MIB, MIB)));
        if used(&world) == before {
            break;
        }
        before = used(&world);
    }
    let run = at_leg(&world, 0, OpKind::Read)[0];
    world.complete(run, Outcome::Good);
    assert!(is_read(&world, reader));
    assert_eq!(world.engine.prefetched_bytes(), 0);
    assert_eq!(used(&world), before, "the last read has its memory");
    world.pump();
    assert!(reads.iter().all(|&read| is_read(&world, read)));
    world.settle();
}
