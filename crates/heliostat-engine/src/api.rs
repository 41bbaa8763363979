//! What goes into the engine and what comes out.

use heliostat_format::{BadBlocks, Superblock};
use heliostat_policy::{Checkpoint, PolicySpec, ReadPolicy};
use heliostat_scheduler::{FlowLimits, SchedulerSpec};
use heliostat_types::{
    ClientId, Duration, ErrorKind, Extent, FlowId, LegId, LegOpId, LegSet, OpKind, RequestId,
    StatusRun, StreamId,
};

use crate::accounting::{Account, Waits};
use crate::background::{
    AddRefusal, BackgroundEnd, BackgroundKind, Comparison, Mismatches, Missed, RepairSource,
};
use crate::buffer::{BufferId, BufferSlice, BufferStep};
use crate::flags::LegFlags;
use crate::grow::GrowRefusal;
use crate::map::Map;
use crate::metadata::Metadata;
use crate::spares::{Spare, SpareId};

/// What an array is made of. Fixed for the engine's life.
#[derive(Clone, Debug)]
pub struct Config {
    /// Usable size; a multiple of `block_bytes`, and no more than `map` has room for.
    pub size_bytes: u64,
    /// Where each byte of the array lies on the legs.
    pub map: Map,
    /// Internal I/O begins and ends at multiples of this: the largest logical block size among the
    /// legs. A power of two, at least 512 and at most 4096.
    pub block_bytes: u32,
    /// Size of the arena that all buffers lie in; at least [`Config::MEMORY_MIN_BYTES`].
    pub memory_bytes: usize,
    /// A leg with operations outstanding and none completing for this long is faulted.
    pub leg_timeout: Duration,
    /// An array that was written and then idle for this long is flushed and recorded as clean.
    pub clean_delay: Duration,
    /// Of a mirror, how many writes write-mostly legs may be behind; 0: none.
    pub write_behind: u32,
    /// Of a thousand reads, and of a thousand bytes read, how many may be read from a second leg as
    /// well because the first is late.
    pub hedges_permille: u64,
    /// Whether what a leg cannot read is written to it anew, and a leg that cannot read too much is
    /// faulted. Not where nothing is written to legs.
    pub repairs: bool,
    /// Whether counters and histograms of clients and legs are kept.
    pub accounting: bool,
    /// In which order things go that wait,
    pub scheduler: SchedulerSpec,
    /// and where they wait.
    pub scheduler_on: SchedulerPlace,
    /// A request that is not answered after this long is counted as late: a client's own time-out.
    pub client_timeout: Duration,
    /// The legs in role order, as many as `map` has; or one more, in whose place a leg can be made
    /// that replaces another one. Without [`Metadata::replaced`] that one is missing.
    pub legs: Vec<LegConfig>,
    /// What is kept on the legs themselves; `None` where the shell keeps the record.
    pub metadata: Option<Metadata>,
}

impl Config {
    /// The largest request in bytes: what NBD clients may send without negotiating.
    pub const REQUEST_MAX_BYTES: u64 = 32 << 20;
    /// The smallest arena: one largest request, wherever it begins, and room for others.
    pub const MEMORY_MIN_BYTES: usize = 80 << 20;
    /// The arena unless told otherwise.
    pub const MEMORY_DEFAULT_BYTES: usize = 256 << 20;
    /// How long a leg may be silent unless told otherwise.
    pub const LEG_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
    /// How old a request is that is late, unless told otherwise: what a host gives up after that
    /// has multipath, or a client of a network disk.
    pub const CLIENT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);
    /// As md's safemode delay.
    pub const CLEAN_DELAY_DEFAULT: Duration = Duration::from_ms(200);
    /// Hedges mend a few bad moments in a hundred; where more reads than that are late, more reads
    /// would be what makes them so.
    pub const HEDGES_PERMILLE_DEFAULT: u64 = 30;
    /// The floor and the ceiling of background work in bytes per second: md's.
    pub const BACKGROUND_RATES_DEFAULT: (u64, u64) = (1_000_000, 200_000_000);

    /// Whether the fields are what they say they are.
    ///
    /// # Panics
    /// Where they are not.
    pub(crate) fn check(&self) {
        let block = self.block_bytes;
        assert!(block.is_power_of_two(), "a block size is a power of two");
        assert!(
            (512..=4096).contains(&block),
            "a block has 512 to 4096 bytes"
        );
        assert!(
            self.size_bytes.is_multiple_of(u64::from(block)),
            "an array has whole blocks"
        );
        assert!(
            (1..=heliostat_types::LEGS_MAX).contains(&self.legs.len()),
            "1 to 16 legs"
        );
        let has_room = self.legs.len() == self.map.legs() + 1;
        assert!(
            has_room || self.legs.len() == self.map.legs(),
            "the map is one of these legs"
        );
        let last = self.legs.len() - 1;
        let replaced = self.metadata.as_ref().and_then(|known| known.replaced);
        assert!(
            !has_room || replaced.is_some() || self.legs[last].state == LegState::Missing,
            "a leg beyond the roles replaces another one"
        );
        assert!(
            self.size_bytes <= self.map.size_bytes(),
            "the map has room for the array"
        );
        assert!(
            self.memory_bytes >= Self::MEMORY_MIN_BYTES,
            "the arena holds the largest request"
        );
    }
}

/// Where a scheduler stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchedulerPlace {
    /// In front of each leg, one for each, over what the leg is to do.
    #[default]
    Legs,
    /// In front of the array, over what clients ask for; in front of the legs there is `none`.
    Array,
}

impl SchedulerPlace {
    /// What people call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Legs => "leg",
            Self::Array => "array",
        }
    }
}

impl std::str::FromStr for SchedulerPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Legs, Self::Array];
        let found = all.into_iter().find(|place| place.name() == text);
        found.ok_or_else(|| format!("'{text}' is neither leg nor array"))
    }
}

/// One leg as the engine is told of it at the start.
#[derive(Clone, Copy, Debug)]
pub struct LegConfig {
    /// Whether it serves.
    pub state: LegState,
    /// Where on it the array's bytes begin; a multiple of the block size.
    pub data_offset_bytes: u64,
    /// Whether it turns.
    pub rotational: bool,
    /// Whether it answers writes from a cache, before they are where they stay.
    pub caches_writes: bool,
    /// Read only if nothing else is left.
    pub write_mostly: bool,
    /// Out at its first error where others are left, and sooner when it is silent.
    pub failfast: bool,
    /// Preferred by the `device` policy.
    pub read_preferred: bool,
    /// How many operations it is given at once; more wait in the queue in front of it.
    pub queue_depth: u32,
    /// The request size that suits it best, in bytes; 0 where it does not say.
    pub optimal_io_bytes: u64,
    /// Whether it takes writes with FUA; otherwise the engine flushes it after the write.
    pub fua: bool,
    /// Whether a trim leaves zeros behind.
    pub trim_reads_zeros: bool,
    /// Whether it can write zeros without being sent them, and does so faster than a write.
    pub fast_zero: bool,
}

impl LegConfig {
    /// What is known of a leg that is not there.
    pub(crate) const MISSING: Self = Self {
        state: LegState::Missing,
        data_offset_bytes: 0,
        rotational: false,
        caches_writes: false,
        write_mostly: false,
        failfast: false,
        read_preferred: false,
        queue_depth: 1,
        optimal_io_bytes: 0,
        fua: false,
        trim_reads_zeros: false,
        fast_zero: false,
    };
}

/// Whether a leg serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LegState {
    /// It holds every acknowledged write, and may be read.
    InSync,
    /// It gets every write, while what it missed is copied to it; it is read by nobody. A leg
    /// starts so only where [`Metadata::rebuilding`] says what it lacks.
    Rebuilding,
    /// It failed a write or a flush, was silent, or shrank; it gets no operation until it is added
    /// again.
    Faulted,
    /// It was not there at the start.
    Missing,
}

/// A request of a client.
#[derive(Debug)]
pub struct Request {
    /// Echoed with the answer; unique among the requests in flight.
    pub id: RequestId,
    /// Who asks.
    pub client: ClientId,
    /// On whose account.
    pub flow: FlowId,
    /// On which of its connections.
    pub stream: StreamId,
    /// For what.
    pub kind: RequestKind,
}

/// What is asked for. Extents are checked by the engine: what does not lie inside the array is
/// answered with [`ErrorKind::InvalidInput`] (reads) or [`ErrorKind::NoSpace`] (others), what is
/// larger than [`Config::REQUEST_MAX_BYTES`] with [`ErrorKind::TooLarge`] (reads and writes), and
/// what is empty is done at once.
#[derive(Debug)]
pub enum RequestKind {
    /// Bytes, at any alignment. Answered with [`Answer::Data`].
    Read {
        /// Which.
        extent: Extent,
    },
    /// Stores bytes, at any alignment.
    Write {
        /// Where.
        extent: Extent,
        /// From `Engine::alloc_write` for the same extent, filled, or from `Engine::alloc_writes`
        /// whose next extent this is. The engine owns it from now on.
        buffer: BufferId,
        /// Answered only when durable.
        fua: bool,
    },
    /// Makes all that was answered before durable.
    Flush,
    /// Gives bytes up. What they read as afterwards is not said, but it is the same on every leg.
    Trim {
        /// Which.
        extent: Extent,
        /// Answered only when durable.
        fua: bool,
    },
    /// Zeros, at any alignment.
    WriteZeroes {
        /// Where.
        extent: Extent,
        /// Answered only when durable.
        fua: bool,
        /// Whether storage may be given back.
        may_trim: bool,
        /// Answer [`ErrorKind::NotSupported`], with no leg changed, where this would not be faster
        /// than a write.
        fast_only: bool,
    },
    /// Which ranges are holes or zeros. Answered with [`Answer::Status`].
    BlockStatus {
        /// Asked for. The runs begin there and may end before its end, never after.
        extent: Extent,
    },
}

/// What the engine is told.
#[derive(Debug)]
pub enum Input {
    /// A client asks.
    Request(Request),
    /// A leg operation ended. Every dispatched operation is reported exactly once, even when its
    /// leg was faulted long before.
    LegCompletion {
        /// Which.
        op: LegOpId,
        /// How. A leg that answered short reports [`ErrorKind::Io`] and is reported as
        /// [`Input::FailLeg`] besides.
        result: Result<(), ErrorKind>,
    },
    /// An operation of kind [`OpKind::BlockStatus`] ended; the runs begin at its extent's start and
    /// are clipped to it.
    StatusCompletion {
        /// Which.
        op: LegOpId,
        /// The runs.
        result: Result<Vec<StatusRun>, ErrorKind>,
    },
    /// The record of this generation is durable.
    Persisted {
        /// From [`Output::Persist`].
        generation: u64,
    },
    /// A client is done with the data of a read, or gives back a write buffer it never submitted.
    Release {
        /// Which.
        buffer: BufferId,
    },
    /// A leg is to be faulted: by hand, or because the shell saw it shrink, answer short, or lose
    /// what it had answered. The last good leg of any byte is not.
    FailLeg {
        /// Which.
        leg: LegId,
        /// Why.
        reason: FaultReason,
    },
    /// A leg that is missing or faulted is there, perhaps on another device, and is to be rebuilt.
    /// Answered with [`Event::LegAdded`] or [`Event::AddRefused`].
    AddLeg {
        /// Which.
        leg: LegId,
        /// What it is like now; its state counts for nothing.
        config: LegConfig,
        /// What is to be copied to it.
        missed: Missed,
        /// What it says of the array, or is to say, where that is kept on the legs; `None`: what
        /// was known of this leg before.
        superblock: Option<Box<Superblock>>,
        /// What the log on it says that it does not hold, where `superblock` is there; `None`:
        /// the log is empty.
        bad_blocks: Option<Box<BadBlocks>>,
    },
    /// A leg in sync is to be replaced by another device, which gets what is written and is filled
    /// from the legs in sync; when it is whole, it has the role of the leg that it replaces, which
    /// is out. The new leg is `Engine::free_leg`, and it is out until this is said. Answered
    /// with [`Event::ReplaceBegun`] or [`Event::AddRefused`].
    ReplaceLeg {
        /// Which.
        leg: LegId,
        /// What the new one is like; its state counts for nothing.
        config: LegConfig,
        /// What the new one is to say of the array.
        superblock: Box<Superblock>,
    },
    /// This is said of a leg from now on, where `Engine::flags_refusal` has nothing against it.
    /// Answered with [`Event::FlagsSet`] when it is durable.
    SetFlags {
        /// Of which.
        leg: LegId,
        /// What.
        flags: LegFlags,
    },
    /// The policy `device` reads this leg from now on (`true`), or not any more.
    SetReadPreferred(LegId, bool),
    /// A mirror with metadata is to have one more leg, which is missing until one is added.
    /// Answered with [`Event::Grown`] when that is durable, or with [`Event::GrowRefused`].
    Grow,
    /// There is a spare, which is to take the place of a leg that is out. When it does,
    /// [`Output::UseSpare`] comes.
    AddSpare(Spare),
    /// A spare is gone, or could not be put in a leg's place.
    RemoveSpare(SpareId),
    /// Make legs in sync equal where failed writes have left them different, or where an unclean
    /// stop may have: everywhere, or in what is known to be needed, if anything is. To be said once
    /// when an engine begins: until then it reads each such range from one leg.
    StartResync {
        /// Whether all of the array is needed.
        everything: bool,
    },
    /// Compare all legs in sync; a scrub that is under way begins anew.
    StartScrub {
        /// Whether what differs is made equal.
        repair: bool,
    },
    /// The same, from some address on: what lies before was compared earlier.
    GoOnWithScrub {
        /// Whether what differs is made equal.
        repair: bool,
        /// The first byte of the array that is to be compared.
        from_bytes: u64,
    },
    /// Begin no further background work. What is under way ends soon.
    PauseBackground,
    /// Go on with background work that was paused, or was incomplete.
    ResumeBackground,
    /// Give up the scrub.
    StopBackground,
    /// How fast background work goes, from now on.
    SetBackgroundRates {
        /// At least, as far as devices and memory allow, whatever clients ask for.
        min_bytes_per_s: u64,
        /// At most.
        max_bytes_per_s: u64,
    },
    /// What [`Output::Compare`] asked for, as `Comparison::carry_out` says it.
    Compared {
        /// What was compared.
        comparison: Comparison,
        /// The numbers of the blocks that differ, rising.
        differing: Vec<u32>,
    },
    /// From now on this policy chooses. Reads already at a leg stay there.
    SetPolicy(Box<dyn ReadPolicy>),
    /// The policy that chooses goes on with what it has learned, under other tunables.
    ConfigurePolicy(PolicySpec),
    /// From now on this scheduler decides what each leg gets next, of what waits already as well.
    SetScheduler(SchedulerSpec),
    /// What a flow may have of each leg from now on. It counts under schedulers that look at flows.
    SetFlow {
        /// Which.
        flow: FlowId,
        /// What.
        limits: FlowLimits,
    },
    /// Statistics begin anew, for one leg or all.
    ResetStats(Option<LegId>),
    /// The time of `Engine::next_deadline` has come.
    DeadlineReached,
}

/// What the engine wants done, in this order.
#[derive(Debug)]
pub enum Output {
    /// Give this to the leg.
    Dispatch(LegOp),
    /// Do this to the arena, now.
    Buffer(BufferStep),
    /// Compare, now, and say what [`Comparison::carry_out`] gives when all outputs are drained.
    Compare(Comparison),
    /// Answer the client.
    Complete {
        /// Which request.
        id: RequestId,
        /// How.
        result: Result<Answer, ErrorKind>,
    },
    /// Make this durable, then say [`Input::Persisted`]. Only the newest one matters. Never of an
    /// array with [`Config::metadata`].
    Persist(ArrayRecord),
    /// Put this spare in the place of a leg and say [`Input::AddLeg`], or say
    /// [`Input::RemoveSpare`] where that cannot be done; when all outputs are drained.
    UseSpare {
        /// Which one.
        spare: SpareId,
        /// In whose place.
        leg: LegId,
    },
    /// Something to tell people.
    Event(Event),
    /// `Engine::alloc_write` refused before, and may not refuse now.
    MemoryFreed,
}

/// What must survive the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayRecord {
    /// Rises with each record.
    pub generation: u64,
    /// Whether the legs may differ: a write was admitted and not all legs have flushed since, or
    /// failed writes left ranges that differ.
    pub dirty: bool,
    /// The legs that are out: faulted, or not rebuilt yet.
    pub faulted: LegSet,
}

/// A successful answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done.
    Done,
    /// The bytes lie here; give the buffer back with [`Input::Release`].
    Data(BufferSlice),
    /// The runs, from the start of the extent asked for.
    Status(Vec<StatusRun>),
}

/// One operation on one leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegOp {
    /// Its number.
    pub id: LegOpId,
    /// Which leg.
    pub leg: LegId,
    /// On whose account.
    pub flow: FlowId,
    /// What. [`OpKind::Trim`] is sent only to legs that read zeros afterwards.
    pub kind: OpKind,
    /// Which bytes of the leg, from its start, aligned to blocks; empty for a flush.
    pub extent: Extent,
    /// Source of a write, destination of a read; as long as the extent. `None` for the rest.
    pub memory: Option<BufferSlice>,
    /// Complete only when durable.
    pub fua: bool,
    /// For [`OpKind::WriteZeroes`]: whether storage may be given back.
    pub may_trim: bool,
    /// Whether it is better failed at once than done late: nothing is lost with this leg.
    pub failfast: bool,
    /// Whether another leg was asked for the same read before, and is late.
    pub is_hedge: bool,
    /// The next operation for this leg is this one, it is of the same kind and goes on where this
    /// one ends, and the leg does both as one. Each is reported by itself, in this order, and as it
    /// went with all that were done as one.
    pub next: Option<LegOpId>,
}

/// Why a leg was faulted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultReason {
    /// It failed a write, trim or write-zeroes.
    WriteFailed(ErrorKind),
    /// It failed a flush.
    FlushFailed(ErrorKind),
    /// It failed too many reads, or could not be rewritten after one.
    ReadFailed(ErrorKind),
    /// It had operations outstanding and completed none for the leg time-out.
    Silent,
    /// It became smaller, or answered with fewer bytes than asked.
    Short,
    /// What it had answered may be gone, or it came back as another one.
    Lost,
    /// Somebody asked for it.
    ByHand,
}

/// Something to tell people. Never needed for correctness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A leg is out.
    LegFaulted {
        /// Which.
        leg: LegId,
        /// Why.
        reason: FaultReason,
    },
    /// A leg should have been faulted, but it is the last good one of some bytes.
    LastLegKept {
        /// Which.
        leg: LegId,
        /// Why it would have been faulted.
        reason: FaultReason,
    },
    /// No leg has room for a write, which has failed; told again when one has gone well since.
    NoSpace {
        /// Which bytes of the array.
        extent: Extent,
    },
    /// A leg failed a read and another one is asked.
    ReadFailedOver {
        /// Which failed.
        leg: LegId,
        /// Which bytes of the array.
        extent: Extent,
        /// How.
        kind: ErrorKind,
    },
    /// A read error was mended: good bytes were written over it and read back.
    ReadRepaired {
        /// Which leg.
        leg: LegId,
        /// Which bytes of the array.
        extent: Extent,
    },
    /// A leg has failed to write some blocks. It stays; they are logged, and read elsewhere.
    BadBlocksFound {
        /// Which leg.
        leg: LegId,
        /// Where on it the first one is, from the start of its data.
        first_bytes: u64,
        /// How many sectors of 512 bytes they are.
        sectors: u64,
    },
    /// Bad blocks of a leg were written, and are good again.
    BadBlocksWritten {
        /// Which leg.
        leg: LegId,
        /// Where on it they are, at most, from the start of its data.
        extent: Extent,
    },
    /// A leg was added and is being rebuilt.
    LegAdded {
        /// Which.
        leg: LegId,
    },
    /// A leg was added that is to replace another one, and is being filled.
    ReplaceBegun {
        /// The leg that is to be replaced.
        leg: LegId,
        /// The new one.
        by: LegId,
    },
    /// A leg is out because another one has taken its role. Nothing is wrong with it.
    LegReplaced {
        /// Which.
        leg: LegId,
        /// The one that has its role now, and is in sync.
        by: LegId,
    },
    /// A leg could not be added, or not be replaced.
    AddRefused {
        /// Which.
        leg: LegId,
        /// Why.
        refusal: AddRefusal,
    },
    /// Something else is said of a leg, durably.
    FlagsSet {
        /// Of which.
        leg: LegId,
        /// What.
        flags: LegFlags,
    },
    /// The array has one more role, durably, whose leg is missing.
    Grown {
        /// The leg that has it.
        leg: LegId,
    },
    /// The array does not get one more leg.
    GrowRefused {
        /// Why.
        refusal: GrowRefusal,
    },
    /// A leg is out, and there are spares, but none that is large enough.
    NoSpareFits {
        /// Which.
        leg: LegId,
    },
    /// A leg was rebuilt, that is on record, and from now on it is read.
    LegInSync {
        /// Which.
        leg: LegId,
    },
    /// Background work begins.
    BackgroundStarted {
        /// What.
        kind: BackgroundKind,
        /// On how many bytes.
        total_bytes: u64,
    },
    /// Another tenth of it is done.
    BackgroundProgress {
        /// What.
        kind: BackgroundKind,
        /// How much is done,
        done_bytes: u64,
        /// of how much.
        total_bytes: u64,
    },
    /// Background work has ended.
    BackgroundEnded {
        /// What.
        kind: BackgroundKind,
        /// How.
        end: BackgroundEnd,
        /// What was written to legs, once for all of them.
        copied_bytes: u64,
        /// How much was gone through; all of it, unless it was stopped or incomplete.
        done_bytes: u64,
        /// By a scrub: what differed.
        mismatches: Mismatches,
    },
    /// A scrub found legs that differ. Told of the first ones only; all are counted.
    Mismatch {
        /// Where.
        extent: Extent,
        /// In how many sectors of 512 bytes.
        sectors: u64,
        /// What they were made equal to, if so.
        repair: Option<RepairSource>,
    },
    /// The background work found bytes that no leg in sync can read. Told of the first ones only.
    Unreadable {
        /// Which bytes of the array.
        extent: Extent,
    },
}

/// What one leg did since the statistics began.
#[derive(Clone, Debug, Default)]
pub struct LegStats {
    /// Its operations: in flight from the moment it was given them on, waiting or not; how long
    /// they took is how long the device had them.
    pub account: Account,
    /// How long reads waited in front of the device.
    pub read_waits: Waits,
    /// How long writes did.
    pub write_waits: Waits,
    /// Of reads and writes, those that went to the device as one with another one before them.
    pub merges: u64,
    /// Reads begun because another leg was late.
    pub hedge_reads: u64,
    /// How often a read could have gone here since it last did, as btrfs's `age`.
    pub age: u64,
    /// How often a read could have gone here and went elsewhere.
    pub ignored: u64,
    /// What the active policy has of it, where that goes by averages since a checkpoint.
    pub checkpoint: Option<Checkpoint>,
}
