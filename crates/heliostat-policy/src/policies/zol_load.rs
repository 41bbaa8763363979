//! `zol-load`: the fewest in flight, equal legs in turn by the clock (ZFS on Linux, 2013).

use heliostat_types::{Duration, Instant, Prng};

use crate::api::{LegView, ReadPlan, ReadPolicy, ReadRequest};
use crate::choice::lowest_in_turn;
use crate::registry::{BareValue, PolicyInfo};
use crate::spec::PolicySpec;
use crate::tunable::Tunable;

/// 10 ms, as the original: about as long as Linux held reads back to merge them.
const SWITCH: Tunable = Tunable::number(
    "switch_us",
    10_000,
    (1, u32::MAX as u64),
    "us",
    "how long one of the equal legs is preferred before it is the next one's turn",
);

pub(crate) static INFO: PolicyInfo = PolicyInfo {
    name: "zol-load",
    summary: "the fewest in flight, equal legs in turn every 10 ms (ZFS on Linux, 2013)",
    bare_value: BareValue::Refused,
    tunables: &[SWITCH],
    build: |spec| {
        Box::new(ZolLoad {
            switch: switch(spec),
        })
    },
};

fn switch(spec: &PolicySpec) -> Duration {
    Duration::from_us(spec.value(&SWITCH))
}

#[derive(Debug)]
struct ZolLoad {
    switch: Duration,
}

impl ReadPolicy for ZolLoad {
    fn name(&self) -> &'static str {
        INFO.name
    }

    fn configure(&mut self, spec: &PolicySpec) {
        self.switch = switch(spec);
    }

    fn plan_read(
        &mut self,
        now: Instant,
        _request: &ReadRequest,
        legs: &[LegView],
        _prng: &mut dyn Prng,
    ) -> ReadPlan {
        let turn = now.as_ns() / self.switch.as_ns();
        ReadPlan::Leg(lowest_in_turn(legs, LegView::in_flight, turn).leg)
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Duration, Instant};

    use crate::testing::Bench;

    #[test]
    fn equal_legs_take_turns_of_ten_ms() {
        let mut bench = Bench::new("zol-load", 3);
        let picks = [0, 9_999_999, 10_000_000, 20_000_000, 30_000_000].map(|ns| {
            bench.now = Instant::from_ns(ns);
            bench.pick(0)
        });
        assert_eq!(picks, [0, 0, 1, 2, 0]);
    }

    #[test]
    fn only_the_least_busy_take_turns() {
        let mut bench = Bench::new("zol-load:switch_us=1000", 3);
        bench.legs[0].writes_in_flight = 1;
        assert_eq!(bench.pick(0), 1);
        bench.now += Duration::from_ms(1);
        assert_eq!(bench.pick(0), 2);
        bench.legs[2].reads_in_flight = 2;
        assert_eq!(bench.pick(0), 1);
    }
}
