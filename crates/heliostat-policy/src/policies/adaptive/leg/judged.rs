//! Whether a leg does what is expected of it: by its answers slow, stalled or late.

use heliostat_types::{Duration, Instant};

use super::super::curve::Curve;
use super::super::health::Health;
use super::{
    Followed, LEARNED_RATIO_MAX, Leg, LegView, SIZES, SLOW_FLASH, SLOW_TURNING, SORTED_TIMES,
    STALL_NS, STALL_RATIO_MIN, STALL_READS, STALL_SHARE_SEEN, STALLED_READS, STALLED_SHARE, Size,
    TINY, UNKNOWN_NS_TURNING, USUAL_SHARE, WELL, ns,
};

impl Leg {
    /// What stalls add to a read on average; it is forgotten by and by.
    pub(super) fn stalls_ns(&self, now: Instant) -> f32 {
        let age = ns(now.saturating_since(self.stalled_at)) / STALL_NS.get();
        self.stall_ns * (1.0 - age).max(0.0)
    }

    /// Whether it stalls so often that it shows.
    pub(in super::super) fn stalls(&self, now: Instant) -> bool {
        let read_ns = self.curve(0).map_or(0.0, Curve::idle);
        self.stalls_ns(now) > STALL_SHARE_SEEN.get() * read_ns
    }

    /// A read or a write was answered; [`Leg::completed`] follows. A flush may take as long as it
    /// likes, and a slow leg does not pause.
    pub(in super::super) fn note_gap(&mut self, now: Instant, service_time: Duration) {
        if !self.turns && !self.is_slow() {
            let silence = now.saturating_since(self.progress_at);
            let size = Size::of(self.bytes_in_flight);
            let read_ns = || self.cost_at(size, self.load());
            self.pauses = self
                .pauses
                .answered(now, silence.min(service_time), read_ns);
        }
    }

    /// For which share of the time of late flash has answered nothing.
    pub(in super::super) fn paused_share(&self, now: Instant) -> f32 {
        self.pauses.share(now)
    }

    /// Whether an answer of late was late, and none came in time since.
    pub(in super::super) fn was_late(&self) -> bool {
        self.health.was_late()
    }

    /// How many times as long flash may take from now on that may just have turned slow. What was
    /// to tell may never be answered: then the next ones do.
    pub(in super::super) fn suspected_factor(&self, view: &LegView) -> f32 {
        if self.turns || view.reads_in_flight == 0 {
            1.0
        } else {
            self.health.suspected_factor()
        }
    }

    /// Whether the leg is slow.
    pub(in super::super) fn is_slow(&self) -> bool {
        !self.health.is_well()
    }

    /// What the leg does is what it can: known from now on, and not held against it any more. That
    /// it is well again is learned as of any leg that is read now and then.
    pub(super) fn believe_slow(&mut self) {
        let times = self.health.factor();
        for curve in &mut self.curves {
            curve.stretch(times);
        }
        self.health = Health::default();
        self.tries.believe();
    }

    /// Whether an answer came in time, and what that says of the leg's health.
    pub(super) fn judge(
        &mut self,
        now: Instant,
        followed: &Followed,
        arm_from: Instant,
        time_ns: f32,
    ) {
        let (ratio, began, slow, may_be_writes) = if self.turns {
            let gap = ns(now.saturating_since(self.progress_at));
            let arm = ns(now.saturating_since(arm_from));
            let index = usize::from(followed.curve) % SIZES;
            let random_ns = self.curve(index).map_or(0.0, |curve| curve.idle());
            // What was learned as random may have come from the drive's cache: a seek is a seek.
            let random_ns = random_ns.max(UNKNOWN_NS_TURNING.get());
            let usual = (followed.predicted_ns / followed.load).max(random_ns * USUAL_SHARE.get());
            // It may have written what its cache answered since the read before.
            let may_be_writes = gap < SLOW_TURNING.get() * usual;
            (arm / usual, arm_from, SLOW_TURNING.get(), may_be_writes)
        } else {
            (
                time_ns / followed.longest_ns,
                followed.began,
                SLOW_FLASH.get(),
                self.is_written(),
            )
        };
        let was_wrong = time_ns > followed.others_ns;
        if ratio >= slow {
            self.health
                .note_slow(now, began, ratio, (may_be_writes, was_wrong));
            return;
        }
        if !self.health.is_well() && ratio > WELL.get() {
            self.health.note_between(ratio, was_wrong);
            return;
        }
        let stall = self.health.note_in_time();
        let extra = stall.map_or(0.0, |ratio| (ratio - STALL_RATIO_MIN.get()).max(0.0));
        if extra > 0.0 {
            self.stalled_at = now;
        }
        let stall_ns =
            self.stall_ns + (extra * followed.predicted_ns - self.stall_ns) / STALL_READS.get();
        self.stall_ns = if stall_ns < TINY { 0.0 } else { stall_ns };
    }

    /// Whether an answer of a leg that is well came so late that it says nothing of others, unless
    /// that is usual. Reads from before `round_from` have met the same pause as others.
    pub(super) fn note_stall(
        &mut self,
        followed: &Followed,
        time_ns: f32,
        round_from: Instant,
    ) -> bool {
        let is_stall = !self.turns && time_ns > STALL_RATIO_MIN.get() * followed.longest_ns;
        if !is_stall || followed.began >= round_from {
            let share = f32::from(u8::from(is_stall));
            let stalled = self.stalled + (share - self.stalled) / STALLED_READS.get();
            self.stalled = if stalled < TINY { 0.0 } else { stalled };
        }
        is_stall && self.stalled < STALLED_SHARE.get()
    }

    /// What an answer teaches at most.
    pub(super) fn learned_at_most(&self, followed: &Followed) -> f32 {
        let longest = LEARNED_RATIO_MAX.get() * followed.predicted_ns;
        if !self.turns {
            longest.max(followed.longest_ns)
        } else if usize::from(followed.curve) < SIZES {
            // A seek behind others, where many are answered from a cache.
            let seeks = (followed.load / SORTED_TIMES.get()).max(1.0);
            longest.max(UNKNOWN_NS_TURNING.get() * seeks)
        } else {
            longest
        }
    }
}
