use serde_json::Value;

use super::super::sample;
use super::report_json;

/// Keys of an object, in the order of the alphabet.
fn keys(value: &Value) -> Vec<&str> {
    let object = value.as_object().unwrap();
    let mut keys: Vec<&str> = object.keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn keys_are_those_of_the_documentation() {
    let json = report_json(&sample::report());
    assert_eq!(json["schema"], "heliostat-demo/1");
    assert_eq!(
        keys(&json),
        [
            "build",
            "created_utc",
            "machine",
            "quick",
            "real",
            "schema",
            "seed",
            "version",
            "virtual"
        ]
    );
    let workload = &json["virtual"]["workloads"][0];
    assert_eq!(keys(workload), ["rows", "title", "unit", "workload"]);
    let row = &workload["rows"][0];
    assert_eq!(keys(row), ["label", "legs", "policy", "read", "trace_hash"]);
    assert_eq!(
        keys(&row["read"]),
        ["bw_bytes", "iops", "ios", "response_time_ns"]
    );
    assert_eq!(
        keys(&row["read"]["response_time_ns"]),
        ["max", "mean", "p50", "p90", "p99", "p99.9", "p99.99"]
    );
    let real = &json["real"]["rows"][1];
    assert_eq!(real["policy"], "zfs");
    assert_eq!(real["hdd_bound"], false);
    assert_eq!(real["processors"]["others"], 1.2);
    assert!(real["explanation"].as_str().unwrap().contains("us a read"));
}
