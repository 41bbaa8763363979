//! Write-behind: writes that are answered before the write-mostly legs have them.
//!
//! An ordinary write is answered when all legs have it. Where the array allows some to be *behind*,
//! one whose other legs have all ended it well, while only write-mostly legs in its way are late,
//! is answered at once; the late legs go on. Until the last of them has ended, the write stays what
//! it was: it holds its lock, so that a later write of the same bytes waits and none overtakes
//! another one on a slow leg; its bits stay set and the array stays dirty; its buffer, which nobody
//! writes to, is kept. Only readers see a difference: a leg that is behind does not exist for them
//! there (see [`Locks::go_behind`](crate::locks::Locks::go_behind)), and all others have the data,
//! so that no pin is needed.
//!
//! How much may be behind is bounded, by count and by bytes, which are a share of the memory: a
//! slow leg may not take what clients need. A write for which there is no room waits for all legs
//! like an ordinary one, or until there is room.
//!
//! Never behind is what could fail visibly: writes with FUA, trims and write-zeroes; a write that a
//! leg has failed; a write where the late leg is the one that reads must go to, or the only one.
//!
//! A flush waits until all that was answered before it has left here, and then flushes the legs.
//! A leg that is to go because it fails reads stays while it alone has an answered write, and is no
//! reason for others to be behind: it goes when another leg has them all. One that is gone
//! altogether, or that fails a write, goes at once, and reads of what it alone had wait for the
//! late leg. Where that fails as well, and is the last leg, an answered write is lost: no flush is
//! answered well from then on.

use std::collections::{BTreeMap, BTreeSet};

use heliostat_types::{ErrorKind, LegId, LegSet};

use crate::api::{Config, FaultReason};
use crate::change::ChangeKind;
use crate::divergence::DivergencePin;
use crate::engine::{Engine, Turn};
use crate::write::Write;

/// What writes behind may keep of the arena, as a share of it.
const MEMORY_SHARE: u64 = 8;

/// How a write is to be answered, and where it stands if that is before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lead {
    /// When all legs have ended it, as far as is known.
    None,
    /// As soon as there is room for it, under this number.
    Wanted(u64),
    /// It is behind, under this number. Its answer was given, or waits for a record.
    Behind {
        /// Its number.
        number: u64,
        /// Whether the client has its answer.
        is_answered: bool,
    },
}

/// How far write-mostly legs are behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteBehind {
    /// How many writes may be behind; 0: none ever is.
    pub writes_max: u32,
    /// How many bytes of them.
    pub bytes_max: u64,
    /// How many are now,
    pub writes: u64,
    /// and with how many bytes.
    pub bytes: u64,
    /// How many were since the start.
    pub total: u64,
}

/// The writes behind.
#[derive(Debug)]
pub(crate) struct Behind {
    figures: WriteBehind,
    /// Their numbers.
    numbers: BTreeSet<u64>,
    /// Writes that there is no room for, by their numbers.
    wanted: BTreeMap<u64, u32>,
    /// The last number that was given out.
    last: u64,
    /// Legs that are to go because of what they fail to read, but that alone have answered writes.
    leaving: BTreeMap<LegId, FaultReason>,
}

impl Behind {
    pub(crate) fn new(config: &Config) -> Self {
        // Elsewhere no leg holds all that another one does.
        let writes_max = if config.map.is_mirror() {
            config.write_behind
        } else {
            0
        };
        Self {
            figures: WriteBehind {
                writes_max,
                bytes_max: config.memory_bytes as u64 / MEMORY_SHARE,
                ..WriteBehind::default()
            },
            numbers: BTreeSet::new(),
            wanted: BTreeMap::new(),
            last: 0,
            leaving: BTreeMap::new(),
        }
    }

    /// Whether any write may ever be behind.
    pub(crate) const fn is_allowed(&self) -> bool {
        self.figures.writes_max > 0
    }

    /// The number of the write that went behind last.
    pub(crate) const fn last(&self) -> u64 {
        self.last
    }

    /// Whether nothing is behind any more of what was when this number was the last one.
    pub(crate) fn is_drained(&self, last: u64) -> bool {
        self.numbers.first().is_none_or(|&number| number > last)
    }

    fn has_room(&self, bytes: u64) -> bool {
        let figures = &self.figures;
        figures.writes < u64::from(figures.writes_max) && figures.bytes + bytes <= figures.bytes_max
    }

    fn take_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

impl Engine {
    /// How far write-mostly legs are behind.
    #[must_use]
    pub const fn write_behind(&self) -> WriteBehind {
        self.behind.figures
    }

    /// Whether a leg has failed so much of what is read that it is to go, and stays because no
    /// other one has all that it has.
    #[must_use]
    pub fn is_leaving(&self, leg: LegId) -> bool {
        self.behind.leaving.contains_key(&leg)
    }

    /// Some legs have ended a write and others have not: answers it, if it may be behind.
    #[inline]
    pub(crate) fn answer_early(&mut self, turn: &mut Turn<'_>, index: u32) {
        if self.behind.is_allowed() && self.writes[index].lead == Lead::None {
            self.try_behind(turn, index);
        }
    }

    fn try_behind(&mut self, turn: &mut Turn<'_>, index: u32) {
        if !self.may_be_behind(index) {
            return;
        }
        if self.behind.has_room(self.writes[index].len_bytes()) {
            return self.go_behind(turn, index);
        }
        let number = self.behind.take_number();
        self.behind.wanted.insert(number, index);
        self.writes[index].lead = Lead::Wanted(number);
    }

    /// Whether all legs but write-mostly ones have the bytes of a write, and one that is read has.
    fn may_be_behind(&self, index: u32) -> bool {
        let write = &self.writes[index];
        let late = write.late;
        let is_plain = write.kind == ChangeKind::Write && !write.fua;
        let is_plain = is_plain && write.failed.is_empty() && write.bad.is_empty();
        let mut write_mostly = self.legs.write_mostly;
        if let Some(leg) = self.legs.in_between() {
            write_mostly.remove(leg);
        }
        let is_bad = !self.bad_legs(write.aligned).is_empty();
        if !is_plain || is_bad || !late.difference(write_mostly).is_empty() {
            return false;
        }
        let readable = self.legs.in_sync.intersection(write.targets);
        let readable = readable.difference(late);
        let may_be_read = match self.divergence_of(write.aligned) {
            DivergencePin::None => true,
            DivergencePin::Leg(leg) => readable.contains(leg),
            DivergencePin::Cut(_) => false,
        };
        // What reads beside it have seen, of whatever leg, is not taken back: the others have all.
        self.is_on_a_leader(index) && may_be_read
    }

    /// Whether a leg that is not write-mostly has the bytes of a write, and is read.
    fn is_on_a_leader(&self, index: u32) -> bool {
        let write = &self.writes[index];
        let here = self.legs.in_sync.intersection(write.targets);
        let mut leaders = here.difference(write.late.union(self.legs.write_mostly));
        for leg in self.behind.leaving.keys() {
            leaders.remove(*leg);
        }
        if let Some(leg) = self.legs.in_between() {
            leaders.remove(leg);
        }
        !leaders.is_empty()
    }

    /// What a write's answer has waited for is durable. Where the legs that it was on when it went
    /// behind are out by now, nobody has it yet, or only those that may be behind: it waits for all
    /// legs after all.
    pub(crate) fn answer_or_wait(&mut self, turn: &mut Turn<'_>, index: u32) {
        if !self.writes[index].is_behind() || self.is_on_a_leader(index) {
            return self.answer_write(turn, index);
        }
        // Readers still keep away from legs that do not have it.
        self.leave_behind(index);
        self.room_behind(turn);
    }

    /// Answers a write that write-mostly legs do not have yet.
    fn go_behind(&mut self, turn: &mut Turn<'_>, index: u32) {
        let number = self.behind.take_number();
        let write = &mut self.writes[index];
        write.lead = Lead::Behind {
            number,
            is_answered: false,
        };
        let (lock, late) = (write.lock, write.late);
        self.behind.numbers.insert(number);
        let figures = &mut self.behind.figures;
        figures.writes += 1;
        figures.bytes += self.writes[index].len_bytes();
        figures.total += 1;
        for piece in self.locks.go_behind(lock, late) {
            self.place(turn, piece);
        }
        if self.may_answer_write(index) {
            self.answer_write(turn, index);
        }
    }

    /// A write has ended: it is behind no more. Whether it was, and its answer is somebody else's
    /// business.
    pub(crate) fn leave_behind(&mut self, index: u32) -> bool {
        match std::mem::replace(&mut self.writes[index].lead, Lead::None) {
            Lead::None => false,
            Lead::Wanted(number) => {
                self.behind.wanted.remove(&number);
                false
            }
            Lead::Behind {
                number,
                is_answered,
            } => {
                self.behind.numbers.remove(&number);
                let figures = &mut self.behind.figures;
                figures.writes -= 1;
                figures.bytes -= self.writes[index].len_bytes();
                if is_answered {
                    self.writes.remove(index);
                }
                true
            }
        }
    }

    /// There is room again, and there may be less to drain: whoever waited for that goes on.
    pub(crate) fn room_behind(&mut self, turn: &mut Turn<'_>) {
        while let Some((&number, &index)) = self.behind.wanted.first_key_value() {
            if !self.behind.has_room(self.writes[index].len_bytes()) {
                break;
            }
            self.behind.wanted.remove(&number);
            self.writes[index].lead = Lead::None;
            if self.may_be_behind(index) {
                self.go_behind(turn, index);
            }
        }
        self.fault_leaving(turn);
        self.begin_round(turn);
    }

    /// A leg is to go because of what it fails to read, and nothing else is wrong with it: at once,
    /// or when others have what it alone has.
    pub(crate) fn fault_reader(&mut self, turn: &Turn<'_>, leg: LegId, reason: FaultReason) {
        if self.legs.is_dispensable(leg) && self.alone_has_answered(leg) {
            self.behind.leaving.insert(leg, reason);
        } else {
            self.fault_leg(turn, leg, reason);
        }
    }

    /// Others may have by now what legs that are to go alone had.
    pub(crate) fn fault_leaving(&mut self, turn: &Turn<'_>) {
        for (leg, reason) in std::mem::take(&mut self.behind.leaving) {
            self.fault_reader(turn, leg, reason);
        }
    }

    /// Legs that could log what they have failed of an answered write have failed all of it where
    /// whoever has it is to go.
    pub(crate) fn keep_leaving(&mut self, index: u32) {
        let write = &self.writes[index];
        if self.behind.leaving.is_empty() || !write.is_behind() {
            return;
        }
        let leaving: LegSet = self.behind.leaving.keys().copied().collect();
        let has_it = self.legs.in_sync.intersection(write.ended_well());
        if has_it.intersection(leaving).is_empty() || !has_it.difference(leaving).is_empty() {
            return;
        }
        let bad: LegSet = write.bad.iter().map(|(leg, _)| *leg).collect();
        for leg in bad {
            self.note_failure(index, leg, FaultReason::WriteFailed(ErrorKind::Io));
        }
    }

    /// A leg is out, for whatever reason.
    pub(crate) fn has_left(&mut self, leg: LegId) {
        self.behind.leaving.remove(&leg);
    }

    /// Whether no other leg has ended some write that was answered.
    fn alone_has_answered(&self, leg: LegId) -> bool {
        let alone = LegSet::from_iter([leg]);
        let has_it = |write: &Write| self.legs.in_sync.intersection(write.ended_well());
        let is_on_it_alone = |write: &Write| write.is_behind() && has_it(write) == alone;
        !self.behind.numbers.is_empty()
            && self.writes.iter().any(|(_, write)| is_on_it_alone(write))
    }
}

impl Write {
    /// Of the arena, what it keeps.
    const fn len_bytes(&self) -> u64 {
        self.aligned.len()
    }

    /// Whether its client has an answer though legs have not all ended it.
    pub(crate) const fn is_answered(&self) -> bool {
        matches!(
            self.lead,
            Lead::Behind {
                is_answered: true,
                ..
            }
        )
    }

    const fn is_behind(&self) -> bool {
        matches!(self.lead, Lead::Behind { .. })
    }

    /// The legs that have all of it.
    fn ended_well(&self) -> LegSet {
        let bad: LegSet = self.bad.iter().map(|(leg, _)| *leg).collect();
        self.targets
            .difference(self.late.union(self.failed).union(bad))
    }

    /// Legs that have not ended it, where it is at them as one operation each.
    pub(crate) fn leg_has_ended(&mut self, leg: LegId) {
        self.late.remove(leg);
    }

    /// The legs that it is sent to.
    pub(crate) const fn sent_to(&mut self, legs: LegSet) {
        self.targets = legs;
        self.late = legs;
    }
}
