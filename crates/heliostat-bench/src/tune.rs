//! Tuning: which values of a policy's tunables are best for some scenarios, and by how much.
//!
//! An [`Axis`] is a tunable with the values to try; [`search`] decides which points are tried and
//! knows nothing of policies; a [`Tuning`] runs them, every point with the same seeds; [`Scored`]
//! is a point beside the default, and a [`Verdict`] says what is best, by what margin, and whether
//! that is more than what seeds differ by. `docs/tune.md` says it for users.

mod axis;
mod json;
mod objective;
mod report;
mod runner;
mod score;
mod search;
mod table;
mod verdict;
mod words;

pub use axis::{Axis, AxisError, axes_of, parse_axes};
pub use json::{PointJson, SummaryJson};
pub use objective::Objective;
pub use report::write_tune_report;
pub use runner::{TuneError, Tuned, TunedOn, Tuning};
pub use score::{ScenarioScore, Scored};
pub use search::{Evaluate, Method, Point, Search, grid_size, search};
pub use table::{points_table, ranked};
pub use verdict::{Margin, Verdict};
pub use words::sentences;
