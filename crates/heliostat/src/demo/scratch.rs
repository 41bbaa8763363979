//! A directory for the sockets of the real part, which is gone when the demo ends.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

/// How many names are tried.
const ATTEMPTS_MAX: u32 = 100;

/// A directory that only its owner can enter.
#[derive(Debug)]
pub(super) struct ScratchDirectory(PathBuf);

impl ScratchDirectory {
    /// Makes one among the temporary files.
    ///
    /// # Errors
    /// Where that is not possible.
    pub(super) fn new() -> anyhow::Result<Self> {
        // Paths of sockets are short (108 bytes): the name holds no more than the process, and a
        // number in case one that was killed has left its directory.
        let parent = std::env::temp_dir();
        let id = std::process::id();
        for number in 0..ATTEMPTS_MAX {
            let path = parent.join(format!("heliostat-demo-{id}-{number}"));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(error)
                        .with_context(|| format!("cannot make the directory {}", path.display()));
                }
            }
        }
        bail!(
            "{} is full of directories of demos that were killed",
            parent.display()
        )
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        // What cannot be removed is left to whoever cleans up temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}
