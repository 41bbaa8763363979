//! Two results beside each other, and which differences mean something.

mod page;

use serde::Serialize;

pub use self::page::{Side, write_comparison};
use super::fio::Measured;
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
    /// The target, policy and scheduler of the first result,
    pub a: String,
    /// and of the second one.
    pub b: String,
    /// The median of the first,
    pub a_iops: f64,
    /// and of the second one.
    pub b_iops: f64,
    /// How many times as many requests the second one does.
    pub iops_ratio: f64,
    /// The least that any run of the second is of any run of the first, and the most.
    pub iops_ratio_range: (f64, f64),
    /// The median 99th percentile of the first,
    pub a_p99_ns: f64,
    /// and of the second one.
    pub b_p99_ns: f64,
    /// How many times as long it is in the second one.
    pub p99_ratio: f64,
    /// The least and the most of it, run by run.
    pub p99_ratio_range: (f64, f64),
    /// What the difference in requests is.
    pub verdict: Verdict,
    /// What the difference of the percentile is: more is longer.
    pub p99_verdict: Verdict,
    /// In how many cases chance alone tells runs apart like this once; absent where none of both
    /// figures is told apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chance_one_in: Option<u64>,
    /// The same, whatever came out; absent where there is one run.
    #[serde(skip)]
    odds: Option<u64>,
}

/// What a difference is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every run of the second one has more than any of the first one.
    More,
    /// Every run has less.
    Less,
    /// Runs of one lie among those of the other.
    Noise,
    /// One run says nothing of how far runs are apart.
    Unknown,
}

/// Two results beside each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Compared {
    /// What both have.
    pub rows: Vec<Comparison>,
    /// What the first alone has: jobs, each with its target, policy and scheduler.
    pub only_a: Vec<String>,
    /// What the second alone has.
    pub only_b: Vec<String>,
}

/// What both results have measured, and what one of them alone has. Rows are the same where job,
/// target, policy and scheduler are; where each result has one target, its name does not matter,
/// and where each has one row of a job, nor do policy and scheduler.
#[must_use]
pub fn comparison(a: &BenchResult, b: &BenchResult) -> Compared {
    let has_one_target = a.targets.len() == 1 && b.targets.len() == 1;
    let mut compared = Compared::default();
    for job in a.jobs() {
        let ours: Vec<&Row> = a.of_job(job).collect();
        let mut theirs: Vec<&Row> = b.of_job(job).collect();
        let is_lone = ours.len() == 1 && theirs.len() == 1;
        for first in ours {
            let is_same = |second: &&Row| {
                let is_under = first.policy == second.policy && first.scheduler == second.scheduler;
                let has_target = first.target == second.target || has_one_target;
                is_under && has_target || is_lone
            };
            match theirs.iter().position(is_same) {
                Some(at) => compared.rows.push(of(first, theirs.remove(at))),
                None => compared.only_a.push(named(first)),
            }
        }
        compared.only_b.extend(theirs.into_iter().map(named));
    }
    let is_new = |job: &&str| !a.jobs().contains(job);
    let new = b.jobs().into_iter().filter(is_new);
    let new = new.flat_map(|job| b.of_job(job).map(named).collect::<Vec<_>>());
    compared.only_b.extend(new);
    compared
}

fn named(row: &Row) -> String {
    format!("{} on {}", row.job, row.label())
}

/// One figure of the runs of two rows.
struct Figure {
    a: Spread,
    b: Spread,
    verdict: Verdict,
}

impl Figure {
    fn of(a: &Row, b: &Row, of: fn(&Measured) -> f64) -> Self {
        let nothing = Spread {
            median: 0.0,
            min: 0.0,
            max: 0.0,
        };
        let spread = |row: &Row| row.spread(of).unwrap_or(nothing);
        let (ours, theirs) = (spread(a), spread(b));
        let verdict = match a.runs.len() > 1 && b.runs.len() > 1 {
            true => told(&ours, &theirs),
            false => Verdict::Unknown,
        };
        Self {
            a: ours,
            b: theirs,
            verdict,
        }
    }

    fn ratio(&self) -> f64 {
        self.b.median / self.a.median
    }

    fn range(&self) -> (f64, f64) {
        (self.b.min / self.a.max, self.b.max / self.a.min)
    }
}

fn of(a: &Row, b: &Row) -> Comparison {
    let iops = Figure::of(a, b, |run| run.iops);
    let p99 = Figure::of(a, b, |run| run.p99_ns as f64);
    let is_apart = iops.verdict.is_apart() || p99.verdict.is_apart();
    let is_known = iops.verdict != Verdict::Unknown;
    let odds = is_known.then(|| chance_one_in(a.runs.len(), b.runs.len()));
    Comparison {
        job: a.job.clone(),
        a: a.label(),
        b: b.label(),
        a_iops: iops.a.median,
        b_iops: iops.b.median,
        iops_ratio: iops.ratio(),
        iops_ratio_range: iops.range(),
        a_p99_ns: p99.a.median,
        b_p99_ns: p99.b.median,
        p99_ratio: p99.ratio(),
        p99_ratio_range: p99.range(),
        verdict: iops.verdict,
        p99_verdict: p99.verdict,
        chance_one_in: odds.filter(|_| is_apart),
        odds,
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

impl Verdict {
    /// Whether runs are told apart.
    #[must_use]
    pub const fn is_apart(self) -> bool {
        matches!(self, Self::More | Self::Less)
    }

    /// In words, of which two are those for more and for less.
    fn words(self, more: &str, less: &str, chance_one_in: Option<u64>) -> String {
        let chance =
            chance_one_in.map_or_else(String::new, |chance| format!(", by chance 1 in {chance}"));
        match self {
            Self::More => format!("{more}{chance}"),
            Self::Less => format!("{less}{chance}"),
            Self::Noise => "noise".to_owned(),
            Self::Unknown => "one run: unknown".to_owned(),
        }
    }
}

impl Comparison {
    /// What the difference in requests is, in words.
    #[must_use]
    pub fn words(&self) -> String {
        self.verdict.words("more", "less", self.chance_one_in)
    }

    /// What the difference of the percentile is, in words.
    #[must_use]
    pub fn p99_words(&self) -> String {
        self.p99_verdict
            .words("longer", "shorter", self.chance_one_in)
    }
}

impl Compared {
    /// All rows as a table.
    #[must_use]
    pub fn table(&self, style: TableStyle) -> String {
        let head = [
            "job", "A", "B", "A IOPS", "B IOPS", "B/A", "IOPS are", "A p99 ms", "B p99 ms", "B/A",
            "p99 is",
        ];
        let mut table = TextTable::new(style, head.map(str::to_owned).to_vec());
        for row in &self.rows {
            table.row(vec![
                TextCell::name(&row.job),
                TextCell::name(&row.a),
                TextCell::name(&row.b),
                TextCell::number(&rate(row.a_iops)),
                TextCell::number(&rate(row.b_iops)),
                TextCell::number(&format!("{:.3}", row.iops_ratio)),
                TextCell::name(&row.words()),
                TextCell::number(&ms(row.a_p99_ns)),
                TextCell::number(&ms(row.b_p99_ns)),
                TextCell::number(&format!("{:.3}", row.p99_ratio)),
                TextCell::name(&row.p99_words()),
            ]);
        }
        table.finish()
    }

    /// What it comes to.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let mut told = Vec::new();
        told.push(self.counts("B does", ["more", "less"], |row| row.verdict));
        let words = ["longer", "shorter"];
        told.push(self.counts("Its 99th percentile is", words, |row| row.p99_verdict));
        told.extend(self.by_chance());
        told
    }

    /// In how many rows a figure is what.
    fn counts(
        &self,
        what: &str,
        [more, less]: [&str; 2],
        verdict: fn(&Comparison) -> Verdict,
    ) -> String {
        let of = |wanted| {
            self.rows
                .iter()
                .filter(|row| verdict(row) == wanted)
                .count()
        };
        let unknown = match of(Verdict::Unknown) {
            0 => String::new(),
            count => format!(", and {count} of one run alone, of which nobody knows"),
        };
        format!(
            "{what} {more} in {} of {} rows and {less} in {}; {} are noise{unknown}.",
            of(Verdict::More),
            self.rows.len(),
            of(Verdict::Less),
            of(Verdict::Noise)
        )
    }

    /// How many rows chance alone would tell apart, where that is worth a word.
    fn by_chance(&self) -> Option<String> {
        let chances = self.rows.iter().filter_map(|row| row.odds);
        let expected: f64 = chances.map(|odds| 1.0 / odds as f64).sum();
        let apart = self
            .rows
            .iter()
            .filter(|row| row.verdict.is_apart())
            .count();
        let enough = match apart > 0 && (apart as f64) < 2.0 * expected {
            true => " Those that are apart may well be chance: measure with more --repeats.",
            false => "",
        };
        (expected > 0.0).then(|| {
            format!(
                "Where nothing differs, chance alone would tell {expected:.1} of {} rows apart in \
                 each figure.{enough}",
                self.rows.len()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Verdict, chance_one_in, comparison};
    use crate::live::fio::Measured;
    use crate::live::result::{BenchResult, Run, TargetNote, Under};
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
            let under = Under {
                policy: policy.map(str::to_owned),
                scheduler: None,
            };
            let row = result.row(job, target, &under);
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
            let got = &comparison(&a, &b).rows[0];
            assert_eq!((got.verdict, got.chance_one_in), (verdict, chance));
            let equal = if runs.len() > 1 {
                Verdict::Noise
            } else {
                Verdict::Unknown
            };
            assert_eq!(got.p99_verdict, equal);
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
            .rows
            .iter()
            .map(|row| (&*row.a, &*row.b, row.iops_ratio))
            .collect();
        assert_eq!(names, [("x queue", "y queue", 3.0)]);
        assert_eq!(got.only_a, ["j on x pid"]);
        assert_eq!(got.only_b, ["other on y"]);
        let lone = result("z", &[("j", None, &[1.0])]);
        assert_eq!(comparison(&b, &lone).rows.len(), 1);
        assert_eq!(comparison(&a, &lone).rows.len(), 0);
    }

    #[test]
    fn sentences_say_how_much_of_it_may_be_chance() {
        let runs = |at: f64| [at, at + 1.0, at + 2.0];
        let jobs = ["a", "b", "c", "d"];
        let rows = |shift: f64| jobs.map(|job| (job, None, runs(100.0 + shift)));
        let of = |rows: &[(&'static str, Option<&'static str>, [f64; 3])]| {
            let rows = rows
                .iter()
                .map(|(job, under, runs)| (*job, *under, &runs[..]));
            let rows: Vec<_> = rows.collect();
            result("x", &rows)
        };
        let all = comparison(&of(&rows(0.0)), &of(&rows(50.0))).sentences();
        assert_eq!(
            all[0],
            "B does more in 4 of 4 rows and less in 0; 0 are noise."
        );
        assert!(
            all[2].contains("0.4 of 4 rows apart in each figure.") && all.len() == 3,
            "{all:?}"
        );
        assert!(!all[2].contains("--repeats"));
        let equal = comparison(&of(&rows(0.0)), &of(&rows(1.0))).sentences();
        assert_eq!(
            equal[0],
            "B does more in 0 of 4 rows and less in 0; 4 are noise."
        );
        assert!(!equal[2].contains("--repeats"), "{equal:?}");
        let mut second = rows(1.0);
        second[0].2 = runs(200.0);
        let lone = comparison(&of(&rows(0.0)), &of(&second)).sentences();
        assert!(!lone[2].contains("--repeats"), "one of 0.4: {lone:?}");
        let one = result("x", &[("a", None, &[1.0])]);
        let one = comparison(&one, &one).sentences();
        assert!(one[0].ends_with("0 are noise, and 1 of one run alone, of which nobody knows."));
        assert_eq!(one.len(), 2);
    }

    #[test]
    fn chances_are_counted() {
        assert_eq!(chance_one_in(5, 5), 126);
        assert_eq!(chance_one_in(2, 2), 3);
        assert_eq!(chance_one_in(1000, 1000), u64::MAX);
    }
}
