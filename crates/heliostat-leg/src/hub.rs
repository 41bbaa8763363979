//! All legs of one array behind one face: operations go in, completions come out, nothing blocks.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use heliostat_types::{Instant, LegId};

use crate::api::{LegDone, LegIo};
use crate::arena::Arena;
use crate::error::LegError;
use crate::leg::{OpenedLeg, Store};

/// How files and block devices are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoChoice {
    /// Through io_uring, or through threads where the kernel refuses that.
    Auto,
    /// Through threads.
    ThreadPool,
}

/// The legs of one array, driven by one thread.
#[derive(Debug)]
pub struct LegHub {
    legs: Vec<OpenedLeg>,
    arena: Arc<Arena>,
    ready: Vec<LegDone>,
}

impl LegHub {
    /// Takes the legs over; the one at index i is leg i from now on.
    ///
    /// # Errors
    /// Where neither io_uring nor threads can be had.
    pub fn new(
        legs: Vec<OpenedLeg>,
        arena: Arc<Arena>,
        _choice: IoChoice,
    ) -> Result<Self, LegError> {
        Ok(Self {
            legs,
            arena,
            ready: Vec::new(),
        })
    }

    /// Hands in an operation; it begins with the next [`LegHub::kick`] at the latest.
    ///
    /// # Panics
    /// Where there is no such leg.
    pub fn submit(&mut self, _now: Instant, leg: LegId, io: LegIo) {
        match &self.legs[leg.index()].store {
            Store::Memory(memory) => {
                let outcome = memory.perform(&self.arena, &io);
                self.ready.push(LegDone {
                    leg,
                    op: io.op,
                    outcome,
                });
            }
        }
    }

    /// Tells the kernel of everything submitted since the last call. Call it once per turn.
    pub fn kick(&mut self) {}

    /// Appends what has ended to `done`.
    pub fn reap(&mut self, _now: Instant, done: &mut Vec<LegDone>) {
        done.append(&mut self.ready);
    }

    /// Whether [`LegHub::reap`] would find something, without asking the kernel.
    #[must_use]
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Descriptors that are readable when there may be something to reap.
    #[must_use]
    pub fn fds(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    /// When to call [`LegHub::reap`] at the latest, whatever the descriptors say.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// How files and block devices are reached: `io_uring`, or `threads: ` and why.
    #[must_use]
    pub fn backend(&self) -> &str {
        "memory only"
    }

    /// How many operations were submitted and not yet reaped.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.ready.len()
    }
}
