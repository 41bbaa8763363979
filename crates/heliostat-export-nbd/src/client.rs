//! A small NBD client: one connection, any number of requests in flight, one caller.
//!
//! For load generators and tests, so it measures more than it offers: no reconnection, no TLS, no
//! metadata. Requests are gathered by [`Client::submit`] and leave together; [`Client::wait`] sends
//! and receives until one is answered. Both directions move at the same time, so a server that
//! stops reading until its answers are taken never deadlocks with it.

mod handshake;

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use heliostat_types::Extent;
use rustix::event::{PollFd, PollFlags, poll};

use heliostat_nbd::codec::{
    CHUNK_HEADER_BYTES, ChunkHeader, Fields, RequestHeader, SIMPLE_REPLY_BYTES, SIMPLE_REPLY_MAGIC,
    chunk, command, command_flag, transmission,
};
use heliostat_nbd::uri::{Endpoint, ExportUri};

/// How many bytes are taken in at once: dozens of small replies.
const INPUT_BYTES: usize = 256 << 10;
/// The longest error reply that is understood: number, length, the longest message, an offset.
const ERROR_BYTES_MAX: u32 = 6 + 4096 + 8;

/// Why a connection cannot be used, or not any more.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The socket said so.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The server closed the connection.
    #[error("the server closed the connection")]
    Closed,
    /// The server refused an option.
    #[error("the server refused option {option} (error {kind:#x}): {message}")]
    Refused {
        /// Which option.
        option: u32,
        /// With which reply, of [`heliostat_nbd::codec::option_reply`].
        kind: u32,
        /// What it said about it.
        message: String,
    },
    /// The server broke the protocol.
    #[error("the server broke the protocol: {0}")]
    Protocol(&'static str),
    /// There is no client for this kind of endpoint.
    #[error("a client cannot connect to '{0}'")]
    NotAnAddress(String),
}

/// What a server said of its export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportDetails {
    /// How many bytes there are.
    pub size_bytes: u64,
    /// Bits of [`heliostat_nbd::codec::transmission`].
    pub flags: u16,
    /// Smallest, preferred and largest block, where the server said.
    pub block_sizes: Option<[u32; 3]>,
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
    structured: bool,
    output: Vec<u8>,
    sent: usize,
    input: Box<[u8]>,
    input_start: usize,
    input_end: usize,
    slots: Vec<Slot>,
    free: Vec<u32>,
    phase: Phase,
}

/// A request in flight, or room for one. The data's memory is used again.
#[derive(Debug, Default)]
struct Slot {
    tag: u64,
    in_flight: bool,
    offset_bytes: u64,
    data: Vec<u8>,
    error: u32,
}

/// What comes next from the server.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Head,
    Data {
        slot: u32,
        at: usize,
        end: usize,
        done: bool,
    },
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
        let (details, structured) = handshake::negotiate(&mut stream, &uri.export, structured)?;
        stream.set_nonblocking()?;
        Ok(Self {
            stream,
            details,
            structured,
            output: Vec::new(),
            sent: 0,
            input: vec![0; INPUT_BYTES].into_boxed_slice(),
            input_start: 0,
            input_end: 0,
            slots: Vec::new(),
            free: Vec::new(),
            phase: Phase::Head,
        })
    }

    /// What the server said of the export.
    #[must_use]
    pub const fn details(&self) -> ExportDetails {
        self.details
    }

    /// How many requests were submitted and not yet answered.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Gathers a request; it is sent by the next [`Client::wait`].
    ///
    /// # Panics
    /// Where more than 4 GiB are asked for.
    pub fn submit(&mut self, tag: u64, request: ClientRequest<'_>) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            u32::try_from(self.slots.len() - 1).expect("fewer requests than 2^32 are in flight")
        });
        let mut header = RequestHeader {
            flags: 0,
            command: command::FLUSH,
            cookie: u64::from(index),
            offset_bytes: 0,
            len_bytes: 0,
        };
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
        let slot = &mut self.slots[as_index(index)];
        slot.tag = tag;
        slot.in_flight = true;
        slot.offset_bytes = header.offset_bytes;
        slot.error = 0;
        let data_len = if header.command == command::READ {
            as_index(header.len_bytes)
        } else {
            0
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
        let index = loop {
            if let Some(index) = self.next_answer()? {
                break index;
            }
            self.pump()?;
        };
        self.free.push(index);
        let slot = &mut self.slots[as_index(index)];
        slot.in_flight = false;
        Ok(Completion {
            tag: slot.tag,
            result: match slot.error {
                0 => Ok(&slot.data),
                error => Err(error),
            },
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
        if self.input_start == self.input_end {
            (self.input_start, self.input_end) = (0, 0);
        } else if self.input_end == self.input.len() {
            self.input.copy_within(self.input_start.., 0);
            self.input_end -= self.input_start;
            self.input_start = 0;
        }
        match self.stream.recv(&mut self.input[self.input_end..]) {
            Ok(0) => return Err(ClientError::Closed),
            Ok(received) => {
                self.input_end += received;
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

    /// The slot of the next request whose reply is whole, or `None` where more input is needed.
    fn next_answer(&mut self) -> Result<Option<u32>, ClientError> {
        loop {
            let input = &self.input[self.input_start..self.input_end];
            let (slot, at, end, done) = match self.phase {
                Phase::Data {
                    slot,
                    at,
                    end,
                    done,
                } => (slot, at, end, done),
                Phase::Head => match self.next_head()? {
                    Head::NeedInput => return Ok(None),
                    Head::Answered(slot) => return Ok(Some(slot)),
                    Head::Continues => continue,
                },
            };
            let len = input.len().min(end - at);
            self.slots[as_index(slot)].data[at..at + len].copy_from_slice(&input[..len]);
            self.input_start += len;
            if at + len < end {
                self.phase = Phase::Data {
                    slot,
                    at: at + len,
                    end,
                    done,
                };
                return Ok(None);
            }
            self.phase = Phase::Head;
            if done {
                return Ok(Some(slot));
            }
        }
    }

    fn next_head(&mut self) -> Result<Head, ClientError> {
        let input = &self.input[self.input_start..self.input_end];
        match input.first_chunk::<4>() {
            None => Ok(Head::NeedInput),
            Some(magic) if *magic == SIMPLE_REPLY_MAGIC.to_be_bytes() => self.simple_reply(),
            Some(_) if self.structured => self.chunk(),
            Some(_) => Err(ClientError::Protocol("a reply began with a wrong number")),
        }
    }

    fn simple_reply(&mut self) -> Result<Head, ClientError> {
        let input = &self.input[self.input_start..self.input_end];
        if input.len() < SIMPLE_REPLY_BYTES {
            return Ok(Head::NeedInput);
        }
        let mut fields = Fields(&input[4..]);
        let error = fields.u32().expect("the length was checked");
        let cookie = fields.u64().expect("the length was checked");
        let index = self.find(cookie)?;
        self.input_start += SIMPLE_REPLY_BYTES;
        let slot = &mut self.slots[as_index(index)];
        slot.error = error;
        if error != 0 || slot.data.is_empty() {
            return Ok(Head::Answered(index));
        }
        self.phase = Phase::Data {
            slot: index,
            at: 0,
            end: slot.data.len(),
            done: true,
        };
        Ok(Head::Continues)
    }

    fn chunk(&mut self) -> Result<Head, ClientError> {
        let input = &self.input[self.input_start..self.input_end];
        let Some(bytes) = input.first_chunk::<CHUNK_HEADER_BYTES>() else {
            return Ok(Head::NeedInput);
        };
        let header = ChunkHeader::parse(bytes)
            .ok_or(ClientError::Protocol("a reply began with a wrong number"))?;
        let index = self.find(header.cookie)?;
        let done = header.flags & chunk::FLAG_DONE != 0;
        let rest = &input[CHUNK_HEADER_BYTES..];
        // What of the payload is read together with the head: all of it, unless it is data.
        let fields_len = match header.kind {
            chunk::OFFSET_DATA if header.len_bytes > 8 => 8,
            chunk::OFFSET_DATA => return Err(ClientError::Protocol("data without bytes")),
            _ if header.len_bytes > ERROR_BYTES_MAX => {
                return Err(ClientError::Protocol("a chunk is too long"));
            }
            _ => as_index(header.len_bytes),
        };
        let Some(fields) = rest.get(..fields_len) else {
            return Ok(Head::NeedInput);
        };
        let mut fields = Fields(fields);
        let slot = &mut self.slots[as_index(index)];
        match header.kind {
            chunk::NONE if done => {}
            chunk::OFFSET_DATA => {
                let offset = fields.u64().expect("the length was checked");
                let (at, end) = slot.place(offset, u64::from(header.len_bytes) - 8)?;
                self.phase = Phase::Data {
                    slot: index,
                    at,
                    end,
                    done,
                };
            }
            chunk::OFFSET_HOLE => {
                let malformed = ClientError::Protocol("a hole is malformed");
                let (Some(offset), Some(len)) = (fields.u64(), fields.u32()) else {
                    return Err(malformed);
                };
                let (at, end) = slot.place(offset, u64::from(len))?;
                slot.data[at..end].fill(0);
            }
            kind if kind & chunk::ERROR_BIT != 0 => {
                slot.error = fields
                    .u32()
                    .filter(|error| *error != 0)
                    .ok_or(ClientError::Protocol("an error has no number"))?;
            }
            _ => return Err(ClientError::Protocol("a chunk of an unknown kind")),
        }
        self.input_start += CHUNK_HEADER_BYTES + fields_len;
        Ok(if done && header.kind != chunk::OFFSET_DATA {
            Head::Answered(index)
        } else {
            Head::Continues
        })
    }

    fn find(&self, cookie: u64) -> Result<u32, ClientError> {
        let index = u32::try_from(cookie).ok();
        index
            .filter(|index| {
                let slot = self.slots.get(as_index(*index));
                slot.is_some_and(|slot| slot.in_flight)
            })
            .ok_or(ClientError::Protocol("a reply to nothing"))
    }
}

/// What the head of a reply led to.
enum Head {
    NeedInput,
    Continues,
    Answered(u32),
}

impl Slot {
    /// Where in the slot's data a piece of the reply goes.
    fn place(&self, offset_bytes: u64, len_bytes: u64) -> Result<(usize, usize), ClientError> {
        let asked = Extent::new(self.offset_bytes, as_u64(self.data.len()));
        Extent::checked_new(offset_bytes, len_bytes)
            .filter(|piece| asked.contains(*piece))
            .and_then(|piece| {
                let at = usize::try_from(piece.offset() - self.offset_bytes).ok()?;
                Some((at, at + usize::try_from(len_bytes).ok()?))
            })
            .ok_or(ClientError::Protocol("data that was not asked for"))
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

fn as_index(number: u32) -> usize {
    usize::try_from(number).expect("a usize holds 32 bits")
}

const _: () = assert!(
    INPUT_BYTES > CHUNK_HEADER_BYTES + 8192,
    "every head with its fields fits"
);
