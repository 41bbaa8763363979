//! Whether a stream stays at the leg that it is read by.

use heliostat_types::{LEGS_MAX, LegId};

use super::{
    Choice, FAR_FASTER, STREAM_GAIN, STREAM_MOVE_BYTES, STREAM_MOVES, STREAM_STAYS, STREAMS_GAIN,
};
use crate::policies::adaptive::streams::{RUN_BYTES_MIN, Stream};

const READS_AHEAD: &str = "was to read it ahead";

impl Choice<'_> {
    /// A stream alone: each read by itself, so that a deep one runs on several arms in turns.
    /// Otherwise a stream stays, unless it gains by moving for good.
    pub(super) fn place_of_stream(&self, best: usize, home: usize, stream: &Stream) -> usize {
        let forecast = &self.forecasts[home];
        let is_alone = self.streams.active(self.now) < 2;
        if !forecast.is_well || stream.run_bytes == 0 {
            return best;
        }
        let size = self.extent.len();
        if stream.run_bytes < RUN_BYTES_MIN.get() {
            return if is_alone {
                self.among_equals(best)
            } else if let Some(flash) = self.far_faster(home, size) {
                self.by(STREAM_MOVES, flash)
            } else {
                self.by(STREAM_STAYS, home)
            };
        }
        let mut here = [0u32; LEGS_MAX];
        self.streams.count(self.now, &mut here);
        let streams = |at: usize| here[self.views[at].leg.index()];
        let work =
            |at: usize, count: u32| count as f32 * self.leg(at).slowness(self.leg(home), size);
        let mut place = home;
        let mut lowest = work(home, streams(home)) * STREAMS_GAIN.get();
        for at in self.places().filter(|at| self.are_disks(*at, home)) {
            let cost = work(at, streams(at) + 1);
            if cost <= lowest {
                lowest = cost;
                place = at;
            }
        }
        if place != home {
            return self.by(STREAM_MOVES, place);
        }
        if is_alone {
            return self.among_equals(best);
        }
        let own = self.leg(home).run_in_flight(self.views[home].address, size);
        let mut lowest = forecast.cost * STREAM_GAIN.get();
        for at in self.places() {
            let cost = self.leg(at).stream_cost(size, own, STREAM_MOVE_BYTES.get());
            let may = at != home && !self.are_disks(at, home);
            if may && self.forecasts[at].is_well && cost < lowest {
                lowest = cost;
                place = at;
            }
        }
        let is_moved = place != home;
        let reason = if is_moved { STREAM_MOVES } else { STREAM_STAYS };
        self.by(reason, place)
    }

    /// The place of the disk that is to read it ahead, unless that is slow now: it comes by there
    /// anyway, and the arms of others would leave where they are for it.
    pub(in super::super) fn planned(&self, leg: LegId) -> Option<usize> {
        let is_it = |at: &usize| self.views[*at].leg == leg && self.forecasts[*at].is_well;
        let place = self.places().find(is_it)?;
        self.settings.locality.then(|| self.by(READS_AHEAD, place))
    }

    /// Flash that reads a stream in a fraction of the time that the disk `home` takes: there is no
    /// run that would be worth that.
    fn far_faster(&self, home: usize, size: u64) -> Option<usize> {
        if !self.forecasts[home].turns {
            return None;
        }
        let most = self.forecasts[home].cost / FAR_FASTER.get();
        let cost = |at: usize| self.leg(at).stream_cost(size, 0, STREAM_MOVE_BYTES.get());
        let is_fast = |at: &usize| {
            let forecast = &self.forecasts[*at];
            !forecast.turns && forecast.is_well && cost(*at) < most
        };
        let fast = self.places().filter(is_fast);
        fast.min_by(|one, other| cost(*one).total_cmp(&cost(*other)))
    }
}
