//! `heliostat sim --trace`: every decision of one run, as it is made.

use std::fs::File;
use std::io::{self, BufWriter, Write, stdout};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::Context as _;
use heliostat_bench::{Decision, Listener};
use heliostat_runtime::UsageError;
use heliostat_sim::bound;
use heliostat_types::Instant;

use super::{Planned, failure_text, print_json};

/// Where decisions go.
struct Sink {
    out: Box<dyn Write + Send>,
    json: bool,
    /// What went wrong with it; nothing more is written then.
    error: Option<io::Error>,
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
    let sink = Arc::new(Mutex::new(Sink {
        out: Box::new(BufWriter::new(out)),
        json,
        error: None,
    }));
    let stop = Arc::new(AtomicBool::new(false));
    let measured_from = Instant::ZERO + planned.run.scenario.warmup_seconds;
    let (told, stopper) = (Arc::clone(&sink), Arc::clone(&stop));
    let tell = move |decision: Decision<'_>| {
        let mut sink = told.lock().expect("nobody panics while holding it");
        sink.write(&decision);
        if sink.error.is_none() {
            return ControlFlow::Continue(());
        }
        stopper.store(true, Ordering::Relaxed);
        ControlFlow::Break(())
    };
    let result = planned.run.run(
        |picker| Box::new(Listener::new(picker, measured_from, tell)),
        &stop,
        |_| (),
    );
    let mut sink = sink.lock().expect("nobody panics while holding it");
    let written = match sink.error.take() {
        Some(error) => Err(error),
        None => sink.out.flush(),
    };
    written.context("cannot write the trace")?;
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
        let written = if self.json {
            serde_json::to_writer(&mut self.out, &decision.to_json())
                .map_err(io::Error::from)
                .and_then(|()| writeln!(self.out))
        } else {
            writeln!(self.out, "{decision}")
        };
        self.error = written.err();
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
