//! How long an arm has been at what it has: a read, or something else that no cache answers.

use heliostat_types::Instant;

use super::{MET_READS, SILENT, ns};

/// Since when an arm is at what it has, and for how long it was at a read when others were sent
/// behind that.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AtWork {
    reads: u32,
    /// When it last ended a read, or was sent one while it had none. Writes that a drive answers
    /// from its cache tell nothing.
    since: Instant,
    /// When it last ended something else than a read, which no cache had answered.
    wrote_at: Instant,
    met_ns: f32,
}

impl AtWork {
    pub(super) fn see(&mut self, reads: u32) {
        self.reads = reads;
    }

    /// A read is sent, which tells where `each_ns` is what each takes at this load.
    pub(super) fn sent(&mut self, now: Instant, each_ns: Option<f32>) {
        if self.reads == 0 {
            self.since = now;
        } else if let Some(each_ns) = each_ns {
            let age_ns = self.age_ns(now).min(each_ns);
            self.met_ns += (age_ns - self.met_ns) / MET_READS.get();
        }
        self.reads = self.reads.saturating_add(1);
    }

    pub(super) fn ended(&mut self, now: Instant) {
        self.reads = self.reads.saturating_sub(1);
        self.since = now;
    }

    /// Something else than a read has ended, and was no answer of a cache.
    pub(super) const fn wrote(&mut self, now: Instant) {
        self.wrote_at = now;
    }

    /// Since when it has been at what it ends now, as far as is seen.
    pub(super) fn began(&self) -> Instant {
        self.since.max(self.wrote_at)
    }

    /// What a read takes that would take `cost` on average: less by as much longer as the arm has
    /// been at the one that it has. What takes far longer than usual is not known to end.
    pub(super) fn cost(&self, now: Instant, cost: f32, each_ns: f32) -> f32 {
        if self.reads == 0 {
            return cost;
        }
        let age_ns = self.age_ns(now);
        if age_ns > SILENT.get() * each_ns {
            cost.max(age_ns)
        } else {
            cost - (age_ns.min(each_ns) - self.met_ns)
        }
    }

    /// Whether all of so many operations are reads.
    pub(super) const fn are_all(&self, in_flight: u32) -> bool {
        self.reads == in_flight
    }

    fn age_ns(&self, now: Instant) -> f32 {
        ns(now.saturating_since(self.since))
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Duration, Instant};

    use super::AtWork;

    const EACH_NS: f32 = 8e6;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_ms(ms)
    }

    #[test]
    fn an_arm_that_has_been_at_a_read_for_long_comes_sooner_to_the_next() {
        let mut at_work = AtWork::default();
        let cost_ms =
            |at_work: &AtWork, ms: u64| at_work.cost(at(ms), 2.0 * EACH_NS, EACH_NS) / 1e6;
        assert_eq!(cost_ms(&at_work, 0), 16.0, "nothing is before it");
        // Each read meets another one that was begun 4 ms before.
        for number in 0..1_000 {
            let begins = number * 20;
            at_work.sent(at(begins), Some(EACH_NS));
            at_work.sent(at(begins + 4), Some(EACH_NS));
            at_work.ended(at(begins + 8));
            at_work.ended(at(begins + 16));
        }
        at_work.sent(at(20_000), None);
        for (ms, expected) in [
            (0, 20),
            (4, 16),
            (7, 13),
            (8, 12),
            (16, 12),
            (17, 17),
            (500, 500),
        ] {
            let cost_ms = cost_ms(&at_work, 20_000 + ms);
            assert!(
                (cost_ms - expected as f32).abs() < 0.1,
                "{ms} ms: {cost_ms}"
            );
        }
        // The next one is begun when that ends, however long it has waited.
        at_work.sent(at(20_005), None);
        at_work.ended(at(20_008));
        let cost_ms = cost_ms(&at_work, 20_008);
        assert!((cost_ms - 20.0).abs() < 0.1, "{cost_ms}");
    }
}
