//! Sequential streams, and what is to be read ahead of them, from which leg.
//!
//! A stream is a run of reads each of which begins where the one before it ended. One stream alone
//! is *striped*: legs read a *stretch* each, one behind the other, and so long that to get there
//! costs little. All stretches of a round take equally long, so that a slower leg reads less; each
//! goes to the leg that ends it first. Where there are as many streams as legs, or more, nothing is
//! read ahead: there are enough reads for all legs, and on disks each stream has one leg for
//! itself, its *home*, with as few others as may be. Beside random reads streams leave flash to
//! them as far as there is another leg for streams.
//!
//! No stream has more read ahead than half of what it has read itself: what is short is never far
//! from what was asked for, and a reader that stops wastes a third of all that was read at most.

mod at_random;
mod homes;

use std::cmp::Reverse;

use heliostat_types::{Duration, Extent, Instant, LEGS_MAX, LegId, LegSet, OpKind};

use crate::api::{LegView, OpView, Prefetch, ReadRequest};
use crate::constants::{ConstantInfo, constants};
use crate::stream_index::{INDEXED_MAX, StreamIndex, place_of};
use at_random::AtRandom;

/// Streams that are known at a time: more than clients of a machine read at once.
const STREAMS_MAX: usize = INDEXED_MAX;
/// Ends of reads that went on from nothing, by a hash of theirs: random reads replace each other
/// there, and drive no stream out.
const ENDS: usize = 256;
constants! { "read_ahead":
    /// A stream has been read this far before anything is read ahead of it.
    CONFIRMED_BYTES: u64 = bytes(1 << 20);
    /// A stream that was not read for this long is over, or its reader so slow that it needs no
    /// help.
    OVER_AFTER: Duration = time(Duration::from_ms(500));
    /// Requests that are sent at once may come in any order, as far apart as this.
    TOLERANCE_BYTES: u64 = bytes(1 << 20);
    /// One operation.
    RUN_BYTES: u64 = bytes(1 << 20);
    /// Whoever reads at random reads less at a time, mostly.
    LONG_BYTES: u64 = bytes(64 << 10);
    /// What a leg had in flight before is little of that.
    BEST_BYTES: u64 = bytes(64 << 20);
    /// What a leg is asked for at a time: it has always something to go on with, and who else wants
    /// it does not wait for long.
    ASKED_BYTES: u64 = bytes(4 << 20);
    /// A stretch takes this many times as long as to get there: a leg spends a thirteenth of its
    /// time on the way.
    STRETCH_TIMES: f32 = number(12.0);
    /// More than that is never read at one place.
    STRETCH_BYTES_MAX: u64 = bytes(64 << 20);
    /// So many rounds are planned: a leg that is done early goes on.
    WINDOW: f32 = times(1.25);
    /// To get there is believed to take a disk 5 to 12 ms, whatever was measured beside other
    /// reads,
    WAY_TURNING_NS_MIN: f32 = ns(5e6);
    WAY_TURNING_NS_MAX: f32 = ns(12e6);
    /// and flash no longer than this.
    WAY_FLASH_NS_MAX: f32 = ns(1e6);
    /// What a disk is taken for that was never read in sequence, in bytes per ns.
    RATE_TURNING: f32 = number(0.15);
    RATE_FLASH: f32 = number(0.5);
    /// Legs that are slower than the fastest by more than this do not help a stream.
    SLOWER_TIMES: f32 = times(8.0);
    /// What was measured last counts for a fifth: it is a mean of megabytes already.
    LEARNED_SHARE: f32 = number(0.2);
    /// Reads that are shorter say nothing of how fast a leg reads in sequence.
    SEQUENTIAL_BYTES: u64 = bytes(256 << 10);
    /// Nor do those that are read while there are fewer bytes in flight: the leg could do more,
    LOADED_BYTES: u64 = bytes(2 << 20);
    /// and what it could do is not known any more after so long,
    KNOWN_FOR: Duration = time(Duration::from_secs(1));
    /// or after so many times what it took to find out: to ask a leg that is too slow to help again
    /// and again holds a stream up for a twentieth of the time.
    KNOWN_TIMES: f32 = number(20.0);
}

/// All of them, by module.
pub(crate) const ALL_CONSTANTS: [&[ConstantInfo]; 3] =
    [CONSTANTS, at_random::CONSTANTS, homes::CONSTANTS];

/// One stream.
#[derive(Clone, Debug)]
struct Stream {
    /// Where it goes on.
    next: u64,
    /// How far it has been read.
    run_bytes: u64,
    /// Nobody is to read what is behind this yet.
    planned: u64,
    last: Instant,
    /// When somebody last changed what it is to read next.
    written: Option<Instant>,
    /// The leg that reads all of it; in a RAID10 one of each group of legs.
    homes: LegSet,
    /// What legs are to read, in order, and were not asked for yet.
    stretches: Vec<Stretch>,
}

/// What a leg is to read at one place.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    leg: LegId,
    extent: Extent,
    /// How many were planned before.
    number: u64,
}

impl Stream {
    /// Whether it is one, and not over.
    fn is_read(&self, now: Instant) -> bool {
        self.run_bytes >= CONFIRMED_BYTES.get() && is_of_late(now, self.last)
    }

    fn is_confirmed(&self, now: Instant) -> bool {
        self.is_read(now) && !self.written.is_some_and(|at| is_of_late(now, at))
    }

    /// Whether a read there goes on with it. Where it was over for an hour, a read beside its end
    /// is one at random.
    fn is_near(&self, now: Instant, offset: u64) -> bool {
        let distance = self.next.abs_diff(offset);
        distance == 0 || distance <= TOLERANCE_BYTES.get() && self.is_read(now)
    }

    fn ahead_bytes(&self) -> u64 {
        self.planned - self.next
    }
}

/// The part of the array that an offset lies in: what is near to each other lies in the same, or in
/// two beside each other.
fn part_of(offset: u64) -> u64 {
    offset / (2 * TOLERANCE_BYTES.get())
}

fn is_of_late(now: Instant, at: Instant) -> bool {
    now.saturating_since(at) < OVER_AFTER.get()
}

/// How fast a leg reads in sequence.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    /// In bytes per ns, the ways between stretches included; 0: not known.
    rate: f32,
    known_at: Instant,
    /// Bytes of reads in flight that may be of streams.
    long_bytes: u64,
    /// How fast it has answered reads of all kinds at best while it had some, 0: not known,
    best_rate: f32,
    /// and what it has since, in which time of its own.
    bytes: u64,
    busy_ns: u64,
    answered: Instant,
    /// What it takes to get to a stretch, in ns; 0: not known.
    way_ns: f32,
    /// What a byte takes right behind another one, in ns.
    onward_ns: f32,
    /// Bytes of long reads in flight.
    in_flight: u64,
    /// Since when it has had much to read, and how much it has read since.
    loaded: Option<(Instant, u64)>,
    /// Where the last read that it was handed ends,
    sent: u64,
    /// where the last one begins that began elsewhere,
    sought: u64,
    /// where the last one ends that it has ended,
    end: u64,
    /// and when that was.
    ended: Instant,
}

impl Pace {
    fn on_dispatch(&mut self, now: Instant, extent: Extent) {
        if self.sent != extent.offset() {
            self.sought = extent.offset();
        }
        self.sent = extent.end();
        self.in_flight = self.in_flight.saturating_add(extent.len());
        if self.in_flight >= LOADED_BYTES.get() && self.loaded.is_none() {
            self.loaded = Some((now, 0));
        }
    }

    fn on_complete(&mut self, now: Instant, extent: Extent, service_time: Duration) {
        self.in_flight = self.in_flight.saturating_sub(extent.len());
        if let Some((since, before)) = self.loaded {
            let bytes = before.saturating_add(extent.len());
            self.loaded = (self.in_flight >= RUN_BYTES.get()).then_some((since, bytes));
            if bytes >= ASKED_BYTES.get() {
                let ns = now.saturating_since(since).as_ns().max(1);
                if !self.is_known(now) {
                    self.rate = 0.0;
                }
                learn(&mut self.rate, bytes as f32 / ns as f32);
                self.known_at = now;
                self.loaded = self.loaded.map(|_| (now, 0));
            }
        }
        let own = service_time.min(now.saturating_since(self.ended));
        let own_ns = own.as_ns() as f32;
        if self.end == extent.offset() {
            learn(&mut self.onward_ns, own_ns / extent.len() as f32);
        } else if self.sought == extent.offset() && self.onward_ns > 0.0 {
            let ns = own_ns - self.onward_ns * extent.len() as f32;
            learn(&mut self.way_ns, ns.max(1.0));
        }
        self.end = extent.end();
        self.ended = now;
    }

    /// Whether it was seen of late how fast the leg reads.
    fn is_known(&self, now: Instant) -> bool {
        let found_ns = ASKED_BYTES.get() as f32 / self.rate;
        let known_ns = f32::max(KNOWN_TIMES.get() * found_ns, KNOWN_FOR.get().as_ns() as f32);
        self.rate > 0.0 && (now.saturating_since(self.known_at).as_ns() as f32) < known_ns
    }

    /// How fast the leg is believed to read, where the fastest is as fast as `best`: what is not
    /// known any more may be as good as it can be, and is seen when it has something to read.
    fn believed_rate(&self, now: Instant, turns: bool, best: f32) -> f32 {
        if self.is_known(now) {
            self.rate
        } else if turns {
            self.rate.max(RATE_TURNING.get())
        } else {
            best.max(RATE_FLASH.get())
        }
    }

    /// It has answered a read of any kind.
    fn note_bytes(&mut self, now: Instant, bytes: u64, service_time: Duration) {
        let own = service_time.min(now.saturating_since(self.answered));
        self.answered = now;
        self.busy_ns = self.busy_ns.saturating_add(own.as_ns());
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes >= BEST_BYTES.get() {
            let rate = self.bytes as f32 / self.busy_ns.max(1) as f32;
            self.best_rate = self.best_rate.max(rate);
            (self.busy_ns, self.bytes) = (0, 0);
        }
    }

    /// What it takes to get somewhere.
    fn way_ns(&self, turns: bool) -> f32 {
        let (min, max) = if turns {
            (WAY_TURNING_NS_MIN.get(), WAY_TURNING_NS_MAX.get())
        } else {
            (0.0, WAY_FLASH_NS_MAX.get())
        };
        self.way_ns.max(min).min(max)
    }
}

/// A moving mean.
fn learn(mean: &mut f32, sample: f32) {
    *mean = if *mean == 0.0 {
        sample
    } else {
        *mean + LEARNED_SHARE.get() * (sample - *mean)
    };
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it saturates, and no number of bytes is negative"
)]
const fn whole(bytes: f32) -> u64 {
    bytes as u64
}

/// Where a read is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamWay {
    /// It continues no stream.
    None,
    /// Like everything else.
    Any,
    /// To the leg that reads all of its stream.
    Home(LegId),
    /// Out of the way of those who read at random.
    Aside,
}

/// All streams, and how fast legs are with them.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    ends: Vec<u64>,
    streams: Vec<Stream>,
    /// The streams by the part of the array in which they go on.
    parts: StreamIndex,
    at_random: AtRandom,
    /// Disks that are left to random reads.
    left: LegSet,
    stretches_planned: u64,
    paces: [Pace; LEGS_MAX],
}

impl ReadAhead {
    pub(crate) fn new() -> Self {
        Self {
            ends: vec![u64::MAX; ENDS],
            streams: Vec::with_capacity(STREAMS_MAX),
            parts: StreamIndex::new(),
            at_random: AtRandom::new(),
            left: LegSet::EMPTY,
            stretches_planned: 0,
            paces: [Pace::default(); LEGS_MAX],
        }
    }

    /// What is known of a leg is void.
    pub(crate) fn forget(&mut self, leg: LegId) {
        self.paces[leg.index()] = Pace::default();
    }

    /// A leg was handed an operation.
    pub(crate) fn on_dispatch(&mut self, now: Instant, op: &OpView, way: Option<StreamWay>) {
        if op.kind.is_mutating() {
            self.note_write(now, op.extent);
        }
        if op.kind != OpKind::Read {
            return;
        }
        if way == Some(StreamWay::None) {
            self.at_random.sent(now, op.extent.offset());
        }
        let pace = &mut self.paces[op.leg.index()];
        if op.extent.len() >= LONG_BYTES.get() {
            pace.long_bytes = pace.long_bytes.saturating_add(op.extent.len());
        }
        if op.extent.len() >= SEQUENTIAL_BYTES.get() {
            pace.on_dispatch(now, op.extent);
        }
    }

    /// Who writes where he is about to read needs no help: what was read ahead would be void, and
    /// all legs have come there by writing.
    fn note_write(&mut self, now: Instant, extent: Extent) {
        for stream in &mut self.streams {
            let end = stream
                .planned
                .max(stream.next.saturating_add(TOLERANCE_BYTES.get()));
            if extent.offset() >= stream.next && extent.offset() <= end {
                stream.written = Some(now);
            }
        }
    }

    /// A leg has ended one after `service_time`.
    pub(crate) fn on_complete(&mut self, now: Instant, op: &OpView, service_time: Duration) {
        if op.kind != OpKind::Read {
            return;
        }
        self.at_random.answered(now, op.extent.offset());
        let pace = &mut self.paces[op.leg.index()];
        pace.note_bytes(now, op.extent.len(), service_time);
        if op.extent.len() >= LONG_BYTES.get() {
            pace.long_bytes = pace.long_bytes.saturating_sub(op.extent.len());
        }
        if op.extent.len() >= SEQUENTIAL_BYTES.get() {
            pace.on_complete(now, op.extent, service_time);
        }
    }

    /// A client reads, or a leg has read ahead: what is to be read ahead now.
    pub(crate) fn plan(
        &mut self,
        now: Instant,
        request: Option<&ReadRequest>,
        legs: &[LegView],
        room_bytes: u64,
        prefetch: &mut Vec<Prefetch>,
    ) {
        self.at_random.update(now);
        let mut only = None;
        if let Some(request) = request {
            only = self.note(now, request.extent);
            if !only.is_some_and(|at| self.streams[at].is_confirmed(now)) {
                return;
            }
        }
        let active = || {
            self.streams
                .iter()
                .filter(|stream| stream.is_confirmed(now))
        };
        let count = active().count();
        let held_bytes = active().map(Stream::ahead_bytes).sum::<u64>();
        let mut helpers = self.helpers(now, legs);
        // Of chunks that lie on other legs each, many legs read one stream anyway, and each arm
        // has to leave it after every chunk.
        let is_chunked = request.is_some_and(|request| {
            let offset = request.extent.offset();
            legs.iter().any(|view| view.address != offset)
        });
        if !is_chunked {
            self.share_out(&mut helpers, count);
        }
        let is_alone = count < helpers.iter().flatten().count();
        if let Some(at) = only {
            let mut those = helpers.iter().flatten();
            let has_home = if is_chunked {
                those.all(|helper| helper.turns) && !self.is_beside_random()
            } else {
                those.any(|helper| helper.turns)
            };
            let home = (has_home && !is_alone).then(|| self.home_of(now, at, &helpers));
            self.give_home(at, legs, home.flatten());
        }
        if is_chunked {
            return;
        }
        let mut oldest = [u64::MAX; LEGS_MAX];
        let confirmed = self.streams.iter().filter(|one| one.is_confirmed(now));
        for stretch in confirmed.flat_map(|stream| &stream.stretches) {
            let oldest = &mut oldest[stretch.leg.index()];
            *oldest = stretch.number.min(*oldest);
        }
        let mut free_bytes = room_bytes;
        for (at, stream) in self.streams.iter_mut().enumerate() {
            if only.is_some_and(|only| only != at) || !stream.is_confirmed(now) {
                continue;
            }
            let mut plan = Plan {
                stream,
                room_bytes: room_bytes.saturating_add(held_bytes) / count as u64,
                free_bytes,
                planned: &mut self.stretches_planned,
                oldest,
                helpers,
                prefetch,
            };
            if is_alone {
                plan.stripe();
            }
            plan.ask();
            (free_bytes, helpers) = (plan.free_bytes, plan.helpers);
        }
    }

    /// The place of the stream that a read there goes on with: the nearest of those that are being
    /// read, before those that have ended there once.
    fn near(&self, now: Instant, offset: u64) -> Option<usize> {
        let before = offset.saturating_sub(TOLERANCE_BYTES.get());
        let behind = offset.saturating_add(TOLERANCE_BYTES.get());
        let known = self.parts.find([part_of(before), part_of(behind)]);
        if known.is_empty() {
            return None;
        }
        let near = known.filter(|&at| self.streams[at].is_near(now, offset));
        near.min_by_key(|&at| {
            let stream = &self.streams[at];
            let distance = stream.next.abs_diff(offset);
            (!stream.is_read(now), distance, Reverse(stream.last))
        })
    }

    /// The stream that a read belongs to, from its second one on.
    fn note(&mut self, now: Instant, extent: Extent) -> Option<usize> {
        if let Some(at) = self.near(now, extent.offset()) {
            let stream = &mut self.streams[at];
            self.parts.remove(part_of(stream.next), at);
            self.parts
                .insert(part_of(stream.next.max(extent.end())), at);
            stream.next = stream.next.max(extent.end());
            if !is_of_late(now, stream.last) {
                // What was read ahead of it may have been given back, and who reads at random comes
                // by where it ended, too.
                stream.planned = stream.next;
                stream.stretches.clear();
                stream.run_bytes = 0;
            }
            stream.run_bytes = stream.run_bytes.saturating_add(extent.len());
            stream.planned = stream.planned.max(stream.next);
            stream.last = now;
            return Some(at);
        }
        let end = &mut self.ends[place_of(extent.offset())];
        if *end != extent.offset() {
            self.ends[place_of(extent.end())] = extent.end();
            return None;
        }
        *end = u64::MAX;
        let new = Stream {
            next: extent.end(),
            run_bytes: extent.len().saturating_mul(2),
            planned: extent.end(),
            last: now,
            written: None,
            homes: LegSet::EMPTY,
            stretches: Vec::new(),
        };
        let part = part_of(new.next);
        let at = if self.streams.len() < STREAMS_MAX {
            self.streams.push(new);
            self.streams.len() - 1
        } else {
            let oldest = (0..STREAMS_MAX).min_by_key(|&at| self.streams[at].last)?;
            let old = std::mem::replace(&mut self.streams[oldest], new);
            self.parts.remove(part_of(old.next), oldest);
            oldest
        };
        self.parts.insert(part, at);
        Some(at)
    }

    /// Where a client's read of these bytes is to go, as far as streams go.
    pub(crate) fn way(&self, now: Instant, offset: u64, legs: &[LegView]) -> StreamWay {
        let Some(stream) = self.near(now, offset).map(|at| &self.streams[at]) else {
            let is_second = self.ends[place_of(offset)] == offset;
            return if is_second {
                StreamWay::Any
            } else {
                StreamWay::None
            };
        };
        if !stream.is_confirmed(now) {
            return StreamWay::Any;
        }
        let mut legs = legs.iter().map(|view| view.leg);
        match legs.find(|leg| stream.homes.contains(*leg)) {
            Some(home) => StreamWay::Home(home),
            None if self.is_beside_random() => StreamWay::Aside,
            None => StreamWay::Any,
        }
    }

    /// The disks that are left to random reads, while there are streams.
    pub(crate) fn left(&self, now: Instant) -> LegSet {
        let mut streams = self.streams.iter();
        if !self.left.is_empty() && streams.any(|stream| stream.is_confirmed(now)) {
            self.left
        } else {
            LegSet::EMPTY
        }
    }

    /// How many bytes of streams a leg has to read, as far as can be told by the length of reads.
    pub(crate) fn long_bytes(&self, leg: LegId) -> u64 {
        self.paces[leg.index()].long_bytes
    }

    /// Whether others read at random.
    fn is_beside_random(&self) -> bool {
        self.at_random.waiting() > 0.0
    }

    /// The legs that are fast enough to help a stream, in the order of `legs`.
    fn helpers(&mut self, now: Instant, legs: &[LegView]) -> [Option<Helper>; LEGS_MAX] {
        let mut helpers = [None; LEGS_MAX];
        let mut best = 0.0;
        for view in legs {
            let pace = &mut self.paces[view.leg.index()];
            // What was given up in the queue in front of a leg never ends.
            pace.in_flight = pace.in_flight.min(view.read_bytes_in_flight);
            pace.long_bytes = pace.long_bytes.min(view.read_bytes_in_flight);
            if pace.is_known(now) && !view.rotational {
                best = f32::max(best, pace.rate);
            }
        }
        for (helper, view) in helpers.iter_mut().zip(legs) {
            let pace = &self.paces[view.leg.index()];
            let rate = pace.believed_rate(now, view.rotational, best);
            best = best.max(rate);
            *helper = Some(Helper {
                leg: view.leg,
                rate,
                best_rate: pace.best_rate,
                way_ns: pace.way_ns(view.rotational),
                stands: pace.sent,
                sent: pace.sent,
                has_begun: pace.end > pace.sought && pace.end <= pace.sent,
                is_idle: pace.in_flight == 0,
                turns: view.rotational,
                asked_bytes: view.read_bytes_in_flight,
                queued_bytes: view
                    .read_bytes_in_flight
                    .saturating_add(view.write_bytes_in_flight),
            });
        }
        helpers.map(|helper| helper.filter(|helper| helper.rate * SLOWER_TIMES.get() >= best))
    }
}

/// A leg that can read ahead of a stream.
#[derive(Clone, Copy, Debug)]
struct Helper {
    leg: LegId,
    /// In bytes per ns.
    rate: f32,
    /// With reads of all kinds; 0: not known.
    best_rate: f32,
    way_ns: f32,
    /// Where it stands when it has done what it is to do,
    stands: u64,
    /// and what it was handed of that.
    sent: u64,
    /// Whether it has ended a read of the last stretch that it was handed something of.
    has_begun: bool,
    is_idle: bool,
    turns: bool,
    asked_bytes: u64,
    /// What it has to do before a new stretch.
    queued_bytes: u64,
}

/// What one stream is to have read ahead of it.
struct Plan<'a> {
    stream: &'a mut Stream,
    room_bytes: u64,
    /// Memory that nothing is in yet.
    free_bytes: u64,
    /// Of all streams.
    planned: &'a mut u64,
    /// The stretch that each leg is to begin first.
    oldest: [u64; LEGS_MAX],
    helpers: [Option<Helper>; LEGS_MAX],
    prefetch: &'a mut Vec<Prefetch>,
}

impl Plan<'_> {
    fn helpers(&self) -> impl Iterator<Item = &Helper> {
        self.helpers.iter().flatten()
    }

    /// How far is read ahead at most, of what there would be.
    fn window(&self, bytes: u64) -> u64 {
        bytes.min(self.room_bytes).min(self.stream.run_bytes / 2)
    }

    /// For how long each leg reads at one place, as far as there is memory.
    fn stretch_ns(&self) -> f32 {
        let way_ns = self.helpers().map(|helper| helper.way_ns);
        let way_ns = way_ns.fold(0.0, f32::max);
        let rate = self.helpers().map(|helper| helper.rate).sum::<f32>();
        (STRETCH_TIMES.get() * way_ns).min(self.room_bytes as f32 / (WINDOW.get() * rate))
    }

    /// All legs of the group read it, a stretch each.
    fn stripe(&mut self) {
        let stretch_ns = self.stretch_ns();
        let stretch_of = |helper: &Helper| {
            let bytes = whole(stretch_ns * helper.rate);
            bytes
                .max(RUN_BYTES.get())
                .min(STRETCH_BYTES_MAX.get())
                .next_multiple_of(RUN_BYTES.get())
        };
        let stretches = self.helpers().map(stretch_of);
        let (sum, count) = stretches.fold((0, 0), |(sum, count), bytes| {
            (sum + bytes.max(ASKED_BYTES.get()), count + 1)
        });
        let window = self.window(whole(WINDOW.get() * sum as f32));
        // While it may not be read far ahead, each leg gets less.
        let share = (window / (count + 1)).max(RUN_BYTES.get());
        for stretch in &self.stream.stretches {
            let mut helpers = self.helpers.iter_mut().flatten();
            if let Some(helper) = helpers.find(|helper| helper.leg == stretch.leg) {
                helper.queued_bytes = helper.queued_bytes.saturating_add(stretch.extent.len());
                helper.stands = stretch.extent.end();
            }
        }
        let last = u64::MAX - STRETCH_BYTES_MAX.get();
        while self.stream.ahead_bytes() < window && self.stream.planned < last {
            let from = self.stream.planned;
            let ends = |helper: &Helper, len: u64| {
                let way_ns = if helper.stands == from {
                    0.0
                } else {
                    helper.way_ns
                };
                way_ns + helper.queued_bytes.saturating_add(len) as f32 / helper.rate
            };
            let mut first: Option<(f32, &mut Helper, u64)> = None;
            for helper in self.helpers.iter_mut().flatten() {
                let len = stretch_of(helper)
                    .min(share)
                    .next_multiple_of(RUN_BYTES.get());
                let end = ends(helper, len);
                if first.as_ref().is_none_or(|(before, ..)| end < *before) {
                    first = Some((end, helper, len));
                }
            }
            let Some((_, helper, len)) = first else {
                return;
            };
            helper.queued_bytes = helper.queued_bytes.saturating_add(len);
            helper.stands = from + len;
            self.stream.stretches.push(Stretch {
                leg: helper.leg,
                extent: Extent::new(from, len),
                number: *self.planned,
            });
            *self.planned += 1;
            self.stream.planned = from + len;
        }
    }

    /// Asks each leg for some of its stretches.
    fn ask(&mut self) {
        let next = self.stream.next;
        let (helpers, prefetch) = (&mut self.helpers, &mut self.prefetch);
        let (free_bytes, oldest) = (&mut self.free_bytes, &self.oldest);
        self.stream.stretches.retain_mut(|stretch| {
            let end = stretch.extent.end();
            let mut from = stretch.extent.offset().max(next.min(end));
            let mut helpers = helpers.iter_mut().flatten();
            let Some(helper) = helpers.find(|helper| helper.leg == stretch.leg) else {
                // It has left, or is slow now. Who wants the bytes reads them elsewhere.
                return false;
            };
            let is_first = stretch.number <= oldest[stretch.leg.index()];
            while from < end && helper.may_have(from, is_first) {
                let len = RUN_BYTES.get().min(end - from);
                if len > *free_bytes {
                    break;
                }
                *free_bytes -= len;
                prefetch.push(Prefetch {
                    leg: stretch.leg,
                    extent: Extent::new(from, len),
                });
                helper.has_begun &= helper.sent == from;
                from += len;
                helper.sent = from;
                helper.is_idle = false;
                helper.asked_bytes = helper.asked_bytes.saturating_add(len);
            }
            stretch.extent = Extent::new(from, end - from);
            from < end
        });
    }
}

impl Helper {
    /// Whether it can be asked to read from there now. A disk is handed one read of a stretch, and
    /// more when it has ended that: of several it would begin with whichever comes by first, and
    /// come back for the others. Streams take turns.
    fn may_have(&self, from: u64, is_first: bool) -> bool {
        let is_next = self.has_begun && self.sent == from;
        let is_in_order = is_next || self.is_idle && is_first;
        self.asked_bytes < ASKED_BYTES.get() && (is_in_order || !self.turns)
    }
}

#[cfg(test)]
mod tests;
