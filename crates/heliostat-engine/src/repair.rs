//! Read repair: what a leg could not read is read from another leg, written over it and read back.
//!
//! It runs under a lock of its own, with bytes read under that lock; no client waits for it but one
//! who writes there.
//! It is worth little and given up easily: where a write is at work in the range (that repairs it
//! as well), where memory is short, or where several are on their way.
//!
//! What cannot be written, or read back in two tries, is narrowed down to blocks, and these are bad
//! blocks of the leg from then on. A leg that has no log of them is out: nothing else tells it from
//! a good one.

use heliostat_types::{ErrorKind, Extent, FlowId, LegId, LegSet, OpKind, SECTOR_BYTES};

use crate::api::{Event, FaultReason, Output};
use crate::bad_blocks::{halves, is_too_much};
use crate::buffer::BufferSlice;
use crate::divergence::DivergencePin;
use crate::engine::{Engine, Turn};
use crate::legs::{NewOp, OpOwner};
use crate::locks::LockOwner;
use crate::read::{Piece, PieceOwner};

/// A leg that fails many reads at once is not helped by repairing all of them at once.
const REPAIRS_MAX: usize = 4;

/// A repair in progress.
#[derive(Debug)]
pub(crate) struct Repair {
    leg: LegId,
    extent: Extent,
    memory: BufferSlice,
    lock: u32,
    /// What is written and read back now, and what comes after it, and how that begins; the next
    /// one last.
    part: Extent,
    todo: Vec<(Extent, OpKind)>,
    /// What cannot be read back is read once more, as it may have been the cable's fault; by the
    /// first failure a leg without a log would be out.
    is_read_again: bool,
    /// How many parts have failed,
    failures: u32,
    /// and which blocks could not be mended.
    bad: Vec<Extent>,
}

impl Engine {
    /// Tries to mend what `legs` could not read.
    pub(crate) fn repair_legs(&mut self, turn: &mut Turn<'_>, legs: LegSet, extent: Extent) {
        if !self.config.repairs {
            return;
        }
        for leg in legs {
            let is_free =
                self.locks.is_free(extent) && self.divergence_of(extent) == DivergencePin::None;
            if !is_free || self.repairs.len() >= REPAIRS_MAX || !self.waiting.is_empty() {
                return;
            }
            let is_bad = self.bad_legs(extent).contains(leg);
            if !self.legs.in_sync.contains(leg) || is_bad {
                continue;
            }
            let Some(buffer) = self.buffers.alloc(extent.len()) else {
                return;
            };
            let memory = BufferSlice {
                buffer,
                offset_bytes: 0,
                len_bytes: u32::try_from(extent.len()).expect("a read is at most 32 MiB"),
            };
            self.begin_repair(turn, leg, extent, memory);
        }
    }

    fn begin_repair(
        &mut self,
        turn: &mut Turn<'_>,
        leg: LegId,
        extent: Extent,
        memory: BufferSlice,
    ) {
        self.change_admitted();
        let index = self.repairs.insert(Repair {
            leg,
            extent,
            memory,
            lock: 0,
            part: extent,
            todo: Vec::new(),
            is_read_again: false,
            failures: 0,
            bad: Vec::new(),
        });
        let (lock, is_held) = self.locks.acquire(extent, LockOwner::Repair(index));
        assert!(is_held, "a repair begins only where nothing is locked");
        self.repairs[index].lock = lock;
        self.bytes_change(extent);
        self.intend(turn, extent);
        let holders = self.config.map.holders(extent.offset());
        let piece = self.insert_piece(Piece {
            tried: LegSet::from_iter([leg]),
            own_lock: Some(lock),
            ..Piece::new(PieceOwner::Repair(index), extent, holders, memory)
        });
        self.place(turn, piece);
    }

    /// The good bytes are there, or no leg has them.
    pub(crate) fn repair_source_ended(
        &mut self,
        turn: &mut Turn<'_>,
        index: u32,
        result: Result<(), ErrorKind>,
    ) {
        if result.is_err() {
            return self.end_repair(turn, index);
        }
        self.repair_if_durable(turn, index);
    }

    /// Writes the good bytes over the bad ones, or waits until they may be.
    pub(crate) fn repair_if_durable(&mut self, turn: &mut Turn<'_>, index: u32) {
        if self.may_repair(index, self.repairs[index].extent) {
            self.send_repair(turn, index, OpKind::Write);
        }
    }

    fn send_repair(&mut self, turn: &mut Turn<'_>, index: u32, kind: OpKind) {
        let repair = &self.repairs[index];
        let leg = repair.leg;
        if !self.legs.in_sync.contains(leg) {
            return self.end_repair(turn, index);
        }
        let part = repair.part;
        let at = part.offset() - repair.extent.offset();
        let new = NewOp {
            owner: OpOwner::Repair(index),
            flow: FlowId::ARRAY,
            kind,
            extent: self.config.map.on_leg(leg, part),
            memory: Some(repair.memory.part(at, part.len())),
            fua: false,
            may_trim: false,
        };
        self.assign(turn, leg, new);
    }

    /// The leg has answered.
    pub(crate) fn repair_answered(
        &mut self,
        turn: &mut Turn<'_>,
        index: u32,
        kind: OpKind,
        result: Result<(), ErrorKind>,
    ) {
        let (leg, extent) = (self.repairs[index].leg, self.repairs[index].part);
        match result {
            Ok(()) if kind == OpKind::Write => {
                return self.send_repair(turn, index, OpKind::Read);
            }
            Ok(()) => {
                self.legs.legs[leg.index()].corrected_sectors += extent.len() / SECTOR_BYTES;
                self.outputs
                    .push_back(Output::Event(Event::ReadRepaired { leg, extent }));
            }
            Err(ErrorKind::Io) if kind == OpKind::Read && self.may_read_again(index) => {
                self.repairs[index].is_read_again = true;
                return self.send_repair(turn, index, OpKind::Read);
            }
            Err(ErrorKind::Io) if self.has_bad_log(leg) => self.part_not_repaired(index, kind),
            Err(error) if kind == OpKind::Write => {
                self.fault_reader(turn, leg, FaultReason::WriteFailed(error));
            }
            Err(error) => self.fault_reader(turn, leg, FaultReason::ReadFailed(error)),
        }
        self.repair_on(turn, index);
    }

    /// Whether what could not be read back is read once more: not of a leg that is to fail fast.
    fn may_read_again(&self, index: u32) -> bool {
        let repair = &self.repairs[index];
        !repair.is_read_again && !self.legs.fails_fast(repair.leg, OpKind::Read)
    }

    /// A part cannot be mended as a whole. What could be written and not read back is not written
    /// again: a read that failed leaves anything in the memory that it was to fill.
    fn part_not_repaired(&mut self, index: u32, failed: OpKind) {
        let block = self.block_bytes();
        let repair = &mut self.repairs[index];
        repair.failures += 1;
        if repair.part.len() > block && !is_too_much(repair.failures) {
            let halves = halves(repair.part, block).into_iter();
            repair.todo.extend(halves.map(|half| (half, failed)));
        } else {
            repair.bad.push(repair.part);
        }
    }

    /// The next part, or the end.
    fn repair_on(&mut self, turn: &mut Turn<'_>, index: u32) {
        let repair = &mut self.repairs[index];
        if let Some((part, kind)) = repair.todo.pop() {
            repair.part = part;
            // What is only read was, with others.
            repair.is_read_again = kind == OpKind::Read;
            return self.send_repair(turn, index, kind);
        }
        let (leg, bad) = (repair.leg, std::mem::take(&mut repair.bad));
        for part in bad {
            let on_leg = self.config.map.on_leg(leg, part);
            if self.legs.in_sync.contains(leg) && !self.note_written(leg, on_leg, &[on_leg]) {
                self.fault_reader(turn, leg, FaultReason::WriteFailed(ErrorKind::Io));
            }
        }
        self.end_repair(turn, index);
    }

    /// A repair is over, done or given up.
    pub(crate) fn end_repair(&mut self, turn: &mut Turn<'_>, index: u32) {
        let repair = self.repairs.remove(index);
        self.release_buffer(repair.memory.buffer);
        self.intent.end(repair.extent);
        self.change_ended(turn);
        self.unlock(turn, repair.lock);
    }
}
