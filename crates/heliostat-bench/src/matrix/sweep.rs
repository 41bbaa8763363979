//! How much the figures of the matrix depend on the numbers that the default policy goes by.
//!
//! Each cell is played with one constant at a time at some factors times its value, as often and
//! as long as without a change, with the same seeds. Who does not read a constant does the same
//! whatever it is, so what is played is what the unchanged policy reads.

mod report;
#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result, bail};
use heliostat_policy::{ConstantInfo, all_constants, constants_read, with_constant};
use heliostat_sim::Scenario;

use super::cells::Cell;
use super::judge::Row;
use super::measure::{Measured, Sample, measure};
use crate::averages::geometric_mean;
use crate::contender::Contender;
use crate::runs::{Run, in_order};

pub use report::write_sweep;
pub use words::{constant_line, sweep_head, sweep_summary};

/// What is played where nobody names cells: one and more of each kind of load, array and fault that
/// has rules of its own, none of them long. Not `hdd+ssd/64k-d16`: one of a thousand of its reads
/// is left to the disk, and whether the p99.9 is such a one is chance.
const CELLS: &[&str] = &[
    "3hdd/4k-d1",
    "3hdd/4k-d4",
    "2hdd+old/4k-d32",
    "3hdd/bursts",
    "3hdd/mix70-d16",
    "2hdd/8streams",
    "2hdd/8streams+random",
    "2hdd+ssd/64k-d16",
    "hdd+ssd/mix70-d1",
    "hdd+ssd/1stream",
    "2hdd+ssd/4k-d32",
    "ssd+nvme/4k-d16",
    "ssd+nvme/8streams+random",
    "nvme+net/4k-d128",
    "2nvme/4k-d1/pauses-60ms",
    "2ssd/4k-d4/x8-1s",
    "3hdd/4k-d4/x8-15s",
    "2ssd/4k-d4/errors",
    "2ssd/64k-d4",
    "2ssd/zipf-d16",
    "3hdd/1stream/x8-15s",
];

/// What is to be played.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// In which cells.
    pub cells: Vec<Cell>,
    /// Which constants are changed.
    pub constants: Vec<&'static ConstantInfo>,
    /// By which factors, by rising factor.
    pub factors: Vec<f64>,
    /// With how many seeds; figures are medians over them.
    pub seeds: u64,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Swept {
    /// The cells by name.
    pub(super) cells: Vec<String>,
    pub(super) factors: Vec<f64>,
    /// All of the constants.
    pub(super) constants: Vec<SweptConstant>,
}

/// What came of changing one constant.
#[derive(Clone, Debug)]
pub struct SweptConstant {
    pub(super) constant: &'static ConstantInfo,
    /// In how many cells it is read.
    pub(super) read_in: usize,
    /// One for each factor.
    pub(super) points: Vec<Point>,
}

/// A constant at one factor.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) factor: f64,
    /// What it was.
    pub(super) value: f64,
    /// One for each cell.
    pub(super) cells: Vec<Beside>,
}

/// A cell beside the same without the change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Beside {
    /// More is better, by the job that comes off worst.
    pub(super) score: f64,
    /// More is longer: the p99.9 of reads.
    pub(super) tail: f64,
}

impl Beside {
    pub(super) const SAME: Self = Self {
        score: 1.0,
        tail: 1.0,
    };
}

/// A cell without a change.
struct Unchanged {
    cell: Cell,
    /// As long as its figures need, one for each seed.
    runs: Vec<Run>,
    row: Row,
    /// The constants that are read in it.
    read: BTreeSet<&'static str>,
}

impl Sweep {
    /// The constants of these names, with or without their module; all where there are none.
    ///
    /// # Errors
    /// Where there is none of a name.
    pub fn constants(names: &[&str]) -> Result<Vec<&'static ConstantInfo>> {
        if names.is_empty() {
            return Ok(all_constants().collect());
        }
        let mut chosen = Vec::new();
        for &name in names {
            let is_meant = |one: &&ConstantInfo| {
                let (module, own) = one.name.split_once('.').unwrap_or(("", one.name));
                name == one.name || name == own || name == module
            };
            let before = chosen.len();
            chosen.extend(all_constants().filter(is_meant));
            if chosen.len() == before {
                let all: Vec<&str> = all_constants().map(|one| one.name).collect();
                bail!(
                    "no constant is called '{name}': there are {}",
                    all.join(", ")
                );
            }
        }
        Ok(chosen)
    }

    /// The cells of these names, in the order of the matrix; some of each kind where there are
    /// none.
    ///
    /// # Errors
    /// Where there is none of a name.
    pub fn cells(names: &[&str]) -> Result<Vec<Cell>> {
        let names = if names.is_empty() { CELLS } else { names };
        for name in names {
            if !Cell::all().any(|cell| cell.name() == *name) {
                bail!("no cell is called '{name}'; cargo xtask sim matrix --list names them");
            }
        }
        let is_named = |cell: &Cell| names.contains(&cell.name().as_str());
        Ok(Cell::all().filter(is_named).collect())
    }

    /// These factors by rising size.
    ///
    /// # Errors
    /// Where one is none.
    pub fn factors(texts: &[&str]) -> Result<Vec<f64>> {
        let mut factors = Vec::new();
        for text in texts {
            let factor = text
                .parse()
                .ok()
                .filter(|factor| (1e-3..=1e3).contains(factor));
            factors.push(factor.with_context(|| {
                format!("'{text}' is no factor: a number from 0.001 to 1000, such as 0.5")
            })?);
        }
        factors.sort_by(f64::total_cmp);
        factors.dedup();
        Ok(factors)
    }

    /// Plays all of it on `threads` threads. `each` is told of every constant as soon as it has
    /// been played, in their order.
    ///
    /// # Errors
    /// Where a checker finds a bug.
    pub fn run(&self, threads: usize, mut each: impl FnMut(&SweptConstant)) -> Result<Swept> {
        let cells = self.cells.iter();
        let unchanged = cells.map(|cell| Unchanged::play(*cell, self.seeds, threads));
        let unchanged: Vec<Unchanged> = unchanged.collect::<Result<_>>()?;
        let mut constants = Vec::new();
        for &constant in &self.constants {
            let swept = self.sweep(constant, &unchanged, threads)?;
            each(&swept);
            constants.push(swept);
        }
        Ok(Swept {
            cells: self.cells.iter().map(Cell::name).collect(),
            factors: self.factors.clone(),
            constants,
        })
    }

    /// All that comes of changing one constant.
    fn sweep(
        &self,
        constant: &'static ConstantInfo,
        unchanged: &[Unchanged],
        threads: usize,
    ) -> Result<SweptConstant> {
        let points = self.factors.iter().map(|&factor| Point {
            factor,
            value: constant.scaled(factor),
            cells: vec![Beside::SAME; unchanged.len()],
        });
        let mut points: Vec<Point> = points.collect();
        let is_read = |cell: &Unchanged| cell.read.contains(constant.name);
        // Whole numbers may be what they were.
        let changed = points
            .iter_mut()
            .filter(|point| point.value != constant.value);
        let mut wanted: Vec<(f64, &Unchanged, &mut Beside)> = Vec::new();
        for point in changed {
            let cells = unchanged.iter().zip(&mut point.cells);
            let read = cells.filter(|(cell, _)| is_read(cell));
            wanted.extend(read.map(|(cell, beside)| (point.value, cell, beside)));
        }
        let plays: Vec<(f64, &Unchanged, &Run)> = wanted
            .iter()
            .flat_map(|(value, cell, _)| cell.runs.iter().map(|run| (*value, *cell, run)))
            .collect();
        let work = |index: usize, _: &AtomicBool| {
            let (value, cell, run) = plays[index];
            let sample = with_constant(constant, value, || cell.sample(run));
            Some(sample.with_context(|| format!("{} = {value}", constant.name)))
        };
        let mut samples = Vec::new();
        let mut outcome = Ok(());
        in_order(plays.len(), threads, work, |_, sample| match sample {
            Ok(sample) => {
                samples.push(sample);
                ControlFlow::Continue(())
            }
            Err(error) => {
                outcome = Err(error);
                ControlFlow::Break(())
            }
        });
        outcome?;
        let mut samples = samples.into_iter();
        for (_, cell, beside) in wanted {
            let own = samples.by_ref().take(cell.runs.len()).collect();
            *beside = cell.beside(own);
        }
        Ok(SweptConstant {
            constant,
            read_in: unchanged.iter().filter(|cell| is_read(cell)).count(),
            points,
        })
    }
}

impl Unchanged {
    /// Plays a cell with the first seeds, as long as its figures need.
    fn play(cell: Cell, seeds: u64, threads: usize) -> Result<Self> {
        let of = Contender::default_policy();
        let measured = measure(
            &cell,
            std::slice::from_ref(&of),
            &of,
            seeds,
            threads,
            &|_| (),
        )?;
        let measured = measured
            .into_iter()
            .next()
            .context("one policy was played")?;
        let scenario = cell.scenario()?;
        let runs = measured.samples.iter().zip(1..).map(|(sample, seed)| {
            let scenario = Scenario {
                seed,
                seconds: sample.seconds,
                ..scenario.clone()
            };
            Run {
                scenario: Arc::new(scenario),
                contender: of.clone(),
            }
        });
        let mut unchanged = Self {
            cell,
            runs: runs.collect(),
            row: Row::new(&cell, &measured),
            read: BTreeSet::new(),
        };
        // Once more, to see what is read: these threads are not those of `measure`.
        let work = |index: usize, _: &AtomicBool| {
            Some(constants_read(|| unchanged.sample(&unchanged.runs[index])))
        };
        let mut all = Vec::new();
        in_order(unchanged.runs.len(), threads, work, |_, played| {
            all.push(played);
            ControlFlow::Continue(())
        });
        for (sample, read) in all {
            sample?;
            unchanged.read.extend(read);
        }
        Ok(unchanged)
    }

    /// Plays one of its runs on this thread.
    fn sample(&self, run: &Run) -> Result<Sample> {
        let stop = AtomicBool::new(false);
        let result = run.run(|policy| policy, &stop, |_| ());
        let result = result.context("nobody stops it")??;
        Ok(Sample::of(&self.cell, &run.scenario, &result))
    }

    /// What was played beside what it is without a change.
    fn beside(&self, samples: Vec<Sample>) -> Beside {
        let measured = Measured {
            policy: self.row.policy.clone(),
            first: samples[0].clone(),
            samples,
        };
        let row = Row::new(&self.cell, &measured);
        Beside {
            score: row.ratio_to(&self.row),
            tail: row.tail_ratio(&self.row),
        }
    }
}

impl Point {
    /// The geometric mean over all cells.
    pub(super) fn mean(&self) -> f64 {
        geometric_mean(self.cells.iter().map(|cell| cell.score))
    }

    /// Whether nothing is lost, as far as chance lets that be said.
    pub(super) fn is_flat(&self) -> bool {
        let is_fast = self.mean() >= MEAN_MIN && self.worst().1 >= CELL_MIN;
        is_fast && self.tail().1 <= TAIL_MAX
    }

    /// The cell that comes off worst, the first of several.
    pub(super) fn worst(&self) -> (usize, f64) {
        let scores = self.cells.iter().map(|cell| cell.score).enumerate();
        let worst = scores.reduce(|worst, other| if other.1 < worst.1 { other } else { worst });
        worst.unwrap_or((0, 1.0))
    }

    /// The cell whose slowest reads have become slower by most, the first of several.
    pub(super) fn tail(&self) -> (usize, f64) {
        let tails = self.cells.iter().map(|cell| cell.tail).enumerate();
        let worst = tails.reduce(|worst, other| if other.1 > worst.1 { other } else { worst });
        worst.unwrap_or((0, 1.0))
    }
}

/// Below this a mean over all cells is a loss, and a single cell.
const MEAN_MIN: f64 = 0.99;
const CELL_MIN: f64 = 0.95;
/// A p99.9 that is longer by more is one: of 20,000 reads it is the twentieth from the end, and
/// moves by a third on disks whatever is changed.
const TAIL_MAX: f64 = 1.5;
/// Another value is better where the mean is a gain and no cell a loss.
const GAIN_MIN: f64 = 1.01;
const NO_LOSS: f64 = 0.99;

impl SweptConstant {
    /// Whether it is a half, or twice, or between them.
    fn near(&self) -> impl Iterator<Item = &Point> {
        self.points
            .iter()
            .filter(|point| (0.5..=2.0).contains(&point.factor))
    }

    /// Whether nothing is lost where it is halved or doubled.
    pub(super) fn is_flat(&self) -> bool {
        self.near().all(Point::is_flat)
    }

    /// The point whose worst cell is the worst.
    pub(super) fn worst(&self) -> Option<&Point> {
        let points = self.points.iter();
        points.min_by(|a, b| a.worst().1.total_cmp(&b.worst().1))
    }

    /// The point at which slow reads have become slower by most.
    pub(super) fn tail(&self) -> Option<&Point> {
        let points = self.points.iter();
        points.min_by(|a, b| b.tail().1.total_cmp(&a.tail().1))
    }

    /// Points at which it would be better.
    pub(super) fn better(&self) -> impl Iterator<Item = &Point> {
        let is_better = |point: &&Point| point.mean() >= GAIN_MIN && point.worst().1 >= NO_LOSS;
        self.points.iter().filter(is_better)
    }
}
