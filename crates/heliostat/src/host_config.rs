//! `heliostat host-config`, and `--host-config` of `create`: keeping this machine's mdadm from
//! assembling an array by itself.

use std::io::{Write as _, stdout};
use std::path::PathBuf;

use heliostat_runtime::{HostConfig, HostConfigChange, Registered, check_name, shell_word};

use crate::cli::ControlArgs;

/// What `heliostat host-config` is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct HostConfigArgs {
    /// The array.
    name: String,
    /// Take the line out again, so that this machine assembles the array when it sees it.
    #[arg(long)]
    remove: bool,
    /// The file to change [default: /etc/mdadm/mdadm.conf or /etc/mdadm.conf].
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    control: ControlArgs,
}

/// Adds or removes the line.
pub(crate) fn run(args: &HostConfigArgs) -> anyhow::Result<()> {
    check_name(&args.name)?;
    let known = Registered::load(&args.control.places()?, &args.name)?;
    let config = HostConfig::choose(args.file.as_deref());
    let changes = if args.remove {
        config.forget(&known.uuid)?
    } else {
        config.ignore(&args.name, &known.uuid)?
    };
    let undo = undo(&args.name, args.file.clone(), &args.control);
    tell(&args.name, &changes, (!args.remove).then_some(&undo))
}

/// The command that takes the line out again.
pub(crate) fn undo(name: &str, file: Option<PathBuf>, control: &ControlArgs) -> String {
    let file = file.map(|file| format!(" --file {}", shell_word(&file.display().to_string())));
    format!(
        "heliostat host-config {name} --remove{}{}",
        file.unwrap_or_default(),
        control.repeated()
    )
}

/// Says what became of the line: removed, or added and taken out again by the command `undo`.
pub(crate) fn tell(
    name: &str,
    changes: &[HostConfigChange],
    undo: Option<&str>,
) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    for change in changes {
        let file = change.file.display();
        match (undo, change.is_changed) {
            (Some(undo), true) => writeln!(
                out,
                "{file} says now that this machine's mdadm leaves {name} alone; '{undo}' undoes \
                 that"
            )?,
            (Some(_), false) => {
                writeln!(out, "{file} said already that mdadm leaves {name} alone")?;
            }
            (None, true) => writeln!(out, "{file} does not speak of {name} any more")?,
            (None, false) => writeln!(out, "{file} has no such line of {name}")?,
        }
    }
    let is_changed = changes.iter().any(|change| change.is_changed);
    if let Some(command) = HostConfig::initramfs_command().filter(|_| is_changed) {
        writeln!(
            out,
            "run '{command}' as well: the boot has a copy of the file"
        )?;
    }
    Ok(())
}
