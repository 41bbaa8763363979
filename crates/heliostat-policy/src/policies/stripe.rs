//! `stripe`: the leg follows from the offset (illumos ZFS until 2013).

use heliostat_types::{Instant, Prng};

use crate::api::{LegView, ReadPlan, ReadPolicy, ReadRequest};
use crate::choice::{STRIPE_BYTES, at_modulo};
use crate::registry::{BareValue, PolicyInfo};
use crate::spec::PolicySpec;
use crate::tunable::Tunable;

/// 2 MiB, the original's `vdev_mirror_shift` of 21.
const STRIPE: Tunable = Tunable::number(
    "stripe_bytes",
    STRIPE_BYTES,
    (512, i64::MAX.unsigned_abs()),
    "bytes",
    "how much of the array in a row is one leg's",
);

pub(crate) static INFO: PolicyInfo = PolicyInfo {
    name: "stripe",
    summary: "the leg follows from the offset, in stripes of 2 MiB (ZFS until 2013)",
    bare_value: BareValue::Refused,
    tunables: &[STRIPE],
    build: |spec| {
        Box::new(Stripe {
            stripe_bytes: spec.value(&STRIPE),
        })
    },
};

#[derive(Debug)]
struct Stripe {
    stripe_bytes: u64,
}

impl ReadPolicy for Stripe {
    fn name(&self) -> &'static str {
        INFO.name
    }

    fn configure(&mut self, spec: &PolicySpec) {
        self.stripe_bytes = spec.value(&STRIPE);
    }

    fn plan_read(
        &mut self,
        _now: Instant,
        request: &ReadRequest,
        legs: &[LegView],
        _prng: &mut dyn Prng,
    ) -> ReadPlan {
        ReadPlan::Leg(at_modulo(legs, request.extent.offset() / self.stripe_bytes).leg)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn stripes_of_two_mib_go_round_the_legs() {
        let mut bench = Bench::new("stripe", 3);
        let picks = [0, (2 << 20) - 1, 2 << 20, 4 << 20, 6 << 20].map(|at| bench.pick(at));
        assert_eq!(picks, [0, 0, 1, 2, 0]);
        bench.set("stripe:stripe_bytes=64K");
        assert_eq!(bench.pick(5 << 16), 2);
    }
}
