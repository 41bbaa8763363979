//! Which leg was picked longest ago: the order in which device-mapper's path selectors keep equal
//! paths.

use heliostat_types::{LEGS_MAX, LegId};

/// When each leg was last picked, counted in picks.
#[derive(Debug, Default)]
pub(crate) struct Recency {
    picks: u64,
    picked_at: [u64; LEGS_MAX],
}

impl Recency {
    /// The pick at which `leg` was last picked, 0 where it never was: lower is longer ago.
    pub(crate) const fn picked_at(&self, leg: LegId) -> u64 {
        self.picked_at[leg.index()]
    }

    /// `leg` is picked now.
    pub(crate) const fn note(&mut self, leg: LegId) {
        self.picks += 1;
        self.picked_at[leg.index()] = self.picks;
    }
}
