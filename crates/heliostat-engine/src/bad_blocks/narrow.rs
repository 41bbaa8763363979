//! Narrowing: of a write that a leg has failed, which blocks it is that fail.
//!
//! What failed is written again in halves, one after the other, and what fails again in halves of
//! that, down to a block. Where very much fails, what is left is not halved any more: blocks that
//! are called bad and are not cost nothing but their second copy.
//!
//! A write with FUA is a write and a flush, of which the leg does not say which one has failed. So
//! it is first written again as it was, without FUA. Where that works, it was the flush: what the
//! leg has answered before may be lost, and is to be treated as after any flush that failed. This
//! is found out of legs that have no log as well. Until it is known no flush counts.

use heliostat_types::{ErrorKind, Extent, OpKind};

use crate::api::FaultReason;
use crate::engine::{Engine, Turn};
use crate::legs::{NewOp, Op, OpOwner};

/// So often a part of one operation may fail and be halved: some bad blocks in a large write are
/// found one by one, and a leg that fails everything is not asked thousands of times.
const FAILURES_MAX: u32 = 64;

/// An operation that failed and is done again in parts.
#[derive(Debug)]
pub(super) struct Narrowing {
    write: u32,
    /// The operation.
    op: Op,
    /// Whether blocks are looked for, or only whether it was the flush of a write with FUA.
    has_log: bool,
    /// What the leg has said of a write with FUA that was not written again yet.
    flush_error: Option<ErrorKind>,
    /// What is to be tried yet, in addresses of the leg; the last one first.
    todo: Vec<Extent>,
    failures: u32,
    bad: Vec<Extent>,
}

/// Both halves of what failed, in whole blocks; the first one last, because it is tried first.
pub(crate) fn halves(extent: Extent, block_bytes: u64) -> [Extent; 2] {
    let half = (extent.len() / 2).next_multiple_of(block_bytes);
    let (first, second) = extent.split_at(half);
    [second, first]
}

/// Whether so many failures of parts are too many for another one to be halved.
pub(crate) const fn is_too_much(failures: u32) -> bool {
    failures >= FAILURES_MAX
}

impl Engine {
    /// A leg has failed an operation of a write. Whether it is found out where.
    pub(crate) fn begin_narrowing(
        &mut self,
        turn: &mut Turn<'_>,
        write: u32,
        op: &Op,
        kind: ErrorKind,
    ) -> bool {
        let has_log = self.has_bad_log(op.leg);
        let is_medium = has_log && kind == ErrorKind::Io;
        // Also of a leg that is to fail fast: it may have to stay, where all are full.
        let may_be_flush = op.fua && matches!(kind, ErrorKind::Io | ErrorKind::NoSpace);
        if op.kind != OpKind::Write || !(is_medium || may_be_flush) {
            return false;
        }
        self.write_failed_in_part(write, op.leg);
        let block = self.block_bytes();
        let todo = if may_be_flush || op.extent.len() <= block {
            // It may have been this once.
            vec![op.extent]
        } else {
            halves(op.extent, block).to_vec()
        };
        if may_be_flush {
            self.flushes.doubt.begin();
        }
        let narrowing = self.bad.narrowings.insert(Narrowing {
            write,
            // What is written again is flushed when all of it is there.
            op: Op { fua: false, ..*op },
            has_log,
            flush_error: may_be_flush.then_some(kind),
            todo,
            failures: 0,
            bad: Vec::new(),
        });
        self.narrow_on(turn, narrowing);
        true
    }

    /// Tries the next part, or is done.
    fn narrow_on(&mut self, turn: &mut Turn<'_>, index: u32) {
        let narrowing = &mut self.bad.narrowings[index];
        let Some(extent) = narrowing.todo.pop() else {
            let narrowing = self.bad.narrowings.remove(index);
            return self.narrowed(turn, &narrowing.op, narrowing.write, narrowing.bad);
        };
        let op = &narrowing.op;
        let at = extent.offset() - op.extent.offset();
        let new = NewOp {
            owner: OpOwner::Narrow(index),
            flow: op.flow,
            kind: OpKind::Write,
            extent,
            memory: op.memory.map(|memory| memory.part(at, extent.len())),
            fua: false,
            may_trim: false,
        };
        let leg = op.leg;
        self.assign(turn, leg, new);
    }

    /// A leg has answered a part.
    pub(crate) fn part_answered(
        &mut self,
        turn: &mut Turn<'_>,
        index: u32,
        op: &Op,
        result: Result<(), ErrorKind>,
    ) {
        let block = self.block_bytes();
        let narrowing = &mut self.bad.narrowings[index];
        let flush_error = narrowing.flush_error.take();
        if flush_error.is_some() {
            self.flushes.doubt.end();
        }
        match result {
            Ok(()) => {
                if let Some(kind) = flush_error {
                    self.note_flush_failed(op.leg, kind);
                }
            }
            Err(ErrorKind::Io) if narrowing.has_log => {
                narrowing.failures += 1;
                if op.extent.len() > block && !is_too_much(narrowing.failures) {
                    narrowing.todo.extend(halves(op.extent, block));
                } else {
                    narrowing.bad.push(op.extent);
                }
            }
            Err(kind) => {
                narrowing.todo.clear();
                let write = narrowing.write;
                self.note_failure(write, op.leg, FaultReason::WriteFailed(kind));
            }
        }
        self.narrow_on(turn, index);
    }

    /// The leg is out, and with it the part that it was asked for.
    pub(crate) fn part_lost(&mut self, turn: &mut Turn<'_>, index: u32) {
        let narrowing = self.bad.narrowings.remove(index);
        if narrowing.flush_error.is_some() {
            self.flushes.doubt.end();
        }
        self.write_op_ended(turn, narrowing.write, narrowing.op.leg);
    }
}
