//! Results as a page.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::csv::csv;
use super::facts;
use super::result::{BenchResult, LegCount, Row, TargetNote};
use super::table::{COLUMNS, Switched, best_of, spread_text};
use crate::plot;
use crate::report::{Page, escaped, write_directory};

/// Writes a report into `directory`: a page, `report.json` and `report.csv`. Answers the path of
/// the page.
///
/// # Errors
/// Where the directory cannot be made or written, or holds a page that is no report.
pub fn write_bench_report(directory: &Path, result: &BenchResult) -> anyhow::Result<PathBuf> {
    let data = serde_json::to_value(result).context("cannot put the report into JSON")?;
    write_directory(directory, &page(result), &data)?;
    let path = directory.join("report.csv");
    fs::write(&path, csv(result)).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(directory.join("index.html"))
}

fn page(result: &BenchResult) -> String {
    let mut page = Page::new("heliostat: fio's figures");
    page.html(&format!(
        "<h1>fio's figures of {}</h1>\n",
        escaped(&listed(result.targets.iter().map(|target| &target.target)))
    ));
    page.html(&format!(
        "<p>Suite {}. Each figure is the median of its runs; +- is half of what the runs are apart \
         in IOPS. The best of a column is bold. Percentiles are of reads where there were reads, \
         times in ms.</p>\n",
        escaped(&result.suite)
    ));
    if !result.is_complete {
        page.html("<p><strong>It was ended before all was measured.</strong></p>\n");
    }
    page.html("<nav>");
    for (job, number) in result.jobs().iter().zip(1..) {
        page.html(&format!("<a href=\"#job{number}\">{}</a>", escaped(job)));
    }
    page.html("<a href=\"#facts\">Where this comes from</a></nav>\n");
    for (job, number) in result.jobs().iter().zip(1..) {
        page.html(&format!("<h2 id=\"job{number}\">{}</h2>\n", escaped(job)));
        one_job(&mut page, result, job);
    }
    facts(&mut page, result);
    page.html(
        "<p>All runs are in <a href=\"report.csv\">report.csv</a> and \
         <a href=\"report.json\">report.json</a> too.</p>\n",
    );
    page.finish()
}

fn one_job(page: &mut Page, result: &BenchResult, job: &str) {
    let rows: Vec<&Row> = result.of_job(job).collect();
    table(page, &rows);
    if rows.len() > 1 {
        let is_large = rows.iter().all(|row| row.is_large());
        let (figure, axis): (fn(&Row) -> f64, _) = match is_large {
            true => (|row| row.median(|run| run.bytes_per_s / 1e6), "MB/s"),
            false => (|row| row.median(|run| run.iops), "IOPS"),
        };
        let names: Vec<String> = rows.iter().map(|row| row.label()).collect();
        let bars: Vec<(&str, f64)> = names
            .iter()
            .zip(&rows)
            .map(|(name, row)| (name.as_str(), figure(row)))
            .collect();
        page.figure(&plot::bars(&bars, axis), &format!("{job}: {axis}."));
    }
    for target in &result.targets {
        legs(page, target, &rows);
    }
}

fn table(page: &mut Page, rows: &[&Row]) {
    let switched = Switched::of(rows.iter().copied());
    let mut html = "<table>\n<thead><tr><th>target</th>".to_owned();
    for head in switched.heads() {
        html.push_str(&format!("<th>{head}</th>"));
    }
    let heads = COLUMNS.iter().map(|column| column.head);
    for head in ["runs", "+-"].into_iter().chain(heads) {
        html.push_str(&format!("<th class=\"number\">{head}</th>"));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    let best = best_of(rows);
    for row in rows {
        html.push_str(&format!("<tr><td>{}</td>", escaped(&row.target)));
        for under in switched.cells(row) {
            html.push_str(&format!("<td>{}</td>", escaped(under)));
        }
        let mut cells = vec![row.runs.len().to_string(), spread_text(row)];
        for (column, best) in COLUMNS.iter().zip(&best) {
            let value = row.median(column.of);
            let text = (column.show)(value);
            cells.push(match *best == Some(value) {
                true => format!("<b>{text}</b>"),
                false => text,
            });
        }
        for cell in cells {
            html.push_str(&format!("<td class=\"number\">{cell}</td>"));
        }
        html.push_str("</tr>\n");
    }
    page.html(&(html + "</tbody>\n</table>\n"));
}

/// What the legs of a target have read and written.
fn legs(page: &mut Page, target: &TargetNote, rows: &[&Row]) {
    if target.legs.len() < 2 {
        return;
    }
    for (what, is_read) in [("read", true), ("written", false)] {
        let bytes = |leg: &LegCount| match is_read {
            true => leg.read_bytes,
            false => leg.write_bytes,
        };
        let shares: Vec<(String, Vec<u64>)> = rows
            .iter()
            .filter(|row| row.target == target.target)
            .map(|row| (row.label(), row.legs().iter().map(bytes).collect()))
            .filter(|(_, parts): &(_, Vec<u64>)| parts.iter().sum::<u64>() > 0)
            .collect();
        if !shares.is_empty() {
            page.figure(
                &plot::shares(&shares, &target.legs, "percent of the bytes"),
                &format!(
                    "What each leg of {} has {what}, warm-up included.",
                    target.target
                ),
            );
        }
    }
}

fn facts(page: &mut Page, result: &BenchResult) {
    page.html("<h2 id=\"facts\">Where this comes from</h2>\n");
    let mut rows = vec![("began", result.machine.created_utc.clone())];
    rows.extend(facts::of(result));
    let targets = facts::of_targets(result).into_iter();
    rows.extend(targets.map(|target| ("target", target)));
    page.definitions(&rows);
    page.html("<details>\n<summary>How fio was started</summary>\n");
    let commands: Vec<String> = result
        .rows
        .iter()
        .map(|row| format!("# {}, {}\n{}\n", row.job, row.label(), row.command))
        .collect();
    page.preformatted(&commands.join("\n"));
    page.html("</details>\n");
}

/// `a, b and c`.
fn listed<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<&str> = names.map(String::as_str).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.concat(),
    }
}
