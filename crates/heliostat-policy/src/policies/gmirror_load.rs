//! `gmirror-load`: an average of the operations in flight, minus a bonus for a near head
//! (FreeBSD's default).

use heliostat_types::{Instant, LEGS_MAX, LegId, Prng};

use crate::api::{LegView, ReadPlan, ReadPolicy, ReadRequest};
use crate::beliefs::Weight;
use crate::choice::lowest_by_key;
use crate::registry::{BareValue, PolicyInfo};

/// What one operation in flight counts, so that an average has room behind the point.
const LOAD_SCALE: i64 = 256;
/// How near a head is near: 1 MiB, which the original calls a track.
const TRACK_BYTES: u64 = 1 << 20;

pub(crate) static INFO: PolicyInfo = PolicyInfo {
    name: "gmirror-load",
    summary: "a running average of what is in flight, with a bonus for a near head (FreeBSD)",
    bare_value: BareValue::Refused,
    tunables: &[],
    build: |_| {
        Box::new(GmirrorLoad {
            legs: [LegLoad::default(); LEGS_MAX],
        })
    },
};

#[derive(Debug)]
struct GmirrorLoad {
    legs: [LegLoad; LEGS_MAX],
}

#[derive(Clone, Copy, Debug, Default)]
struct LegLoad {
    /// The average of the operations in flight, times [`LOAD_SCALE`].
    load: i64,
    /// The end of the last read sent here.
    last_end: u64,
}

impl LegLoad {
    fn priority(&self, address: u64) -> i64 {
        let bonus = match self.last_end.abs_diff(address) {
            0 => 2 * LOAD_SCALE,
            distance if distance < TRACK_BYTES => LOAD_SCALE,
            _ => 0,
        };
        self.load - bonus
    }
}

impl ReadPolicy for GmirrorLoad {
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
        let priority = |view: &&LegView| {
            // The last of equals, as the original.
            let from_last = std::cmp::Reverse(view.leg);
            (
                self.legs[view.leg.index()].priority(view.address),
                from_last,
            )
        };
        let chosen = lowest_by_key(legs, priority);
        self.legs[chosen.leg.index()].last_end = chosen.address + request.extent.len();
        for view in legs {
            let in_flight = i64::from(view.in_flight()) + i64::from(view.leg == chosen.leg);
            let leg = &mut self.legs[view.leg.index()];
            leg.load = (in_flight * LOAD_SCALE + leg.load * 7) / 8;
        }
        ReadPlan::Leg(chosen.leg)
    }

    fn weight(&self, view: &LegView) -> Option<Weight> {
        Some(Weight::Points(
            self.legs[view.leg.index()].priority(view.address),
        ))
    }

    fn reset(&mut self, leg: Option<LegId>) {
        match leg {
            Some(leg) => self.legs[leg.index()] = LegLoad::default(),
            None => self.legs = [LegLoad::default(); LEGS_MAX],
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    const FAR: u64 = 1 << 40;

    #[test]
    fn ties_go_to_the_last() {
        let mut bench = Bench::new("gmirror-load", 3);
        assert_eq!(bench.pick(FAR), 2);
    }

    #[test]
    fn a_pick_counts_at_once_and_fades() {
        let mut bench = Bench::new("gmirror-load", 2);
        // Leg 1: (256 + 0) / 8 = 32.
        assert_eq!(bench.pick(FAR), 1);
        // Leg 0 has 0; afterwards leg 0 has 32 and leg 1 has 32 * 7 / 8 = 28.
        assert_eq!(bench.pick(2 * FAR), 0);
        assert_eq!(bench.pick(3 * FAR), 1);
    }

    #[test]
    fn a_head_in_position_is_worth_two_operations() {
        let mut bench = Bench::new("gmirror-load", 2);
        assert_eq!(bench.pick_of(FAR, 4096), 1);
        bench.legs[1].reads_in_flight = 20;
        // Leg 1: 32, then (21 * 256 + 32 * 7) / 8 = 700, less 512 for the head.
        assert_eq!(bench.pick_of(FAR + 4096, 4096), 1);
        assert_eq!(bench.pick_of(FAR + 8192, 4096), 0, "700 - 512 is above 0");
    }

    #[test]
    fn a_near_head_is_worth_one() {
        let mut bench = Bench::new("gmirror-load", 2);
        assert_eq!(bench.pick_of(FAR, 4096), 1);
        bench.legs[1].reads_in_flight = 7;
        // Leg 1: (8 * 256 + 32 * 7) / 8 = 284 after this one.
        assert_eq!(bench.pick_of(FAR + 500_000, 4096), 1);
        assert_eq!(bench.pick_of(FAR, 4096), 0, "284 - 256 is above 0");
    }
}
