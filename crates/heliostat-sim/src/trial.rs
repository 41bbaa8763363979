//! One try to find a bug: a scenario, the policy that it is run under, and what came of it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use heliostat_types::Instant;

use crate::contents::Fidelity;
use crate::planted::{Plant, Planted};
use crate::result::RunResult;
use crate::scenario::Scenario;
use crate::sim_policy::SimPolicy;
use crate::simulation::{CheckFailure, Simulation};

/// A scenario and the policy that it is run under.
#[derive(Clone, Debug)]
pub struct Trial {
    /// What is played.
    pub scenario: Scenario,
    /// Who chooses legs.
    pub policy: SimPolicy,
}

/// What is said where two runs of one trial are not alike.
pub(crate) const RUNS_DIFFER: &str = "two runs of it differ";

/// What came of a trial that was not refused.
type Outcome = Result<RunResult, Box<CheckFailure>>;

impl Trial {
    /// Plays it once, or twice where runs are to be compared.
    ///
    /// # Errors
    /// What a checker found, or an assertion that failed.
    ///
    /// # Panics
    /// Where the scenario makes no sense.
    pub fn play(&self, doublecheck: bool) -> Result<RunResult, Box<CheckFailure>> {
        match self.try_play(doublecheck, None, u64::MAX) {
            Some(outcome) => outcome,
            None => panic!(
                "scenario {} makes no sense: {:?}",
                self.scenario.seed,
                self.scenario.check()
            ),
        }
    }

    /// Plays it with a bug, where there is one; `None` where the scenario makes no sense, or takes
    /// more than `steps_max` steps.
    pub(crate) fn try_play(
        &self,
        doublecheck: bool,
        planted: Option<Plant>,
        steps_max: u64,
    ) -> Option<Outcome> {
        let of_run = |run| match planted {
            Some(Plant {
                bug: Planted::Nondeterminism { .. },
                ..
            }) => Some(Plant {
                bug: Planted::Nondeterminism { run },
                is_watched: true,
            }),
            planted => planted,
        };
        let first = match self.play_once(of_run(0), steps_max)? {
            Ok(result) => result,
            failed => return Some(failed),
        };
        if !doublecheck {
            return Some(Ok(first));
        }
        let differs = match self.play_once(of_run(1), steps_max)? {
            Ok(second) => second.trace_hash != first.trace_hash,
            Err(_) => true,
        };
        if !differs {
            return Some(Ok(first));
        }
        let mut simulation = Simulation::new(&self.scenario, &self.policy).ok()?;
        simulation.fail(RUNS_DIFFER.to_owned());
        Some(simulation.finish().map_err(Box::new))
    }

    fn play_once(&self, planted: Option<Plant>, steps_max: u64) -> Option<Outcome> {
        let mut simulation = Simulation::new(&self.scenario, &self.policy).ok()?;
        if let Some(planted) = planted {
            simulation.plant(planted);
        }
        // An assertion that fails somewhere inside must not take the seed and the events with it.
        let mut left = steps_max;
        let steps = AssertUnwindSafe(|| {
            while left > 0 && simulation.step() {
                left -= 1;
            }
        });
        if let Err(panic) = catch_unwind(steps) {
            simulation.fail(words_of(&*panic));
        }
        if left == 0 {
            return None;
        }
        let finish = AssertUnwindSafe(|| simulation.finish().map_err(Box::new));
        Some(catch_unwind(finish).unwrap_or_else(|panic| {
            Err(Box::new(CheckFailure {
                scenario: self.scenario.name.clone(),
                policy: self.policy.to_string(),
                seed: self.scenario.seed,
                at: Instant::ZERO + self.scenario.warmup_seconds + self.scenario.seconds,
                text: words_of(&*panic),
                events: String::new(),
            }))
        }))
    }

    /// It as a scenario file; the comment at its top is `shows`, and how to run it.
    #[must_use]
    pub fn to_text(&self, shows: &str) -> String {
        let mut text = String::new();
        for line in shows.lines() {
            text.push_str(&format!("# {line}\n"));
        }
        let option = match self.scenario.fidelity {
            Fidelity::Bytes => " --check-bytes",
            Fidelity::Stamps => "",
        };
        text.push_str(&format!("# Run with: heliostat sim{option} FILE\n\n"));
        text + &self.scenario.to_text(&self.policy)
    }
}

/// What an assertion that failed had to say.
fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let literal = panic.downcast_ref::<&str>().copied();
    text.unwrap_or_else(|| literal.unwrap_or("a panic").to_owned())
}
