use std::convert::Infallible;

use super::{Assembly, AssemblyError, Candidate, LeftOut, Member, Replacement, Resync};
use crate::golden::{CASES, GoldenLeg, legs};
use crate::{
    BadBlocks, BitmapBits, BitmapSuper, Features, RESYNC_DONE, Role, Search, Stamp, Superblock,
    Uuid,
};

const ARRAY: Uuid = Uuid([7; 16]);
const CHUNKS: u64 = 16;

/// Legs of a mirror, all as they should be, at event 10.
fn mirror(legs: u16) -> Vec<Candidate> {
    (0..legs)
        .map(|leg| {
            let mut superblock = Superblock {
                features: Features::BITMAP,
                set_uuid: ARRAY,
                ctime: Stamp(99),
                level: 1,
                size_sectors: CHUNKS * 8,
                raid_disks: u32::from(legs),
                dev_number: u32::from(leg),
                device_uuid: Uuid([u8::try_from(leg).unwrap(); 16]),
                events: 10,
                resync_offset_sectors: RESYNC_DONE,
                ..Superblock::default()
            };
            for role in 0..legs {
                superblock.roles[usize::from(role)] = Role::Active(role);
            }
            let head = BitmapSuper {
                uuid: ARRAY,
                events: 10,
                events_cleared: 8,
                sync_size_sectors: CHUNKS * 8,
                chunk_bytes: 4096,
                ..BitmapSuper::default()
            };
            Candidate {
                name: format!("leg-{leg}"),
                superblock,
                bitmap: Some(BitmapBits::new(head, CHUNKS)),
                bad_blocks: BadBlocks::new(8),
            }
        })
        .collect()
}

fn set_events(leg: &mut Candidate, events: u64) {
    leg.superblock.events = events;
    if let Some(bitmap) = &mut leg.bitmap {
        let head = BitmapSuper {
            events,
            ..*bitmap.super_block()
        };
        bitmap.set_super(head);
    }
}

fn bits(assembly: &Assembly) -> Vec<u64> {
    assembly.bitmap.as_ref().unwrap().iter_set().collect()
}

#[test]
fn legs_that_were_stopped_in_order_are_all_in_sync() {
    let mut legs = mirror(3);
    legs.swap(0, 2);
    let assembly = Assembly::of(&legs).unwrap();
    assert_eq!(
        assembly.members,
        [Member::InSync(2), Member::InSync(1), Member::InSync(0)]
    );
    assert_eq!(assembly.resync, Resync::Nowhere);
    assert!(!assembly.is_uneven && assembly.left_out.is_empty());
    legs.pop();
    let assembly = Assembly::of(&legs).unwrap();
    assert_eq!(assembly.members[0], Member::Missing);
    assert_eq!(assembly.roles_lacking().collect::<Vec<_>>(), [0]);
    assert!(assembly.is_uneven, "the table still counts on leg 0");
}

#[test]
fn equally_fresh_legs_that_disagree_on_roles_are_uneven() {
    let mut legs = mirror(3);
    legs[1].superblock.roles[2] = Role::Faulty;
    let assembly = Assembly::of(&legs).unwrap();
    assert_eq!(assembly.in_sync().collect::<Vec<_>>(), [0, 1, 2]);
    assert!(assembly.is_uneven);
    // How much room a leg has for roles means nothing.
    legs[1].superblock.roles = vec![Role::Active(0), Role::Active(1), Role::Active(2)];
    assert!(!Assembly::of(&legs).unwrap().is_uneven);
}

#[test]
fn what_was_lacking_before_is_not_lost() {
    let lost = |change: fn(&mut Vec<Candidate>)| {
        let mut legs = mirror(3);
        change(&mut legs);
        let mut assembly = Assembly::of(&legs).unwrap();
        assembly.take_back(&legs);
        assembly.roles_lost(&legs).collect::<Vec<_>>()
    };
    assert_eq!(lost(|_| {}), []);
    assert_eq!(lost(|legs| drop(legs.pop())), [2]);
    let removed = lost(|legs| {
        legs.pop();
        legs.iter_mut()
            .for_each(|leg| leg.superblock.roles[2] = Role::Spare);
    });
    assert_eq!(removed, []);
    let failed = lost(|legs| {
        legs.remove(0);
        legs.iter_mut()
            .for_each(|leg| leg.superblock.roles[0] = Role::Faulty);
    });
    assert_eq!(failed, []);
    // One that was removed does not know of it, and is alone.
    assert_eq!(lost(|legs| drop(legs.drain(..2))), [0, 1]);
    let stale = lost(|legs| set_events(&mut legs[1], 8));
    assert_eq!(
        stale,
        [1],
        "it comes back, but nobody wrote down that it was away"
    );
    let rebuilt = lost(|legs| {
        let leg = &mut legs[1].superblock;
        leg.features = leg.features.with(Features::RECOVERY_OFFSET);
    });
    assert_eq!(rebuilt, []);
}

#[test]
fn legs_have_a_bitmap_or_have_none() {
    let mut legs = mirror(3);
    legs[1].superblock.features = Features::default();
    legs[1].bitmap = None;
    let assembly = Assembly::of(&legs).unwrap();
    let why = LeftOut::Bitmap { is_there: false };
    assert_eq!(assembly.left_out, [(1, why)]);
    assert_eq!(assembly.roles_lacking().collect::<Vec<_>>(), [1]);
    legs.swap(0, 1);
    let assembly = Assembly::of(&legs).unwrap();
    let why = LeftOut::Bitmap { is_there: true };
    assert_eq!(assembly.left_out, [(1, why), (2, why)]);
}

#[test]
fn one_event_behind_is_in_and_two_are_out() {
    let mut legs = mirror(3);
    set_events(&mut legs[1], 9);
    set_events(&mut legs[2], 8);
    let assembly = Assembly::of(&legs).unwrap();
    assert_eq!(
        assembly.members,
        [Member::InSync(0), Member::InSync(1), Member::Missing]
    );
    let stale = LeftOut::Stale {
        events: 8,
        freshest: 10,
        by_bitmap: true,
    };
    assert_eq!(assembly.left_out, [(2, stale)]);
    assert!(assembly.is_uneven);
    set_events(&mut legs[2], 7);
    let assembly = Assembly::of(&legs).unwrap();
    let is_by_bitmap = |why| {
        matches!(
            why,
            LeftOut::Stale {
                by_bitmap: true,
                ..
            }
        )
    };
    assert!(!is_by_bitmap(assembly.left_out[0].1), "bits of 8 are gone");
}

#[test]
fn a_leg_that_was_away_is_taken_back_where_nothing_speaks_against_it() {
    let away = |change: fn(&mut [Candidate])| {
        let mut legs = mirror(3);
        set_events(&mut legs[2], 8);
        legs[0].superblock.roles[2] = Role::Spare;
        legs[1].superblock.roles[2] = Role::Spare;
        change(&mut legs);
        let mut assembly = Assembly::of(&legs).unwrap();
        let before = assembly.left_out.clone();
        let back = assembly.take_back(&legs);
        assert_eq!(back.is_empty(), assembly.left_out == before);
        assert_eq!(assembly.roles_lacking().collect::<Vec<_>>(), [2]);
        assembly.members[2]
    };
    let returning = |from_sectors| Member::Returning {
        candidate: 2,
        from_sectors,
    };
    assert_eq!(away(|_| {}), returning(None));
    let counted_on = away(|legs| legs[0].superblock.roles[2] = Role::Active(2));
    assert_eq!(counted_on, returning(None));
    let one_behind = away(|legs| set_events(&mut legs[2], 9));
    assert_eq!(one_behind, returning(None), "it is removed, not stale");
    let half_rebuilt = away(|legs| {
        let leg = &mut legs[2].superblock;
        leg.features = leg.features.with(Features::RECOVERY_OFFSET);
        leg.recovery_offset_sectors = 16;
    });
    assert_eq!(half_rebuilt, returning(Some(16)));
    let refused = [
        ("the bitmap does not know it", {
            let too_old: fn(&mut [Candidate]) = |legs| set_events(&mut legs[2], 7);
            too_old
        }),
        ("it failed", |legs| {
            legs[0].superblock.roles[2] = Role::Faulty;
        }),
        ("it went on without leg 1", |legs| {
            legs[2].superblock.roles[1] = Role::Spare;
        }),
        ("it went on without leg 0", |legs| {
            legs[2].superblock.roles[0] = Role::Faulty;
        }),
        ("its number is another leg's", |legs| {
            legs[0].superblock.roles[2] = Role::Active(7);
        }),
        ("it is of another size", |legs| {
            legs[2].superblock.size_sectors -= 8;
        }),
        ("it was made a replacement", |legs| {
            let leg = &mut legs[2].superblock;
            leg.features = leg.features.with(Features::REPLACEMENT);
        }),
    ];
    for (why, change) in refused {
        assert_eq!(away(change), Member::Missing, "{why}");
    }
}

#[test]
fn a_spare_that_was_given_a_role_has_no_data_however_old_it_is() {
    let mut legs = mirror(2);
    legs[1].superblock.roles[1] = Role::Spare;
    set_events(&mut legs[1], 0);
    let assembly = Assembly::of(&legs).unwrap();
    let empty = Member::Rebuilding {
        candidate: 1,
        from_sectors: 0,
        by_bitmap: false,
    };
    assert_eq!(assembly.members, [Member::InSync(0), empty]);
}

#[test]
fn the_freshest_says_what_a_leg_is() {
    let mut legs = mirror(2);
    set_events(&mut legs[1], 9);
    legs[0].superblock.roles[1] = Role::Faulty;
    let assembly = Assembly::of(&legs).unwrap();
    assert_eq!(assembly.members, [Member::InSync(0), Member::Missing]);
    assert_eq!(
        assembly.left_out,
        [(1, LeftOut::Failed { by_bitmap: true })]
    );
    legs[0].superblock.roles[1] = Role::Spare;
    let assembly = Assembly::of(&legs).unwrap();
    assert_eq!(
        assembly.left_out,
        [(1, LeftOut::Removed { by_bitmap: true })]
    );
}

#[test]
fn legs_that_each_went_on_alone_are_told_of() {
    let mut legs = mirror(2);
    set_events(&mut legs[1], 14);
    legs[0].superblock.roles[1] = Role::Faulty;
    legs[1].superblock.roles[0] = Role::Faulty;
    let assembly = Assembly::of(&legs).unwrap();
    assert_eq!(assembly.members, [Member::Missing, Member::InSync(1)]);
    assert_eq!(assembly.left_out, [(0, LeftOut::WentAlone)]);
    // The same where the freshest has not heard of it yet.
    set_events(&mut legs[1], 10);
    legs[1].superblock.roles[0] = Role::Active(0);
    let assembly = Assembly::of(&legs[..]).unwrap();
    assert_eq!(assembly.freshest, 0, "the first of two as fresh");
    assert_eq!(
        assembly.left_out,
        [(1, LeftOut::Failed { by_bitmap: true })]
    );
}

#[test]
fn a_spare_has_no_data_whatever_it_is_told() {
    let mut legs = mirror(3);
    for leg in &mut legs {
        leg.superblock.raid_disks = 2;
        leg.superblock.roles[2] = Role::Spare;
    }
    set_events(&mut legs[2], 3);
    let assembly = Assembly::of(&legs).unwrap();
    assert_eq!(assembly.members, [Member::InSync(0), Member::InSync(1)]);
    assert_eq!(assembly.spares, [2]);
    // Leg 1 has failed, and the spare was given its role, but does not know it yet.
    set_events(&mut legs[2], 9);
    legs[0].superblock.roles[1] = Role::Faulty;
    legs[0].superblock.roles[2] = Role::Active(1);
    legs.remove(1);
    let assembly = Assembly::of(&legs).unwrap();
    let rebuilt = Member::Rebuilding {
        candidate: 1,
        from_sectors: 0,
        by_bitmap: false,
    };
    assert_eq!(assembly.members, [Member::InSync(0), rebuilt]);
    // Now it knows, and is half done.
    legs[1].superblock = Superblock {
        features: Features::BITMAP.with(Features::RECOVERY_OFFSET),
        recovery_offset_sectors: 64,
        dev_number: 2,
        device_uuid: Uuid([2; 16]),
        ..legs[0].superblock.clone()
    };
    let assembly = Assembly::of(&legs).unwrap();
    let rebuilt = Member::Rebuilding {
        candidate: 1,
        from_sectors: 64,
        by_bitmap: false,
    };
    assert_eq!(assembly.members, [Member::InSync(0), rebuilt]);
    legs[1].superblock.recovery_offset_sectors = u64::MAX;
    let assembly = Assembly::of(&legs).unwrap();
    let rebuilt = Member::Rebuilding {
        candidate: 1,
        from_sectors: CHUNKS * 8,
        by_bitmap: false,
    };
    assert_eq!(assembly.members, [Member::InSync(0), rebuilt]);
    assert_eq!(
        Assembly::of(&legs[1..]).unwrap_err(),
        AssemblyError::NoneInSync
    );
}

#[test]
fn after_a_crash_the_bits_of_all_legs_count() {
    let mut legs = mirror(2);
    for leg in &mut legs {
        leg.superblock.resync_offset_sectors = 0;
    }
    legs[0].bitmap.as_mut().unwrap().set(3);
    legs[1].bitmap.as_mut().unwrap().set(5);
    let assembly = Assembly::of(&legs).unwrap();
    assert_eq!(assembly.resync, Resync::Bits);
    assert_eq!(bits(&assembly), [3, 5]);
    assert!(assembly.is_uneven);
    // Older than its superblock: not complete, but its bits are no worse.
    let old = BitmapSuper {
        events: 9,
        ..*legs[1].bitmap.as_ref().unwrap().super_block()
    };
    legs[1].bitmap.as_mut().unwrap().set_super(old);
    assert_eq!(bits(&Assembly::of(&legs).unwrap()), [3, 5]);
    legs[0].bitmap.as_mut().unwrap().set_super(old);
    let assembly = Assembly::of(&legs).unwrap();
    assert_eq!(bits(&assembly).len() as u64, CHUNKS, "none is complete");
    assert_eq!(assembly.resync, Resync::Bits);
    for leg in &mut legs {
        leg.bitmap = None;
    }
    assert_eq!(Assembly::of(&legs).unwrap_err(), AssemblyError::NoBitmap);
    for leg in &mut legs {
        leg.superblock.features = Features::default();
        leg.superblock.resync_offset_sectors = 48;
    }
    assert_eq!(Assembly::of(&legs).unwrap().resync, Resync::From(48));
}

#[test]
fn the_bits_of_legs_that_are_left_out_do_not_count() {
    let mut legs = mirror(2);
    set_events(&mut legs[1], 4);
    legs[1].bitmap.as_mut().unwrap().set(5);
    legs[0].superblock.resync_offset_sectors = 0;
    let assembly = Assembly::of(&legs).unwrap();
    assert!(bits(&assembly).is_empty());
}

#[test]
fn what_is_no_array_is_refused() {
    let refusal = |change: &dyn Fn(&mut Vec<Candidate>)| {
        let mut legs = mirror(2);
        change(&mut legs);
        Assembly::of(&legs).unwrap_err().to_string()
    };
    let says = |text: String, part: &str| assert!(text.contains(part), "{text}");
    says(refusal(&|legs| legs.clear()), "no leg");
    says(
        refusal(&|legs| legs[1].superblock.set_uuid = Uuid([8; 16])),
        "different arrays",
    );
    says(
        refusal(&|legs| legs[1].superblock.size_sectors = 8),
        "used size",
    );
    says(
        refusal(&|legs| {
            legs[1].superblock.raid_disks = 3;
            legs[1].superblock.roles[2] = Role::Active(2);
        }),
        "number of legs",
    );
    says(refusal(&|legs| legs[1] = legs[0].clone()), "the same leg");
    says(
        refusal(&|legs| {
            legs[0].superblock.roles[1] = Role::Active(0);
            legs[1].superblock.roles[1] = Role::Active(0);
        }),
        "both say",
    );
    says(
        refusal(&|legs| {
            legs[0].superblock.roles[1] = Role::Active(9);
            legs[1].superblock.roles[1] = Role::Active(9);
        }),
        "leg 9 of an array with 2",
    );
    says(
        refusal(&|legs| legs[1].superblock.roles[1] = Role::Journal),
        "journal",
    );
    says(
        refusal(&|legs| {
            for leg in legs {
                leg.superblock.roles = vec![Role::Spare; 128];
            }
        }),
        "spares",
    );
    says(
        refusal(&|legs| {
            for leg in legs {
                leg.superblock.raid_disks = u32::MAX;
            }
        }),
        "room",
    );
    // Of a leg that was away while the array grew the shape is not asked.
    let mut legs = mirror(2);
    set_events(&mut legs[1], 4);
    legs[1].superblock.raid_disks = 3;
    assert!(Assembly::of(&legs).is_ok());
}

#[test]
fn of_equally_fresh_legs_one_may_know_of_more_that_are_missing() {
    // It heard of a mirror that grew, and the other one went on without it, for as many events.
    for knows in [0, 1] {
        let mut legs = mirror(2);
        legs[knows].superblock.raid_disks = 3;
        let assembly = Assembly::of(&legs).unwrap();
        assert_eq!(assembly.in_sync().count(), 2);
        assert!(assembly.is_uneven, "they are told the same");
        let roles = legs[assembly.freshest].superblock.raid_disks;
        assert_eq!(assembly.members.len(), roles as usize);
    }
}

#[test]
fn a_replacement_is_beside_the_leg_that_it_replaces() {
    let mut legs = mirror(2);
    let mut replacement = legs[1].clone();
    replacement.name = "new".to_owned();
    replacement.superblock.dev_number = 2;
    replacement.superblock.device_uuid = Uuid([2; 16]);
    replacement.superblock.features = Features::BITMAP
        .with(Features::REPLACEMENT)
        .with(Features::RECOVERY_OFFSET);
    legs.push(replacement);
    for leg in &mut legs {
        leg.superblock.roles[2] = Role::Active(1);
    }
    legs[2].superblock.recovery_offset_sectors = 96;
    let replacement = Replacement {
        role: 1,
        candidate: 2,
        from_sectors: 96,
    };
    // In any order.
    for order in [[0, 1, 2], [2, 0, 1]] {
        let legs: Vec<Candidate> = order.iter().map(|&leg| legs[leg].clone()).collect();
        let at = |leg| order.iter().position(|&other| other == leg).unwrap();
        let assembly = Assembly::of(&legs).unwrap();
        let both = [Member::InSync(at(0)), Member::InSync(at(1))];
        assert_eq!(assembly.members, both);
        let candidate = at(2);
        let expected = Replacement {
            candidate,
            ..replacement
        };
        assert_eq!(assembly.replacement, Some(expected));
        assert!(assembly.left_out.is_empty());
        assert!(!assembly.is_uneven);
    }
    // Without the leg that it was to replace, it is a leg of that role like any other.
    let alone = [legs[0].clone(), legs[2].clone()];
    let assembly = Assembly::of(&alone).unwrap();
    let rebuilding = Member::Rebuilding {
        candidate: 1,
        from_sectors: 96,
        by_bitmap: false,
    };
    assert_eq!(assembly.members, [Member::InSync(0), rebuilding]);
    assert_eq!(assembly.replacement, None);
    assert!(assembly.is_uneven);
    // One that is whole is filled no more.
    let mut whole = legs.clone();
    let features = whole[2].superblock.features;
    whole[2].superblock.features = features.without(Features::RECOVERY_OFFSET);
    let from_sectors = whole[2].superblock.size_sectors;
    let assembly = Assembly::of(&whole).unwrap();
    let expected = Replacement {
        from_sectors,
        ..replacement
    };
    assert_eq!(assembly.replacement, Some(expected));
    // Of two replacements one is taken in.
    let mut other = legs[2].clone();
    other.superblock.dev_number = 3;
    other.superblock.device_uuid = Uuid([3; 16]);
    legs.push(other);
    for leg in &mut legs {
        leg.superblock.roles[3] = Role::Active(1);
    }
    let assembly = Assembly::of(&legs).unwrap();
    assert_eq!(assembly.replacement, Some(replacement));
    assert_eq!(assembly.left_out, [(3, LeftOut::Replacement(1))]);
}

#[test]
fn a_role_that_changed_hands_is_of_the_leg_that_heard_of_it_last() {
    let mut legs = mirror(2);
    let mut new = legs[1].clone();
    new.name = "new".to_owned();
    new.superblock.dev_number = 2;
    new.superblock.device_uuid = Uuid([2; 16]);
    legs.push(new);
    for leg in &mut legs {
        leg.superblock.roles[2] = Role::Active(1);
    }
    let mut older = legs.clone();
    set_events(&mut older[2], 9);
    let assembly = Assembly::of(&older).unwrap();
    assert_eq!(assembly.members, [Member::InSync(0), Member::InSync(1)]);
    assert_eq!(assembly.left_out, [(2, LeftOut::Replaced(1))]);
    let events = legs[2].superblock.events + 1;
    set_events(&mut legs[2], events);
    let assembly = Assembly::of(&legs).unwrap();
    assert_eq!(assembly.members, [Member::InSync(0), Member::InSync(2)]);
    assert_eq!(assembly.left_out, [(1, LeftOut::Replaced(1))]);
    // The new leg is the first to hear that the other one is out.
    legs[2].superblock.roles[1] = Role::Faulty;
    let assembly = Assembly::of(&legs).unwrap();
    assert_eq!(assembly.members, [Member::InSync(0), Member::InSync(2)]);
    let failed = LeftOut::Failed { by_bitmap: true };
    assert_eq!(assembly.left_out, [(1, failed)]);
    // The other one must not be as fresh as those that are written to.
    legs[0].superblock.roles = legs[2].superblock.roles.clone();
    for (behind, is_uneven) in [(1, false), (0, true)] {
        set_events(&mut legs[0], events);
        set_events(&mut legs[2], events);
        set_events(&mut legs[1], events - behind);
        let assembly = Assembly::of(&legs).unwrap();
        assert_eq!(assembly.left_out, [(1, failed)]);
        assert_eq!(assembly.is_uneven, is_uneven);
    }
}

#[test]
fn of_legs_that_are_equally_fresh_the_one_that_is_counted_on_is_believed() {
    let mut legs = mirror(2);
    legs[1].superblock.roles[0] = Role::Faulty;
    let assembly = Assembly::of(&legs).unwrap();
    assert_eq!(assembly.freshest, 1, "the other one went on after it");
    assert_eq!(assembly.members, [Member::Missing, Member::InSync(1)]);
    legs[0].superblock.roles[1] = Role::Spare;
    let error = Assembly::of(&legs).unwrap_err();
    let both = ["leg-0", "leg-1"].map(str::to_owned);
    assert_eq!(error, AssemblyError::Split(both));
    assert!(error.to_string().contains("name the one whose data"));
}

#[test]
fn the_more_careful_superblock_is_believed() {
    let mut legs = mirror(3);
    legs[2].superblock.resync_offset_sectors = 0;
    assert_eq!(Assembly::of(&legs).unwrap().resync, Resync::Bits);
    // But not one that was not told of the end.
    set_events(&mut legs[2], 9);
    assert_eq!(Assembly::of(&legs).unwrap().resync, Resync::Nowhere);
}

#[test]
fn bits_are_there_for_the_whole_array() {
    for (made_for, expected) in [
        (CHUNKS + 3, vec![1]),
        (CHUNKS - 2, vec![1, CHUNKS - 2, CHUNKS - 1]),
        (0, (0..CHUNKS).collect()),
    ] {
        let mut legs = mirror(2);
        for leg in &mut legs {
            let head = BitmapSuper {
                sync_size_sectors: made_for * 8,
                ..*leg.bitmap.as_ref().unwrap().super_block()
            };
            let mut small = BitmapBits::new(head, made_for);
            if made_for > 0 {
                small.set(1);
            }
            leg.bitmap = Some(small);
        }
        let assembly = Assembly::of(&legs).unwrap();
        assert_eq!(assembly.bitmap.as_ref().unwrap().chunks(), CHUNKS);
        assert_eq!(bits(&assembly), expected);
    }
}

/// The legs of an array that mdadm and the kernel wrote.
fn golden(name: &str) -> Vec<Candidate> {
    let case = CASES.iter().find(|case| case.0 == name).unwrap();
    let candidate = |(index, leg): (usize, GoldenLeg)| {
        let read = &mut |offset: u64, len: usize| {
            let mut bytes = vec![0; len];
            for (sector, part) in leg.parts.iter().filter(|part| part.0 * 512 == offset) {
                assert!(part.len() >= len, "at {sector}");
                bytes.copy_from_slice(&part[..len]);
            }
            Ok::<_, Infallible>(bytes)
        };
        let found = Search::run(leg.device_bytes, read).unwrap().found.remove(0);
        Candidate {
            name: format!("leg-{index}"),
            bitmap: found.bitmap.map(Result::unwrap),
            bad_blocks: found.bad_blocks.unwrap().unwrap(),
            superblock: found.superblock,
        }
    };
    legs(case.1)
        .into_iter()
        .enumerate()
        .map(candidate)
        .collect()
}

/// An assembly on a line.
fn line(assembly: &Assembly) -> String {
    let members = assembly.members.iter().map(|member| match *member {
        Member::InSync(leg) => leg.to_string(),
        Member::Rebuilding {
            candidate,
            from_sectors,
            by_bitmap,
        } => {
            let way = if by_bitmap { " by bits" } else { "" };
            format!("{candidate} from {from_sectors}{way}")
        }
        Member::Returning { .. } => unreachable!("nobody was taken back"),
        Member::Missing => "-".to_owned(),
    });
    let members: Vec<String> = members.collect();
    let bits = assembly.bitmap.as_ref();
    let bits = bits.map_or_else(String::new, |bits| {
        format!(", {} bits of {}", bits.count_set(), bits.chunks())
    });
    let mut line = format!("{}; {:?}{bits}", members.join(", "), assembly.resync);
    if let Some(replacement) = assembly.replacement {
        let (role, from) = (replacement.role, replacement.from_sectors);
        line += &format!("; {} for {role} from {from}", replacement.candidate);
    }
    for leg in &assembly.spares {
        line += &format!("; {leg} spare");
    }
    for (leg, why) in &assembly.left_out {
        line += &format!("; {leg} {why:?}");
    }
    line
}

#[test]
fn what_the_kernel_wrote_is_put_together() {
    let missed = |freshest| format!("Stale {{ events: 2, freshest: {freshest}, by_bitmap: true }}");
    for (name, expected) in [
        ("raid1-two", "0, 1; Nowhere, 0 bits of 1".to_owned()),
        ("raid1-flags", "0, 1, 2; Nowhere, 0 bits of 304".to_owned()),
        ("raid1-no-bitmap", "0, 1, 2, 3; Nowhere".to_owned()),
        ("raid1-1.0", "0, 1; Nowhere, 0 bits of 1".to_owned()),
        (
            "raid10-n2",
            "0, 1, 2, 3; Nowhere, 0 bits of 9216".to_owned(),
        ),
        (
            "raid10-n3",
            "0, 1, 2, 3; Nowhere, 0 bits of 6144".to_owned(),
        ),
        ("raid10-three", "0, 1, 2; Nowhere, 0 bits of 1".to_owned()),
        ("raid1-missing", "0, -, 1; Nowhere, 1 bits of 1".to_owned()),
        (
            "raid1-spare",
            "0, 1; Nowhere, 0 bits of 1; 2 spare".to_owned(),
        ),
        ("raid1-dirty", "0, 1; Bits, 2 bits of 304".to_owned()),
        ("raid1-readded", "0, 1; Nowhere, 0 bits of 304".to_owned()),
        (
            "raid1-failed",
            "0, -, 2; Nowhere, 2 bits of 304; 1 Failed { by_bitmap: true }".to_owned(),
        ),
        (
            "raid1-removed",
            format!("0, -, 2; Nowhere, 1 bits of 304; 1 {}", missed(7)),
        ),
        (
            "raid1-rebuilding",
            "0, 1 from 53376; Nowhere, 0 bits of 1".to_owned(),
        ),
        (
            "raid1-catching-up",
            "0, 1 from 49664 by bits; Nowhere, 412 bits of 1008".to_owned(),
        ),
        ("raid1-resyncing", "0, 1; From(57600)".to_owned()),
        (
            "raid1-resyncing-bitmap",
            "0, 1; Bits, 622 bits of 1008".to_owned(),
        ),
        (
            "raid1-replacing",
            "0, 1; Nowhere, 0 bits of 1; 2 for 1 from 57856".to_owned(),
        ),
    ] {
        let assembly = Assembly::of(&golden(name)).unwrap();
        assert_eq!(line(&assembly), expected, "{name}");
    }
}
