//! What a hard disk is made of, and its parameters by name.

use heliostat_types::Duration;
use stdx::settings::SettingError;

use super::seek::SeekCurve;
use crate::params::{
    Access, Param, QUEUE_DEPTH_MAX, RATE_MAX, SIZE_MAX, TIME_MAX, Tabled, check_cap, check_size,
};

/// What a hard disk is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HddParams {
    /// Capacity.
    pub size_bytes: u64,
    /// The smallest unit that it reads and writes.
    pub logical_block_bytes: u32,
    /// The sectors on the platter.
    pub physical_block_bytes: u32,
    /// Turns per minute.
    pub spindle_rpm: u32,
    /// A seek to the next track, settling included.
    pub seek_track_to_track: Duration,
    /// The mean over all pairs of tracks.
    pub seek_mean: Duration,
    /// A seek from edge to edge.
    pub seek_full: Duration,
    /// How much longer a seek takes that ends in a write: the head must settle better.
    pub write_settle: Duration,
    /// Sustained rate at the outer edge, in bytes per second.
    pub outer_bytes_per_s: u64,
    /// Sustained rate at the inner edge, in bytes per second.
    pub inner_bytes_per_s: u64,
    /// What the drive's electronics take per operation before the arm moves; hidden behind other
    /// operations where some are queued.
    pub command_time: Duration,
    /// The host interface, in bytes per second; what is cached comes at this rate.
    pub link_bytes_per_s: u64,
    /// How many operations the drive looks at to choose the next one (NCQ).
    pub queue_depth: u32,
    /// How many nanoseconds of positioning time an operation is forgiven per 1000 ns that it has
    /// waited; keeps the drive from serving the far ones never.
    pub ageing_permille: u32,
    /// Runs of bytes that the cache tells apart.
    pub segment_count: u32,
    /// How far the drive reads ahead of the last read when nothing else is wanted, and how long a
    /// cached run may be.
    pub read_ahead_max_bytes: u64,
    /// How far it reads ahead of a read that continued a cached run, although others wait. This is
    /// what keeps several sequential readers from costing a seek per request.
    pub read_ahead_min_bytes: u64,
    /// The most bytes per second that writes get, whatever the media could do; 0: no such cap.
    pub write_bytes_per_s_max: u64,
    /// Whether writes are answered from a volatile cache.
    pub write_cache: bool,
    /// How much of its memory the drive gives to writes, where it does.
    pub write_cache_bytes: u64,
    /// The log of a shingled drive for writes that come in no order; 0: it is not shingled.
    pub media_cache_bytes: u64,
    /// The shingled tracks that can only be written together.
    pub band_bytes: u64,
}

impl HddParams {
    /// A 1 TB drive with 7200 rpm and figures between those that are sold, without anything that
    /// only some drives do.
    pub const NEUTRAL: Self = Self {
        size_bytes: 1_000_204_886_016,
        logical_block_bytes: 512,
        physical_block_bytes: 4096,
        spindle_rpm: 7200,
        seek_track_to_track: Duration::from_ms(1),
        seek_mean: Duration::from_us(8_500),
        seek_full: Duration::from_ms(17),
        write_settle: Duration::from_ms(1),
        outer_bytes_per_s: 200_000_000,
        inner_bytes_per_s: 100_000_000,
        command_time: Duration::from_us(100),
        link_bytes_per_s: 600_000_000,
        queue_depth: 32,
        ageing_permille: 20,
        segment_count: 16,
        read_ahead_max_bytes: 2 << 20,
        read_ahead_min_bytes: 512 << 10,
        write_bytes_per_s_max: 0,
        write_cache: true,
        write_cache_bytes: 16 << 20,
        media_cache_bytes: 0,
        band_bytes: 16 << 20,
    };

    /// How many bytes of answered writes a power cut may undo.
    pub(super) const fn volatile_bytes(&self) -> u64 {
        if self.write_cache {
            self.write_cache_bytes
        } else {
            0
        }
    }

    /// Another outer rate, and the inner one in proportion.
    fn scale_rates(&mut self, outer_bytes_per_s: u64) {
        let inner = u128::from(self.inner_bytes_per_s) * u128::from(outer_bytes_per_s)
            / u128::from(self.outer_bytes_per_s.max(1));
        self.inner_bytes_per_s = u64::try_from(inner).unwrap_or(u64::MAX);
        self.outer_bytes_per_s = outer_bytes_per_s;
    }
}

/// A hard disk's media passes no fewer bytes per second: at this rate the largest disk is read in
/// 90 years, which is far from 2^64 ns.
const MEDIA_RATE_MIN: u64 = 100_000;

/// No cache is larger.
const CACHE_MAX: u64 = 1 << 40;

impl Tabled for HddParams {
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
            meaning: "operations that the drive looks at to choose the next one (NCQ)",
            access: Access::Count(|p| &mut p.queue_depth),
            min: 1,
            max: QUEUE_DEPTH_MAX,
        },
        Param {
            key: "read_bw",
            meaning: "media rate at the outer edge; setting it scales the inner one as well",
            access: Access::RateOf(|p| p.outer_bytes_per_s, Self::scale_rates),
            min: MEDIA_RATE_MIN,
            max: RATE_MAX,
        },
        Param {
            key: "write_bw",
            meaning: "most bytes per second that writes get; 0B/s: what the media does",
            access: Access::Rate(|p| &mut p.write_bytes_per_s_max),
            min: 0,
            max: RATE_MAX,
        },
        Param {
            key: "outer_bytes_per_s",
            meaning: "sustained rate at the outer edge",
            access: Access::Rate(|p| &mut p.outer_bytes_per_s),
            min: MEDIA_RATE_MIN,
            max: RATE_MAX,
        },
        Param {
            key: "inner_bytes_per_s",
            meaning: "sustained rate at the inner edge",
            access: Access::Rate(|p| &mut p.inner_bytes_per_s),
            min: MEDIA_RATE_MIN,
            max: RATE_MAX,
        },
        Param {
            key: "spindle_rpm",
            meaning: "turns per minute",
            access: Access::Count(|p| &mut p.spindle_rpm),
            min: 60,
            max: 60_000,
        },
        Param {
            key: "seek_track_to_track",
            meaning: "a seek to the next track, settling included",
            access: Access::Time(|p| &mut p.seek_track_to_track),
            min: 1,
            max: TIME_MAX.as_ns(),
        },
        Param {
            key: "seek_mean",
            meaning: "the mean seek over all pairs of tracks",
            access: Access::Time(|p| &mut p.seek_mean),
            min: 1,
            max: TIME_MAX.as_ns(),
        },
        Param {
            key: "seek_full",
            meaning: "a seek from edge to edge",
            access: Access::Time(|p| &mut p.seek_full),
            min: 1,
            max: TIME_MAX.as_ns(),
        },
        Param {
            key: "write_settle",
            meaning: "how much longer a seek takes that ends in a write",
            access: Access::Time(|p| &mut p.write_settle),
            min: 0,
            max: TIME_MAX.as_ns(),
        },
        Param {
            key: "command_time",
            meaning: "what the electronics take per operation before the arm moves",
            access: Access::Time(|p| &mut p.command_time),
            min: 1,
            max: TIME_MAX.as_ns(),
        },
        Param {
            key: "link_bytes_per_s",
            meaning: "the host interface: what is cached comes at this rate",
            access: Access::Rate(|p| &mut p.link_bytes_per_s),
            min: MEDIA_RATE_MIN,
            max: RATE_MAX,
        },
        Param {
            key: "ageing_permille",
            meaning: "ns of positioning that an operation is forgiven per 1000 ns of waiting",
            access: Access::Count(|p| &mut p.ageing_permille),
            min: 0,
            max: 1_000_000,
        },
        Param {
            key: "segment_count",
            meaning: "runs of bytes that the read cache tells apart",
            access: Access::Count(|p| &mut p.segment_count),
            min: 0,
            max: 4096,
        },
        Param {
            key: "read_ahead_max_bytes",
            meaning: "how far an idle drive reads ahead, and how long a cached run may be",
            access: Access::Size(|p| &mut p.read_ahead_max_bytes),
            min: 0,
            max: CACHE_MAX,
        },
        Param {
            key: "read_ahead_min_bytes",
            meaning: "how far it reads ahead of a stream although others wait",
            access: Access::Size(|p| &mut p.read_ahead_min_bytes),
            min: 0,
            max: CACHE_MAX,
        },
        Param {
            key: "write_cache",
            meaning: "whether writes are answered from a volatile cache",
            access: Access::Switch(|p| &mut p.write_cache),
            min: 0,
            max: 1,
        },
        Param {
            key: "write_cache_bytes",
            meaning: "how much memory that cache has",
            access: Access::Size(|p| &mut p.write_cache_bytes),
            min: 64 << 10,
            max: 1 << 30,
        },
        Param {
            key: "media_cache_bytes",
            meaning: "log of a shingled drive for scattered writes; 0: not shingled",
            access: Access::Size(|p| &mut p.media_cache_bytes),
            min: 0,
            max: CACHE_MAX,
        },
        Param {
            key: "band_bytes",
            meaning: "shingled tracks that are written together",
            access: Access::Size(|p| &mut p.band_bytes),
            min: 1 << 20,
            max: 1 << 30,
        },
        Param {
            key: "logical_block_bytes",
            meaning: "the smallest unit that it reads and writes",
            access: Access::Block(|p| &mut p.logical_block_bytes),
            min: 512,
            max: 65_536,
        },
        Param {
            key: "physical_block_bytes",
            meaning: "the sectors on the platter",
            access: Access::Block(|p| &mut p.physical_block_bytes),
            min: 512,
            max: 65_536,
        },
    ];

    fn check_together(&self) -> Result<(), SettingError> {
        check_size(self.size_bytes, self.logical_block_bytes)?;
        if self.physical_block_bytes < self.logical_block_bytes {
            let text = "a sector on the platter is no smaller than a logical block";
            return Err(SettingError::value("physical_block_bytes", text));
        }
        if self.inner_bytes_per_s > self.outer_bytes_per_s {
            let text = "no drive is faster at the inner edge than outer_bytes_per_s";
            return Err(SettingError::value("inner_bytes_per_s", text));
        }
        check_cap(
            "write_bw",
            self.write_bytes_per_s_max,
            "outer_bytes_per_s",
            self.outer_bytes_per_s,
        )?;
        let (shortest, mean) = (self.seek_track_to_track, self.seek_mean);
        if SeekCurve::new(shortest, mean, self.seek_full).is_none() {
            // From the conditions of the curve: b >= 0 and b / 2 + c >= 0.
            let text = "does not lie where a curve of square root and line can pass: from a third \
                        to 11/15 of the way from seek_track_to_track to seek_full";
            return Err(SettingError::value("seek_mean", text));
        }
        Ok(())
    }
}
