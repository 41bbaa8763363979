//! How fio is started, and stopped.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use heliostat_bench::live::{Job, JobFile};
use heliostat_runtime::{Signals, shell_word};
use rustix::process::{Pid, Signal, kill_process};

use super::target::At;

/// How often it is looked whether somebody wants an end.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long fio may take to end when it is told to, before it is killed.
const END_WITHIN: Duration = Duration::from_secs(5);

/// How to get one.
const INSTALL: &str = "install fio 3 ('apt install fio', 'dnf install fio')";

/// fio with everything that it is told.
#[derive(Debug)]
pub(crate) struct Fio {
    arguments: Vec<String>,
    /// A job file, where there is one.
    input: String,
    /// What the file is called here, and what it is called for people.
    name: Option<(String, String)>,
}

/// How long each run takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) runtime_s: u32,
    pub(crate) warmup_s: u32,
}

impl Fio {
    /// A job of a suite.
    pub(crate) fn job(job: &Job, at: &At, times: Times) -> Self {
        let mut arguments = arguments(job.writes);
        let settings = place(at, job.is_buffered);
        let settings = settings.iter().map(|setting| format!("--{setting}"));
        arguments.push("--name=global".to_owned());
        arguments.extend(settings);
        arguments.push(format!("--runtime={}", times.runtime_s));
        // What is read through the page cache is read once: what is read again is in memory.
        if !job.is_buffered {
            arguments.push("--time_based".to_owned());
            arguments.push(format!("--ramp_time={}", times.warmup_s));
        }
        arguments.extend(job.arguments());
        Self {
            arguments,
            input: String::new(),
            name: name_of(at),
        }
    }

    /// A job file as it is, but for where the data lie.
    pub(super) fn job_file(file: &JobFile, at: &At) -> Self {
        let mut settings = match at {
            At::Nbd(_) => place(at, false),
            At::File { path, .. } => vec![filename(path)],
        };
        // It would lie wherever this was started.
        settings
            .extend(["thread=1", "allow_file_create=0", "verify_state_save=0"].map(str::to_owned));
        let mut arguments = arguments(file.writes);
        arguments.push("-".to_owned());
        Self {
            arguments,
            input: file.on(&settings),
            name: name_of(at),
        }
    }

    /// Writes a file full with what cannot be compressed.
    pub(super) fn fill(at: &At, size_bytes: u64) -> Self {
        let mut arguments = arguments(true);
        arguments.push("--name=fill".to_owned());
        arguments.extend(place(at, true).iter().map(|setting| format!("--{setting}")));
        arguments.extend(["--rw=write", "--bs=1M", "--end_fsync=1"].map(str::to_owned));
        arguments.push(format!("--size={size_bytes}"));
        Self {
            arguments,
            input: String::new(),
            name: name_of(at),
        }
    }

    /// For people, and their shells.
    pub(super) fn command(&self) -> String {
        let shown = |text: &str| match &self.name {
            Some((here, shown)) => text.replace(here, shown),
            None => text.to_owned(),
        };
        let words = self.arguments.iter().map(|word| shell_word(&shown(word)));
        let command = format!("fio {}", words.collect::<Vec<String>>().join(" "));
        match self.input.is_empty() {
            true => command,
            false => format!("{command} <<'END'\n{}END", shown(&self.input)),
        }
    }

    /// What it printed; nothing where a signal came first. It has ended in both cases.
    pub(crate) fn run(&self, signals: &Signals) -> anyhow::Result<Option<Output>> {
        let mut command = Command::new("fio");
        Signals::leave_to(&mut command);
        let mut child = command
            .args(&self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A key pressed in a terminal is for us, who tell it.
            .process_group(0)
            .spawn()
            .context("cannot run fio")?;
        if let Some(mut input) = child.stdin.take() {
            // It may have ended already, and says itself why.
            let _ = input.write_all(self.input.as_bytes());
        }
        await_end(child, signals)
    }
}

/// What all are told. Where nothing is to be written, nothing is: fio would make a file that is
/// shorter than a job says anew.
fn arguments(writes: bool) -> Vec<String> {
    let mut arguments = vec!["--output-format=json".to_owned(), "--eta=never".to_owned()];
    if !writes {
        arguments.push("--readonly".to_owned());
    }
    arguments
}

/// A file is opened by what this process has open, which says little to people.
fn name_of(at: &At) -> Option<(String, String)> {
    match at {
        At::Nbd(_) => None,
        At::File { path, shown } => Some((filename(path), filename(shown))),
    }
}

/// Where the data lie and how they are reached, as settings. Jobs are threads, so that they end
/// with the process.
fn place(at: &At, is_buffered: bool) -> Vec<String> {
    let words = |words: &[&str]| {
        words
            .iter()
            .map(|&word| word.to_owned())
            .collect::<Vec<_>>()
    };
    match at {
        At::Nbd(uri) => {
            let mut settings = words(&["thread=1", "ioengine=nbd"]);
            settings.push(format!("uri={uri}"));
            settings
        }
        At::File { path, .. } => {
            let mut settings = words(match is_buffered {
                true => &["ioengine=psync", "direct=0"],
                false => &["ioengine=libaio", "direct=1"],
            });
            settings.extend(words(&["thread=1", "allow_file_create=0"]));
            settings.push(filename(path));
            settings
        }
    }
}

/// fio splits names at colons.
fn filename(path: &Path) -> String {
    format!(
        "filename={}",
        path.display().to_string().replace(':', "\\:")
    )
}

/// What it printed. Told to end, it is waited for, then killed, and waited for once more: a process
/// that waits for a device cannot be killed.
fn await_end(child: Child, signals: &Signals) -> anyhow::Result<Option<Output>> {
    let pid = Pid::from_child(&child);
    let (sender, ended) = mpsc::channel();
    // It ends with fio, and is left to itself where that does not end.
    thread::spawn(move || sender.send(child.wait_with_output()));
    let mut asked = [Signal::INT, Signal::KILL].into_iter();
    let mut is_wanted = true;
    let output = loop {
        match ended.recv_timeout(if is_wanted { LOOK_EVERY } else { END_WITHIN }) {
            Err(RecvTimeoutError::Timeout) if is_wanted && !signals.have_come()? => {}
            Err(RecvTimeoutError::Timeout) => {
                is_wanted = false;
                let Some(signal) = asked.next() else {
                    bail!(
                        "fio, process {pid}, does not end when it is killed: what it reads hangs"
                    );
                };
                // It may have ended just now, which is as good.
                let _ = kill_process(pid, signal);
            }
            ended => break ended,
        }
    };
    let output = output
        .context("nobody waits for fio")?
        .context("cannot wait for fio")?;
    Ok(is_wanted.then_some(output))
}

/// The version of the fio that is here.
pub(crate) fn check(needs_nbd: bool) -> anyhow::Result<String> {
    let ask = |option: &str| Command::new("fio").arg(option).output();
    let version = ask("--version").with_context(|| format!("cannot run fio: {INSTALL}"))?;
    let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
    ensure!(
        version.starts_with("fio-3."),
        "{version:?} is no fio 3: {INSTALL}"
    );
    if needs_nbd {
        let engines = ask("--enghelp").context("cannot run fio")?;
        let engines = String::from_utf8_lossy(&engines.stdout).into_owned();
        let has_nbd = engines.lines().any(|line| line.trim() == "nbd");
        ensure!(
            has_nbd,
            "{version} is built without its nbd engine (libnbd): {INSTALL} with it"
        );
    }
    Ok(version)
}
