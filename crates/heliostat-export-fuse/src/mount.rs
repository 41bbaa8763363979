//! Where the files appear, and that they are gone afterwards.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use heliostat_runtime::{Handle, RuntimeError};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::Files;
use crate::volume::Volume;

/// The control files of one array, mounted until this is dropped.
#[derive(Debug)]
pub struct ControlFiles {
    directory: PathBuf,
    session: Option<BackgroundSession>,
}

impl ControlFiles {
    /// Has the files of an array appear in `directory`, which is made where it is not there.
    ///
    /// # Errors
    /// Where the kernel has no FUSE, whoever runs this may not use it, or something else is in the
    /// directory.
    pub fn mount(handle: Handle, volume: Volume, directory: &Path) -> Result<Self, RuntimeError> {
        let mounted = mount(Files::new(handle, volume), directory);
        let session = mounted.map_err(|error| {
            RuntimeError(format!(
                "cannot show control files in {}: {error}",
                directory.display()
            ))
        })?;
        Ok(Self {
            directory: directory.to_owned(),
            session: Some(session),
        })
    }

    /// Where they are.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

fn mount(files: Files, directory: &Path) -> io::Result<BackgroundSession> {
    detach_stale(directory)?;
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o755).create(directory)?;
    if fs::read_dir(directory)?.next().is_some() {
        return Err(io::Error::other("the directory is not empty"));
    }
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("heliostat".to_owned()),
        MountOption::Subtype("heliostat".to_owned()),
        MountOption::DefaultPermissions,
        MountOption::NoDev,
        MountOption::NoSuid,
        MountOption::NoExec,
    ];
    config.acl = SessionACL::Owner;
    Session::new(files, directory, &config)?.spawn()
}

/// Takes away what a daemon that was killed has left in `directory`: a file system that nobody
/// answers for. Whether there was one.
///
/// # Errors
/// Where that is not possible.
pub fn detach_stale(directory: &Path) -> io::Result<bool> {
    // What the kernel remembers of names and modes it would tell without asking; this it asks.
    match rustix::fs::statfs(directory) {
        Err(Errno::NOTCONN | Errno::CONNABORTED) => {
            detach(directory)?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// Whoever has a file open keeps it; nobody else finds it.
fn detach(directory: &Path) -> io::Result<()> {
    match rustix::mount::unmount(directory, UnmountFlags::DETACH) {
        // Without privileges a helper of the system does it, for who has mounted it.
        Err(Errno::PERM) => {
            let mut helper = Command::new("fusermount3");
            helper.args(["-u", "-q", "-z", "--"]).arg(directory);
            let is_done = helper.status()?.success();
            is_done.then_some(()).ok_or_else(|| Errno::PERM.into())
        }
        done => Ok(done?),
    }
}

impl Drop for ControlFiles {
    fn drop(&mut self) {
        // Whoever is looking does not hold up the end; the rest is the kernel's, and where it
        // refuses there is nobody to tell.
        let _ = detach(&self.directory);
        // Without privileges only a helper of the system may unmount, and the library asks it.
        drop(self.session.take());
        let _ = fs::remove_dir(&self.directory);
    }
}
