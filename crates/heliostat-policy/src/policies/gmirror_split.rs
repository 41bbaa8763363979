//! `gmirror-split`: a large read is cut up among all legs (FreeBSD).

use heliostat_types::{Instant, Prng};

use crate::api::{LegView, ReadPlan, ReadPolicy, ReadRequest};
use crate::choice::{at_modulo, in_pieces};
use crate::registry::{BareValue, PolicyInfo};
use crate::spec::PolicySpec;
use crate::tunable::Tunable;

/// 4 KiB, as the original: anything larger than one page is cut.
const SLICE: Tunable = Tunable::number(
    "slice_bytes",
    4096,
    (0, i64::MAX.unsigned_abs()),
    "bytes",
    "up to which size a read stays whole",
);

pub(crate) static INFO: PolicyInfo = PolicyInfo {
    name: "gmirror-split",
    summary: "reads above 4 KiB are cut up among all legs, others take turns (FreeBSD)",
    bare_value: BareValue::Refused,
    tunables: &[SLICE],
    build: |spec| {
        Box::new(GmirrorSplit {
            slice_bytes: spec.value(&SLICE),
            turn: 0,
        })
    },
};

#[derive(Debug)]
struct GmirrorSplit {
    slice_bytes: u64,
    /// Reads that stayed whole so far.
    turn: u64,
}

impl ReadPolicy for GmirrorSplit {
    fn name(&self) -> &'static str {
        INFO.name
    }

    fn configure(&mut self, spec: &PolicySpec) {
        self.slice_bytes = spec.value(&SLICE);
    }

    fn plan_read(
        &mut self,
        _now: Instant,
        request: &ReadRequest,
        legs: &[LegView],
        _prng: &mut dyn Prng,
    ) -> ReadPlan {
        let len_bytes = request.extent.len();
        if len_bytes <= self.slice_bytes || !request.may_split {
            let chosen = at_modulo(legs, self.turn);
            self.turn = self.turn.wrapping_add(1);
            return ReadPlan::Leg(chosen.leg);
        }
        in_pieces(len_bytes, legs.iter().map(|view| view.leg))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn small_reads_take_turns() {
        let mut bench = Bench::new("gmirror-split", 3);
        let picks: Vec<usize> = (0..4).map(|_| bench.pick_of(0, 4096)).collect();
        assert_eq!(picks, [0, 1, 2, 0]);
    }

    #[test]
    fn reads_of_one_leg_take_turns_as_well() {
        let mut bench = Bench::new("gmirror-split", 3);
        bench.may_split = false;
        let picks: Vec<usize> = (0..4).map(|_| bench.pick_of(0, 65_536)).collect();
        assert_eq!(picks, [0, 1, 2, 0]);
    }

    #[test]
    fn large_reads_are_cut_evenly() {
        let mut bench = Bench::new("gmirror-split", 3);
        assert_eq!(
            bench.split(0, 96 << 10),
            [(0, 32 << 10), (1, 32 << 10), (2, 32 << 10)]
        );
        // 100 KiB / 3 is 33.3 KiB, rounded up to 36.
        assert_eq!(
            bench.split(0, 100 << 10),
            [(0, 36 << 10), (1, 36 << 10), (2, 28 << 10)]
        );
        assert_eq!(
            bench.split(0, 8192),
            [(0, 4096), (1, 4096)],
            "not enough for all"
        );
        assert_eq!(bench.split(0, 4097), [(0, 4096), (1, 1)]);
    }

    #[test]
    fn the_slice_decides_what_is_large() {
        let mut bench = Bench::new("gmirror-split:slice_bytes=64K", 2);
        assert_eq!(bench.pick_of(0, 64 << 10), 0);
        assert_eq!(bench.split(0, 128 << 10), [(0, 64 << 10), (1, 64 << 10)]);
    }

    #[test]
    fn one_leg_takes_it_all() {
        let mut bench = Bench::new("gmirror-split", 2);
        bench.remove(0);
        assert_eq!(bench.pick_of(0, 1 << 20), 1);
    }
}
