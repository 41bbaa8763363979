//! What is in a sector: bytes that say which sector it is and which write put them there.
//!
//! Every 512-byte sector begins with its own number and the version of the write (0: never
//! written); what follows is derived from the two. So the bytes of a read can be checked without
//! a copy of the device, and a sector that lands in the wrong place, or is made of two writes,
//! shows. A run that is after speed keeps only the first 16 bytes of each sector
//! ([`Fidelity::Stamps`]); the others are never looked at then.

use heliostat_types::{Extent, SECTOR_BYTES};

/// Bytes of a sector, as an index.
pub(crate) const SECTOR: usize = 512;

/// Bytes of the sector number and the version.
const STAMP: usize = 16;

/// How much of each sector is kept and checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fidelity {
    /// All 512 bytes.
    #[default]
    Bytes,
    /// The first 16 bytes, which name the sector and the write. Ten times faster on large
    /// requests. Needs requests of whole sectors, which all jobs send. Where no job writes and
    /// nothing fails, reads are checked at their first and last sector and every 32 KiB.
    Stamps,
}

impl Fidelity {
    /// How many bytes of each sector are kept.
    pub(crate) const fn kept_bytes(self) -> usize {
        match self {
            Self::Bytes => SECTOR,
            Self::Stamps => STAMP,
        }
    }
}

/// Sectors between two that are looked at where only samples are: 32 KiB.
const SAMPLE_SECTORS: u64 = 64;

/// The sectors of `extent` that are stamped and checked where nothing is ever written and only
/// stamps are kept: the first, the last, and each that begins 32 KiB of the device. Between them
/// all sectors of a device are alike but for their number, so what is misplaced, short or of
/// another request shows at an end or at the next border.
pub(crate) fn sampled_sectors(extent: Extent) -> impl Iterator<Item = u64> {
    let (first, end) = (extent.offset() / SECTOR_BYTES, extent.end() / SECTOR_BYTES);
    let borders = first / SAMPLE_SECTORS + 1..(end.max(1) - 1).div_ceil(SAMPLE_SECTORS);
    let last = (end > first + 1).then(|| end - 1);
    let first = (end > first).then_some(first);
    let borders = borders.map(|border| border * SAMPLE_SECTORS);
    first.into_iter().chain(borders).chain(last)
}

/// How the number of a sector is kept: such that no stamp is zeros, which tell of no write.
const fn name_of(sector: u64) -> u64 {
    !sector
}

/// Makes `sector`'s bytes those of `version`; `bytes` are the kept ones.
pub(crate) fn fill_sector(bytes: &mut [u8], sector: u64, version: u64) {
    let (stamp, filler) = bytes.split_at_mut(STAMP);
    stamp[..8].copy_from_slice(&name_of(sector).to_le_bytes());
    stamp[8..].copy_from_slice(&version.to_le_bytes());
    let mut word = filler_start(sector, version);
    for chunk in filler.chunks_exact_mut(8) {
        chunk.copy_from_slice(&word.to_le_bytes());
        word = word.wrapping_add(FILLER_STEP);
    }
}

/// The version whose bytes these are; `None` where they are no write's bytes of this sector.
pub(crate) fn version_of_sector(bytes: &[u8], sector: u64) -> Option<u64> {
    let (stamp, filler) = bytes.split_at(STAMP);
    let word_at = |at: usize| {
        let word = stamp[at..at + 8].try_into();
        u64::from_le_bytes(word.expect("eight bytes"))
    };
    if word_at(0) != name_of(sector) {
        return None;
    }
    let version = word_at(8);
    let mut word = filler_start(sector, version);
    let mut differs = false;
    for chunk in filler.chunks_exact(8) {
        differs |= chunk != word.to_le_bytes();
        word = word.wrapping_add(FILLER_STEP);
    }
    (!differs).then_some(version)
}

/// What is told of bytes that are zeros: which write put them there, they do not say.
pub(crate) const ZEROS: u64 = u64::MAX - 1;

/// The version whose bytes these are, or [`ZEROS`]; `None` where they are no write's bytes of this
/// sector, nor zeros.
pub(crate) fn held_in_sector(bytes: &[u8], sector: u64) -> Option<u64> {
    let version = version_of_sector(bytes, sector);
    version.or_else(|| bytes.iter().all(|byte| *byte == 0).then_some(ZEROS))
}

/// 2^64 over the golden ratio: consecutive words differ in about half of their bits.
const FILLER_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

const fn filler_start(sector: u64, version: u64) -> u64 {
    (sector ^ version.rotate_left(32)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

#[cfg(test)]
mod tests {
    use heliostat_types::Extent;

    use super::{
        Fidelity, SECTOR, ZEROS, fill_sector, held_in_sector, sampled_sectors, version_of_sector,
    };

    #[test]
    fn both_ends_and_every_border_are_sampled() {
        let sampled = |first: u64, end: u64| -> Vec<u64> {
            sampled_sectors(Extent::from_range(first * 512, end * 512)).collect()
        };
        assert_eq!(sampled(7, 8), [7]);
        assert_eq!(sampled(8, 16), [8, 15]);
        assert_eq!(sampled(64, 65), [64]);
        assert_eq!(sampled(60, 65), [60, 64]);
        assert_eq!(sampled(60, 66), [60, 64, 65]);
        assert_eq!(sampled(0, 192), [0, 64, 128, 191]);
        assert_eq!(sampled(3, 3), []);
    }

    #[test]
    fn a_sector_names_its_write_and_shows_damage() {
        for fidelity in [Fidelity::Bytes, Fidelity::Stamps] {
            let mut bytes = vec![0; fidelity.kept_bytes()];
            fill_sector(&mut bytes, 7, 42);
            assert_eq!(version_of_sector(&bytes, 7), Some(42));
            assert_eq!(version_of_sector(&bytes, 8), None);
        }
        // Also in the first sector, before anything was written there.
        for fidelity in [Fidelity::Bytes, Fidelity::Stamps] {
            let mut bytes = vec![0; fidelity.kept_bytes()];
            assert_eq!(held_in_sector(&bytes, 0), Some(ZEROS));
            fill_sector(&mut bytes, 0, 0);
            assert_eq!(held_in_sector(&bytes, 0), Some(0));
        }
        let mut torn = vec![0; SECTOR];
        let mut other = vec![0; SECTOR];
        fill_sector(&mut torn, 7, 42);
        fill_sector(&mut other, 7, 43);
        torn[SECTOR / 2..].copy_from_slice(&other[SECTOR / 2..]);
        assert_eq!(version_of_sector(&torn, 7), None);
    }
}
