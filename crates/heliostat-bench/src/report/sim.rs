//! The report of `heliostat sim`: scenarios under policies, with plots, as one page.

mod words;

use std::path::{Path, PathBuf};

use heliostat_sim::{LegResult, Moved, RunResult, Scenario, Series, SeriesMoved, SeriesPoint};
use serde_json::{Value, json};
use stdx::histogram::Histogram;

use super::{Page, TableStyle, TextCell, TextTable, directory, escaped, format};
use crate::json::ResultJson;
use crate::plot::{self, LegScale, Panel, PanelScale};

/// A scenario and what came of it under one policy.
#[derive(Clone, Copy, Debug)]
pub struct SimRun<'a> {
    /// What was simulated.
    pub scenario: &'a Scenario,
    /// What came of it.
    pub result: &'a RunResult,
}

/// Writes a report of `runs`, which come scenario by scenario, into `directory`. Answers the path
/// of its page.
///
/// # Errors
/// Where the directory cannot be made or written, or holds a page that is no report.
pub fn write_sim_report(directory: &Path, runs: &[SimRun<'_>]) -> anyhow::Result<PathBuf> {
    let command = std::env::args().collect::<Vec<String>>().join(" ");
    let data = report_json(runs, &command);
    directory::write_directory(directory, &page(runs, &command), &data)?;
    Ok(directory.join(directory::PAGE))
}

/// The runs of one scenario.
type Group<'a> = &'a [SimRun<'a>];

/// Cuts the runs where the next scenario begins: where its name changes.
fn groups<'a>(runs: &'a [SimRun<'a>]) -> Vec<Group<'a>> {
    runs.chunk_by(|a, b| a.scenario.name == b.scenario.name && a.scenario.seed == b.scenario.seed)
        .collect()
}

/// What rates are told in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RateUnit {
    Iops,
    MibPerSecond,
}

/// From this mean size of a request on, bytes say more than requests.
const LARGE_REQUEST_BYTES: u64 = 64 << 10;

impl RateUnit {
    /// What suits requests of the size that these runs have.
    fn of(runs: Group<'_>) -> Self {
        let sum = |count: fn(&Moved) -> u64| {
            let both = |run: &SimRun<'_>| count(&run.result.read) + count(&run.result.write);
            runs.iter().map(both).sum::<u64>()
        };
        if sum(|moved| moved.bytes) / sum(|moved| moved.ios).max(1) >= LARGE_REQUEST_BYTES {
            Self::MibPerSecond
        } else {
            Self::Iops
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Iops => "IOPS",
            Self::MibPerSecond => "MiB/s",
        }
    }

    fn rate(self, moved: &Moved, result: &RunResult) -> f64 {
        match self {
            Self::Iops => moved.iops(result.seconds),
            Self::MibPerSecond => moved.bw_bytes(result.seconds) / f64::from(1 << 20),
        }
    }
}

/// One direction of the requests.
#[derive(Clone, Copy, Debug)]
struct Side {
    /// What it is called, at the beginning of a sentence.
    name: &'static str,
    moved: fn(&RunResult) -> &Moved,
    in_series: fn(&SeriesPoint) -> &SeriesMoved,
}

const SIDES: [Side; 2] = [
    Side {
        name: "Reads",
        moved: |result| &result.read,
        in_series: |point| &point.read,
    },
    Side {
        name: "Writes",
        moved: |result| &result.write,
        in_series: |point| &point.write,
    },
];

/// The sides on which anything was asked for, in any of the runs; reads where nothing was.
fn sides(runs: Group<'_>) -> Vec<Side> {
    let is_used = |side: &Side| runs.iter().any(|run| (side.moved)(run.result).ios > 0);
    let used: Vec<Side> = SIDES.into_iter().filter(is_used).collect();
    if used.is_empty() {
        return vec![SIDES[0]];
    }
    used
}

fn page(runs: &[SimRun<'_>], command: &str) -> String {
    let mut page = Page::new("heliostat: scenarios under read policies");
    let groups = groups(runs);
    page.html("<h1>Scenarios under read policies</h1>\n");
    page.html(
        "<p>In virtual time: the engine and the policies that serve real disks, driven by device \
         models and a clock that only computes. The same seed gives the same figures on every \
         machine.</p>\n",
    );
    index(&mut page, &groups);
    for (number, group) in groups.iter().enumerate() {
        section(&mut page, number, group);
    }
    page.html("<h2 id=\"facts\">Where this comes from</h2>\n");
    page.definitions(&[
        ("command", command.to_owned()),
        ("heliostat", env!("CARGO_PKG_VERSION").to_owned()),
        ("scenarios", groups.len().to_string()),
        ("runs", runs.len().to_string()),
    ]);
    page.html("<p>The figures are in <a href=\"report.json\">report.json</a> too.</p>\n");
    page.finish()
}

/// The scenarios with the best policy of each.
fn index(page: &mut Page, groups: &[Group<'_>]) {
    page.html(
        "<table>\n<thead><tr><th>scenario</th><th>policies</th><th>best</th>\
         <th class=\"number\">rate</th><th class=\"number\">over the worst</th></tr></thead>\n\
         <tbody>\n",
    );
    for (number, group) in groups.iter().enumerate() {
        let unit = RateUnit::of(group);
        let ranked = by_rate(group, unit);
        let total = |run: &SimRun<'_>| total_rate(run, unit);
        let (best, worst) = (ranked[0], ranked[ranked.len() - 1]);
        let ratio = match total(worst) {
            rate if ranked.len() > 1 && rate > 0.0 => format::times(total(best) / rate),
            _ => "-".to_owned(),
        };
        page.html(&format!(
            "<tr><td><a href=\"#s{number}\">{}</a></td><td>{}</td><td>{}</td>\
             <td class=\"number\">{} {}</td><td class=\"number\">{ratio}</td></tr>\n",
            escaped(&group[0].scenario.name),
            group.len(),
            escaped(&best.result.policy),
            format::rate(total(best)),
            unit.name(),
        ));
    }
    page.html("</tbody>\n</table>\n");
}

/// All about one scenario.
fn section(page: &mut Page, number: usize, group: Group<'_>) {
    let scenario = group[0].scenario;
    let unit = RateUnit::of(group);
    let ranked = by_rate(group, unit);
    page.html(&format!(
        "<h2 id=\"s{number}\">{}</h2>\n",
        escaped(&scenario.name)
    ));
    page.definitions(&words::scenario(scenario));
    let sides = sides(group);
    for side in &sides {
        throughput(page, &ranked, *side, unit);
        response_times(page, &ranked, *side);
    }
    legs(page, &ranked);
    over_time(page, &ranked, &sides, unit);
    distributions(page, &ranked, &sides);
    page.html("<h3>Numbers</h3>\n");
    page.preformatted(&table(&ranked, &sides, unit));
    hashes(page, group);
}

fn throughput(page: &mut Page, ranked: &[&SimRun<'_>], side: Side, unit: RateUnit) {
    let rates: Vec<(&str, f64)> = ranked
        .iter()
        .map(|run| {
            let rate = unit.rate((side.moved)(run.result), run.result);
            (run.result.policy.as_str(), rate)
        })
        .collect();
    let (name, unit) = (side.name, unit.name());
    page.figure(
        &plot::bars(&rates, unit),
        &format!("{name}: {unit} by policy."),
    );
}

fn response_times(page: &mut Page, ranked: &[&SimRun<'_>], side: Side) {
    let times: Vec<(&str, &Histogram)> = ranked
        .iter()
        .map(|run| {
            let moved = (side.moved)(run.result);
            (run.result.policy.as_str(), moved.response_time_ns())
        })
        .collect();
    page.figure(
        &plot::percentiles(&times, "response time in ms"),
        &format!(
            "{}: response times by policy; left is better, and a short line is a steady policy.",
            side.name
        ),
    );
}

/// What the legs did: who served what, how busy they were, how long they took.
fn legs(page: &mut Page, ranked: &[&SimRun<'_>]) {
    let models: Vec<String> = ranked[0]
        .result
        .legs
        .iter()
        .map(|leg| leg.model.clone())
        .collect();
    let shares: Vec<(String, Vec<u64>)> = ranked
        .iter()
        .map(|run| {
            let bytes = run.result.legs.iter().map(|leg| leg.read_bytes);
            (run.result.policy.clone(), bytes.collect())
        })
        .collect();
    let any_reads = shares.iter().any(|(_, bytes)| bytes.iter().any(|&n| n > 0));
    if any_reads {
        page.figure(
            &plot::shares(&shares, &models, "share of the bytes read, in percent"),
            "Which leg read how much.",
        );
    }
    page.figure(
        &plot::per_leg(
            &per_leg(ranked, |leg| leg.busy_fraction * 100.0),
            &models,
            LegScale::Percent,
            "time with at least one operation, in percent",
        ),
        "How busy each leg was.",
    );
    page.figure(
        &plot::per_leg(
            &per_leg(ranked, |leg| {
                leg.service_time_ns.quantile(5_000) as f64 / 1e6
            }),
            &models,
            LegScale::Logarithmic,
            "median service time in ms",
        ),
        "How long each leg took for an operation, from dispatch to completion: the median.",
    );
    page.figure(
        &plot::per_leg(
            &per_leg(ranked, |leg| {
                leg.service_time_ns.quantile(9_900) as f64 / 1e6
            }),
            &models,
            LegScale::Logarithmic,
            "p99 of the service time in ms",
        ),
        "How long each leg took for the slowest one percent of its operations.",
    );
}

/// How each policy went over time, where faults are seen.
fn over_time(page: &mut Page, ranked: &[&SimRun<'_>], sides: &[Side], unit: RateUnit) {
    let scenario = ranked[0].scenario;
    let end = ranked.iter().map(|run| run.result.seconds.as_secs_f64());
    let end = end.fold(0.0, f64::max);
    let spans: Vec<(f64, f64)> = scenario
        .faults
        .iter()
        .map(words::fault_span)
        .map(|(from, until)| (from, until.unwrap_or(end)))
        .collect();
    for side in sides {
        let rate = |point: &SeriesPoint| {
            let moved = (side.in_series)(point);
            let amount = match unit {
                RateUnit::Iops => moved.ios as f64,
                RateUnit::MibPerSecond => moved.bytes as f64 / f64::from(1 << 20),
            };
            Some(amount / point.length.as_secs_f64())
        };
        let p99 = |point: &SeriesPoint| {
            let moved = (side.in_series)(point);
            (moved.ios > 0).then_some(moved.p99_ns as f64 / 1e6)
        };
        let (name, unit) = (side.name, unit.name());
        page.figure(
            &plot::panels(&panels(ranked, rate), &spans, PanelScale::Rates, unit),
            &format!("{name} over time: {unit}, policy by policy."),
        );
        page.figure(
            &plot::panels(&panels(ranked, p99), &spans, PanelScale::Times, "p99 in ms"),
            &format!(
                "{name} over time: response time of the slowest percent in each interval. A gap: \
                 nothing was answered."
            ),
        );
    }
}

/// One value of each interval, run by run.
fn panels<'a>(
    ranked: &[&SimRun<'a>],
    value: impl Fn(&SeriesPoint) -> Option<f64>,
) -> Vec<Panel<'a>> {
    let panel = |run: &&SimRun<'a>| Panel {
        name: run.policy_name(),
        points: over_seconds(&run.result.series, &value),
    };
    ranked.iter().map(panel).collect()
}

/// The middle of each interval in seconds, and its value.
fn over_seconds(
    series: &Series,
    value: impl Fn(&SeriesPoint) -> Option<f64>,
) -> Vec<(f64, Option<f64>)> {
    let mut begins = 0.0;
    let points = series.points.iter().map(|point| {
        let length = point.length.as_secs_f64();
        let middle = begins + length / 2.0;
        begins += length;
        (middle, value(point))
    });
    points.collect()
}

/// The buckets of `histogram_ms`.
const BUCKETS: [&str; 15] = [
    "<8", "<16", "<32", "<64", "<128", "<256", "<512", "<1s", "<2s", "<4s", "<8s", "<16s", "<33s",
    "<66s", "more",
];

/// The histograms in the buckets that kernels have.
fn distributions(page: &mut Page, ranked: &[&SimRun<'_>], sides: &[Side]) {
    for side in sides {
        let histogram = |run: &&SimRun<'_>| (side.moved)(run.result).histogram_ms();
        let counts: Vec<[u64; BUCKETS.len()]> = ranked.iter().map(histogram).collect();
        let rows = ranked.iter().zip(&counts);
        let rows: Vec<(&str, &[u64])> = rows
            .map(|(run, counts)| (run.policy_name(), counts.as_slice()))
            .collect();
        page.figure(
            &plot::distribution(&rows, &BUCKETS, "response time in ms, in s from 1s on"),
            &format!(
                "{}: how many percent of the requests took how long; each bucket is twice as \
                 wide as the one before.",
                side.name
            ),
        );
    }
}

/// One value of each leg, run by run.
fn per_leg<'a>(
    ranked: &[&SimRun<'a>],
    value: impl Fn(&LegResult) -> f64,
) -> Vec<(&'a str, Vec<f64>)> {
    let row = |run: &&SimRun<'a>| {
        let values = run.result.legs.iter().map(&value).collect();
        (run.policy_name(), values)
    };
    ranked.iter().map(row).collect()
}

impl<'a> SimRun<'a> {
    fn policy_name(&self) -> &'a str {
        &self.result.policy
    }
}

/// Reads and writes per second, together.
fn total_rate(run: &SimRun<'_>, unit: RateUnit) -> f64 {
    unit.rate(&run.result.read, run.result) + unit.rate(&run.result.write, run.result)
}

/// The runs, the highest rate first; equal ones in the order they came in.
fn by_rate<'a>(group: Group<'a>, unit: RateUnit) -> Vec<&'a SimRun<'a>> {
    let mut ranked: Vec<&SimRun<'_>> = group.iter().collect();
    ranked.sort_by(|a, b| total_rate(b, unit).total_cmp(&total_rate(a, unit)));
    ranked
}

/// All figures that plots are made of.
fn table(ranked: &[&SimRun<'_>], sides: &[Side], unit: RateUnit) -> String {
    let mut header = vec!["policy".to_owned()];
    for side in sides {
        header.push(format!("{}\n{}", side.name.to_lowercase(), unit.name()));
        for name in ["mean", "p50", "p99", "p99.9", "max"] {
            header.push(format!("{name}\nms"));
        }
    }
    header.push("errors".to_owned());
    let mut table = TextTable::new(TableStyle::Plain, header);
    for run in ranked {
        let mut row = vec![TextCell::name(run.policy_name())];
        for side in sides {
            let moved = (side.moved)(run.result);
            let rate = unit.rate(moved, run.result);
            row.push(TextCell::number(&format::rate(rate)));
            let times = moved.response_time_ns();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a mean of whole nanoseconds"
            )]
            let mean = times.mean() as u64;
            let quantiles = [5_000, 9_900, 9_990].map(|permyriad| times.quantile(permyriad));
            for ns in [mean].into_iter().chain(quantiles).chain([times.max()]) {
                row.push(TextCell::number(&format::milliseconds(ns)));
            }
        }
        row.push(TextCell::number(&run.result.errors.to_string()));
        table.row(row);
    }
    table.finish()
}

/// What proves that somebody else's run was the same.
fn hashes(page: &mut Page, group: Group<'_>) {
    page.html("<details>\n<summary>Trace hashes</summary>\n");
    let mut table = TextTable::new(
        TableStyle::Plain,
        ["policy", "seed", "events", "trace hash"]
            .map(str::to_owned)
            .to_vec(),
    );
    for run in group {
        table.row(vec![
            TextCell::name(run.policy_name()),
            TextCell::number(&run.result.seed.to_string()),
            TextCell::number(&run.result.event_count.to_string()),
            TextCell::number(&format!("{:016x}", run.result.trace_hash)),
        ]);
    }
    page.preformatted(&table.finish());
    page.html("</details>\n");
}

/// The name and version of the layout of `report.json`.
const SCHEMA: &str = "heliostat-sim/1";

fn report_json(runs: &[SimRun<'_>], command: &str) -> Value {
    let run = |run: &SimRun<'_>| json!(ResultJson::new(run.result));
    json!({
        "schema": SCHEMA,
        "command": command,
        "version": env!("CARGO_PKG_VERSION"),
        "runs": runs.iter().map(run).collect::<Vec<Value>>(),
    })
}

#[cfg(test)]
mod tests;
