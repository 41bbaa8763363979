use std::collections::{BTreeMap, BTreeSet};

use heliostat_types::Extent;
use serde_json::Value;

use super::families::ALL;
use super::text::{Family, Format, Kind};
use super::{CLIENTS_MAX, Client, Figures, Writer};
use crate::ArrayOptions;
use crate::commands::Command;
use crate::rig::{Job, Rig, memory_options};
use crate::scratch::Scratch;

const DOCUMENT: &str = include_str!("../../../../docs/metrics.md");
const DASHBOARD: &str = include_str!("../../../../contrib/grafana/heliostat.json");

/// Samples of a page by their name with labels. A line that is none of either is an error.
fn samples(page: &str) -> BTreeMap<String, f64> {
    let lines = page.lines().filter(|line| !line.starts_with("# "));
    let samples = lines.map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    });
    let told: Vec<(String, f64)> = samples.collect();
    let by_name: BTreeMap<String, f64> = told.iter().cloned().collect();
    assert_eq!(by_name.len(), told.len(), "each once");
    by_name
}

fn figures(rig: &Rig) -> Figures {
    let figures: Box<Figures> = rig.handle.ask(Command::Metrics).unwrap();
    *figures
}

fn page(figures: &Figures) -> String {
    Writer::new(Format::OpenMetrics, figures).write()
}

/// What samples of a family are called.
fn names(family: &Family) -> Vec<String> {
    match family.kind {
        Kind::Histogram => ["_bucket", "_count", "_sum"]
            .map(|suffix| format!("{}{suffix}", family.name))
            .to_vec(),
        Kind::Counter | Kind::Gauge | Kind::Info => vec![family.sample_name()],
    }
}

#[test]
fn the_document_and_the_page_name_the_same() {
    let scratch = Scratch::new();
    let rig = Rig::start(&memory_options(&scratch)).unwrap();
    let page = page(&figures(&rig));
    rig.stop();
    let told: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    let known: Vec<&str> = ALL.iter().map(|family| family.name).collect();
    let sorted = |names: &[&str]| {
        names
            .iter()
            .map(ToString::to_string)
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(sorted(&told), sorted(&known));
    assert_eq!(told.len(), known.len(), "each once");
    let rows = ALL.iter().map(|family| {
        let labels: Vec<String> = family.labels.iter().map(|it| format!("`{it}`")).collect();
        format!(
            "| `{}` | {} | {} | {} | {} |",
            family.sample_name(),
            family.kind.name(),
            family.unit(),
            labels.join(", "),
            family.help
        )
        .replace("|  |", "| |")
        .replace("|  |", "| |")
    });
    let rows: BTreeSet<String> = rows.collect();
    let documented = DOCUMENT
        .lines()
        .filter(|line| line.starts_with("| `heliostat_"));
    let documented: BTreeSet<String> = documented.map(str::to_owned).collect();
    let missing: Vec<&String> = rows.difference(&documented).collect();
    let unknown: Vec<&String> = documented.difference(&rows).collect();
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "docs/metrics.md lacks {missing:#?} and should not have {unknown:#?}"
    );
}

#[test]
fn names_are_as_they_should_be() {
    for family in ALL {
        let letters = family.name.bytes();
        assert!(
            letters
                .clone()
                .all(|it| it.is_ascii_lowercase() || it == b'_')
        );
        assert!(family.name.starts_with("heliostat_") && !family.name.contains("__"));
        assert!(!family.name.ends_with("_total") && !family.name.ends_with("_info"));
        assert!(!family.help.contains(['\\', '"', '\n']) && family.help.ends_with('.'));
        if family.kind == Kind::Histogram {
            assert_eq!(family.unit(), "seconds", "{}", family.name);
        }
    }
    let all: Vec<String> = ALL.iter().flat_map(names).collect();
    let different: BTreeSet<&String> = all.iter().collect();
    assert_eq!(all.len(), different.len(), "no name has two meanings");
}

/// Names of ours in an expression.
fn names_in(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|it: char| !(it.is_ascii_alphanumeric() || it == '_'));
    words.filter(|word| word.starts_with("heliostat_"))
}

/// Every text under a key, wherever it is.
fn texts<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(object) => {
            found.extend(object.get(key).and_then(Value::as_str));
            object.values().for_each(|inner| texts(inner, key, found));
        }
        Value::Array(array) => array.iter().for_each(|inner| texts(inner, key, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn the_dashboard_asks_for_what_there_is() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut asked = Vec::new();
    texts(&dashboard, "expr", &mut asked);
    texts(&dashboard, "query", &mut asked);
    assert!(asked.len() > 10, "{asked:?}");
    let there: BTreeSet<String> = ALL.iter().flat_map(names).collect();
    for text in asked {
        for name in names_in(text) {
            assert!(there.contains(name), "{name} in {text}");
        }
    }
}

#[test]
fn counts_are_those_of_stats() {
    let scratch = Scratch::new();
    let rig = Rig::start(&memory_options(&scratch)).unwrap();
    for index in 0..7 {
        rig.request(Job::Read(Extent::new(index * 8192, 8192)))
            .unwrap();
    }
    rig.request(Job::Write(Extent::new(0, 4096), 1)).unwrap();
    let (stats, figures) = (rig.handle.stats().unwrap(), figures(&rig));
    let told = samples(&page(&figures));
    let client = &stats.clients[0].client;
    let client = format!("array=\"disk\",client=\"{client}\"");
    for (name, value) in [
        (r#"heliostat_requests_total{array="disk",kind="read"}"#, 7.0),
        (
            r#"heliostat_request_bytes_total{array="disk",kind="read"}"#,
            57_344.0,
        ),
        (
            r#"heliostat_request_bytes_total{array="disk",kind="write"}"#,
            4096.0,
        ),
        (
            r#"heliostat_request_duration_seconds_count{array="disk",kind="read"}"#,
            7.0,
        ),
        (r#"heliostat_clients{array="disk"}"#, 1.0),
        (
            r#"heliostat_leg_state{array="disk",leg="2",state="in-sync"}"#,
            1.0,
        ),
        (
            r#"heliostat_leg_state{array="disk",leg="2",state="faulted"}"#,
            0.0,
        ),
        (
            &format!("heliostat_client_requests_total{{{client},kind=\"read\"}}"),
            7.0,
        ),
    ] {
        assert!((told[name] - value).abs() < 1e-9, "{name}: {}", told[name]);
    }
    let of_legs = |kind: &str| -> f64 {
        let name = |leg| {
            format!(
                "heliostat_leg_operations_total{{array=\"disk\",leg=\"{leg}\",kind=\"{kind}\"}}"
            )
        };
        (0..3).map(|leg| told[&name(leg)]).sum()
    };
    let reads: u64 = stats.legs.iter().map(|leg| leg.reads).sum();
    assert!((of_legs("read") - as_f64(reads)).abs() < 1e-9);
    assert!((of_legs("write") - 3.0).abs() < 1e-9);
    rig.stop();
}

fn as_f64(count: u64) -> f64 {
    u32::try_from(count).unwrap().into()
}

#[test]
fn without_accounting_the_rest_is_told() {
    let scratch = Scratch::new();
    let options = ArrayOptions {
        accounting: false,
        ..memory_options(&scratch)
    };
    let rig = Rig::start(&options).unwrap();
    rig.request(Job::Read(Extent::new(0, 4096))).unwrap();
    let told = samples(&page(&figures(&rig)));
    assert!(told[r#"heliostat_accounting{array="disk"}"#].abs() < 1e-9);
    let counted = ["heliostat_requests_total", "heliostat_leg_operations_total"];
    let is_counted = |name: &String| counted.iter().any(|it| name.starts_with(it));
    assert!(!told.keys().any(is_counted));
    assert!(told.contains_key(r#"heliostat_legs_in_sync{array="disk"}"#));
    rig.stop();
}

#[test]
fn many_clients_are_few_series() {
    let scratch = Scratch::new();
    let rig = Rig::start(&memory_options(&scratch)).unwrap();
    rig.request(Job::Read(Extent::new(0, 4096))).unwrap();
    let mut figures = figures(&rig);
    rig.stop();
    let busy = figures.stats.clients.pop().unwrap();
    let idle = |number: usize, connections| crate::stats::ClientSnapshot {
        name: format!("\"}} {number}\n\\"),
        connections,
        until: busy.until,
        account: heliostat_engine::Account::default(),
        late_in_flight: 0,
    };
    // One that has gone, one that is there twice, and the one that was busy behind them all.
    figures.stats.clients = (0..1000)
        .map(|number| idle(number, number.min(1)))
        .collect();
    figures.stats.clients.push(idle(1, 1));
    figures.stats.clients.push(busy);
    let told = samples(&page(&figures));
    assert!((told[r#"heliostat_clients{array="disk"}"#] - 1000.0).abs() < 1e-9);
    let clients = told
        .keys()
        .filter(|name| name.starts_with("heliostat_client_connections{"));
    let clients: Vec<&String> = clients.collect();
    assert_eq!(clients.len(), CLIENTS_MAX);
    assert!(
        clients
            .iter()
            .any(|name| name.contains("process 1\"") || name.contains("(1)\""))
    );
    let twice = told
        .iter()
        .find(|(name, _)| name.contains(r#"client="\"} 1\n\\""#));
    let (name, connections) = twice.unwrap();
    assert!(name.starts_with("heliostat_client_connections{") && (connections - 2.0).abs() < 1e-9);
    assert!(told.len() < 10_000, "{}", told.len());
    let all = Client::all(&figures.stats.clients);
    assert_eq!(all.len(), 1000);
}
