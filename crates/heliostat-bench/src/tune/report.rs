//! The report of `heliostat tune`: what was swept, as plots and a table, on one page.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::axis::Axis;
use super::json::{PointJson, SummaryJson};
use super::runner::{Tuned, Tuning};
use super::score::Scored;
use super::table::{points_table, ranked};
use super::words;
use crate::plot::{self, Surface};
use crate::report::{Page, TableStyle, escaped, write_directory};

/// The name and version of the layout of `report.json`.
const SCHEMA: &str = "heliostat-tune/1";

/// Writes a report of what came of `tuning` into `directory`. Answers the path of its page.
///
/// # Errors
/// Where the directory cannot be made or written, or holds a page that is no report.
pub fn write_tune_report(
    directory: &Path,
    tuning: &Tuning,
    tuned: &Tuned,
) -> anyhow::Result<PathBuf> {
    let command = std::env::args().collect::<Vec<String>>().join(" ");
    let data = data(tuning, tuned, &command)?;
    write_directory(directory, &page(tuning, tuned, &command), &data)?;
    Ok(directory.join("index.html"))
}

fn data(tuning: &Tuning, tuned: &Tuned, command: &str) -> anyhow::Result<Value> {
    let points = tuned.points.iter().enumerate();
    let points = points
        .map(|(place, scored)| serde_json::to_value(PointJson::new(tuning, scored, place == 0)));
    Ok(json!({
        "schema": SCHEMA,
        "command": command,
        "version": env!("CARGO_PKG_VERSION"),
        "points": points.collect::<Result<Vec<Value>, _>>()?,
        "summary": serde_json::to_value(SummaryJson::new(tuning, tuned))?,
    }))
}

/// The page.
pub(super) fn page(tuning: &Tuning, tuned: &Tuned, command: &str) -> String {
    let policy = tuning.policy.policy().name;
    let mut page = Page::new(&format!("heliostat: {policy}, tuned"));
    page.html(&format!("<h1>{}, tuned</h1>\n", escaped(policy)));
    page.sentences(&words::sentences(tuning, tuned));
    page.html("<h2>What was swept</h2>\n");
    match tuning.axes.as_slice() {
        [rows, columns] => surface(&mut page, tuning, tuned, rows, columns),
        axes => {
            for at in 0..axes.len() {
                slice(&mut page, tuning, tuned, at);
            }
        }
    }
    page.html("<h2>All points</h2>\n");
    page.preformatted(&points_table(
        tuning,
        tuned,
        &ranked(tuned),
        TableStyle::Plain,
    ));
    page.html("<h2>Where this comes from</h2>\n");
    let names = tuning.on.names();
    let subjects = format!("{}s", tuning.on.word());
    page.definitions(&[
        ("command", command.to_owned()),
        ("heliostat", env!("CARGO_PKG_VERSION").to_owned()),
        (&subjects, names.join(", ")),
        ("compared with", tuning.policy.to_string()),
    ]);
    page.html("<p>The figures are in <a href=\"report.json\">report.json</a> too.</p>\n");
    page.finish()
}

fn best(tuned: &Tuned) -> &Scored {
    &tuned.points[tuned.verdict.best]
}

/// The gain over the values of two tunables.
fn surface(page: &mut Page, tuning: &Tuning, tuned: &Tuned, rows: &Axis, columns: &Axis) {
    let at = |row: u64, column: u64| {
        let mut points = tuned.points.iter();
        points.find(|scored| scored.point == [row, column])
    };
    let gain = |scored: &Scored| (scored.score - 1.0) * 100.0;
    let values = rows.values.iter().map(|&row| {
        let cells = columns.values.iter();
        cells.map(|&column| at(row, column).map(gain)).collect()
    });
    let place = |axis: &Axis, value: u64| axis.values.iter().position(|&other| other == value);
    let best_point = &best(tuned).point;
    let best = place(rows, best_point[0]).zip(place(columns, best_point[1]));
    let svg = plot::surface(&Surface {
        columns: (columns.tunable.name, texts(columns)),
        rows: (rows.tunable.name, texts(rows)),
        values: values.collect(),
        best,
        value_name: &format!("percent over the default, {}", tuning.objective.title()),
    });
    let caption = format!(
        "How much better than the default, in percent, by {} (rows) and {} (columns). Darker is \
         better; the star marks the highest.",
        rows.tunable.name, columns.tunable.name
    );
    page.figure(&svg, &caption);
}

/// A line for each scenario over the values of one tunable, the others as in the best point.
fn slice(page: &mut Page, tuning: &Tuning, tuned: &Tuned, at: usize) {
    let axis = &tuning.axes[at];
    let through = best(tuned);
    let points: Vec<Option<&Scored>> = axis
        .values
        .iter()
        .map(|&value| {
            let mut point = through.point.clone();
            point[at] = value;
            tuned.points.iter().find(|scored| scored.point == point)
        })
        .collect();
    let line = |ratio: &dyn Fn(&Scored) -> f64| -> Vec<Option<f64>> {
        let points = points.iter();
        points
            .map(|point| point.map(|scored| ratio(scored) * 100.0))
            .collect()
    };
    let names = tuning.on.names().into_iter().enumerate();
    let mut lines: Vec<(&str, Vec<Option<f64>>)> = names
        .map(|(index, name)| {
            let ratio = move |scored: &Scored| scored.scenarios[index].ratio;
            (name, line(&ratio))
        })
        .collect();
    if lines.len() > 1 {
        lines.push(("geometric mean", line(&|scored| scored.score)));
    }
    let title = tuning.objective.title();
    let y_name = format!("percent of the default, {title}");
    let svg = plot::curve(axis.tunable.name, &texts(axis), &lines, &y_name);
    let others = if tuning.axes.len() > 1 {
        let others: Vec<String> = tuning
            .axes
            .iter()
            .zip(&through.point)
            .enumerate()
            .filter(|(other, _)| *other != at)
            .map(|(_, (axis, &value))| format!("{}={}", axis.tunable.name, axis.text(value)))
            .collect();
        format!(" with {}, as in the best point", others.join(", "))
    } else {
        String::new()
    };
    let better = if tuning.objective.wants_more() {
        "and higher is better"
    } else {
        "200 is half of its time, and higher is better"
    };
    let caption = format!(
        "{title} by {}{others}; 100 is the default, {better}.",
        axis.tunable.name
    );
    page.figure(&svg, &caption);
}

fn texts(axis: &Axis) -> Vec<String> {
    axis.values.iter().map(|&value| axis.text(value)).collect()
}

#[cfg(test)]
mod tests;
