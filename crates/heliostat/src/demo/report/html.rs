//! A report as one page: no script, nothing fetched from elsewhere, light or dark as the reader
//! likes it.

use heliostat_bench::report::{Facts, Page, TableStyle, escaped};
use stdx::units::format_size;

use super::{
    Report, Workload, measured_findings, measured_table, plot, virtual_findings, virtual_table,
};

/// The whole page.
pub(super) fn page(report: &Report) -> String {
    let mut page = Page::new("heliostat: read policies side by side");
    head(&mut page, report);
    virtual_part(&mut page, report);
    real_part(&mut page, report);
    page.html("<h2 id=\"facts\">Where this comes from</h2>\n");
    facts(&mut page, report);
    page.finish()
}

fn head(page: &mut Page, report: &Report) {
    let legs = escaped(&report.legs.join(", "));
    let size = format_size(report.size_bytes);
    page.html(&format!(
        "<h1>Read policies side by side</h1>\n\
         <p>One mirror of {size} whose legs are {legs}, read under every policy that heliostat \
         has.</p>\n\
         <nav><a href=\"#virtual\">In virtual time</a><a href=\"#real\">For real</a>\
         <a href=\"#facts\">Where this comes from</a></nav>\n"
    ));
}

fn virtual_part(page: &mut Page, report: &Report) {
    page.html("<h2 id=\"virtual\">In virtual time</h2>\n");
    page.html(
        "<p>The engine and the policies that serve real disks, driven by device models and a \
         clock that only computes. The same seed gives the same figures on every machine.</p>\n",
    );
    page.preformatted(&virtual_table(&report.workloads, TableStyle::Plain));
    page.sentences(&virtual_findings(&report.workloads));
    for workload in &report.workloads {
        workload_plots(page, workload, &report.legs);
    }
}

fn workload_plots(page: &mut Page, workload: &Workload, legs: &[String]) {
    let title = workload.title;
    page.html(&format!(
        "<h3 id=\"{}\">{}</h3>\n",
        workload.name,
        escaped(title)
    ));
    let unit = workload.unit.name();
    page.figure(
        &plot::bars(workload),
        &format!("{title}: {unit} by policy, best first."),
    );
    page.figure(
        &plot::percentiles(workload),
        &format!(
            "{title}: response times by policy; left is better, and a short line is a steady \
                  policy."
        ),
    );
    page.figure(
        &plot::shares(workload, legs),
        &format!("{title}: who read what."),
    );
}

fn real_part(page: &mut Page, report: &Report) {
    let measured = &report.measured;
    page.html("<h2 id=\"real\">For real</h2>\n");
    page.html(&format!(
        "<p>A mirror of the same drives, {} of each, served over NBD on a unix socket by this \
         machine: <code>{}</code>. The models make each leg wait as long as the drive would; a \
         client reads random 4 KiB blocks for {:.1} s per row, and the policy is switched while \
         it is connected. Predicted is the simulator with the same legs, size, depth and \
         policy.</p>\n",
        format_size(measured.size_bytes),
        escaped(&measured.legs.join(" ")),
        measured.seconds,
    ));
    page.preformatted(&measured_table(&measured.rows, TableStyle::Plain));
    page.sentences(&measured_findings(&measured.rows));
    page.figure(
        &plot::versus(&measured.rows),
        "Random 4 KiB reads: measured (dot) beside predicted (ring), and the difference in percent \
         of the prediction.",
    );
    page.figure(
        &plot::real_shares(&measured.rows, &report.legs),
        "Random 4 KiB reads: who read what, measured and predicted.",
    );
}

fn facts(page: &mut Page, report: &Report) {
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
    page.definitions(&[
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
    ]);
    page.html("<p>The figures are in <a href=\"report.json\">report.json</a> too.</p>\n");
}

#[cfg(test)]
mod tests;
