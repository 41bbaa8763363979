//! A thread that connects, so that the array's need not wait for it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use heliostat_types::{Extent, RandomStream};
use rustix::event::{EventfdFlags, eventfd};

use super::backoff::Backoff;
use super::dial::{Dialled, Target};
use super::witness::Witness;

/// What the thread is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Task {
    /// Comes back with what there is to tell of it.
    pub(super) epoch: u64,
    pub(super) kind: TaskKind,
    /// What the server has to have.
    pub(super) witnesses: Vec<Witness>,
    /// Whether its last connection was good for something: pauses begin with the shortest again.
    /// A server that lets everybody in and does nothing is not asked ten times a second.
    pub(super) is_server_good: bool,
}

/// How much depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskKind {
    /// Connect, however often that has to be tried.
    Reconnect,
    /// Connect once more to a server that is there; if it will not, or what it has to have changed
    /// meanwhile, do without.
    Extra,
}

/// What the thread has to tell.
#[derive(Debug)]
pub(super) enum News {
    /// It is connected.
    Connected(Dialled),
    /// An attempt failed, in another way than the one before it.
    Failed(String),
    /// An extra connection is not to be had.
    NoExtra,
    /// The server is there and has lost bytes of this extent.
    Forgot(Extent),
}

/// The thread of one leg, begun when there is first something to do.
#[derive(Debug)]
pub(super) struct Dialer {
    shared: Arc<Shared>,
    prng: Option<RandomStream>,
}

#[derive(Debug)]
struct Shared {
    target: Target,
    desk: Mutex<Desk>,
    changed: Condvar,
    /// Readable while there is news.
    event: OwnedFd,
}

#[derive(Debug, Default)]
struct Desk {
    tasks: Vec<Task>,
    news: Vec<(u64, News)>,
    closed: bool,
}

impl Dialer {
    /// One that has nothing to do. `prng` shortens its pauses.
    pub(super) fn new(target: Target, prng: RandomStream) -> std::io::Result<Self> {
        Ok(Self {
            shared: Arc::new(Shared {
                target,
                desk: Mutex::default(),
                changed: Condvar::new(),
                event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            }),
            prng: Some(prng),
        })
    }

    /// Readable while there is news.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.shared.event.as_fd()
    }

    /// Gives the thread something to do, after what it has to do already.
    pub(super) fn add(&mut self, task: Task) {
        let epoch = task.epoch;
        locked(&self.shared.desk).tasks.push(task);
        if let Some(prng) = self.prng.take() {
            let shared = Arc::clone(&self.shared);
            let begun = thread::Builder::new()
                .name("nbd-dialer".to_owned())
                .spawn(move || shared.work(Backoff::new(prng)));
            if let Err(error) = begun {
                let told = format!("no thread can be had to connect again ({error})");
                self.shared.tell(epoch, News::Failed(told));
            }
        }
        self.shared.changed.notify_one();
    }

    /// Takes what was told since the last call.
    pub(super) fn take_news(&self) -> Vec<(u64, News)> {
        let mut desk = locked(&self.shared.desk);
        // Under the lock, so that the event and the news never disagree; empty where there is none.
        let _ = rustix::io::read(&self.shared.event, &mut [0; 8]);
        std::mem::take(&mut desk.news)
    }
}

impl Drop for Dialer {
    fn drop(&mut self) {
        // It may be in the middle of an attempt, and is not waited for.
        locked(&self.shared.desk).closed = true;
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn work(&self, mut backoff: Backoff) {
        while let Some(task) = self.next_task() {
            match task.kind {
                TaskKind::Reconnect => self.reconnect(&mut backoff, &task),
                TaskKind::Extra => {
                    let news = match self.target.dial_known(&task.witnesses) {
                        Ok(Ok(dialled)) => News::Connected(dialled),
                        Ok(Err(_)) | Err(_) => News::NoExtra,
                    };
                    self.tell(task.epoch, news);
                }
            }
        }
    }

    fn reconnect(&self, backoff: &mut Backoff, task: &Task) {
        if task.is_server_good {
            backoff.reset();
        }
        let mut told = String::new();
        while self.pause(backoff.pause()) {
            match self.target.dial_known(&task.witnesses) {
                Ok(Ok(dialled)) => return self.tell(task.epoch, News::Connected(dialled)),
                Ok(Err(forgotten)) => return self.tell(task.epoch, News::Forgot(forgotten)),
                Err(error) => {
                    let error = error.to_string();
                    if error != told {
                        self.tell(task.epoch, News::Failed(error.clone()));
                        told = error;
                    }
                }
            }
        }
    }

    /// Waits; whether to go on.
    fn pause(&self, pause: Duration) -> bool {
        let desk = locked(&self.desk);
        let waited = self
            .changed
            .wait_timeout_while(desk, pause, |desk| !desk.closed)
            .expect("no thread panics while it holds the desk");
        !waited.0.closed
    }

    fn next_task(&self) -> Option<Task> {
        let mut desk = locked(&self.desk);
        loop {
            if desk.closed {
                return None;
            }
            if !desk.tasks.is_empty() {
                return Some(desk.tasks.remove(0));
            }
            desk = self
                .changed
                .wait(desk)
                .expect("no thread panics while it holds the desk");
        }
    }

    fn tell(&self, epoch: u64, news: News) {
        let mut desk = locked(&self.desk);
        desk.news.push((epoch, news));
        let told = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        debug_assert!(told.is_ok(), "an event that is read now and then takes one");
    }
}

fn locked(desk: &Mutex<Desk>) -> MutexGuard<'_, Desk> {
    desk.lock()
        .expect("no thread panics while it holds the desk")
}
