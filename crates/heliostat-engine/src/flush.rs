//! Flushes: of clients, and of the engine's own when the array has been left alone.
//!
//! Flushes run in rounds: one to every leg that is written to. A write is answered only when every
//! leg has completed it, so a round that begins after a flush arrived covers all that was answered
//! before; of writes behind (see [`crate::write_behind`]) those that were answered before a flush
//! are waited for first. Flushes that arrive while a round is on its way share the next one.

use heliostat_types::{ErrorKind, FlowId, LegId, LegSet};

use crate::api::{Answer, FaultReason};
use crate::asked::AskedId;
use crate::completion::Doubt;
use crate::engine::{Engine, Turn};
use crate::intent::IdleChunk;
use crate::legs::{NewOp, OpOwner};
use crate::slab::Slab;

/// Who waits for a round.
#[derive(Clone, Debug)]
enum Waiter {
    Client(AskedId),
    /// The record, to become clean if nothing was changed since this many changes.
    Clean {
        changes: u64,
    },
    /// The bitmap, to clear the bits of these chunks.
    Clear {
        chunks: Vec<IdleChunk>,
    },
    /// What was read from another leg than at first, and written to all.
    Moved(u32),
    /// A window of a resync that was.
    Window(u32),
}

/// One round.
#[derive(Debug)]
struct Round {
    waiters: Vec<Waiter>,
    outstanding: u32,
    error: ErrorKind,
    result: Result<(), ErrorKind>,
}

/// The round on its way, those whose answers wait for a record, and who waits for the next.
#[derive(Debug)]
pub(crate) struct FlushRounds {
    rounds: Slab<Round>,
    active: Option<u32>,
    /// With the last write behind that each has to wait for.
    next: Vec<(u64, Waiter)>,
    pub(crate) doubt: Doubt,
}

impl Default for FlushRounds {
    fn default() -> Self {
        Self {
            rounds: Slab::new(),
            active: None,
            next: Vec::new(),
            doubt: Doubt::default(),
        }
    }
}

impl FlushRounds {
    pub(crate) fn is_idle(&self) -> bool {
        self.rounds.is_empty() && self.next.is_empty()
    }
}

impl Engine {
    /// A client wants all that was answered before to be durable.
    pub(crate) fn begin_flush(&mut self, turn: &Turn<'_>, id: AskedId) {
        self.flushes
            .next
            .push((self.behind.last(), Waiter::Client(id)));
        self.begin_round(turn);
    }

    /// The record wants to become clean.
    pub(crate) fn begin_clean_flush(&mut self, turn: &Turn<'_>) {
        let changes = self.record.changes();
        self.flushes.next.push((0, Waiter::Clean { changes }));
        self.begin_round(turn);
    }

    /// The bits of these chunks are to be cleared.
    pub(crate) fn begin_clear_flush(&mut self, turn: &Turn<'_>, chunks: Vec<IdleChunk>) {
        self.flushes.next.push((0, Waiter::Clear { chunks }));
        self.begin_round(turn);
    }

    /// What was read from another leg than at first is to be durable on all.
    pub(crate) fn begin_moved_flush(&mut self, turn: &Turn<'_>, at: u32) {
        self.flushes.next.push((0, Waiter::Moved(at)));
        self.begin_round(turn);
    }

    /// The same for a window of a resync.
    pub(crate) fn begin_window_flush(&mut self, turn: &Turn<'_>, window: u32) {
        self.flushes.next.push((0, Waiter::Window(window)));
        self.begin_round(turn);
    }

    /// Begins the next round, for those who need not wait for writes behind any more.
    pub(crate) fn begin_round(&mut self, turn: &Turn<'_>) {
        if self.flushes.active.is_some() || self.flushes.next.is_empty() {
            return;
        }
        let next = std::mem::take(&mut self.flushes.next);
        let (ready, next) = next
            .into_iter()
            .partition(|(last, _)| self.behind.is_drained(*last));
        self.flushes.next = next;
        let ready: Vec<(u64, Waiter)> = ready;
        if ready.is_empty() {
            return;
        }
        self.bad.flush_begins();
        let targets = self.legs.writable();
        let round = self.flushes.rounds.insert(Round {
            waiters: ready.into_iter().map(|(_, waiter)| waiter).collect(),
            outstanding: u32::try_from(targets.count()).expect("at most 16"),
            error: ErrorKind::Io,
            result: Ok(()),
        });
        self.flushes.active = Some(round);
        for leg in targets {
            self.assign(turn, leg, NewOp::flush(OpOwner::Flush, FlowId::ARRAY));
        }
    }

    /// A leg has answered.
    pub(crate) fn flush_answered(
        &mut self,
        turn: &mut Turn<'_>,
        leg: LegId,
        result: Result<(), ErrorKind>,
    ) {
        // A leg that cannot flush has nothing to.
        if let Err(kind) = result
            && kind != ErrorKind::NotSupported
        {
            let round = self.active_round();
            self.flushes.rounds[round].error = kind;
            self.note_flush_failed(leg, kind);
        }
        self.flush_op_ended(turn);
    }

    fn active_round(&self) -> u32 {
        self.flushes.active.expect("its operations are in flight")
    }

    /// A leg has answered, or is out.
    pub(crate) fn flush_op_ended(&mut self, turn: &mut Turn<'_>) {
        let index = self.active_round();
        let round = &mut self.flushes.rounds[index];
        round.outstanding -= 1;
        if round.outstanding > 0 {
            return;
        }
        self.flushes.active = None;
        let error = round.error;
        let in_sync = self.legs.in_sync.iter();
        // Also by the flush of a single write that is not judged yet.
        let failed = in_sync.filter(|leg| self.legs.legs[leg.index()].flush_failed);
        let failed: LegSet = failed.collect();
        let out = self.spare(failed);
        let kept = failed.difference(out);
        if !kept.is_empty() {
            self.flushes.rounds[index].result = Err(error);
            self.never_clean();
        }
        let reason = FaultReason::FlushFailed(error);
        for leg in kept {
            self.keep_last(leg, reason);
        }
        let rebuilding = self.legs.rebuilding.iter();
        let lost = rebuilding.filter(|leg| self.legs.legs[leg.index()].flush_failed);
        let lost: LegSet = lost.collect();
        for leg in out.union(lost) {
            self.fault_leg(turn, leg, reason);
        }
        if self.flushes.rounds[index].result.is_ok() {
            self.bad_blocks_flushed();
        }
        if self.may_answer_flush(index) {
            self.answer_flush(turn, index);
        }
        self.begin_round(turn);
    }

    /// Answers those who waited for a round.
    pub(crate) fn answer_flush(&mut self, turn: &mut Turn<'_>, index: u32) {
        let round = self.flushes.rounds.remove(index);
        // What an earlier flush lost, no later one brings back: the client must not be told so.
        let result = if self.record.is_lost() {
            Err(round.error)
        } else {
            round.result
        };
        self.end_round(turn, round, result);
    }

    /// A round has ended, but what is known of the legs since is not durable.
    pub(crate) fn fail_flush(&mut self, turn: &mut Turn<'_>, index: u32, kind: ErrorKind) {
        let round = self.flushes.rounds.remove(index);
        self.end_round(turn, round, Err(kind));
    }

    fn end_round(&mut self, turn: &mut Turn<'_>, round: Round, result: Result<(), ErrorKind>) {
        for waiter in round.waiters {
            match waiter {
                Waiter::Client(id) => self.complete(id, result.map(|()| Answer::Done)),
                Waiter::Moved(at) => self.moved_flushed(turn, at, result.is_ok()),
                Waiter::Window(window) => self.window_flushed(turn, window, result.is_ok()),
                Waiter::Clean { changes } => {
                    if result.is_ok() {
                        self.flushed_up_to(changes);
                    }
                }
                Waiter::Clear { chunks } => {
                    if result.is_ok() {
                        self.flushed_chunks(chunks);
                    }
                }
            }
        }
    }
}
