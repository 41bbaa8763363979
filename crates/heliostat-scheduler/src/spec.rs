//! Schedulers as people write them: `NAME` or `NAME:key=value,key=value`.

use std::fmt;
use std::str::FromStr;

use heliostat_types::Duration;
use stdx::settings::{SettingError, parse_count};
use stdx::units::{exact_time, parse_time_ns};

use crate::deadline::DeadlineSettings;
use crate::fair::FairSettings;

/// The schedulers there are: what people call each, and what it does, in a line.
pub const SCHEDULERS: [(&str, &str); 3] = [
    ("none", "strictly in order of arrival"),
    (
        "deadline",
        "in batches by place, reads before writes, what waits too long first (mq-deadline)",
    ),
    (
        "fair",
        "each client its share of the device's time, by weight, whatever it asks for",
    ),
];

/// How many requests are looked at in front of an array where nothing is said: Linux's
/// `nr_requests`.
const ARRAY_REQUESTS_MAX: usize = 128;

/// A scheduler, with a value for each of its tunables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchedulerSpec {
    /// Strictly in order of arrival.
    #[default]
    None,
    /// As mq-deadline.
    Deadline(DeadlineSettings),
    /// Each flow its share of the device's time.
    Fair(FairSettings),
}

/// Why a text names no scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchedulerError {
    /// There is none of this name.
    Unknown {
        /// The name.
        name: String,
        /// Those that there are.
        valid: Vec<&'static str>,
    },
    /// What is behind the colon is wrong.
    Setting {
        /// The scheduler.
        scheduler: &'static str,
        /// What is wrong.
        error: SettingError,
        /// The tunables that it has.
        keys: Vec<&'static str>,
    },
}

impl fmt::Display for SchedulerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, valid } => {
                write!(f, "there is no scheduler '{name}'")?;
                match stdx::suggest::closest(name, valid.iter().copied()) {
                    Some(meant) => write!(f, "; did you mean '{meant}'?")?,
                    None => f.write_str(".")?,
                }
                write!(f, " Valid are: {}", valid.join(", "))
            }
            Self::Setting {
                scheduler,
                error,
                keys,
            } => {
                write!(f, "scheduler '{scheduler}': {error}")?;
                match error {
                    SettingError::Value { .. } => Ok(()),
                    SettingError::UnknownKey { .. } if keys.is_empty() => {
                        f.write_str("; it has none at all")
                    }
                    SettingError::UnknownKey { closest, .. } => {
                        let stop = if closest.is_none() { "." } else { "" };
                        write!(f, "{stop} Valid are: {}", keys.join(", "))
                    }
                }
            }
        }
    }
}

impl std::error::Error for SchedulerError {}

impl SchedulerError {
    /// The same where whoever asks knows a scheduler besides.
    #[must_use]
    pub fn beside(mut self, other: &'static str) -> Self {
        if let Self::Unknown { valid, .. } = &mut self {
            valid.push(other);
        }
        self
    }
}

impl SchedulerSpec {
    /// How many requests are looked at in front of an array; `None`: all that there are.
    #[must_use]
    pub const fn array_requests_max(&self) -> Option<usize> {
        match self {
            Self::None | Self::Deadline(DeadlineSettings { nr_requests: 0, .. }) => {
                Some(ARRAY_REQUESTS_MAX)
            }
            Self::Deadline(settings) => Some(settings.nr_requests as usize),
            // Who is outside would be nobody's.
            Self::Fair(_) => None,
        }
    }

    /// Whether each flow has its share: of the device's time, and of the memory of the array.
    #[must_use]
    pub const fn has_shares(&self) -> bool {
        matches!(self, Self::Fair(_))
    }

    /// Reads `NAME` or `NAME:key=value,key=value`; what is not named has its default. One line feed
    /// at the end does not count.
    ///
    /// # Errors
    /// Where there is no such scheduler or tunable, or it does not take that value.
    pub fn parse(text: &str) -> Result<Self, SchedulerError> {
        let text = text.strip_suffix('\n').unwrap_or(text);
        let (name, settings) = match text.split_once(':') {
            Some((name, settings)) => (name, Some(settings)),
            None => (text, None),
        };
        let mut spec = match name {
            "none" => Self::None,
            "deadline" => Self::Deadline(DeadlineSettings::DEFAULT),
            "fair" => Self::Fair(FairSettings::DEFAULT),
            _ => {
                return Err(SchedulerError::Unknown {
                    name: name.to_owned(),
                    valid: SCHEDULERS.map(|(name, _)| name).to_vec(),
                });
            }
        };
        for item in settings.into_iter().flat_map(|text| text.split(',')) {
            let (key, value) = item.split_once('=').unwrap_or((item, ""));
            spec.set(key, value)
                .map_err(|error| SchedulerError::Setting {
                    scheduler: spec.name(),
                    error,
                    keys: spec.fields().into_iter().map(|(key, _)| key).collect(),
                })?;
        }
        Ok(spec)
    }

    /// What people call it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Deadline(_) => "deadline",
            Self::Fair(_) => "fair",
        }
    }

    /// The tunables with their values, as [`SchedulerSpec::set`] takes them.
    #[must_use]
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::None => Vec::new(),
            Self::Deadline(settings) => settings.fields(),
            Self::Fair(settings) => settings.fields(),
        }
    }

    /// Gives a tunable a value.
    ///
    /// # Errors
    /// Where there is no such tunable, or it does not take that value.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        match self {
            Self::None => Err(SettingError::unknown(key, [])),
            Self::Deadline(settings) => settings.set(key, value),
            Self::Fair(settings) => settings.set(key, value),
        }
    }

    /// The same one with all tunables at their defaults.
    const fn untuned(&self) -> Self {
        match self {
            Self::None => Self::None,
            Self::Deadline(_) => Self::Deadline(DeadlineSettings::DEFAULT),
            Self::Fair(_) => Self::Fair(FairSettings::DEFAULT),
        }
    }
}

impl FromStr for SchedulerSpec {
    type Err = SchedulerError;

    fn from_str(text: &str) -> Result<Self, SchedulerError> {
        Self::parse(text)
    }
}

impl fmt::Display for SchedulerSpec {
    /// The name, and what differs from its default: `none`, `deadline:fifo_batch=8`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        let mut separator = ':';
        for ((key, value), (_, usual)) in self.fields().iter().zip(self.untuned().fields()) {
            if *value != usual {
                write!(f, "{separator}{key}={value}")?;
                separator = ',';
            }
        }
        Ok(())
    }
}

/// The longest time that a tunable takes.
const TIME_MAX: Duration = Duration::from_secs(3600);

/// A time from 1 ms to an hour.
pub(crate) fn parse_time(key: &str, value: &str) -> Result<Duration, SettingError> {
    let ns = parse_time_ns(value).map_err(|error| SettingError::value(key, error))?;
    let time = Duration::from_ns(ns);
    if !(Duration::from_ms(1)..=TIME_MAX).contains(&time) {
        let text = format_args!("'{value}' is not from 1ms to 3600s");
        return Err(SettingError::value(key, text));
    }
    Ok(time)
}

/// A number of 32 bits in a range.
pub(crate) fn parse_u32(key: &str, value: &str, min: u32, max: u32) -> Result<u32, SettingError> {
    let number = parse_count(key, value, min.into(), max.into())?;
    Ok(u32::try_from(number).expect("within the bounds just checked"))
}

impl DeadlineSettings {
    fn fields(&self) -> Vec<(&'static str, String)> {
        let time = |time: Duration| exact_time(time.as_ns());
        vec![
            ("read_expire", time(self.read_expire)),
            ("write_expire", time(self.write_expire)),
            ("writes_starved", self.writes_starved.to_string()),
            ("fifo_batch", self.fifo_batch.to_string()),
            ("background_expire", time(self.background_expire)),
            ("nr_requests", self.nr_requests.to_string()),
        ]
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        match key {
            "read_expire" => self.read_expire = parse_time(key, value)?,
            "write_expire" => self.write_expire = parse_time(key, value)?,
            "writes_starved" => self.writes_starved = parse_u32(key, value, 0, 1000)?,
            "fifo_batch" => self.fifo_batch = parse_u32(key, value, 1, 1000)?,
            "background_expire" => self.background_expire = parse_time(key, value)?,
            "nr_requests" => self.nr_requests = parse_u32(key, value, 0, 65_536)?,
            _ => {
                let fields = self.fields();
                let keys = fields.iter().map(|(key, _)| *key);
                return Err(SettingError::unknown(key, keys));
            }
        }
        Ok(())
    }
}

impl FairSettings {
    fn fields(&self) -> Vec<(&'static str, String)> {
        vec![
            ("quantum", exact_time(self.quantum.as_ns())),
            ("depth", self.depth.to_string()),
            ("sweep_depth", self.sweep_depth.to_string()),
        ]
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        match key {
            "quantum" => self.quantum = parse_time(key, value)?,
            "sweep_depth" => self.sweep_depth = parse_u32(key, value, 1, 65_536)?,
            "depth" => self.depth = parse_u32(key, value, 0, 65_536)?,
            _ => {
                let fields = self.fields();
                let keys = fields.iter().map(|(key, _)| *key);
                return Err(SettingError::unknown(key, keys));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{SCHEDULERS, SchedulerSpec};

    #[test]
    fn what_is_written_is_read_back() {
        for (name, _) in SCHEDULERS {
            let spec = SchedulerSpec::parse(name).unwrap();
            assert_eq!(spec.to_string(), name);
            let mut all = spec;
            for (key, value) in spec.fields() {
                all.set(key, &value).unwrap();
            }
            assert_eq!(all, spec);
        }
        for text in [
            "deadline:read_expire=250ms,fifo_batch=1",
            "fair:quantum=20ms,depth=8",
            "deadline:write_expire=10s,writes_starved=0,background_expire=1s",
            "deadline:nr_requests=32",
        ] {
            let spec = SchedulerSpec::parse(&format!("{text}\n")).unwrap();
            assert_eq!(spec.to_string(), text);
        }
    }

    #[test]
    fn errors_say_what_is_meant() {
        let told = |text| SchedulerSpec::parse(text).unwrap_err().to_string();
        assert_eq!(
            told("deadlin"),
            "there is no scheduler 'deadlin'; did you mean 'deadline'? Valid are: none, \
             deadline, fair"
        );
        assert_eq!(
            told("deadline:fifo_bach=2"),
            "scheduler 'deadline': there is no key 'fifo_bach'; did you mean 'fifo_batch'? Valid \
             are: read_expire, write_expire, writes_starved, fifo_batch, background_expire, \
             nr_requests"
        );
        assert_eq!(
            told("fair:x=1"),
            "scheduler 'fair': there is no key 'x'. Valid are: quantum, depth, sweep_depth"
        );
        assert_eq!(
            told("deadline:fifo_batch=0"),
            "scheduler 'deadline': fifo_batch: '0' is not a whole number from 1 to 1000"
        );
        assert_eq!(
            told("deadline:read_expire=2h,"),
            "scheduler 'deadline': read_expire: '2h' is not a length of time: a number, then ns, \
             us, ms or s"
        );
        assert_eq!(
            told("deadline:nr_requests=65537"),
            "scheduler 'deadline': nr_requests: '65537' is not a whole number from 0 to 65536"
        );
        assert_eq!(
            told("none:x=1"),
            "scheduler 'none': there is no key 'x'; it has none at all"
        );
    }
}
