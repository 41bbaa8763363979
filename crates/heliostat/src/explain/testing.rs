//! Decisions for tests.

use std::borrow::Cow;

use heliostat_runtime::{CandidateFigures, DecisionFigures, PieceFigures};

/// A leg that a read was predicted to take so long on.
pub(super) fn candidate(leg: usize, predicted_ns: Option<u64>) -> CandidateFigures {
    CandidateFigures {
        leg,
        address: 1 << 20,
        reads_in_flight: 0,
        writes_in_flight: 0,
        read_bytes_in_flight: 0,
        write_bytes_in_flight: 0,
        last_sent_end: None,
        rotational: false,
        read_preferred: false,
        queue_depth: 32,
        reads_completed: 0,
        read_wait_ns: 0,
        weight: None,
        predicted_ns,
        slow: predicted_ns.map(|_| false),
        turns: predicted_ns.map(|_| false),
        delays_writes: predicted_ns.map(|_| false),
    }
}

/// A read of 4 KiB at 1 MiB that goes to the legs of `to`.
pub(super) fn decision(
    reason: Option<&'static str>,
    to: &[usize],
    legs: &[CandidateFigures],
) -> DecisionFigures {
    DecisionFigures {
        decision: 0,
        at_ns: 1_500_000,
        client: 0,
        offset: 1 << 20,
        bytes: 4096,
        reason: reason.map(Cow::Borrowed),
        pieces: to
            .iter()
            .map(|leg| PieceFigures {
                leg: *leg,
                bytes: 4096 / to.len() as u64,
            })
            .collect(),
        legs: legs.to_vec(),
    }
}
