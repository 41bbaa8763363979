//! A report for programs. Keys are named in `docs/demo.md`; `schema` changes when one of them goes
//! away or means something else.

use serde_json::{Value, json};
use stdx::histogram::Histogram;

use super::findings::explanation;
use super::{
    LegShare, MeasuredRow, Outcome, Report, Workload, measured_findings, virtual_findings,
};

/// The name and version of the layout.
const SCHEMA: &str = "heliostat-demo/1";

/// All of it, as one object.
pub(crate) fn report_json(report: &Report) -> Value {
    let facts = &report.facts;
    let workloads: Vec<Value> = report.workloads.iter().map(workload_json).collect();
    let rows: Vec<Value> = report.measured.rows.iter().map(measured_row_json).collect();
    json!({
        "schema": SCHEMA,
        "created_utc": facts.created_utc,
        "version": facts.version,
        "build": facts.build,
        "machine": {
            "kernel": facts.kernel,
            "system": facts.system,
            "processor": facts.processor,
            "cpu_count": facts.cpu_count,
            "memory_bytes": facts.memory_bytes,
        },
        "seed": report.seed,
        "quick": report.quick,
        "virtual": {
            "legs": report.legs,
            "size_bytes": report.size_bytes,
            "workloads": workloads,
            "findings": virtual_findings(&report.workloads),
        },
        "real": {
            "legs": report.measured.legs,
            "size_bytes": report.measured.size_bytes,
            "seconds": report.measured.seconds,
            "rows": rows,
            "findings": measured_findings(&report.measured.rows),
        },
    })
}

/// One workload with its rows.
fn workload_json(workload: &Workload) -> Value {
    let rows: Vec<Value> = workload.rows.iter().map(outcome_json).collect();
    json!({
        "workload": workload.name,
        "title": workload.title,
        "unit": workload.unit.name(),
        "rows": rows,
    })
}

/// One row of the virtual part.
pub(crate) fn outcome_json(outcome: &Outcome) -> Value {
    json!({
        "label": outcome.label,
        "policy": outcome.policy,
        "read": read_json(outcome),
        "legs": legs_json(outcome),
        "trace_hash": outcome.trace_hash.map(|hash| format!("{hash:016x}")),
    })
}

/// One row of the real part.
pub(crate) fn measured_row_json(row: &MeasuredRow) -> Value {
    json!({
        "policy": row.policy,
        "iodepth": row.iodepth,
        "measured": { "read": read_json(&row.measured), "legs": legs_json(&row.measured) },
        "predicted": { "read": read_json(&row.predicted), "legs": legs_json(&row.predicted) },
        "difference_percent": row.difference_percent(),
        "hdd_bound": row.is_hdd_bound(),
        "processors": row.processors.map(|used| json!({
            "server": used.server,
            "client": used.client,
            "others": used.others,
        })),
        "explanation": explanation(row),
    })
}

/// Rates and response times, with the keys that the simulator uses.
fn read_json(outcome: &Outcome) -> Value {
    json!({
        "ios": outcome.response.count(),
        "iops": outcome.iops,
        "bw_bytes": outcome.bytes_per_second,
        "response_time_ns": times_json(&outcome.response),
    })
}

fn legs_json(outcome: &Outcome) -> Value {
    let leg = |leg: &LegShare| {
        json!({
            "reads": leg.reads,
            "read_bytes": leg.read_bytes,
            "busy_fraction": leg.busy_fraction,
        })
    };
    outcome.legs.iter().map(leg).collect()
}

fn times_json(times: &Histogram) -> Value {
    json!({
        "mean": times.mean(),
        "p50": times.quantile(5_000),
        "p90": times.quantile(9_000),
        "p99": times.quantile(9_900),
        "p99.9": times.quantile(9_990),
        "p99.99": times.quantile(9_999),
        "max": times.max(),
    })
}

#[cfg(test)]
mod tests;
