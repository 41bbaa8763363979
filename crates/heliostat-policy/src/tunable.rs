//! One number that changes how a policy decides: its name, its default, and what it may be.
//!
//! Every value is a `u64`: flags are 0 and 1, choices count from 0. That keeps setting, showing
//! and storing them one piece of code for all policies.

use std::fmt;

/// One tunable of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunable {
    /// What people call it; the original's name where there is an original.
    pub name: &'static str,
    /// What values it takes.
    pub kind: TunableKind,
    /// The value it has when nobody says anything.
    pub default: u64,
    /// In what it is counted; empty for flags and choices.
    pub unit: &'static str,
    /// What it does, in a phrase.
    pub description: &'static str,
}

/// Which values a tunable takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunableKind {
    /// A whole number.
    Number {
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
        /// Values are rounded up to a multiple of this; 1 leaves them as they are.
        multiple_of: u64,
    },
    /// The number of a leg of the array, counted from 1 as btrfs does.
    Devid,
    /// Yes (1) or no (0).
    Flag,
    /// One of these words; the value is its place in the list.
    Choice(&'static [&'static str]),
}

impl Tunable {
    /// A number in `range`, both ends included.
    pub(crate) const fn number(
        name: &'static str,
        default: u64,
        range: (u64, u64),
        unit: &'static str,
        description: &'static str,
    ) -> Self {
        let (min, max) = range;
        let kind = TunableKind::Number {
            min,
            max,
            multiple_of: 1,
        };
        Self {
            name,
            kind,
            default,
            unit,
            description,
        }
    }

    /// The value that `text` means, or `None` where it means none: numbers as the kernel's
    /// memparse reads them, flags as its kstrtobool, choices by their exact word. White space at
    /// the end does not count.
    #[must_use]
    pub fn parse(&self, text: &str) -> Option<u64> {
        let text = text.trim_end_matches(is_space);
        match self.kind {
            TunableKind::Number {
                min,
                max,
                multiple_of,
            } => {
                let number = parse_number(text)?;
                (min..=max).contains(&number).then_some(())?;
                number.checked_next_multiple_of(multiple_of)
            }
            TunableKind::Devid => parse_number(text).filter(|&devid| devid > 0),
            TunableKind::Flag => parse_flag(text),
            TunableKind::Choice(words) => words
                .iter()
                .zip(0..)
                .find_map(|(&word, at)| (word == text).then_some(at)),
        }
    }

    /// `value` as text that [`Tunable::parse`] reads back.
    ///
    /// # Panics
    /// Where `value` is no value of a choice.
    #[must_use]
    pub fn format(&self, value: u64) -> String {
        match self.kind {
            TunableKind::Choice(words) => {
                let at = usize::try_from(value).expect("a choice has few words");
                words[at].to_owned()
            }
            TunableKind::Number { .. } | TunableKind::Devid | TunableKind::Flag => {
                value.to_string()
            }
        }
    }
}

impl fmt::Display for TunableKind {
    /// What is expected, for messages: `a number from 1 to 100`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number { min, max, .. } => write!(
                f,
                "a number from {min} to {max}, in decimal or 0x and hexadecimal, with K, M, G, T, \
                 P or E behind it for powers of 1024"
            ),
            Self::Devid => f.write_str("the number of a leg, counted from 1"),
            Self::Flag => f.write_str("0 or 1"),
            Self::Choice(words) => write!(f, "one of {}", words.join(", ")),
        }
    }
}

/// What C calls white space.
const fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t'..='\r')
}

/// A number as the kernel's memparse reads it: decimal, octal behind a leading 0, hexadecimal
/// behind 0x; then one of K M G T P E, in either case, for a power of 1024. Unlike memparse it
/// wants a digit, and refuses what does not fit 63 bits instead of wrapping.
fn parse_number(text: &str) -> Option<u64> {
    let (radix, digits) = match text.as_bytes() {
        [b'0', b'x' | b'X', digit, ..] if digit.is_ascii_hexdigit() => (16, &text[2..]),
        [b'0', ..] => (8, text),
        _ => (10, text),
    };
    let end = digits
        .find(|c: char| !c.is_digit(radix))
        .unwrap_or(digits.len());
    let shift = match &digits[end..] {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        "t" | "T" => 40,
        "p" | "P" => 50,
        "e" | "E" => 60,
        _ => return None,
    };
    let number = u64::from_str_radix(&digits[..end], radix).ok()?;
    let number = number.checked_mul(1 << shift)?;
    (number <= i64::MAX.unsigned_abs()).then_some(number)
}

/// Yes or no as the kernel's kstrtobool reads it, but the whole word has to be right.
fn parse_flag(text: &str) -> Option<u64> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "y" | "yes" | "t" | "true" | "on" => Some(1),
        "0" | "n" | "no" | "f" | "false" | "off" => Some(0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Tunable, TunableKind, parse_number};

    #[test]
    fn numbers_are_read_as_memparse_reads_them() {
        for (text, number) in [
            ("0", 0),
            ("262144", 262_144),
            ("256k", 262_144),
            ("256K", 262_144),
            ("1m", 1 << 20),
            ("2G", 2 << 30),
            ("3t", 3 << 40),
            ("1P", 1 << 50),
            ("1E", 1 << 60),
            ("0x40000", 262_144),
            ("0X40K", 65_536),
            ("0x1E", 30),
            ("010", 8),
            ("9223372036854775807", i64::MAX.unsigned_abs()),
        ] {
            assert_eq!(parse_number(text), Some(number), "{text}");
        }
        for text in [
            "",
            "k",
            "-1",
            "+1",
            " 1",
            "1 k",
            "1kk",
            "1KiB",
            "0x",
            "0xk",
            "08",
            "1.5",
            "8E",
            "9223372036854775808",
            "99999999999999999999999",
            "1\u{661}",
        ] {
            assert_eq!(parse_number(text), None, "{text}");
        }
    }

    #[test]
    fn values_have_to_fit_their_tunable() {
        let number = Tunable {
            kind: TunableKind::Number {
                min: 1,
                max: 100_000,
                multiple_of: 4096,
            },
            ..Tunable::number("size", 4096, (1, 1), "bytes", "for this test")
        };
        assert_eq!(number.parse("1"), Some(4096));
        assert_eq!(number.parse("4097 \t\n"), Some(8192));
        assert_eq!(number.parse("0"), None);
        assert_eq!(number.parse("100001"), None);

        let flag = Tunable {
            kind: TunableKind::Flag,
            ..number
        };
        assert_eq!(flag.parse("Y\n"), Some(1));
        assert_eq!(flag.parse("off"), Some(0));
        assert_eq!(flag.parse("2"), None);

        let choice = Tunable {
            kind: TunableKind::Choice(&["first", "rotate"]),
            ..number
        };
        assert_eq!(choice.parse("rotate"), Some(1));
        assert_eq!(choice.format(1), "rotate");
        assert_eq!(choice.parse("rot"), None);

        let devid = Tunable {
            kind: TunableKind::Devid,
            ..number
        };
        assert_eq!(devid.parse("3"), Some(3));
        assert_eq!(devid.parse("0"), None);
    }
}
