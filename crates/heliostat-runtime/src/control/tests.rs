use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use heliostat_types::Extent;

use super::{ControlRequest, ControlResponse, PolicyChange, REQUEST_BYTES_MAX, ask};
use crate::FineTimes;
use crate::rig::{Job, Rig, memory_options};
use crate::scratch::Scratch;

fn converse(stream: &UnixStream, line: &str) -> String {
    let mut writer = stream;
    writer.write_all(line.as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    answer
}

#[test]
fn requests_are_answered_in_lines() {
    let scratch = Scratch::new();
    let options = memory_options(&scratch);
    // A socket that was left behind.
    options.places.create().unwrap();
    let path = options.places.socket("disk");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());

    let rig = Rig::start(&options).unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let directory = options.places.control.metadata().unwrap();
    assert_eq!(directory.permissions().mode() & 0o777, 0o700);

    let stream = UnixStream::connect(&path).unwrap();
    let shown = converse(&stream, "{\"command\": \"policy\"}\n");
    assert!(shown.starts_with("{\"policy\":\"pid "), "{shown}");
    let set = converse(
        &stream,
        "{\"command\":\"set-policy\",\"policy\":\"queue\"}\n",
    );
    assert_eq!(set, "{\"policy\":\"queue\"}\n");
    let stats = converse(&stream, "{\"command\":\"stats\"}\n");
    assert!(
        stats.starts_with("{\"stats\":{\"name\":\"disk\""),
        "{stats}"
    );
    for wrong in ["\n", "{}\n", "{\"command\":\"explode\"}\n", "[1]\n", "\0\n"] {
        let answer = converse(&stream, wrong);
        assert!(answer.starts_with("{\"error\":\"not a request"), "{answer}");
    }
    let error = converse(
        &stream,
        "{\"command\":\"set-policy\",\"policy\":\"nonsense\"}\n",
    );
    assert!(
        error.starts_with("{\"error\":\"invalid argument"),
        "{error}"
    );
    let long = "x".repeat(usize::try_from(REQUEST_BYTES_MAX).unwrap());
    assert!(converse(&stream, &long).contains("a request is one line"));

    rig.stop();
    assert!(!path.exists());
}

#[test]
fn times_are_told_in_full_where_they_are_asked_for() {
    let scratch = Scratch::new();
    let options = memory_options(&scratch);
    let path = options.places.socket("disk");
    let rig = Rig::start(&options).unwrap();
    for index in 0..5 {
        rig.request(Job::Read(Extent::new(index * 4096, 4096)))
            .unwrap();
    }
    let stats = |fine| match ask(&path, &ControlRequest::Stats { fine }) {
        Ok(ControlResponse::Stats(stats)) => stats,
        told => panic!("{told:?}"),
    };
    assert_eq!(stats(false).requests.fine, None);
    let told = stats(true);
    let counted = |fine: Option<FineTimes>| -> u64 {
        let buckets = fine.unwrap().read_ns;
        buckets.iter().map(|(_, _, count)| count).sum()
    };
    assert_eq!(counted(told.requests.fine), 5);
    assert_eq!(counted(told.clients[0].requests.fine.clone()), 5);
    let legs = told.legs.into_iter().map(|leg| counted(leg.fine));
    assert_eq!(legs.sum::<u64>(), 5);
    rig.stop();
}

#[test]
fn the_program_asks_as_everybody_does() {
    let scratch = Scratch::new();
    let options = memory_options(&scratch);
    let path = options.places.socket("disk");
    let error = ask(&path, &ControlRequest::Stats { fine: false })
        .unwrap_err()
        .to_string();
    assert!(error.contains("nobody listens"), "{error}");
    let rig = Rig::start(&options).unwrap();
    let told = ask(&path, &ControlRequest::Stats { fine: false }).unwrap();
    let ControlResponse::Stats(stats) = told else {
        panic!("{told:?}")
    };
    assert_eq!((stats.name.as_str(), stats.legs.len()), ("disk", 3));
    let wrong = ControlRequest::SetPolicy(PolicyChange {
        policy: "x".to_owned(),
        transient: false,
    });
    assert!(
        ask(&path, &wrong)
            .unwrap_err()
            .to_string()
            .contains("no read policy 'x'")
    );
    rig.stop();
}

#[test]
fn a_file_in_the_place_of_the_socket_is_somebodys() {
    let scratch = Scratch::new();
    let options = memory_options(&scratch);
    options.places.create().unwrap();
    let path = options.places.socket("disk");
    std::fs::write(&path, "precious").unwrap();
    let error = Rig::start(&options).map(drop).unwrap_err().to_string();
    assert!(
        error.contains("no socket is in the way; name another"),
        "{error}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
}
