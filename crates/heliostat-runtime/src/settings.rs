//! What was set while the array was served, kept under its name.
//!
//! The policy set last wins: one set live beats the command line's, until somebody starts the daemon
//! with another `--policy` than the one it had when the live one was set.

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};

use crate::RuntimeError;
use crate::durable;

const VERSION: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingsFile {
    version: u32,
    /// The policy set live, as `NAME:VALUE`.
    policy: String,
    /// The command line's policy when it was set.
    instead_of: Option<String>,
}

/// Where settings of one array are kept.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Nothing where they are not to be kept.
    path: Option<PathBuf>,
    /// The policy on the command line.
    given: Option<String>,
}

impl Settings {
    /// Kept at `path`, or not at all; `given` is the policy on the command line.
    pub(crate) fn new(path: Option<PathBuf>, given: Option<String>) -> Self {
        Self { path, given }
    }

    /// The policy to start with, if any was said.
    ///
    /// # Errors
    /// Where the file cannot be read or makes no sense.
    pub(crate) fn policy(&self) -> Result<Option<String>, RuntimeError> {
        let Some(path) = &self.path else {
            return Ok(self.given.clone());
        };
        let bytes = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(self.given.clone()),
            other => other.map_err(|error| unreadable(path, &error))?,
        };
        let file: SettingsFile =
            serde_json::from_slice(&bytes).map_err(|error| unreadable(path, &error))?;
        if file.version != VERSION {
            let problem = format!("it has version {}, and this program reads 1", file.version);
            return Err(unreadable(path, &problem));
        }
        if self.given.is_some() && self.given != file.instead_of {
            return Ok(self.given.clone());
        }
        Ok(Some(file.policy))
    }

    /// Keeps a policy that was set live, durably. Blocks.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub(crate) fn keep_policy(&self, policy: &str) -> Result<(), RuntimeError> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let file = SettingsFile {
            version: VERSION,
            policy: policy.to_owned(),
            instead_of: self.given.clone(),
        };
        let mut bytes = serde_json::to_vec_pretty(&file).expect("a plain struct is JSON");
        bytes.push(b'\n');
        durable::replace(path, &bytes).map_err(|error| {
            RuntimeError(format!(
                "the policy is active now, but will not be back after a restart: cannot write {}: \
                 {error}",
                path.display()
            ))
        })
    }
}

fn unreadable(path: &Path, problem: &dyn std::fmt::Display) -> RuntimeError {
    RuntimeError(format!(
        "cannot read the settings in {}: {problem}; mend the file or remove it",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::Settings;
    use crate::scratch::Scratch;

    #[test]
    fn the_policy_set_last_wins() {
        let scratch = Scratch::new();
        let path = scratch.path().join("disk.settings");
        let settings =
            |given: Option<&str>| Settings::new(Some(path.clone()), given.map(str::to_owned));
        let policy = |given| settings(given).policy().unwrap();
        assert_eq!(policy(None), None);
        assert_eq!(policy(Some("pid")).as_deref(), Some("pid"));

        settings(Some("pid")).keep_policy("queue").unwrap();
        assert_eq!(policy(Some("pid")).as_deref(), Some("queue"));
        assert_eq!(policy(None).as_deref(), Some("queue"));
        // A new decision on the command line.
        assert_eq!(policy(Some("zfs")).as_deref(), Some("zfs"));

        settings(None).keep_policy("latency").unwrap();
        assert_eq!(policy(None).as_deref(), Some("latency"));
        assert_eq!(policy(Some("zfs")).as_deref(), Some("zfs"));
    }

    #[test]
    fn nothing_is_kept_where_nothing_is_to_be() {
        let settings = Settings::new(None, Some("pid".to_owned()));
        settings.keep_policy("queue").unwrap();
        assert_eq!(settings.policy().unwrap().as_deref(), Some("pid"));
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
            let error = Settings::new(Some(path.clone()), None)
                .policy()
                .unwrap_err();
            assert!(error.to_string().contains("disk.settings"), "{error}");
        }
    }
}
