//! `heliostat demo`: every read policy side by side, on nothing: no arguments, no root, no disks.
//!
//! First the simulator reads a mixed mirror under every policy, then the same mirror is served for
//! real and read over NBD, and measured stands beside predicted. The demo only arranges: figures
//! come from `heliostat-sim` and from a client of `heliostat serve`, how they look is
//! [`self::report`]'s business. See `docs/demo.md`.

mod interrupt;
mod load;
mod measure;
mod plan;
mod predict;
mod process_time;
mod progress;
mod report;
mod scratch;
mod server;

use std::io::{IsTerminal as _, Write as _, stdout};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use heliostat_bench::report::format::wrapped;
use heliostat_bench::report::{Facts, TableStyle, check_directory, default_directory};
use serde_json::{Value, json};
use stdx::units::format_size;

use self::report::{
    Measured, Report, Workload, measured_findings, measured_row_json, measured_table, outcome_json,
    virtual_findings, virtual_table,
};

/// Lines of text are no longer than this, as terminals are wide at least.
const COLUMNS: usize = 80;

/// What the demo is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Half a minute instead of three: shorter runs of the same.
    #[arg(long)]
    quick: bool,
    /// Where the report goes; a new directory with the date in its name otherwise.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// One object per line on standard output, and nothing else there.
    #[arg(long)]
    json: bool,
    /// What all chance in the simulator comes from.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Runs the demo.
///
/// # Errors
/// Where the mirror cannot be served, or the report not be written.
pub(crate) fn run(args: &DemoArgs) -> anyhow::Result<()> {
    let screen = Screen::new(args.json);
    if let Some(directory) = &args.report {
        // Better now than after three minutes.
        check_directory(directory)?;
    }
    screen.introduction()?;
    let workloads = predict::virtual_part(args.quick, args.seed)?;
    screen.virtual_part(&workloads)?;
    screen.real_introduction(plan::real_times(args.quick).measured)?;
    let measured = measure::real_part(args.quick, args.seed)?;
    screen.real_part(&measured)?;
    let report = Report {
        facts: Facts::of_this_machine(),
        seed: args.seed,
        quick: args.quick,
        legs: plan::LEGS.map(str::to_owned).to_vec(),
        size_bytes: predict::array_size_bytes(),
        workloads,
        measured,
    };
    let directory = args.report.clone().unwrap_or_else(default_directory);
    let replaced = report::write(&directory, &report)?;
    screen.end(&directory, replaced)
}

/// Standard output, for people or for programs.
#[derive(Clone, Copy, Debug)]
struct Screen {
    json: bool,
    style: TableStyle,
}

impl Screen {
    fn new(json: bool) -> Self {
        let style = if stdout().is_terminal() {
            TableStyle::Terminal
        } else {
            TableStyle::Plain
        };
        Self { json, style }
    }

    fn introduction(self) -> anyhow::Result<()> {
        if self.json {
            return Ok(());
        }
        let [first, second, third] = plan::LEGS;
        let text = format!(
            "One mirror of three legs, {first}, {second} and {third}, {} large, read under every \
             policy there is. First in virtual time: device models, no hardware.",
            format_size(predict::array_size_bytes())
        );
        print(&format!("{}\n\n", wrapped(&text, COLUMNS)))
    }

    fn virtual_part(self, workloads: &[Workload]) -> anyhow::Result<()> {
        if self.json {
            for workload in workloads {
                for row in &workload.rows {
                    let mut object = outcome_json(row);
                    object["part"] = json!("virtual");
                    object["workload"] = json!(workload.name);
                    print_object(&object)?;
                }
            }
            return Ok(());
        }
        print(&virtual_table(workloads, self.style))?;
        print("\n * the best of its column, or within 1 % of it\n\n")?;
        print_findings(&virtual_findings(workloads))
    }

    fn real_introduction(self, measured: Duration) -> anyhow::Result<()> {
        if self.json {
            return Ok(());
        }
        let text = format!(
            "Now for real: the same models make {} of memory per leg as slow as the drives, \
             another process serves the mirror over NBD, and this one reads random 4 KiB blocks \
             for {:.1} s per row.",
            format_size(plan::REAL_SIZE_BYTES),
            measured.as_secs_f64()
        );
        print(&format!("{}\n\n", wrapped(&text, COLUMNS)))
    }

    fn real_part(self, measured: &Measured) -> anyhow::Result<()> {
        if self.json {
            for row in &measured.rows {
                let mut object = measured_row_json(row);
                object["part"] = json!("real");
                print_object(&object)?;
            }
            return Ok(());
        }
        print(&measured_table(&measured.rows, self.style))?;
        print("\n")?;
        print_findings(&measured_findings(&measured.rows))
    }

    fn end(self, directory: &Path, replaced: bool) -> anyhow::Result<()> {
        if self.json {
            return print_object(&json!({
                "part": "report",
                "directory": directory,
                "replaced": replaced,
            }));
        }
        let verb = if replaced { "replaced" } else { "written" };
        print(&format!(
            "Report {verb}: {}\n",
            directory.join("index.html").display()
        ))
    }
}

fn print_findings(findings: &[String]) -> anyhow::Result<()> {
    for finding in findings {
        let lines = wrapped(finding, COLUMNS - 2).replace('\n', "\n  ");
        print(&format!("- {lines}\n"))?;
    }
    print("\n")
}

fn print_object(object: &Value) -> anyhow::Result<()> {
    print(&format!("{object}\n"))
}

/// Writes to standard output, at once: a row should be seen when it is there.
fn print(text: &str) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context("cannot write to standard output")
}
