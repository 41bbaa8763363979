//! `--scan` where disks have metadata that lies: legs of the array that is looked for, and disks
//! beside them that have nothing to do with it.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::Test;
use super::hostile::{Golden, LYING, SAMPLE, rows, serve};
use super::legs::LoopDevice;
use super::room::Room;

pub(super) const TESTS: &[Test] = &[Test {
    name: "scan",
    about: "--scan beside disks whose metadata lies: the array is served, who lies is named",
    run: scan,
}];

/// What other disks say, or how long they are.
const NEIGHBOURS: &[&str] = &[
    "a wrong sum",
    "65535 roles",
    "2^54 sectors",
    "data that goes round",
    "bitmap behind the end of the leg",
];
const SHORT_BYTES: &[u64] = &[512, 4096, 4608];

fn scan(room: &Room) -> Result<()> {
    room.require_loop_devices()?;
    // Whoever else tests on this machine has other names.
    let name = format!("scanned-{}", std::process::id());
    let golden = Golden::make(room, "leg", &name)?;
    let first = golden.paths.first().context("three legs")?;
    let rows = rows();
    let mut others = Vec::new();
    let mut devices = Vec::new();
    for (number, told) in NEIGHBOURS.iter().enumerate() {
        let row = rows.iter().find(|row| row.name == *told);
        let row = row.with_context(|| format!("no row '{told}'"))?;
        let other = Golden::make(room, &format!("other-{number}"), &format!("other-{number}"))?;
        let written = other.write(Some(row), &[0, 1, 2])?;
        for path in &other.paths {
            devices.push(LoopDevice::attach(room, Path::new(path), 512)?);
        }
        others.push((other, written));
    }
    for bytes in SHORT_BYTES {
        let path = room.path(&format!("short-{bytes}.img"));
        fs::copy(first, &path)?;
        File::options().write(true).open(&path)?.set_len(*bytes)?;
        devices.push(LoopDevice::attach(room, &path, 512)?);
    }
    // Nobody lies, and then one of three.
    let said = scanned(room, &golden, &name)?;
    ensure!(said == "served", "all legs are good: {said}");
    let mut said_of = Vec::new();
    for row in rows.iter().step_by(SAMPLE) {
        let written = golden.write(Some(row), &[LYING])?;
        let said = scanned(room, &golden, &name).with_context(|| row.name.clone())?;
        if said == "refused" {
            golden.ensure_untouched(&written)?;
        }
        said_of.push((row.name.as_str(), said));
    }
    let refused = said_of.iter().filter(|(_, said)| *said == "refused");
    ensure!(
        refused.count() * 4 < said_of.len(),
        "most are served: {said_of:?}"
    );
    let first = said_of.first().context("there are rows")?;
    ensure!(*first == ("a wrong sum", "served without"), "{first:?}");
    for (other, written) in others {
        other.ensure_untouched(&written)?;
    }
    Ok(())
}

/// Looks for the array and serves it, and says what became of it.
fn scanned(room: &Room, golden: &Golden, name: &str) -> Result<&'static str> {
    let devices = golden.paths.iter();
    let devices = devices.map(|path| LoopDevice::attach(room, Path::new(path), 512));
    let devices: Vec<LoopDevice<'_>> = devices.collect::<Result<_>>()?;
    let said = serve(room, &[name.to_owned()], &["--scan", "--degraded-ok"])?;
    let text = &said.stderr;
    let lying = devices[LYING].path();
    Ok(match said.status.code() {
        Some(0) if text.contains("left out") => {
            ensure!(text.contains(lying), "{lying} should be named: {text}");
            "served without"
        }
        Some(0) => "served",
        _ => {
            let is_named = devices.iter().any(|device| text.contains(device.path()));
            ensure!(is_named, "a leg should be named: {text}");
            "refused"
        }
    })
}
