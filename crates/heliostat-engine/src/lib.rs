//! The mirror as a state machine: requests and completions in, leg operations and answers out.
//!
//! The engine has no clock, does no I/O and starts no thread. A shell (the runtime with real legs
//! and real time, the simulator with models and virtual time) feeds it one [`Input`], drains its
//! [`Output`]s, and feeds the next. Both shells run this same code.
//!
//! Bytes are never touched here either: outputs name buffers, and [`BufferTable`] says where in the
//! shell's arena they lie and carries out copies and zeroing on any [`Memory`].
#![forbid(unsafe_code)]

mod accounting;
mod admission;
mod api;
mod asked;
mod assembled;
mod background;
mod bad_blocks;
mod buffer;
mod change;
mod completion;
mod dispatch;
mod divergence;
mod engine;
mod failfast;
mod flags;
mod flush;
mod grow;
mod hedge;
mod intent;
mod joined;
mod legs;
mod lineage;
mod locks;
mod map;
mod metadata;
mod moved;
mod needed;
mod prefetch;
mod read;
mod record;
mod repair;
mod replace;
mod slab;
mod spares;
mod stage;
mod status;
mod sweep;
mod write;
mod write_behind;

pub use accounting::{
    Account, Accounts, FLOWS_MAX, FlowAccount, MS_BUCKETS, Times, Traffic, Waits,
};
pub use api::{
    Answer, ArrayRecord, Config, Event, FaultReason, Input, LegConfig, LegOp, LegState, LegStats,
    Output, Request, RequestKind, SchedulerPlace,
};
pub use assembled::{Assembled, AssembledError, layout_word, shape_of};
pub use background::{
    AddRefusal, BackgroundEnd, BackgroundKind, BackgroundStatus, Comparison, Mismatches, Missed,
    RepairSource,
};
pub use buffer::{BufferId, BufferSlice, BufferStep, BufferTable, Memory, WriteBuffer};
pub use engine::Engine;
pub use flags::{FlagsRefusal, LegFlags};
pub use grow::GrowRefusal;
pub use hedge::HedgeFigures;
pub use intent::BitmapFigures;
pub use lineage::Lineage;
pub use map::{CopyOrder, Layout, LayoutError, Map, Place, Raid10};
pub use metadata::{Metadata, Unequal};
pub use prefetch::PrefetchFigures;
pub use spares::{Spare, SpareId};
pub use write_behind::WriteBehind;
