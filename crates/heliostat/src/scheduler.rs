//! `heliostat scheduler`: in which order legs get what waits for them.

use std::io::{Write as _, stdout};

use anyhow::bail;
use heliostat_runtime::{ControlRequest, ControlResponse, SchedulerChange};

use crate::cli::ControlArgs;

/// What `heliostat scheduler` is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SchedulerArgs {
    /// The array.
    name: String,
    /// The scheduler to switch to: NAME or NAME:key=value,key=value. Without it, all are shown with
    /// the active one in brackets.
    scheduler: Option<String>,
    /// Do not keep it for the next start.
    #[arg(long, requires = "scheduler")]
    transient: bool,
    #[command(flatten)]
    control: ControlArgs,
}

/// Shows or switches.
pub(crate) fn run(args: &SchedulerArgs) -> anyhow::Result<()> {
    let request = match &args.scheduler {
        None => ControlRequest::Scheduler,
        Some(scheduler) => ControlRequest::SetScheduler(SchedulerChange {
            scheduler: scheduler.clone(),
            transient: args.transient,
        }),
    };
    let ControlResponse::Scheduler(text) = args.control.ask(&args.name, &request)? else {
        bail!("asked for the scheduler, the daemon answered something else");
    };
    writeln!(stdout(), "{text}")?;
    Ok(())
}
