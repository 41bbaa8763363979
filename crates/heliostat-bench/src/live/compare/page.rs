//! A comparison as a page.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Serialize;

use super::{Compared, Comparison, Verdict};
use crate::live::facts;
use crate::live::result::{BenchResult, Machine};
use crate::live::table::ms;
use crate::plot::{self, Ratio};
use crate::report::format::rate;
use crate::report::{Page, escaped, write_directory};

/// What the file says that it is.
const FORMAT: &str = "heliostat-bench-compare-1";

/// What facts are called is not parted, however long the facts are.
const STYLE: &str = "td.key { white-space: nowrap; color: var(--quiet); }\n";

/// One of the two results.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// What it was read from.
    pub name: &'a str,
    /// What is in it.
    pub result: &'a BenchResult,
}

/// The file beside the page.
#[derive(Serialize)]
struct Data<'a> {
    format: &'static str,
    a: Note<'a>,
    b: Note<'a>,
    #[serde(flatten)]
    compared: &'a Compared,
}

/// Where one of both comes from.
#[derive(Serialize)]
struct Note<'a> {
    path: &'a str,
    suite: &'a str,
    command: &'a str,
    is_complete: bool,
    machine: &'a Machine,
}

/// Writes a page and `report.json` into `directory`. Answers the path of the page.
///
/// # Errors
/// Where the directory cannot be made or written, or holds a page that is no report.
pub fn write_comparison(
    directory: &Path,
    sides: [Side<'_>; 2],
    compared: &Compared,
) -> anyhow::Result<PathBuf> {
    let [a, b] = sides.map(|side| Note {
        path: side.name,
        suite: &side.result.suite,
        command: &side.result.command,
        is_complete: side.result.is_complete,
        machine: &side.result.machine,
    });
    let format = FORMAT;
    let data = Data {
        format,
        a,
        b,
        compared,
    };
    let data = serde_json::to_value(data).context("cannot put the comparison into JSON")?;
    write_directory(directory, &page(sides, compared), &data)?;
    Ok(directory.join("index.html"))
}

fn page([a, b]: [Side<'_>; 2], compared: &Compared) -> String {
    let mut page = Page::with_style("heliostat: two results beside each other", STYLE);
    page.html("<h1>Two results beside each other</h1>\n");
    let began = |side: Side<'_>| format!("{}, of {}", side.name, side.result.machine.created_utc);
    page.html(&format!(
        "<p>A: {}.<br>B: {}.</p>\n<p>Figures are medians of their runs. A difference counts where \
         every run of one lies beyond every run of the other; else it is noise.</p>\n",
        escaped(&began(a)),
        escaped(&began(b))
    ));
    page.sentences(&compared.sentences());
    for (name, side) in [("A", a), ("B", b)] {
        if !side.result.is_complete {
            page.html(&format!(
                "<p><strong>{name} was ended before all was measured.</strong></p>\n"
            ));
        }
    }
    page.html("<h2>Requests per second</h2>\n");
    figure(&mut page, compared, &IOPS);
    page.html("<h2>99th percentile</h2>\n");
    figure(&mut page, compared, &P99);
    only(&mut page, "A", &compared.only_a);
    only(&mut page, "B", &compared.only_b);
    facts(&mut page, a.result, b.result);
    page.html("<p>All of it is in <a href=\"report.json\">report.json</a> too.</p>\n");
    page.finish()
}

/// A figure that is compared.
struct Figure {
    axis: &'static str,
    caption: &'static str,
    ratio: fn(&Comparison) -> f64,
    range: fn(&Comparison) -> (f64, f64),
    verdict: fn(&Comparison) -> Verdict,
    words: fn(&Comparison) -> String,
    /// Of A and of B.
    cells: fn(&Comparison) -> [String; 2],
    heads: [&'static str; 2],
}

const IOPS: Figure = Figure {
    axis: "B's requests per second, of A's",
    caption: "How many times as many requests B does: the median of B's runs by that of A's, and \
              between which two any run of B by any run of A lies. Right of 1 B does more.",
    ratio: |row| row.iops_ratio,
    range: |row| row.iops_ratio_range,
    verdict: |row| row.verdict,
    words: Comparison::words,
    cells: |row| [rate(row.a_iops), rate(row.b_iops)],
    heads: ["A IOPS", "B IOPS"],
};

const P99: Figure = Figure {
    axis: "B's 99th percentile, of A's",
    caption: "How many times as long B's 99th percentile is, in the same way. Left of 1 B answers \
              sooner.",
    ratio: |row| row.p99_ratio,
    range: |row| row.p99_ratio_range,
    verdict: |row| row.p99_verdict,
    words: Comparison::p99_words,
    cells: |row| [ms(row.a_p99_ns), ms(row.b_p99_ns)],
    heads: ["A ms", "B ms"],
};

fn figure(page: &mut Page, compared: &Compared, figure: &Figure) {
    let names = Names::of(&compared.rows);
    let ratios: Vec<Ratio> = compared
        .rows
        .iter()
        .map(|row| Ratio {
            name: names.one(row),
            value: (figure.ratio)(row),
            range: (figure.range)(row),
            is_apart: (figure.verdict)(row).is_apart(),
        })
        .collect();
    page.figure(&plot::ratios(&ratios, figure.axis), figure.caption);
    let mut html = "<table>\n<thead><tr><th>job</th>".to_owned();
    for (is_shown, head) in names.heads() {
        if is_shown {
            html.push_str(&format!("<th>{head}</th>"));
        }
    }
    for head in figure.heads.iter().chain(&["B/A"]) {
        html.push_str(&format!("<th class=\"number\">{head}</th>"));
    }
    html.push_str("<th>difference</th></tr></thead>\n<tbody>\n");
    for row in &compared.rows {
        html.push_str(&format!("<tr><td>{}</td>", escaped(&row.job)));
        for name in names.cells(row) {
            html.push_str(&format!("<td>{}</td>", escaped(name)));
        }
        for cell in (figure.cells)(row) {
            html.push_str(&format!("<td class=\"number\">{cell}</td>"));
        }
        let ratio = format!("{:.3}", (figure.ratio)(row));
        let (ratio, words) = match (figure.verdict)(row).is_apart() {
            true => (format!("<b>{ratio}</b>"), (figure.words)(row)),
            false => (ratio, (figure.words)(row)),
        };
        html.push_str(&format!(
            "<td class=\"number\">{ratio}</td><td>{}</td></tr>\n",
            escaped(&words)
        ));
    }
    page.html(&(html + "</tbody>\n</table>\n"));
}

/// What rows are called: targets and policies only where they are not all the same.
struct Names {
    is_one: bool,
    is_same: bool,
}

impl Names {
    fn of(rows: &[Comparison]) -> Self {
        let mut pairs = rows.windows(2);
        Self {
            is_one: pairs.all(|pair| pair[0].a == pair[1].a && pair[0].b == pair[1].b),
            is_same: rows.iter().all(|row| row.a == row.b),
        }
    }

    fn one(&self, row: &Comparison) -> String {
        match (self.is_one, self.is_same) {
            (true, _) => row.job.clone(),
            (false, true) => format!("{}, {}", row.job, row.a),
            (false, false) => format!("{}, {} and {}", row.job, row.a, row.b),
        }
    }

    const fn heads(&self) -> [(bool, &'static str); 3] {
        [
            (!self.is_one && self.is_same, "target and policy"),
            (!self.is_one && !self.is_same, "A"),
            (!self.is_one && !self.is_same, "B"),
        ]
    }

    fn cells<'a>(&self, row: &'a Comparison) -> Vec<&'a str> {
        match (self.is_one, self.is_same) {
            (true, _) => Vec::new(),
            (false, true) => vec![&row.a],
            (false, false) => vec![&row.a, &row.b],
        }
    }
}

/// What cannot be compared.
fn only(page: &mut Page, name: &str, rows: &[String]) {
    if !rows.is_empty() {
        page.html(&format!("<h2>Only in {name}</h2>\n"));
        page.sentences(rows);
    }
}

/// Where both come from, with what differs in bold: it may be the reason.
fn facts(page: &mut Page, a: &BenchResult, b: &BenchResult) {
    page.html(
        "<h2 id=\"facts\">Where this comes from</h2>\n<p>What is not the same in both is bold: \
         it may be what makes the difference.</p>\n<table>\n\
         <thead><tr><th></th><th>A</th><th>B</th></tr></thead>\n<tbody>\n",
    );
    for ((name, ours), (_, theirs)) in of_result(a).into_iter().zip(of_result(b)) {
        let is_same = ours == theirs;
        let shown = |text: &str| match is_same {
            true => escaped(text),
            false => format!("<b>{}</b>", escaped(text)),
        };
        page.html(&format!(
            "<tr><td class=\"key\">{name}</td><td>{}</td><td>{}</td></tr>\n",
            shown(&ours),
            shown(&theirs)
        ));
    }
    page.html("</tbody>\n</table>\n");
}

fn of_result(result: &BenchResult) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("targets", facts::of_targets(result).join("; ")),
        ("suite", result.suite.clone()),
    ];
    rows.extend(facts::of(result));
    rows
}
