//! btrfs in this machine's kernel: a file on a mirror of its own, on one drive, and on heliostat's
//! array, all of them on loop devices.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::drives::{Drives, Level};
use super::jobs::{Counted, Reached};
use super::{Host, Outcome, Plan, Target, Way, measure as measure_target};
use crate::process;

/// How long a step may take: the longest writes the file to a hard disk.
const STEP_TIME_MAX: Duration = Duration::from_secs(300);

/// How large the file is: most of a drive, so that arms have their way to go, and room for what
/// else a file system needs.
const FILE_BYTES: u64 = 700 << 20;

/// A file system with the file, on its loop devices; unmounted when dropped.
#[derive(Debug)]
struct FileSystem {
    loops: Vec<String>,
    mounted: PathBuf,
}

impl FileSystem {
    /// Makes it on these files, where there are several as a mirror, and writes the file.
    fn make(mounted: PathBuf, files: &[&Path]) -> Result<Self> {
        let mut loops = Vec::new();
        for file in files {
            let mut command = step("losetup");
            command.args(["--find", "--show", "--direct-io=on"]);
            let device = process::succeed(command.arg(file))?;
            loops.push(device.trim().to_owned());
        }
        let profile = if files.len() > 1 { "raid1" } else { "single" };
        let mut mkfs = step("mkfs.btrfs");
        mkfs.args(["-q", "-f", "-d", profile, "-m", profile]);
        process::succeed(mkfs.args(&loops))?;
        fs::create_dir(&mounted)?;
        let mut mount = step("mount");
        mount.args(["-t", "btrfs", "-o", "noatime"]);
        process::succeed(mount.arg(&loops[0]).arg(&mounted))?;
        // They are detached when nobody has the file system mounted any more.
        process::succeed(step("losetup").arg("--detach").args(&loops))?;
        let made = Self { loops, mounted };
        // Written in place, so that what writes to it leaves the next reader one file in a row.
        File::create(made.file())?;
        process::succeed(step("chattr").arg("+C").arg(made.file()))?;
        let mut lay = step("dd");
        lay.args(["if=/dev/urandom", "bs=1M", "conv=fsync,notrunc"]);
        lay.arg(format!("of={}", made.file().display()));
        process::succeed(lay.arg(format!("count={}", FILE_BYTES >> 20)))?;
        Ok(made)
    }

    fn file(&self) -> PathBuf {
        self.mounted.join("file")
    }

    /// The kernel's file with the read policy.
    fn policy_file(&self) -> Result<PathBuf> {
        let mut command = step("findmnt");
        command.args(["--noheadings", "--output", "UUID"]);
        let uuid = process::succeed(command.arg(&self.mounted))?;
        Ok(Path::new("/sys/fs/btrfs")
            .join(uuid.trim())
            .join("read_policy"))
    }
}

impl Drop for FileSystem {
    fn drop(&mut self) {
        if let Err(error) = process::succeed(step("umount").arg(&self.mounted)) {
            eprintln!("{error:#}");
        }
    }
}

fn step(program: &str) -> Command {
    process::limited(STEP_TIME_MAX, program)
}

/// Measures the file on all that can carry it.
pub(super) fn measure(
    place: &Path,
    drives: &Drives<'_>,
    plan: Plan,
    outcome: &mut Outcome,
) -> Result<()> {
    if drives.array.level == Level::Raid10 {
        // Its RAID10 needs four drives as well, and reads by the same policies.
        return Ok(());
    }
    println!("btrfs on loop devices");
    let mut made = Vec::new();
    for drive in &drives.alone {
        let kind = drive.kind.name();
        let mounted = place.join(format!("on-{kind}"));
        let fs = FileSystem::make(mounted, &[&drive.volume])?;
        made.push((format!("{kind} alone"), fs, Counted::Nowhere));
    }
    let files: Vec<&Path> = drives.theirs.iter().map(|drive| &*drive.volume).collect();
    let mirror = FileSystem::make(place.join("mirror"), &files)?;
    let policy_file = mirror.policy_file()?;
    let shown = fs::read_to_string(&policy_file).context("the kernel's btrfs has no policies")?;
    outcome.btrfs_policies = shown.trim().to_owned();
    let devices = mirror.loops.iter();
    let devices = devices.map(|path| path.trim_start_matches("/dev/").to_owned());
    let devices: Vec<String> = devices.collect();
    drives.switch("adaptive")?;
    let ours = FileSystem::make(place.join("on-ours"), &[&drives.ours_volume])?;
    for _ in 0..plan.repeats {
        let mut run = |peer: &str, fs: &FileSystem, counted: &Counted| -> Result<()> {
            let target = Target {
                peer: peer.to_owned(),
                reached: Reached::Path {
                    path: fs.file().display().to_string(),
                    bytes: FILE_BYTES,
                },
                counted: counted.clone(),
            };
            let measured = measure_target(&mut Host, drives, (Way::Btrfs, &target), plan)?;
            outcome.samples.extend(measured);
            Ok(())
        };
        for (peer, fs, counted) in &made {
            run(peer, fs, counted)?;
        }
        for policy in policies(&shown) {
            fs::write(&policy_file, policy).with_context(|| format!("setting {policy}"))?;
            let counted = Counted::Devices(devices.clone());
            run(&format!("btrfs, {policy}"), &mirror, &counted)?;
        }
        let counted = Counted::Drives(drives.leg_names());
        run("heliostat, adaptive", &ours, &counted)?;
    }
    Ok(())
}

/// The policies in what the kernel shows, as they are written to choose them.
fn policies(shown: &str) -> Vec<&str> {
    shown
        .split_whitespace()
        .map(|word| word.trim_matches(['[', ']']))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::policies;

    #[test]
    fn the_active_policy_is_one_of_them() {
        assert_eq!(policies("[pid]\n"), ["pid"]);
        assert_eq!(
            policies("pid [round-robin:262144] devid:1"),
            ["pid", "round-robin:262144", "devid:1"]
        );
    }
}
