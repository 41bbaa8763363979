//! Judges a read policy beside all others. `cargo xtask sim matrix` runs it.
//!
//!     cargo run --release -p heliostat-bench --example matrix -- [OPTIONS]
//!
//! OPTIONS: `--policies A,B,C`, `--of NAME` (who is judged), `--cells A,B` (cells of these names,
//! or whose names have one of these parts), `--quick` (a few cells), `--seeds N`, `--save DIR`,
//! `--strict` (fail where a target is missed), `-j N`; `--list` names the cells, `--show CELL`
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
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use heliostat_bench::Contender;
use heliostat_bench::matrix::{
    Cell, Judged, Matrix, cell_line, csv, head_line, target_lines, targets, write_matrix_report,
};

/// What was asked for.
struct Wanted {
    matrix: Matrix,
    threads: usize,
    is_strict: bool,
    save: Option<String>,
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
    let cell = Cell::all().find(|cell| cell.name() == name);
    let cell = cell.with_context(|| format!("no cell is called '{name}'; --list has them"))?;
    print!("{}", cell.text());
    Ok(())
}

fn wanted(options: &[&str]) -> Result<Wanted> {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (mut contenders, mut of) = (Contender::parse_list("all")?, Matrix::judged_policy());
    let (mut parts, mut is_quick, mut seeds) = (Vec::new(), false, 3);
    let (mut threads, mut is_strict, mut save) = (processors, false, None);
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
            "--seeds" => seeds = value()?.parse().context("--seeds")?,
            "--save" => save = Some((*value()?).to_owned()),
            "--strict" => is_strict = true,
            "-j" => threads = value()?.parse().context("-j")?,
            _ => bail!("there is no option {option}"),
        }
    }
    if !contenders.contains(&of) {
        contenders.push(of.clone());
    }
    let is_whole = |part: &str| Cell::all().any(|cell| cell.name() == part);
    let is_named = |cell: &Cell| {
        let name = cell.name();
        let is_meant = |part: &String| name == *part || (!is_whole(part) && name.contains(part));
        parts.is_empty() || parts.iter().any(is_meant)
    };
    let cells = Cell::all().filter(|cell| is_named(cell) && (!is_quick || cell.is_quick()));
    let cells: Vec<Cell> = cells.collect();
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
        command,
    })
}

/// The command that gives the same figures: where they go and who waits for them is left out.
fn command(options: &[&str]) -> String {
    let mut words = vec!["cargo xtask sim matrix"];
    let mut options = options.iter();
    while let Some(&option) = options.next() {
        match option {
            "-j" | "--save" => drop(options.next()),
            "--strict" => {}
            _ => words.push(option),
        }
    }
    words.join(" ")
}

/// Whether all targets are met, where that matters.
fn judge(wanted: &Wanted) -> Result<bool> {
    let matrix = &wanted.matrix;
    let began = Instant::now();
    let count = matrix.cells.len();
    eprintln!(
        "{count} cells under {} policies with {} seeds on {} threads",
        matrix.contenders.len(),
        matrix.seeds,
        wanted.threads
    );
    println!("{}", head_line(&matrix.of.to_string()));
    let mut judged: Vec<Judged> = Vec::new();
    let told = Mutex::new(Instant::now());
    matrix.run(wanted.threads, &|_| (), |cell| {
        println!("{}", cell_line(&cell));
        judged.push(cell);
        let (done, passed) = (judged.len(), began.elapsed().as_secs_f64());
        let left = passed / done as f64 * (count - done) as f64;
        let mut told = told.lock().expect("nobody panics with it");
        if told.elapsed().as_secs() >= 10 {
            *told = Instant::now();
            eprintln!("{done} of {count} cells after {passed:.0} s, {left:.0} s to go");
        }
        ControlFlow::Continue(())
    })?;
    eprintln!("{:.0} s", began.elapsed().as_secs_f64());
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
    Ok(!wanted.is_strict || targets.iter().all(|target| target.is_met()))
}
