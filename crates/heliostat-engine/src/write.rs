//! The part of a change (see [`crate::change`]) that lies in one chunk.
//!
//! The life of each: its block-aligned extent is locked; where its ends are not aligned, the blocks
//! at the edges are read once and merged; the record says *dirty* durably; the same bytes go to all
//! holders of the chunk that are in sync; when the last one has answered, those that failed are
//! taken out and the lock is released; when their faults are durable, the write is answered.
//!
//! A leg that failed stays in where other bytes depend on it alone. Then the write is answered with
//! its error, and the range is read from one leg (see [`crate::divergence`]) until it is written
//! again: what a leg missed may not be lost from what was answered well.
//!
//! A write's data lies in one buffer that nobody writes to once the legs have it. The edges are
//! read into other memory, because a leg that fell silent may still write there later.

use heliostat_types::{ErrorKind, Extent, FlowId, LEGS_MAX, LegId, LegSet, OpKind};

use crate::api::{Answer, Event, FaultReason, Output};
use crate::asked::AskedId;
use crate::buffer::{BufferId, BufferSlice, BufferStep};
use crate::change::{Change, ChangeKind, Edge, scratch_of};
use crate::divergence::DivergencePin;
use crate::engine::{Engine, Turn};
use crate::legs::{NewOp, Op, OpOwner};
use crate::locks::LockOwner;
use crate::needed::Needed;
use crate::read::{Piece, PieceOwner};
use crate::write_behind::Lead;

/// Who waits for a write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WriteOwner {
    /// A client: the write is all that it asked for.
    Client(AskedId),
    /// A change with several parts.
    Change(u32),
}

/// A write in progress.
#[derive(Debug)]
pub(crate) struct Write {
    owner: WriteOwner,
    /// On whose account.
    pub(crate) flow: FlowId,
    pub(crate) kind: ChangeKind,
    pub(crate) fua: bool,
    /// As the client asked.
    extent: Extent,
    /// In whole blocks; what is locked. In one chunk.
    pub(crate) aligned: Extent,
    /// The legs that held it when it was sent.
    holders: LegSet,
    pub(crate) lock: u32,
    /// What the legs are sent, but for what they zero or trim by themselves.
    data: Option<BufferSlice>,
    edges: [Option<Edge>; 2],
    edges_outstanding: u32,
    /// The legs that it was sent to.
    pub(crate) targets: LegSet,
    /// Of them, those that have not ended it.
    pub(crate) late: LegSet,
    /// Operations not answered yet.
    outstanding: u32,
    /// Whether it is answered before its end.
    pub(crate) lead: Lead,
    pub(crate) failed: LegSet,
    /// What legs have failed in spite of having done the rest, in their own addresses.
    pub(crate) bad: Vec<(LegId, Extent)>,
    /// How each of them failed.
    reasons: [Option<FaultReason>; LEGS_MAX],
    /// The record that is durable before the client hears of it, besides that of who is out.
    pub(crate) told_by: u64,
    /// Why an edge could not be read.
    error: Option<ErrorKind>,
    result: Result<Answer, ErrorKind>,
}

impl Engine {
    pub(crate) fn admit_write(&mut self, turn: &mut Turn<'_>, write: Write) {
        self.change_admitted();
        let aligned = write.aligned;
        self.forget_prefetched(aligned);
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
            LockOwner::Background(window) => return self.window_granted(turn, window),
            LockOwner::Moved(at) => return self.moved_granted(turn, at),
            LockOwner::Repair(_) => unreachable!("a repair never waits for a lock"),
        };
        let aligned = self.writes[index].aligned;
        self.bytes_change(aligned);
        self.intend(turn, aligned);
        let edges = self.writes[index].edges;
        let count = edges.iter().flatten().count();
        if count == 0 {
            return self.begin_if_durable(turn, index);
        }
        self.writes[index].edges_outstanding = u32::try_from(count).expect("at most two");
        let own_lock = Some(self.writes[index].lock);
        let holders = self.config.map.holders(aligned.offset());
        if self.writes[index].has_edge_in(&self.needed) {
            self.make_durable(index);
        }
        for edge in edges.into_iter().flatten() {
            let owner = PieceOwner::Edge(index);
            let piece = self.insert_piece(Piece {
                flow: self.writes[index].flow,
                own_lock,
                ..Piece::new(owner, edge.block, holders, edge.scratch)
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
        self.begin_if_durable(turn, index);
    }

    /// What is beside a write in its blocks gets from one leg to others that may hold something
    /// else there. They are read as soon as that leg is lost, and then the next power cut must not
    /// bring anything else.
    pub(crate) fn make_durable(&mut self, index: u32) {
        self.writes[index].fua = true;
    }

    /// Sends a write, or waits until it may be sent.
    pub(crate) fn begin_if_durable(&mut self, turn: &Turn<'_>, index: u32) {
        if self.may_write(index, self.writes[index].aligned) {
            self.start_write(turn, index);
        }
    }

    /// A write cannot be begun: no leg has changed.
    pub(crate) fn fail_write(&mut self, turn: &mut Turn<'_>, index: u32, kind: ErrorKind) {
        self.writes[index].result = Err(kind);
        self.end_write(turn, index);
    }

    /// A write has ended, but what is known of the legs since is not durable.
    pub(crate) fn fail_answer(&mut self, turn: &mut Turn<'_>, index: u32, kind: ErrorKind) {
        self.writes[index].fail(kind);
        self.answer_write(turn, index);
    }

    /// Completes the blocks at the edges from what the legs hold.
    fn merge_edges(&mut self, index: u32) {
        let write = &self.writes[index];
        let is_zeroes = write.kind != ChangeKind::Write;
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
                self.outputs.push_back(Output::Buffer(step));
            }
            if is_zeroes {
                let at = edge
                    .data
                    .part(inside.offset() - block.offset(), inside.len());
                self.outputs
                    .push_back(Output::Buffer(BufferStep::Zero { at }));
            }
        }
    }

    /// Sends a write to all holders that are not out. The record is dirty, durably.
    fn start_write(&mut self, turn: &Turn<'_>, index: u32) {
        let write = &mut self.writes[index];
        let holders = self.config.map.holders(write.aligned.offset());
        let targets = self.legs.writable().intersection(holders);
        write.holders = holders;
        write.sent_to(targets);
        let (kind, fua, aligned) = (write.kind, write.fua, write.aligned);
        let (data, edges) = (write.data, write.edges);
        for leg in targets {
            if kind == ChangeKind::Write {
                let data = data.expect("a write has data");
                self.send_write(turn, index, leg, aligned, data, fua);
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
                let inner = self.config.map.on_leg(leg, inner);
                self.sweep(turn, index, leg, inner, kind.best_way());
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
            flow: self.writes[index].flow,
            kind: OpKind::Write,
            extent: self.config.map.on_leg(leg, extent),
            memory: Some(data),
            fua: fua && self.legs.legs[leg.index()].config.fua,
            may_trim: false,
        };
        self.assign(turn, leg, new);
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
            | OpOwner::Hedge(_)
            | OpOwner::Prefetch(_)
            | OpOwner::Flush
            | OpOwner::Narrow(_)
            | OpOwner::Status { .. }
            | OpOwner::Repair(_)
            | OpOwner::Metadata
            | OpOwner::Background(_)
            | OpOwner::Rejoin(_)
            | OpOwner::Checkpoint(_)
            | OpOwner::Moved(_)
            | OpOwner::Ghost { .. } => unreachable!("only operations of changes come here"),
        };
        let is_done = match result {
            Ok(()) => !self.go_on_writing(turn, op, index),
            Err(kind) => !self.write_otherwise(turn, op, index, kind),
        };
        if is_done {
            self.write_op_ended(turn, index, op.leg);
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
            self.assign(
                turn,
                op.leg,
                NewOp::flush(OpOwner::WriteFlush(index), op.flow),
            );
        }
        !is_durable
    }

    /// After one operation has failed: the same in another way, if there is one.
    fn write_otherwise(
        &mut self,
        turn: &mut Turn<'_>,
        op: &Op,
        index: u32,
        kind: ErrorKind,
    ) -> bool {
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
                    flow: op.flow,
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
            (OpKind::Flush, _) => {
                self.note_flush_failed(op.leg, kind);
                false
            }
            _ if self.begin_narrowing(turn, index, op, kind) => true,
            _ => {
                let reason = FaultReason::WriteFailed(kind);
                self.note_failure(index, op.leg, reason);
                false
            }
        }
    }

    pub(crate) fn note_failure(&mut self, index: u32, leg: LegId, reason: FaultReason) {
        let write = &mut self.writes[index];
        write.note_failure(leg, reason);
        self.locks.note_failed(write.lock, leg);
    }

    /// A leg has failed a part of a write: what it holds there is not to be read beside the write.
    pub(crate) fn write_failed_in_part(&mut self, index: u32, leg: LegId) {
        self.locks.note_failed(self.writes[index].lock, leg);
    }

    /// An operation of a write was done in parts, of which a leg has failed these.
    pub(crate) fn narrowed(&mut self, turn: &mut Turn<'_>, op: &Op, index: u32, bad: Vec<Extent>) {
        let bad = bad.into_iter().map(|extent| (op.leg, extent));
        let write = &mut self.writes[index];
        write.bad.extend(bad);
        let has_failed = write.failed.contains(op.leg);
        if has_failed || !self.go_on_writing(turn, op, index) {
            self.write_op_ended(turn, index, op.leg);
        }
    }

    /// A leg has failed a flush. What it had not made durable by then may be lost, and a later
    /// flush that ends well does not say so: no flush round counts it as good any more, nor does
    /// any write that is to be durable and may have been there, though it may have come with FUA.
    pub(crate) fn note_flush_failed(&mut self, leg: LegId, kind: ErrorKind) {
        self.legs.legs[leg.index()].flush_failed = true;
        self.note_commit_flush_failed(leg, kind);
        let writes = self.writes.iter();
        let concerned = writes
            .filter(|(_, write)| write.fua && write.outstanding > 0 && write.targets.contains(leg));
        for index in concerned.map(|(index, _)| index).collect::<Vec<_>>() {
            self.note_failure(index, leg, FaultReason::FlushFailed(kind));
        }
    }

    /// One operation of a change has ended, or was lost with its leg.
    pub(crate) fn write_op_ended(&mut self, turn: &mut Turn<'_>, index: u32, leg: LegId) {
        let write = &mut self.writes[index];
        write.outstanding -= 1;
        write.leg_has_ended(leg);
        if write.outstanding == 0 {
            self.judge_write(turn, index);
        } else {
            self.answer_early(turn, index);
            self.fault_leaving(turn);
        }
    }

    /// A leg is there again: what writes under way have sent it earlier is not on it.
    pub(crate) fn forget_target(&mut self, leg: LegId) {
        for write in self.writes.iter_mut() {
            write.targets.remove(leg);
            write.failed.remove(leg);
            write.bad.retain(|(of, _)| *of != leg);
            write.reasons[leg.index()] = None;
        }
    }

    /// All legs have answered: those that failed are out, as far as they can be.
    fn judge_write(&mut self, turn: &mut Turn<'_>, index: u32) {
        self.keep_leaving(index);
        self.log_bad_blocks(index);
        let write = &self.writes[index];
        let aligned = write.aligned;
        let here = self.legs.in_sync.intersection(write.holders);
        let failed = write.failed.intersection(self.legs.writable());
        let done = here.difference(failed);
        assert!(
            done.difference(write.targets).is_empty(),
            "a leg that comes in sync has what was written meanwhile"
        );
        if failed.is_empty() {
            self.legs.is_full_told = false;
            self.range_is_equal(aligned);
        } else {
            self.judge_failed(turn, index, failed, done);
        }
        if self.fail_if_lost(index) && self.writes[index].is_answered() {
            // As in `keep_failed`.
            self.never_clean();
        }
        self.end_write(turn, index);
    }

    /// Some legs have failed a write, and others are `done`.
    fn judge_failed(&mut self, turn: &Turn<'_>, index: u32, failed: LegSet, done: LegSet) {
        let verdict = self.verdict(index, failed, done);
        for leg in verdict.out {
            let reason = self.writes[index].reason(leg);
            self.fault_leg(turn, leg, reason);
        }
        let kept = failed.difference(verdict.out);
        let kept = kept.intersection(self.legs.in_sync);
        if kept.is_empty() {
            self.range_is_equal(self.writes[index].aligned);
        } else {
            self.keep_failed(index, kept, done, verdict.keeper);
        }
    }

    /// Which of the legs that `failed` are to go. Where none is `done`, legs that are full are not
    /// to blame, and of others one is kept: the one that reads have seen, or one that is only full,
    /// or the first; not one that a flush has failed on and that can be spared, because it may have
    /// lost more than this. A leg that is being rebuilt is no reason to keep another, and is itself
    /// kept only with others that are full.
    fn verdict(&self, index: u32, failed: LegSet, done: LegSet) -> Verdict {
        let write = &self.writes[index];
        let full: LegSet = failed.iter().filter(|leg| write.is_full(*leg)).collect();
        let readable = full.intersection(self.legs.in_sync);
        let seen = self.seen(index);
        let keeper = if done.is_empty() {
            let lossy = self.lossy(failed);
            let readable = readable.difference(lossy);
            let keeper = seen.filter(|leg| failed.difference(lossy).contains(*leg));
            keeper
                .or_else(|| readable.difference(self.legs.write_mostly).lowest())
                .or_else(|| readable.lowest())
                .or_else(|| self.legs.readable(write.holders, lossy).lowest())
        } else {
            None
        };
        let blameless = match keeper {
            None => LegSet::EMPTY,
            Some(keeper) if full.contains(keeper) => full,
            Some(keeper) => LegSet::from_iter([keeper]),
        };
        let to_blame = failed.difference(blameless);
        Verdict {
            out: self
                .spare(to_blame)
                .union(to_blame.intersection(self.legs.rebuilding)),
            keeper,
        }
    }

    /// Of the legs that failed a write, those that may have lost what was answered before, where
    /// another one has not, and every byte can do without them.
    fn lossy(&self, failed: LegSet) -> LegSet {
        let in_sync = failed.intersection(self.legs.in_sync);
        let lossy = in_sync.iter().filter(|leg| {
            let has_lost = self.legs.legs[leg.index()].flush_failed;
            has_lost && !self.spare(LegSet::from_iter([*leg])).is_empty()
        });
        let lossy: LegSet = lossy.collect();
        if lossy == in_sync {
            return LegSet::EMPTY;
        }
        lossy
    }

    /// The leg that reads beside a write have seen, or reads before it where legs differed already.
    fn seen(&self, index: u32) -> Option<LegId> {
        let write = &self.writes[index];
        let beside = self.locks.pinned(write.lock);
        beside.or_else(|| match self.divergence_of(write.aligned) {
            DivergencePin::Leg(leg) => Some(leg),
            DivergencePin::None | DivergencePin::Cut(_) => None,
        })
    }

    /// These legs have failed a write and stay: the client hears of it, and reads of the range go
    /// to one leg.
    fn keep_failed(&mut self, index: u32, kept: LegSet, done: LegSet, keeper: Option<LegId>) {
        let write = &self.writes[index];
        let aligned = write.aligned;
        let told = keeper
            .or_else(|| kept.lowest())
            .expect("at least one leg is kept");
        let reasons: Vec<_> = kept.iter().map(|leg| (leg, write.reason(leg))).collect();
        let kind = match write.reason(told) {
            FaultReason::WriteFailed(kind) | FaultReason::FlushFailed(kind) => kind,
            FaultReason::ReadFailed(_)
            | FaultReason::Silent
            | FaultReason::Short
            | FaultReason::Lost
            | FaultReason::ByHand => unreachable!("a write failed"),
        };
        self.writes[index].result = Err(kind);
        if self.writes[index].is_answered() {
            // The client was told that it is done: it hears of this at its next flush.
            self.never_clean();
        }
        let left = done.union(kept);
        let rebuilding = self.writes[index]
            .targets
            .intersection(self.legs.rebuilding);
        if left.union(rebuilding).count() > 1 {
            let seen = self.seen(index).filter(|leg| left.contains(*leg));
            let pin = seen
                .or(keeper)
                .or_else(|| done.difference(self.legs.write_mostly).lowest())
                .or_else(|| done.lowest());
            // What differed already keeps the pin that its reads have seen.
            self.pin_needed(aligned);
            self.divergence
                .add(aligned, pin.expect("a leg is left, done or kept"));
            self.writes[index].told_by = self.handover_on_its_way().unwrap_or(0);
        }
        for (leg, reason) in reasons {
            if let FaultReason::FlushFailed(_) = reason {
                self.never_clean();
            }
            if reason != FaultReason::WriteFailed(ErrorKind::NoSpace) || !done.is_empty() {
                self.keep_last(leg, reason);
            } else if !self.legs.is_full_told {
                self.legs.is_full_told = true;
                let event = Event::NoSpace { extent: aligned };
                self.outputs.push_back(Output::Event(event));
            }
        }
    }

    /// Releases the lock, and answers as soon as what is known of the legs is durable.
    fn end_write(&mut self, turn: &mut Turn<'_>, index: u32) {
        let lock = self.writes[index].lock;
        // Not before: the shell carries the merge out after the input that asked for it.
        let write = &self.writes[index];
        let (data, edges, aligned) = (write.data, write.edges, write.aligned);
        self.release_shares(data, &edges);
        self.intent.end(aligned);
        self.change_ended(turn);
        let was_behind = self.leave_behind(index);
        if !was_behind && self.may_answer_write(index) {
            self.answer_write(turn, index);
        }
        self.unlock(turn, lock);
        if was_behind {
            self.room_behind(turn);
        }
    }

    /// Answers whoever waits for a write, which has ended or is behind.
    pub(crate) fn answer_write(&mut self, turn: &mut Turn<'_>, index: u32) {
        // The leg that alone could write a block may have failed since.
        self.fail_if_lost(index);
        let write = &mut self.writes[index];
        let result = std::mem::replace(&mut write.result, Ok(Answer::Done));
        let owner = write.owner;
        if let Lead::Behind { is_answered, .. } = &mut write.lead {
            *is_answered = true;
        } else {
            self.writes.remove(index);
        }
        match owner {
            WriteOwner::Client(id) => self.complete(id, result),
            WriteOwner::Change(change) => self.part_ended(turn, change, result),
        }
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

/// What is to become of legs that failed a write.
struct Verdict {
    /// To be taken out.
    out: LegSet,
    /// Where no leg has the bytes, the one that is read.
    keeper: Option<LegId>,
}

impl Write {
    /// All of a change that lies in one chunk.
    pub(crate) const fn whole(change: &Change) -> Self {
        Self {
            owner: WriteOwner::Client(change.id),
            flow: change.flow,
            kind: change.kind,
            fua: change.fua,
            extent: change.extent,
            aligned: change.aligned,
            holders: LegSet::EMPTY,
            lock: 0,
            data: change.data,
            edges: change.edges,
            edges_outstanding: 0,
            targets: LegSet::EMPTY,
            late: LegSet::EMPTY,
            outstanding: 0,
            lead: Lead::None,
            failed: LegSet::EMPTY,
            bad: Vec::new(),
            reasons: [None; LEGS_MAX],
            told_by: 0,
            error: None,
            result: Ok(Answer::Done),
        }
    }

    /// The part `aligned` of the change number `index`.
    pub(crate) fn part(index: u32, change: &Change, aligned: Extent) -> Self {
        let edges = change
            .edges
            .map(|edge| edge.filter(|edge| aligned.contains(edge.block)));
        let from = aligned.offset() - change.aligned.offset();
        let data = match change.kind {
            ChangeKind::Write => change.data.map(|data| data.part(from, aligned.len())),
            ChangeKind::WriteZeroes { .. } | ChangeKind::Trim => {
                change.data.filter(|_| edges.iter().any(Option::is_some))
            }
        };
        let inside = change.extent.intersection(aligned);
        Self {
            owner: WriteOwner::Change(index),
            extent: inside.expect("every block is touched"),
            aligned,
            data,
            edges,
            ..Self::whole(change)
        }
    }

    /// The buffers that it has a share in, each once.
    pub(crate) fn buffers(&self) -> [Option<BufferId>; 3] {
        let [first, second] = scratch_of(&self.edges);
        [self.data.map(|data| data.buffer), first, second]
    }

    /// Whether what it does not cover of a block lies where legs may differ.
    pub(crate) fn has_edge_in(&self, needed: &Needed) -> bool {
        let mut edges = self.edges.iter().flatten();
        edges.any(|edge| needed.overlaps(edge.block))
    }

    /// It has failed, if it had not before.
    pub(crate) fn fail(&mut self, kind: ErrorKind) {
        let result = std::mem::replace(&mut self.result, Ok(Answer::Done));
        self.result = result.and(Err(kind));
    }

    /// A leg has failed a step of it. What is worst is what counts: a leg that is full has done
    /// nothing wrong, and what a flush has lost cannot be written again.
    fn note_failure(&mut self, leg: LegId, reason: FaultReason) {
        self.failed.insert(leg);
        let weight = |reason| match reason {
            FaultReason::WriteFailed(ErrorKind::NoSpace) => 1,
            FaultReason::WriteFailed(_) => 2,
            FaultReason::FlushFailed(_)
            | FaultReason::ReadFailed(_)
            | FaultReason::Silent
            | FaultReason::Short
            | FaultReason::Lost
            | FaultReason::ByHand => 3,
        };
        let known = &mut self.reasons[leg.index()];
        if known.is_none_or(|known| weight(known) < weight(reason)) {
            *known = Some(reason);
        }
    }

    fn reason(&self, leg: LegId) -> FaultReason {
        self.reasons[leg.index()].expect("a leg that failed has a reason")
    }

    /// Whether a leg failed because it is full, which is no fault of it.
    fn is_full(&self, leg: LegId) -> bool {
        self.reason(leg) == FaultReason::WriteFailed(ErrorKind::NoSpace)
    }
}
