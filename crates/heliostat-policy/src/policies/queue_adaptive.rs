//! `queue-adaptive`: the fewest in flight, unless that leg has lately been much slower (kakra,
//! 2025).
//!
//! The original's thresholds are not published; the ones here, and the state machine, are ours.
//! Each leg's reads are averaged in windows, and the last full window is the leg's *recent
//! average* until it is stale. A leg whose recent average is far above the best one is *suspect*.
//! The leg with the fewest operations in flight is picked; if it is suspect, it is vetoed in favour
//! of the least busy leg that is not, unless that one is busier by the overflow margin.

use heliostat_types::{Duration, Instant, LEGS_MAX, LegId, OpKind, Prng};

use crate::api::{LegView, Observes, OpView, ReadPlan, ReadPolicy, ReadRequest};
use crate::beliefs::{Fact, FactValue, LegBeliefs};
use crate::choice::lowest_by_key;
use crate::registry::{BareValue, PolicyInfo};
use crate::spec::PolicySpec;
use crate::tunable::Tunable;

/// Twice as slow: two equal drives stay below that, two kinds of drive do not.
const VETO_PERCENT: Tunable = Tunable::number(
    "veto_percent",
    200,
    (100, 100_000),
    "percent",
    "from how slow on, in percent of the fastest, a leg is suspect",
);
/// 8: shallow queues stay off the slow legs altogether, and at depth 32 every leg works.
const OVERFLOW_MARGIN: Tunable = Tunable::number(
    "overflow_margin",
    8,
    (1, u32::MAX as u64),
    "operations",
    "how many operations more a healthy leg may have before a suspect one is read all the same",
);
/// 32 reads: enough that one stray read does not decide, and a third of a second of a hard disk.
const WINDOW_READS: Tunable = Tunable::number(
    "window_reads",
    32,
    (1, u32::MAX as u64),
    "reads",
    "how many reads make a window",
);
/// 1 s: a leg that is seldom read is judged by what it did in one second.
const WINDOW_MS: Tunable = Tunable::number(
    "window_ms",
    1_000,
    (1, u32::MAX as u64),
    "ms",
    "after how long a window ends with fewer reads than that",
);
/// 10 s: a suspect leg gets another window then, some 3 % of a slow disk's time.
const STALE_MS: Tunable = Tunable::number(
    "stale_ms",
    10_000,
    (1, u32::MAX as u64),
    "ms",
    "how long a window counts after its end",
);

pub(crate) static INFO: PolicyInfo = PolicyInfo {
    name: "queue-adaptive",
    summary: "the fewest in flight, with a veto against legs slow of late (btrfs, kakra)",
    bare_value: BareValue::Refused,
    tunables: &[
        VETO_PERCENT,
        OVERFLOW_MARGIN,
        WINDOW_READS,
        WINDOW_MS,
        STALE_MS,
    ],
    build: |spec| {
        Box::new(QueueAdaptive {
            reason: FEWEST,
            limits: Limits::new(spec),
            legs: [Window::EMPTY; LEGS_MAX],
        })
    },
};

/// What decides, in the words of docs/explain.md.
const FEWEST: &str = "fewest in flight";
const VETO: &str = "the one with fewer is slow";
const OVERFLOW: &str = "slow, others much busier";

#[derive(Debug)]
struct QueueAdaptive {
    /// What decided last.
    reason: &'static str,
    limits: Limits,
    legs: [Window; LEGS_MAX],
}

#[derive(Debug)]
struct Limits {
    veto_percent: u128,
    overflow_margin: u32,
    window_reads: u64,
    window: Duration,
    stale: Duration,
}

impl Limits {
    fn new(spec: &PolicySpec) -> Self {
        Self {
            veto_percent: spec.value(&VETO_PERCENT).into(),
            overflow_margin: spec.value_u32(&OVERFLOW_MARGIN),
            window_reads: spec.value(&WINDOW_READS),
            window: Duration::from_ms(spec.value(&WINDOW_MS)),
            stale: Duration::from_ms(spec.value(&STALE_MS)),
        }
    }
}

/// What is known of one leg's reads.
#[derive(Clone, Copy, Debug)]
struct Window {
    began: Instant,
    reads: u64,
    wait: Duration,
    recent: Option<Recent>,
}

/// The average of a full window.
#[derive(Clone, Copy, Debug)]
struct Recent {
    average_ns: u64,
    ended: Instant,
}

impl Window {
    const EMPTY: Self = Self {
        began: Instant::ZERO,
        reads: 0,
        wait: Duration::ZERO,
        recent: None,
    };

    fn note_read(&mut self, now: Instant, service_time: Duration, limits: &Limits) {
        if self.reads == 0 {
            self.began = now;
        }
        self.reads += 1;
        self.wait += service_time;
        let is_old = now.saturating_since(self.began) >= limits.window;
        if self.reads >= limits.window_reads || is_old {
            self.recent = Some(Recent {
                average_ns: self.wait.as_ns() / self.reads,
                ended: now,
            });
            self.reads = 0;
            self.wait = Duration::ZERO;
        }
    }

    fn recent_ns(&self, now: Instant, limits: &Limits) -> Option<u64> {
        self.recent
            .filter(|recent| now.saturating_since(recent.ended) <= limits.stale)
            .map(|recent| recent.average_ns)
    }
}

impl ReadPolicy for QueueAdaptive {
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
        self.limits = Limits::new(spec);
    }

    fn beliefs(&self, now: Instant, leg: LegId) -> LegBeliefs {
        let window = &self.legs[leg.index()];
        let average = window.recent_ns(now, &self.limits).map(Duration::from_ns);
        let ended = window
            .recent
            .map(|recent| now.saturating_since(recent.ended));
        LegBeliefs::of_facts([
            Fact::new("average_ns", average.map(FactValue::Time)),
            Fact::new("window_ended_ns", ended.map(FactValue::Time)),
            Fact::new("window_reads", Some(FactValue::Count(window.reads))),
        ])
    }

    fn plan_read(
        &mut self,
        now: Instant,
        _request: &ReadRequest,
        legs: &[LegView],
        _prng: &mut dyn Prng,
    ) -> ReadPlan {
        self.reason = FEWEST;
        let least_busy = lowest_by_key(legs, |view| view.in_flight());
        let recent_ns = |view: &LegView| self.legs[view.leg.index()].recent_ns(now, &self.limits);
        let Some(best_ns) = legs.iter().filter_map(recent_ns).min() else {
            return ReadPlan::Leg(least_busy.leg);
        };
        let limit = u128::from(best_ns) * self.limits.veto_percent;
        let is_suspect =
            |view: &LegView| recent_ns(view).is_some_and(|ns| u128::from(ns) * 100 > limit);
        if !is_suspect(least_busy) {
            return ReadPlan::Leg(least_busy.leg);
        }
        let healthy = legs
            .iter()
            .filter(|view| !is_suspect(view))
            .min_by_key(|view| view.in_flight())
            .expect("the leg with the best average is not suspect");
        let busier_by = healthy.in_flight() - least_busy.in_flight();
        let is_vetoed = busier_by < self.limits.overflow_margin;
        let (chosen, reason) = if is_vetoed {
            (healthy.leg, VETO)
        } else {
            (least_busy.leg, OVERFLOW)
        };
        self.reason = reason;
        ReadPlan::Leg(chosen)
    }

    fn reason(&self) -> Option<&'static str> {
        Some(self.reason)
    }

    fn on_complete(&mut self, now: Instant, op: &OpView, service_time: Duration, ok: bool) {
        if ok && op.kind == OpKind::Read {
            self.legs[op.leg.index()].note_read(now, service_time, &self.limits);
        }
    }

    fn reset(&mut self, leg: Option<LegId>) {
        match leg {
            Some(leg) => self.legs[leg.index()] = Window::EMPTY,
            None => self.legs = [Window::EMPTY; LEGS_MAX],
        }
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::Duration;

    use crate::testing::Bench;

    /// Leg 0 answers in 8 ms, the others in 100 and 150 us.
    fn mixed() -> Bench {
        let mut bench = Bench::new("queue-adaptive:window_reads=2", 3);
        for (leg, us) in [(0, 8_000), (1, 100), (2, 150)] {
            bench.complete_read(leg, us);
            bench.complete_read(leg, us);
        }
        bench
    }

    #[test]
    fn without_a_full_window_it_is_queue() {
        let mut bench = Bench::new("queue-adaptive:window_reads=2", 2);
        bench.complete_read(0, 8_000);
        bench.complete_read(1, 100);
        assert_eq!(bench.pick(0), 0);
        bench.complete_read(0, 8_000);
        assert_eq!(bench.pick(0), 0, "there is nothing to compare with");
        bench.complete_read(1, 100);
        assert_eq!(bench.pick(0), 1);
    }

    #[test]
    fn a_suspect_leg_is_vetoed_until_the_others_are_busier() {
        let mut bench = mixed();
        assert_eq!(bench.pick(0), 1);
        assert_eq!(bench.reason(), "the one with fewer is slow");
        bench.legs[1].reads_in_flight = 1;
        assert_eq!(bench.pick(0), 2, "the least busy of the healthy ones");
        bench.legs[1].reads_in_flight = 7;
        bench.legs[2].reads_in_flight = 8;
        assert_eq!(bench.pick(0), 1);
        bench.legs[1].reads_in_flight = 8;
        assert_eq!(bench.pick(0), 0, "overflow");
        assert_eq!(bench.reason(), "slow, others much busier");
    }

    #[test]
    fn twice_as_slow_is_not_suspect() {
        let mut bench = Bench::new("queue-adaptive:window_reads=1", 2);
        bench.complete_read(0, 200);
        bench.complete_read(1, 100);
        assert_eq!((bench.pick(0), bench.reason()), (0, "fewest in flight"));
        bench.complete_read(0, 201);
        assert_eq!(bench.pick(0), 1);
    }

    #[test]
    fn a_stale_window_does_not_count() {
        let mut bench = mixed();
        bench.now += Duration::from_ms(10_000);
        assert_eq!(bench.pick(0), 1);
        bench.now += Duration::from_ms(1);
        assert_eq!(bench.pick(0), 0);
    }

    #[test]
    fn a_window_ends_with_its_time() {
        let mut bench = mixed();
        bench.complete_read(0, 50);
        assert_eq!(bench.pick(0), 1, "one read is no window yet");
        bench.now += Duration::from_ms(1_000);
        bench.complete_read(0, 50);
        assert_eq!(bench.pick(0), 0);
    }
}
