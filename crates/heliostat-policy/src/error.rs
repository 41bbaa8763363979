//! What can be wrong with a policy's name, value or tunables, told so that it can be put right.

use std::fmt;

use heliostat_types::LegSet;

use crate::registry;
use crate::tunable::Tunable;

/// Why a text is no read policy of this array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyError {
    /// No policy has this name.
    UnknownPolicy {
        /// The name.
        name: String,
    },
    /// The policy has no tunable of this name.
    UnknownTunable {
        /// The policy.
        policy: &'static str,
        /// The name.
        tunable: String,
    },
    /// The policy takes no value behind its colon.
    ValueRefused {
        /// The policy.
        policy: &'static str,
        /// The value.
        value: String,
    },
    /// The tunable does not take this value.
    InvalidValue {
        /// The policy.
        policy: &'static str,
        /// Its tunable.
        tunable: &'static Tunable,
        /// The value.
        value: String,
    },
    /// The array has no leg with this number.
    NoSuchLeg {
        /// The number, counted from 1.
        devid: u64,
        /// The legs there are.
        legs: LegSet,
    },
    /// An item `key=value` of a list has no policy before it.
    NoPolicyBefore {
        /// The item.
        item: String,
    },
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPolicy { name } => {
                let names: Vec<&str> = registry::all_policies().map(|policy| policy.name).collect();
                write!(f, "there is no read policy '{name}'")?;
                write_choices(f, name, &names)
            }
            Self::UnknownTunable { policy, tunable } => {
                let names = tunable_names(policy);
                write!(f, "read policy '{policy}' has no tunable '{tunable}'")?;
                if names.is_empty() {
                    return f.write_str("; it has none at all");
                }
                write_choices(f, tunable, &names)
            }
            Self::ValueRefused { policy, value } => {
                write!(
                    f,
                    "read policy '{policy}' takes no value, but '{value}' was given"
                )?;
                match tunable_names(policy).as_slice() {
                    [] => Ok(()),
                    names => write!(
                        f,
                        "; its tunables are set as {policy}:NAME=VALUE, with NAME one of {}",
                        names.join(", ")
                    ),
                }
            }
            Self::InvalidValue {
                policy,
                tunable,
                value,
            } => write!(
                f,
                "'{value}' is no value for {} of read policy '{policy}': expected {}",
                tunable.name, tunable.kind
            ),
            Self::NoSuchLeg { devid, legs } => {
                let numbers: Vec<String> = legs.iter().map(|leg| leg.devid().to_string()).collect();
                write!(
                    f,
                    "the array has no leg number {devid}; counted from 1, it has {}",
                    numbers.join(", ")
                )
            }
            Self::NoPolicyBefore { item } => write!(
                f,
                "'{item}' sets a tunable, but there is no single read policy before it"
            ),
        }
    }
}

impl std::error::Error for PolicyError {}

/// `; did you mean 'X'? Valid are: A, B, C`.
fn write_choices(f: &mut fmt::Formatter<'_>, word: &str, choices: &[&str]) -> fmt::Result {
    if let Some(meant) = stdx::suggest::closest(word, choices.iter().copied()) {
        write!(f, "; did you mean '{meant}'?")?;
    } else {
        f.write_str(".")?;
    }
    write!(f, " Valid are: {}", choices.join(", "))
}

fn tunable_names(policy: &str) -> Vec<&'static str> {
    registry::find_policy(policy).map_or_else(Vec::new, |policy| {
        policy.tunables.iter().map(|tunable| tunable.name).collect()
    })
}
