//! How a leg is zeroed or trimmed: step by step, in the best way that it has not refused.

use heliostat_types::{Extent, LegId, OpKind};

use crate::buffer::{BufferSlice, BufferStep, BufferTable};
use crate::change::{ChangeKind, whole};
use crate::engine::{Engine, Turn};
use crate::legs::{NewOp, OpOwner};

/// A leg trims or zeroes at most this much at a time, so that a long one is not taken for silence.
const SWEEP_MAX_BYTES: u64 = 64 << 20;
/// Zeros are written in pieces of this size to legs that cannot zero by themselves.
const ZEROS_BYTES: u64 = 1 << 20;

impl Engine {
    /// Zeroes or trims the first part of what is left of `extent` of the leg: in this way,
    /// or in the next best one that the leg has not refused.
    pub(crate) fn sweep(
        &mut self,
        turn: &Turn<'_>,
        index: u32,
        leg: LegId,
        extent: Extent,
        way: OpKind,
    ) {
        let write = &self.writes[index];
        let slot = &self.legs.legs[leg.index()];
        let can_trim = slot.config.trim_reads_zeros && !slot.trim_refused;
        let way = match way {
            OpKind::Trim if can_trim => OpKind::Trim,
            OpKind::Trim | OpKind::WriteZeroes if !slot.write_zeroes_refused => OpKind::WriteZeroes,
            OpKind::Trim
            | OpKind::WriteZeroes
            | OpKind::Write
            | OpKind::Read
            | OpKind::Flush
            | OpKind::BlockStatus => OpKind::Write,
        };
        let may_trim = write.kind != ChangeKind::WriteZeroes { may_trim: false };
        let flow = write.flow;
        let limit = if way == OpKind::Write {
            ZEROS_BYTES
        } else {
            SWEEP_MAX_BYTES
        };
        let step = extent.split_at(extent.len().min(limit)).0;
        let memory = (way == OpKind::Write).then(|| self.zeros().part(0, step.len()));
        let new = NewOp {
            owner: OpOwner::Sweep {
                write: index,
                end: extent.end(),
                way,
            },
            flow,
            kind: way,
            extent: step,
            memory,
            // All of it is flushed in the end: one that fails is told from zeros that fail.
            fua: false,
            may_trim,
        };
        self.assign(turn, leg, new);
    }

    /// The zeros that legs are sent which cannot zero by themselves.
    fn zeros(&mut self) -> BufferSlice {
        if let Some(zeros) = self.zeros {
            return zeros;
        }
        let at = self.zeros_reserved;
        self.outputs
            .push_back(crate::Output::Buffer(BufferStep::Zero { at }));
        self.zeros = Some(at);
        at
    }
}

/// Where the zeros lie that legs are sent which cannot zero by themselves.
pub(crate) fn reserve_zeros(buffers: &mut BufferTable) -> BufferSlice {
    let zeros = buffers.alloc_permanent(ZEROS_BYTES);
    whole(zeros.expect("an empty arena has room"), ZEROS_BYTES)
}
