//! `heliostat sim`: scenarios under policies in virtual time.
//!
//! This arranges and shows: scenario files, runs and their JSON come from `heliostat-bench`. See
//! `docs/sim.md`.

mod published;
mod table;
mod trace;

use std::io::{IsTerminal as _, Write as _, stderr, stdout};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use comfy_table::Table;
use heliostat_bench::report::{SimRun, check_directory, write_sim_report};
use heliostat_bench::{Contender, ResultJson, Run, ScenarioFile, Shard, run_all};
use heliostat_runtime::UsageError;
use heliostat_scheduler::SCHEDULERS;
use heliostat_sim::{
    CheckFailure, Effect, Fault, Fidelity, JobBound, NONE_2014, RunError, RunResult, bound,
};
use heliostat_types::Instant;

use self::table::ScenarioTable;
use crate::histogram::bar_columns;
use crate::progress::RunProgress;

/// How wide a table is at most that goes to no terminal.
const PLAIN_COLUMNS: usize = 120;

/// What the simulator is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SimArgs {
    /// Files that say which legs there are, who reads and writes, and what goes wrong.
    #[arg(required_unless_present = "published", value_name = "SCENARIO.toml")]
    scenarios: Vec<PathBuf>,
    /// Run the cases that others have measured and published, and compare.
    #[arg(long, conflicts_with_all = ["scenarios", "policies", "schedulers", "trace", "shard"])]
    published: bool,
    /// The read policies to run each scenario under, as NAME, NAME:VALUE or
    /// NAME:key=value,key=value, or `all` [default: those that the scenario names].
    #[arg(long, value_name = "A,B")]
    policies: Option<String>,
    /// The schedulers to run each scenario under besides, as NAME or NAME:key=value, none-2014, or
    /// `all` [default: the one that the scenario names].
    #[arg(long, value_name = "A,B")]
    schedulers: Option<String>,
    /// What all chance comes from [default: as the scenario says].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// One object per run on standard output, and nothing else there.
    #[arg(long)]
    json: bool,
    /// How many runs at a time [default: one for each processor]. Changes no figure.
    #[arg(short = 'j', long = "jobs", value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Do only every n-th run, beginning with number i: the n parts of a sweep together are all of
    /// it.
    #[arg(long, value_name = "i/n", default_value_t = Shard::ALL, hide_default_value = true)]
    shard: Shard,
    /// Keep and check every byte of every sector, instead of the 16 that name the sector and the
    /// write. Finds more and takes longer; changes no figure.
    #[arg(long)]
    check_bytes: bool,
    /// Write down every decision of the policy with what it saw, in the file, or on standard
    /// output. Takes one scenario and one policy.
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    trace: Option<Option<PathBuf>>,
    /// Write a page with plots, and all figures as JSON, into this directory.
    #[arg(long, value_name = "DIR", conflicts_with = "trace")]
    report: Option<PathBuf>,
    /// Below each table, how long reads and writes took under each policy, in the buckets <8 ms,
    /// <16 ms ... >=65536 ms.
    #[arg(long, conflicts_with_all = ["json", "trace"])]
    histogram: bool,
    /// A line on standard error for every run that has ended, also where that is no terminal.
    #[arg(long)]
    progress: bool,
}

impl SimArgs {
    fn threads(&self) -> usize {
        self.jobs.map_or_else(
            || thread::available_parallelism().map_or(1, usize::from),
            usize::from,
        )
    }
}

/// Runs what is asked for.
///
/// # Errors
/// Where a scenario cannot be read or does not fit a policy, or where nobody takes the results.
pub(crate) fn run(args: &SimArgs) -> anyhow::Result<ExitCode> {
    if args.published {
        return published::run(args);
    }
    let contenders = args.policies.as_deref().map(Contender::parse_list);
    let contenders = contenders
        .transpose()
        .map_err(|error| UsageError(format!("--policies: {error}")))?;
    let schedulers = args.schedulers.as_deref().map(scheduler_names);
    let Some(mut files) = load(args) else {
        return Ok(ExitCode::FAILURE);
    };
    if let Some(schedulers) = schedulers {
        files = under_each(&files, &schedulers)?;
    }
    let runs = plan(&files, contenders.as_deref(), args.shard)?;
    if let Some(trace) = &args.trace {
        return trace::run(&runs, trace.as_deref(), args.json);
    }
    if let Some(directory) = &args.report {
        // Better now than after all runs.
        check_directory(directory)?;
    }
    let mut screen = Screen {
        json: args.json,
        histogram: args.histogram,
        keeps_all: args.report.is_some(),
        files: &files,
        runs: &runs,
        table: None,
        bound: None,
        kept: Vec::new(),
        failed: false,
    };
    screen.run_all(args)?;
    if let Some(directory) = &args.report {
        screen.report(directory)?;
    }
    Ok(if screen.failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// A run and the file it comes from.
#[derive(Clone, Debug)]
struct Planned {
    file: usize,
    run: Run,
}

/// Reads all files, with what the command line says instead of them; `None` after saying what is
/// wrong with at least one.
fn load(args: &SimArgs) -> Option<Vec<ScenarioFile>> {
    let mut files = Vec::new();
    let mut is_whole = true;
    for path in &args.scenarios {
        match ScenarioFile::load(path) {
            Ok(mut file) => {
                if let Some(seed) = args.seed {
                    file.scenario.seed = seed;
                }
                if args.check_bytes {
                    file.scenario.fidelity = Fidelity::Bytes;
                }
                for note in &file.notes {
                    say(note);
                }
                files.push(file);
            }
            Err(error) => {
                is_whole = false;
                say(&format!("error: {error}"));
            }
        }
    }
    is_whole.then_some(files)
}

/// The schedulers of a list. A comma that begins a tunable belongs to the one before it.
fn scheduler_names(list: &str) -> Vec<String> {
    if list == "all" {
        let names = SCHEDULERS.iter().map(|(name, _)| *name);
        return names.chain([NONE_2014]).map(str::to_owned).collect();
    }
    let mut names: Vec<String> = Vec::new();
    for part in list.split(',') {
        match names.last_mut() {
            Some(last) if part.contains('=') && !part.contains(':') => *last += &format!(",{part}"),
            Some(_) | None => names.push(part.to_owned()),
        }
    }
    names
}

/// Each scenario once for each scheduler.
fn under_each(files: &[ScenarioFile], schedulers: &[String]) -> anyhow::Result<Vec<ScenarioFile>> {
    let mut all = Vec::new();
    for file in files {
        for scheduler in schedulers {
            let mut file = file.clone();
            let set = file.scenario.array.set_scheduler(scheduler);
            set.map_err(|error| UsageError(format!("--schedulers: {error}")))?;
            all.push(file);
        }
    }
    Ok(all)
}

/// Every scenario under every policy, of which those of one shard.
fn plan(
    files: &[ScenarioFile],
    contenders: Option<&[Contender]>,
    shard: Shard,
) -> anyhow::Result<Vec<Planned>> {
    let mut all = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let scenario = Arc::new(file.scenario.clone());
        for contender in contenders.unwrap_or(&file.policies) {
            contender
                .check(scenario.array.legs.len())
                .map_err(|error| anyhow::anyhow!("{}: {contender}: {error}", file.file))?;
            all.push(Planned {
                file: index,
                run: Run {
                    scenario: Arc::clone(&scenario),
                    contender: contender.clone(),
                },
            });
        }
    }
    let mut number = 0..;
    all.retain(|_| number.next().is_some_and(|number| shard.has(number)));
    Ok(all)
}

/// Standard output, for people or for programs.
struct Screen<'a> {
    json: bool,
    histogram: bool,
    keeps_all: bool,
    files: &'a [ScenarioFile],
    runs: &'a [Planned],
    /// The table of the scenario whose runs are ending.
    table: Option<ScenarioTable>,
    /// What no policy can exceed, for the scenario of this file.
    bound: Option<(usize, Option<JobBound>)>,
    /// For the report: results by the index of their run.
    kept: Vec<(usize, RunResult)>,
    failed: bool,
}

impl Screen<'_> {
    /// Runs all and shows each result as soon as it is there and its turn has come.
    fn run_all(&mut self, args: &SimArgs) -> anyhow::Result<()> {
        let planned = self.runs.iter();
        let runs: Vec<Run> = planned.map(|planned| planned.run.clone()).collect();
        let progress = RunProgress::begin_named("sim", &runs, args.progress);
        let mut shown = Ok(());
        let on = |what| progress.on(what);
        run_all(&runs, args.threads(), &on, |index, result| {
            shown = progress.aside(|| self.show(index, result));
            match &shown {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        });
        progress.finish();
        shown
    }

    /// Shows one result; a table when the last one of its scenario is there.
    fn show(&mut self, index: usize, result: Result<RunResult, RunError>) -> anyhow::Result<()> {
        let planned = &self.runs[index];
        match result {
            Ok(result) => {
                if self.keeps_all {
                    self.kept.push((index, result.clone()));
                }
                let bound = self.bound(planned.file);
                if self.json {
                    print_json(&result, bound.as_ref())?;
                } else {
                    let file = &self.files[planned.file];
                    let new = || ScenarioTable::new(file, bound);
                    self.table.get_or_insert_with(new).add(result);
                }
            }
            Err(error) => {
                self.failed = true;
                say(&format!("error: {}", failure_text(planned, &error)));
            }
        }
        let next = self.runs.get(index + 1);
        let is_last = next.is_none_or(|next| next.file != planned.file);
        match self.table.take_if(|_| is_last) {
            Some(table) => {
                let has_one_above = planned.file != self.runs[0].file;
                print_table(&table, has_one_above, self.histogram)
            }
            None => Ok(()),
        }
    }

    /// What no policy can exceed in the scenario of a file, where that can be said.
    fn bound(&mut self, file: usize) -> Option<JobBound> {
        if self.bound.as_ref().is_none_or(|(known, _)| *known != file) {
            let found = bound(&self.files[file].scenario).ok();
            self.bound = Some((file, found.map(|bound| bound.total)));
        }
        self.bound.as_ref().and_then(|(_, bound)| bound.clone())
    }

    /// Writes the report of what was kept.
    fn report(&self, directory: &Path) -> anyhow::Result<()> {
        let runs = self.kept.iter().map(|(index, result)| SimRun {
            scenario: &self.runs[*index].run.scenario,
            result,
        });
        let page = write_sim_report(directory, &runs.collect::<Vec<_>>())?;
        say(&format!("sim: the report is {}", page.display()));
        Ok(())
    }
}

/// Who is to blame for a check that failed: the scenario, where it has a leg silent for ever and
/// somebody waits, or we.
fn cause_text(planned: &Planned, failure: &CheckFailure) -> String {
    let is_silent =
        |fault: &&Fault| fault.effect == Some(Effect::Stuck) && fault.until_ns == Fault::NEVER_NS;
    let mut faults = planned.run.scenario.faults.iter();
    match faults.find(is_silent).and_then(|fault| fault.leg) {
        Some(leg) if failure.is_unanswered() => format!(
            "Leg {leg} is stuck in this scenario and has no 'until': what waits for it is never \
             answered where no other leg is left. Give the fault an 'until', or say dead = true"
        ),
        _ => "This is a bug in heliostat".to_owned(),
    }
}

/// Why a run gave no result.
fn failure_text(planned: &Planned, error: &RunError) -> String {
    let scenario = &planned.run.scenario.name;
    let policy = &planned.run.contender;
    match error {
        RunError::Check(failure) => format!(
            "a check failed in {scenario} under {policy}, seed {}, at {:.9} s of virtual time: {}. \
             {}. The last events before it:\n{}",
            failure.seed,
            (failure.at - Instant::ZERO).as_secs_f64(),
            failure.text,
            cause_text(planned, failure),
            failure.events
        ),
        RunError::Scenario(_) | RunError::Policy(_) => {
            format!("{scenario} under {policy}: {error}")
        }
    }
}

fn print_json(result: &RunResult, bound: Option<&JobBound>) -> anyhow::Result<()> {
    let object = ResultJson::new(result);
    let object = match bound {
        Some(bound) => object.with_bound(bound),
        None => object,
    };
    let line = serde_json::to_string(&object)?;
    let mut out = stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()?;
    Ok(())
}

fn print_table(table: &ScenarioTable, has_one_above: bool, histogram: bool) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    let columns = out.is_terminal().then(|| Table::new().width()).flatten();
    if has_one_above {
        writeln!(out)?;
    }
    let width = columns.map_or(PLAIN_COLUMNS, usize::from);
    out.write_all(table.show(width).as_bytes())?;
    if histogram {
        out.write_all(table.histograms(bar_columns()).as_bytes())?;
    }
    out.flush()?;
    Ok(())
}

/// A line on standard error; whoever closed it does not want to know.
fn say(line: &str) {
    let _ = writeln!(stderr(), "{line}");
}
