//! What superblocks say: of the array, to each leg, and from the legs that come and go.

use heliostat_format::{BitmapBits, Features, RESYNC_DONE, Role, Stamp, Superblock};
use heliostat_types::{Instant, LegId, LegSet, SECTOR_BYTES};

use crate::api::LegState;
use crate::background::Missed;
use crate::engine::Engine;

use super::Word;

/// A leg that was left behind by a growth of the array says of it what the freshest says.
pub(super) fn evened(mut superblocks: Vec<Option<Superblock>>) -> Vec<Option<Superblock>> {
    let present = superblocks.iter().flatten();
    let freshest = present.max_by_key(|superblock| superblock.events);
    let Some((raid_disks, size)) = freshest.map(|one| (one.raid_disks, one.size_sectors)) else {
        return superblocks;
    };
    for superblock in superblocks.iter_mut().flatten() {
        superblock.raid_disks = raid_disks;
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
                commit.roles.clone()
            }
        }
    }

    /// The superblock of a leg with these roles.
    pub(super) fn superblock_of(
        &self,
        now: Instant,
        leg: LegId,
        events: u64,
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
        superblock.resync_offset_sectors = if commit.dirty { 0 } else { RESYNC_DONE };
        self.say_how_complete(leg, &mut superblock);
        self.tell_of_bad_blocks(leg, &mut superblock);
        superblock.corrected_reads = self.corrected_reads(leg);
        superblock.roles = roles.to_vec();
        superblock
    }

    /// The table of roles as the record has it now.
    pub(super) fn roles_now(&self) -> Vec<Role> {
        let roles = self.keeper.iter().flat_map(|keeper| &keeper.roles);
        let role_now = |role: &Role| match *role {
            Role::Active(number) => match self.legs.legs[usize::from(number)].state {
                LegState::InSync | LegState::Rebuilding => Role::Active(number),
                LegState::Faulted => Role::Faulty,
                // It did nothing wrong, and may come back by itself.
                LegState::Missing => Role::Spare,
            },
            Role::Spare | Role::Faulty | Role::Journal => *role,
        };
        roles.map(role_now).collect()
    }

    /// What a superblock says of how much of the data its leg has.
    fn say_how_complete(&self, leg: LegId, superblock: &mut Superblock) {
        let (begun, by_bitmap) = (Features::RECOVERY_OFFSET, Features::RECOVERY_BITMAP);
        superblock.features = superblock.features.without(begun.with(by_bitmap));
        superblock.recovery_offset_sectors = 0;
        let commit = self.keeper.as_ref().and_then(|keeper| keeper.commit());
        let is_whole = commit.is_some_and(|commit| commit.joining.contains(leg));
        if let Some(saved) = self.saved_rebuild(leg)
            && !is_whole
        {
            superblock.features = superblock.features.with(begun);
            if saved.by_bitmap {
                superblock.features = superblock.features.with(by_bitmap);
            }
            superblock.recovery_offset_sectors = saved.up_to / SECTOR_BYTES;
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

    /// A leg is written to from now on: it gets all of the bitmap, and the others hear of it.
    pub(crate) fn take_in(&mut self) {
        if let Some(keeper) = &mut self.keeper {
            self.intent.all_pages_are_stale();
            keeper.record_changed();
        }
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
        let Some(keeper) = &mut self.keeper else {
            return;
        };
        let number = u16::try_from(leg.index()).expect("at most 16 legs");
        let own = superblock.dev_number as usize;
        if keeper.roles.len() <= own {
            keeper.roles.resize(own + 1, Role::Spare);
        }
        // Whoever had the role before has none any more; that it failed stays known.
        for role in &mut keeper.roles {
            if *role == Role::Active(number) {
                *role = if was_faulted {
                    Role::Faulty
                } else {
                    Role::Spare
                };
            }
        }
        keeper.roles[own] = Role::Active(number);
        keeper.superblocks[leg.index()] = Some(superblock);
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
