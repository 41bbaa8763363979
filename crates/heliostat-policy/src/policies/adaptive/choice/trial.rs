//! Legs that it is time to try.

use super::{Choice, NOT_READ_FOR_LONG};
use crate::policies::adaptive::leg::{Forecast, Size};
use crate::policies::adaptive::tries::{self, Busy};

const DEEPER: &str = "deeper than of late";

impl Choice<'_> {
    /// A leg that it is time to try. With a read of a stream that is only flash which is written,
    /// and is known by little else, or which was slow not long ago: an arm would lose two seeks by
    /// it, and who reads in sequence waits for each read that slower flash is handed.
    pub(super) fn trial(&self, best: usize) -> Option<usize> {
        let is_for = |at: usize, forecast: &Forecast| {
            self.stream.is_none() || forecast.is_written || self.leg(at).was_slow(self.now)
        };
        if self.stream.is_some() && self.forecasts.iter().any(|forecast| forecast.turns) {
            return None;
        }
        let least = self.forecasts[best].cost;
        let size = Size::of(self.extent.len());
        let busy = || {
            let forecast = &self.forecasts[best];
            let idle = if forecast.turns {
                forecast.idle_cost()
            } else {
                let flash = self.places().filter(|at| !self.forecasts[*at].turns);
                let idle = flash.map(|at| self.leg(at).least_cost(size));
                idle.fold(f32::INFINITY, f32::min)
            };
            tries::is_longer(least, idle).then(|| Busy {
                others: u32::try_from(self.views.len() - 1).unwrap_or(u32::MAX),
                in_flight: forecast.in_flight,
            })
        };
        let mut forecasts = self.forecasts.iter().enumerate();
        let is_due = |(at, forecast): (usize, &Forecast)| {
            let may = forecast.in_flight == 0 && at != best && is_for(at, forecast);
            let is_beside_flash = !self.forecasts[best].turns;
            // A disk is not odd for what writes would lose by it.
            let cost = if is_beside_flash {
                forecast.own_cost
            } else {
                forecast.cost
            };
            may && self
                .leg(at)
                .is_due(self.now, (cost, least), is_beside_flash, busy)
        };
        let due = forecasts.position(is_due);
        due.map(|at| self.by(NOT_READ_FOR_LONG, at))
            .or_else(|| Some(self.by(DEEPER, self.deeper(best, size)?)))
    }

    /// Flash that is read, and might be read more: beside some that is busy and does more, where it
    /// has not had as much of late as it would have with this read.
    fn deeper(&self, best: usize, size: Size) -> Option<usize> {
        let forecast = &self.forecasts[best];
        let least = forecast.cost;
        let is_busy = || tries::is_longer(least, self.leg(best).least_cost(size));
        if self.places().len() == 1 || forecast.turns || !is_busy() {
            return None;
        }
        // By Little's law, with this read.
        let rate = |one: &Forecast| one.in_flight.saturating_add(1) as f32 / one.cost;
        let is_due = |at: &usize| {
            let other = &self.forecasts[*at];
            let may = *at != best && other.in_flight > 0 && !other.turns && other.is_well;
            let does_less = may && rate(other) < tries::DEEPER_SHARE.get() * rate(forecast);
            let is_due = does_less && self.leg(*at).is_due_deeper(size, (other.cost, least));
            is_due && (self.stream.is_none() || self.is_doubted(best, *at, size))
        };
        self.places().find(is_due)
    }

    /// Whether flash that nobody writes was slow not long ago, and is predicted to take longer than
    /// the best would with as much to do.
    fn is_doubted(&self, best: usize, at: usize, size: Size) -> bool {
        let (forecast, leg) = (&self.forecasts[at], self.leg(at));
        let with_as_much = self.leg(best).cost_at(size, leg.load());
        let is_longer = tries::is_longer(forecast.cost, with_as_much);
        !forecast.is_written && leg.was_slow(self.now) && is_longer
    }

    /// What the best leg is predicted to take, where another one is tried, with a whole read; else
    /// nothing.
    pub(in super::super) fn rival_ns(&self) -> f32 {
        if [NOT_READ_FOR_LONG, DEEPER].contains(&self.reason.get()) {
            self.forecasts[self.lowest()].cost
        } else {
            0.0
        }
    }

    /// What the best flash of all others that have nothing to do is predicted to take, where the
    /// one at `place` is slow; else infinitely long. Of those that have, others would wait.
    pub(in super::super) fn others_ns(&self, place: usize) -> f32 {
        let forecast = &self.forecasts[place];
        if forecast.is_well || forecast.turns {
            return f32::INFINITY;
        }
        let others = self.places().filter(|at| *at != place);
        let others = others.map(|at| &self.forecasts[at]);
        let idle = others.filter(|other| !other.turns && other.in_flight == 0);
        idle.map(|other| other.cost).fold(f32::INFINITY, f32::min)
    }
}
