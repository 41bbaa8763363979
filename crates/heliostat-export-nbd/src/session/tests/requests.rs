//! Requests and replies.

use super::{
    CloseReason, ErrorKind, Event, Extent, PAYLOAD_BYTES_MAX, Reply, Request, SIZE_BYTES,
    StatusRun, Tag, Talk, WRITE_SKIP_BYTES_MAX, command, command_flag,
};

const FUA: u16 = command_flag::FUA;

fn asked(request: Request) -> Vec<Event> {
    vec![Event::Request {
        tag: Tag(0),
        request,
    }]
}

/// The error number and message of the one reply that was heard.
fn heard_error(talk: &mut Talk) -> (u32, String) {
    let output = std::mem::take(&mut talk.output);
    let word = |at: usize| u32::from_be_bytes(output[at..at + 4].try_into().unwrap());
    assert_eq!(output[8..16], 0xc00c_1e00_u64.to_be_bytes());
    if word(0) == 0x6744_6698 {
        assert_eq!(output.len(), 16);
        return (word(4), String::new());
    }
    assert_eq!((word(0), word(4)), (0x668e_33ef, 0x0001_8001));
    let message_len = u16::from_be_bytes(output[24..26].try_into().unwrap());
    assert_eq!(word(16), 6 + u32::from(message_len));
    assert_eq!(output.len(), 26 + usize::from(message_len));
    let message = String::from_utf8(output[26..].to_vec()).unwrap();
    (word(20), message)
}

#[test]
fn each_command_becomes_a_request() {
    let extent = Extent::new(512, 100);
    let trim = Request::Trim { extent, fua: false };
    let zeroes = |fua, may_trim, fast_only| Request::WriteZeroes {
        extent,
        fua,
        may_trim,
        fast_only,
    };
    for (command, flags, request) in [
        (command::READ, 0, Request::Read { extent }),
        (command::READ, FUA, Request::Read { extent }),
        (command::READ, command_flag::DF, Request::Read { extent }),
        (command::WRITE, 0, Request::Write { extent, fua: false }),
        (command::WRITE, FUA, Request::Write { extent, fua: true }),
        (command::TRIM, 0, trim),
        (command::TRIM, FUA, Request::Trim { extent, fua: true }),
        (command::WRITE_ZEROES, 0, zeroes(false, true, false)),
        (command::WRITE_ZEROES, FUA, zeroes(true, true, false)),
        (
            command::WRITE_ZEROES,
            command_flag::NO_HOLE,
            zeroes(false, false, false),
        ),
        (
            command::WRITE_ZEROES,
            command_flag::FAST_ZERO,
            zeroes(false, true, true),
        ),
        (command::BLOCK_STATUS, 0, Request::BlockStatus { extent }),
        (
            command::BLOCK_STATUS,
            command_flag::REQ_ONE,
            Request::BlockStatus { extent },
        ),
    ] {
        let mut talk = Talk::open(true);
        assert_eq!(
            talk.asks(command, flags, 512, 100),
            asked(request),
            "{command} {flags}"
        );
        talk.hears("");
    }
    for flags in [0, FUA] {
        let events = Talk::open(true).asks(command::FLUSH, flags, 0, 0);
        assert_eq!(events, asked(Request::Flush));
    }
}

#[test]
fn what_is_wrong_is_named() {
    const EPERM: u32 = 1;
    const EINVAL: u32 = 22;
    const ENOSPC: u32 = 28;
    let whole = u32::try_from(SIZE_BYTES).unwrap();
    for (command, flags, offset, len, error) in [
        // Beyond the end.
        (command::READ, 0, 0, whole + 1, EINVAL),
        (command::READ, 0, SIZE_BYTES, 1, EINVAL),
        (command::READ, 0, u64::MAX, 1, EINVAL),
        (command::WRITE, 0, SIZE_BYTES - 1, 2, ENOSPC),
        (command::WRITE, 0, u64::MAX, 2, ENOSPC),
        (command::WRITE_ZEROES, 0, SIZE_BYTES - 1, 2, ENOSPC),
        (command::WRITE_ZEROES, 0, 0, u32::MAX, ENOSPC),
        (command::TRIM, 0, SIZE_BYTES, 2, EINVAL),
        (command::CACHE, 0, SIZE_BYTES, 2, EINVAL),
        (command::BLOCK_STATUS, 0, SIZE_BYTES, 2, EINVAL),
        // Nothing, at a place that does not exist; and the status of nothing.
        (command::READ, 0, SIZE_BYTES + 1, 0, EINVAL),
        (command::WRITE, 0, SIZE_BYTES + 1, 0, ENOSPC),
        (command::BLOCK_STATUS, 0, 0, 0, EINVAL),
        // Too large.
        (command::READ, 0, 0, PAYLOAD_BYTES_MAX + 1, EINVAL),
        (
            command::READ,
            command_flag::DF,
            0,
            PAYLOAD_BYTES_MAX + 1,
            EINVAL,
        ),
        (command::WRITE, 0, 0, PAYLOAD_BYTES_MAX + 1, EINVAL),
        // Flags that are not for this command, or not known.
        (command::READ, command_flag::NO_HOLE, 0, 512, EINVAL),
        (command::WRITE, command_flag::DF, 0, 512, EINVAL),
        (command::WRITE, command_flag::FAST_ZERO, 0, 512, EINVAL),
        (command::FLUSH, command_flag::REQ_ONE, 0, 0, EINVAL),
        (command::TRIM, command_flag::NO_HOLE, 0, 512, EINVAL),
        (command::CACHE, command_flag::DF, 0, 512, EINVAL),
        (command::WRITE_ZEROES, command_flag::REQ_ONE, 0, 512, EINVAL),
        (command::BLOCK_STATUS, command_flag::DF, 0, 512, EINVAL),
        (command::READ, 1 << 5, 0, 512, EINVAL),
        (command::WRITE, 1 << 15, 0, 512, EINVAL),
        // A flush of a place, and commands that are not known.
        (command::FLUSH, 0, 512, 0, EINVAL),
        (command::FLUSH, 0, 0, 512, EINVAL),
        (8, 0, 0, 512, EINVAL),
        (u16::MAX, 0, 0, 512, EINVAL),
    ] {
        for structured in [false, true] {
            let mut talk = Talk::open(structured);
            assert_eq!(
                talk.asks(command, flags, offset, len),
                [],
                "{command} {flags} {len}"
            );
            let (heard, message) = heard_error(&mut talk);
            assert_eq!(heard, error, "{command} {flags} {offset} {len}");
            assert_eq!(message.is_empty(), !structured);
            // The connection lives.
            let events = talk.asks(command::FLUSH, 0, 0, 0);
            assert_eq!(events, asked(Request::Flush));
        }
    }
    for command in [command::WRITE, command::TRIM, command::WRITE_ZEROES] {
        let mut talk = Talk::new(1);
        talk.says("00000003");
        talk.says("49484156454f5054 00000001 00000002 'bb'");
        talk.output.clear();
        assert_eq!(talk.asks(command, 0, 0, 512), []);
        assert_eq!(heard_error(&mut talk).0, EPERM);
    }
}

#[test]
fn flags_of_structured_replies_need_them() {
    for (command, flags) in [
        (command::READ, command_flag::DF),
        (command::BLOCK_STATUS, 0),
    ] {
        let mut talk = Talk::open(false);
        assert_eq!(talk.asks(command, flags, 0, 512), []);
        assert_eq!(heard_error(&mut talk).0, 22);
    }
    // A context that was chosen for another export counts for nothing.
    let mut talk = Talk::new(1);
    talk.says("00000003 49484156454f5054 00000008 00000000");
    talk.says(
        "49484156454f5054 0000000a 0000001d \
         00000002 'bb' 00000001 0000000f 'base:allocation'",
    );
    talk.says("49484156454f5054 00000007 00000007 00000001 'a' 0000");
    talk.output.clear();
    assert_eq!(talk.asks(command::BLOCK_STATUS, 0, 0, 512), []);
    assert_eq!(heard_error(&mut talk).0, 22);
}

#[test]
fn nothing_and_hints_are_done_at_once() {
    let simple = "67446698 00000000 00000000c00c1e00";
    for (command, len) in [
        (command::WRITE, 0),
        (command::TRIM, 0),
        (command::WRITE_ZEROES, 0),
        (command::CACHE, 0),
        (command::CACHE, 4096),
    ] {
        for structured in [false, true] {
            let mut talk = Talk::open(structured);
            assert_eq!(talk.asks(command, 0, 512, len), []);
            talk.hears(simple);
        }
    }
    let mut talk = Talk::open(false);
    assert_eq!(talk.asks(command::READ, 0, SIZE_BYTES, 0), []);
    talk.hears(simple);
    let mut talk = Talk::open(true);
    assert_eq!(talk.asks(command::READ, 0, SIZE_BYTES, 0), []);
    talk.hears("668e33ef 0001 0000 00000000c00c1e00 00000000");
}

#[test]
fn replies_in_both_forms() {
    for (structured, data, error) in [
        (
            false,
            "67446698 00000000 00000000c00c1e00",
            "67446698 00000005 00000000c00c1e00",
        ),
        (
            true,
            "668e33ef 0001 0001 00000000c00c1e00 00000064 + 8 0000000000000200",
            "668e33ef 0001 8001 00000000c00c1e00 00000019 00000005 0013 'No leg could do it.'",
        ),
    ] {
        let mut talk = Talk::open(structured);
        talk.asks(command::READ, 0, 512, 100);
        talk.session
            .reply(Tag(0), Ok(Reply::Data), &mut talk.output);
        talk.hears(&data.replace("00000064 + 8", "0000006c"));
        talk.asks(command::READ, 0, 512, 100);
        talk.session
            .reply(Tag(0), Err(ErrorKind::Io), &mut talk.output);
        talk.hears(error);
        talk.asks(command::FLUSH, 0, 0, 0);
        talk.session
            .reply(Tag(0), Ok(Reply::Done), &mut talk.output);
        talk.hears("67446698 00000000 00000000c00c1e00");
    }
}

#[test]
fn status_is_clipped_to_what_was_asked() {
    let run = |len_bytes, hole, zero| StatusRun {
        len_bytes,
        hole,
        zero,
    };
    let runs = [
        run(512, false, false),
        run(256, true, true),
        run(1 << 40, false, true),
        run(512, true, false),
    ];
    let mut talk = Talk::open(true);
    talk.asks(command::BLOCK_STATUS, 0, 0, 1024);
    talk.session
        .reply(Tag(0), Ok(Reply::Status(&runs)), &mut talk.output);
    talk.hears(
        "668e33ef 0001 0005 00000000c00c1e00 0000001c 00000001 \
         00000200 00000000 00000100 00000003 00000100 00000002",
    );
    talk.asks(command::BLOCK_STATUS, command_flag::REQ_ONE, 0, 1024);
    talk.session
        .reply(Tag(0), Ok(Reply::Status(&runs)), &mut talk.output);
    talk.hears("668e33ef 0001 0005 00000000c00c1e00 0000000c 00000001 00000200 00000000");
}

#[test]
fn a_full_session_waits_and_cookies_may_repeat() {
    let mut talk = Talk::open(false);
    let mut tags = Vec::new();
    for _ in 0..4 {
        for event in talk.asks(command::READ, 0, 0, 8) {
            let Event::Request { tag, .. } = event else {
                panic!("{event:?}");
            };
            assert!(!tags.contains(&tag));
            tags.push(tag);
        }
    }
    assert_eq!(talk.asks(command::READ, 0, 0, 8), [Event::Full]);
    assert_eq!(talk.asks(command::DISC, 0, 0, 0), [Event::Full]);
    for tag in tags {
        talk.session.reply(
            tag,
            Ok(Reply::Done).and(Err(ErrorKind::Io)),
            &mut talk.output,
        );
    }
    assert_eq!(talk.session.in_flight(), 0);
    assert_eq!(talk.output.len(), 4 * 16);
}

#[test]
fn what_ends_a_connection() {
    let mut talk = Talk::open(false);
    let events = talk.asks(command::DISC, 0, 0, 0);
    assert_eq!(events, [Event::Close(CloseReason::Disconnect)]);

    let mut talk = Talk::open(false);
    let zeros = "00".repeat(28);
    let events = talk.says(&zeros);
    assert_eq!(events, [Event::Close(CloseReason::BadRequestMagic)]);

    // Whatever is wrong with it, a payload that nobody would send is not waited for.
    let too_long = WRITE_SKIP_BYTES_MAX + 1;
    let mut talk = Talk::open(false);
    let header = format!("25609513 0000 0001 {:016x} {:016x} {too_long:08x}", 1, 0);
    let events = talk.says(&header);
    assert_eq!(events, [Event::Close(CloseReason::PayloadTooLong)]);
    talk.hears("");
}

#[test]
fn a_refused_payload_is_skipped_before_the_reply() {
    let mut talk = Talk::open(false);
    talk.says("25609513 0020 0001 0000000000000007 0000000000000000 00000004 ");
    talk.says("aabbcc");
    talk.hears("");
    talk.says("dd");
    talk.hears("67446698 00000016 0000000000000007");
}

#[test]
fn a_stopping_server_says_so() {
    let mut talk = Talk::open(false);
    talk.session.begin_stop();
    assert_eq!(talk.asks(command::WRITE, 0, 0, 512), []);
    assert_eq!(heard_error(&mut talk).0, 108);
    let events = talk.asks(command::DISC, 0, 0, 0);
    assert_eq!(events, [Event::Close(CloseReason::Disconnect)]);
}
