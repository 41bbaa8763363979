//! The loop.
//!
//! One thread owns an array's engine, legs and exports, and nothing on it blocks but the wait for
//! the next thing to do. A turn: what is ready is handled, and what follows from it until nothing
//! more does; then the kernel is told of all leg operations at once, and each export sends all its
//! answers at once.

use std::os::fd::AsFd;
use std::sync::Arc;

use heliostat_engine::{
    ArrayRecord, Config, Engine, Input, LegConfig, LegState, Map, SchedulerPlace,
};
use heliostat_format::DeviceFlags;
use heliostat_leg::{Arena, LegHub, OpenedLeg};
use heliostat_policy::PolicyControl;
use heliostat_scheduler::SchedulerSpec;
use heliostat_types::{Duration, Instant, LegId, LegSet};

use crate::RuntimeError;
use crate::array_lock::ArrayLock;
use crate::clock::{self, Clock};
use crate::commands::{self, Command, Commands, Handle};
use crate::context::Context;
use crate::control::ControlServer;
use crate::core::{Core, Parts};
use crate::explain::Access;
use crate::export::{Answer, ArrayInfo, Export, Interest, Ready};
use crate::keeper::Keeper;
use crate::log::Log;
use crate::md::Described;
use crate::memory_lock;
use crate::notify::notify;
use crate::options::ArrayOptions;
use crate::poller::Poller;
use crate::settings::{Given, Settings};
use crate::setup::{self, Prepared, Progress};
use crate::signals::Signals;
use crate::source::Source;
use crate::state_writer::{StateWriter, Written};
use crate::stop::{Phase, Stop};

/// How often within a turn the loop looks again for what has followed from the last look. Legs in
/// memory complete at once, so that a turn could go on for as long as clients have requests; but
/// sockets must get their share.
const ROUNDS_MAX: u32 = 16;

/// What an array that is only read has to say to its legs is kept in so much memory.
const UNWRITTEN_MAX_BYTES: usize = 64 << 20;

/// What clients are told to align to at least.
const BLOCK_PREFERRED_MIN_BYTES: u32 = 4096;

/// An array that is being served.
#[derive(Debug)]
pub struct Server {
    core: Core,
    exports: Vec<Box<dyn Export>>,
    name: String,
    /// What a command has to be told besides to find it.
    option: String,
    /// What it is made of, in words.
    shape: String,
    uuid: Option<String>,
    block_bytes: u32,
    started: Instant,
    /// When it was last shown how far background work is; `None` where nobody looks.
    shown_at: Option<Instant>,
    /// Whether that is shown now.
    shows_work: bool,
    memory_bytes: u64,
    /// In which order legs get what waits for them.
    scheduler: SchedulerSpec,
    scheduler_on: SchedulerPlace,
    commands: Commands,
    handle: Handle,
    signals: Option<Signals>,
    stop: Stop,
    are_exports_closed: bool,
    // Dropped in this order: the name is free only when its socket is gone.
    _control: ControlServer,
    _lock: ArrayLock,
}

/// How an array ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Whether the legs in sync are equal and durable, and that is on record.
    pub is_clean: bool,
}

impl Server {
    /// Prepares the legs, starts the exports, and opens the control socket. Clients can connect
    /// from now on; they are served by [`Server::run`], on this same thread.
    ///
    /// # Errors
    /// Where something is not as it has to be; the text says what, where, and what to do.
    pub fn open(
        options: &ArrayOptions,
        exports: Vec<Box<dyn Export>>,
        signals: Option<Signals>,
        progress: &mut dyn Progress,
    ) -> Result<Self, RuntimeError> {
        options.check()?;
        let given = Given {
            policy: options.policy.clone(),
            scheduler: options.scheduler,
            rates: options.rates,
        };
        let path = options.places.settings(&options.name);
        let settings = Settings::new(path, options.keeps_settings, given);
        let policy = kept::first_policies(&settings, options.legs.len(), progress)?;
        let preferred = settings.read_preferred()?;
        let rates = kept::first_rates(&settings)?;
        let scheduler = kept::first_scheduler(&settings, progress)?;
        // Before any thread is started, which would not be part of the I/O path.
        let is_in_io_path = options.lock_memory && memory_lock::join_io_path();
        let mut interruptible = Interruptible {
            progress,
            signals: signals.as_ref(),
        };
        let lock = setup::lock(options)?;
        exports.iter().try_for_each(|export| export.check())?;
        let mut prepared = setup::prepare_locked(options, lock, &mut interruptible)?;
        let (handle, commands) =
            commands::channel(settings, options.places.clone(), options.read_only)
                .map_err(|error| failed("start", &error))?;
        let shape = prepared.shape();
        let uuid = prepared
            .described
            .as_ref()
            .map(|described| described.uuid.to_string());
        let block_bytes = prepared.block_bytes;
        let spares = std::mem::take(&mut prepared.spares);
        let (core, lock) = build(options, prepared, policy)?;
        let control = ControlServer::start(options.places.socket(&options.name), handle.clone())?;
        let mut server = Self {
            started: core.now(),
            shown_at: core.log.is_watched().then(|| core.now()),
            shows_work: false,
            core,
            exports,
            name: options.name.clone(),
            option: options.places.option(),
            shape,
            uuid,
            block_bytes,
            memory_bytes: options.memory_bytes,
            scheduler,
            scheduler_on: options.scheduler_on,
            commands,
            handle,
            signals,
            stop: Stop::new(),
            are_exports_closed: false,
            _control: control,
            _lock: lock,
        };
        server
            .watch()
            .map_err(|error| failed("watch descriptors", &error))?;
        server.set_scheduler(scheduler);
        server.begin_work(rates);
        server.prefer_all(&preferred);
        server.take_up()?;
        server.load_volumes()?;
        let core = &mut server.core;
        spares.into_iter().for_each(|spare| core.add_spare(spare));
        server.start_exports()?;
        if options.lock_memory {
            progress.note(memory_lock::lock_memory(is_in_io_path));
        }
        Ok(server)
    }

    fn watch(&self) -> std::io::Result<()> {
        let watch = |fd, source: Source| self.core.watch(fd, source.to_key(), Interest::READABLE);
        self.core.watch_legs(Source::Legs.to_key())?;
        watch(self.commands.waker().as_fd(), Source::Commands)?;
        if let Some(writer) = self.core.keeper.writer() {
            watch(writer.fd(), Source::State)?;
        }
        if let Some(signals) = &self.signals {
            watch(signals.as_fd(), Source::Signals)?;
        }
        Ok(())
    }

    /// Waits until the legs of an array that was not stopped in order know who is in sync: nobody
    /// may read before.
    fn take_up(&mut self) -> Result<(), RuntimeError> {
        while !self.core.engine().is_taken_up() && !self.stop.is_requested() {
            self.turn_unserved(|core| core.engine().is_taken_up())?;
        }
        Ok(())
    }

    /// A turn of the loop before anybody is served. Waits for something to happen, unless it
    /// `is_done`.
    fn turn_unserved(&mut self, is_done: impl Fn(&Core) -> bool) -> Result<(), RuntimeError> {
        self.core.update_now();
        self.core.reap();
        let now = self.core.now();
        let deadline = self.core.engine().next_deadline();
        if deadline.is_some_and(|at| at <= now) {
            self.core.input(Input::DeadlineReached);
        }
        self.core.kick();
        if self.core.has_work() || is_done(&self.core) {
            return Ok(());
        }
        let deadlines = [
            self.core.engine().next_deadline(),
            self.core.hub().next_deadline(),
        ];
        let next = deadlines.into_iter().flatten().min();
        let timeout = next.map(|at| at.saturating_since(self.core.now()));
        let waited = self.core.poller.wait(timeout);
        let count = waited.map_err(|error| failed("wait for descriptors", &error))?;
        for index in 0..count {
            let (key, ready) = self.core.poller.event(index);
            self.on_ready(Source::from_key(key), ready);
        }
        Ok(())
    }

    fn start_exports(&mut self) -> Result<(), RuntimeError> {
        let mut started = Ok(());
        self.each_export(|export, context| {
            if started.is_ok() {
                started = export.start(context);
            }
        });
        if started.is_err() {
            self.close_exports();
        }
        started
    }

    /// Asks this array things, from any thread.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// The array as clients see it.
    #[must_use]
    pub const fn info(&self) -> &ArrayInfo {
        &self.core.info
    }

    /// What the array is made of, as in `a mirror of 3 legs`.
    #[must_use]
    pub fn shape(&self) -> String {
        let map = self.core.engine().map();
        if map.is_mirror() {
            // It may have grown.
            return setup::mirror_of(map.legs());
        }
        self.shape.clone()
    }

    /// How files and block devices are reached.
    #[must_use]
    pub fn backend(&self) -> &str {
        self.core.hub().backend()
    }

    /// The active policy, as `NAME:VALUE`.
    #[must_use]
    pub fn policy(&self) -> String {
        self.core.policy.active().to_string()
    }

    /// What clients connect to.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        self.exports
            .iter()
            .flat_map(|export| export.addresses())
            .collect()
    }

    /// Serves until a signal, [`Handle::stop`], or the end of an export that ends by itself.
    ///
    /// # Errors
    /// Where the kernel refuses to wait for descriptors.
    pub fn run(mut self) -> Result<Stopped, RuntimeError> {
        clock::wake_in_time();
        notify("READY=1");
        self.resume_work();
        loop {
            // First, since starting an export was a turn already: it may have something to send.
            if let Some(stopped) = self.end_turn() {
                return Ok(stopped);
            }
            let timeout = self.timeout();
            let waited = self.core.poller.wait(timeout);
            let count = waited.map_err(|error| failed("wait for descriptors", &error))?;
            self.core.update_now();
            for index in 0..count {
                let (key, ready) = self.core.poller.event(index);
                self.on_ready(Source::from_key(key), ready);
            }
        }
    }

    /// Does what follows from what was handled. How the array ended, when it has.
    fn end_turn(&mut self) -> Option<Stopped> {
        self.settle();
        self.look_at_work();
        self.look_at_learned();
        self.core.kick();
        if !self.are_exports_closed {
            self.each_export(|export, context| export.on_turn_end(context));
            // Buffers given back may have let waiting requests begin.
            self.core.kick();
        }
        self.advance_stop()
    }

    /// How long to wait: not at all while there is something to do.
    fn timeout(&self) -> Option<Duration> {
        if self.core.has_work() {
            return Some(Duration::ZERO);
        }
        let exports = self.exports.iter().filter(|_| !self.are_exports_closed);
        let deadline = exports
            .filter_map(|export| export.next_deadline())
            .chain(self.core.engine().next_deadline())
            .chain(self.core.hub().next_deadline())
            .chain(self.stop.next_deadline())
            .chain(self.next_look_at_work())
            .chain(self.core.learned.next_look())
            .min()?;
        Some(deadline.saturating_since(self.core.now()))
    }

    fn on_ready(&mut self, source: Source, ready: Ready) {
        match source {
            Source::Legs => self.core.wake_by_legs(),
            Source::State => self.on_state_written(),
            Source::Commands => self.on_commands(),
            Source::Signals => {
                let count = self.signals.as_ref().map_or(0, Signals::count_new);
                let now = self.core.now();
                (0..count).for_each(|_| self.stop.request(now));
            }
            Source::Export { index, token } => {
                if !self.are_exports_closed {
                    let mut context = Context::new(&mut self.core, index);
                    self.exports[index].on_ready(&mut context, token, ready);
                }
            }
        }
    }

    fn on_state_written(&mut self) {
        if let Some(writer) = self.core.keeper.writer() {
            writer.clear_readiness();
        }
        while let Some(written) = self.core.keeper.next_written() {
            match written {
                Written::Durable(generation) => self.core.input(Input::Persisted { generation }),
                Written::Failed(problem) => self.core.log.line(format!(
                    "{problem}; writes wait until that is possible, and it is tried every second"
                )),
            }
        }
    }

    fn on_commands(&mut self) {
        self.commands.waker().clear();
        while let Some(command) = self.commands.next() {
            // Whoever asked may have lost patience and be gone: not our loss.
            match command {
                Command::Stats(reply) => drop(reply.try_send(self.snapshot())),
                Command::Metrics(reply) => drop(reply.try_send(Box::new(self.metrics()))),
                Command::Policies(reply) => drop(reply.try_send(self.core.policy.clone())),
                Command::ResetStats(leg, reply) => {
                    drop(reply.try_send(self.reset_stats(leg.as_deref())));
                }
                Command::SetPolicy(text, reply) => {
                    let told = self.core.set_policy(&text);
                    if let Ok(spec) = &told {
                        self.core.log.line(format!("read policy set to '{spec}'"));
                    }
                    drop(reply.try_send(told));
                }
                Command::SetTunable(policy, tunable, text, reply) => {
                    drop(reply.try_send(self.core.set_tunable(policy, tunable, &text)));
                }
                Command::Prefer(role, is_preferred, reply) => {
                    drop(reply.try_send(self.prefer(role, is_preferred)));
                }
                Command::Scheduler(spec, reply) => {
                    let _ = reply.try_send(self.change_scheduler(spec));
                }
                Command::Status(reply) => drop(reply.try_send(self.status())),
                Command::Fail(leg, reply) => drop(reply.try_send(self.fail(&leg))),
                Command::Release(leg, reply) => drop(reply.try_send(self.release(&leg))),
                Command::Wanted(reply) => drop(reply.try_send(self.wanted().map(Box::new))),
                Command::Add(leg, reply) => drop(reply.try_send(self.add(leg))),
                Command::ReplaceBySpare(leg, by, reply) => {
                    drop(reply.try_send(self.replace_by_spare(&leg, by.as_deref())));
                }
                Command::SetFlags(leg, change, reply) => {
                    drop(reply.try_send(self.set_leg_flags(&leg, change)));
                }
                Command::Grow(legs, reply) => drop(reply.try_send(self.grow_to(legs))),
                Command::Replace(leg, by, reply) => drop(reply.try_send(self.replace(&leg, by))),
                Command::Rates(change, reply) => drop(reply.try_send(self.change_rates(change))),
                Command::Explain(watch, reply) => drop(reply.try_send(self.explain(watch))),
                Command::ScrubRuns(reply) => drop(reply.try_send(self.scrub_runs())),
                Command::Scrub(action, reply) => drop(reply.try_send(self.scrub(action))),
                Command::Volumes(reply) => drop(reply.try_send(self.volumes_status())),
                Command::ChangeVolumes(change, reply) => self.change_volumes(change, reply),
                Command::Note(line) => self.core.log.line(line),
                Command::Stop => self.stop.request(self.core.now()),
            }
        }
    }

    /// Handles all that follows from what has been handled, until nothing more does.
    fn settle(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let has_reaped = self.core.reap();
            let was_due = self.run_deadlines();
            let has_answered = self.deliver_completions();
            let has_gone_on = self.run_volumes();
            let was_freed = self.core.take_memory_freed();
            if was_freed && !self.are_exports_closed {
                self.each_export(|export, context| export.on_memory_freed(context));
            }
            if !(has_reaped || was_due || has_answered || has_gone_on || was_freed) {
                return;
            }
        }
    }

    /// Tells whoever asked to be told at a time that it has come. Whether there was any.
    fn run_deadlines(&mut self) -> bool {
        let now = self.core.now();
        let mut was_due = false;
        if self
            .core
            .engine()
            .next_deadline()
            .is_some_and(|at| at <= now)
        {
            self.core.input(Input::DeadlineReached);
            was_due = true;
        }
        if !self.are_exports_closed {
            self.each_export(|export, context| {
                if export.next_deadline().is_some_and(|at| at <= now) {
                    export.on_deadline(context);
                    was_due = true;
                }
            });
        }
        was_due
    }

    /// Gives answers to who asked. Whether there was any.
    fn deliver_completions(&mut self) -> bool {
        let mut has_any = false;
        while let Some(completion) = self.core.next_completion() {
            has_any = true;
            if self.are_exports_closed {
                if let Ok(Answer::Data(data)) = completion.result {
                    data.pieces()
                        .for_each(|piece| self.core.release(piece.buffer));
                }
                continue;
            }
            let mut context = Context::new(&mut self.core, completion.export);
            let export = &mut self.exports[completion.export];
            export.on_complete(&mut context, completion.tag, completion.result);
        }
        has_any
    }

    fn each_export(&mut self, mut call: impl FnMut(&mut dyn Export, &mut Context<'_>)) {
        for (index, export) in self.exports.iter_mut().enumerate() {
            call(export.as_mut(), &mut Context::new(&mut self.core, index));
        }
    }

    fn close_exports(&mut self) {
        self.are_exports_closed = true;
        for export in &mut self.exports {
            export.close();
        }
    }

    /// Goes on with stopping, where that was asked for. How it ended, when it has.
    fn advance_stop(&mut self) -> Option<Stopped> {
        let now = self.core.now();
        if self.stop.phase() == Phase::Serving {
            if self.exports.iter().any(|export| export.has_ended()) {
                self.stop.request(now);
            }
            if !self.stop.is_requested() {
                return None;
            }
            notify("STOPPING=1");
            self.core.volumes.stop();
            self.core.lift_caps();
            self.stop.begin_drain(now);
            self.each_export(|export, context| {
                export.begin_stop(context);
                export.on_turn_end(context);
            });
            self.core.kick();
        }
        if self.stop.phase() == Phase::Draining {
            let is_drained = self.exports.iter().all(|export| export.is_drained())
                && !self.core.volumes.is_writing();
            if !is_drained && !self.stop.is_late(now) {
                return None;
            }
            if !is_drained {
                let who = if self.core.engine().is_idle() {
                    "some clients do not take their answers"
                } else {
                    "a leg is silent, and clients wait for it"
                };
                let line = format!("{who}; going on without them");
                self.core.log.line(line);
            }
            self.close_exports();
            self.stop.begin_flush(now);
            self.core.begin_last_flush();
            self.core.kick();
        }
        let is_clean = self.is_on_record_as_clean();
        if self.is_quiet() || self.stop.is_late(now) {
            self.core
                .work
                .checkpoint(now, self.core.engine().background());
            self.keep_learned();
            self.tell_end(is_clean);
            return Some(Stopped { is_clean });
        }
        None
    }

    /// Whether nothing more will happen by itself.
    fn is_quiet(&self) -> bool {
        let record = self.core.engine().record();
        let engine = self.core.engine();
        let is_settled = !record.dirty || !engine.may_become_clean();
        self.core.last_flush().is_some()
            && engine.is_idle()
            && !self.core.has_work()
            && is_settled
            && engine.is_record_durable()
    }

    /// Whether the next start knows all that it needs. Legs with metadata say themselves where a
    /// resync has to go on.
    fn is_on_record_as_clean(&self) -> bool {
        let engine = self.core.engine();
        let is_flushed = self.core.last_flush() == Some(Ok(()));
        let may_differ = engine.record().dirty && self.uuid.is_none();
        is_flushed && !may_differ && engine.is_record_durable()
    }

    fn tell_end(&self, is_clean: bool) {
        let is_described = self.uuid.is_some();
        if is_described && self.core.engine().record().dirty {
            self.core.log.line(
                "stopped before all legs were equal: the next start goes on with the resync"
                    .to_owned(),
            );
        } else if !is_clean && is_described {
            self.core
                .log
                .line("stopped before all of it was durable on the legs".to_owned());
        } else if !is_clean {
            self.core.log.line(
                "stopped before all legs had everything on record: the next start will ask which \
                 leg is right"
                    .to_owned(),
            );
        }
        let faulted = self.core.engine().record().faulted;
        if !faulted.is_empty() && self.core.keeper.writer().is_some() {
            let names: Vec<&str> = faulted
                .iter()
                .map(|leg| self.core.leg_names()[leg.index()].as_str())
                .collect();
            let names = names.join(", ");
            self.core.log.line(format!(
                "{names} missed writes: the next start needs --copy-from with another leg"
            ));
        }
    }
}

/// Stops a copy when a signal comes.
struct Interruptible<'a> {
    progress: &'a mut dyn Progress,
    signals: Option<&'a Signals>,
}

impl Progress for Interruptible<'_> {
    fn note(&mut self, line: &str) {
        self.progress.note(line);
    }

    fn copied(&mut self, done_bytes: u64, total_bytes: u64) -> bool {
        let has_signal = self.signals.is_some_and(|signals| signals.count_new() > 0);
        self.progress.copied(done_bytes, total_bytes) && !has_signal
    }
}

fn failed(doing: &str, error: &std::io::Error) -> RuntimeError {
    RuntimeError(format!("cannot {doing}: {error}"))
}

/// The array as clients see it.
fn array_info(options: &ArrayOptions, prepared: &Prepared) -> ArrayInfo {
    ArrayInfo {
        size_bytes: prepared.size_bytes,
        block_preferred_bytes: BLOCK_PREFERRED_MIN_BYTES.max(prepared.block_physical_bytes),
        request_max_bytes: u32::try_from(Config::REQUEST_MAX_BYTES).expect("32 MiB"),
        can_trim: prepared.legs.iter().all(|leg| leg.info().trim_reads_zeros),
        can_fast_zero: prepared.legs.iter().any(|leg| !leg.info().fast_zero),
        read_only: options.read_only,
        rotational: prepared.legs.iter().all(|leg| leg.info().rotational),
    }
}

fn build(
    options: &ArrayOptions,
    mut prepared: Prepared,
    policy: PolicyControl,
) -> Result<(Core, ArrayLock), RuntimeError> {
    let leg_error = |error: heliostat_leg::LegError| RuntimeError(error.to_string());
    let memory_bytes = options.memory()?;
    let info = array_info(options, &prepared);
    prepared.make_room().map_err(leg_error)?;
    let leg_names = leg_names(&prepared);
    let volumes = volumes::of(options, &prepared);
    let (work, note) = background::open_work(options, &prepared)?;
    let (learned, learned_note) = learned::open_learned(options, &prepared.legs)?;
    let config = engine_config(options, &prepared, memory_bytes);
    let (keeper, generation) = match prepared.record {
        None => (Keeper::forgetful(), 0),
        Some((file, legs)) => {
            let generation = file.generation;
            let writer = StateWriter::start(options.places.state.clone());
            let writer = writer.map_err(|error| failed("start a thread", &error))?;
            (Keeper::lasting(file, legs, writer), generation)
        }
    };
    let record = match &config.metadata {
        Some(metadata) => metadata.record(),
        None => ArrayRecord {
            generation,
            dirty: false,
            faulted: LegSet::EMPTY,
        },
    };
    let shape = heliostat_policy::ArrayInfo::new(config.map.legs());
    let built = policy.active().build(&shape);
    let mut built = built.map_err(|error| RuntimeError(error.to_string()))?;
    learned.recall(built.as_mut());
    let access = Access::default();
    let arena = Arena::new(memory_bytes).map_err(leg_error)?;
    let hub = LegHub::new(prepared.legs, Arc::clone(&arena), options.io);
    let mut hub = hub.map_err(leg_error)?;
    if options.read_only {
        hub.keep_from_changing(UNWRITTEN_MAX_BYTES);
    }
    let log = Log::start(options.name.clone());
    let core = Core::new(Parts {
        engine: Engine::new(config, access.listened_to(built), record),
        access,
        learned,
        hub,
        arena,
        clock: Clock::start(),
        seed: u64::from(std::process::id()),
        info,
        poller: Poller::new().map_err(|error| failed("wait for descriptors", &error))?,
        keeper,
        policy,
        log: log.map_err(|error| failed("start a thread", &error))?,
        work,
        leg_names,
        volumes,
    });
    let notes = note.into_iter().chain(learned_note);
    notes.for_each(|note| core.log.line(note));
    Ok((core, prepared.lock))
}

/// What the engine is told of the array.
fn engine_config(options: &ArrayOptions, prepared: &Prepared, memory_bytes: usize) -> Config {
    Config {
        size_bytes: prepared.size_bytes,
        map: match &prepared.described {
            Some(described) => described.assembled.map.clone(),
            None => Map::mirror(prepared.legs.len(), prepared.size_bytes),
        },
        block_bytes: prepared.block_bytes,
        memory_bytes,
        leg_timeout: options.leg_timeout,
        clean_delay: Config::CLEAN_DELAY_DEFAULT,
        repairs: !options.read_only,
        write_behind: (prepared.described.as_ref()).map_or(0, Described::write_behind),
        hedges_permille: Config::HEDGES_PERMILLE_DEFAULT,
        accounting: options.accounting,
        scheduler: SchedulerSpec::None,
        scheduler_on: options.scheduler_on,
        client_timeout: options.client_timeout,
        legs: leg_configs(prepared),
        metadata: prepared
            .described
            .as_ref()
            .map(|described| described.assembled.metadata.clone()),
    }
}

/// What each leg is called, by role.
fn leg_names(prepared: &Prepared) -> Vec<String> {
    match &prepared.described {
        Some(described) => described.names.clone(),
        None => {
            let names = prepared.legs.iter().map(OpenedLeg::name);
            names.map(str::to_owned).collect()
        }
    }
}

/// The legs as the engine is told of them.
fn leg_configs(prepared: &Prepared) -> Vec<LegConfig> {
    let mut configs: Vec<LegConfig> = prepared.legs.iter().map(leg_config).collect();
    if let Some(described) = &prepared.described {
        for (role, config) in configs.iter_mut().enumerate() {
            config.data_offset_bytes = described.data_offsets[role];
            set_flags(config, described.flags[role]);
            let leg = LegId::new(role);
            let mut rebuilding = described.assembled.metadata.rebuilding.iter();
            config.state = if described.assembled.in_sync.contains(leg) {
                LegState::InSync
            } else if rebuilding.any(|(rebuilt, _)| *rebuilt == leg) {
                LegState::Rebuilding
            } else {
                LegState::Missing
            };
        }
    }
    configs
}

/// What a leg's superblock says of it.
pub(crate) fn set_flags(config: &mut LegConfig, flags: DeviceFlags) {
    config.write_mostly = flags.contains(DeviceFlags::WRITE_MOSTLY);
    config.failfast = flags.contains(DeviceFlags::FAIL_FAST);
}

pub(crate) fn leg_config(leg: &OpenedLeg) -> LegConfig {
    let info = leg.info();
    LegConfig {
        state: LegState::InSync,
        data_offset_bytes: 0,
        rotational: info.rotational,
        caches_writes: info.caches_writes,
        write_mostly: false,
        failfast: false,
        read_preferred: false,
        queue_depth: info.queue_depth,
        optimal_io_bytes: info.optimal_io_bytes,
        fua: info.fua,
        trim_reads_zeros: info.trim_reads_zeros,
        fast_zero: info.fast_zero,
    }
}

mod background;
mod explain;
mod flags;
mod grow;
mod kept;
mod learned;
mod manage;
mod replace;
mod stats;
#[cfg(test)]
mod tests;
mod volumes;
