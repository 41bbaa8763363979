//! Whether disks that are written read a little ahead of streams, to stay with them.
//!
//! Between two reads of a stream such a disk writes, so that it has to come back for each of them:
//! more at a time is worth much to who reads. Some take writes by the way, into a part of the
//! medium that lies where the arm is, or into a cache that is empty for most of the time; on others
//! who writes has to wait for all of that. Nothing that a disk says of itself tells the two apart.
//! So it is tried: disks read ahead for a while, and do not for a while again. They go on with it
//! where streams get far more, and writes take no longer.

use heliostat_types::{Duration, Instant};

use crate::api::Layout;
use crate::constants::constants;

use super::helper::Helpers;
use super::worth::Phase;
use super::{LONE_BYTES, ReadAhead};

constants! { "keeping":
    /// Each way is compared for so long, and for so many reads of streams and writes,
    TIME: Duration = time(Duration::from_secs(1));
    COUNT: u64 = count(256);
    /// but no longer than this.
    TIME_MAX: Duration = time(Duration::from_secs(2));
    /// What comes first is left out: for so long, and for as long as there is something that was
    /// read ahead before.
    SKIPPED: Duration = time(Duration::from_ms(100));
    SKIPPED_MAX: Duration = time(Duration::from_secs(1));
    /// Streams get so many times as much at least,
    GAIN: f32 = times(1.25);
    /// and writes take no longer than so many times as long, and are as many in a second,
    LONGER: f32 = times(1.1);
    /// or fewer by so many times the root of how many there were: those come when they like.
    CHANCE: f32 = number(3.0);
    /// Where how long writes take before and after differs by more, or only one of both is far
    /// less to streams, the try says nothing, and is made again after this if nobody waited for it.
    STEADY: f32 = times(1.5);
    AGAIN: Duration = time(Duration::from_secs(1));
    AGAIN_COUNT: u32 = count(2);
    /// A try ends at once where as many writes as this, in so long, took so much longer.
    HELD: f32 = times(1.5);
    HELD_COUNT: u64 = count(16);
    HELD_TIME: Duration = time(Duration::from_ms(100));
    /// The next one comes after so long, and after four times as long each time that nothing
    /// changes, up to so long: what is lost by tries is less than one part of 1,000 in the end.
    WAIT: Duration = time(Duration::from_secs(8));
    WAIT_TIMES: u64 = count(4);
    WAIT_MAX: Duration = time(Duration::from_secs(512));
    /// Where writes take twice as long as they did, or half as long, for so long in a row, they are
    /// other ones.
    CHANGED: f32 = times(2.0);
    CHANGED_COUNT: u32 = count(2);
    /// Where streams are not read for so long, or nothing is written, nothing is compared.
    PAUSE: Duration = time(Duration::from_secs(1));
    /// Where that takes longer, whatever was found is of others.
    OVER: Duration = time(Duration::from_secs(8));
}

/// What was done in some time.
#[derive(Clone, Copy, Debug)]
struct Work {
    since: Instant,
    time: Duration,
    reads: u64,
    read_bytes: u64,
    writes: u64,
    waited_ns: u64,
}

impl Work {
    const fn new(since: Instant) -> Self {
        Self {
            since,
            time: Duration::ZERO,
            reads: 0,
            read_bytes: 0,
            writes: 0,
            waited_ns: 0,
        }
    }

    /// Streams have read so many bytes more, and so many writes were answered meanwhile, which have
    /// waited for so long.
    fn add(&mut self, now: Instant, bytes: u64, (writes, waited_ns): (u64, u64)) {
        self.time = now.saturating_since(self.since);
        self.reads += 1;
        self.read_bytes = self.read_bytes.saturating_add(bytes);
        self.writes += writes;
        self.waited_ns = self.waited_ns.saturating_add(waited_ns);
    }

    /// Bytes that streams read, writes, and how long one takes, in one ns each; one where none is.
    fn rates(&self) -> [f32; 3] {
        let of = |sum: u64, count: u64| sum.max(1) as f32 / count.max(1) as f32;
        [
            of(self.read_bytes, self.time.as_ns()),
            of(self.writes, self.time.as_ns()),
            of(self.waited_ns, self.writes),
        ]
    }

    /// How many times as much is read, and how much longer writes take, or how many times as few
    /// there are beyond chance, whichever is more, as where `other` was done.
    fn beside(&self, other: &Self) -> (f32, f32) {
        let ([read, writes, took], [other_read, other_writes, other_took]) =
            (self.rates(), other.rates());
        let chance = 1.0 + CHANCE.get() / (self.writes.max(1) as f32).sqrt();
        let fewer = other_writes / (writes * chance);
        (read / other_read, f32::max(took / other_took, fewer))
    }

    /// Whether writes take about as long.
    fn writes_like(&self, other: &Self) -> bool {
        let (_, longer) = self.beside(other);
        longer.max(1.0 / longer) <= STEADY.get()
    }

    /// Both together.
    fn and(&self, other: &Self) -> Self {
        Self {
            since: self.since,
            time: self.time + other.time,
            reads: self.reads + other.reads,
            read_bytes: self.read_bytes.saturating_add(other.read_bytes),
            writes: self.writes + other.writes,
            waited_ns: self.waited_ns.saturating_add(other.waited_ns),
        }
    }
}

/// What was found.
#[derive(Clone, Debug)]
pub(super) struct Keeping {
    keeps: bool,
    phase: Phase,
    /// Since when it is so, and what is compared of it, from when on it is.
    since: Instant,
    work: Option<Work>,
    /// What was done of late in that.
    recent: Work,
    before: Option<Work>,
    other: Option<Work>,
    /// How many writes were answered since a stream was read last, and for how long they waited.
    written: (u64, u64),
    /// How long one took, in ns, when it was tried last; 0: it was not.
    took_ns: f32,
    /// For how many of what was compared since it was another time.
    changed: u32,
    /// How many tries have said nothing.
    unclear: u32,
    next_at: Instant,
    wait: Duration,
    read_at: Instant,
    written_at: Instant,
}

impl Keeping {
    pub(super) fn new() -> Self {
        Self {
            keeps: false,
            phase: Phase::Usual,
            since: Instant::ZERO,
            work: None,
            recent: Work::new(Instant::ZERO),
            before: None,
            other: None,
            written: (0, 0),
            took_ns: 0.0,
            changed: 0,
            unclear: 0,
            next_at: Instant::ZERO,
            wait: WAIT.get(),
            read_at: Instant::ZERO,
            written_at: Instant::ZERO,
        }
    }

    /// A disk has answered a write.
    pub(super) fn note_write(&mut self, now: Instant, service_time: Duration) {
        self.written_at = now;
        let (writes, waited_ns) = &mut self.written;
        *writes += 1;
        *waited_ns = waited_ns.saturating_add(service_time.as_ns());
    }

    /// So many bytes more are read of streams, which have so many read ahead; whether more is to
    /// be.
    pub(super) fn keeps(&mut self, now: Instant, (bytes, ahead_bytes): (u64, u64)) -> bool {
        let written = std::mem::take(&mut self.written);
        self.note_pause(now);
        let is_on = self.is_on();
        let Some(work) = &mut self.work else {
            let time = now.saturating_since(self.since);
            let is_over = is_on || ahead_bytes == 0 || time >= SKIPPED_MAX.get();
            if time >= SKIPPED.get() && is_over {
                self.work = Some(Work::new(now));
                self.recent = Work::new(now);
            }
            return is_on;
        };
        work.add(now, bytes, written);
        self.recent.add(now, bytes, written);
        let work = *work;
        let is_enough = work.reads.min(work.writes) >= COUNT.get() && work.time >= TIME.get();
        if let Some(held) = self.holds_up() {
            self.end_phase(now, held);
        } else if is_enough || work.time >= TIME_MAX.get() {
            self.end_phase(now, work);
        }
        self.is_on()
    }

    fn is_on(&self) -> bool {
        self.keeps != (self.phase == Phase::Other)
    }

    /// Nobody has read or written for a while: a try says nothing, and is to be made later.
    fn note_pause(&mut self, now: Instant) {
        let last = self.read_at.min(self.written_at);
        self.read_at = now;
        let pause = now.saturating_since(last);
        if pause < PAUSE.get() {
            return;
        }
        if pause >= OVER.get() {
            *self = Self {
                since: now,
                next_at: now,
                read_at: now,
                written_at: self.written_at,
                ..Self::new()
            };
        } else if self.phase != Phase::Usual {
            self.next_at = now + WAIT.get();
        }
        self.begin(now, Phase::Usual);
    }

    /// What was done of late, where a try holds up those who write.
    fn holds_up(&mut self) -> Option<Work> {
        let recent = self.recent;
        if recent.time < HELD_TIME.get() || recent.writes < HELD_COUNT.get() {
            return None;
        }
        self.recent = Work::new(recent.since + recent.time);
        let before = self.before.filter(|_| self.phase == Phase::Other)?;
        let is_longer = recent.rates()[2] > before.rates()[2] * HELD.get();
        is_longer.then_some(recent)
    }

    fn begin(&mut self, now: Instant, phase: Phase) {
        self.phase = phase;
        self.since = now;
        self.work = None;
    }

    /// The next try comes after a while, a longer one each time.
    fn put_off(&mut self, now: Instant) {
        self.next_at = now + self.wait;
        let longer = self.wait.as_ns().saturating_mul(WAIT_TIMES.get());
        self.wait = Duration::from_ns(longer).min(WAIT_MAX.get());
    }

    fn end_phase(&mut self, now: Instant, work: Work) {
        match self.phase {
            Phase::Usual => {
                self.note_usual(now, &work);
                if now >= self.next_at {
                    self.before = Some(work);
                    self.begin(now, Phase::Other);
                } else {
                    self.work = Some(Work::new(now));
                }
            }
            Phase::Other => {
                self.other = Some(work);
                self.begin(now, Phase::After);
            }
            Phase::After => {
                self.end_try(now, &work);
                self.begin(now, Phase::Usual);
            }
        }
    }

    /// Where writes take another time than when it was tried, it is tried soon; and where they take
    /// longer while disks read ahead, these do not until then.
    fn note_usual(&mut self, now: Instant, work: &Work) {
        let took = work.rates()[2];
        let longer = took / self.took_ns;
        let is_other = longer.max(1.0 / longer) > CHANGED.get();
        let holds_up = self.keeps && longer > HELD.get();
        if self.took_ns == 0.0 || work.writes == 0 || !is_other && !holds_up {
            self.changed = 0;
            return;
        }
        self.changed += 1;
        if self.changed < CHANGED_COUNT.get() {
            return;
        }
        self.changed = 0;
        self.took_ns = took;
        self.wait = WAIT.get();
        self.next_at = self.next_at.min(now + self.wait);
        self.keeps &= !holds_up;
    }

    /// It is as always after the try.
    fn end_try(&mut self, now: Instant, after: &Work) {
        let (Some(before), Some(other)) = (self.before.take(), self.other.take()) else {
            return;
        };
        let gains = [&before, after].map(|usual| self.gain(&other, usual).0);
        let longer = self.gain(&other, &before.and(after)).1;
        let is_harmless = longer <= LONGER.get();
        let [one, two] = gains.map(|gain| gain >= GAIN.get());
        if one != two && is_harmless || !after.writes_like(&before) {
            self.unclear += 1;
            if is_harmless && !self.keeps && self.unclear <= AGAIN_COUNT.get() {
                self.next_at = now + AGAIN.get();
            } else {
                self.put_off(now);
            }
            return;
        }
        let keeps = is_harmless && one && two;
        let way = if keeps == self.keeps { after } else { &other };
        self.took_ns = way.rates()[2];
        if keeps != self.keeps {
            self.keeps = keeps;
            self.wait = WAIT.get();
        }
        (self.unclear, self.changed) = (0, 0);
        self.put_off(now);
    }

    /// How many times as much is read, and how many times as long writes take, where disks read
    /// ahead: in the other way, or as always.
    fn gain(&self, other: &Work, usual: &Work) -> (f32, f32) {
        if self.keeps {
            usual.beside(other)
        } else {
            other.beside(usual)
        }
    }
}

impl ReadAhead {
    /// Whether the home of the stream at `at`, of which so many bytes more are read, reads on for
    /// it although it is written.
    pub(super) fn try_keeping(
        &mut self,
        now: Instant,
        at: usize,
        (helpers, layout): (&Helpers, &dyn Layout),
        bytes: u64,
    ) -> bool {
        let home = self.streams[at].only_home(helpers, layout);
        let is_written = home.is_some_and(|home| home.turns && home.is_written);
        if !is_written || bytes >= LONE_BYTES.get() {
            return false;
        }
        let (_, ahead_bytes) = self.newest_and_ahead(now);
        self.keeping.keeps(now, (bytes, ahead_bytes))
    }
}
