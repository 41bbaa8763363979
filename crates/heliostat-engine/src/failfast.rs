//! Failfast: legs that are better out than slow.
//!
//! A leg with this flag is out at its first error: a read that it fails is not mended, nor is it
//! narrowed down what it cannot read or write. What it is sent is marked, so that a leg behind a
//! network need not wait for a connection that was lost. And it may be silent for a share only of
//! the time that others may. All that holds while no byte depends on this leg alone; the last one
//! is treated like any other.
//!
//! As with Linux md, a write-mostly leg is not told to fail its writes fast: others are faster
//! anyway, and it is there to be slow.

use heliostat_types::{Duration, ErrorKind, LegId, OpKind};

use crate::api::FaultReason;
use crate::engine::{Engine, Turn};
use crate::legs::Legs;

/// Of the leg time-out, how much a leg gets that is to fail fast: 5 of 30 seconds. A drive that
/// still tries to read has given up on several sectors by then.
const TIMEOUT_SHARE: u64 = 6;

impl Legs {
    /// Whether an operation of this kind is to fail at once on a leg rather than late.
    pub(crate) fn fails_fast(&self, leg: LegId, kind: OpKind) -> bool {
        let is_told = kind == OpKind::Read || !self.write_mostly.contains(leg);
        self.legs[leg.index()].config.failfast && is_told && self.is_dispensable(leg)
    }

    /// How long a leg may be silent.
    pub(crate) fn timeout(&self, leg: LegId) -> Duration {
        if self.fails_fast(leg, OpKind::Write) {
            self.leg_timeout / TIMEOUT_SHARE
        } else {
            self.leg_timeout
        }
    }
}

impl Engine {
    /// A leg has failed a read. Whether it goes for that, and nobody should try again.
    pub(crate) fn fault_at_first_error(
        &mut self,
        turn: &Turn<'_>,
        leg: LegId,
        kind: ErrorKind,
    ) -> bool {
        let is_out = self.legs.fails_fast(leg, OpKind::Read);
        if is_out {
            self.fault_reader(turn, leg, FaultReason::ReadFailed(kind));
        }
        is_out
    }
}
