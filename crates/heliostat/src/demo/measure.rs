//! The real part: the same mirror of `model:` legs, served over NBD and read.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use heliostat_policy::PolicySpec;
use heliostat_runtime::LegFigures;
use stdx::histogram::Histogram;

use super::load::Load;
use super::plan::{self, LEGS, REAL_DEPTHS, REAL_POLICIES, REAL_SIZE, REAL_SIZE_BYTES};
use super::predict;
use super::process_time::{machine_time, processor_time};
use super::progress::Progress;
use super::report::{LegShare, Measured, MeasuredRow, Outcome, ProcessorUse};
use super::server::Server;

/// Bytes per read.
const BLOCK_BYTES: u64 = 4 << 10;

/// What the real part serves, as `heliostat serve` is told.
pub(super) fn legs() -> Vec<String> {
    let leg = |name: &&str| format!("model:{name},size={REAL_SIZE}");
    LEGS.iter().map(leg).collect()
}

/// Serves, reads, and simulates the same.
///
/// # Errors
/// Where the server does not come up, fails a read, or does not stop.
pub(super) fn real_part(quick: bool, seed: u64) -> anyhow::Result<Measured> {
    let times = plan::real_times(quick);
    let legs = legs();
    let server = Server::start(&legs, REAL_POLICIES[0]).context("the real part's server")?;
    let mut load = Load::new(server.connect()?, BLOCK_BYTES, seed);
    let progress = Progress::begin(
        "For real, over NBD",
        REAL_DEPTHS.len() * REAL_POLICIES.len(),
    );
    let mut rows = Vec::new();
    for iodepth in REAL_DEPTHS {
        for name in REAL_POLICIES {
            progress.working_on(&format!("{name}, depth {iodepth}"));
            let policy: PolicySpec = name.parse().expect("the demo names policies that exist");
            server.set_policy(name)?;
            let before = Snapshot::of(&server)?;
            let response = load.run(iodepth, times.warmup, times.measured)?;
            let used = Snapshot::of(&server)?.since(&before);
            rows.push(MeasuredRow {
                policy: name.to_owned(),
                iodepth,
                measured: outcome_of(name, response, times.measured, used.legs),
                predicted: predict::real_part(&policy, iodepth, times, seed)?,
                processors: used.processors,
            });
            progress.step();
        }
    }
    progress.finish();
    drop(load);
    server.stop()?;
    Ok(Measured {
        legs,
        size_bytes: REAL_SIZE_BYTES,
        seconds: times.measured.as_secs_f64(),
        rows,
    })
}

/// What a client saw, as a row.
fn outcome_of(
    policy: &str,
    response: Histogram,
    measured: Duration,
    legs: Vec<LegShare>,
) -> Outcome {
    let iops = response.count() as f64 / measured.as_secs_f64();
    Outcome {
        label: policy.to_owned(),
        policy: policy.to_owned(),
        iops,
        bytes_per_second: iops * BLOCK_BYTES as f64,
        response,
        legs,
        trace_hash: None,
    }
}

/// Counters of the server and of this process at one moment.
#[derive(Debug)]
struct Snapshot {
    at: Instant,
    /// Processor times of the server, of this process and of the whole machine.
    times: Option<[Duration; 3]>,
    legs: Vec<LegFigures>,
}

fn processor_times(server: &Server) -> Option<[Duration; 3]> {
    Some([
        processor_time(server.process_id())?,
        processor_time(std::process::id())?,
        machine_time()?,
    ])
}

/// What happened between two snapshots.
#[derive(Debug)]
struct Used {
    processors: Option<ProcessorUse>,
    legs: Vec<LegShare>,
}

impl Snapshot {
    fn of(server: &Server) -> anyhow::Result<Self> {
        Ok(Self {
            at: Instant::now(),
            times: processor_times(server),
            legs: server.leg_figures()?,
        })
    }

    fn since(&self, before: &Self) -> Used {
        let elapsed = self.at.duration_since(before.at).as_secs_f64();
        let processors = self.times.zip(before.times).map(|(after, before)| {
            let used = |index: usize| {
                let time: Duration = after[index].saturating_sub(before[index]);
                time.as_secs_f64() / elapsed
            };
            let (server, client) = (used(0), used(1));
            ProcessorUse {
                server,
                client,
                others: (used(2) - server - client).max(0.0),
            }
        });
        let legs = self.legs.iter().zip(&before.legs);
        Used {
            processors,
            legs: legs
                .map(|(after, before)| LegShare {
                    reads: after.reads - before.reads,
                    read_bytes: after.read_bytes - before.read_bytes,
                    busy_fraction: None,
                })
                .collect(),
        }
    }
}
