//! Metrics over HTTP, read by what is not ours.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Test;
use super::legs;
use super::room::Room;
use super::server::{NAME, Server};
use crate::process::{self, Background};
use crate::tools::PROMETHEUS_CLIENT;

pub(super) const TESTS: &[Test] = &[
    Test {
        name: "metrics",
        about: "a page of metrics says what stats says, in both formats, to their own parsers",
        run: metrics,
    },
    Test {
        name: "metrics_hostile",
        about: "silent and broken HTTP clients take nothing from others, nor from a stop",
        run: hostile,
    },
    Test {
        name: "metrics_prometheus",
        about: "Prometheus scrapes an array, and can evaluate all that the dashboard asks",
        run: prometheus,
    },
];

const OPEN_METRICS: &str = "application/openmetrics-text";

/// How long a scrape may take to show what was just done, and Prometheus to come up and scrape.
const SEEN_TIME_MAX: Duration = Duration::from_secs(30);

/// What Python makes of a page: each sample on a line, its name with labels and its value.
const PARSE: &str = "
import sys
from prometheus_client import parser
from prometheus_client.openmetrics import parser as open_parser
text = sys.stdin.read()
kind = open_parser if sys.argv[1] == 'open' else parser
for family in kind.text_string_to_metric_families(text):
    for sample in family.samples:
        labels = ','.join(f'{name}={sample.labels[name]}' for name in sorted(sample.labels))
        print(f'{sample.name} {labels} {sample.value:.9f}')
";

/// Serves with metrics somewhere, and says where.
fn start<'a>(room: &'a Room, legs: &[String]) -> Result<(Server<'a>, String)> {
    let server = Server::start(room, legs, &["--metrics-listen", "0"])?;
    let said = server.said()?;
    let mut lines = said.lines();
    let address = lines.find_map(|line| {
        line.strip_prefix("metrics at http://")?
            .strip_suffix("/metrics")
    });
    let address = address.with_context(|| format!("no address: {said}"))?;
    ensure!(address.starts_with("127.0.0.1:"), "{address}");
    let address = address.to_owned();
    Ok((server, address))
}

/// The head and the body of what is answered.
fn get(address: &str, accept: &str) -> Result<(String, String)> {
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\n\r\n"
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").context("no head")?;
    ensure!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    Ok((head.to_owned(), body.to_owned()))
}

/// A page as Python understands it.
fn parsed(room: &Room, format: &str, page: &str) -> Result<String> {
    let path = room.path_text("page");
    fs::write(&path, page)?;
    let mut python = room.command("/usr/bin/python3", &["-c", PARSE, format]);
    process::succeed(python.stdin(fs::File::open(&path)?))
}

fn ask(room: &Room, uri: &str) -> Result<()> {
    let mut arguments = vec!["-f", "raw"];
    arguments.extend(["-c", "write 0 8k"].repeat(20));
    arguments.extend(["-c", "read 0 4k"].repeat(30));
    arguments.push(uri);
    room.run("qemu-io", &arguments)?;
    Ok(())
}

fn metrics(room: &Room) -> Result<()> {
    room.require_tools(&["qemu-io", "promtool", PROMETHEUS_CLIENT])?;
    let legs = legs::sparse(room)?;
    let (server, address) = start(room, &legs)?;
    ask(room, &server.uri())?;
    let mut page = String::new();
    process::wait_until("the reads to be told", SEEN_TIME_MAX, || {
        page = get(&address, OPEN_METRICS)?.1;
        Ok(page.contains("heliostat_requests_total{array=\"disk\",kind=\"read\"} 30\n"))
    })?;
    let stats: Value = serde_json::from_str(&server.control(&["stats", NAME, "--json"])?)?;
    let (head, plain) = get(&address, "*/*")?;
    ensure!(head.contains("text/plain; version=0.0.4"), "{head}");
    ensure!(
        page.ends_with("# EOF\n") && !plain.contains("# EOF"),
        "{plain}"
    );
    for told in [parsed(room, "open", &page)?, parsed(room, "plain", &plain)?] {
        ensure_same(&told, &stats)?;
    }
    let path = room.path_text("plain");
    fs::write(&path, &plain)?;
    let mut promtool = room.command("promtool", &["check", "metrics"]);
    process::succeed(promtool.stdin(fs::File::open(&path)?))?;

    // A port that is taken: nothing is written to legs that would have to be.
    let others = ["other0", "other1"].map(|name| room.path_text(name));
    for leg in &others {
        fs::File::create(leg)?.set_len(4 << 20)?;
    }
    let refusal = Server::refused(room, &others, &["--metrics-listen", &address])?;
    ensure!(
        refusal.contains("--metrics-listen"),
        "no way out: {refusal}"
    );
    for leg in &others {
        ensure!(
            legs::allocated_bytes(Path::new(leg))? == 0,
            "{leg} was written to"
        );
    }
    let misuse = Server::misused(room, &others, &["--metrics-listen", ":9617"])?;
    ensure!(misuse.contains("0.0.0.0:9617"), "no way out: {misuse}");
    server.terminate()?;
    Ok(())
}

/// Compares samples with what `stats --json` says.
fn ensure_same(told: &str, stats: &Value) -> Result<()> {
    let ensure_told = |name: String, value: &Value| {
        let value = value.as_f64().context("a number")?;
        let line = format!("{name} {value:.9}");
        let has_it = told.lines().any(|told| told == line);
        ensure!(has_it, "no '{line}' in {told}");
        Ok(())
    };
    let requests = &stats["requests"];
    for (name, kind, key) in [
        ("requests_total", "read", "reads"),
        ("requests_total", "write", "writes"),
        ("request_bytes_total", "read", "read_bytes"),
        ("request_bytes_total", "write", "write_bytes"),
        ("request_duration_seconds_count", "read", "reads"),
        ("request_errors_total", "read", "read_errors"),
    ] {
        let name = format!("heliostat_{name} array=disk,kind={kind}");
        ensure_told(name, &requests[key])?;
    }
    let legs = stats["legs"].as_array().context("no legs")?;
    for (leg, figures) in legs.iter().enumerate() {
        for (name, kind, key) in [
            ("operations_total", "read", "reads"),
            ("operation_bytes_total", "write", "write_bytes"),
            ("service_time_seconds_count", "write", "writes"),
            ("queue_wait_seconds_count", "read", "reads"),
        ] {
            let name = format!("heliostat_leg_{name} array=disk,kind={kind},leg={leg}");
            ensure_told(name, &figures[key])?;
        }
        let name = figures["leg"].as_str().context("a name")?;
        let info = format!("heliostat_leg_info array=disk,leg={leg},name={name}");
        ensure_told(info, &Value::from(1))?;
    }
    Ok(())
}

fn hostile(room: &Room) -> Result<()> {
    let (server, address) = start(room, &legs::memory())?;
    let mut held = Vec::new();
    for number in 0..200 {
        let mut stream = TcpStream::connect(&address)?;
        match number % 4 {
            0 => {}
            1 => stream.write_all(b"GET /metrics HT")?,
            // Whoever hangs up on this client may do so in the midst of it.
            2 => drop(stream.write_all(&vec![b'a'; 1 << 20])),
            // The whole page, which it does not read.
            _ => stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n")?,
        }
        held.push(stream);
    }
    let (_, page) = get(&address, OPEN_METRICS)?;
    ensure!(page.ends_with("# EOF\n"), "{page}");
    ask(room, &server.uri())?;
    // Its own bound is that of a server with nothing to do but to stop.
    server.terminate()?;
    drop(held);
    Ok(())
}

/// A Prometheus that scrapes an address, and its own.
fn scraper(room: &Room, address: &str) -> Result<(Background, String)> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port();
    let own = format!("127.0.0.1:{port}");
    let config = room.path_text("prometheus.yml");
    let text = format!(
        "global:\n  scrape_interval: 500ms\nscrape_configs:\n  - job_name: heliostat\n    \
         static_configs:\n      - targets: ['{address}']\n"
    );
    fs::write(&config, text)?;
    let program = crate::tools::find("prometheus").context("promtool comes with it")?;
    let mut command = Command::new(program);
    command
        .arg(format!("--config.file={config}"))
        .arg(format!("--storage.tsdb.path={}", room.path_text("series")))
        .arg(format!("--web.listen-address={own}"));
    let scraper = Background::start(&mut command, &room.path("prometheus.log"))?;
    Ok((scraper, format!("http://{own}")))
}

fn prometheus(room: &Room) -> Result<()> {
    room.require_tools(&["qemu-io", "promtool"])?;
    let legs = legs::sparse(room)?;
    let (server, address) = start(room, &legs)?;
    let (mut scraper, own) = scraper(room, &address)?;
    let query = |text: &str| room.listen("promtool", &["query", "instant", &own, text]);
    // What happens before the first scrape is no growth to it.
    process::wait_until("a scrape", SEEN_TIME_MAX, || {
        ensure!(
            scraper.is_running()?,
            "Prometheus ended: {}",
            scraper.said()?
        );
        Ok(query("heliostat_uptime_seconds")?.stdout.contains("disk"))
    })?;
    ask(room, &server.uri())?;
    process::wait_until("the reads to be scraped", SEEN_TIME_MAX, || {
        let told = query("heliostat_requests_total{array=\"disk\",kind=\"read\"}")?;
        Ok(told.stdout.contains("=> 30 @"))
    })?;
    let mut asked = Vec::new();
    let dashboard = fs::read_to_string(room.root.join("contrib/grafana/heliostat.json"))?;
    expressions(&serde_json::from_str(&dashboard)?, &mut asked);
    ensure!(asked.len() > 20, "{asked:?}");
    let mut answered = 0;
    for text in &asked {
        let text = text
            .replace("$__rate_interval", "1m")
            .replace("$array", ".*");
        let told = query(&text)?;
        ensure!(told.status.success(), "{text}: {}", told.stderr);
        answered += usize::from(told.stdout.contains("=>"));
    }
    // There is no bitmap here, no work in the background and no error.
    ensure!(answered + 8 > asked.len(), "{answered} of {}", asked.len());
    server.terminate()?;
    Ok(())
}

/// All that a dashboard asks.
fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            let text = object.get("expr").and_then(Value::as_str);
            found.extend(text.map(str::to_owned));
            object.values().for_each(|inner| expressions(inner, found));
        }
        Value::Array(array) => array.iter().for_each(|inner| expressions(inner, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
