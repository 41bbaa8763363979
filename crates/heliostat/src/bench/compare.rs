//! `heliostat bench compare`: two results beside each other.

use std::io::{Write as _, stdout};
use std::path::PathBuf;

use anyhow::bail;
use heliostat_bench::live::{BenchResult, Comparison, comparison};

/// What is compared.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct CompareArgs {
    /// The first result: the directory of a report, or its report.json.
    a: PathBuf,
    /// The second one.
    b: PathBuf,
    /// One object per job, each on one line, and nothing else.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &CompareArgs) -> anyhow::Result<()> {
    let (a, b) = (BenchResult::read(&args.a)?, BenchResult::read(&args.b)?);
    let all = comparison(&a, &b);
    if all.is_empty() {
        bail!(
            "{} and {} have no job in common under the same policy",
            args.a.display(),
            args.b.display()
        );
    }
    if args.json {
        for each in &all {
            writeln!(stdout(), "{}", serde_json::to_string(each)?)?;
        }
        return Ok(());
    }
    for (name, path, result) in [("A", &args.a, &a), ("B", &args.b, &b)] {
        let partial = if result.is_complete {
            ""
        } else {
            ", not complete"
        };
        writeln!(
            stdout(),
            "{name}: {}: {} on {}, {}{partial}",
            path.display(),
            result.suite,
            result.machine.processor,
            result.machine.created_utc
        )?;
    }
    writeln!(
        stdout(),
        "\n{}",
        Comparison::table(&all, super::table_style())
    )?;
    Ok(())
}
