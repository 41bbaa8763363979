//! The way of an operation to a leg and back: into the stage in front of it, from there to the
//! device when its scheduler says so and the device has room, and off the books when it has ended.
//!
//! Operations that wait in front of a leg at one moment may go in any order, as those in a device
//! may: whatever has to come after another one is assigned when that has completed.

use heliostat_policy::{LegView, OpView};
use heliostat_scheduler::{Class, FlowLimits, SchedulerSpec};
use heliostat_types::{ErrorKind, Extent, FlowId, Instant, LegId, LegOpId, LegSet, OpKind};

use crate::api::{LegOp, Output};
use crate::engine::{Engine, Turn};
use crate::joined::Sent;
use crate::legs::{NewOp, Op, OpOwner};

impl Engine {
    /// Hands an operation to a leg that is not out: to the device, or behind what waits for it.
    /// Which one it is, until it has ended.
    pub(crate) fn assign(&mut self, turn: &Turn<'_>, leg: LegId, new: NewOp) -> u32 {
        debug_assert!(
            self.legs.in_sync.contains(leg)
                || self.legs.rebuilding.contains(leg) && new.kind != OpKind::Read,
            "only legs in sync are read, and those that are out get nothing"
        );
        if let Some(memory) = new.memory {
            self.buffers.retain(memory.buffer);
        }
        let index = self.ops.insert(Op {
            id: LegOpId(0),
            owner: new.owner,
            leg,
            flow: new.flow,
            class: new.class(),
            kind: new.kind,
            extent: new.extent,
            memory: new.memory,
            fua: new.fua,
            may_trim: new.may_trim,
            assigned: turn.now,
            dispatched: None,
            sent: Sent::Alone,
        });
        self.ops_begun += 1;
        // The low half finds the operation; the high half tells it from the last 2^32 others.
        self.ops[index].id = LegOpId(self.ops_begun << 32 | u64::from(index));
        self.legs.views[leg.index()].begin(new.kind, new.extent);
        if self.legs.accounting {
            let stats = &mut self.legs.legs[leg.index()].stats;
            stats.account.begin(turn.now);
        }
        if self.observes.dispatch && self.legs.in_sync.contains(leg) {
            let op = self.op_view(leg, new.kind, new.extent);
            self.policy.on_dispatch(turn.now, &op);
        }
        let job = self.ops[index].job(index);
        self.legs.legs[leg.index()]
            .queue
            .insert(turn.now, job, &mut self.legs.costs);
        self.pump(turn.now, leg);
        index
    }

    /// A read that was nobody's is a client's from now on, if it still waits in front of its leg.
    pub(crate) fn take_on(&mut self, now: Instant, index: u32, flow: FlowId) {
        let op = &mut self.ops[index];
        let waits = op.dispatched.is_none() && op.sent != Sent::Again;
        if waits && op.class == Class::Background {
            (op.class, op.flow) = (Class::Read, flow);
            let (leg, job) = (op.leg, op.job(index));
            let queue = &mut self.legs.legs[leg.index()].queue;
            queue.take_on(&job, &mut self.legs.costs);
            self.pump(now, leg);
        }
    }

    /// What a policy is told of an operation.
    fn op_view(&self, leg: LegId, kind: OpKind, extent: Extent) -> OpView {
        let array_offset = self.config.map.array_address(leg, extent.offset());
        OpView {
            leg,
            kind,
            extent,
            array_offset: array_offset.unwrap_or(0),
        }
    }

    /// Gives the device what it has room for.
    pub(crate) fn pump(&mut self, now: Instant, leg_id: LegId) {
        loop {
            let leg = &mut self.legs.legs[leg_id.index()];
            let again = leg.again.front().copied();
            let next =
                again.or_else(|| leg.queue.next(now, &mut self.legs.costs).map(|job| job.op));
            let Some(index) = next else { return };
            let bytes = self.buffers.bytes_to_hold(self.ops[index].memory, leg_id);
            // More of a buffer that the device has already costs nothing.
            let has_memory = bytes == 0 || leg.in_device_bytes + bytes <= self.legs.leg_bytes_max;
            let has_room = leg.in_device < leg.config.queue_depth && has_memory;
            if !has_room && leg.in_device > 0 {
                return;
            }
            if again.is_some() {
                leg.again.pop_front();
                self.send(now, index, Sent::Again, None);
            } else {
                let job = leg
                    .queue
                    .take(now, &mut self.legs.costs)
                    .expect("one goes next");
                self.send_chosen(now, leg_id, &job);
            }
        }
    }

    /// Gives the device an operation, as one with `next` where there is one.
    pub(crate) fn send(&mut self, now: Instant, index: u32, sent: Sent, next: Option<LegOpId>) {
        let op = &mut self.ops[index];
        op.dispatched = Some(now);
        op.sent = sent;
        let leg = &mut self.legs.legs[op.leg.index()];
        if leg.in_device == 0 {
            leg.last_progress = now;
        }
        leg.in_device += u32::from(sent.has_place());
        leg.in_device_bytes += self.buffers.bytes_to_hold(op.memory, op.leg);
        self.buffers.begin_in_device(op.memory, op.leg);
        let mut extent = op.extent;
        let is_data = !extent.is_empty() && op.owner != OpOwner::Metadata;
        if leg.config.data_offset_bytes > 0 && is_data {
            extent = extent.moved(leg.config.data_offset_bytes);
        }
        let dispatched = LegOp {
            id: op.id,
            leg: op.leg,
            flow: op.flow,
            kind: op.kind,
            extent,
            memory: op.memory,
            fua: op.fua,
            may_trim: op.may_trim,
            failfast: self.legs.fails_fast(op.leg, op.kind),
            is_hedge: matches!(op.owner, OpOwner::Hedge(_)),
            next,
        };
        self.outputs.push_back(Output::Dispatch(dispatched));
    }

    /// Where an operation is that a shell names.
    ///
    /// # Panics
    /// Where there is no such operation: the shell reports each exactly once.
    pub(crate) fn op_index(&self, id: LegOpId) -> u32 {
        let index = u32::try_from(id.0 & u64::from(u32::MAX)).expect("the low half");
        let known = self.ops.get(index).is_some_and(|op| op.id == id);
        assert!(known, "a completion names an operation in flight: {id:?}");
        index
    }

    /// A device has completed an operation: it is taken off the books, its buffer given back, the
    /// next one sent.
    ///
    /// # Panics
    /// Where there is no such operation at a device: the shell reports each exactly once.
    pub(crate) fn reap(
        &mut self,
        turn: &Turn<'_>,
        id: LegOpId,
        result: Result<(), ErrorKind>,
    ) -> Op {
        let index = self.op_index(id);
        let op = self.ops.remove(index);
        let dispatched = op
            .dispatched
            .expect("only what a device has can be completed");
        let service_time = turn.now.saturating_since(dispatched);
        let bytes = self.buffers.end_in_device(op.memory, op.leg);
        let leg = &mut self.legs.legs[op.leg.index()];
        leg.in_device -= u32::from(op.sent.has_place());
        leg.in_device_bytes -= bytes;
        leg.last_progress = turn.now;
        if op.sent != Sent::Again {
            let job = op.job(index);
            leg.queue.completed(turn.now, &job, &mut self.legs.costs);
        }
        self.legs.views[op.leg.index()].end(op.kind, op.extent);
        if self.legs.accounting {
            // That a leg cannot do a thing is no failure of it.
            let failed = result.is_err_and(|kind| kind != ErrorKind::NotSupported);
            let times = (dispatched, service_time);
            leg.stats.ended(turn.now, &op, failed, times);
            if op.kind == OpKind::Read {
                let view = &mut self.legs.views[op.leg.index()];
                view.reads_completed += 1;
                view.read_wait += service_time;
            }
        }
        if self.observes.complete && self.legs.in_sync.contains(op.leg) {
            let view = self.op_view(op.leg, op.kind, op.extent);
            self.policy
                .on_complete(turn.now, &view, service_time, result.is_ok());
        }
        if let Some(memory) = op.memory {
            self.release_buffer(memory.buffer);
        }
        if self.background.is_working() {
            self.background.op_ended(turn.now, &op);
        }
        self.pump(turn.now, op.leg);
        op
    }

    /// Another scheduler decides from now on.
    pub(crate) fn set_scheduler(&mut self, now: Instant, spec: &SchedulerSpec) {
        self.admission.set_shares(spec.has_shares());
        // Whoever was refused for his share may not be now.
        self.memory_freed = true;
        if let Some(stage) = &mut self.stage {
            return stage.switch(now, spec);
        }
        for leg in LegSet::first(self.legs.legs.len()) {
            self.legs.legs[leg.index()]
                .queue
                .switch(now, spec, &mut self.legs.costs);
            self.pump(now, leg);
        }
    }

    /// A flow may have something else from now on, of each leg or in front of the array.
    pub(crate) fn set_share(&mut self, now: Instant, flow: FlowId, limits: FlowLimits) {
        if let Some(stage) = &mut self.stage {
            return stage.set_flow(flow, limits);
        }
        for leg in LegSet::first(self.legs.legs.len()) {
            self.legs.legs[leg.index()].queue.set_flow(flow, limits);
            self.pump(now, leg);
        }
    }

    /// Asks those schedulers again that have held something back until now.
    pub(crate) fn pump_due(&mut self, now: Instant) {
        for leg in LegSet::first(self.legs.legs.len()) {
            let queue = &mut self.legs.legs[leg.index()].queue;
            if queue.next_deadline().is_some_and(|due| due <= now) {
                queue.on_deadline();
                self.pump(now, leg);
            }
        }
    }
}

/// Keeps a view up to date.
pub(crate) trait InFlight {
    fn begin(&mut self, kind: OpKind, extent: Extent);
    fn end(&mut self, kind: OpKind, extent: Extent);
}

impl InFlight for LegView {
    fn begin(&mut self, kind: OpKind, extent: Extent) {
        match kind {
            OpKind::Read => {
                self.reads_in_flight += 1;
                self.read_bytes_in_flight += extent.len();
                self.last_sent_end = Some(extent.end());
            }
            OpKind::Write => {
                self.writes_in_flight += 1;
                self.write_bytes_in_flight += extent.len();
                self.last_sent_end = Some(extent.end());
            }
            OpKind::Flush | OpKind::Trim | OpKind::WriteZeroes => self.writes_in_flight += 1,
            OpKind::BlockStatus => {}
        }
    }

    fn end(&mut self, kind: OpKind, extent: Extent) {
        match kind {
            OpKind::Read => {
                self.reads_in_flight -= 1;
                self.read_bytes_in_flight -= extent.len();
            }
            OpKind::Write => {
                self.writes_in_flight -= 1;
                self.write_bytes_in_flight -= extent.len();
            }
            OpKind::Flush | OpKind::Trim | OpKind::WriteZeroes => self.writes_in_flight -= 1,
            OpKind::BlockStatus => {}
        }
    }
}
