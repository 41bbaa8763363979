//! A sweep as one page: a small plot and a row of figures for each constant.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::super::report::{STYLE, level};
use super::words::{lost, place, value_text};
use super::{Swept, SweptConstant, sweep_summary};
use crate::plot::{FactorLines, factors};
use crate::report::{Page, escaped, write_directory};

/// The name and version of the layout of `report.json`.
const SCHEMA: &str = "heliostat-sweep/1";

/// Writes the page, `report.json` and the plot by itself into `directory`. Answers the path of the
/// page.
///
/// # Errors
/// Where the directory cannot be made or written, or holds a page that is no report.
pub fn write_sweep(directory: &Path, swept: &Swept, command: &str) -> anyhow::Result<PathBuf> {
    write_directory(directory, &page(swept, command), &data(swept, command))?;
    let plot = directory.join("constants.svg");
    fs::write(&plot, plots(swept)).with_context(|| format!("cannot write {}", plot.display()))?;
    Ok(directory.join("index.html"))
}

/// A small plot for each constant that is read.
fn plots(swept: &Swept) -> String {
    let read = swept.constants.iter().filter(|one| one.read_in > 0);
    let lines = read.map(|one| FactorLines {
        name: one.constant.name,
        points: one
            .points
            .iter()
            .map(|point| (point.factor, point.mean(), point.worst().1))
            .collect(),
    });
    factors(&lines.collect::<Vec<_>>())
}

/// The page.
pub(super) fn page(swept: &Swept, command: &str) -> String {
    let mut page = Page::with_style("heliostat: how sharp constants are", STYLE);
    page.html("<h1>How sharp the constants of the read policy are</h1>\n");
    let summary: Vec<String> = sweep_summary(swept).lines().map(str::to_owned).collect();
    page.sentences(&summary);
    page.html("<h2>All constants</h2>\n");
    page.figure(
        &plots(swept),
        "What the policy does beside itself without the change, over the factor by which one \
         constant is changed: the geometric mean over all cells, and the cell that comes off \
         worst. What is below 0.8 is drawn there.",
    );
    page.html(&table(swept));
    page.html("<h2>Where this comes from</h2>\n");
    page.definitions(&[
        ("command", command.to_owned()),
        ("heliostat", env!("CARGO_PKG_VERSION").to_owned()),
        ("cells", swept.cells.join(", ")),
    ]);
    page.html("<p>The figures are in <a href=\"report.json\">report.json</a> too.</p>\n");
    page.finish()
}

fn table(swept: &Swept) -> String {
    let mut html = String::from(
        "<p>Means over all cells at each factor, in percent of what is done without the \
         change.</p>\n<div class=\"map\"><table>\n<thead><tr><th></th><th>value</th>",
    );
    for factor in &swept.factors {
        html += &format!("<th>x{factor}</th>");
    }
    html += "<th>worst cell</th><th>longest p99.9</th></tr></thead>\n";
    for constant in &swept.constants {
        html += &row(swept, constant);
    }
    html + "</table></div>\n"
}

fn row(swept: &Swept, constant: &SweptConstant) -> String {
    let info = constant.constant;
    let mut html = format!(
        "<tr><th>{}</th><th>{}</th>",
        escaped(info.name),
        escaped(&value_text(info, info.value))
    );
    for point in &constant.points {
        let mean = point.mean();
        html += &format!(
            "<td class=\"{}\" title=\"{}\"><b>{:.1}</b></td>",
            level(mean),
            escaped(&value_text(info, point.value)),
            mean * 100.0
        );
    }
    let name = |cell: usize| swept.cells[cell].clone();
    let worst = place(constant.worst(), |point| point.worst(), name);
    let tail = place(constant.tail(), |point| point.tail(), name);
    let said = if constant.read_in == 0 {
        "not read".to_owned()
    } else {
        worst
    };
    html + &format!(
        "<th>{}</th><th>{}</th></tr>\n",
        escaped(&said),
        escaped(&tail)
    )
}

/// Everything as one object.
fn data(swept: &Swept, command: &str) -> Value {
    let constants = swept.constants.iter().map(|one| {
        let points = one.points.iter().map(|point| {
            let scores: Vec<f64> = point.cells.iter().map(|cell| cell.score).collect();
            let tails: Vec<f64> = point.cells.iter().map(|cell| cell.tail).collect();
            json!({
                "factor": point.factor,
                "value": point.value,
                "mean": point.mean(),
                "scores": scores,
                "p99.9": tails,
            })
        });
        json!({
            "name": one.constant.name,
            "value": one.constant.value,
            "read_in": one.read_in,
            "sharp": (!one.is_flat()).then(|| lost(swept, one)),
            "points": points.collect::<Vec<Value>>(),
        })
    });
    json!({
        "schema": SCHEMA,
        "command": command,
        "version": env!("CARGO_PKG_VERSION"),
        "cells": swept.cells,
        "constants": constants.collect::<Vec<Value>>(),
    })
}
