//! `--scan`: looks on all disks and partitions for the legs of an array.

use std::fs;
use std::os::unix::fs::FileExt;

use heliostat_format::{SUPERBLOCK_BYTES_MAX, Superblock, Uuid};

use crate::RuntimeError;
use crate::registry::Registered;

/// What a disk says of itself.
struct Seen {
    device: String,
    superblock: Superblock,
    /// Whether its sum is right, and it lies where it says.
    is_good: bool,
}

/// The legs of the array called `name`, on whatever disks and partitions of this machine have them.
/// Which array that is only good superblocks say. Its legs are all that have its identity, whatever
/// else is wrong with them: who serves it leaves them out, and says why.
///
/// # Errors
/// Where there is none, or several arrays are called so; the text says which.
pub fn scan(name: &str) -> Result<Registered, RuntimeError> {
    let mut seen = Vec::new();
    let mut unreadable = 0;
    for device in devices() {
        match superblock_of(device) {
            Ok(one) => seen.extend(one),
            Err(_) => unreadable += 1,
        }
    }
    let mut found: Vec<(Uuid, Vec<String>)> = Vec::new();
    for one in &seen {
        let uuid = one.superblock.set_uuid;
        let is_new = found.iter().all(|(known, _)| *known != uuid);
        if is_new && one.is_good && is_called(&one.superblock, name) {
            let legs = seen.iter().filter(|one| one.superblock.set_uuid == uuid);
            found.push((uuid, legs.map(|one| one.device.clone()).collect()));
        }
    }
    let hint = if unreadable > 0 {
        format!(" ({unreadable} could not be read: it may need root)")
    } else {
        String::new()
    };
    match &found[..] {
        [(uuid, legs)] => Ok(Registered::new(*uuid, legs.clone())),
        [] => Err(RuntimeError(format!(
            "no disk or partition here has a leg of an array called {name}{hint}"
        ))),
        several => {
            let lines = several
                .iter()
                .map(|(uuid, legs)| format!("\n  {uuid}: {}", legs.join(", ")));
            Err(RuntimeError(format!(
                "several arrays are called {name}:{}\nName the legs of the one that is meant.",
                lines.collect::<String>()
            )))
        }
    }
}

/// All disks and partitions that the kernel knows.
fn devices() -> Vec<String> {
    let table = fs::read_to_string("/proc/partitions").unwrap_or_default();
    // Two lines of heading; major, minor, blocks, name.
    let names = table.lines().skip(2);
    let names = names.filter_map(|line| line.split_whitespace().nth(3));
    names.map(|name| format!("/dev/{name}")).collect()
}

/// The first good superblock of a disk, or the first one at all.
fn superblock_of(device: String) -> std::io::Result<Option<Seen>> {
    let file = fs::File::open(&device)?;
    let size_bytes = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0))?;
    let mut damaged = None;
    for place in Superblock::places(size_bytes) {
        let mut bytes = [0; SUPERBLOCK_BYTES_MAX];
        file.read_exact_at(&mut bytes, place.offset_bytes())?;
        let Ok(superblock) = Superblock::parse_damaged(&bytes) else {
            continue;
        };
        let is_there = superblock.super_offset_sectors == place.sector;
        let is_good = is_there && Superblock::parse(&bytes).is_ok();
        let seen = Seen {
            device: device.clone(),
            superblock,
            is_good,
        };
        if is_good {
            return Ok(Some(seen));
        }
        damaged = damaged.or(Some(seen));
    }
    Ok(damaged)
}

/// Whether the array is called so, whatever machine it was made on.
fn is_called(superblock: &Superblock, name: &str) -> bool {
    let whole = superblock.name();
    whole == name || whole.split_once(':').is_some_and(|(_, own)| own == name)
}
