//! What a scenario is run under: a read policy, called what its user called it.

use std::fmt;

use heliostat_policy::{ArrayInfo, PolicyError};
use heliostat_sim::SimPolicy;

/// A policy as somebody asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contender {
    text: String,
    policy: SimPolicy,
}

impl Contender {
    /// Reads `NAME`, `NAME:VALUE` or `NAME:key=value,key=value`.
    ///
    /// # Errors
    /// Where there is no such policy or tunable, or it does not take that value.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let policy = SimPolicy::parse(text)?;
        Ok(Self {
            text: text.to_owned(),
            policy,
        })
    }

    /// Reads a comma list. An item with `=` and without a policy's name continues the one before
    /// it; `all` stands for every policy there is.
    ///
    /// # Errors
    /// As [`Contender::parse`], or where an item continues nothing.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, PolicyError> {
        let expanded = policy_list(text)?
            .into_iter()
            .flat_map(|item| match &*item {
                "all" => SimPolicy::all()
                    .map(|policy| match policy {
                        SimPolicy::Registered(spec) => spec.policy().name.to_owned(),
                        SimPolicy::Oracle => policy.to_string(),
                    })
                    .collect(),
                _ => vec![item],
            });
        expanded.map(|item| Self::parse(&item)).collect()
    }

    /// What serves an array that names no policy.
    ///
    /// # Panics
    /// Never: the default policy is one of the registry.
    #[must_use]
    pub fn default_policy() -> Self {
        Self::parse(heliostat_policy::DEFAULT_POLICY).expect("the default policy exists")
    }

    /// Whether it can serve an array of `leg_count` legs.
    ///
    /// # Errors
    /// Where it names a leg that the array lacks.
    pub fn check(&self, leg_count: usize) -> Result<(), PolicyError> {
        match self.policy {
            SimPolicy::Registered(spec) => spec.check(&ArrayInfo::new(leg_count)),
            SimPolicy::Oracle => Ok(()),
        }
    }

    /// The policy.
    #[must_use]
    pub const fn policy(&self) -> SimPolicy {
        self.policy
    }
}

/// The items of a comma list of policies as they are written. One with `=` and without a policy's
/// name continues the one before it, unless that is `all`.
///
/// # Errors
/// Where an item continues nothing.
pub fn policy_list(text: &str) -> Result<Vec<String>, PolicyError> {
    let mut items: Vec<String> = Vec::new();
    for item in text.split(',').map(str::trim) {
        let is_tunable = item
            .split_once('=')
            .is_some_and(|(name, _)| !name.contains(':'));
        match items.last_mut().filter(|before| *before != "all") {
            Some(before) if is_tunable => {
                before.push(if before.contains(':') { ',' } else { ':' });
                before.push_str(item);
            }
            _ if is_tunable => {
                return Err(PolicyError::NoPolicyBefore {
                    item: item.to_owned(),
                });
            }
            _ => items.push(item.to_owned()),
        }
    }
    Ok(items)
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use heliostat_sim::SimPolicy;

    use super::Contender;

    fn names(list: &str) -> Result<Vec<String>, String> {
        let contenders = Contender::parse_list(list).map_err(|error| error.to_string())?;
        Ok(contenders.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn lists_keep_what_was_written_and_mean_what_the_registry_says() {
        assert_eq!(names("pid, queue"), Ok(vec!["pid".into(), "queue".into()]));
        assert_eq!(
            names(
                "round-robin,queue,tie=rotate,roundrobin:roundrobin_rot_nonlocal_inc=1,\
                   roundrobin_nonrot_nonlocal_inc=2"
            )
            .unwrap(),
            [
                "round-robin",
                "queue:tie=rotate",
                "roundrobin:roundrobin_rot_nonlocal_inc=1,roundrobin_nonrot_nonlocal_inc=2"
            ]
        );
        for list in [
            "all",
            "all,pid",
            "queue,tie=rotate,zfs",
            "device",
            "",
            "pid,oracle",
        ] {
            let policies: Vec<SimPolicy> = Contender::parse_list(list)
                .unwrap()
                .iter()
                .map(|contender| contender.policy)
                .collect();
            assert_eq!(Ok(policies), SimPolicy::parse_list(list), "{list}");
        }
        assert_eq!(names("all").unwrap().len(), SimPolicy::all().count());
    }

    #[test]
    fn what_cannot_be_is_named() {
        let told = |list| names(list).unwrap_err();
        assert!(told("tie=rotate").contains("tie=rotate"));
        assert!(told("all,tie=rotate").contains("tie=rotate"));
        assert!(told("pid,nonsense").contains("'nonsense'"));
        let devid = Contender::parse("devid:3").unwrap();
        assert!(devid.check(2).is_err() && devid.check(3).is_ok());
    }
}
