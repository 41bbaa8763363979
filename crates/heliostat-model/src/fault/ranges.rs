//! A set of bytes, as ranges that neither touch nor overlap.

use std::collections::BTreeMap;

use heliostat_types::Extent;

/// Ranges of bytes by their beginning.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges {
    ends: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Whether any byte of `extent` is in the set.
    pub(super) fn overlaps(&self, extent: Extent) -> bool {
        let before = self.ends.range(..extent.end()).next_back();
        !extent.is_empty() && before.is_some_and(|(_, end)| *end > extent.offset())
    }

    /// Puts `extent` into the set.
    pub(super) fn insert(&mut self, extent: Extent) {
        if extent.is_empty() {
            return;
        }
        let (mut start, mut end) = (extent.offset(), extent.end());
        while let Some((&other, &other_end)) = self.ends.range(..=end).next_back() {
            if other_end < start {
                break;
            }
            self.ends.remove(&other);
            start = start.min(other);
            end = end.max(other_end);
        }
        self.ends.insert(start, end);
    }

    /// Takes `extent` out of the set.
    pub(super) fn remove(&mut self, extent: Extent) {
        while self.overlaps(extent) {
            let before = self.ends.range(..extent.end()).next_back();
            let (&start, &end) = before.expect("one overlaps");
            self.ends.remove(&start);
            if start < extent.offset() {
                self.ends.insert(start, extent.offset());
            }
            if end > extent.end() {
                self.ends.insert(extent.end(), end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Extent, Prng, RandomStream};

    use super::Ranges;

    #[test]
    fn ranges_are_a_set_of_bytes() {
        let mut prng = RandomStream::new(1, "ranges", 0);
        let mut ranges = Ranges::default();
        let mut bytes = [false; 64];
        for _ in 0..5_000 {
            let start = prng.below(64);
            let end = start + prng.below(65 - start);
            let extent = Extent::from_range(start, end);
            let slice = &mut bytes[usize::try_from(start).unwrap()..usize::try_from(end).unwrap()];
            match prng.below(4) {
                0 | 1 => {
                    ranges.insert(extent);
                    slice.fill(true);
                }
                2 => {
                    ranges.remove(extent);
                    slice.fill(false);
                }
                _ => assert_eq!(ranges.overlaps(extent), slice.contains(&true), "{extent}"),
            }
            let runs = bytes.split(|byte| !byte).filter(|run| !run.is_empty());
            assert_eq!(ranges.ends.len(), runs.count(), "none touch");
        }
    }
}
