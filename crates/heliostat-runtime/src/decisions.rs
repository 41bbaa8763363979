//! Decisions of a policy, as they are told to people and programs.
//!
//! The structs are wire formats: their fields are what `heliostat sim --trace --json` and
//! `heliostat explain --json` print.

use std::borrow::Cow;
use std::fmt;

use heliostat_policy::{Belief, Decision, LegView, Weight};
use heliostat_types::{Duration, Instant};
use serde::{Deserialize, Serialize};
use stdx::units::format_size;

/// One decision of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionFigures {
    /// Which one it is, from 0.
    pub decision: u64,
    /// When, in a run from the start of measuring, and negative during the warm-up; of an array
    /// that is being served from the moment it was asked.
    pub at_ns: i64,
    /// Whose read it is.
    pub client: u64,
    /// Where it begins.
    pub offset: u64,
    /// How long it is.
    pub bytes: u64,
    /// Which part of the policy's rule decided, where it has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'static, str>>,
    /// Which legs were chosen: one, unless the read was split.
    pub pieces: Vec<PieceFigures>,
    /// What was seen of each leg that could serve it, and what was believed of it.
    pub legs: Vec<CandidateFigures>,
}

/// One piece of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PieceFigures {
    /// Which leg serves it.
    pub leg: usize,
    /// How many bytes, from where the piece before it ended.
    pub bytes: u64,
}

/// What a policy saw of a leg, and believed of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CandidateFigures {
    /// Which leg.
    pub leg: usize,
    /// Where on it the read would begin.
    pub address: u64,
    /// Reads in flight.
    pub reads_in_flight: u32,
    /// Writes, trims, write-zeroes and flushes in flight.
    pub writes_in_flight: u32,
    /// Bytes of the reads in flight.
    pub read_bytes_in_flight: u64,
    /// Bytes of the writes in flight.
    pub write_bytes_in_flight: u64,
    /// Where the last read or write handed to the leg ends.
    pub last_sent_end: Option<u64>,
    /// Whether it says that it turns.
    pub rotational: bool,
    /// Whether it is preferred by configuration.
    pub read_preferred: bool,
    /// How many operations it takes at once.
    pub queue_depth: u32,
    /// Reads completed.
    pub reads_completed: u64,
    /// Sum of their service times.
    pub read_wait_ns: u64,
    /// What it was weighed at; the least is chosen.
    #[serde(flatten)]
    pub weight: Option<WeightFigures>,
    /// How long the read was predicted to take here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_ns: Option<u64>,
    /// Whether the leg was slower than it is known to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow: Option<bool>,
    /// Whether it was taken for one with an arm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<bool>,
    /// Whether writes wait for it more than for others, which is in `predicted_ns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delays_writes: Option<bool>,
}

/// What a leg was weighed at. All of one policy are of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WeightFigures {
    /// In a unit of the policy's own.
    #[serde(rename = "weight")]
    Points(i64),
    /// So many bytes.
    #[serde(rename = "weight_bytes")]
    Bytes(u64),
    /// So long.
    #[serde(rename = "weight_ns")]
    Ns(u64),
}

impl From<Weight> for WeightFigures {
    fn from(weight: Weight) -> Self {
        match weight {
            Weight::Points(points) => Self::Points(points),
            Weight::Bytes(bytes) => Self::Bytes(bytes),
            Weight::Time(time) => Self::Ns(time.as_ns()),
        }
    }
}

impl fmt::Display for WeightFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Points(points) => write!(f, "{points}"),
            Self::Bytes(bytes) => f.write_str(&format_size(*bytes)),
            Self::Ns(ns) => write!(f, "{}", Duration::from_ns(*ns)),
        }
    }
}

impl DecisionFigures {
    /// A decision, the `number`th one, at its time since `from`.
    #[must_use]
    pub fn new(number: u64, from: Instant, decision: &Decision<'_>) -> Self {
        let ns = i128::from(decision.at.as_ns()) - i128::from(from.as_ns());
        let beliefs = decision.beliefs.iter().zip(decision.weights);
        let candidates = decision.legs.iter().zip(beliefs);
        let pieces = decision.pieces().map(|(leg, bytes)| PieceFigures {
            leg: leg.index(),
            bytes,
        });
        Self {
            decision: number,
            at_ns: i64::try_from(ns).unwrap_or(i64::MAX),
            client: decision.request.client.0,
            offset: decision.request.extent.offset(),
            bytes: decision.request.extent.len(),
            reason: decision.reason.map(Cow::Borrowed),
            pieces: pieces.collect(),
            legs: candidates
                .map(|(view, (belief, weight))| CandidateFigures::new(view, *belief, *weight))
                .collect(),
        }
    }
}

impl CandidateFigures {
    fn new(view: &LegView, belief: Option<Belief>, weight: Option<Weight>) -> Self {
        Self {
            leg: view.leg.index(),
            address: view.address,
            reads_in_flight: view.reads_in_flight,
            writes_in_flight: view.writes_in_flight,
            read_bytes_in_flight: view.read_bytes_in_flight,
            write_bytes_in_flight: view.write_bytes_in_flight,
            last_sent_end: view.last_sent_end,
            rotational: view.rotational,
            read_preferred: view.read_preferred,
            queue_depth: view.queue_depth,
            reads_completed: view.reads_completed,
            read_wait_ns: view.read_wait.as_ns(),
            weight: weight.map(WeightFigures::from),
            predicted_ns: belief.map(|belief| belief.cost.as_ns()),
            slow: belief.map(|belief| belief.is_slow),
            turns: belief.map(|belief| belief.turns),
            delays_writes: belief.map(|belief| belief.delays_writes),
        }
    }

    /// Operations in flight.
    #[must_use]
    pub const fn in_flight(&self) -> u64 {
        self.reads_in_flight as u64 + self.writes_in_flight as u64
    }
}

/// A line of a trace.
impl fmt::Display for DecisionFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.at_ns < 0 { "-" } else { "" };
        let ns = self.at_ns.unsigned_abs();
        let (seconds, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
        write!(
            f,
            "{sign}{seconds}.{rest:09} r{} client {} read {}+{}:",
            self.decision, self.client, self.offset, self.bytes
        )?;
        for (index, piece) in self.pieces.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma} leg {}", piece.leg)?;
            if piece.bytes != self.bytes {
                write!(f, " for {}", piece.bytes)?;
            }
        }
        if let Some(reason) = &self.reason {
            write!(f, " ({reason})")?;
        }
        f.write_str(" of [")?;
        for (index, candidate) in self.legs.iter().enumerate() {
            let separator = if index > 0 { "; " } else { "" };
            write!(f, "{separator}{candidate}")?;
        }
        f.write_str("]")
    }
}

/// What was seen of one leg, in a few words.
impl fmt::Display for CandidateFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kib = (self.read_bytes_in_flight + self.write_bytes_in_flight) / 1024;
        write!(
            f,
            "{}: {} reads {} writes {kib} KiB",
            self.leg, self.reads_in_flight, self.writes_in_flight
        )?;
        match self.last_sent_end {
            Some(end) => write!(f, ", last end {end}")?,
            None => f.write_str(", nothing sent yet")?,
        }
        if let Some(mean_ns) = self.read_wait_ns.checked_div(self.reads_completed) {
            write!(f, ", mean {}", Duration::from_ns(mean_ns))?;
        }
        if self.rotational {
            f.write_str(", rotational")?;
        }
        if self.read_preferred {
            f.write_str(", preferred")?;
        }
        if let Some(weight) = self.weight {
            write!(f, ", weight {weight}")?;
        }
        if let Some(ns) = self.predicted_ns {
            write!(f, ", predicted {}", Duration::from_ns(ns))?;
        }
        if self.slow == Some(true) {
            f.write_str(", slow now")?;
        }
        if self.turns == Some(true) {
            f.write_str(", taken for rotational")?;
        }
        if self.delays_writes == Some(true) {
            f.write_str(", writes wait for it")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
