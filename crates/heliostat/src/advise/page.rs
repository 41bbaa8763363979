//! What is shown: each leg, a table of settings, what to set, and what was assumed.

use std::fmt::Write as _;

use heliostat_bench::forecast::{Cell, Forecast, Load, Row, System};
use heliostat_bench::report::{TableStyle, TextCell, TextTable, format};
use heliostat_model::ModelParams;
use heliostat_model::fit::{Confidence, Fit, ProbeKind};
use serde_json::{Value, json};
use stdx::units::format_size;

use super::commands::{Origin, commands};

/// A leg with what was found out of it.
#[derive(Debug)]
pub(super) struct Leg {
    pub(super) name: String,
    pub(super) size_bytes: u64,
    pub(super) reads: u64,
    pub(super) fit: Fit,
    /// What blurs its figures, a sentence each.
    pub(super) caveats: Vec<String>,
}

/// All that is shown.
#[derive(Debug)]
pub(super) struct Page<'a> {
    pub(super) origin: &'a Origin,
    pub(super) legs: &'a [Leg],
    /// None where there is but one leg.
    pub(super) forecast: Option<&'a Forecast>,
}

/// How wide text is at most.
const COLUMNS: usize = 80;

/// A miss of single loops that is worth a line.
const MISS_SHOWN: f64 = 0.15;

/// What the columns are.
const LEGEND: &str = "
4K: random reads of 4 KiB at depth 1 and 32; stream: 1 MiB, 4 at a time; 8 of it:
each 1 at a time; 70/30: random 4 KiB, 70 % reads, depth 32; all: the mean share
of the best of each column
";

/// What a family is called.
fn family(params: &ModelParams) -> &'static str {
    match params {
        ModelParams::Hdd(_) => "disk that turns",
        ModelParams::Flash(_) => "flash",
        ModelParams::Network(_) => "network disk",
        ModelParams::Ram(_) => "memory",
    }
}

/// What was measured of a loop: reads per second.
fn measured(fit: &Fit, kind: ProbeKind) -> Option<f64> {
    let mut misses = fit.misses.iter();
    misses
        .find(|miss| miss.kind == kind)
        .map(|miss| miss.measured)
}

impl Page<'_> {
    /// For a terminal.
    pub(super) fn text(&self) -> String {
        let mut text = self.legs_text();
        if let Some(forecast) = self.forecast {
            text += &self.forecast_text(forecast);
        }
        text += "\nAssumed\n";
        for line in self.assumed() {
            text += &format::wrapped(&line, COLUMNS - 2)
                .lines()
                .map(|line| format!("  {line}\n"))
                .collect::<String>();
        }
        text
    }

    fn legs_text(&self) -> String {
        let header = [
            "leg",
            "taken for",
            "random 4K\nIOPS, d1",
            "\nd32",
            "stream\nMB/s",
            "fit\nmisses",
        ];
        let header = header.iter().map(|text| (*text).to_owned()).collect();
        let mut table = TextTable::new(TableStyle::Plain, header);
        for (index, leg) in self.legs.iter().enumerate() {
            let fit = &leg.fit;
            let shown = |kind, unit: f64| {
                let value = measured(fit, kind).map(|value| format::rate(value * unit));
                TextCell::number(&value.unwrap_or_else(|| "-".to_owned()))
            };
            table.row(vec![
                TextCell::name(&index.to_string()),
                TextCell::number(&format!("{}, {}", family(&fit.params), fit.confidence)),
                shown(ProbeKind::Random(1), 1.0),
                shown(ProbeKind::Random(32), 1.0),
                shown(ProbeKind::Stream(0), MIB / 1e6),
                TextCell::number(&format!("{:.0} %", fit.residual * 100.0)),
            ]);
        }
        let mut text = format!("{}\n", table.finish());
        for (index, leg) in self.legs.iter().enumerate() {
            let _ = writeln!(
                text,
                "leg {index}: {}, {}, {} reads",
                leg.name,
                format_size(leg.size_bytes),
                leg.reads
            );
            for line in leg.caveats.iter().cloned().chain(fit_caveats(&leg.fit)) {
                for line in format::wrapped(&line, COLUMNS - 2).lines() {
                    let _ = writeln!(text, "  {line}");
                }
            }
        }
        text
    }

    fn forecast_text(&self, forecast: &Forecast) -> String {
        let mut text =
            "\nWhat to expect, simulated on these models (*: best, within 2 %)\n\n".to_owned();
        let header = [
            "setting",
            "4K d1\nIOPS",
            "4K d32\nIOPS",
            "stream\nMB/s",
            "8 of it\nMB/s",
            "70/30\nIOPS",
            "all",
        ];
        let header = header.iter().map(|text| (*text).to_owned()).collect();
        let mut table = TextTable::new(TableStyle::Plain, header);
        let best = |load: usize| {
            let rows = forecast.rows.iter();
            let values = rows.filter_map(|row| value(row.cells[load].as_ref(), load));
            values.fold(0.0, f64::max)
        };
        let best: Vec<f64> = (0..Load::ALL.len()).map(best).collect();
        for row in &forecast.rows {
            let mut cells = vec![TextCell::name(&row.knob.name())];
            for (load, cell) in row.cells.iter().enumerate() {
                cells.push(match value(cell.as_ref(), load) {
                    Some(value) => {
                        TextCell::marked(&format::rate(value), value >= best[load] * 0.98)
                    }
                    None => TextCell::number("-"),
                });
            }
            let score = row.score.map(|score| format!("{:.0} %", score * 100.0));
            cells.push(TextCell::number(score.as_deref().unwrap_or("-")));
            table.row(cells);
        }
        text += &table.finish();
        text += LEGEND;
        if !forecast.is_whole() {
            text += "-: there was no time for it; --time-in-all gives it longer\n";
        }
        for system in System::ALL {
            if let Some(row) = forecast.best(system) {
                text += &self.advice(forecast, system, row);
            }
        }
        text
    }

    /// What to set for a system, and how.
    fn advice(&self, forecast: &Forecast, system: System, row: &Row) -> String {
        let score = row.score.unwrap_or(0.0) * 100.0;
        let name = row.knob.name();
        let mut text = format!("\n{}: best is {name} ({score:.0} %)\n", system.name());
        for line in commands(&row.knob, self.origin, &forecast.slow) {
            let _ = writeln!(text, "  {line}");
        }
        text
    }

    /// What the figures stand on, a sentence or two each.
    fn assumed(&self) -> Vec<String> {
        let mut all = vec![
            "Only reads were measured. What writes take is what is usual for such drives, of \
             which caches are empty: 70/30 is a guess of the right order."
                .to_owned(),
        ];
        if self.forecast.is_some() {
            all.push(
                "The kernel's settings are its rules for choosing a leg, under our engine. Page \
                 cache, merging, schedulers, ZFS's ARC and checksums are in none of the figures."
                    .to_owned(),
            );
            all.push(
                "btrfs pid is chance: a single process has the one leg or the other.".to_owned(),
            );
        } else {
            all.push("With one leg there is nothing to choose: name all legs.".to_owned());
        }
        all
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        let legs = self.legs.iter().map(|leg| {
            let fit = &leg.fit;
            let parameters: serde_json::Map<String, Value> = fit
                .params
                .fields()
                .into_iter()
                .map(|field| (field.key.to_owned(), json!(field.value)))
                .collect();
            let loops = fit.misses.iter().map(|miss| {
                json!({ "loop": miss.kind.to_string(), "measured_iops": miss.measured,
                    "modelled_iops": miss.modelled })
            });
            let caveats: Vec<String> = leg
                .caveats
                .iter()
                .cloned()
                .chain(fit_caveats(fit))
                .collect();
            json!({ "leg": leg.name, "size_bytes": leg.size_bytes, "reads": leg.reads,
                "family": fit.params.family(), "confidence": fit.confidence.to_string(),
                "residual": fit.residual,
                "rival": fit.rival.map(|(family, residual)|
                    json!({ "family": family, "residual": residual })),
                "loops": loops.collect::<Vec<_>>(), "parameters": parameters,
                "caveats": caveats })
        });
        let mut object = json!({
            "legs": legs.collect::<Vec<_>>(),
            "assumed": self.assumed(),
        });
        if let Some(forecast) = self.forecast {
            let rows = forecast.rows.iter();
            object["settings"] = rows.map(|row| self.row_json(forecast, row)).collect();
            let best = System::ALL.iter().filter_map(|system| {
                let row = forecast.best(*system)?;
                Some((system.name().to_owned(), json!(row.knob.name())))
            });
            object["best"] = Value::Object(best.collect());
            object["complete"] = json!(forecast.is_whole());
        }
        object
    }

    fn row_json(&self, forecast: &Forecast, row: &Row) -> Value {
        let loads = Load::ALL.iter().zip(&row.cells);
        let loads = loads.map(|(load, cell)| {
            let cell = cell.map(|cell| {
                json!({ "iops": cell.iops, "bw_bytes": cell.bytes_per_s,
                    "read_response_time_ns": { "mean": cell.read_mean_ns,
                        "p99": cell.read_p99_ns } })
            });
            (load.name().to_owned(), json!(cell))
        });
        let loads: serde_json::Map<String, Value> = loads.collect();
        json!({ "setting": row.knob.name(), "system": row.knob.system().name(),
            "loads": loads, "score": row.score,
            "commands": commands(&row.knob, self.origin, &forecast.slow) })
    }
}

/// What a fit itself has to say: how sure it is, and where it misses.
fn fit_caveats(fit: &Fit) -> Vec<String> {
    let mut all = Vec::new();
    if let Some((rival, residual)) = fit.rival
        && fit.confidence != Confidence::Sure
    {
        all.push(format!(
            "It may be a {rival} device as well: that misses by {:.0} %.",
            residual * 100.0
        ));
    }
    for miss in &fit.misses {
        let share = miss.share();
        if share.abs() > MISS_SHOWN {
            all.push(format!(
                "The model is {:.0} % {} what was measured of {}.",
                share.abs() * 100.0,
                if share > 0.0 { "above" } else { "below" },
                miss.kind
            ));
        }
    }
    all
}

/// The figure of a load that is shown.
fn value(cell: Option<&Cell>, load: usize) -> Option<f64> {
    let cell = cell?;
    Some(match Load::ALL[load].is_in_bytes() {
        true => cell.bytes_per_s / 1e6,
        false => cell.iops,
    })
}

/// Bytes of a read of a stream.
const MIB: f64 = 1_048_576.0;

#[cfg(test)]
mod tests {
    use heliostat_bench::forecast::{Cell, Forecast, Knob, Load, Row};
    use heliostat_model::drive;
    use heliostat_model::fit::{Confidence, Fit, Miss, ProbeKind};

    use super::{Leg, Page};
    use crate::advise::commands::Origin;

    fn leg(name: &str, confidence: Confidence) -> Leg {
        let miss = |kind, modelled| Miss {
            kind,
            measured: 100_000.0,
            modelled,
        };
        Leg {
            name: format!("/dev/{name}"),
            size_bytes: 1 << 40,
            reads: 12_345,
            fit: Fit {
                params: drive(name).unwrap().params,
                misses: vec![
                    miss(ProbeKind::Random(1), 101_000.0),
                    miss(ProbeKind::Stream(0), 130_000.0),
                ],
                residual: 0.13,
                confidence,
                rival: Some(("network", 0.14)),
            },
            caveats: vec!["In use (somebody).".to_owned()],
        }
    }

    fn row(knob: Knob, iops: f64, has_time: bool) -> Row {
        let cell = Cell {
            iops,
            bytes_per_s: iops * 4096.0,
            read_mean_ns: 1e6,
            read_p99_ns: 2_000_000,
        };
        Row {
            knob,
            cells: vec![has_time.then_some(cell); Load::ALL.len()],
            score: has_time.then_some(0.5),
        }
    }

    /// Shows what was found of a disk and flash.
    fn shown(has_time: bool) -> (String, serde_json::Value) {
        let legs = [
            leg("hdd-7200-2tb", Confidence::Sure),
            leg("net-ssd", Confidence::Unsure),
        ];
        let origin = Origin {
            legs: legs.iter().map(|leg| leg.name.clone()).collect(),
            btrfs: None,
        };
        let forecast = Forecast {
            slow: vec![0],
            fastest: 1,
            rows: vec![
                row(Knob::Policy("adaptive".to_owned()), 123_456.0, true),
                row(Knob::Md { write_mostly: true }, 1_234.0, has_time),
                row(Knob::BtrfsPid { leg: 0 }, 7.0, true),
            ],
        };
        let page = Page {
            origin: &origin,
            legs: &legs,
            forecast: Some(&forecast),
        };
        (page.text(), page.json())
    }

    #[test]
    fn the_page_says_what_was_found_and_what_blurs_it() {
        let (text, json) = shown(true);
        for part in [
            "disk that turns, sure",
            "network disk, unsure",
            "may be a network device as well: that misses by 14 %",
            "30 % above what was measured of stream at 0 %",
            "In use (somebody)",
            "*123,456",
            "md: best is md write-mostly (50 %)",
            "--write-mostly /dev/hdd-7200-2tb",
            "Only reads were measured",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("btrfs: best"), "luck is no advice: {text}");
        assert!(!text.contains("no time"), "{text}");
        assert_eq!(json["best"]["md"], "md write-mostly");
        assert_eq!(json["legs"][0]["family"], "hdd");
        assert_eq!(json["complete"], true);
    }

    #[test]
    fn what_there_was_no_time_for_is_said() {
        let (text, json) = shown(false);
        assert!(
            text.contains("there was no time for it; --time-in-all"),
            "{text}"
        );
        assert!(!text.contains("md: best"), "{text}");
        assert_eq!(json["complete"], false);
        assert!(json["settings"][1]["loads"]["read_1m_stream"].is_null());
    }
}
