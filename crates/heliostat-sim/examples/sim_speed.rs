//! How fast the simulator is: simulated requests per second of one core, and virtual time over
//! real time, on a few mirrors.
//!
//!     cargo run --release -p heliostat-sim --example sim_speed [--csv] [FACTOR] [POLICY] [ONLY]
//!
//! `cargo xtask bench sim` runs it several times and keeps what it says.
//!
//! FACTOR lengthens the runs, ONLY is a part of the names of those that are wanted.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "it measures the simulator from outside, for people"
)]

use std::error::Error;
use std::time::Instant;

use heliostat_policy::PolicySpec;
use heliostat_sim::{Fidelity, Job, Rw, Scenario, run};
use heliostat_types::Duration;

/// Name, legs, job, virtual seconds.
type Case = (&'static str, &'static [&'static str], Job, f64);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let csv = arguments.first().is_some_and(|first| first == "--csv");
    if csv {
        arguments.remove(0);
    }
    let factor: f64 = arguments.first().map_or(Ok(1.0), |text| text.parse())?;
    let policy = PolicySpec::parse(arguments.get(1).map_or("queue", String::as_str))?;
    let only = arguments.get(2).map_or("", String::as_str);
    if !csv {
        println!(
            "mirror, job, checked                        virtual   real  x real    requests/s"
        );
    }
    for case in &cases() {
        for fidelity in [Fidelity::Bytes, Fidelity::Stamps] {
            if format!("{} {fidelity:?}", case.0).contains(only) {
                measure(case, factor, &policy, fidelity, csv)?;
            }
        }
    }
    Ok(())
}

fn cases() -> [Case; 9] {
    const RAM: &[&str] = &["ram"; 3];
    const MIXED: &[&str] = &["hdd-7200-2tb", "hdd-7200-2tb", "ssd-sata-256gb"];
    const HDDS: &[&str] = &["hdd-7200-2tb"; 3];
    let random = |iodepth| Job {
        iodepth,
        ..Job::default()
    };
    let stream = Job {
        rw: Rw::Read,
        bs_bytes: 1 << 20,
        iodepth: 16,
        ..Job::default()
    };
    let writes = Job {
        rw: Rw::RandWrite,
        iodepth: 32,
        size_bytes: 64 << 20,
        ..Job::default()
    };
    [
        ("3 ram, randread 4k depth 1", RAM, random(1), 1.0),
        ("3 ram, randread 4k depth 32", RAM, random(32), 0.1),
        ("3 ram, randwrite 4k depth 32", RAM, writes, 0.05),
        (
            "2 nvme, randread 4k depth 32",
            &["nvme-gen3"; 2],
            random(32),
            2.0,
        ),
        ("2 hdd + ssd, randread 4k depth 32", MIXED, random(32), 10.0),
        ("2 hdd + ssd, read 1m depth 16", MIXED, stream.clone(), 10.0),
        ("3 hdd, randread 4k depth 1", HDDS, random(1), 1000.0),
        ("3 hdd, randread 4k depth 32", HDDS, random(32), 200.0),
        ("3 hdd, read 1m depth 16", HDDS, stream, 100.0),
    ]
}

fn measure(
    (name, legs, job, seconds): &Case,
    factor: f64,
    policy: &PolicySpec,
    fidelity: Fidelity,
    csv: bool,
) -> Result<(), Box<dyn Error>> {
    let size_bytes = if legs[0] == "ram" { 1 << 30 } else { 200 << 30 };
    let mut scenario = Scenario::new(name, legs, size_bytes)?;
    scenario.seconds = Duration::from_secs_f64(seconds * factor);
    scenario.warmup_seconds = Duration::ZERO;
    scenario.fidelity = fidelity;
    scenario.jobs.push(job.clone());
    let started = Instant::now();
    let result = run(&scenario, policy, &mut |_| ())?;
    let real = started.elapsed().as_secs_f64();
    let virtual_seconds = result.seconds.as_secs_f64();
    let requests = (result.read.ios + result.write.ios) as f64;
    if csv {
        println!("{name}, {fidelity:?};{virtual_seconds};{real};{requests}");
        return Ok(());
    }
    println!(
        "{name:34} {fidelity:?} {virtual_seconds:>8.2} s {real:>5.2} s {:>7.1} {:>13.0}",
        virtual_seconds / real,
        requests / real,
    );
    Ok(())
}
