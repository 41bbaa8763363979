//! The drives that peers stand on: models in real time, each emulated by a process of its own, and
//! heliostat's array on some of them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process::{self, Background};

/// How large each drive is. A model's arm takes as long from its first track to its last on a small
/// drive as on a large one.
pub(super) const SIZE_BYTES: u64 = 1 << 30;

/// How long a server may take until it listens.
const START_TIME_MAX: Duration = Duration::from_secs(20);

/// How long a command to a server may take.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(60);

/// What heliostat's array is called.
pub(super) const OURS: &str = "ours";

/// Drives that make a mirror.
#[derive(Debug)]
pub(in crate::bench) struct Array {
    pub(super) name: &'static str,
    /// What it is, in words.
    pub(super) about: &'static str,
    /// The kind of mirror.
    pub(super) level: Level,
    /// What each leg is.
    pub(super) legs: &'static [Kind],
}

/// How an array keeps its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Raid1,
    /// Two copies of each chunk beside each other.
    Raid10,
}

/// A kind of drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Hdd,
    Ssd,
}

impl Kind {
    /// What it is called in tables, and in the names of drives.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Hdd => "hdd",
            Self::Ssd => "ssd",
        }
    }

    const fn model(self) -> &'static str {
        match self {
            Self::Hdd => "hdd-7200-2tb",
            Self::Ssd => "ssd-sata-1tb",
        }
    }
}

/// Every array that is measured.
pub(super) const ARRAYS: [Array; 3] = [
    Array {
        name: "hdd+ssd",
        about: "a mirror of a hard disk and an SSD",
        level: Level::Raid1,
        legs: &[Kind::Hdd, Kind::Ssd],
    },
    Array {
        name: "2hdd",
        about: "a mirror of two hard disks",
        level: Level::Raid1,
        legs: &[Kind::Hdd, Kind::Hdd],
    },
    Array {
        name: "raid10",
        about: "a RAID10 of two hard disks and two SSDs, each chunk on one of both",
        level: Level::Raid10,
        legs: &[Kind::Hdd, Kind::Ssd, Kind::Hdd, Kind::Ssd],
    },
];

/// One drive, which listens until it is dropped.
#[derive(Debug)]
pub(super) struct Drive {
    /// `WHOSE-INDEX`.
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) socket: PathBuf,
    /// The drive as a file.
    pub(super) volume: PathBuf,
    _process: Background,
}

impl Drive {
    /// Where NBD clients find it.
    pub(super) fn uri(&self) -> String {
        uri(&self.name, &self.socket)
    }
}

/// The drives of one array, three times, and heliostat's mirror on the last of them.
#[derive(Debug)]
pub(super) struct Drives<'a> {
    pub(super) array: &'static Array,
    program: &'a Path,
    control: PathBuf,
    /// One of each kind, for the figures of a drive alone.
    pub(super) alone: Vec<Drive>,
    /// The legs of everybody else's mirrors, one after the other.
    pub(super) theirs: Vec<Drive>,
    // Ended before the drives that it stands on.
    ours: Background,
    /// Where heliostat's array listens.
    pub(super) ours_socket: PathBuf,
    /// The array as a file.
    pub(super) ours_volume: PathBuf,
    legs: Vec<Drive>,
}

impl<'a> Drives<'a> {
    /// Emulates them, and serves heliostat's array.
    ///
    /// # Errors
    /// Where one does not come up.
    pub(super) fn start(program: &'a Path, place: &Path, array: &'static Array) -> Result<Self> {
        let control = place.join("control");
        let start = |whose: &str, kinds: &[Kind]| -> Result<Vec<Drive>> {
            let drives = kinds.iter().enumerate();
            drives
                .map(|(index, &kind)| emulate(program, place, format!("{whose}-{index}"), kind))
                .collect()
        };
        let mut kinds = array.legs.to_vec();
        kinds.dedup();
        kinds.truncate(2);
        let (alone, theirs) = (start("alone", &kinds)?, start("theirs", array.legs)?);
        let legs = start("leg", array.legs)?;
        let ours_socket = place.join("ours.sock");
        let ours = serve(program, place, array, &legs, &ours_socket)?;
        Ok(Self {
            array,
            program,
            ours_volume: control.join(OURS).join("volume"),
            control,
            alone,
            theirs,
            ours,
            ours_socket,
            legs,
        })
    }

    /// The names of the drives below heliostat's array.
    pub(super) fn leg_names(&self) -> Vec<String> {
        self.legs.iter().map(|drive| drive.name.clone()).collect()
    }

    /// Where heliostat's array is found.
    pub(super) fn ours_uri(&self) -> String {
        uri(OURS, &self.ours_socket)
    }

    /// How many bytes were read of this drive.
    ///
    /// # Errors
    /// Where it does not say.
    pub(super) fn bytes_read(&self, name: &str) -> Result<u64> {
        let said = self.control(&["stats", name, "--json"])?;
        let value: Value = serde_json::from_str(&said).context("statistics of a drive")?;
        let bytes = value["legs"][0]["read_bytes"].as_u64();
        bytes.with_context(|| format!("{name} does not count its reads"))
    }

    /// Has heliostat's array read by this policy from now on.
    ///
    /// # Errors
    /// Where it refuses.
    pub(super) fn switch(&self, policy: &str) -> Result<()> {
        self.control(&["policy", OURS, policy, "--transient"])?;
        Ok(())
    }

    /// The end of what heliostat's server has said.
    pub(super) fn said(&self) -> String {
        process::end_of(&self.ours.said().unwrap_or_default())
    }

    fn control(&self, words: &[&str]) -> Result<String> {
        let mut command = process::limited(COMMAND_TIME_MAX, self.program);
        process::succeed(command.args(words).arg("--control-dir").arg(&self.control))
    }
}

fn uri(name: &str, socket: &Path) -> String {
    format!("nbd+unix:///{name}?socket={}", socket.display())
}

fn emulate(program: &Path, place: &Path, name: String, kind: Kind) -> Result<Drive> {
    let (control, socket) = (place.join("control"), place.join(format!("{name}.sock")));
    let mut command = Command::new(program);
    command.args(["emulate", kind.model(), "--control-files", "on"]);
    command.args(["--size", &SIZE_BYTES.to_string(), "--name", &name]);
    // The least that it takes: there are many, and one of them is busy.
    command.args(["--memory", "80MiB", "--export", &uri(&name, &socket)]);
    command.arg("--control-dir").arg(&control);
    let mut process = Background::start(&mut command, &place.join(format!("{name}.log")))?;
    process.wait_for_socket(&socket, START_TIME_MAX)?;
    let volume = control.join(&name).join("volume");
    process.wait_for_file(&volume, START_TIME_MAX)?;
    Ok(Drive {
        volume,
        name,
        kind,
        socket,
        _process: process,
    })
}

/// heliostat's array on these drives, in the format that md has: made on them as files, and served
/// over NBD, as everybody else reaches them.
fn serve(
    program: &Path,
    place: &Path,
    array: &Array,
    legs: &[Drive],
    socket: &Path,
) -> Result<Background> {
    let control = place.join("control");
    let mut create = process::limited(COMMAND_TIME_MAX, program);
    create.args(["create", OURS, "--assume-clean", "--bitmap", "none"]);
    create.args(match array.level {
        Level::Raid1 => &["--level", "raid1"][..],
        Level::Raid10 => &["--level", "raid10", "--layout", "near=2"],
    });
    create.args(legs.iter().map(|leg| &leg.volume));
    process::succeed(create.arg("--control-dir").arg(&control))?;
    let mut command = Command::new(program);
    command.args(["serve", "--name", OURS, "--control-files", "on"]);
    command.args(legs.iter().map(Drive::uri));
    command.args(["--export", &uri(OURS, socket)]);
    command.arg("--control-dir").arg(&control);
    let mut process = Background::start(&mut command, &place.join("ours.log"))?;
    process.wait_for_socket(socket, START_TIME_MAX)?;
    process.wait_for_file(&control.join(OURS).join("volume"), START_TIME_MAX)?;
    Ok(process)
}
