//! What is told of policies that go by averages, computed by hand.

use heliostat_types::{Duration, LegId};

use crate::beliefs::{FactValue, Weight};
use crate::testing::Bench;

fn fact(bench: &Bench, leg: usize, key: &str) -> Option<FactValue> {
    let beliefs = bench.policy.beliefs(bench.now, LegId::new(leg));
    let found = beliefs.facts.into_iter().find(|fact| fact.key == key);
    found.map(|fact| fact.value)
}

fn us(us: u64) -> Option<FactValue> {
    Some(FactValue::Time(Duration::from_us(us)))
}

fn weights(bench: &Bench) -> Vec<Option<Weight>> {
    let legs = bench.legs.iter();
    legs.map(|view| bench.policy.weight(view)).collect()
}

#[test]
fn of_latency_the_average_since_the_checkpoint() {
    let mut bench = Bench::new("latency", 2);
    let tried = Some(Weight::Time(Duration::ZERO));
    assert_eq!(weights(&bench), [tried; 2]);
    assert_eq!(fact(&bench, 0, "average_ns"), None);
    bench.complete_read(0, 100);
    bench.complete_read(0, 300);
    assert_eq!(fact(&bench, 0, "average_ns"), us(200));
    assert_eq!(
        fact(&bench, 0, "average_of_reads"),
        Some(FactValue::Count(2))
    );
    assert_eq!(fact(&bench, 0, "on_trial"), Some(FactValue::Flag(false)));
    assert_eq!(fact(&bench, 1, "on_trial"), Some(FactValue::Flag(true)));
    let average = Some(Weight::Time(Duration::from_us(200)));
    assert_eq!(weights(&bench), [average, tried]);
    assert_eq!(bench.pick(0), 1);
    assert_eq!(fact(&bench, 0, "skipped_reads"), Some(FactValue::Count(1)));
}

#[test]
fn of_queue_adaptive_the_last_full_window() {
    let mut bench = Bench::new("queue-adaptive:window_reads=2", 2);
    bench.complete_read(0, 100);
    assert_eq!(fact(&bench, 0, "average_ns"), None);
    assert_eq!(fact(&bench, 0, "window_reads"), Some(FactValue::Count(1)));
    bench.complete_read(0, 300);
    bench.now += Duration::from_us(7);
    assert_eq!(fact(&bench, 0, "average_ns"), us(200));
    assert_eq!(fact(&bench, 0, "window_ended_ns"), us(7));
    bench.now += Duration::from_ms(10_000);
    assert_eq!(fact(&bench, 0, "average_ns"), None, "too old");
}

#[test]
fn of_bcachefs_what_each_leg_is_drawn_for() {
    let mut bench = Bench::new("bcachefs", 3);
    assert_eq!(fact(&bench, 0, "drawn_share"), None);
    for (leg, us) in [(0, 200), (1, 100), (2, 400)] {
        bench.complete_read(leg, us);
    }
    // 1/4 : 1 : 1/16, of 21/16.
    for (leg, wanted) in [(0, 4.0), (1, 16.0), (2, 1.0)] {
        let Some(FactValue::Share(share)) = fact(&bench, leg, "drawn_share") else {
            panic!("leg {leg} is drawn");
        };
        assert!(
            (share - wanted / 21.0).abs() < 1e-4,
            "{share} of {wanted}/21"
        );
    }
    assert_eq!(fact(&bench, 1, "average_ns"), us(100));
}

#[test]
fn of_prequal_and_hst_the_average_and_its_age() {
    let mut bench = Bench::new("prequal", 2);
    assert_eq!(fact(&bench, 0, "average_ns"), None);
    bench.complete_read(0, 250);
    bench.now += Duration::from_us(9);
    assert_eq!(fact(&bench, 0, "average_ns"), us(250));
    assert_eq!(fact(&bench, 0, "answered_ns"), us(9));
    let mut bench = Bench::new("hst", 2);
    bench.complete_read(0, 250);
    assert_eq!(fact(&bench, 0, "too_old"), Some(FactValue::Flag(false)));
    bench.now += Duration::from_ms(3_600_000);
    assert_eq!(fact(&bench, 0, "too_old"), Some(FactValue::Flag(true)));
}

#[test]
fn weights_are_what_is_compared() {
    let mut bench = Bench::new("zfs", 2);
    bench.legs[0].rotational = true;
    bench.legs[1].reads_in_flight = 3;
    assert_eq!(
        weights(&bench),
        points(&[5, 4]),
        "a far seek is 5, on flash 1"
    );
    let mut bench = Bench::new("zfs-bonus", 2);
    bench.legs[0].rotational = true;
    bench.legs[1].reads_in_flight = 3;
    assert_eq!(weights(&bench), points(&[0, -2]), "the bonus is 5");
    let mut bench = Bench::new("spdk", 2);
    bench.legs[1].read_bytes_in_flight = 8192;
    bench.legs[1].write_bytes_in_flight = 1;
    let bytes = |bytes| Some(Weight::Bytes(bytes));
    assert_eq!(weights(&bench), [bytes(0), bytes(8192)]);
    let mut service_time = Bench::new("service-time", 2);
    service_time.legs[1] = bench.legs[1];
    assert_eq!(weights(&service_time), [bytes(0), bytes(8193)]);
    service_time.set("service-time:rot_throughput=2");
    assert_eq!(
        weights(&service_time),
        [None, None],
        "bytes alone do not decide"
    );
    assert_eq!(weights(&Bench::new("pid", 2)), [None, None]);
}

fn points(points: &[i64]) -> Vec<Option<Weight>> {
    points
        .iter()
        .map(|points| Some(Weight::Points(*points)))
        .collect()
}
