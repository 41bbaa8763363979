//! Blocks that are read again.

use heliostat_types::LegId;

use super::{AGAIN_TIMES, Choice};
use crate::policies::adaptive::leg::{Forecast, Size};

impl Choice<'_> {
    /// A leg that has read the same block of late may have it still: it costs less by what that was
    /// seen to save. Only where another leg takes about as long: else what is cached is not what
    /// decides.
    pub(super) fn prefer_recent(
        &self,
        recent: Option<LegId>,
        size: Size,
        forecasts: &mut [Forecast],
    ) {
        let Some(recent) = recent.filter(|_| size.is_small()) else {
            return;
        };
        let place = self.views.iter().position(|view| view.leg == recent);
        let is_flash = |at: &usize| forecasts[*at].is_well && !forecasts[*at].turns;
        let Some(place) = place.filter(is_flash) else {
            return;
        };
        let load = self.leg(place).load();
        let own = self.leg(place).cost_at(size, load);
        let is_alike = |at: usize| {
            let other = self.leg(at).cost_at(size, load);
            at != place && own.max(other) <= own.min(other) * AGAIN_TIMES.get()
        };
        if !(0..forecasts.len()).any(is_alike) {
            return;
        }
        let saved = 1.0 - self.leg(place).repeat_times();
        let forecast = &mut forecasts[place];
        // Behind a queue, and a short one is enough, it saves nothing.
        let gain = forecast.gain() * forecast.gain();
        forecast.cost *= 1.0 - saved * gain * gain;
    }
}
