//! A device that the oracle sees: the leg's own, and what will become of it.

#![expect(
    clippy::disallowed_types,
    reason = "the oracle and the leg look at the same device; one thread has both"
)]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use heliostat_model::{DeviceModel, DeviceSpec};
use heliostat_types::{ErrorKind, Extent, Instant, LegOpId, OpKind, Prng, RandomStream};

/// More completions than one device ever has in front of it.
const COMPLETIONS_MAX: usize = 1 << 20;

/// What is to come of a device if it is given nothing more, or just this read.
#[derive(Clone, Debug, Default)]
pub(super) struct Forecast {
    /// When each operation ends, by time.
    ends: Vec<Instant>,
    /// When the read in question has ended; never where it fails or is not asked about.
    read_ends_at: Option<Instant>,
}

/// What a read costs on a device, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cost {
    /// Until it has ended.
    pub(super) read_ns: i128,
    /// How much later the operations that are there already end because of it, in sum. Negative
    /// where it makes the device choose a better order.
    pub(super) others_ns: i128,
}

impl Cost {
    /// Time that it adds to that of all reads.
    pub(super) const fn sum_ns(&self) -> i128 {
        self.read_ns + self.others_ns
    }
}

/// The device of a leg, shared with the leg.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    state: Arc<Mutex<State>>,
    spec: DeviceSpec,
}

#[derive(Debug)]
struct State {
    model: Box<dyn DeviceModel>,
    /// The leg's luck: as long as it is.
    luck: RandomStream,
    in_device: u32,
    /// What the engine has assigned to the leg and not sent yet, oldest first.
    waiting: VecDeque<(OpKind, Extent)>,
    /// What comes if nothing is added; unknown since the last change.
    untouched: Option<Forecast>,
    /// The read that was weighed last, when, and what comes if it is sent.
    weighed: Option<(Instant, Extent, Forecast)>,
}

impl Seen {
    pub(super) fn new(model: Box<dyn DeviceModel>, luck: RandomStream) -> Self {
        let spec = *model.spec();
        Self {
            state: Arc::new(Mutex::new(State {
                model,
                luck,
                in_device: 0,
                waiting: VecDeque::new(),
                untouched: None,
                weighed: None,
            })),
            spec,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics holding it")
    }

    /// The engine has assigned an operation and will send it when the device has room.
    pub(super) fn expect(&self, now: Instant, kind: OpKind, extent: Extent) {
        let mut state = self.state();
        state.waiting.push_back((kind, extent));
        // If it is the read that was weighed, what was foreseen comes true.
        state.untouched = match state.weighed.take() {
            Some((at, weighed, forecast))
                if at == now && weighed == extent && kind == OpKind::Read =>
            {
                Some(forecast)
            }
            _ => None,
        };
    }

    /// What waited will never be sent: the leg is out, or new.
    pub(super) fn forget_waiting(&self) {
        let mut state = self.state();
        state.waiting.clear();
        state.untouched = None;
    }

    /// What a read costs here; `None` where it would fail, or never end.
    pub(super) fn weigh(&self, now: Instant, extent: Extent) -> Option<Cost> {
        self.state().weigh(now, &self.spec, extent)
    }
}

impl State {
    fn weigh(&mut self, now: Instant, spec: &DeviceSpec, extent: Extent) -> Option<Cost> {
        if self.untouched.is_none() {
            self.untouched = Some(self.forecast(now, spec, None));
        }
        let with = self.forecast(now, spec, Some(extent));
        let read_ends_at = with.read_ends_at?;
        let untouched = self.untouched.as_ref().expect("made just above");
        // What has ended since that forecast is in none any more.
        let others = with.ends.len() - 1;
        let gone = untouched.ends.len().checked_sub(others)?;
        let sum = |ends: &[Instant]| -> i128 {
            let ns = ends.iter().map(|at| i128::from(at.as_ns()));
            ns.sum()
        };
        let read_at = i128::from(read_ends_at.as_ns());
        let cost = Cost {
            read_ns: read_at - i128::from(now.as_ns()),
            others_ns: sum(&with.ends) - read_at - sum(&untouched.ends[gone..]),
        };
        self.weighed = Some((now, extent, with));
        Some(cost)
    }

    /// Lets a copy run until nothing is left.
    fn forecast(&self, now: Instant, spec: &DeviceSpec, read: Option<Extent>) -> Forecast {
        const READ_ID: LegOpId = LegOpId(u64::MAX);
        let mut model = self.model.clone();
        let mut luck = self.luck.clone();
        let mut in_device = self.in_device;
        let mut waiting = self.waiting.iter().copied();
        // Identities that no operation in the device has.
        let mut ids = (0..u64::MAX).rev().map(LegOpId);
        let mut read = read;
        let mut at = now;
        let mut forecast = Forecast::default();
        while forecast.ends.len() < COMPLETIONS_MAX {
            while in_device < spec.queue_depth || in_device == 0 {
                if let Some((kind, extent)) = waiting.next() {
                    let id = ids.next().expect("there are enough");
                    model.submit(at, id, kind, extent, &mut luck);
                } else if let Some(extent) = read.take() {
                    model.submit(at, READ_ID, OpKind::Read, extent, &mut luck);
                } else {
                    break;
                }
                in_device += 1;
            }
            let Some(next) = model.next_event_at() else {
                break;
            };
            at = at.max(next);
            while let Some((id, result)) = model.poll_completion(at) {
                in_device = in_device.saturating_sub(1);
                forecast.ends.push(at);
                if id == READ_ID && result.is_ok() {
                    forecast.read_ends_at = Some(at);
                }
            }
        }
        forecast
    }
}

impl DeviceModel for Seen {
    fn spec(&self) -> &DeviceSpec {
        &self.spec
    }

    fn submit(
        &mut self,
        now: Instant,
        op: LegOpId,
        kind: OpKind,
        extent: Extent,
        _prng: &mut dyn Prng,
    ) {
        let mut state = self.state();
        let state = &mut *state;
        state.in_device += 1;
        let mut waiting = state.waiting.iter();
        match waiting.position(|waiting| *waiting == (kind, extent)) {
            Some(at) => drop(state.waiting.remove(at)),
            // A load that the engine does not know of.
            None => state.untouched = None,
        }
        let luck = &mut state.luck;
        state.model.submit(now, op, kind, extent, luck);
    }

    fn next_event_at(&self) -> Option<Instant> {
        self.state().model.next_event_at()
    }

    fn poll_completion(&mut self, now: Instant) -> Option<(LegOpId, Result<(), ErrorKind>)> {
        let mut state = self.state();
        let ended = state.model.poll_completion(now);
        state.in_device -= u32::from(ended.is_some());
        ended
    }

    fn clone_box(&self) -> Box<dyn DeviceModel> {
        self.state().model.clone_box()
    }
}
