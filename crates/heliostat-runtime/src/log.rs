//! Lines for people on standard error, written by a thread of their own: a terminal that was
//! stopped, or a full pipe, must not stop the loop.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// How many lines may wait to be written. A burst of failed reads makes about one line each; who
/// wants to know how many there were asks for the statistics.
const LINES_MAX: usize = 256;

/// How long the last lines may take at the end.
const CLOSE_MAX: Duration = Duration::from_millis(500);

/// The sending end.
#[derive(Debug)]
pub(crate) struct Log {
    lines: Option<SyncSender<String>>,
    lost: Arc<AtomicU64>,
    finished: Receiver<()>,
}

impl Log {
    /// Starts the writing thread. Every line begins with `prefix`.
    pub(crate) fn start(prefix: String) -> std::io::Result<Self> {
        let (lines, incoming) = sync_channel::<String>(LINES_MAX);
        let (finish, finished) = mpsc::channel();
        let lost = Arc::new(AtomicU64::new(0));
        let lost_too = Arc::clone(&lost);
        std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || {
                for line in incoming {
                    write_line(&prefix, &line);
                    let lost = lost_too.swap(0, Ordering::Relaxed);
                    if lost > 0 {
                        write_line(&prefix, &format!("({lost} more lines were lost)"));
                    }
                }
                // The other end is gone when nobody waits for it.
                let _ = finish.send(());
            })?;
        Ok(Self {
            lines: Some(lines),
            lost,
            finished,
        })
    }

    /// Writes a line soon; one too many at once is counted and dropped.
    pub(crate) fn line(&self, line: String) {
        let lines = self.lines.as_ref().expect("open until dropped");
        if lines.try_send(line).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.lines = None;
        // Late or stuck: the end of the daemon does not wait for it.
        let _ = self.finished.recv_timeout(CLOSE_MAX);
    }
}

fn write_line(prefix: &str, line: &str) {
    // There is nowhere to say that standard error is gone.
    let _ = writeln!(std::io::stderr(), "{prefix}: {line}");
}
