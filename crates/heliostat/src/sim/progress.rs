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
pub(super) struct RunProgress {
    names: Vec<String>,
    says_each: bool,
    began: Instant,
    /// Present on a terminal.
    bar: Option<ProgressBar>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Share of each run, from 0 to 1.
    shares: Vec<f64>,
    ended: usize,
    last_line: Instant,
}

impl RunProgress {
    /// Nothing of `runs` has been run; `says_each` wants a line for each that ends.
    pub(super) fn begin(runs: &[Run], says_each: bool) -> Self {
        let name = |run: &Run| format!("{} under {}", run.scenario.name, run.contender);
        let names = runs.iter().map(name);
        let began = Instant::now();
        Self {
            names: names.collect(),
            says_each,
            began,
            bar: stderr().is_terminal().then(|| bar(runs.len())),
            state: Mutex::new(State {
                shares: vec![0.0; runs.len()],
                ended: 0,
                last_line: began,
            }),
        }
    }

    /// Something happened. Any thread may say so.
    pub(super) fn on(&self, progress: Progress) {
        let mut state = self.state.lock().expect("nobody panics while holding it");
        match progress {
            Progress::Began(index) => {
                if let Some(bar) = &self.bar {
                    bar.set_message(self.names[index].clone());
                }
            }
            Progress::Passed(index, share) => state.shares[index] = share,
            Progress::Ended(index) => {
                state.shares[index] = 1.0;
                state.ended += 1;
                if self.says_each {
                    self.say(&format!("{}: done", self.names[index]));
                }
            }
        }
        let done: f64 = state.shares.iter().sum();
        if let Some(bar) = &self.bar {
            bar.set_position(steps(done));
        } else if state.last_line.elapsed() >= LINE_EVERY {
            state.last_line = Instant::now();
            let count = self.names.len();
            let percent = done / count as f64 * 100.0;
            self.say(&format!(
                "sim: {} of {count} runs, {percent:.0} %",
                state.ended
            ));
        }
    }

    /// Does `show` with the bar out of the way.
    pub(super) fn aside<T>(&self, show: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(show),
            None => show(),
        }
    }

    /// All is done: the bar goes, and a line tells how long it took.
    pub(super) fn finish(self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
            return;
        }
        let seconds = self.began.elapsed().as_secs_f64();
        let ended = self.state.lock().map_or(0, |state| state.ended);
        let runs = if ended == 1 { "run" } else { "runs" };
        self.say(&format!("sim: {ended} {runs} in {seconds:.1} s"));
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

fn bar(runs: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("sim [{bar:24}] {percent} % {elapsed} {wide_msg}")
        .expect("the template is well formed")
        .progress_chars("=> ");
    let bar = ProgressBar::new(steps(runs as f64)).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
