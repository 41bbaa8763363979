//! The loop that drives an engine with real legs and real time, the control socket, and what
//! survives the daemon.

mod context;
mod export;

pub use context::Context;
pub use export::{ArrayInfo, ClientKey, Export, Interest, Ready};

/// Why an array cannot be served.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct RuntimeError(pub String);
