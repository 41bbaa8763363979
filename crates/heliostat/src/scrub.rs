//! `heliostat scrub`: comparing the copies of an array, and what that has found.

use std::io::{Write as _, stdout};
use std::process::ExitCode;

use anyhow::bail;
use comfy_table::{CellAlignment, Table, presets};
use heliostat_runtime::{
    ControlRequest, ControlResponse, ScrubAction, ScrubRun, UsageError, clock_time,
};
use stdx::units::format_size;

use crate::cli::ControlArgs;
use crate::status;
use crate::wait::Waiting;

/// What `heliostat scrub` is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ScrubArgs {
    /// The array.
    name: String,
    /// What is to be done.
    #[arg(value_enum)]
    action: Scrub,
    /// Wait until the check or repair has ended. The exit code is 1 where a check found legs that
    /// differ, or not all of the array was gone through.
    #[arg(long)]
    wait: bool,
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
    /// Show how far it is, and what earlier ones found.
    Status,
}

/// Begins, pauses, ends or shows a scrub. The exit code says what was found, where that was waited
/// for.
pub(crate) fn run(args: &ScrubArgs) -> anyhow::Result<ExitCode> {
    let is_begun = matches!(args.action, Scrub::Check | Scrub::Repair);
    if args.wait && !is_begun {
        bail!(UsageError("--wait goes with check and repair".to_owned()));
    }
    if args.json && args.action != Scrub::Status {
        bail!(UsageError("--json goes with status".to_owned()));
    }
    let action = match args.action {
        Scrub::Check => ScrubAction::Check,
        Scrub::Repair => ScrubAction::Repair,
        Scrub::Pause => ScrubAction::Pause,
        Scrub::Resume => ScrubAction::Resume,
        Scrub::Cancel => ScrubAction::Cancel,
        Scrub::Status => return show(args).map(|()| ExitCode::SUCCESS),
    };
    let waiting = args.wait.then(|| Waiting::begin(&args.control, &args.name));
    let waiting = waiting.transpose()?;
    let request = ControlRequest::Scrub { action };
    status::tell(args.control.ask(&args.name, &request)?)?;
    waiting.map_or(Ok(ExitCode::SUCCESS), Waiting::until_idle)
}

/// Shows the scrub that is under way, and what earlier ones found.
fn show(args: &ScrubArgs) -> anyhow::Result<()> {
    let ControlResponse::ScrubRuns(runs) =
        args.control.ask(&args.name, &ControlRequest::ScrubRuns)?
    else {
        bail!("asked for scrubs, the daemon answered something else");
    };
    let mut out = stdout().lock();
    if args.json {
        for run in &runs {
            writeln!(out, "{}", serde_json::to_string(run)?)?;
        }
        return Ok(());
    }
    let status = status::ask(&args.control, &args.name)?;
    let name = &status.name;
    if let Some(work) = &status.background {
        writeln!(out, "{name}: {}", status::work_line(work).trim_start())?;
    }
    if let Some(waiting) = &status.scrub_waiting {
        writeln!(out, "{name}: the {waiting} waits until that is done")?;
    }
    if runs.is_empty() {
        writeln!(
            out,
            "{name}: was never checked here; 'heliostat scrub {name} check' does it"
        )?;
    } else {
        write!(out, "{}", table(&runs))?;
    }
    Ok(())
}

/// Newest first.
fn table(runs: &[ScrubRun]) -> String {
    let head = [
        "began", "", "end", "took", "compared", "differ", "places", "written",
    ];
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(head);
    for run in runs.iter().rev() {
        table.add_row([
            run.began.trim_end_matches(" UTC").to_owned(),
            run.kind.clone(),
            run.end.clone().unwrap_or_else(|| "under way".to_owned()),
            clock_time(run.took_ns),
            format_size(run.compared_bytes),
            run.mismatch_sectors.to_string(),
            run.mismatch_runs.to_string(),
            format_size(run.written_bytes),
        ]);
    }
    for column in table.column_iter_mut().skip(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let undecided: u64 = runs.iter().map(|run| run.undecided_sectors).sum();
    let note = match undecided {
        0 => "",
        _ => {
            "Of some sectors no majority of copies said what is right: a repair took the first \
             leg's.\n"
        }
    };
    format!("{}\n{note}", table.trim_fmt())
}
