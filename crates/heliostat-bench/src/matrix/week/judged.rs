//! What a week says of a policy: each hour beside the best other one, and the last day beside the
//! first.

use heliostat_sim::{RunResult, Scenario};
use heliostat_types::Duration;

use super::{HOURS, Hour, Week};
use crate::averages::{geometric_mean, median};
use crate::matrix::judge::AS_MUCH;
use crate::matrix::measure::JobSample;

/// A week with its figures.
#[derive(Clone, Debug)]
pub struct JudgedWeek {
    array: &'static str,
    days: u32,
    of: String,
    pub(super) hours: Vec<JudgedHour>,
    /// Hedges and probes of the judged policy, as a share of the legs' reads; the seed with most.
    extra: f64,
    /// Its requests that were answered with an error, of all seeds.
    errors: u64,
}

/// An hour beside the best other policy.
#[derive(Clone, Debug)]
pub(super) struct JudgedHour {
    pub(super) hour: Hour,
    /// Of the job that comes off worst, the median of the seeds.
    pub(super) ratio: f64,
    /// Who is the best other.
    pub(super) best: String,
}

/// A job's scores by seed.
type Scores = Vec<f64>;

impl JudgedWeek {
    /// `results` are of each contender with each of `seeds`, one contender after the other; the
    /// judged one has the place `of`.
    pub(super) fn new(
        week: &Week,
        scenario: &Scenario,
        results: &[RunResult],
        seeds: u64,
        of: usize,
    ) -> Self {
        let seeds = usize::try_from(seeds).expect("few seeds");
        let contenders: Vec<&[RunResult]> = results.chunks(seeds).collect();
        let mine = contenders[of];
        let hours = week.hours().map(|hour| {
            let jobs: Vec<usize> = (0..scenario.jobs.len())
                .filter(|job| scenario.jobs[*job].name.starts_with(&hour.prefix()))
                .collect();
            let scores = contenders.iter().map(|results| {
                let of_job = |job: &usize| scores(&hour, scenario, *job, results);
                jobs.iter().map(of_job).collect()
            });
            let scores: Vec<Vec<Scores>> = scores.collect();
            let others = (0..contenders.len()).filter(|other| *other != of);
            let best = others.max_by(|a, b| total(&scores[*a]).total_cmp(&total(&scores[*b])));
            let best = best.unwrap_or(of);
            JudgedHour {
                hour,
                ratio: ratio(&scores[of], &scores[best]),
                best: contenders[best][0].policy.clone(),
            }
        });
        let extra = mine.iter().map(RunResult::extra_read_fraction);
        Self {
            array: week.array.name,
            days: week.days,
            of: mine[0].policy.clone(),
            hours: hours.collect(),
            extra: extra.fold(0.0, f64::max),
            errors: mine.iter().map(|result| result.errors).sum(),
        }
    }

    /// Whether every hour is at least 0.99 of the best other policy's.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.hours.iter().all(|hour| hour.ratio >= AS_MUCH)
    }

    /// The geometric mean of a day.
    fn day_mean(&self, day: u32) -> f64 {
        let hours = self.hours.iter().filter(|hour| hour.hour.day == day);
        let ratios: Vec<f64> = hours.map(|hour| hour.ratio).collect();
        geometric_mean(ratios.into_iter())
    }

    /// That kind of hour on that day.
    fn find(&self, kind: usize, day: u32) -> Option<&JudgedHour> {
        let mut hours = self.hours.iter();
        hours.find(|hour| hour.hour.kind == kind && hour.hour.day == day)
    }
}

/// A job's scores in its hour, by seed.
fn scores(hour: &Hour, scenario: &Scenario, job: usize, results: &[RunResult]) -> Scores {
    let is_closed = scenario.jobs[job].arrival.is_closed();
    let length = Duration::from_secs_f64(hour.seconds);
    let samples = results
        .iter()
        .map(|result| JobSample::of(&result.jobs[job], is_closed, length));
    samples.map(|sample| sample.score).collect()
}

/// All jobs together.
fn total(jobs: &[Scores]) -> f64 {
    let medians = jobs.iter().map(|seeds| median(seeds.iter().copied()));
    medians.product()
}

/// How much of the other's work is done, by the job that comes off worst.
fn ratio(mine: &[Scores], others: &[Scores]) -> f64 {
    let jobs = mine.iter().zip(others).map(|(mine, others)| {
        let seeds = mine.iter().zip(others);
        median(seeds.map(|(mine, other)| if mine == other { 1.0 } else { mine / other }))
    });
    jobs.fold(f64::INFINITY, f64::min)
}

/// How many hours that do less are named.
const NAMED_MAX: usize = 12;

/// The week as text: a line for each kind of hour, with a column for each day, and what follows.
#[must_use]
pub fn week_lines(week: &JudgedWeek) -> String {
    let days = 0..week.days;
    let mut text = format!("{:20}", week.array);
    for day in days.clone() {
        text += &format!("{:>8}", format!("day {}", day + 1));
    }
    text += "  best other on the worst day\n";
    for kind in 0..HOURS.len() {
        let hours = days.clone().filter_map(|day| week.find(kind, day));
        let Some(worst) = hours.min_by(|a, b| a.ratio.total_cmp(&b.ratio)) else {
            continue;
        };
        text += &format!("{:20}", worst.hour.name());
        for day in days.clone() {
            let ratio = week.find(kind, day).map_or(0.0, |hour| hour.ratio);
            text += &format!("{ratio:8.3}");
        }
        text += &format!("  {}\n", worst.best);
    }
    text += &format!("{:20}", "geometric mean");
    for day in days.clone() {
        text += &format!("{:8.3}", week.day_mean(day));
    }
    let missed = week.hours.iter().filter(|hour| hour.ratio < AS_MUCH);
    let mut missed: Vec<&JudgedHour> = missed.collect();
    missed.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
    text += &format!(
        "\n\n{} of {} hours: '{}' does at least {AS_MUCH} of the best other policy\n",
        week.hours.len() - missed.len(),
        week.hours.len(),
        week.of
    );
    for hour in missed.iter().take(NAMED_MAX) {
        let (day, at) = (hour.hour.day + 1, hour.hour.hour);
        text += &format!(
            "    day {day}, hour {at:2}  {:20}{:6.3}, beside {}\n",
            hour.hour.name(),
            hour.ratio,
            hour.best
        );
    }
    if missed.len() > NAMED_MAX {
        text += &format!("    and {} more\n", missed.len() - NAMED_MAX);
    }
    text + &format!(
        "hedges and probes: {:.2} % of the legs' reads; requests that failed: {}\n",
        week.extra * 100.0,
        week.errors
    )
}
