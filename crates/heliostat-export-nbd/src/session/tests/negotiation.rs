//! From the greeting to the first request.

use super::{
    CloseReason, Event, NEGOTIATION_BYTES_MAX, OPTIONS_MAX, OptionHeader, Talk, option,
    transmission,
};

/// What an export that can be written can do, without and with structured replies.
const FLAGS: u16 = 0x0d6d;

fn closes(talk: &mut Talk, text: &str, reason: CloseReason) {
    assert_eq!(talk.says(text), [Event::Close(reason)]);
    assert_eq!(talk.says("00"), [Event::Close(reason)], "it stays closed");
}

#[test]
fn flags_are_those_that_clients_expect() {
    let expected = transmission::HAS_FLAGS
        | transmission::SEND_FLUSH
        | transmission::SEND_FUA
        | transmission::SEND_TRIM
        | transmission::SEND_WRITE_ZEROES
        | transmission::CAN_MULTI_CONN
        | transmission::SEND_CACHE
        | transmission::SEND_FAST_ZERO;
    assert_eq!(expected, FLAGS);
}

#[test]
fn client_flags() {
    for flags in ["00000000", "00000001", "00000002", "00000003"] {
        assert_eq!(Talk::new(1).says(flags), []);
    }
    for flags in ["00000004", "80000001"] {
        closes(&mut Talk::new(1), flags, CloseReason::BadClientFlags);
    }
}

#[test]
fn export_name_opens_or_closes() {
    let mut talk = Talk::new(1);
    talk.says("00000003");
    let events = talk.says("49484156454f5054 00000001 00000001 'a'");
    assert_eq!(events, [Event::Opened { export: 0 }]);
    talk.hears("0000000000100000 0d6d");

    // With the zeros, by the empty name, from a client that declined fixed newstyle.
    let mut talk = Talk::new(1);
    talk.says("00000000");
    let events = talk.says("49484156454f5054 00000001 00000000");
    assert_eq!(events, [Event::Opened { export: 0 }]);
    talk.hears(&("0000000000100000 0d6d".to_owned() + &"00".repeat(124)));

    let mut talk = Talk::new(1);
    talk.says("00000003");
    let events = talk.says("49484156454f5054 00000001 00000002 'bb'");
    assert_eq!(events, [Event::Opened { export: 1 }]);
    talk.hears("0000000000100000 050f");

    for name in ["00000001 'c'", "00000001 ff", "00005000"] {
        let mut talk = Talk::new(1);
        talk.says("00000003");
        let text = "49484156454f5054 00000001 ".to_owned() + name;
        closes(&mut talk, &text, CloseReason::UnknownExport);
        talk.hears("");
    }
}

#[test]
fn options_need_fixed_newstyle_and_their_magic() {
    let mut talk = Talk::new(1);
    talk.says("00000002");
    closes(
        &mut talk,
        "49484156454f5054 00000003 00000000",
        CloseReason::NotFixedNewstyle,
    );
    let mut talk = Talk::new(1);
    talk.says("00000003");
    closes(
        &mut talk,
        "49484156454f5055 00000003 00000000",
        CloseReason::BadOptionMagic,
    );
}

#[test]
fn abort_is_acknowledged() {
    let mut talk = Talk::new(1);
    talk.says("00000003");
    closes(
        &mut talk,
        "49484156454f5054 00000002 00000000",
        CloseReason::Abort,
    );
    talk.hears("0003e889045565a9 00000002 00000001 00000000");
}

#[test]
fn list_names_all_exports() {
    let mut talk = Talk::new(1);
    talk.says("00000003");
    talk.says("49484156454f5054 00000003 00000000");
    talk.hears(
        "0003e889045565a9 00000003 00000002 00000009 00000001 'atext' \
         0003e889045565a9 00000003 00000002 00000006 00000002 'bb' \
         0003e889045565a9 00000003 00000001 00000000",
    );
    talk.says("49484156454f5054 00000003 00000001 00");
    talk.hears("0003e889045565a9 00000003 80000003 0000001d 'The option data is malformed.'");
}

#[test]
fn unknown_options_are_refused_in_sync() {
    for option in ["00000004", "00000005", "0000000b", "7fffffff"] {
        let mut talk = Talk::new(1);
        talk.says("00000003");
        talk.says(&format!("49484156454f5054 {option} 00000003 112233"));
        talk.hears(&format!(
            "0003e889045565a9 {option} 80000001 0000001c 'The option is not supported.'"
        ));
        talk.says("49484156454f5054 00000008 00000000");
        talk.hears("0003e889045565a9 00000008 00000001 00000000");
    }
}

#[test]
fn info_describes_and_go_opens() {
    let info = "0003e889045565a9 OPTION 00000003 0000000c 0000 0000000000100000 0d6d";
    let name = "0003e889045565a9 OPTION 00000003 00000003 0001 'a'";
    let text = "0003e889045565a9 OPTION 00000003 00000006 0002 'text'";
    let sizes = "0003e889045565a9 OPTION 00000003 0000000e 0003 00000001 00001000 02000000";
    let ack = "0003e889045565a9 OPTION 00000001 00000000";
    for (option, events) in [
        ("00000006", vec![]),
        ("00000007", vec![Event::Opened { export: 0 }]),
    ] {
        let mut talk = Talk::new(1);
        talk.says("00000003");
        let asked = talk.says(&format!(
            "49484156454f5054 {option} 0000000d 00000001 'a' 0003 0001 0002 0077"
        ));
        assert_eq!(asked, events);
        talk.hears(
            &[info, name, text, sizes, ack]
                .concat()
                .replace("OPTION", option),
        );

        // Nothing asked for, the default export: size and block sizes all the same.
        let mut talk = Talk::new(1);
        talk.says("00000003");
        let asked = talk.says(&format!("49484156454f5054 {option} 00000006 00000000 0000"));
        assert_eq!(asked, events);
        talk.hears(&[info, sizes, ack].concat().replace("OPTION", option));
    }
}

#[test]
fn what_cannot_be_described() {
    let malformed = "80000003 0000001d 'The option data is malformed.'";
    let unknown = "80000006 00000020 'There is no export of that name.'";
    for (data, reply) in [
        ("00000007 00000001 'c' 0000", unknown),
        ("00000000", malformed),
        ("00000005 00000001 'a'", malformed),
        ("00000006 00000001 'a' 00", malformed),
        ("00000007 00000002 'a' 0000", malformed),
        ("00000009 00000001 'a' 0002 0001", malformed),
        ("00000008 00000001 'a' 0000 00", malformed),
        ("00000007 00000001 ff 0000", malformed),
        ("00000007 00000001 00 0000", malformed),
        ("00000007 ffffffff 'a' 0000", malformed),
    ] {
        for option in ["00000006", "00000007"] {
            let mut talk = Talk::new(1);
            talk.says("00000003");
            assert_eq!(talk.says(&format!("49484156454f5054 {option} {data}")), []);
            talk.hears(&format!("0003e889045565a9 {option} {reply}"));
        }
    }
}

#[test]
fn meta_contexts() {
    let mut talk = Talk::new(1);
    talk.says("00000003");
    talk.says("49484156454f5054 00000009 00000009 00000001 'a' 00000000");
    talk.hears(
        "0003e889045565a9 00000009 80000003 0000002f \
         'Structured replies have to be negotiated first.'",
    );
    talk.says("49484156454f5054 00000008 00000000");
    talk.hears("0003e889045565a9 00000008 00000001 00000000");

    let found = "0003e889045565a9 OPTION 00000004 00000013 CONTEXT 'base:allocation'";
    let ack = "0003e889045565a9 OPTION 00000001 00000000";
    let both = "00000002 00000003 'x:y' 0000000f 'base:allocation'";
    let twice = "00000002 0000000f 'base:allocation' 0000000f 'base:allocation'";
    for (option, query, is_found) in [
        ("00000009", "00000009 00000001 'a' 00000000", true),
        ("0000000a", "00000009 00000001 'a' 00000000", false),
        (
            "00000009",
            "00000012 00000001 'a' 00000001 00000005 'base:'",
            true,
        ),
        (
            "0000000a",
            "00000012 00000001 'a' 00000001 00000005 'base:'",
            false,
        ),
        ("00000009", &format!("00000023 00000001 'a' {both}"), true),
        ("0000000a", &format!("00000023 00000001 'a' {both}"), true),
        ("0000000a", &format!("0000002f 00000001 'a' {twice}"), true),
        (
            "0000000a",
            "00000010 00000001 'a' 00000001 00000003 'x:y'",
            false,
        ),
    ] {
        talk.says(&format!("49484156454f5054 {option} {query}"));
        let found = if is_found { found } else { "" };
        let context = if option == "0000000a" {
            "00000001"
        } else {
            "00000000"
        };
        let reply = [found, ack].concat();
        talk.hears(&reply.replace("OPTION", option).replace("CONTEXT", context));
    }
    for (query, reply) in [
        (
            "00000009 00000001 'c' 00000000",
            "80000006 00000020 'There is no export of that name.'",
        ),
        (
            "0000000a 00000001 'a' 00000000 00",
            "80000003 0000001d 'The option data is malformed.'",
        ),
        (
            "00000009 00000001 'a' ffffffff",
            "80000003 0000001d 'The option data is malformed.'",
        ),
    ] {
        talk.says(&format!("49484156454f5054 0000000a {query}"));
        talk.hears(&format!("0003e889045565a9 0000000a {reply}"));
    }
}

#[test]
fn long_options_are_skipped_in_sync_and_counted() {
    let mut talk = Talk::new(1);
    talk.says("00000003");
    let mut bytes = Vec::new();
    let len_bytes = 20_000;
    let header = OptionHeader {
        option: option::LIST,
        len_bytes,
    };
    header.write(&mut bytes);
    bytes.resize(bytes.len() + 20_000, 0x49);
    let times = NEGOTIATION_BYTES_MAX / len_bytes;
    for _ in 0..times {
        assert_eq!(talk.feed(&bytes), []);
        talk.hears("0003e889045565a9 00000003 80000009 0000001c 'The option data is too long.'");
    }
    let events = talk.feed(&bytes);
    assert_eq!(events, [Event::Close(CloseReason::NegotiationTooLong)]);
}

#[test]
fn options_are_counted() {
    let mut talk = Talk::new(1);
    talk.says("00000003");
    for _ in 0..OPTIONS_MAX {
        assert_eq!(talk.says("49484156454f5054 00000008 00000000"), []);
    }
    closes(
        &mut talk,
        "49484156454f5054 00000008 00000000",
        CloseReason::TooManyOptions,
    );
}

#[test]
fn a_stopping_server_refuses_options_and_hears_goodbye() {
    let mut talk = Talk::new(1);
    talk.says("00000003");
    talk.session.begin_stop();
    talk.says("49484156454f5054 00000007 00000007 00000001 'a' 0000");
    talk.hears("0003e889045565a9 00000007 80000007 00000017 'The server is stopping.'");
    talk.says("49484156454f5054 00000002 00000000");
    talk.hears("0003e889045565a9 00000002 00000001 00000000");
}
