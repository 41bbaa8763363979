//! `heliostat stats`: what clients asked for, what each leg was asked, and how it answered.

use std::io::{Write as _, stdout};

use anyhow::bail;
use comfy_table::{CellAlignment, Table, presets};
use heliostat_runtime::{
    ArrayStats, ControlRequest, ControlResponse, Distribution, HedgeCounts, LegFigures,
    RequestFigures, clock_time,
};
use heliostat_types::Duration;
use stdx::units::format_size;

use crate::cli::ControlArgs;
use crate::histogram::{bar_columns, histogram};

/// What `heliostat stats` is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct StatsArgs {
    /// The array.
    name: String,
    /// One object on one line, and nothing else.
    #[arg(long)]
    json: bool,
    /// How long reads and writes of clients took, in the buckets <8 ms, <16 ms ... >=65536 ms.
    #[arg(long, conflicts_with = "json")]
    histogram: bool,
    /// Begin the statistics anew: of this leg (its role, or as it was written), or of everything.
    #[arg(long, value_name = "LEG", num_args = 0..=1, conflicts_with_all = ["json", "histogram"])]
    reset: Option<Option<String>>,
    #[command(flatten)]
    control: ControlArgs,
}

const NOTHING_IS_COUNTED: &str = "Nothing is counted: it is served with --no-accounting.\n";

/// Asks and shows.
pub(crate) fn run(args: &StatsArgs) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    if let Some(leg) = &args.reset {
        let request = ControlRequest::ResetStats { leg: leg.clone() };
        let ControlResponse::Done(text) = args.control.ask(&args.name, &request)? else {
            bail!("asked to begin the statistics anew, the daemon answered something else");
        };
        writeln!(out, "{text}")?;
        return Ok(());
    }
    let ControlResponse::Stats(stats) = args
        .control
        .ask(&args.name, &ControlRequest::Stats { fine: false })?
    else {
        bail!("asked for statistics, the daemon answered something else");
    };
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&stats)?)?;
    } else if args.histogram {
        write!(out, "{}", histograms(&stats, bar_columns()))?;
    } else {
        write!(out, "{}", page(&stats))?;
    }
    out.flush()?;
    Ok(())
}

/// How long clients waited, in buckets.
fn histograms(stats: &ArrayStats, bar_columns: u16) -> String {
    if !stats.accounting {
        return NOTHING_IS_COUNTED.to_owned();
    }
    let requests = &stats.requests;
    let side = |name, buckets, times: &Distribution| {
        histogram(name, buckets, Duration::from_ns(times.max), bar_columns)
    };
    let reads = &requests.read_response_time_ns;
    let writes = &requests.write_response_time_ns;
    format!(
        "{}\n{}",
        side("reads", &requests.read_histogram_ms, reads),
        side("writes", &requests.write_histogram_ms, writes)
    )
}

/// All of it for people.
fn page(stats: &ArrayStats) -> String {
    let state = if stats.dirty {
        "being written"
    } else {
        "clean"
    };
    let head = format!(
        "{}: {}, policy {}, scheduler {}, {state}, served for {}, {} of {} memory in use, legs \
         through {}\n",
        stats.name,
        format_size(stats.size_bytes),
        stats.policy,
        stats.scheduler,
        clock_time(stats.uptime_ns),
        format_size(stats.memory_used_bytes),
        format_size(stats.memory_bytes),
        stats.backend,
    );
    if !stats.accounting {
        return head + "\n" + NOTHING_IS_COUNTED;
    }
    let requests = &stats.requests;
    format!(
        "{head}\nClients, from request to answer, counted for {}; late is what takes {} or \
         longer:\n\n{}\n\
         \n{} requests of clients were {} operations on legs{}.{} Legs:\n\n{}\n\
         \nTimes of legs, in the queue and from dispatch to completion:\n\n{}\n",
        clock_time(requests.counted_ns),
        Duration::from_ns(stats.client_timeout_ns),
        clients(stats),
        requests.reads + requests.writes,
        stats
            .legs
            .iter()
            .map(|leg| leg.reads + leg.writes)
            .sum::<u64>(),
        if are_counted_alike(stats) {
            ""
        } else {
            ", which are not all counted for as long"
        },
        hedged(stats.hedges),
        counts(stats),
        service_times(stats),
    )
}

/// Whether all legs are counted since the same moment as clients are, to the second that is shown:
/// one that was added or reset later is not.
fn are_counted_alike(stats: &ArrayStats) -> bool {
    let counted = clock_time(stats.requests.counted_ns);
    let mut legs = stats.legs.iter();
    legs.all(|leg| clock_time(leg.counted_ns) == counted)
}

/// How often a second leg was asked.
fn hedged(hedges: HedgeCounts) -> String {
    match hedges.issued {
        0 => String::new(),
        issued => format!(
            " {issued} late reads were asked of a second leg, {} of them answered by it and {} in \
             vain.",
            hedges.won, hedges.wasted
        ),
    }
}

/// A number of something in a second.
#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn per_second(count: u64, time_ns: u64) -> f64 {
    count as f64 * 1e9 / time_ns.max(1) as f64
}

fn clients(stats: &ArrayStats) -> String {
    let head = [
        "client",
        "",
        "count",
        "/s",
        "MB/s",
        "p50",
        "p99",
        "max",
        "in flight",
        "late",
    ];
    let rows = |name: &str, requests: &RequestFigures| {
        let sides = [
            (
                "read",
                requests.reads,
                requests.read_bytes,
                requests.reads_in_flight,
                requests.read_response_time_ns,
            ),
            (
                "write",
                requests.writes,
                requests.write_bytes,
                requests.writes_in_flight,
                requests.write_response_time_ns,
            ),
        ];
        let late = match (requests.late, requests.late_in_flight) {
            (late, 0) => late.to_string(),
            (late, now) => format!("{late} + {now} now"),
        };
        let row = |(side, count, bytes, in_flight, times): (_, u64, u64, u64, Distribution)| {
            let rate = |of| per_second(of, requests.counted_ns);
            let mut row = vec![name.to_owned(), String::from(side), count.to_string()];
            row.push(format!("{:.1}", rate(count)));
            row.push(format!("{:.1}", rate(bytes) / 1e6));
            row.extend([times.p50, times.p99, times.max].map(|ns| time_of(count, ns)));
            row.push(in_flight.to_string());
            // Not told by side.
            row.push(if side == "read" {
                late.clone()
            } else {
                String::new()
            });
            row
        };
        sides.map(row)
    };
    let each = stats.clients.iter().flat_map(|client| {
        let gone = if client.connections == 0 {
            ", gone"
        } else {
            ""
        };
        rows(&format!("{}{gone}", client.client), &client.requests)
    });
    table(&head, rows("all", &stats.requests).into_iter().chain(each))
}

/// A time of so many.
fn time_of(count: u64, ns: u64) -> String {
    match count {
        0 => "-".to_owned(),
        _ => Duration::from_ns(ns).to_string(),
    }
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
    let mut head = vec![
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
    let has_merges = stats.legs.iter().any(|leg| leg.merges > 0);
    if has_merges {
        head.push("merged");
    }
    let is_each_told = !are_counted_alike(stats);
    if is_each_told {
        head.push("counted for");
    }
    let reads: u64 = stats.legs.iter().map(|leg| leg.reads).sum();
    let row = |leg: &LegFigures| {
        let mut row = vec![
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
        ];
        row.extend(has_merges.then(|| leg.merges.to_string()));
        row.extend(is_each_told.then(|| clock_time(leg.counted_ns)));
        row
    };
    table(&head, stats.legs.iter().map(row))
}

fn service_times(stats: &ArrayStats) -> String {
    let head = [
        "leg", "", "count", "queued", "p99", "max", "served", "p50", "p99", "p99.9", "max", "busy",
    ];
    let row = |leg: &LegFigures, kind: &str, count, waits: Distribution, times: Distribution| {
        let busy = (leg.ticks_ns * 100)
            .checked_div(leg.counted_ns)
            .unwrap_or(0);
        let mut row = vec![
            format!("{} {}", leg.index, leg.leg),
            kind.to_owned(),
            u64::to_string(&count),
        ];
        let waits = [waits.mean, waits.p99, waits.max];
        let times = [times.mean, times.p50, times.p99, times.p99_9, times.max];
        row.extend(waits.into_iter().chain(times).map(|ns| time_of(count, ns)));
        row.push(format!("{busy} %"));
        row
    };
    let rows = stats.legs.iter().flat_map(|leg| {
        let (reads, writes) = (leg.read_queue_wait_ns, leg.write_queue_wait_ns);
        [
            row(leg, "read", leg.reads, reads, leg.read_service_time_ns),
            row(leg, "write", leg.writes, writes, leg.write_service_time_ns),
        ]
    });
    table(&head, rows)
}

#[cfg(test)]
mod tests {
    use heliostat_runtime::ArrayStats;

    use super::page;
    use crate::top::testing;

    /// Two legs and a client, counted for a minute.
    fn minute() -> ArrayStats {
        let legs = [("a", "in-sync"), ("b", "in-sync")];
        testing::stats(60, 1000, &legs, &["fio (7)"])
    }

    /// The table of legs, from its head on.
    fn legs(page: &str) -> Vec<&str> {
        let lines = page.lines();
        lines
            .skip_while(|line| !line.trim_start().starts_with("leg "))
            .take(3)
            .collect()
    }

    #[test]
    fn what_was_merged_is_told_where_there_is_any() {
        let mut stats = minute();
        assert!(!page(&stats).contains("merged"));
        stats.legs[1].merges = 77;
        let page = page(&stats);
        let legs = legs(&page);
        assert!(legs[0].ends_with(" merged"), "{page}");
        assert!(
            legs[1].ends_with(" 0") && legs[2].ends_with(" 77"),
            "{page}"
        );
    }

    #[test]
    fn legs_that_are_counted_since_another_moment_say_so() {
        let mut stats = minute();
        assert!(!page(&stats).contains("counted for as long"));
        stats.legs[1].counted_ns = 5_000_000_000;
        let page = page(&stats);
        assert!(page.contains("on legs, which are not all counted for as long."));
        let legs = legs(&page);
        assert!(legs[0].ends_with(" counted for"), "{page}");
        assert!(legs[1].ends_with(" 00:01:00"), "{page}");
        assert!(legs[2].ends_with(" 00:00:05"), "{page}");
    }
}
