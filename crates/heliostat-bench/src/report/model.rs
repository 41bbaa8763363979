//! The report of `heliostat model check`: a data sheet with plots.

use std::path::{Path, PathBuf};

use stdx::units::format_size;

use super::{Page, directory, escaped};
use crate::data_sheet::{DataSheet, DepthRow};
use crate::plot::{self, Panel, PanelScale};

/// Writes the data sheet into `directory`. Answers the path of its page.
///
/// # Errors
/// Where the directory cannot be made or written, or holds a page that is no report.
pub fn write_model_report(directory: &Path, sheet: &DataSheet) -> anyhow::Result<PathBuf> {
    directory::write_directory(directory, &page(sheet), &sheet.to_json())?;
    Ok(directory.join(directory::PAGE))
}

fn page(sheet: &DataSheet) -> String {
    let mut page = Page::new(&format!("heliostat: data sheet of {}", sheet.name));
    let name = escaped(&sheet.name);
    page.html(&format!("<h1>{name}</h1>\n"));
    page.html("<p>A data sheet measured on the device model, in virtual time.</p>\n");
    let fields = sheet.params.fields();
    let fields: Vec<(&str, String)> = fields
        .into_iter()
        .map(|field| (field.key, field.value))
        .collect();
    page.definitions(&fields);
    random(&mut page, sheet);
    streams(&mut page, sheet);
    if !sheet.seeks.is_empty() {
        let distances: Vec<String> = sheet
            .seeks
            .iter()
            .map(|row| row.distance_percent.to_string())
            .collect();
        let min = sheet.seeks.iter().map(|row| row.min_ns as f64 / 1e6);
        let mean = sheet.seeks.iter().map(|row| row.mean_ns / 1e6);
        let lines = [
            ("the shortest: the seek", min.map(Some).collect()),
            (
                "the mean: the seek and half a turn",
                mean.map(Some).collect(),
            ),
        ];
        page.figure(
            &plot::curve("distance in percent of the drive", &distances, &lines, "ms"),
            "Seek curve: reads of an idle drive, by the distance from the one before.",
        );
    }
    let steady = Panel {
        name: &sheet.name,
        points: sheet
            .steady
            .iter()
            .map(|&(at, iops)| (at, Some(iops)))
            .collect(),
    };
    page.figure(
        &plot::panels(&[steady], &[], PanelScale::Rates, "IOPS"),
        &format!(
            "Random 4 KiB writes on and on, depth 32, to {}.",
            format_size(sheet.steady_size_bytes)
        ),
    );
    claims(&mut page, sheet);
    page.html("<p>The figures are in <a href=\"report.json\">report.json</a> too.</p>\n");
    page.finish()
}

/// Rates and times by depth.
fn random(page: &mut Page, sheet: &DataSheet) {
    let depths: Vec<String> = sheet
        .reads
        .iter()
        .map(|row| row.depth.to_string())
        .collect();
    let iops = |rows: &[DepthRow]| rows.iter().map(|row| Some(row.iops)).collect();
    let lines = [
        ("reads", iops(&sheet.reads)),
        ("writes", iops(&sheet.writes)),
    ];
    page.figure(
        &plot::curve("depth", &depths, &lines, "IOPS"),
        "Random 4 KiB requests by depth; writes go to an idle drive.",
    );
    for (name, rows) in [("Reads", &sheet.reads), ("Writes", &sheet.writes)] {
        let names: Vec<String> = rows
            .iter()
            .map(|row| format!("depth {}", row.depth))
            .collect();
        let times: Vec<_> = names
            .iter()
            .zip(rows)
            .map(|(name, row)| (name.as_str(), &row.service_ns))
            .collect();
        page.figure(
            &plot::percentiles(&times, "service time in ms"),
            &format!("{name}: service times by depth."),
        );
    }
    let names = |what: &str| -> Vec<String> {
        let rows = sheet.mixed.iter();
        rows.map(|row| format!("{what}, depth {}", row.depth))
            .collect()
    };
    let (reads, writes) = (names("reads"), names("writes"));
    let rows = sheet.mixed.iter().zip(reads.iter().zip(&writes));
    let times: Vec<_> = rows
        .flat_map(|(row, (read, write))| {
            [
                (read.as_str(), &row.read_ns),
                (write.as_str(), &row.write_ns),
            ]
        })
        .collect();
    page.figure(
        &plot::percentiles(&times, "service time in ms"),
        "70 % reads and 30 % writes at random: service times of both.",
    );
}

/// Bandwidth by size and by place.
fn streams(page: &mut Page, sheet: &DataSheet) {
    let sizes: Vec<String> = sheet
        .streams
        .iter()
        .map(|row| format_size(row.len_bytes))
        .collect();
    let rate = |value: f64| Some(value / 1e6);
    let lines = [
        (
            "reads, depth 1",
            sheet
                .streams
                .iter()
                .map(|row| rate(row.read_alone))
                .collect(),
        ),
        (
            "reads, depth 8",
            sheet
                .streams
                .iter()
                .map(|row| rate(row.read_deep))
                .collect(),
        ),
        (
            "writes, depth 8",
            sheet
                .streams
                .iter()
                .map(|row| rate(row.write_deep))
                .collect(),
        ),
    ];
    page.figure(
        &plot::curve("request size", &sizes, &lines, "MB/s"),
        "One stream from the start of the drive, by the size of its requests.",
    );
    if !sheet.zones.is_empty() {
        let places: Vec<String> = sheet.zones.iter().map(|zone| zone.0.to_string()).collect();
        let lines = [(
            "reads",
            sheet.zones.iter().map(|zone| rate(zone.1)).collect(),
        )];
        page.figure(
            &plot::curve("place in percent of the drive", &places, &lines, "MB/s"),
            "A stream of reads by its place: zones.",
        );
    }
}

/// What others say.
fn claims(page: &mut Page, sheet: &DataSheet) {
    if sheet.claims.is_empty() {
        return;
    }
    let rows: Vec<plot::Pair> = sheet
        .claims
        .iter()
        .map(|(claim, measured)| plot::Pair {
            name: claim.figure.name().to_owned(),
            found: 100.0 * measured / claim.value,
            expected: 100.0,
            note: super::format::percent((measured / claim.value - 1.0) * 100.0),
        })
        .collect();
    page.figure(
        &plot::paired_bars(&rows, "the model", "the claim", "percent of the claim"),
        "What data sheets and owners say, and what the model does.",
    );
    let sources: Vec<String> = sheet
        .claims
        .iter()
        .map(|(claim, _)| format!("{}: {}", claim.figure.name(), claim.source))
        .collect();
    page.sentences(&sources);
}

#[cfg(test)]
mod tests {
    use heliostat_model::drive;

    use super::page;
    use crate::data_sheet::DataSheet;

    #[test]
    fn a_sheet_is_a_page_and_its_name_is_text() {
        let sheet = DataSheet::measure("<b>ram</b>", drive("ram").unwrap().params, |_| ());
        let page = page(&sheet);
        assert!(!page.contains("<b>") && !page.contains("<script"));
        assert_eq!(page.matches("<svg ").count(), 6);
    }
}
