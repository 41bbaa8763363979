//! Small files that are whole or absent, whatever happens, and survive a power cut once written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Replaces the file at `path` by `bytes`, readable by its owner alone: a new file beside it is
/// written and flushed, takes its name, and the directory is flushed.
///
/// # Errors
/// What the kernel says; the old file is still there then, or the new one is.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = beside(path);
    let written = write_new(&new, bytes).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        // The error before is the one to tell.
        let _ = fs::remove_file(&new);
    }
    written?;
    flush_directory(path)
}

/// Removes the file at `path`, for good.
///
/// # Errors
/// What the kernel says, but not that there was none.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.and_then(|()| flush_directory(path)),
    }
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.custom_flags(libc::O_NOFOLLOW);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    PathBuf::from(name)
}

fn flush_directory(path: &Path) -> io::Result<()> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::{beside, replace};
    use crate::scratch::Scratch;

    #[test]
    fn a_link_is_not_followed() {
        let scratch = Scratch::new();
        let (path, other) = (scratch.path().join("state"), scratch.path().join("other"));
        std::fs::write(&other, "precious").unwrap();
        std::os::unix::fs::symlink(&other, beside(&path)).unwrap();
        replace(&path, b"new").unwrap_err();
        assert_eq!(std::fs::read(&other).unwrap(), b"precious");
        // The link is gone, and the way free again.
        replace(&path, b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
    }
}
