//! The search against functions whose best point is known.

use std::convert::Infallible;

use heliostat_types::RandomStream;

use super::{Method, Point, Search, grid_size, latin_hypercube, search};

/// Runs a search for the most of `function`; answers it and its best point.
fn best_of(
    axes: &[Vec<u64>],
    default: &[u64],
    points_max: Option<usize>,
    seed: u64,
    function: &dyn Fn(&[u64]) -> f64,
) -> (Search, Point) {
    let mut prng = RandomStream::new(seed, "tune", 0);
    let mut evaluate = |points: &[Point]| -> Result<Vec<f64>, Infallible> {
        Ok(points.iter().map(|point| function(point)).collect())
    };
    let Ok(found) = search(axes, default, points_max, &mut prng, &mut evaluate);
    let by_score = |a: &&Point, b: &&Point| function(a).total_cmp(&function(b));
    let best = found.points.iter().max_by(by_score).unwrap().clone();
    (found, best)
}

fn square(value: u64, centre: u64) -> f64 {
    let distance = value.abs_diff(centre) as f64;
    distance * distance
}

fn tens(count: usize) -> Vec<Vec<u64>> {
    vec![(0..10).collect(); count]
}

#[test]
fn a_grid_is_tried_whole_and_the_default_first() {
    let axes = vec![vec![1, 2, 3], vec![7, 9]];
    let (found, best) = best_of(&axes, &[2, 9], None, 1, &|point| -square(point[0], 3));
    assert_eq!(found.method, Method::Grid);
    assert_eq!(
        found.points,
        [[2, 9], [1, 7], [1, 9], [2, 7], [3, 7], [3, 9]].map(Vec::from)
    );
    assert_eq!(best[0], 3);
    // A default beside the grid is one more point.
    let (found, _) = best_of(&axes, &[5, 7], Some(7), 1, &|_| 0.0);
    assert_eq!(
        (found.points.len(), found.points[0].clone()),
        (7, vec![5, 7])
    );
    assert_eq!(
        (grid_size(&axes, &[2, 9]), grid_size(&axes, &[5, 7])),
        (6, 7)
    );
}

#[test]
fn the_best_of_independent_tunables_is_found_exactly() {
    let axes = tens(5);
    let centre = [3, 9, 0, 6, 5];
    let function = |point: &[u64]| -> f64 {
        let pairs = point.iter().zip(centre);
        -pairs
            .map(|(&value, centre)| square(value, centre))
            .sum::<f64>()
    };
    for seed in 0..20 {
        let (found, best) = best_of(&axes, &[0; 5], Some(150), seed, &function);
        assert_eq!(best, centre, "seed {seed}");
        assert_eq!(found.method, Method::Sampled { grid: 100_000 });
        assert!(found.points.len() <= 150);
        // The slices through the best are there, as plots need them.
        for axis in 0..5 {
            for value in 0..10 {
                let mut slice = centre.to_vec();
                slice[axis] = value;
                assert!(found.points.contains(&slice), "seed {seed}: {slice:?}");
            }
        }
    }
}

#[test]
fn tunables_that_act_together_need_more_starts() {
    // A ridge along the diagonal: from most points no tunable alone leads to the top.
    let axes = tens(3);
    let function = |point: &[u64]| {
        let along = square(point[0] + point[1] + point[2], 21);
        let across = square(point[0], point[1]) + square(point[1], point[2]);
        -along - 3.0 * across
    };
    let found = |seed| best_of(&axes, &[0; 3], Some(300), seed, &function).1 == [7, 7, 7];
    assert!((0..20).all(found), "of 1000 points 300 suffice");
}

#[test]
fn a_flat_function_ends_within_the_budget_and_no_point_is_tried_twice() {
    let axes = tens(4);
    for most in [1, 2, 7, 100] {
        let (found, _) = best_of(&axes, &[4; 4], Some(most), 3, &|_| 1.0);
        assert_eq!(found.points.len(), most);
        assert_eq!(found.points[0], [4; 4]);
        let mut points = found.points.clone();
        points.sort_unstable();
        points.dedup();
        assert_eq!(points.len(), most);
    }
    // Nearly all of a small grid.
    let axes = vec![vec![0, 1], vec![0, 1], vec![0, 1]];
    let (found, _) = best_of(&axes, &[0; 3], Some(7), 1, &|_| 1.0);
    assert_eq!(found.points.len(), 7);
}

#[test]
fn equal_seeds_try_equal_points_and_batches_do_not_matter() {
    let axes = tens(4);
    let function = |point: &[u64]| -square(point[0] * point[1], 12) - square(point[2], point[3]);
    let points = |seed| best_of(&axes, &[1; 4], Some(90), seed, &function).0.points;
    assert_eq!(points(5), points(5));
    assert_ne!(points(5), points(6));
}

#[test]
fn errors_end_the_search() {
    let mut prng = RandomStream::new(1, "tune", 0);
    let mut calls = 0;
    let mut evaluate = |points: &[Point]| {
        calls += 1;
        if calls == 2 {
            return Err("no");
        }
        Ok(vec![0.0; points.len()])
    };
    let found = search(&tens(3), &[0; 3], Some(50), &mut prng, &mut evaluate);
    assert_eq!((found, calls), (Err("no"), 2));
}

#[test]
fn every_value_comes_up_equally_often_in_a_latin_hypercube() {
    let axes = vec![vec![10, 20, 30], (0..12).collect()];
    let mut prng = RandomStream::new(1, "tune", 0);
    let points = latin_hypercube(&axes, 12, &mut prng);
    for (axis, times) in [(0, 4), (1, 1)] {
        for value in &axes[axis] {
            let count = points.iter().filter(|point| point[axis] == *value).count();
            assert_eq!(count, times, "value {value}");
        }
    }
}
