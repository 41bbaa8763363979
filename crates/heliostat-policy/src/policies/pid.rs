//! `pid`: every client keeps to one leg (btrfs's default).

use heliostat_types::{Instant, Prng};

use crate::api::{LegView, ReadPlan, ReadPolicy, ReadRequest};
use crate::choice::at_modulo;
use crate::registry::{BareValue, PolicyInfo};

pub(crate) static INFO: PolicyInfo = PolicyInfo {
    name: "pid",
    summary: "every client keeps to one leg: client number modulo legs (btrfs)",
    bare_value: BareValue::Ignored,
    tunables: &[],
    build: |_| Box::new(Pid),
};

#[derive(Debug)]
struct Pid;

impl ReadPolicy for Pid {
    fn name(&self) -> &'static str {
        INFO.name
    }

    fn plan_read(
        &mut self,
        _now: Instant,
        request: &ReadRequest,
        legs: &[LegView],
        _prng: &mut dyn Prng,
    ) -> ReadPlan {
        ReadPlan::Leg(at_modulo(legs, request.client.0).leg)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn a_client_keeps_to_its_leg() {
        let mut bench = Bench::new("pid", 3);
        let picks: Vec<usize> = (0..7).map(|client| bench.pick_for_client(client)).collect();
        assert_eq!(picks, [0, 1, 2, 0, 1, 2, 0]);
        assert_eq!(
            bench.pick_for_client(u64::MAX),
            0,
            "2^64 - 1 is a multiple of 3"
        );
    }

    #[test]
    fn the_modulus_is_the_number_of_candidates() {
        let mut bench = Bench::new("pid", 3);
        bench.remove(1);
        assert_eq!(bench.pick_for_client(0), 0);
        assert_eq!(bench.pick_for_client(1), 2);
    }
}
