//! All legs of one array behind one face: operations go in, completions come out, nothing blocks.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use heliostat_types::{Duration, ErrorKind, Extent, Instant, LegId, LegOpId, OpKind};
use rustix::io::Errno;

use crate::api::{LegDone, LegIo, LegOutcome};
use crate::arena::{Arena, LegMemory};
use crate::cache::CachedFile;
use crate::delay::DelayLine;
use crate::error::LegError;
use crate::file::LegFile;
use crate::leg::{OpenedLeg, Store};
use crate::memory::MemoryStore;
use crate::nbd::NbdClient;
use crate::ring::Ring;
use crate::shadow::Shadow;
use crate::workers::{Mailbox, Target, Workers};

/// How often a write cache looks whether it wants to write something back: often between two
/// flushes of a busy client.
const WRITE_BACK_INTERVAL: Duration = Duration::from_ms(5);

/// How files and block devices are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoChoice {
    /// Through io_uring, or through threads where the kernel refuses that.
    Auto,
    /// Through threads.
    ThreadPool,
}

/// The legs of one array, for one thread to drive.
///
/// An operation's memory belongs to the hub from `submit` until its completion was reaped. A hub
/// that is dropped with operations in flight waits for none of them, and keeps the arena's memory
/// for as long as the kernel or a thread may touch it.
#[derive(Debug)]
pub struct LegHub {
    legs: Vec<Leg>,
    arena: Arc<Arena>,
    ring: Option<Ring>,
    mailbox: Arc<Mailbox>,
    backend: String,
    /// Ended, not yet reaped.
    ready: Vec<LegDone>,
    outstanding_count: usize,
    /// What is done as one, by the first of them: the others.
    joined: BTreeMap<LegOpId, Box<[LegOpId]>>,
    /// Where nothing is written to legs: what was to be.
    shadow: Option<Shadow>,
}

/// One leg: how long it takes, and who moves its bytes.
#[derive(Debug)]
struct Leg {
    size_bytes: u64,
    block_bytes: u64,
    delay: Option<DelayLine>,
    mover: Mover,
}

/// Who moves the bytes of a leg.
#[derive(Debug)]
enum Mover {
    /// The loop itself.
    Memory(MemoryStore),
    /// The ring, and threads for what that cannot do; or threads alone.
    File(Workers),
    /// A thread, behind a write cache.
    Cached(Cached),
    /// The loop itself, over sockets.
    Nbd(Box<NbdClient>),
}

/// A leg with a write cache.
#[derive(Debug)]
struct Cached {
    workers: Workers,
    cached: Arc<CachedFile>,
    /// When something is written back, where there is anything.
    write_back_at: Option<Instant>,
}

impl Cached {
    /// Writes back what the cache wants to, where it is time for that.
    fn write_back_due(&mut self, now: Instant) {
        if !self.cached.is_dirty() {
            self.write_back_at = None;
            return;
        }
        let at = *self.write_back_at.get_or_insert(now + WRITE_BACK_INTERVAL);
        if at <= now {
            self.workers.write_back();
            self.write_back_at = Some(now + WRITE_BACK_INTERVAL);
        }
    }
}

impl Leg {
    fn new(id: LegId, leg: OpenedLeg, arena: &Arc<Arena>, mailbox: &Arc<Mailbox>) -> Self {
        Self {
            size_bytes: leg.info().size_bytes,
            block_bytes: u64::from(leg.info().logical_block_bytes),
            delay: leg.timing.map(|timing| DelayLine::new(timing, id.index())),
            mover: match leg.store {
                Store::Memory(memory) => Mover::Memory(memory),
                Store::Nbd(export) => Mover::Nbd(Box::new(export.into_client())),
                Store::Cached(cached) => Mover::Cached(Cached {
                    workers: Workers::new(
                        id,
                        Target::Cached(Arc::clone(&cached)),
                        Arc::clone(arena),
                        Arc::clone(mailbox),
                    ),
                    cached,
                    write_back_at: None,
                }),
                Store::File(file) => Mover::File(Workers::new(
                    id,
                    Target::File(file),
                    Arc::clone(arena),
                    Arc::clone(mailbox),
                )),
            },
        }
    }
}

impl LegHub {
    /// Takes the legs over; the one at index i is leg i from now on.
    ///
    /// # Errors
    /// Where the kernel refuses what even threads need, or two legs are one disk.
    ///
    /// # Panics
    /// Where there are more than 16 legs.
    pub fn new(
        legs: Vec<OpenedLeg>,
        arena: Arc<Arena>,
        choice: IoChoice,
    ) -> Result<Self, LegError> {
        OpenedLeg::expect_distinct(&legs)?;
        let mailbox = Mailbox::new().map_err(|source| LegError::Setup {
            doing: "have an event descriptor".to_owned(),
            source,
        })?;
        let mailbox = Arc::new(mailbox);
        let files: Vec<Option<Arc<LegFile>>> = legs
            .iter()
            .map(|leg| match &leg.store {
                Store::Memory(_) | Store::Cached(_) | Store::Nbd(_) => None,
                Store::File(file) => Some(Arc::clone(file)),
            })
            .collect();
        let (ring, backend) = choose_backend(&legs, &files, &arena, choice);
        let legs = (0..)
            .zip(legs)
            .map(|(index, leg)| Leg::new(LegId::new(index), leg, &arena, &mailbox));
        let legs = legs.collect();
        Ok(Self {
            legs,
            arena,
            ring,
            mailbox,
            backend,
            ready: Vec::new(),
            outstanding_count: 0,
            joined: BTreeMap::new(),
            shadow: None,
        })
    }

    /// From now on nothing is written to any leg: up to so many bytes are kept in memory instead,
    /// and read from there; for more there is no room.
    pub fn keep_from_changing(&mut self, bytes_max: usize) {
        self.shadow = Some(Shadow::new(bytes_max));
    }

    /// From now on this is leg `leg`, which was missing, or of which nothing is in flight. Where it
    /// is one more than there were, those in between are missing.
    ///
    /// # Errors
    /// Where the kernel refuses it. The leg is as it was then.
    ///
    /// # Panics
    /// Where it has operations in flight, or is beyond the largest number of legs.
    pub fn attach(&mut self, leg: LegId, opened: OpenedLeg) -> Result<(), LegError> {
        while self.legs.len() <= leg.index() {
            let next = LegId::new(self.legs.len());
            let absent = OpenedLeg::absent()?;
            let absent = Leg::new(next, absent, &self.arena, &self.mailbox);
            self.legs.push(absent);
        }
        if let Some(ring) = &mut self.ring {
            let changed = match &opened.store {
                Store::File(file) => ring.attach(leg, Arc::clone(file)),
                Store::Memory(_) | Store::Nbd(_) | Store::Cached(_) => ring.detach(leg),
            };
            changed.map_err(|source| LegError::Io {
                leg: opened.name().to_owned(),
                doing: "register",
                source,
            })?;
        }
        self.legs[leg.index()] = Leg::new(leg, opened, &self.arena, &self.mailbox);
        Ok(())
    }

    /// Hands in an operation; it begins with the next [`LegHub::kick`] at the latest. The
    /// completion of one that cannot even begin is there to reap.
    ///
    /// # Panics
    /// Where there is no such leg.
    pub fn submit(&mut self, now: Instant, leg: LegId, io: LegIo) {
        self.outstanding_count += 1;
        let Leg {
            size_bytes,
            block_bytes,
            delay,
            ..
        } = &mut self.legs[leg.index()];
        let shadow = &mut self.shadow;
        let mut kept = || shadow.as_mut()?.submit(&self.arena, leg, &io);
        if io.extent.end() > *size_bytes || !io.extent.is_aligned(*block_bytes) {
            self.fail(leg, &io, ErrorKind::InvalidInput);
        } else if let Some(outcome) = kept() {
            self.ready.push(LegDone {
                leg,
                op: io.op,
                outcome,
            });
        } else if let Some(delay) = delay {
            delay.submit(now, io);
        } else {
            self.begin(leg, io);
        }
    }

    /// Hands in reads or writes of which each goes on where the one before it ends, to be done as
    /// one. Each is reported, in this order, and as it went with all of them: where that failed,
    /// any of them may be done and none must.
    ///
    /// # Panics
    /// Where there is no such leg, or they are not of one kind and in a row.
    pub fn submit_joined(&mut self, now: Instant, leg: LegId, ios: &[LegIo]) {
        let (first, rest) = ios.split_first().expect("something is handed in");
        let mut end = first.extent.offset();
        let mut ranges = Vec::with_capacity(ios.len());
        for io in ios {
            let is_next = io.extent.offset() == end;
            assert!(
                is_next && io.kind == first.kind && io.fua == first.fua,
                "what is done as one is alike and in a row"
            );
            end = io.extent.end();
            ranges.extend(io.memory.iter().flat_map(LegMemory::ranges));
        }
        if !rest.is_empty() {
            let rest = rest.iter().map(|io| io.op).collect();
            self.joined.insert(first.op, rest);
            self.outstanding_count += ios.len() - 1;
        }
        let whole = LegIo {
            extent: Extent::from_range(first.extent.offset(), end),
            memory: Some(LegMemory::Many(ranges.into())),
            ..first.clone()
        };
        self.submit(now, leg, whole);
    }

    /// Tells the kernel of everything submitted since the last call. Call it once per turn.
    pub fn kick(&mut self) {
        if let Some(ring) = &mut self.ring {
            ring.kick(&mut self.ready);
        }
        for leg in &mut self.legs {
            if let Mover::Nbd(export) = &mut leg.mover {
                export.kick(&self.arena);
            }
        }
    }

    /// The array has done with a leg. What keeps its operations from ending is taken away where
    /// that can be done: the connections to the server of an export are closed, and what waits for
    /// an answer ends as failed. The kernel and devices end what they were given when they do.
    ///
    /// # Panics
    /// Where there is no such leg.
    pub fn retire(&mut self, leg: LegId) {
        if let Mover::Nbd(export) = &mut self.legs[leg.index()].mover {
            export.retire();
        }
    }

    /// What there is to tell people of legs since the last call, in sentences without their ends.
    pub fn take_notes(&mut self) -> Vec<(LegId, String)> {
        let mut notes = Vec::new();
        for (index, leg) in self.legs.iter_mut().enumerate() {
            if let Mover::Nbd(export) = &mut leg.mover {
                let told = export.take_notes().into_iter();
                notes.extend(told.map(|note| (LegId::new(index), note)));
            }
        }
        notes
    }

    /// Appends what has ended to `done`.
    pub fn reap(&mut self, now: Instant, done: &mut Vec<LegDone>) {
        for index in 0..self.legs.len() {
            self.begin_due(now, LegId::new(index));
        }
        if let Some(ring) = &mut self.ring {
            ring.reap(&mut self.ready);
        }
        self.mailbox.take(&mut self.ready);
        self.reap_exports();
        for leg in &mut self.legs {
            if let Mover::Cached(cached) = &mut leg.mover {
                cached.write_back_due(now);
            }
        }
        if let Some(shadow) = &mut self.shadow {
            for ended in &self.ready {
                shadow.ended(&self.arena, ended.leg, ended.op, &ended.outcome);
            }
        }
        let before = done.len();
        if self.joined.is_empty() {
            done.append(&mut self.ready);
        } else {
            for ended in self.ready.drain(..) {
                let rest = self.joined.remove(&ended.op).unwrap_or_default();
                let with_others = rest.iter().map(|&op| LegDone {
                    op,
                    ..ended.clone()
                });
                let rest: Vec<LegDone> = with_others.collect();
                done.push(ended);
                done.extend(rest);
            }
        }
        self.outstanding_count -= done.len() - before;
    }

    /// Whether [`LegHub::reap`] has something to do, without asking the kernel; it may find that
    /// nothing has ended after all. Deadlines do not count.
    #[must_use]
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
            || self.mailbox.is_filled()
            || self.ring.as_ref().is_some_and(Ring::has_ready)
            || self.exports().any(NbdClient::has_ready)
    }

    /// Descriptors that are readable when there may be something to reap.
    #[must_use]
    pub fn fds(&self) -> Vec<BorrowedFd<'_>> {
        let ring = self.ring.as_ref().map(Ring::fd);
        let exports = self.exports().map(NbdClient::fd);
        ring.into_iter()
            .chain([self.mailbox.fd()])
            .chain(exports)
            .collect()
    }

    fn exports(&self) -> impl Iterator<Item = &NbdClient> {
        self.legs.iter().filter_map(|leg| match &leg.mover {
            Mover::Nbd(export) => Some(&**export),
            Mover::Memory(_) | Mover::File(_) | Mover::Cached(_) => None,
        })
    }

    fn reap_exports(&mut self) {
        for (index, leg) in self.legs.iter_mut().enumerate() {
            if let Mover::Nbd(export) = &mut leg.mover {
                let leg = LegId::new(index);
                let mut done = Vec::new();
                export.reap(&self.arena, &mut done);
                let done = done.into_iter();
                self.ready
                    .extend(done.map(|(op, outcome)| LegDone { leg, op, outcome }));
            }
        }
    }

    /// When to call [`LegHub::reap`] at the latest, whatever the descriptors say.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let delays = self.legs.iter().filter_map(|leg| leg.delay.as_ref());
        let write_backs = self.legs.iter().filter_map(|leg| match &leg.mover {
            Mover::Cached(cached) => cached.write_back_at,
            Mover::Memory(_) | Mover::File(_) | Mover::Nbd(_) => None,
        });
        let ends = delays.filter_map(DelayLine::next_event_at);
        ends.chain(write_backs).min()
    }

    /// How files and block devices are reached: `io_uring`, `threads: ` and why; or where there are
    /// none, `sockets` for exports, `threads: ` for write caches and `memory` for the rest.
    #[must_use]
    pub fn backend(&self) -> &str {
        &self.backend
    }

    /// How many operations were submitted and not yet reaped.
    #[must_use]
    pub const fn outstanding(&self) -> usize {
        self.outstanding_count
    }

    /// Begins what a model has held back until now.
    fn begin_due(&mut self, now: Instant, leg: LegId) {
        while let Some(delay) = &mut self.legs[leg.index()].delay {
            match delay.poll(now) {
                None => return,
                Some((io, Ok(()))) => self.begin(leg, io),
                Some((io, Err(kind))) => self.fail(leg, &io, kind),
            }
        }
    }

    fn fail(&mut self, leg: LegId, io: &LegIo, kind: ErrorKind) {
        self.ready.push(LegDone {
            leg,
            op: io.op,
            outcome: LegOutcome::Failed(kind),
        });
    }

    /// Gives an operation to who moves the bytes.
    fn begin(&mut self, leg: LegId, io: LegIo) {
        match (&mut self.legs[leg.index()].mover, &mut self.ring) {
            (Mover::Memory(memory), _) => self.ready.push(LegDone {
                leg,
                op: io.op,
                outcome: memory.perform(&self.arena, &io),
            }),
            // io_uring has no call that looks for holes.
            (Mover::File(_), Some(ring)) if io.kind != OpKind::BlockStatus => {
                ring.submit(leg, &io, &mut self.ready);
            }
            (Mover::File(workers), _) => workers.submit(io),
            (Mover::Cached(cached), _) => cached.workers.submit(io),
            (Mover::Nbd(export), _) => export.submit(io),
        }
    }
}

/// A ring where there are files and one can be had, and what to call what is used.
fn choose_backend(
    legs: &[OpenedLeg],
    files: &[Option<Arc<LegFile>>],
    arena: &Arc<Arena>,
    choice: IoChoice,
) -> (Option<Ring>, String) {
    if files.iter().all(Option::is_none) {
        let has = |is_kind: fn(&Store) -> bool| legs.iter().any(|leg| is_kind(&leg.store));
        let backend = if has(|store| matches!(store, Store::Nbd(_))) {
            "sockets"
        } else if has(|store| matches!(store, Store::Cached(_))) {
            "threads: one for each write cache"
        } else {
            "memory"
        };
        return (None, backend.to_owned());
    }
    if choice == IoChoice::ThreadPool {
        return (None, "threads: as asked for".to_owned());
    }
    match Ring::new(files, Arc::clone(arena)) {
        Ok(ring) => (Some(ring), "io_uring".to_owned()),
        Err(error) => (None, format!("threads: {}", why_no_ring(&error))),
    }
}

/// Why there is no io_uring, in words that help.
fn why_no_ring(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::NOSYS) => "this kernel has no io_uring".to_owned(),
        Some(Errno::PERM | Errno::ACCESS) => {
            "io_uring is forbidden here (kernel.io_uring_disabled, or a container's seccomp filter)"
                .to_owned()
        }
        _ => format!("io_uring cannot be set up: {error}"),
    }
}
