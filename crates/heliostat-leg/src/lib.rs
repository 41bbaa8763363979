//! Real legs: files and block devices, memory, exports of NBD servers, and models in real time.
//!
//! [`LegSpec`] understands what people write, [`LegSpec::open`] opens it for this process alone
//! (and says who else has it), and a [`LegHub`] drives all legs of one array from one thread:
//! operations go in, completions come out, nothing blocks. Which leg is asked, what a failure
//! means and who owns which buffer is decided elsewhere.

mod api;
mod arena;
mod cache;
mod delay;
mod error;
mod file;
mod host;
mod hub;
mod identity;
mod in_use;
mod leg;
mod mapping;
mod memory;
mod nbd;
mod open;
mod progress;
mod ring;
mod shadow;
mod spec;
mod superblock;
mod workers;

pub use api::{LegDone, LegIo, LegOutcome};
pub use arena::{Arena, ArenaRange, LegMemory};
pub use error::LegError;
pub use hub::{IoChoice, LegHub};
pub use leg::{DataRuns, LegInfo, OpenedLeg, ReadLeg};
pub use spec::LegSpec;

#[cfg(test)]
mod tests;
