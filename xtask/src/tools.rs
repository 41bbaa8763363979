//! The outside tools that the end-to-end tests, the benchmarks and the fuzzer drive.
//!
//! Only Debian's package manager is driven, and only as root; everybody else is told what to
//! install. No host is named: the machine's own package sources are used.

use std::env;
use std::fmt;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use xshell::{Shell, cmd};

/// A program, and the Debian package that has it.
struct Tool {
    program: &'static str,
    package: &'static str,
}

const fn tool(program: &'static str, package: &'static str) -> Tool {
    Tool { program, package }
}

/// Where Debian has the module of Python that reads metrics.
pub(crate) const PROMETHEUS_CLIENT: &str =
    "/usr/lib/python3/dist-packages/prometheus_client/openmetrics/parser.py";

const TOOLS: &[Tool] = &[
    tool("btrfs", "btrfs-progs"),
    tool("fallocate", "util-linux"),
    tool("fio", "fio"),
    // libFuzzer is C++, and compiled with the fuzz targets.
    tool("g++", "g++"),
    tool("mdadm", "mdadm"),
    tool("mkfs.btrfs", "btrfs-progs"),
    tool("mkfs.ext4", "e2fsprogs"),
    tool("nbdcopy", "libnbd-bin"),
    tool("nbdfuse", "libnbd-bin"),
    tool("nbdinfo", "libnbd-bin"),
    tool("nbdkit", "nbdkit"),
    tool("nbdsh", "python3-libnbd"),
    tool("promtool", "prometheus"),
    // A module has no program of its own.
    tool(PROMETHEUS_CLIENT, "python3-prometheus-client"),
    tool("qemu-img", "qemu-utils"),
    tool("qemu-io", "qemu-utils"),
    tool("qemu-storage-daemon", "qemu-system-common"),
    tool("qemu-system-x86_64", "qemu-system-x86"),
];

/// A test cannot run here, which is nobody's fault.
#[derive(Debug)]
pub(crate) struct Skip(pub(crate) String);

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Skip {}

/// Fails with [`Skip`] where one of `programs` is missing, unless they were all to be installed.
///
/// # Errors
/// Where one is missing.
pub(crate) fn require(programs: &[&str]) -> Result<()> {
    let missing: Vec<&str> = programs
        .iter()
        .copied()
        .filter(|program| find(program).is_none())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(cannot_run(anyhow!(
        "missing: {} (see cargo xtask tools)",
        missing.join(", ")
    )))
}

/// Why tests cannot run here, as a reason to skip them; in CI there is none.
pub(crate) fn cannot_run(why: anyhow::Error) -> anyhow::Error {
    if env::var("CI").is_ok_and(|value| value == "true") {
        why
    } else {
        Skip(format!("{why:#}")).into()
    }
}

/// Where `program` is, as a shell would find it. Administrators' directories are looked into as
/// well, because they are not in every user's path.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
}

/// Whether this process is root.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Installs what is missing, as root; otherwise says what to install.
///
/// # Errors
/// Where the package manager fails, or a program is still missing afterwards.
pub(crate) fn install() -> Result<()> {
    let packages = missing_packages();
    if packages.is_empty() {
        println!("all tools are here");
        return Ok(());
    }
    let packages_text = packages.join(" ");
    if !is_root() {
        println!("missing; please install the Debian packages: {packages_text}");
        return Ok(());
    }
    let shell = Shell::new()?;
    // Nobody is there to answer a question.
    shell.set_var("DEBIAN_FRONTEND", "noninteractive");
    cmd!(shell, "apt-get update -q")
        .run()
        .context("apt-get update")?;
    cmd!(
        shell,
        "apt-get install -q -y --no-install-recommends {packages...}"
    )
    .run()
    .with_context(|| format!("installing {packages_text}"))?;
    match missing_packages().as_slice() {
        [] => Ok(()),
        left => bail!("still missing after installing: {}", left.join(" ")),
    }
}

/// The packages of all tools that are not found, each once.
fn missing_packages() -> Vec<&'static str> {
    let mut packages: Vec<&str> = TOOLS
        .iter()
        .filter(|tool| find(tool.program).is_none())
        .map(|tool| tool.package)
        .collect();
    packages.dedup();
    packages
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn programs_are_found_as_a_shell_would() {
        assert!(find("sh").is_some());
        assert!(find("no-such-program-anywhere").is_none());
    }
}
