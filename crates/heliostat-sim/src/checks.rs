//! What must hold when a run is over.

use heliostat_types::{Extent, Instant, LegId, LegSet, SECTOR_BYTES};

use crate::result::LegResult;
use crate::simulation::{Simulation, UNANSWERED};

/// What hedges and probes may cost, of the reads that clients need,
const EXTRA_READS_PERCENT: u64 = 3;

/// and what they may cost however short the run: one on each leg.
const EXTRA_READS_ALWAYS: u64 = 16;

/// What may have been saved of that before the figures begin.
const EXTRA_READS_SAVED: u64 = 32;

impl Simulation {
    /// Notes the first thing that does not hold.
    pub(crate) fn check_end(&mut self) {
        if self.lives.as_ref().is_some_and(|lives| lives.is_over) {
            return;
        }
        let checks = [
            Self::check_everything_ended,
            Self::check_memory_is_back,
            Self::check_littles_law,
            Self::check_extra_reads,
            Self::check_legs_as_they_lie,
            Self::check_legs_converge,
            Self::check_no_write_is_lost,
        ];
        for check in checks {
            if let Err(text) = check(self) {
                self.fail(text);
                return;
            }
        }
    }

    fn check_everything_ended(&mut self) -> Result<(), String> {
        if !self.requests.is_empty() {
            return Err(UNANSWERED.to_owned());
        }
        let in_sync = self.engine.in_sync();
        let mut ops = self.leg_ops.values();
        match ops.find(|in_flight| in_sync.contains(in_flight.op.leg)) {
            Some(in_flight) => Err(format!("still in flight: {:?}", in_flight.op)),
            None if self.engine.is_idle() => Ok(()),
            None => Err("the engine waits for nothing".to_owned()),
        }
    }

    fn check_memory_is_back(&mut self) -> Result<(), String> {
        let used = self.engine.buffers().used_bytes() - self.engine.prefetched_bytes();
        // A silent leg may still touch the memory of its operations.
        if used > 0 && self.leg_ops.is_empty() {
            return Err(format!("{used} bytes of memory were never given back"));
        }
        Ok(())
    }

    fn check_littles_law(&mut self) -> Result<(), String> {
        if self.littles.holds() {
            Ok(())
        } else {
            Err(format!(
                "requests spent other time than they were there: {:?}",
                self.littles
            ))
        }
    }

    /// Reads that legs were asked for only to be faster, or to learn, stay within their budget.
    fn check_extra_reads(&mut self) -> Result<(), String> {
        let sum = |count: fn(&LegResult) -> u64| -> u64 {
            self.legs.iter().map(|leg| count(&leg.result)).sum()
        };
        let extra = sum(|leg| leg.hedge_reads + leg.probe_reads);
        let needed = sum(|leg| leg.reads).saturating_sub(extra);
        let saved = if self.measured.begins_at > Instant::ZERO {
            EXTRA_READS_SAVED
        } else {
            0
        };
        let budget = EXTRA_READS_ALWAYS + saved + needed * EXTRA_READS_PERCENT / 100;
        if extra > budget {
            return Err(format!(
                "{extra} reads beyond what clients needed ({needed})"
            ));
        }
        Ok(())
    }

    /// Of an array with metadata: what would be there if it stopped here and now.
    fn check_legs_as_they_lie(&mut self) -> Result<(), String> {
        if self.lives.is_none() || self.is_metadata_damaged() {
            return Ok(());
        }
        self.check_legs(LegSet::first(self.legs.len()))
            .map(drop)
            .map_err(|text| format!("in the end, {text}"))
    }

    fn check_legs_converge(&mut self) -> Result<(), String> {
        // After a power cut they do when the resync is done.
        if self.lives.as_ref().is_some_and(|lives| !lives.is_synced) {
            return Ok(());
        }
        self.check_equal(self.engine.in_sync())
    }

    /// Whether `legs` hold the same, but for what an injected fault has damaged, for what is known
    /// to differ, and for what is known to be bad. Each page that a leg was written is compared
    /// with the next leg that holds it, and so around.
    pub(crate) fn check_equal(&self, legs: LegSet) -> Result<(), String> {
        let map = self.engine.map();
        let divergent: Vec<Extent> = self.engine.divergent().map(|(extent, _)| extent).collect();
        for leg in legs {
            let mine = &self.legs[leg.index()];
            for page in mine.store.written_pages() {
                let holders = map.holders(page.start * SECTOR_BYTES).intersection(legs);
                let next = holders.iter().find(|next| *next > leg);
                let next = next.or_else(|| holders.lowest());
                let next = next.expect("the leg itself holds it");
                let theirs = &self.legs[next.index()];
                if mine.store.is_page_equal(&theirs.store, page.start) {
                    continue;
                }
                for sector in page {
                    self.check_equal_sector(sector, leg, next, &divergent)?;
                }
            }
        }
        Ok(())
    }

    fn check_equal_sector(
        &self,
        sector: u64,
        leg: LegId,
        next: LegId,
        divergent: &[Extent],
    ) -> Result<(), String> {
        let (map, extent) = (self.engine.map(), sector_extent(sector));
        let (mine, theirs) = (&self.legs[leg.index()], &self.legs[next.index()]);
        let (here, there) = (mine.store.place_of(sector), theirs.store.place_of(sector));
        let is_bad = |leg: LegId| {
            let on_leg = map.on_leg(leg, extent);
            let sectors = on_leg.offset() / SECTOR_BYTES..on_leg.end() / SECTOR_BYTES;
            self.engine.bad_blocks(leg).overlaps(&sectors)
        };
        let is_excused = mine.is_damaged(here)
            || theirs.is_damaged(there)
            || is_bad(leg)
            || is_bad(next)
            || divergent.iter().any(|known| known.overlaps(extent));
        if is_excused || mine.store.is_equal(here, &theirs.store, there) {
            Ok(())
        } else {
            Err(format!("{leg} and {next} differ in sector {sector}"))
        }
    }

    fn check_no_write_is_lost(&mut self) -> Result<(), String> {
        if self.lives.is_some() {
            return Ok(());
        }
        self.check_contents(self.engine.in_sync())
    }

    /// Reads everything that was ever written from each of `legs`: in the first turn from the first
    /// of them that holds a sector, in the second from the second. Where they are known to differ,
    /// the leg that is read there is taken.
    pub(crate) fn check_contents(&mut self, legs: LegSet) -> Result<(), String> {
        let Some(shadow) = &mut self.shadow else {
            return Ok(());
        };
        let map = self.engine.map();
        let divergent: Vec<(Extent, LegId)> = self.engine.divergent().collect();
        let holder = |turn: usize, sector: u64| {
            let extent = sector_extent(sector);
            let holders = map.holders(extent.offset()).intersection(legs);
            let mut pins = divergent.iter();
            let pin = pins.find(|(known, pin)| known.overlaps(extent) && holders.contains(*pin));
            let in_turn = || holders.iter().nth(turn % holders.count().max(1));
            let leg = pin.map(|(_, pin)| *pin).or_else(in_turn);
            leg.expect("every byte keeps a leg in sync")
        };
        for turn in 0..map.places(0).len().min(legs.count()) {
            for extent in shadow.written() {
                let began = shadow.begin_read();
                let held = |sector| &self.legs[holder(turn, sector).index()];
                let checked = shadow.check_read(
                    extent,
                    began,
                    |sector| held(sector).store.version(sector),
                    |sector| held(sector).is_damaged(held(sector).store.place_of(sector)),
                );
                shadow.end_read(began);
                if let Err((sector, wrong)) = checked {
                    let leg = holder(turn, sector);
                    let at = sector * SECTOR_BYTES;
                    return Err(format!("{leg} holds {wrong} at byte {at}"));
                }
            }
        }
        Ok(())
    }
}

/// A sector of the array.
const fn sector_extent(sector: u64) -> Extent {
    Extent::new(sector * SECTOR_BYTES, SECTOR_BYTES)
}
