//! What was set while the array was served, kept under its name.
//!
//! What was set last wins: a value set live beats the command line's, until somebody starts the
//! daemon with another value there than the one it had when the live one was set.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use heliostat_scheduler::SchedulerSpec;
use serde::{Deserialize, Serialize};

use crate::RuntimeError;
use crate::durable;
use crate::rates::RateChange;

const VERSION: u32 = 1;

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingsFile {
    version: u32,
    /// The policy set live, as `NAME:VALUE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    /// The command line's policy when it was set.
    #[serde(default)]
    instead_of: Option<String>,
    /// The policies whose tunables were set live, active or not, as `NAME:VALUE` by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    tunables: BTreeMap<String, String>,
    /// The legs that are preferred for reads, by role.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    read_preferred: Vec<usize>,
    /// The scheduler set live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scheduler: Option<KeptScheduler>,
    /// The bounds of the rate of background work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate_min: Option<KeptRate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate_max: Option<KeptRate>,
}

impl SettingsFile {
    fn keep_tunables(&mut self, policy: &str) {
        let name = policy.split(':').next().unwrap_or(policy);
        self.tunables.insert(name.to_owned(), policy.to_owned());
    }
}

/// A scheduler that was set live.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptScheduler {
    /// As `NAME:key=value,...`.
    spec: String,
    /// The command line's when it was set.
    instead_of: Option<String>,
}

/// A rate that was set live.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptRate {
    bytes_per_s: u64,
    /// The command line's when it was set.
    instead_of: Option<u64>,
}

impl KeptRate {
    /// The rate, where it is to be used rather than the command line's.
    fn unless_overruled(self, given: Option<u64>) -> Option<u64> {
        let is_overruled = given.is_some() && given != self.instead_of;
        (!is_overruled).then_some(self.bytes_per_s)
    }
}

/// What the command line says of what can be set live.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given {
    pub(crate) policy: Option<String>,
    pub(crate) scheduler: Option<SchedulerSpec>,
    pub(crate) rates: RateChange,
}

/// Where settings of one array are kept.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    path: PathBuf,
    /// Whether what is set from now on is kept.
    is_kept: bool,
    given: Given,
}

impl Settings {
    /// Those at `path`; `given` is what the command line says.
    pub(crate) fn new(path: PathBuf, is_kept: bool, given: Given) -> Self {
        Self {
            path,
            is_kept,
            given,
        }
    }

    /// The policy on the command line.
    pub(crate) fn given_policy(&self) -> Option<&str> {
        self.given.policy.as_deref()
    }

    /// The policy that was set live before, where it is to be used rather than the command line's.
    ///
    /// # Errors
    /// Where the file cannot be read or makes no sense.
    pub(crate) fn kept_policy(&self) -> Result<Option<String>, RuntimeError> {
        let file = self.load()?;
        let given = &self.given.policy;
        let is_overruled = given.is_some() && *given != file.instead_of;
        Ok(file.policy.filter(|_| !is_overruled))
    }

    /// The policies whose tunables were set live before, in their full forms.
    ///
    /// # Errors
    /// As [`Self::kept_policy`].
    pub(crate) fn kept_tunables(&self) -> Result<Vec<String>, RuntimeError> {
        Ok(self.load()?.tunables.into_values().collect())
    }

    /// The roles of the legs that are preferred for reads.
    ///
    /// # Errors
    /// As [`Self::kept_policy`].
    pub(crate) fn read_preferred(&self) -> Result<Vec<usize>, RuntimeError> {
        Ok(self.load()?.read_preferred)
    }

    /// The bounds of the rate of background work, where they are not the default ones.
    ///
    /// # Errors
    /// As [`Self::kept_policy`].
    pub(crate) fn rates(&self) -> Result<RateChange, RuntimeError> {
        let file = self.load()?;
        let chosen = |kept: Option<KeptRate>, given: Option<u64>| {
            kept.and_then(|kept| kept.unless_overruled(given)).or(given)
        };
        let given = self.given.rates;
        Ok(RateChange {
            min_bytes_per_s: chosen(file.rate_min, given.min_bytes_per_s),
            max_bytes_per_s: chosen(file.rate_max, given.max_bytes_per_s),
        })
    }

    /// Keeps a policy that was set live, durably. Blocks.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub(crate) fn keep_policy(&self, policy: &str) -> Result<(), RuntimeError> {
        self.keep("the policy is", |file| {
            file.keep_tunables(policy);
            file.policy = Some(policy.to_owned());
            file.instead_of.clone_from(&self.given.policy);
        })
    }

    /// Keeps the tunables of a policy that is not active, durably. Blocks.
    ///
    /// # Errors
    /// Where they cannot be written.
    pub(crate) fn keep_tunables(&self, policy: &str) -> Result<(), RuntimeError> {
        self.keep("the value is", |file| file.keep_tunables(policy))
    }

    /// Keeps which legs are preferred for reads, durably. Blocks.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub(crate) fn keep_preferred(&self, roles: Vec<usize>) -> Result<(), RuntimeError> {
        self.keep("the preference is", |file| file.read_preferred = roles)
    }

    /// The scheduler on the command line, or the default one.
    pub(crate) fn given_scheduler(&self) -> SchedulerSpec {
        self.given.scheduler.unwrap_or_default()
    }

    fn given_scheduler_text(&self) -> Option<String> {
        self.given.scheduler.map(|spec| spec.to_string())
    }

    /// The scheduler that was set live before, where it is to be used rather than the command
    /// line's.
    ///
    /// # Errors
    /// As [`Self::kept_policy`].
    pub(crate) fn kept_scheduler(&self) -> Result<Option<String>, RuntimeError> {
        let given = self.given_scheduler_text();
        let kept = self.load()?.scheduler;
        let kept = kept.filter(|kept| given.is_none() || given == kept.instead_of);
        Ok(kept.map(|kept| kept.spec))
    }

    /// Keeps a scheduler that was set live, durably. Blocks.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub(crate) fn keep_scheduler(&self, spec: &SchedulerSpec) -> Result<(), RuntimeError> {
        self.keep("the scheduler is", |file| {
            file.scheduler = Some(KeptScheduler {
                spec: spec.to_string(),
                instead_of: self.given_scheduler_text(),
            });
        })
    }

    /// Keeps rates that were set live, durably; those that are `None` stay as they are. Blocks.
    ///
    /// # Errors
    /// Where they cannot be written.
    pub(crate) fn keep_rates(&self, rates: RateChange) -> Result<(), RuntimeError> {
        let kept = |rate: Option<u64>, given: Option<u64>| {
            rate.map(|bytes_per_s| KeptRate {
                bytes_per_s,
                instead_of: given,
            })
        };
        let given = self.given.rates;
        self.keep("the rates are", |file| {
            let min = kept(rates.min_bytes_per_s, given.min_bytes_per_s);
            let max = kept(rates.max_bytes_per_s, given.max_bytes_per_s);
            file.rate_min = min.or(file.rate_min);
            file.rate_max = max.or(file.rate_max);
        })
    }

    /// Changes the file; `what` is what would not be back after a restart otherwise.
    fn keep(&self, what: &str, change: impl FnOnce(&mut SettingsFile)) -> Result<(), RuntimeError> {
        if !self.is_kept {
            return Ok(());
        }
        let kept = self.load().and_then(|mut file| {
            change(&mut file);
            let mut bytes = serde_json::to_vec_pretty(&file).expect("a plain struct is JSON");
            bytes.push(b'\n');
            let written = durable::replace(&self.path, &bytes);
            written.map_err(|error| {
                RuntimeError(format!("cannot write {}: {error}", self.path.display()))
            })
        });
        kept.map_err(|error| {
            RuntimeError(format!(
                "{what} active now, but will not be back after a restart: {error}"
            ))
        })
    }

    fn load(&self) -> Result<SettingsFile, RuntimeError> {
        let path = &self.path;
        let bytes = match fs::read(path) {
            // What is wrong with the directory is said when files are made there.
            Err(error) if is_absent(&error) => {
                return Ok(SettingsFile {
                    version: VERSION,
                    ..SettingsFile::default()
                });
            }
            other => other.map_err(|error| unreadable(path, &error))?,
        };
        let file: SettingsFile =
            serde_json::from_slice(&bytes).map_err(|error| unreadable(path, &error))?;
        if file.version != VERSION {
            let problem = format!("it has version {}, and this program reads 1", file.version);
            return Err(unreadable(path, &problem));
        }
        Ok(file)
    }
}

fn is_absent(error: &io::Error) -> bool {
    [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&error.kind())
}

fn unreadable(path: &Path, problem: &dyn std::fmt::Display) -> RuntimeError {
    RuntimeError(format!(
        "cannot read the settings in {}: {problem}; mend the file or remove it",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use heliostat_scheduler::SchedulerSpec;

    use super::{Given, Settings};
    use crate::rates::RateChange;
    use crate::scratch::Scratch;

    fn given(policy: Option<&str>) -> Given {
        Given {
            policy: policy.map(str::to_owned),
            ..Given::default()
        }
    }

    fn rates(min: Option<u64>, max: Option<u64>) -> RateChange {
        RateChange {
            min_bytes_per_s: min,
            max_bytes_per_s: max,
        }
    }

    #[test]
    fn the_policy_set_last_wins() {
        let scratch = Scratch::new();
        let path = scratch.path().join("disk.settings");
        let settings = |policy: Option<&str>| Settings::new(path.clone(), true, given(policy));
        let kept = |given| settings(given).kept_policy().unwrap();
        assert_eq!(kept(None), None);
        assert_eq!(kept(Some("pid")), None);

        settings(Some("pid")).keep_policy("queue").unwrap();
        assert_eq!(kept(Some("pid")).as_deref(), Some("queue"));
        assert_eq!(kept(None).as_deref(), Some("queue"));
        // A new decision on the command line.
        assert_eq!(kept(Some("zfs")), None);

        settings(None).keep_policy("latency").unwrap();
        assert_eq!(kept(None).as_deref(), Some("latency"));
        assert_eq!(kept(Some("zfs")), None);
    }

    #[test]
    fn the_scheduler_set_last_wins_and_leaves_the_policy() {
        let scratch = Scratch::new();
        let path = scratch.path().join("disk.settings");
        let parse = |text: &str| SchedulerSpec::parse(text).unwrap();
        let settings = |scheduler: Option<&str>| {
            let given = Given {
                scheduler: scheduler.map(parse),
                ..Given::default()
            };
            Settings::new(path.clone(), true, given)
        };
        let kept = |given| settings(given).kept_scheduler().unwrap();
        assert_eq!(kept(None), None);
        settings(None).keep_policy("queue").unwrap();
        let tuned = "deadline:fifo_batch=8";
        settings(Some("none"))
            .keep_scheduler(&parse(tuned))
            .unwrap();
        assert_eq!(kept(Some("none")).as_deref(), Some(tuned));
        assert_eq!(kept(None).as_deref(), Some(tuned));
        // A new decision on the command line.
        assert_eq!(kept(Some("deadline")), None);
        assert_eq!(
            settings(Some("deadline")).given_scheduler(),
            parse("deadline")
        );
        assert_eq!(settings(None).given_scheduler(), SchedulerSpec::None);
        let policy = settings(None).kept_policy().unwrap();
        assert_eq!(policy.as_deref(), Some("queue"));
    }

    #[test]
    fn what_is_set_in_passing_is_not_kept() {
        let scratch = Scratch::new();
        let path = scratch.path().join("disk.settings");
        let settings = |is_kept| Settings::new(path.clone(), is_kept, Given::default());
        settings(true).keep_policy("pid").unwrap();
        settings(false).keep_policy("queue").unwrap();
        assert_eq!(
            settings(false).kept_policy().unwrap().as_deref(),
            Some("pid")
        );
    }

    #[test]
    fn a_broken_file_is_an_error_that_names_it() {
        let scratch = Scratch::new();
        let path = scratch.path().join("disk.settings");
        for text in [
            "",
            "{}",
            "{\"version\": 9, \"policy\": \"pid\", \"instead_of\": null}",
        ] {
            std::fs::write(&path, text).unwrap();
            let settings = Settings::new(path.clone(), true, Given::default());
            let error = settings.kept_policy().unwrap_err();
            assert!(error.to_string().contains("disk.settings"), "{error}");
            // Nor is it overwritten.
            let error = settings.keep_policy("pid").unwrap_err();
            assert!(error.to_string().contains("active now"), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn a_directory_that_is_a_file_is_no_broken_file_in_it() {
        let scratch = Scratch::new();
        let file = scratch.path().join("file");
        std::fs::write(&file, "precious").unwrap();
        let settings = Settings::new(file.join("disk.settings"), true, Given::default());
        assert_eq!(settings.kept_policy().unwrap(), None);
    }

    #[test]
    fn rates_are_kept_one_by_one_and_beside_the_policy() {
        let scratch = Scratch::new();
        let path = scratch.path().join("disk.settings");
        let settings = |min, max| {
            let given = Given {
                rates: rates(min, max),
                ..Given::default()
            };
            Settings::new(path.clone(), true, given)
        };
        assert_eq!(
            settings(None, Some(9)).rates().unwrap(),
            rates(None, Some(9))
        );
        settings(None, None).keep_policy("pid").unwrap();
        settings(None, Some(9))
            .keep_rates(rates(None, Some(5)))
            .unwrap();
        settings(Some(2), None)
            .keep_rates(rates(Some(1), None))
            .unwrap();
        let none = settings(None, None);
        assert_eq!(none.rates().unwrap(), rates(Some(1), Some(5)));
        assert_eq!(none.kept_policy().unwrap().as_deref(), Some("pid"));
        // As on the command line when they were set, and then other ones.
        let same = settings(Some(2), Some(9)).rates().unwrap();
        assert_eq!(same, rates(Some(1), Some(5)));
        let other = settings(Some(3), Some(8)).rates().unwrap();
        assert_eq!(other, rates(Some(3), Some(8)));
    }
}
