//! The seam between a device model and whoever drives it.

use std::fmt::Debug;

use heliostat_types::{ErrorKind, Extent, Instant, LegOpId, OpKind, Prng};

use crate::{Flash, FlashParams, Hdd, HddParams, NetworkDisk, NetworkDiskParams, Ram, RamParams};

/// What a device says of itself before it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceSpec {
    /// Capacity; a multiple of `logical_block_bytes`.
    pub size_bytes: u64,
    /// The smallest unit that it reads and writes.
    pub logical_block_bytes: u32,
    /// The smallest unit that it writes without reading first.
    pub physical_block_bytes: u32,
    /// Whether it turns.
    pub rotational: bool,
    /// How many operations it takes at once; more should wait outside.
    pub queue_depth: u32,
    /// The request size that suits it best, in bytes; 0 where it does not say.
    pub optimal_io_bytes: u64,
    /// Whether it answers writes that a power cut undoes, until a flush.
    pub volatile_cache: bool,
}

/// A model of one device: time only, no bytes.
///
/// `now` never goes back over all calls. A model acts at the true moments even when it is called
/// late: a disk that was free between two calls has used that time.
pub trait DeviceModel: Debug + Send {
    /// What the device says of itself; never changes.
    fn spec(&self) -> &DeviceSpec;

    /// Hands an operation to the device. `op` is unique among those in flight, `extent` lies inside
    /// the device and is aligned to logical blocks (and empty for a flush). More than
    /// [`DeviceSpec::queue_depth`] at once are taken, but the device looks at no more than that.
    fn submit(
        &mut self,
        now: Instant,
        op: LegOpId,
        kind: OpKind,
        extent: Extent,
        prng: &mut dyn Prng,
    );

    /// When to call [`DeviceModel::poll_completion`] next: never later than the next completion,
    /// perhaps earlier than that; `None` while nothing is in flight that will end by itself.
    fn next_event_at(&self) -> Option<Instant>;

    /// The next operation that has ended by `now`, in the order in which they ended; call until it
    /// is `None`.
    fn poll_completion(&mut self, now: Instant) -> Option<(LegOpId, Result<(), ErrorKind>)>;

    /// A device in the same state, with the same operations in flight: what it does from now on
    /// tells what this one would do.
    fn clone_box(&self) -> Box<dyn DeviceModel>;
}

impl Clone for Box<dyn DeviceModel> {
    fn clone(&self) -> Self {
        (**self).clone_box()
    }
}

/// The parameters of one device of any family: what a named drive is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ModelParams {
    /// A hard disk.
    Hdd(HddParams),
    /// A flash drive on SATA or NVMe.
    Flash(FlashParams),
    /// A disk behind a network, with the caps of a cloud.
    Network(NetworkDiskParams),
    /// Memory.
    Ram(RamParams),
}

impl ModelParams {
    /// Capacity in bytes.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        match self {
            Self::Hdd(params) => params.size_bytes,
            Self::Flash(params) => params.size_bytes,
            Self::Network(params) => params.size_bytes,
            Self::Ram(params) => params.size_bytes,
        }
    }

    /// The same make of device with another capacity. A hard disk keeps its seek times from edge to
    /// edge: it is a drive with fewer tracks, not the outer part of a large one.
    #[must_use]
    pub const fn with_size(mut self, size_bytes: u64) -> Self {
        match &mut self {
            Self::Hdd(params) => params.size_bytes = size_bytes,
            Self::Flash(params) => params.size_bytes = size_bytes,
            Self::Network(params) => params.size_bytes = size_bytes,
            Self::Ram(params) => params.size_bytes = size_bytes,
        }
        self
    }

    /// A device with these parameters, idle since the origin of time. `prng` gives what differs
    /// between two devices of one make (where the platter stands).
    ///
    /// # Panics
    /// Where [`ModelParams::check`] refuses: named drives pass it.
    #[must_use]
    pub fn build(&self, prng: &mut dyn Prng) -> Box<dyn DeviceModel> {
        match *self {
            Self::Hdd(params) => Box::new(Hdd::new(params, prng)),
            Self::Flash(params) => Box::new(Flash::new(params)),
            Self::Network(params) => Box::new(NetworkDisk::new(params, prng)),
            Self::Ram(params) => Box::new(Ram::new(params)),
        }
    }
}

/// Checks a capacity that a model is made with.
///
/// # Panics
/// Where it is no positive multiple of the block size.
pub(crate) fn assert_size(size_bytes: u64, logical_block_bytes: u32) {
    assert!(
        size_bytes > 0 && size_bytes.is_multiple_of(u64::from(logical_block_bytes)),
        "a device has a whole number of logical blocks"
    );
}
