//! Disks at which writes stall now and then, by what streams read there.
//!
//! Who writes a log waits for each write. Disks take most of them into a cache, and one of a
//! thousand waits until an arm has read and come back. An old disk does that for long, and has
//! little of what is read in sequence: streams do without a disk that costs who writes far more of
//! the time than it gives them. It may stall by itself, or who writes may be slow for another
//! reason. So what it is worth is seen when it is left, and it is back from time to time.

use heliostat_types::{Duration, Instant, LEGS_MAX, LegId, LegSet};

use crate::api::LegView;
use crate::constants::constants;

use super::waited::weight;

constants! { "stalls":
    /// What is known of disks is of so long, and of so long at least; in half of that it is known
    /// what comes of leaving one, and in an eighth whether that is to be done again.
    TIME: Duration = time(Duration::from_secs(8));
    /// One is left where the part of the time in which only it has something to write is so many
    /// times its share of what is read in sequence. That was in vain where the time in which it is
    /// not one alone becomes longer by fewer times than streams have less,
    TIMES: f32 = times(3.0);
    /// or writes are so much fewer: they wait for each other, or for what a scheduler does.
    FEWER: f32 = number(0.75);
    /// That share is so much at least, or it costs nobody anything,
    SHARE: f32 = number(1.0 / 64.0);
    /// and no other one is the only one in so much of that time: equal disks stall in turns.
    OTHERS: f32 = number(0.25);
    /// It is back after so long, or where it was in vain not left again, and after four times as
    /// long each time, up to so long: what is lost by that is less than one part of 100 in the end.
    WAIT: Duration = time(Duration::from_secs(32));
    WAIT_TIMES: u64 = count(4);
    WAIT_MAX: Duration = time(Duration::from_secs(512));
    /// All of that is over where nothing was written for so long.
    PAUSE: Duration = time(Duration::from_secs(1));
}

/// A time that becomes longer each time.
#[derive(Clone, Copy, Debug)]
struct Wait(Duration);

impl Wait {
    fn next(&mut self) -> Duration {
        let longer = self.0.as_ns().saturating_mul(WAIT_TIMES.get());
        let longer = Duration::from_ns(longer).min(WAIT_MAX.get());
        std::mem::replace(&mut self.0, longer)
    }
}

/// What was, before a disk was left.
#[derive(Clone, Copy, Debug)]
struct Before {
    /// In which part of the time none was alone,
    rest: f32,
    /// how many writes a second it was handed,
    writes: f32,
    /// and its share of what was read in sequence.
    share: f32,
}

/// What is known of one disk.
#[derive(Clone, Copy, Debug)]
struct Stalling {
    /// For how long those that have the same writes were seen since one was left, or was back.
    seen: Duration,
    /// In which part of that time of late only it has had something to write,
    alone: f32,
    /// how many writes a second it was handed, and how much streams have read there,
    writes: f32,
    read_bytes: f32,
    /// and both since that was looked at.
    new_writes: u32,
    new_bytes: u64,
    /// What was before it was left.
    before: Option<Before>,
    /// Whether that is known to be worth it, or was the last time.
    is_worth: bool,
    /// Until when it stays as it is.
    until: Instant,
    /// For how long it is left the next time, and not left.
    left_for: Wait,
    kept_for: Wait,
}

impl Stalling {
    fn new() -> Self {
        let wait = Wait(WAIT.get());
        Self {
            seen: Duration::ZERO,
            alone: 0.0,
            writes: 0.0,
            read_bytes: 0.0,
            new_writes: 0,
            new_bytes: 0,
            before: None,
            is_worth: false,
            until: Instant::ZERO,
            left_for: wait,
            kept_for: wait,
        }
    }

    /// In `since`, which is that `part` of what counts, only it had something to write, or not.
    fn note(&mut self, (since, part): (Duration, f32), is_alone: bool) {
        self.seen += since;
        // All that was seen counts alike in the beginning.
        let all = since.as_ns() as f32 / self.seen.as_ns().max(1) as f32;
        let of_late = part.max(all);
        self.alone += of_late * (f32::from(u8::from(is_alone)) - self.alone);
        let new_writes = std::mem::take(&mut self.new_writes);
        let writes = new_writes as f32 * 1e9 / since.as_ns().max(1) as f32;
        self.writes += of_late * (writes - self.writes);
        let new_bytes = std::mem::take(&mut self.new_bytes);
        self.read_bytes = self.read_bytes * (1.0 - part) + new_bytes as f32;
    }

    /// What was seen is of another time.
    const fn see_anew(&mut self) {
        self.seen = Duration::ZERO;
        (self.alone, self.writes, self.read_bytes) = (0.0, 0.0, 0.0);
        (self.new_writes, self.new_bytes) = (0, 0);
    }

    fn leave(&mut self, now: Instant, before: Before) {
        (self.before, self.is_worth) = (Some(before), false);
        self.until = now + self.left_for.0;
    }

    /// Whether a disk that is left is back: in vain, or as it may be another time. `rest`: in which
    /// part of the time none was alone since then.
    fn comes_back(&mut self, now: Instant, rest: f32) -> bool {
        let Some(before) = self.before else {
            return true;
        };
        if !self.is_worth && self.seen >= TIME.get() / 2 {
            let is_gain = rest * (1.0 - before.share) > before.rest;
            self.is_worth = is_gain && self.writes >= FEWER.get() * before.writes;
            if self.is_worth {
                self.left_for.next();
            } else {
                self.until = now + self.kept_for.next();
                return true;
            }
        }
        now >= self.until
    }

    /// What it is left for, as it costs who writes far more than it gives streams, which have read
    /// so much of all legs: what was before. `others`: in which part of the time another one was
    /// alone, at most, and `rest` none.
    fn costs_much(
        &self,
        now: Instant,
        all_bytes: f32,
        (others, rest): (f32, f32),
    ) -> Option<Before> {
        let share = self.read_bytes / all_bytes.max(1.0);
        let enough = if self.is_worth {
            TIME.get() / 8
        } else {
            TIME.get()
        };
        let is_known = self.seen >= enough && now >= self.until;
        let is_much = self.alone >= TIMES.get() * share;
        let is_it = share >= SHARE.get() && others <= OTHERS.get() * self.alone;
        let before = Before {
            rest,
            writes: self.writes,
            share,
        };
        (is_known && is_much && is_it).then_some(before)
    }
}

/// Which disks streams do without for that, one of each group at most.
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

    /// A leg is handed a write.
    pub(super) const fn note_write(&mut self, leg: LegId) {
        let new_writes = &mut self.disks[leg.index()].new_writes;
        *new_writes = new_writes.saturating_add(1);
    }

    /// Nobody has read for a while: what is known is of before that.
    pub(super) fn pause(&mut self) {
        self.disks.iter_mut().for_each(Stalling::see_anew);
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
        let part = weight(since, TIME.get());
        for group in groups {
            let those = || views.iter().filter(|view| group.contains(view.leg));
            let writing: LegSet = those()
                .filter(|view| view.writes_in_flight > 0)
                .map(|view| view.leg)
                .collect();
            let is_one = writing.iter().count() == 1;
            for view in those() {
                let is_alone = is_one && writing.contains(view.leg);
                self.disks[view.leg.index()].note((since, part), is_alone);
            }
            if self.decide(now, *group, (turning, left)) {
                for leg in *group {
                    self.disks[leg.index()].see_anew();
                }
            }
        }
    }

    /// Whether one of these is left now, or back.
    fn decide(&mut self, now: Instant, group: LegSet, (turning, left): (LegSet, LegSet)) -> bool {
        let alone = |leg: LegId| self.disks[leg.index()].alone;
        let rest = 1.0 - group.iter().map(alone).sum::<f32>();
        let others_of = |leg: LegId| group.iter().filter(move |other| *other != leg);
        let may_leave = |leg: LegId| {
            let others: LegSet = others_of(leg).collect();
            turning.contains(leg) && !others.difference(left).is_empty()
        };
        if let Some(leg) = group.intersection(self.legs).lowest() {
            let disk = &mut self.disks[leg.index()];
            let is_back = !may_leave(leg) || disk.comes_back(now, rest);
            if is_back {
                disk.before = None;
                self.legs.remove(leg);
            }
            return is_back;
        }
        let by_cost = |one: &LegId, other: &LegId| alone(*one).total_cmp(&alone(*other));
        let Some(leg) = group.iter().max_by(by_cost).filter(|leg| may_leave(*leg)) else {
            return false;
        };
        let others = others_of(leg).map(alone).fold(0.0, f32::max);
        let read_bytes = |leg: LegId| self.disks[leg.index()].read_bytes;
        let all_bytes = group.iter().map(read_bytes).sum();
        let disk = &mut self.disks[leg.index()];
        let before = disk.costs_much(now, all_bytes, (others, rest));
        if let Some(before) = before {
            disk.leave(now, before);
            self.legs.insert(leg);
        }
        before.is_some()
    }
}
