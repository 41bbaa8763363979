//! What superblocks say: of the array, to each leg, and from the legs that come and go.

use heliostat_format::{
    BitmapBits, DeviceFlags, Features, RESYNC_DONE, Role, Stamp, Superblock, Uuid,
};
use heliostat_types::{Instant, LEGS_MAX, LegId, LegSet, SECTOR_BYTES};

use crate::api::LegState;
use crate::background::{Missed, Saved};
use crate::engine::Engine;
use crate::flags::LegFlags;
use crate::lineage::Departures;

use super::{Keeper, Word};

/// For which legs a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Audience {
    /// The one that takes the role of another leg.
    Successor,
    /// Those in sync.
    InSync,
    /// All others.
    Rebuilding,
}

impl Audience {
    /// Who hears of an event after whom. Legs in sync come first, so that no leg that calls one of
    /// the others failed is ever behind it.
    pub(super) fn in_turn(has_successor: bool, has_rebuilding: bool) -> impl Iterator<Item = Self> {
        let successor = has_successor.then_some(Self::Successor).into_iter();
        let rebuilding = has_rebuilding.then_some(Self::Rebuilding);
        successor.chain([Self::InSync]).chain(rebuilding)
    }
}

/// A leg takes the role of another one.
#[derive(Clone, Debug)]
pub(super) struct Succession {
    pub(super) leg: LegId,
    pub(super) by: LegId,
    /// The roles where nothing comes of it.
    pub(super) roles_before: Vec<Role>,
}

/// A leg that was left behind by a growth of the array says of it what the freshest says, and how
/// many roles there are.
pub(super) fn evened(
    mut superblocks: Vec<Option<Superblock>>,
    (legs, roles): (usize, usize),
) -> Vec<Option<Superblock>> {
    superblocks.resize(legs, None);
    let present = superblocks.iter().flatten();
    let freshest = present.max_by_key(|superblock| superblock.events);
    let Some(size) = freshest.map(|one| one.size_sectors) else {
        return superblocks;
    };
    for superblock in superblocks.iter_mut().flatten() {
        superblock.raid_disks = u32::try_from(roles).expect("at most 16");
        superblock.size_sectors = size;
    }
    superblocks
}

impl Engine {
    /// The roles that a step of the commit tells.
    pub(super) fn roles_to_tell(&self, word: Word) -> Vec<Role> {
        let keeper = self.keeper();
        match word {
            Word::Told => {
                let told = keeper.behind.clone();
                told.expect("some leg has missed an event")
            }
            Word::Before => keeper.roles.clone(),
            Word::New => {
                let commit = keeper.commit().expect("it is what is sent");
                match &commit.succession {
                    Some(known) if self.is_succeeding().is_none() => known.roles_before.clone(),
                    Some(_) | None => commit.roles.clone(),
                }
            }
        }
    }

    /// The same roles, where a leg that was to take another one's role does not.
    pub(super) fn roles_before(&self, word: Word) -> Vec<Role> {
        let commit = self.keeper().commit().expect("it is what is sent");
        match &commit.succession {
            Some(known) if word == Word::New => known.roles_before.clone(),
            Some(_) | None => self.roles_to_tell(word),
        }
    }

    /// Of the legs that an event can still reach, those being rebuilt that hear of it. Where
    /// another leg has missed it, that is the next commit, and they wait for that one: a leg in
    /// sync that still calls one of them failed must not be behind it, or it would look as if it
    /// had gone on alone. One that is in sync from this commit on must hear of it, and the others
    /// have not called it failed for long.
    fn rebuilding_to_tell(&self, reached: LegSet) -> LegSet {
        let commit = self.keeper().commit.as_ref().expect("it is what is sent");
        let rebuilding = reached.difference(self.legs.in_sync);
        if reached == commit.targets {
            rebuilding
        } else {
            rebuilding.intersection(commit.joining)
        }
    }

    /// Of the legs that an event can still reach, those that are told of it in this step.
    pub(super) fn to_tell(&self, to: Audience, word: Word, reached: LegSet) -> LegSet {
        let in_sync = self.legs.in_sync;
        let succeeding = self.is_succeeding().filter(|_| word == Word::New);
        let both = succeeding.map_or(LegSet::EMPTY, |(leg, by)| LegSet::from_iter([leg, by]));
        match to {
            Audience::Successor => reached.intersection(both).difference(in_sync),
            Audience::InSync => reached.intersection(in_sync).difference(both),
            Audience::Rebuilding => {
                let rebuilding = self.rebuilding_to_tell(reached).difference(both);
                let knows = |leg: &LegId| word != Word::Told || self.had_role_at_last_event(*leg);
                rebuilding.iter().filter(knows).collect()
            }
        }
    }

    /// Whether a leg had a role already in the event that some leg has missed. One that was added
    /// since has nothing to catch up with: it would say that it is none of the legs, and of one
    /// that is to replace another leg nobody would know that then.
    fn had_role_at_last_event(&self, leg: LegId) -> bool {
        let told = self.keeper().behind.as_ref();
        let own = self.number_of(leg).and_then(|own| told?.get(own as usize));
        matches!(own, Some(Role::Active(_)))
    }

    /// How far these legs have been rebuilt.
    pub(super) fn saved_of(&self, legs: LegSet) -> [Option<Saved>; LEGS_MAX] {
        let mut saved = [None; LEGS_MAX];
        for leg in legs {
            saved[leg.index()] = self.saved_rebuild(leg);
        }
        saved
    }

    /// Which of these legs takes the role of another one, and of which.
    pub(super) fn succession(&self, joining: LegSet) -> Option<Succession> {
        let (leg, by) = self.replacing()?;
        let roles_before = self.roles_now(None);
        joining.contains(by).then_some(Succession {
            leg,
            by,
            roles_before,
        })
    }

    /// The leg that is called out by the commit on its way, and the one that has its role, unless
    /// that one has failed meanwhile.
    pub(super) fn is_succeeding(&self) -> Option<(LegId, LegId)> {
        let commit = self.keeper().commit()?;
        let known = commit.succession.as_ref()?;
        let is_there = self.legs.writable().contains(known.by);
        let has_failed = commit.failed().contains(known.by);
        (is_there && !has_failed).then_some((known.leg, known.by))
    }

    /// The commit on its way, where it gives a leg another one's role.
    pub(crate) fn handover_on_its_way(&self) -> Option<u64> {
        let keeper = self.keeper.as_ref()?;
        let is_handover = keeper.commit()?.succession.is_some();
        is_handover.then_some(keeper.number)
    }

    /// The superblock of a leg with these roles.
    pub(super) fn superblock_of(
        &self,
        now: Instant,
        leg: LegId,
        (events, word): (u64, Word),
        roles: &[Role],
    ) -> Superblock {
        let keeper = self.keeper();
        let known = keeper.superblocks[leg.index()].as_ref();
        let mut superblock = known.expect("a leg that is written to has one").clone();
        let time = (keeper.unix_time + now.saturating_since(Instant::ZERO)).as_ns() / 1000;
        let microseconds = u32::try_from(time % 1_000_000).expect("below a million");
        superblock.utime = Stamp::new(time / 1_000_000, microseconds);
        superblock.events = events;
        let commit = keeper.commit().expect("it is what is sent");
        let is_clean = !commit.dirty && keeper.may_say_clean(word);
        superblock.resync_offset_sectors = if is_clean { RESYNC_DONE } else { 0 };
        self.say_how_complete(leg, roles, &mut superblock);
        self.tell_of_bad_blocks(leg, &mut superblock);
        superblock.corrected_reads = self.corrected_reads(leg);
        superblock.roles = roles.to_vec();
        superblock
    }

    /// The table of roles as the record has it now.
    ///
    /// Without the leg that another one takes the role of.
    pub(super) fn roles_now(&self, without: Option<LegId>) -> Vec<Role> {
        let roles = self.keeper.iter().flat_map(|keeper| &keeper.roles);
        let role_now = |(own, role): (u32, &Role)| match *role {
            Role::Active(number) => match self.numbered(usize::from(number), own) {
                Some(leg) if without == Some(leg) => Role::Faulty,
                Some(leg) => match self.legs.legs[leg.index()].state {
                    LegState::InSync | LegState::Rebuilding => Role::Active(number),
                    LegState::Faulted => Role::Faulty,
                    // It did nothing wrong, and may come back by itself.
                    LegState::Missing => Role::Spare,
                },
                None => Role::Spare,
            },
            Role::Spare | Role::Faulty | Role::Journal => *role,
        };
        (0..).zip(roles).map(role_now).collect()
    }

    /// The leg with this role that has this number in the table of roles; of one that is not there
    /// the number is not known.
    fn numbered(&self, role: usize, own: u32) -> Option<LegId> {
        let known = |leg: LegId| self.keeper().superblocks[leg.index()].as_ref();
        let legs = self.config.map.legs_of(role);
        let is_own = |leg: &LegId| known(*leg).is_some_and(|known| known.dev_number == own);
        let unknown = legs.iter().find(|leg| known(*leg).is_none());
        legs.iter().find(is_own).or(unknown)
    }

    /// Whether these roles give the role of a leg that is being rebuilt to another one as well.
    fn is_told_to_replace(&self, leg: LegId, own: u32, roles: &[Role]) -> bool {
        let role = self.config.map.role_of(leg);
        let role = role.and_then(|role| u16::try_from(role).ok());
        let has_role = |told: &Role| role.is_some_and(|role| *told == Role::Active(role));
        let is_told = (0..)
            .zip(roles)
            .any(|(number, told)| number == own && has_role(told));
        let is_shared = roles.iter().filter(|told| has_role(told)).count() > 1;
        self.legs.rebuilding.contains(leg) && is_told && is_shared
    }

    /// What a superblock says of how much of the data its leg has, and for whom.
    fn say_how_complete(&self, leg: LegId, roles: &[Role], superblock: &mut Superblock) {
        let (begun, by_bitmap) = (Features::RECOVERY_OFFSET, Features::RECOVERY_BITMAP);
        let own = begun.with(by_bitmap).with(Features::REPLACEMENT);
        superblock.features = superblock.features.without(own);
        superblock.recovery_offset_sectors = 0;
        let commit = self.keeper.as_ref().and_then(|keeper| keeper.commit());
        let is_whole = commit.is_some_and(|commit| commit.joining.contains(leg));
        let is_replacement = self.is_told_to_replace(leg, superblock.dev_number, roles);
        if is_replacement {
            superblock.features = superblock.features.with(Features::REPLACEMENT);
        }
        let is_whole = is_whole && !is_replacement;
        if self.legs.rebuilding.contains(leg) && !is_whole {
            let saved = commit.and_then(|commit| commit.saved[leg.index()]);
            superblock.features = superblock.features.with(begun);
            if saved.is_some_and(|saved| saved.by_bitmap) {
                superblock.features = superblock.features.with(by_bitmap);
            }
            let up_to = saved.map_or(0, |saved| saved.up_to);
            superblock.recovery_offset_sectors = up_to / SECTOR_BYTES;
        }
    }

    /// The legs whose metadata is kept up to date: all that are written to.
    pub(crate) const fn legs_with_metadata(&self) -> LegSet {
        self.legs.writable()
    }

    /// Whether a leg has metadata that can be kept up to date, where the array has any.
    pub(crate) fn can_have_metadata(&self, leg: LegId) -> bool {
        let keeper = self.keeper.as_ref();
        keeper.is_none_or(|keeper| keeper.superblocks[leg.index()].is_some())
    }

    /// A leg is written to from now on: it gets all of the bitmap, and the others hear of it. By
    /// which commit.
    pub(crate) fn take_in(&mut self) -> u64 {
        let Some(keeper) = &mut self.keeper else {
            return 0;
        };
        self.intent.all_pages_are_stale();
        keeper.record_changed()
    }

    /// A leg that is being rebuilt has come further, durably: that is put on record.
    pub(crate) fn note_saved(&mut self) {
        if let Some(keeper) = &mut self.keeper {
            keeper.record_changed();
        }
    }

    /// This is what a leg that comes back, or a new one, says of the array.
    pub(crate) fn set_superblock(&mut self, leg: LegId, mut superblock: Superblock) {
        // It may not know that there are more or fewer legs now.
        if let Some(like) = self.array_superblock() {
            superblock.raid_disks = like.raid_disks;
        }
        let was_faulted = self.legs.legs[leg.index()].state == LegState::Faulted;
        let replaced = self.config.map.twin_of(leg);
        let stays = replaced.and_then(|replaced| self.number_of(replaced));
        let Some(keeper) = &mut self.keeper else {
            return;
        };
        let role = self.config.map.role_of(leg).expect("it was given one");
        let number = u16::try_from(role).expect("at most 16 legs");
        let own = superblock.dev_number as usize;
        if keeper.roles.len() <= own {
            keeper.roles.resize(own + 1, Role::Spare);
        }
        // Whoever had the role before has none any more, unless it is being replaced; that it
        // failed stays known. Another one that was to replace it is not there, and did nothing.
        for (holder, role) in (0..).zip(&mut keeper.roles) {
            if *role == Role::Active(number) && stays != Some(holder) {
                *role = if was_faulted && replaced.is_none() {
                    Role::Faulty
                } else {
                    Role::Spare
                };
            }
        }
        keeper.roles[own] = Role::Active(number);
        keeper.departures.forget(superblock.device_uuid);
        keeper.superblocks[leg.index()] = Some(superblock);
    }

    /// Whether how many roles there are may change now.
    pub(crate) fn may_change_shape(&self) -> bool {
        self.keeper.as_ref().is_some_and(Keeper::is_settled)
    }

    /// So many roles there are from the next commit on.
    pub(crate) fn say_how_many(&mut self, roles: usize) {
        let roles = u32::try_from(roles).expect("at most 16");
        for superblock in self.keeper_mut().superblocks.iter_mut().flatten() {
            superblock.raid_disks = roles;
        }
    }

    /// There may be one more leg.
    pub(crate) fn make_room_for_superblock(&mut self) {
        self.keeper_mut().superblocks.push(None);
    }

    /// What a leg is to say of itself.
    pub(crate) fn set_device_flags(&mut self, leg: LegId, flags: LegFlags) {
        let known = self.keeper.as_mut();
        let known = known.and_then(|keeper| keeper.superblocks[leg.index()].as_mut());
        if let Some(superblock) = known {
            let mut told = superblock.device_flags;
            for (flag, is_set) in [
                (DeviceFlags::WRITE_MOSTLY, flags.write_mostly),
                (DeviceFlags::FAIL_FAST, flags.failfast),
            ] {
                told = if is_set {
                    told.with(flag)
                } else {
                    told.without(flag)
                };
            }
            superblock.device_flags = told;
        }
    }

    /// The number of a leg in the table of roles.
    pub(crate) fn number_of(&self, leg: LegId) -> Option<u32> {
        let superblock = self.keeper.as_ref()?.superblocks[leg.index()].as_ref();
        superblock.map(|superblock| superblock.dev_number)
    }

    /// Which device a leg is, and the last event that it may have heard of.
    pub(crate) fn identity(&self, leg: LegId) -> Option<(Uuid, u64)> {
        let keeper = self.keeper.as_ref()?;
        let superblock = keeper.superblocks[leg.index()].as_ref()?;
        Some((superblock.device_uuid, keeper.events))
    }

    /// The legs that have left; `None` where legs have no metadata.
    pub(crate) fn departures(&self) -> Option<&Departures> {
        Some(&self.keeper.as_ref()?.departures)
    }

    /// The same, to be changed.
    pub(crate) fn departures_mut(&mut self) -> Option<&mut Departures> {
        Some(&mut self.keeper.as_mut()?.departures)
    }

    /// A leg that is out has no role any more, and that is so for ever.
    pub(crate) fn forget_superblock(&mut self, leg: LegId) {
        let Some(keeper) = &mut self.keeper else {
            return;
        };
        let superblock = keeper.superblocks[leg.index()].take();
        let own = superblock.map(|superblock| superblock.dev_number as usize);
        if let Some(role) = own.and_then(|own| keeper.roles.get_mut(own)) {
            *role = Role::Faulty;
        }
    }

    /// What a leg in sync says of the array, with the newest table of roles; `None` where legs have
    /// no metadata.
    #[must_use]
    pub fn array_superblock(&self) -> Option<Superblock> {
        let keeper = self.keeper.as_ref()?;
        let leg = self.legs.in_sync.lowest()?;
        let superblock = keeper.superblocks[leg.index()].clone()?;
        Some(Superblock {
            events: keeper.events,
            roles: keeper.roles.clone(),
            ..superblock
        })
    }

    /// What a leg has missed that says this: all of it, where the bitmap does not know.
    #[must_use]
    pub fn missed_by(&self, superblock: &Superblock) -> Missed {
        let bits = self.intent.bits();
        let is_known =
            bits.is_some_and(|bits| superblock.events >= bits.super_block().events_cleared);
        if !is_known {
            return Missed::From(0);
        }
        let sectors = superblock.incomplete_from();
        Missed::Bits {
            from: 0,
            all_from: sectors.map(|sectors| sectors.saturating_mul(SECTOR_BYTES)),
        }
    }

    /// The bitmap as it is to be on the legs; `None` where there is none.
    #[must_use]
    pub const fn bitmap(&self) -> Option<&BitmapBits> {
        self.intent.bits()
    }

    /// What legs that are at this count of events or beyond have missed, the bitmap knows.
    #[must_use]
    pub fn known_since(&self) -> Option<u64> {
        let bits = self.intent.bits();
        bits.map(|bits| bits.super_block().events_cleared)
    }

    /// Where on a leg the bitmap begins.
    pub(super) fn bitmap_address(&self, leg: LegId) -> u64 {
        let superblock = self.keeper().superblocks[leg.index()].as_ref();
        let sector = superblock.and_then(Superblock::bitmap_sector);
        sector.expect("every leg of an array with a bitmap has one") * SECTOR_BYTES
    }
}
