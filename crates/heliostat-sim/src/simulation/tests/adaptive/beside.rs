//! Reads beside others of another kind, on unequal legs.

use heliostat_engine::Layout;
use heliostat_types::Duration;
use heliostat_workload::{Job, Rw};

use super::super::play;
use super::over_200_gib;
use crate::scenario::Scenario;

fn reads(scenario: &Scenario, policy: &str) -> Vec<f64> {
    let jobs = play(scenario, policy).jobs;
    jobs.iter().map(|job| job.read.ios as f64).collect()
}

/// One reader in sequence, with so many of these reads in flight, over the first 10 GiB.
fn in_sequence(bs_bytes: u64, iodepth: u32) -> Job {
    Job {
        rw: Rw::Read,
        bs_bytes,
        iodepth,
        size_bytes: 10 << 30,
        ..Job::default()
    }
}

fn at_random(bs_bytes: u64, iodepth: u32) -> Job {
    Job {
        rw: Rw::RandRead,
        ..in_sequence(bs_bytes, iodepth)
    }
}

/// They would have a twentieth more with it, and the stream a fortieth of what it has.
#[test]
fn long_random_reads_leave_the_disk_to_a_stream() {
    let legs = ["hdd-7200-2tb", "ssd-sata-1tb"];
    let mut scenario = over_200_gib(&legs, 2, in_sequence(4 << 10, 4));
    scenario.warmup_seconds = Duration::from_ms(2_000);
    let mut alone = scenario.clone();
    alone.array.legs.truncate(1);
    scenario.jobs.push(at_random(256 << 10, 8));
    let [stream, random] = reads(&scenario, "adaptive")[..] else {
        panic!("two jobs have results");
    };
    let share = stream / reads(&alone, "adaptive")[0];
    assert!(share > 0.9, "{share}");
    let share = random / reads(&scenario, "pid")[1];
    assert!(share > 0.9, "{share}");
}

/// Some of them begin where another one has ended, by chance, and their chunks lie at the same
/// place of several legs. The disks alone would give the stream a third of that.
#[test]
fn a_stream_beside_long_random_reads_is_not_left_to_slow_disks() {
    let legs = ["hdd-7200-1tb", "nvme-gen4", "hdd-7200-1tb", "nvme-gen4"];
    let mut scenario = over_200_gib(&legs, 1, in_sequence(128 << 10, 2));
    scenario.array.layout = Layout::parse("near=2").unwrap();
    scenario.warmup_seconds = Duration::from_ms(1_000);
    scenario.seconds = Duration::from_ms(500);
    scenario.jobs.push(at_random(1 << 20, 4));
    let with = reads(&scenario, "adaptive");
    let without = reads(&scenario, "queue-adaptive");
    for (with, without) in with.iter().zip(without) {
        let share = with / without;
        assert!(share > 0.9, "{share}");
    }
}

/// Of unequal disks the slower ones have hardly time for reads: what is nearer there has to wait.
#[test]
fn disks_that_are_busy_with_writes_get_no_queue_of_reads() {
    let legs = ["hdd-7200-2tb", "hdd-7200-1tb", "hdd-7200-1tb"];
    let random = Job {
        size_bytes: 40 << 30,
        ..at_random(64 << 10, 8)
    };
    let mut scenario = over_200_gib(&legs, 15, random.clone());
    scenario.warmup_seconds = Duration::from_ms(10_000);
    scenario.jobs.push(Job {
        rw: Rw::RandWrite,
        bs_bytes: 4 << 10,
        offset_bytes: 100 << 30,
        rate_iops: [0, 200],
        ..random
    });
    let share = reads(&scenario, "adaptive")[0] / reads(&scenario, "queue")[0];
    assert!(share > 0.95, "{share}");
}

/// What a disk beside flash does by now is worth no read of a thousand.
#[test]
fn few_reads_do_not_try_a_disk_beside_flash() {
    for (disk, writes) in [("hdd-7200-2tb", 0), ("hdd-5400-old", 50)] {
        let job = Job {
            rw: if writes > 0 { Rw::RandRw } else { Rw::RandRead },
            size_bytes: 200 << 30,
            rwmixread: 90,
            rate_iops: [50, writes],
            ..at_random(4 << 10, 1)
        };
        let mut scenario = over_200_gib(&[disk, "nvme-gen4", disk, disk], 20, job);
        scenario.array.size_bytes = 230 << 30;
        scenario.seed = 202;
        scenario.warmup_seconds = Duration::from_ms(10_000);
        let longest = play(&scenario, "adaptive").read.response_time_ns().max();
        let longest = Duration::from_ns(longest);
        assert!(longest < Duration::from_ms(2), "{disk}: {longest:?}");
    }
}

/// A disk that has nothing to read writes what its cache holds, and the next read waits for that.
/// One that has a read does not begin with it, and may serve a second one sooner.
#[test]
fn a_few_reads_beside_writes_do_not_wait_for_caches_that_are_written() {
    let [large, small] = ["hdd-7200-2tb", "hdd-5400-old"];
    let cases: [(&[&str], u32, f64); 4] = [
        (&[large, large], 2, 1.15),
        (&[large, large, large], 3, 1.15),
        (&[large, large, large], 2, 1.0),
        (&[large, small], 2, 1.0),
    ];
    for (legs, iodepth, least) in cases {
        let job = Job {
            rw: Rw::RandRw,
            rwmixread: 70,
            size_bytes: 200 << 30,
            ..at_random(4 << 10, iodepth)
        };
        let mut scenario = over_200_gib(legs, 20, job);
        scenario.warmup_seconds = Duration::from_ms(10_000);
        let times = reads(&scenario, "adaptive")[0] / reads(&scenario, "zfs")[0];
        assert!(times > least, "{legs:?}, {iodepth}: {times}");
    }
    // With few writes a cache is soon empty, and an idle disk is idle.
    for (legs, least) in [([large, large], 0.98), ([large, small], 0.95)] {
        let job = Job {
            rw: Rw::RandRw,
            rwmixread: 90,
            size_bytes: 200 << 30,
            ..at_random(4 << 10, 2)
        };
        let mut scenario = over_200_gib(&legs, 20, job);
        scenario.warmup_seconds = Duration::from_ms(10_000);
        let times = reads(&scenario, "adaptive")[0] / reads(&scenario, "queue")[0];
        assert!(times > least, "{legs:?}, of nine reads one write: {times}");
    }
}
