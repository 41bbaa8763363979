//! Arrays whose legs carry the metadata of Linux md: what lies where on a leg, and how a leg looks
//! that was just made part of a clean array.

use heliostat_engine::{Layout, Map, layout_word};
use heliostat_format::{
    BITMAP_PAGE_BYTES, BitmapBits, BitmapSuper, DeviceFlags, Features, RESYNC_DONE, Role, Stamp,
    Superblock, Uuid,
};
use heliostat_types::{LegId, Prng, RandomStream, SECTOR_BYTES};
use stdx::units::exact_size;

use crate::scenario::{ArraySpec, Scenario};
use crate::store::Store;

/// How an array with metadata is laid out on its legs, which carry version 1.2 of it: the
/// superblock at 4 KiB, behind it the bitmap and the log of bad blocks, then the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataSpec {
    /// Where the data begins on each leg; a multiple of 4 KiB.
    pub data_offset_bytes: u64,
    /// What one bit of the write-intent bitmap stands for; 0: there is no bitmap.
    pub bitmap_chunk_bytes: u64,
}

/// Where the superblock lies.
pub(crate) const SUPERBLOCK_AT: u64 = 4096;
/// Room for it.
pub(crate) const SUPERBLOCK_BYTES: usize = 4096;
/// Where the bitmap begins,
pub(crate) const BITMAP_AT: u64 = 8192;
/// and the same as the superblock says it.
const BITMAP_SECTORS_BEHIND: i32 = 8;
/// Room for the log of bad blocks, as mdadm leaves it.
const BAD_BLOCKS_BYTES: usize = 4096;
/// A log without an entry.
pub(crate) const EMPTY_LOG: [u8; BAD_BLOCKS_BYTES] = [0xff; BAD_BLOCKS_BYTES];
/// The interval in which bits are cleared: the shortest that md takes, as scenarios are short.
const DAEMON_SLEEP_SECONDS: u32 = 1;
/// When all arrays were made, in seconds since 1970: it does not matter.
pub(crate) const MADE_AT_SECONDS: u64 = 1_700_000_000;
/// The events of a new array: high enough to be wound back in tests.
pub(crate) const EVENTS: u64 = 100;

impl MetadataSpec {
    /// What `bitmap_chunk` is where a scenario says nothing of it, as mdadm has it.
    pub const BITMAP_CHUNK_DEFAULT_BYTES: u64 = 64 << 20;

    /// How many bytes the bitmap takes of each leg.
    const fn bitmap_bytes(self, array_bytes: u64) -> u64 {
        if self.bitmap_chunk_bytes == 0 {
            return 0;
        }
        let bits = array_bytes.div_ceil(self.bitmap_chunk_bytes);
        (256 + bits.div_ceil(8)).next_multiple_of(BITMAP_PAGE_BYTES as u64)
    }

    /// Whether it can be so for an array of so many bytes.
    pub(crate) fn check(self, array_bytes: u64) -> Result<(), String> {
        let chunk_bytes = self.bitmap_chunk_bytes;
        let is_chunk = chunk_bytes == 0
            || chunk_bytes.is_power_of_two() && (4096..1 << 32).contains(&chunk_bytes);
        if !is_chunk {
            let text = "bitmap_chunk: it is neither 0 nor a power of two from 4KiB to 2GiB";
            return Err(text.to_owned());
        }
        let least = BITMAP_AT + self.bitmap_bytes(array_bytes) + BAD_BLOCKS_BYTES as u64;
        if !self.data_offset_bytes.is_multiple_of(4096) || self.data_offset_bytes < least {
            return Err(format!(
                "data_offset: it is no multiple of 4KiB, or the metadata, {}, has no room below it",
                exact_size(least)
            ));
        }
        Ok(())
    }
}

/// What a leg begins with when its array is made.
#[derive(Clone, Debug)]
pub(crate) struct Formatted {
    pub(crate) superblock: Superblock,
    bitmap: Option<BitmapBits>,
}

impl Formatted {
    /// Leg number `leg` of a clean array, as `create --assume-clean` leaves it.
    ///
    /// # Panics
    /// Where the array has no metadata.
    pub(crate) fn new(scenario: &Scenario, map: &Map, leg: usize) -> Self {
        let array = &scenario.array;
        let spec = array.metadata.expect("the array has metadata");
        let set_uuid = uuid(scenario.seed, "array uuid", 0);
        let mut superblock = Superblock {
            set_uuid,
            ctime: Stamp::new(MADE_AT_SECONDS, 0),
            utime: Stamp::new(MADE_AT_SECONDS, 0),
            size_sectors: map.leg_bytes(LegId::new(leg)) / SECTOR_BYTES,
            data_offset_sectors: spec.data_offset_bytes / SECTOR_BYTES,
            dev_number: number(leg),
            device_uuid: uuid(scenario.seed, "leg uuid", leg as u64),
            bad_blocks_size_sectors: 8,
            events: EVENTS,
            resync_offset_sectors: RESYNC_DONE,
            ..Superblock::default()
        };
        superblock.set_name[..3].copy_from_slice(b"sim");
        let leg_bytes = array.legs[leg].params.size_bytes();
        let roles = array.roles();
        superblock.data_size_sectors = (leg_bytes - spec.data_offset_bytes) / SECTOR_BYTES;
        put_layout(&mut superblock, array);
        let entries = superblock.roles.iter_mut().take(roles);
        for (role, entry) in (0..).zip(entries) {
            *entry = Role::Active(role);
        }
        if array.legs[leg].write_mostly {
            superblock.device_flags = DeviceFlags::WRITE_MOSTLY;
        }
        let bitmap_bytes = spec.bitmap_bytes(map.size_bytes());
        let behind = BITMAP_AT + bitmap_bytes - SUPERBLOCK_AT;
        superblock.bad_blocks_offset_sectors = signed(behind / SECTOR_BYTES);
        let bitmap = (bitmap_bytes > 0).then(|| {
            superblock.features = superblock.features.with(Features::BITMAP);
            superblock.bitmap_offset_sectors = BITMAP_SECTORS_BEHIND;
            let head = BitmapSuper {
                uuid: set_uuid,
                events: EVENTS,
                events_cleared: EVENTS,
                sync_size_sectors: map.size_bytes() / SECTOR_BYTES,
                chunk_bytes: u32::try_from(spec.bitmap_chunk_bytes).expect("it was checked"),
                daemon_sleep_seconds: DAEMON_SLEEP_SECONDS,
                write_behind_max: array.write_behind,
                ..BitmapSuper::default()
            };
            let chunks = head.chunks().expect("it was checked");
            BitmapBits::new(head, chunks)
        });
        Self { superblock, bitmap }
    }

    /// Writes it.
    pub(crate) fn write(&self, store: &mut Store) {
        let mut page = self.superblock.to_bytes();
        page.resize(SUPERBLOCK_BYTES, 0);
        store.put_raw(SUPERBLOCK_AT, &page);
        if let Some(bitmap) = &self.bitmap {
            store.put_raw(BITMAP_AT, bitmap.bytes());
        }
        store.put_raw(log_address(&self.superblock), &EMPTY_LOG);
    }
}

/// Where the log of bad blocks of a leg begins.
pub(crate) fn log_address(superblock: &Superblock) -> u64 {
    let sector = superblock.bad_blocks_sector();
    sector.expect("every leg has a log") * SECTOR_BYTES
}

/// What the superblock says of level, layout and chunk.
fn put_layout(superblock: &mut Superblock, array: &ArraySpec) {
    superblock.raid_disks = number(array.roles());
    superblock.layout = layout_word(array.layout);
    if let Layout::Raid10(raid10) = array.layout {
        superblock.level = 10;
        let chunk_sectors = raid10.chunk_bytes / SECTOR_BYTES;
        superblock.chunk_sectors = u32::try_from(chunk_sectors).expect("a chunk is small");
    } else {
        superblock.level = 1;
    }
}

pub(crate) fn uuid(seed: u64, role: &str, index: u64) -> Uuid {
    let mut luck = RandomStream::new(seed, role, index);
    let halves = [luck.next_u64(), luck.next_u64()];
    let mut uuid = Uuid::default();
    for (bytes, half) in uuid.0.chunks_exact_mut(8).zip(halves) {
        bytes.copy_from_slice(&half.to_le_bytes());
    }
    uuid
}

fn number(leg: usize) -> u32 {
    u32::try_from(leg).expect("there are few legs")
}

fn signed(sectors: u64) -> i32 {
    i32::try_from(sectors).expect("metadata lies near its superblock")
}
