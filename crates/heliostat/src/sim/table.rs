//! The results of one scenario side by side, for people.

use comfy_table::{Cell, CellAlignment, Table, TableComponent, presets};
use heliostat_bench::ScenarioFile;
use heliostat_bench::report::format::{count, rate, wrapped};
use heliostat_sim::{BackgroundWork, JobBound, LegResult, Moved, RunResult};
use heliostat_types::Duration;
use stdx::units::format_size;

use crate::histogram::histogram;

/// Lines of text are no longer than this.
const TEXT_COLUMNS: usize = 100;

/// The results of one scenario.
#[derive(Debug)]
pub(super) struct ScenarioTable {
    facts: String,
    description: String,
    /// What no policy can exceed, where that is known.
    bound: Option<JobBound>,
    /// For each job, whether its requests come whatever is answered.
    are_open: Vec<bool>,
    results: Vec<RunResult>,
}

/// One column: its head, its cells, and how soon it is left out where the terminal is narrow (0:
/// never).
struct Column {
    head: &'static str,
    leave_out: u8,
    cells: Vec<String>,
}

impl ScenarioTable {
    /// A table without results yet.
    pub(super) fn new(file: &ScenarioFile, bound: Option<JobBound>) -> Self {
        let jobs = file.scenario.jobs.iter();
        Self {
            facts: facts(file),
            description: file.description.clone(),
            bound,
            are_open: jobs.map(|job| !job.arrival.is_closed()).collect(),
            results: Vec::new(),
        }
    }

    /// Adds one result.
    pub(super) fn add(&mut self, result: RunResult) {
        self.results.push(result);
    }

    /// All of it, for a terminal of so many columns.
    pub(super) fn show(&self, width: usize) -> String {
        let text_width = width.min(TEXT_COLUMNS);
        let mut text = wrapped(&self.facts, text_width) + "\n";
        if !self.description.is_empty() {
            text += &(wrapped(&self.description, text_width) + "\n");
        }
        let any = |count: fn(&RunResult) -> u64| self.results.iter().any(|r| count(r) > 0);
        let has_writes = any(|result| result.write.ios);
        let has_reads = any(|result| result.read.ios) || !has_writes;
        let mut columns = Vec::new();
        if has_reads {
            columns = self.columns(&READS);
            columns.push(self.column("% of reads\nper leg", 1, shares));
        }
        if has_writes && !has_reads {
            columns = self.columns(&WRITES);
        }
        if let Some(work) = self.results.iter().find_map(|result| result.background) {
            let head = match work.work {
                BackgroundWork::Resync => "resync\nMiB/s",
                BackgroundWork::Check => "check\nMiB/s",
            };
            columns.push(self.column(head, 0, background_rate));
        }
        if any(|result| result.errors) {
            columns.push(self.column("errors", 0, |result| result.errors.to_string()));
        }
        let hash = |result: &RunResult| format!("{:016x}", result.trace_hash);
        columns.push(self.column("trace hash", 7, hash));
        narrow(&mut columns, width);
        text += &format!("\n{}", draw(&columns));
        if has_reads && has_writes {
            let mut columns = self.columns(&WRITES);
            narrow(&mut columns, width);
            text += &format!("\n{}", draw(&columns));
        }
        let waiting = self.results.iter().filter_map(|one| self.waiting_text(one));
        let waiting = waiting.collect::<Vec<_>>().join(" ");
        if !waiting.is_empty() {
            text += &format!("\n{}\n", wrapped(&waiting, text_width));
        }
        if let Some(bound) = &self.bound {
            text += &format!(
                "\n{}\n",
                wrapped(&bound_text(bound, &self.results), text_width)
            );
        }
        if columns.iter().all(|column| column.head != "trace hash") {
            let hashes = self.results.iter();
            let hashes = hashes.map(|result| format!("{} {}", result.policy, hash(result)));
            let hashes = format!("Trace hashes: {}.", hashes.collect::<Vec<_>>().join(", "));
            text += &format!("\n{}\n", wrapped(&hashes, text_width));
        }
        text
    }

    /// Which requests are in none of the times, in a sentence: of those that come whatever is
    /// answered, what waited in the end, where that is one of a hundred.
    fn waiting_text(&self, result: &RunResult) -> Option<String> {
        let jobs = result.jobs.iter().zip(&self.are_open);
        let open = jobs.filter(|(_, is_open)| **is_open).map(|(job, _)| job);
        let (mut answered, mut ios, mut waited_ns) = (0, 0, 0);
        for job in open {
            answered += job.read.ios + job.write.ios;
            ios += job.unanswered.ios;
            waited_ns += job.unanswered.waited_ns;
        }
        let mean_ns = waited_ns.checked_div(u128::from(ios))?;
        let mean = Duration::from_ns(u64::try_from(mean_ns).unwrap_or(u64::MAX));
        let text = format!(
            "Under {}, {} requests still waited in the end, for {mean} on average: no time above \
             has them.",
            result.policy,
            count(ios)
        );
        (ios.saturating_mul(100) > answered).then_some(text)
    }

    /// How long reads and writes took under each policy, in buckets.
    pub(super) fn histograms(&self, bar_columns: u16) -> String {
        let mut text = String::new();
        for result in &self.results {
            for (kind, moved) in [("reads", &result.read), ("writes", &result.write)] {
                let name = format!("{}, {kind}", result.policy);
                let max = Duration::from_ns(moved.response_time_ns().max());
                text.push('\n');
                text += &histogram(&name, &moved.histogram_ms(), max, bar_columns);
            }
        }
        text
    }

    /// How much was read, or written, and how long that took.
    fn columns(&self, side: &Side) -> Vec<Column> {
        let moved = side.moved;
        let time = |moved: &Moved, ns: u64| match moved.ios {
            0 => "-".to_owned(),
            _ => Duration::from_ns(ns).to_string(),
        };
        let quantile = |permyriad| {
            move |result: &RunResult| {
                let moved = moved(result);
                time(moved, moved.response_time_ns().quantile(permyriad))
            }
        };
        let iops = |result: &RunResult| rate(moved(result).iops(result.seconds));
        let bw = |result: &RunResult| {
            let bytes = moved(result).bw_bytes(result.seconds);
            rate(bytes / f64::from(1 << 20))
        };
        let mean = |result: &RunResult| {
            let times = moved(result).response_time_ns();
            let mean_ns = times.sum() / u128::from(times.count()).max(1);
            time(moved(result), u64::try_from(mean_ns).unwrap_or(u64::MAX))
        };
        let max = |result: &RunResult| time(moved(result), moved(result).response_time_ns().max());
        vec![
            self.column("policy", 0, |result| result.policy.clone()),
            self.column(side.iops_head, 0, iops),
            self.column(side.bw_head, 0, bw),
            self.column("mean", 4, mean),
            self.column("p50", 5, quantile(5_000)),
            self.column("p99", 2, quantile(9_900)),
            self.column("p99.9", 3, quantile(9_990)),
            self.column("max", 6, max),
        ]
    }

    fn column(
        &self,
        head: &'static str,
        leave_out: u8,
        cell: impl Fn(&RunResult) -> String,
    ) -> Column {
        Column {
            head,
            leave_out,
            cells: self.results.iter().map(cell).collect(),
        }
    }
}

/// What no policy can exceed, in a sentence. It is what devices do in the long run, as it was
/// measured: what a run did besides, by what was in flight as it began to count and by luck, is not
/// called impossible below its own figures.
fn bound_text(bound: &JobBound, results: &[RunResult]) -> String {
    let side = |what, moved: fn(&RunResult) -> &Moved, iops: f64, bw_bytes: f64| {
        let done = |of: fn(&Moved, Duration) -> f64| {
            let done = results.iter().map(|run| of(moved(run), run.seconds));
            done.fold(0.0, f64::max)
        };
        let mib = rate(bw_bytes.max(done(Moved::bw_bytes)) / f64::from(1 << 20));
        let iops = rate(iops.max(done(Moved::iops)));
        format!("{iops} {what} ({mib} MiB) per second")
    };
    let (reads, writes) = (bound.read_iops, bound.write_iops);
    let sides = [
        (reads > 0.0).then(|| side("reads", |run| &run.read, reads, bound.read_bw_bytes)),
        (writes > 0.0).then(|| side("writes", |run| &run.write, writes, bound.write_bw_bytes)),
    ];
    let sides = sides.into_iter().flatten().collect::<Vec<_>>();
    format!(
        "No policy can do more than about {}: the limit is the {}.",
        sides.join(" and "),
        bound.limit
    )
}

/// Reads or writes.
struct Side {
    iops_head: &'static str,
    bw_head: &'static str,
    moved: fn(&RunResult) -> &Moved,
}

const READS: Side = Side {
    iops_head: "read\nIOPS",
    bw_head: "read\nMiB/s",
    moved: |result| &result.read,
};

const WRITES: Side = Side {
    iops_head: "write\nIOPS",
    bw_head: "write\nMiB/s",
    moved: |result| &result.write,
};

/// Leaves columns out until `width` is enough.
fn narrow(columns: &mut Vec<Column>, width: usize) {
    while text_width(columns) > width {
        let first = columns.iter().enumerate();
        let first = first.max_by_key(|(_, column)| column.leave_out);
        match first {
            Some((index, column)) if column.leave_out > 0 => drop(columns.remove(index)),
            _ => return,
        }
    }
}

/// What the scenario is, in a sentence.
fn facts(file: &ScenarioFile) -> String {
    let scenario = &file.scenario;
    let mut legs: Vec<(usize, &str)> = Vec::new();
    for leg in &scenario.array.legs {
        match legs.last_mut().filter(|(_, model)| *model == leg.model) {
            Some((count, _)) => *count += 1,
            None => legs.push((1, &leg.model)),
        }
    }
    let legs = legs.iter().map(|(count, model)| match count {
        1 => (*model).to_owned(),
        _ => format!("{count} x {model}"),
    });
    let time = match scenario.seconds {
        Duration::ZERO => "until all is moved".to_owned(),
        seconds => format!("for {} s", seconds.as_secs_f64()),
    };
    let scheduler = match scenario.array.scheduler_text().as_str() {
        "none" => String::new(),
        other => format!(", scheduler {other}"),
    };
    format!(
        "{}: {} of {}{scheduler}, {time} after {} s of warm-up, seed {}",
        scenario.name,
        format_size(scenario.array.size_bytes),
        legs.collect::<Vec<_>>().join(" + "),
        scenario.warmup_seconds.as_secs_f64(),
        scenario.seed
    )
}

/// How fast the background went, with a mark where it has done all.
fn background_rate(result: &RunResult) -> String {
    result.background.map_or_else(String::new, |work| {
        rate(work.bw_bytes() / f64::from(1 << 20)) + if work.done { " (all)" } else { "" }
    })
}

/// How many of 100 reads each leg has done.
fn shares(result: &RunResult) -> String {
    let reads: u64 = result.legs.iter().map(|leg| leg.reads).sum();
    let share = |leg: &LegResult| {
        let percent = leg.reads as f64 * 100.0 / reads.max(1) as f64;
        format!("{percent:.0}") + if leg.faulted { "!" } else { "" }
    };
    result.legs.iter().map(share).collect::<Vec<_>>().join("/")
}

/// Blanks between two columns: the padding of both, and the line that is not drawn.
const GAP: usize = 3;

/// How wide a table of `columns` is.
fn text_width(columns: &[Column]) -> usize {
    let widest = |column: &Column| {
        let cells = column.cells.iter().map(String::as_str);
        let lines = cells.chain(column.head.lines());
        lines.map(|line| line.chars().count()).max().unwrap_or(0)
    };
    columns
        .iter()
        .map(|column| widest(column) + GAP)
        .sum::<usize>()
        - GAP
}

fn draw(columns: &[Column]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_style(TableComponent::HeaderLines, '-');
    table.set_style(TableComponent::MiddleHeaderIntersections, '-');
    let aligned = |index, text: &str| {
        Cell::new(text).set_alignment(if index == 0 {
            CellAlignment::Left
        } else {
            CellAlignment::Right
        })
    };
    let heads = columns.iter().enumerate();
    table.set_header(heads.map(|(index, column)| aligned(index, column.head)));
    let rows = columns.first().map_or(0, |column| column.cells.len());
    for row in 0..rows {
        let cells = columns.iter().enumerate();
        table.add_row(cells.map(|(index, column)| aligned(index, &column.cells[row])));
    }
    for index in 0..columns.len() {
        if let Some(column) = table.column_mut(index) {
            column.set_padding((u16::from(index > 0), u16::from(index + 1 < columns.len())));
        }
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests;
