//! `heliostat status`, `fail`, `remove`, `add`, `replace`, `set` and `stop`: how an array is, and
//! what is done to it by hand.

use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Write as _, stderr, stdout};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use heliostat_runtime::{
    ArrayStatus, BehindStatus, BitmapStatus, ControlRequest, ControlResponse, LegStatus, Places,
    ScrubRun, WorkStatus, registered_names,
};
use stdx::units::format_size;

use crate::cli::ControlArgs;
use crate::rate;
use crate::top::served;
use crate::wait::Waiting;

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
    /// Read it only where nothing else is left, from now on.
    #[arg(long)]
    write_mostly: bool,
    /// Have it out at its first error, from now on.
    #[arg(long)]
    failfast: bool,
    /// Wait until it is in sync.
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    control: ControlArgs,
}

/// What `heliostat re-add` is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ReAddArgs {
    /// The array.
    name: String,
    /// The leg that was away.
    leg: String,
    /// Wait until it is in sync.
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    control: ControlArgs,
}

/// What `heliostat replace` is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ReplaceArgs {
    /// The array.
    name: String,
    /// The leg that is to be replaced: its number, or as it was written.
    leg: String,
    /// The new leg, or a spare; without it, any spare.
    #[arg(long, value_name = "NEW")]
    with: Option<String>,
    /// Destroy what lies on the new leg.
    #[arg(long, requires = "with")]
    force: bool,
    /// Wait until the new leg is in sync.
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    control: ControlArgs,
}

/// What `heliostat set` is told.
#[derive(Clone, Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("said").required(true).multiple(true))]
pub(crate) struct SetArgs {
    /// The array.
    name: String,
    /// The leg: its number, or as it was written.
    leg: String,
    /// Whether it is read only where nothing else is left.
    #[arg(long, value_name = "on|off", group = "said")]
    write_mostly: Option<OnOff>,
    /// Whether it is out at its first error.
    #[arg(long, value_name = "on|off", group = "said")]
    failfast: Option<OnOff>,
    #[command(flatten)]
    control: ControlArgs,
}

/// Whether something is so.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum OnOff {
    On,
    Off,
}

/// What `heliostat stop` is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct StopArgs {
    /// The array.
    name: String,
    #[command(flatten)]
    control: ControlArgs,
}

/// How long an array may take to stop: the 10 s that it promises, and some for the machine.
const STOP_TIME_MAX: Duration = Duration::from_secs(20);

/// How often it is looked whether it has.
const STOP_LOOK_EVERY: Duration = Duration::from_millis(20);

/// Asks and shows.
pub(crate) fn run(args: &StatusArgs) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    if let Some(name) = &args.name {
        let status = ask(&args.control, name)?;
        show(&mut out, args, &status)?;
        return Ok(());
    }
    let places = args.control.places()?;
    let names = known_names(&places)?;
    if names.is_empty() {
        // Whoever closed standard error does not want to know.
        let _ = writeln!(
            stderr(),
            "no array is known in {}; another place is named with --control-dir DIR",
            places.control.display()
        );
    }
    let mut silent = Vec::new();
    for name in names {
        match ask(&args.control, &name) {
            Ok(status) => show(&mut out, args, &status)?,
            Err(error) if has_listener(&places.socket(&name)) => silent.push(format!("{error:#}")),
            Err(_) if args.json => {}
            Err(_) => writeln!(out, "{name}: not served")?,
        }
    }
    if !silent.is_empty() {
        bail!("{}", silent.join("\n"));
    }
    Ok(())
}

/// Whether somebody could answer there, or we may not see whether.
fn has_listener(socket: &Path) -> bool {
    let nobody = [ErrorKind::NotFound, ErrorKind::ConnectionRefused];
    UnixStream::connect(socket).map_or_else(|error| !nobody.contains(&error.kind()), |_| true)
}

/// The arrays that are known here: those that something is remembered of, and those that have a
/// control socket, as arrays of legs without metadata do while they are served.
fn known_names(places: &Places) -> anyhow::Result<BTreeSet<String>> {
    for directory in [&places.control, &places.state] {
        match fs::read_dir(directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            entries => drop(entries.with_context(|| {
                format!(
                    "cannot look for arrays in {} (--control-dir DIR names another place)",
                    directory.display()
                )
            })?),
        }
    }
    Ok(registered_names(places)
        .into_iter()
        .chain(served(places))
        .collect())
}

/// Asks how an array is.
pub(crate) fn ask(control: &ControlArgs, name: &str) -> anyhow::Result<Box<ArrayStatus>> {
    let ControlResponse::Status(status) = control.ask(name, &ControlRequest::Status)? else {
        bail!("asked how it is, the daemon answered something else");
    };
    Ok(status)
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
    let read_only = if status.read_only { ", read-only" } else { "" };
    let mut lines = vec![format!(
        "{}: {}, {}, {}{read_only}{degraded}, {} of {} legs in sync",
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
    let exports = status.exports.iter();
    lines.extend(exports.map(|uri| format!("  served at {uri}")));
    lines.extend(status.legs.iter().map(leg_line));
    let replacement = status.replacement.iter();
    lines.extend(replacement.map(|leg| format!("  replacement of{}", leg_line(leg).split_at(1).1)));
    let former = status.former.iter();
    lines.extend(former.map(|leg| format!("  no leg any more: {leg}, out")));
    let spares = status.spares.iter();
    lines.extend(spares.map(|spare| format!("  spare: {spare}")));
    lines.extend(status.bitmap.iter().map(bitmap_line));
    lines.extend(status.write_behind.iter().map(behind_line));
    let place = match status.scheduler_on.as_str() {
        "array" => "the array",
        _ => "each leg",
    };
    lines.push(format!(
        "  scheduler {} in front of {place}",
        status.scheduler
    ));
    lines.push(format!(
        "  resync, rebuild and scrub: {}",
        rate::bounds(status.background_rates)
    ));
    lines.extend(status.background.iter().map(work_line));
    lines.extend(
        status
            .scrub_waiting
            .iter()
            .map(|kind| format!("  {kind}: waits until that is done")),
    );
    lines.extend(status.last_scrub.iter().map(last_scrub_line));
    lines.join("\n") + "\n"
}

fn leg_line(leg: &LegStatus) -> String {
    let mut line = format!("  leg {}: ", leg.role);
    // Nobody has the role, and the name that is there says no more.
    if leg.leg != format!("missing:{}", leg.role) {
        line = line + &leg.leg + ", ";
    }
    line += &leg.state;
    for (word, is_set) in [
        ("write-mostly", leg.write_mostly),
        ("failfast", leg.failfast),
        ("to go when others have what it has", leg.leaving),
    ] {
        if is_set {
            line = line + ", " + word;
        }
    }
    if let Some(by) = &leg.replaced_by {
        line = line + ", being replaced by " + by;
    }
    line + &troubles(leg)
}

/// What a leg has done wrong, where it has.
fn troubles(leg: &LegStatus) -> String {
    let counted = [
        (leg.bad_sectors, "bad sectors"),
        (u64::from(leg.corrected_sectors), "corrected sectors"),
        (u64::from(leg.recent_read_errors), "recent read errors"),
    ];
    let counted = counted.iter().filter(|(count, _)| *count > 0);
    counted
        .map(|(count, what)| format!(", {count} {what}"))
        .collect()
}

fn bitmap_line(bitmap: &BitmapStatus) -> String {
    let resync = match bitmap.needed {
        0 => String::new(),
        needed => format!(", {needed} to be resynced"),
    };
    format!(
        "  bitmap: {} of {} chunks of {} set{resync}\n  bitmap since the start: {} bits set, {} \
         pages written",
        bitmap.set,
        bitmap.chunks,
        format_size(bitmap.chunk_bytes),
        bitmap.sets,
        bitmap.pages_written
    )
}

fn behind_line(behind: &BehindStatus) -> String {
    format!(
        "  write-behind: {} of {} writes, {} of {}; {} since the start",
        behind.writes,
        behind.writes_max,
        format_size(behind.bytes),
        format_size(behind.bytes_max),
        behind.total
    )
}

/// How far background work is.
pub(crate) fn work_line(work: &WorkStatus) -> String {
    let mut line = format!(
        "  {}: {} of {} ({} %), {} per second",
        work.kind,
        format_size(work.done_bytes),
        format_size(work.total_bytes),
        work.percent(),
        format_size(work.bytes_per_s)
    );
    if work.paused {
        line += ", paused";
    } else if let Some(left) = work.time_left() {
        line += &format!(", {left} left");
    }
    if work.mismatch_sectors > 0 {
        line += &format!(", {} sectors differ", work.mismatch_sectors);
    }
    line
}

/// What is known of differences between copies.
fn last_scrub_line(run: &ScrubRun) -> String {
    let found = match run.mismatch_sectors {
        0 => "no sector differed".to_owned(),
        1 => "1 sector differed".to_owned(),
        sectors => format!("{sectors} sectors differed"),
    };
    let end = match run.end.as_deref() {
        Some("done") | None => String::new(),
        Some(end) => format!(" ({end})"),
    };
    format!("  last {} of {}{end}: {found}", run.kind, run.began)
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

/// Makes a leg part of an array. The exit code says whether that is done, where it was waited for.
pub(crate) fn add(args: &AddArgs) -> anyhow::Result<ExitCode> {
    let leg = absolute(&args.leg);
    let request = ControlRequest::Add {
        leg,
        force: args.force,
        write_mostly: args.write_mostly,
        failfast: args.failfast,
    };
    add_by(&args.control, &args.name, &request, args.wait)
}

/// Makes a leg that was away part of an array again.
pub(crate) fn re_add(args: &ReAddArgs) -> anyhow::Result<ExitCode> {
    let leg = absolute(&args.leg);
    let request = ControlRequest::ReAdd { leg };
    add_by(&args.control, &args.name, &request, args.wait)
}

/// Has a leg replaced by a new one while both serve. The exit code says whether that is done, where
/// it was waited for.
pub(crate) fn replace(args: &ReplaceArgs) -> anyhow::Result<ExitCode> {
    let request = ControlRequest::Replace {
        leg: args.leg.clone(),
        by: args.with.as_deref().map(absolute),
        force: args.force,
    };
    add_by(&args.control, &args.name, &request, args.wait)
}

/// Says something else of a leg.
pub(crate) fn set(args: &SetArgs) -> anyhow::Result<()> {
    let is_on = |flag: OnOff| matches!(flag, OnOff::On);
    let request = ControlRequest::Set {
        leg: args.leg.clone(),
        write_mostly: args.write_mostly.map(is_on),
        failfast: args.failfast.map(is_on),
    };
    tell(args.control.ask(&args.name, &request)?)
}

/// Asks for legs to be filled, and waits for that where it is told to.
pub(crate) fn add_by(
    control: &ControlArgs,
    name: &str,
    request: &ControlRequest,
    waits: bool,
) -> anyhow::Result<ExitCode> {
    let waiting = waits.then(|| Waiting::begin(control, name)).transpose()?;
    tell(control.ask(name, request)?)?;
    waiting.map_or(Ok(ExitCode::SUCCESS), Waiting::until_idle)
}

/// A leg as the daemon can find it, which may run elsewhere in the file system.
pub(crate) fn absolute(leg: &str) -> String {
    let path = fs::canonicalize(leg).ok();
    path.map_or_else(|| leg.to_owned(), |path| path.display().to_string())
}

/// Stops an array, and waits until others can have its legs.
pub(crate) fn stop(args: &StopArgs) -> anyhow::Result<()> {
    let name = &args.name;
    let places = args.control.places()?;
    let ControlResponse::Done(_) = args.control.ask(name, &ControlRequest::Stop)? else {
        bail!("the daemon answered something else");
    };
    let until = Instant::now() + STOP_TIME_MAX;
    while let Some(process) = heliostat_runtime::server_of(&places, name) {
        if Instant::now() > until {
            bail!("{name} is told to stop, but process {process} still serves it");
        }
        std::thread::sleep(STOP_LOOK_EVERY);
    }
    writeln!(stdout(), "{name} is stopped")?;
    Ok(())
}

/// Prints what became of something.
pub(crate) fn tell(response: ControlResponse) -> anyhow::Result<()> {
    let ControlResponse::Done(done) = response else {
        bail!("the daemon answered something else");
    };
    writeln!(stdout(), "{done}")?;
    Ok(())
}
