//! What is best, by how much, and whether that means anything.
//!
//! Two points are compared seed by seed, so what a seed does to both does not count. The median of
//! their ratios means something where it is above the noise, which is estimated from how much the
//! ratio differs from seed to seed: with few seeds more is needed, with many less. Otherwise the
//! two are alike, and all that are like the best are a plateau: to tell only the highest of them
//! would be to tell luck.

use super::score::{RATIO_MAX, Scored, spread};
use crate::averages::median;

/// How much better one point is than another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Margin {
    /// The median over the seeds of the ratio of the two, less one: 0.1 is 10 % better.
    pub gain: f64,
    /// How much that ratio differs from seed to seed: by which part the largest is above the
    /// smallest. `None` where there is one seed.
    pub spread: Option<f64>,
    /// Up to where a gain may be luck; `None` where there is one seed, and nobody knows.
    pub noise: Option<f64>,
}

/// How large the median of N values is at most, in parts of their range (the largest less the
/// smallest; here of logarithms of ratios), in 99 of 100 cases where the true value is zero: N = 2,
/// 3 and so on. For normal values, from two million draws for each N (for N = 2 it is known: 31.8).
/// The idea is Lord's, "The use of range in place of standard deviation in the t-test" (Biometrika
/// 34, 1947), with medians for means. 99 and not 95, because a sweep makes dozens of comparisons
/// and tells the largest.
const NOISE: [f64; 19] = [
    31.8, 3.04, 1.33, 0.889, 0.661, 0.560, 0.465, 0.424, 0.371, 0.351, 0.314, 0.302, 0.276, 0.267,
    0.246, 0.240, 0.224, 0.220, 0.206,
];

/// Up to where a gain may be luck. Ratios are compared as such, so `factor` is an exponent: where
/// the largest is 4 % above the smallest and the factor is 0.5, that is 1.04^0.5 - 1 = 2 %.
fn noise(spread: f64, factor: f64) -> f64 {
    stdx::math::pow(1.0 + spread, factor).min(RATIO_MAX) - 1.0
}

/// Device models are not exact to a thousandth, so a smaller difference is none.
const GAIN_MIN: f64 = 0.001;

impl Margin {
    /// The margin of `a` over `b`.
    #[must_use]
    pub fn of(a: &Scored, b: &Scored) -> Self {
        let pairs = a.by_seed.iter().zip(&b.by_seed);
        let ratios: Vec<f64> = pairs
            .map(|(&a, &b)| if a == b { 1.0 } else { (a / b).min(RATIO_MAX) })
            .collect();
        let spread = spread(&ratios);
        let last = NOISE.len() - 1;
        let factor = NOISE[ratios.len().saturating_sub(2).min(last)];
        Self {
            gain: median(ratios.iter().copied()) - 1.0,
            spread,
            noise: spread.map(|spread| noise(spread, factor).max(GAIN_MIN)),
        }
    }

    /// Whether it is more than noise. With one seed nobody knows, and any gain counts.
    #[must_use]
    pub fn is_real(self) -> bool {
        self.gain > self.noise.unwrap_or(GAIN_MIN)
    }
}

/// What came of tuning. Points are named by their place.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The highest score; of equals the one that changes the fewest tunables: the default, if it is
    /// among them.
    pub best: usize,
    /// How much better that is than the default.
    pub over_default: Margin,
    /// The second highest score, and how much better the best is.
    pub next: Option<(usize, Margin)>,
    /// All that are as good as the best but for noise, with the best, in the order of their scores.
    pub plateau: Vec<usize>,
    /// The highest score that is not one of these, and how much better the best is.
    pub beyond: Option<(usize, Margin)>,
}

/// The default is tried first.
pub(super) const DEFAULT: usize = 0;

impl Verdict {
    /// Judges `points`, of which the first is the default.
    #[must_use]
    pub fn of(points: &[Scored]) -> Self {
        let ranked = ranking(points);
        let best = ranked[0];
        let margin = |other: usize| Margin::of(&points[best], &points[other]);
        let is_alike = |other: usize| other == best || !margin(other).is_real();
        let with_margin = |other: usize| (other, margin(other));
        Self {
            best,
            over_default: margin(DEFAULT),
            next: ranked.get(1).copied().map(with_margin),
            plateau: ranked.iter().copied().filter(|&p| is_alike(p)).collect(),
            beyond: ranked
                .iter()
                .copied()
                .find(|&p| !is_alike(p))
                .map(with_margin),
        }
    }

    /// Whether the best is better than the default by more than noise.
    #[must_use]
    pub fn gains(&self) -> bool {
        self.best != DEFAULT && self.over_default.is_real()
    }
}

/// The places of `points` by their scores, the highest first; of equal ones those first that change
/// fewer tunables, and then those tried earlier.
pub(super) fn ranking(points: &[Scored]) -> Vec<usize> {
    let changes = |place: usize| {
        let pairs = points[place].point.iter().zip(&points[DEFAULT].point);
        pairs.filter(|(value, default)| value != default).count()
    };
    let mut ranked: Vec<usize> = (0..points.len()).collect();
    ranked.sort_by(|&a, &b| {
        let scores = points[b].score.total_cmp(&points[a].score);
        scores.then_with(|| changes(a).cmp(&changes(b)))
    });
    ranked
}

#[cfg(test)]
mod tests;
