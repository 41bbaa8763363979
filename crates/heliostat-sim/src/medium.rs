//! What faults do to the bytes of a leg: writes that are lost, torn or land elsewhere, sectors that
//! rot, flushes that lie, and what a power cut undoes.
//!
//! The leg remembers which of its sectors hold something else than it was told to hold. A read that
//! returns such bytes is explained; every other wrong read is a bug.

mod cache;

use std::collections::BTreeSet;

use heliostat_engine::LegOp;
use heliostat_types::{Extent, Instant, OpKind, Prng, RandomStream, SECTOR_BYTES};

use crate::contents::SECTOR;
use crate::faults::{Effect, Fault};
use crate::result::Integrity;
use crate::store::Store;
use cache::WriteCache;

/// What becomes of an operation that a leg is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fate {
    /// What should.
    #[default]
    Good,
    /// A write that does not land.
    Lost,
    /// A write of which only some units of so many sectors land; which, follows from the luck.
    Torn { unit_sectors: u64, luck: u64 },
    /// A write that lands so that its first sector is this one.
    Misdirected { first_sector: u64 },
    /// A flush that is answered at once and makes nothing durable.
    Lie,
}

/// What a fault does to the leg's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Harm {
    Lose,
    Tear { unit_sectors: u64 },
    Misdirect,
    Rot,
    Lie,
}

impl Harm {
    /// `None` where an effect leaves the bytes alone.
    const fn of(effect: Effect) -> Option<Self> {
        match effect {
            Effect::LostWrite => Some(Self::Lose),
            Effect::TornWrite(unit_bytes) => Some(Self::Tear {
                unit_sectors: unit_bytes / SECTOR_BYTES,
            }),
            Effect::MisdirectedWrite => Some(Self::Misdirect),
            Effect::BitRot => Some(Self::Rot),
            Effect::FlushLies => Some(Self::Lie),
            Effect::Slow(_)
            | Effect::Pause(_)
            | Effect::Stuck
            | Effect::Error(_)
            | Effect::Dead
            | Effect::PowerCut
            | Effect::Failed
            | Effect::Added { .. }
            | Effect::Replaced
            | Effect::Told(_)
            | Effect::Scrub { .. } => None,
        }
    }

    /// Whether it can happen to `op` as such.
    fn suits(self, op: &LegOp) -> bool {
        let is_write = matches!(op.kind, OpKind::Write | OpKind::WriteZeroes | OpKind::Trim);
        match self {
            Self::Lose | Self::Misdirect => is_write,
            Self::Tear { unit_sectors } => is_write && units(op.extent, unit_sectors) > 1,
            Self::Rot => false,
            Self::Lie => op.kind == OpKind::Flush,
        }
    }
}

/// A fault of the leg's bytes.
#[derive(Clone, Debug)]
struct DataFault {
    harm: Harm,
    at: Instant,
    until: Instant,
    range: Extent,
    rate_per_billion: u64,
    has_rate: bool,
    count_left: u64,
    luck: RandomStream,
}

impl DataFault {
    fn holds(&self, now: Instant) -> bool {
        self.at <= now && now < self.until
    }

    /// Whether it hits an operation on `extent`; counts it if so.
    fn hits(&mut self, now: Instant, extent: Extent) -> bool {
        let is_inside = extent.is_empty() || self.range.overlaps(extent);
        if !self.holds(now) || !is_inside || self.count_left == 0 {
            return false;
        }
        let hits = !self.has_rate || self.luck.below(1_000_000_000) < self.rate_per_billion;
        if hits && self.count_left < u64::MAX {
            self.count_left -= 1;
        }
        hits
    }
}

/// What is wrong, and what may become wrong, with the bytes of a leg.
#[derive(Debug)]
pub(crate) struct Medium {
    faults: Vec<DataFault>,
    /// Sectors that hold something else than they were told to.
    damaged: BTreeSet<u64>,
    /// Sectors where writes did not land, since somebody began to ask.
    missed: BTreeSet<u64>,
    /// What a power cut undoes; `None` where the power never fails.
    cache: Option<WriteCache>,
    leg_bytes: u64,
    counts: Integrity,
}

impl Medium {
    /// The faults of `faults` that are about the bytes of leg number `leg`, which holds `leg_bytes`
    /// on a device of `spec`; `None` where there are none. What they leave to chance follows from
    /// `luck`.
    pub(crate) fn new<'a>(
        faults: impl Iterator<Item = &'a Fault> + Clone,
        (leg, leg_bytes): (usize, u64),
        begins_at: Instant,
        spec: &heliostat_model::DeviceSpec,
        luck: u64,
    ) -> Option<Self> {
        let is_cut = |fault: &&Fault| fault.effect == Some(Effect::PowerCut);
        let cache = faults
            .clone()
            .any(|fault| is_cut(&fault))
            .then(|| WriteCache::new(spec, RandomStream::new(luck, "power", 0)));
        // What one leg has damaged, the engine may copy to the others.
        let is_harm = |fault: &Fault| fault.effect.and_then(Harm::of).is_some();
        let is_harmed = faults.clone().any(is_harm);
        let mine = faults.filter(|fault| fault.leg == Some(leg));
        let mut data_faults = Vec::new();
        for (index, fault) in (0..).zip(mine) {
            let Some(harm) = fault.effect.and_then(Harm::of) else {
                continue;
            };
            let (at, until) = fault.period(begins_at);
            let is_one_rot = harm == Harm::Rot && fault.rate_per_billion.is_none();
            data_faults.push(DataFault {
                harm,
                at,
                until,
                range: fault.range(leg_bytes),
                rate_per_billion: fault.rate(),
                has_rate: fault.rate_per_billion.is_some(),
                count_left: fault.count.unwrap_or(if is_one_rot { 1 } else { u64::MAX }),
                luck: RandomStream::new(luck, "data", index),
            });
        }
        (cache.is_some() || is_harmed).then(|| Self {
            faults: data_faults,
            damaged: BTreeSet::new(),
            missed: BTreeSet::new(),
            cache,
            leg_bytes,
            counts: Integrity::default(),
        })
    }

    pub(crate) fn is_damaged(&self, sector: u64) -> bool {
        self.damaged.contains(&sector)
    }

    /// From now on somebody asks where writes do not land.
    pub(crate) fn forget_missed(&mut self) {
        self.missed.clear();
    }

    /// Whether a write to this sector has not landed since then.
    pub(crate) fn has_missed(&self, sector: u64) -> bool {
        self.missed.contains(&sector)
    }

    /// The damaged sectors from this one on.
    pub(crate) fn damaged(&self, from: u64) -> impl Iterator<Item = u64> + '_ {
        self.damaged.range(from..).copied()
    }

    /// Whether any sector before this one is damaged.
    pub(crate) fn is_damaged_below(&self, sector: u64) -> bool {
        self.damaged.first().is_some_and(|first| *first < sector)
    }

    /// What a sector may hold after a power cut, of what has landed on it; nothing where that is
    /// known.
    pub(crate) fn possible(&self, sector: u64) -> impl Iterator<Item = &[u8]> {
        let cache = self.cache.iter();
        cache.flat_map(move |cache| cache.possible(sector))
    }

    /// The sectors from this one on that may hold something else after a power cut.
    pub(crate) fn unflushed(&self, from: u64) -> impl Iterator<Item = u64> + '_ {
        let cache = self.cache.iter();
        cache.flat_map(move |cache| cache.unflushed(from))
    }

    /// What was done to the leg so far; its damage matters only while it `is_in_sync`.
    pub(crate) fn integrity(&self, is_in_sync: bool) -> Integrity {
        let mut counts = self.counts;
        if is_in_sync {
            counts.damaged_sectors = self.damaged.len() as u64;
        }
        counts
    }

    /// What becomes of an operation that begins now.
    pub(crate) fn decide(&mut self, now: Instant, op: &LegOp, store: &mut Store) -> Fate {
        self.rot(now, op, store);
        let mut fate = Fate::Good;
        for fault in &mut self.faults {
            let is_free = fate == Fate::Good && fault.harm.suits(op);
            if !is_free || !fault.hits(now, op.extent) {
                continue;
            }
            fate = match fault.harm {
                Harm::Lose | Harm::Rot => Fate::Lost,
                Harm::Lie => Fate::Lie,
                Harm::Tear { unit_sectors } => Fate::Torn {
                    unit_sectors,
                    luck: fault.luck.next_u64(),
                },
                Harm::Misdirect => elsewhere(op.extent, self.leg_bytes, &mut fault.luck),
            };
        }
        self.count(fate);
        if op.kind == OpKind::Flush
            && let Some(cache) = &mut self.cache
        {
            cache.begin_flush(op.id);
        }
        fate
    }

    const fn count(&mut self, fate: Fate) {
        let counts = &mut self.counts;
        match fate {
            Fate::Good => {}
            Fate::Lost => counts.lost_writes += 1,
            Fate::Torn { .. } => counts.torn_writes += 1,
            Fate::Misdirected { .. } => counts.misdirected_writes += 1,
            Fate::Lie => counts.lied_flushes += 1,
        }
    }

    /// Lets rot what rots now: by itself, or because a read looks at it.
    fn rot(&mut self, now: Instant, op: &LegOp, store: &mut Store) {
        let mut rotten = Vec::new();
        for fault in self
            .faults
            .iter_mut()
            .filter(|fault| fault.harm == Harm::Rot)
        {
            let mut rot = |within: Extent, luck: &mut RandomStream| {
                let sectors = within.len() / SECTOR_BYTES;
                let sector = within.offset() / SECTOR_BYTES + luck.below(sectors);
                rotten.push((sector, luck.next_u64()));
            };
            if !fault.has_rate {
                while fault.at <= now && fault.count_left > 0 {
                    fault.count_left -= 1;
                    rot(fault.range, &mut fault.luck);
                }
            } else if op.kind == OpKind::Read && fault.hits(now, op.extent) {
                let within = op.extent.intersection(fault.range);
                rot(within.expect("what it hits lies in both"), &mut fault.luck);
            }
        }
        for (sector, luck) in rotten {
            self.counts.rotten_sectors += 1;
            self.spoil(sector, luck, store);
        }
    }

    /// Changes one bit of a sector for good.
    fn spoil(&mut self, sector: u64, luck: u64, store: &mut Store) {
        let mut bytes = store.sector(sector);
        let kept_bits = store.kept_bytes(sector) as u64 * 8;
        let bit = usize::try_from(luck % kept_bits).expect("a sector is small");
        bytes[bit / 8] ^= 1 << (bit % 8);
        store.set_sector(sector, &bytes);
        self.damaged.insert(sector);
        if let Some(cache) = &mut self.cache {
            cache.forget(sector);
        }
    }

    /// A sector of a write lands, or what is its fate.
    pub(crate) fn write(
        &mut self,
        op: &LegOp,
        fate: Fate,
        sector: u64,
        (bytes, is_tainted): (&[u8], bool),
        store: &mut Store,
    ) {
        match fate {
            Fate::Good | Fate::Lie => self.land(op, sector, bytes, is_tainted, store),
            Fate::Lost => self.miss(op, sector, store),
            Fate::Torn { unit_sectors, luck } => {
                if lands(op.extent, unit_sectors, luck, sector) {
                    self.land(op, sector, bytes, is_tainted, store);
                } else {
                    self.miss(op, sector, store);
                }
            }
            Fate::Misdirected { first_sector } => {
                self.miss(op, sector, store);
                let sector = first_sector + (sector - op.extent.offset() / SECTOR_BYTES);
                self.land(op, sector, bytes, true, store);
            }
        }
    }

    /// A sector of a write does not land. Its old bytes are there once more, damaged from this
    /// write on: a power cut that undoes the write undoes the damage as well, and no other does.
    fn miss(&mut self, op: &LegOp, sector: u64, store: &mut Store) {
        self.missed.insert(sector);
        let bytes = store.sector(sector);
        self.land(op, sector, &bytes, true, store);
    }

    fn land(&mut self, op: &LegOp, sector: u64, bytes: &[u8], is_tainted: bool, store: &mut Store) {
        // Where it lands, less may be kept than where it should have.
        let bytes = &bytes[..store.kept_bytes(sector)];
        if let Some(cache) = &mut self.cache {
            let is_damaged = self.damaged.contains(&sector);
            cache.write(
                op.id,
                sector,
                (&store.sector(sector), is_damaged),
                (bytes, is_tainted),
            );
        }
        store.set_sector(sector, bytes);
        if is_tainted {
            self.damaged.insert(sector);
        } else {
            self.damaged.remove(&sector);
        }
    }

    /// A bug on purpose: no flush covers what has been written from this sector on.
    pub(crate) fn keep_unflushed(&mut self, from: u64) {
        if let Some(cache) = &mut self.cache {
            cache.keep_unflushed(from);
        }
    }

    /// An operation has ended, well or not: what it has written is in the cache now, or durable.
    pub(crate) fn end(&mut self, op: &LegOp, fate: Fate, ok: bool) {
        let Some(cache) = &mut self.cache else {
            return;
        };
        match op.kind {
            OpKind::Flush => cache.end_flush(op.id, ok, fate == Fate::Lie),
            OpKind::Write | OpKind::WriteZeroes | OpKind::Trim => {
                cache.end_write(op.id, op.extent, ok && op.fua);
                if let Fate::Misdirected { first_sector } = fate {
                    let to = Extent::new(first_sector * SECTOR_BYTES, op.extent.len());
                    cache.end_write(op.id, to, ok && op.fua);
                }
            }
            OpKind::Read | OpKind::BlockStatus => {}
        }
    }

    /// The power fails at `now`: of what is not durable, some is there afterwards.
    pub(crate) fn cut_power(&mut self, now: Instant, store: &mut Store) {
        let holding = self.faults.iter().filter(|fault| fault.holds(now));
        let torn_sectors = holding
            .filter_map(|fault| match fault.harm {
                Harm::Tear { unit_sectors } => Some(unit_sectors),
                Harm::Lose | Harm::Misdirect | Harm::Rot | Harm::Lie => None,
            })
            .min();
        let Some(cache) = &mut self.cache else {
            return;
        };
        for lost in cache.cut_power(torn_sectors) {
            store.set_sector(lost.sector, &lost.bytes);
            if lost.is_damaged {
                self.damaged.insert(lost.sector);
            } else {
                self.damaged.remove(&lost.sector);
            }
            self.counts.sectors_lost_by_lies += u64::from(lost.is_lie);
        }
    }

    /// Which sectors of a write that is in flight land when the power fails, of those that have not
    /// landed yet.
    pub(crate) fn lands_at_cut(&mut self, op: &LegOp) -> impl Fn(u64) -> bool + use<> {
        let cache = self.cache.as_mut();
        let cache = cache.expect("there is a cache where the power fails");
        cache.lands_at_cut(op.extent)
    }

    /// The sector was given other bytes by somebody else, for good.
    pub(crate) fn put(&mut self, sector: u64) {
        self.damaged.remove(&sector);
        if let Some(cache) = &mut self.cache {
            cache.forget(sector);
        }
    }

    /// The sector now holds what the one of another leg holds, for good.
    pub(crate) fn copied(&mut self, sector: u64, is_damaged: bool) {
        if is_damaged {
            self.damaged.insert(sector);
        } else {
            self.damaged.remove(&sector);
        }
    }
}

/// Somewhere else on the leg for as many bytes, at a block of 4 KiB where that is possible; nowhere
/// where the leg has no such place.
fn elsewhere(extent: Extent, leg_bytes: u64, luck: &mut RandomStream) -> Fate {
    const BLOCK_BYTES: u64 = 4096;
    let places = (leg_bytes - extent.len()) / BLOCK_BYTES + 1;
    for _ in 0..8 {
        let to = Extent::new(luck.below(places) * BLOCK_BYTES, extent.len());
        if !to.overlaps(extent) {
            return Fate::Misdirected {
                first_sector: to.offset() / SECTOR_BYTES,
            };
        }
    }
    Fate::Lost
}

/// How many units of `unit_sectors` an extent touches.
fn units(extent: Extent, unit_sectors: u64) -> u64 {
    let unit_bytes = unit_sectors * SECTOR_BYTES;
    extent.end().div_ceil(unit_bytes) - extent.offset() / unit_bytes
}

/// Whether a sector of a torn write lands: of its units one does, another does not, and the others
/// as luck has it.
fn lands(extent: Extent, unit_sectors: u64, luck: u64, sector: u64) -> bool {
    let count = units(extent, unit_sectors);
    let first = extent.offset() / SECTOR_BYTES / unit_sectors;
    let unit = sector / unit_sectors - first;
    let good = luck % count;
    let bad = (good + 1 + (luck >> 32) % (count - 1)) % count;
    if unit == good || unit == bad {
        return unit == good;
    }
    RandomStream::new(luck, "torn", unit).below(2) == 0
}

/// Whether a sector is as large as it must be; what is kept of it is less, perhaps.
const _: () = assert!(SECTOR as u64 == SECTOR_BYTES);

#[cfg(test)]
mod tests;
