//! fio's own NBD client, which writes patterns with checksums and reads them back.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::Test;
use super::legs::{self, LoopDevice};
use super::room::Room;
use super::server::Server;
use crate::process::{self, Background};

pub(super) const TESTS: &[Test] = &[
    Test {
        name: "fio_random",
        about: "random 4 KiB, 4 jobs at depth 16, verified",
        run: |room| verify_files(room, &[], &["--rw=randwrite", "--bs=4k", "--iodepth=16"]),
    },
    Test {
        name: "fio_sequential",
        about: "sequential 128 KiB, 4 jobs at depth 8, verified",
        run: |room| verify_files(room, &[], &["--rw=write", "--bs=128k", "--iodepth=8"]),
    },
    Test {
        name: "fio_unaligned",
        about: "random, 512 bytes to 64 KiB, nothing aligned, 4 jobs, verified",
        run: |room| {
            verify_files(
                room,
                &[],
                &[
                    "--rw=randwrite",
                    "--bsrange=512-64k",
                    "--bs_unaligned=1",
                    "--iodepth=1",
                ],
            )
        },
    },
    Test {
        name: "fio_mixed",
        about: "random reads and writes of 8 KiB with flushes, 4 jobs at depth 8, verified",
        run: |room| {
            verify_files(
                room,
                &[],
                &["--rw=randrw", "--bs=8k", "--iodepth=8", "--fsync=32"],
            )
        },
    },
    Test {
        name: "fio_unequal_sectors",
        about: "the same, with a file and loop devices of 512 and 4096 byte sectors as legs",
        run: unequal_sectors,
    },
    Test {
        name: "fio_threads",
        about: "random 4 KiB, 4 jobs at depth 16, verified, legs reached without io_uring",
        run: |room| {
            verify_files(
                room,
                &["--no-io-uring"],
                &["--rw=randwrite", "--bs=4k", "--iodepth=16"],
            )
        },
    },
];

/// fio that writes until it is ended, a minute at most, for what happens meanwhile. Signals reach
/// it itself.
pub(super) fn write_on(room: &Room, uri: &str) -> Result<Background> {
    run_on(room, uri, "randwrite", 16)
}

/// The same with reads and writes as `rw` says, so many at once.
pub(super) fn run_on(room: &Room, uri: &str, rw: &str, depth: u32) -> Result<Background> {
    room.require_tools(&["fio"])?;
    let mut command = Command::new("fio");
    command.args([
        "--name=on",
        "--ioengine=nbd",
        "--thread",
        &format!("--rw={rw}"),
        "--bs=4k",
        &format!("--iodepth={depth}"),
        "--size=64m",
        "--time_based",
        "--runtime=60",
        &format!("--uri={uri}"),
    ]);
    Background::start(&mut command, &room.path("fio.json"))
}

/// How long fio may take in the background: tests slow it down to a few seconds.
const VERIFY_TIME_MAX: Duration = Duration::from_secs(100);

/// Each job's part of the array: four of them fill a leg.
const JOB_SIZE: &str = "16m";

/// Runs a verifying job against three files, which have to be the same afterwards.
fn verify_files(room: &Room, server_options: &[&str], options: &[&str]) -> Result<()> {
    room.require_tools(&["fio"])?;
    let legs = legs::sparse(room)?;
    verify_legs(room, &legs, server_options, options)
}

/// Runs a verifying job against legs, which have to be the same afterwards.
fn verify_legs(
    room: &Room,
    legs: &[String],
    server_options: &[&str],
    options: &[&str],
) -> Result<()> {
    let server = Server::start(room, legs, server_options)?;
    ensure_no_error(&verify(room, &server.uri(), options)?)?;
    server.terminate()?;
    legs::ensure_equal(legs)
}

/// Disks with sectors of 512 and of 4096 bytes, and a file.
fn unequal_sectors(room: &Room) -> Result<()> {
    room.require_loop_devices()?;
    let mut legs = legs::sparse(room)?;
    let small = LoopDevice::attach(room, Path::new(&legs[1]), 512)?;
    let large = LoopDevice::attach(room, Path::new(&legs[2]), 4096)?;
    legs[1] = small.path().to_owned();
    legs[2] = large.path().to_owned();
    let options = ["--rw=randwrite", "--bsrange=512-64k", "--bs_unaligned=1"];
    verify_legs(room, &legs, &[], &options)
}

/// Runs fio with four jobs that write checksums and read them back, and gives its report.
pub(super) fn verify(room: &Room, uri: &str, options: &[&str]) -> Result<String> {
    room.require_tools(&["fio"])?;
    process::succeed(&mut verify_command(room, uri, options))
}

/// The same in the background.
pub(super) fn verify_meanwhile(room: &Room, uri: &str, options: &[&str]) -> Result<Verifying> {
    room.require_tools(&["fio"])?;
    // Not a log: nobody wants to see it when a test fails.
    let report = room.path("fio.json");
    let process = Background::start(&mut verify_command(room, uri, options), &report)?;
    Ok(Verifying(process))
}

/// fio that writes checksums and reads them back.
pub(super) struct Verifying(Background);

impl Verifying {
    /// Checks that it has not ended yet.
    pub(super) fn ensure_running(&mut self) -> Result<()> {
        ensure!(self.0.is_running()?, "fio has ended: give it more to do");
        Ok(())
    }

    /// Waits for its end, and checks that it saw no error.
    pub(super) fn finish(mut self) -> Result<()> {
        let status = self.0.wait(VERIFY_TIME_MAX)?;
        ensure!(status.success(), "fio ended with {status}");
        ensure_no_error(&self.0.said()?)
    }
}

fn verify_command(room: &Room, uri: &str, options: &[&str]) -> Command {
    let uri = format!("--uri={uri}");
    let size = format!("--size={JOB_SIZE}");
    let increment = format!("--offset_increment={JOB_SIZE}");
    let common = [
        "--name=verify",
        "--ioengine=nbd",
        &uri,
        "--numjobs=4",
        "--thread",
        &size,
        &increment,
        "--verify=crc32c",
        "--verify_fatal=1",
        // It would be written to the current directory.
        "--verify_state_save=0",
        "--output-format=json",
    ];
    room.command("fio", &[&common, options].concat())
}

/// Checks that no job of fio's report saw an error, and that something was done at all.
///
/// # Errors
/// Where one did, or nothing was.
pub(super) fn ensure_no_error(report: &str) -> Result<()> {
    let mut operations = 0;
    for job in crate::fio::jobs(report)? {
        ensure!(job["error"] == 0, "a job of fio failed: {job}");
        ensure!(job["total_err"].as_u64().unwrap_or(0) == 0, "fio: {job}");
        operations += job["read"]["total_ios"].as_u64().unwrap_or(0);
    }
    ensure!(operations > 0, "fio read nothing: {report}");
    Ok(())
}
