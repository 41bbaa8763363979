//! `latency-rr`: turns among the legs that are nearly as fast as the fastest (kakra, 2024).

use heliostat_types::{Duration, Instant, LegId, OpKind, Prng};

use crate::api::{Checkpoint, LegView, Observes, OpView, ReadPlan, ReadPolicy, ReadRequest};
use crate::beliefs::LegBeliefs;
use crate::checkpoint::{CHECKPOINT_AGE, Checkpoints, PROBE_EVENTS};
use crate::choice::modulo;
use crate::policies::round_robin::{MIN_CONTIG_READ, Turns};
use crate::registry::{BareValue, PolicyInfo};
use crate::spec::PolicySpec;
use crate::tunable::Tunable;

/// 125 percent of the best average, as the original.
const MARGIN: Tunable = Tunable::number(
    "margin_percent",
    125,
    (100, 10_000),
    "percent",
    "how slow a leg may be, in percent of the fastest, to get its turn",
);

pub(crate) static INFO: PolicyInfo = PolicyInfo {
    name: "latency-rr",
    summary: "turns among the legs within 125 % of the lowest average (btrfs, kakra)",
    bare_value: BareValue::Refused,
    tunables: &[MARGIN, MIN_CONTIG_READ, CHECKPOINT_AGE, PROBE_EVENTS],
    build: |spec| {
        Box::new(LatencyRr {
            margin_percent: spec.value(&MARGIN),
            turns: Turns::new(spec),
            checkpoints: Checkpoints::new(spec),
        })
    },
};

#[derive(Debug)]
struct LatencyRr {
    margin_percent: u64,
    turns: Turns,
    checkpoints: Checkpoints,
}

impl LatencyRr {
    /// The highest average that still gets its turn.
    fn limit_ns(&self, legs: &[LegView]) -> u64 {
        let known = legs
            .iter()
            .filter(|view| !self.checkpoints.is_on_probation(view.leg));
        let best = known
            .map(|view| self.checkpoints.average_ns(view.leg))
            .min();
        best.map_or(0, |best| {
            // A leg that never answered has the largest average: no margin above that.
            u64::try_from(u128::from(best) * u128::from(self.margin_percent) / 100)
                .unwrap_or(u64::MAX)
        })
    }
}

impl ReadPolicy for LatencyRr {
    fn name(&self) -> &'static str {
        INFO.name
    }

    fn observes(&self) -> Observes {
        Observes::ALL
    }

    fn configure(&mut self, spec: &PolicySpec) {
        self.margin_percent = spec.value(&MARGIN);
        self.turns.configure(spec);
        self.checkpoints.configure(spec);
    }

    fn beliefs(&self, _now: Instant, leg: LegId) -> LegBeliefs {
        self.checkpoints.beliefs(leg)
    }

    fn checkpoint(&self, leg: LegId) -> Option<Checkpoint> {
        Some(self.checkpoints.told(leg))
    }

    fn plan_read(
        &mut self,
        _now: Instant,
        _request: &ReadRequest,
        legs: &[LegView],
        _prng: &mut dyn Prng,
    ) -> ReadPlan {
        let limit_ns = self.limit_ns(legs);
        let checkpoints = &self.checkpoints;
        let mut eligible = legs.iter().filter(|view| {
            checkpoints.is_on_probation(view.leg) || checkpoints.average_ns(view.leg) <= limit_ns
        });
        let turn = modulo(self.turns.current(), eligible.clone().count());
        let picked = eligible.nth(turn).expect("a number modulo the count").leg;
        self.checkpoints.note_pick(legs, picked);
        ReadPlan::Leg(picked)
    }

    fn on_dispatch(&mut self, _now: Instant, op: &OpView) {
        self.turns.note_dispatch(op);
    }

    fn on_complete(&mut self, _now: Instant, op: &OpView, service_time: Duration, ok: bool) {
        if ok && op.kind == OpKind::Read {
            self.checkpoints.note_read(op.leg, service_time);
        }
    }

    fn reset(&mut self, leg: Option<LegId>) {
        self.checkpoints.reset(leg);
    }

    fn restart_averages(&mut self, leg: Option<LegId>) {
        self.checkpoints.reset(leg);
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::OpKind;

    use crate::testing::Bench;

    /// Which legs get a turn: the picks of three turns of 4 KiB.
    fn turns(bench: &mut Bench) -> Vec<usize> {
        (0..3)
            .map(|_| {
                let leg = bench.pick(0);
                bench.dispatch(leg, OpKind::Read, 0, 4096);
                leg
            })
            .collect()
    }

    #[test]
    fn legs_within_the_margin_take_turns() {
        let mut bench = Bench::new("latency-rr:min_contig_read=4096", 3);
        bench.complete_read(0, 1_000);
        bench.complete_read(1, 125);
        bench.complete_read(2, 100);
        assert_eq!(
            turns(&mut bench),
            [1, 2, 1],
            "125 is within 125 percent of 100"
        );
        bench.complete_read(1, 127);
        assert_eq!(turns(&mut bench), [2, 2, 2], "126 is not");
        bench.set("latency-rr:min_contig_read=4096,margin_percent=1000");
        assert_eq!(turns(&mut bench), [0, 1, 2]);
    }

    #[test]
    fn legs_on_probation_get_their_turn() {
        let mut bench = Bench::new("latency-rr:min_contig_read=4096,checkpoint_age=10", 2);
        assert_eq!(turns(&mut bench), [0, 1, 0], "none has answered yet");
        bench.complete_read(0, 9_000);
        bench.complete_read(1, 100);
        for _ in 0..11 {
            assert_eq!(bench.pick(0), 1);
        }
        assert_eq!(turns(&mut bench), [1, 0, 1]);
        bench.complete_read(0, 9_000);
        assert_eq!(turns(&mut bench), [1, 1, 1]);
    }

    #[test]
    fn legs_that_never_answered_are_equals() {
        let mut bench = Bench::new("latency-rr:min_contig_read=4096,probe_events=1", 2);
        assert_eq!(bench.pick(0), 0);
        assert_eq!(turns(&mut bench), [0, 1, 0]);
    }
}
