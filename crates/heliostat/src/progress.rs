//! What is said while runs run: a bar on a terminal, now and then a line elsewhere; on standard
//! error either way, so that results can be piped.

use std::io::{IsTerminal as _, Write as _, stderr};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use heliostat_bench::{Progress, Run};
use indicatif::{ProgressBar, ProgressStyle};

/// Where there is no terminal, somebody who waits wants to know this often that it goes on.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Steps of the bar per run.
const STEPS: f64 = 1000.0;

/// How far many runs are.
#[derive(Debug)]
pub(crate) struct RunProgress {
    /// The command that runs them.
    command: &'static str,
    /// How many there are at most.
    runs_max: usize,
    /// What each is called; empty where nobody is told.
    names: Vec<String>,
    /// Whether a line is said of each that ends.
    says_each: bool,
    began: Instant,
    /// Present on a terminal.
    bar: Option<ProgressBar>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The runs that are running, with the share of each that is done, from 0 to 1.
    running: Vec<(usize, f64)>,
    ended: usize,
    last_line: Instant,
}

impl RunProgress {
    /// Nothing was run yet of so many runs at most.
    pub(crate) fn begin(command: &'static str, runs_max: usize) -> Self {
        let began = Instant::now();
        Self {
            command,
            runs_max,
            names: Vec::new(),
            says_each: false,
            began,
            bar: stderr().is_terminal().then(|| bar(command, runs_max)),
            state: Mutex::new(State {
                running: Vec::new(),
                ended: 0,
                last_line: began,
            }),
        }
    }

    /// Nothing was run yet of these; `says_each` wants a line for each that ends.
    pub(crate) fn begin_named(command: &'static str, runs: &[Run], says_each: bool) -> Self {
        let name = |run: &Run| format!("{} under {}", run.scenario.name, run.contender);
        Self {
            names: runs.iter().map(name).collect(),
            says_each,
            ..Self::begin(command, runs.len())
        }
    }

    /// Something happened. Any thread may say so.
    pub(crate) fn on(&self, progress: Progress) {
        let mut state = self.state.lock().expect("nobody panics while holding it");
        match progress {
            Progress::Began(run) => {
                state.running.push((run, 0.0));
                if let (Some(bar), Some(name)) = (&self.bar, self.names.get(run)) {
                    bar.set_message(name.clone());
                }
            }
            Progress::Passed(run, share) => {
                if let Some(entry) = state.running.iter_mut().find(|entry| entry.0 == run) {
                    entry.1 = share;
                }
            }
            Progress::Ended(run) => {
                state.running.retain(|entry| entry.0 != run);
                state.ended += 1;
                if let (true, Some(name)) = (self.says_each, self.names.get(run)) {
                    self.say(&format!("{name}: done"));
                }
            }
        }
        let shares = state.running.iter().map(|(_, share)| share);
        let done = state.ended as f64 + shares.sum::<f64>();
        if let Some(bar) = &self.bar {
            bar.set_position(steps(done));
        } else if state.last_line.elapsed() >= LINE_EVERY {
            state.last_line = Instant::now();
            let Self {
                command, runs_max, ..
            } = self;
            let percent = done / (*runs_max).max(1) as f64 * 100.0;
            let ended = state.ended;
            self.say(&format!(
                "{command}: {ended} of {runs_max} runs, {percent:.0} %"
            ));
        }
    }

    /// Does `show` with the bar out of the way.
    pub(crate) fn aside<T>(&self, show: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(show),
            None => show(),
        }
    }

    /// All is done: the bar goes, or a line tells how long it took.
    pub(crate) fn finish(self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
            return;
        }
        let seconds = self.began.elapsed().as_secs_f64();
        let ended = self.state.lock().map_or(0, |state| state.ended);
        let runs = if ended == 1 { "run" } else { "runs" };
        self.say(&format!(
            "{}: {ended} {runs} in {seconds:.1} s",
            self.command
        ));
    }

    fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            // Whoever closed standard error does not want to know.
            None => drop(writeln!(stderr(), "{line}")),
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative, and far below 2^53"
)]
fn steps(runs: f64) -> u64 {
    (runs * STEPS) as u64
}

fn bar(command: &'static str, runs: usize) -> ProgressBar {
    let template = "{prefix} [{bar:24}] {percent} % {elapsed} {wide_msg}";
    let style = ProgressStyle::with_template(template)
        .expect("the template is well formed")
        .progress_chars("=> ");
    let bar = ProgressBar::new(steps(runs as f64)).with_style(style);
    bar.set_prefix(command);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
