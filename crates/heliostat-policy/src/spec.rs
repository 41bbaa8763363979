//! A policy and the values of its tunables, and the one parser for what people write:
//! `NAME`, `NAME:VALUE` (btrfs) or `NAME:key=value,key=value`, and comma lists of those.

use std::fmt;
use std::str::FromStr;

use heliostat_types::{LegId, LegSet};

use crate::api::ReadPolicy;
use crate::error::PolicyError;
use crate::registry::{self, BareValue, PolicyInfo, TUNABLES_MAX};
use crate::tunable::{Tunable, TunableKind};

/// What a policy has to know of the array before it serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayInfo {
    /// The legs that are part of the array, whatever their state.
    pub legs: LegSet,
}

impl ArrayInfo {
    /// An array of the legs 0 to `leg_count` - 1.
    ///
    /// # Panics
    /// Where there are more than [`heliostat_types::LEGS_MAX`].
    #[must_use]
    pub fn new(leg_count: usize) -> Self {
        Self {
            legs: LegSet::first(leg_count),
        }
    }
}

/// A policy with a value for each of its tunables.
#[derive(Clone, Copy)]
pub struct PolicySpec {
    policy: &'static PolicyInfo,
    values: [u64; TUNABLES_MAX],
}

impl PolicySpec {
    /// `policy` with all tunables at their defaults.
    #[must_use]
    pub fn new(policy: &'static PolicyInfo) -> Self {
        let mut values = [0; TUNABLES_MAX];
        for (value, tunable) in values.iter_mut().zip(policy.tunables) {
            *value = tunable.default;
        }
        Self { policy, values }
    }

    /// Reads `NAME`, `NAME:VALUE` or `NAME:key=value,key=value`; what is not named has its
    /// default. One line feed at the end does not count, and no name at all means `pid`, both as
    /// in btrfs's `read_policy` file.
    ///
    /// # Errors
    /// Where there is no such policy or tunable, or it does not take that value.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        Self::parse_onto(text, Self::new)
    }

    /// As [`PolicySpec::parse`], but tunables that are not named have the values of `base`. A
    /// value that is left out behind the name has its default all the same, as in btrfs.
    ///
    /// # Errors
    /// As [`PolicySpec::parse`].
    pub fn parse_onto(
        text: &str,
        base: impl FnOnce(&'static PolicyInfo) -> Self,
    ) -> Result<Self, PolicyError> {
        let text = text.strip_suffix('\n').unwrap_or(text);
        let (name, values) = match text.split_once(':') {
            Some((name, values)) => (name, Some(values)),
            None if text.is_empty() => ("pid", None),
            None => (text, None),
        };
        let policy = registry::find_policy(name).ok_or_else(|| PolicyError::UnknownPolicy {
            name: name.to_owned(),
        })?;
        let mut spec = base(policy);
        if policy.bare_value == BareValue::FirstTunable {
            spec.values[0] = policy.tunables[0].default;
        }
        for item in values.into_iter().flat_map(|values| values.split(',')) {
            match item.split_once('=') {
                Some((tunable, value)) => spec.set(tunable, value)?,
                None => spec.set_bare(item)?,
            }
        }
        Ok(spec)
    }

    /// Reads a comma list of policies. An item with `=` and without a policy's name continues the
    /// one before it; `all` stands for every policy with its defaults. Blanks round an item do not
    /// count.
    ///
    /// # Errors
    /// As [`PolicySpec::parse`], or where an item continues nothing.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, PolicyError> {
        let mut specs = Vec::new();
        let mut can_continue = false;
        for item in text.split(',').map(str::trim) {
            let before = specs.last_mut().filter(|_| can_continue);
            match (item.split_once('='), before) {
                (Some((tunable, value)), before) if !tunable.contains(':') => {
                    let before: &mut Self = before.ok_or_else(|| PolicyError::NoPolicyBefore {
                        item: item.to_owned(),
                    })?;
                    before.set(tunable, value)?;
                }
                _ if item == "all" => {
                    specs.extend(registry::all_policies().map(Self::new));
                    can_continue = false;
                }
                _ => {
                    specs.push(Self::parse(item)?);
                    can_continue = true;
                }
            }
        }
        Ok(specs)
    }

    /// The name with all values, defaults as well: to be told to whoever keeps what is not named.
    #[must_use]
    pub fn complete(&self) -> String {
        let tunables = self.policy.tunables.iter().zip(&self.values);
        let values = tunables
            .map(|(tunable, &value)| format!("{}={}", tunable.name, tunable.format(value)))
            .collect::<Vec<_>>();
        match values.is_empty() {
            true => self.policy.name.to_owned(),
            false => format!("{}:{}", self.policy.name, values.join(",")),
        }
    }

    /// Which policy.
    #[must_use]
    pub const fn policy(&self) -> &'static PolicyInfo {
        self.policy
    }

    /// The value of `tunable`.
    ///
    /// # Panics
    /// Where the policy has no such tunable.
    #[must_use]
    pub fn value(&self, tunable: &Tunable) -> u64 {
        let at = self
            .position(tunable.name)
            .expect("a policy asks for its own tunables");
        self.values[at]
    }

    /// The value of `tunable`, whose range ends within 32 bits.
    ///
    /// # Panics
    /// Where it does not, or the policy has no such tunable.
    #[must_use]
    pub(crate) fn value_u32(&self, tunable: &Tunable) -> u32 {
        u32::try_from(self.value(tunable)).expect("the tunable's range ends within 32 bits")
    }

    /// The value of the tunable called `name`, as text.
    ///
    /// # Errors
    /// Where the policy has no such tunable.
    pub fn show(&self, name: &str) -> Result<String, PolicyError> {
        let at = self.find(name)?;
        Ok(self.policy.tunables[at].format(self.values[at]))
    }

    /// Gives the tunable called `name` the value that `text` means.
    ///
    /// # Errors
    /// Where the policy has no such tunable, or it does not take that value.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), PolicyError> {
        let at = self.find(name)?;
        let tunable = &self.policy.tunables[at];
        self.values[at] = tunable
            .parse(text)
            .ok_or_else(|| self.invalid(tunable, text))?;
        Ok(())
    }

    /// Whether the array has every leg that is named.
    ///
    /// # Errors
    /// Where it lacks one.
    pub fn check(&self, array: &ArrayInfo) -> Result<(), PolicyError> {
        for (tunable, &devid) in self.policy.tunables.iter().zip(&self.values) {
            let is_present = || array.legs.iter().map(LegId::devid).any(|leg| leg == devid);
            if tunable.kind == TunableKind::Devid && !is_present() {
                let legs = array.legs;
                return Err(PolicyError::NoSuchLeg { devid, legs });
            }
        }
        Ok(())
    }

    /// The policy itself, which has seen nothing yet.
    ///
    /// # Errors
    /// As [`PolicySpec::check`].
    pub fn build(&self, array: &ArrayInfo) -> Result<Box<dyn ReadPolicy>, PolicyError> {
        self.check(array)?;
        Ok((self.policy.build)(self))
    }

    fn set_bare(&mut self, text: &str) -> Result<(), PolicyError> {
        /// btrfs reads any value behind the name before it looks whether the policy has a use for
        /// it.
        const IGNORED: Tunable =
            Tunable::number("value", 1, (1, i64::MAX.unsigned_abs()), "", "for nothing");
        match self.policy.bare_value {
            BareValue::FirstTunable => self.set(self.policy.tunables[0].name, text),
            BareValue::Ignored => match IGNORED.parse(text) {
                Some(_) => Ok(()),
                None => Err(self.invalid(&IGNORED, text)),
            },
            BareValue::Refused => Err(PolicyError::ValueRefused {
                policy: self.policy.name,
                value: text.to_owned(),
            }),
        }
    }

    fn position(&self, name: &str) -> Option<usize> {
        let mut tunables = self.policy.tunables.iter();
        tunables.position(|tunable| tunable.name == name)
    }

    fn find(&self, name: &str) -> Result<usize, PolicyError> {
        self.position(name)
            .ok_or_else(|| PolicyError::UnknownTunable {
                policy: self.policy.name,
                tunable: name.to_owned(),
            })
    }

    fn invalid(&self, tunable: &'static Tunable, text: &str) -> PolicyError {
        PolicyError::InvalidValue {
            policy: self.policy.name,
            tunable,
            value: text.to_owned(),
        }
    }
}

impl FromStr for PolicySpec {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        Self::parse(text)
    }
}

impl PartialEq for PolicySpec {
    fn eq(&self, other: &Self) -> bool {
        self.policy.name == other.policy.name && self.values == other.values
    }
}

impl Eq for PolicySpec {}

impl fmt::Display for PolicySpec {
    /// The name, with the value behind it where btrfs shows one, and what differs from its
    /// default: `round-robin:262144`, `queue`, `queue:tie=rotate`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.policy.name)?;
        let mut separator = ':';
        let has_value = self.policy.bare_value == BareValue::FirstTunable;
        for (at, (tunable, &value)) in self.policy.tunables.iter().zip(&self.values).enumerate() {
            let text = tunable.format(value);
            if at == 0 && has_value {
                write!(f, ":{text}")?;
                separator = ',';
            } else if value != tunable.default {
                write!(f, "{separator}{}={text}", tunable.name)?;
                separator = ',';
            }
        }
        Ok(())
    }
}

impl fmt::Debug for PolicySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PolicySpec({self})")
    }
}

#[cfg(test)]
mod tests;
