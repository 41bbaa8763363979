//! What a policy is held to.

use super::judge::{AS_MUCH, Judged};
use super::parts::Class;
use crate::averages::geometric_mean;

/// So many times as long as somebody else's a p99.9 may be: a histogram knows it to 3 %.
pub(super) const TAIL_MAX: f64 = 1.05;

/// One thing that a policy is held to, and how it did.
#[derive(Clone, Debug)]
pub struct Target {
    /// In words.
    pub title: String,
    /// Of all cells that it is looked at in, so large a share may miss it.
    pub may_miss: f64,
    /// What was looked at, in the order of the cells.
    pub(super) looked: Vec<Looked>,
}

/// A figure beside its limit.
#[derive(Clone, Debug)]
pub(super) struct Looked {
    /// The cell, or the class.
    pub(super) place: String,
    pub(super) value: f64,
    pub(super) limit: Limit,
    /// The policy that it is compared with, where there is one.
    pub(super) beside: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

impl Looked {
    pub(super) fn is_met(&self) -> bool {
        match self.limit {
            Limit::AtLeast(limit) => self.value >= limit,
            Limit::AtMost(limit) => self.value <= limit,
        }
    }
}

impl Target {
    fn new(title: &str, looked: Vec<Looked>) -> Self {
        Self {
            title: title.to_owned(),
            may_miss: 0.0,
            looked,
        }
    }

    /// How many cells it was looked at in.
    #[must_use]
    pub fn count(&self) -> usize {
        self.looked.len()
    }

    /// Those that miss it, the worst first.
    pub(super) fn missed(&self) -> Vec<&Looked> {
        let mut missed: Vec<&Looked> = self.looked.iter().filter(|l| !l.is_met()).collect();
        missed.sort_by(|a, b| match a.limit {
            Limit::AtLeast(_) => a.value.total_cmp(&b.value),
            Limit::AtMost(_) => b.value.total_cmp(&a.value),
        });
        missed
    }

    /// Whether no more cells miss it than may.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.missed().len() as f64 <= self.may_miss * self.count() as f64
    }
}

/// All targets, those that no cell was run for left out.
#[must_use]
pub fn targets(judged: &[Judged]) -> Vec<Target> {
    let to_best = |least: f64| {
        look(judged, |cell| {
            let beside = cell.best.map(|best| cell.rows[best].policy.clone())?;
            Some((cell.to_best?, Limit::AtLeast(least), beside))
        })
    };
    let most_cells = Target {
        may_miss: 0.01,
        ..Target::new(
            "throughput at least 0.99 of the best other policy's in 99 of 100 cells",
            to_best(AS_MUCH),
        )
    };
    let mut targets = vec![
        most_cells,
        Target::new("and nowhere below 0.95 of it", to_best(0.95)),
        Target::new(
            "in each class, on average at least 0.95 of the oracle's (more counts as 1)",
            classes(judged),
        ),
        Target::new(
            "p99.9 of reads at most 1.05 of that of whoever does as much",
            look(judged, |cell| {
                let tail = cell.tail.as_ref()?;
                Some((tail.ratio, Limit::AtMost(TAIL_MAX), tail.policy.clone()))
            }),
        ),
        Target::new(
            "with pauses of one leg, a p99.9 at least 5 times shorter than that of 'queue'",
            look(judged, pauses),
        ),
        Target::new(
            "one stream: at least 2.7 times one HDD with three, 1.9 times one NVMe with two",
            streams(judged),
        ),
        Target::new(
            "eight streams on two HDDs at least 0.99 as fast as under 'pid'",
            beside(judged, &["2hdd/8streams"], "pid", AS_MUCH),
        ),
        Target::new(
            "three HDDs, random at depth 1: at least 1.25 times 'queue'",
            beside(judged, &["3hdd/4k-d1"], "queue", 1.25),
        ),
    ];
    targets.extend(rest(judged));
    targets.retain(|target| target.count() > 0);
    targets
}

fn rest(judged: &[Judged]) -> [Target; 4] {
    let extra = |most: f64, healthy_only: bool| {
        look(judged, move |cell| {
            let is_meant = cell.cell.is_healthy() || !healthy_only;
            let extra = cell.mine().extra;
            is_meant.then(|| (extra, Limit::AtMost(most), String::new()))
        })
    };
    let equal_nvme = |cell: &&Judged| {
        let is_equal = ["2nvme", "3nvme"].contains(&cell.cell.array.name);
        is_equal && cell.cell.is_healthy() && cell.cell.class() == Class::Random
    };
    let equal: Vec<String> = judged
        .iter()
        .filter(equal_nvme)
        .map(|cell| cell.cell.name())
        .collect();
    let equal: Vec<&str> = equal.iter().map(String::as_str).collect();
    [
        Target::new(
            "after a slow phase, 0.95 of full speed from 0.5 s (flash) or 2 s (HDD) on",
            look(judged, |cell| {
                let value = cell.mine().rehabilitation?;
                Some((value, Limit::AtLeast(0.95), String::new()))
            }),
        ),
        Target::new(
            "hedges and probes: at most 0.5 % of reads where nothing is wrong",
            extra(0.005, true),
        ),
        Target::new("and 3 % ever", extra(0.03, false)),
        Target::new(
            "equal NVMe legs, random reads: within 1 % of 'pid'",
            beside(judged, &equal, "pid", AS_MUCH),
        ),
    ]
}

/// What `figure` says of each cell that it says anything of.
fn look(
    judged: &[Judged],
    figure: impl Fn(&Judged) -> Option<(f64, Limit, String)>,
) -> Vec<Looked> {
    let looked = judged.iter().filter_map(|cell| {
        let (value, limit, beside) = figure(cell)?;
        Some(Looked {
            place: cell.cell.name(),
            value,
            limit,
            beside,
        })
    });
    looked.collect()
}

/// The geometric means of each class.
fn classes(judged: &[Judged]) -> Vec<Looked> {
    let classes = [Class::Random, Class::Stream, Class::Mixed].into_iter();
    let means = classes.filter_map(|class| {
        Some(Looked {
            place: class.name().to_owned(),
            value: class_mean(judged, class)?,
            limit: Limit::AtLeast(0.95),
            beside: super::judge::ORACLE.to_owned(),
        })
    });
    means.collect()
}

/// The geometric mean of the ratios to the oracle in a class, those above 1 counted as 1.
pub(super) fn class_mean(judged: &[Judged], class: Class) -> Option<f64> {
    let of_class = judged.iter().filter(|cell| cell.cell.class() == class);
    let ratios = of_class.filter_map(|cell| cell.to_oracle);
    let ratios: Vec<f64> = ratios.map(|ratio| ratio.min(1.0)).collect();
    (!ratios.is_empty()).then(|| geometric_mean(ratios.into_iter()))
}

/// `queue`'s p99.9 over the judged policy's, where one leg pauses.
fn pauses(judged: &Judged) -> Option<(f64, Limit, String)> {
    if !judged.cell.wrong.name.starts_with("pauses") {
        return None;
    }
    let queue = judged.row("queue")?;
    if queue.policy == judged.mine().policy {
        return None;
    }
    let times = 1.0 / judged.mine().tail_ratio(queue);
    Some((times, Limit::AtLeast(5.0), "queue".to_owned()))
}

/// One stream on several legs beside the same on one.
fn streams(judged: &[Judged]) -> Vec<Looked> {
    let find = |name: &str| judged.iter().find(|cell| cell.cell.name() == name);
    let pairs = [
        ("3hdd/1stream", "1hdd/1stream", 2.7),
        ("2nvme/1stream", "1nvme/1stream", 1.9),
    ];
    let looked = pairs.into_iter().filter_map(|(many, one, least)| {
        let value = find(many)?.mine().ratio_to(find(one)?.mine());
        Some(Looked {
            place: many.to_owned(),
            value,
            limit: Limit::AtLeast(least),
            beside: "itself on one leg".to_owned(),
        })
    });
    looked.collect()
}

/// The judged policy beside the one called `name` in some cells.
fn beside(judged: &[Judged], cells: &[&str], name: &str, least: f64) -> Vec<Looked> {
    look(judged, |cell: &Judged| {
        let other = cell.row(name)?;
        let is_meant = cells.contains(&cell.cell.name().as_str());
        let is_other = other.policy != cell.mine().policy;
        let value = cell.mine().ratio_to(other);
        (is_meant && is_other).then(|| (value, Limit::AtLeast(least), name.to_owned()))
    })
}
