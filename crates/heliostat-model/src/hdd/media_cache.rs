//! The media cache of a shingled disk: a log of tracks that do not overlap, which takes the writes
//! that come in no order until bands of shingled tracks are written anew with them.

use std::collections::{BTreeMap, VecDeque};

use heliostat_types::Extent;

use super::write_cache::SLOT_BYTES;

/// What lies in the media cache, and which streams go past it.
#[derive(Clone, Debug)]
pub(super) struct MediaCache {
    /// 0: the disk is not shingled.
    capacity_bytes: u64,
    band_bytes: u64,
    used_bytes: u64,
    /// Where the next write goes, from the start of the log.
    head: u64,
    /// Bands with writes in the log: how many bytes of it they hold.
    bands: BTreeMap<u64, u64>,
    /// The same bands, in the order of their oldest writes.
    order: VecDeque<u64>,
    /// Where streams of writes have come to; the one written last is the last one.
    stream_ends: Vec<u64>,
}

/// Streams that the disk tells apart. An assumption.
const STREAM_COUNT_MAX: usize = 8;

impl MediaCache {
    pub(super) const fn new(capacity_bytes: u64, band_bytes: u64) -> Self {
        Self {
            capacity_bytes,
            band_bytes,
            used_bytes: 0,
            head: 0,
            bands: BTreeMap::new(),
            order: VecDeque::new(),
            stream_ends: Vec::new(),
        }
    }

    /// A write has come. Whether it goes to the log: on a shingled disk what goes on where no
    /// stream of writes had come to.
    pub(super) fn takes(&mut self, written: Extent) -> bool {
        if self.capacity_bytes == 0 {
            return false;
        }
        let followed = |end: &u64| *end == written.offset();
        let stream = self.stream_ends.iter().position(followed);
        if let Some(index) = stream {
            self.stream_ends.remove(index);
        } else if self.stream_ends.len() == STREAM_COUNT_MAX {
            self.stream_ends.remove(0);
        }
        self.stream_ends.push(written.end());
        stream.is_none()
    }

    /// Whether the log has room for a write.
    pub(super) fn has_room(&self, written: Extent) -> bool {
        self.used_bytes == 0 || self.used_bytes + log_bytes(written) <= self.capacity_bytes
    }

    /// Whether there is anything to clean.
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Where in the log the next write begins.
    pub(super) const fn head(&self) -> u64 {
        self.head
    }

    /// A write is in the log.
    pub(super) fn append(&mut self, written: Extent) {
        let bytes = log_bytes(written);
        self.used_bytes += bytes;
        self.head = (self.head + bytes) % self.capacity_bytes;
        let band = written.offset() / self.band_bytes;
        let held = self.bands.entry(band).or_insert(0);
        if *held == 0 {
            self.order.push_back(band);
        }
        *held += bytes;
    }

    /// The band to write anew: the one whose writes have been in the log for longest.
    pub(super) fn oldest_band(&self, size_bytes: u64) -> Option<Extent> {
        let start = self.order.front()? * self.band_bytes;
        Some(Extent::from_range(
            start,
            (start + self.band_bytes).min(size_bytes),
        ))
    }

    /// That band is clean: its writes have left the log.
    pub(super) fn cleaned(&mut self) {
        let band = self.order.pop_front().expect("a band was cleaned");
        let held = self.bands.remove(&band).expect("it had writes in the log");
        self.used_bytes -= held;
    }
}

/// How much of the log a write takes: with its header and its place in the map, a slot at least.
pub(super) fn log_bytes(written: Extent) -> u64 {
    written.len().max(SLOT_BYTES)
}

#[cfg(test)]
mod tests {
    use heliostat_types::Extent;

    use super::{MediaCache, SLOT_BYTES};

    #[test]
    fn bands_are_cleaned_oldest_first_and_give_back_all_they_hold() {
        let mut cache = MediaCache::new(4 * SLOT_BYTES, 1 << 20);
        for offset in [5 << 20, 1 << 20, (5 << 20) + 8192, 9 << 20] {
            let written = Extent::new(offset, 4096);
            assert!(cache.takes(written) && cache.has_room(written));
            cache.append(written);
        }
        let next = Extent::new(7 << 20, 4096);
        assert!(cache.takes(next) && !cache.has_room(next));
        assert_eq!(
            cache.oldest_band(1 << 40),
            Some(Extent::new(5 << 20, 1 << 20))
        );
        cache.cleaned();
        assert_eq!(cache.used_bytes, 2 * SLOT_BYTES);
        assert!(cache.has_room(next));
        assert_eq!(
            cache.oldest_band(1 << 40),
            Some(Extent::new(1 << 20, 1 << 20))
        );
    }

    #[test]
    fn streams_go_past_it() {
        let mut cache = MediaCache::new(1 << 30, 1 << 20);
        assert!(cache.takes(Extent::new(0, 4096)));
        assert!(!cache.takes(Extent::new(4096, 4096)));
        assert!(cache.takes(Extent::new(4096, 1)), "not where it ended");
        assert!(!cache.takes(Extent::new(8192, 4096)));
        for n in 1..=8 {
            assert!(cache.takes(Extent::new(n << 20, 4096)));
        }
        assert!(cache.takes(Extent::new(12_288, 1)), "forgotten");
        assert!(!MediaCache::new(0, 1).takes(Extent::new(0, 1)));
    }
}
