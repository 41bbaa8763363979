//! The world round an engine: clients, legs that keep operations pending, a record that becomes
//! durable late, and a clock that moves when told.
//!
//! It carries out what the engine says and hands everything to the judge. It never chooses what
//! happens next: tests do, by hand or by seed.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use heliostat_engine::{
    AddRefusal, Answer, ArrayRecord, BufferId, BufferStep, Config, Engine, Event, FaultReason,
    Input, LegConfig, LegOp, LegState, Map, Metadata, Missed, Output, Request, RequestKind,
    WriteBuffer,
};
use heliostat_policy::ReadPolicy;
use heliostat_types::{
    ClientId, Duration, ErrorKind, Extent, Instant, LegId, LegSet, OpKind, Prng, RandomStream,
    RequestId, StatusRun, StreamId,
};

use crate::arena::Arena;
use crate::checker::{Checker, Fill, Tick, index};
use crate::leg::{Failure, Leg, SECTOR};
use crate::meta::{self, Meta, Readings};
use crate::policies::Checked;

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
    read_preferred: false,
    queue_depth: 64,
    optimal_io_bytes: 0,
    fua: true,
    trim_reads_zeros: true,
    fast_zero: true,
};

impl Setup {
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
    pub(crate) map: Map,
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
    pub(crate) events: Vec<Event>,
    /// A leg was told to change something.
    pub(crate) mutated: bool,
    /// Where somebody changed what a leg holds, behind the engine's back.
    pub(crate) corrupted: Vec<Extent>,
    /// The last leg of some bytes failed a flush.
    pub(crate) is_lost: bool,
    /// Legs faulted for silence by the last input.
    silent_faults: usize,
    pub(crate) readings: Readings,
    /// How often legs were sent metadata.
    pub(crate) metadata_writes: usize,
    /// When the engine had last nothing to do.
    pub(crate) at_rest: Tick,
    /// Some chunks are to be resynced.
    pub(crate) needs_resync: bool,
    pub(crate) log: Option<Log>,
}

/// The engine of an array.
pub(crate) fn new_engine(
    setup: &Setup,
    map: &Map,
    metadata: Option<Metadata>,
    policy: Box<dyn ReadPolicy>,
) -> Engine {
    let policy = Checked {
        policy,
        map: map.clone(),
    };
    let record = metadata.as_ref().map_or(setup.record, Metadata::record);
    let config = Config {
        size_bytes: setup.size_bytes,
        map: map.clone(),
        block_bytes: setup.block_bytes,
        memory_bytes: setup.memory_bytes,
        leg_timeout: setup.leg_timeout,
        clean_delay: setup.clean_delay,
        accounting: setup.accounting,
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
        let mut world = Self {
            engine: new_engine(&setup, &map, metadata, policy),
            engine_prng: RandomStream::new(setup.seed, "engine", 0),
            prng: RandomStream::new(setup.seed, "world", 0),
            now: Instant::from_ns(1_000_000),
            tick: 1,
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
            events: Vec::new(),
            mutated: false,
            corrupted: Vec::new(),
            is_lost: false,
            silent_faults: 0,
            readings: Readings::default(),
            metadata_writes: 0,
            at_rest: 0,
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
                Output::MemoryFreed => {
                    self.say(|| "memory freed".to_owned());
                    self.refused = false;
                }
            }
        }
        self.judge_states();
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
                let written: Vec<Extent> = written.collect();
                let was_in_sync = self.legs[leg.index()].is_in_sync();
                self.legs[leg.index()].missed = was_in_sync.then_some(written);
                self.legs[leg.index()].faulted = true;
                self.legs[leg.index()].rebuilding = false;
                if reason == FaultReason::Silent {
                    self.silent_faults += 1;
                    self.check(self.silent_faults == 1, || {
                        "several legs were faulted at once for silence".to_owned()
                    });
                    let ghosts = self.pending.iter_mut();
                    ghosts
                        .filter(|pending| pending.op.leg == leg)
                        .for_each(|pending| pending.ghost = true);
                }
                self.doom_writes();
                self.forget_failed();
            }
            Event::ReadFailedOver { .. } => self.forget_failed(),
            Event::LegAdded { leg } => {
                self.legs[leg.index()].faulted = false;
                self.legs[leg.index()].rebuilding = true;
            }
            Event::LegInSync { leg } => {
                self.judge_joined(leg);
                self.legs[leg.index()].rebuilding = false;
                self.legs[leg.index()].in_sync_since = self.tick;
            }
            Event::LastLegKept { .. }
            | Event::ReadRepaired { .. }
            | Event::AddRefused { .. }
            | Event::BackgroundStarted { .. }
            | Event::BackgroundProgress { .. }
            | Event::BackgroundEnded { .. }
            | Event::Mismatch { .. }
            | Event::Unreadable { .. } => self.judge_background(&event),
        }
        self.events.push(event);
    }

    /// Another leg may be the one that is read where legs differ, everywhere.
    fn forget_failed(&mut self) {
        let all = Extent::new(0, self.setup.size_bytes);
        self.checker.reset_failed(all);
    }

    // What clients do.

    fn ask(&mut self, wanted: Wanted, kind: RequestKind) -> u64 {
        let id = self.next_request;
        self.next_request += 1;
        let asked = Asked {
            wanted,
            start: self.tick,
        };
        self.say(|| format!("ask {id} {wanted:?}"));
        self.asked.insert(id, asked);
        if let Some(extent) = wanted.changes() {
            let out = self.legs.iter_mut().filter(|leg| !leg.is_present());
            let missed = out.filter_map(|leg| leg.missed.as_mut());
            missed.for_each(|missed| missed.push(extent));
        }
        let client = self.prng.below(3);
        self.input(Input::Request(Request {
            id: RequestId(id),
            client: ClientId(client),
            stream: StreamId(client),
            kind,
        }));
        id
    }

    pub(crate) fn read(&mut self, extent: Extent) -> u64 {
        self.tick += 1;
        self.ask(Wanted::Read(extent), RequestKind::Read { extent })
    }

    /// Memory for a write, or `None` where it was refused.
    pub(crate) fn alloc(&mut self, extent: Extent) -> Option<Allocated> {
        let Some(buffer) = self.engine.alloc_write(extent) else {
            self.say(|| format!("no memory for {extent:?}"));
            self.refused = true;
            return None;
        };
        let range = self.engine.buffers().resolve(buffer.data);
        self.judge_free_for_writing(&range, "memory for a write");
        self.check(range.len() == index(extent.len()), || {
            format!("memory of {} bytes for {extent:?}", range.len())
        });
        Some(Allocated {
            extent,
            buffer,
            range,
        })
    }

    pub(crate) fn send(&mut self, allocated: Allocated, fua: bool) -> u64 {
        self.tick += 1;
        let Allocated {
            extent,
            buffer,
            range,
        } = allocated;
        let fill = Fill::Pattern(self.checker.next_write());
        fill.write(extent.offset(), self.arena.bytes_mut(range));
        let write = self.checker.write_asked(self.tick, extent, fill, true);
        let buffer = buffer.buffer;
        let kind = RequestKind::Write {
            extent,
            buffer,
            fua,
        };
        self.ask(Wanted::Write { extent, write, fua }, kind)
    }

    /// A write that gets its memory at once.
    pub(crate) fn write(&mut self, extent: Extent) -> u64 {
        let allocated = self.alloc(extent).expect("there is memory");
        self.send(allocated, false)
    }

    pub(crate) fn write_fua(&mut self, extent: Extent) -> u64 {
        let allocated = self.alloc(extent).expect("there is memory");
        self.send(allocated, true)
    }

    pub(crate) fn flush(&mut self) -> u64 {
        self.tick += 1;
        self.ask(Wanted::Flush, RequestKind::Flush)
    }

    pub(crate) fn trim(&mut self, extent: Extent, fua: bool) -> u64 {
        self.tick += 1;
        let write = (self.checker).write_asked(self.tick, extent, Fill::Zeros, false);
        let kind = RequestKind::Trim { extent, fua };
        self.ask(Wanted::Trim { extent, write }, kind)
    }

    pub(crate) fn zeroes(
        &mut self,
        extent: Extent,
        fua: bool,
        may_trim: bool,
        fast_only: bool,
    ) -> u64 {
        self.tick += 1;
        let write = (self.checker).write_asked(self.tick, extent, Fill::Zeros, true);
        let wanted = Wanted::Zeroes {
            extent,
            write,
            fua,
            fast_only,
        };
        let kind = RequestKind::WriteZeroes {
            extent,
            fua,
            may_trim,
            fast_only,
        };
        self.ask(wanted, kind)
    }

    pub(crate) fn status(&mut self, extent: Extent) -> u64 {
        self.tick += 1;
        self.ask(Wanted::Status(extent), RequestKind::BlockStatus { extent })
    }

    /// A request of which only the answer counts.
    pub(crate) fn nonsense(&mut self, kind: RequestKind) -> u64 {
        self.tick += 1;
        self.ask(Wanted::Nonsense, kind)
    }

    pub(crate) fn release(&mut self, held: usize) {
        let Held {
            buffer,
            range,
            copy,
        } = self.held.swap_remove(held);
        self.check(self.arena.is_unchanged(range, &copy), || {
            "the data of an answer changed while the client held it".to_owned()
        });
        self.say(|| format!("release {buffer:?}"));
        self.input(Input::Release { buffer });
    }

    /// A client went away before it sent its write.
    pub(crate) fn drop_allocated(&mut self, allocated: &Allocated) {
        let buffer = allocated.buffer.buffer;
        self.say(|| format!("release {buffer:?}, never sent"));
        self.input(Input::Release { buffer });
    }

    // What legs do.

    /// The pending operations that are so, by place in `pending`.
    pub(crate) fn find(&self, so: impl Fn(&Pending) -> bool) -> Vec<usize> {
        (0..self.pending.len())
            .filter(|&at| so(&self.pending[at]))
            .collect()
    }

    /// Some sectors of a pending write reach the medium; a read's memory is scribbled over.
    pub(crate) fn stir(&mut self, at: usize) {
        let op = self.pending[at].op;
        match op.kind {
            OpKind::Read => {
                let range = self.pending[at].range.clone().expect("a read has memory");
                self.spoil(range);
            }
            OpKind::Write | OpKind::Trim | OpKind::WriteZeroes => self.store_some(at),
            OpKind::Flush | OpKind::BlockStatus => {}
        }
    }

    fn store_some(&mut self, at: usize) {
        self.judge_snapshot(at);
        let pending = &self.pending[at];
        let of_eight = self.prng.below(9);
        let leg = &mut self.legs[pending.op.leg.index()];
        let first = index(pending.op.extent.offset()) / SECTOR;
        for sector in 0..index(pending.op.extent.len()) / SECTOR {
            if self.prng.below(8) < of_eight {
                let bytes = (pending.snapshot.get(sector * SECTOR..(sector + 1) * SECTOR))
                    .unwrap_or(&[0; SECTOR]);
                leg.store_sector(first + sector, bytes);
            }
        }
    }

    /// Ends a pending operation.
    pub(crate) fn complete(&mut self, at: usize, outcome: Outcome) {
        self.tick += 1;
        let op = self.pending[at].op;
        self.say(|| format!("{} ends op {} {outcome:?}", op.leg, op.id.0));
        let runs = self.carry_out(at, outcome);
        let pending = self.pending.remove(at);
        self.note_end(&pending);
        let leg = &mut self.legs[op.leg.index()];
        leg.quiet_since = self.now;
        let error = match outcome {
            Outcome::Good => None,
            Outcome::Bad(error) => Some(error),
            Outcome::Short => Some(ErrorKind::Io),
        };
        if let Some(error) = error {
            leg.failures.push(Failure {
                kind: op.kind,
                extent: op.extent,
                tick: self.tick,
                error,
            });
        } else if op.kind == OpKind::Flush {
            leg.flush(&pending.image, pending.sent);
        }
        if error.is_some() {
            self.doom_writes();
            if op.kind == OpKind::Read {
                self.forget_failed();
            }
        }
        let completion = if op.kind == OpKind::BlockStatus {
            let result = error.map_or(Ok(runs), Err);
            Input::StatusCompletion { op: op.id, result }
        } else {
            let result = error.map_or(Ok(()), Err);
            Input::LegCompletion { op: op.id, result }
        };
        let short_first = self.prng.below(2) == 0;
        if outcome == Outcome::Short && short_first {
            self.fail_leg(op.leg, FaultReason::Short);
        }
        self.input(completion);
        if outcome == Outcome::Short && !short_first {
            self.fail_leg(op.leg, FaultReason::Short);
        }
    }

    fn note_end(&mut self, pending: &Pending) {
        let is_status = |asked: &Asked| matches!(asked.wanted, Wanted::Status(_));
        if !self.asked.values().any(is_status) {
            self.ended.clear();
        } else if pending.stores_bytes() && self.legs[pending.op.leg.index()].is_in_sync() {
            self.ended.push((pending.op, self.tick));
        }
    }

    /// Moves the bytes of an operation that ends now.
    fn carry_out(&mut self, at: usize, outcome: Outcome) -> Vec<StatusRun> {
        let Pending {
            op, sent, ghost, ..
        } = self.pending[at];
        let leg = op.leg.index();
        match (op.kind, outcome) {
            (OpKind::Read, Outcome::Good) if !ghost => {
                let range = self.pending[at].range.clone().expect("a read has memory");
                let bytes = self.legs[leg].bytes(op.extent);
                self.arena.bytes_mut(range).copy_from_slice(bytes);
            }
            (OpKind::Read, _) => {
                let range = self.pending[at].range.clone().expect("a read has memory");
                self.spoil(range);
            }
            (OpKind::Write | OpKind::Trim | OpKind::WriteZeroes, Outcome::Good) => {
                self.judge_snapshot(at);
                let zeros = vec![0; index(op.extent.len())];
                let bytes = if op.kind == OpKind::Write {
                    &self.pending[at].snapshot
                } else {
                    &zeros
                };
                self.legs[leg].store(op.extent, bytes, sent);
                if op.fua {
                    self.legs[leg].harden(op.extent, self.tick);
                }
            }
            (OpKind::Trim | OpKind::WriteZeroes, Outcome::Bad(ErrorKind::NotSupported)) => {}
            (OpKind::Write | OpKind::Trim | OpKind::WriteZeroes, _) => self.store_some(at),
            (OpKind::Flush, Outcome::Good) => {}
            (OpKind::Flush, Outcome::Bad(ErrorKind::NotSupported)) => {
                // It has no cache.
                let all = Extent::new(0, self.legs[leg].data.len() as u64);
                self.legs[leg].harden(all, self.tick);
            }
            (OpKind::Flush, _) => self.legs[leg].fail_flush(self.tick, &mut self.prng),
            (OpKind::BlockStatus, _) => return self.runs(leg, op.extent),
        }
        Vec::new()
    }

    /// What a leg says of its zeros: the truth, but not always all of it.
    fn runs(&mut self, leg: usize, extent: Extent) -> Vec<StatusRun> {
        let block = index(u64::from(self.setup.block_bytes));
        let shy = self.prng.below(4) == 0;
        let mut runs: Vec<StatusRun> = Vec::new();
        for chunk in self.legs[leg].bytes(extent).chunks(block) {
            let zero = chunk.iter().all(|&byte| byte == 0);
            let told = zero && !(shy && self.prng.below(2) == 0);
            match runs.last_mut() {
                Some(last) if last.zero == told => last.len_bytes += chunk.len() as u64,
                _ => runs.push(StatusRun {
                    len_bytes: chunk.len() as u64,
                    hole: told,
                    zero: told,
                }),
            }
        }
        runs
    }

    pub(crate) fn set_rates(&mut self, min_bytes_per_s: u64, max_bytes_per_s: u64) {
        self.input(Input::SetBackgroundRates {
            min_bytes_per_s,
            max_bytes_per_s,
        });
    }

    /// The power failed in the middle of writes everywhere: each leg holds something else. The
    /// engine is told that everything is needed; whichever leg's bytes are read once, stay.
    pub(crate) fn stop_uncleanly(&mut self) {
        let all = Extent::new(0, self.setup.size_bytes);
        for leg in 0..self.legs.len() {
            let fill = Fill::Pattern(self.checker.next_write());
            let write = (self.checker).write_asked(self.tick, all, fill, true);
            let bytes = &mut self.legs[leg];
            fill.write(0, &mut bytes.data);
            bytes.durable.copy_from_slice(&bytes.data);
            self.tick += 1;
            self.checker.write_failed(self.tick, write);
        }
        self.checker.part_doomed(self.tick, all);
        self.say(|| "an unclean stop".to_owned());
        self.input(Input::StartResync { everything: true });
    }

    /// A leg that is out is there again: as it was, or with rubbish on it. Whether it was taken.
    pub(crate) fn add_leg(&mut self, leg: LegId, rubbish: Option<u8>, missed: Missed) -> bool {
        self.say(|| format!("add {leg}, rubbish {rubbish:?}, {missed:?}"));
        let config = LegConfig {
            state: LegState::InSync,
            ..self.legs[leg.index()].config
        };
        let before = self.events.len();
        let busy = self.pending.iter().any(|pending| pending.op.leg == leg);
        let is_out = !self.legs[leg.index()].is_present();
        let is_recorded = self.engine.add_refusal(leg) != Some(AddRefusal::Unrecorded);
        if is_out && !busy && is_recorded {
            self.legs[leg.index()].come_back(config, rubbish);
        }
        let superblock = self.superblock_on(leg).map(Box::new);
        self.input(Input::AddLeg {
            leg,
            config,
            missed,
            superblock,
        });
        let added = self.events[before..].contains(&Event::LegAdded { leg });
        self.check(added == (is_out && !busy && is_recorded), || {
            format!("{leg}: added {added}, is out {is_out}, is busy {busy}")
        });
        added
    }

    pub(crate) fn fail_leg(&mut self, leg: LegId, reason: FaultReason) {
        self.say(|| format!("fail {leg} {reason:?}"));
        self.legs[leg.index()].told = true;
        self.input(Input::FailLeg { leg, reason });
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

    pub(crate) fn set_policy(&mut self, policy: Box<dyn ReadPolicy>) {
        self.say(|| format!("policy {}", policy.name()));
        let policy = Checked {
            policy,
            map: self.map.clone(),
        };
        self.input(Input::SetPolicy(Box::new(policy)));
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
