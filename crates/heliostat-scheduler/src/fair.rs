//! `fair`: each flow its share of the device's time, by weight, whatever it asks for and however
//! much of it.
//!
//! * **Rounds.** The device is served in rounds. Each gives every flow the same amount of device
//!   time, for its weight, which its oldest jobs use up: deficit round robin (Shreedhar and
//!   Varghese, 1996), by what jobs are expected to take ([`Costs`]). What is in a round is done in
//!   one sweep upwards, reads before writes: a round of streams is a long run of each, and one of
//!   random operations a sweep of all of them.
//! * **Jobs are for rounds.** What a flow has outstanding is parted in whole rounds, and a job is
//!   for the round that many behind the one of the job instead of which it was asked for:
//!   the flow's last one that ended, be it at another leg. So copies of a write are in the same
//!   round of all legs, and what came while one leg was at the end of a round is not late for the
//!   next one; it joins that where the sweep has not passed it.
//! * **As long as what waits.** A round gives as much as the flow has outstanding that has least,
//!   of those that have a part worth mentioning. So with deep queues rounds are long, and cost
//!   little in seeks; with shallow ones they are short. Nobody overtakes because he has waited for
//!   so many seconds, so that nothing collapses when there is more work than that.
//! * **Sparse jobs first.** What a flow asks for that has little outstanding goes before the sweep,
//!   as it comes and in a row as one, up to the flow's share of the time that has passed. Writes
//!   pay for the way there and back; reads go before the writes of a round in any case, and pay for
//!   it where there are reads in the round.
//! * A disk stays with who reads in sequence there until his part of the round is used up, and who
//!   does waits for what it has to read for others ([`stay`]).
//! * All legs of an array expect the same of the same jobs and count their rounds together, so that
//!   the legs of a mirror make the same rounds of the same writes; they do them at the same time
//!   ([`together`]).
//! * What the array needs for itself goes first: metadata and flushes, though not without end.
//!   What is in the background has what is left, and one part in 16 where nothing is.

mod background;
mod beside;
mod depth;
mod flow;
mod hidden;
mod kept;
mod meter;
mod round;
mod shares;
mod sparse;
mod stay;
mod together;
mod waiting;

use std::collections::{BTreeMap, VecDeque};

use heliostat_types::{Duration, FlowId, Instant, OpKind};

use crate::costs::{Asked, Costs, Work};
use crate::job::{Class, Device, FlowLimits, Job};
use crate::line::Key;
use background::Background;
use depth::Depth;
use flow::{Flow, Later};
use hidden::Hidden;
use meter::{Ended, Meter};
use round::Round;
use shares::Held;
use sparse::Sparse;
use stay::Stay;
use together::Together;

/// What can be tuned of `fair`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FairSettings {
    /// What a flow has of a round at most, in time of a disk that turns; of other devices one part
    /// in 32 of that.
    pub quantum: Duration,
    /// How many operations the device is given at once at most; 0: as many as it takes to reach
    /// 98 % of its throughput, which is learned.
    pub depth: u32,
    /// How many a disk that turns is given while there are sparse jobs, before the sweep waits.
    pub sweep_depth: u32,
}

impl FairSettings {
    /// A quantum of 256 ms is what 64 writes of 1 MiB take of each leg of a RAID10 of four disks:
    /// all that a queue of that depth holds goes in one run.
    /// With 5 of the sweep at a time, reads of 4 KiB beside it wait a fifth of what they wait in
    /// order of arrival; each one less costs streams a tenth of their throughput.
    pub const DEFAULT: Self = Self {
        quantum: Duration::from_ms(256),
        depth: 0,
        sweep_depth: 5,
    };
}

impl Default for FairSettings {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A device that does not turn does in one part in so many of the time what a disk does.
const FLASH_PART: u64 = 32;
/// A job is sparse where its flow has no more outstanding than one part in so many of what a round
/// gives.
const SPARSE_PART: u64 = 8;
/// By how much of the device's time sparse jobs may be ahead of what flows have had, as a part of
/// the longest quantum.
const LEAD_PART: u64 = 4;
/// A disk that turns is given no more bytes at once: 60 ms of writing in a row. An array is given
/// so much for each of its legs.
const IN_DEVICE_BYTES_MAX: u64 = 8 << 20;
/// So many urgent jobs of the array go in a row while others wait.
const URGENT_MAX: u32 = 16;
/// For so long after a sparse job, the sweep leaves the device room; and for so long after a read
/// of the sweep, what goes on there of its flow is none that room is left for.
const SPARSE_RECENTLY: Duration = Duration::from_secs(1);
/// What is for later rounds has its place early where less than this of a flow's part is for the
/// one that begins: what has come in bursts spreads out, and no flow gets ahead for long.
const EARLY_PART: f64 = 0.75;
/// Idle flows up to so many are kept without looking.
const FLOWS_KEPT: usize = 64;

/// Which job goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// The array's own, urgent.
    Array,
    /// The oldest in the background.
    Background,
    /// The sparse one of this name.
    Sparse(sparse::Key),
    /// Of this round.
    InRound(usize, Key),
}

/// The jobs that wait, and what is known of who they are for.
#[derive(Debug)]
pub(crate) struct Fair {
    settings: FairSettings,
    device: Device,
    urgent: VecDeque<(u64, Job)>,
    urgent_in_a_row: u32,
    background: Background,
    flows: BTreeMap<FlowId, Flow>,
    /// The weights that are not the usual one, of flows with and without jobs.
    weights: BTreeMap<FlowId, u32>,
    /// Jobs that go before the sweep.
    sparse: Sparse,
    round: Round,
    /// What a flow of the usual weight is to have had by now, in ns: what all had, shared among
    /// those that had anything here.
    share_ns: u64,
    /// What was too little for all of them, so that nothing of it is lost where weights are large.
    share_rest: u64,
    /// The weights of those together that have anything here.
    active_weight: u64,
    /// What was asked for, of clients' jobs that wait.
    asked: BTreeMap<u32, Asked>,
    /// What a disk that caches has in hand besides.
    hidden: Hidden,
    /// When the last sparse job began.
    sparse_at: Option<Instant>,
    /// Whom it reads in sequence for.
    stay: Option<Stay>,
    /// When to ask again, where something waits for what the disk has in hand or may get.
    kept_until: Option<Instant>,
    /// What sparse jobs have had since any other one went, in ns.
    sparse_ns: u64,
    /// Whether what went last is of the round.
    sweeps: bool,
    meter: Meter,
    depth: Depth,
    /// What was said to go next, until it has gone or something has changed.
    chosen: Option<Choice>,
    /// The number of the next job.
    arrivals: u64,
    /// How many jobs of clients wait or are in the device.
    clients: usize,
    together: Together,
    /// While a round waits to begin, because somebody would have none of it.
    held: Option<Held>,
}

impl Fair {
    pub(crate) fn new(settings: FairSettings, device: Device) -> Self {
        Self {
            settings,
            device,
            urgent: VecDeque::new(),
            urgent_in_a_row: 0,
            background: Background::default(),
            flows: BTreeMap::new(),
            weights: BTreeMap::new(),
            sparse: Sparse::default(),
            round: Round::default(),
            share_ns: 0,
            share_rest: 0,
            active_weight: 0,
            asked: BTreeMap::new(),
            hidden: Hidden::default(),
            sparse_at: None,
            stay: None,
            kept_until: None,
            sparse_ns: 0,
            sweeps: false,
            meter: Meter::new(device.rotational),
            depth: Depth::new(device, settings.depth),
            chosen: None,
            arrivals: 0,
            clients: 0,
            together: Together::default(),
            held: None,
        }
    }

    pub(crate) const fn set(&mut self, settings: FairSettings) {
        self.chosen = None;
        self.settings = settings;
        self.depth.set(settings.depth);
    }

    /// The device takes another number of operations from now on, or has other legs behind it; it
    /// is the same one and turns as before.
    pub(crate) fn set_device(&mut self, device: Device) {
        self.chosen = None;
        self.device = device;
        // What was learned is of other legs.
        self.depth = Depth::new(device, self.settings.depth);
    }

    pub(crate) fn set_weight(&mut self, id: FlowId, weight: u32) {
        if weight == FlowLimits::WEIGHT_DEFAULT {
            self.weights.remove(&id);
        } else {
            self.weights.insert(id, weight);
        }
        if let Some(known) = self.flows.get_mut(&id) {
            let before = known.active_weight();
            known.set_weight(weight);
            self.active_weight = self.active_weight - before + known.active_weight();
        }
    }

    pub(crate) fn has_weights(&self) -> bool {
        !self.weights.is_empty()
    }

    /// The most that a round gives, in ns.
    const fn quantum_max(&self) -> u64 {
        let quantum = self.settings.quantum.as_ns();
        if self.device.rotational {
            quantum
        } else {
            quantum / FLASH_PART
        }
    }

    pub(crate) fn insert(&mut self, job: Job, costs: &mut Costs) {
        self.chosen = None;
        self.arrivals += 1;
        let number = self.arrivals;
        if job.class == Class::Background {
            return self.background.insert(number, job);
        }
        if is_arrays(&job) {
            return self.urgent.push_back((number, job));
        }
        if self.is_idle() {
            // It goes on where the others are.
            let others = costs.rounds_of_others(self.device).min();
            self.round.number = self.round.number.max(others.unwrap_or(0));
        }
        self.forget_idle(job.flow);
        let sparse_times = self.sparse_times(&job);
        let came = self.standing(job.flow, costs);
        let mut asked = self.asked_for(&job, costs);
        let has_stays = self.has_stays();
        let flow = self.flows.get_mut(&job.flow);
        let flow = flow.expect("who has jobs is known");
        let round = &mut self.round;
        let is_sparse = flow.scaled(flow.here_ns) <= round.quantum / SPARSE_PART;
        let is_beside = round.has_beside(&job) || is_sparse && self.sparse.has_beside(&job);
        let ns = costs.placed_ns(self.device.rotational, &asked, is_beside);
        if is_sparse {
            asked.charge(is_beside, ns);
            flow.placed_ns += asked.ns;
            self.asked.insert(job.op, asked);
            let begin = flow.begin_sparse(self.share_ns, ns * sparse_times);
            self.sparse.insert((begin, number), job);
            return;
        }
        // Where somebody has said what shares are to be, they count, and nothing is for a round.
        let due = if self.weights.is_empty() {
            came + flow.rounds()
        } else {
            came
        };
        let is_passed = self.device.rotational && round.has_passed(&job);
        let stays = has_stays && job.class == Class::Read && flow.is_stream();
        if flow.joins(due, round, ns, stays) && !is_passed {
            flow.pay(ns);
            asked.charge(is_beside, ns);
            flow.placed_ns += asked.ns;
            round.add(number, job);
        } else {
            flow.later.push_back(Later {
                number,
                job,
                came,
                due,
            });
        }
        self.asked.insert(job.op, asked);
        self.stand(costs);
    }

    /// A job comes to wait that is on the account of a flow.
    fn asked_for(&mut self, job: &Job, costs: &mut Costs) -> Asked {
        let weight = self.weights.get(&job.flow).copied();
        let weight = weight.unwrap_or(FlowLimits::WEIGHT_DEFAULT);
        let flow = self.flows.entry(job.flow);
        let flow = flow.or_insert_with(|| Flow::new(weight));
        let goes_on = flow.goes_on(job, job.class == Class::Read);
        let work = Work::of(job, goes_on);
        let mut asked = Asked {
            flow: job.flow,
            work,
            ns: costs.expected_ns(self.device.rotational, work),
            charged_ns: 0,
            round: self.round.number,
        };
        // It may well go with that; it is charged for what it does when it has its place.
        let may_go_with = flow.waiting.has_beside(job);
        asked.ns = costs.placed_ns(self.device.rotational, &asked, may_go_with);
        flow.waiting.insert(job);
        costs.begin(self.device, job.flow, asked.ns);
        self.active_weight -= flow.active_weight();
        flow.here_ns += asked.ns;
        self.active_weight += flow.active_weight();
        self.clients += 1;
        asked
    }

    /// Whether it has nothing to do for clients.
    const fn is_idle(&self) -> bool {
        self.clients == 0
    }

    /// Tells the others what it does.
    fn stand(&self, costs: &mut Costs) {
        let next = self.round.number + u64::from(self.round.is_empty());
        costs.stands(self.device, (!self.is_idle()).then_some(next));
    }

    /// The round in which a job of a flow is taken to come: that of the flow's last one that has
    /// ended, instead of which it was asked for, as a round has not ended when the next one begins.
    fn standing(&self, flow: FlowId, costs: &Costs) -> u64 {
        let number = self.round.number;
        let ended = costs.round_ended(self.device.rotational, flow);
        ended.map_or(number, |at| at.clamp(number.saturating_sub(1), number))
    }

    /// Before a flow is added: who is idle and has had no more than others is as if he had never
    /// been there.
    fn forget_idle(&mut self, newcomer: FlowId) {
        if self.flows.len() >= FLOWS_KEPT && !self.flows.contains_key(&newcomer) {
            let at = self.share_ns;
            self.flows.retain(|_, flow| !flow.is_forgotten(at));
        }
    }

    pub(crate) fn next(&mut self, now: Instant, costs: &mut Costs) -> Option<Job> {
        let choice = self.choose(now, costs)?;
        Some(self.job_of(choice))
    }

    pub(crate) fn take(&mut self, now: Instant, costs: &mut Costs) -> Option<Job> {
        let choice = self.choose(now, costs)?;
        self.chosen = None;
        self.sweeps = matches!(choice, Choice::InRound(..));
        if self.device.has_hidden_work() {
            let worked_ns = self.hidden.worked_ns(now, self.meter.idle_since());
            costs.learn_together(None, worked_ns as f64);
        }
        let job = match choice {
            Choice::Array => {
                self.urgent_in_a_row += 1;
                let (_, job) = self.urgent.pop_front()?;
                let asked = nobodys(&job, false);
                self.meter
                    .begin(now, &job, asked, self.expected_ns(&asked, costs));
                return Some(job);
            }
            Choice::Background => {
                let (key, _) = self.background.line.oldest()?;
                self.background.line.remove(key)
            }
            Choice::Sparse(key) => {
                let job = self.sparse.remove(key);
                if !self.is_of_a_stream_in_rounds(now, &job) {
                    self.sparse_at = Some(now);
                }
                job
            }
            Choice::InRound(direction, key) => {
                self.round.heads[direction] = key.0;
                let job = self.round.lines[direction].remove(key);
                self.goes_to(now, &job);
                if job.kind == OpKind::Read {
                    let flow = self.flows.get_mut(&job.flow);
                    flow.expect("who has jobs is known").swept_at = Some(now);
                }
                job
            }
        };
        self.urgent_in_a_row = 0;
        if let Some(flow) = self.flows.get_mut(&job.flow) {
            flow.went_at = Some(now);
        }
        let asked = self.begun(&job, self.sweeps, false, costs);
        self.sparse_ns = if matches!(choice, Choice::Sparse(_)) {
            self.sparse_ns + asked.charged_ns
        } else {
            0
        };
        let expected_ns = self.expected_ns(&asked, costs);
        if self.device.has_hidden_work() {
            let is_sparse = matches!(choice, Choice::Sparse(_));
            self.hidden.begin(now, &job, is_sparse, expected_ns);
        }
        self.meter.begin(now, &job, asked, expected_ns);
        Some(job)
    }

    /// What that is expected to take now, in ns.
    fn expected_ns(&self, asked: &Asked, costs: &Costs) -> u64 {
        costs.expected_ns(self.device.rotational, asked.work)
    }

    /// A job leaves for the device: what was asked for.
    fn begun(&mut self, job: &Job, is_in_round: bool, goes_on: bool, costs: &mut Costs) -> Asked {
        let Some(asked) = self.asked.remove(&job.op) else {
            let asked = nobodys(job, goes_on);
            self.background.had(self.expected_ns(&asked, costs));
            return asked;
        };
        let flow = self.flows.get_mut(&job.flow);
        flow.expect("who has jobs is known").waiting.remove(job);
        self.background.clients_had(asked.charged_ns);
        let usual = u64::from(FlowLimits::WEIGHT_DEFAULT);
        let all_weight = self.active_weight.max(1);
        self.share_rest += asked.charged_ns * usual;
        self.share_ns += self.share_rest / all_weight;
        self.share_rest %= all_weight;
        if is_in_round && self.round.is_empty() {
            self.stand(costs);
        }
        // The sweep has not done what goes before it: what is asked for then is for that sweep.
        let before = u64::from(!is_in_round && !self.round.is_empty());
        Asked {
            round: self.round.number.saturating_sub(before),
            ..asked
        }
    }

    /// What goes next, which stays the same until time passes or something is said.
    fn choose(&mut self, now: Instant, costs: &mut Costs) -> Option<Choice> {
        if self.chosen.is_none() {
            self.kept_until = None;
            self.chosen = self.decide(now, costs);
        }
        self.chosen
    }

    fn decide(&mut self, now: Instant, costs: &mut Costs) -> Option<Choice> {
        let has_clients = !self.asked.is_empty();
        let has_background = !self.background.line.is_empty();
        let has_others = has_clients || has_background;
        if !self.urgent.is_empty() && (self.urgent_in_a_row < URGENT_MAX || !has_others) {
            return Some(Choice::Array);
        }
        let in_device = self.meter.in_device();
        if !has_others || in_device >= self.depth.now() {
            return None;
        }
        // What waits in front of none has to go in to fail.
        let legs = self.device.leg_count.max(1);
        let bytes_max = IN_DEVICE_BYTES_MAX * u64::from(legs);
        if self.device.rotational && self.meter.bytes() >= bytes_max {
            return None;
        }
        if self.round.is_empty() {
            self.together.end(now);
        }
        let may_be_background = has_background && !has_clients || self.background.is_owed();
        if may_be_background && !self.has_to_wait(now, Choice::Background) {
            return Some(Choice::Background);
        }
        let is_held = self.round.is_empty() && self.waits_for_shares(now, costs);
        if self.round.is_empty() && !is_held && !self.waits(now, costs) && !self.stays(now, None) {
            self.open_round(now, costs);
            // What is for this round may have to wait for what its flow is to have of others.
            while self.round.is_empty() && self.flows.values().any(|flow| !flow.later.is_empty()) {
                self.open_round(now, costs);
            }
        }
        let next = self.round.next();
        if let Some(key) = self.sparse.first() {
            let first = self.sparse.get(key);
            let is_alone = next.is_none() && !is_held && !self.is_beside_reads(now, &first);
            let lead = self.flows[&first.flow].scaled(self.quantum_max() / LEAD_PART);
            if is_alone {
                // The scale goes on with it.
                self.share_ns = self.share_ns.max(key.0);
            }
            let has_had = next.is_some() && self.sparse_ns >= self.quantum_max();
            let may_go = key.0 <= self.share_ns + lead && !has_had;
            if may_go && !self.has_to_wait(now, Choice::Sparse(key)) {
                return Some(Choice::Sparse(key));
            }
        }
        let sweep_depth = usize::try_from(self.settings.sweep_depth.saturating_mul(legs));
        let sweep_depth = sweep_depth.expect("a depth fits");
        let is_recent = |at| now.saturating_since(at) < SPARSE_RECENTLY;
        if self.device.rotational && self.sparse_at.is_some_and(is_recent) {
            // Of an array, other disks would have to wait as well.
            let hides = self.device.has_hidden_work() && legs == 1 && next.is_some();
            if in_device >= sweep_depth || hides && self.hidden.waits(now) {
                return None;
            }
        }
        let next = next.map(|(direction, key)| Choice::InRound(direction, key))?;
        (!self.has_to_wait(now, next)).then_some(next)
    }

    /// Whether other disks are behind, and it waits for them: what was read is done when one has.
    fn waits(&mut self, now: Instant, costs: &Costs) -> bool {
        let others = costs.rounds_of_others(self.device).min();
        let is_behind = others.is_some_and(|others| others <= self.round.number);
        let may_wait = self.device.rotational && !self.round.only_reads;
        may_wait && self.together.waits(now, is_behind)
    }

    /// All of the last round has gone.
    fn open_round(&mut self, now: Instant, costs: &mut Costs) {
        if self.flows.values().all(|flow| flow.later.is_empty()) {
            return;
        }
        let round = &mut self.round;
        round.heads = [0; 2];
        let had_only_reads = std::mem::replace(&mut round.only_reads, true);
        let dues = self.flows.values().filter_map(Flow::next_due);
        // The one that is furthest says which it is: who counted for himself would take what comes
        // instead of what others have ended for a job of another round than it is.
        let others = costs.rounds_of_others(self.device).max().unwrap_or(0);
        round.number = dues.min().unwrap_or(0).max(others).max(round.number + 1);
        let quantum = self.quantum(costs);
        self.round.quantum = if self.holds_rounds() {
            self.quantum_of_shares(quantum)
        } else {
            quantum
        };
        let round = &mut self.round;
        let has_weights = !self.weights.is_empty();
        let active = self.flows.iter_mut().filter(|(_, flow)| flow.here_ns > 0);
        let parts = active.map(|(id, flow)| {
            let outstanding = costs.outstanding_ns(self.device.rotational, *id);
            let part = flow.part_ns(round.quantum, outstanding, has_weights);
            (part, flow)
        });
        let mut parts: Vec<(f64, &mut Flow)> = parts.collect();
        let next_ns = |flow: &Flow| {
            let next = flow.later.front()?;
            Some(costs.price_ns(self.device.rotational, &self.asked[&next.job.op]))
        };
        for (part, flow) in &mut parts {
            let next_ns = next_ns(flow).unwrap_or(0);
            flow.give(round.number, *part, next_ns);
        }
        // Where that is not enough for anybody's next job, as often as it takes.
        let times = parts.iter().filter_map(|(part, flow)| {
            let lacks = flow.lacks_ns(next_ns(flow)?);
            Some((lacks / part.max(1.0)).ceil())
        });
        let times = times.fold(f64::MAX, f64::min);
        for (part, flow) in &mut parts {
            if times > 0.0 {
                flow.give(round.number, *part * times, u64::MAX);
            }
            flow.lend(*part);
            let mut early_ns = *part * EARLY_PART;
            while let Some(later) = flow.later.front().copied() {
                let asked = self.asked.get_mut(&later.job.op).expect("it waits");
                let is_beside = round.has_beside(&later.job);
                let ns = costs.placed_ns(self.device.rotational, asked, is_beside);
                early_ns -= ns as f64;
                let is_due = flow.next_due().is_some_and(|due| due <= round.number);
                let may_owe = later.is_for(round.number) && flow.may_owe();
                if !(is_due || early_ns >= 0.0) || !(may_owe || flow.has_credit(ns)) {
                    break;
                }
                flow.pay(ns);
                asked.charge(is_beside, ns);
                flow.placed_ns += asked.ns;
                flow.later.pop_front();
                round.add(later.number, later.job);
            }
        }
        if self.round.is_empty() {
            self.round.only_reads = had_only_reads;
        }
        if self.device.rotational {
            self.together.begin(now);
        }
        self.stand(costs);
    }

    pub(crate) fn completed(&mut self, now: Instant, job: &Job, costs: &mut Costs) {
        self.chosen = None;
        if self.device.has_hidden_work() {
            self.hidden.end(now, job);
        }
        let Some(Ended {
            asked,
            ns,
            operation,
        }) = self.meter.end(now, job)
        else {
            return;
        };
        if self.round.is_empty() && self.meter.jobs().all(|asked| asked.ns == 0) {
            self.together.end(now);
        }
        self.has_done(now, job.flow);
        self.learn(now, job, asked.work, ns, costs);
        if asked.ns > 0 {
            self.end(&asked, costs);
            self.stand(costs);
        }
        if let Some(operation) = operation {
            let had = self.had_with(operation);
            self.depth.completed(now, operation, had, self.len() > 0);
        }
    }

    /// A job of that sort has taken so much.
    fn learn(&self, now: Instant, job: &Job, work: Work, ns: f64, costs: &mut Costs) {
        if self.device.has_hidden_work() && self.hidden.may_be_at_work(now) {
            if !self.hidden.says_what_it_does(now) {
                return;
            }
            let flushes = job.kind == OpKind::Flush;
            costs.learn_together((!flushes).then_some(work), ns);
            if costs.hides_work() {
                return;
            }
            if !is_arrays(job) && !flushes {
                costs.learn_beside_log(work, ns);
            }
        } else if !is_arrays(job) {
            costs.learn(self.device.rotational, work, ns);
        }
    }

    /// A job is done, or not done at all.
    fn end(&mut self, asked: &Asked, costs: &mut Costs) {
        costs.end(self.device, asked);
        self.clients -= 1;
        let flow = self.flows.get_mut(&asked.flow);
        let flow = flow.expect("who has jobs is known");
        self.active_weight -= flow.active_weight();
        flow.here_ns -= asked.ns;
        flow.is_awaited = true;
        if asked.charged_ns > 0 {
            flow.placed_ns -= asked.ns;
        }
        self.active_weight += flow.active_weight();
    }

    /// When to ask again for what goes next, although nothing has come and nothing has ended.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        match self.held {
            Some(Held::Until(until)) => Some(until),
            Some(Held::ForLongEnough) | None => {
                let looks = [
                    self.hidden.look_at(),
                    self.together.look_at(),
                    self.kept_until,
                ];
                looks.into_iter().flatten().min()
            }
        }
    }

    /// That time has come.
    pub(crate) const fn on_deadline(&mut self) {
        if let Some(Held::Until(_)) = self.held {
            self.held = Some(Held::ForLongEnough);
        }
        self.together.look();
        self.kept_until = None;
        self.hidden.look();
    }

    pub(crate) fn len(&self) -> usize {
        self.urgent.len() + self.background.line.len() + self.asked.len()
    }

    pub(crate) fn retain(&mut self, is_kept: &dyn Fn(&Job) -> bool, costs: &mut Costs) {
        self.chosen = None;
        self.urgent.retain(|(_, job)| is_kept(job));
        self.background.line.retain(&mut |job| is_kept(job));
        let mut gone: Vec<Job> = Vec::new();
        let mut stays = |job: &Job| {
            let stays = is_kept(job);
            if !stays {
                gone.push(*job);
            }
            stays
        };
        self.sparse.retain(&mut stays);
        for flow in self.flows.values_mut() {
            flow.later.retain(|later| stays(&later.job));
        }
        for line in &mut self.round.lines {
            line.retain(&mut stays);
        }
        for job in gone {
            let asked = self.asked.remove(&job.op).expect("it waits");
            let flow = self.flows.get_mut(&asked.flow);
            flow.expect("who has jobs is known").waiting.remove(&job);
            self.end(&asked, costs);
        }
        self.stand(costs);
    }

    /// Takes all out, in order of arrival.
    pub(crate) fn drain(&mut self, costs: &mut Costs) -> Vec<Job> {
        self.chosen = None;
        let mut jobs: Vec<(u64, Job)> = std::mem::take(&mut self.urgent).into();
        jobs.extend(self.background.line.drain());
        jobs.extend(self.sparse.drain());
        for line in &mut self.round.lines {
            jobs.extend(line.drain());
        }
        costs.stands(self.device, None);
        (self.clients, self.active_weight) = (0, 0);
        // What the device has is nobody's from here on: who takes over does not ask whose it was.
        let asked = std::mem::take(&mut self.asked);
        for asked in asked.values().chain(self.meter.jobs()) {
            if asked.ns > 0 {
                costs.end(self.device, asked);
            }
        }
        self.meter = Meter::new(self.device.rotational);
        self.stay = None;
        for flow in std::mem::take(&mut self.flows).into_values() {
            jobs.extend(flow.later.iter().map(|later| (later.number, later.job)));
        }
        jobs.sort_unstable_by_key(|(number, _)| *number);
        jobs.into_iter().map(|(_, job)| job).collect()
    }
}

/// What is not on the account of a client.
fn nobodys(job: &Job, goes_on: bool) -> Asked {
    Asked {
        flow: job.flow,
        work: Work::of(job, goes_on),
        ns: 0,
        charged_ns: 0,
        round: 0,
    }
}

/// Whether a job is the array's own and urgent.
fn is_arrays(job: &Job) -> bool {
    job.class == Class::Urgent && job.flow == FlowId::ARRAY
}

#[cfg(test)]
mod tests;
