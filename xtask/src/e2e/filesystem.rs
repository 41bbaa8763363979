//! A file system on the served array, through FUSE and a loop device.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::Test;
use super::legs::{self, LEG_BYTES, LoopDevice, Mount};
use super::room::Room;
use super::server::Server;
use crate::process::{self, Background};

pub(super) const TESTS: &[Test] = &[Test {
    name: "filesystem",
    about: "ext4 over loop over nbdfuse: files copied, legs equal, served again, files there",
    run: filesystem,
}];

/// How long nbdfuse may take until its file is there.
const READY_TIME_MAX: Duration = Duration::from_secs(10);

fn filesystem(room: &Room) -> Result<()> {
    room.require_fuse()?;
    room.require_loop_devices()?;
    room.require_tools(&["mkfs.ext4"])?;
    let legs = legs::sparse(room)?;
    let files = files(room)?;
    let place = room.new_directory("files-on-array")?;

    let server = Server::start(room, &legs, &[])?;
    {
        let device = Device::attach(room, &server.uri(), "first")?;
        room.run("mkfs.ext4", &["-q", device.path()])?;
        let _mount = Mount::device(room, device.path(), &place)?;
        copy(room, &files, &place)?;
        ensure_same_files(room, &files, &place)?;
    }
    server.terminate()?;
    legs::ensure_equal(&legs)?;

    let server = Server::start(room, &legs, &[])?;
    {
        let device = Device::attach(room, &server.uri(), "second")?;
        room.run("fsck.ext4", &["-f", "-n", device.path()])?;
        let _mount = Mount::device(room, device.path(), &place)?;
        ensure_same_files(room, &files, &place)?;
    }
    server.terminate()?;
    legs::ensure_equal(&legs)
}

/// Files of all sizes: the sources of this repository, and a large one with holes.
fn files(room: &Room) -> Result<PathBuf> {
    let directory = room.new_directory("files")?;
    let sources = room.root.join("crates");
    copy(room, &sources, &directory)?;
    legs::random_file(room, "files/large", LEG_BYTES / 4)?;
    Ok(directory)
}

fn copy(room: &Room, from: &Path, to: &Path) -> Result<()> {
    let from = format!("{}/.", from.display());
    room.run("cp", &["-r", &from, &to.display().to_string()])?;
    room.run("sync", &["--file-system", &to.display().to_string()])?;
    Ok(())
}

fn ensure_same_files(room: &Room, files: &Path, place: &Path) -> Result<()> {
    let (files, place) = (files.display().to_string(), place.display().to_string());
    let options = ["-r", "--no-dereference", "--exclude=lost+found"];
    room.run("diff", &[&options[..], &[&files, &place]].concat())?;
    Ok(())
}

/// A served array as a block device: nbdfuse shows it as a file, and a loop device that as a disk.
struct Device<'a> {
    // Dropped in this order.
    disk: LoopDevice<'a>,
    _mount: Mount<'a>,
    _fuse: Background,
}

impl<'a> Device<'a> {
    fn attach(room: &'a Room, uri: &str, name: &str) -> Result<Self> {
        let place = room.new_directory(name)?;
        let file = place.join("disk");
        let mut nbdfuse = Command::new("nbdfuse");
        nbdfuse.arg(&file).arg(uri);
        let log = room.path(&format!("{name}.log"));
        let mut fuse = Background::start(&mut nbdfuse, &log)?;
        process::wait_until("nbdfuse", READY_TIME_MAX, || {
            anyhow::ensure!(fuse.is_running()?, "nbdfuse ended");
            Ok(file.exists())
        })?;
        let mount = Mount::adopt(room, &place);
        Ok(Self {
            disk: LoopDevice::attach(room, &file, 512)?,
            _mount: mount,
            _fuse: fuse,
        })
    }

    fn path(&self) -> &str {
        self.disk.path()
    }
}
