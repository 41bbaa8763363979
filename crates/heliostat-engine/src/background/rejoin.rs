//! How a leg comes back: added, rebuilt, flushed, put on record, read.
//!
//! Invariants: a leg is read only after all that it missed was copied to it under locks, after a
//! flush of it that began later has succeeded, and after a record that says so is durable. What is
//! written from the moment at which it is added goes to it as to any leg; what was under way at
//! that moment did not, and is copied. What a leg misses only becomes less, but for ranges where
//! legs in sync may differ, when the one is lost that it may have been copied from.

use heliostat_format::{BadBlocks, Superblock};
use heliostat_types::{ErrorKind, Extent, FlowId, Instant, LegId, LegSet};

use super::{Background, BackgroundEnd, BackgroundKind};
use crate::api::{Event, FaultReason, LegConfig, Output};
use crate::background::{AddRefusal, Missed};
use crate::engine::{Engine, Turn};
use crate::legs::{NewOp, OpOwner};
use crate::metadata::Keeper;
use crate::needed::Needed;

/// How far a leg that was copied is on its way to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Joining {
    /// It still misses something.
    No,
    /// It is being flushed.
    Flushing,
    /// It is to have the role of another leg, and the others have yet to hear of it.
    Untold,
    /// The record that it is in sync is on its way to be durable.
    Recording,
}

/// A leg that is being rebuilt.
#[derive(Debug)]
pub(crate) struct LegRebuild {
    /// What was not copied yet, in addresses of the leg.
    pub(super) missing: Needed,
    /// Of that, what this pass has not begun yet.
    todo: Needed,
    joining: Joining,
    /// How far it has come, as its superblock says.
    pub(super) saved: Saved,
    pub(super) saved_at: Instant,
    /// How far it had come when a flush began that it has not answered.
    pub(super) saving: Option<u64>,
    /// The record by which the others have heard of it.
    told_by: u64,
    /// Tells it from other times when this leg was rebuilt.
    serial: u64,
}

/// How far a leg has been rebuilt, durably.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Saved {
    /// Nothing is missing below this address of the leg.
    pub(crate) up_to: u64,
    /// Behind it only chunks of the bitmap are missing that have a bit.
    pub(crate) by_bitmap: bool,
}

impl LegRebuild {
    pub(super) const fn is_joining(&self) -> bool {
        !matches!(self.joining, Joining::No)
    }

    /// Whether it waits for something that its leg was asked.
    pub(super) const fn is_busy(&self) -> bool {
        self.is_joining() || self.saving.is_some()
    }

    /// All that is missing is to be done. How much that is.
    pub(super) fn begin_pass(&mut self) -> u64 {
        self.todo = self.missing.clone();
        self.missing.bytes()
    }
}

impl Background {
    pub(super) fn rebuild_mut(&mut self, leg: LegId) -> Option<&mut LegRebuild> {
        self.rebuilds[leg.index()].as_mut()
    }

    pub(super) fn rebuild(&self, leg: LegId) -> Option<&LegRebuild> {
        self.rebuilds[leg.index()].as_ref()
    }
}

impl Engine {
    /// Why a leg cannot be added now; `None` where it can. One without a superblock needs one to be
    /// brought along, which is not looked at here.
    #[must_use]
    pub fn add_refusal(&self, leg: LegId) -> Option<AddRefusal> {
        if self.legs.writable().contains(leg) {
            Some(AddRefusal::Present)
        } else {
            let has_role = self.config.map.role_of(leg).is_some();
            let no_role = (!has_role).then_some(AddRefusal::NoRole);
            self.unready(leg).or(no_role)
        }
    }

    /// Why a leg that is out cannot be another device yet.
    pub(crate) fn unready(&self, leg: LegId) -> Option<AddRefusal> {
        let outstanding = self.ops.iter().filter(|(_, op)| op.leg == leg).count();
        if outstanding > 0 {
            Some(AddRefusal::Outstanding(outstanding))
        } else if !self.record.is_durable() || !self.is_taken_up() {
            Some(AddRefusal::Unrecorded)
        } else {
            None
        }
    }

    /// A leg that was out is there.
    pub(crate) fn add_leg(
        &mut self,
        now: Instant,
        leg: LegId,
        config: &LegConfig,
        missed: Missed,
        superblock: Option<Box<Superblock>>,
        bad_blocks: Option<Box<BadBlocks>>,
    ) {
        let has_metadata = superblock.is_some() || self.can_have_metadata(leg);
        let no_superblock = (!has_metadata).then_some(AddRefusal::NoSuperblock);
        if let Some(refusal) = self.add_refusal(leg).or(no_superblock) {
            let event = Event::AddRefused { leg, refusal };
            return self.outputs.push_back(Output::Event(event));
        }
        if let Some(superblock) = superblock {
            self.set_metadata_of(leg, *superblock, bad_blocks.map(|known| *known));
        }
        self.take_leg_in(now, leg, config, missed);
        self.spare_is_in_place(leg);
        self.outputs
            .push_back(Output::Event(Event::LegAdded { leg }));
    }

    /// What a leg that was out says, or is to say, of the array and of what it does not hold.
    pub(crate) fn set_metadata_of(
        &mut self,
        leg: LegId,
        superblock: Superblock,
        bad_blocks: Option<BadBlocks>,
    ) {
        let none = || BadBlocks::new(superblock.bad_blocks_size_sectors);
        let bad_blocks = bad_blocks.unwrap_or_else(none);
        let sizes = (self.config.map.leg_bytes(leg), self.block_bytes());
        self.bad.set(leg, &superblock, &bad_blocks, sizes);
        self.set_superblock(leg, superblock);
    }

    /// A leg that was out gets what is written from now on, and is to get what it has missed.
    pub(crate) fn take_leg_in(
        &mut self,
        now: Instant,
        leg: LegId,
        config: &LegConfig,
        missed: Missed,
    ) {
        self.legs.add(leg, config);
        self.forget_target(leg);
        self.forget_moved_target(leg);
        self.forget_window_target(leg);
        self.begin_rebuild(now, leg, missed);
        let told_by = self.take_in();
        if let Some(rebuild) = self.background.rebuild_mut(leg) {
            rebuild.told_by = told_by;
        }
    }

    /// A leg that is written to is to get what it has missed.
    pub(crate) fn begin_rebuild(&mut self, now: Instant, leg: LegId, missed: Missed) {
        let by_bitmap = matches!(missed, Missed::Bits { all_from: None, .. });
        let missing = self.missing_on(leg, missed);
        let saved = Saved {
            up_to: self.first_missing(leg, &missing),
            by_bitmap,
        };
        let background = &mut self.background;
        background.adds += 1;
        background.is_rebuild_held = false;
        if let Some(job) = &mut background.job
            && job.kind == BackgroundKind::Rebuild
        {
            job.total_bytes += missing.bytes();
            job.left = None;
        }
        background.rebuilds[leg.index()] = Some(LegRebuild {
            todo: missing.clone(),
            missing,
            joining: Joining::No,
            saved,
            saved_at: now,
            saving: None,
            told_by: self.keeper.as_ref().map_or(0, Keeper::first_commit),
            serial: background.adds,
        });
    }

    /// What is to be copied to a leg, in its addresses.
    fn missing_on(&self, leg: LegId, missed: Missed) -> Needed {
        let mut missing = Needed::new();
        if let Missed::Bits { from, .. } = missed {
            let bits = self.intent.set_extents();
            bits.for_each(|chunk| self.add_on_leg(&mut missing, leg, chunk));
            missing.remove(Extent::from_range(0, self.rest_of(leg, from).offset()));
        }
        let mut add = |extent| self.add_on_leg(&mut missing, leg, extent);
        // What is under way went to other legs only, or is not yet begun, which does no harm.
        let all = Extent::new(0, self.config.size_bytes);
        self.locks.held(all).for_each(|(_, extent)| add(extent));
        self.needed.inside(all).for_each(&mut add);
        self.divergence.ranges().for_each(|(extent, _)| add(extent));
        match missed {
            Missed::Extents(extents) => extents.into_iter().for_each(add),
            Missed::From(from)
            | Missed::Bits {
                all_from: Some(from),
                ..
            } => missing.add(self.rest_of(leg, from), self.config.map.leg_bytes(leg)),
            Missed::Bits { all_from: None, .. } => {}
        }
        if self.is_replacement(leg) {
            // They may be gone with the leg that has them.
            let leg_bytes = self.config.map.leg_bytes(leg);
            self.bad_on(leg).for_each(|bad| missing.add(bad, leg_bytes));
        }
        missing
    }

    /// All of a leg from the block on that holds this address.
    fn rest_of(&self, leg: LegId, from: u64) -> Extent {
        let leg_bytes = self.config.map.leg_bytes(leg);
        let from = from / self.block_bytes() * self.block_bytes();
        Extent::from_range(from.min(leg_bytes), leg_bytes)
    }

    /// Puts in what a leg holds of a range of the array, in its addresses.
    fn add_on_leg(&self, missing: &mut Needed, leg: LegId, extent: Extent) {
        let extent = extent.aligned_out(self.block_bytes());
        let Some(inside) = extent.intersection(Extent::new(0, self.config.size_bytes)) else {
            return;
        };
        for part in self.config.map.parts(inside) {
            if self.config.map.holders(part.offset()).contains(leg) {
                let on_leg = self.config.map.on_leg(leg, part);
                missing.add(on_leg, self.config.map.leg_bytes(leg));
            }
        }
    }

    /// A leg in sync is out. Where legs may differ, those that are being rebuilt may have been
    /// copied from that one, and what is read from now on is another version: they get that. One
    /// that is in sync on record already keeps what it has: nothing is read there before it is
    /// durable who is out, and then what is read is made the same on all legs.
    pub(crate) fn copy_unequal_again(&mut self) {
        if self.is_all_equal() {
            return;
        }
        let all = Extent::new(0, self.config.size_bytes);
        for leg in self.legs.rebuilding {
            let mut unequal = Needed::new();
            let mut add = |extent| self.add_on_leg(&mut unequal, leg, extent);
            self.needed.inside(all).for_each(&mut add);
            self.divergence.ranges().for_each(|(extent, _)| add(extent));
            let leg_bytes = self.config.map.leg_bytes(leg);
            let rebuild = self.background.rebuild_mut(leg);
            let Some(rebuild) = rebuild.filter(|one| one.joining != Joining::Recording) else {
                continue;
            };
            let before = rebuild.missing.bytes();
            for run in unequal.inside(Extent::new(0, leg_bytes)) {
                rebuild.missing.add(run, leg_bytes);
                rebuild.todo.add(run, leg_bytes);
            }
            let more = rebuild.missing.bytes() - before;
            if let Some(job) = &mut self.background.job
                && job.kind == BackgroundKind::Rebuild
            {
                job.total_bytes += more;
            }
        }
    }

    /// A leg is out, whether it was being rebuilt or not.
    pub(crate) fn rebuild_given_up(&mut self, leg: LegId) {
        self.background.at_leg[leg.index()] = 0;
        if let Some(rebuild) = self.background.rebuilds[leg.index()].take()
            && let Some(job) = &mut self.background.job
            && job.kind == BackgroundKind::Rebuild
        {
            job.total_bytes = job.total_bytes.saturating_sub(rebuild.missing.bytes());
        }
    }

    /// The lowest address that some leg still misses.
    pub(super) fn rebuild_position(&self) -> u64 {
        let rebuilds = self.background.rebuilds.iter().flatten();
        let starts = rebuilds.filter_map(|rebuild| rebuild.missing.next(0));
        starts.map(Extent::offset).min().unwrap_or(0)
    }

    /// How far a leg that is being rebuilt has been copied without a gap, in its addresses. What
    /// lies below is durable on it only after a flush that begins later.
    #[must_use]
    pub fn rebuilt_up_to(&self, leg: LegId) -> Option<u64> {
        let rebuild = self.background.rebuild(leg)?;
        Some(self.first_missing(leg, &rebuild.missing))
    }

    /// How much of a leg that is being rebuilt is missing.
    #[must_use]
    pub fn missing_bytes(&self, leg: LegId) -> Option<u64> {
        Some(self.background.rebuild(leg)?.missing.bytes())
    }

    fn first_missing(&self, leg: LegId, missing: &Needed) -> u64 {
        let first = missing.next(0);
        first.map_or_else(|| self.config.map.leg_bytes(leg), Extent::offset)
    }

    /// What is to be copied next, of the leg that is least far.
    pub(super) fn next_to_rebuild(&mut self) -> Option<Extent> {
        let size = self.config.size_bytes;
        let mut next: Option<(Extent, LegId)> = None;
        for leg in self.legs.rebuilding {
            while let Some(run) = self.background.rebuild(leg)?.todo.next(0) {
                if let Some(address) = self.config.map.array_address(leg, run.offset())
                    && address < size
                {
                    if next.is_none_or(|(before, _)| run.offset() < before.offset()) {
                        next = Some((run, leg));
                    }
                    break;
                }
                // No byte of the array lies there.
                self.skip_hole(leg, run);
            }
        }
        let (run, leg) = next?;
        let address = self.config.map.array_address(leg, run.offset())?;
        let len = run.len().min(size - address);
        Some(self.config.map.first_part(Extent::new(address, len)))
    }

    /// Takes the part of a leg before the next border of a page or chunk off the books.
    fn skip_hole(&mut self, leg: LegId, run: Extent) {
        let step = self.config.map.hole_step_bytes();
        let border = (run.offset() / step + 1) * step;
        let hole = Extent::from_range(run.offset(), run.end().min(border));
        if let Some(rebuild) = self.background.rebuild_mut(leg) {
            rebuild.todo.remove(hole);
            rebuild.missing.remove(hole);
        }
        self.note_done(BackgroundKind::Rebuild, hole.len());
    }

    /// The legs that miss some of a range of the array, which lies in one chunk.
    pub(super) fn legs_that_miss(&self, extent: Extent) -> LegSet {
        let holders = self.config.map.holders(extent.offset());
        let legs = self.legs.rebuilding.intersection(holders).iter();
        legs.filter(|&leg| {
            let on_leg = self.config.map.on_leg(leg, extent);
            let rebuild = self.background.rebuild(leg);
            rebuild.is_some_and(|rebuild| rebuild.missing.overlaps(on_leg))
        })
        .collect()
    }

    /// A window of a rebuild has begun: no leg needs another one there in this pass.
    pub(super) fn note_begun(&mut self, extent: Extent) {
        let holders = self.config.map.holders(extent.offset());
        for leg in self.legs.rebuilding.intersection(holders) {
            let on_leg = self.config.map.on_leg(leg, extent);
            if let Some(rebuild) = self.background.rebuild_mut(leg) {
                rebuild.todo.remove(on_leg);
            }
        }
    }

    /// These legs hold what legs in sync hold there.
    pub(super) fn note_copied(&mut self, legs: LegSet, extent: Extent) {
        for leg in legs {
            let on_leg = self.config.map.on_leg(leg, extent);
            if let Some(rebuild) = self.background.rebuild_mut(leg) {
                rebuild.missing.remove(on_leg);
                rebuild.todo.remove(on_leg);
            }
        }
    }

    /// All windows have ended: legs that have everything are flushed, others begin another pass or
    /// stay as they are. Whether there is something to do now.
    pub(super) fn rebuild_pass_ended(&mut self, turn: &Turn<'_>) -> bool {
        for leg in self.legs.rebuilding {
            if !self.background.is_rebuild_held
                && self.may_take_role(leg)
                && let Some(rebuild) = self.background.rebuild_mut(leg)
                && rebuild.missing.is_empty()
                && !rebuild.is_busy()
            {
                rebuild.joining = Joining::Flushing;
                self.assign(turn, leg, NewOp::flush(OpOwner::Rejoin(leg), FlowId::ARRAY));
            }
        }
        let rebuilds = || self.background.rebuilds.iter().flatten();
        let job = self.background.job.as_ref().expect("it is under way");
        if rebuilds().any(LegRebuild::is_busy) {
            return false;
        }
        let end = match (rebuilds().next(), job.left) {
            (None, _) if job.has_joined => BackgroundEnd::Done,
            (None, _) => BackgroundEnd::LegsFaulted,
            (Some(_), Some(left)) => {
                self.background.is_rebuild_held = true;
                BackgroundEnd::Incomplete(left)
            }
            (Some(_), None) if self.background.is_rebuild_held => BackgroundEnd::NotRecorded,
            // A leg that is to replace another one waits until legs do not differ any more.
            (Some(_), None) if rebuilds().all(|rebuild| rebuild.missing.is_empty()) => {
                self.background.is_rebuild_held = true;
                let differs = self.needed.next(0).or_else(|| self.divergence.next(0));
                BackgroundEnd::Incomplete(differs.expect("that is what it waits for"))
            }
            (Some(_), None) => {
                let rebuilds = self.background.rebuilds.iter_mut().flatten();
                rebuilds.for_each(|rebuild| {
                    rebuild.begin_pass();
                });
                return true;
            }
        };
        self.end_job(end);
        true
    }

    /// Why what was copied to a leg before a flush may not be durable; `None` where it is.
    pub(super) fn rebuild_flush_failed(
        &self,
        leg: LegId,
        result: Result<(), ErrorKind>,
    ) -> Option<ErrorKind> {
        let failed = result.err().filter(|kind| *kind != ErrorKind::NotSupported);
        let has_failed = self.legs.legs[leg.index()].flush_failed;
        failed.or_else(|| has_failed.then_some(ErrorKind::Io))
    }

    /// A leg that has everything has answered the flush.
    pub(crate) fn rejoin_flushed(
        &mut self,
        turn: &Turn<'_>,
        leg: LegId,
        result: Result<(), ErrorKind>,
    ) {
        if let Some(kind) = self.rebuild_flush_failed(leg, result) {
            return self.fault_leg(turn, leg, FaultReason::FlushFailed(kind));
        }
        let may_take_role = self.may_take_role(leg);
        let rebuild = self.background.rebuild_mut(leg);
        let rebuild = rebuild.expect("a leg that is out has no operation");
        if !rebuild.missing.is_empty() || !may_take_role {
            rebuild.joining = Joining::No;
            return;
        }
        let (told_by, serial) = (rebuild.told_by, rebuild.serial);
        // The next event may reach it alone, and then it must not be a stranger to the others.
        let is_untold = self.is_replacement(leg) && !self.is_on_record(told_by);
        if let Some(rebuild) = self.background.rebuild_mut(leg) {
            rebuild.joining = if is_untold {
                Joining::Untold
            } else {
                Joining::Recording
            };
        }
        if is_untold {
            self.hold_rejoin(told_by, leg, serial);
        } else {
            self.record_rejoin(leg, serial);
        }
    }

    /// Legs that have all they missed, durably, while that goes on record.
    pub(crate) fn joining_legs(&self) -> LegSet {
        let legs = self.legs.rebuilding.iter();
        let is_joining = |leg: &LegId| {
            let rebuild = self.background.rebuild(*leg);
            rebuild.is_some_and(|rebuild| rebuild.joining == Joining::Recording)
        };
        legs.filter(is_joining).collect()
    }

    /// A commit begins. Where legs have come to differ since a leg was flushed, it does not take
    /// another one's role: that leg may be the one that is read there.
    pub(crate) fn keep_back_successor(&mut self) {
        let Some((_, by)) = self.replacing().filter(|(_, by)| !self.may_take_role(*by)) else {
            return;
        };
        let background = &mut self.background;
        if let Some(rebuild) = background.rebuilds[by.index()].as_mut()
            && rebuild.joining == Joining::Recording
        {
            // Whoever waits for this commit waits for another rebuild.
            background.adds += 1;
            rebuild.serial = background.adds;
            rebuild.joining = Joining::No;
            self.record_fault(by);
        }
    }

    /// That a leg is in sync cannot be put on record: it is tried again when somebody says so.
    pub(crate) fn rejoin_failed(&mut self, leg: LegId, serial: u64) {
        if let Some(rebuild) = self.background.rebuild_mut(leg)
            && rebuild.serial == serial
        {
            rebuild.joining = Joining::No;
            self.background.is_rebuild_held = true;
            self.record_fault(leg);
        }
    }

    /// It is on record that a leg is in sync: it is read from now on. Or the others have heard of
    /// it at last, and that can be put on record.
    pub(crate) fn join_leg(&mut self, turn: &Turn<'_>, leg: LegId, serial: u64) {
        let rebuild = self.background.rebuild(leg);
        let rebuild = rebuild.filter(|rebuild| rebuild.serial == serial);
        let Some(joining) = rebuild.map(|rebuild| rebuild.joining) else {
            return; // It was faulted meanwhile, and that is on record as well.
        };
        if joining == Joining::Untold {
            return self.rejoin_flushed(turn, leg, Ok(()));
        }
        // What reads have seen stays, though this leg may come first in role order.
        self.pin_needed(Extent::new(0, self.config.size_bytes));
        self.background.rebuilds[leg.index()] = None;
        if let Some(job) = &mut self.background.job {
            job.has_joined = true;
        }
        self.take_role(turn, leg);
    }
}
