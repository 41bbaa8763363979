//! A tunable with the values that are tried, and what people write to name them.

use heliostat_policy::{BareValue, PolicyError, PolicySpec, Tunable, TunableKind};
use thiserror::Error;

/// A tunable and the values to try, in ascending order, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Which tunable.
    pub tunable: &'static Tunable,
    /// Its values; at least one.
    pub values: Vec<u64>,
}

/// Why a text names no values of a tunable.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum AxisError {
    /// The policy has no such tunable, or refuses a value.
    #[error("{0}")]
    Policy(#[from] PolicyError),
    /// The text is not what it should be.
    #[error("'{text}': {reason}")]
    Text {
        /// What was written.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There is nothing to tune.
    #[error(
        "read policy '{policy}' has no tunables, so there is nothing to tune; `heliostat policies` \
         lists those of all policies"
    )]
    NoTunables {
        /// The policy.
        policy: &'static str,
    },
}

/// As many values a range has at most where nobody says how many: every whole number up to that.
const EVERY_MAX: u64 = 16;
/// Where there are more, a range has ten steps, which are round numbers where its ends are.
const STEPS: u64 = 11;
/// More values than this on one axis are a mistake.
const STEPS_MAX: u64 = 1_000;

/// A number with a default is tried at these multiples of it: two decades and a half.
const FACTORS: [(u64, u64); 7] = [(1, 8), (1, 4), (1, 2), (1, 1), (2, 1), (4, 1), (8, 1)];
/// Sizes span more: four decades.
const SIZE_FACTORS: [(u64, u64); 7] = [(1, 64), (1, 16), (1, 4), (1, 1), (4, 1), (16, 1), (64, 1)];
/// A number whose default is zero has no multiples: small ones, as penalties in operations are.
const FROM_ZERO: [u64; 5] = [0, 1, 2, 4, 8];
/// A number that cannot grow eight-fold is tried at so many places of equal distance.
const LINEAR: u64 = 7;

impl Axis {
    /// Reads `KEY=A,B,C` or `KEY=LOW..HIGH[:STEPS][:log]`, values of a tunable of `policy`.
    ///
    /// # Errors
    /// Where there is no such tunable, or it does not take a value, or the text says neither.
    pub fn parse(policy: &PolicySpec, text: &str) -> Result<Self, AxisError> {
        let wrong = |reason: &str| AxisError::Text {
            text: text.to_owned(),
            reason: reason.to_owned(),
        };
        let (key, values) = text
            .split_once('=')
            .ok_or_else(|| wrong("expected KEY=A,B,C or KEY=LOW..HIGH[:STEPS][:log]"))?;
        let (key, values) = (key.trim(), values.trim());
        // The error of a tunable that is not there is the policy's.
        policy.show(key)?;
        let mut tunables = policy.policy().tunables.iter();
        let tunable = tunables
            .find(|tunable| tunable.name == key)
            .expect("a policy shows no tunable that it does not have");
        let value = |text: &str| value_of(policy, tunable, text.trim());
        let mut values = match values.split_once("..") {
            None => values
                .split(',')
                .map(value)
                .collect::<Result<Vec<u64>, _>>()?,
            Some((low, rest)) => {
                let numbers = range(low, rest, tunable, &value).map_err(|error| match error {
                    RangeError::Policy(error) => error.into(),
                    RangeError::Text(reason) => wrong(&reason),
                })?;
                let texts = numbers.iter().map(u64::to_string);
                texts.map(|text| value(&text)).collect::<Result<_, _>>()?
            }
        };
        values.sort_unstable();
        values.dedup();
        Ok(Self { tunable, values })
    }

    /// Values worth trying where nobody names any: all of a flag or choice, every leg, and of a
    /// number those round `default`, which is always among them.
    #[must_use]
    pub fn sensible(tunable: &'static Tunable, default: u64, leg_count: usize) -> Self {
        let mut values: Vec<u64> = match tunable.kind {
            TunableKind::Flag => vec![0, 1],
            TunableKind::Choice(words) => (0..words.len() as u64).collect(),
            TunableKind::Devid => (1..=leg_count as u64).collect(),
            TunableKind::Number {
                min,
                max,
                multiple_of,
            } => numbers_around(default, (min, max), tunable.unit)
                .into_iter()
                .filter_map(|number| number.checked_next_multiple_of(multiple_of))
                .collect(),
        };
        values.push(default);
        values.sort_unstable();
        values.dedup();
        Self { tunable, values }
    }

    /// `value` as people write it.
    #[must_use]
    pub fn text(&self, value: u64) -> String {
        self.tunable.format(value)
    }
}

/// Reads all of `texts`, each an [`Axis`] of another tunable.
///
/// # Errors
/// As [`Axis::parse`], or where two are of the same tunable.
pub fn parse_axes(policy: &PolicySpec, texts: &[String]) -> Result<Vec<Axis>, AxisError> {
    let mut axes: Vec<Axis> = Vec::new();
    for text in texts {
        let axis = Axis::parse(policy, text)?;
        if axes.iter().any(|other| other.tunable == axis.tunable) {
            return Err(AxisError::Text {
                text: text.clone(),
                reason: format!("{} is swept twice", axis.tunable.name),
            });
        }
        axes.push(axis);
    }
    Ok(axes)
}

/// The axes of `policy` where nobody names any: all of its tunables but those that `text`, which
/// is the policy as it was asked for, gives a value.
///
/// # Errors
/// Where there are none.
pub fn axes_of(policy: &PolicySpec, text: &str, leg_count: usize) -> Result<Vec<Axis>, AxisError> {
    let info = policy.policy();
    if info.tunables.is_empty() {
        return Err(AxisError::NoTunables { policy: info.name });
    }
    let items = text.split_once(':').map_or("", |(_, values)| values);
    let items: Vec<&str> = items.split(',').filter(|item| !item.is_empty()).collect();
    let is_given = |at: usize, tunable: &Tunable| {
        items.iter().any(|item| match item.split_once('=') {
            Some((key, _)) => key == tunable.name,
            None => at == 0 && info.bare_value == BareValue::FirstTunable,
        })
    };
    let free = info.tunables.iter().enumerate();
    let free = free.filter(|(at, tunable)| !is_given(*at, tunable));
    let axes: Vec<Axis> = free
        .map(|(_, tunable)| Axis::sensible(tunable, policy.value(tunable), leg_count))
        .collect();
    if axes.is_empty() {
        return Err(AxisError::Text {
            text: text.to_owned(),
            reason: "every tunable has a value already; leave one out, or name what to try with \
                     --set"
                .to_owned(),
        });
    }
    Ok(axes)
}

/// What `text` means for `tunable`, in the policy's own words where it means nothing.
fn value_of(
    policy: &PolicySpec,
    tunable: &'static Tunable,
    text: &str,
) -> Result<u64, PolicyError> {
    let mut spec = *policy;
    spec.set(tunable.name, text)?;
    Ok(spec.value(tunable))
}

enum RangeError {
    Policy(PolicyError),
    Text(String),
}

/// The numbers of `LOW..REST`, REST being `HIGH[:STEPS][:log]`.
fn range(
    low: &str,
    rest: &str,
    tunable: &Tunable,
    value: &dyn Fn(&str) -> Result<u64, PolicyError>,
) -> Result<Vec<u64>, RangeError> {
    let text = |text: &str| Err(RangeError::Text(text.to_owned()));
    if let TunableKind::Choice(words) = tunable.kind {
        return text(&format!(
            "words have no range; name some of {}",
            words.join(", ")
        ));
    }
    let mut parts = rest.split(':').map(str::trim);
    let high = parts.next().unwrap_or_default();
    let (mut steps, mut is_log) = (None, false);
    for part in parts {
        match part.parse::<u64>() {
            _ if part == "log" && !is_log => is_log = true,
            Ok(count) if steps.is_none() && (2..=STEPS_MAX).contains(&count) => {
                steps = Some(count);
            }
            _ => {
                let reason = format!(
                    "'{part}' is neither a number of steps from 2 to {STEPS_MAX} nor 'log'"
                );
                return Err(RangeError::Text(reason));
            }
        }
    }
    let low = value(low).map_err(RangeError::Policy)?;
    let high = value(high).map_err(RangeError::Policy)?;
    if low >= high {
        return text("a range goes from a smaller value to a larger one");
    }
    Ok(if is_log {
        logarithmic(low, high, steps)
    } else {
        let count = (high - low).saturating_add(1);
        linear(
            low,
            high,
            steps.unwrap_or(if count <= EVERY_MAX { count } else { STEPS }),
        )
    })
}

/// `steps` numbers at equal distance, both ends included.
fn linear(low: u64, high: u64, steps: u64) -> Vec<u64> {
    let last = steps.max(2) - 1;
    let at = |step: u64| {
        let offset = u128::from(high - low) * u128::from(step) + u128::from(last / 2);
        low + u64::try_from(offset / u128::from(last)).expect("not beyond the end")
    };
    (0..=last).map(at).collect()
}

/// `steps` numbers with equal ratios, both ends included; doubling where nobody says how many.
/// Zero has no ratio to anything: a range from there has 0, and begins at 1.
fn logarithmic(low: u64, high: u64, steps: Option<u64>) -> Vec<u64> {
    let mut numbers = Vec::new();
    if low == 0 {
        numbers.push(0);
    }
    let from = low.max(1);
    let doublings = u64::from((high / from).ilog2());
    let count = match steps {
        Some(steps) => steps - numbers.len() as u64,
        None if doublings < EVERY_MAX => doublings + 1,
        None => STEPS,
    };
    let last = count.max(2) - 1;
    let ratio = stdx::math::ln(high as f64 / from as f64);
    numbers.extend((0..last).map(|step| {
        let factor = stdx::math::exp(ratio * step as f64 / last as f64);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between the ends of the range; a cast saturates"
        )]
        let number = (from as f64 * factor + 0.5) as u64;
        number.clamp(from, high)
    }));
    numbers.push(high);
    numbers
}

/// Numbers to try round a default.
fn numbers_around(default: u64, (min, max): (u64, u64), unit: &str) -> Vec<u64> {
    if default > 0 && max / 8 < default {
        return linear(min, max, LINEAR.min((max - min).saturating_add(1)));
    }
    let clamped = |number: u64| number.clamp(min, max);
    if default == 0 {
        return FROM_ZERO.map(clamped).to_vec();
    }
    let factors = if unit == "bytes" {
        SIZE_FACTORS
    } else {
        FACTORS
    };
    let scaled = |(times, parts): (u64, u64)| clamped(default.saturating_mul(times) / parts);
    factors.map(scaled).to_vec()
}

#[cfg(test)]
mod tests;
