//! What was found, for programs: numbers in sectors and seconds, as they are on the leg.

use heliostat_format::{Found, RESYNC_DONE, Role};
use serde::Serialize;

use super::{Examined, problem};

/// A leg.
#[derive(Debug, Serialize)]
struct Leg<'a> {
    leg: &'a str,
    device_bytes: u64,
    /// Whether an array with it could be served.
    good: bool,
    /// Why not.
    problem: Option<String>,
    superblock: Option<Superblock>,
    bitmap: Option<Bitmap>,
    /// `null` where there is no log, or none that can be read.
    bad_blocks: Option<Vec<BadRange>>,
    /// Superblocks that are older than this one.
    others: Vec<Other>,
}

#[derive(Debug, Serialize)]
struct Superblock {
    version: String,
    sector: u64,
    feature_map: u32,
    features: String,
    array_uuid: String,
    name: String,
    creation_time: u64,
    level: i32,
    layout: u32,
    raid_devices: u32,
    chunk_sectors: u32,
    size_sectors: u64,
    array_sectors: Option<u64>,
    data_offset_sectors: u64,
    data_size_sectors: u64,
    bitmap_offset_sectors: Option<i32>,
    bad_block_log_offset_sectors: i32,
    bad_block_log_size_sectors: u16,
    recovery_offset_sectors: Option<u64>,
    /// `null` where the array is clean.
    resync_offset_sectors: Option<u64>,
    clean: bool,
    device_uuid: String,
    device_number: u32,
    role: Option<RoleText>,
    /// By `device_number`, without the spares at the end.
    roles: Vec<RoleText>,
    write_mostly: bool,
    failfast: bool,
    corrected_reads: u32,
    update_time: u64,
    events: u64,
    checksum: String,
    checksum_expected: String,
    checksum_correct: bool,
}

/// A number for a role, or a word.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum RoleText {
    Active(u16),
    Other(&'static str),
}

impl From<Role> for RoleText {
    fn from(role: Role) -> Self {
        match role {
            Role::Active(role) => Self::Active(role),
            Role::Spare => Self::Other("spare"),
            Role::Faulty => Self::Other("faulty"),
            Role::Journal => Self::Other("journal"),
        }
    }
}

#[derive(Debug, Serialize)]
struct Bitmap {
    sector: u64,
    version: u32,
    uuid: String,
    events: u64,
    events_cleared: u64,
    state: u32,
    chunk_bytes: u32,
    daemon_sleep_seconds: u32,
    write_behind_max: u32,
    sync_size_sectors: u64,
    /// `null` where bits could not be read.
    chunks: Option<u64>,
    dirty_chunks: Option<u64>,
}

#[derive(Debug, Serialize)]
struct BadRange {
    start_sector: u64,
    sectors: u64,
}

#[derive(Debug, Serialize)]
struct Other {
    version: String,
    sector: u64,
    array_uuid: String,
}

/// The object for a leg, on one line.
pub(super) fn line(examined: &Examined) -> serde_json::Result<String> {
    let found = examined.search.found.first();
    let problem = match found {
        None => Some(match (&examined.instead, &examined.search.broken[..]) {
            (Some(instead), _) => format!("no md superblock; {instead}"),
            (None, [(place, error), ..]) => format!("version {}: {error}", place.minor),
            (None, []) => unreachable!("what is empty has something instead"),
        }),
        Some(found) => problem(found),
    };
    let bad = found.and_then(|found| found.bad_blocks.as_ref()?.as_ref().ok());
    let leg = Leg {
        leg: &examined.leg,
        device_bytes: examined.device_bytes,
        good: examined.is_good(),
        problem,
        superblock: found.map(superblock),
        bitmap: found.and_then(bitmap),
        bad_blocks: bad.map(|bad| {
            bad.ranges()
                .map(|range| BadRange {
                    start_sector: range.start,
                    sectors: range.end - range.start,
                })
                .collect()
        }),
        others: examined
            .search
            .found
            .iter()
            .skip(1)
            .map(|other| Other {
                version: other.place.minor.to_string(),
                sector: other.place.sector,
                array_uuid: other.superblock.set_uuid.to_string(),
            })
            .collect(),
    };
    serde_json::to_string(&leg)
}

fn superblock(found: &Found) -> Superblock {
    use heliostat_format::{DeviceFlags, Features};

    let own = &found.superblock;
    let has = |feature| own.features.contains(feature);
    let given_away = own.roles.iter().rposition(|&role| role != Role::Spare);
    let roles = &own.roles[..given_away.map_or(0, |last| last + 1)];
    let (stored, computed) = found.checksum;
    let is_clean = own.resync_offset_sectors == RESYNC_DONE;
    Superblock {
        version: found.place.minor.to_string(),
        sector: found.place.sector,
        feature_map: own.features.0,
        features: own.features.to_string(),
        array_uuid: own.set_uuid.to_string(),
        name: own.name(),
        creation_time: own.ctime.seconds(),
        level: own.level,
        layout: own.layout,
        raid_devices: own.raid_disks,
        chunk_sectors: own.chunk_sectors,
        size_sectors: own.size_sectors,
        array_sectors: own.array_sectors(),
        data_offset_sectors: own.data_offset_sectors,
        data_size_sectors: own.data_size_sectors,
        bitmap_offset_sectors: has(Features::BITMAP).then_some(own.bitmap_offset_sectors),
        bad_block_log_offset_sectors: own.bad_blocks_offset_sectors,
        bad_block_log_size_sectors: own.bad_blocks_size_sectors,
        recovery_offset_sectors: has(Features::RECOVERY_OFFSET)
            .then_some(own.recovery_offset_sectors),
        resync_offset_sectors: (!is_clean).then_some(own.resync_offset_sectors),
        clean: is_clean,
        device_uuid: own.device_uuid.to_string(),
        device_number: own.dev_number,
        role: own.role().map(RoleText::from),
        roles: roles.iter().map(|&role| role.into()).collect(),
        write_mostly: own.device_flags.contains(DeviceFlags::WRITE_MOSTLY),
        failfast: own.device_flags.contains(DeviceFlags::FAIL_FAST),
        corrected_reads: own.corrected_reads,
        update_time: own.utime.seconds(),
        events: own.events,
        checksum: format!("{stored:08x}"),
        checksum_expected: format!("{computed:08x}"),
        checksum_correct: stored == computed,
    }
}

fn bitmap(found: &Found) -> Option<Bitmap> {
    let head = found.bitmap_super.as_ref()?;
    let bits = found.bitmap.as_ref().and_then(|bits| bits.as_ref().ok());
    Some(Bitmap {
        sector: found.superblock.bitmap_sector()?,
        version: head.version,
        uuid: head.uuid.to_string(),
        events: head.events,
        events_cleared: head.events_cleared,
        state: head.state.0,
        chunk_bytes: head.chunk_bytes,
        daemon_sleep_seconds: head.daemon_sleep_seconds,
        write_behind_max: head.write_behind_max,
        sync_size_sectors: head.sync_size_sectors,
        chunks: bits.map(heliostat_format::BitmapBits::chunks),
        dirty_chunks: bits.map(heliostat_format::BitmapBits::count_set),
    })
}
