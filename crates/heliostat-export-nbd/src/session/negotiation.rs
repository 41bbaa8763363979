//! The options that come before the first request.

use heliostat_nbd::codec::{
    BASE_ALLOCATION, EXPORT_NAME_ZEROES, Fields, OPTION_HEADER_BYTES, OptionHeader,
    OptionReplyHeader, PAYLOAD_BYTES_MAX, STRING_BYTES_MAX, info, option, option_reply,
};

use super::{CloseReason, Event, Phase, Received, Session, index, skippable};

/// The longest data of an option that is looked at: room for three strings of the greatest length.
/// Longer data is skipped and refused as too big.
pub const OPTION_DATA_BYTES_MAX: usize = 4 * STRING_BYTES_MAX;
/// How many options a client may send. A client that lists hundreds of exports over one connection
/// stays below; one that keeps us busy without ever starting does not.
pub const OPTIONS_MAX: u32 = 2048;
/// How many bytes all options of a connection may have together, those skipped included.
pub const NEGOTIATION_BYTES_MAX: u32 = 1 << 20;

/// The number that stands for `base:allocation` in replies to `BLOCK_STATUS`.
pub(super) const ALLOCATION_CONTEXT: u32 = 1;

/// Why an option is refused, and what people are told.
struct Refusal(u32, &'static str);

const INVALID_DATA: Refusal = Refusal(option_reply::ERR_INVALID, "The option data is malformed.");
const UNKNOWN_EXPORT: Refusal = Refusal(
    option_reply::ERR_UNKNOWN,
    "There is no export of that name.",
);

impl Session {
    pub(super) fn receive_option(&mut self, input: &[u8], output: &mut Vec<u8>) -> Received {
        let Some(bytes) = input.first_chunk::<OPTION_HEADER_BYTES>() else {
            return Received::need_input();
        };
        let Some(header) = OptionHeader::parse(bytes) else {
            return self.close(bytes.len(), CloseReason::BadOptionMagic);
        };
        if !self.fixed_newstyle && header.option != option::EXPORT_NAME {
            return self.close(bytes.len(), CloseReason::NotFixedNewstyle);
        }
        if header.len_bytes > NEGOTIATION_BYTES_MAX - self.negotiation_bytes {
            return self.close(bytes.len(), CloseReason::NegotiationTooLong);
        }
        let len = index(header.len_bytes);
        let too_big = len > OPTION_DATA_BYTES_MAX;
        let rest = &input[bytes.len()..];
        if !too_big && rest.len() < len {
            return Received::need_input();
        }
        if self.options == OPTIONS_MAX {
            return self.close(bytes.len(), CloseReason::TooManyOptions);
        }
        self.options += 1;
        self.negotiation_bytes += header.len_bytes;
        if too_big {
            return self.refuse_too_big(header, output);
        }
        let consumed = bytes.len() + len;
        match header.option {
            option::EXPORT_NAME => self.export_name(consumed, &rest[..len], output),
            option::ABORT => {
                reply(output, header.option, option_reply::ACK, &[]);
                self.close(consumed, CloseReason::Abort)
            }
            _ => match self.answer_option(header.option, &rest[..len], output) {
                Ok(None) => Received::handled(consumed),
                Ok(Some(export)) => self.open(consumed, export),
                Err(refusal) => {
                    refuse(output, header.option, &refusal);
                    Received::handled(consumed)
                }
            },
        }
    }

    pub(super) fn skip_option(&mut self, input: &[u8], remaining_bytes: u32) -> Received {
        if input.is_empty() {
            return Received::need_input();
        }
        let (consumed, skipped) = skippable(input, remaining_bytes);
        self.phase = match remaining_bytes - skipped {
            0 => Phase::Options,
            remaining_bytes => Phase::SkipOption { remaining_bytes },
        };
        Received::handled(consumed)
    }

    fn refuse_too_big(&mut self, header: OptionHeader, output: &mut Vec<u8>) -> Received {
        if header.option == option::EXPORT_NAME {
            return self.close(OPTION_HEADER_BYTES, CloseReason::UnknownExport);
        }
        let refusal = Refusal(option_reply::ERR_TOO_BIG, "The option data is too long.");
        refuse(output, header.option, &refusal);
        self.phase = Phase::SkipOption {
            remaining_bytes: header.len_bytes,
        };
        Received::handled(OPTION_HEADER_BYTES)
    }

    /// Answers an option that can be refused; says which export to open, where it asks for one.
    fn answer_option(
        &mut self,
        option: u32,
        data: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<Option<usize>, Refusal> {
        if self.stopping {
            return Err(Refusal(
                option_reply::ERR_SHUTDOWN,
                "The server is stopping.",
            ));
        }
        match option {
            option::LIST => self.list(data, output).map(|()| None),
            option::INFO => self.describe(option, data, output).map(|_| None),
            option::GO => self.describe(option, data, output).map(Some),
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                reply(output, option, option_reply::ACK, &[]);
                Ok(None)
            }
            option::STRUCTURED_REPLY => Err(INVALID_DATA),
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                self.meta_context(option, data, output).map(|()| None)
            }
            _ => Err(Refusal(
                option_reply::ERR_UNSUP,
                "The option is not supported.",
            )),
        }
    }

    fn export_name(&mut self, consumed: usize, data: &[u8], output: &mut Vec<u8>) -> Received {
        let name = str::from_utf8(data).ok();
        let export = name.and_then(|name| self.find_export(name));
        let Some(export) = export.filter(|_| !self.stopping) else {
            return self.close(consumed, CloseReason::UnknownExport);
        };
        let info = &self.exports[export];
        output.extend_from_slice(&info.size_bytes.to_be_bytes());
        output.extend_from_slice(&info.transmission_flags(self.structured).to_be_bytes());
        if !self.no_zeroes {
            output.resize(output.len() + EXPORT_NAME_ZEROES, 0);
        }
        self.open(consumed, export)
    }

    const fn open(&mut self, consumed: usize, export: usize) -> Received {
        self.export = export;
        self.phase = Phase::Requests;
        Received {
            consumed,
            event: Event::Opened { export },
        }
    }

    fn list(&self, data: &[u8], output: &mut Vec<u8>) -> Result<(), Refusal> {
        if !data.is_empty() {
            return Err(INVALID_DATA);
        }
        for export in self.exports.iter() {
            let name_len = wire_len(export.name.len()).to_be_bytes();
            let parts = [
                &name_len,
                export.name.as_bytes(),
                export.description.as_bytes(),
            ];
            reply(output, option::LIST, option_reply::SERVER, &parts);
        }
        reply(output, option::LIST, option_reply::ACK, &[]);
        Ok(())
    }

    /// INFO and GO: says all there is to know of an export.
    fn describe(&self, option: u32, data: &[u8], output: &mut Vec<u8>) -> Result<usize, Refusal> {
        let mut fields = Fields(data);
        let name = fields.string().ok_or(INVALID_DATA)?;
        let asked_count = fields.u16().ok_or(INVALID_DATA)?;
        let asked = fields
            .bytes(2 * usize::from(asked_count))
            .filter(|_| fields.is_empty())
            .ok_or(INVALID_DATA)?;
        let export = self.find_export(name).ok_or(UNKNOWN_EXPORT)?;
        let info = &self.exports[export];
        let asks_for = |kind: u16| asked.chunks_exact(2).any(|item| item == kind.to_be_bytes());
        let mut say = |kind: u16, parts: [&[u8]; 3]| {
            let [first, second, third] = parts;
            let parts = [&kind.to_be_bytes(), first, second, third];
            reply(output, option, option_reply::INFO, &parts);
        };
        let flags = info.transmission_flags(self.structured);
        say(
            info::EXPORT,
            [&info.size_bytes.to_be_bytes(), &flags.to_be_bytes(), &[]],
        );
        if asks_for(info::NAME) {
            say(info::NAME, [info.name.as_bytes(), &[], &[]]);
        }
        if asks_for(info::DESCRIPTION) && !info.description.is_empty() {
            say(info::DESCRIPTION, [info.description.as_bytes(), &[], &[]]);
        }
        say(
            info::BLOCK_SIZE,
            [
                &1_u32.to_be_bytes(),
                &info.block_preferred_bytes.to_be_bytes(),
                &PAYLOAD_BYTES_MAX.to_be_bytes(),
            ],
        );
        reply(output, option, option_reply::ACK, &[]);
        Ok(export)
    }

    fn meta_context(
        &mut self,
        option: u32,
        data: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let is_list = option == option::LIST_META_CONTEXT;
        if !is_list {
            // Whatever comes of it, what was chosen before is not chosen any more.
            self.allocation_export = None;
        }
        if !self.structured {
            return Err(Refusal(
                option_reply::ERR_INVALID,
                "Structured replies have to be negotiated first.",
            ));
        }
        let mut fields = Fields(data);
        let name = fields.string().ok_or(INVALID_DATA)?;
        let query_count = fields.u32().ok_or(INVALID_DATA)?;
        let mut is_chosen = is_list && query_count == 0;
        for _ in 0..query_count {
            let query = fields.string().ok_or(INVALID_DATA)?;
            is_chosen |= query == BASE_ALLOCATION || is_list && query == "base:";
        }
        if !fields.is_empty() {
            return Err(INVALID_DATA);
        }
        let export = self.find_export(name).ok_or(UNKNOWN_EXPORT)?;
        if is_chosen {
            let context = if is_list { 0 } else { ALLOCATION_CONTEXT };
            let parts = [&context.to_be_bytes(), BASE_ALLOCATION.as_bytes()];
            reply(output, option, option_reply::META_CONTEXT, &parts);
            if !is_list {
                self.allocation_export = Some(export);
            }
        }
        reply(output, option, option_reply::ACK, &[]);
        Ok(())
    }
}

/// Appends a reply whose data is these parts, one after the other.
fn reply(output: &mut Vec<u8>, option: u32, kind: u32, parts: &[&[u8]]) {
    let header = OptionReplyHeader {
        option,
        kind,
        len_bytes: wire_len(parts.iter().map(|part| part.len()).sum()),
    };
    header.write(output);
    for part in parts {
        output.extend_from_slice(part);
    }
}

fn refuse(output: &mut Vec<u8>, option: u32, refusal: &Refusal) {
    reply(output, option, refusal.0, &[refusal.1.as_bytes()]);
}

fn wire_len(len: usize) -> u32 {
    u32::try_from(len).expect("names and texts are short")
}
