//! `heliostat stats`: what each leg was asked, and how it answered.

use std::io::{Write as _, stdout};

use anyhow::bail;
use comfy_table::{CellAlignment, Table, presets};
use heliostat_runtime::{
    ArrayStats, ControlRequest, ControlResponse, Distribution, LegFigures, clock_time,
};
use heliostat_types::Duration;
use stdx::units::format_size;

use crate::cli::ControlArgs;

/// What `heliostat stats` is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct StatsArgs {
    /// The array.
    name: String,
    /// One object on one line, and nothing else.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    control: ControlArgs,
}

/// Asks and shows.
pub(crate) fn run(args: &StatsArgs) -> anyhow::Result<()> {
    let ControlResponse::Stats(stats) = args.control.ask(&args.name, &ControlRequest::Stats)?
    else {
        bail!("asked for statistics, the daemon answered something else");
    };
    let mut out = stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&stats)?)?;
    } else {
        write!(out, "{}", page(&stats))?;
    }
    out.flush()?;
    Ok(())
}

/// All of it for people.
fn page(stats: &ArrayStats) -> String {
    let state = if stats.dirty {
        "being written"
    } else {
        "clean"
    };
    format!(
        "{}: {}, policy {}, {state}, served for {}, {} of {} memory in use, legs through {}\n\n{}\n\
         \nService times, from dispatch to completion:\n\n{}\n",
        stats.name,
        format_size(stats.size_bytes),
        stats.policy,
        clock_time(stats.uptime_ns),
        format_size(stats.memory_used_bytes),
        format_size(stats.memory_bytes),
        stats.backend,
        counts(stats),
        service_times(stats),
    )
}

/// A table without lines but under its head, numbers to the right.
fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_header(head)
        .add_rows(rows);
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

fn counts(stats: &ArrayStats) -> String {
    let head = [
        "leg",
        "state",
        "reads",
        "read",
        "share",
        "writes",
        "written",
        "flushes",
        "in flight",
        "errors",
    ];
    let reads: u64 = stats.legs.iter().map(|leg| leg.reads).sum();
    let row = |leg: &LegFigures| {
        vec![
            format!("{} {}", leg.index, leg.leg),
            leg.state.clone(),
            leg.reads.to_string(),
            format_size(leg.read_bytes),
            format!("{} %", (leg.reads * 100).checked_div(reads).unwrap_or(0)),
            leg.writes.to_string(),
            format_size(leg.write_bytes),
            leg.flushes.to_string(),
            format!("{}r {}w", leg.reads_in_flight, leg.writes_in_flight),
            format!("{}r {}w", leg.read_errors, leg.write_errors),
        ]
    };
    table(&head, stats.legs.iter().map(row))
}

fn service_times(stats: &ArrayStats) -> String {
    let head = ["leg", "", "count", "mean", "p50", "p99", "p99.9", "max"];
    let row = |leg: &LegFigures, kind: &str, count: u64, times: &Distribution| {
        let mut row = vec![
            format!("{} {}", leg.index, leg.leg),
            kind.to_owned(),
            count.to_string(),
        ];
        let times = [times.mean, times.p50, times.p99, times.p99_9, times.max];
        row.extend(times.map(|ns| match count {
            0 => "-".to_owned(),
            _ => Duration::from_ns(ns).to_string(),
        }));
        row
    };
    let rows = stats.legs.iter().flat_map(|leg| {
        [
            row(leg, "read", leg.reads, &leg.read_service_time_ns),
            row(leg, "write", leg.writes, &leg.write_service_time_ns),
        ]
    });
    table(&head, rows)
}
