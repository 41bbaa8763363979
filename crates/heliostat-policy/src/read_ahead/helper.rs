//! What each leg can do for a stream.

use heliostat_types::{Duration, Instant, LEGS_MAX, LegId, LegSet};

use crate::api::{Layout, LegView};

use super::beliefs::Aside;
use super::pace::Pace;
use super::{
    ASKED_BYTES, ASKED_BYTES_FLASH, RUN_BYTES, ReadAhead, SLOWER_TIMES, STRETCH_BYTES_MAX,
    WRITES_PASS, whole,
};

/// A leg that can read ahead of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Helper {
    pub(super) leg: LegId,
    /// In bytes per ns.
    pub(super) rate: f32,
    /// With reads of all kinds; 0: not known.
    pub(super) best_rate: f32,
    pub(super) way_ns: f32,
    /// Where it stands when it has done what it is to do,
    pub(super) stands: u64,
    /// how much more of its last stretch it is to read then,
    pub(super) left_bytes: u64,
    /// and which one that is.
    pub(super) number: u64,
    /// Where it stands when it has done what it was handed.
    pub(super) sent: u64,
    /// Whether it has ended a read of the last stretch that it was handed something of.
    pub(super) has_begun: bool,
    pub(super) is_idle: bool,
    pub(super) turns: bool,
    /// Something was written to it of late,
    pub(super) was_written: bool,
    /// and a share of what it does is that,
    pub(super) is_written: bool,
    /// and writes wait for what is being read.
    pub(super) writes_wait: bool,
    /// How long it is busy with one.
    pub(super) write_ns: f32,
    pub(super) asked_bytes: u64,
    /// What it has to do before a new stretch.
    pub(super) queued_bytes: u64,
}

/// Legs that can read ahead, by rising index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Helpers {
    all: [Option<Helper>; LEGS_MAX],
    len: usize,
    /// Why others were left out, by leg.
    pub(super) asides: [Option<Aside>; LEGS_MAX],
}

impl Helpers {
    pub(super) const NONE: Self = Self {
        all: [None; LEGS_MAX],
        len: 0,
        asides: [None; LEGS_MAX],
    };

    pub(super) fn push(&mut self, helper: Helper) {
        self.all[self.len] = Some(helper);
        self.len += 1;
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Helper> + Clone {
        self.all[..self.len].iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Helper> {
        self.all[..self.len].iter_mut().flatten()
    }

    pub(super) fn count(&self) -> usize {
        self.iter().count()
    }

    pub(super) fn legs(&self) -> LegSet {
        self.iter().map(|helper| helper.leg).collect()
    }

    pub(super) fn leave(&mut self, legs: LegSet) {
        for helper in &mut self.all[..self.len] {
            *helper = helper.filter(|helper| !legs.contains(helper.leg));
        }
    }

    /// The same, and people are told why.
    pub(super) fn leave_for(&mut self, legs: LegSet, why: Aside) {
        self.tell(legs, why);
        self.leave(legs);
    }

    /// People are told why these read nothing.
    pub(super) fn tell(&mut self, legs: LegSet, why: Aside) {
        for helper in self.all[..self.len].iter().flatten() {
            if legs.contains(helper.leg) {
                self.asides[helper.leg.index()] = Some(why);
            }
        }
    }

    /// Without those that are too slow to help the others.
    pub(super) fn leave_slow(&mut self) {
        let best = best_of(self.iter());
        let slow = self.iter().filter(|helper| helper.is_too_slow(best));
        self.leave_for(slow.map(|helper| helper.leg).collect(), Aside::Slow);
    }

    /// Without disks that all wait for who write, as they are busy with a write for far longer than
    /// others. As many streams as legs need them all, but for those of `waited`.
    pub(super) fn leave_held(&mut self, streams: usize) {
        if streams >= self.count() || self.iter().any(|helper| !helper.turns) {
            return;
        }
        let times = self.iter().map(|helper| helper.write_ns);
        let times = times.filter(|ns| *ns > 0.0);
        let most = WRITES_PASS.get() * times.reduce(f32::min).unwrap_or(0.0);
        let held = self
            .iter()
            .filter(|helper| helper.is_written && helper.write_ns > most);
        self.leave_for(held.map(|helper| helper.leg).collect(), Aside::Writes);
    }

    /// Who reads disks waits for these, and each of more reads may wait for a write.
    pub(super) fn are_quick(&self) -> bool {
        self.iter()
            .all(|helper| !helper.turns && !helper.was_written)
    }

    /// What each is asked for at a time.
    pub(super) fn asked_max(&self) -> u64 {
        if self.are_quick() {
            ASKED_BYTES_FLASH.get()
        } else {
            ASKED_BYTES.get()
        }
    }

    /// How long any of them takes for that, where so many streams ask it.
    pub(super) fn wait(&self, streams: usize) -> Duration {
        let slowest = self.iter().map(|helper| helper.rate).reduce(f32::min);
        let bytes = self.asked_max() as f32 * streams as f32;
        let ns = slowest.map_or(0.0, |rate| bytes / rate);
        Duration::from_ns(whole(ns))
    }

    /// Of those that hold the byte at `offset`, those that are fast enough.
    pub(super) fn holding(&self, layout: &dyn Layout, offset: u64) -> Self {
        let mut holders = *self;
        let others = self.iter().map(|helper| helper.leg);
        let others = others.filter(|leg| layout.address_on(*leg, offset).is_none());
        holders.leave(others.collect());
        holders.leave_slow();
        holders
    }
}

pub(super) fn best_of<'a>(helpers: impl Iterator<Item = &'a Helper>) -> f32 {
    helpers.map(|helper| helper.rate).fold(0.0, f32::max)
}

impl Helper {
    pub(super) fn is_too_slow(&self, best: f32) -> bool {
        self.rate * SLOWER_TIMES.get() < best
    }

    /// How much it reads at one place.
    pub(super) fn stretch_bytes(&self, stretch_ns: f32) -> u64 {
        let bytes = whole(stretch_ns * self.rate);
        let bytes = bytes.max(RUN_BYTES.get()).min(STRETCH_BYTES_MAX.get());
        bytes.next_multiple_of(RUN_BYTES.get())
    }

    /// When it would have done as much, from `address` on.
    pub(super) fn end_ns(&self, address: u64, bytes: u64) -> f32 {
        let way_ns = if self.stands == address {
            0.0
        } else {
            self.way_ns
        };
        way_ns + self.queued_bytes.saturating_add(bytes) as f32 / self.rate
    }

    /// Whether it is its turn to read from there. A disk is handed one read of a stretch, and more
    /// when it has ended that: of several it would begin with whichever comes by first, and come
    /// back for the others. Streams take turns.
    pub(super) fn is_in_order(&self, address: u64, is_first: bool, begins: bool) -> bool {
        let is_next = self.has_begun && self.sent == address && (is_first || !begins);
        is_next || self.is_idle && is_first || !self.turns
    }
}

impl ReadAhead {
    /// What each of `legs` could do for a stream, in their order.
    pub(super) fn helpers(&mut self, now: Instant, legs: &[LegView]) -> Helpers {
        let mut helpers = Helpers::NONE;
        let is_beside_random = self.is_beside_random();
        let (random_ns, are_apart) = (self.at_random.mean_ns(), !self.left.is_empty());
        let (mut best, mut best_turning) = (0.0, 0.0);
        for view in legs {
            let pace = &mut self.paces[view.leg.index()];
            // What was given up in the queue in front of a leg never ends.
            if pace.in_flight > view.read_bytes_in_flight {
                pace.in_flight = view.read_bytes_in_flight;
                pace.loaded = None;
            }
            pace.long_bytes = pace.long_bytes.min(view.read_bytes_in_flight);
            if self.turning.contains(view.leg) {
                best_turning = f32::max(best_turning, pace.rate);
            } else {
                best = f32::max(best, pace.seen_rate(now));
            }
        }
        // Beside flash streams need that, and beside random reads an arm would go to and fro.
        let are_busy = is_beside_random || legs.iter().any(|view| !self.turning.contains(view.leg));
        let writes_wait = |pace: &Pace, turns: bool| {
            if turns {
                are_busy || pace.is_busy_writing()
            } else {
                pace.writes_wait(random_ns, are_apart)
            }
        };
        for view in legs {
            let pace = &self.paces[view.leg.index()];
            let turns = self.turning.contains(view.leg);
            let best_alike = if turns { best_turning } else { best };
            let rate = pace.believed_rate(now, turns, best_alike);
            best = best.max(rate);
            helpers.push(Helper {
                leg: view.leg,
                rate,
                best_rate: pace.best_rate,
                way_ns: pace.way_ns(turns),
                stands: pace.sent,
                left_bytes: 0,
                number: 0,
                sent: pace.sent,
                has_begun: pace.end > pace.sought && pace.end <= pace.sent,
                is_idle: pace.in_flight == 0,
                turns,
                was_written: pace.was_written(now),
                is_written: pace.is_written(now),
                writes_wait: pace.is_written(now) && writes_wait(pace, turns),
                write_ns: pace.write_own_ns,
                asked_bytes: view.read_bytes_in_flight,
                queued_bytes: view
                    .read_bytes_in_flight
                    .saturating_add(view.write_bytes_in_flight),
            });
        }
        helpers
    }
}
