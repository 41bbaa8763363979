//! The world round an engine: clients, legs that keep operations pending, a record that becomes
//! durable late, and a clock that moves when told.
//!
//! It carries out what the engine says and hands everything to the judge. It never chooses what
//! happens next: tests do, by hand or by seed.

mod clients;
mod devices;
mod outputs;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use heliostat_engine::{
    ArrayRecord, BufferId, Config, Engine, Event, Input, LegConfig, LegOp, LegState, Map, Metadata,
    SchedulerPlace, Spare, SpareId, WriteBuffer,
};
use heliostat_policy::ReadPolicy;
use heliostat_scheduler::SchedulerSpec;
use heliostat_types::{
    Duration, ErrorKind, Extent, Instant, LegId, LegSet, Prng, RandomStream, StatusRun,
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
    pub(crate) repairs: bool,
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
    caches_writes: false,
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
            repairs: true,
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
    /// The last leg of some bytes failed a flush, or lost what it had answered.
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
        repairs: setup.repairs,
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

    /// The parts of `extent` that a leg holds.
    pub(crate) fn held(&self, leg: usize, extent: Extent) -> Vec<Extent> {
        let holds = |part: &Extent| self.map.holders(part.offset()).contains(LegId::new(leg));
        self.map.parts(extent).filter(holds).collect()
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
