//! What must hold of the metadata on legs at every moment: of each write of it, and of what a power
//! cut would leave.

use heliostat_engine::LegOp;
use heliostat_format::assembly::Candidate;
use heliostat_format::{
    BITMAP_PAGE_BYTES, BadBlocks, BitmapBits, BitmapState, BitmapSuper, DeviceFlags, Features,
    RESYNC_DONE, Role, Superblock,
};
use heliostat_types::{ErrorKind, Extent, LegId, LegSet, OpKind, Prng, SECTOR_BYTES};

use super::{BITMAP_AT, Found, LOG_BYTES, SUPER_AT, is_set, order_of, pairs_of};
use crate::checker::Tick;
use crate::fill::index;
use crate::leg::{Failure, SECTOR};
use crate::world::World;

impl World {
    /// If the power failed now and nothing more were kept: is what the legs say right?
    pub(crate) fn judge_power_cut(&mut self) {
        let present = self.some_present();
        let first = index(self.prng.below(self.legs.len() as u64));
        for takes_back in [false, true] {
            let order = order_of(self.legs.len(), first);
            match Found::of(self.readings(), present, &order, takes_back) {
                Ok(found) => self.judge_found(&found),
                Err(what) if self.is_split(&what) => {}
                Err(what) => self.fail(&format!("of {present:?}: {what}")),
            }
        }
    }

    /// Whether legs call each other failed because the array was taken up without some of them
    /// before these had all heard who was out, and that was cut short as well. No client was served
    /// since: nothing is lost, but it is not written down which is right, so that people are asked.
    pub(crate) fn is_split(&self, error: &str) -> bool {
        !self.engine.is_taken_up() && error.contains("say of each other that they failed")
    }

    pub(crate) fn judge_found(&self, found: &Found) {
        let told = || found.story();
        self.check(self.map.is_covered_by(found.trusted), || {
            format!("bytes have no leg that is trusted: {}", told())
        });
        // Until it is told who is out, a leg that was left out at the start may be believed again,
        // with what it held then. Nobody was served since.
        let is_served = self.engine.is_taken_up();
        for leg in found.trusted {
            if is_served || self.good().contains(leg) {
                self.judge_durable(leg.index(), Extent::new(0, self.setup.size_bytes));
            }
        }
        for (at, one, other) in self.differing_sectors(found.trusted) {
            let what = || {
                let (one, other) = (one.index(), other.index());
                format!("legs {one} and {other} differ at byte {at}; {}", told())
            };
            self.check(!found.is_clean, || format!("clean, but {}", what()));
            for leg in found.trusted {
                let bits = found.bitmap(leg);
                self.check(bits.is_none_or(|bits| is_set(bits, at)), || {
                    format!("no bit on {leg}, but {}", what())
                });
            }
        }
        self.judge_left_out(found);
        self.judge_rebuilding(found);
    }

    /// A leg whose rebuild goes on holds all that it is not known to lack.
    fn judge_rebuilding(&self, found: &Found) {
        let good = found.trusted.intersection(self.good());
        for (leg, missed) in found.lacking() {
            for survivor in good {
                let both = LegSet::from_iter([leg, survivor]);
                for (at, ..) in self.differing_sectors(both) {
                    let on_leg = self.map.on_leg(leg, Extent::new(at, SECTOR_BYTES));
                    let is_known = found.may_differ(at) || found.lacks(missed, at, on_leg.offset());
                    self.check(is_known, || {
                        format!("{leg} lacks what is at byte {at}: {}", found.story())
                    });
                }
            }
        }
    }

    /// A leg that is out, and that the bitmap claims to know all about, differs only at bits.
    fn judge_left_out(&self, found: &Found) {
        let readings = self.readings();
        let good = found.trusted.intersection(self.good());
        for leg in LegSet::first(self.legs.len()).difference(self.good()) {
            let Some(reading) = &readings[leg.index()] else {
                continue;
            };
            if reading.superblock.role() == Some(Role::Spare) {
                // Nobody takes it for a leg with data.
                continue;
            }
            for survivor in good {
                let Some(bits) = found.bitmap(survivor) else {
                    continue;
                };
                if reading.superblock.events < bits.super_block().events_cleared {
                    continue;
                }
                let both = LegSet::from_iter([leg, survivor]);
                let lacks_all_from = reading.superblock.incomplete_from();
                for (at, ..) in self.differing_sectors(both) {
                    let on_leg = self.map.on_leg(leg, Extent::new(at, SECTOR_BYTES));
                    let is_beyond = lacks_all_from
                        .is_some_and(|sectors| on_leg.offset() >= sectors * SECTOR_BYTES);
                    self.check(is_set(bits, at) || is_beyond, || {
                        format!("{leg} missed what is at byte {at}, and {survivor} has no bit")
                    });
                }
            }
        }
    }

    /// Where some of `legs` durably hold different bytes, sector by sector.
    pub(crate) fn differing_sectors(&self, legs: LegSet) -> Vec<(u64, LegId, LegId)> {
        let all = self.map.parts(Extent::new(0, self.setup.size_bytes));
        all.flat_map(|part| self.differing_in(part, legs)).collect()
    }

    /// The same in one chunk; what a leg durably says that it does not hold is no difference.
    fn differing_in(&self, part: Extent, legs: LegSet) -> Vec<(u64, LegId, LegId)> {
        let mut found = Vec::new();
        let holders = self.map.holders(part.offset()).intersection(legs);
        for (one, other) in pairs_of(holders) {
            let bytes = self.legs[one.index()].durable_bytes(part);
            let others = self.legs[other.index()].durable_bytes(part);
            if bytes == others {
                continue;
            }
            let logs = [one, other].map(|leg| (leg, self.log_on(leg)));
            let is_bad = |at| {
                let mut logs = logs.iter();
                logs.any(|(leg, log)| self.is_in_log(log, *leg, at))
            };
            let pairs = bytes.chunks(SECTOR).zip(others.chunks(SECTOR));
            let places = (part.offset()..).step_by(SECTOR).zip(pairs);
            let different = places.filter(|(at, (bytes, others))| bytes != others && !is_bad(*at));
            found.extend(different.map(|(at, _)| (at, one, other)));
        }
        found
    }

    /// Bytes of the array are about to change on a leg.
    pub(crate) fn judge_intent(&self, op: &LegOp) {
        let all = LegSet::first(self.legs.len());
        for first in 0..self.legs.len() {
            let found = match self.find_array(all, first) {
                Ok(found) => found,
                Err(what) => self.fail(&what),
            };
            let is_rebuilt = self.legs[op.leg.index()].rebuilding;
            if is_rebuilt && !found.trusted.contains(op.leg) {
                continue; // Nobody believes it, whatever is on it.
            }
            self.check(!found.is_clean, || {
                format!("a change while the legs say clean: {op:?}")
            });
            // Whoever has heard that a leg is replaced believes the one that has its role.
            let role = self.map.role_of(op.leg).expect("it is written to");
            let alike = self.map.legs_of(role).intersection(found.trusted);
            let is_succeeded = !alike.is_empty();
            self.check(is_succeeded || found.trusted.contains(op.leg), || {
                let story = found.story();
                format!("a change of a leg that would not be believed: {op:?}: {story}")
            });
            for leg in found.trusted {
                let Some(reading) = &found.readings[leg.index()] else {
                    self.fail("a leg without a superblock is trusted");
                };
                let superblock = &reading.superblock;
                self.judge_outsiders(leg, superblock);
                self.check(superblock.resync_offset_sectors == 0, || {
                    format!("{leg} says clean while {op:?}")
                });
                if self
                    .setup
                    .meta
                    .is_some_and(|meta| meta.chunk_bytes.is_none())
                {
                    continue;
                }
                let Some(bits) = found.bitmap(leg) else {
                    continue; // All would be resynced.
                };
                let mut sectors = (op.extent.offset()..op.extent.end()).step_by(SECTOR);
                let has_bits = sectors.all(|at| is_set(bits, at));
                self.check(has_bits, || format!("{leg} has no bit for {op:?}"));
            }
        }
    }

    /// Who is out must not look as fresh as who says so.
    fn judge_outsiders(&self, leg: LegId, superblock: &Superblock) {
        let is_active = |superblock: &Superblock, number: usize| {
            matches!(superblock.roles[number], Role::Active(_))
        };
        for (number, reading) in self.readings().iter().enumerate() {
            let Some(reading) = reading else { continue };
            let other = &reading.superblock;
            let own = other.dev_number as usize;
            let is_plain = is_active(superblock, own)
                || self.is_succeeded(superblock, LegId::new(number), own)
                || !is_active(other, own)
                || other.events < superblock.events;
            self.check(is_plain, || {
                format!("leg {number} is out, but no event behind {leg}, which says so")
            });
        }
    }

    /// Whether a leg is in sync though this says that another one has its role. Legs may have heard
    /// that before the new one failed; no write is answered before they have heard better.
    fn is_succeeded(&self, superblock: &Superblock, leg: LegId, own: usize) -> bool {
        let role = self
            .map
            .role_of(leg)
            .and_then(|role| u16::try_from(role).ok());
        let told = superblock.roles.iter().enumerate();
        let mut others = told.filter(|(number, _)| *number != own);
        let has_heir = role.is_some_and(|role| others.any(|(_, told)| *told == Role::Active(role)));
        has_heir && self.good().contains(leg)
    }

    /// Bytes of a leg that is read are about to change, in whatever order: their bits are durable
    /// by then on all legs that are read, but for those that have failed something.
    pub(crate) fn judge_bits(&self, op: &LegOp) {
        let changes = op.kind.is_mutating() && !self.is_metadata(op);
        if !changes || self.setup.meta.is_none() || !self.legs[op.leg.index()].is_in_sync() {
            return;
        }
        for (number, reading) in self.readings().iter().enumerate() {
            let leg = &self.legs[number];
            let bits = reading.as_ref().and_then(|found| found.bitmap.as_ref());
            let Some(bits) = bits.filter(|_| leg.is_in_sync() && leg.failures.is_empty()) else {
                continue;
            };
            let chunk = u64::from(bits.super_block().chunk_bytes);
            let mut chunks = op.extent.offset() / chunk..op.extent.end().div_ceil(chunk);
            let all = chunks.all(|at| bits.get(at));
            self.check(all, || {
                format!("{op:?} before its bits are on leg {number}")
            });
        }
    }

    /// Metadata is about to change on a leg.
    pub(crate) fn judge_metadata_write(&self, op: &LegOp, bytes: &[u8]) {
        let at = op.extent.offset() - self.setup.size_bytes;
        self.say(|| match Superblock::parse(bytes) {
            Ok(superblock) => {
                let roles = &superblock.roles[..self.legs.len()];
                let is_clean = superblock.resync_offset_sectors == RESYNC_DONE;
                format!(
                    "    superblock: events {} clean {is_clean} roles {roles:?}",
                    superblock.events
                )
            }
            Err(_) => match BitmapSuper::parse(bytes) {
                Ok(head) => format!(
                    "    bitmap: events {} cleared {} state {:?}, {} bits",
                    head.events,
                    head.events_cleared,
                    head.state,
                    bytes[256..]
                        .iter()
                        .map(|byte| byte.count_ones())
                        .sum::<u32>()
                ),
                Err(_) => "    pages of the bitmap".to_owned(),
            },
        });
        self.check(op.kind == OpKind::Write, || {
            format!("metadata is written, not otherwise changed: {op:?}")
        });
        let Some(known) = &self.readings()[op.leg.index()] else {
            self.fail("a leg that is written to has lost its superblock");
        };
        if at == SUPER_AT {
            return self.judge_superblock(op.leg, known, bytes);
        }
        let meta = self.setup.meta.expect("there is metadata");
        if meta.has_log && at == meta.log_at(self.setup.size_bytes) {
            let log = BadBlocks::parse(bytes, 0);
            return self.check(log.is_ok(), || format!("no log: {log:?}"));
        }
        let is_inside = at >= BITMAP_AT && (at - BITMAP_AT).is_multiple_of(4096);
        self.check(is_inside && bytes.len().is_multiple_of(4096), || {
            format!("no pages of the bitmap: {op:?}")
        });
        for (page, bytes) in (at - BITMAP_AT..).step_by(4096).zip(bytes.chunks(4096)) {
            self.judge_page(op.leg, known, index(page) / BITMAP_PAGE_BYTES, bytes);
        }
    }

    fn judge_superblock(&self, leg: LegId, known: &Candidate, bytes: &[u8]) {
        let rule = |so: bool, what: &str| self.check(so, || format!("{leg}: {what}"));
        let superblock = match Superblock::parse(bytes) {
            Ok(superblock) => superblock,
            Err(error) => self.fail(&format!("{leg}: {error}")),
        };
        let old = &known.superblock;
        let begun = Features::RECOVERY_OFFSET.with(Features::RECOVERY_BITMAP);
        let begun = begun.with(Features::REPLACEMENT);
        let is_rebuilding = self.legs[leg.index()].rebuilding;
        rule(
            is_rebuilding || superblock.features.without(begun) == superblock.features,
            "a leg in sync says that it is incomplete",
        );
        let told = superblock.features.contains(Features::BAD_BLOCKS);
        let was_told = old.features.contains(Features::BAD_BLOCKS);
        // What may change, of a leg that is being rebuilt as well.
        let own = begun.with(Features::BAD_BLOCKS);
        let now = Features(superblock.features.0 & own.0);
        let rest = Superblock {
            features: old.features.without(own).with(now),
            recovery_offset_sectors: superblock.recovery_offset_sectors,
            corrected_reads: superblock.corrected_reads,
            device_flags: superblock.device_flags,
            events: superblock.events,
            raid_disks: superblock.raid_disks,
            utime: superblock.utime,
            resync_offset_sectors: superblock.resync_offset_sectors,
            roles: superblock.roles.clone(),
            ..old.clone()
        };
        rule(superblock == rest, "something else of it changes");
        let roles = self.engine.map().legs();
        rule(
            superblock.raid_disks as usize == roles,
            "it does not say how many roles there are",
        );
        let may_lag = superblock.device_flags.contains(DeviceFlags::WRITE_MOSTLY);
        rule(may_lag || !self.lags(leg), "it is behind, and may not be");
        rule(superblock.events >= old.events, "events go back");
        rule(
            superblock.corrected_reads >= old.corrected_reads,
            "corrected errors go back",
        );
        rule(
            told || !was_told || self.bad_bytes(leg, old).iter().all(|&byte| byte == 0xff),
            "there is something in the log",
        );
        if let Some(bits) = &known.bitmap {
            let head = bits.super_block();
            rule(
                head.events >= superblock.events,
                "the superblock before its bitmap",
            );
        }
        self.judge_events(leg, &superblock);
        if superblock.resync_offset_sectors == RESYNC_DONE {
            self.judge_clean_superblock(leg);
        } else {
            rule(
                superblock.resync_offset_sectors == 0,
                "neither clean nor dirty",
            );
        }
    }

    /// No leg gets more than one event in front of another one.
    fn judge_events(&self, leg: LegId, superblock: &Superblock) {
        let rule = |so: bool, what: &str| self.check(so, || format!("{leg}: {what}"));
        let readings = self.readings();
        for (number, reading) in readings.iter().enumerate() {
            let Some(reading) = reading else { continue };
            let events = reading.superblock.events;
            let is_bad = self.legs[number].failures.iter();
            let is_bad = is_bad.clone().any(|failure| failure.kind != OpKind::Read);
            let other = LegId::new(number);
            if other != leg && self.good().contains(other) {
                rule(
                    is_bad && !self.is_last(other) || superblock.events <= events + 1,
                    "more than one event in front of another leg",
                );
            }
        }
    }

    /// What is durably where the log of a leg lies, whatever its superblock says.
    fn bad_bytes(&self, leg: LegId, superblock: &Superblock) -> &[u8] {
        let Some(sector) = superblock.bad_blocks_sector() else {
            return &[];
        };
        let at = index(self.setup.size_bytes + sector * SECTOR_BYTES);
        &self.legs[leg.index()].durable[at..at + index(LOG_BYTES)]
    }

    fn judge_clean_superblock(&self, leg: LegId) {
        let rule = |so: bool, what: &str| self.check(so, || format!("{leg}: {what}"));
        let good = self.good();
        let area = index(self.setup.size_bytes);
        for other in good {
            let at = &self.legs[other.index()];
            let mut pending = self.pending.iter().map(|pending| &pending.op);
            let is_busy =
                pending.any(|op| op.leg == other && op.kind.is_mutating() && !self.is_metadata(op));
            rule(!is_busy, "clean while a write is in flight");
            rule(
                at.data[..area] == at.durable[..area],
                "clean before all was flushed",
            );
        }
        let differing = self.differing_sectors(good);
        rule(differing.is_empty(), "clean while legs differ");
    }

    fn judge_page(&self, leg: LegId, known: &Candidate, page: usize, bytes: &[u8]) {
        let rule = |so: bool, what: &str| self.check(so, || format!("{leg}: {what}"));
        let Some(old) = &known.bitmap else {
            self.fail("a page of a bitmap that is not there");
        };
        let has_role = |role| known.superblock.roles.contains(&Role::Active(role));
        let roles = u16::try_from(self.map.legs()).unwrap();
        // One that is being replaced is there as well.
        let is_alone = |leg: LegId| {
            let role = self.map.role_of(leg).expect("it is written to");
            self.map.legs_of(role).intersection(self.good()).is_empty()
        };
        let is_short =
            (0..self.legs.len()).any(|leg| self.legs[leg].rebuilding && is_alone(LegId::new(leg)));
        let is_degraded = !(0..roles).all(has_role) || is_short;
        let is_rebuilding = self.legs[leg.index()].rebuilding;
        // That of a leg that is being rebuilt is nobody's source.
        let is_believed = !is_rebuilding
            && !old.super_block().state.contains(BitmapState::STALE)
            && !known
                .superblock
                .features
                .contains(Features::RECOVERY_OFFSET);
        if page == 0 {
            let head = BitmapSuper::parse(bytes).expect("the first page begins with it");
            let rest = BitmapSuper {
                events: head.events,
                events_cleared: head.events_cleared,
                state: head.state,
                ..*old.super_block()
            };
            rule(head == rest, "something else of the bitmap changes");
            rule(
                head.events >= known.superblock.events,
                "a bitmap older than its superblock",
            );
            let was = old.super_block().events_cleared;
            rule(
                !is_degraded || !is_believed || head.events_cleared == was,
                "events_cleared moves while a leg is missing",
            );
        }
        let chunk_bytes = u64::from(old.super_block().chunk_bytes);
        let mut new = old.clone().bytes().to_vec();
        new[page * BITMAP_PAGE_BYTES..][..BITMAP_PAGE_BYTES].copy_from_slice(bytes);
        let new = BitmapBits::load(&new).expect("a page of a bitmap");
        for chunk in old
            .chunks_of(page)
            .filter(|&chunk| is_believed && old.get(chunk))
        {
            if new.get(chunk) {
                continue;
            }
            rule(!is_degraded, "a bit is cleared while a leg is missing");
            let end = ((chunk + 1) * chunk_bytes).min(self.setup.size_bytes);
            self.judge_chunk_at_rest(Extent::from_range(chunk * chunk_bytes, end));
        }
    }

    /// All legs in sync hold the same there, durably.
    fn judge_chunk_at_rest(&self, chunk: Extent) {
        for part in self.map.parts(chunk) {
            let holders = self.holders_in_sync(part);
            for leg in holders {
                let at = &self.legs[leg.index()];
                self.check(at.bytes(part) == at.durable_bytes(part), || {
                    format!("the bit of {chunk:?} is cleared before {leg} was flushed")
                });
            }
            let differs = self.differing_in(part, holders);
            self.check(differs.is_empty(), || {
                format!("the bit of {chunk:?} is cleared while legs differ: {differs:?}")
            });
            let mut pending = self.pending.iter().map(|pending| &pending.op);
            let is_busy = pending.any(|op| {
                holders.contains(op.leg) && op.kind.is_mutating() && op.extent.overlaps(part)
            });
            self.check(!is_busy, || {
                format!("the bit of {chunk:?} is cleared while it is written")
            });
        }
    }

    /// An array that rests, whose legs are all there, has no bits.
    pub(crate) fn judge_rest(&self) {
        let all = LegSet::first(self.legs.len());
        let found = match self.find_array(all, 0) {
            Ok(found) => found,
            Err(what) => self.fail(&what),
        };
        self.check(found.is_clean && found.trusted == self.good(), || {
            format!("at rest, but {}", found.story())
        });
        self.check(!found.metadata.is_uneven, || {
            format!("at rest, but uneven: {}", found.story())
        });
        let bits = &found.metadata.bitmap;
        self.check(
            bits.as_ref().is_none_or(|bits| bits.count_set() == 0),
            || format!("at rest, but with bits: {bits:?}"),
        );
    }

    /// Whether a leg that must stay has failed a commit since then, or all have, being full.
    pub(crate) fn is_last_failing(&self, since: Tick) -> bool {
        let good = self.good();
        let fails = |leg: LegId, since: Tick, counts: fn(&Failure) -> bool| {
            let mut failures = self.legs[leg.index()].failures.iter();
            failures.any(|failure| {
                let is_metadata =
                    failure.kind.is_mutating() && failure.extent.offset() >= self.setup.size_bytes;
                failure.tick >= since
                    && failure.error != ErrorKind::NotSupported
                    && (failure.kind == OpKind::Flush || is_metadata)
                    && counts(failure)
            })
        };
        // The commit that fails may have begun before.
        let since = since.min(self.at_rest);
        let any = |_: &Failure| true;
        let was_last = |failure: &Failure| failure.was_last;
        let is_last =
            |leg| fails(leg, since, was_last) || self.is_last(leg) && fails(leg, since, any);
        let all_fail = good.iter().all(|leg| fails(leg, 0, any));
        self.setup.meta.is_some()
            && good
                .iter()
                .any(|leg| is_last(leg) || all_fail && fails(leg, since, any))
    }
}
