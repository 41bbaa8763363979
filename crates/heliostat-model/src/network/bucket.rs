//! A cap with credit: so much per second on average, more for a while by what was not used before.

use heliostat_types::{Duration, Instant};

use crate::timing::transfer_time;

/// A token bucket, kept as the moment at which it would be empty again (the virtual scheduling
/// form of ITU-T I.371's generic cell rate algorithm).
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    per_s: u64,
    burst_per_s: u64,
    /// How far ahead of the average the credit may run.
    ahead_max: Duration,
    /// When all that passed would have passed at the average rate.
    average_at: Instant,
    /// When the last one that passed leaves room for the next, at the rate of bursts.
    free_at: Instant,
}

impl Bucket {
    /// A full bucket. With `burst_per_s` or `credit` 0 there are no bursts.
    pub(super) fn new(per_s: u64, burst_per_s: u64, credit: u64) -> Self {
        let bursts = burst_per_s > per_s && credit > 0;
        Self {
            per_s,
            burst_per_s: if bursts { burst_per_s } else { per_s },
            ahead_max: if bursts {
                transfer_time(credit, per_s)
            } else {
                Duration::ZERO
            },
            average_at: Instant::ZERO,
            free_at: Instant::ZERO,
        }
    }

    /// When `amount` that comes at `at` begins to pass, and when it has passed.
    pub(super) fn pass(&mut self, at: Instant, amount: u64) -> (Instant, Instant) {
        let credit_at =
            Instant::ZERO + (self.average_at - Instant::ZERO).saturating_sub(self.ahead_max);
        let begins_at = at.max(self.free_at).max(credit_at);
        self.free_at = begins_at + transfer_time(amount, self.burst_per_s);
        self.average_at = self.average_at.max(begins_at) + transfer_time(amount, self.per_s);
        (begins_at, self.free_at)
    }
}
