//! Ranges in which the legs may differ although no write is in flight.
//!
//! There are two ways to get there. A write failed on every leg for lack of space, so that no leg
//! is to blame, and each may hold any part of it; or it failed on a leg that other bytes of the
//! array depend on alone, which therefore stays. Either way the client has heard an error. Until a
//! later write covers the range on all legs, its reads go to one leg, its *pin*: the one that reads
//! beside the write have seen. The array is not clean meanwhile.
//!
//! A range lies in one chunk, so that its pin holds all of it, unless there are too many of them.

use heliostat_types::{Extent, LegId, LegSet};

use crate::map::Map;

/// How many ranges are told apart. Beyond that, the two that lie closest become one: what lies
/// between them is then pinned as well, which costs speed and nothing else.
const RANGES_MAX: usize = 1024;

/// One range, and the leg that is read there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    extent: Extent,
    pin: LegId,
}

/// What the ranges say about a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DivergencePin {
    /// Any leg.
    None,
    /// This leg.
    Leg(LegId),
    /// One leg for the first so many bytes, and another one behind them.
    Cut(u64),
}

/// The ranges, by rising offset; they do not overlap.
#[derive(Debug)]
pub(crate) struct Divergence {
    ranges: Vec<Range>,
    chunk_bytes: u64,
}

impl Divergence {
    pub(crate) const fn new(chunk_bytes: u64) -> Self {
        Self {
            ranges: Vec::new(),
            chunk_bytes,
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Adds a range whose reads have seen, or will see, `pin`. Parts that differ already keep
    /// theirs: that is what their reads have seen.
    pub(crate) fn add(&mut self, extent: Extent, pin: LegId) {
        let mut from = extent.offset();
        let mut added = Vec::new();
        let known = self.ranges.iter().map(|range| range.extent);
        for known in known.filter(|known| known.overlaps(extent)) {
            if from < known.offset() {
                added.push(Extent::from_range(from, known.offset()));
            }
            from = known.end();
        }
        if from < extent.end() {
            added.push(Extent::from_range(from, extent.end()));
        }
        let added = added.into_iter().map(|extent| Range { extent, pin });
        self.ranges.extend(added);
        self.ranges.sort_unstable_by_key(|range| range.extent);
        self.join();
    }

    /// All legs in sync hold the same bytes there now.
    pub(crate) fn remove(&mut self, extent: Extent) {
        if self.ranges.is_empty() {
            return;
        }
        let old = std::mem::take(&mut self.ranges);
        for Range { extent: known, pin } in old {
            if !known.overlaps(extent) {
                self.ranges.push(Range { extent: known, pin });
                continue;
            }
            let parts = [
                (known.offset(), extent.offset().max(known.offset())),
                (extent.end().min(known.end()), known.end()),
            ];
            for (from, to) in parts.into_iter().filter(|(from, to)| from < to) {
                let extent = Extent::from_range(from, to);
                self.ranges.push(Range { extent, pin });
            }
        }
        self.join();
    }

    /// Makes one of ranges that touch and have one pin, and keeps their number bounded.
    fn join(&mut self) {
        self.ranges.dedup_by(|next, range| {
            let border = next.extent.offset();
            let touches = range.extent.end() == border
                && range.pin == next.pin
                && !border.is_multiple_of(self.chunk_bytes);
            if touches {
                range.extent = Extent::from_range(range.extent.offset(), next.extent.end());
            }
            touches
        });
        while self.ranges.len() > RANGES_MAX {
            let gap = |at: usize| {
                let (range, next) = (&self.ranges[at], &self.ranges[at + 1]);
                // What has another pin is joined last: its reads may go back in time once.
                let is_torn = range.pin != next.pin;
                (is_torn, next.extent.offset() - range.extent.end())
            };
            let closest = (0..self.ranges.len() - 1).min_by_key(|&at| gap(at));
            let at = closest.expect("there are two");
            let next = self.ranges.remove(at + 1);
            let range = &mut self.ranges[at];
            range.extent = Extent::from_range(range.extent.offset(), next.extent.end());
        }
    }

    /// Whether legs may differ there.
    pub(crate) fn overlaps(&self, extent: Extent) -> bool {
        let ranges = self.ranges.iter();
        ranges
            .map(|range| range.extent)
            .any(|range| range.overlaps(extent))
    }

    /// The leg that a read must go to.
    pub(crate) fn pin_of(&self, extent: Extent) -> DivergencePin {
        let mut pin = DivergencePin::None;
        for range in &self.ranges {
            if !range.extent.overlaps(extent) {
                continue;
            }
            match pin {
                DivergencePin::Leg(leg) if leg != range.pin => {
                    return DivergencePin::Cut(range.extent.offset() - extent.offset());
                }
                DivergencePin::None | DivergencePin::Leg(_) | DivergencePin::Cut(_) => {
                    pin = DivergencePin::Leg(range.pin);
                }
            }
        }
        pin
    }

    /// How many bytes, from the start of `extent` on, lie in one range or in none.
    pub(crate) fn uniform_len(&self, extent: Extent) -> u64 {
        let borders = self.ranges.iter().flat_map(|range| {
            let range = range.extent;
            [range.offset(), range.end()]
        });
        let inside = borders.filter(|at| extent.offset() < *at && *at < extent.end());
        inside.min().map_or(extent.len(), |at| at - extent.offset())
    }

    /// The first range that ends behind `from`, without what lies before.
    pub(crate) fn next(&self, from: u64) -> Option<Extent> {
        let mut ranges = self.ranges.iter().map(|range| range.extent);
        let next = ranges.find(|range| range.end() > from)?;
        Some(Extent::from_range(next.offset().max(from), next.end()))
    }

    /// How many bytes are in ranges.
    pub(crate) fn bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.extent.len()).sum()
    }

    /// All such ranges, with their pins.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (Extent, LegId)> + '_ {
        self.ranges.iter().map(|range| (range.extent, range.pin))
    }

    /// The pinned leg has failed a read there: from now on another one is read, for good.
    pub(crate) fn re_pin(&mut self, extent: Extent, leg: LegId) {
        for range in &mut self.ranges {
            if range.extent.overlaps(extent) {
                range.pin = leg;
            }
        }
    }

    /// A leg has the role of another one: it is read where that one was. What that one was written
    /// well it was as well.
    pub(crate) fn hand_over(&mut self, leg: LegId, by: LegId) {
        for range in self.ranges.iter_mut().filter(|range| range.pin == leg) {
            range.pin = by;
        }
    }

    /// A leg is out; where one holder is left nothing can differ. A leg that is being rebuilt may
    /// have what it differs in already.
    pub(crate) fn leg_is_out(&mut self, map: &Map, leg: LegId, left: LegSet, rebuilding: LegSet) {
        let of = |range: &Range, legs| map.holders(range.extent.offset()).intersection(legs);
        let left_of = |range: &Range| of(range, left);
        self.ranges.retain(|range| {
            let is_in_one_chunk = map.first_part(range.extent) == range.extent;
            !is_in_one_chunk || of(range, left.union(rebuilding)).count() > 1
        });
        for range in &mut self.ranges {
            if range.pin == leg {
                let next = left_of(range).lowest();
                range.pin = next.expect("every byte keeps a leg in sync");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Extent, LegId, LegSet};

    use super::{Divergence, DivergencePin, RANGES_MAX};
    use crate::map::Map;

    /// Of the array, and of its one chunk.
    const SIZE: u64 = 1 << 30;

    fn leg(index: usize) -> DivergencePin {
        DivergencePin::Leg(LegId::new(index))
    }

    #[test]
    fn a_range_is_pinned_until_it_is_covered() {
        let mut divergence = Divergence::new(SIZE);
        divergence.add(Extent::new(0, 8192), LegId::new(1));
        assert_eq!(divergence.pin_of(Extent::new(4096, 512)), leg(1));
        divergence.remove(Extent::new(512, 4096));
        assert_eq!(
            divergence.pin_of(Extent::new(512, 4096)),
            DivergencePin::None
        );
        assert_eq!(divergence.pin_of(Extent::new(0, 513)), leg(1));
        let map = Map::mirror(3, SIZE);
        let without_1 = LegSet::from_iter([LegId::new(0), LegId::new(2)]);
        divergence.leg_is_out(&map, LegId::new(1), without_1, LegSet::EMPTY);
        assert_eq!(divergence.pin_of(Extent::new(8000, 1)), leg(0));
        let rebuilt = LegSet::from_iter([LegId::new(2)]);
        divergence.leg_is_out(&map, LegId::new(2), LegSet::first(1), rebuilt);
        assert_eq!(divergence.pin_of(Extent::new(8000, 1)), leg(0));
        divergence.leg_is_out(&map, LegId::new(2), LegSet::first(1), LegSet::EMPTY);
        assert!(divergence.is_empty());
    }

    #[test]
    fn each_range_has_the_pin_that_its_reads_have_seen() {
        let mut divergence = Divergence::new(SIZE);
        divergence.add(Extent::new(4096, 4096), LegId::new(0));
        divergence.add(Extent::new(0, 12_288), LegId::new(1));
        assert_eq!(divergence.pin_of(Extent::new(0, 4096)), leg(1));
        assert_eq!(divergence.pin_of(Extent::new(4096, 4096)), leg(0));
        assert_eq!(divergence.pin_of(Extent::new(8192, 4096)), leg(1));
        assert_eq!(
            divergence.pin_of(Extent::new(512, 9000)),
            DivergencePin::Cut(3584)
        );
        divergence.re_pin(Extent::new(4096, 512), LegId::new(2));
        assert_eq!(divergence.pin_of(Extent::new(4608, 512)), leg(2));
        assert_eq!(divergence.pin_of(Extent::new(0, 512)), leg(1));
    }

    #[test]
    fn ranges_that_touch_are_one_and_their_number_is_bounded() {
        let mut divergence = Divergence::new(SIZE);
        for n in 0..5000u64 {
            divergence.add(Extent::new(n * 4096, 4096), LegId::new(0));
        }
        assert_eq!(
            divergence.ranges().collect::<Vec<_>>(),
            [(Extent::new(0, 5000 * 4096), LegId::new(0))]
        );
        for n in 0..2500u64 {
            divergence.remove(Extent::new(n * 8192, 512));
        }
        assert_eq!(divergence.ranges().count(), RANGES_MAX);
        for n in 0..2500u64 {
            assert_eq!(divergence.pin_of(Extent::new(n * 8192 + 512, 7680)), leg(0));
        }
    }
}
