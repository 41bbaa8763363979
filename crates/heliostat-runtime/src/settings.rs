//! What was set while the array was served, kept under its name.
//!
//! The policy set last wins: one set live beats the command line's, until somebody starts the
//! daemon with another `--policy` than the one it had when the live one was set.

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
    path: PathBuf,
    /// Whether what is set from now on is kept.
    is_kept: bool,
    /// The policy on the command line.
    given: Option<String>,
}

impl Settings {
    /// Those at `path`; `given` is the policy on the command line.
    pub(crate) fn new(path: PathBuf, is_kept: bool, given: Option<String>) -> Self {
        Self {
            path,
            is_kept,
            given,
        }
    }

    /// The policy on the command line.
    pub(crate) fn given_policy(&self) -> Option<&str> {
        self.given.as_deref()
    }

    /// The policy that was set live before, where it is to be used rather than the command line's.
    ///
    /// # Errors
    /// Where the file cannot be read or makes no sense.
    pub(crate) fn kept_policy(&self) -> Result<Option<String>, RuntimeError> {
        let path = &self.path;
        let bytes = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|error| unreadable(path, &error))?,
        };
        let file: SettingsFile =
            serde_json::from_slice(&bytes).map_err(|error| unreadable(path, &error))?;
        if file.version != VERSION {
            let problem = format!("it has version {}, and this program reads 1", file.version);
            return Err(unreadable(path, &problem));
        }
        let is_overruled = self.given.is_some() && self.given != file.instead_of;
        Ok((!is_overruled).then_some(file.policy))
    }

    /// Keeps a policy that was set live, durably. Blocks.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub(crate) fn keep_policy(&self, policy: &str) -> Result<(), RuntimeError> {
        if !self.is_kept {
            return Ok(());
        }
        let file = SettingsFile {
            version: VERSION,
            policy: policy.to_owned(),
            instead_of: self.given.clone(),
        };
        let mut bytes = serde_json::to_vec_pretty(&file).expect("a plain struct is JSON");
        bytes.push(b'\n');
        durable::replace(&self.path, &bytes).map_err(|error| {
            RuntimeError(format!(
                "the policy is active now, but will not be back after a restart: cannot write {}: \
                 {error}",
                self.path.display()
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
            |given: Option<&str>| Settings::new(path.clone(), true, given.map(str::to_owned));
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
    fn what_is_set_in_passing_is_not_kept() {
        let scratch = Scratch::new();
        let path = scratch.path().join("disk.settings");
        let settings = |is_kept| Settings::new(path.clone(), is_kept, None);
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
            let error = Settings::new(path.clone(), true, None)
                .kept_policy()
                .unwrap_err();
            assert!(error.to_string().contains("disk.settings"), "{error}");
        }
    }
}
