//! The harness: what is to be compared, run in virtual time, and what came of it.
//!
//! A [`ScenarioFile`] is what people write; [`run_all`] runs scenarios under [`Contender`]s on
//! several threads and hands results over in their order; [`ResultJson`] is what programs read of
//! a result. Nothing here prints.
#![forbid(unsafe_code)]

mod averages;
mod contender;
pub mod data_sheet;
pub mod forecast;
mod json;
pub mod live;
pub mod matrix;
pub mod plot;
pub mod published;
pub mod report;
mod runs;
mod scenario;
pub mod tune;

pub use contender::{Contender, policy_list};
pub use json::ResultJson;
pub use runs::{Progress, Run, Shard, run_all};
pub use scenario::{ScenarioFile, ScenarioFileError};
