//! `device`: always the leg that is flagged as preferred (2021).

use heliostat_types::{Instant, Prng};

use crate::api::{LegView, ReadPlan, ReadPolicy, ReadRequest};
use crate::registry::{BareValue, PolicyInfo};

pub(crate) static INFO: PolicyInfo = PolicyInfo {
    name: "device",
    summary: "always the leg flagged as preferred for reads (btrfs, 2021)",
    bare_value: BareValue::Refused,
    tunables: &[],
    build: |_| Box::new(Device),
};

#[derive(Debug)]
struct Device;

impl ReadPolicy for Device {
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
        let preferred = legs.iter().find(|view| view.read_preferred);
        ReadPlan::Leg(preferred.unwrap_or(&legs[0]).leg)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn the_flagged_leg_or_else_the_first() {
        let mut bench = Bench::new("device", 3);
        assert_eq!(bench.pick(0), 0);
        bench.legs[1].read_preferred = true;
        bench.legs[2].read_preferred = true;
        assert_eq!(bench.pick(0), 1, "the first of several");
        bench.remove(1);
        assert_eq!(bench.pick(0), 2);
    }
}
