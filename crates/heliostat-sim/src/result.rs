//! What came of a run.

use heliostat_engine::{MS_BUCKETS, Times};
use heliostat_types::Duration;
use stdx::histogram::Histogram;

use crate::background::BackgroundResult;
use crate::series::Series;

/// The figures of one scenario under one policy. Counted is what completed in the measured time.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// The scenario's name.
    pub scenario: String,
    /// The policy as it was asked for.
    pub policy: String,
    /// The scheduler, with its tunables.
    pub scheduler: String,
    /// The seed.
    pub seed: u64,
    /// How long was measured.
    pub seconds: Duration,
    /// Reads of all foreground jobs.
    pub read: Moved,
    /// Writes of all foreground jobs.
    pub write: Moved,
    /// One for each job of the scenario.
    pub jobs: Vec<JobResult>,
    /// One for each leg.
    pub legs: Vec<LegResult>,
    /// How it went over time.
    pub series: Series,
    /// Reads that were asked of a second leg because the first was late.
    pub hedges: Hedges,
    /// Requests that were answered with an error, over the whole run.
    pub errors: u64,
    /// What injected faults did to bytes, over the whole run.
    pub integrity: Integrity,
    /// How far the work in the background came, where there was any.
    pub background: Option<BackgroundResult>,
    /// Hash of everything that happened: equal for equal seed and commit, on every machine.
    pub trace_hash: u64,
    /// How many events that were.
    pub event_count: u64,
}

/// Reads that were asked of a second leg because the first was late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hedges {
    /// How many.
    pub issued: u64,
    /// How many of them answered first.
    pub won: u64,
}

/// What injected faults did to the bytes of the legs, and how much of it clients have seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Integrity {
    /// Reads that returned bytes which an injected fault had damaged.
    pub damaged_reads: u64,
    /// Writes to a leg that were answered and did not land.
    pub lost_writes: u64,
    /// Writes to a leg that were answered and landed in part.
    pub torn_writes: u64,
    /// Writes to a leg that were answered and landed elsewhere.
    pub misdirected_writes: u64,
    /// Sectors of a leg that changed by themselves.
    pub rotten_sectors: u64,
    /// Flushes of a leg that were answered and made nothing durable.
    pub lied_flushes: u64,
    /// How often the power failed.
    pub power_cuts: u64,
    /// Sectors of a leg that a power cut undid although a flush that lied had covered them.
    pub sectors_lost_by_lies: u64,
    /// Sectors of legs in sync that were damaged in the end.
    pub damaged_sectors: u64,
}

impl Integrity {
    /// Adds what another leg has counted.
    pub(crate) const fn add(&mut self, other: &Self) {
        self.damaged_reads += other.damaged_reads;
        self.lost_writes += other.lost_writes;
        self.torn_writes += other.torn_writes;
        self.misdirected_writes += other.misdirected_writes;
        self.rotten_sectors += other.rotten_sectors;
        self.lied_flushes += other.lied_flushes;
        self.power_cuts += other.power_cuts;
        self.sectors_lost_by_lies += other.sectors_lost_by_lies;
        self.damaged_sectors += other.damaged_sectors;
    }
}

/// Requests of one kind that were answered.
#[derive(Clone, Debug, Default)]
pub struct Moved {
    /// How many.
    pub ios: u64,
    /// Their bytes.
    pub bytes: u64,
    /// From asking to answer: counted as what is served is.
    pub times: Times,
}

/// Requests that came before the measured time ended and were answered after it, but for those of
/// who reads through a page cache. Where requests come whatever is answered, times of those that
/// were answered alone flatter who lets many wait for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unanswered {
    /// How many.
    pub ios: u64,
    /// How long they had waited when the measured time ended, all together.
    pub waited_ns: u128,
}

impl Unanswered {
    /// Counts one request.
    pub(crate) fn record(&mut self, waited: Duration) {
        self.ios += 1;
        self.waited_ns += u128::from(waited.as_ns());
    }

    /// How long each of them had waited when the measured time ended, on average.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        self.waited_ns as f64 / self.ios.max(1) as f64
    }
}

/// The figures of one job.
#[derive(Clone, Debug)]
pub struct JobResult {
    /// Its name.
    pub name: String,
    /// Its reads.
    pub read: Moved,
    /// Its writes.
    pub write: Moved,
    /// Its reads and writes that were not answered yet when the measured time ended.
    pub unanswered: Unanswered,
    /// For how long legs were busy with it, added up: with each operation from when it was given to
    /// the leg, or the one before it ended, until it ended itself. What the array does for nobody,
    /// resync and its like, is on the account of the first client.
    pub leg_time: Duration,
}

/// The figures of one leg.
#[derive(Clone, Debug)]
pub struct LegResult {
    /// The name of its drive.
    pub model: String,
    /// Reads it has done.
    pub reads: u64,
    /// Writes it has done.
    pub writes: u64,
    /// Bytes of these reads.
    pub read_bytes: u64,
    /// Bytes of these writes.
    pub write_bytes: u64,
    /// Reads it was asked for because another leg was late.
    pub hedge_reads: u64,
    /// Reads it was asked for only to learn how fast it is.
    pub probe_reads: u64,
    /// Operations that went to it as part of a larger one.
    pub merges: u64,
    /// Sequential runs of reads that came to it from another leg.
    pub stream_switches: u64,
    /// Share of the time in which it had at least one operation.
    pub busy_fraction: f64,
    /// From dispatch to completion, in ns, of reads and writes.
    pub service_time_ns: Histogram,
    /// Whether it was faulted in the end.
    pub faulted: bool,
}

impl RunResult {
    /// How many reads legs were asked for beyond those that clients needed, as hedges and probes,
    /// as a share of all reads of the legs.
    #[must_use]
    pub fn extra_read_fraction(&self) -> f64 {
        let sum = |count: fn(&LegResult) -> u64| self.legs.iter().map(count).sum::<u64>();
        let extra = sum(|leg| leg.hedge_reads + leg.probe_reads);
        extra as f64 / sum(|leg| leg.reads).max(1) as f64
    }
}

impl Moved {
    /// Counts one request.
    pub(crate) fn record(&mut self, len_bytes: u64, response_time: Duration) {
        self.ios += 1;
        self.bytes += len_bytes;
        self.times.record(response_time);
    }

    /// Adds what another one has counted.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.times.merge(&other.times);
    }

    /// From asking to answer, in ns.
    #[must_use]
    pub const fn response_time_ns(&self) -> &Histogram {
        self.times.fine_ns()
    }

    /// How many took less than 8 ms, less than 16 ms and so on, doubling; the last: 65,536 ms and
    /// more.
    #[must_use]
    pub fn histogram_ms(&self) -> [u64; MS_BUCKETS] {
        self.times.buckets_ms()
    }

    /// Requests per second.
    #[must_use]
    pub fn iops(&self, seconds: Duration) -> f64 {
        per_second(self.ios, seconds)
    }

    /// Bytes per second.
    #[must_use]
    pub fn bw_bytes(&self, seconds: Duration) -> f64 {
        per_second(self.bytes, seconds)
    }
}

fn per_second(count: u64, seconds: Duration) -> f64 {
    if seconds == Duration::ZERO {
        return 0.0;
    }
    count as f64 / seconds.as_secs_f64()
}
