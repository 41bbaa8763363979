//! One daemon per name: a file that is locked for as long as the daemon lives, and says by whom.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::RuntimeError;
use crate::places::Places;

/// Held until dropped; then the file is removed.
#[derive(Debug)]
pub(crate) struct ArrayLock {
    path: PathBuf,
    _file: File,
}

impl ArrayLock {
    /// Takes the lock at `path` for the array called `name`; `way_out` is what somebody can do
    /// where it is served, in the words that end the message.
    ///
    /// # Errors
    /// Where another process has it; the message says which. Where no file can be made there.
    pub(crate) fn take(path: PathBuf, name: &str, way_out: &str) -> Result<Self, RuntimeError> {
        let failed = |error: std::io::Error| {
            RuntimeError(format!(
                "cannot lock {}: {error}; see to it that files can be made there, or name another \
                 directory with --control-dir DIR",
                path.display()
            ))
        };
        loop {
            let mut options = OpenOptions::new();
            options
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(libc::O_NOFOLLOW);
            let mut file = options.open(&path).map_err(failed)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => return Err(is_served(name, &mut file, way_out)),
                other => other.map_err(|error| failed(error.into()))?,
            }
            // Whoever had it may have removed it between our opening and our locking.
            if !is_at(&file, &path) {
                continue;
            }
            let written = file
                .set_len(0)
                .and_then(|()| writeln!(file, "{}", std::process::id()));
            written.map_err(failed)?;
            return Ok(Self { path, _file: file });
        }
    }
}

impl Drop for ArrayLock {
    fn drop(&mut self) {
        // What is left behind is only a file that nobody has locked.
        let _ = fs::remove_file(&self.path);
    }
}

/// Which process serves the array called `name`, where one does that can be seen from here.
#[must_use]
pub fn server_of(places: &Places, name: &str) -> Option<u32> {
    let pid = fs::read_to_string(places.lock(name)).ok()?;
    let pid: u32 = pid.trim().parse().ok()?;
    // The file stays behind where one was killed.
    Path::new(&format!("/proc/{pid}")).exists().then_some(pid)
}

fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(ours), Ok(there)) = (file.metadata(), path.metadata()) else {
        return false;
    };
    (ours.dev(), ours.ino()) == (there.dev(), there.ino())
}

fn is_served(name: &str, file: &mut File, way_out: &str) -> RuntimeError {
    let mut pid = String::new();
    let by = match file.read_to_string(&mut pid) {
        Ok(_) if !pid.trim().is_empty() => format!("process {}", pid.trim()),
        _ => "another process".to_owned(),
    };
    RuntimeError(format!("array '{name}' is served by {by} already{way_out}"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{ArrayLock, server_of};
    use crate::places::Places;
    use crate::scratch::Scratch;

    #[test]
    fn a_name_is_served_once_and_free_afterwards() {
        let scratch = Scratch::new();
        let path = scratch.path().join("disk.lock");
        let lock = ArrayLock::take(path.clone(), "disk", "; stop it").unwrap();
        let error = ArrayLock::take(path.clone(), "disk", "; stop it")
            .unwrap_err()
            .to_string();
        let us = format!("process {}", std::process::id());
        assert!(error.contains(&us), "{error}");
        assert!(error.ends_with("already; stop it"), "{error}");
        let places = Places::choose(Some(scratch.path())).unwrap();
        assert_eq!(server_of(&places, "disk"), Some(std::process::id()));
        drop(lock);
        assert!(!path.exists());
        assert_eq!(server_of(&places, "disk"), None);
        // A file that somebody left behind is no lock.
        std::fs::write(&path, "1\n").unwrap();
        ArrayLock::take(path, "disk", "").unwrap();
    }

    #[test]
    fn where_no_file_can_be_made_nobody_is_to_be_stopped() {
        let path = Path::new("/proc/self/no-such/disk.lock").to_owned();
        let error = ArrayLock::take(path, "disk", "; stop that one").unwrap_err();
        let error = error.to_string();
        assert!(error.ends_with("with --control-dir DIR"), "{error}");
        assert!(!error.contains("stop"), "{error}");
    }

    #[test]
    fn a_link_is_not_followed() {
        let scratch = Scratch::new();
        let (path, other) = (scratch.path().join("lock"), scratch.path().join("other"));
        std::fs::write(&other, "precious").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        ArrayLock::take(path, "disk", "").unwrap_err();
        assert_eq!(std::fs::read(&other).unwrap(), b"precious");
    }
}
