//! What must hold of every simulation whatever is chosen: devices do no more than they can, time is
//! neither lost nor gained, and nobody is faster than the bound. In virtual time, so exact.

#[cfg(test)]
mod tests {
    use heliostat_model::ModelParams;
    use heliostat_sim::{Fidelity, Job, RunResult, Rw, Scenario, SimPolicy, bound, run};
    use heliostat_types::Duration;

    const HDD: &str = "hdd-7200-2tb";
    const HDD_BLOCKS: u64 = 2_000_398_934_016 / 4096;
    const HDD_MEDIA_BYTES_PER_S: f64 = 228e6;

    fn scenario(legs: &[&str], seconds: f64, job: Job) -> Scenario {
        let mut scenario = Scenario::new("test", legs, 200 << 30).expect("the drives exist");
        scenario.seconds = Duration::from_secs_f64(seconds);
        scenario.warmup_seconds = Duration::from_secs_f64(seconds / 10.0);
        scenario.fidelity = Fidelity::Stamps;
        scenario.jobs.push(job);
        scenario
    }

    fn random(iodepth: u32) -> Job {
        Job {
            iodepth,
            ..Job::default()
        }
    }

    fn mixed(iodepth: u32) -> Job {
        Job {
            rw: Rw::RandRw,
            rwmixread: 70,
            ..random(iodepth)
        }
    }

    fn stream(iodepth: u32) -> Job {
        Job {
            rw: Rw::Read,
            bs_bytes: 1 << 20,
            ..random(iodepth)
        }
    }

    fn play(scenario: &Scenario, policy: &SimPolicy) -> RunResult {
        match run(scenario, policy, &mut |_| ()) {
            Ok(result) => result,
            Err(error) => panic!("{error}"),
        }
    }

    fn play_named(scenario: &Scenario, policy: &str) -> RunResult {
        play(scenario, &SimPolicy::parse(policy).expect("it exists"))
    }

    fn iops(result: &RunResult) -> f64 {
        result.read.iops(result.seconds) + result.write.iops(result.seconds)
    }

    #[test]
    fn one_hard_disk_reads_at_most_its_media_rate() {
        for job in [stream(1), stream(16), random(32)] {
            let result = play_named(&scenario(&[HDD], 10.0, job.clone()), "pid");
            let rate = result.read.bw_bytes(result.seconds);
            assert!(rate <= 1.001 * HDD_MEDIA_BYTES_PER_S, "{job:?}: {rate}");
            if job.rw == Rw::Read {
                assert!(rate > 0.98 * HDD_MEDIA_BYTES_PER_S, "{job:?}: {rate}");
            }
        }
    }

    #[test]
    fn random_reads_of_one_hard_disk_are_what_such_disks_do() {
        let told = |percent, iodepth| {
            let mut scenario = scenario(&[HDD], 200.0, random(iodepth));
            scenario.array.size_bytes = HDD_BLOCKS * 4096;
            scenario.jobs[0].size_bytes = HDD_BLOCKS / 100 * percent * 4096;
            iops(&play_named(&scenario, "pid"))
        };
        for percent in [50, 75, 100] {
            let one = told(percent, 1);
            assert!((70.0..=100.0).contains(&one), "{percent} %: {one}");
            let gain = told(percent, 32) / one;
            assert!((1.8..=2.6).contains(&gain), "{percent} %: {gain}");
        }
        let short = told(2, 1);
        assert!((150.0..=170.0).contains(&short), "{short}");
    }

    #[test]
    fn three_hard_disks_are_at_most_three_times_one() {
        for job in [random(1), random(32), stream(16)] {
            let one = play_named(&scenario(&[HDD], 20.0, job.clone()), "pid");
            let one = one.read.bw_bytes(one.seconds);
            let three = scenario(&[HDD; 3], 5.0, job.clone());
            for policy in SimPolicy::all() {
                let result = play(&three, &policy);
                let gain = result.read.bw_bytes(result.seconds) / one;
                // The runs differ in what was drawn.
                assert!(gain <= 3.0 * 1.02, "{policy}, {job:?}: {gain}");
            }
        }
    }

    /// Plays every policy under every load on a mirror.
    #[track_caller]
    fn ensure_bound(legs: &[&str], seconds: f64) {
        for job in [
            random(1),
            random(32),
            mixed(1),
            mixed(32),
            stream(1),
            stream(16),
        ] {
            let is_slow = legs[0] == HDD && job.rw == Rw::RandRw;
            let seconds = if is_slow { 5.0 } else { seconds };
            let scenario = scenario(legs, seconds, job.clone());
            let most = bound(&scenario).expect("it is closed and whole").total;
            let most = most.read_iops + most.write_iops;
            for policy in SimPolicy::all() {
                let told = iops(&play(&scenario, &policy));
                // Those in flight when measuring began count when they end.
                let edge = f64::from(job.iodepth) / seconds;
                assert!(
                    told <= 1.005 * most + edge,
                    "{legs:?} {job:?} {policy}: {told} > {most}"
                );
            }
        }
    }

    // One test each: those of disks take as long as all others together.

    #[test]
    fn nobody_is_faster_than_the_bound_on_hard_disks() {
        ensure_bound(&[HDD; 3], 5.0);
    }

    #[test]
    fn nobody_is_faster_than_the_bound_on_a_hard_disk_and_flash() {
        ensure_bound(&[HDD, "ssd-sata-256gb"], 0.05);
    }

    #[test]
    fn nobody_is_faster_than_the_bound_on_flash() {
        ensure_bound(&["ssd-sata-256gb", "nvme-gen3"], 0.01);
        ensure_bound(&["nvme-gen3"; 2], 0.01);
        ensure_bound(&["nvme-gen3", "net-ssd"], 0.01);
    }

    #[test]
    fn the_bound_is_met_where_the_physics_is_simple() {
        // Drives, job, and how close one comes who knows them.
        for (legs, job, share) in [
            (&["nvme-gen3"][..], random(1), 0.99),
            (&["ssd-sata-256gb"], random(32), 0.99),
            (&["ssd-sata-256gb", HDD], random(1), 0.99),
            (&["nvme-gen3"; 2], random(128), 0.99),
            (&["ram", "ram"], random(1), 0.99),
            (&["nvme-gen3"; 2], stream(16), 0.98),
        ] {
            let mut scenario = scenario(legs, 0.05, job.clone());
            if legs[0] == "ram" {
                scenario.array.size_bytes = 1 << 30;
            }
            let most = bound(&scenario).expect("it is closed and whole").total;
            let told = iops(&play_named(&scenario, "oracle"));
            assert!(
                told >= share * most.read_iops,
                "{legs:?} {job:?}: {told} of {most:?}"
            );
        }
    }

    /// 2 us of the controller per read: a bound below that would call possible things impossible.
    #[test]
    fn what_a_drive_takes_to_fill_is_no_part_of_its_rate() {
        let most = bound(&scenario(&["nvme-gen3"], 0.05, random(128))).expect("it is closed");
        let off = most.total.read_iops / 500_000.0 - 1.0;
        assert!(off.abs() < 2e-4, "{off}: {most:?}");
    }

    #[test]
    fn littles_law_and_service_hold_in_every_run() {
        for (legs, seconds) in [
            (&[HDD; 3][..], 60.0),
            (&["ssd-sata-256gb", "nvme-gen3"], 0.1),
            (&["nvme-gen3", "net-ssd"], 0.2),
        ] {
            let scenario = scenario(legs, seconds, random(16));
            for policy in ["round-robin", "queue", "p2c", "oracle"] {
                let result = play_named(&scenario, policy);
                let seconds = result.seconds.as_secs_f64();
                // L = lambda W: the loop keeps 16 requests present.
                let present = iops(&result) * result.read.response_time_ns().mean() / 1e9;
                assert!(
                    (present / 16.0 - 1.0).abs() < 0.01,
                    "{legs:?} {policy}: {present}"
                );
                // The engine takes no time, so that all of it is spent in devices.
                let in_legs: f64 = result
                    .legs
                    .iter()
                    .map(|leg| leg.reads as f64 * leg.service_time_ns.mean() / 1e9 / seconds)
                    .sum();
                assert!(
                    (in_legs / present - 1.0).abs() < 1e-3,
                    "{legs:?} {policy}: {in_legs}"
                );
                let reads: u64 = result.legs.iter().map(|leg| leg.reads).sum();
                assert_eq!(reads, result.read.ios, "{legs:?} {policy}");
            }
        }
    }

    #[test]
    fn more_legs_are_never_slower_for_who_knows_them() {
        for (legs, job, seconds) in [
            (&[HDD, HDD, HDD, HDD][..], random(1), 40.0),
            (&[HDD, HDD, HDD, HDD], random(32), 10.0),
            (&["nvme-gen3", "ssd-sata-256gb", HDD], random(32), 0.05),
            (&["net-ssd", "nvme-gen3", "nvme-gen3"], random(4), 0.1),
        ] {
            let mut before = 0.0;
            for count in 1..=legs.len() {
                let scenario = scenario(&legs[..count], seconds, job.clone());
                let told = iops(&play_named(&scenario, "oracle"));
                assert!(
                    told >= 0.998 * before,
                    "{:?}: {told} < {before}",
                    &legs[..count]
                );
                before = told;
            }
        }
    }

    #[test]
    fn a_slower_device_is_never_faster() {
        /// Drive, virtual seconds, and what makes it slower.
        type Case = (&'static str, f64, fn(&mut ModelParams));
        let slower: [Case; 4] = [
            (HDD, 100.0, |params| {
                if let ModelParams::Hdd(hdd) = params {
                    hdd.seek_mean += Duration::from_us(500);
                    hdd.seek_full += Duration::from_us(500);
                }
            }),
            (HDD, 100.0, |params| {
                if let ModelParams::Hdd(hdd) = params {
                    hdd.spindle_rpm = 5900;
                }
            }),
            ("nvme-gen3", 0.1, |params| {
                if let ModelParams::Flash(flash) = params {
                    flash.read_time += Duration::from_us(5);
                }
            }),
            ("net-ssd", 1.0, |params| {
                if let ModelParams::Network(network) = params {
                    network.iops_max -= 1000;
                    network.latency_floor += Duration::from_us(20);
                }
            }),
        ];
        for (leg, seconds, make_slower) in slower {
            for iodepth in [1, 32] {
                let mut scenario = scenario(&[leg, leg], seconds, random(iodepth));
                let before = iops(&play_named(&scenario, "queue"));
                for leg in &mut scenario.array.legs {
                    make_slower(&mut leg.params);
                }
                let told = iops(&play_named(&scenario, "queue"));
                assert!(
                    told < before,
                    "{leg} depth {iodepth}: {told}, {before} before"
                );
            }
        }
    }
}
