//! How much memory one client may keep busy.
//!
//! The engine never hands out more than it has, but a client that asks for much and takes no answer
//! would leave others nothing. So each connection may hold at most half of what is still free: the
//! first one that gets stuck holds a third of all, the next a third of the rest. A single request
//! may be larger than that, as long as it leaves a reserve.
//!
//! Of that a hundred connections would leave nothing, so all connections of one client together may
//! hold at most twice what is free: two thirds of all where nobody else holds anything. And that
//! nobody waits for what others of the same client hold, a connection that holds nothing may
//! always have one small request.

use heliostat_types::FlowId;

use super::CONNECTIONS_MAX;

/// The part of all memory that requests of more than half of what is free leave alone: an eighth is
/// thousands of small requests in the smallest arena, and lets two of the largest in.
const RESERVE_PART: u64 = 8;

/// How many times as much as is free all connections of a client may hold. Twice: one connection
/// has a third of all, two have five ninths, three are the first that have less than they would.
const CLIENT_PART: u64 = 2;

/// What a small request is, as a part of all memory: as many as there are connections at most fit
/// into half of the reserve. In the smallest arena these are 40 KiB.
const SMALL_PART: u64 = RESERVE_PART * 2 * CONNECTIONS_MAX as u64;

/// The engine hands out memory in pieces of this size.
const GRANULE_BYTES: u32 = 4096;

/// What a request of so many bytes is charged: what it occupies, but for blocks at its ends that it
/// only touches.
pub(super) fn charge(len_bytes: u32) -> u64 {
    u64::from(len_bytes).next_multiple_of(u64::from(GRANULE_BYTES))
}

/// The bytes of requests that were handed in and whose buffers did not come back yet.
#[derive(Debug)]
pub(super) struct Budget {
    total_bytes: u64,
    used_bytes: u64,
    /// What each client holds, by account.
    held_bytes: Vec<u64>,
}

impl Budget {
    /// Nothing is used of so many bytes.
    pub(super) const fn new(total_bytes: u64) -> Self {
        Self {
            total_bytes,
            used_bytes: 0,
            held_bytes: Vec::new(),
        }
    }

    /// Takes `bytes` for a connection of `flow` that holds `held_bytes`, or says that it has to
    /// wait.
    ///
    /// A connection that holds nothing gets what is free without the reserve, and any one request
    /// is let through when nothing is used at all.
    pub(super) fn try_take(&mut self, flow: FlowId, bytes: u64, held_bytes: u64) -> bool {
        let free_bytes = self.total_bytes.saturating_sub(self.used_bytes);
        let client_bytes = *self.client_mut(flow);
        let is_within = held_bytes + bytes <= free_bytes / 2
            && client_bytes + bytes <= free_bytes.saturating_mul(CLIENT_PART);
        let may = self.used_bytes == 0
            || held_bytes == 0 && bytes + self.total_bytes / RESERVE_PART <= free_bytes
            || held_bytes == 0 && bytes <= self.total_bytes / SMALL_PART
            || is_within;
        if may {
            self.used_bytes += bytes;
            *self.client_mut(flow) += bytes;
        }
        may
    }

    fn client_mut(&mut self, flow: FlowId) -> &mut u64 {
        let index = usize::try_from(flow.0).expect("a usize holds 32 bits");
        if self.held_bytes.len() <= index {
            self.held_bytes.resize(index + 1, 0);
        }
        &mut self.held_bytes[index]
    }

    /// Gives back what was taken.
    pub(super) fn give_back(&mut self, flow: FlowId, bytes: u64) {
        let client = self.client_mut(flow);
        *client = client
            .checked_sub(bytes)
            .expect("only what a client took is given back for it");
        self.used_bytes = self
            .used_bytes
            .checked_sub(bytes)
            .expect("only what was taken is given back");
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::FlowId;

    use super::{Budget, CONNECTIONS_MAX, RESERVE_PART};

    const ONE: FlowId = FlowId(0);
    const OTHER: FlowId = FlowId(1);
    const THIRD: FlowId = FlowId(2);

    #[test]
    fn stuck_clients_leave_room_for_others() {
        let mut budget = Budget::new(900);
        let mut held = [0; 3];
        for (flow, held) in [ONE, OTHER, THIRD].into_iter().zip(&mut held) {
            while budget.try_take(flow, 10, *held) {
                *held += 10;
            }
        }
        assert_eq!(held, [300, 200, 130]);
        // Of 270 that are free, 112 are the reserve: a large request may leave no more than that.
        assert!(!budget.try_take(ONE, 159, 0));
        assert!(budget.try_take(ONE, 158, 0));
        let late = FlowId(3);
        assert!(
            budget.try_take(late, 56, 0),
            "a small one has half of what is left"
        );
        assert!(!budget.try_take(late, 57, 0));
    }

    #[test]
    fn a_client_has_no_more_by_many_connections() {
        const TOTAL: u64 = 80 << 20;
        let mut budget = Budget::new(TOTAL);
        let mut held = [0; CONNECTIONS_MAX];
        // The largest requests first, then whatever still fits, over all connections.
        for bytes in (12..26).rev().map(|bits| 1 << bits) {
            for held in &mut held {
                while budget.try_take(ONE, bytes, *held) {
                    *held += bytes;
                }
            }
        }
        // It has all but the reserve, and each of its connections something.
        let taken: u64 = held.iter().sum();
        assert!(taken <= TOTAL - TOTAL / RESERVE_PART / 2, "{taken}");
        assert!(held.iter().all(|held| *held > 0), "{held:?}");
        // Another one has a depth of its own, of small requests.
        let mut others = 0;
        while budget.try_take(OTHER, 4096, others) {
            others += 4096;
        }
        assert!(others >= 256 * 4096, "{others}");
        budget.give_back(ONE, taken);
        budget.give_back(OTHER, others);
        assert!(budget.try_take(THIRD, TOTAL, 0), "all came back");
    }

    #[test]
    fn one_that_never_fits_is_let_through_alone() {
        let mut budget = Budget::new(900);
        assert!(budget.try_take(ONE, 2000, 0));
        assert!(!budget.try_take(OTHER, 1, 0));
        budget.give_back(ONE, 2000);
        assert!(budget.try_take(OTHER, 1, 0));
        assert!(!budget.try_take(ONE, 2000, 0));
    }
}
