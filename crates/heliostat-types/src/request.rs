//! Who asks, for what, under which number.

/// Who sends a request: one peer (a process, or an address) of one export. Connections of one peer
/// share it. The shell hands out small numbers in order of appearance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// On whose account a request is done: a client of the whole array, or all clients of one part of
/// it together. Schedulers share the legs out among these, and statistics are kept for each. The
/// shell hands out small numbers and uses them again, so that they can index a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

impl FlowId {
    /// The array itself: its metadata, resync, rebuild and scrub. No client has it, and it indexes
    /// no table.
    pub const ARRAY: Self = Self(u32::MAX);
}

/// One connection of a client, or one job of a workload: requests of one stream arrive in an order
/// that may mean something (a sequential reader), those of different streams do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// What whoever submits a request calls it; unique among the requests in flight, and echoed when
/// the request completes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// What the engine calls an operation on one leg; never used twice within an engine's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LegOpId(pub u64);

/// What is done to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OpKind {
    /// Bytes are fetched.
    Read,
    /// Bytes are stored.
    Write,
    /// Everything completed before it is made durable.
    Flush,
    /// Bytes are given up. On a leg, only in a form that reads zeros afterwards.
    Trim,
    /// Bytes become zeros without being sent.
    WriteZeroes,
    /// It is asked which ranges are holes or zeros.
    BlockStatus,
}

impl OpKind {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Read,
        Self::Write,
        Self::Flush,
        Self::Trim,
        Self::WriteZeroes,
        Self::BlockStatus,
    ];

    /// Whether the device holds other bytes afterwards.
    #[must_use]
    pub const fn is_mutating(self) -> bool {
        matches!(self, Self::Write | Self::Trim | Self::WriteZeroes)
    }

    /// The word for it in messages and traces.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Trim => "trim",
            Self::WriteZeroes => "write-zeroes",
            Self::BlockStatus => "block-status",
        }
    }
}

/// A run of bytes with one allocation state, as a leg or the array reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusRun {
    /// How many bytes, from where the run before it ended; never zero.
    pub len_bytes: u64,
    /// Whether no storage is allocated for them.
    pub hole: bool,
    /// Whether they read as zeros.
    pub zero: bool,
}
