//! Bad blocks: what a leg in sync does not hold, and the log on the leg that says so.
//!
//! A block of a leg is *bad* where a write of it has failed, or what could not be read could not be
//! written over either. The leg stays, and from then on nobody reads the block there: reads go to
//! another leg, or fail where none is left, and what is copied is copied from another one. A write
//! is sent to all legs whatever they hold, and where it ends well the block is good again.
//!
//! What is bad is in force at once, and is durable in the leg's log before the client hears of the
//! write that did not get there: so a block that is logged and not bad does no harm, and one that
//! is bad is logged or its write was never answered. The other way round a log forgets only what
//! was flushed after it was written well: before that, a power cut could bring back the old bytes.
//!
//! Addresses are those of the leg, from the start of its data, though the log itself counts from
//! the start of the leg. Bad are whole blocks of the array, whatever the log says. A leg without a
//! log, or with one that is full, is faulted instead, as is one that cannot write its log.

use std::ops::Range;

use heliostat_format::{BadBlocks, Features, Superblock};
use heliostat_types::{ErrorKind, Extent, LegId, LegSet, OpKind, SECTOR_BYTES};

use crate::api::{Event, FaultReason, Output};
use crate::engine::Engine;
use crate::slab::Slab;

mod narrow;

pub(crate) use narrow::{halves, is_too_much};

use narrow::Narrowing;

/// The log that has room for all that memory has.
const ROOM_SECTORS: u16 = u16::MAX;

/// What is known of one leg.
#[derive(Debug)]
struct Log {
    /// What is bad, in whole blocks.
    bad: BadBlocks,
    /// What the log is to say: what is bad, and what was so and is not durably good yet.
    logged: BadBlocks,
    /// Of what is logged, what was written well since, in order.
    cleared: Vec<Range<u64>>,
    /// How many of these there were when the flush began that is on its way.
    in_flush: usize,
    /// The bytes of the log on the leg, durably.
    written: Vec<u8>,
    /// Those that the commit on its way puts there.
    pending: Option<Vec<u8>>,
    /// They may not be there durably, or others may: a commit that was to put others there has
    /// failed, or the leg was just taken in.
    is_doubtful: bool,
    /// Whether its superblock says that there is something in it.
    is_told: bool,
    /// Where the data begins, from which on all but the bytes counts.
    data_sectors: u64,
    /// Where on the leg it lies; `None` where there is none that can be written.
    address: Option<u64>,
}

/// The bad blocks of all legs.
#[derive(Debug)]
pub(crate) struct BadLogs {
    /// By leg.
    logs: Vec<Log>,
    /// Those that have some,
    legs: LegSet,
    /// and those whose logs still name some that were written since.
    cleared: LegSet,
    /// Failed writes of which it is being found out where they fail.
    narrowings: Slab<Narrowing>,
    /// Pieces that no leg holds, with their serials. They fail before the input ends, but not from
    /// within whatever has asked for them: that goes on with its next piece, or its next write.
    lost: Vec<(u32, u64)>,
}

/// What a commit finds that the logs want.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogPlan {
    /// Some log is to be written.
    pub(crate) have_changed: bool,
    /// Some superblock is to say so.
    pub(crate) are_told_of: bool,
}

impl Log {
    /// A leg without one.
    fn none() -> Self {
        Self {
            bad: BadBlocks::new(ROOM_SECTORS),
            logged: BadBlocks::new(0),
            cleared: Vec::new(),
            in_flush: 0,
            written: Vec::new(),
            pending: None,
            is_doubtful: false,
            is_told: false,
            data_sectors: 0,
            address: None,
        }
    }

    /// That of a leg which says this, and of which so many bytes are the array's.
    fn of(superblock: &Superblock, read: &BadBlocks, leg_bytes: u64, block_bytes: u64) -> Self {
        let data_sectors = superblock.data_offset_sectors;
        let logged = read.counted_from(data_sectors);
        let mut bad = BadBlocks::new(ROOM_SECTORS);
        // What is said of other places than the array's concerns nobody.
        let all = 0..leg_bytes / SECTOR_BYTES;
        for range in logged.ranges() {
            let range = range.start.min(all.end)..range.end.min(all.end);
            let blocks = extent_of(&range).aligned_out(block_bytes);
            let inserted = bad.insert(sectors_of(blocks));
            inserted.expect("there is room for what one log has");
        }
        let is_told = superblock.features.contains(Features::BAD_BLOCKS);
        let address = superblock.bad_blocks_sector();
        let address = address.and_then(|sector| sector.checked_mul(SECTOR_BYTES));
        let size_bytes = u64::from(superblock.bad_blocks_size_sectors) * SECTOR_BYTES;
        let is_whole = |address: &u64| Extent::new(*address, size_bytes).is_aligned(block_bytes);
        Self {
            bad,
            written: read.as_read(),
            logged,
            data_sectors,
            is_told,
            // What was read may be in a cache of the leg alone.
            is_doubtful: is_told,
            address: address.filter(is_whole).filter(|_| size_bytes > 0),
            ..Self::none()
        }
    }

    /// What is to be on the leg next. Where there is no place for all of it beside what is there,
    /// all is written anew.
    fn next_bytes(&self) -> Vec<u8> {
        let logged = self.logged.moved_up(self.data_sectors);
        let next = logged.to_bytes_after(&self.written);
        next.unwrap_or_else(|_| logged.to_bytes())
    }

    /// What was written well is bad again: a flush that has begun before it is written well once
    /// more does not make that durable.
    fn not_cleared(&mut self, bad: &Range<u64>) {
        let before = std::mem::take(&mut self.cleared);
        let in_flush = std::mem::take(&mut self.in_flush);
        for (at, range) in before.into_iter().enumerate() {
            let parts = [
                range.start..range.end.min(bad.start),
                range.start.max(bad.end)..range.end,
            ];
            self.cleared
                .extend(parts.into_iter().filter(|part| part.start < part.end));
            if at < in_flush {
                self.in_flush = self.cleared.len();
            }
        }
    }

    /// Whether the leg does not say what it is to say.
    fn is_behind(&self) -> bool {
        let is_untold = !self.is_told && !self.logged.is_empty();
        is_untold || self.next_bytes() != self.written
    }

    /// Whether there is a place for all that is logged, after what is on its way.
    fn has_place(&self, logged: &BadBlocks) -> bool {
        let before = self.pending.as_ref().unwrap_or(&self.written);
        let logged = logged.moved_up(self.data_sectors);
        logged.to_bytes_after(before).is_ok()
    }
}

impl BadLogs {
    /// Of so many legs, none of which has any.
    pub(crate) fn none(legs: usize) -> Self {
        Self {
            logs: (0..legs).map(|_| Log::none()).collect(),
            legs: LegSet::EMPTY,
            cleared: LegSet::EMPTY,
            narrowings: Slab::new(),
            lost: Vec::new(),
        }
    }

    /// There is one leg more.
    pub(crate) fn make_room(&mut self) {
        self.logs.push(Log::none());
    }

    /// A leg says this, and this is what was read of its log.
    pub(crate) fn set(
        &mut self,
        leg: LegId,
        superblock: &Superblock,
        read: &BadBlocks,
        (leg_bytes, block_bytes): (u64, u64),
    ) {
        self.logs[leg.index()] = Log::of(superblock, read, leg_bytes, block_bytes);
        self.cleared.remove(leg);
        self.note(leg);
    }

    /// Whether no leg has any.
    pub(crate) const fn is_empty(&self) -> bool {
        self.legs.is_empty()
    }

    /// A piece cannot be read anywhere.
    pub(crate) fn lose(&mut self, piece: u32, serial: u64) {
        self.lost.push((piece, serial));
    }

    /// Whether there are such pieces.
    pub(crate) const fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Takes them all.
    pub(crate) fn take_lost(&mut self) -> Vec<(u32, u64)> {
        std::mem::take(&mut self.lost)
    }

    /// Whether no log names any either.
    pub(crate) const fn are_logs_empty(&self) -> bool {
        self.legs.is_empty() && self.cleared.is_empty()
    }

    fn note(&mut self, leg: LegId) {
        if self.logs[leg.index()].bad.is_empty() {
            self.legs.remove(leg);
        } else {
            self.legs.insert(leg);
        }
    }

    /// Whether a block of `extent`, an extent of the leg, is bad.
    fn overlaps(&self, leg: LegId, extent: Extent) -> bool {
        self.logs[leg.index()].bad.overlaps(&sectors_of(extent))
    }

    /// A flush of all legs begins.
    pub(crate) fn flush_begins(&mut self) {
        for log in &mut self.logs {
            log.in_flush = log.cleared.len();
        }
    }
}

impl Engine {
    /// What a leg is known not to hold, from the start of its data.
    #[must_use]
    pub fn bad_blocks(&self, leg: LegId) -> &BadBlocks {
        &self.bad.logs[leg.index()].bad
    }

    /// The legs that do not hold some of an extent of the array, which lies in one chunk.
    pub(crate) fn bad_legs(&self, extent: Extent) -> LegSet {
        if self.bad.is_empty() {
            return LegSet::EMPTY;
        }
        let holders = self.config.map.holders(extent.offset());
        let some = self.bad.legs.intersection(holders).iter();
        let is_bad = |leg: &LegId| {
            self.bad
                .overlaps(*leg, self.config.map.on_leg(*leg, extent))
        };
        some.filter(is_bad).collect()
    }

    /// How much of an extent in one chunk, from its start on, is bad on the same legs.
    pub(crate) fn bad_len(&self, extent: Extent) -> u64 {
        if self.bad.is_empty() {
            return extent.len();
        }
        let holders = self.config.map.holders(extent.offset());
        let mut len = extent.len();
        for leg in self.bad.legs.intersection(holders) {
            let on_leg = sectors_of(self.config.map.on_leg(leg, extent));
            let Some(bad) = self.bad.logs[leg.index()].bad.first_in(&on_leg) else {
                continue;
            };
            let border = if bad.start > on_leg.start {
                bad.start
            } else {
                bad.end
            };
            len = len.min((border - on_leg.start) * SECTOR_BYTES);
        }
        len
    }

    /// The parts of an extent in one chunk, each with the legs that do not hold it.
    pub(crate) fn bad_parts(&self, extent: Extent) -> Vec<(Extent, LegSet)> {
        let mut parts = Vec::new();
        let mut rest = extent;
        while !rest.is_empty() {
            let (part, behind) = rest.split_at(self.bad_len(rest));
            parts.push((part, self.bad_legs(part)));
            rest = behind;
        }
        parts
    }

    /// What of an extent some leg does not hold.
    pub(crate) fn bad_extents(&self, extent: Extent) -> Vec<Extent> {
        if self.bad.is_empty() {
            return Vec::new();
        }
        let parts = self.config.map.parts(extent);
        let parts = parts.flat_map(|part| self.bad_parts(part));
        let bad = parts.filter(|(_, legs)| !legs.is_empty());
        bad.map(|(part, _)| part).collect()
    }

    /// Whether some part of an extent in one chunk is held by no leg in sync.
    pub(crate) fn is_part_lost(&self, extent: Extent) -> bool {
        if self.bad.is_empty() {
            return false;
        }
        let holders = self.config.map.holders(extent.offset());
        let here = holders.intersection(self.legs.in_sync);
        let parts = self.bad_parts(extent).into_iter();
        let mut left = parts.map(|(_, bad)| here.difference(bad));
        left.any(|left| left.is_empty())
    }

    /// The same, in however many chunks it lies.
    pub(crate) fn is_lost(&self, extent: Extent) -> bool {
        let mut parts = self.config.map.parts(extent);
        !self.bad.is_empty() && parts.any(|part| self.is_part_lost(part))
    }

    /// Whether a leg that fails a write stays, because its bad blocks can be logged. One that is to
    /// fail fast does not, and neither does a replacement: what it lacked would go with the leg
    /// that has it (md's RAID10: never record new bad blocks to a replacement, just fail it).
    pub(crate) fn has_bad_log(&self, leg: LegId) -> bool {
        let has_log = self.bad.logs[leg.index()].address.is_some();
        has_log && !self.legs.fails_fast(leg, OpKind::Write) && !self.is_replacement(leg)
    }

    /// What a leg is known not to hold, in its own addresses.
    pub(crate) fn bad_on(&self, leg: LegId) -> impl Iterator<Item = Extent> + '_ {
        let ranges = self.bad.logs[leg.index()].bad.ranges();
        ranges.map(|range| extent_of(&range))
    }

    /// A leg was sent all of `extent`, in the addresses of the leg: these `parts` of it are bad and
    /// all others good. Whether that can be logged; otherwise nothing has changed, and the leg has
    /// to go.
    pub(crate) fn note_written(&mut self, leg: LegId, extent: Extent, parts: &[Extent]) -> bool {
        if parts.is_empty() && !self.bad.legs.contains(leg) {
            return true;
        }
        let log = &mut self.bad.logs[leg.index()];
        let all = sectors_of(extent);
        let was_bad = log.bad.overlaps(&all);
        if parts.is_empty() && !was_bad {
            return true;
        }
        let (mut bad, mut logged) = (log.bad.clone(), log.logged.clone());
        // There is room: that of all legs' logs together.
        let is_split = bad.remove(all.clone()).is_ok();
        for part in parts {
            let part = sectors_of(*part);
            let is_in = bad.insert(part.clone()).is_ok() && logged.insert(part).is_ok();
            if !is_in {
                return false;
            }
        }
        if !parts.is_empty() && (log.address.is_none() || !log.has_place(&logged)) {
            return false;
        }
        if is_split && was_bad {
            log.cleared.push(all);
            self.bad.cleared.insert(leg);
        }
        let log = &mut self.bad.logs[leg.index()];
        for part in parts {
            log.not_cleared(&sectors_of(*part));
        }
        let is_new = logged != log.logged || log.is_behind();
        let before = std::mem::replace(&mut log.bad, bad);
        log.logged = logged;
        self.bad.note(leg);
        self.tell_of_parts(leg, extent, &before);
        if !parts.is_empty() && is_new && self.legs_with_metadata().contains(leg) {
            self.record_bad_blocks();
        }
        true
    }

    /// What legs have written of a write is good, and what they have failed is bad; a leg of which
    /// that cannot be logged has failed.
    pub(crate) fn log_bad_blocks(&mut self, index: u32) {
        let write = &mut self.writes[index];
        if write.bad.is_empty() && self.bad.are_logs_empty() {
            return;
        }
        let bad = std::mem::take(&mut write.bad);
        let aligned = write.aligned;
        let sent = write.targets.intersection(self.legs.writable());
        for leg in sent.difference(write.failed) {
            let parts = bad.iter().filter(|(of, _)| *of == leg);
            let parts: Vec<Extent> = parts.map(|(_, extent)| *extent).collect();
            let on_leg = self.config.map.on_leg(leg, aligned);
            if !self.note_written(leg, on_leg, &parts) {
                let reason = FaultReason::WriteFailed(ErrorKind::Io);
                self.note_failure(index, leg, reason);
            } else if self.writes[index].fua {
                self.note_durable(leg, on_leg);
            }
        }
    }

    /// Whether no leg in sync holds some block of a write; then it has failed.
    pub(crate) fn fail_if_lost(&mut self, index: u32) -> bool {
        let is_lost = self.is_part_lost(self.writes[index].aligned);
        if is_lost {
            self.writes[index].fail(ErrorKind::Io);
        }
        is_lost
    }

    /// Tells of what came and went in an extent of a leg, of which this was bad before.
    fn tell_of_parts(&mut self, leg: LegId, extent: Extent, before: &BadBlocks) {
        let bad = &self.bad.logs[leg.index()].bad;
        let all = sectors_of(extent);
        let (came, went) = (not_in(bad, before, &all), not_in(before, bad, &all));
        if !went.is_empty() {
            let event = Event::BadBlocksWritten { leg, extent };
            self.outputs.push_back(Output::Event(event));
        }
        if let Some(first) = came.first() {
            self.outputs.push_back(Output::Event(Event::BadBlocksFound {
                leg,
                first_bytes: first.start * SECTOR_BYTES,
                sectors: came.iter().map(|part| part.end - part.start).sum(),
            }));
        }
    }

    /// The flush of all legs that was begun last has ended well: what was written before is good
    /// for ever, and the logs say so before anybody hears of the flush.
    pub(crate) fn bad_blocks_flushed(&mut self) {
        for leg in self.legs.in_sync.intersection(self.bad.cleared) {
            let log = &mut self.bad.logs[leg.index()];
            let count = std::mem::take(&mut log.in_flush);
            let cleared: Vec<Range<u64>> = log.cleared.drain(..count).collect();
            if log.cleared.is_empty() {
                self.bad.cleared.remove(leg);
            }
            self.forget_bad(leg, &cleared);
        }
    }

    /// A leg has written all of `extent`, in its own addresses, durably.
    pub(crate) fn note_durable(&mut self, leg: LegId, extent: Extent) {
        self.forget_bad(leg, &[sectors_of(extent)]);
    }

    /// What is not bad of these sectors is durably good: the log is to forget it.
    fn forget_bad(&mut self, leg: LegId, durable: &[Range<u64>]) {
        let log = &mut self.bad.logs[leg.index()];
        for range in durable {
            forget(&mut log.logged, &log.bad, range);
        }
        if log.is_behind() && self.legs_with_metadata().contains(leg) {
            self.record_bad_blocks();
        }
    }

    /// Has what changed in the logs of these legs written by the commit that is being made.
    pub(crate) fn plan_logs(&mut self, targets: LegSet) -> LogPlan {
        let mut plan = LogPlan::default();
        for leg in targets {
            let log = &mut self.bad.logs[leg.index()];
            if log.address.is_none() || log.logged.is_empty() && log.written.is_empty() {
                continue;
            }
            plan.are_told_of |= !log.is_told && !log.logged.is_empty();
            let next = log.next_bytes();
            if next != log.written || log.is_doubtful {
                plan.have_changed = true;
                log.pending = Some(next);
            }
        }
        plan
    }

    /// The logs that the commit on its way writes to these legs: where, and what.
    pub(crate) fn logs_to_send(&self, targets: LegSet) -> Vec<(LegId, u64, Vec<u8>)> {
        let of = |leg: LegId| {
            let log = &self.bad.logs[leg.index()];
            Some((leg, log.address?, log.pending.clone()?))
        };
        targets.iter().filter_map(of).collect()
    }

    /// Says in a superblock whether there is something in the log.
    pub(crate) fn tell_of_bad_blocks(&self, leg: LegId, superblock: &mut Superblock) {
        let log = &self.bad.logs[leg.index()];
        if log.address.is_none() {
            return; // As it was read.
        }
        let newest = log.pending.as_ref().unwrap_or(&log.written);
        let is_empty = newest.iter().all(|&byte| byte == 0xff);
        let features = superblock.features;
        superblock.features = if is_empty {
            features.without(Features::BAD_BLOCKS)
        } else {
            features.with(Features::BAD_BLOCKS)
        };
    }

    /// A commit has reached these legs; whether its superblocks were written as well.
    pub(crate) fn logs_committed(&mut self, targets: LegSet, with_superblocks: bool) {
        let mut is_wanted = false;
        for leg in targets {
            let log = &mut self.bad.logs[leg.index()];
            let is_changed = log.pending.is_some();
            if let Some(written) = log.pending.take() {
                log.written = written;
                log.is_doubtful = false;
            }
            if with_superblocks {
                log.is_told = log.written.iter().any(|&byte| byte != 0xff);
            }
            is_wanted |= is_changed && log.is_behind();
        }
        if is_wanted {
            self.record_bad_blocks();
        }
    }

    /// A commit has failed: nobody knows which of the logs are on the legs.
    pub(crate) fn logs_not_committed(&mut self) {
        for log in &mut self.bad.logs {
            log.is_doubtful |= log.pending.take().is_some();
        }
    }
}

/// Takes what is not bad out of what is logged. What the log has no room to be without stays: that
/// costs reads from this leg and nothing else.
fn forget(logged: &mut BadBlocks, bad: &BadBlocks, range: &Range<u64>) {
    for good in not_in(logged, bad, range) {
        let _ = logged.remove(good);
    }
}

/// What of `range` is in one, and not in another.
fn not_in(one: &BadBlocks, other: &BadBlocks, range: &Range<u64>) -> Vec<Range<u64>> {
    let mut found = Vec::new();
    let mut from = range.start;
    while let Some(next) = one.first_in(&(from..range.end)) {
        let part = next.start.max(from)..next.end.min(range.end);
        let known = other.first_in(&part);
        let until = known.as_ref().map_or(part.end, |known| known.start);
        if part.start < until {
            found.push(part.start..until);
        }
        from = known.map_or(part.end, |known| known.end);
        if from >= range.end {
            break;
        }
    }
    found
}

/// The sectors of an extent of a leg.
fn sectors_of(extent: Extent) -> Range<u64> {
    extent.offset() / SECTOR_BYTES..extent.end() / SECTOR_BYTES
}

/// The extent of sectors of a leg.
fn extent_of(sectors: &Range<u64>) -> Extent {
    let bytes = |sector: u64| sector.saturating_mul(SECTOR_BYTES);
    Extent::from_range(bytes(sectors.start), bytes(sectors.end))
}
