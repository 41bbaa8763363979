//! What the demo runs, and for how long.

use std::time::Duration;

use heliostat_policy::{PolicySpec, all_policies};

use super::report::RateUnit;

/// The mirror: models of its legs, by role.
pub(super) const LEGS: [&str; 3] = ["hdd-7200-2tb", "hdd-7200-2tb", "ssd-sata-256gb"];

/// One workload of the virtual part: a single client that reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkloadPlan {
    /// A short name without blanks.
    pub name: &'static str,
    /// What it is, for people.
    pub title: &'static str,
    /// The same in lines short enough for a column.
    pub heading: &'static str,
    /// What its rate is told in.
    pub unit: RateUnit,
    /// Whether its response times are shown beside its rate.
    pub shows_tail: bool,
    /// How it reads.
    pub pattern: Pattern,
    /// Bytes per read.
    pub block_bytes: u64,
    /// Reads in flight.
    pub iodepth: u32,
    /// Measured virtual time.
    pub seconds: u64,
    /// The same in the short form.
    pub seconds_quick: u64,
}

/// How a workload walks over the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Anywhere, past any cache.
    Random,
    /// One block after the other, past any cache.
    Sequential,
    /// One block after the other, through a cache that reads ahead.
    Buffered,
}

/// The workloads, in the order of the table's columns.
///
/// Where hard disks set the pace a read takes about 10 ms: a thousand reads or more in every row
/// keep the error of a mean below a few percent. Flash at depth 32 answers 90,000 reads a second,
/// and large blocks carry many sectors to check: there a second costs more of the demo's time.
pub(super) const WORKLOADS: [WorkloadPlan; 4] = [
    WorkloadPlan {
        name: "random-4k-depth-1",
        title: "Random 4 KiB reads, depth 1",
        heading: "random\n4K x1",
        unit: RateUnit::Iops,
        shows_tail: true,
        pattern: Pattern::Random,
        block_bytes: 4 << 10,
        iodepth: 1,
        seconds: 60,
        seconds_quick: 5,
    },
    WorkloadPlan {
        name: "random-4k-depth-32",
        title: "Random 4 KiB reads, depth 32",
        heading: "random\n4K x32",
        unit: RateUnit::Iops,
        shows_tail: true,
        pattern: Pattern::Random,
        block_bytes: 4 << 10,
        iodepth: 32,
        seconds: 8,
        seconds_quick: 1,
    },
    WorkloadPlan {
        name: "sequential-1m-depth-16",
        title: "Sequential 1 MiB reads, depth 16",
        heading: "seq.\n1M x16",
        unit: RateUnit::MibPerSecond,
        shows_tail: false,
        pattern: Pattern::Sequential,
        block_bytes: 1 << 20,
        iodepth: 16,
        seconds: 20,
        seconds_quick: 2,
    },
    WorkloadPlan {
        name: "buffered-64k",
        title: "One buffered reader, 64 KiB",
        heading: "buffered\n64K",
        unit: RateUnit::MibPerSecond,
        shows_tail: false,
        pattern: Pattern::Buffered,
        block_bytes: 64 << 10,
        iodepth: 1,
        seconds: 20,
        seconds_quick: 2,
    },
];

/// The policies of the virtual part: every one there is, and `queue` with each of its tie-breaks.
pub(super) fn virtual_policies() -> Vec<PolicySpec> {
    let mut specs = Vec::new();
    for policy in all_policies() {
        specs.push(PolicySpec::new(policy));
        if policy.name == "queue" {
            specs.extend(QUEUE_TIES.map(|text| {
                PolicySpec::parse(text).expect("the demo writes policies as the registry has them")
            }));
        }
    }
    specs.dedup();
    specs
}

/// The tie-breaks of `queue`: at depth 1 all legs are equally idle, and they decide everything.
const QUEUE_TIES: [&str; 3] = ["queue:tie=first", "queue:tie=rotate", "queue:tie=latency"];

/// The policies of the real part.
pub(super) const REAL_POLICIES: [&str; 5] = ["pid", "round-robin", "queue", "latency", "adaptive"];

/// The depths of the real part.
pub(super) const REAL_DEPTHS: [u32; 2] = [1, 32];

/// Size of each leg of the real part. Memory is used only where it is touched, and a read of 4 KiB
/// touches little; a mirror of 1 GiB costs some megabytes.
pub(super) const REAL_SIZE_BYTES: u64 = 1 << 30;
/// The same as `serve` is told.
pub(super) const REAL_SIZE: &str = "1GiB";

/// How long each row of the real part takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct RealTimes {
    /// Run and not counted.
    pub warmup: Duration,
    /// Counted.
    pub measured: Duration,
}

/// The times of the real part.
///
/// A hard disk answers about 100 times a second at depth 1, with a spread of a third of the mean:
/// 5 s give the mean to 1.5 %, 1.2 s to 3 %.
pub(super) fn real_times(quick: bool) -> RealTimes {
    if quick {
        RealTimes {
            warmup: Duration::from_millis(100),
            measured: Duration::from_millis(1_200),
        }
    } else {
        RealTimes {
            warmup: Duration::from_millis(500),
            measured: Duration::from_secs(5),
        }
    }
}
