//! What becomes of an operation that a leg has answered.
//!
//! While it is in doubt whether a leg has failed a flush (see [`crate::bad_blocks`]), what legs say
//! of what is durable is heard when that is known: Linux tells of a failed flush once, and another
//! one that ends well beside it may rely on bytes that are gone. That of all legs, since what ends
//! with the answer of another one may have had its answer from this one before.

use heliostat_types::{ErrorKind, LegOpId, OpKind};

use crate::engine::{Engine, Turn};
use crate::legs::{Op, OpOwner};

/// Whether it is in doubt, of one leg, whether it has failed a flush, and what is put off by that.
#[derive(Debug, Default)]
pub(crate) struct Doubt {
    is_open: bool,
    put_off: Vec<(Op, Result<(), ErrorKind>)>,
}

impl Doubt {
    /// It is from now on.
    ///
    /// # Panics
    /// Where it was already: what would make it so is put off.
    pub(crate) fn begin(&mut self) {
        assert!(!self.is_open, "one doubt after the other");
        self.is_open = true;
    }

    /// It is not, any more.
    pub(crate) const fn end(&mut self) {
        self.is_open = false;
    }

    /// Whether something is to be heard that was put off.
    pub(crate) const fn is_due(&self) -> bool {
        !self.is_open && !self.put_off.is_empty()
    }

    /// What is to be heard next: first what may put off the rest again.
    fn next(&mut self) -> Option<(Op, Result<(), ErrorKind>)> {
        if !self.is_due() {
            return None;
        }
        let mut all = self.put_off.iter();
        let failed = all.position(|(op, result)| op.fua && result.is_err());
        Some(self.put_off.remove(failed.unwrap_or(0)))
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
        if is_durable && !is_ghost && self.flushes.doubt.is_open {
            self.flushes.doubt.put_off.push((op, result));
            return;
        }
        self.answered(turn, &op, result);
    }

    /// Hears the next answer that was put off; whether there was one.
    pub(crate) fn hear_put_off(&mut self, turn: &mut Turn<'_>) -> bool {
        let Some((op, result)) = self.flushes.doubt.next() else {
            return false;
        };
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
            OpOwner::Prefetch(run) => self.prefetch_answered(turn, run, op, result),
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
