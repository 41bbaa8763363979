//! Whether a leg that comes back may have been written to without the array.
//!
//! What such a leg holds no bitmap of the array tells, and what was written to it would be lost
//! where the array is copied over it. Its own superblock decides, because whoever goes on without a
//! leg first writes down that it is out:
//!
//! * A leg that left this engine, and counts on all legs still that were in sync when it left, was
//!   not written to since then.
//! * A leg that counts on all legs that are in sync now was not written to without them.
//! * A leg may well call one of them out, if others that are in sync, and that it counts on, hold
//!   every byte of the array: then it left when that one was out and not back yet, and all that it
//!   was given they were given as well. These others have to be legs of the array from its
//!   beginning. The numbers of later legs are given out anew by each part of an array that fell
//!   apart, so that they may be those of two legs.
//!
//! In any case it must not be newer than the array.

use std::collections::VecDeque;

use heliostat_format::{Role, Superblock, Uuid};
use heliostat_types::{LegId, LegSet};

use crate::engine::Engine;
use crate::map::Map;

/// How many legs that have left are remembered.
const DEPARTURES_MAX: usize = 64;

/// A leg in the table of roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    leg: LegId,
    number: u32,
    role: Role,
}

impl Entry {
    /// Whether a superblock counts on this leg.
    fn is_counted_on_by(&self, own: &Superblock) -> bool {
        own.role_of(self.number) == Some(self.role)
    }
}

/// A leg that left.
#[derive(Clone, Debug)]
struct Departure {
    device: Uuid,
    /// The last event that it may have heard of.
    events: u64,
    /// The legs in sync that were left.
    in_sync: Vec<Entry>,
}

/// The legs that have left since the engine began.
#[derive(Debug, Default)]
pub(crate) struct Departures(VecDeque<Departure>);

impl Departures {
    /// A leg is part of the array again.
    pub(crate) fn forget(&mut self, device: Uuid) {
        self.0.retain(|departure| departure.device != device);
    }
}

/// What an array knows of the legs that may come back.
#[derive(Clone, Debug)]
pub struct Lineage {
    map: Map,
    events: u64,
    raid_disks: u32,
    in_sync: Vec<Entry>,
    departures: VecDeque<Departure>,
}

impl Lineage {
    /// Of an array with this superblock, of which these legs are in sync, each with its number in
    /// the table of roles.
    #[must_use]
    pub fn new(map: &Map, like: &Superblock, in_sync: &[(LegId, u32)]) -> Self {
        Self {
            map: map.clone(),
            events: like.events,
            raid_disks: like.raid_disks,
            in_sync: entries(map, in_sync.iter().copied()),
            departures: VecDeque::new(),
        }
    }

    /// Whether a leg that says this has not been written to without the array, or not to more than
    /// the legs in sync hold.
    #[must_use]
    pub fn vouches_for(&self, own: &Superblock) -> bool {
        !self.is_older_than(own) && (self.saw_leave(own) || self.is_counted_on_by(own))
    }

    /// Whether a leg that says this is newer than the array.
    #[must_use]
    pub const fn is_older_than(&self, own: &Superblock) -> bool {
        own.events > self.events
    }

    /// Whether a leg is as it was when it left.
    fn saw_leave(&self, own: &Superblock) -> bool {
        let mut departures = self.departures.iter();
        departures.any(|departure| {
            let mut in_sync = departure.in_sync.iter();
            departure.device == own.device_uuid
                && own.events <= departure.events
                && in_sync.all(|entry| entry.is_counted_on_by(own))
        })
    }

    /// Whether a leg counts on all legs in sync, or on enough of them that are what they were.
    fn is_counted_on_by(&self, own: &Superblock) -> bool {
        let known = self.in_sync.iter();
        let known: Vec<&Entry> = known.filter(|entry| entry.is_counted_on_by(own)).collect();
        let first = self.raid_disks.min(own.raid_disks);
        let originals = known.iter().filter(|entry| entry.number < first);
        let originals: LegSet = originals.map(|entry| entry.leg).collect();
        known.len() == self.in_sync.len() || self.map.is_covered_by(originals)
    }
}

/// These legs in the table of roles.
fn entries(map: &Map, legs: impl Iterator<Item = (LegId, u32)>) -> Vec<Entry> {
    let entry = |(leg, number)| {
        let role = map.role_of(leg)?;
        let role = Role::Active(u16::try_from(role).ok()?);
        Some(Entry { leg, number, role })
    };
    legs.filter_map(entry).collect()
}

impl Engine {
    /// What is known of legs that may come back; `None` where legs have no metadata.
    #[must_use]
    pub fn lineage(&self) -> Option<Lineage> {
        let like = self.array_superblock()?;
        Some(Lineage {
            map: self.config.map.clone(),
            events: like.events,
            raid_disks: like.raid_disks,
            in_sync: self.entries_in_sync(),
            departures: self.departures()?.0.clone(),
        })
    }

    /// A leg is out, and still has its superblock.
    pub(crate) fn note_departure(&mut self, leg: LegId) {
        let in_sync = self.entries_in_sync();
        let Some((device, events)) = self.identity(leg) else {
            return;
        };
        let Some(Departures(all)) = self.departures_mut() else {
            return;
        };
        all.retain(|departure| departure.device != device);
        if all.len() == DEPARTURES_MAX {
            all.pop_front();
        }
        all.push_back(Departure {
            device,
            events,
            in_sync,
        });
    }

    fn entries_in_sync(&self) -> Vec<Entry> {
        let number = |leg: LegId| Some((leg, self.number_of(leg)?));
        let in_sync = self.legs.in_sync.iter();
        entries(&self.config.map, in_sync.filter_map(number))
    }
}

#[cfg(test)]
mod tests {
    use heliostat_format::{Role, Superblock};
    use heliostat_types::LegId;

    use super::Lineage;
    use crate::map::{CopyOrder, Layout, Map, Raid10};

    const OUT: Role = Role::Faulty;

    fn says(events: u64, roles: &[Role]) -> Superblock {
        Superblock {
            events,
            raid_disks: 4,
            roles: roles.to_vec(),
            ..Superblock::default()
        }
    }

    fn lineage(map: &Map, in_sync: &[(usize, u32)]) -> Lineage {
        let legs = in_sync
            .iter()
            .map(|&(leg, number)| (LegId::new(leg), number));
        Lineage::new(map, &says(20, &[]), &legs.collect::<Vec<_>>())
    }

    #[test]
    fn a_leg_that_left_when_another_was_out_is_known_by_a_third() {
        let map = Map::mirror(4, 1 << 20);
        let [first, second, third, fourth] = [0, 1, 2, 3].map(Role::Active);
        // Leg 0 failed and came back, leg 1 failed meanwhile; leg 2 was always there.
        let one = lineage(&map, &[(0, 0), (2, 2)]);
        assert!(one.vouches_for(&says(20, &[OUT, second, third, OUT])));
        assert!(one.vouches_for(&says(9, &[first, second, third, fourth])));
        assert!(
            !one.vouches_for(&says(21, &[OUT, second, third, OUT])),
            "newer"
        );
        assert!(
            !one.vouches_for(&says(9, &[OUT, second, OUT, OUT])),
            "alone"
        );
        assert!(
            !one.vouches_for(&says(9, &[OUT, second, OUT, fourth])),
            "with another one that is not here"
        );
        // Leg 2 is another one now. The numbers of legs that came later say nothing.
        let one = lineage(&map, &[(0, 0), (2, 4)]);
        assert!(!one.vouches_for(&says(9, &[OUT, second, OUT, fourth, third])));
        assert!(
            one.vouches_for(&says(9, &[first, second, OUT, fourth])),
            "leg 0"
        );
        assert!(one.vouches_for(&says(9, &[first, second, OUT, fourth, third])));
    }

    #[test]
    fn who_vouches_holds_all_of_the_array() {
        let near = Raid10 {
            order: CopyOrder::Near,
            copies: 2,
            chunk_bytes: 4096,
        };
        let map = Map::new(Layout::Raid10(near), 4, 1 << 20).unwrap();
        let one = lineage(&map, &[(0, 0), (2, 2), (3, 3)]);
        let [first, second, third, fourth] = [0, 1, 2, 3].map(Role::Active);
        assert!(
            !one.vouches_for(&says(9, &[OUT, second, third, fourth])),
            "the other half was its own"
        );
        assert!(one.vouches_for(&says(9, &[first, second, OUT, fourth])));
        assert!(!one.vouches_for(&says(9, &[first, second, OUT, OUT])));
    }
}
