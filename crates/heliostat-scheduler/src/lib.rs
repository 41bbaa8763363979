//! What stands in front of a leg: which of the operations that wait goes next.
//!
//! A [`Scheduler`] is a value: it is told what comes ([`Scheduler::insert`]) and what has ended
//! ([`Scheduler::completed`]), and asked what goes next ([`Scheduler::next`], then
//! [`Scheduler::take`]). It has no clock, and sees no bytes: a [`Job`] is the description of an
//! operation by plain values. Whether the leg has room for one more is the engine's business; a
//! scheduler may hold back more, to keep the leg's queue short or a flow below its cap, and then
//! says when to ask again ([`Scheduler::next_deadline`]).
//!
//! Any order is right. All jobs that wait at one moment could be in the device at that moment, and
//! devices do what they have in any order; whatever must come after something else is handed to a
//! leg only when that has completed. `docs/schedulers.md` has the argument, and what the schedulers
//! do.
//!
//! # Merging
//!
//! A shell that can send several jobs as one operation asks [`Scheduler::next`] for the first one,
//! then [`Scheduler::adjoining`] for one that begins where it ends or ends where it begins, as
//! often as it likes, and takes each with [`Scheduler::take_adjoining`]; then, or before, it takes
//! the first one with [`Scheduler::take`]. Only jobs of the same kind, flow and class adjoin, and
//! none of class [`Class::Urgent`]. When the operation ends, [`Scheduler::completed`] is said of
//! each of its jobs.
#![forbid(unsafe_code)]

mod costs;
mod deadline;
mod fair;
mod job;
mod line;
mod none;
mod scheduler;
mod spec;

pub use costs::Costs;
pub use deadline::DeadlineSettings;
pub use fair::FairSettings;
pub use job::{Class, Device, FlowLimits, Job, Side};
pub use scheduler::Scheduler;
pub use spec::{SCHEDULERS, SchedulerError, SchedulerSpec};
