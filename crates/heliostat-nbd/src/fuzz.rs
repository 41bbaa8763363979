//! The entry points of the fuzzer: any bytes as if a server had sent them.
//!
//! Hidden from the documentation because nothing but the fuzzer and this crate's tests calls it.

use heliostat_types::Extent;

use crate::handshake::{HANDSHAKE_INPUT_BYTES_MIN, Handshake, Wish};
use crate::replies::{Asked, REPLY_INPUT_BYTES_MIN, Replies, ReplyError, ReplyEvent};

/// What is asked before the server says a word: reads that touch, a status, something without
/// bytes, and one of each again.
const ASKED: [Asked; 6] = [
    Asked::Read(Extent::new(0, 4096)),
    Asked::Read(Extent::new(4096, 512)),
    Asked::Status(Extent::new(0, 1 << 20)),
    Asked::Done,
    Asked::Read(Extent::new(1 << 40, 8192)),
    Asked::Done,
];

/// The number of the metadata context.
const CONTEXT: u32 = 1;

/// The requests that [`fuzz_replies`] asks on a connection on which nothing was asked before, and
/// what they are called there.
#[must_use]
pub fn fuzz_requests() -> Vec<(u64, Asked)> {
    let mut replies = Replies::new(true, Some(CONTEXT));
    ASKED.map(|asked| (replies.ask(asked), asked)).to_vec()
}

/// Feeds bytes to a client that has asked [`fuzz_requests`], as if they arrived in pieces, and
/// checks that no memory but that of the request is touched, none twice, and none left out.
///
/// The first byte chooses how large the pieces are and whether replies are structured.
///
/// # Panics
/// Where the client breaks one of its promises.
pub fn fuzz_replies(bytes: &[u8]) {
    let (choice, input) = bytes.split_first().unwrap_or((&0, &[]));
    let piece_bytes = usize::from(*choice) / 2 + 1;
    // What breaks the protocol ends the connection and is nothing else.
    let _ = run(input, piece_bytes, choice % 2 == 0);
}

/// The answers that a whole input gave, in order: for comparing runs.
pub(crate) fn run(
    input: &[u8],
    piece_bytes: usize,
    is_structured: bool,
) -> Result<Vec<ReplyEvent>, ReplyError> {
    let mut replies = Replies::new(is_structured, Some(CONTEXT));
    // How often each byte of a request was filled.
    let mut memory: Vec<(u64, Asked, Vec<u8>)> = ASKED
        .into_iter()
        .map(|asked| {
            let len = match asked {
                Asked::Read(extent) => usize::try_from(extent.len()).expect("few"),
                Asked::Status(_) | Asked::Done => 0,
            };
            (replies.ask(asked), asked, vec![0; len])
        })
        .collect();
    let mut answers = Vec::new();
    let mut held: Vec<u8> = Vec::new();
    let mut pieces = input.chunks(piece_bytes.max(1));
    let mut place = (0, 0);
    loop {
        if replies.payload_remaining() > 0 {
            if held.is_empty() {
                let Some(piece) = pieces.next() else { break };
                held.extend_from_slice(piece);
            }
            let len = held.len().min(replies.payload_remaining());
            held.drain(..len);
            fill(&mut memory, place.0, place.1, len);
            place.1 += len;
            replies.advance_payload(len);
            continue;
        }
        let (consumed, event) = replies.receive(&held)?;
        held.drain(..consumed);
        match event {
            ReplyEvent::NeedInput => {
                assert!(
                    held.len() < REPLY_INPUT_BYTES_MIN,
                    "a whole message is read"
                );
                let Some(piece) = pieces.next() else { break };
                held.extend_from_slice(piece);
            }
            ReplyEvent::Handled => assert!(consumed > 0, "what was handled is gone"),
            ReplyEvent::Data { cookie, at } => {
                assert!(replies.payload_remaining() > 0);
                place = (cookie, at);
            }
            ReplyEvent::Hole { cookie, at, len } => fill(&mut memory, cookie, at, len),
            ReplyEvent::Answered { cookie, result } => {
                let at = memory.iter().position(|(other, ..)| *other == cookie);
                let (_, asked, filled) = memory.remove(at.expect("answered once"));
                if let (Ok(runs), Asked::Status(extent)) = (&result, asked) {
                    let len = runs.iter().map(|run| run.len_bytes).sum::<u64>();
                    assert_eq!(len, extent.len(), "all of it has a status");
                    assert!(runs.iter().all(|run| run.len_bytes > 0));
                }
                assert!(result.is_err() || filled.iter().all(|&count| count == 1));
                answers.push(ReplyEvent::Answered { cookie, result });
            }
        }
    }
    assert_eq!(replies.in_flight(), memory.len());
    Ok(answers)
}

/// Counts bytes that were filled; each is filled once.
fn fill(memory: &mut [(u64, Asked, Vec<u8>)], cookie: u64, at: usize, len: usize) {
    let request = memory.iter_mut().find(|(other, ..)| *other == cookie);
    let (_, _, bytes) = request.expect("it is in flight");
    for count in &mut bytes[at..at + len] {
        *count += 1;
        assert_eq!(*count, 1, "no byte twice");
    }
}

/// Feeds bytes to a client's side of a negotiation, as if they arrived in pieces.
///
/// # Panics
/// Where it breaks one of its promises.
pub fn fuzz_handshake(bytes: &[u8]) {
    let (choice, input) = bytes.split_first().unwrap_or((&0, &[]));
    let mut handshake = Handshake::new(Wish {
        export: "a".to_owned(),
        structured: choice % 4 != 0,
        allocation: choice % 2 == 1,
    });
    let mut output = Vec::new();
    let mut held: Vec<u8> = Vec::new();
    for piece in input.chunks(usize::from(*choice) + 1) {
        held.extend_from_slice(piece);
        loop {
            let before = output.len();
            let Ok((consumed, negotiated)) = handshake.receive(&held, &mut output) else {
                return;
            };
            assert!(output.len() - before <= 128, "one message, little output");
            held.drain(..consumed);
            if negotiated.is_some() {
                return;
            }
            if consumed == 0 {
                assert!(
                    held.len() < HANDSHAKE_INPUT_BYTES_MIN,
                    "a whole message is read"
                );
                break;
            }
        }
    }
}
