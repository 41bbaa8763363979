//! What is counted of requests and operations, at moments that are known exactly.

use heliostat_engine::{FaultReason, Input, LegConfig};
use heliostat_types::{Duration, FlowId, LegId, OpKind};

use super::{at_leg, block, end, with_legs, world, write_under_way};
use crate::world::{LEG, Outcome, Setup, World};

const NARROW: LegConfig = LegConfig {
    queue_depth: 1,
    ..LEG
};

fn ms(count: u64) -> Duration {
    Duration::from_ms(count)
}

const MS: u128 = 1_000_000;

/// Requests of all clients that have ended, and are in flight.
fn requests(world: &World, kind: OpKind) -> (u64, u64) {
    let total = world.engine.accounts(world.now).total();
    (total.of(kind).count(), total.of(kind).in_flight())
}

#[test]
fn waiting_for_a_leg_and_its_work_are_told_apart() {
    let mut world = with_legs(&[NARROW]);
    world.read(block(0));
    world.read(block(1));
    world.advance(ms(5));
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    world.advance(ms(3));
    let stats = world.engine.leg_stats(world.now, LegId::new(0));
    let reads = stats.account.of(OpKind::Read);
    assert_eq!((reads.count(), reads.in_flight()), (1, 1));
    assert_eq!(reads.weighted_ns(), (5 + 8) * MS);
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    world.advance(ms(100));
    let stats = world.engine.leg_stats(world.now, LegId::new(0));
    let reads = stats.account.of(OpKind::Read);
    let service = reads.times().unwrap().fine_ns();
    assert_eq!((service.min(), service.max()), (3_000_000, 5_000_000));
    let waits = stats.read_waits.among(reads);
    let waits = waits.fine_ns();
    assert_eq!((waits.count(), waits.min(), waits.max()), (2, 0, 5_000_000));
    assert_eq!(reads.weighted_ns(), (5 + 8) * MS);
    assert_eq!(stats.account.ticks(world.now), ms(8));
    assert_eq!(reads.bytes, 1024);

    let accounts = world.engine.accounts(world.now);
    let total = accounts.total();
    let times = total.of(OpKind::Read).times().unwrap();
    assert_eq!(times.fine_ns().max(), 8_000_000);
    assert_eq!(&times.buckets_ms()[..3], [1, 1, 0]);
    assert_eq!(accounts.ticks, ms(8));
    world.settle();
}

#[test]
fn one_write_is_an_operation_on_each_leg() {
    let mut world = world(3);
    write_under_way(&mut world, block(0));
    assert_eq!(requests(&world, OpKind::Write), (0, 1));
    world.advance(ms(1));
    for (leg, took) in [(1, 1), (0, 2), (2, 4)] {
        end(&mut world, leg, OpKind::Write, Outcome::Good);
        let stats = world.engine.leg_stats(world.now, LegId::new(leg));
        let times = stats.account.of(OpKind::Write).times().unwrap().clone();
        assert_eq!(times.fine_ns().max(), took * 1_000_000, "leg {leg}");
        world.advance(ms(1 + u64::from(leg == 0)));
    }
    // It was answered when the last leg had it.
    assert_eq!(requests(&world, OpKind::Write), (1, 0));
    let total = world.engine.accounts(world.now).total();
    let times = total.of(OpKind::Write).times().unwrap().clone();
    assert_eq!(times.fine_ns().max(), 4_000_000);
    world.settle();
}

#[test]
fn a_request_that_a_leg_keeps_is_late_while_it_does() {
    let mut world = World::new(
        Setup {
            leg_timeout: Duration::from_secs(60),
            ..Setup::legs(2)
        },
        Box::new(crate::policies::First),
    );
    world.read(block(0));
    let late = |world: &World| -> (u64, u64) {
        let accounts = world.engine.accounts(world.now);
        let in_flight = accounts.flows.iter().map(|flow| flow.late_in_flight);
        (in_flight.sum(), accounts.total().of(OpKind::Read).late)
    };
    world.advance(Duration::from_secs(9));
    assert_eq!(late(&world), (0, 0));
    world.advance(Duration::from_secs(1));
    assert_eq!(late(&world), (1, 0));
    world.input(Input::ResetStats(None));
    assert_eq!(late(&world), (1, 0));
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    assert_eq!(late(&world), (0, 1));
    world.pump();
}

#[test]
fn what_a_leg_never_got_is_in_flight_no_more_when_it_is_out() {
    let mut world = with_legs(&[NARROW, LEG]);
    world.read(block(0));
    world.read(block(1));
    world.advance(ms(4));
    world.fail_leg(LegId::new(0), FaultReason::ByHand);
    let of_first = |world: &World| {
        let stats = world.engine.leg_stats(world.now, LegId::new(0));
        stats.account.of(OpKind::Read).clone()
    };
    let reads = of_first(&world);
    assert_eq!((reads.count(), reads.in_flight()), (0, 1));
    world.advance(ms(2));
    assert_eq!(of_first(&world).weighted_ns(), (6 + 4) * MS);
    assert_eq!(at_leg(&world, 1, OpKind::Read).len(), 2);
    world.settle();
}

#[test]
fn a_reset_of_one_leg_leaves_the_rest() {
    let mut world = world(2);
    let write = write_under_way(&mut world, block(0));
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    end(&mut world, 1, OpKind::Write, Outcome::Good);
    assert!(world.answers.contains_key(&write));
    world.advance(ms(1));
    world.input(Input::ResetStats(Some(LegId::new(1))));
    let writes = |world: &World, leg| {
        let stats = world.engine.leg_stats(world.now, LegId::new(leg));
        stats.account.of(OpKind::Write).count()
    };
    assert_eq!((writes(&world, 0), writes(&world, 1)), (1, 0));
    assert_eq!(requests(&world, OpKind::Write), (1, 0));
    world.input(Input::ResetStats(None));
    assert_eq!((writes(&world, 0), writes(&world, 1)), (0, 0));
    assert_eq!(requests(&world, OpKind::Write), (0, 0));
    assert_eq!(world.engine.accounts(world.now).since, world.now);
    world.settle();
}

#[test]
fn who_has_gone_is_still_counted() {
    let mut world = world(2);
    for number in 0..20 {
        world.read(block(number));
    }
    world.pump();
    let flows = world.engine.accounts(world.now).flows;
    assert_eq!(flows.len(), 3);
    let told: u64 = flows
        .iter()
        .map(|flow| flow.account.of(OpKind::Read).count())
        .sum();
    assert_eq!(told, 20);
    let gone = world.engine.close_account(FlowId(1)).unwrap();
    assert!(gone.of(OpKind::Read).count() > 0);
    assert_eq!(world.engine.accounts(world.now).flows.len(), 2);
    assert_eq!(requests(&world, OpKind::Read), (20, 0));
    world.settle();
}
