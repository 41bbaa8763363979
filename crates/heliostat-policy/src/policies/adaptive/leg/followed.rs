//! A read that is in flight, and what was expected of it.

use heliostat_types::Instant;

use super::{Leg, STALL_RATIO_MIN, STALLED_READS, STALLED_SHARE, TINY};

/// A read that the leg has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Followed {
    pub(super) address: u64,
    pub(super) began: Instant,
    pub(super) predicted_ns: f32,
    /// What it may take at this load and of this length, which may never have been seen.
    pub(super) longest_ns: f32,
    pub(super) load: f32,
    /// The root of the way to it, where it met an idle leg and continued nothing.
    pub(super) root: Option<f32>,
    pub(super) curve: u8,
    /// What is known of the leg is old.
    pub(super) is_stale: bool,
    /// What another leg was predicted to take, where this one was tried.
    pub(super) rival_ns: f32,
    /// It may be answered from a cache, and tells nothing of others.
    pub(super) is_repeat: bool,
    /// Another one of the same address is in flight: whose answer it is nobody knows.
    pub(super) is_twice: bool,
    pub(super) is_used: bool,
}

impl Leg {
    /// Whether an answer of a leg that is well came so late that it says nothing of others, unless
    /// that is usual. Reads from before `round_from` have met the same pause as others.
    pub(super) fn note_stall(
        &mut self,
        followed: &Followed,
        time_ns: f32,
        round_from: Instant,
    ) -> bool {
        let is_stall = !self.turns && time_ns > STALL_RATIO_MIN.get() * followed.longest_ns;
        if !is_stall || followed.began >= round_from {
            let share = f32::from(u8::from(is_stall));
            let stalled = self.stalled + (share - self.stalled) / STALLED_READS.get();
            self.stalled = if stalled < TINY { 0.0 } else { stalled };
        }
        is_stall && self.stalled < STALLED_SHARE.get()
    }
}
