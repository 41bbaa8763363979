//! The commands that look at a running server and change it, and the other ways to reach one.

use std::net::TcpListener;
use std::path::Path;

use anyhow::{Result, ensure};

use super::Test;
use super::fio;
use super::legs::{self, resize};
use super::room::Room;
use super::server::{NAME, Server};

pub(super) const TESTS: &[Test] = &[
    Test {
        name: "policy",
        about: "shown and switched while fio verifies; what makes no sense is refused",
        run: policy,
    },
    Test {
        name: "policy_is_kept",
        about: "a policy set live is back after SIGTERM and SIGKILL, unless --transient",
        run: policy_is_kept,
    },
    Test {
        name: "scheduler",
        about: "shown, and switched a hundred times while fio verifies; nonsense is refused",
        run: scheduler,
    },
    Test {
        name: "scheduler_is_kept",
        about: "a scheduler set live is back after SIGTERM and SIGKILL, unless --transient",
        run: scheduler_is_kept,
    },
    Test {
        name: "usage",
        about: "command lines that make no sense end with 2, what cannot be done with 1",
        run: usage,
    },
    Test {
        name: "read_only",
        about: "with --read-only nothing is written",
        run: read_only,
    },
    Test {
        name: "leg_counts",
        about: "1 and 16 legs are served, 17 are refused",
        run: leg_counts,
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
    let legs = legs::sparse(room)?;
    let server = Server::start(room, &legs, &["--policy", "pid"])?;
    let options = ["--rw=randrw", "--bs=4k", "--iodepth=16", "--rate_iops=1500"];
    let mut fio = fio::verify_meanwhile(room, &server.uri(), &options)?;

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
    fio.ensure_running()?;
    fio.finish()?;
    server.terminate()?;
    legs::ensure_equal(&legs)
}

fn policy_is_kept(room: &Room) -> Result<()> {
    let legs = legs::sparse(room)?;
    let ensure_active = |server: &Server<'_>, name: &str| {
        let shown = server.control(&["policy", NAME])?;
        ensure!(shown.contains(&format!("[{name}")), "not {name}: {shown}");
        Ok(())
    };
    let server = Server::start(room, &legs, &[])?;
    server.control(&["policy", NAME, "round-robin:65536"])?;
    server.terminate()?;
    let server = Server::start(room, &legs, &[])?;
    ensure_active(&server, "round-robin:65536]")?;
    server.control(&["policy", NAME, "queue"])?;
    server.kill()?;
    let server = Server::start(room, &legs, &["--transient"])?;
    server.control(&["policy", NAME, "md"])?;
    ensure_active(&server, "md")?;
    server.terminate()?;
    let server = Server::start(room, &legs, &[])?;
    ensure_active(&server, "queue")?;
    server.terminate()?;
    Ok(())
}

fn ensure_scheduler(server: &Server<'_>, shown: &str) -> Result<()> {
    let told = server.control(&["scheduler", NAME])?;
    ensure!(told.contains(&format!("[{shown}]")), "not {shown}: {told}");
    let status = server.control(&["status", NAME])?;
    let line = format!("scheduler {shown} in front of ");
    ensure!(status.contains(&line), "not {shown}: {status}");
    Ok(())
}

fn scheduler(room: &Room) -> Result<()> {
    let legs = legs::sparse(room)?;
    switch_schedulers(room, &legs, "leg")?;
    switch_schedulers(room, &legs, "array")
}

/// Switches a hundred times while checksums are written and read.
fn switch_schedulers(room: &Room, legs: &[String], place: &str) -> Result<()> {
    let options = ["--scheduler", "none", "--scheduler-on", place];
    let server = Server::start(room, legs, &options)?;
    ensure_scheduler(&server, "none")?;
    let options = ["--rw=randwrite", "--bs=4k", "--iodepth=16", "--loops=20"];
    let mut verifying = fio::verify_meanwhile(room, &server.uri(), &options)?;
    for round in 0..34 {
        let batch = format!(
            "deadline:fifo_batch={},read_expire=1ms,nr_requests={}",
            1 + round % 4,
            round % 3 * 2
        );
        let quantum = format!("fair:quantum={}ms", 1 + round % 8 * 32);
        for wanted in [batch.as_str(), quantum.as_str(), "none"] {
            server.control(&["scheduler", NAME, wanted])?;
        }
    }
    verifying.ensure_running()?;
    verifying.finish()?;
    for nonsense in ["dedline", "deadline:fifo_batch=x", "none:depth=1", ""] {
        let refusal = server.listen(&["scheduler", NAME, nonsense])?;
        let why = &refusal.stderr;
        ensure!(refusal.status.code() == Some(1), "'{nonsense}': {why}");
        ensure!(why.contains("invalid argument"), "'{nonsense}': {why}");
    }
    let unknown = server.listen(&["scheduler", NAME, "dedline"])?.stderr;
    ensure!(unknown.contains("did you mean 'deadline'"), "{unknown}");
    ensure_scheduler(&server, "none")?;
    server.terminate()?;
    legs::ensure_equal(legs)
}

fn scheduler_is_kept(room: &Room) -> Result<()> {
    let legs = legs::sparse(room)?;
    let tuned = "deadline:fifo_batch=8";
    let server = Server::start(room, &legs, &[])?;
    server.control(&["scheduler", NAME, tuned])?;
    server.terminate()?;
    let server = Server::start(room, &legs, &[])?;
    ensure_scheduler(&server, tuned)?;
    let told = server.control(&["stats", NAME, "--json"])?;
    ensure!(
        told.contains(&format!("\"scheduler\":\"{tuned}\"")),
        "{told}"
    );
    server.control(&["scheduler", NAME, "deadline"])?;
    server.control(&["scheduler", NAME, "none", "--transient"])?;
    ensure_scheduler(&server, "none")?;
    server.kill()?;
    let server = Server::start(room, &legs, &["--transient"])?;
    ensure_scheduler(&server, "deadline")?;
    server.control(&["scheduler", NAME, tuned])?;
    server.terminate()?;
    let server = Server::start(room, &legs, &[])?;
    ensure_scheduler(&server, "deadline")?;
    server.terminate()?;
    // A new decision on the command line.
    let server = Server::start(room, &legs, &["--scheduler", tuned])?;
    ensure_scheduler(&server, tuned)?;
    server.terminate()?;
    Ok(())
}

fn usage(room: &Room) -> Result<()> {
    let program = room.program.display().to_string();
    let export = room.path_text("socket");
    let export = format!("nbd+unix:///x?socket={export}");
    let end = |arguments: &[&str], code: i32| {
        let said = room.listen(&program, arguments)?;
        let shown = arguments.join(" ");
        ensure!(said.status.code() == Some(code), "{shown}: {}", said.status);
        ensure!(!said.stderr.is_empty(), "{shown}: ended without a word");
        ensure!(
            !said.stderr.contains("panicked"),
            "{shown}: {}",
            said.stderr
        );
        Ok(())
    };
    end(&["no-such-command"], 2)?;
    end(&["serve", "--export", &export], 2)?;
    end(&["serve", "mem:1MiB"], 2)?;
    end(&["serve", "mem:1MiX", "--export", &export], 2)?;
    end(&["serve", "mem:1MiB", "--export", "ftp://x"], 2)?;
    end(
        &[
            "serve", "mem:1MiB", "--export", &export, "--policy", "nonsense",
        ],
        2,
    )?;
    end(&["serve", "./no-such-file", "--export", &export], 1)?;
    end(&["serve", "/dev/null", "--export", &export], 1)?;
    end(&["policy", "no-such-array"], 1)?;
    end(&["stats", "no-such-array"], 1)
}

fn read_only(room: &Room) -> Result<()> {
    room.require_tools(&["qemu-io", "nbdinfo"])?;
    let legs = legs::sparse(room)?;
    let server = Server::start(room, &legs, &["--read-only"])?;
    let uri = server.uri();
    let text = room.run("nbdinfo", &["--json", &uri])?;
    ensure!(text.contains("\"is_read_only\": true"), "{text}");
    let said = room.listen("qemu-io", &["-f", "raw", "-c", "write -P 1 0 4k", &uri])?;
    ensure!(!said.status.success(), "written: {}", said.stdout);
    room.run(
        "qemu-io",
        &["-r", "-f", "raw", "-c", "read -P 0 0 4k", &uri],
    )?;
    server.terminate()?;
    for leg in &legs {
        let allocated = legs::allocated_bytes(Path::new(leg))?;
        ensure!(allocated == 0, "{allocated} bytes of {leg} were written");
    }
    Ok(())
}

fn leg_counts(room: &Room) -> Result<()> {
    room.require_tools(&["qemu-io"])?;
    for count in [1, 16] {
        let server = Server::start(room, &vec!["mem:16MiB".to_owned(); count], &[])?;
        let uri = server.uri();
        let commands = [
            "-f",
            "raw",
            "-c",
            "write -P 3 1 70k",
            "-c",
            "read -P 3 1 70k",
        ];
        let said = room.run("qemu-io", &[&commands[..], &[&uri]].concat())?;
        ensure!(!said.contains("failed"), "{count} legs: {said}");
        server.terminate()?;
    }
    let refusal = Server::misused(room, &vec!["mem:16MiB".to_owned(); 17], &[])?;
    ensure!(refusal.contains("16"), "how many are too many? {refusal}");
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
