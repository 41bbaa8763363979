//! An array cut into named volumes: the table that says which of its bytes belong to which volume,
//! where copies of that table lie, and which bytes of the array a request to a volume means.
//!
//! The table lies inside the array's data, once at its start and once at its end, so that it is
//! mirrored, resynced, rebuilt and scrubbed as all data are. [`Table`] is what it says and how it
//! changes, `bytes` how it is written, [`assess`] which of its copies is to be believed, and
//! [`Plan`] the writes, one after the other, that take an array from one table to the next; after a
//! power cut between or within any two of them the old table or the new one is found.
//!
//! Whatever bytes are given, parsing ends with a table or a [`TableError`]. What is not understood
//! is refused, and not guessed at.
//!
//! Nothing here reads or writes.
#![forbid(unsafe_code)]

mod bytes;
mod change;
mod checksum;
mod copies;
mod error;
mod map;
mod plan;
mod room;
mod table;

pub use bytes::{COPY_BYTES_MAX, HEAD_BYTES, correct_sums};
pub use copies::{Assessed, Copy, Places, Refusal, assess, former_second, look};
pub use error::{ChangeError, TableError};
pub use map::VolumeMap;
pub use plan::{Plan, Step};
pub use table::{Limits, Table, VOLUME_NAME_BYTES_MAX, VOLUMES_MAX, Volume, is_name};

/// Volumes are made of runs of this many bytes, which begin at multiples of it: large enough for
/// every chunk that is common, so that no border lies inside a block of any leg.
pub const GRAIN_BYTES: u64 = 1 << 20;

/// Which array a table belongs to: the UUID of its md metadata.
pub type ArrayId = [u8; 16];
