//! The keys of a job, as scenario files and fio's job files write them.

use heliostat_types::Duration;
use stdx::settings::{SettingError, parse_bool, parse_count};
use stdx::units::{parse_rate, parse_size, parse_time_ns};

use super::{FromMeasuring, Job, Kind, Rw};
use crate::arrival::Arrival;
use crate::sizes::{parse_split, split_directions};
use crate::spread::Distribution;
use crate::trace::{TraceFormat, TraceTime};

/// The keys that [`Job::set`] knows.
pub const KEYS: &[&str] = &[
    "name",
    "kind",
    "rw",
    "bs",
    "bssplit",
    "iodepth",
    "iodepth_batch_complete_min",
    "numjobs",
    "direct",
    "readahead",
    "readahead_request",
    "shared_cache",
    "dirty_limit",
    "offset",
    "size",
    "offset_increment",
    "loops",
    "rwmixread",
    "rwmixwrite",
    "rate_iops",
    "rate",
    "weight",
    "iops",
    "bandwidth",
    "arrival",
    "thinktime",
    "thinktime_blocks",
    "random_distribution",
    "fsync",
    "fdatasync",
    "background",
    "leg",
    "start",
    "stop",
    "trace",
    "trace_format",
    "trace_speed",
    "trace_volume",
    "trace_time",
];

/// The largest weight, as of volumes.
const WEIGHT_MAX: u32 = 100;

impl Job {
    /// Sets what the key `key` of a scenario's `[[job]]`, or of a section of a fio job file, says.
    /// Numbers and truth values come as text, as they would stand in a job file.
    ///
    /// # Errors
    /// Where there is no such key or the value makes no sense.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        let value = value.trim();
        let wrong = |text: String| SettingError::value(key, text);
        let size = || parse_size(value).map_err(|error| SettingError::value(key, error));
        let count = |min, max: u32| -> Result<u32, SettingError> {
            let count = parse_count(key, value, min, u64::from(max))?;
            Ok(u32::try_from(count).expect("within the bounds just checked"))
        };
        match key {
            "name" => value.clone_into(&mut self.name),
            "kind" => self.kind = Kind::parse(value).map_err(wrong)?,
            "rw" => self.rw = Rw::parse(value).map_err(wrong)?,
            "bs" => self.set_bs(key, value)?,
            "bssplit" => self.set_bssplit(value).map_err(wrong)?,
            "iodepth" => self.iodepth = count(1, 65_536)?,
            "iodepth_batch_complete_min" => {
                self.iodepth_batch_complete_min = count(1, 65_536)?;
            }
            "numjobs" => self.numjobs = count(1, 4_096)?,
            "direct" => self.direct = parse_bool(key, value)?,
            "readahead" => self.readahead_bytes = size()?,
            "readahead_request" => self.readahead_request_bytes = size()?,
            "shared_cache" => self.shared_cache = parse_bool(key, value)?,
            "dirty_limit" => self.dirty_limit_bytes = size()?,
            "offset" => (self.offset_bytes, self.offset_percent) = size_or_percent(key, value)?,
            "size" => (self.size_bytes, self.size_percent) = size_or_percent(key, value)?,
            "offset_increment" => self.offset_increment_bytes = size()?,
            "loops" => self.loops = count(1, u32::MAX)?,
            "rwmixread" => self.rwmixread = count(0, 100)?,
            "rwmixwrite" => self.rwmixread = 100 - count(0, 100)?,
            "rate_iops" => set_rates(&mut self.rate_iops, value, |part| {
                parse_count(key, part, 0, 1_000_000_000)
            })?,
            "rate" => set_rates(&mut self.rate_bytes, value, |part| {
                parse_bandwidth(key, part)
            })?,
            "weight" => self.weight = count(1, WEIGHT_MAX)?,
            "iops" => self.iops_max = parse_count(key, value, 0, 1_000_000_000)?,
            "bandwidth" => self.bytes_per_s_max = parse_bandwidth(key, value)?,
            "arrival" => self.arrival = Arrival::parse(value).map_err(wrong)?,
            "thinktime" => self.thinktime = parse_thinktime(key, value)?,
            "thinktime_blocks" => self.thinktime_blocks = count(1, u32::MAX)?,
            "random_distribution" => {
                self.random_distribution = Distribution::parse(value).map_err(wrong)?;
            }
            "fsync" | "fdatasync" => self.fsync = count(0, u32::MAX)?,
            "background" => self.background = parse_bool(key, value)?,
            "leg" if value == "-1" => self.leg = None,
            "leg" => {
                let leg = parse_leg(value).ok_or_else(|| {
                    wrong(format!("'{value}' is no leg: they count from 0; -1: none"))
                })?;
                self.leg = Some(leg);
            }
            "start" => self.start = Some(parse_moment(key, value)?),
            // 0 is the end, as in the contract.
            "stop" => self.stop = Some(parse_moment(key, value)?).filter(|stop| stop.0 != 0),
            "trace" => self.trace = Some(value.to_owned()).filter(|name| !name.is_empty()),
            "trace_format" => self.trace_format = TraceFormat::parse(value).map_err(wrong)?,
            "trace_speed" => self.trace_speed = parse_speed(value).map_err(wrong)?,
            "trace_volume" if value == "-1" => self.trace_volume = None,
            "trace_volume" => self.trace_volume = Some(parse_count(key, value, 0, u64::MAX)?),
            "trace_time" => self.trace_time = TraceTime::parse(value).map_err(wrong)?,
            _ => return Err(SettingError::unknown(key, KEYS.iter().copied())),
        }
        Ok(())
    }

    /// `4k`, or `4k,64k` for reads and writes.
    fn set_bs(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        /// fio's.
        const DEFAULT_BYTES: u64 = 4096;
        let parts = split_directions(value).map_err(|text| SettingError::value(key, text))?;
        let size = |part: Option<&str>| match part {
            None => Ok(DEFAULT_BYTES),
            Some(text) => parse_size(text).map_err(|error| SettingError::value(key, error)),
        };
        if parts == [None, None] {
            size(Some(value))?;
        }
        self.bs_bytes = size(parts[0])?;
        let write_bytes = size(parts[1])?;
        self.bs_write_bytes = (write_bytes != self.bs_bytes).then_some(write_bytes);
        Ok(())
    }

    fn set_bssplit(&mut self, value: &str) -> Result<(), String> {
        let parts = split_directions(value)?;
        if parts == [None, None] {
            return Err("it names no size; as in 4k/60:64k/40".to_owned());
        }
        for (split, part) in self.bssplit.iter_mut().zip(parts) {
            *split = part.map_or(Ok(Vec::new()), parse_split)?;
        }
        Ok(())
    }
}

/// Sets the limits of reads and writes: `100`, or `100,50`; an empty part is no limit.
fn set_rates(
    rates: &mut [u64; 2],
    value: &str,
    parse: impl Fn(&str) -> Result<u64, SettingError>,
) -> Result<(), SettingError> {
    let parts = match split_directions(value) {
        Ok(parts) if parts != [None, None] => parts,
        // The parser of one number says what is wrong with the text.
        _ => [Some(value); 2],
    };
    for (rate, part) in rates.iter_mut().zip(parts) {
        *rate = part.map_or(Ok(0), &parse)?;
    }
    Ok(())
}

/// Bytes per second, with `/s` or without.
fn parse_bandwidth(key: &str, value: &str) -> Result<u64, SettingError> {
    let rate = parse_rate(value).or_else(|_| parse_size(value));
    rate.map_err(|error| SettingError::value(key, error))
}

/// Bytes and percent, one of which is 0.
fn size_or_percent(key: &str, value: &str) -> Result<(u64, u32), SettingError> {
    let Some(number) = value.strip_suffix('%') else {
        let bytes = parse_size(value).map_err(|error| SettingError::value(key, error))?;
        return Ok((bytes, 0));
    };
    let percent = parse_count(key, number.trim(), 0, 100)?;
    Ok((0, u32::try_from(percent).expect("at most 100")))
}

/// A length of time; a number alone is of microseconds, as in fio.
fn parse_thinktime(key: &str, value: &str) -> Result<Duration, SettingError> {
    if let Ok(us) = value.parse() {
        return Ok(Duration::from_us(us));
    }
    let ns = parse_time_ns(value).map_err(|error| SettingError::value(key, error))?;
    Ok(Duration::from_ns(ns))
}

/// A moment that counts from the start of measuring: `5s`, `-10s`.
fn parse_moment(key: &str, value: &str) -> Result<FromMeasuring, SettingError> {
    let (sign, length) = match value.strip_prefix('-') {
        Some(length) => (-1, length),
        None => (1, value.strip_prefix('+').unwrap_or(value)),
    };
    let ns = match length {
        // Nothing is nothing in every unit.
        "0" => 0,
        _ => parse_time_ns(length).map_err(|error| SettingError::value(key, error))?,
    };
    let ns = i64::try_from(ns)
        .map_err(|_| SettingError::value(key, format_args!("'{value}' is above 292 years")))?;
    Ok(FromMeasuring(sign * ns))
}

fn parse_leg(value: &str) -> Option<usize> {
    let leg = value.parse().ok()?;
    (leg < heliostat_types::LEGS_MAX).then_some(leg)
}

fn parse_speed(value: &str) -> Result<f64, String> {
    let speed: Option<f64> = value.parse().ok();
    speed
        .filter(|speed| (1e-6..=1e6).contains(speed))
        .ok_or_else(|| format!("'{value}' is not a factor from 0.000001 to 1000000"))
}

impl Kind {
    fn parse(word: &str) -> Result<Self, String> {
        match word {
            "fio" => Ok(Self::Fio),
            "defrag" => Ok(Self::Defrag),
            _ => Err(format!("'{word}' is neither fio nor defrag")),
        }
    }
}

impl Rw {
    /// The words of fio's that name it.
    const WORDS: [(&str, Self); 8] = [
        ("read", Self::Read),
        ("write", Self::Write),
        ("randread", Self::RandRead),
        ("randwrite", Self::RandWrite),
        ("randrw", Self::RandRw),
        ("rw", Self::Rw),
        ("readwrite", Self::Rw),
        ("randreadwrite", Self::RandRw),
    ];

    /// The first word that means it.
    pub(super) fn word(self) -> &'static str {
        let mut words = Self::WORDS.iter();
        let (word, _) = words.find(|(_, rw)| *rw == self).expect("each has a word");
        word
    }

    fn parse(word: &str) -> Result<Self, String> {
        let mut words = Self::WORDS.iter();
        if let Some((_, rw)) = words.find(|(known, _)| *known == word) {
            return Ok(*rw);
        }
        let words = Self::WORDS[..6].iter().map(|(word, _)| *word);
        let words: Vec<&str> = words.collect();
        let words = words.join(", ");
        Err(match word {
            "trim" | "randtrim" | "trimwrite" | "randtrimwrite" => {
                format!("'{word}' is not simulated; {words} are")
            }
            _ => format!("'{word}' is none of {words}"),
        })
    }
}
