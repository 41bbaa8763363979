//! How long a read takes by the load that it meets: straight lines between powers of two.

use heliostat_types::{Duration, Instant};

use super::leg::Numbers;
use crate::constants::constants;

/// Loads of 1, 2, 4 ... 8192: 64 reads of 1 MiB are that much.
const KNOTS: usize = 14;
constants! { "curve":
    /// How much of an answer's error a knot takes over once it knows something: 1/64 forgets a
    /// change of the workload within some hundred reads, and leaves 1 to 2 % of the chance in
    /// single reads.
    WEIGHT_MIN: f32 = number(1.0 / 64.0);
    /// Of how far a knot is above the line between its neighbours. Far less than that: what reads
    /// of several loads tell counts for more.
    BENT_WEIGHT: f32 = number(1.0 / 512.0);
    /// From half a read on something is known of a load.
    SEEN_MIN: f32 = number(0.5);
    /// What is old is worth so many reads: a few new ones correct it, and one by itself does not.
    DOUBTED: f32 = number(7.0);
    /// A deeper queue takes at least nine tenths as long (chance apart it never takes less), and
    /// never more than twice as long per doubling: throughput does not fall with depth. So what is
    /// learned at one depth corrects all others.
    LESS: f32 = times(0.9);
    MORE: f32 = times(2.0);
    /// A load that so many reads did not meet is one that was not met of late.
    UNMET_READS: u32 = count(64);
    /// What an idle leg takes may be another time by now where for so long no read was answered
    /// that had met as little load as there ever was, and reads that are known for 64 times take
    /// half as long again by now.
    IDLE_OLD: Duration = time(Duration::from_secs(1));
    GROWN: f32 = times(1.5);
    GROWN_READS: f32 = number(64.0);
    /// It counts where reads take twice as long by now.
    IDLE_TIMES: f32 = times(2.0);
    /// No leg is known to take longer than that: others give up on a disk before.
    LONGEST_NS: f32 = number(1e11);
}

/// Times in ns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Curve {
    mean: [f32; KNOTS],
    count: [f32; KNOTS],
    /// Of which knots something is known, as bits.
    seen: Seen,
    /// When one was answered last that had met as little load as there ever was.
    idle_at: Instant,
    /// How many times as long reads take since then, at loads that were known before.
    grown: f32,
    /// How many were answered, and how many had been when each knot was the nearest last.
    answers: u32,
    met_at: [u32; KNOTS],
}

/// Some of the knots: each is a bit.
#[derive(Clone, Copy, Debug, Default)]
struct Seen(u32);

impl Seen {
    fn of(count: &[f32; KNOTS]) -> Self {
        let mut seen = Self::default();
        for (knot, count) in count.iter().enumerate() {
            seen.note(knot, *count);
        }
        seen
    }

    fn note(&mut self, knot: usize, count: f32) {
        self.0 |= u32::from(count >= SEEN_MIN.get()) << knot;
    }

    const fn has(self, knot: usize) -> bool {
        self.0 >> knot & 1 != 0
    }

    /// The first from `knot` on.
    const fn next(self, knot: usize) -> Option<usize> {
        let seen = self.0 >> knot << knot;
        if seen == 0 {
            None
        } else {
            Some(seen.trailing_zeros() as usize)
        }
    }

    const fn last(self) -> Option<usize> {
        match self.0.checked_ilog2() {
            Some(last) => Some(last as usize),
            None => None,
        }
    }
}

/// The knot below a load, and how far it is to the next one: the exponent of a float, and what is
/// behind its point. Loads come in no order, so that no branch depends on them.
fn place(load: f32) -> (usize, f32) {
    let digits = f32::MANTISSA_DIGITS - 1;
    let one = 1.0_f32.to_bits();
    let bits = load.max(1.0).to_bits();
    let at = ((bits - one) >> digits) as usize;
    let part = f32::from_bits(one | bits & ((1 << digits) - 1)) - 1.0;
    if at > KNOTS - 2 {
        (KNOTS - 2, 1.0)
    } else {
        (at, part)
    }
}

const fn nearest(at: usize, part: f32) -> usize {
    if part < 0.5 { at } else { at + 1 }
}

/// What a curve says of one load.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Point {
    /// The mean time, in ns.
    pub(super) time: f32,
    /// By how much a further read makes all reads in flight longer, together.
    pub(super) added: f32,
    /// The mean time on an idle leg.
    pub(super) idle: f32,
}

impl Point {
    /// All of it so many times as short.
    pub(super) fn shortened(self, times: f32) -> Self {
        Self {
            time: self.time / times,
            added: self.added / times,
            idle: self.idle / times,
        }
    }

    /// The same where further reads would only wait.
    pub(super) fn full(self) -> Self {
        Self {
            added: self.time.max(1.0),
            ..self
        }
    }

    /// Which share of a further read is gained in throughput: 1 where reads take no longer with
    /// it, 0 where they only wait longer.
    pub(super) fn gain(&self) -> f32 {
        1.0 - self.added / self.time.max(1.0)
    }
}

impl Curve {
    pub(super) fn is_known(&self) -> bool {
        self.mean[0] > 0.0
    }

    /// From how many reads it was learned, about.
    pub(super) fn reads(&self) -> f32 {
        self.count.iter().sum()
    }

    /// The mean time on an idle leg.
    pub(super) const fn idle(&self) -> f32 {
        self.mean[0]
    }

    /// The mean time at a load.
    pub(super) fn at(&self, load: f32) -> f32 {
        self.point(load).time
    }

    pub(super) fn point(&self, load: f32) -> Point {
        let (at, part) = place(load);
        let rise = self.mean[at + 1] - self.mean[at];
        Point {
            time: self.mean[at] + rise * part,
            added: rise * (1.0 + part),
            idle: self.idle(),
        }
    }

    /// What it says of a load at `now`. What an idle leg takes may be old, unless it has an arm: if
    /// all that further reads add is taken away again, in a line, as much is left.
    pub(super) fn point_of_late(&self, now: Instant, load: f32, turns: bool) -> Point {
        let mut point = self.point(load);
        // Below that nobody asks.
        let is_asked = point.time > IDLE_TIMES.get() * point.idle;
        let is_old = || now.saturating_since(self.idle_at) > IDLE_OLD.get();
        if is_asked && !turns && self.grown > GROWN.get() && is_old() {
            point.idle = point.idle.max(point.time - point.added);
        }
        point
    }

    /// What a read takes at a load at most, as far as is known. What lies between loads that were
    /// seen is a guess: no more than at the next one that is deeper and was about what reads have
    /// met; or, deeper than all of them, where [`Curve::at`] hopes that it takes no longer, as much
    /// longer as there is more to do.
    pub(super) fn longest(&self, load: f32) -> f32 {
        let (at, part) = place(load);
        let usual = self.at(load);
        // Also what is beyond the last knot was learned there.
        if (self.seen.has(at) || part == 1.0) && (self.seen.has(at + 1) || part == 0.0) {
            return usual;
        }
        if let Some(seen) = self.seen.next(at + 1) {
            let is_met = |knot: &usize| self.met_at[*knot] > 0;
            let deeper = (seen..KNOTS).find(is_met).unwrap_or(seen);
            return usual.max(self.mean[deeper]);
        }
        let deepest = self.seen.last().unwrap_or(0);
        let times = load / (1u32 << deepest) as f32;
        usual.max(self.mean[deepest] * times)
    }

    /// Whether a load is deeper than all that were seen, where [`Curve::at`] hopes.
    pub(super) fn is_beyond(&self, load: f32) -> bool {
        let (at, part) = place(load);
        let first = if part > 0.0 { at + 1 } else { at };
        self.seen.next(first).is_none()
    }

    /// Whether none of many reads of late has met about that load.
    pub(super) fn is_unmet(&self, load: f32) -> bool {
        let (at, part) = place(load);
        let met_at = self.met_at[nearest(at, part)];
        self.answers.wrapping_sub(met_at) > UNMET_READS.get()
    }

    /// The mean time at the least load that reads have met.
    pub(super) fn least(&self) -> f32 {
        self.mean[self.seen.next(0).unwrap_or(0)]
    }

    /// What is known, by load, for people: load, time in ns, and whether it was seen.
    pub(super) fn points(&self) -> impl Iterator<Item = (u32, f32, bool)> {
        let knots = self.mean.iter().zip(&self.count).enumerate();
        knots.map(|(at, (mean, count))| (1 << at, *mean, *count > 0.0))
    }

    /// What is known is old: the next reads count for more.
    pub(super) fn doubt(&mut self) {
        for count in &mut self.count {
            *count = count.min(DOUBTED.get());
        }
    }

    /// What was learned of loads is void, besides what an idle leg takes, or else at the least load
    /// that was met: deeper is as fast until it is seen.
    pub(super) fn keep_idle_only(&mut self) {
        self.mean = [self.least(); KNOTS];
        self.count[1..].fill(0.0);
        self.met_at[1..].fill(0);
        self.seen = Seen::of(&self.count);
        self.grown = 1.0;
    }

    /// All of it takes `times` as long from now on, about.
    pub(super) fn stretch(&mut self, times: f32) {
        self.stretch_from(0.0, times);
    }

    /// The same from a load on: the next reads there count for more.
    pub(super) fn stretch_from(&mut self, load: f32, times: f32) {
        let (at, part) = place(load);
        let deeper = nearest(at, part)..KNOTS;
        for (mean, count) in self.mean[deeper.clone()]
            .iter_mut()
            .zip(&mut self.count[deeper])
        {
            if *mean > 0.0 {
                *mean = (*mean * times).clamp(1.0, LONGEST_NS.get());
            }
            *count = count.min(DOUBTED.get());
        }
    }

    /// What is kept of it over a restart.
    pub(super) fn keep(&self, numbers: &mut Vec<f32>) {
        numbers.extend(self.mean);
        numbers.extend(self.count);
    }

    /// The curve that was kept; `None` where the numbers are none.
    pub(super) fn recalled(numbers: &mut Numbers<'_>) -> Option<Self> {
        let (mean, count) = (numbers.array::<KNOTS>()?, numbers.array::<KNOTS>()?);
        let is_known = mean[0] > 0.0;
        if mean.iter().any(|mean| is_known != (*mean > 0.0)) {
            return None;
        }
        let seen = Seen::of(&count);
        let mut curve = Self {
            mean,
            count,
            seen,
            idle_at: Instant::ZERO,
            grown: 1.0,
            answers: 1,
            met_at: count.map(|count| u32::from(count >= 1.0)),
        };
        curve.doubt();
        Some(curve)
    }

    /// A read that met `load` took `time_ns`.
    pub(super) fn learn(&mut self, load: f32, time_ns: f32) {
        let (at, part) = place(load);
        let time_ns = time_ns.max(1.0);
        if !self.is_known() {
            // Deeper is as fast until it is seen (who expects the worst never tries), and less
            // deep is as fast as it can be.
            self.mean = [time_ns; KNOTS];
            for knot in (0..at).rev() {
                self.mean[knot] = self.mean[knot + 1] / MORE.get();
            }
        }
        let error = time_ns - self.at(load);
        self.answers = self.answers.wrapping_add(1);
        self.met_at[nearest(at, part)] = self.answers;
        for (knot, share) in [(at, 1.0 - part), (at + 1, part)] {
            self.count[knot] += share;
            self.seen.note(knot, self.count[knot]);
            let weight = (1.0 / (self.count[knot] + 1.0)).max(WEIGHT_MIN.get());
            self.mean[knot] = (self.mean[knot] + error * weight * share).max(1.0);
        }
        self.straighten(at);
    }

    /// The same of an answer at `now`, of a leg that has an arm or none.
    pub(super) fn answered(&mut self, now: Instant, load: f32, time_ns: f32, turns: bool) {
        let (at, part) = place(load);
        let is_known = self.count[at] + self.count[at + 1] > GROWN_READS.get();
        let before = self.at(load);
        self.learn(load, time_ns);
        if self.seen.next(0).is_some_and(|least| at <= least) {
            (self.idle_at, self.grown) = (now, 1.0);
        } else if is_known {
            self.grown = (self.grown * self.at(load) / before).clamp(0.01, 100.0);
        }
        // An arm that sorts takes longer by less the more there are.
        if !turns && self.unbend(at, part) {
            self.straighten(at);
        }
    }

    /// Where all reads meet about the same load, between two knots, they do not tell which of both
    /// takes how long: what one takes too much the other takes too little. Reads take longer by
    /// more the more there are, so the lower one is not above the line between its neighbours. At
    /// the load that was met nothing changes. Whether it was above.
    fn unbend(&mut self, at: usize, part: f32) -> bool {
        if at == 0 || !self.seen.has(at - 1) {
            return false;
        }
        let line = self.mean[at - 1] + (self.mean[at + 1] - self.mean[at - 1]) / 3.0;
        if self.mean[at] <= line {
            return false;
        }
        let above = (self.mean[at] - line) * BENT_WEIGHT.get();
        // Near a knot that one alone is told.
        let between = 4.0 * part * (1.0 - part);
        self.mean[at] -= above * between * part;
        self.mean[at + 1] += above * between * (1.0 - part);
        true
    }

    /// Makes the knots beside `at` and `at + 1` agree with them.
    fn straighten(&mut self, at: usize) {
        let low = self.mean[at];
        let high = self.mean[at + 1];
        if high > low * MORE.get() && self.count[at] < self.count[at + 1] {
            self.mean[at] = high / MORE.get();
        } else {
            self.mean[at + 1] = high.clamp(low * LESS.get(), low * MORE.get());
        }
        for knot in at + 2..KNOTS {
            let before = self.mean[knot - 1];
            let now = if self.count[knot] > 0.0 {
                self.mean[knot].clamp(before * LESS.get(), before * MORE.get())
            } else {
                before
            };
            if self.mean[knot] == now {
                break;
            }
            self.mean[knot] = now;
        }
        for knot in (0..at).rev() {
            let next = self.mean[knot + 1];
            let now = self.mean[knot].clamp(next * (1.0 / MORE.get()), next * (1.0 / LESS.get()));
            if self.mean[knot] == now {
                break;
            }
            self.mean[knot] = now;
        }
    }
}
