//! Two results beside each other, and which differences mean something.

use serde::Serialize;

use super::result::{BenchResult, Row};
use super::spread::Spread;
use super::table::ms;
use crate::report::format::rate;
use crate::report::{TableStyle, TextCell, TextTable};

/// What two results say of the same job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// What the job is called.
    pub job: String,
    /// The target and policy of the first result,
    pub a: String,
    /// and of the second one.
    pub b: String,
    /// The median of the first,
    pub a_iops: f64,
    /// and of the second one.
    pub b_iops: f64,
    /// How many times as many requests the second one does.
    pub iops_ratio: f64,
    /// The median 99th percentile of the first,
    pub a_p99_ns: f64,
    /// and of the second one.
    pub b_p99_ns: f64,
    /// How many times as long it is in the second one.
    pub p99_ratio: f64,
    /// What the difference in requests is.
    pub verdict: Verdict,
    /// In how many cases chance alone tells runs apart like this once; absent where it is noise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chance_one_in: Option<u64>,
}

/// What a difference is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every run of the second one does more than any of the first one.
    More,
    /// Every run does less.
    Less,
    /// Runs of one lie among those of the other.
    Noise,
    /// One run says nothing of how far runs are apart.
    Unknown,
}

/// What both results have measured. Rows are the same where job, target and policy are; where
/// each result has one target, its name does not matter, and where each has one row of a job, nor
/// does the policy.
#[must_use]
pub fn comparison(a: &BenchResult, b: &BenchResult) -> Vec<Comparison> {
    let has_one_target = a.targets.len() == 1 && b.targets.len() == 1;
    let mut all = Vec::new();
    for job in a.jobs() {
        let ours: Vec<&Row> = a.of_job(job).collect();
        let theirs: Vec<&Row> = b.of_job(job).collect();
        for first in &ours {
            let is_same = |second: &&&Row| {
                let has_policy = first.policy == second.policy;
                let has_target = first.target == second.target || has_one_target;
                has_policy && has_target || ours.len() == 1 && theirs.len() == 1
            };
            all.extend(theirs.iter().find(is_same).map(|second| of(first, second)));
        }
    }
    all
}

fn of(a: &Row, b: &Row) -> Comparison {
    let (a_iops, b_iops) = (a.median(|run| run.iops), b.median(|run| run.iops));
    let p99 = |row: &Row| row.median(|run| run.p99_ns as f64);
    let verdict = match (a.spread(|run| run.iops), b.spread(|run| run.iops)) {
        (Some(ours), Some(theirs)) if a.runs.len() > 1 && b.runs.len() > 1 => told(&ours, &theirs),
        _ => Verdict::Unknown,
    };
    let is_apart = matches!(verdict, Verdict::More | Verdict::Less);
    Comparison {
        job: a.job.clone(),
        a: a.label(),
        b: b.label(),
        a_iops,
        b_iops,
        iops_ratio: b_iops / a_iops,
        a_p99_ns: p99(a),
        b_p99_ns: p99(b),
        p99_ratio: p99(b) / p99(a),
        verdict,
        chance_one_in: is_apart.then(|| chance_one_in(a.runs.len(), b.runs.len())),
    }
}

fn told(a: &Spread, b: &Spread) -> Verdict {
    if b.min > a.max {
        Verdict::More
    } else if b.max < a.min {
        Verdict::Less
    } else {
        Verdict::Noise
    }
}

/// Of all orders in which so many runs of two equals may come, two have all runs of one before
/// those of the other: how many there are for each of these.
fn chance_one_in(a: usize, b: usize) -> u64 {
    let mut orders: u128 = 1;
    for (factor, divisor) in (b + 1..=a + b).zip(1..=a) {
        orders = orders.saturating_mul(factor as u128) / divisor as u128;
    }
    u64::try_from(orders / 2).unwrap_or(u64::MAX)
}

impl Comparison {
    /// What the difference is, in words.
    #[must_use]
    pub fn words(&self) -> String {
        let chance = self
            .chance_one_in
            .map_or_else(String::new, |chance| format!(", by chance 1 in {chance}"));
        match self.verdict {
            Verdict::More => format!("more{chance}"),
            Verdict::Less => format!("less{chance}"),
            Verdict::Noise => "noise".to_owned(),
            Verdict::Unknown => "one run: unknown".to_owned(),
        }
    }

    /// A table of several.
    #[must_use]
    pub fn table(all: &[Self], style: TableStyle) -> String {
        let head = [
            "job", "A", "B", "A IOPS", "B IOPS", "B/A", "A p99 ms", "B p99 ms", "B/A", "IOPS are",
        ];
        let mut table = TextTable::new(style, head.map(str::to_owned).to_vec());
        for row in all {
            let mut cells: Vec<TextCell> = [&row.job, &row.a, &row.b]
                .map(|name| TextCell::name(name))
                .into();
            let figures = [
                rate(row.a_iops),
                rate(row.b_iops),
                format!("{:.3}", row.iops_ratio),
                ms(row.a_p99_ns),
                ms(row.b_p99_ns),
                format!("{:.3}", row.p99_ratio),
            ];
            cells.extend(figures.iter().map(|figure| TextCell::number(figure)));
            cells.push(TextCell::name(&row.words()));
            table.row(cells);
        }
        table.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{Verdict, chance_one_in, comparison};
    use crate::live::fio::Measured;
    use crate::live::result::{BenchResult, Run, TargetNote};
    use crate::report::Facts;

    fn result(target: &str, rows: &[(&str, Option<&str>, &[f64])]) -> BenchResult {
        let facts = Facts::of_this_machine();
        let mut result = BenchResult::new("seeds", "fio-3", false, &facts);
        result.targets.push(TargetNote {
            target: target.to_owned(),
            what: String::new(),
            legs: Vec::new(),
        });
        for (job, policy, runs) in rows {
            let row = result.row(job, target, *policy);
            row.runs.extend(runs.iter().map(|&iops| Run {
                measured: Measured {
                    iops,
                    read_iops: iops,
                    write_iops: 0.0,
                    bytes_per_s: iops * 4096.0,
                    mean_ns: 1.0,
                    p99_ns: 2,
                    p99_9_ns: 3,
                    p99_99_ns: 4,
                    max_ns: 5,
                },
                legs: Vec::new(),
            }));
        }
        result
    }

    #[test]
    fn runs_among_each_other_are_noise() {
        let a = result("x", &[("job", None, &[1.0, 3.0, 2.0])]);
        for (runs, verdict, chance) in [
            (&[3.0, 4.0, 5.0][..], Verdict::Noise, None),
            (&[4.0, 3.5, 5.0], Verdict::More, Some(10)),
            (&[0.1, 0.2, 0.3, 0.4, 0.5], Verdict::Less, Some(28)),
            (&[9.0], Verdict::Unknown, None),
        ] {
            let b = result("y", &[("job", None, runs)]);
            let got = comparison(&a, &b);
            assert_eq!((got[0].verdict, got[0].chance_one_in), (verdict, chance));
        }
    }

    #[test]
    fn equal_policies_are_compared_and_single_rows() {
        let a = result(
            "x",
            &[("j", Some("pid"), &[1.0]), ("j", Some("queue"), &[2.0])],
        );
        let b = result(
            "y",
            &[("j", Some("queue"), &[6.0]), ("other", None, &[1.0])],
        );
        let got = comparison(&a, &b);
        let names: Vec<_> = got
            .iter()
            .map(|row| (&*row.a, &*row.b, row.iops_ratio))
            .collect();
        assert_eq!(names, [("x queue", "y queue", 3.0)]);
        let lone = result("z", &[("j", None, &[1.0])]);
        assert_eq!(comparison(&b, &lone).len(), 1);
        assert_eq!(comparison(&a, &lone).len(), 0);
    }

    #[test]
    fn chances_are_counted() {
        assert_eq!(chance_one_in(5, 5), 126);
        assert_eq!(chance_one_in(2, 2), 3);
        assert_eq!(chance_one_in(1000, 1000), u64::MAX);
    }
}
