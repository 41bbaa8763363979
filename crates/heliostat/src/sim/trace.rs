//! `heliostat sim --trace`: every decision of one run, as it is made.

use std::fs::File;
use std::io::{self, BufWriter, Write, stdout};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use anyhow::Context as _;
use heliostat_policy::{Decision, Listen, Listener};
use heliostat_runtime::{DecisionFigures, UsageError};
use heliostat_sim::bound;
use heliostat_types::Instant;

use super::{Planned, failure_text, print_json};

/// Where decisions go.
struct Sink {
    out: Box<dyn Write + Send>,
    json: bool,
    /// When measuring begins.
    measured_from: Instant,
    told: u64,
    /// What went wrong with it; nothing more is written then, and the run is stopped.
    error: Option<io::Error>,
    stop: Arc<AtomicBool>,
}

/// A sink that outlives the policy whose decisions go there.
struct SharedSink(Arc<Mutex<Sink>>);

impl SharedSink {
    fn sink(&self) -> MutexGuard<'_, Sink> {
        self.0.lock().expect("nobody panics while holding it")
    }
}

impl Listen for SharedSink {
    fn is_on(&self) -> bool {
        self.sink().error.is_none()
    }

    fn on_decision(&mut self, decision: &Decision<'_>) {
        self.sink().write(decision);
    }
}

/// Runs the only one of `runs` and writes down its decisions in `file`, or on standard output.
pub(super) fn run(runs: &[Planned], file: Option<&Path>, json: bool) -> anyhow::Result<ExitCode> {
    let [planned] = runs else {
        let text = format!(
            "--trace takes one scenario and one policy, and these are {} runs; name one with \
             --policies",
            runs.len()
        );
        return Err(UsageError(text).into());
    };
    let out: Box<dyn Write + Send> = match file {
        Some(file) => Box::new(create(file)?),
        None => Box::new(stdout()),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let sink = SharedSink(Arc::new(Mutex::new(Sink {
        out: Box::new(BufWriter::new(out)),
        json,
        measured_from: Instant::ZERO + planned.run.scenario.warmup_seconds,
        told: 0,
        error: None,
        stop: Arc::clone(&stop),
    })));
    let told = SharedSink(Arc::clone(&sink.0));
    let result = planned.run.run(
        |picker| Box::new(Listener::new(picker, told)),
        &stop,
        |_| (),
    );
    let mut sink = sink.sink();
    let written = match sink.error.take() {
        Some(error) => Err(error),
        None => sink.out.flush(),
    };
    written.with_context(|| match file {
        Some(file) => format!("cannot write the trace to {}", file.display()),
        None => "cannot write the trace".to_owned(),
    })?;
    let result = result
        .transpose()
        .map_err(|error| anyhow::anyhow!(failure_text(planned, &error)))?;
    if let Some(result) = result {
        if json {
            let bound = bound(&planned.run.scenario).ok().map(|bound| bound.total);
            print_json(&result, bound.as_ref())?;
        } else if file.is_some() {
            writeln!(stdout(), "trace hash {:016x}", result.trace_hash)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl Sink {
    fn write(&mut self, decision: &Decision<'_>) {
        let decision = DecisionFigures::new(self.told, self.measured_from, decision);
        self.told += 1;
        let written = if self.json {
            serde_json::to_writer(&mut self.out, &decision)
                .map_err(io::Error::from)
                .and_then(|()| writeln!(self.out))
        } else {
            writeln!(self.out, "{decision}")
        };
        self.error = written.err();
        if self.error.is_some() {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// A new file for the trace. A scenario is not overwritten: it was meant to be run.
fn create(file: &Path) -> anyhow::Result<File> {
    if file
        .extension()
        .is_some_and(|extension| extension == "toml")
    {
        let text = format!(
            "--trace {}: that is the name of a scenario; put --trace behind the scenarios, or name \
             another file",
            file.display()
        );
        return Err(UsageError(text).into());
    }
    File::create(file).with_context(|| format!("cannot write {}", file.display()))
}
