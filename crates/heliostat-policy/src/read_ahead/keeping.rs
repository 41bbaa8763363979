//! Whether disks that are written read a little ahead of streams, to stay with them.
//!
//! Between two reads of a stream such a disk writes, so that it has to come back for each of them:
//! more at a time is worth much to who reads. Some take writes by the way, into a part of the
//! medium that lies where the arm is, or into a cache that is empty for most of the time; on others
//! who writes has to wait for all of that. Nothing that a disk says of itself tells the two apart.
//! So it is tried: disks read ahead for a while, and do not for a while again. They go on with it
//! where streams get far more, and writes take no longer.

use heliostat_types::{Duration, Instant};

use crate::constants::constants;

use super::helper::Helpers;
use super::{LONE_BYTES, ReadAhead};

constants! { "keeping":
    /// Each way is compared for so long, and for so many reads of streams and writes,
    TIME: Duration = time(Duration::from_ms(250));
    COUNT: u64 = count(256);
    /// but no longer than this.
    TIME_MAX: Duration = time(Duration::from_secs(2));
    /// What comes first is left out: for so long, and for as long as there is something that was
    /// read ahead before.
    SKIPPED: Duration = time(Duration::from_ms(100));
    SKIPPED_MAX: Duration = time(Duration::from_secs(1));
    /// Streams get so many times as much at least,
    GAIN: f32 = times(1.25);
    /// and writes take no longer than so many times as long, and are as many in a second.
    LONGER: f32 = times(1.1);
    /// Where how long writes take before and after differs by more, or only one of both is far
    /// less to streams, the try says nothing, and is made again after this if nobody waited for it.
    STEADY: f32 = times(1.5);
    AGAIN: Duration = time(Duration::from_secs(1));
    /// A try ends at once where so many writes, in so long, took so much longer.
    HELD: f32 = times(1.5);
    HELD_COUNT: u64 = count(32);
    HELD_TIME: Duration = time(Duration::from_ms(100));
    /// The next one comes after so long, and after four times as long each time that nothing
    /// changes, up to so long: what is lost by tries is less than one part of 1,000 in the end.
    WAIT: Duration = time(Duration::from_secs(8));
    WAIT_TIMES: u64 = count(4);
    WAIT_MAX: Duration = time(Duration::from_secs(512));
    /// Where writes take twice as long as they did, or half as long, they are other ones.
    CHANGED: f32 = times(2.0);
    /// Where streams are not read for so long, or nothing is written, nothing is compared.
    PAUSE: Duration = time(Duration::from_secs(1));
}

/// What is done at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// As always, until it is time for a try,
    Usual,
    Other,
    /// and to see whether it was that.
    After,
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

    /// Bytes that streams read, writes, and how long one takes, in one ns each; none is 0.
    fn rates(&self) -> [f32; 3] {
        let of = |sum: u64, count: u64| sum.max(1) as f32 / count.max(1) as f32;
        [
            of(self.read_bytes, self.time.as_ns()),
            of(self.writes, self.time.as_ns()),
            of(self.waited_ns, self.writes),
        ]
    }

    /// How many times as much is read, and how much longer writes take, or how many times as few
    /// there are, whichever is more, as where `other` was done.
    fn beside(&self, other: &Self) -> (f32, f32) {
        let ([read, writes, took], [other_read, other_writes, other_took]) =
            (self.rates(), other.rates());
        (
            read / other_read,
            f32::max(took / other_took, other_writes / writes),
        )
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
    before: Option<Work>,
    other: Option<Work>,
    /// How many writes were answered since a stream was read last, and for how long they waited.
    written: (u64, u64),
    /// How long one took, in ns, when it was tried last.
    took_ns: f32,
    next_at: Instant,
    wait: Duration,
    /// The newest of the streams.
    newest: u64,
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
            before: None,
            other: None,
            written: (0, 0),
            took_ns: 0.0,
            next_at: Instant::ZERO,
            wait: WAIT.get(),
            newest: 0,
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

    /// So many bytes more are read of streams, the newest of which is number `newest`, and which
    /// have so many read ahead; whether more is to be.
    pub(super) fn keeps(
        &mut self,
        now: Instant,
        newest: u64,
        (bytes, ahead_bytes): (u64, u64),
    ) -> bool {
        let written = std::mem::take(&mut self.written);
        let pauses = |at: Instant| now.saturating_since(at) >= PAUSE.get();
        if newest > self.newest || pauses(self.read_at) || pauses(self.written_at) {
            self.give_up(now, newest > self.newest);
            self.newest = newest.max(self.newest);
        }
        self.read_at = now;
        let is_on = self.is_on();
        let Some(work) = &mut self.work else {
            let time = now.saturating_since(self.since);
            let is_over = is_on || ahead_bytes == 0 || time >= SKIPPED_MAX.get();
            if time >= SKIPPED.get() && is_over {
                self.work = Some(Work::new(now));
            }
            return is_on;
        };
        work.time = now.saturating_since(work.since);
        work.reads += 1;
        work.read_bytes = work.read_bytes.saturating_add(bytes);
        work.writes += written.0;
        work.waited_ns = work.waited_ns.saturating_add(written.1);
        let work = *work;
        let is_enough = work.reads.min(work.writes) >= COUNT.get() && work.time >= TIME.get();
        if is_enough || work.time >= TIME_MAX.get() || self.holds_up(&work) {
            self.end_phase(now, work);
        }
        self.is_on()
    }

    fn is_on(&self) -> bool {
        self.keeps != (self.phase == Phase::Other)
    }

    /// Whether a try holds up those who write, as far as that can be told yet.
    fn holds_up(&self, work: &Work) -> bool {
        let is_try = self.phase == Phase::Other && !self.keeps;
        let before = self.before.filter(|_| is_try);
        before.is_some_and(|before| {
            let [_, _, took] = work.rates();
            let is_enough = work.writes >= HELD_COUNT.get() && work.time >= HELD_TIME.get();
            is_enough && took > before.rates()[2] * HELD.get()
        })
    }

    fn begin(&mut self, now: Instant, phase: Phase) {
        self.phase = phase;
        self.since = now;
        self.work = None;
    }

    /// A try is not ended. Where these `are_others` who read or write, the next one comes soon.
    fn give_up(&mut self, now: Instant, are_others: bool) {
        if self.phase != Phase::Usual {
            self.put_off(now);
        }
        if are_others {
            self.come_soon(now);
        }
        self.begin(now, Phase::Usual);
    }

    fn come_soon(&mut self, now: Instant) {
        self.wait = WAIT.get();
        self.next_at = self.next_at.min(now + self.wait);
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
                let took = work.rates()[2];
                let differs = f32::max(took / self.took_ns, self.took_ns / took);
                if self.took_ns > 0.0 && differs > CHANGED.get() {
                    self.come_soon(now);
                }
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
            self.put_off(now);
            if is_harmless && !self.keeps {
                self.next_at = now + AGAIN.get();
            }
            return;
        }
        let keeps = is_harmless && one && two;
        if keeps != self.keeps {
            self.keeps = keeps;
            self.wait = WAIT.get();
        }
        self.took_ns = after.rates()[2];
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
        helpers: &Helpers,
        bytes: u64,
    ) -> bool {
        let home = self.streams[at].only_home(helpers);
        let is_written = home.is_some_and(|home| home.is_written);
        if !is_written || bytes >= LONE_BYTES.get() {
            return false;
        }
        let (newest, ahead_bytes) = self.newest_and_ahead(now);
        self.keeping.keeps(now, newest, (bytes, ahead_bytes))
    }
}
