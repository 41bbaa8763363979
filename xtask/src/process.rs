//! Running programs that are not ours to trust: each within a time limit, none left behind.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::num::NonZero;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

/// How often something outside is looked at that cannot be waited for.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// How long a program that was killed may take to be gone; then the kernel holds it.
const KILL_TIME_MAX: Duration = Duration::from_secs(10);

/// How many programs that compute run at once.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Works on all items, on so many at once at most, beginning in their order. Outcomes are in the
/// order of the items, whichever ended first.
pub(crate) fn side_by_side<Item: Send, Outcome: Send>(
    workers: usize,
    items: Vec<Item>,
    work: impl Fn(Item) -> Outcome + Sync,
) -> Vec<Outcome> {
    let workers = workers.min(items.len());
    let left = Mutex::new(items.into_iter().enumerate());
    let next = || left.lock().expect("nobody panics with it").next();
    let work = |(index, item)| (index, work(item));
    let worker = || std::iter::from_fn(next).map(&work).collect::<Vec<_>>();
    let mut ended: Vec<(usize, Outcome)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        let ended = workers.into_iter().map(|worker| worker.join());
        ended
            .flat_map(|ended| ended.expect("no work panics"))
            .collect()
    });
    ended.sort_by_key(|(index, _)| *index);
    ended.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Looks at `is_done` until it says yes.
///
/// # Errors
/// Where that takes longer than `limit`, or `is_done` fails.
pub(crate) fn wait_until(
    what: &str,
    limit: Duration,
    mut is_done: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let start = Instant::now();
    while !is_done()? {
        if start.elapsed() > limit {
            bail!("waited {limit:?} for {what}");
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

/// A command that is killed after `limit`, with everything that it started, and then exits with
/// 124 or 137.
pub(crate) fn limited(limit: Duration, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("timeout");
    command
        .arg("--kill-after=5")
        .arg(format!("{}", limit.as_secs_f64()))
        .arg(program)
        .stdin(Stdio::null());
    command
}

/// What a program said.
#[derive(Debug)]
pub(crate) struct Said {
    /// How it ended.
    pub(crate) status: ExitStatus,
    /// Its standard output.
    pub(crate) stdout: String,
    /// Its standard error.
    pub(crate) stderr: String,
}

/// Runs a command to its end, whatever that is.
///
/// # Errors
/// Where it cannot be started.
pub(crate) fn listen(command: &mut Command) -> Result<Said> {
    let output = command
        .output()
        .with_context(|| format!("starting {command:?}"))?;
    Ok(Said {
        status: output.status,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// Runs a command that has to succeed, and gives its standard output.
///
/// # Errors
/// Where it fails; the error has what it said.
pub(crate) fn succeed(command: &mut Command) -> Result<String> {
    let said = listen(command)?;
    if !said.status.success() {
        let (out, err) = (end_of(&said.stdout), end_of(&said.stderr));
        bail!("{command:?} ended with {}\n{out}\n{err}", said.status);
    }
    Ok(said.stdout)
}

/// The last lines of a text: enough to see what went wrong.
pub(crate) fn end_of(text: &str) -> String {
    /// A screen holds them.
    const LINES_MAX: usize = 40;
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES_MAX)..].join("\n")
}

/// A program in the background; killed and waited for when dropped.
#[derive(Debug)]
pub(crate) struct Background {
    child: Child,
    name: String,
    log: PathBuf,
}

impl Background {
    /// Starts a command whose output goes to the file `log`.
    ///
    /// # Errors
    /// Where the log or the process cannot be had.
    pub(crate) fn start(command: &mut Command, log: &Path) -> Result<Self> {
        let file = File::create(log).with_context(|| format!("creating {}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("starting {command:?}"))?;
        Ok(Self {
            child,
            name: format!("{}", command.get_program().display()),
            log: log.to_owned(),
        })
    }

    /// Waits until clients can connect to the unix socket that it listens on.
    ///
    /// # Errors
    /// Where that takes longer than `limit`, or it ends instead; the error has what it said.
    pub(crate) fn wait_for_socket(&mut self, socket: &Path, limit: Duration) -> Result<()> {
        wait_until(&format!("{} to listen", self.name), limit, || {
            if !self.is_running()? {
                bail!("{} ended: {}", self.name, self.said()?);
            }
            Ok(UnixStream::connect(socket).is_ok())
        })
    }

    /// Waits until it has made a file, such as a control file, which comes after its socket.
    ///
    /// # Errors
    /// Where it ends before, or takes too long.
    pub(crate) fn wait_for_file(&mut self, file: &Path, limit: Duration) -> Result<()> {
        wait_until(&format!("{} to make a file", self.name), limit, || {
            if !self.is_running()? {
                bail!("{} ended: {}", self.name, self.said()?);
            }
            Ok(file.exists())
        })
    }

    /// What it said so far, on standard output and standard error.
    ///
    /// # Errors
    /// Where its log cannot be read.
    pub(crate) fn said(&self) -> Result<String> {
        let bytes = fs::read(&self.log)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has not ended yet.
    ///
    /// # Errors
    /// Where the kernel does not say.
    pub(crate) fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// Where it has ended already.
    pub(crate) fn signal(&mut self, signal: Signal) -> Result<()> {
        if !self.is_running()? {
            bail!("{} has ended already", self.name);
        }
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        kill_process(pid.context("a process id is positive")?, signal)?;
        Ok(())
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// Where that takes longer than `limit`.
    pub(crate) fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        let what = format!("{} to end", self.name);
        wait_until(&what, limit, || Ok(!self.is_running()?))?;
        Ok(self.child.wait()?)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // SIGTERM first: `timeout` passes it on, and FUSE servers unmount.
        if self.signal(Signal::TERM).is_ok() && self.wait(KILL_TIME_MAX).is_err() {
            let _ = self.signal(Signal::KILL);
            if self.wait(KILL_TIME_MAX).is_err() {
                eprintln!("{} (process {}) does not end", self.name, self.pid());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::{Mutex, mpsc};
    use std::time::Duration;

    use super::{limited, listen, side_by_side, succeed};

    #[test]
    fn what_a_program_says_is_kept() {
        let said = listen(Command::new("sh").args(["-c", "echo a; echo b >&2; exit 3"])).unwrap();
        assert_eq!(said.stdout, "a\n");
        assert_eq!(said.stderr, "b\n");
        assert_eq!(said.status.code(), Some(3));
    }

    #[test]
    fn failure_tells_what_was_said() {
        let error = succeed(Command::new("sh").args(["-c", "echo broken; exit 1"])).unwrap_err();
        assert!(error.to_string().contains("broken"), "{error}");
    }

    #[test]
    fn outcomes_are_in_the_order_of_their_items() {
        let (end, ended) = mpsc::channel();
        let (end, ended) = (Mutex::new(end), Mutex::new(ended));
        let outcomes = side_by_side(2, vec!["first", "last"], |item| {
            match item {
                "first" => ended.lock().unwrap().recv().unwrap(),
                _ => end.lock().unwrap().send(()).unwrap(),
            }
            item
        });
        assert_eq!(outcomes, ["first", "last"]);
        assert!(side_by_side(2, Vec::<u8>::new(), |item| item).is_empty());
    }

    #[test]
    fn programs_that_hang_are_ended() {
        let limit = Duration::from_millis(50);
        let said = listen(limited(limit, "sleep").arg("600")).unwrap();
        assert_eq!(said.status.code(), Some(124));
    }
}
