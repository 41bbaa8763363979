//! End-to-end tests: the program as its users run it, driven by tools that are not ours.
//!
//! Each test has a directory of its own, which is removed afterwards, and ends what it started. A
//! test whose tool is missing is skipped with the reason; where `CI=true` says that everything was
//! to be installed, it fails. What only the kernel can give (root, FUSE, loop devices) is skipped
//! everywhere.

mod arrays;
pub(crate) mod attack;
mod bad_blocks;
mod clients;
mod control;
mod demo;
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
mod nbd;
mod power;
mod rebuilds;
pub(crate) mod room;
mod scan;
pub(crate) mod server;
mod stats;
mod stop;
mod volumes;
mod write_behind;

use std::env;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use xshell::{Shell, cmd};

use crate::metadata::Metadata;
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
    files::TESTS,
    explain::TESTS,
    clients::TESTS,
    fio::TESTS,
    stop::TESTS,
    volumes::TESTS,
    faults::TESTS,
    exports::TESTS,
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
    let mut failed = Vec::new();
    let (mut passed, mut skipped) = (0, 0);
    for test in tests.filter(|test| names.is_empty() || names.contains(&test.name)) {
        let start = Instant::now();
        let room = Room::new(root, &program, test.name)?;
        let result = (test.run)(&room);
        let time = start.elapsed().as_secs_f64();
        match result {
            Ok(()) => {
                println!("PASS {:24} {time:6.1} s", test.name);
                passed += 1;
            }
            Err(error) => match error.downcast_ref::<Skip>() {
                Some(skip) => {
                    println!("SKIP {:24} {skip}", test.name);
                    skipped += 1;
                }
                None => {
                    println!("FAIL {:24} {time:6.1} s: {error:#}", test.name);
                    room.print_logs();
                    failed.push(test.name);
                }
            },
        }
    }
    println!(
        "{passed} passed, {skipped} skipped, {} failed",
        failed.len()
    );
    if !failed.is_empty() {
        bail!("end-to-end tests failed: {}", failed.join(", "));
    }
    Ok(())
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
