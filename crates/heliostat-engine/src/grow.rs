//! A mirror gets one more leg while it serves.
//!
//! First it gets one more role, whose leg is missing, as in an array that was made with a missing
//! leg; when that is on record, a leg is added there as anywhere. No byte depends on the new role
//! before that leg is whole, so that it does no harm where the power fails when only some legs have
//! heard of it: of two legs one event apart the freshest is the truth, and says how many there are.
//!
//! How many roles there are belongs to an event as the table of roles does. So it changes between
//! two commits, and not while some leg has yet to hear of the last event.

use heliostat_types::{LEGS_MAX, LegId};

use crate::api::{Event, LegState, Output};
use crate::engine::Engine;

/// Why an array cannot get one more leg now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrowRefusal {
    /// Legs have no metadata to say it in.
    NoSuperblock,
    /// Its bytes would have to move to lie on more legs.
    NotAMirror,
    /// There are as many legs as there can be.
    NoRoom,
    /// A leg is being replaced, in whose place the new one would be.
    Replacing,
    /// The last change is not durable yet. Ask again soon.
    Unrecorded,
}

impl Engine {
    /// Why a mirror cannot get one more leg now; `None` where it can.
    #[must_use]
    pub fn grow_refusal(&self) -> Option<GrowRefusal> {
        let map = &self.config.map;
        if self.keeper.is_none() {
            Some(GrowRefusal::NoSuperblock)
        } else if !map.is_mirror() {
            Some(GrowRefusal::NotAMirror)
        } else if self.replacing().is_some() {
            Some(GrowRefusal::Replacing)
        } else if let Some(leg) = self.free_leg() {
            let is_unready = self.is_growing || self.unready(leg).is_some();
            is_unready.then_some(GrowRefusal::Unrecorded)
        } else {
            Some(GrowRefusal::NoRoom)
        }
    }

    /// The array is to have one more leg, which is missing.
    pub(crate) fn grow(&mut self) {
        match self.grow_refusal() {
            None => self.is_growing = true,
            Some(refusal) => {
                let event = Event::GrowRefused { refusal };
                self.outputs.push_back(Output::Event(event));
            }
        }
    }

    /// Gives the array one more role, where it is to have it and no commit is on its way.
    pub(crate) fn advance_growth(&mut self) {
        if !self.is_growing || !self.may_change_shape() {
            return;
        }
        self.is_growing = false;
        let leg = self.free_leg().expect("nothing has taken it meanwhile");
        let role = self.config.map.add_role(leg);
        self.legs.legs[leg.index()].state = LegState::Missing;
        self.legs.roles_changed(&self.config.map);
        self.say_how_many(role + 1);
        self.make_room_for_another();
        self.record_growth(leg);
    }

    /// It is durable that there is one more role, which this leg has, that is missing.
    pub(crate) fn growth_recorded(&mut self, leg: LegId) {
        self.outputs.push_back(Output::Event(Event::Grown { leg }));
    }

    /// Makes place for a leg that is to replace another one, or to be one more.
    fn make_room_for_another(&mut self) {
        if self.free_leg().is_none() && self.legs.legs.len() < LEGS_MAX {
            self.legs.make_room();
            self.bad.make_room();
            self.background.make_room();
            self.make_room_for_superblock();
        }
    }
}
