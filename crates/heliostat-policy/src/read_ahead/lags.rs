//! Disks that take far longer for what they read than others, which have time for all of it.
//!
//! Streams that are as many as disks have one each, so that all arms have work. But where readers
//! are slower than disks, or come when they like, a disk that has too much to write, or a
//! neighbour, lets them wait for what another one would have read at once. The arm that has to
//! read as well loses most: it leaves the writes that it could do in one sweep.

use heliostat_types::{Duration, Instant, LEGS_MAX, LegSet};

use crate::api::LegView;
use crate::constants::constants;

use super::ReadAhead;
use super::beliefs::Aside;
use super::helper::Helpers;
use super::waited::weight;

constants! { "lags":
    /// What reads take counts over so long.
    TIME: Duration = time(Duration::from_secs(4));
    /// A mean is one of so many.
    READS: f32 = number(8.0);
    /// A disk lags whose reads take so many times as long as those of the quickest,
    TIMES: f32 = times(4.0);
    /// and so much longer than that, all of them together: a few do by chance.
    LOST_NS: f32 = ns(2e8);
    /// Others have time that are busy for so much of it at most,
    BUSY: f32 = number(0.25);
    /// until they are for this, which nobody is who waits for slow readers.
    BUSY_STAYS: f32 = number(0.75);
    /// It is asked again after so long,
    AGAIN: Duration = time(Duration::from_secs(8));
    /// and twice as long each time that it lags yet, up to this.
    AGAIN_MAX: Duration = time(Duration::from_secs(64));
    /// What was before nobody read for so long does not count.
    PAUSE: Duration = time(Duration::from_secs(1));
}

/// What reads of a leg have taken of late.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Took {
    ns: f32,
    reads: f32,
    until: Instant,
}

impl Took {
    /// A read was answered.
    pub(super) fn note(&mut self, now: Instant, service_time: Duration) {
        let kept = self.kept(now);
        self.ns = self.ns * kept + service_time.as_ns() as f32;
        self.reads = self.reads * kept + 1.0;
        self.until = now;
    }

    /// How much of it counts now.
    fn kept(&self, now: Instant) -> f32 {
        1.0 - weight(now.saturating_since(self.until), TIME.get())
    }

    /// What one takes; `None` where there were too few.
    fn mean_ns(&self, now: Instant) -> Option<f32> {
        let are_enough = self.reads * self.kept(now) >= READS.get();
        are_enough.then(|| self.ns / self.reads)
    }

    /// How much longer all of them took than if each had taken so long.
    fn beyond(&self, now: Instant, each_ns: f32) -> f32 {
        (self.ns - each_ns * self.reads) * self.kept(now)
    }
}

/// Which disks lag.
#[derive(Debug, Default)]
pub(super) struct Lags {
    legs: LegSet,
    /// Since when, and for how long they are not asked.
    since: Instant,
    again: Duration,
    /// Before that none is left.
    not_before: Instant,
    /// When that was looked at last.
    seen: Instant,
}

impl Lags {
    /// The first of them is left.
    fn begin(&mut self, now: Instant) {
        let twice = self.again + self.again;
        let is_the_same = now.saturating_since(self.since) <= twice;
        let again = if is_the_same { twice } else { Duration::ZERO };
        self.again = again.max(AGAIN.get()).min(AGAIN_MAX.get());
        self.since = now;
    }
}

impl ReadAhead {
    /// Finds the disks that lag, among these, and leaves them. There are so many streams.
    pub(super) fn note_lags(
        &mut self,
        now: Instant,
        legs: &[LegView],
        helpers: &mut Helpers,
        count: usize,
    ) {
        let seen = std::mem::replace(&mut self.lags.seen, now);
        let was = std::mem::replace(&mut self.lags.legs, LegSet::EMPTY);
        if helpers.iter().any(|helper| !helper.turns) {
            return;
        }
        let mut shares = [1.0; LEGS_MAX];
        for view in legs {
            let busy = &mut self.paces[view.leg.index()].busy;
            shares[view.leg.index()] = busy.share(now, view.in_flight());
        }
        if now.saturating_since(seen) >= PAUSE.get() {
            self.lags = Lags {
                seen: now,
                ..Lags::default()
            };
            self.paces.iter_mut().for_each(|pace| pace.busy.begin());
        } else if self.is_beside_random() || count < helpers.count() {
            return;
        } else if !was.is_empty() {
            let is_busy = Self::busy(helpers, &shares, was) > BUSY_STAYS.get();
            if is_busy {
                self.lags.not_before = now + self.lags.again;
            }
            if is_busy || now.saturating_since(self.lags.since) >= self.lags.again {
                return;
            }
            self.lags.legs = was;
        }
        let lagging = was.union(self.lagging(now, helpers));
        let are_more = lagging != was && now >= self.lags.not_before;
        if are_more && self.have_time(helpers, lagging) {
            if was.is_empty() {
                self.lags.begin(now);
            }
            self.lags.legs = lagging;
        }
        helpers.leave_for(self.lags.legs, Aside::Lags);
    }

    /// Those whose reads take far longer than those of the quickest.
    fn lagging(&self, now: Instant, helpers: &Helpers) -> LegSet {
        let took = || {
            let legs = helpers.iter().map(|helper| helper.leg);
            legs.map(|leg| (leg, &self.paces[leg.index()].took))
        };
        let means = took().filter_map(|(_, took)| took.mean_ns(now));
        let Some(least) = means.reduce(f32::min) else {
            return LegSet::EMPTY;
        };
        let lags = |took: &Took| took.beyond(now, TIMES.get() * least) > LOST_NS.get();
        let lagging = took().filter(|(_, took)| took.mean_ns(now).is_some() && lags(took));
        lagging.map(|(leg, _)| leg).collect()
    }

    /// Whether all others have been idle for most of the time.
    fn have_time(&self, helpers: &Helpers, lagging: LegSet) -> bool {
        let mut others = helpers
            .iter()
            .filter(|helper| !lagging.contains(helper.leg));
        others.all(|helper| self.paces[helper.leg.index()].busy.of_late() < BUSY.get())
    }

    /// For which part of the time the others are busy now, on average, where each leg is for such a
    /// share.
    fn busy(helpers: &Helpers, shares: &[f32; LEGS_MAX], lagging: LegSet) -> f32 {
        let others = helpers.iter().map(|helper| helper.leg);
        let others = others.filter(|leg| !lagging.contains(*leg));
        let (sum, count) = others.fold((0.0, 0.0), |(sum, count), leg| {
            (sum + shares[leg.index()], count + 1.0)
        });
        if count > 0.0 { sum / count } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reads_take_is_known_of_eight_of_late() {
        let (mut took, mut now) = (Took::default(), Instant::from_ns(1_000_000_000));
        for _ in 0..9 {
            assert_eq!(took.mean_ns(now), None);
            now += Duration::from_ms(10);
            took.note(now, Duration::from_us(500));
        }
        let mean_ns = took.mean_ns(now).unwrap();
        assert!((mean_ns - 5e5).abs() < 1.0, "{mean_ns}");
        let beyond_ns = took.beyond(now, 1e5);
        assert!((beyond_ns - 9.0 * 4e5).abs() < 1e5, "{beyond_ns}");
        assert!(took.beyond(now, 6e5) < 0.0);
        assert_eq!(took.mean_ns(now + Duration::from_secs(4)), None);
    }

    #[test]
    fn a_disk_that_lags_yet_is_asked_again_after_twice_as_long() {
        let (mut lags, mut now) = (Lags::default(), Instant::from_ns(1_000_000_000));
        for seconds in [8, 16, 32, 64, 64] {
            lags.begin(now);
            assert_eq!(lags.again, Duration::from_secs(seconds));
            now = now + lags.again + Duration::from_secs(1);
        }
        now += Duration::from_secs(64);
        lags.begin(now);
        assert_eq!(lags.again, AGAIN.get(), "it had no longer lagged");
    }
}
