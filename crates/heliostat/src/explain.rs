//! `heliostat explain`: what the read policy of an array believes of its legs, and why reads go
//! where they go.
//!
//! Beliefs are shown at once. Then the next reads are watched, and shown when there are as many as
//! were asked for or the time is over.

mod groups;
mod page;
#[cfg(test)]
mod testing;

use std::io::{IsTerminal as _, Write as _, stdout};

use anyhow::bail;
use comfy_table::Table;
use heliostat_runtime::{ControlRequest, ControlResponse, Explanation, WatchedReads};
use serde::Serialize;
use stdx::units::parse_time_ns;

use crate::cli::ControlArgs;
use groups::Group;
pub(crate) use page::{LegInALine, in_a_line};

/// How wide lines are where there is no terminal.
const PLAIN_COLUMNS: usize = 100;

/// What `heliostat explain` is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// The array.
    name: String,
    /// How many of the next reads are watched at most; 0: none, only what is believed is shown.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    #[arg(value_parser = clap::value_parser!(u16).range(0..=4_000))]
    reads: u16,
    /// For how long they are watched at most, as in 500ms or 30s; up to 600s.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_wait)]
    wait: Wait,
    /// One object on one line, and nothing else.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    control: ControlArgs,
}

/// For how long reads are watched.
#[derive(Clone, Copy, Debug)]
struct Wait {
    ms: u64,
}

fn parse_wait(text: &str) -> Result<Wait, String> {
    let ns = parse_time_ns(text).map_err(|error| error.to_string())?;
    let ms = ns.div_ceil(1_000_000);
    if ms > 600_000 {
        return Err("600s is the most that can be waited for; ask again after that".to_owned());
    }
    Ok(Wait { ms })
}

/// All of it for programs.
#[derive(Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    explanation: &'a Explanation,
    #[serde(skip_serializing_if = "Option::is_none")]
    watched: Option<WatchedAndGrouped<'a>>,
}

/// What was watched, with what is alike put together.
#[derive(Serialize)]
struct WatchedAndGrouped<'a> {
    groups: Vec<Group>,
    #[serde(flatten)]
    reads: &'a WatchedReads,
}

/// Asks, watches and shows.
pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<()> {
    let ControlResponse::Explanation(explanation) =
        args.control.ask(&args.name, &ControlRequest::Explain)?
    else {
        bail!("asked what its policy believes, the daemon answered something else");
    };
    let mut out = stdout().lock();
    let columns = out.is_terminal().then(|| Table::new().width()).flatten();
    let width = columns.map_or(PLAIN_COLUMNS, usize::from);
    if !args.json {
        write!(out, "{}", page::beliefs(&explanation, width))?;
        out.flush()?;
    }
    let reads = if args.reads > 0 {
        Some(watch(args)?)
    } else {
        None
    };
    if args.json {
        let watched = reads.as_ref().map(|reads| WatchedAndGrouped {
            groups: groups::of(&reads.decisions),
            reads,
        });
        let whole = Whole {
            explanation: &explanation,
            watched,
        };
        writeln!(out, "{}", serde_json::to_string(&whole)?)?;
    } else if let Some(reads) = reads {
        write!(out, "\n{}", page::reads(&explanation, &reads, width))?;
    }
    out.flush()?;
    Ok(())
}

fn watch(args: &ExplainArgs) -> anyhow::Result<WatchedReads> {
    let request = ControlRequest::WatchReads {
        reads: args.reads.into(),
        wait_ms: args.wait.ms,
    };
    let ControlResponse::WatchedReads(reads) = args.control.ask(&args.name, &request)? else {
        bail!("asked for the next reads, the daemon answered something else");
    };
    Ok(*reads)
}
