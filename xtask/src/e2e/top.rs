//! The live view: in a terminal of its own, of an array that has something to do.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::Test;
use super::legs;
use super::room::Room;
use super::server::{Server, control_directory};
use crate::process::{self, Background};

pub(super) const TESTS: &[Test] = &[
    Test {
        name: "top_session",
        about: "the live view shows legs and clients, follows keys and sizes, and leaves nothing",
        run: session,
    },
    Test {
        name: "top_without_a_server",
        about: "the live view says that the array is gone, and goes on when it is back",
        run: without_a_server,
    },
    Test {
        name: "top_hostile",
        about: "whatever answers at the socket, the live view says so, hears keys and ends",
        run: hostile,
    },
    Test {
        name: "top_plain",
        about: "one screen as plain text, and clear errors where there is nothing to show",
        run: plain,
    },
];

/// How long a session may take.
const SESSION_TIME_MAX: Duration = Duration::from_secs(100);

/// How somebody at a keyboard uses it.
const SESSION: &str = include_str!("top_session.py");

/// Begins to use it in a terminal of this size: these steps, and then this end. What was done is
/// in the log.
fn begin(room: &Room, (columns, rows): (u16, u16), end: &str, steps: &str) -> Result<Background> {
    room.require_tools(&["python3"])?;
    let (script, input) = (room.path("session.py"), room.path("steps"));
    fs::write(&script, SESSION)?;
    fs::write(&input, steps)?;
    let script = script.display().to_string();
    let (columns, rows) = (columns.to_string(), rows.to_string());
    let program = room.program.display().to_string();
    let control = control_directory(room);
    let input = input.display().to_string();
    let words = [&script, &input, &columns, &rows, end, &program, "top"];
    let more = ["--interval", "250ms", "--control-dir", &control];
    let mut command = room.command("python3", &[&words[..], &more].concat());
    Background::start(&mut command, &room.path("session.log"))
}

/// The same, to its end.
fn use_it(room: &Room, size: (u16, u16), end: &str, steps: &str) -> Result<()> {
    let mut session = begin(room, size, end, steps)?;
    let status = session.wait(SESSION_TIME_MAX)?;
    ensure!(status.success(), "{status}: {}", session.said()?);
    Ok(())
}

fn session(room: &Room) -> Result<()> {
    room.require_tools(&["fio", "python3"])?;
    let legs = legs::sparse(room)?;
    let server = Server::start(room, &legs, &["--policy", "latency"])?;
    let uri = format!("--uri={}", server.uri());
    let job = ["--name=reader", "--ioengine=nbd", &uri, "--rw=randread"];
    let long = ["--bs=4k", "--runtime=300", "--time_based"];
    let mut fio = Background::start(
        &mut room.command("fio", &[&job[..], &long].concat()),
        &room.path("fio.log"),
    )?;
    let steps = "see a mirror of 3 legs\nsee policy latency\nsee leg1.img\nsee fio (\nsee quit\n\
                 key p\nfind queue-adaptive\nkey \\x1b[A\nkey \\r\nfind policy round-robin\n\
                 key s\nfind deadline\nkey \\x1b[B\nkey \\r\nfind scheduler deadline\n\
                 size 200 50\nsee r p99.9\nsee errors\nsize 30 5\nsee too small\n\
                 size 80 24\nsee leg2.img\nkey ?\nfind another scheduler\nkey x\n";
    use_it(room, (80, 24), "keys", steps)?;
    let shown = server.control(&["policy", "disk"])?;
    ensure!(shown.contains("[round-robin"), "{shown}");
    for end in ["SIGTERM", "SIGINT", "SIGHUP", "hangup"] {
        use_it(room, (200, 50), end, "see leg1.img\n")?;
    }
    ensure!(fio.is_running()?, "the reader ended");
    fio.signal(rustix::process::Signal::TERM)?;
    server.terminate()?;
    Ok(())
}

fn without_a_server(room: &Room) -> Result<()> {
    let legs = legs::sparse(room)?;
    let server = Server::start(room, &legs, &[])?;
    let steps = "see leg1.img\nsee no array is served there\nfind leg2.img\n";
    let mut session = begin(room, (120, 30), "keys", steps)?;
    let done = |session: &Background, what: &str| {
        process::wait_until(what, SESSION_TIME_MAX, || {
            Ok(session.said()?.contains(&format!("done: {what}")))
        })
    };
    done(&session, "see leg1.img")?;
    server.terminate()?;
    done(&session, "see no array is served there")?;
    let server = Server::start(room, &legs, &[])?;
    let status = session.wait(SESSION_TIME_MAX)?;
    ensure!(status.success(), "{status}: {}", session.said()?);
    server.terminate()?;
    Ok(())
}

fn plain(room: &Room) -> Result<()> {
    let legs = legs::sparse(room)?;
    let control = control_directory(room);
    let program = room.program.display().to_string();
    let top = |words: &[&str]| {
        let control = ["--control-dir", &control];
        room.listen(&program, &[&["top"], words, &control].concat())
    };
    let none = top(&["--once"])?;
    ensure!(
        none.status.code() == Some(1) && none.stderr.contains("no array is served here"),
        "{}",
        none.stderr
    );
    let server = Server::start(room, &legs, &[])?;
    let shown = top(&["--once", "--interval", "200ms"])?;
    for expected in ["disk: a mirror of 3 legs", "2 leg2.img", "client"] {
        ensure!(shown.stdout.contains(expected), "{}", shown.stdout);
    }
    ensure!(!shown.stdout.contains('\u{1b}'), "{}", shown.stdout);
    let piped = top(&[])?;
    ensure!(
        piped.status.code() == Some(2) && piped.stderr.contains("--once"),
        "{}",
        piped.stderr
    );
    let absent = top(&["nobody", "--once"])?;
    ensure!(absent.status.code() == Some(1), "{}", absent.stderr);
    server.terminate()?;
    Ok(())
}

/// What answers at a control socket in place of a daemon.
#[derive(Clone, Copy, Debug)]
enum Odd {
    /// These bytes, and then nothing any more.
    Says(&'static [u8]),
    /// The same without an end.
    Repeats(&'static [u8]),
    /// A letter now and then.
    Drips,
    /// Nothing, and the connection stays.
    Silent,
}

impl Odd {
    /// Answers everybody, until the test is over.
    fn serve(self, path: &Path) -> Result<()> {
        let listener = UnixListener::bind(path)?;
        let rest = Duration::from_millis(50);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                std::thread::spawn(move || {
                    // Whoever asked may have heard enough.
                    let mut request = [0; 4096];
                    let _ = stream.read(&mut request);
                    match self {
                        Self::Says(bytes) => drop(stream.write_all(bytes)),
                        Self::Repeats(bytes) => while stream.write_all(bytes).is_ok() {},
                        Self::Drips => {
                            while stream.write_all(b"x").is_ok() {
                                std::thread::sleep(rest);
                            }
                        }
                        Self::Silent => while stream.read(&mut request).is_ok_and(|len| len > 0) {},
                    }
                });
            }
        });
        Ok(())
    }
}

fn hostile(room: &Room) -> Result<()> {
    room.require_tools(&["python3"])?;
    let control = control_directory(room);
    fs::create_dir_all(&control)?;
    let program = room.program.display().to_string();
    const ENDLESS: &[u8] = &[b'['; 1 << 16];
    let cases = [
        (Odd::Says(b""), "ended before it answered"),
        (Odd::Says(b"\0\xff\xfe\x1b[2J\n"), "something else"),
        (
            Odd::Says(b"{\"stats\":{\"name\":\"di"),
            "ended before it answered",
        ),
        (Odd::Says(b"{\"policy\":\"[pid]\"}\n"), "something else"),
        (Odd::Says(b"{\"error\":\"\\u001b[2Jno\"}\n"), "?[2Jno"),
        (Odd::Repeats(ENDLESS), "has no end"),
        (Odd::Drips, "not answered within"),
        (Odd::Silent, "not answered within"),
    ];
    for (number, (odd, expected)) in cases.into_iter().enumerate() {
        let path = Path::new(&control).join(format!("odd{number}.sock"));
        odd.serve(&path)?;
        let name = format!("odd{number}");
        let words = ["top", &name, "--once", "--control-dir", &control];
        let said = room.listen(&program, &words)?;
        ensure!(
            said.status.code() == Some(1) && said.stderr.contains(expected),
            "{odd:?}: {} {}",
            said.status,
            said.stderr
        );
        ensure!(!said.stderr.contains('\u{1b}'), "{odd:?}: {}", said.stderr);
        if let Odd::Says(_) | Odd::Silent = odd {
            let shown = match odd {
                Odd::Silent => "see the daemon does not answer\n".to_owned(),
                Odd::Says(_) | Odd::Repeats(_) | Odd::Drips => format!("see {expected}\n"),
            };
            use_it(room, (200, 30), "keys", &shown)?;
        }
        fs::remove_file(&path)?;
    }
    Ok(())
}
