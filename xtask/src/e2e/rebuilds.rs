//! Legs that come back by themselves: rebuilds that are cut short go on where they had come.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::Test;
use super::arrays::{create_well, ensure_clean, ensure_same_data, examined, wait_for_status};
use super::fio;
use super::legs;
use super::room::Room;
use super::server::{NAME, Server};

pub(super) const TESTS: &[Test] = &[
    Test {
        name: "rebuild_killed",
        about: "kill -9 in the middle of a rebuild, and a stop: it goes on where it had come",
        run: killed,
    },
    Test {
        name: "spare_takes_over",
        about: "a leg dies under fio verify: a spare is filled by itself; the next start too",
        run: spares,
    },
    Test {
        name: "replace_killed",
        about: "a leg is replaced under fio verify: refused, given up, killed half way, finished",
        run: replaced,
    },
];

/// How long a rebuild of these small and slow legs may take.
const REBUILD_TIME_MAX: Duration = Duration::from_secs(180);

/// A drive that takes a second for a few MiB, on this file.
pub(super) fn slow(file: &str) -> String {
    format!("model:hdd-5400-old,file={file},slow=20")
}

/// How much of the data on a leg is complete, in bytes, as mdadm reads it; `None` where mdadm says
/// nothing of it.
fn recovered_bytes(room: &Room, leg: &str) -> Result<Option<u64>> {
    // A new leg has no superblock at first.
    let said = room.listen("mdadm", &["--examine", leg])?;
    let line = said.stdout.lines().find_map(|line| {
        let (name, value) = line.split_once(" : ")?;
        (name.trim() == "Recovery Offset").then_some(value)
    });
    let Some(text) = line else { return Ok(None) };
    let sectors = text.trim().split(' ').next().unwrap_or_default();
    let sectors: u64 = sectors.parse().with_context(|| format!("'{text}'"))?;
    Ok(Some(sectors * 512))
}

/// Waits until a leg says that it has come so far. How far it says that it has.
fn wait_for_offset(room: &Room, leg: &str, bytes: u64) -> Result<u64> {
    let start = Instant::now();
    loop {
        if let Some(done) = recovered_bytes(room, leg)?
            && done >= bytes
        {
            return Ok(done);
        }
        ensure!(
            start.elapsed() < REBUILD_TIME_MAX,
            "{leg} does not come to {bytes}"
        );
        thread::sleep(Duration::from_millis(50));
    }
}

/// How many MiB a rebuild has copied that has ended.
fn copied_mib(said: &str) -> Result<f64> {
    let (_, rest) = said
        .split_once("rebuild: done; ")
        .with_context(|| format!("no rebuild has ended: {said}"))?;
    let mut words = rest.split(' ');
    let number: f64 = words.next().unwrap_or_default().parse()?;
    match words.next() {
        Some("MiB") => Ok(number),
        Some("KiB") => Ok(number / 1024.0),
        unit => anyhow::bail!("{number} of {unit:?}"),
    }
}

/// Serves the array again after a kill: the kernel takes a moment to let go of the files.
fn serve_again(room: &Room) -> Result<Server<'_>> {
    let start = Instant::now();
    loop {
        match Server::start(room, &[NAME.to_owned()], &[]) {
            Err(error) if format!("{error:#}").contains("is in use") => {
                ensure!(start.elapsed() < REBUILD_TIME_MAX, "{error:#}");
                thread::sleep(Duration::from_millis(100));
            }
            served => return served,
        }
    }
}

fn killed(room: &Room) -> Result<()> {
    room.require_tools(&["fio", "mdadm"])?;
    let legs = legs::sparse(room)?[..2].to_vec();
    let missing = [legs[0].clone(), "missing".to_owned()];
    let options = ["--level", "raid1", "--assume-clean", "--bitmap-chunk", "1M"];
    create_well(room, &missing, &options)?;
    let by_name = [NAME.to_owned()];
    let server = Server::start(room, &by_name, &[])?;
    let everywhere = ["--rw=write", "--bs=64k", "--numjobs=1"];
    fio::verify(room, &server.uri(), &everywhere)?;
    server.control(&["add", NAME, &slow(&legs[1])])?;
    let size_bytes = Path::new(&legs[1]).metadata()?.len();
    let first = wait_for_offset(room, &legs[1], size_bytes / 4)?;
    server.kill()?;
    // The leg is in its place in the superblocks of both, and known to be incomplete.
    ensure!(examined(room, &legs[0], "Array State")?.starts_with("AA"));
    ensure!(examined(room, &legs[1], "Device Role")? == "Active device 1");
    // No leg is missing, so that nobody has to be asked.
    let server = serve_again(room)?;
    let said = server.said()?;
    ensure!(said.contains("its rebuild goes on at"), "{said}");
    server.terminate()?;
    // Also one that is stopped in order says how far it is.
    let stopped = recovered_bytes(room, &legs[1])?;
    let second = stopped.context("it was stopped in the middle of the rebuild")?;
    ensure!(
        second >= first,
        "{first} bytes were there, and {second} are"
    );
    wait_read_only(room)?;
    ensure!(recovered_bytes(room, &legs[1])? == stopped);

    let server = Server::start(room, &by_name, &[])?;
    wait_for_status(&server, "2 of 2 legs in sync")?;
    let copied = copied_mib(&server.said()?)?;
    // Of 64 MiB at most.
    let left = 64.0 - f64::from(u32::try_from(second >> 20)?);
    ensure!(
        copied <= left,
        "{copied} MiB were copied, and all but {left} were there"
    );
    server.terminate()?;
    ensure!(recovered_bytes(room, &legs[1])?.is_none());
    ensure_clean(room, &legs)?;
    ensure_same_data(room, &legs)
}

/// Nobody waits for a rebuild that does not go on while the array is only read.
fn wait_read_only(room: &Room) -> Result<()> {
    let server = Server::start(room, &[NAME.to_owned()], &["--read-only"])?;
    let waited = server.listen(&["wait", NAME])?;
    let why = "is served read-only, and the rebuild goes on when";
    ensure!(waited.status.code() == Some(1), "{}", waited.stderr);
    ensure!(waited.stderr.contains(why), "{}", waited.stderr);
    let status = server.control(&["status", NAME])?;
    ensure!(status.contains("read-only, degraded"), "{status}");
    server.terminate()?;
    Ok(())
}

fn spares(room: &Room) -> Result<()> {
    room.require_tools(&["fio", "mdadm"])?;
    let mut legs = legs::sparse(room)?;
    let spares = [legs::sparse_file(room, 3)?, legs::sparse_file(room, 4)?];
    let options = ["--level", "raid1", "--assume-clean", "--spare", &spares[0]];
    create_well(room, &legs, &options)?;
    ensure!(examined(room, &spares[0], "Device Role")? == "spare");
    // One of the legs dies after a while.
    let dying = format!("model:ram,file={},dead=true,at=3s", legs[1]);
    let named = [&legs[0], &dying, &legs[2], &spares[0]].map(String::clone);
    let server = Server::start(room, &named, &["--name", NAME])?;
    wait_for_status(&server, &format!("spare: {}", spares[0]))?;
    let said = server.control(&["add", NAME, &spares[1]])?;
    ensure!(said.contains("is a spare now"), "{said}");
    ensure!(examined(room, &spares[1], "Device Role")? == "spare");
    let rewriting = ["--rw=randwrite", "--bs=4k", "--loops=8"];
    fio::verify(room, &server.uri(), &rewriting)?;
    let said = wait_for_status(&server, &format!("leg 1: {}, in-sync", spares[0]))?;
    ensure!(!said.contains(&format!("spare: {}", spares[0])), "{said}");
    server.terminate()?;
    legs[1].clone_from(&spares[0]);
    ensure_clean(room, &legs)?;
    ensure_same_data(room, &legs)?;
    ensure!(examined(room, &legs[1], "Device Role")? == "Active device 1");
    // And at a start that lacks a leg.
    let present = [&legs[0], &legs[1], &spares[1]].map(String::clone);
    let server = Server::start(room, &present, &["--name", NAME, "--degraded-ok"])?;
    wait_for_status(&server, &format!("leg 2: {}, in-sync", spares[1]))?;
    fio::verify(room, &server.uri(), &["--rw=randwrite", "--bs=4k"])?;
    server.terminate()?;
    legs[2].clone_from(&spares[1]);
    ensure_clean(room, &legs)?;
    ensure_same_data(room, &legs)
}

/// Clients that write all the time while something else goes on, and leave it some time to do so.
const BUSY: [&str; 4] = ["--rw=randrw", "--bs=4k", "--loops=50", "--rate_iops=5"];

fn replaced(room: &Room) -> Result<()> {
    room.require_tools(&["fio", "mdadm"])?;
    let files = [0, 1, 2, 3].map(|index| legs::sparse_file(room, index));
    let [kept, old, small, new] = files;
    let (kept, old, small, new) = (kept?, old?, small?, new?);
    let options = ["--level", "raid1", "--assume-clean", "--bitmap-chunk", "1M"];
    create_well(room, &[kept.clone(), old.clone()], &options)?;
    let by_name = [NAME.to_owned()];
    let server = Server::start(room, &by_name, &[])?;
    fio::verify(
        room,
        &server.uri(),
        &["--rw=write", "--bs=64k", "--numjobs=1"],
    )?;
    // Nobody sees that there is room for one more.
    let status = server.control(&["status", NAME, "--json"])?;
    let status: serde_json::Value = serde_json::from_str(&status)?;
    ensure!(
        status["legs"].as_array().map(Vec::len) == Some(2),
        "{status}"
    );
    ensure!(status["replacement"].is_null() && status["former"].is_null());

    legs::resize(Path::new(&small), legs::LEG_BYTES / 2)?;
    let refused = |leg: &str, with: &str, words: &str| -> Result<()> {
        let said = server.listen(&["replace", NAME, leg, "--with", with])?;
        let is_refused = !said.status.success() && said.stderr.contains(words);
        ensure!(is_refused, "not '{words}': {} {}", said.stdout, said.stderr);
        Ok(())
    };
    refused("1", &small, "a leg of this array needs")?;
    refused("1", &kept, "is leg 0 of")?;
    refused("2", &new, "is none of the legs")?;
    fs::write(Path::new(&small), [0x55; 4096])?;
    legs::resize(Path::new(&small), legs::LEG_BYTES)?;
    refused("1", &small, "say --force")?;

    // Given up: all is as before, and nothing of the new leg is held.
    let mut clients = fio::verify_meanwhile(room, &server.uri(), &BUSY)?;
    server.control(&["replace", NAME, "1", "--with", &slow(&small), "--force"])?;
    let slow_small = slow(&small);
    wait_for_status(
        &server,
        &format!("leg 1: {old}, in-sync, being replaced by {slow_small}"),
    )?;
    refused("0", &new, "is being replaced already")?;
    server.control(&["fail", NAME, &slow_small])?;
    wait_for_status(&server, &format!("no leg any more: {slow_small}"))?;
    server.control(&["remove", NAME, &slow_small])?;
    let status = server.control(&["status", NAME])?;
    ensure!(!status.contains(&slow_small), "{status}");
    ensure!(status.contains("2 of 2 legs in sync"), "{status}");

    server.control(&["replace", NAME, "1", "--with", &slow(&new)])?;
    wait_for_offset(room, &new, legs::LEG_BYTES / 4)?;
    ensure!(examined(room, &new, "Device Role")? == "Replacement device 1");
    clients.ensure_running()?;
    server.kill()?;
    drop(clients);
    replaced_after_kill(room, [&kept, &old, &new])
}

/// What was begun is ended by the next starts, and the old leg is out.
fn replaced_after_kill(room: &Room, [kept, old, new]: [&String; 3]) -> Result<()> {
    let by_name = [NAME.to_owned()];
    let server = serve_again(room)?;
    let said = server.said()?;
    ensure!(
        said.contains("is to replace leg 1: the copying goes on at"),
        "{said}"
    );
    ensure!(!said.contains("the copying goes on at 0 B"), "{said}");
    ensure!(said.contains("is copied once more"), "{said}");
    let status = server.control(&["status", NAME])?;
    ensure!(status.contains("replacement of leg 1: "), "{status}");
    ensure!(status.contains("2 of 2 legs in sync"), "{status}");
    server.terminate()?;
    // What was being written when it was killed may be copied once more.
    ensure!(
        recovered_bytes(room, new)?.is_some(),
        "it was stopped in the middle"
    );
    ensure!(examined(room, new, "Device Role")? == "Replacement device 1");

    // On with it, on a drive that is not slow.
    let all = [kept, old, new].map(String::clone);
    let server = Server::start(room, &all, &["--name", NAME])?;
    let rewriting = [
        "--rw=randwrite",
        "--bs=4k",
        "--io_size=1M",
        "--rate_iops=20",
    ];
    let clients = fio::verify_meanwhile(room, &server.uri(), &rewriting)?;
    wait_for_status(&server, &format!("no leg any more: {old}"))?;
    clients.finish()?;
    let status = server.control(&["status", NAME])?;
    ensure!(status.contains("2 of 2 legs in sync"), "{status}");
    ensure!(!status.contains("replacement of"), "{status}");
    server.control(&["remove", NAME, old])?;
    // Nobody holds it, and it can go.
    fs::remove_file(old)?;
    server.terminate()?;
    let legs = [kept.clone(), new.clone()];
    ensure_clean(room, &legs)?;
    ensure_same_data(room, &legs)?;
    ensure!(examined(room, new, "Device Role")? == "Active device 1");
    ensure!(recovered_bytes(room, new)?.is_none());
    // The next start knows the new leg, and does not ask for the old one.
    let server = Server::start(room, &by_name, &[])?;
    fio::verify(room, &server.uri(), &["--rw=randwrite", "--bs=4k"])?;
    let status = server.control(&["status", NAME])?;
    ensure!(status.contains("2 of 2 legs in sync"), "{status}");
    server.terminate()?;
    ensure_clean(room, &legs)?;
    ensure_same_data(room, &legs)
}
