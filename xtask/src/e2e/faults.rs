//! Legs that fail while fio verifies: the client never notices, and the figures go on.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rustix::process::Signal;

use super::Test;
use super::fio;
use super::legs::{self, LEG_BYTES, LoopDevice, Mount};
use super::room::Room;
use super::server::Server;
use super::stop::wait_for_writes;
use crate::process::{self, Background};

pub(super) const TESTS: &[Test] = &[
    Test {
        name: "leg_dies",
        about: "a leg behind FUSE loses its server while fio verifies: no client error",
        run: leg_dies,
    },
    Test {
        name: "leg_goes_silent",
        about: "a leg behind FUSE stops answering while fio verifies: no client error",
        run: leg_goes_silent,
    },
    Test {
        name: "leg_fails_reads",
        about: "a model leg begins to fail reads while fio verifies: no client error",
        run: |room| verify_through_rule(room, "error=read,at=2s", &[], READ_FAILED),
    },
    Test {
        name: "leg_fails_writes",
        about: "a model leg begins to fail writes while fio verifies: no client error",
        run: |room| verify_through_rule(room, "error=write,at=2s", &[], FAULTED),
    },
    Test {
        name: "leg_is_gone",
        about: "a model leg is gone from one moment to the next: no client error",
        run: |room| verify_through_rule(room, "dead=true,at=2s", &[], FAULTED),
    },
    Test {
        name: "leg_is_stuck",
        about: "a model leg completes nothing any more: no client error",
        run: |room| {
            verify_through_rule(room, "stuck=true,at=2s", &["--leg-timeout", "2s"], FAULTED)
        },
    },
    Test {
        name: "faulted_leg_refused",
        about: "a leg that failed a write is not believed at the next start, until it is copied",
        run: faulted_leg_refused,
    },
    Test {
        name: "last_leg_kept",
        about: "one leg after another is gone: the last one is kept, and the server lives",
        run: last_leg_kept,
    },
    Test {
        name: "leg_truncated",
        about: "a leg's file is truncated while fio verifies: no client error, the leg is faulted",
        run: leg_truncated,
    },
    Test {
        name: "loop_leg_truncated",
        about: "the file below a loop device is truncated while fio verifies: no client error",
        run: loop_leg_truncated,
    },
];

/// Operations per second and job: slow enough that the fault comes in the middle.
const RATE: &str = "--rate_iops=1000";

/// How long the last leg is used: until after the last rule of that test.
const LAST_LEG_TIME: Duration = Duration::from_secs(6);

/// What the server says of a leg that it goes on without.
const FAULTED: &str = "is faulted";

/// What the server says of a leg that it may ask again.
const READ_FAILED: &str = "failed a read";

/// How long a background program may take until it serves.
const READY_TIME_MAX: Duration = Duration::from_secs(10);

/// A file of a FUSE file system, whose data is in a process that a test can stop or kill.
struct FragileLeg<'a> {
    // Dropped in this order: whoever waits for the silent server is freed before the unmount.
    server: Background,
    _mount: Mount<'a>,
    _fuse: Background,
    path: PathBuf,
}

impl<'a> FragileLeg<'a> {
    fn start(room: &'a Room) -> Result<Self> {
        room.require_fuse()?;
        room.require_tools(&["nbdkit"])?;
        let socket = room.path("fragile.sock");
        let mut nbdkit = std::process::Command::new("nbdkit");
        nbdkit
            .args(["--foreground", "--exit-with-parent", "--unix"])
            .arg(&socket)
            .args(["memory", &LEG_BYTES.to_string()]);
        let server = Background::start(&mut nbdkit, &room.path("nbdkit.log"))?;
        process::wait_until("nbdkit", READY_TIME_MAX, || Ok(socket.exists()))?;

        let place = room.new_directory("fragile")?;
        let path = place.join("leg");
        let mut nbdfuse = std::process::Command::new("nbdfuse");
        nbdfuse.arg(&path).arg("--unix").arg(&socket);
        let fuse = Background::start(&mut nbdfuse, &room.path("nbdfuse.log"))?;
        process::wait_until("nbdfuse", READY_TIME_MAX, || Ok(path.exists()))?;
        Ok(Self {
            server,
            _mount: Mount::adopt(room, &place),
            _fuse: fuse,
            path,
        })
    }
}

/// Two files and a third leg.
fn legs_with(room: &Room, third: &str) -> Result<Vec<String>> {
    let files = [0, 1].map(|index| legs::sparse_file(room, index));
    let mut legs: Vec<String> = files.into_iter().collect::<Result<_>>()?;
    legs.push(third.to_owned());
    Ok(legs)
}

/// Starts a verifying fio, lets `fault` happen in the middle, and checks that fio saw nothing and
/// that the first two legs are the same afterwards.
fn verify_through(
    room: &Room,
    legs: &[String],
    options: &[&str],
    fault: impl FnOnce() -> Result<()>,
) -> Result<String> {
    let server = Server::start(room, legs, options)?;
    // More than Linux sends a FUSE server before it lets those wait who ask.
    let options = ["--rw=randwrite", "--bs=4k", "--iodepth=32", RATE];
    let fio = fio::verify_meanwhile(room, &server.uri(), &options)?;
    wait_for_writes(&legs[0])?;
    fault()?;
    fio.finish()?;
    server.control(&["stats", super::server::NAME])?;
    let said = server.said()?;
    server.terminate()?;
    legs::ensure_equal(&legs[..2])?;
    Ok(said)
}

fn ensure_told(said: &str, what: &str) -> Result<()> {
    ensure!(
        said.contains(what),
        "nobody was told that a leg {what}: {said}"
    );
    Ok(())
}

/// The same with a third leg that is a model, which a rule breaks.
fn verify_through_rule(room: &Room, rule: &str, options: &[&str], told: &str) -> Result<()> {
    let file = legs::sparse_file(room, 2)?;
    let model = format!("model:nvme-gen3,file={file},{rule}");
    let legs = legs_with(room, &model)?;
    // Every leg is read, so that failing reads are noticed.
    let options = [options, &["--policy", "round-robin"]].concat();
    let said = verify_through(room, &legs, &options, || Ok(()))?;
    ensure_told(&said, told)
}

fn faulted_leg_refused(room: &Room) -> Result<()> {
    let file = legs::sparse_file(room, 2)?;
    let legs = legs_with(
        room,
        &format!("model:nvme-gen3,file={file},error=write,at=1s"),
    )?;
    verify_through(room, &legs, &[], || Ok(()))?;
    let whole = legs_with(room, &file)?;
    let difference = legs::first_difference(Path::new(&whole[0]), Path::new(&file))?;
    ensure!(difference.is_some(), "the leg failed no write");
    let refusal = Server::refused(room, &whole, &[])?;
    ensure!(refusal.contains(&file), "which leg? {refusal}");
    // Not even when only the good legs are left beside it in another order.
    let reversed: Vec<String> = whole.iter().rev().cloned().collect();
    Server::refused(room, &reversed, &[])?;
    Server::start(room, &whole, &["--copy-from", &whole[0]])?.terminate()?;
    Server::start(room, &whole, &[])?.terminate()?;
    legs::ensure_equal(&whole)
}

fn last_leg_kept(room: &Room) -> Result<()> {
    room.require_tools(&["qemu-io"])?;
    let files = legs::sparse(room)?;
    let model = |index: usize, rule: &str| format!("model:ram,file={},{rule}", files[index]);
    let legs = [
        model(0, "dead=true,at=1s"),
        model(1, "dead=true,at=1s"),
        model(2, "error=read,at=3s,until=5s"),
    ];
    let server = Server::start(room, &legs, &[])?;
    let uri = server.uri();
    let is_answered = |request: &str| -> Result<bool> {
        let said = room.listen("qemu-io", &["-f", "raw", "-c", request, &uri])?;
        Ok(!said.stdout.contains("failed") && !said.stderr.contains("failed"))
    };
    let start = Instant::now();
    let mut refused_count = 0;
    while start.elapsed() < LAST_LEG_TIME {
        ensure!(
            is_answered("write -P 5 0 64k")?,
            "a write to the last leg failed"
        );
        refused_count += u32::from(!is_answered("read -P 5 0 64k")?);
    }
    ensure!(refused_count > 0, "reads failed, but who answered them?");
    ensure!(
        is_answered("read -P 5 0 64k")?,
        "the last leg is good again"
    );
    let text = server.control(&["stats", super::server::NAME, "--json"])?;
    ensure!(
        text.matches("\"faulted\"").count() == 2,
        "two of three: {text}"
    );
    // A mirror that ends on its last leg has been stopped, but not as a whole.
    server.kill()?;
    Ok(())
}

fn leg_dies(room: &Room) -> Result<()> {
    let mut leg = FragileLeg::start(room)?;
    let legs = legs_with(room, &leg.path.display().to_string())?;
    let said = verify_through(room, &legs, &[], || leg.server.signal(Signal::KILL))?;
    ensure_told(&said, FAULTED)
}

fn leg_goes_silent(room: &Room) -> Result<()> {
    let mut leg = FragileLeg::start(room)?;
    let legs = legs_with(room, &leg.path.display().to_string())?;
    let result = verify_through(room, &legs, &["--leg-timeout", "2s"], || {
        leg.server.signal(Signal::STOP)
    });
    // Nothing can be unmounted while its server stands still.
    leg.server.signal(Signal::CONT)?;
    ensure_told(&result?, FAULTED)
}

fn leg_truncated(room: &Room) -> Result<()> {
    let file = legs::sparse_file(room, 2)?;
    verify_truncated(room, &file, &file)
}

fn loop_leg_truncated(room: &Room) -> Result<()> {
    room.require_loop_devices()?;
    let file = legs::sparse_file(room, 2)?;
    let device = LoopDevice::attach(room, Path::new(&file), 512)?;
    verify_truncated(room, device.path(), &file)
}

/// Truncates `file`, which is below the leg `third`, in the middle of writes: those behind its end
/// make it long again, with holes for data.
fn verify_truncated(room: &Room, third: &str, file: &str) -> Result<()> {
    let legs = legs_with(room, third)?;
    let said = verify_through(room, &legs, &["--policy", "round-robin"], || {
        legs::resize(Path::new(file), 0)
    })?;
    ensure_told(&said, FAULTED)
}
