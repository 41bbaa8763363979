//! The control files of an array that is served: which there are, what they show, and what is done
//! when somebody writes to one. Where they appear is somebody else's business.
//!
//! They have the names and the text of btrfs's files in sysfs, so that what was written for these
//! works here: `read_policy` as in Linux 6.14, `read_policies/` as proposed in 2021, and
//! `devinfo/ID/read_stats` as in the patches for 6.12, with devices counted from 1.

use std::fmt::Write as _;

use heliostat_engine::LegStats;
use heliostat_policy::{PolicyControl, PolicyInfo, Tunable, all_policies};
use heliostat_types::OpKind;

use crate::RuntimeError;
use crate::commands::{Command, Handle};
use crate::stats::ArrayStats;
use crate::status::{FlagChange, LegStatus, word_of};

/// One file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ControlNode {
    /// The directory of all.
    Root,
    /// `read_policy`: all policies with their first values, the active one in brackets.
    ReadPolicy,
    /// `scheduler`: all schedulers, the active one in brackets.
    Scheduler,
    /// `stats.json`: what `heliostat stats --json` prints.
    StatsJson,
    /// `volume`: the array itself.
    Volume,
    /// `read_policies/`.
    ReadPolicies,
    /// `read_policies/policy`: all policies, the active one in brackets.
    Policy,
    /// `read_policies/TUNABLE`, by its place among all.
    Tunable(usize),
    /// `devinfo/`.
    Devices,
    /// `devinfo/ID/`, by role.
    Device(usize),
    /// `devinfo/ID/FILE`, by role.
    DeviceFile(usize, DeviceFile),
}

/// A file that each leg has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceFile {
    /// `read_stats`: reads completed, the time they took, and how often it was passed over.
    ReadStats,
    /// `in_flight`: reads and writes at it now.
    InFlight,
    /// `state`: `in-sync`, `rebuilding`, `faulted` or `missing`.
    State,
    /// `write_mostly`: 1 where it is read only if nothing else is left.
    WriteMostly,
    /// `read_preferred`: 1 where the policy `device` reads it.
    ReadPreferred,
}

/// Why something could not be shown or stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileError {
    /// There is no such leg any more.
    Gone,
    /// What was written makes no sense here; why.
    Invalid(String),
    /// It cannot be done at the moment, or not be kept; why.
    Failed(String),
}

impl DeviceFile {
    /// All, in the order of their names.
    pub const ALL: [Self; 5] = [
        Self::InFlight,
        Self::ReadPreferred,
        Self::ReadStats,
        Self::State,
        Self::WriteMostly,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::ReadStats => "read_stats",
            Self::InFlight => "in_flight",
            Self::State => "state",
            Self::WriteMostly => "write_mostly",
            Self::ReadPreferred => "read_preferred",
        }
    }

    const fn is_writable(self) -> bool {
        matches!(self, Self::WriteMostly | Self::ReadPreferred)
    }
}

impl ControlNode {
    /// What it is called in its directory; the root has no name.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Root => String::new(),
            Self::ReadPolicy => "read_policy".to_owned(),
            Self::Scheduler => "scheduler".to_owned(),
            Self::StatsJson => "stats.json".to_owned(),
            Self::Volume => "volume".to_owned(),
            Self::ReadPolicies => "read_policies".to_owned(),
            Self::Policy => "policy".to_owned(),
            Self::Tunable(at) => tunables()
                .nth(at)
                .map(|(policy, tunable)| tunable_file(policy, tunable))
                .unwrap_or_default(),
            Self::Devices => "devinfo".to_owned(),
            Self::Device(role) => (role + 1).to_string(),
            Self::DeviceFile(_, file) => file.name().to_owned(),
        }
    }

    /// The directory it is in; the root is in itself.
    #[must_use]
    pub const fn parent(self) -> Self {
        match self {
            Self::Root
            | Self::Volume
            | Self::ReadPolicy
            | Self::Scheduler
            | Self::StatsJson
            | Self::ReadPolicies
            | Self::Devices => Self::Root,
            Self::Policy | Self::Tunable(_) => Self::ReadPolicies,
            Self::Device(_) => Self::Devices,
            Self::DeviceFile(role, _) => Self::Device(role),
        }
    }

    /// Whether it is a directory.
    #[must_use]
    pub const fn is_directory(self) -> bool {
        matches!(
            self,
            Self::Root | Self::ReadPolicies | Self::Devices | Self::Device(_)
        )
    }

    /// Whether it takes what is written to it.
    #[must_use]
    pub const fn is_writable(self) -> bool {
        match self {
            Self::ReadPolicy | Self::Scheduler | Self::Policy | Self::Tunable(_) | Self::Volume => {
                true
            }
            Self::DeviceFile(_, file) => file.is_writable(),
            Self::Root | Self::StatsJson | Self::ReadPolicies | Self::Devices | Self::Device(_) => {
                false
            }
        }
    }
}

/// Every tunable of every policy.
fn tunables() -> impl Iterator<Item = (&'static PolicyInfo, &'static Tunable)> {
    all_policies().flat_map(|policy| policy.tunables.iter().map(move |tunable| (policy, tunable)))
}

/// `POLICY_TUNABLE`, with underscores alone; the names of 2021 begin with their policy's.
fn tunable_file(policy: &PolicyInfo, tunable: &Tunable) -> String {
    let prefix = format!("{}_", policy.name.replace('-', "_"));
    if tunable.name.starts_with(&prefix) {
        tunable.name.to_owned()
    } else {
        prefix + tunable.name
    }
}

impl Handle {
    /// What is in a directory.
    ///
    /// # Errors
    /// Where the array is not served any more, or too busy.
    pub fn list_files(&self, directory: ControlNode) -> Result<Vec<ControlNode>, FileError> {
        Ok(match directory {
            ControlNode::Root => vec![
                ControlNode::Devices,
                ControlNode::ReadPolicies,
                ControlNode::ReadPolicy,
                ControlNode::Scheduler,
                ControlNode::StatsJson,
                ControlNode::Volume,
            ],
            ControlNode::ReadPolicies => {
                let tunables = (0..tunables().count()).map(ControlNode::Tunable);
                [ControlNode::Policy].into_iter().chain(tunables).collect()
            }
            ControlNode::Devices => {
                let legs = self.status()?.legs.len();
                (0..legs).map(ControlNode::Device).collect()
            }
            ControlNode::Device(role) => {
                let files = DeviceFile::ALL.into_iter();
                files
                    .map(|file| ControlNode::DeviceFile(role, file))
                    .collect()
            }
            ControlNode::ReadPolicy
            | ControlNode::Scheduler
            | ControlNode::StatsJson
            | ControlNode::Volume
            | ControlNode::Policy
            | ControlNode::Tunable(_)
            | ControlNode::DeviceFile(..) => Vec::new(),
        })
    }

    /// What a file shows now, with a line feed at its end.
    ///
    /// # Errors
    /// Where the array is not served any more, or too busy, or the leg is gone.
    pub fn show_file(&self, file: ControlNode) -> Result<String, FileError> {
        let mut text = match file {
            ControlNode::ReadPolicy => self.policy()?,
            ControlNode::Scheduler => self.scheduler()?,
            ControlNode::Policy => self.policies()?.show_names(),
            ControlNode::Tunable(at) => show_tunable(&self.policies()?, at)?,
            ControlNode::StatsJson => {
                let stats: ArrayStats = self.stats()?;
                serde_json::to_string(&stats).expect("a plain struct is JSON")
            }
            ControlNode::DeviceFile(role, file) => self.show_device_file(role, file)?,
            ControlNode::Root
            | ControlNode::ReadPolicies
            | ControlNode::Devices
            | ControlNode::Device(_)
            | ControlNode::Volume => return Err(FileError::Invalid("it has no text".to_owned())),
        };
        text.push('\n');
        Ok(text)
    }

    fn show_device_file(&self, role: usize, file: DeviceFile) -> Result<String, FileError> {
        if file == DeviceFile::WriteMostly {
            return Ok(flag(self.role(role)?.write_mostly).to_owned());
        }
        let mut legs = self.ask(Command::Stats)?.legs;
        if role >= legs.len() {
            return Err(FileError::Gone);
        }
        let leg = legs.swap_remove(role);
        Ok(match file {
            DeviceFile::ReadStats => read_stats(&leg.stats),
            DeviceFile::InFlight => format!("{} {}", leg.reads_in_flight, leg.writes_in_flight),
            DeviceFile::State => word_of(leg.state).to_owned(),
            DeviceFile::ReadPreferred => flag(leg.read_preferred).to_owned(),
            DeviceFile::WriteMostly => unreachable!("shown above"),
        })
    }

    /// Does what is meant by `text`, written to a file. What is set is kept, as it is when it is
    /// set by a command. Why something makes no sense is told in the log.
    ///
    /// # Errors
    /// Where it makes no sense, or the array is not served any more, or too busy.
    pub fn store_file(&self, file: ControlNode, text: &str) -> Result<(), FileError> {
        let told = self.try_file(file, text);
        if let Err(FileError::Invalid(why)) = &told {
            self.note_refusal(&file.name(), text, why);
        }
        told
    }

    fn try_file(&self, file: ControlNode, text: &str) -> Result<(), FileError> {
        match file {
            ControlNode::ReadPolicy | ControlNode::Policy => {
                self.try_policy(text, false)?.map(drop).map_err(invalid)
            }
            ControlNode::Scheduler => self
                .try_scheduler(text, false)?
                .map(drop)
                .map_err(|error| FileError::Invalid(error.to_string())),
            ControlNode::Tunable(at) => {
                let (policy, tunable) = tunables().nth(at).ok_or(FileError::Gone)?;
                let text = text.trim_end();
                self.try_tunable(policy.name, tunable.name, text)?
                    .map_err(invalid)
            }
            ControlNode::DeviceFile(role, DeviceFile::WriteMostly) => {
                let write_mostly = Some(parse_flag(text)?);
                let leg = self.role(role)?.role.to_string();
                let failfast = None;
                let change = FlagChange {
                    write_mostly,
                    failfast,
                };
                let told = self.set_flags(&leg, change);
                told.map(drop).map_err(|error| FileError::Invalid(error.0))
            }
            ControlNode::DeviceFile(role, DeviceFile::ReadPreferred) => {
                self.prefer(self.role(role)?.role, parse_flag(text)?)?;
                Ok(())
            }
            ControlNode::Root
            | ControlNode::StatsJson
            | ControlNode::Volume
            | ControlNode::ReadPolicies
            | ControlNode::Devices
            | ControlNode::Device(_)
            | ControlNode::DeviceFile(
                _,
                DeviceFile::ReadStats | DeviceFile::InFlight | DeviceFile::State,
            ) => Err(FileError::Invalid("it is only read".to_owned())),
        }
    }

    /// The leg of this role.
    fn role(&self, role: usize) -> Result<LegStatus, FileError> {
        let mut legs = self.status()?.legs;
        if role >= legs.len() {
            return Err(FileError::Gone);
        }
        Ok(legs.swap_remove(role))
    }
}

fn show_tunable(policies: &PolicyControl, at: usize) -> Result<String, FileError> {
    let (policy, tunable) = tunables().nth(at).ok_or(FileError::Gone)?;
    let spec = policies.spec(policy.name).expect("it is in the registry");
    Ok(tunable.format(spec.value(tunable)))
}

/// A line as kakra's patch for Linux 6.12 has it; times in ns. Where the active policy goes by no
/// checkpoint there was none, and everything is since then.
fn read_stats(stats: &LegStats) -> String {
    let reads = stats.account.of(OpKind::Read);
    let wait = reads.times().map_or(0, |times| times.fine_ns().sum());
    let all = (reads.count(), wait);
    let (since, age, count) = match stats.checkpoint {
        None => (all, i128::from(stats.age), 0),
        Some(known) => (
            (known.reads, u128::from(known.wait.as_ns())),
            i128::from(known.age),
            known.count,
        ),
    };
    let mut line = String::new();
    for (what, (ios, wait)) in [("cumulative", all), ("checkpoint", since)] {
        let avg = wait.checked_div(u128::from(ios)).unwrap_or(0);
        write!(line, "{what} ios {ios} wait {wait} avg {avg} ").expect("a String takes all text");
    }
    let ignored = stats.ignored;
    write!(line, "age {age} count {count} ignored {ignored}").expect("a String takes all text");
    line
}

const fn flag(is_set: bool) -> &'static str {
    if is_set { "1" } else { "0" }
}

/// What the kernel's kstrtobool takes.
fn parse_flag(text: &str) -> Result<bool, FileError> {
    match text.trim_end() {
        "1" | "y" | "Y" | "on" => Ok(true),
        "0" | "n" | "N" | "off" => Ok(false),
        other => Err(FileError::Invalid(format!("'{other}' is neither 0 nor 1"))),
    }
}

fn invalid(error: heliostat_policy::PolicyError) -> FileError {
    FileError::Invalid(error.to_string())
}

impl From<RuntimeError> for FileError {
    fn from(error: RuntimeError) -> Self {
        Self::Failed(error.0)
    }
}

impl std::fmt::Display for FileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gone => f.write_str("there is no such leg any more"),
            Self::Invalid(why) | Self::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for FileError {}

#[cfg(test)]
mod tests;
