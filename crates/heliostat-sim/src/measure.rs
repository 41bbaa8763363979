//! Which part of a run is counted.

use heliostat_types::{Duration, Instant};

/// The measured time: from `begins_at` up to and without `ends_at`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Period {
    pub(crate) begins_at: Instant,
    pub(crate) ends_at: Instant,
}

impl Period {
    /// Whether what happens at `at` counts.
    pub(crate) fn contains(&self, at: Instant) -> bool {
        self.begins_at <= at && at < self.ends_at
    }

    /// How much of the time between two moments counts.
    pub(crate) fn overlap(&self, from: Instant, to: Instant) -> Duration {
        to.min(self.ends_at)
            .saturating_since(from.max(self.begins_at))
    }

    pub(crate) fn length(&self) -> Duration {
        self.ends_at - self.begins_at
    }
}

/// Whether the time that requests spent equals the time that requests were there for: what Little's
/// law says, without a limit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Littles {
    in_flight: u64,
    since: Instant,
    /// Integral of requests in flight over time.
    present_ns: u128,
    /// Sum of response times.
    spent_ns: u128,
}

impl Littles {
    pub(crate) fn on_arrival(&mut self, now: Instant) {
        self.pass(now);
        self.in_flight += 1;
    }

    pub(crate) fn on_answer(&mut self, now: Instant, response_time: Duration) {
        self.pass(now);
        self.in_flight -= 1;
        self.spent_ns += u128::from(response_time.as_ns());
    }

    /// Whether both sides agree; all requests must be answered.
    pub(crate) const fn holds(&self) -> bool {
        self.in_flight == 0 && self.present_ns == self.spent_ns
    }

    fn pass(&mut self, now: Instant) {
        let passed = (now - self.since).as_ns();
        self.present_ns += u128::from(passed) * u128::from(self.in_flight);
        self.since = now;
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Duration, Instant};

    use super::{Littles, Period};

    #[test]
    fn only_the_measured_part_counts() {
        let at = |secs| Instant::ZERO + Duration::from_secs(secs);
        let period = Period {
            begins_at: at(10),
            ends_at: at(20),
        };
        assert!(!period.contains(at(9)) && period.contains(at(10)) && !period.contains(at(20)));
        assert_eq!(period.overlap(at(5), at(12)), Duration::from_secs(2));
        assert_eq!(period.overlap(at(5), at(9)), Duration::ZERO);
        assert_eq!(period.overlap(at(5), at(90)), period.length());
    }

    #[test]
    fn littles_law_is_an_identity() {
        let at = Instant::from_ns;
        let mut littles = Littles::default();
        littles.on_arrival(at(5));
        littles.on_arrival(at(7));
        littles.on_answer(at(10), Duration::from_ns(5));
        assert!(!littles.holds());
        littles.on_answer(at(20), Duration::from_ns(13));
        assert!(littles.holds());
    }
}
