//! What a piece of memory is made of, and its parameters by name.

use heliostat_types::Duration;
use stdx::settings::SettingError;

use crate::params::{
    Access, Param, QUEUE_DEPTH_MAX, RATE_MAX, SIZE_MAX, TIME_MAX, Tabled, check_size,
};

/// What a piece of memory is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RamParams {
    /// Capacity.
    pub size_bytes: u64,
    /// The smallest unit that is read and written; a power of two.
    pub logical_block_bytes: u32,
    /// What an operation takes whatever its size.
    pub operation_time: Duration,
    /// At what rate bytes are copied, each operation by itself.
    pub copy_bytes_per_s: u64,
    /// How many operations are taken at once.
    pub queue_depth: u32,
    /// The most bytes per second that reads get; 0: no cap of their own.
    pub read_bytes_per_s_max: u64,
    /// The most bytes per second that writes get; 0: no cap of their own.
    pub write_bytes_per_s_max: u64,
}

impl RamParams {
    /// The work of a page fault per operation and the copy rate of one core.
    pub const NEUTRAL: Self = Self {
        size_bytes: 1 << 30,
        logical_block_bytes: 512,
        operation_time: Duration::from_us(1),
        copy_bytes_per_s: 10_000_000_000,
        queue_depth: 1024,
        read_bytes_per_s_max: 0,
        write_bytes_per_s_max: 0,
    };
}

/// Memory copies no fewer bytes per second.
const RATE_MIN: u64 = 100_000;

impl Tabled for RamParams {
    const TABLE: &'static [Param<Self>] = &[
        Param {
            key: "size",
            meaning: "capacity",
            access: Access::Size(|p| &mut p.size_bytes),
            min: 512,
            max: SIZE_MAX,
        },
        Param {
            key: "queue_depth",
            meaning: "operations that it takes at once",
            access: Access::Count(|p| &mut p.queue_depth),
            min: 1,
            max: QUEUE_DEPTH_MAX,
        },
        Param {
            key: "read_bw",
            meaning: "most bytes per second that reads get; 0B/s: no cap of their own",
            access: Access::Rate(|p| &mut p.read_bytes_per_s_max),
            min: 0,
            max: RATE_MAX,
        },
        Param {
            key: "write_bw",
            meaning: "most bytes per second that writes get; 0B/s: no cap of their own",
            access: Access::Rate(|p| &mut p.write_bytes_per_s_max),
            min: 0,
            max: RATE_MAX,
        },
        Param {
            key: "copy_bytes_per_s",
            meaning: "at what rate bytes are copied, each operation by itself",
            access: Access::Rate(|p| &mut p.copy_bytes_per_s),
            min: RATE_MIN,
            max: RATE_MAX,
        },
        Param {
            key: "operation_time",
            meaning: "what an operation takes whatever its size",
            access: Access::Time(|p| &mut p.operation_time),
            min: 1,
            max: TIME_MAX.as_ns(),
        },
        Param {
            key: "logical_block_bytes",
            meaning: "the smallest unit that is read and written",
            access: Access::Block(|p| &mut p.logical_block_bytes),
            min: 512,
            max: 65_536,
        },
    ];

    fn check_together(&self) -> Result<(), SettingError> {
        check_size(self.size_bytes, self.logical_block_bytes)
    }
}
