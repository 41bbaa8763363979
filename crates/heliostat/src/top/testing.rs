//! Arrays to be shown in tests.

use heliostat_runtime::ArrayStats;
use serde_json::{Value, json};

use super::sample::Sample;

/// So many reads and writes of 4 KiB in so many seconds, each of a millisecond.
fn counts(seconds: u64, reads: u64, writes: u64) -> Value {
    let times = json!({"mean":0,"p50":0,"p90":0,"p99":0,"p99.9":0,"p99.99":0,"max":0});
    let ms = |count: u64| json!([[1_000_000, 2_000, count]]);
    json!({
        "counted_ns": seconds * 1_000_000_000, "ticks_ns": seconds * 500_000_000,
        "reads": reads, "writes": writes, "flushes": 0, "trims": 0, "write_zeroes": 0,
        "block_statuses": 0, "read_bytes": reads * 4096, "write_bytes": writes * 4096,
        "merges": 0, "read_errors": 0, "write_errors": 0,
        "reads_in_flight": 2, "writes_in_flight": 1,
        "read_weighted_ns": 0, "write_weighted_ns": 0, "late": 0, "late_in_flight": 0,
        "read_response_time_ns": times, "write_response_time_ns": times,
        "flush_response_time_ns": times, "read_queue_wait_ns": times,
        "write_queue_wait_ns": times, "read_service_time_ns": times,
        "write_service_time_ns": times,
        "read_histogram_ms": vec![0; 15], "write_histogram_ms": vec![0; 15],
        "fine": {"read_ns": ms(reads), "write_ns": ms(writes)},
    })
}

/// What an array has done that has been served for so long, with these legs (name and state) and
/// clients; each leg and each client has done so many reads and half as many writes.
pub(crate) fn stats(
    seconds: u64,
    reads: u64,
    legs: &[(&str, &str)],
    clients: &[&str],
) -> ArrayStats {
    let count = legs.len() as u64;
    let of_leg = |(index, &(name, state)): (usize, &(&str, &str))| {
        let mut leg = counts(seconds, reads, reads / 2);
        leg["index"] = index.into();
        leg["leg"] = name.into();
        leg["state"] = state.into();
        leg
    };
    let of_client = |name: &&str| {
        let requests = counts(seconds, reads, reads / 2);
        json!({"client": name, "connections": 1, "requests": requests})
    };
    let stats = json!({
        "name": "pool", "size_bytes": 1_u64 << 30, "policy": "adaptive", "scheduler": "none",
        "uptime_ns": seconds * 1_000_000_000, "backend": "memory",
        "memory_bytes": 1 << 30, "memory_used_bytes": 1 << 20, "dirty": false,
        "accounting": true, "client_timeout_ns": 10_000_000_000_u64,
        "hedges": {"issued": seconds, "won": seconds / 2, "refused": 0},
        "requests": counts(seconds, reads * count, reads / 2),
        "clients": clients.iter().map(of_client).collect::<Vec<_>>(),
        "legs": legs.iter().enumerate().map(of_leg).collect::<Vec<_>>(),
    });
    serde_json::from_value(stats).expect("what a daemon tells")
}

/// The same with how it is.
pub(super) fn sample(seconds: u64, reads: u64, legs: &[(&str, &str)], clients: &[&str]) -> Sample {
    let count = legs.len();
    let leg = |(role, &(name, state)): (usize, &(&str, &str))| {
        let mut leg = json!({"role": role, "leg": name, "state": state});
        leg["write_mostly"] = false.into();
        leg
    };
    let in_sync = legs.iter().filter(|(_, state)| *state == "in-sync").count();
    let status = json!({
        "name": "pool", "shape": format!("a mirror of {count} legs"), "size_bytes": 1_u64 << 30,
        "state": "clean", "legs_in_sync": in_sync, "legs_wanted": count,
        "legs": legs.iter().enumerate().map(leg).collect::<Vec<_>>(),
        "background_rates": {"min_bytes_per_s": 1, "max_bytes_per_s": 2},
    });
    Sample {
        stats: stats(seconds, reads, legs, clients),
        status: serde_json::from_value(status).expect("what a daemon tells"),
        beliefs: Vec::new(),
    }
}
