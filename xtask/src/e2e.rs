//! End-to-end tests: the program as its users run it, driven by tools that are not ours.
//!
//! Twice as many run at once as there are processors, since they wait half of their time: for
//! drives that are slow on purpose, for what goes on in the background. Each has a directory of its
//! own, which is removed afterwards, and ends what it started. A test whose tool is missing is
//! skipped with the reason; where `CI=true` says that everything was to be installed, it fails.
//! What only the kernel can give (root, FUSE, loop devices) is skipped everywhere.

mod advise;
mod arrays;
pub(crate) mod attack;
mod bad_blocks;
mod bench;
mod clients;
mod control;
mod demo;
mod emulate;
mod examine;
mod explain;
mod exports;
mod faults;
mod files;
mod filesystem;
mod fio;
mod grow;
mod hostile;
mod killed;
mod legs;
mod manage;
mod metrics;
mod nbd;
mod power;
mod rebuilds;
pub(crate) mod room;
mod scan;
pub(crate) mod server;
mod shares;
mod stats;
mod stop;
mod top;
mod volumes;
mod write_behind;

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use xshell::{Shell, cmd};

use crate::metadata::Metadata;
use crate::process;
use crate::tools::Skip;
use room::Room;

/// One test.
struct Test {
    /// What it is called by.
    name: &'static str,
    /// What it shows.
    about: &'static str,
    run: fn(&Room) -> Result<()>,
}

/// Every test, the quick ones first.
const TESTS: &[&[Test]] = &[
    manage::TESTS,
    nbd::TESTS,
    control::TESTS,
    stats::TESTS,
    top::TESTS,
    metrics::TESTS,
    files::TESTS,
    explain::TESTS,
    clients::TESTS,
    fio::TESTS,
    stop::TESTS,
    volumes::TESTS,
    shares::TESTS,
    faults::TESTS,
    exports::TESTS,
    bench::TESTS,
    advise::TESTS,
    emulate::TESTS,
    arrays::TESTS,
    rebuilds::TESTS,
    grow::TESTS,
    bad_blocks::TESTS,
    examine::TESTS,
    hostile::TESTS,
    scan::TESTS,
    filesystem::TESTS,
    power::TESTS,
    killed::TESTS,
    write_behind::TESTS,
    demo::TESTS,
];

/// How many tests run at once for each processor. All of them together take 560 s of processor
/// time and 1500 s one after the other.
const TESTS_PER_PROCESSOR: usize = 2;

/// Where the program is looked for instead of building it, to test a packaged one.
const PROGRAM_VARIABLE: &str = "HELIOSTAT";

/// Prints what tests there are.
pub(crate) fn list() {
    for test in TESTS.iter().copied().flatten() {
        println!("{:24} {}", test.name, test.about);
    }
}

/// Builds the program and runs the tests of these names, or all of them.
///
/// # Errors
/// Where a test fails, there is none of a name, or the program does not build.
pub(crate) fn run(root: &Path, names: &[&str]) -> Result<()> {
    let tests = TESTS.iter().copied().flatten();
    for name in names {
        if !tests.clone().any(|test| test.name == *name) {
            bail!("no test is called {name}: see cargo xtask e2e --list");
        }
    }
    let program = program(root)?;
    let tests = tests.filter(|test| names.is_empty() || names.contains(&test.name));
    let terminal = Mutex::new(());
    let workers = TESTS_PER_PROCESSOR * process::processors();
    let outcomes = process::side_by_side(workers, tests.collect(), |test| {
        run_one(root, &program, test, &terminal)
    });
    let count = |wanted: Outcome| outcomes.iter().filter(|(_, one)| *one == wanted).count();
    println!(
        "{} passed, {} skipped, {} failed",
        count(Outcome::Passed),
        count(Outcome::Skipped),
        count(Outcome::Failed)
    );
    let failed = outcomes.iter().filter(|(_, one)| *one == Outcome::Failed);
    let failed: Vec<&str> = failed.map(|(name, _)| *name).collect();
    if !failed.is_empty() {
        bail!("end-to-end tests failed: {}", failed.join(", "));
    }
    Ok(())
}

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Skipped,
    Failed,
}

/// Runs a test and says how it ended, in lines that no other's come between.
fn run_one(
    root: &Path,
    program: &Path,
    test: &Test,
    terminal: &Mutex<()>,
) -> (&'static str, Outcome) {
    let (start, name) = (Instant::now(), test.name);
    let room = Room::new(root, program, name);
    let ended = room.as_ref().map_err(|error| anyhow!("{error:#}"));
    let ended = ended.and_then(|room| (test.run)(room));
    let time = start.elapsed().as_secs_f64();
    let _lines = terminal.lock().expect("nobody panics with it");
    let Err(error) = ended else {
        println!("PASS {name:24} {time:6.1} s");
        return (name, Outcome::Passed);
    };
    if let Some(skip) = error.downcast_ref::<Skip>() {
        println!("SKIP {name:24} {skip}");
        return (name, Outcome::Skipped);
    }
    println!("FAIL {name:24} {time:6.1} s: {error:#}");
    if let Ok(room) = &room {
        room.print_logs();
    }
    (name, Outcome::Failed)
}

/// The program under test.
///
/// # Errors
/// Where it does not build.
pub(crate) fn program(root: &Path) -> Result<PathBuf> {
    if let Some(path) = env::var_os(PROGRAM_VARIABLE) {
        return std::path::absolute(path).context("the program's path");
    }
    let shell = Shell::new()?;
    shell.change_dir(root);
    cmd!(shell, "cargo build --quiet --release --package heliostat").run()?;
    let metadata = Metadata::read(&root.join("Cargo.toml"))?;
    Ok(metadata.target.join("release/heliostat"))
}
