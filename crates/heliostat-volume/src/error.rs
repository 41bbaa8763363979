//! Why bytes are no table, and why a table is not changed.

use std::fmt;

use crate::GRAIN_BYTES;
use crate::table::{VOLUME_NAME_BYTES_MAX, VOLUMES_MAX};

/// Why bytes are no table that can be believed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TableError {
    /// They do not begin as one does.
    Magic,
    /// They end too early.
    Truncated,
    /// A sum is not the one that is written.
    Checksum,
    /// A version that is not known.
    Version(u32),
    /// It uses something that is not known.
    Features(u32),
    /// Something is not zero that has to be.
    Reserved,
    /// There is no generation after its own.
    Generation,
    /// Volumes are made of other pieces.
    Grain(u32),
    /// The array would be too small for a table.
    ArrayTooSmall {
        /// How large it is said to be.
        array_bytes: u64,
    },
    /// More volumes than there may be.
    TooManyVolumes {
        /// How many.
        count: usize,
    },
    /// A name that cannot be one, or is there twice.
    Name {
        /// Of which volume, counted from 0.
        index: usize,
    },
    /// A volume whose sizes, places or limits cannot be.
    Volume {
        /// Which, counted from 0.
        index: usize,
    },
    /// Some bytes are given out twice.
    Overlap {
        /// Where the later one begins.
        at_bytes: u64,
    },
}

impl TableError {
    /// Whether a table of ours that was damaged would look so; otherwise it is whole, and somebody
    /// wrote it that way.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        matches!(self, Self::Truncated | Self::Checksum)
    }
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic => f.write_str("it does not begin as a table of volumes does"),
            Self::Truncated => f.write_str("it ends too early"),
            Self::Checksum => f.write_str("its checksum is wrong"),
            Self::Version(version) => write!(f, "it is of version {version}, and 1 is known"),
            Self::Features(bits) => write!(f, "it uses features {bits:#x} that are not known"),
            Self::Reserved => f.write_str("it has something where nothing is known to be"),
            Self::Generation => f.write_str("it is of the last generation that there can be"),
            Self::Grain(bytes) => write!(f, "its volumes are made of pieces of {bytes} bytes"),
            Self::ArrayTooSmall { array_bytes } => write!(
                f,
                "an array of {array_bytes} bytes is too small for volumes: they need 3 MiB"
            ),
            Self::TooManyVolumes { count } => {
                write!(f, "it has {count} volumes, and {VOLUMES_MAX} are the most")
            }
            Self::Name { index } => {
                write!(
                    f,
                    "the name of volume {index} cannot be one, or is there twice"
                )
            }
            Self::Volume { index } => {
                write!(f, "the places, sizes or limits of volume {index} cannot be")
            }
            Self::Overlap { at_bytes } => {
                write!(f, "byte {at_bytes} of the array belongs to two volumes")
            }
        }
    }
}

impl std::error::Error for TableError {}

/// Why a table is not changed as somebody wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeError {
    /// This cannot be a name.
    BadName(String),
    /// A volume is called so.
    NameTaken(String),
    /// No volume is called so.
    NoSuchVolume(String),
    /// There are as many as there may be.
    TooMany,
    /// The table would be longer than the place for it.
    TableFull,
    /// A volume of no bytes, or of more than can be counted.
    BadSize,
    /// There is less room than that.
    NoRoom {
        /// How much is wanted.
        wanted_bytes: u64,
        /// How much there is.
        free_bytes: u64,
    },
    /// Bytes would be lost, and nobody said that they may.
    WouldShrink {
        /// The volume.
        name: String,
        /// How large it is,
        from_bytes: u64,
        /// and is to be.
        to_bytes: u64,
    },
    /// A weight that is none.
    BadLimits,
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadName(name) => write!(
                f,
                "'{name}' cannot be the name of a volume: 1 to {VOLUME_NAME_BYTES_MAX} letters, \
                 digits, '-', '_' and '.', the first one no dash and no dot"
            ),
            Self::NameTaken(name) => write!(f, "there is a volume '{name}' already"),
            Self::NoSuchVolume(name) => write!(f, "there is no volume '{name}'"),
            Self::TooMany => write!(f, "there are {VOLUMES_MAX} volumes, and no more can be"),
            Self::TableFull => {
                f.write_str("the table of volumes is full: too many of them lie in too many pieces")
            }
            Self::BadSize => f.write_str("a volume has at least one byte, and less than 2^63"),
            Self::NoRoom {
                wanted_bytes,
                free_bytes,
            } => write!(
                f,
                "{} MiB are wanted, and {} MiB are free",
                wanted_bytes.div_ceil(GRAIN_BYTES),
                free_bytes / GRAIN_BYTES
            ),
            Self::WouldShrink {
                name,
                from_bytes,
                to_bytes,
            } => write!(
                f,
                "{name} has {from_bytes} bytes, and would lose all beyond the first {to_bytes}"
            ),
            Self::BadLimits => f.write_str("a weight is a number from 1 to 100"),
        }
    }
}

impl std::error::Error for ChangeError {}
