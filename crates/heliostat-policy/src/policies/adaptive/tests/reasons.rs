//! What is said of why a leg was chosen, and of what is known of it.

use heliostat_types::{Duration, LegId, OpKind};

use super::{MIB, Rig};
use crate::beliefs::{FactValue, LegBeliefs};

impl Rig {
    /// The leg that is picked, and why.
    pub(super) fn why(&mut self, offset: u64) -> (usize, &'static str) {
        let leg = self.bench.pick(offset);
        (leg, self.bench.reason())
    }

    pub(super) fn beliefs(&self, leg: usize) -> LegBeliefs {
        self.bench.policy.beliefs(self.bench.now, LegId::new(leg))
    }

    /// Rounds of eight reads of leg 0 that wait for each other, and seven more are there.
    fn saturate(&mut self) {
        for _ in 0..200 {
            for number in 0..8 {
                self.send(0, number * MIB);
            }
            for _ in 0..8 {
                self.answer(0, 100);
            }
        }
        for number in 0..7 {
            self.send(0, number * MIB);
        }
    }
}

pub(super) fn fact(beliefs: &LegBeliefs, key: &str) -> Option<FactValue> {
    let found = beliefs.facts.iter().find(|fact| fact.key == key);
    found.map(|fact| fact.value)
}

#[test]
fn it_is_new_or_the_fastest_or_as_fast() {
    let mut rig = Rig::new("adaptive", 2);
    assert_eq!(rig.why(0), (0, "never read yet"));
    rig.teach(20, &[100, 8_000]);
    assert_eq!(rig.why(5 * MIB), (0, "predicted least"));
    let mut rig = Rig::new("adaptive", 2);
    rig.teach(20, &[100, 100]);
    assert_eq!(rig.why(4 * MIB), (0, "predicted least"));
    assert_eq!(rig.why(6 * MIB), (1, "equal to the least"));
}

#[test]
fn the_fastest_is_saturated_whatever_is_beside_it() {
    let mut rig = Rig::new("adaptive", 2);
    rig.teach(20, &[100, 2_000]);
    rig.saturate();
    assert_eq!(rig.why(999 * MIB), (1, "the best is saturated"));
    // Two disks that take turns, since they are written; but flash would take less.
    let mut rig = Rig::new("adaptive", 3);
    for leg in 1..3 {
        rig.bench.legs[leg].rotational = true;
    }
    for number in 0..20 {
        for (leg, us) in [(0, 100), (1, 12_000), (2, 12_000)] {
            rig.bench.pick(number * 999 * MIB);
            rig.serve(leg, number * 999 * MIB, us);
        }
    }
    rig.saturate();
    let (leg, reason) = rig.why(999 * MIB);
    assert!(
        leg > 0 && reason == "the best is saturated",
        "{leg}: {reason}"
    );
}

#[test]
fn a_disk_is_nearest_only_among_others() {
    let mut rig = Rig::new("adaptive", 2);
    for leg in 0..2 {
        rig.bench.legs[leg].rotational = true;
    }
    for number in 0..100 {
        let offset = number * 999 * MIB;
        rig.serve(0, offset, 10_000);
        rig.serve(1, offset, 22_000);
        for number in 0..4 {
            rig.send(0, offset + number * MIB);
        }
        for us in [10_000, 6_000, 6_000, 6_000] {
            rig.answer(0, us);
        }
    }
    assert_eq!(
        rig.why(0),
        (0, "predicted least"),
        "the other takes twice as long"
    );
    rig.send(0, 0);
    assert_eq!(rig.why(99 * MIB), (1, "adds most throughput"));

    let mut rig = Rig::disks(3);
    for (leg, place) in [(0, 10), (1, 50), (2, 90)] {
        rig.serve(leg, place * 1_000_000_000, 11_000);
    }
    assert_eq!(rig.why(40_000_000_000), (1, "nearest arm"));
    for number in 0..32 {
        for leg in 0..3 {
            rig.bench.dispatch(leg, OpKind::Write, number * MIB, 4096);
        }
    }
    assert_eq!(rig.why(40_000_000_000), (0, "disks take turns"));
}

#[test]
fn shares_of_clients_count_more_than_arms() {
    let mut rig = Rig::disks(2);
    let outstanding = |rig: &mut Rig, ms: [u64; 2]| {
        for (view, ms) in rig.bench.legs.iter_mut().zip(ms) {
            view.own_outstanding = Some(Duration::from_ms(ms));
        }
    };
    for (leg, place) in [(0, 10), (1, 90)] {
        rig.serve(leg, place * 1_000_000_000, 11_000);
    }
    outstanding(&mut rig, [10, 0]);
    assert_eq!(rig.why(20_000_000_000), (0, "nearest arm"), "it is idle");
    for number in 0..3 {
        rig.send(0, 10_000_000_000 + number * MIB);
        rig.send(1, 90_000_000_000 + number * MIB);
    }
    assert_eq!(rig.why(20_000_000_000), (1, "by shares of clients"));
    outstanding(&mut rig, [10, 20]);
    assert_eq!(rig.why(80_000_000_000), (0, "by shares of clients"));
    for view in &mut rig.bench.legs {
        view.own_outstanding = None;
    }
    assert_eq!(rig.why(80_000_000_000), (1, "nearest arm"));
}

#[test]
fn what_is_known_of_a_leg() {
    let mut rig = Rig::new("adaptive", 2);
    assert_eq!(fact(&rig.beliefs(0), "class"), None, "nobody has seen it");
    assert!(rig.beliefs(0).curves.is_empty());
    rig.bench.legs[1].rotational = true;
    rig.pass_over(1, 0);
    rig.teach(20, &[100, 8_000]);
    for number in 0..3 {
        rig.pass_over(1, 0);
        rig.serve(0, number * 999 * MIB, 100);
    }
    rig.bench.now += Duration::from_us(50);
    let [flash, disk] = [0, 1].map(|leg| rig.beliefs(leg));
    assert_eq!(fact(&flash, "class"), Some(FactValue::Word("flash")));
    assert_eq!(fact(&disk, "class"), Some(FactValue::Word("rotational")));
    assert_eq!(fact(&flash, "skipped_reads"), Some(FactValue::Count(0)));
    assert_eq!(fact(&disk, "skipped_reads"), Some(FactValue::Count(3)));
    let age = FactValue::Time(Duration::from_us(50));
    assert_eq!(fact(&flash, "answered_ns"), Some(age));
    assert_eq!(fact(&disk, "slow_times"), None);
    let [at_one, ..] = &disk.curves[0].points[..] else {
        panic!("no points: {disk:?}");
    };
    assert_eq!((at_one.load, at_one.seen), (1, true));
    assert_eq!(at_one.time, Duration::from_us(8_000));
}
