//! Lines for people on standard error, written by a thread of their own: a terminal that was
//! stopped, or a full pipe, must not stop the loop. On a terminal the last line shows how far
//! background work is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use heliostat_engine::Event;

use crate::progress_line::ProgressLine;
use crate::status::WorkStatus;

/// How many lines may wait to be written. A burst of failed reads makes about one line each; who
/// wants to know how many there were asks for the statistics.
const LINES_MAX: usize = 256;

/// How long the last lines may take at the end.
const CLOSE_MAX: Duration = Duration::from_millis(500);

/// What the thread is told.
enum Message {
    /// Write this line.
    Line(String),
    /// So far is background work, if there is any.
    Work(Option<WorkStatus>),
}

/// The sending end.
#[derive(Debug)]
pub(crate) struct Log {
    messages: Option<SyncSender<Message>>,
    /// Whether somebody at a terminal looks.
    is_watched: bool,
    lost: Arc<AtomicU64>,
    finished: Receiver<()>,
}

impl Log {
    /// Starts the writing thread. Every line begins with `prefix`.
    pub(crate) fn start(prefix: String) -> std::io::Result<Self> {
        let (messages, incoming) = sync_channel::<Message>(LINES_MAX);
        let (finish, finished) = mpsc::channel();
        let lost = Arc::new(AtomicU64::new(0));
        let lost_too = Arc::clone(&lost);
        let mut progress = ProgressLine::new();
        let is_watched = progress.is_terminal();
        std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || {
                for message in incoming {
                    match message {
                        Message::Line(line) => progress.line(&format!("{prefix}: {line}")),
                        Message::Work(Some(work)) => progress.show(&prefix, &work),
                        Message::Work(None) => progress.clear(),
                    }
                    let lost = lost_too.swap(0, Ordering::Relaxed);
                    if lost > 0 {
                        progress.line(&format!("{prefix}: ({lost} more lines were lost)"));
                    }
                }
                drop(progress);
                // The other end is gone when nobody waits for it.
                let _ = finish.send(());
            })?;
        Ok(Self {
            messages: Some(messages),
            is_watched,
            lost,
            finished,
        })
    }

    /// Writes a line soon; one too many at once is counted and dropped.
    pub(crate) fn line(&self, line: String) {
        if self.send(Message::Line(line)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether standard error is a terminal, so that [`Self::show`] is of use.
    pub(crate) const fn is_watched(&self) -> bool {
        self.is_watched
    }

    /// Whether what an event tells is shown in another way than by a line.
    pub(crate) const fn shows(&self, event: &Event) -> bool {
        self.is_watched && matches!(event, Event::BackgroundProgress { .. })
    }

    /// Shows how far background work is, if there is any.
    pub(crate) fn show(&self, work: Option<WorkStatus>) {
        // The next one comes soon.
        let _ = self.send(Message::Work(work));
    }

    fn send(&self, message: Message) -> Result<(), TrySendError<Message>> {
        let messages = self.messages.as_ref().expect("open until dropped");
        messages.try_send(message)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.messages = None;
        // Late or stuck: the end of the daemon does not wait for it.
        let _ = self.finished.recv_timeout(CLOSE_MAX);
    }
}
