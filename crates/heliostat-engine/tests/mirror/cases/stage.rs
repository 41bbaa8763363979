//! A scheduler in front of the array, step by step.

use heliostat_engine::{FaultReason, LegConfig, SchedulerPlace};
use heliostat_scheduler::SchedulerSpec;
use heliostat_types::{Duration, Extent, LegId, OpKind};

use super::{DONE, answer, at_leg, block, deliver_all};
use crate::policies::First;
use crate::world::{LEG, Outcome, Setup, World};

/// One leg that takes so many operations, and a scheduler on the array.
fn world(queue_depth: u32, scheduler: &str) -> World {
    let leg = LegConfig { queue_depth, ..LEG };
    let setup = Setup {
        scheduler: SchedulerSpec::parse(scheduler).expect("it is one"),
        scheduler_on: SchedulerPlace::Array,
        legs: vec![leg],
        size_bytes: 1 << 20,
        ..Setup::legs(1)
    };
    let mut world = World::new(setup, Box::new(First));
    world.clients = 1;
    world
}

/// Ends what the leg has, one after the other: the order in which it got it.
fn order(world: &mut World, kind: OpKind) -> Vec<Extent> {
    let mut order = Vec::new();
    while let Some(&at) = world.find(|_| true).first() {
        let op = world.pending[at].op;
        order.extend((op.kind == kind).then_some(op.extent));
        world.complete(at, Outcome::Good);
    }
    order
}

#[test]
fn requests_wait_in_front_of_the_array_and_go_in_by_place() {
    let mut world = world(1, "deadline");
    for number in [5, 9, 1, 7] {
        world.read(block(number));
    }
    assert_eq!(at_leg(&world, 0, OpKind::Read).len(), 1);
    assert_eq!(
        world.engine.leg_in_flight(LegId::new(0)),
        (1, 0),
        "no queue"
    );
    assert!(!world.engine.is_idle());
    assert_eq!(order(&mut world, OpKind::Read), [5, 7, 9, 1].map(block));
    world.settle();
}

#[test]
fn no_more_than_the_largest_number_is_looked_at() {
    let mut world = world(1, "deadline");
    world.read(block(0));
    // The last ones would be first by place.
    for number in (1..200).rev() {
        world.read(block(number));
    }
    let order = order(&mut world, OpKind::Read);
    let looked_at: Vec<u64> = order.iter().map(|extent| extent.offset() / 512).collect();
    assert_eq!(looked_at[..2], [0, 72], "the lowest of 128");
    world.settle();
}

#[test]
fn how_many_are_looked_at_can_be_set_while_they_wait() {
    let mut world = world(1, "deadline:nr_requests=3");
    for number in [0, 9, 5, 1, 7, 3] {
        world.read(block(number));
    }
    // The one that is being done is one of them.
    let next = |world: &mut World| {
        world.complete(0, Outcome::Good);
        world.pending[0].op.extent.offset() / 512
    };
    assert_eq!(next(&mut world), 1, "of 9, 5 and 1, as 0 was answered");
    let more = SchedulerSpec::parse("deadline:nr_requests=100").expect("it is one");
    world.set_scheduler(more);
    assert_eq!(order(&mut world, OpKind::Read), [1, 3, 5, 7, 9].map(block));
    world.settle();
}

#[test]
fn flushes_and_queries_go_by_and_durable_writes_go_first() {
    let mut world = world(1, "deadline");
    let busy = world.write(block(0));
    deliver_all(&mut world);
    for number in 10..14 {
        world.write(block(number));
    }
    world.write_fua(block(20));
    world.flush();
    world.status(block(3));
    let queued = world.find(|_| true).len();
    assert_eq!(queued, 1, "the leg takes one");
    let order = order(&mut world, OpKind::Write);
    assert_eq!(order[..2], [block(0), block(20)]);
    world.pump();
    assert_eq!(answer(&world, busy), DONE);
    world.settle();
}

#[test]
fn another_scheduler_takes_over_what_waits() {
    let mut world = world(1, "deadline");
    for number in [5, 9, 1, 7] {
        world.read(block(number));
    }
    world.set_scheduler(SchedulerSpec::None);
    assert_eq!(order(&mut world, OpKind::Read), [5, 9, 1, 7].map(block));
    world.settle();
}

#[test]
fn writes_that_have_memory_do_not_wait_for_reads_that_need_it() {
    let mut world = world(1, "deadline");
    world.setup.size_bytes = 1 << 20;
    let large = Extent::new(0, 1 << 20);
    // All memory is with writes that wait, and reads wait for memory in the places.
    let mut writes = Vec::new();
    while let Some(allocated) = world.alloc(large) {
        writes.push(world.send(allocated, false));
    }
    let reads: Vec<u64> = (0..4).map(|_| world.read(large)).collect();
    deliver_all(&mut world);
    world.pump();
    world.advance(Duration::from_secs(1));
    world.pump();
    for request in writes.into_iter().chain(reads) {
        assert!(matches!(answer(&world, request), Some(Ok(_))));
    }
    world.settle();
}

#[test]
fn writes_that_are_not_looked_at_do_not_wait_for_a_read_that_needs_their_memory() {
    let mut world = world(1, "deadline:nr_requests=1");
    let large = Extent::new(0, 1 << 20);
    let mut writes = Vec::new();
    while let Some(allocated) = world.alloc(large) {
        writes.push(allocated);
    }
    // It is the only one that is looked at, and waits for memory.
    let read = world.read(large);
    let writes: Vec<u64> = writes
        .into_iter()
        .map(|allocated| world.send(allocated, false))
        .collect();
    deliver_all(&mut world);
    world.pump();
    world.advance(Duration::from_secs(1));
    world.pump();
    for request in writes.into_iter().chain([read]) {
        assert!(matches!(answer(&world, request), Some(Ok(_))));
    }
    world.settle();
}

#[test]
fn each_leg_that_is_there_now_is_given_its_part() {
    const MIB: u64 = 1 << 20;
    let leg = LegConfig {
        rotational: true,
        ..LEG
    };
    let setup = Setup {
        scheduler: SchedulerSpec::parse("fair").expect("it is one"),
        scheduler_on: SchedulerPlace::Array,
        legs: vec![leg; 2],
        size_bytes: 64 * MIB,
        memory_bytes: 128 << 20,
        ..Setup::legs(2)
    };
    let mut world = World::new(setup, Box::new(First));
    world.clients = 1;
    for number in 0..40 {
        world.read(Extent::new(number * MIB, MIB));
    }
    let reads = |world: &World| world.find(|pending| pending.op.kind == OpKind::Read).len();
    // 8 MiB for each leg.
    assert_eq!(reads(&world), 16);
    world.fail_leg(LegId::new(1), FaultReason::ByHand);
    for _ in 0..10 {
        world.complete(0, Outcome::Good);
    }
    assert_eq!(reads(&world), 8);
    while reads(&world) > 0 {
        world.complete(0, Outcome::Good);
    }
    world.settle();
}

#[test]
fn writes_that_share_a_buffer_go_in_by_place_as_others_do() {
    let mut world = world(1, "deadline");
    let busy = world.write(block(20));
    deliver_all(&mut world);
    // What a client writes to a volume whose second extent lies in front of the first one.
    let writes = world.writes(&[block(90), block(50)], false);
    assert_eq!(order(&mut world, OpKind::Write), [20, 50, 90].map(block));
    for request in [busy].into_iter().chain(writes) {
        assert_eq!(answer(&world, request), DONE);
    }
    world.settle();
}
