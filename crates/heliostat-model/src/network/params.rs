//! What a network disk is made of, and its parameters by name.

use heliostat_types::Duration;
use stdx::settings::SettingError;

use super::LOGICAL_BLOCK_BYTES;
use crate::params::{
    Access, Param, QUEUE_DEPTH_MAX, RATE_MAX, SIZE_MAX, TIME_MAX, Tabled, check_cap, check_size,
};

/// What a network disk is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NetworkDiskParams {
    /// Capacity.
    pub size_bytes: u64,
    /// How many operations are taken at once.
    pub queue_depth: u32,
    /// What every operation takes at least: two ways through the network and the media.
    pub latency_floor: Duration,
    /// Mean of what comes on top, exponentially distributed.
    pub latency_tail_mean: Duration,
    /// Operations per second that are let through, of any size.
    pub iops_max: u32,
    /// Bytes per second that are let through.
    pub bytes_per_s_max: u64,
    /// Operations per second in a burst, while there is credit; 0: no bursts.
    pub iops_burst_max: u32,
    /// Operations that may be let through ahead of `iops_max`; full at the beginning.
    pub iops_credit: u32,
    /// Bytes per second in a burst, while there is credit; 0: no bursts.
    pub bytes_per_s_burst_max: u64,
    /// Bytes that may be let through ahead of `bytes_per_s_max`.
    pub bytes_credit: u64,
    /// Mean time between two pauses of the whole disk, exponentially distributed; 0: none.
    pub stall_interval_mean: Duration,
    /// The shortest and the longest pause; all lengths between are equally likely.
    pub stall_min: Duration,
    /// See `stall_min`.
    pub stall_max: Duration,
    /// The most bytes per second that reads get; 0: no cap of their own.
    pub read_bytes_per_s_max: u64,
    /// The most bytes per second that writes get; 0: no cap of their own.
    pub write_bytes_per_s_max: u64,
}

impl NetworkDiskParams {
    /// A 1 TB disk with half a millisecond of latency, always the same, and caps in the middle of
    /// what is sold.
    pub const NEUTRAL: Self = Self {
        size_bytes: 1_000_204_886_016,
        queue_depth: 256,
        latency_floor: Duration::from_us(500),
        latency_tail_mean: Duration::ZERO,
        iops_max: 10_000,
        bytes_per_s_max: 500_000_000,
        iops_burst_max: 0,
        iops_credit: 0,
        bytes_per_s_burst_max: 0,
        bytes_credit: 0,
        stall_interval_mean: Duration::ZERO,
        stall_min: Duration::from_ms(50),
        stall_max: Duration::from_ms(200),
        read_bytes_per_s_max: 0,
        write_bytes_per_s_max: 0,
    };
}

/// A cap lets through no less.
const RATE_MIN: u64 = 100_000;

/// Pauses of a whole disk that come more often are no pauses: then the latency is another one.
const STALL_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Twelve days.
const STALL_INTERVAL_MAX: Duration = Duration::from_secs(1_000_000);

impl Tabled for NetworkDiskParams {
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
            key: "bytes_per_s_max",
            meaning: "bytes per second that are let through, of reads and writes together",
            access: Access::Rate(|p| &mut p.bytes_per_s_max),
            min: RATE_MIN,
            max: RATE_MAX,
        },
        Param {
            key: "iops_max",
            meaning: "operations per second that are let through, of any size",
            access: Access::Count(|p| &mut p.iops_max),
            min: 1,
            max: 1_000_000_000,
        },
        Param {
            key: "latency_floor",
            meaning: "what every operation takes at least",
            access: Access::Time(|p| &mut p.latency_floor),
            min: 1,
            max: TIME_MAX.as_ns(),
        },
        Param {
            key: "latency_tail_mean",
            meaning: "mean of what comes on top, exponentially distributed",
            access: Access::Time(|p| &mut p.latency_tail_mean),
            min: 0,
            max: TIME_MAX.as_ns(),
        },
        Param {
            key: "iops_burst_max",
            meaning: "operations per second in a burst, while there is credit; 0: no bursts",
            access: Access::Count(|p| &mut p.iops_burst_max),
            min: 0,
            max: 1_000_000_000,
        },
        Param {
            key: "iops_credit",
            meaning: "operations that may be let through ahead of iops_max",
            access: Access::Count(|p| &mut p.iops_credit),
            min: 0,
            max: 1_000_000_000,
        },
        Param {
            key: "bytes_per_s_burst_max",
            meaning: "bytes per second in a burst, while there is credit; 0B/s: no bursts",
            access: Access::Rate(|p| &mut p.bytes_per_s_burst_max),
            min: 0,
            max: RATE_MAX,
        },
        Param {
            key: "bytes_credit",
            meaning: "bytes that may be let through ahead of bytes_per_s_max",
            access: Access::Size(|p| &mut p.bytes_credit),
            min: 0,
            max: SIZE_MAX,
        },
        Param {
            key: "stall_interval_mean",
            meaning: "mean time between two pauses of the whole disk; 0ns: none",
            access: Access::Time(|p| &mut p.stall_interval_mean),
            min: 0,
            max: STALL_INTERVAL_MAX.as_ns(),
        },
        Param {
            key: "stall_min",
            meaning: "the shortest pause",
            access: Access::Time(|p| &mut p.stall_min),
            min: 0,
            max: TIME_MAX.as_ns(),
        },
        Param {
            key: "stall_max",
            meaning: "the longest pause; all lengths between are equally likely",
            access: Access::Time(|p| &mut p.stall_max),
            min: 0,
            max: TIME_MAX.as_ns(),
        },
    ];

    fn check_together(&self) -> Result<(), SettingError> {
        check_size(self.size_bytes, LOGICAL_BLOCK_BYTES)?;
        for (key, cap_bytes_per_s) in [
            ("read_bw", self.read_bytes_per_s_max),
            ("write_bw", self.write_bytes_per_s_max),
        ] {
            let both = self.bytes_per_s_max;
            check_cap(key, cap_bytes_per_s, "bytes_per_s_max", both)?;
        }
        if (1..self.iops_max).contains(&self.iops_burst_max) {
            let text = "a burst is not slower than iops_max";
            return Err(SettingError::value("iops_burst_max", text));
        }
        if (1..self.bytes_per_s_max).contains(&self.bytes_per_s_burst_max) {
            let text = "a burst is not slower than bytes_per_s_max";
            return Err(SettingError::value("bytes_per_s_burst_max", text));
        }
        let interval = self.stall_interval_mean;
        if interval > Duration::ZERO && interval < STALL_INTERVAL_MIN {
            let text = "pauses come a second apart or more; 0ns: none";
            return Err(SettingError::value("stall_interval_mean", text));
        }
        if self.stall_min > self.stall_max {
            let text = "the shortest pause is not above stall_max";
            return Err(SettingError::value("stall_min", text));
        }
        Ok(())
    }
}
