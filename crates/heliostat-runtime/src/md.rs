//! Arrays of Linux md: from legs with superblocks to who is a leg of what.
//!
//! What can be wrong with an array is told before anything is written: to be served, legs must
//! agree with each other and be understood as a whole.

use std::time::SystemTime;

use heliostat_engine::{Assembled, Lineage, shape_of};
use heliostat_format::assembly::{Assembly, AssemblyError, Candidate, LeftOut, Member, Resync};
use heliostat_format::{BadBlocks, BitmapBits, DeviceFlags, Search, Superblock, Uuid};
use heliostat_leg::{LegError, OpenedLeg};
use heliostat_types::{Duration, LEGS_MAX, LegId, SECTOR_BYTES};
use stdx::units::format_size;

use crate::RuntimeError;
use crate::setup::Progress;
use crate::unfit::Unfit;

/// An array whose legs describe it.
#[derive(Debug)]
pub(crate) struct Described {
    pub(crate) assembled: Assembled,
    /// The array's identity.
    pub(crate) uuid: Uuid,
    /// What each leg is called, by role; also of those that are missing. Empty is the name of one
    /// that nobody needs to know of: the place of a leg that replaces another one.
    pub(crate) names: Vec<String>,
    /// By role, what its superblock says of the leg.
    pub(crate) flags: Vec<DeviceFlags>,
    /// By role, where its data begins.
    pub(crate) data_offsets: Vec<u64>,
    /// The candidates that were away and come back: before anything else they have to say
    /// themselves that they are incomplete.
    pub(crate) returning: Vec<usize>,
    /// The candidates that wait to be needed.
    pub(crate) spares: Vec<usize>,
}

impl Described {
    /// How many writes write-mostly legs may be behind.
    pub(crate) fn write_behind(&self) -> u32 {
        let bitmap = self.assembled.metadata.bitmap.as_ref();
        bitmap.map_or(0, |bits| bits.super_block().write_behind_max)
    }
}

/// What was found on a leg.
#[derive(Debug)]
pub(crate) enum OnLeg {
    /// No superblock of md.
    Nothing,
    /// What it says of its array.
    Candidate(Box<Candidate>),
    /// A superblock that cannot be understood or believed, or nothing that can be read.
    Unfit(Unfit),
}

/// What a leg says of its array.
pub(crate) fn look_at(leg: &OpenedLeg) -> OnLeg {
    let read = &mut |offset_bytes, len| -> Result<Vec<u8>, LegError> {
        let mut bytes = vec![0; len];
        leg.read_at(offset_bytes, &mut bytes)?;
        Ok(bytes)
    };
    let search = match Search::run(leg.info().size_bytes, read) {
        Ok(search) => search,
        Err(error) => return OnLeg::Unfit(Unfit::new(leg, &error, None)),
    };
    if let Some((place, error)) = search.broken.first() {
        let why = format!(
            "its md superblock of version {} cannot be used: {error}",
            place.minor
        );
        return OnLeg::Unfit(Unfit::new(leg, &why, None));
    }
    let Some(found) = search.found.into_iter().next() else {
        return OnLeg::Nothing;
    };
    // With a wrong sum, nothing that it says can be believed.
    let is_whole = found.checksum.0 == found.checksum.1;
    let own = is_whole.then_some(&found.superblock);
    let unfit = |why: &dyn std::fmt::Display| OnLeg::Unfit(Unfit::new(leg, why, own));
    if let Some(refusal) = &found.refusal {
        return unfit(refusal);
    }
    let bitmap = match found.bitmap {
        // One that is understood, and not what is kept here.
        Some(Err(refusal)) if found.bitmap_super.is_some() => return unfit(&refusal),
        bitmap => bitmap.and_then(Result::ok),
    };
    let bad_blocks = match found.bad_blocks.unwrap_or_else(|| Ok(BadBlocks::new(0))) {
        Ok(bad_blocks) => bad_blocks,
        Err(error) => return unfit(&error),
    };
    OnLeg::Candidate(Box::new(Candidate {
        name: leg.name().to_owned(),
        superblock: found.superblock,
        bitmap,
        bad_blocks,
    }))
}

/// Makes a superblock durable on a leg, in whole blocks.
///
/// # Errors
/// Where the leg fails.
pub(crate) fn write_superblock(leg: &OpenedLeg, superblock: &Superblock) -> Result<(), LegError> {
    let mut bytes = superblock.to_bytes();
    let block = leg.info().logical_block_bytes as usize;
    bytes.resize(bytes.len().next_multiple_of(block), 0);
    leg.write_at(superblock.super_offset_sectors * SECTOR_BYTES, &bytes)?;
    leg.sync()
}

/// How an array is to be put together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice<'a> {
    /// What it is called here.
    pub(crate) name: &'a str,
    /// What a command has to be told besides to find it.
    pub(crate) option: &'a str,
    /// Whether it may lack legs that it counts on.
    pub(crate) degraded_ok: bool,
    /// Whether legs that were away are given back what they missed.
    pub(crate) takes_back: bool,
}

/// Puts the array together, and tells of what is not as it should be.
///
/// # Errors
/// Where the legs are no array that can be served, or it lacks legs and that is not allowed.
pub(crate) fn describe(
    candidates: &[Candidate],
    choice: Choice<'_>,
    progress: &mut dyn Progress,
) -> Result<Described, RuntimeError> {
    let mut assembly = Assembly::of(candidates).map_err(|error| refused(&error, candidates))?;
    if assembly.members.len() == LEGS_MAX {
        // There is no place for one more.
        assembly.leave_replacement_out();
    }
    let returning = if choice.takes_back {
        assembly.take_back(candidates)
    } else {
        Vec::new()
    };
    let assembled = Assembled::of(&assembly, candidates, unix_time());
    let assembled = assembled.map_err(|error| {
        let left_out = left_out_lines(&assembly, candidates, choice);
        let lines: Vec<String> = left_out.map(|line| format!(";\n  {line}")).collect();
        RuntimeError(format!(
            "the array {} cannot be served: {error}{}",
            candidates[assembly.freshest].superblock.name(),
            lines.concat()
        ))
    })?;
    let lost: Vec<usize> = assembly.roles_lost(candidates).collect();
    let rebuilt = rebuilt_lines(&assembly, candidates);
    let left_out: Vec<String> = rebuilt
        .chain(replacement_line(&assembly, candidates))
        .chain(left_out_lines(&assembly, candidates, choice))
        .collect();
    if !lost.is_empty() && !choice.degraded_ok {
        return Err(lacks_legs(&assembly, candidates, &lost, &left_out));
    }
    left_out.iter().for_each(|line| progress.note(line));
    tell_state(&assembly, candidates, progress);
    let of = |role: usize| assembled.candidates[role].map(|index| &candidates[index]);
    let roles = 0..assembled.candidates.len();
    let names = roles.clone().map(|role| {
        let name = of(role).map(|candidate| candidate.name.clone());
        name.unwrap_or_else(|| name_of_missing(role))
    });
    let flags = roles.clone().map(|role| {
        of(role).map_or_else(DeviceFlags::default, |candidate| {
            candidate.superblock.device_flags
        })
    });
    let data_offsets = roles.map(|role| {
        of(role).map_or(0, |candidate| {
            candidate.superblock.data_offset_sectors * SECTOR_BYTES
        })
    });
    Ok(Described {
        names: names.collect(),
        flags: flags.collect(),
        data_offsets: data_offsets.collect(),
        uuid: candidates[assembly.freshest].superblock.set_uuid,
        assembled,
        returning,
        spares: assembly.spares,
    })
}

/// What a leg is called that is not there.
pub(crate) fn name_of_missing(role: usize) -> String {
    format!("missing:{role}")
}

/// Whether all legs are there that these count on: what is lacking besides was lacking before.
pub(crate) fn has_all_expected(candidates: &[Candidate]) -> bool {
    let assembly = Assembly::of(candidates);
    assembly.is_ok_and(|assembly| assembly.roles_lost(candidates).next().is_none())
}

/// Refuses an array that has not all the legs that it counts on.
fn lacks_legs(
    assembly: &Assembly,
    candidates: &[Candidate],
    lost: &[usize],
    left_out: &[String],
) -> RuntimeError {
    let roles: Vec<String> = lost.iter().map(usize::to_string).collect();
    let lines = left_out.iter().map(|line| format!("\n  {line}"));
    let is_there = |role: &usize| !matches!(assembly.members[*role], Member::Missing);
    let way_out = if lost.iter().all(is_there) {
        "Serve it with --degraded-ok: until that is done, there are fewer copies than there \
         should be."
    } else {
        "Name it as well, or serve without it with --degraded-ok: then what is written is not on \
         it."
    };
    RuntimeError(format!(
        "the array {} lacks leg {} of {}{}{}\n{way_out}",
        candidates[assembly.freshest].superblock.name(),
        roles.join(" and "),
        assembly.members.len(),
        if left_out.is_empty() { "" } else { ":" },
        lines.collect::<String>()
    ))
}

/// Why legs are no array; where that is so of all of them, with their names.
fn refused(error: &AssemblyError, candidates: &[Candidate]) -> RuntimeError {
    let is_of_all = matches!(
        error,
        AssemblyError::OnlySpares | AssemblyError::NoneInSync | AssemblyError::NoBitmap
    );
    if !is_of_all {
        return RuntimeError(error.to_string());
    }
    let names: Vec<&str> = candidates.iter().map(|leg| leg.name.as_str()).collect();
    RuntimeError(format!("{}: {error}", names.join(", ")))
}

/// What is to be known before the array is served.
fn tell_state(assembly: &Assembly, candidates: &[Candidate], progress: &mut dyn Progress) {
    let fresh = &candidates[assembly.freshest].superblock;
    let name = fresh.name();
    let why = match (fresh.events, fresh.resync_offset_sectors) {
        // New, or killed before it was equal for the first time: both look the same.
        (0, _) => "has not been resynced yet",
        (_, 0) => "was not stopped in order",
        // It grew, or the kernel was stopped while it resynced it.
        (_, _) => "was not resynced to its end",
    };
    let is_alone = legs_there(assembly) == 1;
    match assembly.resync {
        Resync::Nowhere => {}
        Resync::Bits | Resync::From(_) if is_alone => progress.note(&format!(
            "{name} {why}: one leg is there, so that nothing differs"
        )),
        Resync::Bits => {
            let bits = assembly.bitmap.as_ref().map_or(0, BitmapBits::count_set);
            let chunk_bytes = assembly
                .bitmap
                .as_ref()
                .map_or(0, |bitmap| u64::from(bitmap.super_block().chunk_bytes));
            progress.note(&format!(
                "{name} {why}: its legs may differ in {bits} {} of {}",
                if bits == 1 { "chunk" } else { "chunks" },
                format_size(chunk_bytes)
            ));
        }
        Resync::From(sector) => progress.note(&format!(
            "{name} {why} and has no bitmap: its legs may differ anywhere from {} on",
            format_size(sector.saturating_mul(SECTOR_BYTES))
        )),
    }
    for index in &assembly.spares {
        progress.note(&format!("{} is a spare", candidates[*index].name));
    }
}

/// How many legs are there and are, or will be, in sync.
fn legs_there(assembly: &Assembly) -> usize {
    let is_there = |member: &&Member| **member != Member::Missing;
    let members = assembly.members.iter().filter(is_there).count();
    members + usize::from(assembly.replacement.is_some())
}

/// What is said besides of a leg whose copying goes on at an address: where the array was not
/// stopped in order, what lies below is copied as far as legs in sync may differ there.
fn once_more(assembly: &Assembly, from_sectors: u64) -> &'static str {
    if assembly.resync == Resync::Nowhere || from_sectors == 0 {
        return "";
    }
    "; what legs may differ in below that is copied once more"
}

/// What is done about each leg that is there and not in sync.
fn rebuilt_lines<'a>(
    assembly: &'a Assembly,
    candidates: &'a [Candidate],
) -> impl Iterator<Item = String> + 'a {
    let bits = assembly.bitmap.as_ref().map_or(0, BitmapBits::count_set);
    let size = |sectors: u64| format_size(sectors.saturating_mul(SECTOR_BYTES));
    assembly
        .members
        .iter()
        .filter_map(move |member| match *member {
            Member::Rebuilding {
                candidate,
                from_sectors,
                by_bitmap,
            } => {
                let what = if by_bitmap {
                    "the copying of what it missed goes on"
                } else {
                    "its rebuild goes on"
                };
                Some(format!(
                    "{} is not in sync: {what} at {}{}",
                    candidates[candidate].name,
                    size(from_sectors),
                    once_more(assembly, from_sectors)
                ))
            }
            Member::Returning {
                candidate,
                from_sectors,
            } => {
                let rest = from_sectors.map(|sectors| {
                    let from = size(sectors);
                    format!(", and all from {from} on, where its rebuild had come")
                });
                Some(format!(
                    "{} was away and comes back: it gets the {bits} chunks that were written \
                 since{}",
                    candidates[candidate].name,
                    rest.unwrap_or_default()
                ))
            }
            Member::InSync(_) | Member::Missing => None,
        })
}

/// What is done about a leg that is to replace another one.
fn replacement_line(assembly: &Assembly, candidates: &[Candidate]) -> Option<String> {
    let known = assembly.replacement?;
    Some(format!(
        "{} is to replace leg {}: the copying goes on at {}{}",
        candidates[known.candidate].name,
        known.role,
        format_size(known.from_sectors.saturating_mul(SECTOR_BYTES)),
        once_more(assembly, known.from_sectors)
    ))
}

/// Which legs may have been written to without those in sync.
///
/// # Errors
/// Where the array is none that can be served.
pub(crate) fn lineage(
    assembly: &Assembly,
    candidates: &[Candidate],
) -> Result<Lineage, RuntimeError> {
    let fresh = &candidates[assembly.freshest].superblock;
    let (map, _) = shape_of(fresh).map_err(|error| RuntimeError(error.to_string()))?;
    let members = assembly.members.iter().enumerate();
    let in_sync = members.filter_map(|(role, member)| match *member {
        Member::InSync(at) => Some((LegId::new(role), candidates[at].superblock.dev_number)),
        Member::Rebuilding { .. } | Member::Returning { .. } | Member::Missing => None,
    });
    let in_sync: Vec<(LegId, u32)> = in_sync.collect();
    Ok(Lineage::new(&map, fresh, &in_sync))
}

/// Why a leg is left out. One that calls others out that are in sync need not have gone on alone:
/// they may be back since.
fn with_lineage(
    why: LeftOut,
    lineage: Option<&Lineage>,
    assembly: &Assembly,
    own: &Superblock,
) -> LeftOut {
    let bits = assembly.bitmap.as_ref();
    let by_bitmap = bits.is_some_and(|bits| own.events >= bits.super_block().events_cleared);
    if why == LeftOut::WentAlone && lineage.is_some_and(|known| known.vouches_for(own)) {
        return LeftOut::Failed { by_bitmap };
    }
    why
}

/// Why each leg that is not used is not, and what can be done about it.
fn left_out_lines<'a>(
    assembly: &'a Assembly,
    candidates: &'a [Candidate],
    choice: Choice<'a>,
) -> impl Iterator<Item = String> + 'a {
    let fresh = candidates[assembly.freshest].name.clone();
    let (array, option) = (choice.name, choice.option);
    let is_complete = assembly.roles_lacking().next().is_none();
    let lineage = lineage(assembly, candidates).ok();
    assembly.left_out.iter().map(move |&(index, why)| {
        let name = &candidates[index].name;
        let why = with_lineage(
            why,
            lineage.as_ref(),
            assembly,
            &candidates[index].superblock,
        );
        let comes_back = |by_bitmap: bool| {
            let what = if by_bitmap {
                "the bitmap knows what it missed"
            } else {
                "all of it is copied then"
            };
            format!("'heliostat add {array} {name}{option}' brings it back; {what}")
        };
        match why {
            LeftOut::Stale {
                events,
                freshest,
                by_bitmap,
            } => format!(
                "{name} is left out: it missed changes (it is at event {events}, and {fresh} is at \
                 {freshest}); {}",
                comes_back(by_bitmap)
            ),
            LeftOut::Failed { .. } if is_complete => format!(
                "{name} is left out: it failed or was replaced, as {fresh} says, and the array has \
                 all its legs without it"
            ),
            LeftOut::Failed { by_bitmap } => format!(
                "{name} is left out: it failed, as {fresh} says; if it is sound, {}",
                comes_back(by_bitmap)
            ),
            LeftOut::Removed { by_bitmap } => format!(
                "{name} is left out: it was removed from the array, as {fresh} says; {}",
                comes_back(by_bitmap)
            ),
            LeftOut::WentAlone => format!(
                "{name} is left out: it and {fresh} say of each other that they failed, so each \
                 may hold changes that the other lacks; if those of {name} may be lost, 'heliostat \
                 add {array} {name}{option} --force' copies all of the array over them"
            ),
            LeftOut::Bitmap { is_there } => {
                let [own, other] = if is_there {
                    ["a", "none"]
                } else {
                    ["no", "one"]
                };
                format!(
                    "{name} is left out: it has {own} bitmap, and {fresh} has {other}; let the \
                     kernel assemble the array once, or add the leg again"
                )
            }
            LeftOut::Replacement(role) => format!(
                "{name} is left out: it was being made a replacement of leg {role}, which is not \
                 in sync itself, not the only one that is replaced, or one of {LEGS_MAX}; let the \
                 kernel finish that, or remove it with mdadm"
            ),
            LeftOut::Replaced(role) => {
                format!("{name} is left out: another leg has taken its role {role}")
            }
        }
    })
}

/// The time since 1970.
fn unix_time() -> Duration {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let ns = since.map_or(0, |since| since.as_nanos());
    Duration::from_ns(u64::try_from(ns).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use heliostat_format::assembly::{Assembly, Member, Resync};

    use super::{legs_there, once_more};

    #[test]
    fn what_is_copied_once_more_after_a_crash_is_said() {
        let rebuilding = Member::Rebuilding {
            candidate: 1,
            from_sectors: 2048,
            by_bitmap: true,
        };
        let mut assembly = Assembly {
            freshest: 0,
            members: vec![Member::InSync(0), rebuilding, Member::Missing],
            replacement: None,
            spares: Vec::new(),
            left_out: Vec::new(),
            bitmap: None,
            resync: Resync::Nowhere,
            is_uneven: false,
        };
        assert_eq!(legs_there(&assembly), 2);
        assert_eq!(once_more(&assembly, 2048), "");
        assembly.resync = Resync::Bits;
        assert!(once_more(&assembly, 2048).contains("copied once more"));
        assert_eq!(once_more(&assembly, 0), "", "all of it is copied");
    }
}
