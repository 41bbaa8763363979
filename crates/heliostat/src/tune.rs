//! `heliostat tune`: which values of a policy's tunables are best for some scenarios, or for an
//! array that is being served.
//!
//! This arranges and shows: what is tried and what it means comes from `heliostat_bench::tune`.
//! See `docs/tune.md`.

mod live;

use std::io::{IsTerminal as _, Write as _, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

use anyhow::Context as _;
use heliostat_bench::live::Measured;
use heliostat_bench::report::format::wrapped;
use heliostat_bench::report::{TableStyle, check_directory};
use heliostat_bench::tune::{
    Axis, Objective, PointJson, SummaryJson, Tuned, TunedOn, Tuning, axes_of, parse_axes,
    points_table, ranked, sentences, write_tune_report,
};
use heliostat_bench::{Contender, ScenarioFile};
use heliostat_policy::{ArrayInfo, PolicySpec};
use heliostat_runtime::{Signals, UsageError};
use heliostat_sim::SimPolicy;
use serde::Serialize;

use self::live::{Live, LiveArgs};
use crate::progress::RunProgress;

/// Lines of text are no longer than this.
const TEXT_COLUMNS: usize = 80;
/// A table for people shows so many of the best points; `--json` and `--report` have all.
const ROWS_MAX: usize = 20;
/// A grid larger than this was not meant.
const GRID_MAX: u64 = 10_000;

/// What tuning is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TuneArgs {
    /// Files that say which legs there are, who reads and writes, and what goes wrong; or an array
    /// that is being served, as NAME, heliostat:NAME or heliostat:NAME/VOLUME: it is read by fio,
    /// and its policies are as they were in the end.
    #[arg(required = true, value_name = "SCENARIO.toml|NAME")]
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
    /// With how many seeds each point is run, from the scenario's seed on [default: 5]. Figures are
    /// their median, and what seeds differ by tells gains from noise.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    seeds: Option<u16>,
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
    #[command(flatten)]
    live: LiveArgs,
}

impl TuneArgs {
    /// The first option that is given and says nothing of an array.
    fn given_of_scenarios(&self) -> Option<&'static str> {
        let given = [
            (self.seeds.is_some(), "--seeds"),
            (self.seed.is_some(), "--seed"),
            (self.jobs.is_some(), "--jobs"),
        ];
        let mut given = given.into_iter();
        given.find_map(|(is_given, name)| is_given.then_some(name))
    }
}

/// Tunes.
///
/// # Errors
/// Where the command line makes no sense, a scenario cannot be read or does not fit the policy, or
/// a run fails.
pub(crate) fn run(args: &TuneArgs) -> anyhow::Result<ExitCode> {
    let mut arrays = args
        .scenarios
        .iter()
        .filter_map(|text| live::array_of(text));
    match arrays.next() {
        None => on_scenarios(args),
        Some(name) if args.scenarios.len() == 1 => on_array(args, name),
        Some(name) => Err(UsageError(format!(
            "'{name}': there is no such file, and an array is tuned alone"
        ))
        .into()),
    }
}

fn on_scenarios(args: &TuneArgs) -> anyhow::Result<ExitCode> {
    if let Some(given) = args.live.given() {
        let text = format!("{given}: that is for arrays that are being served");
        return Err(UsageError(text).into());
    }
    let policy = policy(&args.policy)?;
    // Sets that make no sense are told before files are.
    let named = sets(args, policy)?;
    let Some(files) = load(args)? else {
        return Ok(ExitCode::FAILURE);
    };
    let legs = files.iter().map(|file| file.scenario.array.legs.len());
    let legs = legs.min().unwrap_or(0);
    let scenarios = files.iter().map(|file| file.scenario.clone());
    let on = TunedOn::Scenarios(scenarios.collect());
    let tuning = Tuning {
        repeats: args.seeds.unwrap_or(5).into(),
        ..tuning(args, policy, named, on, legs)?
    };
    check_files(&tuning, &files)?;
    check(&tuning, GRID_MAX)?;
    if let Some(directory) = &args.report {
        // Before the work, not after it.
        check_directory(directory)?;
    }
    let runs = usize::try_from(tuning.points_max()).context("there are too many points")?;
    let progress = RunProgress::begin("tune", runs * tuning.runs_per_point());
    let tuned = tuning.simulate(&|what| progress.on(what));
    progress.finish();
    show(args, &tuning, &tuned?)?;
    Ok(ExitCode::SUCCESS)
}

/// Measures an array that is being served.
fn on_array(args: &TuneArgs, name: &str) -> anyhow::Result<ExitCode> {
    // First of all: threads started later must not be ended by a signal.
    let signals = Signals::take().context("cannot take signals")?;
    let policy = policy(&args.policy)?;
    let named = sets(args, policy)?;
    let live = Live::of(args, name)?;
    let tuning = Tuning {
        repeats: args.live.rounds(),
        ..tuning(args, policy, named, live.on(), live.legs)?
    };
    if tuning.objective.measured(&Measured::default()).is_none() {
        let text = format!(
            "--objective: fio does not tell {} here; there are iops, bw, mean, p99, p99.9, p99.99 \
             and max of reads",
            args.objective
        );
        return Err(UsageError(text).into());
    }
    check(&tuning, Tuning::POINTS as u64)?;
    if let Some(directory) = &args.report {
        check_directory(directory)?;
    }
    let Some(tuned) = live.tune(&tuning, &signals)? else {
        writeln!(stderr(), "interrupted: the policies are as they were")?;
        return Ok(ExitCode::FAILURE);
    };
    show(args, &tuning, &tuned)?;
    if tuned.verdict.gains() && !args.json {
        let best = &tuned.points[tuned.verdict.best].policy;
        writeln!(stdout(), "\nTo have it: heliostat policy {name} {best}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What `--set` names.
fn sets(args: &TuneArgs, policy: PolicySpec) -> Result<Vec<Axis>, UsageError> {
    parse_axes(&policy, &args.sets).map_err(|error| UsageError(format!("--set: {error}")))
}

/// What is tuned, run once.
fn tuning(
    args: &TuneArgs,
    policy: PolicySpec,
    named: Vec<Axis>,
    on: TunedOn,
    legs: usize,
) -> Result<Tuning, UsageError> {
    let objective: Objective = args
        .objective
        .parse()
        .map_err(|error| UsageError(format!("--objective: '{}' {error}", args.objective)))?;
    let axes = if named.is_empty() {
        axes_of(&policy, &args.policy, legs)
            .map_err(|error| UsageError(format!("--policy: {error}")))?
    } else {
        named
    };
    Ok(Tuning {
        on,
        policy,
        axes,
        objective,
        repeats: 1,
        runs_max: args.budget,
        threads: args.jobs.map_or_else(
            || thread::available_parallelism().map_or(1, usize::from),
            usize::from,
        ),
    })
}

/// Shows what came of it.
fn show(args: &TuneArgs, tuning: &Tuning, tuned: &Tuned) -> anyhow::Result<()> {
    if args.json {
        print_json(tuning, tuned)?;
    } else {
        print_table(tuning, tuned)?;
    }
    if let Some(directory) = &args.report {
        let page = write_tune_report(directory, tuning, tuned)?;
        writeln!(stderr(), "report: {}", page.display())?;
    }
    Ok(())
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

/// Whether all scenarios can be run at all points.
fn check_files(tuning: &Tuning, files: &[ScenarioFile]) -> anyhow::Result<()> {
    for file in files {
        let array = ArrayInfo::new(file.scenario.array.legs.len());
        for policy in tuning.policies() {
            policy
                .check(&array)
                .map_err(|error| anyhow::anyhow!("{}: {policy}: {error}", file.file))?;
        }
    }
    Ok(())
}

/// Whether there are neither too many points nor too few.
fn check(tuning: &Tuning, points_max: u64) -> Result<(), UsageError> {
    let per_point = tuning.runs_per_point();
    if let Some(budget) = tuning.runs_max.filter(|&budget| budget < 2 * per_point) {
        let text = format!(
            "--budget {budget}: the default and one other point take {per_point} runs each, one \
             for every {} and {}",
            tuning.on.word(),
            tuning.on.repeated().0
        );
        return Err(UsageError(text));
    }
    let points = tuning.points_max();
    if points > points_max {
        let text = format!(
            "--set: {points} points are more than {points_max}; name fewer values, or the number \
             of runs that a search may take with --budget"
        );
        return Err(UsageError(text));
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
