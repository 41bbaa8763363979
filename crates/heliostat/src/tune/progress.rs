//! What is said while points are run: a bar on a terminal, now and then a line elsewhere; on
//! standard error either way.

use std::io::{IsTerminal as _, Write as _, stderr};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use heliostat_bench::Progress;
use indicatif::{ProgressBar, ProgressStyle};

/// Where there is no terminal, somebody who waits wants to know this often that it goes on.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Steps of the bar per run.
const STEPS: f64 = 1000.0;

/// How far many runs are.
#[derive(Debug)]
pub(super) struct TuneProgress {
    began: Instant,
    /// How many runs there are at most.
    runs_max: usize,
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

impl TuneProgress {
    /// Nothing has been run.
    pub(super) fn begin(runs_max: usize) -> Self {
        let began = Instant::now();
        Self {
            began,
            runs_max,
            bar: stderr().is_terminal().then(|| bar(runs_max)),
            state: Mutex::new(State {
                running: Vec::new(),
                ended: 0,
                last_line: began,
            }),
        }
    }

    /// Something happened. Any thread may say so.
    pub(super) fn on(&self, progress: Progress) {
        let mut state = self.state.lock().expect("nobody panics while holding it");
        match progress {
            Progress::Began(run) => state.running.push((run, 0.0)),
            Progress::Passed(run, share) => {
                let running = state.running.iter_mut();
                if let Some(entry) = running.into_iter().find(|entry| entry.0 == run) {
                    entry.1 = share;
                }
            }
            Progress::Ended(run) => {
                state.running.retain(|entry| entry.0 != run);
                state.ended += 1;
            }
        }
        let shares = state.running.iter().map(|(_, share)| share);
        let done = state.ended as f64 + shares.sum::<f64>();
        if let Some(bar) = &self.bar {
            bar.set_position(steps(done));
        } else if state.last_line.elapsed() >= LINE_EVERY {
            state.last_line = Instant::now();
            let most = self.runs_max;
            let percent = done / most.max(1) as f64 * 100.0;
            say(&format!(
                "tune: {} of {most} runs, {percent:.0} %",
                state.ended
            ));
        }
    }

    /// All is done: the bar goes, or a line tells how long it took.
    pub(super) fn finish(self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
            return;
        }
        let seconds = self.began.elapsed().as_secs_f64();
        let ended = self.state.lock().map_or(0, |state| state.ended);
        say(&format!("tune: {ended} runs in {seconds:.1} s"));
    }
}

fn say(line: &str) {
    // Whoever closed standard error does not want to know.
    drop(writeln!(stderr(), "{line}"));
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
    let style = ProgressStyle::with_template("tune [{bar:24}] {percent} % {elapsed}")
        .expect("the template is well formed")
        .progress_chars("=> ");
    let bar = ProgressBar::new(steps(runs as f64)).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
