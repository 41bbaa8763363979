//! A cell under its policies: runs as long as their figures need, and what is kept of each.
//!
//! A closed loop asks for the same blocks in the same order whatever policy serves it, and devices
//! draw from streams of their own, so policies meet the same work and the same luck. A first run
//! shows how much its figures still move; where that is too much, it is run again from the start,
//! as long as that takes by the law of large numbers. With a fault that holds for a part of the run
//! the length is fixed: what counts is what is done in that time.

use std::ops::ControlFlow;
use std::sync::Arc;

use heliostat_sim::{JobResult, Moved, RunError, RunResult, Scenario, Series, SeriesPoint};
use heliostat_types::Duration;
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

/// A policy that does less than this of the best is run once and for a short time: where its third
/// digit lies is of no interest.
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
    pub(super) seconds: Duration,
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
    /// Of what still waits in the end as well.
    pub(super) mean_s: f64,
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
    /// The first run of the first seed: as long as that of everybody.
    pub(super) first: Sample,
}

/// A run that is to be made, or was.
struct Planned {
    run: Run,
    /// The policy's place among the contenders.
    contender: usize,
    sample: Option<Sample>,
    /// What it showed before it was made longer.
    first: Option<Sample>,
    /// Whether it has to be run, perhaps again.
    is_wanted: bool,
}

/// Plays `cell` under each of `contenders` with seed 1, and with the others up to `seeds` under
/// those that are worth it. `of` is measured well even where it is far from the best.
///
/// # Errors
/// Where a checker finds a bug.
pub(super) fn measure(
    cell: &Cell,
    contenders: &[Contender],
    of: &Contender,
    seeds: u64,
    threads: usize,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Vec<Measured>, RunError> {
    let scenario = cell.scenario().expect("every cell is a scenario");
    let plan = |contender: usize, seed: u64| {
        let scenario = Scenario {
            seed,
            ..scenario.clone()
        };
        Planned {
            run: Run {
                scenario: Arc::new(scenario),
                contender: contenders[contender].clone(),
            },
            contender,
            sample: None,
            first: None,
            is_wanted: true,
        }
    };
    let mut planned: Vec<Planned> = (0..contenders.len()).map(|at| plan(at, 1)).collect();
    play(cell, &mut planned, threads, progress)?;
    let chosen = worthwhile(&planned, of);
    for &contender in &chosen {
        planned.extend((2..=seeds).map(|seed| plan(contender, seed)));
    }
    play(cell, &mut planned, threads, progress)?;
    // With a fault that comes and goes the length is part of the figures.
    let rounds = if cell.phase().is_some() {
        0
    } else {
        ROUNDS_MAX
    };
    for _ in 0..rounds {
        lengthen(cell, &mut planned, &chosen);
        if !planned.iter().any(|planned| planned.is_wanted) {
            break;
        }
        play(cell, &mut planned, threads, progress)?;
    }
    let measured = contenders.iter().enumerate().map(|(at, contender)| {
        let of_it = || planned.iter().filter(|planned| planned.contender == at);
        let first = of_it().find_map(|planned| planned.first.clone());
        Measured {
            policy: contender.to_string(),
            samples: of_it().filter_map(|one| one.sample.clone()).collect(),
            first: first.expect("everybody was run"),
        }
    });
    Ok(measured.collect())
}

/// Runs what is wanted.
fn play(
    cell: &Cell,
    planned: &mut [Planned],
    threads: usize,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<(), RunError> {
    let wanted = planned.iter_mut().filter(|planned| planned.is_wanted);
    let mut wanted: Vec<&mut Planned> = wanted.collect();
    let runs: Vec<Run> = wanted.iter().map(|planned| planned.run.clone()).collect();
    let mut outcome = Ok(());
    run_all(&runs, threads, progress, |index, result| match result {
        Ok(result) => {
            let sample = Sample::of(cell, &runs[index].scenario, &result);
            wanted[index].first.get_or_insert_with(|| sample.clone());
            wanted[index].sample = Some(sample);
            wanted[index].is_wanted = false;
            ControlFlow::Continue(())
        }
        Err(error) => {
            outcome = Err(error);
            ControlFlow::Break(())
        }
    });
    outcome
}

/// Which contenders are measured with more than one run: those near the best, and `of`. Not the
/// oracle, which takes many times as long and is a scale.
fn worthwhile(planned: &[Planned], of: &Contender) -> Vec<usize> {
    let total = |sample: &Sample| sample.jobs.iter().map(|job| job.score).product::<f64>();
    let is_other = |planned: &&Planned| planned.run.contender.to_string() != ORACLE;
    let samples = planned.iter().filter(is_other);
    let totals = samples.filter_map(|planned| planned.sample.as_ref().map(total));
    let best = totals.fold(0.0, f64::max);
    let is_chosen = |planned: &&Planned| {
        planned.sample.as_ref().is_some_and(|sample| {
            let jobs = i32::try_from(sample.jobs.len()).expect("a cell has few jobs");
            let is_near = total(sample) >= best * WORTHWHILE.powi(jobs);
            planned.run.contender == *of || (is_near && is_other(planned))
        })
    };
    let chosen = planned.iter().filter(is_chosen);
    chosen.map(|planned| planned.contender).collect()
}

/// Wants all runs of the chosen contenders again where one of them was too short, all of the same
/// length: drives are not what they were when they have been written to for long.
fn lengthen(cell: &Cell, planned: &mut [Planned], chosen: &[usize]) {
    let mut of_chosen: Vec<&mut Planned> = planned
        .iter_mut()
        .filter(|planned| chosen.contains(&planned.contender))
        .collect();
    let samples = of_chosen
        .iter()
        .filter_map(|planned| planned.sample.as_ref());
    let wanted = samples.map(|sample| sample.seconds_wanted(cell));
    let Some(seconds) = wanted.max() else {
        return;
    };
    for planned in &mut of_chosen {
        if planned
            .sample
            .as_ref()
            .is_some_and(|sample| sample.seconds < seconds)
        {
            let mut scenario = Scenario::clone(&planned.run.scenario);
            scenario.seconds = seconds;
            planned.run.scenario = Arc::new(scenario);
            planned.is_wanted = true;
        }
    }
}

impl Sample {
    pub(super) fn of(cell: &Cell, scenario: &Scenario, result: &RunResult) -> Self {
        let jobs = scenario.jobs.iter().zip(&result.jobs);
        let jobs = jobs.filter(|(job, _)| job.counts());
        let jobs = jobs.map(|(job, moved)| {
            let is_closed = job.arrival.is_closed();
            JobSample::of(moved, is_closed, result.seconds)
        });
        let jobs: Vec<JobSample> = jobs.collect();
        // How much comes is not the policy's doing otherwise.
        let phase = cell
            .phase()
            .filter(|_| jobs.iter().all(|job| job.is_closed));
        Self {
            jobs,
            precision: precision(&result.series),
            leg_reads: result.legs.iter().map(|leg| leg.reads).collect(),
            extra: result.extra_read_fraction(),
            errors: result.errors,
            phases: phase.map(|phase| Phases::of(phase, &result.series)),
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
    pub(super) fn of(result: &JobResult, is_closed: bool, seconds: Duration) -> Self {
        let iops = result.read.iops(seconds) + result.write.iops(seconds);
        let bw_bytes = result.read.bw_bytes(seconds) + result.write.bw_bytes(seconds);
        let mean_s = mean_s(result);
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
            mean_s,
            reads: result.read.response_time_ns().clone(),
        }
    }
}

/// How long a job's requests took on average, in seconds. Those that still wait in the end count
/// with what they have waited by then: who leaves the rest in a queue for minutes is not faster by
/// that.
fn mean_s(result: &JobResult) -> f64 {
    let answered = [&result.read, &result.write].map(Moved::response_time_ns);
    let waiting = result.unanswered;
    let spent = answered.map(|times| times.mean() * times.count() as f64);
    let count = answered.map(Histogram::count).iter().sum::<u64>() + waiting.ios;
    (spent.iter().sum::<f64>() + waiting.waited_ns as f64) / 1e9 / count.max(1) as f64
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

#[cfg(test)]
mod tests {
    use heliostat_sim::{JobResult, Moved, Series, SeriesMoved, SeriesPoint, Unanswered};
    use heliostat_types::Duration;

    use super::{JobSample, Phase, Phases, bytes_between, precision};

    /// Intervals of half a second with these bytes read.
    fn series(bytes: &[u64]) -> Series {
        let points = bytes.iter().map(|&bytes| SeriesPoint {
            length: Duration::from_ms(500),
            read: SeriesMoved {
                bytes,
                ..SeriesMoved::default()
            },
            ..SeriesPoint::default()
        });
        Series {
            interval: Duration::from_ms(500),
            points: points.collect(),
        }
    }

    #[test]
    fn parts_of_intervals_count_in_part() {
        let series = series(&[100, 200, 400]);
        assert_eq!(bytes_between(&series, 0.0, 1.5), 700.0);
        assert_eq!(bytes_between(&series, 0.25, 1.25), 50.0 + 200.0 + 200.0);
        assert_eq!(bytes_between(&series, 1.5, 9.0), 0.0);
    }

    #[test]
    fn what_is_done_around_a_fault() {
        // Full speed is 200 a second; a second of fault, then half a second until it is back.
        let mut bytes = vec![100, 100, 10, 10, 50];
        bytes.extend([100; 9]);
        let phase = Phase {
            begins: 1.0,
            ends: 2.0,
            seconds: 7.0,
        };
        let phases = Phases::of(phase, &series(&bytes));
        assert_eq!((phases.before, phases.during), (200.0, 20.0));
        assert!((phases.after - 190.0).abs() < 1e-9);
    }

    #[test]
    fn reads_that_still_wait_count_as_long_as_they_have_waited() {
        let mut read = Moved::default();
        for _ in 0..3 {
            read.times.record(Duration::from_ms(10));
        }
        let unanswered = Unanswered {
            ios: 1,
            waited_ns: 970_000_000,
        };
        let job = JobResult {
            name: "bursts".to_owned(),
            read,
            write: Moved::default(),
            unanswered,
            leg_time: Duration::ZERO,
        };
        let seconds = Duration::from_secs(1);
        let score = JobSample::of(&job, false, seconds).score;
        assert!((score - 4.0).abs() < 1e-3, "{score}: four reads in 1 s");
    }

    #[test]
    fn how_well_a_rate_is_known() {
        assert_eq!(precision(&series(&[100; 40])), 0.0);
        // Batches of one interval; the standard deviation is 10 * sqrt(20 / 19).
        let moving: Vec<u64> = (0..20).map(|at| 90 + 20 * (at % 2)).collect();
        let expected = 2.093 * 10.0 / 19.0_f64.sqrt() / 100.0;
        assert!((precision(&series(&moving)) - expected).abs() < 1e-9);
        assert_eq!(precision(&series(&[])), 1.0);
    }
}
