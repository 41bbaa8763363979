//! `heliostat wait`, and `--wait` of other commands: until background work has ended.

use std::io::{Write as _, stderr};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::bail;
use heliostat_runtime::{ArrayStatus, EndedWork, ProgressLine};

use crate::cli::ControlArgs;
use crate::status::{ask, work_line};

/// How often the daemon is asked.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// What `heliostat wait` is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct WaitArgs {
    /// The array.
    name: String,
    #[command(flatten)]
    control: ControlArgs,
}

/// Somebody who waits. A line that is written anew shows how far the work is on a terminal, and one
/// line for each tenth elsewhere; on standard error.
pub(crate) struct Waiting<'a> {
    control: &'a ControlArgs,
    name: &'a str,
    /// The ends of jobs up to this number are no news.
    seen: u64,
    line: ProgressLine,
    /// Of which work the last line told, and how many tenths of it.
    told: Option<(String, u64)>,
    is_pause_told: bool,
    all_is_well: bool,
}

/// Waits for what is under way.
pub(crate) fn run(args: &WaitArgs) -> anyhow::Result<ExitCode> {
    Waiting::begin(&args.control, &args.name)?.until_idle()
}

impl<'a> Waiting<'a> {
    /// From now on, what ends is told.
    pub(crate) fn begin(control: &'a ControlArgs, name: &'a str) -> anyhow::Result<Self> {
        let status = ask(control, name)?;
        Ok(Self {
            control,
            name,
            seen: status.ended.last().map_or(0, |ended| ended.number),
            line: ProgressLine::new(),
            told: None,
            is_pause_told: false,
            all_is_well: true,
        })
    }

    /// Waits until nothing is done in the background. The exit code is 0 where all jobs that ended
    /// meanwhile have done all they had to, and no scrub has found legs that differ.
    pub(crate) fn until_idle(mut self) -> anyhow::Result<ExitCode> {
        loop {
            let status = ask(self.control, self.name)?;
            let news = status.ended.iter().filter(|ended| ended.number > self.seen);
            for ended in news.cloned().collect::<Vec<_>>() {
                self.tell_end(&ended);
            }
            let Some(work) = &status.background else {
                break;
            };
            if status.read_only {
                self.line.clear();
                bail!(
                    "{} is served read-only, and the {} goes on when it is served without that",
                    self.name,
                    work.kind
                );
            }
            self.show(&status);
            thread::sleep(ASK_EVERY);
        }
        self.line.clear();
        Ok(if self.all_is_well {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    fn tell_end(&mut self, ended: &EndedWork) {
        self.seen = ended.number;
        let is_left_different = ended.kind == "check" && ended.mismatch_sectors > 0;
        self.all_is_well &= ended.end == "done" && !is_left_different;
        self.line.clear();
        say(&format!("{}: {}", self.name, ended.text));
    }

    fn show(&mut self, status: &ArrayStatus) {
        let Some(work) = &status.background else {
            return;
        };
        if work.paused && !self.is_pause_told {
            self.is_pause_told = true;
            self.line.line(&format!(
                "{0}: the {1} is paused; 'heliostat scrub {0} resume' goes on with it",
                self.name, work.kind
            ));
        }
        self.is_pause_told &= work.paused;
        if self.line.is_terminal() {
            return self.line.show(self.name, work);
        }
        let now = (work.kind.clone(), work.percent() / 10);
        if self.told.as_ref() != Some(&now) {
            self.told = Some(now);
            say(&format!("{}: {}", self.name, work_line(work).trim_start()));
        }
    }
}

fn say(line: &str) {
    // Whoever closed standard error does not want to know.
    let _ = writeln!(stderr(), "{line}");
}
