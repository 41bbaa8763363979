//! `heliostat create`: an array on legs that heliostat serves by name, and that Linux md can take
//! over at any time.

use std::io::{Write as _, stdout};
use std::path::PathBuf;

use anyhow::Context as _;
use heliostat_engine::{Layout, Raid10};
use heliostat_format::NewBitmap;
use heliostat_nbd::uri::{Endpoint, ExportUri};
use heliostat_runtime::{CreateLeg, CreateOptions, HostConfig, LegSpec, UsageError, ignore_line};
use stdx::units::{format_size, parse_size};

use crate::cli::ControlArgs;
use crate::console::Lines;
use crate::host_config;

/// The most writes that a bitmap can say legs may be behind.
const WRITE_BEHIND_MAX: u32 = (1 << 14) - 1;

/// What `heliostat create` is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CreateArgs {
    /// What to call the array; at most 32 bytes.
    name: String,
    /// How it keeps its data.
    #[arg(long, value_enum)]
    level: Level,
    /// RAID10: near=K, far=K or offset=K for K copies of each chunk.
    #[arg(long, value_name = "LAYOUT", default_value = "near=2")]
    layout: String,
    /// RAID10: what lies as a whole on its legs; a power of two [default: 512K].
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    chunk: Option<u64>,
    /// The legs in their order: files or disks (their paths, with a '/'), or 'missing' for one that
    /// is to be added later.
    #[arg(required = true, value_name = "LEG")]
    legs: Vec<String>,
    /// A leg that is read only where nothing else is left; may be given several times.
    #[arg(long, value_name = "LEG")]
    write_mostly: Vec<String>,
    /// A leg that is out at its first error, as long as others are left, rather than waited for;
    /// may be given several times. 'all' stands for all legs.
    #[arg(long, value_name = "LEG|all")]
    failfast: Vec<String>,
    /// Answer up to N writes before write-mostly legs have them; needs a bitmap [N: 256].
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "256",
          value_parser = parse_write_behind)]
    write_behind: Option<u32>,
    /// A leg that holds no data until it takes the place of one that is out; may be given several
    /// times.
    #[arg(long, value_name = "LEG")]
    spare: Vec<String>,
    /// What one bit of the write-intent bitmap stands for; a power of two [default: 64M, or more
    /// where there is no room for so many].
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    bitmap_chunk: Option<u64>,
    /// Whether there is a write-intent bitmap. Without one, all of the array is resynced after a
    /// crash.
    #[arg(long, value_enum, default_value_t = Bitmap::Internal)]
    bitmap: Bitmap,
    /// Take the legs for equal: no resync at the first start.
    #[arg(long)]
    assume_clean: bool,
    /// Keep this machine's mdadm from assembling the array by itself: adds a line to mdadm.conf, or
    /// to FILE.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    host_config: Option<Option<PathBuf>>,
    /// Destroy what lies on the legs.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    control: ControlArgs,
}

/// How an array keeps its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Level {
    /// All of it on every leg.
    Raid1,
    /// Several copies of each chunk, on legs in turn.
    Raid10,
}

/// Whether there is a write-intent bitmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Bitmap {
    /// On the legs.
    Internal,
    /// Nowhere.
    None,
}

fn parse_bytes(text: &str) -> Result<u64, String> {
    parse_size(text).map_err(|error| error.to_string())
}

fn parse_write_behind(text: &str) -> Result<u32, String> {
    let writes = text
        .parse()
        .ok()
        .filter(|writes| *writes <= WRITE_BEHIND_MAX);
    writes.ok_or_else(|| {
        format!(
            "it is a number of writes, 0 to {WRITE_BEHIND_MAX}; in front of a leg say it with '=', \
             as in --write-behind=256"
        )
    })
}

/// Makes the array and says what it is.
pub(crate) fn run(args: &CreateArgs) -> anyhow::Result<()> {
    let options = CreateOptions {
        name: args.name.clone(),
        host: host_name(),
        layout: layout(args)?,
        legs: legs(args)?,
        spares: spares(args)?,
        bitmap: bitmap(args)?,
        assume_clean: args.assume_clean,
        force: args.force,
        places: args.control.places()?,
    };
    options.check()?;
    let host_config = args.host_config.as_ref();
    let host_config = host_config.map(|file| HostConfig::choose(file.as_deref()));
    // Before anything is made that would be incomplete without it.
    host_config.as_ref().map_or(Ok(()), HostConfig::check)?;
    let created = heliostat_runtime::create(&options, &mut Lines)?;
    let name = &options.name;
    let mut out = stdout().lock();
    writeln!(
        out,
        "array {name}: {} ({} bytes), {} of {} legs, UUID {}",
        format_size(created.size_bytes),
        created.size_bytes,
        options.layout,
        options.legs.len(),
        created.uuid
    )?;
    writeln!(
        out,
        "each leg: {} for data from byte {} on, {}",
        format_size(created.leg_bytes),
        created.data_offset_bytes,
        match created.bitmap_chunk_bytes {
            Some(chunk) => format!("a bitmap with a bit for each {}", format_size(chunk)),
            None => "no bitmap".to_owned(),
        }
    )?;
    let repeated = args.control.repeated();
    writeln!(
        out,
        "serve it: heliostat serve {name}{repeated} --export '{}'",
        export(args, &options)
    )?;
    drop(out);
    let uuid = created.uuid.to_string();
    let Some(config) = host_config else {
        writeln!(
            stdout(),
            "This machine's mdadm may assemble the legs by itself when it sees them. What keeps it \
             from that: heliostat host-config {name}{repeated}\nwhich adds to mdadm.conf: {}",
            ignore_line(&uuid)
        )?;
        return Ok(());
    };
    let changes = config.ignore(name, &uuid);
    let changes = changes.with_context(|| format!("{name} was made, but"))?;
    let undo = host_config::undo(name, args.host_config.clone().flatten(), &args.control);
    host_config::tell(name, &changes, Some(&undo))
}

/// Where clients could find it: beside what else is of this array.
fn export(args: &CreateArgs, options: &CreateOptions) -> ExportUri {
    let name = &options.name;
    let path = if args.control.repeated().is_empty() && options.places.control.starts_with("/run") {
        PathBuf::from(format!("/run/{name}.sock"))
    } else {
        options.places.control.join(format!("{name}.nbd"))
    };
    ExportUri {
        endpoint: Endpoint::Unix(path),
        export: name.clone(),
    }
}

fn layout(args: &CreateArgs) -> Result<Layout, UsageError> {
    if args.level == Level::Raid1 {
        if args.chunk.is_some() {
            return Err(UsageError(
                "--chunk is for raid10: a mirror has no chunks".to_owned(),
            ));
        }
        return Ok(Layout::Mirror);
    }
    let told = |error: &dyn std::fmt::Display| UsageError(error.to_string());
    match Layout::parse(&args.layout).map_err(|error| told(&error))? {
        Layout::Mirror => Err(UsageError(
            "a raid10 is near=K, far=K or offset=K; for a mirror of all legs use --level raid1"
                .to_owned(),
        )),
        Layout::Raid10(raid10) => {
            let chunk = args.chunk.unwrap_or(Raid10::CHUNK_DEFAULT_BYTES);
            let raid10 = raid10.with_chunk_bytes(chunk);
            Ok(Layout::Raid10(raid10.map_err(|error| told(&error))?))
        }
    }
}

fn legs(args: &CreateArgs) -> Result<Vec<CreateLeg>, UsageError> {
    let flags = [
        ("--write-mostly", &args.write_mostly),
        ("--failfast", &args.failfast),
    ];
    for (flag, named) in flags {
        let is_known = |name: &&String| args.legs.contains(name) || is_all(flag, name);
        if let Some(name) = named.iter().find(|name| !is_known(name)) {
            return Err(UsageError(format!(
                "{flag} {name} is none of the legs; write it as the leg is written"
            )));
        }
    }
    let fails_fast = |leg: &String| {
        let mut named = args.failfast.iter();
        named.any(|name| name == leg || is_all("--failfast", name))
    };
    let mut legs = Vec::new();
    for (at, text) in args.legs.iter().enumerate() {
        let spec = if text == "missing" {
            None
        } else if !text.contains(['/', ':']) {
            return Err(UsageError(format!(
                "'{text}' is no leg: a path has a '/' in it, as in ./{text}, and 'missing' stands \
                 for a leg that is to be added later"
            )));
        } else if args.legs[..at].contains(text) {
            return Err(UsageError(format!(
                "{text} is named twice; a mirror needs different legs"
            )));
        } else {
            let spec = LegSpec::parse(text);
            Some(spec.map_err(|error| UsageError(error.to_string()))?)
        };
        legs.push(CreateLeg {
            spec,
            write_mostly: args.write_mostly.contains(text),
            failfast: fails_fast(text),
        });
    }
    Ok(legs)
}

/// Whether a flag is for all legs: no leg is called so.
fn is_all(flag: &str, name: &str) -> bool {
    flag == "--failfast" && name == "all"
}

/// Those that wait to be needed.
fn spares(args: &CreateArgs) -> Result<Vec<LegSpec>, UsageError> {
    let mut spares = Vec::new();
    for (at, text) in args.spare.iter().enumerate() {
        if args.legs.contains(text) || args.spare[..at].contains(text) {
            return Err(UsageError(format!(
                "{text} is named twice; a spare is a leg of its own"
            )));
        }
        let spec = LegSpec::parse(text);
        spares.push(spec.map_err(|error| UsageError(error.to_string()))?);
    }
    Ok(spares)
}

fn bitmap(args: &CreateArgs) -> Result<Option<NewBitmap>, UsageError> {
    if args.bitmap == Bitmap::None {
        if args.bitmap_chunk.is_some() {
            return Err(UsageError(
                "--bitmap-chunk and --bitmap none contradict each other".to_owned(),
            ));
        }
        if args.write_behind.is_some_and(|writes| writes > 0) {
            return Err(UsageError(
                "--write-behind needs a bitmap: it says after a crash where legs were behind"
                    .to_owned(),
            ));
        }
        return Ok(None);
    }
    let chunk_bytes = args.bitmap_chunk.map(u32::try_from).transpose();
    let chunk_bytes = chunk_bytes
        .map_err(|_| UsageError("a bit of the bitmap stands for less than 4 GiB".to_owned()))?;
    Ok(Some(NewBitmap {
        chunk_bytes,
        write_behind_max: args.write_behind.unwrap_or(0),
    }))
}

/// What this machine is called, where that is known.
fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim().split('.').next()?.to_owned();
    (!name.is_empty() && name != "localhost").then_some(name)
}
