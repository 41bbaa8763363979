//! The words that every crate of heliostat shares: time, places on a device, identities, the
//! kinds of operation, and the kinds of error.
//!
//! Nothing here decides, waits or allocates (but for text), and nothing depends on another crate.
#![forbid(unsafe_code)]

mod error;
mod extent;
mod leg;
mod prng;
mod request;
mod time;

pub use error::{BlockError, ErrorKind};
pub use extent::{Extent, SECTOR_BYTES};
pub use leg::{LEGS_MAX, LegId, LegSet, LegSetIter};
pub use prng::{Prng, RandomStream};
pub use request::{ClientId, FlowId, LegOpId, OpKind, RequestId, StatusRun, StreamId};
pub use time::{Duration, Instant};
