//! The matrix in lines of text.

use super::judge::{Judged, Row};
use super::targets::{Limit, Looked, Target};
use crate::report::format;

/// How wide the columns are; a name that is longer moves those behind it.
const CELL: usize = 30;
const POLICY: usize = 20;
const NUMBER: usize = 10;

/// What stands above [`cell_line`]s.
#[must_use]
pub fn head_line(of: &str) -> String {
    format!(
        "{:CELL$}{:>NUMBER$}  {:POLICY$}{:>NUMBER$}{:>8}{:>9}{:>9}{:>8}",
        "cell", of, "best other", "", "ratio", "oracle", "p99.9", "tail"
    )
}

/// A cell in one line: what the judged policy does, what the best other does, the ratio, the ratio
/// to the oracle, the judged policy's p99.9 and the ratio of that to the shortest of those who do
/// as much.
#[must_use]
pub fn cell_line(judged: &Judged) -> String {
    let mine = judged.mine();
    let best = judged.best.map(|best| &judged.rows[best]);
    let ratio = |ratio: Option<f64>| ratio.map_or_else(|| "-".to_owned(), |r| format!("{r:.3}"));
    format!(
        "{:CELL$}{:>NUMBER$}  {:POLICY$}{:>NUMBER$}{:>8}{:>9}{:>9}{:>8}",
        judged.cell.name() + " ",
        figure(mine),
        best.map_or("-", |best| best.policy.as_str()),
        best.map_or_else(|| "-".to_owned(), figure),
        ratio(judged.to_best),
        ratio(judged.to_oracle),
        format::milliseconds(p999(mine)),
        ratio(judged.tail.as_ref().map(|tail| tail.ratio)),
    )
}

/// What a policy does in a cell: requests per second, MiB per second of streams, the mean response
/// time in ms where requests come whatever is answered; of several jobs one after the other.
pub(super) fn figure(row: &Row) -> String {
    let jobs = row.jobs.iter().map(|job| {
        if !job.is_closed {
            return format!("{:.3} ms", 1e3 / job.score.max(1e-9));
        }
        if job.iops > 0.0 && job.bw_bytes / job.iops >= f64::from(100 << 10) {
            return format!("{}M", format::rate(job.bw_bytes / f64::from(1 << 20)));
        }
        format::rate(job.iops)
    });
    jobs.collect::<Vec<String>>().join("+")
}

/// The longest p99.9 of a policy's jobs.
pub(super) fn p999(row: &Row) -> u64 {
    let jobs = row.jobs.iter().map(|job| job.reads.quantile(9_990));
    jobs.max().unwrap_or(0)
}

/// How many cells that miss a target are named.
const MISSED_MAX: usize = 12;

/// A target in lines: whether it is met, and who misses it.
#[must_use]
pub fn target_lines(target: &Target) -> String {
    let missed = target.missed();
    let verdict = if target.is_met() { "met   " } else { "MISSED" };
    let mut text = format!(
        "{verdict} {:3} of {:3}  {}\n",
        target.count() - missed.len(),
        target.count(),
        target.title
    );
    for looked in missed.iter().take(MISSED_MAX) {
        let place = looked.place.clone() + " ";
        text += &format!("           {place:34}{}\n", beside_limit(looked));
    }
    if missed.len() > MISSED_MAX {
        text += &format!("           and {} more\n", missed.len() - MISSED_MAX);
    }
    text
}

/// A figure beside its limit.
pub(super) fn beside_limit(looked: &Looked) -> String {
    let limit = match looked.limit {
        Limit::AtLeast(limit) => format!("at least {limit}"),
        Limit::AtMost(limit) => format!("at most {limit}"),
    };
    let beside = if looked.beside.is_empty() {
        String::new()
    } else {
        format!(", beside {}", looked.beside)
    };
    format!("{:.3} ({limit}{beside})", looked.value)
}
