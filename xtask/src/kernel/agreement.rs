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

/// Keeps what heliostat says of legs before a guest changes them, for [`agree`].
///
/// # Errors
/// Where it finds fault.
pub(super) fn keep(place: &Place, when: &str, legs: &str) -> Result<()> {
    for leg in legs.split(' ') {
        let ours = place.judge(&format!("bytes {leg}"))?;
        fs::write(place.drive(&format!("{when}-{leg}.bytes")), ours)?;
    }
    Ok(())
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
