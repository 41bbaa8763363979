//! What must hold at every moment: the rules of what the engine may send, answer, record and fault.
//!
//! Where a rule needs the order of events it asks the checker. What must hold at the end only is in
//! `settle`.

use std::ops::Range;

use heliostat_engine::{
    ArrayRecord, BackgroundEnd, BackgroundKind, Event, FaultReason, LegOp, LegState,
};
use heliostat_format::BadBlocks;
use heliostat_types::{ErrorKind, Extent, LegId, LegSet, OpKind, Prng, SECTOR_BYTES, StatusRun};

use crate::checker::Tick;
use crate::fill::index;
use crate::leg::{Leg, SECTOR};
use crate::meta::pairs_of;
use crate::world::{Asked, Reply, Wanted, World};

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

impl World {
    /// The legs that whoever reads the record after a power cut now would take for good.
    pub(crate) fn trusted(&self, record: &ArrayRecord) -> Vec<usize> {
        if self.setup.meta.is_some() {
            return self.believed().iter().map(LegId::index).collect();
        }
        (0..self.legs.len())
            .filter(|&leg| {
                // Where a leg was missing from the start, the record of directed cases does not say
                // so.
                self.legs[leg].config.state == LegState::InSync
                    && !record.faulted.contains(LegId::new(leg))
            })
            .collect()
    }

    pub(crate) fn in_sync(&self) -> Vec<usize> {
        self.engine.in_sync().iter().map(LegId::index).collect()
    }

    pub(crate) fn judge_states(&mut self) {
        let good = self.good();
        self.check(self.engine.in_sync() == good, || {
            format!("in sync {:?}, not {good:?}", self.engine.in_sync())
        });
        self.check(self.map.is_covered_by(good), || {
            "bytes have no leg left".to_owned()
        });
        self.is_lost |= good
            .iter()
            .any(|leg| self.is_last(leg) && self.lost_a_flush(leg));
        for leg in good {
            let at_leg = self.pending.iter().filter(|pending| pending.op.leg == leg);
            let reads = at_leg
                .filter(|pending| pending.op.kind == OpKind::Read)
                .count();
            let (counted, _) = self.engine.leg_in_flight(leg);
            self.check(reads <= counted as usize, || {
                format!("{leg} has {reads} reads, not {counted}")
            });
        }
        if self.setup.meta.is_some() {
            return;
        }
        let newest = self.issued.last().unwrap_or(&self.delivered);
        self.check(self.engine.record() == *newest, || {
            format!("the record {:?} was never given out", self.engine.record())
        });
    }

    /// Nobody else reads or writes this memory.
    pub(crate) fn judge_free_for_writing(&self, range: &Range<usize>, who: &str) {
        for pending in &self.pending {
            let other = pending.range.as_ref();
            self.check(other.is_none_or(|other| !overlap(other, range)), || {
                format!("{who} writes memory of {:?}", pending.op)
            });
        }
        for held in &self.held {
            self.check(!overlap(&held.range, range), || {
                format!("{who} writes memory of an answer, {:?}", held.buffer)
            });
        }
        for allocated in &self.allocated {
            self.check(!overlap(&allocated.range, range), || {
                format!("{who} writes memory of a write, {:?}", allocated.extent)
            });
        }
    }

    fn judge_free_for_reading(&self, range: &Range<usize>, who: &str) {
        for pending in &self.pending {
            let other = pending.range.as_ref();
            let writes = pending.op.kind == OpKind::Read;
            let clash = writes && other.is_some_and(|other| overlap(other, range));
            self.check(!clash, || format!("{who} reads memory of {:?}", pending.op));
        }
        for allocated in &self.allocated {
            self.check(!overlap(&allocated.range, range), || {
                format!("{who} reads memory of a write, {:?}", allocated.extent)
            });
        }
    }

    pub(crate) fn judge_held(&self, range: &Range<usize>) {
        self.judge_free_for_reading(range, "an answer");
    }

    pub(crate) fn judge_snapshot(&self, at: usize) {
        let pending = &self.pending[at];
        if let (Some(range), OpKind::Write) = (&pending.range, pending.op.kind) {
            let same = self
                .arena
                .is_unchanged(range.clone(), &self.pending[at].snapshot);
            self.check(same, || {
                format!("the memory of {:?} changed under way", self.pending[at].op)
            });
        }
    }

    pub(crate) fn judge_dispatch(&self, op: &LegOp, range: Option<&Range<usize>>) {
        let leg = &self.legs[op.leg.index()];
        let all = Extent::new(0, self.legs[op.leg.index()].data.len() as u64);
        let block = u64::from(self.setup.block_bytes);
        let rule = |so: bool, what: &str| self.check(so, || format!("{what}: {op:?}"));
        rule(leg.is_present(), "an operation for a leg that is out");
        rule(
            leg.is_in_sync() || !matches!(op.kind, OpKind::Read | OpKind::BlockStatus),
            "a leg that is being rebuilt is read",
        );
        let there = (self.pending.iter())
            .filter(|pending| pending.op.leg == op.leg && pending.op.next.is_none());
        rule(
            there.count() < leg.config.queue_depth as usize,
            "more than the leg takes at once",
        );
        rule(
            op.extent.is_aligned(block) && all.contains(op.extent),
            "not whole blocks of the array",
        );
        rule(
            op.extent.is_empty() == (op.kind == OpKind::Flush),
            "only a flush has no bytes",
        );
        let moves = matches!(op.kind, OpKind::Read | OpKind::Write);
        rule(range.is_some() == moves, "memory where bytes move");
        rule(
            !op.fua || op.kind.is_mutating(),
            "FUA on what writes nothing",
        );
        rule(
            !op.fua || leg.config.fua || op.kind != OpKind::Write,
            "FUA on a leg without it",
        );
        rule(
            op.kind != OpKind::Trim || leg.config.trim_reads_zeros,
            "a trim on a leg that does not read zeros after it",
        );
        if let Some(range) = range {
            rule(range.len() as u64 == op.extent.len(), "memory as long");
            rule(range.start.is_multiple_of(512), "memory is aligned");
            rule(range.end <= self.arena.len(), "memory inside the arena");
            if op.kind == OpKind::Read {
                self.judge_free_for_writing(range, "a read");
            } else {
                self.judge_free_for_reading(range, "a write");
            }
        }
        if op.kind.is_mutating() {
            if self.setup.meta.is_none() {
                self.judge_recorded(op);
            } else if !self.is_metadata(op) {
                self.judge_intent(op);
            }
            for other in self.pending.iter().map(|pending| &pending.op) {
                rule(
                    other.leg != op.leg
                        || !other.kind.is_mutating()
                        || !other.extent.overlaps(op.extent),
                    "two writes of the same bytes at once",
                );
            }
        }
    }

    /// Bytes of the array are about to change.
    fn judge_recorded(&self, op: &LegOp) {
        let is_trusted = |record: &ArrayRecord| !record.faulted.contains(op.leg);
        let may_say_clean = |record: &ArrayRecord| is_trusted(record) && !record.dirty;
        let is_clean = may_say_clean(&self.delivered) || self.issued.iter().any(may_say_clean);
        self.check(!is_clean, || {
            format!("the legs are changed while the record may say clean: {op:?}")
        });
    }

    pub(crate) fn judge_record(&self, record: ArrayRecord) {
        let before = *self.issued.last().unwrap_or(&self.delivered);
        let rule = |so: bool, what: &str| self.check(so, || format!("{what}: {record:?}"));
        rule(
            record.generation == before.generation + 1,
            "generations rise by one",
        );
        for leg in before.faulted.difference(record.faulted) {
            rule(
                self.legs[leg.index()].rebuilding,
                "a leg comes back that was not rebuilt",
            );
            self.judge_rebuilt(leg);
        }
        if record.dirty {
            return;
        }
        let trusted = self.trusted(&record);
        for &leg in &trusted {
            let busy = self
                .pending
                .iter()
                .any(|pending| pending.op.kind.is_mutating() && pending.op.leg == LegId::new(leg));
            rule(!busy, "clean while a write is in flight");
            let mut failures = self.legs[leg].failures.iter();
            let lost = failures
                .any(|failure| failure.may_lose && failure.error != ErrorKind::NotSupported);
            rule(
                !lost,
                "clean although a flush failed and what it lost does not come back",
            );
            rule(
                self.legs[leg].data == self.legs[leg].durable,
                "clean before all was flushed",
            );
        }
        let differs = self.first_difference(&trusted, |leg, part| leg.bytes(part), |_| true);
        rule(differs.is_none(), "clean while legs differ");
    }

    /// A leg is to be trusted from now on: it holds what others hold, durably.
    fn judge_rebuilt(&self, leg: LegId) {
        let excused = self.excused();
        let counts = |at| {
            let byte = Extent::new(at, 1);
            !excused.iter().any(|excused| excused.contains(byte))
        };
        for other in self.good() {
            let pair = [leg.index(), other.index()];
            let differs = self.first_difference(&pair, |leg, part| leg.bytes(part), counts);
            self.check(differs.is_none(), || {
                format!("{leg} was rebuilt, but differs at {differs:?}")
            });
        }
        self.judge_durable(leg.index(), Extent::new(0, self.setup.size_bytes));
    }

    /// A leg is read from now on.
    pub(crate) fn judge_joined(&self, leg: LegId) {
        self.check(self.legs[leg.index()].rebuilding, || {
            format!("{leg} comes in sync, and was not rebuilt")
        });
        let newest = self.issued.iter().chain([&self.delivered]);
        let mut records = newest.filter(|record| record.faulted.contains(leg));
        let is_recorded = if self.setup.meta.is_some() {
            self.believed().contains(leg)
        } else {
            records.next().is_none()
        };
        self.check(is_recorded, || {
            format!("{leg} is read before that is on record")
        });
        self.judge_rebuilt(leg);
    }

    pub(crate) fn judge_fault(&self, id: LegId, reason: FaultReason) {
        let leg = &self.legs[id.index()];
        let rule = |so: bool, what: &str| self.check(so, || format!("{what}: {id} {reason:?}"));
        rule(leg.is_present(), "faulted twice");
        let failed = |kinds: fn(OpKind) -> bool| {
            leg.failures.iter().any(|failure| {
                let fallback = failure.error == ErrorKind::NotSupported
                    && matches!(failure.kind, OpKind::Trim | OpKind::WriteZeroes);
                kinds(failure.kind) && !fallback
            })
        };
        match reason {
            FaultReason::WriteFailed(_) => rule(failed(OpKind::is_mutating), "wrote well"),
            FaultReason::FlushFailed(_) => {
                rule(failed(|kind| kind == OpKind::Flush), "flushed well");
            }
            FaultReason::ReadFailed(_) => rule(failed(|kind| kind == OpKind::Read), "read well"),
            FaultReason::Short | FaultReason::Lost | FaultReason::ByHand => {
                rule(leg.told, "nobody said so");
            }
            FaultReason::Silent => {
                let waits = self.pending.iter().any(|pending| pending.op.leg == id);
                let quiet = self.now.saturating_since(leg.quiet_since);
                let share = if leg.config.failfast { 6 } else { 1 };
                rule(
                    waits && quiet >= self.setup.leg_timeout / share,
                    "not silent for long enough",
                );
            }
        }
    }

    /// When the oldest read began that is still unanswered.
    fn oldest(&self) -> Tick {
        let reads = self.asked.values();
        reads
            .filter(|asked| matches!(asked.wanted, Wanted::Read(_) | Wanted::Status(_)))
            .map(|asked| asked.start)
            .min()
            .unwrap_or(self.tick)
    }

    pub(crate) fn judge_answer(&mut self, asked: &Asked, reply: &Result<Reply, ErrorKind>) {
        if self.has_lost_behind() {
            return;
        }
        match (asked.wanted, reply) {
            (Wanted::Nonsense, _) => {}
            (Wanted::Read(extent), Ok(Reply::Data(bytes))) => {
                self.check(bytes.len() == index(extent.len()), || {
                    format!("{} bytes for a read of {extent:?}", bytes.len())
                });
                self.judge_read(asked, extent, bytes);
            }
            (Wanted::Read(extent), Err(_)) => {
                self.judge_read_error(asked, extent);
            }
            (Wanted::Status(extent), Ok(Reply::Status(runs))) => {
                self.judge_status(asked, extent, runs);
            }
            (Wanted::Write { extent, write, fua }, Ok(Reply::Done))
            | (
                Wanted::Zeroes {
                    extent, write, fua, ..
                },
                Ok(Reply::Done),
            ) => self.judge_stored(asked, extent, write, fua),
            (Wanted::Trim { write, .. }, Ok(Reply::Done)) => {
                let oldest = self.oldest();
                self.checker.write_done(self.tick, write, oldest);
            }
            (
                Wanted::Zeroes {
                    write,
                    fast_only: true,
                    ..
                },
                Err(ErrorKind::NotSupported),
            ) => self.checker.write_refused(self.tick, write),
            (
                Wanted::Write { extent, write, .. }
                | Wanted::Zeroes { extent, write, .. }
                | Wanted::Trim { extent, write },
                Err(_),
            ) => {
                self.judge_write_error(asked, extent);
                self.checker.write_failed(self.tick, write);
                let parts: Vec<Extent> = self.map.parts(extent).collect();
                for part in parts {
                    if self.is_doomed(asked, part) {
                        self.checker.part_doomed(self.tick, part);
                    }
                }
            }
            (Wanted::Flush, Ok(Reply::Done)) => self.judge_flushed(asked),
            (Wanted::Flush, Err(_)) => {
                // This one, or an earlier one: what that lost does not come back.
                let good = self.good();
                let mut last = good.iter().filter(|leg| self.is_last(*leg));
                let hopeless = self.is_lost
                    || self.is_last_failing(asked.start)
                    || last.any(|leg| self.lost_a_flush(leg));
                self.check(hopeless, || {
                    "a flush failed, but all bytes have legs that flushed well".to_owned()
                });
            }
            (wanted, reply) => self.fail(&format!("{wanted:?} was answered with {reply:?}")),
        }
    }

    fn judge_read(&mut self, asked: &Asked, extent: Extent, bytes: &[u8]) {
        let (times, oldest) = ((asked.start, self.tick), self.oldest());
        let read = self.checker.read_done(times, extent, bytes, oldest);
        if let Err(what) = read {
            self.fail(&what);
        }
    }

    fn judge_read_error(&self, asked: &Asked, extent: Extent) {
        let blocks = extent.aligned_out(u64::from(self.setup.block_bytes));
        let hopeless = self.map.parts(blocks).any(|part| {
            let failed =
                |leg: LegId| self.legs[leg.index()].failed(part, 0, |kind| kind == OpKind::Read);
            let holders = self.holders_since(asked, part);
            let was_bad =
                |leg: LegId, at| self.is_bad(leg, at) || self.was_bad(leg, at, asked.start);
            let has_none = |at| holders.iter().all(|leg| failed(leg) || was_bad(leg, at));
            (part.offset()..part.end()).step_by(SECTOR).any(has_none)
        });
        self.check(hopeless, || {
            format!("a read of {extent:?} failed, but every part has a leg that was not asked")
        });
    }

    pub(crate) fn holders_in_sync(&self, part: Extent) -> LegSet {
        let holders = self.map.holders(part.offset());
        holders.intersection(self.good())
    }

    /// The legs in sync that hold it, and were in sync when it was asked for.
    fn holders_since(&self, asked: &Asked, part: Extent) -> LegSet {
        let holders = self.map.holders(part.offset());
        let good = holders.intersection(self.good()).iter();
        good.filter(|leg| self.legs[leg.index()].in_sync_since <= asked.start)
            .collect()
    }

    fn lost_a_flush(&self, leg: LegId) -> bool {
        let nowhere = Extent::default();
        self.legs[leg.index()].failed(nowhere, 0, |kind| kind == OpKind::Flush)
    }

    /// What the background says it found.
    pub(crate) fn judge_background(&self, event: &Event) {
        if let Event::Mismatch { extent, .. } = *event {
            let failed = self.checker.failed_extents();
            let mut known = failed.iter().chain(&self.corrupted);
            self.check(known.any(|known| known.overlaps(extent)), || {
                format!("legs are told to differ at {extent:?}, and do not")
            });
        }
        if let Event::Unreadable { extent } = *event {
            let holders = self.map.holders(extent.offset());
            let failed = |leg: LegId| {
                let has_failed = |kind| kind == OpKind::Read;
                self.legs[leg.index()].failed(extent, 0, has_failed)
                    || self.is_bad(leg, extent.offset())
            };
            let mut good = holders.intersection(self.good()).iter();
            self.check(good.all(failed), || {
                format!("{extent:?} is called unreadable, but a leg was not asked")
            });
        }
        let is_resync = matches!(
            event,
            Event::BackgroundEnded {
                kind: BackgroundKind::Resync,
                end: BackgroundEnd::Done,
                ..
            }
        );
        if is_resync {
            let excused = self.excused();
            let counts = |at| !excused.iter().any(|one| one.contains(Extent::new(at, 1)));
            let good: Vec<usize> = self.good().iter().map(LegId::index).collect();
            let differs = self.first_difference(&good, |leg, part| leg.bytes(part), counts);
            self.check(differs.is_none(), || {
                format!("resynced, but byte and legs differ: {differs:?}")
            });
        }
    }

    /// Where legs in sync may differ now: writes are under way, or have failed.
    fn excused(&self) -> Vec<Extent> {
        let under_way = self.asked.values();
        let under_way = under_way.filter_map(|asked| asked.wanted.changes());
        let mut excused: Vec<Extent> = under_way.collect();
        excused.extend(self.engine.divergent().map(|(extent, _)| extent));
        excused.extend(&self.corrupted);
        excused.extend(self.behind.iter().map(|behind| behind.extent));
        let block = u64::from(self.setup.block_bytes);
        excused.iter().map(|part| part.aligned_out(block)).collect()
    }

    /// The legs in sync, as they are seen from here.
    pub(crate) fn good(&self) -> LegSet {
        let good = (0..self.legs.len()).filter(|&leg| self.legs[leg].is_in_sync());
        good.map(LegId::new).collect()
    }

    /// Whether bytes of the array depend on a leg alone.
    pub(crate) fn is_last(&self, leg: LegId) -> bool {
        let rest = self.good().difference(LegSet::from_iter([leg]));
        !self.map.is_covered_by(rest)
    }

    /// The first byte that `counts` and that two of `legs` which hold it have different.
    pub(crate) fn first_difference<'a>(
        &'a self,
        legs: &[usize],
        bytes: impl Fn(&'a Leg, Extent) -> &'a [u8],
        counts: impl Fn(u64) -> bool,
    ) -> Option<(u64, usize, usize)> {
        let all = Extent::new(0, self.setup.size_bytes);
        for part in self.map.parts(all) {
            let holders = self.map.holders(part.offset());
            let here = legs.iter().map(|&leg| LegId::new(leg)).collect();
            for (one, other) in pairs_of(holders.intersection(here)) {
                let bytes_of = |leg: LegId| bytes(&self.legs[leg.index()], part);
                let (mine, others) = (bytes_of(one), bytes_of(other));
                if mine == others {
                    continue;
                }
                let mut places = (part.offset()..).zip(mine.iter().zip(others));
                let differs = places.find(|(at, (mine, others))| {
                    let is_bad = || self.is_bad(one, *at) || self.is_bad(other, *at);
                    mine != others && counts(*at) && !is_bad()
                });
                if let Some((at, _)) = differs {
                    return Some((at, one.index(), other.index()));
                }
            }
        }
        None
    }

    fn judge_status(&mut self, asked: &Asked, extent: Extent, runs: &[StatusRun]) {
        self.check(!runs.is_empty(), || "no run at all".to_owned());
        let mut at = extent.offset();
        for run in runs {
            self.check(
                run.len_bytes > 0 && at + run.len_bytes <= extent.end(),
                || format!("a run of {} bytes at {at}", run.len_bytes),
            );
            let part = Extent::new(at, run.len_bytes);
            at = part.end();
            if !run.zero && !run.hole {
                continue;
            }
            let zeros = vec![0; index(part.len())];
            self.judge_read(asked, part, &zeros);
            let under_way = self.pending.iter().filter(|pending| pending.stores_bytes());
            let under_way = under_way
                .map(|pending| pending.op)
                .filter(|op| self.legs[op.leg.index()].is_in_sync());
            let ended = self.ended.iter();
            let ended = ended.filter_map(|&(op, end)| (end >= asked.start).then_some(op));
            let clash = under_way.chain(ended).find(|op| op.extent.overlaps(part));
            self.check(clash.is_none(), || {
                format!("{part:?} called zero while it was written: {clash:?}")
            });
        }
    }

    /// A write was answered well: it is on every leg that may be believed.
    fn judge_stored(&mut self, asked: &Asked, extent: Extent, write: usize, fua: bool) {
        let oldest = self.oldest();
        self.checker.write_done(self.tick, write, oldest);
        if fua {
            self.checker.write_durable(write);
        }
        for leg in self.trusted(&self.delivered) {
            let leg_is = &self.legs[leg];
            if self.is_behind(LegId::new(leg), asked) {
                continue;
            }
            for part in self.held_well(leg, extent) {
                self.check(leg_is.written_since(part, asked.start), || {
                    format!("write {write} was answered, but not written to leg {leg}")
                });
                let holds = (self.checker).check_holds(write, part, leg_is.bytes(part));
                if let Err(what) = holds {
                    self.fail(&format!("write {write} is not on leg {leg}: {what}"));
                }
            }
            if fua {
                self.judge_durable(leg, extent);
            }
        }
        self.note_behind(asked);
        self.lost_with_legs
            .retain(|at| !extent.overlaps(Extent::new(*at, SECTOR_BYTES)));
        self.judge_anywhere(extent, fua);
    }

    /// What was written well is on some leg that does not say it is not: in what it holds durably,
    /// where the write is to be durable.
    fn judge_anywhere(&self, extent: Extent, is_durable: bool) {
        if self.setup.meta.is_none() {
            return;
        }
        for part in self.map.parts(extent) {
            let holders = self.holders_in_sync(part);
            let log_of = |leg| match is_durable {
                true => self.log_on(leg),
                false => self.engine.bad_blocks(leg).clone(),
            };
            let logs: Vec<(LegId, BadBlocks)> =
                holders.iter().map(|leg| (leg, log_of(leg))).collect();
            if logs.iter().any(|(_, log)| log.is_empty()) {
                continue;
            }
            let is_bad = |at, (leg, log): &(LegId, BadBlocks)| self.is_in_log(log, *leg, at);
            let is_lost = |at: &u64| logs.iter().all(|log| is_bad(*at, log));
            // A block is lost as a whole, whatever part of it failed to be written.
            let is_certain = |at: &u64| {
                let block = Extent::new(*at, 1).aligned_out(u64::from(self.setup.block_bytes));
                self.checker.is_certain(block)
            };
            let mut sectors = (part.offset()..part.end()).step_by(SECTOR);
            let sector_of = |at: u64| at / SECTOR_BYTES * SECTOR_BYTES;
            let went = |at: &u64| self.lost_with_legs.contains(&sector_of(*at));
            let lost = sectors.find(|at| is_lost(at) && is_certain(at) && !went(at));
            self.check(lost.is_none(), || {
                format!("{extent:?} was written, but no leg has byte {lost:?}")
            });
        }
    }

    pub(crate) fn judge_durable(&self, leg: usize, extent: Extent) {
        for part in self.held_well(leg, extent) {
            let bytes = self.legs[leg].durable_bytes(part);
            if let Err(what) = self.checker.check_durable(part, bytes) {
                self.fail(&format!("not durable on leg {leg}: {what}"));
            }
        }
    }

    fn judge_flushed(&mut self, asked: &Asked) {
        let changed = self.checker.all_durable(asked.start);
        for leg in self.trusted(&self.delivered) {
            for &extent in &changed {
                self.judge_durable(leg, extent);
            }
        }
        for &extent in &changed {
            self.judge_anywhere(extent, true);
        }
    }

    /// A write may fail only if a part of it is bound to.
    fn judge_write_error(&self, asked: &Asked, extent: Extent) {
        let mut parts = self.map.parts(extent);
        let doomed = parts.any(|part| self.is_doomed(asked, part));
        self.check(doomed, || {
            format!("a write of {extent:?} failed, but each part has legs that did it")
        });
    }

    /// Whether no leg that is left did this part of a write, or one did not that must stay.
    fn is_doomed(&self, asked: &Asked, part: Extent) -> bool {
        let holders = self.holders_since(asked, part);
        let has_failed = |leg: LegId| self.has_failed(leg.index(), asked, part);
        let fails_for_good = |leg: LegId| {
            let blocks = part.aligned_out(u64::from(self.setup.block_bytes));
            let mut failures = self.legs[leg.index()].failures.iter();
            let is_final = |kind| matches!(kind, OpKind::Write | OpKind::Flush);
            failures.any(|failure| {
                // Another leg may have come in sync since.
                (failure.was_last || self.is_last(leg))
                    && failure.tick >= asked.start
                    && is_final(failure.kind)
                    && failure.error != ErrorKind::NotSupported
                    && (failure.kind == OpKind::Flush || failure.extent.overlaps(blocks))
            })
        };
        // One that came in sync since was sent it as well, and may have to stay by now.
        let here = self.map.holders(part.offset()).intersection(self.good());
        holders.iter().all(has_failed)
            || self.is_last_failing(asked.start)
            || here.iter().any(fails_for_good)
    }

    fn has_failed(&self, leg: usize, asked: &Asked, extent: Extent) -> bool {
        let blocks = extent.aligned_out(u64::from(self.setup.block_bytes));
        let id = LegId::new(leg);
        let leg = &self.legs[leg];
        let mut sectors = (blocks.offset()..blocks.end()).step_by(SECTOR);
        sectors.any(|at| self.is_bad(id, at) || self.was_bad(id, at, asked.start))
            || leg.failed(blocks, asked.start, |kind| kind != OpKind::Read)
            || leg.failed(blocks, 0, |kind| kind == OpKind::Read)
    }

    /// A leg is out, or has failed something: parts of writes that are bound to fail now will, and
    /// what they wrote elsewhere may have been seen.
    pub(crate) fn doom_writes(&mut self) {
        let legs = 0..self.legs.len();
        let last: Vec<usize> = legs.filter(|leg| self.is_last(LegId::new(*leg))).collect();
        for leg in last {
            // The other one may have gone before anything followed from what this one failed.
            let failures = self.legs[leg].failures.iter_mut();
            failures.for_each(|failure| failure.was_last = true);
        }
        let mut doomed = Vec::new();
        for asked in self.asked.values() {
            match asked.wanted {
                Wanted::Write { extent, .. }
                | Wanted::Zeroes { extent, .. }
                | Wanted::Trim { extent, .. } => {
                    let parts = self.map.parts(extent);
                    doomed.extend(parts.filter(|&part| self.is_doomed(asked, part)));
                }
                Wanted::Read(_) | Wanted::Flush | Wanted::Status(_) | Wanted::Nonsense => {}
            }
        }
        for part in doomed {
            self.checker.part_doomed(self.tick, part);
        }
    }

    /// The power fails. What the record and the legs say together must be right.
    pub(crate) fn cut_power(&mut self) {
        for at in 0..self.pending.len() {
            self.stir(at);
        }
        for leg in &mut self.legs {
            leg.cut_power(&mut self.prng);
        }
        if self.setup.meta.is_some() {
            self.say(|| "the power fails".to_owned());
            return self.judge_power_cut();
        }
        let choice = self.prng.below(self.issued.len() as u64 + 1);
        let record = match choice {
            0 => self.delivered,
            issued => self.issued[index(issued - 1)],
        };
        self.say(|| format!("the power fails; the record is {record:?}"));
        let trusted = self.trusted(&record);
        let set: LegSet = trusted.iter().copied().map(LegId::new).collect();
        self.check(self.map.is_covered_by(set), || {
            "bytes have no leg that is trusted".to_owned()
        });
        for &leg in &trusted {
            self.judge_durable(leg, Extent::new(0, self.setup.size_bytes));
        }
        let differs =
            self.first_difference(&trusted, |leg, part| leg.durable_bytes(part), |_| true);
        self.check(record.dirty || differs.is_none(), || {
            "the record says clean, but the legs differ".to_owned()
        });
    }
}
