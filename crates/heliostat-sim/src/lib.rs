//! The simulator: the engine as it is, in virtual time, on device models with real bytes.
//!
//! A [`Scenario`] is an array, jobs and faults; [`run`] plays it under a policy and gives a
//! [`RunResult`], and a [`Simulation`] does the same step by step. Equal scenario, policy and seed
//! give equal runs, on every machine. Every run is checked: bytes that are read are bytes that were
//! written and never older than what was read or acknowledged before, legs are equal in the end,
//! nothing stays in flight, every request is answered, and time spent equals time present.
//!
//! Nothing here decides what the engine should decide: there is no second implementation of
//! mirroring to be tested instead of the first.
#![forbid(unsafe_code)]

mod arena;
mod background;
mod bound;
mod checks;
mod contents;
mod devices;
mod faults;
mod kernel_model;
mod large;
mod leg;
mod leg_spec;
mod life;
mod lives;
mod measure;
mod medium;
mod metadata;
mod neighbours;
mod oracle;
mod placement;
mod planted;
mod power;
mod requests;
mod result;
mod scenario;
mod scenario_text;
mod series;
mod shadow;
mod sharing;
mod shrink;
mod sim_policy;
mod simulation;
mod smoke;
mod store;
mod streams;
mod tags_2014;
mod trace;
mod trial;

pub use background::{BackgroundResult, BackgroundSpec, BackgroundWork};
pub use bound::{Bound, JobBound, Limit, bound};
pub use contents::Fidelity;
pub use faults::{Effect, Fault};
pub use heliostat_workload::{Job, Rw};
pub use leg_spec::{HbaSpec, LegSpec, Part};
pub use lives::{kept_life_seeds, kept_supplied_seeds, kept_tended_seeds};
pub use metadata::MetadataSpec;
#[doc(hidden)]
pub use planted::{Found, planted, run_planted};
pub use result::{Hedges, Integrity, JobResult, LegResult, Moved, RunResult, Unanswered};
pub use scenario::{ArraySpec, NONE_2014, Scenario, ScenarioError, TraceOpener};
pub use series::{Series, SeriesMoved, SeriesPoint};
pub use shrink::Shrunk;
pub use sim_policy::SimPolicy;
pub use simulation::{CheckFailure, RunError, Simulation, run};
pub use smoke::{kept_large_seeds, kept_seeds, smoke};
pub use trial::Trial;
