//! A small NBD client: one connection, any number of requests in flight, one caller.
//!
//! For load generators and tests, so it measures more than it offers: no reconnection, no TLS, no
//! metadata. Requests are gathered by [`Client::submit`] and leave together; [`Client::wait`] sends
//! and receives until one is answered. Both directions move at the same time, so a server that
//! stops reading until its answers are taken never deadlocks with it.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use heliostat_nbd::codec::{RequestHeader, command, command_flag, transmission};
use heliostat_nbd::handshake::{
    ExportDetails, HANDSHAKE_INPUT_BYTES_MIN, Handshake, HandshakeError, Wish,
};
use heliostat_nbd::input::Input;
use heliostat_nbd::replies::{Asked, REPLY_INPUT_BYTES_MIN, Replies, ReplyError, ReplyEvent};
use heliostat_nbd::uri::{Endpoint, ExportUri};
use heliostat_types::Extent;
use rustix::event::{PollFd, PollFlags, poll};

/// How many bytes are taken in at once: dozens of small replies.
const INPUT_BYTES: usize = 256 << 10;

/// Why a connection cannot be used, or not any more.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The socket said so.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The server closed the connection.
    #[error("the server closed the connection")]
    Closed,
    /// The server does not want us, or not like this.
    #[error("{0}")]
    Handshake(#[from] HandshakeError),
    /// The server broke the protocol.
    #[error("{0}")]
    Reply(#[from] ReplyError),
    /// There is no client for this kind of endpoint.
    #[error("a client cannot connect to '{0}'")]
    NotAnAddress(String),
}

/// What can be asked for.
#[derive(Clone, Copy, Debug)]
pub enum ClientRequest<'a> {
    /// Bytes.
    Read {
        /// Which.
        extent: Extent,
    },
    /// Store these bytes.
    Write {
        /// Where the first one goes.
        offset_bytes: u64,
        /// The bytes.
        bytes: &'a [u8],
        /// Answer only when durable.
        fua: bool,
    },
    /// Make durable what was answered.
    Flush,
}

/// A request that was answered.
#[derive(Debug)]
pub struct Completion<'a> {
    /// What [`Client::submit`] was told to call it.
    pub tag: u64,
    /// The bytes of a READ, none for the rest; or the server's error number.
    pub result: Result<&'a [u8], u32>,
}

/// A socket of either kind.
#[derive(Debug)]
enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// One connection.
#[derive(Debug)]
pub struct Client {
    stream: Stream,
    details: ExportDetails,
    replies: Replies,
    output: Vec<u8>,
    sent: usize,
    input: Input,
    slots: Vec<Slot>,
    /// Where the data goes that comes next: request and place.
    place: (usize, usize),
}

/// A request in flight, or room for one. The data's memory is used again.
#[derive(Debug, Default)]
struct Slot {
    tag: u64,
    data: Vec<u8>,
}

impl Client {
    /// Connects to an export, with or without structured replies.
    ///
    /// # Errors
    /// Where the server cannot be reached or does not want us.
    pub fn connect(uri: &ExportUri, structured: bool) -> Result<Self, ClientError> {
        let mut stream = match &uri.endpoint {
            Endpoint::Unix(path) => Stream::Unix(UnixStream::connect(path)?),
            Endpoint::Tcp { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port))?;
                stream.set_nodelay(true)?;
                Stream::Tcp(stream)
            }
            Endpoint::Inherited | Endpoint::Stdio => {
                return Err(ClientError::NotAnAddress(uri.to_string()));
            }
        };
        let mut input = Input::with_size(INPUT_BYTES);
        let mut handshake = Handshake::new(Wish {
            export: uri.export.clone(),
            structured,
            allocation: false,
        });
        let negotiated = loop {
            let mut output = Vec::new();
            let (consumed, negotiated) = handshake.receive(input.held(), &mut output)?;
            input.consume(consumed);
            stream.send_all(&output)?;
            if let Some(negotiated) = negotiated {
                break negotiated;
            }
            if consumed == 0 {
                match stream.recv(input.room())? {
                    0 => return Err(ClientError::Closed),
                    received => input.receive(received),
                }
            }
        };
        stream.set_nonblocking()?;
        Ok(Self {
            stream,
            details: negotiated.details,
            replies: Replies::new(negotiated.is_structured, None),
            output: Vec::new(),
            sent: 0,
            input,
            slots: Vec::new(),
            place: (0, 0),
        })
    }

    /// What the server said of the export.
    #[must_use]
    pub const fn details(&self) -> ExportDetails {
        self.details
    }

    /// How many requests were submitted and not yet answered.
    #[must_use]
    pub const fn in_flight(&self) -> usize {
        self.replies.in_flight()
    }

    /// Gathers a request; it is sent by the next [`Client::wait`].
    ///
    /// # Panics
    /// Where nothing or more than 4 GiB is asked for.
    pub fn submit(&mut self, tag: u64, request: ClientRequest<'_>) {
        let asked = match request {
            ClientRequest::Read { extent } => Asked::Read(extent),
            ClientRequest::Write { .. } | ClientRequest::Flush => Asked::Done,
        };
        let mut header = RequestHeader {
            flags: 0,
            command: command::FLUSH,
            cookie: self.replies.ask(asked),
            offset_bytes: 0,
            len_bytes: 0,
        };
        let index = Replies::index(header.cookie);
        self.slots
            .resize_with(self.slots.len().max(index + 1), Slot::default);
        match request {
            ClientRequest::Read { extent } => {
                header.command = command::READ;
                header.offset_bytes = extent.offset();
                header.len_bytes = wire_len(extent.len());
                if self.details.flags & transmission::SEND_DF != 0 {
                    header.flags = command_flag::DF;
                }
            }
            ClientRequest::Write {
                offset_bytes,
                bytes,
                fua,
            } => {
                header.command = command::WRITE;
                header.offset_bytes = offset_bytes;
                header.len_bytes = wire_len(as_u64(bytes.len()));
                header.flags = if fua { command_flag::FUA } else { 0 };
            }
            ClientRequest::Flush => {}
        }
        let slot = &mut self.slots[index];
        slot.tag = tag;
        let data_len = match asked {
            Asked::Read(extent) => usize::try_from(extent.len()).expect("less than 4 GiB"),
            Asked::Status(_) | Asked::Done => 0,
        };
        slot.data.resize(data_len, 0);
        header.write(&mut self.output);
        if let ClientRequest::Write { bytes, .. } = request {
            self.output.extend_from_slice(bytes);
        }
    }

    /// Waits until a request is answered. The bytes of a read are good until the next call.
    ///
    /// # Errors
    /// Where the connection is gone, or the server breaks the protocol. It is of no use then.
    ///
    /// # Panics
    /// Where nothing is in flight.
    pub fn wait(&mut self) -> Result<Completion<'_>, ClientError> {
        assert!(self.in_flight() > 0, "something to wait for is in flight");
        let (cookie, error) = loop {
            if let Some(answer) = self.next_answer()? {
                break answer;
            }
            self.pump()?;
        };
        let slot = &self.slots[Replies::index(cookie)];
        Ok(Completion {
            tag: slot.tag,
            result: error.map_or(Ok(&slot.data), Err),
        })
    }

    /// Says goodbye. Requests in flight are not waited for.
    ///
    /// # Errors
    /// Where the connection is gone.
    pub fn disconnect(mut self) -> Result<(), ClientError> {
        let header = RequestHeader {
            flags: 0,
            command: command::DISC,
            cookie: 0,
            offset_bytes: 0,
            len_bytes: 0,
        };
        header.write(&mut self.output);
        while !self.output.is_empty() {
            match self.pump() {
                // The server is free to go as soon as it has heard it.
                Err(ClientError::Closed) if self.output.is_empty() => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// Sends what there is to send and receives what there is to receive; waits where neither
    /// moves.
    fn pump(&mut self) -> Result<(), ClientError> {
        let mut moved = false;
        if self.sent < self.output.len() {
            moved = match self.stream.send(&self.output[self.sent..]) {
                Ok(sent) => {
                    self.sent += sent;
                    true
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
                Err(error) => return Err(error.into()),
            };
        }
        if self.sent == self.output.len() {
            self.output.clear();
            self.sent = 0;
        }
        match self.stream.recv(self.input.room()) {
            Ok(0) => return Err(ClientError::Closed),
            Ok(received) => {
                self.input.receive(received);
                moved = true;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        if !moved {
            let mut interest = PollFlags::IN;
            interest.set(PollFlags::OUT, !self.output.is_empty());
            let mut fds = [PollFd::from_borrowed_fd(self.stream.as_fd(), interest)];
            poll(&mut fds, None).map_err(io::Error::from)?;
        }
        Ok(())
    }

    /// The next request whose reply is whole, and its error if it has one; `None` where more input
    /// is needed.
    fn next_answer(&mut self) -> Result<Option<(u64, Option<u32>)>, ClientError> {
        loop {
            let held = self.input.held();
            let len = held.len().min(self.replies.payload_remaining());
            if len > 0 {
                let (index, at) = self.place;
                self.slots[index].data[at..at + len].copy_from_slice(&held[..len]);
                self.place.1 += len;
                self.input.consume(len);
                self.replies.advance_payload(len);
            }
            if self.replies.payload_remaining() > 0 {
                return Ok(None);
            }
            let (consumed, event) = self.replies.receive(self.input.held())?;
            self.input.consume(consumed);
            match event {
                ReplyEvent::NeedInput => return Ok(None),
                ReplyEvent::Handled => {}
                ReplyEvent::Data { cookie, at } => self.place = (Replies::index(cookie), at),
                ReplyEvent::Hole { cookie, at, len } => {
                    self.slots[Replies::index(cookie)].data[at..at + len].fill(0);
                }
                ReplyEvent::Answered { cookie, result } => return Ok(Some((cookie, result.err()))),
            }
        }
    }
}

impl Stream {
    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_nonblocking(true),
            Self::Tcp(stream) => stream.set_nonblocking(true),
        }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }

    /// For a socket that waits.
    fn send_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.write_all(bytes),
            Self::Tcp(stream) => stream.write_all(bytes),
        }
    }

    fn recv(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(bytes),
            Self::Tcp(stream) => stream.read(bytes),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }
}

fn wire_len(bytes: u64) -> u32 {
    u32::try_from(bytes).expect("a request asks for less than 4 GiB")
}

fn as_u64(len: usize) -> u64 {
    u64::try_from(len).expect("64 bits hold a usize")
}

const _: () = assert!(
    INPUT_BYTES > REPLY_INPUT_BYTES_MIN && INPUT_BYTES > HANDSHAKE_INPUT_BYTES_MIN,
    "every message fits"
);
