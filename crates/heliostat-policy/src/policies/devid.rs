//! `devid[:N]`: always one leg (btrfs 6.14).

use heliostat_types::{Instant, Prng};

use crate::api::{LegView, ReadPlan, ReadPolicy, ReadRequest};
use crate::registry::{BareValue, PolicyInfo};
use crate::spec::PolicySpec;
use crate::tunable::{Tunable, TunableKind};

/// btrfs takes the device that was added last; which of our legs came last says nothing, so that
/// the first one is as good.
const DEVID: Tunable = Tunable {
    name: "devid",
    kind: TunableKind::Devid,
    default: 1,
    unit: "",
    description: "the leg that is read, counted from 1",
};

pub(crate) static INFO: PolicyInfo = PolicyInfo {
    name: "devid",
    summary: "always the leg with this number, counted from 1 (btrfs 6.14)",
    bare_value: BareValue::FirstTunable,
    tunables: &[DEVID],
    build: |spec| {
        Box::new(Devid {
            devid: spec.value(&DEVID),
        })
    },
};

#[derive(Debug)]
struct Devid {
    devid: u64,
}

impl ReadPolicy for Devid {
    fn name(&self) -> &'static str {
        INFO.name
    }

    fn configure(&mut self, spec: &PolicySpec) {
        self.devid = spec.value(&DEVID);
    }

    fn plan_read(
        &mut self,
        _now: Instant,
        _request: &ReadRequest,
        legs: &[LegView],
        _prng: &mut dyn Prng,
    ) -> ReadPlan {
        let named = legs.iter().find(|view| view.leg.devid() == self.devid);
        ReadPlan::Leg(named.unwrap_or(&legs[0]).leg)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn the_named_leg_or_else_the_first() {
        let mut bench = Bench::new("devid:2", 3);
        assert_eq!(bench.pick(0), 1, "counted from 1");
        bench.remove(1);
        assert_eq!(bench.pick(0), 0);
        assert_eq!(Bench::new("devid", 2).pick(0), 0);
    }
}
