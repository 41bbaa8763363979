//! `heliostat status`, `fail`, `remove`, `add`, `scrub` and `stop`: how an array is, and what is
//! done to it by hand.

use std::io::{Write as _, stdout};

use anyhow::bail;
use heliostat_runtime::{
    ArrayStatus, BitmapStatus, ControlRequest, ControlResponse, ScrubAction, WorkStatus,
    registered_names,
};
use stdx::units::format_size;

use crate::cli::ControlArgs;
use crate::rate;
use crate::stats::uptime;

/// What `heliostat status` is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// The array; all that are known here where none is named.
    name: Option<String>,
    /// One object on one line, and nothing else.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    control: ControlArgs,
}

/// What `heliostat fail` and `remove` are told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct FailArgs {
    /// The array.
    name: String,
    /// The leg: its number, or as it was written.
    leg: String,
    #[command(flatten)]
    control: ControlArgs,
}

/// What `heliostat add` is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AddArgs {
    /// The array.
    name: String,
    /// The leg: one that was away, or a new one.
    leg: String,
    /// Destroy what lies on it.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    control: ControlArgs,
}

/// What `heliostat scrub` is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ScrubArgs {
    /// The array.
    name: String,
    /// What is to be done.
    #[arg(value_enum)]
    action: Scrub,
    /// Of `status`: one object on one line, and nothing else.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    control: ControlArgs,
}

/// What is to be done about a scrub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Scrub {
    /// Read all legs and compare.
    Check,
    /// The same, and make equal what differs: as most copies are, where there are three.
    Repair,
    /// Begin nothing more in the background.
    Pause,
    /// Go on.
    Resume,
    /// Give the scrub up.
    Cancel,
    /// Show how far it is.
    Status,
}

/// What `heliostat stop` is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct StopArgs {
    /// The array.
    name: String,
    #[command(flatten)]
    control: ControlArgs,
}

/// Asks and shows.
pub(crate) fn run(args: &StatusArgs) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    if let Some(name) = &args.name {
        let status = ask(args, name)?;
        show(&mut out, args, &status)?;
        return Ok(());
    }
    let places = args.control.places()?;
    for name in registered_names(&places) {
        match ask(args, &name) {
            Ok(status) => show(&mut out, args, &status)?,
            Err(_) if args.json => {}
            Err(_) => writeln!(out, "{name}: not served")?,
        }
    }
    Ok(())
}

fn ask(args: &StatusArgs, name: &str) -> anyhow::Result<Box<ArrayStatus>> {
    match args.control.ask(name, &ControlRequest::Status)? {
        ControlResponse::Status(status) => Ok(status),
        ControlResponse::Stats(_)
        | ControlResponse::Policy(_)
        | ControlResponse::Rates(_)
        | ControlResponse::Done(_)
        | ControlResponse::Error(_) => {
            bail!("asked how it is, the daemon answered something else")
        }
    }
}

fn show(
    out: &mut impl std::io::Write,
    args: &StatusArgs,
    status: &ArrayStatus,
) -> anyhow::Result<()> {
    if args.json {
        writeln!(out, "{}", serde_json::to_string(status)?)?;
    } else {
        write!(out, "{}", page(status))?;
    }
    Ok(())
}

/// All of it for people.
fn page(status: &ArrayStatus) -> String {
    let degraded = if status.legs_in_sync < status.legs_wanted {
        ", degraded"
    } else {
        ""
    };
    let mut lines = vec![format!(
        "{}: {}, {}, {}{degraded}, {} of {} legs in sync",
        status.name,
        status.shape,
        format_size(status.size_bytes),
        status.state,
        status.legs_in_sync,
        status.legs_wanted
    )];
    if let Some(uuid) = &status.uuid {
        lines.push(format!("  UUID {uuid}"));
    }
    lines.extend(status.legs.iter().map(|leg| {
        let flag = if leg.write_mostly {
            ", write-mostly"
        } else {
            ""
        };
        format!("  leg {}: {}, {}{flag}", leg.role, leg.leg, leg.state)
    }));
    lines.extend(status.bitmap.iter().map(bitmap_line));
    lines.push(format!(
        "  resync, rebuild and scrub: {}",
        rate::bounds(status.background_rates)
    ));
    lines.extend(status.background.iter().map(work_line));
    lines.join("\n") + "\n"
}

fn bitmap_line(bitmap: &BitmapStatus) -> String {
    let resync = match bitmap.needed {
        0 => String::new(),
        needed => format!(", {needed} to be resynced"),
    };
    format!(
        "  bitmap: {} of {} chunks of {} set{resync}; since the start {} were set with {} writes \
         of a page",
        bitmap.set,
        bitmap.chunks,
        format_size(bitmap.chunk_bytes),
        bitmap.sets,
        bitmap.pages_written
    )
}

fn work_line(work: &WorkStatus) -> String {
    let percent = work
        .done_bytes
        .saturating_mul(100)
        .checked_div(work.total_bytes);
    let mut line = format!(
        "  {}: {} of {} ({} %), {} per second",
        work.kind,
        format_size(work.done_bytes),
        format_size(work.total_bytes),
        percent.unwrap_or(100),
        format_size(work.bytes_per_s)
    );
    if let Some(ns) = work.time_left_ns {
        line += &format!(", {} left", uptime(ns));
    }
    if work.mismatch_sectors > 0 {
        line += &format!(", {} sectors differ", work.mismatch_sectors);
    }
    if work.paused {
        line += ", paused";
    }
    line
}

/// Takes a leg out by hand.
pub(crate) fn fail(args: &FailArgs) -> anyhow::Result<()> {
    let leg = args.leg.clone();
    tell(
        args.control
            .ask(&args.name, &ControlRequest::Fail { leg })?,
    )
}

/// Lets go of a leg that is out.
pub(crate) fn remove(args: &FailArgs) -> anyhow::Result<()> {
    let leg = args.leg.clone();
    tell(
        args.control
            .ask(&args.name, &ControlRequest::Remove { leg })?,
    )
}

/// Makes a leg part of an array.
pub(crate) fn add(args: &AddArgs) -> anyhow::Result<()> {
    // The daemon may run elsewhere in the file system.
    let path = std::fs::canonicalize(&args.leg).ok();
    let leg = path.map_or_else(|| args.leg.clone(), |path| path.display().to_string());
    let force = args.force;
    tell(
        args.control
            .ask(&args.name, &ControlRequest::Add { leg, force })?,
    )
}

/// Begins, pauses, ends or shows a scrub.
pub(crate) fn scrub(args: &ScrubArgs) -> anyhow::Result<()> {
    let action = match args.action {
        Scrub::Check => ScrubAction::Check,
        Scrub::Repair => ScrubAction::Repair,
        Scrub::Pause => ScrubAction::Pause,
        Scrub::Resume => ScrubAction::Resume,
        Scrub::Cancel => ScrubAction::Cancel,
        Scrub::Status => {
            return run(&StatusArgs {
                name: Some(args.name.clone()),
                json: args.json,
                control: args.control.clone(),
            });
        }
    };
    tell(
        args.control
            .ask(&args.name, &ControlRequest::Scrub { action })?,
    )
}

/// Stops an array.
pub(crate) fn stop(args: &StopArgs) -> anyhow::Result<()> {
    tell(args.control.ask(&args.name, &ControlRequest::Stop)?)
}

fn tell(response: ControlResponse) -> anyhow::Result<()> {
    let ControlResponse::Done(done) = response else {
        bail!("the daemon answered something else");
    };
    writeln!(stdout(), "{done}")?;
    Ok(())
}
