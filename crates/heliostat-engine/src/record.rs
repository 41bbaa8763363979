//! The record of the array that must survive the daemon: dirty or clean, and which legs are out.
//!
//! Invariants: no operation that changes bytes is dispatched before a record that says *dirty* is
//! durable; no change is answered before every fault known by then is durable; a record says
//! *clean* only after all legs in sync have flushed with no change admitted since, and while no
//! range is known to differ.

use std::collections::VecDeque;

use heliostat_types::{Duration, ErrorKind, Extent, Instant, LegId};

use crate::api::{ArrayRecord, Output};
use crate::engine::{Engine, Turn};
use crate::intent::IdleChunk;
use crate::needed::Needed;

/// A record that could not be made durable is tried again after so long.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What waits for a record.
#[derive(Clone, Debug)]
enum Held {
    /// A write may begin to change bytes.
    Begin(u32),
    /// A repair may begin to.
    Repair(u32),
    /// A window of the background work may begin to.
    Window(u32),
    /// A piece of a read, by what tells it from others with its index, may be read.
    Piece(u32, u64),
    /// What was read from another leg than at first may be written to all.
    Moved(u32),
    /// A leg that was rebuilt, for the so many'th time that a leg was, may be read.
    Rejoin(LegId, u64),
    /// This is said of a leg.
    Flags(LegId),
    /// There is one more role, which this leg has.
    Growth(LegId),
    /// A write may be answered.
    WriteAnswer(u32),
    /// A flush round may be answered.
    FlushAnswer(u32),
    /// The bits of these chunks may be cleared.
    Clear(Vec<IdleChunk>),
}

/// The record, how much of it is durable, and what waits for that.
#[derive(Debug)]
pub(crate) struct Record {
    newest: ArrayRecord,
    durable_generation: u64,
    /// The generation that made the array dirty, and the last one that took a leg out.
    dirty_generation: u64,
    fault_generation: u64,
    /// The last generation that could not be made durable.
    refused_generation: u64,
    /// No change begins before this one is durable, whatever else is.
    begin_generation: u64,
    held: VecDeque<(u64, Held)>,
    /// Changes in progress.
    changing: usize,
    /// Rises with every change admitted.
    changes: u64,
    clean_at: Option<Instant>,
    /// The last leg failed a flush.
    is_lost: bool,
    /// All was flushed, but something that was known of legs was not durable.
    is_clean_put_off: bool,
}

impl Record {
    pub(crate) const fn new(
        durable: ArrayRecord,
        begin_generation: u64,
        clean_at: Option<Instant>,
    ) -> Self {
        Self {
            newest: durable,
            durable_generation: durable.generation,
            dirty_generation: durable.generation,
            fault_generation: durable.generation,
            refused_generation: 0,
            begin_generation,
            held: VecDeque::new(),
            changing: 0,
            changes: 0,
            clean_at,
            is_lost: false,
            is_clean_put_off: false,
        }
    }

    pub(crate) const fn newest(&self) -> ArrayRecord {
        self.newest
    }

    pub(crate) const fn is_durable(&self) -> bool {
        self.durable_generation >= self.newest.generation
    }

    pub(crate) const fn clean_at(&self) -> Option<Instant> {
        self.clean_at
    }

    /// Whether the last leg has failed a flush.
    pub(crate) const fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// How many changes were ever admitted.
    pub(crate) const fn changes(&self) -> u64 {
        self.changes
    }
}

impl Engine {
    /// A change is admitted: the array cannot become clean before it ends.
    pub(crate) fn change_admitted(&mut self) {
        self.record.changing += 1;
        self.record.changes += 1;
        self.record.clean_at = None;
    }

    /// A change has ended, however.
    pub(crate) fn change_ended(&mut self, turn: &Turn<'_>) {
        self.record.changing -= 1;
        self.clean_later(turn);
    }

    /// The array may become clean if it is left alone for long enough from now on.
    pub(crate) fn clean_later(&mut self, turn: &Turn<'_>) {
        if self.record.changing == 0 && self.record.newest.dirty {
            self.record.clean_at = Some(turn.now + self.config.clean_delay);
        }
    }

    /// The last leg has failed a flush. What was answered before may be lost, and no later flush
    /// brings it back: the record stays dirty for good.
    pub(crate) const fn never_clean(&mut self) {
        self.record.is_lost = true;
    }

    /// Whether a write may change the bytes of `extent` now. Otherwise it is told later.
    pub(crate) fn may_write(&mut self, write: u32, extent: Extent) -> bool {
        let may = self.may_begin(extent);
        if !may {
            self.hold_change(extent, Held::Begin(write));
        }
        may
    }

    /// The same for a repair.
    pub(crate) fn may_repair(&mut self, repair: u32, extent: Extent) -> bool {
        let may = self.may_begin(extent);
        if !may {
            self.hold_change(extent, Held::Repair(repair));
        }
        may
    }

    /// The same for a window of the background work.
    pub(crate) fn may_change(&mut self, window: u32, extent: Extent) -> bool {
        let may = self.may_begin(extent);
        if !may {
            self.hold_change(extent, Held::Window(window));
        }
        may
    }

    /// The same for what was read from another leg than at first.
    pub(crate) fn may_move(&mut self, at: u32, extent: Extent) -> bool {
        if !self.are_faults_told() {
            self.hold(self.record.fault_generation, Held::Moved(at));
            return false;
        }
        let may = self.may_begin(extent);
        if !may {
            self.hold_change(extent, Held::Moved(at));
        }
        may
    }

    /// Whether it is durable who is out; or that cannot be, and nothing is gained by waiting.
    pub(crate) fn are_faults_told(&self) -> bool {
        let record = &self.record;
        record.durable_generation.max(record.refused_generation) >= record.fault_generation
    }

    /// A piece of a read waits until it is durable who is out.
    pub(crate) fn hold_piece(&mut self, index: u32, serial: u64) {
        self.hold(self.record.fault_generation, Held::Piece(index, serial));
    }

    /// A leg was rebuilt, and that is durable on it: puts on record that it is in sync. It is told
    /// when that is durable.
    pub(crate) fn record_rejoin(&mut self, leg: LegId, serial: u64) {
        self.record.newest.faulted.remove(leg);
        let generation = self.persist();
        let held = Held::Rejoin(leg, serial);
        self.record.held.push_back((generation, held));
    }

    /// Whether what was to be told by this generation is durable.
    pub(crate) const fn is_on_record(&self, generation: u64) -> bool {
        self.record.durable_generation >= generation
    }

    /// A leg that has everything waits until it is told of.
    pub(crate) fn hold_rejoin(&mut self, generation: u64, leg: LegId, serial: u64) {
        self.hold(generation, Held::Rejoin(leg, serial));
    }

    /// Puts on record what is said of a leg. It is told when that is durable.
    pub(crate) fn record_flags(&mut self, leg: LegId) {
        let generation = self.persist();
        self.record.held.push_back((generation, Held::Flags(leg)));
    }

    /// The same, when another commit is tried: until then the record is not durable.
    pub(crate) fn hold_flags(&mut self, leg: LegId) {
        let keeper = self.keeper.as_ref().expect("only metadata has flags");
        let generation = keeper.next();
        self.record.held.push_back((generation, Held::Flags(leg)));
    }

    /// Nobody waits for what is said of a leg: the one that was told is out.
    pub(crate) fn forget_flags(&mut self) {
        let held = &mut self.record.held;
        held.retain(|(_, held)| !matches!(held, Held::Flags(_)));
    }

    /// Puts on record that there is one more role. It is told when that is durable.
    pub(crate) fn record_growth(&mut self, leg: LegId) {
        let generation = self.persist();
        self.record.held.push_back((generation, Held::Growth(leg)));
    }

    /// The same, when another commit is tried.
    fn hold_growth(&mut self, leg: LegId) {
        let keeper = self.keeper.as_ref().expect("only metadata has roles");
        let generation = keeper.next();
        self.record.held.push_back((generation, Held::Growth(leg)));
    }

    /// The generation that a change waits for.
    fn change_generation(&self) -> u64 {
        let record = &self.record;
        record.dirty_generation.max(record.begin_generation)
    }

    fn may_begin(&self, extent: Extent) -> bool {
        let record = &self.record;
        let is_dirty = record.newest.dirty && record.durable_generation >= self.change_generation();
        is_dirty && self.intent.is_durable(extent)
    }

    /// A change waits until it may begin, or until it is worth looking again.
    #[cold]
    fn hold_change(&mut self, extent: Extent, held: Held) {
        if !self.record.newest.dirty {
            self.record.newest.dirty = true;
            self.record.dirty_generation = self.persist();
        }
        if !self.intent.is_durable(extent) {
            let keeper = self.keeper.as_mut().expect("only metadata has a bitmap");
            let generation = keeper.want();
            self.record.held.push_back((generation, held));
            return;
        }
        self.hold(self.change_generation(), held);
    }

    /// The bits of these chunks may be cleared once what is wanted now is durable.
    pub(crate) fn clear_later(&mut self, chunks: Vec<IdleChunk>) {
        let keeper = self.keeper.as_mut().expect("only metadata has a bitmap");
        keeper.pages_changed();
        let generation = keeper.next();
        self.record
            .held
            .push_back((generation, Held::Clear(chunks)));
    }

    /// Whether a write may be answered now. Otherwise it is told later.
    pub(crate) fn may_answer_write(&mut self, write: u32) -> bool {
        let told_by = self.writes[write].told_by;
        let generation = self.record.fault_generation.max(told_by);
        let may = self.record.durable_generation >= generation;
        if !may {
            self.hold(generation, Held::WriteAnswer(write));
        }
        may
    }

    /// Whether a flush round may be answered now. Otherwise it is told later.
    pub(crate) fn may_answer_flush(&mut self, round: u32) -> bool {
        let may = self.are_faults_durable();
        if !may {
            self.hold(self.record.fault_generation, Held::FlushAnswer(round));
        }
        may
    }

    /// Whether what is known of legs is durable: who is out, and what who does not hold.
    pub(crate) const fn are_faults_durable(&self) -> bool {
        self.record.durable_generation >= self.record.fault_generation
    }

    /// What waits for a generation that is not durable.
    #[cold]
    fn hold(&mut self, generation: u64, held: Held) {
        if let Some(keeper) = &mut self.keeper {
            keeper.want();
        }
        self.record.held.push_back((generation, held));
    }

    /// A leg is out.
    pub(crate) fn record_fault(&mut self, leg: LegId) {
        self.record.newest.faulted.insert(leg);
        self.record.fault_generation = self.persist();
    }

    /// A leg is out, and that is on record already.
    pub(crate) fn note_replaced(&mut self, leg: LegId) {
        self.record.newest.faulted.insert(leg);
    }

    /// What a leg does not hold has changed, which must be durable before anybody hears of a
    /// write that did not get there.
    pub(crate) fn record_bad_blocks(&mut self) {
        let keeper = self.keeper.as_mut().expect("only metadata has a log");
        self.record.fault_generation = keeper.log_changed();
    }

    /// No change begins before the last fault is durable.
    pub(crate) const fn begin_after_fault(&mut self) {
        self.record.begin_generation = self.record.fault_generation;
    }

    /// Sends the newest record on its way. Its generation.
    fn persist(&mut self) -> u64 {
        if let Some(keeper) = &mut self.keeper {
            self.record.newest.generation = keeper.record_changed();
        } else {
            self.record.newest.generation += 1;
            self.outputs.push_back(Output::Persist(self.record.newest));
        }
        self.record.newest.generation
    }

    /// A record is durable, and with it all before it.
    pub(crate) fn persisted(&mut self, turn: &mut Turn<'_>, generation: u64) {
        assert!(
            self.keeper.is_some() || generation <= self.record.newest.generation,
            "only a record that was sent can be durable"
        );
        let durable = self.record.durable_generation.max(generation);
        self.record.durable_generation = durable;
        if self.are_faults_told() {
            self.untold = Needed::new();
        }
        if self.record.is_clean_put_off && self.are_faults_durable() {
            self.record.is_clean_put_off = false;
            self.clean_later(turn);
        }
        for what in self.take_held(durable) {
            match what {
                Held::Begin(write) => self.begin_if_durable(turn, write),
                Held::Repair(repair) => self.repair_if_durable(turn, repair),
                Held::Window(window) => self.change_if_durable(turn, window),
                Held::Piece(index, serial) => self.place_if_live(turn, index, serial),
                Held::Moved(at) => self.write_moved(turn, at),
                Held::Rejoin(leg, serial) => self.join_leg(turn, leg, serial),
                Held::Flags(leg) => self.flags_recorded(leg),
                Held::Growth(leg) => self.growth_recorded(leg),
                // Another leg may have failed since it was held.
                Held::WriteAnswer(write) => {
                    if self.may_answer_write(write) {
                        self.answer_or_wait(turn, write);
                    }
                }
                Held::FlushAnswer(round) => {
                    if self.may_answer_flush(round) {
                        self.answer_flush(turn, round);
                    }
                }
                Held::Clear(chunks) => self.clear_bits(&chunks),
            }
        }
    }

    /// What was to be durable with this generation cannot be made so: a leg that some bytes depend
    /// on alone has failed it. Nothing that waits for it goes on as if it were. It is tried again
    /// after a while, though nobody asks: a leg that was full may have room then.
    pub(crate) fn not_persisted(&mut self, turn: &mut Turn<'_>, generation: u64, kind: ErrorKind) {
        self.record.clean_at = Some(turn.now + RETRY_AFTER);
        self.record.refused_generation = self.record.refused_generation.max(generation);
        for what in self.take_held(generation) {
            match what {
                Held::Begin(write) => self.fail_write(turn, write, kind),
                Held::Repair(repair) => self.end_repair(turn, repair),
                Held::Window(window) => self.fail_window(turn, window),
                Held::Piece(index, serial) => self.place_if_live(turn, index, serial),
                Held::Moved(at) => self.end_moved(turn, at, Some(Ok(()))),
                Held::Rejoin(leg, serial) => self.rejoin_failed(leg, serial),
                Held::Flags(leg) => self.flags_not_recorded(leg),
                Held::Growth(leg) => self.hold_growth(leg),
                Held::WriteAnswer(write) => self.fail_answer(turn, write, kind),
                Held::FlushAnswer(round) => self.fail_flush(turn, round, kind),
                Held::Clear(_) => {}
            }
        }
    }

    /// What waits for this generation or an earlier one.
    fn take_held(&mut self, generation: u64) -> Vec<Held> {
        let held = std::mem::take(&mut self.record.held);
        let mut taken = Vec::new();
        for (wanted, what) in held {
            if wanted > generation {
                self.record.held.push_back((wanted, what));
            } else {
                taken.push(what);
            }
        }
        // Who is in comes first: what begins now does not go to a leg that was replaced.
        taken.sort_by_key(|what| !matches!(what, Held::Rejoin(..)));
        taken
    }

    /// Flushes the legs where the array has been left alone for long enough.
    pub(crate) fn check_clean(&mut self, turn: &Turn<'_>) {
        if self.record.clean_at.is_none_or(|at| at > turn.now) {
            return;
        }
        self.record.clean_at = None;
        if self.record.newest.dirty && self.record.changing == 0 && self.is_all_equal() {
            self.begin_clean_flush(turn);
        } else if let Some(keeper) = &mut self.keeper
            && !self.record.is_durable()
        {
            keeper.want();
        }
    }

    /// All legs in sync have flushed what was changed up to `changes`.
    pub(crate) fn flushed_up_to(&mut self, changes: u64) {
        let is_current = self.record.changes == changes && self.record.changing == 0;
        if is_current && !self.are_faults_durable() {
            // A leg must not be taken for clean before it says what it does not hold.
            self.record.is_clean_put_off = true;
            return;
        }
        if is_current && !self.record.is_lost && self.record.newest.dirty && self.is_all_equal() {
            self.record.newest.dirty = false;
            self.background.has_copied = false;
            self.record.clean_at = None;
            self.persist();
        }
    }
}
