//! Whether what reads return is checked whole, or at samples.

use heliostat_policy::ReadPolicy;

use crate::contents::Fidelity;
use crate::leg::SimLeg;
use crate::scenario::Scenario;

/// The largest power of two, up to 1 MiB, that all requests begin and end at multiples of.
pub(super) fn granule_bytes(scenario: &Scenario) -> u64 {
    let array_bytes = scenario.array.size_bytes;
    let jobs = scenario.jobs.iter().filter(|job| job.leg.is_none());
    let granules = jobs.map(|job| job.granule_bytes(array_bytes));
    granules.min().unwrap_or(1 << 20)
}

/// Whether reads of what nobody writes can be checked at samples alone. Samples of a request are
/// those of its parts only where both begin at the same sector: no leg widens any to its blocks,
/// and nothing was prefetched.
pub(super) fn may_sample(scenario: &Scenario, picker: &dyn ReadPolicy, legs: &[SimLeg]) -> bool {
    let granule_bytes = granule_bytes(scenario);
    let fits = |leg: &SimLeg| {
        let block_bytes = leg.spec().logical_block_bytes;
        u64::from(block_bytes) <= granule_bytes
    };
    // What fails is repaired, which writes.
    let is_never_written = scenario.faults.is_empty();
    let is_as_asked = !picker.observes().requests;
    is_never_written
        && is_as_asked
        && scenario.fidelity == Fidelity::Stamps
        && legs.iter().all(fits)
}
