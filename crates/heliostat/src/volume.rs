//! `heliostat volume`: an array cut into volumes.

use std::io::{Write as _, stdout};
use std::time::Duration;

use anyhow::bail;
use comfy_table::{CellAlignment, Table, presets};
use heliostat_runtime::{
    ControlRequest, ControlResponse, LimitsChange, RuntimeError, UsageError, VolumeChange,
    VolumeStatus, VolumesStatus,
};
use stdx::units::{format_size, parse_size};

use crate::cli::ControlArgs;
use crate::rate;

/// How often it is asked whether a volume is ready.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// The unit of device mapper's tables.
const SECTOR_BYTES: u64 = 512;

/// What `heliostat volume` is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct VolumeArgs {
    #[command(subcommand)]
    command: VolumeCommand,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum VolumeCommand {
    /// Make a volume. The first one of an array cuts it: it is not served as a whole any more.
    ///
    /// Waits until what it holds is zeroed, so that it can be used then.
    Create(CreateArgs),
    /// Show the volumes: how large they are, where they lie, who uses them.
    List(ListArgs),
    /// Give a volume another size. Others stay where they are.
    ///
    /// Clients see the new size when they connect again.
    Resize(ResizeArgs),
    /// Change how much of the array a volume may have.
    Set(SetArgs),
    /// Delete a volume, with all that it holds. Nobody may be connected to it.
    Delete(DeleteArgs),
    /// Write both copies of the table of volumes again, where something else lies in one's place.
    Repair(RepairArgs),
}

/// How much of the array a volume may have.
#[derive(Clone, Copy, Debug, clap::Args)]
struct LimitArgs {
    /// Its share of the legs' time beside others, 1 to 100, under the scheduler fair.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    weight: Option<u32>,
    /// Requests per second at most; 0: as many as there are.
    #[arg(long, value_name = "N")]
    iops: Option<u32>,
    /// Bytes per second at most, as in 10MB/s; 0: as many as there are.
    #[arg(long, value_name = "RATE", value_parser = bandwidth)]
    bandwidth: Option<u64>,
}

impl LimitArgs {
    const fn change(self) -> LimitsChange {
        LimitsChange {
            weight: self.weight,
            iops_max: self.iops,
            bytes_per_s_max: self.bandwidth,
        }
    }
}

#[derive(Clone, Debug, clap::Args)]
struct CreateArgs {
    /// The array.
    name: String,
    /// What clients ask for the volume by.
    volume: String,
    /// How large it is, as in 10GiB; rounded up to whole MiB.
    #[arg(value_parser = size)]
    size: u64,
    #[command(flatten)]
    limits: LimitArgs,
    /// Cut the array although something lies at its start or its end. All that it holds is lost.
    #[arg(long)]
    force: bool,
    /// Do not wait until it can be used.
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    control: ControlArgs,
}

#[derive(Clone, Debug, clap::Args)]
struct ListArgs {
    /// The array.
    name: String,
    /// One object on one line, and nothing else.
    #[arg(long, conflicts_with = "dmsetup")]
    json: bool,
    /// The commands with which Linux serves the same volumes, when it has assembled the array.
    #[arg(long)]
    dmsetup: bool,
    #[command(flatten)]
    control: ControlArgs,
}

#[derive(Clone, Debug, clap::Args)]
struct ResizeArgs {
    /// The array.
    name: String,
    /// The volume.
    volume: String,
    /// How large it is to be, as in 10GiB; rounded up to whole MiB.
    #[arg(value_parser = size)]
    size: u64,
    /// Make it smaller. What lies beyond its new end is lost, and nobody may be connected to it.
    #[arg(long)]
    shrink: bool,
    /// Do not wait until what is new can be used.
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    control: ControlArgs,
}

#[derive(Clone, Debug, clap::Args)]
struct SetArgs {
    /// The array.
    name: String,
    /// The volume.
    volume: String,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    control: ControlArgs,
}

#[derive(Clone, Debug, clap::Args)]
struct DeleteArgs {
    /// The array.
    name: String,
    /// The volume.
    volume: String,
    #[command(flatten)]
    control: ControlArgs,
}

#[derive(Clone, Debug, clap::Args)]
struct RepairArgs {
    /// The array.
    name: String,
    #[command(flatten)]
    control: ControlArgs,
}

fn size(text: &str) -> Result<u64, String> {
    parse_size(text).map_err(|error| error.to_string())
}

/// Bytes per second of a cap. No cap has no unit.
fn bandwidth(text: &str) -> Result<u64, String> {
    if text == "0" {
        return Ok(0);
    }
    rate::parse(text)
}

/// Does what is asked for.
pub(crate) fn run(args: &VolumeArgs) -> anyhow::Result<()> {
    match &args.command {
        VolumeCommand::Create(args) => create(args),
        VolumeCommand::List(args) => list(args),
        VolumeCommand::Resize(args) => resize(args),
        VolumeCommand::Set(args) => set(args),
        VolumeCommand::Delete(args) => {
            let volume = args.volume.clone();
            let change = VolumeChange::Delete { volume };
            say(&ask(&args.control, &args.name, change)?)
        }
        VolumeCommand::Repair(args) => say(&ask(&args.control, &args.name, VolumeChange::Repair)?),
    }
}

fn create(args: &CreateArgs) -> anyhow::Result<()> {
    let change = VolumeChange::Create {
        volume: args.volume.clone(),
        size_bytes: args.size,
        limits: args.limits.change(),
        force: args.force,
    };
    let told = ask(&args.control, &args.name, change)?;
    if args.no_wait {
        return say(&told);
    }
    say(&ready(&args.control, &args.name, &args.volume)?)
}

fn resize(args: &ResizeArgs) -> anyhow::Result<()> {
    let change = VolumeChange::Resize {
        volume: args.volume.clone(),
        size_bytes: args.size,
        shrink: args.shrink,
    };
    let told = ask(&args.control, &args.name, change)?;
    if args.no_wait {
        return say(&told);
    }
    say(&ready(&args.control, &args.name, &args.volume)?)
}

fn set(args: &SetArgs) -> anyhow::Result<()> {
    let limits = args.limits.change();
    if limits == LimitsChange::default() {
        bail!(UsageError(
            "say what is to be other: --weight, --iops or --bandwidth".to_owned()
        ));
    }
    let volume = args.volume.clone();
    let change = VolumeChange::Set { volume, limits };
    say(&ask(&args.control, &args.name, change)?)
}

/// Has the volumes changed. What became of it.
fn ask(control: &ControlArgs, name: &str, change: VolumeChange) -> anyhow::Result<String> {
    let request = ControlRequest::ChangeVolumes { change };
    let ControlResponse::Done(told) = control.ask(name, &request)? else {
        bail!("asked to change volumes, the daemon answered something else");
    };
    Ok(told)
}

fn volumes(control: &ControlArgs, name: &str) -> anyhow::Result<VolumesStatus> {
    let ControlResponse::Volumes(status) = control.ask(name, &ControlRequest::Volumes)? else {
        bail!("asked for the volumes, the daemon answered something else");
    };
    Ok(*status)
}

/// Waits until all of a volume can be used. What there is then.
fn ready(control: &ControlArgs, name: &str, volume: &str) -> anyhow::Result<String> {
    loop {
        let status = volumes(control, name)?;
        let Some(found) = status.volumes.iter().find(|found| found.name == volume) else {
            bail!("volume {volume} was deleted meanwhile");
        };
        if found.size_bytes == found.allocated_bytes {
            return Ok(format!(
                "volume {volume}: {} ({} bytes)",
                format_size(found.size_bytes),
                found.size_bytes
            ));
        }
        if let Some(problem) = status.problem {
            bail!(RuntimeError(problem));
        }
        std::thread::sleep(ASK_EVERY);
    }
}

fn say(told: &str) -> anyhow::Result<()> {
    writeln!(stdout(), "{told}")?;
    Ok(())
}

fn list(args: &ListArgs) -> anyhow::Result<()> {
    let status = volumes(&args.control, &args.name)?;
    if args.json {
        return say(&serde_json::to_string(&status)?);
    }
    let text = if args.dmsetup {
        dmsetup(&status)
    } else {
        for_people(&status)
    };
    write!(stdout(), "{text}")?;
    Ok(())
}

fn for_people(status: &VolumesStatus) -> String {
    let array = &status.array;
    let mut text = match status.free_bytes {
        None => format!(
            "{array}: {}, served as a whole: it has no volumes\n",
            format_size(status.size_bytes)
        ),
        Some(free_bytes) => format!(
            "{array}: {}, of which {} are free\n{}\n",
            format_size(status.size_bytes),
            format_size(free_bytes),
            table(&status.volumes)
        ),
    };
    if let Some(problem) = &status.problem {
        text.push_str(&format!("attention: {problem}\n"));
    }
    text
}

fn table(volumes: &[VolumeStatus]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header([
        "volume",
        "size",
        "state",
        "connections",
        "limits",
        "lies at",
    ]);
    for volume in volumes {
        let extents = volume.extents.iter().map(|extent| {
            format!(
                "{}+{}",
                format_size(extent.offset_bytes),
                format_size(extent.len_bytes)
            )
        });
        let extents: Vec<String> = extents.collect();
        let state = if volume.size_bytes < volume.allocated_bytes {
            format!(
                "{} of {} zeroed",
                format_size(volume.prepared_bytes),
                format_size(volume.allocated_bytes)
            )
        } else {
            volume.state.clone()
        };
        table.add_row([
            volume.name.clone(),
            format_size(volume.size_bytes),
            state,
            volume.connections.to_string(),
            volume.limits(),
            extents.join(" "),
        ]);
    }
    for column in [1, 3] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// A `dmsetup create` for each volume that is ready, with the array at /dev/md/NAME.
fn dmsetup(status: &VolumesStatus) -> String {
    let mut text = String::new();
    let device = format!("/dev/md/{}", status.array);
    for volume in status.volumes.iter().filter(|volume| volume.size_bytes > 0) {
        let name = format!("{}-{}", status.array, volume.name);
        text.push_str(&format!("dmsetup create {name} <<'END'\n"));
        let mut at_bytes = 0;
        for extent in &volume.extents {
            let len_bytes = extent.len_bytes.min(volume.size_bytes - at_bytes);
            if len_bytes > 0 {
                text.push_str(&format!(
                    "{} {} linear {device} {}\n",
                    at_bytes / SECTOR_BYTES,
                    len_bytes / SECTOR_BYTES,
                    extent.offset_bytes / SECTOR_BYTES
                ));
            }
            at_bytes += len_bytes;
        }
        text.push_str("END\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use heliostat_runtime::{VolumeExtent, VolumeStatus, VolumesStatus};

    use super::{bandwidth, dmsetup};

    #[test]
    fn no_cap_is_0_with_or_without_a_unit() {
        assert_eq!(bandwidth("0"), Ok(0));
        assert_eq!(bandwidth("0MB/s"), Ok(0));
        assert_eq!(bandwidth("10MB/s"), Ok(10_000_000));
        assert!(bandwidth("10").unwrap_err().contains("as in 500MB/s"));
    }

    #[test]
    fn device_mapper_gets_what_clients_see() {
        let extent = |offset_bytes, len_bytes| VolumeExtent {
            offset_bytes,
            len_bytes,
        };
        let volume = VolumeStatus {
            name: "a".to_owned(),
            // The last MiB is not zeroed yet.
            size_bytes: 3 << 20,
            allocated_bytes: 4 << 20,
            prepared_bytes: 3 << 20,
            state: "preparing".to_owned(),
            connections: 0,
            weight: 1,
            iops_max: 0,
            bytes_per_s_max: 0,
            extents: vec![extent(5 << 20, 2 << 20), extent(1 << 20, 2 << 20)],
        };
        let status = VolumesStatus {
            array: "disk".to_owned(),
            uuid: None,
            size_bytes: 10 << 20,
            free_bytes: Some(4 << 20),
            generation: Some(3),
            volumes: vec![volume],
            problem: None,
        };
        assert_eq!(
            dmsetup(&status),
            "dmsetup create disk-a <<'END'\n\
             0 4096 linear /dev/md/disk 10240\n\
             4096 2048 linear /dev/md/disk 2048\n\
             END\n"
        );
    }
}
