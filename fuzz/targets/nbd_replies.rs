#![no_main]
//! What a server may send to a client: bytes, or messages that are almost right.
//!
//! Bytes alone seldom get past the magic numbers, so that half of the inputs choose messages and
//! what their fields say.

use heliostat_nbd::codec::{ChunkHeader, chunk, write_simple_reply};
use heliostat_nbd::fuzz::{fuzz_handshake, fuzz_replies, fuzz_requests};
use heliostat_nbd::replies::Asked;
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let (choice, rest) = bytes.split_first().unwrap_or((&0, &[]));
    match choice % 4 {
        0 => fuzz_handshake(rest),
        1 => fuzz_replies(rest),
        _ => {
            let mut out = Vec::new();
            // An input that ends early is a server that ends early.
            let _ = write_replies(&mut Unstructured::new(rest), &mut out);
            fuzz_replies(&out);
        }
    }
});

fn write_replies(input: &mut Unstructured<'_>, out: &mut Vec<u8>) -> Result<()> {
    // In which pieces, and whether structured.
    out.push(input.arbitrary()?);
    let requests = fuzz_requests();
    while !input.is_empty() {
        let (cookie, asked) = *input.choose(&requests)?;
        let cookie = if input.ratio(31, 32)? {
            cookie
        } else {
            input.arbitrary()?
        };
        if input.ratio(1, 4)? {
            write_simple_reply(cookie, input.int_in_range(0..=2)?, out);
            let len = match asked {
                Asked::Read(extent) => usize::try_from(extent.len()).expect("short"),
                Asked::Status(_) | Asked::Done => 0,
            };
            out.resize(out.len() + len, 1);
        } else {
            write_chunk(input, cookie, asked, out)?;
        }
    }
    Ok(())
}

fn write_chunk(
    input: &mut Unstructured<'_>,
    cookie: u64,
    asked: Asked,
    out: &mut Vec<u8>,
) -> Result<()> {
    let kinds = [
        chunk::NONE,
        chunk::OFFSET_DATA,
        chunk::OFFSET_HOLE,
        chunk::BLOCK_STATUS,
        chunk::ERROR,
        9,
    ];
    let kind = *input.choose(&kinds)?;
    let start = match asked {
        Asked::Read(extent) | Asked::Status(extent) => extent.offset(),
        Asked::Done => 0,
    };
    // Halves and quarters fit together now and then.
    let places = [0, 1024, 2048, 3072, 4096, 512, 1];
    let offset = start.wrapping_add(*input.choose(&places)?);
    let len = *input.choose(&[1024_u32, 2048, 4096, 512, 8192, 1, 0])?;
    let mut payload = Vec::new();
    match kind {
        chunk::OFFSET_DATA => {
            payload.extend(offset.to_be_bytes());
            payload.resize(8 + usize::try_from(len).expect("short"), 1);
        }
        chunk::OFFSET_HOLE => {
            payload.extend(offset.to_be_bytes());
            payload.extend(len.to_be_bytes());
        }
        chunk::BLOCK_STATUS => {
            payload.extend(input.int_in_range(1..=2_u32)?.to_be_bytes());
            for _ in 0..input.int_in_range(0..=4)? {
                payload.extend(input.int_in_range(0..=1_u32 << 20)?.to_be_bytes());
                payload.extend(input.int_in_range(0..=3_u32)?.to_be_bytes());
            }
        }
        chunk::ERROR => {
            payload.extend(input.int_in_range(0..=40_u32)?.to_be_bytes());
            let len = input.int_in_range(0..=3_u16)?;
            payload.extend(len.to_be_bytes());
            payload.resize(6 + usize::from(len), b'x');
        }
        _ => {}
    }
    if input.ratio(1, 16)? {
        payload.extend(input.bytes(2)?);
    }
    ChunkHeader {
        flags: input.int_in_range(0..=1)?,
        kind,
        cookie,
        len_bytes: u32::try_from(payload.len()).expect("short"),
    }
    .write(out);
    out.extend(payload);
    Ok(())
}
