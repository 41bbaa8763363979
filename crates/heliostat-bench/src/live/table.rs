//! Results as tables of text.

use super::fio::Measured;
use super::result::{BenchResult, Row};
use crate::report::format::{milliseconds, rate};
use crate::report::{TableStyle, TextCell, TextTable};

/// A column of every table: its head, the figure, and which is better.
pub(super) struct Column {
    pub(super) head: &'static str,
    pub(super) of: fn(&Measured) -> f64,
    pub(super) is_better: fn(f64, f64) -> bool,
    pub(super) show: fn(f64) -> String,
}

const fn more(head: &'static str, of: fn(&Measured) -> f64) -> Column {
    Column {
        head,
        of,
        is_better: |a, b| a > b,
        show: rate,
    }
}

const fn less(head: &'static str, of: fn(&Measured) -> f64) -> Column {
    Column {
        head,
        of,
        is_better: |a, b| a < b,
        show: ms,
    }
}

/// Nanoseconds, whole ones or the mean of two, in milliseconds.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times that fio measured fit, and none is below zero"
)]
pub(super) fn ms(ns: f64) -> String {
    milliseconds(ns as u64)
}

pub(super) const COLUMNS: [Column; 7] = [
    more("IOPS", |run| run.iops),
    more("MB/s", |run| run.bytes_per_s / 1e6),
    less("mean ms", |run| run.mean_ns),
    less("p99", |run| run.p99_ns as f64),
    less("p99.9", |run| run.p99_9_ns as f64),
    less("p99.99", |run| run.p99_99_ns as f64),
    less("max", |run| run.max_ns as f64),
];

/// How far the runs of a row are apart, for people.
pub(super) fn spread_text(row: &Row) -> String {
    let spread = row.spread(|run| run.iops);
    let percent = spread.map_or(0.0, |spread| spread.relative() * 100.0);
    match row.runs.len() {
        0 | 1 => "-".to_owned(),
        _ => format!("{percent:.1} %"),
    }
}

/// What any of several rows was switched to: a column for each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Switched {
    policies: bool,
    schedulers: bool,
}

impl Switched {
    pub(super) fn of<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Self {
        let nothing = Self {
            policies: false,
            schedulers: false,
        };
        rows.into_iter().fold(nothing, |known, row| Self {
            policies: known.policies || row.policy.is_some(),
            schedulers: known.schedulers || row.scheduler.is_some(),
        })
    }

    /// The names of the columns.
    pub(super) fn heads(self) -> impl Iterator<Item = &'static str> {
        let policy = self.policies.then_some("policy");
        policy
            .into_iter()
            .chain(self.schedulers.then_some("scheduler"))
    }

    /// What a row has in each.
    pub(super) fn cells(self, row: &Row) -> Vec<&str> {
        let policy = self.policies.then_some(&row.policy);
        let each = policy
            .into_iter()
            .chain(self.schedulers.then_some(&row.scheduler));
        each.map(|under| under.as_deref().unwrap_or("-")).collect()
    }
}

/// For each column, the best value of these rows; nothing where there is no choice.
pub(super) fn best_of(rows: &[&Row]) -> Vec<Option<f64>> {
    let best = |column: &Column| {
        let values = rows.iter().map(|row| row.median(column.of));
        values.reduce(|a, b| if (column.is_better)(b, a) { b } else { a })
    };
    COLUMNS
        .iter()
        .map(|column| best(column).filter(|_| rows.len() > 1))
        .collect()
}

/// A table for each job, under its name.
#[must_use]
pub fn tables(result: &BenchResult, style: TableStyle) -> String {
    let switched = Switched::of(&result.rows);
    let mut head = vec!["target"];
    head.extend(switched.heads());
    head.extend(["runs", "+-"]);
    head.extend(COLUMNS.iter().map(|column| column.head));
    let mut text = String::new();
    for job in result.jobs() {
        let rows: Vec<&Row> = result.of_job(job).collect();
        if rows.is_empty() {
            continue;
        }
        let best = best_of(&rows);
        let mut table = TextTable::new(style, head.iter().map(ToString::to_string).collect());
        for row in rows {
            let mut cells = vec![TextCell::name(&row.target)];
            let under = switched.cells(row);
            cells.extend(under.iter().map(|under| TextCell::number(under)));
            cells.push(TextCell::number(&row.runs.len().to_string()));
            cells.push(TextCell::number(&spread_text(row)));
            for (column, best) in COLUMNS.iter().zip(&best) {
                let value = row.median(column.of);
                cells.push(TextCell::marked(
                    &(column.show)(value),
                    *best == Some(value),
                ));
            }
            table.row(cells);
        }
        text.push_str(&format!("{job}\n\n{}\n", table.finish()));
    }
    text
}
