//! What is given to a leg and what comes back.

use heliostat_types::{ErrorKind, Extent, LegId, LegOpId, OpKind, StatusRun};

use crate::arena::LegMemory;

/// One operation for one leg.
#[derive(Clone, Debug)]
pub struct LegIo {
    /// Echoed.
    pub op: LegOpId,
    /// What.
    pub kind: OpKind,
    /// Which bytes of the leg's data, aligned to its logical block.
    pub extent: Extent,
    /// Source or destination in the arena, as long as the extent, 512-byte aligned or better;
    /// `None` where no bytes move.
    pub memory: Option<LegMemory>,
    /// Complete only when durable.
    pub fua: bool,
    /// For write-zeroes: storage may be given back.
    pub may_trim: bool,
    /// Better failed at once than done late: the leg will be out then.
    pub failfast: bool,
}

/// How an operation ended.
#[derive(Clone, Debug)]
pub struct LegDone {
    /// Which leg.
    pub leg: LegId,
    /// Which operation.
    pub op: LegOpId,
    /// How.
    pub outcome: LegOutcome,
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LegOutcome {
    /// Well.
    Done,
    /// With the runs of a block-status operation.
    Status(Vec<StatusRun>),
    /// Not.
    Failed(ErrorKind),
    /// It moved fewer bytes than asked, or the leg became smaller: the leg is not to be trusted.
    Short,
    /// Not, and what the leg answered before may be gone, or it is not the leg any more that it
    /// was: it is not to be trusted. Of an export told once, or of each of those that were done as
    /// one; what it is asked later only fails.
    Lost,
}
