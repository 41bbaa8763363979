//! What came of tuning, in sentences.

use heliostat_policy::TunableKind;

use super::axis::Axis;
use super::runner::{Tuned, TunedOn, Tuning};
use super::score::Scored;
use super::search::Method;
use super::verdict::{DEFAULT, Margin};
use crate::report::format;

/// How many times better than the default, as a difference in percent with its sign.
pub(super) fn percent(ratio: f64) -> String {
    format::percent((ratio - 1.0) * 100.0)
}

/// The values of `point`, as they are set: `a=1, b=2`.
fn values_text(axes: &[Axis], point: &[u64]) -> String {
    let pairs = axes.iter().zip(point);
    let pairs = pairs.map(|(axis, &value)| format!("{}={}", axis.tunable.name, axis.text(value)));
    pairs.collect::<Vec<_>>().join(", ")
}

/// What is best and by how much, what else is as good, and what the reader should know besides.
#[must_use]
pub fn sentences(tuning: &Tuning, tuned: &Tuned) -> Vec<String> {
    let mut told = vec![best(tuning, tuned)];
    told.extend(next(tuning, tuned));
    told.extend(plateau(tuning, tuned));
    told.extend(worst_scenario(tuning, tuned));
    told.extend(ends(tuning, tuned));
    told.push(how(tuning, tuned));
    told
}

fn named(tuning: &Tuning, scored: &Scored) -> String {
    values_text(&tuning.axes, &scored.point)
}

/// A gain without its sign: the sentence says which way it goes.
fn size(gain: f64) -> String {
    if gain < 10.0 {
        format!("{:.1} %", gain.abs() * 100.0)
    } else {
        format::times(gain + 1.0)
    }
}

/// What seeds say to a margin.
fn noise(on: &TunedOn, margin: Margin) -> String {
    match margin.noise {
        None => {
            let (word, option) = on.repeated();
            format!("with one {word}, which says nothing about noise: try {option} 5")
        }
        Some(noise) if margin.is_real() => format!("noise: {}", size(noise)),
        Some(noise) => format!("within noise, which is {}", size(noise)),
    }
}

fn best(tuning: &Tuning, tuned: &Tuned) -> String {
    let verdict = &tuned.verdict;
    let name = named(tuning, &tuned.points[verdict.best]);
    let default = named(tuning, &tuned.points[DEFAULT]);
    let what = tuning.objective.title();
    let margin = verdict.over_default;
    if verdict.best == DEFAULT {
        return format!("Nothing is gained: the default, {default}, is the best for {what}.");
    }
    let (gain, noise) = (size(margin.gain), noise(&tuning.on, margin));
    if verdict.gains() {
        format!("Best for {what}: {name}, {gain} better than the default, {default} ({noise}).")
    } else {
        format!(
            "Nothing is gained: the best for {what}, {name}, is {gain} better than the default, \
             {default} ({noise})."
        )
    }
}

/// What is as good as the best.
fn plateau(tuning: &Tuning, tuned: &Tuned) -> Option<String> {
    let plateau = &tuned.verdict.plateau;
    let count = tuned.points.len();
    if plateau.len() < 2 {
        return None;
    }
    if plateau.len() == count {
        return Some(format!(
            "All {count} points are as good as each other but for noise: what was swept does not \
             matter here."
        ));
    }
    let ranges = tuning.axes.iter().enumerate().map(|(at, axis)| {
        let values = plateau.iter().map(|&place| tuned.points[place].point[at]);
        format!("{}={}", axis.tunable.name, runs_of(axis, values))
    });
    let ranges: Vec<String> = ranges.collect();
    let among = if tuning.axes.len() > 1 {
        ", among the combinations of"
    } else {
        ":"
    };
    Some(format!(
        "A plateau: {} of {count} points are as good but for noise{among} {}.",
        plateau.len(),
        ranges.join(", ")
    ))
}

/// `values` of an axis, neighbours drawn together: `0 to 3, 8`.
fn runs_of(axis: &Axis, values: impl Iterator<Item = u64>) -> String {
    let mut known = axis.values.clone();
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.dedup();
    // The default may lie beside the axis.
    known.extend(&values);
    known.sort_unstable();
    known.dedup();
    let place = |value: &u64| known.binary_search(value).expect("was put in");
    let runs = values.chunk_by(|a, b| place(a) + 1 == place(b));
    let texts = runs.map(|run| {
        let text = |value: &u64| axis.text(*value);
        match run {
            [one] => text(one),
            [first, second] => format!("{}, {}", text(first), text(second)),
            [first, .., last] => format!("{} to {}", text(first), text(last)),
            [] => String::new(),
        }
    });
    texts.collect::<Vec<_>>().join(", ")
}

/// How much better the best is than the second best, and than what is worse beyond noise.
fn next(tuning: &Tuning, tuned: &Tuned) -> Option<String> {
    let verdict = &tuned.verdict;
    // How much better it is than the default has been told.
    let is_news = |(place, _): &(usize, Margin)| *place != DEFAULT;
    let beyond = verdict.beyond.filter(is_news);
    let next = verdict.next.filter(is_news);
    let told = |(place, margin): (usize, Margin), which: &str| {
        let name = named(tuning, &tuned.points[place]);
        if margin.gain == 0.0 {
            return format!("as good as {which}, {name}");
        }
        let (gain, noise) = (size(margin.gain), noise(&tuning.on, margin));
        format!("{gain} better than {which}, {name} ({noise})")
    };
    match (next, beyond) {
        (Some(next), Some(beyond)) if next.0 != beyond.0 => Some(format!(
            "It is {}, and {}.",
            told(next, "the next best"),
            told(beyond, "the best beyond that")
        )),
        (Some(next), _) => Some(format!("It is {}.", told(next, "the next best"))),
        (None, Some(beyond)) => Some(format!("It is {}.", told(beyond, "the next best but that"))),
        (None, None) => None,
    }
}

/// Where the best is worst.
fn worst_scenario(tuning: &Tuning, tuned: &Tuned) -> Option<String> {
    let best = &tuned.points[tuned.verdict.best];
    if tuning.on.names().len() < 2 || tuned.verdict.best == DEFAULT {
        return None;
    }
    let worst = best.worst();
    let (name, ratio) = (tuning.on.names()[worst], best.scenarios[worst].ratio);
    let word = tuning.on.word();
    Some(format!(
        "In its worst {word}, {name}, it is {} beside the default.",
        percent(ratio)
    ))
}

/// Where the best is at the end of what was swept, although the tunable goes on.
fn ends(tuning: &Tuning, tuned: &Tuned) -> Option<String> {
    if !tuned.verdict.gains() {
        return None;
    }
    let best = &tuned.points[tuned.verdict.best];
    let at_end = |(at, axis): (usize, &Axis)| {
        let TunableKind::Number { min, max, .. } = axis.tunable.kind else {
            return None;
        };
        let (&value, first, last) = (&best.point[at], axis.values.first(), axis.values.last());
        let is_low = Some(&value) == first && value > min;
        let is_high = Some(&value) == last && value < max;
        // Where the other end is as good, there is no slope to follow.
        let plateau = tuned.verdict.plateau.iter();
        let is_flat = plateau
            .map(|&place| tuned.points[place].point[at])
            .any(|other| other != value);
        ((is_low || is_high) && !is_flat).then_some(axis.tunable.name)
    };
    let names: Vec<&str> = tuning.axes.iter().enumerate().filter_map(at_end).collect();
    (!names.is_empty()).then(|| {
        format!(
            "The best is at the end of what was swept of {}: look further with --set.",
            names.join(" and ")
        )
    })
}

fn how(tuning: &Tuning, tuned: &Tuned) -> String {
    let count = tuned.points.len();
    let points = match tuned.method {
        Method::Grid => format!("all {count} points"),
        Method::Sampled { grid } => format!("{count} of {grid} points"),
    };
    let plural = |count: usize, one: &str| match count {
        1 => format!("1 {one}"),
        _ => format!("{count} {one}s"),
    };
    let repeats = usize::try_from(tuning.repeats).unwrap_or(usize::MAX);
    let (repeated, _) = tuning.on.repeated();
    format!(
        "Tried {points} in {} with {}: {}.",
        plural(tuning.on.names().len(), tuning.on.word()),
        plural(repeats, repeated),
        plural(count * tuning.runs_per_point(), "run")
    )
}

#[cfg(test)]
mod tests;
