//! `heliostat status`, `fail` and `stop`: how an array is, and what is done to it by hand.

use std::io::{Write as _, stdout};

use anyhow::bail;
use heliostat_runtime::{
    ArrayStatus, BitmapStatus, ControlRequest, ControlResponse, registered_names,
};
use stdx::units::format_size;

use crate::cli::ControlArgs;

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

/// What `heliostat fail` is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct FailArgs {
    /// The array.
    name: String,
    /// The leg: its number, or as it was written.
    leg: String,
    #[command(flatten)]
    control: ControlArgs,
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

/// Takes a leg out by hand.
pub(crate) fn fail(args: &FailArgs) -> anyhow::Result<()> {
    let leg = args.leg.clone();
    tell(
        args.control
            .ask(&args.name, &ControlRequest::Fail { leg })?,
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
