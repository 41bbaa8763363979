//! `queue`: the leg with the fewest operations in flight (kakra, 2025).

use heliostat_types::{Duration, Instant, LegId, OpKind, Prng};

use crate::api::{Checkpoint, LegView, Observes, OpView, ReadPlan, ReadPolicy, ReadRequest};
use crate::beliefs::LegBeliefs;
use crate::checkpoint::{CHECKPOINT_AGE, Checkpoints, PROBE_EVENTS};
use crate::choice::lowest_by_key;
use crate::recency::Recency;
use crate::registry::{BareValue, PolicyInfo};
use crate::spec::PolicySpec;
use crate::tunable::{Tunable, TunableKind};

/// `first`: a loop over the legs that keeps the lowest count so far, as the kernel writes such
/// loops, keeps the first of equals, and nothing published says otherwise.
const TIE: Tunable = Tunable {
    name: "tie",
    kind: TunableKind::Choice(&["first", "rotate", "latency"]),
    default: 0,
    unit: "",
    description: "which of equal legs: the first, the one not picked for longest, or the fastest",
};

pub(crate) static INFO: PolicyInfo = PolicyInfo {
    name: "queue",
    summary: "the fewest operations in flight (btrfs, kakra)",
    bare_value: BareValue::Refused,
    tunables: &[TIE, CHECKPOINT_AGE, PROBE_EVENTS],
    build: |spec| {
        Box::new(Queue {
            tie: Tie::new(spec),
        })
    },
};

#[derive(Debug)]
struct Queue {
    tie: Tie,
}

/// What decides among legs with equally many operations in flight, with the state it needs.
#[derive(Debug)]
enum Tie {
    /// The lowest index.
    First,
    /// The one picked longest ago.
    Rotate(Recency),
    /// The lowest average since the checkpoint.
    Latency(Box<Checkpoints>),
}

impl Tie {
    fn new(spec: &PolicySpec) -> Self {
        match spec.value(&TIE) {
            0 => Self::First,
            1 => Self::Rotate(Recency::default()),
            _ => Self::Latency(Box::new(Checkpoints::new(spec))),
        }
    }

    /// Takes over new values, keeping the state where the rule stays.
    fn configure(&mut self, spec: &PolicySpec) {
        match (self, spec.value(&TIE)) {
            (Self::First, 0) | (Self::Rotate(_), 1) => {}
            (Self::Latency(checkpoints), 2) => checkpoints.configure(spec),
            (tie, _) => *tie = Self::new(spec),
        }
    }
}

impl ReadPolicy for Queue {
    fn name(&self) -> &'static str {
        INFO.name
    }

    fn observes(&self) -> Observes {
        Observes {
            complete: matches!(self.tie, Tie::Latency(_)),
            ..Observes::NOTHING
        }
    }

    fn configure(&mut self, spec: &PolicySpec) {
        self.tie.configure(spec);
    }

    fn beliefs(&self, _now: Instant, leg: LegId) -> LegBeliefs {
        match &self.tie {
            Tie::Latency(checkpoints) => checkpoints.beliefs(leg),
            Tie::First | Tie::Rotate(_) => LegBeliefs::default(),
        }
    }

    fn checkpoint(&self, leg: LegId) -> Option<Checkpoint> {
        match &self.tie {
            Tie::Latency(checkpoints) => Some(checkpoints.told(leg)),
            Tie::First | Tie::Rotate(_) => None,
        }
    }

    fn plan_read(
        &mut self,
        _now: Instant,
        _request: &ReadRequest,
        legs: &[LegView],
        _prng: &mut dyn Prng,
    ) -> ReadPlan {
        let picked = match &mut self.tie {
            Tie::First => lowest_by_key(legs, |view| view.in_flight()).leg,
            Tie::Rotate(recency) => {
                let key = |view: &&LegView| (view.in_flight(), recency.picked_at(view.leg));
                let picked = lowest_by_key(legs, key).leg;
                recency.note(picked);
                picked
            }
            Tie::Latency(checkpoints) => {
                let key = |view: &&LegView| (view.in_flight(), checkpoints.rank(view.leg));
                let picked = lowest_by_key(legs, key).leg;
                checkpoints.note_pick(legs, picked);
                picked
            }
        };
        ReadPlan::Leg(picked)
    }

    fn on_complete(&mut self, _now: Instant, op: &OpView, service_time: Duration, ok: bool) {
        if let Tie::Latency(checkpoints) = &mut self.tie
            && ok
            && op.kind == OpKind::Read
        {
            checkpoints.note_read(op.leg, service_time);
        }
    }

    fn reset(&mut self, leg: Option<LegId>) {
        if let Tie::Latency(checkpoints) = &mut self.tie {
            checkpoints.reset(leg);
        }
    }

    fn restart_averages(&mut self, leg: Option<LegId>) {
        self.reset(leg);
    }
}

#[cfg(test)]
mod tests {
    use crate::api::Observes;
    use crate::testing::Bench;

    #[test]
    fn reads_and_writes_count_alike() {
        let mut bench = Bench::new("queue", 3);
        bench.legs[0].reads_in_flight = 2;
        bench.legs[0].writes_in_flight = 1;
        bench.legs[1].writes_in_flight = 2;
        bench.legs[2].reads_in_flight = 3;
        assert_eq!(bench.pick(0), 1);
    }

    #[test]
    fn ties_go_to_the_first() {
        let mut bench = Bench::new("queue", 3);
        assert_eq!([bench.pick(0), bench.pick(0)], [0, 0]);
        assert_eq!(bench.policy.observes(), Observes::NOTHING);
    }

    #[test]
    fn ties_rotate_on_request() {
        let mut bench = Bench::new("queue:tie=rotate", 3);
        let picks: Vec<usize> = (0..4).map(|_| bench.pick(0)).collect();
        assert_eq!(picks, [0, 1, 2, 0]);
        bench.legs[1].reads_in_flight = 1;
        assert_eq!([bench.pick(0), bench.pick(0), bench.pick(0)], [2, 0, 2]);
    }

    #[test]
    fn ties_go_to_the_fastest_on_request() {
        let mut bench = Bench::new("queue:tie=latency", 3);
        assert!(bench.policy.observes().complete);
        for (leg, us) in [(0, 900), (1, 800), (2, 100)] {
            assert_eq!(bench.pick(0), leg);
            bench.complete_read(leg, us);
        }
        assert_eq!(bench.pick(0), 2);
        bench.legs[2].reads_in_flight = 1;
        assert_eq!(bench.pick(0), 1);
    }

    #[test]
    fn statistics_go_with_the_rule_that_needs_them() {
        let mut bench = Bench::new("queue:tie=latency", 2);
        bench.complete_read(0, 900);
        bench.complete_read(1, 100);
        bench.set("queue:tie=latency,checkpoint_age=5");
        assert_eq!(bench.pick(0), 1, "still known");
        bench.set("queue");
        assert_eq!(bench.pick(0), 0);
        assert_eq!(bench.policy.observes(), Observes::NOTHING);
        bench.set("queue:tie=latency");
        bench.complete_read(1, 100);
        assert_eq!(bench.pick(0), 0, "leg 0 is unknown again, and tried");
    }
}
