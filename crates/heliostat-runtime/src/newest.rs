//! Files of what is nice to have after a restart: a thread that keeps one, the newest content last,
//! for which nobody waits, and what was kept.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

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

/// What was kept in a file, in the layout of this version; `None` where there is none.
///
/// # Errors
/// Where it is of no use; the text says why, and begins with what is not known by that.
pub(crate) fn load<T: DeserializeOwned>(
    path: &Path,
    unknown: &str,
    version: impl FnOnce(&T) -> (u32, u32),
) -> Result<Option<T>, String> {
    let unusable = |problem: &dyn std::fmt::Display| {
        format!("{unknown}: {} cannot be used ({problem})", path.display())
    };
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|error| unusable(&error))?,
    };
    let file: T = serde_json::from_slice(&bytes).map_err(|error| unusable(&error))?;
    let (found, ours) = version(&file);
    if found != ours {
        return Err(unusable(&format!("it has version {found}")));
    }
    Ok(Some(file))
}

impl Drop for NewestWriter {
    fn drop(&mut self) {
        self.contents = None;
        // Late or stuck: the end of the daemon does not wait for it.
        let _ = self.finished.recv_timeout(CLOSE_MAX);
    }
}
