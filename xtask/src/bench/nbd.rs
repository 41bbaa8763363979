//! fio's NBD client against each server in turn: what a request costs the server.
//!
//! fio is the slower end, so requests per second say as much of fio as of the server. The figure
//! that counts is the server's processor time per request.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::servers::{Kind, SIZE_BYTES, Server};
use crate::{fio, process};

/// How often and how long each cell is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// How often; all cells of all servers once before any of them again.
    pub(super) repeats: usize,
    /// How long.
    pub(super) time: Duration,
}

/// One load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    /// fio's word: randread or randwrite.
    pub(super) pattern: &'static str,
    /// Requests in flight on each connection.
    pub(super) depth: u32,
    /// How many connections.
    pub(super) connections: u32,
}

/// Every load, in the order of the table.
pub(super) const CELLS: [Cell; 8] = {
    const fn cell(pattern: &'static str, depth: u32, connections: u32) -> Cell {
        Cell {
            pattern,
            depth,
            connections,
        }
    }
    [
        cell("randread", 1, 1),
        cell("randread", 32, 1),
        cell("randread", 1, 4),
        cell("randread", 32, 4),
        cell("randwrite", 1, 1),
        cell("randwrite", 32, 1),
        cell("randwrite", 1, 4),
        cell("randwrite", 32, 4),
    ]
};

/// What one run of fio gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) kind: Kind,
    pub(super) cell: Cell,
    /// Requests per second, all connections together.
    pub(super) iops: f64,
    /// The server's processor time per request, in microseconds.
    pub(super) cpu_us: f64,
}

/// What fio may need beside the measured time: it starts, connects, and prints.
const FIO_TIME_EXTRA: Duration = Duration::from_secs(30);

/// Measures every cell of every server, as often as the plan says.
///
/// # Errors
/// Where a server does not come up, or fio fails.
pub(super) fn run(program: &Path, plan: Plan) -> Result<Vec<Sample>> {
    let servers = Kind::ALL
        .iter()
        .map(|&kind| Server::start(kind, program))
        .collect::<Result<Vec<Server>>>()?;
    for server in &servers {
        fill(server)?;
    }
    let mut samples = Vec::new();
    for repeat in 1..=plan.repeats {
        for cell in CELLS {
            for server in &servers {
                samples.push(measure(server, cell, plan.time)?);
            }
        }
        println!("repeat {repeat} of {} done", plan.repeats);
    }
    Ok(samples)
}

/// Writes every byte once, so that no server allocates memory while it is measured.
fn fill(server: &Server) -> Result<()> {
    run_fio(
        server,
        &["--rw=write", "--bs=1m", "--iodepth=4"],
        FIO_TIME_EXTRA,
    )?;
    Ok(())
}

fn measure(server: &Server, cell: Cell, time: Duration) -> Result<Sample> {
    let before = server.cpu_time()?;
    let pattern = format!("--rw={}", cell.pattern);
    let depth = format!("--iodepth={}", cell.depth);
    let connections = format!("--numjobs={}", cell.connections);
    let runtime = format!("--runtime={}", time.as_secs());
    let options = [
        &pattern,
        &depth,
        &connections,
        &runtime,
        "--bs=4k",
        "--time_based",
        // No map of what was written: fio has enough to do.
        "--norandommap",
    ];
    let job = run_fio(server, &options, time + FIO_TIME_EXTRA)?;
    let used = server.cpu_time()? - before;
    let both = |key: &str| {
        let of = |side: &str| job[side][key].as_f64().unwrap_or(0.0);
        of("read") + of("write")
    };
    let requests = both("total_ios");
    ensure!(requests > 0.0, "fio did nothing: {job}");
    Ok(Sample {
        kind: server.kind,
        cell,
        iops: both("iops"),
        cpu_us: used.as_secs_f64() * 1e6 / requests,
    })
}

/// Runs fio over the whole disk and gives its report of all connections together.
fn run_fio(server: &Server, options: &[&str], limit: Duration) -> Result<Value> {
    let mut command = process::limited(limit, "fio");
    command
        .args([
            "--name=bench",
            "--ioengine=nbd",
            "--thread",
            "--group_reporting",
        ])
        .arg(format!("--uri={}", server.uri()))
        .arg(format!("--size={SIZE_BYTES}"))
        .arg("--output-format=json")
        .args(options);
    let report = process::succeed(&mut command).with_context(|| server.kind.name())?;
    Ok(fio::jobs(&report)?.swap_remove(0))
}
