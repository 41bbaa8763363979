//! Disks that all writes wait for, whoever reads.
//!
//! All legs have to write, and who writes waits for the slowest. Among equal disks that is one now
//! and another then, and a stream that makes way for the moment only loses its place. A disk that
//! is older than others, or has a neighbour, is behind all the time: each read of a stream there
//! costs those who write as much as it takes, while others wait with nothing to write.

use heliostat_types::{Duration, Instant, LEGS_MAX, LegId, LegSet};

use crate::api::{Layout, LegView};
use crate::constants::constants;

use super::ReadAhead;
use super::beliefs::Aside;
use super::helper::Helpers;
use super::homes::Group;

constants! { "waited":
    /// What is known of late is of so long,
    TIME: Duration = time(Duration::from_secs(16));
    /// and of so long at least, or so long where all others are flash, in which somebody reads
    /// without a pause of
    SEEN: Duration = time(Duration::from_secs(8));
    SEEN_FLASH: Duration = time(Duration::from_secs(1));
    PAUSE: Duration = time(Duration::from_secs(1));
    /// There is something to write in so much of it,
    WRITTEN: f32 = number(0.5);
    /// and that waits for the disk in so much of that.
    ENOUGH: f32 = number(0.9);
    /// It stays so until either is half as much,
    STAYS: f32 = number(0.5);
    /// or writes wait for another one in half
    ELSEWHERE: f32 = number(0.5);
    /// of this time,
    RECENT: Duration = time(Duration::from_secs(1));
    /// or for this one in so much of it, which takes some 4 s without any.
    GONE: f32 = number(1.0 / 64.0);
    /// Legs are looked at so often.
    STEP: Duration = time(Duration::from_ms(1));
}

/// In which part of the time
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    /// writes have waited for a leg of late,
    waited: f32,
    /// and just now,
    recent: f32,
    /// or it or others with the same writes had any of late.
    written: f32,
}

/// Which disks writes wait for all the time, while others that have the same ones wait.
#[derive(Debug, Default)]
pub(super) struct Waited {
    /// When legs were seen last, and for how long they have been without a pause.
    at: Option<Instant>,
    seen: Duration,
    shares: [Share; LEGS_MAX],
    pub(super) legs: LegSet,
}

/// The weight of what was so for `time`, in a mean of `of`.
pub(super) fn weight(time: Duration, of: Duration) -> f32 {
    1.0 - (-(time.as_ns() as f32) / of.as_ns().max(1) as f32).exp()
}

impl Waited {
    /// Whether it is time to look at legs.
    fn is_due(&self, now: Instant) -> bool {
        self.at
            .is_none_or(|at| now.saturating_since(at) >= STEP.get())
    }

    /// Legs are seen, of which those in each of `groups` are handed the same writes, and `turning`
    /// are disks. Streams have nothing of those in `left`. How long after they were seen last; none
    /// after a pause.
    pub(super) fn note(
        &mut self,
        now: Instant,
        views: &[LegView],
        groups: &[LegSet],
        (turning, left): (LegSet, LegSet),
    ) -> Option<Duration> {
        let before = self.at.replace(now);
        let since = before.map(|before| now.saturating_since(before));
        let Some(since) = since.filter(|since| *since < PAUSE.get()) else {
            (self.seen, self.legs) = (Duration::ZERO, LegSet::EMPTY);
            return None;
        };
        self.seen += since;
        // All that was seen counts alike in the beginning.
        let part = since.as_ns() as f32 / self.seen.as_ns() as f32;
        let of_late = weight(since, TIME.get()).max(part);
        let of_recent = weight(since, RECENT.get());
        let was = std::mem::replace(&mut self.legs, LegSet::EMPTY);
        for group in groups {
            let those = || views.iter().filter(|view| group.contains(view.leg));
            let writes = || those().map(|view| view.writes_in_flight);
            let (least, most) = (writes().min().unwrap_or(0), writes().max().unwrap_or(0));
            for view in those() {
                let share = &mut self.shares[view.leg.index()];
                let behind = view.writes_in_flight - least;
                let is_waited_for = f32::from(u8::from(behind > 0 && 2 * behind >= most - least));
                let is_written = f32::from(u8::from(most > 0));
                share.waited += of_late * (is_waited_for - share.waited);
                share.recent += of_recent * (is_waited_for - share.recent);
                share.written += of_late * (is_written - share.written);
            }
            let legs = self.of_group(*group, was.intersection(*group), (turning, left));
            self.legs = self.legs.union(legs);
        }
        Some(since)
    }

    /// Which of these legs writes wait for, where they did for those in `was`. There are at least
    /// as many others, or streams would be crowded there.
    fn of_group(
        &mut self,
        group: LegSet,
        was: LegSet,
        (turning, left): (LegSet, LegSet),
    ) -> LegSet {
        let is_one = group.intersection(turning).iter().count() == 1;
        let enough = if is_one { SEEN_FLASH } else { SEEN };
        if self.seen < enough.get() {
            return LegSet::EMPTY;
        }
        let share = |leg: LegId| &self.shares[leg.index()];
        let is_it = |leg: &LegId| {
            let less = if was.contains(*leg) { STAYS.get() } else { 1.0 };
            let share = share(*leg);
            let is_written = share.written >= WRITTEN.get() * less;
            let is_waited_for = share.waited >= ENOUGH.get() * less * share.written;
            is_written && is_waited_for && share.recent >= GONE.get()
        };
        let legs: LegSet = group.iter().filter(is_it).collect();
        let others = group.difference(legs);
        let are_others = others.iter().count() >= legs.iter().count();
        if !are_others || others.difference(left).is_empty() {
            return LegSet::EMPTY;
        }
        let is_elsewhere = |leg: LegId| share(leg).recent >= ELSEWHERE.get();
        if others.iter().any(is_elsewhere) {
            // Streams are not to go to and fro.
            for leg in was {
                self.shares[leg.index()].waited = 0.0;
            }
            return LegSet::EMPTY;
        }
        legs
    }
}

impl ReadAhead {
    /// Notes for which disks writes wait. Legs that are in several groups are not told apart.
    pub(super) fn note_waited(&mut self, now: Instant, legs: &[LegView], layout: &dyn Layout) {
        let was = self.left_to_writes();
        if !self.turning.is_empty() && self.waited.is_due(now) {
            let groups: Vec<LegSet> = if layout.chunk_bytes().is_none() {
                vec![legs.iter().map(|view| view.leg).collect()]
            } else {
                let groups = Group::all(legs, layout, 0);
                let apart = groups.iter().filter(|group| group.is_apart);
                apart.map(|group| group.legs).collect()
            };
            let since = self
                .waited
                .note(now, legs, &groups, (self.turning, self.left));
            if let Some(since) = since {
                let those = (self.turning, self.left.union(self.waited.legs));
                self.stalls.note((now, since), legs, &groups, those);
            } else {
                self.stalls.pause();
            }
        }
        // Flash may have been taken for a disk.
        self.waited.legs = self.waited.legs.intersection(self.turning);
        self.stalls.legs = self.stalls.legs.intersection(self.turning);
        if self.left_to_writes() != was {
            for stream in &mut self.streams {
                stream.housed = None;
            }
        }
    }

    /// Disks that streams do without for those who write.
    pub(super) fn left_to_writes(&self) -> LegSet {
        self.waited.legs.union(self.stalls.legs)
    }

    /// Streams do without these, unless no others help them.
    pub(super) fn leave_waited_for(&self, helpers: &mut Helpers) {
        for those in [self.waited.legs, self.stalls.legs] {
            let those = helpers.legs().intersection(those);
            if those != helpers.legs() {
                helpers.leave_for(those, Aside::Writes);
            }
        }
    }
}
