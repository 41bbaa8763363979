//! Legs that are to go because they fail reads, while they alone have writes that were answered.

use heliostat_engine::{Event, FaultReason, LegConfig, LegState, Map, Missed};
use heliostat_types::{Duration, ErrorKind, LegId, OpKind};

use super::{IO, SLOW, answered, end, out, world_of};
use crate::cases::{DONE, answer, at_leg, block, deliver_all};
use crate::meta::Meta;
use crate::policies::First;
use crate::world::{LEG, Outcome, Reply, Setup, World};

const SIZE_BYTES: u64 = 64 << 10;

/// Legs with metadata, and perhaps with logs of bad blocks.
fn recorded(legs: &[LegConfig], map: Option<Map>, has_log: bool) -> World {
    let place = |(number, leg): (u64, &LegConfig)| LegConfig {
        data_offset_bytes: (64 + 4 * number) << 10,
        ..*leg
    };
    let setup = Setup {
        legs: (0..).zip(legs).map(place).collect(),
        map,
        size_bytes: SIZE_BYTES,
        meta: Some(Meta {
            chunk_bytes: Some(4096),
            daemon_sleep_seconds: 5,
            events: 10,
            has_log,
        }),
        write_behind: 8,
        ..Setup::legs(1)
    };
    let mut world = World::new(setup, Box::new(First));
    world.tell_deadline();
    world.pump();
    world.write(block(100));
    world.pump();
    world
}

/// Leg 0 has gone for reads that it failed.
fn is_gone(world: &World) -> bool {
    let gone = Event::LegFaulted {
        leg: LegId::new(0),
        reason: FaultReason::ReadFailed(ErrorKind::Io),
    };
    world.events.contains(&gone)
}

/// Whose reads fail.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    Work,
    FailOnLeg0,
}

/// Everything ends but the writes of clients at the legs that are `late`.
fn go_on(world: &mut World, late: &[usize], reads: Reads) {
    loop {
        deliver_all(world);
        let others = world.find(|pending| {
            let op = &pending.op;
            let is_write = op.kind == OpKind::Write && !world.is_metadata(op);
            !(is_write && late.contains(&op.leg.index()))
        });
        let Some(&at) = others.first() else {
            break;
        };
        let op = world.pending[at].op;
        let fails = reads == Reads::FailOnLeg0 && op.leg.index() == 0 && op.kind == OpKind::Read;
        let is_bad = fails || world.meets_bad(at);
        world.complete(at, if is_bad { IO } else { Outcome::Good });
    }
}

/// A write that all but the late legs have.
fn behind(world: &mut World, late: &[usize]) {
    let write = world.write(block(0));
    go_on(world, late, Reads::Work);
    assert_eq!(answer(world, write), DONE);
}

/// Leg 0 fails so many reads that it is to go.
fn fail_reads(world: &mut World, late: &[usize]) {
    for number in 1..30 {
        world.read(block(number));
        go_on(world, late, Reads::FailOnLeg0);
    }
}

/// Two legs, of which the first is to go and alone has an answered write.
fn leaving(first: LegConfig) -> World {
    let mut world = world_of(&[first, SLOW], 8);
    answered(&mut world, block(0));
    fail_reads(&mut world, &[1]);
    assert_eq!(world.in_sync(), [0, 1]);
    assert_eq!(is_leaving(&world), [true, false]);
    world
}

/// Whether each of two legs is to go.
fn is_leaving(world: &World) -> [bool; 2] {
    [0, 1].map(|leg| world.engine.is_leaving(LegId::new(leg)))
}

fn is_read(world: &mut World) -> bool {
    let read = world.read(block(0));
    go_on(world, &[], Reads::Work);
    matches!(answer(world, read), Some(Ok(Reply::Data(_))))
}

#[test]
fn it_goes_when_others_have_what_was_answered() {
    for failfast in [false, true] {
        let mut world = leaving(LegConfig { failfast, ..LEG });
        let write = world.write(block(40));
        end(&mut world, 0, OpKind::Write, Outcome::Good);
        assert_eq!(answer(&world, write), None, "nothing more goes behind");
        let flush = world.flush();
        end(&mut world, 1, OpKind::Write, Outcome::Good);
        assert!(out(&world, 0), "nothing is on it alone");
        assert!(is_gone(&world));
        assert_eq!(is_leaving(&world), [false; 2]);
        world.pump();
        assert_eq!((answer(&world, write), answer(&world, flush)), (DONE, DONE));
        world.settle();
    }
}

#[test]
fn it_goes_as_soon_as_one_other_leg_has_it() {
    let mut world = world_of(&[LEG, SLOW, SLOW], 8);
    answered(&mut world, block(0));
    fail_reads(&mut world, &[1, 2]);
    assert_eq!(world.in_sync(), [0, 1, 2]);
    end(&mut world, 1, OpKind::Write, Outcome::Good);
    assert_eq!(world.in_sync(), [1, 2]);
    world.settle();
}

#[test]
fn it_goes_at_once_where_another_has_it() {
    let mut world = world_of(&[LEG, SLOW, LEG], 8);
    behind(&mut world, &[1]);
    fail_reads(&mut world, &[1]);
    assert_eq!(world.in_sync(), [1, 2]);
    world.settle();
}

#[test]
fn it_stays_where_the_late_leg_fails_the_write() {
    let mut world = leaving(LEG);
    end(&mut world, 1, OpKind::Write, IO);
    assert_eq!(world.in_sync(), [0]);
    let flush = world.flush();
    world.pump();
    assert_eq!(answer(&world, flush), DONE);
    assert!(is_read(&mut world));
    world.settle();
}

#[test]
fn it_stays_where_the_late_leg_could_log_what_it_failed() {
    let mut world = recorded(&[LEG, SLOW], None, true);
    behind(&mut world, &[1]);
    fail_reads(&mut world, &[1]);
    world.legs[1].stuck.insert(0);
    let flush = world.flush();
    go_on(&mut world, &[], Reads::Work);
    assert_eq!(world.in_sync(), [0]);
    assert_eq!(answer(&world, flush), DONE);
    assert!(is_read(&mut world));
}

#[test]
fn a_leg_that_logged_what_it_failed_does_not_have_it() {
    let mut world = recorded(&[LEG, SLOW, SLOW], None, true);
    behind(&mut world, &[1, 2]);
    world.legs[1].stuck.insert(0);
    go_on(&mut world, &[2], Reads::Work);
    fail_reads(&mut world, &[2]);
    assert_eq!(world.in_sync(), [0, 1, 2], "leg 0 alone has it");
    world.fail_leg(LegId::new(2), FaultReason::ByHand);
    go_on(&mut world, &[], Reads::Work);
    assert!(is_read(&mut world));
}

/// Leg 1 is being rebuilt: leg 0 stays whatever it fails, and writes go behind all the same.
#[test]
fn the_last_leg_is_not_to_go() {
    let slow = LegConfig {
        state: LegState::Faulted,
        ..SLOW
    };
    let mut world = world_of(&[LEG, slow], 8);
    world.set_rates(0, 1);
    assert!(world.add_leg(LegId::new(1), None, Missed::From(0)));
    go_on(&mut world, &[1], Reads::Work);
    let write = world.write(block(60));
    go_on(&mut world, &[1], Reads::Work);
    assert_eq!(answer(&world, write), DONE, "it is behind");
    fail_reads(&mut world, &[1]);
    let kept = Event::LastLegKept {
        leg: LegId::new(0),
        reason: FaultReason::ReadFailed(ErrorKind::Io),
    };
    assert!(world.events.contains(&kept));
    let write = world.write(block(50));
    go_on(&mut world, &[1], Reads::Work);
    assert_eq!(answer(&world, write), DONE, "it is behind");
}

/// Leg 2 has taken the role of leg 0, which was to go. What then gets its number is another one.
#[test]
fn a_leg_that_was_replaced_is_not_to_go_any_more() {
    let by = LegConfig {
        state: LegState::Missing,
        ..LEG
    };
    let mut world = recorded(&[LEG, SLOW, by], Some(Map::mirror(2, SIZE_BYTES)), false);
    world.set_rates(u64::MAX, u64::MAX);
    assert!(world.replace(LegId::new(0)));
    // Until the last commit, which it takes to give the role away.
    while world.engine.missing_bytes(LegId::new(2)) != Some(0) {
        if !world.pump_one() {
            world.now = world
                .now
                .max(world.engine.next_deadline().expect("it goes on"));
            world.tell_deadline();
        }
    }
    let write = world.write(block(0));
    let data_of = |world: &World, leg: usize| {
        let found = at_leg(world, leg, OpKind::Write).into_iter();
        found
            .filter(|&at| !world.is_metadata(&world.pending[at].op))
            .collect::<Vec<_>>()
    };
    for leg in [0, 2] {
        deliver_all(&mut world);
        while data_of(&world, leg).is_empty() {
            let commits = world.find(|pending| world.is_metadata(&pending.op));
            world.complete(commits[0], Outcome::Good);
            deliver_all(&mut world);
        }
        let at = data_of(&world, leg)[0];
        world.complete(at, Outcome::Good);
    }
    assert_eq!(answer(&world, write), DONE);
    for number in 1..30 {
        world.read(block(number));
        loop {
            let reads = world.find(|pending| {
                let op = &pending.op;
                let is_late = op.leg.index() == 1 && op.kind == OpKind::Write;
                !is_late && op.kind != OpKind::Flush && !world.is_metadata(op)
            });
            let Some(&at) = reads.first() else {
                break;
            };
            let op = world.pending[at].op;
            let fails = op.leg.index() == 0 && op.kind == OpKind::Read;
            world.complete(at, if fails { IO } else { Outcome::Good });
        }
    }
    assert_eq!(world.in_sync(), [0, 1]);
    for _ in 0..5 {
        go_on(&mut world, &[1], Reads::Work);
        world.advance(Duration::from_secs(1));
    }
    assert_eq!(world.in_sync(), [1, 2]);
    assert!(world.replace(LegId::new(2)));
    go_on(&mut world, &[], Reads::Work);
    assert!(!is_gone(&world));
}
