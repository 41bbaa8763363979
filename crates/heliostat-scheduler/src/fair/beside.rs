//! Where a job waits that goes to the device, and what lies right beside it and can go with it as
//! one.

use super::round::direction_of;
use super::{Choice, Fair, sparse};
use crate::costs::Costs;
use crate::job::{Class, Job, Side};
use crate::line::Key;

/// Where a job is that goes with another one.
#[derive(Clone, Copy, Debug)]
enum Beside {
    Background(Key),
    Sparse(sparse::Key),
    InRound(usize, Key),
}

impl Fair {
    /// What was chosen.
    pub(super) fn job_of(&self, choice: Choice) -> Job {
        let oldest = match choice {
            Choice::Array => self.urgent.front().map(|(_, job)| *job),
            Choice::Background => self.background.line.oldest().map(|(_, job)| job),
            Choice::Sparse(key) => Some(self.sparse.get(key)),
            Choice::InRound(direction, key) => Some(self.round.lines[direction].get(key)),
        };
        oldest.expect("one was chosen")
    }

    /// What goes with this one: where that is, and the job.
    fn beside(&self, first: &Job, side: Side) -> Option<(Beside, Job)> {
        match first.class {
            Class::Background => {
                let found = self.background.line.adjoining(first, side);
                return found.map(|(key, job)| (Beside::Background(key), job));
            }
            Class::Urgent => return None,
            Class::Read | Class::Write => {}
        }
        let direction = direction_of(first);
        if let Some((key, job)) = self.round.lines[direction].adjoining(first, side) {
            return Some((Beside::InRound(direction, key), job));
        }
        let (key, job) = self.sparse.adjoining(first, side)?;
        Some((Beside::Sparse(key), job))
    }

    pub(crate) fn adjoining(&self, first: &Job, side: Side) -> Option<Job> {
        self.beside(first, side).map(|(_, job)| job)
    }

    /// Takes a job out that goes with another one.
    pub(crate) fn take_adjoining(
        &mut self,
        first: &Job,
        side: Side,
        costs: &mut Costs,
    ) -> Option<Job> {
        let (place, job) = self.beside(first, side)?;
        self.chosen = None;
        match place {
            Beside::Background(key) => {
                self.background.line.remove(key);
            }
            Beside::Sparse(key) => {
                self.sparse.remove(key);
            }
            Beside::InRound(direction, key) => {
                self.round.lines[direction].remove(key);
                if self.sweeps {
                    // What goes before the sweep takes it nowhere.
                    self.round.heads[direction] = self.round.heads[direction].max(key.0);
                }
            }
        }
        let asked = self.begun(&job, matches!(place, Beside::InRound(..)), true, costs);
        self.meter
            .join(&job, asked, self.expected_ns(&asked, costs));
        Some(job)
    }
}
