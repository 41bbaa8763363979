//! `heliostat examine`: what md metadata lies on a leg, and whether the leg could be served.
//!
//! Legs are opened for reading alone and nobody is kept out: a leg that is being served, or that
//! the kernel has, is shown as it is at that moment.

mod json;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Seek as _, SeekFrom, Write as _, stderr, stdout};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use heliostat_format::{
    BadBlocks, Field, FormatError, Found, Search, describe_bitmap, describe_superblock,
};
use heliostat_leg::LegSpec;
use heliostat_runtime::UsageError;
use stdx::units::format_size;

/// How much is looked at where no superblock lies.
const START_BYTES: u64 = 1 << 20;

/// How wide the names of fields are, so that all of mdadm's stand in a row.
const NAME_WIDTH: usize = 16;

/// How md superblocks begin, before version 1 as well.
const MAGIC: u32 = 0xa92b_4efc;

/// What `heliostat examine` is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ExamineArgs {
    /// Files, block devices, or exports of NBD servers (nbd://HOST/EXPORT,
    /// nbd+unix:///EXPORT?socket=PATH).
    #[arg(required = true)]
    legs: Vec<String>,
    /// One object on a line for each leg, and nothing else.
    #[arg(long)]
    json: bool,
}

/// What lies on a leg.
#[derive(Debug)]
struct Examined {
    leg: String,
    device_bytes: u64,
    /// The superblocks, the one that counts first.
    search: Search,
    /// What lies there instead, where there is none.
    instead: Option<String>,
}

impl Examined {
    /// Whether this could be part of an array that is served, and nothing of it is damaged.
    fn is_good(&self) -> bool {
        let found = self.search.found.first();
        found.is_some_and(|found| problem(found).is_none())
    }
}

/// What is wrong with a leg, where something is.
fn problem(found: &Found) -> Option<String> {
    let refusal = found.refusal.as_ref().map(ToString::to_string);
    let log = found.bad_blocks.as_ref().and_then(|log| log.as_ref().err());
    refusal
        .or_else(|| bitmap_error(found))
        .or_else(|| log.map(ToString::to_string))
}

/// Why the bitmap of a leg cannot be used, where it cannot.
fn bitmap_error(found: &Found) -> Option<String> {
    let error = found.bitmap.as_ref()?.as_ref().err()?;
    Some(error.to_string())
}

/// Reads and shows.
pub(crate) fn run(args: &ExamineArgs) -> anyhow::Result<ExitCode> {
    let mut is_good = true;
    let mut out = stdout().lock();
    for (index, leg) in args.legs.iter().enumerate() {
        let examined = match examine(leg) {
            Ok(examined) => examined,
            Err(error) => {
                if error.is::<UsageError>() {
                    return Err(error);
                }
                // The others may be what somebody wants to see.
                writeln!(stderr(), "error: {error:#}")?;
                is_good = false;
                continue;
            }
        };
        is_good &= examined.is_good();
        if args.json {
            writeln!(out, "{}", json::line(&examined)?)?;
        } else {
            let separator = if index == 0 { "" } else { "\n" };
            write!(out, "{separator}{}", page(&examined))?;
        }
    }
    out.flush()?;
    Ok(if is_good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Reads what lies on a leg.
fn examine(leg: &str) -> anyhow::Result<Examined> {
    let (device_bytes, mut read) = open(leg)?;
    let search = Search::run(device_bytes, &mut read);
    let search = search.with_context(|| format!("cannot read {leg}"))?;
    let instead = if search.is_empty() {
        let instead = instead(device_bytes, &mut read);
        Some(instead.with_context(|| format!("cannot read {leg}"))?)
    } else {
        None
    };
    Ok(Examined {
        leg: leg.to_owned(),
        device_bytes,
        search,
        instead,
    })
}

/// Reads so many bytes from an offset on.
type Read = Box<dyn FnMut(u64, usize) -> io::Result<Vec<u8>>>;

/// How large a leg is, and how it is read.
fn open(leg: &str) -> anyhow::Result<(u64, Read)> {
    if leg.contains("://") {
        return open_export(leg);
    }
    if leg.starts_with("mem:") || leg.starts_with("model:") {
        bail!(
            "{leg} cannot be examined: name a file, a block device or the export of an NBD server"
        );
    }
    // Looked at first: a pipe would be waited for until somebody writes to it.
    let kind = fs::metadata(leg).with_context(|| format!("cannot open {leg}"))?;
    let kind = kind.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        bail!("{leg} is neither a file nor a block device: name one of these");
    }
    let mut file = File::open(leg).with_context(|| format!("cannot open {leg}"))?;
    let size = file.seek(SeekFrom::End(0));
    let device_bytes = size.with_context(|| format!("cannot find out how large {leg} is"))?;
    let read = move |offset: u64, len: usize| -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    };
    Ok((device_bytes, Box::new(read)))
}

/// The same of what an NBD server exports.
fn open_export(leg: &str) -> anyhow::Result<(u64, Read)> {
    let spec = LegSpec::parse(leg).map_err(|error| UsageError(format!("leg {leg}: {error}")))?;
    let export = spec.open_export_to_read();
    let export = export.with_context(|| format!("{leg} is no export of an NBD server"))??;
    let device_bytes = export.info().size_bytes;
    let read = move |offset: u64, len: usize| -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        export
            .read_at(offset, &mut bytes)
            .map_err(io::Error::other)?;
        Ok(bytes)
    };
    Ok((device_bytes, Box::new(read)))
}

/// What lies where a superblock could be: another version of one, zeros, or something.
fn instead(
    device_bytes: u64,
    read: &mut dyn FnMut(u64, usize) -> io::Result<Vec<u8>>,
) -> io::Result<String> {
    // Version 0.90 lies in the last whole 64 KiB but one, in the byte order of its machine.
    let place = (device_bytes - device_bytes % 65_536).checked_sub(65_536);
    if let Some(place) = place {
        let head = read(place, 4)?;
        let head = [head[0], head[1], head[2], head[3]];
        if [u32::from_le_bytes(head), u32::from_be_bytes(head)].contains(&MAGIC) {
            return Ok(format!(
                "it has an md superblock of version 0.90, at byte {place}; give it one of version \
                 1 with mdadm --assemble --update=metadata"
            ));
        }
    }
    let len = START_BYTES.min(device_bytes);
    let bytes = read(0, usize::try_from(len).expect("a megabyte at most"))?;
    let what = if len == START_BYTES {
        "its first megabyte".to_owned()
    } else {
        format!("what there is of it ({len} bytes)")
    };
    Ok(match bytes.iter().position(|&byte| byte != 0) {
        None => format!("{what} is all zeros"),
        Some(at) => format!("{what} has data, from byte {at} on"),
    })
}

/// All of it for people.
fn page(examined: &Examined) -> String {
    let leg = &examined.leg;
    let mut text = String::new();
    for (place, error) in &examined.search.broken {
        let (minor, sector) = (place.minor, place.sector);
        let _ = writeln!(
            text,
            "{leg}: what begins as an md superblock of version {minor} at sector {sector} is none: \
             {error}"
        );
    }
    if let Some(instead) = &examined.instead {
        let size = format_size(examined.device_bytes);
        let _ = writeln!(text, "{leg}: no md superblock ({size}); {instead}");
    }
    if let Some((found, others)) = examined.search.found.split_first() {
        superblock(&mut text, leg, found, others);
    }
    text
}

/// A superblock with what lies beside it.
fn superblock(text: &mut String, leg: &str, found: &Found, others: &[Found]) {
    let place = found.place;
    let _ = writeln!(text, "{leg}: md superblock at sector {}", place.sector);
    fields(
        text,
        &describe_superblock(
            &found.superblock,
            place.minor,
            found.checksum,
            found.bitmap_super.as_ref(),
        ),
    );
    if let (Some(sector), Some(head)) = (found.superblock.bitmap_sector(), &found.bitmap_super) {
        let _ = writeln!(text, "\n{leg}: bitmap at sector {sector}");
        let bits = found.bitmap.as_ref().and_then(|bits| bits.as_ref().ok());
        fields(text, &describe_bitmap(head, bits));
    }
    if let Some(bad) = &found.bad_blocks {
        text.push('\n');
        bad_blocks(text, leg, bad);
    }
    for other in others {
        let (minor, sector) = (other.place.minor, other.place.sector);
        let array = other.superblock.set_uuid;
        let _ = writeln!(
            text,
            "\n{leg}: an older superblock as well, of version {minor} at sector {sector}, of the \
             array {array}"
        );
    }
    if let Some(refusal) = &found.refusal {
        let _ = writeln!(text, "\n{leg}: cannot be served: {refusal}");
    }
    if let Some(error) = bitmap_error(found) {
        let _ = writeln!(text, "\n{leg}: the bitmap cannot be used: {error}");
    }
}

fn fields(text: &mut String, fields: &[Field]) {
    for (name, value) in fields {
        let _ = writeln!(text, "{name:>NAME_WIDTH$} : {value}");
    }
}

fn bad_blocks(text: &mut String, leg: &str, bad: &Result<BadBlocks, FormatError>) {
    match bad {
        Ok(bad) if bad.is_empty() => {
            let _ = writeln!(text, "{leg}: no bad blocks are known");
        }
        Ok(bad) => {
            let _ = writeln!(text, "{leg}: bad blocks, from the start of the leg");
            for range in bad.ranges() {
                let len = range.end - range.start;
                let _ = writeln!(text, "{:>20} for {len} sectors", range.start);
            }
        }
        Err(error) => {
            let _ = writeln!(text, "{leg}: {error}");
        }
    }
}
