//! All automation of this repository, as `cargo xtask COMMAND`.
//!
//! One language, testable like the rest: no Makefile, no shell scripts beyond `.ci/run`. Nothing
//! here is linked into heliostat, and heliostat is driven only from outside, as its users do.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool talks to whoever called it"
)]

mod bench;
mod ci;
mod e2e;
mod fio;
mod fuzz;
mod kernel;
mod metadata;
mod process;
mod sim;
mod tidy;
mod tools;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use bench::Effort;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  ci [STEP...]         everything that a change must pass; with names, these steps alone
  bench nbd [--quick] [--save]
                       CPU time per request beside nbdkit and a QEMU quorum
  bench sim [--quick] [--save]
                       requests per second of the simulator, and virtual over real time
  bench arrays [--quick] [--save]
                       what a bitmap costs, and how soon an array is there
  bench peers [--arrays A,B] [--quick] [--save]
                       beside md in a guest, btrfs here and a QEMU quorum, on modelled drives
  e2e [TEST...]        end-to-end tests, driven by tools that are not ours; e2e --list
  fuzz smoke           every fuzz target for a short time
  fuzz TARGET [--seconds N]
                       one fuzz target, for 60 s where nothing else is said
  sim smoke [--seeds N] [--from SEED] [--doublecheck]
                       random scenarios: seeds that once showed a bug, and fresh ones
  sim soak [--seeds N] [--from SEED] [--minutes M] [--doublecheck] [--keep-going]
                       large random scenarios, until the end of these or until stopped
  sim matrix [--quick] [--of POLICY] [--cells NAMES] [--save DIR] [--strict]
                       a read policy beside all others; docs/matrix.md has all options
  sim week [--of POLICY] [--arrays NAMES] [--days N] [--strict]
                       the same in a week of changing loads and faults
  sim sweep [--constants NAMES] [--factors A,B] [--cells NAMES] [--seeds N] [--save DIR]
                       how much depends on each number that the default policy goes by
  sim planted          whether each checker of the simulator finds a bug that is there for it
  test kernel [--keep] [FILTER...]
                       the Linux kernel's md judges, in a guest; test kernel --list
  test kernel [--keep] --seed N [--cases N]
                       lives of arrays drawn by chance, from this seed on
  test kernel --shell [CASE]
                       a shell in such a guest, with the drives of a case
  tidy                 the house rules that no compiler checks
  tools                install the outside tools (as root), or say what to install
";

/// How long a fuzz target runs where nothing else is said: enough to see it move.
const FUZZ_TIME: Duration = Duration::from_secs(60);

/// What went wrong, as far as the exit code is concerned.
enum Failure {
    /// The command line makes no sense.
    Usage(String),
    /// The work was done and failed.
    Work(anyhow::Error),
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Work(error)
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(text)) => {
            eprintln!("xtask: {text}\n\n{USAGE}");
            ExitCode::from(2)
        }
        Err(Failure::Work(error)) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<(), Failure> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["ci", steps @ ..] => ci::run(&root(), steps)?,
        ["bench", "nbd", options @ ..] => bench(bench::nbd, options)?,
        ["bench", "sim", options @ ..] => bench(bench::sim, options)?,
        ["bench", "arrays", options @ ..] => bench(bench::arrays, options)?,
        ["bench", "peers", options @ ..] => bench_peers(options)?,
        ["e2e", "--list"] => e2e::list(),
        ["e2e", names @ ..] => e2e::run(&root(), names)?,
        ["fuzz", "smoke"] => fuzz::smoke(&root())?,
        ["fuzz", target] => fuzz::run(&root(), target, FUZZ_TIME)?,
        ["fuzz", target, "--seconds", seconds] => {
            let seconds = seconds
                .parse()
                .map_err(|_| Failure::Usage(format!("'{seconds}' is no number of seconds")))?;
            fuzz::run(&root(), target, Duration::from_secs(seconds))?;
        }
        ["sim", "matrix", options @ ..] => sim::matrix(&root(), options)?,
        ["sim", "week", options @ ..] => sim::week(&root(), options)?,
        ["sim", "sweep", options @ ..] => sim::sweep(&root(), options)?,
        ["sim", "smoke" | "soak" | "planted", ..] => sim::run(&root(), &arguments[1..])?,
        ["test", "kernel", "--list"] => kernel::list(),
        ["test", "kernel", "--shell"] => kernel::shell(&root(), None)?,
        ["test", "kernel", "--shell", case] => kernel::shell(&root(), Some(case))?,
        ["test", "kernel", "--keep", options @ ..] => {
            test_kernel(options, kernel::Keep::Always)?;
        }
        ["test", "kernel", options @ ..] => test_kernel(options, kernel::Keep::Failed)?,
        ["tidy"] => tidy::run(&root())?,
        ["tools"] => tools::install()?,
        ["help" | "--help" | "-h"] => println!("{USAGE}"),
        [] => return Err(Failure::Usage("a command is missing".to_owned())),
        _ => {
            let text = format!("no such command: {}", arguments.join(" "));
            return Err(Failure::Usage(text));
        }
    }
    Ok(())
}

/// Lets the kernel judge: the cases of these names, or lives drawn by chance.
fn test_kernel(options: &[&str], keep: kernel::Keep) -> Result<(), Failure> {
    let number = |text: &str| {
        text.parse::<u64>()
            .map_err(|_| Failure::Usage(format!("'{text}' is no number")))
    };
    let seeds = match options {
        ["--seed", seed] => Some((number(seed)?, 1)),
        ["--seed", seed, "--cases", cases] => Some((number(seed)?, number(cases)?)),
        [option, ..] if option.starts_with("--") => {
            return Err(Failure::Usage(format!("no such option: {option}")));
        }
        _ => None,
    };
    let wanted = kernel::Wanted {
        filters: options,
        seeds: seeds.map(|(seed, cases)| seed..seed.saturating_add(cases)),
    };
    Ok(kernel::run(&root(), &wanted, keep)?)
}

fn bench(
    measure: impl Fn(&Path, Effort, bool) -> anyhow::Result<()>,
    options: &[&str],
) -> Result<(), Failure> {
    let (mut effort, mut save) = (Effort::Full, false);
    for option in options {
        match *option {
            "--quick" => effort = Effort::Quick,
            "--save" => save = true,
            other => return Err(Failure::Usage(format!("no such option: {other}"))),
        }
    }
    Ok(measure(&root(), effort, save)?)
}

/// The same, where some of the arrays may be named.
fn bench_peers(options: &[&str]) -> Result<(), Failure> {
    let (mut names, mut others) = ("", Vec::new());
    let mut options = options.iter().copied();
    while let Some(option) = options.next() {
        if option == "--arrays" {
            let missing = || Failure::Usage("--arrays has no names behind it".to_owned());
            names = options.next().ok_or_else(missing)?;
        } else {
            others.push(option);
        }
    }
    bench(
        |root, effort, save| bench::peers(root, names, effort, save),
        &others,
    )
}

/// The directory of the workspace: the one above this crate. Cargo says where that is when it runs
/// us; what was said when we were compiled is another tree's once `target` was moved or copied, and
/// then nothing of this tree would be looked at.
fn root() -> PathBuf {
    let said = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    said.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")))
        .parent()
        .expect("the crate lies in a folder of the workspace")
        .to_owned()
}
