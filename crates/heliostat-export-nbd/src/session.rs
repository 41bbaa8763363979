//! The server's side of one connection, as a value: bytes in, events and reply bytes out.
//!
//! A [`Session`] reads messages from the front of whatever input its caller holds, says how many
//! bytes it took, and appends replies to an output. It keeps no input: a message that is not whole
//! yet stays with the caller, whose buffer therefore has to hold [`INPUT_BYTES_MIN`]. It never sees
//! the bytes of a WRITE: it says how many follow, and the caller moves them from the socket to
//! where they belong. What a client may ask for wrongly is answered here, so that every event that
//! leaves is a request that makes sense for its export.
//!
//! A client's cookies are echoed and never looked at. Requests in flight are told apart by a
//! [`Tag`] of our own, so that a client that uses a cookie twice confuses only itself.
//!
//! It refuses to know sockets, buffers, time, or how requests are carried out.

mod negotiation;
mod transmission;

use std::fmt;
use std::sync::Arc;

use heliostat_nbd::codec::{
    CLIENT_FLAGS_BYTES, GREETING_MAGIC, OPTION_HEADER_BYTES, OPTION_MAGIC, PAYLOAD_BYTES_MAX,
    handshake, transmission as transmission_flag,
};
use heliostat_runtime::Place;
use heliostat_types::Extent;

pub use negotiation::{NEGOTIATION_BYTES_MAX, OPTION_DATA_BYTES_MAX, OPTIONS_MAX};
use transmission::{Rejection, Slots};
pub use transmission::{Reply, Tag, WRITE_SKIP_BYTES_MAX};

/// The longest message that is handled in one piece: an option with its data. A caller that holds
/// less than this many bytes of input may wait forever for an option to become whole.
pub const INPUT_BYTES_MIN: usize = OPTION_HEADER_BYTES + OPTION_DATA_BYTES_MAX;

/// One export, as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportInfo {
    /// What clients ask for it by; empty is a name too.
    pub name: String,
    /// A text for people; empty for none.
    pub description: String,
    /// How many bytes there are.
    pub size_bytes: u64,
    /// The block size that suits it best: a power of two, at least 512.
    pub block_preferred_bytes: u32,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether it is as a disk that turns: what is near is soon there.
    pub rotational: bool,
    /// What of the array it is. The first one that is all of it is also found by the empty name.
    pub place: Place,
}

impl ExportInfo {
    /// What the export can do, as bits of [`heliostat_nbd::codec::transmission`].
    ///
    /// Not fragmenting is a promise about structured replies and made only with them.
    #[must_use]
    pub const fn transmission_flags(&self, structured: bool) -> u16 {
        let mut flags = transmission_flag::HAS_FLAGS
            | transmission_flag::SEND_FLUSH
            | transmission_flag::SEND_FUA
            | transmission_flag::CAN_MULTI_CONN
            | transmission_flag::SEND_CACHE;
        if self.read_only {
            flags |= transmission_flag::READ_ONLY;
        } else {
            flags |= transmission_flag::SEND_TRIM
                | transmission_flag::SEND_WRITE_ZEROES
                | transmission_flag::SEND_FAST_ZERO;
        }
        if self.rotational {
            flags |= transmission_flag::ROTATIONAL;
        }
        if structured {
            flags |= transmission_flag::SEND_DF;
        }
        flags
    }
}

/// What [`Session::receive`] made of its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// How many bytes it took from the front.
    pub consumed: usize,
    /// What the caller has to do.
    pub event: Event,
}

/// What the caller has to do after [`Session::receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// There is no whole message: come back with more bytes behind those not consumed.
    NeedInput,
    /// A message was dealt with, perhaps answered: come back at once.
    Handled,
    /// Requests for this export follow: come back at once.
    Opened {
        /// Its index among the session's exports.
        export: usize,
    },
    /// Carry this out, then say [`Session::reply`].
    Request {
        /// What to call it.
        tag: Tag,
        /// What is asked for.
        request: Request,
    },
    /// As many requests are in flight as may be: come back after a reply.
    Full,
    /// It is over: finish what is in flight, send what is queued, then close.
    Close(CloseReason),
}

/// What a client asks for. The extent lies inside the export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Bytes; never none, never more than [`PAYLOAD_BYTES_MAX`].
    Read {
        /// Which.
        extent: Extent,
    },
    /// Store the bytes that follow in the input: before the next [`Session::receive`] the caller
    /// has to move [`Session::payload_remaining`] bytes and say [`Session::advance_payload`].
    Write {
        /// Where; never nothing, never more than [`PAYLOAD_BYTES_MAX`].
        extent: Extent,
        /// Answer only when durable.
        fua: bool,
    },
    /// Make durable what was answered before.
    Flush,
    /// Give bytes up.
    Trim {
        /// Which; never none.
        extent: Extent,
        /// Answer only when durable.
        fua: bool,
    },
    /// Store zeros.
    WriteZeroes {
        /// Where; never nothing.
        extent: Extent,
        /// Answer only when durable.
        fua: bool,
        /// Whether storage may be given back.
        may_trim: bool,
        /// Refuse where this is not faster than a write.
        fast_only: bool,
    },
    /// Which ranges are holes or zeros.
    BlockStatus {
        /// Asked for; never none.
        extent: Extent,
    },
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The client said goodbye during negotiation.
    Abort,
    /// The client said goodbye.
    Disconnect,
    /// The client sent flags that were not offered.
    BadClientFlags,
    /// An option does not begin as options do.
    BadOptionMagic,
    /// The client declined fixed newstyle and then sent an option that needs it.
    NotFixedNewstyle,
    /// `EXPORT_NAME`, which cannot be answered with an error, asked for an unknown export.
    UnknownExport,
    /// More than [`OPTIONS_MAX`] options.
    TooManyOptions,
    /// More than [`NEGOTIATION_BYTES_MAX`] bytes of options.
    NegotiationTooLong,
    /// A request does not begin as requests do.
    BadRequestMagic,
    /// The payload of a write is longer than [`WRITE_SKIP_BYTES_MAX`].
    PayloadTooLong,
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Abort => "the client ended the negotiation",
            Self::Disconnect => "the client disconnected",
            Self::BadClientFlags => "the client set flags that were not offered",
            Self::BadOptionMagic => "an option began with a wrong magic number",
            Self::NotFixedNewstyle => "an option needs fixed newstyle, which the client declined",
            Self::UnknownExport => "the client asked for an export that does not exist",
            Self::TooManyOptions => "the client sent too many options",
            Self::NegotiationTooLong => "the client's options were too long",
            Self::BadRequestMagic => "a request began with a wrong magic number",
            Self::PayloadTooLong => "the payload of a write was too long",
        })
    }
}

/// Where a connection stands.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The greeting was sent; the client's flags come next.
    ClientFlags,
    /// An option comes next.
    Options,
    /// The data of an option that was refused unread comes next.
    SkipOption {
        remaining_bytes: u32,
    },
    /// A request comes next.
    Requests,
    /// The payload of a write comes next, and belongs to the caller.
    Payload {
        remaining_bytes: u32,
    },
    /// The payload of a refused write comes next, and then its reply is due.
    SkipPayload {
        remaining_bytes: u32,
        cookie: u64,
        rejection: Rejection,
    },
    Closed(CloseReason),
}

/// The server's side of one connection.
#[derive(Debug)]
pub struct Session {
    exports: Arc<[ExportInfo]>,
    phase: Phase,
    fixed_newstyle: bool,
    no_zeroes: bool,
    structured: bool,
    /// The export for which `base:allocation` was chosen.
    allocation_export: Option<usize>,
    /// The export in use, from the end of negotiation on.
    export: usize,
    options: u32,
    negotiation_bytes: u32,
    slots: Slots,
    stopping: bool,
}

impl Session {
    /// Begins a connection: appends the greeting. At most `in_flight_max` requests will be handed
    /// out and not replied to.
    ///
    /// # Panics
    /// Where nothing may be in flight.
    #[must_use]
    pub fn new(exports: Arc<[ExportInfo]>, in_flight_max: u32, output: &mut Vec<u8>) -> Self {
        output.extend_from_slice(&GREETING_MAGIC.to_be_bytes());
        output.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
        let flags = handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES;
        output.extend_from_slice(&flags.to_be_bytes());
        Self {
            exports,
            phase: Phase::ClientFlags,
            fixed_newstyle: false,
            no_zeroes: false,
            structured: false,
            allocation_export: None,
            export: 0,
            options: 0,
            negotiation_bytes: 0,
            slots: Slots::new(in_flight_max),
            stopping: false,
        }
    }

    /// Handles at most one message at the front of `input`, appending what is to be answered at
    /// once to `output`. Call it until it says [`Event::NeedInput`], [`Event::Full`] or
    /// [`Event::Close`]; each call appends little, so a caller can stop whenever its output is
    /// full.
    ///
    /// # Panics
    /// Where the payload of a write was not moved before.
    pub fn receive(&mut self, input: &[u8], output: &mut Vec<u8>) -> Received {
        match self.phase {
            Phase::Requests => self.receive_request(input, output),
            Phase::ClientFlags => self.receive_client_flags(input),
            Phase::Options => self.receive_option(input, output),
            Phase::SkipOption { remaining_bytes } => self.skip_option(input, remaining_bytes),
            Phase::Payload { .. } => panic!("the caller moves the payload of a write"),
            Phase::SkipPayload {
                remaining_bytes,
                cookie,
                rejection,
            } => self.skip_payload(input, remaining_bytes, cookie, rejection, output),
            Phase::Closed(reason) => Received {
                consumed: 0,
                event: Event::Close(reason),
            },
        }
    }

    /// How many bytes of the input that comes next are the payload of the write that was handed out
    /// last, and are to be moved by the caller.
    #[must_use]
    pub const fn payload_remaining(&self) -> u32 {
        if let Phase::Payload { remaining_bytes } = self.phase {
            remaining_bytes
        } else {
            0
        }
    }

    /// The caller has moved so many bytes of payload.
    ///
    /// # Panics
    /// Where that is more than [`Session::payload_remaining`].
    pub fn advance_payload(&mut self, bytes: u32) {
        let remaining_bytes = self
            .payload_remaining()
            .checked_sub(bytes)
            .expect("no more payload is moved than there is");
        if matches!(self.phase, Phase::Payload { .. }) {
            self.phase = match remaining_bytes {
                0 => Phase::Requests,
                remaining_bytes => Phase::Payload { remaining_bytes },
            };
        }
    }

    /// How many requests were handed out and not replied to.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.slots.used()
    }

    /// From now on new options and requests are refused because the server is stopping.
    pub const fn begin_stop(&mut self) {
        self.stopping = true;
    }

    /// There are other exports now, for a client that has not chosen one yet.
    pub fn set_exports(&mut self, exports: Arc<[ExportInfo]>) {
        if matches!(
            self.phase,
            Phase::ClientFlags | Phase::Options | Phase::SkipOption { .. }
        ) {
            let chosen = self
                .allocation_export
                .map(|index| &self.exports[index].name);
            let is_chosen = |export: &ExportInfo| chosen == Some(&export.name);
            self.allocation_export = exports.iter().position(is_chosen);
            self.exports = exports;
        }
    }

    /// What of the array an export is that the client has opened.
    #[must_use]
    pub fn place(&self, export: usize) -> Place {
        self.exports[export].place
    }

    /// The export of this name; the empty name also means the first, where that is the array.
    fn find_export(&self, name: &str) -> Option<usize> {
        let exact = self.exports.iter().position(|export| export.name == name);
        let first = self.exports.first();
        let is_default = first.is_some_and(|first| first.place == Place::Whole);
        exact.or_else(|| (name.is_empty() && is_default).then_some(0))
    }

    fn close(&mut self, consumed: usize, reason: CloseReason) -> Received {
        self.phase = Phase::Closed(reason);
        Received {
            consumed,
            event: Event::Close(reason),
        }
    }

    fn receive_client_flags(&mut self, input: &[u8]) -> Received {
        let Some(bytes) = input.first_chunk::<CLIENT_FLAGS_BYTES>() else {
            return Received::need_input();
        };
        let flags = u32::from_be_bytes(*bytes);
        let fixed = u32::from(handshake::FIXED_NEWSTYLE);
        let no_zeroes = u32::from(handshake::NO_ZEROES);
        if flags & !(fixed | no_zeroes) != 0 {
            return self.close(bytes.len(), CloseReason::BadClientFlags);
        }
        self.fixed_newstyle = flags & fixed != 0;
        self.no_zeroes = flags & no_zeroes != 0;
        self.phase = Phase::Options;
        Received::handled(bytes.len())
    }
}

impl Received {
    const fn need_input() -> Self {
        Self {
            consumed: 0,
            event: Event::NeedInput,
        }
    }

    const fn handled(consumed: usize) -> Self {
        Self {
            consumed,
            event: Event::Handled,
        }
    }
}

/// How many of `remaining` bytes lie in the input: as the caller counts them, and as the session.
fn skippable(input: &[u8], remaining: u32) -> (usize, u32) {
    let skipped = u32::try_from(input.len()).map_or(remaining, |len| len.min(remaining));
    (index(skipped), skipped)
}

/// A length that came in four bytes as an index.
fn index(bytes: u32) -> usize {
    usize::try_from(bytes).expect("a usize holds 32 bits")
}

const _: () = assert!(
    PAYLOAD_BYTES_MAX <= WRITE_SKIP_BYTES_MAX,
    "what may be written may be skipped"
);

#[cfg(test)]
mod tests;
