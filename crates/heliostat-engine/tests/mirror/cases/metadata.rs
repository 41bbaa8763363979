//! Arrays with metadata on their legs, step by step.

mod bits;
mod moved;

use heliostat_engine::{
    CopyOrder, Event, FaultReason, Input, Layout, LegConfig, LegState, Map, Missed, Raid10,
};
use heliostat_format::{Role, Superblock};
use heliostat_types::{Duration, ErrorKind, Extent, LegId, LegSet, OpKind, Prng, RandomStream};

use super::{DONE, answer, at_leg, end};
use crate::meta::Meta;
use crate::policies::First;
use crate::world::{LEG, Outcome, Setup, World};

const CHUNK: u64 = 4096;
const IO: Outcome = Outcome::Bad(ErrorKind::Io);
const FULL: Outcome = Outcome::Bad(ErrorKind::NoSpace);
pub(super) const META: Meta = Meta {
    chunk_bytes: Some(4096),
    daemon_sleep_seconds: 5,
    events: 10,
    has_log: false,
};

pub(super) fn setup(legs: usize, chunks: u64) -> Setup {
    let leg = |number: u64| LegConfig {
        data_offset_bytes: (16 + 4 * number) << 10,
        ..LEG
    };
    Setup {
        size_bytes: chunks * CHUNK,
        legs: (0..).map(leg).take(legs).collect(),
        meta: Some(META),
        ..Setup::legs(legs)
    }
}

pub(super) fn new_world(setup: Setup) -> World {
    let mut world = World::new(setup, Box::new(First));
    world.tell_deadline();
    world
}

pub(super) fn world(legs: usize) -> World {
    new_world(setup(legs, 128))
}

/// The first block of a chunk.
pub(super) fn chunk(number: u64) -> Extent {
    Extent::new(number * CHUNK, 512)
}

/// The metadata that a leg is being sent, by place in `pending`.
fn metadata_at(world: &World, leg: usize) -> Vec<usize> {
    let pending = world.find(|pending| pending.op.leg.index() == leg);
    let pending = pending.into_iter();
    pending
        .filter(|&at| world.is_metadata(&world.pending[at].op))
        .collect()
}

/// Legs end what they were sent of metadata, step by step, and nothing else.
pub(super) fn end_commits(world: &mut World) {
    loop {
        let found = world.find(|pending| world.is_metadata(&pending.op));
        let Some(&at) = found.first() else { break };
        world.complete(at, Outcome::Good);
    }
}

/// The superblock that a leg is being sent.
fn superblock_at(world: &World, leg: usize) -> Option<Superblock> {
    let found = metadata_at(world, leg);
    let bytes = found.iter().map(|&at| &world.pending[at].snapshot[..]);
    bytes
        .filter_map(|bytes| Superblock::parse(bytes).ok())
        .next()
}

fn data_writes(world: &World) -> usize {
    let found = world.find(|pending| pending.op.kind.is_mutating());
    let found = found.into_iter();
    found
        .filter(|&at| !world.is_metadata(&world.pending[at].op))
        .count()
}

#[test]
fn writes_that_come_during_a_commit_share_the_next() {
    let mut world = world(2);
    world.write(chunk(0));
    assert_eq!(world.metadata_writes, 2, "a page for each leg");
    let writes: Vec<u64> = (1..=20).map(|number| world.write(chunk(number))).collect();
    assert_eq!(world.metadata_writes, 2);
    end_commits(&mut world);
    // Page and superblock of the first, page of the second.
    assert_eq!(world.metadata_writes, 6);
    assert_eq!(data_writes(&world), 42);
    world.pump();
    for write in writes {
        assert_eq!(answer(&world, write), DONE);
    }
    let figures = world.engine.bitmap_figures().expect("there is a bitmap");
    assert_eq!((figures.sets, figures.set), (21, 21));
    world.settle();
}

#[test]
fn a_working_set_costs_metadata_once() {
    let mut world = world(2);
    let mut prng = RandomStream::new(1, "writes", 0);
    for number in 0..100 {
        world.write(chunk(number));
        world.pump();
    }
    let first_round = world.metadata_writes;
    assert!(first_round <= 2 * 101, "a page for each, and a superblock");
    for _ in 0..1_000 {
        world.write(chunk(prng.below(100)));
        world.pump();
    }
    assert_eq!(world.metadata_writes, first_round);
    world.settle();
    let figures = world.engine.bitmap_figures().expect("there is a bitmap");
    assert_eq!(figures.set, 0, "at rest all are cleared");
}

#[test]
fn a_life_of_reads_writes_no_metadata() {
    let mut world = world(3);
    for number in 0..20 {
        world.read(chunk(number));
        world.pump();
        world.advance(Duration::from_secs(7));
    }
    world.flush();
    world.pump();
    world.settle();
    assert_eq!(world.metadata_writes, 0);
}

#[test]
fn a_missing_leg_is_left_two_events_behind_before_anything_is_written() {
    for seed in [1, 2] {
        let mut setup = setup(3, 16);
        setup.seed = seed;
        setup.legs[1].state = LegState::Missing;
        let mut world = World::new(setup, Box::new(First));
        let write = world.write(chunk(3));
        assert!(!world.engine.is_taken_up());
        let mut events = Vec::new();
        while data_writes(&world) == 0 {
            events.extend(superblock_at(&world, 2).map(|superblock| superblock.events));
            assert!(superblock_at(&world, 1).is_none());
            for leg in [0, 2] {
                end(&mut world, leg, OpKind::Write, Outcome::Good);
            }
        }
        assert!(world.engine.is_taken_up());
        assert_eq!(events, [11, 12]);
        world.pump();
        assert_eq!(answer(&world, write), DONE);
        world.settle();
    }
}

#[test]
fn a_leg_that_missed_an_event_hears_of_it_before_the_next() {
    let mut world = world(2);
    world.write(chunk(0));
    // The page, and the superblock of one leg.
    for leg in [0, 1, 0] {
        end(&mut world, leg, OpKind::Write, Outcome::Good);
    }
    for at in (0..world.pending.len()).rev() {
        world.pending.remove(at);
    }
    world.fail_power();
    world.take_up_with(LegSet::first(2), 0, Box::new(First));
    world.tell_deadline();
    let mut events = Vec::new();
    while let Some(&at) = world.find(|_| true).first() {
        events.extend(superblock_at(&world, 1).map(|superblock| superblock.events));
        world.complete(at, Outcome::Good);
    }
    events.dedup();
    assert_eq!(events, [11, 12]);
    assert!(world.engine.is_taken_up());
    world.settle();
}

#[test]
fn legs_do_not_call_each_other_failed_after_two_commits_that_were_cut_short() {
    let mut world = world(3);
    world.fail_leg(LegId::new(2), FaultReason::ByHand);
    // Of two legs one hears of it, and is not there when the power is back.
    let told = superblock_after_pages(&mut world, [0, 1]);
    assert_eq!((told.events, told.roles[2]), (11, Role::Faulty));
    cut_short(&mut world, 0);
    let rest: LegSet = [1, 2].into_iter().map(LegId::new).collect();
    world.take_up_with(rest, 0, Box::new(First));
    world.tell_deadline();
    let told = superblock_after_pages(&mut world, [2, 1]);
    assert_eq!((told.events, told.roles[0]), (11, Role::Active(0)));
    cut_short(&mut world, 2);
    // One of them calls another one failed, and no other one says that of it: it is right.
    world.take_up_with(LegSet::first(3), 0, Box::new(First));
    assert_eq!(world.engine.in_sync(), LegSet::first(2));
    world.tell_deadline();
    world.settle();
}

#[test]
fn legs_that_are_equally_fresh_and_disagree_are_told_before_a_write() {
    let mut setup = setup(3, 16);
    setup.meta = Some(Meta {
        chunk_bytes: None,
        ..META
    });
    let mut world = new_world(setup);
    world.write(chunk(0));
    world.pump();
    world.fail_leg(LegId::new(2), FaultReason::ByHand);
    // Of two legs one hears of it, and is not there when the power is back.
    cut_short(&mut world, 1);
    let rest: LegSet = [0, 2].into_iter().map(LegId::new).collect();
    // The others hear something else, one after the other.
    for (present, leg) in [(rest, 0), (LegSet::first(3), 2)] {
        world.take_up_with(present, 0, Box::new(First));
        world.tell_deadline();
        cut_short(&mut world, leg);
    }
    world.take_up_with(LegSet::first(3), 0, Box::new(First));
    let told = [0, 1, 2].map(|leg| {
        let superblock = world.superblock_on(LegId::new(leg)).unwrap();
        (superblock.events, superblock.roles[2])
    });
    let (active, faulty) = (Role::Active(2), Role::Faulty);
    assert_eq!(told, [(12, active), (12, faulty), (12, active)]);
    assert_eq!(world.engine.in_sync(), LegSet::first(3));
    world.tell_deadline();
    world.write(chunk(1));
    assert_eq!(data_writes(&world), 0);
    assert_eq!(next_superblocks(&mut world), [Some(13); 3]);
    world.pump();
    world.settle();
}

#[test]
fn legs_are_not_called_equal_before_it_is_told_who_is_out() {
    let mut world = world(3);
    let (rebuilt, missing) = (LegId::new(1), 2);
    world.fail_leg(rebuilt, FaultReason::ByHand);
    world.pump();
    assert!(world.add_leg(rebuilt, None, Missed::From(0)));
    world.input(Input::PauseBackground);
    world.pump();
    world.write_fua(chunk(5));
    end_commits(&mut world);
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    world.pending.clear();
    world.fail_power();
    // Leg 2 does not have it, is not there, and is still counted on.
    world.take_up_with(LegSet::first(missing), 0, Box::new(First));
    world.tell_deadline();
    // Legs 0 and 1 become equal while the first superblock waits.
    let wait = |world: &mut World| {
        world.now = world.engine.next_deadline().expect("it is not done");
        world.tell_deadline();
    };
    while world.engine.missing_bytes(rebuilt) != Some(0) {
        let found = world.find(|pending| !world.is_metadata(&pending.op));
        match found.first() {
            Some(&at) => world.complete(at, Outcome::Good),
            None => wait(&mut world),
        }
    }
    superblock_after_pages(&mut world, [0, 1]);
    end(&mut world, 0, OpKind::Write, FULL);
    let mut told = Vec::new();
    while told.last() != Some(&(Role::Spare, true)) {
        if let Some(superblock) = superblock_at(&world, 0) {
            let is_clean = superblock.resync_offset_sectors != 0;
            told.push((superblock.roles[missing], is_clean));
        }
        if !world.pump_one() {
            wait(&mut world);
        }
    }
    assert!(told.contains(&(Role::Active(2), false)), "{told:?}");
    assert!(!told.contains(&(Role::Active(2), true)), "{told:?}");
    world.settle();
}

/// The superblock that the first of these legs is sent when both have their pages of the bitmap.
fn superblock_after_pages(world: &mut World, legs: [usize; 2]) -> Superblock {
    loop {
        if let Some(superblock) = superblock_at(world, legs[0]) {
            return superblock;
        }
        for leg in legs {
            end(world, leg, OpKind::Write, Outcome::Good);
        }
    }
}

/// One leg ends what it was sent, and the power fails before any other one does.
fn cut_short(world: &mut World, leg: usize) {
    end(world, leg, OpKind::Write, Outcome::Good);
    world.pending.clear();
    world.fail_power();
}

#[test]
fn no_write_relies_on_a_commit_that_a_leg_has_failed() {
    let mut world = world(3);
    let write = world.write(chunk(5));
    end(&mut world, 0, OpKind::Write, IO);
    for leg in [1, 2, 1, 2] {
        end(&mut world, leg, OpKind::Write, Outcome::Good);
    }
    assert_eq!(world.in_sync(), [1, 2]);
    assert_eq!(data_writes(&world), 0, "the fault is not durable");
    end_commits(&mut world);
    assert_eq!(data_writes(&world), 2);
    world.pump();
    assert_eq!(answer(&world, write), DONE);
    world.settle();
}

#[test]
fn the_last_leg_that_fails_a_commit_fails_the_write_and_nothing_else() {
    let mut world = world(2);
    world.fail_leg(LegId::new(1), FaultReason::ByHand);
    world.pump();
    let write = world.write(chunk(5));
    let beside = world.write(chunk(6));
    end(&mut world, 0, OpKind::Write, IO);
    assert_eq!(answer(&world, write), Some(&Err(ErrorKind::Io)));
    assert_eq!(answer(&world, beside), Some(&Err(ErrorKind::Io)));
    // The second one had asked for another try.
    end(&mut world, 0, OpKind::Write, IO);
    assert!(world.pending.is_empty(), "nobody asks again");
    let kept = |event: &&Event| matches!(event, Event::LastLegKept { .. });
    assert_eq!(world.events.iter().filter(kept).count(), 1);
    let again = world.write(chunk(5));
    world.pump();
    assert_eq!(answer(&world, again), DONE);
    world.settle();
}

#[test]
fn an_array_is_active_until_its_legs_say_that_it_is_clean() {
    let mut world = world(2);
    world.pump();
    assert!(!world.engine.is_active());
    world.write(chunk(5));
    assert!(world.engine.is_active());
    world.pump();
    world.advance(Duration::from_secs(1));
    for leg in 0..2 {
        end(&mut world, leg, OpKind::Flush, Outcome::Good);
    }
    assert!(!world.engine.record().dirty && world.engine.is_active());
    world.pump();
    assert!(!world.engine.is_active());
    world.settle();
}

#[test]
fn what_a_full_leg_could_not_be_told_it_is_told_when_it_has_room() {
    let mut world = world(2);
    world.write(chunk(5));
    world.pump();
    world.fail_leg(LegId::new(1), FaultReason::ByHand);
    end(&mut world, 0, OpKind::Write, FULL);
    // Nor can it become clean, which comes of itself.
    world.advance(Duration::from_secs(1));
    end(&mut world, 0, OpKind::Flush, Outcome::Good);
    end(&mut world, 0, OpKind::Write, FULL);
    assert!(world.pending.is_empty() && world.engine.record().dirty);
    assert_eq!(world.believed(), LegSet::first(2));
    for _ in 0..2 {
        world.advance(Duration::from_secs(1));
        world.pump();
    }
    assert!(!world.engine.record().dirty);
    assert_eq!(world.believed(), LegSet::first(1));
    world.settle();
}

/// Ends steps of commits, all of them well, until legs are sent superblocks. Their events, by leg.
fn next_superblocks(world: &mut World) -> Vec<Option<u64>> {
    loop {
        let legs = 0..world.legs.len();
        let events = legs.map(|leg| Some(superblock_at(world, leg)?.events));
        let events: Vec<Option<u64>> = events.collect();
        if events.iter().any(Option::is_some) {
            return events;
        }
        let found = world.find(|pending| world.is_metadata(&pending.op));
        world.complete(
            *found.first().expect("a commit is on its way"),
            Outcome::Good,
        );
    }
}

/// Two pairs of legs, each with half of the chunks.
fn two_pairs() -> Setup {
    let raid10 = Raid10 {
        order: CopyOrder::Near,
        copies: 2,
        chunk_bytes: CHUNK,
    };
    let setup = setup(4, 128);
    let map = Map::for_size(Layout::Raid10(raid10), 4, setup.size_bytes).unwrap();
    Setup {
        map: Some(map),
        ..setup
    }
}

#[test]
fn a_leg_that_fails_the_first_of_two_events_is_out_before_the_second() {
    let mut setup = two_pairs();
    setup.legs[3].state = LegState::Missing;
    let mut world = new_world(setup);
    end(&mut world, 0, OpKind::Write, IO);
    assert_eq!(
        next_superblocks(&mut world),
        [None, Some(11), Some(11), None]
    );
    for leg in [1, 2] {
        end(&mut world, leg, OpKind::Write, Outcome::Good);
    }
    // Otherwise it would have to stay, two events behind, if leg 1 were lost now.
    assert_eq!(world.in_sync(), [1, 2]);
    let mut events = vec![11];
    while !world.engine.is_taken_up() {
        events.extend(next_superblocks(&mut world)[1]);
        for leg in [1, 2] {
            end(&mut world, leg, OpKind::Write, Outcome::Good);
        }
    }
    events.dedup();
    assert_eq!(events, [11, 12, 13]);
    world.settle();
}

#[test]
fn legs_that_stay_are_never_two_events_apart() {
    let mut world = new_world(two_pairs());
    // Without it, chunks depend on leg 0 alone.
    world.fail_leg(LegId::new(1), FaultReason::ByHand);
    world.pump();
    world.write(chunk(1));
    assert_eq!(
        next_superblocks(&mut world),
        [Some(12), None, Some(12), Some(12)]
    );
    end(&mut world, 2, OpKind::Write, Outcome::Good);
    end(&mut world, 0, OpKind::Write, IO);
    end(&mut world, 3, OpKind::Write, IO);
    assert_eq!(world.in_sync(), [0, 2]);
    // Leg 0 must hear of event 12 before anybody hears of another one.
    for _ in 0..2 {
        world.write(chunk(2));
        assert_eq!(
            next_superblocks(&mut world),
            [Some(12), None, Some(12), None]
        );
        let told = superblock_at(&world, 0).unwrap();
        assert_eq!(told.roles[..4], [0, 1, 2, 3].map(role_of_four));
        end(&mut world, 2, OpKind::Write, Outcome::Good);
        end(&mut world, 0, OpKind::Write, IO);
    }
    let write = world.write(chunk(2));
    next_superblocks(&mut world);
    end(&mut world, 2, OpKind::Write, Outcome::Good);
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    assert_eq!(
        next_superblocks(&mut world),
        [Some(13), None, Some(13), None]
    );
    assert_eq!(superblock_at(&world, 0).unwrap().roles[3], Role::Faulty);
    world.pump();
    assert_eq!(answer(&world, write), DONE);
    world.settle();
}

/// The role of one of four legs when leg 1 was known to be out, and no other.
fn role_of_four(leg: u16) -> Role {
    if leg == 1 {
        Role::Faulty
    } else {
        Role::Active(leg)
    }
}

#[test]
fn legs_that_are_all_full_stay() {
    let mut world = world(2);
    let write = world.write(chunk(5));
    for leg in [0, 1] {
        end(&mut world, leg, OpKind::Write, FULL);
    }
    assert_eq!(answer(&world, write), Some(&Err(ErrorKind::NoSpace)));
    assert_eq!(world.in_sync(), [0, 1]);
    let events: Vec<u64> = (0..3)
        .map(|_| {
            world.write(chunk(5));
            end_commit_full(&mut world)
        })
        .collect();
    assert_eq!(events, [11, 11, 11], "nobody has heard of it");
    let again = world.write(chunk(5));
    world.pump();
    assert_eq!(answer(&world, again), DONE);
    world.settle();
}

/// Both legs write the page and are too full for the superblock. Its events.
fn end_commit_full(world: &mut World) -> u64 {
    for leg in [0, 1] {
        end(world, leg, OpKind::Write, Outcome::Good);
    }
    let superblock = superblock_at(world, 0).expect("the page is durable");
    for leg in [0, 1] {
        end(world, leg, OpKind::Write, FULL);
    }
    superblock.events
}

#[test]
fn a_flush_that_fails_beside_a_commit_fails_it() {
    let mut setup = setup(2, 16);
    setup.legs[0].fua = false;
    let mut world = new_world(setup);
    world.flush();
    let write = world.write(chunk(5));
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    // That of the client; the one of the commit comes later, and says nothing of what is lost.
    end(&mut world, 0, OpKind::Flush, IO);
    end(&mut world, 0, OpKind::Flush, Outcome::Good);
    while let Some(&at) = metadata_at(&world, 1).first() {
        world.complete(at, Outcome::Good);
    }
    assert_eq!(world.in_sync(), [1]);
    let reason = FaultReason::FlushFailed(ErrorKind::Io);
    let leg = LegId::new(0);
    assert!(world.events.contains(&Event::LegFaulted { leg, reason }));
    world.pump();
    assert_eq!(answer(&world, write), DONE);
    world.settle();
}

#[test]
fn a_write_that_comes_while_the_legs_become_clean_waits_for_dirty() {
    let mut world = world(2);
    world.write(chunk(5));
    world.pump();
    world.advance(Duration::from_secs(1));
    for leg in [0, 1] {
        end(&mut world, leg, OpKind::Flush, Outcome::Good);
    }
    assert!(!world.engine.record().dirty);
    for leg in [0, 1] {
        end(&mut world, leg, OpKind::Write, Outcome::Good);
    }
    assert_eq!(
        metadata_at(&world, 0).len(),
        1,
        "the superblock is on its way"
    );
    let write = world.write(chunk(5));
    assert_eq!(data_writes(&world), 0);
    let mut clean = Vec::new();
    while data_writes(&world) == 0 {
        clean.extend(superblock_at(&world, 0).map(|block| block.resync_offset_sectors));
        for leg in [0, 1] {
            end(&mut world, leg, OpKind::Write, Outcome::Good);
        }
    }
    assert_eq!(clean, [u64::MAX, 0]);
    world.pump();
    assert_eq!(answer(&world, write), DONE);
    world.settle();
}

#[test]
fn a_bitmap_of_several_pages_is_durable_before_a_trim_of_all() {
    let chunks = 3 * 4096;
    let mut setup = setup(2, chunks);
    setup.meta = Some(Meta {
        chunk_bytes: Some(512),
        ..META
    });
    for leg in &mut setup.legs {
        leg.data_offset_bytes += 16 << 10;
    }
    let mut world = new_world(setup);
    let trim = world.trim(Extent::new(0, chunks * CHUNK), false);
    assert_eq!(data_writes(&world), 0);
    end_commits(&mut world);
    assert_eq!(data_writes(&world), 2);
    let figures = world.engine.bitmap_figures().expect("there is a bitmap");
    assert_eq!((figures.pages_written, figures.set), (4, figures.chunks));
    world.pump();
    assert_eq!(answer(&world, trim), DONE);
    world.settle();
    let figures = world.engine.bitmap_figures().expect("there is a bitmap");
    assert_eq!(figures.set, 0);
}

#[test]
fn what_may_differ_after_a_power_cut_is_read_from_one_leg() {
    let mut world = world(3);
    world.write(chunk(5));
    end_commits(&mut world);
    end(&mut world, 1, OpKind::Write, Outcome::Good);
    world.fail_power();
    world.take_up_with(
        LegSet::first(3),
        0,
        Box::new(crate::policies::Rotate::default()),
    );
    world.tell_deadline();
    for _ in 0..3 {
        world.read(chunk(5));
    }
    assert_eq!(at_leg(&world, 0, OpKind::Read).len(), 3);
    for _ in 0..3 {
        world.read(chunk(6));
    }
    assert_eq!(at_leg(&world, 0, OpKind::Read).len(), 4);
    world.settle();
}

#[test]
fn a_dirty_array_with_nothing_to_resync_becomes_clean() {
    let mut setup = setup(2, 16);
    setup.clean_delay = Duration::from_secs(3600);
    let mut world = new_world(setup);
    world.write(chunk(5));
    for _ in 0..4 {
        world.pump();
        world.advance(Duration::from_secs(6));
    }
    world.pump();
    let figures = world.engine.bitmap_figures().expect("there is a bitmap");
    assert_eq!((world.engine.record().dirty, figures.set), (true, 0));
    world.fail_power();
    world.take_up_with(LegSet::first(2), 0, Box::new(First));
    assert!(world.engine.record().dirty);
    world.tell_deadline();
    world.pump();
    assert!(!world.engine.record().dirty);
    world.settle();
}

#[test]
fn a_write_that_no_leg_has_room_for_changes_nothing_of_which_leg_is_read() {
    let mut setup = setup(2, 16);
    // It comes first, and so it is what Linux reads after a crash.
    setup.legs[0].write_mostly = true;
    let mut world = new_world(setup);
    world.write(chunk(5));
    end_commits(&mut world);
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    world.fail_power();
    world.take_up_with(LegSet::first(2), 0, Box::new(First));
    world.tell_deadline();
    world.read(chunk(5));
    assert_eq!(at_leg(&world, 0, OpKind::Read).len(), 1);
    // And nothing else: there is no resync yet.
    end(&mut world, 0, OpKind::Read, Outcome::Good);
    let write = world.write(chunk(5));
    for leg in [0, 1] {
        end(&mut world, leg, OpKind::Write, FULL);
    }
    assert_eq!(answer(&world, write), Some(&Err(ErrorKind::NoSpace)));
    world.read(chunk(5));
    assert_eq!(at_leg(&world, 0, OpKind::Read).len(), 1);
    world.settle();
}

#[test]
fn a_leg_that_comes_back_gets_what_the_bitmap_knows_and_is_believed_then() {
    let mut world = world(3);
    world.set_rates(u64::MAX, u64::MAX);
    world.write(chunk(1));
    world.pump();
    let back = LegId::new(1);
    world.fail_leg(back, FaultReason::ByHand);
    world.pump();
    world.write(chunk(5));
    world.pump();
    let others = LegSet::from_iter([LegId::new(0), LegId::new(2)]);
    assert_eq!(world.believed(), others);
    // It was there at the event that made the array dirty, and at none since.
    let superblock = world.superblock_on(back).unwrap();
    assert_eq!(superblock.events, META.events + 1);
    let missed = world.engine.missed_by(&superblock);
    let by_bits = Missed::Bits {
        from: 0,
        all_from: None,
    };
    assert_eq!(missed, by_bits);
    let long_ago = Superblock {
        events: META.events - 9,
        ..superblock
    };
    assert_eq!(world.engine.missed_by(&long_ago), Missed::From(0));
    assert!(world.add_leg(back, None, missed));
    world.write(chunk(9));
    world.finish_background();
    assert_eq!(world.engine.leg_state(back), LegState::InSync);
    assert_eq!(world.believed(), LegSet::first(3));
    let copied = world.events.iter().find_map(|event| {
        if let Event::BackgroundEnded { copied_bytes, .. } = event {
            return Some(*copied_bytes);
        }
        None
    });
    assert!(copied.is_some_and(|bytes| bytes <= 3 * CHUNK), "{copied:?}");
    world.settle();
}

#[test]
fn a_leg_that_fails_to_write_down_that_it_is_back_is_out() {
    let mut world = world(2);
    world.set_rates(u64::MAX, u64::MAX);
    let back = LegId::new(1);
    world.fail_leg(back, FaultReason::ByHand);
    world.pump();
    assert!(world.add_leg(back, None, Missed::From(0)));
    // All of the data goes well, and none of the metadata.
    loop {
        world.advance(Duration::from_ms(1));
        if metadata_at(&world, 1).is_empty() {
            if world.pending.is_empty() && world.engine.leg_state(back) != LegState::Rebuilding {
                break;
            }
            if !world.pending.is_empty() {
                world.complete(0, Outcome::Good);
            }
        } else {
            let at = metadata_at(&world, 1)[0];
            world.complete(at, IO);
        }
    }
    assert_eq!(world.engine.leg_state(back), LegState::Faulted);
    assert_eq!(world.believed(), LegSet::first(1));
    world.settle();
}

#[test]
fn a_leg_that_is_rebuilt_hears_of_no_event_that_one_in_sync_has_missed() {
    let mut world = world(3);
    let back = LegId::new(1);
    world.fail_leg(back, FaultReason::ByHand);
    world.pump();
    let before = world.superblock_on(LegId::new(2)).unwrap().events;
    assert!(world.add_leg(back, None, Missed::From(0)));
    let told = Some(before + 1);
    assert_eq!(next_superblocks(&mut world), [told, None, told]);
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    world.fail_leg(LegId::new(2), FaultReason::ByHand);
    // Leg 2 says that leg 1 failed, has all there is, and nothing on record speaks against it: it
    // must be believed beside leg 1 as well.
    let on = |leg| world.superblock_on(LegId::new(leg)).unwrap();
    assert_eq!(on(2).events, before);
    assert_eq!(on(2).roles[1], Role::Faulty);
    assert!(on(1).events < before);
    let both = LegSet::from_iter([back, LegId::new(2)]);
    let found = world.find_array(both, 1).expect("leg 2 has all its data");
    assert_eq!(found.trusted, LegSet::from_iter([LegId::new(2)]));
    // Leg 1 hears of the next event, which has both.
    let told = Some(before + 2);
    // What leg 2 was sent is still on its way, and nobody waits for it.
    let late = metadata_at(&world, 2)[0];
    world.complete(late, Outcome::Good);
    assert_eq!(next_superblocks(&mut world), [told, None, None]);
    end(&mut world, 0, OpKind::Write, Outcome::Good);
    assert_eq!(next_superblocks(&mut world), [None, told, None]);
    world.pump();
    world.settle();
}
