//! `heliostat sim`: scenarios under policies in virtual time.
//!
//! This arranges and shows: scenario files, runs and their JSON come from `heliostat-bench`. See
//! `docs/sim.md`.

mod progress;
mod table;
mod trace;

use std::io::{self, IsTerminal as _, Write as _, stderr, stdout};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use comfy_table::Table;
use heliostat_bench::{Contender, ResultJson, Run, ScenarioFile, Shard, run_all};
use heliostat_runtime::UsageError;
use heliostat_sim::{Fidelity, RunError, RunResult};

use self::progress::RunProgress;
use self::table::ScenarioTable;

/// How wide a table is at most that goes to no terminal.
const PLAIN_COLUMNS: usize = 120;

/// What the simulator is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SimArgs {
    /// Files that say which legs there are, who reads and writes, and what goes wrong.
    #[arg(required = true, value_name = "SCENARIO.toml")]
    scenarios: Vec<PathBuf>,
    /// The read policies to run each scenario under, as NAME, NAME:VALUE or
    /// NAME:key=value,key=value, or `all` [default: those that the scenario names].
    #[arg(long, value_name = "A,B")]
    policies: Option<String>,
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
    /// A line on standard error for every run that has ended, also where that is no terminal.
    #[arg(long)]
    progress: bool,
}

/// Runs what is asked for.
///
/// # Errors
/// Where a scenario cannot be read or does not fit a policy, or where nobody takes the results.
pub(crate) fn run(args: &SimArgs) -> anyhow::Result<ExitCode> {
    let contenders = args.policies.as_deref().map(Contender::parse_list);
    let contenders = contenders
        .transpose()
        .map_err(|error| UsageError(format!("--policies: {error}")))?;
    let Some(files) = load(args)? else {
        return Ok(ExitCode::FAILURE);
    };
    let runs = plan(&files, contenders.as_deref(), args.shard)?;
    if let Some(trace) = &args.trace {
        return trace::run(&runs, trace.as_deref(), args.json);
    }
    let mut screen = Screen {
        json: args.json,
        files: &files,
        runs: &runs,
        table: None,
        failed: false,
    };
    let progress = RunProgress::begin(&runs, args.progress);
    let mut shown = Ok(());
    let plain: Vec<Run> = runs.iter().map(|planned| planned.run.clone()).collect();
    let threads = args.jobs.map_or_else(
        || thread::available_parallelism().map_or(1, usize::from),
        usize::from,
    );
    run_all(
        &plain,
        threads,
        &|what| progress.on(what),
        |index, result| {
            shown = progress.aside(|| screen.show(index, result));
            match &shown {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        },
    );
    progress.finish();
    shown?;
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
fn load(args: &SimArgs) -> anyhow::Result<Option<Vec<ScenarioFile>>> {
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
    files: &'a [ScenarioFile],
    runs: &'a [Planned],
    /// The table of the scenario whose runs are ending.
    table: Option<ScenarioTable>,
    failed: bool,
}

impl Screen<'_> {
    /// Shows one result; a table when its last one is there.
    fn show(&mut self, index: usize, result: Result<RunResult, RunError>) -> anyhow::Result<()> {
        match result {
            Ok(result) if self.json => print_json(&result)?,
            Ok(result) => self.table(index).add(result),
            Err(error) => {
                self.failed = true;
                let planned = &self.runs[index];
                writeln!(
                    stderr(),
                    "error: {} under {}: {error}",
                    self.files[planned.file].file,
                    planned.run.contender
                )?;
            }
        }
        let file = self.runs[index].file;
        let is_last = self
            .runs
            .get(index + 1)
            .is_none_or(|next| next.file != file);
        if let Some(table) = self.table.take_if(|_| is_last) {
            let mut out = stdout().lock();
            let columns = out.is_terminal().then(|| Table::new().width()).flatten();
            let width = columns.map_or(PLAIN_COLUMNS, usize::from);
            if file != self.runs[0].file {
                writeln!(out)?;
            }
            out.write_all(table.show(width).as_bytes())?;
            out.flush()?;
        }
        Ok(())
    }

    fn table(&mut self, index: usize) -> &mut ScenarioTable {
        let file = &self.files[self.runs[index].file];
        self.table.get_or_insert_with(|| ScenarioTable::new(file))
    }
}

fn print_json(result: &RunResult) -> anyhow::Result<()> {
    let line = serde_json::to_string(&ResultJson::new(result))?;
    let mut out = stdout().lock();
    writeln!(out, "{line}")?;
    Ok::<(), io::Error>(out.flush()?)?;
    Ok(())
}
