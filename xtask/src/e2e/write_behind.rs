//! A mirror of a fast leg and a slow one that may be behind.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::Test;
use super::arrays::{create_well, ensure_clean, ensure_same_data, examined, wait_until_clean};
use super::fio;
use super::legs;
use super::room::Room;
use super::server::{NAME, Server};
use crate::process;

/// How long it may take until some writes were behind.
const BEHIND_TIME_MAX: Duration = Duration::from_secs(30);

pub(super) const TESTS: &[Test] = &[Test {
    name: "write_behind",
    about: "a slow leg is behind under fio verify and kill -9, and equal to the fast one after it",
    run: write_behind,
}];

/// How many writes were answered before the slow leg had them.
fn total(server: &Server<'_>) -> Result<u64> {
    let said = server.control(&["status", NAME])?;
    let line = said.lines().find(|line| line.contains("write-behind: "));
    let count = line.and_then(|line| {
        let (_, rest) = line.split_once("; ")?;
        rest.split(' ').next()?.parse().ok()
    });
    count.with_context(|| format!("no count of writes behind: {said}"))
}

/// Makes a mirror of a file and of another one behind a network that takes some milliseconds, which
/// may be behind in writes. The files, and the slow one as a leg.
pub(super) fn create(room: &Room) -> Result<([String; 2], String)> {
    let files = [legs::sparse_file(room, 0)?, legs::sparse_file(room, 1)?];
    let slow = format!("model:net-ssd,file={},slow=5", files[1]);
    let served = [files[0].clone(), slow.clone()];
    let options = [
        "--level",
        "raid1",
        "--assume-clean",
        "--bitmap-chunk",
        "1M",
        "--write-mostly",
        &slow,
        "--write-behind=64",
    ];
    create_well(room, &served, &options)?;
    Ok((files, slow))
}

fn write_behind(room: &Room) -> Result<()> {
    room.require_tools(&["fio", "mdadm"])?;
    let (files, _) = create(room)?;
    let server = Server::start(room, &[NAME.to_owned()], &[])?;
    let random = ["--rw=randwrite", "--bs=4k", "--iodepth=8", "--fsync=64"];
    fio::verify(room, &server.uri(), &random)?;
    ensure!(total(&server)? > 0, "nothing was ever behind");
    server.terminate()?;
    ensure_clean(room, &files)?;
    ensure_same_data(room, &files)?;
    for _ in 0..2 {
        let server = Server::start(room, &[NAME.to_owned()], &[])?;
        let mut writer = fio::write_on(room, &server.uri())?;
        process::wait_until("writes to be behind", BEHIND_TIME_MAX, || {
            Ok(total(&server)? > 100)
        })?;
        server.kill()?;
        writer.wait(Duration::from_secs(60))?;
        ensure!(examined(room, &files[0], "State")? == "active");
        let server = Server::start(room, &[NAME.to_owned()], &[])?;
        wait_until_clean(room, &files)?;
        fio::verify(room, &server.uri(), &["--rw=randwrite", "--bs=4k"])?;
        server.terminate()?;
        ensure_clean(room, &files)?;
        ensure_same_data(room, &files)?;
    }
    Ok(())
}
