//! What is known of one stream.

use std::collections::VecDeque;

use heliostat_types::{Duration, Extent, Instant, LegId, LegSet};

use super::beliefs::Ahead;
use super::plan::Lane;
use super::{
    CHANCE_TIMES, CHANCE_TIMES_READ, CHANGED_SHARE, CONFIRMED_BYTES, CONFIRMED_READS, GAP_SHARE,
    LONG_BYTES, OVER_AFTER, QUIET_MIN, QUIET_TIMES, TOLERANCE_BYTES,
};

/// One stream.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    /// Which one it is of all there ever were.
    pub(super) number: u64,
    /// Where it goes on.
    pub(super) next: u64,
    /// How far it has been read.
    pub(super) run_bytes: u64,
    /// In how many reads,
    pub(super) reads: u32,
    /// and how much of all that was read went on with nothing before the last one.
    pub(super) at_random_bytes: u64,
    /// Nobody is to read what is behind this yet.
    pub(super) planned: u64,
    pub(super) last: Instant,
    /// About the longest time between two reads of late.
    pub(super) gap: Duration,
    /// How long its reader may have to wait for a leg.
    pub(super) wait: Duration,
    /// How much of what it is to read next somebody has changed, less a share of what it has read,
    pub(super) changed_bytes: u64,
    /// and when that was too much last.
    pub(super) written: Option<Instant>,
    /// Of how many of its reads nothing behind them was asked for until they were answered, as far
    /// as nothing was read ahead.
    pub(super) lone: f32,
    /// And of how many as much was behind them as would be read ahead.
    pub(super) deep: f32,
    /// What was done about it when it was read last.
    pub(super) how: Ahead,
    /// The legs that read all of it; in a RAID10 one of each group of legs,
    pub(super) homes: LegSet,
    /// and the chunk that it was at when it got them.
    pub(super) housed: Option<u64>,
    /// What legs are to read, in order, and were not asked for yet.
    pub(super) stretches: Vec<Stretch>,
    /// In a RAID10, the stretches that legs are to go on with,
    pub(super) lanes: Vec<Lane>,
    /// and what is not read ahead although something behind it is.
    pub(super) skipped: VecDeque<Extent>,
}

/// What a leg is to read at one place; in a RAID10 as much of that as lies in one chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub(super) leg: LegId,
    /// In the array,
    pub(super) extent: Extent,
    /// and where that begins on the leg.
    pub(super) address: u64,
    /// How many were planned before.
    pub(super) number: u64,
    /// The leg has to get there.
    pub(super) begins: bool,
}

impl Stream {
    /// One whose second read this is, before which so much was read in all that went on with
    /// nothing.
    pub(super) fn new(number: u64, now: Instant, second: Extent, at_random_bytes: u64) -> Self {
        Self {
            number,
            next: second.end(),
            run_bytes: second.len().saturating_mul(2),
            reads: 2,
            at_random_bytes,
            planned: second.end(),
            last: now,
            gap: Duration::ZERO,
            wait: Duration::ZERO,
            changed_bytes: 0,
            written: None,
            lone: 0.0,
            deep: 0.0,
            how: Ahead::NoLeg,
            homes: LegSet::EMPTY,
            housed: None,
            stretches: Vec::new(),
            lanes: Vec::new(),
            skipped: VecDeque::new(),
        }
    }

    /// One more read goes on with it.
    pub(super) fn read(&mut self, now: Instant, extent: Extent, at_random_bytes: u64) {
        let is_chance = self.is_chance(now, extent.len(), at_random_bytes);
        self.at_random_bytes = at_random_bytes;
        self.goes_on(extent.end());
        if is_of_late(now, self.last) && !is_chance {
            let gap = now.saturating_since(self.last);
            let known_ns = self.gap.as_ns();
            let known_ns = known_ns - known_ns / GAP_SHARE.get().max(1);
            self.gap = Duration::from_ns(known_ns).max(gap);
        } else {
            // What was read ahead of it may have been given back, and who reads at random comes by
            // where it ended, too. Its pause says nothing of how it reads.
            self.forget_plan();
            (self.run_bytes, self.reads) = (0, 0);
            self.gap = Duration::ZERO;
            self.housed = None;
            (self.lone, self.deep) = (0.0, 0.0);
        }
        self.run_bytes = self.run_bytes.saturating_add(extent.len());
        self.reads = self.reads.saturating_add(1);
        let forgiven = extent.len() / CHANGED_SHARE.get();
        self.changed_bytes = self.changed_bytes.saturating_sub(forgiven);
        self.last = now;
    }

    /// Whether so much else was read at random meanwhile that one of it may have come by here.
    fn is_chance(&self, now: Instant, len: u64, at_random_bytes: u64) -> bool {
        let times = if self.is_read(now) {
            CHANCE_TIMES_READ.get()
        } else {
            CHANCE_TIMES.get()
        };
        let most = len.max(LONG_BYTES.get()).saturating_mul(times);
        at_random_bytes - self.at_random_bytes > most
    }

    /// Whether it is one, and not over.
    pub(super) fn is_read(&self, now: Instant) -> bool {
        let is_long = self.run_bytes >= CONFIRMED_BYTES.get();
        is_long && self.reads >= CONFIRMED_READS.get() && is_of_late(now, self.last)
    }

    pub(super) fn is_confirmed(&self, now: Instant) -> bool {
        self.is_read(now) && !self.written.is_some_and(|at| is_of_late(now, at))
    }

    /// Whether it has its part of legs and memory.
    pub(super) fn is_active(&self, now: Instant) -> bool {
        let gap_ns = self.gap.as_ns().saturating_mul(QUIET_TIMES.get());
        let quiet = Duration::from_ns(gap_ns).max(QUIET_MIN.get());
        let quiet = quiet.max(self.wait);
        self.is_confirmed(now) && now.saturating_since(self.last) <= quiet
    }

    /// Whether a read there goes on with it. Where it was over for an hour, a read beside its end
    /// is one at random.
    pub(super) fn is_near(&self, now: Instant, offset: u64) -> bool {
        let distance = self.next.abs_diff(offset);
        distance == 0 || distance <= TOLERANCE_BYTES.get() && self.is_read(now)
    }

    /// How much of it is read ahead, or is to be.
    pub(super) fn ahead_bytes(&self) -> u64 {
        let skipped = self.skipped.iter().map(|extent| {
            let begins = extent.offset().max(self.next);
            extent.end().saturating_sub(begins)
        });
        (self.planned - self.next).saturating_sub(skipped.sum())
    }

    /// How much of that legs were asked for.
    pub(super) fn asked_bytes(&self) -> u64 {
        let begins = |stretch: &Stretch| stretch.extent.offset().max(self.next);
        let stretches = self.stretches.iter();
        let unasked = stretches.map(|stretch| stretch.extent.end().saturating_sub(begins(stretch)));
        self.ahead_bytes().saturating_sub(unasked.sum())
    }

    /// It is read on to `end`, or was.
    pub(super) fn goes_on(&mut self, end: u64) {
        self.next = self.next.max(end);
        self.planned = self.planned.max(self.next);
        while let Some(first) = self.skipped.front()
            && first.end() <= self.next
        {
            self.skipped.pop_front();
        }
    }

    /// What is read ahead of it, or is to be.
    pub(super) fn ahead(&self) -> Option<Extent> {
        (self.planned > self.next).then(|| Extent::from_range(self.next, self.planned))
    }

    /// Nothing is to be read ahead of it any more.
    pub(super) fn forget_plan(&mut self) {
        self.planned = self.next;
        self.stretches.clear();
        self.lanes.clear();
        self.skipped.clear();
    }
}

/// The part of the array that an offset lies in: what is near to each other lies in the same, or in
/// two beside each other.
pub(super) fn part_of(offset: u64) -> u64 {
    offset / (2 * TOLERANCE_BYTES.get())
}

pub(super) fn is_of_late(now: Instant, at: Instant) -> bool {
    now.saturating_since(at) < OVER_AFTER.get()
}
