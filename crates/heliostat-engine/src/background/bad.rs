//! What windows find out of bad blocks, and where they come from.
//!
//! A leg with a log that fails to be written is not out: the window is done again in halves, down
//! to a page, and that page is bad there. What nobody has cannot be copied: a leg that is rebuilt
//! does not have it either, and its log says so. That is a page as well, but where a leg is being
//! replaced: it goes, and what it could be read of goes with it, so that is narrowed to blocks.

use heliostat_types::{ErrorKind, Extent, LegId, LegSet};

use super::{BackgroundKind, LEAF_BYTES};
use crate::api::{Event, Output};
use crate::divergence::DivergencePin;
use crate::engine::{Engine, Turn};

impl Engine {
    /// No leg in sync can be asked for the bytes of a window.
    pub(super) fn no_source(&mut self, turn: &mut Turn<'_>, index: u32) {
        let window = self.background.window(index);
        let (kind, extent, targets) = (window.kind, window.extent, window.targets);
        let holders = self.config.map.holders(extent.offset());
        let here = holders.intersection(self.legs.in_sync);
        let is_bad = here.difference(self.bad_legs(extent)).is_empty();
        let is_last_look = targets.iter().any(|leg| self.is_replacement(leg));
        if is_last_look && !is_bad && extent.len() > self.block_bytes() {
            // The leg that goes may be the only one that has the rest of it.
            return self.halve_window(turn, index);
        }
        match kind {
            // Nobody reads it, so nothing differs.
            BackgroundKind::Resync if is_bad => {
                self.range_is_equal(extent);
                self.close_window(turn, index);
            }
            BackgroundKind::Rebuild => {
                let on_leg = |leg| self.config.map.on_leg(leg, extent);
                let targets = targets.intersection(self.legs.rebuilding).iter();
                let targets: Vec<(LegId, Extent)> = targets.map(|leg| (leg, on_leg(leg))).collect();
                let noted = targets
                    .into_iter()
                    .filter(|(leg, part)| self.note_written(*leg, *part, &[*part]));
                let noted: LegSet = noted.map(|(leg, _)| leg).collect();
                self.note_copied(noted, extent);
                if self.legs_that_miss(extent).is_empty() {
                    self.tell_unreadable(kind, extent);
                    self.close_window(turn, index);
                } else {
                    self.leave_unreadable(turn, index);
                }
            }
            BackgroundKind::Resync | BackgroundKind::Scrub { .. } => {
                self.leave_unreadable(turn, index);
            }
        }
    }

    /// People are told of bytes that nobody has.
    pub(super) fn tell_unreadable(&mut self, kind: BackgroundKind, extent: Extent) {
        if self.background.job_of(kind).may_tell_unreadable() {
            self.outputs
                .push_back(Output::Event(Event::Unreadable { extent }));
        }
    }

    /// What legs have been written by a window is good there, and of what they have failed a page
    /// is bad. Whether the window has to be done in halves because of a leg that failed more.
    pub(super) fn log_window(&mut self, index: u32) -> bool {
        let window = self.background.window(index);
        let (kind, extent, reasons) = (window.kind, window.extent, window.reasons);
        let failed = window.failed;
        // A leg that has what all are to have.
        let good = window.readers.iter().find(|leg| !failed.contains(**leg));
        let good = good.copied();
        let can_halve = extent.len() > LEAF_BYTES && good.is_some();
        let writable = self.legs.writable();
        let runs: Vec<(LegId, Extent)> = match kind {
            BackgroundKind::Scrub { .. } => window.runs.clone(),
            BackgroundKind::Rebuild | BackgroundKind::Resync => {
                let targets = window.targets.iter();
                targets.map(|leg| (leg, extent)).collect()
            }
        };
        let mut runs = runs;
        runs.retain(|(leg, _)| writable.contains(*leg));
        let mut is_large = false;
        for (leg, run) in runs {
            let on_leg = self.config.map.on_leg(leg, run);
            if !failed.contains(leg) {
                let noted = self.note_written(leg, on_leg, &[]);
                assert!(noted, "what is good needs no room");
                continue;
            }
            let is_medium = reasons[leg.index()] == ErrorKind::Io && self.has_bad_log(leg);
            let is_done = is_medium && (can_halve || self.note_written(leg, on_leg, &[on_leg]));
            is_large |= is_done && can_halve;
            if is_done {
                self.background.window_mut(index).failed.remove(leg);
            }
        }
        if let Some(good) = good
            && is_large
            && matches!(kind, BackgroundKind::Scrub { .. })
            && self.divergence_of(extent) == DivergencePin::None
        {
            // What is being repaired may differ in another way now, until it is done.
            self.divergence.add(extent, good);
        }
        is_large
    }
}
