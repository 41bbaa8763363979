//! How long an arm has been at the read that it has.

use heliostat_types::Instant;

use super::{MET_READS, ns};

/// Since when an arm is at a read, and for how long it was when others were sent behind that.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AtWork {
    reads: u32,
    /// When it last ended a read, or was sent one while it had none. Writes that a drive answers
    /// from its cache tell nothing.
    since: Instant,
    met_ns: f32,
}

impl AtWork {
    pub(super) fn see(&mut self, reads: u32) {
        self.reads = reads;
    }

    /// A read is sent. `each_ns`: what each takes at this load.
    pub(super) fn sent(&mut self, now: Instant, each_ns: f32) {
        if self.reads == 0 {
            self.since = now;
        } else {
            self.met_ns += (self.age_ns(now, each_ns) - self.met_ns) / MET_READS.get();
        }
        self.reads = self.reads.saturating_add(1);
    }

    pub(super) fn ended(&mut self, now: Instant) {
        self.reads = self.reads.saturating_sub(1);
        self.since = now;
    }

    /// How much sooner it comes to the next read than it did on average, by how long it has been at
    /// this one.
    pub(super) fn sooner_ns(&self, now: Instant, each_ns: f32) -> f32 {
        if self.reads > 0 {
            self.age_ns(now, each_ns) - self.met_ns
        } else {
            0.0
        }
    }

    /// What takes longer than usual is not known to end soon.
    fn age_ns(&self, now: Instant, each_ns: f32) -> f32 {
        ns(now.saturating_since(self.since)).min(each_ns)
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
        assert_eq!(
            at_work.sooner_ns(at(0), EACH_NS),
            0.0,
            "nothing is before it"
        );
        // Each read meets another one that was begun 4 ms before.
        for number in 0..1_000 {
            let begins = number * 20;
            at_work.sent(at(begins), EACH_NS);
            at_work.sent(at(begins + 4), EACH_NS);
            at_work.ended(at(begins + 8));
            at_work.ended(at(begins + 16));
        }
        at_work.sent(at(20_000), EACH_NS);
        for (ms, sooner_ms) in [(0, -4.0), (4, 0.0), (7, 3.0), (8, 4.0), (100, 4.0)] {
            let sooner_ns = at_work.sooner_ns(at(20_000 + ms), EACH_NS);
            assert!(
                (sooner_ns / 1e6 - sooner_ms).abs() < 0.1,
                "{ms} ms: {sooner_ns}"
            );
        }
        // The next one is begun when that ends, however long it has waited.
        at_work.sent(at(20_005), EACH_NS);
        at_work.ended(at(20_008));
        let sooner_ns = at_work.sooner_ns(at(20_008), EACH_NS);
        assert!((sooner_ns / 1e6 + 4.0).abs() < 0.2, "{sooner_ns}");
    }
}
