//! Where things lie in the file system.
//!
//! Control sockets lie where nothing survives a reboot (`/run/heliostat`, or
//! `$XDG_RUNTIME_DIR/heliostat` for users). What is remembered of legs and settings must survive it
//! and lies in `/var/lib/heliostat`, or `$XDG_STATE_HOME/heliostat`. Whoever names a directory gets
//! both in it.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::{RuntimeError, UsageError};

/// The longest name of an array: it becomes part of names of files and sockets.
const NAME_BYTES_MAX: usize = 64;

/// The two directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Of the control sockets.
    pub control: PathBuf,
    /// Of what is remembered.
    pub state: PathBuf,
}

impl Places {
    /// `given` for both, or the defaults for whoever runs this.
    ///
    /// # Errors
    /// Where there is neither a directory for a user's sockets nor a home.
    pub fn choose(given: Option<&Path>) -> Result<Self, RuntimeError> {
        if let Some(directory) = given {
            return Ok(Self {
                control: directory.to_owned(),
                state: directory.to_owned(),
            });
        }
        Self::for_user(rustix::process::geteuid().is_root(), |name| {
            std::env::var_os(name).filter(|value| !value.is_empty())
        })
    }

    fn for_user(
        is_root: bool,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, RuntimeError> {
        if is_root {
            return Ok(Self {
                control: PathBuf::from("/run/heliostat"),
                state: PathBuf::from("/var/lib/heliostat"),
            });
        }
        let runtime = variable("XDG_RUNTIME_DIR").ok_or_else(|| {
            RuntimeError(
                "there is no place for the control socket: XDG_RUNTIME_DIR is not set; name one \
                 with --control-dir DIR"
                    .to_owned(),
            )
        })?;
        let state = variable("XDG_STATE_HOME").map(PathBuf::from);
        let home = || variable("HOME").map(|home| Path::new(&home).join(".local/state"));
        let state = state.or_else(home).ok_or_else(|| {
            RuntimeError(
                "there is no place to remember the legs: neither XDG_STATE_HOME nor HOME is set; \
                 name one with --control-dir DIR"
                    .to_owned(),
            )
        })?;
        Ok(Self {
            control: Path::new(&runtime).join("heliostat"),
            state: state.join("heliostat"),
        })
    }

    /// What a command has to be told besides to find an array here: nothing, or
    /// ` --control-dir DIR`.
    #[must_use]
    pub fn option(&self) -> String {
        // Only who names a directory gets one for both.
        if self.control != self.state {
            return String::new();
        }
        let directory = std::path::absolute(&self.control);
        let directory = directory.as_ref().unwrap_or(&self.control);
        format!(
            " --control-dir {}",
            shell_word(&directory.display().to_string())
        )
    }

    /// Makes both directories, for their owner alone, where they are not there yet.
    ///
    /// # Errors
    /// Where that fails, or somebody else could put files into one.
    pub(crate) fn create(&self) -> Result<(), RuntimeError> {
        for directory in [&self.control, &self.state] {
            let failed = |problem: &dyn std::fmt::Display| {
                RuntimeError(format!(
                    "cannot use the directory {}: {problem}; name another one with --control-dir \
                     DIR",
                    directory.display()
                ))
            };
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(0o700);
            builder.create(directory).map_err(|error| failed(&error))?;
            let found = directory.metadata().map_err(|error| failed(&error))?;
            let us = rustix::process::geteuid().as_raw();
            if found.uid() != us && found.uid() != 0 {
                return Err(failed(&"it belongs to another user"));
            }
            // The sticky bit keeps others from replacing our files, but not from making theirs.
            if found.permissions().mode() & 0o022 != 0 {
                let problem = "others than its owner may write to it ('chmod go-w' mends that)";
                return Err(failed(&problem));
            }
        }
        Ok(())
    }

    /// The control socket of the array called `name`.
    #[must_use]
    pub fn socket(&self, name: &str) -> PathBuf {
        self.control.join(format!("{name}.sock"))
    }

    /// What the daemon that serves `name` holds locked as long as it lives.
    pub(crate) fn lock(&self, name: &str) -> PathBuf {
        self.control.join(format!("{name}.lock"))
    }

    /// What was set live on the array called `name`.
    pub(crate) fn settings(&self, name: &str) -> PathBuf {
        self.state.join(format!("{name}.settings"))
    }

    /// What the read policy of the array called `name` has learned.
    pub(crate) fn learned(&self, name: &str) -> PathBuf {
        self.state.join(format!("{name}.learned"))
    }

    /// What scrubs of the array called `name` found.
    pub(crate) fn scrubs(&self, name: &str) -> PathBuf {
        self.state.join(format!("{name}.scrubs"))
    }
}

/// A word as a shell takes it for one.
#[must_use]
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Whether `name` may be the name of an array.
///
/// # Errors
/// Where it may not; the text says why.
pub fn check_name(name: &str) -> Result<(), UsageError> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let problem = if name.is_empty() {
        "it is empty".to_owned()
    } else if name.len() > NAME_BYTES_MAX {
        format!("it is longer than {NAME_BYTES_MAX} bytes")
    } else if name.starts_with(['-', '.']) {
        "it begins with a dash or a dot".to_owned()
    } else if let Some(c) = name.chars().find(|&c| !is_allowed(c)) {
        format!("it contains {c:?}; letters, digits, '-', '_' and '.' are allowed")
    } else {
        return Ok(());
    };
    Err(UsageError(format!(
        "'{name}' cannot be the name of an array: {problem}"
    )))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use super::{Places, check_name, shell_word};
    use crate::scratch::Scratch;

    #[test]
    fn a_shell_reads_one_word() {
        assert_eq!(shell_word("/run/a-b_1.d"), "/run/a-b_1.d");
        assert_eq!(shell_word(""), "''");
        assert_eq!(shell_word("two words"), "'two words'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
    }

    #[test]
    fn whoever_named_a_directory_is_told_to_name_it_again() {
        let given = Places::choose(Some(Path::new("/a b"))).unwrap();
        assert_eq!(given.option(), " --control-dir '/a b'");
        let root = Places::for_user(true, |_| None).unwrap();
        assert_eq!(root.option(), "");
    }

    #[test]
    fn defaults_follow_the_user() {
        let none = |_: &str| None;
        let root = Places::for_user(true, none).unwrap();
        assert_eq!(root.socket("disk"), Path::new("/run/heliostat/disk.sock"));
        assert_eq!(root.state, Path::new("/var/lib/heliostat"));
        assert!(Places::for_user(false, none).is_err());
        let user = Places::for_user(false, |name| {
            (name != "XDG_STATE_HOME").then(|| OsString::from(format!("/{name}")))
        });
        let user = user.unwrap();
        assert_eq!(user.control, Path::new("/XDG_RUNTIME_DIR/heliostat"));
        assert_eq!(user.state, Path::new("/HOME/.local/state/heliostat"));
    }

    #[test]
    fn a_directory_is_written_by_its_owner_alone() {
        let scratch = Scratch::new();
        let places = Places::choose(Some(&scratch.path().join("new"))).unwrap();
        places.create().unwrap();
        for mode in [0o770, 0o702, 0o1777] {
            std::fs::set_permissions(&places.state, Permissions::from_mode(mode)).unwrap();
            let error = places.create().unwrap_err().to_string();
            assert!(error.contains("chmod go-w"), "{error}");
        }
        std::fs::set_permissions(&places.state, Permissions::from_mode(0o755)).unwrap();
        places.create().unwrap();
    }

    #[test]
    fn names() {
        for name in ["disk", "a.b-c_1", "7"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in [
            "",
            "a/b",
            "mem:1",
            ".",
            "-x",
            "a b",
            "\u{e4}",
            &"x".repeat(65),
        ] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
