//! The clairvoyant read policy: it asks the devices themselves.
//!
//! A *forecast* is a copy of a device, with its luck, everything in flight and everything that
//! waits in front of it, run on until nothing is left. So the oracle knows to the nanosecond when
//! a read would end on each leg and how much later the others would end because of it: heads,
//! platters, dies, link, collections, faults to come, loads that the engine does not see, all of
//! it is in the copy. The read goes where the sum of the two is least.
//!
//! What it does not know is what clients will ask next, so it is not a bound (`bound` is). It does
//! not prefetch, because the engine has no prefetch to be asked for, and it does not hedge, because
//! it knows who is first.

mod device;

use heliostat_policy::{LegView, Observes, OpView, ReadPlan, ReadPolicy, ReadRequest};
use heliostat_types::{Extent, Instant, LegId, Prng};

use crate::leg::SimLeg;
use device::Seen;

/// How people call it.
pub(crate) const NAME: &str = "oracle";

/// The policy, which holds the devices together with the legs.
#[derive(Debug)]
pub(crate) struct Oracle {
    devices: Vec<Seen>,
}

impl Oracle {
    /// Opens the devices of `legs` to its eyes.
    pub(crate) fn watch(legs: &mut [SimLeg]) -> Self {
        let devices = legs.iter_mut().map(|leg| {
            let mut seen = None;
            leg.replace_model(|model, luck| {
                let device = Seen::new(model, luck.clone());
                seen = Some(device.clone());
                Box::new(device)
            });
            seen.expect("the model was replaced just now")
        });
        Self {
            devices: devices.collect(),
        }
    }
}

impl ReadPolicy for Oracle {
    fn name(&self) -> &'static str {
        NAME
    }

    fn observes(&self) -> Observes {
        Observes {
            dispatch: true,
            complete: false,
        }
    }

    fn plan_read(
        &mut self,
        now: Instant,
        request: &ReadRequest,
        legs: &[LegView],
        _prng: &mut dyn Prng,
    ) -> ReadPlan {
        let cost = |view: &LegView| {
            let extent = Extent::new(view.address, request.extent.len());
            let device = &self.devices[view.leg.index()];
            let cost = device.weigh(now, extent);
            // A leg on which it fails, or never ends, is better than none.
            cost.map_or(i128::MAX, |cost| cost.read_ns + cost.others_ns)
        };
        let best = legs.iter().min_by_key(|view| cost(view));
        ReadPlan::Leg(best.expect("a read has candidates").leg)
    }

    fn on_dispatch(&mut self, now: Instant, op: &OpView) {
        self.devices[op.leg.index()].expect(now, op.kind, op.extent);
    }

    fn on_leg_state(&mut self, leg: LegId, _present: bool) {
        self.devices[leg.index()].forget_waiting();
    }
}

#[cfg(test)]
mod tests;
