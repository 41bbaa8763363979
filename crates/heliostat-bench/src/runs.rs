//! Many runs on several threads, their results in order.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use heliostat_policy::ReadPolicy;
use heliostat_sim::{CheckFailure, RunError, RunResult, Scenario, Simulation};

use crate::contender::Contender;

/// A scenario under a policy, not yet run.
#[derive(Clone, Debug)]
pub struct Run {
    /// What is simulated.
    pub scenario: Arc<Scenario>,
    /// Under which policy.
    pub contender: Contender,
}

/// What happens while runs run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// The run with this index began.
    Began(usize),
    /// Of this run so much virtual time has passed, from 0 to 1.
    Passed(usize, f64),
    /// This run ended, well or not.
    Ended(usize),
}

/// How many steps of a simulation lie between two reports of its progress: some milliseconds.
const STEPS_PER_REPORT: u32 = 8192;

impl Run {
    /// Runs it to its end, or until `stop` is set, which gives `None`. `wrap` may put something
    /// round the policy that listens.
    ///
    /// # Errors
    /// Where the policy does not fit, or a checker finds a bug.
    pub fn run(
        &self,
        wrap: impl FnOnce(Box<dyn ReadPolicy>) -> Box<dyn ReadPolicy>,
        stop: &AtomicBool,
        mut progress: impl FnMut(f64),
    ) -> Option<Result<RunResult, RunError>> {
        let policy = self.contender.policy();
        let mut simulation = match Simulation::with_listener(&self.scenario, policy, wrap) {
            Ok(simulation) => simulation,
            Err(error) => return Some(Err(error)),
        };
        let mut steps = 0u32;
        while simulation.step() {
            steps += 1;
            if steps.is_multiple_of(STEPS_PER_REPORT) {
                if stop.load(Ordering::Relaxed) {
                    return None;
                }
                progress(simulation.progress());
                steps = 0;
            }
        }
        if let Some(error) = simulation.input_error() {
            return Some(Err(error));
        }
        // Called what its user called it, in good times and bad.
        let name = self.contender.to_string();
        Some(match simulation.finish() {
            Ok(result) => Ok(RunResult {
                policy: name,
                ..result
            }),
            Err(failure) => Err(RunError::Check(Box::new(CheckFailure {
                policy: name,
                ..failure
            }))),
        })
    }
}

/// Runs all of `runs` on `threads` threads. `each` gets the results in the order of `runs`, as soon
/// as they are there; where it breaks, nothing more is run. Runs know nothing of each other, so
/// their figures do not depend on how many threads there are.
///
/// # Panics
/// Where a run panics.
pub fn run_all(
    runs: &[Run],
    threads: usize,
    progress: &(dyn Fn(Progress) + Sync),
    each: impl FnMut(usize, Result<RunResult, RunError>) -> ControlFlow<()>,
) {
    let work = |index: usize, stop: &AtomicBool| {
        progress(Progress::Began(index));
        let passed = |share| progress(Progress::Passed(index, share));
        let result = runs[index].run(|picker| picker, stop, passed)?;
        progress(Progress::Ended(index));
        Some(result)
    };
    in_order(runs.len(), threads, work, each);
}

/// Does `work` for each number below `count` on `threads` threads. `each` gets what comes of it by
/// rising number, as soon as it is there; where it breaks, no more is begun, and `work` may end
/// without a result.
pub(crate) fn in_order<T: Send>(
    count: usize,
    threads: usize,
    work: impl Fn(usize, &AtomicBool) -> Option<T> + Sync,
    mut each: impl FnMut(usize, T) -> ControlFlow<()>,
) {
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let (sender, receiver) = mpsc::channel();
    let work_on = |sender: mpsc::Sender<_>| {
        while !stop.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return;
            }
            let Some(result) = work(index, &stop) else {
                return;
            };
            if sender.send((index, result)).is_err() {
                return;
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, count.max(1)) {
            let sender = sender.clone();
            scope.spawn(|| work_on(sender));
        }
        drop(sender);
        let mut early = BTreeMap::new();
        let mut expected = 0;
        for (index, result) in receiver {
            early.insert(index, result);
            while let Some(result) = early.remove(&expected) {
                if each(expected, result).is_break() {
                    stop.store(true, Ordering::Relaxed);
                    return;
                }
                expected += 1;
            }
        }
    });
}

/// Which part of many runs is done here: every `count`-th, beginning with number `index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 1 to `count`.
    pub index: usize,
    /// How many parts there are.
    pub count: usize,
}

impl Shard {
    /// The one part that is all.
    pub const ALL: Self = Self { index: 1, count: 1 };

    /// Whether the run with the index `run`, from 0, belongs to it.
    #[must_use]
    pub const fn has(self, run: usize) -> bool {
        run % self.count == self.index - 1
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(index, count)| {
            let count = count.parse().ok()?;
            let index = index.parse().ok()?;
            (1..=count)
                .contains(&index)
                .then_some(Self { index, count })
        });
        numbers.ok_or_else(|| "is not i/n with i from 1 to n, as in 1/4".to_owned())
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

#[cfg(test)]
mod tests;
