//! Stopping, crashing, and what may be served afterwards.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::Test;
use super::clients::RawClient;
use super::fio;
use super::legs::{self, LoopDevice, Mount};
use super::room::Room;
use super::server::Server;
use crate::process::{self, Background};

pub(super) const TESTS: &[Test] = &[
    Test {
        name: "term_during_writes",
        about: "SIGTERM while fio writes: stops in 10 s, legs equal, served again",
        run: term_during_writes,
    },
    Test {
        name: "term_stuck_client",
        about: "SIGTERM with clients that say nothing, half of it, or never read: stops in 10 s",
        run: term_stuck_client,
    },
    Test {
        name: "kill_during_writes",
        about: "SIGKILL while fio writes: refused, mended by --copy-from, legs equal",
        run: kill_during_writes,
    },
    Test {
        name: "kill_assume_clean",
        about: "SIGKILL while fio writes: refused, served with --assume-clean",
        run: kill_assume_clean,
    },
    Test {
        name: "kill_after_writes",
        about: "SIGKILL right after fio was answered: every leg has everything",
        run: kill_after_writes,
    },
    Test {
        name: "kill_idle",
        about: "SIGKILL when nothing has been written for a while: served again without force",
        run: kill_idle,
    },
    Test {
        name: "different_legs",
        about: "legs whose first megabyte differs are refused, and mended by --copy-from",
        run: different_legs,
    },
    Test {
        name: "leg_in_use",
        about: "a leg that somebody else writes to is refused, naming who",
        run: leg_in_use,
    },
    Test {
        name: "leg_mounted",
        about: "a leg that is mounted is refused, naming where",
        run: leg_mounted,
    },
];

/// How much fio has written when something happens to the server.
const WRITTEN_BYTES_MIN: u64 = 8 << 20;

/// How long fio may take for that.
const WRITTEN_TIME_MAX: Duration = Duration::from_secs(30);

/// How long copying a leg of the tests may take.
const COPY_TIME_MAX: Duration = Duration::from_secs(30);

/// Waits until some data has reached a sparse leg.
pub(super) fn wait_for_writes(leg: &str) -> Result<()> {
    process::wait_until("fio to write", WRITTEN_TIME_MAX, || {
        Ok(legs::allocated_bytes(Path::new(leg))? > WRITTEN_BYTES_MIN)
    })
}

fn term_during_writes(room: &Room) -> Result<()> {
    let legs = legs::sparse(room)?;
    let server = Server::start(room, &legs, &[])?;
    let _fio = fio::write_on(room, &server.uri())?;
    wait_for_writes(&legs[0])?;
    server.terminate()?;
    legs::ensure_equal(&legs)?;
    Server::start(room, &legs, &[])?.terminate()?;
    Ok(())
}

fn term_stuck_client(room: &Room) -> Result<()> {
    let legs = legs::sparse(room)?;
    let server = Server::start(room, &legs, &[])?;
    let socket = room.path("disk.sock");
    let _silent = UnixStream::connect(&socket)?;
    let mut half = UnixStream::connect(&socket)?;
    // Client flags, then the first half of an option.
    half.write_all(b"\0\0\0\x03IHAVE")?;
    let mut deaf = RawClient::connect(room)?;
    // More than a socket holds.
    deaf.ask(32 << 20)?;
    server.terminate()?;
    Ok(())
}

/// Serves three files and kills the server while fio writes.
fn killed_legs(room: &Room) -> Result<Vec<String>> {
    let legs = legs::sparse(room)?;
    let server = Server::start(room, &legs, &[])?;
    let _fio = fio::write_on(room, &server.uri())?;
    wait_for_writes(&legs[0])?;
    server.kill()?;
    let refusal = Server::refused(room, &legs, &[])?;
    ensure!(
        refusal.contains("--copy-from") && refusal.contains("--assume-clean"),
        "the refusal does not say what to do: {refusal}"
    );
    Ok(legs)
}

fn kill_during_writes(room: &Room) -> Result<()> {
    let legs = killed_legs(room)?;
    // The second leg, so that simply believing the first one would be seen.
    let source = room.path("source");
    fs::copy(&legs[1], &source)?;
    let server = Server::start(room, &legs, &["--copy-from", &legs[1]])?;
    wait_for_copies(&source, &legs)?;
    server.terminate()?;
    Server::start(room, &legs, &[])?.terminate()?;
    for leg in &legs {
        legs::ensure_same(&source, Path::new(leg))?;
    }
    Ok(())
}

/// Waits until all legs have the data of `source`.
fn wait_for_copies(source: &Path, legs: &[String]) -> Result<()> {
    process::wait_until("the legs to be copied", COPY_TIME_MAX, || {
        for leg in legs {
            if legs::first_difference(source, Path::new(leg))?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    })
}

fn kill_assume_clean(room: &Room) -> Result<()> {
    let legs = killed_legs(room)?;
    Server::start(room, &legs, &["--assume-clean"])?.terminate()?;
    Server::start(room, &legs, &[])?.terminate()?;
    Ok(())
}

fn kill_after_writes(room: &Room) -> Result<()> {
    let legs = legs::sparse(room)?;
    let server = Server::start(room, &legs, &[])?;
    let fio = |uri: &str, more: &str| {
        let options = ["--rw=randwrite", "--bs=4k", "--iodepth=16", more];
        fio::verify(room, uri, &options)
    };
    fio(&server.uri(), "--do_verify=0")?;
    server.kill()?;
    legs::ensure_equal(&legs)?;
    let server = Server::start(room, &legs, &["--assume-clean"])?;
    fio::ensure_no_error(&fio(&server.uri(), "--verify_only")?)?;
    server.terminate()?;
    Ok(())
}

fn kill_idle(room: &Room) -> Result<()> {
    room.require_tools(&["qemu-io"])?;
    let legs = legs::sparse(room)?;
    Server::start(room, &legs, &[])?.kill()?;
    let server = Server::start(room, &legs, &[])?;
    let write = ["-f", "raw", "-c", "write -P 1 0 4M", &server.uri()];
    room.run("qemu-io", &write)?;
    server.wait_until_clean()?;
    server.kill()?;
    Server::start(room, &legs, &[])?.terminate()?;
    legs::ensure_equal(&legs)
}

fn different_legs(room: &Room) -> Result<()> {
    let legs = legs::sparse(room)?;
    let data = legs::random_file(room, "data", legs::LEG_BYTES)?;
    fs::copy(&data, &legs[2])?;
    let refusal = Server::refused(room, &legs, &[])?;
    ensure!(refusal.contains("leg2.img"), "which leg? {refusal}");
    let server = Server::start(room, &legs, &["--copy-from", &legs[2]])?;
    wait_for_copies(&data, &legs)?;
    server.terminate()?;
    for leg in &legs {
        legs::ensure_same(&data, Path::new(leg))?;
    }
    Ok(())
}

fn leg_in_use(room: &Room) -> Result<()> {
    let legs = legs::sparse(room)?;
    let server = Server::start(room, &legs, &[])?;
    let refusal = Server::refused(room, &legs, &[])?;
    let pid = server.pid().to_string();
    ensure!(refusal.contains(&pid), "not by process {pid}? {refusal}");
    server.terminate()?;

    let mut command = Command::new("sh");
    command.args(["-c", "exec 3<>leg1.img; echo open; exec sleep 600"]);
    command.current_dir(room.path("."));
    let log = room.path("holder.log");
    let mut holder = Background::start(&mut command, &log)?;
    process::wait_until("the leg to be held", WRITTEN_TIME_MAX, || {
        ensure!(holder.is_running()?, "the holder ended");
        Ok(fs::read_to_string(&log)?.contains("open"))
    })?;
    let refusal = Server::refused(room, &legs, &[])?;
    let pid = holder.pid().to_string();
    ensure!(refusal.contains(&pid), "not by process {pid}? {refusal}");
    ensure!(refusal.contains("leg1.img"), "which leg? {refusal}");
    Ok(())
}

fn leg_mounted(room: &Room) -> Result<()> {
    room.require_loop_devices()?;
    room.require_tools(&["mkfs.ext4"])?;
    let mut legs = legs::sparse(room)?;
    let device = LoopDevice::attach(room, Path::new(&legs[0]), 512)?;
    room.run("mkfs.ext4", &["-q", device.path()])?;
    let place = room.new_directory("mounted")?;
    let _mount = Mount::device(room, device.path(), &place)?;
    legs[0] = device.path().to_owned();
    let refusal = Server::refused(room, &legs, &["--assume-clean"])?;
    let place = place.display().to_string();
    ensure!(
        refusal.contains(&place),
        "not mounted on {place}? {refusal}"
    );
    Ok(())
}
