//! Whether a stream stays at the leg that it is read by.

use heliostat_types::{LEGS_MAX, LegId};

use super::{
    Choice, FAR_FASTER, GROUP, STREAM_GAIN, STREAM_LUCK, STREAM_MOVE_BYTES, STREAM_MOVES,
    STREAM_STAYS, STREAMS_GAIN,
};
use crate::policies::adaptive::leg::Size;
use crate::policies::adaptive::streams::{RUN_BYTES_MIN, Stream};

const READS_AHEAD: &str = "was to read it ahead";

impl Choice<'_> {
    /// The place where a stream goes on, on flash that is written and alike, if streams are as many
    /// as these legs, and the best one has no fewer of them, nor is predicted to end the read far
    /// sooner.
    pub(super) fn stays_on_flash(&self, best: usize) -> Option<usize> {
        let stream = self.stream.filter(|stream| stream.is_long())?;
        if self.disks > 0 || !self.settings.locality {
            return None;
        }
        let home = self.places().find(|at| self.is_at(stream, *at))?;
        let forecast = &self.forecasts[home];
        let is_near = forecast.cost <= STREAM_LUCK.get() * self.forecasts[best].cost;
        // Where nothing is on its way nobody is disturbed.
        let are_idle = self.views.iter().all(|view| view.reads_in_flight == 0);
        if are_idle || !forecast.is_well || !forecast.is_written || !is_near || self.is_behind(home)
        {
            return None;
        }
        let size = Size::of(self.extent.len());
        let least = || self.places().map(|at| self.leg(at).least_cost(size));
        let (fastest, slowest) = (least().reduce(f32::min)?, least().reduce(f32::max)?);
        let mut here = [0u32; LEGS_MAX];
        self.streams.count_long(self.now, &mut here);
        let streams = |at: usize| here[self.views[at].leg.index()];
        // In a RAID10 some are at chunks that these legs do not hold, and come here next.
        let count = self.places().map(streams).sum::<u32>();
        let are_enough = count as usize >= self.views.len() && count == here.iter().sum();
        let stays = are_enough && streams(home) <= streams(best);
        (stays && slowest <= GROUP.get() * fastest).then_some(home)
    }

    /// Whether a read goes on there for this reason: then it is not cut.
    pub(in super::super) fn stays(&self, reason: &'static str) -> bool {
        self.disks == 0 && reason == STREAM_STAYS
    }

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
