//! The matrix for programs: a line for each policy in each cell, and one object of everything.

use serde_json::{Value, json};

use super::judge::{Judged, Row};
use super::targets::{Limit, Target};

/// The name and version of the layout of `report.json`.
const SCHEMA: &str = "heliostat-matrix/1";

/// The heads of the columns of [`csv`].
const COLUMNS: &str = "cell,class,policy,score,to_best,to_oracle,iops,bw_bytes,mean_ns,p99_ns,\
                       p999_ns,max_ns,precision,extra,errors,during,rehabilitation,shares\n";

/// A line for each policy in each cell. Where there are several jobs their figures stand one
/// after the other with `+` between them, and so do the shares of the legs.
#[must_use]
pub fn csv(judged: &[Judged]) -> String {
    let mut text = COLUMNS.to_owned();
    for cell in judged {
        for row in &cell.rows {
            let score = row.total().max(0.0);
            let ratio = |other: Option<usize>| optional(other.map(|o| row.ratio_to(&cell.rows[o])));
            let jobs = |figure: &dyn Fn(&super::judge::JobRow) -> String| {
                let figures: Vec<String> = row.jobs.iter().map(figure).collect();
                figures.join("+")
            };
            let shares: Vec<String> = row.shares.iter().map(|s| format!("{s:.4}")).collect();
            text += &format!(
                "{},{},\"{}\",{score},{},{},{},{},{},{},{},{},{:.5},{:.6},{},{},{},{}\n",
                cell.cell.name(),
                cell.cell.class().name(),
                row.policy,
                ratio(cell.best),
                ratio(cell.oracle),
                jobs(&|job| format!("{:.1}", job.iops)),
                jobs(&|job| format!("{:.0}", job.bw_bytes)),
                jobs(&|job| format!("{:.0}", job.reads.mean())),
                jobs(&|job| job.reads.quantile(9_900).to_string()),
                jobs(&|job| job.reads.quantile(9_990).to_string()),
                jobs(&|job| job.reads.max().to_string()),
                row.precision,
                row.extra,
                row.errors,
                optional(row.during),
                optional(row.rehabilitation),
                shares.join("+"),
            );
        }
    }
    text
}

fn optional(figure: Option<f64>) -> String {
    figure.map_or_else(String::new, |figure| format!("{figure:.5}"))
}

/// Everything as one object.
pub(super) fn json(judged: &[Judged], targets: &[Target], command: &str) -> Value {
    let cells: Vec<Value> = judged.iter().map(cell_json).collect();
    let targets: Vec<Value> = targets.iter().map(target_json).collect();
    json!({
        "schema": SCHEMA,
        "command": command,
        "version": env!("CARGO_PKG_VERSION"),
        "of": judged.first().map(|cell| cell.mine().policy.clone()),
        "cells": cells,
        "targets": targets,
    })
}

fn cell_json(judged: &Judged) -> Value {
    let rows: Vec<Value> = judged.rows.iter().map(row_json).collect();
    let tail = judged.tail.as_ref();
    json!({
        "name": judged.cell.name(),
        "class": judged.cell.class().name(),
        "best_other": judged.best.map(|best| judged.rows[best].policy.clone()),
        "to_best": judged.to_best,
        "to_oracle": judged.to_oracle,
        "tail": tail.map(|tail| tail.ratio),
        "tail_beside": tail.map(|tail| tail.policy.clone()),
        "policies": rows,
    })
}

fn row_json(row: &Row) -> Value {
    let jobs = row.jobs.iter().map(|job| {
        json!({
            "name": job.name,
            "score": job.score,
            "iops": job.iops,
            "bw_bytes": job.bw_bytes,
            "read_ns": {
                "mean": job.reads.mean(),
                "p99": job.reads.quantile(9_900),
                "p99.9": job.reads.quantile(9_990),
                "max": job.reads.max(),
            },
        })
    });
    json!({
        "policy": row.policy,
        "jobs": jobs.collect::<Vec<Value>>(),
        "precision": row.precision,
        "extra_read_fraction": row.extra,
        "leg_shares": row.shares,
        "errors": row.errors,
        "during": row.during,
        "rehabilitation": row.rehabilitation,
    })
}

fn target_json(target: &Target) -> Value {
    let looked = target.looked.iter().map(|looked| {
        let (kind, limit) = match looked.limit {
            Limit::AtLeast(limit) => ("at_least", limit),
            Limit::AtMost(limit) => ("at_most", limit),
        };
        json!({
            "place": looked.place,
            "value": looked.value,
            kind: limit,
            "beside": looked.beside,
            "met": looked.is_met(),
        })
    });
    json!({
        "title": target.title,
        "met": target.is_met(),
        "looked": looked.collect::<Vec<Value>>(),
    })
}
