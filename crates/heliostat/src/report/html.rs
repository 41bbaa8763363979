//! A report as one page: no script, nothing fetched from elsewhere, light or dark as the reader
//! likes it.

use stdx::units::format_size;

use super::{
    Facts, Report, TableStyle, Workload, measured_findings, measured_table, plot, virtual_findings,
    virtual_table,
};

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1b1b1b; --paper: #fcfcfa; --quiet: #5a5a5a;
  --line: #d5d5d0; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e4; --paper: #17181a; --quiet: #a5a5a0; --line: #3a3b3e; } }
body { margin: 0 auto; max-width: 60rem; padding: 1.5rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .3rem; }
h2 { font-size: 1.25rem; margin: 2.4rem 0 .4rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.8rem 0 .2rem; }
p, li { max-width: 46rem; }
nav a { margin-right: 1rem; }
a { color: inherit; }
pre { overflow-x: auto; font: 13px/1.45 ui-monospace, monospace; border: 1px solid var(--line);
  padding: .8rem; }
figure { margin: .6rem 0 1.6rem; }
figcaption { color: var(--quiet); font-size: .9rem; max-width: 46rem; }
svg { display: block; width: 100%; height: auto; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; font-size: .9rem; }
dt { color: var(--quiet); }
dd { margin: 0; overflow-wrap: anywhere; }
";

/// The whole page.
pub(super) fn page(report: &Report) -> String {
    let mut page = String::new();
    head(&mut page, report);
    virtual_part(&mut page, report);
    real_part(&mut page, report);
    page += "<h2 id=\"facts\">Where this comes from</h2>\n";
    facts(&mut page, report);
    page += "</body>\n</html>\n";
    page
}

fn head(page: &mut String, report: &Report) {
    let legs = escaped(&report.legs.join(", "));
    let size = format_size(report.size_bytes);
    page.push_str(&format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>heliostat: read policies side by side</title>\n<style>{STYLE}</style>\n</head>\n\
         <body>\n<h1>Read policies side by side</h1>\n\
         <p>One mirror of {size} whose legs are {legs}, read under every policy that heliostat \
         has.</p>\n\
         <nav><a href=\"#virtual\">In virtual time</a><a href=\"#real\">For real</a>\
         <a href=\"#facts\">Where this comes from</a></nav>\n"
    ));
}

fn virtual_part(page: &mut String, report: &Report) {
    page.push_str("<h2 id=\"virtual\">In virtual time</h2>\n");
    page.push_str(
        "<p>The engine and the policies that serve real disks, driven by device models and a \
         clock that only computes. The same seed gives the same figures on every machine.</p>\n",
    );
    preformatted(page, &virtual_table(&report.workloads, TableStyle::Plain));
    sentences(page, &virtual_findings(&report.workloads));
    for workload in &report.workloads {
        workload_plots(page, workload, &report.legs);
    }
}

fn workload_plots(page: &mut String, workload: &Workload, legs: &[String]) {
    let title = escaped(workload.title);
    page.push_str(&format!("<h3 id=\"{}\">{title}</h3>\n", workload.name));
    let unit = workload.unit.name();
    figure(
        page,
        &plot::bars(workload),
        &format!("{title}: {unit} by policy, best first."),
    );
    figure(
        page,
        &plot::percentiles(workload),
        &format!(
            "{title}: response times by policy; left is better, and a short line is a steady \
                  policy."
        ),
    );
    figure(
        page,
        &plot::shares(workload, legs),
        &format!("{title}: who read what."),
    );
}

fn real_part(page: &mut String, report: &Report) {
    let measured = &report.measured;
    page.push_str("<h2 id=\"real\">For real</h2>\n");
    page.push_str(&format!(
        "<p>A mirror of the same drives, {} of each, served over NBD on a unix socket by this \
         machine: <code>{}</code>. The models make each leg wait as long as the drive would; a \
         client reads random 4 KiB blocks for {:.1} s per row, and the policy is switched while \
         it is connected. Predicted is the simulator with the same legs, size, depth and \
         policy.</p>\n",
        format_size(measured.size_bytes),
        escaped(&measured.legs.join(" ")),
        measured.seconds,
    ));
    preformatted(page, &measured_table(&measured.rows, TableStyle::Plain));
    sentences(page, &measured_findings(&measured.rows));
    figure(
        page,
        &plot::versus(&measured.rows),
        "Random 4 KiB reads: measured (dot) beside predicted (ring), and the difference in percent \
         of the prediction.",
    );
    figure(
        page,
        &plot::real_shares(&measured.rows, &report.legs),
        "Random 4 KiB reads: who read what, measured and predicted.",
    );
}

fn facts(page: &mut String, report: &Report) {
    let Facts {
        version,
        build,
        created_utc,
        kernel,
        system,
        processor,
        cpu_count,
        memory_bytes,
    } = &report.facts;
    page.push_str("<dl>\n");
    for (name, value) in [
        ("made", created_utc.clone()),
        ("heliostat", format!("{version}, {build} build")),
        ("seed", report.seed.to_string()),
        (
            "form",
            if report.quick { "quick" } else { "full" }.to_owned(),
        ),
        ("kernel", kernel.clone()),
        ("system", system.clone()),
        ("processor", format!("{processor}, {cpu_count} threads")),
        ("memory", format_size(*memory_bytes)),
    ] {
        page.push_str(&format!("<dt>{name}</dt><dd>{}</dd>\n", escaped(&value)));
    }
    page.push_str(
        "</dl>\n<p>The figures are in <a href=\"report.json\">report.json</a> too.</p>\n",
    );
}

fn figure(page: &mut String, svg: &str, caption: &str) {
    let svg = svg.replacen(
        "<svg ",
        &format!("<svg role=\"img\" aria-label=\"{caption}\" "),
        1,
    );
    page.push_str(&format!(
        "<figure>\n{svg}<figcaption>{caption}</figcaption>\n</figure>\n"
    ));
}

fn preformatted(page: &mut String, text: &str) {
    page.push_str(&format!("<pre>{}</pre>\n", escaped(text)));
}

fn sentences(page: &mut String, sentences: &[String]) {
    page.push_str("<ul>\n");
    for sentence in sentences {
        // A percent sign is not parted from its number.
        let sentence = escaped(sentence).replace(" %", "&nbsp;%");
        page.push_str(&format!("<li>{sentence}</li>\n"));
    }
    page.push_str("</ul>\n");
}

/// `text` with what means something in HTML written out.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests;
