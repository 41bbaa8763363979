//! Published figures beside simulated ones, as ratios to the best policy of each case.
//!
//! A scenario may carry a `[published]` table with what somebody measured on real disks. Nothing
//! of it goes into the run: it is compared with what came out. Absolute rates depend on disks that
//! nobody but the source's author owns; which policy is how much better than another is what such a
//! table tells, so ratios are compared.
//!
//! `pid` sends every read of a process to one leg, so its figure depends on the process's number,
//! which no source gives. It is run for every number that makes a difference, and told as the
//! worst, the mean and the best; a published figure between the worst and the best is right.

mod cases;
mod compare;

pub use cases::{compare_runs, published_cases, runs_of};
pub use compare::{Case, Row, Simulated, Summary, compare, summary};

/// What somebody measured and published.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// What the values are.
    pub unit: PublishedUnit,
    /// One or more per policy.
    pub results: Vec<PublishedResult>,
}

/// What a published value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishedUnit {
    /// Reads per second.
    Iops,
    /// MiB per second, reads and writes together.
    MibPerSecond,
}

impl PublishedUnit {
    /// How it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Iops => "IOPS",
            Self::MibPerSecond => "MiB/s",
        }
    }
}

/// One published value.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedResult {
    /// The policy, by its name without tunables.
    pub policy: String,
    /// How much of the unit.
    pub value: f64,
    /// Which process's number it is for, where the source says so.
    pub client: Option<Which>,
}

/// One of the numbers that the processes of `pid` can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The one with the lowest rate.
    Worst,
    /// The one with the highest.
    Best,
}
