//! A mirror of a fast leg and a slow one that may be behind.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::Test;
use super::arrays::{create_well, ensure_clean, ensure_same_data, examined, wait_until_clean};
use super::fio;
use super::legs;
use super::room::Room;
use super::server::{NAME, Server};
use crate::process::{self, Background};

/// How long it may take until some writes were behind.
const BEHIND_TIME_MAX: Duration = Duration::from_secs(30);

pub(super) const TESTS: &[Test] = &[
    Test {
        name: "write_behind",
        about: "a slow leg is behind under fio verify and kill -9, and equal to the fast one after",
        run: write_behind,
    },
    Test {
        name: "write_behind_leaving",
        about: "a leg that fails reads stays, and status says so, until the slow one has all of it",
        run: leaving,
    },
];

/// Writes, fails to read elsewhere from the fast leg, and reads what was written.
const CLIENT: &str = "
import os
import nbd
handle = nbd.NBD()
handle.connect_uri(os.environ['URI'])
written = os.urandom(65536)
handle.pwrite(written, 0)
buffers = [nbd.Buffer(4096) for _ in range(60)]
reads = [handle.aio_pread(one, i << 19 | 1 << 18) for i, one in enumerate(buffers)]
for read in reads:
    while not handle.aio_command_completed(read):
        handle.poll(-1)
assert handle.pread(65536, 0) == written
print('all read')
";

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
    create_on(room, &served)?;
    Ok((files, slow))
}

/// Makes a mirror of these, of which the second one may be behind.
fn create_on(room: &Room, served: &[String; 2]) -> Result<()> {
    let options = [
        "--level",
        "raid1",
        "--assume-clean",
        "--bitmap-chunk",
        "1M",
        "--write-mostly",
        &served[1],
        "--write-behind=64",
    ];
    create_well(room, served, &options)?;
    Ok(())
}

fn leaving(room: &Room) -> Result<()> {
    room.require_tools(&["nbdsh", "mdadm"])?;
    let files = [legs::sparse_file(room, 0)?, legs::sparse_file(room, 1)?];
    create_on(room, &files)?;
    // From then on the fast one fails reads, and the slow one takes a second for each write.
    let served = [
        format!("model:ram,file={},error=read,at=2s", files[0]),
        format!("model:net-ssd,file={},slow=2000,at=2s", files[1]),
    ];
    let server = Server::start(room, &served, &[])?;
    std::thread::sleep(Duration::from_secs(3));
    let mut command = room.command("nbdsh", &["-n", "-c", CLIENT]);
    // nbdsh takes the first python3 of the path, which need not be the one with libnbd.
    command
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("URI", server.uri());
    let mut client = Background::start(&mut command, &room.path("client.log"))?;
    for words in ["in-sync, to go when others have what it has", "faulted"] {
        process::wait_until(words, BEHIND_TIME_MAX, || {
            let said = server.control(&["status", NAME])?;
            let leg = said.lines().find(|line| line.contains("  leg 0: "));
            Ok(leg.is_some_and(|line| line.contains(words)))
        })?;
    }
    let ended = client.wait(BEHIND_TIME_MAX)?;
    let said = client.said()?;
    ensure!(ended.success() && said.contains("all read"), "{said}");
    server.terminate()?;
    let state = examined(room, &files[1], "Array State")?;
    ensure!(state.starts_with(".A"), "{state}");
    Ok(())
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
