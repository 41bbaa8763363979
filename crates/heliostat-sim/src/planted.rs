//! Bugs on purpose, one for each checker: whether the checkers find what they are there for.

use heliostat_engine::LegState;
use heliostat_types::{LegId, OpKind, SECTOR_BYTES};

use crate::contents::{SECTOR, fill_sector};
use crate::leg::LegOpInFlight;
use crate::shrink::Shrunk;
use crate::simulation::{CheckFailure, Simulation};
use crate::trial::Trial;

/// A bug that a simulation has on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    /// Now and then a leg reads a byte that nobody wrote.
    WrongBytes,
    /// Now and then a leg reads what was there before anything was written.
    StaleRead,
    /// Now and then what was just written is gone from all legs.
    LostWrite,
    /// Now and then a write is gone from one leg.
    LegsDiffer,
    /// A read's memory is not given back.
    LeakedMemory,
    /// An operation of a leg stays on the books.
    NeverEnded,
    /// A request is never answered.
    NeverAnswered,
    /// A request is answered twice.
    AnsweredTwice,
    /// Requests take longer than they were there.
    LostTime,
    /// Devices answer flushes and make nothing durable.
    FlushedLost,
    /// The record says *clean* while the legs may differ.
    CleanTooEarly,
    /// One of ten reads is asked of a second leg.
    ExtraReads,
    /// Of arrays with metadata: bits of the bitmap do not get to the legs.
    DataBeforeBits,
    /// Bits are cleared although no data was flushed.
    ClearedUnflushed,
    /// Bits are cleared when the next ones are set.
    ClearedEarly,
    /// Superblocks say *clean* while clients write.
    CleanSuperblock,
    /// Superblocks that call a leg failed do not get to the others.
    FaultNotDurable,
    /// The count of events stays what it was.
    EventsNotBumped,
    /// Legs that missed something are taken for as fresh as the others.
    StaleTrusted,
    /// A leg that is one event behind says itself what its role is.
    StaleRole,
    /// Flushes make nothing durable of what is copied to a leg.
    RejoinUnflushed,
    /// A leg says that it is whole while it is being rebuilt.
    WholeTooEarly,
    /// A leg that is being rebuilt says that it has come to its end.
    OffsetTooFar,
    /// A leg that comes back is copied nothing.
    NothingCopied,
    /// Bits are cleared while a leg is out that needs them.
    ClearedWhileOut,
    /// The bitmap never says that it has forgotten anything.
    ClearedUntold,
    /// Flushes make nothing durable of what is copied to a leg that is to replace another one.
    ReplacedUnflushed,
    /// Superblocks that say that a leg has taken another one's role do not get to the legs.
    HandoverNotDurable,
    /// A leg that is to replace another one says that it is whole while it is being filled.
    ReplacementWhole,
    /// Legs are trimmed that do not read zeros afterwards.
    TrimAnywhere,
    /// A spare that takes a place is copied nothing.
    SpareNotFilled,
    /// A scrub sees no difference.
    ScrubBlind,
    /// The engine takes legs that are write-mostly for others, and others for write-mostly: none
    /// that a start believes need have a write that is answered.
    BehindOnLeaders,
    /// Something that is no part of the scenario changes the run.
    Nondeterminism {
        /// Number of the run.
        run: u64,
    },
}

/// A bug as a simulation has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plant {
    pub(crate) bug: Planted,
    /// Whether operations are looked at before legs are given them, as without a bug.
    pub(crate) is_watched: bool,
}

/// A bug, and the checker that is there for it.
struct Row {
    name: &'static str,
    bug: Planted,
    /// What the checker says that finds it.
    told: &'static str,
    /// Which random scenarios can have it.
    trial: fn(u64) -> Trial,
    /// Whether it is found before a leg is given an operation. Where it is not, nothing is looked
    /// at then, so that what a power cut leaves of the legs has to show it.
    is_watched: bool,
}

impl Row {
    /// One that any array can have.
    const fn of_all(name: &'static str, bug: Planted, told: &'static str) -> Self {
        Self {
            name,
            bug,
            told,
            trial: Trial::random,
            is_watched: false,
        }
    }

    /// One of arrays with metadata, found in what a power cut leaves of the legs.
    const fn after_cut(name: &'static str, bug: Planted, told: &'static str) -> Self {
        Self {
            trial: Trial::life,
            ..Self::of_all(name, bug, told)
        }
    }

    /// The same of arrays that somebody tends.
    const fn tended(name: &'static str, bug: Planted, told: &'static str) -> Self {
        Self {
            trial: Trial::tended,
            ..Self::of_all(name, bug, told)
        }
    }

    /// The same of arrays that are given legs.
    const fn supplied(name: &'static str, bug: Planted, told: &'static str) -> Self {
        Self {
            trial: Trial::supplied,
            ..Self::of_all(name, bug, told)
        }
    }

    /// One of arrays with metadata, found before a leg is given an operation.
    const fn watched(name: &'static str, bug: Planted, told: &'static str) -> Self {
        Self {
            is_watched: true,
            ..Self::after_cut(name, bug, told)
        }
    }
}

/// All of them.
const PLANTED: [Row; 42] = [
    Row::of_all("wrong-bytes", Planted::WrongBytes, "bytes of no write"),
    Row::of_all(
        "stale-read",
        Planted::StaleRead,
        "a version that was overwritten",
    ),
    Row::of_all(
        "lost-write",
        Planted::LostWrite,
        "holds a version that was overwritten",
    ),
    Row::of_all("legs-differ", Planted::LegsDiffer, "differ in sector"),
    Row::of_all(
        "leaked-memory",
        Planted::LeakedMemory,
        "memory were never given back",
    ),
    Row::of_all("never-ended", Planted::NeverEnded, "still in flight"),
    Row::of_all(
        "never-answered",
        Planted::NeverAnswered,
        "a request was never answered",
    ),
    Row::of_all("answered-twice", Planted::AnsweredTwice, "answered twice"),
    Row::of_all(
        "lost-time",
        Planted::LostTime,
        "spent other time than they were there",
    ),
    Row::of_all("flushed-lost", Planted::FlushedLost, "after the power cut"),
    Row::of_all(
        "clean-too-early",
        Planted::CleanTooEarly,
        "the record says clean, but",
    ),
    Row::of_all(
        "extra-reads",
        Planted::ExtraReads,
        "reads beyond what clients needed",
    ),
    Row::after_cut(
        "data-before-bits",
        Planted::DataBeforeBits,
        "although no bit is set",
    ),
    Row::watched(
        "data-before-bits-watched",
        Planted::DataBeforeBits,
        "may be clear on",
    ),
    Row::after_cut(
        "cleared-unflushed",
        Planted::ClearedUnflushed,
        "although no bit is set",
    ),
    Row::after_cut(
        "cleared-early",
        Planted::ClearedEarly,
        "although no bit is set",
    ),
    Row::watched(
        "cleared-early-watched",
        Planted::ClearedEarly,
        "is cleared although",
    ),
    Row::watched(
        "clean-unflushed",
        Planted::ClearedUnflushed,
        "says clean although",
    ),
    Row::after_cut(
        "clean-superblock",
        Planted::CleanSuperblock,
        "although the superblocks say clean",
    ),
    Row::watched(
        "clean-superblock-watched",
        Planted::CleanSuperblock,
        "may say clean",
    ),
    Row::after_cut(
        "fault-not-durable",
        Planted::FaultNotDurable,
        "is believed by md",
    ),
    Row::after_cut(
        "events-not-bumped",
        Planted::EventsNotBumped,
        "is believed by md",
    ),
    Row::after_cut(
        "stale-trusted",
        Planted::StaleTrusted,
        "is believed by heliostat",
    ),
    Row::after_cut("stale-role", Planted::StaleRole, "is believed by heliostat"),
    Row::tended(
        "rejoin-unflushed",
        Planted::RejoinUnflushed,
        "after the power cut",
    ),
    Row {
        is_watched: true,
        ..Row::tended(
            "rejoin-unflushed-watched",
            Planted::RejoinUnflushed,
            "says that it is whole although",
        )
    },
    Row::tended(
        "whole-too-early",
        Planted::WholeTooEarly,
        "a client was answered after it was out",
    ),
    Row::tended(
        "offset-too-far",
        Planted::OffsetTooFar,
        "would not be copied it",
    ),
    Row::tended("nothing-copied", Planted::NothingCopied, "differ in sector"),
    Row::tended(
        "cleared-while-out",
        Planted::ClearedWhileOut,
        "would not be copied it",
    ),
    Row::supplied(
        "cleared-untold",
        Planted::ClearedUntold,
        "would not be copied it",
    ),
    Row::supplied(
        "replaced-unflushed",
        Planted::ReplacedUnflushed,
        "after the power cut",
    ),
    Row {
        is_watched: true,
        ..Row::supplied(
            "replaced-unflushed-watched",
            Planted::ReplacedUnflushed,
            "says that it is whole although",
        )
    },
    Row::supplied(
        "handover-not-durable",
        Planted::HandoverNotDurable,
        "is believed by",
    ),
    Row::supplied(
        "replacement-whole-too-early",
        Planted::ReplacementWhole,
        "would not be copied it",
    ),
    Row::supplied(
        "spare-not-filled",
        Planted::SpareNotFilled,
        "differ in sector",
    ),
    Row::supplied("trim-anywhere", Planted::TrimAnywhere, "differ in sector"),
    Row {
        is_watched: true,
        ..Row::supplied(
            "trim-anywhere-watched",
            Planted::TrimAnywhere,
            "does not read zeros afterwards",
        )
    },
    Row::after_cut(
        "behind-on-leaders",
        Planted::BehindOnLeaders,
        "which may not be behind",
    ),
    Row::tended("scrub-blind", Planted::ScrubBlind, "a check has counted"),
    Row::tended("repair-blind", Planted::ScrubBlind, "a repair has left"),
    Row::of_all(
        "nondeterminism",
        Planted::Nondeterminism { run: 0 },
        "two runs of it differ",
    ),
];

/// The names of the bugs that [`run_planted`] can plant.
#[doc(hidden)]
#[must_use]
pub fn planted() -> Vec<&'static str> {
    PLANTED.iter().map(|row| row.name).collect()
}

/// A bug on purpose that a checker has found.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Found {
    /// Where it showed.
    pub trial: Trial,
    /// What the checker that is there for it says.
    pub failure: Box<CheckFailure>,
    planted: Plant,
}

impl Found {
    /// The trial made smaller while the bug shows in it, with at most `runs_max` runs.
    #[must_use]
    pub fn shrink(&self, runs_max: u32) -> Shrunk {
        let planted = Some(self.planted);
        self.trial.shrink_planted(&self.failure, planted, runs_max)
    }
}

/// Plays the random scenarios of `seeds` with a bug until the checker that is there for it finds
/// it.
///
/// # Errors
/// Where there is no bug of this name, or nobody finds it.
#[doc(hidden)]
pub fn run_planted(name: &str, seeds: impl IntoIterator<Item = u64>) -> Result<Found, String> {
    let mut known = PLANTED.iter();
    let row = known.find(|row| row.name == name).ok_or_else(|| {
        format!(
            "no bug is called '{name}'; there are {}",
            planted().join(", ")
        )
    })?;
    let is_in_two_runs = matches!(row.bug, Planted::Nondeterminism { .. });
    let planted = Plant {
        bug: row.bug,
        is_watched: row.is_watched,
    };
    let mut count = 0u64;
    let mut other = None;
    for seed in seeds {
        count += 1;
        let trial = (row.trial)(seed);
        let outcome = trial.try_play(is_in_two_runs, Some(planted), u64::MAX);
        let Some(Err(failure)) = outcome else {
            continue;
        };
        if failure.text.contains(row.told) {
            return Ok(Found {
                trial,
                failure,
                planted,
            });
        }
        other = other.or(Some((seed, failure.text)));
    }
    let other = other.map_or_else(String::new, |(seed, text)| {
        format!("; another one says of seed {seed}: {text}")
    });
    Err(format!(
        "no checker has found '{name}' in {count} random scenarios{other}"
    ))
}

impl Simulation {
    /// Gives it a bug before its first moment.
    pub(crate) fn plant(&mut self, planted: Plant) {
        self.plant = Some(planted);
        for leg in &mut self.legs {
            leg.forgets_flushes = planted.bug == Planted::FlushedLost;
            leg.forgets_data = planted.bug == Planted::ClearedUnflushed;
        }
    }

    /// Whether it has this bug.
    pub(crate) fn has(&self, planted: Planted) -> bool {
        self.plant.is_some_and(|plant| plant.bug == planted)
    }

    /// Whether it has this bug and it shows now: at every `nth` occasion.
    pub(crate) fn shows(&mut self, planted: Planted, nth: u64) -> bool {
        if !self.has(planted) {
            return false;
        }
        self.plant_count += 1;
        self.plant_count.is_multiple_of(nth)
    }

    /// A leg has ended an operation: what the bug makes of its bytes.
    pub(crate) fn spoil_operation(&mut self, ended: &LegOpInFlight) {
        let op = ended.op;
        let first = op.extent.offset() / SECTOR_BYTES;
        let kept_bytes = self.scenario.fidelity.kept_bytes();
        if self.has(Planted::NeverEnded) && self.now >= self.measured.ends_at {
            self.leg_ops.insert(*ended);
        } else if op.kind == OpKind::Read && self.shows(Planted::WrongBytes, 50) {
            self.arena.bytes[ended.memory.0 + 9] ^= 1;
            self.arena.bytes[ended.memory.0] ^= 1;
        } else if op.kind == OpKind::Read && self.shows(Planted::StaleRead, 5) {
            let bytes = &mut self.arena.bytes[ended.memory.0..ended.memory.1];
            for (sector, bytes) in (first..).zip(bytes.chunks_exact_mut(SECTOR)) {
                fill_sector(&mut bytes[..kept_bytes], sector, 0);
            }
        } else if op.kind == OpKind::Write
            && op.leg == LegId::new(0)
            && self.shows(Planted::LegsDiffer, 10)
        {
            self.lose(0..1, first);
        } else if op.kind == OpKind::Read && self.shows(Planted::ExtraReads, 10) {
            self.legs[op.leg.index()].result.hedge_reads += 1;
        }
    }

    /// A leg may be about to end a flush: whether the bug makes it forget data.
    pub(crate) fn spoil_flush(&mut self, leg: LegId) {
        let forgets = if self.has(Planted::RejoinUnflushed) {
            self.engine.leg_state(leg) == LegState::Rebuilding
        } else if self.has(Planted::ReplacedUnflushed) {
            self.engine.replacing().is_some_and(|(_, by)| by == leg)
        } else {
            return;
        };
        self.legs[leg.index()].forgets_data = forgets;
    }

    /// A write was answered: what the bug makes of it.
    pub(crate) fn spoil_write(&mut self, first_sector: u64) {
        if self.shows(Planted::LostWrite, 10) {
            self.lose(0..self.legs.len(), first_sector);
        }
    }

    /// A sector of some legs is as it was before anything was written.
    fn lose(&mut self, legs: std::ops::Range<usize>, sector: u64) {
        let mut bytes = vec![0; self.scenario.fidelity.kept_bytes()];
        fill_sector(&mut bytes, sector, 0);
        for leg in &mut self.legs[legs] {
            leg.store.set_sector(sector, &bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{planted, run_planted};

    /// Enough for a volatile cache, a power cut and a client that flushes to meet.
    const SEEDS: std::ops::Range<u64> = 1_001..1_200;

    #[test]
    fn every_checker_finds_its_bug() {
        let missed: Vec<String> = planted()
            .into_iter()
            .filter_map(|name| run_planted(name, SEEDS).err())
            .collect();
        assert_eq!(missed, Vec::<String>::new());
    }

    #[test]
    fn what_shows_a_bug_becomes_small() {
        for name in ["wrong-bytes", "legs-differ", "lost-write"] {
            let found = run_planted(name, SEEDS).unwrap();
            let shrunk = found.shrink(300);
            let scenario = &shrunk.trial.scenario;
            let text = shrunk.trial.to_text("");
            assert!(scenario.array.legs.len() <= 2, "{name}: {text}");
            assert_eq!(scenario.jobs.len(), 1, "{name}: {text}");
            assert!(scenario.faults.is_empty(), "{name}: {text}");
            // What it says is true.
            let again = shrunk.trial.try_play(false, Some(found.planted), u64::MAX);
            assert_eq!(again.unwrap().unwrap_err(), shrunk.failure);
        }
    }

    #[test]
    fn there_is_no_other_bug() {
        let told = run_planted("typo", 0..1).unwrap_err();
        assert!(
            told.starts_with("no bug is called 'typo'; there are wrong-bytes, "),
            "{told}"
        );
    }
}
