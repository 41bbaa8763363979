//! `hst`: the shortest historical service time times what is outstanding (device-mapper).

use std::cmp::Ordering;

use heliostat_types::{Duration, Instant, LEGS_MAX, LegId, OpKind, Prng};

use crate::api::{LegView, Observes, OpView, ReadPlan, ReadPolicy, ReadRequest};
use crate::beliefs::{Fact, FactValue, LegBeliefs};
use crate::recency::Recency;
use crate::registry::{BareValue, PolicyInfo};
use crate::spec::PolicySpec;
use crate::tunable::Tunable;

/// One, in numbers with ten bits behind the point.
const ONE: u64 = 1 << 10;
/// 972 of 1024, about 0.95, as the original: a sample of up to 17 ms moves the average by 5 %.
const BASE_WEIGHT: Tunable = Tunable::number(
    "base_weight",
    972,
    (0, ONE - 1),
    "1/1024",
    "how much of the average a short sample leaves",
);
/// 0, as the original: service times always decide.
const THRESHOLD: Tunable = Tunable::number(
    "threshold_multiplier",
    0,
    (0, u32::MAX as u64),
    "",
    "within which factor service times are equal and the fewest in flight decide",
);

/// Samples are sorted by 2^24 ns, 16.8 ms: the longer, the more they count.
const BUCKET_BITS: u32 = 24;
/// How many sorts there are; a sample of the last one, above 1.06 s, replaces the average.
const BUCKETS: usize = 64;

pub(crate) static INFO: PolicyInfo = PolicyInfo {
    name: "hst",
    summary: "the shortest historical service time times what is in flight (device-mapper)",
    bare_value: BareValue::Refused,
    tunables: &[BASE_WEIGHT, THRESHOLD],
    build: |spec| Box::new(Hst::new(spec)),
};

#[derive(Debug)]
struct Hst {
    /// What a sample of each sort leaves of the average, of [`ONE`].
    weights: [u64; BUCKETS],
    threshold_multiplier: u64,
    /// How many legs there were to choose from at the last pick.
    candidate_count: u64,
    recency: Recency,
    legs: [History; LEGS_MAX],
}

#[derive(Clone, Copy, Debug)]
struct History {
    /// The average, in nanoseconds.
    service_time: u64,
    /// When an operation last ended.
    last_finish: Instant,
    /// From when on the average is too old to be believed.
    stale_after: Instant,
}

impl History {
    /// 1 ns, as the original, so that every leg is tried.
    const EMPTY: Self = Self {
        service_time: 1,
        last_finish: Instant::ZERO,
        stale_after: Instant::ZERO,
    };

    fn note_sample(&mut self, sample: u64, weights: &[u64; BUCKETS]) {
        let bucket = usize::try_from(sample >> BUCKET_BITS).unwrap_or(BUCKETS);
        let weight = u128::from(weights[bucket.min(BUCKETS - 1)]);
        let one = u128::from(ONE);
        let sum = u128::from(self.service_time) * weight + u128::from(sample) * (one - weight);
        self.service_time =
            u64::try_from(sum / one).expect("an average lies between what it is of");
    }
}

impl Hst {
    fn new(spec: &PolicySpec) -> Self {
        Self {
            weights: weights(spec.value(&BASE_WEIGHT)),
            threshold_multiplier: spec.value(&THRESHOLD),
            candidate_count: 1,
            recency: Recency::default(),
            legs: [History::EMPTY; LEGS_MAX],
        }
    }

    /// Less: `a` is the better one.
    fn compare(&self, now: Instant, a: &LegView, b: &LegView) -> Ordering {
        let history = |view: &LegView| &self.legs[view.leg.index()];
        let is_stale = |view: &LegView| history(view).stale_after < now;
        let fewer = a.in_flight().cmp(&b.in_flight());
        let times = [a, b].map(|view| u128::from(history(view).service_time));
        let longest = times[0].max(times[1]);
        let shortest = times[0].min(times[1]);
        if longest <= u128::from(self.threshold_multiplier) * shortest {
            return fewer;
        }
        match (a.in_flight(), b.in_flight()) {
            (0, 0) => return history(a).stale_after.cmp(&history(b).stale_after),
            (0, _) if is_stale(a) => return Ordering::Less,
            (_, 0) if is_stale(b) => return Ordering::Greater,
            _ => {}
        }
        let cost = |view: &LegView, time: u128| (1 + u128::from(view.in_flight())) * time;
        let cheaper = cost(a, times[0]).cmp(&cost(b, times[1]));
        let winner = if cheaper.is_gt() { b } else { a };
        // A busy leg whose average is too old to be believed.
        if is_stale(winner) { fewer } else { cheaper }
    }
}

/// `base` to the power of 1, 2, 3 ..., with ten bits behind the point, rounded down; 0 for the
/// last.
fn weights(base: u64) -> [u64; BUCKETS] {
    let mut weights = [0; BUCKETS];
    let mut weight = ONE;
    for slot in &mut weights[..BUCKETS - 1] {
        weight = weight * base / ONE;
        *slot = weight;
    }
    weights
}

impl ReadPolicy for Hst {
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
        self.weights = weights(spec.value(&BASE_WEIGHT));
        self.threshold_multiplier = spec.value(&THRESHOLD);
    }

    fn beliefs(&self, now: Instant, leg: LegId) -> LegBeliefs {
        let history = &self.legs[leg.index()];
        let is_stale = history.stale_after < now;
        LegBeliefs::of_facts([
            Fact::new(
                "service_time_ns",
                Some(FactValue::Time(Duration::from_ns(history.service_time))),
            ),
            Fact::new("too_old", Some(FactValue::Flag(is_stale))),
        ])
    }

    fn plan_read(
        &mut self,
        now: Instant,
        _request: &ReadRequest,
        legs: &[LegView],
        _prng: &mut dyn Prng,
    ) -> ReadPlan {
        self.candidate_count = u64::try_from(legs.len()).expect("a count of legs");
        let chosen = legs
            .iter()
            .reduce(|best, view| {
                // The one picked longest ago of equals.
                let older = |view: &LegView| self.recency.picked_at(view.leg);
                let order = self.compare(now, best, view);
                if order.then(older(best).cmp(&older(view))).is_gt() {
                    view
                } else {
                    best
                }
            })
            .expect("a read has candidates");
        self.recency.note(chosen.leg);
        ReadPlan::Leg(chosen.leg)
    }

    fn on_complete(&mut self, now: Instant, op: &OpView, service_time: Duration, ok: bool) {
        if !(op.kind == OpKind::Read || op.kind.is_mutating()) {
            return;
        }
        let leg = &mut self.legs[op.leg.index()];
        // Of operations that overlap, each counts from the end of the one before.
        let busy = service_time.min(now.saturating_since(leg.last_finish));
        leg.last_finish = now;
        // A leg that fails at once is not fast.
        if ok {
            leg.note_sample(busy.as_ns(), &self.weights);
        }
        leg.stale_after = now + Duration::from_ns(leg.service_time) * self.candidate_count;
    }

    fn reset(&mut self, leg: Option<LegId>) {
        match leg {
            Some(leg) => self.legs[leg.index()] = History::EMPTY,
            None => self.legs = [History::EMPTY; LEGS_MAX],
        }
    }
}

#[cfg(test)]
mod tests;
