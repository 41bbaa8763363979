//! Why bytes are not what they should be.

use std::fmt;

/// Why bytes are no superblock, bitmap or bad-block log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormatError {
    /// They do not begin as one does.
    Magic {
        /// What was looked for.
        what: &'static str,
        /// How it would begin.
        expected: u32,
        /// How they begin.
        found: u32,
    },
    /// They end too early.
    Truncated {
        /// What was looked for.
        what: &'static str,
        /// How long it is.
        needed_bytes: u64,
        /// How many bytes there are.
        found_bytes: u64,
    },
    /// A superblock of another major version.
    MajorVersion(u32),
    /// A superblock with more roles than fit on its page.
    TooManyRoles(u32),
    /// A superblock whose sum is not the one that is written in it.
    Checksum {
        /// The one that is written.
        stored: u32,
        /// The one that the bytes have.
        computed: u32,
    },
    /// A bitmap whose bits lie otherwise.
    BitmapVersion(u32),
    /// A bitmap whose chunks have no size, or none that is a power of two.
    BitmapChunk(u32),
    /// A bad-block log with ranges that do not fit into it.
    BadBlocksFull {
        /// How many entries it has room for.
        entries_max: usize,
    },
    /// A bad-block log with a range that ends beyond all sectors.
    BadBlockRange {
        /// The entry as it is written.
        entry: u64,
        /// The sectors of its unit, as a power of two.
        shift: u8,
    },
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic {
                what,
                expected,
                found,
            } => write!(
                f,
                "no {what}: it begins with {found:08x}, not with {expected:08x}"
            ),
            Self::Truncated {
                what,
                needed_bytes,
                found_bytes,
            } => write!(
                f,
                "the {what} is cut off: it has {needed_bytes} bytes, and {found_bytes} are there"
            ),
            Self::MajorVersion(found) => write!(
                f,
                "major_version is {found}: only superblocks of version 1 are understood here"
            ),
            Self::TooManyRoles(found) => write!(
                f,
                "max_dev is {found}: a superblock has room for {} roles",
                crate::ROLES_MAX
            ),
            Self::Checksum { stored, computed } => write!(
                f,
                "sb_csum is {stored:08x}, and the bytes add up to {computed:08x}: the superblock \
                 was damaged; use a leg of the same array whose superblock is whole"
            ),
            Self::BitmapVersion(found) => write!(
                f,
                "the bitmap's version is {}: only 4 is understood here; let the kernel assemble \
                 the array and give it another one, with mdadm --grow --bitmap=none and then \
                 --bitmap=internal",
                bitmap_version(*found)
            ),
            Self::BitmapChunk(found) => write!(
                f,
                "the bitmap's chunksize is {found}: it must be a power of two from 512 on"
            ),
            Self::BadBlocksFull { entries_max } => write!(
                f,
                "the bad-block log has room for {entries_max} entries, and its ranges need more"
            ),
            Self::BadBlockRange { entry, shift } => write!(
                f,
                "the bad-block log has an entry {entry:016x} that, in units of 2^{shift} sectors, \
                 ends beyond all sectors"
            ),
        }
    }
}

impl std::error::Error for FormatError {}

/// The version of a bitmap, with what it means where bits lie otherwise.
pub(crate) fn bitmap_version(version: u32) -> String {
    let kind = match version {
        3 => " (in the byte order of one machine)",
        5 => " (of a cluster)",
        6 => " (lockless)",
        _ => "",
    };
    format!("{version}{kind}")
}
