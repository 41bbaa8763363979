//! The world round an engine: clients, legs that keep operations pending, a record that becomes
//! durable late, and a clock that moves when told.
//!
//! It carries out what the engine says and hands everything to the judge. It never chooses what
//! happens next: tests do, by hand or by seed.

mod clients;
mod devices;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use heliostat_engine::{
    Answer, ArrayRecord, BufferId, BufferStep, Config, Engine, Event, FaultReason, Input,
    LegConfig, LegOp, LegState, Map, Metadata, Output, SchedulerPlace, Spare, SpareId, WriteBuffer,
};
use heliostat_policy::ReadPolicy;
use heliostat_scheduler::SchedulerSpec;
use heliostat_types::{
    Duration, ErrorKind, Extent, Instant, LegId, LegSet, OpKind, Prng, RandomStream, StatusRun,
};

use crate::arena::Arena;
use crate::behind::Behind;
use crate::checker::{Checker, Tick};
use crate::fill::{Fill, index};
use crate::leg::Leg;
use crate::meta::{self, Meta, Readings};
use crate::policies::{Checked, SharedMap};

/// What an array and its surroundings are like.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) seed: u64,
    pub(crate) size_bytes: u64,
    /// Where what lies; `None`: a mirror.
    pub(crate) map: Option<Map>,
    pub(crate) block_bytes: u32,
    pub(crate) memory_bytes: usize,
    pub(crate) leg_timeout: Duration,
    pub(crate) clean_delay: Duration,
    pub(crate) write_behind: u32,
    pub(crate) hedges_permille: u64,
    pub(crate) scheduler: SchedulerSpec,
    pub(crate) scheduler_on: SchedulerPlace,
    pub(crate) accounting: bool,
    pub(crate) legs: Vec<LegConfig>,
    pub(crate) fill: Fill,
    pub(crate) record: ArrayRecord,
    /// What is kept on the legs; then `record` says nothing.
    pub(crate) meta: Option<Meta>,
}

/// A leg that can do everything.
pub(crate) const LEG: LegConfig = LegConfig {
    state: LegState::InSync,
    data_offset_bytes: 0,
    rotational: false,
    write_mostly: false,
    failfast: false,
    read_preferred: false,
    queue_depth: 64,
    optimal_io_bytes: 0,
    fua: true,
    trim_reads_zeros: true,
    fast_zero: true,
};

impl Setup {
    /// Whether there is one more leg than the array had roles at the start.
    pub(crate) fn has_room(&self) -> bool {
        self.map
            .as_ref()
            .is_some_and(|map| self.legs.len() > map.legs())
    }

    /// So many good legs with 64 KiB.
    pub(crate) fn legs(count: usize) -> Self {
        Self {
            seed: 1,
            size_bytes: 64 << 10,
            map: None,
            block_bytes: 512,
            memory_bytes: Config::MEMORY_MIN_BYTES,
            leg_timeout: Config::LEG_TIMEOUT_DEFAULT,
            clean_delay: Config::CLEAN_DELAY_DEFAULT,
            write_behind: 0,
            hedges_permille: Config::HEDGES_PERMILLE_DEFAULT,
            scheduler: SchedulerSpec::None,
            scheduler_on: SchedulerPlace::Legs,
            accounting: true,
            legs: vec![LEG; count],
            fill: Fill::Pattern(0),
            record: ArrayRecord {
                generation: 7,
                dirty: false,
                faulted: LegSet::EMPTY,
            },
            meta: None,
        }
    }
}

/// What a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Read(Extent),
    Write {
        extent: Extent,
        write: usize,
        fua: bool,
    },
    Flush,
    Trim {
        extent: Extent,
        write: usize,
    },
    Zeroes {
        extent: Extent,
        write: usize,
        fua: bool,
        fast_only: bool,
    },
    Status(Extent),
    /// Something that cannot be: the answer is all that counts.
    Nonsense,
}

impl Wanted {
    /// Which bytes it may change.
    pub(crate) fn changes(self) -> Option<Extent> {
        match self {
            Self::Write { extent, .. }
            | Self::Zeroes { extent, .. }
            | Self::Trim { extent, .. } => Some(extent),
            Self::Read(_) | Self::Flush | Self::Status(_) | Self::Nonsense => None,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) wanted: Wanted,
    pub(crate) start: Tick,
}

/// What a client got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Done,
    Data(Vec<u8>),
    Status(Vec<StatusRun>),
}

/// An operation that a leg has not reported yet.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) op: LegOp,
    pub(crate) range: Option<Range<usize>>,
    /// The bytes of a write when it was sent: they must not change.
    pub(crate) snapshot: Vec<u8>,
    pub(crate) sent: Tick,
    /// All that was there when a flush was sent.
    image: Vec<u8>,
    /// Its leg fell silent and was faulted: nobody wants its bytes any more.
    pub(crate) ghost: bool,
}

impl Pending {
    /// Whether it writes anything but zeros.
    pub(crate) fn stores_bytes(&self) -> bool {
        self.snapshot.iter().any(|&byte| byte != 0)
    }
}

/// How a leg ends an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Good,
    Bad(ErrorKind),
    /// It moved fewer bytes than asked.
    Short,
}

/// The data of a read that a client still looks at.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) buffer: BufferId,
    pub(crate) range: Range<usize>,
    copy: Vec<u8>,
}

/// A write that a client has memory for but did not send yet.
#[derive(Debug)]
pub(crate) struct Allocated {
    pub(crate) extent: Extent,
    pub(crate) buffer: WriteBuffer,
    pub(crate) range: Range<usize>,
}

/// What fits on two screens.
const STORY_LINES: usize = 80;

pub(crate) type Log = Rc<RefCell<Vec<String>>>;

/// The end of what was logged.
pub(crate) fn story(log: &Log) -> String {
    let lines = log.borrow();
    lines[lines.len().saturating_sub(STORY_LINES)..].join("\n")
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) engine: Engine,
    engine_prng: RandomStream,
    pub(crate) prng: RandomStream,
    pub(crate) now: Instant,
    pub(crate) tick: Tick,
    pub(crate) setup: Setup,
    /// Where what lies. A leg that lost its role holds what it held, and keeps it here.
    pub(crate) map: Map,
    /// The same when an engine begins.
    pub(crate) plain: Map,
    /// The same as policies are checked against.
    checked: SharedMap,
    pub(crate) legs: Vec<Leg>,
    pub(crate) arena: Arena,
    pub(crate) checker: Checker,
    pub(crate) pending: Vec<Pending>,
    pub(crate) ops_used: BTreeSet<u64>,
    /// Writes that ended while a client waits for a status, and when.
    pub(crate) ended: Vec<(LegOp, Tick)>,
    pub(crate) asked: BTreeMap<u64, Asked>,
    next_request: u64,
    pub(crate) answers: BTreeMap<u64, Result<Reply, ErrorKind>>,
    /// Whether answers are kept for a test to look at.
    pub(crate) keeps_answers: bool,
    pub(crate) held: Vec<Held>,
    pub(crate) allocated: Vec<Allocated>,
    /// An allocation was refused and `MemoryFreed` did not come yet.
    pub(crate) refused: bool,
    /// The newest record the engine was told of, and those it gave out since.
    pub(crate) delivered: ArrayRecord,
    pub(crate) issued: Vec<ArrayRecord>,
    /// What the engine is to be told before anything else.
    compared: Vec<Input>,
    /// The spares that are there, and how many there ever were.
    pub(crate) spares: Vec<Spare>,
    pub(crate) spares_ever: u32,
    /// Spares that cannot be put in any place.
    pub(crate) broken_spares: Vec<SpareId>,
    /// The spare that is to be put in the place of a leg.
    called: Option<(SpareId, LegId)>,
    pub(crate) events: Vec<Event>,
    /// A leg was told to change something.
    pub(crate) mutated: bool,
    /// Where somebody changed what a leg holds, behind the engine's back.
    pub(crate) corrupted: Vec<Extent>,
    /// The last leg of some bytes failed a flush.
    pub(crate) is_lost: bool,
    /// The sectors that were on no other leg than one that is out now.
    pub(crate) lost_with_legs: BTreeSet<u64>,
    /// Legs faulted for silence by the last input.
    silent_faults: usize,
    /// Reads that legs have failed, and when.
    pub(crate) failed_reads: Vec<(LegOp, Tick)>,
    pub(crate) readings: Readings,
    /// How many clients there are.
    pub(crate) clients: u64,
    /// What is to be done as one and has not all come: the last of it, as the leg has it.
    joining: Option<LegOp>,
    /// How often something was done as one with what came before it.
    pub(crate) merges: usize,
    /// How often legs were sent metadata.
    pub(crate) metadata_writes: usize,
    /// Writes that were answered while legs did not have them yet.
    pub(crate) behind: Vec<Behind>,
    /// Which legs have ended which writes well.
    pub(crate) stored: BTreeSet<(LegId, usize)>,
    /// When the engine had last nothing to do.
    pub(crate) at_rest: Tick,
    /// A leg that stayed until the last power cut had failed to be written: perhaps it could not
    /// be put on record who was out.
    pub(crate) is_untold: bool,
    /// Some chunks are to be resynced.
    pub(crate) needs_resync: bool,
    pub(crate) log: Option<Log>,
}

/// The engine of an array.
fn new_engine(
    setup: &Setup,
    (map, checked): (&Map, &SharedMap),
    metadata: Option<Metadata>,
    policy: Box<dyn ReadPolicy>,
) -> Engine {
    let policy = Checked {
        policy,
        map: checked.clone(),
    };
    let record = metadata.as_ref().map_or(setup.record, Metadata::record);
    let config = Config {
        size_bytes: setup.size_bytes,
        map: map.clone(),
        block_bytes: setup.block_bytes,
        memory_bytes: setup.memory_bytes,
        leg_timeout: setup.leg_timeout,
        clean_delay: setup.clean_delay,
        write_behind: setup.write_behind,
        hedges_permille: setup.hedges_permille,
        scheduler: setup.scheduler,
        scheduler_on: setup.scheduler_on,
        accounting: setup.accounting,
        client_timeout: Config::CLIENT_TIMEOUT_DEFAULT,
        legs: setup.legs.clone(),
        metadata,
    };
    Engine::new(config, Box::new(policy), record)
}

impl World {
    pub(crate) fn new(setup: Setup, policy: Box<dyn ReadPolicy>) -> Self {
        let mirror = || Map::mirror(setup.legs.len(), setup.size_bytes);
        let map = setup.map.clone().unwrap_or_else(mirror);
        let legs = setup.legs.iter().enumerate().map(|(number, &config)| {
            let mut leg = Leg::new(config, setup.size_bytes, setup.fill);
            if let Some(meta) = setup.meta {
                meta::format(&setup, meta, number, &mut leg);
            }
            leg
        });
        let legs: Vec<Leg> = legs.collect();
        let metadata = setup.meta.map(|_| meta::metadata_of(&setup, &legs));
        let checked = SharedMap::new(map.clone());
        let mut world = Self {
            engine: new_engine(&setup, (&map, &checked), metadata, policy),
            engine_prng: RandomStream::new(setup.seed, "engine", 0),
            prng: RandomStream::new(setup.seed, "world", 0),
            now: Instant::from_ns(1_000_000),
            tick: 1,
            plain: map.clone(),
            checked,
            map,
            legs,
            arena: Arena::new(setup.memory_bytes),
            checker: Checker::new(setup.size_bytes, setup.fill),
            pending: Vec::new(),
            ops_used: BTreeSet::new(),
            ended: Vec::new(),
            asked: BTreeMap::new(),
            next_request: 0,
            answers: BTreeMap::new(),
            keeps_answers: true,
            held: Vec::new(),
            allocated: Vec::new(),
            refused: false,
            delivered: setup.record,
            issued: Vec::new(),
            compared: Vec::new(),
            spares: Vec::new(),
            spares_ever: 0,
            broken_spares: Vec::new(),
            called: None,
            events: Vec::new(),
            mutated: false,
            corrupted: Vec::new(),
            is_lost: false,
            lost_with_legs: BTreeSet::new(),
            silent_faults: 0,
            failed_reads: Vec::new(),
            readings: Readings::default(),
            clients: 3,
            joining: None,
            merges: 0,
            metadata_writes: 0,
            behind: Vec::new(),
            stored: BTreeSet::new(),
            at_rest: 0,
            is_untold: false,
            needs_resync: false,
            log: Some(Log::default()),
            setup,
        };
        world.drain();
        world
    }

    /// Writes a line of the story.
    pub(crate) fn say(&self, line: impl FnOnce() -> String) {
        if let Some(log) = &self.log {
            let text = format!("{:>6} {:>12} {}", self.tick, self.now.as_ns(), line());
            log.borrow_mut().push(text);
        }
    }

    pub(crate) fn fail(&self, what: &str) -> ! {
        // A random run is told by who drew it.
        let told = match &self.log {
            Some(log) if self.keeps_answers => story(log),
            _ => String::new(),
        };
        panic!("{told}\nat {}: {what}", self.tick)
    }

    pub(crate) fn check(&self, so: bool, what: impl FnOnce() -> String) {
        if !so {
            self.fail(&what());
        }
    }

    pub(crate) fn input(&mut self, input: Input) {
        self.tick += 1;
        self.silent_faults = 0;
        self.engine
            .handle_input(self.now, input, &mut self.engine_prng);
        self.drain();
        // Any order does.
        while !self.compared.is_empty() {
            let at = self.prng.below(self.compared.len() as u64);
            let compared = self.compared.swap_remove(index(at));
            self.engine
                .handle_input(self.now, compared, &mut self.engine_prng);
            self.drain();
        }
        if let Some((spare, leg)) = self.called.take() {
            self.put_in_place(spare, leg);
        }
    }

    pub(crate) fn drain(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Dispatch(op) => self.on_dispatch(op),
                Output::Buffer(step) => self.on_step(step),
                Output::Compare(comparison) => {
                    let compared = comparison.carry_out(self.engine.buffers(), &self.arena);
                    self.compared.push(compared);
                }
                Output::Complete { id, result } => self.on_complete(id.0, result),
                Output::Persist(record) => self.on_persist(record),
                Output::Event(event) => self.on_event(event),
                Output::UseSpare { spare, leg } => {
                    self.say(|| format!("  {spare:?} takes the place of {leg}"));
                    self.called = Some((spare, leg));
                }
                Output::MemoryFreed => {
                    self.say(|| "memory freed".to_owned());
                    self.refused = false;
                }
            }
        }
        let nothing = self.joining.is_none();
        self.check(nothing, || {
            "all that is done as one comes at once".to_owned()
        });
        self.judge_states();
        self.judge_behind();
        if self.engine.is_idle() {
            self.at_rest = self.tick;
        }
        if self.setup.meta.is_some() && self.prng.below(16) == 0 {
            self.judge_power_cut();
        }
    }

    /// The same operation with its extent on the array, where all bytes are kept here.
    fn on_array(&self, op: LegOp) -> LegOp {
        if op.extent.is_empty() {
            return op;
        }
        let data_offset = self.legs[op.leg.index()].config.data_offset_bytes;
        if op.extent.end() <= data_offset {
            // Behind the array's bytes.
            let extent = op.extent.moved(self.setup.size_bytes);
            return LegOp { extent, ..op };
        }
        let Some(offset) = op.extent.offset().checked_sub(data_offset) else {
            self.fail(&format!("metadata and data at once: {op:?}"));
        };
        let op = LegOp {
            extent: Extent::new(offset, op.extent.len()),
            ..op
        };
        let address = |at: u64| self.map.array_address(op.leg, at);
        let (first, last) = (address(op.extent.offset()), address(op.extent.end() - 1));
        let (Some(first), Some(last)) = (first, last) else {
            self.fail(&format!("no byte of the array is there: {op:?}"));
        };
        let extent = Extent::new(first, op.extent.len());
        let is_one = last == extent.end() - 1 && self.map.first_part(extent) == extent;
        self.check(is_one, || format!("it crosses a border: {op:?}"));
        LegOp { extent, ..op }
    }

    /// The parts of `extent` that a leg holds.
    pub(crate) fn held(&self, leg: usize, extent: Extent) -> Vec<Extent> {
        let holds = |part: &Extent| self.map.holders(part.offset()).contains(LegId::new(leg));
        self.map.parts(extent).filter(holds).collect()
    }

    fn on_dispatch(&mut self, op: LegOp) {
        self.judge_joined_ops(&op);
        let op = self.on_array(op);
        self.say(|| {
            format!(
                "  op {} {} {:?} {:?}{}",
                op.id.0,
                op.leg,
                op.kind,
                op.extent,
                if op.fua { " fua" } else { "" }
            )
        });
        let is_new = self.ops_used.insert(op.id.0);
        self.check(is_new, || {
            "the number of an operation was used before".to_owned()
        });
        let range = op.memory.map(|slice| self.engine.buffers().resolve(slice));
        self.judge_dispatch(&op, range.as_ref());
        self.judge_bits(&op);
        self.may_fail_over(&op);
        self.mutated |= op.kind.is_mutating() && !self.is_metadata(&op);
        let mut snapshot = Vec::new();
        if let Some(range) = &range {
            if op.kind == OpKind::Write {
                snapshot = self.arena.bytes(range.clone()).to_vec();
                if self.is_metadata(&op) {
                    self.metadata_writes += 1;
                    self.judge_metadata_write(&op, &snapshot);
                }
            } else {
                self.spoil(range.clone());
            }
        }
        let leg = &mut self.legs[op.leg.index()];
        if !self.pending.iter().any(|pending| pending.op.leg == op.leg) {
            leg.quiet_since = self.now;
        }
        let image = if op.kind == OpKind::Flush {
            leg.data.clone()
        } else {
            Vec::new()
        };
        self.pending.push(Pending {
            op,
            range,
            snapshot,
            sent: self.tick,
            image,
            ghost: false,
        });
    }

    /// What is done as one is alike, data, in a row, and comes in a row.
    fn judge_joined_ops(&mut self, op: &LegOp) {
        let before = self.joining.take();
        if let Some(before) = before {
            let is_next = before.next == Some(op.id) && before.leg == op.leg;
            let is_alike = (before.kind, before.fua) == (op.kind, op.fua);
            let in_row = before.extent.end() == op.extent.offset();
            self.check(is_next && is_alike && in_row, || {
                format!("{op:?} is done as one with {before:?}")
            });
            self.merges += 1;
        }
        if before.is_some() || op.next.is_some() {
            let moves = matches!(op.kind, OpKind::Read | OpKind::Write);
            let is_data = op.extent.offset() >= self.legs[op.leg.index()].config.data_offset_bytes;
            self.check(moves && !op.fua && is_data, || {
                format!("{op:?} is done by itself")
            });
        }
        self.joining = op.next.map(|_| *op);
    }

    /// A leg may write anything into the memory of a read before it has ended.
    pub(crate) fn spoil(&mut self, range: Range<usize>) {
        let rubbish = self.prng.next_u64().to_le_bytes();
        for chunk in self.arena.bytes_mut(range).chunks_mut(rubbish.len()) {
            chunk.copy_from_slice(&rubbish[..chunk.len()]);
        }
    }

    fn on_step(&mut self, step: BufferStep) {
        if !matches!(step, BufferStep::Store { .. }) {
            self.say(|| format!("  {step:?}"));
        }
        let (BufferStep::Copy { to: at, .. }
        | BufferStep::Zero { at }
        | BufferStep::Store { at, .. }) = step;
        let range = self.engine.buffers().resolve(at);
        self.judge_free_for_writing(&range, "a buffer step");
        self.engine.buffers().execute(step, &mut self.arena);
    }

    fn on_complete(&mut self, id: u64, result: Result<Answer, ErrorKind>) {
        self.tick += 1;
        let Some(asked) = self.asked.remove(&id) else {
            self.fail(&format!("an answer to {id}, which nobody waits for"));
        };
        let reply = match result {
            Ok(Answer::Done) => Ok(Reply::Done),
            Ok(Answer::Status(runs)) => Ok(Reply::Status(runs)),
            Err(error) => Err(error),
            Ok(Answer::Data(slice)) => {
                let range = self.engine.buffers().resolve(slice);
                self.judge_held(&range);
                let copy = self.arena.bytes(range.clone()).to_vec();
                self.held.push(Held {
                    buffer: slice.buffer,
                    range,
                    copy: copy.clone(),
                });
                Ok(Reply::Data(copy))
            }
        };
        self.say(|| {
            let text = match &reply {
                Ok(Reply::Data(_)) => "data".to_owned(),
                other => format!("{other:?}"),
            };
            format!("  answer {id} {:?}: {text}", asked.wanted)
        });
        self.judge_answer(&asked, &reply);
        if self.keeps_answers {
            self.answers.insert(id, reply);
        }
    }

    fn on_persist(&mut self, record: ArrayRecord) {
        self.say(|| format!("  persist {record:?}"));
        self.judge_record(record);
        self.issued.push(record);
    }

    fn on_event(&mut self, event: Event) {
        self.say(|| format!("  {event:?}"));
        match event {
            Event::LegFaulted { leg, reason } => {
                self.judge_fault(leg, reason);
                let written = self
                    .asked
                    .values()
                    .filter_map(|asked| asked.wanted.changes());
                // What differs may be made equal while it is out.
                let written = written.chain(self.checker.failed_extents());
                let behind = self.behind.iter().map(|behind| behind.extent);
                let written: Vec<Extent> = written.chain(behind).collect();
                let was_in_sync = self.legs[leg.index()].is_in_sync();
                self.note_lost_with(leg);
                self.legs[leg.index()].missed = was_in_sync.then_some(written);
                self.legs[leg.index()].faulted = true;
                self.legs[leg.index()].rebuilding = false;
                if reason == FaultReason::Silent {
                    self.is_silent(leg);
                }
                self.doom_writes();
                self.forget_failed();
            }
            Event::ReadFailedOver { .. } => self.forget_failed(),
            Event::BadBlocksWritten { leg, extent } => {
                let now = self.tick;
                self.legs[leg.index()].healed.push((extent, now));
            }
            Event::FlagsSet { leg, flags } => self.legs[leg.index()].heed(flags),
            Event::Grown { leg } => self.grown(leg),
            Event::LegAdded { leg } => {
                self.legs[leg.index()].faulted = false;
                self.legs[leg.index()].rebuilding = true;
            }
            Event::LegInSync { leg } => {
                self.judge_joined(leg);
                self.legs[leg.index()].rebuilding = false;
                self.legs[leg.index()].in_sync_since = self.tick;
                self.note_found_with(leg);
            }
            Event::ReplaceBegun { leg: _, by } => {
                self.legs[by.index()].faulted = false;
                self.legs[by.index()].rebuilding = true;
            }
            Event::LegReplaced { leg, by } => {
                let is_whole = self.legs[by.index()].is_in_sync();
                self.check(is_whole, || {
                    format!("{leg} is replaced by one that is not whole")
                });
                self.judge_replaced(leg);
                self.note_lost_with(leg);
                self.legs[leg.index()].faulted = true;
                self.forget_failed();
            }
            Event::LastLegKept { .. }
            | Event::ReadRepaired { .. }
            | Event::BadBlocksFound { .. }
            | Event::AddRefused { .. }
            | Event::GrowRefused { .. }
            | Event::NoSpareFits { .. }
            | Event::BackgroundStarted { .. }
            | Event::BackgroundProgress { .. }
            | Event::BackgroundEnded { .. }
            | Event::Mismatch { .. }
            | Event::Unreadable { .. } => self.judge_background(&event),
        }
        self.events.push(event);
    }

    /// Another leg may be the one that is read where legs differ, everywhere.
    pub(crate) fn forget_failed(&mut self) {
        let all = Extent::new(0, self.setup.size_bytes);
        self.checker.legs_changed(self.tick);
        self.checker.reset_failed(all);
    }

    // What the shell does.

    /// Record number `at` of those issued is durable, and the engine is told.
    pub(crate) fn deliver(&mut self, at: usize) {
        let record = self.issued[at];
        self.issued.drain(..=at);
        self.delivered = record;
        self.say(|| format!("persisted {}", record.generation));
        self.input(Input::Persisted {
            generation: record.generation,
        });
    }

    pub(crate) fn set_scheduler(&mut self, spec: SchedulerSpec) {
        self.say(|| format!("scheduler {spec}"));
        self.setup.scheduler = spec;
        self.input(Input::SetScheduler(spec));
    }

    pub(crate) fn set_policy(&mut self, policy: Box<dyn ReadPolicy>) {
        self.say(|| format!("policy {}", policy.name()));
        let policy = Checked {
            policy,
            map: self.checked.clone(),
        };
        self.input(Input::SetPolicy(Box::new(policy)));
    }

    /// The engine begins anew with these legs.
    pub(crate) fn begin_engine(&mut self, metadata: Metadata, policy: Box<dyn ReadPolicy>) {
        let maps = (&self.plain, &self.checked);
        self.engine = new_engine(&self.setup, maps, Some(metadata), policy);
        self.drain();
    }

    /// A leg has answered nothing for too long: what it may still do, it does behind the back.
    fn is_silent(&mut self, leg: LegId) {
        self.silent_faults += 1;
        self.check(self.silent_faults == 1, || {
            "several legs were faulted at once for silence".to_owned()
        });
        let ghosts = self.pending.iter_mut();
        ghosts
            .filter(|pending| pending.op.leg == leg)
            .for_each(|pending| pending.ghost = true);
    }

    /// There is one more role, and this leg has it.
    fn grown(&mut self, leg: LegId) {
        let roles = self.plain.legs() + 1;
        self.plain = Map::mirror(roles, self.setup.size_bytes);
        let map = self.engine.map().clone();
        let is_so = map.legs() == roles && map.role_of(leg) == Some(roles - 1);
        self.check(is_so, || format!("{leg} is not the last of {roles} roles"));
        self.set_map(map);
        // Legs beyond those that are drawn are missing for good.
        if let Some(slot) = self.legs.get_mut(leg.index()) {
            slot.config.state = LegState::Missing;
            slot.faulted = false;
        }
    }

    pub(crate) fn set_map(&mut self, map: Map) {
        self.checked.set(map.clone());
        self.map = map;
    }

    /// A leg holds what is in this role from now on.
    pub(crate) fn give_role(&mut self, leg: LegId, role: usize) {
        let mut map = self.map.clone();
        map.give_role(leg, role);
        self.set_map(map);
    }

    /// Moves the clock; the deadline is told if it has come.
    pub(crate) fn advance(&mut self, length: Duration) {
        self.now += length;
        self.tell_deadline();
    }

    /// Tells the engine of its deadline if it has come. Whether it had.
    pub(crate) fn tell_deadline(&mut self) -> bool {
        let due = self.engine.next_deadline().is_some_and(|at| at <= self.now);
        if due {
            self.say(|| "deadline".to_owned());
            self.input(Input::DeadlineReached);
            let next = self.engine.next_deadline();
            self.check(next.is_none_or(|at| at > self.now), || {
                format!("the deadline {next:?} stays due")
            });
        }
        due
    }
}
