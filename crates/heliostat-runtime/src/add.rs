//! `add`: a leg that was away, or a new one, becomes part of an array that is being served.
//!
//! Opening it and looking at it takes time, and is done by whoever asks; the loop decides with what
//! the array is at that moment.

use std::fs::File;
use std::io::Read;

use heliostat_engine::{GrowRefusal, Lineage};
use heliostat_format::assembly::Candidate;
use heliostat_format::{
    BadBlocks, BitmapBits, DeviceFlags, Features, Minor, ROLES_MAX, Role, SUPERBLOCK_BYTES_MAX,
    Superblock, Uuid,
};
use heliostat_leg::{LegSpec, OpenedLeg};
use heliostat_types::{LEGS_MAX, LegId, LegSet, SECTOR_BYTES};
use stdx::units::format_size;

use crate::md::{self, OnLeg};
use crate::{RuntimeError, events, found};

/// How much there is at the most from a superblock at the end of a leg to that end.
const END_SECTORS: u64 = 24;

mod grown;
mod known;

/// A leg that is to be added.
#[derive(Debug)]
pub(crate) struct Addition {
    /// It, open.
    leg: OpenedLeg,
    /// What it says of its array, where it is of one.
    candidate: Option<Candidate>,
    /// What else lies on it; `None` where it is empty or of an array.
    found: Option<String>,
    /// Whether that may be destroyed.
    force: bool,
    /// What is said of it besides what it says of itself.
    flags: DeviceFlags,
}

/// What the array is, to whoever is to become a leg of it.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// What the array is served as.
    pub(crate) name: String,
    /// What a command has to be told besides to find it.
    pub(crate) option: String,
    /// The legs that are in, as they were written, with their roles.
    pub(crate) present: Vec<(usize, String)>,
    /// The spares, as they were written.
    pub(crate) spares: Vec<String>,
    /// The superblock of a leg in sync, with the newest table of roles.
    pub(crate) like: Superblock,
    /// The roles whose legs are out.
    pub(crate) out: LegSet,
    /// What legs that are at this count of events or beyond have missed, the bitmap knows.
    pub(crate) known_since: Option<u64>,
    /// The numbers of spares, which the table of roles does not show.
    pub(crate) spare_numbers: Vec<u32>,
    /// The bitmap.
    pub(crate) bitmap: Option<BitmapBits>,
    /// Which legs may have been written to without the array.
    pub(crate) lineage: Lineage,
}

impl Wanted {
    /// Refuses a leg that is one of the array already.
    ///
    /// # Errors
    /// Says which one.
    pub(crate) fn expect_absent(&self, text: &str) -> Result<(), String> {
        let mut present = self.present.iter();
        if let Some((role, _)) = present.find(|(_, name)| is_same_leg(name, text)) {
            return Err(format!("{text} is leg {role} of {} already", self.name));
        }
        if self.spares.iter().any(|spare| is_same_leg(spare, text)) {
            return Err(format!("{text} is a spare of {} already", self.name));
        }
        Ok(())
    }

    /// Refuses to replace a leg while another one is out: a new one is needed there first.
    ///
    /// # Errors
    /// Says which one.
    pub(crate) fn expect_whole(&self, by: &str) -> Result<(), String> {
        let Some(out) = self.out.lowest() else {
            return Ok(());
        };
        let (role, name, option) = (out.index(), &self.name, &self.option);
        Err(format!(
            "leg {role} of {name} is out, and {by} is needed more in its place: 'heliostat add \
             {name} {by}{option}'"
        ))
    }

    /// Refuses to make the array one of so many legs, of which these are new, where it cannot be
    /// while it is served. How many it has now.
    ///
    /// # Errors
    /// Says why, and what to do.
    pub(crate) fn expect_to_grow(&self, legs: usize, new: &[String]) -> Result<usize, String> {
        let (name, option) = (&self.name, &self.option);
        let before = self.like.raid_disks as usize;
        let refused = |why: &str| Err(format!("{name} does not grow: {why}"));
        if self.like.level != 1 {
            return refused(events::why_not_grown(GrowRefusal::NotAMirror));
        }
        if legs < before {
            return Err(format!(
                "{name} has {before} legs, and gets fewer only while it is not served: 'heliostat \
                 stop {name}{option}', and then the same again"
            ));
        }
        if legs > LEGS_MAX {
            return refused(&format!("a mirror has 1 to {LEGS_MAX} legs here"));
        }
        if new.len() > legs - before {
            return refused(&format!(
                "it has {before} legs, and with {} new ones more than {legs} in all; 'heliostat \
                 add {name} LEG{option}' adds a spare",
                new.len()
            ));
        }
        if legs == before {
            // It was said again, and the last place may still be empty.
            return Ok(before);
        }
        if let Some(out) = self.out.lowest() {
            return refused(&format!(
                "its leg {out} is out, and a new one is needed more in that place: 'heliostat add \
                 {name} LEG{option}'",
                out = out.index()
            ));
        }
        for (at, leg) in new.iter().enumerate() {
            let mut present = self.present.iter();
            if let Some((role, _)) = present.find(|(_, name)| is_same_leg(name, leg)) {
                return Err(format!(
                    "{leg} is leg {role} of {name} already; name new legs only"
                ));
            }
            if new[..at].iter().any(|other| is_same_leg(other, leg)) {
                return Err(format!("{leg} is named twice"));
            }
        }
        Ok(before)
    }

    /// Whether the leg of a role is out.
    fn is_out(&self, role: u16) -> bool {
        self.out.contains(LegId::new(usize::from(role)))
    }

    /// The role of the leg that is there with this number.
    fn role_in_use(&self, number: u32) -> Option<u16> {
        match self.like.role_of(number) {
            Some(Role::Active(role)) if !self.is_out(role) => Some(role),
            _ => None,
        }
    }
}

/// Whether two legs, as they were written, are the same file or device, or the same words.
pub(crate) fn is_same_leg(one: &str, other: &str) -> bool {
    let files = (std::fs::canonicalize(one), std::fs::canonicalize(other));
    one == other || matches!(files, (Ok(one), Ok(other)) if one == other)
}

/// A leg that can become part of the array at once.
#[derive(Debug)]
pub(crate) struct NewLeg {
    pub(crate) leg: OpenedLeg,
    /// What it says, or is to say, of its array.
    pub(crate) superblock: Superblock,
    /// What it says that it does not hold; `None` where it is new.
    pub(crate) bad_blocks: Option<BadBlocks>,
    /// Whether nothing of the array is on it.
    pub(crate) is_new: bool,
    /// Whether it was one before, new or not.
    pub(crate) was_leg: bool,
    /// Whether it is to wait until it is needed.
    pub(crate) is_spare: bool,
}

impl Addition {
    /// Opens a leg and looks at it.
    ///
    /// # Errors
    /// Where it cannot be a leg.
    pub(crate) fn open(text: &str, force: bool) -> Result<Self, RuntimeError> {
        let told = |error: &dyn std::fmt::Display| RuntimeError(error.to_string());
        let spec = LegSpec::parse(text).map_err(|error| told(&error))?;
        let leg = spec.open().map_err(|error| told(&error))?;
        if leg.info().volatile {
            return Err(RuntimeError(format!(
                "{spec} begins empty at each start, and cannot be a leg of an array with metadata"
            )));
        }
        // One that cannot be understood is as good as something unknown.
        let candidate = match md::look_at(&leg) {
            OnLeg::Candidate(candidate) => Some(*candidate),
            OnLeg::Nothing | OnLeg::Unfit(_) => None,
        };
        let found = match &candidate {
            Some(_) => None,
            None => found::on_leg(&leg)?,
        };
        Ok(Self {
            leg,
            candidate,
            found,
            force,
            flags: DeviceFlags::default(),
        })
    }

    /// These flags are set of it.
    pub(crate) fn with_flags(self, flags: DeviceFlags) -> Self {
        Self { flags, ..self }
    }

    /// What it says of itself.
    pub(crate) fn own_flags(&self) -> DeviceFlags {
        let candidate = self.candidate.as_ref();
        candidate.map_or_else(DeviceFlags::default, |own| own.superblock.device_flags)
    }

    /// Makes it ready to be added.
    ///
    /// # Errors
    /// Where it cannot be a leg of this array, is not needed, or holds something that is not to be
    /// lost. Nothing was written to it then.
    pub(crate) fn prepare(self, wanted: &Wanted) -> Result<NewLeg, String> {
        if let Some(own) = self.own(wanted) {
            let own = Superblock {
                device_flags: own.device_flags.with(self.flags),
                ..own.clone()
            };
            // What it holds is about to become neither old nor new.
            let written = md::write_superblock(&self.leg, &own.incomplete());
            written.map_err(|error| error.to_string())?;
            return Ok(NewLeg {
                leg: self.leg,
                superblock: own,
                bad_blocks: self.candidate.map(|candidate| candidate.bad_blocks),
                is_new: false,
                was_leg: true,
                is_spare: false,
            });
        }
        let is_spare = wanted.out.is_empty();
        self.prepare_new(wanted, is_spare)
    }

    /// Makes it ready to replace another leg.
    ///
    /// # Errors
    /// As [`Self::prepare`].
    pub(crate) fn prepare_replacement(self, wanted: &Wanted) -> Result<NewLeg, String> {
        self.prepare_new(wanted, false)
    }

    /// Makes it ready to be added as a new one.
    fn prepare_new(self, wanted: &Wanted, is_spare: bool) -> Result<NewLeg, String> {
        self.refuse_other_data(wanted)?;
        let superblock = self.new_superblock(&wanted.like, &wanted.spare_numbers)?;
        self.clear(&superblock)?;
        if is_spare {
            self.format_spare(&superblock, wanted)?;
        }
        Ok(NewLeg {
            was_leg: self.of_array(wanted).is_some_and(has_data),
            leg: self.leg,
            superblock,
            bad_blocks: None,
            is_new: true,
            is_spare,
        })
    }

    /// Writes what a spare says: that it belongs to the array, and has no role.
    fn format_spare(&self, superblock: &Superblock, wanted: &Wanted) -> Result<(), String> {
        let told = |error: heliostat_leg::LegError| error.to_string();
        if let (Some(bitmap), Some(sector)) = (&wanted.bitmap, superblock.bitmap_sector()) {
            let written = self.leg.write_at(sector * SECTOR_BYTES, bitmap.bytes());
            written.map_err(told)?;
            self.leg.sync().map_err(told)?;
        }
        md::write_superblock(&self.leg, &superblock.holding_nothing()).map_err(told)
    }

    /// What it says, where it is of this array.
    fn of_array(&self, wanted: &Wanted) -> Option<&Superblock> {
        let own = &self.candidate.as_ref()?.superblock;
        (own.set_uuid == wanted.like.set_uuid).then_some(own)
    }

    /// Its superblock, where it was a leg of the array that is out, and still fits in.
    fn own(&self, wanted: &Wanted) -> Option<&Superblock> {
        let like = &wanted.like;
        let own = self.of_array(wanted)?;
        let is_alike = own.size_sectors == like.size_sectors
            && own.features.contains(Features::BITMAP) == like.features.contains(Features::BITMAP)
            && !own.features.contains(Features::REPLACEMENT);
        let is_out = matches!(own.role(), Some(Role::Active(role)) if wanted.is_out(role));
        // Its number may have been given to another leg.
        let is_its_number = match like.role_of(own.dev_number) {
            Some(Role::Active(_)) => like.role_of(own.dev_number) == own.role(),
            told => told.is_some(),
        };
        let is_it = is_alike && is_out && is_its_number && wanted.lineage.vouches_for(own);
        is_it.then_some(own)
    }

    /// What a leg of this array may hold that the array lacks, as a sentence without its end.
    fn own_data(&self, wanted: &Wanted) -> Option<String> {
        let own = self.of_array(wanted).filter(|own| has_data(own))?;
        let (name, array) = (self.leg.name(), &wanted.name);
        if let Some(role) = wanted.role_in_use(own.dev_number) {
            return Some(format!(
                "{name} is a copy of leg {role} of {array}, which is there"
            ));
        }
        if wanted.lineage.is_older_than(own) {
            return Some(format!(
                "{name} is newer than {array}, at event {} where {array} is at {}, and holds \
                 changes that {array} lacks",
                own.events, wanted.like.events
            ));
        }
        (!wanted.lineage.vouches_for(own)).then(|| {
            format!(
                "{name} may hold changes that {array} lacks: it does not know the legs that are in \
                 sync as such, so that it may have been written to without them"
            )
        })
    }

    /// Refuses a leg that holds something else than this array.
    fn refuse_other_data(&self, wanted: &Wanted) -> Result<(), String> {
        if self.force {
            return Ok(());
        }
        if let Some(why) = self.own_data(wanted) {
            return Err(format!(
                "{why}; if that may be lost, say --force: then all of the array is copied over it"
            ));
        }
        let like = &wanted.like;
        let name = self.leg.name();
        let other = self
            .candidate
            .as_ref()
            .map(|candidate| &candidate.superblock);
        let other = other.filter(|superblock| superblock.set_uuid != like.set_uuid);
        let what = match (other, &self.found) {
            (Some(other), _) => {
                format!(
                    "a leg of the md array {} ({})",
                    other.name(),
                    other.set_uuid
                )
            }
            (None, Some(found)) => found.clone(),
            (None, None) => return Ok(()),
        };
        Err(format!(
            "{name} holds {what}, all of which would be lost; if that is what you want, say --force"
        ))
    }

    /// The superblock of a new leg.
    fn new_superblock(
        &self,
        like: &Superblock,
        spare_numbers: &[u32],
    ) -> Result<Superblock, String> {
        let size_bytes = self.leg.info().size_bytes;
        let Some((super_offset_sectors, data_size_sectors)) = places(like, size_bytes) else {
            // A leg of version 1.0 has more behind its data.
            let behind = like.super_offset_sectors + END_SECTORS;
            let behind = behind.saturating_sub(like.data_offset_sectors + like.data_size_sectors);
            let needed = like.data_offset_sectors + like.size_sectors;
            let needed = match like.super_offset_sectors < like.data_offset_sectors {
                true => needed * SECTOR_BYTES,
                false => (needed + behind) * SECTOR_BYTES,
            };
            return Err(format!(
                "{} has {}, and a leg of this array needs {} ({needed} bytes)",
                self.leg.name(),
                format_size(size_bytes),
                format_size(needed)
            ));
        };
        // Behind all that are in use: a leg that is away may still have one of the others.
        let is_used = |role: &Role| *role != Role::Spare;
        let behind = like
            .roles
            .iter()
            .rposition(is_used)
            .map_or(0, |last| last + 1);
        let spares = spare_numbers.iter();
        let behind_spares = spares.map(|&number| number as usize + 1).max();
        let dev_number = behind
            .max(like.raid_disks as usize)
            .max(behind_spares.unwrap_or(0));
        let is_unused = |role: &Role| *role == Role::Spare;
        let dev_number = if dev_number < ROLES_MAX {
            dev_number
        } else {
            like.roles.iter().position(is_unused).unwrap_or(ROLES_MAX)
        };
        if dev_number >= ROLES_MAX {
            return Err("the array has had as many legs as a superblock has room for".to_owned());
        }
        let mut superblock = Superblock {
            features: like.features.without(Features::BAD_BLOCKS),
            dev_number: u32::try_from(dev_number).expect("below 1920"),
            device_uuid: new_uuid().map_err(|error| error.to_string())?,
            device_flags: self.flags,
            super_offset_sectors,
            data_size_sectors,
            corrected_reads: 0,
            ..like.clone()
        };
        if superblock.roles.len() <= dev_number {
            superblock.roles.resize(dev_number + 1, Role::Spare);
        }
        let checked = superblock.check(size_bytes);
        checked.map_err(|refusal| refusal.of(self.leg.name()).to_string())?;
        Ok(superblock)
    }

    /// Removes the superblocks of other arrays, and makes an empty log of bad blocks: what is
    /// written of this one comes when the leg has all data.
    fn clear(&self, own: &Superblock) -> Result<(), String> {
        let told = |error: heliostat_leg::LegError| error.to_string();
        for place in Superblock::places(self.leg.info().size_bytes) {
            let mut bytes = [0; SUPERBLOCK_BYTES_MAX];
            self.leg
                .read_at(place.offset_bytes(), &mut bytes)
                .map_err(told)?;
            if Superblock::parse_damaged(&bytes).is_ok() {
                let zeros = [0; SUPERBLOCK_BYTES_MAX];
                self.leg
                    .write_at(place.offset_bytes(), &zeros)
                    .map_err(told)?;
            }
        }
        if let Some(sector) = own.bad_blocks_sector() {
            let empty = BadBlocks::new(own.bad_blocks_size_sectors);
            let bytes = empty.to_bytes();
            self.leg
                .write_at(sector * SECTOR_BYTES, &bytes)
                .map_err(told)?;
        }
        self.leg.sync().map_err(told)
    }
}

/// Whether a leg that says this may hold data of its array.
fn has_data(own: &Superblock) -> bool {
    matches!(own.role(), Some(Role::Active(_)))
}

/// Where the superblock of a leg of so many bytes lies in an array with legs like that, and how
/// much of the leg is left for data; `None` where it is too small.
fn places(like: &Superblock, leg_bytes: u64) -> Option<(u64, u64)> {
    let sectors = leg_bytes / SECTOR_BYTES;
    let at_start = [Minor::Start, Minor::Behind4K].into_iter().any(|minor| {
        let place = minor.place(leg_bytes);
        place.is_some_and(|place| place.sector == like.super_offset_sectors)
    });
    let (at, data_end) = if at_start {
        (like.super_offset_sectors, sectors)
    } else {
        // At the end, and what lies beside it at the same distance from it.
        let at = Minor::End.place(leg_bytes)?.sector;
        let data_end = like.data_offset_sectors + like.data_size_sectors;
        let behind = like.super_offset_sectors.checked_sub(data_end)?;
        (at, at.checked_sub(behind)?)
    };
    let data_sectors = data_end.checked_sub(like.data_offset_sectors)?;
    (data_sectors >= like.size_sectors).then_some((at, data_sectors))
}

/// A random identity.
pub(crate) fn new_uuid() -> Result<Uuid, RuntimeError> {
    let mut bytes = [0; 16];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| RuntimeError(format!("cannot read /dev/urandom: {error}")))?;
    Ok(Uuid(bytes))
}

#[cfg(test)]
mod tests {
    use heliostat_format::Superblock;

    use super::places;

    #[test]
    fn a_new_leg_has_its_superblock_where_its_own_size_says() {
        let behind_4k = Superblock {
            super_offset_sectors: 8,
            data_offset_sectors: 2048,
            data_size_sectors: 6144,
            size_sectors: 6000,
            ..Superblock::default()
        };
        assert_eq!(places(&behind_4k, 8192 * 512), Some((8, 6144)));
        assert_eq!(places(&behind_4k, 8048 * 512), Some((8, 6000)));
        assert_eq!(places(&behind_4k, 8047 * 512), None);
        // Bitmap and log lie in the 24 sectors before it.
        let at_end = Superblock {
            super_offset_sectors: 8176,
            data_offset_sectors: 0,
            data_size_sectors: 8152,
            size_sectors: 8000,
            ..Superblock::default()
        };
        assert_eq!(places(&at_end, 8192 * 512), Some((8176, 8152)));
        assert_eq!(places(&at_end, 9001 * 512), Some((8984, 8960)));
        assert_eq!(places(&at_end, 8040 * 512), Some((8024, 8000)));
        assert_eq!(places(&at_end, 8039 * 512), None);
    }
}
