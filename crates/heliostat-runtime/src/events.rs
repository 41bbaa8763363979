//! The engine's events in words, for the log and for what is remembered.

use heliostat_engine::{
    AddRefusal, BackgroundEnd, BackgroundKind, Event, FaultReason, FlagsRefusal, GrowRefusal,
    LegFlags, Mismatches, RepairSource,
};
use heliostat_types::LegId;
use stdx::units::format_size;

use crate::md::name_of_missing;

/// What a leg is called, with its role where it has one.
pub(crate) fn title(role: Option<usize>, name: &str) -> String {
    match role {
        Some(role) if name == name_of_missing(role) => format!("leg {role}"),
        Some(role) => format!("leg {role} ({name})"),
        None => name.to_owned(),
    }
}

/// A line for people. `name` has a leg's role as well, and `names` are by number.
pub(crate) fn describe(event: &Event, name: &dyn Fn(LegId) -> String, names: &[String]) -> String {
    match *event {
        Event::LegFaulted { leg, reason } => {
            let (name, why) = (name(leg), why(reason));
            format!("{name} is faulted: {why}; the array goes on without it")
        }
        Event::LastLegKept { leg, reason } => {
            let (name, why) = (name(leg), why(reason));
            format!("{name} is kept although {why}: it is the last good one")
        }
        Event::NoSpace { extent } => format!(
            "no leg has room for a write of {extent}, which has failed: what the legs lie on is \
             full; no leg is faulted for that"
        ),
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
        Event::BadBlocksFound {
            leg,
            first_bytes,
            sectors,
        } => format!(
            "{} cannot hold {sectors} sectors from byte {first_bytes} of its data on: they are \
             logged as bad and read elsewhere",
            name(leg)
        ),
        Event::BadBlocksWritten { leg, extent } => format!(
            "{} has bad blocks no more at {extent} of its data: they were written",
            name(leg)
        ),
        Event::LegAdded { leg } => format!("{} was added and is being rebuilt", name(leg)),
        Event::ReplaceBegun { leg, by } => {
            format!("{} is being replaced by {}", name(leg), names[by.index()])
        }
        Event::LegReplaced { leg, by } => format!(
            "{} was replaced by {}, and can be taken away",
            names[leg.index()],
            name(by)
        ),
        Event::AddRefused { leg, refusal } => {
            format!("{} is not added: {}", name(leg), why_not_added(refusal))
        }
        Event::NoSpareFits { leg } => format!(
            "none of the spares is large enough to take the place of {}",
            name(leg)
        ),
        Event::Grown { leg } => {
            format!("there is one more leg: {}", name(leg))
        }
        Event::GrowRefused { refusal } => {
            format!("there is not one more leg: {}", why_not_grown(refusal))
        }
        Event::FlagsSet { leg, flags } => format!("{} is {}", name(leg), words_of(flags)),
        Event::LegInSync { leg } => format!("{} is in sync", name(leg)),
        Event::BackgroundStarted { .. }
        | Event::BackgroundProgress { .. }
        | Event::BackgroundEnded { .. }
        | Event::Mismatch { .. }
        | Event::Unreadable { .. } => describe_background(event, name),
    }
}

/// What is said of background work.
fn describe_background(event: &Event, name: &dyn Fn(LegId) -> String) -> String {
    match *event {
        Event::BackgroundStarted { kind, total_bytes } => {
            format!("{} of {} begins", work(kind), format_size(total_bytes))
        }
        Event::BackgroundProgress {
            kind,
            done_bytes,
            total_bytes,
        } => format!(
            "{}: {} of {} done",
            work(kind),
            format_size(done_bytes),
            format_size(total_bytes)
        ),
        Event::BackgroundEnded {
            kind,
            end,
            copied_bytes,
            mismatches,
            ..
        } => {
            let end = word_of_end(end);
            let found = match kind {
                BackgroundKind::Scrub { .. } => found(mismatches) + ", ",
                BackgroundKind::Resync | BackgroundKind::Rebuild => String::new(),
            };
            let written = format_size(copied_bytes);
            format!("{}: {end}; {found}{written} written", work(kind))
        }
        Event::Mismatch {
            extent,
            sectors,
            repair,
        } => {
            let repair = match repair {
                None => "left as they are".to_owned(),
                Some(RepairSource::Majority) => "made equal to the majority".to_owned(),
                Some(RepairSource::First(leg)) => {
                    format!("without a majority made equal to {}", name(leg))
                }
                Some(RepairSource::Pinned(leg)) => {
                    format!("made equal to {}, which is read there", name(leg))
                }
            };
            format!("legs differ in {sectors} sectors of {extent}: {repair}")
        }
        Event::Unreadable { extent } => format!("no leg in sync can read {extent}"),
        Event::LegFaulted { .. }
        | Event::LastLegKept { .. }
        | Event::NoSpace { .. }
        | Event::ReadFailedOver { .. }
        | Event::ReadRepaired { .. }
        | Event::BadBlocksFound { .. }
        | Event::BadBlocksWritten { .. }
        | Event::LegAdded { .. }
        | Event::ReplaceBegun { .. }
        | Event::LegReplaced { .. }
        | Event::AddRefused { .. }
        | Event::Grown { .. }
        | Event::GrowRefused { .. }
        | Event::FlagsSet { .. }
        | Event::NoSpareFits { .. }
        | Event::LegInSync { .. } => unreachable!("told by the caller"),
    }
}

/// How background work has ended.
fn word_of_end(end: BackgroundEnd) -> String {
    match end {
        BackgroundEnd::Done => "done".to_owned(),
        BackgroundEnd::Stopped => "stopped".to_owned(),
        BackgroundEnd::Incomplete(first) => {
            format!("incomplete, the first bytes that could not be done are {first}")
        }
        BackgroundEnd::LegsFaulted => "ended, its legs are faulted".to_owned(),
        BackgroundEnd::NotRecorded => {
            "done, but that cannot be put on record: the last good leg fails".to_owned()
        }
    }
}

/// What is said of a leg, as `write-mostly, not failfast`.
pub(crate) fn words_of(flags: LegFlags) -> String {
    let word = |is_set| if is_set { "" } else { "not " };
    format!(
        "{}write-mostly, {}failfast",
        word(flags.write_mostly),
        word(flags.failfast)
    )
}

/// Why something cannot be said of a leg, as a sentence without its beginning.
pub(crate) const fn why_not_told(refusal: FlagsRefusal) -> &'static str {
    match refusal {
        FlagsRefusal::NoSuperblock => {
            "the legs of this array are raw, and such things are kept in md metadata"
        }
        FlagsRefusal::Out => "it is out, and nothing can be written to it",
        FlagsRefusal::Unequal => {
            "legs may differ, and which leg is read there must not change; it can be when a resync \
             has made them equal"
        }
        FlagsRefusal::Unrecorded => "the last change is not on record yet; try again",
    }
}

/// Why an array cannot get one more leg.
pub(crate) const fn why_not_grown(refusal: GrowRefusal) -> &'static str {
    match refusal {
        GrowRefusal::NoSuperblock => {
            "its legs are raw, and how many there are is kept in md metadata"
        }
        GrowRefusal::NotAMirror => {
            "only a mirror grows so; of RAID10 all data would have to move, which is left to \
             'mdadm --grow'"
        }
        GrowRefusal::NoRoom => "it has as many legs as there can be",
        GrowRefusal::Replacing => {
            "a leg is being replaced, and that has to be done first; 'heliostat status' shows how \
             far it is"
        }
        GrowRefusal::Unrecorded => "the last change is not on record yet; try again",
    }
}

/// What a scrub found.
fn found(mismatches: Mismatches) -> String {
    let Mismatches {
        sectors,
        runs,
        undecided_sectors,
    } = mismatches;
    let places = match runs {
        0 => return "no sector differs".to_owned(),
        1 => "1 place".to_owned(),
        runs => format!("{runs} places"),
    };
    let sectors = match sectors {
        1 => "1 sector differs".to_owned(),
        sectors => format!("{sectors} sectors differ"),
    };
    let undecided = match undecided_sectors {
        0 => String::new(),
        undecided => format!(", {undecided} of them without a majority that says what is right"),
    };
    format!("{sectors}, in {places}{undecided}")
}

/// Background work in a word.
pub(crate) const fn work(kind: BackgroundKind) -> &'static str {
    match kind {
        BackgroundKind::Resync => "resync",
        BackgroundKind::Rebuild => "rebuild",
        BackgroundKind::Scrub { repair: false } => "check",
        BackgroundKind::Scrub { repair: true } => "repair",
    }
}

/// Why a leg cannot be added, as a sentence without its beginning.
pub(crate) fn why_not_added(refusal: AddRefusal) -> String {
    match refusal {
        AddRefusal::Present => "it is there already".to_owned(),
        AddRefusal::Unrecorded => {
            "that it is out is not on record on the other legs yet; try again".to_owned()
        }
        AddRefusal::NoSuperblock => "it has no superblock of this array".to_owned(),
        AddRefusal::NotInSync => {
            "it is not in sync, and there is nothing to keep while it is replaced: take it out and \
             add the new one in its place"
                .to_owned()
        }
        AddRefusal::Replacing => {
            "a leg is being replaced already; to give that up, fail the leg that is to replace it"
                .to_owned()
        }
        AddRefusal::NoRoom => "the array has as many legs as can be served".to_owned(),
        AddRefusal::NoRole => "another leg has taken its role".to_owned(),
        AddRefusal::Outstanding(count) => format!(
            "{count} operations that the leg was given before it was faulted have not ended; try \
             again"
        ),
    }
}

/// Whether a leg may be added or replaced in a moment.
pub(crate) const fn passes(refusal: AddRefusal) -> bool {
    matches!(refusal, AddRefusal::Unrecorded | AddRefusal::Outstanding(_))
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
