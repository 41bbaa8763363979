//! The bad-block log: ranges of a leg's data that cannot be read, or whose last write failed.
//!
//! On the leg it is a list of 64-bit entries, a start and a length of at most 512 sectors each,
//! ended by an entry of ones; Linux does not always keep it in order. Here it is the ranges
//! themselves: those that touch are one, however many entries they take when they are written.

use std::fmt;
use std::ops::Range;

use crate::FormatError;
use crate::bytes::u64_at;

/// What ends the list, and fills what is left of the log.
const END: u64 = u64::MAX;

/// The most sectors of one entry: Linux has nine bits for them in memory.
const ENTRY_SECTORS_MAX: u64 = 512;

/// The bits of an entry that are its length; above them is its start.
const LEN_BITS: u32 = 10;

/// Starts that fit into an entry are below this.
const START_MAX: u64 = 1 << (64 - LEN_BITS);

/// The most units of one entry of any log, as a power of two sectors: larger ones are nonsense.
const SHIFT_MAX: u8 = 40;

/// There is no room in the log for one more range; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// How many entries the log has room for.
    pub entries_max: usize,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the bad-block log is full: it has room for {} entries",
            self.entries_max
        )
    }
}

impl std::error::Error for Full {}

/// The bad blocks of one leg, in sectors from the start of its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadBlocks {
    /// Rising; between two of them is at least one good sector.
    ranges: Vec<Range<u64>>,
    entries_max: usize,
}

impl BadBlocks {
    /// None yet, in a log of so many sectors of 512 bytes.
    #[must_use]
    pub fn new(log_sectors: u16) -> Self {
        Self {
            ranges: Vec::new(),
            entries_max: usize::from(log_sectors) * 64,
        }
    }

    /// Those of a log that was read as a whole; `shift` is that of the superblock.
    ///
    /// # Errors
    /// Where ranges end beyond all sectors, or need more entries than the log has.
    pub fn parse(bytes: &[u8], shift: u8) -> Result<Self, FormatError> {
        let entries_max = bytes.len() / 8;
        let mut ranges = Vec::new();
        for entry in bytes.chunks_exact(8).map(|bytes| u64_at(bytes, 0)) {
            if entry == END {
                break;
            }
            let (start, len) = (entry >> LEN_BITS, entry & ((1 << LEN_BITS) - 1));
            let scaled = |units: u64| {
                let factor = (shift <= SHIFT_MAX).then(|| 1_u64 << shift)?;
                units.checked_mul(factor)
            };
            let end = scaled(start).zip(scaled(len));
            let end = end.and_then(|(start, len)| Some((start, start.checked_add(len)?)));
            let Some((start, end)) = end.filter(|&(_, end)| end <= START_MAX) else {
                return Err(FormatError::BadBlockRange { entry, shift });
            };
            if start < end {
                ranges.push(start..end);
            }
        }
        ranges.sort_by_key(|range: &Range<u64>| range.start);
        let ranges = merged(ranges);
        if entries(&ranges) > entries_max {
            return Err(FormatError::BadBlocksFull { entries_max });
        }
        Ok(Self {
            ranges,
            entries_max,
        })
    }

    /// The whole log, as it is written with a shift of 0.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.entries_max * 8);
        for range in &self.ranges {
            let mut start = range.start;
            while start < range.end {
                let len = (range.end - start).min(ENTRY_SECTORS_MAX);
                bytes.extend_from_slice(&(start << LEN_BITS | len).to_le_bytes());
                start += len;
            }
        }
        bytes.resize(self.entries_max * 8, 0xff);
        bytes
    }

    /// Adds all sectors of `range`. An empty one adds nothing.
    ///
    /// # Errors
    /// Where the log has no room for it; then nothing is added.
    ///
    /// # Panics
    /// Where the range ends beyond the 54 bits that an entry has for its start.
    pub fn insert(&mut self, range: Range<u64>) -> Result<(), Full> {
        assert!(range.end <= START_MAX, "a leg has less than 2^54 sectors");
        if range.is_empty() {
            return Ok(());
        }
        // Those that touch it become one with it.
        let first = self.ranges.partition_point(|other| other.end < range.start);
        let end = self
            .ranges
            .partition_point(|other| other.start <= range.end);
        let touched = &self.ranges[first..end];
        let union = match (touched.first(), touched.last()) {
            (Some(low), Some(high)) => low.start.min(range.start)..high.end.max(range.end),
            _ => range,
        };
        self.replace(first..end, &[union])
    }

    /// Takes all sectors of `range` out: they were written, and are good again.
    ///
    /// # Errors
    /// Where a range would fall in two, and the log has no room for both; then nothing is taken.
    pub fn remove(&mut self, range: Range<u64>) -> Result<(), Full> {
        if range.is_empty() {
            return Ok(());
        }
        let first = self
            .ranges
            .partition_point(|other| other.end <= range.start);
        let end = self.ranges.partition_point(|other| other.start < range.end);
        let touched = &self.ranges[first..end];
        let (Some(low), Some(high)) = (touched.first(), touched.last()) else {
            return Ok(());
        };
        let mut left = vec![low.start..range.start, range.end..high.end];
        left.retain(|part| part.start < part.end);
        self.replace(first..end, &left)
    }

    /// Puts `parts` in the place of the ranges of these indexes, if the log has room for that.
    fn replace(&mut self, indexes: Range<usize>, parts: &[Range<u64>]) -> Result<(), Full> {
        let taken = entries(&self.ranges) - entries(&self.ranges[indexes.clone()]);
        if taken + entries(parts) > self.entries_max {
            return Err(Full {
                entries_max: self.entries_max,
            });
        }
        self.ranges.splice(indexes, parts.iter().cloned());
        Ok(())
    }

    /// The first range that has a sector of `range`, as it is in the log.
    #[must_use]
    pub fn first_in(&self, range: &Range<u64>) -> Option<Range<u64>> {
        if range.is_empty() {
            return None;
        }
        let first = self
            .ranges
            .partition_point(|other| other.end <= range.start);
        let found = self.ranges.get(first)?;
        (found.start < range.end).then(|| found.clone())
    }

    /// Whether a sector of `range` is bad.
    #[must_use]
    pub fn overlaps(&self, range: &Range<u64>) -> bool {
        self.first_in(range).is_some()
    }

    /// All ranges, in rising order.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ranges.iter().cloned()
    }

    /// Whether all is good.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many entries the ranges take on the leg.
    #[must_use]
    pub fn entries(&self) -> usize {
        entries(&self.ranges)
    }

    /// How many entries the log has room for.
    #[must_use]
    pub const fn entries_max(&self) -> usize {
        self.entries_max
    }
}

/// How many entries these ranges take.
fn entries(ranges: &[Range<u64>]) -> usize {
    let entries = ranges
        .iter()
        .map(|range| (range.end - range.start).div_ceil(ENTRY_SECTORS_MAX));
    // More than memory could hold is more than any log has.
    usize::try_from(entries.sum::<u64>()).unwrap_or(usize::MAX)
}

/// Sorted ranges, those that touch or overlap made one.
fn merged(sorted: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match ranges.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => ranges.push(range),
        }
    }
    ranges
}

#[cfg(test)]
mod tests;
