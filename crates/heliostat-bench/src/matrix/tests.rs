//! A tiny matrix, from its runs to what is said of them.

use std::ops::ControlFlow;

use super::{Cell, Judged, Matrix, cell_line, csv, target_lines, targets};
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

/// Everything that is printed of some cells.
fn printed(judged: &[Judged]) -> String {
    let lines = judged.iter().map(|cell| cell_line(cell) + "\n");
    let targets = targets(judged);
    let targets = targets.iter().map(target_lines);
    lines.chain(targets).chain([csv(judged)]).collect()
}

#[test]
fn a_wrong_policy_is_found_out() {
    // Round robin on unequal legs runs at the pace of the slowest.
    let judged = judged(&["hdd+ssd/4k-d1"], "round-robin,latency,oracle", 1);
    let cell = &judged[0];
    assert_eq!(cell.rows[cell.best.unwrap()].policy, "latency");
    assert!(cell.to_best.unwrap() < 0.05 && cell.to_oracle.unwrap() < 0.05);
    let targets = targets(&judged);
    assert!(targets.iter().any(|target| !target.is_met()));
    // `latency` does all that can be done here.
    let latency = cell.row("latency").unwrap();
    assert!(latency.ratio_to(cell.row("oracle").unwrap()) > 0.99);
}

#[test]
fn threads_change_no_byte() {
    let cells = ["1hdd/1stream", "3hdd/4k-d4/x8-15s"];
    let on = |threads| printed(&judged(&cells, "queue,pid", threads));
    let one = on(1);
    assert_eq!(one, on(2));
    assert_eq!(one.matches("1hdd/1stream").count(), 2, "one leg, one row");
}
