//! The bad-block log: ranges of a leg's data that cannot be read, or whose last write failed.
//!
//! On the leg it is a list of 64-bit entries, a start and a length of at most 512 sectors each,
//! ended by an entry of ones; Linux does not always keep it in order. Here it is the ranges
//! themselves: those that touch are one, however many entries they take when they are written.
//!
//! A log that is in use is not simply written anew (see [`BadBlocks::to_bytes_after`]): a power cut
//! may leave some of its sectors as they were, and what was known before must be known then.

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

/// The bad blocks of one leg, in sectors from its start, as Linux md counts them. Two are equal
/// where they name the same sectors and have the same room.
#[derive(Clone, Debug)]
pub struct BadBlocks {
    /// Rising; between two of them is at least one good sector.
    ranges: Vec<Range<u64>>,
    entries_max: usize,
    /// The log that they were read from.
    read: Option<Vec<u8>>,
}

impl PartialEq for BadBlocks {
    fn eq(&self, other: &Self) -> bool {
        self.ranges == other.ranges && self.entries_max == other.entries_max
    }
}

impl Eq for BadBlocks {}

impl BadBlocks {
    /// None yet, in a log of so many sectors of 512 bytes.
    #[must_use]
    pub fn new(log_sectors: u16) -> Self {
        Self {
            ranges: Vec::new(),
            entries_max: usize::from(log_sectors) * 64,
            read: None,
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
            read: Some(bytes.to_vec()),
        })
    }

    /// The bytes that they were read from, whatever has changed since; where they were not read,
    /// an empty log.
    #[must_use]
    pub fn as_read(&self) -> Vec<u8> {
        let empty = || vec![0xff; self.entries_max * 8];
        self.read.clone().unwrap_or_else(empty)
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

    /// The whole log, to be written over one that is these bytes, with a shift of 0. Whichever
    /// sectors of it a power cut leaves as they were, all that was in the log before and still is
    /// here can be found; what is not here any more may be there for a while. Write it until it
    /// does not change.
    ///
    /// No entry moves: new ones go to the places of those that are not needed, or behind the last.
    ///
    /// # Errors
    /// Where there is no place left.
    pub fn to_bytes_after(&self, old: &[u8]) -> Result<Vec<u8>, Full> {
        let mut slots = Slots::new(old, self.entries_max);
        let mut added = Vec::new();
        for range in &self.ranges {
            let mut start = range.start;
            while start < range.end {
                let end = range.end.min(start + ENTRY_SECTORS_MAX);
                if !slots.keep(&(start..end)) {
                    added.push(start..end);
                }
                start = end;
            }
        }
        slots.look_for_needless(self);
        for range in added {
            slots.place(range)?;
        }
        Ok(slots.into_bytes())
    }

    /// The same, so many sectors further on.
    ///
    /// # Panics
    /// Where a range ends beyond the 54 bits that an entry has for its start.
    #[must_use]
    pub fn moved_up(&self, sectors: u64) -> Self {
        let up = |range: Range<u64>| range.start + sectors..range.end + sectors;
        let ranges: Vec<Range<u64>> = self.ranges().map(up).collect();
        let end = ranges.last().map_or(0, |range| range.end);
        assert!(end <= START_MAX, "a leg has less than 2^54 sectors");
        Self {
            ranges,
            ..self.clone()
        }
    }

    /// The same, counted from this sector on; what lies before it is left out.
    #[must_use]
    pub fn counted_from(&self, sector: u64) -> Self {
        let behind = self.ranges().filter(|range| range.end > sector);
        let from = |range: Range<u64>| range.start.saturating_sub(sector)..range.end - sector;
        Self {
            ranges: behind.map(from).collect(),
            ..self.clone()
        }
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

/// The places of a log that is being written over.
struct Slots {
    /// What is there; an empty range is not there.
    entries: Vec<Range<u64>>,
    /// By place: the part of the entry that is known from it alone, `None` where that is nothing.
    needed: Vec<Option<Range<u64>>>,
    /// By place: its entry is what it is to be.
    is_kept: Vec<bool>,
    entries_max: usize,
}

impl Slots {
    fn new(old: &[u8], entries_max: usize) -> Self {
        let words = old.chunks_exact(8).take(entries_max);
        let words = words.map(|bytes| u64_at(bytes, 0));
        let entries = words.take_while(|&entry| entry != END).map(range_of);
        let entries: Vec<Range<u64>> = entries.collect();
        Self {
            needed: vec![None; entries.len()],
            is_kept: vec![false; entries.len()],
            entries,
            entries_max,
        }
    }

    /// Whether there is such an entry; it stays.
    fn keep(&mut self, range: &Range<u64>) -> bool {
        let found = self.entries.iter().position(|entry| entry == range);
        if let Some(at) = found {
            self.is_kept[at] = true;
        }
        found.is_some()
    }

    /// Finds what is bad and known from one place alone.
    fn look_for_needless(&mut self, bad: &BadBlocks) {
        let kept = self.entries.iter().zip(&self.is_kept);
        let kept = kept.filter(|(_, is_kept)| **is_kept);
        let mut kept: Vec<Range<u64>> = kept.map(|(entry, _)| entry.clone()).collect();
        kept.sort_by_key(|range| range.start);
        kept = merged(kept);
        for (at, entry) in self.entries.iter().enumerate() {
            let mut from = entry.start;
            let mut needed: Option<Range<u64>> = None;
            while !self.is_kept[at]
                && let Some(found) = bad.first_in(&(from..entry.end))
            {
                let part = found.start.max(from)..found.end.min(entry.end);
                let is_known = kept
                    .iter()
                    .any(|range| range.start <= part.start && part.end <= range.end);
                if !is_known {
                    needed = Some(needed.map_or(part.start, |needed| needed.start)..part.end);
                }
                from = part.end;
            }
            // Of two that know the same, one is enough.
            kept.extend(needed.clone());
            self.needed[at] = needed;
        }
    }

    /// Finds a place: that of an entry of which this is all that is needed, or of one that is not
    /// needed, or the next.
    fn place(&mut self, range: Range<u64>) -> Result<(), Full> {
        let open = (0..self.entries.len()).filter(|&at| !self.is_kept[at]);
        let within = |needed: &Range<u64>| range.start <= needed.start && needed.end <= range.end;
        let mut of_it = open.clone();
        let of_it = of_it.find(|&at| self.needed[at].as_ref().is_some_and(within));
        let mut free = open;
        let at = of_it.or_else(|| free.find(|&at| self.needed[at].is_none()));
        if let Some(at) = at {
            self.entries[at] = range;
            self.is_kept[at] = true;
        } else if self.entries.len() < self.entries_max {
            self.entries.push(range);
            self.needed.push(None);
            self.is_kept.push(true);
        } else {
            return Err(Full {
                entries_max: self.entries_max,
            });
        }
        Ok(())
    }

    /// What is not needed goes: from the end, or as one more copy of another entry, because there
    /// can be no gap.
    fn into_bytes(mut self) -> Vec<u8> {
        let is_needed = |slots: &Self, at: usize| slots.is_kept[at] || slots.needed[at].is_some();
        let count = self.entries.len();
        let end = (0..count).rfind(|&at| is_needed(&self, at));
        self.entries.truncate(end.map_or(0, |at| at + 1));
        if let Some(last) = self.entries.last().cloned() {
            for at in 0..self.entries.len() {
                if !is_needed(&self, at) {
                    self.entries[at] = last.clone();
                }
            }
        }
        let entries = self.entries.iter();
        let entries = entries.map(|range| range.start << LEN_BITS | (range.end - range.start));
        let mut bytes: Vec<u8> = entries.flat_map(u64::to_le_bytes).collect();
        bytes.resize(self.entries_max * 8, 0xff);
        bytes
    }
}

/// What an entry says, with a shift of 0.
const fn range_of(entry: u64) -> Range<u64> {
    let (start, len) = (entry >> LEN_BITS, entry & ((1 << LEN_BITS) - 1));
    start..start + len
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
