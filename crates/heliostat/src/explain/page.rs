//! What is believed and decided, for people. What is too wide for the terminal goes on below.

use comfy_table::{CellAlignment, Table, presets};
use heliostat_bench::report::format::wrapped;
use heliostat_runtime::{
    CandidateFigures, CurveFigures, DecisionFigures, Explanation, LegExplained, StreamExplained,
    WatchEnd, WatchedReads, WeightFigures,
};
use heliostat_types::Duration;
use serde_json::Value;
use stdx::units::format_size;

use super::groups::{self, Alternative, Group};

/// The state that is shown only beside another one.
const IN_SYNC: &str = "in-sync";
/// How many single reads are shown.
const EXAMPLES: usize = 3;
/// Up to which load times are shown at least.
const LOADS_MIN: u32 = 4;
/// Of so many loads times are shown.
const LOADS_COUNT: usize = 6;
/// How many of the legs that were not chosen are shown beside one that was.
const OTHERS_MAX: usize = 4;
/// How many groups are shown; the others are rare.
const GROUPS_MAX: usize = 12;

/// The legs as the policy sees them.
pub(super) fn beliefs(explanation: &Explanation, width: usize) -> String {
    let text = format!(
        "{}: policy {}\n{}\n\n{}\n",
        explanation.name,
        explanation.policy,
        wrapped(&explanation.rule, width),
        legs(explanation, width)
    );
    let (sentence, curves) = match curves(explanation, width) {
        Some(curves) if explanation.predicts => (
            "How long a read is believed to take, by the load that it meets (~: not seen there):",
            format!("\n{curves}\n"),
        ),
        None if explanation.predicts => (
            "No leg was read yet, so that nothing is known of how long reads take.",
            String::new(),
        ),
        _ if explanation.legs.iter().all(|leg| leg.facts.is_empty()) => (
            "It learns nothing of legs and predicts nothing: it goes by its rule alone.",
            String::new(),
        ),
        _ => (
            "It predicts no times: it goes by its rule, and by what stands behind 'mean'.",
            String::new(),
        ),
    };
    text + &format!("\n{}\n{curves}", wrapped(sentence, width)) + &streams(explanation, width)
}

/// The streams that are read now, as the policy knows them.
fn streams(explanation: &Explanation, width: usize) -> String {
    if explanation.streams.is_empty() {
        return String::new();
    }
    let head = ["stream at", "read ahead", "kept to", "read so far", "ahead"];
    let row = |stream: &StreamExplained| {
        let legs: Vec<String> = stream.legs.iter().map(usize::to_string).collect();
        vec![
            format_size(stream.offset),
            stream.read_ahead.clone(),
            if legs.is_empty() {
                "-".to_owned()
            } else {
                legs.join(", ")
            },
            format_size(stream.read_bytes),
            format_size(stream.ahead_bytes),
        ]
    };
    let rows: Vec<Vec<String>> = explanation.streams.iter().map(row).collect();
    let table = table(&head.map(str::to_owned), &rows, 2, width);
    format!("\nStreams that are read now, and what is read ahead of them:\n\n{table}\n")
}

/// A table without lines, the first `names` columns to the left and the others to the right. Those
/// that find no room stand in a further table below it, behind the same names.
fn table(head: &[String], rows: &[Vec<String>], names: usize, width: usize) -> String {
    let lines = || std::iter::once(head).chain(rows.iter().map(Vec::as_slice));
    let columns: Vec<usize> = (0..head.len())
        .map(|at| column_width(lines().filter_map(|line| line.get(at))))
        .collect();
    let names_width: usize = columns[..names].iter().sum();
    let mut parts = Vec::new();
    let mut begin = names;
    while begin < head.len() {
        let mut used = names_width + columns[begin];
        let fits = |column: &&usize| {
            used += **column;
            used <= width
        };
        let end = begin + 1 + columns[begin + 1..].iter().take_while(fits).count();
        let kept = |line: &[String]| -> Vec<String> {
            let cell = |at: usize| line.get(at).cloned().unwrap_or_default();
            (0..names).chain(begin..end).map(cell).collect()
        };
        let mut part = Table::new();
        part.load_preset(presets::NOTHING)
            .set_header(kept(head))
            .add_rows(rows.iter().map(|row| kept(row)));
        for column in part.column_iter_mut().skip(names) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        parts.push(part.trim_fmt());
        begin = end;
    }
    parts.join("\n\n")
}

/// How wide a column is, with the space on both sides of it.
fn column_width<'a>(cells: impl Iterator<Item = &'a String>) -> usize {
    cells.map(|cell| cell.chars().count()).max().unwrap_or(0) + 2
}

/// A leg in few characters: its number, and the end of its name without what is set behind it.
fn short(legs: &[LegExplained], index: usize) -> String {
    const NAME_MAX: usize = 14;
    let Some(leg) = legs.get(index) else {
        return index.to_string();
    };
    let name = leg.leg.split([',', '?']).next().unwrap_or(&leg.leg);
    let name = name.rsplit('/').next().unwrap_or(name);
    let name = name.strip_prefix("model:").unwrap_or(name);
    let skipped = name.chars().count().saturating_sub(NAME_MAX);
    let end: String = name.chars().skip(skipped).collect();
    let dots = if skipped > 0 { ".." } else { "" };
    format!("{index} {dots}{end}")
}

fn legs(explanation: &Explanation, width: usize) -> String {
    let legs = &explanation.legs;
    let keys = legs.iter().flat_map(|leg| leg.facts.keys());
    let mut keys: Vec<&str> = keys.map(String::as_str).collect();
    // What a leg is stands before what it does.
    keys.sort_by_key(|key| (*key != "class", *key));
    keys.dedup();
    let has_state = legs.iter().any(|leg| leg.state != IN_SYNC);
    let mut head = vec!["leg".to_owned()];
    if has_state {
        head.push("state".to_owned());
    }
    head.push("in flight".to_owned());
    if !explanation.predicts {
        head.extend(["reads", "mean"].map(str::to_owned));
    }
    head.extend(keys.iter().map(|key| title(key)));
    let row = |(index, leg): (usize, &LegExplained)| {
        let mut row = vec![short(legs, index)];
        if has_state {
            row.push(leg.state.clone());
        }
        row.push(format!(
            "{}r {}w",
            leg.reads_in_flight, leg.writes_in_flight
        ));
        if !explanation.predicts {
            row.push(leg.reads.to_string());
            let mean = leg.mean_read_ns.map(Duration::from_ns);
            row.push(mean.map_or_else(|| "-".to_owned(), |mean| mean.to_string()));
        }
        let value = |key: &&str| {
            leg.facts
                .get(*key)
                .map_or_else(|| "-".to_owned(), |fact| shown(key, fact))
        };
        row.extend(keys.iter().map(value));
        row
    };
    let rows: Vec<Vec<String>> = legs.iter().enumerate().map(row).collect();
    table(&head, &rows, 1, width)
}

/// A leg in a few words.
#[derive(Clone, Debug)]
pub(crate) struct LegInALine {
    /// As the user wrote it.
    pub(crate) leg: String,
    /// What it is called for short.
    pub(crate) short: String,
    /// What the policy believes of it.
    pub(crate) facts: String,
}

/// What is known of each leg in a line: what it is called for short, and its facts.
pub(crate) fn in_a_line(explanation: &Explanation) -> Vec<LegInALine> {
    let legs = &explanation.legs;
    let facts = |leg: &LegExplained| {
        let facts = leg.facts.iter();
        let facts = facts.map(|(key, fact)| format!("{} {}", title(key), shown(key, fact)));
        facts.collect::<Vec<_>>().join(", ")
    };
    legs.iter()
        .enumerate()
        .map(|(index, leg)| LegInALine {
            leg: leg.leg.clone(),
            short: short(legs, index),
            facts: facts(leg),
        })
        .collect()
}

/// What stands behind the name of a fact, says how to show it.
const UNITS: [&str; 6] = [
    "_ns",
    "_bytes",
    "_bytes_per_s",
    "_times",
    "_share",
    "_reads",
];

fn title(key: &str) -> String {
    let name = UNITS.iter().find_map(|unit| key.strip_suffix(unit));
    name.unwrap_or(key).replace('_', " ")
}

fn shown(key: &str, fact: &Value) -> String {
    if let Some(flag) = fact.as_bool() {
        return if flag { "yes" } else { "no" }.to_owned();
    }
    if let Some(word) = fact.as_str() {
        return word.to_owned();
    }
    let count = fact.as_u64().unwrap_or(0);
    let number = fact.as_f64().unwrap_or(0.0);
    match UNITS.iter().find(|unit| key.ends_with(**unit)) {
        Some(&"_ns") => Duration::from_ns(count).to_string(),
        Some(&"_bytes") => format_size(count),
        Some(&"_bytes_per_s") => format!("{}/s", format_size(count)),
        Some(&"_times") => format!("{number:.1}x"),
        Some(&"_share") => format!("{:.0} %", number * 100.0),
        _ => fact.to_string(),
    }
}

/// What is believed of each size and kind of read, or `None` before anything is.
fn curves(explanation: &Explanation, width: usize) -> Option<String> {
    let legs = &explanation.legs;
    let curves = legs.iter().flat_map(|leg| &leg.curves);
    let seen = curves.flat_map(|curve| curve.points.iter().filter(|point| point.seen));
    let most = seen.map(|point| point.load).max()?;
    let most = most.max(LOADS_MIN);
    // Where queues are deep every other power of two is enough.
    let step = if most < 1 << LOADS_COUNT { 1 } else { 2 };
    let loads = (0..LOADS_COUNT).map(|at| 1_u32 << (step * at));
    let loads: Vec<u32> = loads.take_while(|load| *load <= most).collect();
    let mut head: Vec<String> = ["leg", "reads", "of", "load 1"].map(str::to_owned).to_vec();
    head.extend(loads[1..].iter().map(u32::to_string));
    let mut rows = Vec::new();
    for (index, leg) in legs.iter().enumerate() {
        if leg.curves.is_empty() && leg.state == IN_SYNC {
            rows.push(vec![short(legs, index), "never read".to_owned()]);
        }
        for (at, curve) in leg.curves.iter().enumerate() {
            let name = if at == 0 {
                short(legs, index)
            } else {
                String::new()
            };
            let mut row = vec![name, kind(curve), curve.weight_reads.to_string()];
            row.extend(loads.iter().map(|load| time_at(curve, *load)));
            rows.push(row);
        }
    }
    Some(table(&head, &rows, 2, width))
}

fn kind(curve: &CurveFigures) -> String {
    let kind = match (curve.streams, curve.parts) {
        (true, _) => "streams ",
        (_, true) => "parts ",
        _ => "",
    };
    match curve.bytes_max {
        Some(bytes) => format!("{kind}to {}", format_size(bytes)),
        None => format!("{kind}longer"),
    }
}

fn time_at(curve: &CurveFigures, load: u32) -> String {
    let point = curve.points.iter().find(|point| point.load == load);
    point.map_or_else(
        || "-".to_owned(),
        |point| {
            let inferred = if point.seen { "" } else { "~" };
            format!("{inferred}{}", Duration::from_ns(point.ns))
        },
    )
}

/// What was decided while it was watched.
pub(super) fn reads(explanation: &Explanation, reads: &WatchedReads, width: usize) -> String {
    let legs = &explanation.legs;
    let mut text = String::new();
    let watched = Duration::from_ns(reads.watched_ns);
    let decided = reads.decisions.len();
    if decided == 0 {
        text += &format!("No read asked the policy within {watched}.\n");
    } else {
        let plural = if decided == 1 { "" } else { "s" };
        text += &format!(
            "{decided} read{plural} in {watched}:\n\n{}\n\nThe last of them:\n\n",
            decisions(explanation, &reads.decisions, width)
        );
        for decision in &reads.decisions[decided.saturating_sub(EXAMPLES)..] {
            text += &example(legs, decision, width);
        }
    }
    if !(reads.read_ahead.is_empty() && reads.hedges.is_empty()) {
        text += "\n";
    }
    let ahead = reads.read_ahead.iter().map(|ahead| {
        format!(
            "{} was asked {} times to read ahead, {} in all.",
            short(legs, ahead.leg),
            ahead.reads,
            format_size(ahead.bytes)
        )
    });
    let hedges = reads.hedges.iter().map(|hedge| {
        format!(
            "{} was late with {} reads that {} was asked for as well.",
            short(legs, hedge.late),
            hedge.reads,
            short(legs, hedge.asked)
        )
    });
    for sentence in ahead.chain(hedges) {
        text += &format!("{}\n", wrapped(&sentence, width));
    }
    if reads.end == WatchEnd::PolicyReplaced {
        text += "\nAnother policy was set meanwhile; ask again for what that one does.\n";
    }
    text
}

fn decisions(explanation: &Explanation, decisions: &[DecisionFigures], width: usize) -> String {
    let groups = groups::of(decisions);
    let legs = &explanation.legs;
    let weighs = || {
        decisions
            .iter()
            .any(|read| read.legs.iter().any(|view| view.weight.is_some()))
    };
    let shown = if explanation.predicts {
        "predicted"
    } else if weighs() {
        "weight"
    } else {
        "in flight"
    };
    let head = ["reads", "", "to", "because", shown, "instead of"];
    let row = |group: &Group| {
        #[expect(clippy::cast_precision_loss, reason = "a few thousand reads")]
        let share = group.reads as f64 / decisions.len() as f64 * 100.0;
        let chosen = (group.legs.iter()).filter(|known| group.to.contains(&known.leg));
        let to: Vec<String> = group.to.iter().map(|leg| short(legs, *leg)).collect();
        let here: Vec<String> = chosen.map(figure).collect();
        vec![
            group.reads.to_string(),
            format!("{share:.1} %"),
            to.join(" + "),
            group.reason.as_deref().unwrap_or("its rule").to_owned(),
            here.join(" + "),
        ]
    };
    let shown_groups = &groups[..groups.len().min(GROUPS_MAX)];
    let mut rows: Vec<Vec<String>> = shown_groups.iter().map(row).collect();
    let used = (0..rows[0].len()).map(|at| {
        let cells = rows.iter().map(|row| &row[at]);
        column_width(cells).max(head[at].len() + 2)
    });
    let room = width.saturating_sub(used.sum::<usize>() + 2);
    let others = |with_why| {
        shown_groups
            .iter()
            .map(move |group| instead_of(group, with_why))
    };
    let mut fits = others(true).flatten().map(|other| other.chars().count());
    let with_why = fits.all(|columns| columns < room);
    for (row, others) in rows.iter_mut().zip(others(with_why)) {
        row.push(if others.is_empty() {
            "-".to_owned()
        } else {
            packed(&others, room)
        });
    }
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_header(head)
        .add_rows(rows);
    for column in [0, 1, 4] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = table.trim_fmt();
    let rest: u64 = groups
        .iter()
        .skip(GROUPS_MAX)
        .map(|group| group.reads)
        .sum();
    if rest > 0 {
        text += &format!("\n and {rest} for other reasons, or elsewhere");
    }
    text
}

/// What is predicted of a leg, or else what it was weighed at, or how busy it was.
fn figure(known: &Alternative) -> String {
    match (known.predicted_ns, known.weight) {
        // A leg that was never read is tried, whatever it may take.
        (Some(0), _) => "unknown".to_owned(),
        (Some(ns), _) => Duration::from_ns(ns).to_string(),
        (None, Some(WeightFigures::Ns(0))) => "tried".to_owned(),
        (None, Some(weight)) => weight.to_string(),
        (None, None) => format!("{:.1}", known.in_flight_mean),
    }
}

/// What is known of the legs that were not chosen, the best first.
fn instead_of(group: &Group, with_why: bool) -> Vec<String> {
    let mut others: Vec<&Alternative> = (group.legs.iter())
        .filter(|known| !group.to.contains(&known.leg))
        .collect();
    others.sort_by_key(|known| (known.predicted_ns, known.weight));
    let alternative = |known: &&Alternative| {
        let why = if known.slow_reads * 2 > known.reads {
            " (slow)"
        } else if known.delays_writes_reads * 2 > known.reads {
            " (writes wait)"
        } else {
            ""
        };
        let why = if with_why { why } else { "" };
        format!("{}: {}{why}", known.leg, figure(known))
    };
    let mut shown: Vec<String> = others.iter().take(OTHERS_MAX).map(alternative).collect();
    if others.len() > OTHERS_MAX {
        shown.push(format!("and {} more", others.len() - OTHERS_MAX));
    }
    shown
}

/// A list in lines of `room` columns, as far as its items are shorter than that.
fn packed(items: &[String], room: usize) -> String {
    let mut text = String::new();
    let mut used = 0;
    for (at, item) in items.iter().enumerate() {
        let length = item.chars().count() + ",".len();
        if at > 0 && used + 1 + length > room {
            text += ",\n";
            used = 0;
        } else if at > 0 {
            text += ", ";
            used += 1;
        }
        used += length;
        text += item;
    }
    text
}

/// One read, with what was known of each leg.
fn example(legs: &[LegExplained], decision: &DecisionFigures, width: usize) -> String {
    let to: Vec<String> = decision
        .pieces
        .iter()
        .map(|piece| short(legs, piece.leg))
        .collect();
    let mut text = format!(
        "  +{}: {} at {} to {}: {}\n",
        Duration::from_ns(decision.at_ns.unsigned_abs()),
        format_size(decision.bytes),
        format_size(decision.offset),
        to.join(" + "),
        groups::reason(decision).unwrap_or("its rule"),
    );
    for view in &decision.legs {
        let lines = packed(&candidate(legs, view), width.saturating_sub(8));
        text += &format!("      {}\n", lines.replace('\n', "\n        "));
    }
    text
}

fn counted(count: u32, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// A leg and what was known of it, one thing after the other.
fn candidate(legs: &[LegExplained], view: &CandidateFigures) -> Vec<String> {
    let mut known = Vec::new();
    match (view.predicted_ns, view.weight) {
        (Some(0), _) => known.push("never read yet".to_owned()),
        (Some(ns), _) => known.push(format!("predicted {}", Duration::from_ns(ns))),
        (None, Some(weight)) => known.push(format!("weight {weight}")),
        (None, None) => {}
    }
    known.push(match (view.reads_in_flight, view.writes_in_flight) {
        (0, 0) => "idle".to_owned(),
        (reads, 0) => format!("{} in flight", counted(reads, "read")),
        (0, writes) => format!("{} in flight", counted(writes, "write")),
        (reads, writes) => {
            let reads = counted(reads, "read");
            format!("{reads} and {} in flight", counted(writes, "write"))
        }
    });
    if let Some(end) = view.last_sent_end {
        known.push(match view.address.abs_diff(end) {
            0 => "goes on there".to_owned(),
            way => format!("{} away", format_size(way)),
        });
    }
    if view.slow == Some(true) {
        known.push("slow now".to_owned());
    }
    if view.delays_writes == Some(true) {
        known.push("writes wait for it".to_owned());
    }
    known[0] = format!("{}: {}", short(legs, view.leg), known[0]);
    known
}

#[cfg(test)]
mod tests;
