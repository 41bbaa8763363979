//! What an array with Linux md metadata keeps on its legs, and how it gets there.
//!
//! A *commit* makes durable, on every leg that is written to, all that is wanted at its start:
//! first pages of the bitmap, then, where the record has changed, the superblocks. There is one at
//! a time; what is wanted meanwhile shares the next one. So legs are never more than one event
//! apart, however many writes wait, and a bit that many writes need costs one write of each leg.
//!
//! The order inside: the pages are durable on all legs before any superblock is sent, because a
//! bitmap that is older than its superblock is worth nothing. A leg that fails a part is taken out,
//! and that is the next commit. Where a leg fails that some bytes depend on alone, the commit has
//! failed, and what waited for it is answered with the error.
//!
//! A superblock says: *dirty* (`resync_offset` 0) before the first write, *clean* only after a
//! flush of every leg; who is out, before any client hears of a write that did not get there.

use heliostat_format::{BitmapBits, Features, RESYNC_DONE, Role, Stamp, Superblock};
use heliostat_types::{Duration, ErrorKind, Extent, Instant, LEGS_MAX, LegId, LegSet, OpKind};

use crate::api::{ArrayRecord, FaultReason, LegState, Output};
use crate::buffer::{BufferSlice, BufferStep};
use crate::change::whole;
use crate::engine::{Engine, Turn, Waiting};
use crate::legs::{NewOp, Op, OpOwner};

/// So many pages of the bitmap go into one commit: all that mdadm makes, and a tenth of the reserve
/// of memory together with the superblocks.
const PAGES_MAX: usize = 32;
/// Bytes of a page of the bitmap, and the room of a superblock.
const PAGE_BYTES: u64 = 4096;
/// md counts in sectors of so many bytes.
const SECTOR_BYTES: u64 = 512;

/// What is known of an array with md metadata when it starts.
#[derive(Clone, Debug)]
pub struct Metadata {
    /// The superblock of each leg, by role; `None` where the leg is missing.
    pub superblocks: Vec<Option<Superblock>>,
    /// The table of roles, by `dev_number`, as the freshest superblock has it.
    pub roles: Vec<Role>,
    /// The bits of all legs that are believed, together; `None` where the array has no bitmap.
    pub bitmap: Option<BitmapBits>,
    /// Where the legs may differ.
    pub unequal: Unequal,
    /// Whether some leg holds another bitmap or another count of events than the others, or a leg
    /// that should be there is not: then all of it is written anew before anything else.
    pub is_uneven: bool,
    /// The time since 1970 at [`Instant::ZERO`].
    pub unix_time: Duration,
}

/// Where the legs of an array may differ after it was not stopped in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unequal {
    /// Nowhere.
    Nowhere,
    /// Where the bitmap has bits.
    Bits,
    /// Anywhere from this address of the array on.
    From(u64),
}

impl Metadata {
    /// The record that an engine starts from.
    #[must_use]
    pub const fn record(&self) -> ArrayRecord {
        ArrayRecord {
            generation: 0,
            dirty: !matches!(self.unequal, Unequal::Nowhere),
            faulted: LegSet::EMPTY,
        }
    }
}

/// How far a commit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Pages,
    Superblocks,
}

/// A commit on its way.
#[derive(Debug)]
struct Commit {
    stage: Stage,
    /// The legs that it must reach.
    targets: LegSet,
    pages: Vec<usize>,
    pages_at: Option<BufferSlice>,
    /// A superblock for each leg, by leg; where the record has not changed, none.
    superblocks_at: Option<BufferSlice>,
    /// By leg, how much of it is written.
    superblock_bytes: [u64; LEGS_MAX],
    /// By leg, operations of this stage that have not ended.
    outstanding: [u32; LEGS_MAX],
    failed: [Option<ErrorKind>; LEGS_MAX],
}

impl Commit {
    fn failed(&self) -> LegSet {
        let failed = |leg: &LegId| self.failed[leg.index()].is_some();
        self.targets.iter().filter(failed).collect()
    }
}

/// The metadata of an array in use.
#[derive(Debug)]
pub(crate) struct Keeper {
    superblocks: Vec<Option<Superblock>>,
    roles: Vec<Role>,
    events: u64,
    unix_time: Duration,
    commit: Option<Commit>,
    /// The number of the commit that is on its way, or was last.
    number: u64,
    /// The record has changed since the last commit began.
    is_record_new: bool,
    /// Somebody waits for a commit.
    is_wanted: bool,
    /// It is wanted, but there was no memory for it.
    waits_for_memory: bool,
    /// How many pages of the bitmap were written since the start.
    pages_written: u64,
    /// All operations of the commit have ended, and nobody has heard of it yet.
    is_commit_over: bool,
}

impl Keeper {
    pub(crate) fn new(metadata: Metadata) -> Self {
        let events = metadata.superblocks.iter().flatten();
        let events = events.map(|superblock| superblock.events).max();
        Self {
            superblocks: metadata.superblocks,
            roles: metadata.roles,
            events: events.expect("an array has a leg"),
            unix_time: metadata.unix_time,
            commit: None,
            number: 0,
            is_record_new: metadata.is_uneven,
            is_wanted: metadata.is_uneven,
            waits_for_memory: false,
            pages_written: 0,
            is_commit_over: false,
        }
    }

    /// The number of the commit that takes what is wanted from now on.
    pub(crate) const fn next(&self) -> u64 {
        self.number + 1
    }

    /// The record has changed. The commit that will have it.
    pub(crate) const fn record_changed(&mut self) -> u64 {
        self.is_record_new = true;
        self.is_wanted = true;
        self.next()
    }

    /// Somebody waits for what is wanted, or on its way. The commit after which to look again.
    pub(crate) const fn want(&mut self) -> u64 {
        if self.commit.is_some() {
            return self.number;
        }
        self.is_wanted = true;
        self.next()
    }

    /// Pages of the bitmap are to be written some time.
    pub(crate) const fn pages_changed(&mut self) {
        self.is_wanted = true;
    }

    /// The count of events in the newest superblocks.
    pub(crate) const fn events(&self) -> u64 {
        self.events
    }

    pub(crate) const fn is_idle(&self) -> bool {
        self.commit.is_none() && !self.is_wanted
    }

    /// How many pages of the bitmap were written since the start.
    pub(crate) const fn pages_written(&self) -> u64 {
        self.pages_written
    }

    /// Whether a commit could begin at once.
    pub(crate) const fn is_due(&self) -> bool {
        self.is_wanted && self.commit.is_none() && !self.waits_for_memory
    }
}

impl Engine {
    /// Whether a commit has ended and nobody has heard of it yet.
    pub(crate) fn is_commit_over(&self) -> bool {
        self.keeper
            .as_ref()
            .is_some_and(|keeper| keeper.is_commit_over)
    }

    /// Begins the next commit, where one is wanted and none is on its way.
    pub(crate) fn begin_commit(&mut self, turn: &Turn<'_>) {
        let Some(keeper) = &self.keeper else {
            return;
        };
        if keeper.is_due() {
            if self.make_commit(turn.now) {
                return self.send_stage(turn);
            }
            self.keeper_mut().waits_for_memory = true;
            self.wait_for_memory(Waiting::Commit, true);
        }
    }

    /// There may be memory for the next commit now. Whether there was.
    pub(crate) fn retry_commit(&mut self, turn: &Turn<'_>) -> bool {
        let is_made = self.make_commit(turn.now);
        if is_made {
            self.keeper_mut().waits_for_memory = false;
            self.send_stage(turn);
        }
        is_made
    }

    /// Puts together what the next commit takes; `false` where there is no memory for it.
    fn make_commit(&mut self, now: Instant) -> bool {
        let targets = self.legs.in_sync;
        let has_record = self.keeper().is_record_new;
        let superblocks_at = if has_record {
            let len_bytes = LEGS_MAX as u64 * PAGE_BYTES;
            let Some(buffer) = self.buffers.alloc_reserved(len_bytes) else {
                return false;
            };
            Some(whole(buffer, len_bytes))
        } else {
            None
        };
        if has_record {
            let events = self.keeper().events + 1;
            self.keeper_mut().events = events;
            self.intent.set_events(events);
        }
        let pages = self.intent.take_stale_pages(PAGES_MAX);
        let pages_at = if pages.is_empty() {
            None
        } else {
            let len_bytes = pages.len() as u64 * PAGE_BYTES;
            let Some(buffer) = self.buffers.alloc_reserved(len_bytes) else {
                self.intent.commit_failed(&pages);
                if let Some(at) = superblocks_at {
                    self.release_buffer(at.buffer);
                }
                return false;
            };
            Some(whole(buffer, len_bytes))
        };
        let has_more = self.intent.has_stale_pages();
        let keeper = self.keeper_mut();
        keeper.number += 1;
        keeper.pages_written += pages.len() as u64;
        keeper.is_wanted = has_more;
        keeper.is_record_new = false;
        keeper.commit = Some(Commit {
            stage: Stage::Pages,
            targets,
            pages,
            pages_at,
            superblocks_at,
            superblock_bytes: [0; LEGS_MAX],
            outstanding: [0; LEGS_MAX],
            failed: [None; LEGS_MAX],
        });
        self.store_commit(now);
        true
    }

    /// Puts the bytes of the commit into its buffers.
    fn store_commit(&mut self, now: Instant) {
        let commit = self.commit();
        let (targets, superblocks_at) = (commit.targets, commit.superblocks_at);
        let pages = commit.pages_at.map(|at| (at, commit.pages.clone()));
        if let Some((at, pages)) = pages {
            let bits = self.intent.bits().expect("pages are those of a bitmap");
            for (slot, page) in (0..).zip(pages) {
                self.outputs.push_back(Output::Buffer(BufferStep::Store {
                    at: at.part(slot * PAGE_BYTES, PAGE_BYTES),
                    bytes: bits.page_bytes(page).into(),
                }));
            }
        }
        if let Some(at) = superblocks_at {
            for leg in targets {
                let mut bytes = self.superblock_of(now, leg).to_bytes();
                let block = self.config.block_bytes as usize;
                bytes.resize(bytes.len().next_multiple_of(block), 0);
                let len_bytes = bytes.len() as u64;
                self.commit().superblock_bytes[leg.index()] = len_bytes;
                self.outputs.push_back(Output::Buffer(BufferStep::Store {
                    at: superblock_slot(at, leg, len_bytes),
                    bytes: bytes.into(),
                }));
            }
        }
    }

    /// The superblock of a leg as the record has it now.
    fn superblock_of(&self, now: Instant, leg: LegId) -> Superblock {
        let keeper = self.keeper.as_ref().expect("the array has metadata");
        let known = keeper.superblocks[leg.index()].as_ref();
        let mut superblock = known.expect("a leg that is written to has one").clone();
        let time = (keeper.unix_time + now.saturating_since(Instant::ZERO)).as_ns() / 1000;
        let microseconds = u32::try_from(time % 1_000_000).expect("below a million");
        superblock.utime = Stamp::new(time / 1_000_000, microseconds);
        superblock.events = keeper.events;
        superblock.resync_offset_sectors = if self.record.newest().dirty {
            0
        } else {
            RESYNC_DONE
        };
        superblock.features = superblock.features.without(Features::RECOVERY_OFFSET);
        superblock.roles.clone_from(&keeper.roles);
        for role in &mut superblock.roles {
            if let Role::Active(number) = *role
                && self.legs.legs[usize::from(number)].state != LegState::InSync
            {
                *role = Role::Faulty;
            }
        }
        superblock
    }

    /// Sends what the stage of the commit has for each leg, or goes on where it has nothing.
    fn send_stage(&mut self, turn: &Turn<'_>) {
        let in_sync = self.legs.in_sync;
        let commit = self.commit();
        let (stage, pages_at, lengths) = (commit.stage, commit.pages_at, commit.superblock_bytes);
        let targets = commit.targets.difference(commit.failed());
        let targets = targets.intersection(in_sync);
        let (runs, superblocks_at) = (runs_of(&commit.pages), commit.superblocks_at);
        match (stage, pages_at, superblocks_at) {
            (Stage::Pages, Some(at), _) => {
                for leg in targets {
                    let first = self.bitmap_address(leg);
                    for &(slot, page, count) in &runs {
                        let len_bytes = count * PAGE_BYTES;
                        let extent = Extent::new(first + page * PAGE_BYTES, len_bytes);
                        let memory = at.part(slot * PAGE_BYTES, len_bytes);
                        self.send_metadata(turn, leg, extent, memory);
                    }
                }
            }
            (Stage::Superblocks, _, Some(at)) => {
                for leg in targets {
                    let superblock = self.keeper().superblocks[leg.index()].as_ref();
                    let superblock = superblock.expect("a leg that is written to has one");
                    let from = superblock.super_offset_sectors * SECTOR_BYTES;
                    let len_bytes = lengths[leg.index()];
                    let memory = superblock_slot(at, leg, len_bytes);
                    self.send_metadata(turn, leg, Extent::new(from, len_bytes), memory);
                }
            }
            (Stage::Pages, None, _) | (Stage::Superblocks, _, None) => {}
        }
        if self.commit().outstanding.iter().all(|&count| count == 0) {
            self.stage_ended(turn);
        }
    }

    fn keeper(&self) -> &Keeper {
        self.keeper.as_ref().expect("the array has metadata")
    }

    fn keeper_mut(&mut self) -> &mut Keeper {
        self.keeper.as_mut().expect("the array has metadata")
    }

    fn commit(&mut self) -> &mut Commit {
        let commit = self.keeper_mut().commit.as_mut();
        commit.expect("its operations are in flight")
    }

    /// Where on a leg the bitmap begins.
    fn bitmap_address(&self, leg: LegId) -> u64 {
        let superblock = self.keeper().superblocks[leg.index()].as_ref();
        let sector = superblock.and_then(Superblock::bitmap_sector);
        sector.expect("every leg of an array with a bitmap has one") * SECTOR_BYTES
    }

    fn send_metadata(&mut self, turn: &Turn<'_>, leg: LegId, extent: Extent, memory: BufferSlice) {
        self.commit().outstanding[leg.index()] += 1;
        let new = NewOp {
            owner: OpOwner::Metadata,
            kind: OpKind::Write,
            extent,
            memory: Some(memory),
            fua: self.legs.legs[leg.index()].config.fua,
            may_trim: false,
        };
        self.assign(turn, leg, new);
    }

    /// A leg has answered an operation of the commit.
    pub(crate) fn metadata_answered(
        &mut self,
        turn: &Turn<'_>,
        op: &Op,
        result: Result<(), ErrorKind>,
    ) {
        let leg = op.leg;
        let is_refused = result == Err(ErrorKind::NotSupported);
        match (op.kind, result) {
            (OpKind::Write, Err(_)) if is_refused && op.fua => {
                self.legs.legs[leg.index()].config.fua = false;
                let memory = op.memory.expect("a write has bytes");
                self.send_metadata(turn, leg, op.extent, memory);
            }
            // A leg that cannot flush has nothing to.
            (OpKind::Flush, Err(_)) if is_refused => {}
            (OpKind::Flush, Err(kind)) => {
                self.note_flush_failed(leg, kind);
                self.commit().failed[leg.index()] = Some(kind);
            }
            (_, Err(kind)) => self.commit().failed[leg.index()] = Some(kind),
            (_, Ok(())) => {}
        }
        let has_fua = self.legs.legs[leg.index()].config.fua;
        let commit = self.commit();
        // What was written with FUA before the leg refused another is durable as well.
        let is_last_write = op.kind == OpKind::Write && commit.outstanding[leg.index()] == 1;
        if is_last_write && !has_fua && commit.failed[leg.index()].is_none() {
            commit.outstanding[leg.index()] += 1;
            self.assign(turn, leg, NewOp::flush(OpOwner::Metadata));
        }
        self.metadata_op_ended(turn, leg);
    }

    /// A leg has answered an operation of the commit, or is out.
    pub(crate) fn metadata_op_ended(&mut self, turn: &Turn<'_>, leg: LegId) {
        let commit = self.commit();
        commit.outstanding[leg.index()] -= 1;
        if commit.outstanding.iter().all(|&count| count == 0) {
            self.stage_ended(turn);
        }
    }

    /// All legs have answered a stage of the commit.
    fn stage_ended(&mut self, turn: &Turn<'_>) {
        let in_sync = self.legs.in_sync;
        let commit = self.commit();
        let left = commit.targets.intersection(in_sync);
        let done = left.difference(commit.failed());
        if commit.stage == Stage::Pages && !done.is_empty() {
            commit.stage = Stage::Superblocks;
            return self.send_stage(turn);
        }
        self.keeper_mut().is_commit_over = true;
    }

    /// Whether the commit is over: then legs that failed it are taken out, and whoever waited for
    /// it goes on.
    pub(crate) fn end_commit(&mut self, turn: &mut Turn<'_>) -> bool {
        let Some(keeper) = self.keeper.as_mut().filter(|keeper| keeper.is_commit_over) else {
            return false;
        };
        keeper.is_commit_over = false;
        let number = keeper.number;
        let commit = keeper.commit.take().expect("it has ended");
        for at in [commit.pages_at, commit.superblocks_at]
            .into_iter()
            .flatten()
        {
            self.release_buffer(at.buffer);
        }
        let failed = commit.failed().intersection(self.legs.in_sync);
        let out = self.spare(failed);
        let kept = failed.difference(out);
        if kept.is_empty() {
            self.intent.committed();
        } else {
            self.intent.commit_failed(&commit.pages);
            // Not tried again before somebody asks: it is likely to fail again.
            let keeper = self.keeper_mut();
            keeper.is_record_new |= commit.superblocks_at.is_some();
        }
        let reason = |leg: LegId| {
            let kind = commit.failed[leg.index()].expect("it has failed");
            FaultReason::WriteFailed(kind)
        };
        for leg in kept {
            self.keep_last(leg, reason(leg));
        }
        for leg in out {
            self.fault_leg(turn, leg, reason(leg));
        }
        match kept.lowest() {
            None => self.persisted(turn, number),
            Some(leg) => {
                let kind = commit.failed[leg.index()].expect("it has failed");
                self.not_persisted(turn, number, kind);
            }
        }
        true
    }
}

/// Where the superblock of a leg lies in the memory of a commit.
fn superblock_slot(at: BufferSlice, leg: LegId, len_bytes: u64) -> BufferSlice {
    at.part(leg.index() as u64 * PAGE_BYTES, len_bytes)
}

/// Pages that follow each other, as (place in the list, first page, how many).
fn runs_of(pages: &[usize]) -> Vec<(u64, u64, u64)> {
    let mut runs: Vec<(u64, u64, u64)> = Vec::new();
    for (slot, &page) in (0..).zip(pages) {
        let page = page as u64;
        match runs.last_mut() {
            Some((_, first, count)) if *first + *count == page => *count += 1,
            _ => runs.push((slot, page, 1)),
        }
    }
    runs
}
