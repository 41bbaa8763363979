//! A week of changing loads and faults under a read policy, and under others beside it.
//! `cargo xtask sim week` runs it.
//!
//!     cargo run --release -p heliostat-bench --example week -- [OPTIONS]
//!
//! OPTIONS: `--of NAME` (who is judged), `--policies A,B,C`, `--arrays A,B`, `--days N`, `--seeds
//! N`, `--strict` (fail where an hour is below 0.99 of the best other policy's), `-j N`; `--show
//! ARRAY` prints the week as a scenario file.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it talks to whoever called it"
)]

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use heliostat_bench::matrix::{Matrix, Week, week_lines};
use heliostat_bench::{Contender, Progress};

/// How often somebody who waits is told how far it is.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// The arrays of a week where nobody names any: one that turns, one of flash, and both.
const ARRAYS: &str = "3hdd,2hdd+ssd,2nvme";

/// What was asked for.
struct Wanted {
    weeks: Vec<(String, Week)>,
    contenders: Vec<Contender>,
    of: Contender,
    seeds: u64,
    threads: usize,
    is_strict: bool,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["--show", array] => week(array, 7).map(|week| {
            print!("{}", week.text());
            true
        }),
        options => wanted(options).and_then(|wanted| judge(&wanted)),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::from(2)
        }
    }
}

fn week(array: &str, days: u32) -> Result<Week> {
    Week::new(array, days).map_err(|problem| anyhow!(problem))
}

fn wanted(options: &[&str]) -> Result<Wanted> {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let all = Contender::parse_list("all")?;
    // The oracle is nobody's competitor, and takes many times as long.
    let others = all.into_iter().filter(|one| one.to_string() != "oracle");
    let (mut contenders, mut of) = (others.collect::<Vec<_>>(), Matrix::judged_policy());
    let (mut arrays, mut days, mut seeds) = (ARRAYS, 7, 1);
    let (mut threads, mut is_strict) = (processors, false);
    let mut options = options.iter();
    while let Some(&option) = options.next() {
        let mut value = || {
            options
                .next()
                .with_context(|| format!("{option}: of what?"))
        };
        match option {
            "--of" => of = Contender::parse(value()?)?,
            "--policies" => contenders = Contender::parse_list(value()?)?,
            "--arrays" => arrays = value()?,
            "--days" => days = value()?.parse().context("--days")?,
            "--seeds" => seeds = value()?.parse().context("--seeds")?,
            "--strict" => is_strict = true,
            "-j" => threads = value()?.parse().context("-j")?,
            _ => bail!("there is no option {option}"),
        }
    }
    if seeds == 0 {
        bail!("--seeds: at least one");
    }
    if !contenders.contains(&of) {
        contenders.push(of.clone());
    }
    let weeks = arrays.split(',').map(|array| {
        let week = week(array, days)?;
        Ok((array.to_owned(), week))
    });
    Ok(Wanted {
        weeks: weeks.collect::<Result<_>>()?,
        contenders,
        of,
        seeds,
        threads,
        is_strict,
    })
}

/// How far it is, for whoever waits.
struct Progressing {
    began: Instant,
    told: Mutex<Instant>,
    shares: Mutex<Vec<f64>>,
}

impl Progressing {
    fn on(&self, event: Progress) {
        let (run, share) = match event {
            Progress::Began(_) => return,
            Progress::Passed(run, share) => (run, share),
            Progress::Ended(run) => (run, 1.0),
        };
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        shares[run] = share;
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.elapsed() < TELL_EVERY {
            return;
        }
        *told = Instant::now();
        let (done, runs) = (shares.iter().sum::<f64>(), shares.len());
        let passed = self.began.elapsed().as_secs_f64();
        eprintln!("{passed:.0} s: {done:.1} of {runs} runs");
    }
}

/// Whether every hour is as it should be, where that matters.
fn judge(wanted: &Wanted) -> Result<bool> {
    let mut is_well = true;
    for (array, week) in &wanted.weeks {
        let runs = wanted.contenders.len() * usize::try_from(wanted.seeds)?;
        eprintln!("{array}: {runs} runs on {} threads", wanted.threads);
        let progress = Progressing {
            began: Instant::now(),
            told: Mutex::new(Instant::now()),
            shares: Mutex::new(vec![0.0; runs]),
        };
        let judged = week.run(
            &wanted.contenders,
            &wanted.of,
            wanted.seeds,
            wanted.threads,
            &|event| progress.on(event),
        )?;
        println!("{}", week_lines(&judged));
        is_well &= judged.is_well() || !wanted.is_strict;
    }
    Ok(is_well)
}
