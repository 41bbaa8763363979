//! A log-linear histogram: fixed memory, one addition per sample, percentiles within 1.6 %.
//!
//! Values below 64 have a bucket each; above, every power of two is cut into 32 equal buckets, so
//! that a bucket is at most 1/32 of its lower bound wide, and its middle is within 1.6 % of every
//! value in it. Exact minimum, maximum, sum and count are kept beside.

use std::fmt;

/// Buckets per power of two, as a power of two.
const SUB_BITS: u32 = 5;
const SUB_COUNT: usize = 1 << SUB_BITS;
/// Highest index plus one: the linear part and every power of two from 2^6 to 2^63.
const BUCKETS: usize = SUB_COUNT * (64 - SUB_BITS as usize + 1);

/// Counts of `u64` values (nanoseconds, bytes) by size.
#[derive(Clone)]
pub struct Histogram {
    counts: Box<[u64; BUCKETS]>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// A histogram without any value.
    #[must_use]
    pub fn new() -> Self {
        Self {
            counts: Box::new([0; BUCKETS]),
            count: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }

    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        // Nobody counts to 2^64.
        let count = &mut self.counts[bucket_of(value)];
        *count = count.wrapping_add(1);
        self.count = self.count.wrapping_add(1);
        self.sum += u128::from(value);
        // Few values are extremes: those are written down alone.
        if value < self.min {
            self.min = value;
        }
        if value > self.max {
            self.max = value;
        }
    }

    /// Counts one value so many times.
    pub fn record_many(&mut self, value: u64, times: u64) {
        if times > 0 {
            self.record(value);
            self.counts[bucket_of(value)] += times - 1;
            self.count += times - 1;
            self.sum += u128::from(value) * u128::from(times - 1);
        }
    }

    /// Adds all that `other` has counted.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts.iter()) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        *self = Self::new();
    }

    /// How many values were counted.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The smallest value, exactly; 0 where there is none.
    #[must_use]
    pub const fn min(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min }
    }

    /// The largest value, exactly; 0 where there is none.
    #[must_use]
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// The sum of all values, exactly.
    #[must_use]
    pub const fn sum(&self) -> u128 {
        self.sum
    }

    /// The mean, exactly but for rounding to an `f64`; 0 where there is no value.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean for people")]
    pub fn mean(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        self.sum as f64 / self.count as f64
    }

    /// The value below or at which `permyriad` of 10,000 values lie (9,990: p99.9), as the middle
    /// of its bucket, never beyond the exact extremes; 0 where there is no value.
    ///
    /// # Panics
    /// Where `permyriad` is above 10,000.
    #[must_use]
    pub fn quantile(&self, permyriad: u64) -> u64 {
        assert!(permyriad <= 10_000, "a quantile is at most the whole");
        let wanted = (u128::from(self.count) * u128::from(permyriad)).div_ceil(10_000);
        let mut seen = 0u128;
        for (index, &count) in self.counts.iter().enumerate() {
            seen += u128::from(count);
            if count > 0 && seen >= wanted {
                let (low, width) = bounds_of(index);
                return (low + width / 2).clamp(self.min, self.max);
            }
        }
        0
    }

    /// The buckets that hold something: lower bound, width, count; by rising value.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let filled = self
            .counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0);
        filled.map(|(index, &count)| {
            let (low, width) = bounds_of(index);
            (low, width, count)
        })
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count)
            .field("min", &self.min())
            .field("p50", &self.quantile(5_000))
            .field("max", &self.max)
            .finish_non_exhaustive()
    }
}

/// The bucket that `value` falls into: the highest bit names the row, the five bits after it the
/// bucket in the row. With the highest bit before them these count on from the row before.
#[expect(clippy::cast_possible_truncation, reason = "below 64 after the shift")]
#[inline]
const fn bucket_of(value: u64) -> usize {
    let shift = (value | SUB_COUNT as u64).ilog2() - SUB_BITS;
    ((shift as usize) << SUB_BITS) + (value >> shift) as usize
}

/// The smallest value of a bucket and how many values fall into it.
const fn bounds_of(index: usize) -> (u64, u64) {
    let row = index >> SUB_BITS;
    let column = (index & (SUB_COUNT - 1)) as u64;
    if row == 0 {
        return (column, 1);
    }
    let shift = row - 1;
    ((SUB_COUNT as u64 + column) << shift, 1 << shift)
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, Histogram, bounds_of, bucket_of};

    #[test]
    fn buckets_tile_the_numbers() {
        let mut next = 0u128;
        for index in 0..BUCKETS {
            let (low, width) = bounds_of(index);
            assert_eq!(u128::from(low), next, "bucket {index}");
            assert_eq!(bucket_of(low), index);
            assert_eq!(bucket_of(low + (width - 1)), index);
            next += u128::from(width);
        }
        assert_eq!(next, 1 << 64);
    }

    #[test]
    fn quantiles_lie_within_a_bucket_of_the_sorted_values() {
        let mut histogram = Histogram::new();
        let values: Vec<u64> = (1..=1000u64).map(|n| n * n * 977).collect();
        for &value in &values {
            histogram.record(value);
        }
        for permyriad in [100, 5_000, 9_000, 9_900, 9_990, 10_000] {
            let exact = values[usize::try_from(permyriad / 10).unwrap() - 1];
            let told = histogram.quantile(permyriad);
            assert!(
                told.abs_diff(exact) * 60 <= exact,
                "{permyriad}: {told} for {exact}"
            );
        }
        assert_eq!(histogram.max(), 977_000_000);
        assert_eq!(histogram.min(), 977);
    }

    #[test]
    fn many_at_once_are_many_one_by_one() {
        let (mut at_once, mut one_by_one) = (Histogram::new(), Histogram::new());
        for (value, times) in [(7, 0), (977, 3), (0, 1)] {
            at_once.record_many(value, times);
            (0..times).for_each(|_| one_by_one.record(value));
        }
        let all = |told: &Histogram| told.buckets().collect::<Vec<_>>();
        assert_eq!(all(&at_once), all(&one_by_one));
        assert_eq!((at_once.count(), at_once.sum()), (4, 3 * 977));
        assert_eq!((at_once.min(), at_once.max()), (0, 977));
    }

    #[test]
    fn empty_and_merged() {
        let mut all = Histogram::new();
        assert_eq!((all.quantile(5_000), all.min(), all.max()), (0, 0, 0));
        let mut one = Histogram::new();
        one.record(u64::MAX);
        one.record(0);
        all.merge(&one);
        assert_eq!((all.count(), all.min(), all.max()), (2, 0, u64::MAX));
    }
}
