//! Disks that take far longer for what they read than others, which have time for all of it.
//!
//! Streams that are as many as disks have one each, so that all arms have work. But where readers
//! are slower than disks, or come when they like, a disk that has too much to write, or a
//! neighbour, lets them wait for what another one would have read at once. The arm that has to
//! read as well loses most: it leaves the writes that it could do in one sweep.

use heliostat_types::{Duration, Instant, LEGS_MAX, LegId, LegSet};

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
    /// A disk lags that takes so many times as long as the quickest for each read and each byte,
    /// besides what it takes to read that where the arm is: who reads more at a time waits longer,
    /// and who reads less has an arm come back for less;
    TIMES: f32 = times(4.0);
    /// and so much longer than that for all of them together: a few are by chance.
    LOST_NS: f32 = ns(2e8);
    /// Others have time that are busy for so much of it at most, with what it had to read,
    BUSY: f32 = number(0.4);
    /// until they are for this, as who waits for slow readers is not.
    BUSY_STAYS: f32 = number(0.75);
    /// It was right to leave it if all reads take less than so much of what they took,
    GAIN: f32 = number(0.7);
    /// as far as that is seen after so long.
    GAIN_AFTER: Duration = time(Duration::from_secs(4));
    /// Where it was not, none is left for as long as one would be, unless reads take so many times
    /// as long as before.
    WORSE: f32 = times(2.0);
    /// It is asked again after so long,
    AGAIN: Duration = time(Duration::from_secs(8));
    /// and twice as long each time that it lags yet, up to this.
    AGAIN_MAX: Duration = time(Duration::from_secs(64));
    /// What was before nobody read for so long does not count.
    PAUSE: Duration = time(Duration::from_secs(1));
}

/// What reads of streams have taken of a leg of late.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Took {
    /// For how long they waited, and for how long besides what they take where the arm is,
    waited_ns: f32,
    own_ns: f32,
    /// which is so long.
    read_ns: f32,
    reads: f32,
    bytes: f32,
    until: Instant,
}

impl Took {
    /// A read was answered.
    pub(super) fn note(&mut self, now: Instant, bytes: u64, read_ns: f32, waited: Duration) {
        let kept = self.kept(now);
        let waited_ns = waited.as_ns() as f32;
        self.waited_ns = self.waited_ns * kept + waited_ns;
        self.own_ns = self.own_ns * kept + (waited_ns - read_ns).max(0.0);
        self.read_ns = self.read_ns * kept + read_ns;
        self.reads = self.reads * kept + 1.0;
        self.bytes = self.bytes * kept + bytes as f32;
        self.until = now;
    }

    /// How much of it counts now.
    fn kept(&self, now: Instant) -> f32 {
        1.0 - weight(now.saturating_since(self.until), TIME.get())
    }

    /// What one takes besides; `None` where there were too few.
    fn own_ns(&self, now: Instant) -> Option<f32> {
        let are_enough = self.reads * self.kept(now) >= READS.get();
        are_enough.then(|| self.own_ns / self.reads)
    }

    /// What a byte takes besides.
    fn own_ns_of_byte(&self) -> f32 {
        self.own_ns / self.bytes
    }

    /// What all of them would take where each takes so long besides.
    fn would_take_ns(&self, own_ns: f32) -> f32 {
        self.read_ns + self.reads * own_ns
    }

    /// How much longer all of them took than if each had taken so long besides.
    fn beyond(&self, now: Instant, each_ns: f32) -> f32 {
        (self.own_ns - each_ns * self.reads) * self.kept(now)
    }
}

/// Which disks lag.
#[derive(Debug, Default)]
pub(super) struct Lags {
    legs: LegSet,
    /// Since when, and for how long, they are not asked.
    since: Instant,
    again: Duration,
    /// Whether they were asked again after that, or it was wrong to leave them.
    are_asked: bool,
    /// What a read had taken, of all of them, in ns.
    before_ns: f32,
    /// Before that none is left.
    not_before: Instant,
    /// When that was looked at last.
    seen: Instant,
    /// Since when is known what reads take.
    took_since: Instant,
}

impl Lags {
    /// One more is left.
    fn begin(&mut self, now: Instant, before_ns: f32) {
        let twice = self.again + self.again;
        let were_asked = std::mem::take(&mut self.are_asked);
        if now.saturating_since(self.since) > twice {
            self.again = Duration::ZERO;
        } else if were_asked {
            self.again = twice;
        }
        self.again = self.again.max(AGAIN.get()).min(AGAIN_MAX.get());
        (self.since, self.before_ns) = (now, before_ns);
    }

    /// Whether one may be left now, as reads take so long: sooner after it was wrong where that is
    /// far longer by now.
    fn may_leave(&self, now: Instant, before_ns: f32) -> bool {
        now >= self.not_before || before_ns > WORSE.get() * self.before_ns
    }

    /// For how long is known what reads take, of late.
    fn known_ns(&self, now: Instant) -> f32 {
        let known = weight(now.saturating_since(self.took_since), TIME.get());
        known * TIME.get().as_ns() as f32
    }

    /// Whether they are to be read again, where others are busy for such a share of the time, and
    /// all reads take `mean_ns`.
    fn is_over(&mut self, now: Instant, busy: f32, mean_ns: Option<f32>) -> bool {
        let passed = now.saturating_since(self.since);
        let gains = |mean_ns: f32| mean_ns < GAIN.get() * self.before_ns;
        if passed >= GAIN_AFTER.get() && !mean_ns.is_none_or(gains) {
            self.not_before = now + self.again;
            self.are_asked = true;
        } else if busy > BUSY_STAYS.get() {
            self.not_before = now + self.again;
        } else if passed >= self.again {
            self.are_asked = true;
        } else {
            return false;
        }
        true
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
            self.forget_took(now);
        } else if self.is_beside_random() || count < helpers.count() {
            return;
        } else if !was.is_empty() {
            let busy = busy_share(helpers, &shares, was);
            let mean_ns = self.waited_ns(helpers, was);
            if self.lags.is_over(now, busy, mean_ns) {
                self.forget_took(now);
                return;
            }
            self.lags.legs = was;
        }
        let slowest = self.slowest(now, helpers, was);
        let before_ns = self.waited_ns(helpers, was).unwrap_or(0.0);
        if let Some(slowest) = slowest.filter(|_| self.lags.may_leave(now, before_ns)) {
            self.lags.begin(now, before_ns);
            self.forget_took(now);
            self.lags.legs.insert(slowest);
        }
        helpers.leave_for(self.lags.legs, Aside::Lags);
    }

    /// What reads took until now does not count.
    fn forget_took(&mut self, now: Instant) {
        self.lags.took_since = now;
        for pace in &mut self.paces {
            pace.took = Took::default();
        }
    }

    /// The slowest of those that are not in `left`, if it lags behind them and they have time for
    /// what it reads.
    fn slowest(&self, now: Instant, helpers: &Helpers, left: LegSet) -> Option<LegId> {
        let (mut least, mut most, mut slowest) = (f32::INFINITY, 0.0, None);
        let (mut busy, mut count, mut least_of_byte) = (0.0, 0.0, f32::INFINITY);
        for helper in helpers.iter().filter(|helper| !left.contains(helper.leg)) {
            let pace = &self.paces[helper.leg.index()];
            // What nothing is known of may be slower yet.
            let own_ns = pace.took.own_ns(now)?;
            least = f32::min(least, own_ns);
            least_of_byte = f32::min(least_of_byte, pace.took.own_ns_of_byte());
            if own_ns > most {
                (most, slowest) = (own_ns, Some(helper.leg));
            }
            busy += pace.busy.of_late();
            count += 1.0;
        }
        let leg = slowest.filter(|_| count > 1.0)?;
        let pace = &self.paces[leg.index()];
        let took = &pace.took;
        let lags = took.beyond(now, TIMES.get() * least) > LOST_NS.get()
            && took.own_ns_of_byte() > TIMES.get() * least_of_byte;
        let others =
            busy - pace.busy.of_late() + took.would_take_ns(least) / self.lags.known_ns(now);
        (lags && others < BUSY.get() * (count - 1.0)).then_some(leg)
    }

    /// What a read takes of all that do not lag; `None` where there were too few.
    fn waited_ns(&self, helpers: &Helpers, lagging: LegSet) -> Option<f32> {
        let legs = helpers.iter().map(|helper| helper.leg);
        let others = legs.filter(|leg| !lagging.contains(*leg));
        let took = others.map(|leg| &self.paces[leg.index()].took);
        let (ns, reads) = took.fold((0.0, 0.0), |(ns, reads), took| {
            (ns + took.waited_ns, reads + took.reads)
        });
        (reads >= READS.get()).then(|| ns / reads)
    }
}

/// For which part of the time the others are busy, on average, where each leg is for such a share.
fn busy_share(helpers: &Helpers, shares: &[f32; LEGS_MAX], lagging: LegSet) -> f32 {
    let legs = helpers.iter().map(|helper| helper.leg);
    let others = legs.filter(|leg| !lagging.contains(*leg));
    let (sum, count) = others.fold((0.0, 0.0), |(sum, count), leg| {
        (sum + shares[leg.index()], count + 1.0)
    });
    if count > 0.0 { sum / count } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reads_take_is_known_of_eight_of_late() {
        let (mut took, mut now) = (Took::default(), Instant::from_ns(1_000_000_000));
        for _ in 0..9 {
            assert_eq!(took.own_ns(now), None);
            now += Duration::from_ms(10);
            took.note(now, 1 << 16, 4e5, Duration::from_us(900));
        }
        let own_ns = took.own_ns(now).unwrap();
        assert!((own_ns - 5e5).abs() < 1.0, "{own_ns}");
        let of_byte = took.own_ns_of_byte();
        assert!((of_byte * 65_536.0 - 5e5).abs() < 1.0, "{of_byte}");
        let beyond_ns = took.beyond(now, 1e5);
        assert!((beyond_ns - 9.0 * 4e5).abs() < 1e5, "{beyond_ns}");
        assert!(took.beyond(now, 6e5) < 0.0);
        let all_ns = took.would_take_ns(1e5);
        assert!((all_ns - 9.0 * 5e5).abs() < 1e5, "{all_ns}");
        assert_eq!(took.own_ns(now + Duration::from_secs(4)), None);
    }

    #[test]
    fn a_disk_that_lags_yet_is_asked_again_after_twice_as_long() {
        let (mut lags, mut now) = (Lags::default(), Instant::from_ns(1_000_000_000));
        for seconds in [8, 16, 32, 64, 64] {
            lags.begin(now, 1e7);
            assert_eq!(lags.again, Duration::from_secs(seconds));
            now += Duration::from_secs(seconds - 1);
            assert!(!lags.is_over(now, 0.5, Some(1e6)));
            now += Duration::from_secs(1);
            assert!(lags.is_over(now, 0.5, Some(1e6)));
            assert!(lags.may_leave(now, 1e7));
            now += Duration::from_ms(500);
        }
        now += Duration::from_secs(64);
        lags.begin(now, 1e7);
        assert_eq!(lags.again, AGAIN.get(), "it had no longer lagged");
        // It was not asked.
        lags.begin(now + Duration::from_secs(1), 1e7);
        assert_eq!(lags.again, AGAIN.get());
    }

    #[test]
    fn who_gains_nothing_by_leaving_a_disk_comes_back_for_a_while() {
        let (mut lags, mut now) = (Lags::default(), Instant::from_ns(1_000_000_000));
        lags.begin(now, 1e7);
        now += Duration::from_secs(3);
        assert!(
            !lags.is_over(now, 0.5, Some(9e6)),
            "that may be what was there"
        );
        now += Duration::from_secs(1);
        assert!(!lags.is_over(now, 0.5, None));
        assert!(lags.is_over(now, 0.5, Some(9e6)));
        assert!(!lags.may_leave(now + Duration::from_secs(7), 1e7));
        assert!(
            lags.may_leave(now + Duration::from_secs(7), 3e7),
            "it is far worse"
        );
        assert!(lags.may_leave(now + Duration::from_secs(8), 1e7));
        lags.begin(now + Duration::from_secs(8), 1e7);
        assert_eq!(lags.again, Duration::from_secs(16));
        assert!(
            lags.is_over(now + Duration::from_secs(9), 0.8, Some(1e6)),
            "others are busy"
        );
    }
}
