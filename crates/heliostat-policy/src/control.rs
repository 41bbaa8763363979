//! The policy that is active and the values that all the others would have: what the files
//! `read_policy` and `read_policies/*` show and store. Whoever owns it builds a new policy when
//! [`PolicyControl::active`] names another one than before.

use std::fmt::Write;

use crate::error::PolicyError;
use crate::registry::{self, BareValue};
use crate::spec::{ArrayInfo, PolicySpec};

/// Which policy is active, and every policy's tunables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyControl {
    /// In the registry's order.
    specs: Vec<PolicySpec>,
    active: usize,
}

impl PolicyControl {
    /// `active` is active, and every other policy has its defaults.
    #[must_use]
    pub fn new(active: PolicySpec) -> Self {
        let mut control = Self {
            specs: registry::all_policies().map(PolicySpec::new).collect(),
            active: 0,
        };
        control.activate(active);
        control
    }

    /// The active policy.
    #[must_use]
    pub fn active(&self) -> &PolicySpec {
        &self.specs[self.active]
    }

    /// What the file `read_policy` shows, without the line feed: `pid round-robin:262144
    /// [latency] ... devid:1`.
    #[must_use]
    pub fn show(&self) -> String {
        self.show_with(|spec| match spec.policy().bare_value {
            BareValue::FirstTunable => {
                let tunable = &spec.policy().tunables[0];
                format!(":{}", tunable.format(spec.value(tunable)))
            }
            BareValue::Refused | BareValue::Ignored => String::new(),
        })
    }

    /// What the file `read_policies/policy` shows, without the line feed: names only, as in
    /// `[pid] round-robin`.
    #[must_use]
    pub fn show_names(&self) -> String {
        self.show_with(|_| String::new())
    }

    /// Makes the policy active that `text` names, as a write to `read_policy` does: a value that is
    /// left out behind the name gets its default, tunables that are not named keep theirs.
    ///
    /// # Errors
    /// Where [`PolicySpec::parse`] fails, or the array lacks a leg that is named; nothing changes
    /// then.
    pub fn store(&mut self, text: &str, array: &ArrayInfo) -> Result<&PolicySpec, PolicyError> {
        let spec = PolicySpec::parse_onto(text, |policy| {
            *self.spec(policy.name).expect("every policy is here")
        })?;
        spec.check(array)?;
        self.activate(spec);
        Ok(self.active())
    }

    /// The policy called `name` with the values it has, active or not.
    ///
    /// # Errors
    /// Where there is no such policy.
    pub fn spec(&self, name: &str) -> Result<&PolicySpec, PolicyError> {
        Ok(&self.specs[self.find(name)?])
    }

    /// Gives a tunable of a policy, active or not, the value that `text` means.
    ///
    /// # Errors
    /// Where there is no such policy or tunable, it does not take that value, or the array lacks a
    /// leg that is named; nothing changes then.
    pub fn set(
        &mut self,
        policy: &str,
        tunable: &str,
        text: &str,
        array: &ArrayInfo,
    ) -> Result<&PolicySpec, PolicyError> {
        let at = self.find(policy)?;
        let mut spec = self.specs[at];
        spec.set(tunable, text)?;
        spec.check(array)?;
        self.specs[at] = spec;
        Ok(&self.specs[at])
    }

    /// Gives the policy of `spec`, where it is not the active one, all values of `spec`.
    pub fn keep(&mut self, spec: PolicySpec) {
        let at = self.find(spec.policy().name);
        let at = at.expect("a spec's policy is in the registry");
        if at != self.active {
            self.specs[at] = spec;
        }
    }

    /// The same with all values of each that are not its defaults: whoever keeps that can make
    /// everything as it was.
    #[must_use]
    pub fn show_full(&self) -> String {
        self.show_with(|spec| {
            let (text, name) = (spec.to_string(), spec.policy().name);
            text.strip_prefix(name).unwrap_or_default().to_owned()
        })
    }

    fn show_with(&self, suffix: impl Fn(&PolicySpec) -> String) -> String {
        let mut text = String::new();
        for (at, spec) in self.specs.iter().enumerate() {
            let separator = if at == 0 { "" } else { " " };
            let (open, close) = if at == self.active {
                ("[", "]")
            } else {
                ("", "")
            };
            let name = spec.policy().name;
            let suffix = suffix(spec);
            write!(text, "{separator}{open}{name}{suffix}{close}")
                .expect("a String takes all text");
        }
        text
    }

    fn activate(&mut self, spec: PolicySpec) {
        self.active = self
            .find(spec.policy().name)
            .expect("a spec's policy is in the registry");
        self.specs[self.active] = spec;
    }

    fn find(&self, name: &str) -> Result<usize, PolicyError> {
        let mut specs = self.specs.iter();
        specs
            .position(|spec| spec.policy().name == name)
            .ok_or_else(|| PolicyError::UnknownPolicy {
                name: name.to_owned(),
            })
    }
}

#[cfg(test)]
mod tests;
