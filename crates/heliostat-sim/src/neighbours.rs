//! Loads on a leg that the engine does not see: another partition of the drive, a neighbour in the
//! cloud. They go to the leg's device model beside the engine's operations and have no bytes.

use std::collections::BTreeMap;

use heliostat_types::{ErrorKind, Instant, LegOpId};
use heliostat_workload::Ask;

use crate::simulation::Simulation;

/// Numbers from here on are no operations of the engine's, which count from 0.
const FIRST_ID: u64 = 1 << 63;

/// What neighbours have asked and not been answered.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    count: u64,
    ops: BTreeMap<LegOpId, NeighboursOp>,
}

#[derive(Clone, Copy, Debug)]
struct NeighboursOp {
    leg: usize,
    /// Who asked, by index.
    client: usize,
    ask: Ask,
    tag: u64,
    asked_at: Instant,
}

impl Simulation {
    /// Client number `client` asks the device of a leg.
    pub(crate) fn ask_leg(&mut self, leg: usize, client: usize, ask: Ask, tag: u64) {
        let id = LegOpId(FIRST_ID + self.neighbours.count);
        self.neighbours.count += 1;
        let op = NeighboursOp {
            leg,
            client,
            ask,
            tag,
            asked_at: self.now,
        };
        self.neighbours.ops.insert(id, op);
        self.legs[leg].submit_unseen(self.now, id, ask.kind(), ask.extent());
    }

    /// Ends an operation of a neighbour's; `false` where it is none.
    pub(crate) fn end_neighbours_op(&mut self, id: LegOpId, result: Result<(), ErrorKind>) -> bool {
        if id.0 < FIRST_ID {
            return false;
        }
        let op = self.neighbours.ops.remove(&id);
        let op = op.expect("a device ends each operation that it was given once");
        self.legs[op.leg].finish_unseen(self.now, &self.measured);
        let ok = result.is_ok();
        self.clients
            .on_answer(self.now, op.client, op.ask, op.tag, ok);
        if ok && self.clients.client(op.client).counts_requests() {
            let response_time = self.now - op.asked_at;
            let len_bytes = op.ask.extent().len();
            self.count(op.client, op.ask.kind(), len_bytes, response_time);
        }
        true
    }
}
