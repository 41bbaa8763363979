//! The background work as shells see it.

use heliostat_types::{Duration, Extent, LegId, LegSet};

use crate::api::Input;
use crate::buffer::{BufferSlice, BufferTable, Memory};

/// What the background does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackgroundKind {
    /// Makes legs in sync equal where they may differ, in array addresses.
    Resync,
    /// Copies to legs what they missed, in leg addresses.
    Rebuild,
    /// Reads all legs in sync and compares, in array addresses.
    Scrub {
        /// Whether what differs is made equal.
        repair: bool,
    },
}

/// How a background job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackgroundEnd {
    /// All was done.
    Done,
    /// Somebody stopped it.
    Stopped,
    /// All was done but for some bytes, of which this is the first run: no leg could be read there,
    /// or one that must stay could not be written.
    Incomplete(Extent),
    /// The legs that were rebuilt are out again.
    LegsFaulted,
    /// Legs have all they missed, but that cannot be put on record.
    NotRecorded,
}

/// What a leg that comes back has missed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missed {
    /// All from this address of the leg on: 0 for a new leg, more where an earlier rebuild has come
    /// that far, durably, and nothing was written since.
    From(u64),
    /// These bytes of the array, at least: all that was written since it was in sync.
    Extents(Vec<Extent>),
    /// What lies in chunks of the bitmap that have a bit.
    Bits {
        /// Only from this address of the leg on: a copy by the bitmap has come so far, durably, and
        /// nothing was written since but to this leg as well.
        from: u64,
        /// Besides, all from this address of the leg on: it was being filled when it left.
        all_from: Option<u64>,
    },
}

/// Why a leg could not be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddRefusal {
    /// It is there already.
    Present,
    /// That it is out is not on record yet, and somebody might still believe it. Ask again soon.
    Unrecorded,
    /// The array keeps metadata on its legs, and this leg has none of it.
    NoSuperblock,
    /// It cannot be replaced, because it is not in sync: another device is added in its place.
    NotInSync,
    /// A leg is being replaced already, and that is done for one at a time.
    Replacing,
    /// There are as many legs as there can be.
    NoRoom,
    /// It has no role any more: another leg has taken it.
    NoRole,
    /// The device may still write to or read from memory: so many operations that it was given
    /// before it was faulted have not been reported yet. Ask again when they have.
    Outstanding(usize),
}

/// Where a scrub took the bytes from that it wrote over others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepairSource {
    /// More than half of the copies agreed, wherever any differed.
    Majority,
    /// Somewhere there was no majority: there, the first leg in sync, in role order.
    First(LegId),
    /// The leg that reads of this range have gone to since a write failed.
    Pinned(LegId),
}

/// In how much of the array a scrub has found copies that differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mismatches {
    /// Sectors of 512 bytes, each once, however many copies differ in it.
    pub sectors: u64,
    /// Runs of such sectors. What is compared at once is looked at alone: a run that goes on behind
    /// it counts again.
    pub runs: u64,
    /// Of the sectors that a repair has made equal: those of pages in which no majority of copies
    /// said, nor a write that failed before, what is right.
    pub undecided_sectors: u64,
}

/// How far the background work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackgroundStatus {
    /// What it does.
    pub kind: BackgroundKind,
    /// The legs that are rebuilt.
    pub legs: LegSet,
    /// Whether it was told to pause.
    pub is_paused: bool,
    /// Where it is: in the array, or for a rebuild on the legs.
    pub position_bytes: u64,
    /// How much of it is done,
    pub done_bytes: u64,
    /// and how much there is to do in all.
    pub total_bytes: u64,
    /// What it did within the last seconds, per second.
    pub bytes_per_s: u64,
    /// Below this address all is done, whatever is under way; of a rebuild 0.
    pub settled_bytes: u64,
    /// What was written to legs, once for all of them.
    pub copied_bytes: u64,
    /// By a scrub: what differs between legs.
    pub mismatches: Mismatches,
    /// At this rate, for how long it will go on.
    pub time_left: Option<Duration>,
}

/// Two slices of the arena that are to be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    pub(crate) window: u32,
    /// Which two legs' bytes these are.
    pub(crate) legs: (LegId, LegId),
    /// The bytes of one leg.
    pub one: BufferSlice,
    /// The bytes of the other.
    pub other: BufferSlice,
    /// In blocks of this size.
    pub block_bytes: u32,
}

impl Comparison {
    /// Compares, and says what the engine is to be told.
    #[must_use]
    pub fn carry_out(self, buffers: &BufferTable, memory: &dyn Memory) -> Input {
        Input::Compared {
            differing: buffers.compare(self.one, self.other, self.block_bytes, memory),
            comparison: self,
        }
    }
}
