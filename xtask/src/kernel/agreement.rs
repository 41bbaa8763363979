//! Comparing what the kernel, mdadm and heliostat say.

use std::fs;

use anyhow::{Context, Result, ensure};

use super::case::Place;

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
    let kept = fs::read_to_string(place.drive("assembled"));
    if let Ok(kept) = kept {
        let said = known_only(&plain(&place.said("assembled")?), &kept);
        expect("the kernel assembled", &said, &plain(&kept))?;
    }
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
        let line = line.replace(",write_mostly", "");
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

fn agree_on_leg(place: &Place, name: &str, ours: &str) -> Result<()> {
    let said = |kind: &str| -> Result<String> {
        let text = place.said(&format!("{name}.{kind}"))?;
        // Columns are padded.
        let lines = text.lines().map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.join(" ")
        });
        Ok(lines.collect::<Vec<_>>().join("\n"))
    };
    let (examine, bitmap, bad) = (said("examine")?, said("bitmap")?, said("badblocks")?);
    if ours.trim() == "no superblock" {
        ensure!(
            examine.contains("No md superblock"),
            "mdadm found a superblock: {examine}"
        );
        return Ok(());
    }
    for line in ours.lines() {
        let (key, value) = line.split_once(": ").context("KEY: VALUE")?;
        let (text, expected) = match key {
            "version" => (&examine, format!("Version : {value}")),
            "features" => (&examine, format!("Feature Map : {value}")),
            "array" => (&examine, format!("Array UUID : {value}")),
            "leg" => (&examine, format!("Device UUID : {value}")),
            "state" => (&examine, format!("State : {value}")),
            "events" => (&examine, format!("Events : {value}")),
            "role" => (&examine, format!("Device Role : {value}")),
            "flags" => (&examine, format!("Flags : {value}")),
            "roles" => (&examine, format!("Array State : {value} ")),
            "recovered" => (&examine, format!("Recovery Offset : {value} sectors")),
            "data offset" => (&examine, format!("Data Offset : {value} sectors")),
            "bitmap events" => (&bitmap, format!("Events : {value}")),
            "bitmap cleared" => (&bitmap, format!("Events Cleared : {value}")),
            "bitmap" => (&bitmap, format!("Bitmap : {value}")),
            "bad" => (&bad, value.to_owned()),
            // Which ones is not for mdadm to say.
            "bits" => continue,
            _ => anyhow::bail!("array_judge says {line}"),
        };
        let is_said = text.lines().any(|line| line.starts_with(&expected));
        ensure!(is_said, "mdadm does not say \"{expected}\": {text}");
    }
    let is_whole = examine
        .lines()
        .any(|line| line.starts_with("Checksum : ") && line.ends_with(" - correct"));
    ensure!(is_whole, "the sum is not correct: {examine}");
    Ok(())
}
