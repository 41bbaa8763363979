//! Legs of which nothing is changed: what is written to them is kept in memory, by sector, and is
//! in what is read from then on.
//!
//! An array that is only read still has things to say to its legs: which of them is out, and what
//! clients have read where legs differed. All of that is forgotten with this memory.

use std::collections::BTreeMap;

use heliostat_types::{ErrorKind, Extent, LegId, LegOpId, OpKind, SECTOR_BYTES};

use crate::api::{LegIo, LegOutcome};
use crate::arena::Arena;

const SECTOR: usize = 512;

/// What was written to legs.
#[derive(Debug)]
pub(crate) struct Shadow {
    /// By leg and sector.
    sectors: BTreeMap<(LegId, u64), Box<[u8; SECTOR]>>,
    /// There is room for so many.
    sectors_max: usize,
    /// Reads that are under way.
    reads: BTreeMap<LegOpId, LegIo>,
}

impl Shadow {
    /// With room for so many bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            sectors: BTreeMap::new(),
            sectors_max: bytes_max / SECTOR,
            reads: BTreeMap::new(),
        }
    }

    /// How an operation ends that does not get to the leg; `None` where it has to.
    pub(crate) fn submit(&mut self, arena: &Arena, leg: LegId, io: &LegIo) -> Option<LegOutcome> {
        match io.kind {
            OpKind::Read => {
                self.reads.insert(io.op, io.clone());
                // Where all of it was written since nothing is read, which may be what cannot be.
                let is_whole = self.count(leg, io.extent) == io.extent.len() / SECTOR_BYTES;
                is_whole.then_some(LegOutcome::Done)
            }
            OpKind::Write => Some(self.write(arena, leg, io)),
            OpKind::Flush => Some(LegOutcome::Done),
            OpKind::BlockStatus if !self.has_any(leg, io.extent) => None,
            OpKind::Trim | OpKind::WriteZeroes | OpKind::BlockStatus => {
                Some(LegOutcome::Failed(ErrorKind::NotSupported))
            }
        }
    }

    /// An operation of the leg has ended: what was read is what was written.
    pub(crate) fn ended(&mut self, arena: &Arena, leg: LegId, op: LegOpId, outcome: &LegOutcome) {
        let Some(io) = self.reads.remove(&op) else {
            return;
        };
        if *outcome != LegOutcome::Done || !self.has_any(leg, io.extent) {
            return;
        }
        let memory = io.memory.expect("a read has memory");
        for ((_, sector), bytes) in self.sectors.range(sectors_of(leg, io.extent)) {
            let mut rest = &bytes[..];
            for row in memory.rows(place_in(io.extent, *sector), SECTOR) {
                let (part, others) = rest.split_at(row.len_bytes);
                arena.slice_mut(row).copy_from_slice(part);
                rest = others;
            }
        }
    }

    fn write(&mut self, arena: &Arena, leg: LegId, io: &LegIo) -> LegOutcome {
        let Some(memory) = &io.memory else {
            return LegOutcome::Failed(ErrorKind::InvalidInput);
        };
        let new = io.extent.len() / SECTOR_BYTES - self.count(leg, io.extent);
        if self.sectors.len() as u64 + new > self.sectors_max as u64 {
            return LegOutcome::Failed(ErrorKind::NoSpace);
        }
        for sector in io.extent.offset() / SECTOR_BYTES..io.extent.end() / SECTOR_BYTES {
            let rows = memory.rows(place_in(io.extent, sector), SECTOR);
            let bytes: Vec<u8> = rows.flat_map(|row| arena.slice(row)).copied().collect();
            let bytes = bytes
                .try_into()
                .expect("rows are as long as what they are of");
            self.sectors.insert((leg, sector), bytes);
        }
        LegOutcome::Done
    }

    fn count(&self, leg: LegId, extent: Extent) -> u64 {
        self.sectors.range(sectors_of(leg, extent)).count() as u64
    }

    fn has_any(&self, leg: LegId, extent: Extent) -> bool {
        self.sectors.range(sectors_of(leg, extent)).next().is_some()
    }
}

/// The sectors of an extent of a leg.
const fn sectors_of(leg: LegId, extent: Extent) -> std::ops::Range<(LegId, u64)> {
    (leg, extent.offset() / SECTOR_BYTES)..(leg, extent.end().div_ceil(SECTOR_BYTES))
}

/// Where a sector begins in the memory of an operation.
fn place_in(extent: Extent, sector: u64) -> usize {
    let at = sector * SECTOR_BYTES - extent.offset();
    usize::try_from(at).expect("operations fit memory")
}
