//! Arrays that grow: more legs, fewer, larger ones; and what is refused.

use std::fs::{self, File};

use anyhow::{Result, ensure};

use super::Test;
use super::arrays::{create_well, ensure_clean, ensure_same_data, examined, wait_until_clean};
use super::fio;
use super::legs;
use super::room::Room;
use super::server::{NAME, Server};
use crate::process::Said;

pub(super) const TESTS: &[Test] = &[
    Test {
        name: "grow_legs",
        about: "a mirror gets a third leg and loses it again while it is not served",
        run: more_legs,
    },
    Test {
        name: "grow_served",
        about: "a mirror gets more legs while clients write, and the server is killed meanwhile",
        run: more_legs_while_served,
    },
    Test {
        name: "grow_size",
        about: "larger legs: what is new is resynced, what was there stays; nothing is cut off",
        run: larger_legs,
    },
    Test {
        name: "host_config",
        about: "the line that keeps mdadm away is added once and taken out again",
        run: host_config,
    },
];

/// Runs a command of the program that needs no server.
fn listen(room: &Room, words: &[&str]) -> Result<Said> {
    let control = room.path_text("control");
    let program = room.program.display().to_string();
    room.listen(&program, &[words, &["--control-dir", &control]].concat())
}

/// The same where it has to succeed.
fn run(room: &Room, words: &[&str]) -> Result<String> {
    let said = listen(room, words)?;
    ensure!(said.status.success(), "{words:?}: {}", said.stderr);
    Ok(said.stdout)
}

/// The same where it has to fail, with these words.
fn refused(room: &Room, words: &[&str], expected: &[&str]) -> Result<()> {
    let said = listen(room, words)?;
    ensure!(
        !said.status.success() && expected.iter().all(|word| said.stderr.contains(word)),
        "{words:?} should have said {expected:?}: {}{}",
        said.stdout,
        said.stderr
    );
    Ok(())
}

fn serve<'a>(room: &'a Room, options: &[&str]) -> Result<Server<'a>> {
    Server::start(room, &[NAME.to_owned()], options)
}

fn more_legs(room: &Room) -> Result<()> {
    room.require_tools(&["fio", "mdadm"])?;
    let legs = legs::sparse(room)?;
    create_well(room, &legs[..2], &["--level", "raid1", "--assume-clean"])?;
    let server = serve(room, &[])?;
    fio::verify(room, &server.uri(), &["--rw=randwrite", "--bs=4k"])?;
    let grow = ["grow", NAME, "--legs", "3", &legs[2]];
    let larger = ["grow", NAME, "--size", "max"];
    refused(room, &larger, &["heliostat stop", "served by process"])?;
    server.terminate()?;
    ensure_clean(room, &legs[..2])?;
    let old = room.path_text("old.img");
    fs::write(&old, vec![7; 64 << 20])?;
    let onto_old = ["grow", NAME, "--legs", "3", &old];
    refused(room, &onto_old, &["something unknown", "--force"])?;
    refused(room, &["grow", NAME, "--legs", "1"], &["2 legs are there"])?;
    let told = run(room, &grow)?;
    let words = ["has 3 legs now; it had 2", "2 of 3 legs are in sync"];
    ensure!(words.iter().all(|word| told.contains(word)), "{told}");
    ensure!(examined(room, &legs[0], "Raid Devices")? == "3");
    ensure!(examined(room, &legs[2], "Device Role")? == "Active device 2");
    ensure!(examined(room, &legs[2], "Recovery Offset")? == "0 sectors");
    ensure!(run(room, &["grow", NAME, "--legs", "3"])?.contains("nothing was changed"));
    let server = serve(room, &[])?;
    // Where its rebuild has not begun by itself, it is asked for.
    server.listen(&["add", NAME, &legs[2]])?;
    server.control(&["wait", NAME])?;
    let status = server.control(&["status", NAME])?;
    ensure!(status.contains("3 of 3 legs in sync"), "{status}");
    fio::verify(room, &server.uri(), &["--rw=randwrite", "--bs=4k"])?;
    server.control(&["fail", NAME, "0"])?;
    server.control(&["remove", NAME, "0"])?;
    server.terminate()?;
    ensure_same_data(room, &legs[1..])?;
    // The two that are left move down.
    fs::remove_file(&legs[0])?;
    run(room, &["grow", NAME, "--legs", "2"])?;
    ensure!(examined(room, &legs[1], "Device Role")? == "Active device 0");
    ensure!(examined(room, &legs[2], "Device Role")? == "Active device 1");
    let server = serve(room, &[])?;
    fio::verify(room, &server.uri(), &["--rw=randwrite", "--bs=4k"])?;
    server.terminate()?;
    ensure_clean(room, &legs[1..])?;
    ensure_same_data(room, &legs[1..])
}

/// The words that have the array grow.
fn grow<'a>(legs: &'a str, new: &[&'a str]) -> Vec<&'a str> {
    [&["grow", NAME, "--legs", legs], new].concat()
}

fn more_legs_while_served(room: &Room) -> Result<()> {
    room.require_tools(&["fio", "mdadm"])?;
    let legs = legs::sparse(room)?;
    let fourth = room.path_text("fourth.img");
    File::create(&fourth)?.set_len(64 << 20)?;
    create_well(room, &legs[..2], &["--level", "raid1", "--assume-clean"])?;
    let server = serve(room, &[])?;
    refused(room, &grow("1", &[]), &["2 legs", "heliostat stop"])?;
    refused(room, &grow("17", &[]), &["1 to 16 legs"])?;
    refused(room, &grow("3", &[&legs[0]]), &["leg 0 of", "already"])?;
    refused(room, &grow("3", &[&legs[2], &fourth]), &["2 new ones"])?;
    refused(room, &grow("4", &[&fourth, &fourth]), &["named twice"])?;
    fs::write(room.path("old.img"), vec![7; 64 << 20])?;
    let old = room.path_text("old.img");
    refused(room, &grow("3", &[&old]), &["something unknown", "--force"])?;
    ensure!(run(room, &grow("2", &[]))?.contains("nothing was changed"));
    let status = server.control(&["status", NAME])?;
    ensure!(status.contains("mirror of 2 legs"), "{status}");
    // Clients write all the while; the new leg is slow to be filled.
    server.control(&["rate", NAME, "--min", "1MB/s", "--max", "1MB/s"])?;
    let told = run(room, &grow("3", &[&legs[2]]))?;
    ensure!(told.contains("has 3 legs now; it had 2"), "{told}");
    fio::verify(room, &server.uri(), &["--rw=randwrite", "--bs=4k"])?;
    let status = server.control(&["status", NAME])?;
    let words = ["mirror of 3 legs", "2 of 3 legs in sync", "rebuilding"];
    ensure!(words.iter().all(|word| status.contains(word)), "{status}");
    for leg in &legs {
        ensure!(examined(room, leg, "Raid Devices")? == "3");
    }
    server.kill()?;
    // It goes on by itself, and another one is added to an empty place.
    let server = serve(room, &[])?;
    server.control(&["rate", NAME, "--max", "200MB/s"])?;
    server.control(&["wait", NAME])?;
    let told = run(room, &grow("4", &[]))?;
    ensure!(told.contains("1 missing: 'heliostat add"), "{told}");
    let status = server.control(&["status", NAME])?;
    ensure!(status.contains("leg 3: missing"), "{status}");
    server.control(&["add", NAME, &fourth, "--wait"])?;
    fio::verify(room, &server.uri(), &["--rw=randwrite", "--bs=4k"])?;
    let status = server.control(&["status", NAME])?;
    ensure!(status.contains("4 of 4 legs in sync"), "{status}");
    server.terminate()?;
    let all = [&legs[..], &[fourth]].concat();
    ensure_clean(room, &all)?;
    ensure_same_data(room, &all)
}

fn larger_legs(room: &Room) -> Result<()> {
    room.require_tools(&["fio", "mdadm"])?;
    let legs = legs::sparse(room)?[..2].to_vec();
    let options = ["--level", "raid1", "--bitmap-chunk", "64K"];
    create_well(room, &legs, &options)?;
    let max = ["grow", NAME, "--size", "max"];
    ensure!(run(room, &max)?.contains("nothing was changed"));
    let enlarge = |leg: usize, mib: u64| {
        let file = File::options().write(true).open(&legs[leg])?;
        file.set_len(mib << 20)
    };
    enlarge(0, 192)?;
    let more = ["grow", NAME, "--size", "100M"];
    refused(room, &more, &[&legs[1], "has room for 63 MiB"])?;
    enlarge(1, 160)?;
    refused(room, &max, &["not clean", "resync"])?;
    let server = serve(room, &[])?;
    server.control(&["wait", NAME])?;
    wait_until_clean(room, &legs)?;
    server.terminate()?;
    refused(room, &["grow", NAME, "--size", "10M"], &["cut off"])?;
    let told = run(room, &max)?;
    let words = ["159 MiB", "it had 63 MiB", "128 KiB", "is resynced"];
    ensure!(words.iter().all(|word| told.contains(word)), "{told}");
    ensure!(examined(room, &legs[0], "Used Dev Size")?.starts_with("325632 sectors"));
    let server = serve(room, &[])?;
    let said = server.said()?;
    ensure!(said.contains("159 MiB"), "{said}");
    server.control(&["wait", NAME])?;
    let last = ["--rw=randwrite", "--bs=4k", "--offset=100m", "--numjobs=1"];
    fio::verify(room, &server.uri(), &last)?;
    let said = server.control(&["scrub", NAME, "check", "--wait"])?;
    ensure!(said.contains("begins"), "{said}");
    wait_until_clean(room, &legs)?;
    server.terminate()?;
    ensure_clean(room, &legs)?;
    let known = examined(room, &legs[1], "Avail Dev Size")?;
    ensure!(known.starts_with("325632 sectors"), "{known}");
    Ok(())
}

fn host_config(room: &Room) -> Result<()> {
    let legs = legs::sparse(room)?;
    let file = room.path_text("mdadm.conf");
    fs::write(&file, "HOMEHOST <system>")?;
    let option = format!("--host-config={file}");
    create_well(room, &legs, &["--level", "raid1", &option])?;
    let text = fs::read_to_string(&file)?;
    ensure!(text.starts_with("HOMEHOST <system>\n"), "{text}");
    ensure!(
        text.matches("\nARRAY <ignore> UUID=").count() == 1,
        "{text}"
    );
    let told = run(room, &["host-config", NAME, "--file", &file])?;
    ensure!(told.contains("said already"), "{told}");
    run(room, &["host-config", NAME, "--file", &file, "--remove"])?;
    ensure!(fs::read_to_string(&file)? == "HOMEHOST <system>\n");
    let nowhere = room.path_text("nowhere/mdadm.conf");
    refused(
        room,
        &["host-config", NAME, "--file", &nowhere],
        &["nowhere/mdadm.conf"],
    )
}
