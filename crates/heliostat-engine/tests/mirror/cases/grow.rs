//! Mirrors that get one more leg while they serve, step by step.

use heliostat_engine::{
    AddRefusal, CopyOrder, Event, GrowRefusal, Layout, LegConfig, LegState, Map, Raid10,
};
use heliostat_format::{Role, Superblock};
use heliostat_types::{Duration, ErrorKind, Extent, LegId, LegSet, OpKind};

use super::metadata::{new_world, setup};
use super::{DONE, answer, end};
use crate::policies::First;
use crate::world::{LEG, Outcome, Setup, World};

const CHUNK: u64 = 4096;
const IO: Outcome = Outcome::Bad(ErrorKind::Io);

fn leg(index: usize) -> LegId {
    LegId::new(index)
}

fn set_of(legs: &[usize]) -> LegSet {
    legs.iter().map(|&index| leg(index)).collect()
}

/// A mirror of so many legs, and room for one more, at rest.
fn mirror(legs: usize) -> World {
    let mut world = new_world(with_room(legs));
    world.pump();
    world
}

fn with_room(legs: usize) -> Setup {
    let mut setup = setup(legs + 1, 128);
    setup.legs[legs].state = LegState::Missing;
    setup.map = Some(Map::mirror(legs, setup.size_bytes));
    setup
}

/// What the superblock of a leg says of how many there are, and who they are.
fn told(world: &World, index: usize) -> (u32, Vec<Role>) {
    let superblock = world.superblock_on(leg(index)).expect("it has one");
    (superblock.raid_disks, superblock.roles[..3].to_vec())
}

/// Ends what legs are sent of metadata until both are sent superblocks, which are left to them.
fn up_to_superblocks(world: &mut World) {
    loop {
        let found = world.find(|pending| world.is_metadata(&pending.op));
        let is_superblock = |&at: &usize| Superblock::parse(&world.pending[at].snapshot).is_ok();
        if found.iter().all(is_superblock) {
            return assert_eq!(found.len(), 2);
        }
        world.complete(found[0], Outcome::Good);
    }
}

fn refusals(world: &World) -> Vec<GrowRefusal> {
    let events = world.events.iter();
    let refusal = |event: &Event| {
        if let Event::GrowRefused { refusal } = event {
            return Some(*refusal);
        }
        None
    };
    events.filter_map(refusal).collect()
}

#[test]
fn a_mirror_gets_a_missing_leg_and_then_one_that_is_there() {
    let mut world = mirror(2);
    let write = world.write(Extent::new(0, CHUNK));
    world.pump();
    assert_eq!(answer(&world, write), DONE);
    world.grow();
    let grown = Event::Grown { leg: leg(2) };
    assert!(!world.events.contains(&grown), "not before it is durable");
    assert_eq!(
        world.engine.add_refusal(leg(2)),
        Some(AddRefusal::Unrecorded)
    );
    world.pump();
    assert!(world.events.contains(&grown));
    let [in_0, in_1] = [Role::Active(0), Role::Active(1)];
    for index in [0, 1] {
        assert_eq!(told(&world, index), (3, vec![in_0, in_1, Role::Spare]));
    }
    assert_eq!(world.engine.in_sync(), set_of(&[0, 1]));
    assert_eq!(world.engine.leg_state(leg(2)), LegState::Missing);
    assert_eq!(world.believed(), set_of(&[0, 1]));
    assert!(world.add_first(leg(2)));
    let write = world.write(Extent::new(CHUNK, CHUNK));
    world.set_rates(u64::MAX, u64::MAX);
    world.finish_background();
    assert_eq!(answer(&world, write), DONE);
    assert_eq!(world.engine.in_sync(), set_of(&[0, 1, 2]));
    assert_eq!(world.believed(), set_of(&[0, 1, 2]));
    for index in [0, 1, 2] {
        assert_eq!(told(&world, index), (3, vec![in_0, in_1, Role::Active(2)]));
    }
    world.settle();
}

#[test]
fn a_mirror_grows_again_and_again_until_there_is_no_room() {
    let mut world = mirror(2);
    for legs in 3..=16 {
        assert_eq!(world.engine.grow_refusal(), None, "{legs}");
        world.grow();
        world.pump();
        let map = world.engine.map();
        assert_eq!(map.legs(), legs);
        assert_eq!(map.role_of(leg(legs - 1)), Some(legs - 1));
        let holders = map.holders(0);
        assert_eq!(holders, LegSet::first(legs));
    }
    world.grow();
    assert_eq!(refusals(&world), [GrowRefusal::NoRoom]);
    let (raid_disks, _) = told(&world, 0);
    assert_eq!(raid_disks, 16);
    let write = world.write(Extent::new(0, CHUNK));
    world.pump();
    assert_eq!(answer(&world, write), DONE);
}

#[test]
fn what_cannot_grow_says_why() {
    let striped = Raid10 {
        order: CopyOrder::Near,
        copies: 2,
        chunk_bytes: CHUNK,
    };
    let mut raid10 = with_room(2);
    let map = Map::for_size(Layout::Raid10(striped), 2, raid10.size_bytes);
    raid10.map = Some(map.unwrap());
    let mut world = new_world(raid10);
    world.pump();
    world.grow();
    assert_eq!(refusals(&world), [GrowRefusal::NotAMirror]);

    let raw = Setup {
        meta: None,
        ..with_room(2)
    };
    let mut world = World::new(raw, Box::new(First));
    world.grow();
    assert_eq!(refusals(&world), [GrowRefusal::NoSuperblock]);

    let mut world = mirror(2);
    world.set_rates(0, 1);
    assert!(world.replace(leg(1)));
    world.grow();
    assert_eq!(refusals(&world), [GrowRefusal::Replacing]);

    let mut world = mirror(2);
    world.grow();
    world.grow();
    assert_eq!(refusals(&world), [GrowRefusal::Unrecorded]);
    assert!(!world.replace(leg(1)), "nor is a leg replaced meanwhile");
}

#[test]
fn how_many_there_are_changes_between_two_events() {
    let mut world = mirror(2);
    let write = world.write(Extent::new(0, CHUNK));
    world.pump();
    assert_eq!(answer(&world, write), DONE);
    // A commit is on its way, of a bit alone.
    let write = world.write(Extent::new(8 * CHUNK, CHUNK));
    world.grow();
    assert_eq!(world.engine.map().legs(), 2, "not before that is over");
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    assert_eq!(world.engine.map().legs(), 2);
    end(&mut world, 1, OpKind::Write, Outcome::Good);
    assert_eq!(world.engine.map().legs(), 3);
    world.pump();
    assert_eq!(answer(&world, write), DONE);
    assert_eq!((told(&world, 0).0, told(&world, 1).0), (3, 3));
    assert_eq!(refusals(&world), []);
}

#[test]
fn a_leg_that_fails_to_hear_of_it_is_out() {
    let mut world = mirror(2);
    world.grow();
    up_to_superblocks(&mut world);
    end(&mut world, 1, OpKind::Write, IO);
    world.pump();
    assert!(world.events.contains(&Event::Grown { leg: leg(2) }));
    assert_eq!(world.engine.in_sync(), set_of(&[0]));
    assert_eq!(world.believed(), set_of(&[0]));
    let (raid_disks, roles) = told(&world, 0);
    assert_eq!(
        (raid_disks, roles),
        (3, vec![Role::Active(0), Role::Faulty, Role::Spare])
    );
    world.settle();
}

#[test]
fn after_a_power_cut_there_are_as_many_as_the_freshest_leg_says() {
    // The event has reached one leg alone.
    for reached in [0, 1] {
        let mut world = mirror(2);
        world.grow();
        up_to_superblocks(&mut world);
        end(&mut world, reached, OpKind::Write, Outcome::Good);
        world.fail_power();
        for (present, roles) in [(set_of(&[0, 1]), 3), (set_of(&[reached]), 3)] {
            let found = world.find_array(present, 0).unwrap();
            assert_eq!(found.roles(), roles);
            assert_eq!(found.trusted, present);
        }
        let found = world.find_array(set_of(&[1 - reached]), 0).unwrap();
        let (heard, _) = told(&world, 1 - reached);
        assert_eq!(
            found.roles(),
            heard as usize,
            "the cut may have kept its superblock"
        );
        world.take_up_with(set_of(&[0, 1]), 0, Box::new(First));
        world.advance(Duration::from_ms(1));
        world.pump();
        assert_eq!((told(&world, 0).0, told(&world, 1).0), (3, 3));
        assert_eq!(world.engine.map().legs(), 3);
        assert!(world.add_first(leg(2)));
        world.set_rates(u64::MAX, u64::MAX);
        world.finish_background();
        assert_eq!(world.engine.in_sync(), set_of(&[0, 1, 2]));
        world.settle();
    }
}

#[test]
fn a_spare_takes_the_new_place() {
    let mut world = mirror(2);
    world.add_spare(world.setup.size_bytes);
    world.grow();
    world.pump();
    world.set_rates(u64::MAX, u64::MAX);
    world.finish_background();
    assert_eq!(world.engine.in_sync(), set_of(&[0, 1, 2]));
    world.settle();
}

#[test]
fn it_grows_beside_a_leg_that_is_being_rebuilt() {
    let mut setup = with_room(2);
    setup.legs[1] = LegConfig {
        state: LegState::Missing,
        ..LEG
    };
    setup.legs[1].data_offset_bytes = setup.legs[0].data_offset_bytes;
    let mut world = new_world(setup);
    world.pump();
    world.set_rates(0, 1);
    let missed = world
        .engine
        .missed_by(&world.superblock_on(leg(1)).unwrap());
    assert!(world.add_leg(leg(1), None, missed));
    world.grow();
    world.pump();
    assert!(world.add_first(leg(2)));
    world.set_rates(u64::MAX, u64::MAX);
    world.finish_background();
    assert_eq!(world.engine.in_sync(), set_of(&[0, 1, 2]));
    world.settle();
}
