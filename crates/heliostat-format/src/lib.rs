//! The bytes of Linux md on a leg, as values and back: superblock of version 1, internal
//! write-intent bitmap, bad-block log.
//!
//! Whatever bytes are given, parsing ends with a value or a [`FormatError`], and takes no more
//! memory than there were bytes. Parsing does not judge: what a value means, and whether an array
//! can be served by it, is looked at separately, so that `examine` can show what was found on a leg
//! that nobody should serve.
//!
//! Offsets and sizes are in sectors of 512 bytes, as on the disk, and their names say so. Offsets
//! of the bitmap and of the bad-block log count from the superblock, and may be negative; addresses
//! of bad blocks count from where the data begins.
//!
//! Nothing here reads or writes a leg.
#![forbid(unsafe_code)]

pub mod assembly;
mod bad_blocks;
mod bitmap;
mod bytes;
mod check;
mod defaults;
mod describe;
mod error;
mod features;
mod found;
#[cfg(test)]
#[path = "../tests/golden/reader.rs"]
mod golden;
mod grow;
mod raid10;
mod refusal;
mod superblock;
#[cfg(test)]
mod testing;

pub use bad_blocks::{BadBlocks, Full};
pub use bitmap::{
    BITMAP_CHUNKS_MAX, BITMAP_PAGE_BYTES, BITMAP_SUPER_BYTES, BitmapBits, BitmapState, BitmapSuper,
};
pub use check::level_name;
pub use defaults::{NewArray, NewBitmap, NewLeg, Plan};
pub use describe::{Field, describe_bitmap, describe_superblock};
pub use error::FormatError;
pub use features::{DeviceFlags, Features};
pub use found::{Found, Search};
pub use grow::{Growth, GrowthPlan, GrowthWrite};
pub use raid10::Raid10Word;
pub use refusal::Refusal;
pub use superblock::{
    Minor, Place, RESYNC_DONE, ROLES_MAX, Role, SUPERBLOCK_BYTES_MAX, Stamp, Superblock, Uuid,
};
