//! The internal write-intent bitmap: a superblock of its own, and a bit for each chunk right behind
//! it, lowest bit of a byte first.
//!
//! On the leg and here the whole is pages of 4096 bytes, the first of which begins with the 256
//! bytes of the bitmap's superblock: what is written is always a page, as it lies here. Bit `c` is
//! bit `c % 8` of byte `256 + c / 8`, so the first page has the bits of 30720 chunks, and each
//! further one those of 32768.

use std::fmt;
use std::ops::Range;

use crate::bytes::{array_at, put, u32_at, u64_at};
use crate::{FormatError, Uuid};

/// What is written at once.
pub const BITMAP_PAGE_BYTES: usize = 4096;

/// The most chunks of a bitmap that is kept here: 64 MiB of bits in memory. The kernel needs more
/// than that for each of them.
pub const BITMAP_CHUNKS_MAX: u64 = 1 << 29;

/// What the bits lie behind.
pub const BITMAP_SUPER_BYTES: usize = 256;

/// How every bitmap begins: `bitm`.
const MAGIC: u32 = 0x6d74_6962;

/// The smallest chunk that Linux takes.
const CHUNK_BYTES_MIN: u32 = 512;

/// How many bits are looked at together.
const WORD_BITS: u64 = 64;

/// What a bitmap says of itself (`state`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BitmapState(pub u32);

impl BitmapState {
    /// Bits may be missing: all has to be resynced.
    pub const STALE: Self = Self(1 << 1);
    /// A page could not be written.
    pub const WRITE_ERROR: Self = Self(1 << 2);

    /// Whether all of `others` are said.
    #[must_use]
    pub const fn contains(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }
}

/// The superblock of a bitmap, as it is written. It has no sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitmapSuper {
    /// 4, or 3 for one of a machine's own byte order, 5 for a cluster's, 6 for a lockless one.
    pub version: u32,
    /// Which array the bitmap is of.
    pub uuid: Uuid,
    /// The events of the array when this was written; a superblock that has more was written
    /// without the bitmap, which is out of date then.
    pub events: u64,
    /// The events when a bit was last cleared: a leg that missed later ones can be brought up to
    /// date by the bits.
    pub events_cleared: u64,
    /// How much the bits stand for: RAID1: what is used of a leg; RAID10: the whole array.
    pub sync_size_sectors: u64,
    /// What is said of the bits.
    pub state: BitmapState,
    /// What one bit stands for.
    pub chunk_bytes: u32,
    /// How long after a write a bit is cleared at the earliest.
    pub daemon_sleep_seconds: u32,
    /// How many writes write-mostly legs may be behind; 0 where they are waited for.
    pub write_behind_max: u32,
    /// How much room there is for the bitmap; 0 where nobody wrote it down.
    pub sectors_reserved: u32,
    /// How many nodes a cluster has; 0 where there is none.
    pub nodes: u32,
    /// What the cluster is called, filled up with zeros.
    pub cluster_name: [u8; 64],
}

impl Default for BitmapSuper {
    /// Of version 4, with the intervals of mdadm; the rest is zero.
    fn default() -> Self {
        Self {
            version: Self::VERSION,
            uuid: Uuid::default(),
            events: 0,
            events_cleared: 0,
            sync_size_sectors: 0,
            state: BitmapState::default(),
            chunk_bytes: 0,
            daemon_sleep_seconds: 5,
            write_behind_max: 0,
            sectors_reserved: 0,
            nodes: 0,
            cluster_name: [0; 64],
        }
    }
}

impl BitmapSuper {
    /// The version that is written here, of which the bytes are little-endian everywhere.
    pub const VERSION: u32 = 4;

    /// The superblock that `bytes` begin with.
    ///
    /// # Errors
    /// Where there is none, or it is cut off.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        if bytes.len() < BITMAP_SUPER_BYTES {
            return Err(truncated(BITMAP_SUPER_BYTES as u64, bytes.len()));
        }
        let magic = u32_at(bytes, 0);
        if magic != MAGIC {
            return Err(FormatError::Magic {
                what: "md bitmap",
                expected: MAGIC,
                found: magic,
            });
        }
        Ok(Self {
            version: u32_at(bytes, 4),
            uuid: Uuid(array_at(bytes, 8)),
            events: u64_at(bytes, 24),
            events_cleared: u64_at(bytes, 32),
            sync_size_sectors: u64_at(bytes, 40),
            state: BitmapState(u32_at(bytes, 48)),
            chunk_bytes: u32_at(bytes, 52),
            daemon_sleep_seconds: u32_at(bytes, 56),
            write_behind_max: u32_at(bytes, 60),
            sectors_reserved: u32_at(bytes, 64),
            nodes: u32_at(bytes, 68),
            cluster_name: array_at(bytes, 72),
        })
    }

    /// The bytes: what the first page of a bitmap begins with.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; BITMAP_SUPER_BYTES] {
        let mut bytes = [0; BITMAP_SUPER_BYTES];
        put(&mut bytes, 0, &MAGIC.to_le_bytes());
        put(&mut bytes, 4, &self.version.to_le_bytes());
        put(&mut bytes, 8, &self.uuid.0);
        put(&mut bytes, 24, &self.events.to_le_bytes());
        put(&mut bytes, 32, &self.events_cleared.to_le_bytes());
        put(&mut bytes, 40, &self.sync_size_sectors.to_le_bytes());
        put(&mut bytes, 48, &self.state.0.to_le_bytes());
        put(&mut bytes, 52, &self.chunk_bytes.to_le_bytes());
        put(&mut bytes, 56, &self.daemon_sleep_seconds.to_le_bytes());
        put(&mut bytes, 60, &self.write_behind_max.to_le_bytes());
        put(&mut bytes, 64, &self.sectors_reserved.to_le_bytes());
        put(&mut bytes, 68, &self.nodes.to_le_bytes());
        put(&mut bytes, 72, &self.cluster_name);
        bytes
    }

    /// How many chunks there are, the last one perhaps not whole.
    ///
    /// # Errors
    /// Where the size of a chunk is none.
    pub fn chunks(&self) -> Result<u64, FormatError> {
        if self.chunk_bytes < CHUNK_BYTES_MIN || !self.chunk_bytes.is_power_of_two() {
            return Err(FormatError::BitmapChunk(self.chunk_bytes));
        }
        let chunk_sectors = u64::from(self.chunk_bytes / CHUNK_BYTES_MIN);
        Ok(self.sync_size_sectors.div_ceil(chunk_sectors))
    }

    /// How many bytes the whole bitmap takes on a leg: whole pages.
    ///
    /// # Errors
    /// Where the size of a chunk is none.
    pub fn area_bytes(&self) -> Result<u64, FormatError> {
        Ok(area_bytes(self.chunks()?))
    }
}

/// The bytes of a bitmap of so many chunks, in whole pages. The largest is below 2^62.
fn area_bytes(chunks: u64) -> u64 {
    let bytes = BITMAP_SUPER_BYTES as u64 + chunks.div_ceil(8);
    bytes.next_multiple_of(BITMAP_PAGE_BYTES as u64)
}

fn truncated(needed_bytes: u64, found_bytes: usize) -> FormatError {
    FormatError::Truncated {
        what: "md bitmap",
        needed_bytes,
        found_bytes: found_bytes as u64,
    }
}

/// A whole bitmap: its superblock, and whether each chunk may differ between the legs.
#[derive(Clone, PartialEq, Eq)]
pub struct BitmapBits {
    super_block: BitmapSuper,
    chunks: u64,
    /// The pages, one behind the other. What is behind the last bit is kept as it was found.
    bytes: Vec<u8>,
}

impl fmt::Debug for BitmapBits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BitmapBits")
            .field("super_block", &self.super_block)
            .field("chunks", &self.chunks)
            .field("set", &self.count_set())
            .finish()
    }
}

impl BitmapBits {
    /// A bit for each of so many chunks, none of them set.
    ///
    /// # Panics
    /// Where so many bits are more than memory can hold.
    #[must_use]
    pub fn new(super_block: BitmapSuper, chunks: u64) -> Self {
        let len_bytes = usize::try_from(area_bytes(chunks)).expect("a bitmap fits into memory");
        let mut bits = Self {
            super_block,
            chunks,
            bytes: vec![0; len_bytes],
        };
        bits.set_super(super_block);
        bits
    }

    /// The bitmap that `bytes` begin with: give as many as [`BitmapSuper::area_bytes`] says, or all
    /// up to the next thing on the leg. More are not kept.
    ///
    /// # Errors
    /// Where there is none, it is of a version whose bits lie otherwise, the size of its chunks is
    /// none, or it is cut off.
    pub fn load(bytes: &[u8]) -> Result<Self, FormatError> {
        let super_block = BitmapSuper::parse(bytes)?;
        if super_block.version != BitmapSuper::VERSION {
            return Err(FormatError::BitmapVersion(super_block.version));
        }
        let chunks = super_block.chunks()?;
        let needed_bytes = BITMAP_SUPER_BYTES as u64 + chunks.div_ceil(8);
        if (bytes.len() as u64) < needed_bytes {
            return Err(truncated(needed_bytes, bytes.len()));
        }
        let len_bytes = usize::try_from(area_bytes(chunks)).expect("as many are there");
        let mut bytes = bytes[..len_bytes.min(bytes.len())].to_vec();
        bytes.resize(len_bytes, 0);
        Ok(Self {
            super_block,
            chunks,
            bytes,
        })
    }

    /// The superblock.
    #[must_use]
    pub const fn super_block(&self) -> &BitmapSuper {
        &self.super_block
    }

    /// Changes the superblock: the first page has to be written again.
    pub fn set_super(&mut self, super_block: BitmapSuper) {
        self.super_block = super_block;
        put(&mut self.bytes, 0, &super_block.to_bytes());
    }

    /// How many chunks there are.
    #[must_use]
    pub const fn chunks(&self) -> u64 {
        self.chunks
    }

    /// Whether the bit of a chunk is set.
    ///
    /// # Panics
    /// Where there is no such chunk.
    #[must_use]
    pub fn get(&self, chunk: u64) -> bool {
        let (byte, mask) = self.bit(chunk);
        self.bytes[byte] & mask != 0
    }

    /// Sets the bit of a chunk, and says whether that changed it.
    ///
    /// # Panics
    /// Where there is no such chunk.
    pub fn set(&mut self, chunk: u64) -> bool {
        let (byte, mask) = self.bit(chunk);
        let was_set = self.bytes[byte] & mask != 0;
        self.bytes[byte] |= mask;
        !was_set
    }

    /// Clears the bit of a chunk, and says whether that changed it.
    ///
    /// # Panics
    /// Where there is no such chunk.
    pub fn clear(&mut self, chunk: u64) -> bool {
        let (byte, mask) = self.bit(chunk);
        let was_set = self.bytes[byte] & mask != 0;
        self.bytes[byte] &= !mask;
        was_set
    }

    /// Sets all bits: nothing is known of any chunk.
    pub fn set_all(&mut self) {
        self.bytes[BITMAP_SUPER_BYTES..].fill(0xff);
    }

    /// Clears all bits.
    pub fn clear_all(&mut self) {
        self.bytes[BITMAP_SUPER_BYTES..].fill(0);
    }

    /// The byte and the bit of it that belong to a chunk.
    fn bit(&self, chunk: u64) -> (usize, u8) {
        assert!(chunk < self.chunks, "chunk {chunk} of {}", self.chunks);
        let byte = usize::try_from(chunk / 8).expect("below the length");
        (BITMAP_SUPER_BYTES + byte, 1 << (chunk % 8))
    }

    /// The first chunk from `from` on whose bit is set.
    #[must_use]
    pub fn next_set(&self, from: u64) -> Option<u64> {
        if from >= self.chunks {
            return None;
        }
        let first_word = from / WORD_BITS;
        let skipped = usize::try_from(first_word * 8).expect("below the length");
        let words = self.bytes[BITMAP_SUPER_BYTES + skipped..].chunks_exact(8);
        // Of the first word, the bits from `from` on.
        let mut mask = u64::MAX << (from % WORD_BITS);
        for (index, word) in (first_word..).zip(words) {
            let word = u64_at(word, 0) & mask;
            if word != 0 {
                let chunk = index * WORD_BITS + u64::from(word.trailing_zeros());
                return (chunk < self.chunks).then_some(chunk);
            }
            mask = u64::MAX;
        }
        None
    }

    /// All chunks whose bits are set, in rising order.
    pub fn iter_set(&self) -> impl Iterator<Item = u64> + '_ {
        let mut from = 0;
        std::iter::from_fn(move || {
            let chunk = self.next_set(from)?;
            from = chunk + 1;
            Some(chunk)
        })
    }

    /// How many bits are set.
    #[must_use]
    pub fn count_set(&self) -> u64 {
        let words = self.bytes[BITMAP_SUPER_BYTES..].chunks_exact(8);
        let whole = self.chunks / WORD_BITS;
        let masks = (0..).map(|index: u64| match index.cmp(&whole) {
            std::cmp::Ordering::Less => u64::MAX,
            // Of the last word, the bits that belong to chunks.
            std::cmp::Ordering::Equal => (1 << (self.chunks % WORD_BITS)) - 1,
            std::cmp::Ordering::Greater => 0,
        });
        words
            .zip(masks)
            .map(|(word, mask)| u64::from((u64_at(word, 0) & mask).count_ones()))
            .sum()
    }

    /// Sets the bits that are set in `other` as well.
    ///
    /// # Panics
    /// Where the other one is of another number of chunks.
    pub fn union_with(&mut self, other: &Self) {
        assert_eq!(self.chunks, other.chunks, "bitmaps of the same chunks");
        let others = &other.bytes[BITMAP_SUPER_BYTES..];
        for (byte, other) in self.bytes[BITMAP_SUPER_BYTES..].iter_mut().zip(others) {
            *byte |= other;
        }
    }

    /// How many pages there are.
    #[must_use]
    pub fn page_count(&self) -> usize {
        self.bytes.len() / BITMAP_PAGE_BYTES
    }

    /// The page that has the bit of a chunk.
    ///
    /// # Panics
    /// Where there is no such chunk.
    #[must_use]
    pub fn page_of(&self, chunk: u64) -> usize {
        self.bit(chunk).0 / BITMAP_PAGE_BYTES
    }

    /// The chunks whose bits are on a page.
    ///
    /// # Panics
    /// Where there is no such page.
    #[must_use]
    pub fn chunks_of(&self, page: usize) -> Range<u64> {
        assert!(
            page < self.page_count(),
            "page {page} of {}",
            self.page_count()
        );
        let first_of = |page: usize| {
            let bytes = (page * BITMAP_PAGE_BYTES).saturating_sub(BITMAP_SUPER_BYTES);
            (bytes as u64 * 8).min(self.chunks)
        };
        first_of(page)..first_of(page + 1)
    }

    /// What is written of a page, at [`BITMAP_PAGE_BYTES`] times its number from the start of the
    /// bitmap.
    ///
    /// # Panics
    /// Where there is no such page.
    #[must_use]
    pub fn page_bytes(&self, page: usize) -> &[u8] {
        let start = page * BITMAP_PAGE_BYTES;
        &self.bytes[start..start + BITMAP_PAGE_BYTES]
    }

    /// All pages, one behind the other.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests;
