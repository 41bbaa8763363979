//! Runs points: every one in every scenario with every seed.

use std::ops::ControlFlow;
use std::sync::Arc;

use heliostat_policy::PolicySpec;
use heliostat_sim::{RunError, Scenario};
use heliostat_types::RandomStream;
use thiserror::Error;

use super::axis::Axis;
use super::objective::Objective;
use super::score::Scored;
use super::search::{Method, Point, grid_size, search};
use super::verdict::Verdict;
use crate::contender::Contender;
use crate::runs::{Progress, Run, run_all};

/// What is to be tuned, for what, and how thoroughly.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// What points are tried on.
    pub on: TunedOn,
    /// The policy with the values that all others are compared with.
    pub policy: PolicySpec,
    /// What is swept; at least one.
    pub axes: Vec<Axis>,
    /// What is to be made large or small.
    pub objective: Objective,
    /// How many seeds each point is run with in each scenario, from the scenario's own on, or how
    /// many rounds there are of all points and jobs.
    pub repeats: u64,
    /// At most so many runs; `None` for all of a grid of one or two tunables, and
    /// [`Tuning::POINTS`] points where there are more.
    pub runs_max: Option<usize>,
    /// How many runs at a time; changes no figure.
    pub threads: usize,
}

/// What points are tried on; at least one of them.
#[derive(Clone, Debug)]
pub enum TunedOn {
    /// What is simulated, with several seeds.
    Scenarios(Vec<Scenario>),
    /// What is run on an array that is served, several times.
    Jobs(Vec<String>),
}

impl TunedOn {
    /// What they are called.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::Scenarios(scenarios) => scenarios.iter().map(|one| one.name.as_str()).collect(),
            Self::Jobs(jobs) => jobs.iter().map(String::as_str).collect(),
        }
    }

    /// The word for one of them.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Scenarios(_) => "scenario",
            Self::Jobs(_) => "job",
        }
    }

    /// The word for what is done several times, and the option that says how often.
    #[must_use]
    pub const fn repeated(&self) -> (&'static str, &'static str) {
        match self {
            Self::Scenarios(_) => ("seed", "--seeds"),
            Self::Jobs(_) => ("round", "--repeats"),
        }
    }
}

/// What came of tuning.
#[derive(Clone, Debug)]
pub struct Tuned {
    /// How points were chosen.
    pub method: Method,
    /// The points in the order in which they were tried; the default is the first.
    pub points: Vec<Scored>,
    /// What is best.
    pub verdict: Verdict,
}

/// Why nothing came of it.
#[derive(Debug, Error)]
pub enum TuneError {
    /// A run failed.
    #[error("{scenario} under {policy}: {error}")]
    Run {
        /// The scenario's name.
        scenario: String,
        /// The policy with its values.
        policy: String,
        /// Why.
        error: RunError,
    },
    /// The default has no figure to compare others with.
    #[error(
        "{scenario} under {policy}: no {what} were answered in the measured time, so there is \
         nothing to tune for; choose another --objective or a longer scenario"
    )]
    Nothing {
        /// The scenario's name.
        scenario: String,
        /// The policy with its values.
        policy: String,
        /// Reads or writes.
        what: &'static str,
    },
}

impl Tuning {
    /// How many points a search tries where nobody says how many runs it may take: a third of them
    /// are samples, and the rest goes about twice along five tunables of seven values.
    pub const POINTS: usize = 120;

    /// Up to so many tunables a grid is tried whole, however large.
    const GRID_AXES: usize = 2;

    /// How many runs one point takes.
    #[must_use]
    pub fn runs_per_point(&self) -> usize {
        let repeats = usize::try_from(self.repeats).unwrap_or(usize::MAX);
        self.on.names().len().saturating_mul(repeats)
    }

    /// How many points there are.
    #[must_use]
    pub fn grid_points(&self) -> u64 {
        grid_size(&self.values(), &self.default_point())
    }

    /// How many points are tried at most.
    #[must_use]
    pub fn points_max(&self) -> u64 {
        let most = match self.runs_max {
            Some(runs) => (runs / self.runs_per_point()).max(1) as u64,
            None if self.axes.len() <= Self::GRID_AXES => u64::MAX,
            None => Self::POINTS as u64,
        };
        most.min(self.grid_points())
    }

    /// Simulates it; nothing is tried where there are no scenarios. `progress` is told of runs by
    /// their place among all.
    ///
    /// # Errors
    /// Where a run fails, or the default has no figure.
    pub fn simulate(&self, progress: &(dyn Fn(Progress) + Sync)) -> Result<Tuned, TuneError> {
        let scenarios: &[Scenario] = match &self.on {
            TunedOn::Scenarios(scenarios) => scenarios,
            TunedOn::Jobs(_) => &[],
        };
        let seeded: Vec<Vec<Arc<Scenario>>> = scenarios
            .iter()
            .map(|scenario| {
                let seeds = (0..self.repeats).map(|n| scenario.seed.wrapping_add(n));
                let with_seed = |seed| {
                    Arc::new(Scenario {
                        seed,
                        ..scenario.clone()
                    })
                };
                seeds.map(with_seed).collect()
            })
            .collect();
        let mut first = 0;
        self.try_points(|fresh| {
            let shifted = |what| {
                progress(match what {
                    Progress::Began(index) => Progress::Began(first + index),
                    Progress::Passed(index, share) => Progress::Passed(first + index, share),
                    Progress::Ended(index) => Progress::Ended(first + index),
                });
            };
            let values = self.values_of(fresh, &seeded, &shifted);
            first += fresh.len() * self.runs_per_point();
            values
        })
    }

    /// Measures it: `measure` runs a job, by its place, under a policy. All points have their turn
    /// before the next round, so that what changes with time is not taken for a difference.
    ///
    /// # Errors
    /// The first of `measure`.
    pub fn measure<E>(
        &self,
        mut measure: impl FnMut(&PolicySpec, usize) -> Result<Option<f64>, E>,
    ) -> Result<Tuned, E> {
        let jobs = self.on.names().len();
        self.try_points(|fresh| {
            let mut values = vec![vec![Vec::new(); jobs]; fresh.len()];
            for _ in 0..self.repeats {
                for (point, values) in fresh.iter().zip(&mut values) {
                    let policy = self.policy_at(point);
                    for (job, values) in values.iter_mut().enumerate() {
                        values.push(measure(&policy, job)?);
                    }
                }
            }
            Ok(values)
        })
    }

    /// Tries points: `values_of` gives the objective of each, scenario by scenario and in each seed
    /// by seed.
    fn try_points<E>(
        &self,
        mut values_of: impl FnMut(&[Point]) -> Result<Vec<Vec<Vec<Option<f64>>>>, E>,
    ) -> Result<Tuned, E> {
        let mut points: Vec<Scored> = Vec::new();
        let mut evaluate = |fresh: &[Point]| {
            let before = points.len();
            let values = values_of(fresh)?;
            for (point, values) in fresh.iter().zip(values) {
                let default: Vec<Vec<Option<f64>>> = match points.first() {
                    Some(default) => default.values(),
                    None => values.clone(),
                };
                points.push(Scored::new(
                    self.objective,
                    point.clone(),
                    self.policy_at(point),
                    values,
                    &default,
                ));
            }
            Ok(points[before..].iter().map(|point| point.score).collect())
        };
        let points_max = usize::try_from(self.points_max()).ok();
        let seed = match &self.on {
            TunedOn::Scenarios(scenarios) => scenarios.first().map_or(0, |first| first.seed),
            TunedOn::Jobs(_) => 0,
        };
        let mut prng = RandomStream::new(seed, "tune", 0);
        let default = self.default_point();
        let found = search(
            &self.values(),
            &default,
            points_max,
            &mut prng,
            &mut evaluate,
        )?;
        Ok(Tuned {
            method: found.method,
            verdict: Verdict::of(&points),
            points,
        })
    }

    /// The objective of each of `points`, scenario by scenario and in each seed by seed.
    fn values_of(
        &self,
        points: &[Point],
        seeded: &[Vec<Arc<Scenario>>],
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Vec<Vec<Vec<Option<f64>>>>, TuneError> {
        let mut runs = Vec::new();
        for point in points {
            let text = self.policy_at(point).to_string();
            let contender = Contender::parse(&text).expect("what a policy shows is read back");
            runs.extend(seeded.iter().flatten().map(|scenario| Run {
                scenario: Arc::clone(scenario),
                contender: contender.clone(),
            }));
        }
        let default = self.policy.to_string();
        let mut values = Vec::new();
        let mut failure = None;
        run_all(&runs, self.threads, progress, |index, result| {
            let run = &runs[index];
            let scenario = run.scenario.name.clone();
            let policy = run.contender.to_string();
            match result {
                Ok(result) => {
                    let value = self.objective.value(&result);
                    if value.is_none() && policy == default {
                        let what = self.objective.side();
                        failure = Some(TuneError::Nothing {
                            scenario,
                            policy,
                            what,
                        });
                        return ControlFlow::Break(());
                    }
                    values.push(value);
                    ControlFlow::Continue(())
                }
                Err(error) => {
                    failure = Some(TuneError::Run {
                        scenario,
                        policy,
                        error,
                    });
                    ControlFlow::Break(())
                }
            }
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
        let mut seeds = values.chunks(seeded.first().map_or(1, Vec::len).max(1));
        let mut next = || seeds.next().unwrap_or_default().to_vec();
        Ok(points
            .iter()
            .map(|_| seeded.iter().map(|_| next()).collect())
            .collect())
    }

    /// The policy with the values of `point`.
    fn policy_at(&self, point: &[u64]) -> PolicySpec {
        let mut policy = self.policy;
        for (axis, &value) in self.axes.iter().zip(point) {
            let set = policy.set(axis.tunable.name, &axis.text(value));
            set.expect("an axis has values that its policy takes");
        }
        policy
    }

    /// The policies of all values of all axes, each with the others at their defaults: what an
    /// array has to be able to serve.
    pub fn policies(&self) -> impl Iterator<Item = PolicySpec> + '_ {
        let axes = self.axes.iter().enumerate();
        let one = axes.flat_map(move |(at, axis)| {
            axis.values.iter().map(move |&value| {
                let mut point = self.default_point();
                point[at] = value;
                self.policy_at(&point)
            })
        });
        std::iter::once(self.policy).chain(one)
    }

    fn values(&self) -> Vec<Vec<u64>> {
        self.axes.iter().map(|axis| axis.values.clone()).collect()
    }

    fn default_point(&self) -> Point {
        let axes = self.axes.iter();
        axes.map(|axis| self.policy.value(axis.tunable)).collect()
    }
}

impl Scored {
    /// The objective, scenario by scenario and in each seed by seed.
    fn values(&self) -> Vec<Vec<Option<f64>>> {
        let scenarios = self.scenarios.iter();
        scenarios.map(|scenario| scenario.values.clone()).collect()
    }
}

#[cfg(test)]
mod tests;
