//! A result for programs. `docs/sim.md` says what each field means; fields are only ever added.

use heliostat_sim::{BackgroundResult, Integrity, JobBound, LegResult, Moved, RunResult};
use heliostat_types::Duration;
use serde::Serialize;
use stdx::histogram::Histogram;

/// One run as one object.
#[derive(Clone, Debug, Serialize)]
pub struct ResultJson<'a> {
    scenario: &'a str,
    policy: &'a str,
    seed: u64,
    seconds: f64,
    read: MovedJson,
    write: MovedJson,
    jobs: Vec<JobJson<'a>>,
    legs: Vec<LegJson<'a>>,
    hedges: HedgesJson,
    read_histogram_ms: [u64; 15],
    write_histogram_ms: [u64; 15],
    trace_hash: String,
    scheduler: &'a str,
    errors: u64,
    events: u64,
    integrity: IntegrityJson,
    background: Option<BackgroundJson>,
    bound: Option<BoundJson>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct MovedJson {
    ios: u64,
    iops: f64,
    bw_bytes: f64,
    response_time_ns: TimesJson,
}

#[derive(Clone, Debug, Serialize)]
struct JobJson<'a> {
    name: &'a str,
    read: MovedJson,
    write: MovedJson,
    unanswered: UnansweredJson,
}

/// Requests that still waited when the measured time ended, and for how long on average by then.
#[derive(Clone, Copy, Debug, Serialize)]
struct UnansweredJson {
    ios: u64,
    waited_ns: f64,
}

#[derive(Clone, Debug, Serialize)]
struct LegJson<'a> {
    model: &'a str,
    reads: u64,
    writes: u64,
    read_bytes: u64,
    write_bytes: u64,
    hedge_reads: u64,
    probe_reads: u64,
    merges: u64,
    stream_switches: u64,
    busy_fraction: f64,
    service_time_ns: TimesJson,
    faulted: bool,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct HedgesJson {
    issued: u64,
    won: u64,
    extra_read_fraction: f64,
}

/// How far the work in the background came.
#[derive(Clone, Copy, Debug, Serialize)]
struct BackgroundJson {
    work: &'static str,
    bytes: u64,
    seconds: f64,
    bw_bytes: f64,
    done: bool,
    mismatch_sectors: u64,
}

impl BackgroundJson {
    fn new(result: BackgroundResult) -> Self {
        Self {
            work: result.work.name(),
            bytes: result.bytes,
            seconds: result.time.as_secs_f64(),
            bw_bytes: result.bw_bytes(),
            done: result.done,
            mismatch_sectors: result.mismatch_sectors,
        }
    }
}

/// What injected faults of bytes, and power cuts, have done.
#[derive(Clone, Copy, Debug, Serialize)]
struct IntegrityJson {
    damaged_reads: u64,
    lost_writes: u64,
    torn_writes: u64,
    misdirected_writes: u64,
    rotten_sectors: u64,
    lied_flushes: u64,
    power_cuts: u64,
    sectors_lost_by_lies: u64,
    damaged_sectors: u64,
}

impl IntegrityJson {
    const fn new(integrity: &Integrity) -> Self {
        Self {
            damaged_reads: integrity.damaged_reads,
            lost_writes: integrity.lost_writes,
            torn_writes: integrity.torn_writes,
            misdirected_writes: integrity.misdirected_writes,
            rotten_sectors: integrity.rotten_sectors,
            lied_flushes: integrity.lied_flushes,
            power_cuts: integrity.power_cuts,
            sectors_lost_by_lies: integrity.sectors_lost_by_lies,
            damaged_sectors: integrity.damaged_sectors,
        }
    }
}

#[derive(Clone, Copy, Debug, Serialize)]
struct BoundJson {
    read_iops: f64,
    read_bw_bytes: f64,
    write_iops: f64,
    write_bw_bytes: f64,
    limit: &'static str,
}

/// How lengths of time are distributed.
#[derive(Clone, Copy, Debug, Serialize)]
struct TimesJson {
    mean: f64,
    p50: u64,
    p90: u64,
    p99: u64,
    #[serde(rename = "p99.9")]
    p99_9: u64,
    #[serde(rename = "p99.99")]
    p99_99: u64,
    max: u64,
}

impl<'a> ResultJson<'a> {
    /// The object of `result`.
    #[must_use]
    pub fn new(result: &'a RunResult) -> Self {
        let seconds = result.seconds;
        let jobs = result.jobs.iter().map(|job| JobJson {
            name: &job.name,
            read: moved(&job.read, seconds),
            write: moved(&job.write, seconds),
            unanswered: UnansweredJson {
                ios: job.unanswered.ios,
                waited_ns: job.unanswered.mean_ns(),
            },
        });
        Self {
            scenario: &result.scenario,
            policy: &result.policy,
            seed: result.seed,
            seconds: seconds.as_secs_f64(),
            read: moved(&result.read, seconds),
            write: moved(&result.write, seconds),
            jobs: jobs.collect(),
            legs: result.legs.iter().map(leg).collect(),
            hedges: HedgesJson {
                issued: result.hedges.issued,
                won: result.hedges.won,
                extra_read_fraction: result.extra_read_fraction(),
            },
            read_histogram_ms: result.read.histogram_ms(),
            write_histogram_ms: result.write.histogram_ms(),
            trace_hash: format!("{:016x}", result.trace_hash),
            scheduler: &result.scheduler,
            errors: result.errors,
            events: result.event_count,
            integrity: IntegrityJson::new(&result.integrity),
            background: result.background.map(BackgroundJson::new),
            bound: None,
        }
    }

    /// The same with what no policy can exceed in its scenario.
    #[must_use]
    pub fn with_bound(mut self, bound: &JobBound) -> Self {
        self.bound = Some(BoundJson {
            read_iops: bound.read_iops,
            read_bw_bytes: bound.read_bw_bytes,
            write_iops: bound.write_iops,
            write_bw_bytes: bound.write_bw_bytes,
            limit: bound.limit.as_str(),
        });
        self
    }
}

fn moved(moved: &Moved, seconds: Duration) -> MovedJson {
    MovedJson {
        ios: moved.ios,
        iops: moved.iops(seconds),
        bw_bytes: moved.bw_bytes(seconds),
        response_time_ns: times(moved.response_time_ns()),
    }
}

fn leg(leg: &LegResult) -> LegJson<'_> {
    LegJson {
        model: &leg.model,
        reads: leg.reads,
        writes: leg.writes,
        read_bytes: leg.read_bytes,
        write_bytes: leg.write_bytes,
        hedge_reads: leg.hedge_reads,
        probe_reads: leg.probe_reads,
        merges: leg.merges,
        stream_switches: leg.stream_switches,
        busy_fraction: leg.busy_fraction,
        service_time_ns: times(&leg.service_time_ns),
        faulted: leg.faulted,
    }
}

fn times(times: &Histogram) -> TimesJson {
    TimesJson {
        mean: times.mean(),
        p50: times.quantile(5_000),
        p90: times.quantile(9_000),
        p99: times.quantile(9_900),
        p99_9: times.quantile(9_990),
        p99_99: times.quantile(9_999),
        max: times.max(),
    }
}

#[cfg(test)]
mod tests;
