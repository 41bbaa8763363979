//! The time of day, for what people read later: when an array became dirty, when a leg was faulted.
//! Nothing is decided by it.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Seconds since 1970 in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct WallTime(pub(crate) u64);

impl WallTime {
    /// What the system's clock says.
    pub(crate) fn now() -> Self {
        let passed = SystemTime::now().duration_since(UNIX_EPOCH);
        Self(passed.map_or(0, |passed| passed.as_secs()))
    }
}

impl fmt::Display for WallTime {
    /// `2026-11-21 05:46:00 UTC`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DAY: u64 = 24 * 60 * 60;
        let (year, month, day) = date(self.0 / DAY);
        let second = self.0 % DAY;
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC"
        )
    }
}

/// Year, month and day of the day `days` days after 1970-01-01.
fn date(days: u64) -> (u64, u64, u64) {
    let is_leap =
        |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let mut days = days;
    // 400 years have 146097 days, whichever they are.
    let mut year = 1970 + days / 146_097 * 400;
    days %= 146_097;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [
        31,
        28 + u64::from(is_leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let mut month = 1;
    for length in lengths {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::WallTime;

    #[test]
    fn known_moments() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_709_251_199, "2024-02-29 23:59:59 UTC"),
            (1_735_689_599, "2024-12-31 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
            (16_725_225_600, "2500-01-01 00:00:00 UTC"),
        ] {
            assert_eq!(WallTime(seconds).to_string(), text);
        }
    }
}
