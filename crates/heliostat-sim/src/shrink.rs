//! Makes a scenario that fails smaller while it fails in the same way, so that somebody can see
//! what the failure needs.
//!
//! Greedy: every pass proposes simpler trials, the first that still fails is taken, and when no
//! pass finds anything any more, or the runs are spent, what is left is the answer. Each step makes
//! something smaller, plainer or fewer, so that it ends.

mod passes;

use std::collections::BTreeSet;

use self::passes::PASSES;
use crate::planted::Plant;
use crate::simulation::CheckFailure;
use crate::trial::Trial;

/// What is left of a failing trial.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The smallest one that was found.
    pub trial: Trial,
    /// How it fails.
    pub failure: Box<CheckFailure>,
    /// How many trials were played.
    pub runs: u32,
}

/// Steps that every trial is given, however few the first failure took: a leg that is faulted for
/// its silence takes some.
const STEPS_MIN: u64 = 1_000_000;

impl Trial {
    /// Makes it smaller with at most `runs_max` runs, where `failure` is what came of it.
    #[must_use]
    pub fn shrink(&self, failure: &CheckFailure, runs_max: u32) -> Shrunk {
        self.shrink_planted(failure, None, runs_max)
    }

    /// The same where the failure comes from a bug on purpose.
    pub(crate) fn shrink_planted(
        &self,
        failure: &CheckFailure,
        planted: Option<Plant>,
        runs_max: u32,
    ) -> Shrunk {
        let play = |trial: &Self| {
            let outcome = trial.try_play(needs_two_runs(failure), planted, STEPS_MIN)?;
            outcome.err()
        };
        shrink_with(self, failure, runs_max, play)
    }
}

/// Whether it takes a second run to see it.
fn needs_two_runs(failure: &CheckFailure) -> bool {
    failure.text == crate::trial::RUNS_DIFFER
}

/// Makes `trial` smaller while `play` gives a failure of the same kind as `failure`.
fn shrink_with(
    trial: &Trial,
    failure: &CheckFailure,
    runs_max: u32,
    mut play: impl FnMut(&Trial) -> Option<Box<CheckFailure>>,
) -> Shrunk {
    let wanted = kind(&failure.text);
    let mut best = Shrunk {
        trial: trial.clone(),
        failure: Box::new(failure.clone()),
        runs: 0,
    };
    let mut tried = BTreeSet::from([trial.to_text("")]);
    loop {
        let mut is_done = true;
        for pass in PASSES {
            while let Some((trial, failure)) = pass(&best.trial, &best.failure)
                .into_iter()
                .filter(|trial| tried.insert(trial.to_text("")))
                .find_map(|trial| {
                    if best.runs == runs_max {
                        return None;
                    }
                    best.runs += 1;
                    let failure = play(&trial)?;
                    (kind(&failure.text) == wanted).then_some((trial, failure))
                })
            {
                (best.trial, best.failure) = (trial, failure);
                is_done = false;
            }
        }
        if is_done || best.runs == runs_max {
            return best;
        }
    }
}

/// What a failure says without the figures that differ from run to run: two failures of one kind
/// were found by one checker.
fn kind(text: &str) -> String {
    let words = text.split(['{', '(', '\n']).next().unwrap_or_default();
    let mut kind = String::new();
    for c in words.chars() {
        if !c.is_ascii_digit() {
            kind.push(c);
        } else if !kind.ends_with('#') {
            kind.push('#');
        }
    }
    kind
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Duration, Instant};

    use super::{Shrunk, Trial, kind, shrink_with};
    use crate::faults::Effect;
    use crate::simulation::CheckFailure;

    fn failure(text: &str) -> Box<CheckFailure> {
        Box::new(CheckFailure {
            scenario: String::new(),
            policy: String::new(),
            seed: 1,
            at: Instant::ZERO + Duration::from_ms(40),
            text: text.to_owned(),
            events: String::new(),
        })
    }

    /// A random trial with much in it that is not needed.
    fn rich(is_rich: impl Fn(&Trial) -> bool) -> Trial {
        let mut trials = (1_000..3_000).map(Trial::random);
        trials.find(is_rich).expect("one of so many is so")
    }

    #[test]
    fn kinds_leave_figures_out() {
        assert_eq!(
            kind("leg 1 and leg 12 differ in sector 77"),
            kind("leg 0 and leg 2 differ in sector 5")
        );
        assert_eq!(
            kind("still in flight: LegOp { id: 7 }"),
            kind("still in flight: LegOp { id: 9 }")
        );
        assert_ne!(kind("a request was never answered"), kind("answered twice"));
    }

    #[test]
    fn what_a_failure_needs_stays_and_nothing_else() {
        let is_torn = |trial: &Trial| {
            let mut faults = trial.scenario.faults.iter();
            faults.any(|fault| matches!(fault.effect, Some(Effect::TornWrite(_))))
        };
        let writes = |trial: &Trial| trial.scenario.jobs.iter().any(crate::Job::has_writes);
        let trial = rich(|trial| {
            let scenario = &trial.scenario;
            is_torn(trial)
                && writes(trial)
                && scenario.faults.len() > 2
                && scenario.jobs.len() > 2
                && scenario.array.legs.len() > 3
        });
        let mut played = 0;
        let shrunk = shrink_with(&trial, &failure("sector 7 is torn"), 1_000, |trial| {
            played += 1;
            trial.scenario.check().ok()?;
            let fails = is_torn(trial) && writes(trial) && trial.scenario.array.legs.len() > 1;
            // Everything fails somehow: only the same failure counts.
            Some(failure(if fails {
                "sector 99 is torn"
            } else {
                "it is another one"
            }))
        });
        let Shrunk {
            trial,
            failure,
            runs,
        } = shrunk;
        let scenario = &trial.scenario;
        assert_eq!(failure.text, "sector 99 is torn");
        assert_eq!((scenario.faults.len(), scenario.jobs.len()), (1, 1));
        assert_eq!(scenario.array.legs.len(), 2);
        assert_eq!(trial.policy.to_string(), "pid");
        assert_eq!((scenario.jobs[0].iodepth, scenario.jobs[0].numjobs), (1, 1));
        assert!(scenario.array.legs.iter().all(|leg| leg.model == "ram"));
        assert!(
            scenario.seconds <= Duration::from_ms(1),
            "{:?}",
            scenario.seconds
        );
        assert_eq!(runs, played);
    }

    #[test]
    fn the_budget_is_kept_and_what_needs_everything_stays() {
        let trial = rich(|trial| trial.scenario.faults.len() > 1);
        let shrunk = shrink_with(&trial, &failure("a"), 7, |_| Some(failure("a")));
        assert_eq!(shrunk.runs, 7);
        let shrunk = shrink_with(&trial, &failure("a"), 10_000, |_| None);
        assert_eq!(shrunk.trial.to_text(""), trial.to_text(""));
        assert!(shrunk.runs < 10_000);
    }
}
