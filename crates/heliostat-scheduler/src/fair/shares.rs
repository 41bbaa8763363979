//! Rounds where somebody has set shares.
//!
//! What a flow has outstanding may all be in the device, and a round that began then would give its
//! part to others.

use heliostat_types::{Duration, Instant};

use super::flow::Flow;
use super::{Fair, SPARSE_PART};
use crate::costs::Costs;

/// Where somebody has set shares, no round begins before those who have all they asked for in the
/// device have one part in so many of what it gives waiting again.
const SHARES_PART: u64 = 2;
/// It waits for so many of the longest quanta at most: devices have less than that in hand.
const SHARES_WAIT: u64 = 2;

/// For how long a round waits to begin.
#[derive(Clone, Copy, Debug)]
pub(super) enum Held {
    Until(Instant),
    ForLongEnough,
}

impl Fair {
    /// Whether rounds wait for those who have all they asked for in the device: where somebody has
    /// set shares, of disks that turn. Others do more the more they have, and how much is enough
    /// could not be learned while they have less.
    pub(super) fn holds_rounds(&self) -> bool {
        self.device.rotational && self.has_weights()
    }

    /// Whether somebody has set shares, and a round that began now would give none to who has all
    /// that he asked for in the device. It does not for long: that may have stalled.
    pub(super) fn waits_for_shares(&mut self, now: Instant, costs: &Costs) -> bool {
        let mut flows = self.flows.values();
        let may_wait = self.holds_rounds()
            && self.meter.in_device() > 0
            && flows.any(|flow| !flow.later.is_empty());
        let quantum = if may_wait { self.quantum(costs) } else { 0 };
        if !may_wait || self.waiting_ns(quantum) >= quantum / SHARES_PART {
            self.held = None;
            return false;
        }
        self.together.look();
        let wait_max = Duration::from_ns(self.quantum_max() * SHARES_WAIT);
        match *self.held.get_or_insert(Held::Until(now + wait_max)) {
            Held::Until(until) if now < until => return true,
            Held::Until(_) | Held::ForLongEnough => {}
        }
        for flow in self.flows.values_mut() {
            flow.is_awaited &= flow.scaled(flow.waiting_ns()) >= quantum / SHARES_PART;
        }
        self.held = None;
        false
    }

    /// What a round gives of a `quantum`: as much as those have waiting.
    pub(super) fn quantum_of_shares(&self, quantum: u64) -> u64 {
        let waiting_ns = self.waiting_ns(quantum);
        waiting_ns.clamp(quantum / SHARES_PART, quantum)
    }

    /// What those have waiting that have least of it, of those that a round counts for and that
    /// have some in the device, as what a flow of the usual weight would have.
    fn waiting_ns(&self, quantum: u64) -> u64 {
        let sparse_ns = std::cmp::max(quantum, self.round.quantum) / SPARSE_PART;
        let is_sparse = |flow: &Flow| flow.scaled(flow.here_ns) <= sparse_ns;
        let flows = self.flows.values();
        let flows = flows.filter(|flow| flow.placed_ns > 0 && flow.is_awaited && !is_sparse(flow));
        let waiting = flows.map(|flow| flow.scaled(flow.waiting_ns()));
        waiting.min().unwrap_or(u64::MAX)
    }
}
