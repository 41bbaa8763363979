//! What is done to legs by hand while clients write: they fail in turn and come back, are replaced
//! by spares, and are told to be write-mostly.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::Test;
use super::arrays::{create_well, ensure_clean, ensure_same_data, examined, wait_for_status};
use super::fio;
use super::legs;
use super::room::Room;
use super::server::{NAME, Server};
use super::write_behind;

pub(super) const TESTS: &[Test] = &[
    Test {
        name: "legs_in_turn",
        about: "legs fail in turn under writes and come back in any order, a spare replaces one",
        run: in_turn,
    },
    Test {
        name: "leg_flags",
        about: "a leg is write-mostly and failfast and not, under writes and kill -9; mdadm agrees",
        run: flags,
    },
];

const PART: [&str; 4] = ["--rw=write", "--bs=64k", "--size=1m", "--numjobs=1"];

fn in_turn(room: &Room) -> Result<()> {
    room.require_tools(&["fio", "mdadm"])?;
    let mut legs = legs::sparse(room)?;
    let spare = legs::sparse_file(room, 3)?;
    let options = ["--level", "raid1", "--assume-clean", "--bitmap-chunk", "1M"];
    create_well(room, &legs, &options)?;
    // Whatever clients ask for meanwhile: a rebuild that gives way may take a minute.
    let options = ["--resync-min", "20MB/s"];
    let server = Server::start(room, &[NAME.to_owned()], &options)?;
    for order in [[0, 1], [1, 0]] {
        for leg in ["0", "1"] {
            server.control(&["fail", NAME, leg])?;
            fio::verify(room, &server.uri(), &PART)?;
        }
        let mut writer = fio::write_on(room, &server.uri())?;
        for leg in order {
            let said = server.control(&["re-add", NAME, &legs[leg], "--wait"])?;
            ensure!(said.contains("that it missed are copied"), "{said}");
        }
        writer.signal(rustix::process::Signal::TERM)?;
        writer.wait(Duration::from_secs(30))?;
        wait_for_status(&server, "3 of 3 legs in sync")?;
    }
    let refused = server.listen(&["replace", NAME, "0"])?;
    ensure!(
        refused.stderr.contains("has no spare"),
        "{}",
        refused.stderr
    );
    server.control(&["add", NAME, &spare])?;
    let said = server.control(&["replace", NAME, "0", "--wait"])?;
    ensure!(said.contains("replaces"), "{said}");
    fio::verify(room, &server.uri(), &["--rw=randwrite", "--bs=4k"])?;
    // What was replaced is as good as new.
    server.control(&["remove", NAME, &legs[0]])?;
    let said = server.control(&["add", NAME, &legs[0]])?;
    ensure!(said.contains("is a spare now"), "{said}");
    let refused = server.listen(&["replace", NAME, "1", "--with", &legs[2]])?;
    let words = "is leg 2 of disk already";
    ensure!(refused.stderr.contains(words), "{}", refused.stderr);
    let said = server.control(&["replace", NAME, "1", "--with", &legs[0], "--wait"])?;
    ensure!(said.contains("replaces"), "{said}");
    server.terminate()?;
    legs = vec![spare, legs[0].clone(), legs[2].clone()];
    for (role, leg) in legs.iter().enumerate() {
        let told = examined(room, leg, "Device Role")?;
        ensure!(told == format!("Active device {role}"), "{leg}: {told}");
    }
    ensure_clean(room, &legs)?;
    ensure_same_data(room, &legs)
}

fn flags(room: &Room) -> Result<()> {
    room.require_tools(&["fio", "mdadm"])?;
    let (files, slow) = write_behind::create(room)?;
    let by_name = [NAME.to_owned()];
    let server = Server::start(room, &by_name, &[])?;
    let mut writer = fio::write_on(room, &server.uri())?;
    for _ in 0..5 {
        let said = server.control(&["set", NAME, "1", "--write-mostly", "off"])?;
        ensure!(said.contains("is not write-mostly, not failfast"), "{said}");
        let said = server.control(&["set", NAME, &slow, "--write-mostly", "on"])?;
        ensure!(said.contains("is write-mostly, not failfast"), "{said}");
        ensure!(examined(room, &files[1], "Flags")? == "write-mostly");
    }
    server.control(&[
        "set",
        NAME,
        "1",
        "--write-mostly",
        "off",
        "--failfast",
        "on",
    ])?;
    ensure!(examined(room, &files[1], "Flags")? == "failfast");
    server.kill()?;
    writer.wait(Duration::from_secs(60))?;
    let server = Server::start(room, &by_name, &[])?;
    wait_for_status(&server, &format!("leg 1: {slow}, in-sync, failfast"))?;
    wait_for_status(&server, "clean")?;
    fio::verify(room, &server.uri(), &["--rw=randwrite", "--bs=4k"])?;
    let refused = server.listen(&["set", NAME, "1"])?;
    ensure!(refused.status.code() == Some(2), "{}", refused.stderr);
    server.control(&["fail", NAME, "1"])?;
    let refused = server.listen(&["set", NAME, "1", "--failfast", "off"])?;
    ensure!(refused.stderr.contains("it is out"), "{}", refused.stderr);
    server.control(&["add", NAME, &slow, "--write-mostly", "--wait"])?;
    server.terminate()?;
    ensure!(examined(room, &files[1], "Flags")? == "write-mostly failfast");
    ensure_clean(room, &files)?;
    ensure_same_data(room, &files)
}
