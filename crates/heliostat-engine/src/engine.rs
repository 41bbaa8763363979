//! The engine itself: what it is made of, and where each input goes.

use std::collections::{BTreeSet, VecDeque};

use heliostat_policy::{LegView, Observes, ReadPolicy, ReadRequest};
use heliostat_types::{ErrorKind, Extent, Instant, LegId, LegSet, Prng};

use crate::admission::Admission;
use crate::api::{Answer, ArrayRecord, Config, Input, LegState, Output, RequestKind};
use crate::asked::{Admitted, Requests};
use crate::background::Background;
use crate::bad_blocks::BadLogs;
use crate::buffer::{BufferId, BufferSlice, BufferTable, WriteBuffer};
use crate::change::{Asker, Change, Unsubmitted};
use crate::divergence::Divergence;
use crate::flush::FlushRounds;
use crate::hedge::Hedges;
use crate::intent::{BitmapFigures, Intent};
use crate::legs::{Legs, Op, OpOwner, Orphans};
use crate::locks::Locks;
use crate::map::Map;
use crate::metadata::{Keeper, Metadata};
use crate::moved::Moved;
use crate::needed::Needed;
use crate::prefetch::Prefetched;
use crate::read::{Piece, Read};
use crate::record::Record;
use crate::repair::Repair;
use crate::slab::Slab;
use crate::spares::Spares;
use crate::stage::Stage;
use crate::status::Status;
use crate::sweep::reserve_zeros;
use crate::write::Write;
use crate::write_behind::Behind;

/// The moment at which an input is handled, and the randomness that its decisions may draw on.
pub(crate) struct Turn<'a> {
    pub(crate) now: Instant,
    pub(crate) prng: &'a mut dyn Prng,
}

/// What waits for memory.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// A request that needs a buffer before it is admitted.
    Request(Admitted),
    /// A read whose leg fell silent, or that could not be put together, by index: it needs another
    /// buffer.
    Restart(u32),
    /// A piece that reads the edge of a write, by index: likewise.
    Edge(u32),
    /// The next step of the commit of the metadata.
    Commit,
}

/// One array.
#[derive(Debug)]
pub struct Engine {
    pub(crate) config: Config,
    pub(crate) policy: Box<dyn ReadPolicy>,
    pub(crate) observes: Observes,
    /// What stands in front of the array, where anything does.
    pub(crate) stage: Option<Box<Stage>>,
    pub(crate) legs: Legs,
    pub(crate) orphans: Orphans,
    /// Legs of which people know that they should be out, but are the last of some bytes.
    pub(crate) last_told: LegSet,
    pub(crate) buffers: BufferTable,
    pub(crate) ops: Slab<Op>,
    /// How many operations there ever were.
    pub(crate) ops_begun: u64,
    pub(crate) requests: Requests,
    pub(crate) reads: Slab<Read>,
    pub(crate) pieces: Slab<Piece>,
    /// How many pieces there ever were.
    pub(crate) pieces_begun: u64,
    pub(crate) hedges: Hedges,
    pub(crate) prefetched: Prefetched,
    pub(crate) writes: Slab<Write>,
    pub(crate) behind: Behind,
    /// Changes that cross borders of chunks, each of several writes.
    pub(crate) changes: Slab<Change>,
    /// Write buffers that are with a client, by buffer index.
    pub(crate) unsubmitted: Vec<Option<Unsubmitted>>,
    pub(crate) locks: Locks,
    pub(crate) divergence: Divergence,
    /// Where legs in sync may differ since an unclean stop, in array addresses.
    pub(crate) needed: Needed,
    /// Where it was needed when a leg went, until it is durable that it is out.
    pub(crate) untold: Needed,
    pub(crate) background: Background,
    /// What legs in sync do not hold.
    pub(crate) bad: BadLogs,
    pub(crate) flushes: FlushRounds,
    pub(crate) statuses: Slab<Status>,
    pub(crate) repairs: Slab<Repair>,
    pub(crate) moved: Slab<Moved>,
    pub(crate) record: Record,
    /// The metadata on the legs, where there is any.
    pub(crate) keeper: Option<Keeper>,
    pub(crate) intent: Intent,
    pub(crate) spares: Spares,
    /// It is to have one more leg.
    pub(crate) is_growing: bool,
    /// When to look for bits that can be cleared.
    pub(crate) sweep_at: Option<Instant>,
    pub(crate) waiting: VecDeque<Waiting>,
    pub(crate) admission: Admission,
    /// Room for zeros to write to legs that cannot zero by themselves,
    pub(crate) zeros_reserved: BufferSlice,
    /// and the same once it was filled.
    pub(crate) zeros: Option<BufferSlice>,
    /// Scratch for the candidates of a pick.
    pub(crate) candidates: Vec<LegView>,
    /// Scratch for what is done as one.
    pub(crate) row: VecDeque<u32>,
    pub(crate) outputs: VecDeque<Output>,
    /// `alloc_write` was refused since memory was last freed.
    pub(crate) alloc_refused: bool,
    /// Memory was freed by the input that is being handled.
    pub(crate) memory_freed: bool,
    /// Whether a write may take memory that requests in the engine wait for.
    pub(crate) writes_turn: bool,
}

impl Engine {
    /// An array whose last durable record is `record`.
    ///
    /// # Panics
    /// Where `config` breaks what its fields say, some bytes have no leg in sync, or a leg is being
    /// rebuilt and nothing is said of what it lacks.
    #[must_use]
    pub fn new(config: Config, policy: Box<dyn ReadPolicy>, record: ArrayRecord) -> Self {
        let mut config = checked(config);
        let legs = Legs::new(&config);
        check_in_sync(&config.map, legs.in_sync, record.faulted);
        let metadata = config.metadata.take();
        let (known, has_metadata) = (metadata.as_ref(), metadata.is_some());
        let rebuilding = known.map_or_else(Vec::new, |known| known.rebuilding.clone());
        assert_eq!(
            legs.rebuilding,
            rebuilding.iter().map(|(leg, _)| *leg).collect(),
            "it is known what legs lack that are being rebuilt"
        );
        let intent = Intent::of(config.size_bytes, metadata.as_ref());
        let needed = Needed::of(&intent, config.size_bytes);
        let bad = bad_logs_of(&config, metadata.as_ref());
        let counts = (config.legs.len(), config.map.legs());
        let keeper = metadata.map(|known| Keeper::new(known, counts));
        let first_commit = keeper.as_ref().map_or(0, Keeper::first_commit);
        // Dirty, with nothing to resync: it may become clean without a write.
        let clean_at = (has_metadata && record.dirty && needed.is_empty()).then_some(Instant::ZERO);
        let mut buffers = BufferTable::new(config.memory_bytes);
        let zeros_reserved = reserve_zeros(&mut buffers);
        let mut engine = Self {
            stage: Stage::of(&config),
            observes: policy.observes(),
            policy,
            zeros_reserved,
            buffers,
            ops: Slab::new(),
            ops_begun: 0,
            requests: Requests::new(&config),
            reads: Slab::new(),
            pieces: Slab::new(),
            pieces_begun: 0,
            hedges: Hedges::new(config.hedges_permille),
            prefetched: Prefetched::new(config.memory_bytes),
            writes: Slab::new(),
            behind: Behind::new(&config),
            changes: Slab::new(),
            unsubmitted: Vec::new(),
            locks: Locks::new(),
            divergence: Divergence::new(config.map.chunk_bytes()),
            background: Background::new(&config),
            bad,
            needed,
            untold: Needed::new(),
            flushes: FlushRounds::default(),
            statuses: Slab::new(),
            repairs: Slab::new(),
            moved: Slab::new(),
            record: Record::new(record, first_commit, clean_at),
            sweep_at: has_metadata.then_some(Instant::ZERO),
            intent,
            spares: Spares::default(),
            is_growing: false,
            keeper,
            waiting: VecDeque::new(),
            admission: Admission::new(config.scheduler.has_shares()),
            zeros: None,
            candidates: Vec::with_capacity(legs.legs.len()),
            legs,
            orphans: Orphans::default(),
            last_told: LegSet::EMPTY,
            row: VecDeque::new(),
            outputs: VecDeque::new(),
            alloc_refused: false,
            memory_freed: false,
            writes_turn: true,
            config,
        };
        engine.take_up_rebuilds(rebuilding);
        engine
    }

    /// Goes on where `before` ended without a word, as in a power cut: its policy chooses on and
    /// has to learn anew, and operations are numbered on, so that a late completion of one of its
    /// own is never taken for one of ours.
    pub fn follow(&mut self, before: Self) {
        self.ops_begun = before.ops_begun;
        self.hedges.follow(&before.hedges);
        self.prefetched.follow(&before.prefetched);
        self.policy = before.policy;
        self.policy.reset(None);
        for leg in LegSet::first(self.legs.legs.len()) {
            let is_present = self.legs.in_sync.contains(leg);
            self.policy.on_leg_state(leg, is_present);
        }
        self.observes = self.policy.observes();
    }

    /// Takes one input in. Drain [`Engine::poll_output`] before the next.
    ///
    /// # Panics
    /// Where the shell breaks its side: a completion for what is not in flight, a buffer that is
    /// not the client's.
    pub fn handle_input(&mut self, now: Instant, input: Input, prng: &mut dyn Prng) {
        let turn = &mut Turn { now, prng };
        self.requests.now = now;
        self.release_copied();
        match input {
            Input::Request(request) => self.request_arrived(turn, request),
            Input::LegCompletion { op, result } => self.completion(turn, op, result),
            Input::StatusCompletion { op, result } => {
                let op = self.reap(turn, op, result.as_ref().map(|_| ()).map_err(|&kind| kind));
                if let OpOwner::Status { status, part } = op.owner {
                    self.status_answered(status, part, result);
                } else {
                    let is_ghost = matches!(op.owner, OpOwner::Ghost { .. });
                    assert!(is_ghost, "only a query has runs");
                }
            }
            Input::Persisted { generation } => self.persisted(turn, generation),
            Input::Release { buffer } => self.client_release(buffer),
            Input::FailLeg { leg, reason } => self.fault_leg(turn, leg, reason),
            Input::AddLeg {
                leg,
                config,
                missed,
                superblock,
                bad_blocks,
            } => self.add_leg(turn.now, leg, &config, missed, superblock, bad_blocks),
            Input::ReplaceLeg {
                leg,
                config,
                superblock,
            } => self.replace_leg(turn.now, leg, &config, *superblock),
            Input::SetFlags { leg, flags } => self.set_flags(leg, flags),
            Input::SetReadPreferred(leg, is) => self.legs.set_read_preferred(leg, is),
            Input::Grow => self.grow(),
            Input::AddSpare(spare) => self.add_spare(spare),
            Input::RemoveSpare(spare) => self.remove_spare(spare),
            Input::StartResync { everything } => self.start_resync(everything),
            Input::StartScrub { repair } => self.start_scrub(repair, 0),
            Input::GoOnWithScrub { repair, from_bytes } => self.start_scrub(repair, from_bytes),
            Input::PauseBackground => self.background.pause(),
            Input::ResumeBackground => self.resume_background(),
            Input::StopBackground => self.stop_scrub(),
            Input::SetBackgroundRates {
                min_bytes_per_s,
                max_bytes_per_s,
            } => self
                .background
                .set_rates(turn.now, min_bytes_per_s, max_bytes_per_s),
            Input::Compared {
                comparison,
                differing,
            } => self.window_compared(turn, &comparison, differing),
            Input::SetPolicy(policy) => {
                self.observes = policy.observes();
                self.policy = policy;
            }
            Input::ConfigurePolicy(spec) => {
                assert_eq!(
                    spec.policy().name,
                    self.policy.name(),
                    "tunables of the policy that chooses"
                );
                self.policy.configure(&spec);
                self.observes = self.policy.observes();
            }
            Input::SetScheduler(spec) => self.set_scheduler(turn.now, &spec),
            Input::SetFlow { flow, limits } => self.set_flow(turn, flow, limits),
            Input::ResetStats(leg) => self.reset_stats(leg),
            Input::DeadlineReached => self.deadline_reached(turn),
        }
        self.settle(turn);
    }

    /// The time has come that was told last.
    fn deadline_reached(&mut self, turn: &mut Turn<'_>) {
        self.begin_capped(turn);
        self.check_silence(turn);
        self.pump_due(turn.now);
        if let Some(stage) = &mut self.stage {
            stage.on_deadline();
        }
        self.check_late(turn);
        self.check_prefetched(turn.now);
        self.check_clean(turn);
        self.check_sweep(turn);
    }

    /// Goes on with what an input has set free, until nothing is left.
    fn settle(&mut self, turn: &mut Turn<'_>) {
        self.settle_begun(turn);
        let is_due = |engine: &Self| {
            let is_short = !engine.waiting.is_empty();
            let stage = engine.stage.as_ref();
            stage.is_some_and(|stage| stage.is_due(is_short))
        };
        while is_due(self) {
            self.run_stage(turn);
            self.settle_begun(turn);
        }
    }

    fn settle_begun(&mut self, turn: &mut Turn<'_>) {
        self.settle_orphans(turn);
        if self.keeper.is_none() && !self.background.has_job() {
            return self.serve_waiting(turn);
        }
        self.settle_all(turn);
    }

    /// The same, with metadata or work in the background. Apart, because it costs each input of an
    /// array that has neither.
    #[inline(never)]
    fn settle_all(&mut self, turn: &mut Turn<'_>) {
        loop {
            self.settle_orphans(turn);
            if self.fail_lost_pieces(turn) || self.end_commit(turn) {
                continue;
            }
            if self.background.has_job() {
                self.run_background(turn);
                self.settle_orphans(turn);
            }
            self.serve_waiting(turn);
            self.advance_flags();
            self.advance_growth();
            self.begin_commit(turn);
            if !self.spares.is_empty() {
                self.use_spare();
            }
            if !self.is_commit_over() && !self.bad.has_lost() {
                return;
            }
        }
    }

    /// The next thing to do, in order; `None` when all is said.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Input::DeadlineReached`] is due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let silent = self.legs.next_deadline();
        let is_due = self.keeper.as_ref().is_some_and(Keeper::is_due);
        let commit = is_due.then_some(Instant::ZERO);
        let background = self.background.wake_at();
        let all = [
            silent,
            self.record.clean_at(),
            self.sweep_at,
            commit,
            background,
            self.hedges.next_at(),
            self.prefetched.sweep_at(),
            self.legs.next_turn(),
            self.stage.as_ref().and_then(|stage| stage.next_deadline()),
            self.admission.next_at(),
        ];
        all.into_iter().flatten().min()
    }

    /// A buffer for the bytes of writes, where there is memory.
    pub(crate) fn alloc_in_turn(&mut self, extents: &[Extent]) -> Option<WriteBuffer> {
        // Requests in the engine and writes outside it take turns, so that neither starves.
        let allocated = if self.waiting.is_empty() || self.writes_turn {
            self.alloc_write_buffers(extents).or_else(|| {
                self.give_prefetched_back();
                self.alloc_write_buffers(extents)
            })
        } else {
            None
        };
        self.alloc_refused |= allocated.is_none();
        self.writes_turn = false;
        allocated
    }

    /// Where buffers lie.
    #[must_use]
    pub const fn buffers(&self) -> &BufferTable {
        &self.buffers
    }

    /// Whether no request is unanswered, and nothing outstanding but at faulted legs. With
    /// background work that is not paused this is a matter of moments.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.stage.as_ref().is_none_or(|stage| stage.is_empty())
            && self.reads.is_empty()
            && self.writes.is_empty()
            && self.changes.is_empty()
            && self.statuses.is_empty()
            && self.repairs.is_empty()
            && self.moved.is_empty()
            && self.flushes.is_idle()
            && self.keeper.as_ref().is_none_or(Keeper::is_idle)
            && self.waiting.is_empty()
            && self.admission.is_idle()
            && self.background.is_idle()
            && self.legs.is_idle()
    }

    /// Whether the legs know who is in sync. Of an array that was not stopped in order it takes a
    /// moment: what is read before could be another version after a crash, when a leg that is
    /// missing now is back.
    #[must_use]
    pub fn is_taken_up(&self) -> bool {
        self.keeper.as_ref().is_none_or(Keeper::is_taken_up)
    }

    /// The newest record, durable or not.
    #[must_use]
    pub const fn record(&self) -> ArrayRecord {
        self.record.newest()
    }

    /// Whether the newest record is durable.
    #[must_use]
    pub const fn is_record_durable(&self) -> bool {
        self.record.is_durable()
    }

    /// Whether a start that found the legs as they are now may have to take them for different.
    /// They are clean only when that is durable.
    #[must_use]
    pub const fn is_active(&self) -> bool {
        self.record.newest().dirty || !self.record.is_durable()
    }

    /// Whether the record will become clean by itself when nothing changes any more.
    #[must_use]
    pub fn may_become_clean(&self) -> bool {
        self.record.clean_at().is_some() || !self.flushes.is_idle()
    }

    /// How a leg is.
    #[must_use]
    pub fn leg_state(&self, leg: LegId) -> LegState {
        self.legs.legs[leg.index()].state
    }

    /// Whether a leg is read only where nothing else is left.
    #[must_use]
    pub const fn is_write_mostly(&self, leg: LegId) -> bool {
        self.legs.write_mostly.contains(leg)
    }

    /// Whether the policy `device` reads a leg.
    #[must_use]
    pub fn is_read_preferred(&self, leg: LegId) -> bool {
        self.legs.legs[leg.index()].config.read_preferred
    }

    /// Whether a leg is out at its first error, where others are left.
    #[must_use]
    pub fn is_failfast(&self, leg: LegId) -> bool {
        self.legs.legs[leg.index()].config.failfast
    }

    /// The legs that get what is written: in sync, or being rebuilt.
    #[must_use]
    pub const fn writable(&self) -> LegSet {
        self.legs.writable()
    }

    /// The legs in sync.
    #[must_use]
    pub const fn in_sync(&self) -> LegSet {
        self.legs.in_sync
    }

    /// Where what lies.
    #[must_use]
    pub const fn map(&self) -> &Map {
        &self.config.map
    }

    /// Where legs differ although no write is in flight, because a write failed; and the leg that
    /// is read there.
    pub fn divergent(&self) -> impl Iterator<Item = (Extent, LegId)> + '_ {
        self.divergence.ranges()
    }

    /// How the write-intent bitmap does; `None` where there is none.
    #[must_use]
    pub fn bitmap_figures(&self) -> Option<BitmapFigures> {
        self.intent.figures(self.keeper.as_ref()?.pages_written())
    }

    /// How many sectors that a leg could not read were mended since it was made a leg, where that
    /// is kept on the legs, or else since the start.
    #[must_use]
    pub fn corrected_reads(&self, leg: LegId) -> u32 {
        let before = self.keeper.as_ref();
        let before = before.map_or(0, |keeper| keeper.corrected_reads(leg));
        let new = self.legs.legs[leg.index()].corrected_sectors;
        before.saturating_add(u32::try_from(new).unwrap_or(u32::MAX))
    }

    /// How many reads a leg has failed lately: those of an hour count half when it is over.
    #[must_use]
    pub fn recent_read_errors(&self, now: Instant, leg: LegId) -> u32 {
        self.legs.legs[leg.index()].recent_read_errors(now)
    }

    /// Reads and writes in flight at a leg now.
    #[must_use]
    pub fn leg_in_flight(&self, leg: LegId) -> (u32, u32) {
        let view = &self.legs.views[leg.index()];
        (view.reads_in_flight, view.writes_in_flight)
    }

    /// Whether legs in sync differ nowhere but where a write is in flight, as far as is known.
    pub(crate) fn is_all_equal(&self) -> bool {
        self.divergence.is_empty() && self.needed.is_empty()
    }

    /// The block size, as extents count.
    pub(crate) fn block_bytes(&self) -> u64 {
        u64::from(self.config.block_bytes)
    }

    pub(crate) fn begin_request(&mut self, turn: &mut Turn<'_>, request: Admitted) {
        let (extent, limit, beyond) = match request.kind {
            RequestKind::Read { extent } => {
                (extent, Config::REQUEST_MAX_BYTES, ErrorKind::InvalidInput)
            }
            RequestKind::Write { extent, .. } => {
                (extent, Config::REQUEST_MAX_BYTES, ErrorKind::NoSpace)
            }
            RequestKind::Trim { extent, .. } | RequestKind::WriteZeroes { extent, .. } => {
                (extent, u64::MAX, ErrorKind::NoSpace)
            }
            RequestKind::BlockStatus { extent } => (extent, u64::MAX, ErrorKind::InvalidInput),
            RequestKind::Flush => return self.begin_flush(turn, request.id),
        };
        let refusal = if extent.end() > self.config.size_bytes {
            Some(Err(beyond))
        } else if extent.len() > limit {
            Some(Err(ErrorKind::TooLarge))
        } else if extent.is_empty() {
            Some(Ok(Answer::Done))
        } else {
            None
        };
        if let Some(result) = refusal {
            if let RequestKind::Write { buffer, .. } = request.kind {
                self.client_release(buffer);
            }
            return self.complete(request.id, result);
        }
        let is_change_or_read = !matches!(request.kind, RequestKind::BlockStatus { .. });
        match &mut self.stage {
            Some(stage) if is_change_or_read => stage.insert(turn.now, request),
            Some(_) | None => self.start(turn, request),
        }
    }

    /// Starts a request that may be done.
    pub(crate) fn start(&mut self, turn: &mut Turn<'_>, request: Admitted) {
        let asker = Asker::of(&request);
        match request.kind {
            RequestKind::Read { .. } | RequestKind::WriteZeroes { .. } => {
                let asked = read_asked(&request);
                // In order of arrival: what is small does not overtake what is large.
                self.admit_or_wait(turn, request);
                if self.observes.requests
                    && let Some(asked) = asked
                {
                    self.prefetch(turn, Some(&asked));
                }
            }
            RequestKind::Write {
                extent,
                buffer,
                fua,
            } => self.begin_write(turn, asker, extent, buffer, fua),
            RequestKind::Trim { extent, fua } => self.begin_trim(turn, asker, extent, fua),
            RequestKind::BlockStatus { extent } => self.begin_status(turn, asker, extent),
            RequestKind::Flush => unreachable!("a flush has gone its way above"),
        }
    }

    /// Begins a request that needs memory; `false` where there is not enough.
    pub(crate) fn admit(&mut self, turn: &mut Turn<'_>, request: &Admitted) -> bool {
        match request.kind {
            RequestKind::Read { extent } => self.begin_read(turn, request, extent),
            RequestKind::WriteZeroes {
                extent,
                fua,
                may_trim,
                fast_only,
            } => {
                self.begin_write_zeroes(turn, Asker::of(request), extent, fua, may_trim, fast_only)
            }
            RequestKind::Write { .. }
            | RequestKind::Flush
            | RequestKind::Trim { .. }
            | RequestKind::BlockStatus { .. } => {
                unreachable!("only what needs memory waits for it")
            }
        }
    }

    fn client_release(&mut self, buffer: BufferId) {
        let place = self.unsubmitted.get_mut(buffer.0 as usize);
        if let Some(unsubmitted) = place.and_then(Option::take) {
            for scratch in unsubmitted.scratch() {
                self.release_buffer(scratch.buffer);
            }
        }
        self.release_buffer(buffer);
    }

    /// Something waits for memory, in front of all else where it `is_urgent`.
    pub(crate) fn wait_for_memory(&mut self, what: Waiting, is_urgent: bool) {
        // Looked at once before this input ends: there may be nothing left that frees memory.
        self.memory_freed |= self.waiting.is_empty();
        self.give_prefetched_back();
        if is_urgent {
            self.waiting.push_front(what);
        } else {
            self.waiting.push_back(what);
        }
    }

    /// Whether all memory in use is kept by operations of legs that are out: then it may be kept
    /// for ever.
    fn is_kept_by_ghosts(&self) -> bool {
        let is_out = |leg| !self.legs.writable().contains(leg);
        let is_kept = |op: &Op| matches!(op.owner, OpOwner::Ghost { .. }) && is_out(op.leg);
        let ghosts = self.ops.iter().filter(|(_, op)| is_kept(op));
        let kept: BTreeSet<BufferId> = ghosts
            .filter_map(|(_, op)| Some(op.memory?.buffer))
            .collect();
        kept.len() == self.buffers.count()
    }

    /// Answers what cannot have the memory it waits for, where it can be answered.
    fn refuse_waiting(&mut self, waiting: &Waiting) -> bool {
        let id = match waiting {
            Waiting::Request(request) => request.id,
            Waiting::Restart(read) => self.reads.remove(*read).id,
            Waiting::Edge(_) | Waiting::Commit => return false,
        };
        self.complete(id, Err(ErrorKind::NoMemory));
        true
    }

    /// Lets go on what waits for memory, as far as there is any.
    #[inline]
    fn serve_waiting(&mut self, turn: &mut Turn<'_>) {
        if self.memory_freed {
            self.memory_freed = false;
            self.serve_with_memory(turn);
        }
    }

    #[inline(never)]
    fn serve_with_memory(&mut self, turn: &mut Turn<'_>) {
        while let Some(at) = self.next_waiting() {
            let first = self.waiting.remove(at).expect("it was just found");
            let done = match &first {
                Waiting::Request(request) => self.admit(turn, request),
                Waiting::Restart(read) => self.restart_read(turn, *read),
                Waiting::Edge(piece) => self.restart_edge(turn, *piece),
                Waiting::Commit => self.send_step(turn),
            };
            let is_settled = done || self.is_kept_by_ghosts() && self.refuse_waiting(&first);
            if !is_settled {
                self.waiting.insert(at, first);
                break;
            }
            self.writes_turn = true;
        }
        self.writes_turn |= self.waiting.is_empty();
        let has_refused = std::mem::take(&mut self.admission.has_refused);
        if has_refused || self.alloc_refused && self.writes_turn {
            self.alloc_refused = false;
            self.outputs.push_back(Output::MemoryFreed);
        }
    }
}

/// What a policy is told of a client's read.
const fn read_asked(request: &Admitted) -> Option<ReadRequest> {
    let RequestKind::Read { extent } = request.kind else {
        return None;
    };
    Some(ReadRequest {
        client: request.client,
        stream: request.stream,
        extent,
        may_split: true,
    })
}

fn check_in_sync(map: &Map, in_sync: LegSet, faulted: LegSet) {
    assert!(map.is_covered_by(in_sync), "every byte has a leg in sync");
    assert!(
        in_sync.intersection(faulted).is_empty(),
        "a leg on record as faulted is not in sync"
    );
}

/// A configuration that makes sense, with a role for each leg.
fn checked(mut config: Config) -> Config {
    config.check();
    give_role_to_replacement(&mut config);
    config
}

/// A leg that is to replace another one stands beside it in its role.
fn give_role_to_replacement(config: &mut Config) {
    let metadata = config.metadata.as_ref();
    if let Some(replaced) = metadata.and_then(|known| known.replaced) {
        let by = LegId::new(config.map.legs());
        config.map.give_role(by, replaced.index());
    }
}

/// What the legs say of their bad blocks at the start.
fn bad_logs_of(config: &Config, metadata: Option<&Metadata>) -> BadLogs {
    let mut bad = BadLogs::none(config.legs.len());
    let Some(metadata) = metadata else {
        return bad;
    };
    let block_bytes = u64::from(config.block_bytes);
    let logs = metadata.superblocks.iter().zip(&metadata.bad_blocks);
    for (number, (superblock, log)) in logs.enumerate() {
        if let Some(superblock) = superblock {
            let leg = LegId::new(number);
            let leg_bytes = config.map.leg_bytes(leg);
            bad.set(leg, superblock, log, (leg_bytes, block_bytes));
        }
    }
    bad
}
