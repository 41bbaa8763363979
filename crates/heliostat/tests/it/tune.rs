//! `heliostat tune` from outside.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A disk and a piece of memory, which takes milliseconds to run.
const MIXED: &str = r#"# A disk and a piece of memory.
name = "mixed"
seconds = 0.2
[array]
size = "1GiB"
legs = ["hdd-7200-2tb", "net-ssd"]
[[job]]
rw = "randread"
iodepth = 4
"#;

/// A directory of one test, gone afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Self {
        let unique = format!("heliostat-tune-{}-{test}", std::process::id());
        let path = std::env::temp_dir().join(unique);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("mixed.toml"), MIXED).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// `heliostat tune` with these words, in the directory.
fn tune(directory: &Path, words: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_heliostat"))
        .arg("tune")
        .args(words.split(' '))
        .current_dir(directory)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What it prints where it ends well, without its line breaks.
fn words_of(directory: &Path, words: &str) -> String {
    let shown = done(directory, words);
    shown.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What it prints where it ends well.
fn done(directory: &Path, words: &str) -> String {
    let output = tune(directory, words);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// The error and the exit code where it does not.
fn refused(directory: &Path, words: &str) -> (String, Option<i32>) {
    let output = tune(directory, words);
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    (text(&output.stderr), output.status.code())
}

#[test]
fn the_leg_that_answers_soonest_is_found_and_told() {
    let scratch = Scratch::new("best");
    let shown = words_of(&scratch.0, "mixed.toml --policy devid --objective p99");
    assert!(
        shown.contains("Best for p99 of the response times of reads: devid=2,"),
        "{shown}"
    );
    assert!(
        shown.contains("better than the default, devid=1"),
        "{shown}"
    );
    assert!(
        shown.contains("Tried all 2 points in 1 scenario with 5 seeds: 10 runs."),
        "{shown}"
    );
}

#[test]
fn programs_get_an_object_per_point_and_a_summary_whatever_the_threads() {
    let scratch = Scratch::new("json");
    let words = "mixed.toml --policy zfs --set rotating_inc=0,9 --set rotating_seek_inc=0..8:3 \
                 --set non_rotating_inc=0,1 --budget 18 --seeds 2 --json";
    let one = done(&scratch.0, &format!("{words} -j1"));
    assert_eq!(one, done(&scratch.0, &format!("{words} -j2")));
    let objects: Vec<Value> = one
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(objects.len(), 10, "nine points and a summary");
    let (points, summary) = objects.split_at(9);
    assert_eq!(points[0]["is_default"], true);
    assert_eq!(points[0]["score"], 1.0);
    assert_eq!(points[0]["values"]["rotating_seek_inc"], 5);
    assert!(points.iter().all(|point| point["kind"] == "point"));
    let summary = &summary[0];
    assert_eq!(summary["kind"], "summary");
    assert_eq!(
        (&summary["method"], &summary["grid_points"]),
        (&"search".into(), &13.into())
    );
    let scores = points.iter().map(|point| point["score"].as_f64().unwrap());
    let most = scores.fold(0.0, f64::max);
    assert_eq!(summary["best"]["score"].as_f64(), Some(most));
    assert!(summary["over_default"]["noise"].as_f64().unwrap() > 0.0);
}

#[test]
fn the_report_is_a_page_and_its_data() {
    let scratch = Scratch::new("report");
    let words = "mixed.toml --policy zfs --set rotating_inc=0,9 --set non_rotating_inc=0,1 \
                 --seeds 1 --report out";
    let shown = words_of(&scratch.0, words);
    assert!(
        shown.contains("--seeds 5") || shown.contains("Nothing is gained"),
        "{shown}"
    );
    let page = fs::read_to_string(scratch.0.join("out/index.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("zfs, tuned"));
    let data = fs::read_to_string(scratch.0.join("out/report.json")).unwrap();
    let data: Value = serde_json::from_str(&data).unwrap();
    assert_eq!(data["points"].as_array().unwrap().len(), 4);
}

#[test]
fn what_makes_no_sense_is_refused_with_a_way_out() {
    let scratch = Scratch::new("refused");
    for (words, expected) in [
        ("mixed.toml --policy pid", "has no tunables"),
        ("mixed.toml --policy oracle", "has no tunables"),
        ("mixed.toml --policy zsf", "there is no read policy 'zsf'"),
        (
            "mixed.toml --policy zfs --set rotating_in=1",
            "did you mean 'rotating_inc'?",
        ),
        (
            "mixed.toml --policy zfs --set rotating_inc=x",
            "'x' is no value for rotating_inc of read policy 'zfs'",
        ),
        (
            "mixed.toml --policy zfs --objective p98",
            "--objective: 'p98' is no objective; did you mean",
        ),
        (
            "mixed.toml --policy zfs --objective elephant",
            "--objective: 'elephant' is no objective. Valid are iops,",
        ),
        (
            "mixed.toml --policy zfs --budget 9",
            "the default and one other point take 5 runs each",
        ),
        (
            "mixed.toml --policy zfs --set rotating_inc=0..200:201 \
             --set rotating_seek_inc=0..200:201",
            "40401 points are more than 10000",
        ),
        (
            "mirror0 mixed.toml --policy zfs",
            "'mirror0': there is no such file, and an array is tuned alone",
        ),
        (
            "mirror0 --policy zfs --seeds 3",
            "--seeds: mirror0 is no scenario file",
        ),
        (
            "mirror0 --policy zfs --suite odd",
            "--suite: no suite odd: there are seeds",
        ),
        (
            "mirror0 --policy zfs --suite randrw-2021",
            "all jobs of randrw-2021 write",
        ),
        (
            "mixed.toml --policy zfs --runtime 3",
            "--runtime: that is for arrays",
        ),
    ] {
        let (told, code) = refused(&scratch.0, words);
        assert!(told.contains(expected), "{words}: {told}");
        assert_eq!(code, Some(2), "{words}: {told}");
    }
}

#[test]
fn what_fails_is_told_and_is_no_usage_error() {
    let scratch = Scratch::new("failed");
    fs::write(scratch.0.join("wrong.toml"), "sede = 1\n").unwrap();
    for (words, expected) in [
        ("missing.toml --policy zfs", "missing.toml: cannot be read"),
        (
            "mirror0 --policy zfs --control-dir .",
            "mirror0 is neither a scenario file nor an array that can be asked",
        ),
        ("wrong.toml --policy zfs", "wrong.toml: there is no [array]"),
        (
            "mixed.toml --policy devid --set devid=1..3",
            "mixed.toml: devid:3: the array has no leg number 3",
        ),
        (
            "mixed.toml --policy devid --objective write-bw",
            "mixed under devid:1: no writes were answered",
        ),
    ] {
        let (told, code) = refused(&scratch.0, words);
        assert!(told.contains(expected), "{words}: {told}");
        assert_eq!(code, Some(1), "{words}: {told}");
    }
}
