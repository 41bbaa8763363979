//! What the figures of a cell say of one policy: how near it is to the best other and to the
//! oracle.

use heliostat_types::Duration;
use stdx::histogram::Histogram;

use super::cells::Cell;
use super::measure::{Measured, Sample};
use crate::averages::median;

/// The policy that sees the devices, which is nobody's competitor.
pub(super) const ORACLE: &str = "oracle";

/// From which share of another policy's work on a policy does as much as that.
pub(super) const AS_MUCH: f64 = 0.99;

/// A cell with the figures of all its policies.
#[derive(Clone, Debug)]
pub struct Judged {
    /// What was run.
    pub cell: Cell,
    /// One for each policy, in their order.
    pub(super) rows: Vec<Row>,
    /// The policy that is judged, by its place.
    pub(super) of: usize,
    /// The best of the others, the oracle aside; `None` where nobody else was run.
    pub(super) best: Option<usize>,
    /// The oracle, where it was run.
    pub(super) oracle: Option<usize>,
    /// The worst job of the judged policy beside the best other, and beside the oracle.
    pub(super) to_best: Option<f64>,
    pub(super) to_oracle: Option<f64>,
    /// The tail of its reads beside the shortest of those who do as much; more is longer.
    pub(super) tail: Option<Tail>,
}

/// A policy's figures in a cell: medians over its seeds, response times of all seeds together.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) policy: String,
    pub(super) jobs: Vec<JobRow>,
    /// Hedges and probes, as a share of the legs' reads.
    pub(super) extra: f64,
    /// Of 1, which part of the reads each leg has done.
    pub(super) shares: Vec<f64>,
    /// Of the seeds' confidence intervals the widest.
    pub(super) precision: f64,
    /// What was done in the five seconds after a fault, as a share of what full speed after the
    /// grace would have done.
    pub(super) rehabilitation: Option<f64>,
    /// What was done while the fault held, as a share of what was done before.
    pub(super) during: Option<f64>,
    pub(super) errors: u64,
    /// Scores by job and seed.
    scores: Vec<Vec<f64>>,
    /// How long it was measured.
    seconds: Duration,
    /// What it did in the first run, which is as long as those of all others: by job, its score and
    /// the response times of its reads.
    first: Vec<(f64, Histogram)>,
}

#[derive(Clone, Debug)]
pub(super) struct JobRow {
    pub(super) name: String,
    pub(super) is_closed: bool,
    /// Of its requests, with those that still wait in the end.
    pub(super) mean_s: f64,
    pub(super) score: f64,
    pub(super) iops: f64,
    pub(super) bw_bytes: f64,
    pub(super) reads: Histogram,
}

/// A response time beside another policy's.
#[derive(Clone, Debug)]
pub(super) struct Tail {
    pub(super) ratio: f64,
    /// Whose reads have the shortest tail.
    pub(super) policy: String,
}

impl Judged {
    /// Compares `measured`, among which is the policy `of`.
    pub(super) fn new(cell: Cell, measured: &[Measured], of: &str) -> Self {
        let rows: Vec<Row> = measured.iter().map(|m| Row::new(&cell, m)).collect();
        let place = |name: &str| rows.iter().position(|row| row.policy == name);
        let of = place(of).expect("the judged policy is among those that were run");
        let oracle = place(ORACLE).filter(|&oracle| oracle != of);
        let others = (0..rows.len()).filter(|&row| row != of && Some(row) != oracle);
        let mine = &rows[of];
        // The first of equals.
        let best = others.clone().reduce(|best, other| {
            if rows[other].total_beside(mine) > rows[best].total_beside(mine) {
                other
            } else {
                best
            }
        });
        let shortest = others
            .filter(|&other| rows[other].ratio_to(mine) >= AS_MUCH)
            .map(|other| Tail {
                ratio: mine.tail_ratio(&rows[other]),
                policy: rows[other].policy.clone(),
            })
            .reduce(|a, b| if b.ratio > a.ratio { b } else { a });
        Self {
            cell,
            of,
            best,
            oracle,
            to_best: best.map(|best| mine.ratio_to(&rows[best])),
            to_oracle: oracle.map(|oracle| mine.ratio_to(&rows[oracle])),
            tail: shortest,
            rows,
        }
    }

    /// The row of the policy called `name`.
    pub(super) fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.policy == name)
    }

    /// The row of the judged policy.
    pub(super) fn mine(&self) -> &Row {
        &self.rows[self.of]
    }
}

impl Row {
    pub(super) fn new(cell: &Cell, measured: &Measured) -> Self {
        let samples = &measured.samples;
        let first = &samples[0];
        let over = |value: &dyn Fn(&Sample) -> f64| median(samples.iter().map(value));
        let jobs = first.jobs.iter().enumerate().map(|(at, job)| {
            let mut reads = Histogram::new();
            for sample in samples {
                reads.merge(&sample.jobs[at].reads);
            }
            JobRow {
                name: job.name.clone(),
                is_closed: job.is_closed,
                score: over(&|sample| sample.jobs[at].score),
                iops: over(&|sample| sample.jobs[at].iops),
                bw_bytes: over(&|sample| sample.jobs[at].bw_bytes),
                mean_s: over(&|sample| sample.jobs[at].mean_s),
                reads,
            }
        });
        let jobs: Vec<JobRow> = jobs.collect();
        let scores = (0..jobs.len()).map(|at| {
            let of_job = samples.iter().map(|sample| sample.jobs[at].score);
            of_job.collect()
        });
        let legs = 0..first.leg_reads.len();
        let share = |leg: usize| {
            over(&|sample| {
                let all: u64 = sample.leg_reads.iter().sum();
                sample.leg_reads[leg] as f64 / all.max(1) as f64
            })
        };
        let phase = |value: &dyn Fn(super::measure::Phases) -> f64| {
            first
                .phases
                .map(|_| over(&|sample| sample.phases.map_or(0.0, value)))
        };
        Self {
            policy: measured.policy.clone(),
            extra: samples.iter().map(|s| s.extra).fold(0.0, f64::max),
            shares: legs.map(share).collect(),
            precision: samples.iter().map(|s| s.precision).fold(0.0, f64::max),
            rehabilitation: phase(&|phases| {
                let wanted = phases.before * (5.0 - cell.grace());
                if wanted > 0.0 {
                    phases.after * 5.0 / wanted
                } else {
                    0.0
                }
            }),
            during: phase(&|phases| {
                if phases.before > 0.0 {
                    phases.during / phases.before
                } else {
                    0.0
                }
            }),
            errors: samples.iter().map(|sample| sample.errors).sum(),
            scores: scores.collect(),
            seconds: first.seconds,
            first: measured
                .first
                .jobs
                .iter()
                .map(|job| (job.score, job.reads.clone()))
                .collect(),
            jobs,
        }
    }

    /// All jobs together: the geometric mean of their scores but for the root.
    pub(super) fn total(&self) -> f64 {
        self.jobs.iter().map(|job| job.score).product()
    }

    /// All jobs together, as a multiple of what another policy did: the geometric mean of their
    /// ratios but for the root, which changes no order.
    pub(super) fn total_beside(&self, other: &Self) -> f64 {
        self.ratios(other).product()
    }

    /// How much of the other policy's work this one does, by the worst job.
    pub(super) fn ratio_to(&self, other: &Self) -> f64 {
        self.ratios(other).fold(f64::INFINITY, f64::min)
    }

    /// The same by job: the median of the seeds' ratios. Where one was run with fewer seeds, the
    /// ratio of the medians: seeds may differ a lot, as where streams fall into step. Where one was
    /// measured for longer, what both did at first.
    fn ratios(&self, other: &Self) -> impl Iterator<Item = f64> {
        let is_as_long = self.seconds == other.seconds;
        let jobs = self.scores.iter().zip(&other.scores);
        let firsts = self.first.iter().zip(&other.first);
        jobs.zip(firsts).map(move |((mine, theirs), firsts)| {
            if !is_as_long {
                return ratio(firsts.0.0, firsts.1.0);
            }
            if mine.len() != theirs.len() {
                let median_of = |scores: &[f64]| median(scores.iter().copied());
                return ratio(median_of(mine), median_of(theirs));
            }
            let seeds = mine.iter().zip(theirs);
            median(seeds.map(|(&mine, &theirs)| ratio(mine, theirs)))
        })
    }

    /// How many times as long the thousandth read of this policy takes, by the job that comes off
    /// worst.
    pub(super) fn tail_ratio(&self, other: &Self) -> f64 {
        let tail = |reads: &Histogram| reads.quantile(9_990) as f64;
        if self.seconds != other.seconds {
            let firsts = self.first.iter().zip(&other.first);
            let ratios = firsts.map(|(mine, theirs)| ratio(tail(&mine.1), tail(&theirs.1)));
            return ratios.fold(0.0, f64::max);
        }
        let jobs = self.jobs.iter().zip(&other.jobs);
        jobs.map(|(mine, theirs)| ratio(tail(&mine.reads), tail(&theirs.reads)))
            .fold(0.0, f64::max)
    }
}

/// `a` over `b`; equal zeros are equal.
fn ratio(a: f64, b: f64) -> f64 {
    /// A ratio to next to nothing says no more than this.
    const MOST: f64 = 1e6;
    if a == b { 1.0 } else { (a / b).min(MOST) }
}

#[cfg(test)]
mod tests {
    use heliostat_types::Duration;

    use super::{Histogram, Row};

    /// A policy with these scores by job and seed.
    fn row(scores: &[&[f64]]) -> Row {
        Row {
            policy: String::new(),
            jobs: Vec::new(),
            extra: 0.0,
            shares: Vec::new(),
            precision: 0.0,
            rehabilitation: None,
            during: None,
            errors: 0,
            scores: scores.iter().map(|seeds| seeds.to_vec()).collect(),
            seconds: Duration::ZERO,
            first: scores
                .iter()
                .map(|seeds| (seeds[0], Histogram::new()))
                .collect(),
        }
    }

    #[test]
    fn who_was_measured_for_longer_is_compared_by_what_both_did_at_first() {
        // A drive that was written to for long does a half of it.
        let mut long = row(&[&[55.0, 55.0]]);
        long.first[0].0 = 110.0;
        long.seconds = Duration::from_secs(150);
        let short = row(&[&[100.0]]);
        assert!((long.ratio_to(&short) - 1.1).abs() < 1e-12);
        assert!((short.ratio_to(&long) - 1.0 / 1.1).abs() < 1e-12);
    }

    #[test]
    fn seeds_are_compared_one_by_one_where_both_have_them() {
        // A tenth more with each seed, whatever seeds differ by.
        let (a, b) = (row(&[&[110.0, 220.0, 55.0]]), row(&[&[100.0, 200.0, 50.0]]));
        assert!((a.ratio_to(&b) - 1.1).abs() < 1e-12);
        // The first seed alone would say 0.2.
        let (a, one) = (row(&[&[20.0, 105.0, 110.0]]), row(&[&[100.0]]));
        assert!((a.ratio_to(&one) - 1.05).abs() < 1e-12);
    }

    #[test]
    fn the_worst_job_counts() {
        let (a, b) = (row(&[&[300.0], &[20.0]]), row(&[&[100.0], &[40.0]]));
        assert_eq!((a.ratio_to(&b), b.ratio_to(&a)), (0.5, 1.0 / 3.0));
    }
}
