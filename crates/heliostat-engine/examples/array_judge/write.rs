//! Arrays that no kernel has seen yet, with metadata made from nothing.
//!
//! A description is words: a layout (`mirror`, `near=2` and the like) and
//!
//! * `chunk=SIZE`, `size=SIZE`: RAID10's chunks, and how much of each leg is used;
//! * `bitmap=SIZE|none`: the chunk of the bitmap;
//! * `events=N`, `cleared=N`, `bitmap-events=N`: the array's, those when a bit was last cleared,
//!   and those of the bitmap where they are not the array's;
//! * `dirty`: the array was not stopped;
//! * `set=N,N`: bits that are set;
//! * of a leg, which are called a, b and so on: `missing=b`: nothing is written to it, and nobody
//!   expects it; `spare=b`; `behind=b:N`: it knows less than the others by N events; `failed=b:N`:
//!   so as well, and the others know that it failed; `write-mostly=b`; `bad=b:START+LEN`: sectors
//!   in its bad-block log; `recovered=b:SECTORS`: it was being rebuilt, and is good so far.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use heliostat_engine::{Layout, Map, layout_word};
use heliostat_format::{
    BadBlocks, BitmapBits, BitmapSuper, DeviceFlags, Features, RESYNC_DONE, Role, Stamp,
    Superblock, Uuid,
};
use heliostat_types::SECTOR_BYTES;
use stdx::units::parse_size;

use crate::{BLOCK_BYTES, Result, pattern};

/// Where things are: the bitmap behind the superblock, room for two pages of it, the log, and the
/// data far enough behind.
const SUPERBLOCK_SECTOR: u64 = 8;
const BITMAP_SECTOR: u64 = 16;
const LOG_SECTOR: u64 = 32;
const LOG_SECTORS: u16 = 8;
const DATA_SECTOR: u64 = 2048;

/// The moment at which all these arrays were made.
const CTIME: Stamp = Stamp::new(1_700_000_000, 0);

/// What a leg is to be.
#[derive(Clone, Debug, Default)]
struct LegDescription {
    is_missing: bool,
    is_spare: bool,
    has_failed: bool,
    behind: u64,
    flags: DeviceFlags,
    bad: Vec<(u64, u64)>,
    recovered_sectors: Option<u64>,
}

/// What an array is to be.
#[derive(Debug)]
pub(crate) struct Description {
    layout: Layout,
    chunk_bytes: u64,
    size_bytes: u64,
    bitmap_chunk_bytes: Option<u32>,
    events: u64,
    cleared: Option<u64>,
    bitmap_events: Option<u64>,
    is_dirty: bool,
    set: Vec<u64>,
    legs: Vec<LegDescription>,
    set_uuid: Uuid,
}

impl Description {
    /// What the words say, of an array of these legs.
    pub(crate) fn parse(words: &[&str], legs: &[&str]) -> Result<Self> {
        let mut description = Self {
            layout: Layout::Mirror,
            chunk_bytes: 64 << 10,
            size_bytes: 6 << 20,
            bitmap_chunk_bytes: Some(64 << 10),
            events: 20,
            cleared: None,
            bitmap_events: None,
            is_dirty: false,
            set: Vec::new(),
            legs: vec![LegDescription::default(); legs.len()],
            set_uuid: uuid(&format!("{:?} {legs:?}", std::env::current_dir()?)),
        };
        for word in words {
            description
                .take(word)
                .map_err(|error| format!("{word}: {error}"))?;
        }
        Ok(description)
    }

    fn take(&mut self, word: &str) -> Result<()> {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match key {
            "mirror" | "near" | "far" | "offset" => self.layout = Layout::parse(word)?,
            "chunk" => self.chunk_bytes = parse_size(value)?,
            "size" => self.size_bytes = parse_size(value)?,
            "bitmap" if value == "none" => self.bitmap_chunk_bytes = None,
            "bitmap" => self.bitmap_chunk_bytes = Some(u32::try_from(parse_size(value)?)?),
            "events" => self.events = value.parse()?,
            "cleared" => self.cleared = Some(value.parse()?),
            "bitmap-events" => self.bitmap_events = Some(value.parse()?),
            "dirty" => self.is_dirty = true,
            "set" => self.set = numbers(value)?,
            _ => self.take_leg(key, value)?,
        }
        Ok(())
    }

    fn take_leg(&mut self, key: &str, value: &str) -> Result<()> {
        let (name, value) = value.split_once(':').unwrap_or((value, ""));
        let index = name.bytes().next().map(|letter| letter.wrapping_sub(b'a'));
        let leg = index.and_then(|index| self.legs.get_mut(usize::from(index)));
        let leg = leg.ok_or("no such leg")?;
        match key {
            "missing" => leg.is_missing = true,
            "spare" => leg.is_spare = true,
            "behind" => leg.behind = value.parse()?,
            "failed" => {
                leg.behind = value.parse()?;
                leg.has_failed = true;
            }
            "write-mostly" => leg.flags = leg.flags.with(DeviceFlags::WRITE_MOSTLY),
            "bad" => {
                let (start, len) = value.split_once('+').ok_or("not START+LEN")?;
                leg.bad.push((start.parse()?, len.parse()?));
            }
            "recovered" => leg.recovered_sectors = Some(value.parse()?),
            _ => return Err("no such word".into()),
        }
        Ok(())
    }

    /// Writes data and metadata to the files.
    pub(crate) fn write(&self, files: &[&str]) -> Result<()> {
        let mut layout = self.layout;
        if let Layout::Raid10(raid10) = &mut layout {
            *raid10 = raid10.with_chunk_bytes(self.chunk_bytes)?;
        }
        let active = self.legs.iter().filter(|leg| !leg.is_spare).count();
        let map = Map::new(layout, active, self.size_bytes)?;
        let files = files
            .iter()
            .map(|name| OpenOptions::new().write(true).open(name));
        let files: Vec<_> = files.collect::<std::io::Result<_>>()?;
        for address in (0..map.size_bytes()).step_by(BLOCK_BYTES) {
            let block = pattern::bytes(pattern::FIRST, address, BLOCK_BYTES as u64);
            for place in map.places(address) {
                let index = place.leg.index();
                if !self.legs[index].is_missing {
                    let at = DATA_SECTOR * SECTOR_BYTES + place.address;
                    files[index].write_all_at(&block, at)?;
                }
            }
        }
        for (file, index) in files.iter().zip(0..) {
            if !self.legs[index].is_missing {
                let put = |bytes: &[u8], sector| file.write_all_at(bytes, sector * SECTOR_BYTES);
                let superblock = self.superblock(index, layout, file.metadata()?.len())?;
                put(&superblock.to_bytes(), SUPERBLOCK_SECTOR)?;
                put(&self.log(index)?.to_bytes(), LOG_SECTOR)?;
                if let Some(bitmap) = self.bitmap(index, &map)? {
                    put(bitmap.bytes(), BITMAP_SECTOR)?;
                }
            }
        }
        Ok(())
    }

    fn superblock(&self, index: usize, layout: Layout, file_bytes: u64) -> Result<Superblock> {
        let leg = &self.legs[index];
        let active = self.legs.iter().filter(|leg| !leg.is_spare).count();
        let mut superblock = Superblock {
            set_uuid: self.set_uuid,
            ctime: CTIME,
            level: 1,
            size_sectors: self.size_bytes / SECTOR_BYTES,
            raid_disks: u32::try_from(active)?,
            super_offset_sectors: SUPERBLOCK_SECTOR,
            data_offset_sectors: DATA_SECTOR,
            data_size_sectors: file_bytes / SECTOR_BYTES - DATA_SECTOR,
            dev_number: u32::try_from(index)?,
            device_uuid: uuid(&format!("{} {index}", self.set_uuid)),
            device_flags: leg.flags,
            bad_blocks_size_sectors: LOG_SECTORS,
            bad_blocks_offset_sectors: offset(LOG_SECTOR)?,
            utime: CTIME,
            events: self.events - leg.behind,
            resync_offset_sectors: if self.is_dirty { 0 } else { RESYNC_DONE },
            ..Superblock::default()
        };
        superblock.set_name[..9].copy_from_slice(b"heliostat");
        if let Layout::Raid10(raid10) = layout {
            superblock.level = 10;
            superblock.layout = layout_word(layout);
            superblock.chunk_sectors = u32::try_from(raid10.chunk_bytes / SECTOR_BYTES)?;
        }
        let mut number = 0;
        for (role, other) in superblock.roles.iter_mut().zip(&self.legs) {
            // Who does not know of the failure yet takes the leg for a good one.
            let has_failed = other.has_failed && leg.behind == 0;
            *role = match other {
                _ if has_failed => Role::Faulty,
                _ if other.is_missing || other.is_spare => Role::Spare,
                _ => Role::Active(number),
            };
            number += u16::from(!other.is_spare);
        }
        let mut add = |feature| superblock.features = superblock.features.with(feature);
        if self.bitmap_chunk_bytes.is_some() {
            add(Features::BITMAP);
        }
        if !leg.bad.is_empty() {
            add(Features::BAD_BLOCKS);
        }
        if leg.recovered_sectors.is_some() {
            add(Features::RECOVERY_OFFSET);
        }
        superblock.recovery_offset_sectors = leg.recovered_sectors.unwrap_or(0);
        if self.bitmap_chunk_bytes.is_some() {
            superblock.bitmap_offset_sectors = offset(BITMAP_SECTOR)?;
        }
        Ok(superblock)
    }

    fn log(&self, index: usize) -> Result<BadBlocks> {
        let mut log = BadBlocks::new(LOG_SECTORS);
        for &(start, len) in &self.legs[index].bad {
            log.insert(start..start + len)?;
        }
        Ok(log)
    }

    fn bitmap(&self, index: usize, map: &Map) -> Result<Option<BitmapBits>> {
        let Some(chunk_bytes) = self.bitmap_chunk_bytes else {
            return Ok(None);
        };
        let events = self.bitmap_events.unwrap_or(self.events);
        let events = events - self.legs[index].behind;
        let super_block = BitmapSuper {
            uuid: self.set_uuid,
            events,
            events_cleared: self.cleared.unwrap_or(events).min(events),
            sync_size_sectors: map.size_bytes() / SECTOR_BYTES,
            chunk_bytes,
            ..BitmapSuper::default()
        };
        let mut bitmap = BitmapBits::new(super_block, super_block.chunks()?);
        for &chunk in &self.set {
            bitmap.set(chunk);
        }
        Ok(Some(bitmap))
    }
}

/// From the superblock on.
fn offset(sector: u64) -> Result<i32> {
    Ok(i32::try_from(sector - SUPERBLOCK_SECTOR)?)
}

/// Numbers with commas between them.
pub(crate) fn numbers(text: &str) -> Result<Vec<u64>> {
    let numbers = text.split(',').map(str::parse);
    Ok(numbers.collect::<std::result::Result<_, _>>()?)
}

/// An identity that is the same for the same text: FNV-1a, and once more for the second half.
fn uuid(text: &str) -> Uuid {
    let hash = |seed: u64| {
        text.bytes().fold(seed, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    };
    let halves = [hash(0xcbf2_9ce4_8422_2325), hash(0x8422_2325_cbf2_9ce4)];
    let mut bytes = [0; 16];
    for (part, half) in bytes.chunks_mut(8).zip(halves) {
        part.copy_from_slice(&half.to_le_bytes());
    }
    Uuid(bytes)
}
