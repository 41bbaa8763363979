//! Settings by name, as files and command lines give them: what can be wrong with one.

use std::fmt;

use crate::suggest::closest;

/// Why a setting cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingError {
    /// There is no setting of this name.
    UnknownKey {
        /// The name.
        key: String,
        /// The one that was probably meant.
        closest: Option<String>,
    },
    /// The value makes no sense for this setting.
    Value {
        /// The setting.
        key: String,
        /// What is wrong with the value, which it names.
        text: String,
    },
}

impl SettingError {
    /// No setting is called `key`; `keys` are those that there are.
    pub fn unknown<'a>(key: &str, keys: impl IntoIterator<Item = &'a str>) -> Self {
        Self::UnknownKey {
            key: key.to_owned(),
            closest: closest(key, keys).map(str::to_owned),
        }
    }

    /// The value of `key` is wrong in the way that `text` says.
    pub fn value(key: &str, text: impl fmt::Display) -> Self {
        Self::Value {
            key: key.to_owned(),
            text: text.to_string(),
        }
    }
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKey { key, closest } => {
                write!(f, "there is no key '{key}'")?;
                match closest {
                    Some(closest) => write!(f, "; did you mean '{closest}'?"),
                    None => Ok(()),
                }
            }
            Self::Value { key, text } => write!(f, "{key}: {text}"),
        }
    }
}

impl std::error::Error for SettingError {}

/// Yes or no, as scenario files (`true`) and fio's job files (`1`) say it.
///
/// # Errors
/// Where `value` is neither.
pub fn parse_bool(key: &str, value: &str) -> Result<bool, SettingError> {
    match value {
        "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        _ => Err(SettingError::value(
            key,
            format_args!("'{value}' is not true or false (or 1 or 0)"),
        )),
    }
}

/// A whole number from `min` to `max`.
///
/// # Errors
/// Where `value` is none.
pub fn parse_count(key: &str, value: &str, min: u64, max: u64) -> Result<u64, SettingError> {
    let number = value.parse().ok();
    number
        .filter(|number| (min..=max).contains(number))
        .ok_or_else(|| {
            let text = format_args!("'{value}' is not a whole number from {min} to {max}");
            SettingError::value(key, text)
        })
}

#[cfg(test)]
mod tests {
    use super::{SettingError, parse_bool, parse_count};

    #[test]
    fn errors_name_the_key_and_the_way_out() {
        let told = |error: SettingError| error.to_string();
        assert_eq!(
            told(SettingError::unknown("iodeph", ["bs", "iodepth"])),
            "there is no key 'iodeph'; did you mean 'iodepth'?"
        );
        assert_eq!(
            told(SettingError::unknown("x", ["bs"])),
            "there is no key 'x'"
        );
        assert_eq!(
            told(parse_bool("direct", "maybe").unwrap_err()),
            "direct: 'maybe' is not true or false (or 1 or 0)"
        );
        assert_eq!(parse_bool("direct", "1"), Ok(true));
        assert_eq!(
            told(parse_count("numjobs", "-1", 1, 4096).unwrap_err()),
            "numjobs: '-1' is not a whole number from 1 to 4096"
        );
        assert_eq!(parse_count("numjobs", "7", 1, 4096), Ok(7));
    }
}
