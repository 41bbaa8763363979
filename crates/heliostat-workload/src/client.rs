//! One clone of a job: what it asks for next, and when.

use heliostat_types::{ClientId, Duration, Extent, Instant, OpKind};

use crate::arrival::Arrivals;
use crate::buffered::Buffered;
use crate::cache::PageCache;
use crate::defrag::Defrag;
use crate::job::Job;
use crate::ops::{Direction, Ops, Rate};
use crate::replay::Replay;
use crate::trace::TraceError;

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Bytes.
    Read(Extent),
    /// Stores bytes.
    Write(Extent),
    /// Makes all that was answered durable.
    Flush,
}

impl Ask {
    /// What kind of request it is.
    #[must_use]
    pub const fn kind(self) -> OpKind {
        match self {
            Self::Read(_) => OpKind::Read,
            Self::Write(_) => OpKind::Write,
            Self::Flush => OpKind::Flush,
        }
    }

    /// Which bytes it is about; empty for a flush.
    #[must_use]
    pub fn extent(self) -> Extent {
        match self {
            Self::Read(extent) | Self::Write(extent) => extent,
            Self::Flush => Extent::default(),
        }
    }
}

/// What a client does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It asks.
    Ask {
        ask: Ask,
        /// Names the request to the client when it is answered.
        tag: u64,
        /// From when on the client has waited for it: now, or when it was due.
        since: Instant,
    },
    /// A program behind a page cache was served.
    Served {
        kind: OpKind,
        len_bytes: u64,
        response_time: Duration,
    },
    /// Nothing before a moment, unless something is answered.
    WaitUntil(Instant),
    /// Nothing before something is answered.
    WaitForAnswer,
    /// Nothing any more.
    Done,
}

impl Next {
    pub(crate) const fn ask(ask: Ask, tag: u64, since: Instant) -> Self {
        Self::Ask { ask, tag, since }
    }
}

/// Requests that a clone with open arrivals has in flight at most; those that come while there are
/// as many wait in the clone, and count as late.
pub const OPEN_IN_FLIGHT_MAX: u32 = 65_536;

/// Answers that a clone gets at one instant before it rests for [`REST`]. Answers from memory take
/// no time of the model; without a bound, whoever reads again and again what is held would read for
/// ever at one instant. It is a million answers a second, more than one processor asks for.
const ANSWERS_PER_INSTANT_MAX: u32 = 1000;

/// How long a clone rests that was answered so often at one instant.
const REST: Duration = Duration::from_ms(1);

/// What every loop has: an end, a rate, time to think, flushes.
#[derive(Debug)]
pub(crate) struct Pace {
    /// `None` where nothing is limited.
    rate: Option<Rate>,
    quota_bytes: u64,
    /// From when on what is asked for counts towards the quota.
    counts_from: Instant,
    asked_bytes: u64,
    fsync: u32,
    writes_since_flush: u32,
    thinktime: Duration,
    thinktime_blocks: u32,
    done_since_thought: u32,
    thinks_until: Option<Instant>,
}

impl Pace {
    /// It begins at `begins_at`, and ends when it has asked for `quota_bytes` from `counts_from`
    /// on.
    pub(crate) fn new(
        job: &Job,
        ops: &Ops,
        begins_at: Instant,
        quota_bytes: u64,
        counts_from: Instant,
    ) -> Self {
        Self {
            rate: Some(Rate::new(job, ops, begins_at)).filter(Rate::is_limited),
            quota_bytes,
            counts_from,
            asked_bytes: 0,
            fsync: job.fsync,
            writes_since_flush: 0,
            thinktime: job.thinktime,
            thinktime_blocks: job.thinktime_blocks,
            done_since_thought: 0,
            thinks_until: None,
        }
    }

    /// Whether a flush is due; says so once.
    pub(crate) const fn wants_flush(&mut self) -> bool {
        if self.fsync == 0 || self.writes_since_flush < self.fsync {
            return false;
        }
        self.writes_since_flush = 0;
        true
    }

    pub(crate) const fn is_over(&self) -> bool {
        self.asked_bytes >= self.quota_bytes
    }

    /// The direction of a request that may be sent now, with `in_flight` others.
    ///
    /// # Errors
    /// What it waits for.
    pub(crate) fn direction(
        &mut self,
        now: Instant,
        ops: &mut Ops,
        in_flight: u32,
    ) -> Result<Direction, Next> {
        if self.is_over() {
            return Err(Next::Done);
        }
        if let Some(until) = self.thinks_until {
            if now < until {
                return Err(Next::WaitUntil(until));
            }
            self.thinks_until = None;
            self.done_since_thought = 0;
        } else if self.wants_to_think() && in_flight > 0 {
            return Err(Next::WaitForAnswer);
        }
        match &mut self.rate {
            None => Ok(ops.direction()),
            Some(rate) => rate.direction(now, ops).map_err(Next::WaitUntil),
        }
    }

    pub(crate) fn on_issue(&mut self, now: Instant, direction: Direction, len_bytes: u64) {
        if now >= self.counts_from {
            self.asked_bytes += len_bytes;
        }
        self.writes_since_flush += u32::from(direction == Direction::Write);
        if let Some(rate) = &mut self.rate {
            rate.on_issue(direction, len_bytes);
        }
    }

    /// A request was answered, and `in_flight` are left.
    pub(crate) fn on_done(&mut self, now: Instant, in_flight: u32) {
        if self.thinktime == Duration::ZERO {
            return;
        }
        self.done_since_thought = self.done_since_thought.saturating_add(1);
        if self.wants_to_think() && in_flight == 0 {
            self.thinks_until = Some(now + self.thinktime);
        }
    }

    fn wants_to_think(&self) -> bool {
        self.thinktime > Duration::ZERO && self.done_since_thought >= self.thinktime_blocks
    }
}

/// A clone whose requests go to the array as they are.
#[derive(Debug)]
pub(crate) struct Direct {
    pub(crate) ops: Ops,
    pub(crate) pace: Pace,
    pub(crate) iodepth: u32,
    /// How many have to be answered once all are in flight.
    pub(crate) batch_min: u32,
    /// How many of these still have to be.
    pub(crate) owed: u32,
    /// `None` in a closed loop.
    pub(crate) arrivals: Option<Arrivals>,
    /// Requests that had to wait because too many were in flight.
    pub(crate) late: u64,
}

impl Direct {
    fn next(&mut self, now: Instant, in_flight: u32) -> Next {
        let mut since = now;
        match &self.arrivals {
            None if self.owed > 0 => return Next::WaitForAnswer,
            None if in_flight >= self.iodepth => {
                self.owed = self.batch_min;
                return Next::WaitForAnswer;
            }
            None => {}
            Some(_) if self.pace.is_over() => return Next::Done,
            Some(arrivals) if arrivals.next_at() > now => {
                return Next::WaitUntil(arrivals.next_at());
            }
            Some(_) if in_flight >= OPEN_IN_FLIGHT_MAX => return Next::WaitForAnswer,
            Some(arrivals) => since = arrivals.next_at(),
        }
        if self.pace.wants_flush() {
            return Next::ask(Ask::Flush, 0, now);
        }
        let direction = match self.pace.direction(now, &mut self.ops, in_flight) {
            Ok(direction) => direction,
            Err(next) => return next,
        };
        let (extent, _) = self.ops.next(direction);
        self.pace.on_issue(now, direction, extent.len());
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.advance();
            self.late += u64::from(since < now);
        }
        let ask = match direction {
            Direction::Read => Ask::Read(extent),
            Direction::Write => Ask::Write(extent),
        };
        Next::ask(ask, 0, since)
    }
}

/// What drives a clone.
#[derive(Debug)]
pub(crate) enum Body {
    Direct(Box<Direct>),
    Buffered(Box<Buffered>),
    Defrag(Box<Defrag>),
    Replay(Box<Replay>),
}

/// A clone of a job.
#[derive(Debug)]
pub struct Client {
    /// Who it is to the array.
    pub id: ClientId,
    /// Index of its job.
    pub job: usize,
    /// The leg that it loads by itself, unseen by the array.
    pub leg: Option<usize>,
    pub(crate) start: Instant,
    pub(crate) stop: Instant,
    pub(crate) body: Body,
    /// Index of the page cache of its stream.
    pub(crate) cache: Option<usize>,
    pub(crate) in_flight: u32,
    pub(crate) stopped: bool,
    /// The instant of its last answer, and how many it got then.
    pub(crate) answered: (Instant, u32),
}

impl Client {
    /// What it does next; `index` is its own, `cache` that of its stream.
    pub(crate) fn next(
        &mut self,
        now: Instant,
        index: usize,
        cache: Option<&mut PageCache>,
    ) -> Next {
        self.stopped |= cache.as_ref().is_some_and(|cache| cache.has_failed());
        if self.has_ended(now) {
            return Next::Done;
        }
        if now < self.start {
            return Next::WaitUntil(self.start);
        }
        if self.answered.1 >= ANSWERS_PER_INSTANT_MAX && now < self.answered.0 + REST {
            return Next::WaitUntil((self.answered.0 + REST).min(self.stop));
        }
        let next = match &mut self.body {
            Body::Direct(direct) => direct.next(now, self.in_flight),
            Body::Buffered(buffered) => buffered.next(now, index, cache),
            Body::Defrag(defrag) => defrag.next(now),
            Body::Replay(replay) => replay.next(now, self.start, self.in_flight),
        };
        match next {
            Next::Ask { .. } => self.in_flight += 1,
            Next::WaitUntil(at) => return Next::WaitUntil(at.min(self.stop)),
            Next::Served { .. } | Next::WaitForAnswer | Next::Done => {}
        }
        next
    }

    /// A request was answered; those of its stream are told to its page cache by others.
    pub(crate) fn on_answer(&mut self, now: Instant, ask: Ask, tag: u64) {
        self.in_flight -= 1;
        let before = if self.answered.0 == now {
            self.answered.1
        } else {
            0
        };
        self.answered = (now, before.saturating_add(1));
        match &mut self.body {
            Body::Direct(direct) => {
                direct.owed = direct.owed.saturating_sub(1);
                // A flush is no block.
                if ask != Ask::Flush {
                    direct.pace.on_done(now, self.in_flight);
                }
            }
            Body::Buffered(buffered) => buffered.on_answer(now, ask, tag),
            Body::Defrag(defrag) => defrag.on_answer(ask),
            Body::Replay(_) => {}
        }
    }

    /// Whether what counts are its requests: those of a program behind a page cache are not.
    #[must_use]
    pub const fn counts_requests(&self) -> bool {
        !matches!(self.body, Body::Buffered(_))
    }

    /// Requests that had to wait in the client because too many were in flight already.
    #[must_use]
    pub const fn late(&self) -> u64 {
        match &self.body {
            Body::Direct(direct) => direct.late,
            Body::Replay(replay) => replay.late,
            Body::Buffered(_) | Body::Defrag(_) => 0,
        }
    }

    /// Which share of its size it has asked for; `None` where it never stops.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
    pub fn share_asked(&self) -> Option<f64> {
        let pace = match &self.body {
            Body::Direct(direct) => &direct.pace,
            Body::Buffered(buffered) => &buffered.pace,
            Body::Defrag(defrag) => return defrag.share_done(),
            Body::Replay(_) => return None,
        };
        let is_limited = pace.quota_bytes < u64::MAX;
        is_limited.then(|| pace.asked_bytes as f64 / pace.quota_bytes as f64)
    }

    /// It asks for nothing more: fio stops a job at its first error.
    pub const fn stop(&mut self) {
        self.stopped = true;
    }

    /// Whether it will never ask again and has all its answers.
    #[must_use]
    pub fn is_done(&self, now: Instant) -> bool {
        let has_asked_all = match &self.body {
            Body::Direct(direct) => direct.pace.is_over(),
            Body::Buffered(buffered) => buffered.pace.is_over() && buffered.is_idle(),
            Body::Defrag(defrag) => defrag.is_over(),
            Body::Replay(replay) => replay.is_over(),
        };
        self.in_flight == 0 && (self.has_ended(now) || has_asked_all)
    }

    /// What is wrong with its trace.
    #[must_use]
    pub const fn error(&self) -> Option<&TraceError> {
        match &self.body {
            Body::Replay(replay) => replay.error(),
            Body::Direct(_) | Body::Buffered(_) | Body::Defrag(_) => None,
        }
    }

    fn has_ended(&self, now: Instant) -> bool {
        self.stopped || now >= self.stop
    }
}
