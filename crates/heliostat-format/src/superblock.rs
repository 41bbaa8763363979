//! The superblock of version 1: what a leg says of its array and of itself.
//!
//! Every leg has one. Those of an array agree in what the array is, and differ in who the leg is
//! (`dev_number`, `device_uuid`) and, where a leg was away, in what they last heard (`events`,
//! `roles`). The numbers are those of the header `md_p.h` of Linux; names follow it where it is not
//! cryptic, and the doc comments say the others.

use std::fmt;

use heliostat_types::SECTOR_BYTES;

use crate::bytes::{array_at, i32_at, put, u16_at, u32_at, u64_at};
use crate::{DeviceFlags, Features, FormatError};

/// How every superblock of md begins.
const MAGIC: u32 = 0xa92b_4efc;

/// Where the roles begin, behind the fields that every leg has.
const HEAD_BYTES: usize = 256;

/// Where the sum is.
const CHECKSUM_AT: usize = 216;

/// The most roles that fit: a superblock is no larger than its page.
pub const ROLES_MAX: usize = (SUPERBLOCK_BYTES_MAX - HEAD_BYTES) / 2;

/// The most that a superblock takes on a leg: what is to be read at a [`Place`].
pub const SUPERBLOCK_BYTES_MAX: usize = 4096;

/// How many roles mdadm makes room for: as many as fill the sector, and the next one.
const ROLES_USUAL: usize = 128;

/// [`Superblock::resync_offset_sectors`] of an array whose legs are equal.
pub const RESYNC_DONE: u64 = u64::MAX;

/// Writing goes on in whole sectors.
const SECTOR: usize = 512;

/// An identity, of an array or of a leg.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Uuid(pub [u8; 16]);

impl fmt::Display for Uuid {
    /// As mdadm has it: four groups of eight digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            let separator = if index % 4 == 0 && index > 0 { ":" } else { "" };
            write!(f, "{separator}{byte:02x}")?;
        }
        Ok(())
    }
}

/// A moment as md writes it: seconds since 1970 in the low 40 bits, microseconds above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(pub u64);

impl Stamp {
    /// The bits that count seconds.
    const SECONDS: u64 = (1 << 40) - 1;

    /// So many seconds, and so many microseconds, since 1970. Seconds beyond 40 bits are cut.
    #[must_use]
    pub const fn new(seconds: u64, microseconds: u32) -> Self {
        // The cast widens.
        Self(seconds & Self::SECONDS | (microseconds as u64) << 40)
    }

    /// Whole seconds since 1970.
    #[must_use]
    pub const fn seconds(self) -> u64 {
        self.0 & Self::SECONDS
    }
}

/// What a leg does in its array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// It is the leg of this number; two legs have the same one while one replaces the other.
    Active(u16),
    /// It has no data, and waits to be needed.
    Spare,
    /// It failed.
    Faulty,
    /// It journals the writes of the others.
    Journal,
}

impl Role {
    /// The role as it is written.
    #[must_use]
    pub const fn to_number(self) -> u16 {
        match self {
            Self::Active(role) => role,
            Self::Spare => 0xffff,
            Self::Faulty => 0xfffe,
            Self::Journal => 0xfffd,
        }
    }

    /// The role that is written so.
    #[must_use]
    pub const fn from_number(number: u16) -> Self {
        match number {
            0xffff => Self::Spare,
            0xfffe => Self::Faulty,
            0xfffd => Self::Journal,
            role => Self::Active(role),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Active(role) => write!(f, "active {role}"),
            Self::Spare => f.write_str("spare"),
            Self::Faulty => f.write_str("faulty"),
            Self::Journal => f.write_str("journal"),
        }
    }
}

/// Where on a leg a superblock lies: the second number of the version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Minor {
    /// 1.0: near the end.
    End,
    /// 1.1: at the start.
    Start,
    /// 1.2: 4 KiB from the start.
    Behind4K,
}

impl Minor {
    /// The number.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::End => 0,
            Self::Start => 1,
            Self::Behind4K => 2,
        }
    }

    /// Where the superblock lies on a leg of so many bytes; `None` where the leg is too small.
    #[must_use]
    pub const fn place(self, device_bytes: u64) -> Option<Place> {
        let sectors = device_bytes / SECTOR_BYTES;
        let sector = match self {
            // At least 8 KiB before the end, at a border of 4 KiB.
            Self::End => match sectors.checked_sub(16) {
                Some(sector) => sector & !7,
                None => return None,
            },
            Self::Start => 0,
            Self::Behind4K => 8,
        };
        if sector + 8 > sectors {
            return None;
        }
        Some(Place {
            minor: self,
            sector,
        })
    }
}

impl fmt::Display for Minor {
    /// The whole version, as in `1.2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.number())
    }
}

/// A place where a superblock may lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which version lies there.
    pub minor: Minor,
    /// Its first sector, from the start of the leg.
    pub sector: u64,
}

impl Place {
    /// The same in bytes.
    #[must_use]
    pub const fn offset_bytes(self) -> u64 {
        self.sector * SECTOR_BYTES
    }
}

/// All that a superblock says, as it is written, whether it makes sense or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// What is used (`feature_map`).
    pub features: Features,
    /// Which array this is a leg of.
    pub set_uuid: Uuid,
    /// What the array is called: `host:name` or `name`, filled up with zeros.
    pub set_name: [u8; 32],
    /// When the array was made.
    pub ctime: Stamp,
    /// 1, 10, or a level that is not for mirrors (0, 4, 5, 6; -1 linear; -4 multipath).
    pub level: i32,
    /// The layout word of RAID10; 0 for RAID1.
    pub layout: u32,
    /// How much of each leg is used.
    pub size_sectors: u64,
    /// RAID10: what lies as a whole on its legs. RAID1: 0.
    pub chunk_sectors: u32,
    /// How many legs with data the array has when it is whole.
    pub raid_disks: u32,
    /// Where the bitmap begins, from the superblock on; with [`Features::BITMAP`] only.
    pub bitmap_offset_sectors: i32,
    /// The level after the reshape; with [`Features::RESHAPE`] only.
    pub new_level: i32,
    /// How far the reshape is; with [`Features::RESHAPE`] only.
    pub reshape_position_sectors: u64,
    /// How many legs the reshape adds; with [`Features::RESHAPE`] only.
    pub delta_disks: i32,
    /// The layout after the reshape; with [`Features::RESHAPE`] only.
    pub new_layout: u32,
    /// The chunk after the reshape; with [`Features::RESHAPE`] only.
    pub new_chunk_sectors: u32,
    /// By how much the reshape moves the data; with [`Features::NEW_OFFSET`] only.
    pub new_offset_sectors: i32,
    /// Where the data begins, from the start of the leg.
    pub data_offset_sectors: u64,
    /// How much there is for data from there on, at least `size_sectors`.
    pub data_size_sectors: u64,
    /// Where this superblock lies: that of its [`Place`].
    pub super_offset_sectors: u64,
    /// Up to where, from the start of the data, the leg is good; with
    /// [`Features::RECOVERY_OFFSET`] only. With [`Features::JOURNAL`] where the journal ends.
    pub recovery_offset_sectors: u64,
    /// Which entry of `roles` is this leg's, for ever.
    pub dev_number: u32,
    /// How many read errors were mended.
    pub corrected_reads: u32,
    /// Which leg this is.
    pub device_uuid: Uuid,
    /// How the leg is to be used.
    pub device_flags: DeviceFlags,
    /// The unit of the bad-block log: 2 to this power sectors.
    pub bad_blocks_shift: u8,
    /// How much room the bad-block log has.
    pub bad_blocks_size_sectors: u16,
    /// Where it begins, from the superblock on; 0 where there is none.
    pub bad_blocks_offset_sectors: i32,
    /// When this superblock was written.
    pub utime: Stamp,
    /// How many changes of state the array went through; the higher, the fresher.
    pub events: u64,
    /// Up to where the legs were made equal; [`RESYNC_DONE`] where they are equal everywhere.
    pub resync_offset_sectors: u64,
    /// The logical block that the array shows its clients, in bytes; 0 where nobody fixed it.
    pub logical_block_bytes: u32,
    /// What every leg does, by its `dev_number`; those that were never given away are spares.
    pub roles: Vec<Role>,
    /// Whether bytes that have no meaning yet are not zero: the sign of a newer md. They are not
    /// kept.
    pub has_unknown: bool,
}

impl Default for Superblock {
    /// Of version 1.2, with room for as many roles as mdadm makes, none of them given away; the
    /// rest is zero.
    fn default() -> Self {
        Self {
            features: Features::default(),
            set_uuid: Uuid::default(),
            set_name: [0; 32],
            ctime: Stamp::default(),
            level: 0,
            layout: 0,
            size_sectors: 0,
            chunk_sectors: 0,
            raid_disks: 0,
            bitmap_offset_sectors: 0,
            new_level: 0,
            reshape_position_sectors: 0,
            delta_disks: 0,
            new_layout: 0,
            new_chunk_sectors: 0,
            new_offset_sectors: 0,
            data_offset_sectors: 0,
            data_size_sectors: 0,
            super_offset_sectors: 8,
            recovery_offset_sectors: 0,
            dev_number: 0,
            corrected_reads: 0,
            device_uuid: Uuid::default(),
            device_flags: DeviceFlags::default(),
            bad_blocks_shift: 0,
            bad_blocks_size_sectors: 0,
            bad_blocks_offset_sectors: 0,
            utime: Stamp::default(),
            events: 0,
            resync_offset_sectors: 0,
            logical_block_bytes: 0,
            roles: vec![Role::Spare; ROLES_USUAL],
            has_unknown: false,
        }
    }
}

impl Superblock {
    /// The places of a leg of so many bytes where a superblock may lie, the usual one first.
    pub fn places(device_bytes: u64) -> impl Iterator<Item = Place> {
        [Minor::Behind4K, Minor::Start, Minor::End]
            .into_iter()
            .filter_map(move |minor| minor.place(device_bytes))
    }

    /// The superblock that `bytes` begin with: give [`SUPERBLOCK_BYTES_MAX`] from a [`Place`] on.
    ///
    /// # Errors
    /// Where there is none, it is cut off, or its sum is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        let superblock = Self::parse_damaged(bytes)?;
        let (stored, computed) = (u32_at(bytes, CHECKSUM_AT), checksum(bytes)?);
        if stored == computed {
            Ok(superblock)
        } else {
            Err(FormatError::Checksum { stored, computed })
        }
    }

    /// The same, whatever the sum is: to be shown, and not to be believed.
    ///
    /// # Errors
    /// Where there is none, or it is cut off.
    pub fn parse_damaged(bytes: &[u8]) -> Result<Self, FormatError> {
        let len_bytes = len_bytes(bytes)?;
        let role = |at: usize| Role::from_number(u16_at(bytes, at));
        Ok(Self {
            features: Features(u32_at(bytes, 8)),
            set_uuid: Uuid(array_at(bytes, 16)),
            set_name: array_at(bytes, 32),
            ctime: Stamp(u64_at(bytes, 64)),
            level: i32_at(bytes, 72),
            layout: u32_at(bytes, 76),
            size_sectors: u64_at(bytes, 80),
            chunk_sectors: u32_at(bytes, 88),
            raid_disks: u32_at(bytes, 92),
            bitmap_offset_sectors: i32_at(bytes, 96),
            new_level: i32_at(bytes, 100),
            reshape_position_sectors: u64_at(bytes, 104),
            delta_disks: i32_at(bytes, 112),
            new_layout: u32_at(bytes, 116),
            new_chunk_sectors: u32_at(bytes, 120),
            new_offset_sectors: i32_at(bytes, 124),
            data_offset_sectors: u64_at(bytes, 128),
            data_size_sectors: u64_at(bytes, 136),
            super_offset_sectors: u64_at(bytes, 144),
            recovery_offset_sectors: u64_at(bytes, 152),
            dev_number: u32_at(bytes, 160),
            corrected_reads: u32_at(bytes, 164),
            device_uuid: Uuid(array_at(bytes, 168)),
            device_flags: DeviceFlags(bytes[184]),
            bad_blocks_shift: bytes[185],
            bad_blocks_size_sectors: u16_at(bytes, 186),
            bad_blocks_offset_sectors: i32_at(bytes, 188),
            utime: Stamp(u64_at(bytes, 192)),
            events: u64_at(bytes, 200),
            resync_offset_sectors: u64_at(bytes, 208),
            logical_block_bytes: u32_at(bytes, 224),
            roles: (HEAD_BYTES..len_bytes).step_by(2).map(role).collect(),
            has_unknown: bytes[12..16]
                .iter()
                .chain(&bytes[228..HEAD_BYTES])
                .any(|&byte| byte != 0),
        })
    }

    /// The sum that is written in a superblock, and the one that its bytes have.
    ///
    /// # Errors
    /// As [`Superblock::parse_damaged`].
    pub fn checksums(bytes: &[u8]) -> Result<(u32, u32), FormatError> {
        let computed = checksum(bytes)?;
        Ok((u32_at(bytes, CHECKSUM_AT), computed))
    }

    /// The bytes, with their sum, filled up with zeros to whole sectors of 512 bytes. A leg whose
    /// blocks are larger takes more zeros behind them.
    ///
    /// # Panics
    /// Where there are more than [`ROLES_MAX`] roles.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        assert!(self.roles.len() <= ROLES_MAX, "at most {ROLES_MAX} roles");
        let len_bytes = HEAD_BYTES + 2 * self.roles.len();
        let mut bytes = vec![0; len_bytes.next_multiple_of(SECTOR)];
        let roles_count = u32::try_from(self.roles.len()).expect("a few");
        put(&mut bytes, 0, &MAGIC.to_le_bytes());
        put(&mut bytes, 4, &1_u32.to_le_bytes());
        put(&mut bytes, 8, &self.features.0.to_le_bytes());
        self.put_array(&mut bytes);
        self.put_leg(&mut bytes);
        put(&mut bytes, 220, &roles_count.to_le_bytes());
        put(&mut bytes, 224, &self.logical_block_bytes.to_le_bytes());
        for (at, role) in (HEAD_BYTES..).step_by(2).zip(&self.roles) {
            put(&mut bytes, at, &role.to_number().to_le_bytes());
        }
        let sum = checksum(&bytes).expect("it is a superblock");
        put(&mut bytes, CHECKSUM_AT, &sum.to_le_bytes());
        bytes
    }

    /// What all legs say alike: bytes 16 to 128.
    fn put_array(&self, bytes: &mut [u8]) {
        put(bytes, 16, &self.set_uuid.0);
        put(bytes, 32, &self.set_name);
        put(bytes, 64, &self.ctime.0.to_le_bytes());
        put(bytes, 72, &self.level.to_le_bytes());
        put(bytes, 76, &self.layout.to_le_bytes());
        put(bytes, 80, &self.size_sectors.to_le_bytes());
        put(bytes, 88, &self.chunk_sectors.to_le_bytes());
        put(bytes, 92, &self.raid_disks.to_le_bytes());
        put(bytes, 96, &self.bitmap_offset_sectors.to_le_bytes());
        put(bytes, 100, &self.new_level.to_le_bytes());
        put(bytes, 104, &self.reshape_position_sectors.to_le_bytes());
        put(bytes, 112, &self.delta_disks.to_le_bytes());
        put(bytes, 116, &self.new_layout.to_le_bytes());
        put(bytes, 120, &self.new_chunk_sectors.to_le_bytes());
        put(bytes, 124, &self.new_offset_sectors.to_le_bytes());
    }

    /// What is the leg's own, and the state: bytes 128 to 216.
    fn put_leg(&self, bytes: &mut [u8]) {
        put(bytes, 128, &self.data_offset_sectors.to_le_bytes());
        put(bytes, 136, &self.data_size_sectors.to_le_bytes());
        put(bytes, 144, &self.super_offset_sectors.to_le_bytes());
        put(bytes, 152, &self.recovery_offset_sectors.to_le_bytes());
        put(bytes, 160, &self.dev_number.to_le_bytes());
        put(bytes, 164, &self.corrected_reads.to_le_bytes());
        put(bytes, 168, &self.device_uuid.0);
        put(bytes, 184, &[self.device_flags.0, self.bad_blocks_shift]);
        put(bytes, 186, &self.bad_blocks_size_sectors.to_le_bytes());
        put(bytes, 188, &self.bad_blocks_offset_sectors.to_le_bytes());
        put(bytes, 192, &self.utime.0.to_le_bytes());
        put(bytes, 200, &self.events.to_le_bytes());
        put(bytes, 208, &self.resync_offset_sectors.to_le_bytes());
    }

    /// The name of the array, up to its zeros, fit for a terminal: what is no text, or would
    /// control one, is replaced.
    #[must_use]
    pub fn name(&self) -> String {
        let name = self.set_name.split(|&byte| byte == 0).next();
        let name = String::from_utf8_lossy(name.unwrap_or_default());
        name.replace(char::is_control, "\u{fffd}")
    }

    /// What this leg does, by its own account; `None` where it is not in its own list.
    #[must_use]
    pub fn role(&self) -> Option<Role> {
        self.role_of(self.dev_number)
    }

    /// What the leg of this `dev_number` does, by this one's account.
    #[must_use]
    pub fn role_of(&self, dev_number: u32) -> Option<Role> {
        let index = usize::try_from(dev_number).ok()?;
        self.roles.get(index).copied()
    }

    /// Whether two legs say the same of who has which role. Equally fresh ones may not: one that
    /// missed an event may hear of it later than another leg, and in other words.
    #[must_use]
    pub fn agrees_on_roles(&self, other: &Self) -> bool {
        let role = |of: &Self, number: usize| of.roles.get(number).copied().unwrap_or(Role::Spare);
        let mut numbers = 0..self.roles.len().max(other.roles.len());
        numbers.all(|number| role(self, number) == role(other, number))
    }

    /// From which sector of its data on the leg lacks everything, whatever a bitmap says; `None`
    /// where it lacks nothing, or what a bitmap says.
    #[must_use]
    pub fn incomplete_from(&self) -> Option<u64> {
        let is_being_filled = self.features.contains(Features::RECOVERY_OFFSET)
            && !self.features.contains(Features::RECOVERY_BITMAP);
        // More than all is all.
        is_being_filled.then_some(self.recovery_offset_sectors.min(self.size_sectors))
    }

    /// The same of a leg that is about to be brought up to date, and holds neither old nor new data
    /// until that is done: alone it must not be taken for whole before. By the bitmap, where that
    /// says what it lacks.
    #[must_use]
    pub fn incomplete(&self) -> Self {
        let is_guided =
            self.features.contains(Features::BITMAP) && self.incomplete_from().is_none();
        let begun = self.features.with(Features::RECOVERY_OFFSET);
        Self {
            features: if is_guided {
                begun.with(Features::RECOVERY_BITMAP)
            } else {
                begun
            },
            recovery_offset_sectors: 0,
            ..self.clone()
        }
    }

    /// The same of a spare, which holds nothing. Linux believes a leg that is one event behind
    /// about what it holds, and the others about its role: where the power fails when these have
    /// just heard that the spare has one, and the spare has not, it would be taken for whole.
    #[must_use]
    pub fn holding_nothing(&self) -> Self {
        let features = self.features.without(Features::RECOVERY_BITMAP);
        Self {
            features: features.with(Features::RECOVERY_OFFSET),
            recovery_offset_sectors: 0,
            ..self.clone()
        }
    }

    /// Where on the leg the bitmap begins, in sectors from its start; `None` where there is none,
    /// or it would lie before the leg.
    #[must_use]
    pub fn bitmap_sector(&self) -> Option<u64> {
        let offset = i64::from(self.bitmap_offset_sectors);
        let is_there = self.features.contains(Features::BITMAP) && offset != 0;
        is_there.then(|| self.super_offset_sectors.checked_add_signed(offset))?
    }

    /// Where on the leg the bad-block log begins, in sectors from its start; `None` where there is
    /// none, or it would lie before the leg.
    #[must_use]
    pub fn bad_blocks_sector(&self) -> Option<u64> {
        let offset = i64::from(self.bad_blocks_offset_sectors);
        let is_there = offset != 0 && self.bad_blocks_size_sectors != 0;
        is_there.then(|| self.super_offset_sectors.checked_add_signed(offset))?
    }
}

/// How long the superblock is that `bytes` begin with, as its own count of roles has it.
fn len_bytes(bytes: &[u8]) -> Result<usize, FormatError> {
    let truncated = |needed: usize| FormatError::Truncated {
        what: "md superblock",
        needed_bytes: needed as u64,
        found_bytes: bytes.len() as u64,
    };
    if bytes.len() < HEAD_BYTES {
        return Err(truncated(HEAD_BYTES));
    }
    let magic = u32_at(bytes, 0);
    if magic != MAGIC {
        return Err(FormatError::Magic {
            what: "md superblock",
            expected: MAGIC,
            found: magic,
        });
    }
    let major = u32_at(bytes, 4);
    if major != 1 {
        return Err(FormatError::MajorVersion(major));
    }
    let roles_count = u32_at(bytes, 220);
    let roles = usize::try_from(roles_count).ok();
    let Some(roles) = roles.filter(|&count| count <= ROLES_MAX) else {
        return Err(FormatError::TooManyRoles(roles_count));
    };
    let len_bytes = HEAD_BYTES + 2 * roles;
    if bytes.len() < len_bytes {
        return Err(truncated(len_bytes));
    }
    Ok(len_bytes)
}

/// The sum of a superblock: its 32-bit words added up, a half word at the end as well, with the
/// place of the sum taken as zero; what overflows 32 bits is added once more.
fn checksum(bytes: &[u8]) -> Result<u32, FormatError> {
    let bytes = &bytes[..len_bytes(bytes)?];
    let mut sum = 0_u64;
    for (at, word) in (0_usize..).step_by(4).zip(bytes.chunks(4)) {
        if at != CHECKSUM_AT {
            let value = match *word {
                [a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
                [a, b] => u32::from(u16::from_le_bytes([a, b])),
                _ => unreachable!("roles take two bytes each"),
            };
            sum += u64::from(value);
        }
    }
    // Of the second sum, again the low half.
    #[expect(clippy::cast_possible_truncation, reason = "cut to 32 bits")]
    let folded = ((sum & 0xffff_ffff) + (sum >> 32)) as u32;
    Ok(folded)
}

#[cfg(test)]
mod tests;
