//! Random arrays with metadata, whose power fails again and again: while clients write, just after
//! they have stopped, while bits are being cleared, while legs are being made equal. Legs are
//! pulled meanwhile and come back with what they had.
//!
//! Everything about one comes from its seed, as with [`Trial::random`].

use heliostat_engine::{Config, CopyOrder, Layout, LegFlags, Raid10, SchedulerPlace};
use heliostat_model::{FailedKind, drive};
use heliostat_scheduler::SchedulerSpec;
use heliostat_types::{Duration, Prng, RandomStream};
use heliostat_workload::{FromMeasuring, Job, Rw};

use crate::contents::Fidelity;
use crate::faults::{Effect, Fault};
use crate::leg_spec::{LegSpec, Part};
use crate::metadata::MetadataSpec;
use crate::scenario::{ArraySpec, Scenario};
use crate::sim_policy::SimPolicy;
use crate::smoke::{
    draw_scheduler, draw_write_behind, pick, random_leg, random_policy, seeds_of, small,
};
use crate::trial::Trial;

/// The seeds of the list that this crate keeps, which once showed a bug.
#[must_use]
pub fn kept_life_seeds() -> Vec<u64> {
    seeds_of(include_str!("../seeds-life.txt"))
}

/// Between two bursts of writes: time for bits to be cleared, and for the array to become clean.
const PAUSE_MAX: Duration = Duration::from_ms(4_000);
/// A burst is at most so long.
const BURST_MAX: Duration = Duration::from_ms(400);
/// Longer than any leg takes for the largest request of these jobs.
const LEG_TIMEOUT: Duration = Duration::from_ms(400);

/// The seeds below follow from other rules, and stay.
const FIRST_WITH_HARM: u64 = 1_000;
/// The same.
const FIRST_WITH_TRIMS: u64 = 1_795_345_000_000;

/// The same.
const FIRST_WITH_FLAGS: u64 = 1_795_361_000_000;

/// From when to when clients ask.
type Burst = (Duration, Duration);

impl Trial {
    /// The random array with metadata of a seed.
    #[must_use]
    pub fn life(seed: u64) -> Self {
        let prng = &mut RandomStream::new(seed, "life", 0);
        let (mut array, copies) = random_array(prng);
        draw_write_behind(seed, &mut array);
        draw_scheduler(seed, &mut array);
        let mut bursts = Vec::new();
        let mut at = Duration::ZERO;
        for _ in 0..1 + prng.below(3) {
            let until = at + below(prng, BURST_MAX);
            bursts.push((at, until));
            at = until + below(prng, PAUSE_MAX);
        }
        let mut jobs = Vec::new();
        for burst in &bursts {
            for _ in 0..1 + prng.below(2) {
                jobs.push(random_job(prng, array.size_bytes, *burst));
            }
        }
        let mut faults = power_cuts(prng, &bursts, at);
        let leg_count = array.legs.len() as u64;
        // One copy of everything is left alone, in most of them.
        let failing = copies - small(prng.below(8).min(1));
        let first = prng.below(leg_count);
        for turn in 0..failing as u64 {
            let leg = small((first + turn) % leg_count);
            faults.extend(leg_faults(prng, leg, at));
        }
        let harm = &mut RandomStream::new(seed, "life harm", 0);
        if seed >= FIRST_WITH_HARM && harm.below(6) == 0 {
            faults.push(random_harm(harm, leg_count, at));
        }
        array.trims = seed >= FIRST_WITH_TRIMS && seed.is_multiple_of(3);
        let policy = random_policy(prng);
        let scenario = Scenario {
            name: "life".to_owned(),
            seconds: at + Duration::from_ms(1),
            warmup_seconds: Duration::ZERO,
            seed,
            array,
            jobs,
            faults,
            first_client: 0,
            fidelity: Fidelity::Bytes,
            traces: None,
        };
        Self {
            scenario,
            policy: SimPolicy::Registered(policy),
        }
    }
}

/// Lives that somebody tends: the seeds of the list that this crate keeps, which once showed a bug.
#[must_use]
pub fn kept_tended_seeds() -> Vec<u64> {
    seeds_of(include_str!("../seeds-tended.txt"))
}

impl Trial {
    /// The life of a seed with somebody who takes legs out and adds them again, as they are or as
    /// new ones, and has them compared.
    #[must_use]
    pub fn tended(seed: u64) -> Self {
        let mut trial = Self::life(seed);
        let scenario = &mut trial.scenario;
        "tended".clone_into(&mut scenario.name);
        let prng = &mut RandomStream::new(seed, "tended", 0);
        let end = scenario.seconds;
        let legs = scenario.array.legs.len();
        let mut errands = Vec::new();
        for _ in 0..prng.below(3) {
            let leg = small(prng.below(legs as u64));
            let at = below(prng, end);
            errands.push(Fault::new(leg, Effect::Failed).between(at, at));
        }
        for leg in 0..legs {
            for _ in 0..prng.below(3) {
                let is_new = prng.below(4) == 0;
                let at = below(prng, end);
                errands.push(Fault::new(leg, Effect::Added { is_new }).between(at, end));
            }
        }
        let of_machine = |effect, at, until| Fault {
            leg: None,
            ..Fault::new(0, effect).between(at, until)
        };
        for _ in 0..prng.below(3) {
            let repair = prng.below(2) == 0;
            let at = below(prng, end);
            errands.push(of_machine(Effect::Scrub { repair }, at, at));
        }
        if seed >= FIRST_WITH_FLAGS {
            errands.extend(told_flags(seed, legs, end));
        }
        scenario.faults.extend(errands);
        trial
    }
}

/// Lives with devices that are no legs at first: the seeds of the list that this crate keeps, which
/// once showed a bug.
#[must_use]
pub fn kept_supplied_seeds() -> Vec<u64> {
    seeds_of(include_str!("../seeds-supplied.txt"))
}

impl Trial {
    /// The tended life of a seed with one device or two more than the array has legs: spares that
    /// take the places of legs by themselves, or such as somebody makes legs. Legs are replaced
    /// while they serve.
    #[must_use]
    pub fn supplied(seed: u64) -> Self {
        let mut trial = Self::tended(seed);
        let scenario = &mut trial.scenario;
        "supplied".clone_into(&mut scenario.name);
        let prng = &mut RandomStream::new(seed, "supplied", 0);
        let end = scenario.seconds;
        let roles = scenario.array.legs.len();
        let block_bytes = pick(prng, &[512, 4096]);
        scenario.array.trims = prng.below(2) == 0;
        let mut faults = Vec::new();
        // Who has which role is written often. A leg that loses some of that, and has written
        // something else there since, is a second loss that nothing shows.
        scenario
            .faults
            .retain(|fault| fault.effect != Some(Effect::LostWrite));
        for extra in 0..1 + small(prng.below(2)) {
            let mut leg = life_leg(prng, block_bytes);
            leg.write_mostly = false;
            leg.part = pick(prng, &[Part::Nothing, Part::Nothing, Part::Spare]);
            scenario.array.legs.push(leg);
            if prng.below(4) == 0 {
                faults.extend(leg_faults(prng, roles + extra, end));
            }
            if prng.below(2) == 0 {
                let is_new = prng.below(2) == 0;
                let at = below(prng, end);
                faults.push(Fault::new(roles + extra, Effect::Added { is_new }).between(at, end));
            }
        }
        let devices = scenario.array.legs.len() as u64;
        for _ in 0..1 + prng.below(4) {
            let leg = small(prng.below(devices));
            let at = below(prng, end);
            faults.push(Fault::new(leg, Effect::Replaced).between(at, end));
            // What is interesting happens soon after it was begun.
            if prng.below(2) == 0 {
                let soon = Duration::from_ms(pick(prng, &[2, 20, 200]));
                let at = at + below(prng, soon);
                let until = at + Duration::from_us(1 + prng.below(20_000));
                faults.push(power_cut(at, until));
            }
        }
        scenario.faults.extend(faults);
        scenario.faults = without_overlapping_cuts(std::mem::take(&mut scenario.faults));
        trial
    }
}

/// Something else is said of legs.
fn told_flags(seed: u64, legs: usize, end: Duration) -> Vec<Fault> {
    let prng = &mut RandomStream::new(seed, "told", 0);
    let told = (0..prng.below(4)).map(|_| {
        // That the last one is read last changes most.
        let any = small(prng.below(legs as u64));
        let leg = pick(prng, &[any, legs - 1]);
        let flags = LegFlags {
            write_mostly: prng.below(2) == 0,
            failfast: prng.below(4) == 0,
        };
        let at = below(prng, end);
        Fault::new(leg, Effect::Told(flags)).between(at, end)
    });
    told.collect()
}

/// The machine has no power.
fn power_cut(at: Duration, until: Duration) -> Fault {
    Fault {
        leg: None,
        ..Fault::new(0, Effect::PowerCut).between(at, until)
    }
}

/// Without the power cuts that begin while the power is off.
fn without_overlapping_cuts(faults: Vec<Fault>) -> Vec<Fault> {
    let is_cut = |fault: &Fault| fault.effect == Some(Effect::PowerCut);
    let (mut cuts, mut others): (Vec<_>, Vec<_>) = faults.into_iter().partition(is_cut);
    cuts.sort_by_key(|cut| cut.at_ns);
    let mut until_ns = 0;
    cuts.retain(|cut| {
        let is_apart = cut.at_ns > until_ns;
        if is_apart {
            until_ns = cut.until_ns;
        }
        is_apart
    });
    others.extend(cuts);
    others
}

/// A time below `max`, of whole microseconds.
fn below(prng: &mut dyn Prng, max: Duration) -> Duration {
    Duration::from_us(1 + prng.below(max.as_ns() / 1000))
}

/// An array, and how many copies of everything it has.
fn random_array(prng: &mut dyn Prng) -> (ArraySpec, usize) {
    let leg_count = 2 + prng.below(3);
    let block_bytes = pick(prng, &[512, 4096]);
    let mut legs: Vec<LegSpec> = (0..leg_count)
        .map(|_| life_leg(prng, block_bytes))
        .collect();
    // md reads these last, but for what is not yet equal: there it reads the first leg.
    legs.sort_by_key(|leg| leg.write_mostly);
    let mut copies = leg_count;
    let mut layout = Layout::Mirror;
    if prng.below(2) == 0 {
        copies = 2 + prng.below(leg_count - 1);
        layout = Layout::Raid10(Raid10 {
            order: pick(prng, &[CopyOrder::Near, CopyOrder::Far, CopyOrder::Offset]),
            copies: u32::try_from(copies).expect("there are few"),
            chunk_bytes: 4096 << prng.below(6),
        });
        for leg in &mut legs {
            leg.write_mostly = false;
        }
    }
    let no_bitmap = prng.below(8) == 0;
    let array = ArraySpec {
        background: None,
        size_bytes: (65_536 << prng.below(6)) + 4096 * prng.below(3),
        layout,
        copies: 0,
        copies_chunk_bytes: ArraySpec::COPIES_CHUNK_DEFAULT_BYTES,
        legs,
        memory_bytes: Config::MEMORY_MIN_BYTES,
        leg_timeout: LEG_TIMEOUT,
        write_behind: 0,
        scheduler: SchedulerSpec::None,
        scheduler_on: SchedulerPlace::Legs,
        tags_2014: false,
        hbas: Vec::new(),
        trims: false,
        metadata: Some(MetadataSpec {
            data_offset_bytes: 65_536 << prng.below(5),
            bitmap_chunk_bytes: if no_bitmap { 0 } else { 4096 << prng.below(6) },
        }),
    };
    (array, small(copies))
}

/// Mostly a drive that forgets what was not flushed.
fn life_leg(prng: &mut dyn Prng, block_bytes: u32) -> LegSpec {
    if prng.below(3) == 0 {
        return random_leg(prng, block_bytes);
    }
    let drives = [
        "ssd-sata-256gb",
        "ssd-sata-256gb",
        "ssd-sata-1tb",
        "hdd-7200-2tb",
    ];
    let mut leg = LegSpec::on(drive(pick(prng, &drives)).expect("it is one of the named"));
    leg.write_mostly = prng.below(6) == 0;
    leg
}

/// Clients that ask during a burst.
fn random_job(prng: &mut dyn Prng, size_bytes: u64, (start, stop): Burst) -> Job {
    const KINDS: [Rw; 6] = [
        Rw::RandWrite,
        Rw::RandWrite,
        Rw::Write,
        Rw::RandRw,
        Rw::Rw,
        Rw::RandRead,
    ];
    let moment = |at: Duration| {
        let ns = i64::try_from(at.as_ns()).expect("it is short");
        FromMeasuring(ns)
    };
    let bs_bytes = 512 << prng.below(6);
    let region_bytes = (size_bytes >> prng.below(5)).max(bs_bytes);
    let places = (size_bytes - region_bytes) / 512 + 1;
    Job {
        name: "burst".to_owned(),
        rw: pick(prng, &KINDS),
        bs_bytes,
        iodepth: 1 << prng.below(5),
        offset_bytes: prng.below(places) * 512,
        size_bytes: region_bytes,
        fsync: pick(prng, &[0, 0, 1, 4, 16]),
        thinktime: Duration::from_us(pick(prng, &[0, 100, 1_000, 10_000])),
        start: Some(moment(start)),
        stop: Some(moment(stop)),
        ..Job::default()
    }
}

/// Power cuts where something is going on, and where nobody would think so.
fn power_cuts(prng: &mut dyn Prng, bursts: &[Burst], end: Duration) -> Vec<Fault> {
    let mut times: Vec<Duration> = (0..1 + prng.below(5))
        .map(|_| {
            let (start, stop) = pick(prng, bursts);
            match prng.below(8) {
                0 => below(prng, end),
                // The array becomes clean, and its bits are cleared.
                1 => stop + below(prng, Duration::from_ms(400)),
                2 => stop + below(prng, Duration::from_ms(3_500)),
                _ => start + below(prng, stop - start),
            }
        })
        .collect();
    times.sort_unstable();
    let mut cuts = Vec::new();
    let mut from = Duration::ZERO;
    for at in times {
        let at = at.max(from);
        let until = at + Duration::from_us(1 + prng.below(20_000));
        cuts.push(power_cut(at, until));
        // Sometimes just after the array was started again.
        from = until + Duration::from_us(1 + prng.below(5_000));
    }
    cuts
}

/// What happens to one leg: it is pulled and put back, fails something, or takes its time.
fn leg_faults(prng: &mut dyn Prng, leg: usize, end: Duration) -> Vec<Fault> {
    let mut faults = Vec::new();
    for _ in 0..prng.below(3) {
        let at = below(prng, end);
        let longest = pick(prng, &[end, end / 4, Duration::from_ms(20)]);
        let length = below(prng, longest);
        let effect = match prng.below(8) {
            0..3 => Effect::Dead,
            3 | 4 => Effect::Error(FailedKind::Write),
            5 => Effect::Error(FailedKind::Read),
            6 => Effect::Slow(1_000 + prng.below(5_000)),
            _ => Effect::Stuck,
        };
        let mut fault = Fault::new(leg, effect).between(at, at + length);
        if matches!(effect, Effect::Error(_)) {
            fault.count = (prng.below(2) == 0).then(|| 1 + prng.below(3));
            fault.rate_per_billion = (prng.below(2) == 0).then_some(100_000_000);
        }
        faults.push(fault);
    }
    faults
}

/// Bytes of a leg go wrong, somewhere: mostly where data lies, now and then where metadata does.
fn random_harm(prng: &mut dyn Prng, leg_count: u64, end: Duration) -> Fault {
    let leg = small(prng.below(leg_count));
    let effect = match prng.below(6) {
        0 => Effect::LostWrite,
        1 => Effect::TornWrite(512),
        2 => Effect::TornWrite(4096),
        3 => Effect::MisdirectedWrite,
        4 => Effect::BitRot,
        _ => Effect::FlushLies,
    };
    let at = below(prng, end);
    let length = below(prng, end);
    let mut fault = Fault::new(leg, effect).between(at, at + length);
    fault.count = Some(1 + prng.below(5));
    fault
}

#[cfg(test)]
mod tests {
    use super::{
        FIRST_WITH_FLAGS, FIRST_WITH_HARM, Trial, kept_life_seeds, kept_supplied_seeds,
        kept_tended_seeds,
    };
    use crate::life::Seen;
    use crate::simulation::Simulation;
    use crate::smoke::FIRST_WITH_SCHEDULERS;

    #[test]
    fn random_lives_make_sense() {
        for seed in 0..2_000 {
            let trial = Trial::life(seed);
            let checked = trial.scenario.check();
            assert_eq!(checked, Ok(()), "{seed}\n{}", trial.to_text(""));
        }
    }

    #[test]
    fn random_lives_are_good() {
        let (mut answered, mut cuts) = (0, 0);
        let seeds = kept_life_seeds().into_iter();
        for seed in seeds
            .chain(0..60)
            .chain(FIRST_WITH_HARM..FIRST_WITH_HARM + 60)
            .chain(FIRST_WITH_SCHEDULERS..FIRST_WITH_SCHEDULERS + 60)
        {
            match Trial::life(seed).play(seed % 10 == 0) {
                Ok(result) => {
                    answered += result.read.ios + result.write.ios;
                    cuts += result.integrity.power_cuts;
                }
                Err(failure) => panic!("{failure}"),
            }
        }
        assert!(answered > 100_000 && cuts > 200, "{answered}, {cuts}");
    }

    #[test]
    fn random_lives_that_somebody_tends_are_good() {
        let seeds = kept_tended_seeds().into_iter();
        for seed in seeds.chain(FIRST_WITH_HARM..FIRST_WITH_HARM + 60) {
            let trial = Trial::tended(seed);
            assert_eq!(trial.scenario.check(), Ok(()), "{}", trial.to_text(""));
            if let Err(failure) = trial.play(seed % 10 == 0) {
                panic!("{failure}");
            }
        }
    }

    /// What they are for comes about: in each way, and often.
    #[test]
    fn random_lives_with_more_devices_than_legs_are_good() {
        let mut seen = Seen::default();
        let with_flags = FIRST_WITH_FLAGS..FIRST_WITH_FLAGS + 20;
        let seeds = kept_supplied_seeds().into_iter().chain(0..60);
        for seed in seeds.chain(with_flags) {
            let Trial { scenario, policy } = Trial::supplied(seed);
            let mut simulation = Simulation::new(&scenario, &policy).unwrap();
            while simulation.step() {}
            let one = simulation.lives.as_ref().unwrap().seen;
            seen.begun += one.begun;
            seen.cut += one.cut;
            seen.gone_on += one.gone_on;
            seen.replaced += one.replaced;
            seen.spares += one.spares;
            seen.told += one.told;
            if let Err(failure) = simulation.finish() {
                panic!("{failure}");
            }
        }
        let is_enough = seen.begun > 60 && seen.cut > 30 && seen.gone_on > 20;
        assert!(
            is_enough && seen.replaced > 40 && seen.spares > 10 && seen.told > 5,
            "{seen:?}"
        );
    }
}
