//! Operations that are done as one: reads, or writes, that wait in front of a leg and lie in a row
//! go to the device as a single operation, where the leg's scheduler has them side by side.
//!
//! To whoever asked for them they stay what they are. Each has its own number, memory and owner,
//! is reported by itself, and can become a ghost by itself; only the place in the device is one,
//! which the last of them has. When what was done as one fails, nobody knows which of them it was:
//! each is sent again by itself, before all that waits, and only what comes of that counts. So a
//! bad sector is found, logged and mended as exactly as if nothing were ever done as one.
//!
//! Sending again is as if the operation had waited until now: its owner's locks and pins last until
//! it has ended, and its memory is kept.

use std::collections::VecDeque;

use heliostat_scheduler::{Job, Side};
use heliostat_types::{ErrorKind, Instant, LegId, LegOpId, OpKind};

use crate::engine::{Engine, Turn};
use crate::legs::{Op, OpOwner};

/// The most operations that are done as one: as many pieces of memory as Linux gives a request of a
/// device that does not say (`BLK_MAX_SEGMENTS`).
const OPS_MAX: usize = 128;
/// The most bytes. A disk streams with less; and what comes next waits for all of it.
const BYTES_MAX: u64 = 1 << 20;
/// Of what is read ahead: more is asked for when the first of it is there, and is to be in front of
/// the disk while that still has the rest. One that has nothing in hand goes elsewhere, or writes.
const AHEAD_BYTES_MAX: u64 = 512 << 10;

/// How an operation was sent to its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// By itself.
    Alone,
    /// As one with others.
    Joined {
        /// It is the last of them, which has the place in the device.
        is_last: bool,
    },
    /// By itself, after it failed together with others. The scheduler is done with it.
    Again,
}

impl Sent {
    /// Whether it has a place in the device.
    pub(crate) fn has_place(self) -> bool {
        self != Self::Joined { is_last: false }
    }
}

impl Op {
    /// Whether it may be done as one with others: what clients read and write, and what is read
    /// ahead for them. Whatever looks for what is bad, or goes beside others, goes by itself.
    const fn may_join(&self) -> bool {
        let is_plain = matches!(
            self.owner,
            OpOwner::Piece(_) | OpOwner::Write(_) | OpOwner::Prefetch(_)
        );
        is_plain && !self.fua && matches!(self.kind, OpKind::Read | OpKind::Write)
    }
}

impl Engine {
    /// Sends what the scheduler has chosen, and with it what lies beside it.
    pub(crate) fn send_chosen(&mut self, now: Instant, leg_id: LegId, chosen: &Job) {
        let mut row = std::mem::take(&mut self.row);
        if self.ops[chosen.op].may_join() {
            row.push_back(chosen.op);
            self.take_row(leg_id, chosen, &mut row);
        }
        if row.len() > 1 {
            if self.legs.accounting {
                let stats = &mut self.legs.legs[leg_id.index()].stats;
                stats.merges += row.len() as u64 - 1;
            }
            for at in 0..row.len() {
                let next = row.get(at + 1).map(|&next| self.ops[next].id);
                let is_last = next.is_none();
                self.send(now, row[at], Sent::Joined { is_last }, next);
            }
        } else {
            self.send(now, chosen.op, Sent::Alone, None);
        }
        row.clear();
        self.row = row;
    }

    /// Takes from the queue what is to be done as one with `chosen`, which stands in the row.
    fn take_row(&mut self, leg_id: LegId, chosen: &Job, row: &mut VecDeque<u32>) {
        let leg = &mut self.legs.legs[leg_id.index()];
        let most = if matches!(self.ops[chosen.op].owner, OpOwner::Prefetch(_)) {
            AHEAD_BYTES_MAX
        } else {
            BYTES_MAX
        };
        let bytes_max = match leg.config.optimal_io_bytes {
            0 => most,
            optimal => optimal.min(most),
        };
        let memory = self.ops[chosen.op].memory;
        let mut held_bytes = leg.in_device_bytes + self.buffers.bytes_to_hold(memory, leg_id);
        let mut len_bytes = chosen.extent.len();
        for side in [Side::Back, Side::Front] {
            let mut edge = *chosen;
            while row.len() < OPS_MAX
                && let Some(other) = leg.queue.adjoining(&edge, side)
            {
                let op = &self.ops[other.op];
                held_bytes += self.buffers.bytes_to_hold(op.memory, leg_id);
                len_bytes += other.extent.len();
                let fits = len_bytes <= bytes_max && held_bytes <= self.legs.leg_bytes_max;
                if !fits || !op.may_join() {
                    return;
                }
                leg.queue.take_adjoining(&edge, side, &mut self.legs.costs);
                match side {
                    Side::Back => row.push_back(other.op),
                    Side::Front => row.push_front(other.op),
                }
                edge = other;
            }
        }
    }

    /// Whether an operation has failed together with others, and is sent again by itself.
    pub(crate) fn is_sent_again(
        &mut self,
        turn: &Turn<'_>,
        id: LegOpId,
        result: Result<(), ErrorKind>,
    ) -> bool {
        let index = self.op_index(id);
        let op = &self.ops[index];
        let Sent::Joined { is_last } = op.sent else {
            return false;
        };
        let is_wanted = op.owner != (OpOwner::Ghost { is_loser: false });
        if result.is_ok() || !is_wanted {
            return false;
        }
        let leg_id = op.leg;
        let bytes = self.buffers.end_in_device(op.memory, leg_id);
        let leg = &mut self.legs.legs[leg_id.index()];
        leg.in_device -= u32::from(is_last);
        leg.in_device_bytes -= bytes;
        leg.last_progress = turn.now;
        let job = op.job(index);
        leg.queue.completed(turn.now, &job, &mut self.legs.costs);
        leg.again.push_back(index);
        self.ops_begun += 1;
        let op = &mut self.ops[index];
        op.id = LegOpId(self.ops_begun << 32 | u64::from(index));
        op.sent = Sent::Again;
        op.dispatched = None;
        self.pump(turn.now, leg_id);
        true
    }
}
