//! How fast the background goes.
//!
//! One number decides: the rate that is aimed at, between the floor and the ceiling. How much is in
//! flight, and how large a window is, follow from it, so that what is slow is also gentle: a leg
//! never has more than [`AHEAD`]'s worth of it in hand, or one window. While no client asks for
//! anything the rate doubles until it is at the ceiling. When one comes, it falls, and from then on
//! it is steered by what clients feel.
//!
//! What they would feel alone is known from *looks*: the background stops for a moment, and takes
//! up one tenth of the time with that, or a third while it is at its lowest. Per leg, and for reads
//! and writes apart, the p99 and the mean of operations that met nothing of the background are the
//! measure. But a look tells the truth only where the background has left nothing behind: a drive's
//! write cache, its log or its collection of garbage keep clients slow long after. So the measure
//! falls by any look, and rises only by those before which the rate was at its lowest for a while.
//!
//! An operation is *slow* where it takes much longer than the measure. One in [`SLOW_ONE_OF`] may
//! be. While more are, each further slow one takes a third of the rate away; while fewer are, it
//! rises. That holds the share of slow ones itself, over time, whatever the drive does with what it
//! was given: p99 doubles at most. Who waits for each operation before the next gets less done
//! where all take somewhat longer, so the sum of their times is held in the same way, to
//! [`MEAN_PERCENT`] of what it would be.
//!
//! The floor is kept whatever clients feel.

use heliostat_types::{Duration, Instant};

use crate::api::Config;

/// The background has so much of its rate in flight: enough that two legs work at the same time and
/// always have the next operation at hand, and no more than a client waits for without noticing.
const AHEAD: Duration = Duration::from_ms(20);
/// The bounds of what is in flight: the least that a device moves with fair efficiency, and the
/// most that any needs.
const IN_FLIGHT_BYTES: (u64, u64) = (64 << 10, 16 << 20);
/// A window is a quarter of what is in flight, between these.
const WINDOW_BYTES: (u64, u64) = (64 << 10, 1 << 20);
/// Without an operation of a client for so long, nobody is there who could be slowed down.
const IDLE_AFTER: Duration = Duration::from_ms(200);
/// With nobody there the rate doubles so often.
const RAMP_EVERY: Duration = Duration::from_ms(10);
/// When somebody comes, the rate falls to this, or stays below.
const START_RATE: u64 = 4_000_000;
/// Where the floor is lower, steering goes no lower than this all the same: from nothing there
/// would be no way up.
const LOWEST_RATE: u64 = 10_000;
/// So often the rate is steered.
const JUDGE_EVERY: Duration = Duration::from_ms(100);
/// The rate rises once for so many operations, or after so long.
const RISE_AFTER: (u32, Duration) = (40, Duration::from_secs(1));
/// An operation is slow that takes so much of the measure, in percent. Their p99 is to double at
/// most, and what is counted is rough.
const SLOW_PERCENT: u64 = 175;
/// All of them together may take so much of their mean, in percent: so much less of them clients
/// get done who wait for each.
const MEAN_PERCENT: u64 = 135;
/// So many operations for a slow one.
const SLOW_ONE_OF: i64 = 200;
/// Of what was spared, and of what was overdrawn, so much is forgotten at each judgement.
const FORGET: (i64, i64) = (32, 64);
/// A look is over when so many operations were seen and four of the slowest would have fitted in,
/// between these times.
const LOOK_SAMPLES: u32 = 50;
const LOOK_FOR: (Duration, Duration) = (Duration::from_ms(100), Duration::from_secs(2));
/// Between looks the background works for so many times their length, and less at its lowest.
const LOOK_EVERY: (u64, u64) = (9, 2);
/// So many operations seen are a measure, and so many the first one.
const MEASURE_SAMPLES: (u32, u32) = (100, 40);
/// After so long at the lowest rate, a look tells the truth.
const CALM_AFTER: Duration = Duration::from_secs(2);
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
    /// A leg turns: what it is asked for is asked for in large pieces, however seldom.
    has_disk: bool,
    /// When the next window may begin at this rate, and when it must at the floor's.
    next_at: Instant,
    floor_at: Instant,
    /// When a client was last there, and whether that was long ago.
    clients_at: Option<Instant>,
    is_idle: bool,
    judged_at: Instant,
    /// Operations since the rate last rose or fell, and when that was.
    samples: u32,
    steered_at: Instant,
    /// Since when the rate is at its lowest.
    lowest_since: Option<Instant>,
    look: Look,
    /// Time that operations took less than they may.
    spared_ns: i64,
    /// By leg, for reads and writes.
    legs: Vec<[Felt; 2]>,
}

/// How things are without the background, for a moment.
#[derive(Debug, Default)]
struct Look {
    /// Under way, since then and until then at the latest.
    during: Option<(Instant, Instant)>,
    samples: u32,
    /// Whether nothing of the background is left behind.
    is_calm: bool,
    /// When the last one was over, and how long it was.
    ended_at: Instant,
    length: Duration,
}

impl Pace {
    pub(crate) fn new(legs: usize, has_disk: bool) -> Self {
        Self {
            min: Config::BACKGROUND_RATES_DEFAULT.0,
            max: Config::BACKGROUND_RATES_DEFAULT.1,
            rate: START_RATE,
            has_disk,
            next_at: Instant::ZERO,
            floor_at: Instant::ZERO,
            clients_at: None,
            is_idle: true,
            judged_at: Instant::ZERO,
            samples: 0,
            steered_at: Instant::ZERO,
            lowest_since: None,
            look: Look::default(),
            spared_ns: 0,
            legs: (0..legs).map(|_| Default::default()).collect(),
        }
    }

    /// There is one leg more.
    pub(crate) fn make_room(&mut self) {
        self.legs.push(Default::default());
    }

    /// Other bounds from now on. A ceiling below the floor is the floor.
    pub(crate) fn set_rates(&mut self, now: Instant, min: u64, max: u64) {
        self.min = min;
        self.max = max.max(min).max(1);
        self.aim_at(now, self.rate);
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
        if self.has_disk {
            // The way there takes as long as moving this much, and it is the number of ways that
            // clients feel.
            return WINDOW_BYTES.1;
        }
        let bytes = self.in_flight_max() / 4;
        (bytes.next_power_of_two()).clamp(WINDOW_BYTES.0, WINDOW_BYTES.1)
    }

    /// An operation of a client has ended: had the leg work of the background meanwhile?
    pub(crate) fn note_client(
        &mut self,
        leg: usize,
        is_write: bool,
        time: Duration,
        is_beside: bool,
    ) {
        let felt = &mut self.legs[leg][usize::from(is_write)];
        if self.look.during.is_some() && !is_beside {
            felt.alone.record(time);
            self.look.samples += 1;
        }
        felt.note(time);
        self.samples += 1;
    }

    /// Steers the rate. To be called whenever something has happened.
    pub(crate) fn adapt(&mut self, now: Instant, has_clients: bool) {
        if has_clients {
            self.clients_at = Some(now);
        }
        let is_recent = |at| now.saturating_since(at) < IDLE_AFTER;
        if !self.clients_at.is_some_and(is_recent) {
            self.is_idle = true;
            self.look.during = None;
            if now.saturating_since(self.judged_at) >= RAMP_EVERY {
                self.judged_at = now;
                self.aim_at(now, self.rate.saturating_mul(2));
            }
            return;
        }
        if std::mem::take(&mut self.is_idle) {
            self.judged_at = now;
            self.aim_at(now, self.rate.min(START_RATE));
            self.begin_look(now);
            return;
        }
        self.go_on_looking(now);
        if now.saturating_since(self.judged_at) >= JUDGE_EVERY {
            self.judged_at = now;
            self.judge(now);
        }
    }

    /// Work begins: it first looks how things are, if anybody is there.
    pub(crate) fn begin(&mut self, now: Instant) {
        if !self.is_idle {
            self.aim_at(now, self.rate.min(START_RATE));
            self.begin_look(now);
        }
    }

    /// The lowest rate that is aimed at: so much above the floor that looks take nothing from it.
    fn lowest(&self) -> u64 {
        let looks = self.min / LOOK_EVERY.1;
        (self.min.saturating_add(looks)).clamp(LOWEST_RATE.min(self.max), self.max)
    }

    fn aim_at(&mut self, now: Instant, rate: u64) {
        let lowest = self.lowest();
        let before = std::mem::replace(&mut self.rate, rate.clamp(lowest, self.max));
        if self.rate != before {
            // What was begun ahead of time is as many bytes as before, and another time.
            let ahead = bytes_in(self.next_at.saturating_since(now), before);
            self.next_at = self.next_at.min(now) + time_for(ahead, self.rate);
        }
        self.steered_at = now;
        self.samples = 0;
        let since = self.lowest_since.unwrap_or(now);
        self.lowest_since = (self.rate == lowest).then_some(since);
    }

    fn felt(&self) -> impl Iterator<Item = &Felt> {
        self.legs.iter().flatten()
    }

    fn judge(&mut self, now: Instant) {
        let (mut is_slow, mut is_overdrawn, mut time_ns) = (false, false, 0_i64);
        for felt in self.legs.iter_mut().flatten() {
            let (is_slow_here, time_here_ns) = felt.settle();
            is_slow |= is_slow_here;
            is_overdrawn |= felt.spared < 0;
            time_ns = time_ns.saturating_add(time_here_ns);
        }
        self.spared_ns = settled(self.spared_ns, time_ns);
        is_slow |= self.spared_ns < 0 && time_ns < 0;
        is_overdrawn |= self.spared_ns < 0;
        let (samples, time) = RISE_AFTER;
        let is_due = self.samples >= samples || now.saturating_since(self.steered_at) >= time;
        // A rate that is not reached says nothing of what clients would feel at it.
        let is_reached = now < self.next_at;
        let is_known = !self.felt().any(Felt::is_unknown);
        if is_slow {
            self.aim_at(now, self.rate - self.rate / 3);
        } else if !is_overdrawn && is_due && is_reached && is_known && self.look.during.is_none() {
            self.aim_at(now, self.rate.saturating_add(self.rate / 8));
        }
    }

    fn begin_look(&mut self, now: Instant) {
        if self.lowest() == self.max {
            // There is nothing to steer.
            return;
        }
        let calm_since = self.lowest_since.map(|since| since + CALM_AFTER);
        let is_calm = calm_since.is_some_and(|calm| calm <= now);
        if is_calm != self.look.is_calm {
            for felt in self.legs.iter_mut().flatten() {
                felt.alone = Sketch::default();
            }
        }
        self.look.is_calm = is_calm;
        self.look.samples = 0;
        self.look.during = Some((now, now + LOOK_FOR.1));
    }

    fn go_on_looking(&mut self, now: Instant) {
        let Some((since, until)) = self.look.during else {
            let is_short = self.lowest_since.is_some() || self.felt().any(Felt::is_unknown);
            let factor = if is_short { LOOK_EVERY.1 } else { LOOK_EVERY.0 };
            if now >= self.look.ended_at + self.look.length * factor {
                self.begin_look(now);
            }
            return;
        };
        let measures = self.felt().filter_map(|felt| felt.measure);
        let slowest = measures.map(|measure| measure.p99_ns).max();
        let slowest = Duration::from_ns(slowest.unwrap_or(0));
        let is_long = now >= since + LOOK_FOR.0.max(slowest * 4);
        let is_enough = self.look.samples >= LOOK_SAMPLES && !self.felt().any(Felt::has_too_few);
        if now < until && !(is_long && is_enough) {
            return;
        }
        self.look.during = None;
        self.look.ended_at = now;
        self.look.length = now.saturating_since(since);
        for felt in self.legs.iter_mut().flatten() {
            felt.looked(self.look.is_calm);
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
        // Not later, lest nobody notices that clients have gone.
        let is_rising = self.is_idle && self.rate < self.max;
        let soon = now + if is_rising { RAMP_EVERY } else { JUDGE_EVERY };
        if now < self.next_at {
            return Go::At(self.next_at.min(soon));
        }
        if let Some((_, until)) = self.look.during {
            return Go::At(until.min(soon));
        }
        if self.min > 0 && now >= self.floor_at {
            return Go::Now;
        }
        if is_crowded {
            let until = now + RAMP_EVERY;
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

/// How many bytes a rate moves in such a time.
fn bytes_in(time: Duration, bytes_per_s: u64) -> u64 {
    let bytes = u128::from(time.as_ns()) * u128::from(bytes_per_s) / NS_PER_S;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Which rate so many bytes in such a time are.
pub(crate) fn rate_of(bytes: u64, time: Duration) -> u64 {
    let rate = u128::from(bytes) * NS_PER_S / u128::from(time.as_ns().max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// What clients' operations of one kind take at one leg while nothing of the background is there.
#[derive(Clone, Copy, Debug)]
struct Measure {
    p99_ns: u64,
    mean_ns: u64,
}

impl Measure {
    /// Halfway to what was seen, for one look is not yet the truth; and upwards only where it may,
    /// and by half at most.
    fn goes_on(self, seen: Self, may_rise: bool) -> Self {
        let halfway = |before: u64, seen: u64| {
            let most = if may_rise {
                before.saturating_mul(2)
            } else {
                before
            };
            before / 2 + seen.min(most) / 2
        };
        Self {
            p99_ns: halfway(self.p99_ns, seen.p99_ns),
            mean_ns: halfway(self.mean_ns, seen.mean_ns),
        }
    }
}

/// What clients' operations of one kind take at one leg.
#[derive(Debug, Default)]
struct Felt {
    /// Those that were seen in looks, since the last measure.
    alone: Sketch,
    /// `None` until enough was seen.
    measure: Option<Measure>,
    /// Since the last judgement: all, those that were slow, and how long all took.
    count: u32,
    slow: u32,
    time_ns: u64,
    /// Operations, less [`SLOW_ONE_OF`] for each slow one.
    spared: i64,
}

impl Felt {
    /// There are operations, and nothing to measure them by.
    fn is_unknown(&self) -> bool {
        self.measure.is_none() && self.spared >= i64::from(MEASURE_SAMPLES.1)
    }

    /// A look has seen some, and not enough to go by.
    fn has_too_few(&self) -> bool {
        self.measure.is_none() && (1..MEASURE_SAMPLES.1).contains(&self.alone.count)
    }

    fn note(&mut self, time: Duration) {
        let limit = self
            .measure
            .map(|measure| measure.p99_ns.saturating_mul(SLOW_PERCENT) / 100);
        self.count += 1;
        self.slow += u32::from(limit.is_some_and(|limit_ns| time.as_ns() > limit_ns));
        self.time_ns = self.time_ns.saturating_add(time.as_ns());
    }

    /// Settles what was counted since the last time. Whether too many are slow, and some were just
    /// now; and the time that they took less than they may.
    fn settle(&mut self) -> (bool, i64) {
        let gained = i64::from(self.count) - i64::from(self.slow) * SLOW_ONE_OF;
        self.spared = settled(self.spared, gained);
        let is_slow = self.slow > 0 && self.spared < 0;
        let time = self.measure.map_or(0, |measure| {
            let may_ns = measure.mean_ns.saturating_mul(u64::from(self.count)) / 100 * MEAN_PERCENT;
            let signed = |ns| i64::try_from(ns).unwrap_or(i64::MAX);
            signed(may_ns).saturating_sub(signed(self.time_ns))
        });
        (self.count, self.slow, self.time_ns) = (0, 0, 0);
        (is_slow, time)
    }

    /// A look is over: does it tell how things are without the background?
    fn looked(&mut self, is_calm: bool) {
        let (samples, samples_first) = MEASURE_SAMPLES;
        let least = if self.measure.is_some() {
            samples
        } else {
            samples_first
        };
        if self.alone.count < least {
            return;
        }
        let seen = std::mem::take(&mut self.alone).measure();
        let before = self.measure.unwrap_or(seen);
        self.measure = Some(before.goes_on(seen, is_calm));
    }
}

/// An account, with what was gained or lost.
fn settled(spared: i64, gained: i64) -> i64 {
    let forget = if spared > 0 { FORGET.0 } else { FORGET.1 };
    (spared - spared / forget).saturating_add(gained)
}

/// Four buckets for each power of two, from 1 us to 36 min.
const BUCKETS: usize = 128;

/// Counts of service times.
#[derive(Debug)]
struct Sketch {
    counts: [u32; BUCKETS],
    count: u32,
    time_ns: u64,
}

impl Default for Sketch {
    fn default() -> Self {
        Self {
            counts: [0; BUCKETS],
            count: 0,
            time_ns: 0,
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
        self.time_ns = self.time_ns.saturating_add(time.as_ns());
    }

    /// What they tell, where there are any.
    fn measure(&self) -> Measure {
        let mut above = self.count / 100;
        let mut bucket = BUCKETS - 1;
        while bucket > 0 && self.counts[bucket] <= above {
            above -= self.counts[bucket];
            bucket -= 1;
        }
        let (power, quarter) = (bucket / 4, bucket as u64 % 4);
        Measure {
            // 1000 ns * 2^power * (1 + quarter / 4), and half a bucket more.
            p99_ns: (1000 << power) / 8 * (8 + 2 * quarter + 1),
            mean_ns: self.time_ns / u64::from(self.count.max(1)),
        }
    }
}

#[cfg(test)]
mod tests;
