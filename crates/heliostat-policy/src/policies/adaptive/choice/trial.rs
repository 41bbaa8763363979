//! Legs that it is time to try.

use super::{Choice, NOT_READ_FOR_LONG};
use crate::policies::adaptive::leg::{Forecast, Size};
use crate::policies::adaptive::tries;

impl Choice<'_> {
    /// A leg that it is time to try, though not with a read of a stream, which would cost an arm
    /// two seeks.
    pub(super) fn trial(&self, best: usize) -> Option<usize> {
        if self.stream.is_some() {
            return None;
        }
        let least = self.forecasts[best].cost;
        let size = Size::of(self.extent.len());
        // Beside how many legs the best one is busy, if it is.
        let busy = || {
            let flash = self.places().filter(|at| !self.forecasts[*at].turns);
            let idle = flash.map(|at| self.leg(at).least_cost(size));
            let idle = idle.fold(f32::INFINITY, f32::min);
            let is_busy = !self.forecasts[best].turns && tries::is_busy(least, idle);
            let others = u32::try_from(self.views.len() - 1).unwrap_or(u32::MAX);
            if is_busy { others } else { 0 }
        };
        let mut forecasts = self.forecasts.iter().enumerate();
        let is_due = |(at, forecast): (usize, &Forecast)| {
            let may = forecast.in_flight == 0 && at != best;
            may && self.leg(at).is_due(self.now, (forecast.cost, least), busy)
        };
        forecasts.position(is_due)
    }

    /// What the best leg is predicted to take, where another one is tried; else nothing.
    pub(in super::super) fn rival_ns(&self) -> f32 {
        if self.reason.get() == NOT_READ_FOR_LONG {
            self.forecasts[self.lowest()].cost
        } else {
            0.0
        }
    }
}
