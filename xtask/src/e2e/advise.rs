//! Devices measured from outside, and what is said of them.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Test;
use super::legs::{self, LoopDevice, Mount};
use super::room::Room;
use super::server::Server;
use crate::process::Said;

pub(super) const TESTS: &[Test] = &[
    Test {
        name: "advise_mixed",
        about: "a disk and flash are told apart, md is told to read the flash, models are saved",
        run: mixed,
    },
    Test {
        name: "advise_export",
        about: "an emulated hard disk is found to be one over NBD, and stays as it is",
        run: export,
    },
    Test {
        name: "advise_bad_sector",
        about: "a spot that cannot be read is told, and the rest of the disk is measured",
        run: bad_sector,
    },
    Test {
        name: "advise_btrfs",
        about: "the devices of a btrfs are found, with their ids, and are read while it is mounted",
        run: btrfs,
    },
    Test {
        name: "advise_refused",
        about: "what tells nothing, fails or hangs is an error, and nothing is overwritten",
        run: refused,
    },
];

/// Seconds that tell a disk from flash also on a busy machine.
const SHORT: [&str; 2] = ["--time", "6s"];

fn advise(room: &Room, words: &[&str]) -> Result<Said> {
    let program = room.program.display().to_string();
    room.listen(&program, &[&["advise"], words].concat())
}

/// What it says for programs, where it has to succeed.
fn told(room: &Room, words: &[&str]) -> Result<Value> {
    let said = advise(room, &[&["--json"], words, &SHORT].concat())?;
    ensure!(said.status.success(), "{words:?}: {}", said.stderr);
    ensure!(said.stdout.lines().count() == 1, "{}", said.stdout);
    serde_json::from_str(&said.stdout).with_context(|| said.stdout.clone())
}

fn families(told: &Value) -> Vec<&str> {
    let legs = told["legs"].as_array().into_iter().flatten();
    legs.filter_map(|leg| leg["family"].as_str()).collect()
}

fn mixed(room: &Room) -> Result<()> {
    let saved = room.path_text("saved.toml");
    let (disk, flash) = ("model:hdd-7200-2tb,size=4g", "model:ssd-sata-256gb,size=4g");
    let found = told(room, &[disk, flash, "--save", &saved])?;
    let families = families(&found);
    ensure!(
        families.len() == 2 && families[0] == "hdd" && families[1] != "hdd",
        "{found}"
    );
    ensure!(found["best"]["md"] == "md write-mostly", "{found}");
    let settings = found["settings"].as_array().context("no settings")?;
    let md = settings
        .iter()
        .find(|row| row["setting"] == "md write-mostly");
    let command = md.and_then(|row| row["commands"][0].as_str());
    ensure!(
        command.is_some_and(|line| line.ends_with("/dev/LEG1 --write-mostly /dev/LEG0")),
        "{md:?}"
    );
    let program = room.program.display().to_string();
    let simulated = room.run(&program, &["sim", &saved, "--json", "--policies", "md"])?;
    let run: Value = serde_json::from_str(&simulated)?;
    ensure!(run["read"]["ios"].as_u64() > Some(0), "{simulated}");
    let shown = room.run(&program, &["model", "show", "leg0", "--file", &saved])?;
    ensure!(shown.contains("family = \"hdd\""), "{shown}");
    // What was saved can be emulated, and is then found to be what it was.
    let server = Server::emulate(room, "leg0", &["--models", &saved])?;
    let emulated = told(room, &[&server.uri()])?;
    server.terminate()?;
    ensure!(self::families(&emulated) == ["hdd"], "{emulated}");
    let again = advise(room, &[disk, flash, "--save", &saved])?;
    ensure!(again.status.code() == Some(2), "{}", again.stderr);
    ensure!(
        again.stderr.contains("is there already"),
        "{}",
        again.stderr
    );
    Ok(())
}

fn export(room: &Room) -> Result<()> {
    let server = Server::emulate(room, "hdd-7200-2tb", &["--size", "4g", "--read-only"])?;
    let found = told(room, &[&server.uri()])?;
    server.terminate()?;
    ensure!(families(&found) == ["hdd"], "{found}");
    ensure!(
        found.get("settings").is_none(),
        "one leg is no mirror: {found}"
    );
    Ok(())
}

/// A spot that cannot be read does not keep the rest from being known.
fn bad_sector(room: &Room) -> Result<()> {
    let disk = "model:hdd-7200-2tb,size=4g,error=read,range=8m+4k";
    let found = told(room, &[disk])?;
    ensure!(families(&found) == ["hdd"], "{found}");
    let caveats = found["legs"][0]["caveats"].to_string();
    ensure!(
        caveats.contains("of its reads failed, the first near byte 8388608"),
        "{caveats}"
    );
    Ok(())
}

fn btrfs(room: &Room) -> Result<()> {
    room.require_loop_devices()?;
    room.require_tools(&["mkfs.btrfs"])?;
    let files = legs::sparse(room)?;
    for file in &files {
        legs::resize(Path::new(file), 256 << 20)?;
    }
    let disks = [&files[0], &files[1]];
    let disks = disks.map(|file| LoopDevice::attach(room, Path::new(file), 512));
    let [one, other] = disks;
    let (one, other) = (one?, other?);
    let mut paths = [one.path(), other.path()];
    let raid1 = ["-q", "-f", "-d", "raid1", "-m", "raid1"];
    room.run("mkfs.btrfs", &[&raid1[..], &paths].concat())?;
    let directory = room.new_directory("mounted")?;
    let _mount = Mount::device(room, one.path(), &directory)?;
    let found = told(room, &["--btrfs", &directory.display().to_string()])?;
    let legs = found["legs"].as_array().context("no legs")?;
    let mut names: Vec<&str> = legs.iter().filter_map(|leg| leg["leg"].as_str()).collect();
    names.sort_unstable();
    paths.sort_unstable();
    ensure!(names == paths, "{found}");
    let caveats = legs[0]["caveats"].to_string();
    ensure!(caveats.contains("In use"), "{found}");
    let commands = found["settings"].to_string();
    ensure!(!commands.contains("UUID"), "{found}");
    ensure!(!commands.contains("is taken for devid"), "{found}");
    Ok(())
}

fn refused(room: &Room) -> Result<()> {
    let tiny = room.path_text("tiny");
    File::create_new(&tiny)?.set_len(1 << 20)?;
    let missing = room.path_text("missing");
    let file = legs::sparse(room)?.swap_remove(0);
    let again = room.path_text("again");
    fs::hard_link(&file, &again)?;
    let before = fs::metadata(&file)?.modified()?;
    let stuck = "model:ssd-sata-256gb,size=1g,stuck=true,at=0s";
    let failing = "model:ssd-sata-256gb,size=1g,error=read";
    for (words, code, text) in [
        (&[tiny.as_str()][..], 1, "less than 32 MiB"),
        (&[missing.as_str()], 1, "there is no such file"),
        (&["/dev/null"], 1, "neither a file nor a block device"),
        (&[failing], 1, "failed"),
        (&[stuck, "--time", "1s"], 1, "did not answer"),
        (&[file.as_str(), file.as_str()], 2, "name each once"),
        (&[file.as_str(), again.as_str()], 2, "name each once"),
        (&[file.as_str(), "--policies", "oracle"], 2, "oracle"),
        (&["--btrfs", "/proc"], 2, "not on btrfs"),
        (&["sda"], 2, "a path has a '/' in it"),
    ] {
        let said = advise(room, words)?;
        ensure!(
            said.status.code() == Some(code) && said.stderr.contains(text),
            "{words:?} ended with {}: {}",
            said.status,
            said.stderr
        );
    }
    let after = fs::metadata(&file)?.modified()?;
    ensure!(before == after, "{file} was written to");
    Ok(())
}
