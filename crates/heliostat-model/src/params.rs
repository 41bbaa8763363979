//! Parameters by name: each family has one table that says how a key is read, shown and bounded, so
//! that a model is one table of a scenario file away.
//!
//! A key is the field's name, its value is text as people write it. Four keys mean the same for
//! every family: `size`, `queue_depth`, and `read_bw` and `write_bw`, the most bytes per second
//! that reads and that writes get. What passes [`ModelParams::check`] can be built and driven.

use heliostat_types::Duration;
use stdx::settings::{SettingError, parse_bool, parse_count};
use stdx::units::{exact_rate, exact_size, exact_time, parse_rate, parse_size, parse_time_ns};

use crate::api::ModelParams;
use crate::{FlashParams, HddParams, NetworkDiskParams, RamParams};

/// One parameter of a model, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name, as [`ModelParams::set`] takes it.
    pub key: &'static str,
    /// Its value, as [`ModelParams::set`] takes it.
    pub value: String,
    /// What it is, in one line.
    pub meaning: &'static str,
    /// What its value is counted in: `bytes`, `bytes/s`, `time`, `count` or `bool`.
    pub unit: &'static str,
}

/// The families that [`ModelParams::of_family`] knows.
pub const FAMILIES: [&str; 4] = ["hdd", "flash", "network", "ram"];

/// Larger devices are refused: no drive has 256 TiB, and places on a disk stay far from 2^64 ns.
pub(crate) const SIZE_MAX: u64 = 256 << 40;
/// No link carries more.
pub(crate) const RATE_MAX: u64 = 1_000_000_000_000;
/// No single step of any drive takes longer.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(100);
/// More in flight than this nobody keeps.
pub(crate) const QUEUE_DEPTH_MAX: u64 = 65_536;

/// What [`ModelParams::set`] and [`ModelParams::fields`] know of one parameter.
#[derive(Debug)]
pub(crate) struct Param<P> {
    pub(crate) key: &'static str,
    pub(crate) meaning: &'static str,
    pub(crate) access: Access<P>,
    /// Bounds in bytes, bytes per second, nanoseconds or units.
    pub(crate) min: u64,
    pub(crate) max: u64,
}

/// How a parameter is reached, and what kind of text it is.
#[derive(Debug)]
pub(crate) enum Access<P> {
    Size(fn(&mut P) -> &mut u64),
    /// A number of bytes that fits 32 bits.
    SmallSize(fn(&mut P) -> &mut u32),
    /// A power of two of bytes.
    Block(fn(&mut P) -> &mut u32),
    Rate(fn(&mut P) -> &mut u64),
    /// A rate that changes others with it: what it is, and how it is set.
    RateOf(fn(&P) -> u64, fn(&mut P, u64)),
    Time(fn(&mut P) -> &mut Duration),
    Count(fn(&mut P) -> &mut u32),
    Switch(fn(&mut P) -> &mut bool),
}

impl<P: Copy> Param<P> {
    /// The value as a number in the units of the bounds.
    fn value(&self, params: &P) -> u64 {
        let mut params = *params;
        match self.access {
            Access::Size(field) | Access::Rate(field) => *field(&mut params),
            Access::SmallSize(field) | Access::Block(field) | Access::Count(field) => {
                u64::from(*field(&mut params))
            }
            Access::RateOf(get, _) => get(&params),
            Access::Time(field) => field(&mut params).as_ns(),
            Access::Switch(field) => u64::from(*field(&mut params)),
        }
    }

    fn show(&self, value: u64) -> String {
        match self.access {
            Access::Size(_) | Access::SmallSize(_) | Access::Block(_) => exact_size(value),
            Access::Rate(_) | Access::RateOf(..) => exact_rate(value),
            Access::Time(_) => exact_time(value),
            Access::Count(_) => value.to_string(),
            Access::Switch(_) => (value == 1).to_string(),
        }
    }

    const fn unit(&self) -> &'static str {
        match self.access {
            Access::Size(_) | Access::SmallSize(_) | Access::Block(_) => "bytes",
            Access::Rate(_) | Access::RateOf(..) => "bytes/s",
            Access::Time(_) => "time",
            Access::Count(_) => "count",
            Access::Switch(_) => "bool",
        }
    }

    fn parse(&self, text: &str) -> Result<u64, SettingError> {
        let error = |error| SettingError::value(self.key, error);
        match self.access {
            Access::Size(_) | Access::SmallSize(_) | Access::Block(_) => {
                parse_size(text).map_err(error)
            }
            Access::Rate(_) | Access::RateOf(..) => parse_rate(text).map_err(error),
            Access::Time(_) => parse_time_ns(text).map_err(error),
            Access::Count(_) => parse_count(self.key, text, self.min, self.max),
            Access::Switch(_) => parse_bool(self.key, text).map(u64::from),
        }
    }

    fn check(&self, value: u64) -> Result<(), SettingError> {
        if !(self.min..=self.max).contains(&value) {
            let (value, min, max) = (self.show(value), self.show(self.min), self.show(self.max));
            let text = format_args!("'{value}' is not from {min} to {max}");
            return Err(SettingError::value(self.key, text));
        }
        if matches!(self.access, Access::Block(_)) && !value.is_power_of_two() {
            let text = format_args!("'{}' is no power of two", self.show(value));
            return Err(SettingError::value(self.key, text));
        }
        Ok(())
    }

    fn set(&self, params: &mut P, text: &str) -> Result<(), SettingError> {
        let value = self.parse(text)?;
        self.check(value)?;
        match self.access {
            Access::Size(field) | Access::Rate(field) => *field(params) = value,
            Access::SmallSize(field) | Access::Block(field) | Access::Count(field) => {
                *field(params) = u32::try_from(value).expect("the bound fits 32 bits");
            }
            Access::RateOf(_, set) => set(params, value),
            Access::Time(field) => *field(params) = Duration::from_ns(value),
            Access::Switch(field) => *field(params) = value == 1,
        }
        Ok(())
    }
}

/// Parameters that have a table.
pub(crate) trait Tabled: Copy + Sized + 'static {
    /// All of them, in the order in which people are shown them.
    const TABLE: &'static [Param<Self>];

    /// What must hold between parameters that are each within their bounds.
    fn check_together(&self) -> Result<(), SettingError>;

    fn set(&mut self, key: &str, text: &str) -> Result<(), SettingError> {
        match Self::TABLE.iter().find(|param| param.key == key) {
            Some(param) => param.set(self, text),
            None => Err(SettingError::unknown(
                key,
                Self::TABLE.iter().map(|param| param.key),
            )),
        }
    }

    fn fields(&self) -> Vec<Field> {
        let field = |param: &Param<Self>| Field {
            key: param.key,
            value: param.show(param.value(self)),
            meaning: param.meaning,
            unit: param.unit(),
        };
        Self::TABLE.iter().map(field).collect()
    }

    fn check(&self) -> Result<(), SettingError> {
        for param in Self::TABLE {
            param.check(param.value(self))?;
        }
        self.check_together()
    }
}

/// Refuses a size that is no whole number of blocks.
pub(crate) fn check_size(size_bytes: u64, logical_block_bytes: u32) -> Result<(), SettingError> {
    if size_bytes.is_multiple_of(u64::from(logical_block_bytes)) {
        return Ok(());
    }
    let text = format_args!(
        "'{}' is no whole number of blocks of {logical_block_bytes} bytes",
        exact_size(size_bytes)
    );
    Err(SettingError::value("size", text))
}

/// Refuses a cap on one direction that lies above what carries both.
pub(crate) fn check_cap(
    key: &str,
    cap_bytes_per_s: u64,
    carrier: &str,
    carried_bytes_per_s: u64,
) -> Result<(), SettingError> {
    if cap_bytes_per_s <= carried_bytes_per_s {
        return Ok(());
    }
    let text = format_args!(
        "'{}' is more than {carrier} = {} carries: raise that too",
        exact_rate(cap_bytes_per_s),
        exact_rate(carried_bytes_per_s)
    );
    Err(SettingError::value(key, text))
}

impl ModelParams {
    /// A device of a family with neutral figures, to be made into any device by
    /// [`ModelParams::set`]; `None` where [`FAMILIES`] does not have the name.
    #[must_use]
    pub fn of_family(family: &str) -> Option<Self> {
        match family {
            "hdd" => Some(Self::Hdd(HddParams::NEUTRAL)),
            "flash" => Some(Self::Flash(FlashParams::NEUTRAL)),
            "network" => Some(Self::Network(NetworkDiskParams::NEUTRAL)),
            "ram" => Some(Self::Ram(RamParams::NEUTRAL)),
            _ => None,
        }
    }

    /// Which of [`FAMILIES`] it is.
    #[must_use]
    pub const fn family(&self) -> &'static str {
        match self {
            Self::Hdd(_) => "hdd",
            Self::Flash(_) => "flash",
            Self::Network(_) => "network",
            Self::Ram(_) => "ram",
        }
    }

    /// Sets the parameter `key` from text: what a leg's table in a scenario overrides. A value that
    /// no device of the family can have is refused here, values that do not go together by
    /// [`ModelParams::check`], after all are set.
    ///
    /// # Errors
    /// Where this family has no such parameter or the value makes no sense.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), SettingError> {
        match self {
            Self::Hdd(params) => params.set(key, text),
            Self::Flash(params) => params.set(key, text),
            Self::Network(params) => params.set(key, text),
            Self::Ram(params) => params.set(key, text),
        }
    }

    /// All parameters by name, with their values as text that [`ModelParams::set`] takes back.
    #[must_use]
    pub fn fields(&self) -> Vec<Field> {
        match self {
            Self::Hdd(params) => params.fields(),
            Self::Flash(params) => params.fields(),
            Self::Network(params) => params.fields(),
            Self::Ram(params) => params.fields(),
        }
    }

    /// Whether there can be such a device: what passes can be built, and driven for years.
    ///
    /// # Errors
    /// The first parameter that makes no sense, by itself or beside others.
    pub fn check(&self) -> Result<(), SettingError> {
        match self {
            Self::Hdd(params) => params.check(),
            Self::Flash(params) => params.check(),
            Self::Network(params) => params.check(),
            Self::Ram(params) => params.check(),
        }
    }
}

#[cfg(test)]
mod tests;
