//! All that mdadm said of the legs that it made, beside what is said here.

use super::{Field, describe_bitmap, describe_superblock, moment};
use crate::golden::{CASES, GoldenLeg, legs};
use crate::{
    BadBlocks, BitmapBits, BitmapState, Features, Minor, Role, Stamp, Superblock, Uuid,
    testing::{bitmap_of, mirror_leg, striped_leg},
};

fn value<'a>(fields: &'a [Field], name: &str) -> Option<&'a str> {
    let field = fields.iter().find(|field| field.0 == name)?;
    Some(&field.1)
}

/// What lies at a sector of a leg.
fn at(leg: &GoldenLeg, sector: u64) -> Option<&[u8]> {
    let part = leg.parts.iter().find(|part| part.0 == sector)?;
    Some(&part.1)
}

/// What mdadm says, without what it says in other units, or of the host.
fn plain(name: &str, said: &str) -> String {
    let said = match name {
        "Creation Time" | "Update Time" => return format!("{said} UTC"),
        "Avail Dev Size" | "Array Size" | "Used Dev Size" | "Sync Size" | "Reshape pos'n"
        | "Name" => said.split(" (").next(),
        _ => Some(said),
    };
    said.unwrap().trim_end().to_owned()
}

fn compare(case: &str, leg: &GoldenLeg, option: &str, fields: &[Field]) {
    let lines = leg.lines(option);
    assert!(lines.len() > 8, "{case}: mdadm --{option} said something");
    for line in lines {
        let (name, said) = line.split_once(" : ").unwrap();
        let ours = value(fields, name).unwrap_or_else(|| panic!("{case}: no field {name}"));
        let ours = match plain(name, said) {
            said if said.ends_with("UTC") => (said, ours.to_owned()),
            said => (said, plain(name, ours)),
        };
        assert_eq!(ours.0, ours.1, "{case}: {name}");
    }
}

/// The superblock of a leg, its place, and its bytes.
fn superblock_of(leg: &GoldenLeg) -> (Superblock, Minor, &[u8]) {
    Superblock::places(leg.device_bytes)
        .find_map(|place| {
            let bytes = at(leg, place.sector)?;
            Some((Superblock::parse(bytes).ok()?, place.minor, bytes))
        })
        .expect("a leg has a superblock")
}

#[test]
fn what_is_said_is_what_mdadm_says() {
    for (case, text) in CASES {
        for leg in legs(text) {
            let (superblock, minor, bytes) = superblock_of(&leg);
            let bits = superblock.bitmap_sector().map(|sector| {
                let bytes = at(&leg, sector).expect("the bitmap is there");
                BitmapBits::load(bytes).unwrap()
            });
            let head = bits.as_ref().map(BitmapBits::super_block);
            let sums = Superblock::checksums(bytes).unwrap();
            let fields = describe_superblock(&superblock, minor, sums, head);
            compare(case, &leg, "examine", &fields);
            if let Some(bits) = &bits {
                let fields = describe_bitmap(bits.super_block(), Some(bits));
                compare(case, &leg, "examine-bitmap", &fields);
            }
        }
    }
}

#[test]
fn bytes_come_back_as_they_were() {
    for (case, text) in CASES {
        for leg in legs(text) {
            let (superblock, _, bytes) = superblock_of(&leg);
            let written = superblock.to_bytes();
            assert_eq!(written, bytes[..written.len()], "{case}");
            assert!(bytes[written.len()..].iter().all(|&byte| byte == 0));
            if let Some(sector) = superblock.bitmap_sector() {
                let bytes = at(&leg, sector).unwrap();
                let mut bits = BitmapBits::load(bytes).unwrap();
                bits.set_super(*bits.super_block());
                assert_eq!(bits.bytes(), bytes, "{case}");
            }
        }
    }
}

#[test]
fn bad_blocks_are_those_that_mdadm_lists() {
    let mut listed = 0;
    for (case, text) in CASES {
        for leg in legs(text) {
            let (superblock, _, _) = superblock_of(&leg);
            let bytes = at(&leg, superblock.bad_blocks_sector().unwrap()).unwrap();
            let bad = BadBlocks::parse(bytes, superblock.bad_blocks_shift).unwrap();
            let mut expected = BadBlocks::new(8);
            for line in leg.lines("examine-badblocks") {
                if let Some((start, len)) = line.split_once(" for ") {
                    let start: u64 = start.trim().parse().unwrap();
                    let len: u64 = len.strip_suffix(" sectors").unwrap().parse().unwrap();
                    expected.insert(start..start + len).unwrap();
                    listed += 1;
                }
            }
            assert_eq!(bad, expected, "{case}");
            let has_some = superblock.features.contains(Features::BAD_BLOCKS);
            assert_eq!(has_some, !bad.is_empty(), "{case}");
        }
    }
    assert_eq!(listed, 5);
}

#[test]
fn only_the_array_that_is_being_reshaped_is_refused() {
    for (case, text) in CASES {
        for leg in legs(text) {
            let (superblock, _, _) = superblock_of(&leg);
            let checked = superblock.check(leg.device_bytes);
            if *case == "raid10-reshaping" {
                let told = checked.unwrap_err().to_string();
                assert!(
                    told.starts_with("feature_map is 0x44 (reshape, new data"),
                    "{told}"
                );
                continue;
            }
            checked.unwrap_or_else(|error| panic!("{case}: {error}"));
            if let Some(sector) = superblock.bitmap_sector() {
                let bits = BitmapBits::load(at(&leg, sector).unwrap()).unwrap();
                bits.super_block().check(&superblock).unwrap();
            }
        }
    }
}

#[test]
fn what_mdadm_never_made_is_told_as_well() {
    let mut superblock = mirror_leg(0, 3);
    superblock.features = Features::RECOVERY_OFFSET.with(Features::REPLACEMENT);
    superblock.corrected_reads = 7;
    superblock.logical_block_bytes = 4096;
    superblock.resync_offset_sectors = 5;
    superblock.roles[1] = Role::Faulty;
    let fields = describe_superblock(&superblock, Minor::Behind4K, (0xab, 0xcd), None);
    for (name, expected) in [
        ("Checksum", "ab - expected cd"),
        ("Corrected Reads", "7"),
        ("Logical Block", "4096 bytes"),
        ("Resync Offset", "5 sectors"),
        ("State", "active"),
        ("Device Role", "Replacement device 0"),
    ] {
        assert_eq!(value(&fields, name), Some(expected));
    }
    let state = value(&fields, "Array State").unwrap();
    assert!(state.starts_with("A.A "), "{state}");
    superblock.dev_number = 200;
    superblock.level = 10;
    superblock.layout = 7;
    superblock.raid_disks = u32::MAX;
    let fields = describe_superblock(&superblock, Minor::Behind4K, (1, 1), None);
    assert_eq!(
        value(&fields, "Device Role"),
        Some("unknown: 128 roles are listed")
    );
    assert_eq!(value(&fields, "Layout"), Some("0x7"));
    let mut head = bitmap_of(&mirror_leg(0, 2));
    head.state = BitmapState(6);
    head.uuid = Uuid::default();
    let fields = describe_bitmap(&head, None);
    assert_eq!(value(&fields, "State"), Some("Stale Write error (0x6)"));
    assert_eq!(value(&fields, "Chunksize"), Some("64 KB"));
    assert_eq!(value(&fields, "Bitmap"), None);
}

#[test]
fn chunks_that_are_not_whole_do_not_count() {
    // mdadm counts 7.5 chunks a leg twice over three legs, of which ten chunks are whole.
    let odd = Superblock {
        size_sectors: 60,
        chunk_sectors: 8,
        ..striped_leg(0, 3)
    };
    let fields = describe_superblock(&odd, Minor::Behind4K, (1, 1), None);
    assert_eq!(value(&fields, "Array Size"), Some("45 KiB (45 KiB)"));
    assert_eq!(value(&fields, "Served Size"), Some("40 KiB (40 KiB)"));
}

#[test]
fn what_is_free_at_the_end_is_told_as_mdadm_does() {
    // Seen on a leg of version 1.0 whose data could not use all that there is.
    let at_end = Superblock {
        level: 1,
        size_sectors: 30_080,
        data_size_sectors: 30_808,
        data_offset_sectors: 0,
        super_offset_sectors: 30_824,
        bad_blocks_size_sectors: 8,
        bad_blocks_offset_sectors: -8,
        ..mirror_leg(0, 2)
    };
    let at_end = Superblock {
        features: Features::default(),
        bitmap_offset_sectors: 0,
        ..at_end
    };
    let fields = describe_superblock(&at_end, Minor::End, (1, 1), None);
    let told = "before=0 sectors, after=736 sectors";
    assert_eq!(value(&fields, "Unused Space"), Some(told));
}

#[test]
fn parts_of_bits_are_rounded_as_in_c() {
    let head = crate::BitmapSuper {
        sync_size_sectors: 48 * 128,
        chunk_bytes: 65_536,
        ..bitmap_of(&mirror_leg(0, 2))
    };
    let mut bits = BitmapBits::new(head, 48);
    for chunk in [0, 7, 8] {
        bits.set(chunk);
    }
    let fields = describe_bitmap(&head, Some(&bits));
    let told = "48 bits (chunks), 3 dirty (6.2%)";
    assert_eq!(value(&fields, "Bitmap"), Some(told));
}

#[test]
fn moments_are_told() {
    for (seconds, told) in [
        (0, "Thu Jan  1 00:00:00 1970 UTC"),
        (951_782_399, "Mon Feb 28 23:59:59 2000 UTC"),
        (951_782_400, "Tue Feb 29 00:00:00 2000 UTC"),
        (951_868_800, "Wed Mar  1 00:00:00 2000 UTC"),
        (1_795_278_225, "Sat Nov 21 16:23:45 2026 UTC"),
        (4_107_542_400, "Mon Mar  1 00:00:00 2100 UTC"),
        ((1 << 40) - 1, "Mon Feb 20 00:36:15 36812 UTC"),
    ] {
        assert_eq!(moment(Stamp::new(seconds, 9)), told);
    }
}
