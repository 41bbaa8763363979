//! Threads that make the calls that block: a few for each leg, begun when they are needed.
//!
//! Each leg has its own, so that one that hangs takes no thread from the others. Nothing here
//! waits for a thread that is inside the kernel: one that hangs there keeps what it uses alive by
//! itself.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};

use heliostat_types::{ErrorKind, LegId, LegOpId};
use rustix::event::{EventfdFlags, eventfd};

use crate::api::{LegDone, LegIo, LegOutcome};
use crate::arena::Arena;
use crate::cache::CachedFile;
use crate::file::LegFile;

/// The most threads of one leg: enough that a drive has something to choose from, and few enough
/// that sixteen legs stay below common limits on threads.
pub(crate) const WORKERS_PER_LEG_MAX: usize = 16;

/// What the threads of a leg work on.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// A file or block device.
    File(Arc<LegFile>),
    /// A file behind a write cache.
    Cached(Arc<CachedFile>),
}

impl Target {
    fn perform(&self, arena: &Arena, io: &LegIo) -> LegOutcome {
        match self {
            Self::File(file) => file.perform(arena, io),
            Self::Cached(cached) => cached.perform(arena, io),
        }
    }

    /// How many threads can be busy with it at once.
    const fn threads_max(&self) -> usize {
        match self {
            Self::File(_) => WORKERS_PER_LEG_MAX,
            // One has the cache at a time, and then in the order in which it was asked.
            Self::Cached(_) => 1,
        }
    }
}

/// What a thread is to do.
#[derive(Debug)]
enum Task {
    /// Carry out an operation and report it.
    Io(LegIo),
    /// Let a cache write back what it wants to.
    WriteBack,
}

/// Where threads leave what they have done, for the loop to fetch.
#[derive(Debug)]
pub(crate) struct Mailbox {
    done: Mutex<Vec<LegDone>>,
    /// Whether `done` holds anything; set and cleared under its lock, read without.
    filled: AtomicBool,
    /// Readable while `done` holds anything.
    event: OwnedFd,
}

impl Mailbox {
    /// An empty one.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            done: Mutex::new(Vec::new()),
            filled: AtomicBool::new(false),
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// Readable while there is something to take.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Whether there is something to take.
    pub(crate) fn is_filled(&self) -> bool {
        self.filled.load(Ordering::Acquire)
    }

    /// Moves everything to the end of `done`.
    pub(crate) fn take(&self, done: &mut Vec<LegDone>) {
        if !self.is_filled() {
            return;
        }
        let mut waiting = locked(&self.done);
        done.append(&mut waiting);
        self.filled.store(false, Ordering::Release);
        // It counts to something, since it was filled; reading sets it back.
        let cleared = rustix::io::read(&self.event, &mut [0; 8]);
        debug_assert!(cleared.is_ok(), "the event of a filled mailbox is set");
    }

    fn put(&self, done: LegDone) {
        let mut waiting = locked(&self.done);
        waiting.push(done);
        if waiting.len() == 1 {
            self.filled.store(true, Ordering::Release);
            // Written under the lock, so that the event and `filled` never disagree.
            let told = rustix::io::write(&self.event, &1u64.to_ne_bytes());
            debug_assert!(told.is_ok(), "an event that was cleared can be set");
        }
    }
}

/// The threads of one leg.
#[derive(Debug)]
pub(crate) struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// What the threads of one leg share.
#[derive(Debug)]
struct Shared {
    leg: LegId,
    target: Target,
    arena: Arc<Arena>,
    mailbox: Arc<Mailbox>,
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// What waits for a thread.
#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Task>,
    /// Threads that are carrying something out.
    busy_count: usize,
    closed: bool,
}

impl Workers {
    /// Threads for a leg, none of them begun yet.
    pub(crate) fn new(
        leg: LegId,
        target: Target,
        arena: Arc<Arena>,
        mailbox: Arc<Mailbox>,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                leg,
                target,
                arena,
                mailbox,
                queue: Mutex::default(),
                changed: Condvar::new(),
            }),
            threads: Vec::new(),
        }
    }

    /// Hands in an operation; its completion will lie in the mailbox.
    pub(crate) fn submit(&mut self, io: LegIo) {
        self.hand_in(Task::Io(io));
    }

    /// Lets a cache write back what it wants to, when there is nothing else to do before.
    pub(crate) fn write_back(&mut self) {
        // What comes while it is busy would only pile up.
        if locked(&self.shared.queue).waiting.is_empty() {
            self.hand_in(Task::WriteBack);
        }
    }

    fn hand_in(&mut self, task: Task) {
        let mut queue = locked(&self.shared.queue);
        queue.waiting.push_back(task);
        let idle_count = self.threads.len() - queue.busy_count;
        let wants_thread = queue.waiting.len() > idle_count;
        drop(queue);
        self.shared.changed.notify_one();
        if wants_thread && self.threads.len() < self.shared.target.threads_max() {
            self.begin_thread();
        }
    }

    fn begin_thread(&mut self) {
        let shared = Arc::clone(&self.shared);
        let name = format!("leg-{}", shared.leg.index());
        match thread::Builder::new()
            .name(name)
            .spawn(move || shared.work())
        {
            Ok(thread) => self.threads.push(thread),
            Err(_) if self.threads.is_empty() => {
                // Nobody will ever come for what waits.
                for task in mem::take(&mut locked(&self.shared.queue).waiting) {
                    if let Task::Io(io) = task {
                        let outcome = LegOutcome::Failed(ErrorKind::NoMemory);
                        self.shared.report(io.op, outcome);
                    }
                }
            }
            Err(_) => {}
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let mut queue = locked(&self.shared.queue);
        queue.closed = true;
        queue.waiting.clear();
        let all_idle = queue.busy_count == 0;
        drop(queue);
        self.shared.changed.notify_all();
        if all_idle {
            // So that the file is closed when this returns, and can be opened again.
            for thread in self.threads.drain(..) {
                thread.join().expect("threads of a leg do not panic");
            }
        }
    }
}

impl Shared {
    fn work(&self) {
        while let Some(task) = self.next() {
            let done = match (task, &self.target) {
                (Task::Io(io), target) => Some((io.op, target.perform(&self.arena, &io))),
                (Task::WriteBack, Target::Cached(cached)) => {
                    cached.write_back();
                    None
                }
                (Task::WriteBack, Target::File(_)) => None,
            };
            // First, so that whoever has everything reported finds nobody busy.
            locked(&self.queue).busy_count -= 1;
            if let Some((op, outcome)) = done {
                self.report(op, outcome);
            }
        }
    }

    /// Waits for something to do; `None` when there will be nothing more.
    fn next(&self) -> Option<Task> {
        let mut queue = locked(&self.queue);
        loop {
            if queue.closed {
                return None;
            }
            if let Some(task) = queue.waiting.pop_front() {
                queue.busy_count += 1;
                return Some(task);
            }
            queue = self
                .changed
                .wait(queue)
                .expect("no thread panics while it holds the queue");
        }
    }

    fn report(&self, op: LegOpId, outcome: LegOutcome) {
        self.mailbox.put(LegDone {
            leg: self.leg,
            op,
            outcome,
        });
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .expect("no thread panics while it holds a lock")
}
