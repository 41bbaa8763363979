//! Requests and their replies.

use heliostat_nbd::codec::{
    ChunkHeader, PAYLOAD_BYTES_MAX, REQUEST_BYTES, RequestHeader, allocation, chunk, command,
    command_flag, error_number, write_simple_reply,
};
use heliostat_types::{ErrorKind, Extent, StatusRun};

use super::negotiation::ALLOCATION_CONTEXT;
use super::{CloseReason, Event, Phase, Received, Request, Session, index, skippable};

/// How long a payload may be that is read only to be thrown away, so that the connection survives
/// the error. What is longer closes it. Clients in use send up to 64 MiB at once.
pub const WRITE_SKIP_BYTES_MAX: u32 = 64 << 20;

/// How many runs a reply to `BLOCK_STATUS` holds at most: what is not said, clients ask again.
/// 64 KiB of descriptors: a client that wants more gains nothing.
const STATUS_RUNS_MAX: usize = 8192;

/// What a request in flight is called: unique among those of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u32);

/// A successful reply.
#[derive(Clone, Copy, Debug)]
pub enum Reply<'a> {
    /// Done, for everything that returns no bytes.
    Done,
    /// For a READ: the caller appends the bytes to the output right behind what is written here.
    Data,
    /// For `BLOCK_STATUS`: the runs from the start of its extent, at least one.
    Status(&'a [StatusRun]),
}

/// Why a request is refused, and what people are told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rejection {
    kind: ErrorKind,
    message: &'static str,
}

impl Rejection {
    const fn invalid(message: &'static str) -> Self {
        Self {
            kind: ErrorKind::InvalidInput,
            message,
        }
    }
}

/// What becomes of a request.
enum Admission {
    /// It is handed out.
    Admit(Request),
    /// There is nothing to do for it.
    Done,
}

/// What has to be remembered of a request in flight.
#[derive(Clone, Copy, Debug)]
struct Slot {
    cookie: u64,
    extent: Extent,
    asked: Asked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Data,
    Status { one: bool },
    Nothing,
}

/// The requests in flight.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
}

impl Slots {
    pub(super) fn new(count: u32) -> Self {
        assert!(count > 0, "a session may have a request in flight");
        Self {
            slots: vec![None; index(count)],
            free: (0..count).rev().collect(),
        }
    }

    pub(super) fn used(&self) -> u32 {
        u32::try_from(self.slots.len() - self.free.len()).expect("they were counted in 32 bits")
    }

    fn take(&mut self, slot: Slot) -> Tag {
        let tag = self.free.pop().expect("fullness was checked");
        self.slots[index(tag)] = Some(slot);
        Tag(tag)
    }

    fn release(&mut self, tag: Tag) -> Slot {
        let slot = self.slots[index(tag.0)].take();
        self.free.push(tag.0);
        slot.expect("each request is replied to once")
    }
}

impl Session {
    pub(super) fn receive_request(&mut self, input: &[u8], output: &mut Vec<u8>) -> Received {
        let Some(bytes) = input.first_chunk::<REQUEST_BYTES>() else {
            return Received::need_input();
        };
        if self.slots.free.is_empty() {
            return Received {
                consumed: 0,
                event: Event::Full,
            };
        }
        let Some(header) = RequestHeader::parse(bytes) else {
            return self.close(REQUEST_BYTES, CloseReason::BadRequestMagic);
        };
        if header.command == command::DISC {
            return self.close(REQUEST_BYTES, CloseReason::Disconnect);
        }
        match self.admit(header) {
            Ok(Admission::Admit(request)) => self.hand_out(header, request),
            Ok(Admission::Done) => {
                self.reply_empty(header, output);
                Received::handled(REQUEST_BYTES)
            }
            Err(rejection) => self.reject(header, rejection, output),
        }
    }

    fn hand_out(&mut self, header: RequestHeader, request: Request) -> Received {
        let (extent, asked) = match request {
            Request::Read { extent } => (extent, Asked::Data),
            Request::BlockStatus { extent } => {
                let one = header.flags & command_flag::REQ_ONE != 0;
                (extent, Asked::Status { one })
            }
            Request::Write { extent, .. } => {
                self.phase = Phase::Payload {
                    remaining_bytes: header.len_bytes,
                };
                (extent, Asked::Nothing)
            }
            Request::Trim { extent, .. } | Request::WriteZeroes { extent, .. } => {
                (extent, Asked::Nothing)
            }
            Request::Flush => (Extent::default(), Asked::Nothing),
        };
        let tag = self.slots.take(Slot {
            cookie: header.cookie,
            extent,
            asked,
        });
        Received {
            consumed: REQUEST_BYTES,
            event: Event::Request { tag, request },
        }
    }

    /// Whether a request makes sense, checked in this order: command, flags, stopping, read-only,
    /// size, place. The first thing wrong is what is answered.
    fn admit(&self, header: RequestHeader) -> Result<Admission, Rejection> {
        let fua = header.flags & command_flag::FUA != 0;
        check_flags(header, self.structured)?;
        if self.stopping {
            return Err(Rejection {
                kind: ErrorKind::Shutdown,
                message: "The server is stopping.",
            });
        }
        let is_mutating = matches!(
            header.command,
            command::WRITE | command::TRIM | command::WRITE_ZEROES
        );
        if is_mutating && self.exports[self.export].read_only {
            return Err(Rejection {
                kind: ErrorKind::ReadOnly,
                message: "The export is read-only.",
            });
        }
        if header.command == command::FLUSH {
            return match (header.offset_bytes, header.len_bytes) {
                (0, 0) => Ok(Admission::Admit(Request::Flush)),
                _ => Err(Rejection::invalid("A flush has neither offset nor length.")),
            };
        }
        let extent = self.check_extent(header)?;
        if header.command == command::BLOCK_STATUS {
            return self.admit_block_status(extent);
        }
        // CACHE is a hint, and no bytes are none of our business.
        if extent.is_empty() || header.command == command::CACHE {
            return Ok(Admission::Done);
        }
        Ok(Admission::Admit(match header.command {
            command::READ => Request::Read { extent },
            command::WRITE => Request::Write { extent, fua },
            command::TRIM => Request::Trim { extent, fua },
            _ => Request::WriteZeroes {
                extent,
                fua,
                may_trim: header.flags & command_flag::NO_HOLE == 0,
                fast_only: header.flags & command_flag::FAST_ZERO != 0,
            },
        }))
    }

    fn check_extent(&self, header: RequestHeader) -> Result<Extent, Rejection> {
        let has_payload = matches!(header.command, command::READ | command::WRITE);
        if has_payload && header.len_bytes > PAYLOAD_BYTES_MAX {
            return Err(Rejection::invalid(
                "The request is longer than the largest block.",
            ));
        }
        let size_bytes = self.exports[self.export].size_bytes;
        Extent::checked_new(header.offset_bytes, u64::from(header.len_bytes))
            .filter(|extent| extent.end() <= size_bytes)
            .ok_or(Rejection {
                kind: match header.command {
                    command::WRITE | command::WRITE_ZEROES => ErrorKind::NoSpace,
                    _ => ErrorKind::InvalidInput,
                },
                message: "The request ends beyond the end of the export.",
            })
    }

    fn admit_block_status(&self, extent: Extent) -> Result<Admission, Rejection> {
        if self.allocation_export != Some(self.export) {
            return Err(Rejection::invalid("No metadata context was chosen."));
        }
        if extent.is_empty() {
            return Err(Rejection::invalid("The status of no bytes is not known."));
        }
        Ok(Admission::Admit(Request::BlockStatus { extent }))
    }

    /// Refuses a request: at once, or after its payload, because a client may take a reply that
    /// overtakes the request as a reply to nothing.
    fn reject(
        &mut self,
        header: RequestHeader,
        rejection: Rejection,
        output: &mut Vec<u8>,
    ) -> Received {
        let cookie = header.cookie;
        if header.command != command::WRITE || header.len_bytes == 0 {
            self.reply_error(cookie, rejection, output);
            return Received::handled(REQUEST_BYTES);
        }
        if header.len_bytes > WRITE_SKIP_BYTES_MAX {
            return self.close(REQUEST_BYTES, CloseReason::PayloadTooLong);
        }
        self.phase = Phase::SkipPayload {
            remaining_bytes: header.len_bytes,
            cookie,
            rejection,
        };
        Received::handled(REQUEST_BYTES)
    }

    pub(super) fn skip_payload(
        &mut self,
        input: &[u8],
        remaining_bytes: u32,
        cookie: u64,
        rejection: Rejection,
        output: &mut Vec<u8>,
    ) -> Received {
        if input.is_empty() {
            return Received::need_input();
        }
        let (consumed, skipped) = skippable(input, remaining_bytes);
        self.phase = match remaining_bytes - skipped {
            0 => {
                self.reply_error(cookie, rejection, output);
                Phase::Requests
            }
            remaining_bytes => Phase::SkipPayload {
                remaining_bytes,
                cookie,
                rejection,
            },
        };
        Received::handled(consumed)
    }

    /// Appends the reply to a request that was handed out. After [`Reply::Data`] the caller appends
    /// as many bytes as the READ asked for.
    ///
    /// # Panics
    /// Where no such request is in flight, or the reply does not fit it.
    pub fn reply(&mut self, tag: Tag, result: Result<Reply<'_>, ErrorKind>, output: &mut Vec<u8>) {
        let slot = self.slots.release(tag);
        match (result, slot.asked) {
            (Ok(Reply::Done), Asked::Nothing) => write_simple_reply(slot.cookie, 0, output),
            (Ok(Reply::Data), Asked::Data) => self.reply_data(slot, output),
            (Ok(Reply::Status(runs)), Asked::Status { one }) => {
                reply_status(slot, runs, one, output);
            }
            (Err(kind), _) => {
                let rejection = Rejection {
                    kind,
                    message: failure_message(kind),
                };
                self.reply_error(slot.cookie, rejection, output);
            }
            (Ok(reply), asked) => panic!("a request for {asked:?} is not answered by {reply:?}"),
        }
    }

    /// NBD proto.md, "Structured reply types": one chunk holds all the data and is also the last,
    /// because nothing can go wrong any more once the data is in memory.
    fn reply_data(&self, slot: Slot, output: &mut Vec<u8>) {
        if !self.structured {
            write_simple_reply(slot.cookie, 0, output);
            return;
        }
        let len = u32::try_from(slot.extent.len()).expect("a read is at most 32 MiB");
        let header = ChunkHeader {
            flags: chunk::FLAG_DONE,
            kind: chunk::OFFSET_DATA,
            cookie: slot.cookie,
            len_bytes: len + 8,
        };
        header.write(output);
        output.extend_from_slice(&slot.extent.offset().to_be_bytes());
    }

    /// Success without bytes. A READ must be answered by chunks where those were negotiated; for
    /// the rest a simple reply is as good and shorter.
    fn reply_empty(&self, header: RequestHeader, output: &mut Vec<u8>) {
        if self.structured && header.command == command::READ {
            let header = ChunkHeader {
                flags: chunk::FLAG_DONE,
                kind: chunk::NONE,
                cookie: header.cookie,
                len_bytes: 0,
            };
            header.write(output);
        } else {
            write_simple_reply(header.cookie, 0, output);
        }
    }

    fn reply_error(&self, cookie: u64, rejection: Rejection, output: &mut Vec<u8>) {
        let error = error_number(rejection.kind);
        if !self.structured {
            write_simple_reply(cookie, error, output);
            return;
        }
        let message = rejection.message.as_bytes();
        let message_len = u16::try_from(message.len()).expect("messages are short");
        let header = ChunkHeader {
            flags: chunk::FLAG_DONE,
            kind: chunk::ERROR,
            cookie,
            len_bytes: 6 + u32::from(message_len),
        };
        header.write(output);
        output.extend_from_slice(&error.to_be_bytes());
        output.extend_from_slice(&message_len.to_be_bytes());
        output.extend_from_slice(message);
    }
}

/// Which flags go with which command. FUA goes with all of them (NBD proto.md, "Command flags"),
/// DF only where structured replies were negotiated.
fn check_flags(header: RequestHeader, structured: bool) -> Result<(), Rejection> {
    let allowed = command_flag::FUA
        | match header.command {
            command::READ if structured => command_flag::DF,
            command::READ | command::WRITE | command::FLUSH | command::TRIM | command::CACHE => 0,
            command::WRITE_ZEROES => command_flag::NO_HOLE | command_flag::FAST_ZERO,
            command::BLOCK_STATUS => command_flag::REQ_ONE,
            _ => return Err(Rejection::invalid("The command is not known.")),
        };
    if header.flags & !allowed != 0 {
        return Err(Rejection::invalid(
            "A flag is not known, or not for this command.",
        ));
    }
    Ok(())
}

/// Appends the runs that lie in the extent asked for, as descriptors of one context.
fn reply_status(slot: Slot, runs: &[StatusRun], one: bool, output: &mut Vec<u8>) {
    let header_at = output.len();
    let mut header = ChunkHeader {
        flags: chunk::FLAG_DONE,
        kind: chunk::BLOCK_STATUS,
        cookie: slot.cookie,
        len_bytes: 4,
    };
    header.write(output);
    output.extend_from_slice(&ALLOCATION_CONTEXT.to_be_bytes());
    let mut left_bytes = slot.extent.len();
    let runs_max = if one { 1 } else { STATUS_RUNS_MAX };
    for run in runs.iter().take(runs_max) {
        let len = run.len_bytes.min(left_bytes);
        if len == 0 {
            break;
        }
        left_bytes -= len;
        let len = u32::try_from(len).expect("it was asked for in 32 bits");
        let hole = if run.hole { allocation::HOLE } else { 0 };
        let zero = if run.zero { allocation::ZERO } else { 0 };
        output.extend_from_slice(&len.to_be_bytes());
        output.extend_from_slice(&(hole | zero).to_be_bytes());
        header.len_bytes += 8;
    }
    assert!(header.len_bytes > 4, "a status has at least one run");
    let len_at = header_at + heliostat_nbd::codec::CHUNK_HEADER_BYTES - 4;
    output[len_at..len_at + 4].copy_from_slice(&header.len_bytes.to_be_bytes());
}

/// What people are told of an error that came from below.
const fn failure_message(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Io => "No leg could do it.",
        ErrorKind::NoSpace => "The legs have no space left.",
        ErrorKind::NotSupported => "This cannot be done fast.",
        ErrorKind::InvalidInput => "The request is not valid.",
        ErrorKind::TooLarge => "The request is too large.",
        ErrorKind::NoMemory => "There is no memory for it.",
        ErrorKind::ReadOnly => "The array is read-only.",
        ErrorKind::Shutdown => "The server is stopping.",
        _ => "The request failed.",
    }
}
