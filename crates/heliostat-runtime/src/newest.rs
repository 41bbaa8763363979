//! A thread that keeps one file, the newest content last: for what is nice to have after a restart,
//! and what nobody waits for.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use serde::Serialize;

use crate::durable;

/// How long the last writing may take at the end.
const CLOSE_MAX: Duration = Duration::from_millis(500);

/// See the module.
#[derive(Debug)]
pub(crate) struct NewestWriter {
    contents: Option<Sender<Vec<u8>>>,
    finished: Receiver<()>,
}

impl NewestWriter {
    /// Starts the thread, which writes to `path`. `what` the file is for, where it cannot be
    /// written.
    pub(crate) fn start(path: PathBuf, what: &'static str) -> io::Result<Self> {
        let (contents, incoming) = channel::<Vec<u8>>();
        let (finish, finished) = channel();
        thread::Builder::new()
            .name("keeper".to_owned())
            .spawn(move || {
                let mut has_failed = false;
                while let Ok(first) = incoming.recv() {
                    let newest = incoming.try_iter().last().unwrap_or(first);
                    let written = durable::replace(&path, &newest);
                    if let Err(error) = &written
                        && !has_failed
                    {
                        // Where standard error is gone, there is nobody to tell.
                        let _ = writeln!(
                            io::stderr(),
                            "cannot keep {what}: {}: {error}",
                            path.display()
                        );
                    }
                    has_failed = written.is_err();
                }
                // The other end is gone when nobody waits for it.
                let _ = finish.send(());
            })?;
        Ok(Self {
            contents: Some(contents),
            finished,
        })
    }

    /// Has this written, as JSON, instead of what was not begun to be.
    pub(crate) fn write(&self, content: &impl Serialize) {
        let mut bytes = serde_json::to_vec_pretty(content).expect("a plain struct is JSON");
        bytes.push(b'\n');
        let contents = self.contents.as_ref().expect("open until dropped");
        // The thread ends only when this is dropped.
        let _ = contents.send(bytes);
    }
}

impl Drop for NewestWriter {
    fn drop(&mut self) {
        self.contents = None;
        // Late or stuck: the end of the daemon does not wait for it.
        let _ = self.finished.recv_timeout(CLOSE_MAX);
    }
}
