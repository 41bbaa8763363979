//! Conversations byte by byte: what the client says in hexadecimal, what it hears in hexadecimal.

use std::sync::Arc;

use heliostat_nbd::codec::{
    OptionHeader, PAYLOAD_BYTES_MAX, RequestHeader, command, command_flag, option, transmission,
};
use heliostat_types::{ErrorKind, Extent, StatusRun};
use proptest::prelude::{any, prop};
use proptest::{prop_assert_eq, prop_oneof, proptest};

use super::{CloseReason, Event, ExportInfo, Reply, Request, Session, Tag};
use crate::fuzz;
use crate::session::{NEGOTIATION_BYTES_MAX, OPTIONS_MAX, WRITE_SKIP_BYTES_MAX};

mod negotiation;
mod requests;

const SIZE_BYTES: u64 = 1 << 20;

/// The bytes that hexadecimal digits stand for; blanks separate, text in quotes stands for itself.
fn hex(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, part) in text.split('\'').enumerate() {
        if index % 2 == 1 {
            bytes.extend_from_slice(part.as_bytes());
            continue;
        }
        let digits: Vec<u32> = part
            .chars()
            .filter_map(|digit| digit.to_digit(16))
            .collect();
        bytes.extend(
            digits
                .chunks(2)
                .map(|pair| u8::try_from(pair[0] * 16 + pair[1]).unwrap()),
        );
    }
    bytes
}

/// A session and what lies between it and its client.
struct Talk {
    session: Session,
    output: Vec<u8>,
}

impl Talk {
    /// The greeting was sent and heard.
    fn new(in_flight_max: u32) -> Self {
        let mut output = Vec::new();
        let session = Session::new(exports(), in_flight_max, &mut output);
        let mut talk = Self { session, output };
        talk.hears("4e42444d41474943 49484156454f5054 0003");
        talk
    }

    /// Ready for requests to the first export, with structured replies and `base:allocation` or
    /// without either.
    fn open(structured: bool) -> Self {
        let mut talk = Self::new(4);
        talk.says("00000003");
        if structured {
            talk.says("49484156454f5054 00000008 00000000");
            talk.says(
                "49484156454f5054 0000000a 0000001c \
                 00000001 'a' 00000001 0000000f 'base:allocation'",
            );
        }
        let events = talk.says("49484156454f5054 00000007 00000007 00000001 'a' 0000");
        assert_eq!(events, [Event::Opened { export: 0 }]);
        talk.output.clear();
        talk
    }

    /// Feeds input, moving payloads away; the events that matter.
    fn feed(&mut self, mut input: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            let payload = self.session.payload_remaining();
            if payload > 0 {
                let len = payload.min(u32::try_from(input.len()).unwrap());
                self.session.advance_payload(len);
                input = &input[usize::try_from(len).unwrap()..];
                if len < payload {
                    return events;
                }
            }
            let received = self.session.receive(input, &mut self.output);
            input = &input[received.consumed..];
            match received.event {
                Event::NeedInput => {
                    assert!(input.is_empty(), "the client said only whole messages");
                    return events;
                }
                Event::Handled => {}
                Event::Opened { .. } | Event::Request { .. } => events.push(received.event),
                Event::Full | Event::Close(_) => {
                    events.push(received.event);
                    return events;
                }
            }
        }
    }

    fn says(&mut self, text: &str) -> Vec<Event> {
        self.feed(&hex(text))
    }

    fn hears(&mut self, text: &str) {
        assert_eq!(show(&self.output), show(&hex(text)));
        self.output.clear();
    }

    /// Sends a request with as much payload as it needs.
    fn asks(&mut self, command: u16, flags: u16, offset_bytes: u64, len_bytes: u32) -> Vec<Event> {
        let header = RequestHeader {
            flags,
            command,
            cookie: 0xc00c_1e00,
            offset_bytes,
            len_bytes,
        };
        let mut bytes = Vec::new();
        header.write(&mut bytes);
        if command == command::WRITE {
            bytes.resize(bytes.len() + usize::try_from(len_bytes).unwrap(), 0xab);
        }
        self.feed(&bytes)
    }
}

fn show(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x} ")).collect()
}

fn exports() -> Arc<[ExportInfo]> {
    let export = |name: &str, description: &str, read_only| ExportInfo {
        name: name.to_owned(),
        description: description.to_owned(),
        size_bytes: SIZE_BYTES,
        block_preferred_bytes: 4096,
        read_only,
        rotational: false,
        place: heliostat_runtime::Place::Whole,
    };
    Arc::new([export("a", "text", false), export("bb", "", true)])
}

#[test]
fn whoever_asks_hears_of_a_disk_that_it_turns() {
    let mut export = exports()[0].clone();
    let rotational = |export: &ExportInfo| export.transmission_flags(false) & (1 << 4) != 0;
    assert!(!rotational(&export));
    export.rotational = true;
    assert!(rotational(&export));
}

proptest! {
    #[test]
    fn random_bytes_keep_every_promise(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
        fuzz::fuzz_session(&bytes);
    }

    #[test]
    fn how_the_input_is_cut_changes_nothing(
        messages in prop::collection::vec(message(), 0..60),
        piece_bytes in 1_usize..300,
        late in any::<bool>(),
    ) {
        let input = conversation(&messages);
        let whole = fuzz::run(&input, usize::MAX, late);
        let cut = fuzz::run(&input, piece_bytes, late);
        prop_assert_eq!(whole, cut);
    }
}

/// What a client may send after a proper start: requests that are mostly sensible.
fn message() -> impl proptest::strategy::Strategy<Value = RequestHeader> {
    use proptest::strategy::Strategy as _;
    let command = prop_oneof![8 => 0_u16..2, 8 => 3_u16..8, 1 => any::<u16>().prop_map(|n| n | 8)];
    let flags = prop_oneof![4 => 0_u16..1, 1 => 0_u16..64];
    let offset = prop_oneof![4 => 0..SIZE_BYTES, 1 => any::<u64>()];
    let len = prop_oneof![8 => 0_u32..2000, 1 => 0_u32..100_000];
    (command, flags, any::<u64>(), offset, len).prop_map(
        |(command, flags, cookie, offset_bytes, len_bytes)| RequestHeader {
            flags,
            command,
            cookie,
            offset_bytes,
            len_bytes,
        },
    )
}

/// Negotiation as most clients do it, with one option that is too long, then these requests with
/// their payloads.
fn conversation(messages: &[RequestHeader]) -> Vec<u8> {
    let mut input = hex("00000003 49484156454f5054 00000003 00004e20");
    input.resize(input.len() + 0x4e20, 7);
    input.extend(hex("49484156454f5054 00000008 00000000 \
         49484156454f5054 0000000a 0000001c 00000001 'a' 00000001 0000000f 'base:allocation' \
         49484156454f5054 00000007 00000007 00000001 'a' 0000"));
    for (index, message) in messages.iter().enumerate() {
        message.write(&mut input);
        if message.command == command::WRITE {
            let byte = u8::try_from(index).unwrap();
            let len = usize::try_from(message.len_bytes).unwrap();
            input.resize(input.len() + len, byte);
        }
    }
    input
}
