//! How many reads that continue no stream wait at a time, on average, and how many writes.

use heliostat_types::{Duration, Instant};

use crate::constants::constants;
use crate::stream_index::place_of;

use super::pace::Pace;

/// Reads in flight that are followed, by a hash of where they begin.
const FOLLOWED: usize = 256;
constants! { "at_random":
    /// What hard disks answer in less is chance; so many answers are none,
    WINDOW: Duration = time(Duration::from_ms(500));
    WINDOW_READS: u32 = count(64);
    /// where they took longer than a burst does.
    WINDOW_MIN: Duration = time(Duration::from_ms(10));
    /// Where all is flash so many are enough after a tenth of the time: it answers few where each
    /// waits behind what is read ahead.
    WINDOW_FLASH: Duration = time(Duration::from_ms(50));
    WINDOW_ANSWERS: u32 = count(4);
    /// Others read at random where somebody waits for such a read half of the time.
    WAITING_MIN: f32 = number(0.5);
}

#[derive(Debug)]
pub(super) struct AtRandom {
    /// Where each begins in the array: parts of a read of a RAID10 are at the same place of several
    /// legs. And when it was sent; what is never answered is replaced.
    sent: Vec<(u64, Instant)>,
    /// For how long those have waited that were answered since then.
    waited_ns: u64,
    answers: u32,
    since: Instant,
    waiting: f32,
    /// How many short writes wait for the leg that most wait for,
    writing: f32,
    /// and how many it answers, in one ns.
    writes: f32,
    /// What such a read took, in ns; 0: not known.
    mean_ns: f32,
}

impl AtRandom {
    pub(super) fn new() -> Self {
        Self {
            sent: vec![(u64::MAX, Instant::ZERO); FOLLOWED],
            waited_ns: 0,
            answers: 0,
            since: Instant::ZERO,
            waiting: 0.0,
            writing: 0.0,
            writes: 0.0,
            mean_ns: 0.0,
        }
    }

    pub(super) fn sent(&mut self, now: Instant, offset: u64) {
        self.sent[place_of(offset)] = (offset, now);
    }

    /// Whether it was such a read.
    pub(super) fn answered(&mut self, now: Instant, offset: u64) -> bool {
        let sent = &mut self.sent[place_of(offset)];
        let is_one = sent.0 == offset;
        if is_one {
            let waited_ns = now.saturating_since(sent.1).as_ns();
            self.waited_ns = self.waited_ns.saturating_add(waited_ns);
            self.answers = self.answers.saturating_add(1);
            sent.0 = u64::MAX;
        }
        is_one
    }

    /// By Little's law: what all have waited together, by how long that was.
    pub(super) fn update(&mut self, now: Instant, are_flash: bool, paces: &mut [Pace]) {
        let passed = now.saturating_since(self.since);
        // One that waits for a pause of its leg is nobody who reads at random.
        let are_some = || {
            let short = paces.iter().map(Pace::short_writes).max();
            self.answers.max(short.unwrap_or(0)) >= WINDOW_ANSWERS.get()
        };
        let is_short = are_flash && passed >= WINDOW_FLASH.get() && are_some();
        let window = if is_short { WINDOW_FLASH } else { WINDOW }.get();
        let is_enough = self.answers >= WINDOW_READS.get() && passed >= WINDOW_MIN.get();
        if passed < window && !is_enough {
            return;
        }
        let passed_ns = passed.as_ns() as f32;
        // Half of it, or more after a pause.
        let weight = passed_ns / (passed_ns + passed.min(window).as_ns() as f32);
        self.waiting += weight * (self.waited_ns as f32 / passed_ns - self.waiting);
        let written = paces.iter_mut().map(Pace::take_short_writes);
        let (written_ns, writes) = written.max().unwrap_or((0, 0));
        self.writing += weight * (written_ns as f32 / passed_ns - self.writing);
        self.writes += weight * (writes as f32 / passed_ns - self.writes);
        if self.answers > 0 {
            self.mean_ns = self.waited_ns as f32 / self.answers as f32;
        }
        (self.waited_ns, self.answers, self.since) = (0, 0, now);
    }

    /// What such a read took of late, in ns; 0: not known.
    pub(super) const fn mean_ns(&self) -> f32 {
        self.mean_ns
    }

    /// Whether somebody waits half of the time, and for writes half of that.
    pub(super) fn are_writers(&self) -> bool {
        let enough = WAITING_MIN.get();
        self.waiting + self.writing >= enough && self.writing >= enough / 2.0
    }

    /// How many short writes the leg answers that most wait for, in one ns.
    pub(super) const fn writes(&self) -> f32 {
        self.writes
    }

    /// How many wait; 0 where that is seldom.
    pub(super) fn waiting(&self) -> f32 {
        if self.waiting < WAITING_MIN.get() {
            0.0
        } else {
            self.waiting
        }
    }
}
