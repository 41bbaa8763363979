//! A device model in real time: says when an operation is done; who moves the bytes then, and from
//! where to where, is not its business.
//!
//! The bytes move when the modelled device would have ended, not before: an operation that the
//! faults of a scenario fail or hold back leaves the leg as it was.

use std::collections::BTreeMap;

use heliostat_model::{DeviceModel, FaultyDevice};
use heliostat_types::{ErrorKind, Instant, LegOpId, Prng, RandomStream};

use crate::api::LegIo;
use crate::leg::Timing;

/// One modelled device, and what is in flight in it.
#[derive(Debug)]
pub(crate) struct DelayLine {
    device: FaultyDevice,
    prng: RandomStream,
    /// The model's time begins when the array's loop does; so do the times of its faults.
    started_at: Option<Instant>,
    in_flight: BTreeMap<LegOpId, LegIo>,
}

impl DelayLine {
    /// An idle device of this timing, as leg number `index`: equal devices differ in luck.
    pub(crate) fn new(timing: Timing, index: usize) -> Self {
        let index = u64::try_from(index).expect("there are few legs");
        let mut prng = RandomStream::new(0, "model leg", index);
        let device = timing.params.build(&mut prng);
        Self {
            device: FaultyDevice::new(device, timing.faults, prng.clone().next_u64()),
            prng,
            started_at: None,
            in_flight: BTreeMap::new(),
        }
    }

    /// Hands in an operation.
    pub(crate) fn submit(&mut self, now: Instant, io: LegIo) {
        let now = self.model_time(now);
        self.device
            .submit(now, io.op, io.kind, io.extent, &mut self.prng);
        self.in_flight.insert(io.op, io);
    }

    /// The next operation whose time has come, and whether it is to be carried out or fails.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<(LegIo, Result<(), ErrorKind>)> {
        let now = self.model_time(now);
        let (op, result) = self.device.poll_completion(now)?;
        let io = self
            .in_flight
            .remove(&op)
            .expect("a model ends what was handed in, once");
        Some((io, result))
    }

    /// When to poll next.
    pub(crate) fn next_event_at(&self) -> Option<Instant> {
        let started_at = self.started_at?;
        let at = self.device.next_event_at()?;
        Some(started_at + at.saturating_since(Instant::ZERO))
    }

    fn model_time(&mut self, now: Instant) -> Instant {
        let started_at = *self.started_at.get_or_insert(now);
        Instant::ZERO + now.saturating_since(started_at)
    }
}
