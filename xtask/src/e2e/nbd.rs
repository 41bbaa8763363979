//! The protocol, as libnbd's and QEMU's tools speak it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::Test;
use super::legs::{self, LEG_BYTES};
use super::room::Room;
use super::server::{NAME, Server};

pub(super) const TESTS: &[Test] = &[
    Test {
        name: "nbdinfo",
        about: "what the export says of itself: size, flags, block sizes, list, map",
        run: nbdinfo,
    },
    Test {
        name: "nbdsh",
        about: "unaligned, empty, oversize, out of bounds, unknown: the protocol's errors",
        run: nbdsh,
    },
    Test {
        name: "nbdcopy",
        about: "copy both ways over 4 connections; copy and all legs are the same",
        run: nbdcopy,
    },
    Test {
        name: "nbdcopy_memory",
        about: "the same with legs in memory",
        run: nbdcopy_memory,
    },
    Test {
        name: "qemu_img",
        about: "qemu-img convert both ways, and compare",
        run: qemu_img,
    },
    Test {
        name: "qemu_io",
        about: "qemu-io writes, zeroes, discards and verifies patterns",
        run: qemu_io,
    },
];

/// What clients are told that they may send at once.
const REQUEST_BYTES_MAX: u64 = 32 << 20;

fn nbdinfo(room: &Room) -> Result<()> {
    room.require_tools(&["nbdinfo"])?;
    let server = Server::start(room, &legs::sparse(room)?, &[])?;
    let uri = server.uri();

    let text = room.run("nbdinfo", &["--json", &uri])?;
    let value: Value = serde_json::from_str(&text).context("nbdinfo --json")?;
    let export = &value["exports"][0];
    ensure!(value["protocol"] == "newstyle-fixed", "{text}");
    ensure!(value["structured"] == true, "{text}");
    ensure!(export["export-size"] == LEG_BYTES, "{text}");
    for flag in [
        "can_cache",
        "can_df",
        "can_fast_zero",
        "can_flush",
        "can_fua",
        "can_multi_conn",
        "can_trim",
        "can_zero",
    ] {
        ensure!(export[flag] == true, "{flag} is not set: {text}");
    }
    ensure!(export["is_read_only"] == false, "{text}");
    ensure!(export["block_size_minimum"] == 1, "{text}");
    let preferred = export["block_size_preferred"].as_u64().unwrap_or_default();
    ensure!(preferred >= 4096 && preferred.is_power_of_two(), "{text}");
    ensure!(export["block_size_maximum"] == REQUEST_BYTES_MAX, "{text}");
    let contexts = export["contexts"].as_array().context("no contexts")?;
    ensure!(contexts.contains(&Value::from("base:allocation")), "{text}");

    let list = room.run("nbdinfo", &["--list", &uri])?;
    ensure!(list.contains(&format!("export=\"{NAME}\"")), "{list}");

    // Data in the middle of a hole: the map has to show the data, and cover everything.
    room.require_tools(&["qemu-io"])?;
    let write = ["-f", "raw", "-c", "write -P 1 1M 64k", &uri];
    room.run("qemu-io", &write)?;
    let map = room.run("nbdinfo", &["--map", "--json", &uri])?;
    let runs: Vec<Value> = serde_json::from_str(&map).context("nbdinfo --map --json")?;
    let mut end = 0;
    for run in &runs {
        let offset = run["offset"].as_u64().context("a run has no offset")?;
        ensure!(offset == end, "a gap in the map at {end}: {map}");
        end += run["length"].as_u64().context("a run has no length")?;
        let is_data = run["type"] == 0;
        let overlaps = offset < (1 << 20) + (64 << 10) && end > 1 << 20;
        ensure!(is_data || !overlaps, "written, but not data: {map}");
    }
    ensure!(end == LEG_BYTES, "the map ends at {end}: {map}");
    server.terminate()?;
    Ok(())
}

fn nbdsh(room: &Room) -> Result<()> {
    room.require_tools(&["nbdsh"])?;
    let legs = legs::sparse(room)?;
    let server = Server::start(room, &legs, &[])?;
    let script = include_str!("odd_requests.py");
    fs::write(room.path("odd_requests.py"), script)?;
    let socket = room.path_text("disk.sock");
    // nbdsh takes the first python3 of the path, which need not be the one with libnbd.
    let mut command = room.command(
        "nbdsh",
        &["-n", "-c", "exec(open('odd_requests.py').read())"],
    );
    command
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("URI", server.uri())
        .env("SOCKET", &socket)
        .env("EXPORT", NAME);
    let said = crate::process::succeed(&mut command)?;
    ensure!(said.contains("all odd requests answered"), "{said}");
    server.terminate()?;
    legs::ensure_equal(&legs)
}

fn nbdcopy(room: &Room) -> Result<()> {
    let legs = legs::sparse(room)?;
    let data = copy_both_ways(room, &legs)?;
    for leg in &legs {
        legs::ensure_same(&data, Path::new(leg))?;
    }
    Ok(())
}

fn nbdcopy_memory(room: &Room) -> Result<()> {
    copy_both_ways(room, &legs::memory())?;
    Ok(())
}

/// Copies random data in and out again, and gives the file that it came from.
fn copy_both_ways(room: &Room, legs: &[String]) -> Result<std::path::PathBuf> {
    room.require_tools(&["nbdcopy"])?;
    let data = legs::random_file(room, "data", LEG_BYTES)?;
    let copy = room.path("copy");
    let server = Server::start(room, legs, &[])?;
    let uri = server.uri();
    let connections = "--connections=4";
    room.run("nbdcopy", &[connections, &data.display().to_string(), &uri])?;
    room.run("nbdcopy", &[connections, &uri, &copy.display().to_string()])?;
    legs::ensure_same(&data, &copy)?;
    server.terminate()?;
    Ok(data)
}

fn qemu_img(room: &Room) -> Result<()> {
    room.require_tools(&["qemu-img"])?;
    let legs = legs::sparse(room)?;
    let data = legs::random_file(room, "data", LEG_BYTES)?;
    let data_text = data.display().to_string();
    let copy = room.path_text("copy.qcow2");
    let server = Server::start(room, &legs, &[])?;
    let uri = server.uri();
    let to = ["convert", "-n", "-f", "raw", "-O", "raw", &data_text, &uri];
    room.run("qemu-img", &to)?;
    let from = ["convert", "-f", "raw", "-O", "qcow2", &uri, &copy];
    room.run("qemu-img", &from)?;
    let compare = ["compare", "-f", "qcow2", "-F", "raw", &copy, &data_text];
    room.run("qemu-img", &compare)?;
    let compare = ["compare", "-f", "raw", "-F", "raw", &uri, &data_text];
    room.run("qemu-img", &compare)?;
    server.terminate()?;
    for leg in &legs {
        legs::ensure_same(&data, Path::new(leg))?;
    }
    Ok(())
}

fn qemu_io(room: &Room) -> Result<()> {
    room.require_tools(&["qemu-io"])?;
    let legs = legs::sparse(room)?;
    let server = Server::start(room, &legs, &[])?;
    let uri = server.uri();
    let commands = [
        "write -P 0xab 0 1M",
        "read -P 0xab 0 1M",
        "write -f -P 0xcd 4095 3",
        "read -P 0xcd 4095 3",
        "read -P 0xab 4098 1000",
        "read -P 0xab 3000 1095",
        "write -z 8k 5000",
        "read -P 0 8k 5000",
        "read -P 0xab 13192 100",
        "write -z -u 64k 64k",
        "read -P 0 64k 64k",
        "aio_write -P 0xef 1M 128k",
        "aio_write -P 0xee 2M 128k",
        "aio_flush",
        "read -P 0xef 1M 128k",
        "read -P 0xee 2M 128k",
        "discard 1M 128k",
        "flush",
    ];
    let mut arguments = vec!["-f", "raw"];
    for command in commands {
        arguments.extend(["-c", command]);
    }
    arguments.push(&uri);
    let said = room.listen("qemu-io", &arguments)?;
    let text = format!("{}{}", said.stdout, said.stderr);
    // qemu-io exits with 0 although a pattern did not match.
    if !said.status.success() || text.contains("failed") || text.contains("rror") {
        bail!("qemu-io: {text}");
    }
    server.terminate()?;
    legs::ensure_equal(&legs)
}
