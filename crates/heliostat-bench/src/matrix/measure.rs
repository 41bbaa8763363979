//! A cell under its policies: runs as long as their figures need, and what is kept of each.
//!
//! A closed loop asks for the same blocks in the same order whatever policy serves it, and devices
//! draw from streams of their own, so policies meet the same work and the same luck. A first run
//! shows how much its figures still move; where that is too much, it is run again from the start,
//! as long as that takes by the law of large numbers. With a fault that holds for a part of the run
//! the length is fixed: what counts is what is done in that time.

use std::ops::ControlFlow;
use std::sync::Arc;

use heliostat_sim::{JobResult, RunError, RunResult, Scenario, Series, SeriesPoint};
use heliostat_types::Duration;
use heliostat_workload::Arrival;
use stdx::histogram::Histogram;

use super::cells::Cell;
use super::judge::ORACLE;
use super::parts::Phase;
use crate::contender::Contender;
use crate::runs::{Progress, Run, run_all};

/// The half width of the confidence interval that a rate may have: half a percent.
const PRECISION: f64 = 0.005;

/// Reads below which nothing can be said of the thousandth that took longest.
const READS_MIN: u64 = 20_000;

/// A policy that does less than this of the best is not measured on: where its third digit lies is
/// of no interest. Nor is the oracle, which takes many times as long and is a scale.
const WORTHWHILE: f64 = 0.8;

/// How often a run is made longer: the length is a guess from what the last one has shown.
const ROUNDS_MAX: usize = 3;

/// One run of a cell.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// One for each job that counts.
    pub(super) jobs: Vec<JobSample>,
    /// Half the width of the confidence interval of the bytes moved per second, as a share of it.
    pub(super) precision: f64,
    /// Reads of each leg.
    pub(super) leg_reads: Vec<u64>,
    /// Hedges and probes, as a share of the legs' reads.
    pub(super) extra: f64,
    /// Requests that were answered with an error.
    pub(super) errors: u64,
    /// What was done around a fault that came and went.
    pub(super) phases: Option<Phases>,
    /// How long was measured.
    seconds: Duration,
}

/// What came of one job.
#[derive(Clone, Debug)]
pub(super) struct JobSample {
    pub(super) name: String,
    /// More is better: bytes per second, or the inverse of the mean response time in seconds where
    /// requests come whatever is answered.
    pub(super) score: f64,
    pub(super) iops: f64,
    pub(super) bw_bytes: f64,
    /// Whether `score` is a rate.
    pub(super) is_closed: bool,
    pub(super) reads: Histogram,
}

/// Bytes per second around a fault.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Phases {
    pub(super) before: f64,
    pub(super) during: f64,
    /// Of the five seconds after it.
    pub(super) after: f64,
}

/// A policy in a cell.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) policy: String,
    /// One for each seed.
    pub(super) samples: Vec<Sample>,
}

/// Plays `cell` under each of `contenders` with the seeds 1 to `seeds`. `of` is measured well even
/// where it is far from the best.
///
/// # Errors
/// Where a checker finds a bug.
pub(super) fn measure(
    cell: &Cell,
    contenders: &[Contender],
    of: &str,
    seeds: u64,
    threads: usize,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Vec<Measured>, RunError> {
    let scenario = cell.scenario().expect("every cell is a scenario");
    let mut runs: Vec<Run> = Vec::new();
    for contender in contenders {
        for seed in 1..=seeds {
            let seeded = Scenario {
                seed,
                ..scenario.clone()
            };
            runs.push(Run {
                scenario: Arc::new(seeded),
                contender: contender.clone(),
            });
        }
    }
    let mut samples: Vec<Option<Sample>> = vec![None; runs.len()];
    let mut wanted: Vec<usize> = (0..runs.len()).collect();
    for round in 0..=ROUNDS_MAX {
        let chosen: Vec<Run> = wanted.iter().map(|&index| runs[index].clone()).collect();
        let mut failure = None;
        run_all(&chosen, threads, progress, |index, result| match result {
            Ok(result) => {
                let place = wanted[index];
                samples[place] = Some(Sample::of(cell, &runs[place].scenario, &result));
                ControlFlow::Continue(())
            }
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        });
        if let Some(error) = failure {
            return Err(error);
        }
        if round == ROUNDS_MAX || cell.phase().is_some() {
            break;
        }
        wanted = unsettled(cell, &mut runs, &samples, of);
        if wanted.is_empty() {
            break;
        }
    }
    let mut samples = samples.into_iter().flatten();
    let measured = contenders.iter().map(|contender| Measured {
        policy: contender.to_string(),
        samples: (0..seeds).filter_map(|_| samples.next()).collect(),
    });
    Ok(measured.collect())
}

/// Which runs are not long enough; they are made so.
fn unsettled(cell: &Cell, runs: &mut [Run], samples: &[Option<Sample>], of: &str) -> Vec<usize> {
    let total = |sample: &Sample| sample.jobs.iter().map(|job| job.score).product::<f64>();
    let best = samples.iter().flatten().map(total).fold(0.0, f64::max);
    let mut wanted = Vec::new();
    for (index, (run, sample)) in runs.iter_mut().zip(samples).enumerate() {
        let Some(sample) = sample else { continue };
        let name = run.contender.to_string();
        let jobs = i32::try_from(sample.jobs.len()).expect("a cell has few jobs");
        let is_near = total(sample) >= best * WORTHWHILE.powi(jobs);
        if name != of && (!is_near || name == ORACLE) {
            continue;
        }
        let longer = sample.seconds_wanted(cell);
        if longer > sample.seconds {
            let mut scenario = Scenario::clone(&run.scenario);
            scenario.seconds = longer;
            run.scenario = Arc::new(scenario);
            wanted.push(index);
        }
    }
    wanted
}

impl Sample {
    fn of(cell: &Cell, scenario: &Scenario, result: &RunResult) -> Self {
        let jobs = scenario.jobs.iter().zip(&result.jobs);
        let jobs = jobs.filter(|(job, _)| job.counts());
        let jobs = jobs.map(|(job, moved)| {
            let is_closed = job.arrival == Arrival::Closed;
            JobSample::of(moved, is_closed, result.seconds)
        });
        Self {
            jobs: jobs.collect(),
            precision: precision(&result.series),
            leg_reads: result.legs.iter().map(|leg| leg.reads).collect(),
            extra: result.extra_read_fraction(),
            errors: result.errors,
            phases: cell.phase().map(|phase| Phases::of(phase, &result.series)),
            seconds: result.seconds,
        }
    }

    /// How long it should have been measured.
    fn seconds_wanted(&self, cell: &Cell) -> Duration {
        let reads = self.jobs.iter().map(|job| job.reads.count()).min();
        let by_reads = READS_MIN as f64 / reads.unwrap_or(0).max(1) as f64;
        let is_closed = self.jobs.iter().all(|job| job.is_closed);
        let by_precision = if is_closed {
            (self.precision / PRECISION) * (self.precision / PRECISION)
        } else {
            // How many come is not the policy's doing.
            1.0
        };
        let longer = by_reads.max(by_precision);
        if longer <= 1.0 {
            return self.seconds;
        }
        // A little more than the guess, so that it is seldom too short a second time.
        let seconds = self.seconds.as_secs_f64() * longer * 1.15;
        let most = cell.seconds_max();
        Duration::from_secs_f64(seconds.min(most.as_secs_f64()))
    }
}

impl JobSample {
    fn of(result: &JobResult, is_closed: bool, seconds: Duration) -> Self {
        let iops = result.read.iops(seconds) + result.write.iops(seconds);
        let bw_bytes = result.read.bw_bytes(seconds) + result.write.bw_bytes(seconds);
        let mean_s = result.read.response_time_ns.mean() / 1e9;
        Self {
            name: result.name.clone(),
            score: match (is_closed, mean_s > 0.0) {
                (true, _) => bw_bytes,
                (false, true) => 1.0 / mean_s,
                (false, false) => 0.0,
            },
            iops,
            bw_bytes,
            is_closed,
            reads: result.read.response_time_ns.clone(),
        }
    }
}

impl Phases {
    fn of(phase: Phase, series: &Series) -> Self {
        let rate = |from: f64, to: f64| bytes_between(series, from, to) / (to - from);
        Self {
            before: rate(0.0, phase.begins),
            during: rate(phase.begins, phase.ends),
            after: rate(phase.ends, phase.seconds),
        }
    }
}

/// Bytes that were moved between two moments, in seconds; of an interval that lies partly between
/// them that part.
fn bytes_between(series: &Series, from: f64, to: f64) -> f64 {
    let mut begins = 0.0;
    let mut bytes = 0.0;
    for point in &series.points {
        let length = point.length.as_secs_f64();
        let ends = begins + length;
        let overlap = ends.min(to) - f64::max(begins, from);
        if overlap > 0.0 {
            bytes += moved(point) * overlap / length;
        }
        begins = ends;
    }
    bytes
}

fn moved(point: &SeriesPoint) -> f64 {
    (point.read.bytes + point.write.bytes) as f64
}

/// Into how many equal parts a run is cut to see how much its rate moves.
const BATCHES: usize = 20;

/// Student's t for 19 degrees of freedom, 95 of 100 cases, both sides.
const STUDENT: f64 = 2.093;

/// Half the width of the confidence interval of the rate, as a share of it, from the means of
/// batches (Law and Kelton, "Simulation Modeling and Analysis", 9.5.3).
fn precision(series: &Series) -> f64 {
    let ends: f64 = series.points.iter().map(|p| p.length.as_secs_f64()).sum();
    let batch = ends / BATCHES as f64;
    let batches = (0..BATCHES).map(|index| {
        let from = index as f64 * batch;
        bytes_between(series, from, from + batch)
    });
    let batches: Vec<f64> = batches.collect();
    let mean = batches.iter().sum::<f64>() / BATCHES as f64;
    if mean <= 0.0 {
        return 1.0;
    }
    let squares = batches.iter().map(|bytes| (bytes - mean) * (bytes - mean));
    let variance = squares.sum::<f64>() / (BATCHES - 1) as f64;
    STUDENT * (variance / BATCHES as f64).sqrt() / mean
}
