//! What the simulator is asked for: random scenarios, of its example `smoke`, and read policies
//! beside each other, of the harness's examples `matrix`, `week` and `sweep`. All are built for
//! release and know what the words mean. Here is only what a failure needs besides: the commit.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use xshell::{Shell, cmd};

/// What `ci` plays: fresh scenarios twice each, about a minute on two cores.
const CI_SMOKE: [&str; 2] = ["smoke", "--doublecheck"];

/// Plays random scenarios, or scenarios with planted bugs: `words` are the command line.
///
/// # Errors
/// Where it does not build, a scenario fails, or a planted bug is missed.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<()> {
    example(root, &["-p", "heliostat-sim"], "smoke", words)
}

/// Judges a read policy beside all others: `words` are the command line behind `matrix`.
///
/// # Errors
/// Where it does not build, a checker finds a bug, or a target is missed that was to be met.
pub(crate) fn matrix(root: &Path, words: &[&str]) -> Result<()> {
    example(root, &["-p", "heliostat-bench"], "matrix", words)
}

/// Judges a read policy in a week of changing loads and faults: `words` are the command line behind
/// `week`.
///
/// # Errors
/// As [`matrix`].
pub(crate) fn week(root: &Path, words: &[&str]) -> Result<()> {
    example(root, &["-p", "heliostat-bench"], "week", words)
}

/// Says how much depends on each number that the default policy goes by: `words` are the command
/// line behind `sweep`.
///
/// # Errors
/// Where it does not build, there is none of a name, or a checker finds a bug.
pub(crate) fn sweep(root: &Path, words: &[&str]) -> Result<()> {
    // A build of its own, in which these numbers can be others.
    let package = ["-p", "heliostat-bench", "--features", "sweep"];
    example(root, &package, "sweep", words)
}

fn example(root: &Path, package: &[&str], name: &str, words: &[&str]) -> Result<()> {
    let status = Command::new("cargo")
        .current_dir(root)
        .args(["run", "--locked", "--release", "--quiet"])
        .args(package)
        .args(["--example", name, "--"])
        .args(words)
        .status()
        .context("starting cargo")?;
    if status.success() {
        return Ok(());
    }
    let words = words.join(" ");
    bail!("{name} {words} failed at commit {}", commit(root)?);
}

/// What `ci` compares: the default policy of an array with itself, in a few cells beside all
/// others. The file is the `report.json` of
/// `cargo xtask sim matrix --quick --policies adaptive --save DIR`.
const CI_MATRIX: [&str; 3] = ["--quick", "--against", "bench/matrix-quick.json"];

/// What `ci` does with the matrix: two minutes on two cores.
///
/// # Errors
/// As [`matrix`].
pub(crate) fn ci_matrix(root: &Path) -> Result<()> {
    matrix(root, &CI_MATRIX)
}

/// What `ci` does: some minutes' worth on one core. That each checker finds its planted bug is a
/// unit test as well.
///
/// # Errors
/// As [`run`].
pub(crate) fn ci(root: &Path) -> Result<()> {
    run(root, &CI_SMOKE)
}

/// The commit that is checked out, and whether anything was changed since.
fn commit(root: &Path) -> Result<String> {
    let shell = Shell::new()?;
    shell.change_dir(root);
    let commit = cmd!(shell, "git rev-parse HEAD").quiet().read()?;
    let changes = cmd!(shell, "git status --porcelain").quiet().read()?;
    let changed = if changes.is_empty() {
        ""
    } else {
        ", and changes"
    };
    Ok(format!("{commit}{changed}"))
}
