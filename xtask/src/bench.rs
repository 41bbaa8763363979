//! Speed of the program beside others, as figures with their environment; never an assertion.

mod arrays;
mod environment;
mod nbd;
mod peers;
mod servers;
mod sim;
mod table;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::e2e;
use nbd::Plan;

/// How the benchmark is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Once and briefly: a look, no evidence.
    Quick,
    /// Long and often enough for medians.
    Full,
}

impl Effort {
    const fn plan(self) -> Plan {
        match self {
            Self::Quick => Plan {
                repeats: 1,
                time: Duration::from_secs(1),
            },
            // On shared machines single runs differ by a fifth, medians of five by a few percent.
            Self::Full => Plan {
                repeats: 5,
                time: Duration::from_secs(3),
            },
        }
    }
}

/// Measures NBD servers beside each other and prints the figures; keeps them below `bench/runs`
/// where `save` says so.
///
/// # Errors
/// Where a server or fio fails.
pub(crate) fn nbd(root: &Path, effort: Effort, save: bool) -> Result<()> {
    let program = e2e::program(root)?;
    let plan = effort.plan();
    let samples = nbd::run(&program, plan)?;
    let summary = table::summary(&samples, plan);
    println!("\n{summary}");
    if save {
        let seconds = plan.time.as_secs_f64();
        let csv = table::csv(&samples);
        keep(root, "nbd", (plan.repeats, seconds), &csv, &summary)?;
    }
    Ok(())
}

/// Measures the simulator, prints the figures, and keeps them as [`nbd()`] does.
///
/// # Errors
/// Where it does not build or fails.
pub(crate) fn sim(root: &Path, effort: Effort, save: bool) -> Result<()> {
    // On shared machines single runs differ by a fifth, medians of five by a few percent.
    let repeats = match effort {
        Effort::Quick => 1,
        Effort::Full => 5,
    };
    let samples = sim::run(root, repeats)?;
    let summary = sim::summary(&samples, repeats);
    println!("\n{summary}");
    if save {
        let seconds = samples.iter().map(|sample| sample.real_s).sum();
        let csv = sim::csv(&samples);
        keep(root, "sim", (repeats, seconds), &csv, &summary)?;
    }
    Ok(())
}

/// Measures arrays in the format of Linux md, prints the figures, and keeps them as [`nbd()`] does.
///
/// # Errors
/// Where a server or fio fails.
pub(crate) fn arrays(root: &Path, effort: Effort, save: bool) -> Result<()> {
    let began = Instant::now();
    let figures = arrays::run(&e2e::program(root)?, effort)?;
    let summary = arrays::summary(&figures);
    println!("\n{summary}");
    if save {
        let seconds = began.elapsed().as_secs_f64();
        keep(
            root,
            "arrays",
            (1, seconds),
            &arrays::csv(&figures),
            &summary,
        )?;
    }
    Ok(())
}

/// Measures heliostat beside other mirrors, on the arrays of these names or on all, prints the
/// figures, and keeps them as [`nbd()`] does.
///
/// # Errors
/// Where there is no array of a name, something is missing, or one of them fails.
pub(crate) fn peers(root: &Path, names: &str, effort: Effort, save: bool) -> Result<()> {
    let arrays = peers::arrays(names)?;
    if !peers::has_own_mounts() {
        return peers::begin_with_own_mounts();
    }
    let plan = peers::Plan::of(effort);
    let mut outcome = peers::Outcome::default();
    let measured = peers::run(root, &e2e::program(root)?, &arrays, plan, &mut outcome);
    let summary = peers::summary(&outcome, plan);
    // Also where it failed at last: it takes an hour.
    println!("\n{summary}");
    measured?;
    if save {
        let (repeats, seconds) = (plan.repeats as usize, plan.time.as_secs_f64());
        let csv = peers::csv(&outcome);
        keep(root, "peers", (repeats, seconds), &csv, &summary)?;
    }
    Ok(())
}

/// Keeps the figures of a benchmark and where they come from below `bench/runs`.
fn keep(
    root: &Path,
    what: &str,
    (repeats, seconds): (usize, f64),
    csv: &str,
    summary: &str,
) -> Result<()> {
    let programs: &[_] = match what {
        "nbd" => &["fio", "nbdkit", "qemu-storage-daemon"],
        "arrays" => &["fio"],
        "peers" => &[
            "fio",
            "mkfs.btrfs",
            "qemu-storage-daemon",
            "qemu-system-x86_64",
        ],
        _ => &[],
    };
    let environment = environment::read(root, programs)?;
    let name = format!("{}-{what}-{}", environment.date, environment.machine);
    let directory = root.join("bench/runs").join(name);
    fs::create_dir_all(&directory).with_context(|| format!("creating {}", directory.display()))?;
    let command = format!("cargo xtask bench {what} --save");
    let json = environment.to_json(&command, repeats, seconds)?;
    fs::write(directory.join("env.json"), json)?;
    fs::write(directory.join("raw.csv"), csv)?;
    fs::write(directory.join("summary.md"), summary)?;
    println!("kept in {}", directory.display());
    Ok(())
}
