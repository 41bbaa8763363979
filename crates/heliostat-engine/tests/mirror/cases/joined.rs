//! What is done as one, step by step.

use heliostat_engine::{Event, FaultReason, LegConfig};
use heliostat_scheduler::SchedulerSpec;
use heliostat_types::{ErrorKind, Extent, LegId, OpKind};

use super::{DONE, answer, at_leg, block, blocks, deliver_all, end};
use crate::meta::Meta;
use crate::policies::{First, Prefetching};
use crate::world::{LEG, Outcome, Setup, World};

const IO: Outcome = Outcome::Bad(ErrorKind::Io);

/// A leg that takes one operation at a time.
const NARROW: LegConfig = LegConfig {
    queue_depth: 1,
    ..LEG
};

fn setup(legs: usize) -> Setup {
    Setup {
        scheduler: SchedulerSpec::parse("deadline").expect("it is one"),
        legs: vec![NARROW; legs],
        ..Setup::legs(legs)
    }
}

fn world(legs: usize) -> World {
    world_of(setup(legs))
}

/// What is done as one is of one client.
fn world_of(setup: Setup) -> World {
    let mut world = World::new(setup, Box::new(First));
    world.clients = 1;
    world.tell_deadline();
    world.pump();
    world
}

/// The extents that a leg has of a kind.
fn extents(world: &World, leg: usize, kind: OpKind) -> Vec<Extent> {
    let found = at_leg(world, leg, kind).into_iter();
    found.map(|at| world.pending[at].op.extent).collect()
}

#[test]
fn what_waits_in_a_row_goes_as_one_and_is_answered_one_by_one() {
    for kind in [OpKind::Read, OpKind::Write] {
        let mut world = world(2);
        let ask = |world: &mut World, extent| {
            if kind == OpKind::Read {
                return world.read(extent);
            }
            let request = world.write(extent);
            deliver_all(world);
            request
        };
        ask(&mut world, block(20));
        let in_row: Vec<u64> = [5, 7, 4, 6]
            .map(|number| ask(&mut world, block(number)))
            .into();
        let apart = ask(&mut world, block(9));
        end(&mut world, 0, kind, Outcome::Good);
        assert_eq!(extents(&world, 0, kind), [4, 5, 6, 7].map(block));
        assert_eq!(world.engine.leg_stats(world.now, LegId::new(0)).merges, 3);
        world.pump();
        for request in in_row.into_iter().chain([apart]) {
            assert!(matches!(answer(&world, request), Some(Ok(_))));
        }
        world.settle();
    }
}

#[test]
fn what_is_not_alike_goes_by_itself() {
    let mut world = world(1);
    let busy = world.write(block(20));
    deliver_all(&mut world);
    world.write(block(4));
    world.write_fua(block(5));
    world.zeroes(block(6), false, false, false);
    world.read(block(7));
    world.read(block(9));
    while let Some(&at) = world.find(|_| true).first() {
        assert_eq!(world.pending[at].op.next, None);
        world.complete(at, Outcome::Good);
    }
    assert_eq!((answer(&world, busy), world.merges), (DONE, 0));
    world.settle();
}

#[test]
fn no_more_bytes_go_as_one_than_suit_the_leg() {
    let mut setup = setup(1);
    setup.legs[0].optimal_io_bytes = 2048;
    let mut world = world_of(setup);
    world.read(block(40));
    for number in 0..8 {
        world.read(block(number));
    }
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    assert_eq!(extents(&world, 0, OpKind::Read), [0, 1, 2, 3].map(block));
    world.pump();
    world.settle();
}

#[test]
fn of_reads_that_failed_as_one_only_the_bad_one_is_read_elsewhere() {
    let mut world = world(2);
    world.read(block(20));
    let reads: Vec<u64> = (4..8).map(|number| world.read(block(number))).collect();
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    assert_eq!(extents(&world, 0, OpKind::Read).len(), 4);
    world.legs[0].bad.insert(6);
    end(&mut world, 0, OpKind::Read, IO);
    // One after the other, each by itself.
    let mut again = Vec::new();
    while let [at] = at_leg(&world, 0, OpKind::Read)[..] {
        let op = world.pending[at].op;
        assert_eq!(op.next, None);
        again.push(op.extent);
        let is_bad = op.extent == block(6);
        world.complete(at, if is_bad { IO } else { Outcome::Good });
    }
    assert_eq!(again, [4, 5, 6, 7].map(block));
    let failed_over = |event: &&Event| matches!(event, Event::ReadFailedOver { .. });
    let failed_over: Vec<Event> = world.events.iter().filter(failed_over).copied().collect();
    let only_bad = Event::ReadFailedOver {
        leg: LegId::new(0),
        extent: block(6),
        kind: ErrorKind::Io,
    };
    assert_eq!(failed_over, [only_bad]);
    assert_eq!(
        world
            .engine
            .leg_stats(world.now, LegId::new(0))
            .account
            .of(OpKind::Read)
            .errors,
        1
    );
    world.pump();
    for read in reads {
        assert!(matches!(answer(&world, read), Some(Ok(_))));
    }
    world.settle();
}

#[test]
fn of_writes_that_failed_as_one_only_the_bad_block_is_logged() {
    let meta = Meta {
        chunk_bytes: Some(4096),
        daemon_sleep_seconds: 5,
        events: 10,
        has_log: true,
    };
    let mut setup = setup(2);
    setup.meta = Some(meta);
    for leg in &mut setup.legs {
        leg.data_offset_bytes = 64 << 10;
    }
    let mut world = world_of(setup);
    world.legs[1].stuck.extend([10]);
    // The bits are set, and both legs are busy.
    world.write(block(8));
    world.pump();
    world.write(block(14));
    let writes: Vec<u64> = (9..12).map(|number| world.write(block(number))).collect();
    world.pump();
    assert!(world.merges > 0);
    let bad = world.engine.bad_blocks(LegId::new(1));
    let bad: Vec<_> = bad.ranges().map(|range| (range.start, range.end)).collect();
    assert_eq!(bad, [(10, 11)]);
    for write in writes {
        assert_eq!(answer(&world, write), DONE);
    }
    assert_eq!(world.in_sync(), [0, 1]);
    world.settle();
}

#[test]
fn nothing_goes_as_one_before_the_bits_of_all_of_it_are_durable() {
    const CHUNK: u64 = 4096;
    let meta = Meta {
        chunk_bytes: Some(4096),
        daemon_sleep_seconds: 5,
        events: 10,
        has_log: false,
    };
    let mut setup = setup(2);
    setup.meta = Some(meta);
    for leg in &mut setup.legs {
        leg.data_offset_bytes = 64 << 10;
    }
    let mut world = world_of(setup);
    // A chunk that is dirty, and others beside it that are not: they are written in a row.
    world.write(Extent::new(0, CHUNK));
    world.pump();
    world.read(block(60));
    world.write(Extent::new(0, CHUNK));
    for chunk in 1..4 {
        world.write(Extent::new(chunk * CHUNK, CHUNK));
    }
    let data = |world: &World, leg: usize| -> Vec<Extent> {
        let found = at_leg(world, leg, OpKind::Write).into_iter();
        let ops = found.map(|at| world.pending[at].op);
        ops.filter(|op| !world.is_metadata(op))
            .map(|op| op.extent)
            .collect()
    };
    let mut largest = 0;
    while !world.pending.is_empty() {
        // Whatever is sent is judged by what the legs durably say; and the undirtied chunks wait.
        let metadata = world.find(|pending| world.is_metadata(&pending.op));
        let is_waiting = !metadata.is_empty();
        let sent = data(&world, 0);
        largest = largest.max(sent.len());
        assert!(!is_waiting || sent.len() <= 1, "{sent:?}");
        world.complete(0, Outcome::Good);
    }
    // The first one found a leg with nothing to do; the others went behind it.
    assert_eq!(largest, 2, "then they are done as one");
    world.settle();
}

#[test]
fn a_leg_that_goes_takes_what_it_does_as_one_along() {
    for reason in [FaultReason::ByHand, FaultReason::Short] {
        let mut world = world(2);
        let first = world.read(block(20));
        let reads: Vec<u64> = (4..8).map(|number| world.read(block(number))).collect();
        end(&mut world, 0, OpKind::Read, Outcome::Good);
        world.fail_leg(LegId::new(0), reason);
        // The other leg is asked, while the first one keeps its memory until it has ended.
        world.pump();
        for read in reads.into_iter().chain([first]) {
            assert!(matches!(answer(&world, read), Some(Ok(_))));
        }
        assert_eq!(world.in_sync(), [1]);
        world.settle();
    }
}

#[test]
fn a_leg_that_goes_while_they_are_sent_again_takes_them_along() {
    let mut world = world(2);
    world.read(block(20));
    let reads: Vec<u64> = (4..8).map(|number| world.read(block(number))).collect();
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    end(&mut world, 0, OpKind::Read, IO);
    // One is sent, three wait.
    assert_eq!(extents(&world, 0, OpKind::Read), [block(4)]);
    world.fail_leg(LegId::new(0), FaultReason::ByHand);
    world.pump();
    for read in reads {
        assert!(matches!(answer(&world, read), Some(Ok(_))));
    }
    world.settle();
}

#[test]
fn a_long_row_is_cut_where_the_most_is_done_as_one() {
    let mut setup = setup(1);
    setup.size_bytes = 4 << 20;
    let mut world = world_of(setup);
    world.read(block(8000));
    for number in 0..200 {
        world.read(block(number));
    }
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    assert_eq!(extents(&world, 0, OpKind::Read).len(), 128, "pieces");
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    assert_eq!(extents(&world, 0, OpKind::Read).len(), 72);
    world.pump();
    for at in 0..3 {
        world.read(blocks(at * 1000, 1000));
    }
    world.read(blocks(3000, 100));
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    let lens: u64 = extents(&world, 0, OpKind::Read)
        .iter()
        .map(|extent| extent.len())
        .sum();
    assert!(lens <= 1 << 20, "{lens} bytes");
    world.pump();
    world.settle();
}

#[test]
fn of_what_is_read_ahead_some_is_left_for_when_the_first_of_it_is_there() {
    let setup = Setup {
        size_bytes: 8 << 20,
        memory_bytes: 256 << 20,
        ..setup(1)
    };
    let policy = Prefetching {
        runs: 4,
        run_bytes: 256 << 10,
    };
    let mut world = World::new(setup, Box::new(policy));
    world.pump();
    world.read(blocks(0, 8));
    world.set_policy(Box::new(First));
    for _ in 0..2 {
        end(&mut world, 0, OpKind::Read, Outcome::Good);
        let lens = extents(&world, 0, OpKind::Read);
        let lens: Vec<u64> = lens.iter().map(|extent| extent.len()).collect();
        assert_eq!(lens, [256 << 10; 2]);
    }
    world.pump();
    world.settle();
}
