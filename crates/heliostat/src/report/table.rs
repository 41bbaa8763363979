//! Tables for a terminal: one row per policy, the best of each column marked.

use comfy_table::{Attribute, Cell, CellAlignment, ColumnConstraint, Table, TableComponent, Width};

use super::{MeasuredRow, Outcome, RateUnit, Workload, format};

/// How near to the best of a column counts as best: runs differ by less from seed to seed.
pub(super) const BEST_WITHIN: f64 = 0.01;

/// What the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableStyle {
    /// Bold where it is wanted.
    Terminal,
    /// Characters only: a file, a pipe.
    Plain,
}

/// All workloads side by side: a row per policy, best overall first.
pub(crate) fn virtual_table(workloads: &[Workload], style: TableStyle) -> String {
    let mut table = empty_table(style);
    let mut header = vec!["policy".to_owned()];
    for workload in workloads {
        header.push(format!("{}\n{}", workload.heading, workload.unit.name()));
        if workload.shows_tail {
            header.push("p99\nms".to_owned());
        }
    }
    set_header(&mut table, header);
    let best: Vec<f64> = workloads.iter().map(best_rate).collect();
    for index in order_by_share_of_best(workloads) {
        let mut row = vec![Cell::new(&workloads[0].rows[index].label)];
        for (workload, best) in workloads.iter().zip(&best) {
            let outcome = &workload.rows[index];
            let rate = outcome.rate(workload.unit);
            row.push(marked(&format::rate(rate), is_best(rate, *best)));
            if workload.shows_tail {
                let tail = outcome.response.quantile(9_900);
                row.push(number(&format::milliseconds(tail)));
            }
        }
        table.add_row(row);
    }
    trimmed(&table)
}

/// Measured beside predicted, one row per policy and depth.
pub(crate) fn measured_table(rows: &[MeasuredRow], style: TableStyle) -> String {
    let mut table = empty_table(style);
    set_header(
        &mut table,
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
        table.add_row(vec![
            Cell::new(&row.policy),
            number(&row.iodepth.to_string()),
            number(&rate(&row.measured)),
            number(&rate(&row.predicted)),
            number(&format::percent(row.difference_percent())),
            number(&p99(&row.measured)),
            number(&p99(&row.predicted)),
        ]);
    }
    trimmed(&table)
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

fn empty_table(style: TableStyle) -> Table {
    let mut table = Table::new();
    // Only the line under the head: columns are told apart by their alignment.
    table.load_preset(comfy_table::presets::NOTHING);
    table.set_style(TableComponent::HeaderLines, '-');
    table.set_style(TableComponent::MiddleHeaderIntersections, '-');
    match style {
        TableStyle::Terminal => table.enforce_styling(),
        TableStyle::Plain => table.force_no_tty(),
    };
    table
}

fn set_header(table: &mut Table, header: Vec<String>) {
    let count = header.len();
    table.set_header(header.into_iter().enumerate().map(|(index, text)| {
        let alignment = if index == 0 {
            CellAlignment::Left
        } else {
            CellAlignment::Right
        };
        Cell::new(text).set_alignment(alignment)
    }));
    // With a blank at each side: wide enough for five digits, a comma and a mark, so that columns
    // stand at about equal distance.
    let least = ColumnConstraint::LowerBoundary(Width::Fixed(9));
    for index in 0..count {
        let Some(column) = table.column_mut(index) else {
            continue;
        };
        if index > 0 {
            column.set_constraint(least);
        }
        // Nothing stands at the left of the first column and the right of the last.
        column.set_padding((u16::from(index > 0), u16::from(index + 1 < count)));
    }
}

fn number(text: &str) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// A number with a star, in bold, where it is the best of its column.
fn marked(text: &str, best: bool) -> Cell {
    if best {
        number(&format!("*{text}")).add_attribute(Attribute::Bold)
    } else {
        number(text)
    }
}

/// The table without the blanks at the ends of its lines.
fn trimmed(table: &Table) -> String {
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests;
