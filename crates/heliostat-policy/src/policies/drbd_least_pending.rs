//! `drbd-least-pending`: the first leg, unless another one has less to do (DRBD).

use heliostat_types::{Instant, Prng};

use crate::api::{LegView, ReadPlan, ReadPolicy, ReadRequest};
use crate::choice::lowest_by_key;
use crate::recency::Recency;
use crate::registry::{BareValue, PolicyInfo};

pub(crate) static INFO: PolicyInfo = PolicyInfo {
    name: "drbd-least-pending",
    summary: "the first leg, unless it has more in flight than the least busy other (DRBD)",
    bare_value: BareValue::Refused,
    tunables: &[],
    build: |_| {
        Box::new(DrbdLeastPending {
            recency: Recency::default(),
        })
    },
};

#[derive(Debug)]
struct DrbdLeastPending {
    /// When each of the others was last picked.
    recency: Recency,
}

impl ReadPolicy for DrbdLeastPending {
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
        let (local, peers) = legs.split_first().expect("a read has candidates");
        if peers.is_empty() {
            return ReadPlan::Leg(local.leg);
        }
        let key = |view: &&LegView| (view.in_flight(), self.recency.picked_at(view.leg));
        let peer = lowest_by_key(peers, key);
        if local.in_flight() <= peer.in_flight() {
            return ReadPlan::Leg(local.leg);
        }
        self.recency.note(peer.leg);
        ReadPlan::Leg(peer.leg)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn the_first_leg_wins_ties() {
        let mut bench = Bench::new("drbd-least-pending", 3);
        assert_eq!(bench.pick(0), 0);
        bench.legs[0].writes_in_flight = 2;
        bench.legs[1].reads_in_flight = 2;
        bench.legs[2].reads_in_flight = 2;
        assert_eq!(bench.pick(0), 0);
    }

    #[test]
    fn the_least_busy_others_take_turns() {
        let mut bench = Bench::new("drbd-least-pending", 3);
        bench.legs[0].reads_in_flight = 1;
        assert_eq!([bench.pick(0), bench.pick(0), bench.pick(0)], [1, 2, 1]);
        bench.legs[2].reads_in_flight = 1;
        assert_eq!(bench.pick(0), 1);
    }

    #[test]
    fn without_the_first_leg_the_next_one_is_local() {
        let mut bench = Bench::new("drbd-least-pending", 3);
        bench.remove(0);
        assert_eq!(bench.pick(0), 1);
        bench.remove(0);
        assert_eq!(bench.pick(0), 2);
    }
}
