//! Ranges in which the legs may differ although no write is in flight.
//!
//! There is one way to get there: a write failed on every leg for lack of space, so that no leg is
//! to blame, and each may hold any part of it. Until a later write covers the range on all legs,
//! its reads go to one leg, and the array is not clean.

use heliostat_types::{Extent, LegId, LegSet};

/// How many ranges are remembered. A device that is full fails write after write; who goes on
/// writing after that many gets one leg instead of a longer list.
const RANGES_MAX: usize = 1024;

/// The ranges, and the leg that is read there.
#[derive(Debug)]
pub(crate) struct Divergence {
    ranges: Vec<Extent>,
    pin: LegId,
}

impl Divergence {
    pub(crate) fn new() -> Self {
        Self {
            ranges: Vec::new(),
            pin: LegId::new(0),
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Adds a range whose reads have seen, or will see, `pin`; later ranges join the first one's.
    /// `false` where there are too many: then all legs but the pinned one are to be faulted.
    #[must_use]
    pub(crate) fn add(&mut self, extent: Extent, pin: LegId) -> bool {
        if self.ranges.is_empty() {
            self.pin = pin;
        }
        if !self.ranges.iter().any(|range| range.contains(extent)) {
            self.ranges.push(extent);
        }
        self.ranges.len() <= RANGES_MAX
    }

    /// All legs in sync hold the same bytes there now.
    pub(crate) fn remove(&mut self, extent: Extent) {
        if self.ranges.is_empty() {
            return;
        }
        let old = std::mem::take(&mut self.ranges);
        for range in old {
            if !range.overlaps(extent) {
                self.ranges.push(range);
                continue;
            }
            if range.offset() < extent.offset() {
                self.ranges
                    .push(Extent::from_range(range.offset(), extent.offset()));
            }
            if extent.end() < range.end() {
                self.ranges
                    .push(Extent::from_range(extent.end(), range.end()));
            }
        }
    }

    /// The leg that a read must go to, where it touches such a range.
    pub(crate) fn pin_of(&self, extent: Extent) -> Option<LegId> {
        let touches = self.ranges.iter().any(|range| range.overlaps(extent));
        touches.then_some(self.pin)
    }

    /// All such ranges.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Extent> + '_ {
        self.ranges.iter().copied()
    }

    /// From now on another leg is read there, for good.
    pub(crate) const fn re_pin(&mut self, leg: LegId) {
        self.pin = leg;
    }

    /// A leg is out; with one leg left nothing can differ.
    pub(crate) fn leg_is_out(&mut self, leg: LegId, left: LegSet) {
        if left.count() == 1 {
            self.ranges.clear();
        } else if self.pin == leg
            && let Some(next) = left.lowest()
        {
            self.pin = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Extent, LegId, LegSet};

    use super::{Divergence, RANGES_MAX};

    #[test]
    fn a_range_is_pinned_until_it_is_covered() {
        let mut divergence = Divergence::new();
        assert!(divergence.add(Extent::new(0, 8192), LegId::new(1)));
        assert_eq!(
            divergence.pin_of(Extent::new(4096, 512)),
            Some(LegId::new(1))
        );
        divergence.remove(Extent::new(512, 4096));
        assert_eq!(divergence.pin_of(Extent::new(512, 4096)), None);
        assert_eq!(divergence.pin_of(Extent::new(0, 513)), Some(LegId::new(1)));
        divergence.leg_is_out(LegId::new(1), LegSet::first(1).union(LegSet::first(3)));
        assert_eq!(divergence.pin_of(Extent::new(8000, 1)), Some(LegId::new(0)));
        divergence.leg_is_out(LegId::new(2), LegSet::first(1));
        assert!(divergence.is_empty());
    }

    #[test]
    fn the_list_is_bounded() {
        let mut divergence = Divergence::new();
        for n in 0..RANGES_MAX as u64 {
            assert!(divergence.add(Extent::new(n * 8192, 4096), LegId::new(0)));
        }
        assert!(
            divergence.add(Extent::new(0, 512), LegId::new(0)),
            "known already"
        );
        assert!(!divergence.add(Extent::new(4096, 512), LegId::new(0)));
    }
}
