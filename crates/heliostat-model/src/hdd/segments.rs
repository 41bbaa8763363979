//! What a hard disk has in its cache: a few runs of bytes that were read, oldest first.

use heliostat_types::Extent;

/// The cache's segments.
#[derive(Clone, Debug)]
pub(super) struct Segments {
    /// The one extended last is the last one.
    segments: Vec<Extent>,
    count_max: usize,
    segment_bytes: u64,
}

impl Segments {
    pub(super) fn new(count_max: usize, segment_bytes: u64) -> Self {
        Self {
            segments: Vec::with_capacity(count_max + 1),
            count_max,
            segment_bytes,
        }
    }

    /// Takes out the segment that holds the byte before or at `start`, so that a read from there
    /// would extend it.
    pub(super) fn take_extendable(&mut self, start: u64) -> Option<Extent> {
        let at = self
            .segments
            .iter()
            .position(|segment| segment.offset() <= start && start <= segment.end())?;
        Some(self.segments.remove(at))
    }

    /// The end of the cached run that holds `start`, or `start` where there is none.
    pub(super) fn cached_until(&self, start: u64) -> u64 {
        self.segments
            .iter()
            .filter(|segment| segment.offset() <= start && start <= segment.end())
            .map(|segment| segment.end())
            .max()
            .unwrap_or(start)
    }

    /// Puts a run in as the newest one, cut to a segment's size from its front; returns what is
    /// kept of it, and whether an old run had to go.
    pub(super) fn put(&mut self, run: Extent) -> (Extent, bool) {
        let start = run
            .offset()
            .max(run.end().saturating_sub(self.segment_bytes));
        let kept = Extent::from_range(start, run.end());
        self.segments.push(kept);
        let is_full = self.segments.len() > self.count_max;
        if is_full {
            self.segments.remove(0);
        }
        (kept, is_full)
    }

    /// Forgets whatever a write overlaps; whether there was any.
    pub(super) fn invalidate(&mut self, written: Extent) -> bool {
        let before = self.segments.len();
        self.segments.retain(|segment| !segment.overlaps(written));
        self.segments.len() < before
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::Extent;

    use super::Segments;

    #[test]
    fn the_oldest_goes_first() {
        let mut segments = Segments::new(2, 100);
        segments.put(Extent::new(0, 10));
        segments.put(Extent::new(1000, 10));
        let first = segments.take_extendable(10).unwrap();
        segments.put(Extent::from_range(first.offset(), 150));
        assert_eq!(segments.cached_until(60), 150);
        assert_eq!(segments.cached_until(40), 40, "cut to 100 bytes");
        segments.put(Extent::new(2000, 10));
        assert_eq!(segments.cached_until(1005), 1005, "gone");
        segments.invalidate(Extent::new(2009, 1));
        assert_eq!(segments.cached_until(2000), 2000);
        assert_eq!(segments.cached_until(149), 150);
    }
}
