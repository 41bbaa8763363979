//! Which cases share a guest, and guests side by side.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};

use super::case::Run;
use super::guest::{self, Drive};
use super::initramfs::Image;
use crate::process;

/// How many drives a guest should have at most: its kernel finds 50 in some seconds, and takes half
/// a minute for 120. A case with more has a guest of its own.
const DRIVES_WANTED: usize = 50;

/// So many more than an equal share each guest may have, so that the shares need not be exact; and
/// a guest with fewer is not worth its boot.
const DRIVES_MIN: usize = 6;

/// How long the script of one case may take in the guest, in seconds of its clock: most take one.
/// On a busy machine they take minutes, and the clock runs several times too fast besides.
const CASE_TIME_MAX_S: u32 = 900;

/// One guest, and what it is to do.
#[derive(Debug)]
pub(super) struct Boot {
    /// Which one it is, from 1 on.
    pub(super) number: usize,
    /// Its cases, as indexes of those that are run.
    pub(super) cases: Vec<usize>,
    directory: PathBuf,
    drives: Vec<Drive>,
    job: String,
}

impl Boot {
    /// One without cases yet.
    fn new(number: usize, directory: &Path, pattern: &Drive) -> Self {
        Self {
            number,
            cases: Vec::new(),
            directory: directory.join(format!("guest-{number}")),
            drives: vec![pattern.clone()],
            job: String::new(),
        }
    }

    /// Puts cases that wait for their scripts into guests, of which `done` have been used up.
    pub(super) fn plan(
        runs: &[Run],
        waiting: &[(usize, String)],
        done: usize,
        directory: &Path,
        pattern: &Drive,
    ) -> Vec<Self> {
        let drives = waiting
            .iter()
            .map(|(index, _)| runs[*index].case.drive_count());
        let drives: usize = drives.sum();
        let guests = drives
            .div_ceil(DRIVES_WANTED)
            .next_multiple_of(process::processors());
        let wanted = drives / guests + DRIVES_MIN;
        let mut boots: Vec<Self> = Vec::new();
        for (index, script) in waiting {
            let run = &runs[*index];
            let count = run.case.drive_count();
            if boots
                .last()
                .is_none_or(|boot| boot.drives.len() + count > wanted)
            {
                let number = done + boots.len() + 1;
                boots.push(Self::new(number, directory, pattern));
            }
            let boot = boots.last_mut().expect("there is one now");
            boot.add(*index, run, script);
        }
        boots
    }

    /// Each script comes from a file of its own, so that none can harm another.
    fn add(&mut self, index: usize, run: &Run, script: &str) {
        let (name, number) = (&run.case.name, self.cases.len());
        write!(
            self.job,
            "mkdir /results/{name}\n\
             cat > /results/{name}/script <<'END-OF-SCRIPT'\n{script}\nEND-OF-SCRIPT\n\
             run {name} {number} {CASE_TIME_MAX_S}\n"
        )
        .expect("a text takes all that is written to it");
        self.drives.extend(run.drives(number));
        self.cases.push(index);
    }

    /// Where its cases leave their results.
    pub(super) fn results(&self) -> PathBuf {
        self.directory.join("results")
    }

    fn run(&self, image: &Image) -> Result<()> {
        let directory = &self.directory;
        fs::create_dir(directory).with_context(|| format!("creating {}", directory.display()))?;
        let start = Instant::now();
        let ended = guest::run(image, directory, &self.drives, &self.job, &self.results());
        println!(
            "guest {}: {} cases, {} drives, {:.1} s",
            self.number,
            self.cases.len(),
            self.drives.len(),
            start.elapsed().as_secs_f64()
        );
        ended
    }
}

/// Runs guests, as many at once as there are processors, and says how each ended.
pub(super) fn run_all(image: &Image, boots: Vec<Boot>) -> Vec<(Boot, Result<()>)> {
    process::side_by_side(process::processors(), boots, |boot| {
        let ended = boot.run(image);
        (boot, ended)
    })
}
