//! A stream read through the page cache of Linux: which requests read-ahead sends, and when.
//!
//! The rules are those of mm/readahead.c (`ondemand_readahead`): the first window is a small
//! multiple of the first read; it carries a mark, and whoever touches the mark sends the next
//! window, two or four times as large until it is as large as it may be, with its mark on its
//! first page. So between one and two windows are ahead of the reader.

use std::collections::{BTreeSet, VecDeque};

use heliostat_types::Extent;

use crate::job::PAGE_BYTES;

/// The pages of one stream. Places are bytes from the start of the first pass over the region and
/// never go back: what a pass has read is gone in the next.
#[derive(Debug)]
pub(crate) struct PageCache {
    region: Extent,
    window_max_bytes: u64,
    /// The largest request that is sent.
    request_max_bytes: u64,
    /// Size of the newest window.
    window_bytes: u64,
    /// Windows were sent or wait to be up to here.
    ahead: u64,
    /// Whoever touches this place sends the next window.
    mark: Option<u64>,
    /// Requests that wait to be sent.
    unsent: VecDeque<(u64, u64)>,
    /// Everything below has arrived.
    arrived: u64,
    /// Places that have arrived out of order.
    arrived_after: BTreeSet<(u64, u64)>,
    /// Clients that wait for an arrival.
    waiters: Vec<usize>,
    has_failed: bool,
}

/// Whether a read can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    /// All of it is there.
    There,
    /// Not yet; up to this place it was.
    Missing(u64),
}

impl PageCache {
    pub(crate) fn new(region: Extent, window_max_bytes: u64, request_max_bytes: u64) -> Self {
        Self {
            region,
            window_max_bytes: window_max_bytes.next_multiple_of(PAGE_BYTES),
            request_max_bytes,
            window_bytes: 0,
            ahead: 0,
            mark: None,
            unsent: VecDeque::new(),
            arrived: 0,
            arrived_after: BTreeSet::new(),
            waiters: Vec::new(),
            has_failed: false,
        }
    }

    /// A read of the places from `at` on, which goes on to `end`; sends windows as it comes along.
    pub(crate) fn touch(&mut self, mut at: u64, end: u64) -> Pages {
        loop {
            if at >= end {
                return Pages::There;
            }
            if at >= self.ahead {
                self.open_window(at, end - at);
            }
            if self.mark.is_some_and(|mark| mark <= at) {
                self.next_window();
            }
            if at >= self.arrived {
                return Pages::Missing(at);
            }
            // On to the next place where something has to be done.
            let stop = self.mark.unwrap_or(end).max(at + 1);
            at = end.min(self.arrived).min(stop);
        }
    }

    /// The next request that has to be sent, and its place.
    pub(crate) fn next_request(&mut self) -> Option<(Extent, u64)> {
        let (from, to) = self.unsent.front_mut()?;
        let place = *from;
        let len = (*to - place).min(self.request_max_bytes);
        *from += len;
        if from == to {
            self.unsent.pop_front();
        }
        let at = self.region.offset() + place % self.region.len();
        Some((Extent::new(at, len), place))
    }

    /// A request was answered.
    pub(crate) fn on_answer(&mut self, place: u64, len: u64, ok: bool) {
        self.has_failed |= !ok;
        self.arrived_after.insert((place, place + len));
        while let Some(&(from, to)) = self.arrived_after.first()
            && from == self.arrived
        {
            self.arrived_after.pop_first();
            self.arrived = to;
        }
    }

    pub(crate) const fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Client number `client` wants to be told of arrivals.
    pub(crate) fn wait(&mut self, client: usize) {
        if !self.waiters.contains(&client) {
            self.waiters.push(client);
        }
    }

    /// Clients that wanted to be told of arrivals.
    pub(crate) const fn waiters(&mut self) -> &mut Vec<usize> {
        &mut self.waiters
    }

    /// Where the pass that holds `place` ends.
    const fn pass_end(&self, place: u64) -> u64 {
        (place / self.region.len() + 1) * self.region.len()
    }

    /// A read of `len` bytes has met a place that nobody has asked for.
    fn open_window(&mut self, at: u64, len: u64) {
        let max = self.window_max_bytes;
        let len = len.next_multiple_of(PAGE_BYTES);
        // get_init_ra_size.
        let rounded = len.next_power_of_two();
        let mut size = if rounded <= max / 32 {
            rounded * 4
        } else if rounded <= max / 4 {
            rounded * 2
        } else {
            max
        };
        let mut mark = at + len.min(size);
        if len >= size {
            // The read would touch its own mark: both windows at once, if they may.
            let next = self.grown(size);
            mark = at + if size + next <= max { size } else { max / 2 };
            size = max.min(size + next);
        }
        self.send(at, size, mark);
    }

    /// The mark was touched.
    fn next_window(&mut self) {
        let at = self.ahead;
        if at == self.pass_end(at - 1) {
            // The end of the file.
            self.mark = None;
            return;
        }
        let size = self.grown(self.window_bytes);
        self.send(at, size, at);
    }

    /// get_next_ra_size.
    fn grown(&self, size: u64) -> u64 {
        let max = self.window_max_bytes;
        if size < max / 16 {
            size * 4
        } else if size <= max / 2 {
            size * 2
        } else {
            max
        }
    }

    fn send(&mut self, at: u64, size: u64, mark: u64) {
        let end = (at + size).min(self.pass_end(at));
        self.window_bytes = size;
        self.ahead = end;
        self.mark = (mark < end).then_some(mark);
        match self.unsent.back_mut() {
            // One plug: neighbours go together.
            Some(last) if last.1 == at && !at.is_multiple_of(self.region.len()) => last.1 = end,
            _ => self.unsent.push_back((at, end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::Extent;

    use super::{PageCache, Pages};

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    fn cache(region_mib: u64) -> PageCache {
        PageCache::new(Extent::new(8 * MIB, region_mib * MIB), 4 * MIB, MIB)
    }

    /// What is sent, in KiB: place and length.
    fn sent(cache: &mut PageCache) -> Vec<(u64, u64)> {
        let requests = std::iter::from_fn(|| cache.next_request());
        requests
            .map(|(extent, place)| {
                assert_eq!(extent.offset(), 8 * MIB + place % cache_len(extent));
                (place / KIB, extent.len() / KIB)
            })
            .collect()
    }

    /// The region of the tests is never passed twice where places are compared.
    fn cache_len(_: Extent) -> u64 {
        u64::MAX
    }

    #[test]
    fn requests_are_as_large_as_they_may_be() {
        let mut cache = PageCache::new(Extent::new(0, 64 * MIB), 4 * MIB, 96 * KIB);
        cache.touch(0, 64 * KIB);
        let lengths: Vec<u64> = std::iter::from_fn(|| cache.next_request())
            .map(|(extent, _)| extent.len() / KIB)
            .collect();
        assert_eq!(lengths, [96, 96, 64]);
    }

    #[test]
    fn windows_grow_and_are_sent_at_their_marks() {
        let mut cache = cache(1024);
        // 64 KiB: 4 MiB / 32 is 128 KiB, so the first window is four times as long.
        assert_eq!(cache.touch(0, 64 * KIB), Pages::Missing(0));
        assert_eq!(sent(&mut cache), [(0, 256)]);
        cache.on_answer(0, 256 * KIB, true);
        assert_eq!(cache.touch(0, 64 * KIB), Pages::There);
        assert_eq!(sent(&mut cache), []);
        // The second read touches the mark: 256 KiB is 4 MiB / 16, so it doubles from there.
        assert_eq!(cache.touch(64 * KIB, 128 * KIB), Pages::There);
        assert_eq!(sent(&mut cache), [(256, 512)]);
        assert_eq!(cache.touch(192 * KIB, 256 * KIB), Pages::There);
        assert_eq!(sent(&mut cache), []);
        assert_eq!(cache.touch(256 * KIB, 320 * KIB), Pages::Missing(256 * KIB));
        assert_eq!(sent(&mut cache), [(768, 1024)]);
        cache.on_answer(256 * KIB, 512 * KIB, true);
        cache.on_answer(768 * KIB, MIB, true);
        assert_eq!(cache.touch(768 * KIB, 832 * KIB), Pages::There);
        assert_eq!(sent(&mut cache), [(1792, 1024), (2816, 1024)]);
        cache.on_answer(1792 * KIB, MIB, true);
        cache.on_answer(2816 * KIB, MIB, true);
        for at in 1..60 {
            cache.touch((1792 + at * 64) * KIB, (1856 + at * 64) * KIB);
            let requests = sent(&mut cache);
            assert!(requests.len() <= 4, "4 MiB are the most");
            for (place, len) in requests {
                cache.on_answer(place * KIB, len * KIB, true);
            }
        }
        assert!(cache.ahead > 8 * MIB);
    }

    #[test]
    fn a_read_above_the_window_takes_it_whole() {
        let mut cache = PageCache::new(Extent::new(0, 64 * MIB), 128 * KIB, MIB);
        assert_eq!(cache.touch(0, MIB), Pages::Missing(0));
        let requests: Vec<_> = std::iter::from_fn(|| cache.next_request()).collect();
        assert_eq!(requests, [(Extent::new(0, 128 * KIB), 0)]);
        cache.on_answer(0, 128 * KIB, true);
        // On the way to its end the read touches the mark in the middle.
        assert_eq!(cache.touch(0, MIB), Pages::Missing(128 * KIB));
        assert!(cache.ahead >= 256 * KIB);
    }

    #[test]
    fn the_end_of_the_region_ends_a_window_and_the_next_pass_begins_anew() {
        let mut cache = cache(1);
        cache.touch(0, MIB);
        assert_eq!(sent(&mut cache), [(0, 1024)]);
        cache.on_answer(0, MIB, true);
        assert_eq!(cache.touch(0, MIB), Pages::There);
        assert_eq!(sent(&mut cache), []);
        assert_eq!(cache.touch(MIB, 2 * MIB), Pages::Missing(MIB));
        let (extent, place) = cache.next_request().unwrap();
        assert_eq!((extent, place), (Extent::new(8 * MIB, MIB), MIB));
    }

    #[test]
    fn arrivals_out_of_order_wait_for_each_other() {
        let mut cache = cache(64);
        cache.touch(0, 4 * MIB);
        assert_eq!(sent(&mut cache).len(), 4);
        cache.on_answer(MIB, MIB, true);
        assert_eq!(cache.touch(0, MIB), Pages::Missing(0));
        cache.on_answer(0, MIB, true);
        assert_eq!(cache.touch(0, 2 * MIB), Pages::There);
        assert!(!cache.has_failed());
        cache.on_answer(3 * MIB, MIB, false);
        assert!(cache.has_failed());
    }
}
