//! `roundrobin-jain`: the next leg at every request (Jain, January 2021).

use heliostat_types::{Instant, Prng};

use crate::api::{LegView, ReadPlan, ReadPolicy, ReadRequest};
use crate::choice::at_modulo;
use crate::registry::{BareValue, PolicyInfo};

pub(crate) static INFO: PolicyInfo = PolicyInfo {
    name: "roundrobin-jain",
    summary: "the next leg at every request (btrfs, Jain 2021)",
    bare_value: BareValue::Refused,
    tunables: &[],
    build: |_| Box::new(RoundrobinJain { reads: 0 }),
};

#[derive(Debug)]
struct RoundrobinJain {
    /// Reads of the whole array so far.
    reads: u64,
}

impl ReadPolicy for RoundrobinJain {
    fn name(&self) -> &'static str {
        INFO.name
    }

    fn plan_read(
        &mut self,
        _now: Instant,
        _request: &ReadRequest,
        legs: &[LegView],
        _prng: &mut dyn Prng,
    ) -> ReadPlan {
        let chosen = at_modulo(legs, self.reads);
        self.reads = self.reads.wrapping_add(1);
        ReadPlan::Leg(chosen.leg)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn every_read_goes_to_the_next_leg() {
        let mut bench = Bench::new("roundrobin-jain", 3);
        let picks: Vec<usize> = (0..5).map(|_| bench.pick(0)).collect();
        assert_eq!(picks, [0, 1, 2, 0, 1]);
        // The count is the array's: five reads so far, and 5 modulo 2 is 1.
        bench.remove(1);
        assert_eq!([bench.pick(0), bench.pick(0)], [2, 0]);
    }
}
