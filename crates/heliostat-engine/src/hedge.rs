//! Hedges: a read that its leg has not answered when the policy expected it is asked of a second
//! leg as well, and who answers first serves it.
//!
//! Only clients' reads are hedged, whole or by the part that one leg serves, be it that the leg was
//! asked for the part or that it prefetches what the part lies in; and only where no two legs may
//! differ by then: no lock, pin, bad block or resync may touch the range when the hedge is sent,
//! and its answer heeds what was granted since as every read's does. The second leg reads into
//! memory of its own, because the first may still write into the client's; a read of several parts
//! is put together in the end, where neither does. The loser's operation ends in the queue, or is a
//! ghost that nobody waits for, though a sector that it could not read is mended. An error is no
//! reason to hedge: it is failed over at once.
//!
//! How many there may be is not for policies to say: [`Budget`].

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use heliostat_policy::{Late, LateRead, ReadRequest};
use heliostat_types::{Duration, ErrorKind, Extent, Instant, LegId, LegSet, OpKind};

use crate::api::{Event, Output};
use crate::buffer::BufferSlice;
use crate::engine::{Engine, Turn};
use crate::legs::{NewOp, Op, OpOwner};
use crate::read::{Piece, PieceOwner};
use crate::slab::Slab;

/// How many hedges may have been saved up for a bad moment,
const SAVED_OPS_MAX: u64 = 32;
/// and how many bytes.
const SAVED_BYTES_MAX: u64 = 8 << 20;
/// In how many parts an operation is earned.
const OP_PARTS: u64 = 1_000_000_000;
/// How many reads are watched at once: memory is bounded, and where so many are late, it is the
/// load.
const WATCHED_MAX: usize = 1 << 16;
/// Reads are looked at again after no less than this: no policy can have one looked at for ever
/// while the time stands still.
const LOOK_AFTER_MIN: Duration = Duration::from_us(1);

/// How often reads were hedged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HedgeFigures {
    /// Reads that a second leg was asked for.
    pub issued: u64,
    /// Of those, the ones that the second leg served.
    pub won: u64,
    /// Of those, the ones whose second answer nobody used: the first leg was faster, or the second
    /// one failed. What is in neither is still under way.
    pub wasted: u64,
    /// Reads that the policy wanted to hedge when the budget, or memory, was used up.
    pub refused: u64,
}

/// A read that is looked at again when it is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Watch {
    leg: LegId,
    sent: Instant,
    /// What the leg was asked for: the piece, or what is prefetched around it.
    asked: Extent,
    at: Instant,
}

/// When to look at which piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Instant,
    serial: u64,
    piece: u32,
}

/// A second operation for a piece.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hedge {
    piece: u32,
    /// Where it reads into.
    memory: BufferSlice,
}

/// A part of a read that a second leg has served, and where it lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    extent: Extent,
    memory: BufferSlice,
}

/// What may be read once more: a share of what was read, saved up to a limit. Nothing is saved at
/// the start, so that the share holds over any time.
#[derive(Debug)]
struct Budget {
    permille: u64,
    /// In parts of an operation, [`OP_PARTS`] to one.
    ops: u64,
    /// In thousandths of a byte.
    bytes: u64,
}

impl Budget {
    /// So many bytes were read, of what a leg was asked for at once: many small reads of what was
    /// prefetched are one of the leg's, but for blocks that are read again.
    fn earn(&mut self, len_bytes: u64, asked_bytes: u64) {
        let of_op = OP_PARTS / 1000 * self.permille;
        let parts = u128::from(of_op) * u128::from(len_bytes) / u128::from(asked_bytes.max(1));
        let parts = u64::try_from(parts).unwrap_or(u64::MAX).min(of_op);
        self.ops = (self.ops + parts).min(SAVED_OPS_MAX * OP_PARTS);
        let earned = self
            .bytes
            .saturating_add(len_bytes.saturating_mul(self.permille));
        self.bytes = earned.min(SAVED_BYTES_MAX * 1000);
    }

    /// Whether there may be one more read of this length, which is counted.
    fn spend(&mut self, len_bytes: u64) -> bool {
        let bytes = len_bytes.saturating_mul(1000);
        let is_enough = self.ops >= OP_PARTS && self.bytes >= bytes;
        if is_enough {
            self.ops -= OP_PARTS;
            self.bytes -= bytes;
        }
        is_enough
    }
}

/// The reads that are watched, and those that were hedged.
#[derive(Debug)]
pub(crate) struct Hedges {
    /// The first is of a read that is not answered; of those behind it, some may be.
    due: BinaryHeap<Reverse<Due>>,
    hedges: Slab<Hedge>,
    budget: Budget,
    figures: HedgeFigures,
}

impl Hedges {
    pub(crate) fn new(permille: u64) -> Self {
        let budget = Budget {
            permille,
            ops: 0,
            bytes: 0,
        };
        Self {
            due: BinaryHeap::new(),
            hedges: Slab::new(),
            budget,
            figures: HedgeFigures::default(),
        }
    }

    /// When the first read is to be looked at.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.due.peek().map(|Reverse(due)| due.at)
    }

    pub(crate) fn reset_figures(&mut self) {
        self.figures = HedgeFigures {
            // They end as any others do.
            issued: self.hedges.iter().count() as u64,
            ..HedgeFigures::default()
        };
    }

    /// Counts on where another engine ended.
    pub(crate) const fn follow(&mut self, before: &Self) {
        let figures = before.figures;
        self.figures = HedgeFigures {
            // What was under way there ends nowhere.
            wasted: figures.issued - figures.won,
            ..figures
        };
    }
}

impl Engine {
    /// How often reads were hedged since the statistics began.
    #[must_use]
    pub const fn hedge_figures(&self) -> HedgeFigures {
        self.hedges.figures
    }

    /// A client has read so much, of what was prefetched with one read of so much.
    pub(crate) fn earn_hedges(&mut self, len_bytes: u64, asked_bytes: u64) {
        self.hedges.budget.earn(len_bytes, asked_bytes);
    }

    /// A piece was sent to a leg, which is asked for no more: it is looked at again when the policy
    /// says that it is late.
    pub(crate) fn watch(&mut self, now: Instant, index: u32, leg: LegId) {
        let piece = &self.pieces[index];
        let PieceOwner::Read(read) = piece.owner else {
            return;
        };
        let (asked, is_part) = (piece.extent, self.reads[read].aligned != piece.extent);
        self.watch_asked(now, index, (leg, now, asked), is_part);
    }

    /// The same of a piece that waits for what the leg was asked for earlier, around it.
    pub(crate) fn watch_asked(
        &mut self,
        now: Instant,
        index: u32,
        (leg, sent, asked): (LegId, Instant, Extent),
        is_part: bool,
    ) {
        let piece = &self.pieces[index];
        self.hedges.budget.earn(piece.extent.len(), asked.len());
        if self.hedges.due.len() >= WATCHED_MAX {
            return;
        }
        let request = ReadRequest {
            extent: asked,
            ..request_of(piece)
        };
        let view = &mut self.legs.views[leg.index()];
        view.address = self.config.map.on_leg(leg, asked).offset();
        if let Some(after) = self.policy.late_after(now, &request, view, is_part) {
            let at = sent + after;
            let watch = Watch {
                leg,
                sent,
                asked,
                at,
            };
            self.look_again(now, index, watch);
        }
    }

    /// Has a piece looked at then, if that is not at once.
    fn look_again(&mut self, now: Instant, index: u32, watch: Watch) {
        let at = watch.at.max(now + LOOK_AFTER_MIN);
        let piece = &mut self.pieces[index];
        piece.watch = Some(Watch { at, ..watch });
        self.hedges.due.push(Reverse(Due {
            at,
            serial: piece.serial,
            piece: index,
        }));
    }

    /// The watch that says so, where the piece still waits for the same operation.
    fn watch_of(&self, due: Due) -> Option<Watch> {
        let piece = self.pieces.get(due.piece)?;
        let watch = piece.watch?;
        (piece.serial == due.serial && watch.at == due.at).then_some(watch)
    }

    /// Forgets what is in front and answered, so that nobody is woken for it.
    pub(crate) fn forget_answered(&mut self) {
        while let Some(Reverse(due)) = self.hedges.due.peek()
            && self.watch_of(*due).is_none()
        {
            self.hedges.due.pop();
        }
    }

    /// Looks at the reads that are late by now.
    pub(crate) fn check_late(&mut self, turn: &Turn<'_>) {
        while let Some(&Reverse(due)) = self.hedges.due.peek()
            && due.at <= turn.now
        {
            self.hedges.due.pop();
            if let Some(watch) = self.watch_of(due) {
                self.pieces[due.piece].watch = None;
                self.look_at_late(turn, due.piece, watch);
            }
        }
        self.forget_answered();
    }

    fn look_at_late(&mut self, turn: &Turn<'_>, index: u32, watch: Watch) {
        let piece = self.pieces[index];
        let holders = self.config.map.holders(piece.extent.offset());
        let mut others = self.legs.readable(holders, piece.tried);
        others.remove(watch.leg);
        let again = |after| Watch {
            at: turn.now + after,
            ..watch
        };
        if !self.is_free(&piece) || others.is_empty() {
            // What is in the way may be gone when it is twice as late.
            let age = turn.now.saturating_since(watch.sent);
            return self.look_again(turn.now, index, again(age));
        }
        let late = LateRead {
            leg: watch.leg,
            sent: watch.sent,
        };
        self.see_legs(watch.asked, others);
        let request = ReadRequest {
            extent: watch.asked,
            ..request_of(&piece)
        };
        let (policy, views) = (&mut self.policy, &self.candidates);
        match policy.on_late(turn.now, &request, late, views) {
            Late::LookAgain(after) => self.look_again(turn.now, index, again(after)),
            Late::Hedge(leg) if others.contains(leg) => self.send_hedge(turn, index, leg),
            Late::Hedge(leg) => debug_assert!(false, "{leg} cannot serve the read"),
            Late::Wait => {}
        }
    }

    fn send_hedge(&mut self, turn: &Turn<'_>, index: u32, leg: LegId) {
        let piece = self.pieces[index];
        let len_bytes = piece.extent.len();
        let is_short = !self.waiting.is_empty() || !self.hedges.budget.spend(len_bytes);
        let buffer = if is_short {
            None
        } else {
            self.buffers.alloc(len_bytes)
        };
        let Some(buffer) = buffer else {
            self.hedges.figures.refused += 1;
            return;
        };
        let memory = BufferSlice {
            buffer,
            offset_bytes: 0,
            ..piece.memory
        };
        let hedge = self.hedges.hedges.insert(Hedge {
            piece: index,
            memory,
        });
        self.pieces[index].hedge = Some(hedge);
        self.hedges.figures.issued += 1;
        if self.legs.accounting {
            self.legs.legs[leg.index()].stats.hedge_reads += 1;
        }
        let new = NewOp {
            owner: OpOwner::Hedge(hedge),
            flow: piece.flow,
            kind: OpKind::Read,
            extent: self.config.map.on_leg(leg, piece.extent),
            memory: Some(memory),
            fua: false,
            may_trim: false,
        };
        self.assign(turn, leg, new);
    }

    /// Gives back what second legs have read of a read.
    pub(crate) fn drop_served(&mut self, read: u32) {
        for part in std::mem::take(&mut self.reads[read].served) {
            self.release_buffer(part.memory.buffer);
        }
    }

    /// All of a read has been read, some of it by second legs: puts it together. Whether there is
    /// memory for it.
    pub(crate) fn put_together(&mut self, index: u32) -> bool {
        let read = &mut self.reads[index];
        let (first, aligned, flow) = (read.memory, read.aligned, read.flow);
        let mut served = std::mem::take(&mut read.served);
        let memory = if let [all] = served[..]
            && all.extent == aligned
        {
            all.memory
        } else {
            let buffer = self.buffers.alloc(aligned.len()).or_else(|| {
                self.give_prefetched_back();
                self.buffers.alloc(aligned.len())
            });
            let Some(buffer) = buffer else {
                self.reads[index].served = served;
                return false;
            };
            let memory = BufferSlice {
                buffer,
                offset_bytes: 0,
                ..first
            };
            served.sort_unstable_by_key(|part| part.extent.offset());
            let mut from = 0;
            for part in served {
                let at = part.extent.offset() - aligned.offset();
                self.copy(first.part(from, at - from), memory.part(from, at - from));
                self.copy(part.memory, memory.part(at, part.extent.len()));
                self.release_buffer(part.memory.buffer);
                from = at + part.extent.len();
            }
            let left = aligned.len() - from;
            self.copy(first.part(from, left), memory.part(from, left));
            memory
        };
        self.reads[index].memory = memory;
        self.note_holder(flow, memory.buffer);
        self.release_buffer(first.buffer);
        true
    }

    /// The second leg has answered.
    pub(crate) fn hedge_answered(
        &mut self,
        turn: &mut Turn<'_>,
        index: u32,
        leg: LegId,
        result: Result<(), ErrorKind>,
    ) {
        let hedge = self.hedges.hedges.remove(index);
        let piece = &mut self.pieces[hedge.piece];
        piece.hedge = None;
        if let Err(kind) = result {
            self.hedges.figures.wasted += 1;
            // The first may still answer, and then what this one cannot read is repaired.
            piece.tried.insert(leg);
            piece.error = kind;
            let extent = piece.extent;
            self.release_buffer(hedge.memory.buffer);
            self.outputs
                .push_back(Output::Event(Event::ReadFailedOver { leg, extent, kind }));
            return self.note_read_error(turn, leg, kind);
        }
        if !self.heeds_pins(hedge.piece, leg) {
            self.hedges.figures.wasted += 1;
            return self.release_buffer(hedge.memory.buffer);
        }
        self.hedges.figures.won += 1;
        self.abandon_loser(OpOwner::Piece(hedge.piece));
        let piece = &self.pieces[hedge.piece];
        let PieceOwner::Read(read) = piece.owner else {
            unreachable!("clients' reads are hedged");
        };
        self.reads[read].served.push(Served {
            extent: piece.extent,
            memory: hedge.memory,
        });
        self.pass_run(hedge.piece);
        self.piece_ended(turn, hedge.piece, Ok(()));
    }

    /// A leg has answered a read that another leg was faster with. That it failed is worth knowing
    /// all the same: a leg that tries for seconds to read a bad sector is never the first, and the
    /// sector would never be mended.
    pub(crate) fn loser_answered(
        &mut self,
        turn: &mut Turn<'_>,
        op: &Op,
        result: Result<(), ErrorKind>,
    ) {
        let (Err(kind), leg) = (result, op.leg) else {
            return;
        };
        let map = &self.config.map;
        let address = map.array_address(leg, op.extent.offset());
        let (true, Some(address)) = (self.legs.in_sync.contains(leg), address) else {
            return;
        };
        let extent = map.first_part(Extent::new(address, op.extent.len()));
        let mut out = self.bad_legs(extent);
        out.insert(leg);
        if self.good_holders(extent).difference(out).is_empty() {
            return; // Who was faster is out by now.
        }
        self.outputs
            .push_back(Output::Event(Event::ReadFailedOver { leg, extent, kind }));
        self.note_read_error(turn, leg, kind);
        self.repair_legs(turn, LegSet::from_iter([leg]), extent);
    }

    /// A piece does not wait any more for what it waited for: it is not looked at, and nobody waits
    /// for a second leg.
    pub(crate) fn drop_hedge(&mut self, piece: u32) {
        let piece = &mut self.pieces[piece];
        let was_watched = piece.watch.take().is_some();
        let hedge = piece.hedge.take();
        if was_watched {
            self.forget_answered();
        }
        let Some(index) = hedge else {
            return;
        };
        self.abandon_ops_of(OpOwner::Hedge(index));
        self.waste_hedge(index);
    }

    /// The second leg is out.
    pub(crate) fn hedge_lost(&mut self, index: u32) {
        let piece = self.waste_hedge(index);
        self.pieces[piece].hedge = None;
    }

    /// Nobody needs what a second leg was asked for. The piece that it was for.
    fn waste_hedge(&mut self, index: u32) -> u32 {
        let hedge = self.hedges.hedges.remove(index);
        self.hedges.figures.wasted += 1;
        self.release_buffer(hedge.memory.buffer);
        hedge.piece
    }

    /// Nobody waits for these operations any more.
    pub(crate) fn abandon_ops_of(&mut self, owner: OpOwner) {
        let ops = self.ops.iter().filter(|(_, op)| op.owner == owner);
        let ops: Vec<u32> = ops.map(|(index, _)| index).collect();
        self.abandon_ops(&ops);
    }

    /// Another leg was faster with a read: nobody waits for these operations any more.
    pub(crate) fn abandon_loser(&mut self, owner: OpOwner) {
        let ops = self.ops.iter_mut();
        let late = ops.filter(|op| op.owner == owner && op.dispatched.is_some());
        late.for_each(|op| op.owner = OpOwner::Ghost { is_loser: true });
        self.abandon_ops_of(owner);
    }

    /// The first leg has served a piece.
    pub(crate) fn hedge_lost_race(&mut self, piece: u32) {
        if let Some(hedge) = self.pieces[piece].hedge {
            self.abandon_loser(OpOwner::Hedge(hedge));
        }
    }

    /// Shows these legs as candidates for a read.
    pub(crate) fn see_legs(&mut self, extent: Extent, legs: LegSet) {
        self.candidates.clear();
        for leg in legs {
            let mut view = self.legs.views[leg.index()];
            view.address = self.config.map.on_leg(leg, extent).offset();
            self.candidates.push(view);
        }
    }
}

/// What a policy is told of a piece.
pub(crate) const fn request_of(piece: &Piece) -> ReadRequest {
    ReadRequest {
        client: piece.client,
        stream: piece.stream,
        extent: piece.extent,
        may_split: false,
    }
}
