//! Device models: how long a device takes, as values without a clock.
//!
//! A model is told of operations ([`DeviceModel::submit`]) and says when they are done
//! ([`DeviceModel::poll_completion`]). It moves no bytes: whoever drives it (the simulator in
//! virtual time, a `model:` leg in real time) holds them. The same model serves both, since all it
//! asks of time is that `now` never goes back.
//!
//! One file per family, each with a page in docs/models; the drives that exist by name are in
//! [`drives`]. [`FaultyDevice`] wraps any model with rules for when it is slow, pausing, silent,
//! failing or dead, and [`CachedDevice`] puts a read cache below it.
#![forbid(unsafe_code)]

mod api;
mod cached;
pub mod claims;
pub mod closed_loop;
pub mod drives;
mod fault;
pub mod fit;
mod flash;
mod hdd;
mod network;
mod params;
mod ram;
mod timing;

pub use api::{DeviceModel, DeviceSpec, ModelParams};
pub use cached::{CacheParams, CachedDevice};
pub use drives::{DRIVES, Drive, drive};
pub use fault::{ErrorRule, FailedKind, FaultEffect, FaultRule, FaultyDevice, Pauses};
pub use flash::{Flash, FlashParams};
pub use hdd::{Hdd, HddParams};
pub use network::{NetworkDisk, NetworkDiskParams};
pub use params::{FAMILIES, Field};
pub use ram::{Ram, RamParams};
