//! `heliostat serve` as a test runs it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use super::room::Room;
use crate::process::{self, Background, Said};

/// What every served array is called.
pub(crate) const NAME: &str = "disk";

/// How long a server may take until it listens.
const START_TIME_MAX: Duration = Duration::from_secs(20);

/// How long a server may take to stop: 10 s by its own promise, and some for the machine.
const STOP_TIME_MAX: Duration = Duration::from_secs(12);

/// How long a command to a running server may take.
const CONTROL_TIME_MAX: Duration = Duration::from_secs(15);

/// How long a server may take until it calls its legs clean: 200 ms, and what flushing takes.
const CLEAN_TIME_MAX: Duration = Duration::from_secs(30);

/// A running server.
#[derive(Debug)]
pub(crate) struct Server<'a> {
    process: Background,
    room: &'a Room,
}

impl<'a> Server<'a> {
    /// Serves `legs`, and returns when clients can connect and it has said so.
    ///
    /// # Errors
    /// Where it does not come up; the error has what it said.
    pub(crate) fn start(room: &'a Room, legs: &[String], options: &[&str]) -> Result<Self> {
        Self::begin_with(room, arguments(room, NAME, serving(legs), options))
    }

    /// Emulates a drive in the same way.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub(crate) fn emulate(room: &'a Room, model: &str, options: &[&str]) -> Result<Self> {
        let emulated = vec!["emulate".to_owned(), model.to_owned()];
        Self::begin_with(room, arguments(room, NAME, emulated, options))
    }

    fn begin_with(room: &'a Room, arguments: Vec<String>) -> Result<Self> {
        let log = (0..)
            .map(|number| room.path(&format!("serve-{number}.log")))
            .find(|path| !path.exists())
            .context("numbers do not end")?;
        let mut command = Command::new(&room.program);
        command.args(arguments);
        let mut process = Background::start(&mut command, &log)?;
        process.wait_for_socket(&socket(room, NAME), START_TIME_MAX)?;
        let server = Self { process, room };
        // It listens before it has told all that there is to tell of a start.
        process::wait_until("the server to say so", START_TIME_MAX, || {
            let said = server.said()?;
            let mut lines = said.lines();
            Ok(lines.any(|line| line.contains("serving ") && line.contains(" at ")))
        })?;
        Ok(server)
    }

    /// Tries to serve `legs` under another name, which has to fail with exit code 1, and gives what
    /// it said.
    ///
    /// # Errors
    /// Where it serves, or fails in another way.
    pub(crate) fn refused(room: &Room, legs: &[String], options: &[&str]) -> Result<String> {
        Self::refused_with(1, room, &serving(legs), options)
    }

    /// The same, where the command line makes no sense.
    ///
    /// # Errors
    /// Where it does not end with exit code 2.
    pub(crate) fn misused(room: &Room, legs: &[String], options: &[&str]) -> Result<String> {
        Self::refused_with(2, room, &serving(legs), options)
    }

    /// Tries to emulate a drive under another name, which has to end with this exit code, and gives
    /// what it said.
    ///
    /// # Errors
    /// Where it ends in another way.
    pub(crate) fn emulation_refused(
        code: i32,
        room: &Room,
        model: &str,
        options: &[&str],
    ) -> Result<String> {
        let emulated = ["emulate".to_owned(), model.to_owned()];
        Self::refused_with(code, room, &emulated, options)
    }

    fn refused_with(code: i32, room: &Room, words: &[String], options: &[&str]) -> Result<String> {
        let mut command = process::limited(START_TIME_MAX, &room.program);
        let arguments = arguments(room, "other", words.to_vec(), options);
        let Said {
            status,
            stdout,
            stderr,
        } = process::listen(command.args(arguments))?;
        ensure!(
            status.code() == Some(code),
            "it should have ended with exit code {code}, not {status}: {stdout}{stderr}"
        );
        Ok(stderr)
    }

    /// Where clients connect to.
    pub(crate) fn uri(&self) -> String {
        uri(self.room, NAME)
    }

    /// What it said so far.
    ///
    /// # Errors
    /// Where its log cannot be read.
    pub(crate) fn said(&self) -> Result<String> {
        self.process.said()
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Runs a command of the program against this server, whatever becomes of it.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub(crate) fn listen(&self, arguments: &[&str]) -> Result<Said> {
        let mut command = process::limited(CONTROL_TIME_MAX, &self.room.program);
        let control = control_directory(self.room);
        process::listen(command.args(arguments).args(["--control-dir", &control]))
    }

    /// Begins a command of the program against this server, whose output goes to the file `log`.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub(crate) fn begin(&self, arguments: &[&str], log: &Path) -> Result<Background> {
        let mut command = Command::new(&self.room.program);
        let control = control_directory(self.room);
        Background::start(
            command.args(arguments).args(["--control-dir", &control]),
            log,
        )
    }

    /// Runs a command of the program against this server that has to succeed.
    ///
    /// # Errors
    /// Where it fails.
    pub(crate) fn control(&self, arguments: &[&str]) -> Result<String> {
        let said = self.listen(arguments)?;
        ensure!(
            said.status.success(),
            "heliostat {} ended with {}: {}",
            arguments.join(" "),
            said.status,
            said.stderr
        );
        Ok(said.stdout)
    }

    /// Waits until nothing was written for so long that its legs are called equal.
    ///
    /// # Errors
    /// Where that takes too long.
    pub(super) fn wait_until_clean(&self) -> Result<()> {
        process::wait_until("the array to be clean", CLEAN_TIME_MAX, || {
            let text = self.control(&["stats", NAME, "--json"])?;
            Ok(text.contains("\"dirty\":false"))
        })
    }

    /// Stops it as an administrator does, and says how long that took.
    ///
    /// # Errors
    /// Where it had ended before, takes too long, or does not exit with 0.
    pub(crate) fn terminate(mut self) -> Result<Duration> {
        let start = Instant::now();
        self.process.signal(Signal::TERM)?;
        let status = self.process.wait(STOP_TIME_MAX)?;
        ensure!(status.success(), "stopped with {status}: {}", self.said()?);
        Ok(start.elapsed())
    }

    /// Ends it without a chance to do anything.
    ///
    /// # Errors
    /// Where it had ended before.
    pub(crate) fn kill(mut self) -> Result<()> {
        self.process.signal(Signal::KILL)?;
        self.process.wait(STOP_TIME_MAX)?;
        Ok(())
    }
}

/// `serve` and its legs.
fn serving(legs: &[String]) -> Vec<String> {
    [&["serve".to_owned()], legs].concat()
}

/// The command line that begins with these words.
fn arguments(room: &Room, name: &str, words: Vec<String>, options: &[&str]) -> Vec<String> {
    let mut arguments = words;
    arguments.extend(options.iter().map(ToString::to_string));
    arguments.extend(["--control-dir".to_owned(), control_directory(room)]);
    if !options.contains(&"--control-files") {
        arguments.extend(["--control-files", "off"].map(str::to_owned));
    }
    arguments.extend(["--export".to_owned(), uri(room, name)]);
    arguments
}

pub(super) fn control_directory(room: &Room) -> String {
    room.path_text("control")
}

fn socket(room: &Room, name: &str) -> PathBuf {
    room.path(&format!("{name}.sock"))
}

fn uri(room: &Room, name: &str) -> String {
    format!("nbd+unix:///{name}?socket={}", socket(room, name).display())
}
