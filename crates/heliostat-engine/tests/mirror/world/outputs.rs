//! What the engine says is carried out, and judged.

use std::ops::Range;

use heliostat_engine::{
    Answer, ArrayRecord, BufferStep, Event, FaultReason, LegOp, LegState, Map, Output,
};
use heliostat_types::{ErrorKind, Extent, LegId, OpKind, Prng};

use super::{Held, Pending, Reply, World};

impl World {
    pub(crate) fn drain(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Dispatch(op) => self.on_dispatch(op),
                Output::Buffer(step) => self.on_step(step),
                Output::Compare(comparison) => {
                    let compared = comparison.carry_out(self.engine.buffers(), &self.arena);
                    self.compared.push(compared);
                }
                Output::Complete { id, result } => self.on_complete(id.0, result),
                Output::Persist(record) => self.on_persist(record),
                Output::Event(event) => self.on_event(event),
                Output::UseSpare { spare, leg } => {
                    self.say(|| format!("  {spare:?} takes the place of {leg}"));
                    self.called = Some((spare, leg));
                }
                Output::MemoryFreed => {
                    self.say(|| "memory freed".to_owned());
                    self.refused = false;
                }
            }
        }
        let nothing = self.joining.is_none();
        self.check(nothing, || {
            "all that is done as one comes at once".to_owned()
        });
        self.judge_states();
        self.judge_behind();
        if self.engine.is_idle() {
            self.at_rest = self.tick;
        }
        if self.setup.meta.is_some() && self.prng.below(16) == 0 {
            self.judge_power_cut();
        }
    }

    /// The same operation with its extent on the array, where all bytes are kept here.
    fn on_array(&self, op: LegOp) -> LegOp {
        if op.extent.is_empty() {
            return op;
        }
        let data_offset = self.legs[op.leg.index()].config.data_offset_bytes;
        if op.extent.end() <= data_offset {
            // Behind the array's bytes.
            let extent = op.extent.moved(self.setup.size_bytes);
            return LegOp { extent, ..op };
        }
        let Some(offset) = op.extent.offset().checked_sub(data_offset) else {
            self.fail(&format!("metadata and data at once: {op:?}"));
        };
        let op = LegOp {
            extent: Extent::new(offset, op.extent.len()),
            ..op
        };
        let address = |at: u64| self.map.array_address(op.leg, at);
        let (first, last) = (address(op.extent.offset()), address(op.extent.end() - 1));
        let (Some(first), Some(last)) = (first, last) else {
            self.fail(&format!("no byte of the array is there: {op:?}"));
        };
        let extent = Extent::new(first, op.extent.len());
        let is_one = last == extent.end() - 1 && self.map.first_part(extent) == extent;
        self.check(is_one, || format!("it crosses a border: {op:?}"));
        LegOp { extent, ..op }
    }

    fn on_dispatch(&mut self, op: LegOp) {
        self.judge_joined_ops(&op);
        let op = self.on_array(op);
        self.say(|| {
            format!(
                "  op {} {} {:?} {:?}{}",
                op.id.0,
                op.leg,
                op.kind,
                op.extent,
                if op.fua { " fua" } else { "" }
            )
        });
        let is_new = self.ops_used.insert(op.id.0);
        self.check(is_new, || {
            "the number of an operation was used before".to_owned()
        });
        let range = op.memory.map(|slice| self.engine.buffers().resolve(slice));
        self.judge_dispatch(&op, range.as_ref());
        self.judge_bits(&op);
        self.may_fail_over(&op);
        self.mutated |= op.kind.is_mutating() && !self.is_metadata(&op);
        let mut snapshot = Vec::new();
        if let Some(range) = &range {
            if op.kind == OpKind::Write {
                snapshot = self.arena.bytes(range.clone()).to_vec();
                if self.is_metadata(&op) {
                    self.metadata_writes += 1;
                    self.judge_metadata_write(&op, &snapshot);
                }
            } else {
                self.spoil(range.clone());
            }
        }
        let leg = &mut self.legs[op.leg.index()];
        if !self.pending.iter().any(|pending| pending.op.leg == op.leg) {
            leg.quiet_since = self.now;
        }
        let image = if op.kind == OpKind::Flush {
            leg.data.clone()
        } else {
            Vec::new()
        };
        self.pending.push(Pending {
            op,
            range,
            snapshot,
            sent: self.tick,
            image,
            ghost: false,
        });
    }

    /// What is done as one is alike, data, in a row, and comes in a row.
    fn judge_joined_ops(&mut self, op: &LegOp) {
        let before = self.joining.take();
        if let Some(before) = before {
            let is_next = before.next == Some(op.id) && before.leg == op.leg;
            let is_alike = (before.kind, before.fua) == (op.kind, op.fua);
            let in_row = before.extent.end() == op.extent.offset();
            self.check(is_next && is_alike && in_row, || {
                format!("{op:?} is done as one with {before:?}")
            });
            self.merges += 1;
        }
        if before.is_some() || op.next.is_some() {
            let moves = matches!(op.kind, OpKind::Read | OpKind::Write);
            let is_data = op.extent.offset() >= self.legs[op.leg.index()].config.data_offset_bytes;
            self.check(moves && !op.fua && is_data, || {
                format!("{op:?} is done by itself")
            });
        }
        self.joining = op.next.map(|_| *op);
    }

    /// A leg may write anything into the memory of a read before it has ended.
    pub(crate) fn spoil(&mut self, range: Range<usize>) {
        let rubbish = self.prng.next_u64().to_le_bytes();
        for chunk in self.arena.bytes_mut(range).chunks_mut(rubbish.len()) {
            chunk.copy_from_slice(&rubbish[..chunk.len()]);
        }
    }

    fn on_step(&mut self, step: BufferStep) {
        if !matches!(step, BufferStep::Store { .. }) {
            self.say(|| format!("  {step:?}"));
        }
        let (BufferStep::Copy { to: at, .. }
        | BufferStep::Zero { at }
        | BufferStep::Store { at, .. }) = step;
        let range = self.engine.buffers().resolve(at);
        self.judge_free_for_writing(&range, "a buffer step");
        self.engine.buffers().execute(step, &mut self.arena);
    }

    fn on_complete(&mut self, id: u64, result: Result<Answer, ErrorKind>) {
        self.tick += 1;
        let Some(asked) = self.asked.remove(&id) else {
            self.fail(&format!("an answer to {id}, which nobody waits for"));
        };
        let reply = match result {
            Ok(Answer::Done) => Ok(Reply::Done),
            Ok(Answer::Status(runs)) => Ok(Reply::Status(runs)),
            Err(error) => Err(error),
            Ok(Answer::Data(slice)) => {
                let range = self.engine.buffers().resolve(slice);
                self.judge_held(&range);
                let copy = self.arena.bytes(range.clone()).to_vec();
                self.held.push(Held {
                    buffer: slice.buffer,
                    range,
                    copy: copy.clone(),
                });
                Ok(Reply::Data(copy))
            }
        };
        self.say(|| {
            let text = match &reply {
                Ok(Reply::Data(_)) => "data".to_owned(),
                other => format!("{other:?}"),
            };
            format!("  answer {id} {:?}: {text}", asked.wanted)
        });
        self.judge_answer(&asked, &reply);
        if self.keeps_answers {
            self.answers.insert(id, reply);
        }
    }

    fn on_persist(&mut self, record: ArrayRecord) {
        self.say(|| format!("  persist {record:?}"));
        self.judge_record(record);
        self.issued.push(record);
    }

    fn on_event(&mut self, event: Event) {
        self.say(|| format!("  {event:?}"));
        match event {
            Event::LegFaulted { leg, reason } => {
                self.judge_fault(leg, reason);
                self.end_doubt(leg, |_| true);
                let written = self
                    .asked
                    .values()
                    .filter_map(|asked| asked.wanted.changes());
                // What differs may be made equal while it is out.
                let written = written.chain(self.checker.failed_extents());
                let behind = self.behind.iter().map(|behind| behind.extent);
                let written: Vec<Extent> = written.chain(behind).collect();
                let was_in_sync = self.legs[leg.index()].is_in_sync();
                self.note_lost_with(leg);
                self.legs[leg.index()].missed = was_in_sync.then_some(written);
                self.legs[leg.index()].faulted = true;
                self.legs[leg.index()].rebuilding = false;
                if reason == FaultReason::Silent {
                    self.is_silent(leg);
                }
                self.doom_writes();
                self.forget_failed();
            }
            Event::ReadFailedOver { .. } => self.forget_failed(),
            Event::BadBlocksWritten { leg, extent } => {
                let now = self.tick;
                self.legs[leg.index()].healed.push((extent, now));
            }
            Event::FlagsSet { leg, flags } => self.legs[leg.index()].heed(flags),
            Event::Grown { leg } => self.grown(leg),
            Event::LegAdded { leg } => {
                self.legs[leg.index()].faulted = false;
                self.legs[leg.index()].rebuilding = true;
            }
            Event::LegInSync { leg } => {
                self.judge_joined(leg);
                self.legs[leg.index()].rebuilding = false;
                self.legs[leg.index()].in_sync_since = self.tick;
                self.note_found_with(leg);
            }
            Event::ReplaceBegun { leg: _, by } => {
                self.legs[by.index()].faulted = false;
                self.legs[by.index()].rebuilding = true;
            }
            Event::LegReplaced { leg, by } => {
                let is_whole = self.legs[by.index()].is_in_sync();
                self.check(is_whole, || {
                    format!("{leg} is replaced by one that is not whole")
                });
                self.judge_replaced(leg);
                self.note_lost_with(leg);
                self.legs[leg.index()].faulted = true;
                self.forget_failed();
            }
            Event::LastLegKept { .. }
            | Event::NoSpace { .. }
            | Event::ReadRepaired { .. }
            | Event::BadBlocksFound { .. }
            | Event::AddRefused { .. }
            | Event::GrowRefused { .. }
            | Event::NoSpareFits { .. }
            | Event::BackgroundStarted { .. }
            | Event::BackgroundProgress { .. }
            | Event::BackgroundEnded { .. }
            | Event::Mismatch { .. }
            | Event::Unreadable { .. } => self.judge_background(&event),
        }
        self.events.push(event);
    }

    /// Another leg may be the one that is read where legs differ, everywhere.
    pub(crate) fn forget_failed(&mut self) {
        let all = Extent::new(0, self.setup.size_bytes);
        self.checker.legs_changed(self.tick);
        self.checker.reset_failed(all);
    }

    /// A leg has answered nothing for too long: what it may still do, it does behind the back.
    fn is_silent(&mut self, leg: LegId) {
        self.silent_faults += 1;
        self.check(self.silent_faults == 1, || {
            "several legs were faulted at once for silence".to_owned()
        });
        let ghosts = self.pending.iter_mut();
        ghosts
            .filter(|pending| pending.op.leg == leg)
            .for_each(|pending| pending.ghost = true);
    }

    /// There is one more role, and this leg has it.
    fn grown(&mut self, leg: LegId) {
        let roles = self.plain.legs() + 1;
        self.plain = Map::mirror(roles, self.setup.size_bytes);
        let map = self.engine.map().clone();
        let is_so = map.legs() == roles && map.role_of(leg) == Some(roles - 1);
        self.check(is_so, || format!("{leg} is not the last of {roles} roles"));
        self.set_map(map);
        // Legs beyond those that are drawn are missing for good.
        if let Some(slot) = self.legs.get_mut(leg.index()) {
            slot.config.state = LegState::Missing;
            slot.faulted = false;
        }
    }
}
