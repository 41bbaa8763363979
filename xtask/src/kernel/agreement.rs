//! Comparing what the kernel, mdadm and heliostat say.

use std::fs;

use anyhow::{Context, Result, ensure};

use super::case::Place;
use crate::e2e::room::Room;

/// `said`, whose lines may stand in one, is as expected.
///
/// # Errors
/// Where it is not; the error has both.
pub(super) fn expect(what: &str, said: &str, expected: &str) -> Result<()> {
    let said = said.trim().replace('\n', ", ");
    ensure!(said == expected, "{what}: {said}\n  expected: {expected}");
    Ok(())
}

/// Keeps what heliostat says of legs before a guest changes them, for [`agree`], and what it makes
/// of those that the guest is given, for [`agree_on_members`].
///
/// # Errors
/// Where it finds fault.
pub(super) fn keep(place: &Place, legs: &str, given: &str) -> Result<()> {
    for leg in legs.split(' ') {
        let ours = place.judge(&format!("bytes {leg}"))?;
        fs::write(place.drive(&format!("before-{leg}.bytes")), ours)?;
    }
    let ours = place.judge(&format!("assembly {given}"))?;
    fs::write(place.drive("assembled"), ours)?;
    Ok(())
}

/// What each leg was to the kernel when it had assembled the array is what [`keep`] kept, and what
/// it was when the kernel stopped the array is what heliostat makes of it now.
///
/// # Errors
/// Where it is not; the error has both.
pub(super) fn agree_on_members(place: &Place, legs: &str) -> Result<()> {
    agree_on_assembled(place)?;
    agree_on_stopped(place, legs)
}

/// Both sides say the same of legs that the guest took over: as it found them, and as it left
/// them. The copies have these tags then.
///
/// # Errors
/// Where they do not; the error has both.
pub(super) fn agree_throughout(place: &Place, legs: &str, copies: &str) -> Result<()> {
    agree(place, "before", legs)?;
    agree(place, "after", legs)?;
    agree_on_members(place, legs)?;
    expect(
        "the copies",
        &place.judge(&format!("copies {legs}"))?,
        copies,
    )
}

/// What each leg was to the kernel when it had assembled the array is what [`keep`] kept.
///
/// # Errors
/// Where it is not; the error has both.
pub(super) fn agree_on_assembled(place: &Place) -> Result<()> {
    let kept = fs::read_to_string(place.drive("assembled"));
    if let Ok(kept) = kept {
        let said = known_only(&plain(&place.said("assembled")?), &kept);
        expect("the kernel assembled", &said, &plain(&kept))?;
    }
    Ok(())
}

/// What each leg was when the kernel stopped the array is what heliostat makes of it now.
///
/// # Errors
/// Where it is not; the error has both.
pub(super) fn agree_on_stopped(place: &Place, legs: &str) -> Result<()> {
    let ours = place.judge(&format!("assembly {legs}"))?;
    expect(
        "the kernel stopped",
        &plain(&place.said("stopped")?),
        &plain(&ours),
    )
}

/// The lines of the kernel about legs of which heliostat said something.
fn known_only(said: &str, ours: &str) -> String {
    let name = |line: &str| line.split(' ').next().map(str::to_owned);
    let known = |line: &&str| ours.lines().any(|other| name(other) == name(line));
    said.split(", ")
        .filter(known)
        .collect::<Vec<_>>()
        .join(", ")
}

/// What legs are, in one line and the words that both sides know: a leg that failed is out, and
/// how a leg is to be read is no part of its state.
fn plain(said: &str) -> String {
    let lines = said.lines().map(|line| {
        let line = line.replace(",write_mostly", "").replace(",failfast", "");
        match line.strip_suffix(" none faulty") {
            Some(leg) => format!("{leg} out"),
            None => line,
        }
    });
    lines.collect::<Vec<_>>().join(", ")
}

/// What mdadm said of legs, in the files that `examine` of the guest's functions left, is what
/// heliostat says of them: what was kept of it, or what it says now.
///
/// # Errors
/// Where it is not; the error names the line.
pub(super) fn agree(place: &Place, when: &str, legs: &str) -> Result<()> {
    for leg in legs.split(' ') {
        let kept = fs::read_to_string(place.drive(&format!("{when}-{leg}.bytes")));
        let ours = kept.or_else(|_| place.judge(&format!("bytes {leg}")))?;
        agree_on_leg(place, &format!("{when}-{leg}"), &ours)
            .with_context(|| format!("{leg} {when}"))?;
    }
    Ok(())
}

/// What mdadm said of legs is what `heliostat examine` says of them now, to people and to programs.
///
/// # Errors
/// Where it is not; the error names the line.
pub(super) fn agree_with_examine(place: &Place, when: &str, legs: &str) -> Result<()> {
    let room = place.room()?;
    let program = room.program.display().to_string();
    for leg in legs.split(' ') {
        let path = place.drive(leg).display().to_string();
        let page = room.listen(&program, &["examine", &path])?;
        let json = room.listen(&program, &["examine", "--json", &path])?;
        ensure!(page.status == json.status, "{leg}: text and JSON differ");
        let told = |error| format!("{leg}, as heliostat examine shows it{error}");
        let ours = told_by_examine(&page.stdout);
        agree_on_leg(place, &format!("{when}-{leg}"), &ours).with_context(|| told(""))?;
        let object: serde_json::Value = serde_json::from_str(&json.stdout)?;
        agree_on_json(&object, &ours).with_context(|| told(" as JSON"))?;
    }
    Ok(())
}

/// The fields that `heliostat examine` shows of a leg, of its superblock and of its bitmap.
///
/// # Errors
/// Where it cannot be run.
pub(super) fn shown_fields(place: &Place, room: &Room, leg: &str) -> Result<Vec<(String, String)>> {
    let path = place.drive(leg).display().to_string();
    let page = room.listen(&room.program.display().to_string(), &["examine", &path])?;
    let told = told_by_examine(&page.stdout);
    let mut shown = fields(&told, "superblock/");
    shown.extend(fields(&told, "bitmap/"));
    Ok(shown)
}

/// What `heliostat examine` shows, in the lines that the judge has for it.
fn told_by_examine(page: &str) -> String {
    let mut part = "superblock";
    let mut told = String::new();
    for line in page.lines() {
        if line.contains(": bitmap at") {
            part = "bitmap";
        } else if line.contains(": bad blocks,") {
            part = "bad blocks";
        } else if line.contains(" : ") || (part == "bad blocks" && line.ends_with(" sectors")) {
            told += &format!("{part}/{}\n", line.trim());
        }
    }
    told
}

/// The numbers for programs are those for people.
fn agree_on_json(object: &serde_json::Value, page: &str) -> Result<()> {
    let superblock = fields(page, "superblock/");
    let bitmap = fields(page, "bitmap/");
    let pairs = [
        ("Events", &superblock, &object["superblock"]["events"]),
        (
            "Array UUID",
            &superblock,
            &object["superblock"]["array_uuid"],
        ),
        (
            "Device UUID",
            &superblock,
            &object["superblock"]["device_uuid"],
        ),
        (
            "Raid Devices",
            &superblock,
            &object["superblock"]["raid_devices"],
        ),
        ("Events", &bitmap, &object["bitmap"]["events"]),
        (
            "Events Cleared",
            &bitmap,
            &object["bitmap"]["events_cleared"],
        ),
    ];
    for (name, fields, value) in pairs {
        let Some((_, shown)) = fields.iter().find(|(other, _)| other == name) else {
            ensure!(value.is_null(), "{name} is {value}, and not shown");
            continue;
        };
        let value = value.to_string();
        ensure!(value.trim_matches('"') == shown, "{name}: {value}, {shown}");
    }
    Ok(())
}

fn agree_on_leg(place: &Place, name: &str, ours: &str) -> Result<()> {
    for (part, kind) in [("superblock", "examine"), ("bitmap", "bitmap")] {
        let said = place.said(&format!("{name}.{kind}"))?;
        let (mut said, ours) = (fields(&said, ""), fields(ours, &format!("{part}/")));
        // Of a bitmap it says what it would be even where there is none.
        let has_magic = |(name, value): &(String, String)| name == "Magic" && value != "00000000";
        if !said.iter().any(has_magic) {
            said.clear();
        }
        ensure!(
            said.is_empty() == ours.is_empty(),
            "one finds a {part}: {said:?}, {ours:?}"
        );
        for (name, value) in said {
            let field = ours.iter().find(|(other, _)| *other == name);
            let (_, other) = field.with_context(|| format!("the {part} has no {name}"))?;
            ensure!(
                value == *other,
                "{part}, {name}: {other}\n  mdadm says: {value}"
            );
        }
    }
    let said = place.said(&format!("{name}.badblocks"))?;
    let said = said
        .lines()
        .map(str::trim)
        .filter(|line| line.ends_with(" sectors"));
    let ours = ours
        .lines()
        .filter_map(|line| line.strip_prefix("bad blocks/"));
    let (said, ours): (Vec<&str>, Vec<&str>) = (said.collect(), ours.collect());
    ensure!(said == ours, "bad blocks: {ours:?}\n  mdadm says: {said:?}");
    Ok(())
}

/// The lines of a text that begin so and are fields: their names, and what both sides say.
fn fields(text: &str, beginning: &str) -> Vec<(String, String)> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(beginning));
    let fields = lines.filter_map(|line| {
        let (name, value) = line.split_once(" : ")?;
        let words: Vec<&str> = value.split_whitespace().collect();
        let name = name.trim();
        // What the device is called only mdadm knows, and only it says when sizes are in which
        // other unit, and of which host a name is. All times are UTC, and only we say so.
        let value = words.join(" ");
        let value = match name {
            "Filename" => return None,
            "Creation Time" | "Update Time" => value.trim_end_matches(" UTC"),
            "Avail Dev Size" | "Array Size" | "Used Dev Size" | "Sync Size" | "Name" => {
                value.split(" (").next().unwrap_or_default()
            }
            _ => &value,
        };
        Some((name.to_owned(), value.to_owned()))
    });
    fields.collect()
}

#[cfg(test)]
mod tests {
    use super::{expect, fields, known_only, plain};

    #[test]
    fn fields_are_what_both_sides_can_say() {
        let said = "/dev/vdd:\n   Array Size : 6144 KiB (6.00 MiB 6.29 MB)\n  Events : 20\n\
                    Creation Time : Tue Nov  4 22:13:20 2023\n  Filename : /dev/vdd\n";
        let ours = "superblock/Array Size : 6144 KiB (6 MiB)\nsuperblock/Events : 20\n\
                    bitmap/Events : 19\n\
                    superblock/Creation Time : Tue Nov  4 22:13:20 2023 UTC\n";
        let said = fields(said, "");
        assert_eq!(said, fields(ours, "superblock/"));
        assert_eq!(said.len(), 3);
        assert_eq!(said[0].1, "6144 KiB");
    }

    #[test]
    fn a_failed_leg_is_out() {
        let said = "a 0 in_sync,write_mostly\nb none faulty\nc none spare\nresync 0\n";
        let said = plain(said);
        assert_eq!(said, "a 0 in_sync, b out, c none spare, resync 0");
        let said = known_only(&said, "a 0 in_sync\nresync none\n");
        assert_eq!(said, "a 0 in_sync, resync 0");
        assert!(expect("legs", "a 1\nb 2\n", "a 1, b 2").is_ok());
        assert!(expect("legs", "a 1\n", "a 1, b 2").is_err());
    }
}
