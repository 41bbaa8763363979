//! Real legs: files and block devices, memory, and models in real time.
//!
//! [`LegSpec`] understands what people write, [`LegSpec::open`] opens it for this process alone (and
//! says who else has it), and a [`LegHub`] drives all legs of one array from one thread: operations
//! go in, completions come out, nothing blocks. Which leg is asked, what a failure means and who
//! owns which buffer is decided elsewhere.

mod api;
mod arena;
mod error;
mod hub;
mod leg;
mod mapping;
mod memory;
mod spec;

pub use api::{LegDone, LegIo, LegOutcome};
pub use arena::{Arena, ArenaRange};
pub use error::LegError;
pub use hub::{IoChoice, LegHub};
pub use leg::{DataRuns, LegInfo, OpenedLeg};
pub use spec::LegSpec;
