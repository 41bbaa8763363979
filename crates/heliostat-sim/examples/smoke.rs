//! Plays random scenarios on all processors, and makes what fails small. `cargo xtask sim` runs it.
//!
//!     cargo run --release -p heliostat-sim --example smoke -- smoke [OPTIONS]
//!     cargo run --release -p heliostat-sim --example smoke -- soak [OPTIONS]
//!     cargo run --release -p heliostat-sim --example smoke -- planted [NAME...]
//!
//! `smoke` plays the kept seeds and some fresh ones, `soak` large scenarios until the seeds or the
//! minutes are over or somebody stops it, `planted` looks whether each checker finds its bug. Both
//! of the former play the life of an array with metadata besides, for each fresh seed; somebody
//! tends each second of these, and has more devices than there are legs in half of them.
//! OPTIONS: `--seeds N`, `--from S` (the first fresh one; the clock says it otherwise),
//! `--minutes M`, `--doublecheck` (each twice, and both compared), `--keep-going` (after a
//! failure), `--as-it-is` (a failure is not made smaller), `--life`, `--tended`, `--supplied`
//! (nothing but arrays with metadata: such as nobody tends, such as somebody does, such as are
//! given legs besides).
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it drives the simulator from outside, for people"
)]

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use heliostat_sim::{
    Shrunk, Trial, kept_large_seeds, kept_life_seeds, kept_seeds, kept_supplied_seeds,
    kept_tended_seeds, planted, run_planted,
};

/// Fresh seeds of a smoke test where nobody says how many: a minute on two cores.
const SMOKE_SEEDS: u64 = 1_000;

/// Runs that the shrinker may take: some seconds for small scenarios, minutes for large ones.
const SHRINK_RUNS: u32 = 1_000;

/// The same for a planted bug, of which only has to be seen that it becomes small.
const PLANTED_SHRINK_RUNS: u32 = 60;

/// Seeds within which every planted bug shows.
const PLANTED_SEEDS: std::ops::Range<u64> = 1_001..1_200;

/// How often progress is told.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// A scenario that takes longer is told: it is worth a look, too.
const SLOW: Duration = Duration::from_secs(5);

/// What follows from a seed.
#[derive(Clone, Copy)]
enum Kind {
    Small,
    Large,
    /// An array with metadata, and power cuts.
    Life,
    /// The same, and somebody who adds legs and compares them.
    Tended,
    /// The same, with devices that are made legs.
    Supplied,
}

impl Kind {
    fn trial(self, seed: u64) -> Trial {
        match self {
            Self::Small => Trial::random(seed),
            Self::Large => Trial::large(seed),
            Self::Life => Trial::life(seed),
            Self::Tended => Trial::tended(seed),
            Self::Supplied => Trial::supplied(seed),
        }
    }
}

/// What is to be played.
struct Plan {
    /// Besides lives.
    kind: Kind,
    kept: Vec<(Kind, u64)>,
    /// The first fresh seed, and how many.
    from: u64,
    seeds: u64,
    /// Not beyond this time.
    minutes: Option<f64>,
    doublecheck: bool,
    keep_going: bool,
    /// Whether a failure is made smaller.
    shrinks: bool,
    /// Nothing but lives of this kind.
    only: Option<Kind>,
}

fn main() -> ExitCode {
    // What fails is told with its seed and its text; where in the code it was, once.
    let told = Mutex::new(BTreeSet::new());
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.insert(place.clone()) {
            eprintln!("an assertion fails at {place}");
        }
    }));
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, options) = match arguments.split_first() {
        Some((command, options)) => (command.as_str(), options),
        None => ("", &[][..]),
    };
    let well = match command {
        "planted" => play_planted(options),
        "smoke" | "soak" => match plan(command == "soak", options) {
            Ok(plan) => play_all(&plan),
            Err(text) => {
                eprintln!("{text}");
                return ExitCode::from(2);
            }
        },
        _ => {
            eprintln!("smoke, soak or planted");
            return ExitCode::from(2);
        }
    };
    if well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn plan(large: bool, options: &[String]) -> Result<Plan, String> {
    let (kind, kept) = if large {
        (Kind::Large, kept_large_seeds())
    } else {
        (Kind::Small, kept_seeds())
    };
    let kept = kept.into_iter().map(|seed| (kind, seed));
    let lives = kept_life_seeds().into_iter();
    let lives = lives.map(|seed| (Kind::Life, seed));
    let tended = kept_tended_seeds().into_iter();
    let tended = tended.map(|seed| (Kind::Tended, seed));
    let supplied = kept_supplied_seeds().into_iter();
    let supplied = supplied.map(|seed| (Kind::Supplied, seed));
    let mut plan = Plan {
        kind,
        kept: kept.chain(lives).chain(tended).chain(supplied).collect(),
        from: fresh_seed(),
        seeds: if large { u64::MAX } else { SMOKE_SEEDS },
        minutes: None,
        doublecheck: false,
        keep_going: false,
        shrinks: true,
        only: None,
    };
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let mut number = || {
            let text = options
                .next()
                .ok_or_else(|| format!("{option}: a number is missing"))?;
            text.parse::<f64>()
                .ok()
                .filter(|number| *number >= 0.0)
                .map(|number| (text, number))
                .ok_or_else(|| format!("{option}: '{text}' is no number"))
        };
        let mut count = || {
            let (text, _) = number()?;
            text.parse()
                .map_err(|_| format!("{option}: '{text}' is no whole number"))
        };
        match option.as_str() {
            "--seeds" => plan.seeds = count()?,
            "--from" => plan.from = count()?,
            "--minutes" => {
                plan.minutes = Some(number()?.1);
                plan.seeds = u64::MAX;
            }
            "--doublecheck" => plan.doublecheck = true,
            "--keep-going" => plan.keep_going = true,
            "--as-it-is" => plan.shrinks = false,
            "--life" => plan.only = Some(Kind::Life),
            "--tended" => plan.only = Some(Kind::Tended),
            "--supplied" => plan.only = Some(Kind::Supplied),
            _ => return Err(format!("there is no option {option}")),
        }
    }
    Ok(plan)
}

/// Another one at every call: milliseconds since 1970, far from seeds that anybody has kept.
fn fresh_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(1_000_000, |since| since.as_secs() * 1_000)
}

/// What the threads share.
struct Shared<'a> {
    plan: &'a Plan,
    began: Instant,
    next: AtomicU64,
    played: AtomicU64,
    answered: AtomicU64,
    failed: AtomicU64,
    stop: AtomicBool,
    told: Mutex<Instant>,
}

impl Shared<'_> {
    /// The next seed to play, and what is to follow from it.
    fn take(&self) -> Option<(Kind, u64)> {
        let limit = self
            .plan
            .minutes
            .map(|minutes| Duration::from_secs_f64(minutes * 60.0));
        let is_late = limit.is_some_and(|limit| self.began.elapsed() >= limit);
        if is_late || self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        let kept = self.plan.kept.len() as u64;
        if index < kept {
            let index = usize::try_from(index).expect("the list is short");
            return Some(self.plan.kept[index]);
        }
        let scenarios_per_seed = if self.plan.only.is_some() { 1 } else { 2 };
        let fresh = (index - kept) / scenarios_per_seed;
        let seed = self.plan.from.wrapping_add(fresh);
        let kind = match (self.plan.only, (index - kept) % 2, seed % 4) {
            (Some(kind), ..) => kind,
            (None, 0, _) => self.plan.kind,
            (None, _, 0 | 2) => Kind::Life,
            (None, _, 1) => Kind::Tended,
            (None, ..) => Kind::Supplied,
        };
        (fresh < self.plan.seeds).then_some((kind, seed))
    }

    fn play(&self) {
        while let Some((kind, seed)) = self.take() {
            let trial = kind.trial(seed);
            let began = Instant::now();
            let outcome = trial.play(self.plan.doublecheck);
            if began.elapsed() >= SLOW {
                println!("seed {seed} took {:.0} s", began.elapsed().as_secs_f64());
            }
            match outcome {
                Ok(result) => {
                    let answered = result.read.ios + result.write.ios;
                    self.answered.fetch_add(answered, Ordering::Relaxed);
                }
                Err(failure) => {
                    self.failed.fetch_add(1, Ordering::Relaxed);
                    if self.plan.keep_going || !self.stop.swap(true, Ordering::Relaxed) {
                        println!("\n{failure}\n");
                        if self.plan.shrinks {
                            tell_shrunk(seed, &trial.shrink(&failure, SHRINK_RUNS));
                        }
                    }
                }
            }
            self.played.fetch_add(1, Ordering::Relaxed);
            self.tell_progress(seed);
        }
    }

    fn tell_progress(&self, seed: u64) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.elapsed() >= PROGRESS_EVERY {
            *told = Instant::now();
            println!("{}, now at seed {seed}", self.summary());
        }
    }

    fn summary(&self) -> String {
        format!(
            "{:6.0} s: {} scenarios, {} requests answered, {} failed",
            self.began.elapsed().as_secs_f64(),
            self.played.load(Ordering::Relaxed),
            self.answered.load(Ordering::Relaxed),
            self.failed.load(Ordering::Relaxed)
        )
    }
}

fn play_all(plan: &Plan) -> bool {
    let shared = Shared {
        plan,
        began: Instant::now(),
        next: AtomicU64::new(0),
        played: AtomicU64::new(0),
        answered: AtomicU64::new(0),
        failed: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        told: Mutex::new(Instant::now()),
    };
    let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    println!(
        "random scenarios: {} kept seeds, then fresh ones from {}, on {threads} processors",
        plan.kept.len(),
        plan.from
    );
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| shared.play());
        }
    });
    println!("{}", shared.summary());
    shared.failed.load(Ordering::Relaxed) == 0
}

/// A failure as small as it can be made.
fn tell_shrunk(seed: u64, shrunk: &Shrunk) {
    let found = &shrunk.failure;
    let shows = format!(
        "Fails: {}\nShrunk from the random scenario of seed {seed} in {} runs.",
        found.text.lines().next().unwrap_or_default(),
        shrunk.runs
    );
    println!(
        "the shrunk scenario fails at {:.9} s: {}\n\n---- scenario file\n{}----\n",
        (found.at - heliostat_types::Instant::ZERO).as_secs_f64(),
        found.text,
        shrunk.trial.to_text(&shows)
    );
}

/// Plants each bug, and looks whether its checker finds it and what is left of the scenario.
fn play_planted(names: &[String]) -> bool {
    let all = planted().into_iter();
    let named = all.filter(|name| names.is_empty() || names.iter().any(|known| known == name));
    let named = Mutex::new(named);
    let is_missed = AtomicBool::new(false);
    let next = || named.lock().unwrap_or_else(PoisonError::into_inner).next();
    let play_all = || {
        while let Some(name) = next() {
            if let Err(text) = play_one_planted(name) {
                println!("{name:26} MISSED: {text}");
                is_missed.store(true, Ordering::Relaxed);
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(play_all);
        }
    });
    !is_missed.into_inner()
}

fn play_one_planted(name: &str) -> Result<(), String> {
    let found = run_planted(name, PLANTED_SEEDS)?;
    let (seed, legs) = (found.failure.seed, found.trial.scenario.array.legs.len());
    let jobs = found.trial.scenario.jobs.len();
    let shrunk = found.shrink(PLANTED_SHRINK_RUNS);
    let left = &shrunk.trial.scenario;
    println!(
        "{name:26} found at seed {seed}: {legs} legs and {jobs} jobs, shrunk to {} and {} in {} \
         runs: {}",
        left.array.legs.len(),
        left.jobs.len(),
        shrunk.runs,
        shrunk.failure.text.lines().next().unwrap_or_default(),
    );
    Ok(())
}
