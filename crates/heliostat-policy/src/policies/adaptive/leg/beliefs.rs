//! What is known of a leg, for people.

use heliostat_types::{Duration, Instant};

use super::{Leg, SIZES, SIZES_BELOW};
use crate::beliefs::{CurveBelief, CurvePoint, Fact, FactValue, LegBeliefs};

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
        let factor = slow.map(|health| FactValue::Times(health.factor()));
        let tried_in = slow.map(|health| health.forgiven_at().saturating_since(now));
        let seek = self.arm.line().filter(|_| self.turns);
        let answered = (self.last_answer_at > Instant::ZERO).then_some(self.last_answer_at);
        let age = answered.map(|at| now.saturating_since(at));
        let facts = [
            Fact::new("arm", Some(FactValue::Flag(self.turns))),
            Fact::new("slow_times", factor),
            Fact::new("tried_again_in_ns", tried_in.map(FactValue::Time)),
            Fact::new("seek_1gb_ns", seek.map(|line| time(line.slope))),
            Fact::new(
                "stalls_ns",
                (!self.turns).then(|| time(self.stalls_ns(now))),
            ),
            Fact::new("writes_share", Some(FactValue::Share(self.writes))),
            Fact::new(
                "passed_over_reads",
                Some(FactValue::Count(self.passed_over.into())),
            ),
            Fact::new("last_answer_ns", age.map(FactValue::Time)),
        ];
        LegBeliefs {
            facts: facts.into_iter().flatten().collect(),
            curves: self.curve_beliefs().collect(),
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
                bytes_max: SIZES_BELOW.get(index % SIZES).copied(),
                streams: index >= SIZES,
                weight: curve.reads(),
                points: curve.points().map(point).collect(),
            }
        })
    }
}
