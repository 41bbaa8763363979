//! What a scenario is run under: a policy of the registry, or the one that only the simulator has.

use std::fmt;
use std::str::FromStr;

use heliostat_policy::{PolicyError, PolicySpec, all_policies};

use crate::oracle;

/// A read policy of the simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimPolicy {
    /// One that arrays can have.
    Registered(PolicySpec),
    /// The clairvoyant one, which asks the devices themselves; see docs/oracle.md.
    Oracle,
}

impl SimPolicy {
    /// Every registered policy with its defaults, then the oracle.
    pub fn all() -> impl Iterator<Item = Self> {
        let registered = all_policies().map(PolicySpec::new);
        registered.map(Self::Registered).chain([Self::Oracle])
    }

    /// Reads `oracle`, or whatever [`PolicySpec::parse`] does.
    ///
    /// # Errors
    /// As [`PolicySpec::parse`]; the oracle takes no values.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let text = text.strip_suffix('\n').unwrap_or(text);
        match text.split_once(':') {
            None if text == oracle::NAME => Ok(Self::Oracle),
            Some((oracle::NAME, value)) => Err(PolicyError::ValueRefused {
                policy: oracle::NAME,
                value: value.to_owned(),
            }),
            _ => PolicySpec::parse(text).map(Self::Registered),
        }
    }

    /// Reads a comma list as [`PolicySpec::parse_list`] does. `all` stands for what
    /// [`SimPolicy::all`] gives.
    ///
    /// # Errors
    /// As [`SimPolicy::parse`], or where an item continues nothing.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, PolicyError> {
        let mut policies = Vec::new();
        let mut registered: Vec<&str> = Vec::new();
        for item in text.split(',').map(str::trim) {
            let is_ours = item == "all" || item.split(':').next() == Some(oracle::NAME);
            if !is_ours {
                registered.push(item);
                continue;
            }
            extend(&mut policies, &mut registered)?;
            if item == "all" {
                policies.extend(Self::all());
            } else {
                policies.push(Self::parse(item)?);
            }
        }
        extend(&mut policies, &mut registered)?;
        Ok(policies)
    }
}

/// Adds a run of items that know nothing of the oracle.
fn extend(policies: &mut Vec<SimPolicy>, registered: &mut Vec<&str>) -> Result<(), PolicyError> {
    if !registered.is_empty() {
        let specs = PolicySpec::parse_list(&registered.join(","))?;
        policies.extend(specs.into_iter().map(SimPolicy::Registered));
        registered.clear();
    }
    Ok(())
}

impl FromStr for SimPolicy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        Self::parse(text)
    }
}

impl fmt::Display for SimPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registered(spec) => spec.fmt(f),
            Self::Oracle => f.write_str(oracle::NAME),
        }
    }
}

impl From<PolicySpec> for SimPolicy {
    fn from(spec: PolicySpec) -> Self {
        Self::Registered(spec)
    }
}

#[cfg(test)]
mod tests {
    use super::SimPolicy;

    fn shown(text: &str) -> String {
        match SimPolicy::parse_list(text) {
            Ok(policies) => {
                let names: Vec<String> = policies.iter().map(ToString::to_string).collect();
                names.join(" ")
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_oracle_is_one_more_name_in_a_list() {
        assert_eq!(shown("pid, oracle,queue"), "pid oracle queue");
        assert_eq!(
            shown("oracle,queue:tie=rotate,oracle"),
            "oracle queue:tie=rotate oracle"
        );
        let all = shown("all");
        assert!(all.starts_with("pid ") && all.ends_with(" oracle"), "{all}");
        assert_eq!(shown("all").split(' ').count(), SimPolicy::all().count());
    }

    #[test]
    fn it_has_nothing_to_set() {
        let told = shown("oracle:hedge=1");
        assert!(told.contains("'oracle' takes no value"), "{told}");
        let told = shown("oracle,tie=rotate");
        assert!(told.contains("no single read policy before it"), "{told}");
        assert!(shown("orcale").contains("there is no read policy"));
    }
}
