//! Where figures come from: the machine, the versions, the commit. Names of hosts and of people
//! stay out of it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;
use xshell::{Shell, cmd};

/// What is kept beside the figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Environment {
    /// The day, in UTC.
    pub(super) date: String,
    /// What kind of machine it is: processors and architecture.
    pub(super) machine: String,
    processor: String,
    memory_kib: u64,
    kernel: String,
    load_average: String,
    commit: String,
    is_modified: bool,
    versions: Vec<(&'static str, String)>,
}

/// Looks at the machine and the tree, and at the versions of the compiler and of `programs`.
///
/// # Errors
/// Where one of the usual files or programs is missing.
pub(super) fn read(root: &Path, programs: &[&'static str]) -> Result<Environment> {
    let shell = Shell::new()?;
    shell.change_dir(root);
    let proc = |name: &str| {
        fs::read_to_string(Path::new("/proc").join(name))
            .with_context(|| format!("reading /proc/{name}"))
    };
    let processors = std::thread::available_parallelism()?;
    let release = proc("sys/kernel/osrelease")?;
    // What follows the version is the builder's own word.
    let kernel = release.split(['-', '\n']).next().unwrap_or_default();
    let version = |program: &'static str| -> Result<(&'static str, String)> {
        let text = cmd!(shell, "{program} --version").quiet().read()?;
        let first = text.lines().next().unwrap_or_default();
        Ok((program, first.to_owned()))
    };
    let programs = ["rustc"].iter().chain(programs).copied();
    Ok(Environment {
        date: cmd!(shell, "date -u +%F").quiet().read()?,
        machine: format!("{processors}cpu-{}", std::env::consts::ARCH),
        processor: line_value(&proc("cpuinfo")?, "model name").unwrap_or_default(),
        memory_kib: line_value(&proc("meminfo")?, "MemTotal")
            .and_then(|text| text.split_whitespace().next()?.parse().ok())
            .context("/proc/meminfo has no MemTotal")?,
        kernel: kernel.to_owned(),
        load_average: proc("loadavg")?.trim().to_owned(),
        commit: cmd!(shell, "git rev-parse HEAD").quiet().read()?,
        is_modified: !cmd!(shell, "git status --porcelain")
            .quiet()
            .read()?
            .is_empty(),
        versions: programs.map(version).collect::<Result<_>>()?,
    })
}

/// The rest of the first line that begins with `key`, behind its colon.
fn line_value(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_owned())
    })
}

impl Environment {
    /// As a JSON object, with how the figures were taken.
    ///
    /// # Errors
    /// Never in practice: everything in it is text and numbers.
    pub(super) fn to_json(&self, command: &str, repeats: usize, seconds: f64) -> Result<String> {
        let versions: serde_json::Map<_, _> = self
            .versions
            .iter()
            .map(|(program, version)| ((*program).to_owned(), json!(version)))
            .collect();
        let value = json!({
            "date": self.date,
            "machine": self.machine,
            "processor": self.processor,
            "memory_kib": self.memory_kib,
            "kernel": self.kernel,
            "load_average_at_end": self.load_average,
            "commit": self.commit,
            "modified": self.is_modified,
            "versions": versions,
            "command": command,
            "repeats": repeats,
            "seconds": seconds,
        });
        Ok(serde_json::to_string_pretty(&value)? + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::line_value;

    #[test]
    fn values_of_lines() {
        let text = "model\t: 1\nmodel name\t: A chip\nMemTotal:  17 kB\n";
        assert_eq!(line_value(text, "model name").as_deref(), Some("A chip"));
        assert_eq!(line_value(text, "MemTotal").as_deref(), Some("17 kB"));
        assert_eq!(line_value(text, "SwapTotal"), None);
    }
}
