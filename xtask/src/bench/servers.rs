//! The servers that are measured, each with its data in memory.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::process::Background;
use crate::tools;

/// How large the served disk is: more than any processor's cache, and quickly filled.
pub(super) const SIZE_BYTES: u64 = 256 << 20;

/// How many copies the mirrors keep.
const COPIES: usize = 3;

/// What the export is called where the server has names.
const EXPORT: &str = "bench";

/// How long a server may take until it listens.
const START_TIME_MAX: Duration = Duration::from_secs(20);

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The program under test: three copies in its own memory.
    Heliostat,
    /// nbdkit's memory plugin: one copy, and no mirror.
    Nbdkit,
    /// QEMU's storage daemon with a quorum that reads its first child: three copies. It has no
    /// disk in memory of its own, so these are files of a tmpfs, through io_uring, which is the
    /// quickest of its ways.
    Quorum,
}

impl Kind {
    /// All of them; the first one is what the others are compared with.
    pub(super) const ALL: [Self; 3] = [Self::Heliostat, Self::Nbdkit, Self::Quorum];

    /// What it is called in tables.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Heliostat => "heliostat",
            Self::Nbdkit => "nbdkit",
            Self::Quorum => "quorum",
        }
    }
}

/// A server that listens; ended, and its files removed, when dropped.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) kind: Kind,
    process: Background,
    socket: PathBuf,
    // Removed last: the process has ended by then.
    _place: Place,
}

impl Server {
    /// Starts a server of this kind.
    ///
    /// # Errors
    /// Where it does not come up.
    pub(super) fn start(kind: Kind, program: &Path) -> Result<Self> {
        let place = Place::new(kind.name())?;
        let socket = place.0.join("socket");
        let mut command = match kind {
            Kind::Heliostat => heliostat(program, &place.0, &socket),
            Kind::Nbdkit => nbdkit(&socket)?,
            Kind::Quorum => quorum(&place.0, &socket)?,
        };
        let mut process = Background::start(&mut command, &place.0.join("log"))?;
        process.wait_for_socket(&socket, START_TIME_MAX)?;
        Ok(Self {
            kind,
            process,
            socket,
            _place: place,
        })
    }

    /// Where clients connect to.
    pub(super) fn uri(&self) -> String {
        format!("nbd+unix:///{EXPORT}?socket={}", self.socket.display())
    }

    /// How much processor time it has used until now, in user and kernel mode.
    ///
    /// # Errors
    /// Where the kernel does not say.
    pub(super) fn cpu_time(&self) -> Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.pid()))?;
        let ticks = cpu_ticks(&stat).context("reading a process's stat")?;
        let per_second = rustix::param::clock_ticks_per_second();
        Ok(Duration::from_nanos(ticks * 1_000_000_000 / per_second))
    }
}

/// utime + stime of a process: the 14th and 15th field, of which the second may contain blanks.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// A directory in memory; removed when dropped.
#[derive(Debug)]
pub(super) struct Place(pub(super) PathBuf);

impl Place {
    /// A new one; `name` tells it from others of this process.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub(super) fn new(name: &str) -> Result<Self> {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() {
            memory.to_owned()
        } else {
            env::temp_dir()
        };
        let path = parent.join(format!("heliostat-bench-{}-{name}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("creating {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("removing {}: {error}", self.0.display());
        }
    }
}

fn heliostat(program: &Path, place: &Path, socket: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["serve", "--control-files", "off"]);
    for _ in 0..COPIES {
        command.arg(format!("mem:{SIZE_BYTES}"));
    }
    command.arg("--control-dir").arg(place.join("control"));
    let uri = format!("nbd+unix:///{EXPORT}?socket={}", socket.display());
    command.args(["--export", &uri]);
    command
}

fn nbdkit(socket: &Path) -> Result<Command> {
    let mut command = Command::new(tools::find("nbdkit").context("nbdkit is missing")?);
    command.args(["--foreground", "--unix"]).arg(socket);
    command.args(["memory", &SIZE_BYTES.to_string()]);
    Ok(command)
}

fn quorum(place: &Path, socket: &Path) -> Result<Command> {
    let program = "qemu-storage-daemon";
    let mut command = Command::new(tools::find(program).context("it is missing")?);
    let mut children = OsString::new();
    for index in 0..COPIES {
        let path = place.join(format!("copy{index}"));
        File::create(&path)?.set_len(SIZE_BYTES)?;
        let file = format!(
            "driver=file,node-name=copy{index},aio=io_uring,filename={}",
            path.display()
        );
        command.args(["--blockdev", &file]);
        children.push(format!(",children.{index}=copy{index}"));
    }
    let mut node = OsString::from("driver=quorum,node-name=quorum,read-pattern=fifo");
    node.push(format!(",vote-threshold={COPIES}"));
    node.push(children);
    command.arg("--blockdev").arg(node);
    let server = format!("addr.type=unix,addr.path={}", socket.display());
    command.args(["--nbd-server", &server]);
    let export = format!("type=nbd,id=export,node-name=quorum,name={EXPORT},writable=on");
    command.args(["--export", &export]);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::cpu_ticks;

    #[test]
    fn cpu_time_is_found_behind_any_name() {
        let stat = "7 (a ) name) S 1 7 7 0 -1 4194304 90 0 0 0 12 34 0 0 20 0 1 0";
        assert_eq!(cpu_ticks(stat), Some(46));
        assert_eq!(cpu_ticks("7 (short) S 1"), None);
    }
}
