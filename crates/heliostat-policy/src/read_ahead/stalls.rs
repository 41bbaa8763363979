//! Disks at which writes stall now and then, by what streams read there.
//!
//! Who writes a log waits for each write. Disks take most of them into a cache, and one of a
//! thousand waits until an arm has read and come back. An old disk does that for long, and has
//! little of what is read in sequence: streams do without a disk that costs who writes far more of
//! the time than it gives them. It may stall by itself. So what it is worth is seen when it is
//! left, and it is back from time to time.

use heliostat_types::{Duration, Instant, LEGS_MAX, LegId, LegSet};

use crate::api::LegView;
use crate::constants::constants;

use super::waited::weight;

constants! { "stalls":
    /// What is known of a disk is of so long, and of so long at least; in half of that it is known
    /// what comes of leaving it, and in an eighth whether that is to be done again.
    TIME: Duration = time(Duration::from_secs(8));
    /// It is left where the part of the time in which only it has something to write is so many
    /// times its share of what is read in sequence. That was in vain where the rest of the time
    /// becomes longer by fewer times than streams have less.
    TIMES: f32 = times(3.0);
    /// That is so much at least, or it costs nobody anything,
    SHARE: f32 = number(1.0 / 64.0);
    /// and no other one is the only one in so much of that time: equal disks stall in turns.
    OTHERS: f32 = number(0.25);
    /// It is back after so long, or not left again, and after four times as long each time, up to
    /// so long: what is lost by that is less than one part of 100 in the end.
    WAIT: Duration = time(Duration::from_secs(32));
    WAIT_TIMES: u64 = count(4);
    WAIT_MAX: Duration = time(Duration::from_secs(512));
    /// All of that is over where nothing was written for so long.
    PAUSE: Duration = time(Duration::from_secs(1));
}

/// What is known of one disk.
#[derive(Clone, Copy, Debug)]
struct Stalling {
    /// For how long it has been seen since it was left, or was back.
    seen: Duration,
    /// In which part of the time of late only it has had something to write,
    alone: f32,
    /// and what it was when it was left, and its share of what was read.
    before: Option<(f32, f32)>,
    /// How much streams have read there of late, and how much since that was looked at.
    read_bytes: f32,
    new_bytes: u64,
    /// Until when it stays as it is.
    until: Instant,
    wait: Duration,
    /// Whether it was left, and that was worth it.
    was_worth: bool,
}

impl Stalling {
    fn new() -> Self {
        Self {
            seen: Duration::ZERO,
            alone: 0.0,
            before: None,
            read_bytes: 0.0,
            new_bytes: 0,
            until: Instant::ZERO,
            wait: WAIT.get(),
            was_worth: false,
        }
    }

    /// In `since` only it had something to write, or not.
    fn note(&mut self, since: Duration, is_alone: bool) {
        self.seen += since;
        // All that was seen counts alike in the beginning.
        let all = since.as_ns() as f32 / self.seen.as_ns().max(1) as f32;
        let part = weight(since, TIME.get());
        self.alone += part.max(all) * (f32::from(u8::from(is_alone)) - self.alone);
        let new_bytes = std::mem::take(&mut self.new_bytes);
        self.read_bytes = self.read_bytes * (1.0 - part) + new_bytes as f32;
    }

    /// It is left, or back.
    fn turn(&mut self, now: Instant, before: Option<(f32, f32)>) {
        (self.before, self.alone) = (before, 0.0);
        self.seen = Duration::ZERO;
        self.until = now + self.wait;
    }

    /// It was left, and nothing has become better by that.
    fn is_in_vain(&self, (alone, share): (f32, f32)) -> bool {
        let [rest, rest_before] = [self.alone, alone].map(|alone| 1.0 - alone);
        self.seen >= TIME.get() / 2 && rest * (1.0 - share) < rest_before
    }

    /// Whether a disk that is left is back: it may be another time.
    fn comes_back(&mut self, now: Instant, before: (f32, f32)) -> bool {
        let is_in_vain = self.is_in_vain(before);
        if now < self.until && !is_in_vain {
            return false;
        }
        self.turn(now, None);
        let longer = self.wait.as_ns().saturating_mul(WAIT_TIMES.get());
        self.wait = Duration::from_ns(longer).min(WAIT_MAX.get());
        self.was_worth = !is_in_vain;
        if self.was_worth {
            self.until = now;
        }
        true
    }

    /// What it costs who writes, and its share of what is read of all legs, where that is far less.
    /// Others cost `others` at most.
    fn costs_much(&self, now: Instant, all_bytes: f32, others: f32) -> Option<(f32, f32)> {
        let share = self.read_bytes / all_bytes.max(1.0);
        let enough = if self.was_worth {
            TIME.get() / 8
        } else {
            TIME.get()
        };
        let is_known = self.seen >= enough && now >= self.until;
        let is_much = self.alone >= TIMES.get() * share;
        let is_it = share >= SHARE.get() && others <= OTHERS.get() * self.alone;
        (is_known && is_much && is_it).then_some((self.alone, share))
    }
}

/// Which disks streams do without for that.
#[derive(Debug)]
pub(super) struct Stalls {
    disks: [Stalling; LEGS_MAX],
    written_at: Instant,
    pub(super) legs: LegSet,
}

impl Default for Stalls {
    fn default() -> Self {
        Self {
            disks: [Stalling::new(); LEGS_MAX],
            written_at: Instant::ZERO,
            legs: LegSet::EMPTY,
        }
    }
}

impl Stalls {
    /// A leg is handed a read of a stream.
    pub(super) fn note_read(&mut self, leg: LegId, bytes: u64) {
        let new_bytes = &mut self.disks[leg.index()].new_bytes;
        *new_bytes = new_bytes.saturating_add(bytes);
    }

    /// Legs are seen again after `since`, of which those in each of `groups` are handed the same
    /// writes, and `turning` are disks. Streams have nothing of those in `left`.
    pub(super) fn note(
        &mut self,
        (now, since): (Instant, Duration),
        views: &[LegView],
        groups: &[LegSet],
        (turning, left): (LegSet, LegSet),
    ) {
        if views.iter().any(|view| view.writes_in_flight > 0) {
            self.written_at = now;
        } else if now.saturating_since(self.written_at) >= PAUSE.get() {
            *self = Self::default();
            return;
        }
        for group in groups {
            let those = || views.iter().filter(|view| group.contains(view.leg));
            let writing: LegSet = those()
                .filter(|view| view.writes_in_flight > 0)
                .map(|view| view.leg)
                .collect();
            let is_one = writing.iter().count() == 1;
            for view in those() {
                let is_alone = is_one && writing.contains(view.leg);
                self.disks[view.leg.index()].note(since, is_alone);
            }
            self.decide(now, *group, (turning, left));
        }
    }

    /// Whether one of these is left, or back.
    fn decide(&mut self, now: Instant, group: LegSet, (turning, left): (LegSet, LegSet)) {
        for leg in group.intersection(self.legs) {
            let disk = &mut self.disks[leg.index()];
            let is_back = disk
                .before
                .is_none_or(|before| disk.comes_back(now, before));
            if is_back || !turning.contains(leg) {
                disk.before = None;
                self.legs.remove(leg);
            }
        }
        if !group.intersection(self.legs).is_empty() {
            return;
        }
        let read_bytes = |leg: LegId| self.disks[leg.index()].read_bytes;
        let all_bytes = group.iter().map(read_bytes).sum();
        let alone = |leg: LegId| self.disks[leg.index()].alone;
        let by_cost = |one: &LegId, other: &LegId| alone(*one).total_cmp(&alone(*other));
        let Some(leg) = group.iter().max_by(by_cost) else {
            return;
        };
        let others: LegSet = group.iter().filter(|other| *other != leg).collect();
        let others_cost = others.iter().map(alone).fold(0.0, f32::max);
        if !turning.contains(leg) || others.difference(left).is_empty() {
            return;
        }
        let disk = &mut self.disks[leg.index()];
        if let Some(before) = disk.costs_much(now, all_bytes, others_cost) {
            disk.turn(now, Some(before));
            self.legs.insert(leg);
        }
    }
}
