//! What must be true whenever the power could fail: of each operation that changes a leg, before
//! the leg is given it.
//!
//! A power cut shows one of many things that may be left of the legs, at one of many moments. Here
//! all of them are looked at: whatever the legs may hold at this moment, a chunk whose bit may be
//! clear is equal on all legs in sync, and so is everything where superblocks may say *clean*. That
//! follows from two rules, each of which is looked at where alone it could be broken:
//!
//! * bytes of a leg in sync change only while all that may be left of every superblock in sync says
//!   that the array is not clean, and all that may be left of every bitmap has the bit;
//! * a bit is cleared, or a superblock made clean, only when nothing else than what is there may be
//!   left of the bytes that this is about, and these are equal.
//!
//! And of each write that is answered: that it is not behind on a leg that may not be.

use std::ops::Range;

use heliostat_engine::LegOp;
use heliostat_format::{BITMAP_SUPER_BYTES, DeviceFlags, RESYNC_DONE};
use heliostat_types::{Extent, LegId, LegSet, OpKind, SECTOR_BYTES};

use crate::contents::SECTOR;
use crate::leg::LegOpInFlight;
use crate::metadata::{BITMAP_AT, SUPERBLOCK_AT};
use crate::simulation::Simulation;

/// Where the head of the bitmap ends, and the bits begin.
const BITS_AT: u64 = BITMAP_AT + BITMAP_SUPER_BYTES as u64;
/// Where in a superblock the resync offset lies.
const RESYNC_OFFSET_AT: usize = 208;

/// Where the features lie,
const FEATURES_AT: usize = 8;
/// and the one that says that a leg lacks something.
const RECOVERY_OFFSET: u32 = 2;

impl Simulation {
    /// An operation is about to be given to its leg; its bytes lie in `memory`.
    pub(crate) fn watch_operation(&mut self, op: &LegOp, memory: Range<usize>) {
        let is_change = matches!(op.kind, OpKind::Write | OpKind::Trim | OpKind::WriteZeroes);
        if self.lives.is_none() || !is_change || self.is_metadata_damaged() {
            return;
        }
        let data_offset_bytes = self.scenario.array.data_offset_bytes();
        let at = op.extent.offset();
        let reads_zeros = op.kind != OpKind::Trim || self.legs[op.leg.index()].trims_to_zeros;
        let watched = if !reads_zeros {
            let leg = op.leg;
            Err(format!(
                "{leg} is trimmed, and does not read zeros afterwards"
            ))
        } else if at >= data_offset_bytes {
            self.watch_data(op, memory)
        } else if at == SUPERBLOCK_AT {
            self.watch_superblock(op, memory)
        } else if at >= BITMAP_AT && at < self.bitmap_end() {
            self.watch_bits(op, memory)
        } else {
            Ok(())
        };
        if let Err(text) = watched {
            self.fail(text);
        }
    }

    /// A client was told that a write is done. Of an array with write-behind, each leg in sync has
    /// it that does not say itself that it may be behind: a start believes one of these. Where
    /// there is none, all have it.
    pub(crate) fn watch_answer(&mut self, extent: Extent) {
        let (Some(shadow), Some(_)) = (&self.shadow, &self.lives) else {
            return;
        };
        if self.scenario.array.write_behind == 0 || self.is_metadata_damaged() {
            return;
        }
        let in_sync = self.engine.in_sync();
        let leads = |leg: &LegId| {
            let made = self.legs[leg.index()].made.as_ref();
            made.is_some_and(|made| !made.device_flags.contains(DeviceFlags::WRITE_MOSTLY))
        };
        let leaders: LegSet = in_sync.iter().filter(leads).collect();
        let leaders = if leaders.is_empty() { in_sync } else { leaders };
        let lacks = |leg: LegId| {
            let sim_leg = &self.legs[leg.index()];
            let bad = self.engine.bad_blocks(leg);
            sectors_of(extent).find_map(|sector| {
                let here = sim_leg.store.place_of(sector);
                let on_leg = here - sim_leg.store.data_sector();
                let is_excused = sim_leg.is_damaged(here) || bad.overlaps(&(on_leg..on_leg + 1));
                let held = shadow.may_hold(sector, sim_leg.store.version(sector));
                let wrong = held.err().filter(|_| !is_excused)?;
                Some(format!(
                    "a write is answered that {leg} lacks, which may not be behind: sector \
                     {sector} holds {wrong}"
                ))
            })
        };
        if let Some(text) = leaders.iter().find_map(lacks) {
            self.fail(text);
        }
    }

    /// Where the bitmap ends on each leg; where it begins, if there is none.
    pub(super) fn bitmap_end(&self) -> u64 {
        match self.bitmap_chunk_bytes() {
            0 => BITMAP_AT,
            chunk_bytes => {
                let chunks = self.engine.map().size_bytes().div_ceil(chunk_bytes);
                BITS_AT + chunks.div_ceil(8)
            }
        }
    }

    fn bitmap_chunk_bytes(&self) -> u64 {
        let metadata = self.scenario.array.metadata;
        metadata.map_or(0, |metadata| metadata.bitmap_chunk_bytes)
    }

    /// Bytes of a leg may change: nothing may say that they are equal.
    fn watch_data(&self, op: &LegOp, memory: Range<usize>) -> Result<(), String> {
        let in_sync = self.engine.in_sync();
        if !in_sync.contains(op.leg) {
            return Ok(());
        }
        let chunk_bytes = self.bitmap_chunk_bytes();
        // An operation on data lies in one chunk of the layout.
        let Some(first) = self.address_of(op.leg, op.extent.offset() / SECTOR_BYTES) else {
            return Ok(());
        };
        let mut sure = None;
        for (sector, at) in sectors_of(op.extent).zip((memory.start..).step_by(SECTOR)) {
            let address = first + (sector * SECTOR_BYTES - op.extent.offset());
            let chunk = address.checked_div(chunk_bytes);
            if sure == Some(chunk) || !self.changes(op, sector, at) {
                continue;
            }
            for leg in in_sync {
                if self.may_say_clean(leg) {
                    return Err(format!(
                        "{} is written at byte {address} of the array while the superblock of \
                         {leg} may say clean",
                        op.leg
                    ));
                }
                if let Some(chunk) = chunk.filter(|chunk| self.may_be_clear(leg, *chunk)) {
                    return Err(format!(
                        "{} is written at byte {address} of the array while its bit, number \
                         {chunk}, may be clear on {leg}",
                        op.leg
                    ));
                }
            }
            sure = Some(chunk);
        }
        Ok(())
    }

    /// Where in the array a sector of a leg is.
    fn address_of(&self, leg: LegId, sector: u64) -> Option<u64> {
        let in_data = sector.checked_sub(self.legs[leg.index()].store.data_sector())?;
        let map = self.engine.map();
        map.array_address(leg, in_data * SECTOR_BYTES)
    }

    /// Whether an operation changes what is in a sector; its bytes lie at `at` in the arena.
    fn changes(&self, op: &LegOp, sector: u64, at: usize) -> bool {
        let leg = &self.legs[op.leg.index()];
        let kept = leg.store.sector(sector);
        if op.kind == OpKind::Write {
            let is_damaged = leg.is_damaged(sector) || self.arena.is_tainted(at);
            !is_damaged && self.arena.bytes[at..at + kept.len()] != *kept
        } else {
            kept.iter().any(|byte| *byte != 0)
        }
    }

    /// Whether what is left of a leg's superblock may say that the array is clean.
    fn may_say_clean(&self, leg: LegId) -> bool {
        self.may_hold(leg, SUPERBLOCK_AT / SECTOR_BYTES, |bytes| {
            is_clean(&bytes[..SECTOR])
        })
    }

    /// Whether what is left of a leg's bitmap may lack the bit of a chunk.
    fn may_be_clear(&self, leg: LegId, chunk: u64) -> bool {
        let at = BITS_AT + chunk / 8;
        let in_sector = index(at % SECTOR_BYTES);
        self.may_hold(leg, at / SECTOR_BYTES, |bytes| {
            bytes[in_sector] >> (chunk % 8) & 1 == 0
        })
    }

    /// Whether anything that may be left of a sector of metadata is so.
    fn may_hold(&self, leg: LegId, sector: u64, is_so: impl Fn(&[u8]) -> bool) -> bool {
        let sim_leg = &self.legs[leg.index()];
        let medium = sim_leg.medium.iter();
        let mut possible = medium.flat_map(|medium| medium.possible(sector));
        if possible.any(&is_so) || is_so(&sim_leg.store.sector(sector)) {
            return true;
        }
        let extent = Extent::new(sector * SECTOR_BYTES, SECTOR_BYTES);
        let mut in_flight = self.leg_ops.values();
        in_flight.any(|LegOpInFlight { op, memory, .. }| {
            let is_there = op.leg == leg && op.kind == OpKind::Write && op.extent.overlaps(extent);
            is_there && {
                let at = memory.0 + index(extent.offset() - op.extent.offset());
                is_so(&self.arena.bytes[at..at + SECTOR])
            }
        })
    }

    /// Bits may be cleared: what they are about is durable, and equal.
    fn watch_bits(&self, op: &LegOp, memory: Range<usize>) -> Result<(), String> {
        for (sector, at) in sectors_of(op.extent).zip((memory.start..).step_by(SECTOR)) {
            let old = self.legs[op.leg.index()].store.sector(sector);
            let new = &self.arena.bytes[at..at + SECTOR];
            let bytes = (sector * SECTOR_BYTES..).zip(old.iter().zip(new));
            for (at, (old, new)) in bytes.filter(|(_, (old, new))| **old & !**new != 0) {
                if at < BITS_AT || at >= self.bitmap_end() {
                    continue;
                }
                let cleared = (0..8).filter(|bit| old & !new & 1 << bit != 0);
                for bit in cleared {
                    let chunk = (at - BITS_AT) * 8 + bit;
                    self.check_chunk(chunk)
                        .map_err(|text| format!("bit {chunk} is cleared although {text}"))?;
                }
            }
        }
        Ok(())
    }

    /// Whether the sectors of a chunk are durable, and equal on all legs in sync.
    pub(super) fn check_chunk(&self, chunk: u64) -> Result<(), String> {
        let chunk_bytes = self.bitmap_chunk_bytes();
        let size_bytes = self.engine.map().size_bytes();
        let first = chunk * chunk_bytes;
        let extent = Extent::from_range(first, (first + chunk_bytes).min(size_bytes));
        let in_sync = self.engine.in_sync();
        self.check_in_flight(in_sync, extent)?;
        for sector in sectors_of(extent) {
            self.check_settled(in_sync, sector)?;
        }
        Ok(())
    }

    /// Whether nothing is on its way to these legs that would change bytes of the array.
    fn check_in_flight(&self, legs: LegSet, extent: Extent) -> Result<(), String> {
        for LegOpInFlight { op, memory, .. } in self.leg_ops.values() {
            let is_change = matches!(op.kind, OpKind::Write | OpKind::Trim | OpKind::WriteZeroes);
            if !is_change || !legs.contains(op.leg) {
                continue;
            }
            let sectors = sectors_of(op.extent).zip((memory.0..).step_by(SECTOR));
            for (sector, at) in sectors {
                let address = self.address_of(op.leg, sector);
                let is_inside = address
                    .is_some_and(|address| extent.contains(Extent::new(address, SECTOR_BYTES)));
                if is_inside && self.changes(op, sector, at) {
                    return Err(format!("{} is being written there", op.leg));
                }
            }
        }
        Ok(())
    }

    /// Whether all copies of a sector on these legs are durable, and equal; those aside that an
    /// injected fault has damaged or that are known to be bad.
    fn check_settled(&self, legs: LegSet, sector: u64) -> Result<(), String> {
        let places = self.engine.map().places(sector * SECTOR_BYTES).into_iter();
        let mut first = None;
        for place in places.filter(|place| legs.contains(place.leg)) {
            let leg = &self.legs[place.leg.index()];
            let on_leg = place.address / SECTOR_BYTES;
            let here = leg.store.data_sector() + on_leg;
            let is_bad = self.engine.bad_blocks(place.leg);
            if leg.is_damaged(here) || is_bad.overlaps(&(on_leg..on_leg + 1)) {
                continue;
            }
            let kept = leg.store.sector(here);
            let medium = leg.medium.iter();
            let mut possible = medium.flat_map(|medium| medium.possible(here));
            if possible.any(|bytes| bytes != &*kept) {
                return Err(format!("{} has not flushed sector {sector}", place.leg));
            }
            match first {
                None => first = Some((place.leg, kept)),
                Some((other, bytes)) if bytes != kept => {
                    let leg = place.leg;
                    return Err(format!("{other} and {leg} differ in sector {sector}"));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// The array may become clean: everything is durable, and equal. Or a leg may become whole: so
    /// it is.
    fn watch_superblock(&self, op: &LegOp, memory: Range<usize>) -> Result<(), String> {
        let old = self.legs[op.leg.index()]
            .store
            .sector(SUPERBLOCK_AT / SECTOR_BYTES);
        if !is_incomplete(&self.arena.bytes[memory.clone()]) && is_incomplete(&old) {
            self.check_whole(op.leg)
                .map_err(|text| format!("{} says that it is whole although {text}", op.leg))?;
        }
        if !is_clean(&self.arena.bytes[memory]) || is_clean(&old) {
            return Ok(());
        }
        let in_sync = self.engine.in_sync();
        let all = Extent::new(0, self.engine.map().size_bytes());
        let settled = self
            .check_in_flight(in_sync, all)
            .and_then(|()| self.check_all_settled(in_sync));
        settled.map_err(|text| format!("{} says clean although {text}", op.leg))
    }

    /// Whether all of a leg is durable and equal to the others, but for what has a bit, durably.
    fn check_whole(&self, leg: LegId) -> Result<(), String> {
        let mut legs = self.engine.in_sync();
        legs.insert(leg);
        let chunk_bytes = self.bitmap_chunk_bytes();
        let map = self.engine.map();
        for sector in self.sectors_ever_written() {
            let address = sector * SECTOR_BYTES;
            if !map.holders(address).contains(leg) {
                continue;
            }
            // The leg itself says nothing until what it is sent now is there, and no more what it
            // said as a spare.
            let mut others = legs.iter().filter(|other| *other != leg);
            let may_differ = !others.any(|other| self.may_say_clean(other))
                && address
                    .checked_div(chunk_bytes)
                    .is_none_or(|chunk| !legs.iter().any(|leg| self.may_be_clear(leg, chunk)));
            if !may_differ {
                self.check_settled(legs, sector)?;
            }
        }
        Ok(())
    }

    /// Whether all that was ever written is durable on these legs, and equal.
    fn check_all_settled(&self, legs: LegSet) -> Result<(), String> {
        for leg in legs {
            let sim_leg = &self.legs[leg.index()];
            let medium = sim_leg.medium.iter();
            let from = sim_leg.store.data_sector();
            let mut unflushed = medium.flat_map(|medium| medium.unflushed(from));
            let sector = unflushed.find(|sector| !sim_leg.is_damaged(*sector));
            if let Some(address) = sector.and_then(|sector| self.address_of(leg, sector)) {
                return Err(format!("{leg} has not flushed byte {address} of the array"));
            }
        }
        self.check_equal(legs)
    }
}

/// The sectors of an extent.
fn sectors_of(extent: Extent) -> Range<u64> {
    extent.offset() / SECTOR_BYTES..extent.end() / SECTOR_BYTES
}

/// Whether the first sector of a superblock says that the array is clean.
fn is_clean(superblock: &[u8]) -> bool {
    let offset = &superblock[RESYNC_OFFSET_AT..RESYNC_OFFSET_AT + 8];
    offset == RESYNC_DONE.to_le_bytes()
}

/// Whether the first sector of a superblock says that its leg lacks something.
fn is_incomplete(superblock: &[u8]) -> bool {
    let features = superblock[FEATURES_AT..FEATURES_AT + 4].try_into();
    let features = u32::from_le_bytes(features.expect("four bytes"));
    features & RECOVERY_OFFSET != 0
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("what one request has fits into memory")
}
