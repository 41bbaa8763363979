//! `heliostat tune`: which values of a policy's tunables are best for some scenarios.
//!
//! This arranges and shows: what is tried and what it means comes from `heliostat_bench::tune`.
//! See `docs/tune.md`.

mod progress;

use std::io::{IsTerminal as _, Write as _, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

use anyhow::Context as _;
use heliostat_bench::report::format::wrapped;
use heliostat_bench::report::{TableStyle, check_directory};
use heliostat_bench::tune::{
    Objective, PointJson, SummaryJson, Tuned, Tuning, axes_of, parse_axes, points_table, ranked,
    sentences, write_tune_report,
};
use heliostat_bench::{Contender, ScenarioFile};
use heliostat_policy::{ArrayInfo, PolicySpec};
use heliostat_runtime::UsageError;
use heliostat_sim::SimPolicy;
use serde::Serialize;

use self::progress::TuneProgress;

/// Lines of text are no longer than this.
const TEXT_COLUMNS: usize = 80;
/// A table for people shows so many of the best points; `--json` and `--report` have all.
const ROWS_MAX: usize = 20;
/// A grid larger than this was not meant.
const GRID_MAX: u64 = 10_000;

/// What tuning is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TuneArgs {
    /// Files that say which legs there are, who reads and writes, and what goes wrong.
    #[arg(required = true, value_name = "SCENARIO.toml")]
    scenarios: Vec<String>,
    /// The policy to tune, as NAME, NAME:VALUE or NAME:key=value,key=value. What it says is the
    /// default that everything is compared with.
    #[arg(long, value_name = "POLICY")]
    policy: String,
    /// Values of a tunable to try: KEY=A,B,C, or `KEY=LOW..HIGH[:STEPS][:log]`; may be given
    /// several times [default: some round the default, of every tunable that --policy gives
    /// no value].
    #[arg(long = "set", value_name = "KEY=VALUES")]
    sets: Vec<String>,
    /// What is to be best: iops, bw, mean, p50, p90, p99, p99.9, p99.99 or max of reads, or of
    /// writes with `write-` before it.
    #[arg(long, value_name = "FIGURE", default_value = "iops")]
    objective: String,
    /// With how many seeds each point is run, from the scenario's seed on. Figures are their
    /// median, and what seeds differ by tells gains from noise.
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u16).range(1..))]
    seeds: u16,
    /// The first of the seeds [default: as each scenario says].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How many runs there are at most; where the grid has more points than that allows, a search
    /// picks them [default: all of the grid for one or two tunables, 120 points for more].
    #[arg(long, value_name = "N")]
    budget: Option<usize>,
    /// One object per point and one of all on standard output, and nothing else there.
    #[arg(long)]
    json: bool,
    /// How many runs at a time [default: one for each processor]. Changes no figure.
    #[arg(short = 'j', long = "jobs", value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Write a page with plots of what was swept into this directory.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

/// Tunes.
///
/// # Errors
/// Where the command line makes no sense, a scenario cannot be read or does not fit the policy, or
/// a run fails.
pub(crate) fn run(args: &TuneArgs) -> anyhow::Result<ExitCode> {
    refuse_names(&args.scenarios)?;
    let policy = policy(&args.policy)?;
    let objective: Objective = args
        .objective
        .parse()
        .map_err(|error| UsageError(format!("--objective: '{}' {error}", args.objective)))?;
    // Sets that make no sense are told before files are.
    let named =
        parse_axes(&policy, &args.sets).map_err(|error| UsageError(format!("--set: {error}")))?;
    let Some(files) = load(args)? else {
        return Ok(ExitCode::FAILURE);
    };
    let legs = files.iter().map(|file| file.scenario.array.legs.len());
    let axes = if named.is_empty() {
        axes_of(&policy, &args.policy, legs.min().unwrap_or(0))
            .map_err(|error| UsageError(format!("--policy: {error}")))?
    } else {
        named
    };
    let tuning = Tuning {
        scenarios: files.iter().map(|file| file.scenario.clone()).collect(),
        policy,
        axes,
        objective,
        seed_count: u64::from(args.seeds),
        runs_max: args.budget,
        threads: args.jobs.map_or_else(
            || thread::available_parallelism().map_or(1, usize::from),
            usize::from,
        ),
    };
    check(&tuning, &files)?;
    if let Some(directory) = &args.report {
        // Before the work, not after it.
        check_directory(directory)?;
    }
    let runs = usize::try_from(tuning.points_max()).context("there are too many points")?;
    let progress = TuneProgress::begin(runs * tuning.runs_per_point());
    let tuned = tuning.run(&|what| progress.on(what));
    progress.finish();
    let tuned = tuned?;
    if args.json {
        print_json(&tuning, &tuned)?;
    } else {
        print_table(&tuning, &tuned)?;
    }
    if let Some(directory) = &args.report {
        let page = write_tune_report(directory, &tuning, &tuned)?;
        writeln!(stderr(), "report: {}", page.display())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Arrays that are being served have names, and cannot be tuned yet.
fn refuse_names(scenarios: &[String]) -> Result<(), UsageError> {
    let is_name = |text: &str| {
        let path = Path::new(text);
        !text.contains('/') && path.extension().is_none() && !path.exists()
    };
    match scenarios.iter().find(|text| is_name(text)) {
        Some(name) => Err(UsageError(format!(
            "'{name}': there is no such file, and arrays that are being served cannot be tuned \
             yet; name scenario files (docs/sim.md says how to write one), and set what comes out \
             with `heliostat policy {name} POLICY`"
        ))),
        None => Ok(()),
    }
}

/// The policy that is tuned.
fn policy(text: &str) -> Result<PolicySpec, UsageError> {
    let contender = Contender::parse(text);
    let contender = contender.map_err(|error| UsageError(format!("--policy: {error}")))?;
    match contender.policy() {
        SimPolicy::Registered(policy) => Ok(policy),
        SimPolicy::Oracle => Err(UsageError(format!(
            "--policy: '{text}' has no tunables, so there is nothing to tune"
        ))),
    }
}

/// Reads all files, with the seed of the command line; `None` after saying what is wrong with at
/// least one.
fn load(args: &TuneArgs) -> anyhow::Result<Option<Vec<ScenarioFile>>> {
    let mut files = Vec::new();
    let mut is_whole = true;
    for path in &args.scenarios {
        match ScenarioFile::load(Path::new(path)) {
            Ok(mut file) => {
                if let Some(seed) = args.seed {
                    file.scenario.seed = seed;
                }
                for note in &file.notes {
                    writeln!(stderr(), "{note}")?;
                }
                files.push(file);
            }
            Err(error) => {
                is_whole = false;
                writeln!(stderr(), "error: {error}")?;
            }
        }
    }
    Ok(is_whole.then_some(files))
}

/// Whether all scenarios can be run at all points, and there are neither too many nor too few.
fn check(tuning: &Tuning, files: &[ScenarioFile]) -> anyhow::Result<()> {
    for file in files {
        let array = ArrayInfo::new(file.scenario.array.legs.len());
        for policy in tuning.policies() {
            policy
                .check(&array)
                .map_err(|error| anyhow::anyhow!("{}: {policy}: {error}", file.file))?;
        }
    }
    let per_point = tuning.runs_per_point();
    if let Some(budget) = tuning.runs_max.filter(|&budget| budget < 2 * per_point) {
        let text = format!(
            "--budget {budget}: the default and one other point take {per_point} runs each, one \
             for every scenario and seed"
        );
        return Err(UsageError(text).into());
    }
    let points = tuning.points_max();
    if points > GRID_MAX {
        let text = format!(
            "--set: {points} points are more than {GRID_MAX}; name fewer values, or the number of \
             runs that a search may take with --budget"
        );
        return Err(UsageError(text).into());
    }
    Ok(())
}

fn print_json(tuning: &Tuning, tuned: &Tuned) -> anyhow::Result<()> {
    for (place, scored) in tuned.points.iter().enumerate() {
        print_line(&PointJson::new(tuning, scored, place == 0))?;
    }
    print_line(&SummaryJson::new(tuning, tuned))
}

fn print_line(object: &impl Serialize) -> anyhow::Result<()> {
    let line = serde_json::to_string(object)?;
    writeln!(stdout(), "{line}")?;
    Ok(())
}

/// Points along one tunable are shown in its order; of several tunables the best come first.
fn print_table(tuning: &Tuning, tuned: &Tuned) -> anyhow::Result<()> {
    let mut points = ranked(tuned);
    let count = points.len();
    if tuning.axes.len() == 1 {
        points.sort_by(|a, b| a.point.cmp(&b.point));
    } else if count > ROWS_MAX {
        let default = &tuned.points[0];
        let is_shown = points[..ROWS_MAX]
            .iter()
            .any(|scored| scored.point == default.point);
        points.truncate(ROWS_MAX);
        if !is_shown {
            points.push(default);
        }
    }
    let mut out = stdout().lock();
    let style = if out.is_terminal() {
        TableStyle::Terminal
    } else {
        TableStyle::Plain
    };
    let table = points_table(tuning, tuned, &points, style);
    out.write_all(table.as_bytes())?;
    if points.len() < count {
        let left = count - points.len();
        writeln!(out, "({left} more points: --json and --report have all.)")?;
    }
    writeln!(out)?;
    for sentence in sentences(tuning, tuned) {
        writeln!(out, "{}", wrapped(&sentence, TEXT_COLUMNS))?;
    }
    out.flush()?;
    Ok(())
}
