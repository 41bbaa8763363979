//! The client's reading of what a server sends, as a pure value: bytes in, events out.
//!
//! [`Replies`] knows what was asked and not yet answered, so everything that a server claims is
//! checked against it: data that nobody asked for, twice the same bytes, bytes left out, answers to
//! nothing. Bytes of a READ are not copied here: an event says where they belong, and whoever owns
//! the memory puts them there. What breaks the protocol is an error, after which the connection is
//! of no use: nothing that follows on it could be told from anything else.

use std::fmt;

use heliostat_types::{Extent, StatusRun};

use crate::codec::{
    CHUNK_HEADER_BYTES, ChunkHeader, Fields, SIMPLE_REPLY_BYTES, SIMPLE_REPLY_MAGIC,
    STRING_BYTES_MAX, allocation, chunk,
};

/// How much input is enough for any message but its payload of data or of extents: a chunk with the
/// longest error message.
pub const REPLY_INPUT_BYTES_MIN: usize = CHUNK_HEADER_BYTES + ERROR_BYTES_MAX;

/// The longest payload of an error: number, length, the longest message, an offset.
const ERROR_BYTES_MAX: usize = 6 + STRING_BYTES_MAX + 8;

/// The most runs that are kept of one `BLOCK_STATUS`; what lies behind is called data, which is
/// never wrong.
const STATUS_RUNS_MAX: usize = 1024;

/// The most separate pieces of one READ that may have come while others between them are missing.
/// Servers send holes and data in order; one that does not must not make us remember much.
const PIECES_MAX: usize = 1024;

/// How the server broke the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyError(pub &'static str);

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server broke the protocol: {}", self.0)
    }
}

impl std::error::Error for ReplyError {}

/// What a request asked for, as far as its reply depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// These bytes.
    Read(Extent),
    /// Which of these bytes are holes or zeros.
    Status(Extent),
    /// That something is done.
    Done,
}

/// What some input amounts to.
#[derive(Debug, PartialEq, Eq)]
pub enum ReplyEvent {
    /// More of it is needed.
    NeedInput,
    /// Nothing to do.
    Handled,
    /// The next [`Replies::payload_remaining`] bytes of the input go to this place of a READ,
    /// counted from its beginning.
    Data {
        /// Of which request.
        cookie: u64,
        /// To where.
        at: usize,
    },
    /// These bytes of a READ are zeros.
    Hole {
        /// Of which request.
        cookie: u64,
        /// From where, counted from the beginning of the READ.
        at: usize,
        /// How many.
        len: usize,
    },
    /// A request is answered.
    Answered {
        /// Which.
        cookie: u64,
        /// The runs of a `BLOCK_STATUS`, which together are as long as what was asked, and none for
        /// the rest; or the error number.
        result: Result<Vec<StatusRun>, u32>,
    },
}

/// What was asked on one connection, and how far the server is with answering.
#[derive(Debug)]
pub struct Replies {
    is_structured: bool,
    /// The number that stands for `base:allocation`, where that was chosen.
    allocation_context: Option<u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    phase: Phase,
}

/// A request in flight, or room for one.
#[derive(Debug)]
struct Slot {
    /// Counts the requests that were here, so that a late second answer to one is not taken for an
    /// answer to the next.
    generation: u32,
    asked: Option<Asked>,
    error: u32,
    pieces: Pieces,
    runs: Option<Runs>,
}

/// What comes next from the server.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Head,
    /// Data of a READ.
    Data {
        slot: u32,
        remaining: usize,
        done: bool,
    },
    /// Extents of a `BLOCK_STATUS`.
    Extents {
        slot: u32,
        remaining: usize,
        done: bool,
    },
    /// The last byte of an answer is there.
    Finished {
        slot: u32,
    },
}

impl Replies {
    /// Nothing asked yet, on a connection with or without structured replies.
    #[must_use]
    pub const fn new(is_structured: bool, allocation_context: Option<u32>) -> Self {
        Self {
            is_structured,
            allocation_context,
            slots: Vec::new(),
            free: Vec::new(),
            phase: Phase::Head,
        }
    }

    /// Notes a request that is to be sent; what to call it there.
    ///
    /// # Panics
    /// Where it is longer than the protocol can say, or there are 2^32 of them.
    pub fn ask(&mut self, asked: Asked) -> u64 {
        if let Asked::Read(extent) | Asked::Status(extent) = asked {
            assert!(
                (1..=u64::from(u32::MAX)).contains(&extent.len()),
                "a request has 1 to 2^32 - 1 bytes"
            );
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                asked: None,
                error: 0,
                pieces: Pieces::default(),
                runs: None,
            });
            u32::try_from(self.slots.len() - 1).expect("fewer requests than 2^32 are in flight")
        });
        let slot = &mut self.slots[as_index(index)];
        slot.generation = slot.generation.wrapping_add(1);
        slot.asked = Some(asked);
        slot.error = 0;
        slot.pieces.0.clear();
        slot.runs = None;
        u64::from(slot.generation) << 32 | u64::from(index)
    }

    /// A small number for a request that no other in flight has, to keep what belongs to it by.
    #[must_use]
    pub fn index(cookie: u64) -> usize {
        as_index(index_of(cookie))
    }

    /// How many requests are not answered.
    #[must_use]
    pub const fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// How many bytes of data come next in the input.
    #[must_use]
    pub const fn payload_remaining(&self) -> usize {
        match self.phase {
            Phase::Data { remaining, .. } => remaining,
            Phase::Head | Phase::Extents { .. } | Phase::Finished { .. } => 0,
        }
    }

    /// So many bytes of data were taken from the input and put where they belong.
    ///
    /// # Panics
    /// Where these are more than were to come.
    pub const fn advance_payload(&mut self, len: usize) {
        if let Phase::Data {
            slot,
            remaining,
            done,
        } = self.phase
        {
            assert!(len <= remaining, "no more than what belongs to it");
            self.phase = Phase::Data {
                slot,
                remaining: remaining - len,
                done,
            };
            if len == remaining {
                self.end_chunk(slot, done);
            }
        } else {
            assert!(len == 0, "there is payload");
        }
    }

    /// Reads the next message, or part of one; how many bytes of the input are done with, and what
    /// they amount to. To be called again with what follows until it needs more input.
    ///
    /// # Errors
    /// Where the server breaks the protocol: the connection is to be closed.
    ///
    /// # Panics
    /// Where data comes next: that is for [`Replies::advance_payload`].
    pub fn receive(&mut self, input: &[u8]) -> Result<(usize, ReplyEvent), ReplyError> {
        match self.phase {
            Phase::Head => self.head(input),
            Phase::Data { .. } => panic!("data is taken by its owner"),
            Phase::Extents {
                slot,
                remaining,
                done,
            } => self.extents(slot, remaining, done, input),
            Phase::Finished { slot } => Ok((0, self.finish(slot)?)),
        }
    }

    const fn end_chunk(&mut self, slot: u32, done: bool) {
        self.phase = if done {
            Phase::Finished { slot }
        } else {
            Phase::Head
        };
    }

    fn head(&mut self, input: &[u8]) -> Result<(usize, ReplyEvent), ReplyError> {
        match input.first_chunk::<4>() {
            None => Ok((0, ReplyEvent::NeedInput)),
            Some(magic) if *magic == SIMPLE_REPLY_MAGIC.to_be_bytes() => self.simple_reply(input),
            Some(_) if self.is_structured => self.chunk(input),
            Some(_) => Err(ReplyError("a reply begins with a wrong number")),
        }
    }

    fn simple_reply(&mut self, input: &[u8]) -> Result<(usize, ReplyEvent), ReplyError> {
        let Some(bytes) = input.get(4..SIMPLE_REPLY_BYTES) else {
            return Ok((0, ReplyEvent::NeedInput));
        };
        let mut fields = Fields(bytes);
        let error = fields.u32().expect("the length was checked");
        let cookie = fields.u64().expect("the length was checked");
        let (index, asked) = self.find(cookie)?;
        let slot = &mut self.slots[as_index(index)];
        let event = match asked {
            _ if !slot.is_untouched() => {
                return Err(ReplyError("a reply of both kinds to one request"));
            }
            _ if error != 0 => {
                slot.error = error;
                self.finish(index)?
            }
            Asked::Done => self.finish(index)?,
            Asked::Read(_) | Asked::Status(_) if self.is_structured => {
                return Err(ReplyError("a simple reply where a structured one is due"));
            }
            Asked::Status(_) => return Err(ReplyError("a status without extents")),
            Asked::Read(extent) => {
                let len = as_len(extent.len());
                slot.pieces.add(0, len)?;
                self.phase = Phase::Data {
                    slot: index,
                    remaining: len,
                    done: true,
                };
                ReplyEvent::Data { cookie, at: 0 }
            }
        };
        Ok((SIMPLE_REPLY_BYTES, event))
    }

    fn chunk(&mut self, input: &[u8]) -> Result<(usize, ReplyEvent), ReplyError> {
        let Some((bytes, rest)) = input.split_first_chunk::<CHUNK_HEADER_BYTES>() else {
            return Ok((0, ReplyEvent::NeedInput));
        };
        let header =
            ChunkHeader::parse(bytes).ok_or(ReplyError("a reply begins with a wrong number"))?;
        let (index, asked) = self.find(header.cookie)?;
        let done = header.flags & chunk::FLAG_DONE != 0;
        let len = as_index(header.len_bytes);
        // What of the payload is read together with the head: all of it, unless it is long.
        let fields_len = match header.kind {
            chunk::OFFSET_DATA if len > 8 => 8,
            chunk::OFFSET_DATA => return Err(ReplyError("data without bytes")),
            chunk::BLOCK_STATUS if len >= 12 && len % 8 == 4 => 4,
            chunk::BLOCK_STATUS => return Err(ReplyError("a status without extents")),
            _ if len > ERROR_BYTES_MAX => return Err(ReplyError("a chunk is too long")),
            _ => len,
        };
        let Some(fields) = rest.get(..fields_len) else {
            return Ok((0, ReplyEvent::NeedInput));
        };
        let consumed = CHUNK_HEADER_BYTES + fields_len;
        let head = Head {
            index,
            asked,
            cookie: header.cookie,
            done,
            rest_len: len - fields_len,
        };
        let event = match header.kind {
            chunk::NONE if done && len == 0 => self.finish(index)?,
            chunk::NONE => return Err(ReplyError("an empty chunk that ends nothing")),
            chunk::OFFSET_DATA => self.data_chunk(&head, Fields(fields))?,
            chunk::OFFSET_HOLE => self.hole_chunk(&head, Fields(fields))?,
            chunk::BLOCK_STATUS => self.status_chunk(&head, Fields(fields))?,
            kind if kind & chunk::ERROR_BIT != 0 => self.error_chunk(&head, Fields(fields))?,
            _ => return Err(ReplyError("a chunk of an unknown kind")),
        };
        Ok((consumed, event))
    }

    fn data_chunk(
        &mut self,
        head: &Head,
        mut fields: Fields<'_>,
    ) -> Result<ReplyEvent, ReplyError> {
        let offset = fields.u64().expect("the length was checked");
        let at = self.add_piece(head, offset, head.rest_len)?;
        self.phase = Phase::Data {
            slot: head.index,
            remaining: head.rest_len,
            done: head.done,
        };
        Ok(ReplyEvent::Data {
            cookie: head.cookie,
            at,
        })
    }

    fn hole_chunk(
        &mut self,
        head: &Head,
        mut fields: Fields<'_>,
    ) -> Result<ReplyEvent, ReplyError> {
        let malformed = ReplyError("a hole is malformed");
        let (Some(offset), Some(len), true) = (fields.u64(), fields.u32(), fields.is_empty())
        else {
            return Err(malformed);
        };
        if len == 0 {
            return Err(malformed);
        }
        let len = as_index(len);
        let at = self.add_piece(head, offset, len)?;
        self.end_chunk(head.index, head.done);
        Ok(ReplyEvent::Hole {
            cookie: head.cookie,
            at,
            len,
        })
    }

    fn status_chunk(
        &mut self,
        head: &Head,
        mut fields: Fields<'_>,
    ) -> Result<ReplyEvent, ReplyError> {
        let Asked::Status(extent) = head.asked else {
            return Err(ReplyError("a status that was not asked for"));
        };
        if fields.u32() != self.allocation_context {
            return Err(ReplyError("a status of a context that was not chosen"));
        }
        let slot = &mut self.slots[as_index(head.index)];
        if slot.runs.replace(Runs::new(extent.len())).is_some() {
            return Err(ReplyError("a status twice"));
        }
        self.phase = Phase::Extents {
            slot: head.index,
            remaining: head.rest_len,
            done: head.done,
        };
        Ok(ReplyEvent::Handled)
    }

    fn error_chunk(
        &mut self,
        head: &Head,
        mut fields: Fields<'_>,
    ) -> Result<ReplyEvent, ReplyError> {
        let malformed = ReplyError("an error is malformed");
        let (Some(error), Some(len)) = (fields.u32(), fields.u16()) else {
            return Err(malformed);
        };
        if error == 0 || fields.bytes(usize::from(len)).is_none() {
            return Err(malformed);
        }
        let slot = &mut self.slots[as_index(head.index)];
        if slot.error == 0 {
            slot.error = error;
        }
        self.end_chunk(head.index, head.done);
        Ok(ReplyEvent::Handled)
    }

    /// Notes that a piece of a READ has come; where in it that begins.
    fn add_piece(&mut self, head: &Head, offset: u64, len: usize) -> Result<usize, ReplyError> {
        let strange = ReplyError("data that was not asked for");
        let Asked::Read(extent) = head.asked else {
            return Err(strange);
        };
        let piece = u64::try_from(len)
            .ok()
            .and_then(|len| Extent::checked_new(offset, len))
            .filter(|piece| extent.contains(*piece))
            .ok_or(strange)?;
        let at = as_len(piece.offset() - extent.offset());
        self.slots[as_index(head.index)].pieces.add(at, at + len)?;
        Ok(at)
    }

    fn extents(
        &mut self,
        index: u32,
        remaining: usize,
        done: bool,
        input: &[u8],
    ) -> Result<(usize, ReplyEvent), ReplyError> {
        let len = input.len().min(remaining) / 8 * 8;
        if len == 0 {
            return Ok((0, ReplyEvent::NeedInput));
        }
        let slot = &mut self.slots[as_index(index)];
        let runs = slot.runs.as_mut().expect("a status has begun");
        let mut fields = Fields(&input[..len]);
        while let (Some(len_bytes), Some(flags)) = (fields.u32(), fields.u32()) {
            runs.push(len_bytes, flags)?;
        }
        if len == remaining {
            self.end_chunk(index, done);
        } else {
            self.phase = Phase::Extents {
                slot: index,
                remaining: remaining - len,
                done,
            };
        }
        Ok((len, ReplyEvent::Handled))
    }

    /// The answer of a request is complete.
    fn finish(&mut self, index: u32) -> Result<ReplyEvent, ReplyError> {
        let slot = &mut self.slots[as_index(index)];
        let asked = slot.asked.take().expect("it is in flight");
        let runs = slot.runs.take();
        let result = match (slot.error, asked) {
            (0, Asked::Read(extent)) if !slot.pieces.are_all(as_len(extent.len())) => {
                return Err(ReplyError("a READ is answered with bytes missing"));
            }
            (0, Asked::Status(_)) => {
                let runs = runs.ok_or(ReplyError("a status without extents"))?;
                Ok(runs.finish())
            }
            (0, Asked::Read(_) | Asked::Done) => Ok(Vec::new()),
            (error, _) => Err(error),
        };
        let cookie = u64::from(slot.generation) << 32 | u64::from(index);
        self.free.push(index);
        self.phase = Phase::Head;
        Ok(ReplyEvent::Answered { cookie, result })
    }

    fn find(&self, cookie: u64) -> Result<(u32, Asked), ReplyError> {
        let index = index_of(cookie);
        self.slots
            .get(as_index(index))
            .filter(|slot| u64::from(slot.generation) == cookie >> 32)
            .and_then(|slot| Some((index, slot.asked?)))
            .ok_or(ReplyError("a reply to nothing that was asked"))
    }
}

/// What the head of a chunk says.
struct Head {
    index: u32,
    asked: Asked,
    cookie: u64,
    done: bool,
    /// How much of the payload is still to come.
    rest_len: usize,
}

impl Slot {
    fn is_untouched(&self) -> bool {
        self.error == 0 && self.pieces.0.is_empty() && self.runs.is_none()
    }
}

/// Which bytes of a READ have come: ranges in order, with gaps between them.
#[derive(Debug, Default)]
struct Pieces(Vec<(usize, usize)>);

impl Pieces {
    /// Adds a piece that is not empty.
    fn add(&mut self, from: usize, to: usize) -> Result<(), ReplyError> {
        let at = self.0.partition_point(|piece| piece.1 <= from);
        if self.0.get(at).is_some_and(|next| next.0 < to) {
            return Err(ReplyError("the same bytes of a READ twice"));
        }
        let joins_next = self.0.get(at).is_some_and(|next| next.0 == to);
        let joins_previous = at > 0 && self.0[at - 1].1 == from;
        match (joins_previous, joins_next) {
            (true, true) => {
                self.0[at - 1].1 = self.0[at].1;
                self.0.remove(at);
            }
            (true, false) => self.0[at - 1].1 = to,
            (false, true) => self.0[at].0 = from,
            (false, false) if self.0.len() == PIECES_MAX => {
                return Err(ReplyError("a READ in too many pieces"));
            }
            (false, false) => self.0.insert(at, (from, to)),
        }
        Ok(())
    }

    fn are_all(&self, len: usize) -> bool {
        self.0 == [(0, len)]
    }
}

/// The runs of a `BLOCK_STATUS` so far.
#[derive(Debug)]
struct Runs {
    runs: Vec<StatusRun>,
    /// How much of what was asked they leave.
    rest_bytes: u64,
    /// Whether there were too many.
    is_full: bool,
}

impl Runs {
    const fn new(asked_bytes: u64) -> Self {
        Self {
            runs: Vec::new(),
            rest_bytes: asked_bytes,
            is_full: false,
        }
    }

    /// Adds an extent; the last one may go beyond what was asked, and neighbours that are alike are
    /// one run.
    fn push(&mut self, len_bytes: u32, flags: u32) -> Result<(), ReplyError> {
        if len_bytes == 0 {
            return Err(ReplyError("a status of no bytes"));
        }
        let len_bytes = u64::from(len_bytes).min(self.rest_bytes);
        if len_bytes == 0 || self.is_full {
            return Ok(());
        }
        let hole = flags & allocation::HOLE != 0;
        let zero = flags & allocation::ZERO != 0;
        let count = self.runs.len();
        match self.runs.last_mut() {
            Some(last) if (last.hole, last.zero) == (hole, zero) => last.len_bytes += len_bytes,
            // What follows cannot be told any more, whatever it is.
            _ if count == STATUS_RUNS_MAX => {
                self.is_full = true;
                return Ok(());
            }
            _ => self.runs.push(StatusRun {
                len_bytes,
                hole,
                zero,
            }),
        }
        self.rest_bytes -= len_bytes;
        Ok(())
    }

    /// The runs, with what the server left out called data.
    fn finish(mut self) -> Vec<StatusRun> {
        match self.runs.last_mut() {
            _ if self.rest_bytes == 0 => {}
            Some(last) if !last.hole && !last.zero => last.len_bytes += self.rest_bytes,
            _ => self.runs.push(StatusRun {
                len_bytes: self.rest_bytes,
                hole: false,
                zero: false,
            }),
        }
        self.runs
    }
}

fn index_of(cookie: u64) -> u32 {
    u32::try_from(cookie & u64::from(u32::MAX)).expect("32 bits")
}

fn as_index(number: u32) -> usize {
    usize::try_from(number).expect("a usize holds 32 bits")
}

fn as_len(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a request is shorter than memory")
}

#[cfg(test)]
mod tests;
