//! Judges a read policy beside all others. `cargo xtask sim matrix` runs it.
//!
//!     cargo run --release -p heliostat-bench --example matrix -- [OPTIONS]
//!
//! OPTIONS: `--policies A,B,C`, `--of NAME` (who is judged), `--cells A,B` (cells of these names,
//! or whose names have one of these parts), `--quick` (a few cells), `--scheduler SPEC` (in front
//! of the legs), `--seeds N`, `--save DIR`,
//! `--strict` (fail where a target is missed), `--against FILE` (fail where something is worse than
//! in this `report.json`), `-j N`; `--list` names the cells, `--show CELL`
//! prints one as a scenario file.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it talks to whoever called it"
)]

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use heliostat_bench::matrix::{
    Cell, Judged, Matrix, Target, cell_line, csv, head_line, target_lines, targets, worse_than,
    write_matrix_report,
};
use heliostat_bench::{Contender, Progress};
use heliostat_scheduler::SchedulerSpec;

/// How often somebody who waits is told how far it is.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// What was asked for.
struct Wanted {
    matrix: Matrix,
    threads: usize,
    is_strict: bool,
    save: Option<String>,
    against: Option<String>,
    /// What makes a difference of the command line.
    command: String,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["--list"] => {
            for cell in Cell::all() {
                println!("{}", cell.name());
            }
            Ok(true)
        }
        ["--show", name] => show(name).map(|()| true),
        options => wanted(options).and_then(|wanted| judge(&wanted)),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::from(2)
        }
    }
}

fn show(name: &str) -> Result<()> {
    let cell = Cell::named(name);
    let cell = cell.with_context(|| format!("no cell is called '{name}'; --list has them"))?;
    print!("{}", cell.text());
    Ok(())
}

fn wanted(options: &[&str]) -> Result<Wanted> {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (mut contenders, mut of) = (Contender::parse_list("all")?, Matrix::judged_policy());
    let (mut parts, mut is_quick, mut seeds) = (Vec::new(), false, 3);
    let (mut threads, mut is_strict) = (processors, false);
    let mut scheduler = SchedulerSpec::None;
    let (mut save, mut against) = (None, None);
    let command = command(options);
    let mut options = options.iter();
    while let Some(&option) = options.next() {
        let mut value = || {
            options
                .next()
                .with_context(|| format!("{option}: of what?"))
        };
        match option {
            "--policies" => contenders = Contender::parse_list(value()?)?,
            "--of" => of = Contender::parse(value()?)?,
            "--cells" => parts = value()?.split(',').map(str::to_owned).collect(),
            "--quick" => is_quick = true,
            "--scheduler" => scheduler = SchedulerSpec::parse(value()?)?,
            "--seeds" => seeds = value()?.parse().context("--seeds")?,
            "--save" => save = Some((*value()?).to_owned()),
            "--strict" => is_strict = true,
            "--against" => against = Some((*value()?).to_owned()),
            "-j" => threads = value()?.parse().context("-j")?,
            _ => bail!("there is no option {option}"),
        }
    }
    if !contenders.contains(&of) {
        contenders.push(of.clone());
    }
    let is_whole = |part: &str| Cell::named(part).is_some();
    let is_named = |cell: &Cell| {
        let name = cell.name();
        let is_meant = |part: &String| name == *part || (!is_whole(part) && name.contains(part));
        parts.is_empty() || parts.iter().any(is_meant)
    };
    let cells = Cell::all().filter(|cell| is_named(cell) && (!is_quick || cell.is_quick()));
    let mut cells: Vec<Cell> = cells.collect();
    let unlisted = parts.iter().filter_map(|part| Cell::named(part));
    let is_listed = |cell: &Cell| Cell::all().any(|listed| listed.name() == cell.name());
    cells.extend(unlisted.filter(|cell| !is_quick && !is_listed(cell)));
    let cells: Vec<Cell> = cells
        .into_iter()
        .map(|cell| cell.under(scheduler))
        .collect();
    if cells.is_empty() || seeds == 0 {
        bail!("there is nothing to run; --list names the cells");
    }
    Ok(Wanted {
        matrix: Matrix {
            cells,
            contenders,
            of,
            seeds,
        },
        threads,
        is_strict,
        save,
        against,
        command,
    })
}

/// The command that gives the same figures: where they go and who waits for them is left out.
fn command(options: &[&str]) -> String {
    let mut words = vec!["cargo xtask sim matrix"];
    let mut options = options.iter();
    while let Some(&option) = options.next() {
        match option {
            "-j" | "--save" | "--against" => drop(options.next()),
            "--strict" => {}
            _ => words.push(option),
        }
    }
    words.join(" ")
}

/// How far it is, for whoever waits.
struct Progressing {
    began: Instant,
    told: Mutex<Instant>,
    count: usize,
    cells: AtomicUsize,
    runs: AtomicUsize,
}

impl Progressing {
    fn new(count: usize) -> Self {
        Self {
            began: Instant::now(),
            told: Mutex::new(Instant::now()),
            count,
            cells: AtomicUsize::new(0),
            runs: AtomicUsize::new(0),
        }
    }

    fn on(&self, event: Progress) {
        if !matches!(event, Progress::Ended(_)) {
            return;
        }
        let runs = self.runs.fetch_add(1, Ordering::Relaxed) + 1;
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.elapsed() < TELL_EVERY {
            return;
        }
        *told = Instant::now();
        let (cells, passed) = (self.cells.load(Ordering::Relaxed), self.began.elapsed());
        let left = match cells {
            0 => String::new(),
            _ => {
                let left = passed.as_secs_f64() / cells as f64 * (self.count - cells) as f64;
                format!(", about {left:.0} s to go")
            }
        };
        eprintln!(
            "{:.0} s: {cells} of {} cells, {runs} runs{left}",
            passed.as_secs_f64(),
            self.count
        );
    }
}

/// Whether all targets are met, where that matters.
fn judge(wanted: &Wanted) -> Result<bool> {
    let matrix = &wanted.matrix;
    let count = matrix.cells.len();
    eprintln!(
        "{count} cells under {} policies with {} seeds on {} threads",
        matrix.contenders.len(),
        matrix.seeds,
        wanted.threads
    );
    println!("{}", head_line(&matrix.of.to_string()));
    let mut judged: Vec<Judged> = Vec::new();
    let progress = Progressing::new(count);
    matrix.run(wanted.threads, &|event| progress.on(event), |cell| {
        println!("{}", cell_line(&cell));
        judged.push(cell);
        progress.cells.fetch_add(1, Ordering::Relaxed);
        ControlFlow::Continue(())
    })?;
    eprintln!("{:.0} s", progress.began.elapsed().as_secs_f64());
    let targets = targets(&judged);
    println!();
    for target in &targets {
        print!("{}", target_lines(target));
    }
    if let Some(directory) = &wanted.save {
        let directory = Path::new(directory);
        let page = write_matrix_report(directory, &judged, &targets, &wanted.command)?;
        fs::write(directory.join("cells.csv"), csv(&judged)).context("--save")?;
        eprintln!("see {}", page.display());
    }
    let mut is_well = !wanted.is_strict || targets.iter().all(Target::is_met);
    if let Some(file) = &wanted.against {
        let text = fs::read_to_string(file).with_context(|| file.clone())?;
        let earlier = serde_json::from_str(&text).with_context(|| file.clone())?;
        let worse = worse_than(&judged, &earlier).map_err(|text| anyhow!("{file}: {text}"))?;
        println!("\nworse than in {file}: {} figures", worse.len());
        for line in &worse {
            println!("    {line}");
        }
        is_well &= worse.is_empty();
    }
    Ok(is_well)
}
