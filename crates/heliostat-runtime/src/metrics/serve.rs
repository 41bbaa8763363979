//! Metrics over HTTP: one thread for all connections, which waits for none of them.
//!
//! Nothing a client does, or leaves undone, holds up another one or the array: a request has a
//! bound in bytes and in time, connections are few, and whoever has not said yet what it wants
//! makes room for newcomers. The array is asked for a page a few times a second at most, whoever
//! asks for it how often.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use super::http::{self, HEAD_BYTES_MAX};
use super::text::Format;
use crate::RuntimeError;
use crate::commands::Handle;

/// How many connections there are at once.
const CONNECTIONS_MAX: usize = 64;

/// How long a request may take to arrive.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(5);

/// How long an answer may take to be taken, of some 100 KiB: Prometheus gives up after 10 s.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

/// How long it is waited for the other side to close after it has its answer. Closed before, a
/// connection with something unread would be reset, and the answer lost.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(1);

/// How old a page is that is shown once more. The array copies its counters for each new one.
const PAGE_AGE_MAX: Duration = Duration::from_millis(100);

/// How long nobody is accepted after that was not possible: out of descriptors or memory, and
/// neither is gone at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where metrics will be served.
#[derive(Debug)]
pub struct MetricsListener {
    listener: TcpListener,
    address: SocketAddr,
}

impl MetricsListener {
    /// Takes an address; port 0 is any.
    ///
    /// # Errors
    /// Where it cannot be had; the text says what to do.
    pub fn bind(address: SocketAddr) -> Result<Self, RuntimeError> {
        let failed = |error: io::Error| {
            let hints = [
                (
                    ErrorKind::AddrInUse,
                    "; somebody else listens there, perhaps another array: give each its own port \
                     with --metrics-listen",
                ),
                (
                    ErrorKind::AddrNotAvailable,
                    "; no interface of this machine has that address",
                ),
                (
                    ErrorKind::PermissionDenied,
                    "; ports below 1024 are for root",
                ),
            ];
            let hint = hints.into_iter().find(|(kind, _)| *kind == error.kind());
            let hint = hint.map_or("", |(_, hint)| hint);
            RuntimeError(format!("cannot serve metrics at {address}: {error}{hint}"))
        };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// What was taken.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the page will be.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/metrics", self.address)
    }

    /// Serves the metrics of an array, until what is returned is dropped.
    ///
    /// # Errors
    /// Where there is no thread or descriptor left.
    pub fn serve(self, handle: Handle) -> Result<MetricsServer, RuntimeError> {
        let failed = |error: io::Error| RuntimeError(format!("cannot serve metrics: {error}"));
        let listener = self.listener.try_clone().map_err(failed)?;
        let pages = Pages::new(move |format| {
            let page = handle.metrics(format);
            page.map_err(|error| error.to_string())
        });
        thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || Loop::new(self.listener, pages).run())
            .map_err(failed)?;
        Ok(MetricsServer { listener })
    }
}

/// Metrics as long as they are served.
#[derive(Debug)]
pub struct MetricsServer {
    listener: TcpListener,
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        // Wakes the thread, which ends then; nobody waits for it.
        let _ = rustix::net::shutdown(self.listener.as_fd(), rustix::net::Shutdown::Both);
    }
}

/// The page, made anew where it is too old.
struct Pages<Make> {
    make: Make,
    last: Option<(Instant, Format, String)>,
}

impl<Make: FnMut(Format) -> Result<String, String>> Pages<Make> {
    const fn new(make: Make) -> Self {
        let last = None;
        Self { make, last }
    }

    fn page(&mut self, format: Format) -> Result<String, String> {
        if let Some((at, made, page)) = &self.last
            && *made == format
            && at.elapsed() < PAGE_AGE_MAX
        {
            return Ok(page.clone());
        }
        let page = (self.make)(format)?;
        self.last = Some((Instant::now(), format, page.clone()));
        Ok(page)
    }
}

/// Where a connection is.
#[derive(Debug)]
enum Phase {
    /// The request has not come to its end.
    Asking(Vec<u8>),
    /// So much of the answer is sent.
    Answering(Vec<u8>, usize),
    /// The answer is sent; the other side is to close.
    Closing,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    phase: Phase,
    /// When it is closed whatever has come by then.
    until: Instant,
}

impl Connection {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            phase: Phase::Asking(Vec::new()),
            until: Instant::now() + REQUEST_TIME_MAX,
        })
    }

    const fn waits_for(&self) -> PollFlags {
        match self.phase {
            Phase::Asking(_) | Phase::Closing => PollFlags::IN,
            Phase::Answering(..) => PollFlags::OUT,
        }
    }

    /// Goes on as far as that is possible without waiting. Whether it is still open.
    fn go_on(&mut self, answer: &mut impl FnMut(http::Asked) -> Vec<u8>) -> bool {
        loop {
            let went_on = match &mut self.phase {
                Phase::Asking(head) => Self::read(&mut self.stream, head),
                Phase::Answering(bytes, sent) => Self::write(&mut self.stream, bytes, sent),
                Phase::Closing => Self::drain(&mut self.stream),
            };
            match went_on {
                Ok(true) => {}
                Ok(false) => return false,
                Err(error) => {
                    let passes = [ErrorKind::WouldBlock, ErrorKind::Interrupted];
                    return passes.contains(&error.kind());
                }
            }
            match &self.phase {
                Phase::Asking(head) => {
                    if let Some(asked) = http::asked(head) {
                        self.phase = Phase::Answering(answer(asked), 0);
                        self.until = Instant::now() + ANSWER_TIME_MAX;
                    }
                }
                Phase::Answering(bytes, sent) if *sent == bytes.len() => {
                    if self.stream.shutdown(Shutdown::Write).is_err() {
                        return false;
                    }
                    self.phase = Phase::Closing;
                    self.until = Instant::now() + CLOSE_TIME_MAX;
                }
                // What still comes is looked at once in a turn, however much it is.
                Phase::Closing => return true,
                Phase::Answering(..) => {}
            }
        }
    }

    /// Takes some of the request. Whether there may be more.
    fn read(stream: &mut TcpStream, head: &mut Vec<u8>) -> io::Result<bool> {
        let mut bytes = [0; HEAD_BYTES_MAX];
        let count = stream.read(&mut bytes)?;
        head.extend_from_slice(&bytes[..count]);
        Ok(count > 0)
    }

    fn write(stream: &mut TcpStream, bytes: &[u8], sent: &mut usize) -> io::Result<bool> {
        let count = stream.write(&bytes[*sent..])?;
        *sent += count;
        Ok(count > 0)
    }

    /// Takes what nobody wants to know.
    fn drain(stream: &mut TcpStream) -> io::Result<bool> {
        Ok(stream.read(&mut [0; HEAD_BYTES_MAX])? > 0)
    }
}

/// All connections.
struct Loop<Make> {
    listener: TcpListener,
    pages: Pages<Make>,
    /// In the order in which they came.
    connections: Vec<Connection>,
    accepts_from: Instant,
}

impl<Make: FnMut(Format) -> Result<String, String>> Loop<Make> {
    fn new(listener: TcpListener, pages: Pages<Make>) -> Self {
        Self {
            listener,
            pages,
            connections: Vec::new(),
            accepts_from: Instant::now(),
        }
    }

    /// Serves until the listener is shut down.
    fn run(mut self) {
        while let Ok(is_ready) = self.wait() {
            let (listener, connections) = is_ready.split_last().expect("the listener is there");
            let pages = &mut self.pages;
            let mut answer = |asked| http::answer(asked, |format| pages.page(format));
            let mut is_ready = connections.iter();
            self.connections.retain_mut(|connection| {
                let is_ready = *is_ready.next().expect("each was waited for");
                let is_open = !is_ready || connection.go_on(&mut answer);
                is_open && connection.until > Instant::now()
            });
            if *listener && !self.accept_all() {
                return;
            }
        }
    }

    /// Waits for something to do. Which connections are ready, and behind them whether the listener
    /// is.
    fn wait(&self) -> io::Result<Vec<bool>> {
        let now = Instant::now();
        let accepts = self.accepts_from <= now;
        let listened = if accepts {
            PollFlags::IN
        } else {
            PollFlags::empty()
        };
        let connections = self.connections.iter();
        let mut watched: Vec<PollFd<'_>> = connections
            .map(|connection| PollFd::new(&connection.stream, connection.waits_for()))
            .chain([PollFd::new(&self.listener, listened)])
            .collect();
        let times = self.connections.iter().map(|connection| connection.until);
        let next = times.chain((!accepts).then_some(self.accepts_from)).min();
        let timeout = next.map(|at| at.saturating_duration_since(now));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match rustix::event::poll(&mut watched, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(watched.iter().map(|fd| !fd.revents().is_empty()).collect())
    }

    /// Lets everybody in who waits. Whether somebody may come later.
    fn accept_all(&mut self) -> bool {
        // So many in a turn: those who are in have waited for theirs.
        for _ in 0..CONNECTIONS_MAX {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if self.make_room()
                        && let Ok(connection) = Connection::new(stream)
                    {
                        self.connections.push(connection);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                // It is shut down.
                Err(error) if error.kind() == ErrorKind::InvalidInput => return false,
                Err(_) => {
                    self.accepts_from = Instant::now() + ACCEPT_PAUSE;
                    return true;
                }
            }
        }
        true
    }

    /// Closes the connection that has been silent for longest, where there are enough. Whether
    /// there is room for another one.
    fn make_room(&mut self) -> bool {
        if self.connections.len() < CONNECTIONS_MAX {
            return true;
        }
        let is_silent = |it: &Connection| !matches!(it.phase, Phase::Answering(..));
        let silent = self.connections.iter().position(is_silent);
        silent.is_some_and(|at| {
            self.connections.remove(at);
            true
        })
    }
}

#[cfg(test)]
mod tests;
