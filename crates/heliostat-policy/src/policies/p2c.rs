//! `p2c`: the less busy of two legs drawn at random (the power of two choices).

use heliostat_types::{Instant, Prng};

use crate::api::{LegView, ReadPlan, ReadPolicy, ReadRequest};
use crate::choice::modulo;
use crate::registry::{BareValue, PolicyInfo};

pub(crate) static INFO: PolicyInfo = PolicyInfo {
    name: "p2c",
    summary: "the less busy of two legs drawn at random (power of two choices)",
    bare_value: BareValue::Refused,
    tunables: &[],
    build: |_| Box::new(P2c),
};

#[derive(Debug)]
struct P2c;

impl ReadPolicy for P2c {
    fn name(&self) -> &'static str {
        INFO.name
    }

    fn plan_read(
        &mut self,
        _now: Instant,
        _request: &ReadRequest,
        legs: &[LegView],
        prng: &mut dyn Prng,
    ) -> ReadPlan {
        if let [only] = legs {
            return ReadPlan::Leg(only.leg);
        }
        // One draw for both: the halves of 64 random bits.
        let bits = prng.next_u64();
        let first = modulo(bits >> 32, legs.len());
        let step = 1 + modulo(bits & u64::from(u32::MAX), legs.len() - 1);
        let second = (first + step) % legs.len();
        let is_second_less_busy = legs[second].in_flight() < legs[first].in_flight();
        ReadPlan::Leg(legs[if is_second_less_busy { second } else { first }].leg)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn the_busiest_leg_is_never_picked_and_others_in_turn() {
        let mut bench = Bench::new("p2c", 3);
        bench.legs[1].reads_in_flight = 1;
        bench.legs[2].reads_in_flight = 2;
        let mut counts = [0u32; 3];
        for _ in 0..3_000 {
            counts[bench.pick(0)] += 1;
        }
        // Of the three pairs leg 0 wins two and leg 1 one.
        assert!((1_900..2_100).contains(&counts[0]), "{counts:?}");
        assert_eq!(counts[2], 0);
    }

    #[test]
    fn equal_legs_are_picked_alike() {
        let mut bench = Bench::new("p2c", 3);
        let mut counts = [0u32; 3];
        for _ in 0..3_000 {
            counts[bench.pick(0)] += 1;
        }
        assert!(
            counts.iter().all(|count| (900..1_100).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn one_candidate_is_enough() {
        let mut bench = Bench::new("p2c", 2);
        bench.remove(0);
        assert_eq!(bench.pick(0), 1);
    }
}
