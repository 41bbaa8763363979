//! Sentences for what may come of tuning.

use expect_test::{Expect, expect};
use heliostat_policy::PolicySpec;
use heliostat_sim::Scenario;

use super::sentences;
use crate::report::format::wrapped;
use crate::tune::score::testing::points;
use crate::tune::{Method, Tuned, TunedOn, Tuning, Verdict};

/// What is said of points `rotating_inc=0, 1, ...` with these ratios to the default, 0, by seed.
fn check(ratios: &[&[f64]], expected: &Expect) {
    let (axes, points) = points(ratios);
    let tuning = Tuning {
        on: TunedOn::Scenarios(vec![Scenario::new("small", &["ram"], 1 << 30).unwrap()]),
        policy: PolicySpec::parse("zfs").unwrap(),
        axes,
        objective: "iops".parse().unwrap(),
        repeats: ratios[0].len() as u64,
        runs_max: None,
        threads: 1,
    };
    let tuned = Tuned {
        method: Method::Grid,
        verdict: Verdict::of(&points),
        points,
    };
    let told = sentences(&tuning, &tuned);
    let lines: Vec<String> = told.iter().map(|told| wrapped(told, 70)).collect();
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn a_gain_is_told_with_its_margin() {
    check(
        &[
            &[1.0; 5],
            &[1.09, 1.09, 1.10, 1.11, 1.12],
            &[1.2, 1.2, 1.21, 1.22, 1.22],
            &[0.9; 5],
        ],
        &expect![[r#"
            Best for read IOPS: rotating_inc=2, 21.0 % better than the default,
            rotating_inc=0 (noise: 1.5 %).
            It is 10.0 % better than the next best, rotating_inc=1 (noise: 0.9 %).
            Tried all 4 points in 1 scenario with 5 seeds: 20 runs."#]],
    );
}

#[test]
fn noise_is_called_noise() {
    check(
        &[&[1.0; 5], &[0.98, 1.0, 1.01, 1.02, 1.03], &[0.9; 5]],
        &expect![[r#"
            Nothing is gained: the best for read IOPS, rotating_inc=1, is 1.0 %
            better than the default, rotating_inc=0 (within noise, which is
            4.5 %).
            It is 12.2 % better than the next best but that, rotating_inc=2
            (noise: 4.5 %).
            A plateau: 2 of 3 points are as good but for noise: rotating_inc=0, 1.
            Tried all 3 points in 1 scenario with 5 seeds: 15 runs."#]],
    );
    check(
        &[&[1.0; 5], &[1.0; 5], &[1.0; 5]],
        &expect![[r#"
            Nothing is gained: the default, rotating_inc=0, is the best for read
            IOPS.
            It is as good as the next best, rotating_inc=1.
            All 3 points are as good as each other but for noise: what was swept
            does not matter here.
            Tried all 3 points in 1 scenario with 5 seeds: 15 runs."#]],
    );
    check(
        &[&[1.0; 5], &[0.7, 0.9, 0.9, 0.9, 0.9]],
        &expect![[r#"
            Nothing is gained: the default, rotating_inc=0, is the best for read
            IOPS.
            It is 11.1 % better than the next best, rotating_inc=1 (within noise,
            which is 25.0 %).
            All 2 points are as good as each other but for noise: what was swept
            does not matter here.
            Tried all 2 points in 1 scenario with 5 seeds: 10 runs."#]],
    );
}

#[test]
fn plateaus_and_ends_are_told() {
    let near = [1.5, 1.51, 1.51, 1.52, 1.52];
    let alike = [1.51, 1.5, 1.51, 1.51, 1.53];
    check(
        &[&[1.0; 5], &near, &alike, &[1.2; 5], &near],
        &expect![[r#"
            Best for read IOPS: rotating_inc=1, 51.0 % better than the default,
            rotating_inc=0 (noise: 1.2 %).
            It is as good as the next best, rotating_inc=2, and 25.8 % better than
            the best beyond that, rotating_inc=3 (noise: 1.2 %).
            A plateau: 3 of 5 points are as good but for noise: rotating_inc=1, 2,
            4.
            Tried all 5 points in 1 scenario with 5 seeds: 25 runs."#]],
    );
    check(
        &[&[1.0; 5], &near, &[1.7; 5]],
        &expect![[r#"
            Best for read IOPS: rotating_inc=2, 70.0 % better than the default,
            rotating_inc=0 (noise: 0.1 %).
            It is 12.6 % better than the next best, rotating_inc=1 (noise: 1.2 %).
            The best is at the end of what was swept of rotating_inc: look further
            with --set.
            Tried all 3 points in 1 scenario with 5 seeds: 15 runs."#]],
    );
    check(
        &[&[1.0; 5], &[30.0, 31.0, 32.0, 33.0, 34.0]],
        &expect![[r#"
            Best for read IOPS: rotating_inc=1, 32 times better than the default,
            rotating_inc=0 (noise: 11.8 %).
            The best is at the end of what was swept of rotating_inc: look further
            with --set.
            Tried all 2 points in 1 scenario with 5 seeds: 10 runs."#]],
    );
}

#[test]
fn one_seed_says_nothing_about_noise() {
    check(
        &[&[1.0], &[1.5]],
        &expect![[r#"
            Best for read IOPS: rotating_inc=1, 50.0 % better than the default,
            rotating_inc=0 (with one seed, which says nothing about noise: try
            --seeds 5).
            The best is at the end of what was swept of rotating_inc: look further
            with --set.
            Tried all 2 points in 1 scenario with 1 seed: 2 runs."#]],
    );
}
