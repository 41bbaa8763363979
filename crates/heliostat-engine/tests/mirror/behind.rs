//! Writes that are answered before write-mostly legs have them: which legs may be behind, with how
//! much, and until when, as it is seen from outside.

use heliostat_format::{DeviceFlags, Superblock};
use heliostat_types::{Extent, LegId, OpKind};

use crate::checker::Tick;
use crate::fill::index;
use crate::world::{Asked, Pending, Wanted, World};

/// What writes behind may keep of the memory: one of so many parts.
const MEMORY_PARTS: u64 = 8;

/// A leg that did not have a write when that was answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Behind {
    pub(crate) leg: LegId,
    /// Which write,
    pub(crate) write: usize,
    /// asked for when.
    start: Tick,
    /// Of which bytes,
    asked: Extent,
    /// and in whole blocks.
    pub(crate) extent: Extent,
    /// Whether the leg was in sync. One that is being rebuilt may have been added since.
    counts: bool,
}

impl World {
    /// Whether a leg may ever be behind.
    pub(crate) fn may_be_behind(&self, leg: LegId) -> bool {
        let is_write_mostly = self.legs[leg.index()].config.write_mostly;
        self.setup.write_behind > 0 && self.map.is_mirror() && is_write_mostly
    }

    /// Whether a leg says itself that it may be behind, as a start goes by.
    pub(crate) fn says_behind(&self, leg: LegId) -> bool {
        let says = |own: Superblock| own.device_flags.contains(DeviceFlags::WRITE_MOSTLY);
        let is_allowed = self.setup.write_behind > 0 && self.map.is_mirror();
        is_allowed && self.superblock_on(leg).is_some_and(says)
    }

    /// A leg has ended an operation well: which of the clients' writes it was for. One that was
    /// asked for since has a byte or two in common with it at most.
    pub(crate) fn note_stored(&mut self, pending: &Pending) {
        let op = &pending.op;
        if self.setup.write_behind == 0 || op.kind != OpKind::Write || self.is_metadata(op) {
            return;
        }
        let asked = self.asked.values().filter_map(|asked| match asked.wanted {
            Wanted::Write { extent, write, .. } => Some((extent, write, asked.start)),
            Wanted::Read(_)
            | Wanted::Flush
            | Wanted::Trim { .. }
            | Wanted::Zeroes { .. }
            | Wanted::Status(_)
            | Wanted::Nonsense => None,
        });
        let behind = self.behind.iter();
        let writes = asked.chain(behind.map(|behind| (behind.asked, behind.write, behind.start)));
        let writes = writes.filter(|&(extent, write, start)| {
            let inside = op.extent.contains(extent);
            inside && start <= pending.sent && {
                let from = index(extent.offset() - op.extent.offset());
                let bytes = &pending.snapshot[from..from + index(extent.len())];
                self.checker.is_of(write, extent.offset(), bytes)
            }
        });
        let stored: Vec<(LegId, usize)> = writes.map(|(_, write, _)| (op.leg, write)).collect();
        self.stored.extend(stored);
    }

    fn has(&self, leg: LegId, write: usize) -> bool {
        self.stored.contains(&(leg, write))
    }

    /// Whether a leg does not have a write that is answered now, and need not.
    pub(crate) fn is_behind(&self, leg: LegId, asked: &Asked) -> bool {
        let Wanted::Write {
            write, fua: false, ..
        } = asked.wanted
        else {
            return false;
        };
        let has = |leg| self.has(leg, write);
        let others = self.good();
        let mut others = others.iter().filter(|other| !self.may_be_behind(*other));
        let is_written = self.legs[leg.index()].is_present();
        self.may_be_behind(leg) && is_written && !has(leg) && others.any(has)
    }

    /// Whether a leg in sync is behind.
    pub(crate) fn lags(&self, leg: LegId) -> bool {
        let mut behind = self.behind.iter();
        let lags = |write: &Behind| write.leg == leg && write.counts && !self.has(leg, write.write);
        behind.any(lags)
    }

    /// Remembers who is behind with a write that is answered now.
    pub(crate) fn note_behind(&mut self, asked: &Asked) {
        let Wanted::Write { extent, write, .. } = asked.wanted else {
            return;
        };
        let legs = (0..self.legs.len()).map(LegId::new);
        let behind = legs.filter(|leg| self.is_behind(*leg, asked));
        let behind: Vec<Behind> = behind
            .map(|leg| Behind {
                leg,
                write,
                start: asked.start,
                asked: extent,
                extent: extent.aligned_out(u64::from(self.setup.block_bytes)),
                counts: self.legs[leg.index()].is_in_sync(),
            })
            .collect();
        for leg in behind.iter().map(|behind| behind.leg) {
            let says = |own: Superblock| own.device_flags.contains(DeviceFlags::WRITE_MOSTLY);
            let superblock = self.superblock_on(leg);
            self.check(superblock.is_none_or(says), || {
                format!("{leg} is behind, and does not say that it may be")
            });
        }
        self.behind.extend(behind);
    }

    /// Forgets who is behind no more. What is left is no more than it may be.
    pub(crate) fn judge_behind(&mut self) {
        if self.behind.is_empty() || self.has_lost_behind() {
            return;
        }
        let mut behind = std::mem::take(&mut self.behind);
        behind.retain(|behind| {
            let is_written = self.has(behind.leg, behind.write);
            !is_written && self.legs[behind.leg.index()].is_present()
        });
        self.behind = behind;
        let mut writes: Vec<(usize, Extent)> = self
            .behind
            .iter()
            .filter(|b| b.counts)
            .map(|b| (b.write, b.extent))
            .collect();
        writes.dedup();
        let bytes: u64 = writes.iter().map(|(_, extent)| extent.len()).sum();
        let figures = self.engine.write_behind();
        let memory = self.setup.memory_bytes as u64;
        self.check(
            writes.len() as u64 <= figures.writes
                && figures.writes <= u64::from(self.setup.write_behind),
            || format!("{writes:?} are behind, and told are {figures:?}"),
        );
        self.check(
            bytes <= figures.bytes && figures.bytes <= memory / MEMORY_PARTS,
            || format!("{bytes} bytes are behind, and told are {figures:?}"),
        );
        self.check(writes.is_empty() || !self.engine.is_idle(), || {
            format!("it is idle, and {writes:?} are behind")
        });
    }

    /// Whether legs failed in such an order that a write which was answered is on none of those
    /// left. Nobody can help that, and no rule holds any more.
    pub(crate) fn has_lost_behind(&self) -> bool {
        let good = self.good();
        let lost = |write: &Behind| {
            good.iter().all(|leg| {
                let mut behind = self.behind.iter();
                let is_behind = behind.any(|one| one.leg == leg && one.write == write.write);
                is_behind && self.legs[leg.index()].failed(write.extent, 0, OpKind::is_mutating)
            })
        };
        self.behind.iter().any(lost)
    }

    /// Whether no leg that is left has all that was answered, but this one will.
    pub(crate) fn is_needed_behind(&self, leg: LegId) -> bool {
        let lacks = |leg: LegId, write: usize| {
            let mut behind = self.behind.iter();
            behind.any(|behind| behind.leg == leg && behind.write == write)
        };
        let mut mine = self.behind.iter().filter(|behind| behind.leg == leg);
        mine.any(|behind| self.good().iter().all(|leg| lacks(leg, behind.write)))
    }
}
