//! heliostat beside the mirrors that people have: Linux md in a guest, btrfs in this machine's
//! kernel, and QEMU's quorum, all on the same modelled drives in real time.
//!
//! Each way from fio to the drives has its own price, so nothing is compared across ways: in the
//! guest, md and heliostat are virtio drives or stand on them; over NBD, quorum and heliostat are
//! exports; and btrfs stands on loop devices, over two drives or over heliostat's array. On each
//! way one drive alone is measured as well, and figures are ratios to it.

mod btrfs;
mod drives;
mod exports;
mod guest;
mod jobs;
mod report;

use std::env;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::Effort;
use super::servers::Place;
use crate::{process, tools};
use drives::{ARRAYS, Array, Drives};
use jobs::{Counted, JOBS, Job, Reached};

/// How often and how long each job is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// How often; all peers of a way once before any of them again.
    pub(super) repeats: u32,
    /// How long a run goes on before it counts.
    pub(super) warmup: Duration,
    /// How long it counts.
    pub(super) time: Duration,
}

impl Plan {
    pub(super) const fn of(effort: Effort) -> Self {
        match effort {
            Effort::Quick => Self {
                repeats: 1,
                warmup: Duration::from_secs(1),
                time: Duration::from_secs(2),
            },
            // An emulated guest differs by a third from run to run, and btrfs by which copy the
            // number of a process stands for: what is left of that is shown.
            Effort::Full => Self {
                repeats: 3,
                warmup: Duration::from_secs(1),
                time: Duration::from_secs(3),
            },
        }
    }
}

/// A way from fio to the drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// virtio drives of an emulated guest.
    Guest,
    /// Exports of NBD servers.
    Exports,
    /// A file of a btrfs on loop devices.
    Btrfs,
}

/// What one run of fio gave.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) array: &'static str,
    pub(super) way: Way,
    /// What was measured, in the words of the table.
    pub(super) peer: String,
    /// Which of the jobs.
    pub(super) job: &'static str,
    /// Requests per second.
    pub(super) iops: f64,
    /// What 99 % of the reads took at most, in ms; a short run on a busy machine may have none.
    pub(super) p99_ms: Option<f64>,
    /// What part of the bytes read came from each leg; empty for one drive alone.
    pub(super) shares: Vec<f64>,
}

/// What fio runs on, and who says what it read.
trait Machine {
    /// What fio printed with these arguments.
    fn fio(&mut self, arguments: &[String], limit: Duration) -> Result<String>;
    /// Empties the caches of its kernel.
    fn drop_caches(&mut self) -> Result<()>;
    /// What its kernel counts of each block device.
    fn diskstats(&mut self) -> Result<String>;
}

/// Something that is measured.
#[derive(Clone, Debug)]
struct Target {
    peer: String,
    reached: Reached,
    counted: Counted,
}

/// Says that this process has mounts of its own.
const OWN_MOUNTS: &str = "HELIOSTAT_PEERS_OWN_MOUNTS";

/// Whether this process has mounts of its own, which nobody else sees, and which are gone with the
/// last process that has them, however it ends: then loop devices let go of the drives.
pub(super) fn has_own_mounts() -> bool {
    env::var_os(OWN_MOUNTS).is_some()
}

/// Begins this process anew, as it was called, with mounts of its own, and waits for its end.
///
/// # Errors
/// Where that fails.
pub(super) fn begin_with_own_mounts() -> Result<()> {
    require()?;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--"]).arg(env::current_exe()?);
    command.args(env::args_os().skip(1)).env(OWN_MOUNTS, "1");
    let status = command.status().context("starting unshare")?;
    ensure!(status.success(), "it ended with {status}");
    Ok(())
}

/// All that was measured, and with what.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) samples: Vec<Sample>,
    /// The guest's kernel.
    pub(super) guest_kernel: String,
    /// The read policies of this kernel's btrfs, as it shows them.
    pub(super) btrfs_policies: String,
}

/// The arrays of these names, with commas between them; all where there is none.
///
/// # Errors
/// Where there is none of a name.
pub(super) fn arrays(names: &str) -> Result<Vec<&'static Array>> {
    if names.is_empty() {
        return Ok(ARRAYS.iter().collect());
    }
    let named = |name| {
        let array = ARRAYS.iter().find(|array| array.name == name);
        array.with_context(|| {
            let known: Vec<&str> = ARRAYS.iter().map(|array| array.name).collect();
            format!("there is no array '{name}'; there are {}", known.join(", "))
        })
    };
    names.split(',').map(named).collect()
}

/// Measures these arrays in all ways, and adds what comes of it to `outcome`.
///
/// # Errors
/// Where something is missing, or a part of it fails.
pub(super) fn run(
    root: &Path,
    program: &Path,
    arrays: &[&'static Array],
    plan: Plan,
    outcome: &mut Outcome,
) -> Result<()> {
    for array in arrays {
        println!("{}: {}", array.name, array.about);
        let place = Place::new(&format!("peers-{}", array.name))?;
        let drives = Drives::start(program, &place.0, array)?;
        let measured = guest::measure(root, &place.0, &drives, plan, outcome)
            .and_then(|()| exports::measure(&place.0, &drives, plan, outcome))
            .and_then(|()| btrfs::measure(&place.0, &drives, plan, outcome));
        // Its log goes with its place.
        measured.with_context(|| format!("heliostat said: {}", drives.said()))?;
    }
    Ok(())
}

fn require() -> Result<()> {
    ensure!(
        tools::is_root(),
        "btrfs on loop devices is made and mounted by root alone"
    );
    tools::require(&[
        "fio",
        "findmnt",
        "losetup",
        "mkfs.btrfs",
        "qemu-storage-daemon",
        "unshare",
    ])?;
    for device in ["/dev/fuse", "/dev/loop-control"] {
        if !Path::new(device).exists() {
            bail!("{device} is missing");
        }
    }
    Ok(())
}

/// Runs all jobs on one target, and says on a line each what came of it.
fn measure(
    machine: &mut dyn Machine,
    drives: &Drives<'_>,
    (way, target): (Way, &Target),
    plan: Plan,
) -> Result<Vec<Sample>> {
    let run = |job: &Job| run_job(machine, drives, (way, target), job, plan);
    JOBS.iter().map(run).collect()
}

fn run_job(
    machine: &mut dyn Machine,
    drives: &Drives<'_>,
    (way, target): (Way, &Target),
    job: &Job,
    plan: Plan,
) -> Result<Sample> {
    machine.drop_caches()?;
    let before = target.counted.look(machine, drives)?;
    // fio lays nothing out here, and ends soon after its time.
    let limit = 2 * (plan.warmup + plan.time) + Duration::from_secs(60);
    let report = machine.fio(&job.arguments(&target.reached, plan), limit)?;
    let after = target.counted.look(machine, drives)?;
    let (iops, p99_ms) = jobs::figures(&report)?;
    let shares = jobs::shares(&before, &after);
    println!(
        "  {:24} {:20} {iops:9.0}/s  p99 {:>8} ms  {}",
        target.peer,
        job.name,
        p99_ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.2}")),
        report::percents(&shares)
    );
    Ok(Sample {
        array: drives.array.name,
        way,
        peer: target.peer.clone(),
        job: job.name,
        iops,
        p99_ms,
        shares,
    })
}

/// This machine.
#[derive(Debug)]
struct Host;

impl Machine for Host {
    fn fio(&mut self, arguments: &[String], limit: Duration) -> Result<String> {
        process::succeed(process::limited(limit, "fio").args(arguments))
    }

    fn drop_caches(&mut self) -> Result<()> {
        rustix::fs::sync();
        Ok(std::fs::write("/proc/sys/vm/drop_caches", "3")?)
    }

    fn diskstats(&mut self) -> Result<String> {
        Ok(std::fs::read_to_string("/proc/diskstats")?)
    }
}

/// All figures as a page, in Markdown.
pub(super) fn summary(outcome: &Outcome, plan: Plan) -> String {
    report::summary(outcome, plan)
}

/// Every sample, for programs.
pub(super) fn csv(outcome: &Outcome) -> String {
    report::csv(&outcome.samples)
}
