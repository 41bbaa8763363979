//! Whether a scrub of an array with metadata sees what differs, and makes it equal.
//!
//! Legs in sync differ where an injected fault has damaged one of them, and nowhere else. What
//! differs when a scrub begins, and has not changed by itself or by a client when it is done, it
//! has counted; and after a repair it does not differ any more, unless a fault has kept what was
//! written there meanwhile from landing.

use std::collections::BTreeSet;

use heliostat_engine::{BackgroundEnd, BackgroundKind, Event};
use heliostat_types::{LegId, SECTOR_BYTES};

use crate::simulation::Simulation;
use crate::store::KeptSector;

/// A leg, the sector of it, and what that holds.
type Held = (LegId, u64, KeptSector);

/// A sector of the array in which legs in sync differ, and what two of them hold there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Difference {
    sector: u64,
    held: [Held; 2],
}

impl Simulation {
    /// The array tells of its work in the background.
    pub(crate) fn watch_scrub(&mut self, event: &Event) {
        if self.lives.is_none() {
            return;
        }
        if let Event::BackgroundStarted {
            kind: BackgroundKind::Scrub { .. },
            ..
        } = event
        {
            let differences = self.differences();
            for medium in self.legs.iter_mut().filter_map(|leg| leg.medium.as_mut()) {
                medium.forget_missed();
            }
            let lives = self.lives.as_mut().expect("the array has metadata");
            lives.before_scrub = differences;
        } else if let Event::BackgroundEnded {
            kind: BackgroundKind::Scrub { repair },
            end: BackgroundEnd::Done,
            mismatches,
            ..
        } = event
        {
            self.check_scrubbed(*repair, mismatches.sectors);
        }
    }

    /// A scrub is done, and has counted so many sectors that differ.
    fn check_scrubbed(&mut self, repair: bool, counted: u64) {
        let lives = self.lives.as_mut().expect("the array has metadata");
        let before = std::mem::take(&mut lives.before_scrub);
        let has_missed = |&(leg, sector, _): &Held| {
            let medium = self.legs[leg.index()].medium.as_ref();
            medium.is_some_and(|medium| medium.has_missed(sector))
        };
        let now = self.differences();
        let left = || before.iter().filter(|before| now.contains(before));
        let is_explained = |left: &&&Difference| left.held.iter().any(has_missed);
        let mut unexplained = left().filter(|left| !is_explained(&left));
        if repair && let Some(Difference { sector, held }) = unexplained.next() {
            let [(one, ..), (other, ..)] = held;
            self.fail(format!(
                "a repair has left {one} and {other} different in sector {sector}"
            ));
            return;
        }
        // Of three legs, two may each differ from the third in one sector.
        let sectors: BTreeSet<u64> = left().map(|left| left.sector).collect();
        let left = sectors.len() as u64;
        if counted < left {
            self.fail(format!(
                "a check has counted {counted} sectors that differ where {left} do"
            ));
        }
    }

    /// Where legs in sync differ because of injected faults, but in what a leg is known not to
    /// hold.
    fn differences(&self) -> Vec<Difference> {
        let in_sync = self.engine.in_sync();
        let map = self.engine.map();
        let mut differences = Vec::new();
        for leg in in_sync {
            let sim_leg = &self.legs[leg.index()];
            let Some(medium) = &sim_leg.medium else {
                continue;
            };
            for here in medium.damaged(sim_leg.store.data_sector()) {
                let in_data = here - sim_leg.store.data_sector();
                let Some(address) = map.array_address(leg, in_data * SECTOR_BYTES) else {
                    continue;
                };
                let places = map.places(address).into_iter();
                let mut others = places.filter(|place| {
                    let sector = place.address / SECTOR_BYTES;
                    let bad = self.engine.bad_blocks(place.leg);
                    let is_bad = bad.overlaps(&(sector..sector + 1));
                    in_sync.contains(place.leg) && place.leg != leg && !is_bad
                });
                let is_bad = self.engine.bad_blocks(leg);
                if is_bad.overlaps(&(in_data..in_data + 1)) {
                    continue;
                }
                let mine = sim_leg.store.sector(here);
                let differs = others.find_map(|place| {
                    let store = &self.legs[place.leg.index()].store;
                    let there = store.data_sector() + place.address / SECTOR_BYTES;
                    let theirs = store.sector(there);
                    (theirs != mine).then_some((place.leg, there, theirs))
                });
                differences.extend(differs.map(|theirs| Difference {
                    sector: address / SECTOR_BYTES,
                    held: [(leg, here, mine), theirs],
                }));
            }
        }
        differences
    }
}
