//! The background work: resync, rebuild and scrub, one at a time, in windows.
//!
//! A window is a run of bytes of one chunk. It locks them like a write, reads them from one leg or
//! from all, and writes them to those that need them (see `window`). Several are in flight, begun
//! in order: by array address for a resync and a scrub, by leg address for a rebuild. What clients
//! do meanwhile needs no further care: a write comes before a window or behind it, and goes to legs
//! that are being rebuilt as to all others.
//!
//! Which job runs: a resync, or else a rebuild, or else a scrub, which steps aside for them and
//! goes on afterwards. How fast: see `pace`. Windows get memory only while no client waits for any.
//!
//! A job goes through what is needed once. Windows that could not be done are cut in two and tried
//! again, down to a page; what is left then is left, and the job says so at its end.

use heliostat_types::{Duration, Extent, Instant, LEGS_MAX, LegId, LegSet, OpKind};

use crate::api::{Config, Event, Output};
use crate::divergence::DivergencePin;
use crate::engine::{Engine, Turn};
use crate::legs::{Op, OpOwner};
use crate::slab::Slab;

mod api;
mod bad;
mod checkpoint;
mod pace;
mod rejoin;
mod scrub;
mod window;

pub use api::{
    AddRefusal, BackgroundEnd, BackgroundKind, BackgroundStatus, Comparison, Mismatches, Missed,
    RepairSource,
};

use pace::{Go, Pace, rate_of, time_for};
use rejoin::LegRebuild;
pub(crate) use rejoin::Saved;
use window::Window;

/// What cannot be read is narrowed down to this, or to a block where that is larger, or where it
/// would be lost for good.
const LEAF_BYTES: u64 = 4096;
/// A window is at most one of so many parts of the array, so that clients of a small one need not
/// wait for a lock on much of it.
const PARTS_MIN: u64 = 16;
/// What windows may use of the arena, as a share of it.
const MEMORY_SHARE: u64 = 8;
/// When memory is short, it is asked for again after so long, or when something else happens.
const MEMORY_RETRY: Duration = Duration::from_ms(10);
/// So many mismatches and unreadable runs of each job are told one by one.
const TOLD_MAX: u64 = 16;
/// The rate that people are shown is that of the last few of these.
const METER_EVERY: Duration = Duration::from_ms(500);

/// Whether a window was tried before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// It was not.
    Not,
    /// It was, alone or as part of a larger one.
    Tried,
    /// The same, and people were told that it could not be read, which was counted.
    Told,
}

impl Before {
    /// The same of what is tried once more.
    const fn again(self) -> Self {
        match self {
            Self::Not | Self::Tried => Self::Tried,
            Self::Told => Self::Told,
        }
    }
}

/// A job under way.
#[derive(Debug)]
struct Job {
    kind: BackgroundKind,
    /// In array addresses; not used by a rebuild, which has one for each leg.
    cursor: u64,
    /// Windows that have to be done again, of the array.
    retries: Vec<(Extent, Before)>,
    total_bytes: u64,
    done_bytes: u64,
    copied_bytes: u64,
    mismatches: Mismatches,
    mismatches_told: u64,
    unreadable_told: u64,
    tenths_told: u64,
    /// The first run of bytes that could not be done.
    left: Option<Extent>,
    is_stopping: bool,
    has_joined: bool,
    meter: Meter,
}

/// A scrub that somebody asked for.
#[derive(Clone, Copy, Debug)]
struct WantedScrub {
    repair: bool,
    from_bytes: u64,
}

/// How fast a job is.
#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    since: Instant,
    bytes: u64,
    rate: u64,
}

/// The background work of an array.
#[derive(Debug)]
pub(crate) struct Background {
    windows: Slab<Window>,
    job: Option<Job>,
    /// A scrub that lets others go first.
    aside: Option<Job>,
    wants_resync: bool,
    /// A rebuild was incomplete, and is tried again when somebody says so.
    is_rebuild_held: bool,
    wants_scrub: Option<WantedScrub>,
    is_paused: bool,
    /// A resync has copied something since the array was last clean.
    pub(crate) has_copied: bool,
    pace: Pace,
    wake_at: Option<Instant>,
    in_flight_bytes: u64,
    memory_bytes: u64,
    memory_max_bytes: u64,
    rebuilds: Vec<Option<LegRebuild>>,
    /// How many legs were ever added.
    adds: u64,
    /// By leg, operations of windows that it has or that wait for it, and when it last had one.
    at_leg: [u32; LEGS_MAX],
    had_at: [Instant; LEGS_MAX],
}

impl Background {
    /// Nothing to do yet.
    pub(crate) fn new(config: &Config) -> Self {
        let legs = config.legs.len();
        Self {
            windows: Slab::new(),
            job: None,
            aside: None,
            wants_resync: false,
            is_rebuild_held: false,
            wants_scrub: None,
            is_paused: false,
            has_copied: false,
            pace: Pace::new(legs, config.legs.iter().any(|leg| leg.rotational)),
            wake_at: None,
            in_flight_bytes: 0,
            memory_bytes: 0,
            memory_max_bytes: config.memory_bytes as u64 / MEMORY_SHARE,
            rebuilds: (0..legs).map(|_| None).collect(),
            adds: 0,
            at_leg: [0; LEGS_MAX],
            had_at: [Instant::ZERO; LEGS_MAX],
        }
    }

    /// There is one leg more.
    pub(crate) fn make_room(&mut self) {
        self.rebuilds.push(None);
        self.pace.make_room();
    }

    /// Whether there is a job, under way or waiting.
    pub(crate) fn has_job(&self) -> bool {
        self.job.is_some()
            || self.aside.is_some()
            || self.wants_resync
            || self.wants_scrub.is_some()
            || self.has_rebuild()
    }

    /// Whether a job is under way.
    pub(crate) const fn is_working(&self) -> bool {
        self.job.is_some()
    }

    /// Nothing is locked or in flight.
    pub(crate) fn is_idle(&self) -> bool {
        let mut rebuilds = self.rebuilds.iter().flatten();
        self.windows.is_empty() && !rebuilds.any(LegRebuild::is_busy)
    }

    pub(crate) const fn wake_at(&self) -> Option<Instant> {
        self.wake_at
    }

    pub(crate) const fn pause(&mut self) {
        self.is_paused = true;
        self.wake_at = None;
    }

    pub(crate) fn set_rates(&mut self, now: Instant, min: u64, max: u64) {
        self.pace.set_rates(now, min, max);
    }

    /// Any operation has ended.
    pub(crate) fn op_ended(&mut self, now: Instant, op: &Op) {
        let leg = op.leg.index();
        match op.owner {
            OpOwner::Background(_) => {
                self.at_leg[leg] -= 1;
                self.had_at[leg] = now;
            }
            OpOwner::Ghost { .. }
            | OpOwner::Moved(_)
            | OpOwner::Rejoin(_)
            | OpOwner::Checkpoint(_)
            | OpOwner::Repair(_)
            | OpOwner::Metadata => {}
            OpOwner::Piece(_)
            | OpOwner::Hedge(_)
            | OpOwner::Prefetch(_)
            | OpOwner::Write(_)
            | OpOwner::Narrow(_)
            | OpOwner::WriteFlush(_)
            | OpOwner::Sweep { .. }
            | OpOwner::Flush
            | OpOwner::Status { .. } => {
                if !matches!(op.kind, OpKind::Read | OpKind::Write) {
                    return;
                }
                // With the time in front of a device that has as much as it takes.
                let time = now.saturating_since(op.assigned);
                let is_beside = self.at_leg[leg] > 0 || self.had_at[leg] > op.assigned;
                let is_write = op.kind == OpKind::Write;
                self.pace.note_client(leg, is_write, time, is_beside);
            }
        }
    }

    /// The job that windows of this kind belong to.
    fn job_of(&mut self, kind: BackgroundKind) -> &mut Job {
        let jobs = [&mut self.job, &mut self.aside];
        let mut jobs = jobs.into_iter().flatten();
        let job = jobs.find(|job| job.kind == kind);
        job.expect("a job does not end before its windows")
    }

    fn has_rebuild(&self) -> bool {
        self.adds > 0 && self.rebuilds.iter().any(Option::is_some)
    }
}

impl Job {
    fn new(kind: BackgroundKind, total_bytes: u64, now: Instant) -> Self {
        Self {
            kind,
            cursor: 0,
            retries: Vec::new(),
            total_bytes,
            done_bytes: 0,
            copied_bytes: 0,
            mismatches: Mismatches::default(),
            mismatches_told: 0,
            unreadable_told: 0,
            tenths_told: 0,
            left: None,
            is_stopping: false,
            has_joined: false,
            meter: Meter {
                since: now,
                bytes: 0,
                rate: 0,
            },
        }
    }

    const fn is_scrub(&self) -> bool {
        matches!(self.kind, BackgroundKind::Scrub { .. })
    }

    /// Some bytes could not be done.
    fn leave(&mut self, extent: Extent) {
        self.left = Some(self.left.map_or(extent, |left| left.min(extent)));
    }

    /// Whether one more run of bytes that nobody can read is told of.
    const fn may_tell_unreadable(&mut self) -> bool {
        self.unreadable_told += 1;
        self.unreadable_told <= TOLD_MAX
    }

    fn measure(&mut self, now: Instant) {
        let time = now.saturating_since(self.meter.since);
        if time >= METER_EVERY {
            let rate = rate_of(self.done_bytes - self.meter.bytes, time);
            let before = self.meter.rate;
            self.meter = Meter {
                since: now,
                bytes: self.done_bytes,
                rate: if before == 0 {
                    rate
                } else {
                    before / 2 + rate / 2
                },
            };
        }
    }
}

impl Engine {
    /// What the background does, if anything.
    #[must_use]
    pub fn background(&self) -> Option<BackgroundStatus> {
        let job = self.background.job.as_ref();
        let job = job.or(self.background.aside.as_ref())?;
        let is_rebuild = job.kind == BackgroundKind::Rebuild;
        let left_bytes = job.total_bytes.saturating_sub(job.done_bytes);
        Some(BackgroundStatus {
            kind: job.kind,
            legs: if is_rebuild {
                self.legs.rebuilding
            } else {
                LegSet::EMPTY
            },
            is_paused: self.background.is_paused,
            position_bytes: if is_rebuild {
                self.rebuild_position()
            } else {
                job.cursor
            },
            done_bytes: job.done_bytes.min(job.total_bytes),
            total_bytes: job.total_bytes,
            bytes_per_s: job.meter.rate,
            settled_bytes: if is_rebuild {
                0
            } else {
                self.settled_up_to(job)
            },
            copied_bytes: job.copied_bytes,
            mismatches: job.mismatches,
            time_left: (job.meter.rate > 0).then(|| time_for(left_bytes, job.meter.rate)),
        })
    }

    /// The floor and the ceiling of background work, in bytes per second.
    #[must_use]
    pub const fn background_rates(&self) -> (u64, u64) {
        self.background.pace.rates()
    }

    /// Whether a scrub waits until something else is done, and whether it repairs.
    #[must_use]
    pub fn waiting_scrub(&self) -> Option<bool> {
        let wanted = self.background.wants_scrub.map(|wanted| wanted.repair);
        let aside = self.background.aside.as_ref();
        let aside = aside.filter(|_| self.background.job.is_some());
        wanted.or_else(|| aside.map(|job| job.kind == BackgroundKind::Scrub { repair: true }))
    }

    pub(crate) fn start_resync(&mut self, everything: bool) {
        if everything {
            let everywhere = Extent::new(0, self.config.size_bytes);
            self.needed.add(everywhere, everywhere.end());
            // From now on reads go to the legs that are copied from, whoever was read before.
            self.forget_prefetched(everywhere);
        }
        self.background.wants_resync = true;
    }

    pub(crate) fn start_scrub(&mut self, repair: bool, from_bytes: u64) {
        self.stop_scrub();
        let block_bytes = u64::from(self.config.block_bytes);
        self.background.wants_scrub = Some(WantedScrub {
            repair,
            from_bytes: from_bytes.min(self.config.size_bytes) / block_bytes * block_bytes,
        });
    }

    /// Below this address the job has nothing to do any more.
    fn settled_up_to(&self, job: &Job) -> u64 {
        let windows = self.background.windows.iter().map(|(_, window)| window);
        let ours = windows.filter(|window| window.kind == job.kind);
        let retries = job.retries.iter().map(|(extent, _)| extent.offset());
        let open = ours.map(|window| window.extent.offset()).chain(retries);
        open.min().unwrap_or(job.cursor).min(job.cursor)
    }

    pub(crate) fn stop_scrub(&mut self) {
        self.background.wants_scrub = None;
        if let Some(job) = &mut self.background.job {
            job.is_stopping |= job.is_scrub();
        }
        if let Some(job) = self.background.aside.take() {
            self.tell_end(&job, BackgroundEnd::Stopped);
        }
    }

    pub(crate) fn resume_background(&mut self) {
        self.background.is_paused = false;
        self.background.is_rebuild_held = false;
        self.background.wants_resync |= !self.is_all_equal();
    }

    /// Begins, goes on with and ends background work, as far as it can now.
    pub(crate) fn run_background(&mut self, turn: &mut Turn<'_>) {
        self.background.wake_at = None;
        let has_clients = self.has_clients_ops();
        self.background.pace.adapt(turn.now, has_clients);
        if let Some(job) = &mut self.background.job {
            job.measure(turn.now);
        }
        self.save_rebuilds(turn);
        loop {
            self.choose_job(turn);
            let background = &self.background;
            let Some(job) = &background.job else {
                return;
            };
            if job.is_stopping || self.must_step_aside() {
                if !background.windows.is_empty() {
                    return;
                }
                self.put_away();
                continue;
            }
            if background.is_paused {
                return;
            }
            match self.next_window() {
                Some((extent, before)) => {
                    if !self.begin_window(turn, extent, before) {
                        return;
                    }
                }
                None if !self.background.windows.is_empty() => return,
                None => {
                    if !self.pass_ended(turn) {
                        return;
                    }
                }
            }
        }
    }

    /// Whether legs have anything else to do.
    fn has_clients_ops(&self) -> bool {
        let mut legs = self.legs.views.iter().zip(self.background.at_leg);
        legs.any(|(view, ours)| view.reads_in_flight + view.writes_in_flight > ours)
    }

    fn wants_rebuild(&self) -> bool {
        self.background.has_rebuild() && !self.background.is_rebuild_held
    }

    /// Whether a scrub is under way while something else is more urgent.
    fn must_step_aside(&self) -> bool {
        let is_scrub = self.background.job.as_ref().is_some_and(Job::is_scrub);
        is_scrub && (self.background.wants_resync || self.wants_rebuild())
    }

    /// A scrub is stopped, or steps aside.
    fn put_away(&mut self) {
        let job = self.background.job.take().expect("it is under way");
        if job.is_stopping {
            self.tell_end(&job, BackgroundEnd::Stopped);
        } else {
            self.background.aside = Some(job);
        }
    }

    /// Whether one leg is left: whatever may differ from it is out, and is copied when it is added.
    fn has_none_to_equal(&self) -> bool {
        self.legs.writable().count() == 1 && self.divergence.is_empty()
    }

    /// Takes up what is most urgent, where nothing is under way.
    fn choose_job(&mut self, turn: &Turn<'_>) {
        let now = turn.now;
        if self.background.job.is_some() {
            return;
        }
        if self.background.wants_resync && self.has_none_to_equal() {
            // Before that the next start may believe others: see `crate::moved`.
            if !self.is_taken_up() || !self.are_faults_told() {
                return;
            }
            let runs: Vec<Extent> = self.needed.runs().collect();
            runs.into_iter().for_each(|run| self.range_is_equal(run));
            self.clean_later(turn);
        }
        if std::mem::take(&mut self.background.wants_resync) && !self.is_all_equal() {
            let total = self.needed.bytes() + self.divergence.bytes();
            return self.begin_job(BackgroundKind::Resync, total, now);
        }
        if self.wants_rebuild() {
            let rebuilds = self.background.rebuilds.iter_mut().flatten();
            let total = rebuilds.map(LegRebuild::begin_pass).sum();
            return self.begin_job(BackgroundKind::Rebuild, total, now);
        }
        self.background.job = self.background.aside.take();
        if self.background.job.is_none()
            && let Some(wanted) = self.background.wants_scrub.take()
        {
            let WantedScrub { repair, from_bytes } = wanted;
            let kind = BackgroundKind::Scrub { repair };
            self.begin_job(kind, self.config.size_bytes, now);
            let job = self.background.job_of(kind);
            (job.cursor, job.done_bytes) = (from_bytes, from_bytes);
            job.meter.bytes = from_bytes;
        }
    }

    fn begin_job(&mut self, kind: BackgroundKind, total_bytes: u64, now: Instant) {
        self.background.job = Some(Job::new(kind, total_bytes, now));
        self.background.pace.begin(now);
        let event = Event::BackgroundStarted { kind, total_bytes };
        self.outputs.push_back(Output::Event(event));
    }

    fn end_job(&mut self, end: BackgroundEnd) {
        let job = self.background.job.take();
        let job = job.expect("only what is under way ends");
        assert!(self.background.windows.is_empty(), "windows end first");
        self.tell_end(&job, end);
    }

    fn tell_end(&mut self, job: &Job, end: BackgroundEnd) {
        self.outputs
            .push_back(Output::Event(Event::BackgroundEnded {
                kind: job.kind,
                end,
                copied_bytes: job.copied_bytes,
                done_bytes: job.done_bytes.min(job.total_bytes),
                mismatches: job.mismatches,
            }));
    }

    /// The job has been through everything once. Whether there is something to do now.
    fn pass_ended(&mut self, turn: &Turn<'_>) -> bool {
        let is_equal = self.is_all_equal();
        let job = self.background.job.as_mut().expect("it is under way");
        match (job.kind, job.left) {
            (BackgroundKind::Resync, None) if !is_equal => {
                // Further writes have failed since.
                job.cursor = 0;
                job.total_bytes += self.needed.bytes() + self.divergence.bytes();
            }
            (BackgroundKind::Rebuild, _) => return self.rebuild_pass_ended(turn),
            (_, None) => self.end_job(BackgroundEnd::Done),
            (_, Some(left)) => self.end_job(BackgroundEnd::Incomplete(left)),
        }
        true
    }

    /// What the job does next, and what was done of it before. In whole blocks, of one chunk,
    /// and in one range of legs that differ or in none.
    fn next_window(&mut self) -> Option<(Extent, Before)> {
        let job = self.background.job.as_mut().expect("it is under way");
        if let Some(&retry) = job.retries.last() {
            return Some(retry);
        }
        let cursor = job.cursor;
        let extent = match job.kind {
            BackgroundKind::Rebuild => self.next_to_rebuild()?,
            BackgroundKind::Scrub { .. } if cursor < self.config.size_bytes => {
                Extent::from_range(cursor, self.config.size_bytes)
            }
            BackgroundKind::Scrub { .. } => return None,
            BackgroundKind::Resync => {
                let next = [self.needed.next(cursor), self.divergence.next(cursor)];
                next.into_iter().flatten().min()?
            }
        };
        let part = self.config.size_bytes / PARTS_MIN;
        let part = part.next_multiple_of(LEAF_BYTES).max(LEAF_BYTES);
        let len_max = self.background.pace.window_max().min(part);
        // On a border of windows again, wherever this one begins.
        let border = (extent.offset() / len_max + 1) * len_max;
        let extent = Extent::from_range(extent.offset(), extent.end().min(border));
        let extent = self.config.map.first_part(extent);
        Some((extent.split_at(self.uniform_len(extent)).0, Before::Not))
    }

    /// How much of `extent`, from its start on, is pinned to one leg or to none.
    fn uniform_len(&self, extent: Extent) -> u64 {
        let len = self.divergence.uniform_len(extent);
        let len = len.min(self.bad_len(extent));
        let run = self.needed.next(extent.offset());
        let border = run.map_or(u64::MAX, |run| {
            if run.offset() > extent.offset() {
                run.offset()
            } else {
                run.end()
            }
        });
        len.min(border - extent.offset())
    }

    /// Begins a window, if it may now.
    fn begin_window(&mut self, turn: &mut Turn<'_>, extent: Extent, before: Before) -> bool {
        let job = self.background.job.as_ref().expect("it is under way");
        let kind = job.kind;
        let holders = self.config.map.holders(extent.offset());
        let copies = if job.is_scrub() {
            self.legs.in_sync.intersection(holders).count() as u64
        } else {
            1
        };
        let bytes = extent.len() * copies;
        let in_use = self.background.memory_bytes;
        if in_use > 0 && in_use + bytes > self.background.memory_max_bytes {
            return false;
        }
        if !self.waiting.is_empty() || self.alloc_refused {
            self.background.wake_at = Some(turn.now + MEMORY_RETRY);
            return false;
        }
        let mut concerned = holders.intersection(self.legs.writable()).iter();
        let is_crowded = concerned.any(|leg| self.legs.is_crowded(leg));
        let in_flight = self.background.in_flight_bytes;
        let pace = &self.background.pace;
        match pace.may_begin(turn.now, extent.len(), in_flight, is_crowded) {
            Go::Now => {}
            Go::At(at) => {
                self.background.wake_at = Some(at);
                return false;
            }
            Go::Later => return false,
        }
        let Some(memory) = self.alloc_window(extent.len(), copies) else {
            self.background.wake_at = Some(turn.now + MEMORY_RETRY);
            return false;
        };
        self.background.pace.begun(turn.now, extent.len());
        let job = self.background.job.as_mut().expect("it is under way");
        if before == Before::Not {
            job.cursor = extent.end();
            if kind == BackgroundKind::Rebuild {
                self.note_begun(extent);
            }
        } else {
            job.retries.pop();
        }
        self.open_window(turn, kind, (extent, before), memory);
        true
    }

    /// So many bytes of a job are done, or will never be.
    fn note_done(&mut self, kind: BackgroundKind, bytes: u64) {
        let job = self.background.job_of(kind);
        job.done_bytes += bytes;
        let tenths = job.done_bytes.saturating_mul(10) / job.total_bytes.max(1);
        if tenths > job.tenths_told && tenths < 10 {
            job.tenths_told = tenths;
            let event = Event::BackgroundProgress {
                kind,
                done_bytes: job.done_bytes,
                total_bytes: job.total_bytes,
            };
            self.outputs.push_back(Output::Event(event));
        }
    }

    /// All legs in sync hold the same bytes there now.
    pub(crate) fn range_is_equal(&mut self, extent: Extent) {
        if self.is_all_equal() {
            return;
        }
        self.divergence.remove(extent);
        if !self.needed.is_empty() {
            self.needed_is_equal(extent);
        }
        if self.is_all_equal() && self.replacing().is_some() {
            // It may have waited for this.
            self.background.is_rebuild_held = false;
        }
    }

    fn needed_is_equal(&mut self, extent: Extent) {
        self.needed.remove(extent);
        let chunks: Vec<Extent> = self.intent.chunk_extents(extent).collect();
        for chunk in chunks {
            if !self.needed.overlaps(chunk) {
                self.intent.synced(chunk);
            }
        }
    }

    /// The pin of a range of which parts may differ since an unclean stop, with what is known of
    /// ranges that differ for other reasons.
    pub(crate) fn needed_pin_of(&self, extent: Extent, known: DivergencePin) -> DivergencePin {
        let len = self.divergence.uniform_len(extent);
        if len < extent.len() {
            return DivergencePin::Cut(len);
        }
        let good = self.good_holders(extent);
        match known {
            DivergencePin::Leg(leg) if good.contains(leg) => known,
            DivergencePin::Leg(_) | DivergencePin::None | DivergencePin::Cut(_) => {
                DivergencePin::Leg(self.resync_source(extent))
            }
        }
    }

    /// Where legs may differ since an unclean stop, the leg that is read there remains so from now
    /// on, whatever legs come and go.
    pub(crate) fn pin_needed(&mut self, extent: Extent) {
        let runs: Vec<Extent> = self.needed.inside(extent).collect();
        for run in runs {
            let parts: Vec<Extent> = self.config.map.parts(run).collect();
            let parts = parts.into_iter().flat_map(|part| self.bad_parts(part));
            let parts: Vec<Extent> = parts.map(|(part, _)| part).collect();
            for part in parts {
                let pin = self.resync_source(part);
                self.divergence.add(part, pin);
            }
        }
    }

    /// The pinned leg has failed a read: from now on this one is read, for good.
    pub(crate) fn re_pin(&mut self, extent: Extent, leg: LegId) {
        let runs: Vec<Extent> = self.needed.inside(extent).collect();
        for run in runs {
            self.divergence.remove(run);
            self.divergence.add(run, leg);
        }
        self.divergence.re_pin(extent, leg);
    }
}
