//! Disks that all writes wait for, whoever reads.
//!
//! All legs have to write, and who writes waits for the slowest. Among equal disks that is one now
//! and another then, and a stream that makes way for the moment only loses its place. A disk that
//! is older than others, or has a neighbour, is behind all the time: each read of a stream there
//! costs those who write as much as it takes, while others wait with nothing to write.

use heliostat_types::{Duration, Instant, LEGS_MAX, LegId, LegSet};

use crate::api::LegView;
use crate::constants::constants;

use super::ReadAhead;
use super::beliefs::Aside;
use super::helper::Helpers;

constants! { "waited":
    /// What is known of late is of so long,
    TIME: Duration = time(Duration::from_secs(16));
    /// and of so long at least, in which streams are read without a pause of
    SEEN: Duration = time(Duration::from_secs(8));
    PAUSE: Duration = time(Duration::from_secs(1));
    /// There is something to write in so much of it,
    WRITTEN: f32 = number(0.5);
    /// and that waits for the disk in so much of that.
    ENOUGH: f32 = number(0.9);
    /// It stays so until either is half of that, or writes wait for another one in half
    LEFT: f32 = number(0.5);
    /// of this time,
    NOW: Duration = time(Duration::from_secs(1));
    /// or for this one in so much of it, which takes some 4 s without any.
    GONE: f32 = number(1.0 / 64.0);
}

/// In which part of the time of late
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    /// a leg had more left to write than another one with the same writes,
    waited_for: f32,
    /// the same of a shorter time,
    now: f32,
    /// or any of these had something to write.
    written: f32,
}

/// Which disks writes wait for all the time, while others that have the same ones wait.
#[derive(Debug, Default)]
pub(super) struct Waited {
    /// When legs were seen last, and for how long they have been.
    at: Instant,
    seen: Duration,
    shares: [Share; LEGS_MAX],
    pub(super) legs: LegSet,
}

impl Waited {
    /// Legs are seen, of which those in each of `groups` are handed the same writes.
    pub(super) fn note(
        &mut self,
        now: Instant,
        views: &[LegView],
        groups: impl Iterator<Item = LegSet>,
        turning: LegSet,
    ) {
        let since = now.saturating_since(self.at);
        self.at = now;
        if since >= PAUSE.get() {
            (self.seen, self.legs) = (Duration::ZERO, LegSet::EMPTY);
            return;
        }
        self.seen += since;
        let part_of = |time: Duration| (since.as_ns() as f32 / time.as_ns().max(1) as f32).min(1.0);
        let (late, now) = (part_of(self.seen.min(TIME.get())), part_of(NOW.get()));
        let mut legs = LegSet::EMPTY;
        for group in groups {
            let those = || views.iter().filter(|view| group.contains(view.leg));
            let writes = || those().map(|view| view.writes_in_flight);
            let (least, most) = (writes().min().unwrap_or(0), writes().max().unwrap_or(0));
            for view in those() {
                let share = &mut self.shares[view.leg.index()];
                let is_waited_for = f32::from(u8::from(view.writes_in_flight > least));
                let is_written = f32::from(u8::from(most > 0));
                share.waited_for += late * (is_waited_for - share.waited_for);
                share.now += now * (is_waited_for - share.now);
                share.written += late * (is_written - share.written);
            }
            legs = legs.union(self.waited_for(group));
        }
        self.legs = if self.seen < SEEN.get() {
            LegSet::EMPTY
        } else {
            legs.intersection(turning)
        };
    }

    /// Which of these legs writes wait for. There are at least as many others, or streams would be
    /// crowded there.
    fn waited_for(&self, group: LegSet) -> LegSet {
        let is_it = |leg: &LegId| {
            let share = &self.shares[leg.index()];
            let less = if self.legs.contains(*leg) {
                LEFT.get()
            } else {
                1.0
            };
            let is_written = share.written >= WRITTEN.get() * less;
            let is_waited_for = share.waited_for >= ENOUGH.get() * less * share.written;
            is_written && is_waited_for && share.now >= GONE.get()
        };
        let legs: LegSet = group.iter().filter(is_it).collect();
        let others = group.difference(legs);
        let is_elsewhere = others
            .iter()
            .any(|leg| self.shares[leg.index()].now >= LEFT.get());
        if is_elsewhere || others.iter().count() < legs.iter().count() {
            LegSet::EMPTY
        } else {
            legs
        }
    }
}

impl ReadAhead {
    /// Streams do without disks that writes wait for all the time, where all legs hold the same,
    /// unless no others help them.
    pub(super) fn leave_waited_for(
        &mut self,
        now: Instant,
        legs: &[LegView],
        helpers: &mut Helpers,
    ) {
        let all = legs.iter().map(|view| view.leg).collect();
        self.waited
            .note(now, legs, std::iter::once(all), self.turning);
        let those = helpers.legs().intersection(self.waited.legs);
        if those != helpers.legs() {
            helpers.leave_for(those, Aside::Writes);
        }
    }
}
