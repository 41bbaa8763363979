//! Disks of a mirror do their rounds at the same time.
//!
//! A write ends when all copies are done. Disks that do the same round, but one of them later than
//! the other, make writes wait for both of them one after the other: what comes when the later one
//! has done its part has missed the next round of the earlier one. So who has done a round with
//! writes waits for the others, for no more than a part of what the round took. Who has waited in
//! vain goes on alone for a while, which is longer each time: unequal disks do not hold each other
//! up.

use heliostat_types::{Duration, Instant};

/// Who has done his round waits for one part in so many of it at most.
const WAIT_PART: u64 = 4;
/// And no longer than that: one that is stalled makes a round as long as the leg time-out.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// And looks whether the others have, so often meanwhile.
const LOOKS: u64 = 32;
/// But no oftener than that.
const LOOK_MIN: Duration = Duration::from_ms(1);
/// For so many rounds who has waited in vain goes on alone at most.
const ALONE_MAX: u32 = 63;

/// What a disk knows of the rounds of all.
#[derive(Debug, Default)]
pub(super) struct Together {
    /// When its round began.
    begun_at: Instant,
    /// How long that took, once it has been seen to have ended.
    round: Option<Duration>,
    /// Since when it waits for the others.
    waits_since: Option<Instant>,
    /// When to look again whether the others have.
    look_at: Option<Instant>,
    /// For so many rounds it goes on alone.
    alone: u32,
    /// And for so many the last time.
    alone_last: u32,
}

impl Together {
    /// When to look again.
    pub(super) const fn look_at(&self) -> Option<Instant> {
        self.look_at
    }

    /// It looks, or has no time for that now.
    pub(super) const fn look(&mut self) {
        self.look_at = None;
    }

    /// A round begins.
    pub(super) const fn begin(&mut self, now: Instant) {
        (self.round, self.waits_since) = (None, None);
        self.begun_at = now;
        self.alone = self.alone.saturating_sub(1);
    }

    /// All of the own round has gone, now or before: what is done behind it makes it no longer.
    pub(super) fn end(&mut self, now: Instant) {
        let begun_at = self.begun_at;
        self.round
            .get_or_insert_with(|| now.saturating_since(begun_at));
    }

    /// Whether to wait for others, where the own round has ended.
    pub(super) fn waits(&mut self, now: Instant, is_behind: bool) -> bool {
        self.look();
        self.end(now);
        if !is_behind {
            self.alone_last = 0;
            return false;
        }
        if self.alone > 0 {
            return false;
        }
        let since = *self.waits_since.get_or_insert(now);
        let round = self.round.unwrap_or_default();
        let wait_max = std::cmp::min(round / WAIT_PART, WAIT_MAX);
        if now >= since + wait_max {
            self.alone_last = std::cmp::min(self.alone_last * 2 + 1, ALONE_MAX);
            self.alone = self.alone_last;
            return false;
        }
        self.look_at = Some(now + std::cmp::max(wait_max / LOOKS, LOOK_MIN));
        true
    }
}
