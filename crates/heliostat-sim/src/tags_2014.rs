//! `none-2014`: how requests got past a block device of Linux of 2014 that had no scheduler, as far
//! as it matters here: first come, first served among those that are in, and a limited number of
//! tags that let them in.
//!
//! The rules are those of `__get_request`, `get_request` and `__freed_request` of
//! `block/blk-core.c`, Linux 3.15, and each client is a process that asks from one thread:
//!
//! * There are 128 tags (`nr_requests`), and half as many more for processes that are *batching*.
//! * Whoever takes the last tag becomes batching, and the pool is full: until a tag is free again
//!   only those that are batching may take one.
//! * Who gets none sleeps, behind all others that sleep (`prepare_to_wait_exclusive`), and asks for
//!   nothing meanwhile. A tag that comes back below the limit wakes one of them, the first, and
//!   ends that the pool is full. Who was woken is batching: it may take 32 tags within 20 ms.
//!   Before it runs, whoever does not sleep may take what came back; then it sleeps again, and
//!   behind all others.
//!
//! So a turn is 32 requests of one process, however large, and a process that has one small request
//! waits for 32 large ones of each process before it.

use std::collections::{BTreeMap, VecDeque};

use heliostat_types::{Duration, Instant};

/// `BLKDEV_MAX_RQ`.
const TAGS: u32 = 128;
/// What batching processes may have in all.
const TAGS_BATCHING: u32 = TAGS * 3 / 2;
/// `BLK_BATCH_REQ`.
const BATCH: u32 = 32;
/// `BLK_BATCH_TIME`.
const BATCH_TIME: Duration = Duration::from_ms(20);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Tags {
    in_use: u32,
    is_full: bool,
    processes: BTreeMap<usize, Process>,
    /// Those that sleep, in the order in which they are woken.
    sleepers: VecDeque<usize>,
}

/// One client, and what of it has no tag.
#[derive(Debug, Default)]
struct Process {
    requests: VecDeque<u64>,
    sleeps: bool,
    /// How many tags it may still take as a batch.
    batch_left: u32,
    woken_at: Instant,
}

impl Process {
    /// `ioc_batching`: one that has taken nothing yet may, however late it comes.
    fn is_batching(&self, now: Instant) -> bool {
        let is_in_time = now.saturating_since(self.woken_at) < BATCH_TIME;
        self.batch_left == BATCH || self.batch_left > 0 && is_in_time
    }

    /// `ioc_set_batching`.
    fn begin_batch(&mut self, now: Instant) {
        if !self.is_batching(now) {
            self.batch_left = BATCH;
            self.woken_at = now;
        }
    }
}

impl Tags {
    /// A process has one more request. Those that have a tag now.
    pub(crate) fn ask(&mut self, now: Instant, process: usize, request: u64) -> Vec<u64> {
        let asks = self.processes.entry(process).or_default();
        asks.requests.push_back(request);
        self.run(now, process)
    }

    /// A request that had a tag is done. Those that have a tag now.
    pub(crate) fn give_back(&mut self, now: Instant) -> Vec<u64> {
        self.in_use -= 1;
        if self.in_use + 1 > TAGS {
            return Vec::new();
        }
        self.is_full = false;
        let Some(woken) = self.sleepers.pop_front() else {
            return Vec::new();
        };
        let process = self.processes.entry(woken).or_default();
        process.sleeps = false;
        process.begin_batch(now);
        self.run(now, woken)
    }

    /// A process takes tags until it has no request without one, or sleeps.
    fn run(&mut self, now: Instant, number: usize) -> Vec<u64> {
        let mut granted = Vec::new();
        let process = self.processes.entry(number).or_default();
        while !process.sleeps && !process.requests.is_empty() {
            if self.in_use + 1 >= TAGS {
                if !self.is_full {
                    process.begin_batch(now);
                    self.is_full = true;
                } else if !process.is_batching(now) {
                    process.sleeps = true;
                }
            }
            process.sleeps |= self.in_use >= TAGS_BATCHING;
            if process.sleeps {
                self.sleepers.push_back(number);
                break;
            }
            self.in_use += 1;
            if process.is_batching(now) {
                process.batch_left -= 1;
            }
            granted.extend(process.requests.pop_front());
        }
        granted
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Duration, Instant};

    use super::{BATCH, TAGS, TAGS_BATCHING, Tags};

    fn ask_all(tags: &mut Tags, process: usize, count: u64) -> usize {
        let first = process as u64 * 1000;
        let granted =
            (first..first + count).map(|request| tags.ask(Instant::ZERO, process, request));
        granted.map(|granted| granted.len()).sum()
    }

    #[test]
    fn whoever_fills_the_pool_may_take_a_batch_more_and_the_next_sleeps() {
        let mut tags = Tags::default();
        assert_eq!(ask_all(&mut tags, 1, 400), (TAGS - 1 + BATCH) as usize);
        assert_eq!(ask_all(&mut tags, 2, 5), 0);
        assert_eq!(tags.sleepers, [1, 2]);
    }

    #[test]
    fn a_tag_that_comes_back_wakes_the_first_sleeper_for_a_batch() {
        let mut tags = Tags::default();
        ask_all(&mut tags, 1, 400);
        ask_all(&mut tags, 2, 100);
        ask_all(&mut tags, 3, 1);
        let later = Instant::ZERO + Duration::from_secs(1);
        // Above the limit nobody is woken.
        for _ in 0..BATCH - 2 {
            assert!(tags.give_back(later).is_empty());
        }
        assert_eq!(tags.give_back(later).len(), 32, "process 1 again");
        assert_eq!(tags.sleepers, [2, 3, 1]);
        for _ in 0..BATCH - 1 {
            assert!(tags.give_back(later).is_empty());
        }
        let granted = tags.give_back(later);
        assert_eq!(granted, (2000..2032).collect::<Vec<u64>>());
    }

    #[test]
    fn a_small_request_waits_for_the_batches_of_all_before_it() {
        let mut tags = Tags::default();
        for process in 0..10 {
            ask_all(&mut tags, process, 200);
        }
        ask_all(&mut tags, 10, 1);
        let mut others = 0;
        let now = Instant::ZERO + Duration::from_secs(1);
        loop {
            let granted = tags.give_back(now);
            assert!(tags.in_use <= TAGS_BATCHING);
            if granted.contains(&10_000) {
                break;
            }
            others += granted.len();
        }
        assert!(others >= 9 * BATCH as usize, "{others}");
    }
}
