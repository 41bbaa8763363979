//! `roundrobin`: stay on a leg until its queue is full, then go on to the next (Rostecki, 2021).

use heliostat_types::{Instant, Prng};

use crate::api::{LegView, ReadPlan, ReadPolicy, ReadRequest};
use crate::registry::{BareValue, PolicyInfo};
use crate::spec::PolicySpec;
use crate::tunable::{Tunable, TunableKind};

/// On by default, as the original: among equal disks the penalty only shortened their queues.
const MIXED_ONLY: Tunable = Tunable {
    name: "roundrobin_nonlocal_inc_mixed_only",
    kind: TunableKind::Flag,
    default: 1,
    unit: "",
    description: "whether seeks count only where hard disks and others are mixed",
};
/// 0, as the original: flash does not seek.
const NONROT_INC: Tunable = Tunable::number(
    "roundrobin_nonrot_nonlocal_inc",
    0,
    (0, u32::MAX as u64),
    "operations",
    "what a read elsewhere than the last one's end costs on flash",
);
/// 1, as the original: the best of 0 to 9 in its author's runs with two hard disks and an SSD.
const ROT_INC: Tunable = Tunable::number(
    "roundrobin_rot_nonlocal_inc",
    1,
    (0, u32::MAX as u64),
    "operations",
    "what a read elsewhere than the last one's end costs on a hard disk",
);

pub(crate) static INFO: PolicyInfo = PolicyInfo {
    name: "roundrobin",
    summary: "fill one leg's queue, then the next one's (btrfs, Rostecki 2021)",
    bare_value: BareValue::Refused,
    tunables: &[MIXED_ONLY, NONROT_INC, ROT_INC],
    build: |spec| {
        Box::new(Roundrobin {
            penalties: Penalties::new(spec),
            last: 0,
        })
    },
};

#[derive(Debug)]
struct Roundrobin {
    penalties: Penalties,
    /// The place among its candidates of the leg picked last.
    last: usize,
}

#[derive(Debug)]
struct Penalties {
    mixed_only: bool,
    nonrot: u64,
    rot: u64,
}

impl Penalties {
    fn new(spec: &PolicySpec) -> Self {
        Self {
            mixed_only: spec.value(&MIXED_ONLY) == 1,
            nonrot: spec.value(&NONROT_INC),
            rot: spec.value(&ROT_INC),
        }
    }

    /// What a read that does not go on where the last one ended costs on a hard disk and on flash.
    fn of(&self, legs: &[LegView]) -> (u64, u64) {
        let is_mixed = legs
            .iter()
            .any(|view| view.rotational != legs[0].rotational);
        if self.mixed_only && !is_mixed {
            return (0, 0);
        }
        (self.rot, self.nonrot)
    }
}

impl ReadPolicy for Roundrobin {
    fn name(&self) -> &'static str {
        INFO.name
    }

    fn configure(&mut self, spec: &PolicySpec) {
        self.penalties = Penalties::new(spec);
    }

    fn plan_read(
        &mut self,
        _now: Instant,
        _request: &ReadRequest,
        legs: &[LegView],
        _prng: &mut dyn Prng,
    ) -> ReadPlan {
        let (rot, nonrot) = self.penalties.of(legs);
        let load = |view: &LegView| {
            let is_local = view.last_sent_end == Some(view.address);
            let penalty = match (is_local, view.rotational) {
                (true, _) => 0,
                (false, true) => rot,
                (false, false) => nonrot,
            };
            u64::from(view.in_flight()) + penalty
        };
        // The candidates from the last one on, round and round.
        let (before, from) = legs.split_at(self.last.min(legs.len()));
        let mut in_turn = from.iter().chain(before);
        let free = in_turn
            .clone()
            .find(|view| load(view) < u64::from(view.queue_depth));
        let chosen = free
            .or_else(|| in_turn.by_ref().min_by_key(|view| load(view)))
            .expect("a read has candidates");
        self.last = legs
            .iter()
            .position(|view| view.leg == chosen.leg)
            .expect("the chosen leg is a candidate");
        ReadPlan::Leg(chosen.leg)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    /// Two hard disks and an SSD, each with a queue of four.
    fn mixed() -> Bench {
        let mut bench = Bench::new("roundrobin", 3);
        for view in &mut bench.legs {
            view.rotational = view.leg.index() < 2;
            view.queue_depth = 4;
        }
        bench
    }

    #[test]
    fn a_leg_is_filled_before_the_next_one() {
        let mut bench = mixed();
        // A seek on a hard disk counts as one operation: three in flight fill a queue of four.
        bench.legs[0].reads_in_flight = 2;
        assert_eq!(bench.pick(1 << 30), 0);
        bench.legs[0].reads_in_flight = 3;
        assert_eq!(bench.pick(1 << 30), 1);
        bench.legs[0].reads_in_flight = 0;
        assert_eq!(bench.pick(1 << 30), 1, "the search begins at the last leg");
        bench.legs[1].writes_in_flight = 3;
        assert_eq!(bench.pick(1 << 30), 2);
        bench.legs[2].reads_in_flight = 3;
        assert_eq!(bench.pick(1 << 30), 2, "flash pays no penalty");
        bench.legs[2].reads_in_flight = 4;
        assert_eq!(
            bench.pick(1 << 30),
            0,
            "and begins anew after the last candidate"
        );
    }

    /// The original kept the end of the last operation in 32 bits, so that beyond 2 GiB nothing
    /// was ever contiguous.
    #[test]
    fn contiguous_reads_pay_no_penalty_beyond_two_gib() {
        let mut bench = mixed();
        bench.legs[0].reads_in_flight = 3;
        bench.legs[0].last_sent_end = Some(5 << 40);
        assert_eq!(bench.pick(5 << 40), 0);
        assert_eq!(
            bench.pick((5 << 40) + (1 << 32)),
            1,
            "equal in the low 32 bits only"
        );
    }

    #[test]
    fn equal_legs_pay_a_penalty_only_on_request() {
        let mut bench = mixed();
        bench.remove(2);
        bench.legs[0].reads_in_flight = 3;
        assert_eq!(bench.pick(0), 0);
        bench.set("roundrobin:roundrobin_nonlocal_inc_mixed_only=0");
        assert_eq!(bench.pick(0), 1);
    }

    /// The original stayed on the last leg then, and the others starved.
    #[test]
    fn where_all_queues_are_full_the_lowest_load_wins() {
        let mut bench = mixed();
        bench.legs[0].reads_in_flight = 9;
        bench.legs[1].reads_in_flight = 5;
        bench.legs[2].reads_in_flight = 6;
        assert_eq!(
            bench.pick(1 << 30),
            1,
            "5 and a seek are 6; the search reached it first"
        );
        bench.legs[1].reads_in_flight = 6;
        assert_eq!(bench.pick(1 << 30), 2);
    }

    #[test]
    fn fewer_candidates_than_before_are_no_trouble() {
        let mut bench = mixed();
        bench.legs[0].reads_in_flight = 4;
        bench.legs[1].reads_in_flight = 4;
        assert_eq!(bench.pick(0), 2);
        bench.remove(2);
        bench.legs[0].reads_in_flight = 0;
        assert_eq!(bench.pick(0), 0);
    }
}
