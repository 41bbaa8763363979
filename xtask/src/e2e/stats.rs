//! What is told of clients and legs while they are served.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Test;
use super::fio;
use super::legs;
use super::room::Room;
use super::server::{NAME, Server};
use crate::process::{self, Background};

pub(super) const TESTS: &[Test] = &[
    Test {
        name: "stats",
        about: "counts of clients and legs, and that they add up",
        run: stats,
    },
    Test {
        name: "stats_clients",
        about: "two clients are told apart, also when they have gone",
        run: clients,
    },
    Test {
        name: "stats_reset",
        about: "statistics begin anew, of one leg and of everything, under fio as well",
        run: reset,
    },
    Test {
        name: "stats_late",
        about: "a request that a stuck leg keeps is late while it waits, and after",
        run: late,
    },
    Test {
        name: "stats_off",
        about: "with --no-accounting nothing is counted, and that is said",
        run: off,
    },
];

/// How long a client may take to be seen.
const SEEN_TIME_MAX: Duration = Duration::from_secs(30);

fn json(server: &Server<'_>) -> Result<Value> {
    let text = server.control(&["stats", NAME, "--json"])?;
    ensure!(text.lines().count() == 1, "not one object: {text}");
    serde_json::from_str(&text).context("stats --json")
}

fn number(value: &Value, key: &str) -> Result<u64> {
    value[key]
        .as_u64()
        .with_context(|| format!("{key} of {value}"))
}

fn sum(of: &Value, key: &str) -> Result<u64> {
    let all = of.as_array().context("no list")?;
    all.iter().map(|each| number(each, key)).sum()
}

/// Writes and reads 4 KiB so often, one after the other.
fn ask(room: &Room, uri: &str, writes: usize, reads: usize) -> Result<()> {
    let mut arguments = vec!["-f", "raw"];
    arguments.extend(["-c", "write 0 4k"].repeat(writes));
    arguments.extend(["-c", "read 0 4k"].repeat(reads));
    arguments.push(uri);
    room.run("qemu-io", &arguments)?;
    Ok(())
}

fn stats(room: &Room) -> Result<()> {
    room.require_tools(&["qemu-io"])?;
    let server = Server::start(room, &legs::sparse(room)?, &["--policy", "round-robin"])?;
    ask(room, &server.uri(), 30, 30)?;
    let told = json(&server)?;
    let legs = &told["legs"];
    ensure!(
        legs.as_array().is_some_and(|legs| legs.len() == 3),
        "{told}"
    );
    ensure!(sum(legs, "reads")? >= 30, "30 reads: {told}");
    ensure!(sum(legs, "writes")? >= 90, "30 writes to 3 legs: {told}");
    ensure!(sum(legs, "write_bytes")? >= 90 * 4096, "{told}");
    ensure!(sum(legs, "ticks_ns")? > 0, "legs were busy: {told}");
    let requests = &told["requests"];
    ensure!(number(requests, "writes")? == 30, "{told}");
    ensure!(number(requests, "write_bytes")? == 30 * 4096, "{told}");
    ensure!(
        sum(&told["clients"], "connections")? == 0,
        "all have gone: {told}"
    );
    let buckets = requests["write_histogram_ms"].as_array();
    let buckets = buckets.context("no histogram")?;
    let counted: u64 = buckets.iter().filter_map(Value::as_u64).sum();
    ensure!(buckets.len() == 15 && counted == 30, "{told}");
    // One at a time: what was in flight is what each took.
    let times = &requests["write_response_time_ns"];
    let longest = number(times, "max")?;
    ensure!(longest > 0, "{told}");
    ensure!(number(requests, "write_weighted_ns")? >= longest, "{told}");

    let table = server.control(&["stats", NAME])?;
    ensure!(
        table.contains("qemu-io (") && table.contains("gone"),
        "{table}"
    );
    let shown = server.control(&["stats", NAME, "--histogram"])?;
    let (reads, writes) = shown.split_once("\n\n").context("reads, then writes")?;
    ensure!(
        reads.starts_with("reads: ") && writes.starts_with("writes: 30, "),
        "{shown}"
    );
    for side in [reads, writes] {
        let lines: Vec<&str> = side.lines().collect();
        ensure!(lines.len() == 16, "fifteen buckets: {shown}");
        ensure!(
            lines[1].contains("<8 ms") && lines[15].contains(">=65536 ms"),
            "{shown}"
        );
    }
    ensure!(shown.is_ascii(), "bars are for terminals: {shown}");
    server.terminate()?;
    Ok(())
}

/// What is told of a client that has asked for so many writes.
fn client_with(told: &Value, writes: u64) -> Result<&Value> {
    let clients = told["clients"].as_array().context("no clients")?;
    let mut clients = clients.iter();
    let client = clients.find(|client| client["requests"]["writes"].as_u64() == Some(writes));
    client.with_context(|| format!("no client with {writes} writes: {told}"))
}

fn clients(room: &Room) -> Result<()> {
    room.require_tools(&["qemu-io", "fio"])?;
    let server = Server::start(room, &legs::memory(), &[])?;
    let uri = server.uri();
    ask(room, &uri, 10, 0)?;
    ask(room, &uri, 20, 0)?;
    let told = json(&server)?;
    let names = [10, 20].map(|writes| client_with(&told, writes).map(|it| it["client"].clone()));
    let [first, second] = names;
    let (first, second) = (first?, second?);
    ensure!(first != second, "one process after the other: {told}");
    for name in [&first, &second] {
        let name = name.as_str().context("a name")?;
        ensure!(name.starts_with("qemu-io ("), "who was it? {name}");
    }
    // One that is there, beside them.
    let mut fio = fio::run_on(room, &uri, "randread", 8)?;
    let name = format!("fio ({})", fio.pid());
    process::wait_until("fio to read", SEEN_TIME_MAX, || {
        ensure!(fio.is_running()?, "fio has ended");
        let told = json(&server)?;
        let clients = told["clients"].as_array().context("no clients")?;
        let mut here = clients
            .iter()
            .filter(|it| it["connections"].as_u64() > Some(0));
        let reads = here.any(|it| it["requests"]["reads"].as_u64() > Some(100));
        Ok(reads && number(&told["requests"], "writes")? == 30)
    })?;
    let table = server.control(&["stats", NAME])?;
    ensure!(
        table.contains(&name) && table.contains("qemu-io ("),
        "{name}: {table}"
    );
    drop(fio);
    server.terminate()?;
    Ok(())
}

fn reset(room: &Room) -> Result<()> {
    room.require_tools(&["qemu-io", "fio"])?;
    let server = Server::start(room, &legs::sparse(room)?, &[])?;
    ask(room, &server.uri(), 10, 10)?;
    let said = server.control(&["stats", NAME, "--reset", "1"])?;
    ensure!(said.contains("leg 1"), "{said}");
    let told = json(&server)?;
    ensure!(number(&told["legs"][0], "writes")? == 10, "{told}");
    ensure!(number(&told["legs"][1], "writes")? == 0, "{told}");
    ensure!(number(&told["requests"], "writes")? == 10, "{told}");
    let refusal = server.listen(&["stats", NAME, "--reset", "7"])?;
    ensure!(refusal.status.code() == Some(1), "there is no leg 7");
    let why = &refusal.stderr;
    ensure!(why.contains("none of the legs"), "{why}");
    server.control(&["stats", NAME, "--reset"])?;
    let told = json(&server)?;
    ensure!(sum(&told["legs"], "writes")? == 0, "{told}");
    ensure!(number(&told["requests"], "writes")? == 0, "{told}");
    ensure!(told["clients"] == Value::Array(Vec::new()), "{told}");
    // With requests in flight nothing becomes less than nothing.
    let options = ["--rw=randwrite", "--bs=4k", "--iodepth=16"];
    let verifying = fio::verify_meanwhile(room, &server.uri(), &options)?;
    for _ in 0..50 {
        server.control(&["stats", NAME, "--reset"])?;
        let requests = &json(&server)?["requests"];
        let (ticks, counted) = (
            number(requests, "ticks_ns")?,
            number(requests, "counted_ns")?,
        );
        ensure!(ticks <= counted, "{requests}");
    }
    verifying.finish()?;
    let told = json(&server)?;
    ensure!(number(&told["requests"], "reads_in_flight")? == 0, "{told}");
    server.terminate()?;
    Ok(())
}

/// A read that waits for a leg which does nothing.
fn begin_stuck_read(room: &Room, uri: &str) -> Result<Background> {
    let arguments = ["-f", "raw", "-c", "read 0 4k", uri];
    let mut command = room.command("qemu-io", &arguments);
    Background::start(&mut command, &room.path("stuck.log"))
}

fn late(room: &Room) -> Result<()> {
    room.require_tools(&["qemu-io"])?;
    let file = legs::sparse_file(room, 0)?;
    let stuck = format!("model:ram,file={file},stuck=true,at=0s");
    let legs = [stuck, legs::sparse_file(room, 1)?];
    let options = ["--policy", "devid:1", "--leg-timeout", "600s"];
    let options = [&options[..], &["--client-timeout", "200ms"]].concat();
    let server = Server::start(room, &legs, &options)?;
    let mut reader = begin_stuck_read(room, &server.uri())?;
    let late = |told: &Value| -> Result<(u64, u64)> {
        let requests = &told["requests"];
        Ok((
            number(requests, "late_in_flight")?,
            number(requests, "late")?,
        ))
    };
    process::wait_until("a late request", SEEN_TIME_MAX, || {
        Ok(late(&json(&server)?)? == (1, 0))
    })?;
    let told = json(&server)?;
    ensure!(number(&told, "client_timeout_ns")? == 200_000_000, "{told}");
    ensure!(
        number(&told["requests"], "reads")? == 0,
        "nothing is answered: {told}"
    );
    ensure!(number(&told["legs"][0], "reads_in_flight")? == 1, "{told}");
    let table = server.control(&["stats", NAME])?;
    ensure!(
        table.contains("0 + 1 now") && table.contains("200"),
        "{table}"
    );
    // The other leg answers.
    server.control(&["fail", NAME, "0"])?;
    ensure!(reader.wait(SEEN_TIME_MAX)?.success(), "{}", reader.said()?);
    let told = json(&server)?;
    let (waiting, answered) = late(&told)?;
    // What the reader flushes as it goes is late as well where this machine's disk is slow.
    let flush = number(&told["requests"]["flush_response_time_ns"], "max")?;
    let is_known = answered == 1 || answered > 1 && flush >= 200_000_000;
    ensure!(waiting == 0 && is_known, "{told}");
    let longest = number(&told["requests"]["read_response_time_ns"], "max")?;
    ensure!(longest >= 200_000_000, "{told}");
    server.kill()
}

fn off(room: &Room) -> Result<()> {
    room.require_tools(&["qemu-io"])?;
    let server = Server::start(room, &legs::memory(), &["--no-accounting"])?;
    ask(room, &server.uri(), 5, 5)?;
    let told = json(&server)?;
    ensure!(told["accounting"] == Value::Bool(false), "{told}");
    ensure!(number(&told["requests"], "writes")? == 0, "{told}");
    ensure!(sum(&told["legs"], "writes")? == 0, "{told}");
    let page = server.control(&["stats", NAME])?;
    ensure!(page.contains("--no-accounting"), "{page}");
    server.terminate()?;
    Ok(())
}
