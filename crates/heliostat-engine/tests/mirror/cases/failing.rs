//! Legs that fail, are full or fall silent.

use heliostat_engine::{Event, FaultReason, LegConfig};
use heliostat_types::{Duration, ErrorKind, LegId, OpKind};

use super::{
    DONE, answer, at_leg, block, blocks, deliver_all, end, legs_with, rotating, with_legs, world,
    write_under_way,
};
use crate::policies::First;
use crate::world::{LEG, Outcome, Reply, Setup, World};

const IO: Outcome = Outcome::Bad(ErrorKind::Io);

#[test]
fn a_failed_read_goes_to_the_next_leg_and_is_mended() {
    let mut world = world(3);
    world.legs[0].bad.insert(1);
    world.legs[1].bad.insert(0);
    let read = world.read(blocks(0, 2));
    world.pump();
    assert!(matches!(answer(&world, read), Some(Ok(Reply::Data(_)))));
    world.settle();
    assert!(world.legs[0].bad.is_empty() && world.legs[1].bad.is_empty());
    assert_eq!(world.in_sync(), [0, 1, 2]);
    let mended = |event: &&Event| matches!(event, Event::ReadRepaired { .. });
    assert_eq!(world.events.iter().filter(mended).count(), 2);
}

/// A leg without a log of bad blocks is out for one that it has. So what it could not read back is
/// read once more, and not a third time.
#[test]
fn what_was_written_over_has_two_tries_to_be_read_back() {
    for [again, then] in [
        [Outcome::Good, Outcome::Good],
        [IO, Outcome::Good],
        [IO, IO],
    ] {
        let mut world = world(2);
        let read = world.read(block(0));
        end(&mut world, 0, OpKind::Read, IO);
        for _ in 0..2 {
            end(&mut world, 1, OpKind::Read, Outcome::Good);
        }
        assert!(matches!(answer(&world, read), Some(Ok(Reply::Data(_)))));
        deliver_all(&mut world);
        end(&mut world, 0, OpKind::Write, Outcome::Good);
        end(&mut world, 0, OpKind::Read, again);
        assert_eq!(world.in_sync(), [0, 1]);
        if again == IO {
            end(&mut world, 0, OpKind::Read, then);
        }
        let is_mended = then == Outcome::Good;
        let mended = |event: &Event| matches!(event, Event::ReadRepaired { .. });
        assert_eq!(world.events.iter().any(mended), is_mended);
        assert_eq!(
            world.in_sync(),
            if is_mended { vec![0, 1] } else { vec![1] }
        );
        assert_eq!(at_leg(&world, 0, OpKind::Read), []);
        world.settle();
    }
}

#[test]
fn where_nothing_is_mended_a_leg_is_read_however_often_it_fails() {
    let mut setup = Setup::legs(2);
    setup.repairs = false;
    let mut world = World::new(setup, Box::new(First));
    world.legs[0].bad.insert(1);
    for _ in 0..50 {
        let read = world.read(blocks(0, 2));
        world.pump();
        assert!(matches!(answer(&world, read), Some(Ok(Reply::Data(_)))));
    }
    assert_eq!(world.in_sync(), [0, 1]);
    assert!(world.legs[0].bad.contains(&1));
    assert!(!world.engine.record().dirty);
    world.settle();
}

#[test]
fn a_read_fails_only_if_all_legs_fail_it() {
    let mut world = world(3);
    for leg in 0..3 {
        world.legs[leg].bad.insert(0);
    }
    let read = world.read(block(0));
    let beside = world.read(block(1));
    world.pump();
    assert_eq!(answer(&world, read), Some(&Err(ErrorKind::Io)));
    assert!(matches!(answer(&world, beside), Some(Ok(Reply::Data(_)))));
    let write = world.write(block(0));
    world.pump();
    assert_eq!(answer(&world, write), DONE);
    world.settle();
    assert_eq!(world.in_sync(), [0, 1, 2]);
}

#[test]
fn a_write_that_one_leg_failed_is_answered_when_its_fault_is_durable() {
    let mut world = world(2);
    let write = write_under_way(&mut world, block(0));
    end(&mut world, 0, OpKind::Write, Outcome::Bad(ErrorKind::Io));
    end(&mut world, 1, OpKind::Write, Outcome::Good);
    assert!(answer(&world, write).is_none());
    assert_eq!(world.in_sync(), [1]);
    world.read(block(0));
    assert_eq!(legs_with(&world, OpKind::Read), [1]);
    deliver_all(&mut world);
    assert_eq!(answer(&world, write), DONE);
    world.settle();
}

#[test]
fn a_write_that_all_legs_failed_leaves_one_leg() {
    for keep in 0..3 {
        let mut world = rotating(3);
        let write = write_under_way(&mut world, block(0));
        for leg in [keep, (keep + 1) % 3, (keep + 2) % 3] {
            end(&mut world, leg, OpKind::Write, Outcome::Bad(ErrorKind::Io));
        }
        deliver_all(&mut world);
        assert_eq!(answer(&world, write), Some(&Err(ErrorKind::Io)));
        assert_eq!(world.in_sync().len(), 1);
        world.settle();
    }
}

#[test]
fn two_writes_that_fail_crosswise_leave_a_leg_that_has_what_was_answered() {
    let mut world = world(3);
    let first = write_under_way(&mut world, block(0));
    let second = world.write(block(9));
    let full = Outcome::Bad(ErrorKind::NoSpace);
    let script = [
        (1, 0, Outcome::Good),
        (2, 0, full),
        (1, 9, full),
        (2, 9, Outcome::Good),
        // This ends the first write, and takes with it what leg 0 still has of the second.
        (0, 0, full),
    ];
    for (leg, number, outcome) in script {
        let found = world
            .find(|pending| pending.op.leg.index() == leg && pending.op.extent == block(number));
        world.complete(found[0], outcome);
    }
    deliver_all(&mut world);
    assert_eq!(answer(&world, first), DONE);
    assert_eq!(answer(&world, second), Some(&Err(ErrorKind::NoSpace)));
    assert_eq!(world.in_sync(), [1]);
    world.settle();
}

#[test]
fn no_space_on_all_legs_is_nobodys_fault() {
    let mut world = rotating(3);
    let write = write_under_way(&mut world, blocks(0, 8));
    for leg in 0..3 {
        end(
            &mut world,
            leg,
            OpKind::Write,
            Outcome::Bad(ErrorKind::NoSpace),
        );
    }
    assert_eq!(answer(&world, write), Some(&Err(ErrorKind::NoSpace)));
    assert_eq!(world.in_sync(), [0, 1, 2]);
    let told = Event::NoSpace {
        extent: blocks(0, 8),
    };
    assert_eq!(world.events, [told]);
    // What is there now is not said, but it stays: the checker sees to that.
    for _ in 0..6 {
        world.read(blocks(0, 8));
        world.pump();
    }
    let clean = world.engine.record().generation;
    world.advance(Duration::from_secs(5));
    world.pump();
    assert!(world.engine.record().dirty, "the legs may differ");
    assert_eq!(world.engine.record().generation, clean);
    let again = world.write(blocks(0, 8));
    world.pump();
    assert_eq!(answer(&world, again), DONE);
    world.settle();
    assert!(!world.engine.record().dirty);
}

#[test]
fn the_last_leg_is_kept() {
    let mut world = world(2);
    for leg in [0, 0, 1, 1] {
        world.fail_leg(LegId::new(leg), FaultReason::ByHand);
    }
    assert_eq!(world.in_sync(), [1]);
    let kept = |event: &&Event| matches!(event, Event::LastLegKept { .. });
    assert_eq!(
        world.events.iter().filter(kept).count(),
        1,
        "it is said once"
    );
    let write = world.write(block(0));
    world.pump();
    assert_eq!(answer(&world, write), DONE);
    world.settle();
}

#[test]
fn what_the_last_leg_has_lost_no_flush_brings_back() {
    let mut world = world(2);
    world.write(block(0));
    world.pump();
    for leg in [1, 0] {
        world.fail_leg(LegId::new(leg), FaultReason::Lost);
        world.pump();
    }
    assert_eq!(world.in_sync(), [0]);
    for _ in 0..2 {
        let flush = world.flush();
        world.pump();
        assert_eq!(answer(&world, flush), Some(&Err(ErrorKind::Io)));
    }
    world.advance(Duration::from_secs(5));
    world.pump();
    assert!(world.engine.record().dirty, "legs would be taken for equal");
}

#[test]
fn a_silent_leg_is_taken_out_and_its_buffers_stay() {
    let mut world = rotating(2);
    let read = world.read(block(5));
    let late = world.read(block(5));
    let write = write_under_way(&mut world, block(0));
    world.legs[1].silent = true;
    world.pump();
    assert!(answer(&world, write).is_none());
    world.advance(Duration::from_secs(29));
    assert_eq!(world.in_sync(), [0, 1]);
    world.advance(Duration::from_secs(2));
    assert_eq!(world.in_sync(), [0]);
    assert!(answer(&world, write).is_none(), "its fault is not durable");
    world.pump();
    assert_eq!(answer(&world, write), DONE);
    for request in [read, late] {
        assert!(matches!(answer(&world, request), Some(Ok(Reply::Data(_)))));
    }
    assert_eq!(
        world.pending.len(),
        2,
        "a read and a write of the silent leg"
    );
    assert!(world.engine.is_idle());
    assert_eq!(world.engine.buffers().used_bytes(), 2 * 4096);
    let other = world.write(block(0));
    for at in 0..world.pending.len() {
        world.stir(at);
    }
    world.pump();
    assert_eq!(answer(&world, other), DONE);
    world.settle();
}

#[test]
fn two_silent_legs_are_taken_out_one_after_the_other() {
    let mut world = world(3);
    let write = write_under_way(&mut world, block(0));
    world.legs[1].silent = true;
    world.legs[2].silent = true;
    world.pump();
    let mut turns = 0;
    while answer(&world, write).is_none() && turns < 10 {
        let before = world.in_sync().len();
        let deadline = world.engine.next_deadline().expect("legs are silent");
        let wait = deadline.saturating_since(world.now);
        world.advance(wait);
        assert!(world.in_sync().len() + 1 >= before, "one at a time");
        world.pump();
        turns += 1;
    }
    assert_eq!(answer(&world, write), DONE);
    assert_eq!(world.in_sync(), [0]);
    world.settle();
}

#[test]
fn a_leg_that_answers_something_is_not_silent() {
    let mut world = rotating(2);
    for number in 0..8 {
        world.read(block(number));
    }
    for _ in 0..3 {
        world.advance(Duration::from_secs(20));
        end(&mut world, 0, OpKind::Read, Outcome::Good);
        end(&mut world, 1, OpKind::Read, Outcome::Good);
    }
    assert_eq!(world.in_sync(), [0, 1]);
    world.settle();
}

#[test]
fn all_legs_silent_leave_the_last_one_in() {
    let mut world = world(2);
    let write = write_under_way(&mut world, block(0));
    world.legs[0].silent = true;
    world.legs[1].silent = true;
    for _ in 0..10 {
        world.advance(Duration::from_secs(31));
        deliver_all(&mut world);
    }
    assert_eq!(world.in_sync().len(), 1);
    assert!(answer(&world, write).is_none());
    let left = world.in_sync()[0];
    world.legs[left].silent = false;
    world.pump();
    assert_eq!(answer(&world, write), DONE);
    world.settle();
}

/// The first leg fails a write with FUA, and ends it so when it is written again.
fn fua_fails(again: Outcome, legs: usize) -> World {
    let mut world = world(legs);
    world.write(block(0));
    world.pump();
    let write = world.write_fua(block(8));
    deliver_all(&mut world);
    end(&mut world, 0, OpKind::Write, IO);
    let flush = world.flush();
    deliver_all(&mut world);
    // The flush may rely on what is gone by then.
    for leg in 0..legs {
        end(&mut world, leg, OpKind::Flush, Outcome::Good);
    }
    assert_eq!(answer(&world, flush), None, "nobody knows what has failed");
    end(&mut world, 0, OpKind::Write, again);
    world.pump();
    let last = (legs == 1).then_some(Err(ErrorKind::Io));
    let done = answer(&world, write);
    assert_eq!(done, last.as_ref().or(DONE), "{again:?}");
    let is_lost = legs == 1 && again == Outcome::Good;
    let told = if is_lost {
        Some(&Err(ErrorKind::Io))
    } else {
        DONE
    };
    assert_eq!(answer(&world, flush), told, "{again:?}");
    world
}

#[test]
fn where_a_write_with_fua_works_without_it_its_flush_has_failed() {
    let mut world = fua_fails(Outcome::Good, 2);
    assert_eq!(world.in_sync(), [1]);
    world.settle();
    let mut world = fua_fails(Outcome::Good, 1);
    for _ in 0..2 {
        let flush = world.flush();
        world.pump();
        assert_eq!(answer(&world, flush), Some(&Err(ErrorKind::Io)));
    }
    assert!(world.engine.record().dirty);
}

#[test]
fn where_a_write_with_fua_fails_again_no_flush_has_failed() {
    let mut world = fua_fails(IO, 2);
    assert_eq!(world.in_sync(), [1]);
    world.settle();
    // The last leg loses nothing by that but the write, which was not answered.
    let mut world = fua_fails(IO, 1);
    world.settle();
    assert!(!world.engine.record().dirty);
}

#[test]
fn a_flush_that_was_put_off_ends_with_its_leg() {
    let mut world = world(2);
    world.write_fua(block(0));
    deliver_all(&mut world);
    end(&mut world, 0, OpKind::Write, IO);
    let flush = world.flush();
    deliver_all(&mut world);
    for leg in [0, 1] {
        end(&mut world, leg, OpKind::Flush, Outcome::Good);
    }
    assert_eq!(answer(&world, flush), None, "nobody knows what has failed");
    world.fail_leg(LegId::new(0), FaultReason::Lost);
    world.pump();
    assert_eq!(answer(&world, flush), DONE);
    world.settle();
    assert_eq!(world.in_sync(), [1]);
}

#[test]
fn a_flush_that_one_leg_has_answered_counts_for_no_leg_while_that_is_in_doubt() {
    let mut world = world(2);
    world.write(block(0));
    world.pump();
    world.write_fua(block(8));
    let flush = world.flush();
    deliver_all(&mut world);
    end(&mut world, 0, OpKind::Flush, Outcome::Good);
    end(&mut world, 0, OpKind::Write, IO);
    end(&mut world, 1, OpKind::Flush, Outcome::Good);
    assert_eq!(answer(&world, flush), None, "nobody knows what has failed");
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    assert_eq!(world.in_sync(), [1]);
    world.pump();
    assert_eq!(answer(&world, flush), DONE);
    world.settle();
}

#[test]
fn zeros_with_fua_are_made_and_then_flushed() {
    let mut world = world(2);
    let zeroes = world.zeroes(block(0), true, true, false);
    deliver_all(&mut world);
    for leg in [0, 1] {
        let of_leg = at_leg(&world, leg, OpKind::WriteZeroes);
        assert!(of_leg.iter().all(|&at| !world.pending[at].op.fua));
        end(&mut world, leg, OpKind::WriteZeroes, Outcome::Good);
    }
    end(&mut world, 0, OpKind::Flush, IO);
    end(&mut world, 1, OpKind::Flush, Outcome::Good);
    world.pump();
    assert_eq!(answer(&world, zeroes), DONE);
    assert_eq!(world.in_sync(), [1]);
    world.settle();
}

/// It may have to stay: where all legs are full none is to blame. Seed 200650 of
/// `legs_fail_that_are_behind_and_those_that_are_not` found what it had lost then.
#[test]
fn a_leg_that_is_to_fail_fast_is_sent_a_write_with_fua_again_as_well() {
    let fast = LegConfig {
        failfast: true,
        ..LEG
    };
    let mut world = with_legs(&[fast, LEG]);
    world.write_fua(block(0));
    deliver_all(&mut world);
    end(
        &mut world,
        0,
        OpKind::Write,
        Outcome::Bad(ErrorKind::NoSpace),
    );
    let again = at_leg(&world, 0, OpKind::Write);
    assert_eq!(again.len(), 1);
    assert!(!world.pending[again[0]].op.fua);
    world.settle();
}
