//! Read policies: which leg serves a read.
//!
//! A policy is a value that is told what happens ([`ReadPolicy::on_dispatch`],
//! [`ReadPolicy::on_complete`]) and asked where a read should go ([`ReadPolicy::plan_read`]). It
//! chooses among legs that are all correct: whether a leg may serve a range at all is the engine's
//! business, so that no policy, however bad, can return wrong bytes.
//!
//! Policies have no clock, do no I/O, and allocate nothing per pick.
#![forbid(unsafe_code)]

mod api;

pub use api::{
    LegView, Observes, OpView, PIECES_MAX, Piece, Pieces, ReadPlan, ReadPolicy, ReadRequest,
};
