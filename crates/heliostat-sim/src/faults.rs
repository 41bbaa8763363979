//! The faults of a scenario as its tables say them: what goes wrong, with which leg, when, how
//! often and where. Plain data; docs/faults.md says what each key means.

mod settings;

use std::fmt;

use heliostat_engine::LegFlags;
use heliostat_model::{ErrorRule, FailedKind, FaultEffect, FaultRule, Pauses};
use heliostat_types::{Duration, Extent, Instant, LEGS_MAX, SECTOR_BYTES};
use stdx::settings::{SettingError, parse_bool, parse_count};
use stdx::units::{parse_size, parse_time_ns};

/// A fault of one leg, or of the whole machine. Times count from the start of measuring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which leg, from 0; `None` for what hits the whole machine, and only for that.
    pub leg: Option<usize>,
    /// When it begins, in ns; below zero: during the warm-up.
    pub at_ns: i64,
    /// When it is over; [`Fault::NEVER_NS`] where nothing was said, which is 5 s after `at_ns` for
    /// a power cut and never for everything else.
    pub until_ns: i64,
    /// What goes wrong; a fault without is refused.
    pub effect: Option<Effect>,
    /// [`Effect::Pause`]: from the beginning of one to that of the next.
    pub every: Option<Duration>,
    /// [`Effect::Pause`]: by how much each may be late.
    pub jitter: Option<Duration>,
    /// [`Effect::Stuck`]: whether the device goes on unheard, and tells all at once afterwards.
    pub burst: bool,
    /// How often at most, where it hits single operations or sectors.
    pub count: Option<u64>,
    /// With which probability, in 10^-9, where it hits single operations.
    pub rate_per_billion: Option<u64>,
    /// The first byte of the leg that it is about.
    pub offset_bytes: Option<u64>,
    /// How many bytes from there on.
    pub size_bytes: Option<u64>,
    /// [`Effect::Error`]: what could not be read once cannot be read until it is written.
    pub sticky: bool,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Service times are this many thousandths of what they are.
    Slow(u64),
    /// Now and then the device stands still for so long.
    Pause(Duration),
    /// Nothing ends.
    Stuck,
    /// Operations end with an error.
    Error(FailedKind),
    /// The device is gone.
    Dead,
    /// Writes are answered and do not land.
    LostWrite,
    /// Writes are answered and land in part, in units of so many bytes.
    TornWrite(u64),
    /// Writes are answered and land elsewhere on the leg.
    MisdirectedWrite,
    /// Sectors change by themselves.
    BitRot,
    /// Flushes are answered at once and make nothing durable.
    FlushLies,
    /// The machine loses its power.
    PowerCut,
    /// Somebody takes the leg out.
    Failed,
    /// Somebody adds the leg again, as soon as it is out, there, and can be added: with what it
    /// has, of which it gets what the bitmap says, or as a new one.
    Added {
        /// As a new one.
        is_new: bool,
    },
    /// Somebody has the leg, while it serves, replaced by a device that is none.
    Replaced,
    /// Somebody says this of the leg from now on, as soon as it can be said.
    Told(LegFlags),
    /// Somebody has the legs compared.
    Scrub {
        /// And made equal.
        repair: bool,
    },
}

impl Effect {
    /// The key that says it.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Slow(_) => "slow",
            Self::Pause(_) => "pause",
            Self::Stuck => "stuck",
            Self::Error(_) => "error",
            Self::Dead => "dead",
            Self::LostWrite => "lost_write",
            Self::TornWrite(_) => "torn_write",
            Self::MisdirectedWrite => "misdirected_write",
            Self::BitRot => "bit_rot",
            Self::FlushLies => "flush_lies",
            Self::PowerCut => "power_cut",
            Self::Failed => "failed",
            Self::Added { .. } => "added",
            Self::Replaced => "replaced",
            Self::Told(_) => "told",
            Self::Scrub { .. } => "scrub",
        }
    }

    /// Whether it is about no leg, but about all of the machine.
    const fn is_of_machine(self) -> bool {
        matches!(self, Self::PowerCut | Self::Scrub { .. })
    }

    /// Whether it is known of arrays with metadata alone.
    pub(crate) const fn needs_metadata(self) -> bool {
        matches!(
            self,
            Self::Failed | Self::Added { .. } | Self::Replaced | Self::Told(_) | Self::Scrub { .. }
        )
    }

    /// Whether it hits single operations or sectors, so that they can be counted.
    const fn is_counted(self) -> bool {
        match self {
            Self::Slow(_)
            | Self::Pause(_)
            | Self::Stuck
            | Self::Dead
            | Self::PowerCut
            | Self::Failed
            | Self::Added { .. }
            | Self::Replaced
            | Self::Told(_)
            | Self::Scrub { .. } => false,
            Self::Error(_)
            | Self::LostWrite
            | Self::TornWrite(_)
            | Self::MisdirectedWrite
            | Self::BitRot
            | Self::FlushLies => true,
        }
    }

    /// Whether it is about bytes, so that they can be limited to a range.
    const fn has_range(self) -> bool {
        self.is_counted() && !matches!(self, Self::FlushLies)
    }
}

/// The keys that [`Fault::set`] knows: what goes wrong,
const EFFECT_KEYS: [&str; 16] = [
    "slow",
    "pause",
    "stuck",
    "error",
    "dead",
    "lost_write",
    "torn_write",
    "misdirected_write",
    "bit_rot",
    "flush_lies",
    "power_cut",
    "failed",
    "added",
    "replaced",
    "told",
    "scrub",
];

/// and what is said of it.
const OTHER_KEYS: [&str; 11] = [
    "leg", "at", "until", "every", "jitter", "burst", "count", "rate", "offset", "size", "sticky",
];

/// How long the machine is off where nothing else is said.
const POWER_CUT_DEFAULT_NS: i64 = 5_000_000_000;

impl Default for Fault {
    /// What a `[[fault]]` without keys says.
    fn default() -> Self {
        Self {
            leg: None,
            at_ns: 0,
            until_ns: Self::NEVER_NS,
            effect: None,
            every: None,
            jitter: None,
            burst: false,
            count: None,
            rate_per_billion: None,
            offset_bytes: None,
            size_bytes: None,
            sticky: false,
        }
    }
}

impl Fault {
    /// A fault without an end.
    pub const NEVER_NS: i64 = i64::MAX;

    /// What goes wrong with a leg, from the start of measuring on.
    #[must_use]
    pub fn new(leg: usize, effect: Effect) -> Self {
        Self {
            leg: Some(leg),
            effect: Some(effect),
            ..Self::default()
        }
    }

    /// The same between two moments of the measured time.
    #[must_use]
    pub fn between(mut self, at: Duration, until: Duration) -> Self {
        let ns = |length: Duration| i64::try_from(length.as_ns()).unwrap_or(Self::NEVER_NS);
        self.at_ns = ns(at);
        self.until_ns = ns(until);
        self
    }

    /// Sets what the key `key` of a scenario's `[[fault]]` says. Numbers and truth values come as
    /// text.
    ///
    /// # Errors
    /// Where there is no such key, the value makes no sense, or the fault has another effect
    /// already.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        match key {
            "leg" => {
                let leg = parse_count(key, value, 0, LEGS_MAX as u64 - 1)?;
                self.leg = Some(usize::try_from(leg).expect("a leg's number is small"));
            }
            "at" => self.at_ns = parse_moment(key, value)?,
            "until" => self.until_ns = parse_moment(key, value)?,
            "every" => self.every = Some(parse_time(key, value)?),
            "jitter" => self.jitter = Some(parse_time(key, value)?),
            "burst" => self.burst = parse_bool(key, value)?,
            "count" => self.count = Some(parse_count(key, value, 1, u64::MAX - 1)?),
            "rate" => self.rate_per_billion = Some(parse_rate(key, value)?),
            "offset" => self.offset_bytes = Some(parse_bytes(key, value)?),
            "size" => self.size_bytes = Some(parse_bytes(key, value)?),
            "sticky" => self.sticky = parse_bool(key, value)?,
            _ => return self.set_effect(key, value),
        }
        Ok(())
    }

    fn set_effect(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        let flag = |effect| Ok(parse_bool(key, value)?.then_some(effect));
        let effect = match key {
            "slow" => Some(Effect::Slow(parse_factor(key, value)?)),
            "pause" => Some(Effect::Pause(parse_time(key, value)?)),
            "stuck" => flag(Effect::Stuck)?,
            "error" => Some(Effect::Error(
                if is_second(key, value, ["read", "write"])? {
                    FailedKind::Write
                } else {
                    FailedKind::Read
                },
            )),
            "dead" => flag(Effect::Dead)?,
            "lost_write" => flag(Effect::LostWrite)?,
            "torn_write" => {
                let size = parse_size(value).ok();
                let unit = size.filter(|size| [512, 4096].contains(size));
                let text = format_args!("'{value}' is neither 512 nor 4KiB");
                let unit = unit.ok_or_else(|| SettingError::value(key, text))?;
                Some(Effect::TornWrite(unit))
            }
            "misdirected_write" => flag(Effect::MisdirectedWrite)?,
            "bit_rot" => flag(Effect::BitRot)?,
            "flush_lies" => flag(Effect::FlushLies)?,
            "power_cut" => flag(Effect::PowerCut)?,
            "failed" => flag(Effect::Failed)?,
            "replaced" => flag(Effect::Replaced)?,
            "added" => Some(Effect::Added {
                is_new: is_second(key, value, ["bits", "whole"])?,
            }),
            "told" => Some(Effect::Told(parse_flags(key, value)?)),
            "scrub" => Some(Effect::Scrub {
                repair: is_second(key, value, ["check", "repair"])?,
            }),
            _ => {
                return Err(SettingError::unknown(
                    key,
                    OTHER_KEYS.into_iter().chain(EFFECT_KEYS),
                ));
            }
        };
        match (self.effect, effect) {
            (Some(other), Some(_)) => {
                let text = format_args!(
                    "this fault has {} already; a second effect is a [[fault]] of its own",
                    other.key()
                );
                Err(SettingError::value(key, text))
            }
            (None, Some(_)) => {
                self.effect = effect;
                Ok(())
            }
            (_, None) => Ok(()),
        }
    }

    /// Whether it makes sense for an array whose legs have these sizes.
    ///
    /// # Errors
    /// Says the first thing that is wrong, and with which key.
    pub(crate) fn check(&self, leg_bytes: &[u64]) -> Result<(), String> {
        let Some(effect) = self.effect else {
            return Err(format!(
                "it says not what goes wrong: {}",
                EFFECT_KEYS.join(", ")
            ));
        };
        if self.until_ns < self.at_ns {
            return Err("until is before at".to_owned());
        }
        self.check_fit(effect)?;
        let size_bytes = match (self.leg, effect) {
            (None, effect) if effect.is_of_machine() => return Ok(()),
            (Some(_), Effect::PowerCut) => {
                return Err("leg: a power cut hits the whole machine; leave leg out".to_owned());
            }
            (Some(_), effect) if effect.is_of_machine() => {
                return Err(format!(
                    "leg: {} is about all legs; leave leg out",
                    effect.key()
                ));
            }
            (None, _) => return Err("leg is missing: which one, from 0".to_owned()),
            (Some(leg), _) => *leg_bytes.get(leg).ok_or_else(|| {
                let last = leg_bytes.len() - 1;
                format!("leg: there is no leg {leg}; legs count from 0, the last one is {last}")
            })?,
        };
        if let Effect::Pause(length) = effect {
            self.check_pauses(length)?;
        }
        let offset_bytes = self.offset_bytes.unwrap_or(0);
        if offset_bytes >= size_bytes {
            return Err(format!("offset: the leg ends at byte {size_bytes}"));
        }
        if self
            .size_bytes
            .is_some_and(|size| size > size_bytes - offset_bytes)
        {
            return Err(format!("size: the leg ends at byte {size_bytes}"));
        }
        Ok(())
    }

    /// Whether every key that was said belongs to the effect.
    fn check_fit(&self, effect: Effect) -> Result<(), String> {
        let is_pause = matches!(effect, Effect::Pause(_));
        let is_read_error = effect == Effect::Error(FailedKind::Read);
        let keys = [
            ("every", self.every.is_some(), is_pause),
            ("jitter", self.jitter.is_some(), is_pause),
            ("burst", self.burst, effect == Effect::Stuck),
            ("sticky", self.sticky, is_read_error),
            ("count", self.count.is_some(), effect.is_counted()),
            ("rate", self.rate_per_billion.is_some(), effect.is_counted()),
            ("offset", self.offset_bytes.is_some(), effect.has_range()),
            ("size", self.size_bytes.is_some(), effect.has_range()),
        ];
        match keys.iter().find(|(_, is_said, fits)| *is_said && !fits) {
            Some((key, ..)) => Err(format!("{key} says nothing about {}", effect.key())),
            None => Ok(()),
        }
    }

    fn check_pauses(&self, length: Duration) -> Result<(), String> {
        let Some(every) = self.every else {
            return Err("every is missing: how often there is a pause".to_owned());
        };
        if length == Duration::ZERO {
            return Err("pause: it takes no time".to_owned());
        }
        if length + self.jitter.unwrap_or_default() > every {
            return Err("every: the next pause begins before the last has ended".to_owned());
        }
        Ok(())
    }

    /// From when to when it lasts where measuring begins at `begins_at`.
    pub(crate) fn period(&self, begins_at: Instant) -> (Instant, Instant) {
        let moment = |ns: i64| match u64::try_from(ns) {
            Ok(_) if ns == Self::NEVER_NS => Instant::MAX,
            Ok(ns) => begins_at + Duration::from_ns(ns),
            Err(_) => {
                let before_ns = begins_at.as_ns().saturating_sub(ns.unsigned_abs());
                Instant::from_ns(before_ns)
            }
        };
        let until_ns = match (self.until_ns, self.effect) {
            (Self::NEVER_NS, Some(Effect::PowerCut)) => {
                self.at_ns.saturating_add(POWER_CUT_DEFAULT_NS)
            }
            (until_ns, _) => until_ns,
        };
        (moment(self.at_ns), moment(until_ns))
    }

    /// The bytes that it is about, on a leg of `leg_bytes`.
    pub(crate) fn range(&self, leg_bytes: u64) -> Extent {
        let offset_bytes = self.offset_bytes.unwrap_or(0);
        let rest = leg_bytes - offset_bytes;
        Extent::new(offset_bytes, self.size_bytes.unwrap_or(rest))
    }

    /// The rule for the model of its device; `None` where the device's time and answers are not
    /// what is wrong. Of a device that legs share, `partition` is the leg's part.
    pub(crate) fn rule(&self, begins_at: Instant, partition: Option<Extent>) -> Option<FaultRule> {
        let effect = match self.effect? {
            Effect::Slow(permille) => FaultEffect::SlowPermille(permille),
            Effect::Pause(length) => FaultEffect::Pause(Pauses {
                length,
                every: self.every?,
                jitter: self.jitter.unwrap_or_default(),
            }),
            Effect::Stuck if self.burst => FaultEffect::Burst,
            Effect::Stuck => FaultEffect::Stuck,
            Effect::Error(kind) => {
                let mut rule = ErrorRule::all(kind);
                let is_everywhere = self.offset_bytes.is_none() && self.size_bytes.is_none();
                if partition.is_some() || !is_everywhere {
                    let within = partition.unwrap_or(ErrorRule::EVERYWHERE);
                    let range = self.range(within.len());
                    rule.range = Extent::new(within.offset() + range.offset(), range.len());
                }
                rule.count = self.count.unwrap_or(u64::MAX);
                rule.rate_per_billion = self.rate();
                rule.sticky = self.sticky;
                FaultEffect::Error(rule)
            }
            Effect::Dead => FaultEffect::Dead,
            Effect::LostWrite
            | Effect::TornWrite(_)
            | Effect::MisdirectedWrite
            | Effect::BitRot
            | Effect::FlushLies
            | Effect::PowerCut
            | Effect::Failed
            | Effect::Added { .. }
            | Effect::Replaced
            | Effect::Told(_)
            | Effect::Scrub { .. } => return None,
        };
        let (at, until) = self.period(begins_at);
        Some(FaultRule { at, until, effect })
    }

    /// With which probability it hits what it may hit, in 10^-9.
    pub(crate) fn rate(&self) -> u64 {
        self.rate_per_billion
            .unwrap_or(ErrorRule::ALWAYS_PER_BILLION)
    }

    /// Whether operations end with an error under it.
    pub(crate) const fn fails_operations(&self) -> bool {
        matches!(self.effect, Some(Effect::Error(_) | Effect::Dead))
    }
}

impl fmt::Display for Fault {
    /// `leg 1 takes 10 times as long, from 20 s to 40 s`; what is said of it besides, as keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.leg {
            Some(leg) => write!(f, "leg {leg} ")?,
            None if self.effect == Some(Effect::PowerCut) => f.write_str("the machine ")?,
            None => {}
        }
        match self.effect {
            None => f.write_str("has no fault")?,
            Some(effect) => effect.fmt(f)?,
        }
        if let Some(every) = self.every {
            write!(f, " every {}", Seconds(every.as_secs_f64()))?;
        }
        if let Some(jitter) = self.jitter {
            write!(f, ", up to {} late", Seconds(jitter.as_secs_f64()))?;
        }
        if self.burst {
            f.write_str(", then all at once")?;
        }
        if let Some(rate) = self.rate_per_billion {
            write!(f, ", with probability {}", rate as f64 / 1e9)?;
        }
        if let Some(count) = self.count {
            write!(f, ", at most {count} times")?;
        }
        if let Some(offset_bytes) = self.offset_bytes {
            write!(f, ", from byte {offset_bytes} on")?;
        }
        if let Some(size_bytes) = self.size_bytes {
            write!(f, ", {size_bytes} bytes")?;
        }
        if self.sticky {
            f.write_str(", until they are written")?;
        }
        write!(f, ", from {}", Seconds(self.at_ns as f64 / 1e9))?;
        match self.until_ns {
            Self::NEVER_NS => f.write_str(" on"),
            until_ns => write!(f, " to {}", Seconds(until_ns as f64 / 1e9)),
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Slow(permille) => {
                return write!(f, "takes {} times as long", *permille as f64 / 1000.0);
            }
            Self::Pause(length) => {
                return write!(f, "stands still for {}", Seconds(length.as_secs_f64()));
            }
            Self::TornWrite(unit) => return write!(f, "tears writes into units of {unit} bytes"),
            Self::Stuck => "ends nothing",
            Self::Error(FailedKind::Read) => "fails reads",
            Self::Error(FailedKind::Write) => "fails writes",
            Self::Dead => "is gone",
            Self::LostWrite => "loses writes",
            Self::MisdirectedWrite => "misdirects writes",
            Self::BitRot => "rots",
            Self::FlushLies => "lies about flushes",
            Self::PowerCut => "has no power",
            Self::Failed => "is taken out",
            Self::Added { is_new: false } => "is added again",
            Self::Added { is_new: true } => "is added as a new one",
            Self::Replaced => "is replaced by another one",
            Self::Told(flags) => return write!(f, "is told '{}'", flags_text(*flags)),
            Self::Scrub { repair: false } => "legs are compared",
            Self::Scrub { repair: true } => "legs are compared and made equal",
        })
    }
}

/// A length of time for people: `20 s`, `0.04 s`.
struct Seconds(f64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:.3}", self.0);
        write!(f, "{} s", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// Whether a value is the second of two words, and not the first.
fn is_second(key: &str, value: &str, words: [&str; 2]) -> Result<bool, SettingError> {
    let [first, second] = words;
    if value != first && value != second {
        let text = format_args!("'{value}' is neither {first} nor {second}");
        return Err(SettingError::value(key, text));
    }
    Ok(value == second)
}

/// What can be said of a leg.
const FLAGS: [(&str, LegFlags); 4] = [
    ("nothing", flags(false, false)),
    ("write_mostly", flags(true, false)),
    ("failfast", flags(false, true)),
    ("write_mostly, failfast", flags(true, true)),
];

const fn flags(write_mostly: bool, failfast: bool) -> LegFlags {
    LegFlags {
        write_mostly,
        failfast,
    }
}

fn parse_flags(key: &str, value: &str) -> Result<LegFlags, SettingError> {
    let found = FLAGS.into_iter().find(|(text, _)| *text == value);
    let error = || {
        let texts = FLAGS.map(|(text, _)| format!("'{text}'")).join(", ");
        SettingError::value(key, format_args!("'{value}' is none of {texts}"))
    };
    found.map(|(_, flags)| flags).ok_or_else(error)
}

fn flags_text(flags: LegFlags) -> &'static str {
    let mut known = FLAGS.into_iter();
    let found = known.find(|(_, known)| *known == flags);
    found.expect("these are all").0
}

fn parse_time(key: &str, value: &str) -> Result<Duration, SettingError> {
    let ns = parse_time_ns(value).map_err(|error| SettingError::value(key, error))?;
    Ok(Duration::from_ns(ns))
}

/// A moment from the start of measuring; before it where there is a minus in front.
fn parse_moment(key: &str, value: &str) -> Result<i64, SettingError> {
    let (length, is_before) = match value.strip_prefix('-') {
        Some(length) => (length, true),
        None => (value, false),
    };
    let ns = parse_time_ns(length).map_err(|error| SettingError::value(key, error))?;
    let ns = i64::try_from(ns).ok().filter(|ns| *ns < Fault::NEVER_NS);
    let ns = ns.ok_or_else(|| SettingError::value(key, "292 years and more are too long"))?;
    Ok(if is_before { -ns } else { ns })
}

/// A factor in thousandths.
fn parse_factor(key: &str, value: &str) -> Result<u64, SettingError> {
    let factor = value.parse::<f64>().ok();
    let factor = factor.filter(|factor| (0.001..=1e6).contains(factor));
    let factor = factor.ok_or_else(|| {
        let text = format_args!("'{value}' is not a factor from 0.001 to 1000000");
        SettingError::value(key, text)
    })?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 1 to 10^9 after the check above"
    )]
    Ok((factor * 1000.0 + 0.5) as u64)
}

/// A probability in 10^-9.
fn parse_rate(key: &str, value: &str) -> Result<u64, SettingError> {
    let rate = value.parse::<f64>().ok();
    let rate = rate.filter(|rate| (1e-9..=1.0).contains(rate));
    let rate = rate.ok_or_else(|| {
        let text = format_args!("'{value}' is not a probability above 0, at most 1");
        SettingError::value(key, text)
    })?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 1 to 10^9 after the check above"
    )]
    Ok((rate * 1e9 + 0.5) as u64)
}

/// Bytes of a range: whole sectors.
fn parse_bytes(key: &str, value: &str) -> Result<u64, SettingError> {
    let bytes = parse_size(value).map_err(|error| SettingError::value(key, error))?;
    if !bytes.is_multiple_of(SECTOR_BYTES) {
        let text = format_args!("'{value}' is no multiple of 512 bytes");
        return Err(SettingError::value(key, text));
    }
    if key == "size" && bytes == 0 {
        return Err(SettingError::value(
            key,
            "no byte is left; leave it out for all",
        ));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
