//! The words of the NBD protocol: its numbers, and how its fixed-size messages lie in bytes.
//!
//! Everything on the wire is big endian. This module knows what a message looks like, never when
//! one may be sent or what it means. Section names are those of the protocol's document, `proto.md`
//! of the Network Block Device project.

use heliostat_types::ErrorKind;

/// The first word a server says ("NBDMAGIC").
pub const GREETING_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// The server's second word, and the first of every option ("IHAVEOPT").
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// The first word of every reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// The first word of every request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// The first word of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// The first word of a chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// The TCP port that IANA gave to NBD.
pub const DEFAULT_PORT: u16 = 10_809;
/// The longest name, description or error message ("Conventions": a string is at most 4096 bytes).
pub const STRING_BYTES_MAX: usize = 4096;
/// The largest READ and WRITE. Clients that do not ask assume 32 MiB ("Block size constraints").
pub const PAYLOAD_BYTES_MAX: u32 = 32 << 20;
/// The one metadata context that the protocol itself defines.
pub const BASE_ALLOCATION: &str = "base:allocation";

/// How long the server's greeting is: two magic numbers and the handshake flags.
pub const GREETING_BYTES: usize = 18;
/// How long the client's answer to the greeting is.
pub const CLIENT_FLAGS_BYTES: usize = 4;
/// How long the head of an option is.
pub const OPTION_HEADER_BYTES: usize = 16;
/// How long the head of a reply to an option is.
pub const OPTION_REPLY_HEADER_BYTES: usize = 20;
/// How long a request without its payload is.
pub const REQUEST_BYTES: usize = 28;
/// How long a simple reply without its payload is.
pub const SIMPLE_REPLY_BYTES: usize = 16;
/// How long the head of a chunk of a structured reply is.
pub const CHUNK_HEADER_BYTES: usize = 20;
/// How many zeros follow the answer to `EXPORT_NAME`, unless the client declined them.
pub const EXPORT_NAME_ZEROES: usize = 124;

/// "Handshake flags" and "Client flags": the same bits in both directions.
pub mod handshake {
    /// Options are answered, so that unknown ones can be refused.
    pub const FIXED_NEWSTYLE: u16 = 1 << 0;
    /// The zeros after the answer to `EXPORT_NAME` are left out.
    pub const NO_ZEROES: u16 = 1 << 1;
}

/// "Transmission flags": what an export can do.
pub mod transmission {
    /// Always set.
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// Nothing may be written.
    pub const READ_ONLY: u16 = 1 << 1;
    /// FLUSH is understood.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// The FUA flag is understood.
    pub const SEND_FUA: u16 = 1 << 3;
    /// The medium turns.
    pub const ROTATIONAL: u16 = 1 << 4;
    /// TRIM is understood.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// `WRITE_ZEROES` is understood.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// The DF flag is understood (with structured replies only).
    pub const SEND_DF: u16 = 1 << 7;
    /// FLUSH and FUA on one connection cover the writes of all.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// CACHE is understood.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// The `FAST_ZERO` flag is understood.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// "Option types".
pub mod option {
    /// Use this export, with no way to hear of an error.
    pub const EXPORT_NAME: u32 = 1;
    /// Goodbye.
    pub const ABORT: u32 = 2;
    /// Name all exports.
    pub const LIST: u32 = 3;
    /// Describe an export.
    pub const INFO: u32 = 6;
    /// Describe an export and use it.
    pub const GO: u32 = 7;
    /// Use structured replies.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// Name the metadata contexts of an export.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Choose the metadata contexts that `BLOCK_STATUS` answers about.
    pub const SET_META_CONTEXT: u32 = 10;
}

/// "Option reply types".
pub mod option_reply {
    /// Done.
    pub const ACK: u32 = 1;
    /// One export's name.
    pub const SERVER: u32 = 2;
    /// One thing to know of an export.
    pub const INFO: u32 = 3;
    /// One metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// The bit that all errors have.
    pub const ERROR_BIT: u32 = 1 << 31;
    /// The option is not known here.
    pub const ERR_UNSUP: u32 = ERROR_BIT + 1;
    /// Whoever runs the server forbids it.
    pub const ERR_POLICY: u32 = ERROR_BIT + 2;
    /// The option is malformed, or comes at the wrong time.
    pub const ERR_INVALID: u32 = ERROR_BIT + 3;
    /// TLS has to come first.
    pub const ERR_TLS_REQD: u32 = ERROR_BIT + 5;
    /// There is no such export.
    pub const ERR_UNKNOWN: u32 = ERROR_BIT + 6;
    /// The server is stopping.
    pub const ERR_SHUTDOWN: u32 = ERROR_BIT + 7;
    /// The sizes of blocks have to be asked for.
    pub const ERR_BLOCK_SIZE_REQD: u32 = ERROR_BIT + 8;
    /// The option is too long.
    pub const ERR_TOO_BIG: u32 = ERROR_BIT + 9;
}

/// What a reply of type [`option_reply::INFO`] is about.
pub mod info {
    /// Size and transmission flags.
    pub const EXPORT: u16 = 0;
    /// The name that the server itself uses.
    pub const NAME: u16 = 1;
    /// A text for people.
    pub const DESCRIPTION: u16 = 2;
    /// Smallest, preferred and largest block.
    pub const BLOCK_SIZE: u16 = 3;
}

/// "Request types".
pub mod command {
    /// Fetch bytes.
    pub const READ: u16 = 0;
    /// Store the bytes that follow.
    pub const WRITE: u16 = 1;
    /// Goodbye.
    pub const DISC: u16 = 2;
    /// Make durable what was answered.
    pub const FLUSH: u16 = 3;
    /// Give bytes up.
    pub const TRIM: u16 = 4;
    /// Bytes will be read soon.
    pub const CACHE: u16 = 5;
    /// Store zeros.
    pub const WRITE_ZEROES: u16 = 6;
    /// Ask what is a hole and what is zero.
    pub const BLOCK_STATUS: u16 = 7;
}

/// "Command flags".
pub mod command_flag {
    /// Answer only when durable.
    pub const FUA: u16 = 1 << 0;
    /// `WRITE_ZEROES` must leave the bytes allocated.
    pub const NO_HOLE: u16 = 1 << 1;
    /// A READ is answered in one piece.
    pub const DF: u16 = 1 << 2;
    /// `BLOCK_STATUS` is answered with one extent.
    pub const REQ_ONE: u16 = 1 << 3;
    /// `WRITE_ZEROES` that would be as slow as a WRITE fails instead.
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// "Structured reply types" and flags.
pub mod chunk {
    /// Flag: the last chunk of its reply.
    pub const FLAG_DONE: u16 = 1 << 0;
    /// No payload.
    pub const NONE: u16 = 0;
    /// Offset and bytes.
    pub const OFFSET_DATA: u16 = 1;
    /// Offset and length of zeros.
    pub const OFFSET_HOLE: u16 = 2;
    /// Context and extents.
    pub const BLOCK_STATUS: u16 = 5;
    /// The bit that all errors have.
    pub const ERROR_BIT: u16 = 1 << 15;
    /// Error number and message.
    pub const ERROR: u16 = ERROR_BIT + 1;
}

/// The status flags of `base:allocation`.
pub mod allocation {
    /// Not allocated.
    pub const HOLE: u32 = 1 << 0;
    /// Reads as zeros.
    pub const ZERO: u32 = 1 << 1;
}

/// What a kind of error is called on the wire ("Error values"): the protocol took Linux's numbers.
#[must_use]
pub const fn error_number(kind: ErrorKind) -> u32 {
    kind.errno().unsigned_abs()
}

/// The head of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionHeader {
    /// Which option, of [`option`].
    pub option: u32,
    /// How many bytes of data follow.
    pub len_bytes: u32,
}

impl OptionHeader {
    /// The header in these bytes, or `None` where the magic number is wrong.
    #[must_use]
    pub fn parse(bytes: &[u8; OPTION_HEADER_BYTES]) -> Option<Self> {
        let mut fields = Fields(bytes);
        (fields.u64()? == OPTION_MAGIC).then_some(())?;
        Some(Self {
            option: fields.u32()?,
            len_bytes: fields.u32()?,
        })
    }

    /// Appends the header.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
        out.extend_from_slice(&self.option.to_be_bytes());
        out.extend_from_slice(&self.len_bytes.to_be_bytes());
    }
}

/// The head of a reply to an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionReplyHeader {
    /// The option that is answered.
    pub option: u32,
    /// How, of [`option_reply`].
    pub kind: u32,
    /// How many bytes of data follow.
    pub len_bytes: u32,
}

impl OptionReplyHeader {
    /// The header in these bytes, or `None` where the magic number is wrong.
    #[must_use]
    pub fn parse(bytes: &[u8; OPTION_REPLY_HEADER_BYTES]) -> Option<Self> {
        let mut fields = Fields(bytes);
        (fields.u64()? == OPTION_REPLY_MAGIC).then_some(())?;
        Some(Self {
            option: fields.u32()?,
            kind: fields.u32()?,
            len_bytes: fields.u32()?,
        })
    }

    /// Appends the header.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
        out.extend_from_slice(&self.option.to_be_bytes());
        out.extend_from_slice(&self.kind.to_be_bytes());
        out.extend_from_slice(&self.len_bytes.to_be_bytes());
    }
}

/// A request without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// Bits of [`command_flag`].
    pub flags: u16,
    /// Which command, of [`command`].
    pub command: u16,
    /// What the client calls it; echoed in the reply.
    pub cookie: u64,
    /// Where the first byte lies.
    pub offset_bytes: u64,
    /// How many bytes.
    pub len_bytes: u32,
}

impl RequestHeader {
    /// The header in these bytes, or `None` where the magic number is wrong.
    #[must_use]
    pub fn parse(bytes: &[u8; REQUEST_BYTES]) -> Option<Self> {
        let mut fields = Fields(bytes);
        (fields.u32()? == REQUEST_MAGIC).then_some(())?;
        Some(Self {
            flags: fields.u16()?,
            command: fields.u16()?,
            cookie: fields.u64()?,
            offset_bytes: fields.u64()?,
            len_bytes: fields.u32()?,
        })
    }

    /// Appends the header.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&REQUEST_MAGIC.to_be_bytes());
        out.extend_from_slice(&self.flags.to_be_bytes());
        out.extend_from_slice(&self.command.to_be_bytes());
        out.extend_from_slice(&self.cookie.to_be_bytes());
        out.extend_from_slice(&self.offset_bytes.to_be_bytes());
        out.extend_from_slice(&self.len_bytes.to_be_bytes());
    }
}

/// Appends a simple reply; the bytes of a successful READ follow it.
pub fn write_simple_reply(cookie: u64, error: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&error.to_be_bytes());
    out.extend_from_slice(&cookie.to_be_bytes());
}

/// The head of a chunk of a structured reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// Bits: [`chunk::FLAG_DONE`].
    pub flags: u16,
    /// What the payload is, of [`chunk`].
    pub kind: u16,
    /// What the client called the request.
    pub cookie: u64,
    /// How many bytes of payload follow.
    pub len_bytes: u32,
}

impl ChunkHeader {
    /// The header in these bytes, or `None` where the magic number is wrong.
    #[must_use]
    pub fn parse(bytes: &[u8; CHUNK_HEADER_BYTES]) -> Option<Self> {
        let mut fields = Fields(bytes);
        (fields.u32()? == STRUCTURED_REPLY_MAGIC).then_some(())?;
        Some(Self {
            flags: fields.u16()?,
            kind: fields.u16()?,
            cookie: fields.u64()?,
            len_bytes: fields.u32()?,
        })
    }

    /// Appends the header.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
        out.extend_from_slice(&self.flags.to_be_bytes());
        out.extend_from_slice(&self.kind.to_be_bytes());
        out.extend_from_slice(&self.cookie.to_be_bytes());
        out.extend_from_slice(&self.len_bytes.to_be_bytes());
    }
}

/// Takes fields off the front of some bytes; `None` when they have run out.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// The next `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    /// The next two bytes as a number.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// The next four bytes as a number.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// The next eight bytes as a number.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A string preceded by its length in four bytes, as long as the protocol allows and in UTF-8.
    pub fn string(&mut self) -> Option<&'a str> {
        let len = usize::try_from(self.u32()?).ok()?;
        let text = str::from_utf8(self.bytes(len)?).ok()?;
        (len <= STRING_BYTES_MAX && !text.contains('\0')).then_some(text)
    }

    /// Whether nothing is left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::{ChunkHeader, Fields, OptionHeader, OptionReplyHeader, RequestHeader, chunk};

    #[test]
    fn headers_survive_the_wire() {
        let mut bytes = Vec::new();
        let request = RequestHeader {
            flags: 1,
            command: 6,
            cookie: 0x0102_0304_0506_0708,
            offset_bytes: u64::MAX - 1,
            len_bytes: 4096,
        };
        request.write(&mut bytes);
        assert_eq!(
            RequestHeader::parse(bytes[..].try_into().unwrap()),
            Some(request)
        );
        assert_eq!(bytes[..8], [0x25, 0x60, 0x95, 0x13, 0, 1, 0, 6]);

        bytes.clear();
        let option = OptionHeader {
            option: 7,
            len_bytes: 12,
        };
        option.write(&mut bytes);
        assert_eq!(
            OptionHeader::parse(bytes[..].try_into().unwrap()),
            Some(option)
        );

        bytes.clear();
        let reply = OptionReplyHeader {
            option: 7,
            kind: 3,
            len_bytes: 12,
        };
        reply.write(&mut bytes);
        assert_eq!(
            OptionReplyHeader::parse(bytes[..].try_into().unwrap()),
            Some(reply)
        );

        bytes.clear();
        let header = ChunkHeader {
            flags: 1,
            kind: chunk::ERROR,
            cookie: 9,
            len_bytes: 6,
        };
        header.write(&mut bytes);
        assert_eq!(
            ChunkHeader::parse(bytes[..].try_into().unwrap()),
            Some(header)
        );
        bytes[0] ^= 1;
        assert_eq!(ChunkHeader::parse(bytes[..].try_into().unwrap()), None);
    }

    #[test]
    fn strings_are_bounded_utf8_without_nul() {
        assert_eq!(Fields(b"\0\0\0\x02abc").string(), Some("ab"));
        assert_eq!(Fields(b"\0\0\0\x04abc").string(), None);
        assert_eq!(Fields(b"\0\0\0\x02a\0").string(), None);
        assert_eq!(Fields(b"\0\0\0\x02a\xff").string(), None);
        let mut long = 4097_u32.to_be_bytes().to_vec();
        long.resize(4 + 4097, b'a');
        assert_eq!(Fields(&long).string(), None);
    }
}
