//! `heliostat bench compare`: two results beside each other.

use std::fs;
use std::io::{Write as _, stderr, stdout};
use std::path::{Path, PathBuf};

use anyhow::bail;
use heliostat_bench::live::{BenchResult, Side, comparison, write_comparison};
use heliostat_bench::report::check_directory;
use heliostat_runtime::UsageError;

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
    /// Write a page with plots of all ratios, and JSON, into this directory.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

pub(super) fn run(args: &CompareArgs) -> anyhow::Result<()> {
    let (a, b) = (BenchResult::read(&args.a)?, BenchResult::read(&args.b)?);
    let all = comparison(&a, &b);
    if all.rows.is_empty() {
        bail!(
            "{} and {} have no job in common under the same policy",
            args.a.display(),
            args.b.display()
        );
    }
    if let Some(directory) = &args.report {
        check_own(directory, args)?;
        let names = [&args.a, &args.b].map(|path| path.display().to_string());
        let sides = [(&names[0], &a), (&names[1], &b)].map(|(name, result)| Side { name, result });
        let page = write_comparison(directory, sides, &all)?;
        writeln!(stderr(), "report: {}", page.display())?;
    }
    if args.json {
        for each in &all.rows {
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
    writeln!(stdout(), "\n{}", all.table(super::table_style()))?;
    for sentence in all.sentences() {
        writeln!(stdout(), "{sentence}")?;
    }
    for (name, only) in [("A", &all.only_a), ("B", &all.only_b)] {
        if !only.is_empty() {
            writeln!(stdout(), "only in {name}: {}", only.join("; "))?;
        }
    }
    Ok(())
}

/// A comparison must not take the place of what is compared.
fn check_own(directory: &Path, args: &CompareArgs) -> anyhow::Result<()> {
    check_directory(directory)?;
    let place = fs::canonicalize(directory)?;
    for result in [&args.a, &args.b] {
        let file = fs::canonicalize(result)?;
        if file == place || file.parent() == Some(&place) && file.is_file() {
            bail!(UsageError(format!(
                "{} holds a result that is compared: name another directory with --report",
                directory.display()
            )));
        }
    }
    Ok(())
}
