//! The control files of an array that is served, and who takes them away when the daemon cannot.

use std::io::{self, Read as _, stdin};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::bail;
use heliostat_export_fuse::{ControlFiles, VolumeExport, VolumeMaker, detach_stale};
use heliostat_runtime::{ArrayOptions, Export, Progress, Server};

/// Whether control files are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ShowFiles {
    /// Where FUSE allows it; a line says where not
    Auto,
    /// Or the array is not served
    On,
    /// No
    Off,
}

/// What the process is told that waits for the daemon's end.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TakeAwayArgs {
    /// Where the files are.
    directory: PathBuf,
}

/// Control files that are wanted, before there is an array.
pub(crate) struct WantedFiles {
    wanted: ShowFiles,
    /// The array's end of the file `volume`, and what the other end is made from.
    export: Option<VolumeExport>,
    volume: Option<VolumeMaker>,
}

impl WantedFiles {
    pub(crate) fn new(wanted: ShowFiles) -> anyhow::Result<Self> {
        let is_wanted = wanted != ShowFiles::Off;
        let export = is_wanted.then(VolumeExport::new).transpose()?;
        let volume = export.as_ref().map(VolumeExport::volume);
        Ok(Self {
            wanted,
            export,
            volume,
        })
    }

    /// What the array serves for them.
    pub(crate) fn export(&mut self) -> Option<Box<dyn Export>> {
        let export = self.export.take();
        export.map(|export| Box::new(export) as Box<dyn Export>)
    }

    /// Shows them, as long as what is returned is held.
    pub(crate) fn show(
        self,
        options: &ArrayOptions,
        server: &Server,
        progress: &mut dyn Progress,
    ) -> anyhow::Result<Option<ControlFiles>> {
        let Some(volume) = self.volume else {
            return Ok(None);
        };
        let info = server.info();
        let volume = volume.of(info.size_bytes, info.read_only);
        let directory = options.places.control.join(&options.name);
        let shown = std::path::absolute(&directory)
            .and_then(|directory| watch_over(&directory))
            .map_err(anyhow::Error::from)
            .and_then(|()| Ok(ControlFiles::mount(server.handle(), volume, &directory)?));
        match shown {
            Ok(files) => {
                progress.note(&format!("control files in {}", directory.display()));
                Ok(Some(files))
            }
            Err(error) if self.wanted == ShowFiles::Auto => {
                progress.note(&format!(
                    "{error:#}; 'heliostat policy' and its like do the same"
                ));
                Ok(None)
            }
            Err(error) => bail!("{error:#}; --control-files auto serves the array all the same"),
        }
    }
}

/// Starts a process that outlives this one and then takes the files away: the kernel leaves a
/// mounted directory behind that nobody answers for, which cannot even be removed.
fn watch_over(directory: &Path) -> io::Result<()> {
    let program = std::env::current_exe()?;
    let mut child = Command::new(program)
        .arg("take-away")
        .arg(directory)
        // Its end is when nobody has the other end of this any more.
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        // It must not be killed together with what it waits for.
        .process_group(0)
        .spawn()?;
    // Held until this process ends, and closed by the kernel.
    std::mem::forget(child.stdin.take());
    Ok(())
}

/// Waits until whoever started this is gone, then takes away what is left of its files.
pub(crate) fn take_away(args: &TakeAwayArgs) -> ExitCode {
    // What it reads is nothing; that it ends says all.
    let _ = stdin().read_to_end(&mut Vec::new());
    // Another daemon may be there already. There is nobody to tell where that fails.
    if detach_stale(&args.directory).is_ok_and(|was_stale| was_stale) {
        let _ = std::fs::remove_dir(&args.directory);
    }
    ExitCode::SUCCESS
}
