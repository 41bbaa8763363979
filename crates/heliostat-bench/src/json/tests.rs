//! The object has the fields that programs rely on, in their order.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use expect_test::expect;
use heliostat_sim::JobBound;

use super::ResultJson;
use crate::{Contender, Run, ScenarioFile, run_all};

const TEXT: &str = r#"
name = "two legs"
seconds = 0.01
[array]
legs = ["ram", "ram"]
[[job]]
name = "reader"
rw = "randread"
[[job]]
name = "writer"
rw = "randwrite"
background = true
"#;

fn object() -> String {
    let file = ScenarioFile::parse(Path::new("test.toml"), TEXT).unwrap();
    let run = Run {
        scenario: Arc::new(file.scenario),
        contender: Contender::parse("queue").unwrap(),
    };
    let mut text = String::new();
    run_all(&[run], 1, &|_| (), |_, result| {
        text = serde_json::to_string(
            &ResultJson::new(&result.unwrap()).with_bound(&JobBound::default()),
        )
        .unwrap();
        ControlFlow::Continue(())
    });
    text
}

/// The text with every number as 0 and the hash as `HASH`, cut into lines.
fn shape(object: &str) -> String {
    let mut shape = String::new();
    let mut in_string = false;
    for letter in object.chars() {
        let is_number = !in_string && (letter.is_ascii_digit() || ".e-+".contains(letter));
        in_string ^= letter == '"';
        match letter {
            _ if is_number && shape.ends_with('0') => {}
            _ if is_number => shape.push('0'),
            '{' => shape.push_str("\n{"),
            ',' if shape.len() - shape.rfind('\n').unwrap_or(0) > 60 => shape.push_str(",\n"),
            _ => shape.push(letter),
        }
    }
    // Words outside of strings lost their e.
    shape.replace("fals0", "false")
}

#[test]
fn fields_stand_in_the_order_of_the_contract() {
    let object = object();
    let value: serde_json::Value = serde_json::from_str(&object).unwrap();
    let hash = value["trace_hash"].as_str().unwrap();
    assert_eq!(hash.len(), 16);
    assert!(u64::from_str_radix(hash, 16).is_ok(), "{hash}");
    assert_eq!(value["seconds"], 0.01);
    let sum = |key: &str| {
        let counts = value[key].as_array().unwrap().iter();
        counts.map(|count| count.as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(
        sum("read_histogram_ms"),
        value["read"]["ios"].as_u64().unwrap()
    );
    assert_eq!(sum("write_histogram_ms"), 0, "the writer is not counted");
    let job = |index: usize, side: &str| value["jobs"][index][side]["ios"].as_u64().unwrap();
    assert_eq!(job(0, "read"), value["read"]["ios"].as_u64().unwrap());
    assert!(job(1, "write") > 0);
    expect![[r#"

        {"scenario":"two legs","policy":"queue","seed":0,"seconds":0,
        "read":
        {"ios":0,"iops":0,"bw_bytes":0,"response_time_ns":
        {"mean":0,"p50":0,"p90":0,"p99":0,"p99.9":0,"p99.99":0,"max":0}},
        "write":
        {"ios":0,"iops":0,"bw_bytes":0,"response_time_ns":
        {"mean":0,"p50":0,"p90":0,"p99":0,"p99.9":0,"p99.99":0,"max":0}},
        "jobs":[
        {"name":"reader","read":
        {"ios":0,"iops":0,"bw_bytes":0,"response_time_ns":
        {"mean":0,"p50":0,"p90":0,"p99":0,"p99.9":0,"p99.99":0,"max":0}},
        "write":
        {"ios":0,"iops":0,"bw_bytes":0,"response_time_ns":
        {"mean":0,"p50":0,"p90":0,"p99":0,"p99.9":0,"p99.99":0,"max":0}},
        "unanswered":
        {"ios":0,"waited_ns":0}},
        {"name":"writer","read":
        {"ios":0,"iops":0,"bw_bytes":0,"response_time_ns":
        {"mean":0,"p50":0,"p90":0,"p99":0,"p99.9":0,"p99.99":0,"max":0}},
        "write":
        {"ios":0,"iops":0,"bw_bytes":0,"response_time_ns":
        {"mean":0,"p50":0,"p90":0,"p99":0,"p99.9":0,"p99.99":0,"max":0}},
        "unanswered":
        {"ios":0,"waited_ns":0}}],"legs":[
        {"model":"ram","reads":0,"writes":0,"read_bytes":0,"write_bytes":0,
        "hedge_reads":0,"probe_reads":0,"merges":0,"stream_switches":0,
        "busy_fraction":0,"service_time_ns":
        {"mean":0,"p50":0,"p90":0,"p99":0,"p99.9":0,"p99.99":0,"max":0},
        "faulted":false},
        {"model":"ram","reads":0,"writes":0,"read_bytes":0,"write_bytes":0,
        "hedge_reads":0,"probe_reads":0,"merges":0,"stream_switches":0,
        "busy_fraction":0,"service_time_ns":
        {"mean":0,"p50":0,"p90":0,"p99":0,"p99.9":0,"p99.99":0,"max":0},
        "faulted":false}],"hedges":
        {"issued":0,"won":0,"extra_read_fraction":0},"read_histogram_ms":[0,
        0,0,0,0,0,0,0,0,0,0,0,0,0,0],"write_histogram_ms":[0,0,0,0,0,
        0,0,0,0,0,0,0,0,0,0],"trace_hash":"HASH","scheduler":"none","errors":0,
        "events":0,"integrity":
        {"damaged_reads":0,"lost_writes":0,"torn_writes":0,"misdirected_writes":0,
        "rotten_sectors":0,"lied_flushes":0,"power_cuts":0,"sectors_lost_by_lies":0,
        "damaged_sectors":0},"background":null,"bound":
        {"read_iops":0,"read_bw_bytes":0,"write_iops":0,"write_bw_bytes":0,
        "limit":"requests outstanding"}}"#]]
    .assert_eq(&shape(&object.replace(hash, "HASH")));
}
