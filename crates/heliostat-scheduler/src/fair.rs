//! `fair`: each flow its share of the device's time, by weight, whatever it asks for and however
//! much of it.
//!
//! * **Time, not operations.** What a flow is charged is the time the device spent on it, as its
//!   completions tell ([`Meter`]); until then, what its last operations have cost.
//! * **Turns.** Among the flows that are not ahead of the one that has had least for its weight by
//!   more than a turn, the one goes next whose oldest operation is oldest, so that the legs of a
//!   mirror do the same things at the same time. It goes with the operations that have waited
//!   longest, as many as a turn (`quantum`) has time for, sorted by place: a stream is a stream for
//!   a turn, and random operations are a sweep. A flow that was idle begins where the others are:
//!   it has saved up nothing, and what it did not use the others had. It goes first until it has
//!   had a turn, so that whoever asks for little is behind one turn and not behind all queues.
//! * **Reads first.** A flow that is not ahead of the others by more than a turn interrupts writes
//!   of others with its reads. Inside a flow reads pass writes for `writes_starved` turns.
//! * **No expiry.** Nobody overtakes because he has waited for so many seconds. All is measured in
//!   units of the backlog, the device time of all that waits: turns are a quarter of an average
//!   flow's queue, and a flow with more waiting than the average is charged less, one with less
//!   more, up to one and a half times against each other. So flows with equal depths and unequal
//!   operations wait about equally long, and the deepest queue in the world makes three parts of
//!   five of its flow beside a shallow one.
//! * **A short queue in the device** ([`Depth`]): what the device has can be overtaken by nobody.
//! * What the array needs for itself goes first: metadata and flushes, though not without end.
//!   What is in the background has what is left, and one part in 16 where nothing is.

mod depth;
mod flow;
mod meter;

use std::collections::{BTreeMap, VecDeque};

use heliostat_types::{Duration, FlowId, Instant, OpKind};

use crate::job::{Class, Device, FlowLimits, Job, Side};
use depth::Depth;
use flow::Flow;
use meter::Meter;

/// What can be tuned of `fair`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FairSettings {
    /// The device time of a flow's turn.
    pub quantum: Duration,
    /// For how many turns in a row reads of a flow may pass its own writes.
    pub writes_starved: u32,
    /// How many operations the device is given at once at most; 0: as many as it takes to reach
    /// 98 % of its throughput, which is learned.
    pub depth: u32,
}

impl FairSettings {
    /// A turn of 100 ms is some twelve random operations of a hard disk, or 12 MB in a row, against
    /// one long seek; with 60 ms a twentieth of the throughput is lost.
    pub const DEFAULT: Self = Self {
        quantum: Duration::from_ms(100),
        writes_starved: 2,
        depth: 0,
    };
}

impl Default for FairSettings {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What the background has of a leg that clients could use up: one part in so many.
const BACKGROUND_PART: f64 = 16.0;
/// A flow's queue is so many turns, or more.
const TURNS_PER_QUEUE: f64 = 4.0;
/// A turn is not made shorter than this.
const QUANTUM_MIN_NS: f64 = 1e7;
/// So many urgent jobs of the array go in a row while others wait.
const URGENT_MAX: u32 = 16;

/// Which job goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// The array's own, urgent.
    Array,
    /// In the background.
    Background,
    /// Of a flow, that has its turn or takes it.
    Of(FlowId),
}

/// The jobs that wait, and what is known of who they are for.
#[derive(Debug)]
pub(crate) struct Fair {
    settings: FairSettings,
    urgent: VecDeque<(u64, Job)>,
    urgent_in_a_row: u32,
    background: Flow,
    flows: BTreeMap<FlowId, Flow>,
    /// The flows of which jobs wait.
    active: Vec<FlowId>,
    /// The weights that are not the usual one, of flows with and without jobs.
    weights: BTreeMap<FlowId, u32>,
    /// Whose turn it is, and how much of it is left, in ns of device time.
    turn: Option<(FlowId, f64)>,
    /// What the flow that had least had, when it was last asked; it only rises. Who was idle begins
    /// there.
    floor: f64,
    /// How long a turn is now, in ns of device time.
    quantum: f64,
    /// What clients and the background have had since both had jobs waiting, in ns.
    had: [f64; 2],
    reads: usize,
    meter: Meter,
    depth: Depth,
    /// What was said to go next, until it has gone or something has changed.
    chosen: Option<Choice>,
    /// The number of the next job.
    arrivals: u64,
}

impl Fair {
    pub(crate) fn new(settings: FairSettings, device: Device) -> Self {
        Self {
            settings,
            urgent: VecDeque::new(),
            urgent_in_a_row: 0,
            background: Flow::new(FlowLimits::WEIGHT_DEFAULT, 0.0),
            flows: BTreeMap::new(),
            active: Vec::new(),
            weights: BTreeMap::new(),
            turn: None,
            floor: 0.0,
            quantum: settings.quantum.as_ns() as f64,
            had: [0.0; 2],
            reads: 0,
            meter: Meter::new(device),
            depth: Depth::new(device, settings.depth),
            chosen: None,
            arrivals: 0,
        }
    }

    pub(crate) const fn set(&mut self, settings: FairSettings) {
        self.chosen = None;
        self.settings = settings;
        self.depth.set(settings.depth);
    }

    pub(crate) fn set_weight(&mut self, id: FlowId, weight: u32) {
        if weight == FlowLimits::WEIGHT_DEFAULT {
            self.weights.remove(&id);
        } else {
            self.weights.insert(id, weight);
        }
        if let Some(known) = self.flows.get_mut(&id) {
            known.set_weight(weight);
        }
    }

    pub(crate) fn insert(&mut self, job: Job) {
        self.chosen = None;
        self.arrivals += 1;
        let number = self.arrivals;
        match place_of(&job) {
            Choice::Array => self.urgent.push_back((number, job)),
            Choice::Background => {
                if self.background.is_empty() {
                    // It has saved up nothing either.
                    self.had = [0.0; 2];
                }
                self.background.insert(number, job);
            }
            Choice::Of(id) => {
                self.reads += usize::from(is_read(&job));
                let weight = self.weights.get(&id).copied();
                let weight = weight.unwrap_or(FlowLimits::WEIGHT_DEFAULT);
                let floor = self.floor;
                let flow = self.flows.entry(id);
                let flow = flow.or_insert_with(|| Flow::new(weight, floor));
                if flow.is_empty() {
                    self.active.push(id);
                    if flow.in_device == 0 {
                        flow.begin_at(floor);
                    }
                }
                flow.insert(number, job);
            }
        }
    }

    pub(crate) fn next(&mut self) -> Option<Job> {
        let choice = self.chosen.or_else(|| self.choose())?;
        self.chosen = Some(choice);
        Some(match choice {
            Choice::Array => self.urgent.front().expect("one was chosen").1,
            Choice::Background | Choice::Of(_) => {
                let (quantum, starved) = self.turn_of();
                let usual = self.meter.usual_ns();
                self.flow_mut(choice).next(quantum, starved, usual)
            }
        })
    }

    pub(crate) fn take(&mut self, now: Instant) -> Option<Job> {
        let choice = self.chosen.take().or_else(|| self.choose())?;
        if choice == Choice::Array {
            self.urgent_in_a_row += 1;
            let (_, job) = self.urgent.pop_front()?;
            self.meter.begin(now, &job, 0.0, false);
            return Some(job);
        }
        self.urgent_in_a_row = 0;
        let (quantum, starved) = self.turn_of();
        let usual = self.meter.usual_ns();
        let flow = self.flow_mut(choice);
        let job = flow.take(quantum, starved, usual);
        let cost = flow.cost_of(&job, usual);
        self.begun(choice, &job, cost);
        self.meter.begin(now, &job, cost, false);
        if let Choice::Of(id) = choice {
            let left = match self.turn {
                Some((whose, left)) if whose == id => left,
                Some(_) | None => quantum,
            };
            self.turn = Some((id, left - cost));
        }
        Some(job)
    }

    /// A job has left for the device.
    fn begun(&mut self, choice: Choice, job: &Job, cost: f64) {
        let flow = self.flow_mut(choice);
        flow.charge(cost);
        flow.in_device += 1;
        let is_over = flow.is_empty();
        let is_background = choice == Choice::Background;
        self.had[usize::from(is_background)] += cost;
        if let Choice::Of(id) = choice {
            self.reads -= usize::from(is_read(job));
            if is_over {
                self.active.retain(|one| *one != id);
            }
        }
    }

    /// The device time of a turn, and for how many of them reads pass writes.
    const fn turn_of(&self) -> (f64, u32) {
        (self.quantum, self.settings.writes_starved)
    }

    fn flow_mut(&mut self, choice: Choice) -> &mut Flow {
        match choice {
            Choice::Background => &mut self.background,
            Choice::Of(id) => self.flows.get_mut(&id).expect("who has jobs is known"),
            Choice::Array => unreachable!("what is urgent has no turns"),
        }
    }

    fn choose(&mut self) -> Option<Choice> {
        let has_others = !self.active.is_empty() || !self.background.is_empty();
        if !self.urgent.is_empty() && (self.urgent_in_a_row < URGENT_MAX || !has_others) {
            return Some(Choice::Array);
        }
        if !has_others || self.meter.in_device() >= self.depth.now() {
            return None;
        }
        let [clients, background] = self.had;
        let is_owed = background * BACKGROUND_PART <= clients + background;
        if !self.background.is_empty() && (self.active.is_empty() || is_owed) {
            return Some(Choice::Background);
        }
        let quantum = self.quantum;
        let least = self.least(|_| true)?;
        let least_had = self.flows[&least].had();
        self.floor = self.floor.max(least_had);
        // A turn more than who has had least is the most that a flow may be ahead by.
        let limit = least_had + quantum;
        let turn = self.turn.filter(|(id, left)| {
            let flow = self.flows.get(id);
            *left > 0.0 && flow.is_some_and(|flow| !flow.is_empty())
        });
        let current = turn.map(|(id, _)| id);
        let newcomer = || self.least(|flow| flow.is_new(quantum) && flow.had() <= limit);
        let goes_on = current.or_else(newcomer).unwrap_or_else(|| {
            let oldest = self.oldest(limit);
            oldest.expect("who has had least is not ahead")
        });
        let mut id = goes_on;
        if self.reads > 0 && !self.flows[&goes_on].wants_to_read() {
            let reader = self.least(Flow::wants_to_read);
            id = reader
                .filter(|id| self.flows[id].had() <= limit)
                .unwrap_or(id);
        }
        if current != Some(id) {
            self.begin_turn(id);
        }
        Some(Choice::Of(id))
    }

    /// A flow is about to have a turn.
    fn begin_turn(&mut self, id: FlowId) {
        let usual = self.meter.usual_ns();
        let flows = self.active.iter().map(|id| &self.flows[id]);
        let backlog: f64 = flows.map(|flow| flow.backlog(usual)).sum();
        let average = backlog / self.active.len() as f64;
        let flow = self.flows.get_mut(&id).expect("who has jobs is known");
        flow.hurry(usual, average);
        // Where queues are short, so are turns, or a round of them would be longer than the queues.
        let quantum = self.settings.quantum.as_ns() as f64;
        let shortest = quantum.min(QUANTUM_MIN_NS);
        self.quantum = (average / TURNS_PER_QUEUE).clamp(shortest, quantum);
    }

    /// Of the flows with jobs that have had no more than `limit`, the one whose oldest job is
    /// oldest.
    fn oldest(&self, limit: f64) -> Option<FlowId> {
        let flows = self.active.iter().map(|id| (id, &self.flows[id]));
        let ready = flows.filter(|(_, flow)| flow.had() <= limit);
        let oldest = ready.min_by_key(|(id, flow)| (flow.oldest_at(), **id));
        oldest.map(|(id, _)| *id)
    }

    /// Of the flows with jobs, the one that has had least for its weight.
    fn least(&self, is_one: impl Fn(&Flow) -> bool) -> Option<FlowId> {
        let flows = self.active.iter().map(|id| (id, &self.flows[id]));
        let had = flows.filter(|(_, flow)| is_one(flow));
        let least = had.min_by(|one, other| one.1.had().total_cmp(&other.1.had()));
        least.map(|(id, _)| *id)
    }

    pub(crate) fn completed(&mut self, now: Instant, job: &Job) {
        self.chosen = None;
        let is_backlogged = self.len() > 0;
        let in_device = self.meter.in_device();
        let Some((estimate, cost)) = self.meter.end(now, job) else {
            return;
        };
        let choice = place_of(job);
        if choice != Choice::Array && (choice == Choice::Background || self.has(choice)) {
            let flow = self.flow_mut(choice);
            flow.charge(cost - estimate);
            flow.learn(job, cost);
            flow.in_device -= 1;
            self.had[usize::from(choice == Choice::Background)] += cost - estimate;
        }
        if let Choice::Of(id) = choice {
            self.forget_idle(id);
        }
        self.depth.completed(now, job, in_device, is_backlogged);
    }

    fn has(&self, choice: Choice) -> bool {
        matches!(choice, Choice::Of(id) if self.flows.contains_key(&id))
    }

    /// A flow with nothing waiting and nothing in the device that has had no more than others is
    /// as if it had never been there.
    fn forget_idle(&mut self, id: FlowId) {
        let floor = self.floor;
        let is_idle = |flow: &Flow| flow.is_empty() && flow.in_device == 0 && flow.had() <= floor;
        if self.flows.len() > FLOWS_KEPT && self.flows.get(&id).is_some_and(is_idle) {
            self.flows.remove(&id);
        }
    }

    pub(crate) fn adjoining(&self, first: &Job, side: Side) -> Option<Job> {
        self.flow_of(first)?.adjoining(first, side)
    }

    fn flow_of(&self, job: &Job) -> Option<&Flow> {
        match place_of(job) {
            _ if job.class == Class::Urgent => None,
            Choice::Array => None,
            Choice::Background => Some(&self.background),
            Choice::Of(id) => self.flows.get(&id),
        }
    }

    /// Takes a job out that goes with another one.
    pub(crate) fn take_adjoining(&mut self, now: Instant, first: &Job, side: Side) -> Option<Job> {
        let found = self.adjoining(first, side)?;
        let choice = place_of(first);
        let usual = self.meter.usual_ns();
        let flow = self.flow_mut(choice);
        flow.take_out(&found);
        let cost = flow.cost_of(&found, usual);
        self.begun(choice, &found, cost);
        self.meter.begin(now, &found, cost, true);
        Some(found)
    }

    pub(crate) fn len(&self) -> usize {
        let flows = self.active.iter().map(|id| self.flows[id].len());
        self.urgent.len() + self.background.len() + flows.sum::<usize>()
    }

    pub(crate) fn retain(&mut self, is_kept: &dyn Fn(&Job) -> bool) {
        self.chosen = None;
        self.urgent.retain(|(_, job)| is_kept(job));
        self.background.retain(is_kept);
        let mut reads = 0;
        for flow in self.flows.values_mut() {
            flow.retain(is_kept);
            reads += flow.reads();
        }
        self.reads = reads;
        let flows = &self.flows;
        self.active.retain(|id| !flows[id].is_empty());
    }

    /// Takes all out, in order of arrival.
    pub(crate) fn drain(&mut self) -> Vec<Job> {
        self.chosen = None;
        let mut jobs: Vec<(u64, Job)> = std::mem::take(&mut self.urgent).into();
        jobs.extend(self.background.drain());
        for flow in self.flows.values_mut() {
            jobs.extend(flow.drain());
        }
        self.active.clear();
        self.reads = 0;
        jobs.sort_unstable_by_key(|(number, _)| *number);
        jobs.into_iter().map(|(_, job)| job).collect()
    }
}

/// Idle flows up to so many keep what was learned of them.
const FLOWS_KEPT: usize = 64;

/// Whose queue a job waits in.
const fn place_of(job: &Job) -> Choice {
    match job.class {
        Class::Urgent if job.flow.0 == FlowId::ARRAY.0 => Choice::Array,
        Class::Background => Choice::Background,
        Class::Urgent | Class::Read | Class::Write => Choice::Of(job.flow),
    }
}

/// Whether it goes before what writes.
const fn is_read(job: &Job) -> bool {
    matches!(job.class, Class::Read | Class::Urgent)
        || matches!(job.kind, OpKind::Read | OpKind::BlockStatus)
}

#[cfg(test)]
mod tests;
