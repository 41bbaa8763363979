//! The legs: their states, what each has in hand, and the way of an operation to a leg and back.
//!
//! Invariants: an operation is handed only to a leg in sync or being rebuilt, and a read only to
//! one in sync; a leg that is out has no operation queued, and those it had in hand belong to
//! nobody (they are *ghosts*, counted and holding their buffers until their completions are
//! reaped); every byte of the array keeps a leg in sync for ever. Extents here are on legs, not on
//! the array.

use std::collections::VecDeque;

use heliostat_policy::LegView;
use heliostat_scheduler::{Class, Costs, Device, Job, Scheduler, SchedulerSpec};
use heliostat_types::{
    Duration, ErrorKind, Extent, FlowId, Instant, LegId, LegOpId, LegSet, OpKind,
};

use crate::accounting::Choices;
use crate::api::{
    Config, Event, FaultReason, LegConfig, LegState, LegStats, Output, SchedulerPlace,
};
use crate::buffer::BufferSlice;
use crate::dispatch::InFlight;
use crate::engine::{Engine, Turn};
use crate::flags::FlagsChange;
use crate::joined::Sent;
use crate::map::Map;
use crate::read::LostPiece;

/// Read errors within the last hours that a leg may have, as md's default.
const READ_ERRORS_MAX: u32 = 20;
/// Read errors count half after this long, as md's.
const READ_ERRORS_HALVED_AFTER: Duration = Duration::from_secs(3600);
/// What all legs together may have in hand, as a share of the arena: silent legs keep no more than
/// that from the others.
const LEGS_BYTES_SHARE: usize = 2;

/// Whose an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpOwner {
    /// A piece of a read.
    Piece(u32),
    /// The same piece, asked of a second leg because the first is late.
    Hedge(u32),
    /// Bytes that may be wanted soon.
    Prefetch(u32),
    /// A stroke of a write.
    Write(u32),
    /// A part of a stroke that failed, by the number of its narrowing.
    Narrow(u32),
    /// The flush after a write with FUA on a leg without it.
    WriteFlush(u32),
    /// One step of zeroing or trimming a long extent.
    Sweep {
        /// For which write.
        write: u32,
        /// Where on the leg it is to end.
        end: u64,
        /// In which way: as a trim, as write-zeroes, or as writes of zeros.
        way: OpKind,
    },
    /// A step of the flush round.
    Flush,
    /// One part of a block-status query.
    Status {
        /// Of which query.
        status: u32,
        /// Which part.
        part: u32,
    },
    /// A read repair: its writing or re-reading.
    Repair(u32),
    /// A step of the commit that is on its way; its extent counts from the start of the leg.
    Metadata,
    /// A step of a window of the background work.
    Background(u32),
    /// A read whose bytes are made the same on all legs.
    Moved(u32),
    /// The flush of a leg that was rebuilt.
    Rejoin(LegId),
    /// The flush of a leg that is being rebuilt, before it says how far it is.
    Checkpoint(LegId),
    /// Nobody's any more.
    Ghost {
        /// Another leg was faster with a read, and that this one fails it counts.
        is_loser: bool,
    },
}

/// One operation at a leg.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    pub(crate) id: LegOpId,
    pub(crate) owner: OpOwner,
    pub(crate) leg: LegId,
    /// On whose account.
    pub(crate) flow: FlowId,
    /// How much it matters.
    pub(crate) class: Class,
    pub(crate) kind: OpKind,
    /// On the leg.
    pub(crate) extent: Extent,
    pub(crate) memory: Option<BufferSlice>,
    pub(crate) fua: bool,
    pub(crate) may_trim: bool,
    /// When it was handed to the leg.
    pub(crate) assigned: Instant,
    /// When the device got it; `None` while it waits in the queue.
    pub(crate) dispatched: Option<Instant>,
    /// How it was sent there.
    pub(crate) sent: Sent,
}

/// What is to be done, before it is an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewOp {
    pub(crate) owner: OpOwner,
    /// On whose account.
    pub(crate) flow: FlowId,
    pub(crate) kind: OpKind,
    /// On the leg.
    pub(crate) extent: Extent,
    pub(crate) memory: Option<BufferSlice>,
    pub(crate) fua: bool,
    pub(crate) may_trim: bool,
}

impl NewOp {
    /// A flush.
    pub(crate) const fn flush(owner: OpOwner, flow: FlowId) -> Self {
        Self {
            owner,
            flow,
            kind: OpKind::Flush,
            extent: Extent::new(0, 0),
            memory: None,
            fua: false,
            may_trim: false,
        }
    }

    /// How much it matters. Reads ahead are nobody's until somebody waits for them.
    pub(crate) const fn class(&self) -> Class {
        match (self.owner, self.kind) {
            (OpOwner::Metadata, _) | (_, OpKind::Flush) => Class::Urgent,
            (OpOwner::Background(_) | OpOwner::Prefetch(_), _) => Class::Background,
            _ if self.fua => Class::Urgent,
            (_, OpKind::Read | OpKind::BlockStatus) => Class::Read,
            (_, OpKind::Write | OpKind::Trim | OpKind::WriteZeroes) => Class::Write,
        }
    }
}

impl Op {
    /// What a scheduler sees of the operation number `index`.
    pub(crate) const fn job(&self, index: u32) -> Job {
        Job {
            op: index,
            flow: self.flow,
            kind: self.kind,
            class: self.class,
            extent: self.extent,
            arrived: self.assigned,
        }
    }
}

/// One leg.
#[derive(Debug)]
pub(crate) struct Leg {
    pub(crate) config: LegConfig,
    pub(crate) state: LegState,
    pub(crate) stats: LegStats,
    /// What waits in front of it.
    pub(crate) queue: Scheduler,
    /// What has failed together with others and is sent again, before that.
    pub(crate) again: VecDeque<u32>,
    pub(crate) in_device: u32,
    /// Of the arena, what its operations in the device keep: each buffer once.
    pub(crate) in_device_bytes: u64,
    /// When it last completed something, or got something after it had nothing.
    pub(crate) last_progress: Instant,
    /// It answered that it cannot do it; so it is not asked again.
    pub(crate) write_zeroes_refused: bool,
    pub(crate) trim_refused: bool,
    /// It failed a flush: of what was answered before, it may have lost anything.
    pub(crate) flush_failed: bool,
    /// How many sectors that it could not read were mended.
    pub(crate) corrected_sectors: u64,
    read_errors: u32,
    read_errors_since: Instant,
}

/// All legs of an array.
#[derive(Debug)]
pub(crate) struct Legs {
    pub(crate) legs: Vec<Leg>,
    /// What schedulers have learned of all of them.
    pub(crate) costs: Costs,
    /// Whether the views say what who asked last has outstanding.
    pub(crate) had_shares: bool,
    /// What the policy sees; as long as `legs`.
    pub(crate) views: Vec<LegView>,
    pub(crate) in_sync: LegSet,
    /// Those that are written to, but not read.
    pub(crate) rebuilding: LegSet,
    /// Of those in sync, those that no byte depends on alone.
    expendable: LegSet,
    pub(crate) write_mostly: LegSet,
    /// What is being said of one of them.
    pub(crate) flags_change: Option<FlagsChange>,
    pub(crate) leg_bytes_max: u64,
    pub(crate) leg_timeout: Duration,
    pub(crate) accounting: bool,
    /// That they are full was told, and no write has gone well since.
    pub(crate) is_full_told: bool,
    /// Choices that their statistics lack.
    pub(crate) choices: Choices,
}

impl Legs {
    pub(crate) fn new(config: &Config) -> Self {
        let spec = match config.scheduler_on {
            SchedulerPlace::Legs => config.scheduler,
            SchedulerPlace::Array => SchedulerSpec::None,
        };
        let legs: Vec<Leg> = config
            .legs
            .iter()
            .enumerate()
            .map(|(index, leg)| {
                let device = device_of(LegId::new(index), leg);
                Leg::new(leg, Scheduler::new(&spec, device))
            })
            .collect();
        let with = |wanted: fn(&Leg) -> bool| {
            let chosen = legs.iter().enumerate().filter(|(_, leg)| wanted(leg));
            chosen.map(|(index, _)| LegId::new(index)).collect()
        };
        let in_sync = with(|leg| leg.state == LegState::InSync);
        Self {
            expendable: expendable(&config.map, in_sync),
            views: (0..)
                .zip(&config.legs)
                .map(|(index, leg)| view_of(LegId::new(index), leg))
                .collect(),
            in_sync,
            rebuilding: with(|leg| leg.state == LegState::Rebuilding),
            write_mostly: with(|leg| leg.config.write_mostly),
            flags_change: None,
            legs,
            costs: Costs::new(),
            had_shares: false,
            leg_bytes_max: (config.memory_bytes / LEGS_BYTES_SHARE / config.legs.len()) as u64,
            leg_timeout: config.leg_timeout,
            accounting: config.accounting,
            is_full_told: false,
            choices: Choices::default(),
        }
    }

    /// Of `holders`, the legs that may serve a read which those in `tried` have failed.
    pub(crate) fn readable(&self, holders: LegSet, tried: LegSet) -> LegSet {
        let left = self.in_sync.intersection(holders).difference(tried);
        let preferred = left.difference(self.write_mostly);
        if preferred.is_empty() {
            left
        } else {
            preferred
        }
    }

    /// The legs that get what is written.
    pub(crate) const fn writable(&self) -> LegSet {
        self.in_sync.union(self.rebuilding)
    }

    /// The legs that get what is written, as they are now.
    pub(crate) fn written_to(&self) -> impl Iterator<Item = &LegConfig> {
        let legs = self.writable().iter();
        legs.map(|leg| &self.legs[leg.index()].config)
    }

    /// Whether all legs that are written to have a property.
    pub(crate) fn all(&self, has: impl Fn(&Leg) -> bool) -> bool {
        let mut legs = self.writable().iter();
        legs.all(|leg| has(&self.legs[leg.index()]))
    }

    /// A leg that is out is written to again.
    pub(crate) fn add(&mut self, leg: LegId, config: &LegConfig) {
        let slot = &mut self.legs[leg.index()];
        let stats = std::mem::take(&mut slot.stats);
        let queue = slot.queue.anew(device_of(leg, config), &mut self.costs);
        *slot = Leg::new(config, queue);
        slot.stats = stats;
        slot.state = LegState::Rebuilding;
        let before = self.views[leg.index()];
        self.views[leg.index()] = LegView {
            reads_completed: before.reads_completed,
            read_wait: before.read_wait,
            ..view_of(leg, config)
        };
        self.rebuilding.insert(leg);
        self.set_write_mostly(leg, config.write_mostly);
    }

    /// Whether a leg is write-mostly from now on.
    pub(crate) fn set_write_mostly(&mut self, leg: LegId, is_write_mostly: bool) {
        self.legs[leg.index()].config.write_mostly = is_write_mostly;
        self.write_mostly.remove(leg);
        if is_write_mostly {
            self.write_mostly.insert(leg);
        }
    }

    /// Whether a leg is preferred for reads from now on.
    pub(crate) fn set_read_preferred(&mut self, leg: LegId, is_preferred: bool) {
        self.legs[leg.index()].config.read_preferred = is_preferred;
        self.views[leg.index()].read_preferred = is_preferred;
    }

    /// A leg that was rebuilt is read again.
    pub(crate) fn join(&mut self, map: &Map, leg: LegId) {
        assert!(self.rebuilding.contains(leg), "it was written to meanwhile");
        self.rebuilding.remove(leg);
        self.in_sync.insert(leg);
        self.expendable = expendable(map, self.in_sync);
        self.legs[leg.index()].state = LegState::InSync;
    }

    /// There is one leg more, which is missing and has no role.
    pub(crate) fn make_room(&mut self) {
        let config = LegConfig::MISSING;
        let leg = LegId::new(self.legs.len());
        self.leg_bytes_max = self.leg_bytes_max * leg.index() as u64 / (leg.index() as u64 + 1);
        let device = device_of(leg, &config);
        let queue = self.legs[0].queue.anew(device, &mut self.costs);
        self.legs.push(Leg::new(&config, queue));
        self.views.push(view_of(leg, &config));
    }

    /// The map has other legs in its roles.
    pub(crate) fn roles_changed(&mut self, map: &Map) {
        self.expendable = expendable(map, self.in_sync);
    }

    /// A leg is out.
    pub(crate) fn take_out(&mut self, map: &Map, leg: LegId) {
        self.in_sync.remove(leg);
        self.rebuilding.remove(leg);
        self.expendable = expendable(map, self.in_sync);
        self.legs[leg.index()].state = LegState::Faulted;
    }

    /// Counts what was chosen, and begins anew with other candidates.
    #[cold]
    pub(crate) fn begin_choices(&mut self, candidates: LegSet) {
        for (index, leg) in self.legs.iter_mut().enumerate() {
            let stats = &mut leg.stats;
            let leg = LegId::new(index);
            self.choices.add_to(leg, &mut stats.age, &mut stats.ignored);
        }
        self.choices.begin(candidates);
    }

    /// Whether operations wait in front of a leg because it has as many as it takes.
    pub(crate) fn is_crowded(&self, leg: LegId) -> bool {
        let leg = &self.legs[leg.index()];
        !leg.queue.is_empty() || !leg.again.is_empty()
    }

    /// Legs that may be taken out.
    fn dispensable(&self) -> impl Iterator<Item = LegId> + use<> {
        self.expendable.union(self.rebuilding).iter()
    }

    /// Whether a leg may be taken out.
    pub(crate) fn is_dispensable(&self, leg: LegId) -> bool {
        self.expendable.contains(leg) || self.rebuilding.contains(leg)
    }

    /// Nothing queued and nothing in hand at any leg that is not out.
    pub(crate) fn is_idle(&self) -> bool {
        self.all(|leg| leg.in_device == 0 && leg.queue.is_empty() && leg.again.is_empty())
    }

    /// When the first leg will have been silent for too long, of those that can be done without.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let busy = self.dispensable();
        busy.filter(|leg| self.legs[leg.index()].in_device > 0)
            .map(|leg| self.silent_at(leg))
            .min()
    }

    /// When the first scheduler wants to be asked again.
    pub(crate) fn next_turn(&self) -> Option<Instant> {
        let legs = self.legs.iter();
        legs.filter_map(|leg| leg.queue.next_deadline()).min()
    }

    /// When a leg will have been silent for too long.
    fn silent_at(&self, leg: LegId) -> Instant {
        self.legs[leg.index()].last_progress + self.timeout(leg)
    }

    /// The leg that should have answered first, and did not. All others begin anew: several legs
    /// that are late at once are late for one reason, which is not the legs'.
    pub(crate) fn silent(&mut self, now: Instant) -> Option<LegId> {
        if self.next_deadline().is_none_or(|deadline| deadline > now) {
            return None;
        }
        let busy = self.dispensable();
        let busy = busy.filter(|leg| self.legs[leg.index()].in_device > 0);
        let silent = busy.min_by_key(|leg| self.silent_at(*leg));
        for leg in &mut self.legs {
            leg.last_progress = now;
        }
        silent
    }
}

/// Those of `in_sync` that no byte depends on alone.
fn expendable(map: &Map, in_sync: LegSet) -> LegSet {
    let rest = |leg| in_sync.difference(LegSet::from_iter([leg]));
    in_sync
        .iter()
        .filter(|&leg| map.is_covered_by(rest(leg)))
        .collect()
}

impl Leg {
    fn new(config: &LegConfig, queue: Scheduler) -> Self {
        Self {
            config: *config,
            state: config.state,
            stats: LegStats::default(),
            queue,
            again: VecDeque::new(),
            in_device: 0,
            in_device_bytes: 0,
            last_progress: Instant::ZERO,
            write_zeroes_refused: false,
            trim_refused: false,
            flush_failed: false,
            corrected_sectors: 0,
            read_errors: 0,
            read_errors_since: Instant::ZERO,
        }
    }

    /// How many whole hours ago read errors were last counted.
    fn hours_since_read_errors(&self, now: Instant) -> u32 {
        let age = now.saturating_since(self.read_errors_since);
        let hours = age.as_ns() / READ_ERRORS_HALVED_AFTER.as_ns();
        u32::try_from(hours).unwrap_or(u32::MAX)
    }

    /// How many read errors are left of those that were counted, halved for each hour since.
    pub(crate) fn recent_read_errors(&self, now: Instant) -> u32 {
        let hours = self.hours_since_read_errors(now);
        self.read_errors.checked_shr(hours).unwrap_or(0)
    }

    /// Counts a read error as md does: those of earlier hours are halved for each hour since, then
    /// this one is added. Whether there are too many.
    fn has_too_many_read_errors(&mut self, now: Instant) -> bool {
        self.read_errors = self.recent_read_errors(now);
        if self.hours_since_read_errors(now) > 0 {
            self.read_errors_since = now;
        }
        self.read_errors += 1;
        self.read_errors > READ_ERRORS_MAX
    }
}

/// What legs that are out had in hand.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    /// Pieces of reads.
    lost: Vec<LostPiece>,
    /// Whose all operations were, and at which leg.
    owners: Vec<(LegId, OpOwner)>,
}

impl Orphans {
    /// Whoever this operation of a leg was of waits for it no longer.
    pub(crate) fn give(&mut self, leg: LegId, owner: OpOwner) {
        self.owners.push((leg, owner));
    }

    /// A piece waited for an operation of this leg that is nobody's now.
    pub(crate) fn add(&mut self, leg: LegId, piece: LostPiece) {
        self.lost.push(piece);
        self.owners.push((leg, OpOwner::Ghost { is_loser: false }));
    }
}

impl Engine {
    /// A leg has failed a read. Faults it where it has done so too often.
    pub(crate) fn note_read_error(&mut self, turn: &Turn<'_>, leg: LegId, kind: ErrorKind) {
        if self.fault_at_first_error(turn, leg, kind) {
            return;
        }
        let has_too_many = self.legs.legs[leg.index()].has_too_many_read_errors(turn.now);
        if has_too_many && self.config.repairs {
            self.fault_reader(turn, leg, FaultReason::ReadFailed(kind));
        }
    }

    /// As many of `legs` as every byte of the array can do without, all at once; those that are
    /// left then are the first ones.
    pub(crate) fn spare(&self, legs: LegSet) -> LegSet {
        let mut left = self.legs.in_sync;
        let mut spare = LegSet::EMPTY;
        let last_first: Vec<LegId> = legs.intersection(left).iter().collect();
        for leg in last_first.into_iter().rev() {
            left.remove(leg);
            if self.config.map.is_covered_by(left) {
                spare.insert(leg);
            } else {
                left.insert(leg);
            }
        }
        spare
    }

    /// Takes a leg out, but never the last one of any byte. What it had in hand waits for
    /// [`Engine::settle_orphans`]; the record of its fault is on its way to be durable.
    pub(crate) fn fault_leg(&mut self, turn: &Turn<'_>, leg: LegId, reason: FaultReason) {
        let is_in_sync = self.legs.in_sync.contains(leg);
        if !is_in_sync && !self.legs.rebuilding.contains(leg) {
            return;
        }
        if is_in_sync && !self.legs.expendable.contains(leg) {
            if reason == FaultReason::Lost {
                // As after a flush that it failed: no later one brings back what was answered.
                self.note_flush_failed(leg, ErrorKind::Io);
                self.never_clean();
            }
            return self.keep_last(leg, reason);
        }
        self.legs.take_out(&self.config.map, leg);
        if is_in_sync {
            self.policy.on_leg_state(leg, false);
        }
        self.rebuild_given_up(leg);
        self.has_left(leg);
        self.outputs
            .push_back(Output::Event(Event::LegFaulted { leg, reason }));
        self.record_fault(leg);
        self.note_departure(leg);
        if self.config.map.twin_of(leg).is_some() {
            self.leave_role(leg);
            // No leg may be missing now.
            self.sweep_later(turn);
        }
        self.differs_without(turn, leg);
        if is_in_sync {
            self.copy_unequal_again();
            self.hold_readers();
        }
        self.orphan_ops(leg);
    }

    /// A leg is out: where one is left nothing differs.
    pub(crate) fn differs_without(&mut self, turn: &Turn<'_>, leg: LegId) {
        let was_divergent = !self.divergence.is_empty();
        let (map, legs) = (&self.config.map, &self.legs);
        let divergence = &mut self.divergence;
        divergence.leg_is_out(map, leg, legs.in_sync, legs.rebuilding);
        if was_divergent && divergence.is_empty() {
            self.clean_later(turn);
        }
    }

    /// The last leg of some bytes stays whatever it does; people are told once.
    pub(crate) fn keep_last(&mut self, leg: LegId, reason: FaultReason) {
        if !self.last_told.contains(leg) {
            self.last_told.insert(leg);
            let event = Event::LastLegKept { leg, reason };
            self.outputs.push_back(Output::Event(event));
        }
    }

    /// Does elsewhere, or counts as failed, what legs that are out had in hand. Not while they are
    /// taken out: what ends then may take out further legs, in the middle of a decision on which
    /// legs have failed the same write.
    pub(crate) fn settle_orphans(&mut self, turn: &mut Turn<'_>) {
        if !self.orphans.owners.is_empty() || self.flushes.doubt.is_due() {
            self.settle_all_orphans(turn);
        }
    }

    #[cold]
    fn settle_all_orphans(&mut self, turn: &mut Turn<'_>) {
        while !self.orphans.owners.is_empty() || self.hear_put_off(turn) {
            let Orphans { lost, owners } = std::mem::take(&mut self.orphans);
            self.reads_lost(turn, &lost);
            for (leg, owner) in owners {
                match owner {
                    OpOwner::Piece(_)
                    | OpOwner::Hedge(_)
                    | OpOwner::Prefetch(_)
                    | OpOwner::Ghost { .. } => {}
                    OpOwner::Write(write)
                    | OpOwner::WriteFlush(write)
                    | OpOwner::Sweep { write, .. } => self.write_op_ended(turn, write, leg),
                    OpOwner::Narrow(index) => self.part_lost(turn, index),
                    OpOwner::Flush => self.flush_op_ended(turn),
                    OpOwner::Status { status, .. } => self.status_op_ended(status),
                    OpOwner::Repair(repair) => self.end_repair(turn, repair),
                    OpOwner::Metadata => self.metadata_op_ended(turn, leg),
                    OpOwner::Background(window) => self.window_op_lost(turn, window),
                    OpOwner::Moved(at) => self.moved_op_lost(turn, at),
                    OpOwner::Rejoin(_) | OpOwner::Checkpoint(_) => {}
                }
            }
        }
    }

    /// Takes its operations from a leg that is out: what is queued ends here, what the device has
    /// becomes a ghost. Whose they were is settled later.
    pub(crate) fn orphan_ops(&mut self, leg: LegId) {
        let ops = self.ops.iter().filter(|(_, op)| op.leg == leg);
        let ops: Vec<u32> = ops.map(|(index, _)| index).collect();
        for &index in &ops {
            let op = &self.ops[index];
            if let OpOwner::Piece(piece) = op.owner {
                self.orphans.lost.push(LostPiece {
                    index: piece,
                    serial: self.pieces[piece].serial,
                    in_device: op.dispatched.is_some(),
                });
            }
            let owner = op.owner;
            if let OpOwner::Hedge(hedge) = owner {
                self.hedge_lost(hedge);
            } else if let OpOwner::Prefetch(run) = owner {
                self.forget_run(run);
            } else {
                self.orphans.owners.push((leg, owner));
            }
        }
        self.abandon_ops(&ops);
        let queue = &mut self.legs.legs[leg.index()].queue;
        queue.lose_device(self.requests.now, &mut self.legs.costs);
    }

    /// Nobody needs these operations any more: those that are queued end here, those that a device
    /// has are ghosts. They come by rising index, and may be very many.
    pub(crate) fn abandon_ops(&mut self, ops: &[u32]) {
        let mut queues = LegSet::EMPTY;
        for &index in ops {
            let op = &mut self.ops[index];
            if op.dispatched.is_some() {
                op.owner = OpOwner::Ghost { is_loser: false };
                continue;
            }
            let op = self.ops.remove(index);
            queues.insert(op.leg);
            self.legs.views[op.leg.index()].end(op.kind, op.extent);
            if self.legs.accounting {
                let stats = &mut self.legs.legs[op.leg.index()].stats;
                stats
                    .account
                    .give_up(self.requests.now, op.kind, op.assigned);
            }
            if let Some(memory) = op.memory {
                self.release_buffer(memory.buffer);
            }
        }
        for leg in queues {
            let leg = &mut self.legs.legs[leg.index()];
            leg.queue.remove(ops, &mut self.legs.costs);
            leg.again.retain(|op| ops.binary_search(op).is_err());
        }
    }

    /// The leg time-out.
    pub(crate) fn check_silence(&mut self, turn: &Turn<'_>) {
        if let Some(leg) = self.legs.silent(turn.now) {
            self.fault_leg(turn, leg, FaultReason::Silent);
        }
    }

    /// Counts a choice among `candidates` as btrfs's files show it.
    pub(crate) fn count_choice(&mut self, candidates: LegSet, chosen: LegId) {
        if !self.legs.accounting {
            return;
        }
        if !self.legs.choices.count(candidates, chosen) {
            self.legs.begin_choices(candidates);
            self.legs.choices.count(candidates, chosen);
        }
    }
}

/// What a scheduler knows of a leg.
const fn device_of(leg: LegId, config: &LegConfig) -> Device {
    Device {
        leg,
        rotational: config.rotational,
        caches_writes: config.caches_writes,
        queue_depth: config.queue_depth,
        leg_count: 1,
    }
}

/// What the policy sees of a leg that has nothing in hand.
fn view_of(leg: LegId, config: &LegConfig) -> LegView {
    LegView {
        leg,
        address: 0,
        reads_in_flight: 0,
        writes_in_flight: 0,
        read_bytes_in_flight: 0,
        write_bytes_in_flight: 0,
        last_sent_end: None,
        rotational: config.rotational,
        read_preferred: config.read_preferred,
        queue_depth: config.queue_depth,
        optimal_io_bytes: config.optimal_io_bytes,
        reads_completed: 0,
        read_wait: Duration::ZERO,
        own_outstanding: None,
    }
}
