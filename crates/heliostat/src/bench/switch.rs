//! The read policy of what is measured: which there are, another one, and in the end the one that
//! was there before.

use std::fs;
use std::io::{Write as _, stderr};
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use heliostat_runtime::{ControlRequest, ControlResponse, PolicyChange};

use crate::cli::ControlArgs;

/// What can be told to read by another policy. What was active before is active again when this is
/// dropped.
pub(super) struct Switch {
    way: Way,
    /// What there is, as it is shown, with values.
    pub(super) policies: Vec<String>,
    /// What was active at the start.
    original: String,
    /// What is active now.
    active: String,
}

enum Way {
    /// An array of ours, by its control socket; nothing is kept for its next start.
    Array { name: String, control: ControlArgs },
    /// btrfs in the kernel, by its file in sysfs.
    Btrfs(PathBuf),
}

impl Switch {
    pub(super) fn array(name: &str, control: &ControlArgs) -> anyhow::Result<Self> {
        Self::of(Way::Array {
            name: name.to_owned(),
            control: control.clone(),
        })
    }

    pub(super) fn btrfs(file: PathBuf) -> anyhow::Result<Self> {
        Self::of(Way::Btrfs(file))
    }

    fn of(way: Way) -> anyhow::Result<Self> {
        let shown = way.show()?;
        let Some((policies, active)) = listed(&shown) else {
            bail!("no policy is active of: {}", shown.trim());
        };
        Ok(Self {
            way,
            policies,
            original: active.clone(),
            active,
        })
    }

    /// Whether there is a policy of this name, whatever value it is given.
    pub(super) fn has(&self, policy: &str) -> bool {
        let name_of = |text: &str| text.split(':').next().map(str::to_owned);
        let is_it = |known: &String| name_of(known) == name_of(policy);
        self.policies.iter().any(is_it)
    }

    /// Makes it active, where it is not.
    pub(super) fn set(&mut self, policy: &str) -> anyhow::Result<()> {
        if self.active != policy {
            self.way.set(policy)?;
            policy.clone_into(&mut self.active);
        }
        Ok(())
    }

    /// Makes active what was at the start.
    pub(super) fn restore(&mut self) -> anyhow::Result<()> {
        let original = self.original.clone();
        self.set(&original)
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        if let Err(error) = self.restore() {
            let (original, active) = (&self.original, &self.active);
            // There is nobody else to tell.
            let _ = writeln!(
                stderr(),
                "policy {original} was active and {active} stays so: {error:#}"
            );
        }
    }
}

impl Way {
    fn show(&self) -> anyhow::Result<String> {
        match self {
            Self::Array { name, control } => ask(control, name, &ControlRequest::Policy),
            Self::Btrfs(file) => {
                fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
            }
        }
    }

    fn set(&self, policy: &str) -> anyhow::Result<()> {
        match self {
            Self::Array { name, control } => {
                let request = ControlRequest::SetPolicy(PolicyChange {
                    policy: policy.to_owned(),
                    transient: true,
                });
                ask(control, name, &request)
                    .map(drop)
                    .with_context(|| format!("cannot switch {name} to {policy}"))
            }
            Self::Btrfs(file) => fs::write(file, format!("{policy}\n"))
                .with_context(|| format!("cannot write {policy} into {}", file.display())),
        }
    }
}

fn ask(control: &ControlArgs, name: &str, request: &ControlRequest) -> anyhow::Result<String> {
    let ControlResponse::Policy(text) = control.ask(name, request)? else {
        bail!("asked for the policy, the daemon answered something else");
    };
    Ok(text)
}

/// All policies of a text as `pid [queue] devid:1`, and the active one.
fn listed(text: &str) -> Option<(Vec<String>, String)> {
    let inside = |word: &str| -> Option<String> {
        let word = word.strip_prefix('[')?.strip_suffix(']')?;
        Some(word.to_owned())
    };
    let words = text.split_whitespace();
    let active = words.clone().find_map(inside)?;
    let all = words.map(|word| inside(word).unwrap_or_else(|| word.to_owned()));
    Some((all.collect(), active))
}

#[cfg(test)]
mod tests {
    use super::listed;

    #[test]
    fn the_active_one_stands_in_brackets() {
        let (all, active) = listed("pid [round-robin:262144] devid:1\n").unwrap();
        assert_eq!(all, ["pid", "round-robin:262144", "devid:1"]);
        assert_eq!(active, "round-robin:262144");
        assert_eq!(listed("pid latency"), None);
        assert_eq!(listed(""), None);
    }
}
