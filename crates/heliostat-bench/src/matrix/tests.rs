//! A tiny matrix, from its runs to what is said of them.

use std::ops::ControlFlow;

use serde_json::json;

use super::report::page;
use super::{Cell, Judged, Matrix, cell_line, csv, target_lines, targets, worse_than};
use crate::contender::Contender;

/// The cells of these names under these policies, of which the first is judged.
fn judged(cells: &[&str], policies: &str, threads: usize) -> Vec<Judged> {
    let contenders = Contender::parse_list(policies).unwrap();
    let matrix = Matrix {
        cells: Cell::all()
            .filter(|cell| cells.contains(&cell.name().as_str()))
            .collect(),
        of: contenders[0].clone(),
        contenders,
        seeds: 1,
    };
    let mut judged = Vec::new();
    matrix
        .run(threads, &|_| (), |cell| {
            judged.push(cell);
            ControlFlow::Continue(())
        })
        .unwrap();
    judged
}

/// Everything that is told of some cells.
fn told(judged: &[Judged]) -> String {
    let lines = judged.iter().map(|cell| cell_line(cell) + "\n");
    let targets = targets(judged);
    let files = [csv(judged), page(judged, &targets, "command")];
    let targets = targets.iter().map(target_lines);
    lines.chain(targets).chain(files).collect()
}

#[test]
fn what_has_become_worse_is_named() {
    let judged = judged(&["2nvme/4k-d1"], "pid", 1);
    let earlier = |score: f64, tail: f64| {
        let job = &judged[0].mine().jobs[0];
        let tail = job.reads.quantile(9_990) as f64 * tail;
        let job = json!({
            "name": job.name, "score": job.score * score, "read_ns": { "p99.9": tail },
        });
        let policy = json!({ "policy": "pid", "jobs": [job] });
        json!({ "cells": [{ "name": "2nvme/4k-d1", "policies": [policy] }] })
    };
    let told = |score, tail| worse_than(&judged, &earlier(score, tail));
    assert_eq!(told(1.005, 0.96), Ok(Vec::new()));
    assert_eq!(
        told(2.0, 1.0).unwrap(),
        ["2nvme/4k-d1: random does 0.500 of before"]
    );
    assert_eq!(
        told(1.0, 0.5).unwrap(),
        ["2nvme/4k-d1: random's p99.9 is 2.00 of before"]
    );
    assert!(
        worse_than(&judged, &json!({}))
            .unwrap_err()
            .contains("'pid'")
    );
}

/// What became of the target whose title has this part: values, and whether it is met.
fn target(judged: &[Judged], part: &str) -> (Vec<f64>, bool) {
    let targets = targets(judged);
    let target = targets.iter().find(|target| target.title.contains(part));
    let target = target.expect("it is looked at in these cells");
    let values = target.looked.iter().map(|looked| looked.value);
    (values.collect(), target.is_met())
}

#[test]
fn a_wrong_policy_is_found_out() {
    // Round robin on unequal legs runs at the pace of the slowest.
    let judged = judged(&["hdd+ssd/4k-d1"], "round-robin,latency,oracle", 1);
    let cell = &judged[0];
    assert_eq!(cell.rows[cell.best.unwrap()].policy, "latency");
    assert!(cell.to_best.unwrap() < 0.05 && cell.to_oracle.unwrap() < 0.05);
    let (values, is_met) = target(&judged, "99 of 100 cells");
    assert_eq!((values, is_met), (vec![cell.to_best.unwrap()], false));
    // `latency` does all that can be done here.
    let latency = cell.row("latency").unwrap();
    assert!(latency.ratio_to(cell.row("oracle").unwrap()) > 0.99);
}

#[test]
fn threads_change_no_byte() {
    let cells = ["1hdd/1stream", "3hdd/4k-d4/x8-15s"];
    let on = |threads| told(&judged(&cells, "queue,pid", threads));
    let one = on(1);
    assert_eq!(one, on(2));
    let rows = one.lines().filter(|line| line.starts_with("1hdd/1stream,"));
    assert_eq!(rows.count(), 1, "with one leg there is nobody else");
    assert!(one.contains("<table>") && !one.contains("<script"));
}

#[test]
fn a_slow_phase_is_looked_at_afterwards() {
    let judged = judged(&["2nvme/4k-d1/x30-1s"], "latency-lifetime,pid", 2);
    let row = |policy| judged[0].row(policy).unwrap();
    // An average over a leg's life leaves it while it is slow; a fixed choice stays.
    let (exiled, fixed) = (row("latency-lifetime"), row("pid"));
    assert!(exiled.during.unwrap() > 0.9 && fixed.during.unwrap() < 0.1);
    let (values, is_met) = target(&judged, "slow phase");
    assert_eq!(values, [exiled.rehabilitation.unwrap()]);
    // Full speed counts from half a second on, so it is above 1 where nothing was lost.
    assert!(is_met && (1.09..1.13).contains(&values[0]), "{values:?}");
}

#[test]
fn one_stream_is_judged_beside_one_leg() {
    let judged = judged(&["1nvme/1stream", "2nvme/1stream"], "pid,queue", 2);
    // Whoever chooses a leg for each request has the speed of one.
    let (values, is_met) = target(&judged, "one stream");
    assert!((0.95..1.05).contains(&values[0]) && !is_met, "{values:?}");
}

#[test]
fn adaptive_reads_one_stream_from_all_legs() {
    let cells = [
        "1hdd/1stream",
        "3hdd/1stream",
        "1nvme/1stream",
        "2nvme/1stream",
    ];
    let judged = judged(&cells, "adaptive", 2);
    let (values, is_met) = target(&judged, "one stream");
    assert!(is_met, "{values:?}");
    let rates = judged.iter().map(|cell| cell.mine().jobs[0].score);
    let rates: Vec<String> = rates.map(|rate| format!("{:.1}", rate / 1e6)).collect();
    assert_eq!(rates, ["228.0", "646.1", "3491.1", "6973.0"], "in MB/s");
}

#[test]
fn eight_streams_on_two_disks_are_as_fast_as_under_pid() {
    let judged = judged(&["2hdd/8streams"], "adaptive,pid", 2);
    let (values, is_met) = target(&judged, "eight streams on two HDDs");
    assert!(is_met, "{values:?}");
}
