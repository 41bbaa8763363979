//! Spares: legs without data that take the place of one that is out.
//!
//! Whether one is needed, for which leg, and which one, is decided here; the shell has the devices
//! and puts them in place. A spare takes over when a leg is out, nothing that the leg was given is
//! still outstanding, that it is out is on record, and no other leg is being rebuilt: one at a
//! time, so that all copying goes to one leg and it is whole soonest. A leg that comes back by
//! itself is never out, and so keeps its place.

use heliostat_types::{LegId, LegSet};

use crate::api::{Event, Output};
use crate::engine::Engine;

/// Which spare, in the order in which they were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpareId(pub u32);

/// A spare as the engine is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spare {
    /// Which one, for ever.
    pub id: SpareId,
    /// How much data it has room for.
    pub room_bytes: u64,
}

/// The spares of an array.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    all: Vec<Spare>,
    /// One that the shell was told to put in a leg's place, and has not yet.
    in_hand: Option<(SpareId, LegId)>,
    /// Legs whose place no spare was large enough for: that is told once.
    told: LegSet,
}

impl Spares {
    /// Whether there is nothing to decide.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

impl Engine {
    /// The spares that wait to be needed, or are about to take a place.
    #[must_use]
    pub fn spares(&self) -> &[Spare] {
        &self.spares.all
    }

    /// There is another spare.
    pub(crate) fn add_spare(&mut self, spare: Spare) {
        self.spares.all.push(spare);
        self.spares.told = LegSet::EMPTY;
    }

    /// A spare is gone: taken away, or what was to become of it could not be done.
    pub(crate) fn remove_spare(&mut self, id: SpareId) {
        self.spares.all.retain(|spare| spare.id != id);
        if self.spares.in_hand.is_some_and(|(spare, _)| spare == id) {
            self.spares.in_hand = None;
        }
    }

    /// A leg is in use again. Where that is a spare in its place, it is none any more.
    pub(crate) fn spare_is_in_place(&mut self, leg: LegId) {
        self.spares.told.remove(leg);
        if let Some((id, place)) = self.spares.in_hand
            && place == leg
        {
            self.remove_spare(id);
        }
    }

    /// Puts a spare in the place of a leg that is out, where there is one and it may.
    pub(crate) fn use_spare(&mut self) {
        let is_busy = self.spares.in_hand.is_some() || !self.legs.rebuilding.is_empty();
        if is_busy || self.keeper.is_none() {
            return;
        }
        let all = self.config.map.all();
        for leg in all.difference(self.legs.in_sync) {
            if self.add_refusal(leg).is_some() {
                continue;
            }
            let needed = self.config.map.leg_bytes(leg);
            let mut fitting = self
                .spares
                .all
                .iter()
                .filter(|spare| spare.room_bytes >= needed);
            let Some(spare) = fitting.next().copied() else {
                if !self.spares.told.contains(leg) {
                    self.spares.told.insert(leg);
                    self.outputs
                        .push_back(Output::Event(Event::NoSpareFits { leg }));
                }
                continue;
            };
            self.spares.in_hand = Some((spare.id, leg));
            let output = Output::UseSpare {
                spare: spare.id,
                leg,
            };
            self.outputs.push_back(output);
            return;
        }
    }
}
