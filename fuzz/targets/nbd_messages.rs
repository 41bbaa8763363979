#![no_main]
//! Messages that are almost right, in any order, at a server's side of a connection.
//!
//! Bytes alone seldom get past the magic numbers and lengths that do not fit. Here the input
//! chooses which messages are sent and what their fields say, so that the fuzzer spends its time on
//! what comes behind the handshake.

use heliostat_export_nbd::fuzz::fuzz_session;
use heliostat_nbd::codec::{
    BASE_ALLOCATION, OptionHeader, PAYLOAD_BYTES_MAX, RequestHeader, command, option,
};
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;

/// Names of exports: the two that there are, the default one, and one that is not.
const NAMES: [&str; 4] = ["a", "b", "", "c"];

/// Meta contexts: all, the one that there is, and one that is not.
const QUERIES: [&str; 4] = ["base:", BASE_ALLOCATION, "qemu:", ""];

fuzz_target!(|bytes: &[u8]| {
    let mut input = Unstructured::new(bytes);
    let mut out = Vec::new();
    // An input that ends early is a session that ends early.
    let _ = write_session(&mut input, &mut out);
    fuzz_session(&out);
});

fn write_session(input: &mut Unstructured<'_>, out: &mut Vec<u8>) -> Result<()> {
    // How the session is fed and answered.
    out.push(input.arbitrary()?);
    // Client flags: fixed newstyle, with and without padding, seldom anything else.
    let flags = if input.ratio(15, 16)? {
        input.int_in_range(1..=3)?
    } else {
        input.arbitrary()?
    };
    out.extend(u32::to_be_bytes(flags));
    while !input.is_empty() {
        match input.int_in_range(0..=31)? {
            0 => out.extend(input.bytes(1)?),
            1..=9 => write_option(input, out)?,
            _ => write_request(input, out)?,
        }
    }
    Ok(())
}

fn write_option(input: &mut Unstructured<'_>, out: &mut Vec<u8>) -> Result<()> {
    let known = [
        option::EXPORT_NAME,
        option::ABORT,
        option::LIST,
        option::INFO,
        option::GO,
        option::GO,
        option::STRUCTURED_REPLY,
        option::LIST_META_CONTEXT,
        option::SET_META_CONTEXT,
    ];
    let option = if input.ratio(15, 16)? {
        *input.choose(&known)?
    } else {
        input.arbitrary()?
    };
    let name = *input.choose(&NAMES)?;
    let mut data = Vec::new();
    match option {
        option::EXPORT_NAME => data.extend(name.as_bytes()),
        option::INFO | option::GO => {
            write_text(name, &mut data);
            let count = input.int_in_range(0..=4_u16)?;
            data.extend(count.to_be_bytes());
            for _ in 0..count {
                data.extend(input.int_in_range(0..=5_u16)?.to_be_bytes());
            }
        }
        option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
            write_text(name, &mut data);
            let count = input.int_in_range(0..=3_u32)?;
            data.extend(count.to_be_bytes());
            for _ in 0..count {
                write_text(input.choose(&QUERIES)?, &mut data);
            }
        }
        _ => {}
    }
    if input.ratio(1, 16)? {
        data.extend(input.bytes(4)?);
    }
    let fitting = u32::try_from(data.len()).expect("options are short");
    let len_bytes = if input.ratio(15, 16)? {
        fitting
    } else {
        input.arbitrary()?
    };
    OptionHeader { option, len_bytes }.write(out);
    out.extend(data);
    Ok(())
}

/// A length and the text.
fn write_text(text: &str, data: &mut Vec<u8>) {
    let len = u32::try_from(text.len()).expect("texts are short");
    data.extend(len.to_be_bytes());
    data.extend(text.as_bytes());
}

fn write_request(input: &mut Unstructured<'_>, out: &mut Vec<u8>) -> Result<()> {
    let flags = if input.ratio(3, 4)? {
        0
    } else {
        input.int_in_range(0..=63)?
    };
    let command = input.int_in_range(0..=8)?;
    // Round the ends of the export, and of what a request may ask for.
    let edges = [0, 1 << 20, (1 << 20) - 512, u64::MAX];
    let offset_bytes = input
        .choose(&edges)?
        .wrapping_add(input.int_in_range(0..=600)?);
    let short = [1, 2, 3, 512, 4096, 0];
    let long = [1 << 20, PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MAX + 1, u32::MAX];
    let is_short = input.ratio(7, 8)?;
    let len_bytes = *input.choose(if is_short { &short[..] } else { &long })?;
    RequestHeader {
        flags,
        command,
        cookie: input.arbitrary::<u8>()?.into(),
        offset_bytes,
        len_bytes,
    }
    .write(out);
    if command == command::WRITE {
        // A long payload is cut, so that what follows is taken for the rest of it.
        let len = if len_bytes <= 4096 { len_bytes } else { 64 };
        let len = usize::try_from(len).expect("a usize holds 32 bits");
        out.resize(out.len() + len, 0x5a);
    }
    Ok(())
}
