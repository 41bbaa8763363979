//! What must be true of the legs of an array with metadata whenever the power fails: what md would
//! make of them, and what reads would return then.

use std::collections::BTreeMap;

use heliostat_model::FailedKind;
use heliostat_types::{Instant, LegId, LegSet, SECTOR_BYTES};

use super::start::Described;
use crate::faults::Effect;
use crate::kernel_model::{self, Copy, Disk, KernelArray, Resyncs, Taken};
use crate::shadow::{Moment, Shadow};
use crate::simulation::Simulation;

impl Simulation {
    /// What md makes of `legs` as they lie there.
    pub(crate) fn assemble_as_md(&self, legs: LegSet) -> Result<KernelArray, String> {
        let reads: Vec<_> = self
            .legs
            .iter()
            .map(|leg| |at: u64, len: usize| leg.store.raw_bytes(at, len))
            .collect();
        let disks: Vec<Option<Disk<'_>>> = (0..self.legs.len())
            .map(|index| {
                legs.contains(LegId::new(index)).then(|| Disk {
                    size_bytes: self.legs[index].spec().size_bytes,
                    read: &reads[index],
                })
            })
            .collect();
        kernel_model::assemble(&disks)
    }

    /// Whether an injected fault has damaged the metadata of any leg.
    pub(crate) fn is_metadata_damaged(&self) -> bool {
        let data_sector = self.scenario.array.data_offset_bytes() / SECTOR_BYTES;
        let mut legs = self.legs.iter();
        legs.any(|leg| leg.is_damaged_below(data_sector))
    }

    /// Checks what lies on `legs`, with a leg that holds it for each byte among them: whoever
    /// believes their metadata, reads what was promised. Where legs in sync differ, and what they
    /// hold there.
    pub(crate) fn check_legs(&self, legs: LegSet) -> Result<BTreeMap<u64, Vec<Moment>>, String> {
        let array = self
            .assemble_as_md(legs)
            .map_err(|text| format!("md would not run the legs that are there: {text}"))?;
        let assembled = self
            .assemble(legs)
            .map_err(|text| format!("heliostat would not run the legs that are there: {text}"))?;
        self.check_trust(array.in_sync().map(LegId::new).collect(), "md")?;
        self.check_trust(assembled.in_sync(), "heliostat")?;
        let sectors = self.sectors_ever_written();
        self.check_missed(legs, &sectors)?;
        self.check_copies(&array, &assembled, &sectors)
    }

    /// The sectors of the array that clients have written, and those that were written on any leg,
    /// whoever did that: all others are as they were made.
    pub(super) fn sectors_ever_written(&self) -> Vec<u64> {
        let Some(shadow) = &self.shadow else {
            return Vec::new();
        };
        let extents = shadow.written().into_iter();
        let sectors =
            extents.flat_map(|extent| extent.offset() / SECTOR_BYTES..extent.end() / SECTOR_BYTES);
        let mut sectors: Vec<u64> = sectors.collect();
        for leg in &self.legs {
            sectors.extend(leg.store.written());
        }
        sectors.sort_unstable();
        sectors.dedup();
        sectors
    }

    /// A leg that was out when a client was answered is not taken, unless it was given all since:
    /// then what it holds is looked at, as that of any other.
    fn check_trust(&self, in_sync: LegSet, by: &str) -> Result<(), String> {
        let lives = self.lives.as_ref().expect("the array has metadata");
        let distrusted = lives.distrusted.difference(self.engine.in_sync());
        let believed = in_sync.intersection(distrusted).iter();
        let map = self.engine.map();
        let has_all =
            |leg: LegId| map.all().contains(leg) && self.engine.missing_bytes(leg) == Some(0);
        let mut lacking = believed.filter(|leg| !has_all(*leg));
        match lacking.next() {
            Some(leg) => Err(format!(
                "{leg} is believed by {by} although a client was answered after it was out"
            )),
            None => Ok(()),
        }
    }

    /// Copies that may be read are equal, and hold what may be there. Where other copies in sync
    /// differ, what each of them holds may be there, too.
    fn check_copies(
        &self,
        array: &KernelArray,
        assembled: &Described,
        sectors: &[u64],
    ) -> Result<BTreeMap<u64, Vec<Moment>>, String> {
        let mut unequal = BTreeMap::new();
        let Some(shadow) = &self.shadow else {
            return Ok(unequal);
        };
        let lives = self.lives.as_ref().expect("the array has metadata");
        for sector in sectors.iter().copied() {
            let mut readers = array.readers(sector);
            readers.extend(self.readers(assembled, sector));
            if array.resyncs(sector) == Resyncs::Surely {
                readers.extend(array.source(sector));
            }
            self.check_equal_copies(sector, &readers, array)?;
            let all = array.copies(sector);
            let (mut held, mut is_outdated) = (Vec::new(), false);
            for copy in all.filter(|copy| !self.is_copy_damaged(copy)) {
                let version = self.legs[copy.disk].store.version(sector);
                let checked = shadow.may_hold(sector, version);
                let known = lives.unequal.get(&sector);
                let is_known = known
                    .is_some_and(|known| version.is_some_and(|version| known.contains(&version)));
                let is_read = readers.contains(&copy);
                if let Err(wrong) = checked {
                    if is_read || !is_known {
                        let (leg, at) = (copy.disk, sector * SECTOR_BYTES);
                        return Err(format!("leg {leg} holds {wrong} at byte {at}"));
                    }
                    is_outdated = true;
                }
                held.extend(version);
            }
            held.sort_unstable();
            held.dedup();
            // What one holds that is not read differs from what is, whatever a fault made of that.
            let mut read = readers.iter();
            let is_known_to_differ = is_outdated && read.any(|copy| self.is_copy_damaged(copy));
            if held.len() > 1 || is_known_to_differ {
                unequal.insert(sector, held);
            }
        }
        Ok(unequal)
    }

    /// Whether a leg fails reads now, some of them or all.
    fn fails_reads(&self, leg: usize) -> bool {
        let begins_at = Instant::ZERO + self.scenario.warmup_seconds;
        let mut faults = self.scenario.faults.iter();
        faults.any(|fault| {
            let (at, until) = fault.period(begins_at);
            let is_now = (at..until).contains(&self.now);
            let fails_reads = matches!(
                fault.effect,
                Some(Effect::Error(FailedKind::Read) | Effect::Dead)
            );
            is_now && fails_reads && fault.leg == Some(self.legs[leg].device)
        })
    }

    /// Reads all that was ever written from where it is read now, of `legs`: what that shows stays.
    /// What a leg holds that fails reads shows nothing, as others are read in its place.
    pub(crate) fn read_everything(&mut self, legs: LegSet) -> Result<(), String> {
        let assembled = self.assemble(legs)?;
        let written = self.shadow.as_ref().map_or_else(Vec::new, Shadow::written);
        let failing: Vec<bool> = (0..self.legs.len())
            .map(|leg| self.fails_reads(leg))
            .collect();
        for extent in written {
            let sectors = extent.offset() / SECTOR_BYTES..extent.end() / SECTOR_BYTES;
            let first = sectors.start;
            // None of a block that is bad wherever it lies.
            let copies: Vec<Option<Copy>> = sectors
                .map(|sector| self.readers(&assembled, sector).first().copied())
                .collect();
            let copy_of = |sector: u64| {
                copies[usize::try_from(sector - first).expect("an extent fits into memory")]
            };
            let shadow = self.shadow.as_mut().expect("something was written");
            let began = shadow.begin_read();
            let checked = shadow.check_read(
                extent,
                began,
                |sector| self.legs[copy_of(sector)?.disk].store.version(sector),
                |sector| {
                    copy_of(sector).is_none_or(|copy| {
                        failing[copy.disk] || self.legs[copy.disk].is_damaged(copy.sector)
                    })
                },
            );
            shadow.end_read(began);
            if let Err((sector, wrong)) = checked {
                let leg = copy_of(sector).map_or(0, |copy| copy.disk);
                let at = sector * SECTOR_BYTES;
                return Err(format!("leg {leg} holds {wrong} at byte {at}"));
            }
        }
        Ok(())
    }

    /// Whether an injected fault has damaged it.
    pub(crate) fn is_copy_damaged(&self, copy: &Copy) -> bool {
        self.legs[copy.disk].is_damaged(copy.sector)
    }

    fn check_equal_copies(
        &self,
        sector: u64,
        copies: &[Copy],
        array: &KernelArray,
    ) -> Result<(), String> {
        let mut good = copies.iter().filter(|copy| !self.is_copy_damaged(copy));
        let Some(first) = good.next() else {
            return Ok(());
        };
        let store = |copy: &Copy| &self.legs[copy.disk].store;
        let other =
            good.find(|other| !store(first).is_equal(first.sector, store(other), other.sector));
        let Some(other) = other else {
            return Ok(());
        };
        let why = if array.is_clean() {
            "the superblocks say clean"
        } else {
            "no bit is set, or not on all of them"
        };
        let recovers = |copy: &Copy| {
            matches!(
                array.taken(copy.disk),
                Taken::Recovering(..) | Taken::Replacing(..)
            )
        };
        let place = if recovers(first) || recovers(other) {
            ", where one of them has recovered"
        } else {
            ""
        };
        let whose = array.whose_bits(sector);
        Err(format!(
            "leg {} and leg {} differ in sector {sector} although {why}{place} ({whose})",
            first.disk, other.disk
        ))
    }
}
