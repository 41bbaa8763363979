//! Reads of what may differ since an unclean stop, where another leg is read than was at first.
//!
//! Until a resync has been there, reads go to the leg that whoever starts the array next reads
//! there, too: the first in sync in role order. If that one cannot read some bytes, the next leg
//! takes its place. But nothing on the legs says so, and after a power cut the first one may answer
//! again, with other bytes. So before the first such read is answered, what was read is written to
//! all legs that hold it, and flushed: from then on they are equal there.
//!
//! For the same reason nothing is read there while a leg is out and that is not durable yet.
//!
//! It runs under a lock of its own, in the memory of the read.

use heliostat_types::{ErrorKind, Extent, FlowId, LEGS_MAX, LegId, LegSet, OpKind};

use crate::api::{Event, FaultReason, Output};
use crate::buffer::BufferSlice;
use crate::divergence::DivergencePin;
use crate::engine::{Engine, Turn, Waiting};
use crate::legs::{NewOp, Op, OpOwner};
use crate::locks::LockOwner;
use crate::read::PieceOwner;

/// A read whose bytes are made the same on all legs before it is answered.
#[derive(Debug)]
pub(crate) struct Moved {
    /// The piece of the read, and what tells it from others with its index: the read may be begun
    /// anew in other memory meanwhile.
    piece: (u32, u64),
    extent: Extent,
    memory: BufferSlice,
    lock: u32,
    /// Whether the lock was granted.
    is_begun: bool,
    /// Whether a leg reads.
    is_reading: bool,
    /// The leg that was read, or is.
    source: LegId,
    /// Legs that have failed to read it.
    tried: LegSet,
    error: ErrorKind,
    /// Operations not answered yet.
    outstanding: u32,
    failed: LegSet,
    reasons: [ErrorKind; LEGS_MAX],
    /// A leg that must stay could not be written.
    is_left: bool,
}

impl Engine {
    /// Whether reads there go to another leg than they would after the next start.
    pub(crate) fn is_moved(&self, extent: Extent) -> bool {
        let pin = self.divergence_of(extent);
        let first = || self.resync_source(extent);
        self.needed.overlaps(extent) && matches!(pin, DivergencePin::Leg(leg) if leg != first())
    }

    /// Looks after a piece of a client's read where legs may differ since an unclean stop. Whether
    /// nothing is left to be done for it now.
    pub(crate) fn hold_moved(&mut self, turn: &mut Turn<'_>, index: u32) -> bool {
        let piece = &self.pieces[index];
        let (extent, serial) = (piece.extent, piece.serial);
        let is_read = matches!(piece.owner, PieceOwner::Read(_));
        let is_told = self.are_faults_told();
        let may_differ = self.needed.overlaps(extent) || !is_told && self.untold.overlaps(extent);
        if !is_read || !may_differ {
            return false;
        }
        if !is_told {
            self.hold_piece(index, serial);
            return true;
        }
        let is_moved = self.is_moved(extent);
        if is_moved {
            self.begin_moved(turn, index);
        }
        is_moved
    }

    /// What a piece waited for is durable, or cannot be made so.
    pub(crate) fn place_if_live(&mut self, turn: &mut Turn<'_>, index: u32, serial: u64) {
        if self.is_live(index, serial) {
            self.place(turn, index);
        }
    }

    /// Reads a piece under a lock, and makes it the same everywhere.
    pub(crate) fn begin_moved(&mut self, turn: &mut Turn<'_>, index: u32) {
        let piece = self.pieces[index];
        self.buffers.retain(piece.memory.buffer);
        self.change_admitted();
        let at = self.moved.insert(Moved {
            piece: (index, piece.serial),
            extent: piece.extent,
            memory: piece.memory,
            lock: 0,
            is_begun: false,
            is_reading: false,
            source: LegId::new(0),
            tried: piece.tried,
            error: piece.error,
            outstanding: 0,
            failed: LegSet::EMPTY,
            reasons: [ErrorKind::Io; LEGS_MAX],
            is_left: false,
        });
        let owner = LockOwner::Moved(at);
        let (lock, is_held) = self.locks.acquire(piece.extent, owner);
        self.moved[at].lock = lock;
        if is_held {
            self.moved_granted(turn, at);
        }
    }

    /// A leg is out that reads may have been served by, where legs differ since an unclean stop.
    ///
    /// Before that is durable the power may fail, and it is believed again: until then nobody is
    /// shown what others hold there, also where they are made equal meanwhile. And it may have been
    /// read for the edges of writes: what it held gets to the others with these, and until then
    /// nobody is shown what they hold instead.
    pub(crate) fn hold_readers(&mut self) {
        if self.needed.is_empty() {
            return;
        }
        let size_bytes = self.config.size_bytes;
        for run in self.needed.runs() {
            self.untold.add(run, size_bytes);
        }
        let (writes, needed) = (&self.writes, &self.needed);
        let has_edge = |owner| match owner {
            LockOwner::Write(index) => {
                let write = writes.get(index);
                write.is_some_and(|write| write.has_edge_in(needed))
            }
            LockOwner::Background(_) | LockOwner::Moved(_) | LockOwner::Repair(_) => false,
        };
        self.locks.note_late(self.legs.writable(), has_edge);
    }

    /// The lock is held.
    pub(crate) fn moved_granted(&mut self, turn: &mut Turn<'_>, at: u32) {
        let moved = &mut self.moved[at];
        moved.is_begun = true;
        let extent = moved.extent;
        self.bytes_change(extent);
        self.intend(turn, extent);
        self.read_moved(turn, at);
    }

    /// Reads from the leg that is read there now, or else the next one.
    fn read_moved(&mut self, turn: &mut Turn<'_>, at: u32) {
        let moved = &self.moved[at];
        let (extent, tried, (piece, serial)) = (moved.extent, moved.tried, moved.piece);
        if !self.is_live(piece, serial) || !self.is_moved(extent) {
            return self.end_moved(turn, at, None);
        }
        let source = match self.divergence_of(extent) {
            DivergencePin::Leg(pin) if !tried.contains(pin) => pin,
            DivergencePin::Leg(_) | DivergencePin::None | DivergencePin::Cut(_) => {
                let out = tried.union(self.bad_legs(extent));
                let holders = self.config.map.holders(extent.offset());
                let next = self.legs.readable(holders, out).lowest();
                let Some(next) = next else {
                    let error = moved.error;
                    return self.end_moved(turn, at, Some(Err(error)));
                };
                self.re_pin(extent, next);
                next
            }
        };
        let moved = &mut self.moved[at];
        (moved.source, moved.is_reading, moved.outstanding) = (source, true, 1);
        let memory = moved.memory;
        self.send_moved(turn, at, source, OpKind::Read, memory);
    }

    fn send_moved(
        &mut self,
        turn: &Turn<'_>,
        at: u32,
        leg: LegId,
        kind: OpKind,
        memory: BufferSlice,
    ) {
        let new = NewOp {
            owner: OpOwner::Moved(at),
            flow: FlowId::ARRAY,
            kind,
            extent: self.config.map.on_leg(leg, self.moved[at].extent),
            memory: Some(memory),
            fua: false,
            may_trim: false,
        };
        self.assign(turn, leg, new);
    }

    /// A leg has answered.
    pub(crate) fn moved_answered(
        &mut self,
        turn: &mut Turn<'_>,
        at: u32,
        op: &Op,
        result: Result<(), ErrorKind>,
    ) {
        let leg = op.leg;
        let moved = &mut self.moved[at];
        if op.kind == OpKind::Write {
            if let Err(kind) = result {
                moved.failed.insert(leg);
                moved.reasons[leg.index()] = kind;
            }
            return self.moved_op_ended(turn, at);
        }
        (moved.is_reading, moved.outstanding) = (false, 0);
        let extent = moved.extent;
        let Err(kind) = result else {
            return self.write_moved(turn, at);
        };
        moved.tried.insert(leg);
        moved.error = kind;
        self.outputs
            .push_back(Output::Event(Event::ReadFailedOver { leg, extent, kind }));
        self.note_read_error(turn, leg, kind);
        self.read_moved(turn, at);
    }

    /// Writes what was read to all other legs, as soon as that is allowed.
    pub(crate) fn write_moved(&mut self, turn: &mut Turn<'_>, at: u32) {
        let (extent, source) = (self.moved[at].extent, self.moved[at].source);
        if !self.may_move(at, extent) {
            return;
        }
        if !self.legs.in_sync.contains(source) {
            return self.read_moved(turn, at);
        }
        let holders = self.config.map.holders(extent.offset());
        let mut targets = self.legs.writable().intersection(holders);
        targets.remove(source);
        let moved = &mut self.moved[at];
        moved.outstanding = u32::try_from(targets.count()).expect("at most 16");
        let memory = moved.memory;
        for leg in targets {
            self.send_moved(turn, at, leg, OpKind::Write, memory);
        }
        if targets.is_empty() {
            self.moved_written(turn, at);
        }
    }

    /// An operation has ended, or was lost with its leg.
    fn moved_op_ended(&mut self, turn: &Turn<'_>, at: u32) {
        let moved = &mut self.moved[at];
        moved.outstanding -= 1;
        if moved.outstanding == 0 {
            self.moved_written(turn, at);
        }
    }

    /// A leg is out, with an operation in hand. It may write into the memory of a read for ever, so
    /// that the read begins anew in another buffer.
    pub(crate) fn moved_op_lost(&mut self, turn: &mut Turn<'_>, at: u32) {
        let moved = &self.moved[at];
        let (index, serial) = moved.piece;
        if !moved.is_reading {
            return self.moved_op_ended(turn, at);
        }
        if self.is_live(index, serial)
            && let PieceOwner::Read(read) = self.pieces[index].owner
        {
            self.abandon_read(read);
            if !self.restart_read(turn, read) {
                self.wait_for_memory(Waiting::Restart(read), true);
            }
        }
        self.end_moved(turn, at, None);
    }

    /// A leg is there again: what it failed before counts no more.
    pub(crate) fn forget_moved_target(&mut self, leg: LegId) {
        for moved in self.moved.iter_mut() {
            moved.failed.remove(leg);
        }
    }

    /// All legs have it, or have failed; now they are flushed.
    fn moved_written(&mut self, turn: &Turn<'_>, at: u32) {
        self.log_moved(at);
        let moved = &self.moved[at];
        let failed = moved.failed.intersection(self.legs.writable());
        let reasons = moved.reasons;
        let is_full = |leg: &LegId| reasons[leg.index()] == ErrorKind::NoSpace;
        // A leg that is full has served well so far.
        let to_blame: LegSet = failed.iter().filter(|leg| !is_full(leg)).collect();
        let rebuilding = failed.intersection(self.legs.rebuilding);
        let out = self.spare(to_blame).union(rebuilding);
        for leg in out {
            self.fault_leg(turn, leg, FaultReason::WriteFailed(reasons[leg.index()]));
        }
        let kept = failed.difference(out);
        for leg in kept.iter().filter(|leg| !is_full(leg)) {
            self.keep_last(leg, FaultReason::WriteFailed(reasons[leg.index()]));
        }
        self.moved[at].is_left = !kept.is_empty();
        self.begin_moved_flush(turn, at);
    }

    /// Legs that could not write it because of their medium do not hold it: that is durable in
    /// their logs before the read is answered, and nobody reads them there. All of it is, because
    /// what it costs is the second copy of a few blocks, until they are written again.
    fn log_moved(&mut self, at: u32) {
        let moved = &self.moved[at];
        let (extent, reasons) = (moved.extent, moved.reasons);
        for leg in moved.failed.intersection(self.legs.writable()) {
            let is_medium = reasons[leg.index()] == ErrorKind::Io;
            let on_leg = self.config.map.on_leg(leg, extent);
            if is_medium && self.has_bad_log(leg) && self.note_written(leg, on_leg, &[on_leg]) {
                self.moved[at].failed.remove(leg);
            }
        }
    }

    /// All legs were flushed, or one that must stay could not be, and who is out is durable.
    pub(crate) fn moved_flushed(&mut self, turn: &mut Turn<'_>, at: u32, is_durable: bool) {
        let moved = &self.moved[at];
        if is_durable && !moved.is_left && self.legs.in_sync.contains(moved.source) {
            self.range_is_equal(moved.extent);
        }
        self.end_moved(turn, at, Some(Ok(())));
    }

    /// A read that was moved ends: with an answer, or it is placed again.
    pub(crate) fn end_moved(
        &mut self,
        turn: &mut Turn<'_>,
        at: u32,
        result: Option<Result<(), ErrorKind>>,
    ) {
        let moved = self.moved.remove(at);
        let (index, serial) = moved.piece;
        self.release_buffer(moved.memory.buffer);
        if moved.is_begun {
            self.intent.end(moved.extent);
        }
        self.change_ended(turn);
        if let Some(result) = result
            && self.is_live(index, serial)
        {
            self.piece_ended(turn, index, result);
        }
        self.unlock(turn, moved.lock);
        if result.is_none() && self.is_live(index, serial) {
            self.pieces[index].tried = moved.tried;
            self.place(turn, index);
        }
    }
}
