//! What is believed and decided, for people: no line is longer than a hundred columns unless names
//! of legs are.

use std::collections::BTreeSet;

use comfy_table::{CellAlignment, Table, presets};
use heliostat_runtime::{
    CandidateFigures, CurveFigures, DecisionFigures, Explanation, LegExplained, WatchEnd,
    WatchedReads,
};
use heliostat_types::Duration;
use serde_json::Value;
use stdx::units::format_size;

use super::groups::{self, Alternative, Group};

/// How many single reads are shown.
const EXAMPLES: usize = 3;
/// Up to which load times are shown at least.
const LOADS_MIN: u32 = 4;
/// Of so many loads times fit into a line.
const LOADS_COUNT: usize = 6;
/// How many of the legs that were not chosen are shown beside one that was.
const OTHERS_MAX: usize = 4;
/// How many groups are shown; the others are rare.
const GROUPS_MAX: usize = 12;

/// The legs as the policy sees them.
pub(super) fn beliefs(explanation: &Explanation) -> String {
    let mut text = format!(
        "{}: policy {}\n{}\n\n{}\n",
        explanation.name,
        explanation.policy,
        explanation.rule,
        legs(explanation)
    );
    if !explanation.predicts {
        text += if explanation.legs.iter().all(|leg| leg.facts.is_empty()) {
            "\nIt learns nothing of legs and predicts nothing: it goes by its rule alone.\n"
        } else {
            "\nIt predicts nothing: it goes by its rule and by what is in the table.\n"
        };
        return text;
    }
    text += "\n";
    text += &match curves(explanation) {
        Some(curves) => format!(
            "How long a read is believed to take, by the load that it meets (~: not seen there):\n\
             \n{curves}\n"
        ),
        None => {
            "No leg was read yet, so that nothing is known of how long reads take.\n".to_owned()
        }
    };
    text
}

/// A table without lines, the first columns to the left and the others to the right.
fn table(head: Vec<String>, left: usize, rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_header(head)
        .add_rows(rows);
    for column in table.column_iter_mut().skip(left) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
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

fn legs(explanation: &Explanation) -> String {
    let legs = &explanation.legs;
    let keys: BTreeSet<&str> = legs
        .iter()
        .flat_map(|leg| leg.facts.keys().map(String::as_str))
        .collect();
    let mut head = vec!["leg".to_owned(), "state".to_owned(), "in flight".to_owned()];
    head.extend(keys.iter().map(|key| title(key)));
    let row = |(index, leg): (usize, &LegExplained)| {
        let mut row = vec![
            short(legs, index),
            leg.state.clone(),
            format!("{}r {}w", leg.reads_in_flight, leg.writes_in_flight),
        ];
        let value = |key: &&str| {
            leg.facts
                .get(*key)
                .map_or_else(|| "-".to_owned(), |fact| shown(key, fact))
        };
        row.extend(keys.iter().map(value));
        row
    };
    table(head, 2, legs.iter().enumerate().map(row).collect())
}

/// What stands behind the name of a fact, says how to show it.
const UNITS: [&str; 5] = ["_ns", "_bytes", "_times", "_share", "_reads"];

fn title(key: &str) -> String {
    let name = UNITS.iter().find_map(|unit| key.strip_suffix(unit));
    name.unwrap_or(key).replace('_', " ")
}

fn shown(key: &str, fact: &Value) -> String {
    if let Some(flag) = fact.as_bool() {
        return if flag { "yes" } else { "no" }.to_owned();
    }
    let count = fact.as_u64().unwrap_or(0);
    let number = fact.as_f64().unwrap_or(0.0);
    match UNITS.iter().find(|unit| key.ends_with(**unit)) {
        Some(&"_ns") => Duration::from_ns(count).to_string(),
        Some(&"_bytes") => format_size(count),
        Some(&"_times") => format!("{number:.1} times"),
        Some(&"_share") => format!("{:.0} %", number * 100.0),
        _ => fact.to_string(),
    }
}

/// What is believed of each size and kind of read, or `None` before anything is.
fn curves(explanation: &Explanation) -> Option<String> {
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
        if leg.curves.is_empty() && leg.state == "in-sync" {
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
    Some(table(head, 2, rows))
}

fn kind(curve: &CurveFigures) -> String {
    let kind = if curve.streams { "streams " } else { "" };
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
pub(super) fn reads(explanation: &Explanation, reads: &WatchedReads) -> String {
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
            decisions(explanation, &reads.decisions)
        );
        for decision in &reads.decisions[decided.saturating_sub(EXAMPLES)..] {
            text += &example(legs, decision);
        }
    }
    if !(reads.read_ahead.is_empty() && reads.hedges.is_empty()) {
        text += "\n";
    }
    for ahead in &reads.read_ahead {
        text += &format!(
            "{} was asked {} times to read ahead, {} in all.\n",
            short(legs, ahead.leg),
            ahead.reads,
            format_size(ahead.bytes)
        );
    }
    for hedge in &reads.hedges {
        text += &format!(
            "{} was late with {} reads that {} was asked for as well.\n",
            short(legs, hedge.late),
            hedge.reads,
            short(legs, hedge.asked)
        );
    }
    if reads.end == WatchEnd::PolicyReplaced {
        text += "\nAnother policy was set meanwhile; ask again for what that one does.\n";
    }
    text
}

fn decisions(explanation: &Explanation, decisions: &[DecisionFigures]) -> String {
    let groups = groups::of(decisions);
    let legs = &explanation.legs;
    let head = if explanation.predicts {
        ["reads", "", "to", "because", "predicted", "instead of"]
    } else {
        ["reads", "", "to", "because", "in flight", "instead of"]
    };
    let row = |group: &Group| {
        #[expect(clippy::cast_precision_loss, reason = "a few thousand reads")]
        let share = group.reads as f64 / decisions.len() as f64 * 100.0;
        let (chosen, others): (Vec<&Alternative>, Vec<&Alternative>) =
            (group.legs.iter()).partition(|known| group.to.contains(&known.leg));
        let to: Vec<String> = group.to.iter().map(|leg| short(legs, *leg)).collect();
        let here: Vec<String> = chosen.iter().map(|known| figure(known)).collect();
        vec![
            group.reads.to_string(),
            format!("{share:.1} %"),
            to.join(" + "),
            group.reason.as_deref().unwrap_or("its rule").to_owned(),
            here.join(" + "),
            instead_of(others),
        ]
    };
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_header(head)
        .add_rows(groups.iter().take(GROUPS_MAX).map(row));
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

/// What is predicted of a leg, or else how busy it was.
fn figure(known: &Alternative) -> String {
    match known.predicted_ns {
        // A leg that was never read is tried, whatever it may take.
        Some(0) => "unknown".to_owned(),
        Some(ns) => Duration::from_ns(ns).to_string(),
        None => format!("{:.1}", known.in_flight_mean),
    }
}

fn instead_of(mut others: Vec<&Alternative>) -> String {
    others.sort_by_key(|known| known.predicted_ns);
    let shown = others.iter().take(OTHERS_MAX).map(|known| {
        let why = if known.slow_reads * 2 > known.reads {
            " (slow)"
        } else if known.delays_writes_reads * 2 > known.reads {
            " (writes wait)"
        } else {
            ""
        };
        format!("{}: {}{why}", known.leg, figure(known))
    });
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if others.len() > OTHERS_MAX {
        text += &format!(" and {} more", others.len() - OTHERS_MAX);
    }
    if text.is_empty() {
        "-".to_owned()
    } else {
        text
    }
}

/// One read, with what was known of each leg.
fn example(legs: &[LegExplained], decision: &DecisionFigures) -> String {
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
        text += &format!("      {}\n", candidate(legs, view));
    }
    text
}

fn counted(count: u32, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

fn candidate(legs: &[LegExplained], view: &CandidateFigures) -> String {
    let mut text = short(legs, view.leg);
    match view.predicted_ns {
        Some(0) => text += ": never read yet",
        Some(ns) => text += &format!(": predicted {}", Duration::from_ns(ns)),
        None => text += ":",
    }
    let separator = if view.predicted_ns.is_some() {
        ", "
    } else {
        " "
    };
    text += separator;
    text += &match (view.reads_in_flight, view.writes_in_flight) {
        (0, 0) => "idle".to_owned(),
        (reads, 0) => format!("{} in flight", counted(reads, "read")),
        (0, writes) => format!("{} in flight", counted(writes, "write")),
        (reads, writes) => {
            let reads = counted(reads, "read");
            format!("{reads} and {} in flight", counted(writes, "write"))
        }
    };
    if let Some(end) = view.last_sent_end {
        text += &match view.address.checked_sub(end) {
            Some(0) => ", goes on there".to_owned(),
            _ => format!(", {} away", format_size(view.address.abs_diff(end))),
        };
    }
    if view.slow == Some(true) {
        text += ", slow now";
    }
    if view.delays_writes == Some(true) {
        text += ", writes wait for it";
    }
    text
}

#[cfg(test)]
mod tests;
