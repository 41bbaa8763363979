use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::super::http::HEAD_BYTES_MAX;
use super::{CONNECTIONS_MAX, Connection, Loop, MetricsListener, MetricsServer, Pages, Phase};
use crate::rig::{Rig, memory_options};
use crate::scratch::Scratch;

const ASK: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";

fn anywhere() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// A served array and its metrics.
struct Served {
    rig: Rig,
    address: SocketAddr,
    server: MetricsServer,
    _scratch: Scratch,
}

impl Served {
    fn start() -> Self {
        let scratch = Scratch::new();
        let rig = Rig::start(&memory_options(&scratch)).unwrap();
        let listener = MetricsListener::bind(anywhere()).unwrap();
        let address = listener.address();
        let server = listener.serve(rig.handle.clone()).unwrap();
        Self {
            rig,
            address,
            server,
            _scratch: scratch,
        }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).unwrap()
    }

    /// What is answered to these bytes.
    fn answer(&self, bytes: &[u8]) -> String {
        answer(self.connect(), bytes)
    }

    fn assert_serves(&self) {
        let page = self.answer(ASK);
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
        assert!(page.contains("\nheliostat_legs_in_sync{array=\"disk\"} 3\n"));
    }
}

fn answer(mut stream: TcpStream, bytes: &[u8]) -> String {
    stream.write_all(bytes).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn pages_are_served_and_all_else_is_explained() {
    let served = Served::start();
    served.assert_serves();
    for (ask, status) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
        (
            b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
            "405",
        ),
        (b"\x16\x03\x01\x00\xff\r\n\r\n", "400"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "400"),
    ] {
        let told = served.answer(ask);
        assert!(told.starts_with(&format!("HTTP/1.1 {status} ")), "{told}");
    }
    // What comes behind the answer, or beyond the bound, does not take the answer away.
    let long = [
        b"GET /metrics HTTP/1.1\r\nA: ",
        &vec![b'a'; HEAD_BYTES_MAX * 4][..],
    ]
    .concat();
    assert!(served.answer(&long).starts_with("HTTP/1.1 431 "));
    let head = served.answer(b"HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"));
    served.rig.stop();
}

#[test]
fn silent_clients_make_room() {
    let served = Served::start();
    // Nothing, half a request, and an answer that nobody reads.
    let silent = (0..200).map(|number| {
        let mut stream = served.connect();
        match number % 3 {
            0 => {}
            1 => stream.write_all(&ASK[..20]).unwrap(),
            _ => stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap(),
        }
        stream
    });
    let silent: Vec<TcpStream> = silent.collect();
    served.assert_serves();
    let address = served.address;
    let asking =
        (0..20).map(|_| thread::spawn(move || answer(TcpStream::connect(address).unwrap(), ASK)));
    let asking: Vec<_> = asking.collect();
    for asked in asking {
        assert!(asked.join().unwrap().starts_with("HTTP/1.1 200 OK\r\n"));
    }
    drop(silent);
    served.rig.stop();
}

#[test]
fn nobody_is_served_when_it_has_ended() {
    let served = Served::start();
    let mut waiting = served.connect();
    assert!(served.answer(b"GET / HTTP/1.1\r\n\r\n").contains(" 404 "));
    // The array first: whoever asks then hears that.
    served.rig.stop();
    let told = answer(TcpStream::connect(served.address).unwrap(), ASK);
    assert!(told.starts_with("HTTP/1.1 503 "), "{told}");
    assert!(told.contains("the array is stopping"), "{told}");
    drop(served.server);
    assert_eq!(waiting.read(&mut [0]).unwrap(), 0);
}

#[test]
fn an_address_that_is_taken_is_refused_with_the_way_out() {
    let taken = TcpListener::bind(anywhere()).unwrap();
    let error = MetricsListener::bind(taken.local_addr().unwrap()).unwrap_err();
    assert!(
        error.to_string().contains("give each its own port"),
        "{error}"
    );
    // A network for documentation: nobody has it.
    let nobodys = "192.0.2.1:9617".parse().unwrap();
    let error = MetricsListener::bind(nobodys).unwrap_err();
    assert!(error.to_string().contains("no interface"), "{error}");
}

#[test]
fn an_array_is_asked_once_for_many() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let mut pages = Pages::new(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        Err("not now".to_owned())
    });
    use super::Format::{OpenMetrics, Prometheus};
    // What failed is asked for again.
    for _ in 0..3 {
        assert!(pages.page(OpenMetrics).is_err());
    }
    assert_eq!(asked.load(Ordering::Relaxed), 3);
    let old = std::time::Instant::now() - super::PAGE_AGE_MAX;
    pages.last = Some((old, OpenMetrics, "old".to_owned()));
    assert!(pages.page(OpenMetrics).is_err(), "too old");
    let coming = std::time::Instant::now() + super::PAGE_AGE_MAX;
    pages.last = Some((coming, OpenMetrics, "new".to_owned()));
    assert_eq!(pages.page(OpenMetrics).unwrap(), "new");
    assert!(pages.page(Prometheus).is_err(), "in another format");
}

#[test]
fn who_is_being_answered_keeps_its_place() {
    let listener = TcpListener::bind(anywhere()).unwrap();
    let address = listener.local_addr().unwrap();
    let pages = Pages::new(|_| Ok(String::new()));
    let mut all = Loop::new(listener, pages);
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        clients.push(TcpStream::connect(address).unwrap());
        let (stream, _) = all.listener.accept().unwrap();
        assert!(all.make_room());
        let mut connection = Connection::new(stream).unwrap();
        connection.phase = Phase::Answering(vec![0], 0);
        all.connections.push(connection);
    }
    assert!(!all.make_room());
    all.connections[7].phase = Phase::Asking(Vec::new());
    all.connections[9].phase = Phase::Closing;
    assert!(all.make_room());
    assert_eq!(all.connections.len(), CONNECTIONS_MAX - 1);
    assert!(matches!(all.connections[8].phase, Phase::Closing));
}
