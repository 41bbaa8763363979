//! What waits, by plain values.

use heliostat_types::{Extent, FlowId, Instant, LegId, OpKind};

/// An operation that waits for its turn, or that the device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// What the engine calls it; unique among those that wait and those that the device has.
    pub op: u32,
    /// On whose account.
    pub flow: FlowId,
    /// What is to be done.
    pub kind: OpKind,
    /// How much it matters.
    pub class: Class,
    /// Where on the leg; empty for a flush.
    pub extent: Extent,
    /// When it was handed to the leg.
    pub arrived: Instant,
}

/// How much a job matters; the first ones most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Flushes, writes that are answered only when durable, and the array's own metadata, which
    /// many others wait for.
    Urgent,
    /// What fetches, for a client or for the repair of what a client has read.
    Read,
    /// What stores, zeroes or trims, likewise.
    Write,
    /// What nobody waits for: resync, rebuild, scrub, and reads ahead of what was asked for.
    Background,
}

/// On which side of a job another one is to lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It ends where the job begins.
    Front,
    /// It begins where the job ends.
    Back,
}

impl Side {
    pub(crate) const BOTH: [Self; 2] = [Self::Front, Self::Back];
}

impl Job {
    /// Whether it is of a client, and can be done as one with what lies beside it.
    pub(crate) const fn may_join(&self) -> bool {
        matches!(self.kind, OpKind::Read | OpKind::Write)
            && matches!(self.class, Class::Read | Class::Write)
            && !self.extent.is_empty()
    }

    /// Whether it lies on that side of `first` and is of the same kind, flow and class.
    pub(crate) fn adjoins(&self, first: &Self, side: Side) -> bool {
        let touches = match side {
            Side::Front => self.extent.end() == first.extent.offset(),
            Side::Back => self.extent.offset() == first.extent.end(),
        };
        let alike = (self.kind, self.flow, self.class) == (first.kind, first.flow, first.class);
        touches && alike && !self.extent.is_empty() && self.op != first.op
    }
}

/// What a scheduler knows of the leg behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Which one it is.
    pub leg: LegId,
    /// Whether it turns.
    pub rotational: bool,
    /// Whether it answers writes from a cache, before they are where they stay.
    pub caches_writes: bool,
    /// How many operations the engine gives it at once.
    pub queue_depth: u32,
    /// How many legs there are behind it: one, or all of an array that are written to.
    pub leg_count: u32,
}

impl Device {
    /// Whether it may be at work for what it has answered: a disk that turns, and takes writes into
    /// a cache.
    pub(crate) const fn has_hidden_work(&self) -> bool {
        self.rotational && self.caches_writes
    }
}

/// What a flow may have of a leg, under a scheduler that looks at flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowLimits {
    /// Its share beside others that have work, as a multiple of what a flow of weight 1 gets;
    /// 1 to [`FlowLimits::WEIGHT_MAX`].
    pub weight: u32,
    /// Operations per second at most; 0: as many as there are.
    pub iops_max: u64,
    /// Bytes per second at most; 0: as many as there are.
    pub bytes_per_s_max: u64,
}

impl FlowLimits {
    /// The largest weight; as that of Linux's cgroups.
    pub const WEIGHT_MAX: u32 = 10_000;
    /// The weight of a flow of which nothing is said; as that of Linux's cgroups.
    pub const WEIGHT_DEFAULT: u32 = 100;

    /// Of a flow of which nothing is said.
    pub const DEFAULT: Self = Self {
        weight: Self::WEIGHT_DEFAULT,
        iops_max: 0,
        bytes_per_s_max: 0,
    };
}

impl Default for FlowLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
