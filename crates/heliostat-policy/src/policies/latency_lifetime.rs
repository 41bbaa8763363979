//! `latency-lifetime`: the leg with the lowest average since the statistics began (2021).

use heliostat_types::{Duration, Instant, Prng};

use crate::api::{LegView, ReadPlan, ReadPolicy, ReadRequest};
use crate::beliefs::Weight;
use crate::choice::lowest_by_key;
use crate::registry::{BareValue, PolicyInfo};

pub(crate) static INFO: PolicyInfo = PolicyInfo {
    name: "latency-lifetime",
    summary: "the lowest average service time since the start (btrfs, Jain 2021)",
    bare_value: BareValue::Refused,
    tunables: &[],
    build: |_| Box::new(LatencyLifetime),
};

#[derive(Debug)]
struct LatencyLifetime;

impl ReadPolicy for LatencyLifetime {
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
        ReadPlan::Leg(lowest_by_key(legs, |view| average_ns(view)).leg)
    }

    fn weight(&self, view: &LegView) -> Option<Weight> {
        Some(Weight::Time(Duration::from_ns(average_ns(view))))
    }
}

/// Whole nanoseconds per read; 0, below every average, where no read has completed.
const fn average_ns(view: &LegView) -> u64 {
    match view.read_wait.as_ns().checked_div(view.reads_completed) {
        Some(average) => average,
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::Duration;

    use crate::testing::Bench;

    fn bench(averages_us: [u64; 3]) -> Bench {
        let mut bench = Bench::new("latency-lifetime", 3);
        for (view, average) in bench.legs.iter_mut().zip(averages_us) {
            view.reads_completed = 7;
            view.read_wait = Duration::from_us(7 * average);
        }
        bench
    }

    #[test]
    fn the_lowest_average_wins_and_the_first_of_equals() {
        assert_eq!(bench([300, 100, 200]).pick(0), 1);
        assert_eq!(bench([300, 200, 200]).pick(0), 1);
    }

    /// The original took 0 for "no best yet", so that any later leg replaced a leg without reads:
    /// of fresh legs only the last one was ever read.
    #[test]
    fn a_leg_without_reads_is_tried() {
        for fresh in 0..3 {
            let mut bench = bench([300, 100, 200]);
            bench.legs[fresh].reads_completed = 0;
            bench.legs[fresh].read_wait = Duration::ZERO;
            assert_eq!(bench.pick(0), fresh);
        }
    }

    #[test]
    fn with_accounting_off_it_is_leg_0() {
        assert_eq!(Bench::new("latency-lifetime", 3).pick(0), 0);
    }
}
