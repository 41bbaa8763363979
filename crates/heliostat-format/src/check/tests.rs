use proptest::collection::vec;
use proptest::prelude::{any, prop_assert, proptest};

use crate::testing::{LEG_BYTES, bitmap_of, mirror_leg, striped_leg};
use crate::{BitmapSuper, Features, Role, Superblock};

/// The refusal of a superblock with a change.
fn refusal(superblock: &Superblock, change: impl FnOnce(&mut Superblock)) -> String {
    let mut changed = superblock.clone();
    change(&mut changed);
    let error = changed.check(LEG_BYTES).expect_err("it was to be refused");
    assert!(!error.why.is_empty() && !error.way_out.is_empty());
    error.to_string()
}

/// One change, and how the message about it begins.
type Row = (fn(&mut Superblock), &'static str);

/// The same of a bitmap.
type BitmapRow = (fn(&mut BitmapSuper), &'static str);

fn check_all(superblock: &Superblock, rows: &[Row]) {
    for (change, expected) in rows {
        let told = refusal(superblock, change);
        assert!(told.starts_with(expected), "{told}, not {expected}");
    }
}

#[test]
fn what_mdadm_makes_passes() {
    mirror_leg(1, 2).check(LEG_BYTES).unwrap();
    striped_leg(3, 4).check(LEG_BYTES).unwrap();
    // Version 1.1: all is 4 KiB nearer to the start. Version 1.0: all but the data is at the end.
    let start = Superblock {
        super_offset_sectors: 0,
        ..mirror_leg(0, 2)
    };
    start.check(LEG_BYTES).unwrap();
    let end = Superblock {
        super_offset_sectors: 40_944,
        data_offset_sectors: 0,
        size_sectors: 40_832,
        data_size_sectors: 40_928,
        bitmap_offset_sectors: -16,
        bad_blocks_offset_sectors: -8,
        ..mirror_leg(0, 2)
    };
    end.check(LEG_BYTES).unwrap();
    assert_eq!(end.bitmap_room_sectors(), 8);
    assert_eq!(mirror_leg(0, 2).bitmap_room_sectors(), 8);
    let without_log = Superblock {
        bad_blocks_offset_sectors: 0,
        ..mirror_leg(0, 2)
    };
    without_log.check(LEG_BYTES).unwrap();
    assert_eq!(without_log.bitmap_room_sectors(), 2032);
    let behind = Superblock {
        bitmap_offset_sectors: 2,
        ..end
    };
    behind.check(LEG_BYTES).unwrap();
    assert_eq!(behind.bitmap_room_sectors(), 14);
}

#[test]
fn a_leg_and_its_replacement_share_a_role() {
    let mut superblock = mirror_leg(0, 2);
    superblock.roles[2] = Role::Active(1);
    superblock.check(LEG_BYTES).unwrap();
    let told = refusal(&superblock, |s| s.roles[3] = Role::Active(1));
    assert!(
        told.starts_with("dev_roles is 1 at 3: more than two"),
        "{told}"
    );
}

#[test]
fn features_that_are_not_done_are_refused() {
    for bit in 0..32 {
        let feature = Features(1 << bit);
        let mut superblock = mirror_leg(0, 2);
        superblock.features = superblock.features.with(feature);
        let passes = superblock.check(LEG_BYTES).is_ok();
        let is_known = Features::SUPPORTED.contains(feature);
        assert_eq!(passes, is_known, "{feature}");
    }
    let rows: &[Row] = &[
        (
            |s| s.features = Features::RESHAPE,
            "feature_map is 0x4 (reshape): the array is being given another shape; assemble it \
             with mdadm and let the kernel finish that first",
        ),
        (
            |s| s.features.0 |= 256,
            "feature_map is 0x101 (bitmap, clustered): the",
        ),
        (
            |s| s.features.0 = 512,
            "feature_map is 0x200 (journal): a further device journals",
        ),
        (
            |s| s.features.0 = 1024,
            "feature_map is 0x400 (partial parity log): the array has",
        ),
        (
            |s| s.features.0 = 4096,
            "feature_map is 0x1000 (RAID0 layout): there are features",
        ),
        (
            |s| s.features.0 = 1 << 31,
            "feature_map is 0x80000000 (unknown bits 0x80000000)",
        ),
        (|s| s.has_unknown = true, "padding is not zero"),
        (
            |s| s.logical_block_bytes = 8192,
            "logical_block_size is 8192",
        ),
        (|s| s.logical_block_bytes = 256, "logical_block_size is 256"),
        (
            |s| s.logical_block_bytes = 1000,
            "logical_block_size is 1000",
        ),
        (
            |s| s.logical_block_bytes = u32::MAX,
            "logical_block_size is 4294967295",
        ),
    ];
    check_all(&mirror_leg(0, 2), rows);
    let large = Superblock {
        logical_block_bytes: 4096,
        ..mirror_leg(0, 2)
    };
    large.check(LEG_BYTES).unwrap();
}

#[test]
fn shapes_that_cannot_be_are_refused() {
    let rows: &[Row] = &[
        (|s| s.level = 5, "level is 5 (RAID5): RAID1 and RAID10"),
        (|s| s.level = -1, "level is -1 (linear)"),
        (|s| s.level = i32::MIN, "level is -2147483648 (unknown)"),
        (|s| s.level = i32::MAX, "level is 2147483647 (unknown)"),
        (|s| s.raid_disks = 0, "raid_disks is 0"),
        (
            |s| s.raid_disks = 1921,
            "raid_disks is 1921: an array has 1 to 1920",
        ),
        (|s| s.raid_disks = u32::MAX, "raid_disks is 4294967295"),
        (
            |s| s.raid_disks = 17,
            "raid_disks is 17: arrays of at most 16",
        ),
        (|s| s.layout = 0x103 << 8, "layout is 0x10300"),
        (
            |s| s.layout = u32::MAX,
            "layout is 0xffffffff: that is no layout",
        ),
        (|s| s.chunk_sectors = 0, "chunksize is 0 sectors"),
        (|s| s.chunk_sectors = 4, "chunksize is 4 sectors"),
        (|s| s.chunk_sectors = 1025, "chunksize is 1025 sectors"),
        (|s| s.chunk_sectors = u32::MAX, "chunksize is 4294967295"),
        (
            |s| s.chunk_sectors = 1 << 31,
            "size is 38912 sectors: that is no row",
        ),
        (
            |s| s.size_sectors = 1023,
            "size is 1023 sectors: that is no row",
        ),
        (
            |s| s.size_sectors = u64::MAX,
            "size is 18446744073709551615 sectors: that is",
        ),
    ];
    check_all(&striped_leg(0, 4), rows);
    // Of RAID1, layout and chunk mean nothing.
    let odd = Superblock {
        layout: 7,
        chunk_sectors: 77,
        ..mirror_leg(0, 2)
    };
    odd.check(LEG_BYTES).unwrap();
    assert_eq!(odd.array_sectors(), Some(38_912));
}

#[test]
fn roles_out_of_range_are_refused() {
    let rows: &[Row] = &[
        (
            |s| s.dev_number = 128,
            "dev_number is 128: the superblock lists only 128",
        ),
        (|s| s.dev_number = u32::MAX, "dev_number is 4294967295"),
        (|s| s.roles.clear(), "dev_number is 0"),
        (|s| s.roles[0] = Role::Journal, "dev_roles is journal"),
        (
            |s| s.roles[0] = Role::Active(2),
            "dev_roles is 2 at 0: roles of 2 legs",
        ),
        (
            |s| s.roles[9] = Role::Active(0xfffc),
            "dev_roles is 65532 at 9",
        ),
    ];
    check_all(&mirror_leg(0, 2), rows);
    for role in [Role::Spare, Role::Faulty] {
        let mut superblock = mirror_leg(0, 2);
        superblock.roles[0] = role;
        superblock.check(LEG_BYTES).unwrap();
    }
}

#[test]
fn numbers_that_overflow_are_refused() {
    let rows: &[Row] = &[
        (
            |s| s.events = u64::MAX,
            "events is 18446744073709551615: no array",
        ),
        (
            |s| s.events = (1 << 62) + 1,
            "events is 4611686018427387905",
        ),
        (|s| s.size_sectors = 0, "size is 0 sectors"),
        (
            |s| s.size_sectors = 1 << 55,
            "size is 36028797018963968 sectors",
        ),
        (
            |s| s.size_sectors = u64::MAX,
            "size is 18446744073709551615 sectors",
        ),
        (
            |s| s.resync_offset_sectors = 38_913,
            "resync_offset is 38913: the array ends",
        ),
        (
            |s| s.resync_offset_sectors = u64::MAX - 1,
            "resync_offset is 18446744073709551614",
        ),
    ];
    check_all(&mirror_leg(0, 2), rows);
    for offset in [0, 1, 38_912, u64::MAX] {
        let superblock = Superblock {
            resync_offset_sectors: offset,
            ..mirror_leg(0, 2)
        };
        superblock.check(LEG_BYTES).unwrap();
    }
}

#[test]
fn parts_that_lie_outside_or_in_each_other_are_refused() {
    let rows: &[Row] = &[
        (
            |s| s.super_offset_sectors = 9,
            "super_offset is 9: a leg of 40960 sectors has no",
        ),
        (
            |s| s.super_offset_sectors = u64::MAX,
            "super_offset is 18446744073709551615",
        ),
        (
            |s| s.data_size_sectors = 9,
            "data_size is 9: the array uses 38912",
        ),
        (|s| s.data_size_sectors = 38_911, "data_size is 38911"),
        (
            |s| s.data_size_sectors = 38_913,
            "data_size is 38913 sectors from 2048 on: the leg ends at 40960; if the leg was made",
        ),
        (
            |s| s.data_size_sectors = u64::MAX,
            "data_size is 18446744073709551615 sectors from",
        ),
        (
            |s| s.data_offset_sectors = u64::MAX,
            "data_size is 38912 sectors from 184467440737",
        ),
        (
            |s| s.data_offset_sectors = 0,
            "data_offset is 0 to 38912: the data would lie in the sup",
        ),
        (
            |s| s.data_offset_sectors = 31,
            "bblog_offset is 24 to 32: the bad-block log would lie in the data, at 31 to 38943",
        ),
    ];
    check_all(&mirror_leg(0, 2), rows);
    assert!(mirror_leg(0, 2).check(LEG_BYTES - 512).is_err());
    assert!(mirror_leg(0, 2).check(0).is_err());
}

#[test]
fn bitmaps_and_logs_that_lie_outside_or_in_something_are_refused() {
    let rows: &[Row] = &[
        (
            |s| s.bitmap_offset_sectors = 0,
            "bitmap_offset is 0: there is said to be a bitmap",
        ),
        (
            |s| s.bitmap_offset_sectors = -9,
            "bitmap_offset is -9: there is said to be",
        ),
        (
            |s| s.bitmap_offset_sectors = i32::MIN,
            "bitmap_offset is -2147483648",
        ),
        (
            |s| s.bitmap_offset_sectors = 9,
            "bitmap_offset is 17 to 25: the bitmap would lie in",
        ),
        (
            |s| s.bitmap_offset_sectors = i32::MAX,
            "bitmap_offset is 2147483655 to 214748",
        ),
        (
            |s| s.bitmap_offset_sectors = 2040,
            "data_offset is 2048 to 40960: the data would",
        ),
        (
            |s| s.bad_blocks_offset_sectors = -9,
            "bblog_offset is -9: the bad-block log would",
        ),
        (
            |s| s.bad_blocks_offset_sectors = i32::MIN,
            "bblog_offset is -2147483648",
        ),
        (
            |s| s.bad_blocks_offset_sectors = i32::MAX,
            "bblog_offset is 2147483655 to",
        ),
        (
            |s| s.bad_blocks_offset_sectors = 12,
            "bitmap_offset is 16 to 24: the bitmap would",
        ),
        (
            |s| s.bad_blocks_offset_sectors = 3000,
            "data_offset is 2048 to 40960: the data",
        ),
        (
            |s| s.bad_blocks_size_sectors = 9,
            "bblog_size is 9 sectors in units of 2^0",
        ),
        (
            |s| s.bad_blocks_size_sectors = u16::MAX,
            "bblog_size is 65535 sectors",
        ),
        (
            |s| s.bad_blocks_shift = 1,
            "bblog_size is 8 sectors in units of 2^1",
        ),
        (
            |s| {
                s.bad_blocks_offset_sectors = 0;
                s.features = Features::BAD_BLOCKS;
            },
            "bblog_offset is 0: bad blocks are said to be known, without a log",
        ),
    ];
    check_all(&mirror_leg(0, 2), rows);
}

#[test]
fn a_superblock_with_many_roles_needs_its_page() {
    let told = refusal(&mirror_leg(0, 2), |s| {
        // With as many roles as there can be, it is 4 KiB long.
        s.roles = vec![Role::Spare; 1920];
        s.roles[0] = Role::Active(0);
        s.bitmap_offset_sectors = 7;
    });
    assert!(told.starts_with("super_offset is 8 to 16"), "{told}");
}

#[test]
fn bitmaps_that_are_not_kept_are_refused() {
    let superblock = mirror_leg(0, 2);
    let good = bitmap_of(&superblock);
    good.check(&superblock).unwrap();
    let rows: &[BitmapRow] = &[
        (
            |b| b.version = 3,
            "bitmap version is 3 (in the byte order of one machine): only",
        ),
        (
            |b| b.version = 5,
            "bitmap version is 5 (of a cluster): only version 4",
        ),
        (
            |b| b.version = 6,
            "bitmap version is 6 (lockless): only version 4 is kept here; let",
        ),
        (|b| b.version = 0, "bitmap version is 0: only"),
        (|b| b.nodes = 2, "bitmap nodes is 2"),
        (|b| b.uuid.0[3] ^= 1, "bitmap uuid is 303132"),
        (|b| b.chunk_bytes = 0, "bitmap chunksize is 0"),
        (|b| b.chunk_bytes = 3 << 12, "bitmap chunksize is 12288"),
        (
            |b| b.chunk_bytes = u32::MAX,
            "bitmap chunksize is 4294967295",
        ),
        (|b| b.daemon_sleep_seconds = 0, "bitmap daemon_sleep is 0"),
        (
            |b| b.daemon_sleep_seconds = u32::MAX,
            "bitmap daemon_sleep is 4294967295",
        ),
        (
            |b| b.write_behind_max = 16_384,
            "bitmap write_behind is 16384",
        ),
        (
            |b| b.chunk_bytes = 512,
            "bitmap chunksize is 512 for 38912 sectors: the bits need 8192 bytes, and there are",
        ),
        (
            |b| {
                b.chunk_bytes = 512;
                b.sync_size_sectors = 1;
            },
            "bitmap chunksize is 512 for 38912 sectors",
        ),
        (
            |b| b.sync_size_sectors = u64::MAX,
            "bitmap chunksize is 65536 for 18446744073709551615 sectors",
        ),
    ];
    for (change, expected) in rows {
        let mut changed = good;
        change(&mut changed);
        let told = changed.check(&superblock).unwrap_err().to_string();
        assert!(told.starts_with(expected), "{told}, not {expected}");
    }
}

proptest! {
    /// Bytes with the right sum and nonsense in some of them are refused, or harmless.
    #[test]
    fn nonsense_is_refused_or_harmless(
        is_mirror in any::<bool>(),
        changes in vec((8_usize..512, any::<u8>()), 0..6),
        device_bytes in any::<u64>(),
        shift in 0_u32..64,
    ) {
        let superblock = if is_mirror { mirror_leg(0, 2) } else { striped_leg(0, 4) };
        let mut bytes = superblock.to_bytes();
        for (at, value) in changes {
            bytes[at] = value;
        }
        let Ok(changed) = Superblock::parse_damaged(&bytes) else { return Ok(()) };
        for device_bytes in [LEG_BYTES, device_bytes >> shift] {
            if changed.check(device_bytes).is_ok() {
                let end = changed.data_offset_sectors + changed.size_sectors;
                prop_assert!(end <= device_bytes / 512);
                prop_assert!(changed.array_sectors().unwrap().checked_mul(512).is_some());
                prop_assert!(changed.role().is_some());
                prop_assert!(changed.bitmap_room_sectors() < device_bytes / 512);
            }
        }
    }
}
