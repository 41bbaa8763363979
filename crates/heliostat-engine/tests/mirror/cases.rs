//! One situation each, step by step.

use heliostat_engine::{FaultReason, LegConfig, LegState, RequestKind};
use heliostat_types::{Duration, ErrorKind, Extent, LegId, OpKind};

use crate::fill::Fill;
use crate::policies::{First, Halves, Last, Rotate, Split};
use crate::world::{LEG, Outcome, Reply, Setup, World};

mod accounting;
mod admission;
mod background;
mod bad_blocks;
mod failfast;
mod failing;
mod flags;
mod grow;
mod hedge;
mod joined;
mod layouts;
mod metadata;
mod prefetch;
mod replace;
mod review;
mod spares;
mod stage;
mod write_behind;

const MIB: u64 = 1 << 20;

fn world(legs: usize) -> World {
    World::new(Setup::legs(legs), Box::new(First))
}

fn rotating(legs: usize) -> World {
    World::new(Setup::legs(legs), Box::new(Rotate::default()))
}

fn with_legs(legs: &[LegConfig]) -> World {
    let setup = Setup {
        legs: legs.to_vec(),
        ..Setup::legs(1)
    };
    World::new(setup, Box::new(First))
}

/// The operations of a kind that a leg has.
fn at_leg(world: &World, leg: usize, kind: OpKind) -> Vec<usize> {
    world.find(|pending| pending.op.leg.index() == leg && pending.op.kind == kind)
}

/// The legs that have operations of a kind, by order of dispatch.
fn legs_with(world: &World, kind: OpKind) -> Vec<usize> {
    let found = world.find(|pending| pending.op.kind == kind);
    let legs = found.iter().map(|&at| world.pending[at].op.leg.index());
    legs.collect()
}

/// A leg ends the oldest operation of a kind that it has.
fn end(world: &mut World, leg: usize, kind: OpKind, outcome: Outcome) {
    let found = at_leg(world, leg, kind);
    let at = *found.first().expect("the leg has such an operation");
    world.complete(at, outcome);
}

/// A write that is at all legs, the record being dirty.
fn write_under_way(world: &mut World, extent: Extent) -> u64 {
    let request = world.write(extent);
    deliver_all(world);
    request
}

fn deliver_all(world: &mut World) {
    while !world.issued.is_empty() {
        world.deliver(0);
    }
}

fn block(number: u64) -> Extent {
    Extent::new(number * 512, 512)
}

fn blocks(first: u64, count: u64) -> Extent {
    Extent::new(first * 512, count * 512)
}

fn answer(world: &World, request: u64) -> Option<&Result<Reply, ErrorKind>> {
    world.answers.get(&request)
}

const DONE: Option<&Result<Reply, ErrorKind>> = Some(&Ok(Reply::Done));

#[test]
fn a_write_waits_until_the_record_is_dirty() {
    let mut world = world(2);
    let first = world.write(block(0));
    let second = world.write(block(1));
    assert!(world.pending.is_empty());
    assert_eq!(world.issued.len(), 1, "one record does for both");
    deliver_all(&mut world);
    assert_eq!(legs_with(&world, OpKind::Write), [0, 1, 0, 1]);
    world.pump();
    assert_eq!(answer(&world, first), DONE);
    assert_eq!(answer(&world, second), DONE);
    world.settle();
}

#[test]
fn overlapping_writes_are_done_one_after_the_other() {
    let mut world = world(2);
    write_under_way(&mut world, blocks(0, 2));
    let second = world.write(blocks(1, 2));
    let third = world.write(Extent::new(600, 7));
    let apart = world.write(block(8));
    assert_eq!(
        at_leg(&world, 0, OpKind::Write).len(),
        2,
        "one and the one apart"
    );
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    assert_eq!(at_leg(&world, 0, OpKind::Write).len(), 1);
    end(&mut world, 1, OpKind::Write, Outcome::Good);
    assert_eq!(at_leg(&world, 0, OpKind::Write).len(), 2);
    assert!(answer(&world, second).is_none() && answer(&world, third).is_none());
    world.pump();
    for request in [second, third, apart] {
        assert_eq!(answer(&world, request), DONE);
    }
    world.settle();
}

#[test]
fn reads_beside_a_write_go_to_one_leg() {
    let mut world = rotating(3);
    write_under_way(&mut world, blocks(0, 4));
    for number in 0..4 {
        world.read(block(number));
    }
    let legs = legs_with(&world, OpKind::Read);
    assert_eq!(legs, [legs[0]; 4]);
    // The bytes of the write appear there, and nowhere else, while it is read.
    end(&mut world, legs[0], OpKind::Write, Outcome::Good);
    world.read(blocks(0, 4));
    assert_eq!(legs_with(&world, OpKind::Read), [legs[0]; 5]);
    world.pump();
    for number in 0..3 {
        world.read(block(number));
    }
    let mut legs = legs_with(&world, OpKind::Read);
    legs.sort_unstable();
    assert_eq!(legs, [0, 1, 2], "the write is over");
    world.settle();
}

#[test]
fn a_policy_is_told_where_one_leg_has_to_serve_a_read() {
    let mut world = World::new(Setup::legs(3), Box::new(Halves));
    world.read(blocks(0, 8));
    assert_eq!(legs_with(&world, OpKind::Read), [0, 2]);
    // What a leg has failed another one reads alone: of all others the last.
    end(&mut world, 2, OpKind::Read, Outcome::Bad(ErrorKind::Io));
    assert_eq!(legs_with(&world, OpKind::Read), [0, 1]);
    world.pump();
    // And so it is beside a write.
    write_under_way(&mut world, blocks(0, 8));
    world.read(blocks(0, 8));
    assert_eq!(legs_with(&world, OpKind::Read), [2]);
    world.settle();
}

#[test]
fn a_read_sent_before_a_write_pins_when_it_is_answered() {
    let mut world = rotating(2);
    world.read(block(0));
    let seen = legs_with(&world, OpKind::Read)[0];
    write_under_way(&mut world, block(0));
    end(&mut world, seen, OpKind::Write, Outcome::Good);
    end(&mut world, seen, OpKind::Read, Outcome::Good);
    for _ in 0..3 {
        world.read(block(0));
    }
    assert_eq!(legs_with(&world, OpKind::Read), [seen; 3]);
    world.settle();
}

#[test]
fn a_read_sent_before_a_write_is_not_answered_by_another_leg_than_the_pinned() {
    let mut world = rotating(2);
    world.read(block(0));
    world.read(block(0));
    let [first, second] = legs_with(&world, OpKind::Read)[..] else {
        panic!("two reads are under way");
    };
    assert_ne!(first, second);
    write_under_way(&mut world, block(0));
    end(&mut world, second, OpKind::Write, Outcome::Good);
    end(&mut world, first, OpKind::Read, Outcome::Good);
    end(&mut world, second, OpKind::Read, Outcome::Good);
    // It saw the new bytes; the pinned leg still has the old ones.
    assert_eq!(legs_with(&world, OpKind::Read), [first]);
    world.settle();
}

#[test]
fn a_read_over_two_pins_waits() {
    let mut world = rotating(2);
    write_under_way(&mut world, block(0));
    write_under_way(&mut world, block(1));
    world.read(block(0));
    world.read(block(1));
    let mut pins = legs_with(&world, OpKind::Read);
    pins.sort_unstable();
    assert_eq!(pins, [0, 1]);
    let both = world.read(blocks(0, 2));
    assert_eq!(legs_with(&world, OpKind::Read).len(), 2, "the third waits");
    for leg in 0..2 {
        while !at_leg(&world, leg, OpKind::Read).is_empty() {
            end(&mut world, leg, OpKind::Read, Outcome::Good);
        }
    }
    assert!(answer(&world, both).is_none());
    world.pump();
    assert!(matches!(answer(&world, both), Some(Ok(Reply::Data(_)))));
    world.settle();
}

#[test]
fn a_read_whose_pinned_leg_fails_waits_for_the_write() {
    let mut world = world(2);
    write_under_way(&mut world, block(0));
    let read = world.read(block(0));
    assert_eq!(legs_with(&world, OpKind::Read), [0]);
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    end(&mut world, 0, OpKind::Read, Outcome::Bad(ErrorKind::Io));
    assert_eq!(legs_with(&world, OpKind::Read), [0; 0]);
    end(&mut world, 1, OpKind::Write, Outcome::Good);
    assert_eq!(legs_with(&world, OpKind::Read), [1]);
    world.pump();
    assert!(matches!(answer(&world, read), Some(Ok(Reply::Data(_)))));
    world.settle();
}

#[test]
fn unaligned_writes_keep_what_is_beside_them() {
    for block_bytes in [512, 4096] {
        let setup = Setup {
            block_bytes,
            ..Setup::legs(2)
        };
        let mut world = World::new(setup, Box::new(Rotate::default()));
        let mut expected = world.legs[0].data.clone();
        let extents = [
            (100, 9000),
            (10, 5),
            (0, 1),
            (4095, 2),
            (511, 514),
            (65_535, 1),
            (8192, 1),
        ];
        for (offset, len) in extents {
            let extent = Extent::new(offset, len);
            let fill = Fill::Pattern(world.checker.next_write());
            let request = world.write(extent);
            world.pump();
            assert_eq!(answer(&world, request), DONE);
            let range = usize::try_from(offset).unwrap()..usize::try_from(offset + len).unwrap();
            fill.write(offset, &mut expected[range]);
            assert!(
                world.legs.iter().all(|leg| leg.data == expected),
                "{extent:?}"
            );
        }
        world.zeroes(Extent::new(5000, 7), false, true, false);
        world.zeroes(Extent::new(1000, 20_000), false, true, false);
        world.pump();
        expected[5000..5007].fill(0);
        expected[1000..21_000].fill(0);
        assert!(world.legs.iter().all(|leg| leg.data == expected));
        world.settle();
    }
}

#[test]
fn writes_inside_one_block_do_not_lose_each_other() {
    let mut world = world(2);
    for at in [0, 7, 511, 100] {
        world.write(Extent::new(at, 1));
    }
    world.zeroes(Extent::new(50, 3), false, false, false);
    world.settle();
}

#[test]
fn an_edge_that_one_leg_cannot_read_comes_from_another() {
    let mut world = world(2);
    world.legs[0].bad.insert(0);
    let write = world.write(Extent::new(3, 4));
    world.pump();
    assert_eq!(answer(&world, write), DONE);
    world.legs[0].bad.insert(0);
    world.legs[1].bad.insert(0);
    let read = world.write(Extent::new(3, 4));
    let zeroes = world.zeroes(Extent::new(300, 400), false, false, false);
    world.pump();
    assert_eq!(answer(&world, read), Some(&Err(ErrorKind::Io)));
    assert_eq!(answer(&world, zeroes), Some(&Err(ErrorKind::Io)));
    world.write(block(0));
    world.settle();
    assert_eq!(world.in_sync(), [0, 1]);
}

#[test]
fn requests_of_the_largest_size() {
    let setup = Setup {
        size_bytes: 40 * MIB,
        ..Setup::legs(2)
    };
    let mut world = World::new(setup, Box::new(Split));
    for offset in [0, 1, 4096, 8 * MIB] {
        let extent = Extent::new(offset, 32 * MIB);
        let write = world.write(extent);
        world.pump();
        assert_eq!(answer(&world, write), DONE);
        let read = world.read(extent);
        world.pump();
        assert!(matches!(answer(&world, read), Some(Ok(Reply::Data(_)))));
    }
    let large = world.nonsense(RequestKind::Read {
        extent: Extent::new(0, 32 * MIB + 1),
    });
    assert_eq!(answer(&world, large), Some(&Err(ErrorKind::TooLarge)));
    world.zeroes(Extent::new(3, 40 * MIB - 5), false, true, false);
    world.settle();
}

#[test]
fn refused_memory_is_announced_when_it_is_free() {
    let setup = Setup {
        size_bytes: 40 * MIB,
        ..Setup::legs(2)
    };
    let mut world = World::new(setup, Box::new(First));
    let extent = Extent::new(0, 32 * MIB);
    let first = world.alloc(extent).expect("nothing is used yet");
    let second = world.alloc(extent).expect("80 MiB hold two");
    assert!(world.alloc(extent).is_none());
    let waiting = world.read(extent);
    let small = world.read(block(0));
    world.send(first, false);
    world.drop_allocated(&second);
    world.pump();
    assert!(!world.refused);
    for request in [waiting, small] {
        assert!(matches!(answer(&world, request), Some(Ok(Reply::Data(_)))));
    }
    world.settle();
}

#[test]
fn empty_requests_are_done_at_once() {
    let mut world = world(2);
    let extent = Extent::new(512, 0);
    let end = Extent::new(world.setup.size_bytes, 0);
    for extent in [extent, end] {
        let kinds = [
            RequestKind::Read { extent },
            RequestKind::Trim { extent, fua: true },
            RequestKind::WriteZeroes {
                extent,
                fua: false,
                may_trim: true,
                fast_only: false,
            },
            RequestKind::BlockStatus { extent },
        ];
        for kind in kinds {
            let request = world.nonsense(kind);
            assert!(answer(&world, request).is_some_and(Result::is_ok));
        }
    }
    assert!(world.pending.is_empty() && world.issued.is_empty());
    world.settle();
}

#[test]
fn requests_beyond_the_end_are_refused() {
    let mut world = world(2);
    let size = world.setup.size_bytes;
    for extent in [
        Extent::new(size - 1, 2),
        Extent::new(size, 1),
        Extent::new(size + 512, 512),
    ] {
        let zeroes = RequestKind::WriteZeroes {
            extent,
            fua: false,
            may_trim: true,
            fast_only: true,
        };
        let kinds = [
            (RequestKind::Read { extent }, ErrorKind::InvalidInput),
            (RequestKind::Trim { extent, fua: false }, ErrorKind::NoSpace),
            (zeroes, ErrorKind::NoSpace),
        ];
        for (kind, error) in kinds {
            let request = world.nonsense(kind);
            assert_eq!(answer(&world, request), Some(&Err(error)));
        }
        let status = world.nonsense(RequestKind::BlockStatus { extent });
        assert!(answer(&world, status).is_some_and(Result::is_err));
    }
    assert!(world.pending.is_empty());
    world.settle();
}

#[test]
fn fast_zeros_are_refused_before_any_leg_changes() {
    let slow = LegConfig {
        fast_zero: false,
        ..LEG
    };
    let mut world = with_legs(&[LEG, slow]);
    let request = world.zeroes(blocks(0, 8), false, true, true);
    assert_eq!(answer(&world, request), Some(&Err(ErrorKind::NotSupported)));
    let slow = world.zeroes(blocks(0, 8), false, true, false);
    world.pump();
    assert_eq!(answer(&world, slow), DONE);
    world.settle();

    let mut world = with_legs(&[LEG, LEG]);
    let request = world.zeroes(blocks(0, 8), false, true, true);
    deliver_all(&mut world);
    assert_eq!(legs_with(&world, OpKind::WriteZeroes), [0, 1]);
    world.pump();
    assert_eq!(answer(&world, request), DONE);
    // One leg finds out that it cannot, after the other has done it.
    let request = world.zeroes(blocks(8, 8), false, true, true);
    end(&mut world, 0, OpKind::WriteZeroes, Outcome::Good);
    let unsupported = Outcome::Bad(ErrorKind::NotSupported);
    end(&mut world, 1, OpKind::WriteZeroes, unsupported);
    world.pump();
    assert_eq!(answer(&world, request), DONE);
    world.settle();
    assert_eq!(world.in_sync(), [0, 1]);
}

#[test]
fn trims_are_done_by_all_legs_or_none() {
    let keeps = LegConfig {
        trim_reads_zeros: false,
        ..LEG
    };
    let mut world = with_legs(&[LEG, keeps]);
    let request = world.trim(blocks(0, 8), false);
    assert_eq!(answer(&world, request), DONE);
    assert!(world.pending.is_empty());
    world.settle();

    let mut world = with_legs(&[LEG, LEG]);
    let request = world.trim(Extent::new(100, 2000), false);
    deliver_all(&mut world);
    assert_eq!(legs_with(&world, OpKind::Trim), [0, 1]);
    end(&mut world, 0, OpKind::Trim, Outcome::Good);
    let unsupported = Outcome::Bad(ErrorKind::NotSupported);
    end(&mut world, 1, OpKind::Trim, unsupported);
    assert!(answer(&world, request).is_none());
    end(&mut world, 1, OpKind::WriteZeroes, unsupported);
    world.pump();
    assert_eq!(answer(&world, request), DONE);
    assert!(world.legs[1].data[512..2048].iter().all(|&byte| byte == 0));
    world.settle();
    assert_eq!(world.in_sync(), [0, 1]);
}

#[test]
fn fua_without_fua_is_a_flush_after_the_write() {
    let plain = LegConfig { fua: false, ..LEG };
    let mut world = with_legs(&[LEG, plain]);
    let write = world.write_fua(block(0));
    deliver_all(&mut world);
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    assert_eq!(legs_with(&world, OpKind::Flush), [0; 0]);
    end(&mut world, 1, OpKind::Write, Outcome::Good);
    assert_eq!(legs_with(&world, OpKind::Flush), [1]);
    assert!(answer(&world, write).is_none());
    end(&mut world, 1, OpKind::Flush, Outcome::Good);
    assert_eq!(answer(&world, write), DONE);
    world.settle();
}

#[test]
fn a_leg_that_fails_a_flush_is_out_before_the_answer() {
    let mut world = world(2);
    world.write(block(0));
    world.pump();
    let flush = world.flush();
    end(&mut world, 0, OpKind::Flush, Outcome::Bad(ErrorKind::Io));
    end(&mut world, 1, OpKind::Flush, Outcome::Good);
    assert_eq!(world.in_sync(), [1]);
    assert!(answer(&world, flush).is_none());
    deliver_all(&mut world);
    assert_eq!(answer(&world, flush), DONE);
    let flush = world.flush();
    end(&mut world, 1, OpKind::Flush, Outcome::Bad(ErrorKind::Io));
    assert_eq!(answer(&world, flush), Some(&Err(ErrorKind::Io)));
    world.settle();
}

#[test]
fn a_flush_covers_what_was_answered_before_it() {
    let mut world = world(2);
    world.flush();
    world.write(block(0));
    deliver_all(&mut world);
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    end(&mut world, 1, OpKind::Write, Outcome::Good);
    // The first flush was sent before the write was answered, and may not answer the second.
    let second = world.flush();
    end(&mut world, 0, OpKind::Flush, Outcome::Good);
    end(&mut world, 1, OpKind::Flush, Outcome::Good);
    assert!(answer(&world, second).is_none());
    world.pump();
    assert_eq!(answer(&world, second), DONE);
    world.settle();
}

#[test]
fn a_write_during_the_flush_for_clean_keeps_the_record_dirty() {
    let mut world = world(2);
    world.write(block(0));
    world.pump();
    world.advance(Duration::from_secs(1));
    assert_eq!(legs_with(&world, OpKind::Flush), [0, 1]);
    let write = world.write(block(0));
    assert_eq!(
        legs_with(&world, OpKind::Write),
        [0, 1],
        "it is still dirty"
    );
    end(&mut world, 0, OpKind::Flush, Outcome::Good);
    end(&mut world, 1, OpKind::Flush, Outcome::Good);
    assert!(world.issued.is_empty());
    world.pump();
    assert_eq!(answer(&world, write), DONE);
    world.advance(Duration::from_secs(1));
    end(&mut world, 0, OpKind::Flush, Outcome::Good);
    end(&mut world, 1, OpKind::Flush, Outcome::Good);
    assert!(!world.issued[0].dirty);
    // The clean record may be durable already: the next write waits for the dirty one after it.
    let write = world.write(block(3));
    world.deliver(0);
    assert!(world.pending.is_empty());
    world.deliver(0);
    assert_eq!(legs_with(&world, OpKind::Write), [0, 1]);
    world.pump();
    assert_eq!(answer(&world, write), DONE);
    world.settle();
}

#[test]
fn write_mostly_legs_are_read_when_nothing_else_is_left() {
    let write_mostly = LegConfig {
        write_mostly: true,
        ..LEG
    };
    let mut world = with_legs(&[write_mostly, LEG, LEG]);
    world.set_policy(Box::new(Rotate::default()));
    for number in 0..6 {
        world.read(block(number));
    }
    assert!(at_leg(&world, 0, OpKind::Read).is_empty());
    world.fail_leg(LegId::new(1), FaultReason::ByHand);
    world.read(block(9));
    assert!(at_leg(&world, 0, OpKind::Read).is_empty());
    end(&mut world, 2, OpKind::Read, Outcome::Bad(ErrorKind::Io));
    assert_eq!(at_leg(&world, 0, OpKind::Read).len(), 1);
    world.pump();
    world.fail_leg(LegId::new(2), FaultReason::ByHand);
    world.read(block(9));
    assert_eq!(legs_with(&world, OpKind::Read), [0]);
    world.settle();
}

#[test]
fn a_leg_that_answers_short_is_out() {
    let mut world = rotating(3);
    let read = world.read(block(0));
    let leg = legs_with(&world, OpKind::Read)[0];
    end(&mut world, leg, OpKind::Read, Outcome::Short);
    assert!(!world.in_sync().contains(&leg));
    let write = write_under_way(&mut world, block(0));
    let other = world.in_sync()[0];
    end(&mut world, other, OpKind::Write, Outcome::Short);
    world.pump();
    assert_eq!(answer(&world, write), DONE);
    assert!(matches!(answer(&world, read), Some(Ok(Reply::Data(_)))));
    assert_eq!(world.in_sync().len(), 1);
    world.settle();
}

#[test]
fn zeros_are_reported_only_where_all_legs_have_them() {
    let setup = Setup {
        fill: Fill::Zeros,
        ..Setup::legs(2)
    };
    let mut world = World::new(setup, Box::new(First));
    world.write(block(4));
    world.pump();
    let status = world.status(blocks(0, 8));
    world.pump();
    let Some(Ok(Reply::Status(runs))) = answer(&world, status) else {
        panic!("a status is answered");
    };
    assert!(!runs.is_empty());
    // A write that comes while the legs are asked.
    world.status(blocks(0, 4));
    write_under_way(&mut world, block(1));
    let asked = world.status(blocks(0, 4));
    world.pump();
    let Some(Ok(Reply::Status(runs))) = answer(&world, asked) else {
        panic!("a status is answered");
    };
    assert!(runs.iter().map(|run| run.len_bytes).sum::<u64>() <= 4 * 512);
    world.settle();
}

#[test]
fn legs_that_are_not_there_get_nothing() {
    let missing = LegConfig {
        state: LegState::Missing,
        ..LEG
    };
    let faulted = LegConfig {
        state: LegState::Faulted,
        ..LEG
    };
    let mut world = with_legs(&[missing, faulted, LEG]);
    world.write(blocks(0, 3));
    world.read(blocks(1, 3));
    world.trim(blocks(0, 3), false);
    world.flush();
    world.fail_leg(LegId::new(0), FaultReason::ByHand);
    world.fail_leg(LegId::new(2), FaultReason::ByHand);
    assert_eq!(world.in_sync(), [2]);
    world.settle();
}

#[test]
fn the_queue_in_front_of_a_leg_keeps_the_order() {
    let narrow = LegConfig {
        queue_depth: 1,
        ..LEG
    };
    let mut world = with_legs(&[narrow]);
    for number in [5, 1, 9] {
        world.read(block(number));
    }
    let mut order = Vec::new();
    while let Some(&at) = at_leg(&world, 0, OpKind::Read).first() {
        order.push(world.pending[at].op.extent);
        world.complete(at, Outcome::Good);
    }
    assert_eq!(order, [block(5), block(1), block(9)]);
    world.settle();
}

#[test]
fn a_policy_takes_over_while_reads_are_under_way() {
    let mut world = world(3);
    world.read(block(0));
    world.set_policy(Box::new(Last));
    world.read(block(0));
    assert_eq!(legs_with(&world, OpKind::Read), [0, 2]);
    world.settle();
}
