//! What waits on one account, and what it has had.

use std::collections::VecDeque;

use heliostat_types::{Instant, OpKind};

use super::is_read;
use crate::job::{Class, FlowLimits, Job, Side};
use crate::line::{Key, Line};

/// The most jobs of one turn.
const TURN_MAX: f64 = 256.0;
/// How much the last operation weighs in what operations of a flow are taken to cost.
const LEARNED_PART: f64 = 1.0 / 16.0;

/// How much less a flow may be charged, and how much more: 1.5 times less than another one at most.
const HURRY_MAX: f64 = 1.225;

const URGENT: usize = 0;
const READS: usize = 1;
const WRITES: usize = 2;

/// What operations of one direction have cost.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    /// In ns of device time; 0: nothing is known.
    ns: f64,
    bytes: f64,
}

/// One flow.
#[derive(Debug)]
pub(super) struct Flow {
    /// Of the usual weight, a part or a multiple.
    weight: f64,
    /// Device time in ns, divided by the weight, on the common scale of all flows.
    had: f64,
    /// Where it began when it was last idle.
    began: f64,
    /// What it is charged less by because it has much waiting, to [`HURRY_MAX`]; below 1: more.
    hurry: f64,
    /// How many of its jobs the device has.
    pub(super) in_device: usize,
    lines: [Line; 3],
    /// What is left of the turn of each: the jobs that had waited longest when it began, by place.
    sweeps: [VecDeque<Key>; 3],
    /// Where the last job ended.
    head: u64,
    costs: [Cost; 3],
    /// For how many jobs reads have passed writes.
    passed: u32,
}

impl Flow {
    pub(super) fn new(weight: u32, had: f64) -> Self {
        let mut flow = Self {
            weight: 1.0,
            had,
            began: had,
            hurry: 1.0,
            in_device: 0,
            lines: [Line::default(), Line::default(), Line::default()],
            sweeps: [VecDeque::new(), VecDeque::new(), VecDeque::new()],
            head: 0,
            costs: [Cost::default(); 3],
            passed: 0,
        };
        flow.set_weight(weight);
        flow
    }

    pub(super) fn set_weight(&mut self, weight: u32) {
        let weight = weight.clamp(1, FlowLimits::WEIGHT_MAX);
        self.weight = f64::from(weight) / f64::from(FlowLimits::WEIGHT_DEFAULT);
    }

    /// What it has had, for its weight.
    pub(super) const fn had(&self) -> f64 {
        self.had
    }

    /// It was idle: it has saved up nothing.
    pub(super) const fn begin_at(&mut self, floor: f64) {
        self.had = self.had.max(floor);
        self.began = self.had;
    }

    /// Whether it was idle and has not had a turn of this length since.
    pub(super) fn is_new(&self, quantum: f64) -> bool {
        self.had < self.began + quantum
    }

    /// The device time of all that waits, in ns, as far as is known.
    pub(super) fn backlog(&self, usual: f64) -> f64 {
        let lines = self.lines.iter().zip(&self.costs);
        let times = lines.map(|(line, cost)| {
            let ns = if cost.ns > 0.0 { cost.ns } else { usual };
            line.len() as f64 * ns
        });
        times.sum()
    }

    /// When its oldest job came.
    pub(super) fn oldest_at(&self) -> Instant {
        let oldest = self.lines.iter().filter_map(Line::oldest);
        let arrived = oldest.map(|(_, job)| job.arrived);
        arrived.min().unwrap_or(Instant::MAX)
    }

    /// It is to be charged less the more it has waiting against the average flow, and more the
    /// less.
    pub(super) fn hurry(&mut self, usual: f64, average: f64) {
        let share = self.backlog(usual) / average.max(1.0);
        self.hurry = share.clamp(1.0 / HURRY_MAX, HURRY_MAX);
    }

    /// It has had so much more, or less.
    pub(super) fn charge(&mut self, ns: f64) {
        self.had += ns / (self.weight * self.hurry);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.iter().all(Line::is_empty)
    }

    pub(super) fn len(&self) -> usize {
        self.lines.iter().map(Line::len).sum()
    }

    /// How many of its jobs go before writes.
    pub(super) fn reads(&self) -> usize {
        self.lines[URGENT].len() + self.lines[READS].len()
    }

    /// Whether what it would do next goes before writes of others.
    pub(super) fn wants_to_read(&self) -> bool {
        self.reads() > 0
    }

    pub(super) fn insert(&mut self, number: u64, job: Job) {
        self.lines[line_of(&job)].insert(number, job);
    }

    /// The line that its next job is in.
    fn line(&self, starved: u32, per_turn: usize) -> usize {
        let limit = starved.saturating_mul(u32::try_from(per_turn).expect("a turn is short"));
        let is_starved = !self.lines[WRITES].is_empty() && self.passed >= limit.max(1);
        match () {
            () if !self.lines[URGENT].is_empty() && !is_starved => URGENT,
            () if !self.lines[READS].is_empty() && !is_starved => READS,
            () if !self.lines[WRITES].is_empty() => WRITES,
            () if !self.lines[READS].is_empty() => READS,
            () => URGENT,
        }
    }

    /// How many jobs of a line a turn has time for.
    fn per_turn(&self, line: usize, quantum: f64, usual: f64) -> usize {
        let cost = self.costs[line].ns;
        let cost = if cost > 0.0 { cost } else { usual };
        let count = (quantum / cost.max(1.0)).clamp(1.0, TURN_MAX);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is between 1 and 256"
        )]
        let count = count as usize;
        count
    }

    /// The job that goes next.
    pub(super) fn next(&mut self, quantum: f64, starved: u32, usual: f64) -> Job {
        let per_turn = self.per_turn(WRITES, quantum, usual);
        let line = self.line(starved, per_turn);
        let count = self.per_turn(line, quantum, usual);
        if self.sweeps[line].is_empty() {
            self.sweeps[line] = self.lines[line].sweep(count, self.head);
        }
        let key = self.sweeps[line].front();
        let key = key.expect("a line that is not empty has a next job");
        self.lines[line].get(*key)
    }

    pub(super) fn take(&mut self, quantum: f64, starved: u32, usual: f64) -> Job {
        self.next(quantum, starved, usual);
        let per_turn = self.per_turn(WRITES, quantum, usual);
        let line = self.line(starved, per_turn);
        let key = self.sweeps[line].pop_front();
        let job = self.lines[line].remove(key.expect("it was just looked at"));
        if line == WRITES {
            // A turn of writes is over: reads may pass again.
            if self.sweeps[line].is_empty() {
                self.passed = 0;
            }
        } else if !self.lines[WRITES].is_empty() {
            self.passed = self.passed.saturating_add(1);
        }
        self.head = job.extent.end();
        job
    }

    pub(super) fn adjoining(&self, first: &Job, side: Side) -> Option<Job> {
        let line = &self.lines[line_of(first)];
        line.adjoining(first, side).map(|(_, job)| job)
    }

    /// Takes a job out that is named.
    pub(super) fn take_out(&mut self, job: &Job) {
        let line = line_of(job);
        let key = self.lines[line].key_of(job);
        self.sweeps[line].retain(|one| *one != key);
        self.lines[line].remove(key);
    }

    /// What a job is expected to take, in ns: more than the usual one where it is larger, though
    /// not in proportion.
    pub(super) fn cost_of(&self, job: &Job, usual: f64) -> f64 {
        let cost = self.costs[line_of(job)];
        if cost.ns <= 0.0 {
            return usual;
        }
        let share = if cost.bytes > 0.0 {
            job.extent.len() as f64 / cost.bytes
        } else {
            1.0
        };
        cost.ns * (1.0 + share.min(64.0)) / 2.0
    }

    /// A job has taken so much.
    pub(super) fn learn(&mut self, job: &Job, ns: f64) {
        let cost = &mut self.costs[line_of(job)];
        if cost.ns <= 0.0 {
            cost.ns = ns;
            cost.bytes = job.extent.len() as f64;
            return;
        }
        cost.ns += (ns - cost.ns) * LEARNED_PART;
        cost.bytes += (job.extent.len() as f64 - cost.bytes) * LEARNED_PART;
    }

    pub(super) fn retain(&mut self, is_kept: &dyn Fn(&Job) -> bool) {
        for (line, sweep) in self.lines.iter_mut().zip(&mut self.sweeps) {
            line.retain(is_kept);
            sweep.retain(|key| line.contains(*key));
        }
    }

    pub(super) fn drain(&mut self) -> Vec<(u64, Job)> {
        self.sweeps.iter_mut().for_each(VecDeque::clear);
        self.lines.iter_mut().flat_map(Line::drain).collect()
    }
}

fn line_of(job: &Job) -> usize {
    match (job.class, job.kind) {
        (Class::Urgent, _) => URGENT,
        (_, OpKind::Read | OpKind::BlockStatus) => {
            debug_assert!(is_read(job), "both sides call the same things reads");
            READS
        }
        (_, OpKind::Write | OpKind::Trim | OpKind::WriteZeroes | OpKind::Flush) => WRITES,
    }
}
