//! Small tunings, run.

use std::path::Path;
use std::sync::Mutex;

use heliostat_policy::PolicySpec;
use heliostat_sim::Scenario;

use super::{TuneError, Tuned, TunedOn, Tuning};
use crate::Progress;
use crate::scenario::ScenarioFile;
use crate::tune::{Method, PointJson, SummaryJson, axes_of, parse_axes};

fn scenario(text: &str) -> Scenario {
    let text = format!("seconds = 0.2\n[array]\nsize = \"1GiB\"\n{text}");
    ScenarioFile::parse(Path::new("small.toml"), &text)
        .unwrap()
        .scenario
}

/// A disk and an SSD, read at random by one client.
fn mixed() -> Scenario {
    scenario(
        "legs = [\"hdd-7200-2tb\", \"ssd-sata-256gb\"]\n[[job]]\nrw = \"randread\"\nbs = \"4k\"\n\
         iodepth = 4\n",
    )
}

fn tuning(scenarios: Vec<Scenario>, policy: &str, sets: &[&str]) -> Tuning {
    let spec = PolicySpec::parse(policy).unwrap();
    let sets: Vec<String> = sets.iter().map(|&set| set.to_owned()).collect();
    let axes = if sets.is_empty() {
        axes_of(&spec, policy, 2)
    } else {
        parse_axes(&spec, &sets)
    };
    Tuning {
        on: TunedOn::Scenarios(scenarios),
        policy: spec,
        axes: axes.unwrap(),
        objective: "iops".parse().unwrap(),
        repeats: 2,
        runs_max: None,
        threads: 1,
    }
}

/// All that programs see of it.
fn shown(tuning: &Tuning, tuned: &Tuned) -> String {
    let points = tuned.points.iter();
    let mut lines: Vec<String> = points
        .map(|scored| serde_json::to_string(&PointJson::new(tuning, scored, false)).unwrap())
        .collect();
    lines.push(serde_json::to_string(&SummaryJson::new(tuning, tuned)).unwrap());
    lines.join("\n")
}

#[test]
fn what_is_known_to_be_best_is_found() {
    // Whoever may read the SSD alone is faster than whoever has to share with the disk.
    let mut tuning = tuning(vec![mixed()], "devid", &[]);
    tuning.repeats = 5;
    let tuned = tuning.simulate(&|_| ()).unwrap();
    assert_eq!((tuned.method, tuned.points.len()), (Method::Grid, 2));
    assert_eq!(tuned.points[0].point, [1], "the default comes first");
    let best = &tuned.points[tuned.verdict.best];
    assert_eq!(best.point, [2]);
    assert!(best.score > 10.0 && tuned.verdict.gains());
    assert_eq!(best.by_seed.len(), 5);
    assert!((tuned.points[0].score - 1.0).abs() < f64::EPSILON);
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let mut tuning = tuning(
        vec![
            mixed(),
            scenario("legs = [\"hdd-5400-old\", \"net-ssd\"]\n[[job]]\nrw = \"read\"\n"),
        ],
        "zfs",
        &[
            "rotating_inc=0..3",
            "rotating_seek_inc=0,5",
            "non_rotating_seek_inc=0..4:log",
        ],
    );
    tuning.runs_max = Some(44);
    let one = tuning.simulate(&|_| ()).unwrap();
    assert_eq!(one.points.len(), 11);
    assert!(
        matches!(one.method, Method::Sampled { grid: 32 }),
        "{:?}",
        one.method
    );
    for threads in [2, 3] {
        let other = Tuning {
            threads,
            ..tuning.clone()
        };
        let tuned = other.simulate(&|_| ()).unwrap();
        assert_eq!(
            shown(&other, &tuned),
            shown(&tuning, &one),
            "{threads} threads"
        );
    }
}

#[test]
fn progress_counts_all_runs_once() {
    let tuning = tuning(vec![mixed()], "zfs", &["rotating_inc=0..2"]);
    let ended = Mutex::new(Vec::new());
    tuning
        .simulate(&|progress| {
            if let Progress::Ended(index) = progress {
                ended.lock().unwrap().push(index);
            }
        })
        .unwrap();
    let mut ended = ended.into_inner().unwrap();
    ended.sort_unstable();
    let runs = usize::try_from(tuning.points_max()).unwrap() * tuning.runs_per_point();
    assert_eq!(ended, (0..runs).collect::<Vec<_>>());
}

#[test]
fn an_objective_without_a_figure_is_an_error() {
    let mut tuning = tuning(vec![mixed()], "zfs", &["rotating_inc=0..2"]);
    tuning.objective = "write-p99".parse().unwrap();
    let error = tuning.simulate(&|_| ()).unwrap_err();
    assert!(matches!(error, TuneError::Nothing { .. }));
    let text = error.to_string();
    assert!(text.contains("small under zfs: no writes"), "{text}");
}

#[test]
fn a_leg_that_is_not_there_is_an_error() {
    let tuning = tuning(vec![mixed()], "devid", &["devid=1..3"]);
    let error = tuning.simulate(&|_| ()).unwrap_err();
    assert!(error.to_string().contains("no leg number 3"), "{error}");
}

#[test]
fn a_budget_counts_runs_and_three_tunables_have_one_by_default() {
    let mut tuning = tuning(vec![mixed(), mixed()], "zfs", &["rotating_inc=0..9"]);
    assert_eq!((tuning.runs_per_point(), tuning.points_max()), (4, 10));
    tuning.runs_max = Some(17);
    assert_eq!(tuning.points_max(), 4);
    let tuning = self::tuning(vec![mixed()], "zfs", &[]);
    assert_eq!(tuning.points_max(), Tuning::POINTS as u64);
    assert!(tuning.grid_points() > 1_000);
}

/// Of a scenario that docs/tune.md speaks of, the beginning.
fn of_the_penalty(name: &str) -> Scenario {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join(format!("scenarios/tune/{name}.toml"));
    let mut scenario = ScenarioFile::load(&path).unwrap().scenario;
    scenario.jobs[0].set("size", "256m").unwrap();
    scenario
}

/// What docs/tune.md says of the penalty of `roundrobin`: it decides nothing while a reader finds
/// legs idle, and keeps reads together where queues are as good as full.
#[test]
fn a_penalty_matters_only_where_queues_are_nearly_full() {
    let policy = "roundrobin:roundrobin_nonlocal_inc_mixed_only=0";
    for array in ["3hdd", "mixed"] {
        let scores = |load: &str| -> Vec<f64> {
            let scenario = of_the_penalty(&format!("{array}-{load}"));
            let sets = ["roundrobin_rot_nonlocal_inc=0,1,9"];
            let mut tuning = tuning(vec![scenario], policy, &sets);
            tuning.repeats = 1;
            let tuned = tuning.simulate(&|_| ()).unwrap();
            tuned.points.iter().map(|scored| scored.score).collect()
        };
        assert_eq!(scores("1reader"), [1.0; 3], "{array}");
        let deep = scores("1deep");
        // The default, 1, comes first.
        assert!(deep[2] > 1.02, "{array}: {deep:?}");
        of_the_penalty(&format!("{array}-8readers"));
    }
}

#[test]
fn rounds_go_over_all_points_and_jobs_before_the_next_one() {
    let mut tuning = tuning(vec![], "queue", &["checkpoint_age=1,9"]);
    tuning.on = TunedOn::Jobs(vec!["a".to_owned(), "b".to_owned()]);
    let mut order = Vec::new();
    let tuned = tuning.measure(|policy, job| {
        order.push((policy.show("checkpoint_age").unwrap(), job));
        // Everything doubles from round to round, which is nobody's merit.
        let round = f64::from(1 << ((order.len() - 1) / 6));
        let gain = if policy.show("checkpoint_age").unwrap() == "9" {
            1.5
        } else {
            1.0
        };
        Ok::<_, ()>(Some(gain * round))
    });
    let tuned = tuned.unwrap();
    let round = [
        ("10000", 0),
        ("10000", 1),
        ("1", 0),
        ("1", 1),
        ("9", 0),
        ("9", 1),
    ];
    let wanted = round.iter().chain(&round);
    let wanted: Vec<_> = wanted.map(|&(age, job)| (age.to_owned(), job)).collect();
    assert_eq!(order, wanted);
    assert_eq!(tuned.points[tuned.verdict.best].point, [9]);
    assert_eq!(tuned.points[2].by_seed, [1.5, 1.5]);
    let text = shown(&tuning, &tuned);
    assert!(text.contains("in 2 jobs with 2 rounds: 12 runs"), "{text}");
    let failed = tuning.measure(|_, job| match job {
        0 => Ok(None),
        _ => Err("it is gone"),
    });
    assert_eq!(failed.unwrap_err(), "it is gone");
}
