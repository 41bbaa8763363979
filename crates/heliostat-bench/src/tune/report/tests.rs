//! The page for one, two and three tunables.

use std::path::Path;

use heliostat_policy::PolicySpec;

use super::{data, page};
use crate::scenario::ScenarioFile;
use crate::tune::{Tuned, TunedOn, Tuning, parse_axes};

fn run(sets: &[&str]) -> (Tuning, Tuned) {
    let text = "name = \"a <small> one\"\nseconds = 0.2\n[array]\nsize = \"1GiB\"\n\
                legs = [\"hdd-7200-2tb\", \"net-ssd\"]\n[[job]]\nrw = \"randread\"\niodepth = 2\n";
    let file = ScenarioFile::parse(Path::new("small.toml"), text).unwrap();
    let policy = PolicySpec::parse("zfs").unwrap();
    let sets: Vec<String> = sets.iter().map(|&set| set.to_owned()).collect();
    let tuning = Tuning {
        on: TunedOn::Scenarios(vec![file.scenario]),
        axes: parse_axes(&policy, &sets).unwrap(),
        policy,
        objective: "mean".parse().unwrap(),
        repeats: 2,
        runs_max: Some(40),
        threads: 1,
    };
    let tuned = tuning.simulate(&|_| ()).unwrap();
    (tuning, tuned)
}

#[test]
fn one_tunable_is_a_curve_and_two_are_a_surface() {
    let (tuning, tuned) = run(&["rotating_inc=0..3"]);
    let shown = page(&tuning, &tuned, "heliostat tune <x>");
    assert_eq!(shown.matches("<svg").count(), 1);
    assert!(shown.contains("100 is the default"));
    assert!(shown.contains("heliostat tune &lt;x&gt;") && !shown.contains("<small>"));
    let (tuning, tuned) = run(&["rotating_inc=0..3", "rotating_seek_inc=0,5"]);
    let shown = page(&tuning, &tuned, "");
    assert_eq!(shown.matches("<svg").count(), 1);
    assert!(shown.contains("rotating_inc (rows)"));
    let json = data(&tuning, &tuned, "x").unwrap();
    assert_eq!(json["points"].as_array().unwrap().len(), 8);
    assert_eq!(json["points"][0]["is_default"], true);
    assert_eq!(json["summary"]["method"], "grid");
}

#[test]
fn more_tunables_are_slices_through_the_best_point() {
    let (tuning, tuned) = run(&[
        "rotating_inc=0..3",
        "rotating_seek_inc=0,5,9",
        "non_rotating_inc=0..2",
    ]);
    let shown = page(&tuning, &tuned, "");
    assert_eq!(shown.matches("<svg").count(), 3);
    assert_eq!(
        shown.matches("as in the best point").count(),
        6,
        "captions and labels"
    );
}
