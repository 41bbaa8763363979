//! The virtual part: runs of the simulator, shared out over all processors.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context as _, bail};
use heliostat_policy::PolicySpec;
use heliostat_sim::{Fidelity, Job, RunResult, Rw, Scenario, run};
use heliostat_types::Duration;
use stdx::histogram::Histogram;

use super::plan::{self, LEGS, Pattern, RealTimes, WORKLOADS, WorkloadPlan};
use super::progress::Progress;
use super::report::{LegShare, Outcome, Workload};

/// All workloads under all policies.
///
/// # Errors
/// Where the simulator refuses a scenario, which is a mistake of this program.
pub(super) fn virtual_part(quick: bool, seed: u64) -> anyhow::Result<Vec<Workload>> {
    let size_bytes = array_size_bytes();
    WORKLOADS
        .iter()
        .map(|workload| {
            let seconds = if quick {
                workload.seconds_quick
            } else {
                workload.seconds
            };
            let job = job_of(workload);
            let mut scenario = scenario(workload.name, size_bytes, job, seed)?;
            scenario.seconds = Duration::from_secs(seconds);
            run_workload(workload, &scenario)
        })
        .collect()
}

/// What the simulator says of one row of the real part: the same legs, size, region, depth and
/// client, for as long. The row itself has one roll of the dice; the prediction is the mean of
/// several, so that only one of the two is uncertain.
///
/// # Errors
/// As [`virtual_part`].
pub(super) fn real_part(
    policy: &PolicySpec,
    iodepth: u32,
    times: RealTimes,
    seed: u64,
) -> anyhow::Result<Outcome> {
    /// Halves the error of the mean against one run.
    const SEEDS: u64 = 4;
    let job = Job {
        iodepth,
        ..Job::default()
    };
    let mut scenario = scenario("real", plan::REAL_SIZE_BYTES, job, seed)?;
    for leg in &mut scenario.array.legs {
        leg.params = leg.params.with_size(plan::REAL_SIZE_BYTES);
    }
    scenario.warmup_seconds = virtual_duration(times.warmup);
    scenario.seconds = virtual_duration(times.measured);
    let runs: Vec<(Scenario, PolicySpec)> = (0..SEEDS)
        .map(|index| {
            let seed = seed.wrapping_add(index);
            let scenario = scenario.clone();
            (Scenario { seed, ..scenario }, *policy)
        })
        .collect();
    Ok(mean_of(&simulate_all(&runs, &Progress::silent())?))
}

fn virtual_duration(real: std::time::Duration) -> Duration {
    Duration::from_ns(u64::try_from(real.as_nanos()).expect("rows take seconds"))
}

/// The usable size of the simulated mirror: that of its smallest leg, in whole MiB.
pub(super) fn array_size_bytes() -> u64 {
    let sizes = LEGS.iter().map(|name| {
        let drive = heliostat_model::drive(name).expect("the demo names drives that exist");
        drive.params.size_bytes()
    });
    let smallest = sizes.min().expect("the demo has legs");
    smallest & !((1 << 20) - 1)
}

/// A mirror over the demo's legs with one job.
fn scenario(name: &str, size_bytes: u64, job: Job, seed: u64) -> anyhow::Result<Scenario> {
    let mut scenario = Scenario::new(name, &LEGS, size_bytes).context("the demo's mirror")?;
    scenario.seed = seed;
    // Nothing is written, so there is little in the bytes to check.
    scenario.fidelity = Fidelity::Stamps;
    scenario.jobs.push(job);
    Ok(scenario)
}

fn job_of(workload: &WorkloadPlan) -> Job {
    Job {
        name: "reader".to_owned(),
        rw: match workload.pattern {
            Pattern::Random => Rw::RandRead,
            Pattern::Sequential | Pattern::Buffered => Rw::Read,
        },
        direct: workload.pattern != Pattern::Buffered,
        bs_bytes: workload.block_bytes,
        iodepth: workload.iodepth,
        ..Job::default()
    }
}

/// Runs `scenario` under every policy, and under `pid` for every number a client can have.
fn run_workload(workload: &WorkloadPlan, scenario: &Scenario) -> anyhow::Result<Workload> {
    let policies = plan::virtual_policies();
    let mut runs = Vec::new();
    for policy in &policies {
        for first_client in client_numbers(policy) {
            let scenario = Scenario {
                first_client,
                ..scenario.clone()
            };
            runs.push((scenario, *policy));
        }
    }
    let progress = Progress::begin(workload.title, runs.len());
    let mut results = simulate_all(&runs, &progress)?.into_iter();
    progress.finish();
    let mut rows = Vec::new();
    for policy in &policies {
        let count = client_numbers(policy).count();
        rows.extend(rows_of(results.by_ref().take(count).collect()));
    }
    Ok(Workload {
        name: workload.name,
        title: workload.title,
        heading: workload.heading,
        unit: workload.unit,
        shows_tail: workload.shows_tail,
        rows,
    })
}

/// The client numbers under which a policy may do differently: `pid` takes the number modulo the
/// legs, and no other policy looks at it.
fn client_numbers(policy: &PolicySpec) -> Range<u64> {
    if policy.policy().name == "pid" {
        0..LEGS.len().try_into().expect("the demo has few legs")
    } else {
        0..1
    }
}

/// The rows of one policy: one, or where it was run for several clients the worst of them, the mean
/// and the best.
fn rows_of(mut outcomes: Vec<Outcome>) -> Vec<Outcome> {
    if outcomes.len() <= 1 {
        return outcomes;
    }
    outcomes.sort_by(|a, b| a.iops.total_cmp(&b.iops));
    let named = |outcome: &Outcome, which: &str| Outcome {
        label: format!("{} ({which} client)", outcome.label),
        ..outcome.clone()
    };
    let (worst, best) = (&outcomes[0], &outcomes[outcomes.len() - 1]);
    vec![
        named(worst, "worst"),
        named(&mean_of(&outcomes), "mean"),
        named(best, "best"),
    ]
}

/// The mean of several outcomes of one policy, of which there is at least one; all their response
/// times together.
fn mean_of(outcomes: &[Outcome]) -> Outcome {
    let count = outcomes.len() as f64;
    let mut response = Histogram::new();
    let mut legs = vec![LegShare::default(); LEGS.len()];
    for outcome in outcomes {
        response.merge(&outcome.response);
        for (sum, leg) in legs.iter_mut().zip(&outcome.legs) {
            sum.reads += leg.reads;
            sum.read_bytes += leg.read_bytes;
            let busy = leg.busy_fraction.unwrap_or_default() / count;
            sum.busy_fraction = Some(sum.busy_fraction.unwrap_or_default() + busy);
        }
    }
    Outcome {
        label: outcomes[0].label.clone(),
        policy: outcomes[0].policy.clone(),
        iops: outcomes.iter().map(|outcome| outcome.iops).sum::<f64>() / count,
        bytes_per_second: outcomes
            .iter()
            .map(|outcome| outcome.bytes_per_second)
            .sum::<f64>()
            / count,
        response,
        legs,
        trace_hash: None,
    }
}

/// The outcomes of `runs`, in their order. Runs know nothing of each other, so the order in which
/// they are done changes no figure.
fn simulate_all(
    runs: &[(Scenario, PolicySpec)],
    progress: &Progress,
) -> anyhow::Result<Vec<Outcome>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some((scenario, policy)) = runs.get(index) else {
                return done;
            };
            progress.working_on(policy.policy().name);
            done.push((index, simulate(scenario, policy)));
            progress.step();
        }
    };
    let mut done = thread::scope(|scope| {
        let workers: Vec<_> = (0..thread::available_parallelism().map_or(1, usize::from))
            .map(|_| scope.spawn(work))
            .collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined
            .flat_map(|done| done.expect("a panic of the simulator ends the demo"))
            .collect::<Vec<_>>()
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

fn simulate(scenario: &Scenario, policy: &PolicySpec) -> anyhow::Result<Outcome> {
    let result = run(scenario, policy, &mut |_| ())
        .with_context(|| format!("cannot simulate {} under {policy}", scenario.name))?;
    if result.errors > 0 {
        bail!(
            "{} under {policy}: the simulated mirror failed reads",
            scenario.name
        );
    }
    Ok(outcome_of(policy, &result))
}

/// A result of the simulator as a row.
fn outcome_of(policy: &PolicySpec, result: &RunResult) -> Outcome {
    let is_default = *policy == PolicySpec::new(policy.policy());
    Outcome {
        label: if is_default {
            policy.policy().name.to_owned()
        } else {
            policy.to_string()
        },
        policy: policy.to_string(),
        iops: result.read.iops(result.seconds),
        bytes_per_second: result.read.bw_bytes(result.seconds),
        response: result.read.response_time_ns().clone(),
        legs: result
            .legs
            .iter()
            .map(|leg| LegShare {
                reads: leg.reads,
                read_bytes: leg.read_bytes,
                busy_fraction: Some(leg.busy_fraction),
            })
            .collect(),
        trace_hash: Some(result.trace_hash),
    }
}

#[cfg(test)]
mod tests;
