//! Everything that a change must pass, in the order in which it fails soonest.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use xshell::{Shell, cmd};

use crate::{e2e, fuzz, kernel, sim, tidy, tools};

/// One thing to pass.
struct Step {
    name: &'static str,
    run: fn(&Shell, &Path) -> Result<()>,
}

const STEPS: &[Step] = &[
    Step {
        name: "tools",
        run: |_, _| tools::install(),
    },
    Step {
        name: "fmt",
        run: fmt,
    },
    Step {
        name: "tidy",
        run: |_, root| tidy::run(root),
    },
    Step {
        name: "clippy",
        run: clippy,
    },
    Step {
        name: "test",
        run: test,
    },
    Step {
        name: "doc",
        run: doc,
    },
    Step {
        name: "sim",
        run: |_, root| sim::ci(root),
    },
    Step {
        name: "matrix",
        run: |_, root| sim::ci_matrix(root),
    },
    Step {
        name: "build",
        run: build,
    },
    Step {
        name: "e2e",
        run: |_, root| e2e::run(root, &[]),
    },
    Step {
        name: "kernel",
        run: |_, root| kernel::run(root, &kernel::Wanted::all(), kernel::Keep::Failed),
    },
    Step {
        name: "demo",
        run: demo,
    },
    Step {
        name: "published",
        run: published,
    },
    Step {
        name: "fuzz",
        run: |_, root| fuzz::smoke(root),
    },
];

/// Runs the steps of these names, or all of them, and stops at the first that fails.
///
/// # Errors
/// Where a step fails, or there is none of a name.
pub(crate) fn run(root: &Path, names: &[&str]) -> Result<()> {
    for name in names {
        if !STEPS.iter().any(|step| step.name == *name) {
            let known: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
            bail!("no step is called {name}: there are {}", known.join(", "));
        }
    }
    let shell = Shell::new()?;
    shell.change_dir(root);
    let mut times: Vec<(&str, Duration)> = Vec::new();
    for step in STEPS {
        if !names.is_empty() && !names.contains(&step.name) {
            continue;
        }
        println!("== {}", step.name);
        let start = Instant::now();
        let result = (step.run)(&shell, root);
        let time = start.elapsed();
        let outcome = if result.is_ok() { "passed" } else { "FAILED" };
        println!(
            "== {} {outcome} after {:.1} s\n",
            step.name,
            time.as_secs_f64()
        );
        result.with_context(|| format!("step {}", step.name))?;
        times.push((step.name, time));
    }
    for (name, time) in &times {
        println!("{name:>8} {:7.1} s", time.as_secs_f64());
    }
    let total: Duration = times.iter().map(|(_, time)| *time).sum();
    println!("{:>8} {:7.1} s, all passed", "total", total.as_secs_f64());
    Ok(())
}

fn fmt(shell: &Shell, _root: &Path) -> Result<()> {
    cmd!(shell, "cargo fmt --all --check").run()?;
    // A workspace of its own.
    cmd!(shell, "cargo fmt --manifest-path fuzz/Cargo.toml --check").run()?;
    Ok(())
}

/// What has a feature that the workspace is built without: numbers that a sweep can change.
const SWEEP: &[&str] = &[
    "--package",
    "heliostat-policy",
    "--package",
    "heliostat-bench",
    "--features",
    "heliostat-policy/sweep,heliostat-bench/sweep",
];

fn clippy(shell: &Shell, _root: &Path) -> Result<()> {
    cmd!(
        shell,
        "cargo clippy --locked --workspace --all-targets -- -D warnings"
    )
    .run()?;
    cmd!(
        shell,
        "cargo clippy --locked {SWEEP...} --all-targets -- -D warnings"
    )
    .run()?;
    Ok(())
}

fn test(shell: &Shell, _root: &Path) -> Result<()> {
    cmd!(shell, "cargo test --locked --quiet --workspace").run()?;
    // What reads these numbers, and what changes them.
    let filters = ["policies", "read_ahead", "constants", "sweep"];
    let sweep = cmd!(shell, "cargo test --locked --quiet {SWEEP...} --lib --");
    sweep.args(filters).run()?;
    Ok(())
}

fn doc(shell: &Shell, _root: &Path) -> Result<()> {
    cmd!(shell, "cargo doc --locked --workspace --no-deps")
        .env("RUSTDOCFLAGS", "-D warnings")
        .run()?;
    Ok(())
}

fn build(shell: &Shell, _root: &Path) -> Result<()> {
    cmd!(shell, "cargo build --locked --release --package heliostat").run()?;
    Ok(())
}

fn demo(shell: &Shell, root: &Path) -> Result<()> {
    let program = e2e::program(root)?;
    let place = shell.create_temp_dir()?;
    let report = place.path().join("report");
    cmd!(shell, "{program} demo --quick --report {report}").run()?;
    Ok(())
}

/// The published measurements are met as well as docs/published.md says.
fn published(shell: &Shell, root: &Path) -> Result<()> {
    let program = e2e::program(root)?;
    let told = cmd!(shell, "{program} sim --published --json").read()?;
    let last = told.lines().last().context("no summary")?;
    let summary: serde_json::Value = serde_json::from_str(last)?;
    let number = |key: &str| summary[key].as_f64().with_context(|| format!("no {key}"));
    let (right, clear) = (number("right_winners")?, number("clear_cases")?);
    let median_error = number("median_error")?;
    println!("the right winner in {right} of {clear} clear cases, median error {median_error:.3}");
    if right < 0.9 * clear || median_error > 0.15 {
        bail!("the published measurements are not met: {last}");
    }
    Ok(())
}
