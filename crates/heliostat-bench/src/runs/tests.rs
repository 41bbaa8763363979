//! Order, threads and shards change no figure.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use heliostat_policy::{Decision, Listen, Listener};
use heliostat_sim::{RunError, Scenario};
use heliostat_types::Extent;

use super::{Progress, Run, Shard, run_all};
use crate::{Contender, ScenarioFile};

const TEXT: &str = r#"
seconds = 0.02
warmup_seconds = 0.005
[array]
legs = ["ram", "nvme-gen4", "ssd-sata-1tb"]
size = "1GiB"
[[job]]
name = "mixed"
rw = "randrw"
iodepth = 8
numjobs = 2
"#;

/// The scenario under all policies.
fn runs() -> Vec<Run> {
    let file = ScenarioFile::parse(Path::new("test.toml"), TEXT).unwrap();
    let scenario = Arc::new(file.scenario);
    let contenders = Contender::parse_list("all,queue:tie=rotate").unwrap();
    let runs = contenders.into_iter().map(|contender| Run {
        scenario: Arc::clone(&scenario),
        contender,
    });
    runs.collect()
}

/// Policy and trace hash of every run, in the order in which they come.
fn hashes(runs: &[Run], threads: usize) -> Vec<(String, u64)> {
    let mut hashes = Vec::new();
    run_all(runs, threads, &|_| (), |index, result| {
        assert_eq!(index, hashes.len(), "results come in order");
        let result = result.unwrap();
        assert!(result.read.ios > 0 && result.write.ios > 0);
        hashes.push((result.policy, result.trace_hash));
        ControlFlow::Continue(())
    });
    hashes
}

#[test]
fn threads_and_shards_change_nothing() {
    let runs = runs();
    let alone = hashes(&runs, 1);
    assert_eq!(alone.len(), runs.len());
    for ((policy, _), run) in alone.iter().zip(&runs) {
        assert_eq!(*policy, run.contender.to_string(), "called as asked for");
    }
    assert_eq!(hashes(&runs, 2), alone);
    assert_eq!(hashes(&runs, 64), alone);
    let mut sharded = vec![None; runs.len()];
    for index in 1..=3 {
        let shard = Shard { index, count: 3 };
        let mine = (0..runs.len()).filter(|run| shard.has(*run));
        let mine: Vec<usize> = mine.collect();
        let part: Vec<Run> = mine.iter().map(|run| runs[*run].clone()).collect();
        for (run, hash) in mine.into_iter().zip(hashes(&part, 2)) {
            assert_eq!(sharded[run].replace(hash), None, "each run is in one shard");
        }
    }
    let sharded: Vec<(String, u64)> = sharded.into_iter().map(Option::unwrap).collect();
    assert_eq!(sharded, alone);
}

/// When, who, and what.
type Arrival = (u64, u64, Extent);

/// Hears what clients ask for, and when.
struct Hearing(Arc<Mutex<Vec<Arrival>>>);

impl Listen for Hearing {
    fn is_on(&self) -> bool {
        true
    }

    fn on_decision(&mut self, decision: &Decision<'_>) {
        let request = decision.request;
        let arrival = (decision.at.as_ns(), request.client.0, request.extent);
        self.0.lock().unwrap().push(arrival);
    }
}

/// What clients asked for, and when, under a policy.
fn arrivals(scenario: &Arc<Scenario>, contender: Contender) -> Vec<Arrival> {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hearing = Hearing(Arc::clone(&heard));
    let run = Run {
        scenario: Arc::clone(scenario),
        contender,
    };
    let result = run.run(
        |picker| Box::new(Listener::new(picker, hearing)),
        &AtomicBool::new(false),
        |_| (),
    );
    assert!(result.unwrap().unwrap().read.ios > 0);
    std::mem::take(&mut heard.lock().unwrap())
}

const LISTENED: &str = r#"
seconds = 0.005
[array]
legs = ["ram", "nvme-gen4"]
size = "1GiB"
[[job]]
rw = "randread"
iodepth = 4
"#;

#[test]
fn listening_changes_nothing_and_hears_everything() {
    let file = ScenarioFile::parse(Path::new("test.toml"), LISTENED).unwrap();
    let scenario = Arc::new(file.scenario);
    for contender in Contender::parse_list("all").unwrap() {
        let run = Run {
            scenario: Arc::clone(&scenario),
            contender,
        };
        let stop = AtomicBool::new(false);
        let plain = run.run(|picker| picker, &stop, |_| ()).unwrap().unwrap();
        let heard: Arc<Mutex<Vec<Arrival>>> = Arc::default();
        let hearing = Hearing(Arc::clone(&heard));
        let listened = run
            .run(
                |picker| Box::new(Listener::new(picker, hearing)),
                &stop,
                |_| (),
            )
            .unwrap()
            .unwrap();
        assert_eq!(listened.trace_hash, plain.trace_hash, "{}", run.contender);
        let heard = heard.lock().unwrap().len() as u64;
        assert!(heard >= plain.read.ios, "{}: {heard}", run.contender);
    }
}

#[test]
fn all_policies_see_the_same_arrivals() {
    let text = r#"
        seconds = 0.05
        [array]
        legs = ["ram", "nvme-gen4", "hdd-7200-1tb"]
        size = "1GiB"
        [[job]]
        rw = "randread"
        numjobs = 2
        arrival = "poisson:2000"
        [[job]]
        rw = "read"
        arrival = "fixed:1000"
    "#;
    let file = ScenarioFile::parse(Path::new("test.toml"), text).unwrap();
    let scenario = Arc::new(file.scenario);
    let mut all = Contender::parse_list("all").unwrap().into_iter();
    let first = arrivals(&scenario, all.next().unwrap());
    assert!(first.len() > 200, "{}", first.len());
    for contender in all {
        let name = contender.to_string();
        assert!(
            arrivals(&scenario, contender) == first,
            "{name} sees others"
        );
    }
    let other_luck = Scenario {
        seed: 2,
        ..(*scenario).clone()
    };
    let other = arrivals(&Arc::new(other_luck), Contender::parse("pid").unwrap());
    assert!(other != first, "another seed, other arrivals");
}

#[test]
fn a_trace_that_is_not_there_is_an_error_of_its_run() {
    let text = r#"
        seconds = 0.01
        [array]
        legs = ["ram"]
        [[job]]
        trace = "nowhere.csv"
    "#;
    let file = ScenarioFile::parse(Path::new("test.toml"), text).unwrap();
    let run = Run {
        scenario: Arc::new(file.scenario),
        contender: Contender::default_policy(),
    };
    run_all(&[run], 1, &|_| (), |_, result| {
        let told = result.unwrap_err().to_string();
        assert!(told.contains("nowhere.csv"), "{told}");
        ControlFlow::Continue(())
    });
}

#[test]
fn who_has_seen_enough_gets_no_more() {
    let runs = runs();
    let mut seen = 0;
    run_all(&runs, 1, &|_| (), |_, _| {
        seen += 1;
        if seen == 2 {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    assert_eq!(seen, 2);
}

#[test]
fn progress_rises_to_the_end_of_each_run() {
    let runs = &runs()[..3];
    let told = Mutex::new(vec![Vec::new(); runs.len()]);
    let on = |progress| {
        let (run, share) = match progress {
            Progress::Began(run) => (run, 0.0),
            Progress::Passed(run, share) => (run, share),
            Progress::Ended(run) => (run, 1.0),
        };
        told.lock().unwrap()[run].push(share);
    };
    run_all(runs, 2, &on, |_, _| ControlFlow::Continue(()));
    for shares in told.into_inner().unwrap() {
        assert_eq!((shares[0], shares[shares.len() - 1]), (0.0, 1.0));
        assert!(shares.is_sorted(), "{shares:?}");
    }
}

#[test]
fn a_policy_that_does_not_fit_is_an_error_of_its_run() {
    let mut runs = runs();
    runs.truncate(2);
    runs[0].contender = Contender::parse("devid:7").unwrap();
    let mut told = Vec::new();
    run_all(&runs, 1, &|_| (), |_, result| {
        told.push(result.map(|result| result.policy));
        ControlFlow::Continue(())
    });
    assert!(matches!(told[0], Err(RunError::Policy(_))), "{told:?}");
    assert_eq!(told[1].as_deref(), Ok("round-robin"));
}

#[test]
fn shards_are_parts_of_a_whole() {
    assert_eq!("2/3".parse(), Ok(Shard { index: 2, count: 3 }));
    for text in ["", "1", "0/3", "4/3", "1/0", "-1/3", "1/3/5", "a/b"] {
        assert!(text.parse::<Shard>().is_err(), "{text}");
    }
}
