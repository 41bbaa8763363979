//! The loop: virtual time, the engine as it is, legs that are models, clients that are jobs.
//!
//! One input goes into the engine, all outputs come out and are carried out, then the next input:
//! as the runtime does it. Nothing here decides anything that the engine should.

mod config;
mod samples;

use std::collections::VecDeque;
use std::fmt;

use heliostat_engine::{
    ArrayRecord, Engine, Event, HedgeFigures, Input, LegOp, LegState, Map, Output,
};
use heliostat_policy::{ArrayInfo, ReadPolicy};
use heliostat_types::{
    Duration, Extent, Instant, LegId, LegOpId, LegSet, OpKind, RandomStream, SECTOR_BYTES,
    StatusRun,
};
use heliostat_workload::{Client, Clients, Job, Surroundings, TraceError};

use crate::arena::Arena;
use crate::background::BackgroundWatch;
use crate::devices::build_legs;
use crate::leg::{LegOpInFlight, LegOps, SimLeg};
use crate::life::{Lives, Operator};
use crate::measure::{Littles, Period};
use crate::neighbours::Neighbours;
use crate::oracle::Oracle;
use crate::planted::{Plant, Planted};
use crate::power::Power;
use crate::requests::Requests;
use crate::result::{Hedges, Integrity, JobResult, Moved, RunResult, Unanswered};
use crate::scenario::{Scenario, ScenarioError, TraceOpener};
use crate::series::SeriesRecorder;
use crate::shadow::Shadow;
use crate::sim_policy::SimPolicy;
use crate::streams::Streams;
use crate::tags_2014::Tags;
use crate::trace::{Trace, TraceEvent, What};

pub(crate) use config::engine_config;
use samples::{granule_bytes, may_sample};

/// How long a record takes to be durable: a small write and a flush on a flash drive.
const PERSIST_TIME: Duration = Duration::from_ms(1);

/// More inputs than any array handles at one moment of virtual time: 16 legs and all clients'
/// depths are thousands.
const INPUTS_PER_INSTANT_MAX: u64 = 10_000_000;

/// A scenario under a policy, on its way.
#[derive(Debug)]
pub struct Simulation {
    pub(crate) scenario: Scenario,
    policy: String,
    pub(crate) engine: Engine,
    engine_luck: RandomStream,
    pub(crate) arena: Arena,
    pub(crate) legs: Vec<SimLeg>,
    pub(crate) leg_ops: LegOps,
    /// How requests get in, where not at once.
    pub(crate) tags: Option<Tags>,
    pub(crate) clients: Clients,
    pub(crate) neighbours: Neighbours,
    pub(crate) requests: Requests,
    /// Writes that wait for memory in the arena, by request number; oldest first.
    pub(crate) memory_waiters: VecDeque<u64>,
    memory_freed: bool,
    pub(crate) inbox: VecDeque<Input>,
    /// The newest record that is being made durable, and when it is.
    pub(crate) persisting: Option<(Instant, ArrayRecord)>,
    pub(crate) now: Instant,
    inputs_at_now: u64,
    pub(crate) measured: Period,
    /// How often reads were hedged before.
    hedges_before: HedgeFigures,
    /// `None` while nothing is ever written.
    pub(crate) shadow: Option<Shadow>,
    /// Whether reads are checked at samples alone: nothing is ever written, and only stamps are
    /// kept.
    pub(crate) samples: bool,
    pub(crate) trace: Trace,
    pub(crate) littles: Littles,
    streams: Streams,
    pub(crate) jobs: Vec<JobResult>,
    pub(crate) series: SeriesRecorder,
    pub(crate) errors: u64,
    /// What clients have seen of damaged bytes.
    pub(crate) integrity: Integrity,
    pub(crate) power: Power,
    background: Option<BackgroundWatch>,
    /// Of an array with metadata.
    pub(crate) lives: Option<Box<Lives>>,
    pub(crate) operator: Operator,
    /// A bug on purpose, and how often it could have shown.
    pub(crate) plant: Option<Plant>,
    pub(crate) plant_count: u64,
    pub(crate) failure: Option<CheckFailure>,
}

/// A checker found something wrong: a bug in the engine, a model or the simulator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckFailure {
    /// The scenario's name.
    pub scenario: String,
    /// The policy as it was asked for.
    pub policy: String,
    /// The seed that shows it again.
    pub seed: u64,
    /// When.
    pub at: Instant,
    /// What.
    pub text: String,
    /// The last events before it, one per line.
    pub events: String,
}

/// What a check says where a client still waits when everything should have ended.
pub(crate) const UNANSWERED: &str = "a request was never answered";

impl CheckFailure {
    /// Whether it is that a client was never answered.
    #[must_use]
    pub fn is_unanswered(&self) -> bool {
        self.text == UNANSWERED
    }
}

impl fmt::Display for CheckFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.events)?;
        write!(
            f,
            "scenario '{}' under '{}', seed {}, at {:.9} s: {}",
            self.scenario,
            self.policy,
            self.seed,
            (self.at - Instant::ZERO).as_secs_f64(),
            self.text
        )
    }
}

impl std::error::Error for CheckFailure {}

/// Why a scenario gave no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// It makes no sense.
    Scenario(ScenarioError),
    /// The policy does not fit the array.
    Policy(String),
    /// Something is wrong with us.
    Check(Box<CheckFailure>),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scenario(error) => error.fmt(f),
            Self::Policy(error) => f.write_str(error),
            Self::Check(failure) => failure.fmt(f),
        }
    }
}

impl std::error::Error for RunError {}

/// Runs a scenario under a policy, a [`SimPolicy`] or a registered one, to its end. `progress` is
/// told now and then which share of the virtual time has passed.
///
/// # Errors
/// Where the scenario makes no sense, the policy does not fit it, or a checker finds a bug.
pub fn run<P: Copy + Into<SimPolicy>>(
    scenario: &Scenario,
    policy: &P,
    progress: &mut dyn FnMut(f64),
) -> Result<RunResult, RunError> {
    /// Some thousand steps are a millisecond: smooth for a progress bar, and nothing for us.
    const STEPS_PER_REPORT: u32 = 4096;
    let mut simulation = Simulation::new(scenario, policy)?;
    let mut is_over = false;
    while !is_over {
        for _ in 0..STEPS_PER_REPORT {
            if !simulation.step() {
                is_over = true;
                break;
            }
        }
        progress(simulation.progress());
    }
    if let Some(error) = simulation.input_error() {
        return Err(error);
    }
    simulation
        .finish()
        .map_err(|failure| RunError::Check(Box::new(failure)))
}

impl Simulation {
    /// The scenario before its first moment.
    ///
    /// # Errors
    /// Where the scenario makes no sense or the policy does not fit it.
    pub fn new<P: Copy + Into<SimPolicy>>(
        scenario: &Scenario,
        policy: &P,
    ) -> Result<Self, RunError> {
        Self::with_listener(scenario, (*policy).into(), |picker| picker)
    }

    /// The same with the policy inside of what `wrap` makes of it: something that listens.
    ///
    /// # Errors
    /// As [`Simulation::new`].
    pub fn with_listener(
        scenario: &Scenario,
        policy: SimPolicy,
        wrap: impl FnOnce(Box<dyn ReadPolicy>) -> Box<dyn ReadPolicy>,
    ) -> Result<Self, RunError> {
        scenario.check().map_err(RunError::Scenario)?;
        let map = scenario.array.map().map_err(RunError::Scenario)?;
        let mut legs = build_legs(scenario, &map);
        let picker: Box<dyn ReadPolicy> = match policy {
            SimPolicy::Registered(spec) => spec
                .build(&ArrayInfo::new(map.legs()))
                .map_err(|error| RunError::Policy(error.to_string()))?,
            SimPolicy::Oracle => Box::new(Oracle::watch(&mut legs)),
        };
        let picker = wrap(picker);
        Self::with_legs(scenario, map, policy.to_string(), picker, legs)
    }

    fn with_legs(
        scenario: &Scenario,
        map: Map,
        policy: String,
        picker: Box<dyn ReadPolicy>,
        mut legs: Vec<SimLeg>,
    ) -> Result<Self, RunError> {
        let array = &scenario.array;
        let is_mirror = map.is_mirror();
        let config = engine_config(scenario, map, &legs);
        let clean = ArrayRecord {
            generation: 0,
            dirty: false,
            faulted: LegSet::EMPTY,
        };
        let begins_at = Instant::ZERO + scenario.warmup_seconds;
        let ends_at = match scenario.seconds {
            Duration::ZERO => Instant::MAX,
            seconds => begins_at + seconds,
        };
        let background = array.background;
        let has_writes = scenario.jobs.iter().any(Job::has_writes) || background.is_some();
        let clients = build_clients(scenario)?;
        let has_metadata = array.metadata.is_some();
        let has_cuts = scenario.has_power_cuts() || has_metadata;
        let granule_bytes = if has_cuts {
            // What is left after a power cut may differ from sector to sector.
            SECTOR_BYTES
        } else {
            granule_bytes(scenario)
        };
        let is_constant = is_mirror && !has_writes && !has_metadata;
        let samples = is_constant && may_sample(scenario, &*picker, &legs);
        legs.iter_mut().for_each(|leg| leg.samples = samples);
        let mut simulation = Self {
            scenario: scenario.clone(),
            policy,
            engine: Engine::new(config, picker, clean),
            engine_luck: RandomStream::new(scenario.seed, "engine", 0),
            arena: Arena::new(array.memory_bytes, scenario.fidelity),
            legs,
            leg_ops: LegOps::default(),
            tags: scenario.array.tags_2014.then(|| Tags::new(scenario.seed)),
            clients,
            neighbours: Neighbours::default(),
            requests: Requests::default(),
            memory_waiters: VecDeque::new(),
            memory_freed: false,
            inbox: VecDeque::new(),
            persisting: None,
            now: Instant::ZERO,
            inputs_at_now: 0,
            measured: Period { begins_at, ends_at },
            hedges_before: HedgeFigures::default(),
            shadow: has_writes.then(|| Shadow::new(granule_bytes, has_cuts)),
            samples,
            trace: Trace::new(),
            littles: Littles::default(),
            streams: Streams::default(),
            jobs: scenario.jobs.iter().map(empty_result).collect(),
            series: SeriesRecorder::new(begins_at, known_length(scenario), array.legs.len()),
            errors: 0,
            integrity: Integrity::default(),
            power: Power::new(scenario, clean),
            background: background.map(|spec| BackgroundWatch::new(spec, array.size_bytes)),
            lives: has_metadata.then(|| Box::new(Lives::new(LegSet::first(array.roles())))),
            operator: Operator::new(scenario),
            plant: None,
            plant_count: 0,
            failure: None,
        };
        let inputs = background.into_iter().flat_map(|spec| spec.inputs());
        simulation.inbox.extend(inputs);
        simulation.tell_limits();
        if has_metadata {
            simulation.start_life();
        }
        Ok(simulation)
    }

    /// Goes on to the next moment at which something happens and does all of it; `false` when
    /// nothing is left to do.
    pub fn step(&mut self) -> bool {
        let is_broken = self.failure.is_some()
            || self.clients.error().is_some()
            || self.lives.as_ref().is_some_and(|lives| lives.is_over);
        if is_broken || self.is_over() {
            return false;
        }
        if self.now < self.measured.begins_at {
            self.hedges_before = self.engine.hedge_figures();
        }
        // The first step begins with the clients, at the origin of time.
        self.pump();
        let deadline = self.engine.next_deadline();
        let Some(next) = self.next_event_at(deadline) else {
            return false;
        };
        if next > self.now {
            self.now = next;
            self.inputs_at_now = 0;
        }
        if self.switch_power() {
            return true;
        }
        for leg in 0..self.legs.len() {
            while let Some((op, result)) = self.legs[leg].poll(self.now) {
                self.complete_leg_op(LegId::new(leg), op, result);
            }
        }
        if let Some((at, record)) = self.persisting
            && at <= self.now
        {
            self.persisting = None;
            self.power.durable = record;
            let generation = record.generation;
            self.inbox.push_back(Input::Persisted { generation });
            self.pump();
        }
        self.run_errands();
        // What came up meanwhile at this very moment has its turn in the next step.
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= self.now);
        if is_due(deadline) && is_due(self.engine.next_deadline()) {
            self.inbox.push_back(Input::DeadlineReached);
            self.pump();
        }
        if self.next_wake_at().is_some_and(|at| at <= self.now) {
            self.clients.wake(self.now);
            self.pump();
        }
        self.end_when_all_is_moved();
        self.watch_background();
        true
    }

    /// Notes how far the work in the background is, and ends it with the measured time.
    fn watch_background(&mut self) {
        let Some(watch) = &mut self.background else {
            return;
        };
        let measured = (self.measured.begins_at, self.measured.ends_at);
        if watch.look(self.now, self.engine.background(), measured) {
            self.inbox.push_back(Input::PauseBackground);
            self.pump();
        }
    }

    /// How much of the virtual time has passed, from 0 to 1.
    #[must_use]
    pub fn progress(&self) -> f64 {
        let passed = (self.now - Instant::ZERO).as_secs_f64();
        let share = if self.measured.ends_at < Instant::MAX {
            passed / (self.measured.ends_at - Instant::ZERO).as_secs_f64()
        } else {
            let shares = self.clients.iter().filter_map(Client::share_asked);
            shares.fold(1.0, f64::min)
        };
        share.clamp(0.0, 1.0)
    }

    /// What was wrong with a trace that a job plays, where the run ended because of it.
    #[must_use]
    pub fn input_error(&self) -> Option<RunError> {
        self.clients.error().map(trace_error)
    }

    /// Checks what can only be checked at the end, and gives the figures.
    ///
    /// # Errors
    /// Where a checker finds a bug.
    pub fn finish(mut self) -> Result<RunResult, CheckFailure> {
        if self.failure.is_none() {
            self.check_end();
        }
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let (mut read, mut write) = (Moved::default(), Moved::default());
        let foreground = self.scenario.jobs.iter().map(Job::counts);
        for (job, _) in self
            .jobs
            .iter()
            .zip(foreground)
            .filter(|(_, counts)| *counts)
        {
            read.merge(&job.read);
            write.merge(&job.write);
        }
        let mut legs = Vec::new();
        let hedges = self.engine.hedge_figures();
        let begins_at = self.measured.begins_at;
        let background = self.background.map(|watch| watch.result(begins_at));
        let mut integrity = self.integrity;
        integrity.power_cuts = self.power.cut_count;
        let mut in_place: Vec<(LegId, SimLeg)> = (0..).map(LegId::new).zip(self.legs).collect();
        in_place.sort_by_key(|(_, leg)| leg.device);
        for (place, leg) in in_place {
            if let Some(medium) = &leg.medium {
                let is_in_sync = self.engine.in_sync().contains(place);
                integrity.add(&medium.integrity(is_in_sync));
            }
            let mut result = leg.into_result(self.now, &self.measured);
            let is_leg = self.engine.map().all().contains(place);
            result.faulted = is_leg && self.engine.leg_state(place) == LegState::Faulted;
            legs.push(result);
        }
        Ok(RunResult {
            scheduler: self.scenario.array.scheduler_text(),
            scenario: self.scenario.name,
            policy: self.policy,
            seed: self.scenario.seed,
            seconds: self.measured.length(),
            read,
            write,
            jobs: self.jobs,
            legs,
            series: self.series.finish(self.measured.length()),
            hedges: Hedges {
                issued: hedges.issued - self.hedges_before.issued,
                won: hedges.won - self.hedges_before.won,
            },
            errors: self.errors,
            integrity,
            background,
            trace_hash: self.trace.hash(),
            event_count: self.trace.count(),
        })
    }

    /// Notes the first thing that is wrong; the run ends there.
    pub(crate) fn fail(&mut self, text: String) {
        if self.failure.is_none() {
            self.failure = Some(CheckFailure {
                scenario: self.scenario.name.clone(),
                policy: self.policy.clone(),
                seed: self.scenario.seed,
                at: self.now,
                text,
                events: self.trace.last_events(),
            });
        }
    }

    /// Whether clients have stopped asking and everything was answered.
    fn is_over(&self) -> bool {
        !self.power.is_off()
            && self.now >= self.measured.ends_at
            && self.requests.is_empty()
            && self.engine.is_idle()
    }

    fn next_event_at(&self, deadline: Option<Instant>) -> Option<Instant> {
        if self.power.is_off() {
            return self.power.next_event_at();
        }
        let legs = self.legs.iter().filter_map(SimLeg::next_event_at);
        let persisted = self.persisting.map(|(at, _)| at);
        let power = self.power.next_event_at();
        legs.chain(persisted)
            .chain(deadline)
            .chain(power)
            .chain(self.operator.next_at())
            .chain(self.next_wake_at())
            .min()
    }

    /// Whether clients may ask.
    fn may_ask(&self) -> bool {
        !self.power.is_off()
            && !self.is_being_taken_up()
            && self.now < self.measured.ends_at
            && self.failure.is_none()
    }

    /// When a client wants to be woken, while clients may ask.
    fn next_wake_at(&self) -> Option<Instant> {
        let at = self.clients.next_wake_at();
        at.filter(|at| *at < self.measured.ends_at)
    }

    /// Without a length of time the run ends when every foreground job has moved its size.
    fn end_when_all_is_moved(&mut self) {
        if self.measured.ends_at < Instant::MAX {
            return;
        }
        let jobs = &self.scenario.jobs;
        let mut clients = self.clients.iter();
        if clients.all(|client| !jobs[client.job].counts() || client.is_done(self.now)) {
            // What ended just now counts.
            let after = self.now + Duration::from_ns(1);
            self.measured.ends_at = after.max(self.measured.begins_at);
        }
    }

    /// Inputs first, then writes that waited for memory, then whoever may ask, until all is said.
    pub(crate) fn pump(&mut self) {
        loop {
            if let Some(input) = self.inbox.pop_front() {
                self.feed(input);
            } else if std::mem::take(&mut self.memory_freed) {
                self.submit_memory_waiters();
            } else if self.take_up() {
                // Clients have asked.
            } else if !self.may_ask() {
                return;
            } else if let Some(step) = self.clients.poll(self.now) {
                self.take_step(step);
            } else {
                return;
            }
        }
    }

    /// One input, all outputs.
    fn feed(&mut self, input: Input) {
        self.inputs_at_now += 1;
        if self.inputs_at_now > INPUTS_PER_INSTANT_MAX {
            self.fail("time stands still".to_owned());
            return;
        }
        self.engine
            .handle_input(self.now, input, &mut self.engine_luck);
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Dispatch(op) => self.dispatch(op),
                Output::Buffer(step) => self.engine.buffers().execute(step, &mut self.arena),
                Output::Compare(what) => {
                    let mut compared = what.carry_out(self.engine.buffers(), &self.arena);
                    if self.has(Planted::ScrubBlind)
                        && let Input::Compared { differing, .. } = &mut compared
                    {
                        differing.clear();
                    }
                    self.inbox.push_front(compared);
                }
                Output::Complete { id, result } => {
                    if self.shows(Planted::NeverAnswered, 20) {
                        continue;
                    }
                    if self.shows(Planted::AnsweredTwice, 20) {
                        self.answer(id, result.clone());
                    }
                    self.answer(id, result);
                }
                Output::Persist(record) => {
                    let mut persist_time = PERSIST_TIME;
                    if let Some(Planted::Nondeterminism { run }) = self.plant.map(|plant| plant.bug)
                    {
                        persist_time += Duration::from_ns(run);
                    }
                    self.persisting = Some((self.now + persist_time, record));
                }
                Output::Event(event) => self.on_event(event),
                Output::UseSpare { spare, leg } => self.operator.call(spare, leg),
                Output::MemoryFreed => self.memory_freed = true,
            }
        }
        self.put_spare_in_place();
    }

    fn dispatch(&mut self, op: LegOp) {
        let leg = op.leg.index();
        self.trace.record(TraceEvent {
            at: self.now,
            what: What::Dispatched { leg: leg as u64 },
            kind: op.kind,
            extent: op.extent,
            id: op.id.0,
        });
        if !SimLeg::is_memory_right(&op) || !self.legs[leg].takes(op.extent) {
            self.fail(format!("an operation that no leg can do: {op:?}"));
            return;
        }
        if op.kind == OpKind::Read {
            // A run is one of the array, wherever its parts lie.
            let data_offset_bytes = self.scenario.array.data_offset_bytes();
            let in_data = op.extent.offset().checked_sub(data_offset_bytes);
            let map = self.engine.map();
            let address = in_data.and_then(|offset| map.array_address(op.leg, offset));
            let extent = Extent::new(
                address.unwrap_or_else(|| op.extent.offset()),
                op.extent.len(),
            );
            let switches = self.streams.on_read(extent, op.leg);
            self.legs[leg].result.stream_switches +=
                u64::from(switches && self.measured.contains(self.now));
        }
        let memory = op
            .memory
            .map_or(0..0, |slice| self.engine.buffers().resolve(slice));
        if self.plant.is_some() {
            self.spoil_metadata(&op, memory.clone());
        }
        if self.plant.is_none_or(|plant| plant.is_watched) {
            self.watch_operation(&op, memory.clone());
        }
        let in_flight = self.legs[leg].submit(self.now, op, memory, &mut self.arena);
        if !self.leg_ops.insert(in_flight) {
            self.fail(format!("operation {} was dispatched twice", op.id.0));
        }
    }

    fn complete_leg_op(
        &mut self,
        leg: LegId,
        id: LegOpId,
        result: Result<(), heliostat_types::ErrorKind>,
    ) {
        if self.end_neighbours_op(id, result) {
            self.pump();
            return;
        }
        // All that was done as one.
        let mut next = Some(id);
        while let Some(id) = next {
            let Some(ended) = self.leg_ops.remove(id) else {
                let is_from_before = self.power.cut_count > 0;
                assert!(is_from_before, "a device ends each operation once");
                return;
            };
            next = ended.op.next;
            self.leg_op_ended(leg, ended, result);
        }
        self.pump();
    }

    fn leg_op_ended(
        &mut self,
        leg: LegId,
        ended: LegOpInFlight,
        result: Result<(), heliostat_types::ErrorKind>,
    ) {
        let op = ended.op;
        let id = op.id;
        self.trace.record(TraceEvent {
            at: self.now,
            what: What::Completed {
                leg: leg.index() as u64,
                error: result.err(),
            },
            kind: op.kind,
            extent: op.extent,
            id: id.0,
        });
        if self.plant.is_some() {
            self.spoil_flush(leg);
        }
        let arena = &mut self.arena;
        let leg_time =
            self.legs[leg.index()].finish(self.now, ended, result, arena, &self.measured);
        if let Some(job) = self.job_of(op.flow) {
            self.jobs[job].leg_time += leg_time;
        }
        if self.plant.is_some() && result.is_ok() {
            self.spoil_operation(&ended);
        }
        if result.is_ok() && op.kind == OpKind::Read && self.measured.contains(self.now) {
            let device = self.legs[leg.index()].device;
            self.series.on_leg_read(self.now, device);
        }
        self.inbox.push_back(if op.kind == OpKind::BlockStatus {
            let everything = StatusRun {
                len_bytes: op.extent.len(),
                hole: false,
                zero: false,
            };
            let result = result.map(|()| vec![everything]);
            Input::StatusCompletion { op: id, result }
        } else {
            Input::LegCompletion { op: id, result }
        });
    }

    fn on_event(&mut self, event: Event) {
        if let Some(watch) = &mut self.background {
            watch.on_event(self.now, &event);
        }
        self.watch_scrub(&event);
        self.note_event(&event);
        if let Event::LegFaulted { leg, .. } = event {
            self.trace.record(TraceEvent {
                at: self.now,
                what: What::Faulted {
                    leg: leg.index() as u64,
                },
                kind: OpKind::Flush,
                extent: Extent::default(),
                id: 0,
            });
            self.leg_is_out(leg);
        } else if let Event::LegReplaced { leg, .. } = event {
            self.leg_is_replaced(leg);
        } else if let Event::LegInSync { leg } = event {
            self.leg_is_in(leg);
        } else if let Event::ReadFailedOver { leg, extent, .. } = event {
            self.read_elsewhere(leg, extent);
        }
    }
}

/// How long will be measured, where the scenario says it.
fn known_length(scenario: &Scenario) -> Option<Duration> {
    Some(scenario.seconds).filter(|length| *length > Duration::ZERO)
}

fn build_clients(scenario: &Scenario) -> Result<Clients, RunError> {
    let legs = &scenario.array.legs;
    let leg_bytes: Vec<u64> = legs.iter().map(|leg| leg.params.size_bytes()).collect();
    let around = Surroundings {
        seed: scenario.seed,
        first_client: scenario.first_client,
        array_bytes: scenario.array.size_bytes,
        leg_bytes: &leg_bytes,
        begins_at: Instant::ZERO + scenario.warmup_seconds,
        until_done: scenario.seconds == Duration::ZERO,
    };
    let open = scenario.traces.as_ref().map(TraceOpener::as_fn);
    Clients::new(&scenario.jobs, &around, open).map_err(|error| trace_error(&error))
}

fn trace_error(error: &TraceError) -> RunError {
    RunError::Scenario(ScenarioError {
        place: "job".to_owned(),
        text: error.to_string(),
    })
}

fn empty_result(job: &Job) -> JobResult {
    let (name, read, write) = (job.name.clone(), Moved::default(), Moved::default());
    JobResult {
        name,
        read,
        write,
        unanswered: Unanswered::default(),
        leg_time: Duration::ZERO,
    }
}

#[cfg(test)]
mod tests;
