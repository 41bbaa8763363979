//! What a comparison of policies found, and how it is shown: tables, JSON, and a page with plots.
//!
//! Everything here is a function of a finished [`Report`]; nothing runs, measures or decides. One
//! report holds any number of workloads that were run in virtual time, and rows that were measured
//! on the real thing beside their prediction.

mod findings;
mod html;
mod json;
mod plot;
#[cfg(test)]
mod sample;
mod table;

use std::path::Path;

use heliostat_bench::report::{Facts, write_directory};
use stdx::histogram::Histogram;

pub(crate) use findings::{measured_findings, virtual_findings};
pub(crate) use json::{measured_row_json, outcome_json};
pub(crate) use table::{measured_table, virtual_table};

/// Writes the report into `directory`. Answers whether it replaced one.
///
/// # Errors
/// Where the directory cannot be written, or holds a page that is no report.
pub(crate) fn write(directory: &Path, report: &Report) -> anyhow::Result<bool> {
    write_directory(directory, &html::page(report), &json::report_json(report))
}

/// All that one run of the demo found.
#[derive(Debug)]
pub(crate) struct Report {
    /// Where and by what it was made.
    pub facts: Facts,
    /// The seed of the simulation.
    pub seed: u64,
    /// Whether the short form ran.
    pub quick: bool,
    /// Models of the legs, by role.
    pub legs: Vec<String>,
    /// Usable size of the simulated mirror.
    pub size_bytes: u64,
    /// Workloads in virtual time.
    pub workloads: Vec<Workload>,
    /// The same mirror for real.
    pub measured: Measured,
}

/// One workload in virtual time under all policies.
#[derive(Debug)]
pub(crate) struct Workload {
    /// A short name without blanks, for files and JSON.
    pub name: &'static str,
    /// What it is, for people.
    pub title: &'static str,
    /// The same on two or three short lines, for the head of a column.
    pub heading: &'static str,
    /// What its rate is told in.
    pub unit: RateUnit,
    /// Whether its response times say something that its rate does not.
    pub shows_tail: bool,
    /// One row per policy.
    pub rows: Vec<Outcome>,
}

/// What a rate is told in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RateUnit {
    /// Operations per second.
    Iops,
    /// Mebibytes per second.
    MibPerSecond,
}

impl RateUnit {
    /// The word for it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Iops => "IOPS",
            Self::MibPerSecond => "MiB/s",
        }
    }
}

/// How one policy did under one workload.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// The name of the row: the policy, and for `pid` whose reads.
    pub label: String,
    /// The policy as it was asked for.
    pub policy: String,
    /// Reads completed per second.
    pub iops: f64,
    /// Bytes read per second.
    pub bytes_per_second: f64,
    /// Response times, in nanoseconds.
    pub response: Histogram,
    /// What each leg was asked.
    pub legs: Vec<LegShare>,
    /// The hash of the trace; `None` for a mean of several runs and for real ones.
    pub trace_hash: Option<u64>,
}

impl Outcome {
    /// The rate in `unit`.
    pub(crate) fn rate(&self, unit: RateUnit) -> f64 {
        match unit {
            RateUnit::Iops => self.iops,
            RateUnit::MibPerSecond => self.bytes_per_second / f64::from(1 << 20),
        }
    }
}

/// What one leg was asked in one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct LegShare {
    /// Reads sent to it.
    pub reads: u64,
    /// Bytes of them.
    pub read_bytes: u64,
    /// Share of the time with at least one operation in the device, from 0 to 1; `None` where that
    /// was not counted.
    pub busy_fraction: Option<f64>,
}

/// The real part of a report.
#[derive(Debug)]
pub(crate) struct Measured {
    /// The legs, as `serve` was given them.
    pub legs: Vec<String>,
    /// Usable size of the served mirror.
    pub size_bytes: u64,
    /// Measured seconds per row.
    pub seconds: f64,
    /// One row per depth and policy.
    pub rows: Vec<MeasuredRow>,
}

/// One policy at one depth, measured and predicted.
#[derive(Clone, Debug)]
pub(crate) struct MeasuredRow {
    /// The policy.
    pub policy: String,
    /// Requests kept in flight by the client.
    pub iodepth: u32,
    /// What the client saw.
    pub measured: Outcome,
    /// What the simulator said.
    pub predicted: Outcome,
    /// Who used the processors meanwhile; `None` where the kernel did not say.
    pub processors: Option<ProcessorUse>,
}

/// Shares of one processor, 1.0 for a whole one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ProcessorUse {
    /// The server.
    pub server: f64,
    /// The client.
    pub client: f64,
    /// Everything else on the machine, the kernel included.
    pub others: f64,
}

impl MeasuredRow {
    /// How much more was measured than predicted, in percent of the prediction.
    pub(crate) fn difference_percent(&self) -> f64 {
        (self.measured.iops / self.predicted.iops - 1.0) * 100.0
    }

    /// Whether hard disks, not the path to them, set the pace: the prediction says that the median
    /// request takes a millisecond or more.
    pub(crate) fn is_hdd_bound(&self) -> bool {
        // An SSD answers well below 1 ms and a hard disk well above it, queued or not.
        const HDD_NS: u64 = 1_000_000;
        self.predicted.response.quantile(5_000) >= HDD_NS
    }
}
