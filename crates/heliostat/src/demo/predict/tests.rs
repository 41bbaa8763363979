use heliostat_types::Duration;

use super::super::plan::{RealTimes, WORKLOADS, WorkloadPlan};
use super::{Outcome, array_size_bytes, job_of, mean_of, real_part, rows_of, scenario, simulate};

/// The seed of the assertions below: the demo's own.
const SEED: u64 = 1;

/// A second of a workload under a policy, seen by client number `first_client`.
fn outcome(workload: &WorkloadPlan, policy: &str, first_client: u64) -> Outcome {
    let job = job_of(workload);
    let mut scenario = scenario("test", array_size_bytes(), job, SEED).unwrap();
    scenario.seconds = Duration::from_secs(1);
    scenario.first_client = first_client;
    simulate(&scenario, &policy.parse().unwrap()).unwrap()
}

fn iops(workload: &WorkloadPlan, policy: &str) -> f64 {
    outcome(workload, policy, 0).iops
}

#[test]
fn at_depth_1_measured_legs_beat_counted_ones() {
    let depth_1 = &WORKLOADS[0];
    assert_eq!(depth_1.iodepth, 1);
    let counting = ["round-robin", "queue:tie=rotate"].map(|policy| iops(depth_1, policy));
    for policy in ["latency", "latency-rr", "zfs"] {
        let rate = iops(depth_1, policy);
        for counted in counting {
            assert!(
                rate > 10.0 * counted,
                "{policy}: {rate}, counting: {counted}"
            );
        }
    }
}

#[test]
fn at_depth_32_queue_leads_pid_and_round_robin() {
    let depth_32 = &WORKLOADS[1];
    assert_eq!(depth_32.iodepth, 32);
    let clients: Vec<Outcome> = (0..3)
        .map(|client| outcome(depth_32, "pid", client))
        .collect();
    let queue = iops(depth_32, "queue");
    assert!(queue > mean_of(&clients).iops);
    assert!(queue > iops(depth_32, "round-robin"));
}

#[test]
fn equal_seeds_give_equal_traces() {
    let hash = || outcome(&WORKLOADS[1], "p2c", 0).trace_hash;
    assert!(hash().is_some());
    assert_eq!(hash(), hash());
}

#[test]
fn pid_is_shown_for_the_worst_the_mean_and_the_best_client() {
    let clients = (0..3).map(|client| outcome(&WORKLOADS[0], "pid", client));
    let rows = rows_of(clients.collect());
    let labels: Vec<&str> = rows.iter().map(|row| row.label.as_str()).collect();
    assert_eq!(
        labels,
        [
            "pid (worst client)",
            "pid (mean client)",
            "pid (best client)"
        ]
    );
    assert!(rows[0].iops < rows[1].iops && rows[1].iops < rows[2].iops);
    // The mean has every client's reads: a third of the clients reads from each leg.
    assert!(rows[1].legs.iter().all(|leg| leg.reads > 0));
    assert_eq!(rows[1].trace_hash, None);
}

#[test]
fn the_real_part_is_predicted_on_small_legs() {
    let times = RealTimes {
        warmup: std::time::Duration::from_millis(100),
        measured: std::time::Duration::from_secs(1),
    };
    let predicted = real_part(&"pid".parse().unwrap(), 1, times, SEED).unwrap();
    // Client 0 reads from leg 0, a hard disk: 60 to 200 random reads a second.
    assert!(
        (60.0..200.0).contains(&predicted.iops),
        "{}",
        predicted.iops
    );
    assert_eq!(predicted.legs[1].reads + predicted.legs[2].reads, 0);
}
