//! What is said of a leg while it serves: that it is write-mostly, and that it fails fast.
//!
//! A leg says so in its own superblock, and that is what a start after a crash goes by. A leg that
//! is write-mostly may be behind then, and is believed last. So while that changes, in either
//! direction, nobody knows what a start would find, and the leg is taken for the worse of both: no
//! further write is behind on it, and none is behind because this leg has it. What is behind comes
//! to its end first; then the superblock is written, and when it is durable, it holds.
//!
//! Where legs may differ, reads go to the leg that is believed first. That one stays the same for
//! as long: there, whether a leg is write-mostly does not change.

use heliostat_types::LegId;

use crate::api::{Event, Output};
use crate::engine::Engine;
use crate::legs::Legs;

/// What is said of a leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegFlags {
    /// It is read only where nothing else is left, and may be behind.
    pub write_mostly: bool,
    /// It is out at its first error where others are left.
    pub failfast: bool,
}

/// Why that cannot be changed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagsRefusal {
    /// Legs have no metadata to keep it in.
    NoSuperblock,
    /// The leg is out, and cannot be told.
    Out,
    /// Legs may differ, and who is believed may not change until a resync has made them equal.
    Unequal,
    /// The last change is not durable yet. Ask again soon.
    Unrecorded,
}

/// A change on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlagsChange {
    leg: LegId,
    flags: LegFlags,
    /// The last write behind that has to end first; `None` where the change is being recorded.
    behind: Option<u64>,
}

impl Engine {
    /// What is said of a leg.
    #[must_use]
    pub fn leg_flags(&self, leg: LegId) -> LegFlags {
        LegFlags {
            write_mostly: self.is_write_mostly(leg),
            failfast: self.is_failfast(leg),
        }
    }

    /// The leg that is told something else, until that is durable.
    #[must_use]
    pub fn leg_being_told(&self) -> Option<LegId> {
        self.legs.flags_change.map(|change| change.leg)
    }

    /// Why this cannot be said of a leg now; `None` where it can.
    #[must_use]
    pub fn flags_refusal(&self, leg: LegId, flags: LegFlags) -> Option<FlagsRefusal> {
        if self.keeper.is_none() {
            Some(FlagsRefusal::NoSuperblock)
        } else if !self.legs.writable().contains(leg) {
            Some(FlagsRefusal::Out)
        } else if flags.write_mostly != self.is_write_mostly(leg) && !self.is_all_equal() {
            Some(FlagsRefusal::Unequal)
        } else if self.legs.flags_change.is_some() || !self.is_taken_up() {
            Some(FlagsRefusal::Unrecorded)
        } else {
            None
        }
    }

    /// Something else is said of a leg from now on.
    pub(crate) fn set_flags(&mut self, leg: LegId, flags: LegFlags) {
        if self.flags_refusal(leg, flags).is_some() {
            return;
        }
        self.legs.legs[leg.index()].config.failfast = flags.failfast;
        self.legs.flags_change = Some(FlagsChange {
            leg,
            flags,
            behind: Some(self.behind.last()),
        });
    }

    /// Goes on with a change where it can.
    pub(crate) fn advance_flags(&mut self) {
        let Some(change) = self.legs.flags_change else {
            return;
        };
        if !self.legs.writable().contains(change.leg) {
            self.legs.flags_change = None;
            self.forget_flags();
            return;
        }
        let is_settled = self.legs.in_between().is_none();
        let is_drained = |last| is_settled || self.behind.is_drained(last);
        if change.behind.is_some_and(is_drained) {
            self.legs.flags_change = Some(FlagsChange {
                behind: None,
                ..change
            });
            self.set_device_flags(change.leg, change.flags);
            self.record_flags(change.leg);
        }
    }

    /// What is said of a leg is durable.
    pub(crate) fn flags_recorded(&mut self, leg: LegId) {
        let change = self.legs.flags_change.take();
        let Some(change) = change.filter(|_| self.legs.writable().contains(leg)) else {
            return;
        };
        let is_write_mostly = change.flags.write_mostly;
        self.legs.set_write_mostly(leg, is_write_mostly);
        let flags = self.leg_flags(leg);
        self.outputs
            .push_back(Output::Event(Event::FlagsSet { leg, flags }));
    }

    /// It could not be made durable, and nobody knows what the leg says: the next commit has it.
    pub(crate) fn flags_not_recorded(&mut self, leg: LegId) {
        self.hold_flags(leg);
    }
}

impl Legs {
    /// The leg of which it is not known what a start would find: write-mostly or not.
    pub(crate) fn in_between(&self) -> Option<LegId> {
        let change = self.flags_change?;
        let is_write_mostly = self.write_mostly.contains(change.leg);
        (change.flags.write_mostly != is_write_mostly).then_some(change.leg)
    }
}
