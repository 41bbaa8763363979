//! Lives that are written down, some of them with a power cut at every moment of what they are
//! about.

use std::collections::BTreeSet;

use heliostat_engine::{Config, Layout};
use heliostat_format::{BitmapBits, BitmapSuper};
use heliostat_model::drive;
use heliostat_policy::PolicySpec;
use heliostat_types::{Duration, Instant, LegId, LegSet};
use heliostat_workload::{FromMeasuring, Job, Rw};

use crate::contents::Fidelity;
use crate::faults::{Effect, Fault};
use crate::leg_spec::{LegSpec, Part};
use crate::metadata::{BITMAP_AT, MetadataSpec};
use crate::scenario::{ArraySpec, Scenario};
use crate::sim_policy::SimPolicy;
use crate::simulation::Simulation;

const MS: Duration = Duration::from_ms(1);

/// An array of `legs` drives that forget what was not flushed, and of one more that is no leg; a
/// client writes here and there for so long.
fn life(legs: usize, layout: &str, length: Duration) -> Scenario {
    let mut specs = vec![LegSpec::on(drive("ssd-sata-256gb").unwrap()); legs + 1];
    specs[legs].part = Part::Nothing;
    let mut array = ArraySpec::new(65_536, specs);
    if layout != "mirror" {
        array.layout = Layout::parse(layout).unwrap();
    }
    array.memory_bytes = Config::MEMORY_MIN_BYTES;
    array.leg_timeout = Duration::from_ms(400);
    array.metadata = Some(MetadataSpec {
        data_offset_bytes: 65_536,
        bitmap_chunk_bytes: 4096,
    });
    let writer = Job {
        rw: Rw::RandWrite,
        bs_bytes: 4096,
        iodepth: 4,
        size_bytes: 65_536,
        fsync: 8,
        thinktime: Duration::from_us(100),
        start: Some(FromMeasuring(0)),
        ..Job::default()
    };
    Scenario {
        name: "directed".to_owned(),
        seconds: length,
        warmup_seconds: Duration::ZERO,
        seed: 1,
        array,
        jobs: vec![writer],
        faults: Vec::new(),
        first_client: 0,
        fidelity: Fidelity::Bytes,
        traces: None,
    }
}

fn power_cut(at: Duration, until: Duration) -> Fault {
    Fault {
        leg: None,
        ..Fault::new(0, Effect::PowerCut).between(at, until)
    }
}

fn begin(scenario: &Scenario) -> Simulation {
    let policy = PolicySpec::parse("pid").unwrap();
    Simulation::new(scenario, &SimPolicy::Registered(policy)).unwrap()
}

fn end(simulation: Simulation) {
    if let Err(failure) = simulation.finish() {
        panic!("{failure}");
    }
}

/// The moments of a scenario at which something happens while it `is_so`.
fn moments(scenario: &Scenario, is_so: impl Fn(&Simulation) -> bool) -> BTreeSet<Duration> {
    let mut simulation = begin(scenario);
    let mut moments = BTreeSet::new();
    while simulation.step() {
        if is_so(&simulation) {
            moments.insert(simulation.now - Instant::ZERO);
        }
    }
    end(simulation);
    moments
}

/// From the moment at which a new leg has all data to some milliseconds after it is read: whoever
/// has the role when the power is back, nothing is lost, and the other one is not believed.
#[test]
fn the_power_may_fail_at_any_moment_of_a_handover() {
    let (mut old, mut new) = (0, 0);
    for (legs, layout) in [(2, "mirror"), (3, "offset=2")] {
        let length = Duration::from_ms(400);
        let mut scenario = life(legs, layout, length);
        let replaced = Fault::new(0, Effect::Replaced).between(MS, length);
        scenario.faults = vec![replaced, power_cut(length - MS, length)];
        let before = moments(&scenario, |simulation| {
            let engine = &simulation.engine;
            let replacing = engine.replacing();
            replacing.is_some_and(|(_, by)| engine.missing_bytes(by) == Some(0))
        });
        let after = moments(&scenario, |simulation| {
            simulation.lives.as_ref().unwrap().seen.replaced == 1
        });
        let moments: Vec<Duration> = before
            .iter()
            .rev()
            .take(40)
            .chain(after.iter().take(15))
            .copied()
            .collect();
        assert_eq!(moments.len(), 55, "{layout}");
        for at in moments {
            scenario.faults[1] = power_cut(at, at + MS);
            let mut simulation = begin(&scenario);
            while simulation.step() {}
            match simulation.lives.as_ref().unwrap().seen.gone_on {
                0 => new += 1,
                _ => old += 1,
            }
            assert!(simulation.engine.replacing().is_none(), "{layout}: {at}");
            end(simulation);
        }
    }
    assert!(old > 5 && new > 5, "{old}, {new}");
}

/// A start without a leg raises the count of events, writes down who is there, and then that the
/// other one is out. Wherever that is cut short, the next start finds what is true, with the leg or
/// without it.
#[test]
fn the_power_may_fail_at_any_moment_of_a_start_that_lacks_a_leg() {
    for is_back in [false, true] {
        let length = Duration::from_ms(300);
        let mut scenario = life(2, "mirror", length);
        let cut = power_cut(Duration::from_ms(20), Duration::from_ms(21));
        let late = power_cut(length - MS, length);
        let dead = |until| Fault::new(1, Effect::Dead).between(Duration::from_ms(20), until);
        let back = Fault::new(1, Effect::Added { is_new: false }).between(MS, length);
        scenario.faults = vec![cut, late, dead(Duration::from_ms(200)), back];
        let moments = moments(&scenario, |simulation| {
            let at = simulation.now - Instant::ZERO;
            at > Duration::from_ms(21) && at < Duration::from_ms(40)
        });
        assert!(moments.len() > 40, "{}", moments.len());
        for at in moments.into_iter().take(80) {
            scenario.faults[1] = power_cut(at, at + MS);
            if is_back {
                scenario.faults[2] = dead(at);
            }
            let mut simulation = begin(&scenario);
            while simulation.step() {}
            end(simulation);
        }
    }
}

/// Somebody has used the array who knows of no bitmaps: what they say is worth nothing, and legs
/// are made equal everywhere. Bitmaps that are as old as the array are believed, which is how one
/// sees that it matters.
#[test]
fn a_bitmap_that_is_older_than_its_array_is_not_believed() {
    for is_stale in [true, false] {
        let length = Duration::from_ms(300);
        let mut scenario = life(2, "mirror", length);
        let [at, until] = [20_300, 21_000].map(Duration::from_us);
        scenario.faults = vec![power_cut(at, until)];
        let mut simulation = begin(&scenario);
        while !simulation.power.is_off() && simulation.step() {}
        for leg in LegSet::first(2) {
            forget_bits(&mut simulation, leg, is_stale);
        }
        while simulation.step() {}
        match simulation.finish() {
            Ok(_) => assert!(is_stale, "nothing was on its way when the power failed"),
            Err(failure) => assert!(
                !is_stale && failure.text.contains("although no bit is set"),
                "{failure}"
            ),
        }
    }
}

/// No bit is set on a leg; its bitmap says that it is of another time.
fn forget_bits(simulation: &mut Simulation, leg: LegId, is_stale: bool) {
    let sim_leg = &mut simulation.legs[leg.index()];
    let bytes = sim_leg.store.raw_bytes(BITMAP_AT, 4096);
    let mut bits = BitmapBits::load(&bytes).unwrap();
    assert!(bits.count_set() > 0, "clients were writing");
    bits.clear_all();
    let events = bits.super_block().events;
    bits.set_super(BitmapSuper {
        events: if is_stale { 1 } else { events },
        ..*bits.super_block()
    });
    let mut bytes = bits.bytes().to_vec();
    bytes.resize(4096, 0);
    sim_leg.put_raw(BITMAP_AT, &bytes);
}

/// Large requests take all the memory that there is: what must be on record before a write waits
/// for some, and comes.
#[test]
fn what_is_to_be_on_record_waits_for_memory() {
    let length = Duration::from_ms(2_000);
    let mut scenario = life(2, "mirror", length);
    let size_bytes = 64 << 20;
    scenario.array.size_bytes = size_bytes;
    scenario.array.metadata = Some(MetadataSpec {
        data_offset_bytes: 1 << 20,
        bitmap_chunk_bytes: 4096,
    });
    scenario.jobs[0].size_bytes = size_bytes;
    for rw in [Rw::RandRead, Rw::RandWrite] {
        scenario.jobs.push(Job {
            rw,
            bs_bytes: 32 << 20,
            iodepth: 8,
            thinktime: Duration::ZERO,
            ..scenario.jobs[0].clone()
        });
    }
    let at = Duration::from_ms;
    scenario.faults = vec![
        Fault::new(1, Effect::Failed).between(at(200), at(200)),
        Fault::new(1, Effect::Added { is_new: false }).between(at(300), length),
        power_cut(at(700), at(701)),
        Fault::new(0, Effect::Replaced).between(at(750), length),
        power_cut(at(1_300), at(1_301)),
    ];
    let mut simulation = begin(&scenario);
    let mut is_full = false;
    while simulation.step() {
        is_full |= !simulation.memory_waiters.is_empty();
    }
    assert!(is_full);
    end(simulation);
}

/// Two of three legs have rotted in the same sector: that is one sector that differs.
#[test]
fn a_check_need_not_count_a_sector_for_each_leg_that_differs_in_it() {
    let length = Duration::from_ms(400);
    let at = Duration::from_ms;
    let mut scenario = life(3, "mirror", length);
    scenario.jobs[0].stop = Some(FromMeasuring(20_000_000));
    let rot = |leg| Fault {
        offset_bytes: Some(65_536 + 8192),
        size_bytes: Some(512),
        ..Fault::new(leg, Effect::BitRot).between(at(30), length)
    };
    let check = Fault {
        leg: None,
        ..Fault::new(0, Effect::Scrub { repair: false }).between(at(300), at(300))
    };
    let cut = power_cut(length - MS, length);
    scenario.faults = vec![rot(0), rot(1), check, cut];
    let mut simulation = begin(&scenario);
    let mut told = BTreeSet::new();
    while simulation.step() {
        let lives = simulation.lives.as_ref().unwrap();
        told.insert(lives.before_scrub.len());
    }
    assert_eq!(told, BTreeSet::from([0, 2]));
    end(simulation);
}
