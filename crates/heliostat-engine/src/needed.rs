//! Which bytes still have to be copied: a set of extents that a cursor goes through.
//!
//! It knows nothing of arrays and legs. A resync keeps one in array addresses, a rebuild one for
//! each leg in addresses of that leg.

use std::collections::BTreeMap;

use heliostat_types::Extent;

use crate::intent::Intent;

/// Above so many extents, what is added is rounded outwards to [`COARSE_BYTES`]: to copy more than
/// is needed is harmless, a set without bounds is not.
const EXTENTS_MAX: usize = 65_536;
/// The size of the largest window: what lies in one is copied at once anyway.
const COARSE_BYTES: u64 = 1 << 20;

/// A set of bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Needed {
    /// Ends by starts; they neither overlap nor touch.
    extents: BTreeMap<u64, u64>,
    bytes: u64,
}

impl Needed {
    pub(crate) const fn new() -> Self {
        Self {
            extents: BTreeMap::new(),
            bytes: 0,
        }
    }

    /// What an array needs that was not stopped in order.
    pub(crate) fn of(intent: &Intent, size_bytes: u64) -> Self {
        let mut needed = Self::new();
        let mut from = 0;
        // The last chunk may end beyond the array.
        while from < size_bytes
            && let Some(run) = intent.next_needed(from)
        {
            needed.add(run, size_bytes);
            from = run.end();
        }
        needed
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// How many bytes are in it.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Puts bytes in; what is beyond `limit` stays out.
    pub(crate) fn add(&mut self, extent: Extent, limit: u64) {
        let (mut start, mut end) = (extent.offset(), extent.end());
        if self.extents.len() >= EXTENTS_MAX {
            start = start / COARSE_BYTES * COARSE_BYTES;
            end = end.div_ceil(COARSE_BYTES).saturating_mul(COARSE_BYTES);
        }
        end = end.min(limit);
        if start >= end {
            return;
        }
        // All that touch become one.
        while let Some((&before, &before_end)) = self.extents.range(..=end).next_back() {
            if before_end < start {
                break;
            }
            self.extents.remove(&before);
            self.bytes -= before_end - before;
            start = start.min(before);
            end = end.max(before_end);
        }
        self.extents.insert(start, end);
        self.bytes += end - start;
    }

    /// Takes bytes out.
    pub(crate) fn remove(&mut self, extent: Extent) {
        if extent.is_empty() {
            return;
        }
        while let Some((&start, &end)) = self.extents.range(..extent.end()).next_back() {
            if end <= extent.offset() {
                break;
            }
            self.extents.remove(&start);
            self.bytes -= end - start;
            for (from, to) in [(start, extent.offset()), (extent.end(), end)] {
                if from < to {
                    self.extents.insert(from, to);
                    self.bytes += to - from;
                }
            }
        }
    }

    /// The first run of bytes at `from` or behind it.
    pub(crate) fn next(&self, from: u64) -> Option<Extent> {
        let before = self.extents.range(..=from).next_back();
        if let Some((_, &end)) = before.filter(|(_, end)| **end > from) {
            return Some(Extent::from_range(from, end));
        }
        let (&start, &end) = self.extents.range(from..).next()?;
        Some(Extent::from_range(start, end))
    }

    /// All runs of bytes.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Extent> + '_ {
        let runs = self.extents.iter();
        runs.map(|(&start, &end)| Extent::from_range(start, end))
    }

    /// The runs of bytes that overlap `extent`, clipped to it.
    pub(crate) fn inside(&self, extent: Extent) -> impl Iterator<Item = Extent> + '_ {
        let mut from = extent.offset();
        std::iter::from_fn(move || {
            let run = self.next(from)?.intersection(extent)?;
            from = run.end();
            Some(run)
        })
    }

    pub(crate) fn overlaps(&self, extent: Extent) -> bool {
        let next = self.next(extent.offset());
        next.is_some_and(|next| next.overlaps(extent))
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Extent, Prng, RandomStream};

    use super::{COARSE_BYTES, EXTENTS_MAX, Needed};

    #[test]
    fn it_is_a_set_of_bytes() {
        const SIZE: u64 = 200;
        let mut prng = RandomStream::new(1, "needed", 0);
        let mut needed = Needed::new();
        let mut bytes = [false; 200];
        for _ in 0..4000 {
            let offset = prng.below(SIZE);
            let extent = Extent::new(offset, prng.below(30).min(SIZE - offset));
            let is_added = prng.below(2) == 0;
            if is_added {
                needed.add(extent, SIZE);
            } else {
                needed.remove(extent);
            }
            for at in extent.offset()..extent.end() {
                bytes[usize::try_from(at).unwrap()] = is_added;
            }
            let count = bytes.iter().filter(|byte| **byte).count() as u64;
            assert_eq!(needed.bytes(), count);
            assert_eq!(needed.is_empty(), count == 0);
            let mut from = 0;
            let mut runs = 0;
            while let Some(run) = needed.next(from) {
                let is_in = |at: u64| bytes[usize::try_from(at).unwrap()];
                assert!((from..run.offset()).all(|at| !is_in(at)));
                assert!((run.offset()..run.end()).all(is_in));
                assert!(run.end() == SIZE || !is_in(run.end()), "all of the run");
                assert!(needed.overlaps(Extent::new(run.offset(), 1)));
                from = run.end();
                runs += 1;
            }
            assert_eq!(needed.inside(Extent::new(0, SIZE)).count(), runs);
            assert!(needed.overlaps(Extent::new(0, SIZE)) == (count > 0));
        }
        assert_eq!(needed.clone().inside(Extent::new(7, 0)).count(), 0);
    }

    #[test]
    fn the_number_of_extents_is_bounded() {
        let mut needed = Needed::new();
        for n in 0..2 * EXTENTS_MAX as u64 {
            needed.add(Extent::new(n * 8192, 512), u64::MAX);
        }
        let runs = needed.inside(Extent::new(0, 1 << 40)).count();
        assert!(runs <= EXTENTS_MAX + 1, "{runs}");
        for n in 0..2 * EXTENTS_MAX as u64 {
            assert!(needed.overlaps(Extent::new(n * 8192, 512)));
        }
        let limit = 3 * COARSE_BYTES + 512;
        let mut needed = Needed::new();
        needed.add(Extent::new(3 * COARSE_BYTES, COARSE_BYTES), limit);
        assert_eq!(needed.bytes(), 512);
    }
}
