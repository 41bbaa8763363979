//! One modelled drive by itself, as something else would stand on it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::Test;
use super::arrays::create_well;
use super::legs;
use super::room::Room;
use super::server::Server;
use crate::fio;

pub(super) const TESTS: &[Test] = &[
    Test {
        name: "emulate_file",
        about: "a modelled drive is its file, superblocks and all, and keeps nothing else",
        run: file,
    },
    Test {
        name: "emulate_time",
        about: "a modelled hard disk takes a hard disk's time, and its file shows it too",
        run: time,
    },
    Test {
        name: "emulate_refused",
        about: "what is no drive is refused, and so is the leg of a mirror",
        run: refused,
    },
];

/// What lies on a drive is its data, also where it looks like something of ours.
fn file(room: &Room) -> Result<()> {
    room.require_tools(&["qemu-io", "nbdcopy", "nbdinfo"])?;
    let legs = legs::sparse(room)?;
    create_well(room, &legs, &["--level", "raid1", "--assume-clean"])?;
    let (leg, copy) = (Path::new(&legs[0]), room.path("copy.img"));
    let kept = kept_names(room)?;
    let server = Server::emulate(room, "nvme-gen3", &["--file", &legs[0]])?;
    let said = room.listen("nbdinfo", &["--is", "rotational", &server.uri()])?;
    ensure!(said.status.code() == Some(2), "it turns: {}", said.stderr);
    let write = ["-f", "raw", "-c", "write -P 7 1m 64k", "-c", "flush"];
    room.run("qemu-io", &[&write[..], &[&server.uri()]].concat())?;
    room.run("nbdcopy", &[&server.uri(), &copy.display().to_string()])?;
    server.terminate()?;
    let differs = legs::first_difference(leg, &copy)?;
    ensure!(
        differs.is_none(),
        "what clients read differs at {differs:?}"
    );
    let bytes = fs::read(leg).with_context(|| format!("reading {}", leg.display()))?;
    ensure!(
        bytes.len() == 64 << 20,
        "the file has {} bytes",
        bytes.len()
    );
    ensure!(
        bytes[1 << 20..][..64 << 10].iter().all(|byte| *byte == 7),
        "what was written is not in the file"
    );
    let examined = room.run(&room.program.display().to_string(), &["examine", &legs[0]])?;
    ensure!(
        examined.contains("raid1"),
        "the superblock is gone: {examined}"
    );
    let kept_now = kept_names(room)?;
    ensure!(kept_now == kept, "{kept:?} became {kept_now:?}");
    Ok(())
}

/// What lies where things are kept, but for locks.
fn kept_names(room: &Room) -> Result<BTreeSet<String>> {
    let entries = fs::read_dir(room.path("control"))?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let names: Result<BTreeSet<String>> = names.collect();
    Ok(names?
        .into_iter()
        .filter(|name| !name.ends_with(".lock"))
        .collect())
}

fn iops(room: &Room, options: &[&str]) -> Result<f64> {
    let common = [
        "--name=reads",
        "--rw=randread",
        "--bs=4k",
        "--size=64m",
        "--thread",
    ];
    let time = ["--time_based", "--runtime=2", "--output-format=json"];
    let report = room.run("fio", &[&common[..], &time, options].concat())?;
    let jobs = fio::jobs(&report)?;
    let iops = jobs.first().and_then(|job| job["read"]["iops"].as_f64());
    iops.context("fio tells no IOPS")
}

fn time(room: &Room) -> Result<()> {
    room.require_tools(&["fio", "nbdinfo"])?;
    let by_nbd = |model: &str| -> Result<f64> {
        let server = Server::emulate(room, model, &["--size", "64m"])?;
        let found = iops(
            room,
            &["--ioengine=nbd", &format!("--uri={}", server.uri())],
        )?;
        server.terminate()?;
        Ok(found)
    };
    let (disk, memory) = (by_nbd("hdd-7200-2tb")?, by_nbd("ram")?);
    ensure!(
        disk > 0.0 && memory > 5.0 * disk,
        "a hard disk reads {disk} at random in a second, and memory {memory}"
    );
    room.require_fuse()?;
    let server = Server::emulate(
        room,
        "hdd-7200-2tb",
        &["--size", "64m", "--control-files", "on"],
    )?;
    // Whoever has it as a leg is told what it is.
    room.run("nbdinfo", &["--is", "rotational", &server.uri()])?;
    let volume = room.path("control").join("disk/volume");
    let by_file = format!("--filename={}", volume.display());
    let disk = iops(room, &["--direct=1", &by_file])?;
    server.terminate()?;
    ensure!(
        disk > 0.0 && memory > 5.0 * disk,
        "as a file a hard disk reads {disk} at random in a second"
    );
    Ok(())
}

fn refused(room: &Room) -> Result<()> {
    let legs = legs::sparse(room)?;
    let said = Server::emulation_refused(2, room, "floppy", &["--size", "64m"])?;
    ensure!(
        said.contains("there is no model 'floppy'; there are hdd-"),
        "{said}"
    );
    let absent = room.path_text("absent.img");
    let said = Server::emulation_refused(1, room, "ram", &["--file", &absent])?;
    ensure!(said.contains("there is no such file"), "{said}");
    let said = Server::emulation_refused(1, room, "ram", &["--size", "1g", "--file", &legs[0]])?;
    ensure!(said.contains("smaller than size="), "{said}");
    // Its other leg would not have what is written to it.
    let mirror: Vec<String> = legs[..2]
        .iter()
        .map(|leg| format!("model:ram,file={leg}"))
        .collect();
    Server::start(room, &mirror, &[])?.terminate()?;
    let said = Server::emulation_refused(1, room, "ram", &["--file", &legs[1]])?;
    ensure!(said.contains("is a leg of the mirror 'disk'"), "{said}");
    Ok(())
}
