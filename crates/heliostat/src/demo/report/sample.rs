//! A small report with made-up figures, for tests.

use heliostat_bench::report::Facts;
use stdx::histogram::Histogram;

use super::{LegShare, Measured, MeasuredRow, Outcome, ProcessorUse, RateUnit, Report, Workload};

/// Two workloads, three policies, two measured rows.
pub(super) fn report() -> Report {
    Report {
        facts: Facts {
            version: "0.0.0".to_owned(),
            build: "release",
            created_utc: "2025-01-31T12:00:00Z".to_owned(),
            kernel: "Linux 6.1.0 x86_64".to_owned(),
            system: "Debian GNU/Linux 12 (bookworm)".to_owned(),
            processor: "A <processor>".to_owned(),
            cpu_count: 2,
            memory_bytes: 8 << 30,
        },
        seed: 1,
        quick: true,
        legs: vec!["hdd-7200-2tb".to_owned(), "ssd-sata-256gb".to_owned()],
        size_bytes: 100 << 30,
        workloads: vec![
            Workload {
                name: "random-4k-depth-1",
                title: "Random 4 KiB reads, depth 1",
                heading: "random\n4 KiB x1",
                unit: RateUnit::Iops,
                shows_tail: true,
                rows: vec![
                    outcome("round-robin", 196.0, 4096, 17_000_000, [100, 100]),
                    outcome("zfs", 8_900.0, 4096, 130_000, [0, 9_000]),
                    outcome("latency", 8_950.0, 4096, 120_000, [10, 9_000]),
                ],
            },
            Workload {
                name: "sequential-1m-depth-16",
                title: "Sequential 1 MiB reads, depth 16",
                heading: "sequential\n1 MiB x16",
                unit: RateUnit::MibPerSecond,
                shows_tail: false,
                rows: vec![
                    outcome("round-robin", 600.0, 1 << 20, 40_000_000, [300, 300]),
                    outcome("zfs", 580.0, 1 << 20, 35_000_000, [250, 330]),
                    outcome("latency", 500.0, 1 << 20, 32_000_000, [0, 500]),
                ],
            },
        ],
        measured: Measured {
            legs: vec!["model:hdd-7200-2tb,size=1GiB".to_owned(); 2],
            size_bytes: 1 << 30,
            seconds: 2.0,
            rows: vec![
                measured("round-robin", 1, (190.0, 17_500_000), (196.0, 17_000_000)),
                measured("zfs", 1, (6_000.0, 190_000), (8_900.0, 130_000)),
            ],
        },
    }
}

fn measured(
    policy: &str,
    iodepth: u32,
    measured: (f64, u64),
    predicted: (f64, u64),
) -> MeasuredRow {
    MeasuredRow {
        policy: policy.to_owned(),
        iodepth,
        measured: outcome(policy, measured.0, 4096, measured.1, [1, 1]),
        predicted: outcome(policy, predicted.0, 4096, predicted.1, [1, 1]),
        processors: Some(ProcessorUse {
            server: 0.5,
            client: 0.25,
            others: 1.2,
        }),
    }
}

/// A policy whose slowest percent took `p99` nanoseconds, and all others half of that.
fn outcome(label: &str, iops: f64, bs_bytes: u32, p99: u64, reads: [u64; 2]) -> Outcome {
    let mut response = Histogram::new();
    for _ in 0..98 {
        response.record(p99 / 2);
    }
    response.record(p99);
    response.record(p99);
    Outcome {
        label: label.to_owned(),
        policy: label.to_owned(),
        iops,
        bytes_per_second: iops * f64::from(bs_bytes),
        response,
        legs: reads
            .map(|reads| LegShare {
                reads,
                read_bytes: reads * u64::from(bs_bytes),
                busy_fraction: Some(0.5),
            })
            .to_vec(),
        trace_hash: Some(0xabc),
    }
}
