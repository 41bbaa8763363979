//! Random scenarios: small arrays, clients that tread on each other's toes, legs that fail.
//!
//! Everything about a scenario comes from its seed. What is wrong with a run is found by the
//! checkers of every run.

use heliostat_engine::{CopyOrder, Layout, Raid10, SchedulerPlace};
use heliostat_model::{Drive, FailedKind, ModelParams, RamParams, drive};
use heliostat_policy::{PolicySpec, all_policies};
use heliostat_scheduler::{SCHEDULERS, SchedulerSpec};
use heliostat_types::{Duration, LegId, LegSet, Prng, RandomStream, SECTOR_BYTES};
use heliostat_workload::{Job, Rw};

use crate::contents::Fidelity;
use crate::faults::{Effect, Fault};
use crate::leg_spec::LegSpec;
use crate::scenario::{ArraySpec, Scenario};
use crate::sim_policy::SimPolicy;
use crate::simulation::CheckFailure;
use crate::trial::Trial;

/// The seeds of the list that this crate keeps, which once showed a bug.
#[must_use]
pub fn kept_seeds() -> Vec<u64> {
    seeds_of(include_str!("../seeds.txt"))
}

/// The same of large scenarios.
#[must_use]
pub fn kept_large_seeds() -> Vec<u64> {
    seeds_of(include_str!("../seeds-large.txt"))
}

/// The first words of the lines that are no comments.
pub(crate) fn seeds_of(list: &str) -> Vec<u64> {
    let seeds = list.lines().filter(|line| !line.starts_with('#'));
    let first_word = seeds.filter_map(|line| line.split_whitespace().next());
    first_word
        .map(|word| word.parse().expect("a line of the list begins with a seed"))
        .collect()
}

/// Plays the random scenario of each seed, twice, and compares the two. Returns how many requests
/// were answered.
///
/// # Errors
/// The first failure, an assertion of the engine included; its text names the seed.
pub fn smoke(seeds: impl IntoIterator<Item = u64>) -> Result<u64, Box<CheckFailure>> {
    let mut answered = 0;
    for seed in seeds {
        let result = Trial::random(seed).play(true)?;
        answered += result.read.ios + result.write.ios;
    }
    Ok(answered)
}

impl Trial {
    /// The random scenario of a seed.
    #[must_use]
    pub fn random(seed: u64) -> Self {
        let (scenario, policy) = random_scenario(seed);
        let policy = SimPolicy::Registered(policy);
        Self { scenario, policy }
    }
}

/// The scenario of a seed, and the policy it is played under.
pub(crate) fn random_scenario(seed: u64) -> (Scenario, PolicySpec) {
    let prng = &mut RandomStream::new(seed, "scenario", 0);
    let leg_count = 1 + prng.below(4);
    let size_bytes = 65_536 << prng.below(11);
    let block_bytes = pick(prng, &[512, 4096]);
    let legs: Vec<LegSpec> = (0..leg_count)
        .map(|_| random_leg(prng, block_bytes))
        .collect();
    let mut jobs: Vec<Job> = (0..1 + prng.below(3))
        .map(|_| random_job(prng, size_bytes))
        .collect();
    // Two of three scenarios leave one copy of everything healthy: then no client may notice
    // anything.
    let healthy = (prng.below(3) > 0).then(|| LegId::new(small(prng.below(leg_count))));
    let mut array = ArraySpec::new(size_bytes, legs);
    array.memory_bytes = heliostat_engine::Config::MEMORY_MIN_BYTES;
    let is_new = seed >= FIRST_WITH_ALL_FAULTS;
    let mut failing = LegSet::first(small(leg_count));
    if let Some(leg) = healthy {
        failing.remove(leg);
    }
    if is_new {
        let more = &mut RandomStream::new(seed, "layout", 0);
        let copies = draw_layout(more, &mut array);
        if healthy.is_some() {
            failing = some_of(more, failing, copies - 1);
        }
        draw_write_behind(seed, &mut array);
        draw_scheduler(seed, &mut array);
        for job in &mut jobs {
            job.offset_bytes += (array.size_bytes - size_bytes) * more.below(2);
        }
    }
    let may_fail = |fault: &Fault| {
        fault
            .leg
            .is_some_and(|leg| failing.contains(LegId::new(leg)))
    };
    let mut faults: Vec<Fault> = (0..prng.below(5))
        .map(|_| random_fault(prng, leg_count, healthy.is_some()))
        .filter(may_fail)
        .collect();
    if is_new {
        let more = &mut RandomStream::new(seed, "faults", 0);
        faults.extend(rare_faults(more, &array, may_fail));
        if more.below(3) == 0 {
            faults.extend(random_power_cuts(more));
        }
    }
    let policy = random_policy(prng);
    // Above what any leg takes for the largest request: a healthy leg is never silent.
    array.leg_timeout = Duration::from_ms(60 + prng.below(40));
    let scenario = Scenario {
        name: "random".to_owned(),
        seconds: LENGTH,
        warmup_seconds: Duration::ZERO,
        seed,
        array,
        jobs,
        faults,
        first_client: prng.below(4),
        fidelity: Fidelity::Bytes,
        traces: None,
    };
    (scenario, policy)
}

/// Scenarios of the seeds below have the faults that there were when the first bugs were found, so
/// that these seeds go on showing them.
const FIRST_WITH_ALL_FAULTS: u64 = 1_000;
/// The same.
pub(crate) const FIRST_WITH_SCHEDULERS: u64 = 1_795_423_600_000;
/// The same.
pub(crate) const FIRST_WITH_STAGES: u64 = 1_795_441_600_000;

/// Long enough for some thousand requests and for a silent leg to be faulted.
pub(crate) const LENGTH: Duration = Duration::from_ms(100);

pub(crate) fn pick<T: Copy>(prng: &mut dyn Prng, from: &[T]) -> T {
    let count = u64::try_from(from.len()).expect("a list is short");
    let index = usize::try_from(prng.below(count)).expect("below the list's length");
    from[index]
}

/// A number of legs.
pub(crate) fn small(number: u64) -> usize {
    usize::try_from(number).expect("at most 16")
}

/// Makes of a mirror of all legs, sometimes, a layout of RAID10 or one of some copies wherever
/// there is space. How many copies each byte has.
fn draw_layout(prng: &mut dyn Prng, array: &mut ArraySpec) -> usize {
    let leg_count = array.legs.len() as u64;
    let orders = [CopyOrder::Near, CopyOrder::Far, CopyOrder::Offset];
    let copies = match prng.below(3) {
        0 => {
            array.copies_chunk_bytes = 4096 << prng.below(10);
            let copies = small(1 + prng.below(leg_count));
            array.copies = u32::try_from(copies).expect("at most 16");
            copies
        }
        1 if leg_count > 1 => {
            let copies = small(2 + prng.below(leg_count - 1));
            array.layout = Layout::Raid10(Raid10 {
                order: pick(prng, &orders),
                copies: u32::try_from(copies).expect("at most 16"),
                chunk_bytes: 4096 << prng.below(8),
            });
            copies
        }
        _ => return array.legs.len(),
    };
    // Not always whole chunks.
    array.size_bytes += 4096 * prng.below(3);
    copies
}

pub(crate) fn random_policy(prng: &mut dyn Prng) -> PolicySpec {
    let policies: Vec<_> = all_policies().collect();
    PolicySpec::new(pick(prng, &policies))
}

/// Lets write-mostly legs be behind, sometimes.
pub(crate) fn draw_write_behind(seed: u64, array: &mut ArraySpec) {
    let prng = &mut RandomStream::new(seed, "write-behind", 0);
    let is_mirror = array.layout == Layout::Mirror && array.copies == 0;
    if is_mirror && array.legs.iter().any(|leg| leg.write_mostly) {
        array.write_behind = pick(prng, &[0, 1, 8, 256]);
    }
}

/// Puts any scheduler in front of the legs, or of the array.
pub(crate) fn draw_scheduler(seed: u64, array: &mut ArraySpec) {
    if seed >= FIRST_WITH_SCHEDULERS {
        let prng = &mut RandomStream::new(seed, "scheduler", 0);
        let (name, _) = pick(prng, &SCHEDULERS);
        let spec = SchedulerSpec::parse(name);
        array.scheduler = spec.expect("it is one of those that there are");
        if seed >= FIRST_WITH_STAGES && prng.below(3) == 0 {
            array.scheduler_on = SchedulerPlace::Array;
        }
    }
}

/// Any `count` of `legs`, or all where there are fewer.
fn some_of(prng: &mut dyn Prng, legs: LegSet, count: usize) -> LegSet {
    let mut left: Vec<LegId> = legs.iter().collect();
    while left.len() > count {
        let at = small(prng.below(left.len() as u64));
        left.swap_remove(at);
    }
    left.into_iter().collect()
}

/// How much of the array every leg holds at least; something in any case.
fn smallest_part(array: &ArraySpec) -> u64 {
    let map = array.map().expect("a random array makes sense");
    let parts = (0..map.legs()).map(|leg| map.leg_bytes(LegId::new(leg)));
    parts.min().unwrap_or(0).max(4096)
}

/// Mostly memory of some slowness, so that a run has many requests; now and then a real drive.
pub(crate) fn random_leg(prng: &mut dyn Prng, block_bytes: u32) -> LegSpec {
    let drives: [&str; 4] = ["hdd-7200-2tb", "ssd-sata-256gb", "nvme-gen3", "net-ssd"];
    let mut leg = if prng.below(3) == 0 {
        LegSpec::on(drive(pick(prng, &drives)).expect("it is one of the named"))
    } else {
        let params = RamParams {
            // An array in two far parts takes a little more than its size.
            size_bytes: 72 << 20,
            logical_block_bytes: block_bytes,
            operation_time: Duration::from_us(100 << prng.below(6)),
            copy_bytes_per_s: 1_000_000_000,
            queue_depth: 1 << prng.below(6),
            ..RamParams::NEUTRAL
        };
        LegSpec::on(&Drive {
            name: "slow-ram",
            summary: "",
            params: ModelParams::Ram(params),
        })
    };
    leg.write_mostly = prng.below(6) == 0;
    leg.read_preferred = prng.below(6) == 0;
    leg
}

fn random_job(prng: &mut dyn Prng, size_bytes: u64) -> Job {
    const KINDS: [Rw; 6] = [
        Rw::Read,
        Rw::Write,
        Rw::RandRead,
        Rw::RandWrite,
        Rw::RandRw,
        Rw::Rw,
    ];
    // Mostly small; now and then so large that the clients' requests do not all fit into memory.
    let large = size_bytes >= 32 << 20 && prng.below(4) == 0;
    let bs_bytes = if large { 8 << 20 } else { 512 << prng.below(8) };
    // Sometimes clients share a few blocks, so that reads meet writes.
    let region_bytes = (size_bytes >> prng.below(6)).max(bs_bytes);
    let places = (size_bytes - region_bytes) / 512 + 1;
    Job {
        name: "random".to_owned(),
        rw: pick(prng, &KINDS),
        bs_bytes,
        iodepth: 1 << prng.below(6),
        numjobs: 1 + u32::from(prng.below(3) == 0),
        direct: prng.below(4) > 0,
        readahead_bytes: bs_bytes.max(4096) << prng.below(4),
        offset_bytes: prng.below(places) * 512,
        size_bytes: region_bytes,
        fsync: pick(prng, &[0, 0, 1, 10]),
        ..Job::default()
    }
}

fn random_fault(prng: &mut dyn Prng, leg_count: u64, may_last: bool) -> Fault {
    let leg = prng.below(leg_count);
    let at = Duration::from_ns(prng.below(LENGTH.as_ns()));
    let length = Duration::from_ns(prng.below(LENGTH.as_ns()));
    let effect = match prng.below(6) {
        0 => Effect::Slow(1_000 + prng.below(50_000)),
        1 | 2 => Effect::Stuck,
        3 => Effect::Error(FailedKind::Read),
        4 => Effect::Error(FailedKind::Write),
        _ => Effect::Dead,
    };
    // Without a healthy leg, clients would wait for ever for one that is silent for ever.
    let lasts = may_last && prng.below(4) == 0;
    let until = if lasts { Duration::MAX } else { at + length };
    let leg = usize::try_from(leg).expect("below 16");
    Fault::new(leg, effect).between(at, until)
}

/// Up to three faults that the first scenarios did not have; of those that fail or hold back
/// operations, the ones that `may_fail`.
fn rare_faults(
    prng: &mut dyn Prng,
    array: &ArraySpec,
    may_fail: impl Fn(&Fault) -> bool,
) -> Vec<Fault> {
    let (leg_count, leg_bytes) = (array.legs.len() as u64, smallest_part(array));
    let rare = (0..prng.below(4)).map(|_| rare_fault(prng, leg_count, leg_bytes));
    let rare = rare.filter(|(fault, harms_bytes_alone)| *harms_bytes_alone || may_fail(fault));
    rare.map(|(fault, _)| fault).collect()
}

/// A fault with more to say than [`random_fault`] has, and whether it neither fails nor holds back
/// operations.
fn rare_fault(prng: &mut dyn Prng, leg_count: u64, leg_bytes: u64) -> (Fault, bool) {
    let leg = prng.below(leg_count);
    let (effect, harms_bytes_alone) = match prng.below(12) {
        0 => (
            Effect::Pause(Duration::from_us(1 + prng.below(5_000))),
            false,
        ),
        1 => (Effect::Stuck, false),
        2 | 3 => (Effect::Error(FailedKind::Read), false),
        4 => (Effect::Error(FailedKind::Write), false),
        5 | 6 => (Effect::LostWrite, true),
        7 => (Effect::TornWrite(pick(prng, &[512, 4096])), true),
        8 => (Effect::MisdirectedWrite, true),
        9 => (Effect::BitRot, true),
        _ => (Effect::FlushLies, true),
    };
    let at = Duration::from_ns(prng.below(LENGTH.as_ns()));
    let length = Duration::from_ns(prng.below(LENGTH.as_ns()));
    let leg_number = usize::try_from(leg).expect("below 16");
    let mut fault = Fault::new(leg_number, effect).between(at, at + length);
    if let Effect::Pause(length) = effect {
        let jitter = Duration::from_us(prng.below(3_000));
        fault.every = Some(length + jitter + Duration::from_us(prng.below(5_000)));
        fault.jitter = Some(jitter);
    } else if effect == Effect::Stuck {
        fault.burst = true;
    } else {
        fault.count = (prng.below(2) == 0).then(|| 1 + prng.below(5));
        let rate = [1_000_000, 50_000_000, 500_000_000];
        fault.rate_per_billion = (prng.below(2) == 0).then(|| pick(prng, &rate));
        if effect != Effect::FlushLies && prng.below(3) == 0 {
            let sectors = leg_bytes / SECTOR_BYTES;
            let first = prng.below(sectors);
            fault.offset_bytes = Some(first * SECTOR_BYTES);
            fault.size_bytes = Some((1 + prng.below(sectors - first)) * SECTOR_BYTES);
        }
        fault.sticky = effect == Effect::Error(FailedKind::Read) && prng.below(2) == 0;
    }
    (fault, harms_bytes_alone)
}

/// One to three power cuts, one after the other.
fn random_power_cuts(prng: &mut dyn Prng) -> Vec<Fault> {
    let mut cuts = Vec::new();
    let mut at = Duration::ZERO;
    for _ in 0..1 + prng.below(3) {
        at += Duration::from_ns(prng.below(LENGTH.as_ns()));
        let until = at + Duration::from_us(1 + prng.below(10_000));
        let cut = Fault {
            leg: None,
            ..Fault::new(0, Effect::PowerCut).between(at, until)
        };
        cuts.push(cut);
        at = until;
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::{
        FIRST_WITH_ALL_FAULTS, FIRST_WITH_SCHEDULERS, FIRST_WITH_STAGES, kept_seeds, smoke,
    };

    fn play_all(seeds: impl IntoIterator<Item = u64>) -> u64 {
        match smoke(seeds) {
            Ok(answered) => answered,
            Err(failure) => panic!("{failure}"),
        }
    }

    #[test]
    fn the_kept_seeds_stay_good() {
        play_all(kept_seeds());
    }

    #[test]
    fn random_scenarios_are_good() {
        assert!(play_all(0..50) > 5_000);
        let with_all_faults = FIRST_WITH_ALL_FAULTS..FIRST_WITH_ALL_FAULTS + 50;
        assert!(play_all(with_all_faults) > 5_000);
    }

    #[test]
    fn random_scenarios_with_schedulers_are_good() {
        let with_schedulers = FIRST_WITH_SCHEDULERS..FIRST_WITH_SCHEDULERS + 60;
        assert!(play_all(with_schedulers) > 5_000);
        let with_stages = FIRST_WITH_STAGES..FIRST_WITH_STAGES + 60;
        assert!(play_all(with_stages) > 5_000);
    }
}
