//! What changes bytes for a client: writes, write-zeroes, trims.
//!
//! The life of each: its block-aligned extent is locked; where its ends are not aligned, the blocks
//! at the edges are read once and merged; the record says *dirty* durably; the same bytes go to all
//! legs in sync; when the last one has answered, those that failed are taken out and the lock is
//! released; when their faults are durable, the client is answered.
//!
//! A write's data lies in one buffer that nobody writes to once the legs have it. The edges are
//! read into other memory, because a leg that fell silent may still write there later.

use heliostat_types::{
    ClientId, ErrorKind, Extent, LEGS_MAX, LegId, LegSet, OpKind, RequestId, StreamId,
};

use crate::api::{Answer, FaultReason, LegConfig};
use crate::buffer::{BufferId, BufferSlice, BufferStep, GRANULE_BYTES, WriteBuffer};
use crate::engine::{Engine, Turn};
use crate::legs::{NewOp, Op, OpOwner};
use crate::locks::LockOwner;
use crate::read::{Piece, PieceOwner};

/// A leg trims or zeroes at most this much at a time, so that a long one is not taken for silence.
const SWEEP_MAX_BYTES: u64 = 64 << 20;
/// Zeros are written in pieces of this size to legs that cannot zero by themselves.
pub(crate) const ZEROS_BYTES: u64 = 1 << 20;

/// A write buffer that is with a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unsubmitted {
    extent: Extent,
    /// For the blocks at the edges.
    pub(crate) scratch: Option<BufferSlice>,
}

/// What kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Write,
    WriteZeroes { may_trim: bool },
    Trim,
}

impl Change {
    /// How a leg is best told of it, where it can.
    const fn best_way(self) -> OpKind {
        match self {
            Self::Write => OpKind::Write,
            Self::WriteZeroes { .. } => OpKind::WriteZeroes,
            Self::Trim => OpKind::Trim,
        }
    }
}

/// A block at the edge of an unaligned change.
#[derive(Clone, Copy, Debug)]
struct Edge {
    block: Extent,
    /// What the legs hold is read into here,
    scratch: BufferSlice,
    /// and what does not change is copied from there to here.
    data: BufferSlice,
}

/// A change in progress.
#[derive(Debug)]
pub(crate) struct Write {
    id: RequestId,
    change: Change,
    fua: bool,
    /// As the client asked.
    extent: Extent,
    /// In whole blocks; what is locked.
    aligned: Extent,
    lock: u32,
    /// What the legs are sent, but for what they zero or trim by themselves.
    data: Option<BufferSlice>,
    edges: [Option<Edge>; 2],
    edges_outstanding: u32,
    /// The legs that it was sent to.
    targets: LegSet,
    /// Operations not answered yet.
    outstanding: u32,
    failed: LegSet,
    /// How each of them failed.
    reasons: [Option<FaultReason>; LEGS_MAX],
    /// Why an edge could not be read.
    error: Option<ErrorKind>,
    result: Result<Answer, ErrorKind>,
}

impl Engine {
    /// The memory that a write of `extent` needs until its end.
    pub(crate) fn alloc_write_buffers(&mut self, extent: Extent) -> Option<WriteBuffer> {
        assert!(!extent.is_empty(), "a write has bytes");
        assert!(
            extent.end() <= self.config.size_bytes,
            "a write lies inside the array"
        );
        let block = self.block_bytes();
        let aligned = extent.aligned_out(block);
        let buffer = self.buffers.alloc(aligned.len())?;
        let scratch = match edge_blocks(extent, block).iter().flatten().count() {
            0 => None,
            count => match self.alloc_edges(count) {
                None => {
                    self.buffers.release(buffer);
                    return None;
                }
                scratch => scratch,
            },
        };
        let index = buffer.0 as usize;
        if self.unsubmitted.len() <= index {
            self.unsubmitted.resize(index + 1, None);
        }
        self.unsubmitted[index] = Some(Unsubmitted { extent, scratch });
        let data =
            whole(buffer, aligned.len()).part(extent.offset() - aligned.offset(), extent.len());
        Some(WriteBuffer { buffer, data })
    }

    /// Memory for `count` blocks at edges, a granule each.
    fn alloc_edges(&mut self, count: usize) -> Option<BufferSlice> {
        let len_bytes = (count * GRANULE_BYTES) as u64;
        Some(whole(self.buffers.alloc(len_bytes)?, len_bytes))
    }

    /// Begins a write whose bytes are in `buffer`.
    ///
    /// # Panics
    /// Where the buffer was not handed out for this extent.
    pub(crate) fn begin_write(
        &mut self,
        turn: &mut Turn<'_>,
        id: RequestId,
        extent: Extent,
        buffer: BufferId,
        fua: bool,
    ) {
        let place = self.unsubmitted.get_mut(buffer.0 as usize);
        let unsubmitted = place.and_then(Option::take);
        let Unsubmitted {
            extent: meant,
            scratch,
        } = unsubmitted.expect("a write brings a buffer from alloc_write");
        assert_eq!(meant, extent, "a write brings the buffer for its extent");
        let block = self.block_bytes();
        let aligned = extent.aligned_out(block);
        let data = whole(buffer, aligned.len());
        let mut edges = [None; 2];
        for (at, edge) in edge_blocks(extent, block).into_iter().enumerate() {
            edges[at] = edge.map(|edge| Edge {
                block: edge,
                scratch: edge_slot(scratch, at, block),
                data: data.part(edge.offset() - aligned.offset(), block),
            });
        }
        self.admit_change(
            turn,
            Write::new(id, Change::Write, fua, extent, aligned, Some(data), edges),
        );
    }

    /// Begins a write of zeros; `false` where there is no memory for it.
    pub(crate) fn begin_write_zeroes(
        &mut self,
        turn: &mut Turn<'_>,
        id: RequestId,
        extent: Extent,
        fua: bool,
        may_trim: bool,
        fast_only: bool,
    ) -> bool {
        let is_fast = |leg: &LegConfig| leg.fast_zero;
        if fast_only
            && !self
                .legs
                .all(|leg| is_fast(&leg.config) && !leg.write_zeroes_refused)
        {
            self.complete(id, Err(ErrorKind::NotSupported));
            return true;
        }
        let block = self.block_bytes();
        let blocks = edge_blocks(extent, block);
        let mut memory = None;
        let mut edges = [None; 2];
        let count = blocks.iter().flatten().count();
        if count > 0 {
            let Some(data) = self.alloc_edges(count) else {
                return false;
            };
            let Some(scratch) = self.alloc_edges(count) else {
                self.buffers.release(data.buffer);
                return false;
            };
            memory = Some(data);
            for (at, edge) in blocks.into_iter().enumerate() {
                edges[at] = edge.map(|edge| Edge {
                    block: edge,
                    scratch: edge_slot(Some(scratch), at, block),
                    data: edge_slot(memory, at, block),
                });
            }
        }
        let aligned = extent.aligned_out(block);
        let change = Change::WriteZeroes { may_trim };
        self.admit_change(
            turn,
            Write::new(id, change, fua, extent, aligned, memory, edges),
        );
        true
    }

    /// Begins a trim: of the whole blocks inside, and only where all legs read zeros afterwards.
    pub(crate) fn begin_trim(
        &mut self,
        turn: &mut Turn<'_>,
        id: RequestId,
        extent: Extent,
        fua: bool,
    ) {
        let aligned = extent.aligned_in(self.block_bytes());
        let can_trim = self
            .legs
            .all(|leg| leg.config.trim_reads_zeros && !leg.trim_refused);
        if aligned.is_empty() || !can_trim {
            return self.complete(id, Ok(Answer::Done));
        }
        self.admit_change(
            turn,
            Write::new(id, Change::Trim, fua, aligned, aligned, None, [None; 2]),
        );
    }

    fn admit_change(&mut self, turn: &mut Turn<'_>, write: Write) {
        self.change_admitted();
        let aligned = write.aligned;
        let index = self.writes.insert(write);
        let (lock, is_held) = self.locks.acquire(aligned, LockOwner::Write(index));
        self.writes[index].lock = lock;
        if is_held {
            self.lock_granted(turn, LockOwner::Write(index));
        }
    }

    /// A lock is held from now on.
    fn lock_granted(&mut self, turn: &mut Turn<'_>, owner: LockOwner) {
        let index = match owner {
            LockOwner::Write(index) => index,
            LockOwner::Repair(_) => unreachable!("a repair never waits for a lock"),
        };
        self.taint_statuses(self.writes[index].aligned);
        let edges = self.writes[index].edges;
        let count = edges.iter().flatten().count();
        if count == 0 {
            if self.may_write(index) {
                self.start_write(turn, index);
            }
            return;
        }
        self.writes[index].edges_outstanding = u32::try_from(count).expect("at most two");
        let own_lock = Some(self.writes[index].lock);
        for edge in edges.into_iter().flatten() {
            let piece = self.insert_piece(Piece {
                owner: PieceOwner::Edge(index),
                client: ClientId::default(),
                stream: StreamId::default(),
                extent: edge.block,
                memory: edge.scratch,
                tried: LegSet::EMPTY,
                own_lock,
                error: ErrorKind::Io,
                serial: 0,
            });
            self.place(turn, piece);
        }
    }

    /// The block at `extent` is read into other memory from now on; the old one may be written to
    /// by a silent leg for as long as its operation holds it.
    pub(crate) fn edge_moved(&mut self, index: u32, extent: Extent, memory: BufferSlice) {
        // The other edge may share the old scratch, so the write holds on to it through that edge.
        let edges = &mut self.writes[index].edges;
        let edge = edges.iter_mut().flatten().find(|edge| edge.block == extent);
        let edge = edge.expect("a write has the edge that is read for it");
        let old = std::mem::replace(&mut edge.scratch, memory).buffer;
        if !edges
            .iter()
            .flatten()
            .any(|edge| edge.scratch.buffer == old)
        {
            self.release_buffer(old);
        }
    }

    /// An edge has been read, or no leg could.
    pub(crate) fn edge_ended(
        &mut self,
        turn: &mut Turn<'_>,
        index: u32,
        result: Result<(), ErrorKind>,
    ) {
        let write = &mut self.writes[index];
        write.edges_outstanding -= 1;
        if let Err(kind) = result {
            write.error = Some(kind);
        }
        if write.edges_outstanding > 0 {
            return;
        }
        let error = write.error;
        if error.is_none() {
            self.merge_edges(index);
        }
        if let Some(kind) = error {
            // No leg has changed.
            self.writes[index].result = Err(kind);
            return self.end_write(turn, index);
        }
        if self.may_write(index) {
            self.start_write(turn, index);
        }
    }

    /// Completes the blocks at the edges from what the legs hold.
    fn merge_edges(&mut self, index: u32) {
        let write = &self.writes[index];
        let is_zeroes = write.change != Change::Write;
        let extent = write.extent;
        for edge in write.edges.into_iter().flatten() {
            let block = edge.block;
            let inside = block.intersection(extent).expect("an edge is touched");
            let outside = [
                Extent::from_range(block.offset(), inside.offset()),
                Extent::from_range(inside.end(), block.end()),
            ];
            for part in outside.into_iter().filter(|part| !part.is_empty()) {
                let at = part.offset() - block.offset();
                let step = BufferStep::Copy {
                    from: edge.scratch.part(at, part.len()),
                    to: edge.data.part(at, part.len()),
                };
                self.outputs.push_back(crate::Output::Buffer(step));
            }
            if is_zeroes {
                let at = edge
                    .data
                    .part(inside.offset() - block.offset(), inside.len());
                self.outputs
                    .push_back(crate::Output::Buffer(BufferStep::Zero { at }));
            }
        }
    }

    fn release_scratch(&mut self, index: u32) {
        let [first, second] = self.writes[index].edges;
        let buffers = [first, second].map(|edge| edge.map(|edge| edge.scratch.buffer));
        if let Some(buffer) = buffers[0] {
            self.release_buffer(buffer);
        }
        if let Some(buffer) = buffers[1]
            && buffers[0] != Some(buffer)
        {
            self.release_buffer(buffer);
        }
    }

    /// Sends a change to all legs in sync. The record is dirty, durably.
    pub(crate) fn start_write(&mut self, turn: &Turn<'_>, index: u32) {
        let targets = self.legs.in_sync;
        let write = &mut self.writes[index];
        write.targets = targets;
        let (change, fua, aligned) = (write.change, write.fua, write.aligned);
        let (data, edges) = (write.data, write.edges);
        for leg in targets {
            if change == Change::Write {
                self.send_write(
                    turn,
                    index,
                    leg,
                    aligned,
                    data.expect("a write has data"),
                    fua,
                );
                continue;
            }
            let mut inner = aligned;
            for edge in edges.into_iter().flatten() {
                self.send_write(turn, index, leg, edge.block, edge.data, fua);
                inner = if edge.block.offset() == inner.offset() {
                    Extent::from_range(edge.block.end(), inner.end())
                } else {
                    Extent::from_range(inner.offset(), edge.block.offset())
                };
            }
            if !inner.is_empty() {
                self.writes[index].outstanding += 1;
                self.sweep(turn, index, leg, inner, change.best_way());
            }
        }
    }

    fn send_write(
        &mut self,
        turn: &Turn<'_>,
        index: u32,
        leg: LegId,
        extent: Extent,
        data: BufferSlice,
        fua: bool,
    ) {
        self.writes[index].outstanding += 1;
        let new = NewOp {
            owner: OpOwner::Write(index),
            kind: OpKind::Write,
            extent,
            memory: Some(data),
            fua: fua && self.legs.legs[leg.index()].config.fua,
            may_trim: false,
        };
        self.assign(turn, leg, new);
    }

    /// Zeroes or trims the first part of what is left of `extent` on a leg: in this way, or in the
    /// next best one that the leg has not refused.
    fn sweep(&mut self, turn: &Turn<'_>, index: u32, leg: LegId, extent: Extent, way: OpKind) {
        let write = &self.writes[index];
        let slot = &self.legs.legs[leg.index()];
        let can_trim = slot.config.trim_reads_zeros && !slot.trim_refused;
        let way = match way {
            OpKind::Trim if can_trim => OpKind::Trim,
            OpKind::Trim | OpKind::WriteZeroes if !slot.write_zeroes_refused => OpKind::WriteZeroes,
            OpKind::Trim
            | OpKind::WriteZeroes
            | OpKind::Write
            | OpKind::Read
            | OpKind::Flush
            | OpKind::BlockStatus => OpKind::Write,
        };
        let may_trim = write.change != Change::WriteZeroes { may_trim: false };
        let fua = write.fua && slot.config.fua;
        let limit = if way == OpKind::Write {
            ZEROS_BYTES
        } else {
            SWEEP_MAX_BYTES
        };
        let step = extent.split_at(extent.len().min(limit)).0;
        let memory = (way == OpKind::Write).then(|| self.zeros().part(0, step.len()));
        let new = NewOp {
            owner: OpOwner::Sweep {
                write: index,
                end: extent.end(),
                way,
            },
            kind: way,
            extent: step,
            memory,
            fua,
            may_trim,
        };
        self.assign(turn, leg, new);
    }

    /// The zeros that legs are sent which cannot zero by themselves.
    fn zeros(&mut self) -> BufferSlice {
        if let Some(zeros) = self.zeros {
            return zeros;
        }
        let at = self.zeros_reserved;
        self.outputs
            .push_back(crate::Output::Buffer(BufferStep::Zero { at }));
        self.zeros = Some(at);
        at
    }

    /// A leg has answered one operation of a change.
    pub(crate) fn write_answered(
        &mut self,
        turn: &mut Turn<'_>,
        op: &Op,
        result: Result<(), ErrorKind>,
    ) {
        let index = match op.owner {
            OpOwner::Write(index) | OpOwner::WriteFlush(index) => index,
            OpOwner::Sweep { write, .. } => write,
            OpOwner::Piece(_)
            | OpOwner::Flush
            | OpOwner::Status(_)
            | OpOwner::Repair(_)
            | OpOwner::Ghost => unreachable!("only operations of changes come here"),
        };
        let is_done = match result {
            Ok(()) => !self.go_on_writing(turn, op, index),
            Err(kind) => !self.write_otherwise(turn, op, index, kind),
        };
        if is_done {
            self.write_op_ended(turn, index);
        }
    }

    /// After one operation has been done: the next one on the same leg, if there is one.
    fn go_on_writing(&mut self, turn: &Turn<'_>, op: &Op, index: u32) -> bool {
        if let OpOwner::Sweep { end, way, .. } = op.owner
            && op.extent.end() < end
        {
            let rest = Extent::from_range(op.extent.end(), end);
            self.sweep(turn, index, op.leg, rest, way);
            return true;
        }
        let is_durable = !self.writes[index].fua || op.fua || op.kind == OpKind::Flush;
        if !is_durable {
            self.assign(turn, op.leg, NewOp::flush(OpOwner::WriteFlush(index)));
        }
        !is_durable
    }

    /// After one operation has failed: the same in another way, if there is one.
    fn write_otherwise(&mut self, turn: &Turn<'_>, op: &Op, index: u32, kind: ErrorKind) -> bool {
        let slot = &mut self.legs.legs[op.leg.index()];
        let is_refused = kind == ErrorKind::NotSupported;
        match (op.kind, op.owner) {
            // Only a write that fails is a fault: how zeros get there is the leg's own business.
            (OpKind::Trim | OpKind::WriteZeroes, OpOwner::Sweep { end, .. }) => {
                slot.trim_refused |= is_refused && op.kind == OpKind::Trim;
                slot.write_zeroes_refused |= is_refused && op.kind == OpKind::WriteZeroes;
                let rest = Extent::from_range(op.extent.offset(), end);
                let way = if op.kind == OpKind::Trim {
                    OpKind::WriteZeroes
                } else {
                    OpKind::Write
                };
                self.sweep(turn, index, op.leg, rest, way);
                true
            }
            (OpKind::Write, _) if is_refused && op.fua => {
                slot.config.fua = false;
                let new = NewOp {
                    owner: op.owner,
                    kind: op.kind,
                    extent: op.extent,
                    memory: op.memory,
                    fua: false,
                    may_trim: op.may_trim,
                };
                self.assign(turn, op.leg, new);
                true
            }
            // A leg that cannot flush has nothing to.
            (OpKind::Flush, _) if is_refused => false,
            _ => {
                self.writes[index].note_failure(op.leg, op.kind, kind);
                let lock = self.writes[index].lock;
                self.locks.note_failed(lock, op.leg);
                false
            }
        }
    }

    /// One operation of a change has ended, or was lost with its leg.
    pub(crate) fn write_op_ended(&mut self, turn: &mut Turn<'_>, index: u32) {
        let write = &mut self.writes[index];
        write.outstanding -= 1;
        if write.outstanding == 0 {
            self.judge_write(turn, index);
        }
    }

    /// All legs have answered: those that failed are out, unless all did.
    fn judge_write(&mut self, turn: &mut Turn<'_>, index: u32) {
        let write = &self.writes[index];
        let aligned = write.aligned;
        let failed = write.failed.intersection(self.legs.in_sync);
        let done = self.legs.in_sync.difference(failed);
        assert!(
            done.difference(write.targets).is_empty(),
            "no leg comes in sync while the engine lives"
        );
        if done.is_empty() {
            self.judge_failed_everywhere(turn, index, failed);
        } else {
            for leg in failed {
                let reason = self.writes[index].reason(leg);
                self.fault_leg(turn, leg, reason);
            }
            self.divergence.remove(aligned);
        }
        self.end_write(turn, index);
    }

    /// No leg has the bytes. Legs that are full are not to blame, and may differ from now on; of
    /// others one is kept: the one that reads have seen, or one that is only full, or the first.
    fn judge_failed_everywhere(&mut self, turn: &Turn<'_>, index: u32, failed: LegSet) {
        let write = &self.writes[index];
        let (aligned, lock) = (write.aligned, write.lock);
        let full: LegSet = failed.iter().filter(|leg| write.is_full(*leg)).collect();
        let seen = self.locks.pinned(lock).filter(|leg| failed.contains(*leg));
        let keeper = seen
            .or_else(|| full.difference(self.legs.write_mostly).lowest())
            .or_else(|| full.lowest())
            .or_else(|| self.legs.readable(LegSet::EMPTY).lowest())
            .expect("a leg stays in sync for ever");
        let kind = match write.reason(keeper) {
            FaultReason::WriteFailed(kind) | FaultReason::FlushFailed(kind) => kind,
            FaultReason::ReadFailed(_)
            | FaultReason::Silent
            | FaultReason::Short
            | FaultReason::ByHand => unreachable!("a write failed"),
        };
        self.writes[index].result = Err(kind);
        if matches!(
            self.writes[index].reason(keeper),
            FaultReason::FlushFailed(_)
        ) {
            self.never_clean();
        }
        let mut kept = LegSet::from_iter([keeper]);
        if full.contains(keeper) {
            kept = full;
        }
        for leg in failed.difference(kept) {
            let reason = self.writes[index].reason(leg);
            self.fault_leg(turn, leg, reason);
        }
        if kept.count() > 1 {
            self.divergence.add(aligned, keeper);
        } else if full.is_empty() {
            let reason = self.writes[index].reason(keeper);
            self.keep_last(keeper, reason);
        }
    }

    /// Releases the lock, and answers as soon as what is known of the legs is durable.
    fn end_write(&mut self, turn: &mut Turn<'_>, index: u32) {
        let lock = self.writes[index].lock;
        // Not before: the shell carries the merge out after the input that asked for it.
        self.release_scratch(index);
        if let Some(data) = self.writes[index].data {
            self.release_buffer(data.buffer);
        }
        self.change_ended(turn);
        if self.may_answer_write(index) {
            self.answer_write(index);
        }
        self.unlock(turn, lock);
    }

    /// Answers the client.
    pub(crate) fn answer_write(&mut self, index: u32) {
        let write = self.writes.remove(index);
        self.complete(write.id, write.result);
    }

    /// Gives a lock back and lets go on what waited for it.
    pub(crate) fn unlock(&mut self, turn: &mut Turn<'_>, lock: u32) {
        let released = self.locks.release(lock);
        for piece in released.readers {
            self.place(turn, piece);
        }
        for owner in released.granted {
            self.lock_granted(turn, owner);
        }
    }
}

impl Write {
    const fn new(
        id: RequestId,
        change: Change,
        fua: bool,
        extent: Extent,
        aligned: Extent,
        data: Option<BufferSlice>,
        edges: [Option<Edge>; 2],
    ) -> Self {
        Self {
            id,
            change,
            fua,
            extent,
            aligned,
            lock: 0,
            data,
            edges,
            edges_outstanding: 0,
            targets: LegSet::EMPTY,
            outstanding: 0,
            failed: LegSet::EMPTY,
            reasons: [None; LEGS_MAX],
            error: None,
            result: Ok(Answer::Done),
        }
    }

    fn note_failure(&mut self, leg: LegId, op: OpKind, kind: ErrorKind) {
        self.failed.insert(leg);
        let reason = match op {
            OpKind::Flush => FaultReason::FlushFailed(kind),
            OpKind::Read
            | OpKind::Write
            | OpKind::Trim
            | OpKind::WriteZeroes
            | OpKind::BlockStatus => FaultReason::WriteFailed(kind),
        };
        self.reasons[leg.index()] = Some(reason);
    }

    fn reason(&self, leg: LegId) -> FaultReason {
        self.reasons[leg.index()].expect("a leg that failed has a reason")
    }

    /// Whether a leg failed because it is full, which is no fault of it.
    fn is_full(&self, leg: LegId) -> bool {
        self.reason(leg) == FaultReason::WriteFailed(ErrorKind::NoSpace)
    }
}

/// The blocks at the ends of an extent that it covers in part; the second only where it is another.
fn edge_blocks(extent: Extent, block: u64) -> [Option<Extent>; 2] {
    let aligned = extent.aligned_out(block);
    let first = Extent::new(aligned.offset(), block);
    let last = Extent::new(aligned.end() - block, block);
    let is_edge = |edge: &Extent| !extent.contains(*edge);
    match (Some(first).filter(is_edge), Some(last).filter(is_edge)) {
        (None, last) => [last, None],
        (first, last) => [first, last.filter(|last| Some(*last) != first)],
    }
}

/// The slot of edge number `at` in memory with a granule for each.
fn edge_slot(memory: Option<BufferSlice>, at: usize, block: u64) -> BufferSlice {
    let memory = memory.expect("a change with edges has memory for them");
    memory.part((at * GRANULE_BYTES) as u64, block)
}

/// A buffer from its beginning on.
fn whole(buffer: BufferId, len_bytes: u64) -> BufferSlice {
    BufferSlice {
        buffer,
        offset_bytes: 0,
        len_bytes: u32::try_from(len_bytes).expect("buffers are shorter than 4 GiB"),
    }
}

/// Where the zeros lie that legs are sent which cannot zero by themselves.
pub(crate) fn zeros_slice(buffer: BufferId) -> BufferSlice {
    whole(buffer, ZEROS_BYTES)
}

#[cfg(test)]
mod tests {
    use heliostat_types::Extent;

    use super::edge_blocks;

    #[test]
    fn edges_are_the_blocks_covered_in_part() {
        let block = |n: u64| Some(Extent::new(n * 512, 512));
        assert_eq!(edge_blocks(Extent::new(512, 1024), 512), [None, None]);
        assert_eq!(edge_blocks(Extent::new(1, 10), 512), [block(0), None]);
        assert_eq!(edge_blocks(Extent::new(1, 511), 512), [block(0), None]);
        assert_eq!(edge_blocks(Extent::new(1, 1000), 512), [block(0), block(1)]);
        assert_eq!(edge_blocks(Extent::new(512, 600), 512), [block(2), None]);
        assert_eq!(edge_blocks(Extent::new(500, 1036), 512), [block(0), None]);
    }
}
