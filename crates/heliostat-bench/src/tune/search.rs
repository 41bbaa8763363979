//! Which points are tried: all of a grid, or those that a search picks within a budget.
//!
//! The search samples the grid with a Latin hypercube, in which every value of every tunable comes
//! up about equally often, and goes downhill from the best samples, one tunable at a time: all
//! values of that tunable are tried with the others held fast, and the best is kept. Where no
//! tunable alone makes it better, the next best sample is the start. That finds the best exactly
//! where tunables act independently of each other, and leaves behind, for every optimum, the slices
//! through it. What is tried depends on scores and the random stream alone.

use std::collections::{BTreeMap, BTreeSet};

use heliostat_types::Prng;

/// A value for each tunable that is swept.
pub type Point = Vec<u64>;

/// Gives each of the points it is handed a score; more is better.
pub type Evaluate<'a, E> = dyn FnMut(&[Point]) -> Result<Vec<f64>, E> + 'a;

/// What was tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// How it was chosen.
    pub method: Method,
    /// The points in the order in which they were tried, each once; the default is the first.
    pub points: Vec<Point>,
}

/// How points are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// All that there are.
    Grid,
    /// The most promising of so many.
    Sampled {
        /// How many there are.
        grid: u64,
    },
}

/// This part of the budget goes into samples, the rest into going downhill from them.
const SAMPLED_PART: usize = 3;
/// So many rounds of samples that bring nothing new end a search.
const ROUNDS_MAX: usize = 64;

/// How many points the grid of `axes` has, with `default` where that is not one of them.
#[must_use]
pub fn grid_size(axes: &[Vec<u64>], default: &[u64]) -> u64 {
    let sizes = axes.iter().map(|axis| axis.len() as u64);
    let grid = sizes.fold(1, u64::saturating_mul);
    let mut pairs = axes.iter().zip(default);
    let has_default = pairs.all(|(axis, value)| axis.contains(value));
    grid.saturating_add(u64::from(!has_default))
}

/// Tries points of the grid of `axes`, and `default` before all others, as
/// `evaluate` scores them. At most `points_max` are tried, all where there are no more than that.
///
/// # Errors
/// The first of `evaluate`.
pub fn search<E>(
    axes: &[Vec<u64>],
    default: &[u64],
    points_max: Option<usize>,
    prng: &mut dyn Prng,
    evaluate: &mut Evaluate<'_, E>,
) -> Result<Search, E> {
    let grid = grid_size(axes, default);
    let points_max = points_max.filter(|&most| (most as u64) < grid);
    let mut searcher = Searcher {
        axes,
        points_max: points_max.unwrap_or(usize::MAX),
        scores: BTreeMap::new(),
        order: Vec::new(),
        evaluate,
    };
    let method = if points_max.is_some() {
        searcher.sample_and_descend(default, prng)?;
        Method::Sampled { grid }
    } else {
        let mut points = vec![default.to_vec()];
        points.extend(all_points(axes));
        searcher.ask(points)?;
        Method::Grid
    };
    Ok(Search {
        method,
        points: searcher.order,
    })
}

/// Every point of the grid, the last tunable running fastest.
fn all_points(axes: &[Vec<u64>]) -> Vec<Point> {
    let mut points: Vec<Point> = vec![Vec::new()];
    for axis in axes {
        let longer = points.iter().flat_map(|point| {
            axis.iter().map(move |&value| {
                let mut longer = point.clone();
                longer.push(value);
                longer
            })
        });
        points = longer.collect();
    }
    points
}

struct Searcher<'a, 'b, E> {
    axes: &'a [Vec<u64>],
    points_max: usize,
    scores: BTreeMap<Point, f64>,
    order: Vec<Point>,
    evaluate: &'a mut Evaluate<'b, E>,
}

impl<E> Searcher<'_, '_, E> {
    /// Tries those of `points` that were not tried yet, as far as the budget goes.
    fn ask(&mut self, points: Vec<Point>) -> Result<(), E> {
        let mut fresh: Vec<Point> = Vec::new();
        let mut named = BTreeSet::new();
        for point in points {
            let has_room = self.order.len() + fresh.len() < self.points_max;
            if has_room && !self.scores.contains_key(&point) && named.insert(point.clone()) {
                fresh.push(point);
            }
        }
        if fresh.is_empty() {
            return Ok(());
        }
        let scores = (self.evaluate)(&fresh)?;
        assert_eq!(scores.len(), fresh.len(), "every point has a score");
        self.order.extend(fresh.iter().cloned());
        self.scores.extend(fresh.into_iter().zip(scores));
        Ok(())
    }

    fn is_spent(&self) -> bool {
        self.order.len() >= self.points_max
    }

    fn sample_and_descend(&mut self, default: &[u64], prng: &mut dyn Prng) -> Result<(), E> {
        self.ask(vec![default.to_vec()])?;
        let mut visited: BTreeSet<Point> = BTreeSet::new();
        for _ in 0..ROUNDS_MAX {
            let count = (self.points_max / SAMPLED_PART).max(1);
            self.ask(latin_hypercube(self.axes, count, prng))?;
            while let Some(start) = self.next_start(&visited) {
                if self.is_spent() {
                    return Ok(());
                }
                self.descend(start, &mut visited)?;
            }
        }
        Ok(())
    }

    /// The best point that no descent went through; the first one of equals.
    fn next_start(&self, visited: &BTreeSet<Point>) -> Option<Point> {
        let starts = self.order.iter().filter(|point| !visited.contains(*point));
        let best = starts.reduce(|best, point| {
            if self.scores[point] > self.scores[best] {
                point
            } else {
                best
            }
        });
        best.cloned()
    }

    /// Goes from `at` to where no value of any one tunable is better, or where others have been.
    fn descend(&mut self, mut at: Point, visited: &mut BTreeSet<Point>) -> Result<(), E> {
        loop {
            if !visited.insert(at.clone()) {
                return Ok(());
            }
            let begin = at.clone();
            for axis in 0..self.axes.len() {
                let line: Vec<Point> = self.axes[axis]
                    .iter()
                    .map(|&value| {
                        let mut point = at.clone();
                        point[axis] = value;
                        point
                    })
                    .collect();
                self.ask(line.clone())?;
                for point in line {
                    let score = self.scores.get(&point);
                    if score.is_some_and(|score| *score > self.scores[&at]) {
                        at = point;
                    }
                }
                if self.is_spent() {
                    return Ok(());
                }
            }
            if at == begin {
                return Ok(());
            }
        }
    }
}

/// `count` points of the grid in which, tunable by tunable, every value comes up about equally
/// often. With 6 points, an axis of 3 values has each of them twice.
fn latin_hypercube(axes: &[Vec<u64>], count: usize, prng: &mut dyn Prng) -> Vec<Point> {
    let mut points = vec![Point::new(); count];
    for axis in axes {
        let mut places: Vec<usize> = (0..count).collect();
        for end in (1..count).rev() {
            let other = prng.below(end as u64 + 1);
            places.swap(
                end,
                usize::try_from(other).expect("below a count of points"),
            );
        }
        for (point, place) in points.iter_mut().zip(places) {
            point.push(axis[place * axis.len() / count]);
        }
    }
    points
}

#[cfg(test)]
mod tests;
