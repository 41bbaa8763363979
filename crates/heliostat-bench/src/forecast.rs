//! What read policies would do on given legs: a few usual loads under settings of heliostat and of
//! the kernel, in virtual time.
//!
//! The kernel's policies are those of our registry, under the engine: what the kernel does beside
//! choosing a leg (page cache, merging, ARC) is in none of the figures.

mod model_file;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use heliostat_engine::{Layout, Map};
use heliostat_model::fit::{Fit, ProbeKind};
use heliostat_sim::{ArraySpec, Fidelity, Job, LegSpec, Part, RunResult, Rw, Scenario};
use heliostat_types::Duration;

use crate::contender::Contender;
use crate::runs::{Run, in_order};

pub use model_file::scenario_text;

/// A leg of which a model is known.
#[derive(Clone, Debug)]
pub struct ForecastLeg {
    /// What people call it.
    pub name: String,
    /// What it is.
    pub fit: Fit,
}

/// Who would serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// We.
    Heliostat,
    /// Linux md.
    Md,
    /// btrfs in the kernel.
    Btrfs,
    /// OpenZFS.
    Zfs,
}

impl System {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 4] = [Self::Heliostat, Self::Md, Self::Btrfs, Self::Zfs];

    /// What it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Heliostat => "heliostat",
            Self::Md => "md",
            Self::Btrfs => "btrfs",
            Self::Zfs => "ZFS",
        }
    }
}

/// What can be set, in terms of who serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Knob {
    /// heliostat's read policy.
    Policy(String),
    /// RAID1, with the slow legs write-mostly or not.
    Md {
        /// Whether they are.
        write_mostly: bool,
    },
    /// RAID10 with two copies, far apart or beside each other.
    MdRaid10 {
        /// Whether they are far apart.
        far: bool,
    },
    /// `pid`, where the process happens to have this leg.
    BtrfsPid {
        /// Which one.
        leg: usize,
    },
    /// `round-robin`.
    BtrfsRoundRobin,
    /// `devid`, of this leg.
    BtrfsDevid {
        /// Which one.
        leg: usize,
    },
    /// `zfs_vdev_mirror_non_rotating_seek_inc`.
    Zfs {
        /// Whether it is 0 instead of 1.
        prefers_flash: bool,
    },
}

impl Knob {
    /// Whose it is.
    #[must_use]
    pub const fn system(&self) -> System {
        match self {
            Self::Policy(_) => System::Heliostat,
            Self::Md { .. } | Self::MdRaid10 { .. } => System::Md,
            Self::BtrfsPid { .. } | Self::BtrfsRoundRobin | Self::BtrfsDevid { .. } => {
                System::Btrfs
            }
            Self::Zfs { .. } => System::Zfs,
        }
    }

    /// For a table.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Policy(policy) => format!("heliostat {policy}"),
            Self::Md {
                write_mostly: false,
            } => "md RAID1".to_owned(),
            Self::Md { write_mostly: true } => "md write-mostly".to_owned(),
            Self::MdRaid10 { far } => format!("md RAID10 {}", Self::layout_text(*far)),
            Self::BtrfsPid { leg } => format!("btrfs pid, on leg {leg}"),
            Self::BtrfsRoundRobin => "btrfs round-robin".to_owned(),
            Self::BtrfsDevid { leg } => format!("btrfs devid:{}", leg + 1),
            Self::Zfs {
                prefers_flash: false,
            } => "ZFS".to_owned(),
            Self::Zfs {
                prefers_flash: true,
            } => "ZFS, seek_inc 0".to_owned(),
        }
    }

    /// Where the copies of a RAID10 lie.
    const fn layout_text(is_far: bool) -> &'static str {
        match is_far {
            false => "near=2",
            true => "far=2",
        }
    }

    /// Its counterpart in our registry.
    fn contender(&self) -> String {
        match self {
            Self::Policy(policy) => policy.clone(),
            Self::Md { .. } => "md".to_owned(),
            Self::MdRaid10 { far: false } => "md:rule=near".to_owned(),
            Self::MdRaid10 { far: true } => "md:rule=far".to_owned(),
            Self::BtrfsPid { .. } => "pid".to_owned(),
            Self::BtrfsRoundRobin => "round-robin".to_owned(),
            Self::BtrfsDevid { leg } => format!("devid:{}", leg + 1),
            Self::Zfs { prefers_flash } => {
                format!("zfs:non_rotating_seek_inc={}", u8::from(!prefers_flash))
            }
        }
    }
}

/// What clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Random 4 KiB reads, so many at a time.
    Random(u32),
    /// One stream of 1 MiB reads, four at a time.
    Stream,
    /// Eight of them, each one at a time, apart from each other.
    Streams,
    /// Random 4 KiB, 70 % reads, 32 at a time.
    Mixed,
}

impl Load {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 5] = [
        Self::Random(1),
        Self::Random(32),
        Self::Stream,
        Self::Streams,
        Self::Mixed,
    ];

    /// A name for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Random(1) => "randread_4k_depth1",
            Self::Random(_) => "randread_4k_depth32",
            Self::Stream => "read_1m_stream",
            Self::Streams => "read_1m_8_streams",
            Self::Mixed => "randrw_4k_70_30_depth32",
        }
    }

    /// Whether it is told in bytes per second, and not in requests.
    #[must_use]
    pub const fn is_in_bytes(self) -> bool {
        matches!(self, Self::Stream | Self::Streams)
    }

    /// As a job on an array with `size_bytes`.
    fn job(self, size_bytes: u64) -> Job {
        let job = Job {
            name: self.name().to_owned(),
            ..Job::default()
        };
        let stream = Job {
            rw: Rw::Read,
            bs_bytes: 1 << 20,
            ..job.clone()
        };
        match self {
            Self::Random(iodepth) => Job { iodepth, ..job },
            Self::Stream => Job {
                iodepth: 4,
                ..stream
            },
            Self::Streams => {
                let part = size_bytes / 8;
                Job {
                    numjobs: 8,
                    size_bytes: part - part % (1 << 20),
                    offset_increment_bytes: part - part % (1 << 20),
                    ..stream
                }
            }
            Self::Mixed => Job {
                rw: Rw::RandRw,
                rwmixread: 70,
                iodepth: 32,
                ..job
            },
        }
    }

    /// About how many requests per second legs do of it together, at the best.
    fn rate_max(self, legs: &[ForecastLeg]) -> f64 {
        let of = |leg: &ForecastLeg| match self {
            Self::Random(1) => rate(&leg.fit, ProbeKind::Random(1)),
            Self::Random(_) | Self::Mixed => rate(&leg.fit, ProbeKind::Random(32)),
            Self::Stream | Self::Streams => rate(&leg.fit, ProbeKind::Stream(0)),
        };
        legs.iter().map(of).sum()
    }
}

/// What a fitted leg does of a loop that was measured on it; nothing of others.
fn rate(fit: &Fit, kind: ProbeKind) -> f64 {
    let mut misses = fit.misses.iter();
    misses
        .find(|miss| miss.kind == kind)
        .map_or(0.0, |miss| miss.modelled)
}

/// What a load comes to.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// Requests per second, reads and writes together.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// The mean time of a read, in ns.
    pub read_mean_ns: f64,
    /// What 99 of 100 reads take at most, in ns.
    pub read_p99_ns: u64,
}

impl Cell {
    fn of(result: &RunResult) -> Self {
        let seconds = result.seconds;
        Self {
            iops: result.read.iops(seconds) + result.write.iops(seconds),
            bytes_per_s: result.read.bw_bytes(seconds) + result.write.bw_bytes(seconds),
            read_mean_ns: result.read.response_time_ns().mean(),
            read_p99_ns: result.read.response_time_ns().quantile(9_900),
        }
    }
}

/// A setting with what it comes to.
#[derive(Clone, Debug)]
pub struct Row {
    /// What is set.
    pub knob: Knob,
    /// For each load; `None` where there was no time for it.
    pub cells: Vec<Option<Cell>>,
    /// The geometric mean over all loads of its share of the best of all settings, from 0 to 1;
    /// `None` where there was no time for all.
    pub score: Option<f64>,
}

/// All of it.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// The legs that are slow beside the fastest one.
    pub slow: Vec<usize>,
    /// The leg with the most random reads one at a time.
    pub fastest: usize,
    /// One for each setting.
    pub rows: Vec<Row>,
}

impl Forecast {
    /// The setting of a system that comes to most; of those that do not do a little better, the one
    /// that stands first. `pid` is as good as its worst luck.
    #[must_use]
    pub fn best(&self, system: System) -> Option<&Row> {
        let rows = self.rows.iter().filter(|row| {
            let is_luck = matches!(row.knob, Knob::BtrfsPid { .. });
            row.knob.system() == system && !is_luck && row.score.is_some()
        });
        let score = |row: &&Row| row.score.unwrap_or(0.0);
        let most = rows.clone().map(|row| score(&row)).fold(0.0, f64::max);
        rows.into_iter().find(|row| score(row) >= most * AS_GOOD)
    }

    /// Whether there was time for all of it.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.rows.iter().all(|row| row.score.is_some())
    }
}

/// A setting with so much of the best one is as good: runs are short, and other places on the legs
/// would do another per cent or two.
const AS_GOOD: f64 = 0.97;

/// A leg is slow where the fastest one does so many times as many reads.
const SLOW_FACTOR: f64 = 3.0;

/// Which leg is fastest one read at a time, and which are slow beside it.
fn ranks(legs: &[ForecastLeg]) -> (usize, Vec<usize>) {
    let rates: Vec<f64> = legs
        .iter()
        .map(|leg| rate(&leg.fit, ProbeKind::Random(1)))
        .collect();
    let most = rates.iter().copied().fold(0.0, f64::max);
    let fastest = rates.iter().position(|rate| *rate >= most).unwrap_or(0);
    let slow = (0..legs.len()).filter(|&leg| rates[leg] * SLOW_FACTOR < most);
    (fastest, slow.collect())
}

/// What is worth trying on legs: `policies` of ours, and what the kernel has.
#[must_use]
pub fn knobs(legs: &[ForecastLeg], policies: &[String]) -> Vec<Knob> {
    let (fastest, slow) = ranks(legs);
    let mut knobs: Vec<Knob> = policies.iter().cloned().map(Knob::Policy).collect();
    knobs.push(Knob::Md {
        write_mostly: false,
    });
    if !slow.is_empty() {
        knobs.push(Knob::Md { write_mostly: true });
    }
    for far in [false, true] {
        if legs.len() > 1 {
            knobs.push(Knob::MdRaid10 { far });
        }
    }
    knobs.push(Knob::BtrfsPid { leg: fastest });
    if let Some(&leg) = slow.first() {
        knobs.push(Knob::BtrfsPid { leg });
    }
    knobs.push(Knob::BtrfsRoundRobin);
    knobs.push(Knob::BtrfsDevid { leg: fastest });
    knobs.push(Knob::Zfs {
        prefers_flash: false,
    });
    if (1..legs.len()).contains(&turning(legs)) {
        knobs.push(Knob::Zfs {
            prefers_flash: true,
        });
    }
    knobs
}

/// How many legs are disks.
fn turning(legs: &[ForecastLeg]) -> usize {
    let turns = |leg: &&ForecastLeg| leg.fit.params.family() == "hdd";
    legs.iter().filter(turns).count()
}

/// Requests that a run should see, where that takes neither too long nor too short: some tenths of
/// a second of the simulator.
const RANDOM_REQUESTS: f64 = 30_000.0;
/// The same of large ones, which cost more each.
const STREAM_REQUESTS: f64 = 2_000.0;

/// Virtual seconds that are measured at least: policies learn, and disks take their time.
const SECONDS_MIN: f64 = 0.2;
/// The same where a leg is a disk.
const SECONDS_MIN_TURNING: f64 = 1.0;
/// And at most.
const SECONDS_MAX: f64 = 30.0;

/// The load of a setting on legs.
fn run_of(legs: &[ForecastLeg], knob: &Knob, load: Load) -> Option<Run> {
    // `pid` goes by the number of the client.
    let first_client = if let Knob::BtrfsPid { leg } = knob {
        *leg as u64
    } else {
        0
    };
    let (_, slow) = ranks(legs);
    let is_write_mostly =
        |index: usize| matches!(knob, Knob::Md { write_mostly: true }) && slow.contains(&index);
    let specs = legs.iter().enumerate().map(|(index, leg)| LegSpec {
        model: leg.name.clone(),
        params: leg.fit.params,
        write_mostly: is_write_mostly(index),
        read_preferred: false,
        rotational: None,
        device: String::new(),
        hba: String::new(),
        cache: heliostat_model::CacheParams::default(),
        part: Part::Leg,
    });
    let (layout, size_bytes) = shape(legs, knob)?;
    let mut array = ArraySpec::new(size_bytes, specs.collect());
    array.layout = layout;
    if knob.system() == System::Btrfs && legs.len() > 2 {
        // What btrfs calls RAID1 is two copies, whatever the number of devices.
        array.copies = 2;
    }
    let requests = if load.is_in_bytes() {
        STREAM_REQUESTS
    } else {
        RANDOM_REQUESTS
    };
    let seconds_min = match turning(legs) {
        0 => SECONDS_MIN,
        _ => SECONDS_MIN_TURNING,
    };
    let seconds = (requests / load.rate_max(legs).max(1.0)).clamp(seconds_min, SECONDS_MAX);
    let scenario = Scenario {
        name: load.name().to_owned(),
        seconds: Duration::from_secs_f64(seconds),
        warmup_seconds: Duration::from_secs_f64(seconds / 3.0),
        seed: 1,
        array,
        jobs: vec![load.job(size_bytes)],
        faults: Vec::new(),
        first_client,
        fidelity: Fidelity::default(),
        traces: None,
    };
    let contender = Contender::parse(&knob.contender()).ok()?;
    Some(Run {
        scenario: Arc::new(scenario),
        contender,
    })
}

/// How an array under a setting lies on its legs, and how large it is.
fn shape(legs: &[ForecastLeg], knob: &Knob) -> Option<(Layout, u64)> {
    let leg_bytes = size_bytes(legs);
    let Knob::MdRaid10 { far } = knob else {
        return Some((Layout::Mirror, leg_bytes));
    };
    let layout = Layout::parse(Knob::layout_text(*far)).ok()?;
    let map = Map::new(layout, legs.len(), leg_bytes).ok()?;
    Some((layout, map.size_bytes()))
}

/// What all legs have, in whole blocks.
fn size_bytes(legs: &[ForecastLeg]) -> u64 {
    let least = legs.iter().map(|leg| leg.fit.params.size_bytes()).min();
    let least = least.unwrap_or(0);
    least - least % (1 << 20)
}

/// Runs every load under each of `knobs` on `threads` threads. What has not ended when `is_over`
/// says so is left out. `progress` hears how many of how many have ended.
///
/// # Errors
/// Where a run fails.
pub fn forecast(
    legs: &[ForecastLeg],
    knobs: &[Knob],
    threads: usize,
    is_over: &(dyn Fn() -> bool + Sync),
    mut progress: impl FnMut(usize, usize),
) -> anyhow::Result<Forecast> {
    // Load by load, so that what there is time for can be compared.
    let mut runs = Vec::new();
    for load in Load::ALL {
        for knob in knobs {
            let run = run_of(legs, knob, load);
            runs.push(run.ok_or_else(|| anyhow::anyhow!("there is no policy {knob:?}"))?);
        }
    }
    let work = |index: usize, _: &AtomicBool| {
        let stop = AtomicBool::new(is_over());
        let look = |_: f64| {
            if is_over() {
                stop.store(true, Ordering::Relaxed);
            }
        };
        match stop.load(Ordering::Relaxed) {
            true => Some(None),
            false => Some(runs[index].run(|picker| picker, &stop, look)),
        }
    };
    let mut cells = Vec::new();
    let mut failed = None;
    in_order(runs.len(), threads, work, |index, result| {
        progress(index + 1, runs.len());
        match result.transpose() {
            Ok(result) => cells.push(result.as_ref().map(Cell::of)),
            Err(error) => {
                failed = Some(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    });
    if let Some(error) = failed {
        return Err(anyhow::anyhow!("{error}"));
    }
    let (fastest, slow) = ranks(legs);
    let rows = knobs.iter().enumerate().map(|(index, knob)| Row {
        knob: knob.clone(),
        cells: (0..Load::ALL.len())
            .map(|load| cells.get(load * knobs.len() + index).copied().flatten())
            .collect(),
        score: None,
    });
    let mut rows: Vec<Row> = rows.collect();
    judge(&mut rows);
    Ok(Forecast {
        slow,
        fastest,
        rows,
    })
}

/// Gives every row its score.
fn judge(rows: &mut [Row]) {
    let best = |load: usize| {
        let of_load = rows.iter().filter_map(|row| row.cells[load]);
        of_load.map(|cell| cell.bytes_per_s).fold(0.0, f64::max)
    };
    let best: Vec<f64> = (0..Load::ALL.len()).map(best).collect();
    for row in rows {
        let shares = row.cells.iter().zip(&best);
        let shares: Option<Vec<f64>> = shares
            .map(|(cell, best)| cell.map(|cell| cell.bytes_per_s / best.max(1.0)))
            .collect();
        row.score = shares.map(|shares| {
            let product: f64 = shares.iter().product();
            product.powf(1.0 / shares.len() as f64)
        });
    }
}

#[cfg(test)]
mod tests;
