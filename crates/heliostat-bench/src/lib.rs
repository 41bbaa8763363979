//! The harness: scenario files, runs of the simulator side by side, and what is told of them.

pub mod plot;
pub mod report;
