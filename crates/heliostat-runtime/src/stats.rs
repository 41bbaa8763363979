//! What an array did, as it is told to people and programs.
//!
//! The loop only copies counters ([`Snapshot`]); percentiles are worked out by whoever asked. The
//! structs with names for JSON are wire formats: their fields are what `heliostat stats --json`
//! prints.

use heliostat_engine::{LegState, LegStats};
use heliostat_types::Duration;
use serde::{Deserialize, Serialize};
use stdx::histogram::Histogram;

use crate::status::word_of;

/// Counters as the loop hands them out.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) name: String,
    pub(crate) size_bytes: u64,
    pub(crate) policy: String,
    pub(crate) uptime: Duration,
    pub(crate) backend: String,
    pub(crate) memory_bytes: u64,
    pub(crate) memory_used_bytes: u64,
    pub(crate) dirty: bool,
    pub(crate) legs: Vec<LegSnapshot>,
}

/// Counters of one leg as the loop hands them out.
#[derive(Debug)]
pub(crate) struct LegSnapshot {
    pub(crate) name: String,
    pub(crate) state: LegState,
    pub(crate) reads_in_flight: u32,
    pub(crate) writes_in_flight: u32,
    pub(crate) read_preferred: bool,
    pub(crate) stats: LegStats,
}

/// What an array did since it was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayStats {
    /// Its name.
    pub name: String,
    /// Its usable size.
    pub size_bytes: u64,
    /// The active read policy, as `NAME:VALUE`.
    pub policy: String,
    /// For how long it has been served.
    pub uptime_ns: u64,
    /// How files and block devices are reached.
    pub backend: String,
    /// Memory for requests.
    pub memory_bytes: u64,
    /// How much of it is in use.
    pub memory_used_bytes: u64,
    /// Whether the legs may differ right now.
    pub dirty: bool,
    /// Its legs, in role order; behind them one that is to replace another one.
    pub legs: Vec<LegFigures>,
}

/// What one leg did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LegFigures {
    /// Counted from 0.
    pub index: usize,
    /// As the user wrote it.
    pub leg: String,
    /// `in-sync`, `faulted` or `missing`.
    pub state: String,
    /// Reads completed.
    pub reads: u64,
    /// Writes completed.
    pub writes: u64,
    /// Flushes completed.
    pub flushes: u64,
    /// Bytes of the reads.
    pub read_bytes: u64,
    /// Bytes of the writes.
    pub write_bytes: u64,
    /// Reads at the leg now.
    pub reads_in_flight: u32,
    /// Writes, trims, write-zeroes and flushes at the leg now.
    pub writes_in_flight: u32,
    /// Reads that failed.
    pub read_errors: u64,
    /// Writes, trims, write-zeroes and flushes that failed.
    pub write_errors: u64,
    /// From dispatch to completion, of reads.
    pub read_service_time_ns: Distribution,
    /// From dispatch to completion, of writes.
    pub write_service_time_ns: Distribution,
}

/// A histogram in a few numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// The mean, rounded down.
    pub mean: u64,
    /// Half are below.
    pub p50: u64,
    /// 90 % are below.
    pub p90: u64,
    /// 99 % are below.
    pub p99: u64,
    /// 99.9 % are below.
    #[serde(rename = "p99.9")]
    pub p99_9: u64,
    /// 99.99 % are below.
    #[serde(rename = "p99.99")]
    pub p99_99: u64,
    /// The largest.
    pub max: u64,
}

impl From<Snapshot> for ArrayStats {
    fn from(snapshot: Snapshot) -> Self {
        Self {
            name: snapshot.name,
            size_bytes: snapshot.size_bytes,
            policy: snapshot.policy,
            uptime_ns: snapshot.uptime.as_ns(),
            backend: snapshot.backend,
            memory_bytes: snapshot.memory_bytes,
            memory_used_bytes: snapshot.memory_used_bytes,
            dirty: snapshot.dirty,
            legs: snapshot
                .legs
                .into_iter()
                .enumerate()
                .map(leg_figures)
                .collect(),
        }
    }
}

fn leg_figures((index, leg): (usize, LegSnapshot)) -> LegFigures {
    let stats = leg.stats;
    let state = word_of(leg.state);
    LegFigures {
        index,
        leg: leg.name,
        state: state.to_owned(),
        reads: stats.reads,
        writes: stats.writes,
        flushes: stats.flushes,
        read_bytes: stats.read_bytes,
        write_bytes: stats.write_bytes,
        reads_in_flight: leg.reads_in_flight,
        writes_in_flight: leg.writes_in_flight,
        read_errors: stats.read_errors,
        write_errors: stats.write_errors,
        read_service_time_ns: Distribution::from(&stats.read_service_ns),
        write_service_time_ns: Distribution::from(&stats.write_service_ns),
    }
}

impl From<&Histogram> for Distribution {
    fn from(histogram: &Histogram) -> Self {
        Self {
            mean: u64::try_from(histogram.sum() / u128::from(histogram.count().max(1)))
                .expect("a mean is at most the largest value"),
            p50: histogram.quantile(5_000),
            p90: histogram.quantile(9_000),
            p99: histogram.quantile(9_900),
            p99_9: histogram.quantile(9_990),
            p99_99: histogram.quantile(9_999),
            max: histogram.max(),
        }
    }
}
