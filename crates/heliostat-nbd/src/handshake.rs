//! The client's side of the negotiation, as a pure value: bytes in, bytes out.
//!
//! Fixed newstyle. Structured replies and `base:allocation` are asked for where wanted and done
//! without where refused; then GO, or `EXPORT_NAME` where a server knows no GO. Where there is no
//! export of the name, the server is asked which there are, so that people can be told.

use std::fmt;

use crate::codec::{
    BASE_ALLOCATION, EXPORT_NAME_ZEROES, Fields, GREETING_BYTES, GREETING_MAGIC, OPTION_MAGIC,
    OPTION_REPLY_HEADER_BYTES, OptionHeader, OptionReplyHeader, STRING_BYTES_MAX, handshake, info,
    option, option_reply,
};

/// The longest reply to an option that is read: two strings and a few numbers.
const REPLY_DATA_BYTES_MAX: u32 = 16 << 10;

/// How much input is enough for any message of a server.
pub const HANDSHAKE_INPUT_BYTES_MIN: usize = OPTION_REPLY_HEADER_BYTES + (16 << 10);

/// How many replies a server may send before it comes to the point. One with thousands of exports
/// stays below.
const REPLIES_MAX: u32 = 10_000;

/// How many names of exports are kept to be shown.
const NAMES_SHOWN_MAX: usize = 16;

/// The greeting of the protocol before 2011, after the first word.
const OLDSTYLE_MAGIC: u64 = 0x0000_4202_8186_1253;

/// What is wanted of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The name of the export; empty for the default one.
    pub export: String,
    /// Use structured replies.
    pub structured: bool,
    /// Answer what is a hole and what is zero; needs structured replies.
    pub allocation: bool,
}

/// What a server said of its export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportDetails {
    /// How many bytes there are.
    pub size_bytes: u64,
    /// Bits of [`crate::codec::transmission`].
    pub flags: u16,
    /// Smallest, preferred and largest block, where the server said.
    pub block_sizes: Option<[u32; 3]>,
}

/// What was agreed upon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Negotiated {
    /// What the server said of its export.
    pub details: ExportDetails,
    /// Whether replies will be structured.
    pub is_structured: bool,
    /// The number that stands for `base:allocation`, where the server has it.
    pub allocation_context: Option<u32>,
}

/// Why there is nothing to negotiate any more.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandshakeError {
    /// It greets with something else.
    NotNbd,
    /// It speaks a protocol that is too old.
    Oldstyle,
    /// It has no export of that name.
    UnknownExport {
        /// Those that it has, as far as it tells, and not more than a few.
        known: Vec<String>,
        /// How many more it has.
        more: usize,
    },
    /// It wants TLS first.
    TlsRequired,
    /// It refused an option.
    Refused {
        /// Which option, of [`crate::codec::option`].
        option: u32,
        /// With which reply, of [`crate::codec::option_reply`].
        kind: u32,
        /// What it said about it.
        message: String,
    },
    /// It broke the protocol.
    Protocol(&'static str),
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotNbd => f.write_str("what answers there is no NBD server"),
            Self::Oldstyle => f.write_str("the server speaks NBD as it was before 2011 only"),
            Self::UnknownExport { known, more } => {
                f.write_str("the server has no export of that name")?;
                if !known.is_empty() {
                    let names: Vec<String> = known.iter().map(|name| format!("'{name}'")).collect();
                    write!(f, ", but {}", names.join(", "))?;
                }
                if *more > 0 {
                    write!(f, " and {more} more")?;
                }
                Ok(())
            }
            Self::TlsRequired => {
                f.write_str("the server wants TLS, which is not supported: let it serve without")
            }
            Self::Refused {
                option,
                kind,
                message,
            } => {
                let name = option_name(*option);
                write!(f, "the server refused {name} (error {kind:#x})")?;
                if !message.is_empty() {
                    write!(f, ": {message}")?;
                }
                Ok(())
            }
            Self::Protocol(what) => write!(f, "the server broke the protocol: {what}"),
        }
    }
}

impl std::error::Error for HandshakeError {}

/// How far a negotiation is.
#[derive(Debug)]
pub struct Handshake {
    wish: Wish,
    phase: Phase,
    /// Whether zeros follow the answer to `EXPORT_NAME`.
    has_zeroes: bool,
    negotiated: Negotiated,
    has_details: bool,
    replies: u32,
    known: Vec<String>,
    more: usize,
}

/// What the server is to say next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Greeting,
    StructuredReply,
    MetaContext,
    Go,
    ExportName,
    List,
}

impl Handshake {
    /// The server speaks first.
    #[must_use]
    pub fn new(wish: Wish) -> Self {
        Self {
            wish,
            phase: Phase::Greeting,
            has_zeroes: true,
            negotiated: Negotiated::default(),
            has_details: false,
            replies: 0,
            known: Vec::new(),
            more: 0,
        }
    }

    /// Reads the next message, if all of it is there: how many bytes of the input are done with,
    /// and what was agreed upon where that was the last one. What is to be sent is appended to
    /// `output`. To be called again with what follows until nothing is consumed.
    ///
    /// # Errors
    /// Where it comes to nothing; the connection is to be closed.
    pub fn receive(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<(usize, Option<Negotiated>), HandshakeError> {
        match self.phase {
            Phase::Greeting => Ok((self.greeting(input, output)?, None)),
            Phase::ExportName => self.export_name_answer(input),
            Phase::StructuredReply | Phase::MetaContext | Phase::Go | Phase::List => {
                let Some((header, data)) = self.next_reply(input)? else {
                    return Ok((0, None));
                };
                let done = self.reply(header.kind, data, output)?;
                let negotiated = done.then_some(self.negotiated);
                Ok((OPTION_REPLY_HEADER_BYTES + data.len(), negotiated))
            }
        }
    }

    fn greeting(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<usize, HandshakeError> {
        let mut fields = Fields(input);
        // As soon as something is wrong: a server of something else may say no more.
        if !input.is_empty()
            && !GREETING_MAGIC
                .to_be_bytes()
                .starts_with(&input[..input.len().min(8)])
        {
            return Err(HandshakeError::NotNbd);
        }
        let (Some(_), Some(magic)) = (fields.u64(), fields.u64()) else {
            return Ok(0);
        };
        if magic == OLDSTYLE_MAGIC {
            return Err(HandshakeError::Oldstyle);
        }
        if magic != OPTION_MAGIC {
            return Err(HandshakeError::NotNbd);
        }
        let Some(flags) = fields.u16() else {
            return Ok(0);
        };
        if flags & handshake::FIXED_NEWSTYLE == 0 {
            return Err(HandshakeError::Oldstyle);
        }
        let flags = flags & (handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES);
        self.has_zeroes = flags & handshake::NO_ZEROES == 0;
        output.extend_from_slice(&u32::from(flags).to_be_bytes());
        if self.wish.structured {
            send_option(output, option::STRUCTURED_REPLY, &[]);
            self.phase = Phase::StructuredReply;
        } else {
            self.ask_for_export(output);
        }
        Ok(GREETING_BYTES)
    }

    fn next_reply<'a>(
        &mut self,
        input: &'a [u8],
    ) -> Result<Option<(OptionReplyHeader, &'a [u8])>, HandshakeError> {
        let malformed = HandshakeError::Protocol("a reply to an option is malformed");
        let Some((bytes, rest)) = input.split_first_chunk::<OPTION_REPLY_HEADER_BYTES>() else {
            return Ok(None);
        };
        let header = OptionReplyHeader::parse(bytes)
            .filter(|header| header.option == self.option())
            .filter(|header| header.len_bytes <= REPLY_DATA_BYTES_MAX)
            .ok_or(malformed)?;
        let len = usize::try_from(header.len_bytes).expect("a usize holds 32 bits");
        let Some(data) = rest.get(..len) else {
            return Ok(None);
        };
        self.replies += 1;
        if self.replies > REPLIES_MAX {
            return Err(HandshakeError::Protocol("it does not come to the point"));
        }
        Ok(Some((header, data)))
    }

    /// The option that is being answered.
    const fn option(&self) -> u32 {
        match self.phase {
            Phase::Greeting | Phase::ExportName => option::EXPORT_NAME,
            Phase::StructuredReply => option::STRUCTURED_REPLY,
            Phase::MetaContext => option::SET_META_CONTEXT,
            Phase::Go => option::GO,
            Phase::List => option::LIST,
        }
    }

    /// Takes in a reply to an option; whether that was the last one of all.
    fn reply(
        &mut self,
        kind: u32,
        data: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<bool, HandshakeError> {
        let is_error = kind & option_reply::ERROR_BIT != 0;
        match (self.phase, kind) {
            (_, option_reply::ERR_TLS_REQD) => Err(HandshakeError::TlsRequired),
            (Phase::StructuredReply, option_reply::ACK) => {
                self.negotiated.is_structured = true;
                if self.wish.allocation {
                    self.ask_for_context(output);
                } else {
                    self.ask_for_export(output);
                }
                Ok(false)
            }
            (Phase::MetaContext, option_reply::META_CONTEXT) => {
                let mut fields = Fields(data);
                let number = fields.u32();
                if fields.0 == BASE_ALLOCATION.as_bytes() {
                    self.negotiated.allocation_context = number;
                }
                Ok(false)
            }
            (Phase::MetaContext, option_reply::ACK) => {
                self.ask_for_export(output);
                Ok(false)
            }
            (Phase::StructuredReply | Phase::MetaContext, _) if is_error => {
                self.negotiated.allocation_context = None;
                self.ask_for_export(output);
                Ok(false)
            }
            (Phase::Go, option_reply::INFO) => self.note_info(data).map(|()| false),
            (Phase::Go, option_reply::ACK) if self.has_details => Ok(true),
            (Phase::Go, option_reply::ERR_UNKNOWN) => {
                send_option(output, option::LIST, &[]);
                self.phase = Phase::List;
                Ok(false)
            }
            (Phase::Go, option_reply::ERR_UNSUP) => {
                send_option(output, option::EXPORT_NAME, &[self.wish.export.as_bytes()]);
                self.phase = Phase::ExportName;
                Ok(false)
            }
            (Phase::Go, _) if is_error => Err(HandshakeError::Refused {
                option: option::GO,
                kind,
                message: String::from_utf8_lossy(data).into_owned(),
            }),
            (Phase::List, option_reply::SERVER) => self.note_name(data).map(|()| false),
            (Phase::List, _) if is_error || kind == option_reply::ACK => {
                Err(HandshakeError::UnknownExport {
                    known: std::mem::take(&mut self.known),
                    more: self.more,
                })
            }
            _ => Err(HandshakeError::Protocol("a reply that fits no option")),
        }
    }

    fn note_info(&mut self, data: &[u8]) -> Result<(), HandshakeError> {
        let malformed = HandshakeError::Protocol("a description of the export is malformed");
        let mut fields = Fields(data);
        let details = &mut self.negotiated.details;
        let Some(kind) = fields.u16() else {
            return Err(malformed);
        };
        match kind {
            info::EXPORT => {
                let (Some(size_bytes), Some(flags)) = (fields.u64(), fields.u16()) else {
                    return Err(malformed);
                };
                (details.size_bytes, details.flags) = (size_bytes, flags);
                self.has_details = true;
            }
            info::BLOCK_SIZE => {
                let sizes = [fields.u32(), fields.u32(), fields.u32()];
                let [Some(smallest), Some(preferred), Some(largest)] = sizes else {
                    return Err(malformed);
                };
                // As the protocol has it ("Block size constraints").
                let is_power = smallest.is_power_of_two() && preferred.is_power_of_two();
                if !is_power || smallest > 64 << 10 || preferred < smallest || largest < smallest {
                    return Err(HandshakeError::Protocol("block sizes that make no sense"));
                }
                details.block_sizes = Some([smallest, preferred, largest]);
            }
            _ => {}
        }
        Ok(())
    }

    fn note_name(&mut self, data: &[u8]) -> Result<(), HandshakeError> {
        let name = Fields(data).string().ok_or(HandshakeError::Protocol(
            "the name of an export is malformed",
        ))?;
        if self.known.len() < NAMES_SHOWN_MAX {
            self.known
                .push(name.chars().flat_map(char::escape_debug).collect());
        } else {
            self.more += 1;
        }
        Ok(())
    }

    fn export_name_answer(
        &mut self,
        input: &[u8],
    ) -> Result<(usize, Option<Negotiated>), HandshakeError> {
        let len = 10
            + if self.has_zeroes {
                EXPORT_NAME_ZEROES
            } else {
                0
            };
        let mut fields = Fields(input);
        let (Some(size_bytes), Some(flags), true) =
            (fields.u64(), fields.u16(), input.len() >= len)
        else {
            return Ok((0, None));
        };
        let details = &mut self.negotiated.details;
        (details.size_bytes, details.flags) = (size_bytes, flags);
        Ok((len, Some(self.negotiated)))
    }

    fn ask_for_context(&mut self, output: &mut Vec<u8>) {
        let parts = [
            &name_len(&self.wish.export)[..],
            self.wish.export.as_bytes(),
            &1_u32.to_be_bytes(),
            &name_len(BASE_ALLOCATION),
            BASE_ALLOCATION.as_bytes(),
        ];
        send_option(output, option::SET_META_CONTEXT, &parts);
        self.phase = Phase::MetaContext;
    }

    fn ask_for_export(&mut self, output: &mut Vec<u8>) {
        let parts = [
            &name_len(&self.wish.export)[..],
            self.wish.export.as_bytes(),
            &1_u16.to_be_bytes(),
            &info::BLOCK_SIZE.to_be_bytes(),
        ];
        send_option(output, option::GO, &parts);
        self.phase = Phase::Go;
    }
}

/// The length of a name, as it precedes it.
fn name_len(name: &str) -> [u8; 4] {
    let len = u32::try_from(name.len()).expect("names are short");
    debug_assert!(name.len() <= STRING_BYTES_MAX);
    len.to_be_bytes()
}

fn send_option(output: &mut Vec<u8>, option: u32, parts: &[&[u8]]) {
    let len = parts.iter().map(|part| part.len()).sum::<usize>();
    let header = OptionHeader {
        option,
        len_bytes: u32::try_from(len).expect("options are short"),
    };
    header.write(output);
    for part in parts {
        output.extend_from_slice(part);
    }
}

fn option_name(option: u32) -> &'static str {
    match option {
        option::GO => "to open the export",
        option::STRUCTURED_REPLY => "structured replies",
        option::SET_META_CONTEXT => "a metadata context",
        _ => "an option",
    }
}

#[cfg(test)]
mod tests;
