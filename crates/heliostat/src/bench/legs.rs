//! What the legs of a target have read and written, counted by whoever has them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use heliostat_bench::live::LegCount;
use heliostat_runtime::{ArrayStats, ControlRequest, ControlResponse};

use crate::cli::ControlArgs;

/// What the kernel counts in, whatever the device's sectors are.
const SECTOR_BYTES: u64 = 512;

/// The legs of a target.
pub(super) enum Legs {
    /// They cannot be seen, or there are none.
    Unseen,
    /// Of an array of ours.
    Array { name: String, control: ControlArgs },
    /// Devices of the kernel: what they are called, and where they are counted.
    Devices(Vec<(String, PathBuf)>),
}

impl Legs {
    /// The devices in `directory`, which has links to them: `devices` of a btrfs, `slaves` of what
    /// md and dm make.
    pub(super) fn in_directory(directory: &Path) -> Self {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let devices = entries.map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, entry.path().join("stat"))
        });
        let mut devices: Vec<_> = devices.collect();
        devices.sort();
        match devices.is_empty() {
            true => Self::Unseen,
            false => Self::Devices(devices),
        }
    }

    /// What they are called.
    pub(super) fn names(&self) -> anyhow::Result<Vec<String>> {
        match self {
            Self::Unseen => Ok(Vec::new()),
            Self::Array { name, control } => {
                let stats = stats(name, control)?;
                Ok(stats.legs.into_iter().map(|leg| leg.leg).collect())
            }
            Self::Devices(devices) => Ok(devices.iter().map(|(name, _)| name.clone()).collect()),
        }
    }

    /// What they have done so far, each by its name.
    pub(super) fn count(&self) -> anyhow::Result<Vec<(String, LegCount)>> {
        match self {
            Self::Unseen => Ok(Vec::new()),
            Self::Array { name, control } => {
                let counts = stats(name, control)?.legs.into_iter().map(|leg| {
                    let count = LegCount {
                        reads: leg.reads,
                        read_bytes: leg.read_bytes,
                        writes: leg.writes,
                        write_bytes: leg.write_bytes,
                    };
                    (leg.leg, count)
                });
                Ok(counts.collect())
            }
            Self::Devices(devices) => devices
                .iter()
                .map(|(name, stat)| Ok((name.clone(), of_device(stat)?)))
                .collect(),
        }
    }
}

/// What an array of ours has counted.
pub(super) fn stats(name: &str, control: &ControlArgs) -> anyhow::Result<Box<ArrayStats>> {
    let ControlResponse::Stats(stats) =
        control.ask(name, &ControlRequest::Stats { fine: false })?
    else {
        bail!("asked for statistics, the daemon answered something else");
    };
    Ok(stats)
}

/// What `stat` of a block device says in sysfs: reads, merges, sectors, time, and the same of
/// writes.
fn of_device(stat: &Path) -> anyhow::Result<LegCount> {
    let path = stat.display();
    let text = fs::read_to_string(stat).with_context(|| format!("cannot read {path}"))?;
    let fields: Vec<u64> = text
        .split_whitespace()
        .map_while(|word| word.parse().ok())
        .collect();
    ensure!(
        fields.len() >= 8,
        "{path} says nothing that is known: {}",
        text.trim()
    );
    Ok(LegCount {
        reads: fields[0],
        read_bytes: fields[2].saturating_mul(SECTOR_BYTES),
        writes: fields[4],
        write_bytes: fields[6].saturating_mul(SECTOR_BYTES),
    })
}
