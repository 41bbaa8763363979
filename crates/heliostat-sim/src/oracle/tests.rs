use heliostat_policy::PolicySpec;
use heliostat_types::Duration;
use heliostat_workload::{Job, Rw};

use crate::{Effect, Fault, Fidelity, RunResult, Scenario, SimPolicy, run};

fn scenario(legs: &[&str], seconds: f64, job: Job) -> Scenario {
    let mut scenario = Scenario::new("test", legs, 100 << 30).unwrap();
    scenario.seconds = Duration::from_secs_f64(seconds);
    scenario.warmup_seconds = Duration::ZERO;
    scenario.fidelity = Fidelity::Stamps;
    scenario.jobs.push(job);
    scenario
}

fn play(scenario: &Scenario, policy: &str) -> RunResult {
    let policy = SimPolicy::parse(policy).unwrap();
    run(scenario, &policy, &mut |_| ()).unwrap()
}

fn iops(scenario: &Scenario, policy: &str) -> f64 {
    let result = play(scenario, policy);
    result.read.iops(result.seconds) + result.write.iops(result.seconds)
}

/// Random reads and, where `rwmixread` is below 100, writes.
fn random(iodepth: u32, rwmixread: u32) -> Job {
    Job {
        rw: Rw::RandRw,
        iodepth,
        rwmixread,
        ..Job::default()
    }
}

/// The best of all registered policies, and the oracle.
fn best_and_oracle(scenario: &Scenario) -> (f64, f64) {
    let registered = heliostat_policy::all_policies().map(PolicySpec::new);
    let best = registered.map(|spec| iops(scenario, &spec.to_string()));
    (best.fold(0.0, f64::max), iops(scenario, "oracle"))
}

/// That no policy is better by more than a hundredth.
#[track_caller]
fn ensure_best(legs: &[&str], seconds: f64, job: Job) {
    let (best, oracle) = best_and_oracle(&scenario(legs, seconds, job.clone()));
    assert!(oracle >= 0.99 * best, "{legs:?} {job:?}: {oracle} < {best}");
}

#[test]
fn no_policy_is_better_on_hard_disks() {
    let legs = ["hdd-7200-2tb"; 3];
    ensure_best(&legs, 10.0, random(32, 100));
    ensure_best(&legs, 10.0, random(4, 70));
}

#[test]
fn no_policy_is_better_on_a_hard_disk_and_flash() {
    let legs = ["hdd-7200-2tb", "ssd-sata-256gb"];
    ensure_best(&legs, 0.2, random(4, 100));
}

#[test]
fn no_policy_is_better_on_a_hard_disk_and_flash_that_are_written() {
    let legs = ["hdd-7200-2tb", "ssd-sata-256gb"];
    ensure_best(&legs, 10.0, random(4, 70));
}

#[test]
fn no_policy_is_better_on_flash() {
    ensure_best(&["ssd-sata-256gb", "nvme-gen3"], 0.05, random(32, 100));
    ensure_best(&["nvme-gen3", "net-ssd"], 0.05, random(1, 100));
}

#[test]
fn a_large_read_is_cut_where_its_pieces_end_sooner() {
    let job = Job {
        rw: Rw::Read,
        bs_bytes: 1 << 20,
        ..Job::default()
    };
    let scenario = scenario(&["nvme-gen3", "nvme-gen3"], 0.1, job);
    let rate = |policy| play(&scenario, policy).read.bytes as f64;
    assert!(rate("oracle") > 1.6 * rate("pid"));
    assert!(rate("oracle") >= 0.99 * rate("gmirror-split"));
}

#[test]
fn nearer_heads_are_seen() {
    // Three arms, one reader: no policy that does not know the arms gains as much.
    let scenario = scenario(&["hdd-7200-2tb"; 3], 40.0, random(1, 100));
    let (best, oracle) = best_and_oracle(&scenario);
    assert!(oracle > 1.3 * best, "{oracle}, {best}");
}

#[test]
fn it_does_what_its_devices_would_do_without_it() {
    // With one leg there is nothing to choose, and looking must not change anything.
    for leg in ["hdd-7200-2tb", "net-ssd", "nvme-gen3"] {
        let mut scenario = scenario(&[leg], 0.5, random(8, 70));
        let [at, until] = [100, 300].map(Duration::from_ms);
        let slow = Fault::new(0, Effect::Slow(3_000)).between(at, until);
        scenario.faults.push(slow);
        let hash = |policy| play(&scenario, policy).trace_hash;
        assert_eq!(hash("oracle"), hash("pid"), "{leg}");
    }
}

#[test]
fn a_stuck_device_is_avoided_before_it_is_stuck() {
    let job = random(1, 100);
    let mut scenario = scenario(&["ssd-sata-256gb"; 2], 2.0, job);
    let [at, until] = [500, 1500].map(Duration::from_ms);
    let stuck = Fault::new(0, Effect::Stuck).between(at, until);
    scenario.faults.push(stuck);
    let longest = |policy| play(&scenario, policy).read.response_time_ns().max();
    assert!(longest("round-robin") > 900_000_000);
    assert!(longest("oracle") < 1_000_000, "{}", longest("oracle"));
}

#[test]
fn equal_runs_are_equal() {
    let mut scenario = scenario(&["hdd-7200-2tb", "net-ssd"], 1.0, random(4, 70));
    let hash = |scenario: &Scenario| play(scenario, "oracle").trace_hash;
    let first = hash(&scenario);
    assert_eq!(hash(&scenario), first);
    scenario.seed = 2;
    assert_ne!(hash(&scenario), first);
}
