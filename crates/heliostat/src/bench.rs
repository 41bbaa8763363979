//! `heliostat bench`: fio's figures of anything that can be read, beside each other.

pub(crate) mod btrfs;
mod compare;
mod fio;
mod legs;
mod switch;
mod target;
mod wanted;

use std::fs;
use std::io::{IsTerminal as _, Write as _, stderr, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use heliostat_bench::live::{
    BenchResult, Job, JobFile, Measured, Row, Run, SUITES, Under, jobs, parse_output, tables,
    write_bench_report,
};
use heliostat_bench::report::{Facts, TableStyle, check_directory};
use heliostat_runtime::{Signals, UsageError, clock_time};
use stdx::units::parse_size;

use self::compare::CompareArgs;
pub(crate) use self::fio::{Fio, Times, check as check_fio};
use self::target::{At, holds_data};
pub(crate) use self::target::{Opening, Target};
use self::wanted::{Wanted, expect_once};
use crate::cli::ControlArgs;

/// Where the kernel is told to forget what it has read.
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// What `heliostat bench` is told.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    command: Option<BenchCommand>,
    /// What to measure: heliostat:NAME, an NBD URI (nbd+unix:///EXPORT?socket=PATH), a block
    /// device, a file, a directory on a mounted file system, or btrfs:MOUNT.
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<String>,
    /// Which jobs: seeds, mirror-2021, randrw-2021 or readers, or a job file of fio.
    #[arg(long, value_name = "NAME|FILE", default_value = "seeds")]
    suite: String,
    /// Read policies to measure arrays and btrfs under, with commas between them, or all; the one
    /// that was active before is active again in the end.
    #[arg(long, value_name = "all|NAME[:VALUE],...")]
    policies: Option<String>,
    /// Schedulers to measure arrays under, each with each of the policies; the one that was there
    /// before is there again in the end.
    #[arg(long, value_name = "all|NAME[:KEY=VALUE],...")]
    schedulers: Option<String>,
    /// Run the jobs that write as well; they destroy what is on the targets.
    #[arg(long, conflicts_with = "read_only")]
    overwrite: bool,
    /// Run only the jobs that do not write.
    #[arg(long)]
    read_only: bool,
    /// Seconds that each run is measured.
    #[arg(long, value_name = "SECONDS", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    runtime: u32,
    /// Seconds that each run goes on before it is measured.
    #[arg(long, value_name = "SECONDS", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(0..=3600))]
    warmup: u32,
    /// How often each job is run on each target.
    #[arg(long, value_name = "COUNT", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: u32,
    /// How large the files are that are made in directories and on btrfs.
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_file_size)]
    size: u64,
    /// Write a page with plots, JSON, CSV and all that fio printed into this directory.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// One object per job, target and policy, each on one line, and nothing else.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    control: ControlArgs,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum BenchCommand {
    /// Put two results beside each other, with ratios, and say which differences are noise.
    Compare(CompareArgs),
}

fn parse_file_size(text: &str) -> Result<u64, String> {
    match parse_size(text) {
        Ok(bytes) if bytes >= 1 << 20 => Ok(bytes),
        Ok(_) => Err("it has to be 1 MiB or more".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// What is run.
enum Suite {
    Jobs(Vec<Job>),
    File(JobFile),
}

impl Suite {
    fn of(args: &BenchArgs) -> anyhow::Result<Self> {
        let name = &args.suite;
        let mut suite = match jobs(name) {
            Some(jobs) => Self::Jobs(jobs),
            None if name.contains(['/', '.']) => {
                let text =
                    fs::read_to_string(name).with_context(|| format!("cannot read {name}"))?;
                let file = JobFile::parse(&text);
                Self::File(file.map_err(|error| UsageError(format!("{name}: {error}")))?)
            }
            None => {
                return Err(UsageError(format!(
                    "no suite {name}: there are {}, and a job file of fio has a '/' or a '.' in \
                     its name",
                    SUITES.join(", ")
                ))
                .into());
            }
        };
        suite.check(args)?;
        Ok(suite)
    }

    /// Leaves out what is not wanted.
    fn check(&mut self, args: &BenchArgs) -> Result<(), UsageError> {
        let name = &args.suite;
        let nothing = || UsageError(format!("all jobs of {name} write: leave out --read-only"));
        if args.read_only {
            match self {
                Self::Jobs(jobs) => jobs.retain(|job| !job.writes),
                Self::File(file) if file.writes => return Err(nothing()),
                Self::File(_) => {}
            }
        }
        if matches!(self, Self::Jobs(jobs) if jobs.is_empty()) {
            return Err(nothing());
        }
        let targets = args.targets.iter().filter(|target| holds_data(target));
        let targets: Vec<&str> = targets.map(String::as_str).collect();
        if !args.overwrite && self.writes() && !targets.is_empty() {
            return Err(UsageError(format!(
                "{name} would overwrite data on {}: say --overwrite to destroy it, or --read-only \
                 to leave out the jobs that write",
                targets.join(" and ")
            )));
        }
        Ok(())
    }

    fn writes(&self) -> bool {
        match self {
            Self::Jobs(jobs) => jobs.iter().any(|job| job.writes),
            Self::File(file) => file.writes,
        }
    }

    /// What is run one after the other.
    fn steps(&self) -> Vec<Step<'_>> {
        match self {
            Self::Jobs(jobs) => jobs.iter().map(Step::Job).collect(),
            Self::File(file) => vec![Step::File(file)],
        }
    }
}

/// What fio is started for once.
#[derive(Clone, Copy)]
enum Step<'a> {
    Job(&'a Job),
    /// Several jobs, which it names itself.
    File(&'a JobFile),
}

impl Step<'_> {
    const fn writes(self) -> bool {
        match self {
            Self::Job(job) => job.writes,
            Self::File(file) => file.writes,
        }
    }

    fn fio(self, at: &At, times: Times) -> Fio {
        match self {
            Self::Job(job) => Fio::job(job, at, times),
            Self::File(file) => Fio::job_file(file, at),
        }
    }
}

/// Measures, or compares what was measured. The exit code is 1 where it was interrupted.
pub(crate) fn run(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    if let Some(BenchCommand::Compare(args)) = &args.command {
        return compare::run(args).map(|()| ExitCode::SUCCESS);
    }
    // First of all: threads started later must not be ended by a signal.
    let signals = Signals::take().context("cannot take signals")?;
    let suite = Suite::of(args)?;
    if let Some(directory) = &args.report {
        check_directory(directory)?;
    }
    let needs_nbd = |target: &&String| target.starts_with("nbd") || target.starts_with("heli");
    let version = fio::check(args.targets.iter().any(|target| needs_nbd(&target)))?;
    let wanted = Wanted::of(args.policies.as_deref(), args.schedulers.as_deref())?;
    expect_once("", &args.targets)?;
    let mut targets: Vec<Target> = Vec::new();
    for text in &args.targets {
        let opening = Opening {
            writes: suite.writes(),
            file_bytes: args.size,
            control: &args.control,
            others: &targets,
        };
        let target = Target::open(text, &opening)?;
        targets.push(target);
    }
    wanted.expect_known(&targets)?;
    wanted.try_all(&targets)?;
    let facts = Facts::of_this_machine();
    let mut result = BenchResult::new(&args.suite, &version, drop_caches(), &facts);
    result.runtime_s = args.runtime;
    result.warmup_s = args.warmup;
    result.repeats = args.repeats;
    result.targets = targets
        .iter()
        .map(Target::note)
        .collect::<anyhow::Result<_>>()?;
    let mut bench = Bench {
        args,
        wanted: &wanted,
        signals: &signals,
        result: &mut result,
        done: 0,
        total: 0,
        began: Instant::now(),
    };
    let measured = bench.measure(&suite, &targets);
    // Before anything is said: policies are as they were, and files are gone.
    drop(targets);
    result.is_complete = matches!(measured, Ok(true));
    show(args, &result)?;
    if measured? {
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(stderr(), "interrupted: what was measured is not everything")?;
    Ok(ExitCode::FAILURE)
}

/// Has the kernel forget what it has read. Whether it may.
pub(crate) fn drop_caches() -> bool {
    rustix::fs::sync();
    fs::write(DROP_CACHES, "3\n").is_ok()
}

/// A benchmark that is under way.
struct Bench<'a> {
    args: &'a BenchArgs,
    wanted: &'a Wanted,
    signals: &'a Signals,
    result: &'a mut BenchResult,
    done: usize,
    total: usize,
    began: Instant,
}

impl Bench<'_> {
    /// Whether everything has been measured.
    fn measure(&mut self, suite: &Suite, targets: &[Target]) -> anyhow::Result<bool> {
        for target in targets {
            if !self.fill(target)? {
                return Ok(false);
            }
        }
        let unders = targets.iter().map(|target| target.unders(self.wanted));
        let unders: Vec<Vec<Under>> = unders.collect();
        let steps = suite.steps();
        let each: usize = unders.iter().map(Vec::len).sum();
        self.total = steps.len() * each * self.args.repeats as usize;
        self.began = Instant::now();
        for &step in &steps {
            // Round by round, so that what changes with time is not taken for a difference.
            for _ in 0..self.args.repeats {
                for (target, unders) in targets.iter().zip(&unders) {
                    for under in unders {
                        if !self.step(step, target, under)? {
                            return Ok(false);
                        }
                    }
                }
            }
        }
        Ok(true)
    }

    /// Writes the file that is to be read, where it is one of ours.
    fn fill(&self, target: &Target) -> anyhow::Result<bool> {
        let Some((_, size_bytes)) = target.scratch else {
            return Ok(true);
        };
        let size = stdx::units::format_size(size_bytes);
        writeln!(stderr(), "writing {size} to {}", target.text)?;
        let Some(output) = Fio::fill(&target.at, size_bytes).run(self.signals)? else {
            return Ok(false);
        };
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "cannot write to {}: {}",
            target.text,
            said.trim()
        );
        Ok(true)
    }

    /// One run. Whether it was done.
    fn step(&mut self, step: Step<'_>, target: &Target, under: &Under) -> anyhow::Result<bool> {
        let names = under.policy.iter().chain(&under.scheduler);
        let names = names.map(String::as_str).collect::<Vec<_>>().join(" and ");
        let name = match step {
            Step::Job(job) => &job.name,
            Step::File(_) => &self.args.suite,
        };
        let what = match names.is_empty() {
            true => format!("{name} on {}", target.text),
            false => format!("{name} on {} under {names}", target.text),
        };
        self.tell(&what)?;
        target.put_under(under)?;
        drop_caches();
        if step.writes() {
            target.expect_unused()?;
        }
        let times = Times {
            runtime_s: self.args.runtime,
            warmup_s: self.args.warmup,
        };
        let fio = step.fio(&target.at, times);
        let before = target.legs.count()?;
        let Some(output) = fio.run(self.signals)? else {
            return Ok(false);
        };
        let after = target.legs.count()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        let measured = parse_output(&text).with_context(|| format!("{what}: {said}"))?;
        ensure!(output.status.success(), "{what}: fio failed: {said}");
        self.done += 1;
        self.keep(&text)?;
        let legs = self.result.legs_since(&target.text, &before, &after);
        for (job, measured) in measured {
            let Some(measured) = measured else {
                writeln!(
                    stderr(),
                    "{what}: no request of {job} ended, so it has no row"
                )?;
                continue;
            };
            let row = self.result.row(&job, &target.text, under);
            row.command = fio.command();
            let legs = legs.clone();
            row.runs.push(Run { measured, legs });
        }
        Ok(true)
    }

    /// Says what comes next, and how long everything will take at the rate so far.
    fn tell(&self, what: &str) -> anyhow::Result<()> {
        let (done, total) = (self.done, self.total);
        let each = match u32::try_from(done) {
            Ok(done) if done > 0 => self.began.elapsed() / done,
            _ => Duration::from_secs(u64::from(self.args.runtime + self.args.warmup)),
        };
        let left = each.saturating_mul(u32::try_from(total - done).unwrap_or(u32::MAX));
        let left = clock_time(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
        writeln!(stderr(), "{}/{total} {what}, {left} left", done + 1)?;
        Ok(())
    }

    /// Keeps what fio printed, where a report is wanted.
    fn keep(&self, text: &str) -> anyhow::Result<()> {
        let Some(directory) = &self.args.report else {
            return Ok(());
        };
        let directory = directory.join("fio");
        let path = directory.join(format!("{:04}.json", self.done));
        fs::create_dir_all(&directory)
            .and_then(|()| fs::write(&path, text))
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

fn show(args: &BenchArgs, result: &BenchResult) -> anyhow::Result<()> {
    if let Some(directory) = &args.report {
        let page = write_bench_report(directory, result)?;
        writeln!(stderr(), "report: {}", page.display())?;
    }
    if args.json {
        for row in result.rows.iter().filter(|row| !row.runs.is_empty()) {
            writeln!(stdout(), "{}", object(args, row))?;
        }
        return Ok(());
    }
    write!(stdout(), "{}", tables(result, table_style()))?;
    Ok(())
}

/// What suits standard output.
fn table_style() -> TableStyle {
    match stdout().is_terminal() {
        true => TableStyle::Terminal,
        false => TableStyle::Plain,
    }
}

fn object(args: &BenchArgs, row: &Row) -> serde_json::Value {
    let median = |of: fn(&Measured) -> f64| row.median(of);
    let iops = row.spread(|run| run.iops);
    serde_json::json!({
        "job": row.job, "target": row.target, "policy": row.policy,
        "scheduler": row.scheduler, "runs": row.runs.len(),
        "is_partial": row.runs.len() < args.repeats as usize,
        "iops": median(|run| run.iops),
        "iops_min": iops.map(|iops| iops.min), "iops_max": iops.map(|iops| iops.max),
        "read_iops": median(|run| run.read_iops), "write_iops": median(|run| run.write_iops),
        "bytes_per_s": median(|run| run.bytes_per_s), "mean_ns": median(|run| run.mean_ns),
        "p99_ns": median(|run| run.p99_ns as f64), "p99_9_ns": median(|run| run.p99_9_ns as f64),
        "p99_99_ns": median(|run| run.p99_99_ns as f64),
        "max_ns": median(|run| run.max_ns as f64), "legs": row.legs(),
    })
}
