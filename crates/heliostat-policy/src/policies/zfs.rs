//! `zfs`: operations in flight plus what a seek costs (OpenZFS today).

use heliostat_types::{Instant, Prng};

use crate::api::{LegView, ReadPlan, ReadPolicy, ReadRequest};
use crate::beliefs::Weight;
use crate::choice::{STRIPE_BYTES, lowest_in_turn};
use crate::registry::{BareValue, PolicyInfo};
use crate::spec::PolicySpec;
use crate::tunable::Tunable;

/// The values of all five are OpenZFS's, as are the names behind their `zfs_vdev_mirror_`.
const ROTATING_INC: Tunable = Tunable::number(
    "rotating_inc",
    0,
    (0, u32::MAX as u64),
    "operations",
    "what a contiguous read costs on a hard disk",
);
const ROTATING_SEEK_INC: Tunable = Tunable::number(
    "rotating_seek_inc",
    5,
    (0, u32::MAX as u64),
    "operations",
    "what a far seek costs on a hard disk; a near one costs half of it",
);
const ROTATING_SEEK_OFFSET: Tunable = Tunable::number(
    "rotating_seek_offset",
    1 << 20,
    (0, i64::MAX.unsigned_abs()),
    "bytes",
    "how far from the last operation's end a seek is near",
);
const NON_ROTATING_INC: Tunable = Tunable::number(
    "non_rotating_inc",
    0,
    (0, u32::MAX as u64),
    "operations",
    "what a contiguous read costs on flash",
);
const NON_ROTATING_SEEK_INC: Tunable = Tunable::number(
    "non_rotating_seek_inc",
    1,
    (0, u32::MAX as u64),
    "operations",
    "what any other read costs on flash; 0 prefers flash in mixed mirrors",
);

pub(crate) static INFO: PolicyInfo = PolicyInfo {
    name: "zfs",
    summary: "the fewest in flight, plus what a seek costs (OpenZFS)",
    bare_value: BareValue::Refused,
    tunables: &[
        ROTATING_INC,
        ROTATING_SEEK_INC,
        ROTATING_SEEK_OFFSET,
        NON_ROTATING_INC,
        NON_ROTATING_SEEK_INC,
    ],
    build: |spec| Box::new(Zfs::new(spec)),
};

#[derive(Debug)]
struct Zfs {
    rotating_inc: u64,
    rotating_seek_inc: u64,
    rotating_seek_offset: u64,
    non_rotating_inc: u64,
    non_rotating_seek_inc: u64,
}

impl Zfs {
    fn new(spec: &PolicySpec) -> Self {
        Self {
            rotating_inc: spec.value(&ROTATING_INC),
            rotating_seek_inc: spec.value(&ROTATING_SEEK_INC),
            rotating_seek_offset: spec.value(&ROTATING_SEEK_OFFSET),
            non_rotating_inc: spec.value(&NON_ROTATING_INC),
            non_rotating_seek_inc: spec.value(&NON_ROTATING_SEEK_INC),
        }
    }

    fn load(&self, view: &LegView) -> u64 {
        // Nothing sent yet: the head is as far away as can be.
        let distance = view
            .last_sent_end
            .map_or(u64::MAX, |end| end.abs_diff(view.address));
        let increment = match (view.rotational, distance) {
            (false, 0) => self.non_rotating_inc,
            (false, _) => self.non_rotating_seek_inc,
            (true, 0) => self.rotating_inc,
            (true, _) if distance < self.rotating_seek_offset => self.rotating_seek_inc / 2,
            (true, _) => self.rotating_seek_inc,
        };
        u64::from(view.in_flight()) + increment
    }
}

impl ReadPolicy for Zfs {
    fn name(&self) -> &'static str {
        INFO.name
    }

    fn configure(&mut self, spec: &PolicySpec) {
        *self = Self::new(spec);
    }

    fn weight(&self, view: &LegView) -> Option<Weight> {
        i64::try_from(self.load(view)).ok().map(Weight::Points)
    }

    fn plan_read(
        &mut self,
        _now: Instant,
        request: &ReadRequest,
        legs: &[LegView],
        _prng: &mut dyn Prng,
    ) -> ReadPlan {
        let stripe = request.extent.offset() / STRIPE_BYTES;
        ReadPlan::Leg(lowest_in_turn(legs, |view| self.load(view), stripe).leg)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    /// Two hard disks and an SSD whose last operation ended at 1 GiB.
    fn mixed() -> Bench {
        let mut bench = Bench::new("zfs", 3);
        for view in &mut bench.legs {
            view.rotational = view.leg.index() < 2;
            view.last_sent_end = Some(1 << 30);
        }
        bench
    }

    #[test]
    fn a_far_seek_costs_a_hard_disk_five_and_flash_one() {
        let mut bench = mixed();
        bench.legs[2].reads_in_flight = 3;
        assert_eq!(bench.pick(0), 2, "3 + 1 is below 0 + 5");
        bench.legs[2].reads_in_flight = 5;
        assert_eq!(
            bench.pick(0),
            0,
            "5 + 1 is above 0 + 5, which two disks share"
        );
        assert_eq!(bench.pick(2 << 20), 1);
    }

    #[test]
    fn a_near_seek_costs_half_rounded_down() {
        let mut bench = mixed();
        bench.legs[0].last_sent_end = Some((1 << 20) - 1);
        bench.legs[2].reads_in_flight = 2;
        assert_eq!(bench.pick(0), 0, "5 / 2 is 2, below 2 + 1");
        bench.legs[0].last_sent_end = Some(1 << 20);
        assert_eq!(bench.pick(0), 2, "at 1 MiB the seek is far");
    }

    #[test]
    fn a_contiguous_read_costs_nothing() {
        let mut bench = mixed();
        bench.legs[0].last_sent_end = Some(0);
        assert_eq!(bench.pick(0), 0);
        bench.legs[0].reads_in_flight = 1;
        assert_eq!(
            bench.pick(0),
            0,
            "1 + 0 and 0 + 1 tie, and the stripe is even"
        );
        bench.legs[0].last_sent_end = Some(2 << 20);
        assert_eq!(bench.pick(2 << 20), 2, "the same tie in an odd stripe");
    }

    #[test]
    fn a_leg_that_was_never_used_has_to_seek() {
        let mut bench = mixed();
        bench.remove(2);
        bench.legs[0].last_sent_end = None;
        bench.legs[1].last_sent_end = Some(4096);
        assert_eq!(bench.pick(0), 1, "near");
    }

    #[test]
    fn mixed_mirrors_can_prefer_flash() {
        let mut bench = mixed();
        bench.legs[2].reads_in_flight = 5;
        assert_eq!(bench.pick(0), 0);
        bench.set("zfs:non_rotating_seek_inc=0,rotating_seek_inc=6");
        assert_eq!(bench.pick(0), 2, "5 + 0 is below 0 + 6");
    }
}
