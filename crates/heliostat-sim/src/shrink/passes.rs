//! The ways in which a trial can be made simpler. Not all that is proposed makes sense: what does
//! not is refused before it is played.

use heliostat_engine::{Config, Layout};
use heliostat_model::{CacheParams, ModelParams, drive};
use heliostat_policy::PolicySpec;
use heliostat_types::{Duration, Instant};
use heliostat_workload::{Distribution, Job};

use crate::contents::Fidelity;
use crate::faults::{Effect, Fault};
use crate::leg_spec::LegSpec;
use crate::scenario::{ArraySpec, Scenario};
use crate::sim_policy::SimPolicy;
use crate::simulation::CheckFailure;
use crate::trial::Trial;

/// Proposes simpler trials for one that fails so, the boldest first.
type Pass = fn(&Trial, &CheckFailure) -> Vec<Trial>;

/// All of them; those that save most time come first.
pub(super) const PASSES: [Pass; 9] = [
    shorter,
    without_faults,
    without_jobs,
    plainer_array,
    without_legs,
    plainer_legs,
    plainer_policy,
    plainer_jobs,
    plainer_faults,
];

/// A copy that was changed.
fn changed(trial: &Trial, change: impl FnOnce(&mut Scenario)) -> Trial {
    let mut trial = trial.clone();
    change(&mut trial.scenario);
    trial
}

fn shorter(trial: &Trial, failure: &CheckFailure) -> Vec<Trial> {
    let scenario = &trial.scenario;
    let mut trials = Vec::new();
    let length = scenario.seconds;
    if length > Duration::ZERO {
        let begins_at = Instant::ZERO + scenario.warmup_seconds;
        let until_failure = failure.at.saturating_since(begins_at);
        let parts = [length / 4, length / 2, length / 4 * 3, until_failure];
        for part in parts {
            if part > Duration::ZERO && part < length {
                trials.push(changed(trial, |scenario| scenario.seconds = part));
            }
        }
    }
    if scenario.warmup_seconds > Duration::ZERO {
        let no_warmup = |scenario: &mut Scenario| scenario.warmup_seconds = Duration::ZERO;
        trials.push(changed(trial, no_warmup));
    }
    trials
}

/// Without all of so many things, then without each half, then without each.
fn without_some(
    count: usize,
    least: usize,
    remove: impl Fn(std::ops::Range<usize>) -> Trial,
) -> Vec<Trial> {
    let mut trials = Vec::new();
    let mut size = count.saturating_sub(least);
    while size > 0 {
        let starts = (0..=count - size).step_by(size);
        trials.extend(starts.map(|start| remove(start..start + size)));
        // Where the last ones do not fill a step.
        trials.push(remove(count - size..count));
        size /= 2;
    }
    trials
}

fn without_faults(trial: &Trial, _failure: &CheckFailure) -> Vec<Trial> {
    without_some(trial.scenario.faults.len(), 0, |range| {
        changed(trial, |scenario| drop(scenario.faults.drain(range)))
    })
}

fn without_jobs(trial: &Trial, _failure: &CheckFailure) -> Vec<Trial> {
    without_some(trial.scenario.jobs.len(), 1, |range| {
        changed(trial, |scenario| drop(scenario.jobs.drain(range)))
    })
}

fn without_legs(trial: &Trial, _failure: &CheckFailure) -> Vec<Trial> {
    without_some(trial.scenario.array.legs.len(), 1, |range| {
        changed(trial, |scenario| {
            for leg in range.rev() {
                remove_leg(scenario, leg);
            }
        })
    })
}

/// Takes a leg away with what is said of it; the legs behind it move up.
fn remove_leg(scenario: &mut Scenario, gone: usize) {
    let moved = |leg: usize| leg - usize::from(leg > gone);
    scenario.array.legs.remove(gone);
    scenario.jobs.retain(|job| job.leg != Some(gone));
    scenario.faults.retain(|fault| fault.leg != Some(gone));
    for job in &mut scenario.jobs {
        job.leg = job.leg.map(moved);
    }
    for fault in &mut scenario.faults {
        fault.leg = fault.leg.map(moved);
    }
    let count = u32::try_from(scenario.array.legs.len()).expect("at most 16");
    if scenario.array.copies >= count {
        scenario.array.copies = 0;
    }
}

fn plainer_array(trial: &Trial, _failure: &CheckFailure) -> Vec<Trial> {
    let changes: [fn(&mut Scenario); 13] = [
        |scenario| {
            scenario.array.layout = Layout::Mirror;
            scenario.array.copies = 0;
        },
        |scenario| scenario.array.write_behind = 0,
        |scenario| scenario.array.trims = false,
        |scenario| {
            scenario.array.metadata = None;
            scenario.array.trims = false;
        },
        |scenario| {
            if let Some(metadata) = &mut scenario.array.metadata {
                metadata.data_offset_bytes = 64 << 10;
            }
        },
        |scenario| scenario.fidelity = Fidelity::Stamps,
        |scenario| scenario.first_client = 0,
        |scenario| {
            scenario.array.hbas.clear();
            for leg in &mut scenario.array.legs {
                leg.hba.clear();
            }
        },
        |scenario| {
            for leg in &mut scenario.array.legs {
                leg.device.clear();
            }
        },
        |scenario| resize(scenario, 8),
        |scenario| resize(scenario, 2),
        |scenario| {
            let chunk_bytes = ArraySpec::COPIES_CHUNK_DEFAULT_BYTES;
            scenario.array.copies_chunk_bytes = chunk_bytes;
        },
        |scenario| scenario.array.leg_timeout = Config::LEG_TIMEOUT_DEFAULT,
    ];
    changes.map(|change| changed(trial, change)).into()
}

/// Makes the array smaller, and what lies on it.
fn resize(scenario: &mut Scenario, divisor: u64) {
    let size_bytes = (scenario.array.size_bytes / divisor / 4096 * 4096).max(4096);
    scenario.array.size_bytes = size_bytes;
    for job in scenario.jobs.iter_mut().filter(|job| job.leg.is_none()) {
        job.size_bytes = job.size_bytes.min(size_bytes);
        if job.offset_bytes + job.size_bytes > size_bytes {
            job.offset_bytes = 0;
        }
    }
    for fault in &mut scenario.faults {
        (fault.offset_bytes, fault.size_bytes) = (None, None);
    }
}

fn plainer_legs(trial: &Trial, _failure: &CheckFailure) -> Vec<Trial> {
    let all = 0..trial.scenario.array.legs.len();
    let mut trials = Vec::new();
    for change in LEG_CHANGES {
        trials.push(changed(trial, |scenario| {
            scenario.array.legs.iter_mut().for_each(change);
        }));
        for leg in all.clone() {
            trials.push(changed(trial, |scenario| {
                change(&mut scenario.array.legs[leg]);
            }));
        }
    }
    trials
}

/// What makes a leg plainer.
const LEG_CHANGES: [fn(&mut LegSpec); 6] = [
    |leg| on_memory(leg, None),
    |leg| {
        if !matches!(leg.params, ModelParams::Ram(_)) {
            on_memory(leg, Some(Duration::from_ms(1)));
        }
    },
    |leg| leg.cache = CacheParams::default(),
    |leg| leg.write_mostly = false,
    |leg| leg.read_preferred = false,
    |leg| leg.rotational = None,
];

/// Puts a leg on memory as large as its drive, or as large as memory is; where there is a time,
/// each operation takes it.
fn on_memory(leg: &mut LegSpec, operation_time: Option<Duration>) {
    let size_bytes = leg.params.size_bytes();
    let mut ram = LegSpec::on(drive("ram").expect("there is memory"));
    ram.params = ram.params.with_size(size_bytes);
    if let (ModelParams::Ram(params), Some(time)) = (&mut ram.params, operation_time) {
        params.operation_time = time;
    }
    leg.model = ram.model;
    leg.params = ram.params;
}

fn plainer_policy(trial: &Trial, _failure: &CheckFailure) -> Vec<Trial> {
    ["pid", "queue"]
        .map(|name| Trial {
            policy: SimPolicy::Registered(PolicySpec::parse(name).expect("it is registered")),
            ..trial.clone()
        })
        .into_iter()
        // What may stay does not change from one of them to the other.
        .filter(|simpler| {
            !["pid", &simpler.policy.to_string()].contains(&trial.policy.to_string().as_str())
        })
        .collect()
}

fn plainer_jobs(trial: &Trial, _failure: &CheckFailure) -> Vec<Trial> {
    let jobs = 0..trial.scenario.jobs.len();
    let one = |job: usize| {
        JOB_CHANGES
            .iter()
            .map(move |change| changed(trial, |scenario| change(&mut scenario.jobs[job])))
    };
    jobs.flat_map(one).collect()
}

/// What makes a job plainer or smaller.
const JOB_CHANGES: [fn(&mut Job); 21] = [
    |job| job.iodepth = 1,
    |job| job.iodepth = (job.iodepth / 2).max(1),
    |job| job.numjobs = 1,
    |job| {
        job.direct = true;
        job.readahead_bytes = Job::default().readahead_bytes;
        job.dirty_limit_bytes = Job::default().dirty_limit_bytes;
        job.shared_cache = false;
    },
    |job| job.bssplit = Job::default().bssplit,
    |job| job.bs_write_bytes = None,
    |job| job.bs_bytes = job.bs_bytes.min(4096),
    |job| job.bs_bytes = halved(job.bs_bytes, 512),
    |job| job.offset_bytes = 0,
    |job| job.size_bytes = job.bs_bytes.max(4096),
    |job| job.size_bytes = halved(job.size_bytes, 4096),
    |job| job.offset_increment_bytes = 0,
    |job| job.random_distribution = Distribution::Random,
    |job| job.fsync = 0,
    |job| job.fsync = job.fsync.min(1),
    |job| job.arrival = Job::default().arrival,
    |job| (job.rate_iops, job.rate_bytes) = ([0; 2], [0; 2]),
    |job| {
        job.thinktime = Duration::ZERO;
        job.thinktime_blocks = 1;
    },
    |job| (job.start, job.stop) = (None, None),
    |job| job.rwmixread = 50,
    |job| job.readahead_bytes = halved(job.readahead_bytes, 4096),
];

/// Half of it in whole units, at least one; what is nothing stays so.
fn halved(bytes: u64, unit: u64) -> u64 {
    if bytes <= unit {
        return bytes;
    }
    (bytes / 2).next_multiple_of(unit).min(bytes)
}

fn plainer_faults(trial: &Trial, _failure: &CheckFailure) -> Vec<Trial> {
    let faults = 0..trial.scenario.faults.len();
    let one = |fault: usize| {
        FAULT_CHANGES
            .iter()
            .map(move |change| changed(trial, |scenario| change(&mut scenario.faults[fault])))
    };
    faults.flat_map(one).collect()
}

/// What makes a fault plainer.
const FAULT_CHANGES: [fn(&mut Fault); 7] = [
    |fault| (fault.offset_bytes, fault.size_bytes) = (None, None),
    |fault| (fault.count, fault.rate_per_billion) = (None, None),
    |fault| fault.jitter = None,
    |fault| (fault.sticky, fault.burst) = (false, false),
    |fault| fault.at_ns = fault.at_ns.min(0),
    |fault| {
        if fault.effect != Some(Effect::PowerCut) {
            fault.until_ns = Fault::NEVER_NS;
        }
    },
    |fault| fault.count = fault.count.map(|_| 1),
];
