//! Read policies: which leg serves a read.
//!
//! A policy is a value that is told what happens ([`ReadPolicy::on_dispatch`],
//! [`ReadPolicy::on_complete`]) and asked where a read should go ([`ReadPolicy::plan_read`]). It
//! chooses among legs that are all correct: whether a leg may serve a range at all is the engine's
//! business, so that no policy, however bad, can return wrong bytes.
//!
//! Policies have no clock, do no I/O, and allocate nothing per pick.
//!
//! People name policies by text: [`PolicySpec::parse`] reads it, [`PolicySpec::build`] makes the
//! policy, and a [`PolicyControl`] remembers the values of those that are not active.
#![forbid(unsafe_code)]

mod api;
mod average;
mod beliefs;
mod checkpoint;
mod choice;
mod constants;
mod control;
mod error;
mod listener;
mod policies;
mod read_ahead;
mod recency;
mod registry;
mod spec;
mod stream_index;
mod tunable;

#[cfg(test)]
mod testing;

pub use api::{
    Belief, Checkpoint, Late, LateRead, Layout, LegView, Observes, OpView, PIECES_MAX, Piece,
    Pieces, Prefetch, ReadPlan, ReadPolicy, ReadRequest,
};
pub use beliefs::{CurveBelief, CurvePoint, Fact, FactValue, LegBeliefs, StreamBelief, Weight};
pub use constants::{ConstantInfo, ConstantUnit, all_constants};
#[cfg(feature = "sweep")]
pub use constants::{constants_read, with_constant};
pub use control::PolicyControl;
pub use error::PolicyError;
pub use listener::{Decision, Listen, Listener};
pub use registry::{BareValue, DEFAULT_POLICY, PolicyInfo, all_policies, find_policy};
pub use spec::{ArrayInfo, PolicySpec};
pub use tunable::{Tunable, TunableKind};
