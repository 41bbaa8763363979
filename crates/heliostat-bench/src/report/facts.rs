//! Where a report was made: machine, kernel, version.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

/// What whoever reads a figure later needs to know of where it came from.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Version of heliostat.
    pub version: String,
    /// `release`, or `debug`: figures of the real part depend on it.
    pub build: &'static str,
    /// When, in UTC: `2025-01-31T12:00:00Z`.
    pub created_utc: String,
    /// The kernel and its release.
    pub kernel: String,
    /// The distribution, as it calls itself.
    pub system: String,
    /// The model of the processor.
    pub processor: String,
    /// How many threads it runs at once.
    pub cpu_count: usize,
    /// Main memory.
    pub memory_bytes: u64,
}

impl Facts {
    /// The facts of this process on this machine, now. What cannot be found out is `unknown` or 0.
    #[must_use]
    pub fn of_this_machine() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            build: if cfg!(debug_assertions) {
                "debug"
            } else {
                "release"
            },
            created_utc: utc_text(seconds_since_epoch()),
            kernel: kernel_text(),
            system: value_in_file("/etc/os-release", "PRETTY_NAME", '='),
            processor: value_in_file("/proc/cpuinfo", "model name", ':'),
            cpu_count: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: value_in_file("/proc/meminfo", "MemTotal", ':')
                .trim_end_matches(" kB")
                .parse::<u64>()
                .map_or(0, |kib| kib * 1024),
        }
    }
}

/// `Linux`, the release, the architecture.
fn kernel_text() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = match release.trim() {
        "" => "unknown",
        release => release,
    };
    format!("Linux {release} {}", std::env::consts::ARCH)
}

/// The value of the first line that begins with `key`, or `unknown`.
fn value_in_file(path: &str, key: &str, separator: char) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let value = text.lines().find_map(|line| {
        let (name, value) = line.split_once(separator)?;
        (name.trim() == key).then(|| value.trim().trim_matches('"').to_owned())
    });
    value.unwrap_or_else(|| "unknown".to_owned())
}

/// Seconds since 1970 by the clock of the machine; 0 where it stands before that.
pub(super) fn seconds_since_epoch() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// A moment as `2025-01-31T12:00:00Z`.
pub(super) fn utc_text(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil_date(days);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Year, month and day of the day `days` after 1970-01-01, in the Gregorian calendar.
///
/// Years are counted from March, so that the day a leap year adds is its last; 2025-01-01 is day
/// 20,089 and belongs to the year that began on 2024-03-01.
fn civil_date(days: u64) -> (u64, u64, u64) {
    // 0000-03-01 lies 719,468 days before 1970-01-01; 400 years are always 146,097 days.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months from March on: five of them have 153 days together, whichever five follow each other.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::{Facts, utc_text};

    #[test]
    fn dates_as_date_prints_them() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_735_689_600, "2025-01-01T00:00:00Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc_text(seconds), text);
        }
    }

    #[test]
    fn this_machine_has_a_kernel_and_a_processor() {
        let facts = Facts::of_this_machine();
        assert!(facts.kernel.starts_with("Linux "), "{}", facts.kernel);
        assert!(facts.cpu_count > 0);
    }
}
