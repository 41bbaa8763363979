//! The comparison itself.

use super::{Published, PublishedUnit, Which};

/// The rates of one policy in one case, for each client number that makes a difference.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulated {
    /// The policy's name without tunables.
    pub policy: String,
    /// In the unit of the case; never empty.
    pub rates: Vec<f64>,
}

impl Simulated {
    fn worst(&self) -> f64 {
        self.rates.iter().copied().fold(f64::INFINITY, f64::min)
    }

    fn mean(&self) -> f64 {
        self.rates.iter().sum::<f64>() / self.rates.len() as f64
    }

    fn best(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }
}

/// One published value and what came out for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The policy's name without tunables.
    pub policy: String,
    /// The client that it is for, where the source says so.
    pub client: Option<Which>,
    /// What was published.
    pub published: f64,
    /// The published value over the best one of the case.
    pub published_ratio: f64,
    /// Worst, mean and best over the clients; all the same but under `pid`.
    pub simulated: [f64; 3],
    /// The same over the best simulated policy of the case.
    pub simulated_ratio: [f64; 3],
    /// By how much the simulated ratio that is nearest is off, as a share of the published one:
    /// 0.1 is 10 % too high.
    pub error: f64,
}

/// One case compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The scenario's name.
    pub name: String,
    /// What the values are.
    pub unit: PublishedUnit,
    /// One for each published value, in the source's order.
    pub rows: Vec<Row>,
    /// The policy with the highest published value.
    pub published_winner: String,
    /// By how much it leads the next policy: 0.1 is 10 %; `None` where it is alone.
    pub published_lead: Option<f64>,
    /// The policy with the highest simulated rate, `pid` by its mean unless the source says which.
    pub simulated_winner: String,
}

/// A lead that a repeated measurement would show again. Two runs of one machine differ by that much
/// without anything being changed.
const LEAD_MIN: f64 = 0.10;

impl Case {
    /// Whether the winner says anything: somebody leads clearly.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.published_lead.is_some_and(|lead| lead > LEAD_MIN)
    }

    /// Whether the simulated winner is the published one.
    #[must_use]
    pub fn is_winner_right(&self) -> bool {
        self.published_winner == self.simulated_winner
    }

    /// The errors of all ratios but the one that is 1 by definition.
    fn errors(&self) -> impl Iterator<Item = f64> {
        let compared = self
            .rows
            .iter()
            .filter(|row| row.published_ratio < 1.0 && self.published_lead.is_some());
        compared.map(|row| row.error.abs())
    }
}

/// What is said of all cases together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Cases whose published lead is above 10 %.
    pub clear_cases: usize,
    /// In how many of these the winner is right.
    pub right_winners: usize,
    /// Ratios that were compared: those of all policies but each case's best.
    pub ratios: usize,
    /// The median of their errors' sizes.
    pub median_error: f64,
}

/// All cases together.
#[must_use]
pub fn summary(cases: &[Case]) -> Summary {
    let clear = cases.iter().filter(|case| case.counts());
    let mut errors: Vec<f64> = cases.iter().flat_map(Case::errors).collect();
    errors.sort_by(f64::total_cmp);
    let middle = errors.len() / 2;
    let median_error = match errors.len() {
        0 => 0.0,
        count if count % 2 == 1 => errors[middle],
        _ => f64::midpoint(errors[middle - 1], errors[middle]),
    };
    Summary {
        clear_cases: clear.clone().count(),
        right_winners: clear.filter(|case| case.is_winner_right()).count(),
        ratios: errors.len(),
        median_error,
    }
}

/// Compares what was published of a case with what was simulated.
///
/// # Panics
/// Where a published policy was not simulated.
#[must_use]
pub fn compare(name: &str, published: &Published, simulated: &[Simulated]) -> Case {
    let of = |policy: &str| {
        let mut all = simulated.iter();
        all.find(|simulated| simulated.policy == policy)
            .expect("every published policy was simulated")
    };
    // What stands for a published value where one number is wanted.
    let one_rate = |policy: &str, client: Option<Which>| match client {
        None => of(policy).mean(),
        Some(Which::Worst) => of(policy).worst(),
        Some(Which::Best) => of(policy).best(),
    };
    let results = &published.results;
    let winner = results.iter().max_by(|a, b| a.value.total_cmp(&b.value));
    let winner = winner.expect("something was published");
    let others = results.iter().filter(|other| other.policy != winner.policy);
    let second = others.map(|other| other.value).max_by(f64::total_cmp);
    let rates = results
        .iter()
        .map(|result| (&result.policy, one_rate(&result.policy, result.client)));
    // The first of equals, so that a tie is no win for whoever comes last.
    let (simulated_winner, best_rate) = rates.fold((&winner.policy, 0.0), |best, other| {
        if other.1 > best.1 { other } else { best }
    });
    let rows = results.iter().map(|result| {
        let simulated = of(&result.policy);
        let simulated = match result.client {
            None => [simulated.worst(), simulated.mean(), simulated.best()],
            Some(_) => [one_rate(&result.policy, result.client); 3],
        };
        let simulated_ratio = simulated.map(|rate| rate / best_rate);
        let published_ratio = result.value / winner.value;
        let nearest = published_ratio.clamp(simulated_ratio[0], simulated_ratio[2]);
        Row {
            policy: result.policy.clone(),
            client: result.client,
            published: result.value,
            published_ratio,
            simulated,
            simulated_ratio,
            error: relative_error(nearest, published_ratio),
        }
    });
    Case {
        name: name.to_owned(),
        unit: published.unit,
        rows: rows.collect(),
        published_winner: winner.policy.clone(),
        published_lead: second
            .filter(|second| *second > 0.0)
            .map(|second| winner.value / second - 1.0),
        simulated_winner: simulated_winner.clone(),
    }
}

/// How far `simulated` is from `published`, as a share of it; where nothing was published to move,
/// the difference itself.
fn relative_error(simulated: f64, published: f64) -> f64 {
    if published > 0.0 {
        simulated / published - 1.0
    } else {
        simulated - published
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Published, PublishedResult, PublishedUnit, Which};
    use super::{Simulated, compare, summary};

    fn published(results: &[(&str, f64, Option<Which>)]) -> Published {
        let results = results
            .iter()
            .map(|&(policy, value, client)| PublishedResult {
                policy: policy.to_owned(),
                value,
                client,
            });
        Published {
            unit: PublishedUnit::Iops,
            results: results.collect(),
        }
    }

    fn simulated(rates: &[(&str, &[f64])]) -> Vec<Simulated> {
        let rates = rates.iter().map(|&(policy, rates)| Simulated {
            policy: policy.to_owned(),
            rates: rates.to_vec(),
        });
        rates.collect()
    }

    #[test]
    fn ratios_to_the_best_are_compared_and_pid_may_be_any_client() {
        let published = published(&[("pid", 300.0, None), ("queue", 1000.0, None)]);
        let runs = simulated(&[("pid", &[100.0, 900.0]), ("queue", &[2000.0])]);
        let case = compare("case", &published, &runs);
        assert_eq!(case.published_winner, "queue");
        assert!(case.is_winner_right() && case.counts());
        assert_eq!(case.rows[0].simulated_ratio, [0.05, 0.25, 0.45]);
        assert_eq!(case.rows[0].error, 0.0, "0.3 lies between 0.05 and 0.45");
        let runs = simulated(&[("pid", &[100.0, 480.0]), ("queue", &[2000.0])]);
        let case = compare("case", &published, &runs);
        assert!((case.rows[0].error + 0.2).abs() < 1e-9, "0.24 for 0.3");
        let summary = summary(&[case]);
        assert_eq!((summary.clear_cases, summary.right_winners), (1, 1));
        assert_eq!(summary.ratios, 1, "the best one's is 1 by definition");
        assert!((summary.median_error - 0.2).abs() < 1e-9);
    }

    #[test]
    fn a_wrong_winner_is_told_and_a_small_lead_does_not_count() {
        let runs = simulated(&[("pid", &[700.0]), ("queue", &[500.0])]);
        let clear = compare(
            "case",
            &published(&[("pid", 1.0, None), ("queue", 1.2, None)]),
            &runs,
        );
        assert!(clear.counts() && !clear.is_winner_right());
        assert_eq!(clear.simulated_winner, "pid");
        let close = compare(
            "case",
            &published(&[("pid", 1.0, None), ("queue", 1.05, None)]),
            &runs,
        );
        assert!(!close.counts());
        let summary = summary(&[clear, close]);
        assert_eq!((summary.clear_cases, summary.right_winners), (1, 0));
    }

    #[test]
    fn where_the_source_says_which_client_that_one_is_meant() {
        let published = published(&[
            ("pid", 220.0, Some(Which::Worst)),
            ("pid", 513.0, Some(Which::Best)),
            ("roundrobin", 541.0, None),
        ]);
        let runs = simulated(&[("pid", &[217.0, 525.0, 217.0]), ("roundrobin", &[600.0])]);
        let case = compare("case", &published, &runs);
        assert_eq!(case.rows[0].simulated, [217.0; 3]);
        assert_eq!(case.rows[1].simulated, [525.0; 3]);
        assert!((case.published_lead.unwrap() - (541.0 / 513.0 - 1.0)).abs() < 1e-9);
        assert!(!case.counts());
    }

    #[test]
    fn a_policy_alone_has_nothing_to_be_compared_with() {
        let runs = simulated(&[("zfs-bonus", &[100.0])]);
        let case = compare("case", &published(&[("zfs-bonus", 398.0, None)]), &runs);
        assert_eq!(case.published_lead, None);
        assert_eq!(summary(&[case]).ratios, 0);
    }

    #[test]
    fn what_nobody_could_read_is_off_by_what_was_simulated() {
        let runs = simulated(&[("pid", &[50.0]), ("queue", &[100.0])]);
        let case = compare(
            "case",
            &published(&[("pid", 0.0, None), ("queue", 967.0, None)]),
            &runs,
        );
        assert_eq!(case.rows[0].error, 0.5);
    }
}
