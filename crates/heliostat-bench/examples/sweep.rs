//! Says how much depends on each number that the default policy goes by. `cargo xtask sim sweep`
//! runs it.
//!
//!     cargo run --release -p heliostat-bench --features sweep --example sweep -- [OPTIONS]
//!
//! OPTIONS: `--constants A,B` (names, with or without their module, or modules), `--cells A,B`,
//! `--factors A,B`, `--seeds N`, `--save DIR`, `-j N`; `--list` names the constants.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it talks to whoever called it"
)]

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use heliostat_bench::matrix::{Sweep, constant_line, sweep_head, sweep_summary, write_sweep};

/// Half and twice, and halfway there.
const FACTORS: &str = "0.5,0.71,1.41,2";

/// What was asked for.
struct Wanted {
    sweep: Sweep,
    threads: usize,
    save: Option<String>,
    /// What makes a difference of the command line.
    command: String,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["--list"] => list(),
        options => wanted(options).and_then(|wanted| play(&wanted)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::from(2)
        }
    }
}

fn list() -> Result<()> {
    for constant in Sweep::constants(&[])? {
        println!("{:28} {}", constant.name, constant.value);
    }
    Ok(())
}

fn wanted(options: &[&str]) -> Result<Wanted> {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (mut constants, mut cells, mut factors) = (Vec::new(), Vec::new(), list_of(FACTORS));
    let (mut seeds, mut threads, mut save) = (1, processors, None);
    let mut command = vec!["cargo xtask sim sweep"];
    let mut words = options.iter();
    while let Some(&option) = words.next() {
        let value = *words
            .next()
            .with_context(|| format!("{option}: of what?"))?;
        match option {
            "--constants" => constants = list_of(value),
            "--cells" => cells = list_of(value),
            "--factors" => factors = list_of(value),
            "--seeds" => seeds = value.parse().context("--seeds")?,
            "--save" => save = Some(value.to_owned()),
            "-j" => threads = value.parse().context("-j")?,
            _ => bail!("there is no option {option}"),
        }
        if !matches!(option, "--save" | "-j") {
            command.extend([option, value]);
        }
    }
    if seeds == 0 || factors.is_empty() {
        bail!("--seeds, --factors: at least one");
    }
    Ok(Wanted {
        sweep: Sweep {
            cells: Sweep::cells(&cells)?,
            constants: Sweep::constants(&constants)?,
            factors: Sweep::factors(&factors)?,
            seeds,
        },
        threads,
        save,
        command: command.join(" "),
    })
}

fn list_of(text: &str) -> Vec<&str> {
    text.split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect()
}

fn play(wanted: &Wanted) -> Result<()> {
    let sweep = &wanted.sweep;
    eprintln!(
        "{} constants at {} factors in {} cells with {} seeds on {} threads",
        sweep.constants.len(),
        sweep.factors.len(),
        sweep.cells.len(),
        sweep.seeds,
        wanted.threads
    );
    let began = Instant::now();
    println!("{}", sweep_head(sweep));
    let swept = sweep.run(wanted.threads, |constant| {
        println!("{}", constant_line(constant, sweep));
    })?;
    eprintln!("{:.0} s", began.elapsed().as_secs_f64());
    print!("\n{}", sweep_summary(&swept));
    if let Some(directory) = &wanted.save {
        let page = write_sweep(Path::new(directory), &swept, &wanted.command)?;
        eprintln!("see {}", page.display());
    }
    Ok(())
}
