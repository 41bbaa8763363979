//! Bugs on purpose of arrays with metadata: what gets to the legs, and what is read from them, is
//! not what the engine and the assembly have made of it.

use std::ops::Range;

use heliostat_engine::LegOp;
use heliostat_format::assembly::Candidate;
use heliostat_format::{BITMAP_SUPER_BYTES, Features, RESYNC_DONE, Role, Superblock};
use heliostat_types::OpKind;

use crate::metadata::{BITMAP_AT, EVENTS, SUPERBLOCK_AT, SUPERBLOCK_BYTES};
use crate::planted::Planted;
use crate::simulation::Simulation;

/// What a leg says of itself that is being rebuilt.
const INCOMPLETE: Features = Features::RECOVERY_OFFSET.with(Features::RECOVERY_BITMAP);

/// Where in its page the bitmap says since when bits are missing.
const CLEARED_AT: usize = 32;

impl Simulation {
    /// An operation is about to be given to its leg: what the bug makes of metadata in its memory.
    pub(crate) fn spoil_metadata(&mut self, op: &LegOp, memory: Range<usize>) {
        let data_offset_bytes = self.scenario.array.data_offset_bytes();
        let at = op.extent.offset();
        if op.kind != OpKind::Write || at >= data_offset_bytes {
            return;
        }
        if at != SUPERBLOCK_AT {
            self.spoil_bits(op, memory);
            return;
        }
        let mut superblock = Superblock::parse(&self.arena.bytes[memory.clone()])
            .expect("the engine writes superblocks there");
        match self.plant.map(|plant| plant.bug) {
            Some(Planted::CleanSuperblock) => superblock.resync_offset_sectors = RESYNC_DONE,
            Some(Planted::EventsNotBumped) => superblock.events = EVENTS,
            Some(Planted::WholeTooEarly) => {
                superblock.features = superblock.features.without(INCOMPLETE);
            }
            Some(Planted::ReplacementWhole)
                if superblock.features.contains(Features::REPLACEMENT) =>
            {
                superblock.features = superblock.features.without(INCOMPLETE);
            }
            Some(Planted::OffsetTooFar) => {
                superblock.recovery_offset_sectors = superblock.size_sectors;
            }
            Some(Planted::FaultNotDurable) if superblock.roles.contains(&Role::Faulty) => {
                superblock = self.superblock_before(op);
            }
            Some(Planted::HandoverNotDurable) if self.tells_of_handover(&superblock) => {
                superblock = self.superblock_before(op);
            }
            _ => return,
        }
        let bytes = superblock.to_bytes();
        self.arena.bytes[memory][..bytes.len()].copy_from_slice(&bytes);
    }

    /// What a leg said before it is written to.
    fn superblock_before(&self, op: &LegOp) -> Superblock {
        let store = &self.legs[op.leg.index()].store;
        let old = store.raw_bytes(SUPERBLOCK_AT, SUPERBLOCK_BYTES);
        // One that says it first has nothing else to say.
        Superblock::parse(&old).unwrap_or_default()
    }

    /// Whether a superblock says that a leg was replaced.
    fn tells_of_handover(&mut self, superblock: &Superblock) -> bool {
        let replacing = self.engine.replacing();
        let lives = self.lives.as_mut().expect("the array has metadata");
        if let Some((leg, _)) = replacing {
            let made = self.legs[leg.index()].made.as_ref();
            let number = made.expect("the array has metadata").dev_number;
            if superblock.role_of(number) == Some(Role::Faulty) {
                lives.replaced.insert(number);
            }
        }
        let mut replaced = lives.replaced.iter();
        replaced.any(|number| superblock.role_of(*number) == Some(Role::Faulty))
    }

    /// The same of the bitmap.
    fn spoil_bits(&mut self, op: &LegOp, memory: Range<usize>) {
        let at = op.extent.offset();
        if at >= self.bitmap_end() {
            return;
        }
        let head = if at == BITMAP_AT {
            BITMAP_SUPER_BYTES
        } else {
            0
        };
        let bits = memory.start + head..memory.end;
        if self.has(Planted::DataBeforeBits) {
            self.arena.bytes[bits].fill(0);
        } else if self.has(Planted::ClearedEarly) {
            let store = &self.legs[op.leg.index()].store;
            let old = store.raw_bytes(at, memory.len());
            let new = self.arena.bytes[bits].iter_mut();
            new.zip(&old[head..]).for_each(|(new, old)| *new &= !old);
        } else if self.has(Planted::ClearedUntold) && head > 0 {
            let cleared = memory.start + CLEARED_AT..memory.start + CLEARED_AT + 8;
            self.arena.bytes[cleared].copy_from_slice(&EVENTS.to_le_bytes());
        } else if self.has(Planted::ClearedWhileOut)
            && self.engine.in_sync().count() < self.engine.map().legs()
        {
            self.clear_settled(at, bits);
        }
    }

    /// Clears those of the bits at `at` of each leg whose chunks are equal and durable on all legs
    /// in sync.
    fn clear_settled(&mut self, at: u64, bits: Range<usize>) {
        let first = (at - BITMAP_AT).saturating_sub(BITMAP_SUPER_BYTES as u64) * 8;
        for (byte, chunk) in bits.zip((first..).step_by(8)) {
            for bit in 0..8 {
                let is_set = self.arena.bytes[byte] >> bit & 1 == 1;
                if is_set && self.check_chunk(chunk + bit).is_ok() {
                    self.arena.bytes[byte] &= !(1 << bit);
                }
            }
        }
    }

    /// Legs were read: what the bug makes of what was read.
    pub(crate) fn spoil_candidates(&self, candidates: &mut [Candidate]) {
        let events = candidates.iter().map(|leg| leg.superblock.events);
        let Some(freshest) = events.max() else {
            return;
        };
        if self.has(Planted::StaleTrusted) {
            for leg in candidates {
                leg.superblock.events = freshest;
                all_active(&mut leg.superblock);
            }
        } else if self.has(Planted::StaleRole) {
            let is_behind = |leg: &&mut Candidate| leg.superblock.events + 1 == freshest;
            let Some(behind) = candidates.iter_mut().find(is_behind) else {
                return;
            };
            let roles = behind.superblock.roles.clone();
            for leg in candidates {
                leg.superblock.roles.clone_from(&roles);
            }
        }
    }
}

/// Says that all legs of the array have their roles.
fn all_active(superblock: &mut Superblock) {
    let legs = superblock.raid_disks as usize;
    for (role, entry) in (0..).zip(superblock.roles.iter_mut().take(legs)) {
        *entry = Role::Active(role);
    }
}
