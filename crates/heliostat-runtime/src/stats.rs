//! What an array did, as it is told to people and programs.
//!
//! The loop only copies counters ([`Snapshot`]); percentiles are worked out by whoever asked. The
//! structs with names for JSON are wire formats: their fields are what `heliostat stats --json`
//! prints.

use heliostat_engine::{
    Account, Accounts, HedgeFigures, LegState, LegStats, MS_BUCKETS, PrefetchFigures, Times,
    Traffic,
};
use heliostat_types::{Duration, Instant, OpKind};
use serde::{Deserialize, Serialize};
use stdx::histogram::Histogram;

use crate::status::word_of;

/// Counters as the loop hands them out.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) name: String,
    pub(crate) size_bytes: u64,
    pub(crate) policy: String,
    pub(crate) scheduler: String,
    pub(crate) uptime: Duration,
    pub(crate) backend: String,
    pub(crate) memory_bytes: u64,
    pub(crate) memory_used_bytes: u64,
    pub(crate) dirty: bool,
    pub(crate) hedges: HedgeFigures,
    pub(crate) read_ahead: PrefetchFigures,
    pub(crate) accounts: Accounts,
    pub(crate) clients: Vec<ClientSnapshot>,
    pub(crate) legs: Vec<LegSnapshot>,
}

/// Counters of one client as the loop hands them out.
#[derive(Debug)]
pub(crate) struct ClientSnapshot {
    pub(crate) name: String,
    pub(crate) connections: usize,
    /// Now, or when it went.
    pub(crate) until: Instant,
    pub(crate) account: Account,
    pub(crate) late_in_flight: u64,
}

/// Counters of one leg as the loop hands them out.
#[derive(Debug)]
pub(crate) struct LegSnapshot {
    pub(crate) name: String,
    pub(crate) state: LegState,
    pub(crate) reads_in_flight: u32,
    pub(crate) writes_in_flight: u32,
    pub(crate) read_preferred: bool,
    pub(crate) stats: LegStats,
}

/// What an array did since its statistics began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayStats {
    /// Its name.
    pub name: String,
    /// Its usable size.
    pub size_bytes: u64,
    /// The active read policy, as `NAME:VALUE`.
    pub policy: String,
    /// The scheduler in front of each leg, with the tunables that differ from their defaults.
    pub scheduler: String,
    /// For how long it has been served.
    pub uptime_ns: u64,
    /// How files and block devices are reached.
    pub backend: String,
    /// Memory for requests.
    pub memory_bytes: u64,
    /// How much of it is in use.
    pub memory_used_bytes: u64,
    /// Whether a start that found the legs as they are now may have to take them for different.
    pub dirty: bool,
    /// Whether anything is counted.
    pub accounting: bool,
    /// How old a request is that is late.
    pub client_timeout_ns: u64,
    /// Reads that were asked of a second leg because the first one was late.
    #[serde(default)]
    pub hedges: HedgeCounts,
    /// What the read policy had read before it was asked for.
    #[serde(default)]
    pub read_ahead: ReadAheadCounts,
    /// What all clients asked for.
    pub requests: RequestFigures,
    /// What each of them asked for: those that are there, then the last ones that have gone.
    pub clients: Vec<ClientFigures>,
    /// Its legs, in role order; behind them one that is to replace another one.
    pub legs: Vec<LegFigures>,
}

/// Reads that were asked of a second leg.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HedgeCounts {
    /// All of them.
    pub issued: u64,
    /// Those that the second leg answered first.
    pub won: u64,
    /// Those whose second answer nobody used; what is neither is under way.
    #[serde(default)]
    pub wasted: u64,
    /// Those that were wanted when the budget, or memory, was used up, and not asked.
    pub refused: u64,
}

/// What was read ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadAheadCounts {
    /// From legs.
    pub read_bytes: u64,
    /// Of those, what clients were given.
    pub served_bytes: u64,
}

/// Times as they are kept: a bucket's lower bound and width in nanoseconds, and how many are in it;
/// those that hold something, by rising bound.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FineTimes {
    /// Of reads.
    pub read_ns: Vec<(u64, u64, u64)>,
    /// Of writes.
    pub write_ns: Vec<(u64, u64, u64)>,
}

/// What was asked for, and answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestFigures {
    /// For how long was counted.
    pub counted_ns: u64,
    /// How long anything was in flight meanwhile.
    pub ticks_ns: u64,
    /// Reads answered, well or not, as everything below.
    pub reads: u64,
    /// Writes answered.
    pub writes: u64,
    /// Flushes answered.
    pub flushes: u64,
    /// Trims answered.
    pub trims: u64,
    /// Write-zeroes answered.
    pub write_zeroes: u64,
    /// Queries for holes answered.
    pub block_statuses: u64,
    /// Bytes of the reads.
    pub read_bytes: u64,
    /// Bytes of the writes.
    pub write_bytes: u64,
    /// Reads answered with an error.
    pub read_errors: u64,
    /// Writes, trims, write-zeroes and flushes answered with an error.
    pub write_errors: u64,
    /// Reads not answered yet.
    pub reads_in_flight: u64,
    /// Writes, trims, write-zeroes and flushes not answered yet.
    pub writes_in_flight: u64,
    /// How long each read was in flight, added up.
    pub read_weighted_ns: u64,
    /// How long each write, trim, write-zeroes and flush was.
    pub write_weighted_ns: u64,
    /// Requests of any kind whose answer took the client time-out or longer.
    pub late: u64,
    /// Requests that have waited that long and have no answer.
    pub late_in_flight: u64,
    /// From asking to the answer, of reads.
    pub read_response_time_ns: Distribution,
    /// From asking to the answer, of writes.
    pub write_response_time_ns: Distribution,
    /// From asking to the answer, of flushes.
    pub flush_response_time_ns: Distribution,
    /// How many reads took less than 8 ms, less than 16 ms and so on, doubling; the last: 65,536 ms
    /// and more.
    pub read_histogram_ms: [u64; MS_BUCKETS],
    /// The same of writes.
    pub write_histogram_ms: [u64; MS_BUCKETS],
    /// The response times in full, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fine: Option<FineTimes>,
}

/// What one client asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientFigures {
    /// Its process with the id, or its address.
    pub client: String,
    /// How many connections it has; none where it has gone.
    pub connections: usize,
    /// What it asked for.
    pub requests: RequestFigures,
}

/// What one leg did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LegFigures {
    /// Counted from 0.
    pub index: usize,
    /// As the user wrote it.
    pub leg: String,
    /// `in-sync`, `faulted` or `missing`.
    pub state: String,
    /// For how long was counted.
    pub counted_ns: u64,
    /// How long it had anything to do meanwhile.
    pub ticks_ns: u64,
    /// Reads completed.
    pub reads: u64,
    /// Writes completed.
    pub writes: u64,
    /// Flushes completed.
    pub flushes: u64,
    /// Bytes of the reads.
    pub read_bytes: u64,
    /// Bytes of the writes.
    pub write_bytes: u64,
    /// Of reads and writes, those that went to the device as one with another one before them.
    pub merges: u64,
    /// Reads that it was asked for because another leg was late with them.
    #[serde(default)]
    pub hedge_reads: u64,
    /// How often a read could have gone here since one last did.
    #[serde(default)]
    pub age: u64,
    /// How often a read could have gone here and went elsewhere.
    #[serde(default)]
    pub ignored: u64,
    /// What the active policy has of it, where that goes by averages since a checkpoint.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub checkpoint: Option<CheckpointFigures>,
    /// Whether the policy `device` reads it.
    #[serde(default)]
    pub read_preferred: bool,
    /// Reads at the leg now.
    pub reads_in_flight: u32,
    /// Writes, trims, write-zeroes and flushes at the leg now.
    pub writes_in_flight: u32,
    /// How long each read was at the leg, waiting or not, added up.
    pub read_weighted_ns: u64,
    /// How long each write, trim, write-zeroes and flush was.
    pub write_weighted_ns: u64,
    /// Reads that failed.
    pub read_errors: u64,
    /// Writes, trims, write-zeroes and flushes that failed.
    pub write_errors: u64,
    /// From being given to the leg to dispatch, of reads.
    pub read_queue_wait_ns: Distribution,
    /// From being given to the leg to dispatch, of writes.
    pub write_queue_wait_ns: Distribution,
    /// From dispatch to completion, of reads.
    pub read_service_time_ns: Distribution,
    /// From dispatch to completion, of writes.
    pub write_service_time_ns: Distribution,
    /// How the service times of reads fall into the buckets of milliseconds.
    pub read_histogram_ms: [u64; MS_BUCKETS],
    /// The same of writes.
    pub write_histogram_ms: [u64; MS_BUCKETS],
    /// The service times in full, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fine: Option<FineTimes>,
}

/// What a policy knows of a leg since its last checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointFigures {
    /// Reads completed since then.
    pub reads: u64,
    /// Sum of their service times.
    pub wait_ns: u64,
    /// Picks in a row that passed it over; below zero while it is tried whatever its average.
    pub age: i64,
    /// How many checkpoints there were.
    pub count: u64,
}

/// A histogram in a few numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// The mean, rounded down.
    pub mean: u64,
    /// Half are below.
    pub p50: u64,
    /// 90 % are below.
    pub p90: u64,
    /// 99 % are below.
    pub p99: u64,
    /// 99.9 % are below.
    #[serde(rename = "p99.9")]
    pub p99_9: u64,
    /// 99.99 % are below.
    #[serde(rename = "p99.99")]
    pub p99_99: u64,
    /// The largest.
    pub max: u64,
}

impl ArrayStats {
    /// What these counters amount to, with times in full where they are wanted.
    pub(crate) fn of(snapshot: Snapshot, is_fine: bool) -> Self {
        let accounts = &snapshot.accounts;
        let late_in_flight = accounts.flows.iter().map(|flow| flow.late_in_flight);
        let spans = (accounts.now - accounts.since, accounts.ticks);
        let legs = snapshot.legs.into_iter().enumerate();
        Self {
            name: snapshot.name,
            size_bytes: snapshot.size_bytes,
            policy: snapshot.policy,
            scheduler: snapshot.scheduler,
            uptime_ns: snapshot.uptime.as_ns(),
            backend: snapshot.backend,
            memory_bytes: snapshot.memory_bytes,
            memory_used_bytes: snapshot.memory_used_bytes,
            dirty: snapshot.dirty,
            accounting: accounts.is_on,
            client_timeout_ns: accounts.client_timeout.as_ns(),
            hedges: HedgeCounts {
                issued: snapshot.hedges.issued,
                won: snapshot.hedges.won,
                wasted: snapshot.hedges.wasted,
                refused: snapshot.hedges.refused,
            },
            read_ahead: ReadAheadCounts {
                read_bytes: snapshot.read_ahead.read_bytes,
                served_bytes: snapshot.read_ahead.served_bytes,
            },
            requests: request_figures(&accounts.total(), spans, late_in_flight.sum(), is_fine),
            clients: snapshot
                .clients
                .into_iter()
                .map(|client| client_figures(client, is_fine))
                .collect(),
            legs: legs
                .map(|leg| leg_figures(leg, accounts.now, is_fine))
                .collect(),
        }
    }
}

fn client_figures(client: ClientSnapshot, is_fine: bool) -> ClientFigures {
    let (account, until) = (&client.account, client.until);
    let spans = (until - account.since(), account.ticks(until));
    ClientFigures {
        client: client.name,
        connections: client.connections,
        requests: request_figures(account, spans, client.late_in_flight, is_fine),
    }
}

/// `spans` is for how long was counted, and for how much of it anything was in flight.
fn request_figures(
    account: &Account,
    (counted, ticks): (Duration, Duration),
    late_in_flight: u64,
    is_fine: bool,
) -> RequestFigures {
    let count = |kind| account.of(kind).count();
    let (read, write) = (account.of(OpKind::Read), account.of(OpKind::Write));
    RequestFigures {
        counted_ns: counted.as_ns(),
        ticks_ns: ticks.as_ns(),
        reads: read.count(),
        writes: write.count(),
        flushes: count(OpKind::Flush),
        trims: count(OpKind::Trim),
        write_zeroes: count(OpKind::WriteZeroes),
        block_statuses: count(OpKind::BlockStatus),
        read_bytes: read.bytes,
        write_bytes: write.bytes,
        read_errors: read.errors,
        write_errors: changes(account, |traffic| traffic.errors),
        reads_in_flight: read.in_flight(),
        writes_in_flight: changes(account, Traffic::in_flight),
        read_weighted_ns: weighted_ns(read),
        write_weighted_ns: changes(account, weighted_ns),
        late: OpKind::ALL.iter().map(|kind| account.of(*kind).late).sum(),
        late_in_flight,
        read_response_time_ns: Distribution::of(read.times()),
        write_response_time_ns: Distribution::of(write.times()),
        flush_response_time_ns: Distribution::of(account.of(OpKind::Flush).times()),
        read_histogram_ms: buckets(read),
        write_histogram_ms: buckets(write),
        fine: is_fine.then(|| FineTimes::of(account)),
    }
}

fn leg_figures((index, leg): (usize, LegSnapshot), now: Instant, is_fine: bool) -> LegFigures {
    let stats = leg.stats;
    let account = &stats.account;
    let (read, write) = (account.of(OpKind::Read), account.of(OpKind::Write));
    let state = word_of(leg.state);
    LegFigures {
        index,
        leg: leg.name,
        state: state.to_owned(),
        counted_ns: (now - account.since()).as_ns(),
        ticks_ns: account.ticks(now).as_ns(),
        reads: read.count(),
        writes: write.count(),
        flushes: account.of(OpKind::Flush).count(),
        read_bytes: read.bytes,
        write_bytes: write.bytes,
        merges: stats.merges,
        hedge_reads: stats.hedge_reads,
        age: stats.age,
        ignored: stats.ignored,
        checkpoint: stats.checkpoint.map(|known| CheckpointFigures {
            reads: known.reads,
            wait_ns: known.wait.as_ns(),
            age: known.age,
            count: known.count,
        }),
        read_preferred: leg.read_preferred,
        reads_in_flight: leg.reads_in_flight,
        writes_in_flight: leg.writes_in_flight,
        read_weighted_ns: weighted_ns(read),
        write_weighted_ns: changes(account, weighted_ns),
        read_errors: read.errors,
        write_errors: changes(account, |traffic| traffic.errors),
        read_queue_wait_ns: Distribution::of(Some(&stats.read_waits.among(read))),
        write_queue_wait_ns: Distribution::of(Some(&stats.write_waits.among(write))),
        read_service_time_ns: Distribution::of(read.times()),
        write_service_time_ns: Distribution::of(write.times()),
        read_histogram_ms: buckets(read),
        write_histogram_ms: buckets(write),
        fine: is_fine.then(|| FineTimes::of(account)),
    }
}

impl FineTimes {
    fn of(account: &Account) -> Self {
        let buckets = |kind| {
            let times = account.of(kind).times();
            times.map_or_else(Vec::new, |times| times.fine_ns().buckets().collect())
        };
        Self {
            read_ns: buckets(OpKind::Read),
            write_ns: buckets(OpKind::Write),
        }
    }
}

/// Of writes and all else that changes bytes or makes them durable, added up.
fn changes(account: &Account, of: impl Fn(&Traffic) -> u64) -> u64 {
    let kinds = [
        OpKind::Write,
        OpKind::Flush,
        OpKind::Trim,
        OpKind::WriteZeroes,
    ];
    let each = kinds.into_iter().map(|kind| of(account.of(kind)));
    each.fold(0, u64::saturating_add)
}

/// A number that JSON readers take, for centuries of time at depths that there are.
fn weighted_ns(traffic: &Traffic) -> u64 {
    u64::try_from(traffic.weighted_ns()).unwrap_or(u64::MAX)
}

fn buckets(traffic: &Traffic) -> [u64; MS_BUCKETS] {
    let times = traffic.times();
    times.map_or([0; MS_BUCKETS], Times::buckets_ms)
}

impl Distribution {
    /// All zeros where there is nothing.
    fn of(times: Option<&Times>) -> Self {
        times.map_or_else(Self::default, |times| Self::from(times.fine_ns()))
    }
}

impl From<&Histogram> for Distribution {
    fn from(histogram: &Histogram) -> Self {
        Self {
            mean: u64::try_from(histogram.sum() / u128::from(histogram.count().max(1)))
                .expect("a mean is at most the largest value"),
            p50: histogram.quantile(5_000),
            p90: histogram.quantile(9_000),
            p99: histogram.quantile(9_900),
            p99_9: histogram.quantile(9_990),
            p99_99: histogram.quantile(9_999),
            max: histogram.max(),
        }
    }
}
