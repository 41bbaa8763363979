//! Who gets how much of legs that have not enough for everybody: clients and volumes beside each
//! other under `none` and `fair`, on disks that take their time. Ratios of one run, because nobody
//! knows how fast the machine is.

use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Test;
use super::arrays::create_well;
use super::clients::RawClient;
use super::legs;
use super::room::Room;
use super::server::{NAME, Server};
use super::volumes::uri_of;
use crate::process::Background;

pub(super) const TESTS: &[Test] = &[
    Test {
        name: "shares_weights",
        about: "volumes of weight 1, 2 and 4 get that of the disks under fair, the same under none",
        run: weights,
    },
    Test {
        name: "shares_malice",
        about: "30 connections with the largest requests at full depth beside a small client",
        run: malice,
    },
    Test {
        name: "shares_connections",
        about: "all connections and all memory that one client can get: others are served",
        run: connections,
    },
];

/// How long is measured: some hundred requests of the slowest one.
const MEASURED: Duration = Duration::from_secs(8);

/// How long it takes until all clients have asked for as much as they do, and rounds are alike.
const SETTLED: Duration = Duration::from_secs(3);

/// How long fio runs at most; it is ended before.
const RUNTIME: &str = "--runtime=120";

/// fio until it is ended, on an export.
fn fio_on(room: &Room, name: &str, uri: &str, options: &[&str]) -> Result<Background> {
    let mut command = Command::new("fio");
    command.args([
        &format!("--name={name}"),
        "--ioengine=nbd",
        "--thread",
        "--time_based",
        RUNTIME,
        &format!("--uri={uri}"),
    ]);
    command.args(options);
    Background::start(&mut command, &room.path(&format!("fio-{name}.log")))
}

/// Who has asked for what since a moment ago, for as long as is measured: the `requests` of each
/// of these clients, by how their names begin.
fn measured(server: &Server<'_>, names: &[String]) -> Result<Vec<Value>> {
    thread::sleep(SETTLED);
    server.control(&["stats", NAME, "--reset"])?;
    thread::sleep(MEASURED);
    let told = server.control(&["stats", NAME, "--json"])?;
    let told: Value = serde_json::from_str(&told).context("stats --json")?;
    let clients = told["clients"].as_array().context("no clients")?;
    let requests = names.iter().map(|name| {
        let is_it = |client: &&Value| {
            let called = client["client"].as_str();
            called.is_some_and(|called| called.starts_with(name.as_str()))
        };
        let client = clients.iter().find(is_it);
        let client = client.with_context(|| format!("no '{name}': {told}"))?;
        Ok(client["requests"].clone())
    });
    requests.collect()
}

fn count(requests: &Value, kind: &str) -> Result<f64> {
    requests[kind].as_f64().context("no count")
}

fn weights(room: &Room) -> Result<()> {
    room.require_tools(&["fio"])?;
    let files = (0..2).map(|index| legs::sparse_file(room, index));
    let files: Vec<String> = files.collect::<Result<_>>()?;
    let legs = files
        .iter()
        .map(|file| format!("model:hdd-7200-2tb,file={file},slow=2"));
    let legs: Vec<String> = legs.collect();
    create_well(room, &legs, &["--level", "raid1", "--assume-clean"])?;
    let server = Server::start(room, &[NAME.to_owned()], &[])?;
    let mut running = Vec::new();
    let mut names = Vec::new();
    for weight in ["1", "2", "4"] {
        let name = format!("of-weight-{weight}");
        let create = ["volume", "create", NAME, &name, "16M", "--weight", weight];
        server.control(&create)?;
        let options = ["--rw=randwrite", "--bs=4k", "--iodepth=128", "--size=16m"];
        running.push(fio_on(room, &name, &uri_of(&server, &name), &options)?);
        names.push(format!("volume {name}"));
    }
    let shares = |scheduler: &str| -> Result<[f64; 2]> {
        server.control(&["scheduler", NAME, scheduler])?;
        let requests = measured(&server, &names)?;
        let writes = requests.iter().map(|one| count(one, "writes"));
        let writes: Vec<f64> = writes.collect::<Result<_>>()?;
        ensure!(writes[0] > 50.0, "too few to tell: {writes:?}");
        Ok([writes[1] / writes[0], writes[2] / writes[0]])
    };
    let fair = shares("fair")?;
    let none = shares("none")?;
    let told = format!("beside weight 1: {fair:.2?} under fair, {none:.2?} under none");
    ensure!((1.6..=2.5).contains(&fair[0]), "{told}");
    ensure!((2.8..=5.2).contains(&fair[1]), "{told}");
    ensure!(
        none.iter().all(|share| (0.7..=1.4).contains(share)),
        "{told}"
    );
    for fio in &mut running {
        ensure!(fio.is_running()?, "fio has ended: {}", fio.said()?);
    }
    drop(running);
    server.terminate()?;
    Ok(())
}

/// How often a client reads 4 KiB, one at a time, beside one that has 30 connections, each with so
/// many requests of this size: under `none`, and under `fair`.
fn beside_hog(room: &Room, bytes: &str, depth: u32) -> Result<[f64; 2]> {
    // Nothing was ever written to them, so that they need no memory.
    let leg = "model:hdd-7200-2tb,size=100g".to_owned();
    let options = ["--policy", "queue", "--memory", "512MiB"];
    let server = Server::start(room, &[leg.clone(), leg], &options)?;
    let (bs, depth) = (format!("--bs={bytes}"), format!("--iodepth={depth}"));
    let hog = ["--rw=randread", "--numjobs=30", &bs, &depth, "--size=40g"];
    let mut hog = fio_on(room, "hog", &server.uri(), &hog)?;
    let small = ["--rw=randread", "--bs=4k", "--offset=60g", "--size=40g"];
    let mut small = fio_on(room, "small", &server.uri(), &small)?;
    let names = [hog.pid(), small.pid()].map(|pid| format!("fio ({pid})"));
    let reads = |scheduler: &str| -> Result<f64> {
        server.control(&["scheduler", NAME, scheduler])?;
        let requests = measured(&server, &names)?;
        let hogs = count(&requests[0], "reads")?;
        ensure!(hogs > 0.0, "the large one is starved under {scheduler}");
        count(&requests[1], "reads")
    };
    let reads = [reads("none")?, reads("fair")?];
    ensure!(hog.is_running()? && small.is_running()?, "fio has ended");
    drop((hog, small));
    server.terminate()?;
    Ok(reads)
}

fn malice(room: &Room) -> Result<()> {
    room.require_tools(&["fio"])?;
    // Under none a read waits for all that fits into the memory, under fair for what the disk has
    // in hand: 4.5 and 3 times as many reads on a busy machine.
    for (bytes, depth, factor) in [("1m", 64, 2.0), ("32m", 2, 1.5)] {
        let [none, fair] = beside_hog(room, bytes, depth)?;
        ensure!(
            fair >= 5.0 && fair >= factor * none,
            "beside {bytes} at depth {depth}: {none} reads under none, {fair} under fair"
        );
    }
    Ok(())
}

fn connections(room: &Room) -> Result<()> {
    room.require_tools(&["qemu-io"])?;
    let legs = legs::sparse(room)?;
    let server = Server::start(room, &legs, &["--memory", "96MiB"])?;
    // As many as are let in. None of them ever takes an answer.
    let mut greedy = Vec::new();
    while let Ok(client) = RawClient::connect(room) {
        greedy.push(client);
        ensure!(greedy.len() < 1000, "all are let in");
    }
    ensure!(greedy.len() > 64, "only {} are let in", greedy.len());
    // The largest requests, and then all that still fits.
    for bits in (12..26).rev() {
        for client in &mut greedy {
            for _ in 0..4 {
                client.ask(1 << bits)?;
            }
        }
    }
    let mut arguments = vec!["-f", "raw"];
    arguments.extend(["-c", "write 0 64k", "-c", "read 0 64k"].repeat(20));
    let uri = server.uri();
    arguments.push(&uri);
    for scheduler in ["none", "fair"] {
        server.control(&["scheduler", NAME, scheduler])?;
        room.run("qemu-io", &arguments)
            .with_context(|| format!("another client under {scheduler}"))?;
    }
    drop(greedy);
    server.terminate()?;
    Ok(())
}
