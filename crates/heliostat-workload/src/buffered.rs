//! A clone whose requests go through its page cache: one call at a time, reads that wait for
//! pages, writes that wait for room, and a background that writes back.

use std::collections::BTreeMap;

use heliostat_types::{Duration, Extent, Instant, OpKind};

use crate::cache::{PageCache, Pages};
use crate::client::{Ask, Next, Pace};
use crate::ops::{Direction, Ops};

/// What a call costs that moves no bytes.
const CALL_TIME: Duration = Duration::from_us(1);
/// Nanoseconds to copy a page between the page cache and a program: 10 GB/s.
const COPY_PAGE_NS: u64 = 410;
/// Dirty pages are written after so long, as Linux does it (`dirty_expire_centisecs`).
const DIRTY_EXPIRE: Duration = Duration::from_secs(30);
/// Requests that the background keeps in flight.
const WRITE_BACK_DEPTH: u32 = 32;
/// The largest of them.
const WRITE_BACK_REQUEST_BYTES: u64 = 1 << 20;

/// Tags of answers: whose they are.
const TAG_WRITE_BACK: u64 = u64::MAX;
const TAG_CALL: u64 = u64::MAX - 1;

/// How long a program takes to copy `len_bytes` from or to pages that are there.
pub(crate) fn copy_time(len_bytes: u64) -> Duration {
    CALL_TIME + Duration::from_ns(len_bytes * COPY_PAGE_NS / crate::job::PAGE_BYTES)
}

/// What the program is in.
#[derive(Clone, Copy, Debug)]
enum Call {
    /// No call.
    None,
    /// A read of a stream.
    Stream { from: u64, at: u64, end: u64 },
    /// A random read, which waits for its answer.
    Random { extent: Extent, is_sent: bool },
    /// A write that waits for room.
    Write { extent: Extent },
    /// Bytes are copied, up to a moment.
    Copy {
        until: Instant,
        kind: OpKind,
        extent: Extent,
    },
    /// An fsync: everything is written back, then flushed.
    Sync { is_sent: bool },
}

/// A clone with a page cache.
#[derive(Debug)]
pub(crate) struct Buffered {
    pub(crate) ops: Ops,
    pub(crate) pace: Pace,
    call: Call,
    called_at: Instant,
    write_back: WriteBack,
}

impl Buffered {
    pub(crate) fn new(ops: Ops, pace: Pace, dirty_limit_bytes: u64) -> Self {
        Self {
            ops,
            pace,
            call: Call::None,
            called_at: Instant::ZERO,
            write_back: WriteBack::new(dirty_limit_bytes),
        }
    }

    /// What happens next; `cache` is that of its stream.
    pub(crate) fn next(
        &mut self,
        now: Instant,
        client: usize,
        mut cache: Option<&mut PageCache>,
    ) -> Next {
        if let Some(cache) = cache.as_deref_mut()
            && let Some((extent, place)) = cache.next_request()
        {
            return Next::ask(Ask::Read(extent), place, now);
        }
        if let Some(extent) = self.write_back.next_request(now) {
            return Next::ask(Ask::Write(extent), TAG_WRITE_BACK, now);
        }
        loop {
            let next = match self.call {
                Call::None => match self.begin(now) {
                    Ok(()) => continue,
                    Err(next) => next,
                },
                Call::Stream { from, at, end } => {
                    let cache = cache.as_deref_mut().expect("a stream has a page cache");
                    let pages = cache.touch(at, end);
                    match pages {
                        Pages::There => self.copy_out(now, end - from),
                        Pages::Missing(at) => {
                            self.call = Call::Stream { from, at, end };
                            cache.wait(client);
                        }
                    }
                    if let Some((extent, place)) = cache.next_request() {
                        return Next::ask(Ask::Read(extent), place, now);
                    }
                    match pages {
                        Pages::There => continue,
                        Pages::Missing(_) => Next::WaitForAnswer,
                    }
                }
                Call::Random { is_sent: true, .. } | Call::Sync { is_sent: true } => {
                    Next::WaitForAnswer
                }
                Call::Random { extent, .. } => {
                    self.call = Call::Random {
                        extent,
                        is_sent: true,
                    };
                    return Next::ask(Ask::Read(extent), TAG_CALL, now);
                }
                Call::Write { extent } if self.write_back.has_room(extent.len()) => {
                    self.call = Call::Copy {
                        until: now + copy_time(extent.len()),
                        kind: OpKind::Write,
                        extent,
                    };
                    continue;
                }
                Call::Write { .. } => Next::WaitForAnswer,
                Call::Copy { until, .. } if now < until => Next::WaitUntil(until),
                Call::Copy { kind, extent, .. } => return self.end_copy(now, kind, extent),
                Call::Sync { .. } if self.write_back.is_clean() => {
                    self.call = Call::Sync { is_sent: true };
                    return Next::ask(Ask::Flush, TAG_CALL, now);
                }
                Call::Sync { .. } => Next::WaitForAnswer,
            };
            return self.write_back.until_expired(next);
        }
    }

    /// Begins the next call, or says what it waits for.
    fn begin(&mut self, now: Instant) -> Result<(), Next> {
        if self.pace.wants_flush() {
            self.called_at = now;
            self.call = Call::Sync { is_sent: false };
            self.write_back.writes_all = true;
            return Err(match self.write_back.next_request(now) {
                Some(extent) => Next::ask(Ask::Write(extent), TAG_WRITE_BACK, now),
                None => return Ok(()),
            });
        }
        let direction = self.pace.direction(now, &mut self.ops, 0)?;
        let (extent, place) = self.ops.next(direction);
        self.pace.on_issue(now, direction, extent.len());
        self.called_at = now;
        self.call = match direction {
            Direction::Write => Call::Write { extent },
            Direction::Read if self.ops.is_random() => Call::Random {
                extent,
                is_sent: false,
            },
            Direction::Read => Call::Stream {
                from: place,
                at: place,
                end: place + extent.len(),
            },
        };
        Ok(())
    }

    /// Bytes that were read are copied to the program.
    fn copy_out(&mut self, now: Instant, len_bytes: u64) {
        self.call = Call::Copy {
            until: now + copy_time(len_bytes),
            kind: OpKind::Read,
            extent: Extent::new(0, len_bytes),
        };
    }

    fn end_copy(&mut self, now: Instant, kind: OpKind, extent: Extent) -> Next {
        if kind == OpKind::Write {
            self.write_back.soil(now, extent);
        }
        self.call = Call::None;
        self.pace.on_done(now, 0);
        Next::Served {
            kind,
            len_bytes: extent.len(),
            response_time: now - self.called_at,
        }
    }

    /// A request of its own (not one of the stream's) was answered.
    pub(crate) fn on_answer(&mut self, now: Instant, ask: Ask, tag: u64) {
        if tag == TAG_WRITE_BACK {
            self.write_back.on_answer(ask.extent().len());
            return;
        }
        if tag != TAG_CALL {
            // The page cache was told of it.
            return;
        }
        match self.call {
            Call::Random { extent, .. } => self.copy_out(now, extent.len()),
            Call::Sync { .. } => self.call = Call::None,
            Call::None | Call::Stream { .. } | Call::Write { .. } | Call::Copy { .. } => {}
        }
    }

    /// Whether a tag is that of a request of the stream.
    pub(crate) const fn is_of_stream(tag: u64) -> bool {
        tag < TAG_CALL
    }

    /// Whether the program is in no call.
    pub(crate) const fn is_idle(&self) -> bool {
        matches!(self.call, Call::None)
    }
}

/// What was written into the page cache and not yet to the array.
#[derive(Debug)]
struct WriteBack {
    limit_bytes: u64,
    /// Runs of dirty bytes, from and to.
    dirty: BTreeMap<u64, u64>,
    dirty_bytes: u64,
    /// When the oldest of them was written.
    since: Option<Instant>,
    in_flight: u32,
    in_flight_bytes: u64,
    /// Where the last request ended: runs are written in their order, round and round.
    cursor: u64,
    /// Everything is to be written, not only what is above the limit of the background.
    writes_all: bool,
}

impl WriteBack {
    const fn new(limit_bytes: u64) -> Self {
        Self {
            limit_bytes,
            dirty: BTreeMap::new(),
            dirty_bytes: 0,
            since: None,
            in_flight: 0,
            in_flight_bytes: 0,
            cursor: 0,
            writes_all: false,
        }
    }

    fn has_room(&self, len: u64) -> bool {
        let used = self.dirty_bytes + self.in_flight_bytes;
        used == 0 || used + len <= self.limit_bytes
    }

    fn is_clean(&self) -> bool {
        self.dirty.is_empty() && self.in_flight == 0
    }

    /// Bytes are dirty from now on.
    fn soil(&mut self, now: Instant, extent: Extent) {
        let (mut from, mut to) = (extent.offset(), extent.end());
        while let Some((&start, &end)) = self.dirty.range(..=to).next_back()
            && end >= from
        {
            self.dirty.remove(&start);
            self.dirty_bytes -= end - start;
            (from, to) = (from.min(start), to.max(end));
        }
        self.dirty.insert(from, to);
        self.dirty_bytes += to - from;
        self.since.get_or_insert(now);
    }

    /// The next request of the background, if it has anything to do.
    fn next_request(&mut self, now: Instant) -> Option<Extent> {
        if self.dirty.is_empty() {
            return None;
        }
        self.writes_all |= self.since.is_some_and(|since| since + DIRTY_EXPIRE <= now);
        let is_above = self.dirty_bytes > self.limit_bytes / 2;
        if !is_above && !self.writes_all || self.in_flight == WRITE_BACK_DEPTH {
            return None;
        }
        let mut behind = self.dirty.range(self.cursor..);
        let (&from, &to) = behind.next().or_else(|| self.dirty.first_key_value())?;
        self.dirty.remove(&from);
        let end = to.min(from + WRITE_BACK_REQUEST_BYTES);
        if end < to {
            self.dirty.insert(end, to);
        }
        self.cursor = end;
        self.dirty_bytes -= end - from;
        self.in_flight += 1;
        self.in_flight_bytes += end - from;
        if self.dirty.is_empty() {
            self.since = None;
            self.writes_all = false;
        }
        Some(Extent::from_range(from, end))
    }

    const fn on_answer(&mut self, len: u64) {
        self.in_flight -= 1;
        self.in_flight_bytes -= len;
    }

    /// `next`, but no later than when dirty bytes are too old.
    fn until_expired(&self, next: Next) -> Next {
        let Some(since) = self.since.filter(|_| !self.writes_all) else {
            return next;
        };
        let expires_at = since + DIRTY_EXPIRE;
        match next {
            Next::WaitUntil(at) => Next::WaitUntil(at.min(expires_at)),
            Next::WaitForAnswer => Next::WaitUntil(expires_at),
            Next::Ask { .. } | Next::Served { .. } | Next::Done => next,
        }
    }
}
