//! Numbers for people: few digits, groups of three, one unit per column.

/// A rate: whole numbers with commas from 100 on, one decimal below.
#[must_use]
pub fn rate(value: f64) -> String {
    if value < 99.95 {
        return format!("{value:.1}");
    }
    grouped(&format!("{value:.0}"))
}

/// How many there are, with commas.
#[must_use]
pub fn count(number: u64) -> String {
    grouped(&number.to_string())
}

/// Nanoseconds in milliseconds, with about three digits.
#[must_use]
pub fn milliseconds(ns: u64) -> String {
    let ms = ns as f64 / 1e6;
    if ms < 0.9995 {
        format!("{ms:.3}")
    } else if ms < 9.995 {
        format!("{ms:.2}")
    } else if ms < 99.95 {
        format!("{ms:.1}")
    } else {
        grouped(&format!("{ms:.0}"))
    }
}

/// Nanoseconds with the unit that suits them.
#[must_use]
pub fn duration(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.0} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{} ms", milliseconds(ns)),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

/// A difference in percent, with its sign.
#[must_use]
pub fn percent(value: f64) -> String {
    format!("{value:+.1} %")
}

/// How many times, with two digits that mean something.
#[must_use]
pub fn times(ratio: f64) -> String {
    if ratio < 9.95 {
        format!("{ratio:.1} times")
    } else {
        format!("{} times", grouped(&format!("{ratio:.0}")))
    }
}

/// `text` in lines of at most `columns` characters; a longer word has a line to itself, and a
/// percent sign is not parted from its number.
#[must_use]
pub fn wrapped(text: &str, columns: usize) -> String {
    const GLUE: &str = "\u{a0}%";
    let mut lines = String::new();
    let mut used = 0;
    for word in text.replace(" %", GLUE).split(' ') {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > columns {
            lines.push('\n');
            used = 0;
        } else if used > 0 {
            lines.push(' ');
            used += 1;
        }
        lines.push_str(word);
        used += length;
    }
    lines.replace(GLUE, " %")
}

/// `digits`, all of them decimal, with a comma before every group of three.
fn grouped(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{duration, milliseconds, percent, rate, times, wrapped};

    #[test]
    fn few_digits_and_groups_of_three() {
        assert_eq!(rate(0.0), "0.0");
        assert_eq!(rate(98.04), "98.0");
        assert_eq!(rate(99.96), "100");
        assert_eq!(rate(8_932.4), "8,932");
        assert_eq!(rate(1_234_567.0), "1,234,567");
        assert_eq!(milliseconds(123_456), "0.123");
        assert_eq!(milliseconds(18_640_000), "18.6");
        assert_eq!(milliseconds(1_234_000_000), "1,234");
        assert_eq!(duration(112_400), "112 us");
        assert_eq!(duration(2_500_000_000), "2.50 s");
        assert_eq!(percent(-4.26), "-4.3 %");
        assert_eq!(percent(0.04), "+0.0 %");
        assert_eq!(times(31.9), "32 times");
        assert_eq!(times(1.25), "1.2 times");
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrapped("one two three", 80), "one two three");
        assert_eq!(wrapped("one two three", 7), "one two\nthree");
        assert_eq!(wrapped("one seventeen 2", 8), "one\nseventeen\n2");
        assert_eq!(wrapped("of 15 % each", 5), "of\n15 %\neach");
        assert_eq!(wrapped("", 8), "");
    }
}
