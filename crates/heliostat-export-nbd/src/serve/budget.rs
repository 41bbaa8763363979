//! How much memory one client may keep busy.
//!
//! The engine never hands out more than it has, but a client that asks for much and takes no answer
//! would leave others nothing. So each connection may hold at most half of what is still free: the
//! first one that gets stuck holds a third of all, the next a third of the rest, and small requests
//! of others always find room. A single request may be larger than that, as long as it leaves a
//! reserve.

/// The part of all memory that requests of more than half of what is free leave alone: an eighth is
/// thousands of small requests in the smallest arena, and lets two of the largest in.
const RESERVE_PART: u64 = 8;

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
}

impl Budget {
    /// Nothing is used of so many bytes.
    pub(super) const fn new(total_bytes: u64) -> Self {
        Self {
            total_bytes,
            used_bytes: 0,
        }
    }

    /// Takes `bytes` for a connection that holds `held_bytes`, or says that it has to wait.
    ///
    /// A connection that holds nothing gets what is free without the reserve, and any one request
    /// is let through when nothing is used at all.
    pub(super) const fn try_take(&mut self, bytes: u64, held_bytes: u64) -> bool {
        let free_bytes = self.total_bytes.saturating_sub(self.used_bytes);
        let may = self.used_bytes == 0
            || held_bytes == 0 && bytes + self.total_bytes / RESERVE_PART <= free_bytes
            || held_bytes + bytes <= free_bytes / 2;
        if may {
            self.used_bytes += bytes;
        }
        may
    }

    /// Gives back what was taken.
    pub(super) const fn give_back(&mut self, bytes: u64) {
        self.used_bytes = self
            .used_bytes
            .checked_sub(bytes)
            .expect("only what was taken is given back");
    }
}

#[cfg(test)]
mod tests {
    use super::Budget;

    #[test]
    fn stuck_clients_leave_room_for_others() {
        let mut budget = Budget::new(900);
        let mut held = [0; 3];
        for held in &mut held {
            while budget.try_take(10, *held) {
                *held += 10;
            }
        }
        assert_eq!(held, [300, 200, 130]);
        // Of 270 that are free, 112 are the reserve: a large request may leave no more than that.
        assert!(!budget.try_take(159, 0));
        assert!(budget.try_take(158, 0));
        assert!(
            budget.try_take(56, 0),
            "a small one has half of what is left"
        );
        assert!(!budget.try_take(57, 0));
    }

    #[test]
    fn one_that_never_fits_is_let_through_alone() {
        let mut budget = Budget::new(900);
        assert!(budget.try_take(2000, 0));
        assert!(!budget.try_take(1, 0));
        budget.give_back(2000);
        assert!(budget.try_take(1, 0));
        assert!(!budget.try_take(2000, 0));
    }
}
