//! What each leg is to read first of all stretches: what was planned first.

use heliostat_types::{Instant, LEGS_MAX};

use crate::api::Layout;
use crate::constants::constants;

use super::ReadAhead;
use super::helper::Helpers;

constants! { "firsts":
    /// A disk of a RAID10 that is busy with what readers ask for themselves reads of a stretch that
    /// has waited for as many ways, a third longer than it takes to read one: nothing else makes
    /// them ask for less.
    WAITS: f32 = times(16.0);
}

/// The stretch that a leg is to read first.
#[derive(Clone, Copy, Debug)]
pub(super) struct First {
    /// Which one that is; `u64::MAX`: none.
    pub(super) number: u64,
    /// When it became the first, or the leg was asked for some of it last.
    pub(super) since: Instant,
    /// Whether that is too long ago, as the leg is never idle.
    pub(super) is_overdue: bool,
}

impl First {
    pub(super) const NONE: Self = Self {
        number: u64::MAX,
        since: Instant::ZERO,
        is_overdue: false,
    };
}

impl ReadAhead {
    /// What each leg is to read first.
    pub(super) fn find_firsts(&mut self, now: Instant, helpers: &Helpers, layout: &dyn Layout) {
        let mut numbers = [u64::MAX; LEGS_MAX];
        let active = self.streams.iter().filter(|one| one.is_active(now));
        for stretch in active.flat_map(|stream| &stream.stretches) {
            let number = &mut numbers[stretch.leg.index()];
            *number = stretch.number.min(*number);
        }
        for (first, number) in self.firsts.iter_mut().zip(numbers) {
            let is_new = first.number != number;
            *first = First {
                number,
                since: if is_new { now } else { first.since },
                is_overdue: false,
            };
        }
        if layout.chunk_bytes().is_none() {
            return;
        }
        for helper in helpers.iter().filter(|helper| helper.turns) {
            let first = &mut self.firsts[helper.leg.index()];
            let waits_ns = now.saturating_since(first.since).as_ns() as f32;
            let is_late = waits_ns > WAITS.get() * helper.way_ns;
            first.is_overdue = first.number != u64::MAX && is_late;
        }
    }
}
