//! Workloads: what clients ask for, and when.
//!
//! A [`Job`] says what a group of clients does, in fio's words; [`Clients`] are the clones of all
//! jobs, a state machine that is told of answers and of time and says who asks for what next.
//! [`TraceReader`] reads block traces that clients can play. Nothing here knows who serves it, and
//! nothing opens a file.
#![forbid(unsafe_code)]

mod arrival;
mod buffered;
mod cache;
mod client;
mod clients;
mod defrag;
mod job;
mod ops;
mod replay;
mod sizes;
mod spread;
mod trace;

pub use arrival::Arrival;
pub use client::{Ask, Client, OPEN_IN_FLIGHT_MAX};
pub use clients::{Clients, OpenTrace, Step, Surroundings};
pub use job::{FromMeasuring, Job, KEYS, Kind, Rw};
pub use sizes::SizeShare;
pub use spread::Distribution;
pub use trace::{
    TraceError, TraceFormat, TraceOp, TraceOptions, TraceReader, TraceTime, write_iolog,
};
