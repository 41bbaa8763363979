//! Among which legs a read may be cut.

use super::{
    CUT_EQUAL, CUT_NS, CUT_PAUSES, CUT_PAUSES_TIMES, CUT_READS, CUT_TIMES, CUT_TIMES_WRITTEN,
    Choice, Places,
};
use crate::choice::piece_bytes;
use crate::policies::adaptive::leg::Size;
use crate::policies::adaptive::split;

impl Choice<'_> {
    /// The flash that does a part of this read about as soon as the leg at `best` does all of it:
    /// none that is slow, or saturated, where one command more is one too many, or stalls or
    /// pauses, which would hold up every read.
    pub(in super::super) fn alike(&self, best: usize) -> Places {
        // By the leg that is read most: of one that is hardly read all operations are writes.
        let are_written = self.forecasts[best].is_written;
        let is_known = |at: &usize| {
            let forecast = &self.forecasts[*at];
            let is_known = forecast.is_well && !forecast.is_tried && !forecast.is_trial;
            let is_ready = is_known && !forecast.turns && !forecast.is_saturated(self.weight(*at));
            // That a read waits for a block that is being written is no stall.
            is_ready && (forecast.is_written || !self.leg(*at).stalls(self.now))
        };
        let known = Places::of(self.places().filter(is_known));
        let paused_share = |at: usize| self.leg(at).paused_share(self.now);
        let least_paused = known.iter().map(paused_share).fold(f32::INFINITY, f32::min);
        let most_paused = least_paused * CUT_PAUSES_TIMES.get() + CUT_PAUSES.get();
        let is_calm = |at: &usize| paused_share(*at) <= most_paused;
        let ready = Places::of(known.iter().filter(is_calm));
        // A leg that is read to see what it does by now says so alone.
        if ready.having(best).count() == 0 {
            return Places(0);
        }
        let times = if are_written {
            CUT_TIMES_WRITTEN.get()
        } else {
            CUT_TIMES.get()
        };
        let limit = |least: f32| least * times + CUT_NS.get();
        let most = limit(self.forecasts[self.lowest()].cost);
        // Where each has a read, or none, now one has more to do and now another one.
        let whole = Size::of(self.extent.len());
        let idle = |at: usize| self.leg(at).idle_cost(whole);
        let ready = || ready.iter();
        let has_few = |at: usize| self.forecasts[at].in_flight <= CUT_READS.get();
        let have_few = !are_written && ready().all(has_few);
        let least_idle = ready().map(idle).fold(f32::INFINITY, f32::min);
        // One that says nothing now costs more than what it has to do.
        let most_behind = self.forecasts[self.lowest()].cost * CUT_TIMES_WRITTEN.get();
        let is_equal = |at: usize| {
            let is_silent = self.forecasts[at].cost > most_behind;
            let is_known = have_few && !is_silent && idle(at).is_finite();
            is_known && idle(at) <= least_idle * CUT_EQUAL.get()
        };
        let is_alike = |at: &usize| self.forecasts[*at].cost <= most || is_equal(*at);
        let alike = Places::of(ready().filter(is_alike));
        let parts = split::parts(self.extent.len(), alike.count().max(1));
        let size = Size::of(piece_bytes(self.extent.len(), parts));
        let cost = |at: usize| self.leg(at).part_cost(self.now, size);
        let Some(least) = alike.iter().filter_map(cost).reduce(f32::min) else {
            return alike.having(best);
        };
        // On one that has a read it waits for that, and for a part where all are cut.
        let limit = |at: usize| {
            if is_equal(at) && self.forecasts[at].in_flight > 0 {
                least * CUT_TIMES_WRITTEN.get()
            } else {
                limit(least)
            }
        };
        let is_quick = |at: &usize| cost(*at).is_none_or(|cost| cost <= limit(*at));
        Places::of(alike.iter().filter(is_quick)).having(best)
    }
}
