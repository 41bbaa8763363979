//! Which of several disks: where the arm is nearest, or in turns.

use heliostat_types::Instant;

use super::{
    ALIKE, BY_SHARES, Choice, DISKS_IN_TURNS, GROUP, IN_TURNS, NEAREST, Places, SPILL_READS,
    STAYS_AT_READS, STAYS_TIMES, WAY_TIE,
};
use crate::policies::adaptive::leg::Forecast;

impl Choice<'_> {
    /// Whether the leg at a place turns as the best one does.
    pub(super) fn is_in_group(&self, at: usize, best: usize) -> bool {
        let (forecast, best) = (&self.forecasts[at], &self.forecasts[best]);
        let limit = GROUP.get() * best.idle_cost();
        // What has more to do is not idle, and may have more to write by now than it had then: the
        // more there is to do the less each takes, but for that.
        let has_less = || forecast.in_flight <= best.in_flight;
        let is_as_fast = || forecast.each() <= GROUP.get() * best.each();
        let is_free = forecast.is_well && forecast.is_free_disk;
        is_free && forecast.idle_cost() <= limit && (has_less() || is_as_fast())
    }

    /// Among hard disks: the nearest arm, first of all of those that are idle. Beside saturated
    /// flash, which is `least`, of those that are worth the wait.
    pub(super) fn nearest(&self, best: usize, least: usize) -> usize {
        if !self.forecasts[best].is_free_disk {
            return best;
        }
        let is_worth = |at| self.forecasts[least].turns || self.is_worth_its_wait(at, least);
        let may = |at: &usize| {
            self.is_in_group(*at, best) && !self.forecasts[*at].holds_up && is_worth(*at)
        };
        let group = Places::of(self.places().filter(may));
        let in_flight = |at: usize| self.forecasts[at].in_flight;
        let least = group.iter().map(in_flight).min().unwrap_or(0);
        if group.are_several() {
            self.reason.set(NEAREST);
        }
        let own = |at: &usize| self.views[*at].own_outstanding;
        let fewest = group.iter().min_by_key(|at| (own(at), in_flight(*at)));
        let has_more = |fewest| group.iter().any(|at| own(&at) > own(&fewest));
        if let Some(fewest) = fewest.filter(|fewest| least > 0 && has_more(*fewest)) {
            return self.by(BY_SHARES, fewest);
        }
        if least == 0 && self.forecasts[best].is_written {
            if let Some(busy) = self.better_than_idle(&group) {
                return self.by(STAYS_AT_READS, busy);
            }
            return self.in_turns(best, |forecast| forecast.in_flight == 0);
        }
        if !group.iter().any(|at| self.leg(at).distance_tells()) {
            // Writes move all arms, unseen, or all ways are short: turns are left. It is never the
            // turn of a busy disk while another one is idle.
            let most = if least == 0 {
                0
            } else {
                least.saturating_add(1)
            };
            let place = group
                .iter()
                .filter(|at| in_flight(*at) <= most)
                .min_by_key(|at| self.leg(*at).last_read_at());
            let place = place.unwrap_or(best);
            if group.are_several() {
                self.reason.set(DISKS_IN_TURNS);
            }
            return place;
        }
        let most = match least {
            0 => return self.nearest_idle(best),
            1 => 2,
            _ => least.saturating_add(least.max(SPILL_READS.get())),
        };
        let mut place = best;
        let mut nearest = (u64::MAX, u32::MAX);
        for at in group.iter().filter(|at| in_flight(*at) <= most) {
            // After a write all arms stand in the same place.
            let way = self.leg(at).way_bytes(self.views[at].address);
            if (way, in_flight(at)) < nearest {
                nearest = (way, in_flight(at));
                place = at;
            }
        }
        place
    }

    /// A drive that has nothing else to do writes what it was given, and a read waits for that; one
    /// that has a read does not begin with it. The disk with one, if it does more by a second one
    /// than any that is idle by its first.
    fn better_than_idle(&self, group: &Places) -> Option<usize> {
        let forecast = |at: &usize| &self.forecasts[*at];
        let worth = |at: &usize| forecast(at).worth(self.leg(*at).load());
        let best_of = |in_flight| {
            let may = move |at: &usize| {
                let forecast = forecast(at);
                forecast.in_flight == in_flight && (in_flight == 0 || forecast.only_reads)
            };
            let those = group.iter().filter(may);
            those.max_by(|one, other| worth(one).total_cmp(&worth(other)))
        };
        let (busy, idle) = (best_of(1)?, best_of(0)?);
        (worth(&busy) * STAYS_TIMES.get() > worth(&idle)).then_some(busy)
    }

    /// A drive writes what it was given when it has time, and its arm is anywhere then: of those
    /// that may be it, and are about as fast as the best, the one that had most time.
    pub(super) fn in_turns(&self, best: usize, may: impl Fn(&Forecast) -> bool) -> usize {
        let limit = self.forecasts[best].idle_cost() * IN_TURNS.get();
        let is_alike = |at: &usize| {
            let forecast = &self.forecasts[*at];
            self.is_in_group(*at, best) && forecast.idle_cost() <= limit && may(forecast)
        };
        let place = self.places().filter(is_alike);
        let place = place.min_by_key(|at| self.leg(*at).last_read_at());
        self.by(DISKS_IN_TURNS, place.unwrap_or(best))
    }

    fn nearest_idle(&self, best: usize) -> usize {
        let is_idle = |at: &usize| self.forecasts[*at].in_flight == 0;
        let in_group = |at: &usize| self.is_in_group(*at, best);
        let idle = Places::of(self.places().filter(is_idle).filter(in_group));
        // One line for all: what each has learned alone differs by chance, and an arm that seems
        // nearer by that would get all reads.
        let lines = || idle.iter().filter_map(|at| self.leg(at).arm().line());
        let count = lines().count() as f32;
        let base = lines().map(|line| line.base).sum::<f32>() / count.max(1.0);
        let slope = lines().map(|line| line.slope).sum::<f32>() / count.max(1.0);
        let slope = if count > 0.0 { slope } else { 1.0 };
        let mut place = best;
        let mut lowest = f32::INFINITY;
        let mut first = (u64::MAX, Instant::MAX);
        for at in idle.iter() {
            let leg = self.leg(at);
            let ratio = leg.arm().ratio_to(base, slope).unwrap_or(1.0);
            let is_alike = ratio < ALIKE.get() && ratio * ALIKE.get() > 1.0;
            let scale = if is_alike { 1.0 } else { ratio };
            let way = scale * (base + slope * leg.way_root(self.views[at].address));
            let tie = WAY_TIE.get() * base;
            // The further out, the faster; and whoever stays there has no way the next time.
            let rank = (self.views[at].address, leg.progress_at());
            if way < lowest - tie || way < lowest + tie && rank < first {
                lowest = way;
                place = at;
                first = rank;
            }
        }
        place
    }
}
