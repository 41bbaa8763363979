//! What `adaptive` promises to who reads, over whole scenarios in virtual time: ratios to another
//! policy with the same work and luck, and so exact.

#[cfg(test)]
mod tests {
    use heliostat_sim::{Fidelity, Job, Rw, Scenario, SimPolicy, run};
    use heliostat_types::Duration;
    use heliostat_workload::Arrival;

    /// Bytes per second that all clients read.
    fn read_bytes_per_s(scenario: &Scenario, policy: &str) -> f64 {
        let policy = SimPolicy::parse(policy).expect("it exists");
        let result = run(scenario, &policy, &mut |_| ()).expect("it is sound");
        result.read.bytes as f64 / scenario.seconds.as_secs_f64()
    }

    /// Programs that each read a file, 128 KiB ahead of them.
    fn files(count: u32) -> Job {
        Job {
            name: "streams".to_owned(),
            rw: Rw::Read,
            bs_bytes: 128 << 10,
            direct: false,
            readahead_bytes: 128 << 10,
            numjobs: count,
            offset_increment_bytes: 20 << 30,
            ..Job::default()
        }
    }

    fn scenario(legs: &[&str], jobs: Vec<Job>) -> Scenario {
        let mut scenario = Scenario::new("files", legs, 200 << 30).expect("they exist");
        scenario.fidelity = Fidelity::Stamps;
        scenario.warmup_seconds = Duration::from_ms(500);
        scenario.seconds = Duration::from_secs(2);
        scenario.jobs = jobs;
        scenario
    }

    /// Two programs that each read a file, of two drives, one of which somebody else has for 200 ms
    /// of 400. Two drives do twice as much as one in between, and nobody knows it who never tries.
    #[test]
    fn streams_have_the_drive_that_a_neighbour_leaves_them() {
        let neighbour = Job {
            name: "neighbour".to_owned(),
            rw: Rw::RandRead,
            bs_bytes: 64 << 10,
            leg: Some(0),
            background: true,
            arrival: Arrival::Burst {
                per_s: 7000.0,
                on: Duration::from_ms(200),
                off: Duration::from_ms(200),
            },
            ..Job::default()
        };
        let scenario = scenario(&["ssd-sata-256gb"; 2], vec![files(2), neighbour]);
        // To each stream a drive.
        let pid = read_bytes_per_s(&scenario, "pid");
        for policy in ["adaptive", "adaptive:streams=0"] {
            let ratio = read_bytes_per_s(&scenario, policy) / pid;
            assert!(ratio > 0.93, "{policy}: {ratio}");
        }
    }

    /// A network disk beside an NVMe drive was not slow: it is. Whoever reads in sequence waits for
    /// each read that it is handed.
    #[test]
    fn streams_do_not_try_what_is_slower_by_nature() {
        let mut scenario = scenario(&["nvme-gen3", "net-ssd"], vec![files(3)]);
        scenario.seconds = Duration::from_ms(300);
        let all = read_bytes_per_s(&scenario, "adaptive");
        scenario.array.legs.truncate(1);
        let nvme = read_bytes_per_s(&scenario, "pid");
        assert!(all > 0.99 * nvme, "{all} {nvme}");
    }
}
