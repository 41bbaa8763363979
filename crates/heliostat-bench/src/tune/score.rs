//! A point's figures beside those of the default.
//!
//! Every point is run with the same seeds, so the arrivals and the luck of the devices are equal,
//! and figures are compared seed by seed: a *ratio* is how many times better a point did than the
//! default with that seed (2: twice the rate, or half the time). The ratios of several scenarios
//! with one seed become one by their geometric mean, which does not ask in which unit or how fast a
//! scenario is. The *score* is the median of that over the seeds.

use heliostat_policy::PolicySpec;

use super::objective::Objective;
use super::search::Point;
use crate::averages::{geometric_mean, median};

/// A point with its figures.
#[derive(Clone, Debug)]
pub struct Scored {
    /// The values of the tunables that are swept.
    pub point: Point,
    /// The policy with these values.
    pub policy: PolicySpec,
    /// What came of it in each scenario.
    pub scenarios: Vec<ScenarioScore>,
    /// For each seed the geometric mean of the scenarios' ratios.
    pub by_seed: Vec<f64>,
    /// The median of these: 1 for the default, more is better.
    pub score: f64,
}

/// The figures of a point in one scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioScore {
    /// The objective for each seed; `None` where nothing was answered.
    pub values: Vec<Option<f64>>,
    /// Its median, or `None` where most seeds have nothing.
    pub value: Option<f64>,
    /// The median of the ratios to the default.
    pub ratio: f64,
}

/// A ratio to next to nothing says no more than this.
pub(super) const RATIO_MAX: f64 = 1e6;

impl Scored {
    /// Scores a point by `values`, scenario by scenario and in each seed by seed, beside those of
    /// the default.
    pub(super) fn new(
        objective: Objective,
        point: Point,
        policy: PolicySpec,
        values: Vec<Vec<Option<f64>>>,
        default: &[Vec<Option<f64>>],
    ) -> Self {
        let ratios: Vec<Vec<f64>> = values
            .iter()
            .zip(default)
            .map(|(values, default)| {
                let pairs = values.iter().zip(default);
                pairs.map(|(&a, &b)| ratio(objective, a, b)).collect()
            })
            .collect();
        let seed_count = ratios.first().map_or(0, Vec::len);
        let by_seed: Vec<f64> = (0..seed_count)
            .map(|seed| geometric_mean(ratios.iter().map(|ratios| ratios[seed])))
            .collect();
        let scenarios = values.into_iter().zip(&ratios);
        let scenarios = scenarios.map(|(values, ratios)| ScenarioScore {
            value: Some(median(values.iter().map(|value| value.unwrap_or(0.0))))
                .filter(|&value| value > 0.0),
            values,
            ratio: median(ratios.iter().copied()),
        });
        Self {
            point,
            policy,
            scenarios: scenarios.collect(),
            score: median(by_seed.iter().copied()),
            by_seed,
        }
    }

    /// The scenario in which it did worst beside the default; the first one of equals.
    #[must_use]
    pub fn worst(&self) -> usize {
        let ratios = self.scenarios.iter().map(|scenario| scenario.ratio);
        let worst = ratios
            .enumerate()
            .reduce(|worst, other| if other.1 < worst.1 { other } else { worst });
        worst.map_or(0, |(index, _)| index)
    }

    /// How much the score differs from seed to seed: by which part the largest is above the
    /// smallest. `None` for one seed, which says nothing about it.
    #[must_use]
    pub fn spread(&self) -> Option<f64> {
        spread(&self.by_seed)
    }
}

/// How many times better `value` is than `default`.
fn ratio(objective: Objective, value: Option<f64>, default: Option<f64>) -> f64 {
    let (Some(value), Some(default)) = (value, default) else {
        // Nothing was answered: as bad as can be, or as bad as the default.
        return if value == default { 1.0 } else { 0.0 };
    };
    let ratio = if objective.wants_more() {
        value / default
    } else {
        default / value
    };
    ratio.min(RATIO_MAX)
}

/// By which part the largest of several ratios is above the smallest.
pub(super) fn spread(ratios: &[f64]) -> Option<f64> {
    if ratios.len() < 2 {
        return None;
    }
    let most = ratios.iter().copied().fold(f64::MIN, f64::max);
    let least = ratios.iter().copied().fold(f64::MAX, f64::min);
    let times = if most == least { 1.0 } else { most / least };
    Some(times.min(RATIO_MAX) - 1.0)
}

/// Points for tests: one scenario, read IOPS, a default that has 100 of them with every seed.
#[cfg(test)]
pub(super) mod testing {
    use heliostat_policy::PolicySpec;

    use super::Scored;
    use crate::tune::Axis;

    /// Points `rotating_inc = 0, 1, ...` of `zfs`, the first being the default, with their ratios
    /// by seed.
    pub(in crate::tune) fn points(ratios: &[&[f64]]) -> (Vec<Axis>, Vec<Scored>) {
        let default = PolicySpec::parse("zfs").unwrap();
        let values: Vec<String> = (0..ratios.len()).map(|value| value.to_string()).collect();
        let axis = Axis::parse(&default, &format!("rotating_inc={}", values.join(","))).unwrap();
        let base = vec![vec![Some(100.0); ratios[0].len()]];
        let points = ratios.iter().zip(0..).map(|(ratios, value): (_, u64)| {
            let mut policy = default;
            policy.set("rotating_inc", &value.to_string()).unwrap();
            let values = ratios.iter().map(|ratio| Some(100.0 * ratio)).collect();
            let objective = "iops".parse().unwrap();
            Scored::new(objective, vec![value], policy, vec![values], &base)
        });
        (vec![axis], points.collect())
    }
}

#[cfg(test)]
mod tests {
    use heliostat_policy::PolicySpec;

    use super::{Scored, spread};

    fn scored(objective: &str, values: &[&[f64]], default: &[&[f64]]) -> Scored {
        let some = |values: &[&[f64]]| -> Vec<Vec<Option<f64>>> {
            let positive = |&value: &f64| Some(value).filter(|value| *value > 0.0);
            let scenarios = values.iter();
            scenarios
                .map(|seeds| seeds.iter().map(positive).collect())
                .collect()
        };
        let policy = PolicySpec::parse("zfs").unwrap();
        let objective = objective.parse().unwrap();
        Scored::new(objective, vec![0], policy, some(values), &some(default))
    }

    #[test]
    fn scenarios_count_alike_whatever_their_size() {
        // Twice as fast in one, half as fast in the other.
        let point = scored("iops", &[&[2_000.0], &[50.0]], &[&[1_000.0], &[100.0]]);
        assert!((point.score - 1.0).abs() < 1e-12, "{}", point.score);
        assert_eq!((point.worst(), point.scenarios[1].ratio), (1, 0.5));
        assert_eq!(point.spread(), None);
    }

    #[test]
    fn shorter_times_are_better() {
        let point = scored("p99", &[&[5.0, 8.0, 10.0]], &[&[10.0, 10.0, 10.0]]);
        assert_eq!(point.by_seed, [2.0, 1.25, 1.0]);
        assert_eq!((point.score, point.scenarios[0].value), (1.25, Some(8.0)));
        assert_eq!(point.spread(), Some(1.0));
    }

    #[test]
    fn seeds_are_compared_one_by_one() {
        // Seeds differ by a factor of three, but each is 10 % better than its default.
        let point = scored("bw", &[&[110.0, 220.0, 330.0]], &[&[100.0, 200.0, 300.0]]);
        assert!((point.score - 1.1).abs() < 1e-12);
        assert!(point.spread().unwrap() < 1e-12);
    }

    #[test]
    fn nothing_answered_is_as_bad_as_can_be() {
        let point = scored("p99", &[&[0.0], &[1.0]], &[&[1.0], &[1.0]]);
        assert_eq!((point.score, point.scenarios[0].value), (0.0, None));
        assert_eq!(point.worst(), 0);
    }

    #[test]
    fn a_spread_is_that_of_the_extremes() {
        assert_eq!(spread(&[1.0]), None);
        assert_eq!(spread(&[1.0, 4.0, 2.0]), Some(3.0));
        assert_eq!(spread(&[0.5, 0.5]), Some(0.0));
        assert_eq!(spread(&[0.0, 0.0]), Some(0.0));
        assert!(spread(&[0.0, 1.0]).unwrap() > 1e5);
    }
}
