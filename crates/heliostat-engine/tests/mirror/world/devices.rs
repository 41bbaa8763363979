//! What legs do, and what is done to them.

use heliostat_engine::{
    AddRefusal, Event, FaultReason, Input, LegConfig, LegFlags, LegOp, LegState, Missed, Spare,
    SpareId,
};
use heliostat_types::{ErrorKind, Extent, LegId, OpKind, Prng, StatusRun};

use super::{Asked, Outcome, Pending, Wanted, World};
use crate::fill::{Fill, index};
use crate::leg::{Failure, SECTOR};

impl World {
    /// The pending operations that are so, by place in `pending`.
    pub(crate) fn find(&self, so: impl Fn(&Pending) -> bool) -> Vec<usize> {
        (0..self.pending.len())
            .filter(|&at| so(&self.pending[at]))
            .collect()
    }

    /// Some sectors of a pending write reach the medium; a read's memory is scribbled over.
    pub(crate) fn stir(&mut self, at: usize) {
        let op = self.pending[at].op;
        match op.kind {
            OpKind::Read => {
                let range = self.pending[at].range.clone().expect("a read has memory");
                self.spoil(range);
            }
            OpKind::Write | OpKind::Trim | OpKind::WriteZeroes => self.store_some(at),
            OpKind::Flush | OpKind::BlockStatus => {}
        }
    }

    fn store_some(&mut self, at: usize) {
        self.judge_snapshot(at);
        let pending = &self.pending[at];
        let of_eight = self.prng.below(9);
        let leg = &mut self.legs[pending.op.leg.index()];
        let first = index(pending.op.extent.offset()) / SECTOR;
        for sector in 0..index(pending.op.extent.len()) / SECTOR {
            if self.prng.below(8) < of_eight {
                let bytes = (pending.snapshot.get(sector * SECTOR..(sector + 1) * SECTOR))
                    .unwrap_or(&[0; SECTOR]);
                leg.store_sector(first + sector, bytes);
            }
        }
    }

    /// Whoever asked for what a leg has failed to read may have waited for a write beside it before
    /// another leg is read instead: until then others are shown what the first one holds.
    pub(crate) fn may_fail_over(&mut self, op: &LegOp) {
        let oldest = self.asked.values().map(|asked| asked.start).min();
        let oldest = oldest.unwrap_or(self.tick);
        self.failed_reads.retain(|&(_, tick)| oldest < tick);
        let mut failed = self.failed_reads.iter();
        let is_of = |failed: &LegOp| failed.leg != op.leg && failed.extent.overlaps(op.extent);
        if op.kind == OpKind::Read && failed.any(|(failed, _)| is_of(failed)) {
            self.forget_failed();
        }
    }

    /// The pending operations that are done as one with this one, in order, by place in `pending`.
    pub(crate) fn joined(&self, at: usize) -> Vec<usize> {
        let place = |so: &dyn Fn(&LegOp) -> bool| {
            let mut pending = self.pending.iter();
            pending.position(|pending| so(&pending.op))
        };
        let mut first = at;
        while let Some(before) = place(&|op| op.next == Some(self.pending[first].op.id)) {
            first = before;
        }
        let mut all = vec![first];
        while let Some(next) = self.pending[all[all.len() - 1]].op.next {
            all.push(place(&|op| op.id == next).expect("they end together"));
        }
        all
    }

    /// Whether a read, a write, or what is done as one with it, meets sectors that cannot be.
    pub(crate) fn meets_bad(&self, at: usize) -> bool {
        let joined = self.joined(at);
        let mut ops = joined.iter().map(|&at| &self.pending[at].op);
        ops.any(|op| {
            let leg = &self.legs[op.leg.index()];
            op.kind == OpKind::Read && leg.has_bad(op.extent)
                || op.kind == OpKind::Write && leg.is_stuck(op.extent)
        })
    }

    /// Ends a pending operation, and all that are done as one with it.
    pub(crate) fn complete(&mut self, at: usize, outcome: Outcome) {
        let joined: Vec<LegOp> = self
            .joined(at)
            .iter()
            .map(|&at| self.pending[at].op)
            .collect();
        for op in &joined {
            let mut pending = self.pending.iter();
            let at = pending.position(|pending| pending.op.id == op.id);
            let at = at.expect("only what has ended is gone");
            self.complete_one(at, outcome, joined.len() > 1);
        }
    }

    fn complete_one(&mut self, at: usize, outcome: Outcome, is_joined: bool) {
        self.tick += 1;
        let op = self.pending[at].op;
        self.say(|| format!("{} ends op {} {outcome:?}", op.leg, op.id.0));
        let has_cache = !self.legs[op.leg.index()].unflushed().is_empty();
        let runs = self.carry_out(at, outcome);
        let is_unflushed = self.fails_to_flush(at, outcome);
        let pending = self.pending.remove(at);
        self.note_end(&pending);
        let was_last = self.is_last(op.leg);
        if op.kind == OpKind::Write && !op.fua {
            self.end_doubt(op.leg, |of_fua| of_fua == op.extent);
        }
        let leg = &mut self.legs[op.leg.index()];
        leg.quiet_since = self.now;
        let error = match outcome {
            Outcome::Good => None,
            Outcome::Bad(error) => Some(error),
            Outcome::Short => Some(ErrorKind::Io),
        };
        // Which of those that were done as one has failed is told when each is sent by itself.
        let is_told = !(is_joined && matches!(outcome, Outcome::Bad(_)));
        if let Some(error) = error.filter(|_| is_told) {
            leg.failures.push(Failure {
                kind: op.kind,
                extent: op.extent,
                tick: self.tick,
                error,
                was_last,
                may_lose: op.kind == OpKind::Flush && has_cache,
                of_fua: None,
            });
            if op.fua && op.kind == OpKind::Write && error != ErrorKind::NotSupported {
                // Nobody is told that it was not the flush.
                leg.failures.push(Failure {
                    kind: OpKind::Flush,
                    extent: Extent::default(),
                    tick: self.tick,
                    error,
                    was_last,
                    may_lose: is_unflushed,
                    of_fua: Some(op.extent),
                });
            }
        } else if op.kind == OpKind::Flush {
            leg.flush(&pending.image, pending.sent);
        } else if error.is_none() {
            self.note_stored(&pending);
        }
        if error.is_some() && is_told {
            self.doom_writes();
            if op.kind == OpKind::Read {
                self.failed_reads.push((op, self.tick));
                self.forget_failed();
            }
        }
        let completion = if op.kind == OpKind::BlockStatus {
            let result = error.map_or(Ok(runs), Err);
            Input::StatusCompletion { op: op.id, result }
        } else {
            let result = error.map_or(Ok(()), Err);
            Input::LegCompletion { op: op.id, result }
        };
        let short_first = self.prng.below(2) == 0;
        if outcome == Outcome::Short && short_first {
            self.fail_leg(op.leg, FaultReason::Short);
        }
        self.input(completion);
        if outcome == Outcome::Short && !short_first {
            self.fail_leg(op.leg, FaultReason::Short);
        }
    }

    /// It is known whether writes with FUA of this leg have failed by their flush: then what
    /// flushes have failed since is heard as well.
    pub(crate) fn end_doubt(&mut self, leg: LegId, is_of: impl Fn(Extent) -> bool) {
        let mut since = None;
        for failure in &mut self.legs[leg.index()].failures {
            if failure.of_fua.is_some_and(&is_of) {
                failure.of_fua = None;
                since = Some(since.unwrap_or(failure.tick).min(failure.tick));
            }
        }
        let Some(since) = since else { return };
        for leg in &mut self.legs {
            let flushes = leg.failures.iter_mut();
            let flushes = flushes.filter(|failure| failure.kind == OpKind::Flush);
            for failure in flushes.filter(|failure| failure.tick >= since) {
                failure.tick = self.tick;
            }
        }
    }

    /// Whether it is its flush that a write with FUA has failed by, and there is something to lose.
    fn fails_to_flush(&mut self, at: usize, outcome: Outcome) -> bool {
        let op = self.pending[at].op;
        let is_error = matches!(outcome, Outcome::Bad(ErrorKind::Io | ErrorKind::NoSpace));
        // That there is no room for metadata is no news of anything else.
        let is_full = outcome == Outcome::Bad(ErrorKind::NoSpace) && self.is_metadata(&op);
        let is_write = op.fua && op.kind == OpKind::Write;
        let is_unflushed = is_write && is_error && !is_full && !self.meets_bad(at);
        if !is_unflushed || self.prng.below(2) == 0 {
            return false;
        }
        let leg = &mut self.legs[op.leg.index()];
        let may_lose = !leg.unflushed().is_empty();
        leg.fail_flush(self.tick, &mut self.prng);
        leg.unflushable.push(op.extent);
        may_lose
    }

    fn note_end(&mut self, pending: &Pending) {
        let is_status = |asked: &Asked| matches!(asked.wanted, Wanted::Status(_));
        if !self.asked.values().any(is_status) {
            self.ended.clear();
        } else if pending.stores_bytes() && self.legs[pending.op.leg.index()].is_in_sync() {
            self.ended.push((pending.op, self.tick));
        }
    }

    /// Moves the bytes of an operation that ends now.
    fn carry_out(&mut self, at: usize, outcome: Outcome) -> Vec<StatusRun> {
        let Pending {
            op, sent, ghost, ..
        } = self.pending[at];
        let leg = op.leg.index();
        match (op.kind, outcome) {
            (OpKind::Read, Outcome::Good) if !ghost => {
                let range = self.pending[at].range.clone().expect("a read has memory");
                let bytes = self.legs[leg].bytes(op.extent);
                self.arena.bytes_mut(range).copy_from_slice(bytes);
            }
            (OpKind::Read, _) => {
                let range = self.pending[at].range.clone().expect("a read has memory");
                self.spoil(range);
            }
            (OpKind::Write | OpKind::Trim | OpKind::WriteZeroes, Outcome::Good) => {
                self.judge_snapshot(at);
                let zeros = vec![0; index(op.extent.len())];
                let bytes = if op.kind == OpKind::Write {
                    &self.pending[at].snapshot
                } else {
                    &zeros
                };
                self.legs[leg].store(op.extent, bytes, sent);
                if op.fua {
                    self.legs[leg].harden(op.extent, self.tick);
                }
            }
            (OpKind::Trim | OpKind::WriteZeroes, Outcome::Bad(ErrorKind::NotSupported)) => {}
            (OpKind::Write | OpKind::Trim | OpKind::WriteZeroes, _) => self.store_some(at),
            (OpKind::Flush, Outcome::Good) => {}
            (OpKind::Flush, Outcome::Bad(ErrorKind::NotSupported)) => {
                // It has no cache.
                let all = Extent::new(0, self.legs[leg].data.len() as u64);
                self.legs[leg].harden(all, self.tick);
            }
            (OpKind::Flush, _) => self.legs[leg].fail_flush(self.tick, &mut self.prng),
            (OpKind::BlockStatus, _) => return self.runs(leg, op.extent),
        }
        Vec::new()
    }

    /// What a leg says of its zeros: the truth, but not always all of it.
    fn runs(&mut self, leg: usize, extent: Extent) -> Vec<StatusRun> {
        let block = index(u64::from(self.setup.block_bytes));
        let shy = self.prng.below(4) == 0;
        let mut runs: Vec<StatusRun> = Vec::new();
        for chunk in self.legs[leg].bytes(extent).chunks(block) {
            let zero = chunk.iter().all(|&byte| byte == 0);
            let told = zero && !(shy && self.prng.below(2) == 0);
            match runs.last_mut() {
                Some(last) if last.zero == told => last.len_bytes += chunk.len() as u64,
                _ => runs.push(StatusRun {
                    len_bytes: chunk.len() as u64,
                    hole: told,
                    zero: told,
                }),
            }
        }
        runs
    }

    pub(crate) fn set_rates(&mut self, min_bytes_per_s: u64, max_bytes_per_s: u64) {
        self.input(Input::SetBackgroundRates {
            min_bytes_per_s,
            max_bytes_per_s,
        });
    }

    /// The power failed in the middle of writes everywhere: each leg holds something else. The
    /// engine is told that everything is needed; whichever leg's bytes are read once, stay.
    pub(crate) fn stop_uncleanly(&mut self) {
        let all = Extent::new(0, self.setup.size_bytes);
        for leg in 0..self.legs.len() {
            let fill = Fill::Pattern(self.checker.next_write());
            let write = (self.checker).write_asked(self.tick, all, fill, true);
            let bytes = &mut self.legs[leg];
            fill.write(0, &mut bytes.data);
            bytes.durable.copy_from_slice(&bytes.data);
            self.tick += 1;
            self.checker.write_failed(self.tick, write);
        }
        self.checker.part_doomed(self.tick, all);
        self.say(|| "an unclean stop".to_owned());
        self.input(Input::StartResync { everything: true });
    }

    /// A leg that is out is there again: as it was, or with rubbish on it. Whether it was taken.
    pub(crate) fn add_leg(&mut self, leg: LegId, rubbish: Option<u8>, missed: Missed) -> bool {
        self.say(|| format!("add {leg}, rubbish {rubbish:?}, {missed:?}"));
        let config = LegConfig {
            state: LegState::InSync,
            ..self.legs[leg.index()].config
        };
        let before = self.events.len();
        let busy = self.pending.iter().any(|pending| pending.op.leg == leg);
        let is_out = !self.legs[leg.index()].is_present();
        let refusal = self.engine.add_refusal(leg);
        let is_recorded = !matches!(refusal, Some(AddRefusal::Unrecorded | AddRefusal::NoRole));
        if is_out && !busy && is_recorded {
            self.legs[leg.index()].come_back(config, rubbish);
            self.mark_incomplete(leg);
        }
        let superblock = self.superblock_on(leg).map(Box::new);
        let bad_blocks = self.log_in_use(leg).map(Box::new);
        self.input(Input::AddLeg {
            leg,
            config,
            missed,
            superblock,
            bad_blocks,
        });
        let added = self.events[before..].contains(&Event::LegAdded { leg });
        self.check(added == (is_out && !busy && is_recorded), || {
            format!("{leg}: added {added}, is out {is_out}, is busy {busy}")
        });
        added
    }

    /// A leg is to be replaced by a device with rubbish on it. Whether that was begun.
    pub(crate) fn replace(&mut self, leg: LegId) -> bool {
        self.say(|| format!("replace {leg}"));
        // While another one is replaced there is none; of a mirror that has grown none is there.
        let free = self.engine.free_leg().unwrap_or(leg);
        if self.engine.map().legs() >= self.legs.len() {
            return false;
        }
        let refusal = self.engine.replace_refusal(leg);
        let is_good = self.good().contains(leg);
        let is_busy = self.pending.iter().any(|pending| pending.op.leg == free);
        let is_begun = self.engine.replacing().is_some();
        let is_recorded = refusal != Some(AddRefusal::Unrecorded);
        let may = is_good && !is_busy && !is_begun && is_recorded;
        self.check(refusal.is_none() == may, || {
            format!("{leg} cannot be replaced: {refusal:?}")
        });
        let config = LegConfig {
            state: LegState::InSync,
            ..self.legs[free.index()].config
        };
        let superblock = if may {
            self.legs[free.index()].come_back(config, None);
            self.legs[free.index()].bad.clear();
            let role = self.engine.map().role_of(leg);
            self.give_role(free, role.expect("it is in sync"));
            self.format_new(free)
        } else {
            self.superblock_on(leg).expect("it has one")
        };
        let before = self.events.len();
        self.input(Input::ReplaceLeg {
            leg,
            config,
            superblock: Box::new(superblock),
        });
        let begun = Event::ReplaceBegun { leg, by: free };
        let is_begun = self.events[before..].contains(&begun);
        self.check(is_begun == may, || format!("{leg}: begun {is_begun}"));
        is_begun
    }

    /// A mirror is to have one more leg.
    pub(crate) fn grow(&mut self) {
        self.say(|| "grow".to_owned());
        self.input(Input::Grow);
    }

    /// A device with rubbish on it is added in a role that no leg has ever had. Whether it was.
    pub(crate) fn add_first(&mut self, leg: LegId) -> bool {
        self.say(|| format!("{leg} is the first in its role"));
        if self.engine.add_refusal(leg).is_some() {
            return false;
        }
        let config = LegConfig {
            state: LegState::InSync,
            ..self.legs[leg.index()].config
        };
        self.legs[leg.index()].come_back(config, None);
        self.legs[leg.index()].bad.clear();
        let superblock = self.format_new(leg);
        self.input(Input::AddLeg {
            leg,
            config,
            missed: Missed::From(0),
            superblock: Some(Box::new(superblock)),
            bad_blocks: None,
        });
        self.check(self.legs[leg.index()].rebuilding, || {
            format!("{leg} is not added")
        });
        true
    }

    /// Something else is said of a leg. It may be behind until that it is not is durable.
    pub(crate) fn set_flags(&mut self, leg: LegId, flags: LegFlags) {
        self.say(|| format!("{leg} is {flags:?}"));
        self.input(Input::SetFlags { leg, flags });
    }

    /// There is one more spare.
    pub(crate) fn add_spare(&mut self, room_bytes: u64) -> SpareId {
        self.spares_ever += 1;
        let id = SpareId(self.spares_ever);
        self.say(|| format!("{id:?} of {room_bytes} bytes"));
        let spare = Spare { id, room_bytes };
        self.spares.push(spare);
        self.input(Input::AddSpare(spare));
        id
    }

    /// A device with rubbish on it takes the place of a leg, under the number of that one.
    pub(crate) fn put_in_place(&mut self, spare: SpareId, leg: LegId) {
        let is_out = !self.legs[leg.index()].is_present();
        let is_busy = self.pending.iter().any(|pending| pending.op.leg == leg);
        let is_alone = !self.legs.iter().any(|leg| leg.rebuilding);
        self.check(is_out && !is_busy && is_alone, || {
            format!("{spare:?} is called too soon for {leg}")
        });
        self.spares.retain(|known| known.id != spare);
        if self.broken_spares.contains(&spare) {
            return self.input(Input::RemoveSpare(spare));
        }
        let superblock = self.superblock_on(leg).expect("spares are for metadata");
        let size_bytes = index(self.setup.size_bytes);
        let slot = &mut self.legs[leg.index()];
        slot.data[..size_bytes].fill(0x5a);
        slot.durable[..size_bytes].fill(0x5a);
        let config = LegConfig {
            state: LegState::InSync,
            ..slot.config
        };
        slot.come_back(config, None);
        slot.bad.clear();
        self.mark_empty(leg);
        self.input(Input::AddLeg {
            leg,
            config,
            missed: Missed::From(0),
            superblock: Some(Box::new(superblock)),
            bad_blocks: None,
        });
    }

    pub(crate) fn fail_leg(&mut self, leg: LegId, reason: FaultReason) {
        self.say(|| format!("fail {leg} {reason:?}"));
        self.legs[leg.index()].told = true;
        self.is_lost |= reason == FaultReason::Lost && self.is_last(leg);
        self.input(Input::FailLeg { leg, reason });
    }
}
