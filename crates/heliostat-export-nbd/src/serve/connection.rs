//! One connection: its session, its sockets, and the buffers it holds.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use heliostat_nbd::input::Input;
use heliostat_runtime::{Answer, ClientKey, Context, Interest, Peer, RequestKind, WriteBuffer};
use heliostat_types::{ErrorKind, Instant, StreamId};

use super::Shared;
use super::budget::charge;
use super::input;
use super::output::OutputQueue;
use crate::session::{CloseReason, Event, ExportInfo, Reply, Request, Session, Tag};

/// How many requests of one connection may be in flight. Twice what clients in use send at once;
/// more than that only waits in another queue.
pub(super) const IN_FLIGHT_MAX: u32 = 256;
/// No further request is taken in while this many bytes of reply heads wait: a client that asks and
/// does not listen has to wait.
const HEADS_WAITING_MAX: usize = 64 << 10;

/// The descriptors of a connection.
#[derive(Debug)]
pub(super) struct Wires {
    /// Where requests come from.
    pub(super) input: OwnedFd,
    /// Where replies go, where that is another one (standard output).
    pub(super) output: Option<OwnedFd>,
}

impl Wires {
    pub(super) fn output(&self) -> BorrowedFd<'_> {
        self.output.as_ref().unwrap_or(&self.input).as_fd()
    }
}

/// Who a connection's requests are submitted as.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity {
    pub(super) peer: Peer,
    pub(super) stream: StreamId,
    /// The connection's index: the upper half of the tags of its requests.
    pub(super) index: u32,
}

/// A request that the session handed out and the engine did not get yet.
#[derive(Debug)]
struct Parked {
    tag: Tag,
    request: Request,
    /// Whether its bytes were taken from the budget.
    is_paid: bool,
    /// Where the payload of a write goes, once there is memory, and how much of it came.
    buffer: Option<WriteBuffer>,
    filled: usize,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) wires: Wires,
    /// Whose it is.
    pub(super) key: ClientKey,
    identity: Identity,
    /// Which door it came in at.
    pub(super) door: usize,
    session: Session,
    input: Option<Input>,
    output: OutputQueue,
    parked: Option<Parked>,
    /// How many bytes each request in flight reads or writes, by tag.
    len_bytes: Box<[u32]>,
    /// What was charged for requests whose buffers did not come back yet.
    held_bytes: u64,
    submitted: u32,
    /// What was received cannot be handled until a reply, memory, or room to send.
    is_paused: bool,
    /// Nothing more is read.
    has_ended: bool,
    /// Nothing more can be sent.
    is_broken: bool,
    /// The peer is gone; what it sent before can still be read, without being told so.
    is_hung_up: bool,
    /// Until when it has to have chosen an export, where it has not and its time is limited.
    negotiates_until: Option<Instant>,
    /// Why, where the protocol says.
    reason: Option<CloseReason>,
    /// What the input and output descriptors are watched for.
    pub(super) watched: [Option<Interest>; 2],
}

impl Connection {
    pub(super) fn new(
        wires: Wires,
        (key, identity): (ClientKey, Identity),
        door: usize,
        exports: Arc<[ExportInfo]>,
    ) -> Self {
        let mut output = OutputQueue::default();
        let session = Session::new(exports, IN_FLIGHT_MAX, output.heads());
        let in_flight_max = usize::try_from(IN_FLIGHT_MAX).expect("it is small");
        Self {
            wires,
            key,
            identity,
            door,
            session,
            input: None,
            output,
            parked: None,
            len_bytes: vec![0; in_flight_max].into_boxed_slice(),
            held_bytes: 0,
            submitted: 0,
            is_paused: false,
            has_ended: false,
            is_broken: false,
            is_hung_up: false,
            negotiates_until: None,
            reason: None,
            watched: [None; 2],
        }
    }

    /// Gives the client time until then to choose an export.
    pub(super) const fn limit_negotiation(&mut self, until: Instant) {
        self.negotiates_until = Some(until);
    }

    /// Until when the client has to have chosen an export, where it has not and its time is
    /// limited.
    pub(super) const fn negotiates_until(&self) -> Option<Instant> {
        self.negotiates_until
    }

    /// What the client did wrong, where that ended the connection.
    pub(super) fn violation(&self) -> Option<CloseReason> {
        let is_goodbye =
            |reason: &_| matches!(reason, CloseReason::Abort | CloseReason::Disconnect);
        self.reason.filter(|reason| !is_goodbye(reason))
    }

    /// The input has something to say, or has hung up.
    pub(super) fn on_input(
        &mut self,
        context: &mut Context<'_>,
        shared: &mut Shared,
        is_hung_up: bool,
    ) {
        self.is_hung_up |= is_hung_up;
        self.receive(context, shared);
    }

    /// The output takes bytes again, or has hung up.
    pub(super) const fn on_output(&mut self) {
        self.output.unblock();
    }

    /// A request that was submitted is answered.
    pub(super) fn on_complete(
        &mut self,
        context: &mut Context<'_>,
        shared: &mut Shared,
        tag: Tag,
        result: Result<Answer, ErrorKind>,
    ) {
        self.submitted -= 1;
        let len = &mut self.len_bytes[usize::try_from(tag.0).expect("it is small")];
        let len_bytes = std::mem::take(len);
        let heads = self.output.heads();
        if let Ok(Answer::Data(data)) = result {
            self.session.reply(tag, Ok(Reply::Data), heads);
            let mut left_bytes = len_bytes;
            for piece in data.pieces() {
                left_bytes -= piece.len_bytes;
                // Given back when it was sent; all that was charged, with the last piece.
                let charged_bytes = if left_bytes == 0 {
                    charge(len_bytes)
                } else {
                    0
                };
                self.output.push_data(piece, charged_bytes);
            }
            assert_eq!(
                left_bytes, 0,
                "a read is answered with as many bytes as it asked for"
            );
        } else {
            let reply = match &result {
                Ok(Answer::Status(runs)) => Ok(Reply::Status(runs)),
                Ok(_) => Ok(Reply::Done),
                Err(kind) => Err(*kind),
            };
            self.session.reply(tag, reply, heads);
            self.give_back(shared, charge(len_bytes));
        }
        if self.is_broken {
            self.discard_output(context, shared);
        }
    }

    /// Sends what is queued.
    pub(super) fn send(&mut self, context: &mut Context<'_>, shared: &mut Shared) {
        if self.is_broken || self.output.is_empty() {
            return;
        }
        match self.output.send(self.wires.output(), context) {
            Ok(sent) => self.give_back(shared, sent.released_bytes),
            Err(_) => {
                // Whatever the socket says, the client is gone.
                self.break_off(context, shared);
            }
        }
    }

    /// Goes on with what was received, where it had to wait; whether anything came of it.
    pub(super) fn resume(&mut self, context: &mut Context<'_>, shared: &mut Shared) -> bool {
        if !self.is_paused || self.has_ended {
            return false;
        }
        let has_moved = self.handle_input(context, shared);
        if has_moved && self.is_hung_up {
            self.receive(context, shared);
        }
        has_moved
    }

    /// Whether [`Connection::resume`] is to be tried when something was answered, sent or freed.
    pub(super) const fn is_paused(&self) -> bool {
        self.is_paused && !self.has_ended
    }

    /// There are other exports now.
    pub(super) fn set_exports(&mut self, exports: Arc<[ExportInfo]>) {
        self.session.set_exports(exports);
    }

    /// Refuses requests from now on.
    pub(super) const fn begin_stop(&mut self) {
        self.session.begin_stop();
    }

    /// Whether all that was accepted is answered and all answers are sent. A write whose payload
    /// did not come is not accepted.
    pub(super) fn is_drained(&self) -> bool {
        let is_waiting = self.parked.as_ref().is_some_and(Parked::is_whole);
        self.submitted == 0 && !is_waiting && (self.is_broken || self.output.is_empty())
    }

    /// Who its client is.
    pub(super) const fn peer(&self) -> Peer {
        self.identity.peer
    }

    /// Whether it is over and nothing of it is left.
    pub(super) fn is_finished(&self) -> bool {
        let is_finished = self.has_ended && self.is_drained();
        assert!(
            !is_finished || self.held_bytes == 0,
            "a connection that is over holds no memory"
        );
        is_finished
    }

    /// What the descriptors are to be watched for: the one for input, and the one for output where
    /// that is another.
    pub(super) const fn interest(&self) -> [Option<Interest>; 2] {
        let reads = !self.has_ended && !self.is_paused && !self.is_hung_up;
        let writes = self.output.is_blocked() && !self.is_broken;
        if self.wires.output.is_none() {
            // A peer that hung up is told of again and again whatever is asked for.
            let is_watched = !self.is_hung_up && !self.is_broken;
            let interest = Interest {
                readable: reads,
                writable: writes,
            };
            return [if is_watched { Some(interest) } else { None }, None];
        }
        [
            if reads {
                Some(Interest {
                    readable: true,
                    writable: false,
                })
            } else {
                None
            },
            if writes {
                Some(Interest {
                    readable: false,
                    writable: true,
                })
            } else {
                None
            },
        ]
    }

    /// Gives back all that it holds and the engine does not.
    pub(super) fn abandon(&mut self, context: &mut Context<'_>, shared: &mut Shared) {
        self.has_ended = true;
        if let Some(input) = self.input.take() {
            shared.pool.put(input);
        }
        if let Some(parked) = self.parked.take() {
            if let Some(buffer) = parked.buffer {
                context.release(buffer.buffer);
            }
            if parked.is_paid {
                self.give_back(shared, charge(parked.len()));
            }
        }
    }

    /// Ends it at once, without sending what is queued.
    pub(super) fn break_off(&mut self, context: &mut Context<'_>, shared: &mut Shared) {
        self.is_broken = true;
        self.discard_output(context, shared);
    }

    fn discard_output(&mut self, context: &mut Context<'_>, shared: &mut Shared) {
        let released_bytes = self.output.discard(context);
        self.give_back(shared, released_bytes);
        self.abandon(context, shared);
    }

    fn give_back(&mut self, shared: &mut Shared, bytes: u64) {
        self.held_bytes -= bytes;
        shared.budget.give_back(self.identity.peer.flow, bytes);
    }

    /// Receives once, or until there is nothing where nobody would tell us of more; then handles
    /// it.
    fn receive(&mut self, context: &mut Context<'_>, shared: &mut Shared) {
        while !self.has_ended && !self.is_paused {
            match self.receive_once(context, shared) {
                Ok(0) => {
                    self.abandon(context, shared);
                    return;
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !self.is_hung_up => {
                    self.return_empty_input(shared);
                    return;
                }
                Err(_) => {
                    self.abandon(context, shared);
                    return;
                }
            }
            self.handle_input(context, shared);
            if !self.is_hung_up {
                return;
            }
        }
    }

    fn receive_once(
        &mut self,
        context: &mut Context<'_>,
        shared: &mut Shared,
    ) -> io::Result<usize> {
        let input = self.input.get_or_insert_with(|| shared.pool.take());
        let fd = self.wires.input.as_fd();
        let Some((parked, buffer)) = self
            .parked
            .as_mut()
            .and_then(|parked| parked.buffer.map(|buffer| (parked, buffer)))
        else {
            return input::receive(fd, &mut [], input).map(|(_, received)| received);
        };
        let payload = &mut context.bytes_mut(buffer.data)[parked.filled..];
        let (to_payload, received) = input::receive(fd, payload, input)?;
        parked.filled += to_payload;
        self.session
            .advance_payload(u32::try_from(to_payload).expect("a payload is at most 32 MiB"));
        Ok(to_payload + received)
    }

    /// Handles what was received until more is needed or it has to wait; whether anything happened.
    fn handle_input(&mut self, context: &mut Context<'_>, shared: &mut Shared) -> bool {
        let mut has_moved = false;
        self.is_paused = false;
        while !self.has_ended && !self.is_paused {
            if self.parked.is_some() {
                if !self.submit_parked(context, shared) {
                    break;
                }
                has_moved = true;
                continue;
            }
            if self.output.heads_waiting() >= HEADS_WAITING_MAX {
                self.is_paused = true;
                break;
            }
            let Some(input) = self.input.as_mut() else {
                break;
            };
            let received = self.session.receive(input.held(), self.output.heads());
            input.consume(received.consumed);
            has_moved |= received.consumed > 0;
            match received.event {
                Event::Handled => {}
                Event::Opened { export } => {
                    self.negotiates_until = None;
                    let place = self.session.place(export);
                    if !context.enter(&mut self.identity.peer, place) {
                        self.reason = Some(CloseReason::UnknownExport);
                        self.abandon(context, shared);
                    }
                }
                Event::NeedInput => break,
                Event::Full => self.is_paused = true,
                Event::Request { tag, request } => self.parked = Some(Parked::new(tag, request)),
                Event::Close(reason) => {
                    self.reason = Some(reason);
                    self.abandon(context, shared);
                }
            }
        }
        self.return_empty_input(shared);
        has_moved
    }

    fn return_empty_input(&mut self, shared: &mut Shared) {
        if let Some(input) = self.input.take_if(|input| input.held().is_empty()) {
            shared.pool.put(input);
        }
    }

    /// Submits the parked request, or does what can be done towards that: false where it has to
    /// wait for its payload, or (and then the connection is paused) for memory.
    fn submit_parked(&mut self, context: &mut Context<'_>, shared: &mut Shared) -> bool {
        let parked = self.parked.as_mut().expect("the caller looked");
        let len_bytes = parked.len();
        if !parked.is_paid {
            parked.is_paid =
                shared
                    .budget
                    .try_take(self.identity.peer.flow, charge(len_bytes), self.held_bytes);
            if !parked.is_paid {
                self.is_paused = true;
                return false;
            }
            self.held_bytes += charge(len_bytes);
        }
        let kind = match parked.request {
            Request::Read { extent } => RequestKind::Read { extent },
            Request::Flush => RequestKind::Flush,
            Request::Trim { extent, fua } => RequestKind::Trim { extent, fua },
            Request::BlockStatus { extent } => RequestKind::BlockStatus { extent },
            Request::WriteZeroes {
                extent,
                fua,
                may_trim,
                fast_only,
            } => RequestKind::WriteZeroes {
                extent,
                fua,
                may_trim,
                fast_only,
            },
            Request::Write { extent, fua } => {
                if parked.buffer.is_none() {
                    parked.buffer = context.alloc_write(self.identity.peer, extent);
                }
                let Some(buffer) = parked.buffer else {
                    self.is_paused = true;
                    return false;
                };
                if let Some(input) = self.input.as_mut() {
                    let moved = parked.fill(context.bytes_mut(buffer.data), input);
                    self.session.advance_payload(moved);
                }
                if self.session.payload_remaining() > 0 {
                    return false;
                }
                RequestKind::Write {
                    extent,
                    buffer: buffer.buffer,
                    fua,
                }
            }
        };
        let tag = parked.tag;
        self.parked = None;
        self.len_bytes[usize::try_from(tag.0).expect("it is small")] = len_bytes;
        self.submitted += 1;
        let Identity {
            peer,
            stream,
            index,
        } = self.identity;
        let tag = u64::from(index) << 32 | u64::from(tag.0);
        context.submit(tag, peer, stream, kind);
        true
    }
}

impl Parked {
    const fn new(tag: Tag, request: Request) -> Self {
        Self {
            tag,
            request,
            is_paid: false,
            buffer: None,
            filled: 0,
        }
    }

    /// How many bytes of buffers it needs.
    fn len(&self) -> u32 {
        match self.request {
            Request::Read { extent } | Request::Write { extent, .. } => {
                u32::try_from(extent.len()).expect("a payload is at most 32 MiB")
            }
            Request::Flush
            | Request::Trim { .. }
            | Request::WriteZeroes { .. }
            | Request::BlockStatus { .. } => 0,
        }
    }

    /// Whether all that belongs to it was received.
    fn is_whole(&self) -> bool {
        !matches!(self.request, Request::Write { .. })
    }

    /// Moves what was received of the payload to where it belongs; says how many bytes.
    fn fill(&mut self, payload: &mut [u8], input: &mut Input) -> u32 {
        let payload = &mut payload[self.filled..];
        let len = payload.len().min(input.held().len());
        payload[..len].copy_from_slice(&input.held()[..len]);
        input.consume(len);
        self.filled += len;
        u32::try_from(len).expect("a payload is at most 32 MiB")
    }
}
