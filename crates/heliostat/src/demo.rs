//! `heliostat demo`: every read policy side by side, on nothing: no arguments, no root, no disks.

use std::path::PathBuf;

/// What the demo is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Half a minute instead of three: shorter runs of the same.
    #[arg(long)]
    quick: bool,
    /// Where the report goes; a new directory with the date in its name otherwise.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

/// Runs the demo.
pub(crate) fn run(args: &DemoArgs) -> anyhow::Result<()> {
    anyhow::bail!("the demo is not built yet ({args:?})")
}
