//! Jobs: clients that do the same, with the keys and units of fio.

use heliostat_types::{Duration, Extent, Instant, SECTOR_BYTES};

use crate::arrival::Arrival;
use crate::sizes::SizeShare;
use crate::spread::Distribution;
use crate::trace::{TraceFormat, TraceTime};

mod keys;
mod settings;

pub use keys::KEYS;

/// The largest request that an array takes.
pub(crate) const REQUEST_MAX_BYTES: u64 = 32 << 20;

/// The unit of the page cache.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Clients that do the same, as a section of a fio job file.
#[derive(Clone, Debug)]
pub struct Job {
    /// What people call it.
    pub name: String,
    /// What drives it.
    pub kind: Kind,
    /// What it does.
    pub rw: Rw,
    /// Bytes of a request; a multiple of 512.
    pub bs_bytes: u64,
    /// Bytes of a write where that is another size.
    pub bs_write_bytes: Option<u64>,
    /// Sizes of reads and of writes with their shares; empty: `bs`.
    pub bssplit: [Vec<SizeShare>; 2],
    /// Requests that each clone keeps in flight.
    pub iodepth: u32,
    /// In a closed loop: once all are in flight, so many have to be answered before more are sent.
    pub iodepth_batch_complete_min: u32,
    /// How many clones there are; each is a client.
    pub numjobs: u32,
    /// Whether requests go to the array as they are. Otherwise they go through the client's page
    /// cache: sequential reads through a read-ahead window, writes to a background that writes
    /// them back.
    pub direct: bool,
    /// The largest read-ahead window of a stream that is not direct.
    pub readahead_bytes: u64,
    /// The largest request that read-ahead sends.
    pub readahead_request_bytes: u64,
    /// Whether the clones, reading the same region one block after the other, share a page cache:
    /// what one of them has read is there for all.
    pub shared_cache: bool,
    /// How much each clone may have written into its page cache and not yet to the array.
    pub dirty_limit_bytes: u64,
    /// Where the job's region begins.
    pub offset_bytes: u64,
    /// The same in percent of the array, where above 0.
    pub offset_percent: u32,
    /// How large it is; 0: up to the array's end.
    pub size_bytes: u64,
    /// The same in percent of the array, where above 0.
    pub size_percent: u32,
    /// How far the region of each clone lies behind that of the one before.
    pub offset_increment_bytes: u64,
    /// How often a clone moves its size in a run that ends when that is done.
    pub loops: u32,
    /// How many of 100 requests are reads, for `rw` and `randrw`.
    pub rwmixread: u32,
    /// Reads and writes per second of each clone, at most; 0: no limit.
    pub rate_iops: [u64; 2],
    /// Bytes per second that each clone reads and writes, at most; 0: no limit.
    pub rate_bytes: [u64; 2],
    /// The share of each clone beside others, under a scheduler that has shares.
    pub weight: u32,
    /// Requests per second that the array lets each clone have, at most; 0: no limit.
    pub iops_max: u64,
    /// Bytes per second likewise.
    pub bytes_per_s_max: u64,
    /// Whether requests wait for answers, or come when they come.
    pub arrival: Arrival,
    /// How long a clone does nothing after `thinktime_blocks` answers.
    pub thinktime: Duration,
    /// See `thinktime`.
    pub thinktime_blocks: u32,
    /// Which blocks random requests take.
    pub random_distribution: Distribution,
    /// A FLUSH after so many writes; 0: none.
    pub fsync: u32,
    /// Whether it is left out of the totals.
    pub background: bool,
    /// The leg that it loads by itself, unseen by the array.
    pub leg: Option<usize>,
    /// When it begins; `None`: at the start of the warm-up.
    pub start: Option<FromMeasuring>,
    /// When it ends; `None`: at the end of the run.
    pub stop: Option<FromMeasuring>,
    /// The block trace that it plays, by the name that its opener knows it by.
    pub trace: Option<String>,
    /// What the trace is written in; `None`: its first line says it.
    pub trace_format: Option<TraceFormat>,
    /// How many times faster than it was recorded it is played.
    pub trace_speed: f64,
    /// Which volume of the trace is played; `None`: all, one over the other.
    pub trace_volume: Option<u64>,
    /// The unit of the times in a fio iolog of version 3.
    pub trace_time: TraceTime,
}

/// A moment, counted from the start of measuring, in ns; negative: during the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FromMeasuring(pub i64);

impl FromMeasuring {
    /// As a moment of a run whose measuring begins at `begins_at`; never before the run does.
    #[must_use]
    pub fn at(self, begins_at: Instant) -> Instant {
        let length = Duration::from_ns(self.0.unsigned_abs());
        if self.0 < 0 {
            Instant::ZERO + begins_at.saturating_since(Instant::ZERO + length)
        } else {
            begins_at + length
        }
    }
}

impl Default for Job {
    fn default() -> Self {
        Self {
            name: "job".to_owned(),
            kind: Kind::Fio,
            rw: Rw::RandRead,
            bs_bytes: 4096,
            bs_write_bytes: None,
            bssplit: [Vec::new(), Vec::new()],
            iodepth: 1,
            iodepth_batch_complete_min: 1,
            numjobs: 1,
            direct: true,
            readahead_bytes: 4 << 20,
            readahead_request_bytes: 1 << 20,
            shared_cache: false,
            dirty_limit_bytes: 256 << 20,
            offset_bytes: 0,
            offset_percent: 0,
            size_bytes: 0,
            size_percent: 0,
            offset_increment_bytes: 0,
            loops: 1,
            rwmixread: 50,
            rate_iops: [0; 2],
            rate_bytes: [0; 2],
            weight: 1,
            iops_max: 0,
            bytes_per_s_max: 0,
            arrival: Arrival::Closed,
            thinktime: Duration::ZERO,
            thinktime_blocks: 1,
            random_distribution: Distribution::Random,
            fsync: 0,
            background: false,
            leg: None,
            start: None,
            stop: None,
            trace: None,
            trace_format: None,
            trace_speed: 1.0,
            trace_volume: None,
            trace_time: TraceTime::Microseconds,
        }
    }
}

/// What drives a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A loop as fio's, or a trace.
    Fio,
    /// A recursive defragmentation of the region: reads the pieces of one file after the other and
    /// writes them in one piece elsewhere.
    Defrag,
}

/// What a job does, in fio's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rw {
    /// Reads one block after the other.
    Read,
    /// Writes one block after the other.
    Write,
    /// Reads blocks at random.
    RandRead,
    /// Writes blocks at random.
    RandWrite,
    /// Reads or writes blocks at random.
    RandRw,
    /// Reads or writes one block after the other.
    Rw,
}

impl Rw {
    /// Whether blocks are taken at random.
    #[must_use]
    pub const fn is_random(self) -> bool {
        matches!(self, Self::RandRead | Self::RandWrite | Self::RandRw)
    }

    /// Whether anything is read.
    #[must_use]
    pub const fn has_reads(self) -> bool {
        !matches!(self, Self::Write | Self::RandWrite)
    }

    /// Whether anything is written.
    #[must_use]
    pub const fn has_writes(self) -> bool {
        !matches!(self, Self::Read | Self::RandRead)
    }
}

impl Job {
    /// Whether it is in the totals, and a run without a length waits for it.
    #[must_use]
    pub const fn counts(&self) -> bool {
        !self.background && self.leg.is_none()
    }

    /// Whether anything is written to the array: by its words, or perhaps by its trace.
    #[must_use]
    pub fn has_writes(&self) -> bool {
        let writes = self.trace.is_some() || self.kind == Kind::Defrag || self.rw.has_writes();
        writes && self.leg.is_none()
    }

    /// Whether it reads one block after the other through a page cache.
    pub(crate) fn is_streamed(&self) -> bool {
        let is_loop = self.kind == Kind::Fio && self.trace.is_none();
        is_loop && !self.direct && self.rw.has_reads() && !self.rw.is_random()
    }

    /// The sizes of its requests, reads and writes.
    fn block_bytes(&self) -> impl Iterator<Item = u64> + '_ {
        let plain = [self.bs_bytes, self.bs_write_bytes.unwrap_or(self.bs_bytes)];
        let split = self.bssplit.iter().flatten().map(|share| share.bytes);
        let used = [self.rw.has_reads(), self.rw.has_writes()];
        let plain = plain.into_iter().zip(&self.bssplit).zip(used);
        plain
            .filter(|((_, split), used)| split.is_empty() && *used)
            .map(|((bytes, _), _)| bytes)
            .chain(split)
    }

    /// Its smallest request.
    pub(crate) fn block_min_bytes(&self) -> u64 {
        match self.kind {
            Kind::Defrag => PAGE_BYTES,
            Kind::Fio if self.trace.is_some() => SECTOR_BYTES,
            Kind::Fio => self.block_bytes().min().unwrap_or(self.bs_bytes),
        }
    }

    /// Where the region of the first clone begins, on a device of `device_bytes`.
    fn offset(&self, device_bytes: u64) -> u64 {
        if self.offset_percent == 0 {
            return self.offset_bytes;
        }
        // As fio: rounded up to whole blocks.
        let offset = percent_of(device_bytes, self.offset_percent);
        offset.next_multiple_of(self.block_min_bytes().max(SECTOR_BYTES))
    }

    /// The region of clone `clone`, in whole blocks, on a device of `device_bytes` (the array, or
    /// the leg that it loads); `None` where it ends beyond that.
    #[must_use]
    pub fn region(&self, clone: u32, device_bytes: u64) -> Option<Extent> {
        let behind = u64::from(clone).checked_mul(self.offset_increment_bytes)?;
        let start = self.offset(device_bytes).checked_add(behind)?;
        let room = device_bytes.checked_sub(start)?;
        let len_bytes = match (self.size_percent, self.size_bytes) {
            (0, 0) => room,
            (0, bytes) => bytes,
            (percent, _) => percent_of(device_bytes, percent).min(room),
        };
        let block_bytes = self.block_min_bytes().max(1);
        let whole = len_bytes / block_bytes * block_bytes;
        (len_bytes <= room).then(|| Extent::new(start, whole))
    }

    /// Bytes of the first clone's region on a device of `device_bytes`; 0 where it ends beyond.
    #[must_use]
    pub fn region_bytes(&self, device_bytes: u64) -> u64 {
        self.region(0, device_bytes).map_or(0, Extent::len)
    }

    /// The largest power of two, up to 1 MiB, that all its requests begin and end at multiples of.
    #[must_use]
    pub fn granule_bytes(&self, device_bytes: u64) -> u64 {
        if self.trace.is_some() {
            return SECTOR_BYTES;
        }
        let mut all = 1u64 << 20 | self.offset_increment_bytes;
        if let Some(region) = self.region(0, device_bytes) {
            all |= region.offset() | region.len();
        }
        if !self.direct || self.kind == Kind::Defrag {
            all |= PAGE_BYTES;
        }
        all = self.block_bytes().fold(all, |all, bytes| all | bytes);
        1 << all.trailing_zeros()
    }

    /// Whether it can be run on a device of `device_bytes`: the array, or the leg that it loads.
    ///
    /// # Errors
    /// Says the first thing that is wrong.
    pub fn check(&self, device_bytes: u64) -> Result<(), String> {
        self.check_sizes()?;
        self.check_keys_agree()?;
        for clone in [0, self.numjobs - 1] {
            let Some(region) = self.region(clone, device_bytes) else {
                return Err("offset and size: its region ends beyond the array".to_owned());
            };
            let block_max = self.block_bytes().max().unwrap_or(self.bs_bytes);
            let wanted = match self.kind {
                Kind::Defrag => DEFRAG_MIN_BYTES,
                Kind::Fio if self.trace.is_some() => SECTOR_BYTES,
                Kind::Fio => block_max,
            };
            if region.len() < wanted {
                let text = "bs and size: its region holds no block";
                return Err(match self.kind {
                    Kind::Defrag => "a defragmentation needs a region of 64 MiB".to_owned(),
                    Kind::Fio => text.to_owned(),
                });
            }
        }
        Ok(())
    }

    fn check_sizes(&self) -> Result<(), String> {
        let is_odd = |bytes: &u64| !bytes.is_multiple_of(SECTOR_BYTES);
        let places = [self.offset_bytes, self.offset_increment_bytes];
        if self.block_bytes().any(|bytes| is_odd(&bytes)) || places.iter().any(is_odd) {
            return Err("bs, offset and offset_increment must be multiples of 512".to_owned());
        }
        let allowed = SECTOR_BYTES..=REQUEST_MAX_BYTES;
        if self.block_bytes().any(|bytes| !allowed.contains(&bytes)) {
            return Err("bs must be 512 bytes to 32 MiB".to_owned());
        }
        if self.iodepth == 0 || self.numjobs == 0 || self.loops == 0 || self.thinktime_blocks == 0 {
            return Err("iodepth, numjobs, loops and thinktime_blocks must be above 0".to_owned());
        }
        if self.rwmixread > 100 || self.offset_percent > 100 || self.size_percent > 100 {
            return Err("rwmixread, and offset and size with %, are percentages".to_owned());
        }
        if !self.direct && self.readahead_bytes < PAGE_BYTES {
            return Err("readahead must be at least 4 KiB".to_owned());
        }
        let request_bytes = self.readahead_request_bytes;
        if request_bytes < PAGE_BYTES || !request_bytes.is_multiple_of(PAGE_BYTES) {
            return Err("readahead_request must be a multiple of 4 KiB".to_owned());
        }
        if self.iodepth_batch_complete_min > self.iodepth {
            return Err("iodepth_batch_complete_min must be at most iodepth".to_owned());
        }
        let block_max = self.block_bytes().max().unwrap_or(0);
        if !self.direct && self.rw.has_writes() && self.dirty_limit_bytes < block_max {
            return Err("dirty_limit must be at least bs".to_owned());
        }
        Ok(())
    }

    /// Whether its keys can go together.
    fn check_keys_agree(&self) -> Result<(), String> {
        let wrong = |text: &str| Err(text.to_owned());
        let is_open = !self.arrival.is_closed();
        let is_paced = self.rate_iops != [0; 2]
            || self.rate_bytes != [0; 2]
            || self.thinktime > Duration::ZERO;
        if is_open && is_paced {
            return wrong("arrival says when requests come: leave out rate_iops, rate, thinktime");
        }
        if is_open && !self.direct {
            return wrong("arrival needs direct = 1: nobody waits for a page cache");
        }
        if self.shared_cache {
            if !self.is_streamed() || self.rw.has_writes() {
                return wrong("shared_cache needs rw = read and direct = 0");
            }
            if self.offset_increment_bytes > 0 {
                return wrong(
                    "shared_cache needs clones that read the same region, but there is \
                              offset_increment",
                );
            }
        }
        if self.trace.is_some() {
            if self.numjobs > 1 {
                return wrong("a trace is played by one client: leave out numjobs");
            }
            if self.kind != Kind::Fio || is_open || is_paced || self.shared_cache {
                return wrong(
                    "a trace says itself what comes when: leave out kind, arrival, \
                              rate_iops, rate, thinktime and shared_cache",
                );
            }
        }
        if self.kind == Kind::Defrag && (is_open || is_paced || self.leg.is_some()) {
            return wrong("a defragmentation takes no arrival, rate_iops, rate, thinktime or leg");
        }
        if let (start, Some(stop)) = (self.start, self.stop)
            && start.is_some_and(|start| stop <= start)
        {
            return wrong("it stops before it starts");
        }
        Ok(())
    }
}

/// The smallest region that is worth a defragmentation: as large as its largest file.
pub(crate) const DEFRAG_MIN_BYTES: u64 = 64 << 20;

fn percent_of(bytes: u64, percent: u32) -> u64 {
    let share = u128::from(bytes) * u128::from(percent) / 100;
    u64::try_from(share).expect("a share is no more than the whole")
}

#[cfg(test)]
mod tests;
