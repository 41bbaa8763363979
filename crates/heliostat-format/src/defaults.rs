//! What a new array is like where nobody says otherwise: the choices of `mdadm --create`, so that
//! arrays made here and there are alike, down to the sector.
//!
//! The figures were taken from arrays that mdadm 4.2 made on legs from 1 MiB to 8 TiB; the tests
//! have them as a table.

use heliostat_types::SECTOR_BYTES;
use stdx::units::format_size;

use crate::raid10::Raid10Word;
use crate::superblock::ROLES_MAX;
use crate::{
    BITMAP_PAGE_BYTES, BITMAP_SUPER_BYTES, BitmapBits, BitmapSuper, DeviceFlags, Features, Minor,
    RESYNC_DONE, Refusal, Role, Stamp, Superblock, Uuid,
};

/// Sectors of a mebibyte.
const MEBI: u64 = 2048;

/// Sectors of a gibibyte.
const GIBI: u64 = 1024 * MEBI;

/// What is left free in front of the data for a later change of shape, of the largest legs.
const HEADROOM_MAX: u64 = 128 * MEBI;

/// The bad-block log: a page.
const BAD_BLOCKS_SECTORS: u16 = 8;

/// RAID1 uses whole 64 KiB of each leg.
const MIRROR_UNIT_SECTORS: u64 = 128;

/// The smallest chunk of a bitmap: with smaller ones the kernel gains nothing.
const BITMAP_CHUNK_MIN: u64 = 4096;

/// The chunk of a bitmap where the room allows a smaller one: few bits, seldom written.
const BITMAP_CHUNK_USUAL: u64 = 64 << 20;

/// The bitmap that a new array is to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewBitmap {
    /// What one bit stands for; `None`: as there is room, and 64 MiB at least.
    pub chunk_bytes: Option<u32>,
    /// How many writes write-mostly legs may be behind.
    pub write_behind_max: u32,
}

/// An array that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewArray {
    /// Where superblocks are to lie.
    pub minor: Minor,
    /// The array's identity.
    pub set_uuid: Uuid,
    /// Its name, as in `host:name`; what is longer than 32 bytes is cut.
    pub name: String,
    /// When it is made.
    pub ctime: Stamp,
    /// 1 or 10.
    pub level: i32,
    /// The layout word of RAID10; 0 for RAID1.
    pub layout: u32,
    /// The chunk of RAID10; 0 for RAID1.
    pub chunk_sectors: u32,
    /// How many legs with data it has when it is whole.
    pub raid_disks: u32,
    /// The roles of those that are not there yet.
    pub missing: Vec<u16>,
    /// Its bitmap.
    pub bitmap: Option<NewBitmap>,
    /// Whether the legs are known to be equal.
    pub is_clean: bool,
}

/// A leg of a new array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewLeg {
    /// How large it is.
    pub device_bytes: u64,
    /// Its identity.
    pub device_uuid: Uuid,
    /// How it is to be used.
    pub flags: DeviceFlags,
    /// Its number, and its role where it is not a spare.
    pub number: u16,
}

/// Where things lie in a new array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    array: NewArray,
    /// Where the data begins on every leg.
    pub data_offset_sectors: u64,
    /// How much is used of every leg.
    pub size_sectors: u64,
    /// How large the array is.
    pub array_sectors: u64,
    /// What one bit of the bitmap stands for, where there is one.
    pub bitmap_chunk_bytes: Option<u32>,
    /// How many sectors the bitmap takes, or are kept free for one.
    bitmap_sectors: u64,
}

/// How many sectors are kept for a bitmap on a leg of so many.
fn bitmap_room(sectors: u64) -> u64 {
    match sectors {
        ..128 => 0,
        _ if sectors - 128 >= 200 * GIBI => 256,
        _ if sectors - 8 > 8 * GIBI => 128,
        _ => 8,
    }
}

/// Where the data begins on a leg of so many sectors: behind the superblock, a bitmap and a
/// bad-block log, with headroom of a thousandth or less behind them, at a whole mebibyte. Headroom
/// is two chunks at least.
fn data_offset(minor: Minor, sectors: u64, chunk_sectors: u32) -> u64 {
    if minor == Minor::End {
        return 0;
    }
    let mut headroom = HEADROOM_MAX;
    let least = u64::from(chunk_sectors) * 2;
    while headroom << 10 > sectors && (least == 0 || headroom > least) {
        headroom /= 2;
    }
    (24 + bitmap_room(sectors) + headroom).next_multiple_of(MEBI)
}

impl NewArray {
    /// The field of a refusal of a leg that is too small; its value is the size of that leg.
    pub const SIZE_OF_A_LEG: &str = "the size of a leg";

    /// Where things will lie, given the sizes of all legs in their order.
    ///
    /// # Errors
    /// Where there is no such array, or a leg is too small.
    pub fn plan(&self, legs_bytes: &[u64]) -> Result<Plan, Refusal> {
        self.check_shape()?;
        let legs: Vec<u64> = legs_bytes.iter().map(|&leg| leg / SECTOR_BYTES).collect();
        let Some(&first) = legs.first() else {
            let why = "an array needs legs";
            return Err(Refusal::new("raid_disks", 0, why, "name some"));
        };
        // The first leg decides for all of them.
        let data_offset_sectors = data_offset(self.minor, first, self.chunk_sectors);
        let mut size_sectors = u64::MAX;
        for &leg in &legs {
            let size = self.usable(leg, data_offset_sectors).ok_or_else(|| {
                let why = format!(
                    "behind what md keeps for itself ({} from the start) nothing is left",
                    format_size(data_offset_sectors * SECTOR_BYTES)
                );
                let told = format_size(leg * SECTOR_BYTES);
                Refusal::new(Self::SIZE_OF_A_LEG, told, why, "take a larger leg")
            })?;
            size_sectors = size_sectors.min(size);
        }
        let Some(array_sectors) = self.array_sectors(size_sectors) else {
            let why = "so many legs of that size cannot be counted in 64 bits";
            let told = format!("{size_sectors} sectors");
            return Err(Refusal::new("size", told, why, "take smaller legs"));
        };
        let mut plan = Plan {
            array: self.clone(),
            data_offset_sectors,
            size_sectors,
            array_sectors,
            bitmap_chunk_bytes: None,
            bitmap_sectors: bitmap_room(size_sectors),
        };
        if let Some(bitmap) = self.bitmap {
            plan.place_bitmap(bitmap)?;
        }
        Ok(plan)
    }

    fn check_shape(&self) -> Result<(), Refusal> {
        let like_this = Superblock {
            level: self.level,
            layout: self.layout,
            chunk_sectors: self.chunk_sectors,
            raid_disks: self.raid_disks,
            ..Superblock::default()
        };
        like_this.check_shape()
    }

    /// How much of a leg of so many sectors can be used; `None` where that is nothing.
    fn usable(&self, sectors: u64, data_offset: u64) -> Option<u64> {
        let free = if self.minor == Minor::End {
            (sectors & !7).checked_sub(24 + bitmap_room(sectors))?
        } else {
            sectors.checked_sub(data_offset)?
        };
        let unit = match self.level {
            10 => u64::from(self.chunk_sectors),
            _ => MIRROR_UNIT_SECTORS,
        };
        let size = free - free % unit;
        self.array_sectors(size)
            .is_none_or(|sectors| sectors > 0)
            .then_some(size)
            .filter(|&size| size > 0)
    }

    fn array_sectors(&self, size_sectors: u64) -> Option<u64> {
        let like_this = Superblock {
            level: self.level,
            layout: self.layout,
            chunk_sectors: self.chunk_sectors,
            raid_disks: self.raid_disks,
            size_sectors,
            ..Superblock::default()
        };
        like_this.array_sectors()
    }

    /// What mdadm counts bits for: without looking at chunks that are not whole.
    fn bitmap_sectors(&self, size_sectors: u64) -> u64 {
        let Ok(word) = Raid10Word::parse(self.layout, self.raid_disks) else {
            return size_sectors;
        };
        if self.level == 10 {
            size_sectors * u64::from(self.raid_disks) / u64::from(word.copies())
        } else {
            size_sectors
        }
    }
}

impl Plan {
    /// Chooses the chunk of the bitmap, and with it its size.
    fn place_bitmap(&mut self, bitmap: NewBitmap) -> Result<(), Refusal> {
        let room_bytes = bitmap_room(self.size_sectors) * SECTOR_BYTES;
        let bits_max = room_bytes.saturating_sub(BITMAP_SUPER_BYTES as u64) * 8;
        let bytes = self.array.bitmap_sectors(self.size_sectors) * SECTOR_BYTES;
        if bits_max == 0 {
            let told = format_size(self.size_sectors * SECTOR_BYTES);
            let why = "a leg as small as that has no room for a bitmap";
            let way_out = "take larger legs, or do without a bitmap";
            return Err(Refusal::new("size", told, why, way_out));
        }
        let mut least = BITMAP_CHUNK_MIN;
        while bytes / least + 1 > bits_max {
            least *= 2;
        }
        let chunk_bytes = bitmap.chunk_bytes.map(u64::from);
        let chunk_bytes = chunk_bytes.unwrap_or_else(|| least.max(BITMAP_CHUNK_USUAL));
        let narrow = u32::try_from(chunk_bytes).ok();
        let narrow = narrow.filter(|chunk| chunk.is_power_of_two() && chunk_bytes >= least);
        let Some(narrow) = narrow else {
            let why = format!(
                "it is a power of two, and for this array {} at least",
                format_size(least)
            );
            let told = format_size(chunk_bytes);
            let way_out = "choose such a one, or none";
            return Err(Refusal::new("the bitmap's chunk", told, why, way_out));
        };
        let bits = bytes.div_ceil(chunk_bytes);
        let area_bytes = (BITMAP_SUPER_BYTES as u64 + bits.div_ceil(8))
            .next_multiple_of(BITMAP_PAGE_BYTES as u64);
        self.bitmap_chunk_bytes = Some(narrow);
        self.bitmap_sectors = area_bytes / SECTOR_BYTES;
        Ok(())
    }

    /// The superblock of a leg. Legs from `raid_disks` on are spares.
    ///
    /// # Errors
    /// Where the leg is smaller than those of the plan, or has a number beyond all roles.
    pub fn superblock(&self, leg: &NewLeg) -> Result<Superblock, Refusal> {
        let array = &self.array;
        let place = array.minor.place(leg.device_bytes);
        let super_offset = place.map_or(0, |place| place.sector);
        let is_end = array.minor == Minor::End;
        let end = if is_end {
            super_offset.saturating_sub(self.bitmap_sectors + u64::from(BAD_BLOCKS_SECTORS))
        } else {
            leg.device_bytes / SECTOR_BYTES
        };
        // Both fit into an i32: they are some hundred sectors.
        let bitmap_sectors = i32::try_from(self.bitmap_sectors).expect("a few sectors");
        let bad_blocks_sectors = i32::from(BAD_BLOCKS_SECTORS);
        let (bitmap_offset, bad_blocks_offset) = if is_end {
            (-bitmap_sectors - bad_blocks_sectors, -bad_blocks_sectors)
        } else {
            (8, 8 + bitmap_sectors)
        };
        let has_bitmap = self.bitmap_chunk_bytes.is_some();
        let mut superblock = Superblock {
            features: Features(u32::from(has_bitmap)),
            set_uuid: array.set_uuid,
            ctime: array.ctime,
            level: array.level,
            layout: array.layout,
            size_sectors: self.size_sectors,
            chunk_sectors: array.chunk_sectors,
            raid_disks: array.raid_disks,
            bitmap_offset_sectors: if has_bitmap { bitmap_offset } else { 0 },
            data_offset_sectors: self.data_offset_sectors,
            data_size_sectors: end.saturating_sub(self.data_offset_sectors),
            super_offset_sectors: super_offset,
            dev_number: u32::from(leg.number),
            device_uuid: leg.device_uuid,
            device_flags: leg.flags,
            bad_blocks_size_sectors: BAD_BLOCKS_SECTORS,
            bad_blocks_offset_sectors: bad_blocks_offset,
            utime: array.ctime,
            resync_offset_sectors: if array.is_clean { RESYNC_DONE } else { 0 },
            ..Superblock::default()
        };
        let name = array.name.as_bytes();
        let len = name.len().min(superblock.set_name.len());
        superblock.set_name[..len].copy_from_slice(&name[..len]);
        let roles_count = superblock
            .roles
            .len()
            .max(array.raid_disks as usize)
            .max(usize::from(leg.number) + 1);
        superblock
            .roles
            .resize(roles_count.min(ROLES_MAX), Role::Spare);
        for (role, entry) in (0..).zip(&mut superblock.roles) {
            if u32::from(role) < array.raid_disks && !array.missing.contains(&role) {
                *entry = Role::Active(role);
            }
        }
        superblock.check(leg.device_bytes)?;
        Ok(superblock)
    }

    /// The bitmap, with all bits set where the legs are not known to be equal.
    #[must_use]
    pub fn bitmap(&self) -> Option<BitmapBits> {
        let super_block = BitmapSuper {
            uuid: self.array.set_uuid,
            sync_size_sectors: self.array.bitmap_sectors(self.size_sectors),
            chunk_bytes: self.bitmap_chunk_bytes?,
            write_behind_max: self.array.bitmap?.write_behind_max,
            ..BitmapSuper::default()
        };
        let chunks = super_block.chunks().expect("its chunk is one");
        let mut bits = BitmapBits::new(super_block, chunks);
        if !self.array.is_clean {
            bits.set_all();
        }
        Some(bits)
    }
}

#[cfg(test)]
mod tests;
