//! What background work and clients feel of each other, in virtual time on models of drives: the
//! figures of docs/background.md.

#[cfg(test)]
mod tests {
    use heliostat_sim::{
        BackgroundSpec, BackgroundWork, Fidelity, Job, RunResult, Rw, Scenario, SimPolicy, run,
    };
    use heliostat_types::Duration;

    const GIB: u64 = 1 << 30;

    fn play(scenario: &Scenario) -> RunResult {
        let policy = SimPolicy::parse("zfs").expect("it exists");
        run(scenario, &policy, &mut |_| ()).expect("the run is sound")
    }

    /// A mirror of two equal drives, a job, and perhaps work in the background.
    fn scenario(drive: &str, seconds: u64, job: Job, work: Option<BackgroundSpec>) -> Scenario {
        let mut scenario =
            Scenario::new("background", &[drive, drive], 100 * GIB).expect("a drive");
        scenario.seconds = Duration::from_secs(seconds);
        scenario.warmup_seconds = Duration::from_secs((seconds / 3).min(10));
        scenario.fidelity = Fidelity::Stamps;
        scenario.jobs = vec![job];
        scenario.array.background = work;
        scenario
    }

    /// At whatever rate the drives allow.
    fn unbounded(work: BackgroundWork) -> BackgroundSpec {
        BackgroundSpec {
            rate_max: 10_000_000_000,
            ..BackgroundSpec::new(work)
        }
    }

    /// Reads of what may differ go to one leg, and next to nothing is copied.
    fn pins_only() -> BackgroundSpec {
        BackgroundSpec {
            rate_min: 0,
            rate_max: 1,
            ..BackgroundSpec::new(BackgroundWork::Resync)
        }
    }

    #[test]
    fn without_clients_a_resync_is_as_fast_as_writing_in_order() {
        for drive in ["hdd-7200-1tb", "ssd-sata-256gb"] {
            let writer = Job {
                rw: Rw::Write,
                bs_bytes: 1 << 20,
                iodepth: 4,
                ..Job::default()
            };
            let nobody = Job {
                thinktime: Duration::from_secs(1000),
                ..Job::default()
            };
            let written = play(&scenario(drive, 6, writer, None));
            let resync = unbounded(BackgroundWork::Resync);
            let resynced = play(&scenario(drive, 6, nobody, Some(resync)));
            let written = written.write.bw_bytes(written.seconds);
            let resynced = resynced.background.expect("it was asked for").bw_bytes();
            let told = format!("{drive}: resync {resynced:.0}, writer {written:.0} bytes/s");
            println!("{told}");
            assert!(resynced >= written * 0.95, "{told}");
        }
    }

    /// One case, against the same without background work, but with the pins of a resync.
    fn compare(drive: &str, rw: Rw, depth: u32, work: BackgroundWork, rate_min: u64) {
        // Without a floor, windows are rare.
        let seconds = match drive {
            _ if rate_min == 0 => 120,
            "hdd-7200-1tb" | "hdd-7200-2tb" => 30,
            _ => 3,
        };
        let job = Job {
            rw,
            iodepth: depth,
            ..Job::default()
        };
        let spec = BackgroundSpec {
            rate_min,
            ..unbounded(work)
        };
        let without = (work == BackgroundWork::Resync).then(pins_only);
        let alone = play(&scenario(drive, seconds, job.clone(), without));
        let beside = play(&scenario(drive, seconds, job, Some(spec)));
        let p99s = |result: &RunResult| {
            [&result.read, &result.write]
                .map(|measured| measured.response_time_ns().quantile(9_900))
        };
        let ops = |result: &RunResult| result.read.ios + result.write.ios;
        let bytes_per_s = beside.background.expect("it was asked for").bw_bytes();
        let (before, after) = (p99s(&alone), p99s(&beside));
        let told = format!(
            "{drive} {rw:?} {depth} {work:?}: p99 of reads {} -> {} ns, of writes {} -> {} ns, \
             operations {} -> {}, {bytes_per_s:.0} bytes/s",
            before[0],
            after[0],
            before[1],
            after[1],
            ops(&alone),
            ops(&beside),
        );
        println!("{told}");
        // The buckets of the histogram are a thirty-second wide.
        let is_held = |of: usize| after[of] <= 2 * before[of] + before[of] / 16;
        assert!(is_held(0) && is_held(1), "{told}");
        assert!(ops(&beside) * 10 >= ops(&alone) * 7, "{told}");
        assert!(bytes_per_s >= rate_min as f64 * 0.9, "{told}");
    }

    #[test]
    fn p99_at_most_doubles_beside_a_resync() {
        for (drive, rw, depth) in [
            ("hdd-7200-1tb", Rw::RandRead, 1),
            ("hdd-7200-1tb", Rw::RandRead, 4),
            ("hdd-7200-1tb", Rw::RandRw, 8),
            ("hdd-7200-1tb", Rw::RandWrite, 1),
            ("hdd-7200-1tb", Rw::RandWrite, 16),
            ("hdd-7200-2tb", Rw::RandRead, 4),
            ("ssd-sata-256gb", Rw::RandRead, 1),
            ("net-ssd", Rw::RandRw, 8),
        ] {
            compare(drive, rw, depth, BackgroundWork::Resync, 1_000_000);
        }
    }

    #[test]
    fn p99_at_most_doubles_beside_a_check() {
        for (drive, rw, depth) in [
            ("hdd-7200-1tb", Rw::RandRead, 4),
            ("hdd-7200-1tb", Rw::RandRw, 8),
            ("hdd-7200-1tb", Rw::RandRw, 32),
            ("hdd-7200-1tb", Rw::RandWrite, 1),
            ("hdd-7200-2tb", Rw::RandRead, 1),
            ("ssd-sata-256gb", Rw::RandRead, 1),
        ] {
            compare(drive, rw, depth, BackgroundWork::Check, 1_000_000);
        }
    }

    /// All 32 places of a disk's queue are taken by reads, so that each window makes writes wait in
    /// front of it: that is felt at any rate. The floor is kept nevertheless; without one the pace
    /// nearly stops.
    #[test]
    fn where_the_floor_itself_is_felt_it_can_be_taken_away() {
        let (drive, rw, depth) = ("hdd-7200-1tb", Rw::RandRw, 32);
        let job = Job {
            rw,
            iodepth: depth,
            ..Job::default()
        };
        let kept = unbounded(BackgroundWork::Resync);
        let kept = play(&scenario(drive, 30, job, Some(kept)));
        let bytes_per_s = kept.background.expect("it was asked for").bw_bytes();
        let p99 = kept.write.response_time_ns().quantile(9_900);
        println!("with the floor: p99 of writes {p99} ns, {bytes_per_s:.0} bytes/s");
        assert!(bytes_per_s >= 900_000.0, "{bytes_per_s}");
        compare(drive, rw, depth, BackgroundWork::Resync, 0);
    }
}
