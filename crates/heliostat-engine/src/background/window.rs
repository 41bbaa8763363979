//! One window of the background work: locked, read, written, done.
//!
//! A window has its memory before it asks for its lock, so that none that holds a lock waits for
//! memory. What fails to be read is cut in two and tried again as windows of their own, down to a
//! page, so that one bad sector costs no more than a page of its neighbours; only of a page other
//! legs are asked, and only then a leg is blamed. A leg that falls silent with a read in hand may
//! write into the window's memory at any time: the window is given up and begun anew.

use heliostat_types::{ErrorKind, Extent, FlowId, LEGS_MAX, LegId, LegSet, OpKind};

use super::{Background, BackgroundKind, Before, LEAF_BYTES};
use crate::api::{Event, FaultReason, Output};
use crate::buffer::{BufferId, BufferSlice};
use crate::change::whole;
use crate::divergence::DivergencePin;
use crate::engine::{Engine, Turn};
use crate::legs::{NewOp, Op, OpOwner};
use crate::locks::LockOwner;
use crate::needed::Needed;

/// Where a window is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It waits for its lock, or does what takes no time.
    Waiting,
    /// Legs read.
    Reading,
    /// The shell compares.
    Comparing,
    /// It waits until the record says that legs may differ.
    Holding,
    /// Legs write.
    Writing,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Window {
    pub(super) kind: BackgroundKind,
    pub(super) extent: Extent,
    before: Before,
    lock: u32,
    pub(super) stage: Stage,
    /// One, or for a scrub one for each leg that is read.
    pub(super) memory: Vec<BufferSlice>,
    /// Whose bytes lie there.
    pub(super) readers: Vec<LegId>,
    /// Legs that have answered well.
    pub(super) read: LegSet,
    /// Legs that have failed to read it.
    pub(super) tried: LegSet,
    /// Operations or comparisons not answered yet.
    pub(super) outstanding: u32,
    /// A leg that is out may still write into its memory.
    is_spoiled: bool,
    /// Legs that it is, or was, written to.
    pub(super) targets: LegSet,
    pub(super) failed: LegSet,
    /// Legs that have failed to be written and stay.
    kept: LegSet,
    pub(super) reasons: [ErrorKind; LEGS_MAX],
    /// Whether it changes legs in sync,
    changes: bool,
    /// and where.
    admitted: Extent,
    /// Of a scrub, which sectors of which copies differ.
    pub(super) differing: Vec<((usize, usize), Vec<u32>)>,
    /// And what is to be written to which leg.
    pub(super) runs: Vec<(LegId, Extent)>,
    /// How much that is, once for all legs; `None` where it is all of the window.
    pub(super) changed_bytes: Option<u64>,
    /// Legs that are to be written all of it because it is bad there.
    pub(super) mended: LegSet,
}

impl Background {
    pub(super) fn window(&self, index: u32) -> &Window {
        &self.windows[index]
    }

    pub(super) fn window_mut(&mut self, index: u32) -> &mut Window {
        &mut self.windows[index]
    }
}

impl Engine {
    /// So many buffers of such a size, or none.
    pub(super) fn alloc_window(&mut self, len: u64, copies: u64) -> Option<Vec<BufferSlice>> {
        let mut memory = Vec::new();
        for _ in 0..copies {
            let Some(buffer) = self.buffers.alloc(len) else {
                let allocated = memory.iter().map(|slice: &BufferSlice| slice.buffer);
                let allocated: Vec<BufferId> = allocated.collect();
                for buffer in allocated {
                    self.buffers.release(buffer);
                }
                return None;
            };
            memory.push(whole(buffer, len));
        }
        Some(memory)
    }

    /// Puts a window on the books and asks for its lock.
    pub(super) fn open_window(
        &mut self,
        turn: &mut Turn<'_>,
        kind: BackgroundKind,
        (extent, before): (Extent, Before),
        memory: Vec<BufferSlice>,
    ) {
        let background = &mut self.background;
        background.in_flight_bytes += extent.len();
        background.memory_bytes += extent.len() * memory.len() as u64;
        let index = background.windows.insert(Window {
            kind,
            extent,
            before,
            lock: 0,
            stage: Stage::Waiting,
            memory,
            readers: Vec::new(),
            read: LegSet::EMPTY,
            tried: LegSet::EMPTY,
            outstanding: 0,
            is_spoiled: false,
            targets: LegSet::EMPTY,
            failed: LegSet::EMPTY,
            kept: LegSet::EMPTY,
            reasons: [ErrorKind::Io; LEGS_MAX],
            changes: false,
            admitted: extent,
            differing: Vec::new(),
            runs: Vec::new(),
            changed_bytes: None,
            mended: LegSet::EMPTY,
        });
        let owner = LockOwner::Background(index);
        let (lock, is_held) = self.locks.acquire(extent, owner);
        self.background.window_mut(index).lock = lock;
        if is_held {
            self.window_granted(turn, index);
        }
    }

    /// The lock is held.
    pub(crate) fn window_granted(&mut self, turn: &mut Turn<'_>, index: u32) {
        let whole = self.background.window(index).extent;
        // What was written in front of it may have left a range that differs.
        let (extent, rest) = whole.split_at(self.uniform_len(whole));
        let kind = self.background.window(index).kind;
        if !rest.is_empty() {
            let before = self.background.window(index).before.again();
            self.background.job_of(kind).retries.push((rest, before));
            self.shorten(index, extent);
        }
        match kind {
            BackgroundKind::Rebuild => {
                let targets = self.legs_that_miss(extent);
                if targets.is_empty() {
                    return self.close_window(turn, index);
                }
                self.background.window_mut(index).targets = targets;
                self.read_source(turn, index);
            }
            BackgroundKind::Resync => {
                if self.divergence_of(extent) == DivergencePin::None {
                    return self.close_window(turn, index); // Clients have written all of it.
                }
                self.begin_changing(turn, index);
                self.read_source(turn, index);
            }
            BackgroundKind::Scrub { .. } => self.read_copies(turn, index),
        }
    }

    /// Only the first part of a window is done as this one.
    fn shorten(&mut self, index: u32, extent: Extent) {
        let window = self.background.window_mut(index);
        let less = window.extent.len() - extent.len();
        window.extent = extent;
        for slice in &mut window.memory {
            *slice = slice.part(0, extent.len());
        }
        let copies = window.memory.len() as u64;
        self.background.in_flight_bytes -= less;
        self.background.memory_bytes -= less * copies;
    }

    /// From now on, legs in sync may come to differ under its lock.
    pub(super) fn begin_changing(&mut self, turn: &Turn<'_>, index: u32) {
        let window = self.background.window_mut(index);
        window.changes = true;
        window.admitted = window.extent;
        let (lock, extent) = (window.lock, window.extent);
        self.change_admitted();
        self.locks.begin_to_change(lock);
        self.bytes_change(extent);
        self.intend(turn, extent);
    }

    /// Reads the good bytes from one leg.
    fn read_source(&mut self, turn: &mut Turn<'_>, index: u32) {
        let window = self.background.window(index);
        let (extent, tried) = (window.extent, window.tried);
        let holders = self.config.map.holders(extent.offset());
        let bad = self.bad_legs(extent);
        let out = tried.union(bad);
        let readable = self.legs.readable(holders, out);
        let source = match self.divergence_of(extent) {
            DivergencePin::Leg(pin) if self.legs.in_sync.contains(pin) && !out.contains(pin) => {
                Some(pin)
            }
            DivergencePin::Leg(_) => {
                let next = readable.lowest();
                if let Some(next) = next {
                    self.re_pin(extent, next);
                }
                next
            }
            DivergencePin::None | DivergencePin::Cut(_) => self.idlest(readable),
        };
        let Some(source) = source else {
            return self.no_source(turn, index);
        };
        let window = self.background.window_mut(index);
        window.stage = Stage::Reading;
        window.readers = vec![source];
        window.outstanding = 1;
        let memory = window.memory[0];
        self.send_window_op(turn, index, source, OpKind::Read, extent, memory);
    }

    /// The leg that has least to do for others; of equals the first, so that it reads in order.
    fn idlest(&self, legs: LegSet) -> Option<LegId> {
        let at_leg = &self.background.at_leg;
        legs.iter().min_by_key(|leg| {
            let view = &self.legs.views[leg.index()];
            let all = view.reads_in_flight + view.writes_in_flight;
            all.saturating_sub(at_leg[leg.index()])
        })
    }

    pub(super) fn send_window_op(
        &mut self,
        turn: &Turn<'_>,
        index: u32,
        leg: LegId,
        kind: OpKind,
        extent: Extent,
        memory: BufferSlice,
    ) {
        self.background.at_leg[leg.index()] += 1;
        let new = NewOp {
            owner: OpOwner::Background(index),
            flow: FlowId::ARRAY,
            kind,
            extent: self.config.map.on_leg(leg, extent),
            memory: Some(memory),
            fua: false,
            may_trim: false,
        };
        self.assign(turn, leg, new);
    }

    /// A leg has answered.
    pub(crate) fn window_answered(
        &mut self,
        turn: &mut Turn<'_>,
        index: u32,
        op: &Op,
        result: Result<(), ErrorKind>,
    ) {
        let leg = op.leg;
        if op.kind == OpKind::Read {
            let window = self.background.window_mut(index);
            match result {
                Ok(()) => window.read.insert(leg),
                Err(_) => window.tried.insert(leg),
            }
            let extent = window.extent;
            // A page that is narrowed to blocks is told and counted as a whole.
            let is_new = extent.len() <= LEAF_BYTES && window.before != Before::Told;
            if let Err(kind) = result
                && (is_new || self.legs.fails_fast(leg, OpKind::Read))
            {
                self.outputs
                    .push_back(Output::Event(Event::ReadFailedOver { leg, extent, kind }));
                self.note_read_error(turn, leg, kind);
            }
        } else if let Err(kind) = result {
            let window = self.background.window_mut(index);
            window.failed.insert(leg);
            window.reasons[leg.index()] = kind;
        }
        self.window_op_ended(turn, index);
    }

    /// A leg is out, with an operation of this window in hand.
    pub(crate) fn window_op_lost(&mut self, turn: &mut Turn<'_>, index: u32) {
        let window = self.background.window_mut(index);
        window.is_spoiled |= window.stage == Stage::Reading;
        self.window_op_ended(turn, index);
    }

    fn window_op_ended(&mut self, turn: &mut Turn<'_>, index: u32) {
        let window = self.background.window_mut(index);
        window.outstanding -= 1;
        if window.outstanding > 0 {
            return;
        }
        match window.stage {
            Stage::Reading => self.window_read(turn, index),
            Stage::Writing => self.window_written(turn, index),
            Stage::Waiting | Stage::Comparing | Stage::Holding => {
                unreachable!("it has operations only while it reads or writes")
            }
        }
    }

    /// All legs that were asked have answered.
    fn window_read(&mut self, turn: &mut Turn<'_>, index: u32) {
        let window = self.background.window_mut(index);
        window.stage = Stage::Waiting;
        if window.is_spoiled {
            return self.retry_window(turn, index);
        }
        let is_large = window.extent.len() > LEAF_BYTES;
        if is_large && !window.tried.is_empty() {
            return self.halve_window(turn, index);
        }
        match window.kind {
            BackgroundKind::Scrub { .. } => self.copies_read(turn, index),
            _ if window.read.is_empty() => self.read_source(turn, index),
            BackgroundKind::Rebuild => self.start_changing(turn, index),
            BackgroundKind::Resync => {
                self.background.window_mut(index).stage = Stage::Holding;
                self.change_if_durable(turn, index);
            }
        }
    }

    /// Begins to write, or waits until that is allowed.
    pub(crate) fn change_if_durable(&mut self, turn: &mut Turn<'_>, index: u32) {
        if self.may_change(index, self.background.window(index).extent) {
            self.start_changing(turn, index);
        }
    }

    /// What must be durable before the window may write cannot be made so.
    pub(crate) fn fail_window(&mut self, turn: &mut Turn<'_>, index: u32) {
        let window = self.background.window(index);
        let (kind, extent) = (window.kind, window.extent);
        self.background.job_of(kind).leave(extent);
        self.close_window(turn, index);
    }

    /// Writes.
    fn start_changing(&mut self, turn: &mut Turn<'_>, index: u32) {
        let window = self.background.window(index);
        let (kind, extent) = (window.kind, window.extent);
        let source = window.readers[0];
        let mut writes = Vec::new();
        match kind {
            BackgroundKind::Rebuild => {
                let targets = window.targets.intersection(self.legs.rebuilding);
                writes.extend(targets.iter().map(|leg| (leg, extent)));
            }
            BackgroundKind::Resync => {
                // Without its source, another leg is read already, and is right from then on.
                if !self.legs.in_sync.contains(source) {
                    return self.retry_window(turn, index);
                }
                let holders = self.config.map.holders(extent.offset());
                let mut targets = self.legs.writable().intersection(holders);
                targets.remove(source);
                writes.extend(targets.iter().map(|leg| (leg, extent)));
            }
            BackgroundKind::Scrub { .. } => {
                // What is right was decided with legs that may be out now.
                let all: LegSet = window.readers.iter().copied().collect();
                let all = all.union(window.mended);
                if !all.difference(self.legs.in_sync).is_empty() {
                    return self.retry_window(turn, index);
                }
                writes.extend(window.runs.iter().copied());
                writes.extend(self.repairs_beside(window));
            }
        }
        let window = self.background.window_mut(index);
        let memory = window.memory[0];
        window.stage = Stage::Writing;
        window.targets = writes.iter().map(|(leg, _)| *leg).collect();
        window.outstanding = u32::try_from(writes.len()).expect("at most 16 times 256");
        if writes.is_empty() {
            return self.window_written(turn, index);
        }
        for (leg, run) in writes {
            let part = memory.part(run.offset() - extent.offset(), run.len());
            self.send_window_op(turn, index, leg, OpKind::Write, run, part);
        }
    }

    /// What is mended on legs in sync goes to those that are being rebuilt as well: they may have
    /// been copied from one that was wrong.
    fn repairs_beside(&self, window: &Window) -> Vec<(LegId, Extent)> {
        let holders = self.config.map.holders(window.extent.offset());
        let beside = self.legs.rebuilding.intersection(holders);
        let mut mended = Needed::new();
        for (_, run) in &window.runs {
            mended.add(*run, run.end());
        }
        let runs = || mended.inside(window.extent);
        let writes = beside.iter();
        writes
            .flat_map(|leg| runs().map(move |run| (leg, run)))
            .collect()
    }

    /// All legs that were written to have answered, or are out.
    fn window_written(&mut self, turn: &mut Turn<'_>, index: u32) {
        let window = self.background.window_mut(index);
        window.stage = Stage::Waiting;
        let (kind, extent, source) = (window.kind, window.extent, window.readers[0]);
        let are_halves_due = self.log_window(index);
        let kept = self.judge_window(turn, index);
        if are_halves_due {
            return self.halve_window(turn, index);
        }
        self.background.window_mut(index).kept = kept;
        // As with reads: see `crate::moved`.
        let is_moved = source != self.resync_source(extent) || !self.are_faults_told();
        if kind == BackgroundKind::Resync && is_moved {
            return self.begin_window_flush(turn, index);
        }
        self.finish_window(turn, index);
    }

    /// All legs were flushed, or one that must stay could not be, and who is out is durable.
    pub(crate) fn window_flushed(&mut self, turn: &mut Turn<'_>, index: u32, is_durable: bool) {
        if is_durable {
            return self.finish_window(turn, index);
        }
        self.fail_window(turn, index);
    }

    /// What a window has written is taken for done.
    fn finish_window(&mut self, turn: &mut Turn<'_>, index: u32) {
        let window = self.background.window(index);
        let (kind, extent, kept) = (window.kind, window.extent, window.kept);
        let source = window.readers[0];
        let written = window.targets.difference(window.failed);
        let rebuilt = written.intersection(self.legs.rebuilding);
        match kind {
            // What comes from a leg that is out since may be another version than the one that is
            // read now: then it is copied again.
            BackgroundKind::Rebuild if self.legs.in_sync.contains(source) => {
                self.note_copied(rebuilt, extent);
                self.settle_range(turn, extent, rebuilt);
            }
            BackgroundKind::Rebuild => {}
            BackgroundKind::Resync => {
                self.background.has_copied = true;
                self.note_copied(rebuilt, extent);
                if kept.is_empty() {
                    self.range_is_equal(extent);
                }
            }
            BackgroundKind::Scrub { .. } => {
                let window = self.background.window(index);
                let compared: LegSet = window.readers.iter().copied().collect();
                let compared = compared.union(window.mended.difference(window.failed));
                let holders = self.config.map.holders(extent.offset());
                let here = self.legs.in_sync.intersection(holders);
                if kept.is_empty() && here.difference(compared).is_empty() {
                    self.range_is_equal(extent);
                }
            }
        }
        let changed_bytes = self.background.window(index).changed_bytes;
        let changed_bytes = changed_bytes.unwrap_or(extent.len());
        let job = self.background.job_of(kind);
        if !written.is_empty() {
            job.copied_bytes += changed_bytes;
        }
        if !kept.is_empty() {
            job.leave(extent);
        }
        self.close_window(turn, index);
    }

    /// Legs that have failed to be written are out, as far as they can be; those that stay, and may
    /// hold anything there, are given back.
    fn judge_window(&mut self, turn: &Turn<'_>, index: u32) -> LegSet {
        let window = self.background.window(index);
        let (extent, lock, reasons) = (window.extent, window.lock, window.reasons);
        let source = window.readers[0];
        let failed = window.failed.intersection(self.legs.writable());
        if failed.is_empty() {
            return LegSet::EMPTY;
        }
        let full = |leg: &LegId| reasons[leg.index()] == ErrorKind::NoSpace;
        let rebuilding = failed.intersection(self.legs.rebuilding);
        // A leg that is full has served well so far.
        let to_blame: LegSet = failed.iter().filter(|leg| !full(leg)).collect();
        let out = self.spare(to_blame).union(rebuilding);
        for leg in out {
            let reason = FaultReason::WriteFailed(reasons[leg.index()]);
            self.fault_leg(turn, leg, reason);
        }
        let kept = failed.difference(out).intersection(self.legs.in_sync);
        if !kept.is_empty() {
            for leg in kept.iter().filter(|leg| !full(leg)) {
                let reason = FaultReason::WriteFailed(reasons[leg.index()]);
                self.keep_last(leg, reason);
            }
            let holders = self.config.map.holders(extent.offset());
            let here = holders.intersection(self.legs.in_sync);
            let seen = self.locks.pinned(lock).filter(|leg| here.contains(*leg));
            let good = here.difference(kept);
            let pin = seen
                .or_else(|| Some(source).filter(|leg| good.contains(*leg)))
                .or_else(|| good.lowest())
                .or_else(|| here.lowest());
            self.pin_needed(extent);
            self.divergence
                .add(extent, pin.expect("every byte keeps a leg in sync"));
        }
        kept
    }

    /// Where one leg in sync is left, all that hold a range are equal once the others have been
    /// copied from it.
    fn settle_range(&mut self, turn: &Turn<'_>, extent: Extent, copied: LegSet) {
        let holders = self.config.map.holders(extent.offset());
        let others = self.legs.rebuilding.intersection(holders);
        let is_alone = self.legs.in_sync.intersection(holders).count() == 1;
        if !self.is_all_equal() && is_alone && others.difference(copied).is_empty() {
            self.range_is_equal(extent);
            self.clean_later(turn);
        }
    }

    /// A leg is there again, perhaps as another device: what windows have written to it is gone.
    pub(super) fn forget_window_target(&mut self, leg: LegId) {
        for window in self.background.windows.iter_mut() {
            window.targets.remove(leg);
            window.failed.remove(leg);
            window.read.remove(leg);
            window.runs.retain(|(target, _)| *target != leg);
        }
    }

    /// To be done again from the start, in other memory.
    pub(super) fn retry_window(&mut self, turn: &mut Turn<'_>, index: u32) {
        let window = self.background.window_mut(index);
        let (kind, extent, before) = (window.kind, window.extent, window.before.again());
        self.background.job_of(kind).retries.push((extent, before));
        self.drop_window(turn, index);
    }

    /// To be done again in two parts.
    pub(crate) fn halve_window(&mut self, turn: &mut Turn<'_>, index: u32) {
        let window = self.background.window(index);
        let (kind, extent) = (window.kind, window.extent);
        let was_told = extent.len() <= LEAF_BYTES && !window.tried.is_empty();
        let before = if was_told {
            Before::Told
        } else {
            window.before.again()
        };
        let whole = if extent.len() > LEAF_BYTES {
            LEAF_BYTES
        } else {
            self.block_bytes()
        };
        let half = (extent.len() / 2).next_multiple_of(whole);
        let (first, second) = extent.split_at(half.min(extent.len()));
        let parts = [second, first].into_iter().filter(|part| !part.is_empty());
        let retries = &mut self.background.job_of(kind).retries;
        retries.extend(parts.map(|part| (part, before)));
        self.drop_window(turn, index);
    }

    /// No leg in sync can read it.
    pub(super) fn leave_unreadable(&mut self, turn: &mut Turn<'_>, index: u32) {
        let window = self.background.window(index);
        let (kind, extent) = (window.kind, window.extent);
        self.background.job_of(kind).leave(extent);
        self.tell_unreadable(kind, extent);
        self.close_window(turn, index);
    }

    /// A window is done, as well as it could be.
    pub(super) fn close_window(&mut self, turn: &mut Turn<'_>, index: u32) {
        let window = self.background.window(index);
        let (kind, extent) = (window.kind, window.extent);
        let mend = if window.read.is_empty() {
            LegSet::EMPTY
        } else {
            window.tried
        };
        let copies = if kind == BackgroundKind::Rebuild {
            window.targets.count() as u64
        } else {
            1
        };
        self.note_done(kind, extent.len() * copies);
        self.drop_window(turn, index);
        if !mend.is_empty() {
            self.repair_legs(turn, mend, extent);
        }
    }

    /// A window is over, done or not.
    fn drop_window(&mut self, turn: &mut Turn<'_>, index: u32) {
        let window = self.background.windows.remove(index);
        let copies = window.memory.len() as u64;
        self.background.in_flight_bytes -= window.extent.len();
        self.background.memory_bytes -= window.extent.len() * copies;
        for slice in window.memory {
            self.release_buffer(slice.buffer);
        }
        if window.changes {
            self.intent.end(window.admitted);
            self.change_ended(turn);
        }
        self.unlock(turn, window.lock);
    }
}
