//! `heliostat sim` from outside.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A scenario that takes milliseconds.
const SMALL: &str = r#"# Three legs of memory.
name = "small"
seconds = 0.002
warmup_seconds = 0.001
[array]
legs = ["ram", "ram", "ram"]
policies = ["pid", "queue:tie=rotate", "oracle"]
[[job]]
name = "reader"
rw = "randrw"
iodepth = 4
"#;

/// A directory of one test, gone afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Self {
        let unique = format!("heliostat-sim-{}-{test}", std::process::id());
        let path = std::env::temp_dir().join(unique);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A file in it.
    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn sim() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heliostat"));
    command.arg("sim");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The output of a run that has to end well.
fn done(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    output
}

fn objects(output: &Output) -> Vec<Value> {
    let lines = text(&output.stdout);
    let parse = |line: &str| serde_json::from_str(line).unwrap();
    lines.lines().map(parse).collect()
}

fn hashes(output: &Output) -> Vec<(String, String)> {
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let objects = objects(output).into_iter();
    objects
        .map(|object| (word(&object["policy"]), word(&object["trace_hash"])))
        .collect()
}

#[test]
fn json_is_one_object_per_run_whatever_the_threads() {
    let scratch = Scratch::new("json");
    let small = scratch.file("small.toml", SMALL);
    let alone = done(sim().arg(&small).args(["--json", "-j", "1"]));
    let policies: Vec<String> = hashes(&alone)
        .into_iter()
        .map(|(policy, _)| policy)
        .collect();
    assert_eq!(policies, ["pid", "queue:tie=rotate", "oracle"]);
    let several = done(sim().arg(&small).args(["--json", "-j", "2"]));
    assert_eq!(several.stdout, alone.stdout, "equal to the byte");
    let mut parts = Vec::new();
    for shard in ["1/2", "2/2"] {
        parts.push(hashes(&done(
            sim().arg(&small).args(["--json", "--shard", shard]),
        )));
    }
    let mixed = [&parts[0][0], &parts[1][0], &parts[0][1]].map(Clone::clone);
    assert_eq!(mixed.to_vec(), hashes(&alone));
    let bytes = done(sim().arg(&small).args(["--json", "--check-bytes"]));
    assert_eq!(
        bytes.stdout, alone.stdout,
        "how much is checked changes no figure"
    );
}

#[test]
fn the_command_line_has_the_last_word() {
    let scratch = Scratch::new("words");
    let small = scratch.file("small.toml", SMALL);
    let told = done(sim().arg(&small).args(["--json", "--policies", "zfs,md"]));
    let other = done(
        sim()
            .arg(&small)
            .args(["--json", "--policies", "zfs,md", "--seed", "7"]),
    );
    assert_eq!(objects(&other)[0]["seed"], 7);
    let [first, second] = [hashes(&told), hashes(&other)];
    assert_eq!((first[0].0.as_str(), first[1].0.as_str()), ("zfs", "md"));
    assert_ne!(first[0].1, second[0].1);
    let all = done(sim().arg(&small).args(["--json", "--policies", "all"]));
    let all = hashes(&all);
    assert_eq!(all.first().unwrap().0, "pid");
    assert_eq!(all.last().unwrap().0, "oracle");
}

#[test]
fn people_get_a_table_that_names_everything() {
    let scratch = Scratch::new("table");
    let small = scratch.file("small.toml", SMALL);
    let shown = text(&done(sim().args([&small, &small])).stdout);
    for word in [
        "small",
        "Three legs of memory.",
        "3 x ram",
        "seed 1",
        "IOPS",
        "p99.9",
    ] {
        assert_eq!(shown.matches(word).count() % 2, 0, "twice {word}: {shown}");
        assert!(shown.contains(word), "{word}: {shown}");
    }
    assert!(
        shown.lines().all(|line| line.chars().count() <= 120),
        "{shown}"
    );
}

#[test]
fn every_decision_can_be_seen() {
    let scratch = Scratch::new("trace");
    let small = scratch.file("small.toml", SMALL);
    let trace = scratch.0.join("decisions");
    let plain = objects(&done(sim().arg(&small).args([
        "--json",
        "--policies",
        "queue",
    ])));
    let mut traced = sim();
    traced
        .arg(&small)
        .args(["--json", "--policies", "queue", "--trace"]);
    let inside = done(traced.arg(&trace));
    assert_eq!(objects(&inside), plain, "looking changes nothing");
    let decisions = fs::read_to_string(&trace).unwrap();
    let last: Value = serde_json::from_str(decisions.lines().last().unwrap()).unwrap();
    assert_eq!(last["decision"], decisions.lines().count() as u64 - 1);
    let shown = done(sim().arg(&small).args(["--policies", "queue", "--trace"]));
    let first = text(&shown.stdout).lines().next().unwrap().to_owned();
    assert!(
        first.starts_with("-0.001000000 r0 client 0 read "),
        "{first}"
    );
    let output = sim().arg(&small).arg("--trace").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "three policies at once");
    let output = sim()
        .args([&small, &small])
        .arg("--trace")
        .arg(&small)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        fs::read_to_string(&small).unwrap(),
        SMALL,
        "nothing is overwritten"
    );
}

#[test]
fn a_report_can_be_written() {
    let scratch = Scratch::new("report");
    let small = scratch.file("small.toml", SMALL);
    let report = scratch.0.join("report");
    done(sim().arg(&small).arg("--report").arg(&report));
    let page = fs::read_to_string(report.join("index.html")).unwrap();
    assert!(page.contains("small") && page.contains("queue:tie=rotate"));
}

#[test]
fn mistakes_have_their_exit_codes() {
    let scratch = Scratch::new("mistakes");
    let small = scratch.file("small.toml", SMALL);
    let wrong = scratch.file("wrong.toml", &SMALL.replace("iodepth", "iodeph"));
    let binary = scratch.0.join("binary.toml");
    fs::write(&binary, [0xff, 0xfe, 0, 1, 2]).unwrap();
    let nowhere = scratch.0.join("nowhere.toml");
    let check = |paths: &[&Path], options: &[&str], code: i32, told: &str| {
        let output = sim().args(paths).args(options).output().unwrap();
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert!(error.contains(told), "{told}: {error}");
        assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    };
    check(&[], &[], 2, "SCENARIO.toml");
    check(
        &[&small],
        &["--policies", "nonsense"],
        2,
        "--policies: there is no read policy",
    );
    check(&[&small], &["--shard", "3/2"], 2, "3/2");
    check(&[&small], &["-j", "0"], 2, "-j");
    check(
        &[&small],
        &["--policies", "devid:4"],
        1,
        "small.toml: devid:4: ",
    );
    let line = "wrong.toml:11: job 'reader': there is no key 'iodeph'; did you mean 'iodepth'?";
    check(&[&wrong], &[], 1, line);
    check(&[&small, &wrong], &[], 1, line);
    check(&[&binary], &[], 1, "binary.toml:1: is no text");
    check(&[&scratch.0], &[], 1, "cannot be read");
    check(&[&nowhere], &[], 1, "nowhere.toml: cannot be read");
}

#[test]
fn who_reads_one_line_has_seen_enough() {
    let scratch = Scratch::new("pipe");
    let small = scratch.file("small.toml", SMALL);
    let mut child = sim()
        .args([&small; 64])
        .args(["--json", "--policies", "all"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    drop(out);
    assert!(line.starts_with('{') && line.ends_with("}\n"), "{line}");
    assert!(
        child.wait().unwrap().success(),
        "a closed pipe is no failure"
    );
}

/// Every example is a scenario that runs, and begins by saying what it shows.
#[test]
fn examples_run() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let scratch = Scratch::new("examples");
    let mut count = 0;
    for entry in fs::read_dir(examples).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        count += 1;
        let whole = fs::read_to_string(&path).unwrap();
        assert!(
            whole.starts_with("# "),
            "{} says what it shows",
            path.display()
        );
        let shortened = whole.lines().map(|line| match line.split(" = ").next() {
            Some("seconds") => "seconds = 0.2",
            Some("warmup_seconds") => "warmup_seconds = 0.1",
            _ => line,
        });
        let shortened = shortened.collect::<Vec<_>>().join("\n");
        assert_ne!(shortened, whole);
        let name = path.file_name().unwrap().to_str().unwrap();
        let output = done(sim().arg(scratch.file(name, &shortened)).arg("--json"));
        let results = objects(&output);
        assert!(results.len() > 1, "{name} compares");
        for result in results {
            assert_eq!(result["errors"], 0, "{name}");
            assert!(result["read"]["ios"].as_u64().unwrap() > 0, "{name}");
        }
    }
    assert!(count >= 4);
}

#[test]
fn legs_that_are_silent_for_ever_are_the_scenarios_own_doing() {
    let scratch = Scratch::new("silent");
    let faults = ["", "leg = 0\n", "leg = 1\n", "leg = 2\n"].join("[[fault]]\nstuck = true\n");
    let path = scratch.file("silent.toml", &format!("{SMALL}{faults}"));
    let output = sim()
        .args(["--policies", "pid"])
        .arg(path)
        .output()
        .unwrap();
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.contains("a request was never answered. Leg 0 is stuck"),
        "{error}"
    );
    assert!(!error.contains("a bug in heliostat"), "{error}");
}
