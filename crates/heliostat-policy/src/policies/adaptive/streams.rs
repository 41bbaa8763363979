//! Which leg has served the bytes right before these, and for how long.

use heliostat_types::{Duration, Extent, Instant, LegId};

use crate::constants::constants;
use crate::stream_index::{StreamIndex, place_of};

constants! { "streams":
    /// A stream stays on its leg for so long at least: at 64 MiB a seek in between costs a hard
    /// disk a twentieth of its time.
    pub(super) RUN_BYTES_MIN: u64 = bytes(64 << 20);
    /// From so many bytes on the arm is where the stream is, and the first read's seek is over.
    CONTINUES_BYTES: u64 = bytes(1 << 20);
    /// A stream that was not read for so long does not count: half a second is a pause of its
    /// reader.
    ACTIVE: Duration = time(Duration::from_ms(500));
    /// Flash is shared out among streams that have read so much: what is shorter may be a run of
    /// somebody who writes in between.
    LONG_BYTES: u64 = bytes(16 << 20);
    /// None of those is a stream that was not read for so long: at the rate of flash it has ended.
    GOES_ON: Duration = time(Duration::from_ms(20));
}
/// Ends that are remembered until a read begins there. Those of random reads replace each other.
const ENDS: usize = 256;
/// Streams that are remembered: more than clients of a machine read at once.
const STREAMS: usize = 32;

/// Reads that go on where the one before ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    next: u64,
    /// Where its last read went.
    pub(super) leg: LegId,
    /// Where that ended there. In a RAID10 the next one may begin elsewhere on the same leg.
    leg_end: u64,
    /// Bytes that it has read there without a break; 0 before the second read.
    pub(super) run_bytes: u64,
    /// And all in all, on any leg.
    pub(super) bytes: u64,
    read_at: Instant,
}

impl Stream {
    /// Whether it was on this leg that it was read last, right before this address.
    pub(super) fn is_at(&self, leg: LegId, address: u64) -> bool {
        self.leg == leg && self.leg_end == address
    }

    /// How long ago it was read last.
    pub(super) fn age(&self, now: Instant) -> Duration {
        now.saturating_since(self.read_at)
    }

    /// Whether it has read much, and is no accident.
    pub(super) fn is_long(&self) -> bool {
        self.bytes >= LONG_BYTES.get()
    }

    /// Whether the arm of `leg` is where this stream is.
    pub(super) fn is_run_on(&self, leg: LegId, address: u64) -> bool {
        self.is_at(leg, address) && is_past_seek(self.run_bytes)
    }
}

/// Whether the arm is where so many bytes were read one behind the other.
pub(super) fn is_past_seek(run_bytes: u64) -> bool {
    run_bytes >= CONTINUES_BYTES.get()
}

#[derive(Debug)]
pub(super) struct Streams {
    /// Ends of reads that went on from nothing, by a hash of theirs. They have a table of their
    /// own, so that random reads drive no stream out.
    ends: Vec<(u64, LegId, u64)>,
    streams: Vec<Stream>,
    /// The streams by where they go on.
    index: StreamIndex,
}

impl Default for Streams {
    fn default() -> Self {
        Self {
            ends: vec![(u64::MAX, LegId::new(0), 0); ENDS],
            streams: Vec::with_capacity(STREAMS),
            index: StreamIndex::new(),
        }
    }
}

impl Streams {
    /// The place of the stream that goes on at `offset`, of several the one that was read last: the
    /// others have only ended there.
    fn place(&self, offset: u64) -> Option<usize> {
        let known = self.index.find([offset]);
        let known = known.filter(|at| self.streams[*at].next == offset);
        known.max_by_key(|at| self.streams[*at].read_at)
    }

    /// The stream that a read at `offset` goes on with.
    pub(super) fn find(&self, offset: u64) -> Option<Stream> {
        let known = self.place(offset).map(|at| self.streams[at]);
        known.or_else(|| {
            let (next, leg, leg_end) = self.ends[place_of(offset)];
            (next == offset).then_some(Stream {
                next,
                leg,
                leg_end,
                run_bytes: 0,
                bytes: 0,
                read_at: Instant::ZERO,
            })
        })
    }

    /// How many streams were read of late.
    pub(super) fn active(&self, now: Instant) -> usize {
        let is_active = |stream: &&Stream| stream.age(now) < ACTIVE.get();
        self.streams.iter().filter(is_active).count()
    }

    /// Counts these by leg.
    pub(super) fn count(&self, now: Instant, by_leg: &mut [u32]) {
        self.count_of(|stream| stream.age(now) < ACTIVE.get(), by_leg);
    }

    /// The same of those that have read much, and go on just now.
    pub(super) fn count_long(&self, now: Instant, by_leg: &mut [u32]) {
        self.count_of(
            |stream| stream.is_long() && stream.age(now) < GOES_ON.get(),
            by_leg,
        );
    }

    fn count_of(&self, is_counted: impl Fn(&Stream) -> bool, by_leg: &mut [u32]) {
        for stream in &self.streams {
            if is_counted(stream) {
                by_leg[stream.leg.index()] += 1;
            }
        }
    }

    /// A read that goes on with nothing goes to `leg`, to what is at `address` there.
    pub(super) fn note_end(&mut self, extent: Extent, leg: LegId, address: u64) {
        let leg_end = address.saturating_add(extent.len());
        self.ends[place_of(extent.end())] = (extent.end(), leg, leg_end);
    }

    /// A read that goes on with what was found goes to `leg`, to what is at `address` there.
    pub(super) fn go_on(&mut self, now: Instant, extent: Extent, leg: LegId, address: u64) {
        let offset = extent.offset();
        let leg_end = address.saturating_add(extent.len());
        if let Some(at) = self.place(offset) {
            self.index.remove(offset, at);
            self.index.insert(extent.end(), at);
            let stream = &mut self.streams[at];
            let before = if stream.is_at(leg, address) {
                stream.run_bytes
            } else {
                0
            };
            *stream = Stream {
                next: extent.end(),
                leg,
                leg_end,
                run_bytes: before.saturating_add(extent.len()),
                bytes: stream.bytes.saturating_add(extent.len()),
                read_at: now,
            };
        } else {
            self.begin(Stream {
                next: extent.end(),
                leg,
                leg_end,
                run_bytes: extent.len(),
                bytes: extent.len(),
                read_at: now,
            });
        }
    }

    /// A second read goes on where the first ended.
    fn begin(&mut self, stream: Stream) {
        let at = if self.streams.len() < STREAMS {
            self.streams.push(stream);
            self.streams.len() - 1
        } else {
            let by_age = |at: &usize| self.streams[*at].read_at;
            let oldest = (0..STREAMS).min_by_key(by_age).unwrap_or(0);
            self.index.remove(self.streams[oldest].next, oldest);
            self.streams[oldest] = stream;
            oldest
        };
        self.index.insert(stream.next, at);
    }
}
