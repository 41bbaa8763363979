use heliostat_types::{Prng as _, RandomStream};

use super::{ExportDetails, Handshake, HandshakeError, Negotiated, OLDSTYLE_MAGIC, Wish};
use crate::codec::{
    CLIENT_FLAGS_BYTES, GREETING_MAGIC, OPTION_HEADER_BYTES, OPTION_MAGIC, OptionHeader,
    OptionReplyHeader, option, option_reply,
};
use crate::fuzz::fuzz_handshake;

/// What a server says, and what came of it.
struct Talk {
    said: Vec<u8>,
}

impl Talk {
    /// A server that greets with these flags.
    fn greet(flags: u16) -> Self {
        let mut said = GREETING_MAGIC.to_be_bytes().to_vec();
        said.extend(OPTION_MAGIC.to_be_bytes());
        said.extend(flags.to_be_bytes());
        Self { said }
    }

    fn reply(mut self, option: u32, kind: u32, parts: &[&[u8]]) -> Self {
        let data = parts.concat();
        OptionReplyHeader {
            option,
            kind,
            len_bytes: u32::try_from(data.len()).unwrap(),
        }
        .write(&mut self.said);
        self.said.extend(data);
        self
    }

    /// The answer to GO: size, flags, sizes of blocks.
    fn go(self) -> Self {
        let size = 1_u64.to_be_bytes();
        self.reply(option::GO, option_reply::INFO, &[&[0, 0], &size, &[0, 1]])
            .reply(
                option::GO,
                option_reply::INFO,
                &[
                    &[0, 3],
                    &512_u32.to_be_bytes(),
                    &4096_u32.to_be_bytes(),
                    &(1_u32 << 20).to_be_bytes(),
                ],
            )
            .reply(option::GO, option_reply::ACK, &[])
    }

    /// What is agreed upon, and the options that the client sent, in whatever pieces the server's
    /// bytes arrive.
    fn end(&self, wish: &Wish) -> (Result<Option<Negotiated>, HandshakeError>, Vec<u32>) {
        let whole = self.end_in_pieces(wish, self.said.len());
        assert_eq!(self.end_in_pieces(wish, 1), whole);
        whole
    }

    fn end_in_pieces(
        &self,
        wish: &Wish,
        piece_bytes: usize,
    ) -> (Result<Option<Negotiated>, HandshakeError>, Vec<u32>) {
        let mut handshake = Handshake::new(wish.clone());
        let (mut held, mut output) = (Vec::new(), Vec::new());
        for piece in self.said.chunks(piece_bytes) {
            held.extend_from_slice(piece);
            loop {
                match handshake.receive(&held, &mut output) {
                    Ok((0, None)) => break,
                    Ok((_, Some(negotiated))) => return (Ok(Some(negotiated)), options(&output)),
                    Ok((consumed, None)) => drop(held.drain(..consumed)),
                    Err(error) => return (Err(error), options(&output)),
                }
            }
        }
        (Ok(None), options(&output))
    }

    fn error(&self) -> HandshakeError {
        self.end(&wish()).0.unwrap_err()
    }
}

fn options(mut output: &[u8]) -> Vec<u32> {
    output = output.get(CLIENT_FLAGS_BYTES..).unwrap_or_default();
    let mut options = Vec::new();
    while let Some((bytes, rest)) = output.split_first_chunk::<OPTION_HEADER_BYTES>() {
        let header = OptionHeader::parse(bytes).unwrap();
        options.push(header.option);
        output = &rest[usize::try_from(header.len_bytes).unwrap()..];
    }
    options
}

fn wish() -> Wish {
    Wish {
        export: "disk".to_owned(),
        structured: true,
        allocation: true,
    }
}

const DETAILS: ExportDetails = ExportDetails {
    size_bytes: 1,
    flags: 1,
    block_sizes: Some([512, 4096, 1 << 20]),
};

#[test]
fn all_that_is_wanted_is_agreed_upon() {
    let (negotiated, options) = Talk::greet(3)
        .reply(option::STRUCTURED_REPLY, option_reply::ACK, &[])
        .reply(
            option::SET_META_CONTEXT,
            option_reply::META_CONTEXT,
            &[&[0, 0, 0, 9], b"base:allocation"],
        )
        .reply(option::SET_META_CONTEXT, option_reply::ACK, &[])
        .go()
        .end(&wish());
    let expected = Negotiated {
        details: DETAILS,
        is_structured: true,
        allocation_context: Some(9),
    };
    assert_eq!(negotiated, Ok(Some(expected)));
    let all = [
        option::STRUCTURED_REPLY,
        option::SET_META_CONTEXT,
        option::GO,
    ];
    assert_eq!(options, all);
}

#[test]
fn what_a_server_does_not_know_is_done_without() {
    let simple = Talk::greet(1).reply(option::STRUCTURED_REPLY, option_reply::ERR_UNSUP, &[]);
    let (negotiated, options) = simple.go().end(&wish());
    let expected = Negotiated {
        details: DETAILS,
        is_structured: false,
        allocation_context: None,
    };
    assert_eq!(negotiated, Ok(Some(expected)));
    assert_eq!(options, [option::STRUCTURED_REPLY, option::GO]);

    let old = |flags| {
        Talk::greet(flags)
            .reply(option::STRUCTURED_REPLY, option_reply::ERR_UNSUP, &[])
            .reply(option::GO, option_reply::ERR_UNSUP, &[])
    };
    for (flags, zeroes) in [(1, 124), (3, 0)] {
        let mut talk = old(flags);
        talk.said.extend([0, 0, 0, 0, 0, 0, 2, 0, 0, 3]);
        talk.said.resize(talk.said.len() + zeroes, 0);
        let (negotiated, options) = talk.end(&wish());
        let details = negotiated.unwrap().unwrap().details;
        assert_eq!((details.size_bytes, details.flags), (512, 3));
        assert_eq!(details.block_sizes, None);
        assert_eq!(options.last(), Some(&option::EXPORT_NAME));
        talk.said.pop();
        assert_eq!(talk.end(&wish()).0, Ok(None), "zeros included");
    }
}

#[test]
fn an_unknown_export_is_told_with_those_that_there_are() {
    let unknown = || {
        Talk::greet(3)
            .reply(option::STRUCTURED_REPLY, option_reply::ERR_UNSUP, &[])
            .reply(option::GO, option_reply::ERR_UNKNOWN, &[b"no"])
    };
    let mut talk = unknown();
    for name in 0..20_u8 {
        let name = [b'a' + name];
        let parts = [&1_u32.to_be_bytes()[..], &name, b"described"];
        talk = talk.reply(option::LIST, option_reply::SERVER, &parts);
    }
    let talk = talk.reply(option::LIST, option_reply::ACK, &[]);
    let (error, options) = talk.end(&wish());
    assert_eq!(
        error.unwrap_err().to_string(),
        "the server has no export of that name, but 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', \
         'j', 'k', 'l', 'm', 'n', 'o', 'p' and 4 more"
    );
    assert_eq!(options.last(), Some(&option::LIST));
    let silent = unknown().reply(option::LIST, option_reply::ERR_POLICY, &[]);
    assert_eq!(
        silent.error().to_string(),
        "the server has no export of that name"
    );
}

#[test]
fn servers_that_cannot_be_used_are_told_apart() {
    let mut other = Talk {
        said: b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(),
    };
    assert_eq!(other.error(), HandshakeError::NotNbd);
    other.said = GREETING_MAGIC.to_be_bytes().to_vec();
    other.said.extend(OLDSTYLE_MAGIC.to_be_bytes());
    assert_eq!(other.error(), HandshakeError::Oldstyle);
    assert_eq!(Talk::greet(0).error(), HandshakeError::Oldstyle);
    let tls = Talk::greet(3).reply(option::STRUCTURED_REPLY, option_reply::ERR_TLS_REQD, &[]);
    assert_eq!(tls.error(), HandshakeError::TlsRequired);
    let policy = Talk::greet(3)
        .reply(option::STRUCTURED_REPLY, option_reply::ERR_UNSUP, &[])
        .reply(option::GO, option_reply::ERR_POLICY, &[b"not you"]);
    assert_eq!(
        policy.error().to_string(),
        "the server refused to open the export (error 0x80000002): not you"
    );
    let other_option = Talk::greet(3).reply(option::GO, option_reply::ACK, &[]);
    assert!(matches!(other_option.error(), HandshakeError::Protocol(_)));
    let sizes = [&[0, 3, 0, 0, 0, 3][..], &[0; 8]];
    let odd = Talk::greet(3)
        .reply(option::STRUCTURED_REPLY, option_reply::ERR_UNSUP, &[])
        .reply(option::GO, option_reply::INFO, &sizes);
    assert!(odd.error().to_string().contains("block sizes"));
    let empty = Talk::greet(3)
        .reply(option::STRUCTURED_REPLY, option_reply::ERR_UNSUP, &[])
        .reply(option::GO, option_reply::ACK, &[]);
    assert!(matches!(empty.error(), HandshakeError::Protocol(_)));
}

#[test]
fn any_bytes_are_survived() {
    let mut prng = RandomStream::new(1, "handshake", 0);
    let options = [
        option::STRUCTURED_REPLY,
        option::SET_META_CONTEXT,
        option::GO,
        option::LIST,
    ];
    let kinds = [
        1,
        2,
        3,
        4,
        option_reply::ERR_UNSUP,
        option_reply::ERR_UNKNOWN,
    ];
    for _ in 0..2000 {
        let mut talk = Talk::greet(3);
        for at in 0..prng.below(10) {
            let mut data = vec![0; usize::try_from(prng.below(20)).unwrap()];
            for byte in &mut data {
                *byte = u8::try_from(prng.below(4)).unwrap();
            }
            let option = options[usize::try_from((at / 2).min(prng.below(4))).unwrap()];
            let kind = kinds[usize::try_from(prng.below(6)).unwrap()];
            talk = talk.reply(option, kind, &[&data]);
        }
        let choice = prng.next_u64().to_le_bytes()[0];
        talk.said.insert(0, choice);
        fuzz_handshake(&talk.said);
    }
}
