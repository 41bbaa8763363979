//! Tuning of an array that is being served: fio measures, and in the end everything is as it was.

use std::io::{Write as _, stderr};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use heliostat_bench::live::{Job, Measured, SUITES, jobs, parse_output};
use heliostat_bench::tune::{Tuned, TunedOn, Tuning};
use heliostat_policy::{ArrayInfo, PolicySpec};
use heliostat_runtime::{Signals, UsageError, clock_time};

use super::TuneArgs;
use crate::bench::{Fio, Opening, Target, Times, check_fio, drop_caches};
use crate::cli::ControlArgs;
use crate::status;

/// Whatever names an array for `bench` does here too.
const PREFIX: &str = "heliostat:";

/// What is measured of an array, and how.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct LiveArgs {
    /// Of an array: which jobs of fio, those that write left out: seeds, mirror-2021 or readers
    /// [default: seeds].
    #[arg(long, value_name = "NAME")]
    suite: Option<String>,
    /// Of an array: seconds that each run is measured [default: 10].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    runtime: Option<u32>,
    /// Of an array: seconds that each run goes on before it is measured [default: 2].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(0..=3600))]
    warmup: Option<u32>,
    /// Of an array: how often each point is measured [default: 3].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeats: Option<u16>,
    #[command(flatten)]
    control: ControlArgs,
}

impl LiveArgs {
    /// The first option that is given and says nothing of scenarios.
    pub(super) fn given(&self) -> Option<&'static str> {
        let given = [
            (self.suite.is_some(), "--suite"),
            (self.runtime.is_some(), "--runtime"),
            (self.warmup.is_some(), "--warmup"),
            (self.repeats.is_some(), "--repeats"),
        ];
        let mut given = given.into_iter();
        given.find_map(|(is_given, name)| is_given.then_some(name))
    }

    /// How many rounds there are.
    pub(super) fn rounds(&self) -> u64 {
        self.repeats.unwrap_or(3).into()
    }

    fn times(&self) -> Times {
        Times {
            runtime_s: self.runtime.unwrap_or(10),
            warmup_s: self.warmup.unwrap_or(2),
        }
    }

    /// The jobs that are run, which only read.
    fn jobs(&self) -> Result<Vec<Job>, UsageError> {
        let name = self.suite.as_deref().unwrap_or("seeds");
        let Some(mut jobs) = jobs(name) else {
            return Err(UsageError(format!(
                "--suite: no suite {name}: there are {}",
                SUITES.join(", ")
            )));
        };
        jobs.retain(|job| !job.writes);
        match jobs.is_empty() {
            true => Err(UsageError(format!(
                "--suite: all jobs of {name} write, and an array is only read to tune it"
            ))),
            false => Ok(jobs),
        }
    }
}

/// The array that `text` names, where it names no file.
pub(super) fn array_of(text: &str) -> Option<&str> {
    if let Some(name) = text.strip_prefix(PREFIX) {
        return Some(name);
    }
    let path = Path::new(text);
    let is_name = !text.contains('/') && path.extension().is_none() && !path.exists();
    is_name.then_some(text)
}

/// What is tuned, with what it takes to do it.
pub(super) struct Live<'a> {
    args: &'a LiveArgs,
    name: &'a str,
    jobs: Vec<Job>,
    pub(super) legs: usize,
}

impl<'a> Live<'a> {
    /// The array called `name`; there may be a volume behind it.
    pub(super) fn of(args: &'a TuneArgs, name: &'a str) -> anyhow::Result<Self> {
        if let Some(given) = args.given_of_scenarios() {
            let text = format!("{given}: {name} is no scenario file, and an array has no seeds");
            return Err(UsageError(text).into());
        }
        let jobs = args.live.jobs()?;
        let array = name.split('/').next().unwrap_or(name);
        let status = status::ask(&args.live.control, array).with_context(|| {
            format!("{name} is neither a scenario file nor an array that can be asked")
        })?;
        Ok(Self {
            args: &args.live,
            name,
            jobs,
            legs: status.legs.len(),
        })
    }

    pub(super) fn on(&self) -> TunedOn {
        TunedOn::Jobs(self.jobs.iter().map(|job| job.name.clone()).collect())
    }

    /// Measures every point. Nothing where it was interrupted.
    pub(super) fn tune(&self, tuning: &Tuning, signals: &Signals) -> anyhow::Result<Option<Tuned>> {
        check_fio(true)?;
        let target = Target::open(
            &format!("{PREFIX}{}", self.name),
            &Opening {
                writes: false,
                file_bytes: 0,
                control: &self.args.control,
                others: &[],
            },
        )?;
        let array = ArrayInfo::new(self.legs);
        for policy in tuning.policies() {
            policy
                .check(&array)
                .map_err(|error| UsageError(format!("{}: {policy}: {error}", self.name)))?;
        }
        let runs = usize::try_from(tuning.points_max())? * tuning.runs_per_point();
        let (began, mut done) = (Instant::now(), 0);
        let tuned = tuning.measure(|policy, job| {
            let job = &self.jobs[job];
            self.tell(done, runs, began, &format!("{} under {policy}", job.name))?;
            done += 1;
            let read = self.run(&target, policy, job, signals)?;
            Ok(tuning.objective.measured(&read))
        });
        match tuned {
            Ok(tuned) => Ok(Some(tuned)),
            Err(Ended::Interrupted) => Ok(None),
            Err(Ended::Failed(error)) => Err(error),
        }
    }

    /// One job under one policy.
    fn run(
        &self,
        target: &Target,
        policy: &PolicySpec,
        job: &Job,
        signals: &Signals,
    ) -> Result<Measured, Ended> {
        target.switch_to(&policy.complete())?;
        drop_caches();
        let Some(output) = Fio::job(job, &target.at, self.args.times()).run(signals)? else {
            return Err(Ended::Interrupted);
        };
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        let what = || format!("{} under {policy}: {said}", job.name);
        let text = String::from_utf8_lossy(&output.stdout);
        let measured = parse_output(&text).with_context(what)?;
        if !output.status.success() {
            return Err(anyhow::anyhow!("fio failed: {}", what()).into());
        }
        let first = measured.into_iter().find_map(|(_, measured)| measured);
        Ok(first.with_context(what)?)
    }

    /// Says what comes next, and how long everything will take at the rate so far.
    fn tell(&self, done: usize, runs: usize, began: Instant, what: &str) -> anyhow::Result<()> {
        let times = self.args.times();
        let each = match u32::try_from(done) {
            Ok(done) if done > 0 => began.elapsed() / done,
            _ => Duration::from_secs(u64::from(times.runtime_s + times.warmup_s)),
        };
        let left = each.saturating_mul(u32::try_from(runs - done).unwrap_or(u32::MAX));
        let left = clock_time(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
        writeln!(stderr(), "{}/{runs} {what}, {left} left", done + 1)?;
        Ok(())
    }
}

/// Why it went no further.
enum Ended {
    Interrupted,
    Failed(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Ended {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}
