//! How a run went over time: its figures in equal intervals of the measured time, a bounded number
//! of them whatever its length.

use heliostat_types::{Duration, Instant};

/// No more intervals than that: about as many as a plot has room for.
const INTERVALS_MAX: usize = 240;

/// Intervals are merged while one of them has fewer requests than this on average, because a p99
/// of fewer is only a maximum,
const IOS_MIN: u64 = 100;
/// but there stay at least so many: what a fault does must be seen.
const INTERVALS_MIN: usize = 40;

/// Where nobody says how long the run is, intervals begin this short; they double when there are
/// too many.
const FIRST_INTERVAL: Duration = Duration::from_ms(1);

/// The figures of a run in equal intervals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series {
    /// How long each interval is; the last one may be cut short by the end of the run.
    pub interval: Duration,
    /// The intervals, from the start of measuring on. None where nothing was measured.
    pub points: Vec<SeriesPoint>,
}

/// One interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeriesPoint {
    /// How long it is.
    pub length: Duration,
    /// Reads of all foreground jobs that were answered in it.
    pub read: SeriesMoved,
    /// Their writes.
    pub write: SeriesMoved,
    /// Reads that each leg has done in it.
    pub leg_reads: Vec<u64>,
}

/// Requests of one kind that were answered in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeriesMoved {
    /// How many.
    pub ios: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Ninety-nine of a hundred took no longer, within 13 %; in ns, and 0 where there are none.
    pub p99_ns: u64,
    /// The longest took so long, in ns.
    pub max_ns: u64,
}

/// What is counted while a run runs.
#[derive(Clone, Debug)]
pub(crate) struct SeriesRecorder {
    interval: Duration,
    /// When the last slot ends.
    ends_at: Instant,
    leg_count: usize,
    slots: Vec<Slot>,
}

/// Which of the two kinds of request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    Read,
    Write,
}

#[derive(Clone, Debug)]
struct Slot {
    sides: [Bins; 2],
    leg_reads: Vec<u64>,
}

/// Buckets from 2^9 ns on, four to a doubling, up to 2^37 ns, two minutes.
const BINS: usize = 28 * 4;
const FIRST_BIT: u32 = 9;

/// Counts of response times in buckets that are a quarter of their lower bound wide.
#[derive(Clone, Debug)]
struct Bins {
    ios: u64,
    bytes: u64,
    max_ns: u64,
    counts: [u32; BINS],
}

impl SeriesRecorder {
    /// Nothing yet, for an array of `leg_count` legs that is measured from `begins_at` on, for
    /// `length` if that is known.
    pub(crate) fn new(begins_at: Instant, length: Option<Duration>, leg_count: usize) -> Self {
        let interval = match length {
            Some(length) => Duration::from_ns(length.as_ns().div_ceil(INTERVALS_MAX as u64)),
            None => FIRST_INTERVAL,
        };
        Self {
            interval: interval.max(Duration::from_ns(1)),
            ends_at: begins_at,
            leg_count,
            slots: Vec::new(),
        }
    }

    /// A request of a foreground job was answered, in the measured time.
    pub(crate) fn on_answer(&mut self, now: Instant, side: Side, len_bytes: u64, time: Duration) {
        let [read, write] = &mut self.slot_at(now).sides;
        let bins = match side {
            Side::Read => read,
            Side::Write => write,
        };
        bins.record(len_bytes, time.as_ns());
    }

    /// A leg has done a read, in the measured time.
    pub(crate) fn on_leg_read(&mut self, now: Instant, leg: usize) {
        self.slot_at(now).leg_reads[leg] += 1;
    }

    /// The slot of `now`, which is never before that of an earlier call.
    fn slot_at(&mut self, now: Instant) -> &mut Slot {
        while now >= self.ends_at {
            self.open_slot();
        }
        self.slots.last_mut().expect("the loop has opened one")
    }

    fn open_slot(&mut self) {
        if self.slots.len() == INTERVALS_MAX {
            self.merge(2);
        }
        self.slots.push(Slot {
            sides: [Bins::EMPTY; 2],
            leg_reads: vec![0; self.leg_count],
        });
        self.ends_at += self.interval;
    }

    /// Makes one slot of every `factor`; the last may be made of fewer.
    fn merge(&mut self, factor: usize) {
        let slots = std::mem::take(&mut self.slots);
        for (index, slot) in slots.into_iter().enumerate() {
            match self.slots.last_mut() {
                Some(last) if !index.is_multiple_of(factor) => last.add(&slot),
                _ => self.slots.push(slot),
            }
        }
        self.interval = self.interval * u64::try_from(factor).expect("a small number");
    }

    /// The series of a run that was measured for `length`.
    pub(crate) fn finish(mut self, length: Duration) -> Series {
        let has_slots = |this: &Self| this.interval * this.slots.len() as u64;
        while has_slots(&self) < length {
            self.open_slot();
        }
        let sides = self.slots.iter().flat_map(|slot| &slot.sides);
        let ios: u64 = sides.map(|bins| bins.ios).sum();
        let factors = (1..=INTERVALS_MAX / INTERVALS_MIN).rev();
        let wanted = |count: usize| ios >= IOS_MIN * count as u64;
        // The largest factor that leaves enough slots, unless a smaller one leaves enough requests.
        let factor = factors
            .filter(|factor| *factor == 1 || self.slots.len().div_ceil(*factor) >= INTERVALS_MIN)
            .reduce(|larger, smaller| {
                if wanted(self.slots.len().div_ceil(smaller)) {
                    smaller
                } else {
                    larger
                }
            });
        self.merge(factor.unwrap_or(1));
        let mut begins = Duration::ZERO;
        let interval = self.interval;
        let points = self.slots.iter().map(|slot| {
            let point = slot.point(interval.min(length.saturating_sub(begins)));
            begins += interval;
            point
        });
        let points = points
            .filter(|point| point.length > Duration::ZERO)
            .collect();
        Series { interval, points }
    }
}

impl Slot {
    fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.sides.iter_mut().zip(&other.sides) {
            mine.add(theirs);
        }
        for (mine, theirs) in self.leg_reads.iter_mut().zip(&other.leg_reads) {
            *mine += theirs;
        }
    }

    fn point(&self, length: Duration) -> SeriesPoint {
        let [read, write] = &self.sides;
        SeriesPoint {
            length,
            read: read.moved(),
            write: write.moved(),
            leg_reads: self.leg_reads.clone(),
        }
    }
}

impl Bins {
    const EMPTY: Self = Self {
        ios: 0,
        bytes: 0,
        max_ns: 0,
        counts: [0; BINS],
    };

    fn record(&mut self, len_bytes: u64, ns: u64) {
        self.ios += 1;
        self.bytes += len_bytes;
        self.max_ns = self.max_ns.max(ns);
        self.counts[bin_of(ns)] += 1;
    }

    fn add(&mut self, other: &Self) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.max_ns = self.max_ns.max(other.max_ns);
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts) {
            *mine += theirs;
        }
    }

    fn moved(&self) -> SeriesMoved {
        SeriesMoved {
            ios: self.ios,
            bytes: self.bytes,
            p99_ns: self.p99_ns(),
            max_ns: self.max_ns,
        }
    }

    /// The middle of the bucket that the 99th of a hundred lies in, at most the longest.
    fn p99_ns(&self) -> u64 {
        let wanted = (self.ios * 99).div_ceil(100);
        let mut seen = 0;
        for (bin, &count) in self.counts.iter().enumerate() {
            seen += u64::from(count);
            if count > 0 && seen >= wanted {
                let (low, width) = bounds_of(bin);
                return (low + width / 2).min(self.max_ns);
            }
        }
        0
    }
}

/// The bucket of a time.
fn bin_of(ns: u64) -> usize {
    let ns = ns.max(1 << FIRST_BIT);
    let bit = 63 - ns.leading_zeros();
    let quarter = (ns >> (bit - 2)) & 3;
    let bin = u64::from(bit - FIRST_BIT) * 4 + quarter;
    usize::try_from(bin).map_or(BINS - 1, |bin| bin.min(BINS - 1))
}

/// The least time of a bucket, and how wide it is.
fn bounds_of(bin: usize) -> (u64, u64) {
    let width = 1 << (bin / 4 + FIRST_BIT as usize - 2);
    ((4 + bin as u64 % 4) * width, width)
}

#[cfg(test)]
mod tests;
