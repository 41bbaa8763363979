//! The read policy, or the scheduler, of what is measured: which there are, another one, and in the
//! end the one that was there before.

use std::fs;
use std::io::{Write as _, stderr};
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use heliostat_policy::PolicySpec;
use heliostat_runtime::{
    ControlRequest, ControlResponse, PolicyChange, SchedulerChange, UsageError,
};
use heliostat_scheduler::SchedulerSpec;

use crate::cli::ControlArgs;

/// What can be told to read by another policy, or to use another scheduler. What was active before
/// is active again when this is dropped, and every policy has the values that it had.
pub(super) struct Switch {
    way: Way,
    /// What there is at the start, with the values that it has.
    pub(super) known: Vec<String>,
    /// Which of them is active then.
    original: String,
}

enum Way {
    /// An array of ours, by its control socket; nothing is kept for its next start.
    Array { name: String, control: ControlArgs },
    /// The scheduler of an array of ours; none that is not active keeps values.
    Scheduler { name: String, control: ControlArgs },
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

    pub(super) fn scheduler(name: &str, control: &ControlArgs) -> anyhow::Result<Self> {
        Self::of(Way::Scheduler {
            name: name.to_owned(),
            control: control.clone(),
        })
    }

    pub(super) fn btrfs(file: PathBuf) -> anyhow::Result<Self> {
        Self::of(Way::Btrfs(file))
    }

    fn of(way: Way) -> anyhow::Result<Self> {
        let (known, original) = way.listed()?;
        Ok(Self {
            way,
            known,
            original,
        })
    }

    /// Whether there is one of this name, whatever value it is given.
    pub(super) fn has(&self, wanted: &str) -> bool {
        self.at_start(wanted).is_some()
    }

    /// Those of them that are `wanted`, which may be all.
    pub(super) fn chosen(&self, wanted: &[String]) -> Vec<String> {
        match wanted {
            [all] if all == "all" => self.known.clone(),
            _ => {
                let ours = wanted.iter().filter(|wanted| self.has(wanted));
                ours.cloned().collect()
            }
        }
    }

    /// Makes it active, where it is not, with the values of the start where it names no others.
    /// Asks what is active: two targets may be the same array.
    pub(super) fn set(&self, wanted: &str) -> anyhow::Result<()> {
        let wanted = match self.way {
            Way::Array { .. } => self.onto_start(wanted)?,
            Way::Scheduler { .. } => {
                let spec = SchedulerSpec::parse(wanted);
                let spec = spec.map_err(|error| UsageError(format!("--schedulers: {error}")))?;
                spec.to_string()
            }
            Way::Btrfs(_) => wanted.to_owned(),
        };
        self.make_active(&wanted)
    }

    /// Makes everything as it was at the start.
    pub(super) fn restore(&self) -> anyhow::Result<()> {
        if matches!(self.way, Way::Array { .. }) {
            let (now, _) = self.way.listed()?;
            for before in self.known.iter().filter(|known| !now.contains(known)) {
                self.way.set(&self.way.exactly(before))?;
            }
        }
        self.make_active(&self.original)
    }

    fn make_active(&self, wanted: &str) -> anyhow::Result<()> {
        let (_, active) = self.way.listed()?;
        match active == wanted {
            true => Ok(()),
            false => self.way.set(&self.way.exactly(wanted)),
        }
    }

    fn at_start(&self, policy: &str) -> Option<&str> {
        let name = name_of(policy);
        let known = self.known.iter().find(|known| name_of(known) == name);
        known.map(String::as_str)
    }

    /// The full form of a policy of an array: what `text` says, and for what it does not name what
    /// there was at the start.
    fn onto_start(&self, text: &str) -> anyhow::Result<String> {
        let invalid = |error| UsageError(format!("--policies: {error}"));
        let start = self.at_start(text).unwrap_or(text);
        let start = PolicySpec::parse(start).map_err(invalid)?;
        let spec = PolicySpec::parse_onto(text, |_| start).map_err(invalid)?;
        Ok(spec.to_string())
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        if let Err(error) = self.restore() {
            let original = &self.original;
            // There is nobody else to tell.
            let _ = writeln!(
                stderr(),
                "{} {original} was active, and another one may be now: {error:#}",
                self.way.what()
            );
        }
    }
}

impl Way {
    /// What it switches.
    const fn what(&self) -> &'static str {
        match self {
            Self::Array { .. } | Self::Btrfs(_) => "policy",
            Self::Scheduler { .. } => "scheduler",
        }
    }

    /// All of them and the active one, with values.
    fn listed(&self) -> anyhow::Result<(Vec<String>, String)> {
        let (shown, what) = (self.show()?, self.what());
        listed(&shown).with_context(|| format!("no {what} is active of: {}", shown.trim()))
    }

    /// What is written for a policy to have these values and no others.
    fn exactly(&self, policy: &str) -> String {
        match (self, PolicySpec::parse(policy)) {
            (Self::Array { .. }, Ok(spec)) => spec.complete(),
            _ => policy.to_owned(),
        }
    }

    fn show(&self) -> anyhow::Result<String> {
        match self {
            Self::Array { name, control } => {
                ask(control, name, &ControlRequest::Policy { full: true })
            }
            Self::Scheduler { name, control } => ask(control, name, &ControlRequest::Scheduler),
            Self::Btrfs(file) => {
                fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
            }
        }
    }

    fn set(&self, wanted: &str) -> anyhow::Result<()> {
        match self {
            Self::Array { name, control } => {
                let request = ControlRequest::SetPolicy(PolicyChange {
                    policy: wanted.to_owned(),
                    transient: true,
                });
                told(control, name, wanted, &request)
            }
            Self::Scheduler { name, control } => {
                let request = ControlRequest::SetScheduler(SchedulerChange {
                    scheduler: wanted.to_owned(),
                    transient: true,
                });
                told(control, name, wanted, &request)
            }
            Self::Btrfs(file) => fs::write(file, format!("{wanted}\n"))
                .with_context(|| format!("cannot write {wanted} into {}", file.display())),
        }
    }
}

fn ask(control: &ControlArgs, name: &str, request: &ControlRequest) -> anyhow::Result<String> {
    let answer = control.ask(name, request)?;
    if let ControlResponse::Policy(text) | ControlResponse::Scheduler(text) = answer {
        return Ok(text);
    }
    bail!("asked for the policy or the scheduler, the daemon answered something else")
}

/// Has an array switch.
fn told(
    control: &ControlArgs,
    name: &str,
    wanted: &str,
    request: &ControlRequest,
) -> anyhow::Result<()> {
    let told = ask(control, name, request);
    told.map(drop)
        .with_context(|| format!("cannot switch {name} to {wanted}"))
}

fn name_of(policy: &str) -> String {
    policy.split(':').next().unwrap_or_default().to_owned()
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
