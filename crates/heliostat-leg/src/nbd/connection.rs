//! One connection: a socket that never waits, what is to be sent on it, and what was asked.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use heliostat_nbd::codec::{RequestHeader, command};
use heliostat_nbd::handshake::Negotiated;
use heliostat_nbd::input::Input;
use heliostat_nbd::replies::{Asked, REPLY_INPUT_BYTES_MIN, Replies, ReplyError, ReplyEvent};
use heliostat_types::StatusRun;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sockopt};

use crate::arena::{Arena, ArenaRange, LegMemory};

/// How much is received at once besides data that goes where it belongs: dozens of replies.
const INPUT_BYTES: usize = 64 << 10;

/// How many pieces are sent at once.
const SEND_SLICES_MAX: usize = 64;

/// How many bytes of heads that were sent are kept before the rest is moved to the front.
const HEADS_SENT_MAX: usize = 16 << 10;

/// After how many bytes received in a row others get their turn.
const TURN_BYTES_MAX: usize = 4 << 20;

/// Why a connection is of no use any more.
#[derive(Debug)]
pub(super) enum Loss {
    /// The server closed it.
    Closed,
    /// The network, or the server's kernel, ended it.
    Broken(Errno),
    /// The server is going to close it.
    ShuttingDown,
    /// The server broke the protocol.
    Protocol(ReplyError),
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed => f.write_str("the server closed it"),
            Self::Broken(errno) => write!(f, "{}", std::io::Error::from(*errno)),
            Self::ShuttingDown => f.write_str("the server is shutting down"),
            Self::Protocol(error) => error.fmt(f),
        }
    }
}

/// A request that was answered: whose it was, and how.
pub(super) type Answer = (u64, Result<Vec<StatusRun>, u32>);

/// What is to be asked.
#[derive(Debug)]
pub(super) struct Question {
    /// Whose it is; comes back with the answer.
    pub(super) owner: u64,
    /// The request; its cookie is chosen here.
    pub(super) header: RequestHeader,
    /// What its answer has.
    pub(super) asked: Asked,
    /// Bytes that follow it, or that it fetches.
    pub(super) memory: Option<LegMemory>,
}

/// One connection in the phase of transmission.
#[derive(Debug)]
pub(super) struct Connection {
    /// Never the same twice in a leg.
    pub(super) id: u64,
    fd: OwnedFd,
    replies: Replies,
    /// What belongs to the requests in flight, by [`Replies::index`].
    slots: Vec<Slot>,
    output: Output,
    input: Input,
    /// Whose data comes next, by cookie, and from which of its bytes on.
    place: (u64, usize),
    /// Whether the socket is watched for room to send.
    pub(super) is_blocked: bool,
}

/// What belongs to a request in flight.
#[derive(Debug)]
struct Slot {
    owner: u64,
    memory: Option<LegMemory>,
    /// How much had been sent in all when the last of its bytes was.
    sent_at: u64,
}

impl Slot {
    /// The rows of a part of its memory.
    ///
    /// # Panics
    /// Where it has no such part, which [`Replies`] makes sure of.
    fn rows(&self, at: usize, len: usize) -> impl Iterator<Item = ArenaRange> {
        let memory = self.memory.as_ref().expect("a READ has memory");
        memory.rows(at, len)
    }
}

impl Connection {
    pub(super) fn new(id: u64, fd: OwnedFd, negotiated: &Negotiated) -> Self {
        Self {
            id,
            fd,
            replies: Replies::new(negotiated.is_structured, negotiated.allocation_context),
            slots: Vec::new(),
            output: Output::default(),
            input: Input::with_size(INPUT_BYTES),
            place: (0, 0),
            is_blocked: false,
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// How many requests are not answered.
    pub(super) const fn in_flight(&self) -> usize {
        self.replies.in_flight()
    }

    /// Whether there is something to send.
    pub(super) fn has_output(&self) -> bool {
        !self.output.segments.is_empty()
    }

    /// Puts a request into the queue.
    pub(super) fn ask(&mut self, question: Question) {
        let header = RequestHeader {
            cookie: self.replies.ask(question.asked),
            ..question.header
        };
        self.output.push_head(header);
        if header.command == command::WRITE
            && let Some(memory) = &question.memory
        {
            for &range in memory.ranges() {
                self.output.push_payload(range);
            }
        }
        let slot = Slot {
            owner: question.owner,
            memory: question.memory,
            sent_at: self.output.queued_bytes,
        };
        let index = Replies::index(header.cookie);
        if index == self.slots.len() {
            self.slots.push(slot);
        } else {
            self.slots[index] = slot;
        }
    }

    /// Sends as much as the socket takes.
    pub(super) fn send(&mut self, arena: &Arena) -> Result<(), Loss> {
        while self.has_output() {
            let sent = {
                let slices = self.output.slices(arena);
                let mut control = SendAncillaryBuffer::default();
                rustix::net::sendmsg(&self.fd, &slices, &mut control, SendFlags::NOSIGNAL)
            };
            match sent {
                Ok(sent) => self.output.advance(sent),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Loss::Broken(errno)),
            }
        }
        Ok(())
    }

    /// Receives what there is, puts data where it belongs, and notes what is answered. What was
    /// answered before a loss counts.
    pub(super) fn receive(&mut self, arena: &Arena, answers: &mut Vec<Answer>) -> Result<(), Loss> {
        let mut taken = 0;
        while taken < TURN_BYTES_MAX {
            let (received, room) = match self.fill(arena) {
                Ok((0, _)) => return Err(Loss::Closed),
                Ok(told) => told,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(Loss::Broken(errno)),
            };
            self.digest(arena, answers)?;
            if received < room {
                return Ok(());
            }
            taken += received;
        }
        Ok(())
    }

    /// Receives once: into the arena what belongs there, and the rest behind what is held. How many
    /// bytes, and how many there was room for.
    fn fill(&mut self, arena: &Arena) -> Result<(usize, usize), Errno> {
        let data_len = self.replies.payload_remaining();
        let received;
        let room;
        if data_len > 0 {
            let (cookie, at) = self.place;
            let rows = self.slots[Replies::index(cookie)].rows(at, data_len);
            let input = self.input.room();
            room = data_len + input.len();
            let mut slices: Vec<IoSliceMut<'_>> = rows
                .map(|row| IoSliceMut::new(arena.slice_mut(row)))
                .chain([IoSliceMut::new(input)])
                .collect();
            received = rustix::io::readv(&self.fd, &mut slices)?;
        } else {
            let input = self.input.room();
            room = input.len();
            received = rustix::io::read(&self.fd, input)?;
        }
        let direct = received.min(data_len);
        self.advance_payload(direct);
        self.input.receive(received - direct);
        Ok((received, room))
    }

    fn advance_payload(&mut self, len: usize) {
        self.place.1 += len;
        self.replies.advance_payload(len);
    }

    /// Reads all that is held, as far as it goes.
    fn digest(&mut self, arena: &Arena, answers: &mut Vec<Answer>) -> Result<(), Loss> {
        loop {
            let len = self
                .input
                .held()
                .len()
                .min(self.replies.payload_remaining());
            if len > 0 {
                let (cookie, at) = self.place;
                for row in self.slots[Replies::index(cookie)].rows(at, len) {
                    let bytes = &self.input.held()[..row.len_bytes];
                    arena.slice_mut(row).copy_from_slice(bytes);
                    self.input.consume(row.len_bytes);
                }
                self.advance_payload(len);
            }
            if self.replies.payload_remaining() > 0 {
                return Ok(());
            }
            let (consumed, event) = self
                .replies
                .receive(self.input.held())
                .map_err(Loss::Protocol)?;
            self.input.consume(consumed);
            match event {
                ReplyEvent::NeedInput => return Ok(()),
                ReplyEvent::Handled => {}
                ReplyEvent::Data { cookie, at } => {
                    self.place = (cookie, at);
                }
                ReplyEvent::Hole { cookie, at, len } => {
                    for row in self.slots[Replies::index(cookie)].rows(at, len) {
                        arena.slice_mut(row).fill(0);
                    }
                }
                ReplyEvent::Answered { cookie, result } => {
                    let slot = &self.slots[Replies::index(cookie)];
                    if slot.sent_at > self.output.sent_bytes {
                        let early = ReplyError("an answer to what was not wholly sent");
                        return Err(Loss::Protocol(early));
                    }
                    answers.push((slot.owner, result));
                }
            }
        }
    }

    /// Says goodbye, and does not wait for an answer.
    pub(super) fn disconnect(self) {
        if self.in_flight() > 0 || self.has_output() {
            return self.reset();
        }
        let mut goodbye = Vec::new();
        RequestHeader {
            flags: 0,
            command: command::DISC,
            cookie: 0,
            offset_bytes: 0,
            len_bytes: 0,
        }
        .write(&mut goodbye);
        // A server that does not hear it sees the end of the connection.
        let _ = rustix::net::send(&self.fd, &goodbye, SendFlags::NOSIGNAL);
    }

    /// Ends the connection in a way that delivers nothing any more that the server has not got: it
    /// would be carried out after what is sent on the next connection.
    pub(super) fn reset(self) {
        // Where that is not possible (unix sockets) nothing is held back anyway.
        let _ = sockopt::set_socket_linger(&self.fd, Some(Duration::ZERO));
    }
}

/// What is to be sent.
#[derive(Debug, Default)]
struct Output {
    segments: VecDeque<Segment>,
    /// The bytes of heads that lie in `segments`, from `heads_start` on.
    heads: Vec<u8>,
    heads_start: usize,
    /// How many bytes were ever put in.
    queued_bytes: u64,
    /// How many of them were sent.
    sent_bytes: u64,
}

/// Bytes that lie together.
#[derive(Clone, Copy, Debug)]
enum Segment {
    /// The next so many bytes of the heads.
    Heads(usize),
    /// Bytes of the arena.
    Payload(ArenaRange),
}

impl Output {
    fn push_head(&mut self, header: RequestHeader) {
        let before = self.heads.len();
        header.write(&mut self.heads);
        let len = self.heads.len() - before;
        match self.segments.back_mut() {
            Some(Segment::Heads(last)) => *last += len,
            Some(Segment::Payload(_)) | None => self.segments.push_back(Segment::Heads(len)),
        }
        self.count(len);
    }

    fn push_payload(&mut self, memory: ArenaRange) {
        self.segments.push_back(Segment::Payload(memory));
        self.count(memory.len_bytes);
    }

    fn count(&mut self, len: usize) {
        self.queued_bytes += u64::try_from(len).expect("lengths in memory fit 64 bits");
    }

    /// The first of it.
    fn slices<'a>(&'a self, arena: &'a Arena) -> Vec<IoSlice<'a>> {
        let mut heads = &self.heads[self.heads_start..];
        let segments = self.segments.iter().take(SEND_SLICES_MAX);
        let slices = segments.map(|segment| match segment {
            Segment::Heads(len) => {
                let (slice, rest) = heads.split_at(*len);
                heads = rest;
                IoSlice::new(slice)
            }
            Segment::Payload(memory) => IoSlice::new(arena.slice(*memory)),
        });
        slices.collect()
    }

    /// So many bytes were sent.
    fn advance(&mut self, mut sent: usize) {
        self.sent_bytes += u64::try_from(sent).expect("lengths in memory fit 64 bits");
        while sent > 0 {
            let front = self.segments.front_mut().expect("no more than there was");
            let len = match front {
                Segment::Heads(len) => len,
                Segment::Payload(memory) => &mut memory.len_bytes,
            };
            let taken = sent.min(*len);
            *len -= taken;
            let is_empty = *len == 0;
            match front {
                Segment::Heads(_) => self.heads_start += taken,
                Segment::Payload(memory) => memory.offset_bytes += taken,
            }
            sent -= taken;
            if is_empty {
                self.segments.pop_front();
            }
        }
        // Seldom all at once while it is busy, and then once in a while.
        if self.heads_start == self.heads.len() || self.heads_start > HEADS_SENT_MAX {
            self.heads.drain(..self.heads_start);
            self.heads_start = 0;
        }
    }
}

const _: () = assert!(INPUT_BYTES > REPLY_INPUT_BYTES_MIN, "every message fits");
