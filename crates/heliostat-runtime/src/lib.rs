//! The loop that drives an engine with real legs and real time, the control socket, and what
//! survives the daemon.
//!
//! [`Server::open`] makes an array of legs that may be served and starts its exports,
//! [`Server::run`] serves it on the calling thread. Everything that decides about the array's bytes
//! is in the engine; here is what waits, reads a clock, and talks to the kernel.

mod add;
mod array_lock;
mod clock;
mod commands;
mod context;
mod control;
mod copy;
mod core;
mod create;
mod decisions;
mod durable;
mod events;
mod explain;
mod export;
mod files;
mod flows;
mod found;
mod grow;
mod host_config;
mod keeper;
mod learned;
mod log;
mod md;
mod memory_lock;
mod metrics;
mod newest;
mod notify;
mod options;
mod places;
mod poller;
mod progress_line;
mod rates;
mod refusals;
mod registry;
#[cfg(test)]
mod rig;
mod scan;
#[cfg(test)]
mod scratch;
mod server;
mod settings;
mod setup;
mod signals;
mod source;
mod state;
mod state_writer;
mod stats;
mod status;
mod stop;
mod unfit;
mod volumes;
mod waker;
mod wall_time;
mod work;

pub use array_lock::server_of;
pub use commands::Handle;
pub use context::Context;
pub use control::{ControlRequest, ControlResponse, PolicyChange, SchedulerChange, ask};
pub use create::{CreateLeg, CreateOptions, Created, create};
pub use decisions::{CandidateFigures, DecisionFigures, PieceFigures, WeightFigures};
pub use explain::{
    CurveFigures, CurvePointFigures, Explanation, HedgeFigures, LegExplained, ReadAheadFigures,
    StreamExplained, WatchEnd, WatchedReads,
};
pub use files::{ControlNode, DeviceFile, FileError};
pub use grow::{GrowOptions, GrowWhat, GrownArray, grow};
pub use host_config::{HostConfig, HostConfigChange, ignore_line};
pub use metrics::{MetricsListener, MetricsServer};
pub use options::{ArrayOptions, Trust};
pub use places::{Places, check_name, shell_word};
pub use progress_line::ProgressLine;
pub use rates::{RateChange, Rates};
pub use registry::{Registered, registered_names};
pub use scan::scan;
pub use server::{Server, Stopped};
pub use setup::Progress;
pub use signals::Signals;
pub use stats::{
    ArrayStats, CheckpointFigures, ClientFigures, Distribution, FineTimes, HedgeCounts, LegFigures,
    ReadAheadCounts, RequestFigures,
};
pub use status::{
    ArrayStatus, BehindStatus, BitmapStatus, FlagChange, LegStatus, ScrubAction, WorkStatus,
    clock_time,
};
pub use waker::Waker;
pub use work::{EndedWork, ScrubRun};
// What exports (and their tests) need of engine and legs, so that they depend on this crate alone.
pub use heliostat_engine::{BufferId, BufferSlice, RequestKind, WriteBuffer};
pub use heliostat_leg::LegSpec;

pub use export::{Answer, ArrayInfo, ClientKey, Export, Interest, Peer, ReadData, Ready};
pub use volumes::{
    LimitsChange, Place, VolumeChange, VolumeExtent, VolumeId, VolumeInfo, VolumeStatus,
    VolumesStatus,
};

/// Why an array cannot be served.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct RuntimeError(pub String);

/// Why what the user said makes no sense, whatever the legs are like.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

impl From<UsageError> for RuntimeError {
    fn from(error: UsageError) -> Self {
        Self(error.0)
    }
}
