//! Connecting to a server and negotiating with it, within a time limit. Blocks.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use heliostat_nbd::codec::{OptionHeader, RequestHeader, command, option};
use heliostat_nbd::handshake::{
    HANDSHAKE_INPUT_BYTES_MIN, Handshake, HandshakeError, Negotiated, Wish,
};
use heliostat_nbd::input::Input;
use heliostat_nbd::replies::{Asked, REPLY_INPUT_BYTES_MIN, Replies, ReplyError, ReplyEvent};
use heliostat_nbd::uri::{Endpoint, ExportUri};
use heliostat_types::Extent;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};

use super::witness::Witness;

/// How long it may take until an export is open.
pub(super) const DIAL_TIME_MAX: Duration = Duration::from_secs(10);

/// How often a unix socket whose server lets nobody in is tried again.
const QUEUE_FULL_PAUSE: Duration = Duration::from_millis(20);

/// How long a peer may be silent before the kernel asks whether it is there, how often it asks, and
/// how long what was sent may stay unconfirmed: a peer that vanished is noticed before the leg
/// time-out (30 s), so that there is time for a new connection.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
const KEEPALIVE_PAUSE: Duration = Duration::from_secs(3);
const KEEPALIVE_COUNT: u32 = 3;
const UNCONFIRMED_MAX_MS: u32 = 15_000;

/// An export, and where it is to be found.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(super) uri: ExportUri,
    /// How long connecting may take.
    pub(super) time_max: Duration,
}

/// A connection on which requests may be sent, in both directions without waiting.
#[derive(Debug)]
pub(super) struct Dialled {
    pub(super) fd: OwnedFd,
    pub(super) negotiated: Negotiated,
}

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum DialError {
    /// No address belongs to the name.
    NoAddress(io::Error),
    /// Nobody answers there.
    Unreachable(io::Error),
    /// The server closed the connection instead of negotiating.
    Closed,
    /// It broke off.
    Broken(io::Error),
    /// It took too long.
    TimedOut {
        /// Until then it had to be so far, in words.
        waiting_for: &'static str,
        limit: Duration,
    },
    /// They do not come together.
    Handshake(HandshakeError),
    /// The server broke the protocol.
    Reply(ReplyError),
    /// The server fails to read, with this error number.
    ReadRefused(u32),
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAddress(error) => write!(f, "the name of its server has no address ({error})"),
            Self::Unreachable(error) => write!(f, "its server cannot be reached ({error})"),
            Self::Closed => f.write_str("its server closed the connection at once"),
            Self::Broken(error) => write!(f, "the connection broke ({error})"),
            Self::TimedOut { waiting_for, limit } => {
                write!(f, "{waiting_for} within {} s", limit.as_secs_f64())
            }
            Self::Handshake(error) => error.fmt(f),
            Self::Reply(error) => error.fmt(f),
            Self::ReadRefused(error) => write!(f, "its server fails to read (error {error})"),
        }
    }
}

impl DialError {
    /// What to do about it.
    pub(super) fn way_out(&self) -> &'static str {
        match self {
            Self::NoAddress(_) => "correct the name, or write the address itself",
            Self::Unreachable(_) => "start the server, or correct the address",
            Self::Closed => {
                "look at what the server says; it may not have the export, or not want this client"
            }
            Self::Broken(_) | Self::Reply(_) | Self::ReadRefused(_) => {
                "look at what the server says"
            }
            Self::TimedOut { .. } => {
                "look whether the server is overloaded, or lets in fewer clients than there are \
                 (qemu-nbd does by default: --shared=4)"
            }
            Self::Handshake(HandshakeError::UnknownExport { .. }) => {
                "correct the name in the URI, after the '/'"
            }
            Self::Handshake(HandshakeError::TlsRequired) => {
                "use a unix socket, or a network that is safe by itself"
            }
            Self::Handshake(_) => "name another server",
        }
    }
}

impl Target {
    pub(super) const fn new(uri: ExportUri) -> Self {
        Self {
            uri,
            time_max: DIAL_TIME_MAX,
        }
    }

    /// The addresses of a server in a network, none for others.
    pub(super) fn addresses(&self) -> Result<Vec<SocketAddr>, DialError> {
        let Endpoint::Tcp { host, port } = &self.uri.endpoint else {
            return Ok(Vec::new());
        };
        let addresses = (host.as_str(), *port).to_socket_addrs();
        Ok(addresses.map_err(DialError::NoAddress)?.collect())
    }

    /// Connects and negotiates.
    pub(super) fn dial(&self) -> Result<Dialled, DialError> {
        self.dial_with(&self.patience())
    }

    /// The same, and asks whether the server has these bytes; where not, which it has lost. A
    /// server of another size is not asked, since whoever compares that has more to say.
    pub(super) fn dial_known(
        &self,
        witnesses: &[Witness],
    ) -> Result<Result<Dialled, Extent>, DialError> {
        let patience = self.patience();
        let dialled = self.dial_with(&patience)?;
        for Witness { extent, bytes } in witnesses {
            let is_there = extent.end() <= dialled.negotiated.details.size_bytes;
            if is_there && read(&dialled, *extent, &patience)? != *bytes {
                return Ok(Err(*extent));
            }
        }
        Ok(Ok(dialled))
    }

    fn patience(&self) -> Patience {
        Patience {
            limit: self.time_max,
            end: Instant::now() + self.time_max,
        }
    }

    fn dial_with(&self, patience: &Patience) -> Result<Dialled, DialError> {
        let fd = match &self.uri.endpoint {
            Endpoint::Unix(path) => connect_unix(path, patience)?,
            Endpoint::Tcp { .. } => connect_tcp(&self.addresses()?, patience)?,
            Endpoint::Inherited | Endpoint::Stdio => {
                unreachable!("legs are found at addresses only")
            }
        };
        let negotiated = negotiate(&fd, &self.uri.export, patience)?;
        Ok(Dialled { fd, negotiated })
    }
}

/// Until when to wait.
#[derive(Debug)]
struct Patience {
    limit: Duration,
    end: Instant,
}

impl Patience {
    /// Waits until something can be sent or received; at most until the end, or for a part of the
    /// time that is left.
    fn wait(
        &self,
        fd: &OwnedFd,
        flags: PollFlags,
        parts: u32,
        waiting_for: &'static str,
    ) -> Result<(), DialError> {
        loop {
            let left = self.end.saturating_duration_since(Instant::now()) / parts;
            let timeout = Timespec::try_from(left).expect("a few seconds");
            match poll(&mut [PollFd::new(fd, flags)], Some(&timeout)) {
                Ok(0) => return Err(self.timed_out(waiting_for)),
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(DialError::Broken(errno.into())),
            }
        }
    }

    const fn timed_out(&self, waiting_for: &'static str) -> DialError {
        DialError::TimedOut {
            waiting_for,
            limit: self.limit,
        }
    }
}

fn unreachable(errno: Errno) -> DialError {
    DialError::Unreachable(errno.into())
}

fn new_socket(family: AddressFamily) -> Result<OwnedFd, DialError> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(family, SocketType::STREAM, flags, None).map_err(unreachable)
}

fn connect_unix(path: &Path, patience: &Patience) -> Result<OwnedFd, DialError> {
    let address = SocketAddrUnix::new(path).map_err(unreachable)?;
    let fd = new_socket(AddressFamily::UNIX)?;
    loop {
        match rustix::net::connect(&fd, &address) {
            Ok(()) => return Ok(fd),
            Err(Errno::AGAIN) if Instant::now() < patience.end => thread::sleep(QUEUE_FULL_PAUSE),
            Err(Errno::AGAIN) => {
                return Err(patience.timed_out("its server let nobody in"));
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(unreachable(errno)),
        }
    }
}

/// Tries one address after the other.
fn connect_tcp(addresses: &[SocketAddr], patience: &Patience) -> Result<OwnedFd, DialError> {
    let mut last = DialError::Unreachable(io::ErrorKind::AddrNotAvailable.into());
    for (index, address) in addresses.iter().enumerate() {
        let parts = u32::try_from(addresses.len() - index).expect("a name has few addresses");
        match connect_address(address, patience, parts) {
            Ok(fd) => {
                set_tcp_options(&fd);
                return Ok(fd);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn connect_address(
    address: &SocketAddr,
    patience: &Patience,
    parts: u32,
) -> Result<OwnedFd, DialError> {
    let fd = new_socket(if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    })?;
    match rustix::net::connect(&fd, address) {
        Ok(()) => {}
        Err(Errno::INPROGRESS | Errno::INTR) => {
            patience.wait(&fd, PollFlags::OUT, parts, "its server did not answer")?;
            sockopt::socket_error(&fd)
                .and_then(|result| result)
                .map_err(unreachable)?;
        }
        Err(errno) => return Err(unreachable(errno)),
    }
    Ok(fd)
}

/// All of these are wishes: without them a peer that vanished is noticed by the leg time-out.
fn set_tcp_options(fd: &OwnedFd) {
    // Requests leave in whole batches, and waiting to fill a packet only delays them.
    let _ = sockopt::set_tcp_nodelay(fd, true);
    let _ = sockopt::set_socket_keepalive(fd, true);
    let _ = sockopt::set_tcp_keepidle(fd, KEEPALIVE_IDLE);
    let _ = sockopt::set_tcp_keepintvl(fd, KEEPALIVE_PAUSE);
    let _ = sockopt::set_tcp_keepcnt(fd, KEEPALIVE_COUNT);
    let _ = sockopt::set_tcp_user_timeout(fd, UNCONFIRMED_MAX_MS);
}

fn negotiate(fd: &OwnedFd, export: &str, patience: &Patience) -> Result<Negotiated, DialError> {
    let mut handshake = Handshake::new(Wish {
        export: export.to_owned(),
        structured: true,
        allocation: true,
    });
    let mut input = Input::with_size(HANDSHAKE_INPUT_BYTES_MIN);
    loop {
        let mut output = Vec::new();
        let received = handshake.receive(input.held(), &mut output);
        let (consumed, negotiated) = received.map_err(|error| {
            say_goodbye(fd, &error);
            DialError::Handshake(error)
        })?;
        input.consume(consumed);
        send_all(fd, &output, patience)?;
        match negotiated {
            Some(_) if !input.held().is_empty() => {
                let early = HandshakeError::Protocol("an answer before the first request");
                return Err(DialError::Handshake(early));
            }
            Some(negotiated) => return Ok(negotiated),
            None if consumed > 0 => {}
            None => receive(fd, &mut input, patience)?,
        }
    }
}

/// Reads a few bytes, the only request in flight.
fn read(dialled: &Dialled, extent: Extent, patience: &Patience) -> Result<Vec<u8>, DialError> {
    let Dialled { fd, negotiated } = dialled;
    let mut replies = Replies::new(negotiated.is_structured, negotiated.allocation_context);
    let mut request = Vec::new();
    RequestHeader {
        flags: 0,
        command: command::READ,
        cookie: replies.ask(Asked::Read(extent)),
        offset_bytes: extent.offset(),
        len_bytes: u32::try_from(extent.len()).expect("a few bytes"),
    }
    .write(&mut request);
    send_all(fd, &request, patience)?;
    let mut bytes = vec![0; usize::try_from(extent.len()).expect("a few bytes")];
    let mut input = Input::with_size(REPLY_INPUT_BYTES_MIN);
    let mut place = 0;
    loop {
        let held = input.held();
        let len = held.len().min(replies.payload_remaining());
        bytes[place..place + len].copy_from_slice(&held[..len]);
        place += len;
        input.consume(len);
        replies.advance_payload(len);
        if replies.payload_remaining() > 0 {
            receive(fd, &mut input, patience)?;
            continue;
        }
        let received = replies.receive(input.held());
        let (consumed, event) = received.map_err(DialError::Reply)?;
        input.consume(consumed);
        match event {
            ReplyEvent::Answered { result: Ok(_), .. } => return Ok(bytes),
            ReplyEvent::Answered {
                result: Err(error), ..
            } => return Err(DialError::ReadRefused(error)),
            ReplyEvent::Data { at, .. } => place = at,
            ReplyEvent::Hole { at, len, .. } => bytes[at..at + len].fill(0),
            ReplyEvent::Handled => {}
            ReplyEvent::NeedInput => receive(fd, &mut input, patience)?,
        }
    }
}

/// Tells a server that speaks NBD that we leave, so that it does not call our going an error.
fn say_goodbye(fd: &OwnedFd, error: &HandshakeError) {
    if let HandshakeError::NotNbd | HandshakeError::Oldstyle | HandshakeError::Protocol(_) = error {
        return;
    }
    let mut goodbye = Vec::new();
    OptionHeader {
        option: option::ABORT,
        len_bytes: 0,
    }
    .write(&mut goodbye);
    // One that does not hear it sees the end of the connection.
    let _ = rustix::net::send(fd, &goodbye, SendFlags::NOSIGNAL);
}

fn send_all(fd: &OwnedFd, mut bytes: &[u8], patience: &Patience) -> Result<(), DialError> {
    while !bytes.is_empty() {
        match rustix::net::send(fd, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(Errno::AGAIN) => {
                patience.wait(fd, PollFlags::OUT, 1, "its server did not listen")?;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(DialError::Broken(errno.into())),
        }
    }
    Ok(())
}

fn receive(fd: &OwnedFd, input: &mut Input, patience: &Patience) -> Result<(), DialError> {
    loop {
        match rustix::net::recv(fd.as_fd(), input.room(), RecvFlags::empty()) {
            Ok((0, _)) => return Err(DialError::Closed),
            Ok((received, _)) => {
                input.receive(received);
                return Ok(());
            }
            Err(Errno::AGAIN) => {
                patience.wait(fd, PollFlags::IN, 1, "its server did not negotiate")?;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(DialError::Broken(errno.into())),
        }
    }
}
