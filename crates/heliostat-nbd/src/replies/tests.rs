use heliostat_types::{Prng as _, RandomStream, StatusRun};

use super::{Asked, PIECES_MAX, Replies, ReplyError, ReplyEvent};
use crate::codec::{ChunkHeader, chunk, write_simple_reply};
use crate::fuzz::{fuzz_replies, fuzz_requests, run};

/// The requests of the fuzzer: two reads, a status, and one that is only done or not.
const READ: usize = 0;
const STATUS: usize = 2;
const DONE: usize = 3;

/// What a server says.
#[derive(Default)]
struct Script(Vec<u8>);

impl Script {
    fn chunk(mut self, request: usize, kind: u16, done: bool, payload: &[&[u8]]) -> Self {
        let payload = payload.concat();
        ChunkHeader {
            flags: if done { chunk::FLAG_DONE } else { 0 },
            kind,
            cookie: fuzz_requests()[request].0,
            len_bytes: u32::try_from(payload.len()).unwrap(),
        }
        .write(&mut self.0);
        self.0.extend(payload);
        self
    }

    fn data(self, offset: u64, len: usize, done: bool) -> Self {
        let payload = [&offset.to_be_bytes()[..], &vec![7; len]];
        self.chunk(READ, chunk::OFFSET_DATA, done, &payload)
    }

    fn hole(self, offset: u64, len: u32, done: bool) -> Self {
        let payload = [&offset.to_be_bytes()[..], &len.to_be_bytes()];
        self.chunk(READ, chunk::OFFSET_HOLE, done, &payload)
    }

    fn error(self, request: usize, number: u32, text: &str, done: bool) -> Self {
        let len = u16::try_from(text.len()).unwrap().to_be_bytes();
        let payload = [&number.to_be_bytes()[..], &len, text.as_bytes()];
        self.chunk(request, chunk::ERROR, done, &payload)
    }

    fn status(self, context: u32, extents: &[(u32, u32)], done: bool) -> Self {
        let mut payload = context.to_be_bytes().to_vec();
        for (len, flags) in extents {
            payload.extend(len.to_be_bytes());
            payload.extend(flags.to_be_bytes());
        }
        self.chunk(STATUS, chunk::BLOCK_STATUS, done, &[&payload])
    }

    fn simple(mut self, request: usize, error: u32, data: usize) -> Self {
        write_simple_reply(fuzz_requests()[request].0, error, &mut self.0);
        self.0.resize(self.0.len() + data, 7);
        self
    }

    /// The results, whatever pieces the bytes arrive in.
    fn results(&self, is_structured: bool) -> Result<Vec<Result<Vec<StatusRun>, u32>>, ReplyError> {
        let whole = run(&self.0, self.0.len(), is_structured);
        for piece_bytes in [1, 7, 64, 4096] {
            assert_eq!(run(&self.0, piece_bytes, is_structured), whole);
        }
        let answers = whole?;
        let results = answers.into_iter().map(|event| {
            let ReplyEvent::Answered { result, .. } = event else {
                panic!("{event:?}");
            };
            result
        });
        Ok(results.collect())
    }

    fn ok(&self) {
        assert_eq!(self.results(true), Ok(vec![Ok(Vec::new())]));
    }

    fn refused(&self, problem: &'static str) {
        assert_eq!(self.results(true), Err(ReplyError(problem)));
    }
}

fn script() -> Script {
    Script::default()
}

#[test]
fn reads_come_in_chunks_of_any_order() {
    script().data(0, 4096, true).ok();
    script()
        .data(1024, 1024, false)
        .hole(2048, 2048, false)
        .data(0, 1024, true)
        .ok();
    script()
        .hole(0, 4096, false)
        .chunk(READ, chunk::NONE, true, &[])
        .ok();
}

#[test]
fn bytes_left_out_come_twice_or_from_elsewhere_end_the_connection() {
    let missing = "a READ is answered with bytes missing";
    script().data(0, 4095, true).refused(missing);
    script().hole(1, 4095, true).refused(missing);
    script()
        .chunk(READ, chunk::NONE, true, &[])
        .refused(missing);
    let twice = "the same bytes of a READ twice";
    script()
        .data(0, 1024, false)
        .hole(1023, 2, false)
        .refused(twice);
    script()
        .hole(512, 512, false)
        .data(0, 4096, true)
        .refused(twice);
    let strange = "data that was not asked for";
    script().data(1, 4096, true).refused(strange);
    script().hole(u64::MAX, 2, true).refused(strange);
    let payload = [&0_u64.to_be_bytes()[..], &[7; 512]];
    script()
        .chunk(DONE, chunk::OFFSET_DATA, true, &payload)
        .refused(strange);
}

#[test]
fn malformed_chunks_end_the_connection() {
    let cases = [
        (chunk::OFFSET_DATA, &[0; 8][..], "data without bytes"),
        (chunk::OFFSET_HOLE, &[0; 12], "a hole is malformed"),
        (chunk::OFFSET_HOLE, &[0; 13], "a hole is malformed"),
        (chunk::NONE, &[0], "an empty chunk that ends nothing"),
        (chunk::ERROR, &[0; 6], "an error is malformed"),
        (chunk::ERROR, &[0, 0, 0, 5, 0, 1], "an error is malformed"),
        (3, &[], "a chunk of an unknown kind"),
        (4, &[0; 5000], "a chunk is too long"),
        (chunk::BLOCK_STATUS, &[0; 4], "a status without extents"),
        (chunk::BLOCK_STATUS, &[0; 13], "a status without extents"),
    ];
    for (kind, payload, problem) in cases {
        script()
            .chunk(READ, kind, true, &[payload])
            .refused(problem);
    }
    script()
        .chunk(READ, chunk::NONE, false, &[])
        .refused("an empty chunk that ends nothing");
    let mut text = Script(b"HTTP/1.1 400 Bad Request".to_vec());
    text.refused("a reply begins with a wrong number");
    text.0 = vec![0; 20];
    text.refused("a reply begins with a wrong number");
}

#[test]
fn errors_have_numbers() {
    let result = |script: Script| script.results(true).unwrap();
    assert_eq!(result(script().error(READ, 5, "broken", true)), [Err(5)]);
    // Data that came before counts for nothing, and the first of two errors is told.
    let late = script()
        .data(0, 512, false)
        .error(READ, 28, "", false)
        .error(READ, 5, "", true);
    assert_eq!(result(late), [Err(28)]);
    assert_eq!(result(script().simple(DONE, 28, 0)), [Err(28)]);
    // An error of a kind that nobody knows yet.
    let unknown = script().chunk(
        DONE,
        chunk::ERROR_BIT + 77,
        true,
        &[&[0, 0, 0, 9, 0, 0, 1, 2]],
    );
    assert_eq!(result(unknown), [Err(9)]);
}

#[test]
fn answers_to_nothing_end_the_connection() {
    let nothing = "a reply to nothing that was asked";
    script()
        .simple(DONE, 0, 0)
        .simple(DONE, 0, 0)
        .refused(nothing);
    let mut other = script();
    write_simple_reply(77, 0, &mut other.0);
    other.refused(nothing);
}

#[test]
fn a_second_answer_is_not_taken_for_one_to_the_next_request() {
    let mut replies = Replies::new(false, None);
    let first = replies.ask(Asked::Done);
    let mut answer = Vec::new();
    write_simple_reply(first, 0, &mut answer);
    assert!(replies.receive(&answer).is_ok());
    let second = replies.ask(Asked::Done);
    assert_ne!(first, second);
    assert!(replies.receive(&answer).is_err());
}

#[test]
fn simple_replies() {
    let both = script().simple(DONE, 0, 0).simple(READ, 0, 4096);
    assert_eq!(both.results(false), Ok(vec![Ok(Vec::new()); 2]));
    both.refused("a simple reply where a structured one is due");
    let chunked = script().data(0, 4096, true);
    let wrong = ReplyError("a reply begins with a wrong number");
    assert_eq!(chunked.results(false), Err(wrong));
    script()
        .data(0, 512, false)
        .simple(READ, 5, 0)
        .refused("a reply of both kinds to one request");
}

#[test]
fn a_status_is_as_long_as_what_was_asked() {
    let run = |len_bytes, hole, zero| StatusRun {
        len_bytes,
        hole,
        zero,
    };
    let runs = |script: Script| script.results(true).unwrap().remove(0).unwrap();
    let exact = script().status(1, &[(1 << 19, 3), (1 << 19, 0)], true);
    assert_eq!(
        runs(exact),
        [run(1 << 19, true, true), run(1 << 19, false, false)]
    );
    // Less than what was asked is the server's right, and so is more in the last extent.
    let short = script().status(1, &[(512, 2)], true);
    assert_eq!(
        runs(short),
        [run(512, false, true), run((1 << 20) - 512, false, false)]
    );
    let long = script().status(1, &[(u32::MAX, 1)], true);
    assert_eq!(runs(long), [run(1 << 20, true, false)]);
    let alike = script().status(1, &[(512, 3), (512, 3), (512, 0)], true);
    assert_eq!(
        runs(alike),
        [run(1024, true, true), run((1 << 20) - 1024, false, false)]
    );
    let many: Vec<_> = (0..2001).map(|index| (1, index % 2)).collect();
    let many = runs(script().status(1, &many, true));
    let rest = run((1 << 20) - 1024, false, false);
    assert_eq!((many.len(), many.last()), (1025, Some(&rest)));
}

#[test]
fn a_status_that_makes_no_sense_ends_the_connection() {
    script()
        .status(1, &[(0, 0)], true)
        .refused("a status of no bytes");
    script()
        .status(2, &[(512, 0)], true)
        .refused("a status of a context that was not chosen");
    script()
        .status(1, &[(512, 0)], false)
        .status(1, &[(512, 0)], true)
        .refused("a status twice");
    script()
        .chunk(STATUS, chunk::NONE, true, &[])
        .refused("a status without extents");
    let payload = [0, 0, 0, 1, 0, 0, 2, 0, 0, 0, 0, 0];
    script()
        .chunk(READ, chunk::BLOCK_STATUS, true, &[&payload])
        .refused("a status that was not asked for");
}

#[test]
fn a_read_in_thousands_of_pieces_is_not_remembered_for_ever() {
    let mut scattered = script();
    for piece in 0..=u64::try_from(PIECES_MAX).unwrap() {
        scattered = scattered.hole(2 * piece, 1, false);
    }
    scattered.refused("a READ in too many pieces");
}

#[test]
fn any_bytes_are_survived() {
    let mut prng = RandomStream::new(1, "replies", 0);
    let requests = fuzz_requests();
    for _ in 0..2000 {
        let mut bytes = vec![prng.next_u64().to_le_bytes()[0]];
        for _ in 0..prng.below(8) {
            let mut payload = vec![0; usize::try_from(prng.below(40)).unwrap()];
            for byte in &mut payload {
                let any = prng.next_u64().to_le_bytes()[0];
                *byte = any * u8::from(prng.below(3) == 0);
            }
            let kinds = [0, 1, 2, 5, chunk::ERROR, 3];
            ChunkHeader {
                flags: u16::from(prng.below(2) == 0),
                kind: kinds[usize::try_from(prng.below(6)).unwrap()],
                cookie: requests[usize::try_from(prng.below(6)).unwrap()].0,
                len_bytes: u32::try_from(payload.len()).unwrap(),
            }
            .write(&mut bytes);
            bytes.extend(payload);
        }
        fuzz_replies(&bytes);
    }
}
