//! What a policy has learned of the legs, for people.

use heliostat_types::{Duration, LegSet};

/// What a policy believes of one leg.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LegBeliefs {
    /// What it goes by beside that, as far as it is known of this leg.
    pub facts: Vec<Fact>,
    /// How long reads take here, by the load that they meet; none where nothing was learned yet.
    pub curves: Vec<CurveBelief>,
}

impl LegBeliefs {
    /// Facts, as far as they are known, and no curves.
    pub(crate) fn of_facts<const N: usize>(facts: [Option<Fact>; N]) -> Self {
        Self {
            facts: facts.into_iter().flatten().collect(),
            curves: Vec::new(),
        }
    }
}

/// What a policy believes of a stream that somebody reads, and does about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamBelief {
    /// Where it goes on.
    pub offset: u64,
    /// How far it has been read, since its reader began or paused last.
    pub read_bytes: u64,
    /// How much of it is read ahead just now, or is to be.
    pub ahead_bytes: u64,
    /// The legs that it is kept to; empty: it is kept to none.
    pub legs: LegSet,
    /// How it is read ahead, or why it is not, in a few words.
    pub how: &'static str,
}

/// One thing that a policy goes by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fact {
    /// What it is called: words in lower case with `_` between them, and its unit behind them
    /// (`_ns`, `_bytes`, `_bytes_per_s`, `_times`, `_share`, none where it is counted, a word, or
    /// true or false).
    pub key: &'static str,
    /// What it is.
    pub value: FactValue,
}

/// What a [`Fact`] is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FactValue {
    /// Yes or no.
    Flag(bool),
    /// One of a few words.
    Word(&'static str),
    /// How many.
    Count(u64),
    /// How long.
    Time(Duration),
    /// How many bytes.
    Bytes(u64),
    /// How many bytes in a second.
    Rate(u64),
    /// How many times something else.
    Times(f64),
    /// Which part of something, from 0 to 1.
    Share(f64),
}

impl Fact {
    /// A fact, where it is known.
    pub(crate) fn new(key: &'static str, value: Option<FactValue>) -> Option<Self> {
        value.map(|value| Self { key, value })
    }
}

/// What a policy weighs a candidate at. All of one policy are of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// In a unit of its own.
    Points(i64),
    /// So many bytes.
    Bytes(u64),
    /// So long.
    Time(Duration),
}

/// How long reads of one kind are believed to take.
#[derive(Clone, Debug, PartialEq)]
pub struct CurveBelief {
    /// Reads of up to so many bytes; `None`: of any size above the other curves.
    pub bytes_max: Option<u64>,
    /// Reads that go on with a stream, rather than any others.
    pub streams: bool,
    /// Parts of reads that were cut.
    pub parts: bool,
    /// How many reads what is believed is worth, about: few new ones correct what is old.
    pub weight: f32,
    /// By rising load.
    pub points: Vec<CurvePoint>,
}

/// How long reads are believed to take at one load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// What is in flight at the leg, the read itself included.
    pub load: u32,
    /// From the dispatch to the answer.
    pub time: Duration,
    /// Whether reads were seen at about this load; otherwise it follows from the other points.
    pub seen: bool,
}
