//! Time as a value: nanoseconds since an origin that the shell chooses (start of the daemon, start
//! of the simulation). Pure code never asks a clock; it is told what time it is.

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// A moment, in nanoseconds since an origin that never changes within one engine's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant {
    ns: u64,
}

/// A length of time in nanoseconds; at most 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration {
    ns: u64,
}

impl Instant {
    /// The origin.
    pub const ZERO: Self = Self { ns: 0 };
    /// Later than anything that happens.
    pub const MAX: Self = Self { ns: u64::MAX };

    /// The moment `ns` nanoseconds after the origin.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self { ns }
    }

    /// Nanoseconds since the origin.
    #[must_use]
    pub const fn as_ns(self) -> u64 {
        self.ns
    }

    /// The time since `earlier`, or zero where `earlier` is later.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_ns(self.ns.saturating_sub(earlier.ns))
    }
}

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self { ns: 0 };
    /// The longest length of time.
    pub const MAX: Self = Self { ns: u64::MAX };

    /// A length of `ns` nanoseconds.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self { ns }
    }

    /// A length of `us` microseconds; saturates.
    #[must_use]
    pub const fn from_us(us: u64) -> Self {
        Self::from_ns(us.saturating_mul(1_000))
    }

    /// A length of `ms` milliseconds; saturates.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self::from_ns(ms.saturating_mul(1_000_000))
    }

    /// A length of `secs` seconds; saturates.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self::from_ns(secs.saturating_mul(1_000_000_000))
    }

    /// The nearest whole number of nanoseconds to `secs` seconds; negative and NaN give zero.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "float to integer casts saturate, and that is what is wanted"
    )]
    pub fn from_secs_f64(secs: f64) -> Self {
        Self::from_ns((secs * 1e9 + 0.5) as u64)
    }

    /// Whole nanoseconds.
    #[must_use]
    pub const fn as_ns(self) -> u64 {
        self.ns
    }

    /// Whole microseconds, rounded down.
    #[must_use]
    pub const fn as_us(self) -> u64 {
        self.ns / 1_000
    }

    /// Whole milliseconds, rounded down.
    #[must_use]
    pub const fn as_ms(self) -> u64 {
        self.ns / 1_000_000
    }

    /// Seconds as a floating-point number.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "53 bits of nanoseconds are 104 days exactly"
    )]
    pub const fn as_secs_f64(self) -> f64 {
        self.ns as f64 / 1e9
    }

    /// The difference, or zero where `other` is longer.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self::from_ns(self.ns.saturating_sub(other.ns))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    /// The moment `length` later; saturates at [`Instant::MAX`], which means never.
    fn add(self, length: Duration) -> Self {
        Self::from_ns(self.ns.saturating_add(length.ns))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, length: Duration) {
        *self = *self + length;
    }
}

impl Sub for Instant {
    type Output = Duration;
    /// The time since `earlier`.
    ///
    /// # Panics
    /// Where `earlier` is later: time does not run backwards within one engine.
    #[inline]
    fn sub(self, earlier: Self) -> Duration {
        Duration::from_ns(self.ns.checked_sub(earlier.ns).expect("time runs forward"))
    }
}

impl Add for Duration {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self::from_ns(self.ns.saturating_add(other.ns))
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Duration {
    type Output = Self;
    /// # Panics
    /// Where `other` is longer.
    fn sub(self, other: Self) -> Self {
        Self::from_ns(
            self.ns
                .checked_sub(other.ns)
                .expect("no length of time is negative"),
        )
    }
}

impl SubAssign for Duration {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Mul<u64> for Duration {
    type Output = Self;
    fn mul(self, factor: u64) -> Self {
        Self::from_ns(self.ns.saturating_mul(factor))
    }
}

impl Div<u64> for Duration {
    type Output = Self;
    fn div(self, divisor: u64) -> Self {
        Self::from_ns(self.ns / divisor)
    }
}

#[expect(clippy::disallowed_types, reason = "the border to the shells")]
impl From<std::time::Duration> for Duration {
    fn from(length: std::time::Duration) -> Self {
        Self::from_ns(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX))
    }
}

#[expect(clippy::disallowed_types, reason = "the border to the shells")]
impl From<Duration> for std::time::Duration {
    fn from(length: Duration) -> Self {
        Self::from_nanos(length.ns)
    }
}

impl fmt::Display for Duration {
    /// Three significant digits and a unit: `950 ns`, `12.3 us`, `4.17 ms`, `30.0 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secs = self.as_secs_f64();
        let (value, unit) = match self.ns {
            0..1_000 => return write!(f, "{} ns", self.ns),
            1_000..1_000_000 => (secs * 1e6, "us"),
            1_000_000..1_000_000_000 => (secs * 1e3, "ms"),
            _ => (secs, "s"),
        };
        let digits = if value < 9.995 {
            2
        } else if value < 99.95 {
            1
        } else {
            0
        };
        write!(f, "{value:.digits$} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Instant};

    #[test]
    fn display_has_three_significant_digits() {
        let show = |ns| Duration::from_ns(ns).to_string();
        assert_eq!(show(0), "0 ns");
        assert_eq!(show(999), "999 ns");
        assert_eq!(show(4_170_000), "4.17 ms");
        assert_eq!(show(12_345), "12.3 us");
        assert_eq!(show(123_456_000), "123 ms");
        assert_eq!(show(30_000_000_000), "30.0 s");
    }

    #[test]
    fn adding_saturates_at_never() {
        assert_eq!(Instant::MAX + Duration::from_secs(1), Instant::MAX);
        assert_eq!(
            Instant::from_ns(5).saturating_since(Instant::from_ns(9)),
            Duration::ZERO
        );
    }

    #[test]
    fn from_secs_f64_rounds_and_refuses_nonsense() {
        assert_eq!(Duration::from_secs_f64(1e-9), Duration::from_ns(1));
        assert_eq!(Duration::from_secs_f64(-3.0), Duration::ZERO);
        assert_eq!(Duration::from_secs_f64(f64::NAN), Duration::ZERO);
        assert_eq!(Duration::from_secs_f64(f64::INFINITY), Duration::MAX);
    }
}
