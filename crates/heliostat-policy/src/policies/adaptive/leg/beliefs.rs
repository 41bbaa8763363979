//! What is known of a leg, for people.

use heliostat_types::{Duration, Instant};

use super::{Leg, PARTS, SIZES, SIZES_BELOW};
use crate::beliefs::{CurveBelief, CurvePoint, Fact, FactValue, LegBeliefs};
use crate::constants::Constant;

fn time(ns: f32) -> FactValue {
    FactValue::Time(duration(ns))
}

fn duration(ns: f32) -> Duration {
    Duration::from_secs_f64(f64::from(ns) / 1e9)
}

impl Leg {
    /// All that the leg is chosen by, or passed over.
    pub(in super::super) fn beliefs(&self, now: Instant) -> LegBeliefs {
        let slow = self.is_slow().then_some(&self.health);
        let factor = slow.map(|health| FactValue::Times(health.factor().into()));
        let tried_in = slow.map(|health| health.forgiven_at().saturating_since(now));
        let answered = (self.last_answer_at > Instant::ZERO).then_some(self.last_answer_at);
        let age = answered.map(|at| now.saturating_since(at));
        let is_seen = self.passed_over > 0 || self.last_read_at > Instant::ZERO;
        let class = if self.turns { "rotational" } else { "flash" };
        let paused = Some(self.paused_share(now)).filter(|share| *share > 0.0);
        let facts = [
            Fact::new("class", is_seen.then_some(FactValue::Word(class))),
            Fact::new("slow_times", factor),
            Fact::new("retried_in_ns", tried_in.map(FactValue::Time)),
            Fact::new(
                "stalls_ns",
                (!self.turns).then(|| time(self.stalls_ns(now))),
            ),
            Fact::new(
                "paused_share",
                paused.map(|share| FactValue::Share(share.into())),
            ),
            Fact::new(
                "writes_share",
                Some(FactValue::Share(self.writes_share(now).into())),
            ),
            Fact::new(
                "skipped_reads",
                Some(FactValue::Count(self.passed_over.into())),
            ),
            Fact::new("answered_ns", age.map(FactValue::Time)),
        ];
        LegBeliefs {
            curves: self.curve_beliefs().collect(),
            ..LegBeliefs::of_facts(facts)
        }
    }

    fn curve_beliefs(&self) -> impl Iterator<Item = CurveBelief> {
        let known = self.curves.iter().enumerate();
        let known = known.filter(|(_, curve)| curve.is_known());
        known.map(|(index, curve)| {
            let point = |(load, ns, seen)| CurvePoint {
                load,
                time: duration(ns),
                seen,
            };
            CurveBelief {
                bytes_max: SIZES_BELOW.get(index % SIZES).map(Constant::get),
                streams: (SIZES..PARTS).contains(&index),
                parts: index >= PARTS,
                weight: curve.reads(),
                points: curve.points().map(point).collect(),
            }
        })
    }
}
