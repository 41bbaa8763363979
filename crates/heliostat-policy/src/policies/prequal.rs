//! `prequal`: the fastest of the legs that are not hot (Prequal, NSDI 2024).

use heliostat_types::{Duration, Instant, LEGS_MAX, LegId, OpKind, Prng};

use crate::api::{LegView, Observes, OpView, ReadPlan, ReadPolicy, ReadRequest};
use crate::average::moved;
use crate::beliefs::{Fact, FactValue, LegBeliefs};
use crate::choice::lowest_by_key;
use crate::registry::{BareValue, PolicyInfo};
use crate::spec::PolicySpec;
use crate::tunable::Tunable;

/// 75 %: the middle of the range from 0.6 to 0.9 that the paper finds good.
const HOT_PERCENT: Tunable = Tunable::number(
    "hot_percent",
    75,
    (0, 100),
    "percent",
    "above which quantile of the numbers in flight a leg is hot",
);
/// 1 s: a leg that is passed over pays with one read a second for staying known.
const STALE_MS: Tunable = Tunable::number(
    "stale_ms",
    1_000,
    (1, u32::MAX as u64),
    "ms",
    "after how long without a read an idle leg is tried again",
);

/// A sample moves a leg's average by 1/8: a few reads show what a leg does under today's load.
const EWMA_PARTS: u32 = 8;
/// How many numbers in flight the quantile is of. It is found anew whenever as many have been
/// seen: some tens of picks, so that it follows the load and a pick pays little for it.
const SEEN_MAX: usize = 128;

pub(crate) static INFO: PolicyInfo = PolicyInfo {
    name: "prequal",
    summary: "the fastest of the legs whose queue is not among the longest (Prequal)",
    bare_value: BareValue::Refused,
    tunables: &[HOT_PERCENT, STALE_MS],
    build: |spec| {
        Box::new(Prequal {
            hot_percent: hot_percent(spec),
            stale: stale(spec),
            seen: Seen::EMPTY,
            legs: [LegLatency::default(); LEGS_MAX],
        })
    },
};

fn hot_percent(spec: &PolicySpec) -> usize {
    usize::try_from(spec.value(&HOT_PERCENT)).expect("a percentage")
}

fn stale(spec: &PolicySpec) -> Duration {
    Duration::from_ms(spec.value(&STALE_MS))
}

#[derive(Debug)]
struct Prequal {
    hot_percent: usize,
    stale: Duration,
    seen: Seen,
    legs: [LegLatency; LEGS_MAX],
}

/// The average of one leg's reads; of none while `updated` is `None`.
#[derive(Clone, Copy, Debug, Default)]
struct LegLatency {
    average_ns: u64,
    updated: Option<Instant>,
}

/// The numbers in flight that candidates had of late.
#[derive(Debug)]
struct Seen {
    numbers: [u32; SEEN_MAX],
    count: usize,
    /// Above this number a leg is hot.
    threshold: u32,
}

impl Seen {
    /// Nothing is hot before enough was seen.
    const EMPTY: Self = Self {
        numbers: [0; SEEN_MAX],
        count: 0,
        threshold: u32::MAX,
    };

    fn note(&mut self, in_flight: u32, percent: usize) {
        self.numbers[self.count] = in_flight;
        self.count += 1;
        if self.count == SEEN_MAX {
            let at = (SEEN_MAX - 1) * percent / 100;
            self.threshold = *self.numbers.select_nth_unstable(at).1;
            self.count = 0;
        }
    }
}

impl Prequal {
    /// The average; 0 for an idle leg that has to be tried, and the worst for one that is busy
    /// being tried.
    fn rank(&self, now: Instant, view: &LegView) -> u64 {
        let latency = &self.legs[view.leg.index()];
        let is_stale = latency
            .updated
            .is_none_or(|updated| now.saturating_since(updated) > self.stale);
        match (is_stale, view.in_flight()) {
            (false, _) => latency.average_ns,
            (true, 0) => 0,
            (true, _) => u64::MAX,
        }
    }
}

impl ReadPolicy for Prequal {
    fn name(&self) -> &'static str {
        INFO.name
    }

    fn observes(&self) -> Observes {
        Observes {
            complete: true,
            ..Observes::NOTHING
        }
    }

    fn configure(&mut self, spec: &PolicySpec) {
        self.hot_percent = hot_percent(spec);
        self.stale = stale(spec);
    }

    fn beliefs(&self, now: Instant, leg: LegId) -> LegBeliefs {
        let latency = &self.legs[leg.index()];
        let average = latency
            .updated
            .map(|_| Duration::from_ns(latency.average_ns));
        let answer = latency.updated.map(|at| now.saturating_since(at));
        let is_known = self.seen.threshold != u32::MAX;
        let hot_above = is_known.then(|| FactValue::Count(self.seen.threshold.into()));
        LegBeliefs::of_facts([
            Fact::new("average_ns", average.map(FactValue::Time)),
            Fact::new("answered_ns", answer.map(FactValue::Time)),
            Fact::new("hot_above", hot_above),
        ])
    }

    fn plan_read(
        &mut self,
        now: Instant,
        _request: &ReadRequest,
        legs: &[LegView],
        _prng: &mut dyn Prng,
    ) -> ReadPlan {
        for view in legs {
            self.seen.note(view.in_flight(), self.hot_percent);
        }
        let key = |view: &&LegView| {
            let in_flight = view.in_flight();
            let is_hot = in_flight > self.seen.threshold;
            // Among cold legs the fastest; among hot ones, where all are, the shortest queue.
            let rank = if is_hot { 0 } else { self.rank(now, view) };
            (is_hot, rank, in_flight)
        };
        ReadPlan::Leg(lowest_by_key(legs, key).leg)
    }

    fn on_complete(&mut self, now: Instant, op: &OpView, service_time: Duration, ok: bool) {
        // A leg that fails at once is not fast.
        if !ok || op.kind != OpKind::Read {
            return;
        }
        let latency = &mut self.legs[op.leg.index()];
        let sample = service_time.as_ns();
        latency.average_ns = match latency.updated {
            None => sample,
            Some(_) => moved(latency.average_ns, sample, EWMA_PARTS),
        };
        latency.updated = Some(now);
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
    use heliostat_types::Duration;

    use crate::testing::Bench;

    /// Leg 0 answers in 8 ms, leg 1 in 100 us, leg 2 in 120 us.
    fn mixed() -> Bench {
        let mut bench = Bench::new("prequal", 3);
        for (leg, us) in [(0, 8_000), (1, 100), (2, 120)] {
            assert_eq!(bench.pick(0), leg, "idle and unknown legs are tried");
            bench.complete_read(leg, us);
        }
        bench
    }

    #[test]
    fn the_fastest_cold_leg_is_picked() {
        assert_eq!(mixed().pick(0), 1);
    }

    #[test]
    fn hot_legs_are_left_to_cold_ones() {
        let mut bench = mixed();
        bench.legs[0].reads_in_flight = 1;
        bench.legs[1].reads_in_flight = 9;
        bench.legs[2].reads_in_flight = 2;
        // Before anything is known of queues, nothing is hot.
        assert_eq!(bench.pick(0), 1);
        // A third of what is seen is 9, so that the quantile of 75 % is 9: at 9 it is cold.
        for _ in 0..50 {
            bench.pick(0);
        }
        assert_eq!(bench.pick(0), 1);
        bench.legs[1].reads_in_flight = 10;
        assert_eq!(bench.pick(0), 2);
        bench.legs[0].reads_in_flight = 12;
        bench.legs[2].reads_in_flight = 11;
        assert_eq!(bench.pick(0), 1, "all are hot: the shortest queue");
    }

    #[test]
    fn an_idle_leg_is_tried_again_after_a_second() {
        let mut bench = mixed();
        bench.now += Duration::from_ms(999);
        bench.complete_read(1, 100);
        bench.complete_read(2, 120);
        bench.now += Duration::from_ms(2);
        assert_eq!(bench.pick(0), 0);
        bench.legs[0].reads_in_flight = 1;
        assert_eq!(bench.pick(0), 1, "by one read at a time");
    }
}
