//! What happens when somebody stops the demo half way: nothing is left behind.

use std::fs;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::thread;

use anyhow::Context as _;
use heliostat_runtime::Signals;
use rustix::event::{PollFd, PollFlags, poll};

/// The exit code after a signal, as shells count: 128 and the number of SIGINT.
const INTERRUPTED: i32 = 130;

/// From now on, SIGINT, SIGTERM and SIGHUP remove `directory` and end the process. (The server dies
/// with it, by the kernel's hand.)
///
/// # Errors
/// Where signals cannot be had.
pub(super) fn remove_at_signal(directory: PathBuf) -> anyhow::Result<()> {
    let signals = Signals::take().context("cannot take signals")?;
    let watch = move || {
        let mut fds = [PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN)];
        while poll(&mut fds, None).is_err() {}
        // What cannot be removed is left to whoever cleans up temporary files.
        let _ = fs::remove_dir_all(&directory);
        #[expect(
            clippy::exit,
            reason = "the main thread is busy and has nothing to hand back"
        )]
        std::process::exit(INTERRUPTED)
    };
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(watch)
        .context("cannot start a thread")?;
    Ok(())
}
