//! The thread that makes records durable. The loop hands it the newest one and goes on; it is told
//! when that one, and with it every one before, has reached the disk.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;
use std::{io, thread};

use crate::state::StateFile;
use crate::waker::Waker;

/// How long to wait after a failure before trying again. Writes to the array wait meanwhile, so it
/// is short; a full disk does not need more attempts than this.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// How long the thread may take to end.
const CLOSE_MAX: Duration = Duration::from_millis(500);

/// What became of a record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// The record of this generation is durable.
    Durable(u64),
    /// It could not be written, for this reason; it will be tried again.
    Failed(String),
}

/// The loop's end.
#[derive(Debug)]
pub(crate) struct StateWriter {
    shared: Arc<Shared>,
    written: Receiver<Written>,
}

#[derive(Debug)]
struct Shared {
    slot: Mutex<Slot>,
    changed: Condvar,
    waker: Waker,
}

#[derive(Debug, Default)]
struct Slot {
    /// The newest record that was not yet begun to be written.
    newest: Option<StateFile>,
    is_closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().expect("nobody panics while holding it")
    }
}

impl StateWriter {
    /// Starts the thread, which writes into `directory`.
    pub(crate) fn start(directory: PathBuf) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            slot: Mutex::default(),
            changed: Condvar::new(),
            waker: Waker::new()?,
        });
        let (sender, written) = mpsc::channel();
        let worker = Arc::clone(&shared);
        thread::Builder::new()
            .name("state".to_owned())
            .spawn(move || write_all(&worker, &directory, &sender))?;
        Ok(Self { shared, written })
    }

    /// Takes a record over; one that waits is forgotten, as only the newest one matters.
    pub(crate) fn write(&self, file: StateFile) {
        self.shared.lock().newest = Some(file);
        self.shared.changed.notify_one();
    }

    /// Readable when [`StateWriter::next_written`] has something to tell.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.shared.waker.as_fd()
    }

    /// To be called before [`StateWriter::next_written`] is asked until it has no more.
    pub(crate) fn clear_readiness(&self) {
        self.shared.waker.clear();
    }

    /// What became of records, in order; `None` when all was told.
    pub(crate) fn next_written(&self) -> Option<Written> {
        self.written.try_recv().ok()
    }
}

impl Drop for StateWriter {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_one();
        // The thread drops its sender at its end. One that hangs in the kernel is left behind.
        while self.written.recv_timeout(CLOSE_MAX).is_ok() {}
    }
}

/// What the thread does next.
enum Job {
    /// Write this.
    Write(StateFile),
    /// Try again what failed.
    Retry,
    /// End.
    End,
}

/// Waits for something to do; with `has_failed` no longer than until the next attempt.
fn next_job(shared: &Shared, has_failed: bool) -> Job {
    let mut slot = shared.lock();
    loop {
        if let Some(file) = slot.newest.take() {
            return Job::Write(file);
        }
        if slot.is_closed {
            return Job::End;
        }
        if has_failed {
            let told = shared.changed.wait_timeout(slot, RETRY_DELAY);
            let (again, timeout) = told.expect("nobody panics while holding it");
            slot = again;
            if timeout.timed_out() && slot.newest.is_none() {
                return Job::Retry;
            }
        } else {
            slot = shared
                .changed
                .wait(slot)
                .expect("nobody panics while holding it");
        }
    }
}

fn write_all(shared: &Shared, directory: &Path, sender: &Sender<Written>) {
    let mut failed: Option<StateFile> = None;
    loop {
        let file = match next_job(shared, failed.is_some()) {
            Job::Write(file) => file,
            Job::Retry => failed.take().expect("only what failed is tried again"),
            Job::End => return,
        };
        let told = match file.store(directory) {
            Ok(()) => {
                failed = None;
                Written::Durable(file.generation)
            }
            Err(error) => {
                let path = file.path_in(directory);
                failed = Some(file);
                Written::Failed(format!("cannot write {}: {error}", path.display()))
            }
        };
        // Nobody listens any more when the daemon is ending.
        let _ = sender.send(told);
        shared.waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::Duration;

    use super::{StateWriter, Written};
    use crate::export::Interest;
    use crate::poller::Poller;
    use crate::scratch::Scratch;
    use crate::state::{LegRecord, StateFile, find};

    fn file(generation: u64) -> StateFile {
        let leg = LegRecord {
            identity: "a".to_owned(),
            text: "/a".to_owned(),
            fault: None,
        };
        let mut file = StateFile::clean("disk", 4096, vec![leg]);
        file.generation = generation;
        file
    }

    /// Waits for the next word of the writer.
    fn next(writer: &StateWriter) -> Written {
        let mut poller = Poller::new().unwrap();
        poller.watch(writer.fd(), 0, Interest::READABLE).unwrap();
        loop {
            if let Some(written) = writer.next_written() {
                return written;
            }
            assert!(
                poller.wait(Some(Duration::from_secs(60))).unwrap() > 0,
                "it says nothing"
            );
            writer.clear_readiness();
        }
    }

    #[test]
    fn the_newest_record_becomes_durable() {
        let scratch = Scratch::new();
        let writer = StateWriter::start(scratch.path().to_owned()).unwrap();
        writer.write(file(1));
        writer.write(file(2));
        while next(&writer) != Written::Durable(2) {}
        let found = find(scratch.path(), &file(0)).unwrap();
        assert_eq!(found[0].file, file(2));
    }

    #[test]
    fn a_record_that_cannot_be_written_is_tried_again() {
        let scratch = Scratch::new();
        let place = scratch.path().join("absent");
        let writer = StateWriter::start(place.clone()).unwrap();
        writer.write(file(1));
        assert!(matches!(next(&writer), Written::Failed(text) if text.contains("absent")));
        std::fs::create_dir(&place).unwrap();
        while next(&writer) != Written::Durable(1) {}
    }
}
