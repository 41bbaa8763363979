//! The commands that look at a running server and change it, and the other ways to reach one.

use std::net::TcpListener;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Test;
use super::fio;
use super::legs::{self, resize};
use super::room::Room;
use super::server::{NAME, Server};
use crate::process::Background;

pub(super) const TESTS: &[Test] = &[
    Test {
        name: "policy",
        about: "shown and switched while fio verifies; what makes no sense is refused",
        run: policy,
    },
    Test {
        name: "stats",
        about: "counts of each leg, and that they add up",
        run: stats,
    },
    Test {
        name: "unequal_sizes",
        about: "legs of different size: the smallest rules, and that is said",
        run: unequal_sizes,
    },
    Test {
        name: "tcp",
        about: "a second export over TCP shows the same bytes",
        run: tcp,
    },
    Test {
        name: "socket_activation",
        about: "a listening socket is inherited (LISTEN_FDS)",
        run: socket_activation,
    },
    Test {
        name: "standard_input",
        about: "one client on standard input and output",
        run: standard_input,
    },
];

fn policy(room: &Room) -> Result<()> {
    room.require_tools(&["fio"])?;
    let legs = legs::sparse(room)?;
    let server = Server::start(room, &legs, &["--policy", "pid"])?;
    let arguments = ["--rw=randrw", "--bs=4k", "--iodepth=16", "--rate_iops=1500"];
    let arguments = fio::verify_arguments(&server.uri(), &arguments);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let report = room.path("fio.json");
    let mut fio = Background::start(&mut room.command("fio", &arguments), &report)?;

    let shown = server.control(&["policy", NAME])?;
    ensure!(shown.contains("[pid]"), "pid should be active: {shown}");
    for name in [
        "round-robin:65536",
        "latency-rr",
        "queue",
        "devid:2",
        "zfs",
        "pid",
    ] {
        server.control(&["policy", NAME, name])?;
        let shown = server.control(&["policy", NAME])?;
        let active = format!("[{name}");
        ensure!(shown.contains(&active), "{name} should be active: {shown}");
    }
    for wrong in ["no-such-policy", "round-robin:x", "devid:0", "pid:0"] {
        let said = server.listen(&["policy", NAME, wrong])?;
        ensure!(!said.status.success(), "{wrong} should be refused");
        ensure!(
            !said.stderr.is_empty(),
            "{wrong} was refused without a word"
        );
        let shown = server.control(&["policy", NAME])?;
        ensure!(
            shown.contains("[pid]"),
            "{wrong} changed something: {shown}"
        );
    }
    ensure!(fio.is_running()?, "fio should still run: raise its size");
    let status = fio.wait(std::time::Duration::from_secs(100))?;
    ensure!(status.success(), "fio ended with {status}");
    fio::ensure_no_error(&std::fs::read_to_string(&report)?)?;
    server.terminate()?;
    legs::ensure_equal(&legs)
}

fn stats(room: &Room) -> Result<()> {
    room.require_tools(&["qemu-io"])?;
    let server = Server::start(room, &legs::sparse(room)?, &["--policy", "round-robin"])?;
    let mut arguments = vec!["-f", "raw"];
    for _ in 0..30 {
        arguments.extend(["-c", "write 0 4k", "-c", "read 0 4k"]);
    }
    let uri = server.uri();
    arguments.push(&uri);
    room.run("qemu-io", &arguments)?;
    let text = server.control(&["stats", NAME, "--json"])?;
    let lines: Vec<&str> = text.lines().collect();
    ensure!(lines.len() == 1, "not one object: {text}");
    let value: Value = serde_json::from_str(lines[0]).context("stats --json")?;
    let legs = value["legs"].as_array().context("stats has no legs")?;
    ensure!(legs.len() == 3, "{text}");
    let sum = |key: &str| -> u64 { legs.iter().filter_map(|leg| leg[key].as_u64()).sum() };
    ensure!(sum("reads") >= 30, "30 reads: {text}");
    ensure!(sum("writes") >= 90, "30 writes to 3 legs: {text}");
    ensure!(sum("write_bytes") >= 90 * 4096, "{text}");
    ensure!(!server.control(&["stats", NAME])?.is_empty(), "no table");
    server.terminate()?;
    Ok(())
}

fn unequal_sizes(room: &Room) -> Result<()> {
    room.require_tools(&["nbdinfo"])?;
    let legs = legs::sparse(room)?;
    let small_bytes = legs::LEG_BYTES / 2;
    resize(Path::new(&legs[1]), small_bytes)?;
    let server = Server::start(room, &legs, &[])?;
    let size = room.run("nbdinfo", &["--size", &server.uri()])?;
    ensure!(size.trim() == small_bytes.to_string(), "{size}");
    let said = server.said()?;
    ensure!(said.contains("smallest leg"), "nobody said so: {said}");
    server.terminate()?;
    Ok(())
}

fn tcp(room: &Room) -> Result<()> {
    room.require_tools(&["qemu-io"])?;
    // The kernel picks a port that is free; nobody else is likely to take it meanwhile.
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let uri = format!("nbd://127.0.0.1:{port}/{NAME}");
    let server = Server::start(room, &legs::memory(), &["--export", &uri])?;
    let unix = server.uri();
    room.run("qemu-io", &["-f", "raw", "-c", "write -P 7 1k 9k", &unix])?;
    let said = room.run("qemu-io", &["-f", "raw", "-c", "read -P 7 1k 9k", &uri])?;
    ensure!(!said.contains("failed"), "other bytes over TCP: {said}");
    server.terminate()?;
    Ok(())
}

fn socket_activation(room: &Room) -> Result<()> {
    room.require_tools(&["nbdinfo"])?;
    let program = room.program.display().to_string();
    let control = room.path_text("control");
    // nbdinfo opens a socket and starts the command with it.
    let arguments = [
        "--json",
        "--",
        "[",
        &program,
        "serve",
        "mem:16MiB",
        "mem:16MiB",
        "--name",
        NAME,
        "--control-dir",
        &control,
        "--export",
        "fd:",
        "]",
    ];
    let text = room.run("nbdinfo", &arguments)?;
    ensure!(text.contains("\"export-size\": 16777216"), "{text}");
    Ok(())
}

fn standard_input(room: &Room) -> Result<()> {
    room.require_tools(&["nbdsh"])?;
    let program = room.program.display().to_string();
    let control = room.path_text("control");
    let script = "import os; \
        h.connect_command([os.environ['PROGRAM'], 'serve', 'mem:16MiB', 'mem:16MiB', \
        '--name', 'disk', '--control-dir', os.environ['CONTROL'], '--export', 'stdio:']); \
        h.pwrite(b'x' * 1000, 1); assert h.pread(1002, 0) == b'\\0' + b'x' * 1000 + b'\\0'; \
        h.shutdown()";
    let mut command = room.command("nbdsh", &["-c", script]);
    command
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("PROGRAM", program)
        .env("CONTROL", control);
    crate::process::succeed(&mut command)?;
    Ok(())
}
