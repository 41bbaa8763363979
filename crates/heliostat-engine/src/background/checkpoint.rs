//! How far a rebuild has come, on record, so that one that is cut short goes on there.
//!
//! A leg that is being rebuilt says in its superblock up to where nothing is missing on it. It is
//! flushed first, and what is said is where it had come when that flush began. Below that, it gets
//! all that is written. Where the array is not stopped in order, writes below may be on other legs
//! and not on this one; but they have bits, the array is dirty until they are on all legs, and
//! whoever takes it up then copies them first. Until that is done, the leg says no more of itself
//! than lies below the first of them: Linux reads a leg that is being rebuilt below where that had
//! come, and clients have heard what others say.

use heliostat_types::{Duration, ErrorKind, FlowId, Instant, LegId};

use crate::api::FaultReason;
use crate::background::{Missed, Saved};
use crate::engine::{Engine, Turn};
use crate::legs::{NewOp, OpOwner};

/// A leg says how far it is after each of so many parts of it, as md has it,
const PARTS: u64 = 16;
/// or after so long, because a part of a large leg takes hours.
const AFTER: Duration = Duration::from_secs(60);

impl Engine {
    /// Takes up what was being rebuilt when the engine before this one ended.
    pub(crate) fn take_up_rebuilds(&mut self, rebuilding: Vec<(LegId, Missed)>) {
        for (leg, missed) in rebuilding {
            assert!(
                self.legs.rebuilding.contains(leg),
                "what a leg lacks that is there is told with the leg"
            );
            self.begin_rebuild(Instant::ZERO, leg, missed);
        }
        if !self.legs.rebuilding.is_empty() {
            self.intent.all_pages_are_stale();
        }
    }

    /// Has legs flushed that have come further since they last said so.
    pub(super) fn save_rebuilds(&mut self, turn: &Turn<'_>) {
        if self.keeper.is_none() {
            return;
        }
        let is_at_rest = self.background.is_paused && self.background.windows.is_empty();
        for leg in self.legs.rebuilding {
            let part = self.config.map.leg_bytes(leg) / PARTS;
            let up_to = self.rebuilt_up_to(leg);
            let rebuild = self.background.rebuild_mut(leg);
            let (Some(rebuild), Some(up_to)) = (rebuild, up_to) else {
                continue;
            };
            // One that has everything says so when it is in sync.
            let is_done = rebuild.missing.is_empty();
            if is_done || rebuild.is_busy() || up_to <= rebuild.saved.up_to {
                continue;
            }
            let is_far = up_to - rebuild.saved.up_to >= part;
            let is_late = turn.now.saturating_since(rebuild.saved_at) >= AFTER;
            if is_far || is_late || is_at_rest {
                rebuild.saving = Some(up_to);
                self.assign(
                    turn,
                    leg,
                    NewOp::flush(OpOwner::Checkpoint(leg), FlowId::ARRAY),
                );
            }
        }
    }

    /// A leg has answered the flush.
    pub(crate) fn checkpoint_flushed(
        &mut self,
        turn: &Turn<'_>,
        leg: LegId,
        result: Result<(), ErrorKind>,
    ) {
        if let Some(kind) = self.rebuild_flush_failed(leg, result) {
            return self.fault_leg(turn, leg, FaultReason::FlushFailed(kind));
        }
        let rebuild = self.background.rebuild_mut(leg);
        let rebuild = rebuild.expect("a leg that is out has no operation");
        rebuild.saved.up_to = rebuild.saving.take().expect("it was asked once");
        rebuild.saved_at = turn.now;
        self.note_saved();
    }

    /// How far a leg has been rebuilt, durably; `None` where it is not being rebuilt.
    pub(crate) fn saved_rebuild(&self, leg: LegId) -> Option<Saved> {
        Some(self.background.rebuild(leg)?.saved)
    }
}
