//! `heliostat model`: the device models by name, what they are made of, and what they do.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _, stderr, stdout};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use heliostat_bench::ScenarioFile;
use heliostat_bench::data_sheet::{DataSheet, DepthRow};
use heliostat_bench::report::{
    TableStyle, TextCell, TextTable, check_directory, format, write_model_report,
};
use heliostat_model::claims::{Figure, sheet};
use heliostat_model::{DRIVES, ModelParams, drive};
use heliostat_runtime::UsageError;
use serde_json::json;
use stdx::suggest::closest;
use stdx::units::format_size;

/// What `heliostat model` is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ModelArgs {
    #[command(subcommand)]
    command: ModelCommand,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum ModelCommand {
    /// List the drives that exist by name.
    List {
        /// One object per line.
        #[arg(long)]
        json: bool,
    },
    /// Show what a drive is made of, as a table for a scenario file.
    Show {
        #[command(flatten)]
        which: Which,
        /// One object.
        #[arg(long)]
        json: bool,
    },
    /// Measure a drive's model, as a data sheet would.
    Check {
        #[command(flatten)]
        which: Which,
        /// One object on standard output, and nothing else there.
        #[arg(long)]
        json: bool,
        /// Write a page with plots there.
        #[arg(long, value_name = "DIR")]
        report: Option<PathBuf>,
    },
}

/// Which model.
#[derive(Clone, Debug, clap::Args)]
struct Which {
    /// The drive, as `heliostat model list` calls it; with --file, a model of that scenario.
    #[arg(value_name = "NAME")]
    name: String,
    /// The scenario whose legs have the model.
    #[arg(long, value_name = "SCENARIO.toml")]
    file: Option<PathBuf>,
}

impl Which {
    /// What the model is made of.
    fn params(&self) -> anyhow::Result<ModelParams> {
        if let Some(file) = &self.file {
            return params_in(file, &self.name);
        }
        if let Some(drive) = drive(&self.name) {
            return Ok(drive.params);
        }
        let hint = match closest(&self.name, DRIVES.iter().map(|drive| drive.name)) {
            Some(name) => format!("did you mean '{name}'?"),
            None => "see heliostat model list".to_owned(),
        };
        Err(UsageError(format!("there is no drive '{}'; {hint}", self.name)).into())
    }
}

/// What the model `name` of a scenario's legs is made of.
///
/// # Errors
/// Where the file is no scenario, or no leg of it is on such a model.
pub(crate) fn params_in(file: &Path, name: &str) -> anyhow::Result<ModelParams> {
    let file = ScenarioFile::load(file)?;
    let legs = &file.scenario.array.legs;
    let leg = legs.iter().find(|leg| leg.model == name);
    if let Some(leg) = leg {
        return Ok(leg.params);
    }
    let names: Vec<&str> = legs.iter().map(|leg| leg.model.as_str()).collect();
    anyhow::bail!(
        "{}: no leg is on '{name}': there are {}",
        file.file,
        names.join(", ")
    );
}

/// Does what was asked for.
///
/// # Errors
/// Where there is no such model, or the report cannot be written.
pub(crate) fn run(args: &ModelArgs) -> anyhow::Result<()> {
    match &args.command {
        ModelCommand::List { json } => print(&list(*json)),
        ModelCommand::Show { which, json } => print(&show(which, *json)?),
        ModelCommand::Check {
            which,
            json,
            report,
        } => {
            let params = which.params()?;
            if let Some(directory) = report {
                check_directory(directory)?;
            }
            let is_watched = stderr().is_terminal();
            let sheet = DataSheet::measure(&which.name, params, |what| {
                if is_watched {
                    // Whoever closed standard error does not want to know.
                    let _ = write!(stderr(), "\r\x1b[Kmeasuring {what}");
                }
            });
            if is_watched {
                let _ = write!(stderr(), "\r\x1b[K");
            }
            if *json {
                print(&format!("{}\n", sheet.to_json()))?;
            } else {
                print(&sheet_text(&sheet))?;
            }
            if let Some(directory) = report {
                let page = write_model_report(directory, &sheet)?;
                if !*json {
                    print(&format!("\nReport: {}\n", page.display()))?;
                }
            }
            Ok(())
        }
    }
}

fn list(json: bool) -> String {
    if json {
        let lines = DRIVES.iter().map(|drive| {
            let object = json!({
                "name": drive.name,
                "family": drive.params.family(),
                "size_bytes": drive.params.size_bytes(),
                "summary": drive.summary,
            });
            format!("{object}\n")
        });
        return lines.collect();
    }
    let widest = DRIVES.iter().map(|drive| drive.name.len()).max();
    let widest = widest.unwrap_or(0);
    let lines = DRIVES.iter().map(|drive| {
        let family = drive.params.family();
        format!("{:widest$}  {family:7}  {}\n", drive.name, drive.summary)
    });
    lines.collect()
}

/// The parameters as a table that can be put into a scenario file.
fn show(which: &Which, json: bool) -> anyhow::Result<String> {
    let params = which.params()?;
    let sheet = sheet(&which.name).filter(|_| which.file.is_none());
    let origin = |key| sheet.map_or("the scenario", |sheet| sheet.origin(key));
    let fields = params.fields();
    if json {
        let object = |field: &heliostat_model::Field| {
            json!({ "key": field.key, "value": field.value, "unit": field.unit,
                "meaning": field.meaning, "origin": origin(field.key) })
        };
        let fields: Vec<_> = fields.iter().map(object).collect();
        let object = json!({ "name": which.name, "family": params.family(), "fields": fields });
        return Ok(format!("{object}\n"));
    }
    let mut text = String::new();
    if let Some(drive) = drive(&which.name).filter(|_| which.file.is_none()) {
        let _ = writeln!(text, "# {}", drive.summary);
    }
    let name = toml_string(&format!("my-{}", which.name));
    let family = params.family();
    let _ = write!(text, "[[model]]\nname = {name}\nfamily = \"{family}\"\n");
    for field in fields {
        let (key, meaning) = (field.key, field.meaning);
        let value = match field.unit {
            "count" | "bool" => field.value,
            _ => toml_string(&field.value),
        };
        let _ = writeln!(text, "# {meaning}; {}\n{key} = {value}", origin(key));
    }
    Ok(text)
}

/// `text` as a string of TOML.
fn toml_string(text: &str) -> String {
    // JSON's strings are TOML's basic strings.
    json!(text).to_string()
}

/// The data sheet for a terminal.
fn sheet_text(sheet: &DataSheet) -> String {
    let mut text = format!(
        "{}, {}, measured on the model\n\nRandom 4 KiB reads\n",
        sheet.name,
        format_size(sheet.params.size_bytes())
    );
    text += &depth_table(&sheet.reads);
    text += "\nRandom 4 KiB writes, to an idle drive\n";
    text += &depth_table(&sheet.writes);
    text += "\nRandom 4 KiB, 70 % reads and 30 % writes\n";
    let mut mixed = table(&[
        "depth",
        "reads\nIOPS",
        "writes\nIOPS",
        "read p99\nms",
        "write p99\nms",
    ]);
    for row in &sheet.mixed {
        mixed.row(cells(&[
            row.depth.to_string(),
            format::rate(row.read_iops),
            format::rate(row.write_iops),
            format::milliseconds(row.read_ns.quantile(9_900)),
            format::milliseconds(row.write_ns.quantile(9_900)),
        ]));
    }
    text += &mixed.finish();
    text += "\nOne stream from the start, MB/s\n";
    let mut streams = table(&["size", "reads\nx1", "reads\nx8", "writes\nx8"]);
    for row in &sheet.streams {
        streams.row(cells(&[
            format_size(row.len_bytes),
            format::rate(row.read_alone / 1e6),
            format::rate(row.read_deep / 1e6),
            format::rate(row.write_deep / 1e6),
        ]));
    }
    text += &streams.finish();
    curves_text(&mut text, sheet);
    claims_text(&mut text, sheet);
    text
}

/// Zones, seeks, and writes on and on.
fn curves_text(text: &mut String, sheet: &DataSheet) {
    if !sheet.zones.is_empty() {
        *text += "\nA stream of reads, MB/s by place in percent\n";
        let zones = sheet.zones.iter().step_by(2);
        let zones: Vec<(String, f64)> = zones
            .map(|(place, rate)| (place.to_string(), rate / 1e6))
            .collect();
        *text += &text_bars(&zones);
    }
    if !sheet.seeks.is_empty() {
        *text += "\nSeek curve: shortest read of an idle drive, ms by distance in percent\n";
        let seeks: Vec<(String, f64)> = sheet
            .seeks
            .iter()
            .map(|row| (row.distance_percent.to_string(), row.min_ns as f64 / 1e6))
            .collect();
        *text += &text_bars(&seeks);
    }
    let size = format_size(sheet.steady_size_bytes);
    let _ = writeln!(
        text,
        "\nRandom 4 KiB writes on and on, depth 32, to {size}: IOPS after seconds"
    );
    // About ten of them, and the last.
    let every = (sheet.steady.len() / 10).max(1);
    let last = sheet.steady.len().saturating_sub(1) % every;
    let steady: Vec<(String, f64)> = sheet
        .steady
        .iter()
        .skip(last)
        .step_by(every)
        .map(|(at, iops)| match *at {
            at if at < 10.0 => (format!("{at:.2}"), *iops),
            at => (format::rate(at), *iops),
        })
        .collect();
    *text += &text_bars(&steady);
}

/// What others say of the drive beside what the model does.
fn claims_text(text: &mut String, sheet: &DataSheet) {
    if sheet.claims.is_empty() {
        return;
    }
    *text += "\nClaimed and measured\n";
    let mut claims = table(&["figure", "claimed", "measured", "differ by", "who says so"]);
    for (claim, measured) in &sheet.claims {
        let told = |value: f64| match claim.figure {
            Figure::ReadBandwidth | Figure::WriteBandwidth => {
                format!("{} MB/s", format::rate(value / 1e6))
            }
            Figure::SeekMean => format!("{:.1} ms", value / 1e6),
            Figure::ReadIopsDepth1
            | Figure::ReadIopsDepth32
            | Figure::ReadIopsMax
            | Figure::WriteIopsMax => format!("{} IOPS", format::rate(value)),
        };
        claims.row(cells(&[
            claim.figure.name().to_owned(),
            told(claim.value),
            told(*measured),
            format::percent((measured / claim.value - 1.0) * 100.0),
            claim.source.to_owned(),
        ]));
    }
    *text += &claims.finish();
}

fn depth_table(rows: &[DepthRow]) -> String {
    let mut lines = table(&[
        "depth",
        "IOPS",
        "p50\nms",
        "p90\nms",
        "p99\nms",
        "p99.9\nms",
        "max\nms",
    ]);
    for row in rows {
        let mut texts = vec![row.depth.to_string(), format::rate(row.iops)];
        for permyriad in [5_000, 9_000, 9_900, 9_990] {
            texts.push(format::milliseconds(row.service_ns.quantile(permyriad)));
        }
        texts.push(format::milliseconds(row.service_ns.max()));
        lines.row(cells(&texts));
    }
    lines.finish()
}

fn table(header: &[&str]) -> TextTable {
    let header = header.iter().map(|text| (*text).to_owned()).collect();
    TextTable::new(TableStyle::Plain, header)
}

fn cells(texts: &[String]) -> Vec<TextCell> {
    let cell = |(index, text): (usize, &String)| match index {
        0 => TextCell::name(text),
        _ => TextCell::number(text),
    };
    texts.iter().enumerate().map(cell).collect()
}

/// A plot of characters: a bar for each value.
fn text_bars(rows: &[(String, f64)]) -> String {
    const WIDTH: f64 = 50.0;
    let most = rows
        .iter()
        .map(|row| row.1)
        .fold(f64::MIN_POSITIVE, f64::max);
    let lines = rows.iter().map(|(name, value)| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "from 0 to the width"
        )]
        let length = (value / most * WIDTH).round() as usize;
        let value = if *value < 100.0 {
            format!("{value:.1}")
        } else {
            format::rate(*value)
        };
        format!("{name:>8} {value:>9} {}\n", "#".repeat(length))
    });
    lines.collect()
}

fn print(text: &str) -> anyhow::Result<()> {
    let written = stdout().lock().write_all(text.as_bytes());
    written.context("cannot write to standard output")
}

#[cfg(test)]
mod tests {
    use heliostat_bench::data_sheet::DataSheet;
    use heliostat_model::{DRIVES, ModelParams, drive};

    use super::{Which, list, sheet_text, show, text_bars};

    fn which(name: &str) -> Which {
        Which {
            name: name.to_owned(),
            file: None,
        }
    }

    #[test]
    fn every_drive_is_listed_on_a_line() {
        assert_eq!(list(false).lines().count(), DRIVES.len());
        assert_eq!(list(true).lines().count(), DRIVES.len());
        assert!(list(false).starts_with("hdd-7200-2tb    hdd "));
    }

    #[test]
    fn what_is_shown_makes_the_same_drive() {
        for drive in &DRIVES {
            let text = show(&which(drive.name), false).unwrap();
            let family = drive.params.family();
            let mut params = ModelParams::of_family(family).unwrap();
            for line in text.lines().filter(|line| !line.starts_with('#')) {
                let Some((key, value)) = line.split_once(" = ") else {
                    assert_eq!(line, "[[model]]");
                    continue;
                };
                if !["name", "family"].contains(&key) {
                    params.set(key, value.trim_matches('"')).unwrap();
                }
            }
            assert_eq!(params, drive.params, "{}", drive.name);
        }
    }

    #[test]
    fn a_name_that_nobody_knows_is_told_what_is_near() {
        let error = show(&which("hdd-7200-2bt"), false).unwrap_err();
        assert!(error.to_string().contains("did you mean 'hdd-7200-2tb'?"));
    }

    #[test]
    fn a_sheet_has_its_parts() {
        let sheet = DataSheet::measure("ram", drive("ram").unwrap().params, |_| ());
        let text = sheet_text(&sheet);
        for part in [
            "Random 4 KiB reads",
            "70 % reads",
            "One stream",
            "on and on",
        ] {
            assert!(text.contains(part), "{part}");
        }
        assert!(!text.contains("Seek curve"), "memory has no arm");
    }

    #[test]
    fn bars_are_as_long_as_their_values() {
        let rows = [("a".to_owned(), 200.0), ("b".to_owned(), 100.0)];
        let text = text_bars(&rows);
        let lengths: Vec<usize> = text.lines().map(|l| l.matches('#').count()).collect();
        assert_eq!(lengths, [50, 25]);
    }
}
