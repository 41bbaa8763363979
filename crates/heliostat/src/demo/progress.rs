//! What long work says while it runs: a bar on a terminal, plain lines elsewhere; on standard error
//! either way, so that results can be piped.

use std::io::{IsTerminal as _, Write as _, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// A bar is drawn again this often although nothing was finished, so that its clock runs.
const TICK: Duration = Duration::from_millis(200);

/// One stretch of work with a known number of steps.
#[derive(Debug)]
pub(super) struct Progress {
    name: String,
    steps: usize,
    began: Instant,
    /// Present on a terminal.
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Begins a stretch of `steps` steps.
    pub(super) fn begin(name: &str, steps: usize) -> Self {
        Self {
            name: name.to_owned(),
            steps,
            began: Instant::now(),
            bar: stderr().is_terminal().then(|| bar(name, steps)),
        }
    }

    /// A stretch of which nobody is told.
    pub(super) fn silent() -> Self {
        Self {
            name: String::new(),
            steps: 0,
            began: Instant::now(),
            bar: None,
        }
    }

    /// Work on `what` begins. Any thread may say so.
    pub(super) fn working_on(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
        }
    }

    /// A step is done.
    pub(super) fn step(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// All is done: the bar goes, or a line tells how long it took.
    pub(super) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
            return;
        }
        let seconds = self.began.elapsed().as_secs_f64();
        // Whoever closed standard error does not want to know.
        let _ = writeln!(
            stderr(),
            "{}: {} runs in {seconds:.1} s",
            self.name,
            self.steps
        );
    }
}

fn bar(name: &str, steps: usize) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{prefix} [{bar:24}] {pos}/{len} {elapsed} {wide_msg}")
            .expect("the template is well formed")
            .progress_chars("=> ");
    let bar = ProgressBar::new(steps.try_into().expect("a count fits")).with_style(style);
    bar.set_prefix(name.to_owned());
    bar.enable_steady_tick(TICK);
    bar
}
