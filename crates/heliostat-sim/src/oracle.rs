//! The clairvoyant read policy: it asks the devices themselves.
//!
//! A *forecast* is a copy of a device, with its luck, everything in flight and everything that
//! waits in front of it, run on until nothing is left. So the oracle knows to the nanosecond when
//! a read would end on each leg and how much later the others would end because of it: heads,
//! platters, dies, link, collections, faults to come, loads that the engine does not see, all of
//! it is in the copy. The read goes where the sum of the two is least, and a large one is cut where
//! its pieces end sooner than the whole.
//!
//! What it does not know is what clients will ask next, so it is not a bound (`bound` is). It does
//! not prefetch, because the engine has no prefetch to be asked for, and it does not hedge, because
//! it knows who is first.

mod device;

use heliostat_policy::{
    LegView, Observes, OpView, Piece, Pieces, ReadPlan, ReadPolicy, ReadRequest,
};
use heliostat_types::{Extent, Instant, LegId, Prng};

use crate::leg::SimLeg;
use device::{Cost, Seen};

/// How people call it.
pub(crate) const NAME: &str = "oracle";

/// Reads below this are not cut: two operations for one cost more than a small read's bytes.
const SPLIT_MIN_BYTES: u64 = 128 << 10;

/// Pieces are multiples of this, which no block is larger than.
const UNIT_BYTES: u64 = 4096;

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
            ..Observes::NOTHING
        }
    }

    fn plan_read(
        &mut self,
        now: Instant,
        request: &ReadRequest,
        legs: &[LegView],
        _prng: &mut dyn Prng,
    ) -> ReadPlan {
        let legs: Vec<Candidate<'_>> = legs
            .iter()
            .map(|view| Candidate {
                leg: view.leg,
                device: &self.devices[view.leg.index()],
                address: view.address,
            })
            .collect();
        let costs: Vec<Option<Cost>> = legs
            .iter()
            .map(|candidate| candidate.weigh(now, 0, request.extent.len()))
            .collect();
        // A leg on which it fails, or never ends, is better than none.
        let price = |cost: &Option<Cost>| cost.map_or(i128::MAX, |cost| cost.sum_ns());
        let best = (0..legs.len()).min_by_key(|&at| price(&costs[at]));
        let best = best.expect("a read has candidates");
        if request.extent.len() >= SPLIT_MIN_BYTES && legs.len() > 1 {
            let split = split(now, request.extent.len(), &legs, &costs);
            if let Some((pieces, cost_ns)) = split
                && cost_ns < price(&costs[best])
            {
                return ReadPlan::Split(pieces);
            }
        }
        ReadPlan::Leg(legs[best].leg)
    }

    fn on_dispatch(&mut self, now: Instant, op: &OpView) {
        self.devices[op.leg.index()].expect(now, op.kind, op.extent);
    }

    fn on_leg_state(&mut self, leg: LegId, _present: bool) {
        self.devices[leg.index()].forget_waiting();
    }
}

/// A leg that may serve a read.
#[derive(Clone, Copy, Debug)]
struct Candidate<'a> {
    leg: LegId,
    device: &'a Seen,
    /// Where the read begins on it.
    address: u64,
}

impl Candidate<'_> {
    /// What a piece of the read costs here.
    fn weigh(&self, now: Instant, from: u64, len_bytes: u64) -> Option<Cost> {
        let extent = Extent::new(self.address + from, len_bytes);
        self.device.weigh(now, extent)
    }
}

/// Cuts a read of `len_bytes` so that all legs end their pieces together, as far as two forecasts
/// per leg (all of it, and the first half) tell how the end moves with the length; `wholes` are
/// the costs of all of it. The plan, and what it truly costs; `None` where that is no plan.
fn split(
    now: Instant,
    len_bytes: u64,
    legs: &[Candidate<'_>],
    wholes: &[Option<Cost>],
) -> Option<(Pieces, i128)> {
    let half_bytes = len_bytes / 2 / UNIT_BYTES * UNIT_BYTES;
    // Time before the first byte, and per byte.
    let mut lines = Vec::new();
    for (candidate, whole) in legs.iter().zip(wholes) {
        let (whole, half) = (whole.as_ref()?, candidate.weigh(now, 0, half_bytes)?);
        let longer = whole.read_ns as f64 - half.read_ns as f64;
        let per_byte = (longer / (len_bytes - half_bytes) as f64).max(1e-6);
        lines.push((whole.read_ns as f64 - per_byte * len_bytes as f64, per_byte));
    }
    // sum((end - before) / per_byte) = len_bytes
    let rates: f64 = lines.iter().map(|(_, per_byte)| 1.0 / per_byte).sum();
    let before: f64 = lines
        .iter()
        .map(|(before, per_byte)| before / per_byte)
        .sum();
    let ends_ns = (len_bytes as f64 + before) / rates;
    let mut pieces = Pieces::new();
    let (mut from, mut longest_ns, mut others_ns) = (0, 0, 0);
    for (at, (candidate, (before, per_byte))) in legs.iter().zip(&lines).enumerate() {
        let left = len_bytes - from;
        let units = ((ends_ns - before) / per_byte / UNIT_BYTES as f64).max(0.0);
        let piece_bytes = if at + 1 == legs.len() {
            left
        } else {
            left.min(whole_units(units) * UNIT_BYTES)
        };
        if piece_bytes == 0 {
            continue;
        }
        let cost = candidate.weigh(now, from, piece_bytes)?;
        longest_ns = cost.read_ns.max(longest_ns);
        others_ns += cost.others_ns;
        pieces.push(Piece {
            leg: candidate.leg,
            len_bytes: piece_bytes,
        });
        from += piece_bytes;
    }
    (from == len_bytes && pieces.as_slice().len() > 1).then_some((pieces, longest_ns + others_ns))
}

/// The nearest whole number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative, and saturating is right"
)]
fn whole_units(units: f64) -> u64 {
    (units + 0.5) as u64
}

#[cfg(test)]
mod tests;
