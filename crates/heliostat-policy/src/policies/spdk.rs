//! `spdk`: the fewest bytes of reads in flight (SPDK's raid1).

use heliostat_types::{Instant, Prng};

use crate::api::{LegView, ReadPlan, ReadPolicy, ReadRequest};
use crate::beliefs::Weight;
use crate::choice::lowest_by_key;
use crate::registry::{BareValue, PolicyInfo};

pub(crate) static INFO: PolicyInfo = PolicyInfo {
    name: "spdk",
    summary: "the fewest bytes of reads in flight; writes do not count (SPDK)",
    bare_value: BareValue::Refused,
    tunables: &[],
    build: |_| Box::new(Spdk),
};

#[derive(Debug)]
struct Spdk;

impl ReadPolicy for Spdk {
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
        ReadPlan::Leg(lowest_by_key(legs, |view| view.read_bytes_in_flight).leg)
    }

    fn weight(&self, view: &LegView) -> Option<Weight> {
        Some(Weight::Bytes(view.read_bytes_in_flight))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn bytes_of_reads_count_and_nothing_else() {
        let mut bench = Bench::new("spdk", 3);
        bench.legs[0].read_bytes_in_flight = 8192;
        bench.legs[0].reads_in_flight = 1;
        bench.legs[1].read_bytes_in_flight = 4096;
        bench.legs[1].reads_in_flight = 8;
        bench.legs[1].write_bytes_in_flight = 1 << 20;
        bench.legs[2].read_bytes_in_flight = 4096;
        assert_eq!(bench.pick(0), 1, "the first of equals");
    }
}
