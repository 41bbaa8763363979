//! What operations take of a device's time, learned from all legs of an array together, so that two
//! legs which hold the same data expect the same of the same operations, and order them alike.
//!
//! What is learned is learned of sorts of work: reads or writes, of about one size, where the last
//! one of the same flow ended or elsewhere. Flows that ask for the same are charged the same,
//! wherever the arm happens to be, and nobody is new.

use std::collections::BTreeMap;

use heliostat_types::{FlowId, LEGS_MAX, LegId, LegSet};

use crate::job::{Class, Device, Job};

/// Taken for the cost of an operation where none is known, in ns: of a disk that turns, and of
/// others.
const USUAL_NS: [f64; 2] = [8e6, 1e5];
/// What it takes a disk to get somewhere, as long as nothing is known.
const DISK_WAY_NS: f64 = 3.5e6;
/// How much the last operation weighs.
const LEARNED_PART: f64 = 1.0 / 256.0;
/// Sizes from 2^12 to 2^25 bytes, and what is smaller and larger.
const SIZES: usize = 14;

/// What so many operations have taken is known.
const KNOWN_OPS: u64 = 32;

/// No operation is expected to take less, or more.
const COST_NS: [f64; 2] = [1e3, 1e10];

/// A sort of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Work {
    is_read: bool,
    /// Whether it goes on where the last one of its flow ended.
    goes_on: bool,
    size: usize,
}

impl Work {
    pub(crate) fn of(job: &Job, goes_on: bool) -> Self {
        let pages = job.extent.len().max(1).div_ceil(4096).next_power_of_two();
        let size = usize::try_from(pages.trailing_zeros()).expect("it is small");
        Self {
            is_read: matches!(job.class, Class::Read),
            goes_on,
            size: size.min(SIZES - 1),
        }
    }
}

/// What a flow has asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Asked {
    pub(crate) flow: FlowId,
    pub(crate) work: Work,
    /// What it is expected to take; 0: it is on nobody's account.
    pub(crate) ns: u64,
    /// What it took of its flow's part of a round.
    pub(crate) paid_ns: u64,
}

/// What a sort of work has taken.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    ns: f64,
    /// How often it was learned of; 0: nothing is known.
    learned: u64,
}

/// What is known of legs of one kind: of disks that turn, or of others.
#[derive(Debug)]
struct Kind {
    usual_ns: f64,
    /// By direction, by whether they go on, and by size.
    costs: [[[Cost; SIZES]; 2]; 2],
    /// What the jobs of each flow are expected to take that wait in front of each leg or are in it,
    /// in ns.
    outstanding_ns: BTreeMap<(FlowId, LegId), u64>,
}

impl Kind {
    const fn new(usual_ns: f64) -> Self {
        let unknown = Cost {
            ns: 0.0,
            learned: 0,
        };
        Self {
            usual_ns,
            costs: [[[unknown; SIZES]; 2]; 2],
            outstanding_ns: BTreeMap::new(),
        }
    }
}

/// Rounds of disks that turn, which they do at the same time.
#[derive(Debug, Default)]
struct Rounds {
    /// Rises when all have ended theirs.
    number: u64,
    /// Those that have not.
    under_way: LegSet,
}

/// What is known.
#[derive(Debug)]
pub struct Costs {
    kinds: [Kind; 2],
    rounds: Rounds,
}

impl Costs {
    /// Nothing is known.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            kinds: [Kind::new(USUAL_NS[0]), Kind::new(USUAL_NS[1])],
            rounds: Rounds {
                number: 0,
                under_way: LegSet::EMPTY,
            },
        }
    }

    const fn kind(&mut self, rotational: bool) -> &mut Kind {
        &mut self.kinds[if rotational { 0 } else { 1 }]
    }

    /// What a job is expected to take, in ns.
    pub(crate) fn expected_ns(&self, rotational: bool, work: Work) -> u64 {
        let kind = &self.kinds[usize::from(!rotational)];
        let sizes = &kind.costs[usize::from(work.is_read)][usize::from(work.goes_on)];
        let cost = sizes[work.size];
        let ns = if cost.learned > 0 {
            cost.ns
        } else if rotational {
            let bytes_ns = (4096_u64 << work.size) as f64 / 0.15;
            if work.goes_on {
                bytes_ns
            } else {
                DISK_WAY_NS + bytes_ns
            }
        } else {
            kind.usual_ns
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is between a microsecond and ten seconds"
        )]
        let ns = ns.clamp(COST_NS[0], COST_NS[1]) as u64;
        ns
    }

    /// What a job that was asked for is taken to take, in ns: what was expected then, unless it has
    /// turned out to be less than half.
    pub(crate) fn price_ns(&self, rotational: bool, asked: &Asked) -> u64 {
        let now = self.expected_ns(rotational, asked.work);
        if asked.ns < now / 2 { now } else { asked.ns }
    }

    /// Whether that was learned.
    pub(crate) fn is_known(&self, rotational: bool, work: Work) -> bool {
        let kind = &self.kinds[usize::from(!rotational)];
        let sizes = &kind.costs[usize::from(work.is_read)][usize::from(work.goes_on)];
        sizes[work.size].learned >= KNOWN_OPS
    }

    /// A job has taken so much.
    pub(crate) fn learn(&mut self, rotational: bool, work: Work, ns: f64) {
        let kind = self.kind(rotational);
        kind.usual_ns += (ns - kind.usual_ns) * LEARNED_PART;
        let sizes = &mut kind.costs[usize::from(work.is_read)][usize::from(work.goes_on)];
        let cost = &mut sizes[work.size];
        cost.learned = cost.learned.saturating_add(1);
        // An average of the first ones, then one that forgets.
        let part = (1.0 / cost.learned as f64).max(LEARNED_PART);
        cost.ns += (ns - cost.ns) * part;
    }

    /// What all takes that a flow has outstanding at the leg of its kind where that is most, in ns.
    pub(crate) fn outstanding_ns(&self, rotational: bool, flow: FlowId) -> u64 {
        let outstanding = &self.kinds[usize::from(!rotational)].outstanding_ns;
        let legs = (flow, LegId::new(0))..=(flow, LegId::new(LEGS_MAX - 1));
        outstanding
            .range(legs)
            .map(|(_, ns)| *ns)
            .max()
            .unwrap_or(0)
    }

    /// A flow asks a leg for what is expected to take so long.
    pub(crate) fn begin(&mut self, device: Device, flow: FlowId, ns: u64) {
        let outstanding = &mut self.kind(device.rotational).outstanding_ns;
        *outstanding.entry((flow, device.leg)).or_insert(0) += ns;
    }

    /// That has ended, or is not done.
    pub(crate) fn end(&mut self, device: Device, flow: FlowId, ns: u64) {
        let outstanding = &mut self.kind(device.rotational).outstanding_ns;
        let own = outstanding.get_mut(&(flow, device.leg));
        let own = own.expect("what ends has begun");
        *own -= ns;
        if *own == 0 {
            outstanding.remove(&(flow, device.leg));
        }
    }

    /// A leg begins a round: its number.
    pub(crate) fn begin_round(&mut self, leg: LegId) -> u64 {
        self.rounds.under_way.insert(leg);
        self.rounds.number
    }

    /// A leg has ended its round.
    pub(crate) fn end_round(&mut self, leg: LegId) {
        let was = self.rounds.under_way.contains(leg);
        self.rounds.under_way.remove(leg);
        if was && self.rounds.under_way.is_empty() {
            self.rounds.number += 1;
        }
    }

    /// Whether others have not ended a round of that number.
    pub(crate) fn is_under_way(&self, number: u64) -> bool {
        self.rounds.number == number && !self.rounds.under_way.is_empty()
    }

    /// Whether nobody has anything outstanding.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        let mut kinds = self.kinds.iter();
        kinds.all(|kind| kind.outstanding_ns.is_empty())
    }

    /// There is another leg in this one's place.
    pub(crate) fn forget(&mut self, leg: LegId) {
        self.end_round(leg);
        for kind in &mut self.kinds {
            kind.outstanding_ns.retain(|(_, one), _| *one != leg);
        }
    }
}

impl Default for Costs {
    fn default() -> Self {
        Self::new()
    }
}
