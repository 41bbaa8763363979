//! `bcachefs`: a draw, weighted by one over the latency squared (bcachefs).

use heliostat_types::{Duration, Instant, LEGS_MAX, LegId, OpKind, Prng};

use crate::api::{LegView, Observes, OpView, ReadPlan, ReadPolicy, ReadRequest};
use crate::average::moved;
use crate::beliefs::{Fact, FactValue, LegBeliefs};
use crate::choice::modulo;
use crate::registry::{BareValue, PolicyInfo};

/// A sample moves the average by 1/32, as the original.
const EWMA_PARTS: u32 = 32;
/// A sample near the average is taken in only where the clock's nanoseconds are a multiple of
/// this, one time in 32, as the original, which saves itself the atomic operation.
const NEAR_SAMPLE_EVERY: u64 = 32;

pub(crate) static INFO: PolicyInfo = PolicyInfo {
    name: "bcachefs",
    summary: "a random draw, weighted by one over the average latency squared (bcachefs)",
    bare_value: BareValue::Refused,
    tunables: &[],
    build: |_| {
        Box::new(Bcachefs {
            legs: [LegLatency::default(); LEGS_MAX],
        })
    },
};

#[derive(Debug)]
struct Bcachefs {
    legs: [LegLatency; LEGS_MAX],
}

#[derive(Clone, Copy, Debug, Default)]
struct LegLatency {
    /// The average; 0 where no read has completed.
    average_ns: u64,
    /// One over its square, kept so that a pick does not divide.
    weight: f64,
}

impl LegLatency {
    #[expect(clippy::cast_precision_loss, reason = "a weight for a draw")]
    fn note_read(&mut self, now: Instant, service_time: Duration) {
        // An average of 0 means that there is none.
        let sample = service_time.as_ns().max(1);
        let old = self.average_ns;
        let is_near = old.abs_diff(sample) < old / 2;
        if is_near && !now.as_ns().is_multiple_of(NEAR_SAMPLE_EVERY) {
            return;
        }
        self.average_ns = if old == 0 {
            sample
        } else {
            moved(old, sample, EWMA_PARTS)
        };
        self.weight = 1.0 / (self.average_ns as f64 * self.average_ns as f64);
    }
}

impl ReadPolicy for Bcachefs {
    fn name(&self) -> &'static str {
        INFO.name
    }

    fn observes(&self) -> Observes {
        Observes {
            complete: true,
            ..Observes::NOTHING
        }
    }

    fn beliefs(&self, _now: Instant, leg: LegId) -> LegBeliefs {
        let latency = &self.legs[leg.index()];
        let average = (latency.average_ns > 0).then(|| Duration::from_ns(latency.average_ns));
        let total: f64 = self.legs.iter().map(|leg| leg.weight).sum();
        let share = average.map(|_| FactValue::Share(latency.weight / total));
        LegBeliefs::of_facts([
            Fact::new("average_ns", average.map(FactValue::Time)),
            Fact::new("drawn_share", share),
        ])
    }

    fn plan_read(
        &mut self,
        _now: Instant,
        _request: &ReadRequest,
        legs: &[LegView],
        prng: &mut dyn Prng,
    ) -> ReadPlan {
        let latency = |view: &LegView| &self.legs[view.leg.index()];
        let mut fresh = legs.iter().filter(|view| latency(view).average_ns == 0);
        let fresh_count = fresh.clone().count();
        if fresh_count > 0 {
            let drawn = fresh.nth(modulo(prng.next_u64(), fresh_count));
            return ReadPlan::Leg(drawn.expect("a number modulo the count").leg);
        }
        let total: f64 = legs.iter().map(|view| latency(view).weight).sum();
        let mut left = prng.unit_f64() * total;
        // Rounding may leave a rest behind the last leg: it is the last leg's.
        let (last, others) = legs.split_last().expect("a read has candidates");
        let drawn = others.iter().find(|view| {
            left -= latency(view).weight;
            left < 0.0
        });
        ReadPlan::Leg(drawn.unwrap_or(last).leg)
    }

    fn on_complete(&mut self, now: Instant, op: &OpView, service_time: Duration, ok: bool) {
        // A leg that fails at once is not fast.
        if ok && op.kind == OpKind::Read {
            self.legs[op.leg.index()].note_read(now, service_time);
        }
    }

    fn reset(&mut self, leg: Option<LegId>) {
        match leg {
            Some(leg) => self.legs[leg.index()] = LegLatency::default(),
            None => self.legs = [LegLatency::default(); LEGS_MAX],
        }
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Duration, Instant};

    use super::LegLatency;
    use crate::testing::Bench;

    fn shares(bench: &mut Bench, picks: u32) -> [f64; 3] {
        let mut counts = [0.0; 3];
        for _ in 0..picks {
            counts[bench.pick(0)] += 1.0 / f64::from(picks);
        }
        counts
    }

    #[test]
    fn shares_are_one_over_latency_squared() {
        let mut bench = Bench::new("bcachefs", 3);
        for (leg, us) in [(0, 200), (1, 100), (2, 400)] {
            bench.complete_read(leg, us);
        }
        // 1/4 : 1 : 1/16, of 21/16.
        let told = shares(&mut bench, 20_000);
        for (told, wanted) in told.into_iter().zip([4.0, 16.0, 1.0]) {
            assert!((told - wanted / 21.0).abs() < 0.02, "{told} of {wanted}/21");
        }
    }

    /// The original draws between the winner so far and the next one, so that of three equal legs
    /// the last had half of the reads.
    #[test]
    fn three_equal_legs_have_a_third_each() {
        let mut bench = Bench::new("bcachefs", 3);
        for leg in 0..3 {
            bench.complete_read(leg, 100);
        }
        let told = shares(&mut bench, 20_000);
        assert!(
            told.iter().all(|share| (share - 1.0 / 3.0).abs() < 0.02),
            "{told:?}"
        );
    }

    #[test]
    fn legs_that_were_never_read_come_first() {
        let mut bench = Bench::new("bcachefs", 3);
        bench.complete_read(1, 1);
        let told = shares(&mut bench, 2_000);
        assert!((told[0] - 0.5).abs() < 0.05 && told[1] == 0.0, "{told:?}");
    }

    #[test]
    fn near_samples_are_mostly_left_out() {
        let us = Duration::from_us;
        let mut leg = LegLatency::default();
        leg.note_read(Instant::from_ns(1), us(320));
        assert_eq!(leg.average_ns, 320_000, "the first sample as it is");
        leg.note_read(Instant::from_ns(1), us(400));
        assert_eq!(leg.average_ns, 320_000, "near, and 1 is no multiple of 32");
        leg.note_read(Instant::from_ns(64), us(400));
        assert_eq!(leg.average_ns, 322_500, "(31 * 320 + 400) / 32");
        leg.note_read(Instant::from_ns(1), us(3_200));
        assert_eq!(leg.average_ns, 412_421, "far");
    }

    #[test]
    fn failed_reads_teach_nothing() {
        let mut bench = Bench::new("bcachefs", 2);
        bench.complete_read(0, 100);
        bench.fail_read(1, 1);
        assert_eq!(bench.pick(0), 1, "still never read");
    }
}
