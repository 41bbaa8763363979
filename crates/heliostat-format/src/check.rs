//! Whether what a superblock or a bitmap says makes sense, and is done here.
//!
//! Everything is looked at before anything is believed: a superblock that passes has an array of a
//! level that is served here, whose parts lie on the leg and not in each other, and numbers that
//! nothing below has to fear. The first thing that is wrong is told.

use heliostat_types::{LEGS_MAX, SECTOR_BYTES};

use crate::superblock::ROLES_MAX;
use crate::{
    BITMAP_CHUNKS_MAX, BITMAP_PAGE_BYTES, BitmapSuper, Features, Refusal, Role, Superblock,
    raid10::Raid10Word,
};

/// What is to be done with an array that only the kernel understands.
const LEAVE_TO_KERNEL: &str = "assemble the array with mdadm instead";

/// What is to be done with a superblock that was damaged or forged.
const LEAVE_OUT: &str =
    "leave the leg out, and add it again as a new one once the array runs without it";

/// Above this, counting on could overflow; no array lives to see so many changes.
const EVENTS_MAX: u64 = 1 << 62;

/// The least that Linux takes for data.
const DATA_SECTORS_MIN: u64 = 10;

/// The smallest chunk of RAID10: a page.
const CHUNK_SECTORS_MIN: u32 = 8;

/// The largest bad-block log: a page.
const BAD_BLOCKS_SECTORS_MAX: u16 = 8;

/// Where the bits of `write_behind` end: the kernel counts in 14 bits.
const WRITE_BEHIND_MAX: u32 = (1 << 14) - 1;

/// The longest a bit may stay, in seconds: a day.
const DAEMON_SLEEP_MAX: u32 = 86_400;

/// Each feature that is not done here, why, and what to do.
const UNSUPPORTED: [(Features, &str, &str); 7] = [
    (
        Features::RESHAPE,
        "the array is being given another shape",
        "assemble it with mdadm and let the kernel finish that first",
    ),
    (
        Features::RESHAPE_BACKWARDS,
        "the array is being given another shape",
        "assemble it with mdadm and let the kernel finish that first",
    ),
    (
        Features::NEW_OFFSET,
        "the data of the array is being moved",
        "assemble it with mdadm and let the kernel finish that first",
    ),
    (
        Features::CLUSTERED,
        "the array is shared by a cluster",
        LEAVE_TO_KERNEL,
    ),
    (
        Features::JOURNAL,
        "a further device journals the array's writes",
        LEAVE_TO_KERNEL,
    ),
    (
        Features::PPL,
        "the array has a partial parity log",
        LEAVE_TO_KERNEL,
    ),
    (
        Features::MULTIPLE_PPLS,
        "the array has partial parity logs",
        LEAVE_TO_KERNEL,
    ),
];

/// A part of a leg, in sectors.
struct Part {
    what: &'static str,
    field: &'static str,
    start: u64,
    end: u64,
}

impl Superblock {
    /// Whether a leg of so many bytes that says this can be part of an array that is served here.
    ///
    /// # Errors
    /// With the first thing that is wrong.
    pub fn check(&self, device_bytes: u64) -> Result<(), Refusal> {
        self.check_features()?;
        self.check_shape()?;
        self.check_roles()?;
        self.check_state()?;
        self.check_parts(device_bytes)
    }

    fn check_features(&self) -> Result<(), Refusal> {
        let told = format!("{:#x} ({})", self.features.0, self.features);
        for (feature, why, way_out) in UNSUPPORTED {
            if self.features.contains(feature) {
                return Err(Refusal::new("feature_map", told, why, way_out));
            }
        }
        if !self.features.without(Features::SUPPORTED).is_empty() {
            let why = "there are features that are not known here";
            return Err(Refusal::new("feature_map", told, why, LEAVE_TO_KERNEL));
        }
        if self.has_unknown {
            let why = "bytes that mean nothing yet are set, as a newer md may do it";
            return Err(Refusal::new("padding", "not zero", why, LEAVE_TO_KERNEL));
        }
        let block = self.logical_block_bytes;
        if block != 0 && !(block.is_power_of_two() && (512..=4096).contains(&block)) {
            let why = "blocks of 512 to 4096 bytes are served here, in powers of two";
            return Err(Refusal::new(
                "logical_block_size",
                block,
                why,
                LEAVE_TO_KERNEL,
            ));
        }
        Ok(())
    }

    /// Level, layout, chunk, and how many legs.
    pub(crate) fn check_shape(&self) -> Result<(), Refusal> {
        let disks = self.raid_disks;
        let disks_refused = |why: String| Refusal::new("raid_disks", disks, why, LEAVE_OUT);
        if disks == 0 || disks as usize > ROLES_MAX {
            let why = format!("an array has 1 to {ROLES_MAX} legs");
            return Err(disks_refused(why));
        }
        if matches!(self.level, 1 | 10) && disks as usize > LEGS_MAX {
            let why = format!("arrays of at most {LEGS_MAX} legs are served here");
            return Err(Refusal::new("raid_disks", disks, why, LEAVE_TO_KERNEL));
        }
        match self.level {
            1 => return Ok(()),
            10 => {}
            level => {
                let name = level_name(level);
                let why = "RAID1 and RAID10 are served here";
                let told = format!("{level} ({name})");
                return Err(Refusal::new("level", told, why, LEAVE_TO_KERNEL));
            }
        }
        Raid10Word::parse(self.layout, disks).map_err(|why| {
            let told = format!("{:#x}", self.layout);
            Refusal::new("layout", told, why, LEAVE_TO_KERNEL)
        })?;
        let chunk = self.chunk_sectors;
        if chunk < CHUNK_SECTORS_MIN || !chunk.is_power_of_two() {
            let why = "a chunk of RAID10 is a power of two, and 4 KiB at least";
            let told = format!("{chunk} sectors");
            return Err(Refusal::new("chunksize", told, why, LEAVE_OUT));
        }
        Ok(())
    }

    fn check_roles(&self) -> Result<(), Refusal> {
        let count = self.roles.len();
        let Some(role) = self.role() else {
            let why = format!("the superblock lists only {count} legs, and this one not");
            return Err(Refusal::new("dev_number", self.dev_number, why, LEAVE_OUT));
        };
        if role == Role::Journal {
            let why = "a journal is no leg of a mirror";
            return Err(Refusal::new("dev_roles", role, why, LEAVE_OUT));
        }
        let mut holders = vec![0_u8; self.raid_disks as usize];
        for (number, role) in self.roles.iter().enumerate() {
            let Role::Active(role) = *role else { continue };
            let told = format!("{role} at {number}");
            let Some(holders) = holders.get_mut(usize::from(role)) else {
                let why = format!("roles of {} legs are below that", self.raid_disks);
                return Err(Refusal::new("dev_roles", told, why, LEAVE_OUT));
            };
            *holders += 1;
            if *holders > 2 {
                let why = "more than two legs have that role; one and its replacement may";
                return Err(Refusal::new("dev_roles", told, why, LEAVE_OUT));
            }
        }
        Ok(())
    }

    /// Events, and how far things are.
    fn check_state(&self) -> Result<(), Refusal> {
        if self.events > EVENTS_MAX {
            let why = "no array lives to see so many changes";
            return Err(Refusal::new("events", self.events, why, LEAVE_OUT));
        }
        let Some(array_sectors) = self.array_sectors().filter(|&sectors| sectors > 0) else {
            let why = match self.level {
                10 => "that is no row of chunks on each leg, or more than can be counted",
                _ => "a leg has less than 2^55 sectors, and at least one",
            };
            let told = format!("{} sectors", self.size_sectors);
            return Err(Refusal::new("size", told, why, LEAVE_OUT));
        };
        let offset = self.resync_offset_sectors;
        if offset != crate::RESYNC_DONE && offset > array_sectors {
            let why = format!("the array ends at {array_sectors}");
            return Err(Refusal::new("resync_offset", offset, why, LEAVE_OUT));
        }
        Ok(())
    }

    /// Where things lie on the leg: on it, and not in each other.
    fn check_parts(&self, device_bytes: u64) -> Result<(), Refusal> {
        let sectors = device_bytes / SECTOR_BYTES;
        let at = self.super_offset_sectors;
        if !Self::places(device_bytes).any(|place| place.sector == at) {
            let why = format!("a leg of {sectors} sectors has no superblock there");
            let way_out = "if the leg was made larger or smaller, give it its old size again";
            return Err(Refusal::new("super_offset", at, why, way_out));
        }
        let (size, data_size) = (self.size_sectors, self.data_size_sectors);
        if data_size < DATA_SECTORS_MIN || data_size < size {
            let why = format!("the array uses {size} sectors of each leg, and 10 are the least");
            return Err(Refusal::new("data_size", data_size, why, LEAVE_OUT));
        }
        let data_end = self.data_offset_sectors.checked_add(data_size);
        if data_end.is_none_or(|end| end > sectors) {
            let offset = self.data_offset_sectors;
            let told = format!("{data_size} sectors from {offset} on");
            let why = format!("the leg ends at {sectors}");
            let way_out = "if the leg was made smaller, give it its old size again";
            return Err(Refusal::new("data_size", told, why, way_out));
        }
        let mut parts = self.parts()?;
        parts.sort_by_key(|part| part.start);
        apart(&parts, sectors)
    }

    /// The parts of a leg; of the bitmap, its first page.
    fn parts(&self) -> Result<Vec<Part>, Refusal> {
        let part = |what, field, start: u64, sectors: u64| Part {
            what,
            field,
            start,
            end: start.saturating_add(sectors),
        };
        let own_bytes = 256 + 2 * self.roles.len() as u64;
        let own_sectors = own_bytes.div_ceil(SECTOR_BYTES);
        let at = self.super_offset_sectors;
        let mut parts = vec![
            part("the superblock", "super_offset", at, own_sectors),
            part(
                "the data",
                "data_offset",
                self.data_offset_sectors,
                self.size_sectors,
            ),
        ];
        if self.features.contains(Features::BITMAP) {
            let Some(start) = self.bitmap_sector() else {
                let why = "there is said to be a bitmap, and it would not lie on the leg";
                let offset = self.bitmap_offset_sectors;
                return Err(Refusal::new("bitmap_offset", offset, why, LEAVE_OUT));
            };
            let page = BITMAP_PAGE_BYTES as u64 / SECTOR_BYTES;
            parts.push(part("the bitmap", "bitmap_offset", start, page));
        }
        let (offset, size) = (self.bad_blocks_offset_sectors, self.bad_blocks_size_sectors);
        let refused = |why| Refusal::new("bblog_offset", offset, why, LEAVE_OUT);
        if let Some(start) = self.bad_blocks_sector() {
            if size > BAD_BLOCKS_SECTORS_MAX || self.bad_blocks_shift != 0 {
                let told = format!("{size} sectors in units of 2^{}", self.bad_blocks_shift);
                let why = "a bad-block log has at most 8, in units of 2^0";
                return Err(Refusal::new("bblog_size", told, why, LEAVE_TO_KERNEL));
            }
            let sectors = u64::from(size);
            parts.push(part("the bad-block log", "bblog_offset", start, sectors));
        } else if offset != 0 && size != 0 {
            return Err(refused("the bad-block log would not lie on the leg"));
        } else if self.features.contains(Features::BAD_BLOCKS) {
            return Err(refused("bad blocks are said to be known, without a log"));
        }
        Ok(parts)
    }

    /// How large the array is, in sectors; `None` where that makes no sense.
    #[must_use]
    pub fn array_sectors(&self) -> Option<u64> {
        let fits = |sectors: &u64| *sectors <= u64::MAX / SECTOR_BYTES;
        if self.level != 10 {
            return Some(self.size_sectors).filter(fits);
        }
        let word = Raid10Word::parse(self.layout, self.raid_disks).ok()?;
        word.array_sectors(self.raid_disks, self.chunk_sectors, self.size_sectors)
            .filter(fits)
    }
}

/// Whether parts, by where they begin, end before the next one does and before the leg does.
fn apart(parts: &[Part], sectors: u64) -> Result<(), Refusal> {
    for (index, part) in parts.iter().enumerate() {
        let told = format!("{} to {}", part.start, part.end);
        if part.end > sectors {
            let why = format!("{} would end behind the leg's end at {sectors}", part.what);
            return Err(Refusal::new(part.field, told, why, LEAVE_OUT));
        }
        if let Some(next) = parts.get(index + 1).filter(|next| next.start < part.end) {
            let why = format!(
                "{} would lie in {}, at {} to {}",
                part.what, next.what, next.start, next.end
            );
            return Err(Refusal::new(part.field, told, why, LEAVE_OUT));
        }
    }
    Ok(())
}

/// What a level is called.
#[must_use]
pub fn level_name(level: i32) -> &'static str {
    match level {
        -4 => "multipath",
        -1 => "linear",
        0 => "RAID0",
        1 => "RAID1",
        4 => "RAID4",
        5 => "RAID5",
        6 => "RAID6",
        10 => "RAID10",
        _ => "unknown",
    }
}

impl BitmapSuper {
    /// Whether this is the bitmap of the leg that `superblock` is of, and one that is kept here.
    /// The superblock has to have passed [`Superblock::check`].
    ///
    /// # Errors
    /// With the first thing that is wrong.
    pub fn check(&self, superblock: &Superblock) -> Result<(), Refusal> {
        let renew = "let the kernel assemble the array and give it another one, with mdadm --grow \
                     --bitmap=none and then --bitmap=internal";
        let refused = |field, value: String, why: &str| Err(Refusal::new(field, value, why, renew));
        if self.version != Self::VERSION {
            let told = crate::error::bitmap_version(self.version);
            return refused("bitmap version", told, "only version 4 is kept here");
        }
        if self.nodes != 0 {
            let why = "the array is shared by a cluster";
            return refused("bitmap nodes", self.nodes.to_string(), why);
        }
        if self.uuid != superblock.set_uuid {
            let why = "it is the bitmap of another array";
            return refused("bitmap uuid", self.uuid.to_string(), why);
        }
        // Bits for the whole array, however much of it the bitmap was made for.
        let for_array = Self {
            sync_size_sectors: superblock
                .array_sectors()
                .unwrap_or(0)
                .max(self.sync_size_sectors),
            ..*self
        };
        let (Ok(chunks), Ok(area_bytes)) = (for_array.chunks(), for_array.area_bytes()) else {
            let why = "it must be a power of two from 512 on";
            return refused("bitmap chunksize", self.chunk_bytes.to_string(), why);
        };
        if !(1..=DAEMON_SLEEP_MAX).contains(&self.daemon_sleep_seconds) {
            let told = self.daemon_sleep_seconds.to_string();
            return refused("bitmap daemon_sleep", told, "it is from 1 s to a day");
        }
        if self.write_behind_max > WRITE_BEHIND_MAX {
            let told = self.write_behind_max.to_string();
            return refused("bitmap write_behind", told, "it is 16383 at most");
        }
        let room_bytes = superblock
            .bitmap_room_sectors()
            .saturating_mul(SECTOR_BYTES);
        if area_bytes > room_bytes || chunks > BITMAP_CHUNKS_MAX {
            let sectors = for_array.sync_size_sectors;
            let told = format!("{} for {sectors} sectors", self.chunk_bytes);
            let room_bytes = room_bytes.min(BITMAP_CHUNKS_MAX / 8);
            let why = format!("the bits need {area_bytes} bytes, and there are {room_bytes}");
            return refused("bitmap chunksize", told, &why);
        }
        Ok(())
    }
}

impl Superblock {
    /// How many sectors there are for the bitmap, up to the next thing on the leg; 0 where there is
    /// no bitmap. The superblock has to have passed [`Superblock::check`].
    #[must_use]
    pub fn bitmap_room_sectors(&self) -> u64 {
        let Some(start) = self.bitmap_sector() else {
            return 0;
        };
        let next = self
            .parts()
            .unwrap_or_default()
            .into_iter()
            .map(|part| part.start)
            .filter(|&other| other > start)
            .min();
        // Nothing comes behind it where the superblock lies at the end of the leg, and 8 KiB are
        // left there.
        let end_sectors = self.super_offset_sectors.saturating_add(16);
        next.unwrap_or(end_sectors).saturating_sub(start)
    }
}

#[cfg(test)]
mod tests;
