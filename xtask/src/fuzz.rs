//! Coverage-guided fuzzing on the stable toolchain.
//!
//! libFuzzer needs to see which edges an input reaches and what it is compared with. rustc's
//! stable compiler has the same LLVM pass for that as the nightly one; it is asked for by name
//! here. What is not to be had without nightly is the address sanitizer: the targets are safe Rust,
//! where a wrong index panics.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use xshell::{Shell, cmd};

use crate::metadata::Metadata;
use crate::process;

/// The coverage pass: counters and a table of edges for libFuzzer's feedback, comparisons for its
/// guesses. `cfg(fuzzing)` is what fuzzing sets by custom.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";

/// How long each target runs as part of `ci`: long enough for what a careless change breaks.
const SMOKE_TIME: Duration = Duration::from_secs(15);

/// Memory above which an input is an error, in MiB: targets hold a few inputs and small states.
const MEMORY_MAX_MIB: &str = "1024";

/// Time above which one input is an error, in seconds: typical ones take microseconds.
const INPUT_TIME_MAX_S: &str = "10";

/// Runs one target for `time`, from the inputs that earlier runs found interesting.
///
/// # Errors
/// Where there is no such target, it does not build, or an input makes it fail.
pub(crate) fn run(root: &Path, target: &str, time: Duration) -> Result<()> {
    let targets = targets(root)?;
    if !targets.iter().any(|known| known == target) {
        bail!(
            "no target is called {target}: there are {}",
            targets.join(", ")
        );
    }
    let programs = build(root, &[target.to_owned()])?;
    fuzz(root, target, &programs[0], time)
}

/// Runs every target for a short time.
///
/// # Errors
/// As [`run`].
pub(crate) fn smoke(root: &Path) -> Result<()> {
    let targets = targets(root)?;
    let programs = build(root, &targets)?;
    let items = targets.into_iter().zip(programs).collect();
    let ended = process::side_by_side(
        process::processors(),
        items,
        |(target, program): (String, PathBuf)| fuzz(root, &target, &program, SMOKE_TIME),
    );
    ended.into_iter().collect()
}

/// The names of all targets.
fn targets(root: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root.join("fuzz/targets")).context("listing fuzz/targets")? {
        let path = entry?.path();
        if let Some(stem) = path.file_stem().filter(|_| path.is_file()) {
            names.push(stem.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Builds targets and says where their programs are.
fn build(root: &Path, targets: &[String]) -> Result<Vec<PathBuf>> {
    let shell = Shell::new()?;
    shell.change_dir(root);
    // With the platform named, build scripts, which run without libFuzzer, get none of the flags.
    let version = cmd!(shell, "rustc -vV").quiet().read()?;
    let platform = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .context("rustc -vV names no host")?;
    let manifest = root.join("fuzz/Cargo.toml");
    // Below the target directory of the workspace, beside what has other flags.
    let directory = Metadata::read(&root.join("Cargo.toml"))?
        .target
        .join("fuzz");
    let wanted = targets.iter().flat_map(|target| ["--bin", target]);
    cmd!(
        shell,
        "cargo build --release --manifest-path {manifest} --target {platform}
            --target-dir {directory} {wanted...}"
    )
    .env("RUSTFLAGS", FLAGS)
    .run()?;
    let programs = directory.join(platform).join("release");
    Ok(targets.iter().map(|name| programs.join(name)).collect())
}

fn fuzz(root: &Path, target: &str, program: &Path, time: Duration) -> Result<()> {
    let directory = root.join("fuzz");
    let corpus = directory.join("corpus").join(target);
    let artifacts = directory.join("artifacts").join(target);
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(&artifacts)?;
    let mut options = vec![
        format!("-max_total_time={}", time.as_secs()),
        format!("-rss_limit_mb={MEMORY_MAX_MIB}"),
        format!("-timeout={INPUT_TIME_MAX_S}"),
        format!("-artifact_prefix={}/", artifacts.display()),
        // Comparisons that come closer count as progress: magic numbers are found so.
        "-use_value_profile=1".to_owned(),
        "-print_final_stats=1".to_owned(),
    ];
    let dictionary = directory
        .join("dictionaries")
        .join(format!("{target}.dict"));
    if dictionary.is_file() {
        options.push(format!("-dict={}", dictionary.display()));
    }
    // What a run finds interesting goes to the first directory; the seeds are only read.
    let mut inputs = vec![corpus];
    inputs.extend(Some(directory.join("seeds").join(target)).filter(|seeds| seeds.is_dir()));

    println!("fuzzing {target} for {} s", time.as_secs());
    let shell = Shell::new()?;
    let output = cmd!(shell, "{program} {options...} {inputs...}")
        .quiet()
        .ignore_status()
        .output()
        .with_context(|| format!("running {}", program.display()))?;
    // libFuzzer reports on standard error: every new edge, then what counts.
    let report = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        eprintln!("{}", process::end_of(&report));
        bail!(
            "target {target} failed; see it again with {} and the input below {}",
            program.display(),
            artifacts.display()
        );
    }
    let lines = report.lines().filter(|line| {
        line.starts_with("INFO: Seed") || line.contains("DONE") || line.contains("executed_units")
    });
    for line in lines {
        println!("{target}: {line}");
    }
    Ok(())
}
