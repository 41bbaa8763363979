//! The loop that drives an engine with real legs and real time, the control socket, and what
//! survives the daemon.

mod context;
mod export;

pub use context::Context;
// What exports need of the engine, so that they depend on this crate alone.
pub use heliostat_engine::{Answer, BufferId, BufferSlice, RequestKind, WriteBuffer};

pub use export::{ArrayInfo, ClientKey, Export, Interest, Ready};

/// Why an array cannot be served.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct RuntimeError(pub String);
