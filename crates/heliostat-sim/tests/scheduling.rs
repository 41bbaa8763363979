//! What schedulers in front of the legs do to those who write beside each other, in virtual time.

#[cfg(test)]
mod tests {
    use heliostat_scheduler::SchedulerSpec;
    use heliostat_sim::{Fidelity, Job, RunResult, Rw, Scenario, SimPolicy, run};
    use heliostat_types::Duration;

    const GIB: u64 = 1 << 30;

    fn play(scenario: &Scenario) -> RunResult {
        let policy = SimPolicy::parse("md").expect("it exists");
        run(scenario, &policy, &mut |_| ()).expect("the run is sound")
    }

    /// Jobs of ten clients each, with 20 GiB for each client.
    fn job(rw: Rw, bs_bytes: u64, iodepth: u32, from: u64) -> Job {
        Job {
            rw,
            bs_bytes,
            iodepth,
            numjobs: 10,
            offset_bytes: from * 20 * GIB,
            offset_increment_bytes: 20 * GIB,
            size_bytes: 20 * GIB,
            ..Job::default()
        }
    }

    /// A mirror of two disks without write caches.
    fn disks(scheduler: &str, jobs: Vec<Job>) -> Scenario {
        let mut scenario =
            Scenario::new("volumes", &["hdd-7200-1tb"; 2], 900 * GIB).expect("a drive");
        scenario.seconds = Duration::from_secs(10);
        scenario.warmup_seconds = Duration::ZERO;
        scenario.fidelity = Fidelity::Stamps;
        scenario.array.scheduler = SchedulerSpec::parse(scheduler).expect("a scheduler");
        for leg in &mut scenario.array.legs {
            leg.params
                .set("write_cache", "false")
                .expect("disks have one");
        }
        scenario.jobs = jobs;
        scenario
    }

    #[test]
    fn a_reader_beside_writers() {
        let jobs = || {
            let reader = Job {
                numjobs: 1,
                ..job(Rw::RandRead, 4096, 1, 20)
            };
            vec![
                job(Rw::Write, 1 << 20, 32, 0),
                job(Rw::RandWrite, 4096, 32, 10),
                reader,
            ]
        };
        let slowest = |name| {
            let result = play(&disks(name, jobs()));
            result.jobs[2].read.response_time_ns.quantile(9_900)
        };
        let [none, fair] = ["none", "fair"].map(slowest);
        assert!(fair * 5 <= none, "{fair} of {none} ns");
    }
}
