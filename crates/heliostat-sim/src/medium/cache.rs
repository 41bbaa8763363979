//! The volatile write cache of a device, for power cuts: which older bytes each sector may have
//! again when what was not flushed is lost.
//!
//! A sector has its durable bytes and, in order, what was written since. A device without a cache
//! makes a write durable when it ends; until then it may be there or not, as in a cache.

use std::collections::BTreeMap;

use heliostat_model::DeviceSpec;
use heliostat_types::{Extent, LegOpId, Prng, RandomStream, SECTOR_BYTES};

/// How many unflushed versions of a sector are kept; when there are more, the device has written
/// the older ones back.
const VERSIONS_MAX: usize = 4;

/// Versions of sectors that are not durable.
#[derive(Debug)]
pub(super) struct WriteCache {
    /// Whether writes stay in the cache when they have ended.
    is_volatile: bool,
    /// The unit that is never torn, in sectors.
    block_sectors: u64,
    luck: RandomStream,
    /// Rises with everything that happens.
    tick: u64,
    /// The durable version first.
    sectors: BTreeMap<u64, Vec<Version>>,
    /// When flushes in flight began.
    flushes: BTreeMap<LegOpId, u64>,
}

#[derive(Clone, Debug)]
struct Version {
    bytes: Box<[u8]>,
    is_damaged: bool,
    /// By which write; the durable one by none in flight.
    op: Option<LegOpId>,
    moved: u64,
    /// When its write ended; a flush that begins later covers it.
    ended: Option<u64>,
    /// A flush that lied has covered it.
    is_claimed: bool,
}

/// A sector as it is after a power cut.
#[derive(Debug)]
pub(super) struct AfterCut {
    pub(super) sector: u64,
    pub(super) bytes: Box<[u8]>,
    pub(super) is_damaged: bool,
    /// It would be another, had a flush not lied.
    pub(super) is_lie: bool,
}

impl WriteCache {
    pub(super) fn new(spec: &DeviceSpec, luck: RandomStream) -> Self {
        Self {
            is_volatile: spec.volatile_cache,
            block_sectors: (u64::from(spec.physical_block_bytes) / SECTOR_BYTES).max(1),
            luck,
            tick: 0,
            sectors: BTreeMap::new(),
            flushes: BTreeMap::new(),
        }
    }

    /// A sector of a write lands: the bytes that were there and whether they were damaged, and the
    /// same of those that come.
    pub(super) fn write(
        &mut self,
        op: LegOpId,
        sector: u64,
        (old, was_damaged): (&[u8], bool),
        (new, is_damaged): (&[u8], bool),
    ) {
        self.tick += 1;
        let version = |bytes: &[u8], is_damaged, op| Version {
            bytes: bytes.into(),
            is_damaged,
            op,
            moved: self.tick,
            ended: None,
            is_claimed: false,
        };
        let versions = self.sectors.entry(sector).or_insert_with(|| {
            let durable = Version {
                moved: 0,
                ended: Some(0),
                ..version(old, was_damaged, None)
            };
            vec![durable]
        });
        versions.push(version(new, is_damaged, Some(op)));
        if versions.len() > VERSIONS_MAX + 1 {
            versions.remove(0);
        }
    }

    /// A sector has become what it is now, whatever is in the cache.
    pub(super) fn forget(&mut self, sector: u64) {
        self.sectors.remove(&sector);
    }

    pub(super) fn end_write(&mut self, op: LegOpId, extent: Extent, is_durable: bool) {
        self.tick += 1;
        let is_durable = is_durable || !self.is_volatile;
        let range = extent.offset() / SECTOR_BYTES..extent.end() / SECTOR_BYTES;
        let mut durable = Vec::new();
        for (sector, versions) in self.sectors.range_mut(range) {
            let Some(at) = versions.iter().rposition(|version| version.op == Some(op)) else {
                continue;
            };
            versions[at].ended = Some(self.tick);
            if is_durable {
                versions.drain(..at);
            }
            if versions.len() == 1 {
                durable.push(*sector);
            }
        }
        for sector in durable {
            self.sectors.remove(&sector);
        }
    }

    pub(super) fn begin_flush(&mut self, op: LegOpId) {
        self.tick += 1;
        self.flushes.insert(op, self.tick);
    }

    /// A flush has ended: what had ended when it began is durable, or is said to be.
    pub(super) fn end_flush(&mut self, op: LegOpId, ok: bool, is_lie: bool) {
        let began = self.flushes.remove(&op).expect("each flush begins");
        if !ok {
            return;
        }
        self.sectors.retain(|_, versions| {
            let is_covered = |version: &Version| version.ended.is_some_and(|at| at <= began);
            let at = versions.iter().rposition(is_covered);
            if is_lie {
                let covered = at.map_or(0, |at| at + 1);
                for version in &mut versions[..covered] {
                    version.is_claimed = true;
                }
                return true;
            }
            if let Some(at) = at {
                versions.drain(..at);
            }
            versions.len() > 1
        });
    }

    /// What a sector may hold after a power cut, of what has landed on it and is not damaged;
    /// nothing where that is known. A flush that lied counts as one that did not.
    pub(super) fn possible(&self, sector: u64) -> impl Iterator<Item = &[u8]> {
        let versions = self.sectors.get(&sector).map_or(&[][..], Vec::as_slice);
        let claimed = versions.iter().rposition(|version| version.is_claimed);
        let possible = versions[claimed.unwrap_or(0)..].iter();
        let possible = possible.filter(|version| !version.is_damaged);
        possible.map(|version| &*version.bytes)
    }

    /// The sectors from this one on that may hold something else after a power cut.
    pub(super) fn unflushed(&self, from: u64) -> impl Iterator<Item = u64> + '_ {
        let sectors = self.sectors.range(from..).map(|(sector, _)| *sector);
        sectors.filter(|sector| {
            let mut possible = self.possible(*sector);
            let first = possible.next();
            possible.any(|other| Some(other) != first)
        })
    }

    /// What was written from this sector on counts as if it had not ended.
    pub(super) fn keep_unflushed(&mut self, from: u64) {
        for versions in self.sectors.range_mut(from..).map(|(_, versions)| versions) {
            for version in versions.iter_mut().skip(1) {
                version.ended = None;
            }
        }
    }

    /// The power fails: of each block some version stays. `torn_sectors`: in units of so many
    /// sectors instead.
    pub(super) fn cut_power(&mut self, torn_sectors: Option<u64>) -> Vec<AfterCut> {
        let unit_sectors = torn_sectors.unwrap_or(self.block_sectors);
        let mut units: BTreeMap<u64, Vec<(u64, Vec<Version>)>> = BTreeMap::new();
        for (sector, versions) in std::mem::take(&mut self.sectors) {
            let unit = units.entry(sector / unit_sectors).or_default();
            unit.push((sector, versions));
        }
        self.flushes.clear();
        // Some devices lose nearly all, some nearly nothing.
        let newest_of_eight = self.luck.below(9);
        let mut after = Vec::new();
        for sectors in units.into_values() {
            let mut moments: Vec<u64> = sectors
                .iter()
                .flat_map(|(_, versions)| versions.iter().map(|version| version.moved))
                .collect();
            moments.sort_unstable();
            moments.dedup();
            let last = moments.len() as u64 - 1;
            let kept = if self.luck.below(8) < newest_of_eight {
                last
            } else {
                self.luck.below(last + 1)
            };
            let kept = moments[usize::try_from(kept).expect("below a length")];
            for (sector, mut versions) in sectors {
                let at = versions.iter().rposition(|version| version.moved <= kept);
                // A durable version may be younger than what its neighbours were left with.
                let at = at.unwrap_or(0);
                let is_lie = versions[at + 1..].iter().any(|version| version.is_claimed);
                let version = versions.swap_remove(at);
                after.push(AfterCut {
                    sector,
                    bytes: version.bytes,
                    is_damaged: version.is_damaged || is_lie,
                    is_lie,
                });
            }
        }
        after
    }

    /// Which sectors of a write in flight, of those that have not landed, do so when the power
    /// fails: all, none, or each block as luck has it.
    pub(super) fn lands_at_cut(&mut self, extent: Extent) -> impl Fn(u64) -> bool + use<> {
        let [how, luck] = [self.luck.below(4), self.luck.next_u64()];
        let block_sectors = self.block_sectors;
        debug_assert!(!extent.is_empty(), "a write has bytes");
        move |sector| match how {
            0 => false,
            1 => true,
            _ => RandomStream::new(luck, "cut", sector / block_sectors).below(2) == 0,
        }
    }
}
