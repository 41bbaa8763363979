//! What superblocks say: of the array, to each leg, and from the legs that come and go.

use heliostat_format::{Features, RESYNC_DONE, Role, Stamp, Superblock};
use heliostat_types::{Instant, LegId, LegSet};

use super::SECTOR_BYTES;
use crate::background::Missed;
use crate::engine::Engine;

impl Engine {
    /// The roles as the record has them now, or, to catch up, as they were told to the others.
    pub(super) fn roles_to_tell(&self, is_catching_up: bool) -> Vec<Role> {
        let keeper = self.keeper();
        if is_catching_up {
            let told = keeper.behind.clone();
            return told.expect("some leg has missed an event");
        }
        let up_to_date = self.legs_with_metadata();
        let is_there = |number: u16| {
            let mut legs = up_to_date.iter();
            legs.any(|leg| leg.index() == usize::from(number))
        };
        let roles = keeper.roles.iter().map(|&role| match role {
            Role::Active(number) if !is_there(number) => Role::Faulty,
            Role::Active(_) | Role::Spare | Role::Faulty | Role::Journal => role,
        });
        roles.collect()
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
        superblock.resync_offset_sectors = if self.record.newest().dirty {
            0
        } else {
            RESYNC_DONE
        };
        let rebuilt = Features::RECOVERY_OFFSET.with(Features::RECOVERY_BITMAP);
        superblock.features = superblock.features.without(rebuilt);
        superblock.roles = roles.to_vec();
        superblock
    }

    /// The legs whose metadata is kept up to date: those in sync, and those that were rebuilt and
    /// are about to be.
    pub(super) fn legs_with_metadata(&self) -> LegSet {
        self.legs.in_sync.union(self.joining_legs())
    }

    /// Whether a leg has metadata that can be kept up to date, where the array has any.
    pub(crate) fn can_have_metadata(&self, leg: LegId) -> bool {
        let keeper = self.keeper.as_ref();
        keeper.is_none_or(|keeper| keeper.superblocks[leg.index()].is_some())
    }

    /// A leg that was away is about to be in sync: it gets all of the bitmap.
    pub(crate) fn renew_bitmap(&mut self) {
        if let Some(keeper) = &mut self.keeper {
            self.intent.all_pages_are_stale();
            keeper.pages_changed();
        }
    }

    /// This is what a leg that comes back, or a new one, says of the array.
    pub(crate) fn set_superblock(&mut self, leg: LegId, superblock: Superblock) {
        let Some(keeper) = &mut self.keeper else {
            return;
        };
        let number = u16::try_from(leg.index()).expect("at most 16 legs");
        let own = superblock.dev_number as usize;
        if keeper.roles.len() <= own {
            keeper.roles.resize(own + 1, Role::Spare);
        }
        // Whoever had the role before has none any more.
        for role in &mut keeper.roles {
            if *role == Role::Active(number) {
                *role = Role::Spare;
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

    /// What a leg has missed that says it was last there at this count of events: all of it, where
    /// the bitmap does not know.
    #[must_use]
    pub fn missed_since(&self, events: u64) -> Missed {
        match self.intent.bits() {
            Some(bits) if events >= bits.super_block().events_cleared => {
                Missed::Extents(self.intent.set_extents().collect())
            }
            _ => Missed::From(0),
        }
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
