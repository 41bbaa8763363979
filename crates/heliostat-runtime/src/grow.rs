//! `grow`: an array that is not served gets more or fewer legs, or uses more of them.
//!
//! What is written in which order, and why a crash in between does no harm, is in
//! `heliostat_format`; here the legs are opened for this process alone, looked at, and written.

use std::time::{SystemTime, UNIX_EPOCH};

use heliostat_format::assembly::{Assembly, Candidate};
use heliostat_format::{
    BITMAP_PAGE_BYTES, Growth, GrowthPlan, GrowthWrite, Role, Stamp, Superblock,
};
use heliostat_leg::{LegError, LegSpec, OpenedLeg};
use heliostat_types::{LegId, SECTOR_BYTES};

use crate::add::{Addition, Wanted, is_same_leg};
use crate::array_lock::ArrayLock;
use crate::md::OnLeg;
use crate::places::{Places, check_name};
use crate::registry::Registered;
use crate::setup::{Progress, going_on_without};
use crate::{RuntimeError, md};

/// How an array is to grow.
#[derive(Clone, Debug)]
pub struct GrowOptions {
    /// Which one.
    pub name: String,
    /// What it is to become.
    pub what: GrowWhat,
    /// Whether what lies on new legs may be destroyed.
    pub force: bool,
    /// Where it is remembered.
    pub places: Places,
}

/// What an array is to become.
#[derive(Clone, Debug)]
pub enum GrowWhat {
    /// A mirror of so many legs, some of which are new.
    Legs {
        /// How many.
        count: u32,
        /// The new ones.
        new: Vec<String>,
    },
    /// One that uses so much of each leg; `None`: as much as all of them have.
    Size {
        /// How much.
        bytes: Option<u64>,
        /// Whether the legs are known to be equal in what is new.
        assume_clean: bool,
    },
}

/// An array that has grown.
#[derive(Clone, Debug)]
pub struct GrownArray {
    /// Whether anything was changed.
    pub is_changed: bool,
    /// How many legs it had.
    pub legs_before: u32,
    /// How many it has.
    pub legs: u32,
    /// How large it was for clients.
    pub size_bytes_before: u64,
    /// How large it is.
    pub size_bytes: u64,
    /// How much of each leg is used.
    pub leg_bytes: u64,
    /// What one bit of the bitmap stands for.
    pub bitmap_chunk_bytes: Option<u64>,
    /// How many legs are not there, or not filled yet.
    pub legs_lacking: usize,
}

/// The legs that are there.
struct Legs {
    opened: Vec<OpenedLeg>,
    candidates: Vec<Candidate>,
}

/// Makes an array grow.
///
/// # Errors
/// Where it is served, or cannot grow so; the text says whether something was written.
pub fn grow(
    options: &GrowOptions,
    progress: &mut dyn Progress,
) -> Result<GrownArray, RuntimeError> {
    let name = &options.name;
    check_name(name)?;
    options.places.create()?;
    let way_out = format!(
        ". An array uses more of its legs only while it is not served: stop it first ('heliostat \
         stop {name}{}'), and serve it again afterwards",
        options.places.option()
    );
    let _lock = ArrayLock::take(options.places.lock(name), name, &way_out)?;
    let known = Registered::load(&options.places, name)?;
    let legs = open(&known, progress)?;
    let growth = growth_of(&options.what);
    let sizes: Vec<u64> = legs
        .opened
        .iter()
        .map(|leg| leg.info().size_bytes)
        .collect();
    let refused =
        |why: &dyn std::fmt::Display| RuntimeError(format!("{name} does not grow: {why}"));
    let plan = GrowthPlan::new(&legs.candidates, &sizes, growth, now());
    let plan = plan.map_err(|refusal| refused(&refusal))?;
    let additions = additions(options, &plan, &legs.candidates)?;
    let failed = |why: &dyn std::fmt::Display| {
        RuntimeError(format!(
            "{why}; {name} is somewhere in between, and can be served as it is; say the same again \
             to finish it"
        ))
    };
    let new_legs = additions
        .into_iter()
        .zip(&plan.new_legs)
        .map(|(addition, like)| addition.into_grown(like))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|why| refused(&why))?;
    write(&plan.writes, &legs.opened).map_err(|error| failed(&error))?;
    for (leg, superblock) in &new_legs {
        write_new(&plan, leg, superblock).map_err(|error| failed(&error))?;
    }
    let grown = told(&plan, &legs.candidates);
    remember(options, &known, &legs, &grown)?;
    Ok(grown)
}

fn growth_of(what: &GrowWhat) -> Growth {
    match what {
        GrowWhat::Legs { count, new } => Growth::Legs {
            count: *count,
            new: new.len(),
        },
        GrowWhat::Size {
            bytes,
            assume_clean,
        } => Growth::Size {
            bytes: *bytes,
            assume_clean: *assume_clean,
        },
    }
}

/// Opens the legs that are there, and reads what they say.
fn open(known: &Registered, progress: &mut dyn Progress) -> Result<Legs, RuntimeError> {
    let told = |error: &dyn std::fmt::Display| RuntimeError(error.to_string());
    let mut opened = Vec::new();
    let mut candidates = Vec::new();
    for text in &known.legs {
        let spec = LegSpec::parse(text).map_err(|error| told(&error))?;
        let leg = match spec.open() {
            Ok(leg) => leg,
            // It is there, and would be left behind.
            Err(error @ LegError::InUse { .. }) => return Err(told(&error)),
            Err(error) => {
                progress.note(&going_on_without(&error));
                continue;
            }
        };
        match md::look_at(&leg) {
            OnLeg::Candidate(found) if found.superblock.set_uuid.to_string() == known.uuid => {
                opened.push(leg);
                candidates.push(*found);
            }
            OnLeg::Unfit(unfit) => {
                let error = unfit.error();
                progress.note(&format!("going on without a leg: {error}"));
            }
            OnLeg::Nothing | OnLeg::Candidate(_) => {
                progress.note(&format!("{} is no leg of this array any more", leg.name()));
            }
        }
    }
    OpenedLeg::expect_distinct(&opened).map_err(|error| told(&error))?;
    Ok(Legs { opened, candidates })
}

/// Opens the new legs, and refuses those that cannot be such.
fn additions(
    options: &GrowOptions,
    plan: &GrowthPlan,
    candidates: &[Candidate],
) -> Result<Vec<Addition>, RuntimeError> {
    let GrowWhat::Legs { new, .. } = &options.what else {
        return Ok(Vec::new());
    };
    for (at, text) in new.iter().enumerate() {
        let mut legs = candidates.iter();
        if let Some(leg) = legs.find(|leg| is_same_leg(&leg.name, text)) {
            let what = match leg.superblock.role() {
                Some(Role::Active(role)) => format!("leg {role}"),
                role => role.map_or_else(|| "a leg".to_owned(), |role| format!("a {role} leg")),
            };
            return Err(RuntimeError(format!(
                "{text} is {what} of {} already; name new legs only",
                options.name
            )));
        }
        if new[..at].iter().any(|other| is_same_leg(other, text)) {
            return Err(RuntimeError(format!("{text} is named twice")));
        }
    }
    // A leg that was away is as good as a new one, unless it went on alone.
    let assembly = Assembly::of(candidates).map_err(|error| RuntimeError(error.to_string()))?;
    let wanted = Wanted {
        name: options.name.clone(),
        option: options.places.option(),
        // Whoever is one was found above.
        present: Vec::new(),
        spares: Vec::new(),
        like: plan.before.clone(),
        out: assembly.roles_lacking().map(LegId::new).collect(),
        known_since: None,
        bitmap: None,
        spare_numbers: Vec::new(),
        lineage: md::lineage(&assembly, candidates)?,
    };
    let mut additions = Vec::new();
    for text in new {
        let addition = Addition::open(text, options.force)?;
        addition.expect_usable(&wanted).map_err(RuntimeError)?;
        additions.push(addition);
    }
    Ok(additions)
}

/// Carries out writes, one after the other.
fn write(writes: &[GrowthWrite], legs: &[OpenedLeg]) -> Result<(), LegError> {
    for write in writes {
        match write {
            GrowthWrite::Superblock { leg, superblock } => {
                md::write_superblock(&legs[*leg], superblock)?;
            }
            GrowthWrite::BitmapPage { leg, sector, bytes } => {
                legs[*leg].write_at(sector * SECTOR_BYTES, bytes)?;
                legs[*leg].sync()?;
            }
        }
    }
    Ok(())
}

/// Makes a leg part of the array, with nothing on it yet.
fn write_new(plan: &GrowthPlan, leg: &OpenedLeg, superblock: &Superblock) -> Result<(), LegError> {
    if let (Some(bitmap), Some(sector)) = (&plan.bitmap, superblock.bitmap_sector()) {
        for page in 0..bitmap.page_count() {
            let at = sector * SECTOR_BYTES + (page * BITMAP_PAGE_BYTES) as u64;
            leg.write_at(at, bitmap.page_bytes(page))?;
        }
        leg.sync()?;
    }
    md::write_superblock(leg, superblock)
}

/// Remembers the new legs, and forgets those that are not there where there is no place for them
/// any more.
fn remember(
    options: &GrowOptions,
    known: &Registered,
    there: &Legs,
    grown: &GrownArray,
) -> Result<(), RuntimeError> {
    let GrowWhat::Legs { new, .. } = &options.what else {
        return Ok(());
    };
    let has_place = grown.legs_lacking > new.len();
    let is_there = |text: &String| there.opened.iter().any(|leg| leg.name() == *text);
    let legs = known.legs.iter().filter(|text| has_place || is_there(text));
    let legs = legs.chain(new).cloned();
    known.with_legs(legs).store(&options.places, &options.name)
}

fn told(plan: &GrowthPlan, candidates: &[Candidate]) -> GrownArray {
    let bytes = |superblock: &Superblock| superblock.array_sectors().unwrap_or(0) * SECTOR_BYTES;
    let in_sync = Assembly::of(candidates).map_or(0, |assembly| assembly.in_sync().count());
    GrownArray {
        is_changed: !plan.writes.is_empty(),
        legs_before: plan.before.raid_disks,
        legs: plan.after.raid_disks,
        size_bytes_before: bytes(&plan.before),
        size_bytes: bytes(&plan.after),
        leg_bytes: plan.after.size_sectors * SECTOR_BYTES,
        bitmap_chunk_bytes: plan
            .bitmap
            .as_ref()
            .map(|bits| u64::from(bits.super_block().chunk_bytes)),
        legs_lacking: (plan.after.raid_disks as usize).saturating_sub(in_sync),
    }
}

fn now() -> Stamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let since = since.unwrap_or_default();
    Stamp::new(since.as_secs(), since.subsec_micros())
}

#[cfg(test)]
mod tests;
