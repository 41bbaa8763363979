//! What superblocks and bitmaps say, in the words of mdadm, for people who compare.
//!
//! Names of fields and numbers are those of `mdadm --examine` and `--examine-bitmap`; sizes beside
//! them are told in our own units, times in UTC, and there are a few fields that mdadm keeps for
//! itself.

use std::fmt::Write as _;

use heliostat_types::SECTOR_BYTES;
use stdx::units::format_size;

use crate::check::level_name;
use crate::raid10::Raid10Word;
use crate::{BitmapBits, BitmapState, BitmapSuper, DeviceFlags, Features, Minor, Role, Superblock};
use crate::{RESYNC_DONE, Stamp};

/// The sectors behind a superblock that mdadm wants to be free of data when it reshapes.
const RESERVED_SECTORS: u64 = 72;

/// A field's name, and what it says.
pub type Field = (&'static str, String);

/// All that a superblock says. `checksum` is what is written in it and what its bytes have, as
/// [`Superblock::checksums`] has them; `bitmap` that of the same leg.
#[must_use]
pub fn describe_superblock(
    superblock: &Superblock,
    minor: Minor,
    checksum: (u32, u32),
    bitmap: Option<&BitmapSuper>,
) -> Vec<Field> {
    let mut fields = vec![
        ("Magic", "a92b4efc".to_owned()),
        ("Version", minor.to_string()),
        ("Feature Map", format!("{:#x}", superblock.features.0)),
        ("Array UUID", superblock.set_uuid.to_string()),
        ("Name", superblock.name()),
        ("Creation Time", moment(superblock.ctime)),
        ("Raid Level", level_name(superblock.level).to_lowercase()),
        ("Raid Devices", superblock.raid_disks.to_string()),
    ];
    sizes(superblock, minor, bitmap, &mut fields);
    let is_clean = superblock.resync_offset_sectors == RESYNC_DONE;
    let state = if is_clean { "clean" } else { "active" };
    fields.push(("State", state.to_owned()));
    if !is_clean {
        let offset = superblock.resync_offset_sectors;
        fields.push(("Resync Offset", format!("{offset} sectors")));
    }
    fields.push(("Device UUID", superblock.device_uuid.to_string()));
    fields.push(("Device Number", superblock.dev_number.to_string()));
    places(superblock, &mut fields);
    let (stored, computed) = checksum;
    let verdict = if stored == computed {
        "correct".to_owned()
    } else {
        format!("expected {computed:x}")
    };
    fields.push(("Checksum", format!("{stored:x} - {verdict}")));
    fields.push(("Events", superblock.events.to_string()));
    if superblock.level == 10 {
        fields.push(("Layout", layout(superblock.layout, superblock.raid_disks)));
    }
    if matches!(superblock.level, 0 | 4..=6 | 10) {
        let chunk_bytes = u64::from(superblock.chunk_sectors) * SECTOR_BYTES;
        fields.push(("Chunk Size", format!("{}K", chunk_bytes / 1024)));
    }
    fields.push(("Device Role", role(superblock)));
    fields.push(("Array State", array_state(superblock)));
    fields
}

/// How much there is, and how much of it is used.
fn sizes(
    superblock: &Superblock,
    minor: Minor,
    bitmap: Option<&BitmapSuper>,
    fields: &mut Vec<Field>,
) {
    let sectors = |count: u64| {
        let bytes = count.saturating_mul(SECTOR_BYTES);
        format!("{count} sectors ({})", format_size(bytes))
    };
    let (size, data_size) = (superblock.size_sectors, superblock.data_size_sectors);
    fields.push(("Avail Dev Size", sectors(data_size)));
    let kib = |count: u64| {
        let bytes = count.saturating_mul(SECTOR_BYTES);
        format!("{} KiB ({})", count / 2, format_size(bytes))
    };
    let array_sectors = superblock.array_sectors();
    if let Some(counted) = counted_sectors(superblock).or(array_sectors) {
        fields.push(("Array Size", kib(counted)));
        if let Some(served) = array_sectors.filter(|&served| served / 2 != counted / 2) {
            fields.push(("Served Size", kib(served)));
        }
    }
    if size != data_size {
        fields.push(("Used Dev Size", sectors(size)));
    }
    let data_offset = superblock.data_offset_sectors;
    fields.push(("Data Offset", format!("{data_offset} sectors")));
    if superblock.features.contains(Features::NEW_OFFSET) {
        let moved = i64::from(superblock.new_offset_sectors);
        if let Some(offset) = data_offset.checked_add_signed(moved) {
            fields.push(("New Offset", format!("{offset} sectors")));
        }
    }
    let super_offset = superblock.super_offset_sectors;
    fields.push(("Super Offset", format!("{super_offset} sectors")));
    if superblock.features.contains(Features::RECOVERY_OFFSET) {
        let offset = superblock.recovery_offset_sectors;
        fields.push(("Recovery Offset", format!("{offset} sectors")));
    }
    if !superblock.features.contains(Features::NEW_OFFSET) {
        let before = unused_before(superblock, minor, bitmap);
        let after = match minor {
            Minor::End => unused_behind(superblock),
            Minor::Start | Minor::Behind4K => data_size.saturating_sub(size),
        };
        let told = format!("before={before} sectors, after={after} sectors");
        fields.push(("Unused Space", told));
    }
}

/// The size of a RAID10 as mdadm counts it, without looking whether chunks come out whole.
fn counted_sectors(superblock: &Superblock) -> Option<u64> {
    let word = Raid10Word::parse(superblock.layout, superblock.raid_disks).ok()?;
    let all = superblock
        .size_sectors
        .checked_mul(u64::from(superblock.raid_disks))?;
    (superblock.level == 10).then_some(all / u64::from(word.copies()))
}

/// How much is free in front of the data.
fn unused_before(superblock: &Superblock, minor: Minor, bitmap: Option<&BitmapSuper>) -> u64 {
    let mut start = 0;
    if minor != Minor::End {
        start = superblock
            .super_offset_sectors
            .saturating_add(RESERVED_SECTORS);
        if let (Some(at), Some(Ok(bytes))) = (
            superblock.bitmap_sector(),
            bitmap.map(BitmapSuper::area_bytes),
        ) {
            start = start.max(at.saturating_add(bytes / SECTOR_BYTES));
        }
        if let Some(at) = superblock.bad_blocks_sector() {
            let sectors = u64::from(superblock.bad_blocks_size_sectors);
            start = start.max(at.saturating_add(sectors));
        }
    }
    superblock.data_offset_sectors.saturating_sub(start)
}

/// How much is free between the data and what lies at the end of the leg.
fn unused_behind(superblock: &Superblock) -> u64 {
    let others = [superblock.bitmap_sector(), superblock.bad_blocks_sector()];
    let end = superblock.super_offset_sectors;
    let end = others.into_iter().flatten().fold(end, u64::min);
    let data_end = superblock
        .data_offset_sectors
        .saturating_add(superblock.size_sectors);
    end.saturating_sub(data_end)
}

/// What else is on the leg, and how it is to be used.
fn places(superblock: &Superblock, fields: &mut Vec<Field>) {
    if superblock.features.contains(Features::BITMAP) {
        let offset = superblock.bitmap_offset_sectors;
        let told = format!("{offset} sectors from superblock");
        fields.push(("Internal Bitmap", told));
    }
    if superblock.features.contains(Features::RESHAPE) {
        let kib = superblock.reshape_position_sectors / 2;
        let told = format!("{kib} ({})", format_size(kib.saturating_mul(1024)));
        fields.push(("Reshape pos'n", told));
        let delta = i64::from(superblock.delta_disks);
        if delta != 0 {
            let disks = i64::from(superblock.raid_disks);
            let told = format!("{delta} ({}->{disks})", disks - delta);
            fields.push(("Delta Devices", told));
        }
    }
    if superblock.device_flags != DeviceFlags::default() {
        fields.push(("Flags", superblock.device_flags.to_string()));
    }
    fields.push(("Update Time", moment(superblock.utime)));
    if superblock.bad_blocks_size_sectors > 0 && superblock.bad_blocks_offset_sectors != 0 {
        let entries = u32::from(superblock.bad_blocks_size_sectors) * 64;
        let offset = superblock.bad_blocks_offset_sectors;
        let mut told = format!("{entries} entries available at offset {offset} sectors");
        if superblock.features.contains(Features::BAD_BLOCKS) {
            told += " - bad blocks present.";
        }
        fields.push(("Bad Block Log", told));
    }
    if superblock.corrected_reads > 0 {
        let count = superblock.corrected_reads.to_string();
        fields.push(("Corrected Reads", count));
    }
    if superblock.logical_block_bytes > 0 {
        let bytes = superblock.logical_block_bytes;
        fields.push(("Logical Block", format!("{bytes} bytes")));
    }
}

fn layout(word: u32, raid_disks: u32) -> String {
    match Raid10Word::parse(word, raid_disks) {
        Ok(word) if word.far == 1 => format!("near={}", word.near),
        Ok(word) if word.is_offset => format!("offset={}", word.far),
        Ok(word) => format!("far={}", word.far),
        Err(_) => format!("{word:#x}"),
    }
}

fn role(superblock: &Superblock) -> String {
    let is_replacement = superblock.features.contains(Features::REPLACEMENT);
    match superblock.role() {
        Some(Role::Active(role)) if is_replacement => format!("Replacement device {role}"),
        Some(Role::Active(role)) => format!("Active device {role}"),
        Some(Role::Journal) => "Journal".to_owned(),
        Some(role) => role.to_string(),
        None => format!("unknown: {} roles are listed", superblock.roles.len()),
    }
}

fn array_state(superblock: &Superblock) -> String {
    let mut text = String::new();
    let disks = u16::try_from(superblock.raid_disks).unwrap_or(u16::MAX);
    // No more than there are roles for.
    for disk in (0..disks).take(crate::ROLES_MAX) {
        let holders = superblock.roles.iter();
        let holders = holders.filter(|&&role| role == Role::Active(disk)).count();
        text.push(match holders {
            0 => '.',
            1 => 'A',
            _ => 'R',
        });
    }
    text + " ('A' == active, '.' == missing, 'R' == replacing)"
}

/// All that a bitmap says, and how many of its bits are set where they could be read.
#[must_use]
pub fn describe_bitmap(head: &BitmapSuper, bits: Option<&BitmapBits>) -> Vec<Field> {
    let mut state = String::new();
    for (bit, name) in [
        (BitmapState::STALE, "Stale"),
        (BitmapState::WRITE_ERROR, "Write error"),
    ] {
        if head.state.contains(bit) {
            let _ = write!(state, "{name} ");
        }
    }
    let state = if head.state.0 == 0 {
        "OK".to_owned()
    } else {
        format!("{state}({:#x})", head.state.0)
    };
    let write_mode = match head.write_behind_max {
        0 => "Normal".to_owned(),
        max => format!("Allow write behind, max {max}"),
    };
    let kib = head.sync_size_sectors / 2;
    let size = format_size(head.sync_size_sectors.saturating_mul(SECTOR_BYTES));
    let mut fields = vec![
        ("Magic", "6d746962".to_owned()),
        ("Version", head.version.to_string()),
        ("UUID", head.uuid.to_string()),
        ("Events", head.events.to_string()),
        ("Events Cleared", head.events_cleared.to_string()),
        ("State", state),
        ("Chunksize", chunk(head.chunk_bytes)),
        (
            "Daemon",
            format!("{}s flush period", head.daemon_sleep_seconds),
        ),
        ("Write Mode", write_mode),
        ("Sync Size", format!("{kib} ({size})")),
    ];
    if let Some(bits) = bits {
        let (dirty, all) = (bits.count_set(), bits.chunks());
        // As C rounds it: what lies in the middle goes to the even side.
        let percent = format!("{:.1}%", 100.0 * dirty as f64 / all.max(1) as f64);
        let told = format!("{all} bits (chunks), {dirty} dirty ({percent})");
        fields.push(("Bitmap", told));
    }
    fields
}

/// A chunk's size in the largest unit that divides it.
fn chunk(bytes: u32) -> String {
    for (unit, name) in [(1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")] {
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{} {name}", bytes / unit);
        }
    }
    format!("{bytes} B")
}

/// A moment as `ctime` has it, in UTC: `Sat Nov 21 16:18:54 2026 UTC`.
fn moment(stamp: Stamp) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let seconds = stamp.seconds();
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let index = |value: u64| usize::try_from(value).expect("a few");
    format!(
        "{} {} {day:2} {:02}:{:02}:{:02} {year} UTC",
        DAYS[index(days % 7)],
        MONTHS[index(month - 1)],
        time / 3600,
        time / 60 % 60,
        time % 60
    )
}

/// Year, month and day of the day `days` days after 1970-01-01.
fn date(days: u64) -> (u64, u64, u64) {
    // Years begin in March here, so that the day that some have comes last. 400 years have 146097
    // days, whichever they are; 719468 days before 1970 such a span began.
    let days = days + 719_468;
    let (span, day) = (days / 146_097, days % 146_097);
    // Worked example: the last day of a span, 146096, is of its year 399.
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (year * 365 + year / 4 - year / 100);
    // Five months in a row have 153 days.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let is_next_year = month >= 10;
    let month = if is_next_year { month - 9 } else { month + 3 };
    (span * 400 + year + u64::from(is_next_year), month, day)
}

#[cfg(test)]
mod tests;
