//! The engine. Stub of the public surface.

use heliostat_policy::ReadPolicy;
use heliostat_types::{Extent, Instant, LegId, LegSet, Prng};

use crate::api::{ArrayRecord, Config, Input, LegState, LegStats, Output};
use crate::buffer::{BufferTable, WriteBuffer};

/// One array.
#[derive(Debug)]
pub struct Engine {}

impl Engine {
    /// An array whose last durable record is `record`.
    ///
    /// # Panics
    /// Where `config` breaks what its fields say.
    #[must_use]
    pub fn new(_config: Config, _policy: Box<dyn ReadPolicy>, _record: ArrayRecord) -> Self {
        todo!("engine")
    }

    /// Takes one input in. Drain [`Engine::poll_output`] before the next.
    pub fn handle_input(&mut self, _now: Instant, _input: Input, _prng: &mut dyn Prng) {
        todo!("engine")
    }

    /// The next thing to do, in order; `None` when all is said.
    pub fn poll_output(&mut self) -> Option<Output> {
        todo!("engine")
    }

    /// When [`Input::DeadlineReached`] is due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        todo!("engine")
    }

    /// A buffer for the bytes of a write to `extent` (not empty, inside the array, not larger than
    /// a request may be), or `None` while memory is short: then [`crate::Output::MemoryFreed`] will
    /// come.
    pub fn alloc_write(&mut self, _extent: Extent) -> Option<WriteBuffer> {
        todo!("engine")
    }

    /// Where buffers lie.
    #[must_use]
    pub fn buffers(&self) -> &BufferTable {
        todo!("engine")
    }

    /// Whether no request is unanswered and no leg operation outstanding, but those of faulted legs.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        todo!("engine")
    }

    /// The newest record, durable or not.
    #[must_use]
    pub fn record(&self) -> ArrayRecord {
        todo!("engine")
    }

    /// How a leg is.
    #[must_use]
    pub fn leg_state(&self, _leg: LegId) -> LegState {
        todo!("engine")
    }

    /// The legs in sync.
    #[must_use]
    pub fn in_sync(&self) -> LegSet {
        todo!("engine")
    }

    /// What a leg did.
    #[must_use]
    pub fn leg_stats(&self, _leg: LegId) -> &LegStats {
        todo!("engine")
    }

    /// Reads and writes in flight at a leg now.
    #[must_use]
    pub fn leg_in_flight(&self, _leg: LegId) -> (u32, u32) {
        todo!("engine")
    }
}
