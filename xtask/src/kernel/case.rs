//! What a case is: drives, and steps that are taken in turn, some by the guest and some here.

use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::Laboratory;
use super::guest::Drive;
use crate::e2e::room::Room;
use crate::process;

/// What legs are called, in the order of their roles.
const LEG_NAMES: &[&str] = &[
    "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p",
];

/// What is done here.
type Check = Box<dyn Fn(&Place) -> Result<()> + Send>;

/// Why what the steps of a case know together is not waited for, nor left by a panic.
pub(super) const UNSHARED: &str = "the steps of a case are taken one after the other";

/// One step of a case.
enum Step {
    /// A script for the guest.
    Guest(String),
    /// Something to be done or looked at here.
    Host(Check),
}

/// One thing to be judged.
pub(super) struct Case {
    /// What it is called by.
    pub(super) name: String,
    drives: Vec<(String, u64)>,
    legs: usize,
    /// Whether it runs heliostat itself.
    pub(super) needs_program: bool,
    /// Whether the guest runs it as well.
    pub(super) needs_program_in_guest: bool,
    steps: Vec<Step>,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, drives, .. } = self;
        write!(f, "Case {{ {name}, {drives:?} }}")
    }
}

impl Case {
    /// A case without drives and steps.
    pub(super) fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            drives: Vec::new(),
            legs: 0,
            needs_program: false,
            needs_program_in_guest: false,
            steps: Vec::new(),
        }
    }

    /// With so many more legs, empty files that are called a, b and so on.
    pub(super) fn legs(mut self, count: usize, size_bytes: u64) -> Self {
        for _ in 0..count {
            self.drives
                .push((LEG_NAMES[self.legs].to_owned(), size_bytes));
            self.legs += 1;
        }
        self
    }

    /// It runs heliostat itself, which has to be built.
    pub(super) fn with_program(mut self) -> Self {
        self.needs_program = true;
        self
    }

    /// The guest runs heliostat itself as well, and has nbd-client and the tools of ext4.
    pub(super) fn with_program_in_guest(mut self) -> Self {
        self.needs_program_in_guest = true;
        self.with_program()
    }

    /// Next, the guest runs this script, where each command has to succeed. It is run in a
    /// directory whose files come back; [`functions.sh`](../functions.sh) is what it has at hand.
    pub(super) fn guest(mut self, script: impl Into<String>) -> Self {
        self.steps.push(Step::Guest(script.into()));
        self
    }

    /// Next, this is done here.
    pub(super) fn host(mut self, check: impl Fn(&Place) -> Result<()> + Send + 'static) -> Self {
        self.steps.push(Step::Host(Box::new(check)));
        self
    }

    /// How many drives it has.
    pub(super) const fn drive_count(&self) -> usize {
        self.drives.len()
    }
}

/// Where a case is run: its drives, and what the guest left.
#[derive(Clone, Debug)]
pub(super) struct Place {
    directory: PathBuf,
    results: PathBuf,
    /// The program that knows arrays as heliostat does.
    judge: PathBuf,
    /// The root of the source tree.
    root: PathBuf,
    /// heliostat itself, where the case has asked for it.
    program: PathBuf,
}

impl Place {
    /// The file that is a drive of the case.
    pub(super) fn drive(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// A file that the guest's script left, as text.
    ///
    /// # Errors
    /// Where it left no such file.
    pub(super) fn said(&self, file: &str) -> Result<String> {
        let path = self.results.join(file);
        let bytes = fs::read(&path).with_context(|| format!("the guest left no file {file}"))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A room to run heliostat itself in, for one step.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub(super) fn room(&self) -> Result<Room> {
        let case = self.directory.file_name().unwrap_or_default();
        Room::new(&self.root, &self.program, &case.to_string_lossy())
    }

    /// Asks the program that knows arrays as heliostat does. It runs where the drives are, and
    /// finds them by their names; what the guest left is below `results`.
    ///
    /// # Errors
    /// Where it finds fault; the error has what it said.
    pub(super) fn judge(&self, words: &str) -> Result<String> {
        let mut command = Command::new(&self.judge);
        command.args(words.split_whitespace());
        process::succeed(command.current_dir(&self.directory))
    }
}

/// A case that is being run.
#[derive(Debug)]
pub(super) struct Run {
    /// What is run.
    pub(super) case: Case,
    place: Place,
    /// How many steps were taken.
    steps_done: usize,
    /// Whether it came to its end, or what went wrong.
    pub(super) outcome: Option<Result<()>>,
}

impl Run {
    /// Makes the drives of a case in a new directory.
    ///
    /// # Errors
    /// Where files cannot be made.
    pub(super) fn new(case: Case, laboratory: &Laboratory) -> Result<Self> {
        let directory = laboratory.directory.join(&case.name);
        let place = Place {
            results: directory.join("results"),
            directory,
            judge: laboratory.judge.clone(),
            root: laboratory.root.clone(),
            program: laboratory.program.clone(),
        };
        fs::create_dir(&place.directory)
            .with_context(|| format!("creating {}", place.directory.display()))?;
        for (name, size_bytes) in &case.drives {
            File::create(place.drive(name))?.set_len(*size_bytes)?;
        }
        Ok(Self {
            case,
            place,
            steps_done: 0,
            outcome: None,
        })
    }

    /// Takes the steps that are taken here, up to the next of the guest, whose script it gives.
    pub(super) fn next_script(&mut self) -> Option<String> {
        while self.outcome.is_none() {
            match self.case.steps.get(self.steps_done) {
                None => self.outcome = Some(Ok(())),
                Some(Step::Guest(script)) => return Some(script.clone()),
                Some(Step::Host(check)) => {
                    if let Err(error) = check(&self.place) {
                        self.outcome = Some(Err(error));
                    }
                    self.steps_done += 1;
                }
            }
        }
        None
    }

    /// The drives, for the guest in which the case has this number.
    pub(super) fn drives(&self, number: usize) -> Vec<Drive> {
        let names = self.case.drives.iter().map(|(name, _)| name);
        names
            .map(|name| Drive::new(format!("{number}-{name}"), self.place.drive(name)))
            .collect()
    }

    /// The guest has run the script, and left its files in a directory.
    pub(super) fn guest_ended(&mut self, results: &Path) {
        self.steps_done += 1;
        self.outcome = self.take_results(results).err().map(Err);
    }

    /// The guest has not come to its end.
    pub(super) fn guest_failed(&mut self, boot: usize) {
        self.outcome = Some(Err(anyhow::anyhow!("guest {boot} did not come to its end")));
    }

    fn take_results(&self, results: &Path) -> Result<()> {
        if self.place.results.exists() {
            fs::remove_dir_all(&self.place.results)?;
        }
        fs::rename(results.join(&self.case.name), &self.place.results)
            .context("the guest left no results of this case")?;
        let status = self.place.said("status")?;
        let log = self.place.said("log")?;
        ensure!(
            status.trim() == "0",
            "its script ended with {}:\n{}",
            status.trim(),
            process::end_of(&log)
        );
        Ok(())
    }
}
