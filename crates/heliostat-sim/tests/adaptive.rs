//! What `adaptive` does beside what the engine cannot see, in virtual time on models of drives.

#[cfg(test)]
mod tests {
    use heliostat_sim::{Fidelity, Job, RunResult, Rw, Scenario, SimPolicy, run};
    use heliostat_types::Duration;
    use heliostat_workload::Arrival;

    /// Two SATA drives with sixteen random reads at a time, one of which a neighbour reads as well:
    /// most of what it can do, for 200 ms of 400.
    fn beside_a_neighbour(policy: &str) -> RunResult {
        let drives = ["ssd-sata-256gb"; 2];
        let mut scenario = Scenario::new("neighbour", &drives, 200 << 30).expect("a drive");
        scenario.warmup_seconds = Duration::from_ms(400);
        scenario.seconds = Duration::from_secs(2);
        scenario.fidelity = Fidelity::Stamps;
        let reader = Job {
            iodepth: 16,
            ..Job::default()
        };
        let neighbour = Job {
            bs_bytes: 64 << 10,
            leg: Some(0),
            background: true,
            arrival: Arrival::Burst {
                per_s: 7_000.0,
                on: Duration::from_ms(200),
                off: Duration::from_ms(200),
            },
            ..Job::default()
        };
        scenario.jobs = vec![reader, neighbour];
        let policy = SimPolicy::parse(policy).expect("it exists");
        run(&scenario, &policy, &mut |_| ()).expect("the run is sound")
    }

    /// Two disks, four readers of 128 KiB and a log: the bytes that they read and write.
    fn beside_a_log(policy: &str) -> [u64; 2] {
        let drives = ["hdd-7200-2tb"; 2];
        let mut scenario = Scenario::new("log", &drives, 600 << 30).expect("a drive");
        scenario.warmup_seconds = Duration::from_secs(5);
        scenario.seconds = Duration::from_secs(5);
        scenario.fidelity = Fidelity::Stamps;
        let readers = Job {
            rw: Rw::Read,
            bs_bytes: 128 << 10,
            numjobs: 4,
            offset_increment_bytes: 20 << 30,
            ..Job::default()
        };
        let log = Job {
            rw: Rw::Write,
            offset_bytes: 300 << 30,
            ..Job::default()
        };
        scenario.jobs = vec![readers, log];
        let policy = SimPolicy::parse(policy).expect("it exists");
        let result = run(&scenario, &policy, &mut |_| ()).expect("the run is sound");
        [result.jobs[0].read.bytes, result.jobs[1].write.bytes]
    }

    #[test]
    fn each_disk_that_is_written_reads_on_for_its_streams() {
        let [adaptive, md] = ["adaptive", "md"].map(beside_a_log);
        let told = format!("bytes read and written: adaptive {adaptive:?}, md {md:?}");
        println!("{told}");
        assert!(adaptive[0] >= 4 * md[0] && md[0] > 0, "{told}");
        assert!(adaptive[1] * 100 >= md[1] * 99, "{told}");
    }

    #[test]
    fn flash_that_a_neighbour_has_left_is_read_as_before() {
        let [adaptive, queue] = ["adaptive", "queue-adaptive"].map(|policy| {
            let result = beside_a_neighbour(policy);
            result.jobs[0].read.ios as f64
        });
        let told = format!("reads: adaptive {adaptive}, queue-adaptive {queue}");
        println!("{told}");
        assert!(adaptive >= 0.97 * queue, "{told}");
    }
}
