//! `cargo xtask test kernel`: the Linux kernel's md, in a guest, as judge of what heliostat reads
//! and writes; [docs/kernel.md](../../docs/kernel.md) says how to add a case.
//!
//! Cases are packed into few guests, since a boot costs more than a case. All cases take the steps
//! that are taken here up to their next script; then one guest runs all of these scripts.

mod case;
mod cpio;
mod created;
mod guest;
mod initramfs;
mod packages;

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use xshell::{Shell, cmd};

use crate::metadata::Metadata;
use crate::tools::{self, Skip};
use case::{Case, Run};
use guest::Drive;
use initramfs::Image;
use packages::Packages;

/// Every group of cases.
const GROUPS: &[fn() -> Vec<Case>] = &[created::cases];

/// How long the script of one case may take in the guest, in seconds: most take two.
const CASE_TIME_MAX_S: u32 = 90;

/// The size of the drive with the pattern: more than the arrays of cases need.
const PATTERN_BYTES: u64 = 64 << 20;

/// Drives of a guest that belong to no case: job, result, pattern.
const OWN_DRIVES: usize = 3;

/// Prints what cases there are.
pub(crate) fn list() {
    for case in cases(&[]) {
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
pub(crate) fn run(root: &Path, filters: &[&str], keep: Keep) -> Result<()> {
    match Laboratory::new(root).and_then(|laboratory| laboratory.run(filters, keep)) {
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
    let laboratory = Laboratory::new(root)?;
    let (mut drives, mut script) = (vec![laboratory.pattern_drive()], String::new());
    if let Some(name) = name {
        let case = cases(&[]).into_iter().find(|case| case.name == name);
        let case = case.with_context(|| format!("no case is called {name}: see --list"))?;
        let mut run = laboratory.prepare(case)?;
        script = run.next_script().context("the case has no script")?;
        drives.extend(run.drives(0));
    }
    guest::shell(&laboratory.image, &laboratory.directory, &drives, &script)?;
    laboratory.clear_away()
}

fn cases(filters: &[&str]) -> Vec<Case> {
    let all = GROUPS.iter().flat_map(|group| group());
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
}

impl Laboratory {
    fn new(root: &Path) -> Result<Self> {
        if env::consts::ARCH != "x86_64" {
            bail!(Skip(format!(
                "the guest is x86_64, not {}",
                env::consts::ARCH
            )));
        }
        tools::require(&[guest::EMULATOR, "ldd", "tar"])?;
        let target = Metadata::read(&root.join("Cargo.toml"))?.target;
        let packages = Packages::fetch(&target.join("kernel"))?;
        let judge = judge(root, &target)?;
        let directory = env::temp_dir().join(format!("heliostat-kernel-{}", std::process::id()));
        fs::create_dir(&directory).with_context(|| format!("creating {}", directory.display()))?;
        let image = Image::build(&packages, &directory)?;
        let pattern = directory.join("pattern");
        fs::write(&pattern, pattern_bytes()).context("writing the pattern")?;
        println!("Linux {} as judge", image.version);
        Ok(Self {
            directory,
            image,
            judge,
            pattern,
        })
    }

    fn prepare(&self, case: Case) -> Result<Run> {
        Run::new(case, &self.directory, &self.judge, &self.pattern)
    }

    fn pattern_drive(&self) -> Drive {
        Drive::new("pattern".to_owned(), self.pattern.clone()).read_only()
    }

    fn clear_away(self) -> Result<()> {
        fs::remove_dir_all(&self.directory)
            .with_context(|| format!("removing {}", self.directory.display()))
    }

    fn run(self, filters: &[&str], keep: Keep) -> Result<()> {
        let cases = cases(filters);
        ensure!(!cases.is_empty(), "no case is called so: see --list");
        let runs = cases.into_iter().map(|case| self.prepare(case));
        let mut runs: Vec<Run> = runs.collect::<Result<_>>()?;
        for boot in 1.. {
            let mut waiting: Vec<(&mut Run, String)> = runs
                .iter_mut()
                .filter_map(|run| run.next_script().map(|script| (run, script)))
                .collect();
            if waiting.is_empty() {
                break;
            }
            waiting.truncate(count_that_fits(&waiting));
            self.boot(boot, &mut waiting)?;
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

    /// Runs one guest for these cases.
    fn boot(&self, boot: usize, waiting: &mut [(&mut Run, String)]) -> Result<()> {
        let directory = self.directory.join(format!("boot-{boot}"));
        fs::create_dir(&directory).with_context(|| format!("creating {}", directory.display()))?;
        let mut drives = vec![self.pattern_drive()];
        for ((run, _), number) in waiting.iter().zip(0..) {
            drives.extend(run.drives(number));
        }
        let start = Instant::now();
        let results = directory.join("results");
        let ended = guest::run(&self.image, &directory, &drives, &job(waiting), &results);
        println!(
            "guest {boot}: {} cases, {} drives, {:.1} s",
            waiting.len(),
            drives.len(),
            start.elapsed().as_secs_f64()
        );
        if let Err(error) = &ended {
            println!("{error:#}");
        }
        for (run, _) in waiting {
            match &ended {
                Ok(()) => run.guest_ended(&results),
                Err(_) => run.guest_failed(boot),
            }
        }
        Ok(())
    }
}

/// How many of the cases, from the first on, find room for their drives in one guest; at least one.
fn count_that_fits(waiting: &[(&mut Run, String)]) -> usize {
    let mut drives = OWN_DRIVES;
    let fits = waiting.iter().take_while(|(run, _)| {
        drives += run.case.drive_count();
        drives <= guest::DRIVES_MAX
    });
    fits.count().max(1)
}

/// What the guest runs: each script from a file of its own, so that none can harm another.
fn job(waiting: &[(&mut Run, String)]) -> String {
    let mut job = String::new();
    for ((run, script), number) in waiting.iter().zip(0..) {
        let name = &run.case.name;
        write!(
            job,
            "mkdir /results/{name}\n\
             cat > /results/{name}/script <<'END-OF-SCRIPT'\n{script}\nEND-OF-SCRIPT\n\
             run {name} {number} {CASE_TIME_MAX_S}\n"
        )
        .expect("a text takes all that is written to it");
    }
    job
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

/// A drive on which every eight bytes say where they are.
fn pattern_bytes() -> Vec<u8> {
    /// So that no word is zero.
    const TAG: u64 = 0xA5 << 56;
    let words = (0..PATTERN_BYTES).step_by(8);
    words
        .flat_map(|address| (address | TAG).to_le_bytes())
        .collect()
}
