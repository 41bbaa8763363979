//! Hedges: when a read is late, and when a second leg is asked for it.

use heliostat_types::{Duration, Extent, Instant, LegId};

use super::leg::{Leg, Size};
use crate::api::{Late, LateRead, LegView};
use crate::constants::constants;
use crate::stream_index::place_of;

constants! { "hedge":
    /// A second leg is asked where what remains takes 1.5 times as long as its answer would: it is
    /// work that others wait for. Where few hedges are left it takes up to six times more, so that
    /// reads that are a little late do not use up what is there for those that wait for a pause to
    /// end.
    GAIN: f32 = times(1.5);
    GAIN_LAST: f32 = number(6.0);
    /// Of 1,000 reads four are hedged at most: pauses of 5 ms each 60 ms, which are frequent ones,
    /// make two of 1,000 late. So many may be saved up.
    PER_READ: f32 = number(0.004);
    SAVED_MAX: f32 = number(32.0);
    /// Who waits for parts, or for what is read ahead, waits for all legs again before long: a
    /// pause comes to all, and a second leg is asked only where it is a stall.
    PART_NS: f32 = ns(20e6);
}
/// Reads under way whose prediction is remembered, by a hash of their address.
const EXPECTED: usize = 256;

#[derive(Debug)]
pub(super) struct Hedges {
    saved: f32,
    /// Where the read begins, and what was predicted of it in ns.
    expected: Vec<(u64, f32)>,
}

impl Default for Hedges {
    fn default() -> Self {
        Self {
            saved: 0.0,
            expected: vec![(u64::MAX, 0.0); EXPECTED],
        }
    }
}

impl Hedges {
    /// A client has asked for something.
    pub(super) fn earn(&mut self) {
        self.saved = (self.saved + PER_READ.get()).min(SAVED_MAX.get());
    }

    /// A read is with `leg`: after which time it is late.
    pub(super) fn late_after(
        &mut self,
        offset: u64,
        leg: &Leg,
        address: u64,
        is_part: bool,
    ) -> Option<Duration> {
        let (late_ns, predicted_ns) = leg.late_after(address)?;
        let least_ns = if is_part { PART_NS.get() } else { 0.0 };
        let late_ns = late_ns.max(least_ns);
        self.expected[place_of(offset)] = (offset, predicted_ns);
        Some(Duration::from_secs_f64(f64::from(late_ns) / 1e9))
    }

    /// What is done about a read that is late.
    pub(super) fn on_late(
        &mut self,
        now: Instant,
        extent: Extent,
        late: LateRead,
        legs: &[Leg],
        views: &[LegView],
    ) -> Late {
        let (of, predicted_ns) = self.expected[place_of(extent.offset())];
        let age = now.saturating_since(late.sent);
        let leg = &legs[late.leg.index()];
        let predicted_ns = if of == extent.offset() {
            predicted_ns
        } else {
            // Others were sent since. It was late before it came to that.
            leg.least_cost(Size::of(extent.len()))
        };
        if leg.is_busy(now) {
            return Late::LookAgain(age);
        }
        let remaining_ns = leg.remaining_ns(age.as_ns() as f32, predicted_ns);
        match cheapest(now, extent.len(), legs, views) {
            Some((leg, cost)) if cost * self.gain() < remaining_ns && self.saved >= 1.0 => {
                self.saved -= 1.0;
                Late::Hedge(leg)
            }
            _ => Late::LookAgain(age),
        }
    }

    fn gain(&self) -> f32 {
        GAIN.get() + GAIN_LAST.get() * (1.0 - self.saved / SAVED_MAX.get())
    }
}

/// The leg that is predicted to end a read of `size` bytes first, of those that are well.
fn cheapest(now: Instant, size: u64, legs: &[Leg], views: &[LegView]) -> Option<(LegId, f32)> {
    let size = Size::of(size);
    let forecasts = views.iter().filter_map(|view| {
        let leg = &legs[view.leg.index()];
        let forecast = leg.forecast(now, size, false, true);
        let cost = forecast.cost * leg.suspected_factor(view);
        (forecast.is_well && !forecast.is_trial).then_some((view.leg, cost))
    });
    forecasts.min_by(|(_, a), (_, b)| a.total_cmp(b))
}
