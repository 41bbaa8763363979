//! `cargo xtask test kernel`: the Linux kernel's md, in a guest, as judge of what heliostat reads
//! and writes; [docs/kernel.md](../../docs/kernel.md) says how to add a case.
//!
//! Cases are packed into few guests, since a boot costs more than a case. All cases take the steps
//! that are taken here up to their next script, as many at once as there are processors; then
//! guests, as many at once, run all of these scripts.

mod agreement;
mod bad;
mod behind;
mod boot;
mod case;
mod cpio;
mod crashed;
mod created;
mod grown;
mod guest;
mod initramfs;
mod inside;
mod killed;
mod large;
mod live;
mod matrix;
mod packages;
mod random;
mod rebuilt;
mod served;
mod written;

use std::env;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, ensure};
use xshell::{Shell, cmd};

use crate::e2e;
use crate::metadata::Metadata;
use crate::process;
use crate::tools::{self, Skip};
use boot::Boot;
use case::{Case, Run};
pub(crate) use guest::Drive;
use initramfs::Image;
pub(crate) use live::Guest;
use packages::Packages;

/// Every group of cases.
const GROUPS: &[fn() -> Vec<Case>] = &[
    created::cases,
    written::cases,
    crashed::cases,
    served::cases,
    rebuilt::cases,
    killed::cases,
    behind::cases,
    grown::cases,
    inside::cases,
    large::cases,
    matrix::cases,
    bad::cases,
];

/// The size of the drive with the pattern: each part of it, one for each tag, is more than the
/// arrays of cases need.
const PATTERN_SIZE: &str = "192M";

/// Which cases are run.
#[derive(Clone, Debug)]
pub(crate) struct Wanted<'a> {
    /// Words of which their names contain one; all where there is none.
    pub(crate) filters: &'a [&'a str],
    /// Seeds of lives drawn by chance, instead of those that are always run.
    pub(crate) seeds: Option<Range<u64>>,
}

/// Prints what cases there are.
pub(crate) fn list() {
    for case in cases(&Wanted::all()) {
        println!("{}", case.name);
    }
}

/// What is done with the files of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// They are kept where a case failed.
    Failed,
    /// They are kept in any case.
    Always,
}

/// Runs the cases whose names contain one of `filters`, or all of them.
///
/// # Errors
/// Where a case fails, or there is none of a name.
pub(crate) fn run(root: &Path, wanted: &Wanted<'_>, keep: Keep) -> Result<()> {
    let cases = cases(wanted);
    ensure!(!cases.is_empty(), "no case is called so: see --list");
    let laboratory = Laboratory::new(root, &cases);
    match laboratory.and_then(|laboratory| laboratory.run(cases, keep)) {
        Err(error) => match error.downcast::<Skip>() {
            Ok(skip) => {
                println!("SKIP all cases: {skip}");
                Ok(())
            }
            Err(error) => Err(error),
        },
        Ok(()) => Ok(()),
    }
}

/// Gives whoever runs this a shell in a guest, with the drives of a case as they are before its
/// first script, or with none.
///
/// # Errors
/// Where there is no such case, or something is missing.
pub(crate) fn shell(root: &Path, name: Option<&str>) -> Result<()> {
    let case = match name {
        Some(name) => {
            let case = cases(&Wanted::all())
                .into_iter()
                .find(|case| case.name == name);
            Some(case.with_context(|| format!("no case is called {name}: see --list"))?)
        }
        None => None,
    };
    let laboratory = Laboratory::new(root, case.as_slice())?;
    let (mut drives, mut script) = (vec![laboratory.pattern_drive()], String::new());
    if let Some(case) = case {
        let mut run = laboratory.prepare(case)?;
        script = run.next_script().context("the case has no script")?;
        drives.extend(run.drives(0));
    }
    guest::shell(&laboratory.image, &laboratory.directory, &drives, &script)?;
    laboratory.clear_away()
}

impl Wanted<'_> {
    /// All that are always run.
    pub(crate) const fn all() -> Self {
        Self {
            filters: &[],
            seeds: None,
        }
    }
}

fn cases(wanted: &Wanted<'_>) -> Vec<Case> {
    if let Some(seeds) = &wanted.seeds {
        return seeds.clone().map(random::case).collect();
    }
    let all = GROUPS.iter().flat_map(|group| group());
    let all = all.chain((1..=random::COUNT).map(random::case));
    let filters = wanted.filters;
    let is_asked_for =
        |case: &Case| filters.is_empty() || filters.iter().any(|filter| case.name.contains(filter));
    all.filter(is_asked_for).collect()
}

/// All that cases need besides themselves.
#[derive(Debug)]
struct Laboratory {
    /// Everything of this run lies here.
    directory: PathBuf,
    image: Image,
    judge: PathBuf,
    pattern: PathBuf,
    root: PathBuf,
    /// heliostat itself; empty where no case needs it.
    program: PathBuf,
}

impl Laboratory {
    fn new(root: &Path, cases: &[Case]) -> Result<Self> {
        if env::consts::ARCH != "x86_64" {
            return Err(tools::cannot_run(anyhow!(
                "the guest is x86_64, not {}",
                env::consts::ARCH
            )));
        }
        tools::require(&[guest::EMULATOR, "ldd", "tar"])?;
        let target = Metadata::read(&root.join("Cargo.toml"))?.target;
        let packages = Packages::fetch(&target.join("kernel"))?;
        let judge = judge(root, &target)?;
        let mut program = PathBuf::new();
        if cases.iter().any(|case| case.needs_program) {
            tools::require(&["qemu-img", "qemu-io"])?;
            program = e2e::program(root)?;
        }
        let directory = env::temp_dir().join(format!("heliostat-kernel-{}", std::process::id()));
        fs::create_dir(&directory).with_context(|| format!("creating {}", directory.display()))?;
        let in_guest = cases.iter().any(|case| case.needs_program_in_guest);
        if in_guest {
            tools::require(initramfs::FILE_SYSTEM_TOOLS)?;
        }
        let programs = if in_guest {
            initramfs::for_clients(&program, &packages)
        } else {
            Vec::new()
        };
        let image = Image::build(&packages, &directory, &programs)?;
        let pattern = directory.join("pattern");
        process::succeed(
            Command::new(&judge)
                .arg("pattern")
                .arg(&pattern)
                .arg(PATTERN_SIZE)
                .args(random::TAGS),
        )?;
        println!("Linux {} as judge", image.version);
        Ok(Self {
            directory,
            image,
            judge,
            pattern,
            root: root.to_owned(),
            program,
        })
    }

    fn prepare(&self, case: Case) -> Result<Run> {
        Run::new(case, self)
    }

    fn pattern_drive(&self) -> Drive {
        Drive::new("pattern".to_owned(), self.pattern.clone()).read_only()
    }

    fn clear_away(self) -> Result<()> {
        fs::remove_dir_all(&self.directory)
            .with_context(|| format!("removing {}", self.directory.display()))
    }

    fn run(self, cases: Vec<Case>, keep: Keep) -> Result<()> {
        let runs = cases.into_iter().map(|case| self.prepare(case));
        let mut runs: Vec<Run> = runs.collect::<Result<_>>()?;
        let (mut done, pattern) = (0, self.pattern_drive());
        loop {
            let all = runs.iter_mut().collect();
            let scripts = process::side_by_side(process::processors(), all, Run::next_script);
            let scripts = scripts.into_iter().enumerate();
            let waiting = scripts.filter_map(|(index, script)| Some((index, script?)));
            let waiting: Vec<(usize, String)> = waiting.collect();
            if waiting.is_empty() {
                break;
            }
            let boots = Boot::plan(&runs, &waiting, done, &self.directory, &pattern);
            done += boots.len();
            for (boot, ended) in boot::run_all(&self.image, boots) {
                if let Err(error) = &ended {
                    println!("guest {}: {error:#}", boot.number);
                }
                for &index in &boot.cases {
                    match ended {
                        Ok(()) => runs[index].guest_ended(&boot.results()),
                        Err(_) => runs[index].guest_failed(boot.number),
                    }
                }
            }
        }
        let failed = report(&runs);
        if failed.is_empty() && keep == Keep::Failed {
            return self.clear_away();
        }
        println!(
            "the files of this run are below {}",
            self.directory.display()
        );
        ensure!(failed.is_empty(), "cases failed: {}", failed.join(", "));
        Ok(())
    }
}

/// Says how each case went, and gives the names of those that failed.
fn report(runs: &[Run]) -> Vec<&str> {
    let mut failed = Vec::new();
    for run in runs {
        let name = run.case.name.as_str();
        match &run.outcome {
            Some(Ok(())) => println!("PASS {name}"),
            Some(Err(error)) => {
                println!("FAIL {name}: {error:#}");
                failed.push(name);
            }
            None => unreachable!("cases are run until each has an outcome"),
        }
    }
    println!(
        "{} passed, {} failed",
        runs.len() - failed.len(),
        failed.len()
    );
    failed
}

/// The program that knows arrays as heliostat does, which this one must not.
fn judge(root: &Path, target: &Path) -> Result<PathBuf> {
    let shell = Shell::new()?;
    shell.change_dir(root);
    cmd!(
        shell,
        "cargo build --locked --quiet --package heliostat-engine --example array_judge"
    )
    .quiet()
    .run()?;
    Ok(target.join("debug/examples/array_judge"))
}
