//! The drives that exist by name, and where their figures come from.
//!
//! Data sheets give a drive's edges (rates, seek times, most operations per second); what they do
//! not give is fitted so that the model meets what was measured on the drive, and says so.

use heliostat_types::Duration;

use crate::api::ModelParams;
use crate::flash::FlashParams;
use crate::hdd::HddParams;
use crate::network::NetworkDiskParams;
use crate::ram::RamParams;

/// A drive that people name in scenarios and on the command line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drive {
    /// How people name it.
    pub name: &'static str,
    /// What it is, in a few words.
    pub summary: &'static str,
    /// What it is made of.
    pub params: ModelParams,
}

/// The drive of this name.
#[must_use]
pub fn drive(name: &str) -> Option<&'static Drive> {
    DRIVES.iter().find(|drive| drive.name == name)
}

/// All drives, in the order in which they are listed to people.
pub static DRIVES: [Drive; 9] = [
    Drive {
        name: "hdd-7200-2tb",
        summary: "Seagate ST2000DM008 2 TB, 7200 rpm, SATA",
        params: ModelParams::Hdd(HDD_7200_2TB),
    },
    Drive {
        name: "hdd-7200-1tb",
        summary: "Seagate Constellation ES 1 TB, 7200 rpm, SATA",
        params: ModelParams::Hdd(HDD_7200_1TB),
    },
    Drive {
        name: "hdd-5400-old",
        summary: "a slow old 500 GB drive, 5400 rpm, SATA",
        params: ModelParams::Hdd(HDD_5400_OLD),
    },
    Drive {
        name: "ssd-sata-256gb",
        summary: "Crucial M550 256 GB, SATA",
        params: ModelParams::Flash(SSD_SATA_256GB),
    },
    Drive {
        name: "ssd-sata-1tb",
        summary: "a 1 TB SATA SSD of 2018, Samsung 860 EVO class",
        params: ModelParams::Flash(SSD_SATA_1TB),
    },
    Drive {
        name: "nvme-gen3",
        summary: "a 1 TB NVMe SSD on PCIe 3.0, Samsung 970 Pro class",
        params: ModelParams::Flash(NVME_GEN3),
    },
    Drive {
        name: "nvme-gen4",
        summary: "a 1 TB NVMe SSD on PCIe 4.0, Samsung 980 Pro class",
        params: ModelParams::Flash(NVME_GEN4),
    },
    Drive {
        name: "net-ssd",
        summary: "a 1 TB cloud network disk, 16,000 IOPS and 1,000 MiB/s, AWS gp3 class",
        params: ModelParams::Network(NET_SSD),
    },
    Drive {
        name: "ram",
        summary: "memory, 1 GiB unless told otherwise",
        params: ModelParams::Ram(RAM),
    },
];

/// Data sheet: 7200 rpm, 220 MB/s at the outer edge, 256 MB cache, 4096-byte physical sectors, a
/// queue of 32. Owners' fio runs show 217 to 220 MiB/s (228 to 231 MB/s) at the start of the drive
/// (linux-btrfs, February 2021), so the outer rate is 228 MB/s; the inner one is 0.48 of it, as on
/// other drives of its generation. The data sheets of the family say 8.5 ms for a mean seek, but
/// random reads of desktop drives take 13 to 15 ms where that would give 12.7: the seek times are
/// 0.7 ms longer than the sheet's. A quarter of the cache for writes is an assumption. The drive is
/// shingled: that its media cache has 20 GiB and a band 16 MiB are assumptions, of the order that
/// Aghayev and Desnoyers report of other shingled drives ("Skylight", FAST 2015).
const HDD_7200_2TB: HddParams = HddParams {
    size_bytes: 2_000_398_934_016,
    logical_block_bytes: 512,
    physical_block_bytes: 4096,
    spindle_rpm: 7200,
    seek_track_to_track: Duration::from_us(1_200),
    seek_mean: Duration::from_us(9_200),
    seek_full: Duration::from_ms(18),
    write_settle: Duration::from_ms(1),
    outer_bytes_per_s: 228_000_000,
    inner_bytes_per_s: 110_000_000,
    command_time: COMMAND_TIME,
    link_bytes_per_s: SATA_3_BYTES_PER_S,
    queue_depth: 32,
    ageing_permille: AGEING_PERMILLE,
    segment_count: 16,
    read_ahead_max_bytes: 4 << 20,
    read_ahead_min_bytes: READ_AHEAD_MIN_BYTES,
    write_bytes_per_s_max: 0,
    write_cache: true,
    write_cache_bytes: 64 << 20,
    media_cache_bytes: 20 << 30,
    band_bytes: 16 << 20,
};

/// Product manual 100516232 (Constellation ES, 2010): 7200 rpm, 140 MB/s sustained at the outer
/// edge, 1,953,525,168 sectors of 512 bytes, 3 Gb/s, 32 MB cache. Inner rate 0.5 of the outer one,
/// a quarter of the cache for writes, seeks as above: assumptions.
const HDD_7200_1TB: HddParams = HddParams {
    size_bytes: 1_000_204_886_016,
    logical_block_bytes: 512,
    physical_block_bytes: 512,
    outer_bytes_per_s: 140_000_000,
    inner_bytes_per_s: 70_000_000,
    link_bytes_per_s: 300_000_000,
    read_ahead_max_bytes: 2 << 20,
    write_cache_bytes: 8 << 20,
    media_cache_bytes: 0,
    ..HDD_7200_2TB
};

/// A 2.5-inch drive of about 2008, after the OEM specification of the Hitachi Travelstar 5K320
/// family: 5400 rpm, seeks of 1, 12 and 20 ms, writes 1 ms more; 80 MB/s outer and 40 MB/s inner
/// rate and 8 MB of cache as drives of 500 GB had.
const HDD_5400_OLD: HddParams = HddParams {
    size_bytes: 500_107_862_016,
    logical_block_bytes: 512,
    physical_block_bytes: 512,
    spindle_rpm: 5400,
    seek_track_to_track: Duration::from_ms(1),
    seek_mean: Duration::from_ms(12),
    seek_full: Duration::from_ms(20),
    write_settle: Duration::from_ms(1),
    outer_bytes_per_s: 80_000_000,
    inner_bytes_per_s: 40_000_000,
    command_time: Duration::from_us(200),
    link_bytes_per_s: 300_000_000,
    queue_depth: 32,
    ageing_permille: AGEING_PERMILLE,
    segment_count: 8,
    read_ahead_max_bytes: 1 << 20,
    read_ahead_min_bytes: READ_AHEAD_MIN_BYTES,
    write_bytes_per_s_max: 0,
    write_cache: true,
    write_cache_bytes: 2 << 20,
    media_cache_bytes: 0,
    band_bytes: 16 << 20,
};

/// What is left of 6 Gb/s after 8b/10b coding.
const SATA_3_BYTES_PER_S: u64 = 600_000_000;

/// Drives answer from their cache in 0.1 to 0.2 ms.
const COMMAND_TIME: Duration = Duration::from_us(100);

/// Fitted: with it 32 random reads at once gain a factor of 2 to 2.5 over one, as measured on such
/// drives, and the longest wait stays below a second.
const AGEING_PERMILLE: u32 = 20;

/// A third of a track: less than what a missed turn costs.
const READ_AHEAD_MIN_BYTES: u64 = 512 << 10;

/// Defaults of the simulator MQSim for the flash of about 2014; blocks of 256 units are an
/// assumption. Drives on SATA are assumed to erase without interruption, those on NVMe to make way.
const ERASE_TIME: Duration = Duration::from_us(3_800);
const ERASE_SUSPEND_TIME: Duration = Duration::from_us(700);

/// Data sheet: 550 MB/s reads, 500 MB/s writes, 90,000 random reads and 80,000 random writes per
/// second: that is the controller's time. Read time and fixed time together are fitted to 8,900
/// reads at depth 1, the program time to 500 MB/s. Spare flash, here and below: what is left of the
/// next power of two. All legs of a mirror are full once it was made, so the drives are too.
const SSD_SATA_256GB: FlashParams = FlashParams {
    size_bytes: 256_060_514_304,
    queue_depth: 32,
    die_count: 32,
    unit_bytes: 16 << 10,
    read_time: Duration::from_us(75),
    program_time: Duration::from_us(1_040),
    read_command_time: Duration::from_us(11),
    write_command_time: Duration::from_ns(12_500),
    fixed_time: Duration::from_us(19),
    link_bytes_per_s: 550_000_000,
    link_full_duplex: false,
    write_buffer_bytes: 16 << 20,
    power_loss_protection: false,
    garbage_collection: true,
    spare_permille: 73,
    filled_percent: 100,
    block_units: 256,
    erase_time: ERASE_TIME,
    erase_suspend_time: Duration::ZERO,
    slc_cache_bytes: 0,
    slc_program_time: Duration::ZERO,
    read_bytes_per_s_max: 0,
    write_bytes_per_s_max: 0,
};

/// Data sheet: 550 MB/s reads, 520 MB/s writes, 98,000 random reads and 90,000 random writes per
/// second at depth 32, 10,000 reads at depth 1. More dies than the link can use. The first 42 GB go
/// into fast cells ("TurboWrite"), at 500 MB/s without them.
const SSD_SATA_1TB: FlashParams = FlashParams {
    size_bytes: 1_000_204_886_016,
    die_count: 64,
    read_time: Duration::from_us(63),
    program_time: Duration::from_us(2_097),
    spare_permille: 99,
    slc_cache_bytes: 42_000_000_000,
    slc_program_time: Duration::from_us(2_016),
    read_command_time: Duration::from_us(10),
    write_command_time: Duration::from_us(11),
    fixed_time: Duration::from_us(20),
    write_buffer_bytes: 32 << 20,
    ..SSD_SATA_256GB
};

/// Data sheet: 3.5 GB/s reads, 2.7 GB/s writes (1 TB), 500,000 random reads and writes per second,
/// 15,000 reads at depth 1. Read time, die count and fixed time are fitted to 14,400 reads at depth
/// 1 and 384,000 at depth 32, as measured on the 512 GB one.
const NVME_GEN3: FlashParams = FlashParams {
    size_bytes: 1_024_209_543_168,
    queue_depth: 1024,
    die_count: 64,
    unit_bytes: 16 << 10,
    read_time: Duration::from_us(55),
    program_time: Duration::from_us(380),
    read_command_time: Duration::from_us(2),
    write_command_time: Duration::from_us(2),
    fixed_time: Duration::from_us(11),
    link_bytes_per_s: 3_500_000_000,
    link_full_duplex: true,
    write_buffer_bytes: 64 << 20,
    power_loss_protection: false,
    garbage_collection: true,
    spare_permille: 73,
    filled_percent: 100,
    block_units: 256,
    erase_time: ERASE_TIME,
    erase_suspend_time: ERASE_SUSPEND_TIME,
    slc_cache_bytes: 0,
    slc_program_time: Duration::ZERO,
    read_bytes_per_s_max: 0,
    write_bytes_per_s_max: 0,
};

/// Data sheet: 7 GB/s reads, 5 GB/s writes, 1,000,000 random reads and writes per second, 22,000
/// reads at depth 1. The first 114 GB go into fast cells, at 2 GB/s without them.
const NVME_GEN4: FlashParams = FlashParams {
    size_bytes: 1_000_204_886_016,
    die_count: 128,
    read_time: Duration::from_us(40),
    program_time: Duration::from_us(1_049),
    spare_permille: 99,
    slc_cache_bytes: 114_000_000_000,
    slc_program_time: Duration::from_us(410),
    read_command_time: Duration::from_us(1),
    write_command_time: Duration::from_us(1),
    fixed_time: Duration::from_ns(3_900),
    link_bytes_per_s: 7_000_000_000,
    ..NVME_GEN3
};

/// AWS documentation of gp3 volumes (2020 to 2025): at most 16,000 operations and 1,000 MiB per
/// second, both enforced evenly. A mean of 0.6 ms for 4 KiB is what people measure; that 0.45 ms of
/// it are the floor is an assumption. No bursts: gp3 has none. No stalls: there is no figure.
const NET_SSD: NetworkDiskParams = NetworkDiskParams {
    size_bytes: 1_000_204_886_016,
    queue_depth: 256,
    latency_floor: Duration::from_us(450),
    latency_tail_mean: Duration::from_us(150),
    iops_max: 16_000,
    bytes_per_s_max: 1000 << 20,
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

/// A page fault's worth of work per operation and the copy rate of one core.
const RAM: RamParams = RamParams::NEUTRAL;

#[cfg(test)]
mod tests;
