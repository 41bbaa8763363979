//! Streams on RAID10, where each chunk lies on some of the legs.

use std::collections::BTreeMap;

use heliostat_types::{Duration, Extent, LegId, LegSet, OpKind};

use super::{KIB, MIB, Rig, op};
use crate::api::{Layout, OpView};
use crate::read_ahead::StreamWay;
use crate::read_ahead::at_random::AtRandom;

const CHUNK: u64 = 512 * KIB;

/// Chunks on two legs each, in turns.
#[derive(Debug)]
struct Near {
    legs: u64,
}

impl Layout for Near {
    fn chunk_bytes(&self) -> Option<u64> {
        Some(CHUNK)
    }

    fn address_on(&self, leg: LegId, offset: u64) -> Option<u64> {
        let (groups, chunk) = (self.legs / 2, offset / CHUNK);
        let holds = chunk % groups == leg.index() as u64 / 2;
        holds.then_some(chunk / groups * CHUNK + offset % CHUNK)
    }
}

/// Two copies of each chunk, one behind the other over legs that may be odd.
#[derive(Debug)]
struct Odd {
    legs: u64,
}

impl Layout for Odd {
    fn chunk_bytes(&self) -> Option<u64> {
        Some(CHUNK)
    }

    fn address_on(&self, leg: LegId, offset: u64) -> Option<u64> {
        let copies = [0, 1].map(|copy| offset / CHUNK * 2 + copy);
        let copy = copies
            .iter()
            .find(|copy| *copy % self.legs == leg.index() as u64)?;
        Some(copy / self.legs * CHUNK + offset % CHUNK)
    }
}

/// A stripe over four legs, and once more far behind, a leg further to the right.
#[derive(Debug)]
struct Far;

const FAR: u64 = 1 << 40;

impl Layout for Far {
    fn chunk_bytes(&self) -> Option<u64> {
        Some(CHUNK)
    }

    fn address_on(&self, leg: LegId, offset: u64) -> Option<u64> {
        let chunk = offset / CHUNK;
        let address = chunk / 4 * CHUNK + offset % CHUNK;
        match (leg.index() as u64 + 4 - chunk % 4) % 4 {
            0 => Some(address),
            1 => Some(FAR + address),
            _ => None,
        }
    }
}

pub(super) fn near(turning: &[bool]) -> Rig {
    let mut rig = Rig::new(turning);
    rig.layout = Box::new(Near {
        legs: turning.len() as u64,
    });
    rig
}

/// Plays so many rounds: each stream reads so much, so many random reads wait, and each leg answers
/// one read. Streams and addresses of what each leg was asked for, in order, once all is known.
fn play(
    rig: &mut Rig,
    (rounds, bytes): (u64, u64),
    streams: u64,
    random: u64,
) -> BTreeMap<usize, Vec<(u64, u64)>> {
    let mut asked: BTreeMap<usize, Vec<(u64, u64)>> = BTreeMap::new();
    for round in 0..rounds {
        for stream in 0..streams {
            rig.read_on(stream * 1000 * MIB + round * bytes, bytes);
        }
        for leg in 0..rig.legs.len() {
            let Some(&(_, extent)) = rig.sent.iter().find(|sent| sent.0 == leg) else {
                continue;
            };
            if round > 64 {
                let address = rig.on_leg(leg, extent).extent.offset();
                let of_leg = asked.entry(leg).or_default();
                of_leg.push((extent.offset() / (1000 * MIB), address));
            }
            rig.answer(leg, Duration::from_us(700));
        }
        rig.pass(random, Duration::from_ms(if random > 0 { 40 } else { 0 }));
    }
    asked
}

#[test]
fn all_legs_of_a_raid10_read_one_stream_and_each_reads_on() {
    let mut rig = near(&[true; 4]);
    let asked = play(&mut rig, (600, 3 * CHUNK), 1, 0);
    assert_eq!(asked.len(), 4);
    for (leg, addresses) in asked {
        let seeks = addresses.windows(2);
        let seeks = seeks.filter(|two| two[1].1 != two[0].1 + CHUNK).count();
        assert!(addresses.len() > 50, "leg {leg} reads much of it");
        assert!(
            seeks * 6 < addresses.len(),
            "{leg}: {seeks} of {addresses:?}"
        );
    }
}

#[test]
fn a_stream_is_not_read_ahead_by_a_disk_that_it_need_not_have() {
    for (turning, are_read) in [
        ([false, false, true], [0, 1].as_slice()),
        ([true; 3], &[0, 1, 2]),
    ] {
        let mut rig = Rig::new(&turning);
        rig.layout = Box::new(Odd { legs: 3 });
        let asked = play(&mut rig, (600, 3 * CHUNK), 1, 0);
        let legs: Vec<usize> = asked.into_keys().collect();
        assert_eq!(legs, are_read);
    }
}

#[test]
fn the_first_copies_of_a_far_layout_are_read_as_one_stripe() {
    let mut rig = Rig::new(&[true; 4]);
    rig.layout = Box::new(Far);
    let asked = play(&mut rig, (400, 3 * CHUNK), 1, 0);
    assert_eq!(asked.len(), 4);
    for (leg, addresses) in asked {
        assert!(addresses.iter().all(|(_, address)| *address < FAR), "{leg}");
        let goes_on = addresses.windows(2).all(|two| two[1].1 == two[0].1 + CHUNK);
        assert!(goes_on, "leg {leg} reads on: {addresses:?}");
    }
}

#[test]
fn many_streams_do_not_wait_for_first_copies_where_others_lie_near() {
    // Of three legs each third chunk has its copies at different places.
    let reads_ahead = |legs, layout: Box<dyn Layout>, streams| {
        let mut rig = Rig::new(&vec![true; legs]);
        rig.layout = layout;
        play(&mut rig, (100, 512 * KIB), streams, 0);
        // Until all of them are known there are fewer.
        let asked = rig.asked.iter().map(|asked| asked.offset());
        let mut asked = asked.filter(|offset| offset % (1000 * MIB) > 20 * MIB);
        asked.any(|offset| offset / CHUNK % 3 == 1)
    };
    assert!(
        reads_ahead(3, Box::new(Odd { legs: 3 }), 1),
        "it has all disks"
    );
    assert!(!reads_ahead(3, Box::new(Odd { legs: 3 }), 4));
    assert!(
        reads_ahead(4, Box::new(Far), 4),
        "an arm is at one copy only"
    );
}

#[test]
fn disks_of_a_raid10_read_long_stretches_of_many_streams_and_flash_what_is_asked() {
    // As fast as disks that answer 512 KiB of each round let them.
    for (turning, disks) in [(&[true, true, true, true, true, false], 4), (&[true; 6], 6)] {
        let asked = play(&mut near(turning), (300, 512 * KIB), 6, 0);
        let legs: Vec<usize> = asked.keys().copied().collect();
        assert_eq!(legs, (0..disks).collect::<Vec<_>>());
        for (leg, asked) in asked {
            let changes = asked.windows(2).filter(|two| two[0].0 != two[1].0);
            let changes = changes.count();
            assert!(asked.len() > 200, "leg {leg}: {asked:?}");
            assert!(
                5 * changes <= asked.len(),
                "leg {leg} reads what it has of each: {asked:?}"
            );
        }
    }
}

/// So many streams of 8 MiB each, of which nothing is answered that was asked for. How often disks
/// were asked for what is right behind the first read of a chunk, which its reader got to before.
fn read_on_behind_readers(turning: &[bool], streams: u64) -> usize {
    let mut rig = near(turning);
    for step in 0..64 {
        for stream in 0..streams {
            rig.read(stream * 1000 * MIB + step * 128 * KIB, 128 * KIB);
        }
    }
    let asked = rig.asked.iter();
    let behind = asked.filter(|asked| asked.offset() % CHUNK == 128 * KIB);
    behind.count()
}

#[test]
fn a_disk_of_several_streams_reads_on_where_a_reader_is() {
    let is_mixed = [true, true, false, false];
    assert_eq!(read_on_behind_readers(&is_mixed, 2), 0, "each has a disk");
    assert!(read_on_behind_readers(&is_mixed, 4) > 1);
    let others_are_disks = read_on_behind_readers(&[true; 4], 4);
    assert_eq!(others_are_disks, 0, "he waits for those as well");
}

#[test]
fn in_a_raid10_a_stream_has_a_home_in_each_group_of_disks() {
    // In the first group the chunk with this number is followed by one of each other group.
    let way = |rig: &Rig, group: u64, stream: u64| {
        let first = (stream * 1000 * MIB / CHUNK + 60).next_multiple_of(3);
        rig.way((first + group) * CHUNK)
    };
    for (random, are_same) in [(0, false), (4, true)] {
        let mut rig = near(&[true, true, true, true, true, false]);
        play(&mut rig, (241, 128 * KIB), 2, random);
        for group in [0, 1] {
            let homes = [0, 1].map(|stream| way(&rig, group, stream));
            assert!(matches!(homes[0], StreamWay::Homes(_)), "{homes:?}");
            // Beside random reads one disk of each group is left to these.
            assert_eq!(homes[0] == homes[1], are_same, "group {group}: {homes:?}");
            let left = rig.ahead.left(rig.now);
            let of_group = left.iter().filter(|leg| leg.index() as u64 / 2 == group);
            assert_eq!(of_group.count(), usize::from(are_same));
        }
        let disk: LegSet = [rig.legs[4].leg].into_iter().collect();
        // Random reads wait for the groups of disks in any case: no flash is left to them.
        let left = rig.ahead.left(rig.now);
        assert!(!left.contains(rig.legs[5].leg), "{left:?}");
        assert_ne!(way(&rig, 2, 0), StreamWay::Homes(disk));
    }
}

#[test]
fn in_a_raid10_of_flash_a_stream_leaves_a_leg_of_each_group_to_random_reads() {
    let mut rig = near(&[false; 4]);
    play(&mut rig, (241, 128 * KIB), 1, 4);
    let left = rig.ahead.left(rig.now);
    for chunk in 0..2 {
        let StreamWay::Homes(homes) = rig.way(241 * 128 * KIB / CHUNK * CHUNK + chunk * CHUNK)
        else {
            panic!("group {chunk} has no home");
        };
        assert_eq!(homes.iter().count(), 1);
        assert!(left.intersection(homes).is_empty(), "{left:?} {homes:?}");
    }
}

/// Reads of two chunks begin in the same group always.
#[test]
fn in_a_raid10_legs_of_each_group_are_left_to_random_reads_whatever_is_read_at_once() {
    for turns in [true, false] {
        let mut rig = near(&[turns; 4]);
        play(&mut rig, (241, 2 * CHUNK), 1, 4);
        let left = rig.ahead.left(rig.now);
        let of_group = |group| left.iter().filter(|leg| leg.index() / 2 == group).count();
        assert_eq!([0, 1].map(of_group), [1, 1], "{left:?}");
    }
}

/// The chunks of a long read begin at the same place of several legs.
#[test]
fn all_parts_of_a_random_read_are_waited_for() {
    let mut rig = near(&[false; 4]);
    for chunks in [1, 2] {
        rig.ahead.at_random = AtRandom::new();
        for number in 0..200 {
            let whole = Extent::new(number * 7919 % 4001 * MIB, chunks * CHUNK);
            let legs = [0, 2].map(|leg| (leg, whole.offset() + leg as u64 / 2 * CHUNK));
            let parts = legs.map(|(leg, offset)| rig.on_leg(leg, Extent::new(offset, CHUNK)));
            let parts = &parts[..usize::try_from(chunks).unwrap()];
            for part in parts {
                let way = Some(StreamWay::None);
                rig.ahead.on_dispatch(rig.now, part, way);
            }
            for part in parts {
                rig.now += Duration::from_ms(10);
                rig.ahead.on_complete(rig.now, part, Duration::from_ms(10));
            }
            rig.read(9000 * MIB, 4 * KIB);
        }
        // The second one for twice as long as the first.
        let waiting = rig.ahead.at_random.waiting();
        let wanted = if chunks == 1 { 1.0 } else { 1.5 };
        assert!((waiting - wanted).abs() < 0.1, "{chunks}: {waiting}");
    }
}

/// They would leave it to disks, since flash has random reads.
#[test]
fn in_a_raid10_streams_are_not_left_to_disks_that_are_too_slow_to_help() {
    for (flash_rate, is_too_slow) in [(0.5, false), (3.0, true)] {
        let mut rig = near(&[true, false, true, false]);
        for leg in [1, 3] {
            rig.ahead.paces[leg].best_rate = flash_rate;
        }
        for step in 0..100 {
            rig.read_on(step * 128 * KIB, 128 * KIB);
            rig.all_ends_at_once();
            rig.pass(4, Duration::from_ms(40));
        }
        let way = rig.way(100 * 128 * KIB);
        assert_eq!(matches!(way, StreamWay::Homes(_)), !is_too_slow, "{way:?}");
        let left = rig.ahead.left(rig.now);
        assert_eq!(left.iter().count(), if is_too_slow { 4 } else { 2 });
    }
}

#[test]
fn in_a_raid10_random_reads_have_all_flash_that_streams_cannot_be_kept_from() {
    let all_left = |mut rig: Rig, streams: u64| {
        play(&mut rig, (241, 128 * KIB), streams, 4);
        rig.ahead.left(rig.now).iter().count() == rig.legs.len()
    };
    let with = |layout: Box<dyn Layout>, legs: usize| {
        let mut rig = Rig::new(&vec![false; legs]);
        rig.layout = layout;
        rig
    };
    for legs in [3, 5] {
        let odd = with(Box::new(Odd { legs }), usize::try_from(legs).unwrap());
        assert!(all_left(odd, 1), "of {legs} each is in two groups");
    }
    assert!(all_left(with(Box::new(Far), 4), 1), "and here");
    assert!(all_left(near(&[false; 4]), 2), "as many as copies");
    assert!(!all_left(near(&[false; 4]), 1));
}

/// A read on a disk that has writes to do as well waits for several of them.
#[test]
fn in_a_raid10_streams_are_not_left_to_disks_that_are_written() {
    for is_written in [false, true] {
        let mut rig = near(&[true, false, true, false]);
        for step in 0..241 {
            play(&mut rig, (1, 0), 0, 4);
            rig.read_on(step * 128 * KIB, 128 * KIB);
            for number in 0..if is_written { 4 } else { 0 } {
                let extent = Extent::new((9000 + (step + number) * 31 % 977) * MIB, 4 * KIB);
                for leg in 0..4 {
                    let write = OpView {
                        kind: OpKind::Write,
                        ..op(leg, extent)
                    };
                    rig.ahead.on_dispatch(rig.now, &write, None);
                }
            }
        }
        let has_home = matches!(rig.way(241 * 128 * KIB), StreamWay::Homes(_));
        assert_eq!(has_home, !is_written);
        assert_eq!(rig.ahead.left(rig.now).is_empty(), is_written);
    }
}
