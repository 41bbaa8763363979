//! Workloads: what clients ask for, and when.
//!
//! A [`Job`] says what a group of clients does, in fio's words; each of them is a [`Client`], a
//! state machine that is told of answers and says what it asks for next. Nothing here knows who
//! serves it.
#![forbid(unsafe_code)]

mod client;
mod job;

pub use client::{Ask, Client};
pub use job::{Job, Rw};
