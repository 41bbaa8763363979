//! Points and their summary for programs. `docs/tune.md` says what each field means; fields are
//! only ever added.

use std::collections::BTreeMap;

use heliostat_policy::TunableKind;
use serde::Serialize;
use serde_json::Value;

use super::axis::Axis;
use super::runner::{Tuned, Tuning};
use super::score::Scored;
use super::search::Method;
use super::verdict::{DEFAULT, Margin};
use super::words;

/// One point as one object.
#[derive(Clone, Debug, Serialize)]
pub struct PointJson<'a> {
    kind: &'static str,
    policy: String,
    values: BTreeMap<&'static str, Value>,
    is_default: bool,
    score: f64,
    score_by_seed: &'a [f64],
    worst_scenario: &'a str,
    worst_ratio: f64,
    scenarios: Vec<ScenarioJson<'a>>,
}

#[derive(Clone, Debug, Serialize)]
struct ScenarioJson<'a> {
    scenario: &'a str,
    value: Option<f64>,
    ratio: f64,
    values: &'a [Option<f64>],
}

/// What came of all points, as one object.
#[derive(Clone, Debug, Serialize)]
pub struct SummaryJson<'a> {
    kind: &'static str,
    policy: &'static str,
    objective: String,
    wants_more: bool,
    scenarios: Vec<&'a str>,
    seeds: u64,
    method: &'static str,
    points: usize,
    grid_points: u64,
    runs: usize,
    verdict: &'static str,
    default: NamedJson,
    best: NamedJson,
    over_default: MarginJson,
    next: Option<OtherJson>,
    beyond_plateau: Option<OtherJson>,
    plateau: Vec<String>,
    sentences: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
struct NamedJson {
    policy: String,
    values: BTreeMap<&'static str, Value>,
    score: f64,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct MarginJson {
    gain: f64,
    spread: Option<f64>,
    noise: Option<f64>,
    is_above_noise: Option<bool>,
}

#[derive(Clone, Debug, Serialize)]
struct OtherJson {
    policy: String,
    #[serde(flatten)]
    margin: MarginJson,
}

impl<'a> PointJson<'a> {
    /// The object of one point of what came of `tuning`.
    #[must_use]
    pub fn new(tuning: &'a Tuning, scored: &'a Scored, is_default: bool) -> Self {
        let worst = scored.worst();
        let names = tuning.on.names();
        let scenarios = names.iter().zip(&scored.scenarios);
        Self {
            kind: "point",
            policy: scored.policy.to_string(),
            values: values(&tuning.axes, &scored.point),
            is_default,
            score: scored.score,
            score_by_seed: &scored.by_seed,
            worst_scenario: names[worst],
            worst_ratio: scored.scenarios[worst].ratio,
            scenarios: scenarios
                .map(|(name, scenario)| ScenarioJson {
                    scenario: name,
                    value: scenario.value,
                    ratio: scenario.ratio,
                    values: &scenario.values,
                })
                .collect(),
        }
    }
}

impl<'a> SummaryJson<'a> {
    /// The object of all that came of `tuning`.
    #[must_use]
    pub fn new(tuning: &'a Tuning, tuned: &Tuned) -> Self {
        let verdict = &tuned.verdict;
        let named = |place: usize| {
            let scored = &tuned.points[place];
            NamedJson {
                policy: scored.policy.to_string(),
                values: values(&tuning.axes, &scored.point),
                score: scored.score,
            }
        };
        let policy = |place: usize| tuned.points[place].policy.to_string();
        let other = |(place, over): (usize, Margin)| OtherJson {
            policy: policy(place),
            margin: margin(over),
        };
        Self {
            kind: "summary",
            policy: tuning.policy.policy().name,
            objective: tuning.objective.to_string(),
            wants_more: tuning.objective.wants_more(),
            scenarios: tuning.on.names(),
            seeds: tuning.repeats,
            method: match tuned.method {
                Method::Grid => "grid",
                Method::Sampled { .. } => "search",
            },
            points: tuned.points.len(),
            grid_points: tuning.grid_points(),
            runs: tuned.points.len() * tuning.runs_per_point(),
            verdict: if verdict.best == DEFAULT {
                "default-is-best"
            } else if !verdict.gains() {
                "within-noise"
            } else if verdict.over_default.spread.is_none() {
                "one-seed"
            } else {
                "gain"
            },
            default: named(DEFAULT),
            best: named(verdict.best),
            over_default: margin(verdict.over_default),
            next: verdict.next.map(other),
            beyond_plateau: verdict.beyond.map(other),
            plateau: verdict.plateau.iter().map(|&place| policy(place)).collect(),
            sentences: words::sentences(tuning, tuned),
        }
    }
}

fn margin(margin: Margin) -> MarginJson {
    MarginJson {
        gain: margin.gain,
        spread: margin.spread,
        noise: margin.noise,
        is_above_noise: margin.spread.map(|_| margin.is_real()),
    }
}

/// Values by their tunables; words of choices are texts.
fn values(axes: &[Axis], point: &[u64]) -> BTreeMap<&'static str, Value> {
    let pairs = axes.iter().zip(point);
    let value = |axis: &Axis, value: u64| match axis.tunable.kind {
        TunableKind::Choice(_) => Value::from(axis.text(value)),
        TunableKind::Number { .. } | TunableKind::Devid | TunableKind::Flag => Value::from(value),
    };
    pairs
        .map(|(axis, &number)| (axis.tunable.name, value(axis, number)))
        .collect()
}
