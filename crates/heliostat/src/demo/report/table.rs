//! Tables for a terminal: one row per policy, the best of each column marked.

use heliostat_bench::report::{TableStyle, TextCell, TextTable, format};

use super::{MeasuredRow, Outcome, RateUnit, Workload};

/// How near to the best of a column counts as best: runs differ by less from seed to seed.
pub(super) const BEST_WITHIN: f64 = 0.01;

/// All workloads side by side: a row per policy, best overall first.
pub(crate) fn virtual_table(workloads: &[Workload], style: TableStyle) -> String {
    let mut header = vec!["policy".to_owned()];
    for workload in workloads {
        header.push(format!("{}\n{}", workload.heading, workload.unit.name()));
        if workload.shows_tail {
            header.push("p99\nms".to_owned());
        }
    }
    let mut table = TextTable::new(style, header);
    let best: Vec<f64> = workloads.iter().map(best_rate).collect();
    for index in order_by_share_of_best(workloads) {
        let mut row = vec![TextCell::name(&workloads[0].rows[index].label)];
        for (workload, best) in workloads.iter().zip(&best) {
            let outcome = &workload.rows[index];
            let rate = outcome.rate(workload.unit);
            row.push(TextCell::marked(&format::rate(rate), is_best(rate, *best)));
            if workload.shows_tail {
                let tail = outcome.response.quantile(9_900);
                row.push(TextCell::number(&format::milliseconds(tail)));
            }
        }
        table.row(row);
    }
    table.finish()
}

/// Measured beside predicted, one row per policy and depth.
pub(crate) fn measured_table(rows: &[MeasuredRow], style: TableStyle) -> String {
    let mut table = TextTable::new(
        style,
        [
            "policy",
            "depth",
            "measured\nIOPS",
            "predicted\nIOPS",
            "differ\nby",
            "measured\np99 ms",
            "predicted\np99 ms",
        ]
        .map(str::to_owned)
        .to_vec(),
    );
    for row in rows {
        let p99 = |outcome: &Outcome| format::milliseconds(outcome.response.quantile(9_900));
        let rate = |outcome: &Outcome| format::rate(outcome.rate(RateUnit::Iops));
        table.row(vec![
            TextCell::name(&row.policy),
            TextCell::number(&row.iodepth.to_string()),
            TextCell::number(&rate(&row.measured)),
            TextCell::number(&rate(&row.predicted)),
            TextCell::number(&format::percent(row.difference_percent())),
            TextCell::number(&p99(&row.measured)),
            TextCell::number(&p99(&row.predicted)),
        ]);
    }
    table.finish()
}

/// The highest rate of a workload.
pub(super) fn best_rate(workload: &Workload) -> f64 {
    let rates = workload.rows.iter().map(|row| row.rate(workload.unit));
    rates.fold(0.0, f64::max)
}

/// Whether `rate` counts as best where the highest is `best`.
pub(super) fn is_best(rate: f64, best: f64) -> bool {
    best > 0.0 && rate >= best * (1.0 - BEST_WITHIN)
}

/// Indexes of rows, the one with the highest mean share of each workload's best first. Equal ones
/// stay in the order they came in.
pub(super) fn order_by_share_of_best(workloads: &[Workload]) -> Vec<usize> {
    let count = workloads.first().map_or(0, |workload| workload.rows.len());
    let mut share = vec![0.0; count];
    for workload in workloads {
        let best = best_rate(workload).max(f64::MIN_POSITIVE);
        for (share, row) in share.iter_mut().zip(&workload.rows) {
            *share += row.rate(workload.unit) / best;
        }
    }
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&a, &b| share[b].total_cmp(&share[a]));
    order
}

#[cfg(test)]
mod tests;
