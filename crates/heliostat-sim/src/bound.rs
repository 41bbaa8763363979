//! What no policy can exceed: an analytic bound on the throughput of a scenario.
//!
//! Some things hold whatever chooses the legs. Every request is present for at least as long as
//! its operation takes a device that has nothing else to do, so the requests outstanding limit how
//! many are done (Little's law). No device does more than it does saturated. Every write is done by
//! every leg. The bound is the most that satisfies all: the fastest leg is filled to its
//! capacity, then the next, and writes take their part of each. Service times and capacities are
//! measured on the models themselves, at the scenario's block size, region and mix; see
//! docs/bounds.md for the formulas and for what makes it true on devices with an arm.

mod measure;

use std::fmt;

use heliostat_model::ModelParams;
use heliostat_types::{Extent, OpKind};
use heliostat_workload::{Arrival, Distribution, Job, Kind, Rw};

use crate::scenario::Scenario;
use measure::{Asked, ServiceTimes, saturated, service_times};

/// What no policy can exceed in a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// All foreground jobs together.
    pub total: JobBound,
    /// One for each job that asks the array, as if it were alone.
    pub jobs: Vec<JobBound>,
    /// What was assumed, a sentence each.
    pub assumptions: Vec<&'static str>,
}

/// The most that a job gets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobBound {
    /// The job's name; empty for all together.
    pub name: String,
    /// Reads per second.
    pub read_iops: f64,
    /// Writes per second.
    pub write_iops: f64,
    /// Bytes read per second.
    pub read_bw_bytes: f64,
    /// Bytes written per second.
    pub write_bw_bytes: f64,
    /// What limits it.
    pub limit: Limit,
}

/// What a bound comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limit {
    /// So few requests are outstanding that each waits for its own service alone.
    #[default]
    Outstanding,
    /// The legs are saturated.
    Capacity,
    /// Writes, which every leg does, saturate the slowest leg.
    Writes,
    /// The host adapter that all reads pass, or writes once for each leg.
    Adapter,
    /// Clients, which ask for no more.
    Sent,
}

impl Limit {
    /// In words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Outstanding => "requests outstanding",
            Self::Capacity => "capacity of the legs",
            Self::Writes => "writes of the slowest leg",
            Self::Adapter => "host adapter",
            Self::Sent => "clients that ask for no more",
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The bound of a scenario.
///
/// # Errors
/// Says why there is none: where something changes the legs on the way, or nothing true can be
/// said in advance.
pub fn bound(scenario: &Scenario) -> Result<Bound, String> {
    check(scenario)?;
    let outstanding: f64 = scenario.jobs.iter().map(|job| Shape::of(job).depth).sum();
    let mut jobs = Vec::new();
    let mut total = JobBound::default();
    // What a leg is loaded with unseen only takes from it.
    for job in scenario.jobs.iter().filter(|job| job.leg.is_none()) {
        let mut alone = of_job(scenario, job, outstanding);
        if !job.background {
            total.read_iops += alone.read_iops;
            total.write_iops += alone.write_iops;
            total.read_bw_bytes += alone.read_bw_bytes;
            total.write_bw_bytes += alone.write_bw_bytes;
            total.limit = alone.limit;
        }
        alone.name.clone_from(&job.name);
        jobs.push(alone);
    }
    let mut assumptions = vec!["flushes and the time that the engine takes cost nothing"];
    if jobs.len() > 1 {
        assumptions.push("each job is alone: nothing is taken off for the others");
    }
    Ok(Bound {
        total,
        jobs,
        assumptions,
    })
}

/// What a job keeps asking for.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Requests outstanding, all clones together.
    depth: f64,
    len_bytes: u64,
    /// Of all requests.
    read_share: f64,
}

impl Shape {
    fn of(job: &Job) -> Self {
        let read_share = match job.rw {
            Rw::Read | Rw::RandRead => 1.0,
            Rw::Write | Rw::RandWrite => 0.0,
            Rw::Rw | Rw::RandRw => f64::from(job.rwmixread) / 100.0,
        };
        let (len_bytes, depth) = if !job.direct && job.rw == Rw::Read {
            // A window of requests of up to 1 MiB, also where a read of the program is longer.
            let window_bytes = job.readahead_bytes.next_multiple_of(PAGE_BYTES);
            let most = window_bytes.min(AHEAD_BYTES);
            let len_bytes = match most / job.bs_bytes {
                0 => most,
                whole => whole * job.bs_bytes,
            };
            (len_bytes, window_bytes.div_ceil(len_bytes))
        } else {
            (job.bs_bytes, u64::from(job.iodepth))
        };
        let depth = match job.arrival {
            Arrival::Closed => depth as f64,
            Arrival::Fixed { .. } | Arrival::Poisson { .. } | Arrival::Burst { .. } => OPEN_DEPTH,
        };
        Self {
            depth: depth * f64::from(job.numjobs),
            len_bytes,
            read_share,
        }
    }
}

const PAGE_BYTES: u64 = 4 << 10;

/// What is read ahead at a time, at most.
const AHEAD_BYTES: u64 = 1 << 20;

/// Requests outstanding of clients that do not wait: more than any closed loop has.
const OPEN_DEPTH: f64 = 1e6;

/// Requests per second that a job sends at most.
fn sent_most(job: &Job, shape: &Shape) -> f64 {
    let arrivals = match job.arrival {
        Arrival::Fixed { per_s } | Arrival::Poisson { per_s } | Arrival::Burst { per_s, .. } => {
            per_s
        }
        Arrival::Closed => f64::INFINITY,
    };
    let shares = [shape.read_share, 1.0 - shape.read_share];
    let limits = job.rate_iops.iter().zip(shares);
    let limits = limits.filter(|(limit, share)| **limit > 0 && *share > 0.0);
    let limited = limits.map(|(limit, share)| *limit as f64 / share);
    limited.fold(arrivals, f64::min) * f64::from(job.numjobs)
}

/// Why nothing can be said of a job; `None` where it can.
fn unknown(job: &Job) -> Option<&'static str> {
    let sizes_differ = job
        .bs_write_bytes
        .is_some_and(|bytes| bytes != job.bs_bytes);
    let rules = [
        (
            job.trace.is_some(),
            "what a trace asks for is not known in advance",
        ),
        (job.kind != Kind::Fio, "it is no loop over its region"),
        (
            sizes_differ || job.bssplit.iter().any(|sizes| !sizes.is_empty()),
            "its requests are of several sizes",
        ),
        (
            job.shared_cache || (!job.direct && job.rw != Rw::Read),
            "a page cache of the client's stands between",
        ),
        (
            job.rw.is_random() && job.random_distribution != Distribution::Random,
            "some blocks are wanted more often than others, and may be cached",
        ),
    ];
    let mut rules = rules.into_iter();
    rules.find(|(applies, _)| *applies).map(|(_, why)| why)
}

/// Whether anything can be said.
fn check(scenario: &Scenario) -> Result<(), String> {
    /// Regions below this may be in a drive's cache for the most part.
    const CACHED_BYTES: u64 = 8 << 30;
    let array = &scenario.array;
    if !scenario.faults.is_empty() {
        return Err("faults change the legs on the way".to_owned());
    }
    if array.layout != heliostat_engine::Layout::Mirror || array.copies > 0 {
        return Err("not every leg holds everything".to_owned());
    }
    if array.legs.iter().any(|leg| leg.cache.hit_permille > 0) {
        return Err("what a cache below a leg hits is not known in advance".to_owned());
    }
    for job in scenario.jobs.iter().filter(|job| job.leg.is_none()) {
        if let Some(why) = unknown(job) {
            return Err(format!("job '{}': {why}", job.name));
        }
    }
    let mut params = array.legs.iter().map(|leg| &leg.params);
    if params.any(|params| matches!(params, ModelParams::Hdd(_))) {
        for job in &scenario.jobs {
            let small = job.region_bytes(array.size_bytes) < CACHED_BYTES;
            let shared = !job.rw.is_random() && job.numjobs > 1 && job.offset_increment_bytes == 0;
            if small || shared {
                let name = &job.name;
                return Err(format!(
                    "job '{name}' may read what a disk's own cache holds"
                ));
            }
        }
    }
    Ok(())
}

/// A leg at its best.
#[derive(Clone, Debug)]
struct LegAtBest {
    /// Whether one operation after the other has the arm: the time that each takes is taken from
    /// the others.
    rotational_random: bool,
    read_times: Option<ServiceTimes>,
    write_times: Option<ServiceTimes>,
    /// How many shortest draws there are to choose from.
    choices: f64,
    /// Operations per second, saturated: reads alone, writes alone, any mix.
    reads_max: f64,
    writes_max: f64,
    all_max: f64,
}

impl LegAtBest {
    fn measure(params: &ModelParams, shape: &Shape, asked: Asked, pieces: u64, secs: f64) -> Self {
        let rotational = matches!(params, ModelParams::Hdd(_));
        let has_reads = shape.read_share > 0.0;
        let has_writes = shape.read_share < 1.0;
        let piece = Asked {
            len_bytes: asked.len_bytes / pieces,
            ..asked
        };
        // What is read in sequence may have been read ahead, and is there when it is asked for.
        let read_times =
            (has_reads && asked.is_random).then(|| service_times(params, OpKind::Read, piece));
        let write_times = has_writes.then(|| service_times(params, OpKind::Write, asked));
        let rotational_random = rotational && asked.is_random;
        let rate = |percent| {
            let mut whole = saturated(params, percent, asked);
            if percent == 100 && !asked.is_random && asked.len_bytes < AHEAD_BYTES {
                // Who reads ahead may ask for more at a time.
                let ahead = Asked {
                    len_bytes: AHEAD_BYTES,
                    ..asked
                };
                let times = AHEAD_BYTES as f64 / asked.len_bytes as f64;
                whole = whole.max(saturated(params, percent, ahead) * times);
            }
            if pieces == 1 || percent < 100 {
                return whole;
            }
            // In requests: a piece is a part of one.
            whole.max(saturated(params, percent, piece) / pieces as f64)
        };
        let mut leg = Self {
            rotational_random,
            read_times,
            write_times,
            choices: 1.0,
            reads_max: f64::INFINITY,
            writes_max: f64::INFINITY,
            all_max: f64::INFINITY,
        };
        if !rotational_random {
            if has_reads {
                leg.reads_max = rate(100);
            }
            if has_writes {
                // What the buffer takes in the time of the run comes on top.
                let buffered = match params {
                    ModelParams::Flash(flash) => flash.write_buffer_bytes,
                    ModelParams::Hdd(_) | ModelParams::Network(_) | ModelParams::Ram(_) => 0,
                };
                leg.writes_max = rate(0) + buffered as f64 / asked.len_bytes as f64 / secs;
                let mixes = [25, 50, 75].map(rate).into_iter();
                let reads = leg.reads_max.min(f64::MAX);
                let alone = if has_reads { reads } else { 0.0 };
                leg.all_max = mixes.fold(alone.max(leg.writes_max), f64::max);
            }
        }
        leg
    }

    /// Seconds that a read is present at least.
    fn read_s(&self) -> f64 {
        let times = self.read_times.as_ref();
        times.map_or(0.0, |times| times.best_of(self.choices))
    }

    /// Seconds that a write is present at least.
    fn write_s(&self) -> f64 {
        let times = self.write_times.as_ref();
        times.map_or(0.0, |times| times.best_of(self.choices))
    }

    /// Reads per second beside `writes` per second; negative where those alone are too many.
    fn reads_beside(&self, writes: f64) -> f64 {
        if self.rotational_random {
            let left = 1.0 - writes * self.write_s();
            return if left < 0.0 {
                -1.0
            } else {
                left / self.read_s()
            };
        }
        if writes > self.writes_max {
            return -1.0;
        }
        self.reads_max.min(self.all_max - writes)
    }
}

/// The bound of one job; `outstanding` requests of all jobs may be there to choose from.
fn of_job(scenario: &Scenario, job: &Job, outstanding: f64) -> JobBound {
    let array = &scenario.array;
    let shape = Shape::of(job);
    let asked = Asked {
        region: Extent::new(job.offset_bytes, job.region_bytes(array.size_bytes)),
        len_bytes: shape.len_bytes,
        is_random: job.rw.is_random(),
    };
    let leg_count = array.legs.len();
    // A policy may cut what is larger than a page.
    let pieces = (1..=leg_count as u64)
        .rev()
        .find(|&pieces| {
            let piece_bytes = shape.len_bytes / pieces;
            shape.len_bytes > PAGE_BYTES && piece_bytes.is_multiple_of(PAGE_BYTES)
        })
        .unwrap_or(1);
    let secs = scenario.seconds.as_secs_f64().max(0.001);
    let mut legs: Vec<LegAtBest> = Vec::new();
    for (index, leg) in array.legs.iter().enumerate() {
        let before = array.legs[..index].iter();
        let same = before
            .zip(&legs)
            .find(|(other, _)| other.params == leg.params);
        let measured = match same {
            Some((_, measured)) => measured.clone(),
            None => LegAtBest::measure(&leg.params, &shape, asked, pieces, secs),
        };
        legs.push(measured);
    }
    // Whoever has `choices` pairs of request and leg takes the best of them.
    let choices = outstanding * leg_count as f64;
    for leg in &mut legs {
        leg.choices = choices;
    }
    let (mut rate, mut limit) = most(&shape, &legs);
    // An arm beside a faster leg can wait for what comes by: it has as many more to choose from as
    // the others are faster, and more the faster it gets by that. Twice is enough for any drive.
    if leg_count > 1 {
        for _ in 0..2 {
            for leg in legs.iter_mut().filter(|leg| leg.rotational_random) {
                let own = 1.0 / leg.read_s().max(leg.write_s());
                leg.choices = choices.max(outstanding * rate / own * leg_count as f64);
            }
            (rate, limit) = most(&shape, &legs);
        }
    }
    if legs.iter().all(|leg| leg.rotational_random) {
        let arms = arms_most(&shape, &mut legs, outstanding);
        if arms < rate {
            (rate, limit) = (arms, Limit::Capacity);
        }
    }
    let adapter = adapter_most(scenario, &shape);
    if adapter < rate {
        (rate, limit) = (adapter, Limit::Adapter);
    }
    let sent = sent_most(job, &shape);
    if sent < rate {
        (rate, limit) = (sent, Limit::Sent);
    }
    let (read_iops, write_iops) = (rate * shape.read_share, rate * (1.0 - shape.read_share));
    JobBound {
        name: String::new(),
        read_iops,
        write_iops,
        read_bw_bytes: read_iops * shape.len_bytes as f64,
        write_bw_bytes: write_iops * shape.len_bytes as f64,
        limit,
    }
}

/// Requests per second where every leg has an arm. A service that begins while `busy - 1` arms are
/// busy was chosen among the pairs of an idle arm and a request that none of those serves: fewer
/// busy arms, more to choose from. The most over all numbers of busy arms.
fn arms_most(shape: &Shape, legs: &mut [LegAtBest], outstanding: f64) -> f64 {
    let count = legs.len() as f64;
    let writes = 1.0 - shape.read_share;
    let mut most = 0.0f64;
    let mut busy = 1.0;
    while busy <= count {
        // Each leg may be behind with other writes than the next.
        let taken = if writes > 0.0 { 0.0 } else { busy - 1.0 };
        let free = (outstanding - taken).max(1.0);
        for leg in legs.iter_mut() {
            leg.choices = (count - busy + 1.0) * free;
        }
        let shortest =
            |seconds: fn(&LegAtBest) -> f64| legs.iter().map(seconds).fold(f64::INFINITY, f64::min);
        let work_s = shape.read_share * shortest(LegAtBest::read_s)
            + writes * count * shortest(LegAtBest::write_s);
        let at_once = if writes > 0.0 {
            busy
        } else {
            busy.min(outstanding)
        };
        most = most.max(at_once / work_s);
        busy += 1.0;
    }
    most
}

/// Requests per second that the host adapters let through.
fn adapter_most(scenario: &Scenario, shape: &Shape) -> f64 {
    let legs = &scenario.array.legs;
    let rates = scenario.array.hbas.iter().map(|hba| {
        let behind = legs.iter().filter(|leg| leg.hba == hba.name).count();
        // Reads may go round it where a leg is not behind it.
        let reads = if behind == legs.len() {
            shape.read_share
        } else {
            0.0
        };
        let crossings = reads + (1.0 - shape.read_share) * behind as f64;
        hba.bw_bytes_per_s as f64 / (crossings * shape.len_bytes as f64)
    });
    rates.fold(f64::INFINITY, f64::min)
}

/// The most requests per second that all legs together can do, by halving.
fn most(shape: &Shape, legs: &[LegAtBest]) -> (f64, Limit) {
    let (mut low, mut high) = (0.0, 1e10);
    let mut limit = Limit::default();
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        match too_many(middle, shape, legs) {
            None => low = middle,
            Some(why) => {
                high = middle;
                limit = why;
            }
        }
    }
    (high, limit)
}

/// Why `rate` requests per second are too many; `None` where they are not.
fn too_many(rate: f64, shape: &Shape, legs: &[LegAtBest]) -> Option<Limit> {
    let writes = rate * (1.0 - shape.read_share);
    let mut reads_left = rate * shape.read_share;
    // A write is present until the slowest leg has done it.
    let write_s = legs.iter().map(LegAtBest::write_s).fold(0.0, f64::max);
    let mut present = writes * write_s;
    let mut order: Vec<(f64, f64)> = Vec::new();
    for leg in legs {
        let reads = leg.reads_beside(writes);
        if reads < 0.0 {
            return Some(Limit::Writes);
        }
        order.push((leg.read_s(), reads));
    }
    order.sort_by(|one, other| one.0.total_cmp(&other.0));
    for (read_s, reads_max) in order {
        let reads = reads_left.min(reads_max);
        present += reads * read_s;
        reads_left -= reads;
    }
    if present > shape.depth {
        return Some(Limit::Outstanding);
    }
    (reads_left > 1e-9).then_some(if writes > 0.0 {
        Limit::Writes
    } else {
        Limit::Capacity
    })
}

#[cfg(test)]
mod tests {
    use heliostat_workload::{Arrival, Job, Rw};

    use super::{Bound, Limit, bound};
    use crate::{Effect, Fault, Scenario};

    fn told(legs: &[&str], job: Job, change: fn(&mut Scenario)) -> Result<Bound, String> {
        let mut scenario = Scenario::new("test", legs, 200 << 30).unwrap();
        scenario.jobs.push(job);
        change(&mut scenario);
        bound(&scenario)
    }

    #[test]
    fn each_limit_is_named() {
        let deep = |job: Job| Job { iodepth: 64, ..job };
        let ssds = ["ssd-sata-256gb"; 2];
        let limit = |job| told(&ssds, job, |_| ()).unwrap().total.limit;
        assert_eq!(limit(Job::default()), Limit::Outstanding);
        let far_deeper = Job {
            iodepth: 4096,
            ..Job::default()
        };
        assert_eq!(limit(far_deeper), Limit::Capacity);
        let stream = Job {
            rw: Rw::Read,
            ..Job::default()
        };
        assert_eq!(limit(stream), Limit::Capacity, "it may be read ahead");
        let writes = Job {
            rw: Rw::RandWrite,
            ..Job::default()
        };
        assert_eq!(
            limit(Job {
                iodepth: 4096,
                ..writes
            }),
            Limit::Writes
        );
        let few = Job {
            arrival: Arrival::Fixed { per_s: 100.0 },
            ..Job::default()
        };
        assert_eq!(limit(few.clone()), Limit::Sent);
        let iops = told(&ssds, few, |_| ()).unwrap().total.read_iops;
        assert!((iops - 100.0).abs() < 1e-6, "{iops}");
        let behind = told(&ssds, deep(Job::default()), |scenario| {
            let mut hba = crate::HbaSpec::default();
            hba.set("name", "slow").unwrap();
            hba.set("bw", "4096kB/s").unwrap();
            scenario.array.hbas.push(hba);
            for leg in &mut scenario.array.legs {
                leg.hba = "slow".to_owned();
            }
        });
        let behind = behind.unwrap().total;
        assert_eq!(behind.limit, Limit::Adapter);
        assert!((behind.read_iops - 1000.0).abs() < 1e-6, "{behind:?}");
    }

    #[test]
    fn a_read_that_is_longer_than_what_is_read_ahead_goes_in_windows() {
        for (bs, window, request) in [
            (1 << 20, 128 << 10, 128 << 10),
            (3 << 20, 4 << 20, 1 << 20),
            (64 << 10, 4097, 8 << 10),
            (48 << 10, 128 << 10, 96 << 10),
        ] {
            let job = Job {
                rw: Rw::Read,
                direct: false,
                bs_bytes: bs,
                readahead_bytes: window,
                ..Job::default()
            };
            assert_eq!(super::Shape::of(&job).len_bytes, request, "{bs} {window}");
            let told = told(&["ssd-sata-256gb"; 2], job, |_| ()).unwrap().total;
            assert!(told.read_bw_bytes > 400e6, "{told:?}");
        }
    }

    #[test]
    fn why_there_is_none_is_said() {
        let ssds = ["ssd-sata-256gb"; 2];
        let fault = told(&ssds, Job::default(), |scenario| {
            scenario.faults.push(Fault {
                effect: Some(Effect::Dead),
                ..Fault::default()
            });
        });
        assert_eq!(fault.unwrap_err(), "faults change the legs on the way");
        let small = Job {
            size_bytes: 1 << 30,
            ..Job::default()
        };
        let cached = told(&["hdd-7200-2tb"], small, |_| ());
        let wanted = "job 'job' may read what a disk's own cache holds";
        assert_eq!(cached.unwrap_err(), wanted);
        let buffered = Job {
            rw: Rw::Write,
            direct: false,
            ..Job::default()
        };
        let why_not = told(&ssds, buffered, |_| ()).unwrap_err();
        assert!(why_not.contains("page cache"), "{why_not}");
    }
}
