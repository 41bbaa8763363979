use heliostat_types::{Duration, Instant};

use super::{BUCKETS, History, weights};
use crate::testing::Bench;

const MS: u64 = 1_000_000;

/// Operations end one second apart, so that none overlaps.
fn feed(bench: &mut Bench, leg: usize, us: u64, times: u32) {
    for _ in 0..times {
        bench.now += Duration::from_secs(1);
        bench.complete_read(leg, us);
    }
}

#[test]
fn weights_are_powers_of_the_base() {
    let told = weights(972);
    assert_eq!(
        told[..3],
        [972, 922, 875],
        "972 * 972 / 1024 is 922.6, and so on"
    );
    assert_eq!(told[BUCKETS - 1], 0);
    assert_eq!(weights(0), [0; BUCKETS]);
}

#[test]
fn a_short_sample_moves_the_average_by_five_percent() {
    let mut history = History::EMPTY;
    history.note_sample(MS, &weights(972));
    // (1 * 972 + 1,000,000 * 52) / 1024.
    assert_eq!(history.service_time, 50_782);
    history.note_sample(MS, &weights(972));
    // (50,782 * 972 + 1,000,000 * 52) / 1024.
    assert_eq!(history.service_time, 98_984);
}

#[test]
fn a_very_long_sample_replaces_the_average() {
    let mut history = History::EMPTY;
    history.note_sample(63 << 24, &weights(972));
    assert_eq!(history.service_time, 63 << 24);
}

#[test]
fn of_busy_legs_the_cheapest_wins() {
    let mut bench = Bench::new("hst:base_weight=0", 2);
    feed(&mut bench, 0, 10_000, 1);
    feed(&mut bench, 1, 1_000, 1);
    // Both averages are fresh for twice their length: 20 ms and 2 ms. Go on at once.
    bench.legs[0].reads_in_flight = 1;
    bench.legs[1].reads_in_flight = 8;
    // Leg 0 finished a second ago and is stale, but it is not the winner.
    assert_eq!(bench.pick(0), 1, "2 * 10 ms against 9 * 1 ms");
    feed(&mut bench, 0, 10_000, 1);
    feed(&mut bench, 1, 1_000, 1);
    bench.complete_read(0, 10_000);
    bench.legs[1].reads_in_flight = 20;
    assert_eq!(bench.pick(0), 0, "2 * 10 ms against 21 * 1 ms");
}

#[test]
fn a_stale_winner_is_not_believed() {
    let mut bench = Bench::new("hst:base_weight=0", 2);
    feed(&mut bench, 1, 1_000, 1);
    feed(&mut bench, 0, 10_000, 1);
    // Leg 1 would win by 9 ms against 20, but its average is a second old.
    bench.legs[0].reads_in_flight = 1;
    bench.legs[1].reads_in_flight = 8;
    assert_eq!(bench.pick(0), 0, "fewer in flight");
}

#[test]
fn an_idle_leg_whose_average_is_stale_is_tried() {
    let mut bench = Bench::new("hst:base_weight=0", 2);
    feed(&mut bench, 0, 10_000, 1);
    feed(&mut bench, 1, 1_000, 1);
    bench.legs[1].reads_in_flight = 1;
    assert_eq!(bench.pick(0), 0, "a second is more than 20 ms");
}

#[test]
fn of_idle_legs_the_one_stale_first_wins() {
    let mut bench = Bench::new("hst:base_weight=0", 2);
    // With two candidates: leg 0 is stale after 20 ms, leg 1 after 2 ms.
    assert_eq!(bench.pick(0), 0);
    bench.now = Instant::from_ns(2_000 * MS);
    bench.complete_read(0, 10_000);
    bench.complete_read(1, 1_000);
    for _ in 0..9 {
        assert_eq!(bench.pick(0), 1);
        bench.now += Duration::from_ms(2);
        bench.complete_read(1, 1_000);
    }
    // Leg 1 finished at 18 ms: stale after 20 ms, as leg 0. Leg 0 was picked longer ago.
    assert_eq!(bench.pick(0), 0);
}

#[test]
fn operations_that_overlap_count_once() {
    let mut bench = Bench::new("hst:base_weight=0", 2);
    bench.complete_read(0, 10_000);
    bench.now += Duration::from_ms(1);
    // It took 10 ms as well, but the leg was busy with the other one for 9 of them.
    bench.complete_read(0, 10_000);
    bench.complete_read(1, 1_500);
    bench.legs[0].reads_in_flight = 1;
    bench.legs[1].reads_in_flight = 1;
    assert_eq!(bench.pick(0), 0, "2 * 1 ms against 2 * 1.5 ms");
}

#[test]
fn within_the_threshold_the_fewest_in_flight_decide() {
    let mut bench = Bench::new("hst:base_weight=0,threshold_multiplier=10", 2);
    bench.complete_read(0, 10_000);
    bench.complete_read(1, 1_000);
    bench.legs[1].reads_in_flight = 1;
    assert_eq!(bench.pick(0), 0);
    bench.set("hst:base_weight=0,threshold_multiplier=9");
    bench.legs[0].reads_in_flight = 1;
    bench.legs[1].reads_in_flight = 2;
    assert_eq!(bench.pick(0), 1, "2 * 10 ms against 3 * 1 ms");
}

#[test]
fn equal_legs_take_turns() {
    let mut bench = Bench::new("hst", 3);
    let picks: Vec<usize> = (0..4).map(|_| bench.pick(0)).collect();
    assert_eq!(picks, [0, 1, 2, 0]);
}

#[test]
fn failed_operations_teach_nothing_but_are_not_tried_again_at_once() {
    let mut bench = Bench::new("hst:base_weight=0", 2);
    assert_eq!(bench.pick(0), 0);
    bench.now += Duration::from_secs(1);
    bench.complete_read(0, 10_000);
    bench.complete_read(1, 1_000);
    bench.now += Duration::from_secs(1);
    bench.fail_read(0, 1);
    // Leg 0 counts 10 ms still, and is stale 20 ms from now only.
    assert_eq!(bench.pick(0), 1);
}
