//! Decisions that are alike, put together: the same legs chosen for the same reason.

use std::borrow::Cow;
use std::collections::BTreeMap;

use heliostat_runtime::{CandidateFigures, DecisionFigures, WeightFigures};
use serde::Serialize;

/// In place of a reason, where there was nothing to decide.
pub(super) const NO_OTHER: &str = "no other leg could";

/// Decisions for the same legs and the same reason.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Group {
    /// How many.
    pub(super) reads: u64,
    /// The legs that were chosen: one, unless reads were split.
    pub(super) to: Vec<usize>,
    /// Which part of the rule decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<Cow<'static, str>>,
    /// What was believed of each leg that could serve them, and seen there.
    pub(super) legs: Vec<Alternative>,
}

/// What was believed of a leg that could serve a group of reads.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Alternative {
    pub(super) leg: usize,
    /// For how many of the reads it could have been chosen.
    pub(super) reads: u64,
    /// How long they were predicted to take here: the median of what was predicted, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) predicted_ns: Option<u64>,
    /// What the policy weighed it at: the median, if it does that.
    #[serde(flatten)]
    pub(super) weight: Option<WeightFigures>,
    /// How many operations the leg had in flight on average.
    pub(super) in_flight_mean: f64,
    /// For how many of the reads it was slower than it is known to be.
    pub(super) slow_reads: u64,
    /// For how many of them writes waited for it more than for others.
    pub(super) delays_writes_reads: u64,
}

/// All decisions in groups, the largest first.
pub(super) fn of(decisions: &[DecisionFigures]) -> Vec<Group> {
    let mut by_kind: BTreeMap<(Vec<usize>, Option<&str>), Vec<&DecisionFigures>> = BTreeMap::new();
    for decision in decisions {
        let to = decision.pieces.iter().map(|piece| piece.leg).collect();
        by_kind
            .entry((to, reason(decision)))
            .or_default()
            .push(decision);
    }
    let mut groups: Vec<Group> = by_kind
        .into_iter()
        .map(|((to, reason), decisions)| Group {
            reads: decisions.len() as u64,
            to,
            reason: reason.map(|reason| Cow::Owned(reason.to_owned())),
            legs: alternatives(&decisions),
        })
        .collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.reads));
    groups
}

/// Why it was decided so: that there was no choice is more than any rule says.
pub(super) fn reason(decision: &DecisionFigures) -> Option<&str> {
    if decision.legs.len() == 1 {
        return Some(NO_OTHER);
    }
    decision.reason.as_deref()
}

fn alternatives(decisions: &[&DecisionFigures]) -> Vec<Alternative> {
    let mut by_leg: BTreeMap<usize, Vec<&CandidateFigures>> = BTreeMap::new();
    for view in decisions.iter().flat_map(|decision| &decision.legs) {
        by_leg.entry(view.leg).or_default().push(view);
    }
    by_leg.into_iter().map(alternative).collect()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a mean of a few thousand counts"
)]
fn alternative((leg, views): (usize, Vec<&CandidateFigures>)) -> Alternative {
    let mut predicted: Vec<u64> = views.iter().filter_map(|view| view.predicted_ns).collect();
    predicted.sort_unstable();
    let mut weights: Vec<WeightFigures> = views.iter().filter_map(|view| view.weight).collect();
    weights.sort_unstable();
    let in_flight: u64 = views.iter().map(|view| view.in_flight()).sum();
    let count = |is_so: fn(&CandidateFigures) -> bool| {
        views.iter().filter(|view| is_so(view)).count() as u64
    };
    Alternative {
        leg,
        reads: views.len() as u64,
        predicted_ns: predicted.get(predicted.len() / 2).copied(),
        weight: weights.get(weights.len() / 2).copied(),
        in_flight_mean: in_flight as f64 / views.len() as f64,
        slow_reads: count(|view| view.slow == Some(true)),
        delays_writes_reads: count(|view| view.delays_writes == Some(true)),
    }
}

#[cfg(test)]
mod tests;
