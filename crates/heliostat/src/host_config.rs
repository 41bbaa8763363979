//! `heliostat host-config`, and `--host-config` of `create`: keeping this machine's mdadm from
//! assembling an array by itself.

use std::io::{Write as _, stdout};
use std::path::PathBuf;

use heliostat_runtime::{HostConfig, HostConfigChange, Registered, check_name};

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
    tell(&args.name, &changes, args.remove)
}

/// Says what became of the line.
pub(crate) fn tell(
    name: &str,
    changes: &[HostConfigChange],
    is_removed: bool,
) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    for change in changes {
        let file = change.file.display();
        match (is_removed, change.is_changed) {
            (false, true) => writeln!(
                out,
                "{file} says now that this machine's mdadm leaves {name} alone; 'heliostat \
                 host-config {name} --remove' undoes that"
            )?,
            (false, false) => {
                writeln!(out, "{file} said already that mdadm leaves {name} alone")?;
            }
            (true, true) => writeln!(out, "{file} does not speak of {name} any more")?,
            (true, false) => writeln!(out, "{file} has no such line of {name}")?,
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
