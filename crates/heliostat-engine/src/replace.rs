//! A leg is replaced while it serves.
//!
//! The new leg stands in the same role of the address map as the old one: a leg that is being
//! rebuilt, which gets what is written from the start, and is filled from any leg in sync. So long
//! the old one counts and the new one does not: no byte depends on it. When the new leg is whole,
//! one commit (see [`crate::metadata`]) makes it active and calls the old one faulty, and with that
//! on record the old one is out, and has no role any more.
//!
//! The new leg has no bad blocks but those that no leg could be read of: one that cannot be written
//! is out, and what its log says when it is taken up is copied once more.
//!
//! Where the old leg fails first, the new one is a leg like any other that is rebuilt in that role;
//! where the new one fails, the old one goes on as if nothing had been. Either way one of them has
//! no role then, and its number is free for the next replacement.
//!
//! While legs may differ, reads of some ranges go to one leg alone, which may be the old one. The
//! commit that has the roles change hands begins only when that is over. A write that leaves legs
//! different while it is on its way is answered after it, because the new leg is read then where
//! the old one was, and may hold another part of it: so what is read there may change once before
//! the answer, as it may when a leg is lost, and not after it.

use heliostat_format::Superblock;
use heliostat_types::{Instant, LegId, LegSet};

use crate::api::{Event, LegConfig, Output};
use crate::background::{AddRefusal, Missed};
use crate::engine::{Engine, Turn};

impl Engine {
    /// The leg that is being replaced, and the one that is to have its role.
    #[must_use]
    pub fn replacing(&self) -> Option<(LegId, LegId)> {
        let mut rebuilding = self.legs.rebuilding.iter();
        rebuilding.find_map(|by| Some((self.config.map.twin_of(by)?, by)))
    }

    /// Whether a leg is to have the role of another one, and has it not yet.
    pub(crate) fn is_replacement(&self, leg: LegId) -> bool {
        self.legs.rebuilding.contains(leg) && self.config.map.twin_of(leg).is_some()
    }

    /// The leg that a replacement would be.
    #[must_use]
    pub fn free_leg(&self) -> Option<LegId> {
        let all = LegSet::first(self.legs.legs.len());
        all.difference(self.config.map.all()).lowest()
    }

    /// Why a leg cannot be replaced now; `None` where it can.
    #[must_use]
    pub fn replace_refusal(&self, leg: LegId) -> Option<AddRefusal> {
        if !self.legs.in_sync.contains(leg) {
            return Some(AddRefusal::NotInSync);
        }
        if self.replacing().is_some() {
            return Some(AddRefusal::Replacing);
        }
        if self.keeper.is_none() {
            return Some(AddRefusal::NoSuperblock);
        }
        if self.is_growing {
            return Some(AddRefusal::Unrecorded);
        }
        let Some(by) = self.free_leg() else {
            return Some(AddRefusal::NoRoom);
        };
        self.unready(by)
    }

    /// A leg in sync is to be replaced by a device that is there.
    pub(crate) fn replace_leg(
        &mut self,
        now: Instant,
        leg: LegId,
        config: &LegConfig,
        superblock: Superblock,
    ) {
        let refusal = self.replace_refusal(leg);
        let free = self.free_leg().filter(|_| refusal.is_none());
        let role = self.config.map.role_of(leg);
        let (Some(by), Some(role)) = (free, role) else {
            let refusal = refusal.unwrap_or(AddRefusal::NoRole);
            let event = Event::AddRefused { leg, refusal };
            return self.outputs.push_back(Output::Event(event));
        };
        self.config.map.give_role(by, role);
        self.set_metadata_of(by, superblock, None);
        self.take_leg_in(now, by, config, Missed::From(0));
        let event = Event::ReplaceBegun { leg, by };
        self.outputs.push_back(Output::Event(event));
    }

    /// Whether a leg that has everything may be read as soon as that is on record.
    pub(crate) fn may_take_role(&self, leg: LegId) -> bool {
        self.config.map.twin_of(leg).is_none() || self.is_all_equal()
    }

    /// It is on record that a leg has the role of this one, which is out.
    fn leave_to(&mut self, turn: &Turn<'_>, leg: LegId, by: LegId) {
        self.legs.take_out(&self.config.map, leg);
        self.has_left(leg);
        self.policy.on_leg_state(leg, false);
        self.outputs
            .push_back(Output::Event(Event::LegReplaced { leg, by }));
        self.note_replaced(leg);
        self.note_departure(leg);
        self.leave_role(leg);
        self.divergence.hand_over(leg, by);
        self.differs_without(turn, leg);
        self.orphan_ops(leg);
    }

    /// A leg that is out has no role from now on: another one has it.
    pub(crate) fn leave_role(&mut self, leg: LegId) {
        self.config.map.take_role(leg);
        self.legs.roles_changed(&self.config.map);
        self.last_told.remove(leg);
        self.forget_superblock(leg);
    }

    /// A leg has everything, durably, and that is on record.
    pub(crate) fn take_role(&mut self, turn: &Turn<'_>, leg: LegId) {
        self.legs.join(&self.config.map, leg);
        self.last_told.remove(leg);
        if self.keeper.is_some() {
            // Bits may be cleared again where no leg is missing now.
            self.sweep_later(turn);
        }
        self.policy.on_leg_state(leg, true);
        self.outputs
            .push_back(Output::Event(Event::LegInSync { leg }));
        if let Some(before) = self.config.map.twin_of(leg) {
            self.leave_to(turn, before, leg);
        }
    }
}
