//! How the oracle compares with the best registered policy, over mirrors, depths and mixes.
//!
//!     cargo run --release -p heliostat-sim --example oracle_matrix [SECONDS] [ONLY]
//!
//! SECONDS lengthens the runs (1: two virtual seconds on flash, forty where a disk turns), ONLY is
//! a part of the names of the cells that are wanted. Printed is throughput: requests per second,
//! of streams MB/s.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "it measures the simulator from outside, for people"
)]

use std::error::Error;
use std::time::Instant;

use heliostat_sim::{Fidelity, Job, RunResult, Rw, Scenario, SimPolicy, run};
use heliostat_types::Duration;

const MIRRORS: [(&str, &[&str]); 5] = [
    ("3 hdd", &["hdd-7200-2tb"; 3]),
    ("hdd + ssd", &["hdd-7200-2tb", "ssd-sata-256gb"]),
    ("ssd + nvme", &["ssd-sata-256gb", "nvme-gen3"]),
    ("2 nvme", &["nvme-gen3"; 2]),
    ("nvme + net", &["nvme-gen3", "net-ssd"]),
];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let factor: f64 = arguments.first().map_or(Ok(1.0), |text| text.parse())?;
    let only = arguments.get(1).map_or("", String::as_str);
    println!(
        "{:33}{:>9}{:>10}      {:26}ratio  slower",
        "cell", "bound", "oracle", "best policy"
    );
    for (mirror, legs) in MIRRORS {
        for (name, job) in jobs() {
            let cell = format!("{mirror}, {name}");
            if cell.contains(only) {
                measure(&cell, legs, job, factor)?;
            }
        }
    }
    Ok(())
}

fn jobs() -> Vec<(String, Job)> {
    let mut jobs = Vec::new();
    for iodepth in [1, 4, 32, 128] {
        let random = Job {
            iodepth,
            ..Job::default()
        };
        let mixed = Job {
            rw: Rw::RandRw,
            rwmixread: 70,
            ..random.clone()
        };
        jobs.push((format!("randread 4k depth {iodepth}"), random));
        jobs.push((format!("randrw 70 4k depth {iodepth}"), mixed));
    }
    for iodepth in [1, 16] {
        let stream = Job {
            rw: Rw::Read,
            bs_bytes: 1 << 20,
            iodepth,
            ..Job::default()
        };
        jobs.push((format!("read 1m depth {iodepth}"), stream));
    }
    jobs
}

fn measure(cell: &str, legs: &[&str], job: Job, factor: f64) -> Result<(), Box<dyn Error>> {
    let turns = legs[0].starts_with("hdd");
    let is_stream = job.rw == Rw::Read;
    let mut scenario = Scenario::new(cell, legs, 200 << 30)?;
    let is_slow = turns && (legs.len() == 3 || job.rw.has_writes());
    let seconds = match (is_slow, is_stream) {
        (true, false) => 40.0,
        (true, true) => 10.0,
        (false, true) => 2.0,
        (false, false) if turns => 1.0,
        (false, false) => 0.2,
    };
    scenario.seconds = Duration::from_secs_f64(seconds * factor);
    scenario.warmup_seconds = Duration::from_secs_f64(seconds * factor / 10.0);
    scenario.fidelity = Fidelity::Stamps;
    scenario.jobs.push(job);
    let figure = |result: &RunResult| {
        if is_stream {
            result.read.bw_bytes(result.seconds) / 1e6
        } else {
            result.read.iops(result.seconds) + result.write.iops(result.seconds)
        }
    };
    let most = heliostat_sim::bound(&scenario)?.total;
    let most = if is_stream {
        most.read_bw_bytes / 1e6
    } else {
        most.read_iops + most.write_iops
    };
    let mut best = (String::new(), 0.0, 0.0);
    for policy in SimPolicy::all() {
        let began = Instant::now();
        let result = run(&scenario, &policy, &mut |_| ())?;
        let cost = began.elapsed().as_secs_f64() / result.event_count as f64;
        if policy == SimPolicy::Oracle {
            println!(
                "{cell:30} {most:>9.1} {:>9.1} {:>9.1} {:20} {:>6.3} {:>7.1}",
                figure(&result),
                best.1,
                best.0,
                figure(&result) / best.1,
                cost / best.2,
            );
        } else if figure(&result) > best.1 {
            best = (policy.to_string(), figure(&result), cost);
        }
    }
    Ok(())
}
