//! Which legs of an array are to be believed, and where they may differ: the rules of Linux md.
//!
//! The highest count of events is the truth. A leg may be one behind, because a machine can stop
//! between the superblocks of two legs; what such a leg is, the freshest superblock says and not
//! its own, which may have been written before the leg failed. A leg further behind missed
//! something and is left out. Nothing is decided here that needs a look at data: legs come as what
//! was read of them, and how much of the array the members hold is the caller's to see.

use std::cmp::Ordering;
use std::fmt;

use heliostat_types::SECTOR_BYTES;

use crate::{
    BITMAP_CHUNKS_MAX, BadBlocks, BitmapBits, BitmapState, Features, RESYNC_DONE, ROLES_MAX, Role,
    Superblock, Uuid,
};

mod growth;

use growth::{differs_in_missing_legs, lags_behind_growth, was_moved};

const REPLACEMENT: Features = Features::REPLACEMENT;

/// What was read of one leg.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// What people call the leg.
    pub name: String,
    /// Its superblock; [`Superblock::check`] had nothing against it.
    pub superblock: Superblock,
    /// Its bitmap; `None` where there is none, or none that can be understood.
    pub bitmap: Option<BitmapBits>,
    /// Its bad blocks; empty where it has no log.
    pub bad_blocks: BadBlocks,
}

/// Who has a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// This candidate, and it has all data.
    InSync(usize),
    /// This candidate, and it was being made equal to the others.
    Rebuilding {
        /// Which.
        candidate: usize,
        /// Up to where, from the start of its data, it has been.
        from_sectors: u64,
        /// Whether only chunks with a bit were missing.
        by_bitmap: bool,
    },
    /// This candidate, which was away: see [`Assembly::take_back`].
    Returning {
        /// Which.
        candidate: usize,
        /// It lacks what the bitmap says, and all from here on: it was being rebuilt when it left.
        from_sectors: Option<u64>,
    },
    /// Nobody.
    Missing,
}

/// Where legs in sync may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resync {
    /// Nowhere.
    Nowhere,
    /// In chunks with a bit.
    Bits,
    /// Anywhere from this sector of the array on.
    From(u64),
}

/// Why a candidate is no member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// It missed changes.
    Stale {
        /// Its count of events, and that of the freshest.
        events: u64,
        /// See above.
        freshest: u64,
        /// Whether the bitmap knows all that it missed.
        by_bitmap: bool,
    },
    /// The freshest superblock says that it failed.
    Failed {
        /// Whether the bitmap knows all that it missed.
        by_bitmap: bool,
    },
    /// The freshest superblock does not know it any more.
    Removed {
        /// Whether the bitmap knows all that it missed.
        by_bitmap: bool,
    },
    /// It and the freshest say of each other that they failed: both went on alone.
    WentAlone,
    /// It was being made a replacement of the leg of this role, which has not all its data itself;
    /// or of another leg than the one that is being replaced already.
    Replacement(u16),
    /// Another leg has taken this role from it, or was to.
    Replaced(u16),
    /// It has a bitmap and the freshest has none, or the other way round: a bitmap was being given
    /// to the array, or taken from it.
    Bitmap {
        /// Whether it has one.
        is_there: bool,
    },
}

/// A leg that is being made a replacement of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// Whose role it is to have.
    pub role: u16,
    /// Which candidate it is.
    pub candidate: usize,
    /// Up to where, from the start of its data, it has been filled.
    pub from_sectors: u64,
}

/// An array as its legs describe it.
#[derive(Clone, Debug)]
pub struct Assembly {
    /// The candidate whose superblock is the freshest.
    pub freshest: usize,
    /// Who has which role, by role.
    pub members: Vec<Member>,
    /// The leg that is to replace one in sync.
    pub replacement: Option<Replacement>,
    /// Candidates that wait to be needed.
    pub spares: Vec<usize>,
    /// Candidates that are not used, and why.
    pub left_out: Vec<(usize, LeftOut)>,
    /// The bits of all members in sync, together; `None` where the array has no bitmap.
    pub bitmap: Option<BitmapBits>,
    /// Where members in sync may differ.
    pub resync: Resync,
    /// Whether some member holds other metadata than the freshest, or one is missing that the
    /// freshest counts on, or one that is left out is as fresh as they are.
    pub is_uneven: bool,
}

/// Why legs are no array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AssemblyError {
    /// There is no leg.
    Nothing,
    /// Two legs are of different arrays.
    Strangers {
        /// Their names.
        legs: [String; 2],
        /// The arrays.
        arrays: [Uuid; 2],
    },
    /// Two legs are of one array, but describe it differently.
    Disagree {
        /// Their names.
        legs: [String; 2],
        /// What they disagree on, in md's words.
        field: &'static str,
        /// What they say.
        values: [i128; 2],
    },
    /// Two legs are the same one.
    Twins([String; 2]),
    /// Two legs that are equally fresh have the same role, and neither is to replace the other.
    SameRole {
        /// Their names.
        legs: [String; 2],
        /// The role.
        role: u16,
    },
    /// A leg has a role that the array does not have.
    RoleBeyond {
        /// Its name.
        leg: String,
        /// The role.
        role: u16,
        /// How many there are.
        raid_disks: u32,
    },
    /// A leg is a journal.
    Journal(String),
    /// The array says that it has so many legs, which is more than there are roles.
    TooMany(u32),
    /// Two legs that are equally fresh say of each other that they failed: both went on alone.
    Split([String; 2]),
    /// No leg has data.
    OnlySpares,
    /// No leg has all its data.
    NoneInSync,
    /// The array has a bitmap, and no leg has one that can be read.
    NoBitmap,
}

impl fmt::Display for AssemblyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("no leg was named"),
            Self::Strangers {
                legs: [one, other],
                arrays: [first, second],
            } => write!(
                f,
                "{one} and {other} are legs of different arrays ({first} and {second}); name the \
                 legs of one"
            ),
            Self::Disagree {
                legs: [one, other],
                field,
                values: [first, second],
            } => write!(
                f,
                "{one} and {other} are legs of one array but do not agree on its {field}: {first} \
                 and {second}; look at both with 'heliostat examine' and leave the wrong one out"
            ),
            Self::Twins([one, other]) => write!(
                f,
                "{one} and {other} are the same leg, or one is a copy of the other; name one of \
                 them"
            ),
            Self::SameRole {
                legs: [one, other],
                role,
            } => write!(
                f,
                "{one} and {other} both say that they are leg {role}; look at both with 'heliostat \
                 examine' and leave one out"
            ),
            Self::RoleBeyond {
                leg,
                role,
                raid_disks,
            } => write!(
                f,
                "{leg} says that it is leg {role} of an array with {raid_disks} legs"
            ),
            Self::Journal(leg) => write!(
                f,
                "{leg} is a write journal, which is not understood here; remove it from the array \
                 with mdadm first"
            ),
            Self::TooMany(legs) => write!(
                f,
                "an array of {legs} legs is more than a superblock has room for"
            ),
            Self::Split([one, other]) => write!(
                f,
                "{one} and {other} say of each other that they failed: each was written to without \
                 the other; name the one whose data is to be kept, and add the other again"
            ),
            Self::OnlySpares => f.write_str("all of these legs are spares: none has data"),
            Self::NoneInSync => {
                f.write_str("none of these legs has all its data; the others are needed")
            }
            Self::NoBitmap => f.write_str(
                "the array has a write-intent bitmap, but no leg has one that can be read; \
                 assemble it with 'mdadm --assemble --update=no-bitmap', which resyncs it if it \
                 was not stopped in order",
            ),
        }
    }
}

impl std::error::Error for AssemblyError {}

impl Assembly {
    /// Puts an array together.
    ///
    /// # Errors
    /// Where the candidates are not legs of one array, or none of them has all its data.
    pub fn of(candidates: &[Candidate]) -> Result<Self, AssemblyError> {
        refuse_strangers(candidates)?;
        let freshest = freshest(candidates)?;
        let fresh = &candidates[freshest].superblock;
        if fresh.raid_disks as usize > ROLES_MAX {
            return Err(AssemblyError::TooMany(fresh.raid_disks));
        }
        refuse_twins(candidates)?;
        refuse_disagreement(candidates, freshest)?;
        let mut assembly = Self {
            freshest,
            members: vec![Member::Missing; fresh.raid_disks as usize],
            replacement: None,
            spares: Vec::new(),
            left_out: Vec::new(),
            bitmap: None,
            resync: Resync::Nowhere,
            is_uneven: false,
        };
        let cleared = candidates.iter().filter_map(|candidate| {
            let bitmap = candidate.bitmap.as_ref()?;
            is_complete(bitmap, fresh).then(|| bitmap.super_block().events_cleared)
        });
        let cleared = cleared.max();
        let is_replacement = |leg: &Candidate| leg.superblock.features.contains(REPLACEMENT);
        let all = candidates.iter().enumerate();
        let (second, first): (Vec<_>, Vec<_>) = all.partition(|(_, leg)| is_replacement(leg));
        for (index, candidate) in first.into_iter().chain(second) {
            match place(candidate, fresh, cleared)? {
                Placed::Spare => assembly.spares.push(index),
                Placed::LeftOut(why) => assembly.left_out.push((index, why)),
                Placed::Role { role, has_data } => {
                    assembly.admit(candidates, index, role, has_data)?;
                }
            }
        }
        if assembly.in_sync().next().is_none() {
            return Err(AssemblyError::NoneInSync);
        }
        assembly.look_at_bits(candidates)?;
        Ok(assembly)
    }

    /// Gives legs that were away their places back, where nothing speaks against it: they get the
    /// chunks that they missed, as the bitmap knows them, and are no members in sync before. Which
    /// ones these are.
    ///
    /// A leg that failed is not among them. Neither is one that may have been written to without
    /// those in sync: what it holds then, their bitmap does not know. Whoever goes on without a leg
    /// writes down that it is out before anything else, so a leg that knows all legs in sync as
    /// such has not.
    pub fn take_back(&mut self, candidates: &[Candidate]) -> Vec<usize> {
        let fresh = &candidates[self.freshest].superblock;
        let in_sync: Vec<&Superblock> = self
            .in_sync()
            .map(|candidate| &candidates[candidate].superblock)
            .collect();
        let mut back = Vec::new();
        for &(index, why) in &self.left_out {
            let own = &candidates[index].superblock;
            let is_known = matches!(
                why,
                LeftOut::Stale {
                    by_bitmap: true,
                    ..
                } | LeftOut::Removed { by_bitmap: true }
            );
            let has_gone_alone = in_sync
                .iter()
                .any(|leg| own.role_of(leg.dev_number) != fresh.role_of(leg.dev_number));
            let is_alike = own.size_sectors == fresh.size_sectors
                && own.raid_disks == fresh.raid_disks
                && own.layout == fresh.layout
                && own.features.contains(Features::BITMAP)
                && !own.features.contains(Features::REPLACEMENT);
            let Some(Role::Active(role)) = own.role() else {
                continue;
            };
            // Its number may be that of another leg by now.
            let is_same = match fresh.role_of(own.dev_number) {
                None | Some(Role::Spare) => true,
                Some(told) => told == Role::Active(role),
            };
            let place = self.members.get_mut(usize::from(role));
            let place = place.filter(|member| matches!(member, Member::Missing));
            let Some(place) = place else { continue };
            if is_known && is_alike && is_same && !has_gone_alone {
                *place = Member::Returning {
                    candidate: index,
                    from_sectors: own.incomplete_from(),
                };
                back.push(index);
            }
        }
        self.left_out.retain(|(index, _)| !back.contains(index));
        back
    }

    /// Leaves the leg out that is to replace another one.
    pub fn leave_replacement_out(&mut self) {
        if let Some(replacement) = self.replacement.take() {
            let why = LeftOut::Replacement(replacement.role);
            self.left_out.push((replacement.candidate, why));
            self.is_uneven = true;
        }
    }

    /// The candidates that have all their data, by role.
    pub fn in_sync(&self) -> impl Iterator<Item = usize> + '_ {
        self.members.iter().filter_map(|member| match member {
            Member::InSync(candidate) => Some(*candidate),
            Member::Rebuilding { .. } | Member::Returning { .. } | Member::Missing => None,
        })
    }

    /// The roles that nobody has in sync.
    pub fn roles_lacking(&self) -> impl Iterator<Item = usize> + '_ {
        let roles = self.members.iter().enumerate();
        roles.filter_map(|(role, member)| (!matches!(member, Member::InSync(_))).then_some(role))
    }

    /// The roles that the freshest superblock counts on and that nobody has here, in sync or being
    /// rebuilt: who has one may know more than those that are here. What the array lacks besides it
    /// lacked before, as its legs say.
    pub fn roles_lost<'a>(
        &'a self,
        candidates: &'a [Candidate],
    ) -> impl Iterator<Item = usize> + 'a {
        let roles = &candidates[self.freshest].superblock.roles;
        let members = self.members.iter().enumerate();
        members.filter_map(|(role, member)| {
            let is_here = matches!(member, Member::InSync(_) | Member::Rebuilding { .. });
            let is_it =
                |told: &Role| *told == Role::Active(u16::try_from(role).unwrap_or(u16::MAX));
            (!is_here && roles.iter().any(is_it)).then_some(role)
        })
    }

    /// Gives a candidate its role.
    fn admit(
        &mut self,
        candidates: &[Candidate],
        index: usize,
        role: u16,
        has_data: bool,
    ) -> Result<(), AssemblyError> {
        let candidate = &candidates[index];
        let superblock = &candidate.superblock;
        let Some(member) = self.members.get_mut(usize::from(role)) else {
            return Err(AssemblyError::RoleBeyond {
                leg: candidate.name.clone(),
                role,
                raid_disks: candidates[self.freshest].superblock.raid_disks,
            });
        };
        let new = if !has_data {
            Member::Rebuilding {
                candidate: index,
                from_sectors: 0,
                by_bitmap: false,
            }
        } else if superblock.features.contains(Features::RECOVERY_OFFSET) {
            Member::Rebuilding {
                candidate: index,
                // More than all is all.
                from_sectors: superblock
                    .recovery_offset_sectors
                    .min(superblock.size_sectors),
                by_bitmap: superblock.features.contains(Features::RECOVERY_BITMAP),
            }
        } else {
            Member::InSync(index)
        };
        let other = match *member {
            Member::Missing | Member::Returning { .. } => {
                // Of a leg that was to be replaced nothing is left: it is one like any other.
                *member = new;
                return Ok(());
            }
            Member::InSync(other)
            | Member::Rebuilding {
                candidate: other, ..
            } => other,
        };
        if superblock.features.contains(REPLACEMENT) {
            self.admit_replacement(index, role, new, superblock.size_sectors);
            return Ok(());
        }
        // The role was changing hands. Both have what was answered; who heard of it last stays.
        // Of two that are equally fresh it is the one that says so of the other.
        let before = &candidates[other].superblock;
        let has_heard =
            |one: &Superblock, of: &Superblock| one.role_of(of.dev_number) == Some(Role::Faulty);
        let order = superblock.events.cmp(&before.events);
        let order = order.then(has_heard(superblock, before).cmp(&has_heard(before, superblock)));
        let left_out = match order {
            Ordering::Greater => {
                *member = new;
                other
            }
            Ordering::Less => index,
            Ordering::Equal => {
                return Err(AssemblyError::SameRole {
                    legs: [candidates[other].name.clone(), candidate.name.clone()],
                    role,
                });
            }
        };
        self.left_out.push((left_out, LeftOut::Replaced(role)));
        Ok(())
    }

    /// Takes in a leg that is to replace one that is there, where that one is in sync, and no other
    /// is being replaced.
    fn admit_replacement(&mut self, candidate: usize, role: u16, new: Member, size_sectors: u64) {
        let is_whole = matches!(self.members[usize::from(role)], Member::InSync(_));
        let from_sectors = match new {
            Member::Rebuilding {
                from_sectors,
                by_bitmap: false,
                ..
            } => from_sectors,
            Member::InSync(_) => size_sectors,
            Member::Rebuilding { .. } | Member::Returning { .. } | Member::Missing => 0,
        };
        if !is_whole || self.replacement.is_some() {
            let left_out = (candidate, LeftOut::Replacement(role));
            return self.left_out.push(left_out);
        }
        self.replacement = Some(Replacement {
            role,
            candidate,
            from_sectors,
        });
    }

    /// Puts the bits together and says where legs may differ.
    fn look_at_bits(&mut self, candidates: &[Candidate]) -> Result<(), AssemblyError> {
        let fresh = &candidates[self.freshest].superblock;
        let in_sync: Vec<&Candidate> = self.in_sync().map(|index| &candidates[index]).collect();
        let has_bitmap = fresh.features.contains(Features::BITMAP);
        let bitmaps = in_sync.iter().filter_map(|leg| leg.bitmap.as_ref());
        let bitmaps: Vec<&BitmapBits> = bitmaps.filter(|bits| is_of(bits, fresh)).collect();
        if has_bitmap {
            self.bitmap = Some(fitted(union(&bitmaps, fresh)?, fresh)?);
        }
        let as_fresh = in_sync.iter().map(|leg| &leg.superblock);
        let as_fresh = as_fresh.filter(|superblock| superblock.events == fresh.events);
        // They say the same; where they do not, the one that is more careful is believed.
        let offset = as_fresh.map(|superblock| superblock.resync_offset_sectors);
        let offset = offset.fold(fresh.resync_offset_sectors, u64::min);
        let is_clean = offset == RESYNC_DONE;
        self.resync = match &self.bitmap {
            _ if is_clean => Resync::Nowhere,
            Some(_) => Resync::Bits,
            None => Resync::From(offset),
        };
        let is_alike = |leg: &&Candidate| {
            leg.superblock.events == fresh.events
                && leg.superblock.agrees_on_roles(fresh)
                && leg.superblock.resync_offset_sectors == offset
                && leg.superblock.raid_disks == fresh.raid_disks
                && (!has_bitmap || leg.bitmap == self.bitmap)
        };
        let counts_on = fresh.roles.iter();
        let counts_on = counts_on.filter(|role| matches!(role, Role::Active(_)));
        let members = self.members.iter();
        let present = members.filter(|member| !matches!(member, Member::Missing));
        let present = present.count() + usize::from(self.replacement.is_some());
        // Who is left out must not be as fresh as the others when they are written to.
        let left_out = self.left_out.iter();
        let left_out = left_out.map(|(index, _)| &candidates[*index].superblock);
        let has_fresh_outsider = left_out
            .filter(|superblock| matches!(superblock.role(), Some(Role::Active(_))))
            .any(|superblock| superblock.events >= fresh.events);
        self.is_uneven =
            !in_sync.iter().all(is_alike) || counts_on.count() != present || has_fresh_outsider;
        Ok(())
    }
}

/// The bits of all legs together: none is missing from a complete one, and more do no harm. Where
/// none is complete, all bits.
fn union(bitmaps: &[&BitmapBits], fresh: &Superblock) -> Result<BitmapBits, AssemblyError> {
    let newest = bitmaps.iter().max_by_key(|bits| bits.super_block().events);
    let mut union = (*newest.ok_or(AssemblyError::NoBitmap)?).clone();
    if !is_complete(&union, fresh) {
        union.set_all();
        return Ok(union);
    }
    for bits in bitmaps {
        // Legs with chunks of another size were given their bitmaps by different hands.
        if bits.chunks() == union.chunks() {
            union.union_with(bits);
        } else {
            union.set_all();
        }
    }
    Ok(union)
}

/// Bits for the whole array, however much of it the bitmap was made for.
fn fitted(bits: BitmapBits, fresh: &Superblock) -> Result<BitmapBits, AssemblyError> {
    let chunk_sectors = u64::from(bits.super_block().chunk_bytes) / SECTOR_BYTES;
    let array_sectors = fresh.array_sectors().unwrap_or(0);
    let chunks = array_sectors.div_ceil(chunk_sectors.max(1));
    if chunks == bits.chunks() {
        return Ok(bits);
    }
    if chunks > BITMAP_CHUNKS_MAX {
        return Err(AssemblyError::NoBitmap);
    }
    // mdadm may count a bit or two more than there are chunks. Bits that are missing say nothing
    // of their chunks.
    let mut fitted = BitmapBits::new(*bits.super_block(), chunks);
    for chunk in 0..chunks {
        if chunk >= bits.chunks() || bits.get(chunk) {
            fitted.set(chunk);
        }
    }
    Ok(fitted)
}

/// What becomes of a candidate.
enum Placed {
    Spare,
    LeftOut(LeftOut),
    Role {
        role: u16,
        /// Whether its own superblock knows of that.
        has_data: bool,
    },
}

fn place(
    candidate: &Candidate,
    fresh: &Superblock,
    cleared: Option<u64>,
) -> Result<Placed, AssemblyError> {
    let superblock = &candidate.superblock;
    let own = superblock.role().unwrap_or(Role::Spare);
    let told = fresh.role_of(superblock.dev_number).unwrap_or(Role::Spare);
    if own == Role::Journal || told == Role::Journal {
        return Err(AssemblyError::Journal(candidate.name.clone()));
    }
    if own == Role::Spare && told == Role::Spare {
        return Ok(Placed::Spare);
    }
    let of_fresh = superblock.role_of(fresh.dev_number);
    let by_bitmap = cleared.is_some_and(|cleared| superblock.events >= cleared);
    if told == Role::Faulty || own == Role::Faulty {
        let is_mutual = of_fresh == Some(Role::Faulty);
        return Ok(Placed::LeftOut(if is_mutual {
            LeftOut::WentAlone
        } else {
            LeftOut::Failed { by_bitmap }
        }));
    }
    // A spare that was given a role and was not told has no data, and its count means nothing.
    if let (Role::Spare, Role::Active(role)) = (own, told) {
        return Ok(Placed::Role {
            role,
            has_data: false,
        });
    }
    // Not `fresh.events - 1`: it may be 0.
    if superblock.events.saturating_add(1) < fresh.events {
        return Ok(Placed::LeftOut(LeftOut::Stale {
            events: superblock.events,
            freshest: fresh.events,
            by_bitmap,
        }));
    }
    let is_other = superblock.dev_number != fresh.dev_number;
    if is_other && own != Role::Spare && !matches!(of_fresh, Some(Role::Active(_))) {
        return Ok(Placed::LeftOut(LeftOut::WentAlone));
    }
    let has_bitmap = |superblock: &Superblock| superblock.features.contains(Features::BITMAP);
    if has_bitmap(superblock) != has_bitmap(fresh) {
        return Ok(Placed::LeftOut(LeftOut::Bitmap {
            is_there: has_bitmap(superblock),
        }));
    }
    Ok(match told {
        // A spare that was just given a role says nothing of it, and has no data.
        Role::Active(role) => Placed::Role {
            role,
            has_data: own == told || was_moved(superblock, fresh),
        },
        Role::Spare | Role::Faulty | Role::Journal => {
            Placed::LeftOut(LeftOut::Removed { by_bitmap })
        }
    })
}

/// Whether a bitmap is one of this array.
fn is_of(bits: &BitmapBits, fresh: &Superblock) -> bool {
    bits.super_block().uuid == fresh.set_uuid
}

/// Whether no bit can be missing from a bitmap.
fn is_complete(bits: &BitmapBits, fresh: &Superblock) -> bool {
    let head = bits.super_block();
    is_of(bits, fresh) && head.events >= fresh.events && !head.state.contains(BitmapState::STALE)
}

fn refuse_strangers(candidates: &[Candidate]) -> Result<(), AssemblyError> {
    let (first, others) = candidates.split_first().ok_or(AssemblyError::Nothing)?;
    for other in others {
        let arrays = [first.superblock.set_uuid, other.superblock.set_uuid];
        if arrays[0] != arrays[1] {
            return Err(AssemblyError::Strangers {
                legs: [first.name.clone(), other.name.clone()],
                arrays,
            });
        }
    }
    Ok(())
}

/// The candidate with data that has the highest count of events; of several the first that no other
/// of them says has failed.
fn freshest(candidates: &[Candidate]) -> Result<usize, AssemblyError> {
    let unfinished = REPLACEMENT.with(Features::RECOVERY_OFFSET);
    let has_data = |candidate: &Candidate| {
        matches!(candidate.superblock.role(), Some(Role::Active(_)))
            && !candidate.superblock.features.contains(unfinished)
    };
    let with_data = candidates.iter().enumerate();
    let with_data: Vec<_> = with_data.filter(|(_, leg)| has_data(leg)).collect();
    let events = with_data.iter().map(|(_, leg)| leg.superblock.events);
    let events = events.max().ok_or(AssemblyError::OnlySpares)?;
    let mut freshest = with_data;
    freshest.retain(|(_, leg)| leg.superblock.events == events);
    let counts_on = |one: &Candidate, other: &Candidate| {
        let role = one.superblock.role_of(other.superblock.dev_number);
        matches!(role, Some(Role::Active(_)))
    };
    // Of several, one that the others count on.
    let trusted = freshest
        .iter()
        .find(|(_, leg)| freshest.iter().all(|(_, other)| counts_on(other, leg)));
    if let Some((index, _)) = trusted {
        return Ok(*index);
    }
    let (_, first) = freshest[0];
    let accuser = freshest.iter().find(|(_, leg)| !counts_on(leg, first));
    let (_, accuser) = accuser.expect("the first is not counted on by somebody");
    let legs = [first.name.clone(), accuser.name.clone()];
    Err(AssemblyError::Split(legs))
}

fn refuse_twins(candidates: &[Candidate]) -> Result<(), AssemblyError> {
    for (index, one) in candidates.iter().enumerate() {
        let is_same = |other: &&Candidate| {
            other.superblock.device_uuid == one.superblock.device_uuid
                && other.superblock.dev_number == one.superblock.dev_number
        };
        if let Some(other) = candidates[..index].iter().find(is_same) {
            return Err(AssemblyError::Twins([other.name.clone(), one.name.clone()]));
        }
    }
    Ok(())
}

/// Legs that are as fresh as the freshest must describe the same array. One that is not may have
/// been away while the array grew.
fn refuse_disagreement(candidates: &[Candidate], freshest: usize) -> Result<(), AssemblyError> {
    let fresh = &candidates[freshest];
    let fields = |superblock: &Superblock| -> [(&'static str, i128); 6] {
        [
            ("creation time", i128::from(superblock.ctime.0)),
            ("level", i128::from(superblock.level)),
            ("layout", i128::from(superblock.layout)),
            ("used size", i128::from(superblock.size_sectors)),
            ("chunk size", i128::from(superblock.chunk_sectors)),
            ("number of legs", i128::from(superblock.raid_disks)),
        ]
    };
    for other in candidates {
        // A spare says what it was told when it became one.
        let is_stale = other.superblock.events.saturating_add(1) < fresh.superblock.events
            || other.superblock.role() == Some(Role::Spare);
        let is_stale = is_stale
            || lags_behind_growth(&other.superblock, &fresh.superblock)
            || differs_in_missing_legs(&other.superblock, &fresh.superblock);
        let pairs = fields(&fresh.superblock)
            .into_iter()
            .zip(fields(&other.superblock));
        let different = pairs.into_iter().find(|(one, other)| one != other);
        if let Some(((field, first), (_, second))) = different
            && !is_stale
        {
            return Err(AssemblyError::Disagree {
                legs: [fresh.name.clone(), other.name.clone()],
                field,
                values: [first, second],
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
