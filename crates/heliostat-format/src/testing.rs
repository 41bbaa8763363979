//! Superblocks as mdadm makes them, for tests.

use crate::{BitmapSuper, Features, RESYNC_DONE, Role, Superblock, Uuid};

/// The size of the legs.
pub(crate) const LEG_BYTES: u64 = 20 << 20;

/// Leg `index` of a clean RAID1 of `legs` legs of 20 MiB with a bitmap, of version 1.2.
pub(crate) fn mirror_leg(index: u16, legs: u16) -> Superblock {
    let mut superblock = Superblock {
        features: Features::BITMAP,
        set_uuid: Uuid(*b"0123456789abcdef"),
        device_uuid: Uuid([u8::try_from(index).unwrap(); 16]),
        level: 1,
        raid_disks: u32::from(legs),
        size_sectors: 38_912,
        data_offset_sectors: 2048,
        data_size_sectors: 38_912,
        bitmap_offset_sectors: 8,
        bad_blocks_offset_sectors: 16,
        bad_blocks_size_sectors: 8,
        dev_number: u32::from(index),
        events: 100,
        resync_offset_sectors: RESYNC_DONE,
        ..Superblock::default()
    };
    superblock.set_name[..9].copy_from_slice(b"guest:one");
    for role in 0..legs {
        superblock.roles[usize::from(role)] = Role::Active(role);
    }
    superblock
}

/// The same of a RAID10 with two near copies.
pub(crate) fn striped_leg(index: u16, legs: u16) -> Superblock {
    Superblock {
        level: 10,
        layout: 0x102,
        chunk_sectors: 1024,
        ..mirror_leg(index, legs)
    }
}

/// The bitmap that goes with it.
pub(crate) fn bitmap_of(superblock: &Superblock) -> BitmapSuper {
    BitmapSuper {
        uuid: superblock.set_uuid,
        events: superblock.events,
        events_cleared: superblock.events,
        sync_size_sectors: superblock.array_sectors().unwrap(),
        chunk_bytes: 1 << 16,
        ..BitmapSuper::default()
    }
}
