//! Among which legs a read may be cut.

use super::{CUT_NS, CUT_TIMES, CUT_TIMES_WRITTEN, Choice, Places};
use crate::choice::piece_bytes;
use crate::policies::adaptive::leg::Size;
use crate::policies::adaptive::split;

impl Choice<'_> {
    /// The flash that does a part of this read about as soon as the leg at `best` does all of it:
    /// none that is slow, or saturated, where one command more is one too many, or stalls, which
    /// would hold up every read.
    pub(in super::super) fn alike(&self, best: usize, is_of_stream: bool) -> Places {
        // By the leg that is read most: of one that is hardly read all operations are writes.
        let are_written = self.forecasts[best].is_written;
        let is_ready = |at: &usize| {
            let forecast = &self.forecasts[*at];
            let is_known = forecast.is_well && !forecast.is_tried && !forecast.is_trial;
            let is_ready = is_known && !forecast.turns && !forecast.is_saturated(self.weight(*at));
            // That a read waits for a block that is being written is no stall.
            is_ready && (forecast.is_written || !self.leg(*at).stalls(self.now))
        };
        // A leg that is read to see what it does by now says so alone.
        if !is_ready(&best) {
            return Places(0);
        }
        let times = if are_written {
            CUT_TIMES_WRITTEN.get()
        } else {
            CUT_TIMES.get()
        };
        let ready = Places::of(self.places().filter(is_ready));
        let (quick, are_known) = self.quick_with_parts(ready, times);
        // Reads of streams are all cut, and what a whole one would take is not known any more.
        if are_known && is_of_stream && !are_written {
            return quick.having(best);
        }
        let most = self.forecasts[self.lowest()].cost * times + CUT_NS.get();
        let is_alike = |at: &usize| self.forecasts[*at].cost <= most;
        let alike = Places::of(ready.iter().filter(is_alike));
        self.quick_with_parts(alike, times).0.having(best)
    }

    /// Of these legs those that do a part of this read about as soon as the first of them, or of
    /// which nothing is known, and whether there is none of these.
    fn quick_with_parts(&self, legs: Places, times: f32) -> (Places, bool) {
        let parts = split::parts(self.extent.len(), legs.count().max(1));
        let size = Size::of(piece_bytes(self.extent.len(), parts));
        let cost = |at: usize| self.leg(at).part_cost(self.now, size);
        let least = legs.iter().filter_map(cost).fold(f32::INFINITY, f32::min);
        let most = least * times + CUT_NS.get();
        let is_quick = |at: &usize| cost(*at).is_none_or(|cost| cost <= most);
        let are_known = legs.iter().all(|at| cost(at).is_some());
        (Places::of(legs.iter().filter(is_quick)), are_known)
    }
}
