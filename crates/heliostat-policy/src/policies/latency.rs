//! `latency`: the leg with the lowest average since its checkpoint (kakra, 2024).

use heliostat_types::{Duration, Instant, LegId, OpKind, Prng};

use crate::api::{Checkpoint, LegView, Observes, OpView, ReadPlan, ReadPolicy, ReadRequest};
use crate::beliefs::{LegBeliefs, Weight};
use crate::checkpoint::{CHECKPOINT_AGE, Checkpoints, PROBE_EVENTS};
use crate::choice::lowest_by_key;
use crate::registry::{BareValue, PolicyInfo};
use crate::spec::PolicySpec;

pub(crate) static INFO: PolicyInfo = PolicyInfo {
    name: "latency",
    summary: "the lowest average service time since a checkpoint (btrfs, kakra)",
    bare_value: BareValue::Refused,
    tunables: &[CHECKPOINT_AGE, PROBE_EVENTS],
    build: |spec| {
        Box::new(Latency {
            checkpoints: Checkpoints::new(spec),
        })
    },
};

#[derive(Debug)]
struct Latency {
    checkpoints: Checkpoints,
}

impl ReadPolicy for Latency {
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
        let picked = lowest_by_key(legs, |view| self.checkpoints.rank(view.leg)).leg;
        self.checkpoints.note_pick(legs, picked);
        ReadPlan::Leg(picked)
    }

    fn weight(&self, view: &LegView) -> Option<Weight> {
        self.checkpoints.weight(view.leg)
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
    use crate::testing::Bench;

    #[test]
    fn every_leg_is_tried_and_then_the_fastest_is_read() {
        let mut bench = Bench::new("latency", 3);
        for (leg, us) in [(0, 8_000), (1, 100), (2, 900)] {
            assert_eq!(bench.pick(0), leg);
            bench.complete_read(leg, us);
        }
        assert_eq!(bench.pick(0), 1);
        // (100 + 2000) / 2 = 1050 us: more than leg 2's 900.
        bench.complete_read(1, 2_000);
        assert_eq!(bench.pick(0), 2);
    }

    #[test]
    fn a_leg_passed_over_10000_times_is_tried_again() {
        let mut bench = Bench::new("latency", 2);
        bench.complete_read(0, 8_000);
        bench.complete_read(1, 100);
        for _ in 0..10_001 {
            assert_eq!(bench.pick(0), 1);
        }
        assert_eq!(bench.pick(0), 0);
        // It has become faster, and its old reads do not count any more.
        bench.complete_read(0, 50);
        for _ in 0..100 {
            assert_eq!(bench.pick(0), 0);
        }
    }

    #[test]
    fn a_leg_that_hangs_is_tried_100_times_at_the_most() {
        let mut bench = Bench::new("latency:checkpoint_age=1000", 2);
        bench.complete_read(0, 200);
        bench.complete_read(1, 100);
        let picks: Vec<usize> = (0..1_200).map(|_| bench.pick(0)).collect();
        assert!(picks[..1001].iter().all(|&leg| leg == 1));
        assert!(picks[1001..1101].iter().all(|&leg| leg == 0));
        assert!(picks[1101..].iter().all(|&leg| leg == 1));
    }

    #[test]
    fn failed_reads_and_writes_teach_nothing() {
        let mut bench = Bench::new("latency", 2);
        bench.complete_read(0, 500);
        bench.complete_read(1, 100);
        bench.fail_read(0, 1);
        bench.complete_write(0, 1);
        assert_eq!(bench.pick(0), 1);
    }

    #[test]
    fn a_leg_that_comes_back_is_tried_again() {
        let mut bench = Bench::new("latency", 2);
        bench.complete_read(0, 500);
        bench.complete_read(1, 100);
        assert_eq!(bench.pick(0), 1);
        bench.come_back(0);
        assert_eq!(bench.pick(0), 0);
    }
}
