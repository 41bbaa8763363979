//! What a flash drive is made of, and its parameters by name.

use heliostat_types::Duration;
use stdx::settings::SettingError;

use super::LOGICAL_BLOCK_BYTES;
use crate::params::{
    Access, Param, QUEUE_DEPTH_MAX, RATE_MAX, SIZE_MAX, TIME_MAX, Tabled, check_cap, check_size,
};

/// What a flash drive is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlashParams {
    /// Capacity.
    pub size_bytes: u64,
    /// How many operations are taken at once.
    pub queue_depth: u32,
    /// How many dies (or planes that work alone) there are.
    pub die_count: u32,
    /// How many consecutive bytes lie on one die: what one program writes.
    pub unit_bytes: u32,
    /// How long a die takes to fetch a unit or a part of it.
    pub read_time: Duration,
    /// How long a die takes to program a unit.
    pub program_time: Duration,
    /// How long the controller is taken by one read: the inverse of the most reads per second.
    pub read_command_time: Duration,
    /// How long the controller is taken by one write: the inverse of the most writes per second.
    pub write_command_time: Duration,
    /// What an operation takes besides, while the controller, dies and link serve others: host
    /// interface and firmware.
    pub fixed_time: Duration,
    /// What the link carries in each direction, in bytes per second.
    pub link_bytes_per_s: u64,
    /// Whether both directions of the link work at once (NVMe) or share it (SATA).
    pub link_full_duplex: bool,
    /// Writes that are answered and not yet programmed, in bytes.
    pub write_buffer_bytes: u64,
    /// Whether what is in the write buffer survives a power cut (capacitors); a flush then returns
    /// at once.
    pub power_loss_protection: bool,
    /// Whether room for writes has to be made by moving what is valid and erasing blocks.
    pub garbage_collection: bool,
    /// Flash beyond the capacity, in thousandths of it.
    pub spare_permille: u32,
    /// How much of the capacity holds data, from the beginning on.
    pub filled_percent: u32,
    /// How many units are erased together, on one die.
    pub block_units: u32,
    /// How long a die takes to erase a block.
    pub erase_time: Duration,
    /// How long a read waits at most until an erase makes way for it; 0: it waits for its end.
    pub erase_suspend_time: Duration,
    /// Writes that go into cells with one bit each, which are fast; 0: there are none.
    pub slc_cache_bytes: u64,
    /// How long a die takes to program a unit of these.
    pub slc_program_time: Duration,
    /// The most bytes per second that reads get; 0: no cap of their own.
    pub read_bytes_per_s_max: u64,
    /// The most bytes per second that writes get; 0: no cap of their own.
    pub write_bytes_per_s_max: u64,
}

impl FlashParams {
    /// A 1 TB drive on SATA with figures between those that are sold, without anything that only
    /// some drives do.
    pub const NEUTRAL: Self = Self {
        size_bytes: 1_000_204_886_016,
        queue_depth: 32,
        die_count: 32,
        unit_bytes: 16 << 10,
        read_time: Duration::from_us(60),
        program_time: Duration::from_us(1_000),
        read_command_time: Duration::from_us(10),
        write_command_time: Duration::from_us(10),
        fixed_time: Duration::from_us(20),
        link_bytes_per_s: 550_000_000,
        link_full_duplex: false,
        write_buffer_bytes: 32 << 20,
        power_loss_protection: false,
        garbage_collection: true,
        spare_permille: 73,
        filled_percent: 100,
        block_units: 256,
        erase_time: Duration::from_us(3_800),
        erase_suspend_time: Duration::ZERO,
        slc_cache_bytes: 0,
        slc_program_time: Duration::from_us(300),
        read_bytes_per_s_max: 0,
        write_bytes_per_s_max: 0,
    };
}

/// A link carries no less.
const RATE_MIN: u64 = 100_000;

impl Tabled for FlashParams {
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
            key: "link_bytes_per_s",
            meaning: "what the link carries in each direction",
            access: Access::Rate(|p| &mut p.link_bytes_per_s),
            min: RATE_MIN,
            max: RATE_MAX,
        },
        Param {
            key: "link_full_duplex",
            meaning: "whether both directions of the link work at once (NVMe) or share it (SATA)",
            access: Access::Switch(|p| &mut p.link_full_duplex),
            min: 0,
            max: 1,
        },
        Param {
            key: "die_count",
            meaning: "dies, or planes that work alone",
            access: Access::Count(|p| &mut p.die_count),
            min: 1,
            max: 65536,
        },
        Param {
            key: "unit_bytes",
            meaning: "consecutive bytes on one die: what one program writes",
            access: Access::SmallSize(|p| &mut p.unit_bytes),
            min: 512,
            max: 1 << 24,
        },
        Param {
            key: "read_time",
            meaning: "how long a die takes to fetch a unit or a part of it",
            access: Access::Time(|p| &mut p.read_time),
            min: 0,
            max: TIME_MAX.as_ns(),
        },
        Param {
            key: "program_time",
            meaning: "how long a die takes to program a unit",
            access: Access::Time(|p| &mut p.program_time),
            min: 0,
            max: TIME_MAX.as_ns(),
        },
        Param {
            key: "read_command_time",
            meaning: "controller time per read: the inverse of the most reads per second",
            access: Access::Time(|p| &mut p.read_command_time),
            min: 0,
            max: TIME_MAX.as_ns(),
        },
        Param {
            key: "write_command_time",
            meaning: "controller time per write: the inverse of the most writes per second",
            access: Access::Time(|p| &mut p.write_command_time),
            min: 0,
            max: TIME_MAX.as_ns(),
        },
        Param {
            key: "fixed_time",
            meaning: "what an operation takes besides, while others are served",
            access: Access::Time(|p| &mut p.fixed_time),
            min: 1,
            max: TIME_MAX.as_ns(),
        },
        Param {
            key: "write_buffer_bytes",
            meaning: "writes that are answered and not yet programmed",
            access: Access::Size(|p| &mut p.write_buffer_bytes),
            min: 0,
            max: 1 << 40,
        },
        Param {
            key: "power_loss_protection",
            meaning: "whether the write buffer survives a power cut",
            access: Access::Switch(|p| &mut p.power_loss_protection),
            min: 0,
            max: 1,
        },
        Param {
            key: "garbage_collection",
            meaning: "whether room for writes has to be made by moving and erasing",
            access: Access::Switch(|p| &mut p.garbage_collection),
            min: 0,
            max: 1,
        },
        Param {
            key: "spare_permille",
            meaning: "flash beyond the capacity, in thousandths of it",
            access: Access::Count(|p| &mut p.spare_permille),
            min: 10,
            max: 1000,
        },
        Param {
            key: "filled_percent",
            meaning: "how much of the capacity holds data, from the beginning on",
            access: Access::Count(|p| &mut p.filled_percent),
            min: 0,
            max: 100,
        },
        Param {
            key: "block_units",
            meaning: "units that are erased together, on one die",
            access: Access::Count(|p| &mut p.block_units),
            min: 1,
            max: 65536,
        },
        Param {
            key: "erase_time",
            meaning: "how long a die takes to erase a block",
            access: Access::Time(|p| &mut p.erase_time),
            min: 0,
            max: TIME_MAX.as_ns(),
        },
        Param {
            key: "erase_suspend_time",
            meaning: "how long a read waits at most for an erase to make way; 0ns: for its end",
            access: Access::Time(|p| &mut p.erase_suspend_time),
            min: 0,
            max: TIME_MAX.as_ns(),
        },
        Param {
            key: "slc_cache_bytes",
            meaning: "writes that go into fast cells with one bit each; 0: there are none",
            access: Access::Size(|p| &mut p.slc_cache_bytes),
            min: 0,
            max: SIZE_MAX,
        },
        Param {
            key: "slc_program_time",
            meaning: "how long a die takes to program a unit of these",
            access: Access::Time(|p| &mut p.slc_program_time),
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
            let link = self.link_bytes_per_s;
            check_cap(key, cap_bytes_per_s, "link_bytes_per_s", link)?;
        }
        Ok(())
    }
}
