//! What an array with Linux md metadata keeps on its legs, and how it gets there.
//!
//! A *commit* makes durable, on every leg that is written to, all that is wanted at its start:
//! first pages of the bitmap, then, where the record has changed, the superblocks. There is one at
//! a time; what is wanted meanwhile shares the next one. So legs are never more than one event
//! apart, however many writes wait, and a bit that many writes need costs one write of each leg.
//!
//! A commit is made of steps, each durable on all legs before the next one is sent: the pages in
//! front of any superblock, because a bitmap that is older than its superblock is worth nothing. A
//! leg that fails a step is taken out, and that is the next commit; no write relies on the first
//! one before the second is durable, so that a leg that may be believed after a crash has all bits.
//! Where a leg fails that some bytes depend on alone, the commit has failed, and what waited for it
//! is answered with the error.
//!
//! Where an engine begins with legs that do not say the same, its first commit makes them: those
//! that are one event behind hear of that event alone, before there is another one. Where a leg is
//! out there is an event before anything is written, because it may be as fresh as the others, and
//! two where nobody knew of that, because then it may be one in front of them. Only the second one
//! says that it is out: it may call one of them failed, and two legs that are equally fresh and say
//! that of each other are a case for people. A bitmap that nobody could believe says so itself
//! until all its pages are durable.
//!
//! A leg that is being rebuilt gets the same, with a superblock that says how far it has come. It
//! is the last to get it in each event, so that whoever hears of an event first is in sync.
//!
//! A leg that replaces another one (see [`crate::replace`]) is the exception. In the event that
//! gives it the role, the other one is called faulty, and so it must not be that only legs have
//! heard of it which are neither of the two: the new leg hears of it first, and where it fails
//! that, the others are told in this event that all is as before. The old leg is not told that it
//! is out. An event before has told all of the new leg, or they would not believe it.
//!
//! A superblock says: *dirty* (`resync_offset` 0) before the first write, *clean* only after a
//! flush of every leg; who is out, before any client hears of a write that did not get there.

use std::collections::VecDeque;

use heliostat_format::{BadBlocks, BitmapBits, BitmapState, Role, Superblock};
use heliostat_types::{
    Duration, ErrorKind, Extent, FlowId, LEGS_MAX, LegId, LegSet, OpKind, SECTOR_BYTES,
};

use crate::api::{ArrayRecord, FaultReason, Output};
use crate::background::{Missed, Saved};
use crate::buffer::{BufferId, BufferSlice, BufferStep};
use crate::change::whole;
use crate::engine::{Engine, Turn, Waiting};
use crate::legs::{NewOp, Op, OpOwner};
use crate::lineage::Departures;

mod superblocks;

use superblocks::{Audience, Succession};

/// So many pages of the bitmap are written at a time: all that mdadm makes, and no more than memory
/// is kept back for.
const PAGES_MAX: usize = 32;
/// Bytes of a page of the bitmap, and the room of a superblock.
const PAGE_BYTES: u64 = 4096;

/// What is known of an array with md metadata when it starts.
#[derive(Clone, Debug)]
pub struct Metadata {
    /// The superblock of each leg, by role; `None` where the leg is missing. Where a leg is being
    /// replaced, that of its replacement comes behind the last role.
    pub superblocks: Vec<Option<Superblock>>,
    /// The leg that is being replaced. Its replacement is among those being rebuilt.
    pub replaced: Option<LegId>,
    /// The legs that are there and have not all their data, with what they lack. Each says so
    /// itself, durably.
    pub rebuilding: Vec<(LegId, Missed)>,
    /// The table of roles, by `dev_number`, as the freshest superblock has it.
    pub roles: Vec<Role>,
    /// The bits of all legs that are believed, together; `None` where the array has no bitmap.
    pub bitmap: Option<BitmapBits>,
    /// What each leg does not hold, in the same order; empty where it is missing.
    pub bad_blocks: Vec<BadBlocks>,
    /// Where the legs may differ.
    pub unequal: Unequal,
    /// Whether some leg holds another bitmap or another count of events than the others, or a leg
    /// that should be there is not, or one that is left out is as fresh: then all of it is written
    /// anew before anything else.
    pub is_uneven: bool,
    /// The time since 1970 at [`Instant::ZERO`](heliostat_types::Instant::ZERO).
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

    /// The count of events of the freshest leg.
    fn events(&self) -> u64 {
        let legs = self.superblocks.iter().flatten();
        let events = legs.map(|superblock| superblock.events).max();
        events.expect("an array has a leg")
    }

    /// Whether the bitmap is one that nobody can believe: bits may be missing from it on the legs.
    pub(crate) fn is_unproven(&self) -> bool {
        self.bitmap.as_ref().is_some_and(|bits| {
            let head = bits.super_block();
            head.events < self.events() || head.state.contains(BitmapState::STALE)
        })
    }
}

/// A part of a commit: durable on all legs before the next one is sent.
#[derive(Clone, Debug)]
enum Step {
    /// What a resync has copied becomes durable on those that stay, before they say that another
    /// leg is out.
    Flush,
    /// Pages of the bitmap.
    Pages(Vec<usize>),
    /// The head of a bitmap that is to be believed from now on, because all its pages are durable.
    Proof,
    /// The logs of bad blocks that have changed. In front of the superblocks, which say whether
    /// there is anything in them.
    Logs,
    /// A superblock for each leg.
    Superblocks {
        events: u64,
        word: Word,
        to: Audience,
    },
}

/// What superblocks say of who is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    /// What the others have heard of the last event: legs that missed it hear of nothing else.
    Told,
    /// What was known before this start, though some leg is not there. That one may be as fresh,
    /// and call one of these failed: then they must not say the same of it.
    Before,
    /// The record as the commit has it.
    New,
}

/// A commit on its way.
#[derive(Debug)]
struct Commit {
    /// What is left of it; the first one is on its way, or waits for memory.
    steps: VecDeque<Step>,
    /// The legs that it must reach.
    targets: LegSet,
    /// The record as this commit has it: all its superblocks say the same, whenever they are sent.
    dirty: bool,
    roles: Vec<Role>,
    /// By leg, how far it had been rebuilt at the start: of what it lacks below, its log says so,
    /// which is written in front of the superblocks.
    saved: [Option<Saved>; LEGS_MAX],
    /// Legs that were rebuilt, and are in sync from this commit on.
    joining: LegSet,
    /// The one of them that takes the role of another leg, and that leg.
    succession: Option<Succession>,
    pages: Vec<usize>,
    /// The count of events in front of it, where it has superblocks.
    events_before: Option<u64>,
    /// The last count of events that some leg may have heard of, and the roles it was told with.
    told: Option<(u64, Vec<Role>)>,
    /// What the step on its way takes of memory.
    buffers: Vec<BufferId>,
    /// By leg, operations of this step that have not ended.
    outstanding: [u32; LEGS_MAX],
    failed: [Option<FaultReason>; LEGS_MAX],
}

impl Commit {
    fn failed(&self) -> LegSet {
        let failed = |leg: &LegId| self.failed[leg.index()].is_some();
        self.targets.iter().filter(failed).collect()
    }

    /// Whether a leg failed because it is full, which is no fault of it.
    fn is_full(&self, leg: LegId) -> bool {
        self.failed[leg.index()] == Some(FaultReason::WriteFailed(ErrorKind::NoSpace))
    }

    fn is_at_rest(&self) -> bool {
        self.outstanding.iter().all(|&count| count == 0)
    }

    /// Whether legs have heard of one event, and the next step tells of another.
    fn is_next_event(&self) -> bool {
        match (self.steps.front(), &self.told) {
            (Some(Step::Superblocks { events, .. }), Some((told, _))) => events > told,
            _ => false,
        }
    }
}

/// Why the first superblocks of an engine's life are written in several rounds.
#[derive(Clone, Copy, Debug)]
struct Start {
    /// Some leg is not there, or known to have failed. It may be as fresh as the others, and must
    /// be behind them when they are written to.
    is_degraded: bool,
    /// Some leg that should be there is not. It may be one event in front of the others, and must
    /// be behind them when they are written to.
    is_passing: bool,
    /// All legs were equal, those that are not there as well.
    is_clean: bool,
}

impl Start {
    fn of(metadata: &Metadata) -> Self {
        let legs = metadata.superblocks.iter();
        let counts_on = metadata.roles.iter();
        let counts_on = counts_on.filter(|role| matches!(role, Role::Active(_)));
        let is_passing = counts_on.count() > legs.clone().flatten().count();
        Self {
            // A leg that was to replace another one need not be missed for that.
            is_degraded: is_passing || legs.clone().any(Option::is_none),
            is_passing,
            is_clean: matches!(metadata.unequal, Unequal::Nowhere),
        }
    }
}

/// The metadata of an array in use.
#[derive(Debug)]
pub(crate) struct Keeper {
    superblocks: Vec<Option<Superblock>>,
    roles: Vec<Role>,
    events: u64,
    unix_time: Duration,
    /// Until the first commit of an array whose legs do not all say the same.
    start: Option<Start>,
    /// Some leg has missed the last event, which had these roles. It must hear of that one first:
    /// of the next one as well it would be too far behind, should the power fail before it is told.
    behind: Option<Vec<Role>>,
    commit: Option<Commit>,
    /// The number of the commit that is on its way, or was last.
    number: u64,
    /// The record has changed since the last commit began.
    is_record_new: bool,
    /// Somebody waits for a commit.
    is_wanted: bool,
    /// How many pages of the bitmap were written since the start.
    pages_written: u64,
    /// All operations of the commit have ended, and nobody has heard of it yet.
    is_commit_over: bool,
    /// Who has left.
    departures: Departures,
}

impl Keeper {
    /// The metadata of so many legs, with so many roles.
    pub(crate) fn new(metadata: Metadata, counts: (usize, usize)) -> Self {
        let events = metadata.events();
        let start = Start::of(&metadata);
        let legs = metadata.superblocks.iter().flatten();
        let is_catching_up = legs.into_iter().any(|leg| leg.events < events);
        let is_uneven = metadata.is_uneven
            || metadata.is_unproven()
            || is_catching_up
            || start.is_degraded
            || !metadata.rebuilding.is_empty();
        Self {
            behind: is_catching_up.then(|| metadata.roles.clone()),
            start: is_uneven.then_some(start),
            superblocks: superblocks::evened(metadata.superblocks, counts),
            roles: metadata.roles,
            events,
            unix_time: metadata.unix_time,
            commit: None,
            number: 0,
            is_record_new: is_uneven,
            is_wanted: is_uneven,
            pages_written: 0,
            is_commit_over: false,
            departures: Departures::default(),
        }
    }

    /// The first commit that writes may rely on.
    pub(crate) fn first_commit(&self) -> u64 {
        u64::from(self.start.is_some())
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

    /// What a leg knows of its bad blocks has changed. The commit that will have it.
    pub(crate) const fn log_changed(&mut self) -> u64 {
        self.is_wanted = true;
        self.next()
    }

    /// Whether what is told may say that the array is clean, where it is. Before it is told who is
    /// out, somebody who is may still be believed: being equal to those that are left is not being
    /// equal to that one.
    fn may_say_clean(&self, word: Word) -> bool {
        word == Word::New || self.start.is_some_and(|start| start.is_clean)
    }

    /// How many sectors of a leg had been mended when it was made part of this engine.
    pub(crate) fn corrected_reads(&self, leg: LegId) -> u32 {
        let superblock = self.superblocks[leg.index()].as_ref();
        superblock.map_or(0, |superblock| superblock.corrected_reads)
    }

    /// Pages of the bitmap are to be written some time.
    pub(crate) const fn pages_changed(&mut self) {
        self.is_wanted = true;
    }

    /// Whether all legs that are written to have heard of the same, and of nothing else soon.
    pub(crate) const fn is_settled(&self) -> bool {
        self.start.is_none() && self.behind.is_none() && self.commit.is_none()
    }

    /// The count of events in the newest superblocks.
    pub(crate) const fn events(&self) -> u64 {
        self.events
    }

    /// Whether all legs say the same.
    pub(crate) const fn is_taken_up(&self) -> bool {
        self.start.is_none()
    }

    pub(crate) const fn is_idle(&self) -> bool {
        self.commit.is_none() && !self.is_wanted
    }

    /// How many pages of the bitmap were written since the start.
    pub(crate) const fn pages_written(&self) -> u64 {
        self.pages_written
    }

    /// The commit that is on its way.
    const fn commit(&self) -> Option<&Commit> {
        self.commit.as_ref()
    }

    /// Whether a commit could begin at once.
    pub(crate) const fn is_due(&self) -> bool {
        self.is_wanted && self.commit.is_none()
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
        if self.keeper.as_ref().is_some_and(Keeper::is_due) {
            self.keep_back_successor();
            self.plan_commit();
            self.begin_step(turn);
        }
    }

    /// Takes all that is wanted into a commit.
    fn plan_commit(&mut self) {
        let targets = self.legs_with_metadata();
        let logs = self.plan_logs(targets);
        let keeper = self.keeper_mut();
        keeper.is_record_new |= logs.are_told_of;
        let mut superblocks = Vec::new();
        let events_before = keeper.is_record_new.then_some(keeper.events);
        if let Some(before) = events_before {
            let start = keeper.start;
            if keeper.behind.is_some() {
                superblocks.push((before, Word::Told));
            }
            if start.is_some_and(|start| start.is_passing) {
                superblocks.push((before + 1, Word::Before));
                superblocks.push((before + 2, Word::New));
            } else {
                superblocks.push((before + 1, Word::New));
            }
            keeper.events = superblocks[superblocks.len() - 1].0;
            let events = keeper.events;
            self.intent.set_events(events);
        }
        let pages = self.intent.take_stale_pages(usize::MAX);
        let mut steps: VecDeque<Step> = pages
            .chunks(PAGES_MAX)
            .map(|pages| Step::Pages(pages.to_vec()))
            .collect();
        if self.intent.is_unproven() {
            steps.push_back(Step::Proof);
        }
        if logs.have_changed {
            steps.push_back(Step::Logs);
        }
        if events_before.is_some() && self.background.has_copied {
            steps.push_front(Step::Flush);
        }
        let joining = self.joining_legs();
        let succession = self.succession(joining);
        let has_rebuilding = !targets.difference(self.legs.in_sync).is_empty();
        for (events, word) in superblocks {
            let has_successor = succession.is_some() && word == Word::New;
            let to = Audience::in_turn(has_successor, has_rebuilding);
            steps.extend(to.map(|to| Step::Superblocks { events, word, to }));
        }
        let dirty = self.record.newest().dirty;
        let saved = self.saved_of(targets);
        let roles = self.roles_now(succession.as_ref().map(|known| known.leg));
        let keeper = self.keeper_mut();
        keeper.number += 1;
        keeper.pages_written += pages.len() as u64;
        keeper.is_wanted = false;
        keeper.is_record_new = false;
        keeper.commit = Some(Commit {
            steps,
            targets,
            dirty,
            roles,
            saved,
            joining,
            succession,
            pages,
            events_before,
            told: None,
            buffers: Vec::new(),
            outstanding: [0; LEGS_MAX],
            failed: [None; LEGS_MAX],
        });
    }

    /// Sends the next step of the commit, when there is memory for it.
    fn begin_step(&mut self, turn: &Turn<'_>) {
        if !self.send_step(turn) {
            self.wait_for_memory(Waiting::Commit, true);
        }
    }

    /// Sends the next step of the commit, or goes on where it has nothing; `false` where there is
    /// no memory for it.
    pub(crate) fn send_step(&mut self, turn: &Turn<'_>) -> bool {
        let reached = self.legs_with_metadata();
        let commit = self.commit();
        let targets = commit.targets.difference(commit.failed());
        let targets = targets.intersection(reached);
        let is_sent = match commit.steps.front().cloned() {
            Some(Step::Flush) => {
                for leg in targets {
                    self.commit().outstanding[leg.index()] += 1;
                    self.assign(turn, leg, NewOp::flush(OpOwner::Metadata, FlowId::ARRAY));
                }
                true
            }
            Some(Step::Pages(pages)) => self.send_pages(turn, targets, pages),
            Some(Step::Proof) => {
                self.intent.prove();
                self.send_pages(turn, targets, vec![0])
            }
            Some(Step::Logs) => self.send_each(turn, self.logs_to_send(targets)),
            Some(Step::Superblocks { events, word, to }) => {
                let targets = self.to_tell(to, word, targets);
                self.send_superblocks(turn, targets, events, word)
            }
            None => true,
        };
        if is_sent && self.commit().is_at_rest() {
            self.step_ended(turn);
        }
        is_sent
    }

    /// Sends as many of these pages as there is memory for; `false` where there is none.
    fn send_pages(&mut self, turn: &Turn<'_>, targets: LegSet, mut pages: Vec<usize>) -> bool {
        let at = loop {
            let len_bytes = pages.len() as u64 * PAGE_BYTES;
            if let Some(buffer) = self.buffers.alloc_last(len_bytes) {
                break whole(buffer, len_bytes);
            }
            if pages.len() == 1 {
                return false;
            }
            let rest = pages.split_off(pages.len() / 2);
            self.commit().steps.insert(1, Step::Pages(rest));
            self.commit().steps[0] = Step::Pages(pages.clone());
        };
        self.commit().buffers.push(at.buffer);
        let bits = self.intent.bits().expect("pages are those of a bitmap");
        for (slot, &page) in (0..).zip(&pages) {
            self.outputs.push_back(Output::Buffer(BufferStep::Store {
                at: at.part(slot * PAGE_BYTES, PAGE_BYTES),
                bytes: bits.page_bytes(page).into(),
            }));
        }
        for leg in targets {
            let first = self.bitmap_address(leg);
            for (slot, page, count) in runs_of(&pages) {
                let len_bytes = count * PAGE_BYTES;
                let extent = Extent::new(first + page * PAGE_BYTES, len_bytes);
                let memory = at.part(slot * PAGE_BYTES, len_bytes);
                self.send_metadata(turn, leg, extent, memory);
            }
        }
        true
    }

    /// Sends each leg its superblock; `false` where there is no memory for that.
    fn send_superblocks(
        &mut self,
        turn: &Turn<'_>,
        targets: LegSet,
        events: u64,
        word: Word,
    ) -> bool {
        let roles = self.roles_to_tell(word);
        let roles_before = self.roles_before(word);
        let of = |leg| self.superblock_of(turn.now, leg, (events, word), &roles);
        let superblocks = targets.iter().map(|leg| (leg, of(leg)));
        let parts = superblocks.map(|(leg, superblock)| {
            let from = superblock.super_offset_sectors * SECTOR_BYTES;
            let mut bytes = superblock.to_bytes();
            let block = self.config.block_bytes as usize;
            bytes.resize(bytes.len().next_multiple_of(block), 0);
            (leg, from, bytes)
        });
        let is_sent = self.send_each(turn, parts.collect());
        if is_sent {
            self.commit().told = Some((events, roles_before));
        }
        is_sent
    }

    /// Sends each leg its own bytes, no more than a page, to this address; `false` where there is
    /// no memory for that.
    fn send_each(&mut self, turn: &Turn<'_>, parts: Vec<(LegId, u64, Vec<u8>)>) -> bool {
        for _ in &parts {
            let Some(buffer) = self.buffers.alloc_last(PAGE_BYTES) else {
                self.release_step();
                return false;
            };
            self.commit().buffers.push(buffer);
        }
        let buffers = self.commit().buffers.clone();
        for ((leg, from, bytes), buffer) in parts.into_iter().zip(buffers) {
            let memory = whole(buffer, bytes.len() as u64);
            let extent = Extent::new(from, bytes.len() as u64);
            self.outputs.push_back(Output::Buffer(BufferStep::Store {
                at: memory,
                bytes: bytes.into(),
            }));
            self.send_metadata(turn, leg, extent, memory);
        }
        true
    }

    /// Gives back what the step took of memory.
    fn release_step(&mut self) {
        for buffer in std::mem::take(&mut self.commit().buffers) {
            self.release_buffer(buffer);
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

    fn send_metadata(&mut self, turn: &Turn<'_>, leg: LegId, extent: Extent, memory: BufferSlice) {
        self.commit().outstanding[leg.index()] += 1;
        let new = NewOp {
            owner: OpOwner::Metadata,
            flow: FlowId::ARRAY,
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
            (OpKind::Flush, Err(kind)) => self.note_flush_failed(leg, kind),
            (_, Err(kind)) => {
                if op.fua && kind == ErrorKind::Io {
                    // The leg does not say that it was not the flush.
                    self.note_flush_failed(leg, kind);
                }
                self.commit().failed[leg.index()] = Some(FaultReason::WriteFailed(kind));
            }
            (_, Ok(())) => {}
        }
        let has_fua = self.legs.legs[leg.index()].config.fua;
        let commit = self.commit();
        // What was written with FUA before the leg refused another is durable as well.
        let is_last_write = op.kind == OpKind::Write && commit.outstanding[leg.index()] == 1;
        if is_last_write && !has_fua && commit.failed[leg.index()].is_none() {
            commit.outstanding[leg.index()] += 1;
            self.assign(turn, leg, NewOp::flush(OpOwner::Metadata, FlowId::ARRAY));
        }
        self.metadata_op_ended(turn, leg);
    }

    /// A leg has failed a flush, and may have lost what it was sent.
    pub(crate) fn note_commit_flush_failed(&mut self, leg: LegId, kind: ErrorKind) {
        let keeper = self.keeper.as_mut();
        let commit = keeper.and_then(|keeper| keeper.commit.as_mut());
        if let Some(commit) = commit.filter(|commit| commit.outstanding[leg.index()] > 0) {
            commit.failed[leg.index()] = Some(FaultReason::FlushFailed(kind));
        }
    }

    /// A leg has answered an operation of the commit, or is out.
    pub(crate) fn metadata_op_ended(&mut self, turn: &Turn<'_>, leg: LegId) {
        let commit = self.commit();
        commit.outstanding[leg.index()] -= 1;
        if commit.is_at_rest() {
            self.step_ended(turn);
        }
    }

    /// All legs have answered a step of the commit. Where a leg has failed it that must stay, or
    /// may have to when others are lost, no other one is to get further ahead of it.
    fn step_ended(&mut self, turn: &Turn<'_>) {
        self.release_step();
        self.commit().steps.pop_front();
        let (out, kept) = self.commit_verdict();
        let commit = self.commit();
        let is_too_far = !out.is_empty() && commit.is_next_event();
        if !kept.is_empty() || is_too_far || commit.steps.is_empty() {
            self.keeper_mut().is_commit_over = true;
            return;
        }
        self.begin_step(turn);
    }

    /// Of the legs that failed the commit, those that are to go and those that stay: the last ones
    /// of some bytes, and all where all are full.
    fn commit_verdict(&self) -> (LegSet, LegSet) {
        let commit = self.keeper().commit.as_ref();
        let commit = commit.expect("its operations are in flight");
        let left = commit.targets.intersection(self.legs.in_sync);
        let failed = commit.failed().intersection(left);
        // One that is not read yet is never the last one of anything.
        let rejoining = commit.failed().intersection(self.legs.rebuilding);
        if failed == left && failed.iter().all(|leg| commit.is_full(leg)) {
            return (rejoining, failed);
        }
        let out = self.spare(failed);
        (out.union(rejoining), failed.difference(out))
    }

    /// Whether the commit is over: then legs that failed it are taken out, and whoever waited for
    /// it goes on.
    pub(crate) fn end_commit(&mut self, turn: &mut Turn<'_>) -> bool {
        if !self.is_commit_over() {
            return false;
        }
        let (out, kept) = self.commit_verdict();
        let keeper = self.keeper_mut();
        keeper.is_commit_over = false;
        let number = keeper.number;
        let commit = keeper.commit.take().expect("it has ended");
        let reason = |leg: LegId| commit.failed[leg.index()].expect("it has failed");
        for leg in kept {
            if !commit.is_full(leg) {
                self.keep_last(leg, reason(leg));
            }
        }
        for leg in out {
            self.fault_leg(turn, leg, reason(leg));
        }
        let is_whole = commit.targets == self.legs_with_metadata();
        // Others may have heard that a leg is out, which is not, and has missed this event.
        let succession = commit.succession.as_ref();
        let failed = succession.filter(|known| !self.legs.writable().contains(known.by));
        let behind = failed.map(|known| known.roles_before.clone());
        if !is_whole {
            // A leg that is out does not have it, and nobody may believe that leg when bytes change
            // that rely on it.
            self.begin_after_fault();
        }
        if kept.is_empty() && commit.steps.is_empty() {
            self.logs_committed(commit.targets, commit.events_before.is_some());
            self.intent.committed();
            let keeper = self.keeper_mut();
            (keeper.start, keeper.behind) = (None, behind);
            self.persisted(turn, number);
            return true;
        }
        self.commit_failed(&commit);
        let Some(leg) = kept.lowest() else {
            // It was cut short for those that are out now. Who waits for it waits for the next one,
            // which goes on at the event that all that are left have heard of.
            self.keeper_mut().is_wanted = true;
            return true;
        };
        // Not tried again at once: it is likely to fail again.
        let kind = match reason(leg) {
            FaultReason::WriteFailed(kind) | FaultReason::FlushFailed(kind) => kind,
            FaultReason::ReadFailed(_)
            | FaultReason::Silent
            | FaultReason::Short
            | FaultReason::Lost
            | FaultReason::ByHand => unreachable!("a write failed"),
        };
        self.not_persisted(turn, number, kind);
        true
    }

    /// A commit has not come to its end: the next one has all that it had. Those that stay and have
    /// not heard of the last event hear of it first; that will not do for the next one, because a
    /// leg that is out by then may have heard of it.
    fn commit_failed(&mut self, commit: &Commit) {
        self.logs_not_committed();
        self.intent.commit_failed(&commit.pages);
        let keeper = self.keeper_mut();
        if let Some(before) = commit.events_before {
            keeper.is_record_new = true;
            keeper.events = before;
            if let Some((told, roles)) = &commit.told
                && *told > before
            {
                keeper.events = *told;
                keeper.behind = Some(roles.clone());
            }
        }
    }
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
