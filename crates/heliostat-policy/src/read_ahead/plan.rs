//! What one stream is to have read ahead of it, and by which leg.

use heliostat_types::{Extent, Instant, LEGS_MAX, LegId, LegSet};

use crate::api::{Layout, LegView, Prefetch};

use super::beliefs::Ahead;
use super::firsts::First;
use super::helper::{Helper, Helpers, best_of};
use super::{
    ASKED_BYTES, FAR_FASTER, LONE_BYTES, LONE_RUNS, LONE_SHARE, LONE_WEIGHT, RUN_BYTES,
    RUN_BYTES_FLASH, ReadAhead, STRETCH_BYTES_MAX, STRETCH_TIMES, Stream, StreamWay, Stretch,
    WINDOW, whole,
};

/// Where a leg is in a stretch of one stream, whose chunks it is given one by one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    leg: LegId,
    stands: u64,
    left_bytes: u64,
    number: u64,
}

/// What was found by trying.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tries {
    /// Whether something is to be read ahead of streams, where that is for a try to find.
    pub(super) reads_ahead: Option<bool>,
    /// Whether homes that are written read on for their streams.
    pub(super) keeps: bool,
}

/// What one stream is to have read ahead of it.
pub(super) struct Plan<'a> {
    pub(super) stream: &'a mut Stream,
    /// How many streams there are.
    pub(super) count: usize,
    pub(super) tries: Tries,
    pub(super) layout: &'a dyn Layout,
    pub(super) room_bytes: u64,
    /// Memory that nothing is in yet.
    pub(super) free_bytes: u64,
    /// How many stretches were planned, of all streams.
    pub(super) planned: &'a mut u64,
    /// What each leg is to read first.
    pub(super) firsts: &'a mut [First; LEGS_MAX],
    pub(super) now: Instant,
    /// Disks that go on with the stream where its reader is.
    pub(super) crowded: LegSet,
    /// Whether flash beside disks is its home, and of no other one.
    pub(super) is_alone: bool,
    pub(super) helpers: Helpers,
    pub(super) prefetch: &'a mut Vec<Prefetch>,
}

impl Stream {
    /// The leg that alone reads it, where that holds all of it.
    pub(super) fn only_home<'a>(
        &self,
        helpers: &'a Helpers,
        layout: &dyn Layout,
    ) -> Option<&'a Helper> {
        let mut homes = helpers
            .iter()
            .filter(|helper| self.homes.contains(helper.leg));
        let home = homes.next()?;
        let is_only = homes.next().is_none() && layout.chunk_bytes().is_none();
        is_only.then_some(home)
    }
}

impl ReadAhead {
    /// A leg has read the bytes before `end`: a disk, or flash beside disks that may be the home of
    /// a stream.
    pub(crate) fn has_read(&mut self, now: Instant, leg: LegId, end: u64) {
        if self.turning.is_empty() {
            return;
        }
        let turns = self.turning.contains(leg);
        let near = self.near(now, end);
        let far = || turns.then(|| self.far_behind(now, end)).flatten();
        let Some(at) = near.or_else(far) else {
            return;
        };
        let stream = &mut self.streams[at];
        if !turns && !stream.homes.contains(leg) {
            return;
        }
        if stream.planned == stream.next && end <= stream.next {
            let weigh = |share: &mut f32, is_so: bool| {
                *share += LONE_WEIGHT.get() * (f32::from(u8::from(is_so)) - *share);
            };
            let deep_bytes = LONE_RUNS.get() * LONE_BYTES.get();
            weigh(&mut stream.deep, stream.next - end >= deep_bytes);
            // Who reads at random comes by far behind.
            if near.is_some() {
                weigh(&mut stream.lone, end == stream.next);
            }
        }
    }

    /// The place of the stream whose reader asked for all that lies behind `offset` at once.
    fn far_behind(&self, now: Instant, offset: u64) -> Option<usize> {
        let streams = self.streams.iter().enumerate();
        let behind = |stream: &Stream| {
            let behind = stream.next.checked_sub(offset)?;
            (behind <= STRETCH_BYTES_MAX.get() && stream.is_active(now)).then_some(behind)
        };
        let behind = streams.filter_map(|(at, stream)| Some((at, behind(stream)?)));
        let nearest = behind.min_by_key(|(_, behind)| *behind);
        nearest.map(|(at, _)| at)
    }

    /// Where a read goes that a disk was to read ahead, and was not asked for yet: to that disk if
    /// it is there already, so that its reader may be as far ahead as he likes; and where it has
    /// not begun, rather to one that has just read what lies before.
    pub(super) fn planned_way(
        &self,
        stream: &Stream,
        offset: u64,
        legs: &[LegView],
    ) -> Option<StreamWay> {
        if legs.iter().any(|view| !self.turning.contains(view.leg)) {
            return None;
        }
        let bytes = |stretch: &&Stretch| stretch.extent.offset()..stretch.extent.end();
        let mut stretches = stream.stretches.iter();
        let stretch = stretches.find(|stretch| bytes(stretch).contains(&offset))?;
        let leg = legs.iter().find(|view| view.leg == stretch.leg)?.leg;
        Some(if stretch.begins {
            StreamWay::Homes(LegSet::from_iter([leg]))
        } else {
            StreamWay::Planned(leg)
        })
    }
}

impl Plan<'_> {
    /// The legs that read the stream. In a RAID10 its homes are one of each group of legs that hold
    /// the same chunks.
    fn helping(&self) -> impl Iterator<Item = &Helper> + Clone {
        let homes = self.stream.homes;
        let all = homes.is_empty() || self.layout.chunk_bytes().is_some();
        let helpers = self.helpers.iter();
        helpers.filter(move |helper| all || homes.contains(helper.leg))
    }

    /// Whether its reader asks for nothing more before it is answered.
    fn is_lone(&self) -> bool {
        self.stream.lone > LONE_SHARE.get()
    }

    /// Whether legs read the stream ahead, each a stretch, of those that all hold it: several ones,
    /// or also one of flash.
    fn ahead(&self) -> Ahead {
        let homes = self.stream.homes;
        let is_held = |helper: &Helper| helper.turns && helper.writes_wait;
        let is_written = |helper: &Helper| helper.turns && helper.is_written;
        let are_enough = || {
            if homes.is_empty() || self.layout.chunk_bytes().is_some() {
                self.count < self.helpers.count()
            } else {
                homes.iter().count() > 1
            }
        };
        if let Some(reads_ahead) = self.tries.reads_ahead {
            return if reads_ahead {
                Ahead::Striped
            } else {
                Ahead::AsFast
            };
        }
        if self.helpers.count() == 0 {
            return Ahead::NoLeg;
        }
        if self.helping().any(is_held) {
            return Ahead::Writes;
        }
        // Where it writes between two reads the arm is never where the next one is.
        let is_away = self.count == 1 && self.is_lone() && self.helping().all(is_written);
        if is_away || are_enough() {
            Ahead::Striped
        } else {
            Ahead::Crowded
        }
    }

    /// Whether legs read it ahead, for people.
    fn note(&mut self, is_read_ahead: bool) {
        let ahead = self.ahead();
        self.stream.how = if self.room_bytes < RUN_BYTES.get() {
            Ahead::NoMemory
        } else if is_read_ahead && !ahead.is_striped() {
            Ahead::InTurns
        } else {
            ahead
        };
    }

    /// Who is to read the byte at `offset` ahead, with its place on them; `None` where nobody holds
    /// it.
    ///
    /// With fewer streams than legs these share them. With more, mostly, there are enough reads for
    /// all, but disks of a RAID10 would have to leave each stream after every chunk: what one of
    /// them has of it is read in long stretches. Where legs hold a chunk at different places, and
    /// one of them is a disk, it is for who has it first: the first copies are one stripe over all
    /// legs. But an arm is at either where they are no further apart than a stretch is long, so
    /// many streams keep to their homes there.
    fn readers(&self, offset: u64) -> Option<Vec<(&Helper, u64)>> {
        let mut readers: Vec<(&Helper, u64)> = Vec::with_capacity(LEGS_MAX);
        readers.extend(self.helping().filter_map(|helper| {
            let address = self.layout.address_on(helper.leg, offset)?;
            Some((helper, address))
        }));
        let best = best_of(readers.iter().map(|(helper, _)| *helper));
        readers.retain(|(helper, _)| !helper.is_too_slow(best));
        let first = readers.iter().map(|reader| reader.1).min()?;
        let last = readers.iter().map(|reader| reader.1).max()?;
        let are_disks = readers.iter().all(|(helper, _)| helper.turns);
        let (is_group, is_near) = (first == last, last - first < STRETCH_BYTES_MAX.get());
        let is_crowded = self.count >= readers.len();
        if are_disks && is_crowded && self.layout.chunk_bytes().is_some() {
            let homes = self.stream.homes;
            if is_group {
                readers.retain(|(helper, _)| homes.contains(helper.leg));
            } else if is_near {
                readers.clear();
            } else {
                readers.retain(|reader| reader.1 == first);
            }
        } else if !self.ahead().is_striped() {
            readers.clear();
        } else if !is_group && readers.iter().any(|(helper, _)| helper.turns) {
            readers.retain(|reader| reader.1 == first);
        }
        Some(readers)
    }

    /// How fast the stream can be read ahead, in bytes per ns, and by how many legs; `None` where
    /// nobody is to. In a RAID10 it is as fast as those who hold some of its chunks read these.
    fn rate(&self) -> Option<(f32, usize)> {
        let Some(chunk_bytes) = self.layout.chunk_bytes() else {
            let rate = self.helping().map(|helper| helper.rate).sum();
            let is_striped = self.ahead().is_striped();
            return is_striped.then(|| (rate, self.helping().count()));
        };
        let mut sets: [(LegSet, f32, f32); LEGS_MAX] = [(LegSet::EMPTY, 0.0, 0.0); LEGS_MAX];
        let mut read = 0.0;
        // After as many chunks as there are legs it is the turn of the same ones again.
        for chunk in 0..self.helpers.count() as u64 {
            let offset = self.stream.planned.saturating_add(chunk * chunk_bytes);
            let readers = self.readers(offset).unwrap_or_default();
            let legs: LegSet = readers.iter().map(|(helper, _)| helper.leg).collect();
            let known = sets.iter_mut().find(|set| set.0 == legs || set.1 == 0.0);
            if let Some(set) = known.filter(|_| !legs.is_empty()) {
                let rate = readers.iter().map(|(helper, _)| helper.rate).sum();
                *set = (legs, set.1 + 1.0, rate);
                read += 1.0;
            }
        }
        let seen = sets.iter().filter(|set| set.1 > 0.0);
        let rates = seen.clone().map(|(_, count, rate)| rate * read / count);
        let legs = seen.fold(LegSet::EMPTY, |legs, set| legs.union(set.0));
        // Flash may be in several sets.
        let helpers = self.helping().filter(|helper| legs.contains(helper.leg));
        let all: f32 = helpers.map(|helper| helper.rate).sum();
        Some((rates.reduce(f32::min)?.min(all), legs.iter().count()))
    }

    /// How far is read ahead at most, of what there would be.
    fn window(&self, bytes: u64) -> u64 {
        bytes.min(self.room_bytes).min(self.stream.run_bytes / 2)
    }

    /// For how long each leg reads at one place, as far as there is memory.
    fn stretch_ns(&self, rate: f32) -> f32 {
        let way_ns = self.helping().map(|helper| helper.way_ns);
        let way_ns = way_ns.fold(0.0, f32::max);
        (STRETCH_TIMES.get() * way_ns).min(self.room_bytes as f32 / (WINDOW.get() * rate))
    }

    /// Legs read it, a stretch each.
    pub(super) fn stripe(&mut self) {
        self.hand_over();
        let rate = self.rate();
        self.note(rate.is_some());
        let Some((rate, legs)) = rate else {
            return;
        };
        let legs = legs as u64;
        let stretch_ns = self.stretch_ns(rate);
        let round = if self.layout.chunk_bytes().is_some() {
            whole(stretch_ns * rate).max(legs * ASKED_BYTES.get())
        } else {
            let stretches = self.helping();
            let stretches = stretches.map(|helper| helper.stretch_bytes(stretch_ns));
            stretches.map(|bytes| bytes.max(ASKED_BYTES.get())).sum()
        };
        let window = self.window(whole(WINDOW.get() * round as f32));
        // While it may not be read far ahead, each leg gets less.
        let share = (window / (legs + 1)).max(RUN_BYTES.get());
        self.take_up();
        let last = u64::MAX - STRETCH_BYTES_MAX.get();
        let span = window.saturating_mul(self.helpers.count() as u64);
        let span = self.stream.next.saturating_add(span);
        while self.stream.ahead_bytes() < window && self.stream.planned < last.min(span) {
            if !self.plan_next(stretch_ns, share) {
                break;
            }
        }
        self.put_down();
    }

    /// Legs will have done what is planned of the stream, before anything else of it.
    fn take_up(&mut self) {
        for stretch in &self.stream.stretches {
            let mut helpers = self.helpers.iter_mut();
            if let Some(helper) = helpers.find(|helper| helper.leg == stretch.leg) {
                helper.queued_bytes = helper.queued_bytes.saturating_add(stretch.extent.len());
                helper.stands = stretch.address + stretch.extent.len();
            }
        }
        for lane in self.stream.lanes.drain(..) {
            let mut helpers = self.helpers.iter_mut();
            if let Some(helper) = helpers.find(|helper| helper.leg == lane.leg) {
                helper.stands = lane.stands;
                helper.left_bytes = lane.left_bytes;
                helper.number = lane.number;
            }
        }
    }

    /// Which legs have some of a stretch left is remembered with the stream.
    fn put_down(&mut self) {
        for helper in self.helpers.iter_mut() {
            if helper.left_bytes > 0 {
                self.stream.lanes.push(Lane {
                    leg: helper.leg,
                    stands: helper.stands,
                    left_bytes: helper.left_bytes,
                    number: helper.number,
                });
                helper.left_bytes = 0;
            }
        }
    }

    /// Plans who reads what comes next; `false` where the stream ends.
    fn plan_next(&mut self, stretch_ns: f32, share: u64) -> bool {
        let from = self.stream.planned;
        let Some(readers) = self.readers(from) else {
            return false;
        };
        let chunk = self.layout.chunk_bytes();
        let chunk_end = chunk.map_or(u64::MAX, |bytes| (from / bytes + 1) * bytes);
        let bytes_of = |helper: &Helper| {
            let bytes = helper.stretch_bytes(stretch_ns).min(share);
            bytes.next_multiple_of(RUN_BYTES.get())
        };
        // Flash loses nothing by it to leave a chunk to a leg that is far faster.
        let best = best_of(readers.iter().map(|reader| reader.0));
        let stays = |helper: &Helper| helper.turns || helper.rate * FAR_FASTER.get() >= best;
        let goes_on = |reader: &&(&Helper, u64)| {
            let (helper, address) = **reader;
            helper.left_bytes > 0 && helper.stands == address && stays(helper)
        };
        let end_ns = |reader: &&(&Helper, u64)| {
            let (helper, address) = **reader;
            helper.end_ns(address, bytes_of(helper))
        };
        let soonest =
            |one: &&(&Helper, u64), other: &&(&Helper, u64)| end_ns(one).total_cmp(&end_ns(other));
        let reader = readers.iter().find(goes_on);
        let reader = reader.or_else(|| readers.iter().min_by(soonest));
        let Some(&(&(mut helper), address)) = reader else {
            let skipped = Extent::from_range(from, chunk_end);
            self.stream.skipped.push_back(skipped);
            self.stream.planned = chunk_end;
            return true;
        };
        let begins = helper.left_bytes == 0 || helper.stands != address;
        if begins {
            helper.left_bytes = bytes_of(&helper);
            helper.number = *self.planned;
            *self.planned += 1;
        }
        let len = helper.left_bytes.min(chunk_end - from);
        helper.left_bytes -= len;
        helper.queued_bytes = helper.queued_bytes.saturating_add(len);
        helper.stands = address + len;
        self.stream.stretches.push(Stretch {
            leg: helper.leg,
            extent: Extent::new(from, len),
            address,
            number: helper.number,
            begins,
        });
        self.stream.planned = from + len;
        let mut helpers = self.helpers.iter_mut();
        if let Some(known) = helpers.find(|known| known.leg == helper.leg) {
            *known = helper;
        }
        true
    }

    /// Keeps the only home of a stream at it, whose reader asks for `bytes` at a time: where he has
    /// one read at a time, or very many, or a disk writes between two of his reads.
    pub(super) fn keep_on(&mut self, bytes: u64) {
        let home = self.stream.only_home(&self.helpers, self.layout);
        let home = home.filter(|home| home.turns || self.is_alone);
        let home = home.filter(|_| bytes < LONE_BYTES.get());
        let Some((leg, is_written)) = home.map(|home| (home.leg, home.is_written)) else {
            return;
        };
        if is_written && !self.tries.keeps {
            self.stream.how = Ahead::Writes;
            return;
        }
        if !is_written && !self.is_lone() && self.stream.deep <= LONE_SHARE.get() {
            return;
        }
        self.stream.how = Ahead::Kept;
        let window = self.window(LONE_RUNS.get() * LONE_BYTES.get());
        let len = LONE_BYTES.get();
        while self.stream.ahead_bytes() + len <= window && len <= self.free_bytes {
            let Some(end) = self.stream.planned.checked_add(len) else {
                return;
            };
            let extent = Extent::from_range(self.stream.planned, end);
            self.prefetch.push(Prefetch { leg, extent });
            self.free_bytes -= len;
            self.stream.planned = end;
        }
    }

    /// A disk of a RAID10 that several streams share, and the stretch that the reader has come to
    /// before the disk. It has to get there for him, so all of the stretch that it may have is read
    /// behind that, whoever's turn it is; but not where it ends with the chunk, as it does wherever
    /// chunks lie apart on the leg.
    fn overtaken(&self) -> Option<(LegId, u64)> {
        let (stretches, next) = (&self.stream.stretches, self.stream.next);
        let is_here = |one: &&Stretch| {
            let is_crowded = self.crowded.contains(one.leg);
            is_crowded && one.extent.offset() <= next && next < one.extent.end()
        };
        let here = stretches.iter().find(is_here)?;
        let pieces = stretches.iter().filter(|one| one.number == here.number);
        (pieces.count() > 1).then_some((here.leg, here.number))
    }

    /// What a disk was to read that has left is for another one that has it at the same place, one
    /// of the stream's homes: the reader would have to ask for all of it himself. Flash is as fast
    /// with what he asks for.
    fn hand_over(&mut self) {
        let (layout, legs) = (self.layout, self.helpers.legs());
        let mut stretches = self.stream.stretches.iter();
        let is_left = stretches.any(|stretch| !legs.contains(stretch.leg));
        if !is_left || self.helpers.iter().any(|helper| !helper.turns) {
            return;
        }
        let mut others: Vec<Helper> = self.helping().copied().collect();
        let stretches = self.stream.stretches.iter_mut();
        for stretch in stretches.filter(|stretch| !legs.contains(stretch.leg)) {
            let (extent, address) = (stretch.extent, stretch.address);
            let has_it = |helper: &&mut Helper| {
                layout.address_on(helper.leg, extent.offset()) == Some(address)
            };
            let end_ns = |helper: &Helper| helper.end_ns(address, extent.len());
            let others = others.iter_mut().filter(has_it);
            if let Some(other) = others.min_by(|a, b| end_ns(a).total_cmp(&end_ns(b))) {
                other.queued_bytes = other.queued_bytes.saturating_add(extent.len());
                stretch.leg = other.leg;
                stretch.begins = true;
            }
        }
    }

    /// Asks each leg for some of its stretches.
    pub(super) fn ask(&mut self) {
        let next = self.stream.next;
        let overtaken = self.overtaken();
        let (layout, all) = (self.layout, self.helpers);
        let (helpers, prefetch) = (&mut self.helpers, &mut self.prefetch);
        let (free_bytes, firsts) = (&mut self.free_bytes, &mut self.firsts);
        let now = self.now;
        let operation_bytes = if all.are_quick() {
            RUN_BYTES_FLASH.get()
        } else {
            RUN_BYTES.get()
        };
        let asked_max = all.asked_max();
        self.stream.stretches.retain_mut(|stretch| {
            let end = stretch.extent.end();
            let mut from = stretch.extent.offset().max(next.min(end));
            if from == end {
                return false;
            }
            let best = all
                .iter()
                .filter(|helper| layout.address_on(helper.leg, from).is_some());
            let best = best_of(best);
            let mut helpers = helpers
                .iter_mut()
                .filter(|helper| !helper.is_too_slow(best));
            let Some(helper) = helpers.find(|helper| helper.leg == stretch.leg) else {
                // It has left, or is slow now. Who wants the bytes reads them elsewhere.
                return false;
            };
            let first = &mut firsts[stretch.leg.index()];
            let is_first = stretch.number <= first.number;
            let is_here =
                overtaken == Some((stretch.leg, stretch.number)) || is_first && first.is_overdue;
            let mut begins = stretch.begins;
            let mut address = stretch.address + (from - stretch.extent.offset());
            while from < end
                && helper.asked_bytes < asked_max
                && (is_here || helper.is_in_order(address, is_first, begins))
            {
                let len = operation_bytes.min(end - from);
                if len > *free_bytes {
                    break;
                }
                *free_bytes -= len;
                prefetch.push(Prefetch {
                    leg: stretch.leg,
                    extent: Extent::new(from, len),
                });
                if is_first {
                    first.since = now;
                }
                helper.has_begun &= helper.sent == address;
                from += len;
                address += len;
                begins = false;
                helper.sent = address;
                helper.is_idle = false;
                helper.asked_bytes = helper.asked_bytes.saturating_add(len);
            }
            *stretch = Stretch {
                extent: Extent::new(from, end - from),
                address,
                begins,
                ..*stretch
            };
            from < end
        });
    }
}
