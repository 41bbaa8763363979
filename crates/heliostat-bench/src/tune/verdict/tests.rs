//! Gains, noise and plateaus, from ratios written down by hand.

use heliostat_types::{Prng as _, RandomStream};

use super::Verdict;
use crate::tune::score::testing::points;

fn verdict(ratios: &[&[f64]]) -> Verdict {
    Verdict::of(&points(ratios).1)
}

#[test]
fn a_gain_above_the_noise_is_one() {
    let verdict = verdict(&[&[1.0; 5], &[1.08, 1.09, 1.10, 1.11, 1.12], &[0.9; 5]]);
    assert_eq!((verdict.best, verdict.gains()), (1, true));
    let margin = verdict.over_default;
    assert!((margin.gain - 0.10).abs() < 1e-9);
    assert!((margin.spread.unwrap() - (1.12 / 1.08 - 1.0)).abs() < 1e-9);
    assert!((margin.noise.unwrap() - 0.0329).abs() < 1e-4, "1.037^0.889");
    assert_eq!(verdict.plateau, [1]);
    assert_eq!(verdict.beyond.unwrap().0, 0);
}

#[test]
fn a_gain_below_the_noise_is_none_and_the_default_is_on_the_plateau() {
    let verdict = verdict(&[&[1.0; 5], &[0.98, 1.0, 1.02, 1.03, 1.05], &[0.5; 5]]);
    assert_eq!((verdict.best, verdict.gains()), (1, false));
    assert_eq!(verdict.plateau, [1, 0]);
    assert_eq!(verdict.beyond.unwrap().0, 2);
}

/// The same figures count for more where more seeds say so.
#[test]
fn more_seeds_need_less() {
    let gains = |times: usize| {
        let ratios = [0.99, 1.01, 1.02].repeat(times);
        verdict(&[&vec![1.0; 3 * times], &ratios]).gains()
    };
    assert!(!gains(1) && !gains(2));
    assert!(gains(4) && gains(20));
}

#[test]
fn points_that_share_their_luck_are_told_apart_all_the_same() {
    // Both differ by 30 % from seed to seed, and 2 is 10 % better than 1 with each.
    let luck = [1.1, 1.2, 1.3, 1.35, 1.4];
    let better = luck.map(|ratio| ratio * 1.1);
    let verdict = verdict(&[&[1.0; 5], &luck, &better]);
    let (next, margin) = verdict.next.unwrap();
    assert_eq!((verdict.best, next, margin.is_real()), (2, 1, true));
    assert!((margin.gain - 0.1).abs() < 1e-9 && margin.spread.unwrap() < 1e-9);
}

#[test]
fn equal_points_are_a_plateau_and_the_default_is_named_first() {
    let verdict = verdict(&[&[1.0, 1.0], &[1.0, 1.0], &[1.0, 1.0]]);
    assert_eq!((verdict.best, verdict.plateau.len()), (0, 3));
    assert_eq!(verdict.beyond, None);
    assert!(!verdict.gains());
}

#[test]
fn less_than_a_thousandth_is_nothing_even_where_seeds_agree() {
    assert!(!verdict(&[&[1.0, 1.0], &[1.0005, 1.0005]]).gains());
    assert!(verdict(&[&[1.0, 1.0], &[1.0015, 1.0015]]).gains());
}

#[test]
fn the_default_alone_is_the_best() {
    let verdict = verdict(&[&[1.0]]);
    assert_eq!(
        (verdict.best, verdict.next, verdict.gains()),
        (0, None, false)
    );
}

/// Where nothing differs but luck, about one comparison in 200 is called a gain: one in a hundred
/// is beyond the noise, and half of these are losses.
#[test]
fn luck_is_rarely_called_a_gain() {
    for seeds in [3, 5, 10] {
        let mut gains = 0;
        for case in 0..4_000 {
            let mut stream = RandomStream::new(case, "luck", seeds as u64);
            // The sum of twelve is as good as normal.
            let mut luck = || (0..12).map(|_| stream.unit_f64()).sum::<f64>() - 6.0;
            let ratios: Vec<f64> = (0..seeds).map(|_| 1.0 + luck() / 50.0).collect();
            let (_, points) = points(&[&vec![1.0; seeds], &ratios]);
            let margin = super::Margin::of(&points[1], &points[0]);
            gains += u32::from(margin.is_real());
        }
        assert!(
            (8..=40).contains(&gains),
            "{gains} of 4000 with {seeds} seeds"
        );
    }
}
