//! Legs that would be made part of the array again with less than all of it copied to them: what is
//! not to be copied, they hold.
//!
//! That is what a cleared bit says of a leg that was away, and what `recovery_offset` says of one
//! that is being rebuilt. It is looked at whenever the power fails, for every leg that somebody
//! could add then, whether anybody does or not.

use heliostat_engine::Missed;
use heliostat_format::assembly::{Assembly, LeftOut};
use heliostat_format::{BadBlocks, Role};
use heliostat_types::{LegId, LegSet, SECTOR_BYTES};

use super::start::{Described, may_differ};
use crate::kernel_model::Copy;
use crate::simulation::Simulation;

impl Simulation {
    /// Checks, of `legs`, those that are not in sync and lack less than all, in `sectors`.
    pub(super) fn check_missed(&self, legs: LegSet, sectors: &[u64]) -> Result<(), String> {
        let read = self.read_legs(legs)?;
        let (legs, candidates) = &read;
        let mut assembly = Assembly::of(candidates).map_err(|error| error.to_string())?;
        assembly.take_back(candidates);
        let described = Described::of(&assembly, &read)?;
        let metadata = &described.assembled.metadata;
        for (number, missed) in &metadata.rebuilding {
            let bad_blocks = &metadata.bad_blocks[number.index()];
            let place = (described.leg(*number), described.role(*number));
            self.check_rest(&described, place, (missed, bad_blocks), sectors)?;
        }
        for (index, why) in &assembly.left_out {
            if let LeftOut::Stale { by_bitmap, .. }
            | LeftOut::Failed { by_bitmap }
            | LeftOut::Removed { by_bitmap } = *why
                && by_bitmap
            {
                // Who adds it by hand has copied what the bitmap says.
                let candidate = &candidates[*index];
                let from_sectors = candidate.superblock.incomplete_from();
                let missed = Missed::Bits {
                    from: 0,
                    all_from: from_sectors.map(|sectors| sectors.saturating_mul(SECTOR_BYTES)),
                };
                let missed = (&missed, &candidate.bad_blocks);
                let Some(Role::Active(role)) = candidate.superblock.role() else {
                    continue;
                };
                let place = (legs[*index], LegId::new(role.into()));
                self.check_rest(&described, place, missed, sectors)?;
            }
        }
        Ok(())
    }

    /// Whether a leg in a role holds what legs in sync hold but for what it has missed, and for
    /// what is made equal on all of them.
    fn check_rest(
        &self,
        described: &Described,
        (leg, role): (LegId, LegId),
        (missed, bad_blocks): (&Missed, &BadBlocks),
        sectors: &[u64],
    ) -> Result<(), String> {
        let assembled = &described.assembled;
        let metadata = &assembled.metadata;
        let data_sector = self.legs[leg.index()].store.data_sector();
        for sector in sectors.iter().copied() {
            let places = assembled.map.places(sector * SECTOR_BYTES);
            let Some(place) = places.into_iter().find(|place| place.leg == role) else {
                continue;
            };
            let has_bit = metadata.bitmap.as_ref().is_none_or(|bitmap| {
                let chunk_bytes = u64::from(bitmap.super_block().chunk_bytes);
                bitmap.get(sector * SECTOR_BYTES / chunk_bytes)
            });
            if is_copied(missed, place.address, has_bit) || may_differ(metadata, sector) {
                continue;
            }
            let own = Copy {
                disk: leg.index(),
                sector: data_sector + place.address / SECTOR_BYTES,
            };
            let is_bad = bad_blocks.overlaps(&(own.sector..own.sector + 1));
            let mut others = self.readers(described, sector).into_iter();
            let other = others.find(|other| !self.is_copy_damaged(other));
            let Some(other) = other.filter(|_| !is_bad && !self.is_copy_damaged(&own)) else {
                continue;
            };
            let store = |copy: &Copy| &self.legs[copy.disk].store;
            if !store(&own).is_equal(own.sector, store(&other), other.sector) {
                let address = place.address;
                return Err(format!(
                    "leg {} lacks sector {sector}, at byte {address} of its data, and would not be \
                     copied it ({missed:?})",
                    leg.index()
                ));
            }
        }
        Ok(())
    }
}

/// Whether a leg that has missed this is copied what lies at an address of it.
fn is_copied(missed: &Missed, address: u64, has_bit: bool) -> bool {
    match missed {
        Missed::From(from) => address >= *from,
        Missed::Bits { from, all_from } => {
            let is_behind = all_from.is_some_and(|all_from| address >= all_from);
            is_behind || has_bit && address >= *from
        }
        Missed::Extents(_) => unreachable!("no leg says so much of itself"),
    }
}
