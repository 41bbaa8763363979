//! What targets are to be measured under: the lists of `--policies` and `--schedulers`.

use heliostat_bench::policy_list;
use heliostat_runtime::UsageError;

use super::switch::Switch;
use super::target::Target;

/// Stands for all that a target has.
const ALL: &str = "all";

/// What is behind the two options, as it is written; nothing where one is not given.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    pub(super) policies: Vec<String>,
    pub(super) schedulers: Vec<String>,
}

/// One of the two options.
struct Choice<'a> {
    option: &'static str,
    wanted: &'a [String],
    /// What of a target does as it says.
    switch: fn(&Target) -> Option<&Switch>,
    /// Which targets can.
    who_can: &'static str,
}

impl Wanted {
    pub(super) fn of(policies: Option<&str>, schedulers: Option<&str>) -> Result<Self, UsageError> {
        Ok(Self {
            policies: parsed("--policies", policies)?,
            schedulers: parsed("--schedulers", schedulers)?,
        })
    }

    const fn choices(&self) -> [Choice<'_>; 2] {
        [
            Choice {
                option: "--policies",
                wanted: self.policies.as_slice(),
                switch: |target| target.switch.as_ref(),
                who_can: "heliostat:NAME and btrfs:MOUNT can",
            },
            Choice {
                option: "--schedulers",
                wanted: self.schedulers.as_slice(),
                switch: |target| target.schedulers.as_ref(),
                who_can: "heliostat:NAME can",
            },
        ]
    }

    /// Each has to be one of some target.
    pub(super) fn expect_known(&self, targets: &[Target]) -> Result<(), UsageError> {
        let mut choices = self.choices().into_iter();
        choices.try_for_each(|choice| choice.expect_known(targets))
    }

    /// Switches to each of them once, so that a value that makes no sense is told before anything
    /// is measured.
    pub(super) fn try_all(&self, targets: &[Target]) -> anyhow::Result<()> {
        for target in targets {
            for choice in self.choices() {
                let Some(switch) = (choice.switch)(target) else {
                    continue;
                };
                let chosen = switch.chosen(choice.wanted);
                for wanted in &chosen {
                    switch.set(wanted)?;
                }
                if !chosen.is_empty() {
                    switch.restore()?;
                }
            }
        }
        Ok(())
    }
}

impl Choice<'_> {
    fn expect_known(&self, targets: &[Target]) -> Result<(), UsageError> {
        let Self { option, wanted, .. } = self;
        let switches = || targets.iter().filter_map(self.switch);
        if !wanted.is_empty() && switches().next().is_none() {
            let who_can = self.who_can;
            return Err(UsageError(format!(
                "{option}: no target can switch; {who_can}"
            )));
        }
        if wanted.len() > 1 && wanted.iter().any(|wanted| wanted == ALL) {
            return Err(UsageError(format!("{option}: 'all' stands alone")));
        }
        let is_known = |name: &&String| *name == ALL || switches().any(|each| each.has(name));
        match wanted.iter().find(|wanted| !is_known(wanted)) {
            None => Ok(()),
            Some(wanted) => {
                let known: Vec<String> = switches().map(|each| each.known.join(" ")).collect();
                Err(UsageError(format!(
                    "{option}: no target has {wanted}; there are {}",
                    known.join("; ")
                )))
            }
        }
    }
}

/// A list with commas in it, of which one that begins a tunable parts nothing.
fn parsed(option: &str, list: Option<&str>) -> Result<Vec<String>, UsageError> {
    let Some(list) = list else {
        return Ok(Vec::new());
    };
    let names = policy_list(list).map_err(|error| UsageError(format!("{option}: {error}")))?;
    expect_once(&format!("{option}: "), &names)?;
    Ok(names)
}

/// What is named twice would be one row.
pub(super) fn expect_once(place: &str, names: &[String]) -> Result<(), UsageError> {
    let twice = names
        .iter()
        .enumerate()
        .find(|(at, name)| names[..*at].contains(name));
    match twice {
        Some((_, name)) => Err(UsageError(format!("{place}{name} is named twice"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::Wanted;

    #[test]
    fn lists_keep_tunables_with_what_they_belong_to() {
        let wanted = Wanted::of(
            Some("pid,queue:tie=rotate,probe_events=7"),
            Some("none,deadline:fifo_batch=8,writes_starved=3,fair"),
        );
        let wanted = wanted.unwrap();
        assert_eq!(wanted.policies, ["pid", "queue:tie=rotate,probe_events=7"]);
        let deadline = "deadline:fifo_batch=8,writes_starved=3";
        assert_eq!(wanted.schedulers, ["none", deadline, "fair"]);
        let twice = Wanted::of(None, Some("fair,fair")).unwrap_err();
        assert_eq!(twice.0, "--schedulers: fair is named twice");
    }
}
