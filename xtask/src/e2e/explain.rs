//! `heliostat explain`: why reads go where they go, while they do.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use serde_json::Value;

use super::Test;
use super::fio;
use super::room::Room;
use super::server::{NAME, Server};
use crate::process::{Background, wait_until};

pub(super) const TESTS: &[Test] = &[
    Test {
        name: "explain",
        about: "a drive and a hard disk under adaptive: reads go to the drive, and why",
        run: explain,
    },
    Test {
        name: "explain_ends",
        about: "watching ends with whoever watches, with the policy, and with the array",
        run: explain_ends,
    },
];

/// How long something may take that takes no time on an idle machine.
const TIME_MAX: Duration = Duration::from_secs(20);
/// So many may watch at once.
const WATCHERS_MAX: usize = 4;

fn serve<'a>(room: &'a Room, policy: &str) -> Result<Server<'a>> {
    let legs = ["ssd-sata-1tb", "hdd-7200-2tb"].map(|model| format!("model:{model},size=64MiB"));
    Server::start(room, &legs, &["--policy", policy])
}

fn explain(room: &Room) -> Result<()> {
    let server = serve(room, "adaptive")?;
    let idle = server.control(&["explain", NAME, "--wait", "10ms"])?;
    ensure!(idle.contains("No leg was read yet"), "{idle}");
    ensure!(idle.contains("No read asked the policy"), "{idle}");

    let mut fio = fio::run_on(room, &server.uri(), "randread", 1)?;
    // The disk is tried once, and is known from then on.
    wait_until("the disk was tried", TIME_MAX, || {
        let told = told(&server.control(&["explain", NAME, "--reads", "0", "--json"])?)?;
        Ok(!told["legs"][1]["curves"][0].is_null())
    })?;
    let reads = ["explain", NAME, "--reads", "500", "--wait", "20s"];
    let watch = |more: &[&str]| server.control(&[&reads, more].concat());
    let value = told(&watch(&["--json"])?)?;
    check_adaptive(&value)?;
    let text = watch(&[])?;
    let line = text.lines().find(|line| line.contains("predicted least"));
    ensure!(
        line.is_some_and(|line| line.contains("0 ssd-sata-1tb")),
        "{text}"
    );
    ensure!(text.lines().all(|line| line.len() <= 100), "{text}");

    server.control(&["policy", NAME, "pid"])?;
    let text = watch(&[])?;
    ensure!(
        text.contains("predicts nothing") && text.contains("its rule"),
        "{text}"
    );
    server.control(&["policy", NAME, "latency"])?;
    let value = told(&watch(&["--json"])?)?;
    let legs = &value["watched"]["groups"][0]["legs"];
    ensure!(
        legs[0]["weight_ns"].as_u64() < legs[1]["weight_ns"].as_u64(),
        "{value}"
    );
    fio.signal(Signal::INT)?;
    fio.wait(TIME_MAX)?;
    refuses(&server)?;
    tells_of_streams(room, &server)?;
    server.terminate()?;
    Ok(())
}

/// Who reads in sequence is seen, with what is read ahead.
fn tells_of_streams(room: &Room, server: &Server<'_>) -> Result<()> {
    server.control(&["policy", NAME, "adaptive"])?;
    let mut fio = fio::run_on(room, &server.uri(), "read", 1)?;
    wait_until("a stream is told of", TIME_MAX, || {
        let told = told(&server.control(&["explain", NAME, "--reads", "0", "--json"])?)?;
        let stream = &told["streams"][0];
        Ok(stream["read_bytes"].as_u64() > Some(1 << 20) && stream["read_ahead"].is_string())
    })?;
    fio.signal(Signal::INT)?;
    fio.wait(TIME_MAX)?;
    Ok(())
}

/// Reads that are alone go to the drive, since the disk is predicted to take longer.
fn check_adaptive(value: &Value) -> Result<()> {
    ensure!(
        value["policy"] == "adaptive" && value["predicts"] == true,
        "{value}"
    );
    let classes = [0, 1].map(|leg| &value["legs"][leg]["facts"]["class"]);
    ensure!(classes == ["flash", "rotational"], "{classes:?}");
    let watched = &value["watched"];
    let decisions = watched["decisions"].as_array().context("no decisions")?;
    ensure!(
        decisions.len() == 500 && watched["end"] == "full",
        "{watched}"
    );
    let most = &watched["groups"][0];
    ensure!(
        most["to"][0] == 0 && most["reason"] == "predicted least",
        "{most}"
    );
    ensure!(most["reads"].as_u64() > Some(250), "{most}");
    let predicted = |leg: usize| most["legs"][leg]["predicted_ns"].as_u64();
    ensure!(predicted(0) < predicted(1), "{most}");
    Ok(())
}

/// What cannot be asked is refused with what can.
fn refuses(server: &Server<'_>) -> Result<()> {
    for wrong in [
        ["--reads", "4001"],
        ["--reads", "-1"],
        ["--wait", "601s"],
        ["--wait", "soon"],
    ] {
        let said = server.listen(&[&["explain", NAME][..], &wrong].concat())?;
        ensure!(said.status.code() == Some(2), "{wrong:?}: {}", said.status);
    }
    let said = server.listen(&["explain", "nobody"])?;
    ensure!(said.status.code() == Some(1), "{}", said.status);
    ensure!(
        said.stderr.contains("no array is served there"),
        "{}",
        said.stderr
    );
    Ok(())
}

fn explain_ends(room: &Room) -> Result<()> {
    let server = serve(room, "adaptive")?;
    let watch_long = |number: usize| {
        let log = room.path(&format!("explain-{number}.log"));
        server.begin(&["explain", NAME, "--wait", "600s"], &log)
    };
    let watchers = (0..WATCHERS_MAX).map(watch_long);
    let mut watchers: Vec<Background> = watchers.collect::<Result<_>>()?;
    // While all of them watch, there is no room for another one.
    let watch_once = || server.listen(&["explain", NAME, "--wait", "1ms"]);
    wait_until("all watch", TIME_MAX, || {
        for (number, watcher) in watchers.iter_mut().enumerate() {
            // It came while somebody looked from here, and there was no room for it.
            if !watcher.is_running()? {
                *watcher = watch_long(number)?;
            }
        }
        Ok(watch_once()?.stderr.contains("are watching the reads"))
    })?;
    for watcher in &mut watchers {
        watcher.signal(Signal::KILL)?;
    }
    wait_until("they are forgotten", TIME_MAX, || {
        Ok(watch_once()?.status.success())
    })?;

    let mut watcher = watch_long(WATCHERS_MAX)?;
    wait_until("another policy ends it", TIME_MAX, || {
        for policy in ["pid", "adaptive"] {
            server.control(&["policy", NAME, policy])?;
        }
        Ok(!watcher.is_running()?)
    })?;
    let said = watcher.said()?;
    ensure!(watcher.wait(TIME_MAX)?.success(), "{said}");
    ensure!(said.contains("Another policy was set meanwhile"), "{said}");

    let mut watcher = watch_long(WATCHERS_MAX + 1)?;
    wait_until("it watches", TIME_MAX, || {
        Ok(watcher.said()?.contains("No leg was read yet"))
    })?;
    server.kill()?;
    let status = watcher.wait(TIME_MAX)?;
    let said = watcher.said()?;
    ensure!(status.code() == Some(1), "{status}: {said}");
    // It may have ended before it was asked for the reads, too, or while it was.
    let told = ["ended before it answered", "nobody listens", "cannot ask"];
    ensure!(told.iter().any(|text| said.contains(text)), "{said}");
    Ok(())
}

fn told(json: &str) -> Result<Value> {
    ensure!(json.lines().count() == 1, "not one object: {json}");
    serde_json::from_str(json).context("explain --json")
}
