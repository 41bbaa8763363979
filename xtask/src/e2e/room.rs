//! Where one test runs: its directory, its tools, and the reasons not to run it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process::{self, Said};
use crate::tools::{self, Skip};

/// How long one command of a test may take: none needs more than seconds on an idle machine.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(120);

/// Where one test runs.
#[derive(Debug)]
pub(crate) struct Room {
    /// The root of the source tree.
    pub(crate) root: PathBuf,
    /// The program under test.
    pub(crate) program: PathBuf,
    directory: PathBuf,
}

impl Room {
    pub(crate) fn new(root: &Path, program: &Path, test: &str) -> Result<Self> {
        let name = format!("heliostat-e2e-{}-{test}", std::process::id());
        let directory = env::temp_dir().join(name);
        fs::create_dir(&directory).with_context(|| format!("creating {}", directory.display()))?;
        Ok(Self {
            root: root.to_owned(),
            program: program.to_owned(),
            directory,
        })
    }

    /// A path in the test's own directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// A path in the test's own directory, as an argument.
    pub(crate) fn path_text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// A new directory in the test's own.
    pub(crate) fn new_directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.path(name);
        fs::create_dir(&path).with_context(|| format!("creating {}", path.display()))?;
        Ok(path)
    }

    /// A program with a time limit, run in the test's directory.
    pub(crate) fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let found = tools::find(program).unwrap_or_else(|| program.into());
        let mut command = process::limited(COMMAND_TIME_MAX, found);
        command.args(arguments).current_dir(&self.directory);
        command
    }

    /// Runs a program that has to succeed, and gives its standard output.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        process::succeed(&mut self.command(program, arguments))
    }

    /// Runs a program to its end, whatever that is.
    pub(crate) fn listen(&self, program: &str, arguments: &[&str]) -> Result<Said> {
        process::listen(&mut self.command(program, arguments))
    }

    /// Skips the test, or fails it in CI, where a tool is missing.
    #[expect(clippy::unused_self, reason = "reads as a demand of the room")]
    pub(crate) fn require_tools(&self, programs: &[&str]) -> Result<()> {
        tools::require(programs)
    }

    /// Skips the test where this is not so.
    #[expect(clippy::unused_self, reason = "reads as a demand of the room")]
    pub(crate) fn require(&self, is_so: bool, what: &str) -> Result<()> {
        if !is_so {
            bail!(Skip(format!("needs {what}")));
        }
        Ok(())
    }

    /// Skips the test where loop devices cannot be used.
    pub(crate) fn require_loop_devices(&self) -> Result<()> {
        self.require(tools::is_root(), "root")?;
        let has_loop = Path::new("/dev/loop-control").exists();
        self.require(has_loop, "loop devices")
    }

    /// Skips the test where file systems of processes cannot be mounted.
    pub(crate) fn require_fuse(&self) -> Result<()> {
        self.require(tools::is_root(), "root")?;
        self.require(Path::new("/dev/fuse").exists(), "/dev/fuse")?;
        self.require_tools(&["nbdfuse"])
    }

    /// Prints the end of each log.
    pub(crate) fn print_logs(&self) {
        let Ok(entries) = fs::read_dir(&self.directory) else {
            return;
        };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            if path.extension().is_none_or(|extension| extension != "log") {
                continue;
            }
            let bytes = fs::read(&path).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            let name = path.file_name().unwrap_or_default().display();
            for line in process::end_of(&text).lines() {
                println!("     {name}: {line}");
            }
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.directory) {
            eprintln!("removing {}: {error}", self.directory.display());
        }
    }
}
