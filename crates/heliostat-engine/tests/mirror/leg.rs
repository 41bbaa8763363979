//! A leg as bytes, with a volatile cache, and a memory of what it did wrong.
//!
//! It never decides when something happens: the world does.

use std::collections::BTreeSet;

use heliostat_engine::{LegConfig, LegFlags, LegState};
use heliostat_types::{ErrorKind, Extent, Instant, OpKind, Prng, RandomStream, SECTOR_BYTES};

use crate::checker::Tick;
use crate::fill::{Fill, index};

/// Sectors are torn apart by power cuts and failed writes, but not themselves.
pub(crate) const SECTOR: usize = 512;

/// How an operation went wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure {
    pub(crate) kind: OpKind,
    pub(crate) extent: Extent,
    pub(crate) tick: Tick,
    pub(crate) error: ErrorKind,
    /// Whether bytes depended on the leg alone then, or since. Another one may be in sync before
    /// anybody hears of what failed.
    pub(crate) was_last: bool,
    /// Of a flush, whether there was anything that it could lose.
    pub(crate) may_lose: bool,
    /// The write with FUA that it may have been of, until that was written again.
    pub(crate) of_fua: Option<Extent>,
}

#[derive(Debug)]
pub(crate) struct Leg {
    pub(crate) config: LegConfig,
    /// What a read returns: the array's bytes, and behind them what lies in front of them on the
    /// leg.
    pub(crate) data: Vec<u8>,
    /// What is left after a power cut, at least.
    pub(crate) durable: Vec<u8>,
    /// By sector, how old its durable bytes are: two flushes may end in either order.
    durable_tick: Vec<Tick>,
    /// By sector, when the last write was sent that ended well.
    written_tick: Vec<Tick>,
    /// Sectors that cannot be read until they are written.
    pub(crate) bad: BTreeSet<usize>,
    /// What it was said not to hold until then, in its own addresses.
    pub(crate) healed: Vec<(Extent, Tick)>,
    /// Sectors that no write gets to until the device finds others for them.
    pub(crate) stuck: BTreeSet<usize>,
    /// Writes with FUA of which the flush has failed: without it they go well.
    pub(crate) unflushable: Vec<Extent>,
    /// Sectors that a failed flush gave up: no later flush makes them durable, only a write.
    pub(crate) given_up: BTreeSet<usize>,
    pub(crate) faulted: bool,
    /// It was added, and is written to but not read.
    pub(crate) rebuilding: bool,
    pub(crate) in_sync_since: Tick,
    /// What was written since it was in sync; `None`: nobody knows.
    pub(crate) missed: Option<Vec<Extent>>,
    /// Completes nothing.
    pub(crate) silent: bool,
    /// All it failed so far.
    pub(crate) failures: Vec<Failure>,
    /// It was told to be faulted.
    pub(crate) told: bool,
    /// Since when it has operations and completes none.
    pub(crate) quiet_since: Instant,
}

impl Leg {
    pub(crate) fn new(config: LegConfig, size_bytes: u64, fill: Fill) -> Self {
        let all_bytes = index(size_bytes + config.data_offset_bytes);
        let mut data = vec![0; all_bytes];
        fill.write(0, &mut data[..index(size_bytes)]);
        let sectors = all_bytes / SECTOR;
        Self {
            config,
            durable: data.clone(),
            data,
            durable_tick: vec![0; sectors],
            written_tick: vec![0; sectors],
            bad: BTreeSet::new(),
            healed: Vec::new(),
            stuck: BTreeSet::new(),
            unflushable: Vec::new(),
            given_up: BTreeSet::new(),
            faulted: false,
            rebuilding: false,
            in_sync_since: 0,
            missed: None,
            silent: false,
            failures: Vec::new(),
            told: false,
            quiet_since: Instant::ZERO,
        }
    }

    /// Something else is said of it.
    pub(crate) fn heed(&mut self, flags: LegFlags) {
        self.config.write_mostly = flags.write_mostly;
        self.config.failfast = flags.failfast;
    }

    /// It is another device with other bytes on it, or the same one as the world left it. What it
    /// did wrong is over.
    pub(crate) fn come_back(&mut self, config: LegConfig, rubbish: Option<u8>) {
        self.config = config;
        if let Some(rubbish) = rubbish {
            self.data.fill(rubbish);
            self.durable.fill(rubbish);
            self.bad.clear();
            self.stuck.clear();
        }
        self.unflushable.clear();
        self.given_up.clear();
        self.failures.clear();
        self.silent = false;
        self.told = false;
    }

    /// It is read.
    pub(crate) fn is_in_sync(&self) -> bool {
        self.config.state == LegState::InSync && !self.faulted && !self.rebuilding
    }

    /// It is written to.
    pub(crate) fn is_present(&self) -> bool {
        self.is_in_sync() || self.rebuilding
    }

    pub(crate) fn bytes(&self, extent: Extent) -> &[u8] {
        &self.data[index(extent.offset())..index(extent.end())]
    }

    pub(crate) fn durable_bytes(&self, extent: Extent) -> &[u8] {
        &self.durable[index(extent.offset())..index(extent.end())]
    }

    fn sectors(extent: Extent) -> std::ops::Range<usize> {
        index(extent.offset()) / SECTOR..index(extent.end()) / SECTOR
    }

    /// Puts one sector of a write there.
    pub(crate) fn store_sector(&mut self, sector: usize, bytes: &[u8]) {
        let at = sector * SECTOR;
        self.data[at..at + SECTOR].copy_from_slice(bytes);
        self.bad.remove(&sector);
        self.given_up.remove(&sector);
    }

    /// Puts a whole write there that was sent at `sent` and now ends well.
    pub(crate) fn store(&mut self, extent: Extent, bytes: &[u8], sent: Tick) {
        self.data[index(extent.offset())..index(extent.end())].copy_from_slice(bytes);
        for sector in Self::sectors(extent) {
            self.bad.remove(&sector);
            self.given_up.remove(&sector);
            self.written_tick[sector] = self.written_tick[sector].max(sent);
        }
    }

    /// Whether every byte was written since `tick`, and well.
    pub(crate) fn written_since(&self, extent: Extent, tick: Tick) -> bool {
        let mut sectors = Self::sectors(extent.aligned_out(SECTOR_BYTES));
        sectors.all(|sector| self.written_tick[sector] >= tick)
    }

    /// What is there becomes durable.
    pub(crate) fn harden(&mut self, extent: Extent, tick: Tick) {
        let range = index(extent.offset())..index(extent.end());
        self.durable[range.clone()].copy_from_slice(&self.data[range]);
        self.durable_tick[Self::sectors(extent)].fill(tick);
    }

    /// Any sector may be written back at any time.
    pub(crate) fn harden_some(&mut self, tick: Tick, prng: &mut RandomStream) {
        for sector in self.unflushed() {
            if prng.below(4) == 0 {
                self.harden(
                    Extent::new(sector as u64 * SECTOR_BYTES, SECTOR_BYTES),
                    tick,
                );
            }
        }
    }

    pub(crate) fn unflushed(&self) -> Vec<usize> {
        let pairs = self.data.chunks(SECTOR).zip(self.durable.chunks(SECTOR));
        pairs
            .enumerate()
            .filter(|(sector, (data, durable))| data != durable && !self.given_up.contains(sector))
            .map(|(sector, _)| sector)
            .collect()
    }

    /// A flush fails: of what was not durable some is so now, and some will never be, though it is
    /// read as if nothing had happened. This is what Linux does with a file's dirty pages.
    pub(crate) fn fail_flush(&mut self, tick: Tick, prng: &mut RandomStream) {
        self.harden_some(tick, prng);
        for sector in self.unflushed() {
            if prng.below(2) == 0 {
                self.given_up.insert(sector);
            }
        }
    }

    /// A flush ends well that was sent at `sent`, when `image` was there. Of a write that had not
    /// ended then it takes what there was.
    pub(crate) fn flush(&mut self, image: &[u8], sent: Tick) {
        for (sector, bytes) in image.chunks(SECTOR).enumerate() {
            if self.durable_tick[sector] <= sent && !self.given_up.contains(&sector) {
                self.durable[sector * SECTOR..][..SECTOR].copy_from_slice(bytes);
                self.durable_tick[sector] = sent;
            }
        }
    }

    /// The power fails: of what was not flushed, some sectors are kept.
    pub(crate) fn cut_power(&mut self, prng: &mut RandomStream) {
        let kept_of_eight = prng.below(9);
        for sector in self.unflushed() {
            if prng.below(8) < kept_of_eight {
                let range = sector * SECTOR..(sector + 1) * SECTOR;
                self.durable[range.clone()].copy_from_slice(&self.data[range]);
            }
        }
        self.data.copy_from_slice(&self.durable);
    }

    /// It is there again after a power cut.
    pub(crate) fn wake(&mut self) {
        self.data.copy_from_slice(&self.durable);
        self.durable_tick.fill(0);
        self.written_tick.fill(0);
        self.given_up.clear();
        self.failures.clear();
        self.silent = false;
        self.told = false;
        self.quiet_since = Instant::ZERO;
    }

    pub(crate) fn has_bad(&self, extent: Extent) -> bool {
        self.bad.range(Self::sectors(extent)).next().is_some()
    }

    /// Whether it cannot write all of this.
    pub(crate) fn is_stuck(&self, extent: Extent) -> bool {
        self.stuck.range(Self::sectors(extent)).next().is_some()
    }

    /// Whether it failed an operation of such a kind here, since `tick`.
    pub(crate) fn failed(
        &self,
        extent: Extent,
        tick: Tick,
        kinds: impl Fn(OpKind) -> bool,
    ) -> bool {
        self.failures.iter().any(|failure| {
            failure.tick >= tick
                && kinds(failure.kind)
                && (failure.kind == OpKind::Flush || failure.extent.overlaps(extent))
        })
    }
}
