//! How each policy does over all cells.

use super::judge::{AS_MUCH, Judged, ORACLE, Row};
use super::parts::Class;
use crate::averages::geometric_mean;

/// A policy over all cells in which there was something to choose.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    pub(super) policy: String,
    /// In how many cells it does as much as the best of all but the oracle.
    pub(super) near: usize,
    /// In how many it was run.
    pub(super) cells: usize,
    /// The geometric mean beside the best.
    pub(super) mean: f64,
    /// The least of these ratios, and where that is.
    pub(super) worst: f64,
    pub(super) worst_cell: String,
    /// The geometric means beside the oracle by class, those above 1 counted as 1.
    pub(super) to_oracle: [Option<f64>; 3],
}

/// All policies that were run, those first that are near the best in the most cells, and last the
/// oracle.
pub(super) fn standings(judged: &[Judged]) -> Vec<Standing> {
    let chosen: Vec<&Judged> = judged.iter().filter(|cell| cell.rows.len() > 1).collect();
    let mut policies: Vec<&str> = Vec::new();
    for row in chosen.iter().flat_map(|cell| &cell.rows) {
        if !policies.contains(&row.policy.as_str()) {
            policies.push(&row.policy);
        }
    }
    let mut standings: Vec<Standing> = policies
        .into_iter()
        .filter_map(|policy| standing(&chosen, policy))
        .collect();
    standings.sort_by(|a, b| {
        let is_oracle = |standing: &Standing| standing.policy == ORACLE;
        let near = b.near.cmp(&a.near).then(b.mean.total_cmp(&a.mean));
        is_oracle(a).cmp(&is_oracle(b)).then(near)
    });
    standings
}

fn standing(judged: &[&Judged], policy: &str) -> Option<Standing> {
    let ratios: Vec<(f64, &Judged)> = judged
        .iter()
        .filter_map(|cell| Some((cell.row(policy)?.ratio_to(best_of_all(cell)?), *cell)))
        .collect();
    let worst = ratios
        .iter()
        .reduce(|worst, other| if other.0 < worst.0 { other } else { worst })?;
    let to_oracle = [Class::Random, Class::Stream, Class::Mixed].map(|class| {
        let of_class = judged.iter().filter(|cell| cell.cell.class() == class);
        let ratios = of_class.filter_map(|cell| {
            let ratio = cell.row(policy)?.ratio_to(cell.row(ORACLE)?);
            Some(ratio.min(1.0))
        });
        let ratios: Vec<f64> = ratios.collect();
        (!ratios.is_empty()).then(|| geometric_mean(ratios.into_iter()))
    });
    Some(Standing {
        policy: policy.to_owned(),
        near: ratios.iter().filter(|(ratio, _)| *ratio >= AS_MUCH).count(),
        cells: ratios.len(),
        mean: geometric_mean(ratios.iter().map(|(ratio, _)| *ratio)),
        worst: worst.0,
        worst_cell: worst.1.cell.name(),
        to_oracle,
    })
}

/// The row with the largest total, the oracle aside; the first of equals.
fn best_of_all(judged: &Judged) -> Option<&Row> {
    let rows = judged.rows.iter().filter(|row| row.policy != ORACLE);
    rows.reduce(|best, other| {
        if other.total_beside(judged.mine()) > best.total_beside(judged.mine()) {
            other
        } else {
            best
        }
    })
}
