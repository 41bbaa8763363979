//! What stands where in a scenario file: keys and values with their places, values as text.

use std::fmt;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Why a scenario cannot be had from a file: what, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ScenarioFileError {
    /// The file as it was named.
    pub file: String,
    /// The line, from 1; `None` where it is about the file as a whole.
    pub line: Option<usize>,
    /// What is wrong, with the section and the key.
    pub text: String,
}

impl fmt::Display for ScenarioFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.text),
            None => write!(f, "{}: {}", self.file, self.text),
        }
    }
}

/// A file's name and its text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
}

impl<'a> Source<'a> {
    /// The whole file as one table.
    pub(super) fn parse(self) -> Result<Spanned<DeTable<'a>>, ScenarioFileError> {
        DeTable::parse(self.text).map_err(|error| {
            // The parser is at a loss for words at some places: what stands there helps.
            let span = error.span().unwrap_or(0..0);
            let word = self.text.get(span.clone()).unwrap_or_default();
            let first_line = word.lines().next().unwrap_or_default();
            let text = match first_line.trim() {
                "" => error.message().to_owned(),
                word => {
                    let shown: String = word.chars().take(40).collect();
                    format!("{}: '{}'", error.message(), shown.escape_debug())
                }
            };
            self.error(span.start, text)
        })
    }

    /// What is wrong with the thing at the byte `at`.
    pub(super) fn error(self, at: usize, text: impl fmt::Display) -> ScenarioFileError {
        let before = self.text.as_bytes().iter().take(at);
        let line = 1 + before.filter(|byte| **byte == b'\n').count();
        ScenarioFileError {
            file: self.file.to_owned(),
            line: Some(line),
            text: text.to_string(),
        }
    }

    /// What is wrong with the file as a whole.
    pub(super) fn error_of_all(self, text: impl fmt::Display) -> ScenarioFileError {
        ScenarioFileError {
            file: self.file.to_owned(),
            line: None,
            text: text.to_string(),
        }
    }

    /// The comment that a file begins with, without its signs; empty where there is none.
    pub(super) fn description(self) -> String {
        let lines = self
            .text
            .lines()
            .map(str::trim)
            .skip_while(|line| line.is_empty());
        let comment = lines.map_while(|line| line.strip_prefix('#'));
        let words = comment.map(str::trim).take_while(|line| !line.is_empty());
        words.collect::<Vec<_>>().join(" ")
    }
}

/// One table of a file and how errors call it.
#[derive(Clone, Debug)]
pub(super) struct Section<'a> {
    pub(super) source: Source<'a>,
    /// Such as `job 'reader'`; empty for the top of the file.
    pub(super) place: String,
    /// Where it begins.
    pub(super) at: usize,
    /// In the order of the file.
    pub(super) entries: Vec<Entry<'a>>,
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(super) struct Entry<'a> {
    pub(super) key: &'a str,
    pub(super) at: usize,
    pub(super) value: &'a DeValue<'a>,
    pub(super) value_at: Range<usize>,
}

impl<'a> Section<'a> {
    pub(super) fn new(
        source: Source<'a>,
        place: impl Into<String>,
        at: usize,
        table: &'a DeTable<'a>,
    ) -> Self {
        let mut entries: Vec<Entry<'a>> = table
            .iter()
            .map(|(key, value)| Entry {
                key: key.get_ref().as_ref(),
                at: key.span().start,
                value: value.get_ref(),
                value_at: value.span(),
            })
            .collect();
        entries.sort_by_key(|entry| entry.at);
        Self {
            source,
            place: place.into(),
            at,
            entries,
        }
    }

    /// The entry called `key`.
    pub(super) fn entry(&self, key: &str) -> Option<&Entry<'a>> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// What is wrong with an entry.
    pub(super) fn error(&self, entry: &Entry<'a>, text: impl fmt::Display) -> ScenarioFileError {
        self.error_at(entry.at, text)
    }

    /// What is wrong with the section as a whole.
    pub(super) fn error_of_all(&self, text: impl fmt::Display) -> ScenarioFileError {
        self.error_at(self.at, text)
    }

    /// What is wrong at the byte `at`.
    pub(super) fn error_at(&self, at: usize, text: impl fmt::Display) -> ScenarioFileError {
        if self.place.is_empty() {
            return self.source.error(at, text);
        }
        self.source
            .error(at, format_args!("{}: {text}", self.place))
    }

    /// The value of an entry as text.
    pub(super) fn text(&self, entry: &Entry<'a>) -> Result<String, ScenarioFileError> {
        scalar_text(entry.value).map_err(|text| {
            let key = entry.key;
            self.error_at(entry.value_at.start, format_args!("{key}: {text}"))
        })
    }

    /// The tables that stand under the key `key` as `[[key]]`, with their starts.
    pub(super) fn tables(
        &self,
        key: &str,
    ) -> Result<Vec<(usize, &'a DeTable<'a>)>, ScenarioFileError> {
        let Some(entry) = self.entry(key) else {
            return Ok(Vec::new());
        };
        let wrong = |at| self.error_at(at, format_args!("write [[{key}]] above its keys"));
        let DeValue::Array(items) = entry.value else {
            return Err(wrong(entry.at));
        };
        let table_of = |item: &'a Spanned<DeValue<'a>>| {
            let (at, table) = (item.span().start, item.get_ref().as_table());
            table.map(|table| (at, table)).ok_or_else(|| wrong(at))
        };
        items.iter().map(table_of).collect()
    }
}

/// A number, truth value or string as the text that it would be in a job file.
pub(super) fn scalar_text(value: &DeValue<'_>) -> Result<String, String> {
    match value {
        DeValue::String(text) => Ok(text.clone().into_owned()),
        DeValue::Integer(number) => {
            let parsed = i128::from_str_radix(number.as_str(), number.radix());
            let number = parsed.map_err(|_| format!("{number} is too large a number"))?;
            Ok(number.to_string())
        }
        DeValue::Float(number) => {
            let parsed: Option<f64> = number.as_str().parse().ok();
            // Without an exponent, which sizes and times do not know.
            parsed
                .filter(|number| number.is_finite() && number.abs() < 1e30)
                .map(|number| number.to_string())
                .ok_or_else(|| format!("{number} is no number to reckon with"))
        }
        DeValue::Boolean(truth) => Ok(truth.to_string()),
        DeValue::Datetime(_) => Err("this is a date; a number or a string is wanted".to_owned()),
        DeValue::Array(_) => Err("this is a list; one value is wanted".to_owned()),
        DeValue::Table(_) => Err("this is a table; one value is wanted".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use toml::de::DeValue;

    use super::{Source, scalar_text};

    fn text_of(value: &str) -> Result<String, String> {
        scalar_text(DeValue::parse(value).unwrap().get_ref())
    }

    #[test]
    fn values_become_text() {
        for (value, text) in [
            ("60", "60"),
            ("+1_000", "1000"),
            ("0x10", "16"),
            ("-1", "-1"),
            ("1.5", "1.5"),
            ("1e3", "1000"),
            ("1e-3", "0.001"),
            ("true", "true"),
            ("'4k'", "4k"),
            ("18446744073709551615", "18446744073709551615"),
        ] {
            assert_eq!(text_of(value).as_deref(), Ok(text), "{value}");
        }
        for value in [
            "inf",
            "nan",
            "1e999",
            "1e40",
            "[1]",
            "{ a = 1 }",
            "1979-05-27",
            "999999999999999999999999999999999999999999",
        ] {
            assert!(text_of(value).is_err(), "{value}");
        }
    }

    #[test]
    fn the_first_comment_describes() {
        let description = |text| Source { file: "x", text }.description();
        assert_eq!(description("\n# One\n#  two.\n#\n# three\n"), "One two.");
        assert_eq!(description("name = 'x' # no\n# neither\n"), "");
    }
}
