//! Real legs: files and block devices, memory, and models in real time.

mod api;
mod arena;

pub use api::{LegDone, LegIo, LegOutcome};
pub use arena::ArenaRange;
