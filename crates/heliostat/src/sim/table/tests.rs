//! Tables fit, and leave out what says least.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use heliostat_bench::report::format::rate;
use heliostat_bench::{Contender, Run, ScenarioFile, run_all};
use heliostat_sim::JobBound;

use super::ScenarioTable;

const TEXT: &str = r#"# Memory beside flash.
name = "two"
seconds = 0.005
[array]
legs = ["ram", "ssd-sata-1tb"]
size = "1GiB"
policies = ["queue", "round-robin:65536"]
[[job]]
rw = "randrw"
iodepth = 4
"#;

fn table() -> ScenarioTable {
    table_of(TEXT)
}

fn table_of(text: &str) -> ScenarioTable {
    let file = ScenarioFile::parse(Path::new("two.toml"), text).unwrap();
    let scenario = Arc::new(file.scenario.clone());
    let run = |contender: &Contender| Run {
        scenario: Arc::clone(&scenario),
        contender: contender.clone(),
    };
    let runs: Vec<Run> = file.policies.iter().map(run).collect();
    let mut table = ScenarioTable::new(&file, None);
    run_all(&runs, 1, &|_| (), |_, result| {
        table.add(result.unwrap());
        ControlFlow::Continue(())
    });
    table
}

#[test]
fn a_table_is_as_narrow_as_the_terminal() {
    let table = table();
    for width in [200, 120, 100, 80, 60] {
        let shown = table.show(width);
        let widest = shown.lines().map(|line| line.chars().count()).max();
        assert!(widest.unwrap() <= width, "{width}:\n{shown}");
        for word in ["Memory beside flash.", "queue", "read", "write", "IOPS"] {
            assert!(shown.contains(word), "{width}: {word}:\n{shown}");
        }
    }
}

#[test]
fn hashes_are_always_shown_and_maxima_where_there_is_room() {
    let table = table();
    let hashes = table
        .results
        .iter()
        .map(|result| format!("{:016x}", result.trace_hash));
    for hash in hashes {
        for width in [200, 80] {
            assert!(table.show(width).contains(&hash), "{width}");
        }
    }
    assert!(table.show(200).contains("max") && !table.show(60).contains("max"));
    assert!(table.show(80).contains("p99"));
}

#[test]
fn the_sum_of_what_legs_read_is_all() {
    let table = table();
    for result in &table.results {
        let shares = super::shares(result);
        let sum: u32 = shares
            .split('/')
            .map(|share| share.parse::<u32>().unwrap())
            .sum();
        assert!((99..=101).contains(&sum), "{shares}");
    }
}

#[test]
fn what_waits_in_the_end_is_told_where_nobody_waits_for_answers() {
    let of = |job: &str| {
        let text = TEXT.replace("\"ram\", \"ssd-sata-1tb\"", "\"hdd-7200-1tb\"");
        let text = text.replace("0.005", "1").replace("iodepth = 4", job);
        table_of(&text).show(100)
    };
    let told = |text: &str| text.matches("still waited in the end").count();
    let shown = of("arrival = \"poisson:5000\"");
    assert_eq!(told(&shown), 2, "once for each policy:\n{shown}");
    assert_eq!(told(&of("arrival = \"poisson:5\"")), 0);
    assert_eq!(told(&of("iodepth = 256")), 0, "who waits is to wait");
}

#[test]
fn no_bound_is_below_what_was_done() {
    let mut table = table();
    let read_iops = table.results[0].read.iops(table.results[0].seconds);
    table.bound = Some(JobBound {
        read_iops: read_iops - 1.0,
        write_iops: 1e9,
        ..JobBound::default()
    });
    let shown = table.show(200);
    let most = table.results.iter();
    let most = most.map(|result| result.read.iops(result.seconds));
    let most = rate(most.fold(0.0, f64::max));
    let bound = format!("more than about {most} reads");
    assert!(shown.contains(&bound), "{bound}:\n{shown}");
    assert!(shown.contains(" and 1,000,000,000 writes"), "{shown}");
}
