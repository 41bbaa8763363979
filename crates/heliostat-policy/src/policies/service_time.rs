//! `service-time`: the fewest bytes in flight, relative to a given throughput (device-mapper).

use std::cmp::Ordering;

use heliostat_types::{Instant, Prng};

use crate::api::{LegView, ReadPlan, ReadPolicy, ReadRequest};
use crate::beliefs::Weight;
use crate::recency::Recency;
use crate::registry::{BareValue, PolicyInfo};
use crate::spec::PolicySpec;
use crate::tunable::Tunable;

/// 1 for every path, as the original, whose range is 0 to 100 as well.
const ROT_THROUGHPUT: Tunable = Tunable::number(
    "rot_throughput",
    1,
    (0, 100),
    "",
    "relative throughput of hard disks; 0: only where there is nothing else",
);
const NONROT_THROUGHPUT: Tunable = Tunable::number(
    "nonrot_throughput",
    1,
    (0, 100),
    "",
    "relative throughput of flash; 0: only where there is nothing else",
);

pub(crate) static INFO: PolicyInfo = PolicyInfo {
    name: "service-time",
    summary: "the fewest bytes in flight, relative to a given throughput (device-mapper)",
    bare_value: BareValue::Refused,
    tunables: &[ROT_THROUGHPUT, NONROT_THROUGHPUT],
    build: |spec| {
        Box::new(ServiceTime {
            throughputs: Throughputs::new(spec),
            recency: Recency::default(),
        })
    },
};

#[derive(Debug)]
struct ServiceTime {
    throughputs: Throughputs,
    recency: Recency,
}

#[derive(Debug)]
struct Throughputs {
    rot: u64,
    nonrot: u64,
}

impl Throughputs {
    fn new(spec: &PolicySpec) -> Self {
        Self {
            rot: spec.value(&ROT_THROUGHPUT),
            nonrot: spec.value(&NONROT_THROUGHPUT),
        }
    }

    fn in_flight_bytes(view: &LegView) -> u128 {
        u128::from(view.read_bytes_in_flight) + u128::from(view.write_bytes_in_flight)
    }

    /// Less: `a` is the better one for `len_bytes` more.
    fn compare(&self, a: &LegView, b: &LegView, len_bytes: u64) -> Ordering {
        let throughput = |view: &LegView| {
            if view.rotational {
                self.rot
            } else {
                self.nonrot
            }
        };
        let in_flight = Self::in_flight_bytes;
        let time_times = |view: &LegView, other: &LegView| {
            (in_flight(view) + u128::from(len_bytes)) * u128::from(throughput(other))
        };
        match (throughput(a), throughput(b)) {
            (own, other) if own == other => in_flight(a).cmp(&in_flight(b)),
            (0, _) => Ordering::Greater,
            (_, 0) => Ordering::Less,
            // Bytes over throughput, compared crosswise.
            (own, other) => time_times(a, b)
                .cmp(&time_times(b, a))
                .then(other.cmp(&own)),
        }
    }
}

impl ReadPolicy for ServiceTime {
    fn name(&self) -> &'static str {
        INFO.name
    }

    fn configure(&mut self, spec: &PolicySpec) {
        self.throughputs = Throughputs::new(spec);
    }

    fn plan_read(
        &mut self,
        _now: Instant,
        request: &ReadRequest,
        legs: &[LegView],
        _prng: &mut dyn Prng,
    ) -> ReadPlan {
        let len_bytes = request.extent.len();
        let chosen = legs
            .iter()
            .min_by(|a, b| {
                // The one picked longest ago of equals.
                let older = |view: &LegView| self.recency.picked_at(view.leg);
                let order = self.throughputs.compare(a, b, len_bytes);
                order.then_with(|| older(a).cmp(&older(b)))
            })
            .expect("a read has candidates");
        self.recency.note(chosen.leg);
        ReadPlan::Leg(chosen.leg)
    }

    /// Bytes, where they alone decide: otherwise the length of the read counts, too.
    fn weight(&self, view: &LegView) -> Option<Weight> {
        let bytes = u64::try_from(Throughputs::in_flight_bytes(view)).ok()?;
        (self.throughputs.rot == self.throughputs.nonrot).then_some(Weight::Bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    /// A hard disk and two SSDs.
    fn mixed(spec: &str) -> Bench {
        let mut bench = Bench::new(spec, 3);
        bench.legs[0].rotational = true;
        bench
    }

    #[test]
    fn bytes_of_reads_and_writes_count() {
        let mut bench = mixed("service-time");
        bench.legs[0].read_bytes_in_flight = 8192;
        bench.legs[1].write_bytes_in_flight = 4096;
        bench.legs[2].read_bytes_in_flight = 4096;
        bench.legs[2].write_bytes_in_flight = 512;
        assert_eq!(bench.pick(0), 1);
    }

    #[test]
    fn equal_legs_take_turns() {
        let mut bench = mixed("service-time");
        let picks: Vec<usize> = (0..4).map(|_| bench.pick(0)).collect();
        assert_eq!(picks, [0, 1, 2, 0]);
    }

    #[test]
    fn throughput_is_weighed() {
        let mut bench = mixed("service-time:nonrot_throughput=4");
        bench.legs[1].read_bytes_in_flight = 8192;
        bench.legs[2].read_bytes_in_flight = 16384;
        assert_eq!(bench.pick_of(0, 4096), 1, "12 KiB / 4 is below 4 KiB / 1");
        bench.legs[1].read_bytes_in_flight = 12288;
        assert_eq!(
            bench.pick_of(0, 4096),
            1,
            "equal times go to the higher throughput"
        );
        bench.legs[1].read_bytes_in_flight = 12289;
        assert_eq!(bench.pick_of(0, 4096), 0);
    }

    #[test]
    fn throughput_zero_is_a_last_resort() {
        let mut bench = mixed("service-time:rot_throughput=0");
        bench.legs[1].read_bytes_in_flight = 1 << 40;
        bench.legs[2].read_bytes_in_flight = 1 << 41;
        assert_eq!(bench.pick(0), 1);
        bench.remove(2);
        bench.remove(1);
        assert_eq!(bench.pick(0), 0);
    }
}
