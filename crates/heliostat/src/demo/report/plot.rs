//! The plots of a report: its rows in the order of their rates, drawn by [`heliostat_bench::plot`].

use heliostat_bench::plot::{self, Pair};
use heliostat_bench::report::format;
use stdx::histogram::Histogram;

use super::{LegShare, MeasuredRow, Outcome, RateUnit, Workload};

/// What the axis of shares is called.
const SHARES: &str = "share of the bytes read, in percent";

/// The rate of every policy under one workload, best first.
pub(super) fn bars(workload: &Workload) -> String {
    let rows = by_rate(workload);
    let rates: Vec<(&str, f64)> = rows
        .iter()
        .map(|row| (row.label.as_str(), row.rate(workload.unit)))
        .collect();
    plot::bars(&rates, workload.unit.name())
}

/// Response times of every policy under one workload, in the order of [`bars`].
pub(super) fn percentiles(workload: &Workload) -> String {
    let rows = by_rate(workload);
    let times: Vec<(&str, &Histogram)> = rows
        .iter()
        .map(|row| (row.label.as_str(), &row.response))
        .collect();
    plot::percentiles(&times, "response time in ms")
}

/// Which part of the reads each leg served, policy by policy, in the order of [`bars`].
pub(super) fn shares(workload: &Workload, legs: &[String]) -> String {
    let rows = by_rate(workload);
    let rows: Vec<(String, Vec<u64>)> = rows
        .iter()
        .map(|row| (row.label.clone(), read_bytes(&row.legs)))
        .collect();
    plot::shares(&rows, legs, SHARES)
}

/// The rates of the real part, measured and predicted, one row each.
pub(super) fn versus(rows: &[MeasuredRow]) -> String {
    let rows: Vec<Pair> = rows
        .iter()
        .map(|row| Pair {
            name: format!("{}, depth {}", row.policy, row.iodepth),
            found: row.measured.rate(RateUnit::Iops),
            expected: row.predicted.rate(RateUnit::Iops),
            note: format::percent(row.difference_percent()),
        })
        .collect();
    plot::pairs(&rows, "measured", "predicted", RateUnit::Iops.name())
}

/// Which part of the reads each leg served in the real part, measured above predicted.
pub(super) fn real_shares(rows: &[MeasuredRow], legs: &[String]) -> String {
    let sides = |row: &MeasuredRow| {
        let name = |side| format!("{}, depth {}, {side}", row.policy, row.iodepth);
        [
            (name("measured"), read_bytes(&row.measured.legs)),
            (name("predicted"), read_bytes(&row.predicted.legs)),
        ]
    };
    let rows: Vec<(String, Vec<u64>)> = rows.iter().flat_map(sides).collect();
    plot::shares(&rows, legs, SHARES)
}

fn read_bytes(legs: &[LegShare]) -> Vec<u64> {
    legs.iter().map(|leg| leg.read_bytes).collect()
}

/// Rows of a workload, the highest rate first.
fn by_rate(workload: &Workload) -> Vec<&Outcome> {
    let mut rows: Vec<&Outcome> = workload.rows.iter().collect();
    let rate = |row: &Outcome| row.rate(workload.unit);
    rows.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    rows
}

#[cfg(test)]
mod tests;
