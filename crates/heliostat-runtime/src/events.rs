//! The engine's events in words, for the log and for what is remembered.

use heliostat_engine::{Event, FaultReason};
use heliostat_types::LegId;

/// A line for people.
pub(crate) fn describe(event: &Event, leg_names: &[String]) -> String {
    let name = |leg: LegId| format!("{leg} ({})", leg_names[leg.index()]);
    match *event {
        Event::LegFaulted { leg, reason } => {
            let (name, why) = (name(leg), why(reason));
            format!("{name} is faulted: {why}; the array goes on without it")
        }
        Event::LastLegKept { leg, reason } => {
            let (name, why) = (name(leg), why(reason));
            format!("{name} is kept although {why}: it is the last good one")
        }
        Event::ReadFailedOver { leg, extent, kind } => {
            format!(
                "{} failed a read of {extent} ({kind}); another leg is asked",
                name(leg)
            )
        }
        Event::ReadRepaired { leg, extent } => {
            format!(
                "{} was mended at {extent}: rewritten and read back",
                name(leg)
            )
        }
    }
}

/// Why a leg was faulted, as a sentence without its end.
pub(crate) fn why(reason: FaultReason) -> String {
    match reason {
        FaultReason::WriteFailed(kind) => format!("a write failed ({kind})"),
        FaultReason::FlushFailed(kind) => format!("a flush failed ({kind})"),
        FaultReason::ReadFailed(kind) => format!("too many reads failed ({kind})"),
        FaultReason::Silent => "it completed nothing for longer than the leg time-out".to_owned(),
        FaultReason::Short => "it became smaller or answered with too few bytes".to_owned(),
        FaultReason::Lost => {
            "what it had answered may be gone, or it came back as another one".to_owned()
        }
        FaultReason::ByHand => "somebody asked for it".to_owned(),
    }
}
