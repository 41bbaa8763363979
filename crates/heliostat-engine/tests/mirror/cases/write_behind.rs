//! Writes that are answered before write-mostly legs have them, step by step. Leg 0 is fast, and
//! the last ones are slow.

mod leaving;

use heliostat_engine::{Event, FaultReason, LegConfig};
use heliostat_types::{Duration, ErrorKind, Extent, LegId, OpKind};

use super::{DONE, MIB, answer, at_leg, block, blocks, deliver_all, end, legs_with};
use crate::fill::Fill;
use crate::policies::{First, Rotate};
use crate::world::{LEG, Outcome, Reply, Setup, World};

const IO: Outcome = Outcome::Bad(ErrorKind::Io);
const SLOW: LegConfig = LegConfig {
    write_mostly: true,
    ..LEG
};

/// As many writes may be behind as `most`.
fn world_of(legs: &[LegConfig], most: u32) -> World {
    let setup = Setup {
        legs: legs.to_vec(),
        write_behind: most,
        ..Setup::legs(1)
    };
    let mut world = World::new(setup, Box::new(First));
    // The record is dirty from now on.
    world.write(block(100));
    world.pump();
    world
}

fn world() -> World {
    world_of(&[LEG, SLOW], 8)
}

/// All legs but the slow ones have a write, which is answered.
fn answered(world: &mut World, extent: Extent) -> u64 {
    let write = world.write(extent);
    end(world, 0, OpKind::Write, Outcome::Good);
    assert_eq!(answer(world, write), DONE);
    write
}

fn out(world: &World, leg: usize) -> bool {
    !world.in_sync().contains(&leg)
}

#[test]
fn an_answer_does_not_wait_for_a_slow_leg() {
    let mut world = world();
    let write = world.write(blocks(0, 4));
    assert_eq!(legs_with(&world, OpKind::Write), [0, 1]);
    assert_eq!(answer(&world, write), None);
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    assert_eq!(answer(&world, write), DONE);
    let figures = world.engine.write_behind();
    assert_eq!((figures.writes, figures.bytes), (1, 2048));
    assert!(!world.engine.is_idle());
    end(&mut world, 1, OpKind::Write, Outcome::Good);
    let figures = world.engine.write_behind();
    assert_eq!((figures.writes, figures.bytes, figures.total), (0, 0, 2));
    world.settle();
    assert!(!world.engine.record().dirty);
}

/// The checker's: what a leg stored before a write was asked for is not that write, whatever the
/// bytes are.
#[test]
fn a_byte_that_is_there_by_chance_is_not_stored() {
    let mut world = world();
    let first = world.checker.next_write();
    let large = blocks(0, 8);
    let byte = |write, at| {
        let mut byte = [0];
        Fill::Pattern(write).write(at, &mut byte);
        byte
    };
    let mut places = large.offset()..large.end();
    let alike = places.find(|&at| byte(first, at) == byte(first + 1, at));
    let alike = alike.expect("one byte of 255 is alike");
    world.write_fua(large);
    let write = world.write(Extent::new(alike, 1));
    deliver_all(&mut world);
    end(&mut world, 1, OpKind::Write, Outcome::Good);
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    assert_eq!(answer(&world, write), DONE);
    world.settle();
}

#[test]
fn where_it_is_not_asked_for_all_legs_are_waited_for() {
    let mut world = world_of(&[LEG, SLOW], 0);
    let write = world.write(block(0));
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    assert_eq!(answer(&world, write), None);
    end(&mut world, 1, OpKind::Write, Outcome::Good);
    assert_eq!(answer(&world, write), DONE);
    world.settle();
}

#[test]
fn what_must_be_durable_or_is_no_write_waits_for_all_legs() {
    let mut world = world();
    let durable = world.write_fua(block(0));
    let zeroes = world.zeroes(block(1), false, true, false);
    let trim = world.trim(block(2), false);
    for kind in [OpKind::Write, OpKind::WriteZeroes, OpKind::Trim] {
        end(&mut world, 0, kind, Outcome::Good);
    }
    for request in [durable, zeroes, trim] {
        assert_eq!(answer(&world, request), None);
    }
    world.pump();
    for request in [durable, zeroes, trim] {
        assert_eq!(answer(&world, request), DONE);
    }
    assert_eq!(world.engine.write_behind().total, 1, "the first of all");
    world.settle();
}

#[test]
fn legs_that_are_all_write_mostly_are_all_waited_for() {
    let mut world = world_of(&[SLOW, SLOW], 8);
    let write = world.write(block(0));
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    assert_eq!(answer(&world, write), None);
    world.pump();
    assert_eq!(answer(&world, write), DONE);
    world.settle();
}

#[test]
fn a_write_that_there_is_no_room_for_goes_behind_when_there_is() {
    let mut world = world_of(&[LEG, SLOW], 2);
    answered(&mut world, block(0));
    answered(&mut world, block(1));
    let (third, fourth) = (world.write(block(2)), world.write(block(3)));
    for _ in 0..2 {
        end(&mut world, 0, OpKind::Write, Outcome::Good);
    }
    assert_eq!(answer(&world, third), None);
    // One of the slow leg makes room for one, in order.
    end(&mut world, 1, OpKind::Write, Outcome::Good);
    assert_eq!(answer(&world, third), DONE);
    assert_eq!(answer(&world, fourth), None);
    assert_eq!(world.engine.write_behind().writes, 2);
    world.pump();
    assert_eq!(answer(&world, fourth), DONE);
    world.settle();
}

#[test]
fn the_bytes_behind_are_bounded() {
    let setup = Setup {
        legs: vec![LEG, SLOW],
        size_bytes: 32 * MIB,
        write_behind: 100,
        ..Setup::legs(1)
    };
    let mut world = World::new(setup, Box::new(First));
    world.write(block(0));
    world.pump();
    let most = world.engine.write_behind().bytes_max;
    assert_eq!(most, 10 * MIB, "an eighth of the memory");
    for at in 0..10 {
        answered(&mut world, Extent::new(at * MIB, MIB));
    }
    let more = world.write(Extent::new(20 * MIB, 512));
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    assert_eq!(answer(&world, more), None);
    end(&mut world, 1, OpKind::Write, Outcome::Good);
    assert_eq!(answer(&world, more), DONE);
    world.settle();
}

#[test]
fn a_later_write_of_the_same_bytes_does_not_overtake_on_the_slow_leg() {
    let mut world = world();
    answered(&mut world, blocks(0, 4));
    let second = world.write(blocks(2, 4));
    assert!(at_leg(&world, 0, OpKind::Write).is_empty(), "it waits");
    assert_eq!(at_leg(&world, 1, OpKind::Write).len(), 1);
    end(&mut world, 1, OpKind::Write, Outcome::Good);
    assert_eq!(legs_with(&world, OpKind::Write), [0, 1]);
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    assert_eq!(answer(&world, second), DONE);
    world.settle();
}

#[test]
fn reads_beside_it_go_to_any_leg_that_has_it() {
    let mut world = world_of(&[LEG, LEG, SLOW], 8);
    world.set_policy(Box::new(Rotate::default()));
    world.write(blocks(0, 4));
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    end(&mut world, 1, OpKind::Write, Outcome::Good);
    for number in 0..4 {
        world.read(block(number));
    }
    let mut legs = legs_with(&world, OpKind::Read);
    legs.sort_unstable();
    assert_eq!(legs, [0, 0, 1, 1], "no pin, and not the slow one");
    // Where the others fail, the slow one is asked when it has the bytes.
    for leg in [0, 0, 1, 1] {
        end(&mut world, leg, OpKind::Read, IO);
    }
    world.pump_operations();
    world.settle();
}

#[test]
fn a_read_waits_for_the_slow_leg_where_no_other_is_left() {
    let mut world = world();
    answered(&mut world, block(0));
    world.fail_leg(LegId::new(0), FaultReason::ByHand);
    deliver_all(&mut world);
    assert_eq!(world.in_sync(), [1]);
    let (read, apart) = (world.read(block(0)), world.read(block(9)));
    assert_eq!(at_leg(&world, 1, OpKind::Read).len(), 1, "the one apart");
    end(&mut world, 1, OpKind::Read, Outcome::Good);
    assert!(matches!(answer(&world, apart), Some(Ok(Reply::Data(_)))));
    end(&mut world, 1, OpKind::Write, Outcome::Good);
    world.pump();
    assert!(matches!(answer(&world, read), Some(Ok(Reply::Data(_)))));
    world.settle();
}

#[test]
fn a_read_that_the_slow_leg_had_in_hand_is_asked_anew() {
    // The other one fails it, so that it is at the slow one when the write begins.
    let mut world = world();
    world.read(block(0));
    end(&mut world, 0, OpKind::Read, IO);
    assert_eq!(legs_with(&world, OpKind::Read), [1]);
    answered(&mut world, block(0));
    end(&mut world, 1, OpKind::Read, Outcome::Good);
    assert!(
        at_leg(&world, 1, OpKind::Read).is_empty(),
        "it is no answer"
    );
    world.settle();
}

#[test]
fn a_leg_that_reads_have_seen_may_be_behind_all_the_same() {
    let mut world = world();
    let read = world.read(block(0));
    end(&mut world, 0, OpKind::Read, IO);
    let write = world.write(block(0));
    end(&mut world, 1, OpKind::Read, Outcome::Good);
    assert!(matches!(answer(&world, read), Some(Ok(Reply::Data(_)))));
    // It has shown bytes of the write or those before it; from now on they are the new ones.
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    assert_eq!(answer(&world, write), DONE);
    world.read(block(0));
    assert_eq!(legs_with(&world, OpKind::Read), [0]);
    world.settle();
}

#[test]
fn a_flush_waits_for_what_was_answered_before_it_and_for_nothing_else() {
    let mut world = world();
    answered(&mut world, block(0));
    let flush = world.flush();
    answered(&mut world, block(1));
    assert!(legs_with(&world, OpKind::Flush).is_empty());
    end(&mut world, 1, OpKind::Write, Outcome::Good);
    assert_eq!(legs_with(&world, OpKind::Flush), [0, 1]);
    end(&mut world, 0, OpKind::Flush, Outcome::Good);
    end(&mut world, 1, OpKind::Flush, Outcome::Good);
    assert_eq!(answer(&world, flush), DONE);
    assert_eq!(world.engine.write_behind().writes, 1);
    world.settle();
}

#[test]
fn a_slow_leg_that_fails_is_out_before_a_flush_is_answered() {
    let mut world = world();
    answered(&mut world, block(0));
    let flush = world.flush();
    end(&mut world, 1, OpKind::Write, IO);
    assert!(out(&world, 1));
    end(&mut world, 0, OpKind::Flush, Outcome::Good);
    assert_eq!(answer(&world, flush), None, "its fault is not durable");
    deliver_all(&mut world);
    assert_eq!(answer(&world, flush), DONE);
    world.settle();
}

#[test]
fn a_slow_leg_that_falls_silent_keeps_the_buffers_and_nothing_else() {
    let mut world = world();
    answered(&mut world, block(0));
    let flush = world.flush();
    world.legs[1].silent = true;
    world.advance(Duration::from_secs(40));
    assert!(out(&world, 1));
    assert_eq!(world.engine.write_behind().writes, 0);
    assert!(world.engine.buffers().used_bytes() > 0, "it may read them");
    world.pump();
    assert_eq!(answer(&world, flush), DONE);
    world.settle();
}

#[test]
fn what_the_last_leg_loses_fails_every_later_flush() {
    let mut world = world();
    answered(&mut world, block(0));
    world.fail_leg(LegId::new(0), FaultReason::ByHand);
    deliver_all(&mut world);
    end(&mut world, 1, OpKind::Write, IO);
    let kept = Event::LastLegKept {
        leg: LegId::new(1),
        reason: FaultReason::WriteFailed(ErrorKind::Io),
    };
    assert!(world.events.contains(&kept));
    for _ in 0..2 {
        let flush = world.flush();
        end(&mut world, 1, OpKind::Flush, Outcome::Good);
        assert!(matches!(answer(&world, flush), Some(Err(_))));
    }
}

#[test]
fn an_answer_that_waits_for_a_fault_on_record_comes_once() {
    let mut world = world_of(&[LEG, LEG, SLOW], 8);
    let write = world.write(block(0));
    world.fail_leg(LegId::new(1), FaultReason::ByHand);
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    assert_eq!(answer(&world, write), None, "the fault is not durable");
    assert_eq!(world.engine.write_behind().writes, 1);
    // The slow leg is there first.
    end(&mut world, 2, OpKind::Write, Outcome::Good);
    assert_eq!(answer(&world, write), None);
    deliver_all(&mut world);
    assert_eq!(answer(&world, write), DONE);
    world.settle();
}

#[test]
fn an_answer_that_waits_for_a_record_is_not_given_when_its_legs_are_lost_meanwhile() {
    let mut world = world_of(&[LEG, SLOW, LEG], 8);
    let write = world.write(block(0));
    world.fail_leg(LegId::new(2), FaultReason::ByHand);
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    assert_eq!(world.engine.write_behind().writes, 1);
    world.fail_leg(LegId::new(0), FaultReason::ByHand);
    deliver_all(&mut world);
    assert_eq!(answer(&world, write), None, "no leg has it");
    assert_eq!(world.engine.write_behind().writes, 0);
    let flush = world.flush();
    let read = world.read(block(0));
    assert!(at_leg(&world, 1, OpKind::Read).is_empty());
    end(&mut world, 1, OpKind::Write, Outcome::Good);
    assert_eq!(answer(&world, write), DONE);
    world.pump();
    assert_eq!(answer(&world, flush), DONE);
    assert!(matches!(answer(&world, read), Some(Ok(_))));
    world.settle();
}
