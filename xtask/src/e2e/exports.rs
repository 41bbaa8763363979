//! Legs that are exports of NBD servers: other people's, our own, ones that fail, and ones that are
//! killed and come back.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;

use super::Test;
use super::fio;
use super::legs;
use super::room::Room;
use super::server::{self, Server};
use super::stop::wait_for_writes;
use crate::process::{self, Background};
use crate::tools;

pub(super) const TESTS: &[Test] = &[
    Test {
        name: "exports",
        about: "exports of nbdkit, qemu-nbd and heliostat as the legs: fio verifies, legs equal",
        run: exports,
    },
    Test {
        name: "export_far",
        about: "an export over TCP that is slow beside a file: fio verifies, legs equal",
        run: export_far,
    },
    Test {
        name: "export_fails_reads",
        about: "an export fails some of its reads: no client error",
        run: export_fails_reads,
    },
    Test {
        name: "export_fails_writes",
        about: "an export fails a write: no client error, it is faulted",
        run: export_fails_writes,
    },
    Test {
        name: "export_goes_silent",
        about: "the server of an export stops while fio verifies: no client error, it is faulted",
        run: export_goes_silent,
    },
    Test {
        name: "export_killed_reading",
        about: "SIGKILL to the server of an export while fio reads: it is used again, nothing lost",
        run: export_killed_reading,
    },
    Test {
        name: "export_killed_writing",
        about: "SIGKILL to the server of an export amid writes: faulted, for it may have lost some",
        run: export_killed_writing,
    },
    Test {
        name: "export_forgets",
        about: "the server of an export is started anew and empty: faulted, old bytes never read",
        run: export_forgets,
    },
    Test {
        name: "export_refused",
        about: "exports that cannot be legs are refused with the way out",
        run: export_refused,
    },
];

/// How long a server may take until it listens.
const READY_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a server that was killed may take to be gone.
const END_TIME_MAX: Duration = Duration::from_secs(10);

/// How long it may take until something is on record or told.
const TOLD_TIME_MAX: Duration = Duration::from_secs(20);

/// Operations per second and job: slow enough that there is a middle.
const RATE: &str = "--rate_iops=1000";

/// An NBD server on a unix socket that can be killed and started again.
struct ForeignServer {
    process: Background,
    program: &'static str,
    arguments: Vec<String>,
    socket: PathBuf,
    log: PathBuf,
}

impl ForeignServer {
    fn start(
        room: &Room,
        program: &'static str,
        socket: &str,
        arguments: Vec<String>,
    ) -> Result<Self> {
        room.require_tools(&[program])?;
        let log = room.path(&format!("{socket}.log"));
        let socket = room.path(&format!("{socket}.sock"));
        Ok(Self {
            process: run(program, &arguments, &socket, &log)?,
            program,
            arguments,
            socket,
            log,
        })
    }

    /// nbdkit with these filters, plugin and parameters.
    fn nbdkit(room: &Room, name: &str, arguments: &[&str]) -> Result<Self> {
        let socket = room.path_text(&format!("{name}.sock"));
        let common = ["--foreground", "--exit-with-parent", "--unix", &socket];
        let arguments = common.iter().chain(arguments).map(ToString::to_string);
        Self::start(room, "nbdkit", name, arguments.collect())
    }

    fn qemu(room: &Room, name: &str, export: &str, file: &str) -> Result<Self> {
        let socket = room.path_text(&format!("{name}.sock"));
        let arguments = [
            "--persistent",
            "--shared=8",
            "--format=raw",
            "--export-name",
            export,
            "--socket",
            &socket,
            file,
        ];
        Self::start(room, "qemu-nbd", name, arguments.map(str::to_owned).into())
    }

    fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.socket.display())
    }

    fn kill(&mut self) -> Result<()> {
        self.process.signal(Signal::KILL)?;
        self.process.wait(END_TIME_MAX)?;
        Ok(())
    }

    fn start_again(&mut self) -> Result<()> {
        fs::remove_file(&self.socket).context("the socket that it left behind")?;
        self.process = run(self.program, &self.arguments, &self.socket, &self.log)?;
        Ok(())
    }
}

fn run(program: &str, arguments: &[String], socket: &Path, log: &Path) -> Result<Background> {
    let mut command = Command::new(tools::find(program).context("it was required")?);
    let process = Background::start(command.args(arguments), log)?;
    // Some serve one client only: it is not asked by connecting.
    process::wait_until(program, READY_TIME_MAX, || Ok(socket.exists()))?;
    Ok(process)
}

/// Waits until the server has said so.
fn wait_until_told(server: &Server<'_>, what: &str) -> Result<()> {
    process::wait_until(&format!("'{what}' to be told"), TOLD_TIME_MAX, || {
        Ok(server.said()?.contains(what))
    })
}

fn ensure_told(said: &str, what: &str) -> Result<()> {
    ensure!(said.contains(what), "nobody said '{what}': {said}");
    Ok(())
}

fn exports(room: &Room) -> Result<()> {
    let files = legs::sparse(room)?;
    let nbdkit = ForeignServer::nbdkit(room, "nbdkit", &["file", &files[0]])?;
    let qemu = ForeignServer::qemu(room, "qemu", "a disk", &files[1])?;
    let socket = room.path_text("inner.sock");
    let inner = format!("nbd+unix:///inner?socket={socket}");
    let control = room.path_text("inner");
    let arguments = [
        "serve",
        &files[2],
        "--control-dir",
        &control,
        "--export",
        &inner,
    ];
    let mut command = Command::new(&room.program);
    let mut heliostat = Background::start(command.args(arguments), &room.path("inner.log"))?;
    heliostat.wait_for_socket(Path::new(&socket), READY_TIME_MAX)?;

    let exports = [nbdkit.uri(""), qemu.uri("a%20disk"), inner];
    let server = Server::start(room, &exports, &["--policy", "round-robin"])?;
    for options in [
        [
            "--rw=randrw",
            "--bsrange=512-64k",
            "--bs_unaligned=1",
            "--fsync=32",
        ],
        ["--rw=write", "--bs=1m", "--iodepth=4", "--end_fsync=1"],
    ] {
        fio::ensure_no_error(&fio::verify(room, &server.uri(), &options)?)?;
    }
    room.run("nbdinfo", &["--map", &server.uri()])?;
    server.terminate()?;
    // What the servers themselves still hold back is written when they end.
    drop((nbdkit, qemu, heliostat));
    legs::ensure_equal(&files)
}

fn export_far(room: &Room) -> Result<()> {
    let files = legs::sparse(room)?;
    let port = free_port()?;
    let arguments = [
        "--foreground",
        "--exit-with-parent",
        "--ipaddr=127.0.0.1",
        &format!("--port={port}"),
        "--filter=delay",
        "file",
        &files[0],
        "delay-read=5ms",
        "delay-write=5ms",
    ];
    room.require_tools(&["nbdkit"])?;
    let mut command = Command::new("nbdkit");
    let far = Background::start(command.args(arguments), &room.path("far.log"))?;
    process::wait_until("nbdkit", READY_TIME_MAX, || {
        Ok(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok())
    })?;
    let legs = [files[1].clone(), format!("nbd://127.0.0.1:{port}/")];
    let server = Server::start(room, &legs, &[])?;
    let options = ["--rw=randrw", "--bs=16k", "--iodepth=16"];
    fio::ensure_no_error(&fio::verify(room, &server.uri(), &options)?)?;
    server.terminate()?;
    drop(far);
    legs::ensure_equal(&files[..2])
}

/// A port that nobody has at this moment.
fn free_port() -> Result<u16> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    Ok(listener.local_addr()?.port())
}

/// Verifies on two files and an export that fails as these parameters of nbdkit's error filter say,
/// once it is served.
fn verify_failing(room: &Room, parameters: &[&str]) -> Result<String> {
    let files = legs::sparse(room)?;
    let trigger = room.path("fail");
    let when = format!("error-file={}", trigger.display());
    let arguments = ["--filter=error", "file", &files[2], &when];
    let arguments = [&arguments[..], parameters].concat();
    let export = ForeignServer::nbdkit(room, "nbdkit", &arguments)?;
    let legs = [files[0].clone(), files[1].clone(), export.uri("")];
    let server = Server::start(room, &legs, &["--policy", "round-robin"])?;
    fs::write(&trigger, "")?;
    let options = ["--rw=randwrite", "--bs=4k", "--iodepth=16"];
    fio::ensure_no_error(&fio::verify(room, &server.uri(), &options)?)?;
    let said = server.said()?;
    server.terminate()?;
    legs::ensure_equal(&files[..2])?;
    Ok(said)
}

fn export_fails_reads(room: &Room) -> Result<()> {
    let said = verify_failing(room, &["error-pread=EIO", "error-pread-rate=1%"])?;
    ensure_told(&said, "failed a read")
}

fn export_fails_writes(room: &Room) -> Result<()> {
    let said = verify_failing(room, &["error-pwrite=ENOSPC", "error-pwrite-rate=1%"])?;
    ensure_told(&said, "is faulted: a write failed (no space left)")
}

fn export_goes_silent(room: &Room) -> Result<()> {
    let files = legs::sparse(room)?;
    let mut export = ForeignServer::nbdkit(room, "nbdkit", &["file", &files[2]])?;
    let legs = [files[0].clone(), files[1].clone(), export.uri("")];
    let server = Server::start(room, &legs, &["--leg-timeout", "2s"])?;
    let options = ["--rw=randwrite", "--bs=4k", "--iodepth=16", RATE];
    let fio = fio::verify_meanwhile(room, &server.uri(), &options)?;
    wait_for_writes(&legs[0])?;
    export.process.signal(Signal::STOP)?;
    let finished = fio.finish();
    export.process.signal(Signal::CONT)?;
    finished?;
    let text = server.control(&["stats", server::NAME, "--json"])?;
    ensure_told(&text, "\"faulted\"")?;
    server.terminate()?;
    legs::ensure_equal(&files[..2])
}

/// What lies where says so itself, and may be read in any order.
const PATTERN: [&str; 4] = [
    "--bs=4k",
    "--iodepth=16",
    "--verify=pattern",
    "--verify_pattern=%o",
];

/// Writes the pattern everywhere, and waits until all of it is flushed.
fn write_pattern(room: &Room, server: &Server<'_>) -> Result<()> {
    let options = [&PATTERN[..], &["--rw=randwrite"]].concat();
    fio::ensure_no_error(&fio::verify(room, &server.uri(), &options)?)?;
    server.wait_until_clean()
}

fn export_forgets(room: &Room) -> Result<()> {
    let file = legs::sparse_file(room, 0)?;
    let size = legs::LEG_BYTES.to_string();
    let mut export = ForeignServer::nbdkit(room, "nbdkit", &["memory", &size])?;
    let legs = [file, export.uri("")];
    let server = Server::start(room, &legs, &["--policy", "round-robin"])?;
    write_pattern(room, &server)?;
    export.kill()?;
    export.start_again()?;
    wait_until_told(&server, "came back and has forgotten")?;
    let read = [&PATTERN[..], &["--rw=randread"]].concat();
    fio::ensure_no_error(&fio::verify(room, &server.uri(), &read)?)?;
    ensure_told(&server.said()?, "is faulted")?;
    server.terminate()?;
    Ok(())
}

fn export_killed_reading(room: &Room) -> Result<()> {
    let files = legs::sparse(room)?;
    let mut export = ForeignServer::nbdkit(room, "nbdkit", &["file", &files[1]])?;
    let legs = [files[0].clone(), export.uri("")];
    let server = Server::start(room, &legs, &["--policy", "round-robin"])?;
    write_pattern(room, &server)?;
    let read = [&PATTERN[..], &["--rw=randread", "--rate_iops=500"]].concat();
    let mut fio = fio::verify_meanwhile(room, &server.uri(), &read)?;
    let count = 3;
    for index in 1..=count {
        std::thread::sleep(Duration::from_millis(500));
        export.kill()?;
        wait_until_told_times(&server, "operations that wait for the next one", index)?;
        export.start_again()?;
        wait_until_told_times(&server, "connected again", index)?;
    }
    fio.ensure_running()?;
    fio.finish()?;
    let text = server.control(&["stats", server::NAME, "--json"])?;
    ensure!(!text.contains("\"faulted\""), "it had lost nothing: {text}");
    server.terminate()?;
    drop(export);
    legs::ensure_equal(&files[..2])
}

fn wait_until_told_times(server: &Server<'_>, what: &str, count: usize) -> Result<()> {
    process::wait_until(&format!("'{what}' to be told"), TOLD_TIME_MAX, || {
        Ok(server.said()?.matches(what).count() >= count)
    })
}

fn export_killed_writing(room: &Room) -> Result<()> {
    let files = legs::sparse(room)?;
    let mut export = ForeignServer::nbdkit(room, "nbdkit", &["file", &files[2]])?;
    let legs = [files[0].clone(), files[1].clone(), export.uri("")];
    let server = Server::start(room, &legs, &["--policy", "round-robin"])?;
    let options = ["--rw=randwrite", "--bs=4k", "--iodepth=16", RATE];
    let fio = fio::verify_meanwhile(room, &server.uri(), &options)?;
    wait_for_writes(&legs[0])?;
    export.kill()?;
    export.start_again()?;
    wait_until_told(&server, "it may have lost them")?;
    fio.finish()?;
    ensure_told(&server.said()?, "is faulted")?;
    server.terminate()?;
    legs::ensure_equal(&files[..2])?;
    // It is not believed at the next start either, until it was copied.
    let refusal = Server::refused(room, &legs, &[])?;
    ensure_told(&refusal, &legs[2])?;
    Server::start(room, &legs, &["--copy-from", &legs[0]])?.terminate()?;
    Server::start(room, &legs, &[])?.terminate()?;
    drop(export);
    legs::ensure_equal(&files)
}

fn export_refused(room: &Room) -> Result<()> {
    let files = legs::sparse(room)?;
    let qemu = ForeignServer::qemu(room, "qemu", "disk", &files[0])?;
    let read_only = ForeignServer::nbdkit(room, "read-only", &["--read-only", "file", &files[1]])?;
    let nobody = format!("nbd+unix:///?socket={}", room.path_text("nobody.sock"));
    for (leg, told) in [
        (
            qemu.uri("disc"),
            "the server has no export of that name, but 'disk'; correct the name",
        ),
        (
            read_only.uri(""),
            "its server serves it for reading only; let it serve for writing",
        ),
        (nobody, "its server cannot be reached"),
    ] {
        let refusal = Server::refused(room, &[files[2].clone(), leg], &[])?;
        ensure_told(&refusal, told)?;
    }
    let twice = [qemu.uri("disk"), qemu.uri("disk")];
    ensure_told(
        &Server::refused(room, &twice, &[])?,
        "it is the same leg twice",
    )?;
    let tls = [files[2].clone(), "nbds://localhost/disk".to_owned()];
    ensure_told(&Server::misused(room, &tls, &[])?, "asks for TLS")
}
