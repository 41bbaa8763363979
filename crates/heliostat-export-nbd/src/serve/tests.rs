//! A real array of legs in memory behind real sockets, with clients that behave and clients that do
//! not.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use heliostat_nbd::codec::{RequestHeader, command};
use heliostat_nbd::handshake::HandshakeError;
use heliostat_nbd::uri::{Endpoint, ExportUri};
use heliostat_runtime::{
    ArrayOptions, Export, Handle, LegSpec, Places, Progress, RuntimeError, Server, Stopped,
};
use heliostat_types::Extent;

use super::{CONNECTIONS_MAX, NbdExport, ServeError};
use crate::client::{Client, ClientError, ClientRequest};

const SIZE_BYTES: u64 = 64 << 20;
/// The smallest arena that the engine takes.
const MEMORY_BYTES: u64 = 80 << 20;
/// Only a server that hangs makes a test wait this long.
const HANG: Duration = Duration::from_secs(60);

/// A directory that is removed with its contents.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("heliostat-nbd-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn socket(&self) -> PathBuf {
        self.0.join("nbd.sock")
    }

    fn uri(&self, export: &str) -> ExportUri {
        ExportUri {
            endpoint: Endpoint::Unix(self.socket()),
            export: export.to_owned(),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

struct Quiet;

impl Progress for Quiet {
    fn note(&mut self, _line: &str) {}

    fn copied(&mut self, _done_bytes: u64, _total_bytes: u64) -> bool {
        true
    }
}

/// An array that is served on a thread of its own.
struct Daemon {
    scratch: Scratch,
    handle: Handle,
    thread: JoinHandle<Stopped>,
}

impl Daemon {
    /// Serves the exports "a" and "b" on one socket.
    fn start() -> Self {
        let scratch = Scratch::new();
        let uris = vec![scratch.uri("a"), scratch.uri("b")];
        Self::serve(scratch, uris).unwrap_or_else(|error| panic!("{error}"))
    }

    fn serve(scratch: Scratch, uris: Vec<ExportUri>) -> Result<Self, RuntimeError> {
        let export = NbdExport::new(uris, "two legs".to_owned(), MEMORY_BYTES).unwrap();
        Self::serve_export(scratch, export)
    }

    fn serve_export(scratch: Scratch, export: NbdExport) -> Result<Self, RuntimeError> {
        let (started, is_started) = mpsc::channel();
        let places = Places::choose(Some(&scratch.0)).unwrap();
        let thread = thread::spawn(move || {
            let leg = || LegSpec::parse(&format!("mem:{SIZE_BYTES}")).unwrap();
            let mut options = ArrayOptions::new("test".to_owned(), vec![leg(), leg()], places);
            options.memory_bytes = MEMORY_BYTES;
            options.lock_memory = false;
            let exports: Vec<Box<dyn Export>> = vec![Box::new(export)];
            match Server::open(&options, exports, None, &mut Quiet) {
                Ok(server) => {
                    started.send(Ok(server.handle())).unwrap();
                    server.run().unwrap()
                }
                Err(error) => {
                    started.send(Err(error)).unwrap();
                    Stopped { is_clean: true }
                }
            }
        });
        let handle = is_started.recv().unwrap()?;
        Ok(Self {
            scratch,
            handle,
            thread,
        })
    }

    fn connect(&self, structured: bool) -> Client {
        Client::connect(&self.scratch.uri("a"), structured).unwrap()
    }

    /// A connection that is ready for requests and does only what it is told.
    fn connect_raw(&self) -> UnixStream {
        let mut stream = UnixStream::connect(self.scratch.socket()).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        stream.set_write_timeout(Some(HANG)).unwrap();
        let mut hello = vec![0, 0, 0, 3];
        hello.extend_from_slice(b"IHAVEOPT\0\0\0\x01\0\0\0\x01a");
        stream.write_all(&hello).unwrap();
        // The greeting, and size and flags of the export.
        stream.read_exact(&mut [0; 18 + 10]).unwrap();
        stream
    }

    /// Stops it and waits; it has to be clean.
    fn stop(self) -> Scratch {
        self.handle.stop();
        assert!(self.thread.join().unwrap().is_clean);
        assert!(!self.scratch.socket().exists(), "its socket is removed");
        self.scratch
    }
}

fn request(command: u16, offset_bytes: u64, len_bytes: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    RequestHeader {
        flags: 0,
        command,
        cookie: 7,
        offset_bytes,
        len_bytes,
    }
    .write(&mut bytes);
    bytes
}

fn read(client: &mut Client, offset: u64, len: u64) -> Vec<u8> {
    let extent = Extent::new(offset, len);
    client.submit(0, ClientRequest::Read { extent });
    client.wait().unwrap().result.unwrap().to_vec()
}

fn write(client: &mut Client, offset_bytes: u64, bytes: &[u8]) {
    let request = ClientRequest::Write {
        offset_bytes,
        bytes,
        fua: false,
    };
    client.submit(0, request);
    client.wait().unwrap().result.unwrap();
}

/// Bytes that differ from place to place.
fn pattern(offset: u64, len: u64) -> Vec<u8> {
    let byte = |at: u64| u8::try_from((at ^ at >> 8 ^ at >> 16) & 0xff).unwrap();
    (offset..offset + len).map(byte).collect()
}

#[test]
fn what_is_written_is_read_back() {
    let daemon = Daemon::start();
    for structured in [false, true] {
        let mut client = daemon.connect(structured);
        let details = client.details();
        assert_eq!(details.size_bytes, SIZE_BYTES);
        assert_eq!(details.block_sizes, Some([1, 4096, 32 << 20]));
        for (offset, len) in [
            (0, 512),
            (512, 4096),
            (1 << 20, 3 << 20),
            (8 << 20, 32 << 20),
        ] {
            write(&mut client, offset, &pattern(offset, len));
            assert!(read(&mut client, offset, len) == pattern(offset, len));
        }
        client.submit(3, ClientRequest::Flush);
        assert_eq!(client.wait().unwrap().tag, 3);
        client.disconnect().unwrap();
    }
    daemon.stop();
}

#[test]
fn many_requests_at_once_are_each_answered() {
    const COUNT: u64 = 2000;
    let daemon = Daemon::start();
    let mut client = daemon.connect(true);
    for tag in 0..COUNT {
        let offset_bytes = tag * 4096;
        let bytes = &pattern(offset_bytes, 4096);
        let request = ClientRequest::Write {
            offset_bytes,
            bytes,
            fua: tag % 7 == 0,
        };
        client.submit(tag, request);
    }
    let mut seen = vec![0; usize::try_from(COUNT).unwrap()];
    for _ in 0..COUNT {
        let completion = client.wait().unwrap();
        assert!(completion.result.is_ok());
        seen[usize::try_from(completion.tag).unwrap()] += 1;
    }
    assert!(seen.iter().all(|count| *count == 1));
    for tag in 0..COUNT {
        let extent = Extent::new(tag * 4096, 4096);
        client.submit(tag, ClientRequest::Read { extent });
    }
    for _ in 0..COUNT {
        let completion = client.wait().unwrap();
        assert!(completion.result.unwrap() == pattern(completion.tag * 4096, 4096));
    }
    daemon.stop();
}

#[test]
fn exports_share_a_socket_by_name() {
    let daemon = Daemon::start();
    for export in ["a", "b", ""] {
        let client = Client::connect(&daemon.scratch.uri(export), true).unwrap();
        assert_eq!(client.details().size_bytes, SIZE_BYTES);
    }
    let refused = Client::connect(&daemon.scratch.uri("c"), true).unwrap_err();
    assert!(matches!(
        refused,
        ClientError::Handshake(HandshakeError::UnknownExport { .. })
    ));
    daemon.stop();
}

#[test]
fn clients_that_take_no_answers_leave_room_for_others() {
    let daemon = Daemon::start();
    let ask = || {
        let mut stream = daemon.connect_raw();
        for at in 0..60 {
            stream
                .write_all(&request(command::READ, at << 20, 1 << 20))
                .unwrap();
        }
        stream
    };
    let mut stuck = [ask(), ask(), ask()];
    // Their answers would take more than all memory, and nobody has to wait for them.
    let mut client = daemon.connect(true);
    for at in 0..20 {
        write(&mut client, at << 20, &pattern(at << 20, 1 << 20));
        assert!(read(&mut client, at << 20, 1 << 20) == pattern(at << 20, 1 << 20));
    }
    // One takes its answers after all, the others leave.
    let mut answers = vec![0; 60 * (16 + (1 << 20))];
    stuck[0].read_exact(&mut answers).unwrap();
    assert!(
        answers
            .chunks(16 + (1 << 20))
            .all(|answer| answer[..8] == [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0])
    );
    drop(stuck);
    assert!(read(&mut client, 0, 32 << 20)[..1 << 20] == pattern(0, 1 << 20));
    daemon.stop();
}

#[test]
fn clients_that_ask_for_the_largest_leave_room_too() {
    let daemon = Daemon::start();
    let ask = |_| {
        let mut stream = daemon.connect_raw();
        for _ in 0..4 {
            let request = request(command::READ, 0, 32 << 20);
            stream.write_all(&request).unwrap();
        }
        stream
    };
    let stuck: Vec<UnixStream> = (0..8).map(ask).collect();
    let mut client = daemon.connect(true);
    for at in 0..100 {
        write(&mut client, at * 4096, &pattern(at * 4096, 4096));
        assert!(read(&mut client, at * 4096, 4096) == pattern(at * 4096, 4096));
    }
    drop(stuck);
    daemon.stop();
}

#[test]
fn a_write_that_was_not_sent_whole_is_not_done() {
    let daemon = Daemon::start();
    let mut client = daemon.connect(true);
    let mut stream = daemon.connect_raw();
    stream
        .write_all(&request(command::WRITE, 0, 4 << 20))
        .unwrap();
    stream.write_all(&vec![9; 3 << 20]).unwrap();
    drop(stream);
    // As much as all memory: what the one that left held must have come back.
    for at in [0, 32 << 20] {
        assert!(
            read(&mut client, at, 32 << 20)
                .iter()
                .all(|byte| *byte == 0)
        );
    }
    daemon.stop();
}

#[test]
fn what_was_asked_before_goodbye_is_done() {
    let daemon = Daemon::start();
    let mut say = Vec::new();
    for at in 0..64 {
        say.extend(request(command::WRITE, at * 512, 512));
        say.extend(pattern(at * 512, 512));
    }
    say.extend(request(command::DISC, 0, 0));
    let mut stream = daemon.connect_raw();
    stream.write_all(&say).unwrap();
    let mut replies = Vec::new();
    stream.read_to_end(&mut replies).unwrap();
    assert_eq!(replies.len(), 64 * 16);

    // One that says all that and does not wait for the replies.
    let mut stream = daemon.connect_raw();
    for byte in &mut say[64 * (28 + 512) - 512..64 * (28 + 512)] {
        *byte = 0x55;
    }
    stream.write_all(&say).unwrap();
    drop(stream);
    let mut client = daemon.connect(true);
    assert_eq!(read(&mut client, 63 * 512, 512), [0x55; 512]);
    daemon.stop();
}

#[test]
fn one_that_breaks_the_protocol_is_closed_and_others_go_on() {
    let daemon = Daemon::start();
    let mut stream = daemon.connect_raw();
    stream.write_all(&[0; 28]).unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
    let mut client = daemon.connect(true);
    assert_eq!(read(&mut client, 0, 512), [0; 512]);
    daemon.stop();
}

#[test]
fn too_many_clients_are_turned_away() {
    let daemon = Daemon::start();
    // One client leaves some of the places to others.
    let most = CONNECTIONS_MAX / 8 * 7;
    let mut clients: Vec<_> = (0..most).map(|_| daemon.connect_raw()).collect();
    let mut one_more = UnixStream::connect(daemon.scratch.socket()).unwrap();
    one_more.set_read_timeout(Some(HANG)).unwrap();
    assert_eq!(one_more.read(&mut [0; 18]).unwrap(), 0);
    // Goodbye is known to have arrived when the connection is closed.
    let mut leaving = clients.pop().unwrap();
    leaving.write_all(&request(command::DISC, 0, 0)).unwrap();
    assert_eq!(leaving.read(&mut [0; 1]).unwrap(), 0);
    daemon.connect_raw();
    daemon.stop();
}

#[test]
fn those_that_choose_no_export_are_closed_in_time() {
    let scratch = Scratch::new();
    let uris = vec![scratch.uri("a")];
    let mut export = NbdExport::new(uris, "two legs".to_owned(), MEMORY_BYTES).unwrap();
    // Instead of ten seconds, which nobody wants to wait for.
    export.negotiation_max = heliostat_types::Duration::from_ms(500);
    let daemon = Daemon::serve_export(scratch, export).unwrap();
    let mut client = daemon.connect(true);
    // One that says nothing, and later one that stops in the middle of a word.
    for word in [&b""[..], b"\0\0\0\x03IHAVE"] {
        let mut stream = UnixStream::connect(daemon.scratch.socket()).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        stream.write_all(word).unwrap();
        let mut greeting = Vec::new();
        stream.read_to_end(&mut greeting).unwrap();
        assert_eq!(greeting.len(), 18);
    }
    // Who came before them and has chosen stays.
    assert_eq!(read(&mut client, 0, 512), [0; 512]);
    daemon.stop();
}

#[test]
fn stopping_waits_for_nobody_who_does_nothing() {
    let daemon = Daemon::start();
    let mut idle = daemon.connect_raw();
    let _fresh = UnixStream::connect(daemon.scratch.socket()).unwrap();
    let mut half = daemon.connect_raw();
    half.write_all(&request(command::WRITE, 0, 4096)).unwrap();
    daemon.stop();
    assert_eq!(idle.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn a_client_that_takes_no_answers_does_not_keep_a_server_that_is_to_stop_now() {
    let daemon = Daemon::start();
    let mut stream = daemon.connect_raw();
    for at in 0..16 {
        stream
            .write_all(&request(command::READ, at << 20, 1 << 20))
            .unwrap();
    }
    // The first answer is there, the others are too many for the socket.
    stream.read_exact(&mut [0; 16]).unwrap();
    daemon.handle.stop();
    daemon.handle.stop();
    assert!(daemon.thread.join().unwrap().is_clean);
}

#[test]
fn socket_files_are_private_and_replaced_only_when_stale() {
    let daemon = Daemon::start();
    let mode = fs::metadata(daemon.scratch.socket())
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let scratch = daemon.stop();

    // Nobody listens on it any more.
    drop(UnixListener::bind(scratch.socket()).unwrap());
    let uri = scratch.uri("a");
    let scratch = Daemon::serve(scratch, vec![uri.clone()]).unwrap().stop();

    let listener = UnixListener::bind(scratch.socket()).unwrap();
    let error = Daemon::serve(Scratch(scratch.0.join("x")), vec![uri.clone()]);
    assert!(error.is_err_and(|error| error.0.contains("another server is listening")));
    assert!(scratch.socket().exists());
    drop(listener);
    fs::remove_file(scratch.socket()).unwrap();

    fs::write(scratch.socket(), "precious").unwrap();
    let error = Daemon::serve(Scratch(scratch.0.join("y")), vec![uri]);
    assert!(error.is_err_and(|error| error.0.contains("not a socket is in the way")));
    assert_eq!(fs::read(scratch.socket()).unwrap(), b"precious");
}

#[test]
fn tcp_works_too() {
    let port = TcpListener::bind(("127.0.0.1", 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let uri: ExportUri = format!("nbd://127.0.0.1:{port}/a").parse().unwrap();
    let daemon = Daemon::serve(Scratch::new(), vec![uri.clone()]).unwrap();
    let mut client = Client::connect(&uri, true).unwrap();
    write(&mut client, 4096, &pattern(4096, 1 << 20));
    assert!(read(&mut client, 4096, 1 << 20) == pattern(4096, 1 << 20));
    daemon.handle.stop();
    assert!(daemon.thread.join().unwrap().is_clean);
}

#[test]
fn uris_that_cannot_be_served_together() {
    let parse = |text: &str| text.parse::<ExportUri>().unwrap();
    let make = |uris: &[&str]| {
        let uris = uris.iter().map(|uri| parse(uri)).collect();
        NbdExport::new(uris, String::new(), MEMORY_BYTES)
    };
    let twice = make(&["nbd://h/a", "nbd://h/b", "nbd://h:10809/a"]);
    assert!(matches!(twice, Err(ServeError::Twice(uri)) if uri == "nbd://h/a"));
    assert!(matches!(
        make(&["stdio:", "stdio:a"]),
        Err(ServeError::StdioTwice)
    ));
    assert!(make(&["nbd://h/a", "nbd://g/a", "fd:a", "fd:b", "stdio:a"]).is_ok());
}
