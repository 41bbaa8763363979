//! Flash on which those who write wait for what streams read.

use heliostat_types::{Duration, Instant, LegId, LegSet};

use crate::api::LegView;
use crate::constants::constants;

use super::pace::Pace;
use super::{ReadAhead, StreamWay};

constants! { "held":
    /// Short writes are held up by streams where one takes more than half of what a long read does.
    TIMES: f32 = times(2.0);
    /// And more than eight times as much as a short read did at best.
    IDLE_TIMES: f32 = times(8.0);
    /// They are fewer than they were when they were half as many.
    FEWER: f32 = number(0.5);
    /// Flash that adds less than a third to what the fastest reads of a stream has none of it then.
    SHARE: f32 = number(1.0 / 3.0);
    /// It has read for so long by then, since a neighbour may have had it for some of that,
    SEEN: Duration = time(Duration::from_ms(500));
    /// and does so again after this, and after four times as long each time that nothing changes.
    AGAIN: Duration = time(Duration::from_secs(8));
    AGAIN_TIMES: u64 = count(4);
    AGAIN_MAX: Duration = time(Duration::from_secs(512));
}

/// What is known of that.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) legs: LegSet,
    /// How many writes there were when they came to be held, in one ns.
    writes: f32,
    /// When flash that adds little is to be looked at again, while there is some, and after how
    /// long.
    again_at: Option<Instant>,
    again: Duration,
}

impl Pace {
    /// Whether it has read for long enough to tell how fast it is.
    fn is_seen(&self) -> bool {
        self.best_of_ns >= SEEN.get().as_ns()
    }

    /// Whether short writes take about as long as the reads of streams, and far longer than a read
    /// of an idle leg does: they wait for those, then.
    fn writes_are_held(&self, now: Instant) -> bool {
        let is_as_long = self.read_ns > 0.0 && self.short_ns * TIMES.get() > self.read_ns;
        is_as_long && self.short_ns > IDLE_TIMES.get() * self.least_ns && self.was_written(now)
    }
}

impl ReadAhead {
    /// Whether others read at random.
    pub(super) fn is_beside_random(&self) -> bool {
        self.at_random.waiting() > 0.0
    }

    /// Whether others write and wait for what is read, and do not read at random.
    pub(super) fn is_beside_writes(&self) -> bool {
        !self.held.legs.is_empty() && !self.is_beside_random()
    }

    /// On which of `legs` writes wait, where all are flash: beside disks streams need it. When
    /// nothing is read ahead any more they wait for less, and may be more, but they are not fewer:
    /// for so long it stays so.
    pub(super) fn note_held(&mut self, now: Instant, legs: &[LegView], are_flash: bool) {
        let writes = self.at_random.writes();
        let are_as_many = !self.held.legs.is_empty() && writes >= self.held.writes * FEWER.get();
        let are_writers = self.at_random.are_writers();
        if !are_flash || !are_writers && !are_as_many {
            self.held.legs = LegSet::EMPTY;
            return;
        }
        let all: LegSet = legs.iter().map(|view| view.leg).collect();
        let mut held = self.held.legs.intersection(all);
        if are_writers {
            let is_held = |leg: &LegId| self.paces[leg.index()].writes_are_held(now);
            held = held.union(all.iter().filter(is_held).collect());
        }
        if self.held.legs.is_empty() {
            self.held.writes = writes;
        }
        self.held.legs = held;
        self.look_again(now, legs);
    }

    /// Flash that adds little may have had a neighbour: after a while it is to read again.
    fn look_again(&mut self, now: Instant, legs: &[LegView]) {
        let unheld = self.unheld(legs);
        let held = &mut self.held;
        let mut paces = legs.iter().map(|view| &self.paces[view.leg.index()]);
        if unheld.is_empty() {
            held.again_at = None;
            if !held.legs.is_empty() && paces.all(Pace::is_seen) {
                held.again = AGAIN.get();
            }
            return;
        }
        let again = held.again.max(AGAIN.get());
        if now < *held.again_at.get_or_insert(now + again) {
            return;
        }
        let longer = again.as_ns().saturating_mul(AGAIN_TIMES.get());
        held.again = Duration::from_ns(longer).min(AGAIN_MAX.get());
        let apart = legs.iter().filter(|view| !unheld.contains(view.leg));
        for view in apart {
            self.paces[view.leg.index()].best_of_ns = 0;
        }
    }

    /// Where a stream goes that has no home, out of the way of others: to flash that has time.
    pub(super) fn way_without_home(&self, legs: &[LegView]) -> StreamWay {
        let unheld = self.unheld(legs);
        if !unheld.is_empty() {
            StreamWay::Homes(unheld)
        } else if !self.is_beside_random() {
            StreamWay::Any
        } else if self.has_spare {
            let all = legs.iter().map(|view| view.leg);
            StreamWay::Homes(all.filter(|leg| !self.turning.contains(*leg)).collect())
        } else {
            StreamWay::Aside
        }
    }

    /// Those of `legs` that a stream is to be read by, without flash that all writes wait for and
    /// that adds little to it; none where that is all of them.
    fn unheld(&self, legs: &[LegView]) -> LegSet {
        if self.held.legs.is_empty() {
            return LegSet::EMPTY;
        }
        let pace = |leg: LegId| &self.paces[leg.index()];
        let rates = legs.iter().map(|view| pace(view.leg).best_rate);
        let best = rates.fold(0.0, f32::max);
        let adds_little =
            |leg: LegId| pace(leg).is_seen() && pace(leg).best_rate < SHARE.get() * best;
        let is_waited_for = |leg: &LegId| self.held.legs.contains(*leg) && adds_little(*leg);
        let all = legs.iter().map(|view| view.leg);
        let others: LegSet = all.filter(|leg| !is_waited_for(leg)).collect();
        if others.iter().count() < legs.len() {
            others
        } else {
            LegSet::EMPTY
        }
    }
}
