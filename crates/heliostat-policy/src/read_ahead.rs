//! Sequential streams, and what is to be read ahead of them, from which leg.
//!
//! A stream is a run of reads each of which begins where the one before it ended. One stream alone
//! is *striped*: legs read a *stretch* each, one behind the other, and so long that to get there
//! costs little. All stretches of a round take equally long, so that a slower leg reads less; each
//! goes to the leg that ends it first. Where there are as many streams as legs, or more, no stretch
//! is read ahead: there are enough reads for all legs, and on disks each stream has one leg for
//! itself, its *home*, with as few others as may be; a few streams have some disks each. Homes read
//! a little ahead of whoever has one short read at a time, so that the arm stays. Flash that has
//! time for it is the home of all beside disks, and a disk that lags behind others which have is
//! none. Where all is flash, and streams are no more than legs, it is tried which of both is
//! faster. Disks that are busy with writes read no stretch ahead, and a little where no write waits
//! for it. In a RAID10 a stretch is one of the leg, so that it leaves out what others hold, and
//! homes read ahead. Beside random reads streams leave flash to them as far as there is another leg
//! for streams.
//!
//! No stream has more read ahead than half of what it has read itself: what is short is never far
//! from what was asked for, and a reader that stops wastes a third of all that was read at most.

mod at_random;
mod beliefs;
mod firsts;
mod held;
mod helper;
mod homes;
mod keeping;
mod lags;
mod pace;
mod plan;
mod spare;
mod stalls;
mod stream;
mod waited;
mod worth;

use std::cmp::Reverse;

use heliostat_types::{Duration, Extent, Instant, LEGS_MAX, LegId, LegSet, OpKind};

use crate::api::{Layout, LegView, OpView, Prefetch, ReadRequest};
use crate::constants::{ConstantInfo, constants};
use crate::stream_index::{INDEXED_MAX, StreamIndex, place_of};
use at_random::AtRandom;
use beliefs::Aside;
use firsts::First;
use held::Held;
use helper::{Helper, Helpers};
use homes::{Group, hindering};
use keeping::Keeping;
use lags::Lags;
use pace::Pace;
use plan::{Plan, Tries};
use stalls::Stalls;
use stream::{Stream, Stretch, part_of};
use waited::Waited;
use worth::Worth;

/// Streams that are known at a time: more than clients of a machine read at once.
const STREAMS_MAX: usize = INDEXED_MAX;
/// Ends of reads that went on from nothing, by a hash of theirs: random reads replace each other
/// there, and drive no stream out.
const ENDS: usize = 256;
constants! { "read_ahead":
    /// A stream has been read this far before anything is read ahead of it.
    CONFIRMED_BYTES: u64 = bytes(1 << 20);
    /// And in so many reads: who reads long blocks at random comes by where one has ended.
    CONFIRMED_READS: u32 = count(4);
    /// What came after so many times as much that goes on with nothing, and after as many short
    /// reads, did so by chance: it is no more of a stream than that;
    CHANCE_TIMES: u64 = count(64);
    /// and after so many not even where there was one, which may be read slowly.
    CHANCE_TIMES_READ: u64 = count(1024);
    /// A stream that was not read for this long is over, or its reader so slow that it needs no
    /// help.
    OVER_AFTER: Duration = time(Duration::from_ms(500));
    /// It takes no part of legs and memory before that where it was not read for eight times as
    /// long as it ever was not of late, and 1 ms, and as long as a leg takes for what all
    /// ask it for at a time: who reads file after file leaves one for another.
    QUIET_TIMES: u64 = count(8);
    QUIET_MIN: Duration = time(Duration::from_ms(1));
    /// The longest gap between two reads is forgotten by a 512th with each.
    GAP_SHARE: u64 = count(512);
    /// Requests that are sent at once may come in any order, as far apart as this.
    TOLERANCE_BYTES: u64 = bytes(1 << 20);
    /// Who has one read at a time, and a short one, has no other one there when it is answered, and
    /// the arm leaves for other streams; and of who has very many an arm has so many beside it that
    /// it reads all of them in turns. So its home reads two operations of this ahead: with the next
    /// one at hand a drive stays for as long as it lets others wait.
    LONE_BYTES: u64 = bytes(512 << 10);
    LONE_RUNS: u64 = count(2);
    /// It is one where that is so of most reads, of about so many.
    LONE_WEIGHT: f32 = number(1.0 / 16.0);
    LONE_SHARE: f32 = number(0.75);
    /// One operation,
    RUN_BYTES: u64 = bytes(1 << 20);
    /// and one where all is flash that nobody writes, and more of them cost nothing: who waits for
    /// the first bytes waits for all of it. With less than `SEQUENTIAL_BYTES` nothing is learned.
    RUN_BYTES_FLASH: u64 = bytes(256 << 10);
    /// Whoever reads at random reads less at a time, mostly.
    LONG_BYTES: u64 = bytes(64 << 10);
    /// Some windows of a reader and what is read ahead of it.
    LONG_WEIGHT: f32 = number(1.0 / 64.0);
    /// What a leg had in flight before is little of that.
    BEST_BYTES: u64 = bytes(64 << 20);
    /// What a leg is asked for at a time: it has always something to go on with, and who else wants
    /// it does not wait for long;
    ASKED_BYTES: u64 = bytes(4 << 20);
    /// and less where all is flash that nobody writes, which is done with it sooner.
    ASKED_BYTES_FLASH: u64 = bytes(2 << 20);
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
    /// In a RAID10 flash goes on with a stretch unless another leg that has the next chunk is twice
    /// as fast.
    FAR_FASTER: f32 = times(2.0);
    /// One answer says that a byte takes at most four times as long as is known of it.
    ONWARD_TIMES_MAX: f32 = times(4.0);
    /// A stream is written where that is one of eight bytes that it reads, and more than this: who
    /// writes at random comes by once.
    CHANGED_SHARE: u64 = count(8);
    CHANGED_BYTES: u64 = bytes(128 << 10);
    /// A leg is written where that is one of eight operations, of some dozens,
    WRITTEN_SHARE: f32 = number(0.125);
    /// until it is one of 32: a stream that is read ahead is few operations, or many.
    WRITTEN_SHARE_LEFT: f32 = number(1.0 / 32.0);
    WRITTEN_WEIGHT: f32 = number(1.0 / 64.0);
    /// Writes wait for reads where one takes more than a fourth of what a random read does: a drive
    /// that takes them by the way answers them before it could have read anything. Where nobody
    /// reads at random a disk's way stands for that, and among disks four times the least of them.
    WRITES_PASS: f32 = times(4.0);
    /// Or more than half, where streams are kept apart already, so that random reads are faster.
    WRITES_PASS_APART: f32 = times(2.0);
    /// What was measured last counts for a fifth: it is a mean of megabytes already.
    LEARNED_SHARE: f32 = number(0.2);
    /// Reads that are shorter say nothing of how fast a leg reads in sequence.
    SEQUENTIAL_BYTES: u64 = bytes(256 << 10);
    /// Nor do those that are read while there are fewer bytes in flight: the leg could do more,
    LOADED_BYTES: u64 = bytes(3 << 19);
    /// and what it could do is not known any more after so long,
    KNOWN_FOR: Duration = time(Duration::from_secs(1));
    /// or after so many times what it took to find out: to ask a leg that is too slow to help again
    /// and again holds a stream up for a twentieth of the time.
    KNOWN_TIMES: f32 = number(20.0);
    /// A leg has become far slower where reads take so long, eight times as long as they did, and
    /// nothing else was answered meanwhile: the stream waits for all that it was asked for.
    LATE: Duration = time(Duration::from_ms(100));
    /// Once is a pause.
    LATE_IN_A_ROW: u32 = count(2);
    /// It is asked again after so many times what the last one took, a second at least, and no more
    /// than this: a disk for one read at the end of what is read ahead.
    LATE_TIMES: f32 = number(8.0);
    LATE_FOR_MAX: Duration = time(Duration::from_secs(4));
}

/// All of them, by module.
pub(crate) const ALL_CONSTANTS: [&[ConstantInfo]; 11] = [
    CONSTANTS,
    at_random::CONSTANTS,
    firsts::CONSTANTS,
    held::CONSTANTS,
    homes::CONSTANTS,
    keeping::CONSTANTS,
    lags::CONSTANTS,
    spare::CONSTANTS,
    stalls::CONSTANTS,
    waited::CONSTANTS,
    worth::CONSTANTS,
];

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it saturates, and no number of bytes is negative"
)]
const fn whole(bytes: f32) -> u64 {
    bytes as u64
}

/// Whether a read of this length counts as one of a stream, to a leg.
pub(crate) fn is_long(len_bytes: u64) -> bool {
    len_bytes >= LONG_BYTES.get()
}

/// Where a read is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamWay {
    /// It continues no stream.
    None,
    /// Like everything else.
    Any,
    /// To one of the legs that read its stream.
    Homes(LegSet),
    /// To the disk that is to read it ahead, and was not asked yet.
    Planned(LegId),
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
    /// Legs that have an arm.
    turning: LegSet,
    /// Legs that are left to random reads.
    left: LegSet,
    /// Flash on which short writes wait for what streams read.
    held: Held,
    /// Disks that writes wait for all the time.
    waited: Waited,
    /// Disks at which a log stalls by what is read there.
    stalls: Stalls,
    /// Why legs read nothing ahead, when a stream was read last.
    asides: [Option<Aside>; LEGS_MAX],
    /// Disks of a RAID10 that streams are read faster without.
    hindering: LegSet,
    /// Whether flash has the time to read what disks would.
    has_spare: bool,
    /// Disks that lag behind others which have time.
    lags: Lags,
    /// Whether there are fewer streams than legs that hold what they read.
    are_few: bool,
    /// The write that was noted last, and the leg that was handed it first.
    noted: Option<(LegId, Extent)>,
    /// How many reads streams have in flight, of a MiB each, on average.
    long_reads: f32,
    streams_seen: u64,
    /// How much of what was read went on with nothing.
    at_random_bytes: u64,
    stretches_planned: u64,
    firsts: [First; LEGS_MAX],
    worth: Worth,
    keeping: Keeping,
    paces: [Pace; LEGS_MAX],
}

impl ReadAhead {
    pub(crate) fn new() -> Self {
        Self {
            ends: vec![u64::MAX; ENDS],
            streams: Vec::with_capacity(STREAMS_MAX),
            parts: StreamIndex::new(),
            at_random: AtRandom::new(),
            turning: LegSet::EMPTY,
            left: LegSet::EMPTY,
            held: Held::default(),
            waited: Waited::default(),
            stalls: Stalls::default(),
            asides: [None; LEGS_MAX],
            hindering: LegSet::EMPTY,
            has_spare: false,
            lags: Lags::default(),
            are_few: false,
            noted: None,
            long_reads: 0.0,
            streams_seen: 0,
            at_random_bytes: 0,
            stretches_planned: 0,
            firsts: [First::NONE; LEGS_MAX],
            worth: Worth::new(),
            keeping: Keeping::new(),
            paces: [Pace::default(); LEGS_MAX],
        }
    }

    /// Legs that have an arm, whatever they say of themselves.
    pub(crate) const fn set_turning(&mut self, turning: LegSet) {
        self.turning = turning;
    }

    /// What is known of a leg is void.
    pub(crate) fn forget(&mut self, leg: LegId) {
        self.paces[leg.index()] = Pace::default();
        self.worth = Worth::new();
        self.keeping = Keeping::new();
        self.held.legs.remove(leg);
        self.lags = Lags::default();
        self.waited = Waited::default();
        self.stalls = Stalls::default();
    }

    /// A leg was slow and is not any more: if it read a fraction of what it does at best, how fast
    /// it is has to be seen anew.
    pub(crate) fn doubt(&mut self, leg: LegId) {
        let pace = &mut self.paces[leg.index()];
        if pace.rate * SLOWER_TIMES.get() < pace.best_rate {
            (pace.rate, pace.loaded) = (0.0, None);
        }
    }

    /// A leg was handed an operation.
    pub(crate) fn on_dispatch(&mut self, now: Instant, op: &OpView, way: Option<StreamWay>) {
        let has_disks = !self.turning.is_empty();
        let pace = &mut self.paces[op.leg.index()];
        pace.note_kind(now, op.kind.is_mutating());
        if has_disks {
            pace.busy.handed(now);
        }
        if op.kind.is_mutating() {
            self.stalls.note_write(op.leg);
            self.note_write(now, op.leg, Extent::new(op.array_offset, op.extent.len()));
        }
        if op.kind != OpKind::Read {
            return;
        }
        if way == Some(StreamWay::None) {
            self.at_random.sent(now, op.array_offset);
        }
        let pace = &mut self.paces[op.leg.index()];
        if is_long(op.extent.len()) {
            pace.long_bytes = pace.long_bytes.saturating_add(op.extent.len());
        }
        if op.extent.len() >= SEQUENTIAL_BYTES.get() {
            pace.on_dispatch(now, op.extent);
        }
        let is_of_stream = || match way {
            Some(way) => way != StreamWay::None,
            // It may be read ahead, or for the array itself.
            None => self.is_planned(op.array_offset),
        };
        if !self.turning.is_empty() && is_of_stream() {
            self.stalls.note_read(op.leg, op.extent.len());
        }
    }

    /// Whether a stream is read there, or is about to be.
    fn is_planned(&self, offset: u64) -> bool {
        self.streams.iter().any(|stream| {
            let from = stream.next.saturating_sub(TOLERANCE_BYTES.get());
            (from..stream.planned).contains(&offset)
        })
    }

    /// Who writes where he is about to read needs no help: what was read ahead would be void, and
    /// all legs have come there by writing. All legs are handed each write; it counts once.
    fn note_write(&mut self, now: Instant, leg: LegId, extent: Extent) {
        let is_copy = |noted: &(LegId, Extent)| noted.0 != leg && noted.1 == extent;
        if self.noted.as_ref().is_some_and(is_copy) {
            return;
        }
        self.noted = Some((leg, extent));
        for stream in &mut self.streams {
            let end = stream
                .planned
                .max(stream.next.saturating_add(TOLERANCE_BYTES.get()));
            if extent.offset() >= stream.next && extent.offset() <= end {
                let bytes = stream.changed_bytes.saturating_add(extent.len());
                stream.changed_bytes = bytes.min(2 * CHANGED_BYTES.get());
                if bytes > CHANGED_BYTES.get() {
                    stream.written = Some(now);
                }
            }
        }
    }

    /// A leg has ended one after `service_time`.
    pub(crate) fn on_complete(&mut self, now: Instant, op: &OpView, service_time: Duration) {
        if !self.turning.is_empty() {
            self.paces[op.leg.index()].busy.answered(now);
        }
        if op.kind == OpKind::Write {
            self.paces[op.leg.index()].note_write_time(now, op.extent.len(), service_time);
            if self.turning.contains(op.leg) {
                self.keeping.note_write(now, service_time);
            }
        }
        if op.kind != OpKind::Read {
            self.paces[op.leg.index()].note_other(now);
            return;
        }
        let is_at_random = self.at_random.answered(now, op.array_offset);
        let pace = &mut self.paces[op.leg.index()];
        if !is_at_random && !self.turning.is_empty() {
            pace.note_took(now, op.extent.len(), service_time);
        }
        let silence = pace.note_bytes(now, op.extent.len(), service_time);
        if is_long(op.extent.len()) {
            pace.long_bytes = pace.long_bytes.saturating_sub(op.extent.len());
            pace.note_read_time(service_time);
        }
        if op.extent.len() >= SEQUENTIAL_BYTES.get() {
            pace.on_complete(now, op.extent, (service_time, silence));
        }
    }

    /// A client reads, or a leg has read ahead: what is to be read ahead now.
    pub(crate) fn plan(
        &mut self,
        now: Instant,
        request: Option<&ReadRequest>,
        legs: &[LegView],
        layout: &dyn Layout,
        room_bytes: u64,
        prefetch: &mut Vec<Prefetch>,
    ) {
        self.note_others(now, legs, layout);
        let mut only = None;
        if let Some(request) = request {
            only = self.note(now, request.extent);
            if !only.is_some_and(|at| self.streams[at].is_confirmed(now)) {
                return;
            }
        }
        let active = || self.streams.iter().filter(|stream| stream.is_active(now));
        let count = active().count();
        if count == 0 {
            // A leg has answered a reader who has stopped.
            return;
        }
        let held_bytes = active().map(Stream::asked_bytes).sum::<u64>();
        let mut helpers = self.helpers(now, legs);
        if let Some(at) = only {
            self.streams[at].wait = helpers.wait(count);
        }
        self.note_long_reads(legs);
        match (only, layout.chunk_bytes()) {
            (Some(at), Some(chunk_bytes)) => {
                self.house_in_groups(now, at, (&helpers, legs), (layout, chunk_bytes), count);
                self.leave_in_groups(&mut helpers);
            }
            (None, Some(_)) => self.leave_in_groups(&mut helpers),
            (_, None) => {
                helpers.leave_slow();
                helpers.leave_held(count);
                self.note_spare(now, legs, &mut helpers, count);
                self.note_lags(now, legs, &mut helpers, count);
                self.share_out(&mut helpers, count);
                self.leave_waited_for(&mut helpers);
                if let Some(at) = only {
                    self.house(now, at, (&helpers, legs), count);
                }
            }
        }
        self.asides = helpers.asides;
        let bytes = request.map_or(0, |request| request.extent.len());
        let tries = self.tries(now, only, (&helpers, layout), (count, bytes));
        self.find_firsts(now, &helpers, layout);
        let crowded = self.crowded(now, &helpers, layout);
        let is_alone = only.is_some_and(|at| self.is_alone(now, at, &helpers, layout));
        let mut free_bytes = room_bytes;
        for (at, stream) in self.streams.iter_mut().enumerate() {
            if only.is_some_and(|only| only != at) || !stream.is_active(now) {
                continue;
            }
            let mut plan = Plan {
                stream,
                count,
                tries,
                layout,
                room_bytes: room_bytes.saturating_add(held_bytes) / count as u64,
                free_bytes,
                planned: &mut self.stretches_planned,
                firsts: &mut self.firsts,
                now,
                crowded,
                is_alone,
                helpers,
                prefetch,
            };
            plan.stripe();
            plan.ask();
            if only.is_some() {
                plan.keep_on(bytes);
            }
            (free_bytes, helpers) = (plan.free_bytes, plan.helpers);
        }
    }

    /// What others do than those who read in sequence.
    fn note_others(&mut self, now: Instant, legs: &[LegView], layout: &dyn Layout) {
        let are_flash = legs.iter().all(|view| !self.turning.contains(view.leg));
        self.at_random.update(now, are_flash, &mut self.paces);
        self.note_held(now, legs, are_flash);
        self.note_waited(now, legs, layout);
    }

    /// What is to be tried now, of so many streams, of one of which so many bytes more are read.
    fn tries(
        &mut self,
        now: Instant,
        only: Option<usize>,
        (helpers, layout): (&Helpers, &dyn Layout),
        (count, bytes): (usize, u64),
    ) -> Tries {
        Tries {
            reads_ahead: self.try_ahead(now, helpers, layout, (count, bytes)),
            keeps: only.is_some_and(|at| self.try_keeping(now, at, (helpers, layout), bytes)),
        }
    }

    fn note_long_reads(&mut self, legs: &[LegView]) {
        let long_bytes = legs.iter().map(|view| self.long_bytes(view.leg) as f32);
        let long_reads = long_bytes.sum::<f32>() / RUN_BYTES.get() as f32;
        self.long_reads += LONG_WEIGHT.get() * (long_reads - self.long_reads);
    }

    /// What is read ahead of the stream that has been quiet for longest, where others are read, or
    /// something else is asked for, and none of these wants it.
    pub(crate) fn unwanted(&mut self, now: Instant, asked: Option<Extent>) -> Option<Extent> {
        let is_read = |stream: &&Stream| stream.is_active(now);
        if asked.is_none() && !self.streams.iter().any(|stream| stream.is_active(now)) {
            return None;
        }
        let is_wanted = |ahead: Extent| {
            let mut read = self.streams.iter().filter(is_read);
            asked.is_some_and(|asked| asked.overlaps(ahead))
                || read.any(|stream| stream.ahead().is_some_and(|other| other.overlaps(ahead)))
        };
        let quiet = self.streams.iter().enumerate();
        let quiet = quiet.filter(|(_, stream)| !stream.is_active(now));
        let quiet = quiet.filter_map(|(at, stream)| Some((at, stream.last, stream.ahead()?)));
        let quiet = quiet.filter(|(_, _, ahead)| !is_wanted(*ahead));
        let (at, _, ahead) = quiet.min_by_key(|(_, last, _)| *last)?;
        self.streams[at].forget_plan();
        Some(ahead)
    }

    /// The stream at `at` gets its homes, of legs that all hold it.
    fn house(
        &mut self,
        now: Instant,
        at: usize,
        (helpers, legs): (&Helpers, &[LegView]),
        count: usize,
    ) {
        self.are_few = count < legs.len();
        let all = legs.iter().map(|view| view.leg).collect();
        let homes = self.homes_of(now, at, helpers, false, count);
        self.give_homes(at, all, homes);
    }

    /// Legs of a RAID10 are shared out, and the stream at `at` gets its homes, each time that it
    /// comes to another chunk.
    fn house_in_groups(
        &mut self,
        now: Instant,
        at: usize,
        (helpers, legs): (&Helpers, &[LegView]),
        (layout, chunk_bytes): (&dyn Layout, u64),
        count: usize,
    ) {
        let next = self.streams[at].next;
        let chunk = Some(next / chunk_bytes.max(1));
        if self.streams[at].housed == chunk {
            return;
        }
        self.streams[at].housed = chunk;
        let groups = Group::all(legs, layout, next);
        let copies = groups.first().map_or(0, |group| group.legs.iter().count());
        self.are_few = count < copies;
        self.share_out_groups(&groups, helpers, layout, count);
        let mut helpers = *helpers;
        helpers.leave(self.left);
        let are_apart = groups.iter().all(|group| group.is_apart);
        self.leave_waited_for(&mut helpers);
        self.hindering = if are_apart {
            LegSet::EMPTY
        } else {
            hindering(&helpers, layout, next)
        };
        helpers.leave(self.hindering);
        for group in &groups {
            let holders = helpers.holding(layout, group.offset);
            let homes = self.homes_of(now, at, &holders, true, count);
            self.give_homes(at, group.legs, homes);
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
            stream.read(now, extent, self.at_random_bytes);
            self.parts.insert(part_of(stream.next), at);
            return Some(at);
        }
        let end = &mut self.ends[place_of(extent.offset())];
        if *end != extent.offset() {
            self.at_random_bytes = self.at_random_bytes.saturating_add(extent.len());
            self.ends[place_of(extent.end())] = extent.end();
            return None;
        }
        *end = u64::MAX;
        self.streams_seen += 1;
        let new = Stream::new(self.streams_seen, now, extent, self.at_random_bytes);
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
        if let Some(way) = self.planned_way(stream, offset, legs) {
            return way;
        }
        let all = legs.iter().map(|view| view.leg);
        let homes: LegSet = all.filter(|leg| stream.homes.contains(*leg)).collect();
        if homes.is_empty() {
            self.way_without_home(legs)
        } else {
            StreamWay::Homes(homes)
        }
    }

    /// The legs that are left to random reads, while there are streams.
    pub(crate) fn left(&self, now: Instant) -> LegSet {
        let mut streams = self.streams.iter();
        if !self.left.is_empty() && streams.any(|stream| stream.is_active(now)) {
            self.left
        } else {
            LegSet::EMPTY
        }
    }

    /// How many bytes of streams a leg has to read, as far as can be told by the length of reads.
    pub(crate) fn long_bytes(&self, leg: LegId) -> u64 {
        self.paces[leg.index()].long_bytes
    }

    /// Whether there are fewer streams than legs, so that no other one goes on where one waits.
    pub(crate) const fn are_few(&self) -> bool {
        self.are_few
    }

    /// What an operation takes of those who read at random, in ns, if a read takes `read_ns`: of so
    /// many some are writes, which all of `legs` have, and the slowest is waited for.
    pub(crate) fn random_ns(&self, now: Instant, legs: &[LegView], read_ns: f32) -> f32 {
        let paces = legs.iter().map(|view| &self.paces[view.leg.index()]);
        let written = paces.filter(|pace| pace.is_written(now));
        let (share, write_ns) = written.fold((0.0, 0.0), |(share, ns), pace| {
            (f32::max(share, pace.writes), f32::max(ns, pace.write_ns))
        });
        read_ns + share * (write_ns - read_ns)
    }

    /// How fast a leg has answered at best, in bytes per ns; 0: not known.
    pub(crate) const fn best_rate(&self, leg: LegId) -> f32 {
        self.paces[leg.index()].best_rate
    }
}

#[cfg(test)]
mod tests;
