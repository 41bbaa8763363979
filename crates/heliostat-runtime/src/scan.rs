//! `--scan`: looks on all disks and partitions for the legs of an array.

use std::fs;
use std::os::unix::fs::FileExt;

use heliostat_format::{SUPERBLOCK_BYTES_MAX, Superblock, Uuid};

use crate::RuntimeError;
use crate::registry::Registered;

/// The legs of the array called `name`, on whatever disks and partitions of this machine have them.
///
/// # Errors
/// Where there is none, or several arrays are called so; the text says which.
pub fn scan(name: &str) -> Result<Registered, RuntimeError> {
    let mut found: Vec<(Uuid, Vec<String>)> = Vec::new();
    let mut unreadable = 0;
    for device in devices() {
        let Ok(superblock) = superblock_of(&device) else {
            unreadable += 1;
            continue;
        };
        let Some(superblock) = superblock.filter(|superblock| is_called(superblock, name)) else {
            continue;
        };
        let uuid = superblock.set_uuid;
        match found.iter_mut().find(|(known, _)| *known == uuid) {
            Some((_, legs)) => legs.push(device),
            None => found.push((uuid, vec![device])),
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

fn superblock_of(device: &str) -> std::io::Result<Option<Superblock>> {
    let file = fs::File::open(device)?;
    let size_bytes = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0))?;
    for place in Superblock::places(size_bytes) {
        let mut bytes = [0; SUPERBLOCK_BYTES_MAX];
        file.read_exact_at(&mut bytes, place.offset_bytes())?;
        if let Ok(superblock) = Superblock::parse(&bytes)
            && superblock.super_offset_sectors == place.sector
        {
            return Ok(Some(superblock));
        }
    }
    Ok(None)
}

/// Whether the array is called so, whatever machine it was made on.
fn is_called(superblock: &Superblock, name: &str) -> bool {
    let whole = superblock.name();
    whole == name || whole.split_once(':').is_some_and(|(_, own)| own == name)
}
