//! `zfs-bonus`: the fewest in flight, with a bonus for not having to seek (Hartland, August 2013).

use heliostat_types::{Instant, Prng};

use crate::api::{LegView, ReadPlan, ReadPolicy, ReadRequest};
use crate::beliefs::Weight;
use crate::choice::{STRIPE_BYTES, at_modulo, lowest_in_turn};
use crate::registry::{BareValue, PolicyInfo};
use crate::spec::PolicySpec;
use crate::tunable::{Tunable, TunableKind};

/// 5: what a seek costs in the version that followed, which is all that is known of the value.
const LOCALITY_BONUS: Tunable = Tunable::number(
    "locality_bonus",
    5,
    (0, u32::MAX as u64),
    "operations",
    "what not having to seek is worth",
);
/// On: the policy is about load. Off, it is the stripes of before.
const MIRROR_BY_LOAD: Tunable = Tunable {
    name: "mirror_by_load",
    kind: TunableKind::Flag,
    default: 1,
    unit: "",
    description: "whether load decides; 0 gives the policy stripe",
};

pub(crate) static INFO: PolicyInfo = PolicyInfo {
    name: "zfs-bonus",
    summary: "the fewest in flight, minus a bonus where nothing seeks (ZFS, August 2013)",
    bare_value: BareValue::Refused,
    tunables: &[LOCALITY_BONUS, MIRROR_BY_LOAD],
    build: |spec| Box::new(ZfsBonus::new(spec)),
};

#[derive(Debug)]
struct ZfsBonus {
    locality_bonus: i64,
    by_load: bool,
}

impl ZfsBonus {
    fn new(spec: &PolicySpec) -> Self {
        Self {
            locality_bonus: spec.value_u32(&LOCALITY_BONUS).into(),
            by_load: spec.value(&MIRROR_BY_LOAD) == 1,
        }
    }

    fn load(&self, view: &LegView) -> i64 {
        let is_contiguous = view.last_sent_end == Some(view.address);
        let bonus = if is_contiguous || !view.rotational {
            self.locality_bonus
        } else {
            0
        };
        i64::from(view.in_flight()) - bonus
    }
}

impl ReadPolicy for ZfsBonus {
    fn name(&self) -> &'static str {
        INFO.name
    }

    fn configure(&mut self, spec: &PolicySpec) {
        *self = Self::new(spec);
    }

    fn weight(&self, view: &LegView) -> Option<Weight> {
        self.by_load.then(|| Weight::Points(self.load(view)))
    }

    fn plan_read(
        &mut self,
        _now: Instant,
        request: &ReadRequest,
        legs: &[LegView],
        _prng: &mut dyn Prng,
    ) -> ReadPlan {
        let stripe = request.extent.offset() / STRIPE_BYTES;
        let chosen = if self.by_load {
            lowest_in_turn(legs, |view| self.load(view), stripe)
        } else {
            at_modulo(legs, stripe)
        };
        ReadPlan::Leg(chosen.leg)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    /// Two hard disks and an SSD.
    fn mixed(spec: &str) -> Bench {
        let mut bench = Bench::new(spec, 3);
        bench.legs[0].rotational = true;
        bench.legs[1].rotational = true;
        bench
    }

    #[test]
    fn flash_and_contiguous_reads_have_the_bonus() {
        let mut bench = mixed("zfs-bonus");
        bench.legs[2].reads_in_flight = 4;
        assert_eq!(bench.pick(7 << 30), 2, "4 - 5 is below 0");
        bench.legs[1].last_sent_end = Some(7 << 30);
        assert_eq!(bench.pick(7 << 30), 1, "0 - 5 is below 4 - 5");
        bench.legs[2].reads_in_flight = 6;
        bench.legs[1].last_sent_end = None;
        assert_eq!(bench.pick(0), 0, "6 - 5 is above 0");
    }

    #[test]
    fn equal_legs_share_by_stripe() {
        let mut bench = mixed("zfs-bonus:locality_bonus=0");
        let picks = [0, 2 << 20, 4 << 20, 6 << 20].map(|at| bench.pick(at));
        assert_eq!(picks, [0, 1, 2, 0]);
        bench.legs[0].reads_in_flight = 1;
        assert_eq!([bench.pick(0), bench.pick(2 << 20)], [1, 2]);
    }

    #[test]
    fn without_load_it_is_stripe() {
        let mut bench = mixed("zfs-bonus:mirror_by_load=0");
        bench.legs[1].reads_in_flight = 99;
        assert_eq!(bench.pick(2 << 20), 1);
    }
}
