//! Legs that are exports, with servers that behave and servers that do not.

mod lives;
pub(crate) mod server;

use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::thread;
use std::time::Duration;

use heliostat_nbd::codec::{command, command_flag, transmission};
use heliostat_nbd::uri::ExportUri;
use heliostat_types::{ErrorKind, Extent, LegId, OpKind, Prng as _, RandomStream};

use self::server::{ABLE, Lie, Nature, Server};
use super::dial::Target;
use super::setup::Place;
use crate::tests::bench::{Bench, Scratch, open, range};
use crate::{Arena, IoChoice, LegHub, LegOutcome, LegSpec, OpenedLeg};

const BLOCK: Extent = Extent::new(4096, 4096);
const FLUSH: Extent = Extent::new(0, 0);

fn bench(server: &Server) -> Bench {
    Bench::new(open(&server.uri()), IoChoice::Auto)
}

fn refusal(text: &str) -> String {
    let spec = LegSpec::parse(text).unwrap();
    spec.open().map(drop).unwrap_err().to_string()
}

fn write(bench: &mut Bench, extent: Extent, byte: u8, fua: bool) -> LegOutcome {
    bench.arena.slice_mut(range(0, extent)).fill(byte);
    bench.submit_with(OpKind::Write, extent, 0, |io| io.fua = fua);
    bench.only_outcome()
}

/// The byte that all of an extent is filled with.
fn read(bench: &mut Bench, extent: Extent) -> u8 {
    bench.arena.slice_mut(range(0, extent)).fill(0xee);
    assert_eq!(bench.run(OpKind::Read, extent), LegOutcome::Done);
    let bytes = bench.arena.slice(range(0, extent));
    assert!(bytes.iter().all(|byte| *byte == bytes[0]));
    bytes[0]
}

fn notes(bench: &mut Bench) -> String {
    let notes = bench.hub.take_notes();
    let notes: Vec<String> = notes.into_iter().map(|(_, note)| note).collect();
    notes.join("\n")
}

#[test]
fn what_a_server_says_is_what_a_leg_is() {
    let server = Server::start(Nature {
        size_bytes: (1 << 20) + 700,
        flags: ABLE | transmission::ROTATIONAL,
        block_sizes: Some([1, 65536, u32::MAX]),
        ..Nature::default()
    });
    let leg = open(&server.uri());
    let info = leg.info();
    assert_eq!(info.size_bytes, (1 << 20) + 512, "whole blocks");
    assert_eq!(info.logical_block_bytes, 512);
    assert_eq!(info.physical_block_bytes, 65536);
    assert_eq!(info.optimal_io_bytes, 65536);
    assert_eq!(info.queue_depth, 128);
    assert!(info.rotational && info.fua && info.trim_reads_zeros && info.fast_zero);
    assert!(!info.volatile);
    assert!(
        info.identity
            .starts_with("nbd:1049276:nbd+unix:///disk?socket=/")
    );
    assert!(info.description.contains("over up to 4 connections"));

    server.world().nature = Nature {
        size_bytes: 1 << 20,
        flags: transmission::HAS_FLAGS,
        block_sizes: Some([4096, 4096, 4096]),
        structured: false,
        ..Nature::default()
    };
    let leg = open(&server.uri());
    let info = leg.info();
    assert_eq!(info.logical_block_bytes, 4096);
    assert_eq!(info.queue_depth, 32);
    assert!(!info.rotational && !info.fua && !info.trim_reads_zeros && !info.fast_zero);
    assert!(info.description.contains("one connection; it cannot flush"));
}

#[test]
fn a_leg_that_can_do_little_says_so() {
    let server = Server::start(Nature {
        flags: transmission::HAS_FLAGS,
        structured: false,
        block_sizes: None,
        ..Nature::default()
    });
    let mut bench = bench(&server);
    let refused = LegOutcome::Failed(ErrorKind::NotSupported);
    assert_eq!(bench.run(OpKind::Flush, FLUSH), refused);
    assert_eq!(bench.run(OpKind::Trim, BLOCK), refused);
    assert_eq!(bench.run(OpKind::WriteZeroes, BLOCK), refused);
    assert_eq!(write(&mut bench, BLOCK, 1, true), refused);
    assert_eq!(write(&mut bench, BLOCK, 1, false), LegOutcome::Done);
    assert_eq!(read(&mut bench, BLOCK), 1);
    let LegOutcome::Status(runs) = bench.run(OpKind::BlockStatus, BLOCK) else {
        panic!("a status");
    };
    assert!(runs.len() == 1 && !runs[0].hole && !runs[0].zero);
}

#[test]
fn what_cannot_be_a_leg_is_told_with_the_way_out() {
    let server = Server::start(Nature::default());
    let uri = server.uri();
    let other = uri.replace("disk", "disc");
    let told = refusal(&other);
    assert_eq!(
        told,
        format!(
            "{other} cannot be a leg: the server has no export of that name, but 'disk'; correct \
             the name in the URI, after the '/'"
        )
    );
    let nobody = format!("{uri}x");
    assert_eq!(
        refusal(&nobody),
        format!(
            "{nobody} cannot be a leg: its server cannot be reached (No such file or directory (os \
             error 2)); start the server, or correct the address"
        )
    );
    for (change, told) in [
        (
            (|nature| nature.flags |= transmission::READ_ONLY) as fn(&mut Nature),
            "its server serves it for reading only; let it serve for writing",
        ),
        (
            |nature| nature.block_sizes = Some([8192, 8192, 1 << 20]),
            "its server wants blocks of 8192 bytes at least",
        ),
        (
            |nature| nature.block_sizes = Some([1, 1, 256]),
            "its server takes less than a block of 512 bytes at a time",
        ),
        (
            |nature| nature.size_bytes = 511,
            "it has no block of 512 bytes",
        ),
    ] {
        let mut nature = Nature::default();
        change(&mut nature);
        server.world().nature = nature;
        let refused = refusal(&uri);
        assert!(refused.contains(told), "{refused}");
    }
    server.go_down();
    assert!(refusal(&uri).contains("closed the connection at once"));
}

#[test]
fn servers_that_say_nothing_or_something_else_are_left() {
    let scratch = Scratch::new();
    let path = scratch.path("nbd.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let uri = format!("nbd+unix:///?socket={}", path.display());
    let mut target = Target::new(uri.parse().unwrap());
    target.time_max = Duration::from_millis(50);
    assert_eq!(
        target.dial().unwrap_err().to_string(),
        "its server did not negotiate within 0.05 s"
    );
    let talk = |said: &'static [u8]| {
        let listener = listener.try_clone().unwrap();
        thread::spawn(move || {
            // The one that gave up is still in the queue.
            for stream in listener.incoming().take(1) {
                stream.unwrap().write_all(said).unwrap();
            }
        })
    };
    target.time_max = Duration::from_secs(30);
    drop(listener.accept().unwrap());
    let talking = talk(b"220 mail.example.org ESMTP\r\n");
    let told = target.dial().unwrap_err().to_string();
    assert_eq!(told, "what answers there is no NBD server");
    talking.join().unwrap();
    let talking = talk(b"NBDMAGIC");
    let told = target.dial().unwrap_err().to_string();
    assert_eq!(told, "its server closed the connection at once");
    talking.join().unwrap();
}

#[test]
fn one_server_under_two_names_is_seen() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let place = |host: &str, port: u16, export: &str| {
        let uri: ExportUri = format!("nbd://{host}:{port}/{export}").parse().unwrap();
        Place::of(&Target::new(uri.clone()), &uri)
    };
    let one = place("localhost", port, "a");
    assert!(one.is_same(&place("127.0.0.1", port, "a")));
    assert!(!one.is_same(&place("127.0.0.1", port, "b")));
    assert!(!one.is_same(&place("127.0.0.1", port ^ 1, "a")));
    assert!(!one.is_same(&place("127.0.0.2", port, "a")));
}

#[test]
fn the_same_export_twice_is_refused() {
    let server = Server::start(Nature::default());
    let legs = [open(&server.uri()), open(&server.uri())];
    let refused = OpenedLeg::expect_distinct(&legs).unwrap_err().to_string();
    assert!(refused.contains("it is the same leg twice"), "{refused}");
    let other = Server::start(Nature::default());
    let [leg, _] = legs;
    OpenedLeg::expect_distinct(&[leg, open(&other.uri())]).unwrap();
}

#[test]
fn setup_reads_and_writes_at_any_alignment() {
    let server = Server::start(Nature::default());
    let leg = open(&server.uri());
    let data: Vec<u8> = (0..3_000_000u32)
        .map(|at| at.to_le_bytes()[0] ^ 0x5a)
        .collect();
    leg.write_at(12_345, &data).unwrap();
    leg.sync().unwrap();
    let mut read = vec![1; data.len() + 2];
    leg.read_at(12_344, &mut read).unwrap();
    assert_eq!(read[0], 0);
    assert!(read[1..=data.len()] == data);
    assert_eq!(read[data.len() + 1], 0);
    assert!(leg.read_at(8 << 20, &mut [0]).is_err());
    let runs: Vec<Extent> = leg.data_runs(0).collect::<Result<_, _>>().unwrap();
    assert_eq!(runs, [Extent::from_range(12_288, 3_014_656)]);
}

#[test]
fn large_operations_are_cut_and_zeros_say_how() {
    let server = Server::start(Nature::default());
    let mut bench = bench(&server);
    let large = Extent::new(1 << 20, (2 << 20) + 4096);
    assert_eq!(write(&mut bench, large, 9, false), LegOutcome::Done);
    assert_eq!(read(&mut bench, large), 9);
    server.world().requests.clear();
    bench.submit_with(OpKind::WriteZeroes, large, 0, |io| io.may_trim = false);
    assert_eq!(bench.only_outcome(), LegOutcome::Done);
    assert_eq!(bench.run(OpKind::WriteZeroes, large), LegOutcome::Done);
    assert_eq!(bench.run(OpKind::Trim, large), LegOutcome::Done);
    let requests = std::mem::take(&mut server.world().requests);
    // Not those by which further connections find out whom they lead to.
    let zeros = requests
        .iter()
        .filter(|request| request.command == command::WRITE_ZEROES);
    let flags: Vec<u16> = zeros.map(|request| request.flags).collect();
    assert_eq!(flags, [command_flag::NO_HOLE, 0, command_flag::FAST_ZERO]);
}

#[test]
fn errors_of_the_server_are_errors_of_the_operation() {
    let server = Server::start(Nature::default());
    let mut bench = bench(&server);
    for (number, kind) in [
        (5, ErrorKind::Io),
        (28, ErrorKind::NoSpace),
        (95, ErrorKind::NotSupported),
        (1, ErrorKind::ReadOnly),
        (u32::MAX, ErrorKind::Io),
    ] {
        server.world().nature.error = Some((command::WRITE, number));
        let failed = LegOutcome::Failed(kind);
        assert_eq!(write(&mut bench, BLOCK, 1, false), failed);
    }
    assert_eq!(read(&mut bench, BLOCK), 0);
}

#[test]
fn a_lost_connection_is_made_again_and_nothing_is_missed() {
    let server = Server::start(Nature::default());
    let mut bench = bench(&server);
    assert_eq!(write(&mut bench, BLOCK, 7, true), LegOutcome::Done);
    // In flight, then nobody is there for a while.
    server.world().nature.silent = Some(command::READ);
    bench.arena.slice_mut(range(0, BLOCK)).fill(0);
    bench.submit(OpKind::Read, BLOCK, 0);
    bench.hub.kick();
    server.go_down();
    let mut told = String::new();
    while !told.contains("not connected yet") {
        bench.wait();
        let mut done = Vec::new();
        bench.hub.reap(bench.now, &mut done);
        assert!(done.is_empty());
        told += &notes(&mut bench);
    }
    assert!(
        told.contains("operations that wait for the next one: 1"),
        "{told}"
    );
    // Handed in meanwhile.
    bench.submit_with(OpKind::Write, Extent::new(0, 512), 8192, |io| io.fua = true);
    server.world().nature.silent = None;
    server.come_back();
    assert_eq!(bench.finish().len(), 2);
    assert!(
        bench
            .arena
            .slice(range(0, BLOCK))
            .iter()
            .all(|&byte| byte == 7)
    );
    assert!(notes(&mut bench).contains("connected again; operations that are sent anew: 2"));
}

#[test]
fn what_is_to_fail_fast_does_not_wait_for_another_connection() {
    let server = Server::start(Nature::default());
    let mut bench = bench(&server);
    assert_eq!(write(&mut bench, BLOCK, 7, true), LegOutcome::Done);
    server.world().nature.silent = Some(command::READ);
    bench.submit_with(OpKind::Read, BLOCK, 0, |io| io.failfast = true);
    bench.hub.kick();
    server.go_down();
    let failed = LegOutcome::Failed(ErrorKind::Io);
    assert_eq!(bench.only_outcome(), failed);
    // Handed in meanwhile.
    bench.submit_with(OpKind::Write, BLOCK, 0, |io| io.failfast = true);
    assert_eq!(bench.only_outcome(), failed);
    // What may be late is done when the server is back.
    bench.submit(OpKind::Read, BLOCK, 0);
    server.world().nature.silent = None;
    server.come_back();
    assert_eq!(bench.only_outcome(), LegOutcome::Done);
    assert_eq!(read(&mut bench, BLOCK), 7);
}

#[test]
fn a_change_that_failed_fast_is_never_done_late() {
    // One connection: the change is not on another one that is only being made.
    let server = Server::start(Nature {
        flags: ABLE & !transmission::CAN_MULTI_CONN,
        ..Nature::default()
    });
    let mut bench = bench(&server);
    server.world().nature.silent = Some(command::WRITE);
    bench.submit_with(OpKind::Write, BLOCK, 0, |io| io.failfast = true);
    bench.hub.kick();
    server.break_connections();
    assert_eq!(bench.only_outcome(), LegOutcome::Lost);
    let told = notes(&mut bench);
    assert!(told.contains("it is to fail fast"), "{told}");
    let failed = LegOutcome::Failed(ErrorKind::Io);
    assert_eq!(bench.run(OpKind::Read, BLOCK), failed);
}

#[test]
fn connections_that_break_anywhere_lose_and_repeat_nothing() {
    let mut prng = RandomStream::new(1, "cuts", 0);
    for (structured, disorderly) in [(true, true), (true, false), (false, false)] {
        let server = Server::start(Nature {
            structured,
            disorderly,
            flags: ABLE & !transmission::CAN_MULTI_CONN,
            ..Nature::default()
        });
        let mut bench = bench(&server);
        let cuts: Vec<usize> = (0..6)
            .map(|_| usize::try_from(prng.below(100_000)).unwrap())
            .collect();
        server.world().cuts.extend(&cuts);
        server.break_connections();
        let mut expected = [0_u8; 16];
        for round in 1..=20 {
            // Slots of 64 KiB each, half of them written and half read.
            let mut writes = Vec::new();
            for slot in 0..16_u64 {
                let index = usize::try_from(slot).unwrap();
                let extent = Extent::new(slot << 16, 16 << 10);
                let memory = bench.arena.slice_mut(range(index << 16, extent));
                if prng.below(2) == 0 {
                    memory.fill(round);
                    writes.push(index);
                    bench.submit_with(OpKind::Write, extent, index << 16, |io| io.fua = true);
                } else {
                    memory.fill(0xee);
                    bench.submit(OpKind::Read, extent, index << 16);
                }
            }
            let done = bench.finish();
            assert!(done.iter().all(|done| done.outcome == LegOutcome::Done));
            for (index, expected) in expected.iter_mut().enumerate() {
                if writes.contains(&index) {
                    *expected = round;
                }
                let extent = Extent::new(0, 16 << 10);
                let bytes = bench.arena.slice(range(index << 16, extent));
                assert!(bytes.iter().all(|byte| byte == expected));
            }
        }
        assert!(server.world().cuts.is_empty(), "all of them happened");
    }
}

#[test]
fn a_server_that_may_have_lost_writes_is_lost() {
    let server = Server::start(Nature::default());
    let mut bench = bench(&server);
    assert_eq!(write(&mut bench, BLOCK, 1, false), LegOutcome::Done);
    assert_eq!(bench.run(OpKind::Flush, FLUSH), LegOutcome::Done);
    assert_eq!(write(&mut bench, BLOCK, 2, false), LegOutcome::Done);
    server.go_down();
    server.lose_cache();
    server.come_back();
    // It holds 1 now: neither a read nor a flush may pass for one of what was answered.
    assert_eq!(bench.run(OpKind::Read, BLOCK), LegOutcome::Lost);
    let failed = LegOutcome::Failed(ErrorKind::Io);
    assert_eq!(bench.run(OpKind::Flush, FLUSH), failed);
    assert_eq!(bench.run(OpKind::Read, BLOCK), failed);
    let told = notes(&mut bench);
    assert!(told.contains("not flushed (1 of them)"), "{told}");
    assert_eq!(server.world().bytes[4096], 1);
}

#[test]
fn a_flush_that_was_not_answered_covers_nothing() {
    let server = Server::start(Nature::default());
    let mut bench = bench(&server);
    assert_eq!(write(&mut bench, BLOCK, 1, false), LegOutcome::Done);
    server.world().nature.silent = Some(command::FLUSH);
    bench.submit(OpKind::Flush, FLUSH, 0);
    bench.hub.kick();
    server.break_connections();
    assert_eq!(bench.only_outcome(), LegOutcome::Lost);
}

#[test]
fn a_write_after_the_flush_was_sent_is_not_covered_by_it() {
    let server = Server::start(Nature {
        flags: ABLE & !transmission::CAN_MULTI_CONN,
        disorderly: true,
        ..Nature::default()
    });
    let mut bench = bench(&server);
    bench.submit(OpKind::Flush, FLUSH, 0);
    bench.submit(OpKind::Write, BLOCK, 0);
    assert_eq!(bench.finish().len(), 2);
    server.break_connections();
    assert_eq!(bench.run(OpKind::Read, BLOCK), LegOutcome::Lost);
}

#[test]
fn a_server_that_cannot_flush_is_lost_once_it_was_written_to() {
    let server = Server::start(Nature {
        flags: transmission::HAS_FLAGS,
        ..Nature::default()
    });
    let mut bench = bench(&server);
    assert_eq!(read(&mut bench, BLOCK), 0);
    server.break_connections();
    assert_eq!(read(&mut bench, BLOCK), 0);
    assert_eq!(write(&mut bench, BLOCK, 1, false), LegOutcome::Done);
    server.break_connections();
    assert_eq!(bench.run(OpKind::Read, BLOCK), LegOutcome::Lost);
}

#[test]
fn a_server_that_comes_back_as_another_is_lost() {
    for (change, told) in [
        (
            (|nature| nature.size_bytes -= 512) as fn(&mut Nature),
            "with 8388096 bytes instead of 8388608",
        ),
        (|nature| nature.flags ^= 4, "with other abilities"),
        (
            |nature| nature.structured = false,
            "speaking another dialect",
        ),
        (
            |nature| nature.block_sizes = Some([512, 4096, 65536]),
            "speaking another dialect",
        ),
    ] {
        let server = Server::start(Nature::default());
        let mut bench = bench(&server);
        change(&mut server.world().nature);
        server.break_connections();
        assert_eq!(bench.run(OpKind::Read, BLOCK), LegOutcome::Lost);
        let notes = notes(&mut bench);
        assert!(notes.contains(told), "{notes}");
    }
}

#[test]
fn a_server_that_forgot_what_it_had_flushed_is_lost() {
    let server = Server::start(Nature::default());
    let mut bench = bench(&server);
    assert_eq!(write(&mut bench, BLOCK, 1, false), LegOutcome::Done);
    assert_eq!(bench.run(OpKind::Flush, FLUSH), LegOutcome::Done);
    server.go_down();
    server.come_back();
    assert_eq!(read(&mut bench, BLOCK), 1);
    server.go_down();
    server.world().bytes.fill(0);
    server.come_back();
    assert_eq!(bench.run(OpKind::Read, BLOCK), LegOutcome::Lost);
    let notes = notes(&mut bench);
    assert!(
        notes.contains("has forgotten bytes 4096 to 8191"),
        "{notes}"
    );
}

#[test]
fn what_was_read_before_the_array_was_served_is_known_too() {
    let server = Server::start(Nature::default());
    server.world().bytes[700] = 1;
    let leg = open(&server.uri());
    leg.read_at(0, &mut [0; 8192]).unwrap();
    let mut bench = Bench::new(leg, IoChoice::Auto);
    server.go_down();
    server.world().bytes.fill(0);
    server.come_back();
    assert_eq!(bench.run(OpKind::Read, BLOCK), LegOutcome::Lost);
}

#[test]
fn a_server_that_takes_little_at_a_time_is_asked_for_little() {
    let server = Server::start(Nature {
        block_sizes: Some([512, 512, 1024]),
        ..Nature::default()
    });
    let mut bench = bench(&server);
    assert_eq!(write(&mut bench, BLOCK, 1, true), LegOutcome::Done);
    server.break_connections();
    assert_eq!(read(&mut bench, BLOCK), 1);
}

#[test]
fn a_server_may_have_what_was_in_flight_or_not() {
    let server = Server::start(Nature::default());
    let mut bench = bench(&server);
    assert_eq!(write(&mut bench, BLOCK, 1, true), LegOutcome::Done);
    // Carried out, and not answered.
    for is_done in [true, false] {
        server.world().nature.silent = Some(command::WRITE);
        bench.arena.slice_mut(range(0, BLOCK)).fill(2);
        bench.submit_with(OpKind::Write, BLOCK, 0, |io| io.fua = true);
        bench.hub.kick();
        server.go_down();
        if is_done {
            server.world().bytes[4096..8192].fill(2);
        }
        server.world().nature.silent = None;
        server.come_back();
        assert_eq!(bench.only_outcome(), LegOutcome::Done);
        assert_eq!(read(&mut bench, BLOCK), 2);
    }
}

#[test]
fn a_server_that_lies_is_lost_and_touches_no_other_memory() {
    let lies = [
        (OpKind::Flush, Lie::WrongMagic, "begins with a wrong number"),
        (OpKind::Flush, Lie::WrongCookie, "a reply to nothing"),
        (OpKind::Flush, Lie::Twice, "a reply to nothing"),
        (OpKind::Read, Lie::TooMuch, "data that was not asked for"),
        (OpKind::Read, Lie::TooLittle, "with bytes missing"),
    ];
    for (kind, lie, told) in lies {
        let server = Server::start(Nature {
            flags: ABLE & !transmission::CAN_MULTI_CONN,
            lie: Some((0, lie)),
            ..Nature::default()
        });
        let mut bench = bench(&server);
        let around = Extent::new(0, 3 * 4096);
        bench.arena.slice_mut(range(0, around)).fill(0x11);
        let extent = if kind == OpKind::Read { BLOCK } else { FLUSH };
        bench.submit(kind, extent, 4096);
        let outcome = bench.only_outcome();
        if matches!(lie, Lie::Twice) {
            assert_eq!(outcome, LegOutcome::Done);
            assert_eq!(bench.run(OpKind::Flush, FLUSH), LegOutcome::Lost);
        } else {
            assert_eq!(outcome, LegOutcome::Lost);
        }
        let notes = notes(&mut bench);
        assert!(notes.contains(told), "{notes}");
        let bytes = bench.arena.slice(range(0, around));
        let outside = bytes[..4096].iter().chain(&bytes[8192..]);
        assert!(outside.copied().all(|byte| byte == 0x11));
    }
}

#[test]
fn a_server_that_shuts_down_is_asked_again_later() {
    let server = Server::start(Nature {
        error: Some((command::READ, 108)),
        ..Nature::default()
    });
    let mut bench = bench(&server);
    bench.submit(OpKind::Read, BLOCK, 0);
    let mut told = String::new();
    while !told.contains("the server is shutting down") {
        bench.hub.kick();
        bench.wait();
        let mut done = Vec::new();
        bench.hub.reap(bench.now, &mut done);
        assert!(done.is_empty());
        told += &notes(&mut bench);
    }
    server.world().nature.error = None;
    assert_eq!(bench.only_outcome(), LegOutcome::Done);
}

#[test]
fn several_connections_share_the_work_and_stand_in_for_each_other() {
    let server = Server::start(Nature::default());
    let uri = server.uri() + "&x-connections=3";
    let mut bench = Bench::new(open(&uri), IoChoice::Auto);
    while server.world().connection_count < 3 {
        bench.wait();
        assert_eq!(bench.run(OpKind::Read, BLOCK), LegOutcome::Done);
    }
    // One that breaks is replaced.
    server.world().cuts.push_back(0);
    server.break_connections();
    for _ in 0..32 {
        assert_eq!(read(&mut bench, BLOCK), 0);
    }
    let server = Server::start(Nature::default());
    let single = server.uri() + "&x-connections=1";
    let mut bench = Bench::new(open(&single), IoChoice::Auto);
    assert_eq!(read(&mut bench, BLOCK), 0);
    let count = server.world().connection_count;
    assert_eq!(count, 1);
}

#[test]
fn a_retired_leg_gives_its_memory_back_at_once() {
    let server = Server::start(Nature {
        silent: Some(command::READ),
        ..Nature::default()
    });
    let mut bench = bench(&server);
    for at in 0..4 {
        bench.submit(OpKind::Read, BLOCK, at << 12);
    }
    bench.hub.kick();
    let mut done = Vec::new();
    bench.hub.reap(bench.now, &mut done);
    assert!(done.is_empty());
    bench.hub.retire(LegId::new(0));
    assert!(bench.hub.has_ready());
    let done = bench.finish();
    let failed = LegOutcome::Failed(ErrorKind::Io);
    assert!(done.len() == 4 && done.iter().all(|done| done.outcome == failed));
    assert_eq!(bench.run(OpKind::Read, BLOCK), failed);
    assert_eq!(notes(&mut bench), "");
}

#[test]
fn a_leg_that_is_retired_while_nobody_is_there_gives_its_memory_back_too() {
    let server = Server::start(Nature::default());
    let mut bench = bench(&server);
    server.go_down();
    bench.submit(OpKind::Read, BLOCK, 0);
    bench.hub.kick();
    while !notes(&mut bench).contains("operations that wait for the next one") {
        bench.wait();
        let mut done = Vec::new();
        bench.hub.reap(bench.now, &mut done);
        assert!(done.is_empty());
    }
    bench.hub.retire(LegId::new(0));
    let failed = LegOutcome::Failed(ErrorKind::Io);
    assert_eq!(bench.only_outcome(), failed);
    server.come_back();
    assert_eq!(bench.run(OpKind::Read, BLOCK), failed);
}

#[test]
fn a_server_is_told_goodbye() {
    let server = Server::start(Nature {
        flags: ABLE & !transmission::CAN_MULTI_CONN,
        ..Nature::default()
    });
    let arena = Arena::new(1 << 20).unwrap();
    let hub = LegHub::new(vec![open(&server.uri())], arena, IoChoice::Auto).unwrap();
    assert_eq!(hub.backend(), "sockets");
    drop(hub);
    assert_eq!(server.stop().lock().unwrap().goodbye_count, 1);
}
