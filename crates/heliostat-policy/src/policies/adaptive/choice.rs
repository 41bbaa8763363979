//! The rule: which of the candidates serves this read.

mod again;
mod alike;
mod nearest;
mod stays;
mod trial;

use std::cell::Cell;

use heliostat_types::{Duration, Extent, Instant, LegId, LegSet};

use super::Settings;
use super::leg::{Forecast, Leg, Size};
use super::streams::{Stream, Streams};
use crate::api::LegView;
use crate::choice::{STRIPE_BYTES, modulo};
use crate::constants::constants;
use crate::read_ahead::ReadAhead;

constants! { "choice":
    /// Costs within 5 % and 2 us are equal: curves are not known better than that, and where
    /// nothing is lost a read goes where its neighbours went.
    BAND: f32 = times(1.05);
    BAND_NS: f32 = ns(2_000.0);

    /// Of equal legs those are alike whose queues differ by a fourth: turns spread reads of the
    /// same few blocks better than counting does, because in a drive these wait for each other.
    TIE_READS: u32 = count(4);

    /// A stream moves to a disk only where it leaves one with a fourth more to do, so that streams
    /// that are spread evenly stay where they are: 3 to 2 is no reason, 4 to 2 is one.
    STREAMS_GAIN: f32 = times(0.8);
    /// Between a disk and a leg of another kind it moves only if it takes 0.6 times as long there.
    STREAM_GAIN: f32 = times(0.6);
    /// From a disk it moves at once where flash takes an eighth of the time.
    FAR_FASTER: f32 = times(8.0);
    /// On flash that is written one of many moves where the read takes twice as long here: what
    /// takes less is a matter of luck, and of two reads on two legs the reader waits for the later
    /// one.
    STREAM_LUCK: f32 = times(2.0);
    /// What a move costs, a seek, is spread over a fourth of the least run.
    STREAM_MOVE_BYTES: u64 = bytes(16 << 20);

    /// Where all legs are disks that are written, the only stream stays on one for so long, also
    /// where writes wait for it: a disk writes what it has while others are read, and two short
    /// ways of an arm take a sixth of the time. Where that is not the best any more, it is another
    /// one's turn then.
    STAYS_BYTES: u64 = bytes(12 << 20);
    /// And not where none was sent for so long, several seeks, since it waits for its turn: that
    /// disk has more to write than it can.
    STAYS_WHILE: Duration = time(Duration::from_ms(100));

    /// A disk holds up writes where it has two more than another leg, or the other has no arm. A
    /// read that is sent there has to gain a factor of four by that.
    WRITES_MORE: u32 = count(1);
    HOLDS_UP: f32 = times(4.0);

    /// The same for a disk that reads streams, where another one is left to random reads.
    OF_STREAMS: f32 = times(4.0);

    /// Disks that an idle read takes twice as long on are no alternative however near their arm is.
    GROUP: f32 = times(2.0);
    /// Or on which one takes 1.45 times as long, where they take turns.
    IN_TURNS: f32 = times(1.45);
    /// What a disk that goes on reading does more than is seen: it writes more at once later.
    STAYS_TIMES: f32 = times(1.2);
    /// Idle ways that differ by 2 % are equal, and the leg that was idle for longest gets the read.
    WAY_TIE: f32 = number(0.02);
    /// Disks whose mean times are within 15 % turn alike: the rest is chance in what was learned.
    ALIKE: f32 = times(1.15);
    /// A busy arm that is near may have twice the queue of the least busy one, and six reads more,
    /// so that no arm is left without work by that.
    SPILL_READS: u32 = count(6);

    /// A block that is read again may be in the cache of the leg that read it. Of legs that take
    /// 1.4 times as long at most it decides: where they differ more, the faster one reads it.
    AGAIN_TIMES: f32 = times(1.4);

    /// No disk gets a read for its throughput that takes four times as long there.
    WORTH_TIMES: f32 = times(4.0);

    /// A disk beside flash that is saturated gets reads where one by itself is one in 200 of those
    /// that are answered meanwhile: less is no gain, and those take longest.
    DISK_READS: f32 = number(200.0);
    /// As many as end before the flash has answered a hundred others, and five times all that are
    /// in flight: an arm does half as many again where it can sort them, and who has many in flight
    /// waits for long anyway.
    DISK_WAIT_READS: f32 = number(100.0);
    DISK_WAIT_TIMES: f32 = number(5.0);

    /// Beside random reads, flash has 4 3/4 reads of streams: that fills it to 98 %, and further
    /// ones would only wait, and random reads behind them.
    FILLED_EIGHTHS: u64 = count(38);
    /// Where the rest waits on a leg that reads less than a fourth as fast it is three: nearly all
    /// would be read here, where all random reads are. It is 4 3/4 again where as many wait there
    /// as this leg has in flight, with random reads: these do not come back soon, and it would
    /// have nothing of streams to do.
    FILLED_EIGHTHS_ALONE: u64 = count(24);
    FILLED_SHARE: f32 = number(0.25);
    /// On one of three and more that are as fast it is 3 1/2: that is a hundredth of what all of
    /// them read, and random reads wait for a fourth less.
    FILLED_EIGHTHS_OF_MANY: u64 = count(28);
    /// Fewer of those that are longer than that, but two.
    FILLED_BYTES: u64 = bytes(128 << 10);
    /// Streams have no legs for themselves that take four times as long.
    OWN_TIMES: f32 = times(4.0);
    /// What else streams want waits on a leg that is slower by that at most.
    ASIDE_TIMES: f32 = times(8.0);
    /// And that has fewer writes in flight. Only where more is asked for than is answered are there
    /// as many, and they would wait for all reads of streams while other legs have nothing to do.
    ASIDE_WRITES: u32 = count(512);
    /// No stream keeps to a leg of its own that has so many writes more in flight than another leg:
    /// its reads would wait for all of them.
    BEHIND_WRITES: u32 = count(32);

    /// A read may be cut among legs where it takes no more than 1.6 times as long, and 2 us; four
    /// times where flash is written, of which what is known is what was written meanwhile, and
    /// where a part waits for a read of an equal leg.
    CUT_TIMES: f32 = times(1.6);
    CUT_TIMES_WRITTEN: f32 = times(4.0);
    CUT_NS: f32 = ns(2_000.0);
    /// Or where idle ones take no more than 1.1 times as long, and each has two reads at most.
    CUT_EQUAL: f32 = times(1.1);
    CUT_READS: u32 = count(2);
    /// And not where one pauses for a hundredth of the time more than twice as long as another:
    /// each read would wait for each pause. Writes make all of them pause.
    CUT_PAUSES: f32 = number(0.01);
    CUT_PAUSES_TIMES: f32 = times(2.0);

    /// Where flash is written, who meets a pause with a write waits in any case, and others go on
    /// until they do, unless they read there: a read costs by twice the share of the time more that
    /// its leg pauses. By far less where legs have more than three operations each: then each is to
    /// do what it can, and who asks for so much waits anyway.
    PAUSES_COST: f32 = times(2.0);
    PAUSES_READS: f32 = number(3.0);
}

/// What decided, in the words of docs/explain.md.
const HOME: &str = "home of the stream";
pub(super) const CUT: &str = "cut among equal legs";
pub(super) const ROOM: &str = "room beside random reads";
const ASIDE: &str = "waits aside of random reads";
const TRIED_AGAIN: &str = "slow, tried again";
pub(super) const LEAST: &str = "predicted least";
const EQUAL: &str = "equal to the least";
const NEVER_READ: &str = "never read yet";
const NOT_READ_FOR_LONG: &str = "not read for long";
const STREAM_STAYS: &str = "stream stays";
const STREAM_MOVES: &str = "stream moves";
const HAS_ROOM: &str = "the best is saturated";
const MOST_WORTH: &str = "adds most throughput";
const NEAREST: &str = "nearest arm";
const DISKS_IN_TURNS: &str = "disks take turns";
const STAYS_AT_READS: &str = "reads before it writes";
const BY_SHARES: &str = "by shares of clients";

/// Some of the places, by rising place, so that what they have in common is asked once. Each is a
/// bit.
#[derive(Clone, Copy)]
pub(super) struct Places(u32);

impl Places {
    fn of(places: impl Iterator<Item = usize>) -> Self {
        Self(places.fold(0, |all, place| all | 1 << place))
    }

    pub(super) const fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    const fn are_several(self) -> bool {
        self.count() > 1
    }

    /// All of them if this one is among them, else none.
    const fn having(self, place: usize) -> Self {
        if self.0 & 1 << place == 0 {
            Self(0)
        } else {
            self
        }
    }

    pub(super) fn iter(self) -> impl Iterator<Item = usize> + Clone {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let first = left.trailing_zeros();
            left &= left.checked_sub(1)?;
            Some(first as usize)
        })
    }
}

/// One read and its candidates.
pub(super) struct Choice<'a> {
    now: Instant,
    extent: Extent,
    stream: Option<&'a Stream>,
    views: &'a [LegView],
    legs: &'a [Leg],
    streams: &'a Streams,
    settings: Settings,
    forecasts: &'a [Forecast],
    /// How many of the candidates have an arm.
    disks: usize,
    /// Legs that are left to this read; streams have the others.
    left: LegSet,
    /// What has decided.
    reason: Cell<&'static str>,
}

impl<'a> Choice<'a> {
    /// `forecasts` are room for one of each candidate.
    pub(super) fn new(
        now: Instant,
        extent: Extent,
        stream: Option<&'a Stream>,
        views: &'a [LegView],
        (legs, streams): (&'a mut [Leg], &'a Streams),
        (settings, left, recent): (Settings, LegSet, Option<LegId>),
        forecasts: &'a mut [Forecast],
    ) -> Self {
        let mut disks = 0;
        let mut is_one_written = false;
        let mut is_one_writing = false;
        let mut is_one_late = false;
        let mut has_one_paused = false;
        let size = Size::of(extent.len());
        let forecasts = &mut forecasts[..views.len()];
        for (forecast, view) in forecasts.iter_mut().zip(views) {
            let leg = &mut legs[view.leg.index()];
            leg.see(now, view);
            let is_run_on = |stream: &Stream| stream.is_run_on(view.leg, view.address);
            let is_run_on = stream.is_some_and(is_run_on);
            let continues = is_run_on || leg.ends_at(view.address);
            leg.pass_over();
            *forecast = leg.forecast(now, size, continues, settings.health);
            disks += usize::from(forecast.turns);
            is_one_written |= forecast.is_written;
            is_one_late |= leg.was_late();
            has_one_paused |= leg.paused_share(now) > 0.0;
            is_one_writing |= view.writes_in_flight > 0;
        }
        let mut choice = Self {
            now,
            extent,
            stream,
            views,
            legs,
            streams,
            settings,
            forecasts: &[],
            disks,
            left: LegSet::EMPTY,
            reason: Cell::new(LEAST),
        };
        if !left.is_empty() && views.iter().any(|view| left.contains(view.leg)) {
            choice.left = left;
        }
        if stream.is_none() && disks > 0 && disks < views.len() {
            choice.expect_queues(size, forecasts);
        }
        if is_one_late && settings.health {
            choice.suspect(forecasts);
        }
        if has_one_paused && is_one_written && settings.health {
            choice.prefer_calm(forecasts);
        }
        choice.prefer_recent(recent, size, forecasts);
        let may_wait = is_one_written || is_one_writing;
        if disks > 0 && (may_wait || !choice.left.is_empty()) {
            choice.prefer_others(forecasts);
        }
        choice.forecasts = forecasts;
        choice
    }

    /// Curves hope where nothing was seen. Beside flash that has stopped, that much hope would send
    /// a disk in a moment what it then reads for seconds.
    fn expect_queues(&self, size: Size, forecasts: &mut [Forecast]) {
        let disks = forecasts.iter_mut().zip(self.views);
        let busy = disks.filter(|(forecast, _)| forecast.turns && forecast.in_flight > 0);
        for (forecast, view) in busy {
            let least = self.legs[view.leg.index()].least_behind_ns(size);
            forecast.cost = forecast.cost.max(least);
        }
    }

    /// Flash that may just have turned slow costs more than other flash by as much as it was late.
    /// It is the same to disks: they would read for long what they were sent in a moment.
    fn suspect(&self, forecasts: &mut [Forecast]) {
        let factor = |view: &LegView| self.legs[view.leg.index()].suspected_factor(view);
        let (mut least, mut most) = (f32::INFINITY, 1.0);
        for (forecast, view) in forecasts.iter().zip(self.views) {
            if !forecast.turns {
                let factor = factor(view);
                (least, most) = (f32::min(least, factor), f32::max(most, factor));
            }
        }
        if most <= least {
            return;
        }
        let all = forecasts.iter_mut().zip(self.views);
        for (forecast, view) in all.filter(|(forecast, _)| !forecast.turns) {
            forecast.lengthen(factor(view) / least);
        }
    }

    /// Flash that pauses costs more than other flash, where that is written.
    fn prefer_calm(&self, forecasts: &mut [Forecast]) {
        let in_flight = forecasts.iter().map(|forecast| forecast.in_flight);
        let in_flight = in_flight.fold(1, u32::saturating_add) as f32;
        let few = (PAUSES_READS.get() * forecasts.len() as f32 / in_flight).min(1.0);
        let share = |view: &LegView| self.legs[view.leg.index()].paused_share(self.now);
        let mut least = f32::INFINITY;
        for (forecast, view) in forecasts.iter().zip(self.views) {
            if !forecast.turns {
                least = least.min(share(view));
            }
        }
        // One that is tried is to be seen.
        let may = |forecast: &Forecast| !forecast.turns && !forecast.is_tried;
        let all = forecasts.iter_mut().zip(self.views);
        for (forecast, view) in all.filter(|(forecast, _)| may(forecast)) {
            let more = share(view) - least;
            forecast.lengthen(1.0 + PAUSES_COST.get() * more * few * few);
        }
    }

    /// Disks cost more that writes wait for, or streams have.
    fn prefer_others(&self, forecasts: &mut [Forecast]) {
        let without_wait = self.fewest_writes().saturating_add(WRITES_MORE.get());
        let disks = forecasts.iter_mut().zip(self.views);
        for (forecast, view) in disks.filter(|(forecast, _)| forecast.turns) {
            // All legs have to write, and the slowest is waited for; and so is one that has more
            // writes in flight.
            let is_slowest = self.disks < self.views.len() && forecast.is_written;
            if is_slowest || view.writes_in_flight > without_wait {
                forecast.cost *= HOLDS_UP.get();
                forecast.holds_up = true;
            }
            // An arm that reads both goes to and fro, and does a fraction of either.
            if !self.left.is_empty() && !self.left.contains(view.leg) {
                forecast.cost *= OF_STREAMS.get();
                forecast.is_free_disk = false;
            }
        }
    }

    fn leg(&self, place: usize) -> &Leg {
        &self.legs[self.views[place].leg.index()]
    }

    /// How long this read keeps the leg at this place, by what others there do on average.
    fn weight(&self, at: usize) -> f32 {
        self.leg(at).weight(self.extent.len())
    }

    /// Whether a stream was read last on the leg at this place, right before this read.
    fn is_at(&self, stream: &Stream, at: usize) -> bool {
        stream.is_at(self.views[at].leg, self.views[at].address)
    }

    fn places(&self) -> std::ops::Range<usize> {
        0..self.forecasts.len()
    }

    /// The place of the best of the legs that read the stream, unless they are slow now.
    pub(super) fn pinned(&self, legs: LegSet) -> Option<usize> {
        if !self.settings.locality {
            return None;
        }
        let is_home = |at: &usize| {
            let is_own = legs.contains(self.views[*at].leg);
            is_own && self.forecasts[*at].is_well && !self.is_behind(*at)
        };
        let cost = |at: &usize| self.forecasts[*at].cost;
        let best = self.places().filter(is_home);
        let best = best.min_by(|one, other| cost(one).total_cmp(&cost(other)))?;
        // Who is slow has no stream, and would not be seen to be well again.
        let is_tried = |at: &usize| {
            let forecast = &self.forecasts[*at];
            forecast.is_tried && !forecast.turns && forecast.cost <= self.forecasts[best].cost
        };
        if let Some(tried) = self.places().find(is_tried) {
            return Some(tried);
        }
        if self.forecasts[best].turns
            && let Some(run) = self.places().find(|at| self.has_run(*at))
        {
            return Some(self.by(STREAM_STAYS, run));
        }
        Some(self.by(HOME, best))
    }

    /// Whether so many more writes wait at a place than elsewhere that a read there would wait for
    /// far longer than any takes.
    fn is_behind(&self, at: usize) -> bool {
        self.views[at].writes_in_flight - self.fewest_writes() >= BEHIND_WRITES.get()
    }

    /// Of the writes in flight those that all legs have.
    fn fewest_writes(&self) -> u32 {
        let writes = self.views.iter().map(|view| view.writes_in_flight);
        writes.min().unwrap_or(0)
    }

    /// Whether flash of the others reads it in a fraction of the time that these legs take, which
    /// is too much for a stream to lose by having them for itself.
    pub(super) fn is_elsewhere(&self, legs: LegSet) -> bool {
        let size = Size::of(self.extent.len());
        let least = |is_own: bool| {
            let those = self.places().filter(|at| {
                legs.contains(self.views[*at].leg) == is_own && self.forecasts[*at].is_well
            });
            let costs = those.map(|at| self.leg(at).least_cost(size));
            costs.reduce(f32::min).unwrap_or(f32::INFINITY)
        };
        self.disks == 0 && least(false) * OWN_TIMES.get() < least(true)
    }

    /// Whether the disk at this place has read this stream alone for a while: to go on there costs
    /// nobody anything, to go elsewhere costs a seek.
    fn has_run(&self, at: usize) -> bool {
        let is_well = self.forecasts[at].is_well && !self.is_behind(at);
        is_well && self.leg(at).is_run_to(self.views[at].address)
    }

    /// What has decided for this place.
    pub(super) fn reason(&self, place: usize) -> &'static str {
        if self.forecasts[place].is_tried {
            TRIED_AGAIN
        } else {
            self.reason.get()
        }
    }

    fn by(&self, reason: &'static str, place: usize) -> usize {
        self.reason.set(reason);
        place
    }

    /// The place of the leg that serves the read.
    pub(super) fn place(&self) -> usize {
        let best = self.lowest();
        if self.forecasts[best].is_trial {
            return self.by(NEVER_READ, best);
        }
        if let Some(place) = self.trial(best) {
            return place;
        }
        if let Some(stream) = self.stream
            && self.settings.locality
            && let Some(home) = self.places().find(|at| self.is_at(stream, *at))
            && self.disks > 0
        {
            let holds_up = self.forecasts[home].holds_up;
            if self.is_alone_on_written_disks(home) && !self.is_starved(home, best, stream) {
                if best != home && stream.run_bytes >= STAYS_BYTES.get() {
                    return self.in_turns(best, |forecast| !forecast.holds_up);
                }
                if holds_up || stream.run_bytes < STAYS_BYTES.get() {
                    return self.by(STREAM_STAYS, home);
                }
            }
            if !holds_up {
                return self.place_of_stream(best, home, stream);
            }
        }
        let least = best;
        if let Some(place) = self.stays_on_flash(least) {
            return self.by(STREAM_STAYS, place);
        }
        let best = self.beside_saturated(least);
        let place = if self.settings.locality && self.forecasts[best].turns {
            self.nearest(best, least)
        } else {
            self.among_equals(best)
        };
        if best != least {
            // Which of the disks it is was decided among them; that it is a disk, or one that is so
            // much slower, was not.
            if !self.forecasts[least].turns {
                self.reason.set(HAS_ROOM);
            } else if !self.is_in_group(place, least) {
                self.reason.set(MOST_WORTH);
            }
        }
        place
    }

    /// The place for a read of a stream where others read at random. A random read waits for all
    /// that is in front of it, and to a stream only its throughput counts. So on flash no leg has
    /// more of streams than fills it, but one: where they wait, and random reads need not go. None,
    /// where hundreds of writes are in flight there, which would wait for all of them.
    pub(super) fn place_aside(&self, ahead: &ReadAhead) -> Option<usize> {
        if self.disks > 0 || !self.settings.locality {
            return None;
        }
        let forecast = |at: &usize| &self.forecasts[*at];
        let size = Size::of(self.extent.len());
        let least = |at: &usize| self.leg(*at).least_cost(size);
        let all = || self.places().filter(|at| forecast(at).is_well);
        let bytes = |at: &usize| ahead.long_bytes(self.views[*at].leg);
        let rate = |at: &usize| ahead.best_rate(self.views[*at].leg);
        let least_rate = all().map(|at| rate(&at)).reduce(f32::min).unwrap_or(0.0);
        let best_rate = all().map(|at| rate(&at)).reduce(f32::max).unwrap_or(0.0);
        let best_time = all().map(|at| least(&at)).reduce(f32::min)?;
        // What reads so little, and takes so long, is worth more to random reads, which have
        // nowhere else to go.
        // Nor has what is written and so much slower: all writes wait for it.
        let is_left = |at: &usize| {
            let reads_little = rate(at) > 0.0 && rate(at) * ASIDE_TIMES.get() < best_rate;
            reads_little && least(at) > best_time * ASIDE_TIMES.get()
                || forecast(at).is_written
                    && rate(at) > 0.0
                    && rate(at) < FILLED_SHARE.get() * best_rate
                    && least(at) > best_time * GROUP.get()
        };
        let well = || all().filter(|at| !is_left(at));
        let is_alone = |at: &usize| least_rate > 0.0 && least_rate < FILLED_SHARE.get() * rate(at);
        // Of several that are as fast random reads need one.
        let fast = || well().filter(|at| least(at) <= GROUP.get() * best_time);
        let kept = fast().next().filter(|_| fast().count() > 2);
        let eighths = |at: &usize| {
            if is_alone(at) {
                FILLED_EIGHTHS_ALONE.get()
            } else if kept == Some(*at) {
                FILLED_EIGHTHS_OF_MANY.get()
            } else {
                FILLED_EIGHTHS.get()
            }
        };
        let has_room = |at: &usize| bytes(at) < self.filled_bytes(eighths(at));
        let least_of = |one: &usize, other: &usize| least(one).total_cmp(&least(other));
        let best = well().min_by(least_of)?;
        let near = || well().filter(|at| least(at) <= ASIDE_TIMES.get() * least(&best));
        let slowest = near().max_by(least_of)?;
        let are_alike = |one: &usize, other: &usize| {
            let (one, other) = (least(one), least(other));
            one.max(other) <= GROUP.get() * one.min(other)
        };
        let is_on_fast = self.loses_more(best, slowest, ahead);
        let may = |at: &usize| !is_on_fast || are_alike(at, &best);
        let free = || well().filter(may).filter(has_room);
        if let Some(best) = free().map(|at| least(&at)).reduce(f32::min) {
            let alike = free().filter(|at| least(at) <= GROUP.get() * best);
            let place = self.first_with_room(Places::of(alike), ahead);
            return place.map(|at| self.by(ROOM, at));
        }
        let waits = if is_on_fast { best } else { slowest };
        let aside = near().filter(|at| are_alike(at, &waits));
        let aside = aside.max_by_key(bytes)?;
        let slow = (!is_on_fast).then(|| self.slow_aside(well())).flatten();
        let aside = slow.unwrap_or(aside);
        // Where as many wait as the fast leg has in all, few come back to that meanwhile.
        let runs_dry = |at: &usize| {
            let is_less = forecast(at).in_flight <= forecast(&aside).in_flight;
            *at != aside
                && is_alone(at)
                && is_less
                && bytes(at) < self.filled_bytes(FILLED_EIGHTHS.get())
        };
        match well().filter(may).filter(runs_dry).min_by_key(bytes) {
            Some(at) => Some(self.by(ROOM, at)),
            None if self.views[aside].writes_in_flight >= ASIDE_WRITES.get() => None,
            None => Some(self.by(ASIDE, aside)),
        }
    }

    /// A leg that has become slow and answers yet, though later than the others: what waits there
    /// is in nobody's way.
    fn slow_aside(&self, well: impl Iterator<Item = usize>) -> Option<usize> {
        let cost = |at: usize| self.forecasts[at].cost;
        let least = well.map(cost).reduce(f32::min)?;
        let slow = self.places().filter(|at| !self.forecasts[*at].is_well);
        let slow = slow.filter(|at| (least..least * ASIDE_TIMES.get()).contains(&cost(*at)));
        slow.min_by(|one, other| cost(*one).total_cmp(&cost(*other)))
    }

    /// Whether a stream loses more where it waits on the slower leg than random reads would there.
    /// Of many streams others go on meanwhile.
    fn loses_more(&self, fast: usize, slow: usize, ahead: &ReadAhead) -> bool {
        let size = Size::of(self.extent.len());
        let of_stream = |at: usize| self.leg(at).least_cost(size);
        let of_random = |at: usize| {
            let read_ns = self.leg(at).least_cost(Size::of(0));
            ahead.random_ns(self.now, self.views, read_ns)
        };
        ahead.are_few() && of_stream(slow) * of_random(fast) > of_stream(fast) * of_random(slow)
    }

    /// Of the flash that has room for a stream beside random reads: where it ends first, which is
    /// apart from them; of equals where the fewest streams are.
    fn first_with_room(&self, places: Places, ahead: &ReadAhead) -> Option<usize> {
        let cost = |at: usize| self.forecasts[at].cost;
        let lowest = places.iter().map(cost).reduce(f32::min)?;
        let is_equal = |at: &usize| cost(*at) <= lowest * BAND.get() + BAND_NS.get();
        let is_own = |at: usize| self.stream.is_some_and(|stream| self.is_at(stream, at));
        let bytes = |at: usize| ahead.long_bytes(self.views[at].leg);
        let equals = places.iter().filter(is_equal);
        equals.min_by_key(|at| (bytes(*at), !is_own(*at)))
    }

    /// How many bytes of streams flash has beside random reads. Some of eight reads in a row may be
    /// one more than the others, so that it is a part of a read more on average.
    fn filled_bytes(&self, eighths: u64) -> u64 {
        let len = self.extent.len().max(1);
        let eighths = eighths * FILLED_BYTES.get() / FILLED_BYTES.get().max(len);
        let turn = self.extent.offset() / len % 8;
        ((eighths + turn) / 8).max(2) * len
    }

    /// The cheapest place.
    fn lowest(&self) -> usize {
        let mut place = 0;
        let mut lowest = f32::INFINITY;
        for (at, forecast) in self.forecasts.iter().enumerate() {
            if forecast.cost < lowest {
                (place, lowest) = (at, forecast.cost);
            }
        }
        place
    }

    /// A saturated leg does no more for a further read, it only takes longer. An idle one that is
    /// slower does more, and its read takes longer than the others: no more than `spill_times`.
    fn beside_saturated(&self, best: usize) -> usize {
        let forecast = &self.forecasts[best];
        if forecast.turns {
            return self.most_worth(best);
        }
        let weight = self.weight(best);
        let least = || {
            let least = self.leg(best).least_cost(Size::of(self.extent.len()));
            least.max(forecast.idle_cost())
        };
        if !forecast.is_saturated(weight) || !forecast.is_saturated_by(weight, least()) {
            return best;
        }
        let limit = forecast.cost * self.settings.spill_times;
        let busy_ns = self.leg(best).busy_ns(self.now);
        let is_better = |at: &usize| {
            let other = &self.forecasts[*at];
            if other.cost > busy_ns {
                false
            } else if other.turns {
                other.is_free_disk && self.is_worth_its_wait(*at, best)
            } else {
                other.cost < limit && other.has_room(self.weight(*at))
            }
        };
        let cost = |at: &usize| self.forecasts[*at].cost;
        let better = self.places().filter(is_better);
        better
            .min_by(|a, b| cost(a).total_cmp(&cost(b)))
            .unwrap_or(best)
    }

    /// Whether the disk at a place gets a read beside saturated flash: it does a share of all that
    /// counts, and ends it before long. It has no more to do than the flash in any case.
    fn is_worth_its_wait(&self, at: usize, flash: usize) -> bool {
        // Of such reads, whatever the flash has to do besides.
        let weight = self.weight(flash).min(1.0);
        let (disk, flash) = (&self.forecasts[at], &self.forecasts[flash]);
        let each = flash.cost * weight / flash.in_flight.max(1) as f32;
        let in_flight = self.forecasts.iter().map(|one| one.in_flight);
        let all = in_flight.fold(0u32, u32::saturating_add);
        let wait = DISK_WAIT_READS.get() + DISK_WAIT_TIMES.get() * all as f32;
        // What it took at first had others before it, which the arm went to on the way.
        let by_itself = disk.idle_cost().min(self.leg(at).seek_ns()) * disk.loss();
        let cost = if disk.in_flight == 0 && disk.is_well {
            disk.cost.min(by_itself)
        } else {
            disk.cost
        };
        by_itself < each * DISK_READS.get()
            && cost < each * wait
            && disk.in_flight < flash.in_flight
    }

    /// Among disks that differ: the one whose throughput grows most, as all of them together are to
    /// do the most.
    fn most_worth(&self, best: usize) -> usize {
        let limit = self.forecasts[best].cost * self.settings.spill_times.min(WORTH_TIMES.get());
        let best_holds_up = self.forecasts[best].holds_up;
        let mut place = best;
        let worth = |at: usize| self.forecasts[at].worth(self.leg(at).load());
        let mut most = worth(best);
        for (at, forecast) in self.forecasts.iter().enumerate() {
            // Its cost is more by what it holds up, its worth no less.
            let holds_up_more = forecast.holds_up && !best_holds_up;
            let is_free = forecast.is_well && forecast.is_free_disk && !holds_up_more;
            let may = is_free && forecast.cost < limit;
            let more = if may && at != best { worth(at) } else { 0.0 };
            if more > most {
                (place, most) = (at, more);
            }
        }
        place
    }

    /// Among equal costs and about the fewest in flight: where the stream is; where all are idle by
    /// offset, so that neighbours merge and caches below hold different things; else in turns.
    fn among_equals(&self, best: usize) -> usize {
        let limit = self.forecasts[best].cost * BAND.get() + BAND_NS.get();
        let (mut equals, mut least) = (0, u32::MAX);
        for one in self.forecasts.iter().filter(|one| one.cost <= limit) {
            (equals, least) = (equals + 1, least.min(one.in_flight));
        }
        if equals == 1 {
            return self.by(LEAST, best);
        }
        let is_saturated = || self.forecasts[best].is_saturated(self.weight(best));
        let is_even = self.stream.is_none() && is_saturated();
        let more = if is_even { 0 } else { least / TIE_READS.get() };
        let most = least.saturating_add(more);
        let may = |at: &usize| {
            let forecast = &self.forecasts[*at];
            forecast.cost <= limit && forecast.in_flight <= most
        };
        let places = || self.places().filter(may);
        let by_offset = || modulo(self.extent.offset() / STRIPE_BYTES, self.views.len());
        let home = self.stream;
        let place = home
            .and_then(|stream| places().find(|at| self.is_at(stream, *at)))
            .or_else(|| (least == 0).then(by_offset).filter(may))
            .unwrap_or_else(|| self.longest_unread(places(), best));
        self.by(if place == best { LEAST } else { EQUAL }, place)
    }

    /// Of these places that which was read longest ago, the first of several; else `best`.
    fn longest_unread(&self, places: impl Iterator<Item = usize>, best: usize) -> usize {
        let (mut place, mut read_at) = (best, Instant::MAX);
        for at in places {
            let last_read_at = self.leg(at).last_read_at();
            if last_read_at < read_at {
                (place, read_at) = (at, last_read_at);
            }
        }
        place
    }

    /// Whether this is the only stream, on a disk that is written among others.
    fn is_alone_on_written_disks(&self, home: usize) -> bool {
        self.disks == self.views.len()
            && self.forecasts[home].is_well
            && self.forecasts[home].is_written
            && self.streams.active(self.now) < 2
    }

    /// Whether the disk that a stream is at has so much to write that reads have no turn there,
    /// where the best one has less.
    fn is_starved(&self, home: usize, best: usize, stream: &Stream) -> bool {
        let writes = |at: usize| self.views[at].writes_in_flight;
        let cost = |at: usize| self.forecasts[at].cost;
        stream.age(self.now) >= STAYS_WHILE.get()
            && writes(home) > writes(best)
            && cost(home) > FAR_FASTER.get() * cost(best)
    }

    /// Whether both are disks. Between those the number of streams counts, by how slow the disk
    /// is, and not what other reads between them cost.
    fn are_disks(&self, at: usize, home: usize) -> bool {
        let turn = self.forecasts[at].turns && self.forecasts[home].turns;
        at != home && turn && self.forecasts[at].is_well
    }
}
