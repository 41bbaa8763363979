//! Random scenarios for long runs: those of [`Trial::random`] made larger in every way, with what
//! they leave out: the oracle, drives and links that legs share, loads that the engine does not
//! see, page caches, open arrivals, rates, defragmentation.

use heliostat_model::{DRIVES, ModelParams};
use heliostat_types::{Duration, LegId, Prng, RandomStream};
use heliostat_workload::{Arrival, Distribution, FromMeasuring, Job, Kind, Rw, SizeShare};

use crate::contents::Fidelity;
use crate::leg_spec::{HbaSpec, LegSpec};
use crate::scenario::Scenario;
use crate::sim_policy::SimPolicy;
use crate::smoke::{LENGTH, pick, random_leg, small};
use crate::trial::Trial;

/// Legs of a large scenario, at most: enough for every layout, few enough for speed.
const LEGS_MAX: u64 = 8;

/// The smallest region that a defragmentation takes.
const DEFRAG_BYTES: u64 = 64 << 20;

/// Where no leg is slower than this, none is taken for dead: more bytes than are in flight at once
/// pass the slowest link in it, and the largest request every drive.
const LEG_TIMEOUT: Duration = Duration::from_ms(2_000);

impl Trial {
    /// The large random scenario of a seed.
    #[must_use]
    pub fn large(seed: u64) -> Self {
        let mut trial = Self::random(seed);
        let prng = &mut RandomStream::new(seed, "large", 0);
        let policies: Vec<SimPolicy> = SimPolicy::all().collect();
        trial.policy = pick(prng, &policies);
        let scenario = &mut trial.scenario;
        if prng.below(2) == 0 {
            scenario.fidelity = Fidelity::Stamps;
        }
        lengthen(prng, scenario);
        add_legs(prng, scenario);
        enlarge(prng, scenario);
        share(prng, scenario);
        for job in &mut scenario.jobs {
            vary(prng, job);
        }
        add_jobs(prng, scenario);
        if prng.below(10) == 0 {
            until_all_is_moved(scenario);
        }
        trial
    }
}

/// Everything takes longer, what goes wrong too; sometimes some of it is not measured.
fn lengthen(prng: &mut dyn Prng, scenario: &mut Scenario) {
    let factor = 2 + prng.below(7);
    scenario.seconds = LENGTH * factor;
    scenario.array.leg_timeout = scenario.array.leg_timeout * factor;
    if prng.below(3) == 0 {
        scenario.warmup_seconds = Duration::from_ns(prng.below(LENGTH.as_ns()));
    }
    let warmup_ns = i64::try_from(scenario.warmup_seconds.as_ns()).expect("it is short");
    let times = i64::try_from(factor).expect("it is small");
    for fault in &mut scenario.faults {
        fault.at_ns = fault.at_ns.saturating_mul(times) - warmup_ns;
        if fault.until_ns < i64::MAX / 100 {
            fault.until_ns = fault.until_ns * times - warmup_ns;
        }
    }
}

/// More legs, which never fail.
fn add_legs(prng: &mut dyn Prng, scenario: &mut Scenario) {
    let legs = &mut scenario.array.legs;
    let block_bytes = pick(prng, &[512, 4096]);
    for _ in 0..prng.below(LEGS_MAX + 1 - legs.len() as u64) {
        legs.push(if prng.below(3) == 0 {
            let drive = small(prng.below(DRIVES.len() as u64 - 1));
            LegSpec::on(&DRIVES[drive])
        } else {
            random_leg(prng, block_bytes)
        });
    }
}

/// A larger array on legs that have room for it. Jobs and faults keep their places, where there
/// still are such.
fn enlarge(prng: &mut dyn Prng, scenario: &mut Scenario) {
    let array = &mut scenario.array;
    array.size_bytes *= 1 << prng.below(5);
    for leg in &mut array.legs {
        if matches!(leg.params, ModelParams::Ram(_)) {
            // A layout of two far parts takes a little more than its size.
            leg.params = leg.params.with_size(array.size_bytes + (72 << 20));
        }
    }
    let map = array.map().expect("there is room for everything");
    for fault in &mut scenario.faults {
        let Some(leg) = fault.leg else { continue };
        let leg_bytes = map.leg_bytes(LegId::new(leg)).max(4096);
        let end = fault.offset_bytes.unwrap_or(0) + fault.size_bytes.unwrap_or(0);
        if end >= leg_bytes {
            (fault.offset_bytes, fault.size_bytes) = (None, None);
        }
    }
}

/// Some legs that never fail become partitions of one drive, and some pass one link.
fn share(prng: &mut dyn Prng, scenario: &mut Scenario) {
    let failing = |leg: usize| {
        let mut faults = scenario.faults.iter();
        faults.any(|fault| fault.leg == Some(leg))
    };
    let count = scenario.array.legs.len();
    let sound: Vec<usize> = (0..count).filter(|leg| !failing(*leg)).collect();
    let legs = &mut scenario.array.legs;
    if prng.below(3) == 0 {
        let mut shared = false;
        for leg in sound {
            // Only these have room for several parts of any array.
            if !matches!(legs[leg].params, ModelParams::Ram(_)) && prng.below(2) == 0 {
                legs[leg].device = "sda".to_owned();
                shared = true;
            }
        }
        if shared {
            scenario.array.leg_timeout = scenario.array.leg_timeout.max(LEG_TIMEOUT);
        }
    }
    if prng.below(3) == 0 {
        for leg in legs.iter_mut() {
            if prng.below(2) == 0 {
                leg.hba = "hba0".to_owned();
            }
        }
        scenario.array.hbas.push(HbaSpec {
            name: "hba0".to_owned(),
            bw_bytes_per_s: (1 + prng.below(4)) * 500_000_000,
        });
        scenario.array.leg_timeout = scenario.array.leg_timeout.max(LEG_TIMEOUT);
    }
}

/// Up to two more jobs: a defragmentation, readers that share a page cache, a load that the engine
/// does not see.
fn add_jobs(prng: &mut dyn Prng, scenario: &mut Scenario) {
    let size_bytes = scenario.array.size_bytes;
    if size_bytes >= DEFRAG_BYTES && prng.below(3) == 0 {
        scenario.jobs.push(Job {
            name: "defrag".to_owned(),
            kind: Kind::Defrag,
            background: prng.below(2) == 0,
            ..Job::default()
        });
    }
    if prng.below(4) == 0 {
        scenario.jobs.push(Job {
            name: "readers".to_owned(),
            rw: Rw::Read,
            bs_bytes: 4096 << prng.below(5),
            numjobs: 2 + u32::from(prng.below(2) == 0),
            direct: false,
            readahead_bytes: 65_536 << prng.below(5),
            shared_cache: true,
            size_bytes: size_bytes / 4096 / 16 * 4096,
            ..Job::default()
        });
        let readers = scenario.jobs.last_mut().expect("it was just added");
        readers.size_bytes = readers.size_bytes.max(readers.bs_bytes).min(size_bytes);
    }
    if prng.below(3) == 0 {
        let leg = small(prng.below(scenario.array.legs.len() as u64));
        scenario.jobs.push(Job {
            name: "neighbour".to_owned(),
            rw: pick(prng, &[Rw::RandRead, Rw::RandWrite, Rw::Read, Rw::Rw]),
            bs_bytes: 4096 << prng.below(5),
            iodepth: 1 << prng.below(3),
            leg: Some(leg),
            ..Job::default()
        });
        scenario.array.leg_timeout = scenario.array.leg_timeout.max(LEG_TIMEOUT);
    }
}

/// Gives a job some of the keys that small scenarios leave alone.
fn vary(prng: &mut dyn Prng, job: &mut Job) {
    // More than slow drives serve: what waits then is answered behind the end.
    let per_s = [50.0, 500.0, 2_000.0, 8_000.0];
    let is_small = job.bs_bytes <= 65_536;
    if job.direct && is_small && prng.below(4) == 0 {
        let per_s = pick(prng, &per_s);
        job.arrival = match prng.below(3) {
            0 => Arrival::Fixed { per_s },
            1 => Arrival::Poisson { per_s },
            _ => Arrival::Burst {
                per_s,
                on: Duration::from_us(1 + prng.below(20_000)),
                off: Duration::from_us(prng.below(20_000)),
            },
        };
    } else if prng.below(4) == 0 {
        job.rate_iops = [10 << prng.below(10), 10 << prng.below(10)];
    } else if prng.below(4) == 0 {
        job.rate_bytes = [1 << (17 + prng.below(10)), 0];
    } else if prng.below(4) == 0 {
        job.thinktime = Duration::from_us(prng.below(2_000));
        job.thinktime_blocks = pick(prng, &[1, 8]);
    }
    job.random_distribution = match prng.below(4) {
        0 => Distribution::Zipf {
            theta: pick(prng, &[0.5, 0.99, 1.2]),
        },
        1 => Distribution::Pareto {
            h: pick(prng, &[0.1, 0.3]),
        },
        _ => Distribution::Random,
    };
    if is_small && prng.below(4) == 0 && job.size_bytes >= 1 << 20 {
        let share = |bytes, percent| SizeShare { bytes, percent };
        job.bssplit = [
            vec![share(4096, 60), share(65_536, 40)],
            vec![share(512, 10), share(job.bs_bytes, 90)],
        ];
    }
    job.rwmixread = pick(prng, &[10, 50, 90]);
    job.dirty_limit_bytes = pick(prng, &[32 << 20, 256 << 20]);
    if prng.below(6) == 0 {
        let ns = i64::try_from(prng.below(LENGTH.as_ns())).expect("it is short");
        job.start = Some(FromMeasuring(ns));
        let later_ns = ns + i64::try_from(1 + prng.below(LENGTH.as_ns())).expect("it is short");
        job.stop = (prng.below(2) == 0).then_some(FromMeasuring(later_ns));
    }
}

/// No end but that of the jobs, which then do little enough to reach it.
fn until_all_is_moved(scenario: &mut Scenario) {
    scenario.seconds = Duration::ZERO;
    for job in &mut scenario.jobs {
        job.arrival = Arrival::Closed;
        (job.rate_iops, job.rate_bytes) = ([0; 2], [0; 2]);
        (job.start, job.stop) = (None, None);
        if job.kind == Kind::Fio && job.leg.is_none() {
            let largest = job.bssplit.iter().flatten().map(|share| share.bytes);
            let largest = largest.chain([job.bs_bytes]).max().unwrap_or(job.bs_bytes);
            job.size_bytes = job.size_bytes.min(1 << 20).max(largest);
        } else {
            job.background = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Trial;
    use crate::smoke::kept_large_seeds;

    #[test]
    fn large_scenarios_make_sense_and_some_are_good() {
        for seed in 1_000..3_000 {
            let trial = Trial::large(seed);
            let checked = trial.scenario.check();
            assert_eq!(checked, Ok(()), "{seed}\n{}", trial.to_text(""));
        }
        let mut answered = 0;
        for seed in (1_000..1_006).chain(kept_large_seeds()) {
            match Trial::large(seed).play(true) {
                Ok(result) => answered += result.read.ios + result.write.ios,
                Err(failure) => panic!("{failure}"),
            }
        }
        assert!(answered > 5_000, "{answered}");
    }
}
