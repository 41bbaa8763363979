//! Legs that are replaced while they serve, step by step.

mod handover;

use heliostat_engine::{AddRefusal, CopyOrder, Event, FaultReason, Layout, LegState, Map, Raid10};
use heliostat_format::{BitmapBits, Features, Role, Superblock};
use heliostat_types::{Duration, ErrorKind, Extent, LegId, LegSet, OpKind};

use super::metadata::{META, new_world, setup};
use super::{DONE, answer, at_leg, end};
use crate::meta::Meta;
use crate::policies::First;
use crate::world::{LEG, Outcome, Setup, World};

const CHUNK: u64 = 4096;
const IO: Outcome = Outcome::Bad(ErrorKind::Io);

fn leg(index: usize) -> LegId {
    LegId::new(index)
}

/// A mirror of so many legs, and room for one more.
fn mirror(legs: usize) -> World {
    let mut setup = setup(legs + 1, 128);
    setup.legs[legs].state = LegState::Missing;
    setup.map = Some(Map::mirror(legs, setup.size_bytes));
    new_world(setup)
}

/// The same, at rest and in no hurry.
fn slow_mirror(legs: usize) -> World {
    let mut world = mirror(legs);
    world.pump();
    world.set_rates(0, 1);
    world
}

fn finish(world: &mut World) {
    world.set_rates(u64::MAX, u64::MAX);
    world.finish_background();
}

fn set_of(legs: &[usize]) -> LegSet {
    legs.iter().map(|&index| leg(index)).collect()
}

/// What the superblock of a leg says of who is in.
fn roles_on(world: &World, index: usize, count: usize) -> Vec<Role> {
    let superblock = world.superblock_on(leg(index)).expect("it has one");
    superblock.roles[..count].to_vec()
}

fn is_replacement(world: &World, index: usize) -> bool {
    let superblock = world.superblock_on(leg(index)).expect("it has one");
    superblock.features.contains(Features::REPLACEMENT)
}

#[test]
fn a_leg_is_replaced_and_its_number_is_free_for_the_next() {
    let mut world = mirror(2);
    world.pump();
    assert!(world.replace(leg(1)));
    assert_eq!(world.engine.replacing(), Some((leg(1), leg(2))));
    assert_eq!(world.engine.in_sync(), set_of(&[0, 1]), "both go on");
    finish(&mut world);
    let replaced = Event::LegReplaced {
        leg: leg(1),
        by: leg(2),
    };
    assert!(world.events.contains(&replaced));
    assert_eq!(world.engine.in_sync(), set_of(&[0, 2]));
    assert_eq!(world.believed(), set_of(&[0, 2]));
    let [in_0, in_1] = [Role::Active(0), Role::Active(1)];
    for index in [0, 2] {
        assert_eq!(roles_on(&world, index, 3), [in_0, Role::Faulty, in_1]);
        assert!(!is_replacement(&world, index));
    }
    assert_eq!(
        world.engine.add_refusal(leg(1)),
        Some(AddRefusal::NoRole),
        "it is none of the legs any more"
    );
    // What it held, others hold; what is written goes there.
    let request = world.write(Extent::new(0, CHUNK));
    world.pump();
    assert_eq!(answer(&world, request), DONE);
    assert!(at_leg(&world, 1, OpKind::Write).is_empty());
    assert_eq!(world.engine.free_leg(), Some(leg(1)));
    assert!(world.replace(leg(0)), "one after the other");
    finish(&mut world);
    assert_eq!(world.engine.in_sync(), set_of(&[1, 2]));
    assert_eq!(world.engine.map().role_of(leg(1)), Some(0));
    assert!(world.replace(leg(2)));
    finish(&mut world);
    assert_eq!(world.engine.in_sync(), set_of(&[0, 1]));
    world.settle();
}

/// An array of this map over so many legs, and room for one more.
fn with_room(map: Map, legs: usize) -> Setup {
    let mut legs = vec![LEG; legs + 1];
    for leg in &mut legs {
        leg.data_offset_bytes = 64 << 10;
    }
    legs.last_mut().expect("one more").state = LegState::Missing;
    Setup {
        size_bytes: 128 * CHUNK,
        map: Some(map),
        legs,
        meta: Some(META),
        ..Setup::legs(1)
    }
}

#[test]
fn a_leg_of_raid10_is_replaced() {
    let layout = Raid10 {
        order: CopyOrder::Near,
        copies: 2,
        chunk_bytes: CHUNK,
    };
    for order in [CopyOrder::Near, CopyOrder::Far, CopyOrder::Offset] {
        let layout = Layout::Raid10(Raid10 { order, ..layout });
        let setup = with_room(Map::for_size(layout, 4, 128 * CHUNK).unwrap(), 4);
        let mut world = World::new(setup, Box::new(First));
        world.pump();
        // The other leg with its chunks is out: they depend on this one alone.
        world.fail_leg(leg(0), FaultReason::ByHand);
        world.pump();
        assert!(world.replace(leg(1)));
        world.fail_leg(leg(1), FaultReason::ByHand);
        assert!(
            world.engine.in_sync().contains(leg(1)),
            "nobody else has it"
        );
        finish(&mut world);
        assert_eq!(world.engine.in_sync(), set_of(&[2, 3, 4]));
        assert_eq!(world.engine.leg_state(leg(1)), LegState::Faulted);
        world.settle();
    }
}

#[test]
fn what_is_written_goes_to_the_new_leg_and_nothing_is_read_from_it() {
    let mut world = slow_mirror(2);
    world.replace(leg(1));
    world.pump();
    let request = world.write(Extent::new(0, 512));
    world.pump_operations();
    assert!(!at_leg(&world, 2, OpKind::Write).is_empty() || answer(&world, request) == DONE);
    world.pump();
    assert_eq!(answer(&world, request), DONE);
    assert!(is_replacement(&world, 2));
    let says = world.superblock_on(leg(2)).unwrap();
    assert_eq!(says.role(), Some(Role::Active(1)));
    assert!(says.features.contains(Features::RECOVERY_OFFSET));
    assert_eq!(world.believed(), set_of(&[0, 1]));
    finish(&mut world);
    world.settle();
}

#[test]
fn the_new_leg_is_the_first_to_hear_that_the_other_one_is_out() {
    let mut world = slow_mirror(2);
    world.replace(leg(1));
    world.set_rates(u64::MAX, u64::MAX);
    let is_told = |world: &World, index| {
        let told = roles_on(world, index, 2)[1] == Role::Faulty;
        told && world.superblock_on(leg(index)).is_some()
    };
    // One operation at a time, until somebody has heard of it.
    for _ in 0..10_000 {
        if (0..3).any(|index| is_told(&world, index)) {
            break;
        }
        if !world.pump_one() {
            let deadline = world.engine.next_deadline().expect("it goes on");
            world.now = world.now.max(deadline);
            world.tell_deadline();
        }
    }
    assert!(is_told(&world, 2) && !is_told(&world, 0) && !is_told(&world, 1));
    assert_eq!(world.engine.in_sync(), set_of(&[0, 1]), "not on record yet");
    world.judge_power_cut();
    // The power fails here: whoever heard of it counts.
    world.fail_power();
    let all = LegSet::first(3);
    world.take_up_with(all, 0, Box::new(First));
    world.settle();
    assert_eq!(world.engine.in_sync().count(), 2);
    assert!((0..2).all(|index| roles_on(&world, index, 2)[1] == Role::Faulty));
}

#[test]
fn where_the_leg_fails_that_is_replaced_the_new_one_goes_on_in_its_role() {
    let mut world = slow_mirror(2);
    world.replace(leg(1));
    world.pump();
    world.fail_leg(leg(1), FaultReason::ByHand);
    world.pump();
    assert_eq!(world.engine.replacing(), None);
    assert_eq!(world.engine.leg_state(leg(2)), LegState::Rebuilding);
    assert!(!is_replacement(&world, 2), "it is a leg like any other");
    assert_eq!(world.engine.free_leg(), Some(leg(1)));
    finish(&mut world);
    assert_eq!(world.engine.in_sync(), set_of(&[0, 2]));
    let replaced = |event: &Event| matches!(event, Event::LegReplaced { .. });
    assert!(!world.events.iter().any(replaced), "it failed");
    world.settle();
}

#[test]
fn where_the_new_leg_fails_the_old_one_stays() {
    let mut world = slow_mirror(2);
    world.replace(leg(1));
    world.pump();
    world.fail_leg(leg(2), FaultReason::ByHand);
    world.pump();
    assert_eq!(world.engine.replacing(), None);
    assert_eq!(world.engine.in_sync(), set_of(&[0, 1]));
    let roles = [Role::Active(0), Role::Active(1), Role::Faulty];
    assert_eq!(roles_on(&world, 0, 3), roles);
    assert_eq!(world.believed(), set_of(&[0, 1]));
    assert!(world.replace(leg(1)), "another one");
    finish(&mut world);
    assert_eq!(world.engine.in_sync(), set_of(&[0, 2]));
    world.settle();
}

#[test]
fn where_the_new_leg_fails_bits_are_cleared_again() {
    let mut world = slow_mirror(2);
    world.replace(leg(1));
    world.pump();
    world.write(Extent::new(0, CHUNK));
    world.pump();
    let set = |world: &World| world.engine.bitmap().map(BitmapBits::count_set);
    for _ in 0..4 {
        world.advance(Duration::from_secs(10));
        world.pump();
    }
    assert_eq!(set(&world), Some(1), "a leg is being filled");
    world.fail_leg(leg(2), FaultReason::ByHand);
    for _ in 0..4 {
        world.advance(Duration::from_secs(10));
        world.pump();
    }
    assert_eq!(set(&world), Some(0));
    world.settle();
}

#[test]
fn a_replacement_goes_on_where_it_was_after_the_power_failed() {
    let mut world = mirror(2);
    world.pump();
    world.set_rates(0, 1 << 20);
    world.replace(leg(0));
    world.pump();
    // So far that it says so.
    while world.superblock_on(leg(2)).unwrap().recovery_offset_sectors == 0 {
        let deadline = world.engine.next_deadline().expect("it goes on");
        world.now = world.now.max(deadline);
        world.tell_deadline();
        world.pump();
    }
    world.fail_power();
    world.take_up_with(LegSet::first(3), 0, Box::new(First));
    assert_eq!(world.engine.replacing(), Some((leg(0), leg(2))));
    let left = world.engine.missing_bytes(leg(2)).expect("it is filled");
    assert!(left < world.setup.size_bytes, "{left} are missing");
    world.pump();
    finish(&mut world);
    assert_eq!(world.engine.in_sync(), set_of(&[1, 2]));
    world.settle();
}

#[test]
fn a_read_that_the_replaced_leg_has_in_hand_is_answered_by_another() {
    let mut world = slow_mirror(1);
    world.replace(leg(0));
    world.pump();
    world.set_rates(u64::MAX, u64::MAX);
    while world.engine.in_sync() == set_of(&[0]) {
        world.pump_operations();
        if world.engine.in_sync() == set_of(&[0])
            && let Some(deadline) = world.engine.next_deadline()
        {
            world.now = world.now.max(deadline);
            world.tell_deadline();
        }
    }
    assert_eq!(world.engine.in_sync(), set_of(&[1]));
    let request = world.read(Extent::new(0, 512));
    end(&mut world, 1, OpKind::Read, Outcome::Good);
    assert!(matches!(answer(&world, request), Some(Ok(_))));
    world.settle();
}

#[test]
fn what_cannot_be_replaced_is_refused() {
    let mut world = slow_mirror(3);
    world.fail_leg(leg(2), FaultReason::ByHand);
    world.pump();
    let refusal = |world: &World, index| world.engine.replace_refusal(leg(index));
    assert_eq!(refusal(&world, 2), Some(AddRefusal::NotInSync));
    world.replace(leg(0));
    world.pump();
    assert_eq!(refusal(&world, 1), Some(AddRefusal::Replacing));
    let mut plain = new_world(setup(2, 128));
    plain.pump();
    assert_eq!(refusal(&plain, 0), Some(AddRefusal::NoRoom));
}

#[test]
fn a_new_leg_that_fails_the_last_step_leaves_all_as_it_was() {
    let mut world = slow_mirror(2);
    world.replace(leg(1));
    world.pump();
    world.set_rates(u64::MAX, u64::MAX);
    // All is copied, and the new leg fails the event that would give it the role.
    let mut is_failed = false;
    for _ in 0..10_000 {
        let is_last = |at: usize| {
            let pending = &world.pending[at];
            let superblock = Superblock::parse(&pending.snapshot);
            let roles = superblock.map(|superblock| superblock.roles);
            roles.is_ok_and(|roles| roles[1] == Role::Faulty)
        };
        let at = (0..world.pending.len()).find(|&at| is_last(at));
        if let Some(at) = at {
            assert_eq!(world.pending[at].op.leg, leg(2));
            world.complete(at, IO);
            is_failed = true;
            break;
        }
        if !world.pump_one() {
            let deadline = world.engine.next_deadline().expect("it goes on");
            world.now = world.now.max(deadline);
            world.tell_deadline();
        }
    }
    assert!(is_failed);
    world.pump();
    assert_eq!(world.engine.in_sync(), set_of(&[0, 1]));
    assert_eq!(world.engine.leg_state(leg(2)), LegState::Faulted);
    assert_eq!(world.believed(), set_of(&[0, 1]));
    world.settle();
}

#[test]
fn who_heard_of_a_new_leg_that_failed_then_hears_better_before_an_answer() {
    let mut world = slow_mirror(3);
    world.replace(leg(1));
    world.pump();
    world.set_rates(u64::MAX, u64::MAX);
    let is_told = |world: &World, index| roles_on(world, index, 2)[1] == Role::Faulty;
    while ![0, 2].iter().any(|&index| is_told(&world, index)) {
        if !world.pump_one() {
            let deadline = world.engine.next_deadline().expect("it goes on");
            world.now = world.now.max(deadline);
            world.tell_deadline();
        }
    }
    // One of two that are neither the new leg nor the old one has heard of it.
    assert!(is_told(&world, 3) && is_told(&world, 0) != is_told(&world, 2));
    world.fail_leg(leg(3), FaultReason::ByHand);
    let write = world.write(Extent::new(0, CHUNK));
    world.judge_power_cut();
    while answer(&world, write).is_none() {
        assert!(world.pump_one(), "it goes on");
    }
    assert_eq!(answer(&world, write), DONE);
    assert!(![0, 1, 2].iter().any(|&index| is_told(&world, index)));
    assert_eq!(world.believed(), set_of(&[0, 1, 2]));
    world.settle();
}

#[test]
fn all_have_heard_of_a_new_leg_before_it_has_the_role() {
    let mut world = with_logs_of(2, None);
    world.set_rates(u64::MAX, u64::MAX);
    world.legs[0].stuck.insert(9);
    world.write(Extent::new(9 * 512, 512));
    // The log is on its way, and everything else comes to its end.
    while world.engine.bad_blocks(leg(0)).is_empty() {
        assert!(world.pump_one(), "it goes on");
    }
    assert!(world.replace(leg(1)));
    let is_data = |world: &World| {
        let of_data = world.find(|pending| !world.is_metadata(&pending.op));
        of_data.first().copied()
    };
    while world.engine.missing_bytes(leg(2)) != Some(0) || is_data(&world).is_some() {
        match is_data(&world) {
            Some(at) => world.complete(at, Outcome::Good),
            None => {
                let deadline = world.engine.next_deadline().expect("it goes on");
                world.now = world.now.max(deadline);
                world.tell_deadline();
            }
        }
    }
    while world.engine.in_sync() != set_of(&[0, 2]) {
        assert!(world.believed().count() >= 2, "{:?}", world.believed());
        if !world.pump_one() {
            let deadline = world.engine.next_deadline().expect("it goes on");
            world.now = world.now.max(deadline);
            world.tell_deadline();
        }
    }
    world.settle();
}

/// One leg with a log of bad blocks, and room for another one.
fn with_logs() -> World {
    with_logs_of(1, META.chunk_bytes)
}

/// The same with so many legs, and a bitmap with chunks of this size, or none.
fn with_logs_of(legs: usize, chunk_bytes: Option<u32>) -> World {
    let mut setup = setup(legs + 1, 128);
    setup.meta = Some(Meta {
        has_log: true,
        chunk_bytes,
        ..META
    });
    for leg in &mut setup.legs {
        leg.data_offset_bytes = 64 << 10;
    }
    setup.legs[legs].state = LegState::Missing;
    setup.map = Some(Map::mirror(legs, setup.size_bytes));
    let mut world = new_world(setup);
    world.pump();
    world
}

#[test]
fn a_new_leg_that_cannot_be_written_does_not_take_a_role() {
    let block = Extent::new(9 * 512, 512);
    for is_written in [false, true] {
        let mut world = with_logs();
        world.set_rates(0, 1);
        assert!(world.replace(leg(0)));
        world.legs[1].stuck.insert(9);
        if is_written {
            let write = world.write(block);
            world.pump();
            assert_eq!(answer(&world, write), DONE);
        } else {
            finish(&mut world);
        }
        assert_eq!(world.engine.leg_state(leg(1)), LegState::Faulted);
        assert_eq!(world.engine.in_sync(), set_of(&[0]));
        let read = world.read(block);
        world.pump();
        assert!(matches!(answer(&world, read), Some(Ok(_))));
        world.settle();
    }
}

#[test]
fn what_nobody_holds_does_not_keep_a_leg_from_being_replaced() {
    let mut world = with_logs();
    world.legs[0].stuck.insert(9);
    world.write(Extent::new(9 * 512, 512));
    world.pump();
    assert!(world.replace(leg(0)));
    finish(&mut world);
    assert_eq!(world.engine.in_sync(), set_of(&[1]));
    let bad = world.engine.bad_blocks(leg(1));
    assert!(bad.overlaps(&(9..10)), "{bad:?}");
    world.settle();
}

#[test]
fn what_the_log_of_a_replacement_names_is_copied_again() {
    let mut world = with_logs();
    world.set_rates(0, 1 << 20);
    world.replace(leg(0));
    world.pump();
    while world.superblock_on(leg(1)).unwrap().recovery_offset_sectors == 0 {
        let deadline = world.engine.next_deadline().expect("it goes on");
        world.now = world.now.max(deadline);
        world.tell_deadline();
        world.pump();
    }
    world.fail_power();
    // As the kernel may have left it.
    world.put_log(leg(1), 0..1);
    world.take_up_with(LegSet::first(2), 0, Box::new(First));
    assert_eq!(world.engine.replacing(), Some((leg(0), leg(1))));
    world.pump();
    finish(&mut world);
    assert_eq!(world.engine.in_sync(), set_of(&[1]));
    assert!(world.engine.bad_blocks(leg(1)).is_empty());
    world.settle();
}

/// The last sectors of an array are no page that was narrowed.
#[test]
fn an_error_in_the_last_part_of_a_page_counts() {
    for tail in [0, 512, 2048] {
        let mut setup = setup(3, 128);
        setup.size_bytes = 128 * CHUNK + tail;
        setup.legs[2].state = LegState::Missing;
        setup.map = Some(Map::mirror(2, setup.size_bytes));
        let last = usize::try_from(setup.size_bytes / 512 - 1).unwrap();
        let mut world = new_world(setup);
        world.pump();
        world.set_rates(0, 1);
        world.legs[0].bad.insert(last);
        assert!(world.replace(leg(1)));
        finish(&mut world);
        let errors = world.engine.recent_read_errors(world.now, leg(0));
        assert_eq!(errors, 1, "{tail}");
        world.settle();
    }
}

/// A leg that was to replace another one is not there any more, and the next one is: nobody says
/// that a role belongs to more than two.
#[test]
fn who_was_to_have_a_role_has_it_no_more_when_another_one_is_to() {
    let mut world = slow_mirror(2);
    world.replace(leg(0));
    world.pump();
    world.fail_power();
    world.take_up_with(LegSet::first(2), 0, Box::new(First));
    finish(&mut world);
    assert_eq!(world.engine.replacing(), None);
    world.set_rates(0, 1);
    assert!(world.replace(leg(0)));
    let told = world.engine.array_superblock().unwrap().roles;
    let [in_0, in_1] = [Role::Active(0), Role::Active(1)];
    assert_eq!(told[..4], [in_0, in_1, Role::Spare, in_0]);
    world.pump();
    assert_eq!(roles_on(&world, 1, 4), told[..4]);
    finish(&mut world);
    assert_eq!(world.engine.in_sync(), set_of(&[1, 2]));
    world.settle();
}

/// Of an event that legs have yet to hear of again, a leg is not told that was added since: it
/// would say that it is none of the legs, and a start that finds it so beside one that knows of it
/// would take it for a second leg of the role.
#[test]
fn a_new_leg_does_not_hear_of_an_event_before_it() {
    let full = Outcome::Bad(ErrorKind::NoSpace);
    let mut world = with_logs_of(2, None);
    let write = world.write(Extent::new(0, CHUNK));
    world.pump();
    assert_eq!(answer(&world, write), DONE);
    // One leg has a first block that it cannot write, and says so in an event.
    world.legs[1].stuck.insert(9);
    let write = world.write(Extent::new(8 * 512, CHUNK));
    let is_said = |world: &World, at: usize| {
        Superblock::parse(&world.pending[at].snapshot).is_ok() && world.pending[at].op.leg == leg(0)
    };
    for _ in 0..1_000 {
        let metadata = world.find(|pending| world.is_metadata(&pending.op));
        if metadata.iter().any(|&at| is_said(&world, at)) {
            break;
        }
        assert!(world.pump_one(), "the event comes");
    }
    assert!(world.replace(leg(0)));
    // There is no room for it, on any leg: both stay, and one may have heard of it.
    end(&mut world, 1, OpKind::Write, full);
    end(&mut world, 0, OpKind::Write, full);
    for _ in 0..1_000 {
        let metadata = world.find(|pending| world.is_metadata(&pending.op));
        for at in metadata {
            if world.pending[at].op.leg == leg(2)
                && let Ok(told) = Superblock::parse(&world.pending[at].snapshot)
            {
                let own = told.role();
                assert_eq!(own, Some(Role::Active(0)), "it is told of no event before");
            }
        }
        if !world.pump_one() {
            world.advance(Duration::from_ms(1_100));
        }
    }
    assert!(answer(&world, write).is_some());
    finish(&mut world);
    assert_eq!(world.engine.in_sync(), set_of(&[1, 2]));
    world.settle();
}

#[test]
fn of_a_page_that_cannot_be_read_a_replacement_gets_all_blocks_that_can() {
    let mut world = with_logs();
    let page = Extent::new(8 * 512, 4096);
    let write = world.write(page);
    world.pump();
    assert_eq!(answer(&world, write), DONE);
    world.legs[0].bad.extend([9, 14]);
    world.set_rates(0, 1);
    assert!(world.replace(leg(0)));
    finish(&mut world);
    assert_eq!(world.engine.in_sync(), set_of(&[1]));
    let bad: Vec<_> = world.engine.bad_blocks(leg(1)).ranges().collect();
    assert_eq!(bad, [9..10, 14..15]);
    let errors = world.engine.recent_read_errors(world.now, leg(0));
    assert_eq!(errors, 1, "the page, and not each part of it");
    for (first, sectors, is_there) in [(8, 1, true), (9, 1, false), (10, 4, true), (15, 1, true)] {
        let read = world.read(Extent::new(first * 512, sectors * 512));
        world.pump();
        assert_eq!(matches!(answer(&world, read), Some(Ok(_))), is_there);
    }
    world.settle();
}
