//! What the models share about time: a queue of what happens when, and how long bytes take.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use heliostat_types::{Duration, Instant};

/// What happens when: by moment, and in the order of insertion where moments are equal.
#[derive(Clone, Debug)]
pub(crate) struct TimeQueue<T> {
    heap: BinaryHeap<Reverse<(Instant, u64, T)>>,
    inserted_count: u64,
}

impl<T: Ord> TimeQueue<T> {
    pub(crate) fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            inserted_count: 0,
        }
    }

    /// `item` happens at `at`.
    pub(crate) fn push(&mut self, at: Instant, item: T) {
        self.heap.push(Reverse((at, self.inserted_count, item)));
        self.inserted_count += 1;
    }

    /// When the first item happens.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// The first item and its moment, where that has come by `now`.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(Instant, T)> {
        if self.next_at()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((at, _, item))| (at, item))
    }
}

/// The earlier of two moments that may not exist.
pub(crate) fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// How long `len_bytes` take at a rate, rounded up to whole nanoseconds.
pub(crate) fn transfer_time(len_bytes: u64, bytes_per_s: u64) -> Duration {
    const NS_PER_S: u64 = 1_000_000_000;
    let ns = match len_bytes.checked_mul(NS_PER_S) {
        Some(product) => product.div_ceil(bytes_per_s),
        // Above 18 GB at once, as a trim may be.
        None => {
            let ns = (u128::from(len_bytes) * u128::from(NS_PER_S)).div_ceil(bytes_per_s.into());
            u64::try_from(ns).unwrap_or(u64::MAX)
        }
    };
    Duration::from_ns(ns)
}

/// A cap on bytes per second, enforced evenly: what comes waits for what came before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gate {
    /// 0: everything passes at once.
    bytes_per_s: u64,
    free_at: Instant,
}

impl Gate {
    pub(crate) const fn new(bytes_per_s: u64) -> Self {
        Self {
            bytes_per_s,
            free_at: Instant::ZERO,
        }
    }

    /// When bytes that come at `at` are through.
    pub(crate) fn pass(&mut self, at: Instant, len_bytes: u64) -> Instant {
        if self.bytes_per_s == 0 {
            return at;
        }
        self.free_at = self.free_at.max(at) + transfer_time(len_bytes, self.bytes_per_s);
        self.free_at
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Duration, Instant};

    use super::{TimeQueue, transfer_time};

    #[test]
    fn items_come_by_time_then_by_insertion() {
        let mut queue = TimeQueue::new();
        for (at, item) in [(20, 'c'), (10, 'b'), (20, 'a')] {
            queue.push(Instant::from_ns(at), item);
        }
        assert_eq!(queue.next_at(), Some(Instant::from_ns(10)));
        assert_eq!(queue.pop_due(Instant::from_ns(9)), None);
        let mut order = String::new();
        while let Some((_, item)) = queue.pop_due(Instant::from_ns(20)) {
            order.push(item);
        }
        assert_eq!(order, "bca");
    }

    #[test]
    fn transfer_times_round_up() {
        assert_eq!(transfer_time(1, 3_000_000_000), Duration::from_ns(1));
        assert_eq!(transfer_time(0, 5), Duration::ZERO);
        assert_eq!(
            transfer_time(40_000_000_000, 1_000_000_000),
            Duration::from_secs(40)
        );
        assert_eq!(transfer_time(u64::MAX, 1), Duration::MAX);
    }
}
