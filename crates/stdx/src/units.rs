//! Sizes, rates and lengths of time as people write them, and back.
//!
//! Sizes are fio's (`4k`, `1m`) or IEC (`4KiB`, `100GiB`), all powers of 1024; `kB`, `MB`, `GB` are
//! powers of 1000. Lengths of time are `1.5s`, `300ms`, `20us`, `5ns`.

use std::fmt;

/// Why a text is no size or time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitError {
    /// The text.
    pub text: String,
    /// What was expected instead.
    pub expected: &'static str,
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not {}", self.text, self.expected)
    }
}

impl std::error::Error for UnitError {}

const SIZE: &str = "a size: a number, then nothing, k, m, g, t, KiB, MiB, GiB, TiB (powers of \
                    1024) or kB, MB, GB, TB (powers of 1000)";
const RATE: &str = "a rate: a size per second, as in 500MB/s";
const TIME: &str = "a length of time: a number, then ns, us, ms or s";

/// Bytes of a size.
///
/// # Errors
/// Where the text is no size, is negative, or is 2^64 bytes or more.
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    let error = || UnitError {
        text: text.to_owned(),
        expected: SIZE,
    };
    let (number, unit) = split_unit(text);
    let factor: u64 = match unit {
        "" | "b" | "B" => 1,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => match unit.to_ascii_lowercase().as_str() {
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            _ => return Err(error()),
        },
    };
    scaled(number, factor).ok_or_else(error)
}

/// Bytes per second of a rate.
///
/// # Errors
/// As [`parse_size`], or where `/s` is missing.
pub fn parse_rate(text: &str) -> Result<u64, UnitError> {
    let error = || UnitError {
        text: text.to_owned(),
        expected: RATE,
    };
    let size = text.trim().strip_suffix("/s").ok_or_else(error)?;
    parse_size(size).map_err(|_| error())
}

/// Nanoseconds of a length of time.
///
/// # Errors
/// Where the text is no length of time, is negative, or is 584 years or more.
pub fn parse_time_ns(text: &str) -> Result<u64, UnitError> {
    let error = || UnitError {
        text: text.to_owned(),
        expected: TIME,
    };
    let (number, unit) = split_unit(text);
    let factor = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return Err(error()),
    };
    scaled(number, factor).ok_or_else(error)
}

/// A size for people: at most four digits and an IEC unit, `512 B`, `1.50 KiB`, `100 GiB`.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "for people")]
pub fn format_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = if value.fract() == 0.0 || value >= 99.95 {
        0
    } else if value < 9.995 {
        2
    } else {
        1
    };
    format!("{value:.digits$} {}", UNITS[unit])
}

/// A size to the byte, in the largest unit that divides it where that makes it short: `4MiB`,
/// `500MB`, `2000398934016`; [`parse_size`] takes it back.
#[must_use]
pub fn exact_size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 8] = [
        ("TiB", 1 << 40),
        ("TB", 1_000_000_000_000),
        ("GiB", 1 << 30),
        ("GB", 1_000_000_000),
        ("MiB", 1 << 20),
        ("MB", 1_000_000),
        ("KiB", 1 << 10),
        ("kB", 1_000),
    ];
    let fits = |unit: &(&str, u64)| {
        bytes.is_multiple_of(unit.1) && (1..100_000).contains(&(bytes / unit.1))
    };
    match UNITS.into_iter().find(fits) {
        Some((unit, factor)) => format!("{}{unit}", bytes / factor),
        None => bytes.to_string(),
    }
}

/// A rate to the byte: `228MB/s`; [`parse_rate`] takes it back.
#[must_use]
pub fn exact_rate(bytes_per_s: u64) -> String {
    match bytes_per_s {
        0 => "0B/s".to_owned(),
        _ => exact_size(bytes_per_s) + "/s",
    }
}

/// A length of time to the nanosecond: `8.5ms`, `1.5s`, `0ns`; [`parse_time_ns`] takes it back.
#[must_use]
pub fn exact_time(ns: u64) -> String {
    let (unit, digits) = match ns {
        1_000_000_000.. => ("s", 9),
        1_000_000.. => ("ms", 6),
        1_000.. => ("us", 3),
        _ => ("ns", 0),
    };
    let factor = 10u64.pow(digits);
    let width = digits as usize;
    let fraction = format!("{:0width$}", ns % factor);
    match fraction.trim_end_matches('0') {
        "" => format!("{}{unit}", ns / factor),
        fraction => format!("{}.{fraction}{unit}", ns / factor),
    }
}

/// Digits (with a point, perhaps) in front, unit behind; blanks around either do not count.
fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let at = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    (&text[..at], text[at..].trim_start())
}

/// `number`, a decimal that may have a fraction, times `factor`, rounded down; exact.
fn scaled(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.len() > 18 {
        return None;
    }
    let digits = |text: &str| {
        if text.is_empty() {
            Some(0)
        } else {
            text.parse::<u64>().ok()
        }
    };
    let part = u128::from(digits(fraction)?) * u128::from(factor)
        / 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let total = u128::from(digits(whole)?) * u128::from(factor) + part;
    u64::try_from(total).ok()
}

#[cfg(test)]
mod tests {
    use super::{
        exact_rate, exact_size, exact_time, format_size, parse_rate, parse_size, parse_time_ns,
    };

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("4k", 4096),
            ("4K", 4096),
            ("1m", 1 << 20),
            ("4KiB", 4096),
            ("100GiB", 100 << 30),
            ("1.5g", 3 << 29),
            ("500MB", 500_000_000),
            ("1kB", 1000),
            (" 2 TiB ", 2 << 40),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "k",
            "-1",
            "4kk",
            "1e3",
            "99999999999999999999",
            "20000000TiB",
            ".",
            "0x10",
        ] {
            assert!(parse_size(text).is_err(), "{text}");
        }
        let told = parse_size("4kk").unwrap_err().to_string();
        assert!(told.starts_with("'4kk' is not a size: "), "{told}");
    }

    #[test]
    fn rates_and_times() {
        assert_eq!(parse_rate("500MB/s"), Ok(500_000_000));
        assert!(parse_rate("500MB").is_err());
        assert_eq!(parse_time_ns("1.5s"), Ok(1_500_000_000));
        assert_eq!(parse_time_ns("20us"), Ok(20_000));
        assert_eq!(parse_time_ns("0.5ns"), Ok(0));
        assert!(parse_time_ns("5").is_err());
        assert!(parse_time_ns("-5s").is_err());
    }

    #[test]
    fn sizes_for_people() {
        assert_eq!(format_size(0), "0 B");
        assert_eq!(format_size(1536), "1.50 KiB");
        assert_eq!(format_size(100 << 30), "100 GiB");
        assert_eq!(format_size((1 << 20) - 1), "1.00 MiB");
        assert_eq!(format_size(1_500_000), "1.43 MiB");
    }

    #[test]
    fn what_is_written_exactly_is_read_back() {
        for (bytes, text) in [
            (0, "0"),
            (4 << 20, "4MiB"),
            (500_000_000, "500MB"),
            (2_000_398_934_016, "2000398934016"),
            (1_500_000_000, "1500MB"),
            (u64::MAX, "18446744073709551615"),
        ] {
            assert_eq!(exact_size(bytes), text);
            assert_eq!(parse_size(text), Ok(bytes));
            let rate = exact_rate(bytes);
            assert_eq!(parse_rate(&rate), Ok(bytes), "{rate}");
        }
        for (ns, text) in [
            (0, "0ns"),
            (999, "999ns"),
            (12_500, "12.5us"),
            (8_500_000, "8.5ms"),
            (1_000_000, "1ms"),
            (61_000_000_001, "61.000000001s"),
            (u64::MAX, "18446744073.709551615s"),
        ] {
            assert_eq!(exact_time(ns), text);
            assert_eq!(parse_time_ns(text), Ok(ns));
        }
    }
}
