//! What a curve says of loads that were seen, and of others.

use heliostat_types::{Duration, Instant};

use crate::policies::adaptive::curve::Curve;
use crate::policies::adaptive::leg::Numbers;

#[test]
fn a_curve_is_as_fast_below_and_above_until_it_is_seen() {
    let mut curve = Curve::default();
    curve.learn(4.0, 400.0);
    assert_eq!(curve.at(1.0), 100.0);
    assert_eq!(curve.at(4.0), 400.0);
    assert_eq!(curve.at(64.0), 400.0);
    assert_eq!(curve.point(4.0).gain(), 1.0);
}

#[test]
fn a_curve_learns_lines_between_powers_of_two() {
    let mut curve = Curve::default();
    for _ in 0..2_000 {
        for load in [1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0] {
            curve.learn(load, load * 100.0);
        }
    }
    for load in [1.0, 1.7, 2.5, 5.0, 7.0] {
        assert!((curve.at(load) - load * 100.0).abs() < 1.0, "{load}");
        assert!(curve.point(load).gain().abs() < 0.01, "{load}");
    }
}

/// A guess of what fewer take is less than what a drive does then, and whoever holds a drive to it
/// takes it for slow.
#[test]
fn what_fewer_take_at_most_is_told_by_reads_that_met_about_as_many() {
    let mut curve = Curve::default();
    curve.learn(86.0, 965.0);
    curve.learn(6.0, 212.0);
    for _ in 0..20 {
        curve.learn(9.5, 240.0);
    }
    assert!(curve.at(4.0) < 125.0, "{}", curve.at(4.0));
    assert!(curve.longest(1.0) > 200.0, "{}", curve.longest(1.0));
    curve.learn(4.0, 110.0);
    assert!(curve.longest(1.0) < 125.0, "{}", curve.longest(1.0));
    // Over a restart as well.
    let mut numbers = Vec::new();
    curve.learn(600.0, 9_000.0);
    curve.keep(&mut numbers);
    let mut recalled = Curve::recalled(&mut Numbers(&numbers)).expect("one");
    recalled.learn(600.0, 9_000.0);
    assert!(recalled.longest(1.0) < 300.0, "{}", recalled.longest(1.0));
}

#[test]
fn what_was_never_seen_may_take_longer_than_is_hoped_for() {
    let mut curve = Curve::default();
    curve.learn(1.0, 100.0);
    assert!((curve.longest(8.0) - 800.0).abs() < 1.0);
    assert!(
        (curve.at(8.0) - 100.0).abs() < 1.0,
        "but that is not hoped for"
    );
    curve.learn(16.0, 1_000.0);
    let deeper = curve.at(16.0);
    assert!((curve.longest(4.0) - deeper).abs() < 1.0);
    assert!(curve.at(4.0) < 0.9 * deeper, "but that is not hoped for");
    // All that is beyond the last knot is learned there, and is known.
    for _ in 0..500 {
        curve.learn(30_000.0, 500_000.0);
    }
    assert!(curve.longest(30_000.0) < 1.1 * curve.at(30_000.0));
}

#[test]
fn news_at_one_depth_correct_all_others() {
    let mut curve = Curve::default();
    for _ in 0..100 {
        for load in [1.0, 2.0, 4.0, 8.0] {
            curve.learn(load, load * 1_000.0);
        }
    }
    for _ in 0..2_000 {
        curve.learn(1.0, 100.0);
    }
    assert!((curve.at(1.0) - 100.0).abs() < 1.0);
    // No more than twice as long per doubling.
    assert!(curve.at(8.0) < 801.0);
}

/// A curve of a drive that ends 1.4 reads in the time of one by itself, at loads up to 96.
fn drive() -> (Curve, impl Fn(f32) -> f32) {
    let mut curve = Curve::default();
    let ns = |load: f32| f32::max(45_000.0, load * 700.0);
    for load in [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 96.0] {
        for _ in 0..300 {
            curve.answered(Instant::ZERO, load, ns(load), false);
        }
    }
    (curve, ns)
}

#[test]
fn where_all_reads_meet_one_load_a_curve_is_a_line_from_the_one_below() {
    for turns in [false, true] {
        let (mut curve, ns) = drive();
        // Reads that were sent at lesser loads while it grew took longer than these do.
        for _ in 0..64 {
            curve.answered(Instant::ZERO, 120.0, ns(192.0), turns);
        }
        assert!(curve.point(192.0).gain() > 0.5, "a further read is free");
        for _ in 0..10_000 {
            curve.answered(Instant::ZERO, 192.0, ns(192.0), turns);
        }
        let point = curve.point(192.0);
        assert!((point.time - ns(192.0)).abs() < 1.0, "{point:?}");
        // What an arm takes at most at once is less than a line.
        assert_eq!(point.gain() < 0.2, !turns, "{point:?}");
    }
}

#[test]
fn what_was_seen_at_a_knot_is_not_bent() {
    let mut curve = Curve::default();
    for load in [8.0, 16.0, 32.0] {
        for _ in 0..300 {
            curve.answered(Instant::ZERO, load, f32::min(load * 12.5, 200.0), false);
        }
    }
    let before = curve.at(32.0);
    for _ in 0..10_000 {
        curve.answered(Instant::ZERO, 16.0, 200.0, false);
    }
    assert_eq!(curve.at(32.0), before);
}

#[test]
fn what_an_idle_leg_takes_is_old_where_none_was_met_for_long() {
    let mut curve = Curve::default();
    let mut now = Instant::ZERO;
    let learn = |curve: &mut Curve, now, reads, times: f32| {
        for _ in 0..reads {
            for (load, ns) in [(36.0, 120_000.0), (60.0, 122_000.0)] {
                curve.answered(now, load, ns * times, false);
            }
        }
    };
    for _ in 0..300 {
        curve.answered(now, 9.0, 100_000.0, false);
    }
    learn(&mut curve, now, 300, 1.0);
    learn(&mut curve, now, 2_000, 3.0);
    let idle = |curve: &Curve, now, turns| curve.point_of_late(now, 40.0, turns).idle;
    let before = idle(&curve, now, false);
    now += Duration::from_secs(2);
    assert!(idle(&curve, now, false) > 200_000.0, "{curve:?}");
    assert_eq!(idle(&curve, now, true), before, "a disk");
    curve.answered(now, 9.0, 100_000.0, false);
    assert!(idle(&curve, now, false) < 1.1 * before, "{curve:?}");
}

#[test]
fn what_was_not_met_of_late_may_become_shorter_without_what_was() {
    let mut curve = Curve::default();
    for _ in 0..100 {
        for load in [1.0, 2.0, 4.0, 8.0] {
            curve.learn(load, 100.0 + 10.0 * load);
        }
    }
    assert!(!curve.is_unmet(8.0));
    assert!(curve.is_unmet(16.0), "nor ever before");
    for _ in 0..65 {
        curve.learn(2.0, 120.0);
    }
    assert!(!curve.is_unmet(2.9));
    assert!(
        curve.is_unmet(4.0) && curve.is_unmet(3.0),
        "the nearest one"
    );
    let before = [1.0, 2.0].map(|load| curve.at(load));
    curve.stretch_from(4.0, 0.8);
    assert_eq!(before, [1.0, 2.0].map(|load| curve.at(load)));
    for (load, ns) in [(4.0, 112.0), (8.0, 144.0)] {
        assert!((curve.at(load) - ns).abs() < 1.0, "{}", curve.at(load));
    }
    // It is doubted: one answer tells more than a 64th.
    let before = curve.at(8.0);
    curve.learn(8.0, before + 64.0);
    assert!(curve.at(8.0) > before + 4.0, "{}", curve.at(8.0));
}

#[test]
fn without_its_loads_a_curve_is_what_was_seen_at_the_least_of_them() {
    for (loads, kept) in [([1.0, 8.0], 400.0), ([4.0, 8.0], 1_600.0)] {
        let mut curve = Curve::default();
        for load in loads {
            for _ in 0..300 {
                curve.learn(load, load * 400.0);
            }
        }
        curve.keep_idle_only();
        for load in [1.0, 2.0, 100.0] {
            assert!((curve.at(load) - kept).abs() < 1.0, "{load} {curve:?}");
        }
        assert!(curve.is_beyond(1.5), "none was seen");
        curve.learn(8.0, 9_000.0);
        assert!(curve.at(8.0) > 2_000.0, "the next ones count");
    }
}
