//! What a disk says of itself: the fields of the superblock, the bitmap and the bad-block list that
//! decide what becomes of an array.

use std::collections::BTreeSet;

/// Bytes of a sector, as the kernel counts.
const SECTOR: u64 = 512;
/// Where the superblock of minor version 2 lies.
const SUPERBLOCK_AT: u64 = 4096;
/// Room that everybody leaves for it.
const SUPERBLOCK_BYTES: usize = 4096;
/// Where the roles begin in it.
const ROLES_AT: usize = 256;
/// How many roles have room in it.
const ROLES_MAX: usize = 1920;

/// `feature_map`: there is a bitmap.
pub(super) const HAS_BITMAP: u32 = 1;
/// The disk is good below its recovery offset alone.
pub(super) const HAS_RECOVERY_OFFSET: u32 = 2;
/// The list of bad blocks is not empty.
pub(super) const HAS_BAD_BLOCKS: u32 = 8;
/// The disk is to replace another one, which has the same role.
pub(super) const IS_REPLACEMENT: u32 = 16;
/// Those features and the one more that an array of plain mirrors may have: a recovery that a
/// bitmap guides.
const MODELLED_FEATURES: u32 =
    HAS_BITMAP | HAS_RECOVERY_OFFSET | HAS_BAD_BLOCKS | IS_REPLACEMENT | 128;

/// Roles from here on say that a disk has none.
pub(super) const ROLE_MAX: u16 = 0xff00;
/// The role of a disk that was failed.
pub(super) const FAULTY: u16 = 0xfffe;

/// Reads bytes of a disk: from where, how many.
pub(crate) type ReadDisk<'a> = dyn Fn(u64, usize) -> Vec<u8> + 'a;

/// Fields of a superblock. Sizes and places are in sectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) features: u32,
    pub(super) set_uuid: [u8; 16],
    pub(super) created: u64,
    pub(super) level: u32,
    pub(super) layout: u32,
    pub(super) size: u64,
    pub(super) chunk: u32,
    pub(super) raid_disks: u32,
    bitmap_offset: i32,
    pub(super) data_offset: u64,
    pub(super) recovery_offset: u64,
    pub(super) dev_number: u32,
    pub(super) is_write_mostly: bool,
    bad_blocks_size: u16,
    bad_blocks_offset: i32,
    pub(super) events: u64,
    pub(super) resync_offset: u64,
    pub(super) roles: Vec<u16>,
}

/// What says that disks belong to one array.
pub(super) type Identity = ([u8; 16], u64, u32, u32, u64, u32, u32);

/// A bitmap, as the kernel uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bits {
    pub(super) chunk_sectors: u64,
    /// It is older than the array: every bit counts as set.
    pub(super) is_stale: bool,
    set: BTreeSet<u64>,
}

impl Bits {
    /// Whether the chunk that a sector lies in is to be resynced.
    pub(super) fn has(&self, sector: u64) -> bool {
        self.is_stale || self.set.contains(&(sector / self.chunk_sectors))
    }
}

/// Little-endian numbers at places of a superblock or a bitmap.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let bytes = self.0[at..at + N].try_into();
        bytes.expect("a slice of so many bytes")
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.array(at))
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.array(at))
    }

    fn i32(&self, at: usize) -> i32 {
        i32::from_le_bytes(self.array(at))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.array(at))
    }
}

impl Fields {
    /// Those of the superblock of minor version 2 on a disk.
    pub(super) fn read(size_bytes: u64, read: &ReadDisk<'_>) -> Result<Self, String> {
        if size_bytes < SUPERBLOCK_AT + SUPERBLOCK_BYTES as u64 {
            return Err("it is too small for a superblock".to_owned());
        }
        let bytes = read(SUPERBLOCK_AT, SUPERBLOCK_BYTES);
        let words = Words(&bytes);
        if words.u32(0) != 0xa92b_4efc || words.u32(4) != 1 {
            return Err("it has no superblock".to_owned());
        }
        let role_count = words.u32(220) as usize;
        if role_count > ROLES_MAX || words.u64(144) != SUPERBLOCK_AT / SECTOR {
            return Err("its superblock is not one of version 1.2".to_owned());
        }
        if words.u32(216) != checksum(&bytes[..ROLES_AT + 2 * role_count]) {
            return Err("its superblock has a wrong checksum".to_owned());
        }
        let features = words.u32(8);
        if features & !MODELLED_FEATURES != 0 {
            return Err(format!("features {features:#x} are not modelled"));
        }
        let fields = Self {
            features,
            set_uuid: words.array(16),
            created: words.u64(64),
            level: words.u32(72),
            layout: words.u32(76),
            size: words.u64(80),
            chunk: words.u32(88),
            raid_disks: words.u32(92),
            bitmap_offset: words.i32(96),
            data_offset: words.u64(128),
            recovery_offset: words.u64(152),
            dev_number: words.u32(160),
            is_write_mostly: bytes[184] & 1 != 0,
            bad_blocks_size: words.u16(186),
            bad_blocks_offset: words.i32(188),
            events: words.u64(200),
            resync_offset: words.u64(208),
            roles: (0..role_count)
                .map(|index| words.u16(ROLES_AT + 2 * index))
                .collect(),
        };
        if fields.raid_disks as usize > ROLES_MAX {
            return Err("it has more disks than roles".to_owned());
        }
        let end = fields.data_offset.checked_add(fields.size);
        if end.is_none_or(|end| end > size_bytes / SECTOR) {
            return Err("its data ends beyond it".to_owned());
        }
        Ok(fields)
    }

    pub(super) const fn identity(&self) -> Identity {
        (
            self.set_uuid,
            self.created,
            self.level,
            self.layout,
            self.size,
            self.chunk,
            self.raid_disks,
        )
    }

    /// The role that these roles give a disk; one without a place among them has none.
    pub(super) fn role_of(&self, dev_number: u32) -> Option<u16> {
        self.roles.get(dev_number as usize).copied()
    }

    /// Its own role by its own word.
    pub(super) fn own_role(&self) -> Option<u16> {
        self.role_of(self.dev_number)
    }

    /// The bitmap, where there is one, of an array of so many sectors and events.
    pub(super) fn bits(
        &self,
        (sectors, events): (u64, u64),
        read: &ReadDisk<'_>,
    ) -> Result<Option<Bits>, String> {
        if self.features & HAS_BITMAP == 0 || self.bitmap_offset == 0 {
            return Ok(None);
        }
        let at = self.place_of(self.bitmap_offset, 512)?;
        let head = read(at, 512);
        let words = Words(&head);
        if words.u32(0) != 0x6d74_6962 || words.u32(4) != 4 {
            return Err("its bitmap is none of version 4".to_owned());
        }
        let chunk_bytes = u64::from(words.u32(52));
        if !chunk_bytes.is_power_of_two() || chunk_bytes < SECTOR {
            return Err("its bitmap has a chunk of no such size".to_owned());
        }
        if words.u32(56) == 0 || words.u32(60) > 16_383 {
            return Err("its bitmap is written in no such way".to_owned());
        }
        if words.array(8) != self.set_uuid {
            return Err("its bitmap is of another array".to_owned());
        }
        let chunk_sectors = chunk_bytes / SECTOR;
        let count = sectors.div_ceil(chunk_sectors);
        let len = usize::try_from(count.div_ceil(8)).expect("a bitmap fits into memory");
        // Whole sectors are read, and the first of them has the head.
        let len = (256 + len).next_multiple_of(512);
        let body = read(self.place_of(self.bitmap_offset, len)?, len);
        let set = (0..count).filter(|chunk| {
            let byte = body[256 + usize::try_from(chunk / 8).expect("it is below the length")];
            byte >> (chunk % 8) & 1 == 1
        });
        Ok(Some(Bits {
            chunk_sectors,
            is_stale: words.u64(24) < events || words.u32(48) & 2 != 0,
            set: set.collect(),
        }))
    }

    /// The byte of the disk that lies so many sectors behind the superblock's beginning, where so
    /// many bytes lie between it and the data.
    fn place_of(&self, sectors: i32, len: usize) -> Result<u64, String> {
        let at = i64::from(sectors) * 512 + SUPERBLOCK_AT.cast_signed();
        u64::try_from(at)
            .ok()
            .filter(|at| (at + len as u64).div_ceil(SECTOR) <= self.data_offset)
            .ok_or_else(|| "it points to where no metadata can be".to_owned())
    }

    /// The bad blocks: first sector, counted from the data's, and how many.
    pub(super) fn bad_blocks(&self, read: &ReadDisk<'_>) -> Result<Vec<(u64, u64)>, String> {
        if self.features & HAS_BAD_BLOCKS == 0 || self.bad_blocks_offset == 0 {
            return Ok(Vec::new());
        }
        let len = usize::from(self.bad_blocks_size) * 512;
        let bytes = read(self.place_of(self.bad_blocks_offset, len)?, len);
        let entries = bytes.chunks_exact(8).map(|entry| Words(entry).u64(0));
        let entries = entries.take_while(|entry| *entry != u64::MAX);
        Ok(entries
            .map(|entry| (entry >> 10, entry & 0x3ff))
            // They count from the start of the disk.
            .filter(|(first, count)| *count > 0 && *first >= self.data_offset)
            .map(|(first, count)| (first - self.data_offset, count))
            .collect())
    }
}

/// The sum of a superblock's words but for the one that holds it, folded once.
pub(super) fn checksum(bytes: &[u8]) -> u32 {
    let mut sum = 0u64;
    for (at, word) in (0..).step_by(4).zip(bytes.chunks(4)) {
        if at == 216 {
            continue;
        }
        let mut whole = [0; 4];
        whole[..word.len()].copy_from_slice(word);
        sum += u64::from(u32::from_le_bytes(whole));
    }
    let [low, high] = [sum & u64::from(u32::MAX), sum >> 32];
    u32::try_from((low + high) & u64::from(u32::MAX)).expect("it was cut to 32 bits")
}
