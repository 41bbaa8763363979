//! The judge of read policies: cells, which are a load on an array with something that goes wrong
//! or nothing, played under all policies, and one policy beside the others.
//!
//! [`Cell`] is what is played, a [`Matrix`] plays it, a [`Judged`] cell says how near the policy
//! is to the best other and to the oracle, and [`Target`]s are what it is held to. `docs/matrix.md`
//! says what is run, and why, for users.

mod against;
mod cells;
mod data;
mod judge;
mod measure;
mod parts;
mod report;
mod summary;
#[cfg(feature = "sweep")]
mod sweep;
mod targets;
mod week;
mod words;

use std::ops::ControlFlow;

use heliostat_sim::RunError;

use crate::contender::Contender;
use crate::runs::Progress;

pub use against::worse_than;
pub use cells::Cell;
pub use data::csv;
pub use judge::Judged;
pub use parts::Class;
pub use report::write_matrix_report;
#[cfg(feature = "sweep")]
pub use sweep::{
    Sweep, Swept, SweptConstant, constant_line, sweep_head, sweep_summary, write_sweep,
};
pub use targets::{Target, targets};
pub use week::{JudgedWeek, Week, week_lines};
pub use words::{cell_line, head_line, target_lines};

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// In which cells.
    pub cells: Vec<Cell>,
    /// Under which policies, the judged one among them.
    pub contenders: Vec<Contender>,
    /// The policy that is judged.
    pub of: Contender,
    /// With how many seeds; figures are medians over them.
    pub seeds: u64,
}

impl Matrix {
    /// The policy that is judged where nobody names one: the default of an array.
    #[must_use]
    pub fn judged_policy() -> Contender {
        Contender::default_policy()
    }

    /// Plays all cells on `threads` threads; `each` is told of every cell as soon as it has been
    /// played, in their order. Where it breaks, nothing more is played.
    ///
    /// # Errors
    /// Where a checker finds a bug.
    pub fn run(
        &self,
        threads: usize,
        progress: &(dyn Fn(Progress) + Sync),
        mut each: impl FnMut(Judged) -> ControlFlow<()>,
    ) -> Result<(), RunError> {
        let of = self.of.to_string();
        for &cell in &self.cells {
            // With one leg there is nothing to choose.
            let contenders = self
                .contenders
                .iter()
                .filter(|contender| **contender == self.of || !cell.has_one_leg());
            let contenders: Vec<Contender> = contenders.cloned().collect();
            let measured =
                measure::measure(&cell, &contenders, &self.of, self.seeds, threads, progress)?;
            if each(Judged::new(cell, &measured, &of)).is_break() {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
