//! Legs that were named and cannot be used: whether the array may be served without them.
//!
//! A leg whose superblock was destroyed is as good as one that is not there, and may be done
//! without where a leg may that is not there. One that is whole, of this array, and newer than all
//! others is not: what it knows the others have missed, and to go on without it would be to lose
//! that without a word.

use heliostat_format::assembly::Candidate;
use heliostat_format::{Superblock, Uuid};
use heliostat_leg::OpenedLeg;

use crate::RuntimeError;
use crate::setup::Progress;

/// A leg that cannot be used.
#[derive(Debug)]
pub(crate) struct Unfit {
    /// What it is called.
    pub(crate) name: String,
    /// Why not, and what is to be done.
    pub(crate) why: String,
    /// Which array it is of and how much it heard of that, where that can be believed.
    pub(crate) known: Option<(Uuid, u64)>,
}

impl Unfit {
    /// One whose superblock is whole where there is one.
    pub(crate) fn new(
        leg: &OpenedLeg,
        why: &dyn std::fmt::Display,
        own: Option<&Superblock>,
    ) -> Self {
        Self {
            name: leg.name().to_owned(),
            why: why.to_string(),
            known: own.map(|own| (own.set_uuid, own.events)),
        }
    }

    /// The same as an error.
    pub(crate) fn error(&self) -> RuntimeError {
        let (name, why) = (&self.name, &self.why);
        RuntimeError(format!(
            "{name}: {why} (what lies there shows 'heliostat examine {name}')"
        ))
    }
}

/// Goes on without these legs where that is allowed, and tells so.
///
/// # Errors
/// Where it is not allowed, or one of them knows what the others do not.
pub(crate) fn leave_out(
    unfit: &[Unfit],
    candidates: &[Candidate],
    degraded_ok: bool,
    progress: &mut dyn Progress,
) -> Result<(), RuntimeError> {
    let freshest = candidates.iter().max_by_key(|leg| leg.superblock.events);
    let Some(freshest) = freshest.filter(|_| !unfit.is_empty()) else {
        return Ok(());
    };
    let (array, events) = (&freshest.superblock.set_uuid, freshest.superblock.events);
    let newer = unfit.iter().find_map(|leg| {
        let (uuid, own) = leg.known?;
        (uuid == *array && own > events).then_some((leg, own))
    });
    if let Some((leg, own)) = newer {
        return Err(RuntimeError(format!(
            "{}; it is at event {own}, and the newest other leg, {}, at {events}: to serve without \
             it loses what was changed since. If that may be lost, name the other legs alone",
            leg.error(),
            freshest.name
        )));
    }
    if !degraded_ok {
        let lines = unfit.iter().map(|leg| format!("\n  {}", leg.error()));
        return Err(RuntimeError(format!(
            "not all of these can be legs of the array {}:{}\nName only those that can, or serve \
             without the others with --degraded-ok: then what is written is not on them.",
            freshest.superblock.name(),
            lines.collect::<String>()
        )));
    }
    for leg in unfit {
        progress.note(&format!("{} is left out: {}", leg.name, leg.why));
    }
    Ok(())
}
