//! What becomes of an operation that a leg has answered.
//!
//! Where it is in doubt whether a leg has failed a flush (see [`crate::bad_blocks`]), what it says
//! of what is durable is heard when that is known: Linux tells of a failed flush once, and another
//! one that ends well right behind it may rely on bytes that are gone.

use heliostat_types::{ErrorKind, LegId, LegOpId, LegSet, OpKind};

use crate::engine::{Engine, Turn};
use crate::legs::{Op, OpOwner};

/// Of which legs it is in doubt whether they have failed a flush, and what is put off by that.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    legs: LegSet,
    put_off: Vec<(Op, Result<(), ErrorKind>)>,
}

impl Doubts {
    /// It is in doubt of this leg.
    pub(crate) fn begin(&mut self, leg: LegId) {
        self.legs.insert(leg);
    }

    /// It is not, any more.
    pub(crate) fn end(&mut self, leg: LegId) {
        self.legs.remove(leg);
    }

    /// The first answer that was put off and need not be any more.
    fn first_due(&self) -> Option<usize> {
        let is_due = |(op, _): &(Op, _)| !self.legs.contains(op.leg);
        self.put_off.iter().position(is_due)
    }

    /// Whether there is one.
    pub(crate) fn are_due(&self) -> bool {
        self.first_due().is_some()
    }
}

impl Engine {
    /// A leg has answered an operation.
    pub(crate) fn completion(
        &mut self,
        turn: &mut Turn<'_>,
        id: LegOpId,
        result: Result<(), ErrorKind>,
    ) {
        if self.is_sent_again(turn, id, result) {
            return;
        }
        let op = self.reap(turn, id, result);
        let is_ghost = matches!(op.owner, OpOwner::Ghost { .. });
        let is_durable = op.kind == OpKind::Flush || op.fua;
        if is_durable && !is_ghost && self.flushes.doubts.legs.contains(op.leg) {
            self.flushes.doubts.put_off.push((op, result));
            return;
        }
        self.answered(turn, &op, result);
    }

    /// Hears the next answer that was put off; whether there was one.
    pub(crate) fn hear_put_off(&mut self, turn: &mut Turn<'_>) -> bool {
        let Some(first) = self.flushes.doubts.first_due() else {
            return false;
        };
        let (op, result) = self.flushes.doubts.put_off.remove(first);
        if self.legs.writable().contains(op.leg) {
            self.answered(turn, &op, result);
        } else {
            self.orphans.give(op.leg, op.owner);
        }
        true
    }

    fn answered(&mut self, turn: &mut Turn<'_>, op: &Op, result: Result<(), ErrorKind>) {
        match op.owner {
            OpOwner::Piece(piece) => self.piece_answered(turn, piece, op.leg, result),
            OpOwner::Hedge(hedge) => self.hedge_answered(turn, hedge, op.leg, result),
            OpOwner::Prefetch(run) => self.prefetch_answered(turn, run, result),
            OpOwner::Write(_) | OpOwner::WriteFlush(_) | OpOwner::Sweep { .. } => {
                self.write_answered(turn, op, result);
            }
            OpOwner::Narrow(index) => self.part_answered(turn, index, op, result),
            OpOwner::Flush => self.flush_answered(turn, op.leg, result),
            OpOwner::Status { status, part } => {
                let kind = result.err().unwrap_or(ErrorKind::NotSupported);
                self.status_answered(status, part, Err(kind));
            }
            OpOwner::Repair(repair) => self.repair_answered(turn, repair, op.kind, result),
            OpOwner::Metadata => self.metadata_answered(turn, op, result),
            OpOwner::Background(window) => self.window_answered(turn, window, op, result),
            OpOwner::Rejoin(leg) => self.rejoin_flushed(turn, leg, result),
            OpOwner::Checkpoint(leg) => self.checkpoint_flushed(turn, leg, result),
            OpOwner::Moved(at) => self.moved_answered(turn, at, op, result),
            OpOwner::Ghost { is_loser: true } => self.loser_answered(turn, op, result),
            OpOwner::Ghost { is_loser: false } => {}
        }
    }
}
