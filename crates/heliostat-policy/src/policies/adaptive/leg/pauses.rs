//! For which share of the time of late flash that had something to do has answered nothing.

use heliostat_types::{Duration, Instant};

use super::{
    PAUSE_ANSWERS, PAUSE_NS, PAUSE_READS, PAUSE_TIMES, PAUSES_OVER_NS, PAUSES_SHARE_MAX, ns,
};

/// What lies between answers, and how much of the time of late was far more than that.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pauses {
    /// The mean time between two answers.
    gap_ns: f32,
    share: f32,
    at: Instant,
}

impl Pauses {
    /// After an answer, before which there was none for so long, where a read would take `read_ns`
    /// of all that was in flight.
    pub(super) fn answered(
        mut self,
        now: Instant,
        gap: Duration,
        read_ns: impl FnOnce() -> f32,
    ) -> Self {
        if gap == Duration::ZERO {
            // Of answers that are taken over at once one tells.
            return self;
        }
        let gap_ns = ns(gap);
        if self.gap_ns == 0.0 {
            self.gap_ns = gap_ns;
        }
        let longest_ns = PAUSE_TIMES.get() * self.gap_ns;
        let is_long = gap_ns > longest_ns.max(PAUSE_NS.get());
        if is_long && gap_ns > PAUSE_READS.get() * read_ns() {
            let share = self.share(now) + gap_ns / PAUSES_OVER_NS.get();
            self.share = share.min(PAUSES_SHARE_MAX.get());
            self.at = now;
        }
        self.gap_ns += (gap_ns.min(longest_ns) - self.gap_ns) / PAUSE_ANSWERS.get();
        self
    }

    /// What is left of the share.
    pub(super) fn share(&self, now: Instant) -> f32 {
        if self.share == 0.0 {
            return 0.0;
        }
        let age = ns(now.saturating_since(self.at)) / PAUSES_OVER_NS.get();
        self.share * (1.0 - age).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Duration, Instant};

    use super::Pauses;

    /// An answer each 100 us, and none for 5 ms each 60 ms.
    fn pausing(until: Instant) -> Pauses {
        let mut pauses = Pauses::default();
        let mut now = Instant::ZERO;
        while now < until {
            for _ in 0..550 {
                now += Duration::from_us(100);
                pauses = pauses.answered(now, Duration::from_us(100), || 1e5);
            }
            now += Duration::from_ms(5);
            pauses = pauses.answered(now, Duration::from_ms(5), || 1e5);
        }
        pauses
    }

    #[test]
    fn a_share_of_the_time_is_paused() {
        let until = Instant::ZERO + Duration::from_secs(6);
        let pauses = pausing(until);
        let share = pauses.share(until);
        assert!((share - 5.0 / 60.0).abs() < 0.01, "{share}");
        let later = until + Duration::from_secs(1);
        let left = pauses.share(later) / share;
        assert!(
            (left - 0.5).abs() < 0.05,
            "half of it after a second: {left}"
        );
        let forgotten = pauses.share(until + Duration::from_ms(2_100));
        assert!(forgotten == 0.0, "{forgotten}");
    }

    #[test]
    fn answers_that_are_taken_over_at_once_are_one() {
        let mut pauses = Pauses::default();
        let mut now = Instant::ZERO;
        for _ in 0..1_000 {
            now += Duration::from_us(1_500);
            pauses = pauses.answered(now, Duration::from_us(1_500), || 1e5);
            for _ in 0..32 {
                pauses = pauses.answered(now, Duration::ZERO, || 1e5);
            }
        }
        let share = pauses.share(now);
        assert!(share == 0.0, "{share}");
    }

    #[test]
    fn who_answers_slowly_does_not_pause() {
        for (long_us, read_ns, pauses_too) in [
            // Blocks that are being written take six times as long as others.
            (3_000, 5e5, false),
            // And a long read takes what it takes.
            (6_000, 2.5e6, false),
            (6_000, 5e5, true),
        ] {
            let mut pauses = Pauses::default();
            let mut now = Instant::ZERO;
            for read in 0..1_000 {
                let gap = Duration::from_us(if read % 64 == 63 { long_us } else { 500 });
                now += gap;
                pauses = pauses.answered(now, gap, || read_ns);
            }
            let share = pauses.share(now);
            assert_eq!(share > 0.0, pauses_too, "{long_us} us: {share}");
        }
    }
}
