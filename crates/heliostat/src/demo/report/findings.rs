//! What the figures say, in sentences: computed from the rows, never known beforehand.

use heliostat_bench::report::format;

use super::table::{best_rate, is_best};
use super::{MeasuredRow, Outcome, Workload};

/// From this share of one processor on, work of others is told of: it delays wake-ups.
const BUSY: f64 = 0.5;

/// Differences between measured and predicted from here on get an explanation, in percent.
pub(super) const EXPLAIN_PERCENT: f64 = 15.0;

/// The policy that goes by the client's number.
const BY_CLIENT: &str = "pid";

/// Shares of the best rate that a row is told to reach, or not to reach.
const NEAR: f64 = 0.9;
const FAR: f64 = 0.1;

/// What the table of the virtual part shows: a sentence per workload, and one over all.
pub(crate) fn virtual_findings(workloads: &[Workload]) -> Vec<String> {
    let mut findings: Vec<String> = workloads.iter().map(workload_finding).collect();
    findings.extend(chance_finding(workloads));
    findings.extend(overall_finding(workloads));
    findings
}

/// What the table of the real part shows.
pub(crate) fn measured_findings(rows: &[MeasuredRow]) -> Vec<String> {
    let mut findings = Vec::new();
    let (slow, fast): (Vec<&MeasuredRow>, Vec<&MeasuredRow>) =
        rows.iter().partition(|row| row.is_hdd_bound());
    if let Some(widest) = widest_difference(&slow) {
        findings.push(format!(
            "Where hard disks set the pace ({} of {} rows), measured and predicted differ by at \
             most {widest:.1} %.",
            slow.len(),
            rows.len(),
        ));
    }
    if let Some(widest) = widest_difference(&fast)
        && widest >= EXPLAIN_PERCENT
    {
        let mut text = format!(
            "Where the SSD does, they differ by up to {widest:.1} %: what a read spends in \
             sockets, wake-ups and timers is no part of a model."
        );
        let others = fast.iter().filter_map(|row| Some(row.processors?.others));
        let others = others.fold(0.0, f64::max);
        if others >= BUSY {
            text += &format!(
                " Other work on this machine had up to {:.0} % of a processor meanwhile.",
                others * 100.0
            );
        }
        findings.push(text);
    }
    let explanations = rows.iter().filter_map(|row| {
        let name = format!("{}, depth {}", row.policy, row.iodepth);
        Some(format!("{name}: {}.", explanation(row)?))
    });
    findings.extend(explanations);
    findings
}

/// The largest difference between measured and predicted, in percent, whatever its sign.
fn widest_difference(rows: &[&MeasuredRow]) -> Option<f64> {
    let differences = rows.iter().map(|row| row.difference_percent().abs());
    differences.reduce(f64::max)
}

/// Why a row was measured far from its prediction, as far as its own figures tell; `None` where it
/// is near.
pub(super) fn explanation(row: &MeasuredRow) -> Option<String> {
    if row.difference_percent().abs() < EXPLAIN_PERCENT {
        return None;
    }
    let mut text = if row.is_hdd_bound() {
        let reads = row.measured.response.count();
        let chance = chance_percent(&row.measured);
        format!("of {reads} reads on hard disks, and chance alone moves the mean by {chance:.0} %")
    } else {
        let mean_us = |outcome: &Outcome| outcome.response.mean() / 1e3;
        let (measured, predicted) = (mean_us(&row.measured), mean_us(&row.predicted));
        format!("{measured:.0} us a read, {predicted:.0} us by the models alone")
    };
    if let Some(used) = row.processors {
        let percent = |share: f64| share * 100.0;
        text += &format!(
            "; processors: server {:.0} %, client {:.0} %, others {:.0} %",
            percent(used.server),
            percent(used.client),
            percent(used.others)
        );
    }
    Some(text)
}

/// Twice the standard error of the mean response time, in percent of it.
fn chance_percent(outcome: &Outcome) -> f64 {
    let mean = outcome.response.mean();
    let count = outcome.response.count() as f64;
    if count < 2.0 || mean <= 0.0 {
        return 100.0;
    }
    let squares = outcome.response.buckets().map(|(low, width, count)| {
        let middle = low as f64 + width as f64 / 2.0;
        (middle - mean).powi(2) * count as f64
    });
    let deviation = (squares.sum::<f64>() / count).sqrt();
    200.0 * deviation / mean / count.sqrt()
}

fn workload_finding(workload: &Workload) -> String {
    let best = best_rate(workload);
    let told = |rate: f64| format!("{} {}", format::rate(rate), workload.unit.name());
    let leaders = workload
        .rows
        .iter()
        .filter(|row| is_best(row.rate(workload.unit), best));
    let leaders: Vec<&str> = leaders.map(|row| row.label.as_str()).collect();
    let lead = if leaders.len() == 1 { "leads" } else { "lead" };
    let mut text = format!(
        "{}: {} {lead} with {}",
        workload.title,
        listed(&leaders),
        told(best)
    );
    if let Some(last) = slowest(workload) {
        let rate = last.rate(workload.unit);
        if rate > 0.0 && best / rate >= 1.05 {
            let ratio = format::times(best / rate);
            text += &format!(", {ratio} the {} of {}", told(rate), last.label);
        }
    }
    text += ".";
    let reach = |share: f64| {
        let rates = workload.rows.iter().map(|row| row.rate(workload.unit));
        rates.filter(|&rate| rate >= best * share).count()
    };
    let (near, far) = (reach(NEAR), workload.rows.len() - reach(FAR));
    let (verb, rows) = (
        if near == 1 { "reaches" } else { "reach" },
        workload.rows.len(),
    );
    text += &format!(" {near} of {rows} rows {verb} 90 % of the lead");
    text += &match far {
        0 => ".".to_owned(),
        far => format!(", {far} not even 10 %."),
    };
    if workload.shows_tail {
        text += &tail_finding(workload, best);
    }
    text
}

/// How far p99.9 differs among the rows that are near the best rate, where it does: what p99 hides
/// and what clients feel.
fn tail_finding(workload: &Workload, best: f64) -> String {
    let near = workload
        .rows
        .iter()
        .filter(|row| row.rate(workload.unit) >= best * NEAR);
    let mut tails: Vec<(u64, &str)> = near
        .map(|row| (row.response.quantile(9_990), row.label.as_str()))
        .collect();
    tails.sort_unstable();
    let (Some(&(least, calm)), Some(&(most, wild))) = (tails.first(), tails.last()) else {
        return String::new();
    };
    if most < least.saturating_mul(2) {
        return String::new();
    }
    format!(
        " Among the {} near the lead the slowest read in a thousand takes {} ({calm}) to {} \
         ({wild}).",
        tails.len(),
        format::duration(least),
        format::duration(most),
    )
}

/// How much the number that a client happens to have decides, where a policy goes by it.
fn chance_finding(workloads: &[Workload]) -> Option<String> {
    let spread = |workload: &Workload| {
        let rates = workload.rows.iter().filter(|row| row.policy == BY_CLIENT);
        let rates = rates.map(|row| row.rate(workload.unit));
        let ends = rates.fold(None, |ends: Option<(f64, f64)>, rate| {
            let (low, high) = ends.unwrap_or((rate, rate));
            Some((low.min(rate), high.max(rate)))
        });
        ends.filter(|&(low, _)| low > 0.0)
    };
    let spreads = workloads
        .iter()
        .filter_map(|workload| Some((workload, spread(workload)?)));
    let (workload, (low, high)) =
        spreads.max_by(|(_, a), (_, b)| (a.1 / a.0).total_cmp(&(b.1 / b.0)))?;
    (high / low >= 1.5).then(|| {
        format!(
            "Under {BY_CLIENT} the number that a client happens to have decides between {} and {} \
             {} ({}).",
            format::rate(low),
            format::rate(high),
            workload.unit.name(),
            workload.title,
        )
    })
}

/// Which row is never far from the best, and how far.
fn overall_finding(workloads: &[Workload]) -> Option<String> {
    let first = workloads.first()?;
    let floor = |index: usize| {
        workloads
            .iter()
            .map(|workload| {
                let best = best_rate(workload).max(f64::MIN_POSITIVE);
                workload.rows[index].rate(workload.unit) / best
            })
            .fold(1.0, f64::min)
    };
    let steadiest = (0..first.rows.len()).max_by(|&a, &b| {
        // On a tie the earlier row is meant.
        floor(a).total_cmp(&floor(b)).then(b.cmp(&a))
    })?;
    let (label, floor) = (&first.rows[steadiest].label, floor(steadiest));
    Some(if is_best(floor, 1.0) {
        format!("{label} is among the best in every column.")
    } else {
        format!(
            "No policy leads everywhere: nearest to it is {label}, with at least {:.0} % of the \
             best in every column.",
            floor * 100.0
        )
    })
}

fn slowest(workload: &Workload) -> Option<&Outcome> {
    let rate = |row: &Outcome| row.rate(workload.unit);
    workload
        .rows
        .iter()
        .min_by(|a, b| rate(a).total_cmp(&rate(b)))
}

/// `a`, `a and b`, `a, b and c`, and from five on `a, b, c and 2 more`.
fn listed(names: &[&str]) -> String {
    const SHOWN_MAX: usize = 4;
    match names {
        [] => "nobody".to_owned(),
        [one] => (*one).to_owned(),
        [rest @ .., last] if names.len() <= SHOWN_MAX => format!("{} and {last}", rest.join(", ")),
        [a, b, c, rest @ ..] => format!("{a}, {b}, {c} and {} more", rest.len()),
        [a, b] => format!("{a} and {b}"),
    }
}

#[cfg(test)]
mod tests;
