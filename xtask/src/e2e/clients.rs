//! Clients that are many, greedy, or gone: the server outlives them and forgets them.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use super::Test;
use super::fio;
use super::legs;
use super::room::Room;
use super::server::{NAME, Server};
use super::stop::wait_for_writes;
use crate::process;

pub(super) const TESTS: &[Test] = &[
    Test {
        name: "clients_come_and_go",
        about: "1000 connections, 100 at a time: no descriptor is left open",
        run: clients_come_and_go,
    },
    Test {
        name: "client_killed",
        about: "fio is killed while it writes: the next client is served, legs equal",
        run: client_killed,
    },
    Test {
        name: "client_never_reads",
        about: "clients ask for much and read nothing: the server's memory is bounded",
        run: client_never_reads,
    },
    Test {
        name: "client_starves_nobody",
        about: "clients ask for much and read nothing: others are served meanwhile",
        run: client_starves_nobody,
    },
];

/// How long the server may take to notice that clients are gone.
const FORGET_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a client waits for an answer: far more than the server needs.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

/// What the server is given for requests where that is tested: not much more than the largest
/// requests need.
const MEMORY_MIB: u64 = 96;

/// What the server may need besides the legs' and the requests' memory.
const MEMORY_EXTRA_KIB: u64 = 64 << 10;

/// A connection by hand, behind the handshake.
pub(super) struct RawClient(UnixStream);

impl RawClient {
    /// Connects and asks for the export with the oldest option there is.
    pub(super) fn connect(room: &Room) -> Result<Self> {
        let mut stream = UnixStream::connect(room.path(&format!("{NAME}.sock")))?;
        stream.set_read_timeout(Some(ANSWER_TIME_MAX))?;
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).context("no greeting")?;
        // Fixed newstyle, no padding; EXPORT_NAME.
        let mut hello = 3_u32.to_be_bytes().to_vec();
        hello.extend(b"IHAVEOPT\0\0\0\x01");
        hello.extend(u32::try_from(NAME.len())?.to_be_bytes());
        hello.extend(NAME.as_bytes());
        stream.write_all(&hello)?;
        let mut size_and_flags = [0; 10];
        stream
            .read_exact(&mut size_and_flags)
            .context("no export")?;
        Ok(Self(stream))
    }

    /// Asks for bytes from the beginning.
    pub(super) fn ask(&mut self, len_bytes: u32) -> Result<()> {
        let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
        // No flags, READ, some cookie, offset 0.
        request.extend([0; 2 + 2 + 8 + 8]);
        request.extend(len_bytes.to_be_bytes());
        self.0.write_all(&request)?;
        Ok(())
    }

    /// Reads a simple reply without an error, and the bytes behind it.
    fn receive(&mut self, len_bytes: usize) -> Result<()> {
        let mut reply = vec![0; 16 + len_bytes];
        self.0.read_exact(&mut reply).context("no answer")?;
        ensure!(reply[4..8] == [0; 4], "an error: {:?}", &reply[..16]);
        Ok(())
    }
}

fn clients_come_and_go(room: &Room) -> Result<()> {
    let server = Server::start(room, &legs::memory(), &[])?;
    let descriptors =
        || -> Result<usize> { Ok(fs::read_dir(format!("/proc/{}/fd", server.pid()))?.count()) };
    // The first client may make the server open what it keeps.
    drop(RawClient::connect(room)?);
    process::wait_until("the first client to be forgotten", FORGET_TIME_MAX, || {
        Ok(descriptors()? <= 64)
    })?;
    let before = descriptors()?;
    for _ in 0..10 {
        let mut clients = (0..100)
            .map(|_| RawClient::connect(room))
            .collect::<Result<Vec<_>>>()?;
        for client in &mut clients {
            client.ask(4096)?;
        }
        for client in &mut clients {
            client.receive(4096)?;
        }
    }
    process::wait_until("all clients to be forgotten", FORGET_TIME_MAX, || {
        Ok(descriptors()? <= before)
    })?;
    server.terminate()?;
    Ok(())
}

fn client_killed(room: &Room) -> Result<()> {
    let legs = legs::sparse(room)?;
    let server = Server::start(room, &legs, &[])?;
    for _ in 0..3 {
        let mut fio = fio::write_on(room, &server.uri())?;
        wait_for_writes(&legs[0])?;
        fio.signal(Signal::KILL)?;
        let mut next = RawClient::connect(room)?;
        next.ask(4096)?;
        next.receive(4096)?;
    }
    server.terminate()?;
    legs::ensure_equal(&legs)
}

fn client_never_reads(room: &Room) -> Result<()> {
    let server = start_small(room)?;
    let greedy = greedy_clients(room)?;
    let used_kib = resident_kib(server.pid())?;
    let most_kib = (MEMORY_MIB << 10) + MEMORY_EXTRA_KIB;
    ensure!(
        used_kib <= most_kib,
        "{used_kib} KiB in use, at most {most_kib}"
    );
    drop(greedy);
    ask_often(room).context("the clients that read nothing are gone")?;
    server.terminate()?;
    Ok(())
}

fn client_starves_nobody(room: &Room) -> Result<()> {
    let server = start_small(room)?;
    let _greedy = greedy_clients(room)?;
    ask_often(room)?;
    server.terminate()?;
    Ok(())
}

/// A server with little memory.
fn start_small(room: &Room) -> Result<Server<'_>> {
    let memory = format!("{MEMORY_MIB}MiB");
    Server::start(room, &legs::sparse(room)?, &["--memory", &memory])
}

/// Clients that ask for far more than the server has memory for, and read nothing.
fn greedy_clients(room: &Room) -> Result<Vec<RawClient>> {
    let mut clients = Vec::new();
    for _ in 0..8 {
        let mut client = RawClient::connect(room)?;
        for _ in 0..16 {
            client.ask(32 << 20)?;
        }
        clients.push(client);
    }
    Ok(clients)
}

/// A client with small requests.
fn ask_often(room: &Room) -> Result<()> {
    let mut client = RawClient::connect(room)?;
    for _ in 0..100 {
        client.ask(4096)?;
        client.receive(4096)?;
    }
    Ok(())
}

/// How much memory a process has, in KiB.
fn resident_kib(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status"))?;
    status
        .lines()
        .find_map(|line| {
            line.strip_prefix("VmRSS:")?
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        })
        .context("the kernel does not say how much memory is used")
}
