//! The entry point of the fuzzer: any bytes at a [`Session`] with a make-believe backend behind it.
//!
//! Hidden from the documentation because nothing but the fuzzer and this crate's tests calls it.

use std::sync::Arc;

use heliostat_nbd::codec::PAYLOAD_BYTES_MAX;
use heliostat_types::{ErrorKind, StatusRun};

use crate::session::{Event, ExportInfo, INPUT_BYTES_MIN, Reply, Request, Session, Tag};

/// Small, so that offsets at its end are found quickly.
const SIZE_BYTES: u64 = 1 << 20;
/// Few, so that the session is full now and then.
const IN_FLIGHT_MAX: u32 = 8;
/// More than any one message makes a session append: all exports listed with their descriptions,
/// and an allocation map.
const APPENDED_BYTES_MAX: usize = 128 << 10;

/// Feeds bytes to a session, as if they arrived in pieces, and answers what it hands out.
///
/// The first byte chooses how large the pieces are and in which order requests are answered.
///
/// # Panics
/// Where the session breaks one of its promises.
pub fn fuzz_session(bytes: &[u8]) {
    let (choice, input) = bytes.split_first().unwrap_or((&0, &[]));
    let piece_bytes = usize::from(*choice) + 1;
    run(input, piece_bytes, choice % 2 == 1);
}

/// What a session made of its whole input: for comparing runs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Transcript {
    /// Events, without those that say only how the input was cut.
    pub(crate) events: Vec<Event>,
    /// All it sent.
    pub(crate) output: Vec<u8>,
    /// All payload it let through.
    pub(crate) payload: Vec<u8>,
}

/// The exports that are served to the fuzzer: two, one of them read-only.
pub(crate) fn exports() -> Arc<[ExportInfo]> {
    let export = |name: &str, read_only| ExportInfo {
        name: name.to_owned(),
        description: format!("The export {name}."),
        size_bytes: SIZE_BYTES,
        block_preferred_bytes: 4096,
        read_only,
        rotational: false,
        place: heliostat_runtime::Place::Whole,
    };
    Arc::new([export("a", false), export("b", true)])
}

/// Feeds the input in pieces of this size. Requests are answered at once, or (`late`) when no more
/// may be in flight and at the end, newest first.
pub(crate) fn run(input: &[u8], piece_bytes: usize, late: bool) -> Transcript {
    let mut transcript = Transcript::default();
    let mut session = Session::new(exports(), IN_FLIGHT_MAX, &mut transcript.output);
    let mut waiting: Vec<(Tag, Request)> = Vec::new();
    let mut held: Vec<u8> = Vec::new();
    let mut messages = 0_usize;
    let mut pieces = input.chunks(piece_bytes.max(1));
    loop {
        if session.payload_remaining() > 0 && !held.is_empty() {
            move_payload(&mut session, &mut held, &mut transcript);
        }
        if session.payload_remaining() > 0 {
            let Some(piece) = pieces.next() else { break };
            held.extend_from_slice(piece);
            continue;
        }
        if !late && !waiting.is_empty() {
            answer_all(&mut session, &mut waiting, &mut transcript.output);
        }
        let output_before = transcript.output.len();
        let received = session.receive(&held, &mut transcript.output);
        let appended = transcript.output.len() - output_before;
        assert!(appended <= APPENDED_BYTES_MAX, "one message, little output");
        assert!(session.in_flight() <= IN_FLIGHT_MAX);
        held.drain(..received.consumed);
        match received.event {
            Event::NeedInput => {
                assert!(held.len() < INPUT_BYTES_MIN, "a whole message is handled");
                let Some(piece) = pieces.next() else { break };
                held.extend_from_slice(piece);
            }
            Event::Full => {
                assert!(late, "requests that were answered are not in flight");
                answer_all(&mut session, &mut waiting, &mut transcript.output);
            }
            Event::Handled => {
                assert!(received.consumed > 0, "what was handled is gone");
                messages += 1;
            }
            Event::Opened { .. } => transcript.events.push(received.event),
            Event::Request { tag, request } => {
                check_request(request);
                assert!(waiting.iter().all(|(other, _)| *other != tag));
                waiting.push((tag, request));
                transcript.events.push(received.event);
            }
            Event::Close(_) => {
                transcript.events.push(received.event);
                break;
            }
        }
    }
    assert!(
        messages <= input.len(),
        "each message takes a byte at least"
    );
    if session.payload_remaining() == 0 {
        answer_all(&mut session, &mut waiting, &mut transcript.output);
        assert_eq!(session.in_flight(), 0);
    }
    transcript
}

fn move_payload(session: &mut Session, held: &mut Vec<u8>, transcript: &mut Transcript) {
    let len = u32::try_from(held.len()).expect("the input is small");
    let len = len.min(session.payload_remaining());
    let moved = held.drain(..usize::try_from(len).expect("a usize holds 32 bits"));
    transcript.payload.extend(moved);
    session.advance_payload(len);
}

/// What leaves a session is a request that makes sense.
fn check_request(request: Request) {
    let (extent, len_max) = match request {
        Request::Flush => return,
        Request::Read { extent } | Request::Write { extent, .. } => {
            (extent, u64::from(PAYLOAD_BYTES_MAX))
        }
        Request::Trim { extent, .. }
        | Request::WriteZeroes { extent, .. }
        | Request::BlockStatus { extent } => (extent, SIZE_BYTES),
    };
    assert!(!extent.is_empty() && extent.end() <= SIZE_BYTES && extent.len() <= len_max);
}

/// Answers newest first: reads with zeros (or an error at odd offsets), status with two runs.
fn answer_all(session: &mut Session, waiting: &mut Vec<(Tag, Request)>, output: &mut Vec<u8>) {
    while let Some((tag, request)) = waiting.pop() {
        match request {
            Request::Read { extent } if extent.offset() % 2 == 1 => {
                session.reply(tag, Err(ErrorKind::Io), output);
            }
            Request::Read { .. } => session.reply(tag, Ok(Reply::Data), output),
            Request::BlockStatus { extent } => {
                let run = |len_bytes, hole| StatusRun {
                    len_bytes,
                    hole,
                    zero: hole,
                };
                let runs = [run(1, true), run(extent.len(), false)];
                session.reply(tag, Ok(Reply::Status(&runs)), output);
            }
            Request::Write { .. }
            | Request::Flush
            | Request::Trim { .. }
            | Request::WriteZeroes { .. } => session.reply(tag, Ok(Reply::Done), output),
        }
    }
}
