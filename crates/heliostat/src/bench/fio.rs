//! How fio is started, and stopped.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};
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
pub(super) struct Fio {
    arguments: Vec<String>,
    /// A job file, where there is one.
    input: String,
}

/// How long each run takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) runtime_s: u32,
    pub(super) warmup_s: u32,
}

impl Fio {
    /// A job of a suite.
    pub(super) fn job(job: &Job, at: &At, times: Times) -> Self {
        let mut arguments = vec!["--output-format=json".to_owned(), "--eta=never".to_owned()];
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
        }
    }

    /// A job file as it is, but for where the data lie.
    pub(super) fn job_file(file: &JobFile, at: &At) -> Self {
        let (settings, but): (_, &[&str]) = match at {
            At::Nbd(_) => (place(at, false), &["ioengine", "direct", "buffered"]),
            At::File(path) => (vec![filename(path)], &[]),
        };
        Self {
            arguments: ["--output-format=json", "--eta=never", "-"]
                .map(str::to_owned)
                .into(),
            input: file.on(&settings, but),
        }
    }

    /// Writes a file full with what cannot be compressed.
    pub(super) fn fill(at: &At, size_bytes: u64) -> Self {
        let mut arguments = vec!["--output-format=json".to_owned(), "--eta=never".to_owned()];
        arguments.push("--name=fill".to_owned());
        arguments.extend(place(at, true).iter().map(|setting| format!("--{setting}")));
        arguments.extend(["--rw=write", "--bs=1M", "--end_fsync=1"].map(str::to_owned));
        arguments.push(format!("--size={size_bytes}"));
        Self {
            arguments,
            input: String::new(),
        }
    }

    /// For people, and their shells.
    pub(super) fn command(&self) -> String {
        let words: Vec<String> = self.arguments.iter().map(|word| shell_word(word)).collect();
        let command = format!("fio {}", words.join(" "));
        match self.input.is_empty() {
            true => command,
            false => format!("{command} <<'END'\n{}END", self.input),
        }
    }

    /// What it printed; nothing where a signal came first. It has ended in both cases.
    pub(super) fn run(&self, signals: &Signals) -> anyhow::Result<Option<Output>> {
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

/// Where the data lie and how they are reached, as settings.
fn place(at: &At, is_buffered: bool) -> Vec<String> {
    let words = |words: &[&str]| {
        words
            .iter()
            .map(|&word| word.to_owned())
            .collect::<Vec<_>>()
    };
    match at {
        At::Nbd(uri) => vec!["ioengine=nbd".to_owned(), format!("uri={uri}")],
        At::File(path) => {
            let mut settings = words(match is_buffered {
                true => &["ioengine=psync", "direct=0"],
                false => &["ioengine=libaio", "direct=1"],
            });
            settings.push("allow_file_create=0".to_owned());
            settings.push(filename(path));
            settings
        }
    }
}

/// fio splits names at colons.
fn filename(path: &std::path::Path) -> String {
    format!(
        "filename={}",
        path.display().to_string().replace(':', "\\:")
    )
}

fn await_end(child: Child, signals: &Signals) -> anyhow::Result<Option<Output>> {
    let pid = Pid::from_child(&child);
    let (sender, ended) = mpsc::channel();
    let waiter = thread::spawn(move || sender.send(child.wait_with_output()));
    let mut is_wanted = true;
    let output = loop {
        match ended.recv_timeout(if is_wanted { LOOK_EVERY } else { END_WITHIN }) {
            Err(RecvTimeoutError::Timeout) if is_wanted => {
                if signals.have_come()? {
                    is_wanted = false;
                    // It may have ended just now, which is as good.
                    let _ = kill_process(pid, Signal::INT);
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                let _ = kill_process(pid, Signal::KILL);
            }
            ended => break ended,
        }
    };
    waiter.join().ok();
    let output = output
        .context("nobody waits for fio")?
        .context("cannot wait for fio")?;
    Ok(is_wanted.then_some(output))
}

/// The version of the fio that is here.
pub(super) fn check(needs_nbd: bool) -> anyhow::Result<String> {
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
