//! How fast the background goes.
//!
//! One number decides: the rate that is aimed at, between the floor and the ceiling. How much is in
//! flight, and how large a window is, follow from it, so that what is slow is also gentle: a leg
//! never has more than [`AHEAD`]'s worth of it in hand. While no client asks for anything the rate
//! doubles until it is at the ceiling. When one comes, it falls, and from then on it is steered by
//! what clients feel: how long the slowest of their operations take at a leg, against how long the
//! slowest of those take that meet no work of the background there. If that is much longer, the
//! rate falls by a third, and if it is not, it rises by an eighth. To know the second number, it
//! stops for a moment now and then.
//!
//! The floor is kept whatever clients feel.

use heliostat_types::{Duration, Instant};

use crate::api::Config;

/// The background has so much of its rate in flight: enough that two legs work at the same time and
/// always have the next operation at hand, and no more than a client waits for without noticing.
const AHEAD: Duration = Duration::from_ms(20);
/// The bounds of what is in flight: the least that a disk moves with fair efficiency, and the most
/// that any needs.
const IN_FLIGHT_BYTES: (u64, u64) = (64 << 10, 16 << 20);
/// A window is a quarter of what is in flight, between these.
const WINDOW_BYTES: (u64, u64) = (64 << 10, 1 << 20);
/// Without an operation of a client for so long, nobody is there who could be slowed down.
const IDLE_AFTER: Duration = Duration::from_ms(200);
/// With nobody there the rate doubles so often.
const RAMP_EVERY: Duration = Duration::from_ms(10);
/// When somebody comes, the rate falls to this, or stays below.
const START_RATE: u64 = 8_000_000;
/// So often the rate is steered.
const JUDGE_EVERY: Duration = Duration::from_ms(100);
/// Every so many times, what is known of clients without the background counts half.
const FORGET_EVERY: u32 = 20;
/// So much longer, in percent, may the slowest operations take: above the second value the rate
/// falls, below the first it rises. Their p99 is to double at most.
const SLOWDOWN_PERCENT: (u64, u64) = (130, 165);
/// Fewer operations say nothing.
const SAMPLES_MIN: u32 = 40;
/// The slowest are one of so many. That is stricter than one of a hundred, so that what the
/// steering lets pass now and then is still none of the p99.
const SLOWEST_ONE_OF: u32 = 200;
/// For so long at most the background stops in order to see what clients feel without it, and so
/// often.
const LOOK_FOR: Duration = Duration::from_ms(100);
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What was not done in time is made up for, but not for longer than this.
const DEBT_MAX: Duration = Duration::from_secs(1);

const NS_PER_S: u128 = 1_000_000_000;

/// Whether a window may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Go {
    Now,
    /// Not before.
    At(Instant),
    /// When something in flight has ended.
    Later,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Pace {
    min: u64,
    max: u64,
    rate: u64,
    /// When the next window may begin at this rate, and when it must at the floor's.
    next_at: Instant,
    floor_at: Instant,
    /// When a client was last there, and whether that was long ago.
    clients_at: Option<Instant>,
    is_idle: bool,
    judged_at: Instant,
    judgements: u32,
    /// Until when it stops and looks, and when it will do so next.
    look_until: Instant,
    look_at: Instant,
    is_looking: bool,
    /// By leg, for reads and writes.
    legs: Vec<[Felt; 2]>,
}

impl Pace {
    pub(crate) fn new(legs: usize) -> Self {
        Self {
            min: Config::BACKGROUND_RATES_DEFAULT.0,
            max: Config::BACKGROUND_RATES_DEFAULT.1,
            rate: START_RATE,
            next_at: Instant::ZERO,
            floor_at: Instant::ZERO,
            clients_at: None,
            is_idle: true,
            judged_at: Instant::ZERO,
            judgements: 0,
            look_until: Instant::ZERO,
            look_at: Instant::ZERO,
            is_looking: false,
            legs: (0..legs).map(|_| Default::default()).collect(),
        }
    }

    /// Other bounds from now on. A ceiling below the floor is the floor.
    pub(crate) fn set_rates(&mut self, now: Instant, min: u64, max: u64) {
        self.min = min;
        self.max = max.max(min).max(1);
        self.rate = self.rate.clamp(self.min.max(1), self.max);
        // What was paid at the old rates is forgiven.
        self.next_at = self.next_at.min(now);
        self.floor_at = now;
    }

    /// The floor and the ceiling.
    pub(crate) const fn rates(&self) -> (u64, u64) {
        (self.min, self.max)
    }

    /// What may be in flight.
    pub(crate) fn in_flight_max(&self) -> u64 {
        let bytes = self.rate / (1_000_000_000 / AHEAD.as_ns());
        bytes.clamp(IN_FLIGHT_BYTES.0, IN_FLIGHT_BYTES.1)
    }

    /// How large a window may be.
    pub(crate) fn window_max(&self) -> u64 {
        let bytes = self.in_flight_max() / 4;
        (bytes.next_power_of_two()).clamp(WINDOW_BYTES.0, WINDOW_BYTES.1)
    }

    /// An operation of a client has ended: had the leg work of the background meanwhile?
    pub(crate) fn note_client(
        &mut self,
        leg: usize,
        is_write: bool,
        service_time: Duration,
        is_beside: bool,
    ) {
        let felt = &mut self.legs[leg][usize::from(is_write)];
        if !is_beside {
            felt.alone.record(service_time);
        }
        if !self.is_looking {
            felt.all.record(service_time);
        }
    }

    /// Steers the rate. To be called whenever something has happened.
    pub(crate) fn adapt(&mut self, now: Instant, has_clients: bool) {
        if has_clients {
            self.clients_at = Some(now);
        }
        let is_recent = |at| now.saturating_since(at) < IDLE_AFTER;
        if !self.clients_at.is_some_and(is_recent) {
            self.is_idle = true;
            self.look_until = Instant::ZERO;
            self.is_looking = false;
            if now.saturating_since(self.judged_at) >= RAMP_EVERY {
                self.judged_at = now;
                self.aim_at(self.rate.saturating_mul(2));
            }
            return;
        }
        if std::mem::take(&mut self.is_idle) {
            self.judged_at = now;
            self.look_at = now + JUDGE_EVERY;
            self.aim_at(self.rate.min(START_RATE));
            return;
        }
        if now.saturating_since(self.judged_at) >= JUDGE_EVERY {
            self.judged_at = now;
            self.judge(now);
        }
    }

    fn aim_at(&mut self, rate: u64) {
        self.rate = rate.clamp(self.min.max(1), self.max);
    }

    fn judge(&mut self, now: Instant) {
        self.is_looking = false;
        let felt = || self.legs.iter().flatten();
        let has_samples = felt().any(|felt| felt.all.count > 0);
        let is_alone_known = felt().any(|felt| felt.alone.count >= SAMPLES_MIN);
        let slowdown = felt().filter_map(Felt::slowdown_percent).max();
        let (low, high) = SLOWDOWN_PERCENT;
        match slowdown {
            Some(percent) if percent > high => self.aim_at(self.rate - self.rate / 3),
            Some(percent) if percent >= low => {}
            // Too few to say what they feel, or what they would feel otherwise.
            None if has_samples && is_alone_known => {}
            None if has_samples => self.look_at = self.look_at.min(now),
            // Nobody is slowed down.
            Some(_) | None => self.aim_at(self.rate.saturating_add(self.rate / 8)),
        }
        self.judgements += 1;
        let forgets = self.judgements.is_multiple_of(FORGET_EVERY);
        for felt in self.legs.iter_mut().flatten() {
            if felt.all.count >= SAMPLES_MIN {
                felt.all = Sketch::default();
            }
            if forgets {
                felt.alone.halve();
            }
        }
        if now >= self.look_at {
            self.look_at = now + LOOK_EVERY;
            self.look_until = now + LOOK_FOR;
            self.is_looking = true;
        }
    }

    /// Whether a window of so many bytes may begin now, with so many in flight; `is_crowded` says
    /// that operations of clients wait in front of a leg that it concerns.
    pub(crate) fn may_begin(
        &self,
        now: Instant,
        bytes: u64,
        in_flight: u64,
        is_crowded: bool,
    ) -> Go {
        if in_flight > 0 && in_flight + bytes > self.in_flight_max() {
            return Go::Later;
        }
        if now < self.next_at {
            return Go::At(self.next_at);
        }
        if self.min > 0 && now >= self.floor_at {
            return Go::Now;
        }
        let is_looking = now < self.look_until;
        if is_looking || is_crowded {
            let until = if is_looking {
                self.look_until
            } else {
                now + RAMP_EVERY
            };
            return Go::At(if self.min > 0 {
                until.min(self.floor_at)
            } else {
                until
            });
        }
        Go::Now
    }

    /// A window has begun.
    pub(crate) fn begun(&mut self, now: Instant, bytes: u64) {
        let earliest = |debt: Duration| {
            let now = Duration::from_ns(now.as_ns());
            Instant::from_ns(now.saturating_sub(debt).as_ns())
        };
        self.next_at = self.next_at.max(earliest(AHEAD)) + time_for(bytes, self.rate);
        if self.min > 0 {
            self.floor_at = self.floor_at.max(earliest(DEBT_MAX)) + time_for(bytes, self.min);
        }
    }
}

/// How long so many bytes take at a rate.
pub(crate) fn time_for(bytes: u64, bytes_per_s: u64) -> Duration {
    let ns = u128::from(bytes) * NS_PER_S / u128::from(bytes_per_s.max(1));
    Duration::from_ns(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// Which rate so many bytes in such a time are.
pub(crate) fn rate_of(bytes: u64, time: Duration) -> u64 {
    let rate = u128::from(bytes) * NS_PER_S / u128::from(time.as_ns().max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// What clients' operations of one kind took at one leg: those that met nothing of the background,
/// and all of late.
#[derive(Debug, Default)]
struct Felt {
    alone: Sketch,
    all: Sketch,
}

impl Felt {
    /// How long the slowest took of late, in percent of what they take alone.
    fn slowdown_percent(&self) -> Option<u64> {
        let alone = self.alone.slowest_ns()?;
        Some(self.all.slowest_ns()?.saturating_mul(100) / alone.max(1))
    }
}

/// Four buckets for each power of two, from 1 us to 36 min.
const BUCKETS: usize = 128;

/// Counts of service times.
#[derive(Debug)]
struct Sketch {
    counts: [u32; BUCKETS],
    count: u32,
}

impl Default for Sketch {
    fn default() -> Self {
        Self {
            counts: [0; BUCKETS],
            count: 0,
        }
    }
}

impl Sketch {
    fn record(&mut self, time: Duration) {
        // In quarter microseconds, so that the two bits below the highest one are there.
        let quarters = (time.as_ns() / 250).max(4);
        let power = quarters.ilog2();
        let quarter = quarters >> (power - 2) & 3;
        let bucket = u64::from(power - 2) * 4 + quarter;
        let bucket = usize::try_from(bucket).map_or(BUCKETS - 1, |at| at.min(BUCKETS - 1));
        self.counts[bucket] += 1;
        self.count += 1;
    }

    /// What all but the slowest do not exceed: the middle of a bucket. `None` where there are too
    /// few to say.
    fn slowest_ns(&self) -> Option<u64> {
        if self.count < SAMPLES_MIN {
            return None;
        }
        let mut above = self.count / SLOWEST_ONE_OF;
        let mut bucket = BUCKETS - 1;
        while self.counts[bucket] <= above {
            above -= self.counts[bucket];
            bucket -= 1;
        }
        let (power, quarter) = (bucket / 4, bucket as u64 % 4);
        // 1000 ns * 2^power * (1 + quarter / 4), and half a bucket more.
        Some((1000 << power) / 8 * (8 + 2 * quarter + 1))
    }

    fn halve(&mut self) {
        self.count = 0;
        for count in &mut self.counts {
            *count /= 2;
            self.count += *count;
        }
    }
}

#[cfg(test)]
mod tests;
