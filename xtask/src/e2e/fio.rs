//! fio's own NBD client, which writes patterns with checksums and reads them back.

use anyhow::{Result, ensure};

use super::Test;
use super::legs;
use super::room::Room;
use super::server::Server;
use crate::process::Background;

pub(super) const TESTS: &[Test] = &[
    Test {
        name: "fio_random",
        about: "random 4 KiB, 4 jobs at depth 16, verified",
        run: |room| verify(room, &[], &["--rw=randwrite", "--bs=4k", "--iodepth=16"]),
    },
    Test {
        name: "fio_sequential",
        about: "sequential 128 KiB, 4 jobs at depth 8, verified",
        run: |room| verify(room, &[], &["--rw=write", "--bs=128k", "--iodepth=8"]),
    },
    Test {
        name: "fio_unaligned",
        about: "random, 512 bytes to 64 KiB, nothing aligned, 4 jobs, verified",
        run: |room| {
            verify(
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
            verify(
                room,
                &[],
                &["--rw=randrw", "--bs=8k", "--iodepth=8", "--fsync=32"],
            )
        },
    },
    Test {
        name: "fio_threads",
        about: "random 4 KiB, 4 jobs at depth 16, verified, legs reached without io_uring",
        run: |room| {
            verify(
                room,
                &["--no-io-uring"],
                &["--rw=randwrite", "--bs=4k", "--iodepth=16"],
            )
        },
    },
];

/// fio that writes until it is ended, for what happens to a server meanwhile.
pub(super) fn write_on(room: &Room, uri: &str) -> Result<Background> {
    room.require_tools(&["fio"])?;
    let uri = format!("--uri={uri}");
    let arguments = [
        "--name=write",
        "--ioengine=nbd",
        &uri,
        "--thread",
        "--rw=randwrite",
        "--bs=4k",
        "--iodepth=16",
        "--size=64m",
        "--time_based",
        "--runtime=60",
    ];
    Background::start(&mut room.command("fio", &arguments), &room.path("fio.json"))
}

/// Each job's part of the array: four of them fill a leg.
const JOB_SIZE: &str = "16m";

/// Runs a verifying job against three files, which have to be the same afterwards.
fn verify(room: &Room, server_options: &[&str], options: &[&str]) -> Result<()> {
    room.require_tools(&["fio"])?;
    let legs = legs::sparse(room)?;
    let server = Server::start(room, &legs, server_options)?;
    let arguments = verify_arguments(&server.uri(), options);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    ensure_no_error(&room.run("fio", &arguments)?)?;
    server.terminate()?;
    legs::ensure_equal(&legs)
}

/// fio's command line for four jobs that write checksums and read them back.
pub(super) fn verify_arguments(uri: &str, options: &[&str]) -> Vec<String> {
    let mut arguments = vec![
        "--name=verify".to_owned(),
        "--ioengine=nbd".to_owned(),
        format!("--uri={uri}"),
        "--numjobs=4".to_owned(),
        "--thread".to_owned(),
        format!("--size={JOB_SIZE}"),
        format!("--offset_increment={JOB_SIZE}"),
        "--verify=crc32c".to_owned(),
        "--verify_fatal=1".to_owned(),
        // It would be written to the current directory.
        "--verify_state_save=0".to_owned(),
        "--output-format=json".to_owned(),
    ];
    arguments.extend(options.iter().map(ToString::to_string));
    arguments
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
