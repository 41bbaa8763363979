//! What lies right beside a job that goes to the device, and can go with it as one.

use super::{Fair, direction_of, sparse};
use crate::costs::Costs;
use crate::job::{Class, Job, Side};
use crate::line::Key;

/// Where a job is that goes with another one.
#[derive(Clone, Copy, Debug)]
enum Beside {
    Background(Key),
    Sparse(sparse::Key),
    InRound(usize, Key),
    /// It is for a later round: the oldest of its flow behind the other one, the newest before it.
    Later,
}

impl Fair {
    /// What goes with this one: where that is, and the job.
    fn beside(&self, first: &Job, side: Side) -> Option<(Beside, Job)> {
        match first.class {
            Class::Background => {
                let found = self.background.adjoining(first, side);
                return found.map(|(key, job)| (Beside::Background(key), job));
            }
            Class::Urgent => return None,
            Class::Read | Class::Write => {}
        }
        let direction = direction_of(first);
        if let Some((key, job)) = self.round.lines[direction].adjoining(first, side) {
            return Some((Beside::InRound(direction, key), job));
        }
        if let Some((key, job)) = self.sparse.adjoining(first, side) {
            return Some((Beside::Sparse(key), job));
        }
        let later = &self.flows.get(&first.flow)?.later;
        let next = match side {
            Side::Back => later.front()?.job,
            Side::Front => later.back()?.job,
        };
        next.adjoins(first, side).then_some((Beside::Later, next))
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
                self.background.remove(key);
            }
            Beside::Sparse(key) => {
                self.sparse.remove(key);
            }
            Beside::InRound(direction, key) => {
                self.round.lines[direction].remove(key);
                self.round.heads[direction] = self.round.heads[direction].max(key.0);
            }
            Beside::Later => {
                let flow = self.flows.get_mut(&job.flow);
                let flow = flow.expect("who has jobs is known");
                match side {
                    Side::Back => flow.later.pop_front(),
                    Side::Front => flow.later.pop_back(),
                };
                flow.pay(self.asked[&job.op].ns);
            }
        }
        let is_before = matches!(place, Beside::Background(_) | Beside::Sparse(_));
        let asked = self.begun(&job, !is_before, true, costs);
        self.meter.join(&job, asked);
        Some(job)
    }
}
