//! Legs that come back, resync, rebuild and scrub, step by step.

use heliostat_engine::{
    AddRefusal, BackgroundEnd, BackgroundKind, CopyOrder, Event, FaultReason, Input, Layout,
    LegState, Map, Mismatches, Missed, Raid10, RepairSource,
};
use heliostat_types::{Duration, ErrorKind, Extent, LegId, OpKind};

use super::{
    DONE, MIB, answer, at_leg, block, blocks, deliver_all, end, legs_with, rotating, world,
    write_under_way,
};
use crate::policies::{First, Rotate};
use crate::world::{Outcome, Reply, Setup, World};

const BAD: Outcome = Outcome::Bad(ErrorKind::Io);

fn leg(index: usize) -> LegId {
    LegId::new(index)
}

/// As fast as possible, and no waiting for the clock.
fn unpaced(mut world: World) -> World {
    world.set_rates(u64::MAX, u64::MAX);
    world
}

/// A world in which a leg is out, and all that was under way has ended.
fn without(index: usize, mut world: World) -> World {
    world.fail_leg(leg(index), FaultReason::ByHand);
    world.pump();
    world
}

/// How the last job of the background ended, what it wrote, and in how many sectors legs differed.
fn ended(world: &World) -> (BackgroundKind, BackgroundEnd, u64, u64) {
    *all_ended(world).last().expect("a job has ended")
}

fn all_ended(world: &World) -> Vec<(BackgroundKind, BackgroundEnd, u64, u64)> {
    let mut all = Vec::new();
    for event in &world.events {
        if let Event::BackgroundEnded {
            kind,
            end,
            copied_bytes,
            mismatches,
            ..
        } = *event
        {
            all.push((kind, end, copied_bytes, mismatches.sectors));
        }
    }
    all
}

fn scrub(world: &mut World, repair: bool) -> (BackgroundKind, BackgroundEnd, u64, u64) {
    world.input(Input::StartScrub { repair });
    world.finish_background();
    ended(world)
}

/// Changes what a leg holds, behind everybody's back.
fn corrupt(world: &mut World, index: usize, extent: Extent, byte: u8) {
    let range = usize::try_from(extent.offset()).unwrap()..usize::try_from(extent.end()).unwrap();
    let leg = &mut world.legs[index];
    leg.data[range.clone()].fill(byte);
    leg.durable[range].fill(byte);
    world.corrupted.push(extent);
}

fn holds(world: &World, index: usize, extent: Extent, byte: u8) -> bool {
    world.legs[index].bytes(extent).iter().all(|&at| at == byte)
}

#[test]
fn a_leg_is_read_after_it_was_copied_flushed_and_recorded() {
    let mut world = without(1, unpaced(rotating(2)));
    assert!(world.add_leg(leg(1), Some(0x5a), Missed::From(0)));
    assert_eq!(world.engine.leg_state(leg(1)), LegState::Rebuilding);
    while world
        .find(|pending| pending.op.kind == OpKind::Flush)
        .is_empty()
    {
        for _ in 0..4 {
            world.read(block(9));
        }
        assert_eq!(at_leg(&world, 1, OpKind::Read), [0; 0]);
        world.complete(0, Outcome::Good);
    }
    world.pump_operations();
    assert_eq!(world.in_sync(), [0], "the record is not durable yet");
    assert_eq!(world.issued.len(), 1);
    assert!(world.issued[0].faulted.is_empty());
    deliver_all(&mut world);
    assert_eq!(world.in_sync(), [0, 1]);
    assert!(world.events.contains(&Event::LegInSync { leg: leg(1) }));
    let (kind, end, copied_bytes, _) = ended(&world);
    assert_eq!((kind, end), (BackgroundKind::Rebuild, BackgroundEnd::Done));
    assert_eq!(copied_bytes, 64 << 10);
    world.settle();
}

#[test]
fn what_is_written_meanwhile_goes_to_a_leg_that_is_rebuilt() {
    let mut world = without(1, unpaced(world(3)));
    assert!(world.add_leg(leg(1), Some(0x5a), Missed::From(0)));
    world.input(Input::PauseBackground);
    world.pump();
    let write = write_under_way(&mut world, block(100));
    assert_eq!(legs_with(&world, OpKind::Write), [0, 1, 2]);
    world.flush();
    assert_eq!(legs_with(&world, OpKind::Flush), [0, 1, 2]);
    world.pump();
    assert_eq!(answer(&world, write), DONE);
    world.settle();
    assert_eq!(world.in_sync(), [0, 1, 2]);
}

#[test]
fn a_leg_that_fails_while_it_is_rebuilt_is_out_and_nobody_else_notices() {
    for kind in [OpKind::Write, OpKind::Flush] {
        let mut world = without(0, unpaced(world(2)));
        assert!(world.add_leg(leg(0), Some(0x5a), Missed::From(0)));
        while at_leg(&world, 0, kind).is_empty() {
            world.complete(0, Outcome::Good);
        }
        end(&mut world, 0, kind, BAD);
        world.pump();
        assert_eq!(world.in_sync(), [1]);
        assert_eq!(world.engine.leg_state(leg(0)), LegState::Faulted);
        assert_eq!(ended(&world).1, BackgroundEnd::LegsFaulted);
        let write = world.write(block(0));
        world.pump();
        assert_eq!(answer(&world, write), DONE);
        assert!(world.add_leg(leg(0), None, Missed::From(0)), "another time");
        world.settle();
        assert_eq!(world.in_sync(), [0, 1]);
    }
}

#[test]
fn a_write_that_the_rebuilt_leg_alone_fails_is_answered_well() {
    let mut world = without(1, unpaced(world(2)));
    assert!(world.add_leg(leg(1), Some(0x5a), Missed::From(0)));
    world.input(Input::PauseBackground);
    world.pump();
    let write = write_under_way(&mut world, block(100));
    end(&mut world, 1, OpKind::Write, BAD);
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    deliver_all(&mut world);
    assert_eq!(answer(&world, write), DONE);
    assert_eq!(world.engine.leg_state(leg(1)), LegState::Faulted);
    world.settle();
}

#[test]
fn a_silent_leg_is_given_up_though_it_is_being_rebuilt() {
    let mut world = without(1, unpaced(world(2)));
    assert!(world.add_leg(leg(1), Some(0x5a), Missed::From(0)));
    while at_leg(&world, 1, OpKind::Write).is_empty() {
        world.complete(0, Outcome::Good);
    }
    world.legs[1].silent = true;
    world.advance(Duration::from_secs(31));
    assert_eq!(world.engine.leg_state(leg(1)), LegState::Faulted);
    assert!(
        !world.add_leg(leg(1), None, Missed::From(0)),
        "it has operations"
    );
    let refused = |event: &Event| {
        let why = |refusal| matches!(refusal, AddRefusal::Outstanding(_));
        matches!(*event, Event::AddRefused { refusal, .. } if why(refusal))
    };
    assert!(world.events.iter().any(refused));
    world.legs[1].silent = false;
    world.pump();
    assert!(world.add_leg(leg(1), None, Missed::From(0)));
    assert!(!world.add_leg(leg(1), None, Missed::From(0)), "it is there");
    world.settle();
    assert_eq!(world.in_sync(), [0, 1]);
}

#[test]
fn a_source_that_falls_silent_is_replaced_by_another() {
    let mut world = without(2, unpaced(world(3)));
    assert!(world.add_leg(leg(2), Some(0x5a), Missed::From(0)));
    assert!(!at_leg(&world, 0, OpKind::Read).is_empty());
    world.legs[0].silent = true;
    world.advance(Duration::from_secs(31));
    world.pump();
    assert_eq!(world.in_sync(), [1, 2]);
    world.settle();
}

#[test]
fn only_what_was_missed_is_copied() {
    let mut world = without(1, unpaced(world(2)));
    world.write(blocks(8, 16));
    world.pump();
    let missed = Missed::Extents(vec![blocks(8, 16)]);
    assert!(world.add_leg(leg(1), None, missed));
    world.pump();
    assert_eq!(world.in_sync(), [0, 1]);
    assert_eq!(ended(&world).2, 16 * 512);
    world.settle();
}

#[test]
fn what_was_under_way_when_a_leg_was_added_is_copied_as_well() {
    let mut world = without(1, unpaced(world(2)));
    let write = write_under_way(&mut world, blocks(8, 16));
    assert!(world.add_leg(leg(1), None, Missed::Extents(Vec::new())));
    assert_eq!(legs_with(&world, OpKind::Write), [0]);
    world.pump();
    assert_eq!(answer(&world, write), DONE);
    assert_eq!(world.in_sync(), [0, 1]);
    world.settle();
}

#[test]
fn bytes_that_no_leg_can_read_leave_a_rebuild_incomplete() {
    let mut world = without(2, unpaced(world(3)));
    for index in 0..2 {
        world.legs[index].bad.insert(11);
    }
    world.legs[0].bad.insert(40);
    assert!(world.add_leg(leg(2), Some(0x5a), Missed::From(0)));
    world.pump();
    let page = Extent::new(4096, 4096);
    assert_eq!(ended(&world).1, BackgroundEnd::Incomplete(page));
    assert!(world.events.contains(&Event::Unreadable { extent: page }));
    assert_eq!(world.in_sync(), [0, 1]);
    assert!(world.legs[0].bad.contains(&11) && !world.legs[0].bad.contains(&40));
    // A client writes it; then all can be read.
    world.write(Extent::new(4096, 4096));
    world.pump();
    world.input(Input::ResumeBackground);
    world.pump();
    assert_eq!(world.in_sync(), [0, 1, 2]);
    world.settle();
}

#[test]
fn a_rebuild_goes_by_leg_address_and_takes_each_chunk_from_another_holder() {
    for order in [CopyOrder::Near, CopyOrder::Far, CopyOrder::Offset] {
        let layout = Layout::Raid10(Raid10 {
            order,
            copies: 2,
            chunk_bytes: 4096,
        });
        let setup = Setup {
            map: Some(Map::for_size(layout, 4, 64 << 10).unwrap()),
            ..Setup::legs(4)
        };
        let map = setup.map.clone().unwrap();
        let world = World::new(setup, Box::new(First));
        let mut world = without(1, unpaced(world));
        assert!(world.add_leg(leg(1), Some(0x5a), Missed::From(0)));
        let mut addresses = Vec::new();
        while world.engine.leg_state(leg(1)) != LegState::InSync {
            if let Some(&at) = at_leg(&world, 1, OpKind::Write).first() {
                let extent = world.pending[at].op.extent;
                addresses.push(map.on_leg(leg(1), extent).offset());
                world.complete(at, Outcome::Good);
            }
            if !world.pump_one() {
                break;
            }
        }
        assert!(addresses.is_sorted(), "{order:?}: {addresses:?}");
        assert_eq!(addresses.len(), 8, "a half of all chunks");
        world.settle();
        assert_eq!(world.in_sync(), [0, 1, 2, 3]);
    }
}

#[test]
fn after_an_unclean_stop_the_first_leg_is_right() {
    let mut setup = Setup::legs(3);
    setup.record.dirty = true;
    let mut world = unpaced(World::new(setup, Box::new(Rotate::default())));
    world.stop_uncleanly();
    let first = world.legs[0].data.clone();
    world.input(Input::PauseBackground);
    for number in 0..6 {
        world.read(block(number * 20));
    }
    let legs = legs_with(&world, OpKind::Read);
    assert!(legs.iter().all(|&leg| leg == 0), "{legs:?}");
    world.input(Input::ResumeBackground);
    world.pump();
    assert!(world.legs.iter().all(|leg| leg.data == first));
    assert_eq!(ended(&world).1, BackgroundEnd::Done);
    world.settle();
    assert!(!world.engine.record().dirty);
}

#[test]
fn after_an_unclean_stop_one_leg_that_is_left_reads_nothing_to_be_equal_to_itself() {
    let mut setup = Setup::legs(2);
    setup.record.dirty = true;
    let mut world = unpaced(World::new(setup, Box::new(First)));
    world.fail_leg(leg(1), FaultReason::ByHand);
    world.stop_uncleanly();
    assert_eq!(legs_with(&world, OpKind::Read), []);
    world.pump();
    assert_eq!(all_ended(&world), []);
    world.settle();
    assert!(!world.engine.record().dirty);
    // What was out is copied all the same.
    assert!(world.add_leg(leg(1), None, Missed::From(0)));
    world.finish_background();
    assert_eq!(ended(&world).0, BackgroundKind::Rebuild);
    assert!(world.legs[1].data == world.legs[0].data);
    world.settle();
}

#[test]
fn what_the_first_leg_cannot_read_is_the_next_ones_for_good() {
    let mut setup = Setup::legs(2);
    setup.record.dirty = true;
    let mut world = unpaced(World::new(setup, Box::new(First)));
    world.legs[0].bad.insert(9);
    world.stop_uncleanly();
    let (first, second) = (world.legs[0].data.clone(), world.legs[1].data.clone());
    world.pump();
    for leg in &world.legs {
        assert!(leg.data[..4096] == first[..4096]);
        assert!(leg.data[4096..8192] == second[4096..8192]);
        assert!(leg.data[8192..] == first[8192..]);
    }
    world.settle();
}

#[test]
fn a_range_that_differs_is_made_equal_to_the_leg_that_is_read() {
    let mut world = unpaced(rotating(2));
    let write = write_under_way(&mut world, blocks(0, 2));
    world.read(block(0));
    let seen = legs_with(&world, OpKind::Read)[0];
    for leg in [0, 1] {
        end(
            &mut world,
            leg,
            OpKind::Write,
            Outcome::Bad(ErrorKind::NoSpace),
        );
    }
    world.pump();
    assert_eq!(answer(&world, write), Some(&Err(ErrorKind::NoSpace)));
    let right = world.legs[seen].bytes(blocks(0, 2)).to_vec();
    world.input(Input::StartResync { everything: false });
    world.pump();
    assert_eq!(ended(&world).1, BackgroundEnd::Done);
    for leg in &world.legs {
        assert!(leg.bytes(blocks(0, 2)) == right);
    }
    assert!(world.engine.divergent().next().is_none());
    world.settle();
    assert!(!world.engine.record().dirty);
}

#[test]
fn a_check_counts_sectors_and_changes_nothing() {
    let mut world = unpaced(world(3));
    let check = BackgroundKind::Scrub { repair: false };
    assert_eq!(scrub(&mut world, false), (check, BackgroundEnd::Done, 0, 0));
    corrupt(&mut world, 1, blocks(20, 3), 1);
    corrupt(&mut world, 2, blocks(21, 4), 2);
    corrupt(&mut world, 2, Extent::new(40_000, 1), 3);
    assert_eq!(scrub(&mut world, false), (check, BackgroundEnd::Done, 0, 6));
    assert!(holds(&world, 1, blocks(20, 3), 1));
    assert!(!world.mutated, "nothing was written");
}

#[test]
fn a_repair_of_two_copies_takes_the_first() {
    let mut world = unpaced(world(2));
    corrupt(&mut world, 0, blocks(16, 1), 1);
    let (_, end, copied_bytes, sectors) = scrub(&mut world, true);
    assert_eq!((end, sectors), (BackgroundEnd::Done, 1));
    assert_eq!(copied_bytes, 4096);
    assert!(holds(&world, 1, blocks(16, 1), 1), "right or wrong");
    let told = |event: &Event| {
        let from = Some(RepairSource::First(leg(0)));
        matches!(*event, Event::Mismatch { repair, .. } if repair == from)
    };
    assert!(world.events.iter().any(told));
}

#[test]
fn a_repair_of_three_copies_takes_the_majority_page_by_page() {
    let mut world = unpaced(world(3));
    let right = world.legs[0].data.clone();
    for index in 0..3 {
        // In one window.
        corrupt(&mut world, index, blocks(16 + index as u64, 1), 7);
    }
    let (_, end, _, sectors) = scrub(&mut world, true);
    assert_eq!((end, sectors), (BackgroundEnd::Done, 3));
    // No two pages agree: the first leg's is taken as a whole.
    for index in 0..3 {
        assert!(holds(&world, index, blocks(16, 1), 7));
        assert!(world.legs[index].bytes(blocks(17, 1)) == &right[17 * 512..18 * 512]);
    }
    world.corrupted.clear();
    let right = world.legs[0].data.clone();
    corrupt(&mut world, 0, blocks(40, 8), 9);
    let (_, _, copied_bytes, sectors) = scrub(&mut world, true);
    assert_eq!((copied_bytes, sectors), (4096, 8));
    assert!(world.legs.iter().all(|leg| leg.data == right));
    let by = |wanted: RepairSource| {
        let told = |event: &&Event| {
            let is_it = |repair| repair == Some(wanted);
            matches!(**event, Event::Mismatch { repair, .. } if is_it(repair))
        };
        world.events.iter().filter(told).count()
    };
    assert_eq!(by(RepairSource::Majority), 1);
    assert_eq!(by(RepairSource::First(leg(0))), 1);
}

/// How much the last job went through, and what differed.
fn figures(world: &World) -> Option<(u64, Mismatches)> {
    world.events.iter().rev().find_map(|event| {
        if let Event::BackgroundEnded {
            done_bytes,
            mismatches,
            ..
        } = *event
        {
            return Some((done_bytes, mismatches));
        }
        None
    })
}

#[test]
fn what_differs_is_counted_in_sectors_and_in_runs() {
    let mut setup = Setup::legs(3);
    setup.size_bytes = 8 * MIB;
    let mut world = unpaced(World::new(setup, Box::new(First)));
    corrupt(&mut world, 1, blocks(16, 2), 1);
    corrupt(&mut world, 2, blocks(17, 2), 2);
    corrupt(&mut world, 2, blocks(24, 1), 3);
    let (_, _, copied_bytes, _) = scrub(&mut world, true);
    assert_eq!(
        copied_bytes, 8192,
        "two pages, and not the window around them"
    );
    let found = figures(&world).map(|(_, mismatches)| mismatches);
    // In the first page all three copies differ from each other, and in the second one two agree.
    let expected = Mismatches {
        sectors: 4,
        runs: 2,
        undecided_sectors: 3,
    };
    assert_eq!(found, Some(expected));
    world.corrupted.clear();
    assert_eq!(scrub(&mut world, false).3, 0);
}

#[test]
fn a_scrub_goes_on_where_an_earlier_one_was() {
    let mut setup = Setup::legs(2);
    setup.size_bytes = 8 * MIB;
    let mut world = World::new(setup, Box::new(First));
    world.set_rates(0, 16 * MIB);
    corrupt(&mut world, 1, blocks(0, 1), 1);
    corrupt(&mut world, 1, blocks(16_000, 1), 2);
    world.input(Input::StartScrub { repair: false });
    world.pump();
    let status = world.engine.background().unwrap();
    assert!(status.settled_bytes > 0 && status.settled_bytes < 4 * MIB);
    assert!(status.settled_bytes <= status.position_bytes);
    assert_eq!(status.mismatches.sectors, 1);
    world.input(Input::StopBackground);
    world.pump();
    world.set_rates(u64::MAX, u64::MAX);
    let from_bytes = status.settled_bytes;
    world.input(Input::GoOnWithScrub {
        repair: false,
        from_bytes,
    });
    world.finish_background();
    let (_, end, _, sectors) = ended(&world);
    assert_eq!((end, sectors), (BackgroundEnd::Done, 1), "the second one");
    let done = figures(&world).map(|(done_bytes, _)| done_bytes);
    assert_eq!(done, Some(8 * MIB));
}

#[test]
fn a_write_during_a_repair_waits_and_is_not_lost() {
    let mut world = unpaced(world(2));
    corrupt(&mut world, 1, blocks(0, 1), 7);
    world.input(Input::StartScrub { repair: true });
    let write = world.write(block(0));
    world.pump();
    world.corrupted.clear();
    assert_eq!(answer(&world, write), DONE);
    world.settle();
}

#[test]
fn a_scrub_mends_what_a_leg_cannot_read() {
    let mut world = unpaced(world(2));
    world.legs[1].bad.insert(77);
    let (_, end, _, sectors) = scrub(&mut world, false);
    assert_eq!((end, sectors), (BackgroundEnd::Done, 0));
    assert!(world.legs[1].bad.is_empty());
    let extent = Extent::new(77 * 512 / 4096 * 4096, 4096);
    let mended = Event::ReadRepaired {
        leg: leg(1),
        extent,
    };
    assert!(world.events.contains(&mended));
    world.settle();
}

#[test]
fn a_scrub_steps_aside_for_a_rebuild_and_can_be_stopped() {
    let mut world = without(2, unpaced(world(3)));
    world.input(Input::StartScrub { repair: false });
    assert!(world.add_leg(leg(2), Some(0x5a), Missed::From(0)));
    world.pump();
    let kinds: Vec<BackgroundKind> = all_ended(&world).iter().map(|end| end.0).collect();
    let check = BackgroundKind::Scrub { repair: false };
    assert_eq!(kinds, [BackgroundKind::Rebuild, check]);
    world.input(Input::StartScrub { repair: false });
    world.input(Input::PauseBackground);
    world.pump();
    assert!(world.engine.background().unwrap().is_paused);
    assert!(world.engine.is_idle(), "so that the array can be stopped");
    world.input(Input::StopBackground);
    assert_eq!(ended(&world).1, BackgroundEnd::Stopped);
    assert!(world.engine.background().is_none());
    world.settle();
}

#[test]
fn the_ceiling_is_kept() {
    let mut setup = Setup::legs(2);
    setup.size_bytes = 8 * MIB;
    let mut world = World::new(setup, Box::new(First));
    let begun = world.now;
    world.set_rates(0, 16 * MIB);
    world.input(Input::StartScrub { repair: false });
    world.pump();
    let status = world.engine.background().unwrap();
    assert!(
        status.done_bytes < 2 * MIB,
        "no more than a moment's worth at once"
    );
    world.finish_background();
    let took = world.now - begun;
    let ideal = Duration::from_ms(500);
    assert!(took + Duration::from_ms(25) >= ideal, "{took}");
    assert!(took <= ideal + Duration::from_ms(25), "{took}");
}

#[test]
fn the_floor_is_kept_while_clients_wait_in_front_of_the_legs() {
    let mut setup = Setup::legs(2);
    setup.size_bytes = MIB;
    let mut world = World::new(setup, Box::new(First));
    world.log = None;
    world.keeps_answers = false;
    world.set_rates(4 * MIB, 5 * MIB);
    world.input(Input::StartScrub { repair: false });
    let begun = world.now;
    while world.engine.background().is_some() {
        while world.asked.len() < 80 {
            world.read(block(1));
        }
        world.advance(Duration::from_us(100));
        for _ in 0..4 {
            world.complete(0, Outcome::Good);
        }
        while !world.held.is_empty() {
            world.release(0);
        }
        let took = world.now - begun;
        assert!(
            took <= Duration::from_ms(260),
            "{:?}",
            world.engine.background()
        );
    }
    world.settle();
}

#[test]
fn the_background_leaves_memory_to_clients() {
    let mut setup = Setup::legs(2);
    setup.size_bytes = 64 * MIB;
    let mut world = unpaced(World::new(setup, Box::new(First)));
    let large = Extent::new(0, 32 * MIB);
    let (one, other) = (world.alloc(large), world.alloc(large));
    let one = one.expect("there is room for one");
    world.input(Input::StartScrub { repair: false });
    if let Some(other) = &other {
        world.drop_allocated(other);
    }
    let read = world.read(Extent::new(32 * MIB, 32 * MIB));
    let more = world.read(large);
    world.pump_operations();
    assert!(matches!(answer(&world, read), Some(Ok(Reply::Data(_)))));
    assert!(world.asked.contains_key(&more), "it waits for memory");
    let before = world.engine.background().unwrap().done_bytes;
    for _ in 0..10 {
        world.advance(Duration::from_ms(20));
        world.pump_operations();
    }
    let done = world.engine.background().unwrap().done_bytes;
    assert_eq!(done, before, "nothing begins while a client waits");
    world.drop_allocated(&one);
    world.pump();
    assert!(matches!(answer(&world, more), Some(Ok(Reply::Data(_)))));
    world.settle();
}

#[test]
fn what_no_leg_has_said_anything_of_is_no_hole() {
    let mut world = without(1, unpaced(world(2)));
    assert!(world.add_leg(leg(1), None, Missed::From(0)));
    while legs_with(&world, OpKind::Flush).is_empty() {
        world.complete(0, Outcome::Good);
    }
    // All has been copied, and leg 1 is not read yet.
    let status = world.status(blocks(0, 8));
    assert_eq!(legs_with(&world, OpKind::BlockStatus), [0]);
    // Leg 0 says nothing until leg 1 is in sync, and then it is out.
    let is_other = |world: &World| world.find(|pending| pending.op.kind != OpKind::BlockStatus);
    while let [at, ..] = is_other(&world)[..] {
        world.complete(at, Outcome::Good);
        deliver_all(&mut world);
        world.tell_deadline();
    }
    assert_eq!(world.in_sync(), [0, 1]);
    assert_eq!(answer(&world, status), None);
    world.fail_leg(leg(0), FaultReason::ByHand);
    let Some(Ok(Reply::Status(runs))) = answer(&world, status) else {
        panic!("{:?}", answer(&world, status));
    };
    assert!(runs.iter().all(|run| !run.zero && !run.hole), "{runs:?}");
    world.settle();
}
